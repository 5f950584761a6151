// From the length of a spatial tendon and its Jacobian to what the path is made of. Primal: dynamics.c; around geoms:
// geometry/wrap.c; tests: tests/conformance/test_step.c, tests/oracle/test_muscles.py.
//
//   W = length_bar L + J c,   c = ten_lam lam + ten_vel v + ten_acc a + what else there is (pbTendon_Other)
//
// J c is what the path grows by under the motions of bodies that the rates c make. lam, v and a have made theirs already (Vl, V,
// Va): what a path adds to their cotangents goes down the tree with all the rest. Only rates of another kind need a field of
// their own.
#include "math/vec.h"
#include "multibody/force_adjoint.h"
#include "multibody/lane3.h"
#include "multibody/spatial.h"
#include "multibody/tendon.h"

// The cotangents of one tendon.
typedef struct tendon_bar {
  lane length, vel, acc;
  num lam;
  bool other, accelerated;  // a->X holds further rates; acc is not zero
  bool drifts;              // d2L/dt2 is wanted: its sum
  num drift;
} tendon_bar;

// A site of the path, with the motion under c, and what its two pieces make of it.
typedef struct station {
  int site, body;
  p3 d;         // offset of the site
  l6 X;         // of the body
  l3 u;         // of the site
  bool pulled;  // by a piece that another body has a share in
  p3 F;         // force on u
  l3 q;         // cotangent of the position at held u
  l3 inner;     // the same of pieces within the body, which a motion of it does not change
  p3 vel, acc;  // of the site by V and A0, where d2L/dt2 is wanted
} station;

// ---- motions and forces of bodies --------------------------------------------------------------------------------------
PB_INLINE l6 motion_of(const LANE(pbAdjoint) *a, const tendon_bar *t, int body) {
  const NUM(pbMechanism) *w = a->w;
  l6 X = l6_add(l6_scale(l6_load(a->Vl + 6 * body), t->lam), l6_times(p6_load(w->V + 6 * body), t->vel));
  if (t->accelerated) X = l6_add(X, l6_times(p6_load(a->Va + 6 * body), t->acc));

  return t->other ? l6_add(X, l6_load(a->X + 6 * body)) : X;
}

// Wrench F on that motion, Q on the pose.
PB_INLINE void load_body(LANE(pbAdjoint) *a, const tendon_bar *t, int body, p6 F, l6 Q) {
  // To every field that has a share in the motion, as large as that share.
  l6_store(a->P + 6 * body, l6_add(l6_load(a->P + 6 * body), Q));
  l6_store(a->FV + 6 * body, l6_add(l6_load(a->FV + 6 * body), l6_times(F, t->vel)));
  p6_store(a->FL + 6 * body, p6_add(p6_load(a->FL + 6 * body), p6_scale(F, t->lam)));
  if (t->accelerated) l6_store(a->FVa + 6 * body, l6_add(l6_load(a->FVa + 6 * body), l6_times(F, t->acc)));
  if (t->other) p6_store(a->F + 6 * body, p6_add(p6_load(a->F + 6 * body), F));
}

// Velocity and acceleration of a point of a body, by A0.
PB_INLINE void true_motion(const NUM(pbMechanism) *w, int body, p3 d, p3 *vel, p3 *acc) {
  p6 V = p6_load(w->V + 6 * body);
  *vel = p6_velocity(V, d);
  *acc = p3_add(p6_velocity(p6_load(w->A0 + 6 * body), d), p3_cross(V.a, *vel));
}

// ---- sites ---------------------------------------------------------------------------------------------------------------
static void open_station(const LANE(pbAdjoint) *a, const tendon_bar *t, int site, station *s) {
  const NUM(pbMechanism) *w = a->w;
  PB_ASSERT(site >= 0 && site < w->m->nsite);
  s->site = site;
  s->body = w->m->site_bodyid[site];
  s->d = offset_of(w, s->body, w->site_xpos + 3 * site);
  s->X = motion_of(a, t, s->body);
  s->u = l6_velocity(s->X, s->d);

  // Nothing acts there yet.
  const p3 plain = {0};
  const l3 zero = {0};
  s->pulled = false;
  s->F = plain;
  s->q = s->inner = zero;
  if (t->drifts) true_motion(w, s->body, s->d, &s->vel, &s->acc);
}

