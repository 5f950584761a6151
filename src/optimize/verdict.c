// Why a search ended, found out at its answer by some more evaluations: a full Newton step that would gain nothing, unknowns that
// nothing depends on (verdict_unknowns.c), a jump of the loss and the contact that makes it (verdict_jump.c). Tests:
// tests/unit/test_verdict.c.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/optimizer.h"
#include "optimize/verdict.h"

enum { MOST_DENSE = 128 };                     // unknowns up to which the Jacobian at the answer is formed
static const double rounding = 1e-22;          // of an unknown's influence, squared, relative to the largest
static const double most_dense_entries = 3e7;  // of that Jacobian
static const double no_gain = 1e-8;            // of the loss: a full step that promises less is convergence
static const double noise_of_loss = 1e-11;     // rounding of a loss, relative; what is below 1e3 of it is no jump

const char *pbRunOutcome_Name(pbRunOutcome outcome) {
  static const char *const names[pb_runOutcomeCount] = {"criteria met", "converged",       "no influence", "stalled at a jump",
                                                        "stalled",      "iteration limit", "saddle",       "failed"};
  return (unsigned)outcome < pb_runOutcomeCount ? names[outcome] : "unknown";
}

// "a, b, c and 4 more": the unknowns with a note.
static void list_names(const Judge *j, unsigned note, char *text, size_t size) {
  enum { most_shown = 4 };
  int all = pbJudge_CountNotes(j, note), shown = 0;
  size_t used = 0;
  text[0] = 0;

  for (int i = 0; i < j->n && shown < most_shown; i++) {
    char name[160];
    if (!(j->verdict->notes[i] & note)) continue;
    const char *separator = shown > 0 ? ", " : "";
    used += (size_t)snprintf(text + used, size - used, "%s%s", separator, pbJudge_NameOf(j, i, name, sizeof name));
    shown++;
    if (used >= size - 1) return;
  }

  if (all > shown) snprintf(text + used, size - used, " and %d more", all - shown);
}

// ---- derivatives at the answer --------------------------------------------------------------------------------------

static pbStatus form_jacobian(Judge *j) {
  size_t n = (size_t)j->n, m = j->task->m;
  PB_ASSERT(!j->J);

  // Only where it is small enough to be worth the memory and time; a truncated gradient has none.
  if (m == 0 || pbTask_IsTruncated(j->task) || j->n > MOST_DENSE || (double)m * (double)n > most_dense_entries) return pb_ok;

  PB_TRY(pbJudge_Allocate(j, m, &j->residuals));
  PB_TRY(pbJudge_Allocate(j, m * n, &j->J));
  PB_TRY(pbJudge_Allocate(j, n * n, &j->A));
  PB_TRY(pbJudge_Allocate(j, n * n, &j->B));
  PB_TRY(pbJudge_Allocate(j, n, &j->D));

  // Without a Jacobian the verdict goes by the gradient alone.
  pbStatus status = pbTask_Residuals(j->task, j->z, j->residuals, j->J);
  if (status == pb_ok) return pb_ok;
  pbContext_Free(j->task->ctx, j->J);
  j->J = NULL;

  return pbJudge_IsSoft(status) ? pb_ok : status;
}

static pbStatus find_derivatives(Judge *j) {
  size_t n = (size_t)j->n;
  PB_TRY(pbJudge_Allocate(j, n, &j->g));
  PB_TRY(pbJudge_Allocate(j, n, &j->trial));
  PB_TRY(pbJudge_Allocate(j, n, &j->d));

  pbStatus status = pbTask_Loss(j->task, j->z, &j->value, j->g);
  if (status != pb_ok && !pbJudge_IsSoft(status)) return status;
  j->smooth = status == pb_ok;
  PB_VALIDATE(!j->smooth || pb_allFinite(j->g, n));

  // Relative to the loss itself; of a loss that is zero but for rounding, to that of the start.
  double first = isfinite(j->task->first_value) ? fabs(j->task->first_value) : 0;
  j->noise = noise_of_loss * fabs(j->value) + 1e-18 * first;
  j->negligible = no_gain * fabs(j->value) + 1e-20 * first;

  return j->smooth ? form_jacobian(j) : pb_ok;
}

