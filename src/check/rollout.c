// The check of a model's derivatives, the gradient of the whole rollout: Taylor remainders |f(x + e d) - f(x) - e <g, d>| that
// must fall as e^2, and for the modes event and smooth forward against reverse mode.
// Tests: tests/oracle/test_check.py.
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "check/check.h"
#include "elementary/elementary.h"

enum { trials = 4, taylor_points = 14 };

// Why a remainder falls too slowly, NULL: because the gradient is wrong. A jump leaves a remainder that does not fall at all; a
// kink leaves different ones on both sides, where a wrong gradient leaves equal and opposite ones.
static const char *slow_fall(pbCheck *d, double e, double slope, double fall, double remainder, int *step) {
  double value[seen_count];
  const char *kink = d->kink;
  *step = d->kink_step;
  if (fall < 0.5) return kink ? kink : "the motion jumps (a change of feature in a contact)";

  pbCheck_Move(d, -e, true, value);
  if (isnan(value[in_states])) return "a step that fails nearby";
  double other = value[in_states] + e * slope;
  kink = d->kink ? d->kink : pb_namelessKink;
  *step = d->kink_step;
  if (fabs(other + remainder) > 0.1 * fmax(fabs(other), fabs(remainder))) return kink;

  // Both sides of a tie may agree with each other and not with the gradient, which is that of one of the features.
  *step = pbCheck_FirstTie(d);
  return *step >= 0 ? "a contact has no derivative of every direction" : NULL;
}

// Remainders at quartered steps: they fall as e^2 where the gradient is right, as e where it is wrong, until rounding takes over.
// The last fall above rounding counts.
static pbStatus compare_remainders(pbCheck *d, int trial, double noise, pbCheckTest *t) {
  double last = 0, fall = INFINITY, size = INFINITY, e = 1e-2, slope = pbCheck_GradientAlong(d, in_states, NULL);
  for (int i = 0; i < taylor_points; i++, e /= 4) {
    double value[seen_count], scale = e * (fabs(slope) + 1e-3 * d->norm[in_states]) + DBL_MIN;
    PB_TRY(pbCheck_GoOn(d, "Taylor remainders", trial * taylor_points + i, trials * taylor_points));
    pbCheck_Move(d, e, true, value);
    double remainder = isnan(value[in_states]) ? INFINITY : value[in_states] - e * slope;

    // below rounding
    if (i && fabs(remainder) < 30 * (noise + 1e-15 * scale)) {
      size = fmin(size, fabs(remainder) / scale);
      break;
    }

    // order of the fall between e and e / 4
    fall = isfinite(last) && i ? pbLog(fabs(last / remainder)) / pbLog(4.0) : INFINITY;
    size = fabs(remainder) / scale;
    last = remainder;
  }

  // a single remainder above rounding shows no fall
  if (fall == INFINITY && size > 1e-5) fall = 0;
  bool fine = fall >= 2 - t->limit || size < 1e-6;

  // the last remainder was measured at 4 e: e has been quartered since
  int step = -1;
  const char *kink = fine ? NULL : slow_fall(d, 4 * e, slope, fall, last, &step);
  if (kink) {
    pbCheck_LeaveOut(t, NULL, kink, step);
    return pb_ok;
  }

  pbCheck_CountCase(t, fine ? 0 : 2 - fall, -1);
  if (!fine && !t->words[0]) pbCheck_AddWords(t, "", "the remainder falls with slope %.2f, expected 2", fall);
  return pb_ok;
}

// Beyond a bound a control or an activation has another slope than into its domain, which is what the gradient is there: a
// direction goes into the domain, or along it where its length is to be that of the gradient.
static void turn_number(double *c, int side, bool along) {
  if (side * *c < 0) *c = along ? 0 : -*c;
}

static void turn_into_domain(pbCheck *d, bool along) {
  int nu = d->r->nu;
  double span, *control = d->direction.of[by_ctrl], *activation = d->direction.of[by_state] + 2 * d->r->nv;
  int steps = control ? d->r->plan.steps : 0;
  for (int k = 0; k < steps; k++) {
    for (int i = 0; i < nu; i++)
      turn_number(control + (size_t)k * (size_t)nu + (size_t)i, pbCheck_ControlSide(d, d->from + k, i, &span), along);
  }
  for (int i = 0; i < d->r->na; i++) turn_number(activation + i, pbCheck_ActivationSide(d, 0, i), along);
}

