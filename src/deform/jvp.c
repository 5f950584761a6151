// Forward derivative of a step: r(x; p) = 0 gives dx = -H^-1 (dr/dp) dp; (dr/dp) dp by the same programs in complex numbers.
// Tests: tests/unit/test_deform.c.
#include <string.h>

#include "deform/deform.h"
#include "energy/energy_inside.h"
#include "number/number.h"

// value + i PB_IMAG_STEP tangent; tangent NULL: zero.
static void load_complex(_Complex double *out, const double *value, const double *tangent, size_t count) {
  for (size_t i = 0; i < count; i++) {
    __real__ out[i] = value[i];
    __imag__ out[i] = tangent ? PB_IMAG_STEP * tangent[i] : 0;
  }
}

static _Complex double complex_of(double value, double tangent) {
  _Complex double z = value;
  __imag__ z = PB_IMAG_STEP * tangent;
  return z;
}

static const _Complex double *values_of(const pbDeformWork *w, const pbGroupParameter *p) {
  switch (p->source) {
    case pb_fromTheta: return w->complex_theta + p->offset;
    case pb_fromControl: return w->complex_control + p->offset;
    default: return w->complex_data + p->offset;
  }
}

static void locate_parameters(const pbDeformWork *w, const pbElementGroup *g, int first) {
  for (int i = 0; i < g->parameter_count; i++) {
    const pbGroupParameter *p = &g->parameter[i];
    w->stride[i] = p->rows > 1 ? p->size : 0;
    w->parameter_complex[i] = values_of(w, p) + (size_t)first * (size_t)w->stride[i];
  }
}

// out += scale * derivative of the gradients of a group's elements along what stands in the complex arrays.
static pbStatus push_group(pbDeformWork *w, const pbElementGroup *g, const pbComplexElements *at, double scale, double *out) {
  pbEnergyFault fault;

  for (int first = 0; first < g->count; first += PB_DEFORM_CHUNK) {
    locate_parameters(w, g, first);
    pbComplexElements in = *at;
    in.count = g->count - first < PB_DEFORM_CHUNK ? g->count - first : PB_DEFORM_CHUNK;
    in.vertex = g->vertex + (size_t)first * (size_t)g->points;

    if (!pbEnergy_EvaluateComplex(g->energy, &in, &(pbComplexOut){.gradient = w->complex_out}, w->energy_work, &fault))
      return pbDeform_Fail(w, pb_not_finite, "%s: element %d leaves the domain of its energy: %s", g->name, first + fault.element,
                           fault.what);

    // The imaginary part of the gradient at z + i eps dz is eps times its derivative along dz.
    for (int i = 0; i < in.count * g->points; i++) {
      for (int k = 0; k < 3; k++) out[3 * in.vertex[i] + k] += scale / PB_IMAG_STEP * __imag__ w->complex_out[3 * i + k];
    }
  }

  return pb_ok;
}

// The same of all groups: those of masses, or of energies.
static pbStatus push_groups(pbDeformWork *w, bool mass, const _Complex double *z, const _Complex double *y, _Complex double h,
                            _Complex double time, double scale, double *out) {
  const pbDeform *d = w->d;
  const pbComplexElements at = {.x = z,
                                .rest = w->complex_theta + pb_restAt,
                                .previous = y,
                                .parameter = w->parameter_complex,
                                .stride = w->stride,
                                .timestep = &h,
                                .time = &time};

  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    if (g->mass == mass) PB_TRY(push_group(w, g, &at, scale, out));
  }

  return pb_ok;
}

// Entry i of a tangent that may be NULL: zero.
static double entry(const double *tangent, int i) { return tangent ? tangent[i] : 0; }

// Tangents of masses: out (npoint).
static pbStatus push_masses(pbDeformWork *w, const pbDeformDirection *dir, double *out) {
  const pbDeform *d = w->d;

  memset(w->past_bar, 0, 3 * (size_t)d->npoint * sizeof(double));
  PB_TRY(push_groups(w, true, w->complex_theta + pb_restAt, w->complex_theta + pb_restAt, 0, 0, 1, w->past_bar));

  for (int i = 0; i < d->npoint; i++) {
    double listed = dir->theta ? dir->theta[pb_massAt(d) + (size_t)i] : 0;
    out[i] = d->attached_of[i] >= 0 ? 0 : w->past_bar[3 * i] + listed;
  }

  return pb_ok;
}

