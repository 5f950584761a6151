// Gradient of the virtual power of passive and applied forces: springs, dampers, armature of joints, applied wrenches, gravity
// compensation, fluid. Each line stands below the power it differentiates. Primal: force.c; tests: tests/conformance/test_step.c.
#include "eval/adjoint.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/fluid.h"
#include "multibody/force_adjoint.h"
#include "multibody/kink.h"
#include "multibody/lane3.h"
#include "multibody/spatial.h"

// ---- springs --------------------------------------------------------------------------------------------------------
// W = -k(r) lam . d, r = |d|: cotangent g of d, theta of the stiffness coefficients.
static void spring3(LANE(pbAdjoint) *a, int j, const double d[3], const lane *lam, lane g[3]) {
  const NUM(pbWork) *w = a->w;
  double c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]};
  double r = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
  double k = pb_polynomialForce(c, r, false);
  double slope = r > 0 ? (c[1] + 2 * c[2] * r) / r : 0;

  // Along d the stiffness changes, too. At the origin of a pure polynomial it has no slope.
  lane along = PB_DOT3(lam, d);
  for (int i = 0; i < 3; i++) g[i] = -k * lam[i] - slope * along * d[i];
  PB_THETA(a, jnt_stiffness, j, -along);
  PB_THETA(a, jnt_stiffnesspoly, 2 * j, -along * r);
  PB_THETA(a, jnt_stiffnesspoly, 2 * j + 1, -along * r * r);
}

// Rotation by q (ball, free): d = log(rest^-1 q), in the child's frame.
static void rotation_spring(LANE(pbAdjoint) *a, int j, int qadr, int dof) {
  const NUM(pbWork) *w = a->w;
  double q[4], s[4], d[3];
  lane g[3], t[3];

  // d is the rotation vector from rest.
  quat_copy(q, w->qpos + qadr);
  quat_normalize(q);
  quat_conj(s, w->p.qpos_spring + qadr);
  quat_mul(q, s, q);
  quat_log(d, q);

  spring3(a, j, d, a->lam + dof, g);
  pb_log_pull(d, g, t);
  for (int i = 0; i < 3; i++) a->q[dof + i] += t[i];

// The rest orientation rotates the other way, seen from the left.
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantSprings)) {
    double back[3], minus[3] = {-d[0], -d[1], -d[2]};
    pb_log_pull(minus, g, back);
    v3_neg(back, back);
    pb_quat_pull(a->bar.qpos_spring + qadr, w->p.qpos_spring + qadr, back);
  }
#endif
}

static void joint_spring(LANE(pbAdjoint) *a, int j) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]}, d[3];
  bool none = c[0] == 0 && c[1] == 0 && c[2] == 0;
  int qadr = m->jnt_qposadr[j], dof = m->jnt_dofadr[j], type = m->jnt_type[j];
  if (none && !PB_WANTS(a, pb_wantSprings)) return;

  // A slide or hinge: W = -lam x k(x), x from the rest position.
  if (pbJoint_IsScalar(type)) {
    double x = w->qpos[qadr] - w->p.qpos_spring[qadr];
    lane slope = -a->lam[dof] * pb_polynomialSlope(c, x, false);

    a->q[dof] += slope;
    PB_THETA(a, qpos_spring, qadr, -slope);
    PB_THETA(a, jnt_stiffness, j, -a->lam[dof] * x);
    PB_THETA(a, jnt_stiffnesspoly, 2 * j, -a->lam[dof] * x * x);
    PB_THETA(a, jnt_stiffnesspoly, 2 * j + 1, -a->lam[dof] * x * x * x);
    return;
  }

  // A free joint has a spring of three translations, and like a ball one of its rotation.
  if (type == pb_jntFree) {
    lane g[3];
    v3_sub(d, w->qpos + qadr, w->p.qpos_spring + qadr);
    spring3(a, j, d, a->lam + dof, g);
    for (int i = 0; i < 3; i++) {
      a->q[dof + i] += g[i];
      PB_THETA(a, qpos_spring, qadr + i, -g[i]);
    }
    qadr += 3;
    dof += 3;
  }
  rotation_spring(a, j, qadr, dof);
}

// ---- damping --------------------------------------------------------------------------------------------------------

