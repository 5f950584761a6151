// Force and torque between a body and its parent: what holds it against inertia and loads, spatial tendons among them.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/actuators.h>
#include <pullback/equalities.h>
#include <pullback/sensors.h>

#include "bodies/sensor.h"
#include "eval/constraints.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "math/vec.h"
#include "model/equality_data.h"
#include "multibody/damping.h"
#include "multibody/equality.h"
#include "multibody/frame.h"
#include "multibody/inertia.h"
#include "multibody/kink.h"
#include "multibody/polynomial.h"
#include "multibody/spatial.h"
#include "multibody/tendon.h"

// ---- tendons as loads on bodies ---------------------------------------------------------------------------------------
// ---- tendons as loads on bodies ---------------------------------------------------------------------------------------
// Coefficient of an equality row's force along a tendon (0: not coupled by it).
static num coupling(const NUM(pbConstraints) *w, int e, int tendon) {
  const pbModel *m = w->m;
  if (m->eq_type[e] != pb_eqTendon) return 0;

  num s = m->eq_obj1id[e] == tendon ? 1 : 0;

  // L1 - L1_0 = P(L2 - L2_0): the second tendon counts by -P'.
  int other = m->eq_obj2id[e];
  if (other != tendon) return s;
  const num *c = w->p.eq_data + pbCoupling_Polycoef(e);
  num x = w->ten_length[other] - w->p.tendon_length0[other];
  return s - (c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4])));
}

static num tendon_row_force(const NUM(pbConstraints) *w, const NUM(pbRow) *r, int tendon) {
  switch (r->kind) {
    case pb_rowEquality: return coupling(w, r->equality, tendon) * r->f[0];
    case pb_rowFriction: return r->tendon == tendon ? r->f[0] : 0;
    case pb_rowLimit: return r->tendon == tendon ? -r->side * r->f[0] : 0;
    default: return 0;
  }
}

static num spring_and_damper(const NUM(pbConstraints) *w, int k) {
  num force = 0;

  if (!(w->m->disableflags & pb_disSpring)) {
    num x = tendon_stretch(&w->mechanism, k);
    num c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
    force -= x * pb_polynomialForce(c, x, false);
  }
  if (!(w->m->disableflags & pb_disDamper)) {
    num c[3];
    NUM(pbTendon_Damping)(&w->mechanism, k, c);
    force -= w->ten_velocity[k] * pb_polynomialForce(c, w->ten_velocity[k], true);
  }
  return force;
}

// Sum of all forces along a tendon: spring, damper, actuators, rows, armature; positive lengthens.
static num tension(const NUM(pbConstraints) *w, int k) {
  const pbModel *m = w->m;
  num force = spring_and_damper(w, k), armature = NUM(pbTendon_Armature)(&w->mechanism, k);
  for (int u = 0; u < m->nu; u++) {
    if (m->actuator_trntype[u] == pb_trnTendon && m->actuator_trnid[2 * u] == k)
      force += w->p.actuator_gear[6 * u] * w->actuator_force[u];
  }

  for (int r = 0; r < w->nrow; r++) force += tendon_row_force(w, w->row + r, k);

  // A loss of zero makes no row; what it would do is a slope.
  num loss = w->p.tendon_frictionloss[k];
  if (PB_IS_COMPLEX && loss_acts(m) && !(re(loss) > 0))
    force += num_make(0, -loss_sign(&w->mechanism, m->nv + k, w->qacc) * im(loss));

  // Armature resists the acceleration of the length, J a + dJ/dt v.
  if (re(armature) != 0 || im(armature) != 0) {
    num rate = NUM(pbTendon_Dot)(&w->mechanism, k);
    for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) rate += w->ten_J[a] * w->qacc[w->ten_dofs[a]];
    force -= armature * rate;
  }
  return force;
}

