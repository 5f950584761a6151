// Gradients of sensors: each function pulls the cotangent of a sensor's value to what the value was made of (sensor.c).
// Frozen in the gradient by a frame's pose are the motions V, A, Vs as world vectors about ref, and interaction wrenches.
#include "eval/adjoint.h"
#include "model/equality_data.h"
#include "multibody/kink.h"
#include "multibody/sensor.h"
#include "multibody/spatial.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of this file only
#endif

#define TINY 1e-15  // MuJoCo's mjMINVAL

static bool is_zero(const lane *x, int n) {
  for (int i = 0; i < n; i++) {
    double part[PB_LANES];
    memcpy(part, x + i, sizeof part);
    for (int k = 0; k < PB_LANES; k++) {
      if (part[k] != 0) return false;
    }
  }
  return true;
}

static void pull_force(LANE(pbAdjoint) *a, const NUM(pbRow) *row, lane bar) {
  a->has_force = true;
  a->force[6 * (row - a->w->row)] += bar;
}

// ---- frames -----------------------------------------------------------------------------------------------------------
// A frame of a body with the cotangent of its pose so far: force on its origin, torque on its axes (world).
typedef struct seat {
  int type, id;
  NUM(pbSensorFrame) f;
  lane force[3], torque[3];
} seat;

static void seat_at(const LANE(pbAdjoint) *a, int type, int id, seat *s) {
  memset(s, 0, sizeof *s);
  s->type = type;
  s->id = id;
  NUM(pbSensor_Frame)(a->w, type, id, &s->f);
}

// Gradients by the frame's place in its body: position, and quaternion as 2 q (0, t) with t in the frame's own axes.
#define SEAT_THETA(a, s, field_pos, field_quat)                                                                                 \
  do {                                                                                                                          \
    const double *B = (a)->w->xmat + 9 * (s)->f.body, *R = (s)->f.mat, *q = (a)->w->p.field_quat + 4 * (s)->id;                 \
    double t[3];                                                                                                                \
    for (int k = 0; k < 3; k++) t[k] = PB_LANE0(R[k] * (s)->torque[0] + R[3 + k] * (s)->torque[1] + R[6 + k] * (s)->torque[2]); \
    for (int k = 0; k < 3; k++) {                                                                                               \
      PB_THETA(a, field_pos, 3 * (s)->id + k, B[k] * (s)->force[0] + B[3 + k] * (s)->force[1] + B[6 + k] * (s)->force[2]);      \
    }                                                                                                                           \
    if ((a)->theta) pb_quat_pull((a)->bar.field_quat + 4 * (s)->id, q, t);                                                      \
  } while (0)

static void seat_done(LANE(pbAdjoint) *a, const seat *s) {
  lane *P = a->P + 6 * s->f.body;
  PB_ADDWRENCH(P, 1, s->f.d, s->force);
  for (int k = 0; k < 3; k++) P[k] += s->torque[k];
  if (PB_LANES > 1 || !a->theta) return;
  if (s->type == pb_refSite) SEAT_THETA(a, s, site_pos, site_quat);
  if (s->type == pb_refGeom) SEAT_THETA(a, s, geom_pos, geom_quat);
  if (s->type == pb_refBody) SEAT_THETA(a, s, body_ipos, body_iquat);
  if (s->type == pb_refCamera) SEAT_THETA(a, s, cam_pos, cam_quat);
}

// u = V_lin + w x d, cotangent g: F_V += (d x g, g); shift of the point: g x w
static void pull_velocity(LANE(pbAdjoint) *a, seat *s, const lane g[3]) {
  lane *FV = a->FV + 6 * s->f.body;
  PB_ADDWRENCH(FV, 1, s->f.d, g);
  PB_ADDCROSS(s->force, 1, g, a->w->V + 6 * s->f.body);
}

// acc = A_lin + alpha x d + w x u
static void pull_acceleration(LANE(pbAdjoint) *a, seat *s, const lane g[3]) {
  const double *V = a->w->V + 6 * s->f.body, *A = a->w->A + 6 * s->f.body;
  lane *FA = a->FA + 6 * s->f.body, *FV = a->FV + 6 * s->f.body, gu[3];
  double u[3];
  a->has_FA = true;
  NUM(pbSensor_Velocity)(a->w, &s->f, u);
  PB_ADDWRENCH(FA, 1, s->f.d, g);
  PB_ADDCROSS(s->force, 1, g, A);
  PB_ADDCROSS(FV, 1, u, g);
  PB_CROSS(gu, g, V);
  pull_velocity(a, s, gu);
}

