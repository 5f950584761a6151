// The check of a model's derivatives, the gradient of the whole rollout: Taylor remainders |f(x + e d) - f(x) - e <g, d>| that
// must fall as e^2, and for the modes event and smooth forward against reverse mode.
// Tests: tests/oracle/test_check.py.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"

enum { TAYLOR_POINTS = 14 };

// ---- the rollout: Taylor remainder ---------------------------------------------------------------------------------

typedef struct MovedRollout {
  const double *bar;          // of the final state (vector 0)
  const double *x_direction;  // vector 4
  const double *u_direction;  // (N, nu), NULL: none
  double *control;            // room for moved controls
  int kink_step;              // first step whose trace differs from that of the unmoved rollout; -1: none
  const char *kink;
} MovedRollout;

static pbStatus moved_rollout(pbCheck *d, MovedRollout *moved, double e, double *value) {
  const pbRollout *r = d->r;
  double *x = pbCheck_Vector(d, vec_moved_state), *change = pbCheck_Vector(d, vec_change);

  memcpy(x, d->states, (size_t)d->r->nx * sizeof *x);
  pbState_Move(r->model, x, moved->x_direction, e);
  moved->kink_step = -1;

  for (int k = 0; k < r->plan.steps; k++) {
    PB_TRY(pbCheck_GoOn(d, "Taylor remainders", k, r->plan.steps));
    pbInput input = pbRollout_InputAt(r, k);
    double *u = moved->control;
    for (int i = 0; i < d->r->nu; i++) u[i] = input.ctrl[i] + e * moved->u_direction[(size_t)k * (size_t)d->r->nu + (size_t)i];
    input.ctrl = u;

    pbStatus status;
    do {
      status = pbStep_Forward(r->model, d->theta, x, &input, d->scratch, NULL);
    } while (pbScratch_Grow(d->scratch, &status));
    if (status != pb_ok) return pbCheck_StepFailed(d, status, k);

    // the first step that takes another branch than the unmoved rollout
    pbTrace t = pbTrace_Of(r->model, d->scratch);
    if (moved->kink_step >= 0 || pbTrace_Same(&t, &d->traces[k])) continue;
    moved->kink_step = k;
    moved->kink = pbTrace_Kink(&d->traces[k], &t);
  }

  pbState_Difference(r->model, d->states + (size_t)r->plan.steps * (size_t)d->r->nx, x, change);
  *value = pbCheck_Dot(moved->bar, change, (size_t)d->r->n);
  return pb_ok;
}

// Both sides of a tie may agree with each other and not with the gradient, which is that of one of the features.
static const char *first_tie(pbCheck *d, MovedRollout *moved) {
  int step = pbCheck_FirstTie(d, d->states, d->r->plan.steps);
  if (step >= 0) moved->kink_step = step;
  return step >= 0 ? "a contact has no derivative of every direction" : NULL;
}

// Why a remainder falls too slowly, NULL: because the gradient is wrong. A jump leaves a remainder that does not fall at all; a
// kink leaves different ones on both sides, where a wrong gradient leaves equal and opposite ones.
static const char *slow_fall(pbCheck *d, MovedRollout *moved, double e, double slope, double fall, double remainder) {
  double value = 0;
  bool jumps = fall < 0.5;
  if (jumps && moved->kink_step < 0) return "the motion jumps (a change of feature in a contact)";
  if (jumps) return moved->kink;
  if (moved_rollout(d, moved, -e, &value) != pb_ok) return "a step that fails nearby";

  double other = value + e * slope;
  if (fabs(other + remainder) <= 0.1 * fmax(fabs(other), fabs(remainder))) return first_tie(d, moved);
  return moved->kink_step >= 0 ? moved->kink : "a clamp, a tie or a change of feature in a contact";
}

