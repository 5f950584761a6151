// The check of a model's derivatives, the gradient doctor: a short rollout, its derivatives tested from several sides, and in
// words what is wrong, where and why (pullback/check.h says which tests there are).
// Tests: tests/oracle/test_check.py, tests/unit/test_check.c.
#include "check/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"

const char pb_solverTest[] = "solver converged", pb_finiteTest[] = "derivatives exist";

// ---- tests, findings -----------------------------------------------------------------------------------------------

pbWords pbWords_Of(const char *format, ...) {
  pbWords words;
  va_list args;
  va_start(args, format);
  vsnprintf(words.text, sizeof words.text, format, args);
  va_end(args);
  return words;
}

pbCheckTest *pbCheck_AddTest(const pbCheck *d, const char *name, double limit) {
  pbCheckReport *r = d->report;

  // one that an earlier run has begun goes on
  for (pbCheckTest *t = r->test; t < r->test + r->test_count; t++) {
    if (strcmp(t->name, name) != 0) continue;
    t->limit = limit;
    return t;
  }

  // full only where a forged point has tests of other names
  pbCheckTest *t = &r->test[r->test_count < PB_CHECK_TESTS ? r->test_count++ : PB_CHECK_TESTS - 1];
  *t = (pbCheckTest){.limit = limit, .step = -1, .holds = true};
  snprintf(t->name, sizeof t->name, "%s", name);
  return t;
}

void pbCheck_AddFinding(const pbCheck *d, const char *what, const char *where, const char *why, ...) {
  pbCheckReport *r = d->report;
  if (r->finding_count == PB_CHECK_FINDINGS) return;
  pbCheckFinding *f = &r->finding[r->finding_count++];
  snprintf(f->what, sizeof f->what, "%s", what);
  snprintf(f->where, sizeof f->where, "%s", where);

  va_list args;
  va_start(args, why);
  vsnprintf(f->why, sizeof f->why, why, args);
  va_end(args);
}

void pbCheck_Fail(pbCheckTest *t) {
  if (t->holds) t->words[0] = 0;
  t->holds = false;
}

void pbCheck_CountCase(pbCheckTest *t, double error, int step) {
  t->tried++;
  if (!(error <= t->limit)) pbCheck_Fail(t);

  // the first case counts whatever it is, then the worst; NaN is worse than any number
  if (t->tried > 1 && !(error > t->worst) && !isnan(error)) return;
  t->worst = isnan(error) ? (double)NAN : error;  // without a sign
  t->step = step;
}

// Is a remark one of those that stand there, "before: remark; remark"?
static bool is_told(const char *words, const char *before, const char *remark) {
  size_t n = strlen(remark), first = strncmp(words, before, strlen(before)) == 0 ? strlen(before) : 0;
  for (const char *at = words + first;; at += 2) {
    const char *end = strstr(at, "; ");
    if ((end ? (size_t)(end - at) : strlen(at)) == n && strncmp(at, remark, n) == 0) return true;
    if (!end) return false;
    at = end;
  }
}

void pbCheck_AddWords(pbCheckTest *t, const char *before, const char *format, ...) {
  char text[sizeof t->words];
  size_t used = strlen(t->words);
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);

  // whole remarks or none
  const char *joint = used ? "; " : before;
  if (!is_told(t->words, before, text) && used + strlen(joint) + strlen(text) < sizeof t->words)
    snprintf(t->words + used, sizeof t->words - used, "%s%s", joint, text);
}

void pbCheck_LeaveOut(pbCheckTest *t, const char *name, const char *why, int step) {
  t->skipped++;
  if (!t->holds) return;

  const char *joint = step >= 0 ? ", " : " ";
  pbWords place = step >= 0 ? pbWords_Of("step %d: ", step) : (pbWords){{0}};
  pbCheck_AddWords(t, "left out: ", "%s%s%s%s", name ? name : "", name ? joint : "", place.text, why);
}

// ---- on the way ----------------------------------------------------------------------------------------------------

