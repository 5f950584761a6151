// Loss of a task, its gradient and its residuals, over all trajectories. Terms of the loss: terms.c; unknowns: variables.c.
// Tests: tests/unit/test_task.c.
#include "optimize/task.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/model.h"

static void free_trajectory(pbContext *ctx, pbTrajectory *tr) {
  pbTermSet_Free(&tr->terms);
  pbTrajectory_Free(tr);
  pbPoses_Free(ctx, &tr->poses);
  pbRecorded_Destroy(ctx, tr->recorded);

  // The trajectory's own arrays; terms and rollout have freed theirs.
  void *all[] = {tr->x0,       tr->ctrl,    tr->x0_now,      tr->ctrl_now,   tr->x0_bar, tr->ctrl_bar,
                 tr->x0_world, tr->command, tr->delay_slope, tr->given.step, tr->given.x};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

void pbTask_DropTrajectory(const pbTask *task, pbTrajectory *tr) {
  free_trajectory(task->ctx, tr);
  *tr = (pbTrajectory){.terms.ctx = task->ctx};
}

static void free_variable(pbContext *ctx, pbVariable *v) {
  int followers = v->followers ? v->index_count : 0;
  for (int k = 0; k < followers; k++) pbFollower_Free(ctx, &v->followers[k]);

  void *all[] = {v->name, v->index, v->rows, v->followers, v->term};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

void pbTask_FreeStarts(pbTask *task) {
  if (task->starts) pbContext_Free(task->ctx, task->starts[0].z);
  pbContext_Free(task->ctx, task->starts);
  task->starts = NULL;
}

static void free_stages(pbTask *task) {
  int count = task->stages ? task->stage_count : 0;
  for (int k = 0; k < count; k++) pbContext_Free(task->ctx, task->stages[k].name);
  pbContext_Free(task->ctx, task->stages);
}

void pbTask_Destroy(pbTask *task) {
  if (!task) return;
  pbContext *ctx = task->ctx;

  // Also of a task that was left half read.
  if (task->trajectories) {
    for (int t = 0; t < task->trajectory_count; t++) free_trajectory(ctx, &task->trajectories[t]);
  }

  if (task->variables) {
    for (int i = 0; i < task->variable_count; i++) free_variable(ctx, &task->variables[i]);
  }

  if (task->stop.terms) {
    for (int i = 0; i < task->stop.term_count; i++) pbContext_Free(ctx, task->stop.terms[i]);
  }

  if (task->audit_fields) {
    for (int i = 0; i < task->audit.fields; i++) pbContext_Free(ctx, task->audit_fields[i]);
  }

  // What an audit's options point to.
  for (int i = 0; i < 3; i++) pbContext_Free(ctx, task->audit_texts[i]);
  for (int i = 0; i < 2; i++) pbContext_Free(ctx, task->audit_numbers[i]);
  pbContext_Free(ctx, task->audit_fields);

  pbContext_Free(ctx, task->made_from);
  pbContext_Free(ctx, task->theta_world);
  pbSample_Free(ctx, &task->sample);

  // All arrays of numbers.
  void *all[] = {task->name,       task->theta,           task->theta_now, task->theta_used, task->theta_bar,    task->variables,
                 task->start,      task->lower,           task->upper,     task->value,      task->trajectories, task->rates,
                 task->stop.terms, task->stop.deviations, task->met_z,     task->result_z,   task->last_z};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
  pbContext_Free(ctx, task->verdict.notes);
  pbContext_Free(ctx, task->verdict.direction);
  pbContext_Free(ctx, task->verdict.beside);
  pbSureness_Free(ctx, task->sureness);
  pbTask_FreeStarts(task);
  free_stages(task);
  void *texts[] = {task->source.text, task->source.folder, task->source.allow_root, task->source.policy,
                   task->own_start,   task->prior_at,      task->prior_weight};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) pbContext_Free(ctx, texts[i]);
  pbTask_FreeThreads(task);
  if (!task->borrowed) pbModel_Destroy(task->model);
  pbContext_Free(ctx, task);
}

// ---- properties of a task -------------------------------------------------------------------------------------------
const pbModel *pbTask_Model(const pbTask *task) { return task->model; }
int pbTask_Size(const pbTask *task) { return task->n; }
size_t pbTask_ResidualCount(const pbTask *task) { return task->m; }
const double *pbTask_Start(const pbTask *task) { return task->start; }
void pbTask_Bounds(const pbTask *task, const double **lower, const double **upper) {
  *lower = task->lower;
  *upper = task->upper;
}
int pbTask_TrajectoryCount(const pbTask *task) { return task->trajectory_count; }
bool pbTask_IsTest(const pbTask *task, int t) { return task->trajectories[t].test; }
const double *pbTask_InitialState(const pbTask *task, int t) { return task->trajectories[t].x0; }
int pbTask_StartCount(const pbTask *task) { return task->start_count > 1 ? task->start_count : 1; }
int pbTask_StageCount(const pbTask *task) { return task->stage_count; }
pbRunStage pbTask_Stage(const pbTask *task, int stage) { return task->stages[stage].run; }
int pbTask_Steps(const pbTask *task, int t) { return task->trajectories[t].steps; }
const pbRolloutPlan *pbTask_Plan(const pbTask *task, int t) { return &task->trajectories[t].plan; }
const char *pbTask_Constants(const pbTask *task) { return task->recompute ? "recompute" : "keep"; }
pbGradientKind pbTask_GradientKind(const pbTask *task) { return task->gradient; }
pbAuditOptions pbTask_AuditOptions(const pbTask *task) { return task->audit; }
pbVjpOptions pbTask_Truncation(const pbTask *task) { return task->truncation; }
bool pbTask_HasStop(const pbTask *task) { return task->stop.has_loss || task->stop.term_count > 0; }
int64_t pbTask_Simulations(const pbTask *task) { return task->simulations; }

int pbTask_TermCount(const pbTask *task) {
  int count = 0;
  for (int t = 0; t < task->trajectory_count; t++) count += task->trajectories[t].terms.count;
  return count;
}

// Terms are numbered through all trajectories.
void pbTask_Term(const pbTask *task, int i, const char **name, double *value, double *deviation) {
  PB_ASSERT(i >= 0 && i < pbTask_TermCount(task));
  int t = 0;
  while (i >= task->trajectories[t].terms.count) i -= task->trajectories[t++].terms.count;

  const pbTerm *term = &task->trajectories[t].terms.terms[i];
  *name = term->name;
  *value = term->value;
  *deviation = term->deviation;
}

void pbTask_OnFunction(pbTask *task, pbLossFunction function, void *user) {
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    for (int i = 0; i < set->count; i++) {
      pbHosted *hosted = set->terms[i].hosted;
      if (!hosted) continue;
      hosted->call = function;
      hosted->user = user;
      hosted->trajectory = t;
    }
  }
}

