// The adjoint of an impact, by the scalar of docs/derivatives.md at frozen lam, impulse p, velocities u before and w after:
//   W = -lam . M (w - u) + (J lam) . p - nu . C(J u, J w, p) - eta p . (J u + J w)
// (eta where the restitution is capped: that equation, and the restitution in C as its unknown.)
// The first term is inertia under a virtual velocity -lam and an "acceleration" w - u; the others see the contact's frame
// under three fields: lam, w - u and u.
#include "contact/contact.h"
#include "math/vec.h"
#include "multibody/spatial.h"
#include "impact/impact_adjoint.h"
#include "impact/impact_kernel.h"
#include "step/step_adjoint.h"

#if PB_LANES == 1

typedef struct pbImpactBar {
  double *lam;                                         // nv: virtual velocity
  double after[pb_strikeRows], before[pb_strikeRows];  // of the rows' velocities
  double restitution;
} pbImpactBar;

// That of the gain; nu, of the law alone, becomes the one beside it, which no restitution moves.
static double cap_multiplier(const NUM(pbStrike) *s, double *nu) {
  double by[pb_strikeRows], slope[pb_strikeRows], law = 0, gain = 0;
  NUM(pbStrike_Border)(s, by, slope);
  NUM(pbStrike_Solve)(s, slope, true);
  for (int i = 0; i < s->n; i++) law += by[i] * nu[i], gain += by[i] * slope[i];
  for (int i = 0; i < s->n; i++) nu[i] -= law / gain * slope[i];
  return law / gain;
}

// nu, with (A C_w' + C_p') nu = J M^-1 w_bar, to C_w' nu (after) and C_u' nu (before).
static void multipliers(const NUM(pbStrike) *s, const double *seen, pbImpactBar *b) {
  double nu[pb_strikeRows], eta = 0;
  memcpy(nu, seen, sizeof nu);
  NUM(pbStrike_Solve)(s, nu, true);
  if (s->capped) eta = cap_multiplier(s, nu);
  b->restitution = 0;
  for (int c = 0; c < s->count; c++) {
    double C[3], by_after[3][3], by_impulse[3][3];
    const pbStruck *t = s->contact + c;
    double *after = b->after + t->first, *before = b->before + t->first;
    NUM(pbStrike_Law)(s, c, C, by_after, by_impulse);
    for (int i = 0; i < t->n; i++) {
      after[i] = before[i] = 0;
      for (int j = 0; j < t->n; j++) after[i] += by_after[j][i] * nu[t->first + j];
    }
    before[0] = s->used * after[0];
    if (!s->capped) b->restitution -= after[0] * s->before[t->first];
    for (int i = 0; i < t->n && s->capped; i++) {
      after[i] += eta * s->impulse[t->first + i];
      before[i] += eta * s->impulse[t->first + i];
    }
  }
}

// From the principal directions of slip back to the contact's tangents.
static void unturn(const pbStruck *t, double x[3]) {
  double a = x[1], b = x[2];
  x[1] = t->cos * a - t->sin * b, x[2] = t->sin * a + t->cos * b;
}

// Coefficients c of the rows' velocities under a body field X (of the second body less the first): to the field's cotangent F,
// and to those of the point, axes and frictions.
static void functional(const NUM(pbWork) *w, const NUM(pbContact) *c, const double coefficient[3], const double *X, double *F,
                       double place[3], double axes[3][3], double friction[2]) {
  double force[3] = {0}, u[3] = {0}, turn[3] = {0};
  for (int k = 0; k < 3; k++) v3_addscl(force, c->frame + 3 * k, coefficient[k] * (k ? c->friction[k - 1] : 1));
  for (int side = 0; side < 2; side++) {
    int b = w->m->geom_bodyid[side ? c->geom2 : c->geom1];
    double sign = side ? 1 : -1, d[3], at[3], wrench[6] = {0};
    const double *motion = X + 6 * b;
    body_offset(w, b, c->pos, d);
    PB_POINTVEL(at, motion, d);
    PB_ADDWRENCH(wrench, sign, d, force);
    PB_AXPY6(F + 6 * b, 1, wrench);
    v3_addscl(u, at, sign), v3_addscl(turn, motion, sign);
  }
  PB_ADDCROSS(place, 1, force, turn);
  for (int k = 0; k < 3; k++) {
    v3_addscl(axes[k], u, coefficient[k] * (k ? c->friction[k - 1] : 1));
    if (k) friction[k - 1] += coefficient[k] * v3_dot(c->frame + 3 * k, u);
  }
}

// The small system of the law, and what follows from it, for the cotangent w_bar of the velocity after.
static void impact_law(const NUM(pbWork) *w, const NUM(pbStrike) *s, const double *w_bar, pbImpactBar *b) {
  int nv = w->m->nv;
  double seen[pb_strikeRows] = {0};
  memcpy(b->lam, w_bar, (size_t)nv * sizeof(double));
  for (int k = 0; k < s->n; k++) {
    for (int i = 0; i < nv; i++) seen[k] += s->X[k * nv + i] * w_bar[i];
  }
  multipliers(s, seen, b);
  for (int k = 0; k < s->n; k++) {
    for (int i = 0; i < nv; i++) b->lam[i] -= s->J[k * nv + i] * b->after[k];
  }
  NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, b->lam);
}

