// Connect and weld: two points stay together, and so do two orientations.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/conformance/test_step.c.
#include <pullback/equalities.h>

#include "bodies/row.h"
#include "contact/row_build.h"
#include "math/vec.h"
#include "model/equality_data.h"
#include "multibody/equality.h"
#include "multibody/spatial.h"

// vec(conj(q2) x q1) for a pure quaternion x: how angular rates enter a weld's orientation residual (twice).
static void relative_rate(num out[3], const num q2[4], const num x[3], const num q1[4]) {
  num c[4], t[4];
  quat_conj(c, q2);
  quat_mulaxis(t, c, x);
  quat_mul(c, t, q1);
  v3_set(out, c[1], c[2], c[3]);
}

// Acceleration of a point and its body at zero joint acceleration, without gravity.
static void drift(const NUM(pbConstraints) *w, int body, const num p[3], num lin[3], num ang[3]) {
  num d[3], u[3], t[3];
  body_offset(&w->mechanism, body, p, d);
  const num *V = w->V + 6 * body;
  const num *A = w->A0 + 6 * body;

  // A + w x u, less gravity, which A0 holds as an acceleration of the world.
  PB_POINTVEL(u, V, d);
  PB_POINTVEL(lin, A, d);
  v3_cross(t, V, u);
  v3_addto(lin, t);
  v3_subfrom(lin, w->A0 + 3);
  v3_copy(ang, A);
}

// Both ends of a connect or weld.
typedef struct ends {
  int body[2];
  num p1[3], p2[3], q1[4], q2[4];
  num scale;  // of a weld's rotational rows
} ends;

static ends find_ends(const NUM(pbConstraints) *w, int equality) {
  ends e = {.scale = w->p.eq_data[pbWeld_Torquescale(equality)]};
  NUM(pbEquality_Ends)(&w->mechanism, equality, e.body, e.p1, e.p2, e.q1, e.q2);
  return e;
}

// aref -= (d/dt J) v of connect and weld; rotational rows: of scale / 2 vec(conj(q2) (w1 - w2) q1).
static void subtract_drift(const NUM(pbConstraints) *w, NUM(pbRow) *r, const ends *e) {
  num l1[3], a1[3], l2[3], a2[3];
  drift(w, e->body[0], e->p1, l1, a1);
  drift(w, e->body[1], e->p2, l2, a2);
  for (int k = 0; k < 3; k++) r->aref[k] -= l1[k] - l2[k];
  if (r->dim < 6) return;

  // The angular accelerations ...
  const num *w1 = w->V + 6 * e->body[0];
  const num *w2 = w->V + 6 * e->body[1];
  num rel[3], t[3], half[4], dq[4];
  v3_sub(rel, w1, w2);
  v3_sub(a1, a1, a2);
  relative_rate(t, e->q2, a1, e->q1);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * e->scale;

  // ... and the rates of both orientations, dq/dt = w q / 2.
  quat_set(half, 0, 0.5 * w2[0], 0.5 * w2[1], 0.5 * w2[2]);
  quat_mul(dq, half, e->q2);
  relative_rate(t, dq, rel, e->q1);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * e->scale;

  quat_set(half, 0, 0.5 * w1[0], 0.5 * w1[1], 0.5 * w1[2]);
  quat_mul(dq, half, e->q1);
  relative_rate(t, e->q2, rel, dq);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * e->scale;
}

// Jacobian of the relative motion at both ends.
static void fill_relative_jacobian(NUM(pbConstraints) *w, NUM(pbRow) *r, const ends *e) {
  int *dofs = w->row_dofs + r->dofs;
  int n = NUM(pbRow_Chains)(w, e->body[0], e->body[1], false, dofs);
  num *J = NUM(pbRow_Claim)(w, r, n);
  num d1[3], d2[3];

  body_offset(&w->mechanism, e->body[0], e->p1, d1);
  body_offset(&w->mechanism, e->body[1], e->p2, d2);

  // Columns: velocity of the anchors against each other, and the rate of the orientation residual.
  for (int i = 0; i < n; i++) {
    num lin[3] = {0}, ang[3] = {0}, rotation[3];
    if (pb_moves(w, dofs[i], e->body[0])) pb_add_column(w, dofs[i], d1, 1, lin, ang);
    if (pb_moves(w, dofs[i], e->body[1])) pb_add_column(w, dofs[i], d2, -1, lin, ang);
    for (int k = 0; k < 3; k++) J[k * n + i] = lin[k];

    if (r->dim < 6) continue;
    relative_rate(rotation, e->q2, ang, e->q1);
    for (int k = 0; k < 3; k++) J[(3 + k) * n + i] = 0.5 * e->scale * rotation[k];
  }
}