static bool at_lower(const Judge *j, int i) { return j->z[i] <= j->task->lower[i]; }
static bool at_upper(const Judge *j, int i) { return j->z[i] >= j->task->upper[i]; }
static bool held(const Judge *j, int i) { return (at_lower(j, i) && j->g[i] > 0) || (at_upper(j, i) && j->g[i] < 0); }

static void note_bounds(Judge *j) {
  for (int i = 0; i < j->n; i++) {
    PB_ASSERT(j->task->lower[i] <= j->task->upper[i]);
    if (at_lower(j, i)) j->verdict->notes[i] |= pb_unknownAtLower;
    if (at_upper(j, i)) j->verdict->notes[i] |= pb_unknownAtUpper;
  }
}

// ---- is there anything to gain ----------------------------------------------------------------------------------------
static void form_normal_matrix(const Judge *j, double *A) {
  int n = j->n;
  memset(A, 0, (size_t)n * (size_t)n * sizeof(double));

  for (size_t k = 0; k < j->task->m; k++) {
    const double *row = j->J + k * (size_t)n;
    for (int a = 0; a < n; a++) {
      if (row[a] == 0) continue;
      for (int b = 0; b < n; b++) A[a * n + b] += row[a] * row[b];
    }
  }
}

// Of all residuals by a move of unknown i by its own size, squared.
static double influence(const Judge *j, int i) {
  double size = 1 + fabs(j->z[i]);
  return j->A[i * j->n + i] * size * size;
}

// An unknown that a bound holds, or that nothing depends on but by rounding, takes no part: its row and column are those of the
// unit matrix.
static bool takes_part(const Judge *j, int i) { return !held(j, i) && influence(j, i) > j->seen; }

// Cholesky's factor L of A damped by 1e-12 of its diagonal, so that directions the loss does not see do no harm.
static void factorize(const Judge *j, const double *A, double *L) {
  int n = j->n;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) {
      double sum = takes_part(j, i) && takes_part(j, k) ? A[i * n + k] : 0;
      for (int l = 0; l < k; l++) sum -= L[i * n + l] * L[k * n + l];
      L[i * n + k] = sum / L[k * n + k];
    }

    double sum = takes_part(j, i) ? A[i * n + i] * (1 + 1e-12) : 1;
    for (int l = 0; l < i; l++) sum -= L[i * n + l] * L[i * n + l];
    if (!(sum > 1e-14 * A[i * n + i])) sum = fmax(A[i * n + i], 1);  // not seen: leave it where it is
    L[i * n + i] = sqrt(sum);
    PB_ASSERT(L[i * n + i] > 0);
  }
}

// Cuts p off at the bounds. What a step along it promises by -g'p - p'A p, a part of it where the whole is too long.
static double promise_along(const Judge *j, double *p) {
  int n = j->n;
  double slope = 0, curvature = 0;

  for (int i = 0; i < n; i++) {
    p[i] = fmin(fmax(j->z[i] + p[i], j->task->lower[i]), j->task->upper[i]) - j->z[i];
    slope -= j->g[i] * p[i];
  }

  // The best part of the way, at most all of it.
  for (int a = 0; a < n; a++) curvature += p[a] * pbVec_Dot(j->A + a * n, p, n);
  if (!(slope > 0)) return 0;

  return slope >= 2 * curvature ? slope - curvature : slope * slope / (4 * curvature);
}

// The same along the gradient, each unknown in its own unit: where bounds cut Newton's step off, it may promise nothing although
// the loss falls.
static double promise_downhill(Judge *j) {
  for (int i = 0; i < j->n; i++) j->trial[i] = takes_part(j, i) ? -0.5 * j->g[i] / j->A[i * j->n + i] : 0;
  return promise_along(j, j->trial);
}