// ---- interaction forces -----------------------------------------------------------------------------------------------
// The load (force at a point, torque) on a body, taken off what holds it.
static void take_load(const NUM(pbConstraints) *w, int body, const num point[3], const num force[3], const num torque[3],
                      double sign) {
  num d[3], *F = w->cfrc_int + 6 * body;
  PB_ASSERT(body >= 0 && body < w->m->nbody);
  if (body == 0) return;

  body_offset(&w->mechanism, body, point, d);
  PB_ADDWRENCH(F, -sign, d, force);
  if (!torque) return;
  for (int k = 0; k < 3; k++) F[k] -= sign * torque[k];
}

static void inertial_wrench(const NUM(pbConstraints) *w, int b) {
  num *F = w->cfrc_int + 6 * b, momentum[6] = {0}, force[3];
  const num *V = w->V + 6 * b, *A = w->A + 6 * b;
  // A body that cannot move is held against its weight alone.
  if (w->t->body_tree[b] < 0) {
    v3_scale(force, A + 3, -w->p.body_mass[b]);
    take_load(w, b, w->xipos + 3 * b, force, NULL, 1);
    return;
  }

  // I A + V x* I V
  const num *I = w->inert + 10 * b;
  PB_ADDINERT(F, 1, I, A);
  PB_ADDINERT(momentum, 1, I, V);
  PB_ADDMXF(F, 1, V, momentum);
}

// Forces act on the second geom's body along the frame, on the first's against it.
static void contact_load(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  const NUM(pbContact) *c = w->contact + r->contact;
  num force[3] = {0}, torque[3] = {0};

  // Three forces, then three torques, about the same axes.
  for (int k = 0; k < r->dim; k++) v3_addscl(k < 3 ? force : torque, c->frame + 3 * (k % 3), r->f[k]);
  take_load(w, w->m->geom_bodyid[c->geom1], c->pos, force, torque, -1);
  take_load(w, w->m->geom_bodyid[c->geom2], c->pos, force, torque, 1);
}

// Connect and weld: force f at both points; torque whose power is f . 0.5 scale vec(conj(q2) (w1 - w2) q1).
static void equality_load(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  int body[2], type = w->m->eq_type[r->equality];
  num p1[3], p2[3], q1[4], q2[4], t[4], c[4];
  if (type != pb_eqConnect && type != pb_eqWeld) return;

  NUM(pbEquality_Ends)(&w->mechanism, r->equality, body, p1, p2, q1, q2);
  num torque[3] = {0};
  if (type == pb_eqWeld) {
    quat_mulaxis(t, q2, r->f + 3);
    quat_conj(c, q1);
    quat_mul(t, t, c);
    v3_scale(torque, t + 1, 0.5 * w->p.eq_data[pbWeld_Torquescale(r->equality)]);
  }

  take_load(w, body[0], p1, r->f, torque, 1);
  take_load(w, body[1], p2, r->f, torque, -1);
}

// A path pulls at the ends of each of its pieces; where it goes around a geom, as much against it on the geom's body.
static void tendon_load(const NUM(pbConstraints) *w, int k) {
  const pbModel *m = w->m;
  if (!pb_isSpatial(m, k)) return;

  num pull = tension(w, k);
  pbPiece p = pb_pathOf(m, k);
  while (pb_nextPiece(m, k, &p)) {
    num divisor = p.pulley < 0 ? 1 : w->p.wrap_prm[p.pulley], force[3];
    int body[2] = {m->site_bodyid[p.site[0]], m->site_bodyid[p.site[1]]};
    const num *x[2] = {w->site_xpos + 3 * p.site[0], w->site_xpos + 3 * p.site[1]};

    // Around the geom.
    const NUM(pbWrapPath) *path = NUM(pbTendon_Around)(&w->mechanism, &p);
    PB_ASSERT(re(divisor) != 0);
    if (path) {
      for (int e = 0; e < 2; e++) {
        v3_scale(force, path->end[e], pull / divisor);
        take_load(w, body[e], x[e], force, NULL, 1);
        take_load(w, m->geom_bodyid[p.geom], x[e], force, NULL, -1);
      }

      continue;
    }

    // Straight, unless within one body.
    if (body[0] == body[1]) continue;
    v3_sub(force, x[1], x[0]);
    v3_normalize(force);
    v3_scale(force, force, pull / divisor);
    take_load(w, body[0], x[0], force, NULL, -1);
    take_load(w, body[1], x[1], force, NULL, 1);
  }
}

