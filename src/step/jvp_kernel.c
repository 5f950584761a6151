// Forward derivatives by complex step of the same source: value in the real part, derivative in the imaginary part.
#include "number/number.h"

#if PB_IS_COMPLEX

#include "math/vec.h"
#include "couple/attach.h"
#include "impact/impact_kernel.h"
#include "step/integrate.h"
#include "step/jvp.h"
#include "step/kernels.h"
#include "model/sphere.h"
#include "model/state_layout.h"

typedef struct jvp {
  pbWork_c w;
  num *theta;
  const double *couple_S, *couple_g, *couple_way, *couple_at;  // pbJvp_Couple
  num *couple;                                                 // nv
  double shrink, grow;  // of a direction on its way in, of derivatives on their way out; grow = 1 / shrink, powers of two
} jvp;

// The handle lies at the start of the block, theta and the work behind it.
static size_t head(const pbModel *m) { return (sizeof(jvp) + 63 + (m->ntheta + (size_t)m->nv) * sizeof(num) + 63) & ~(size_t)63; }

size_t pbJvp_Size(const pbModel *m, int contacts) {
  pbWork_c probe;
  return head(m) + pbWork_Carve_c(&probe, m, contacts, NULL) + 64;
}

void pbJvp_Carve(void *block, const pbModel *m, int contacts) {
  jvp *j = block;
  char *work = (char *)block + head(m);
  work += (64 - (size_t)work % 64) % 64;
  pbWork_Carve_c(&j->w, m, contacts, work);
  j->theta = (num *)((char *)block + ((sizeof(jvp) + 63) & ~(size_t)63));
  j->couple = j->theta + m->ntheta;
}

// ---- scale ----------------------------------------------------------------------------------------------------------
static double largest(double most, const double *v, size_t n) {
  for (size_t i = 0; v && i < n; i++) most = fmax(most, fabs(v[i]));
  return most;
}

// The imaginary step is right for directions of about unit size, so any other is brought there by a power of two, which
// changes no bit of what comes out.
static void set_scale(jvp *j, const pbDirection *d) {
  const pbModel *m = j->w.m;
  double most = largest(0, d->x, (size_t)pbModel_TangentSize(m));
  int exponent = 0;
  most = largest(most, d->ctrl, (size_t)m->nu);
  most = largest(most, d->qfrc, (size_t)m->nv);
  most = largest(most, d->xfrc, 6 * (size_t)m->nbody);
  most = largest(most, d->theta, m->ntheta);
  if (isfinite(most)) frexp(most, &exponent);
  exponent = exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent;  // both factors are normal numbers
  j->shrink = ldexp(1, -exponent);
  j->grow = ldexp(1, exponent);
}

static double step_in(const jvp *j, double slope) { return PB_IMAG_STEP * (slope * j->shrink); }
static double step_out(const jvp *j, double imaginary) { return imaginary / PB_IMAG_STEP * j->grow; }

// ---- in -------------------------------------------------------------------------------------------------------------
// out = value + i step slope, either of which may be missing.
static void blend(const jvp *j, num *out, const double *value, const double *slope, int n) {
  for (int i = 0; i < n; i++) out[i] = num_make(value ? value[i] : 0, slope ? step_in(j, slope[i]) : 0);
}

// Quaternions and axes move on their unit spheres: take the radial part out of the imaginary parts.
static void project(num *v, int rows, int cols) {
  for (int r = 0; r < rows; r++, v += cols) {
    double s = 0, n = 0;
    for (int c = 0; c < cols; c++) s += re(v[c]) * im(v[c]), n += re(v[c]) * re(v[c]);
    for (int c = 0; c < cols && n > 0; c++) v[c] = num_make(re(v[c]), im(v[c]) - re(v[c]) * s / n);
  }
}

static void load_theta(jvp *j, const double *theta, const double *direction) {
  const pbModel *m = j->w.m;
  for (size_t i = 0; i < m->ntheta; i++) j->theta[i] = num_make(theta[i], direction ? step_in(j, direction[i]) : 0);
  const pbTopology *t = j->w.t;
  for (const pbSphereRow *r = t->sphere; direction && r < t->sphere + t->nsphere; r++) project(j->theta + r->at, 1, r->size);
  par_view(&j->w.p, m, j->theta);
}