// pos = p1 - p2; welds: and scale vec(conj(q2) q1).
static void hold(NUM(pbConstraints) *w, int equality) {
  bool weld = w->m->eq_type[equality] == pb_eqWeld;
  NUM(pbRow) *r = NUM(pbRow_New)(w, pb_rowEquality, equality, weld ? 6 : 3);
  ends e = find_ends(w, equality);

  v3_sub(r->pos, e.p1, e.p2);
  if (weld) {
    num c[4], t[4];
    quat_conj(c, e.q2);
    quat_mul(t, c, e.q1);
    v3_scale(r->pos + 3, t + 1, e.scale);
  }
  fill_relative_jacobian(w, r, &e);

  // diagApprox: the inverse weights of both bodies, of translation or rotation.
  for (int k = 0; k < r->dim; k++) {
    int rotational = k > 2;
    r->diag[k] = w->p.body_invweight0[2 * e.body[0] + rotational] + w->p.body_invweight0[2 * e.body[1] + rotational];
  }

  // A row that nothing moves is taken back.
  int before = w->nrow;
  NUM(pbRow_Finish)(w, r, w->p.eq_solref + 2 * equality, w->p.eq_solimp + 5 * equality);
  if (w->nrow == before) subtract_drift(w, r, &e);
}
PB_ROW(ends, .hold = hold);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/row_adjoint.h"

typedef LANE(pbRowBar) row_bar;

// q2 (0, r) conj(q1): torque on the relative rotation whose weld row has the cotangent r.
static void weld_torque(const num q2[4], const lane r[3], const num q1[4], lane out[4]) {
  num c[4] = {q1[0], -q1[1], -q1[2], -q1[3]};
  lane t[4];
  PB_QUATPURE(t, q2, r);
  PB_QUATMUL(out, t, c);
}

static void relative(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const lane *X, lane out[6]) {
  ends e = find_ends(w, r->equality);
  num d1[3], d2[3];
  lane u1[3], u2[3], omega[3];

  body_offset(&w->mechanism, e.body[0], e.p1, d1);
  body_offset(&w->mechanism, e.body[1], e.p2, d2);
  PB_POINTVEL(u1, X + 6 * e.body[0], d1);
  PB_POINTVEL(u2, X + 6 * e.body[1], d2);

  // The points against each other, then the bodies' rotation.
  for (int k = 0; k < 3; k++) {
    out[k] = u1[k] - u2[k];
    omega[k] = X[6 * e.body[0] + k] - X[6 * e.body[1] + k];
  }
  if (r->dim < 6) return;

  // scale / 2 vec(conj(q2) omega q1)
  num scale = 0.5 * w->p.eq_data[pbWeld_Torquescale(r->equality)];
  num c2[4] = {e.q2[0], -e.q2[1], -e.q2[2], -e.q2[3]};
  num c1[4] = {e.q1[0], -e.q1[1], -e.q1[2], -e.q1[3]};
  lane rotated[4];
  weld_torque(c2, omega, c1, rotated);
  for (int k = 0; k < 3; k++) out[3 + k] = scale * rotated[1 + k];
}

// ---- orientation of welds ---------------------------------------------------------------------------------------------
// The rows are functionals scale <(0, rho), conj(q2) Y q1>, of a quaternion Y each: 1/2 relative angular velocity under the
// virtual motion; relative acceleration with what the rates of q1, q2 add; relative velocity; 1 for the residual itself.
typedef struct rotation_rows {
  lane Y[4][4];
  lane G[4][4];  // <G, Y> scale is the functional: q2 (0, rho) conj(q1)
  num rel[3];    // w1 - w2
} rotation_rows;

enum { of_force, of_acceleration, of_velocity, of_residual };

static void set_rotation_rows(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar, const ends *e, rotation_rows *s) {
  const NUM(pbConstraints) *w = a->constraints;
  int b1 = 6 * e->body[0];
  int b2 = 6 * e->body[1];
  num cross[3];
  lane rho[4][3];

  memset(s, 0, sizeof *s);
  v3_sub(s->rel, w->V + b1, w->V + b2);
  v3_cross(cross, w->V + b1, w->V + b2);

  // rho: the coefficients of the rows; Y: vector parts, then scalar parts.
  for (int k = 0; k < 3; k++) {
    rho[of_force][k] = PB_LANE_ZERO + bar->f[3 + k];
    rho[of_acceleration][k] = -bar->z[3 + k];
    rho[of_velocity][k] = -r->b * bar->z[3 + k];
    rho[of_residual][k] = bar->pos[3 + k];
    s->Y[of_force][1 + k] = 0.5 * (a->Vx[b1 + k] - a->Vx[b2 + k]);
    s->Y[of_acceleration][1 + k] = PB_LANE_ZERO + 0.5 * (a->at.A[b1 + k] - a->at.A[b2 + k] + cross[k]);
    s->Y[of_velocity][1 + k] = PB_LANE_ZERO + 0.5 * s->rel[k];
  }
  s->Y[of_acceleration][0] = PB_LANE_ZERO - 0.25 * v3_dot(s->rel, s->rel);
  s->Y[of_residual][0] = PB_LANE_ZERO + 1;
  for (int i = 0; i < 4; i++) weld_torque(e->q2, rho[i], e->q1, s->G[i]);
}

