// Gradient of the virtual power of force elements: each line below the power it differentiates.
#include "model/joint.h"
#include "math/vec.h"
#include "eval/adjoint.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"

// ---- springs --------------------------------------------------------------------------------------------------------
// W = -k(r) lam . d, r = |d|: cotangent g of d, theta of the stiffness coefficients.
static void spring3(LANE(pbAdjoint) *a, int j, const double d[3], const lane *lam, lane g[3]) {
  const NUM(pbWork) *w = a->w;
  double c[3] = {w->p.jnt_stiffness[j], w->p.jnt_stiffnesspoly[2 * j], w->p.jnt_stiffnesspoly[2 * j + 1]};
  double r = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]), k = pb_polynomialForce(c, r, false);
  double slope = r > 0 ? (c[1] + 2 * c[2] * r) / r : 0;
  lane along = PB_DOT3(lam, d);
  for (int i = 0; i < 3; i++) g[i] = -k * lam[i] - slope * along * d[i];
  PB_THETA(a, jnt_stiffness, j, -along);
  PB_THETA(a, jnt_stiffnesspoly, 2 * j, -along * r);
  PB_THETA(a, jnt_stiffnesspoly, 2 * j + 1, -along * r * r);
}

static void rotation_spring(LANE(pbAdjoint) *a, int j, int qadr, int dof) {
  const NUM(pbWork) *w = a->w;
  double q[4], s[4], d[3];
  lane g[3], t[3];
  quat_copy(q, w->qpos + qadr);
  quat_normalize(q);
  quat_conj(s, w->p.qpos_spring + qadr);
  quat_mul(q, s, q);
  quat_log(d, q);
  spring3(a, j, d, a->lam + dof, g);
  pb_log_pull(d, g, t);
  for (int i = 0; i < 3; i++) a->q[dof + i] += t[i];
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantSprings)) {  // the rest orientation turns the other way, seen from the left
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
  if (pbJoint_IsScalar(type)) {  // W = -lam x k(x)
    double x = w->qpos[qadr] - w->p.qpos_spring[qadr];
    lane slope = -a->lam[dof] * pb_polynomialSlope(c, x, false);
    a->q[dof] += slope;
    PB_THETA(a, qpos_spring, qadr, -slope);
    PB_THETA(a, jnt_stiffness, j, -a->lam[dof] * x);
    PB_THETA(a, jnt_stiffnesspoly, 2 * j, -a->lam[dof] * x * x);
    PB_THETA(a, jnt_stiffnesspoly, 2 * j + 1, -a->lam[dof] * x * x * x);
    return;
  }
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
// Cotangents of the three coefficients of a damper to its own fields and to those of the actuators reflected to it.
static void damping_parameters(LANE(pbAdjoint) *a, const lane bar[3], double *linear, double *poly, const int *start,
                               const int *list, int i) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  *linear += bar[0];
  poly[0] += bar[1];
  poly[1] += bar[2];
  for (int k = start[i]; k < start[i + 1]; k++) {
    int u = list[k];
    double gear = w->p.actuator_gear[6 * u], g2 = gear * gear;
    PB_THETA(a, actuator_damping, u, bar[0] * g2);
    PB_THETA(a, actuator_dampingpoly, 2 * u, bar[1] * g2);
    PB_THETA(a, actuator_dampingpoly, 2 * u + 1, bar[2] * g2);
    PB_THETA(a, actuator_gear, 6 * u,
             2 * gear *
                 (bar[0] * w->p.actuator_damping[u] + bar[1] * w->p.actuator_dampingpoly[2 * u] +
                  bar[2] * w->p.actuator_dampingpoly[2 * u + 1]));
  }
#else
  (void)a, (void)bar, (void)linear, (void)poly, (void)start, (void)list, (void)i;
#endif
}

static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

static void dof_damper(LANE(pbAdjoint) *a, int i) {
  const NUM(pbWork) *w = a->w;
  const double *c = a->damping + 3 * i;
  double v = w->qvel[i], s = fabs(v), h = w->p.timestep[0];
  lane bar[3], lam = a->lam[i];
  // W = -lam v b(|v|)
  a->v[i] -= lam * pb_polynomialSlope(c, v, true);
  bar[0] = -lam * v;
  bar[1] = -lam * v * s;
  bar[2] = -lam * v * s * s;
  bool euler = w->m->integrator == pb_intEuler && !(w->m->disableflags & pb_disEulerdamp),
       fast = w->m->integrator == pb_intImplicitfast;
  if (a->has_mu && (euler || fast)) {  // W = -h mu slope(v) ahat
    lane x = -h * a->mu[i] * w->qacc_integrated[i];
    a->v[i] += x * sign_of(v) * (2 * c[1] + 6 * c[2] * s);
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

// W = -armature lam a + armature mu (a - ahat)
static void dof_armature(LANE(pbAdjoint) *a, int i) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  if (!PB_WANTS(a, pb_wantArmature)) return;
  double bar = -a->lam[i] * w->qacc[i];
  if (a->damped) bar += a->mu[i] * (w->qacc[i] - w->qacc_integrated[i]);
  PB_THETA(a, dof_armature, i, bar);
  for (int k = w->t->dof_actuator_start[i]; k < w->t->dof_actuator_start[i + 1]; k++) {
    int u = w->t->dof_actuator[k];
    double gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, bar * gear * gear);
    PB_THETA(a, actuator_gear, 6 * u, bar * 2 * gear * w->p.actuator_armature[u]);
  }
#else
  (void)a, (void)i;
#endif
}