// qpos with a tangent: rotations by q (1, i t / 2); q of its length, so that kinematics gets the bits that the plain program got.
static void load_position(jvp *j, const double *qpos, const double *tangent) {
  const pbModel *m = j->w.m;
  blend(j, j->w.qpos, qpos, NULL, m->nq);
  for (int k = 0; tangent && k < m->njnt; k++) {
    num *q = j->w.qpos + m->jnt_qposadr[k];
    const double *t = tangent + m->jnt_dofadr[k];
    int type = m->jnt_type[k], n = type == pb_jntBall ? 0 : type == pb_jntFree ? 3 : 1;
    for (int i = 0; i < n; i++) q[i] = num_make(re(q[i]), step_in(j, t[i]));
    if (type != pb_jntBall && type != pb_jntFree) continue;
    q += n, t += n;
    num turn[4] = {1, num_make(0, 0.5 * step_in(j, t[0])), num_make(0, 0.5 * step_in(j, t[1])),
                   num_make(0, 0.5 * step_in(j, t[2]))};
    quat_mul(q, q, turn);
  }
}

// ---- out ------------------------------------------------------------------------------------------------------------
static void imaginary(const jvp *j, double *out, const num *x, int n) {
  for (int i = 0; out && i < n; i++) out[i] = step_out(j, im(x[i]));
}

// Tangent of the state after the step; a rotation's is twice the vector part of conj(q) dq.
static void read_next(const jvp *j, double *next) {
  const pbModel *m = j->w.m;
  for (int k = 0; k < m->njnt; k++) {
    const num *q = j->w.qpos + m->jnt_qposadr[k];
    double *t = next + m->jnt_dofadr[k];
    int type = m->jnt_type[k], n = type == pb_jntBall ? 0 : type == pb_jntFree ? 3 : 1;
    imaginary(j, t, q, n);
    if (type != pb_jntBall && type != pb_jntFree) continue;
    q += n, t += n;
    double a[4] = {re(q[0]), -re(q[1]), -re(q[2]), -re(q[3])}, d[4] = {im(q[0]), im(q[1]), im(q[2]), im(q[3])};
    t[0] = step_out(j, 2 * (a[0] * d[1] + a[1] * d[0] + a[2] * d[3] - a[3] * d[2]));
    t[1] = step_out(j, 2 * (a[0] * d[2] - a[1] * d[3] + a[2] * d[0] + a[3] * d[1]));
    t[2] = step_out(j, 2 * (a[0] * d[3] + a[1] * d[2] - a[2] * d[1] + a[3] * d[0]));
  }
  imaginary(j, next + m->nv, j->w.qvel, m->nv);
  imaginary(j, next + 2 * m->nv, j->w.act, m->na);
}

pbStatus pbJvp_Run(void *block, const double *theta, const double *x, const pbInput *input, double *stages, const pbDirection *d,
                   bool integrate, double *next, double *sensordata, double *xpos, double *site_xpos) {
  jvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  pbStateLayout at = state_layout(m);
  set_scale(j, d);
  load_theta(j, theta, d->theta);
  load_position(j, x + at.qpos, d->x);
  blend(j, w->qvel, x + at.qvel, d->x ? d->x + m->nv : NULL, m->nv);
  blend(j, w->act, x + at.act, d->x ? d->x + 2 * m->nv : NULL, m->na);
  blend(j, w->ctrl, input ? input->ctrl : NULL, d->ctrl, m->nu);
  blend(j, w->qfrc_applied, input ? input->qfrc : NULL, d->qfrc, m->nv);
  blend(j, w->xfrc_applied, input ? input->xfrc : NULL, d->xfrc, 6 * m->nbody);
  w->time = x[at.time];
  w->couple_S = j->couple_S;
  if (w->couple_S) {
    blend(j, j->couple, j->couple_g, j->couple_way, m->nv);
    w->couple_g = j->couple, w->couple_at = j->couple_at;
  }
  PB_TRY(pbStep_Run_c(w, stages, true, sensordata || xpos || site_xpos, integrate));
  if (next) read_next(j, next);
  imaginary(j, sensordata, w->sensordata, m->nsensordata);
  imaginary(j, xpos, w->seen_xpos, 3 * m->nbody);
  imaginary(j, site_xpos, w->seen_site, 3 * m->nsite);
  return pb_ok;
}

void pbJvp_Couple(void *block, const double *S, const double *g, const double *way, const double *at) {
  jvp *j = block;
  j->couple_S = S, j->couple_g = g, j->couple_way = way, j->couple_at = at;
}

void pbJvp_Acceleration(const void *block, double *way) {
  const jvp *j = block;
  imaginary(j, way, j->w.qacc, j->w.m->nv);
}

