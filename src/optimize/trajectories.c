// What is done trajectory by trajectory: runs, gradients, rows of residuals, on the threads of the task's pool. Each has its own
// rollout, terms and context, so that whoever takes it needs nothing of the others. Values are added in the order of the
// trajectories, gradients by parameters in a tree over their numbers: the same bits for any number of threads. Worlds of
// tasks that draw are run one after the other.
// Tests: tests/unit/test_task_threads.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/own.h"
#include "model/model.h"
#include "optimize/task.h"

// ---- one trajectory ---------------------------------------------------------------------------------------------------
double *pbTrajectory_Start(const pbTrajectory *tr) { return tr->x0_world ? tr->x0_world : tr->x0_now; }

pbStatus pbTrajectory_Forward(pbTrajectory *tr) {
  // What the unknowns mean was put there by pbTask_Apply.
  pbRolloutInput input = {.ctrl = tr->ctrl_now, .command = tr->command};
  pbPoses_Act(tr, &input);
  pbRolloutOutput output = pbTermSet_Output(&tr->terms);

  return pbRollout_Forward(tr->rollout, tr->task->theta_used, pbTrajectory_Start(tr), &input, &output);
}

void pbTrajectory_ClearBars(pbTrajectory *tr) {
  // Pullbacks add.
  memset(tr->x0_bar, 0, (size_t)tr->terms.n * sizeof(double));
  memset(tr->ctrl_bar, 0, (size_t)tr->steps * (size_t)pb_controls(tr->task->model) * sizeof(double));
  pbPoses_ClearBars(tr->task, tr);
}

pbStatus pbTrajectory_Value(pbTrajectory *tr, bool pull, double *ctrl_bar) {
  // Where a formula left its domain, the terms say which.
  tr->loss = pbTermSet_Value(&tr->terms, tr->ctrl_now, pull, ctrl_bar);
  if (!tr->terms.fault[0]) return pb_ok;

  return pbContext_Fail(tr->ctx, tr->terms.failure, "%s: loss: %s", tr->task->name, tr->terms.fault);
}

pbStatus pbTrajectory_PullBack(pbTrajectory *tr, const pbVjpOptions *options, double *theta_bar, pbCertificate *certificate) {
  pbRolloutBar bar = pbTermSet_Bar(&tr->terms);

  // Cotangents of the controls only where there are any.
  double *ctrl_bar = pb_controls(tr->task->model) ? tr->ctrl_bar : NULL;
  pbRolloutGradient g = {.x0 = tr->x0_bar, .ctrl = ctrl_bar, .theta = theta_bar};
  pbPoses_Want(tr, &g);

  // the times of states, which no rollout knows
  const pbModel *m = tr->task->model;
  if (tr->terms.timestep_bar) theta_bar[m->timestep - m->theta0] += *tr->terms.timestep_bar;

  return pbRollout_Vjp(tr->rollout, &bar, options, &g, certificate);
}

// Truncation is of costates: forward derivatives have none.
bool pbTask_IsTruncated(const pbTask *task) {
  const pbVjpOptions *o = &task->truncation;
  return o->decay > 0 || o->window > 0 || o->clip > 0;
}

static bool is_forward(const pbTask *task, size_t outputs) {
  return !pbTask_IsTruncated(task) && pbRollout_GradientMode((size_t)task->n, outputs) == pb_modeForward;
}

// Rows of derivatives by all unknowns: which one is not finite.
static pbStatus check_derivatives(const pbTask *task, pbContext *ctx, const double *z, const double *rows, size_t count) {
  if (!rows) return pb_ok;

  // The first entry of the first row that has one.
  char name[256];
  for (size_t i = 0; i < count * (size_t)task->n; i++) {
    if (isfinite(rows[i])) continue;
    pbTask_Unknown(task, (int)(i % (size_t)task->n), z, name, sizeof name, NULL);
    return pbContext_Fail(ctx, pb_not_finite, "%s: the derivative by %s is %s", task->name, name,
                          isnan(rows[i]) ? "NaN" : "infinite");
  }

  return pb_ok;
}