// ---- applied forces, gravity compensation ---------------------------------------------------------------------------
// W = force . (velocity of the centre of mass) + torque . (angular velocity), under Vx
static void applied_wrench(LANE(pbAdjoint) *a, int b) {
  const NUM(pbWork) *w = a->w;
  const double *x = w->xfrc_applied + 6 * b;
  const lane *X = a->Vx + 6 * b;
  bool none = x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == 0 && x[4] == 0 && x[5] == 0;
  double d[3];
  lane u[3], p[3];
  if (none && !a->xfrc) return;
  body_offset(w, b, w->xipos + 3 * b, d);
  PB_POINTVEL(u, X, d);
  for (int k = 0; k < 3 && a->xfrc; k++) {
    a->xfrc[6 * b + k] += u[k];
    a->xfrc[6 * b + 3 + k] += X[k];
  }
  if (none) return;
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

// W = -m gravcomp g . (velocity of the centre of mass) under the field X
static void compensate(LANE(pbAdjoint) *a, int b, const lane *X, double *field) {
  const NUM(pbWork) *w = a->w;
  double d[3], force[3], m = w->p.body_mass[b], gc = w->p.body_gravcomp[b];
  const double *g = w->p.gravity;
  lane u[3], p[3];
  if (gc == 0 && !PB_WANTS(a, pb_wantGravcomp)) return;
  body_offset(w, b, w->xipos + 3 * b, d);
  PB_POINTVEL(u, X, d);
  PB_THETA(a, body_gravcomp, b, -m * PB_DOT3(g, u));
  if (gc == 0) return;
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

// Where gravity compensation goes through actuators it feels their limits: then it has a field of its own.
static void gravity_compensation(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  bool own = false, any = PB_WANTS(a, pb_wantGravcomp);
  for (int b = 1; b < m->nbody; b++) any = any || w->p.body_gravcomp[b] != 0;
  if (!any || !gravity_acts(a)) return;
  for (int i = 0; i < m->nv; i++) {
    bool through = m->jnt_actgravcomp[m->dof_jntid[i]], off = m->disableflags & pb_disActuation;
    a->c[i] = through ? (off || !m->nu ? PB_LANE_ZERO : a->lam_act[i]) : a->lam[i];
    own = own || through;
  }
  if (own) {
    LANE(pbSweep_Push)(w, a->c, a->X);
    memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(double));
  }
  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) compensate(a, b, (own ? a->X : a->Vl) + 6 * b, own ? a->F : a->FL);
  }
  if (own) LANE(pbSweep_PullExtra)(a, a->c);
}

// Fluid of a medium that is not there: density and viscosity still have a slope, the power of the wrench each would make.
static void empty_medium(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  double power[2] = {0}, damping[2] = {0}, h = a->w->p.timestep[0];
  NUM(pbFluid_UnitPower)(a->w, a->Vl, power);
  if (a->damped && a->w->m->integrator == pb_intImplicitfast) {  // W = h Vm . B (Va - Vw)
    NUM(pbFluid_UnitDamping)(a->w, a->Vm, a->Va, a->Vw, damping);
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
  for (int j = 0; j < m->njnt && springs; j++) joint_spring(a, j);
  for (int i = 0; i < m->nv; i++) {
    if (dampers) dof_damper(a, i);
    dof_armature(a, i);
    if (a->qfrc) a->qfrc[i] += a->lam[i];
  }
  for (int b = 1; b < m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) applied_wrench(a, b);
  }
  gravity_compensation(a);
  if (!springs && !dampers) return;
  if (w->has_fluid) {
    LANE(pbFluid_Adjoint)(a);
    if (a->damped && m->integrator == pb_intImplicitfast) LANE(pbFluid_DampingAdjoint)(a, w->p.timestep[0]);
  } else if (PB_WANTS(a, pb_wantMedium)) {
    empty_medium(a);
  }
}

// ---- actuators ------------------------------------------------------------------------------------------------------
// A limit holds what is beyond it. What has its very value is free, as in the forward program: forces of zero on a range that
// begins there, above all.
// Force of actuators on a dof before the joint's limit, summed as the forward program does.
static double before_joint_limit(const NUM(pbWork) *w, int dof) {
  double sum = 0;
  for (int u = 0; u < w->m->nu; u++) {
    for (int a = w->mom_start[u]; a < w->mom_start[u + 1]; a++) {
      if (w->mom_dofs[a] == dof) sum += w->mom[a] * w->actuator_force[u];
    }
  }
  return w->m->jnt_actgravcomp[w->m->dof_jntid[dof]] ? sum + w->qfrc_gravcomp[dof] : sum;
}

void LANE(pbForce_LimitActuators)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  for (int i = 0; i < m->nv; i++) a->lam_act[i] = a->lam[i] + a->qfrc_actuator[i];
  if ((m->disableflags & pb_disActuation) || !m->nu) return;
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j];
    if (!m->jnt_actfrclimited[j]) continue;
    for (int side = 0; side < 2; side++) {
      double edge = w->p.jnt_actfrcrange[2 * j + side];
      if (w->qfrc_actuator[dof] != edge || before_joint_limit(w, dof) == edge) continue;
      PB_THETA(a, jnt_actfrcrange, 2 * j + side, a->lam_act[dof]);
      a->lam_act[dof] = PB_LANE_ZERO;
      break;
    }
  }
}