// a = M^-1 force(y; y - h v): its derivative to w->adjoint.
static pbStatus push_acceleration(pbDeformWork *w, const pbDeformDirection *dir, const double *mass) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  _Complex double h = complex_of(w->in.h, dir->h), time = w->in.time;

  __imag__ time = PB_IMAG_STEP * w->in.ticks * dir->h;
  memset(w->adjoint, 0, (size_t)n * sizeof(double));

  for (int i = 0; i < n; i++) {
    double dy = entry(dir->state, at.x + i), dv = entry(dir->state, at.v + i);
    w->complex_z[i] = complex_of(w->y[i], dy);
    w->complex_y[i] = complex_of(w->y[i] - w->in.h * w->v[i], dy - w->in.h * dv - dir->h * w->v[i]);
  }

  if (w->barrier) PB_TRY(pbDeformContact_Update(w, w->y));
  PB_TRY(push_groups(w, false, w->complex_z, w->complex_y, h, time, -1, w->adjoint));
  if (w->barrier) PB_TRY(pbDeformContact_Push(w, w->theta_dot, -1, w->adjoint, &h));

  // M a = force + M gravity: da = (dforce - dM (a - gravity)) / M + dgravity.
  for (int i = 0; i < n; i++) {
    double m = w->mass[i / 3];
    if (m > 0)
      w->adjoint[i] = (w->adjoint[i] - mass[i / 3] * (w->accel[i] - w->in.gravity[i % 3])) / m + entry(dir->gravity, i % 3);
  }

  return pb_ok;
}

// xhat = sum start[i] e[i]: its derivative to w->y_bar.
static void push_start(pbDeformWork *w, const double *state, const pbDeformDirection *dir) {
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(w->d);
  double h = w->in.h;

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    // Products with h: d(h v) = h dv + v dh.
    double sum = s->start[pb_pastX] * entry(dir->state, at.x + i) +
                 s->start[pb_pastV] * (h * entry(dir->state, at.v + i) + dir->h * w->v[i]);

    if (s->history)
      sum += s->start[pb_pastX1] * entry(dir->state, at.x1 + i) +
             s->start[pb_pastV1] * (h * entry(dir->state, at.v1 + i) + dir->h * state[at.v1 + i]);
    if (s->start[pb_pastA] != 0) sum += s->start[pb_pastA] * (h * h * w->adjoint[i] + 2 * h * dir->h * w->accel[i]);
    w->y_bar[i] = sum;
  }
}

// ago = sum coefficient[i] e[i] and its tangent, to w->complex_y.
static void push_ago(pbDeformWork *w, const double *coefficient, const double *ago, const pbDeformDirection *dir) {
  pbDeformState at = pbDeform_State(w->d);
  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double tangent = coefficient[pb_pastX] * entry(dir->state, at.x + i) +
                     coefficient[pb_pastV] * (w->in.h * entry(dir->state, at.v + i) + dir->h * w->v[i]);

    if (w->scheme->history) tangent += coefficient[pb_pastX1] * entry(dir->state, at.x1 + i);
    w->complex_y[i] = complex_of(ago[i], tangent);
  }
}

// Term t of the energies: z = b x + (1 - b) y, where x moves with what is fixed (w->z_bar) and not with what is free.
static pbStatus push_term(pbDeformWork *w, int t, const pbDeformDirection *dir) {
  static const double now[3] = {1, 0, 0};
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(w->d);
  double b = s->at[t], scale = -pbDeform_Scale(w) * s->weight[t] * b;
  _Complex double h = complex_of(w->in.h, dir->h), span = s->span * w->in.h, time = w->in.time + b * w->in.h;

  __imag__ span = PB_IMAG_STEP * s->span * dir->h;
  __imag__ time = PB_IMAG_STEP * (b + w->in.ticks) * dir->h;

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double z = b == 1 ? w->x[i] : b * w->x[i] + (1 - b) * w->y[i];
    w->complex_z[i] = complex_of(z, b * w->z_bar[i] + (1 - b) * entry(dir->state, at.x + i));
  }

  if (w->barrier) PB_TRY(pbDeformContact_Update(w, pbDeform_At(w, w->x, t)));

  // Energies take what the scheme says of the start of the step, contact y itself.
  push_ago(w, s->ago[t], pbDeform_Ago(w, t), dir);
  PB_TRY(push_groups(w, false, w->complex_z, w->complex_y, span, time, scale, w->step));
  push_ago(w, now, w->y, dir);
  if (w->barrier) PB_TRY(pbDeformContact_Push(w, w->theta_dot, scale, w->step, &h));

  return pb_ok;
}