// ---- forward mode: the tangents of a batch of unknowns, of what the loss observes -----------------------------------
enum { most_batch = 16 };
typedef struct Batch {
  int count;
  int unknown[most_batch];
  pbTaskDirection along[most_batch];
  pbObservedTangent observed[most_batch];
  pbRolloutDirection directions[most_batch];
  pbRolloutTangent tangents[most_batch];
  double *memory;
} Batch;

// Numbers of each direction: theta, x0, ctrl, poses, then the outputs' tangents; returns their sum.
enum { pieces = 12 };
static size_t batch_each(const pbTask *task, const pbTrajectory *tr, size_t sizes[pieces]) {
  const pbTermSet *s = &tr->terms;
  size_t rows = (size_t)s->row_count;
  size_t mocap = tr->poses.varied ? (size_t)task->model->nmocap : 0, poses = (size_t)tr->steps * 3 * mocap;
  const size_t wanted[pieces] = {task->ntheta,
                                 (size_t)s->n,
                                 (size_t)tr->steps * (size_t)s->nu,
                                 s->states ? rows * (size_t)s->n : 0,
                                 s->sensordata ? rows * (size_t)s->ns : 0,
                                 s->xpos ? rows * 3 * (size_t)s->nbody : 0,
                                 s->site_xpos ? rows * 3 * (size_t)s->nsite : 0,
                                 poses,
                                 poses,
                                 tr->poses.vel ? 2 * poses : 0,
                                 3 * mocap,
                                 3 * mocap};
  size_t total = 0;

  for (int i = 0; i < pieces; i++) {
    sizes[i] = wanted[i];
    total += wanted[i];
  }

  return total;
}

static pbStatus allocate_batch(const pbTask *task, const pbTrajectory *tr, Batch *b) {
  size_t sizes[pieces], each = batch_each(task, tr, sizes);
  b->count = task->n < most_batch ? task->n : most_batch;
  b->memory = pbContext_AllocArray(tr->ctx, each * (size_t)b->count + 1, sizeof(double));
  if (!b->memory) return pbContext_Fail(tr->ctx, pb_no_memory, "%s: no memory for tangents", task->name);

  // Each direction's numbers follow one another; what the loss does not observe has none.
  for (int i = 0; i < b->count; i++) {
    double *piece[pieces], *next = b->memory + (size_t)i * each;
    for (int k = 0; k < pieces; k++) {
      piece[k] = sizes[k] ? next : NULL;
      next += sizes[k];
    }

    // Without controls pbTask_Direction still takes an array, of no size.
    b->along[i] = (pbTaskDirection){piece[0], piece[1], piece[2] ? piece[2] : piece[1], piece[7],
                                    piece[8], piece[9], {piece[10], piece[11]}};
    b->directions[i] = (pbRolloutDirection){
        .x0 = piece[1], .ctrl = piece[2], .theta = piece[0], .mocap_pos = piece[7], .mocap_rot = piece[8], .mocap_vel = piece[9]};

    // Where they stood before the first step: there, or where they are given.
    const pbPoseOrigin *origin = tr->poses.origin;
    if (origin[0] != pb_fromModel) b->directions[i].mocap_pos_before = piece[origin[0] == pb_fromGiven ? 10 : 7];
    if (origin[1] != pb_fromModel) b->directions[i].mocap_rot_before = piece[origin[1] == pb_fromGiven ? 11 : 8];
    b->tangents[i] = (pbRolloutTangent){.x = piece[3],
                                        .sensordata = piece[4],
                                        .xpos = piece[5],
                                        .site_xpos = piece[6],
                                        .rows = tr->terms.rows,
                                        .row_count = tr->terms.row_count};
    b->observed[i] =
        (pbObservedTangent){.x = piece[3], .sensordata = piece[4], .xpos = piece[5], .site_xpos = piece[6], .ctrl = piece[2]};
  }

  return pb_ok;
}