// ---- interaction wrenches ---------------------------------------------------------------------------------------------
// Bodies that cannot move, felt at body b under the motion s: u the velocity of their centre of mass p, their weight gives
// m A . u, the applied force and torque take f . u + t . s_ang off.
static void static_loads(LANE(pbAdjoint) *a, int b, const lane s[6]) {
  const NUM(pbWork) *w = a->w;
  const double *A = w->A + 3;
  for (int c = b; c < w->m->nbody; c++) {
    if (w->t->body_tree[c] >= 0 || !NUM(pbSensor_Below)(w->m, c, b)) continue;
    seat at;
    lane u[3];
    double mass = w->p.body_mass[c], load[3];
    const double *applied = w->xfrc_applied + 6 * c;
    seat_at(a, pb_refBody, c, &at);
    PB_POINTVEL(u, s, at.f.d);
    for (int k = 0; k < 3; k++) load[k] = mass * A[k] - applied[k];
    PB_ADDCROSS(at.force, 1, load, s);
    for (int k = 0; k < 3 && a->xfrc; k++) {
      a->xfrc[6 * c + k] -= u[k];
      a->xfrc[6 * c + 3 + k] -= s[k];
    }
    PB_THETA(a, body_mass, c, A[0] * u[0] + A[1] * u[1] + A[2] * u[2]);
    if (!(w->m->disableflags & pb_disGravity)) {
      for (int k = 0; k < 3; k++) PB_THETA(a, gravity, k, -mass * u[k]);
    }
    seat_done(a, &at);
  }
}

// The sensor's value is s . (wrench that holds the body). Loads on the world itself do not count, so there s goes to what
// stands in it.
static void pull_hold(LANE(pbAdjoint) *a, int body, const lane s[6]) {
  const NUM(pbWork) *w = a->w;
  for (int b = 1; body == 0 && b < w->m->nbody; b++) {
    lane X[6];
    int tree = w->t->body_tree[b];
    if (w->m->body_parentid[b] != 0) continue;
    memcpy(X, s, sizeof X);
    if (tree >= 0) PB_ADDCROSS(X + 3, 1, s, w->ref + 3 * tree);
    pull_hold(a, b, X);
  }
  if (body == 0) return;
  a->has_Vs = true;
  for (int k = 0; k < 6; k++) a->Vs[6 * body + k] -= s[k];
  if (w->t->body_tree[body] < 0) static_loads(a, body, s);
}

// Motion that the sensors' Vs give to a body, about its ref.
static void hold_motion(const LANE(pbAdjoint) *a, int body, lane X[6]) {
  const NUM(pbWork) *w = a->w;
  int tree = w->t->body_tree[body];
  memset(X, 0, 6 * sizeof *X);
  for (int b = body; b > 0; b = w->m->body_parentid[b]) {
    const lane *s = a->Vs + 6 * b;
    for (int k = 0; k < 6; k++) X[k] += s[k];
    if (tree >= 0 && w->t->body_tree[b] < 0) PB_ADDCROSS(X + 3, 1, s, w->ref + 3 * tree);
  }
}

// ---- spatial tendons under force and torque sensors -------------------------------------------------------------------
typedef struct segment {
  seat s1, s2;
  double dir[3], length, divisor;
  int pulley;  // station of the divisor, -1
} segment;

static bool next_segment(const LANE(pbAdjoint) *a, int tendon, int *i, segment *g) {
  const NUM(pbWork) *w = a->w;
  int site[2];
  if (!NUM(pbSensor_Segment)(w, tendon, i, site, &g->divisor)) return false;
  for (g->pulley = *i - 2; g->pulley >= w->m->tendon_adr[tendon] && w->m->wrap_type[g->pulley] != pb_wrapPulley; g->pulley--) {
  }
  if (g->pulley < w->m->tendon_adr[tendon]) g->pulley = -1;
  seat_at(a, pb_refSite, site[0], &g->s1);
  seat_at(a, pb_refSite, site[1], &g->s2);
  for (int k = 0; k < 3; k++) g->dir[k] = g->s2.f.pos[k] - g->s1.f.pos[k];
  g->length = sqrt(PB_DOT3(g->dir, g->dir));
  if (g->length < TINY || g->s1.f.body == g->s2.f.body) return next_segment(a, tendon, i, g);
  for (int k = 0; k < 3; k++) g->dir[k] = g->dir[k] / g->length;
  return true;
}

// Cotangents of the direction and length of a segment, to its ends.
static void pull_segment(LANE(pbAdjoint) *a, segment *g, const lane dir[3], lane length) {
  lane along = PB_DOT3(g->dir, dir);
  for (int k = 0; k < 3; k++) {
    lane F = (dir[k] - along * g->dir[k]) / g->length + length * g->dir[k];
    g->s1.force[k] -= F;
    g->s2.force[k] += F;
  }
  seat_done(a, &g->s1);
  seat_done(a, &g->s2);
}

// Power of a tension under the sensors' motions: T sum dir . (u2 - u1) / divisor. Returns its derivative by T.
static lane tension_power(LANE(pbAdjoint) *a, int tendon, double T) {
  lane rate = {0};
  segment g = {.divisor = 1};
  for (int i = a->w->m->tendon_adr[tendon]; next_segment(a, tendon, &i, &g);) {
    lane X1[6], X2[6], u1[3], u2[3], zero = {0};
    double pull[3];
    for (int k = 0; k < 3; k++) pull[k] = T / g.divisor * g.dir[k];
    hold_motion(a, g.s1.f.body, X1);
    hold_motion(a, g.s2.f.body, X2);
    PB_POINTVEL(u1, X1, g.s1.f.d);
    PB_POINTVEL(u2, X2, g.s2.f.d);
    for (int k = 0; k < 3; k++) u2[k] = u2[k] - u1[k];
    lane part = PB_DOT3(g.dir, u2) / g.divisor;
    rate += part;
    if (g.pulley >= 0) PB_THETA(a, wrap_prm, g.pulley, part * (-T / g.divisor));
    PB_ADDCROSS(g.s1.force, -1, pull, X1);
    PB_ADDCROSS(g.s2.force, 1, pull, X2);
    for (int k = 0; k < 3; k++) u2[k] = u2[k] * (T / g.divisor);
    pull_segment(a, &g, u2, zero);
  }
  return rate;
}