// act_next = act + act_dot h (filterexact: act_dot tau (1 - exp(-h / tau))), clamped
void LANE(pbForce_Next)(LANE(pbAdjoint) *a, int u, int index, double act, double act_dot, lane bar, lane *act_bar,
                        lane *dot_bar) {
  const NUM(pbWork) *w = a->w;
  double h = w->p.timestep[0], step = h, step_h = 1, tau = fmax(w->p.actuator_dynprm[10 * u], 1e-15);
  bool exact = w->m->actuator_dyntype[u] == pb_dynFilterExact;
  if (exact) {
    double e = exp(-h / tau);
    step = tau * (1 - e);
    step_h = e;
    if (w->m->actuator_actlimited[u]) {
      double next = act + act_dot * step;
      for (int side = 0; side < 2; side++) {
        double edge = w->p.actuator_actrange[2 * u + side];
        if (side ? next <= edge : next >= edge) continue;
        PB_THETA(a, actuator_actrange, 2 * u + side, bar);
        return;
      }
    }
    if (tau > 1e-15) PB_THETA(a, actuator_dynprm, 10 * u, bar * act_dot * (1 - e - h / tau * e));
  } else if (w->m->actuator_actlimited[u]) {
    double next = act + act_dot * h;
    for (int side = 0; side < 2; side++) {
      double edge = w->p.actuator_actrange[2 * u + side];
      if (side ? next <= edge : next >= edge) continue;
      PB_THETA(a, actuator_actrange, 2 * u + side, bar);
      return;
    }
  }
  act_bar[index] += bar;
  dot_bar[index] += bar * step;
  a->h_bar += PB_LANE0(bar) * act_dot * step_h;
}

// Cotangent of the control to ctrl or the end of its range.
static void to_control(LANE(pbAdjoint) *a, int u, lane bar) {
  const NUM(pbWork) *w = a->w;
  if (w->m->actuator_ctrllimited[u] && !(w->m->disableflags & pb_disClampctrl)) {
    for (int side = 0; side < 2; side++) {
      double edge = w->p.actuator_ctrlrange[2 * u + side];
      if (side ? w->ctrl[u] <= edge : w->ctrl[u] >= edge) continue;
      PB_THETA(a, actuator_ctrlrange, 2 * u + side, bar);
      return;
    }
  }
  if (a->ctrl) a->ctrl[u] += bar;
}

// Cotangent of what the gain multiplies.
static void to_input(LANE(pbAdjoint) *a, int u, lane bar) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  if (m->actuator_dyntype[u] == pb_dynNone) {
    to_control(a, u, bar);
    return;
  }
  int i = m->actuator_actadr[u] + m->actuator_actnum[u] - 1;
  if (m->actuator_actearly[u]) LANE(pbForce_Next)(a, u, i, w->act[i], w->act_dot[i], bar, a->act, a->act_dot);
  else a->act[i] += bar;
}

// act_dot = u | (u - act) / tau
static void to_activation(LANE(pbAdjoint) *a, int u) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  if (m->actuator_dyntype[u] == pb_dynNone) return;
  int i = m->actuator_actadr[u] + m->actuator_actnum[u] - 1;
  lane bar = a->act_dot[i];
  double tau = w->p.actuator_dynprm[10 * u];
  if (m->actuator_dyntype[u] != pb_dynIntegrator) {
    double t = fmax(tau, 1e-15);
    bar = bar / t;
    a->act[i] -= bar;
    if (tau > 1e-15) PB_THETA(a, actuator_dynprm, 10 * u, -bar * w->act_dot[i]);
  }
  to_control(a, u, bar);
}

// End of its own range that holds an actuator's force: 0, 1, or -1 for none.
static int holding_end(const NUM(pbWork) *w, int u) {
  const double *range = w->p.actuator_forcerange + 2 * u;
  double force = w->act_scale[u] == 1 ? w->act_raw[u] : w->act_raw[u] * w->act_scale[u];
  if (!w->m->actuator_forcelimited[u]) return -1;
  return force < range[0] ? 0 : force > range[1] ? 1 : -1;
}

// Cotangent of the actuator's force before any limit, from that of the force applied.
static lane before_limits(LANE(pbAdjoint) *a, int u, lane bar, const lane *all) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int end = holding_end(w, u);
  if (end >= 0) {
    PB_THETA(a, actuator_forcerange, 2 * u + end, bar);
    return PB_LANE_ZERO;
  }
  if (w->act_scale[u] == 1) return bar;
  // f = held f0 / total: all actuators of the tendon share the scale
  int k = m->actuator_trnid[2 * u];
  double total = 0;
  lane shared = PB_LANE_ZERO;
  for (int o = 0; o < m->nu; o++) {
    if (m->actuator_trntype[o] != pb_trnTendon || m->actuator_trnid[2 * o] != k) continue;
    total += w->act_raw[o];
    if (holding_end(w, o) < 0) shared += all[o] * w->act_raw[o];
  }
  double held = w->act_scale[u] * total;
  bool low = fabs(held - w->p.tendon_actfrcrange[2 * k]) < fabs(held - w->p.tendon_actfrcrange[2 * k + 1]);
  PB_THETA(a, tendon_actfrcrange, 2 * k + !low, bar * w->act_raw[u] / total);
  return w->act_scale[u] * (bar - shared / total);
}