// The next unknowns of trajectory t, from *next on; *count: how many there were.
static pbStatus batch_run(const pbTask *task, const double *z, int t, Batch *b, int *next, int *count) {
  const pbTrajectory *tr = &task->trajectories[t];
  *count = 0;
  for (; *next < task->n; ++*next) {
    if (!pbTask_IsOf(task, *next, t)) continue;
    if (*count == b->count) break;

    PB_TRY(pbTask_Direction(task, tr->ctx, z, *next, t, &b->along[*count]));
    pbTask_ReadingDirection(task, *next, t, &b->observed[*count]);
    if (task->timestep_varies) b->observed[*count].timestep = b->along[*count].theta[task->model->timestep - task->model->theta0];
    b->unknown[(*count)++] = *next;
  }

  return *count ? pbRollout_Jvp(tr->rollout, *count, b->directions, b->tangents) : pb_ok;
}

// ---- memory of threads --------------------------------------------------------------------------------------------------
// A caller that stops a run stops it within a rollout, too, and while it waits for other threads. It is asked on its own thread
// alone; all others follow.
static void ask_caller(void *user) {
  pbTask *task = user;
  task->now.seconds = pb_seconds() - task->clock;
  if (task->progress(task->user, &task->now)) atomic_store(&task->stopped, 1);
}

static void ask_while_waiting(pbTask *task, bool on) {
  pbPool_WhileWaiting(task->pool, on && task->progress ? ask_caller : NULL, task);
}

int pbTrajectory_OnProgress(void *user, const pbProgress *p) {
  const pbTrajectory *tr = user;
  pbTask *task = tr->task;
  (void)p;
  if (tr->worker == 0 && task->progress) ask_caller(task);

  return atomic_load(&task->stopped);
}

static void *take(void *user, size_t size) { return pbContext_Alloc(user, size); }
static void *resize(void *user, void *memory, size_t size) { return pbContext_Resize(user, memory, size); }
static void release(void *user, void *memory) { pbContext_Free(user, memory); }

static pbStatus no_memory(const pbTask *task) {
  return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the task", task->name);
}

pbStatus pbTrajectory_SetUp(pbTask *task, pbTrajectory *tr) {
  tr->task = task;
  tr->ctx = pbContext_Create(&(pbAllocator){take, resize, release, task->ctx});
  if (!tr->ctx) return no_memory(task);

  // Once for all evaluations: its tape, and which parameters it gives gradients by.
  PB_TRY(pbRollout_Plan(task->ctx, task->model, tr->steps, task->memory, &tr->plan));
  pbStatus status = pbRollout_Create(tr->ctx, task->model, &tr->plan, NULL, &tr->rollout);
  if (status == pb_ok) status = pbRollout_SetGradient(tr->rollout, task->gradient);
  if (status == pb_ok) status = pbTask_Want(task, tr->rollout);
  if (status != pb_ok && *pbContext_Error(tr->ctx)) return pbContext_Fail(task->ctx, status, "%s", pbContext_Error(tr->ctx));

  if (status == pb_ok) pbRollout_OnProgress(tr->rollout, pbTrajectory_OnProgress, tr);

  return status;
}

void pbTrajectory_Free(pbTrajectory *tr) {
  pbRollout_Destroy(tr->rollout);
  pbContext_Destroy(tr->ctx);
}

pbStatus pbTask_SetUpThreads(pbTask *task) {
  size_t count = (size_t)task->trajectory_count;
  size_t threads = (size_t)pbPool_Threads(task->pool);
  pbTask_FreeThreads(task);

  bool *active = pbContext_AllocArray(task->ctx, count, sizeof *active);
  // A gradient for each thread, and the sum's arrays.
  task->groups = (pbGroups){.things = task->trajectory_count, .active = active};
  task->groups.group = pbContext_AllocArray(task->ctx, count, sizeof *task->groups.group);
  task->bars = pbContext_AllocArray(task->ctx, threads, task->ntheta * sizeof(double));
  if (!active || !task->groups.group || !task->bars) return no_memory(task);

  for (size_t i = 0; i < count; i++) active[i] = !task->trajectories[i].test;
  pbGroups_Make(&task->groups, pbGroups_For((int)threads));
  pbStatus status = pbGroupSum_Create(task->ctx, task->pool, task->trajectory_count, task->ntheta, &task->sum);

  return status == pb_ok ? pb_ok : no_memory(task);
}

