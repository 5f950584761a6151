// The adjoint of an impact, by the scalar of docs/derivatives.md at frozen lam, impulse p, velocities u before and w after:
//   W = -lam . M (w - u) + (J lam) . p - nu . C(J u, J w, p) - eta p . (J u + J w)
// (eta where the restitution is capped: that equation, and the restitution in C as its unknown.)
// The first term is inertia under a virtual velocity -lam and an "acceleration" w - u; the others see the contact's frame
// under three fields: lam, w - u and u.
// Tests: tests/unit/test_mocap_rate.c, tests/unit/test_impact.c, tests/python/test_prescribed.py.
#include "base/assert.h"
#include "contact/contact.h"
#include "contact/prescribed.h"
#include "eval/stages.h"
#include "eval/work.h"
#include "impact/impact_adjoint.h"
#include "impact/impact_kernel.h"
#include "math/vec.h"
#include "multibody/spatial.h"
#include "step/step_adjoint.h"

#if PB_LANES == 1

typedef struct pbImpactBar {
  double *lam;                                         // nv: virtual velocity
  double after[pb_impactRows], before[pb_impactRows];  // of the rows' velocities
  double restitution;
} pbImpactBar;

// ---- multipliers ----------------------------------------------------------------------------------------------------------
// eta, of the gain; nu, of the law alone, becomes the one beside it, which no restitution moves.
static double cap_multiplier(const NUM(pbImpact) *s, double *nu) {
  double by[pb_impactRows], slope[pb_impactRows];

  NUM(pbImpact_Border)(s, by, slope);
  NUM(pbImpact_SolveLaw)(s, slope, true);

  double law = 0;
  double gain = 0;
  for (int i = 0; i < s->n; i++) {
    law += by[i] * nu[i];
    gain += by[i] * slope[i];
  }
  // Orthogonal to what the restitution moves
  for (int i = 0; i < s->n; i++) nu[i] -= law / gain * slope[i];

  return law / gain;
}

// nu, with (A C_w' + C_p') nu = J M^-1 w_bar, to C_w' nu (after) and C_u' nu (before).
static void multipliers(const NUM(pbImpact) *s, const double *rows_bar, pbImpactBar *b) {
  double nu[pb_impactRows];
  double eta = 0;

  memcpy(nu, rows_bar, sizeof nu);
  NUM(pbImpact_SolveLaw)(s, nu, true);
  if (s->capped) eta = cap_multiplier(s, nu);

  b->restitution = 0;
  for (int c = 0; c < s->count; c++) {
    NUM(pbImpactLaw) law;
    const pbImpactContact *t = s->contact + c;
    double *after = b->after + t->first;
    double *before = b->before + t->first;
    // C_w' nu; of C_u only the restitution in the first row
    NUM(pbImpact_Law)(s, c, &law);
    for (int i = 0; i < t->n; i++) {
      after[i] = 0;
      before[i] = 0;
      for (int j = 0; j < t->n; j++) after[i] += law.by_after[j][i] * nu[t->first + j];
    }
    // The restitution is a parameter unless it is capped, where it is an unknown.
    before[0] = s->used * after[0];
    if (!s->capped) {
      b->restitution -= after[0] * s->before[t->first];
      continue;
    }

    // The gain p . (J u + J w)
    for (int i = 0; i < t->n; i++) {
      after[i] += eta * s->impulse[t->first + i];
      before[i] += eta * s->impulse[t->first + i];
    }
  }
}

