// How a contact's rows move with the poses and sizes of its two geoms: the power of its force under the fields of velocity,
// through its frame (make_frame in contact.c), its point and its distance (geometry/pair.h: Jacobians of pairs).
// Tests: tests/unit/test_mocap_rate.c, tests/unit/test_geometry.c, tests/unit/test_standing.c.
#include "contact/prescribed.h"
#include "contact/row_adjoint.h"

#include "base/assert.h"
#include "base/mutate.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// ---- frame ------------------------------------------------------------------------------------------------------------
// frame = (n, y, n x y), y = normalized (y0 - (n . y0) n), y0 the hint or an axis of the world.
void LANE(pbContact_PullFrame)(const NUM(pbContact) *c, lane n_bar[3], lane t1[3], lane t2[3], lane hint_bar[3]) {
  const num *n = c->frame;
  const num *y = c->frame + 3;
  num y0[3] = {c->hint[0], c->hint[1], c->hint[2]};
  bool hinted = re(v3_dot(y0, y0)) >= 0.25;

  if (!hinted) {
    bool upright = fabs(re(n[1])) < 0.5;
    v3_set(y0, 0, upright ? 1 : 0, upright ? 0 : 1);
  }

  // z = n x y
  PB_ADDCROSS(n_bar, 1, y, t2);
  PB_ADDCROSS(t1, 1, t2, n);

  num raw[3];
  num along = v3_dot(n, y0);
  for (int k = 0; k < 3; k++) raw[k] = y0[k] - along * n[k];
  num length = num_sqrt(v3_dot(raw, raw));

  // A hint along the normal (capsule upright on a plane): y rotates with the normal.
  if (re(length) < 1e-15) {
    lane rotated = PB_DOT3(n, t1);
    for (int k = 0; k < 3; k++) {
      n_bar[k] -= rotated * y[k];
      hint_bar[k] = PB_LANE_ZERO;
    }
    return;
  }

  // Normalization, then projection.
  lane g[3];
  lane radial = PB_DOT3(y, t1);
  for (int k = 0; k < 3; k++) g[k] = (t1[k] - radial * y[k]) / length;
  lane gn = PB_DOT3(g, n);
  for (int k = 0; k < 3; k++) {
    n_bar[k] -= gn * y0[k] + along * g[k];
    hint_bar[k] = hinted ? g[k] - gn * n[k] : PB_LANE_ZERO;
  }
}

// ---- pair -------------------------------------------------------------------------------------------------------------
// Jacobians of all contacts of a pair come together.
void LANE(pbContact_PairJacobians)(LANE(pbAdjoint) *a, int first, double reach) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + first;
  NUM(pbColumn) column;
  NUM(pbShape) s1, s2;
  NUM(pbContactPoint) points[PB_MAX_CONTACT_POINTS];
  contact_shapes(w, c, &column, &s1, &s2);

  // The contact points as the pair's routine gave them.
  int n = 0;
  for (; first + n < w->ncon && c[n].geom1 == c->geom1 && c[n].geom2 == c->geom2 && c[n].point == n; n++) {
    points[n].dist = c[n].dist;
    v3_copy(points[n].pos, c[n].pos);
    v3_copy(points[n].normal, c[n].frame);
    v3_copy(points[n].hint, c[n].hint);
  }
  PB_ASSERT(n >= 1 && n <= PB_MAX_CONTACT_POINTS);  // `first` is the first of its pair
  reach = NUM(pbContact_Reach)(w, c->geom1, c->geom2, c->pair, reach);
  double margin = re(c->margin) + reach;
  if (!NUM(pbPair_Jacobian)(&s1, &s2, margin, contact_search(w, first), n, points, a->contact_jacobian + first))
    a->refused = "contacts between these shapes";
}

#if PB_LANES == 1
// A geom's pose in its body and its size, from the wrench about its center.
static void pull_geom_parameters(LANE(pbAdjoint) *a, int geom, const num wrench[6], const num size[3]) {
  const NUM(pbConstraints) *w = a->constraints;
  num local[3];

  m3_tmulv(local, w->xmat + 9 * w->m->geom_bodyid[geom], wrench + 3);
  for (int k = 0; k < 3; k++) PB_THETA(a, geom_pos, 3 * geom + k, local[k]);
  for (int k = 0; k < 3; k++) PB_THETA(a, geom_size, 3 * geom + k, size[k]);
  m3_tmulv(local, w->geom_xmat + 9 * geom, wrench);
  pb_quat_pull(a->bar.geom_quat + 4 * geom, w->p.geom_quat + 4 * geom, local);
}
#endif

