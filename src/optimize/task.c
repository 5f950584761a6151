// Loss of a task, its gradient and its residuals, over all trajectories. Terms of the loss: terms.c; unknowns: variables.c.
#include "optimize/task.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/model.h"

static void free_trajectory(pbContext *ctx, pbTrajectory *tr) {
  pbTermSet_Free(&tr->terms);
  pbRollout_Destroy(tr->rollout);

  // The trajectory's own arrays; terms and rollout have freed theirs.
  void *all[] = {tr->x0, tr->ctrl, tr->x0_now, tr->ctrl_now, tr->x0_bar, tr->ctrl_bar, tr->x0_world, tr->command};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

static void free_variable(pbContext *ctx, pbVariable *v) {
  int ties = v->ties ? v->index_count : 0;
  for (int k = 0; k < ties; k++) pbTie_Free(ctx, &v->ties[k]);

  void *all[] = {v->name, v->index, v->rows, v->ties};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
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

// ---- set up ---------------------------------------------------------------------------------------------------------
static pbStatus no_memory(const pbTask *task) {
  return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the task", task->name);
}

static pbStatus allocate_numbers(pbTask *task, size_t count, double **data) {
  *data = pbContext_AllocArray(task->ctx, count + 1, sizeof(double));
  return *data ? pb_ok : no_memory(task);
}

// A rollout reports its progress with the optimizer's news.
static int on_progress(void *user, const pbProgress *p) {
  pbTask *task = user;
  (void)p;
  if (!task->progress) return 0;
  task->now.seconds = pbTask_Clock() - task->clock;
  return task->progress(task->user, &task->now);
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

  // Once for all evaluations: its tape, and which parameters it gives gradients by.
  PB_TRY(pbRollout_Plan(task->ctx, task->model, tr->steps, task->memory, &tr->plan));
  PB_TRY(pbRollout_Create(task->ctx, task->model, &tr->plan, NULL, &tr->rollout));
  PB_TRY(pbRollout_SetGradient(tr->rollout, task->gradient));
  PB_TRY(pbTask_Want(task, tr->rollout));

  // A caller that stops a run stops it within a rollout, too.
  pbRollout_OnProgress(tr->rollout, on_progress, task);

  return pb_ok;
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
  task->verdict.notes = pbContext_AllocArray(task->ctx, n + 1, 1);
  if (!task->verdict.notes) return no_memory(task);

  // A loss is a sum of squares where the terms of every trajectory are.
  bool squares = true;
  for (int t = 0; t < task->trajectory_count; t++) {
    PB_TRY(set_up_trajectory(task, &task->trajectories[t]));
    size_t m = pbTermSet_Residuals(&task->trajectories[t].terms);
    squares &= m > 0;
    task->m += m * (size_t)pbTask_Worlds(task);
  }
  if (!squares) task->m = 0;

  // Nothing has been evaluated yet.
  task->now.value = NAN;
  task->now.phase = "optimize";

  return pb_ok;
}

// ---- evaluation -----------------------------------------------------------------------------------------------------
static double *start_of(const pbTrajectory *tr) { return tr->x0_world ? tr->x0_world : tr->x0_now; }

static pbStatus run_forward(pbTask *task, pbTrajectory *tr) {
  pbRolloutInput input = {.ctrl = tr->ctrl_now, .command = tr->command};
  pbRolloutOutput output = pbTermSet_Output(&tr->terms);

  return pbRollout_Forward(tr->rollout, task->theta_used, start_of(tr), &input, &output);
}

static bool is_last(const pbTask *task, const double *z) { return memcmp(z, task->last_z, (size_t)task->n * sizeof *z) == 0; }

// Notes that the rollouts are about to hold the run at z, and counts it.
static void begin_run(pbTask *task, const double *z) {
  // The residuals of a point and their Jacobian right after are one run.
  if (!(task->counted && is_last(task, z))) task->simulations += (int64_t)task->trajectory_count * pbTask_Worlds(task);
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
    for (int i = 0; i < set->count; i++) {
      if (strcmp(set->terms[i].name, name) == 0 && !(set->terms[i].deviation <= most)) return false;
    }
  }

  return true;
}

bool pbTask_Met(const pbTask *task, double value) {
  const pbStop *stop = &task->stop;
  if (!pbTask_HasStop(task)) return false;
  if (stop->has_loss && !(value <= stop->loss)) return false;

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

// ---- forward mode: the tangents of a batch of unknowns, of what the loss observes -----------------------------------
enum { most_batch = 16 };
typedef struct Batch {
  int count, first;
  double *theta[most_batch], *x0[most_batch], *ctrl[most_batch];
  pbObservedTangent observed[most_batch];
  pbRolloutDirection directions[most_batch];
  pbRolloutTangent tangents[most_batch];
  double *memory;
} Batch;

// Numbers of each direction: theta, x0, ctrl, then the outputs' tangents; returns their sum.
static size_t batch_each(const pbTask *task, const pbTrajectory *tr, size_t sizes[7]) {
  const pbTermSet *s = &tr->terms;
  size_t rows = (size_t)s->row_count;
  const size_t wanted[7] = {task->ntheta,
                            (size_t)s->n,
                            (size_t)tr->steps * (size_t)s->nu,
                            s->states ? rows * (size_t)s->n : 0,
                            s->sensordata ? rows * (size_t)s->ns : 0,
                            s->xpos ? rows * 3 * (size_t)s->nbody : 0,
                            s->site_xpos ? rows * 3 * (size_t)s->nsite : 0};
  size_t total = 0;

  for (int i = 0; i < 7; i++) {
    sizes[i] = wanted[i];
    total += wanted[i];
  }

  return total;
}

static pbStatus allocate_batch(pbTask *task, const pbTrajectory *tr, Batch *b) {
  size_t sizes[7], each = batch_each(task, tr, sizes);
  b->count = task->n < most_batch ? task->n : most_batch;
  PB_TRY(allocate_numbers(task, each * (size_t)b->count, &b->memory));

  // Each direction's numbers follow one another; what the loss does not observe has none.
  for (int i = 0; i < b->count; i++) {
    double *piece[7], *next = b->memory + (size_t)i * each;
    for (int k = 0; k < 7; k++) {
      piece[k] = sizes[k] ? next : NULL;
      next += sizes[k];
    }

    // Without controls pbTask_Direction still takes an array, of no size.
    b->theta[i] = piece[0];
    b->x0[i] = piece[1];
    b->ctrl[i] = piece[2] ? piece[2] : piece[1];
    b->directions[i] = (pbRolloutDirection){.x0 = piece[1], .ctrl = piece[2], .theta = piece[0]};
    b->tangents[i] = (pbRolloutTangent){.x = piece[3],
                                        .sensordata = piece[4],
                                        .xpos = piece[5],
                                        .site_xpos = piece[6],
                                        .rows = tr->terms.rows,
                                        .row_count = tr->terms.row_count};
    b->observed[i] = (pbObservedTangent){piece[3], piece[4], piece[5], piece[6], piece[2]};
  }

  return pb_ok;
}

// Unknowns first .. first + batch - 1 of trajectory t; *count: how many there were.
static pbStatus batch_run(pbTask *task, const double *z, int t, Batch *b, int first, int *count) {
  PB_ASSERT(first >= 0 && first < task->n);
  *count = task->n - first < b->count ? task->n - first : b->count;
  for (int i = 0; i < *count; i++) PB_TRY(pbTask_Direction(task, z, first + i, t, b->theta[i], b->x0[i], b->ctrl[i]));

  return pbRollout_Jvp(task->trajectories[t].rollout, *count, b->directions, b->tangents);
}

static pbStatus gradient_forward(pbTask *task, const double *z, int t, double *gradient) {
  pbTrajectory *tr = &task->trajectories[t];
  Batch b = {0};
  pbStatus status = allocate_batch(task, tr, &b);

  // A batch of tangents rides on one run of the trajectory.
  int count = 0;
  for (int first = 0; status == pb_ok && first < task->n; first += count) {
    status = batch_run(task, z, t, &b, first, &count);
    if (status != pb_ok) break;
    for (int i = 0; i < count; i++) gradient[first + i] += pbTermSet_Along(&tr->terms, &b.observed[i], tr->ctrl_bar);
  }

  pbContext_Free(task->ctx, b.memory);
  return status;
}

static void clear_bars(pbTask *task, pbTrajectory *tr) {
  memset(tr->x0_bar, 0, (size_t)tr->terms.n * sizeof(double));
  memset(tr->ctrl_bar, 0, (size_t)tr->steps * (size_t)pb_controls(task->model) * sizeof(double));
}

static pbStatus pull_back(pbTask *task, pbTrajectory *tr) {
  pbRolloutBar bar = pbTermSet_Bar(&tr->terms);

  // Cotangents of the controls only where there are any.
  pbRolloutGradient g = {.x0 = tr->x0_bar, .ctrl = pb_controls(task->model) ? tr->ctrl_bar : NULL, .theta = task->theta_bar};

  return pbRollout_Vjp(tr->rollout, &bar, &task->truncation, &g, NULL);
}

// Truncation is of costates: forward derivatives have none.
static bool is_truncated(const pbTask *task) {
  const pbVjpOptions *o = &task->truncation;
  return o->decay > 0 || o->window > 0 || o->clip > 0;
}

static bool is_forward(const pbTask *task, size_t outputs) {
  return !is_truncated(task) && pbRollout_GradientMode((size_t)task->n, outputs) == pb_modeForward;
}

static pbStatus gradient_reverse(pbTask *task, int t, double *gradient) {
  PB_TRY(pull_back(task, &task->trajectories[t]));
  pbTask_PullTrajectory(task, t, gradient);
  return pb_ok;
}

// Rows of derivatives by all unknowns: which one is not finite.
static pbStatus check_derivatives(const pbTask *task, const double *z, const double *rows, size_t count) {
  if (!rows) return pb_ok;

  char name[256];
  for (size_t i = 0; i < count * (size_t)task->n; i++) {
    if (isfinite(rows[i])) continue;
    pbTask_Unknown(task, (int)(i % (size_t)task->n), z, name, sizeof name, NULL);
    return pbContext_Fail(task->ctx, pb_not_finite, "%s: the derivative by %s is %s", task->name, name,
                          isnan(rows[i]) ? "NaN" : "infinite");
  }

  return pb_ok;
}

// The loss of a trajectory that has run; where a formula has no value, the reason.
static pbStatus add_value(const pbTask *task, pbTrajectory *tr, bool pull, double *ctrl_bar, double *value) {
  *value += pbTermSet_Value(&tr->terms, tr->ctrl_now, pull, ctrl_bar);
  if (!tr->terms.fault[0]) return pb_ok;
  return pbContext_Fail(task->ctx, pb_not_finite, "%s: loss: %s", task->name, tr->terms.fault);
}

static pbStatus add_gradient(pbTask *task, const double *z, int t, double *gradient) {
  return is_forward(task, 1) ? gradient_forward(task, z, t, gradient) : gradient_reverse(task, t, gradient);
}

// Forward, value with its cotangents, and back: one world of a trajectory.
static pbStatus evaluate_world(pbTask *task, const double *z, int t, int world, double *value, double *gradient) {
  pbTrajectory *tr = &task->trajectories[t];
  bool pulled = gradient && pbRollout_GradientMode((size_t)task->n, 1) != pb_modeForward, sampled = pbTask_Sampled(task);

  PB_TRY(pbTask_BeginWorld(task, t, world));
  if (sampled) memset(task->theta_bar, 0, task->ntheta * sizeof(double));

  PB_TRY(run_forward(task, tr));
  clear_bars(task, tr);
  PB_TRY(add_value(task, tr, gradient != NULL, tr->ctrl_bar, value));
  pbTask_NoteWorld(task, t, world);
  if (gradient) PB_TRY(add_gradient(task, z, t, gradient));

  // Draws make other parameters of each world: pulled back by itself.
  return sampled && pulled ? pbTask_PullTheta(task, z, gradient) : pb_ok;
}

pbStatus pbTask_Loss(pbTask *task, const double *z, double *value, double *gradient) {
  bool forward = pbRollout_GradientMode((size_t)task->n, 1) == pb_modeForward, sampled = pbTask_Sampled(task);
  int worlds = pbTask_Worlds(task);
  *value = 0;
  task->counted = false;  // every call is one evaluation
  begin_run(task, z);
  PB_TRY(pbTask_Apply(task, z));
  if (gradient) memset(gradient, 0, (size_t)task->n * sizeof *gradient);
  if (gradient) memset(task->theta_bar, 0, task->ntheta * sizeof(double));

  for (int t = 0; t < task->trajectory_count; t++) {
    for (int w = 0; w < worlds; w++) PB_TRY(evaluate_world(task, z, t, w, value, gradient));
  }

  // Parameters are shared by all trajectories: pulled back once, from the sum of their cotangents.
  if (gradient && !forward && !sampled) PB_TRY(pbTask_PullTheta(task, z, gradient));

  // Of several worlds the mean.
  *value /= worlds;
  int entries = gradient ? task->n : 0;
  for (int i = 0; i < entries; i++) gradient[i] /= worlds;
  PB_TRY(check_derivatives(task, z, gradient, 1));
  return end_evaluation(task, z, *value);
}

// ---- residuals ------------------------------------------------------------------------------------------------------
static pbStatus jacobian_forward(pbTask *task, const double *z, int t, double *J) {
  pbTrajectory *tr = &task->trajectories[t];
  Batch b = {0};
  pbStatus status = allocate_batch(task, tr, &b);

  // Columns of J, batch by batch.
  int count = 0;
  for (int first = 0; status == pb_ok && first < task->n; first += count) {
    status = batch_run(task, z, t, &b, first, &count);
    if (status != pb_ok) break;
    for (int i = 0; i < count; i++)
      pbTermSet_Push(&tr->terms, tr->ctrl_now, &b.observed[i], J, (size_t)task->n, (size_t)(first + i));
  }

  pbContext_Free(task->ctx, b.memory);
  return status;
}

static pbStatus jacobian_reverse(pbTask *task, const double *z, int t, double *J) {
  pbTrajectory *tr = &task->trajectories[t];
  size_t m = pbTermSet_Residuals(&tr->terms);

  // One pullback a residual.
  for (size_t k = 0; k < m; k++) {
    double *row = J + k * (size_t)task->n;
    memset(row, 0, (size_t)task->n * sizeof *row);
    memset(task->theta_bar, 0, task->ntheta * sizeof(double));
    clear_bars(task, tr);
    pbTermSet_PullResidual(&tr->terms, tr->ctrl_now, k, tr->ctrl_bar);
    PB_TRY(gradient_reverse(task, t, row));
    PB_TRY(pbTask_PullTheta(task, z, row));
  }

  return pb_ok;
}

static pbStatus jacobian_rows(pbTask *task, const double *z, int t, double *J) {
  return is_forward(task, task->m) ? jacobian_forward(task, z, t, J) : jacobian_reverse(task, z, t, J);
}

// One world of a trajectory: m residuals, of the mean over all worlds, and their rows. again: the rollout holds this run.
static pbStatus residuals_of_world(pbTask *task, const double *z, int t, int world, bool again, double *value, double *r,
                                   double *J) {
  pbTrajectory *tr = &task->trajectories[t];
  size_t m = pbTermSet_Residuals(&tr->terms), entries = J ? m * (size_t)task->n : 0;
  double part = sqrt(1.0 / pbTask_Worlds(task));

  PB_TRY(pbTask_BeginWorld(task, t, world));
  if (!again) PB_TRY(run_forward(task, tr));
  PB_TRY(add_value(task, tr, J != NULL, NULL, value));
  pbTermSet_Write(&tr->terms, tr->ctrl_now, r);
  pbTask_NoteWorld(task, t, world);
  if (J) PB_TRY(jacobian_rows(task, z, t, J));

  for (size_t i = 0; i < m; i++) r[i] *= part;
  for (size_t i = 0; i < entries; i++) J[i] *= part;
  return check_derivatives(task, z, J, m);
}

pbStatus pbTask_Residuals(pbTask *task, const double *z, double *r, double *J) {
  if (task->m == 0)
    return pbContext_Fail(task->ctx, pb_bad_argument,
                          "%s: the loss is no sum of squares (terms of type squared, above or below with weights >= 0)",
                          task->name);

  if (J && is_truncated(task))
    return pbContext_Fail(task->ctx, pb_bad_argument, "%s: a truncated gradient (decay, window, clip) is none of residuals",
                          task->name);

  // The Jacobian at a point whose residuals were computed just before: the rollouts still hold that run.
  bool again = J && task->same && is_last(task, z);
  int worlds = pbTask_Worlds(task);
  double value = 0;
  begin_run(task, z);
  PB_TRY(pbTask_Apply(task, z));

  // Residuals and rows of J follow one another through the trajectories and their worlds.
  for (int t = 0; t < task->trajectory_count; t++) {
    size_t m = pbTermSet_Residuals(&task->trajectories[t].terms);

    for (int w = 0; w < worlds; w++) {
      PB_TRY(residuals_of_world(task, z, t, w, again, &value, r, J));
      r += m;
      if (J) J += m * (size_t)task->n;
    }
  }

  task->same = worlds == 1;
  return end_evaluation(task, z, value / worlds);
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

pbStatus pbTask_Certify(pbTask *task, const double *z, int t, pbCertificate *certificate) {
  pbTrajectory *tr = &task->trajectories[t];
  task->same = false;
  PB_TRY(pbTask_Apply(task, z));
  PB_TRY(pbTask_BeginWorld(task, t, 0));
  PB_TRY(run_forward(task, tr));
  clear_bars(task, tr);
  memset(task->theta_bar, 0, task->ntheta * sizeof(double));
  double value = 0;
  PB_TRY(add_value(task, tr, true, tr->ctrl_bar, &value));

  // Checked at steps only: the gradient is that of the loss at this very run.
  pbRolloutBar bar = pbTermSet_Bar(&tr->terms);
  pbVjpOptions options = task->truncation;
  options.spot_check = pb_checkSteps;
  options.seed = 1;
  pbRolloutGradient g = {.x0 = tr->x0_bar, .ctrl = pb_controls(task->model) ? tr->ctrl_bar : NULL, .theta = task->theta_bar};

  return pbRollout_Vjp(tr->rollout, &bar, &options, &g, certificate);
}

// ---- the same at a finer step ---------------------------------------------------------------------------------------
// Forward alone, with the controls of each step held over all of its parts.
static pbStatus run_fine(pbTask *task, const pbTrajectory *tr, const pbFineModel *fine, const pbRolloutInput *input,
                         const pbRolloutOutput *wanted) {
  int steps = tr->steps * task->confirm;
  pbRolloutOutput output = *wanted;
  pbRolloutPlan plan;
  pbRollout *rollout = NULL;
  PB_TRY(pbRollout_PlanSlots(task->ctx, &fine->model, steps, 0, 1, &plan));
  PB_TRY(pbRollout_Create(task->ctx, &fine->model, &plan, NULL, &rollout));

  pbRollout_OnProgress(rollout, on_progress, task);
  pbFineModel_Start(fine, task->confirm, start_of(tr));
  pbStatus status = pbRollout_Forward(rollout, task->theta_used, start_of(tr), input, &output);
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
  size_t commands = tr->command ? (size_t)task->commands : 0;
  pbTermSet fine = tr->terms;  // borrows terms and buffers; its rows are the same states, further apart
  double *ctrl = NULL;
  int *rows = pbContext_AllocArray(task->ctx, (size_t)fine.row_count + 1, sizeof *rows);
  pbStatus status = rows ? allocate_numbers(task, steps * (nu + commands), &ctrl) : no_memory(task);

  // States at the same times, controls held over the shorter steps.
  if (status == pb_ok) {
    for (int i = 0; i < fine.row_count; i++) rows[i] = fine.rows[i] * divide;
    for (size_t k = 0; k < steps; k++) memcpy(ctrl + k * nu, tr->ctrl_now + k / (size_t)divide * nu, nu * sizeof *ctrl);

    // Commands are the same in all steps.
    double *command = ctrl + steps * nu;
    for (size_t k = 0; k < steps * commands; k++) command[k] = tr->command[k % commands];

    pbRolloutInput input = {.ctrl = ctrl, .command = commands ? command : NULL};
    pbRolloutOutput output = pbTermSet_Output(&fine);
    output.rows = rows;
    status = run_fine(task, tr, finer, &input, &output);
  }

  if (status == pb_ok) {
    *value += pbTermSet_Value(&fine, tr->ctrl_now, false, NULL);
    if (fine.fault[0]) status = pbContext_Fail(task->ctx, pb_not_finite, "%s: loss: %s", task->name, fine.fault);
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
  return pb_ok;
}