void pbTask_FreeThreads(pbTask *task) {
  // Also where there is nothing yet.
  pbGroupSum_Destroy(&task->sum);
  pbContext_Free(task->ctx, pb_own(task->groups.active));
  pbContext_Free(task->ctx, task->groups.group);
  pbContext_Free(task->ctx, task->bars);
  task->groups = (pbGroups){0};
  task->bars = NULL;
}

pbStatus pbTask_UsePool(pbTask *task, pbPool *pool) {
  // Memory by threads: all of it anew.
  task->pool = pool;
  return pbTask_SetUpThreads(task);
}

// ---- all trajectories -----------------------------------------------------------------------------------------------
typedef struct Job {
  pbTask *task;
  const double *z;
  bool gradient, forward, again, bare;
  double *r, *J;
  const pbTaskTaker *taker;
} Job;

static void begin(pbTask *task) {
  // Nobody has failed: a number that no trajectory has.
  atomic_store(&task->stopped, 0);
  atomic_store(&task->failed, task->trajectory_count);
}

// Whatever comes behind a trajectory that failed is of no use: only those before it may fail earlier.
static bool is_lost(const pbTask *task, int t) { return t > atomic_load(&task->failed); }

static void note(pbTrajectory *tr, int t, pbStatus status) {
  pbTask *task = tr->task;
  tr->status = status;
  if (status == pb_ok) return;

  // The least number of all that fail, whoever comes first.
  int failed = atomic_load(&task->failed);
  while (t < failed && !atomic_compare_exchange_weak(&task->failed, &failed, t)) continue;
}

// The text of the first trajectory that failed becomes the task's.
static pbStatus end(pbTask *task) {
  int failed = atomic_load(&task->failed);
  if (failed == task->trajectory_count) return pb_ok;
  const pbTrajectory *tr = &task->trajectories[failed];

  return pbContext_Fail(task->ctx, tr->status, "%s", pbContext_Error(tr->ctx));
}

// Derivatives of the loss by the unknowns, of which there are two at most.
static pbStatus push_loss(pbTrajectory *tr, const double *z, int t) {
  const pbTask *task = tr->task;
  Batch b = {0};
  int count = 0, next = 0;
  PB_ASSERT(task->n <= 2);

  // one batch is enough
  pbStatus status = allocate_batch(task, tr, &b);
  if (status == pb_ok) status = batch_run(task, z, t, &b, &next, &count);
  if (status != pb_ok) count = 0;

  // what the trajectory does not depend on has no slope
  memset(tr->along, 0, sizeof tr->along);
  for (int i = 0; i < count; i++) tr->along[b.unknown[i]] = pbTermSet_Along(&tr->terms, &b.observed[i], tr->ctrl_bar);

  pbContext_Free(tr->ctx, b.memory);

  return status;
}

static pbStatus loss_of(const Job *job, pbTrajectory *tr, int t, double *theta_bar) {
  PB_TRY(tr->ran_ahead ? tr->ahead_status : pbTrajectory_Forward(tr));
  pbTrajectory_ClearBars(tr);
  PB_TRY(pbTrajectory_Value(tr, job->gradient, tr->ctrl_bar));
  if (!job->gradient) return pb_ok;
  if (job->forward) return push_loss(tr, job->z, t);

  // In the thread's memory, from zero: the sum takes it from there.
  memset(theta_bar, 0, job->task->ntheta * sizeof *theta_bar);

  return pbTrajectory_PullBack(tr, &job->task->truncation, theta_bar, NULL);
}