// Acceleration of a tendon's length: sum (dir . (a2 - a1) + (|v|^2 - (dir . v)^2) / length) / divisor; cotangent c.
static double pull_tendon_acceleration(LANE(pbAdjoint) *a, int tendon, lane c) {
  double sum = 0;
  segment g = {.divisor = 1};
  for (int i = a->w->m->tendon_adr[tendon]; next_segment(a, tendon, &i, &g);) {
    double v1[3], v[3], a1[3], acc[3];
    NUM(pbSensor_Velocity)(a->w, &g.s1.f, v1);
    NUM(pbSensor_Velocity)(a->w, &g.s2.f, v);
    NUM(pbSensor_Acceleration)(a->w, &g.s1.f, a1);
    NUM(pbSensor_Acceleration)(a->w, &g.s2.f, acc);
    for (int k = 0; k < 3; k++) v[k] = v[k] - v1[k];
    for (int k = 0; k < 3; k++) acc[k] = acc[k] - a1[k];
    double along = PB_DOT3(g.dir, v), turn = PB_DOT3(v, v) - along * along,
           part = (PB_DOT3(g.dir, acc) + turn / g.length) / g.divisor;
    lane push[3], back[3], dir[3], cd = c / g.divisor;
    sum += part;
    if (g.pulley >= 0) PB_THETA(a, wrap_prm, g.pulley, c * (-part / g.divisor));
    for (int k = 0; k < 3; k++) push[k] = cd * g.dir[k];
    for (int k = 0; k < 3; k++) back[k] = -push[k];
    pull_acceleration(a, &g.s2, push);
    pull_acceleration(a, &g.s1, back);
    for (int k = 0; k < 3; k++) push[k] = cd * (2 * (v[k] - along * g.dir[k]) / g.length);
    for (int k = 0; k < 3; k++) back[k] = -push[k];
    pull_velocity(a, &g.s2, push);
    pull_velocity(a, &g.s1, back);
    for (int k = 0; k < 3; k++) dir[k] = cd * (acc[k] - 2 * along * v[k] / g.length);
    pull_segment(a, &g, dir, cd * (-turn / (g.length * g.length)));
  }
  return sum;
}

static void pull_spring(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbWork) *w = a->w;
  double length = w->ten_length[k], lower = w->p.tendon_lengthspring[2 * k], upper = w->p.tendon_lengthspring[2 * k + 1];
  if (w->m->disableflags & pb_disSpring) return;
  double x = tendon_stretch(w, k), share[2];
  band_shares(length, lower, upper, share);
  double c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
  double slope = pb_polynomialSlope(c, x, false);
  a->ten_len[k] -= T * (slope * (share[0] + share[1]));
  for (int side = 0; side < 2; side++) PB_THETA(a, tendon_lengthspring, 2 * k + side, T * (slope * share[side]));
  PB_THETA(a, tendon_stiffness, k, T * -x);
  PB_THETA(a, tendon_stiffnesspoly, 2 * k, T * (-x * x));
  PB_THETA(a, tendon_stiffnesspoly, 2 * k + 1, T * (-x * x * x));
}

static void pull_damper(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbWork) *w = a->w;
  double c[3], v = w->ten_velocity[k], speed = fabs(v);
  if (w->m->disableflags & pb_disDamper) return;
  NUM(pbTendon_Damping)(w, k, c);
  a->ten_vel[k] -= T * pb_polynomialSlope(c, v, true);
  PB_THETA(a, tendon_damping, k, T * -v);
  PB_THETA(a, tendon_dampingpoly, 2 * k, T * (-v * speed));
  PB_THETA(a, tendon_dampingpoly, 2 * k + 1, T * (-v * v * v));
  for (int i = w->t->ten_actuator_start[k]; i < w->t->ten_actuator_start[k + 1]; i++) {
    int u = w->t->ten_actuator[i];
    double gear = w->p.actuator_gear[6 * u], g2 = gear * gear;
    double own[3] = {w->p.actuator_damping[u], w->p.actuator_dampingpoly[2 * u], w->p.actuator_dampingpoly[2 * u + 1]};
    PB_THETA(a, actuator_damping, u, T * (-v * g2));
    PB_THETA(a, actuator_dampingpoly, 2 * u, T * (-v * speed * g2));
    PB_THETA(a, actuator_dampingpoly, 2 * u + 1, T * (-v * v * v * g2));
    PB_THETA(a, actuator_gear, 6 * u, T * (-2 * gear * v * pb_polynomialForce(own, v, true)));
  }
}

