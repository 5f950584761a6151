// Gradient diagnostics: what a certificate gathers from the steps, and growth of the costate. What the spot checks say of it
// comes from sample.c (single steps) and spot.c (the whole rollout).
// Tests: tests/unit/test_rollout.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

// An extreme so far, and the step that it was met at. Whether this is one.
static bool note_extreme(double value, double *most, int *at, int step) {
  if (!(value > *most)) return false;
  *most = value;
  *at = step;
  return true;
}

void pbCertificate_Step(pbCertificate *c, const pbReport *report, const char *worst_row, int step) {
  PB_ASSERT(step >= 0 && report->contacts >= 0 && report->rows >= 0);
  if (report->contacts > c->most_contacts) {
    c->most_contacts = report->contacts;
    c->most_contacts_step = step;
  }

  if (report->rows > c->most_rows) c->most_rows = report->rows;

  // Without rows and deformables nothing was solved: there is no residual.
  if ((report->rows > 0 || report->deforms) && (c->worst_residual_step < 0 || report->residual > c->worst_residual)) {
    c->worst_residual = report->residual;
    c->worst_residual_step = step;
    c->worst_condition = report->condition;
    snprintf(c->worst_row, sizeof c->worst_row, "%s", worst_row);
  }

  // Counts and extremes over all steps; of an extreme the step that it was met at.
  c->unconverged += !report->converged;
  if (report->simultaneous > 0 && c->simultaneous == 0) c->simultaneous_step = step;
  c->simultaneous += report->simultaneous;
  c->approach = fmin(c->approach, report->approach);

  if (note_extreme(report->penetration, &c->penetration, &c->penetration_step, step))
    memcpy(c->penetrating, report->penetrating, sizeof c->penetrating);

  c->gains += report->gains;
  if (note_extreme(report->gain, &c->gain, &c->gain_step, step)) memcpy(c->gaining, report->gaining, sizeof c->gaining);

  // What the scratch did before step 0 is another rollout, so contacts cannot have come and gone; impacts are of the step itself.
  if (step == 0 && !isfinite(report->approach)) return;
  c->onsets += report->onsets;
  c->releases += report->releases;
}

void pbGrowth_Add(pbGrowth *g, pbCertificate *c, double t, double norm, int step) {
  PB_ASSERT(norm >= 0 && isfinite(norm));

  // Costates come from the last step to the first.
  note_extreme(norm, &c->costate_worst, &c->costate_worst_step, step);
  if (t == 0) c->costate_final = norm;
  c->costate_initial = norm;  // the last one told is step 0
  if (!(norm > 0)) return;

  // Sums for the line through (t, ln norm).
  double y = pbLog(norm);
  if (isnan(g->first)) g->first = y;
  g->now = y;
  g->count++;
  g->t += t;
  g->tt += t * t;
  g->y += y;
  g->ty += t * y;
}

// Slope by least squares: (n sum ty - sum t sum y) / (n sum tt - (sum t)^2).
void pbGrowth_Finish(const pbGrowth *g, pbCertificate *c) {
  double spread = g->count * g->tt - g->t * g->t;
  c->growth = g->count > 0 ? g->now - g->first : 0;
  c->growth_rate = g->count > 1 && spread > 0 ? (g->count * g->ty - g->t * g->y) / spread : 0;
}

// ---- what the spot check says ----------------------------------------------------------------------------------------
void pbCertificate_LeaveOut(pbCertificate *c, pbAgreement why) {
  c->spot_left_out++;
  c->spot_left_kink += why == pb_atKink;
  c->spot_left_tie += why == pb_atTie;
  c->spot_left_noise += why == pb_inNoise;
}

pbStatus pbCertificate_NoteTie(pbCertificate *c, pbRollout *r, const double *x, const pbInput *input, int k) {
  char text[sizeof c->spot_tie];
  if (c->spot_tie_step >= 0 && c->spot_tie_step <= k) return pb_ok;

  // What cannot be observed has no contact to blame, but want of memory is no property of the step.
  pbStatus status = pbStep_Observe(r->model, r->theta, x, input, r->scratch, NULL);
  if (status == pb_ok && !pbScratch_Tie(r->scratch, text, sizeof text)) status = pb_no_memory;
  if (status == pb_no_memory) return pbRollout_StepFailed(r, status, k, pbStatus_Text(status));
  if (status != pb_ok || !*text) return pb_ok;

  // Steps are sampled on the way back.
  memcpy(c->spot_tie, text, sizeof text);
  c->spot_tie_step = k;
  return pb_ok;
}

const char *pbCertificate_Checked(const pbCertificate *c) {
  static const char *const names[] = {"nothing", "steps", "impacts", "steps and impacts"};
  if (!c->spot_checked) return names[0];
  return c->spot_part & pb_partRollout ? "rollout" : names[c->spot_part & (pb_partSteps | pb_partImpacts)];
}