// The pair's Jacobian is that by geom 2 relative to geom 1; the rest is the rigid motion of both.
void LANE(pbContact_PullPair)(LANE(pbAdjoint) *a, int contact, const lane bar[10]) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + contact;
  const pbContactJacobian *J = a->contact_jacobian + contact;
  PB_ASSERT(contact >= 0 && contact < w->ncon);
  lane in[12];  // wrench on geom 2 (torque about its center, force), sizes of geom 1, of geom 2

  for (int i = 0; i < 12; i++) {
    in[i] = bar[0] * J->d[0][i];
    for (int r = 1; r < 10; r++) in[i] += bar[r] * J->d[r][i];
  }
  PB_MUTE(pb_mutePair, pb_mute_pair(w->m->geom_type[c->geom1], w->m->geom_type[c->geom2]), in, 12);

  // Rigid motion of both: the point, normal and hint move along; about the center of geom 1.
  const num *x1 = w->geom_xpos + 3 * c->geom1;
  const num *x2 = w->geom_xpos + 3 * c->geom2;
  num p1[3], x21[3];
  lane both[6], w1[6], w2[6];
  v3_sub(p1, c->pos, x1);
  v3_sub(x21, x2, x1);
  PB_CROSS(both, p1, bar + 1);
  PB_ADDCROSS(both, 1, c->frame, bar + 4);
  PB_ADDCROSS(both, 1, c->hint, bar + 7);
  for (int k = 0; k < 3; k++) both[3 + k] = bar[1 + k];

  // What geom 2 does not take of it is geom 1's.
  memcpy(w2, in, sizeof w2);
  for (int k = 0; k < 6; k++) w1[k] = both[k] - w2[k];
  PB_ADDCROSS(w1, -1, x21, w2 + 3);

  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  num d1[3], d2[3];
  body_offset(&w->mechanism, b1, x1, d1);
  body_offset(&w->mechanism, b2, x2, d2);
  PB_ADDWRENCH(a->P + 6 * b1, 1, d1, w1 + 3);
  PB_ADDWRENCH(a->P + 6 * b2, 1, d2, w2 + 3);
  for (int k = 0; k < 3; k++) {
    a->P[6 * b1 + k] += w1[k];
    a->P[6 * b2 + k] += w2[k];
  }

#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantGeoms)) {
    pull_geom_parameters(a, c->geom1, w1, in + 6);
    pull_geom_parameters(a, c->geom2, w2, in + 9);
  }
  if (PB_WANTS(a, pb_wantMeshes)) LANE(pbContact_KeepBar)(a, contact, bar, w1, w2);
#endif
}

// ---- rows -------------------------------------------------------------------------------------------------------------
// A contact's coefficients on the velocity functionals, in its frame (f, a, v) and as forces and torques in world axes: of the
// force under the virtual motion, of -z under the acceleration, of the cotangent of J v under the velocity.
typedef struct functionals {
  const num *f;
  lane fa[6], fv[6];
  num F[3], T[3];
  lane Fa[3], Ta[3], Fv[3], Tv[3];
} functionals;

static void set_functionals(const NUM(pbContact) *c, const NUM(pbRow) *r, const LANE(pbRowBar) *bar, functionals *s) {
  memset(s, 0, sizeof *s);
  s->f = bar->f;
  for (int k = 0; k < r->dim; k++) {
    const num *axis = c->frame + 3 * (k % 3);
    s->fa[k] = -bar->z[k];
    s->fv[k] = bar->vel[k];

    // Rows 0 to 2 are along the axes of the frame, rows 3 to 5 about them.
    num *F = k < 3 ? s->F : s->T;
    lane *Fa = k < 3 ? s->Fa : s->Ta;
    lane *Fv = k < 3 ? s->Fv : s->Tv;
    for (int e = 0; e < 3; e++) {
      F[e] += axis[e] * bar->f[k];
      Fa[e] += axis[e] * s->fa[k];
      Fv[e] += axis[e] * s->fv[k];
    }
  }
}

// The same as wrenches on a body, offset d and sign: cotangents of its motions.
static void add_wrenches(LANE(pbAdjoint) *a, int body, const num d[3], num sign, const functionals *s) {
  num wrench[6] = {0};
  lane wa[6] = {0}, wv[6] = {0};

  // Forces at the point, with their moments about the reference point, and pure torques.
  PB_ADDWRENCH(wrench, sign, d, s->F);
  PB_ADDWRENCH(wa, sign, d, s->Fa);
  PB_ADDWRENCH(wv, sign, d, s->Fv);
  for (int k = 0; k < 3; k++) {
    wrench[k] += sign * s->T[k];
    wa[k] += sign * s->Ta[k];
    wv[k] += sign * s->Tv[k];
  }

  // Va is the motion by qacc without the velocity's part: contacts have no drift, as in MuJoCo.
  PB_AXPY6(a->FX + 6 * body, 1, wrench);
  PB_AXPY6(a->FVa + 6 * body, 1, wa);
  PB_AXPY6(a->FV + 6 * body, 1, wv);
}