static const double *loss_leaf(void *user, int t, int worker) {
  const Job *job = user;
  pbTask *task = job->task;
  pbTrajectory *tr = &task->trajectories[t];
  double *theta_bar = task->bars + (size_t)worker * task->ntheta;
  if (is_lost(task, t)) return NULL;

  // The caller's thread may ask whether to go on.
  tr->worker = worker;
  note(tr, t, loss_of(job, tr, t, theta_bar));

  return tr->status == pb_ok && job->gradient && !job->forward ? theta_bar : NULL;
}

static void add(double *to, const double *from, int count) {
  for (int i = 0; i < count; i++) to[i] += from[i];
}

static pbStatus told(const pbTask *task, const pbTrajectory *tr, pbStatus status) {
  return status == pb_ok ? pb_ok : pbContext_Fail(task->ctx, status, "%s", pbContext_Error(tr->ctx));
}

// What a trajectory adds to the gradient by the unknowns but for shared parameters.
static void add_trajectory(const Job *job, int t, double *gradient) {
  pbTask *task = job->task;
  if (job->forward) add(gradient, task->trajectories[t].along, task->n);
  else pbTask_PullTrajectory(task, t, gradient);
}

// All trajectories at once. Parameters are shared by them: pulled back once, from the sum of their cotangents.
static pbStatus loss_at_once(Job *job, double *value, double *gradient) {
  pbTask *task = job->task;
  bool pulled = gradient && !job->forward;
  begin(task);
  ask_while_waiting(task, true);
  pbGroupSum_Run(&task->sum, &task->groups, pulled ? task->ntheta : 0, loss_leaf, job);
  ask_while_waiting(task, false);
  PB_TRY(end(task));

  // In the order of the trajectories, whoever was first.
  for (int t = 0; t < task->trajectory_count; t++) {
    if (task->trajectories[t].test) continue;
    *value += task->trajectories[t].loss;
    if (gradient) add_trajectory(job, t, gradient);
    pbTask_NoteWorld(task, t, 0);
  }
  if (!pulled) return pb_ok;

  memset(task->theta_bar, 0, task->ntheta * sizeof *task->theta_bar);
  pbGroupSum_Add(&task->sum, 0, task->ntheta, task->theta_bar);

  return pbTask_PullTheta(task, job->z, gradient);
}

// Draws make other parameters of each world, in the task's memory: one after the other, each pulled back by itself.
static pbStatus loss_of_world(const Job *job, int t, int world, double *value, double *gradient) {
  pbTask *task = job->task;
  pbTrajectory *tr = &task->trajectories[t];
  tr->worker = 0;

  PB_TRY(pbTask_BeginWorld(task, t, world));
  PB_TRY(told(task, tr, loss_of(job, tr, t, task->theta_bar)));
  *value += tr->loss;
  pbTask_NoteWorld(task, t, world);
  if (!gradient) return pb_ok;

  add_trajectory(job, t, gradient);

  return job->forward ? pb_ok : pbTask_PullTheta(task, job->z, gradient);
}

static pbStatus loss_by_worlds(const Job *job, double *value, double *gradient) {
  pbTask *task = job->task;
  int worlds = pbTask_Worlds(task);
  int entries = gradient ? task->n : 0;
  begin(task);
  for (int t = 0; t < task->trajectory_count; t++) {
    if (task->trajectories[t].test) continue;
    for (int w = 0; w < worlds; w++) PB_TRY(loss_of_world(job, t, w, value, gradient));
  }

  // Of several worlds the mean.
  *value /= worlds;
  for (int i = 0; i < entries; i++) gradient[i] /= worlds;

  return pb_ok;
}

pbStatus pbTask_EachLoss(pbTask *task, const double *z, double *value, double *gradient) {
  Job job = {.task = task, .z = z, .gradient = gradient != NULL, .forward = is_forward(task, 1)};
  *value = 0;
  if (gradient) memset(gradient, 0, (size_t)task->n * sizeof *gradient);

  PB_TRY(pbTask_Sampled(task) ? loss_by_worlds(&job, value, gradient) : loss_at_once(&job, value, gradient));

  return check_derivatives(task, task->ctx, z, gradient, 1);
}