// pb_ok, or what has ended the check.
static pbStatus say_end(const pbCheck *d) {
  const pbProgressMeter *m = &d->meter;
  if (d->ended == pb_ok) return pb_ok;

  const char *what = d->ended == pb_interrupted ? "interrupted in" : "no memory for a step of";
  return pbContext_Fail(d->r->ctx, d->ended, "%s the check: %s, %lld of %lld", what, m->phase, (long long)m->done,
                        (long long)m->total);
}

pbStatus pbCheck_GoOn(pbCheck *d, const char *part, int done, int all) {
  if (d->ended == pb_ok && pbProgressMeter_At(&d->meter, part, done, all)) d->ended = pb_interrupted;
  return say_end(d);
}

bool pbCheck_Stops(pbCheck *d) {
  const pbProgressMeter *m = &d->meter;
  if (d->ended == pb_ok && pbProgressMeter_At(&d->meter, m->phase, m->done, m->total)) d->ended = pb_interrupted;
  return d->ended != pb_ok;
}

void pbCheck_NoteFailure(pbCheck *d, pbStatus status) {
  if (d->ended == pb_ok && status == pb_no_memory) d->ended = status;
}

int pbCheck_Integer(const pbModel *model, const char *name, int row) {
  pbField f;
  bool known = pbModel_Field(model, name, &f) && f.integers && row >= 0 && row < f.rows;
  return known ? f.integers[row] : -1;
}

// ---- the rollout ---------------------------------------------------------------------------------------------------

// Controls that make the model move: inside their ranges where they have one.
static void draw_controls(pbCheck *d) {
  const pbRollout *r = d->r;
  pbField limited;
  pbParam range;

  bool known = pbModel_Field(r->model, "actuator_ctrllimited", &limited) &&
               pbModel_Param(r->ctx, r->model, "actuator_ctrlrange", &range) == pb_ok;
  for (int k = 0; k < d->steps; k++) {
    for (int i = 0; i < r->nu; i++) {
      double *control = d->control + (size_t)k * (size_t)r->nu + (size_t)i, low = -1, high = 1;
      // actuators of deformables have no range: stay near what was set
      if (known && i >= limited.rows) {
        low = *control - 0.1 * fabs(*control) - 0.01 * (*control == 0);
        high = *control + 0.1 * fabs(*control) + 0.01 * (*control == 0);
      } else if (known && limited.integers[i]) {
        low = d->theta[range.offset + 2 * (size_t)i];
        high = d->theta[range.offset + 2 * (size_t)i + 1];
      }

      *control = low + (high - low) * pbRng_Uniform(&d->rng);
    }
  }
}

// Rest is a special state: many kinks (friction, polynomial damping) lie there.
static void draw_velocity(pbCheck *d) {
  const pbRollout *r = d->r;
  double *velocity = d->direction.of[by_state] + r->nv, *of_points = velocity + r->nv + r->na + r->np;

  // of bodies and of deformables' points
  pbVectors_Clear(&d->direction);
  for (int i = 0; i < r->nv; i++) velocity[i] = pbRng_Normal(&d->rng);
  for (int i = 0; i < r->np; i++) of_points[i] = pbRng_Normal(&d->rng);

  pbState_Move(r->model, d->states, d->direction.of[by_state], 0.01);
}

// What each step of the rollout was like.
static void watch_step(void *watcher, pbScratch *scratch) {
  pbCheck *d = watcher;
  PB_ASSERT(d->watched < d->steps);
  pbStatus status = pbTrace_Of(d->r->model, scratch, &d->traces[d->watched]);
  if (status != pb_ok) pbCheck_NoteFailure(d, status);
  d->reports[d->watched++] = pbScratch_Report(scratch);
}

static pbStatus record_rollout(pbCheck *d) {
  pbRollout *r = d->r;
  memcpy(d->x, d->states, (size_t)r->nx * sizeof *d->x);
  r->watch = watch_step;
  r->watcher = d;
  pbRollout_OnProgress(r, d->options->progress, d->options->user);
  pbStatus status = pbRollout_Forward(r, d->theta, d->x, &d->input, &(pbRolloutOutput){.states = d->states});
  r->watch = NULL;
  pbRollout_OnProgress(r, NULL, NULL);

  // its solver and contacts, should there be no gradient
  d->report->certificate = r->forward;
  return status;
}