// Relative motion of the two bodies at the point under a field: velocity u and angular velocity o, of lanes or doubles.
#define RELATIVE_MOTION(u, o, u1, X1, X2, d1, d2)           \
  do {                                                      \
    PB_POINTVEL(u, X2, d2);                                 \
    PB_POINTVEL(u1, X1, d1);                                \
    for (int k = 0; k < 3; k++) (u)[k] -= (u1)[k];          \
    for (int k = 0; k < 3; k++) (o)[k] = (X2)[k] - (X1)[k]; \
  } while (0)

// Paths of mocap bodies add to the relative motion u, o under the velocity; its cotangent goes to their velocities and places.
static void pull_prescribed(LANE(pbAdjoint) *a, const NUM(pbContact) *c, const functionals *s, num u[3], num o[3]) {
  const NUM(pbConstraints) *w = a->constraints;

  for (int side = 0; side < 2; side++) {
    int b = pb_carrier(w->m, side ? c->geom2 : c->geom1);
    if (b < 0) continue;

    // The point's velocity v + turn x arm, and the angular velocity.
    const num *velocity = w->mocap_vel + 6 * b, *turn = velocity + 3;
    num sign = side ? 1 : -1;
    num arm[3], across[3];
    v3_sub(arm, c->pos, w->mocap_pos + 3 * b);
    v3_cross(across, turn, arm);
    for (int i = 0; i < 3; i++) {
      u[i] += sign * (velocity[i] + across[i]);
      o[i] += sign * turn[i];
    }

    // By the place of the body through the arm, by its velocities as they stand.
    if (a->mocap_pos) PB_ADDCROSS(a->mocap_pos + 3 * b, -sign, s->Fv, turn);
    if (!a->mocap_vel) continue;
    PB_ADDCROSS(a->mocap_vel + 6 * b + 3, sign, arm, s->Fv);
    for (int i = 0; i < 3; i++) {
      a->mocap_vel[6 * b + i] += sign * s->Fv[i];
      a->mocap_vel[6 * b + 3 + i] += sign * s->Tv[i];
    }
  }
}

// Cotangents of the contact's point and of the axes of its frame, to the geoms.
static void pull_point_and_frame(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const num d1[3], const num d2[3], const functionals *s,
                                 lane dist_bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + r->contact;
  int b1 = 6 * w->m->geom_bodyid[c->geom1];
  int b2 = 6 * w->m->geom_bodyid[c->geom2];
  num ua[3], oa[3], uv[3], ov[3], u1[3];
  lane ux[3], ox[3], v1[3];

  RELATIVE_MOTION(ux, ox, v1, a->Vx + b1, a->Vx + b2, d1, d2);
  RELATIVE_MOTION(ua, oa, u1, a->Va + b1, a->Va + b2, d1, d2);
  RELATIVE_MOTION(uv, ov, u1, w->V + b1, w->V + b2, d1, d2);
  if (w->m->nmocap && pb_follows(w->m)) pull_prescribed(a, c, s, uv, ov);

  // A point that moves by dp sees the relative velocity u + o x dp.
  lane bar[10];
  bar[0] = dist_bar;
  PB_CROSS(bar + 1, s->F, ox);
  PB_ADDCROSS(bar + 1, 1, s->Fa, oa);
  PB_ADDCROSS(bar + 1, 1, s->Fv, ov);

  // An axis that changes by de changes J v of its rows by de . u and de . o.
  lane axis_bar[3][3];
  for (int k = 0; k < 3; k++) {
    for (int e = 0; e < 3; e++) {
      axis_bar[k][e] = (k < r->dim ? s->f[k] : 0) * ux[e] + s->fa[k] * ua[e] + s->fv[k] * uv[e];
      if (k + 3 < r->dim) axis_bar[k][e] += s->f[k + 3] * ox[e] + s->fa[k + 3] * oa[e] + s->fv[k + 3] * ov[e];
    }
  }
  memcpy(bar + 4, axis_bar[0], sizeof axis_bar[0]);
  LANE(pbContact_PullFrame)(c, bar + 4, axis_bar[1], axis_bar[2], bar + 7);
  LANE(pbContact_PullPair)(a, r->contact, bar);
}

void LANE(pbContact_PullRows)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const LANE(pbRowBar) *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + r->contact;
  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  num d1[3], d2[3];
  functionals s;

  body_offset(&w->mechanism, b1, c->pos, d1);
  body_offset(&w->mechanism, b2, c->pos, d2);

  // Equal and opposite on the two bodies.
  set_functionals(c, r, bar, &s);
  add_wrenches(a, b1, d1, -1, &s);
  add_wrenches(a, b2, d2, 1, &s);
  pull_point_and_frame(a, r, d1, d2, &s, bar->pos[0]);
}
