// Subtrees of bodies: center of mass, its velocity, angular momentum; and whether a frame is inside a site.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/sensors.h>

#include "bodies/sensor.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/inertia.h"
#include "multibody/spatial.h"

// Centers of mass and their velocities; massless subtrees: the body's own.
static void subtree_motion(const NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  num d[3], v[3];
  for (int b = 0; b < m->nbody; b++) {
    const num *V = w->V + 6 * b;
    body_offset(w, b, w->xipos + 3 * b, d);
    PB_POINTVEL(v, V, d);
    v3_scale(w->subtree_com + 3 * b, w->xipos + 3 * b, w->p.body_mass[b]);
    v3_scale(w->subtree_linvel + 3 * b, v, w->p.body_mass[b]);
  }

  // A body's sums are whole when all below it have added theirs; then they are divided by its mass.
  for (int b = m->nbody - 1; b >= 0; b--) {
    num *com = w->subtree_com + 3 * b, *vel = w->subtree_linvel + 3 * b, mass = w->p.body_subtreemass[b];

    // Massless subtrees stand at their body, without velocity.
    if (b) {
      v3_addto(w->subtree_com + 3 * m->body_parentid[b], com);
      v3_addto(w->subtree_linvel + 3 * m->body_parentid[b], vel);
    }

    if (re(mass) < TINY) v3_copy(com, w->xipos + 3 * b);
    else v3_scale(com, com, num_div(1, mass));
    v3_scale(vel, vel, num_div(1, num_max(TINY, mass)));
  }
}

// Angular momentum of a subtree about its center of mass, in MuJoCo's sum over the tree written out: with x, v, m, h position,
// velocity, mass, spin of bodies and c, s, M those of subtrees,
//   sum h + m (x - c_b) x v  -  sum (M_i - m_i - sum of M of i's children) c_i x s_i   (m of the world: 0);
// the second sum vanishes where body_subtreemass is what its name says, but not its derivative.
static void angular_momentum(const NUM(pbMechanism) *w, int b, num L[3]) {
  const pbModel *m = w->m;
  v3_zero(L);
  for (int j = b; j < m->nbody; j++) {
    if (!pb_isBelow(m, j, b)) continue;
    const num *V = w->V + 6 * j, *R = w->ximat + 9 * j;
    num d[3], v[3], arm[3], spin[3], mass = j ? w->p.body_mass[j] : 0, excess = mass - w->p.body_subtreemass[j];

    // Spin of the body, and its orbit about the center of mass.
    body_offset(w, j, w->xipos + 3 * j, d);
    PB_POINTVEL(v, V, d);

    m3_tmulv(spin, R, V);
    spin_of(w, j, spin);
    m3_mulv(spin, R, spin);
    v3_addto(L, spin);
    v3_sub(arm, w->xipos + 3 * j, w->subtree_com + 3 * b);
    PB_ADDCROSS(L, mass, arm, v);

    // What the sum's recursion leaves where masses of subtrees are not sums of masses.
    for (int c = j + 1; c < m->nbody; c++) {
      if (m->body_parentid[c] == j) excess += w->p.body_subtreemass[c];
    }
    const num *com = w->subtree_com + 3 * j, *vel = w->subtree_linvel + 3 * j;
    PB_ADDCROSS(L, excess, com, vel);
  }
}

// ---- inside a site -----------------------------------------------------------------------------------------------------
// 1 or 0: it jumps, and has no slope.
static num inside_value(const NUM(pbMechanism) *w, int i) {
  const pbModel *m = w->m;
  int object = m->sensor_objid[i], site = m->sensor_refid[i];
  NUM(pbFrame) f;
  num from[3], local[3];
  NUM(pbFrame_Pose)(w, m->sensor_objtype[i], object, &f);

  // Of a body without mass that carries some its center.
  bool carries = m->sensor_objtype[i] == pb_refBody && object > 0 && re(w->p.body_mass[object]) < TINY &&
                 re(w->p.body_subtreemass[object]) >= TINY;
  v3_sub(from, carries ? w->subtree_com + 3 * object : f.pos, w->site_xpos + 3 * site);
  m3_tmulv(local, w->site_xmat + 9 * site, from);
  return NUM(pbFrame_InSite)(w, site, local) ? 1 : 0;
}