// Cotangents of the motions of both bodies: torques +-1/2 scale G, and of the velocities in the drift,
// 1/4 scale (-g0 |rel|^2 + 2 g . (w1 x w2)).
static void add_rotation_torques(LANE(pbAdjoint) *a, const ends *e, num scale, const rotation_rows *s) {
  const NUM(pbConstraints) *w = a->constraints;
  const lane *G = s->G[of_acceleration];
  num T[3];

  for (int k = 0; k < 3; k++) T[k] = 0.5 * scale * PB_LANE0(s->G[of_force][1 + k]);  // the same in all lanes

  // The two bodies' torques are opposite; of the drift each takes the cross product with the other's velocity.
  for (int side = 0; side < 2; side++) {
    int b = 6 * e->body[side];
    const num *other = w->V + 6 * e->body[1 - side];
    num sign = side ? -1 : 1;
    num ts[3];
    lane ta[3], tv[3];
    for (int k = 0; k < 3; k++) {
      ts[k] = sign * T[k];
      ta[k] = sign * 0.5 * scale * G[1 + k];
      tv[k] = sign * 0.5 * scale * s->G[of_velocity][1 + k];
    }
    for (int k = 0; k < 3; k++) tv[k] -= sign * 0.5 * scale * G[0] * s->rel[k];
    PB_ADDCROSS(tv, sign * 0.5 * scale, other, G + 1);

    for (int k = 0; k < 3; k++) {
      a->FX[b + k] += ts[k];
      a->FA[b + k] += ta[k];
      a->FV[b + k] += tv[k];
    }
  }
}

#if PB_LANES == 1
// The torque scale, and between bodies the relative orientation, q1 = x1 relquat, x1 the orientation of body 1:
// <(0, rho), conj(q2) Y x1 relquat> by relquat is conj(x1) conj(Y) q2 (0, rho), and q2 (0, rho) = G q1.
static void pull_weld_data(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const ends *e, const num Y[4], const num G[4],
                           const num conj[4]) {
  const NUM(pbConstraints) *w = a->constraints;
  int torquescale = pbWeld_Torquescale(r->equality);
  num value = 0;

  for (int k = 0; k < 4; k++) value += G[k] * Y[k];
  PB_THETA(a, eq_data, torquescale, value);
  if (w->m->eq_objtype[r->equality] == pb_eqObjSite) return;

  num x1[4], t[4], u[4];
  quat_mul(t, G, e->q1);
  quat_mul(u, conj, t);
  quat_conj(x1, w->xquat + 4 * e->body[0]);
  quat_mul(t, x1, u);

  // The length of the quaternion has no meaning: along the sphere only.
  int relquat = pbWeld_Relquat(r->equality);
  const num *pose = w->p.eq_data + relquat;
  num along = pose[0] * t[0] + pose[1] * t[1] + pose[2] * t[2] + pose[3] * t[3];
  for (int k = 0; k < 4; k++) PB_THETA(a, eq_data, relquat + k, t[k] - along * pose[k]);
}
#endif

// Orientation rows of a weld: torques on both bodies' fields; on their orientations (torque1, torque2); eq_data.
static void pull_weld_rotation(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar, const ends *e, lane torque1[3],
                               lane torque2[3]) {
  num scale = a->w->p.eq_data[pbWeld_Torquescale(r->equality)];
  rotation_rows s;

  set_rotation_rows(a, r, bar, e, &s);
  add_rotation_torques(a, e, scale, &s);

  for (int k = 0; k < 3; k++) torque1[k] = torque2[k] = PB_LANE_ZERO;
  for (int i = 0; i < 4; i++) {
    // Rotations t of q1 and q2: <G, Y (0, t) / 2> and -<G, (0, t) / 2 Y>.
    const lane *Y = s.Y[i];
    lane conj[4] = {scale * Y[0], -scale * Y[1], -scale * Y[2], -scale * Y[3]};
    lane left[4], right[4];
    PB_QUATMUL(left, conj, s.G[i]);
    PB_QUATMUL(right, s.G[i], conj);
    for (int k = 0; k < 3; k++) {
      torque1[k] += 0.5 * left[1 + k];
      torque2[k] -= 0.5 * right[1 + k];
    }
#if PB_LANES == 1
    if (a->theta) pull_weld_data(a, r, e, Y, s.G[i], conj);
#endif
  }
}