// What holds each body: inertia of it and all below, less the loads (as MuJoCo's mj_rnePostConstraint counts them: applied
// forces on bodies, contacts, connect, weld, spatial tendons; not fluid, gravity compensation, sites' actuators).
static void interaction_wrenches(const NUM(pbConstraints) *w) {
  const pbModel *m = w->m;
  memset(w->cfrc_int, 0, 6 * (size_t)m->nbody * sizeof(num));
  for (int b = 1; b < m->nbody; b++) {
    inertial_wrench(w, b);
    take_load(w, b, w->xipos + 3 * b, w->xfrc_applied + 6 * b, w->xfrc_applied + 6 * b + 3, 1);
  }
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].kind == pb_rowContact) contact_load(w, w->row + k);
    if (w->row[k].kind == pb_rowEquality) equality_load(w, w->row + k);
  }
  for (int k = 0; k < m->ntendon; k++) tendon_load(w, k);

  // Sums over subtrees, from the leaves; those on the world are about its origin.
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b], tree = w->t->body_tree[b];
    PB_ASSERT(parent < b);
    num *F = w->cfrc_int + 6 * b, *Fp = w->cfrc_int + 6 * parent;
    PB_AXPY6(Fp, 1, F);
    if (tree >= 0 && w->t->body_tree[parent] < 0) {  // there about the origin
      const double *ref = w->ref + 3 * tree;
      PB_ADDCROSS(Fp, 1, ref, F + 3);
    }
  }
}

// In world axes, about the site.
static void held(const NUM(pbConstraints) *w, int type, const NUM(pbFrame) *f, num v[3]) {
  const num *F = w->cfrc_int + 6 * f->body;
  if (type == pb_sensForce) {
    v3_copy(v, F + 3);
    return;
  }
  v3_copy(v, F);
  PB_ADDCROSS(v, -1, f->d, F + 3);
}

static void value(const NUM(pbConstraints) *w, int i, num *y) {
  NUM(pbFrame) f;
  num v[3];
  NUM(pbFrame_At)(&w->mechanism, pb_refSite, w->m->sensor_objid[i], &f);
  held(w, w->m->sensor_type[i], &f, v);
  m3_tmulv(y, f.mat, v);
}
PB_SENSOR_VALUE(hold, NULL, .value_constrained = value, .share_constrained = interaction_wrenches);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_row_adjoint.h"
#include "multibody/frame_adjoint.h"

// A sensor gives its body and all below it a motion Vs, under which every load does virtual work.

// ---- interaction wrenches ---------------------------------------------------------------------------------------------
// Bodies that cannot move, of body b and those below it: what holds b bears their weight and applied forces alone. Its power
// under the virtual motion s is the sum of m A . u - f . u - t . s_ang: u the velocity of the center of mass, A the acceleration
// of the world (minus gravity), f and t the applied force and torque.
static void static_loads(LANE(pbAdjoint) *a, int b, const lane s[6]) {
  const NUM(pbConstraints) *w = a->constraints;
  const num *A = w->A + 3;
  for (int c = b; c < w->m->nbody; c++) {
    if (w->t->body_tree[c] >= 0 || !pb_isBelow(w->m, c, b)) continue;

    frame_bar at;
    lane u[3];
    num mass = w->p.body_mass[c], load[3];
    const num *applied = w->xfrc_applied + 6 * c;
    frame_bar_at(a, pb_refBody, c, &at);
    PB_POINTVEL(u, s, at.f.d);
    for (int k = 0; k < 3; k++) load[k] = mass * A[k] - applied[k];
    PB_ADDCROSS(at.force, 1, load, s);
    if (a->xfrc) {
      for (int k = 0; k < 3; k++) {
        a->xfrc[6 * c + k] -= u[k];
        a->xfrc[6 * c + 3 + k] -= s[k];
      }
    }

    // Its weight: A of the world is the upward acceleration -g.
    PB_THETA(a, body_mass, c, A[0] * u[0] + A[1] * u[1] + A[2] * u[2]);
    if (!(w->m->disableflags & pb_disGravity)) {
      for (int k = 0; k < 3; k++) PB_THETA(a, gravity, k, -mass * u[k]);
    }
    frame_bar_done(a, &at);
  }
}

