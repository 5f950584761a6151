// Forward derivative of a step: r(x; p) = 0 gives dx = -H^-1 (dr/dp) dp; (dr/dp) dp by the same programs in complex numbers.
#include <string.h>

#include "deform/deform.h"
#include "energy/energy_inside.h"
#include "number/number.h"

static void blend(_Complex double *out, const double *value, const double *slope, size_t count) {
  for (size_t i = 0; i < count; i++) {
    __real__ out[i] = value[i];
    __imag__ out[i] = slope ? PB_IMAG_STEP * slope[i] : 0;
  }
}

static void place(const pbDeformWork *w, const pbElementGroup *g, int first) {
  for (int i = 0; i < g->parameter_count; i++) {
    const pbGroupParameter *p = &g->parameter[i];
    const _Complex double *base = p->source == pb_fromTheta     ? w->complex_theta
                                  : p->source == pb_fromControl ? w->complex_control
                                                                : w->complex_data;

    w->stride[i] = p->rows > 1 ? p->size : 0;
    w->parameter_complex[i] = base + p->offset + (size_t)first * (size_t)w->stride[i];
  }
}

// out += scale * derivative of the sum of gradients of groups (masses or energies) along what stands in the complex arrays.
static pbStatus push(pbDeformWork *w, bool mass, const _Complex double *z, const _Complex double *y, _Complex double h,
                     _Complex double time, double scale, double *out) {
  const pbDeform *d = w->d;
  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    for (int first = 0; g->mass == mass && first < g->count; first += PB_DEFORM_CHUNK) {
      place(w, g, first);
      const int *vertex = g->vertex + (size_t)first * (size_t)g->points;
      int count = g->count - first < PB_DEFORM_CHUNK ? g->count - first : PB_DEFORM_CHUNK;
      pbComplexElements in = {.count = count,
                              .vertex = vertex,
                              .x = z,
                              .rest = w->complex_theta + pb_restAt,
                              .previous = y,
                              .parameter = w->parameter_complex,
                              .stride = w->stride,
                              .timestep = &h,
                              .time = &time};
      pbEnergyFault fault;
      if (!pbEnergy_EvaluateComplex(g->energy, &in, &(pbComplexOut){.gradient = w->complex_out}, w->energy_work, &fault))
        return pbDeform_Fail(w, pb_bad_input, "%s: element %d leaves the domain of its energy: %s", g->name,
                             first + fault.element, fault.what);

      for (int i = 0; i < count * g->points; i++) {
        for (int k = 0; k < 3; k++) out[3 * vertex[i] + k] += scale / PB_IMAG_STEP * __imag__ w->complex_out[3 * i + k];
      }
    }
  }

  return pb_ok;
}

static double part(const double *direction, int i) { return direction ? direction[i] : 0; }

// Directions of masses: out (npoint).
static pbStatus push_masses(pbDeformWork *w, const pbDeformDirection *dir, double *out) {
  const pbDeform *d = w->d;
  memset(w->past_bar, 0, 3 * (size_t)d->npoint * sizeof(double));
  PB_TRY(push(w, true, w->complex_theta + pb_restAt, w->complex_theta + pb_restAt, 0, 0, 1, w->past_bar));
  for (int i = 0; i < d->npoint; i++)
    out[i] = d->attached_of[i] >= 0 ? 0 : w->past_bar[3 * i] + (dir->theta ? dir->theta[pb_massAt(d) + (size_t)i] : 0);

  return pb_ok;
}

