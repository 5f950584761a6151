// Gradient of the virtual power of tendons: springs, dampers, armature, and from length and Jacobian to what a path is made of.
// Primal: dynamics.c (paths), force.c (springs, dampers); tests: tests/conformance/test_step.c.
#include "math/vec.h"
#include "multibody/force_adjoint.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"

// ---- springs and dampers --------------------------------------------------------------------------------------------
// W = -x k(x) (J lam), x the stretch beyond the spring's band: returns the force.
static double tendon_spring(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbWork) *w = a->w;
  const double *band = w->p.tendon_lengthspring + 2 * k;
  double c[3] = {w->p.tendon_stiffness[k], w->p.tendon_stiffnesspoly[2 * k], w->p.tendon_stiffnesspoly[2 * k + 1]};
  double share[2], x = tendon_stretch(w, k);
  band_shares(w->ten_length[k], band[0], band[1], share);

  // At an end of the band half of a slope belongs to each side.
  lane slope = -power * pb_polynomialSlope(c, x, false);
  a->ten_len[k] += slope * (share[0] + share[1]);
  for (int side = 0; side < 2; side++) PB_THETA(a, tendon_lengthspring, 2 * k + side, -slope * share[side]);

  PB_THETA(a, tendon_stiffness, k, -power * x);
  PB_THETA(a, tendon_stiffnesspoly, 2 * k, -power * x * x);
  PB_THETA(a, tendon_stiffnesspoly, 2 * k + 1, -power * x * x * x);
  return -x * pb_polynomialForce(c, x, false);
}

// Under implicitfast W = -h slope mu' (J'J) ahat, slope = d(v b)/dv; bar: of the damper's coefficients.
static void implicit_damper(LANE(pbAdjoint) *a, int k, const double c[3], lane bar[3]) {
  const NUM(pbWork) *w = a->w;
  double v = w->ten_velocity[k], s = fabs(v), h = w->p.timestep[0], slope = pb_polynomialSlope(c, v, true);
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
  lane *row = a->ten_c + k * w->m->nv;
  lane p = pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, -h * slope, a->mu, w->qacc_integrated, row);

  a->h_bar -= PB_LANE0(p) * slope;
  a->ten_vel[k] -= h * p * pb_signOf(v) * (2 * c[1] + 6 * c[2] * s);
  bar[0] -= h * p;
  bar[1] -= h * p * 2 * s;
  bar[2] -= h * p * 3 * s * s;
}

// W = -v b(|v|) (J lam): returns the force.
static double tendon_damper(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbWork) *w = a->w;
  double c[3], v = w->ten_velocity[k], s = fabs(v);
  NUM(pbTendon_Damping)(w, k, c);
  a->ten_vel[k] -= power * pb_polynomialSlope(c, v, true);

  // b's coefficients multiply 1, |v|, v^2.
  lane bar[3] = {-power * v, -power * v * s, -power * v * s * s};
  if (a->damped && w->m->integrator == pb_intImplicitfast) implicit_damper(a, k, c, bar);
  if (PB_WANTS(a, pb_wantDamping)) {
    damping_parameters(a, bar, a->bar.tendon_damping + k, a->bar.tendon_dampingpoly + 2 * k, w->t->ten_actuator_start,
                       w->t->ten_actuator, k);
  }
  return v * pb_polynomialForce(c, v, true);
}

// Springs and dampers: cotangents of length and velocity, theta, and the force that multiplies J lam. power: J lam.
static void tendon_forces(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double force = 0;
  if (!(m->disableflags & pb_disSpring)) force += tendon_spring(a, k, power);
  if (!(m->disableflags & pb_disDamper)) force -= tendon_damper(a, k, power);

  for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) {
    int dof = w->ten_dofs[i];
    a->ten_c[k * m->nv + dof] += force * a->lam[dof];
  }
}

// ---- paths ----------------------------------------------------------------------------------------------------------

// One straight piece of a path: unit vector, offsets of its ends.
typedef struct segment {
  const pbPiece *piece;
  int body[2];
  double dir[3], length, divisor, d[2][3];
} segment;