static void close_station(LANE(pbAdjoint) *a, const tendon_bar *t, station *s) {
  lane point[3];
  // The force turns with the body that carries the point.
  if (s->pulled) {
    s->q = l3_add(s->q, l3_cross(s->F, s->X.a));
    load_body(a, t, s->body, p6_force(s->d, s->F), l6_force(s->d, s->q));
  }
  if (!PB_WANTS(a, pb_wantSites)) return;
  l3_store(point, l3_add(s->q, s->inner));
  LANE(pbSweep_Site)(a, s->site, point, NULL);
}

// ---- straight pieces ----------------------------------------------------------------------------------------------------
// Within one body nothing moves: W = length |p2 - p1| / divisor is of the sites' places in it alone.
static void pull_inner(LANE(pbAdjoint) *a, const tendon_bar *t, const pbPiece *p, num divisor, station *s1, station *s2) {
  const NUM(pbMechanism) *w = a->w;
  num x[3];
  if (!PB_WANTS(a, pb_wantSites) && p->pulley < 0) return;

  // By both ends.
  v3_sub(x, w->site_xpos + 3 * s2->site, w->site_xpos + 3 * s1->site);
  num length = v3_normalize(x);
  if (re(length) < 1e-15) return;

  const l3 g = l3_times(p3_load(x), t->length / divisor);
  s2->inner = l3_add(s2->inner, g);
  s1->inner = l3_sub(s1->inner, g);
  if (p->pulley >= 0) PB_THETA(a, wrap_prm, p->pulley, -t->length * length / (divisor * divisor));
}

// W = length |p2 - p1| / divisor + dir . (u2 - u1) / divisor
static void pull_straight(LANE(pbAdjoint) *a, tendon_bar *t, const pbPiece *p, num divisor, station *s1, station *s2) {
  const NUM(pbMechanism) *w = a->w;
  num x[3];
  v3_sub(x, w->site_xpos + 3 * s2->site, w->site_xpos + 3 * s1->site);
  num length = v3_normalize(x);
  if (re(length) < 1e-15) return;

  // By the distance vector: its length, and dir, which moves by (I - dir dir') / |p2 - p1|.
  const p3 dir = p3_load(x), F = p3_scale(dir, 1 / divisor);
  const l3 rel = l3_sub(s2->u, s1->u);
  lane along = l3_dot(dir, rel);
  const l3 g = l3_scale(l3_add(l3_times(dir, t->length - along / length), l3_scale(rel, 1 / length)), 1 / divisor);
  s1->pulled = s2->pulled = true;
  s2->F = p3_add(s2->F, F);
  s1->F = p3_sub(s1->F, F);
  s2->q = l3_add(s2->q, g);
  s1->q = l3_sub(s1->q, g);
  if (p->pulley >= 0) PB_THETA(a, wrap_prm, p->pulley, -(t->length * length + along) / (divisor * divisor));
  if (!t->drifts) return;

  // d2L/dt2 = dir . acc + (|v|^2 - (dir . v)^2) / L
  const p3 v = p3_sub(s2->vel, s1->vel);
  num speed = p3_dot(dir, v);
  t->drift += (p3_dot(dir, p3_sub(s2->acc, s1->acc)) + (p3_dot(v, v) - speed * speed) / length) / divisor;
}

// ---- pieces around geoms ------------------------------------------------------------------------------------------------
// Poses and radius of what is wrapped around: force at its center and torque (world axes).
static void pull_obstacle(LANE(pbAdjoint) *a, int geom, const lane force[3], const lane torque[3], lane radius) {
#if PB_LANES == 1
  const NUM(pbMechanism) *w = a->w;
  num local[3];
  if (!PB_WANTS(a, pb_wantGeoms)) return;

  m3_tmulv(local, w->xmat + 9 * w->m->geom_bodyid[geom], force);
  for (int k = 0; k < 3; k++) PB_THETA(a, geom_pos, 3 * geom + k, local[k]);
  m3_tmulv(local, w->geom_xmat + 9 * geom, torque);
  pb_quat_pull(a->bar.geom_quat + 4 * geom, w->p.geom_quat + 4 * geom, local);
  PB_THETA(a, geom_size, 3 * geom, radius);
#else
  (void)a;
  (void)geom;
  (void)force;
  (void)torque;
  (void)radius;
#endif
}

