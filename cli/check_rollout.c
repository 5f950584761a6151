// pullback check, the gradient of the whole rollout: Taylor remainders |f(x + e d) - f(x) - e <g, d>| that must fall as e^2,
// and for the modes event and smooth forward against reverse mode.
// Tests: tests/oracle/test_check.py.
#include <float.h>
#include <math.h>
#include <string.h>

#include "check.h"

enum { TAYLOR_POINTS = 14 };

// ---- the rollout: Taylor remainder ---------------------------------------------------------------------------------

typedef struct MovedRollout {
  const double *bar;          // of the final state (vector 0)
  const double *x_direction;  // vector 4
  const double *u_direction;  // (N, nu), NULL: none
  double *control;            // room for moved controls
  long kink_step;             // first step whose trace differs from that of the unmoved rollout; -1: none
  const char *kink;
} MovedRollout;

static pbStatus moved_rollout(cliCheck *d, MovedRollout *r, double e, double *value) {
  const cliRun *run = d->run;
  double *x = cliCheck_Vector(d, vec_moved_state), *change = cliCheck_Vector(d, vec_change);

  memcpy(x, d->states, (size_t)d->nx * sizeof *x);
  pbState_Move(run->model, x, r->x_direction, e);
  r->kink_step = -1;

  for (long k = 0; k < run->steps; k++) {
    PB_TRY(cliRun_GoOn(d->run, "Taylor remainders", k, run->steps));
    pbInput input = cliRun_Input(run, k);
    double *u = r->control;
    for (int i = 0; i < d->nu; i++) u[i] = input.ctrl[i] + e * r->u_direction[(size_t)k * (size_t)d->nu + (size_t)i];
    input.ctrl = u;

    pbStatus status;
    do {
      status = pbStep_Forward(run->model, run->theta, x, &input, run->scratch, NULL);
    } while (pbScratch_Grow(run->scratch, &status));
    if (status != pb_ok) return cliRun_StepFailed(run, status, k);

    // the first step that takes another branch than the unmoved rollout
    cliTrace t = cliRun_Trace(d->run);
    if (r->kink_step >= 0 || cliTrace_Same(&t, &d->traces[k])) continue;
    r->kink_step = k;
    r->kink = cliTrace_Kink(&d->traces[k], &t);
  }

  pbState_Difference(run->model, d->states + (size_t)run->steps * (size_t)d->nx, x, change);
  *value = cli_dot(r->bar, change, (size_t)d->nt);
  return pb_ok;
}

// Both sides of a tie may agree with each other and not with the gradient, which is that of one of the features.
static const char *first_tie(cliCheck *d, MovedRollout *r) {
  long step = cliRun_FirstTie(d->run, d->states, d->run->steps);
  if (step >= 0) r->kink_step = step;
  return step >= 0 ? "a contact has no derivative of every direction" : NULL;
}

// Why a remainder falls too slowly, NULL: because the gradient is wrong. A jump leaves a remainder that does not fall at all; a
// kink leaves different ones on both sides, where a wrong gradient leaves equal and opposite ones.
static const char *slow_fall(cliCheck *d, MovedRollout *r, double e, double slope, double fall, double remainder) {
  double value = 0;
  bool jumps = fall < 0.5;
  if (jumps && r->kink_step < 0) return "the motion jumps (a change of feature in a contact)";
  if (jumps) return r->kink;
  if (moved_rollout(d, r, -e, &value) != pb_ok) return "a step that fails nearby";

  double other = value + e * slope;
  if (fabs(other + remainder) <= 0.1 * fmax(fabs(other), fabs(remainder))) return first_tie(d, r);
  return r->kink_step >= 0 ? r->kink : "a clamp, a tie or a change of feature in a contact";
}