// Explicitly W = -lam v b(|v|); with implicit damping W = -h mu slope(v) ahat comes to it, slope = d(v b)/dv.
static void dof_damper(LANE(pbAdjoint) *a, int i) {
  const NUM(pbWork) *w = a->w;
  const double *c = a->damping + 3 * i;
  double v = w->qvel[i], s = fabs(v), h = w->p.timestep[0];
  lane bar[3], lam = a->lam[i];

  // b's coefficients multiply 1, |v|, v^2.
  a->v[i] -= lam * pb_polynomialSlope(c, v, true);
  bar[0] = -lam * v;
  bar[1] = -lam * v * s;
  bar[2] = -lam * v * s * s;

  bool euler = w->m->integrator == pb_intEuler && !(w->m->disableflags & pb_disEulerdamp);
  bool implicit = euler || w->m->integrator == pb_intImplicitfast;
  // In one step with deformables dampers are a part of what is minimized: its adjoint is lam.
  bool inside = euler && w->couple_S && !(w->m->disableflags & pb_disDamper);
  if (inside || (a->has_mu && implicit)) {
    lane x = inside ? -h * lam * w->qacc_integrated[i] : -h * a->mu[i] * w->qacc_integrated[i];
    a->v[i] += x * pb_signOf(v) * (2 * c[1] + 6 * c[2] * s);
    bar[0] += x;
    bar[1] += x * 2 * s;
    bar[2] += x * 3 * s * s;
    a->h_bar += PB_LANE0(x) / h * pb_polynomialSlope(c, v, true);
  }

  if (PB_WANTS(a, pb_wantDamping)) {
    damping_parameters(a, bar, a->bar.dof_damping + i, a->bar.dof_dampingpoly + 2 * i, w->t->dof_actuator_start,
                       w->t->dof_actuator, i);
  }
}

#if PB_LANES == 1
// bar: cotangent of the armature of a dof. Actuators reflect their rotors' armature times gear^2.
static void pull_dof_armature(LANE(pbAdjoint) *a, int i, double bar) {
  const NUM(pbWork) *w = a->w;
  if (!PB_WANTS(a, pb_wantArmature)) return;
  PB_THETA(a, dof_armature, i, bar);
  for (int k = w->t->dof_actuator_start[i]; k < w->t->dof_actuator_start[i + 1]; k++) {
    int u = w->t->dof_actuator[k];
    double gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, bar * gear * gear);
    PB_THETA(a, actuator_gear, 6 * u, bar * 2 * gear * w->p.actuator_armature[u]);
  }
}
#endif

// W = -armature lam a + armature mu (a - ahat)
static void dof_armature(LANE(pbAdjoint) *a, int i) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  double bar = -a->lam[i] * a->at.qacc[i];

  // Implicit damping sees it, too: in M and in Mhat.
  if (a->damped) bar += a->mu[i] * (a->at.qacc[i] - w->qacc_integrated[i]);
  pull_dof_armature(a, i, bar);
#else
  (void)a;
  (void)i;
#endif
}

void LANE(pbForce_ArmaturePair)(LANE(pbAdjoint) *a, double s, const lane *u, const double *z) {
#if PB_LANES == 1
  for (int i = 0; i < a->w->m->nv; i++) pull_dof_armature(a, i, s * u[i] * z[i]);
#endif
  for (int k = 0; k < a->w->m->ntendon; k++) LANE(pbForce_TendonArmaturePair)(a, k, s, u, z);
}

void LANE(pbForce_ArmatureMass)(LANE(pbAdjoint) *a, const lane *M_bar) {
#if PB_LANES == 1
  const pbTreePattern *tree = &a->w->t->M;
  for (int i = 0; i < tree->n; i++) pull_dof_armature(a, i, M_bar[tree->adr[i] + tree->depth[i]]);
#endif
  for (int k = 0; k < a->w->m->ntendon; k++) LANE(pbForce_TendonArmatureMass)(a, k, M_bar);
}