// ---- the whole -----------------------------------------------------------------------------------------------------

static pbStatus run_tests(pbCheck *d) {
  PB_TRY(pbCheck_Steps(d));
  PB_TRY(pbCheck_Slopes(d));
  if (d->options->at_start) PB_TRY(pbCheck_AtStart(d));
  PB_TRY(pbCheck_TaylorRemainders(d));
  PB_TRY(pbCheck_Mode(d));

  // moves that were not made say nothing
  return say_end(d);
}

// A derivative that does not exist ends the tests, not the report.
static pbStatus test_derivatives(pbCheck *d) {
  pbStatus status = run_tests(d);

  // other failures (memory, arguments) are the check's own
  bool numerical = status != pb_ok && pbStatus_ExitCode(status) == pbStatus_ExitCode(pb_not_finite);

  pbCheckTest *t = pbCheck_AddTest(d, pb_finiteTest, 0);
  pbCheck_CountCase(t, status == pb_ok ? 0 : 1, -1);

  if (!numerical) return status;

  pbCheck_AddFinding(d, "no derivative", "the step named here", "%s. What comes after it was not tested.",
                     pbContext_Error(d->r->ctx));
  return pb_ok;
}

static void summarize(const pbCheck *d) {
  pbCheckReport *report = d->report;
  report->steps = d->steps;
  report->holds = true;
  for (int i = 0; i < report->test_count; i++) report->holds = report->holds && report->test[i].holds;

  for (int k = 0; k < report->steps; k++) {
    if (d->traces[k].contacts > report->most_contacts) report->most_contacts = d->traces[k].contacts;
  }
}

static void lay_out(pbArena *a, void *check) {
  pbCheck *d = check;
  const pbRollout *r = d->r;
  size_t steps = (size_t)d->steps, nx = (size_t)r->nx, widths[seen_count] = {(size_t)r->n, (size_t)r->ns};
  size_t size[by_count], real = sizeof(double);

  d->control = pbArena_Take(a, steps * (size_t)r->nu, real);
  d->states = pbArena_Take(a, (steps + 1) * nx, real);
  d->traces = pbArena_Take(a, steps, sizeof *d->traces);
  d->reports = pbArena_Take(a, steps, sizeof *d->reports);
  d->x = pbArena_Take(a, nx, real);
  d->theta_near = pbArena_Take(a, r->ntheta, real);
  d->moved_states = pbArena_Take(a, (steps + 1) * nx, real);
  pbMoved_LayOut(a, &d->moved);

  // by state, control, poses and parameters
  pbVectors_Widths(r, size);
  for (pbBy part = by_ctrl; part < by_theta; part++) {
    bool moves = part == by_ctrl || part == by_mocap_pos || part == by_mocap_rot;
    size[part] *= moves ? steps : 0;
  }
  pbVectors_LayOut(a, size, &d->direction);
  for (int k = 0; k < seen_count; k++) {
    d->rows[k] = pbArena_Take(a, (steps + 1) * (k == in_states ? nx : widths[k]), real);
    d->w[k] = pbArena_Take(a, (steps + 1) * widths[k], real);
    d->tangent[k] = pbArena_Take(a, (steps + 1) * widths[k], real);
    pbVectors_LayOut(a, size, &d->bar[k]);
  }
}

static pbStatus allocate(pbCheck *d, pbContext *ctx, const pbModel *model) {
  pbRolloutPlan plan;
  PB_TRY(pbRollout_Plan(ctx, model, d->steps, 0, &plan));
  PB_TRY(pbRollout_Create(ctx, model, &plan, NULL, &d->r));
  PB_TRY(pbScratch_Create(ctx, model, NULL, &d->scratch));
  d->moved = (pbMoved){.r = d->r, .model = model, .scratch = d->scratch};

  d->memory = pbArena_Make(ctx, lay_out, d);
  return d->memory ? pb_ok : pbContext_Fail(ctx, pb_no_memory, "no memory for the check");
}