// ---- set up ---------------------------------------------------------------------------------------------------------
static pbStatus no_memory(const pbTask *task) {
  return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the task", task->name);
}

static pbStatus allocate_numbers(pbTask *task, size_t count, double **data) {
  *data = pbContext_AllocArray(task->ctx, count + 1, sizeof(double));
  return *data ? pb_ok : no_memory(task);
}

// What draws are put into.
static pbStatus set_up_sample(pbTask *task) {
  pbPolicyInfo policy;
  task->commands = pbModel_PolicyInfo(task->model, &policy) ? policy.commands : 0;
  if (!pbTask_Sampled(task)) return pb_ok;

  PB_TRY(allocate_numbers(task, task->ntheta, &task->theta_world));
  for (int t = 0; t < task->trajectory_count; t++) {
    pbTrajectory *tr = &task->trajectories[t];
    PB_TRY(allocate_numbers(task, (size_t)tr->terms.nx, &tr->x0_world));
    PB_TRY(allocate_numbers(task, (size_t)tr->steps * (size_t)task->commands, &tr->command));
  }

  return pb_ok;
}

static pbStatus set_up_trajectory(pbTask *task, pbTrajectory *tr) {
  size_t n = (size_t)tr->terms.n, controls = (size_t)tr->steps * (size_t)pb_controls(task->model);
  PB_ASSERT(tr->steps >= 0 && tr->terms.steps == tr->steps);
  PB_TRY(pbTermSet_Finish(&tr->terms));
  PB_TRY(allocate_numbers(task, n, &tr->x0_bar));
  PB_TRY(allocate_numbers(task, controls, &tr->ctrl_bar));

  return pbTrajectory_SetUp(task, tr);
}