static void segment_of(const NUM(pbWork) *w, const pbPiece *p, segment *s) {
  s->piece = p;
  s->divisor = p->pulley < 0 ? 1 : w->p.wrap_prm[p->pulley];
  for (int e = 0; e < 2; e++) {
    s->body[e] = w->m->site_bodyid[p->site[e]];
    body_offset(w, s->body[e], w->site_xpos + 3 * p->site[e], s->d[e]);
  }
  v3_sub(s->dir, w->site_xpos + 3 * p->site[1], w->site_xpos + 3 * p->site[0]);
  s->length = v3_normalize(s->dir);
}

// A straight piece: W = length |p2 - p1| / divisor + dir . (u2 - u1) / divisor, u the velocities under the rates c
static void pull_straight(LANE(pbAdjoint) *a, const pbPiece *p, lane length) {
  segment s;
  PB_ASSERT(p->site[0] >= 0 && p->site[1] >= 0);
  segment_of(a->w, p, &s);
  if (s.length < 1e-15) return;

  lane u[2][3], rel[3], g[3], along, divisor_bar;
  for (int e = 0; e < 2; e++) PB_POINTVEL(u[e], a->X + 6 * s.body[e], s.d[e]);
  for (int x = 0; x < 3; x++) rel[x] = u[1][x] - u[0][x];
  along = PB_DOT3(s.dir, rel);

  // By the distance vector: its length, and dir, which moves by (I - dir dir') / |p2 - p1|.
  for (int x = 0; x < 3; x++) g[x] = (length * s.dir[x] + (rel[x] - along * s.dir[x]) / s.length) / s.divisor;
  divisor_bar = -(length * s.length + along) / (s.divisor * s.divisor);

  for (int e = 0; e < 2; e++) {
    // Equal and opposite forces at the ends.
    double F[3];
    lane q[3];
    v3_scale(F, s.dir, (e ? 1 : -1) / s.divisor);
    PB_CROSS(q, F, a->X + 6 * s.body[e]);
    for (int x = 0; x < 3; x++) q[x] += (e ? 1 : -1) * g[x];
    LANE(pbSweep_Point)(a, s.body[e], s.d[e], F, q, a->F);
    LANE(pbSweep_Site)(a, p->site[e], q, NULL);
  }

  if (p->pulley >= 0) PB_THETA(a, wrap_prm, p->pulley, divisor_bar);
}

// Poses and radius of what is wrapped around: force at its center and torque (world axes).
static void pull_obstacle(LANE(pbAdjoint) *a, int geom, const lane force[3], const lane torque[3], lane radius) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  double local[3];
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

// A piece around a geom: W = (length L + sum e . (u - v)) / divisor over both ends, e the gradient of L by the end, u the site's
// velocity under the rates c and v that of the geom's body at the same point. L is a function of the ends as the geom sees them
// and of its radius, with Hessian H: e turns with the geom and moves by H times what the ends move against it.
typedef struct around {
  int body[2], geom;              // of the sites, of the geom
  double d[2][3], at_geom[2][3];  // offsets of the ends from the references of both
  double H[49], divisor;
  lane rel[6], rate;  // u - v of both ends; sum e . (u - v)
  lane turn[3];       // torque by which the directions turn with the geom
} around;

static void look_around(const LANE(pbAdjoint) *a, const pbPiece *p, const NUM(pbWrapPath) *path, around *o) {
  const NUM(pbWork) *w = a->w;
  PB_ASSERT(p->geom >= 0 && p->geom < w->m->ngeom);
  o->geom = w->m->geom_bodyid[p->geom];
  o->divisor = p->pulley < 0 ? 1 : w->p.wrap_prm[p->pulley];
  o->rate = PB_LANE_ZERO;
  memset(o->turn, 0, sizeof o->turn);
  NUM(pbWrap_Curvature)(path, o->H);

  for (int e = 0; e < 2; e++) {
    const double *x = w->site_xpos + 3 * p->site[e];
    lane u[3], v[3], *rel = o->rel + 3 * e;
    o->body[e] = w->m->site_bodyid[p->site[e]];
    body_offset(w, o->body[e], x, o->d[e]);
    body_offset(w, o->geom, x, o->at_geom[e]);
    PB_POINTVEL(u, a->X + 6 * o->body[e], o->d[e]);
    PB_POINTVEL(v, a->X + 6 * o->geom, o->at_geom[e]);

    // What the end moves against the geom.
    for (int k = 0; k < 3; k++) rel[k] = u[k] - v[k];
    o->rate += PB_DOT3(path->end[e], rel);
    PB_ADDCROSS(o->turn, 1, path->end[e], rel);
  }
}