// f = gain input + bias: cotangents of length and velocity.
static void force_law(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const NUM(pbWork) *w = a->w;
  const double *g = w->p.actuator_gainprm + 10 * u, *b = w->p.actuator_biasprm + 10 * u;
  double l = w->act_length[u], v = w->act_velocity[u], input = w->act_input[u];
  to_input(a, u, bar * w->act_gain[u]);
  lane gain = bar * input;
  PB_THETA(a, actuator_gainprm, 10 * u, gain);
  if (w->m->actuator_gaintype[u] == pb_gainAffine) {
    *length += gain * g[1];
    *velocity += gain * g[2];
    PB_THETA(a, actuator_gainprm, 10 * u + 1, gain * l);
    PB_THETA(a, actuator_gainprm, 10 * u + 2, gain * v);
  }
  if (w->m->actuator_biastype[u] == pb_biasAffine) {
    *length += bar * b[1];
    *velocity += bar * b[2];
    PB_THETA(a, actuator_biasprm, 10 * u, bar);
    PB_THETA(a, actuator_biasprm, 10 * u + 1, bar * l);
    PB_THETA(a, actuator_biasprm, 10 * u + 2, bar * v);
  }
}

// Two dofs have an entry in M: one moves what the other does.
static bool related(const NUM(pbWork) *w, int i, int j) {
  const pbTreePattern *tree = &w->t->M;
  int hi = i > j ? i : j, lo = i > j ? j : i, depth = tree->depth[lo];
  return depth <= tree->depth[hi] && tree->chain[tree->adr[hi] + depth] == lo;
}

// W = s mu' (r r') x on the pattern of M, for a sparse row r: adds its gradient by r to c, returns W / s.
static lane outer_power(const NUM(pbWork) *w, const int *dofs, const double *row, int n, double s, const lane *mu,
                        const double *x, lane *c) {
  lane power = PB_LANE_ZERO;
  for (int i = 0; i < n; i++) {
    lane rmu = PB_LANE_ZERO;
    double rx = 0;
    for (int j = 0; j < n; j++) {
      if (!related(w, dofs[i], dofs[j])) continue;
      rmu += row[j] * mu[dofs[j]];
      rx += row[j] * x[dofs[j]];
    }
    c[dofs[i]] += s * (mu[dofs[i]] * rx + x[dofs[i]] * rmu);
    power += row[i] * mu[dofs[i]] * rx;
  }
  return power;
}

// implicitfast: W = h slope mu' (r r') ahat
static void implicit_actuator(LANE(pbAdjoint) *a, int u) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double slope = NUM(pbActuator_Slope)(w, u), h = w->p.timestep[0];
  int adr = w->mom_start[u], n = w->mom_start[u + 1] - adr;
  if (NUM(pbActuator_Saturated)(w, u)) return;
  lane power = outer_power(w, w->mom_dofs + adr, w->mom + adr, n, h * slope, a->mu, w->qacc_integrated, a->c);
  a->h_bar += PB_LANE0(power) * slope;
  lane bar = h * power;
  if (m->actuator_biastype[u] == pb_biasAffine) PB_THETA(a, actuator_biasprm, 10 * u + 2, bar);
  if (m->actuator_gaintype[u] != pb_gainAffine) return;
  PB_THETA(a, actuator_gainprm, 10 * u + 2, bar * w->act_input[u]);
  to_input(a, u, bar * w->p.actuator_gainprm[10 * u + 2]);
}

// ---- transmissions: c is the cotangent of the moment, length that of the length --------------------------------------
static void joint_moment(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int j = m->actuator_trnid[2 * u], type = m->jnt_type[j], dof = m->jnt_dofadr[j], qadr = m->jnt_qposadr[j];
  const double *gear = w->p.actuator_gear + 6 * u;
  if (pbJoint_IsScalar(type)) {
    a->q[dof] += length * gear[0];
    PB_THETA(a, actuator_gear, 6 * u, a->c[dof] + length * w->qpos[qadr]);
    return;
  }
  bool free = type == pb_jntFree, parent = m->actuator_trntype[u] == pb_trnJointInParent;
  int turn = free ? dof + 3 : dof, g0 = 6 * u + (free ? 3 : 0);
  double q[4], axis[3] = {0}, turned[3];
  lane c[3], t[3] = {0}, onto[3];
  quat_copy(q, w->qpos + qadr + (free ? 3 : 0));
  quat_normalize(q);
  if (!free) quat_log(axis, q);
  v3_copy(turned, free ? gear + 3 : gear);
  if (parent) quat_rotate(turned, (double[4]){q[0], -q[1], -q[2], -q[3]}, free ? gear + 3 : gear);
  for (int k = 0; k < 3; k++) c[k] = a->c[turn + k] + length * axis[k];  // cotangent of the turned gear
  for (int k = 0; k < 3 && free; k++) PB_THETA(a, actuator_gear, 6 * u + k, a->c[dof + k]);
  if (!free) {  // the length also moves with the rotation vector
    for (int k = 0; k < 3; k++) onto[k] = length * turned[k];
    pb_log_pull(axis, onto, t);
  }
  if (parent) PB_ADDCROSS(t, -1, turned, c);  // turned = R' gear
  for (int k = 0; k < 3; k++) a->q[turn + k] += t[k];
#if PB_LANES == 1
  if (a->theta) {
    double g[3];
    v3_copy(g, c);
    if (parent) quat_rotate(g, q, c);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, g0 + k, g[k]);
  }