pbStatus pbTask_SetUpRun(pbTask *task) {
  PB_TRY(allocate_numbers(task, task->ntheta, &task->theta_now));
  PB_TRY(allocate_numbers(task, task->ntheta, &task->theta_used));
  PB_TRY(allocate_numbers(task, (size_t)task->n, &task->value));

  // Initial state and controls of each trajectory with the unknowns in.
  for (int t = 0; t < task->trajectory_count; t++) {
    pbTrajectory *tr = &task->trajectories[t];
    PB_TRY(allocate_numbers(task, (size_t)tr->terms.nx, &tr->x0_now));
    PB_TRY(allocate_numbers(task, (size_t)tr->steps * (size_t)pb_controls(task->model), &tr->ctrl_now));
    PB_TRY(pbPoses_SetUp(task, tr));
  }

  return pb_ok;
}

pbStatus pbTask_SetUp(pbTask *task) {
  size_t n = (size_t)task->n;
  PB_TRY(pbTask_SetUpRun(task));
  PB_TRY(set_up_sample(task));
  PB_TRY(allocate_numbers(task, task->ntheta, &task->theta_bar));
  PB_TRY(allocate_numbers(task, n, &task->met_z));
  PB_TRY(allocate_numbers(task, n, &task->result_z));
  PB_TRY(allocate_numbers(task, n, &task->last_z));
  PB_TRY(allocate_numbers(task, n, &task->own_start));
  task->verdict.notes = pbContext_AllocArray(task->ctx, n + 1, 1);
  if (!task->verdict.notes) return no_memory(task);
  PB_TRY(allocate_numbers(task, n, &task->verdict.direction));
  PB_TRY(allocate_numbers(task, n, &task->verdict.beside));

  // A loss is a sum of squares where the terms of every trajectory are.
  bool squares = true;
  for (int t = 0; t < task->trajectory_count; t++) {
    PB_TRY(set_up_trajectory(task, &task->trajectories[t]));
    if (task->trajectories[t].test) continue;
    size_t m = pbTermSet_Samples(&task->trajectories[t].terms);
    task->trajectories[t].first_residual = task->m;
    squares &= pbTermSet_Residuals(&task->trajectories[t].terms) > 0;
    task->m += m * (size_t)pbTask_Worlds(task);
  }
  task->m = squares ? task->m + (size_t)task->prior_count : 0;
  PB_TRY(pbTask_SetUpThreads(task));

  // Nothing has been evaluated yet.
  task->now.value = NAN;
  strcpy(task->phase, "optimize");
  task->now.phase = task->phase;

  return pb_ok;
}

// ---- evaluation -----------------------------------------------------------------------------------------------------
static bool is_last(const pbTask *task, const double *z) { return memcmp(z, task->last_z, (size_t)task->n * sizeof *z) == 0; }

static int fitted(const pbTask *task) {
  int count = 0;
  for (int t = 0; t < task->trajectory_count; t++) count += !task->trajectories[t].test;
  return count;
}

// Notes that the rollouts are about to hold the run at z, and counts it.
static void begin_run(pbTask *task, const double *z) {
  // The residuals of a point and their Jacobian right after are one run.
  if (!(task->counted && is_last(task, z))) task->simulations += (int64_t)fitted(task) * pbTask_Worlds(task);
  memcpy(task->last_z, z, (size_t)task->n * sizeof *z);
  task->evaluations++;
  task->counted = true;
  task->same = false;
}