static void pull_hold_of_body(LANE(pbAdjoint) *a, int body, const lane s[6]) {
  PB_ASSERT(body > 0 && body < a->w->m->nbody);
  a->has_Vs = true;
  for (int k = 0; k < 6; k++) a->Vs[6 * body + k] -= s[k];
  if (a->w->t->body_tree[body] < 0) static_loads(a, body, s);
}

// The sensor's value is s . (wrench that holds the body). Loads on the world itself do not count, so that of a sensor on it goes
// to each body that stands in it, about the reference point of the body's tree.
static void pull_hold(LANE(pbAdjoint) *a, int body, const lane s[6]) {
  const NUM(pbConstraints) *w = a->constraints;
  if (body != 0) {
    pull_hold_of_body(a, body, s);
    return;
  }

  for (int b = 1; b < w->m->nbody; b++) {
    lane X[6];
    int tree = w->t->body_tree[b];
    if (w->m->body_parentid[b] != 0) continue;
    memcpy(X, s, sizeof X);
    if (tree >= 0) PB_ADDCROSS(X + 3, 1, s, w->ref + 3 * tree);
    pull_hold_of_body(a, b, X);
  }
}

// Motion that the sensors' Vs give to a body, about its ref.
static void hold_motion(const LANE(pbAdjoint) *a, int body, lane X[6]) {
  const NUM(pbConstraints) *w = a->constraints;
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
  frame_bar s1, s2;
  num dir[3], length, divisor;
  int pulley;  // station of the divisor, -1
} segment;

// Ends, direction and length of a straight piece; false: one without length, or within one body, is no load.
static bool segment_of(const LANE(pbAdjoint) *a, const pbPiece *p, segment *g) {
  const NUM(pbConstraints) *w = a->constraints;
  g->pulley = p->pulley;
  g->divisor = p->pulley < 0 ? 1 : w->p.wrap_prm[p->pulley];
  frame_bar_at(a, pb_refSite, p->site[0], &g->s1);
  frame_bar_at(a, pb_refSite, p->site[1], &g->s2);
  v3_sub(g->dir, g->s2.f.pos, g->s1.f.pos);
  g->length = num_sqrt(v3_dot(g->dir, g->dir));
  if (re(g->length) < TINY || g->s1.f.body == g->s2.f.body) return false;

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
  frame_bar_done(a, &g->s1);
  frame_bar_done(a, &g->s2);
}

// One straight piece's share of tension_power.
static lane straight_power(LANE(pbAdjoint) *a, segment *g, num T) {
  lane X1[6], X2[6], u1[3], u2[3], zero = {0};
  num pull[3];
  for (int k = 0; k < 3; k++) pull[k] = T / g->divisor * g->dir[k];

  hold_motion(a, g->s1.f.body, X1);
  hold_motion(a, g->s2.f.body, X2);
  PB_POINTVEL(u1, X1, g->s1.f.d);
  PB_POINTVEL(u2, X2, g->s2.f.d);
  for (int k = 0; k < 3; k++) u2[k] = u2[k] - u1[k];

  // By T and the divisor; by the points of the ends, on which -pull and pull act; by the direction.
  lane part = PB_DOT3(g->dir, u2) / g->divisor;
  if (g->pulley >= 0) PB_THETA(a, wrap_prm, g->pulley, part * (-T / g->divisor));
  PB_ADDCROSS(g->s1.force, -1, pull, X1);
  PB_ADDCROSS(g->s2.force, 1, pull, X2);
  for (int k = 0; k < 3; k++) u2[k] = u2[k] * (T / g->divisor);
  pull_segment(a, g, u2, zero);
  return part;
}