// The Gauss-Newton step on the unknowns that no bound holds, and the fall of the loss that it promises.
static double newton_direction(Judge *j) {
  int n = j->n;
  double *A = j->A, *L = j->B, *p = j->d;
  form_normal_matrix(j, A);
  pbJudge_HoldLengths(j, A, NULL);
  j->seen = 0;
  for (int i = 0; i < n; i++) j->seen = fmax(j->seen, rounding * influence(j, i));
  factorize(j, A, L);

  // The loss is r'r: half its gradient is J'r.
  for (int i = 0; i < n; i++) {
    p[i] = takes_part(j, i) ? -0.5 * j->g[i] : 0;
    for (int k = 0; k < i; k++) p[i] -= L[i * n + k] * p[k];
    p[i] /= L[i * n + i];
  }

  // Back substitution with L'.
  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++) p[i] -= L[k * n + i] * p[k];
    p[i] /= L[i * n + i];
  }

  return fmax(promise_along(j, p), promise_downhill(j));
}

// The negative gradient on the unknowns that no bound holds.
static void downhill(Judge *j) {
  for (int i = 0; i < j->n; i++) j->d[i] = held(j, i) ? 0 : -j->g[i];
}

// Largest entry, relative to 1 + |z|, one.
static bool normalize(Judge *j) {
  double most = 0;
  for (int i = 0; i < j->n; i++) most = fmax(most, fabs(j->d[i]) / (1 + fabs(j->z[i])));
  if (!(most > 0)) return false;

  for (int i = 0; i < j->n; i++) j->d[i] /= most;
  return true;
}

// ---- the verdict ----------------------------------------------------------------------------------------------------------
static double gradient_tolerance(const Judge *j) {
  double tolerance = j->task->optimizer.gradient_tolerance;
  return tolerance == 0 ? 1e-9 : tolerance;
}

// Largest entry of z - P(z - g): zero exactly at a point where no bound lets the loss fall.
static double projected_norm(const Judge *j) {
  double worst = 0;
  for (int i = 0; i < j->n; i++) {
    double moved = fmin(fmax(j->z[i] - j->g[i], j->task->lower[i]), j->task->upper[i]);
    worst = fmax(worst, fabs(moved - j->z[i]));
  }

  return worst;
}

static void explain_stall(Judge *j, bool looked, const Line *line) {
  j->verdict->outcome = pb_runStalled;
  if (looked && pbLine_Gain(j, line) > j->negligible)
    pbJudge_Say(
        j, "the search found no better point, though the loss still falls by %.3g along its gradient: its surface is rough there",
        pbLine_Gain(j, line));
  else
    pbJudge_Say(
        j,
        "the search found no better point, and the gradient is not zero: a kink of the loss, or a gradient that is not that of "
        "the loss ('pullback check' tells)");
}

// Looks at the loss along j->d. ended: a jump, or convergence, is the reason.
static pbStatus examine_direction(Judge *j, bool by_gradient, Line *line, bool *ended) {
  bool jump = false;
  PB_TRY(pbJudge_Look(j, line));
  PB_TRY(pbJudge_FindJump(j, line, &jump));
  if (jump) {
    j->verdict->outcome = pb_runStalledAtJump;
    *ended = true;
    return pb_ok;
  }

  // Without a Jacobian nothing was promised: values along the gradient say whether anything is left.
  if (by_gradient && !j->J && pbLine_Gain(j, line) <= j->negligible && pbLine_ParabolaGain(j, line) <= j->negligible) {
    j->verdict->outcome = pb_runConverged;
    pbJudge_Say(j, "along its gradient the loss has no more than a hundred-millionth of itself to lose");
    *ended = true;
  }

  return pb_ok;
}

// The loss could still fall, or its derivatives say so: along Newton's direction first, then along the gradient's.
static pbStatus stalled(Judge *j, double promised) {
  Line line;
  bool looked = false, ended = false;

  for (int by_gradient = 0; by_gradient < 2; by_gradient++) {
    if (!by_gradient && !(j->J && promised > 0)) continue;

    // Newton's step overwrote nothing of the gradient.
    if (by_gradient) downhill(j);
    if (!normalize(j)) continue;
    looked = true;
    PB_TRY(examine_direction(j, by_gradient, &line, &ended));
    if (ended) return pb_ok;
  }

  explain_stall(j, looked, &line);

  return pb_ok;
}

