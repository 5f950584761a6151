// A jump of the loss beside an answer: found on a line by values alone, narrowed by bisection, and explained by the first contact
// in which runs on both of its sides differ.
// Tests: tests/unit/test_verdict.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "model/model.h"
#include "optimize/optimizer.h"
#include "optimize/verdict.h"

enum {
  BISECTIONS = 40,
  MOST_PAIRS = 4096,  // contacts compared in a step
};

// The point at t along d, within the bounds.
static void point_along(const Judge *j, double t, double *z) {
  for (int i = 0; i < j->n; i++) z[i] = fmin(fmax(j->z[i] + t * j->d[i], j->task->lower[i]), j->task->upper[i]);
}

pbStatus pbJudge_Look(Judge *j, Line *line) {
  line->slope = pbVec_Dot(j->g, j->d, j->n);

  // Powers of ten, shortest first.
  for (int k = 0; k < DECADES; k++) {
    line->at[k] = pbPow(10, k + 1 - DECADES - 2);
    point_along(j, line->at[k], j->trial);
    PB_TRY(pbJudge_Value(j, j->trial, &line->value[k]));
  }

  return pb_ok;
}

// Largest decrease along the line.
double pbLine_Gain(const Judge *j, const Line *line) {
  double best = 0;
  for (int k = 0; k < DECADES; k++) best = fmax(best, j->value - line->value[k]);
  return best;
}

// What the parabola through the values promises: slope^2 / 2 curvature, where two neighbours agree on the curvature.
double pbLine_ParabolaGain(const Judge *j, const Line *line) {
  // From the longest step on: rounding counts least there.
  double before = 0;
  for (int k = DECADES - 1; k >= 0; k--) {
    // value = f + slope t + curvature t^2 / 2
    double t = line->at[k], curvature = 2 * (line->value[k] - j->value - line->slope * t) / (t * t);
    if (!(fabs(line->value[k] - j->value) > 1e3 * j->noise)) return INFINITY;
    if (curvature > 0 && before > 0.5 * curvature && before < 2 * curvature) return line->slope * line->slope / (2 * curvature);
    before = curvature;
  }

  return INFINITY;
}

// ---- jumps --------------------------------------------------------------------------------------------------------------
// The first stretch of the line on which the loss changes out of all proportion to its slope.
static bool suspect_jump(const Judge *j, const Line *line, double *low, double *high) {
  double t = 0, value = j->value, steep = fabs(line->slope);
  for (int k = 0; k < DECADES; k++) {
    // A jump changes the loss by far more than the slope over the stretch explains.
    double dt = line->at[k] - t, change = fabs(line->value[k] - value);
    if (isfinite(line->value[k]) && change > 100 * steep * dt + 1e3 * j->noise + 1e-9 * fabs(j->value)) {
      *low = t;
      *high = line->at[k];
      return true;
    }

    // Steeper than the gradient said, but by a slope: what counts from here on.
    if (!isfinite(line->value[k])) return false;
    if (dt > 0 && change > 1e3 * j->noise) steep = fmax(steep, change / dt);
    t = line->at[k];
    value = line->value[k];
  }

  return false;
}

// Bisects towards where the loss changes most; *jump: the change that stays, 0: none.
static pbStatus bisect_jump(Judge *j, double *low, double *high, double *jump) {
  PB_ASSERT(*low < *high);
  double first, last, middle;
  point_along(j, *low, j->trial);
  PB_TRY(pbJudge_Value(j, j->trial, &first));
  point_along(j, *high, j->trial);
  PB_TRY(pbJudge_Value(j, j->trial, &last));

  // The change over the whole stretch; what is left of it in the end is the jump.
  double whole = fabs(last - first);

  for (int i = 0; i < BISECTIONS; i++) {
    double t = 0.5 * (*low + *high);
    if (!(t > *low && t < *high) || *high - *low < 1e-15) break;

    point_along(j, t, j->trial);
    PB_TRY(pbJudge_Value(j, j->trial, &middle));
    if (fabs(last - middle) > fabs(middle - first)) {
      *low = t;
      first = middle;
    } else {
      *high = t;
      last = middle;
    }
  }

  // A steep slope would have shrunk with the stretch.
  *jump = last - first;
  if (!isfinite(*jump) || fabs(*jump) < 0.1 * whole || fabs(*jump) < 1e3 * j->noise) *jump = 0;
  return pb_ok;
}