// One around a geom: T sum e . (u - v) / divisor over its ends, e the gradient of the length by them, u the motion of the site's
// body there and v that of the geom's (tendon_adjoint.c, pull_wrapped).
static lane wrapped_power(LANE(pbAdjoint) *a, const pbPiece *p, const NUM(pbWrapPath) *path, num T) {
  const NUM(pbConstraints) *w = a->constraints;
  frame_bar site[2], geom;
  num H[49], divisor = p->pulley < 0 ? 1 : w->p.wrap_prm[p->pulley], s = T / divisor;
  lane rel[6], X[2][6], Y[6], part = PB_LANE_ZERO, radius = PB_LANE_ZERO;
  PB_ASSERT(divisor != 0);
  NUM(pbWrap_Curvature)(path, H);
  frame_bar_at(a, pb_refGeom, p->geom, &geom);
  hold_motion(a, geom.f.body, Y);

  for (int e = 0; e < 2; e++) {
    num at_geom[3];
    lane u[3], v[3];
    frame_bar_at(a, pb_refSite, p->site[e], &site[e]);
    hold_motion(a, site[e].f.body, X[e]);
    body_offset(&w->mechanism, geom.f.body, site[e].f.pos, at_geom);
    PB_POINTVEL(u, X[e], site[e].f.d);
    PB_POINTVEL(v, Y, at_geom);

    // Loads on the world itself do not count.
    for (int k = 0; k < 3; k++) rel[3 * e + k] = u[k] - v[k];
    part += PB_DOT3(path->end[e], rel + 3 * e) / divisor;
    PB_ADDCROSS(geom.torque, s, path->end[e], rel + 3 * e);
  }

  for (int e = 0; e < 2; e++) {
    num F[3], arm[3];
    lane q[3], minus[3];
    for (int k = 0; k < 3; k++) {
      q[k] = PB_LANE_ZERO;
      for (int j = 0; j < 6; j++) q[k] += s * H[7 * (3 * e + k) + j] * rel[j];
      radius += s * H[42 + 3 * e + k] * rel[3 * e + k];
      F[k] = s * path->end[e][k];
      arm[k] = site[e].f.pos[k] - geom.f.pos[k];
      minus[k] = -q[k];
      site[e].force[k] += q[k];
      geom.force[k] -= q[k];
    }

    PB_ADDCROSS(site[e].force, 1, F, X[e]);
    PB_ADDCROSS(site[e].force, -1, F, Y);
    PB_ADDCROSS(geom.torque, 1, arm, minus);
    frame_bar_done(a, &site[e]);
  }

  frame_bar_done(a, &geom);
  PB_THETA(a, geom_size, 3 * p->geom, radius);
  if (p->pulley >= 0) PB_THETA(a, wrap_prm, p->pulley, part * (-T / divisor));
  return part;
}

// Pulls back the power of a tension under the sensors' motions, T sum dir . (u2 - u1) / divisor over the segments of its path, to
// their ends, directions and pulleys. Returns its derivative by T, which is the sum.
static lane tension_power(LANE(pbAdjoint) *a, int tendon, num T) {
  lane rate = {0};
  segment g;
  pbPiece p = pb_pathOf(a->w->m, tendon);
  while (pb_nextPiece(a->w->m, tendon, &p)) {
    const NUM(pbWrapPath) *path = NUM(pbTendon_Around)(a->w, &p);
    if (path) rate += wrapped_power(a, &p, path, T);
    else if (segment_of(a, &p, &g)) rate += straight_power(a, &g, T);
  }
  return rate;
}