// The Hessian of the path's length times moves of both ends: at both, and by the radius.
static void curvature_times(const NUM(pbWrapSquares) *b, const l3 move[2], l3 out[2], lane *radius) {
  const l3 zero = {0};
  out[0] = out[1] = zero;
  *radius = PB_LANE_ZERO;

  // Square by square.
  for (int q = 0; q < b->n; q++) {
    const p3 row[2] = {p3_load(b->row[q]), p3_load(b->row[q] + 3)};
    lane s = b->weight[q] * (l3_dot(row[0], move[0]) + l3_dot(row[1], move[1]));
    for (int e = 0; e < 2; e++) out[e] = l3_add(out[e], l3_times(row[e], s));
    *radius += b->row[q][6] * s;
  }

  // Across a sphere's plane.
  if (!b->turns) return;
  const p3 normal = p3_load(b->normal);
  lane along[2] = {l3_dot(normal, move[0]), l3_dot(normal, move[1])};
  for (int e = 0; e < 2; e++) out[e] = l3_add(out[e], l3_times(normal, b->turn[e] * along[e] + b->turn[2] * along[1 - e]));
}

// move . H move
static num curvature_square(const NUM(pbWrapSquares) *b, const p3 move[2]) {
  num sum = 0;
  for (int q = 0; q < b->n; q++) {
    num s = p3_dot(p3_load(b->row[q]), move[0]) + p3_dot(p3_load(b->row[q] + 3), move[1]);
    sum += b->weight[q] * s * s;
  }
  if (!b->turns) return sum;

  // Across a sphere's plane.
  const p3 normal = p3_load(b->normal);
  num first = p3_dot(normal, move[0]), last = p3_dot(normal, move[1]);
  return sum + b->turn[0] * first * first + b->turn[1] * last * last + 2 * b->turn[2] * first * last;
}

// In the geom's frame: d2L/dt2 = e . x'' + x' H x' over both ends, x'' = a - a_geom - 2 w x (v - v_geom) there.
static num around_drift(const NUM(pbMechanism) *w, int body, const p3 at[2], const p3 end[2], const NUM(pbWrapSquares) *b,
                        station *const s[2]) {
  const p3 spin = p3_load(w->V + 6 * body);
  num sum = 0;
  p3 rel[2];

  for (int e = 0; e < 2; e++) {
    p3 vel, acc;
    true_motion(w, body, at[e], &vel, &acc);
    rel[e] = p3_sub(s[e]->vel, vel);
    sum += p3_dot(end[e], p3_sub(p3_sub(s[e]->acc, acc), p3_scale(p3_cross(spin, rel[e]), 2)));
  }
  return sum + curvature_square(b, rel);
}