// Is every term of this name within its deviation?
static bool within_deviation(const pbTask *task, const char *name, double most) {
  // Terms of one name may be on several trajectories.
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    if (task->trajectories[t].test) continue;
    for (int i = 0; i < set->count; i++) {
      if (strcmp(set->terms[i].name, name) == 0 && !(set->terms[i].deviation <= most)) return false;
    }
  }

  return true;
}

bool pbTask_Met(const pbTask *task, double value) {
  const pbStop *stop = &task->stop;
  if (!pbTask_HasStop(task)) return false;
  if (pbTask_WorstConstraint(task)) return false;

  // multipliers may make a loss of any size
  bool plain = stop->has_loss && pbTask_IsConstrained(task) && !pbTask_Sampled(task);
  double loss = plain ? pbTask_PlainTerms(task) + pbTask_Prior(task, task->last_z, NULL) : value;
  if (stop->has_loss && !(loss <= stop->loss)) return false;

  for (int s = 0; s < stop->term_count; s++) {
    if (!within_deviation(task, stop->terms[s], stop->deviations[s])) return false;
  }

  return true;
}

// An evaluation is complete: does it end the run?
static pbStatus end_evaluation(pbTask *task, const double *z, double value) {
  if (task->evaluations == 1) task->first_value = value;
  if (!isfinite(value)) return pbContext_Fail(task->ctx, pb_not_finite, "%s: the loss is not finite", task->name);
  if (!task->watch || task->met || !pbTask_Met(task, value)) return pb_ok;

  // Kept apart: the method may have gone on from here to another point.
  task->met = true;
  task->met_value = value;
  memcpy(task->met_z, z, (size_t)task->n * sizeof *z);

  return pb_ok;
}

pbStatus pbTask_Loss(pbTask *task, const double *z, double *value, double *gradient) {
  *value = 0;
  task->counted = false;  // every call is one evaluation
  begin_run(task, z);
  PB_TRY(pbTask_Apply(task, z));
  PB_TRY(pbTask_EachLoss(task, z, value, gradient));
  *value += pbTask_Prior(task, z, gradient);

  return end_evaluation(task, z, *value);
}

// ---- what is known before ---------------------------------------------------------------------------------------------
double pbTask_Prior(const pbTask *task, const double *z, double *gradient) {
  double sum = 0;
  int n = task->prior_count ? task->n : 0;
  for (int i = 0; i < n; i++) {
    double w = task->prior_weight[i], d = w * (z[i] - task->prior_at[i]);
    sum += d * d;
    if (gradient) gradient[i] += 2 * w * d;
  }

  return sum;
}

void pbTask_PriorResiduals(const pbTask *task, const double *z, double *r, double *J) {
  int n = task->prior_count ? task->n : 0;
  if (J) memset(J, 0, (size_t)task->prior_count * (size_t)task->n * sizeof *J);
  for (int i = 0, row = 0; i < n; i++) {
    double w = task->prior_weight[i];
    if (w == 0) continue;
    r[row] = w * (z[i] - task->prior_at[i]);
    if (J) J[(size_t)row * (size_t)task->n + (size_t)i] = w;
    row++;
  }
}

// ---- residuals ------------------------------------------------------------------------------------------------------
static pbStatus evaluate_residuals(pbTask *task, const double *z, double *value, double *r, double *J, const pbTaskTaker *taker) {
  // Derivatives at a point whose residuals were computed just before: the rollouts still hold that run.
  bool again = (J || taker) && task->same && is_last(task, z);
  begin_run(task, z);
  PB_TRY(pbTask_Apply(task, z));

  if (taker) PB_TRY(pbTask_EachTaken(task, z, again, value, r, taker));
  else PB_TRY(pbTask_EachResidual(task, z, again, value, r, J));

  // what is known before, behind the terms
  size_t first = task->m - (size_t)task->prior_count;
  *value += pbTask_Prior(task, z, NULL);
  if (r) pbTask_PriorResiduals(task, z, r + first, J ? J + first * (size_t)task->n : NULL);

  task->same = !pbTask_Sampled(task);

  return end_evaluation(task, z, *value);
}