static void pull_armature(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbWork) *w = a->w;
  double armature = NUM(pbTendon_Armature)(w, k), rate = pull_tendon_acceleration(a, k, T * -armature);
  PB_THETA(a, tendon_armature, k, T * -rate);
  for (int i = w->t->ten_actuator_start[k]; i < w->t->ten_actuator_start[k + 1]; i++) {
    int u = w->t->ten_actuator[i];
    double gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, T * (-rate * gear * gear));
    PB_THETA(a, actuator_gear, 6 * u, T * (-2 * rate * gear * w->p.actuator_armature[u]));
  }
}

// An equality's row couples the tendon by 1 - P'(x) where it is the second of the pair.
static void pull_coupling(LANE(pbAdjoint) *a, int row, int tendon, lane T) {
  const NUM(pbWork) *w = a->w;
  int e = w->row[row].equality;
  pull_force(a, w->row + row, T * NUM(pbSensor_Coupling)(w, e, tendon));
  if (w->m->eq_type[e] != pb_eqTendon || w->m->eq_obj2id[e] != tendon) return;
  const double *c = w->p.eq_data + pbCoupling_Polycoef(e);
  double x = w->ten_length[tendon] - w->p.tendon_length0[tendon], f = w->row[row].f[0];
  double bend = 2 * c[2] + x * (6 * c[3] + x * 12 * c[4]), power = 1;
  a->ten_len[tendon] -= T * (f * bend);
  PB_THETA(a, tendon_length0, tendon, T * (f * bend));
  for (int i = 1; i <= 4; i++, power *= x) PB_THETA(a, eq_data, pbCoupling_Polycoef(e) + i, T * (-f * i * power));
}

static void pull_tension(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  pull_spring(a, k, T);
  pull_damper(a, k, T);
  pull_armature(a, k, T);
  for (int u = 0; u < m->nu; u++) {
    if (m->actuator_trntype[u] != pb_trnTendon || m->actuator_trnid[2 * u] != k) continue;
    a->act_force[u] += T * w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_gear, 6 * u, T * w->actuator_force[u]);
  }
  for (int r = 0; r < w->nrow; r++) {
    const NUM(pbRow) *row = w->row + r;
    if (row->kind == pb_rowEquality) pull_coupling(a, r, k, T);
    if (row->kind == pb_rowFriction && row->tendon == k) pull_force(a, row, T);
    if (row->kind == pb_rowLimit && row->tendon == k) pull_force(a, row, T * -(double)row->side);
  }
  if (loss_acts(m) && !(w->p.tendon_frictionloss[k] > 0))
    PB_THETA(a, tendon_frictionloss, k, T * -loss_sign(w, m->nv + k, w->qacc));
}

static void tendons_under_holds(LANE(pbAdjoint) *a) {
  const pbModel *m = a->w->m;
  for (int k = 0; k < m->ntendon; k++) {
    if (m->wrap_type[m->tendon_adr[k]] == pb_wrapJoint) continue;
    lane T = tension_power(a, k, NUM(pbSensor_Tension)(a->w, k));
    if (!is_zero(&T, 1)) pull_tension(a, k, T);
  }
}

// ---- sensors of sites and frames --------------------------------------------------------------------------------------
// g = mat y, y' = mat' g
static void to_world(lane g[3], const double *mat, const lane y[3]) {
  for (int k = 0; k < 3; k++) g[k] = mat[3 * k] * y[0] + mat[3 * k + 1] * y[1] + mat[3 * k + 2] * y[2];
}

// y = mat' v: the frame's axes take G x v, the vector G.
static void site_adjoint(LANE(pbAdjoint) *a, int type, int site, const lane y[3]) {
  const NUM(pbWork) *w = a->w;
  seat s;
  seat_at(a, pb_refSite, site, &s);
  int b = s.f.body;
  const double *hold = w->cfrc_int + 6 * b, *d = s.f.d;
  double v[3];
  lane G[3], motion[6] = {0};
  to_world(G, s.f.mat, y);
  switch (type) {
    case pb_sensAccelerometer:
      NUM(pbSensor_Acceleration)(w, &s.f, v);
      pull_acceleration(a, &s, G);
      break;
    case pb_sensVelocimeter:
      NUM(pbSensor_Velocity)(w, &s.f, v);
      pull_velocity(a, &s, G);
      break;
    case pb_sensGyro:
      for (int k = 0; k < 3; k++) v[k] = w->V[6 * b + k];
      for (int k = 0; k < 3; k++) a->FV[6 * b + k] += G[k];
      break;
    case pb_sensForce:
      for (int k = 0; k < 3; k++) v[k] = hold[3 + k];
      for (int k = 0; k < 3; k++) motion[3 + k] = G[k];
      pull_hold(a, b, motion);
      break;
    case pb_sensTorque:  // tau - d x f: the motion turns about the site
      for (int k = 0; k < 3; k++) v[k] = hold[k];
      PB_ADDCROSS(v, -1, d, hold + 3);
      for (int k = 0; k < 3; k++) motion[k] = G[k];
      PB_CROSS(motion + 3, d, G);
      pull_hold(a, b, motion);
      PB_ADDCROSS(s.force, 1, G, hold + 3);
      break;
    default:
      for (int k = 0; k < 3; k++) v[k] = w->p.magnetic[k];
      for (int k = 0; k < 3; k++) PB_THETA(a, magnetic, k, G[k]);
  }
  PB_ADDCROSS(s.torque, 1, G, v);
  seat_done(a, &s);
}

