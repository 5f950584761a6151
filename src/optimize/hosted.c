// Terms of a loss that the host computes: what its function sees, and where its slopes go. Tests: tests/unit/test_task_terms.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/mutate.h"
#include "model/model.h"
#include "optimize/task.h"

static const char *const names[pb_quantityCount] = {"qpos",   "qvel",           "act",    "sensordata", "xpos", "site_xpos",
                                                    "points", "point_velocity", "control"};

static int width_of(const pbTermSet *s, pbQuantity q) {
  switch (q) {
    case pb_observedQpos: return s->model->nq;
    case pb_observedQvel: return s->nv;
    case pb_observedAct: return s->na;
    case pb_observedSensor: return s->ns;
    case pb_observedBody: return 3 * s->nbody;
    case pb_observedSite: return 3 * s->nsite;
    case pb_observedPoints:
    case pb_observedPointVelocity: return s->np;
    default: return s->nu;
  }
}

// Rows of each quantity that it sees, then those of their slopes.
static void divide(pbTermSet *s, const pbTerm *t, pbHosted *h) {
  double *next = h->memory;  // of each: step_count x width values, step_count x bar_width slopes
  for (int q = 0; q < pb_quantityCount; q++) {
    if (!h->sees[q]) continue;
    pbLossRows *rows = &h->rows[h->row_count];
    h->quantity[h->row_count++] = (pbQuantity)q;

    // A quaternion has four numbers and three slopes.
    *rows = (pbLossRows){.name = names[q], .width = width_of(s, (pbQuantity)q), .value = next};
    rows->bar_width = q == pb_observedQpos ? s->nv : rows->width;
    rows->bar = next + (size_t)t->step_count * (size_t)rows->width;
    next = rows->bar + (size_t)t->step_count * (size_t)rows->bar_width;
  }
}

pbStatus pbHosted_SetUp(pbTermSet *s, pbTerm *t) {
  pbHosted *h = t->hosted;
  PB_ASSERT(t->step_count > 0 && h->row_count == 0);

  // As many numbers as slopes at most, in one piece.
  size_t width = 0, states = (size_t)t->step_count;
  for (int q = 0; q < pb_quantityCount; q++) width += h->sees[q] ? 2 * (size_t)width_of(s, (pbQuantity)q) : 0;
  if ((double)states * (double)width > 3e7) return pbContext_Fail(s->ctx, pb_capacity, "too many numbers for a function");

  h->memory = pbContext_AllocArray(s->ctx, states * width + 1, sizeof *h->memory);
  h->time = pbContext_AllocArray(s->ctx, states + 1, sizeof *h->time);
  if (!h->memory || !h->time) return pbContext_Fail(s->ctx, pb_no_memory, "no memory for a term");

  // Finer runs look at the same times.
  for (int k = 0; k < t->step_count; k++) h->time[k] = t->steps[k] * s->timestep;
  divide(s, t, h);

  return pb_ok;
}

void pbHosted_Free(pbContext *ctx, pbHosted *h) {
  if (!h) return;
  void *all[] = {h->name, h->memory, h->time, h};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

// Row of the set that holds a state that the term looks at.
static int next_row(const pbTermSet *s, int row, int step) {
  while (s->rows[row] < step) row++;
  PB_ASSERT(row < s->row_count && s->rows[row] == step);
  return row;
}

static void gather(const pbTermSet *s, const pbTerm *t, const double *ctrl) {
  const pbHosted *h = t->hosted;
  for (int i = 0; i < h->row_count; i++) {
    size_t width = (size_t)h->rows[i].width;
    double *to = h->rows[i].bar - (size_t)t->step_count * width;  // its values stand before its slopes
    memset(h->rows[i].bar, 0, (size_t)t->step_count * (size_t)h->rows[i].bar_width * sizeof *to);

    for (int k = 0, row = 0; k < t->step_count; k++, to += width) {
      row = next_row(s, row, t->steps[k]);
      const double *from = pbTermSet_Observed(s, h->quantity[i], row, t->steps[k], ctrl);
      if (from) memcpy(to, from, width * sizeof *to);
      else memset(to, 0, width * sizeof *to);
    }
  }
}

static void scatter(const pbTermSet *s, const pbTerm *t, double *ctrl_bar) {
  const pbHosted *h = t->hosted;
  for (int i = 0; i < h->row_count; i++) {
    const double *from = h->rows[i].bar;
    int width = h->rows[i].bar_width;
    PB_MUTE(pb_muteHosted, h->quantity[i], h->rows[i].bar, t->step_count * width);

    for (int k = 0, row = 0; k < t->step_count; k++, from += width) {
      row = next_row(s, row, t->steps[k]);
      double *to = pbTermSet_BarRow(s, h->quantity[i], row, t->steps[k], ctrl_bar);
      int wanted = to ? width : 0;
      for (int c = 0; c < wanted; c++) to[c] += t->weight * from[c];
    }
  }
}

static bool fail(pbTermSet *s, const pbTerm *t, pbStatus status, const char *why) {
  s->failure = status;
  snprintf(s->fault, sizeof s->fault, "term '%.60s': %.160s", t->name, why);
  return false;
}

bool pbHosted_Value(pbTermSet *s, pbTerm *t, const double *ctrl, bool pull, double *ctrl_bar) {
  const pbHosted *h = t->hosted;
  if (!h->call) return fail(s, t, pb_bad_argument, "it is a function of the program that runs the task, which gives none");
  gather(s, t, ctrl);

  // Slopes are hidden where nobody wants them.
  pbLossRows rows[pb_quantityCount];
  memcpy(rows, h->rows, sizeof rows);
  for (int i = 0; i < h->row_count; i++) rows[i].bar = pull ? rows[i].bar : NULL;

  // The host says why it failed, or the status alone does.
  char why[160] = "";
  pbLossView view = {h->name, h->trajectory, t->step_count, h->time, rows, h->row_count, why};
  double value = NAN;
  pbStatus status = h->call(h->user, &view, &value);
  if (status != pb_ok) return fail(s, t, status, why[0] ? why : pbStatus_Text(status));

  // Without a value a search steps back from here; slopes are not looked at.
  if (!isfinite(value)) return fail(s, t, pb_not_finite, isnan(value) ? "its value is NaN" : "its value is infinite");

  t->value = t->weight * value;
  t->deviation = fabs(value);
  PB_ASSERT(t->deviation >= 0);
  if (pull) scatter(s, t, ctrl_bar);
  return true;
}