// ---- applied forces, gravity compensation ---------------------------------------------------------------------------
// W = force . (velocity of the center of mass) + torque . (angular velocity), under Vx
static void applied_wrench(LANE(pbAdjoint) *a, int b) {
  const NUM(pbWork) *w = a->w;
  const double *x = w->xfrc_applied + 6 * b;
  PB_ASSERT(w->t->body_tree[b] >= 0);
  const lane *X = a->Vx + 6 * b;
  bool none = x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == 0 && x[4] == 0 && x[5] == 0;
  double d[3];
  lane u[3], p[3];

  if (none && !a->xfrc) return;
  body_offset(w, b, w->xipos + 3 * b, d);
  PB_POINTVEL(u, X, d);
  if (a->xfrc) {
    for (int k = 0; k < 3; k++) {
      a->xfrc[6 * b + k] += u[k];
      a->xfrc[6 * b + 3 + k] += X[k];
    }
  }
  if (none) return;

  // The force's point of application moves with the body; the torque sees angular motion alone.
  PB_CROSS(p, x, X);
  LANE(pbSweep_Point)(a, b, d, x, p, a->FX);
  for (int k = 0; k < 3; k++) a->FX[6 * b + k] += x[3 + k];

#if PB_LANES == 1
  if (a->theta) {
    double local[3];
    m3_tmulv(local, w->xmat + 9 * b, p);
    for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, local[k]);
  }
#endif
}

// W = -m gravcomp g . (velocity of the center of mass) under the field X
static void compensate_body(LANE(pbAdjoint) *a, int b, const lane *X, double *field) {
  const NUM(pbWork) *w = a->w;
  double d[3], force[3], m = w->p.body_mass[b], gc = w->p.body_gravcomp[b];
  const double *g = w->p.gravity;
  lane u[3], p[3];

  // Without compensation there is no power, but its derivative by body_gravcomp.
  if (gc == 0 && !PB_WANTS(a, pb_wantGravcomp)) return;

  body_offset(w, b, w->xipos + 3 * b, d);
  PB_POINTVEL(u, X, d);
  PB_THETA(a, body_gravcomp, b, -m * PB_DOT3(g, u));
  if (gc == 0) return;

  // The force -m gc g at the center of mass: to the field's cotangent and to the point.
  v3_scale(force, g, -m * gc);
  PB_CROSS(p, force, X);
  LANE(pbSweep_Point)(a, b, d, force, p, field);

  PB_THETA(a, body_mass, b, -gc * PB_DOT3(g, u));
  for (int k = 0; k < 3; k++) PB_THETA(a, gravity, k, -m * gc * u[k]);
#if PB_LANES == 1
  if (a->theta) {
    double local[3];
    m3_tmulv(local, w->xmat + 9 * b, p);
    for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, local[k]);
  }
#endif
}

static bool gravity_acts(const LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const double *g = w->p.gravity;
  bool passive = !(w->m->disableflags & pb_disSpring) || !(w->m->disableflags & pb_disDamper);
  bool some = g[0] != 0 || g[1] != 0 || g[2] != 0 || (PB_LANES == 1 && a->theta);  // gravity has slopes at zero, too
  return passive && !(w->m->disableflags & pb_disGravity) && some;
}

// a->c: the virtual rate that gravity compensation does its power on, dof by dof. That is lam, but where a joint takes the
// compensation as a part of its actuator force (jnt_actgravcomp) it is lam_act, which is zero at a limit of that force; and none
// where actuators are off. Returns whether there is such a joint: then the rates need a field of body motions of their own.
static bool compensated_rates(LANE(pbAdjoint) *a) {
  const pbModel *m = a->w->m;
  bool off = (m->disableflags & pb_disActuation) || !m->nu, any = false;

  for (int i = 0; i < m->nv; i++) {
    bool through = m->jnt_actgravcomp[m->dof_jntid[i]];
    if (!through) a->c[i] = a->lam[i];
    else if (off) a->c[i] = PB_LANE_ZERO;
    else a->c[i] = a->lam_act[i];
    any = any || through;
  }
  return any;
}

static void gravity_compensation(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  bool any = PB_WANTS(a, pb_wantGravcomp);
  for (int b = 1; b < m->nbody; b++) any = any || w->p.body_gravcomp[b] != 0;

  if (!any || !gravity_acts(a)) return;

  bool own = compensated_rates(a);
  if (own) {
    LANE(pbSweep_Push)(w, a->c, a->X);
    memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(double));
  }
  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) compensate_body(a, b, (own ? a->X : a->Vl) + 6 * b, own ? a->F : a->FL);
  }
  if (own) LANE(pbSweep_PullExtra)(a, a->c);
}