// ---- connect and weld -------------------------------------------------------------------------------------------------
// One end: force coefficients on velocity (F), acceleration (Fa) and velocity in aref (Fv) of its point, cotangent of the point.
static void pull_end(LANE(pbAdjoint) *a, int body, const num p[3], num sign, const NUM(pbRow) *r, const row_bar *bar,
                     lane point[3]) {
  const NUM(pbConstraints) *w = a->constraints;
  const num *V = w->V + 6 * body;
  const num *A = a->at.A + 6 * body;
  num d[3], F[3], u[3], wrench[6] = {0};
  lane Fa[3], Fv[3], wa[6] = {0}, wv[6] = {0};

  body_offset(&w->mechanism, body, p, d);
  PB_POINTVEL(u, V, d);
  for (int k = 0; k < 3; k++) {
    F[k] = sign * bar->f[k];
    Fa[k] = -sign * bar->z[k];
    Fv[k] = -sign * r->b * bar->z[k];
  }

  // Acceleration of the point, A_lin + A_ang x d + w x u: by A, then by w and u.
  PB_ADDWRENCH(wrench, 1, d, F);
  PB_ADDWRENCH(wa, 1, d, Fa);
  PB_ADDCROSS(wv, 1, u, Fa);
  PB_ADDCROSS(Fv, 1, Fa, V);
  PB_ADDWRENCH(wv, 1, d, Fv);

  // The point moves by dp: its velocities by w x dp.
  PB_CROSS(point, F, a->Vx + 6 * body);
  PB_ADDCROSS(point, 1, Fa, A);
  PB_ADDCROSS(point, 1, Fv, V);
  for (int k = 0; k < 3; k++) point[k] += sign * bar->pos[k];

  // To the fields of motion, and to the pose of the body as a force at the point.
  PB_AXPY6(a->FX + 6 * body, 1, wrench);
  PB_AXPY6(a->FA + 6 * body, 1, wa);
  PB_AXPY6(a->FV + 6 * body, 1, wv);
  PB_ADDWRENCH(a->P + 6 * body, 1, d, point);
}

#if PB_LANES == 1
// The anchors in eq_data, or the poses of the sites at the ends.
static void pull_anchors(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const ends *e, lane point[2][3], lane torque[2][3]) {
  const NUM(pbConstraints) *w = a->constraints;
  const pbModel *m = w->m;
  bool weld = r->dim == 6;
  int id = r->equality;

  // A site's own position and orientation take what the end has collected.
  for (int end = 0; end < 2; end++) {
    if (m->eq_objtype[id] == pb_eqObjSite) {
      LANE(pbSweep_Site)(a, end ? m->eq_obj2id[id] : m->eq_obj1id[id], point[end], weld ? torque[end] : NULL);
      continue;
    }

    num local[3];
    int anchor = weld ? pbWeld_Anchor(id, end) : pbConnect_Anchor(id, end);
    m3_tmulv(local, w->xmat + 9 * e->body[end], point[end]);
    for (int k = 0; k < 3; k++) PB_THETA(a, eq_data, anchor + k, local[k]);
  }
}
#endif

static void pull(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar) {
  ends e = find_ends(a->constraints, r->equality);
  lane point[2][3];
  lane torque[2][3] = {0};

  pull_end(a, e.body[0], e.p1, 1, r, bar, point[0]);
  pull_end(a, e.body[1], e.p2, -1, r, bar, point[1]);

  // Torques on the orientations are couples: the same about any point.
  if (r->dim == 6) {
    pull_weld_rotation(a, r, bar, &e, torque[0], torque[1]);
    for (int end = 0; end < 2; end++) {
      for (int k = 0; k < 3; k++) a->P[6 * e.body[end] + k] += torque[end][k];
    }
  }
#if PB_LANES == 1
  if (a->theta) pull_anchors(a, r, &e, point, torque);
#endif
}

#if PB_LANES == 1
// diagApprox: every row has its own, of translation or rotation.
static void parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar) {
  ends e = find_ends(a->constraints, r->equality);
  for (int k = 0; k < r->dim; k++) {
    PB_THETA(a, body_invweight0, 2 * e.body[0] + (k > 2), bar->diag[k]);
    PB_THETA(a, body_invweight0, 2 * e.body[1] + (k > 2), bar->diag[k]);
  }
}
#endif
PB_ROW_PULL(ends, .pull = pull, .relative = relative, PB_ROW_PARAMETERS(parameters));
#endif