// r = a* b (conjugate of a), and r = a b*
static void quat_left(lane r[4], const double *p, const lane *b) {
  r[0] = p[0] * b[0] + p[1] * b[1] + p[2] * b[2] + p[3] * b[3];
  r[1] = p[0] * b[1] - p[1] * b[0] - p[2] * b[3] + p[3] * b[2];
  r[2] = p[0] * b[2] - p[2] * b[0] - p[3] * b[1] + p[1] * b[3];
  r[3] = p[0] * b[3] - p[3] * b[0] - p[1] * b[2] + p[2] * b[1];
}
static void quat_right(lane r[4], const lane *b, const double *p) {
  r[0] = p[0] * b[0] + p[1] * b[1] + p[2] * b[2] + p[3] * b[3];
  r[1] = p[0] * b[1] - p[1] * b[0] - (b[2] * p[3] - b[3] * p[2]);
  r[2] = p[0] * b[2] - p[2] * b[0] - (b[3] * p[1] - b[1] * p[3]);
  r[3] = p[0] * b[3] - p[3] * b[0] - (b[1] * p[2] - b[2] * p[1]);
}

// y = r* o: o turns by y (0, t/2), r by -(0, t/2) y, each in its own axes.
static void framequat_adjoint(LANE(pbAdjoint) *a, int i, const lane bar[4]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  seat o, ref;
  double qo[4], y[4];
  lane t[4], half[3];
  bool relative = m->sensor_refid[i] >= 0;
  seat_at(a, m->sensor_objtype[i], m->sensor_objid[i], &o);
  NUM(pbSensor_Quat)(w, o.type, o.id, qo);
  memcpy(y, qo, sizeof y);
  if (relative) {
    double r[4];
    seat_at(a, m->sensor_reftype[i], m->sensor_refid[i], &ref);
    NUM(pbSensor_Quat)(w, ref.type, ref.id, r);
    y[0] = r[0] * qo[0] + r[1] * qo[1] + r[2] * qo[2] + r[3] * qo[3];
    y[1] = r[0] * qo[1] - r[1] * qo[0] - r[2] * qo[3] + r[3] * qo[2];
    y[2] = r[0] * qo[2] - r[2] * qo[0] - r[3] * qo[1] + r[1] * qo[3];
    y[3] = r[0] * qo[3] - r[3] * qo[0] - r[1] * qo[2] + r[2] * qo[1];
    quat_right(t, bar, y);
    for (int k = 0; k < 3; k++) half[k] = -0.5 * t[1 + k];
    to_world(ref.torque, ref.f.mat, half);
    seat_done(a, &ref);
  }
  quat_left(t, y, bar);
  for (int k = 0; k < 3; k++) half[k] = 0.5 * t[1 + k];
  to_world(o.torque, o.f.mat, half);
  seat_done(a, &o);
}

// z = v - v_r + arm x w_r; cotangent G
static void linvel_adjoint(LANE(pbAdjoint) *a, seat *o, seat *ref, const lane G[3], double z[3]) {
  NUM(pbSensor_Velocity)(a->w, &o->f, z);
  pull_velocity(a, o, G);
  if (!ref) return;
  const double *wr = a->w->V + 6 * ref->f.body;
  double u[3], arm[3];
  lane back[3], *FV = a->FV + 6 * ref->f.body;
  for (int k = 0; k < 3; k++) back[k] = -G[k];
  pull_velocity(a, ref, back);
  NUM(pbSensor_Velocity)(a->w, &ref->f, u);
  for (int k = 0; k < 3; k++) arm[k] = o->f.pos[k] - ref->f.pos[k];
  for (int k = 0; k < 3; k++) z[k] = z[k] - u[k];
  PB_ADDCROSS(z, 1, arm, wr);
  PB_ADDCROSS(o->force, 1, wr, G);
  PB_ADDCROSS(ref->force, -1, wr, G);
  PB_ADDCROSS(FV, 1, G, arm);
}