static pbStatus no_influence(Judge *j) {
  char names[400];
  list_names(j, pb_unknownInert, names, sizeof names);
  if (names[0]) pbJudge_Advise(j, "nothing in the loss depends on %s", names);
  if (pbJudge_CountNotes(j, pb_unknownInert) < j->n) return pb_ok;
  j->verdict->outcome = pb_runNoInfluence;
  pbJudge_Say(j, "the loss depends on none of the variables");

  return pb_ok;
}

static bool not_negative(const pbTask *task) {
  for (int t = 0; t < task->trajectory_count; t++) {
    if (!pbTermSet_NotNegative(&task->trajectories[t].terms)) return false;
  }

  return true;
}

// What says that there is nothing to gain, or NULL.
static const char *why_converged(const Judge *j, double promised) {
  if (pbJudge_CountNotes(j, pb_unknownKink) > 0) return NULL;
  if (j->value == 0 && not_negative(j->task)) return "the loss is zero";
  if (projected_norm(j) <= gradient_tolerance(j)) return "the gradient is zero to within its tolerance";
  if (j->J && promised <= j->negligible) return "a full Newton step would gain less than a hundred-millionth of the loss";
  return NULL;
}

static pbStatus judge(Judge *j, bool used_up) {
  note_bounds(j);
  if (j->task->met) {
    j->verdict->outcome = pb_runCriteriaMet;
    pbJudge_Say(j, "the stop criteria are met");
    return pb_ok;
  }

  // Until something better is known.
  PB_TRY(find_derivatives(j));
  j->verdict->outcome = used_up ? pb_runIterationLimit : pb_runStalled;
  pbJudge_Say(j, used_up ? "the iterations are used up" : "no gradient can be had at the answer: %s",
              pbContext_Error(j->task->ctx));

  // Without a gradient there is nothing more to find out.
  if (!j->smooth) return pb_ok;

  pbJudge_TellDelays(j);
  PB_TRY(pbJudge_FindInert(j));
  PB_TRY(no_influence(j));
  if (j->verdict->outcome == pb_runNoInfluence) return pb_ok;

  // Before Newton's direction, which takes the same memory.
  pbJudge_FindUndetermined(j);
  double promised = j->J ? newton_direction(j) : -1;
  const char *why = why_converged(j, promised);
  if (why) {
    j->verdict->outcome = pb_runConverged;
    pbJudge_Say(j, "%s", why);
    return pb_ok;
  }

  if (used_up) return pb_ok;
  if (pbJudge_CountNotes(j, pb_unknownKink) > 0) {
    j->verdict->outcome = pb_runStalled;
    pbJudge_Say(j, "the gradient is zero at a kink or bound, and the loss falls beside it");
    return pb_ok;
  }

  return stalled(j, promised);
}

// What nothing more can be gained from, or seems so, is looked at sideways.
static pbStatus judge_sideways(Judge *j) {
  bool found;
  pbRunOutcome outcome = j->verdict->outcome;
  return outcome == pb_runConverged || outcome == pb_runStalled ? pbJudge_FindSaddle(j, &found) : pb_ok;
}

// Notes of results are of values, and a body's mass or moment is none of the unknowns that were looked at.
static void forget_coordinates(pbTask *task) {
  for (int k = 0; k < task->variable_count; k++) {
    const pbVariable *v = &task->variables[k];
    if (v->kind == pb_varyInertia) memset(task->verdict.notes + v->first, 0, (size_t)v->count);
  }
}

pbStatus pbTask_Judge(pbTask *task, bool used_up) {
  Judge j = {.task = task, .verdict = &task->verdict, .z = task->result_z, .n = task->n};
  pbVerdict *v = &task->verdict;

  memset(v->notes, 0, (size_t)task->n);
  *v = (pbVerdict){.notes = v->notes, .direction = v->direction, .beside = v->beside};
  pbStatus status = judge(&j, used_up);
  if (status == pb_ok && j.smooth) status = judge_sideways(&j);
  forget_coordinates(task);

  // All memory of the verdict.
  double *all[] = {j.g, j.trial, j.d, j.J, j.A, j.B, j.D, j.residuals, j.look};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(task->ctx, all[i]);

  return status;
}