// ---- the contact behind a jump --------------------------------------------------------------------------------------------
typedef struct Side {                     // one of two runs side by side
  double *theta, *x, *ctrl, *pos, *quat;  // pos, quat: of mocap bodies; NULL: the model's
  pbScratch *scratch;
} Side;

static void end_side(Judge *j, Side *side) {
  pbScratch_Destroy(side->scratch);
  pbContext_Free(j->task->ctx, side->theta);
  pbContext_Free(j->task->ctx, side->x);
  pbContext_Free(j->task->ctx, side->ctrl);
  pbContext_Free(j->task->ctx, side->pos);
  pbContext_Free(j->task->ctx, side->quat);
}

static pbStatus begin_side(Judge *j, double t, int trajectory, Side *side) {
  const pbModel *m = pbTask_Model(j->task);
  size_t controls = (size_t)pbTask_Steps(j->task, trajectory) * (size_t)pb_controls(m);

  point_along(j, t, j->trial);
  PB_TRY(pbJudge_Allocate(j, j->task->ntheta, &side->theta));
  PB_TRY(pbJudge_Allocate(j, (size_t)pbModel_StateSize(m), &side->x));
  PB_TRY(pbJudge_Allocate(j, controls, &side->ctrl));

  // What the unknowns at t mean: parameters, state, controls.
  PB_TRY(pbTask_Expand(j->task, j->trial, trajectory, side->theta, side->x, side->ctrl));

  size_t poses = (size_t)pbTask_Steps(j->task, trajectory) * pbPoses_Numbers(j->task, &j->task->trajectories[trajectory]) / 13;
  bool given;
  if (poses) {
    PB_TRY(pbJudge_Allocate(j, 3 * poses, &side->pos));
    PB_TRY(pbJudge_Allocate(j, 4 * poses, &side->quat));
    PB_TRY(pbTask_Poses(j->task, j->trial, trajectory, side->pos, side->quat, &given));
  }

  return pbScratch_Create(j->task->ctx, m, NULL, &side->scratch);
}

// How often the pair touches in the step that scratch has just done.
static int touches(const double *pairs, int count, const double *pair) {
  int found = 0;
  for (int i = 0; i < count; i++) found += pairs[2 * i] == pair[0] && pairs[2 * i + 1] == pair[1];
  return found;
}

static int contacts_of(const Side *side, const double **pairs) {
  int rows = 0, cols = 0;
  *pairs = NULL;
  return pbScratch_Field(side->scratch, "contact_geom", pairs, &rows, &cols) && cols == 2 ? rows : 0;
}

// A pair that `more` has and `less` has not, or not as often.
static bool has_more_contacts(const Side *more, const Side *less, int pair[2]) {
  const double *a, *b;
  int na = contacts_of(more, &a), nb = contacts_of(less, &b);

  for (int i = 0; i < na && i < MOST_PAIRS; i++) {
    // Pairs may touch at several points: counts are compared.
    if (touches(a, na, a + 2 * i) <= touches(b, nb, a + 2 * i)) continue;
    pair[0] = (int)a[2 * i];
    pair[1] = (int)a[2 * i + 1];

    return true;
  }

  return false;
}

static const char *geom_name(const pbModel *m, int geom, char *text, size_t size) {
  // Points of deformables have numbers beyond the geoms.
  const char *name = geom >= 0 && geom < pbModel_Size(m, "ngeom") ? pbModel_Name(m, pb_objGeom, geom) : NULL;
  if (name && *name) snprintf(text, size, "geom '%s'", name);
  else snprintf(text, size, "geom %d", geom);
  return text;
}