static void frame_adjoint(LANE(pbAdjoint) *a, int i, int type, const lane y[3]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  seat o, ref;
  lane G[3];
  double z[3] = {0};  // the sensor's vector before it is turned into the reference frame
  bool relative = m->sensor_refid[i] >= 0 && type != pb_sensFramelinacc && type != pb_sensFrameangacc;
  seat_at(a, m->sensor_objtype[i], m->sensor_objid[i], &o);
  for (int k = 0; k < 3; k++) G[k] = y[k];
  if (relative) {
    seat_at(a, m->sensor_reftype[i], m->sensor_refid[i], &ref);
    to_world(G, ref.f.mat, y);
  }
  switch (type) {
    case pb_sensFramepos:
      for (int k = 0; k < 3; k++) o.force[k] += G[k];
      if (!relative) break;
      for (int k = 0; k < 3; k++) z[k] = o.f.pos[k] - ref.f.pos[k];
      for (int k = 0; k < 3; k++) ref.force[k] += -G[k];
      break;
    case pb_sensFramexaxis:
    case pb_sensFrameyaxis:
    case pb_sensFramezaxis:
      for (int k = 0; k < 3; k++) z[k] = o.f.mat[3 * k + type - pb_sensFramexaxis];
      PB_ADDCROSS(o.torque, 1, z, G);
      break;
    case pb_sensFramelinvel: linvel_adjoint(a, &o, relative ? &ref : NULL, G, z); break;
    case pb_sensFrameangvel:
      for (int k = 0; k < 3; k++) a->FV[6 * o.f.body + k] += G[k];
      if (!relative) break;
      for (int k = 0; k < 3; k++) z[k] = w->V[6 * o.f.body + k] - w->V[6 * ref.f.body + k];
      for (int k = 0; k < 3; k++) a->FV[6 * ref.f.body + k] += -G[k];
      break;
    case pb_sensFramelinacc: pull_acceleration(a, &o, G); break;
    default:
      for (int k = 0; k < 3; k++) a->FA[6 * o.f.body + k] += G[k];
  }
  seat_done(a, &o);
  if (!relative) return;
  PB_ADDCROSS(ref.torque, 1, G, z);
  seat_done(a, &ref);
}

// ---- subtrees ---------------------------------------------------------------------------------------------------------
// com = sum m x / M
static void com_adjoint(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  const NUM(pbWork) *w = a->w;
  const double *com = w->subtree_com + 3 * b;
  double M = w->p.body_subtreemass[b];
  for (int j = b; j < w->m->nbody; j++) {
    if (!NUM(pbSensor_Below)(w->m, j, b) || (M < TINY && j > b)) continue;
    seat s;
    seat_at(a, pb_refBody, j, &s);
    double share = M < TINY ? 1 : w->p.body_mass[j] / M;
    for (int k = 0; k < 3; k++) s.force[k] = g[k] * share;
    if (M >= TINY) PB_THETA(a, body_mass, j, PB_DOT3(s.f.pos, g) / M);
    seat_done(a, &s);
  }
  if (M >= TINY) PB_THETA(a, body_subtreemass, b, -PB_DOT3(com, g) / M);
}

// vel = sum m v / M
static void linvel_of_subtree_adjoint(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  const NUM(pbWork) *w = a->w;
  const double *vel = w->subtree_linvel + 3 * b;
  double M = fmax(TINY, w->p.body_subtreemass[b]);
  for (int j = b; j < w->m->nbody; j++) {
    if (!NUM(pbSensor_Below)(w->m, j, b)) continue;
    seat s;
    lane share[3];
    double v[3];
    seat_at(a, pb_refBody, j, &s);
    NUM(pbSensor_Velocity)(w, &s.f, v);
    for (int k = 0; k < 3; k++) share[k] = g[k] * (w->p.body_mass[j] / M);
    pull_velocity(a, &s, share);
    PB_THETA(a, body_mass, j, PB_DOT3(v, g) / M);
    seat_done(a, &s);
  }
  if (M > TINY) PB_THETA(a, body_subtreemass, b, -PB_DOT3(vel, g) / M);
}

// Spin R diag(I) R' w of one body, cotangent g.
static void spin_adjoint(LANE(pbAdjoint) *a, seat *s, const lane g[3]) {
  const double *R = s->f.mat, *I = a->w->p.body_inertia + 3 * s->id, *V = a->w->V + 6 * s->f.body;
  double wl[3], spin[3];
  lane gl[3], Jg[3];
  for (int k = 0; k < 3; k++) wl[k] = R[k] * V[0] + R[3 + k] * V[1] + R[6 + k] * V[2];
  for (int k = 0; k < 3; k++) gl[k] = R[k] * g[0] + R[3 + k] * g[1] + R[6 + k] * g[2];
  for (int k = 0; k < 3; k++) PB_THETA(a, body_inertia, 3 * s->id + k, gl[k] * wl[k]);
  for (int k = 0; k < 3; k++) wl[k] = wl[k] * I[k];
  for (int k = 0; k < 3; k++) gl[k] = gl[k] * I[k];
  for (int k = 0; k < 3; k++) spin[k] = R[3 * k] * wl[0] + R[3 * k + 1] * wl[1] + R[3 * k + 2] * wl[2];
  to_world(Jg, R, gl);
  for (int k = 0; k < 3; k++) a->FV[6 * s->f.body + k] += Jg[k];
  PB_ADDCROSS(s->torque, 1, spin, g);
  PB_ADDCROSS(s->torque, 1, Jg, V);
}

// m (x - c) x v of one body, cotangent g.
static void orbit_adjoint(LANE(pbAdjoint) *a, seat *s, const double *c, const lane g[3]) {
  double mass = a->w->p.body_mass[s->id], arm[3], v[3], turn[3];
  lane gv[3] = {0};
  for (int k = 0; k < 3; k++) arm[k] = s->f.pos[k] - c[k];
  NUM(pbSensor_Velocity)(a->w, &s->f, v);
  PB_CROSS(turn, arm, v);
  PB_THETA(a, body_mass, s->id, PB_DOT3(turn, g));
  PB_ADDCROSS(s->force, mass, v, g);
  PB_ADDCROSS(gv, mass, g, arm);
  pull_velocity(a, s, gv);
}