// Acceleration of a tendon's length: sum (dir . (a2 - a1) + (|v|^2 - (dir . v)^2) / length) / divisor; cotangent c.
static num pull_tendon_acceleration(LANE(pbAdjoint) *a, int tendon, lane c) {
  num sum = 0;
  segment g;
  pbPiece p = pb_pathOf(a->w->m, tendon);
  while (pb_nextPiece(a->w->m, tendon, &p)) {
    const NUM(pbWrapPath) *path = NUM(pbTendon_Around)(a->w, &p);
    if (path) {  // has no armature: only the gradient by it
      sum += NUM(pbTendon_Bend)(a->w, &p, path, a->w->A) / (p.pulley < 0 ? 1 : a->w->p.wrap_prm[p.pulley]);
      continue;
    }

    if (!segment_of(a, &p, &g)) continue;
    num v1[3], v[3], a1[3], acc[3];
    NUM(pbFrame_Velocity)(a->w, &g.s1.f, v1);
    NUM(pbFrame_Velocity)(a->w, &g.s2.f, v);
    NUM(pbFrame_Acceleration)(a->w, &g.s1.f, a1);
    NUM(pbFrame_Acceleration)(a->w, &g.s2.f, acc);
    v3_sub(v, v, v1);
    v3_sub(acc, acc, a1);
    num along = v3_dot(g.dir, v), across = v3_dot(v, v) - along * along,
        part = (v3_dot(g.dir, acc) + across / g.length) / g.divisor;

    // By accelerations, velocities, and the segment itself.
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
    pull_segment(a, &g, dir, cd * (-across / (g.length * g.length)));
  }
  return sum;
}

static void pull_spring(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbConstraints) *w = a->constraints;
  num length = w->ten_length[k], lower = w->p.tendon_lengthspring[2 * k], upper = w->p.tendon_lengthspring[2 * k + 1];
  if (w->m->disableflags & pb_disSpring) return;
  num x = tendon_stretch(&w->mechanism, k);
  double share[2];
  band_shares(length, lower, upper, share);

  // T = -x k(x), x the stretch beyond the band; at an end of the band half of a slope belongs to each side.
  num c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
  num slope = pb_polynomialSlope(c, x, false);
  a->ten_len[k] -= T * (slope * (share[0] + share[1]));
  for (int side = 0; side < 2; side++) PB_THETA(a, tendon_lengthspring, 2 * k + side, T * (slope * share[side]));

  PB_THETA(a, tendon_stiffness, k, T * -x);
  PB_THETA(a, tendon_stiffnesspoly, 2 * k, T * (-x * x));
  PB_THETA(a, tendon_stiffnesspoly, 2 * k + 1, T * (-x * x * x));
}

static void pull_damper(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbConstraints) *w = a->constraints;
  num c[3], v = w->ten_velocity[k], speed = num_abs(v);
  if (w->m->disableflags & pb_disDamper) return;
  NUM(pbTendon_Damping)(&w->mechanism, k, c);
  a->ten_vel[k] -= T * pb_polynomialSlope(c, v, true);

  // Its own coefficients, and those that actuators reflect to it, times gear^2.
  PB_THETA(a, tendon_damping, k, T * -v);
  PB_THETA(a, tendon_dampingpoly, 2 * k, T * (-v * speed));
  PB_THETA(a, tendon_dampingpoly, 2 * k + 1, T * (-v * v * v));
  for (int i = w->t->ten_actuator_start[k]; i < w->t->ten_actuator_start[k + 1]; i++) {
    int u = w->t->ten_actuator[i];
    num gear = w->p.actuator_gear[6 * u], g2 = gear * gear;
    num own[3] = {w->p.actuator_damping[u], w->p.actuator_dampingpoly[2 * u], w->p.actuator_dampingpoly[2 * u + 1]};
    PB_THETA(a, actuator_damping, u, T * (-v * g2));
    PB_THETA(a, actuator_dampingpoly, 2 * u, T * (-v * speed * g2));
    PB_THETA(a, actuator_dampingpoly, 2 * u + 1, T * (-v * v * v * g2));
    PB_THETA(a, actuator_gear, 6 * u, T * (-2 * gear * v * pb_polynomialForce(own, v, true)));
  }
}

static void pull_armature(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbConstraints) *w = a->constraints;
  num armature = NUM(pbTendon_Armature)(&w->mechanism, k), rate = pull_tendon_acceleration(a, k, T * -armature);

  PB_THETA(a, tendon_armature, k, T * -rate);
  for (int i = w->t->ten_actuator_start[k]; i < w->t->ten_actuator_start[k + 1]; i++) {
    int u = w->t->ten_actuator[i];
    num gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, T * (-rate * gear * gear));
    PB_THETA(a, actuator_gear, 6 * u, T * (-2 * rate * gear * w->p.actuator_armature[u]));
  }
}