#else
  (void)g0;
#endif
}

static void tendon_moment(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbWork) *w = a->w;
  int k = w->m->actuator_trnid[2 * u], nv = w->m->nv;
  double gear = w->p.actuator_gear[6 * u];
  lane bar = length * w->ten_length[k];
  for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) {
    a->ten_c[k * nv + w->ten_dofs[i]] += gear * a->c[w->ten_dofs[i]];
    bar += w->ten_J[i] * a->c[w->ten_dofs[i]];
  }
  a->ten_len[k] += gear * length;
  PB_THETA(a, actuator_gear, 6 * u, bar);
}

static int common_dof(const NUM(pbWork) *w, int body1, int body2) {
  int a = w->t->body_dofend[body1], b = w->t->body_dofend[body2];
  while (a != b && a >= 0 && b >= 0) {
    if (a < b) b = w->m->dof_parentid[b];
    else a = w->m->dof_parentid[a];
  }
  return a == b ? a : -1;
}

// Torque on a body (world axes) into P, and on its site's frame.
static void couple(LANE(pbAdjoint) *a, int body, const lane t[3]) {
  for (int k = 0; k < 3; k++) a->P[6 * body + k] += t[k];
}

// One end of a site transmission: force and torque (world, plain) on the site's motion under X, with sign.
static void site_end(LANE(pbAdjoint) *a, int site, const double force[3], const double torque[3], double sign, lane u[3],
                     lane omega[3], const lane at[3], lane p[3]) {
  const NUM(pbWork) *w = a->w;
  int b = w->m->site_bodyid[site];
  const lane *X = a->X + 6 * b;
  double d[3], F[3], T[3];
  lane vel[3];
  body_offset(w, b, w->site_xpos + 3 * site, d);
  v3_scale(F, force, sign);
  v3_scale(T, torque, sign);
  PB_POINTVEL(vel, X, d);
  PB_CROSS(p, F, X);
  for (int k = 0; k < 3; k++) {
    p[k] += sign * at[k];
    u[k] += sign * vel[k];
    omega[k] += sign * X[k];
  }
  LANE(pbSweep_Point)(a, b, d, F, p, a->F);
  for (int k = 0; k < 3; k++) a->F[6 * b + k] += T[k];
}

// Gradient of the reference length's rotational part: gear . log(r^-1 q), q and r the orientations of site and reference.
static void refsite_rotation(LANE(pbAdjoint) *a, int site, int ref, const double gear[3], lane length) {
  const NUM(pbWork) *w = a->w;
  double q[4], r[4], c[4], d[3], minus[3], R[9];
  lane g[3], right[3], left[3], turn[3], back[3];
  quat_mul(q, w->xquat + 4 * w->m->site_bodyid[site], w->p.site_quat + 4 * site);
  quat_mul(r, w->xquat + 4 * w->m->site_bodyid[ref], w->p.site_quat + 4 * ref);
  quat_conj(c, r);
  quat_mul(q, c, q);
  quat_log(d, q);
  v3_neg(minus, d);
  for (int k = 0; k < 3; k++) g[k] = length * gear[k];
  pb_log_pull(d, g, right);     // turned from the right: by the site in its own axes
  pb_log_pull(minus, g, left);  // from the left: in the reference's axes
  quat_to_mat(R, r);
  for (int k = 0; k < 3; k++) {
    turn[k] = R[3 * k] * left[0] + R[3 * k + 1] * left[1] + R[3 * k + 2] * left[2];
    back[k] = -turn[k];
  }
  couple(a, w->m->site_bodyid[site], turn);
  couple(a, w->m->site_bodyid[ref], back);
#if PB_LANES == 1
  if (a->theta) {
    double *bar = a->bar.site_quat, other[3];
    v3_neg(other, left);
    pb_quat_pull(bar + 4 * site, w->p.site_quat + 4 * site, right);
    pb_quat_pull(bar + 4 * ref, w->p.site_quat + 4 * ref, other);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, (int)(gear - w->p.actuator_gear) + k, length * d[k]);
  }
#else
  (void)right;
#endif
}

static void site_moment(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int site = m->actuator_trnid[2 * u], ref = m->actuator_trnid[2 * u + 1], frame = ref < 0 ? site : ref;
  const double *gear = w->p.actuator_gear + 6 * u, *R = w->site_xmat + 9 * frame;
  double force[3], torque[3], apart[3] = {0};
  lane vel[3] = {0}, omega[3] = {0}, at[3] = {0}, p[3], q[3] = {0}, turn[3];
  m3_mulv(force, R, gear);
  m3_mulv(torque, R, gear + 3);
  if (ref >= 0) {  // motions common to both ends do not count
    int stop = common_dof(w, m->site_bodyid[site], m->site_bodyid[ref]);
    for (int i = stop; i >= 0; i = m->dof_parentid[i]) a->c[i] = PB_LANE_ZERO;
    v3_sub(apart, w->site_xpos + 3 * site, w->site_xpos + 3 * ref);
    for (int k = 0; k < 3; k++) at[k] = length * force[k];  // length: force . apart
    if (gear[3] != 0 || gear[4] != 0 || gear[5] != 0) refsite_rotation(a, site, ref, gear + 3, length);
  }
  LANE(pbSweep_Push)(w, a->c, a->X);
  memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(double));
  site_end(a, site, force, torque, 1, vel, omega, at, p);
  if (ref >= 0) site_end(a, ref, force, torque, -1, vel, omega, at, q);
  for (int k = 0; k < 3; k++) vel[k] += length * apart[k];
  PB_CROSS(turn, force, vel);  // the frame of force and torque turns with its body
  PB_ADDCROSS(turn, 1, torque, omega);
  couple(a, m->site_bodyid[frame], turn);
  LANE(pbSweep_PullExtra)(a, a->c);