pbStatus pbTask_Residuals(pbTask *task, const double *z, double *r, double *J) {
  double value = 0;
  if (task->m == 0)
    return pbContext_Fail(task->ctx, pb_bad_argument,
                          "%s: the loss is no sum of squares (terms of type squared, above or below with weights >= 0)",
                          task->name);

  if (J && pbTask_IsTruncated(task))
    return pbContext_Fail(task->ctx, pb_bad_argument, "%s: a truncated gradient (decay, window, clip) is none of residuals",
                          task->name);

  return evaluate_residuals(task, z, &value, r, J, NULL);
}

pbStatus pbTask_Linearize(pbTask *task, const double *z, double *value, double *r, const pbTaskTaker *taker) {
  return evaluate_residuals(task, z, value, r, NULL, taker);
}

pbStatus pbTask_Shoot(pbTask *task, double *z, double *value) {
  task->counted = false;
  task->same = false;
  PB_TRY(pbTask_Apply(task, z));
  pbStatus status = pbTask_EachLoss(task, z, value, NULL);
  begin_run(task, z);
  if (status != pb_ok) return status;

  // the rollouts hold the run at the knots that were found on the way
  task->same = true;

  return end_evaluation(task, z, *value);
}

pbStatus pbTask_Expand(pbTask *task, const double *z, int t, double *theta, double *x0, double *ctrl) {
  pbTrajectory *tr = &task->trajectories[t];
  task->same = false;
  PB_TRY(pbTask_Apply(task, z));
  if (theta) memcpy(theta, task->theta_used, task->ntheta * sizeof *theta);
  if (x0) memcpy(x0, tr->x0_now, (size_t)tr->terms.nx * sizeof *x0);
  if (ctrl) memcpy(ctrl, tr->ctrl_now, (size_t)tr->steps * (size_t)pb_controls(task->model) * sizeof *ctrl);

  return pb_ok;
}

pbStatus pbTask_Parameters(pbTask *task, const double *z, double *theta) {
  pbTask_Values(task, z, task->value);

  // As the file has them, but for what is unknown or follows it.
  memcpy(theta, task->theta, task->ntheta * sizeof *theta);

  return pbTask_PutParameters(task, theta);
}

static pbStatus certify(pbTask *task, pbTrajectory *tr, pbCertificate *certificate) {
  tr->worker = 0;
  atomic_store(&task->stopped, 0);
  PB_TRY(pbTrajectory_Forward(tr));
  pbTrajectory_ClearBars(tr);
  memset(task->theta_bar, 0, task->ntheta * sizeof(double));
  PB_TRY(pbTrajectory_Value(tr, true, tr->ctrl_bar));

  // Checked at steps only: the gradient is that of the loss at this very run.
  pbVjpOptions options = task->truncation;
  options.spot_check = pb_checkSteps;
  options.seed = 1;

  return pbTrajectory_PullBack(tr, &options, task->theta_bar, certificate);
}

pbStatus pbTask_Certify(pbTask *task, const double *z, int t, pbCertificate *certificate) {
  pbTrajectory *tr = &task->trajectories[t];
  task->same = false;
  PB_TRY(pbTask_Apply(task, z));
  PB_TRY(pbTask_BeginWorld(task, t, 0));
  pbStatus status = certify(task, tr, certificate);

  return status == pb_ok ? pb_ok : pbContext_Fail(task->ctx, status, "%s", pbContext_Error(tr->ctx));
}

// ---- the same at a finer step ---------------------------------------------------------------------------------------
// Forward alone, with the controls of each step held over all of its parts.
static pbStatus run_fine(pbTask *task, pbTrajectory *tr, const pbFineModel *fine, const pbRolloutInput *input,
                         const pbRolloutOutput *wanted) {
  int steps = tr->steps * task->confirm;
  pbRolloutOutput output = *wanted;
  pbRolloutPlan plan;
  pbRollout *rollout = NULL;
  PB_TRY(pbRollout_PlanSlots(task->ctx, &fine->model, steps, 0, 1, &plan));
  PB_TRY(pbRollout_Create(task->ctx, &fine->model, &plan, NULL, &rollout));

  tr->worker = 0;
  atomic_store(&task->stopped, 0);
  pbRollout_OnProgress(rollout, pbTrajectory_OnProgress, tr);
  pbFineModel_Start(fine, task->confirm, pbTrajectory_Start(tr));
  pbStatus status = pbRollout_Forward(rollout, task->theta_used, pbTrajectory_Start(tr), input, &output);
  pbRollout_Destroy(rollout);

  return status;
}