// An equality's row couples the tendon by 1 - P'(x) where it is the second of the pair.
static void pull_coupling(LANE(pbAdjoint) *a, int row, int tendon, lane T) {
  const NUM(pbConstraints) *w = a->constraints;
  int e = w->row[row].equality;
  pull_force(a, w->row + row, T * coupling(w, e, tendon));
  if (w->m->eq_type[e] != pb_eqTendon || w->m->eq_obj2id[e] != tendon) return;
  const num *c = w->p.eq_data + pbCoupling_Polycoef(e);

  // P' = c1 + 2 c2 x + 3 c3 x^2 + 4 c4 x^3
  num x = w->ten_length[tendon] - w->p.tendon_length0[tendon], f = w->row[row].f[0];
  num bend = 2 * c[2] + x * (6 * c[3] + x * 12 * c[4]), power = 1;
  a->ten_len[tendon] -= T * (f * bend);
  PB_THETA(a, tendon_length0, tendon, T * (f * bend));
  for (int i = 1; i <= 4; i++, power *= x) PB_THETA(a, eq_data, pbCoupling_Polycoef(e) + i, T * (-f * i * power));
}

static void pull_tension(LANE(pbAdjoint) *a, int k, lane T) {
  const NUM(pbConstraints) *w = a->constraints;
  const pbModel *m = w->m;
  pull_spring(a, k, T);
  pull_damper(a, k, T);
  pull_armature(a, k, T);

  // Forces of actuators and of rows along the tendon.
  for (int u = 0; u < m->nu; u++) {
    if (m->actuator_trntype[u] != pb_trnTendon || m->actuator_trnid[2 * u] != k) continue;
    a->act_force[u] += T * w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_gear, 6 * u, T * w->actuator_force[u]);
  }
  for (int r = 0; r < w->nrow; r++) {
    const NUM(pbRow) *row = w->row + r;
    if (row->kind == pb_rowEquality) pull_coupling(a, r, k, T);
    if (row->kind == pb_rowFriction && row->tendon == k) pull_force(a, row, T);
    if (row->kind == pb_rowLimit && row->tendon == k) pull_force(a, row, T * -(num)row->side);
  }

  // A loss of zero makes no row, but has a slope.
  if (loss_acts(m) && !(re(w->p.tendon_frictionloss[k]) > 0))
    PB_THETA(a, tendon_frictionloss, k, T * -loss_sign(&w->mechanism, m->nv + k, w->qacc));
}

static void pull_tendons(LANE(pbAdjoint) *a) {
  const pbModel *m = a->w->m;
  for (int k = 0; k < m->ntendon; k++) {
    if (!pb_isSpatial(m, k)) continue;

    // What the tension does under the sensors' motions is its cotangent.
    lane T = tension_power(a, k, tension(a->constraints, k));
    if (!is_zero(&T, 1)) pull_tension(a, k, T);
  }
}

// ---- values -----------------------------------------------------------------------------------------------------------
// y = mat' v: the frame's axes take G x v, what holds the body G; a torque tau - d x f turns about the site.
static void pull(LANE(pbAdjoint) *a, int i, const lane *y) {
  const NUM(pbConstraints) *w = a->constraints;
  int type = w->m->sensor_type[i];
  frame_bar s;
  num v[3];
  lane G[3], motion[6] = {0};
  frame_bar_at(a, pb_refSite, w->m->sensor_objid[i], &s);
  held(w, type, &s.f, v);

  to_world(G, s.f.mat, y);
  if (type == pb_sensForce) {
    for (int k = 0; k < 3; k++) motion[3 + k] = G[k];
  } else {
    const num *F = w->cfrc_int + 6 * s.f.body;
    for (int k = 0; k < 3; k++) motion[k] = G[k];
    PB_CROSS(motion + 3, s.f.d, G);
    PB_ADDCROSS(s.force, 1, G, F + 3);
  }
  pull_hold(a, s.f.body, motion);

  PB_ADDCROSS(s.torque, 1, G, v);
  frame_bar_done(a, &s);
}
PB_SENSOR_PULL(hold, pull, .end = pull_tendons);
#endif