void pbTask_ForAll(pbTask *task, void (*each)(void *user, int t, int worker), void *user) {
  begin(task);
  ask_while_waiting(task, true);
  pbGroups_Each(&task->groups, task->pool, each, user);
  ask_while_waiting(task, false);
}

// ---- those that test the answer ---------------------------------------------------------------------------------------
static pbStatus test_trajectory(pbTask *task, int t, double *value) {
  pbTrajectory *tr = &task->trajectories[t];
  int worlds = pbTask_Worlds(task);
  tr->worker = 0;

  for (int w = 0; w < worlds; w++) {
    PB_TRY(pbTask_BeginWorld(task, t, w));
    pbStatus status = pbTrajectory_Forward(tr);
    if (status == pb_ok) status = pbTrajectory_Value(tr, false, NULL);
    PB_TRY(told(task, tr, status));
    *value += tr->loss / worlds;
    pbTask_NoteWorld(task, t, w);
  }

  return pb_ok;
}

pbStatus pbTask_Test(pbTask *task, const double *z, double *value) {
  *value = NAN;
  task->same = false;
  for (int t = 0; t < task->trajectory_count; t++) {
    if (!task->trajectories[t].test) continue;
    if (isnan(*value)) {
      PB_TRY(pbTask_Apply(task, z));
      begin(task);
      *value = 0;
    }
    PB_TRY(test_trajectory(task, t, value));
  }

  return pb_ok;
}

// ---- residuals ------------------------------------------------------------------------------------------------------
static pbStatus push_residuals(pbTrajectory *tr, const double *z, int t, bool bare, double *J) {
  const pbTask *task = tr->task;
  Batch b = {0};
  pbStatus status = allocate_batch(task, tr, &b);

  // Columns of J: a batch of tangents rides on one run of the trajectory. What is of other trajectories has none here.
  int count = 0, next = 0;
  if (status == pb_ok) memset(J, 0, pbTermSet_Samples(&tr->terms) * (size_t)task->n * sizeof *J);
  while (status == pb_ok && next < task->n) {
    status = batch_run(task, z, t, &b, &next, &count);
    if (status != pb_ok) break;
    for (int i = 0; i < count; i++)
      pbTermSet_Push(&tr->terms, tr->ctrl_now, &b.observed[i], bare, J, (size_t)task->n, (size_t)b.unknown[i]);
  }

  pbContext_Free(tr->ctx, b.memory);

  return status;
}

// One pullback a residual, on the caller's thread.
static pbStatus pull_residuals(pbTrajectory *tr, const double *z, int t, bool bare, double *J) {
  pbTask *task = tr->task;
  size_t m = pbTermSet_Samples(&tr->terms);
  tr->worker = 0;

  for (size_t k = 0; k < m; k++) {
    double *row = J + k * (size_t)task->n;
    memset(row, 0, (size_t)task->n * sizeof *row);
    memset(task->theta_bar, 0, task->ntheta * sizeof(double));
    pbTrajectory_ClearBars(tr);
    pbTermSet_PullResidual(&tr->terms, tr->ctrl_now, k, bare, tr->ctrl_bar);

    pbStatus status = pbTrajectory_PullBack(tr, &task->truncation, task->theta_bar, NULL);
    if (status != pb_ok) return pbContext_Fail(task->ctx, status, "%s", pbContext_Error(tr->ctx));
    pbTask_PullTrajectory(task, t, row);
    PB_TRY(pbTask_PullTheta(task, z, row));
  }

  return check_derivatives(task, task->ctx, z, J, m);
}

// Rows of residuals of a trajectory, from `row` on. A world's are those of the mean over all.
static pbStatus residuals_of(const Job *job, pbTrajectory *tr, int t, size_t row) {
  size_t n = (size_t)job->task->n;
  if (!job->again) PB_TRY(pbTrajectory_Forward(tr));
  PB_TRY(pbTrajectory_Value(tr, job->J || job->taker, NULL));
  if (job->r) pbTermSet_Write(&tr->terms, tr->ctrl_now, job->bare, job->r + row);
  if (job->taker) return job->taker->take(job->taker->user, t);
  if (!job->J || !job->forward) return pb_ok;

  // Rows of their own: no other thread writes there.
  PB_TRY(push_residuals(tr, job->z, t, job->bare, job->J + row * n));

  return check_derivatives(job->task, tr->ctx, job->z, job->J + row * n, pbTermSet_Samples(&tr->terms));
}