// One end; minus: the cotangent that it gives to the geom's body at the same point.
static void pull_end(LANE(pbAdjoint) *a, const pbPiece *p, const NUM(pbWrapPath) *path, const around *o, int e, lane length,
                     lane minus[3]) {
  double F[3], back[3];
  lane point[3];
  PB_ASSERT(o->divisor != 0);
  for (int k = 0; k < 3; k++) {
    point[k] = length * path->end[e][k];
    for (int j = 0; j < 6; j++) point[k] += o->H[7 * (3 * e + k) + j] * o->rel[j];
    point[k] = point[k] / o->divisor;
    minus[k] = -point[k];
  }
  v3_scale(F, path->end[e], 1 / o->divisor);
  v3_neg(back, F);

  // The site's point moves in both velocities; on the geom's body only the path's end counts.
  PB_ADDCROSS(point, 1, F, a->X + 6 * o->body[e]);
  PB_ADDCROSS(point, -1, F, a->X + 6 * o->geom);
  LANE(pbSweep_Point)(a, o->body[e], o->d[e], F, point, a->F);
  LANE(pbSweep_Point)(a, o->geom, o->at_geom[e], back, minus, a->F);
  LANE(pbSweep_Site)(a, p->site[e], point, NULL);
}

static void pull_wrapped(LANE(pbAdjoint) *a, const pbPiece *p, const NUM(pbWrapPath) *path, lane length) {
  const NUM(pbWork) *w = a->w;
  around o;
  double center[3];
  lane radius = length * path->by_radius, force[3] = {0}, torque[3] = {0};
  look_around(a, p, path, &o);
  body_offset(w, o.geom, w->geom_xpos + 3 * p->geom, center);

  // By the radius, then by the ends.
  for (int k = 0; k < 6; k++) radius += o.H[42 + k] * o.rel[k];
  for (int e = 0; e < 2; e++) {
    lane minus[3];
    double arm[3];
    pull_end(a, p, path, &o, e, length, minus);
    v3_sub(arm, o.at_geom[e], center);
    for (int k = 0; k < 3; k++) force[k] += minus[k];
    PB_ADDCROSS(torque, 1, arm, minus);
  }

  // The ends' directions turn with the geom.
  for (int k = 0; k < 3; k++) {
    o.turn[k] = o.turn[k] / o.divisor;
    a->P[6 * o.geom + k] += o.turn[k];
    torque[k] += o.turn[k];
  }

  pull_obstacle(a, p->geom, force, torque, radius / o.divisor);
  if (p->pulley >= 0) PB_THETA(a, wrap_prm, p->pulley, -(length * path->length + o.rate) / (o.divisor * o.divisor));
}

// Length and J c of a path: P, the extra field's cotangents, sites, geoms, pulleys. The field is zero on what carries all of it.
static void pull_path(LANE(pbAdjoint) *a, int k, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  const lane *c = a->ten_c + k * m->nv;
  LANE(pbSweep_PushTendon)(w, k, c, a->X);
  LANE(pbSweep_ClearTendon)(a, k);
  pbPiece p = pb_pathOf(m, k);
  while (pb_nextPiece(m, k, &p)) {
    NUM(pbWrapPath) path;
    if (NUM(pbTendon_Wraps)(w, &p, &path)) pull_wrapped(a, &p, &path, length);
    else pull_straight(a, &p, length);
  }
  LANE(pbSweep_PullTendon)(a, k, c);
}

// A path over joints: length = sum coefficient q.
static void pull_fixed_path(LANE(pbAdjoint) *a, int k, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  const lane *c = a->ten_c + k * m->nv;
  for (int i = m->tendon_adr[k], end = i + m->tendon_num[k]; i < end; i++) {
    int j = m->wrap_objid[i], dof = m->jnt_dofadr[j];
    a->q[dof] += w->p.wrap_prm[i] * length;
    PB_THETA(a, wrap_prm, i, length * w->qpos[m->jnt_qposadr[j]] + c[dof]);
  }
}