#if PB_LANES == 1
  if (a->theta) {
    double g[3];
    LANE(pbSweep_Site)(a, site, p, ref < 0 ? turn : NULL);
    if (ref >= 0) LANE(pbSweep_Site)(a, ref, q, turn);
    m3_tmulv(g, R, vel);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + k, g[k]);
    m3_tmulv(g, R, omega);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + 3 + k, g[k]);
  }
#endif
}

// Cotangents a->c of the moment and of the length to what makes them.
static void through_transmission(LANE(pbAdjoint) *a, int u, lane length) {
  switch (a->w->m->actuator_trntype[u]) {
    case pb_trnTendon: tendon_moment(a, u, length); break;
    case pb_trnSite: site_moment(a, u, length); break;
    default: joint_moment(a, u, length);
  }
}

static void one_actuator(LANE(pbAdjoint) *a, int u, lane bar, const lane *all) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int adr = w->mom_start[u], end = w->mom_start[u + 1];
  lane length = a->act_len[u], velocity = a->act_vel[u];
  if (!pb_actuator_off(m, u)) force_law(a, u, before_limits(a, u, bar, all), &length, &velocity);
  // W = f (m . lam) + velocity (m . v)
  for (int i = adr; i < end; i++) {
    int dof = w->mom_dofs[i];
    a->v[dof] += w->mom[i] * velocity;
    a->c[dof] += w->actuator_force[u] * a->lam_act[dof] + velocity * w->qvel[dof];
  }
  if (m->actuator_trntype[u] == pb_trnSite) {  // a moment that is zero now may not stay so
    for (int i = 0; i < m->nv; i++) a->c[i] = w->actuator_force[u] * a->lam_act[i] + velocity * w->qvel[i];
  }
  if (a->damped && m->integrator == pb_intImplicitfast) implicit_actuator(a, u);
  through_transmission(a, u, length);
  if (m->actuator_trntype[u] == pb_trnSite) memset(a->c, 0, (size_t)m->nv * sizeof(lane));
  for (int i = adr; i < end; i++) a->c[w->mom_dofs[i]] = PB_LANE_ZERO;
}

void LANE(pbForce_Actuators)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  if (m->disableflags & pb_disActuation) {  // no forces, but lengths are still seen
    memset(a->c, 0, (size_t)m->nv * sizeof(lane));
    for (int u = 0; u < m->nu; u++) through_transmission(a, u, a->act_len[u]);
    return;
  }
  lane *all = a->act_force;  // cotangent of each force: m . lam and what sensors gave
  for (int u = 0; u < m->nu; u++) {
    for (int i = w->mom_start[u]; i < w->mom_start[u + 1]; i++) all[u] += w->mom[i] * a->lam_act[w->mom_dofs[i]];
  }
  memset(a->c, 0, (size_t)m->nv * sizeof(lane));
  for (int u = 0; u < m->nu; u++) one_actuator(a, u, all[u], all);
  for (int u = 0; u < m->nu; u++) {
    if (!pb_actuator_off(m, u)) to_activation(a, u);
  }
}

// ---- tendons --------------------------------------------------------------------------------------------------------
// Springs and dampers: cotangents of length and velocity, theta, and the force that multiplies J lam.
static void tendon_forces(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double c[3], x, v = w->ten_velocity[k], s = fabs(v), force = 0, length = w->ten_length[k], h = w->p.timestep[0];
  const double *band = w->p.tendon_lengthspring + 2 * k;
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr, nv = m->nv;
  lane bar[3];
  if (!(m->disableflags & pb_disSpring)) {  // W = -x k(x) (J lam)
    double share[2];
    band_shares(length, band[0], band[1], share);
    x = tendon_stretch(w, k);
    c[0] = w->p.tendon_stiffness[k];
    c[1] = w->p.tendon_stiffnesspoly[2 * k];
    c[2] = w->p.tendon_stiffnesspoly[2 * k + 1];
    force -= x * pb_polynomialForce(c, x, false);
    lane slope = -power * pb_polynomialSlope(c, x, false);
    a->ten_len[k] += slope * (share[0] + share[1]);
    for (int side = 0; side < 2; side++) PB_THETA(a, tendon_lengthspring, 2 * k + side, -slope * share[side]);
    PB_THETA(a, tendon_stiffness, k, -power * x);
    PB_THETA(a, tendon_stiffnesspoly, 2 * k, -power * x * x);
    PB_THETA(a, tendon_stiffnesspoly, 2 * k + 1, -power * x * x * x);
  }
  if (!(m->disableflags & pb_disDamper)) {
    NUM(pbTendon_Damping)(w, k, c);
    force -= v * pb_polynomialForce(c, v, true);
    a->ten_vel[k] -= power * pb_polynomialSlope(c, v, true);
    bar[0] = -power * v;
    bar[1] = -power * v * s;
    bar[2] = -power * v * s * s;
    if (a->damped && m->integrator == pb_intImplicitfast) {  // W = -h slope mu' (J'J) ahat
      double slope = pb_polynomialSlope(c, v, true);
      lane p = outer_power(w, w->ten_dofs + adr, w->ten_J + adr, n, -h * slope, a->mu, w->qacc_integrated, a->ten_c + k * nv);
      a->h_bar -= PB_LANE0(p) * slope;
      a->ten_vel[k] -= h * p * sign_of(v) * (2 * c[1] + 6 * c[2] * s);
      bar[0] -= h * p;
      bar[1] -= h * p * 2 * s;
      bar[2] -= h * p * 3 * s * s;
    }
    if (PB_WANTS(a, pb_wantDamping)) {
      damping_parameters(a, bar, a->bar.tendon_damping + k, a->bar.tendon_dampingpoly + 2 * k, w->t->ten_actuator_start,
                         w->t->ten_actuator, k);
    }
  }
  for (int i = adr; i < adr + n; i++) a->ten_c[k * nv + w->ten_dofs[i]] += force * a->lam[w->ten_dofs[i]];
}