static void note_confirmed(const pbTermSet *fine) {
  for (int i = 0; i < fine->count; i++) {
    fine->terms[i].confirm_value = fine->terms[i].value;
    fine->terms[i].confirm_deviation = fine->terms[i].deviation;
  }
}

static pbStatus confirm_trajectory(pbTask *task, pbTrajectory *tr, const pbFineModel *finer, double *value) {
  int divide = task->confirm;
  size_t nu = (size_t)pb_controls(task->model), steps = (size_t)tr->steps * (size_t)divide;
  size_t commands = tr->command ? (size_t)task->commands : 0, poses = pbPoses_Numbers(task, tr);
  pbTermSet fine = tr->terms;  // borrows terms and buffers; its rows are the same states, further apart
  double *ctrl = NULL;
  int *rows = pbContext_AllocArray(task->ctx, (size_t)fine.row_count + 1, sizeof *rows);
  pbStatus status = rows ? allocate_numbers(task, steps * (nu + commands + poses), &ctrl) : no_memory(task);

  // States at the same times, controls held over the shorter steps.
  if (status == pb_ok) {
    for (int i = 0; i < fine.row_count; i++) rows[i] = fine.rows[i] * divide;
    for (size_t k = 0; k < steps; k++) memcpy(ctrl + k * nu, tr->ctrl_now + k / (size_t)divide * nu, nu * sizeof *ctrl);

    // Commands are the same in all steps.
    double *command = ctrl + steps * nu;
    for (size_t k = 0; k < steps * commands; k++) command[k] = tr->command[k % commands];

    pbRolloutInput input = {.ctrl = ctrl, .command = commands ? command : NULL};
    pbPoses_Fine(task, tr, divide, command + steps * commands, &input);
    pbRolloutOutput output = pbTermSet_Output(&fine);
    output.rows = rows;
    status = run_fine(task, tr, finer, &input, &output);
  }

  if (status == pb_ok) {
    *value += pbTermSet_Value(&fine, tr->ctrl_now, false, NULL);
    if (fine.fault[0]) status = pbContext_Fail(task->ctx, fine.failure, "%s: loss: %s", task->name, fine.fault);
  }

  pbContext_Free(task->ctx, rows);
  pbContext_Free(task->ctx, ctrl);

  return status;
}

pbStatus pbTask_Confirm(pbTask *task, const double *z, double *loss, double *timestep) {
  PB_ASSERT(task->confirm >= 1);
  pbParam h;
  pbFineModel fine;
  PB_TRY(pbModel_Param(task->ctx, task->model, "timestep", &h));
  PB_TRY(pbTask_Fine(task, task->confirm, &fine));
  task->same = false;
  PB_TRY(pbTask_Apply(task, z));

  *timestep = task->theta_now[h.offset] / task->confirm;
  *loss = 0;

  for (int t = 0; t < task->trajectory_count; t++) {
    pbTrajectory *tr = &task->trajectories[t];
    if (tr->test) continue;
    if ((int64_t)tr->steps * task->confirm > INT32_MAX)
      return pbContext_Fail(task->ctx, pb_bad_argument, "%s: too many steps to confirm", task->name);

    // The time step is no draw and no variable: it is what it was but divided.
    for (int w = 0; w < pbTask_Worlds(task); w++) {
      PB_TRY(pbTask_BeginWorld(task, t, w));
      task->theta_used[h.offset] = *timestep;
      PB_TRY(confirm_trajectory(task, tr, &fine, loss));
      pbTask_NoteWorld(task, t, w);
    }
    note_confirmed(&tr->terms);
  }

  *loss /= pbTask_Worlds(task);
  *loss += pbTask_Prior(task, z, NULL);

  return pb_ok;
}