// ---- armature -------------------------------------------------------------------------------------------------------
// A segment's share of d2L/dt2 at zero joint acceleration (tendon_dot in dynamics.c), with v, a the second end's velocity and
// acceleration minus the first's: (dir . a + |across|^2 / L) / divisor, across = v - (dir . v) dir.
typedef struct segment_drift {
  double u[2][3];      // velocities of the ends
  double across[3];    // v less its part along dir
  double position[3];  // gradient by the second end's position
  double value;
} segment_drift;

static void drift_of_segment(const NUM(pbWork) *w, const segment *s, segment_drift *f) {
  double acc[2][3], rel[3], racc[3], along, L = s->length;
  for (int x = 0; x < 2; x++) {
    double A0[6], t[3];
    for (int r = 0; r < 6; r++) A0[r] = w->A0[6 * s->body[x] + r];
    PB_POINTVEL(f->u[x], w->V + 6 * s->body[x], s->d[x]);
    PB_POINTVEL(acc[x], A0, s->d[x]);
    PB_CROSS(t, w->V + 6 * s->body[x], f->u[x]);
    v3_addto(acc[x], t);
  }

  v3_sub(rel, f->u[1], f->u[0]);
  v3_sub(racc, acc[1], acc[0]);
  along = v3_dot(s->dir, rel);
  for (int x = 0; x < 3; x++) f->across[x] = rel[x] - along * s->dir[x];
  double speed2 = v3_dot(f->across, f->across);
  f->value = (v3_dot(s->dir, racc) + speed2 / L) / s->divisor;

  // By the ends' distance vector: dir moves by (I - dir dir') / L, L along dir.
  double along_acc = v3_dot(s->dir, racc);
  for (int x = 0; x < 3; x++) {
    double by_direction = (racc[x] - along_acc * s->dir[x]) / L - 2 * along * f->across[x] / (L * L);
    f->position[x] = (by_direction - speed2 * s->dir[x] / (L * L)) / s->divisor;
  }
}

// One end of a segment: acceleration A_lin + A_ang x d + w x u with gradient G, velocity u with gradient gu.
static void pull_drift_end(LANE(pbAdjoint) *a, const segment *s, const segment_drift *f, int end, lane e) {
  const NUM(pbWork) *w = a->w;
  int b = s->body[end];
  double sign = end ? 1 : -1;
  const double *V = w->V + 6 * b, *A = w->A0 + 6 * b, *d = s->d[end], *u = f->u[end];
  lane G[3], gu[3], p[3], wrench[6] = {0}, fv[6] = {0};
  for (int r = 0; r < 3; r++) {
    G[r] = -e * (sign / s->divisor) * s->dir[r];
    gu[r] = -e * (sign * 2 / (s->length * s->divisor)) * f->across[r];
  }

  // To the fields of accelerations and velocities. A0 counts without the joints' accelerations: A - Va.
  PB_ADDWRENCH(wrench, 1, d, G);
  PB_ADDCROSS(fv, 1, u, G);
  PB_ADDCROSS(gu, 1, G, V);
  PB_ADDWRENCH(fv, 1, d, gu);
  PB_AXPY6(a->FA + 6 * b, 1, wrench);
  PB_AXPY6(a->FVa + 6 * b, -1, wrench);
  PB_AXPY6(a->FV + 6 * b, 1, fv);

  // To the end's position: through the offset d, and through the segment.
  PB_CROSS(p, G, A);
  PB_ADDCROSS(p, 1, gu, V);
  for (int r = 0; r < 3; r++) p[r] += -e * sign * f->position[r];
  PB_ADDWRENCH(a->P + 6 * b, 1, d, p);
  LANE(pbSweep_Site)(a, s->piece->site[end], p, NULL);
}