// Trial 0 goes along the gradient, the others at random, all about unit length.
static void draw_trial(pbCheck *d, int trial) {
  static const pbBy parts[] = {by_state, by_ctrl};
  const pbVectors *bar = &d->bar[in_states], *direction = &d->direction;
  pbVectors_Clear(direction);

  for (int p = 0; p < 2; p++) {
    double *to = direction->of[parts[p]];
    if (trial) pbCheck_DrawPart(d, parts[p]);
    else if (to) memcpy(to, bar->of[parts[p]], direction->size[parts[p]] * sizeof *to);
  }
  turn_into_domain(d, trial == 0);

  double squared = trial ? (double)(direction->size[by_state] + direction->size[by_ctrl]) : pbVectors_Squared(direction);
  pbVectors_Divide(direction, sqrt(squared) + DBL_MIN);
}

// *trial: the first to be made.
static pbStatus gradient(pbCheck *d, int *trial) {
  static const double much = 1e3;  // growth of the costate from which it may be noise
  pbVjpOptions options = {.spot_check = pb_checkSteps, .seed = 1};

  // the spot check runs with it: its certificate goes into the findings
  PB_TRY(pbCheck_Stretch(d, 0, d->steps));
  PB_TRY(pbCheck_DrawFunctionals(d, pb_lastState, &options));
  d->report->certificate = d->certificate;
  double squared = pbVectors_Squared(&d->bar[in_states]);
  if (!isfinite(squared)) return pbContext_Fail(d->r->ctx, pb_not_finite, "the gradient of the rollout is not finite");

  // noise is known to who goes on
  int done = pbCheck_Resume(d, pb_ofRemainders);
  *trial = done > 0 ? done : 0;
  if (done >= 0 || !(pbExp(d->certificate.growth) > much)) return pb_ok;

  pbRollout_OnProgress(d->r, d->options->progress, d->options->user);
  pbStatus status = pbRollout_Noise(d->r, &(pbNoiseOptions){.directions = 16}, &d->noise);
  pbRollout_OnProgress(d->r, NULL, NULL);
  return status;
}

pbStatus pbCheck_TaylorRemainders(pbCheck *d) {
  int trial = 0;
  if (pbCheck_Skips(d, pb_ofRemainders)) return pb_ok;
  PB_TRY(gradient(d, &trial));
  pbCheckTest *along = pbCheck_AddTest(d, "Taylor remainder, along the gradient", 0.2);
  pbCheckTest *random = pbCheck_AddTest(d, "Taylor remainder, random directions", 0.2);

  // rounding of the functional, grown as the rollout grows changes
  double growth = 1 + pbExp(fmax(0, d->certificate.growth));
  double noise = 1e-15 * d->norm[in_states] * (1 + pbProbe_Norm(d->states, (size_t)d->r->nx)) * growth;
  for (; trial < trials; trial++) {
    pbCheck_Mark(d, pb_ofRemainders, trial);
    draw_trial(d, trial);
    PB_TRY(compare_remainders(d, trial, noise, trial ? random : along));
  }
  return pb_ok;
}

// Differences of the rollout do not measure modes event and smooth, but forward and reverse mode must still agree.
pbStatus pbCheck_Mode(pbCheck *d) {
  double ahead[seen_count], size = 0;
  if (d->options->mode == pb_gradientExact) return pb_ok;

  pbWords name = pbWords_Of("dot product of the rollout, mode %s", pbGradientKind_Name(d->options->mode));
  pbCheckTest *t = pbCheck_AddTest(d, name.text, 1e-10);
  PB_TRY(pbRollout_SetGradient(d->r, d->options->mode));
  PB_TRY(pbCheck_Stretch(d, 0, d->steps));
  PB_TRY(pbCheck_DrawFunctionals(d, pb_lastState, NULL));
  d->report->certificate = d->certificate;

  pbCheck_DrawPart(d, by_state);
  pbCheck_DrawPart(d, by_theta);
  PB_TRY(pbCheck_Push(d, ahead));

  // <w, J d> = <J' w, d>
  double back = pbCheck_GradientAlong(d, in_states, &size);
  size_t last = (size_t)d->steps * (size_t)d->r->n;
  size += pbProbe_Terms(d->w[in_states] + last, d->tangent[in_states] + last, (size_t)d->r->n);
  pbCheck_CountCase(t, fabs(ahead[in_states] - back) / (size + DBL_MIN), -1);
  return pb_ok;
}