// The small system of the law, and what follows from it, for the cotangent w_bar of the velocity after:
//   M lam = w_bar - J' C_w' nu
static void solve_multipliers(const NUM(pbWork) *w, const NUM(pbImpact) *s, const double *w_bar, pbImpactBar *b) {
  int nv = w->m->nv;
  PB_VALIDATE(pb_allFinite(w_bar, (size_t)nv));
  // What the rows see of w_bar: J M^-1 w_bar
  double rows_bar[pb_impactRows] = {0};

  for (int k = 0; k < s->n; k++) {
    for (int i = 0; i < nv; i++) rows_bar[k] += s->X[k * nv + i] * w_bar[i];
  }
  multipliers(s, rows_bar, b);

  memcpy(b->lam, w_bar, (size_t)nv * sizeof(double));
  for (int k = 0; k < s->n; k++) {
    for (int i = 0; i < nv; i++) b->lam[i] -= s->J[k * nv + i] * b->after[k];
  }
  NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, b->lam);
}

// ---- contacts -------------------------------------------------------------------------------------------------------------
// Cotangents of a contact's geometry.
typedef struct geometry_bar {
  double point[3], axes[3][3], friction[2];
} geometry_bar;

// From the principal directions of slip back to the contact's tangents.
static void to_tangents(const pbImpactContact *t, double x[3]) {
  double a = x[1];
  double b = x[2];
  x[1] = t->cos * a - t->sin * b;
  x[2] = t->sin * a + t->cos * b;
}

// The rows' velocities under a body field X (of the second body less the first), times coefficients: to the field's cotangent
// F, and to those of the point, axes and frictions.
static void pull_velocities(const NUM(pbWork) *w, const NUM(pbContact) *c, const double coefficient[3], const double *X,
                            double *F, geometry_bar *bar) {
  double force[3] = {0};
  double u[3] = {0};
  double rotation[3] = {0};

  for (int k = 0; k < 3; k++) v3_addscl(force, c->frame + 3 * k, coefficient[k] * (k ? c->friction[k - 1] : 1));

  for (int side = 0; side < 2; side++) {
    int b = w->m->geom_bodyid[side ? c->geom2 : c->geom1];
    double sign = side ? 1 : -1;
    double d[3], at[3];
    double wrench[6] = {0};
    const double *motion = X + 6 * b;
    body_offset(&w->mechanism, b, c->pos, d);
    PB_POINTVEL(at, motion, d);
    PB_ADDWRENCH(wrench, sign, d, force);
    PB_AXPY6(F + 6 * b, 1, wrench);
    v3_addscl(u, at, sign);
    v3_addscl(rotation, motion, sign);
  }

  // Power force . (u + rotation x d), by the point, the axes and the frictions
  v3_addcross(bar->point, force, rotation);
  for (int k = 0; k < 3; k++) {
    v3_addscl(bar->axes[k], u, coefficient[k] * (k ? c->friction[k - 1] : 1));
    if (k) bar->friction[k - 1] += coefficient[k] * v3_dot(c->frame + 3 * k, u);
  }
}

// The velocities that paths prescribe, times coefficients: to those, to where the bodies stand, and to point, axes and frictions.
static void pull_prescribed(LANE(pbAdjoint) *a, const NUM(pbContact) *c, const double coefficient[3], geometry_bar *bar) {
  const NUM(pbWork) *w = a->work;
  double force[3] = {0};
  double along[6];

  for (int k = 0; k < 3; k++) v3_addscl(force, c->frame + 3 * k, coefficient[k] * (k ? c->friction[k - 1] : 1));
  NUM(pbContact_Prescribed)(&w->constraints, c, along);
  for (int k = 1; k < 3; k++) bar->friction[k - 1] += coefficient[k] * along[k];

  // Each body's share, with the sign of its side.
  for (int side = 0; side < 2; side++) {
    int b = pb_carrier(w->m, side ? c->geom2 : c->geom1);
    if (b < 0) continue;

    // u: the point's velocity
    const double *velocity = w->mocap_vel + 6 * b, *turn = velocity + 3;
    double sign = side ? 1 : -1;
    double arm[3], u[3];
    v3_sub(arm, c->pos, w->mocap_pos + 3 * b);
    v3_cross(u, turn, arm);
    for (int i = 0; i < 3; i++) u[i] = sign * (u[i] + velocity[i]);

    // Power force . (v + turn x arm)
    PB_ADDCROSS(bar->point, sign, force, turn);
    for (int k = 0; k < 3; k++) v3_addscl(bar->axes[k], u, coefficient[k] * (k ? c->friction[k - 1] : 1));
    if (a->mocap_pos) PB_ADDCROSS(a->mocap_pos + 3 * b, -sign, force, turn);
    if (!a->mocap_vel) continue;
    for (int i = 0; i < 3; i++) a->mocap_vel[6 * b + i] += sign * force[i];
    PB_ADDCROSS(a->mocap_vel + 6 * b + 3, sign, arm, force);
  }
}