// w->step := -dr along the direction, fixed coordinates moving with it (their dx in w->z_bar).
static pbStatus push_residual(pbDeformWork *w, const pbDeformDirection *dir, const double *mass) {
  const pbSchemeTable *s = w->scheme;
  double gravity = pbDeform_Scale(w) * pbScheme_ConstantWeight(s);

  // Masses, gravity and xhat. By the factor c h^2: at the solution c h^2 (...) = -M dx.
  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double m = w->mass[i / 3], dx = s->inertia ? w->x[i] - w->xhat[i] : 0, g = w->in.gravity[i % 3];
    w->step[i] = -mass[i / 3] * (dx - gravity * g) + gravity * m * entry(dir->gravity, i % 3);
    if (s->inertia) w->step[i] += m * w->y_bar[i] + 2 / w->in.h * dir->h * m * dx;
  }

  for (int t = 0; t < s->terms; t++) PB_TRY(push_term(w, t, dir));

  return pb_ok;
}

// h v+ = new x+ + sum next[i] e[i].
static void push_finish(pbDeformWork *w, const double *state, const double *next, const pbDeformDirection *dir, double *out) {
  const pbDeform *d = w->d;
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(d);
  double h = w->in.h;

  for (int i = 0; i < 3 * d->npoint; i++) {
    double dy = entry(dir->state, at.x + i), dv = entry(dir->state, at.v + i);

    // d(h v+) as in the primal; then dv+ = (d(h v+) - v+ dh) / h.
    double hv = s->new * w->step[i] + s->next[pb_pastX] * dy + s->next[pb_pastV] * (h * dv + dir->h * w->v[i]);

    if (s->history)
      hv += s->next[pb_pastX1] * entry(dir->state, at.x1 + i) +
            s->next[pb_pastV1] * (h * entry(dir->state, at.v1 + i) + dir->h * state[at.v1 + i]);

    out[at.x + i] = w->step[i];
    out[at.v + i] = pbDeform_IsFixed(d, i) ? dv : (hv - dir->h * next[at.v + i]) / h;

    // x1+ = x, v1+ = v.
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

  // Parameters and controls along their directions, constants along none.
  load_complex(w->complex_theta, w->in.theta, dir->theta, d->ntheta);
  load_complex(w->complex_control, w->in.control, dir->control, (size_t)d->ncontrol);
  load_complex(w->complex_data, d->data, NULL, d->ndata);
  w->theta_dot = dir->theta;

  // In the order of the step: masses, acceleration, xhat, then the residual.
  PB_TRY(push_masses(w, dir, mass));
  if (pbScheme_NeedsAcceleration(w->scheme)) PB_TRY(push_acceleration(w, dir, mass));
  push_start(w, state, dir);

  // Coordinates that are prescribed, x+ = x + h v, and attached points, which follow the bodies.
  for (int i = 0; i < n; i++) {
    double along = entry(dir->state, at.x + i) + w->in.h * entry(dir->state, at.v + i) + dir->h * w->v[i];
    w->z_bar[i] = pbDeform_IsFixed(d, i) ? along : 0;
  }

  if (attached_dot) {
    for (int i = 0; i < 3 * d->nattached; i++) w->z_bar[3 * d->attached[i / 3] + i % 3] = attached_dot[i];
  }

  if (w->scheme->implicit) return push_residual(w, dir, mass);

  // Explicit schemes: x+ = xhat.
  memcpy(w->step, w->y_bar, (size_t)n * sizeof(double));

  return pb_ok;
}

void pbDeform_JvpEnd(pbDeformWork *w, const double *state, const double *next, const pbDeformDirection *dir, double *out) {
  for (int i = 0; i < 3 * w->d->npoint; i++) w->step[i] = pbDeform_IsFixed(w->d, i) ? w->z_bar[i] : w->step[i];
  push_finish(w, state, next, dir, out);
}

static pbStatus push_step(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                          const pbDeformDirection *along, double *out) {
  pbDeformDirection led = *along;
  const pbDeformDirection *dir = &led;
  PB_TRY(pbDeform_Begin(w, in, state));
  led.state = pbDeformLead_Push(w, along);

  PB_TRY(pbDeform_JvpBegin(w, state, next, dir, NULL));
  if (w->scheme->implicit) {
    // dx = -H^-1 dr.
    PB_TRY(pbDeform_Factor(w));
    PB_TRY(pbDeform_Solve(w, false, w->step));
  }

  pbDeform_JvpEnd(w, state, next, dir, out);

  return pb_ok;
}

pbStatus pbDeform_Jvp(pbDeformWork *w, const pbDeformInput *in, const double *state, const double *next,
                      const pbDeformDirection *dir, double *out) {
  return pbDeform_Settle(w, push_step(w, in, state, next, dir, out));
}