// ---- values -----------------------------------------------------------------------------------------------------------
static void value(const NUM(pbMechanism) *w, int i, num *y) {
  int id = w->m->sensor_objid[i];
  switch (w->m->sensor_type[i]) {
    case pb_sensSubtreecom: v3_copy(y, w->subtree_com + 3 * id); break;
    case pb_sensSubtreelinvel: v3_copy(y, w->subtree_linvel + 3 * id); break;
    case pb_sensSubtreeangmom: angular_momentum(w, id, y); break;
    default: y[0] = inside_value(w, i);
  }
}
PB_SENSOR_VALUE(subtree, value, .share = subtree_motion);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "multibody/frame_adjoint.h"

// ---- subtrees ---------------------------------------------------------------------------------------------------------
// com = sum m x / M
static void pull_com(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  const NUM(pbMechanism) *w = a->w;
  const num *com = w->subtree_com + 3 * b;
  num M = w->p.body_subtreemass[b];
  for (int j = b; j < w->m->nbody; j++) {
    if (!pb_isBelow(w->m, j, b) || (re(M) < TINY && j > b)) continue;
    frame_bar s;
    frame_bar_at(a, pb_refBody, j, &s);

    num share = re(M) < TINY ? 1 : w->p.body_mass[j] / M;
    for (int k = 0; k < 3; k++) s.force[k] = g[k] * share;
    if (re(M) >= TINY) PB_THETA(a, body_mass, j, PB_DOT3(s.f.pos, g) / M);
    frame_bar_done(a, &s);
  }

  if (re(M) >= TINY) PB_THETA(a, body_subtreemass, b, -PB_DOT3(com, g) / M);
}

// vel = sum m v / M
static void pull_linvel(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  const NUM(pbMechanism) *w = a->w;
  const num *vel = w->subtree_linvel + 3 * b;
  num M = num_max(TINY, w->p.body_subtreemass[b]);
  for (int j = b; j < w->m->nbody; j++) {
    if (!pb_isBelow(w->m, j, b)) continue;
    frame_bar s;
    lane share[3];
    num v[3];
    frame_bar_at(a, pb_refBody, j, &s);
    NUM(pbFrame_Velocity)(w, &s.f, v);
    for (int k = 0; k < 3; k++) share[k] = g[k] * (w->p.body_mass[j] / M);
    pull_velocity(a, &s, share);
    PB_THETA(a, body_mass, j, PB_DOT3(v, g) / M);
    frame_bar_done(a, &s);
  }

  if (re(M) > TINY) PB_THETA(a, body_subtreemass, b, -PB_DOT3(vel, g) / M);
}

// Spin R diag(I) R' w of one body, cotangent g.
static void pull_spin(LANE(pbAdjoint) *a, frame_bar *s, const lane g[3]) {
  const num *R = s->f.mat, *I = a->w->p.body_inertia + 3 * s->id, *V = a->w->V + 6 * s->f.body;
  num wl[3], spin[3];
  lane gl[3], Jg[3];
  for (int k = 0; k < 3; k++) wl[k] = R[k] * V[0] + R[3 + k] * V[1] + R[6 + k] * V[2];
  for (int k = 0; k < 3; k++) gl[k] = R[k] * g[0] + R[3 + k] * g[1] + R[6 + k] * g[2];
  for (int k = 0; k < 3; k++) PB_THETA(a, body_inertia, 3 * s->id + k, gl[k] * wl[k]);

  // Beside the diagonal, where a design has them.
  int products = a->w->m->ndesignbody ? 3 : 0;
  for (int k = 0; k < products; k++) {
    int i = (k + 1) % 3, j = (k + 2) % 3;
    PB_THETA(a, body_products, 3 * s->id + k, gl[i] * wl[j] + gl[j] * wl[i]);
  }
  for (int k = 0; k < 3; k++) wl[k] = wl[k] * I[k];
  for (int k = 0; k < 3; k++) gl[k] = gl[k] * I[k];
  for (int k = 0; k < 3; k++) spin[k] = R[3 * k] * wl[0] + R[3 * k + 1] * wl[1] + R[3 * k + 2] * wl[2];

  // By the angular velocity: the inertia is symmetric. By the orientation: both sides of it rotate.
  to_world(Jg, R, gl);
  for (int k = 0; k < 3; k++) a->FV[6 * s->f.body + k] += Jg[k];
  PB_ADDCROSS(s->torque, 1, spin, g);
  PB_ADDCROSS(s->torque, 1, Jg, V);
}