// Remainders at quartered steps: they fall as e^2 where the gradient is right, as e where it is wrong, until rounding takes over.
// The last fall above rounding counts.
static pbStatus remainder_case(cliCheck *d, MovedRollout *r, double slope, double noise, cliCheckTest *t) {
  double last = 0, fall = INFINITY, size = INFINITY, e = 1e-2;
  for (int i = 0; i < TAYLOR_POINTS; i++, e /= 4) {
    double value = 0, scale = e * (fabs(slope) + 1e-3 * cli_norm(r->bar, (size_t)d->nt)) + DBL_MIN;
    pbStatus status = moved_rollout(d, r, e, &value);
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
  const char *kink = fine ? NULL : slow_fall(d, r, 4 * e, slope, fall, last);
  if (kink) {
    cliCheck_LeaveOut(t, NULL, kink, r->kink_step);
    return pb_ok;
  }

  cliCheck_CountCase(t, fine ? 0 : 2 - fall, -1);
  if (!fine && !t->words[0]) snprintf(t->words, sizeof t->words, "the remainder falls with slope %.2f, expected 2", fall);
  return pb_ok;
}

// Cotangent w of the final state; the past states that deformables store beside it have none.
static pbRolloutBar final_bar(const cliCheck *d, double *w) {
  const cliRun *run = d->run;
  size_t nv = (size_t)run->nv, na = (size_t)run->na;
  size_t np = 3 * (size_t)pbModel_PointCount(run->model);
  size_t past = 2 * nv + na + 2 * np;

  pbRolloutBar bar = {.qpos = {.data = w, .count = 1}, .qvel = {.data = w + nv, .count = 1}};
  if (na) bar.act = (pbCotangent){.data = w + 2 * nv, .count = 1};
  if (np) bar.points = (pbCotangent){.data = w + 2 * nv + na, .count = 1};
  if (np) bar.point_velocity = (pbCotangent){.data = w + 2 * nv + na + np, .count = 1};
  memset(w + past, 0, ((size_t)d->nt - past) * sizeof *w);
  return bar;
}

static pbStatus rollout_gradient(cliCheck *d, double *x_bar, double *u_bar) {
  cliRun *run = d->run;
  pbRolloutPlan plan;
  pbRollout *rollout = NULL;
  PB_TRY(pbRollout_Plan(run->ctx, run->model, (int)run->steps, 0, &plan));
  PB_TRY(pbRollout_Create(run->ctx, run->model, &plan, NULL, &rollout));

  pbRolloutInput input = cliRun_Inputs(run);
  pbRolloutBar bar = final_bar(d, cliCheck_Vector(d, vec_next_bar));
  pbRolloutGradient out = {.x0 = x_bar, .ctrl = run->nu ? u_bar : NULL};
  pbVjpOptions options = {.spot_check = pb_checkSteps, .seed = 1};

  // the spot check runs with it: its certificate goes into the findings
  pbStatus status = pbRollout_Forward(rollout, run->theta, run->x0, &input, NULL);
  if (status == pb_ok) status = pbRollout_Vjp(rollout, &bar, &options, &out, &d->certificate);

  if (status == pb_ok && !(cli_finite(x_bar, (size_t)d->nt) && cli_finite(u_bar, (size_t)run->steps * (size_t)d->nu)))
    status = pbContext_Fail(run->ctx, pb_not_finite, "the gradient of the rollout is not finite");
  if (status == pb_ok) status = cliNoise_Measure(rollout, &d->certificate, &d->noise);
  pbRollout_Destroy(rollout);
  return status;
}

static pbStatus taylor_tests(cliCheck *d, double *u_bar, double *u_direction, double *control) {
  size_t n = (size_t)d->nt, m = (size_t)d->run->steps * (size_t)d->nu;
  double *x_bar = cliCheck_Vector(d, vec_x_bar), *x_direction = cliCheck_Vector(d, vec_direction);
  cliCheck_DrawNormals(d, cliCheck_Vector(d, vec_next_bar), n);
  memset(x_bar, 0, n * sizeof *x_bar);
  PB_TRY(rollout_gradient(d, x_bar, u_bar));

  double length = sqrt(cli_dot(x_bar, x_bar, n) + cli_dot(u_bar, u_bar, m));
  cliCheckTest *tests[2] = {cliCheck_AddTest(d, "Taylor remainder, along the gradient", 0.2),
                            cliCheck_AddTest(d, "Taylor remainder, random directions", 0.2)};

  // trial 0 goes along the gradient, the others at random, all about unit length
  for (int trial = 0; trial < 4; trial++) {
    for (size_t i = 0; i < n; i++)
      x_direction[i] = trial ? pbRng_Normal(&d->rng) / sqrt((double)(n + m)) : x_bar[i] / (length + DBL_MIN);
    for (size_t i = 0; i < m; i++)
      u_direction[i] = trial ? pbRng_Normal(&d->rng) / sqrt((double)(n + m)) : u_bar[i] / (length + DBL_MIN);

    // rounding of the functional, grown as the rollout grows changes
    double slope = cli_dot(x_bar, x_direction, n) + cli_dot(u_bar, u_direction, m);
    double noise = 1e-15 * cli_norm(cliCheck_Vector(d, vec_next_bar), n) * (1 + cli_norm(d->states, (size_t)d->nx)) *
                   (1 + exp(fmax(0, d->certificate.growth)));

    MovedRollout r = {
        .bar = cliCheck_Vector(d, vec_next_bar), .x_direction = x_direction, .u_direction = u_direction, .control = control};
    PB_TRY(remainder_case(d, &r, slope, noise, tests[trial > 0]));
  }
  return pb_ok;
}

pbStatus cliCheck_TaylorRemainders(cliCheck *d) {
  size_t m = (size_t)d->run->steps * (size_t)d->nu;
  double *memory = pbContext_Alloc(d->run->ctx, (2 * m + (size_t)d->nu + 1) * sizeof *memory);
  if (!memory) return cli_noMemory(d->run->ctx);
  pbStatus status = taylor_tests(d, memory, memory + m, memory + 2 * m);
  pbContext_Free(d->run->ctx, memory);
  return status;
}

// ---- other modes -------------------------------------------------------------------------------------------------------
// Modes event and smooth: differences of the rollout do not measure them, but forward and reverse mode must still agree.
static pbStatus mode_product(cliCheck *d, pbRollout *rollout, cliCheckTest *t) {
  const cliRun *run = d->run;
  size_t n = (size_t)d->nt;
  double *w = cliCheck_Vector(d, vec_next_bar), *back = cliCheck_Vector(d, vec_x_bar),
         *direction = cliCheck_Vector(d, vec_direction), *end = cliCheck_Vector(d, vec_next_dot);
  int last = (int)run->steps;

  // w and a direction of initial state and parameters
  cliCheck_DrawNormals(d, w, n);
  cliCheck_DrawNormals(d, direction, n);
  cliCheck_DrawTheta(d);
  memset(back, 0, n * sizeof *back);
  memset(d->theta_bar, 0, d->np * sizeof *d->theta_bar);

  pbRolloutInput input = cliRun_Inputs(run);
  pbRolloutBar bar = final_bar(d, w);
  pbRolloutGradient out = {.x0 = back, .theta = d->theta_bar};
  pbRolloutDirection inputs = {.x0 = direction, .theta = d->theta_direction};

  // one forward pass serves both modes
  PB_TRY(pbRollout_SetGradient(rollout, d->mode));
  PB_TRY(pbRollout_Forward(rollout, run->theta, run->x0, &input, NULL));
  PB_TRY(pbRollout_Vjp(rollout, &bar, NULL, &out, &d->certificate));
  PB_TRY(pbRollout_Jvp(rollout, 1, &inputs, &(pbRolloutTangent){.x = end, .rows = &last, .row_count = 1}));

  // <w, J d> = <J' w, d>
  double forward = cli_dot(w, end, n);
  double reverse = cli_dotAlong(back, direction, n) + cli_dotAlong(d->theta_bar, d->theta_direction, d->np);
  double size = 0;
  for (size_t i = 0; i < n; i++) size += fabs(w[i] * end[i]) + fabs(back[i] * direction[i]);
  for (size_t i = 0; i < d->np; i++) size += d->theta_direction[i] != 0 ? fabs(d->theta_bar[i] * d->theta_direction[i]) : 0;
  cliCheck_CountCase(t, fabs(forward - reverse) / (size + DBL_MIN), -1);
  return pb_ok;
}

pbStatus cliCheck_Mode(cliCheck *d) {
  pbRolloutPlan plan;
  pbRollout *rollout = NULL;
  char name[48];
  if (d->mode == pb_gradientExact) return pb_ok;

  snprintf(name, sizeof name, "dot product of the rollout, mode %s", pbGradientKind_Name(d->mode));
  PB_TRY(pbRollout_Plan(d->run->ctx, d->run->model, (int)d->run->steps, 0, &plan));
  PB_TRY(pbRollout_Create(d->run->ctx, d->run->model, &plan, NULL, &rollout));

  pbStatus status = mode_product(d, rollout, cliCheck_AddTest(d, name, cli_dotLimit));
  pbRollout_Destroy(rollout);
  return status;
}