// a = M^-1 force(y; y - h v): its derivative to w->adjoint.
static pbStatus push_acceleration(pbDeformWork *w, const pbDeformDirection *dir, const double *mass) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  _Complex double h = w->in.h, time = w->in.time;

  __imag__ h = PB_IMAG_STEP * dir->h;
  __imag__ time = PB_IMAG_STEP * w->in.ticks * dir->h;
  memset(w->adjoint, 0, (size_t)n * sizeof(double));

  for (int i = 0; i < n; i++) {
    double dy = part(dir->state, at.x + i), dv = part(dir->state, at.v + i);
    __real__ w->complex_z[i] = w->y[i], __imag__ w->complex_z[i] = PB_IMAG_STEP * dy;
    __real__ w->complex_y[i] = w->y[i] - w->in.h * w->v[i];
    __imag__ w->complex_y[i] = PB_IMAG_STEP * (dy - w->in.h * dv - dir->h * w->v[i]);
  }

  if (w->barrier) PB_TRY(pbDeformContact_Update(w, w->y));
  PB_TRY(push(w, false, w->complex_z, w->complex_y, h, time, -1, w->adjoint));
  if (w->barrier) PB_TRY(pbDeformContact_Push(w, w->theta_dot, -1, w->adjoint, &h));

  for (int i = 0; i < n; i++) {
    double m = w->mass[i / 3];
    if (m > 0)
      w->adjoint[i] = (w->adjoint[i] - mass[i / 3] * (w->accel[i] - w->in.gravity[i % 3])) / m + part(dir->gravity, i % 3);
  }

  return pb_ok;
}

// xhat = sum start[i] e[i]: its derivative to w->y_bar.
static void push_start(pbDeformWork *w, const double *state, const pbDeformDirection *dir) {
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(w->d);
  double h = w->in.h;

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double sum = s->start[pb_pastX] * part(dir->state, at.x + i) +
                 s->start[pb_pastV] * (h * part(dir->state, at.v + i) + dir->h * w->v[i]);

    if (s->history)
      sum += s->start[pb_pastX1] * part(dir->state, at.x1 + i) +
             s->start[pb_pastV1] * (h * part(dir->state, at.v1 + i) + dir->h * state[at.v1 + i]);
    if (s->start[pb_pastA] != 0) sum += s->start[pb_pastA] * (h * h * w->adjoint[i] + 2 * h * dir->h * w->accel[i]);
    w->y_bar[i] = sum;
  }
}

// ago = sum coefficient[i] e[i] on its way, to w->complex_y.
static void push_ago(pbDeformWork *w, const double *coefficient, const double *ago, const pbDeformDirection *dir) {
  pbDeformState at = pbDeform_State(w->d);
  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double way = coefficient[pb_pastX] * part(dir->state, at.x + i) +
                 coefficient[pb_pastV] * (w->in.h * part(dir->state, at.v + i) + dir->h * w->v[i]);

    if (w->scheme->history) way += coefficient[pb_pastX1] * part(dir->state, at.x1 + i);
    __real__ w->complex_y[i] = ago[i], __imag__ w->complex_y[i] = PB_IMAG_STEP * way;
  }
}

// w->step := -dr along the direction, fixed coordinates moving with it (their dx in w->z_bar).
static pbStatus push_residual(pbDeformWork *w, const pbDeformDirection *dir, const double *mass) {
  const pbDeform *d = w->d;
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  double c = pbDeform_Scale(w), gravity = c * pbScheme_ConstantWeight(s);
  static const double now[3] = {1, 0, 0};

  for (int i = 0; i < n; i++) {
    double m = w->mass[i / 3], dx = s->inertia ? w->x[i] - w->xhat[i] : 0, g = w->in.gravity[i % 3];
    w->step[i] = -mass[i / 3] * (dx - gravity * g) + gravity * m * part(dir->gravity, i % 3);
    if (s->inertia) w->step[i] += m * w->y_bar[i] + 2 / w->in.h * dir->h * m * dx;
  }

  for (int t = 0; t < s->terms; t++) {
    double b = s->at[t];
    _Complex double h = w->in.h, span = s->span * w->in.h, time = w->in.time + b * w->in.h;

    __imag__ h = PB_IMAG_STEP * dir->h, __imag__ span = PB_IMAG_STEP * s->span * dir->h,
             __imag__ time = PB_IMAG_STEP * (b + w->in.ticks) * dir->h;
    for (int i = 0; i < n; i++) {
      double dy = part(dir->state, at.x + i);
      __real__ w->complex_z[i] = b == 1 ? w->x[i] : b * w->x[i] + (1 - b) * w->y[i];
      __imag__ w->complex_z[i] = PB_IMAG_STEP * (b * w->z_bar[i] + (1 - b) * dy);
    }

    if (w->barrier) PB_TRY(pbDeformContact_Update(w, pbDeform_At(w, w->x, t)));
    push_ago(w, s->ago[t], pbDeform_Ago(w, t), dir);
    PB_TRY(push(w, false, w->complex_z, w->complex_y, span, time, -c * s->weight[t] * b, w->step));
    push_ago(w, now, w->y, dir);
    if (w->barrier) PB_TRY(pbDeformContact_Push(w, w->theta_dot, -c * s->weight[t] * b, w->step, &h));
  }

  return pb_ok;
}