// W = -e (d2L/dt2 at zero joint acceleration), e = armature (J lam), for a path through sites. Returns d2L/dt2.
static double pull_path_drift(LANE(pbAdjoint) *a, int k, lane e) {
  const NUM(pbWork) *w = a->w;
  double sum = 0;
  segment s;
  pbPiece p = pb_pathOf(w->m, k);
  while (pb_nextPiece(w->m, k, &p)) {
    segment_drift f;
    NUM(pbWrapPath) path;
    if (NUM(pbTendon_Wraps)(w, &p, &path)) {  // has no armature: only the gradient by it
      sum += NUM(pbTendon_Bend)(w, &p, &path, w->A0) / (p.pulley < 0 ? 1 : w->p.wrap_prm[p.pulley]);
      continue;
    }

    segment_of(w, &p, &s);
    if (s.length < 1e-15) continue;
    drift_of_segment(w, &s, &f);
    sum += f.value;

    if (p.pulley >= 0) PB_THETA(a, wrap_prm, p.pulley, e * (f.value / s.divisor));
    for (int end = 0; end < 2; end++) pull_drift_end(a, &s, &f, end, e);
  }
  return sum;
}

// bar: cotangent of the armature of a tendon.
static void pull_tendon_armature(LANE(pbAdjoint) *a, int k, lane bar) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  PB_THETA(a, tendon_armature, k, bar);
  for (int i = w->t->ten_actuator_start[k]; i < w->t->ten_actuator_start[k + 1]; i++) {
    int u = w->t->ten_actuator[i];
    double gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, bar * gear * gear);
    PB_THETA(a, actuator_gear, 6 * u, bar * 2 * gear * w->p.actuator_armature[u]);
  }
#else
  (void)a;
  (void)k;
  (void)bar;
#endif
}

// W = -armature [lam' (J'J) a on the pattern of M + (J lam) (dJ/dt v)] + armature mu' (J'J) (a - ahat)
static void tendon_armature(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double armature = NUM(pbTendon_Armature)(w, k), drift = 0;
  PB_ASSERT(w->ten_start[k + 1] - w->ten_start[k] <= m->nv);
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
  bool wanted = PB_WANTS(a, pb_wantTendon);
  if (armature == 0 && !wanted) return;

  // On the pattern of M: with the accelerations, and what implicit damping takes from them.
  lane *c = a->ten_c + k * m->nv;
  lane bar = -pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, -armature, a->lam, w->qacc, c);
  if (a->damped) {
    for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qacc[i] - w->qacc_integrated[i];
    bar += pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, armature, a->mu, w->tmp, c);
  }

  // The bias: J' armature (dJ/dt v). Paths over joints have a constant J.
  if (pb_isSpatial(m, k)) {
    drift = pull_path_drift(a, k, armature * power);
    bar -= power * drift;
    for (int i = adr; i < adr + n; i++) c[w->ten_dofs[i]] -= armature * drift * a->lam[w->ten_dofs[i]];
  }

  pull_tendon_armature(a, k, bar);
}

void LANE(pbForce_TendonArmaturePair)(LANE(pbAdjoint) *a, int k, double s, const lane *u, const double *z) {
  const NUM(pbWork) *w = a->w;
  double armature = NUM(pbTendon_Armature)(w, k);
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
  if (armature == 0 && !PB_WANTS(a, pb_wantTendon)) return;

  // On the pattern of M.
  lane *c = a->ten_c + k * w->m->nv;
  lane bar = s * pb_outerPower(w, w->ten_dofs + adr, w->ten_J + adr, n, s * armature, u, z, c);
  pull_tendon_armature(a, k, bar);
}

void LANE(pbForce_Tendons)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  for (int k = 0; k < m->ntendon; k++) {
    lane power = PB_LANE_ZERO, *c = a->ten_c + k * m->nv;
    PB_VALIDATE(pb_ascending(w->ten_dofs + w->ten_start[k], w->ten_start[k + 1] - w->ten_start[k]));
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) power += w->ten_J[i] * a->lam[w->ten_dofs[i]];
    tendon_forces(a, k, power);
    tendon_armature(a, k, power);

    // W = velocity (J v); then length and Jacobian go to what the path is made of.
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) {
      a->v[w->ten_dofs[i]] += w->ten_J[i] * a->ten_vel[k];
      c[w->ten_dofs[i]] += a->ten_vel[k] * w->qvel[w->ten_dofs[i]];
    }
    if (pb_isSpatial(m, k)) pull_path(a, k, a->ten_len[k]);
    else pull_fixed_path(a, k, a->ten_len[k]);
  }
}