// A contact's share of W, with the body fields Vm (of -lam), Vw (of the change of velocity) and V (before).
static void pull_contact(LANE(pbAdjoint) *a, const NUM(pbImpact) *s, int index, const pbImpactBar *b) {
  const NUM(pbWork) *w = a->work;
  const pbImpactContact *t = s->contact + index;
  const NUM(pbContact) *c = w->contact + t->point;
  double p[3] = {0};
  double change[3] = {0};
  double start[3] = {0};

  for (int k = 0; k < t->n; k++) {
    int row = t->first + k;
    p[k] = -s->impulse[row];  // a's virtual velocity is -lam
    change[k] = -b->after[row];
    start[k] = -b->after[row] - b->before[row];
  }
  to_tangents(t, p);
  to_tangents(t, change);
  to_tangents(t, start);

  geometry_bar bar = {.point = {0}};
  pull_velocities(w, c, p, a->Vm, a->FM, &bar);
  pull_velocities(w, c, change, a->Vw, a->FW, &bar);
  pull_velocities(w, c, start, w->V, a->FV, &bar);
  if (w->m->nmocap && pb_follows(w->m)) pull_prescribed(a, c, start, &bar);
  // From there to the geoms' poses and parameters; the restitution is that of the first contact.
  LANE(pbRows_Touch)(a, t->point, PB_TOUCH, 0, bar.point, bar.axes, bar.friction, index == 0 ? b->restitution : 0);
}

// ---- entry points -----------------------------------------------------------------------------------------------------
typedef LANE(pbVjpBlock) block;

// All tangents zero, that by the time step included.
static void begin_impact(block *k, NUM(pbWork) *w, const pbPullback *p) {
  LANE(pbAdjoint) *a = &k->a;
  size_t nv = (size_t)w->m->nv;
  size_t bodies = 6 * (size_t)w->m->nbody;

  LANE(pbVjp_Begin)(k, w);
  memset(k->base + k->bodies_from, 0, k->cleared_from - k->bodies_from);
  memset(a->lam, 0, nv * sizeof(lane));
  memset(a->lam_act, 0, nv * sizeof(lane));
  memset(a->ten_power, 0, (size_t)w->m->ntendon * sizeof(lane));
  memset(a->Vl, 0, bodies * sizeof(lane));
  // No tangents of positions: Vx is zero as Vl is.
  a->fresh = false;
  a->Vx = a->Vl;

  a->theta = p->theta;
  a->want = a->theta ? pb_wantEverything : 0;
  if (a->theta) bars_view(&a->bar, w->m, a->theta);
  a->ctrl = k->ctrl;
  a->qfrc = NULL;
  a->xfrc = NULL;

  // Of the inputs, poses and velocities of mocap bodies alone act at an instant.
  a->mocap_pos = p->mocap_pos ? k->mocap_pos : NULL;
  a->mocap_rot = p->mocap_rot ? k->mocap_rot : NULL;
  memset(k->mocap_pos, 0, 3 * (size_t)w->m->nmocap * sizeof(lane));
  memset(k->mocap_rot, 0, 3 * (size_t)w->m->nmocap * sizeof(lane));
  a->mocap_vel = p->mocap_vel ? k->mocap_vel : NULL;
  memset(k->mocap_vel, 0, 6 * (size_t)w->m->nmocap * sizeof(lane));
}