// Remainders at quartered steps: they fall as e^2 where the gradient is right, as e where it is wrong, until rounding takes over.
// The last fall above rounding counts.
static pbStatus remainder_case(pbCheck *d, MovedRollout *moved, double slope, double noise, pbCheckTest *t) {
  double last = 0, fall = INFINITY, size = INFINITY, e = 1e-2;
  for (int i = 0; i < TAYLOR_POINTS; i++, e /= 4) {
    double value = 0, scale = e * (fabs(slope) + 1e-3 * pbCheck_Norm(moved->bar, (size_t)d->r->n)) + DBL_MIN;
    pbStatus status = moved_rollout(d, moved, e, &value);
    double remainder = status == pb_ok ? value - e * slope : INFINITY;

    // below rounding
    if (i && fabs(remainder) < 30 * (noise + 1e-15 * scale)) {
      size = fmin(size, fabs(remainder) / scale);
      break;
    }

    // order of the fall between e and e / 4
    fall = isfinite(last) && i ? log(fabs(last / remainder)) / log(4.0) : INFINITY;
    size = fabs(remainder) / scale;
    last = remainder;
  }

  // a single remainder above rounding shows no fall
  if (fall == INFINITY && size > 1e-5) fall = 0;
  bool fine = fall >= 2 - t->limit || size < 1e-6;

  // the last remainder was measured at 4 e: e has been quartered since
  const char *kink = fine ? NULL : slow_fall(d, moved, 4 * e, slope, fall, last);
  if (kink) {
    pbCheck_LeaveOut(t, NULL, kink, moved->kink_step);
    return pb_ok;
  }

  pbCheck_CountCase(t, fine ? 0 : 2 - fall, -1);
  if (!fine && !t->words[0]) snprintf(t->words, sizeof t->words, "the remainder falls with slope %.2f, expected 2", fall);
  return pb_ok;
}

// Cotangent w of the final state; the past states that deformables store beside it have none.
static pbRolloutBar final_bar(const pbCheck *d, double *w) {
  const pbRollout *r = d->r;
  size_t used = (size_t)(2 * r->nv + r->na + 2 * r->np);

  memset(w + used, 0, ((size_t)r->n - used) * sizeof *w);
  return (pbRolloutBar){.x = {.data = w, .count = 1}};
}

static bool all_finite(const double *a, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(a[i])) return false;
  }
  return true;
}

static pbStatus rollout_gradient(pbCheck *d, double *x_bar, double *u_bar) {
  static const double much = 1e3;  // growth of the costate from which it may be noise
  pbRollout *r = d->r;
  pbCertificate *c = &d->report->certificate;
  pbRolloutBar bar = final_bar(d, pbCheck_Vector(d, vec_next_bar));
  pbRolloutGradient out = {.x0 = x_bar, .ctrl = r->nu ? u_bar : NULL};
  pbVjpOptions options = {.spot_check = pb_checkSteps, .seed = 1};

  // the spot check runs with it: its certificate goes into the findings
  PB_TRY(pbRollout_Forward(r, d->theta, d->x0, &r->input, NULL));
  PB_TRY(pbRollout_Vjp(r, &bar, &options, &out, c));
  if (!all_finite(x_bar, (size_t)r->n) || !all_finite(u_bar, (size_t)r->plan.steps * (size_t)r->nu))
    return pbContext_Fail(r->ctx, pb_not_finite, "the gradient of the rollout is not finite");

  return exp(c->growth) > much ? pbRollout_Noise(r, &(pbNoiseOptions){.directions = 16}, &d->noise) : pb_ok;
}

static pbStatus taylor_tests(pbCheck *d, double *u_bar, double *u_direction, double *control) {
  size_t n = (size_t)d->r->n, m = (size_t)d->r->plan.steps * (size_t)d->r->nu;
  double *x_bar = pbCheck_Vector(d, vec_x_bar), *x_direction = pbCheck_Vector(d, vec_direction);
  pbCheck_DrawNormals(d, pbCheck_Vector(d, vec_next_bar), n);
  memset(x_bar, 0, n * sizeof *x_bar);
  PB_TRY(rollout_gradient(d, x_bar, u_bar));

  double length = sqrt(pbCheck_Dot(x_bar, x_bar, n) + pbCheck_Dot(u_bar, u_bar, m));
  pbCheckTest *tests[2] = {pbCheck_AddTest(d, "Taylor remainder, along the gradient", 0.2),
                           pbCheck_AddTest(d, "Taylor remainder, random directions", 0.2)};

  // trial 0 goes along the gradient, the others at random, all about unit length
  for (int trial = 0; trial < 4; trial++) {
    for (size_t i = 0; i < n; i++)
      x_direction[i] = trial ? pbRng_Normal(&d->rng) / sqrt((double)(n + m)) : x_bar[i] / (length + DBL_MIN);
    for (size_t i = 0; i < m; i++)
      u_direction[i] = trial ? pbRng_Normal(&d->rng) / sqrt((double)(n + m)) : u_bar[i] / (length + DBL_MIN);

    // rounding of the functional, grown as the rollout grows changes
    double slope = pbCheck_Dot(x_bar, x_direction, n) + pbCheck_Dot(u_bar, u_direction, m);
    double noise = 1e-15 * pbCheck_Norm(pbCheck_Vector(d, vec_next_bar), n) * (1 + pbCheck_Norm(d->states, (size_t)d->r->nx)) *
                   (1 + exp(fmax(0, d->report->certificate.growth)));

    MovedRollout r = {
        .bar = pbCheck_Vector(d, vec_next_bar), .x_direction = x_direction, .u_direction = u_direction, .control = control};
    PB_TRY(remainder_case(d, &r, slope, noise, tests[trial > 0]));
  }
  return pb_ok;
}