static void residuals_task(void *user, int t, int worker) {
  const Job *job = user;
  pbTrajectory *tr = &job->task->trajectories[t];
  if (is_lost(job->task, t)) return;  // the first to fail is known

  tr->worker = worker;
  note(tr, t, residuals_of(job, tr, t, tr->first_residual));
}

static pbStatus residuals_at_once(Job *job, double *value) {
  pbTask *task = job->task;
  begin(task);
  ask_while_waiting(task, true);
  pbGroups_Each(&task->groups, task->pool, residuals_task, job);
  ask_while_waiting(task, false);
  PB_TRY(end(task));

  // By pullbacks the rows of all trajectories are made here: each needs theta_bar.
  for (int t = 0; t < task->trajectory_count; t++) {
    pbTrajectory *tr = &task->trajectories[t];
    if (tr->test) continue;
    *value += tr->loss;
    pbTask_NoteWorld(task, t, 0);
    if (job->J && !job->forward) PB_TRY(pull_residuals(tr, job->z, t, job->bare, job->J + tr->first_residual * (size_t)task->n));
  }

  return pb_ok;
}

static pbStatus residuals_of_world(const Job *job, int t, int world, double *value) {
  pbTask *task = job->task;
  pbTrajectory *tr = &task->trajectories[t];
  size_t n = (size_t)task->n;
  size_t m = pbTermSet_Residuals(&tr->terms);
  size_t row = tr->first_residual + (size_t)world * m;
  size_t entries = job->J ? m * n : 0;
  double part = sqrt(1.0 / pbTask_Worlds(task));
  tr->worker = 0;

  PB_TRY(pbTask_BeginWorld(task, t, world));
  PB_TRY(told(task, tr, residuals_of(job, tr, t, row)));
  *value += tr->loss;
  pbTask_NoteWorld(task, t, world);
  if (job->J && !job->forward) PB_TRY(pull_residuals(tr, job->z, t, false, job->J + row * n));

  // The sum of their squares is the mean of the worlds'.
  for (size_t i = 0; i < m; i++) job->r[row + i] *= part;
  for (size_t i = 0; i < entries; i++) job->J[row * n + i] *= part;

  return pb_ok;
}

pbStatus pbTask_EachResidual(pbTask *task, const double *z, bool again, double *value, double *r, double *J) {
  Job job = {.task = task, .z = z, .forward = is_forward(task, task->m), .again = again, .r = r, .J = J};
  int worlds = pbTask_Worlds(task);
  *value = 0;
  if (!pbTask_Sampled(task)) return residuals_at_once(&job, value);

  begin(task);
  for (int t = 0; t < task->trajectory_count; t++) {
    if (task->trajectories[t].test) continue;
    for (int w = 0; w < worlds; w++) PB_TRY(residuals_of_world(&job, t, w, value));
  }

  *value /= worlds;

  return pb_ok;
}

pbStatus pbTask_EachTaken(pbTask *task, const double *z, bool again, double *value, double *r, const pbTaskTaker *taker) {
  Job job = {.task = task, .z = z, .again = again, .r = r, .taker = taker};
  PB_ASSERT(!pbTask_Sampled(task));
  *value = 0;
  return residuals_at_once(&job, value);
}

pbStatus pbTask_EachDeviation(pbTask *task, const double *z, double *d, double *J) {
  double value = 0;
  size_t samples = 0;
  for (int t = 0; t < task->trajectory_count; t++) {
    if (!task->trajectories[t].test) samples += pbTermSet_Samples(&task->trajectories[t].terms);
  }

  Job job = {.task = task, .z = z, .forward = is_forward(task, samples), .bare = true, .r = d, .J = J};

  return residuals_at_once(&job, &value);
}