static void end_impact(block *k, const pbPullback *p) {
  int nv = k->a.w->m->nv, mocap = 3 * k->a.w->m->nmocap;

  LANE(pbSweep_Pull)(&k->a);
  LANE(pbVjp_AddOut)(p->q, k->a.q, nv);
  LANE(pbVjp_AddOut)(p->v, k->a.v, nv);
  LANE(pbVjp_AddOut)(p->mocap_pos, k->mocap_pos, mocap);
  LANE(pbVjp_AddOut)(p->mocap_rot, k->mocap_rot, mocap);
  LANE(pbVjp_AddOut)(p->mocap_vel, k->mocap_vel, 2 * mocap);
}

// The impact again; then the evaluation of a state whose acceleration is the change of velocity, and whose velocity that before.
static pbStatus replay_impact(NUM(pbWork) *w, int candidate, int point, NUM(pbImpact) *s) {
  int nv = w->m->nv;

  // No constraint rows take part.
  w->nrow = 0;
  memcpy(w->v0, w->qvel, (size_t)nv * sizeof(double));
  PB_TRY(NUM(pbImpact_Solve)(w, candidate, point, s));

  for (int i = 0; i < nv; i++) {
    w->qacc[i] = w->qvel[i] - w->v0[i];
    w->qacc_integrated[i] = 0;
  }
  memcpy(w->qvel, w->v0, (size_t)nv * sizeof(double));

  return pb_ok;
}

static void evaluate_change(NUM(pbWork) *w) {
  NUM(pbStage_Velocity)(&w->mechanism);
  NUM(pbStage_Passive)(&w->mechanism);
  NUM(pbStage_Actuation)(&w->constraints);
  NUM(pbStage_Smooth)(&w->mechanism);
  NUM(pbStage_Acceleration)(&w->mechanism);
  w->damped = true;
}

pbStatus LANE(pbVjp_Impact)(void *memory, NUM(pbWork) *w, int candidate, int point, const pbPullback *p, double *gap_slope) {
  block *k = LANE(pbVjp_Block)(memory);
  LANE(pbAdjoint) *a = &k->a;
  NUM(pbImpact) s;
  int nv = w->m->nv;

  PB_TRY(replay_impact(w, candidate, point, &s));
  PB_TRY(LANE(pbVjp_Reserve)(k, w));
  memcpy(gap_slope, s.J, (size_t)nv * sizeof(double));
  gap_slope[nv] = NUM(pb_prescribed_rate)(&w->constraints, w->contact + point);

  // mu = -lam is the virtual velocity of the terms with M.
  pbImpactBar b = {.lam = a->mu};
  solve_multipliers(w, &s, p->v_next, &b);
  for (int i = 0; i < nv; i++) a->mu[i] = -a->mu[i];

  // Fields of the evaluation at that acceleration
  evaluate_change(w);
  LANE(pbSweep_Evaluation)(a, &w->mechanism, (LANE(pbSolution)){.qacc = w->qacc, .A = w->A});
  LANE(pbVjp_Place)(k, w, p);
  begin_impact(k, w, p);
  a->damped = true;
  a->has_mu = true;

  // The gradient of W
  LANE(pbSweep_Push)(&w->mechanism, a->mu, a->Vm);
  LANE(pbSweep_Inertia)(a);
  LANE(pbForce_Joints)(a);
  for (int c = 0; c < s.count; c++) pull_contact(a, &s, c, &b);
  LANE(pbForce_Tendons)(a);
  end_impact(k, p);

  return pb_ok;
}

void LANE(pbVjp_Gap)(void *memory, NUM(pbWork) *w, int point, double bar, const pbPullback *p) {
  block *k = LANE(pbVjp_Block)(memory);
  geometry_bar geometry = {.point = {0}};

  begin_impact(k, w, p);
  LANE(pbRows_Touch)(&k->a, point, PB_TOUCH, bar, geometry.point, geometry.axes, geometry.friction, 0);
  end_impact(k, p);
}
#endif