// Excess of mass e c x vel of subtree j (see sensor.c); e = m_j + sum of children's M - M_j.
static void excess_adjoint(LANE(pbAdjoint) *a, int j, int b, const lane g[3]) {
  const NUM(pbWork) *w = a->w;
  const double *c = w->subtree_com + 3 * j, *vel = w->subtree_linvel + 3 * j;
  double turn[3], mass = w->p.body_subtreemass[j], e = (j ? w->p.body_mass[j] : 0) - mass;
  PB_CROSS(turn, c, vel);
  lane each = PB_DOT3(turn, g);
  if (j) PB_THETA(a, body_mass, j, each);
  PB_THETA(a, body_subtreemass, j, -each);
  for (int i = j + 1; i < w->m->nbody; i++) {
    if (w->m->body_parentid[i] != j) continue;
    e += w->p.body_subtreemass[i];
    PB_THETA(a, body_subtreemass, i, each);
  }
  lane gc[3] = {0}, gs[3] = {0};
  if (fabs(e) > 1e-12 * mass) {
    PB_ADDCROSS(gc, e, vel, g);
    PB_ADDCROSS(gs, e, g, c);
    linvel_of_subtree_adjoint(a, j, gs);
  }
  if (j == b) PB_ADDCROSS(gc, fmax(TINY, mass), g, vel);  // c_b in the orbits: -sum m v x g
  if (j == b || fabs(e) > 1e-12 * mass) com_adjoint(a, j, gc);
}

static void angmom_adjoint(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  for (int j = b; j < a->w->m->nbody; j++) {
    if (!NUM(pbSensor_Below)(a->w->m, j, b)) continue;
    seat s;
    seat_at(a, pb_refBody, j, &s);
    spin_adjoint(a, &s, g);
    orbit_adjoint(a, &s, a->w->subtree_com + 3 * b, g);
    seat_done(a, &s);
    excess_adjoint(a, j, b, g);
  }
}

// ---- sensors of joints, tendons, actuators, rows ----------------------------------------------------------------------
// Axis v / |v| of a ball joint's rotation vector v, cotangent c, to the tangent: inverse right Jacobian, transposed.
static void ball_axis_adjoint(const LANE(pbAdjoint) *a, int j, const lane c[3], lane *out) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *row = NUM(pbSensor_Limit)(w, j);
  double angle = fmax(w->p.jnt_range[2 * j], w->p.jnt_range[2 * j + 1]) - row->pos[0], v[3], g;
  lane p[3], t[3];
  if (angle < 1e-8) return;
  for (int k = 0; k < 3; k++) v[k] = -angle * w->row_J[row->J + k];
  lane along = PB_DOT3(v, c) / (angle * angle);
  for (int k = 0; k < 3; k++) p[k] = (c[k] - along * v[k]) / angle;
  g = (1 - 0.5 * angle / tan(0.5 * angle)) / (angle * angle);
  for (int k = 0; k < 3; k++) out[k] += p[k];
  PB_ADDCROSS(out, -0.5, v, p);
  PB_CROSS(t, v, p);
  PB_ADDCROSS(out, g, v, t);
}

static void joint_limit_adjoint(LANE(pbAdjoint) *a, int type, int j, lane bar) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *row = NUM(pbSensor_Limit)(w, j);
  if (!row) return;
  const int *dofs = w->row_dofs + row->dofs;
  const double *J = w->row_J + row->J;
  if (type == pb_sensJointlimitfrc) {
    pull_force(a, row, bar);
  } else if (type == pb_sensJointlimitvel) {
    lane c[3] = {0};
    for (int i = 0; i < row->n; i++) a->v[dofs[i]] += bar * J[i];
    if (row->n != 3) return;
    for (int k = 0; k < 3; k++) c[k] = bar * -w->qvel[dofs[k]];
    ball_axis_adjoint(a, j, c, a->q + dofs[0]);
  } else {
    const double *range = w->p.jnt_range + 2 * j;
    int side = row->n == 3 ? range[0] < range[1] : row->side > 0;
    double sign = row->n == 3 ? 1 : row->side;
    for (int i = 0; i < row->n; i++) a->q[dofs[i]] += bar * J[i];
    PB_THETA(a, jnt_range, 2 * j + side, bar * sign);
    PB_THETA(a, jnt_margin, j, -bar);
  }
}

static void tendon_limit_adjoint(LANE(pbAdjoint) *a, int type, int k, lane bar) {
  const NUM(pbRow) *row = NUM(pbSensor_Limit)(a->w, a->w->m->njnt + k);
  if (!row) return;
  double side = row->side;
  if (type == pb_sensTendonlimitfrc) {
    pull_force(a, row, bar);
  } else if (type == pb_sensTendonlimitvel) {
    a->ten_vel[k] -= bar * side;
  } else {
    a->ten_len[k] -= bar * side;
    PB_THETA(a, tendon_range, 2 * k + (side > 0), bar * side);
    PB_THETA(a, tendon_margin, k, -bar);
  }
}