// h v+ = new x+ + sum next[i] e[i].
static void push_finish(pbDeformWork *w, const double *state, const double *next, const pbDeformDirection *dir, double *out) {
  const pbDeform *d = w->d;
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(d);
  double h = w->in.h;

  for (int i = 0; i < 3 * d->npoint; i++) {
    double dy = part(dir->state, at.x + i), dv = part(dir->state, at.v + i);
    double hv = s->new * w->step[i] + s->next[pb_pastX] * dy + s->next[pb_pastV] * (h * dv + dir->h * w->v[i]);

    if (s->history)
      hv += s->next[pb_pastX1] * part(dir->state, at.x1 + i) +
            s->next[pb_pastV1] * (h * part(dir->state, at.v1 + i) + dir->h * state[at.v1 + i]);
    out[at.x + i] = w->step[i];
    out[at.v + i] = pbDeform_IsFixed(d, i) ? dv : (hv - dir->h * next[at.v + i]) / h;

    if (at.tangent > 6 * d->npoint) {
      out[at.x1 + i] = dy;
      out[at.v1 + i] = dv;
    }
  }
}

pbStatus pbDeform_JvpBegin(pbDeformWork *w, const double *state, const double *next, const pbDeformDirection *dir,
                           const double *attached_dot) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  double *mass = w->mass_bar;

  memcpy(w->x, next + at.x, (size_t)n * sizeof(double));
  blend(w->complex_theta, w->in.theta, dir->theta, d->ntheta);
  blend(w->complex_control, w->in.control, dir->control, (size_t)d->ncontrol);
  blend(w->complex_data, d->data, NULL, d->ndata);
  w->theta_dot = dir->theta;
  PB_TRY(push_masses(w, dir, mass));
  if (pbScheme_NeedsAcceleration(w->scheme)) PB_TRY(push_acceleration(w, dir, mass));
  push_start(w, state, dir);
  for (int i = 0; i < n; i++)
    w->z_bar[i] =
        pbDeform_IsFixed(d, i) ? part(dir->state, at.x + i) + w->in.h * part(dir->state, at.v + i) + dir->h * w->v[i] : 0;
  for (int i = 0; attached_dot && i < 3 * d->nattached; i++) w->z_bar[3 * d->attached[i / 3] + i % 3] = attached_dot[i];
  if (w->scheme->implicit) return push_residual(w, dir, mass);
  memcpy(w->step, w->y_bar, (size_t)n * sizeof(double));

  return pb_ok;
}

void pbDeform_JvpEnd(pbDeformWork *w, const double *state, const double *next, const pbDeformDirection *dir, double *out) {
  for (int i = 0; i < 3 * w->d->npoint; i++) w->step[i] = pbDeform_IsFixed(w->d, i) ? w->z_bar[i] : w->step[i];
  push_finish(w, state, next, dir, out);
}

static pbStatus jvp(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                    const pbDeformDirection *dir, double *out) {
  PB_TRY(pbDeform_Begin(w, in, state));
  PB_TRY(pbDeform_JvpBegin(w, state, next, dir, NULL));
  if (w->scheme->implicit) {
    PB_TRY(pbDeform_Factor(w));
    PB_TRY(pbDeform_Solve(w, false, w->step));
  }

  pbDeform_JvpEnd(w, state, next, dir, out);
  return pb_ok;
}

pbStatus pbDeform_Jvp(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                      const pbDeformDirection *dir, double *out) {
  return pbDeform_Settle(w, jvp(w, in, state, next, dir, out));
}