// W = (length L + sum e . (u - v)) / divisor over both ends, e the gradient of L by the end, u the site's velocity under c and v
// that of the geom's body at the same point. L is a function of the ends as the geom sees them and of its radius, with Hessian
// H: e turns with the geom and moves by H times what the ends move against it.
static void pull_wrapped(LANE(pbAdjoint) *a, tendon_bar *t, const pbPiece *p, const NUM(pbWrapPath) *path, num divisor,
                         station *const s[2]) {
  const NUM(pbMechanism) *w = a->w;
  int body = w->m->geom_bodyid[p->geom];
  const l6 X = motion_of(a, t, body);
  NUM(pbWrapSquares) squares;
  NUM(pbWrap_Squares)(path, &squares);
  p3 at[2], end[2];
  l3 rel[2], point[2];
  lane radius, rate;

  // How both ends move against the geom's body.
  for (int e = 0; e < 2; e++) {
    at[e] = offset_of(w, body, w->site_xpos + 3 * p->site[e]);
    end[e] = p3_load(path->end[e]);
    rel[e] = l3_sub(s[e]->u, l6_velocity(X, at[e]));
  }
  rate = l3_dot(end[0], rel[0]) + l3_dot(end[1], rel[1]);
  curvature_times(&squares, rel, point, &radius);

  // The site's point moves in both velocities; on the geom's body only the path's end counts.
  const l3 zero = {0};
  const p3 plain = {0};
  p6 F = {plain, plain};
  l3 force = zero, torque = l3_scale(l3_add(l3_cross(end[0], rel[0]), l3_cross(end[1], rel[1])), 1 / divisor);
  l6 Q = {torque, zero};
  const p3 center = offset_of(w, body, w->geom_xpos + 3 * p->geom);
  for (int e = 0; e < 2; e++) {
    const p3 f = p3_scale(end[e], 1 / divisor);
    const l3 q = l3_scale(l3_add(point[e], l3_times(end[e], t->length)), 1 / divisor);
    const p6 pull = p6_force(at[e], f);
    s[e]->pulled = true;
    s[e]->F = p3_add(s[e]->F, f);
    s[e]->q = l3_add(s[e]->q, l3_sub(q, l3_cross(f, X.a)));
    F = (p6){p3_sub(F.a, pull.a), p3_sub(F.l, pull.l)};
    Q = l6_sub(Q, l6_force(at[e], q));
    force = l3_sub(force, q);
    torque = l3_sub(torque, l3_cross(p3_sub(at[e], center), q));
  }
  load_body(a, t, body, F, Q);

  // To the geom's place in its body, its radius and the pulley.
  lane moved[3], turned[3];
  l3_store(moved, force);
  l3_store(turned, torque);
  pull_obstacle(a, p->geom, moved, turned, (radius + t->length * path->by_radius) / divisor);
  if (p->pulley >= 0) PB_THETA(a, wrap_prm, p->pulley, -(t->length * path->length + rate) / (divisor * divisor));
  if (t->drifts) t->drift += around_drift(w, body, at, end, &squares, s) / divisor;
}

// ---- a path -------------------------------------------------------------------------------------------------------------
static void pull_piece(LANE(pbAdjoint) *a, tendon_bar *t, const pbPiece *p, station *s1, station *s2) {
  const NUM(pbMechanism) *w = a->w;
  num divisor = p->pulley < 0 ? 1 : w->p.wrap_prm[p->pulley];
  station *const s[2] = {s1, s2};
  const NUM(pbWrapPath) *path = NUM(pbTendon_Around)(w, p);

  if (path) pull_wrapped(a, t, p, path, divisor, s);
  else if (s1->body == s2->body) pull_inner(a, t, p, divisor, s1, s2);
  else pull_straight(a, t, p, divisor, s1, s2);
}

static bool is_zero(lane x) {
  for (int l = 0; l < PB_LANES; l++) {
    // of any lane
    if (((const double *)&x)[l] != 0) return false;
  }
  return true;
}

void LANE(pbTendon_PullPath)(LANE(pbAdjoint) *a, int k, num *drift) {
  const NUM(pbMechanism) *w = a->w;
  tendon_bar t = {.length = a->ten_len[k],
                  .vel = a->ten_vel[k],
                  .acc = a->ten_acc[k],
                  .lam = a->ten_lam[k],
                  .other = a->ten_other[k],
                  .accelerated = !is_zero(a->ten_acc[k]),
                  .drifts = drift != NULL};
  // Rates that make no field yet.
  const lane *c = a->ten_c + k * w->m->nv;
  if (t.other) {
    LANE(pbSweep_PushTendon)(w, k, c, a->X);
    LANE(pbSweep_ClearTendon)(a, k);
  }

  // A piece begins where the one before it ends, but behind a pulley.
  station s[2];
  int last = 0;
  bool open = false;
  pbPiece p = pb_pathOf(w->m, k);
  while (pb_nextPiece(w->m, k, &p)) {
    if (open && s[last].site != p.site[0]) close_station(a, &t, s + last);
    if (!open || s[last].site != p.site[0]) open_station(a, &t, p.site[0], s + last);
    open_station(a, &t, p.site[1], s + 1 - last);
    pull_piece(a, &t, &p, s + last, s + 1 - last);
    close_station(a, &t, s + last);
    last = 1 - last;
    open = true;
  }

  if (open) close_station(a, &t, s + last);
  if (t.other) LANE(pbSweep_PullTendon)(a, k, c);
  if (drift) *drift = t.drift;
}