static void ballquat_adjoint(LANE(pbAdjoint) *a, int j, const lane bar[4]) {
  const double *q = a->w->qpos + a->w->m->jnt_qposadr[j];
  double y[4], n = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  lane t[4];
  if (n < TINY) return;
  for (int k = 0; k < 4; k++) y[k] = q[k] / n;
  quat_left(t, y, bar);
  for (int k = 0; k < 3; k++) a->q[a->w->m->jnt_dofadr[j] + k] += 0.5 * t[1 + k];
}

static void scalar_adjoint(LANE(pbAdjoint) *a, int type, int id, const lane *bar) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  switch (type) {
    case pb_sensTouch:
      for (int k = 0; k < w->nrow; k++) {
        if (NUM(pbSensor_Touches)(w, w->row + k, id)) pull_force(a, w->row + k, bar[0]);
      }
      break;
    case pb_sensJointpos: a->q[m->jnt_dofadr[id]] += bar[0]; break;
    case pb_sensJointvel: a->v[m->jnt_dofadr[id]] += bar[0]; break;
    case pb_sensTendonpos: a->ten_len[id] += bar[0]; break;
    case pb_sensTendonvel: a->ten_vel[id] += bar[0]; break;
    case pb_sensActuatorpos: a->act_len[id] += bar[0]; break;
    case pb_sensActuatorvel:
      if (!(m->disableflags & pb_disActuation)) a->act_vel[id] += bar[0];
      break;
    case pb_sensActuatorfrc: a->act_force[id] += bar[0]; break;
    case pb_sensJointactuatorfrc: a->qfrc_actuator[m->jnt_dofadr[id]] += bar[0]; break;
    case pb_sensTendonactuatorfrc:
      for (int u = 0; u < m->nu; u++) {
        if (m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == id) a->act_force[u] += bar[0];
      }
      break;
    case pb_sensBallquat: ballquat_adjoint(a, id, bar); break;
    case pb_sensBallangvel:
      for (int k = 0; k < 3; k++) a->v[m->jnt_dofadr[id] + k] += bar[k];
      break;
    case pb_sensJointlimitpos:
    case pb_sensJointlimitvel:
    case pb_sensJointlimitfrc: joint_limit_adjoint(a, type, id, bar[0]); break;
    case pb_sensTendonlimitpos:
    case pb_sensTendonlimitvel:
    case pb_sensTendonlimitfrc: tendon_limit_adjoint(a, type, id, bar[0]); break;
    default: break;  // the clock: on the steps before this one (rollout/clock.c)
  }
}

// ---- all --------------------------------------------------------------------------------------------------------------
static void sensor_adjoint(LANE(pbAdjoint) *a, int i, const lane *bar) {
  int type = a->w->m->sensor_type[i], id = a->w->m->sensor_objid[i];
  if (type == pb_sensSubtreecom) {
    com_adjoint(a, id, bar);
  } else if (type == pb_sensSubtreelinvel) {
    linvel_of_subtree_adjoint(a, id, bar);
  } else if (type == pb_sensSubtreeangmom) {
    angmom_adjoint(a, id, bar);
  } else if (type == pb_sensFramequat) {
    framequat_adjoint(a, i, bar);
  } else if (type >= pb_sensFramepos && type <= pb_sensFrameangacc) {
    frame_adjoint(a, i, type, bar);
  } else if (type >= pb_sensAccelerometer && type <= pb_sensMagnetometer) {
    site_adjoint(a, type, id, bar);
  } else {
    scalar_adjoint(a, type, id, bar);
  }
}

// Values at the cutoff: what reaches them goes to sensor_cutoff.
static void pull_cutoff(LANE(pbAdjoint) *a, int i, int dim, lane *bar) {
  const NUM(pbWork) *w = a->w;
  double cutoff = w->p.sensor_cutoff[i];
  int datatype = w->m->sensor_datatype[i];
  if (!(cutoff > 0) || (datatype != pb_dataReal && datatype != pb_dataPositive)) return;
  for (int k = 0; k < dim; k++) {
    double y = w->sensordata[w->m->sensor_adr[i] + k];
    int side = y >= cutoff ? 1 : y <= -cutoff && datatype == pb_dataReal ? -1 : 0;
    if (!side) continue;
    PB_THETA(a, sensor_cutoff, i, bar[k] * (double)side);
    bar[k] = (lane){0};
  }
}

void LANE(pbSensor_Adjoint)(LANE(pbAdjoint) *a, const lane *bar) {
  const pbModel *m = a->w->m;
  bool holds = false;
  if (m->disableflags & pb_disSensor) return;
  for (int i = 0; i < m->nsensor; i++) {
    lane y[4] = {0};
    int dim = m->sensor_dim[i] < 4 ? m->sensor_dim[i] : 4;
    for (int k = 0; k < dim; k++) y[k] = bar[m->sensor_adr[i] + k];
    if (is_zero(y, dim)) continue;
    pull_cutoff(a, i, dim, y);
    holds = holds || m->sensor_type[i] == pb_sensForce || m->sensor_type[i] == pb_sensTorque;
    sensor_adjoint(a, i, y);
  }
  if (holds) tendons_under_holds(a);
}