pbStatus pbCheck_TaylorRemainders(pbCheck *d) {
  size_t m = (size_t)d->r->plan.steps * (size_t)d->r->nu;
  double *memory = pbContext_Alloc(d->r->ctx, (2 * m + (size_t)d->r->nu + 1) * sizeof *memory);
  if (!memory) return pbCheck_NoMemory(d);
  pbStatus status = taylor_tests(d, memory, memory + m, memory + 2 * m);
  pbContext_Free(d->r->ctx, memory);
  return status;
}

// ---- other modes -------------------------------------------------------------------------------------------------------
// Modes event and smooth: differences of the rollout do not measure them, but forward and reverse mode must still agree.
static pbStatus mode_product(pbCheck *d, pbCheckTest *t) {
  pbRollout *r = d->r;
  size_t n = (size_t)d->r->n;
  double *w = pbCheck_Vector(d, vec_next_bar), *back = pbCheck_Vector(d, vec_x_bar),
         *direction = pbCheck_Vector(d, vec_direction), *end = pbCheck_Vector(d, vec_next_dot);
  int last = (int)r->plan.steps;

  // w and a direction of initial state and parameters
  pbCheck_DrawNormals(d, w, n);
  pbCheck_DrawNormals(d, direction, n);
  pbCheck_DrawTheta(d);
  memset(back, 0, n * sizeof *back);
  memset(d->theta_bar, 0, d->r->ntheta * sizeof *d->theta_bar);

  pbRolloutBar bar = final_bar(d, w);
  pbRolloutGradient out = {.x0 = back, .theta = d->theta_bar};
  pbRolloutDirection inputs = {.x0 = direction, .theta = d->theta_direction};

  // one forward pass serves both modes
  PB_TRY(pbRollout_SetGradient(r, d->options->mode));
  PB_TRY(pbRollout_Forward(r, d->theta, d->x0, &r->input, NULL));
  PB_TRY(pbRollout_Vjp(r, &bar, NULL, &out, &d->report->certificate));
  PB_TRY(pbRollout_Jvp(r, 1, &inputs, &(pbRolloutTangent){.x = end, .rows = &last, .row_count = 1}));

  // <w, J d> = <J' w, d>
  double forward = pbCheck_Dot(w, end, n);
  double reverse = pbCheck_DotAlong(back, direction, n) + pbCheck_DotAlong(d->theta_bar, d->theta_direction, d->r->ntheta);
  double size = 0;
  for (size_t i = 0; i < n; i++) size += fabs(w[i] * end[i]) + fabs(back[i] * direction[i]);
  for (size_t i = 0; i < d->r->ntheta; i++)
    size += d->theta_direction[i] != 0 ? fabs(d->theta_bar[i] * d->theta_direction[i]) : 0;
  pbCheck_CountCase(t, fabs(forward - reverse) / (size + DBL_MIN), -1);
  return pb_ok;
}

pbStatus pbCheck_Mode(pbCheck *d) {
  char name[48];
  if (d->options->mode == pb_gradientExact) return pb_ok;

  snprintf(name, sizeof name, "dot product of the rollout, mode %s", pbGradientKind_Name(d->options->mode));
  return mode_product(d, pbCheck_AddTest(d, name, pb_dotLimit));
}