// What the first step in which the runs on both sides differ says; "" where they never do.
static void compare_step(Judge *j, int trajectory, int step, const Side *a, const Side *b, char *text, size_t size) {
  const pbModel *m = pbTask_Model(j->task);
  int pair[2], steps = pbTask_Steps(j->task, trajectory);
  pbReport before = pbScratch_Report(a->scratch), after = pbScratch_Report(b->scratch);
  bool begins = has_more_contacts(b, a, pair), ends = !begins && has_more_contacts(a, b, pair);
  char first[120], second[120], where[40] = "";

  // Named only where there are several.
  if (pbTask_TrajectoryCount(j->task) > 1) snprintf(where, sizeof where, " of trajectory %d", trajectory);
  if (begins || ends) {
    snprintf(text, size, "contact of %s and %s %s at step %d of %d%s", geom_name(m, pair[0], first, sizeof first),
             geom_name(m, pair[1], second, sizeof second), begins ? "begins" : "ends", step, steps, where);
  } else if (before.rows != after.rows) {
    snprintf(text, size, "a limit or another constraint %s at step %d of %d%s", after.rows > before.rows ? "begins" : "ends",
             step, steps, where);
  }
}

// Both runs side by side up to the first step in which they differ.
static pbStatus step_both(Judge *j, int trajectory, Side sides[2], char *text, size_t size) {
  const pbModel *m = pbTask_Model(j->task);
  int nu = pb_controls(m);

  for (int k = 0; k < pbTask_Steps(j->task, trajectory); k++) {
    // Each from its own state, with its own parameters and controls.
    for (int s = 0; s < 2; s++) {
      pbInput input = {.ctrl = sides[s].ctrl + (size_t)k * (size_t)nu};
      if (sides[s].pos) input.mocap_pos = sides[s].pos + 3 * (size_t)(k * m->nmocap);
      if (sides[s].quat) input.mocap_quat = sides[s].quat + 4 * (size_t)(k * m->nmocap);
      pbStatus status;

      do {
        status = pbStep_Forward(m, sides[s].theta, sides[s].x, &input, sides[s].scratch, NULL);
      } while (pbScratch_Grow(sides[s].scratch, &status));
      if (status != pb_ok) return pb_ok;
    }

    // Contacts are copied on demand.
    for (int s = 0; s < 2; s++) PB_TRY(pbScratch_Gather(sides[s].scratch));
    compare_step(j, trajectory, k, &sides[0], &sides[1], text, size);
    if (*text) break;
  }

  return pb_ok;
}

// From both ends of the stretch that holds the jump.
static pbStatus find_contact(Judge *j, double low, double high, char *text, size_t size) {
  text[0] = 0;
  for (int t = 0; t < pbTask_TrajectoryCount(j->task); t++) {
    // Fresh runs: the rollouts of the task stay as they are.
    if (pbTask_IsTest(j->task, t)) continue;
    Side sides[2] = {{0}};
    pbStatus status = begin_side(j, low, t, &sides[0]);

    if (status == pb_ok) status = begin_side(j, high, t, &sides[1]);
    if (status == pb_ok) status = step_both(j, t, sides, text, size);
    end_side(j, &sides[0]);
    end_side(j, &sides[1]);
    if (status != pb_ok && !pbJudge_IsSoft(status)) return status;
    if (*text) break;
  }

  return pb_ok;
}

pbStatus pbJudge_FindJump(Judge *j, const Line *line, bool *found) {
  double low, high, jump = 0;
  char contact[320];

  *found = false;
  if (!suspect_jump(j, line, &low, &high)) return pb_ok;
  PB_TRY(bisect_jump(j, &low, &high, &jump));
  if (jump == 0) return pb_ok;

  PB_TRY(find_contact(j, low, high, contact, sizeof contact));

  // Found by values; the contact, where there is one, explains it.
  *found = true;
  pbJudge_Say(j, "the loss jumps by %.3g%s%s beside the answer, and no derivative sees a jump", jump, contact[0] ? " where " : "",
              contact);
  pbJudge_Advise(
      j,
      "try a smoothed contact first (\"contact\": {\"kappa\": 1000, \"onset\": 0.02}, then smaller) and go on sharp from its "
      "answer; or \"restarts\", or method cmaes (docs/stuck.md, A jump)");

  return pb_ok;
}