// One segment of a path through sites: unit vector, velocities of its ends' difference.
typedef struct segment {
  int site[2], body[2];
  double dir[3], length, divisor, d[2][3];
} segment;

// Next segment between sites from station *i; false at the end.
static bool next_segment(const NUM(pbWork) *w, int k, int *i, segment *s) {
  const pbModel *m = w->m;
  int end = m->tendon_adr[k] + m->tendon_num[k];
  if (*i < 0) {
    *i = m->tendon_adr[k];
    s->divisor = 1;
  }
  for (; *i < end - 1; (*i)++) {
    if (m->wrap_type[*i] == pb_wrapPulley) s->divisor = w->p.wrap_prm[*i];
    if (m->wrap_type[*i] != pb_wrapSite || m->wrap_type[*i + 1] != pb_wrapSite) continue;
    for (int e = 0; e < 2; e++) {
      s->site[e] = m->wrap_objid[*i + e];
      s->body[e] = m->site_bodyid[s->site[e]];
      body_offset(w, s->body[e], w->site_xpos + 3 * s->site[e], s->d[e]);
    }
    v3_sub(s->dir, w->site_xpos + 3 * s->site[1], w->site_xpos + 3 * s->site[0]);
    s->length = v3_normalize(s->dir);
    (*i)++;
    return true;
  }
  return false;
}

// Station of the pulley that a station lies behind; -1.
static int pulley_of(const pbModel *m, int k, int station) {
  for (int i = station; i >= m->tendon_adr[k]; i--) {
    if (m->wrap_type[i] == pb_wrapPulley) return i;
  }
  return -1;
}

// Length and J c of a path: P, the extra field's cotangents, sites, pulleys.
static void path(LANE(pbAdjoint) *a, int k, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  lane *c = a->ten_c + k * m->nv;
  segment s;
  LANE(pbSweep_Push)(w, c, a->X);
  memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(double));
  for (int i = -1; next_segment(w, k, &i, &s);) {
    if (s.length < 1e-15) continue;
    lane u[2][3], rel[3], g[3], along, divisor_bar;
    for (int e = 0; e < 2; e++) PB_POINTVEL(u[e], a->X + 6 * s.body[e], s.d[e]);
    for (int x = 0; x < 3; x++) rel[x] = u[1][x] - u[0][x];
    along = PB_DOT3(s.dir, rel);
    // W = length |p2 - p1| / divisor + dir . (u2 - u1) / divisor
    for (int x = 0; x < 3; x++) g[x] = (length * s.dir[x] + (rel[x] - along * s.dir[x]) / s.length) / s.divisor;
    divisor_bar = -(length * s.length + along) / (s.divisor * s.divisor);
    for (int e = 0; e < 2; e++) {
      double F[3];
      lane p[3];
      v3_scale(F, s.dir, (e ? 1 : -1) / s.divisor);
      PB_CROSS(p, F, a->X + 6 * s.body[e]);
      for (int x = 0; x < 3; x++) p[x] += (e ? 1 : -1) * g[x];
      LANE(pbSweep_Point)(a, s.body[e], s.d[e], F, p, a->F);
      LANE(pbSweep_Site)(a, s.site[e], p, NULL);
    }
    int pulley = pulley_of(m, k, i - 1);
    if (pulley >= 0) PB_THETA(a, wrap_prm, pulley, divisor_bar);
  }
  LANE(pbSweep_PullExtra)(a, c);
}

static void fixed_path(LANE(pbAdjoint) *a, int k, lane length) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  const lane *c = a->ten_c + k * m->nv;
  for (int i = m->tendon_adr[k], end = i + m->tendon_num[k]; i < end; i++) {
    int j = m->wrap_objid[i], dof = m->jnt_dofadr[j];
    a->q[dof] += w->p.wrap_prm[i] * length;
    PB_THETA(a, wrap_prm, i, length * w->qpos[m->jnt_qposadr[j]] + c[dof]);
  }
}