#if PB_LANES == 1
// The power under X of what a unit of each would exert on the inertia box of a body (fluid.c), added: three numbers at a time.
static void box_unit_power(const NUM(pbWork) *w, int b, const double *X, double power[2]) {
  const double *V = w->V + 6 * b, *R = w->ximat + 9 * b, per_mass = 6.0 / w->p.body_mass[b];
  const p3 I = p3_load(w->p.body_inertia + 3 * b), wind = p3_load(w->p.wind);
  const p3 d = offset_of(w, b, w->xipos + 3 * b);
  p3 rows[3];

  const p6 move = p6_load(V), given = p6_load(X);
  const p3 v = p6_velocity(move, d) - wind, x = p6_velocity(given, d), sum = PB_TURN3(I) + PB_TURN3(PB_TURN3(I)) - I;

  // Viscosity: like a sphere of the mean diameter.
  double edges[3];
  for (int k = 0; k < 3; k++) edges[k] = sqrt((sum[k] > 1e-15 ? sum[k] : 1e-15) * per_mass);
  const p3 edge = p3_make(edges[0], edges[1], edges[2]);
  double diameter = (edge[0] + edge[1] + edge[2]) / 3.0, twice = diameter * diameter;
  power[1] -= PB_PI * diameter * (twice * p3_dot(given.a, move.a) + 3.0 * p3_dot(x, v));

  // Density: on the faces, in the box's axes.
  rows_load(rows, R);
  const p3 second = PB_TURN3(edge), third = PB_TURN3(second), square = edge * edge, fourth = square * square;
  const p3 spin = l3_columns(rows, move.a), slide = l3_columns(rows, v);
  const p3 turn = edge * (PB_TURN3(fourth) + PB_TURN3(PB_TURN3(fourth))) * l3_columns(rows, given.a) * spin;
  const p3 push = second * third * l3_columns(rows, x) * slide;
  const p3 drag = 1.0 / 64 * turn * p3_abs(spin) + 0.5 * push * p3_abs(slide);
  for (int k = 0; k < 3; k++) power[0] -= drag[k];
}
#endif

// Fluid of a medium that is absent: density and viscosity still have a slope, the power of the wrench each would make.
static void empty_medium(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  double power[2] = {0}, damping[2] = {0}, h = w->p.timestep[0];

  for (int b = 1; b < w->m->nbody; b++) {
    bool box;
    if (w->t->body_tree[b] < 0 || !NUM(pbFluid_Parts)(w, b, &box)) continue;

    if (box) {
      box_unit_power(w, b, a->Vl + 6 * b, power);
    } else {
      PB_ASSERT(w->all_geoms);
      NUM(pbFluid_UnitPower)(w, b, a->Vl + 6 * b, power);
    }
  }

  if (a->damped && w->m->integrator == pb_intImplicitfast) {  // W = h Vm . B (Va - Vw)
    NUM(pbFluid_UnitDamping)(w, a->Vm, a->Va, a->Vw, damping);
    for (int k = 0; k < 2; k++) power[k] += h * damping[k];
  }
  PB_THETA(a, density, 0, power[0]);
  PB_THETA(a, viscosity, 0, power[1]);
#else
  (void)a;
#endif
}

void LANE(pbForce_Joints)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  bool springs = !(m->disableflags & pb_disSpring), dampers = !(m->disableflags & pb_disDamper);
  if (springs) {
    for (int j = 0; j < m->njnt; j++) joint_spring(a, j);
  }
  for (int i = 0; i < m->nv; i++) {
    if (dampers) dof_damper(a, i);
    dof_armature(a, i);
    if (a->qfrc) a->qfrc[i] += a->lam[i];
  }

  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) applied_wrench(a, b);
  }

  // MuJoCo's flags of springs and dampers both switch off all passive forces.
  gravity_compensation(a);
  if (!springs && !dampers) return;
  if (w->has_fluid) {
    LANE(pbFluid_Adjoint)(a);
    if (a->damped && m->integrator == pb_intImplicitfast) LANE(pbFluid_DampingAdjoint)(a, w->p.timestep[0]);
  } else if (PB_WANTS(a, pb_wantMedium)) {
    empty_medium(a);
  }
}