static pbStatus examine_rollout(pbCheck *d, const double *x0, const pbRolloutInput *input) {
  const pbRollout *r = d->r;

  // what is drawn is the check's own
  memcpy(d->states, x0, (size_t)r->nx * sizeof *x0);
  if (input->ctrl) memcpy(d->control, input->ctrl, (size_t)d->steps * (size_t)r->nu * sizeof *x0);
  d->input = *input;
  d->input.ctrl = d->control;
  if (d->options->random_controls) draw_controls(d);
  if (d->options->random_velocity) draw_velocity(d);

  // the numbers, then what they mean
  PB_TRY(record_rollout(d));
  PB_TRY(pbCheck_TakeUp(d));
  PB_TRY(test_derivatives(d));

  pbCheck_SolverFindings(d);
  pbCheck_FailureFindings(d);
  pbCheck_GrowthFindings(d);
  pbCheck_PenetrationFindings(d);
  pbCheck_ContactFindings(d);
  PB_TRY(pbCheck_TieFindings(d));
  summarize(d);
  return pb_ok;
}

// ---- the call ------------------------------------------------------------------------------------------------------

static pbStatus check_arguments(pbContext *ctx, const pbModel *model, const double *theta, const double *x0,
                                const pbRolloutInput *input, const pbCheckOptions *options) {
  const struct {
    const char *name;
    const void *given;
  } needed[] = {{"model", model}, {"theta", theta}, {"x0", x0}};
  for (int i = 0; i < 3; i++) {
    if (!needed[i].given) return pbContext_Fail(ctx, pb_bad_argument, "check: %s is NULL", needed[i].name);
  }
  if (options->steps < 1 || options->steps > PB_CHECK_STEPS)
    return pbContext_Fail(ctx, pb_bad_argument, "check: %d steps; expected 1 to %d", options->steps, PB_CHECK_STEPS);
  if (!pbGradientKind_Name(options->mode))
    return pbContext_Fail(ctx, pb_bad_argument, "check: mode %d is no kind of gradient", (int)options->mode);
  if (input->constant)
    return pbContext_Fail(ctx, pb_bad_argument, "check: constant inputs; expected a row for each of the %d steps",
                          options->steps);
  return pb_ok;
}

pbStatus pbCheck_GoOnFrom(pbContext *ctx, const pbModel *model, const double *theta, const double *x0,
                          const pbRolloutInput *input, const pbCheckOptions *options, pbCheckPoint *point,
                          pbCheckReport **report) {
  pbCheckOptions chosen = options ? *options : (pbCheckOptions){0};
  pbRolloutInput given = input ? *input : (pbRolloutInput){0};
  *report = NULL;
  if (!chosen.steps) chosen.steps = 20;
  PB_TRY(check_arguments(ctx, model, theta, x0, &given, &chosen));

  pbCheck d = {.options = &chosen,
               .steps = chosen.steps,
               .point = point,
               .meter = {.function = chosen.progress, .user = chosen.user},
               .rng = pbRng_Seed(chosen.seed),
               .theta = theta,
               .noise = {.time = INFINITY, .step = -1}};
  d.report = pbContext_Alloc(ctx, sizeof *d.report);
  if (!d.report) return pbContext_Fail(ctx, pb_no_memory, "no memory for the check");

  // moves may leave what the program can step, which is no error of the check
  char text[PB_ERROR_TEXT];
  snprintf(text, sizeof text, "%s", pbContext_Error(ctx));
  pbStatus status = allocate(&d, ctx, model);
  if (status == pb_ok) status = examine_rollout(&d, x0, &given);
  if (status == pb_ok) status = pbContext_Fail(ctx, pb_ok, "%s", text);

  pbScratch_Destroy(d.scratch);
  pbRollout_Destroy(d.r);
  pbContext_Free(ctx, d.memory);
  if (status == pb_ok) *report = d.report;
  else pbContext_Free(ctx, d.report);
  return status;
}

pbStatus pbCheck_Run(pbContext *ctx, const pbModel *model, const double *theta, const double *x0, const pbRolloutInput *input,
                     const pbCheckOptions *options, pbCheckReport **report) {
  return pbCheck_GoOnFrom(ctx, model, theta, x0, input, options, NULL, report);
}

void pbCheckReport_Free(pbContext *ctx, pbCheckReport *report) { pbContext_Free(ctx, report); }