// m (x - c) x v of one body, cotangent g.
static void pull_orbit(LANE(pbAdjoint) *a, frame_bar *s, const num *c, const lane g[3]) {
  num mass = a->w->p.body_mass[s->id], arm[3], v[3], swing[3];
  lane gv[3] = {0};
  v3_sub(arm, s->f.pos, c);
  NUM(pbFrame_Velocity)(a->w, &s->f, v);

  v3_cross(swing, arm, v);
  PB_THETA(a, body_mass, s->id, PB_DOT3(swing, g));
  PB_ADDCROSS(s->force, mass, v, g);
  PB_ADDCROSS(gv, mass, g, arm);
  pull_velocity(a, s, gv);
}

// Excess of mass e c x vel of subtree j (angular_momentum); e = m_j + sum of children's M - M_j.
static void pull_excess(LANE(pbAdjoint) *a, int j, int b, const lane g[3]) {
  const NUM(pbMechanism) *w = a->w;
  const num *c = w->subtree_com + 3 * j, *vel = w->subtree_linvel + 3 * j;
  num swing[3], mass = w->p.body_subtreemass[j], e = (j ? w->p.body_mass[j] : 0) - mass;
  v3_cross(swing, c, vel);

  lane each = PB_DOT3(swing, g);
  if (j) PB_THETA(a, body_mass, j, each);
  PB_THETA(a, body_subtreemass, j, -each);
  for (int i = j + 1; i < w->m->nbody; i++) {
    if (w->m->body_parentid[i] != j) continue;
    e += w->p.body_subtreemass[i];
    PB_THETA(a, body_subtreemass, i, each);
  }

  // By the center of mass and its velocity, which are sums of their own.
  lane gc[3] = {0}, gs[3] = {0};
  if (fabs(re(e)) > 1e-12 * re(mass)) {
    PB_ADDCROSS(gc, e, vel, g);
    PB_ADDCROSS(gs, e, g, c);
    pull_linvel(a, j, gs);
  }
  if (j == b) PB_ADDCROSS(gc, num_max(TINY, mass), g, vel);  // c_b in the orbits: -sum m v x g
  if (j == b || fabs(re(e)) > 1e-12 * re(mass)) pull_com(a, j, gc);
}

static void pull_angmom(LANE(pbAdjoint) *a, int b, const lane g[3]) {
  for (int j = b; j < a->w->m->nbody; j++) {
    if (!pb_isBelow(a->w->m, j, b)) continue;
    frame_bar s;
    frame_bar_at(a, pb_refBody, j, &s);
    pull_spin(a, &s, g);
    pull_orbit(a, &s, a->w->subtree_com + 3 * b, g);
    frame_bar_done(a, &s);
    pull_excess(a, j, b, g);
  }
}

static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  int id = a->w->m->sensor_objid[i];
  switch (a->w->m->sensor_type[i]) {
    case pb_sensSubtreecom: pull_com(a, id, bar); break;
    case pb_sensSubtreelinvel: pull_linvel(a, id, bar); break;
    case pb_sensSubtreeangmom: pull_angmom(a, id, bar); break;
    default: break;  // it jumps, and has no slope
  }
}
PB_SENSOR_PULL(subtree, pull);
#endif