// W = -e (d2L/dt2 at zero joint acceleration), e = armature (J lam), for a path through sites; see dynamics.c.
static void path_drift(LANE(pbAdjoint) *a, int k, lane e, double *value) {
  const NUM(pbWork) *w = a->w;
  segment s;
  *value = 0;
  for (int i = -1; next_segment(w, k, &i, &s);) {
    if (s.length < 1e-15) continue;
    double u[2][3], acc[2][3], rel[3], racc[3], across[3], along, L = s.length;
    for (int x = 0; x < 2; x++) {
      double A0[6], t[3];
      for (int r = 0; r < 6; r++) A0[r] = w->A0[6 * s.body[x] + r];
      PB_POINTVEL(u[x], w->V + 6 * s.body[x], s.d[x]);
      PB_POINTVEL(acc[x], A0, s.d[x]);
      PB_CROSS(t, w->V + 6 * s.body[x], u[x]);
      v3_addto(acc[x], t);
    }
    v3_sub(rel, u[1], u[0]);
    v3_sub(racc, acc[1], acc[0]);
    along = v3_dot(s.dir, rel);
    for (int x = 0; x < 3; x++) across[x] = rel[x] - along * s.dir[x];
    double speed2 = v3_dot(across, across);
    double part = (v3_dot(s.dir, racc) + speed2 / L) / s.divisor;
    int pulley = pulley_of(w->m, k, i - 1);
    *value += part;
    if (pulley >= 0) PB_THETA(a, wrap_prm, pulley, e * (part / s.divisor));
    // by the ends' distance vector: dir moves by (I - dir dir') / L, L along dir
    double along_acc = v3_dot(s.dir, racc), gpos[3];
    for (int x = 0; x < 3; x++) {
      gpos[x] =
          ((racc[x] - along_acc * s.dir[x]) / L - 2 * along * across[x] / (L * L) - speed2 * s.dir[x] / (L * L)) / s.divisor;
    }
    for (int x = 0; x < 2; x++) {
      int b = s.body[x];
      double sign = x ? 1 : -1;
      const double *V = w->V + 6 * b, *A = w->A0 + 6 * b;
      lane G[3], gu[3], p[3], wrench[6] = {0}, fv[6] = {0};
      for (int r = 0; r < 3; r++) {
        G[r] = -e * (sign / s.divisor) * s.dir[r];
        gu[r] = -e * (sign * 2 / (L * s.divisor)) * across[r];
      }
      // acceleration A_lin + A_ang x d + w x u, gradient G; velocity u, gradient gu
      PB_ADDWRENCH(wrench, 1, s.d[x], G);
      PB_ADDCROSS(fv, 1, u[x], G);
      PB_ADDCROSS(gu, 1, G, V);
      PB_ADDWRENCH(fv, 1, s.d[x], gu);
      PB_CROSS(p, G, A);
      PB_ADDCROSS(p, 1, gu, V);
      for (int r = 0; r < 3; r++) p[r] += -e * sign * gpos[r];
      PB_AXPY6(a->FA + 6 * b, 1, wrench);
      PB_AXPY6(a->FVa + 6 * b, -1, wrench);
      PB_AXPY6(a->FV + 6 * b, 1, fv);
      PB_ADDWRENCH(a->P + 6 * b, 1, s.d[x], p);
      LANE(pbSweep_Site)(a, s.site[x], p, NULL);
    }
  }
}

// W = -armature [lam' (J'J) a on the pattern of M + (J lam) (dJ/dt v)] + armature mu' (J'J) (a - ahat)
static void tendon_armature(LANE(pbAdjoint) *a, int k, lane power) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double armature = NUM(pbTendon_Armature)(w, k), drift = 0;
  int adr = w->ten_start[k], n = w->ten_start[k + 1] - adr;
  bool wanted = PB_WANTS(a, pb_wantTendon);
  if (armature == 0 && !wanted) return;
  lane *c = a->ten_c + k * m->nv;
  lane bar = -outer_power(w, w->ten_dofs + adr, w->ten_J + adr, n, -armature, a->lam, w->qacc, c);
  if (a->damped) {
    for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qacc[i] - w->qacc_integrated[i];
    bar += outer_power(w, w->ten_dofs + adr, w->ten_J + adr, n, armature, a->mu, w->tmp, c);
  }
  if (m->wrap_type[m->tendon_adr[k]] != pb_wrapJoint) {
    path_drift(a, k, armature * power, &drift);
    bar -= power * drift;
    for (int i = adr; i < adr + n; i++) c[w->ten_dofs[i]] -= armature * drift * a->lam[w->ten_dofs[i]];
  }
  PB_THETA(a, tendon_armature, k, bar);
  for (int i = w->t->ten_actuator_start[k]; i < w->t->ten_actuator_start[k + 1]; i++) {
    int u = w->t->ten_actuator[i];
    double gear = w->p.actuator_gear[6 * u];
    PB_THETA(a, actuator_armature, u, bar * gear * gear);
    PB_THETA(a, actuator_gear, 6 * u, bar * 2 * gear * w->p.actuator_armature[u]);
  }
}

void LANE(pbForce_Tendons)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  for (int k = 0; k < m->ntendon; k++) {
    lane power = PB_LANE_ZERO, *c = a->ten_c + k * m->nv;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) power += w->ten_J[i] * a->lam[w->ten_dofs[i]];
    tendon_forces(a, k, power);
    tendon_armature(a, k, power);
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) {  // W = velocity (J v)
      a->v[w->ten_dofs[i]] += w->ten_J[i] * a->ten_vel[k];
      c[w->ten_dofs[i]] += a->ten_vel[k] * w->qvel[w->ten_dofs[i]];
    }
    if (m->wrap_type[m->tendon_adr[k]] == pb_wrapJoint) fixed_path(a, k, a->ten_len[k]);
    else path(a, k, a->ten_len[k]);
  }
}