pbStatus pbJvp_Strike(void *block, const double *theta, const double *x, const pbDirection *d, int candidate, int hit,
                      double *gap, double *velocity) {
  jvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  pbStateLayout at = state_layout(m);
  pbStrike_c s;
  set_scale(j, d);
  load_theta(j, theta, d->theta);
  load_position(j, x + at.qpos, d->x);
  blend(j, w->qvel, x + at.qvel, d->x ? d->x + m->nv : NULL, m->nv);
  PB_TRY(pbImpact_Strike_c(w, candidate, hit, &s));
  imaginary(j, gap, &s.gap, 1);
  imaginary(j, velocity, w->qvel, m->nv);
  return pb_ok;
}

void pbJvp_Distances(const void *block, double *distances) {
  const jvp *j = block;
  for (int k = 0; k < j->w.nrow; k++) distances[k] = step_out(j, im(j->w.row[k].pos[0] - j->w.row[k].margin));
}

// ---- points on bodies -----------------------------------------------------------------------------------------------
size_t pbJvp_RideRoom(const pbModel *m, int count) { return (6 * (size_t)(count + m->nbody) + 2 * (size_t)m->nv) * sizeof(num); }

void pbJvp_RideTheta(void *block, const double *theta, const double *direction) {
  jvp *j = block;
  j->shrink = j->grow = 1;
  load_theta(j, theta, direction);
}

void pbJvp_RidePoke(void *block, const double *theta, size_t entry, int col, int cols, bool unit, double slope) {
  jvp *j = block;
  num *row = j->theta + entry - col;
  for (int c = 0; c < cols; c++) row[c] = num_make(theta[entry - (size_t)col + (size_t)c], c == col ? step_in(j, slope) : 0);
  if (unit) project(row, 1, cols);
}

// out = Jr(turn)' x, Jr the right Jacobian of the exponential.
static void right_jacobian(const num turn[3], const num x[3], num out[3]) {
  num t2 = v3_dot(turn, turn), b, c, y[3], yy[3];
  if (re(t2) < 1e-4) {  // series
    b = 0.5 - t2 / 24 * (1 - t2 / 30), c = 1. / 6 - t2 / 120 * (1 - t2 / 42);
  } else {
    num t = num_sqrt(t2);
    b = (1 - num_cos(t)) / t2, c = (t - num_sin(t)) / (t2 * t);
  }
  v3_cross(y, turn, x), v3_cross(yy, turn, y);
  for (int k = 0; k < 3; k++) out[k] = x[k] + b * y[k] + c * yy[k];
}

// tau by positions to tau by accelerations: h^2 times the derivative of the turn, where there is one.
static void by_acceleration(const pbModel *m, const num *u, num h, num *tau) {
  for (int k = 0; k < m->njnt; k++) {
    int dof = m->jnt_dofadr[k], type = m->jnt_type[k], n = type == pb_jntBall ? 0 : type == pb_jntFree ? 3 : 1;
    if (type == pb_jntBall || type == pb_jntFree) {
      num turn[3], t[3];
      v3_scale(turn, u + dof + n, h);
      right_jacobian(turn, tau + dof + n, t);
      v3_copy(tau + dof + n, t);
    }
  }
  for (int i = 0; i < m->nv; i++) tau[i] *= h * h;
}

static void both(const jvp *j, const num *z, int n, double *value, double *slope) {
  for (int i = 0; value && i < n; i++) value[i] = re(z[i]);
  imaginary(j, slope, z, n);
}

void pbJvp_Ride(void *block, const pbRide *r, const pbRideWay *way, double *x, double *x_way, double *tau, double *tau_way) {
  jvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  int n = 3 * r->at->count, nv = m->nv;
  num *local = r->room, *place = local + n, *wrench = place + n, *torque = wrench + 6 * m->nbody, *u = torque + nv;
  num h = w->p.timestep[0];
  load_position(j, r->qpos, way->q);
  blend(j, u, r->qvel, way->v, nv);
  for (int i = 0; i < nv; i++) u[i] += h * num_make(r->acc ? r->acc[i] : 0, way->acc ? step_in(j, way->acc[i]) : 0);
  if (!r->start) pbIntegrate_Position_c(m, w->qpos, u, h);
  pbStage_Kinematics_c(w);
  blend(j, local, r->local, way->local, n);
  pbAttach_Places_c(w, r->at, local, place);
  both(j, place, n, x, x_way);
  if (!r->force) return;
  pbAttach_Force_c(w, r->at, place, r->force, wrench, torque);
  by_acceleration(m, u, h, torque);
  both(j, torque, nv, tau, tau_way);
}

#endif