// A contact's share of W, with the body fields Vm (of -lam), Vw (of the change of velocity) and V (before).
static void impact_contact(LANE(pbAdjoint) *a, const NUM(pbStrike) *s, int index, const pbImpactBar *b) {
  const NUM(pbWork) *w = a->w;
  const pbStruck *t = s->contact + index;
  const NUM(pbContact) *c = w->contact + t->point;
  double p[3] = {0}, change[3] = {0}, start[3] = {0}, place[3] = {0}, axes[3][3] = {{0}}, friction[2] = {0};
  for (int k = 0; k < t->n; k++) {
    int row = t->first + k;
    p[k] = -s->impulse[row];  // a's virtual velocity is -lam
    change[k] = -b->after[row], start[k] = -b->after[row] - b->before[row];
  }
  unturn(t, p), unturn(t, change), unturn(t, start);
  functional(w, c, p, a->Vm, a->FM, place, axes, friction);
  functional(w, c, change, a->Vw, a->FW, place, axes, friction);
  functional(w, c, start, w->V, a->FV, place, axes, friction);
  LANE(pbRows_Touch)(a, t->point, PB_TOUCH, 0, place, axes, friction, index == 0 ? b->restitution : 0);
}

// ---- entry points -----------------------------------------------------------------------------------------------------
typedef LANE(pbVjpBlock) block;

// Everything zero, nothing virtual moves, time stands still.
static void begin_impact(block *k, NUM(pbWork) *w, const pbPullback *p) {
  LANE(pbAdjoint) *a = &k->a;
  size_t nv = (size_t)w->m->nv, bodies = 6 * (size_t)w->m->nbody;
  LANE(pbVjp_Begin)(k, w);
  memset(k->base + k->bodies_from, 0, k->cleared_from - k->bodies_from);
  memset(a->lam, 0, nv * sizeof(lane)), memset(a->Vl, 0, bodies * sizeof(lane));
  a->fresh = false;
  a->Vx = a->Vl;
  a->theta = p->theta;
  a->want = a->theta ? pb_wantEverything : 0;
  if (a->theta) bars_view(&a->bar, w->m, a->theta);
  a->ctrl = k->ctrl, a->qfrc = a->xfrc = NULL;
}

static void end_impact(block *k, const pbPullback *p) {
  LANE(pbSweep_Pull)(&k->a);
  LANE(pbVjp_AddOut)(p->q, k->a.q, k->a.w->m->nv), LANE(pbVjp_AddOut)(p->v, k->a.v, k->a.w->m->nv);
}

pbStatus LANE(pbVjp_Strike)(void *memory, NUM(pbWork) *w, int candidate, int point, const pbPullback *p, double *gap_slope) {
  block *k = LANE(pbVjp_Block)(memory);
  LANE(pbAdjoint) *a = &k->a;
  NUM(pbStrike) s;
  int nv = w->m->nv;
  w->nrow = 0;
  memcpy(w->v0, w->qvel, (size_t)nv * sizeof(double));
  PB_TRY(NUM(pbImpact_Strike)(w, candidate, point, &s));
  for (int i = 0; i < nv; i++) w->qacc[i] = w->qvel[i] - w->v0[i], w->qacc_integrated[i] = 0;
  memcpy(w->qvel, w->v0, (size_t)nv * sizeof(double));
  memcpy(gap_slope, s.J, (size_t)nv * sizeof(double));
  pbImpactBar b = {.lam = a->mu};
  impact_law(w, &s, p->v_next, &b);
  for (int i = 0; i < nv; i++) a->mu[i] = -a->mu[i];
  NUM(pbStage_Velocity)(w);
  NUM(pbStage_Passive)(w);
  NUM(pbStage_Actuation)(w);
  NUM(pbStage_Smooth)(w);
  NUM(pbStage_Acceleration)(w);
  w->damped = true;
  LANE(pbSweep_Evaluation)(a, w);
  begin_impact(k, w, p);
  a->damped = a->has_mu = true;
  LANE(pbSweep_Push)(w, a->mu, a->Vm);
  LANE(pbSweep_Inertia)(a);
  LANE(pbForce_Joints)(a);
  for (int c = 0; c < s.count; c++) impact_contact(a, &s, c, &b);
  LANE(pbForce_Tendons)(a);
  end_impact(k, p);
  return pb_ok;
}

void LANE(pbVjp_Gap)(void *memory, NUM(pbWork) *w, int point, double bar, const pbPullback *p) {
  block *k = LANE(pbVjp_Block)(memory);
  double place[3] = {0}, axes[3][3] = {{0}}, friction[2] = {0};
  begin_impact(k, w, p);
  LANE(pbRows_Touch)(&k->a, point, PB_TOUCH, bar, place, axes, friction, 0);
  end_impact(k, p);
}
#endif
