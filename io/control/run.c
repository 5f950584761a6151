// A controller at work: the state of the plant is measured, a plan made where it is time, a control sent, and the plant goes on.
// Tests: tests/oracle/test_control.py.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <pullback/io.h>
#include <pullback/random.h>

#include "base/context.h"
#include "io/control/control.h"
#include "io/progress.h"

static const double ample = 1e-6;  // of a step, that times may be off by rounding

typedef struct Run {
  pbContext *ctx;
  pbControl *control;
  const pbControlOptions *options;
  pbControlResult *result;
  pbPlant plant;
  pbMpc *mpc;
  pbRng rng;
  pbTicker ticker;
  double interval, duration, planned, *measured, *off;  // planned: when the last plan began; of the plan's model
  double *queue, *ctrl;                                 // controls that do not act yet (waiting + 1, nu); the one that is decided
  long waiting;                                         // steps by which controls come later
  double began, saved, saving;                          // by the clock: the run, the last time it was saved, what that took
  const double *iterations, *starts;                    // of a record: of its plans, the steps that these began at
  int recorded;
  const pbArrays *record;  // NULL: none
} Run;

// ---- before it begins -------------------------------------------------------------------------------------------------------
static pbStatus begin_plant(Run *r) {
  const pbControl *c = r->control;
  const pbControlOptions *o = r->options;
  if (o->plant) {
    if (c->world)
      return pbContext_Fail(r->ctx, pb_bad_argument, "%s: control.plant: the plant is another process; expected no model of it",
                            c->task->name);
    if (c->push_count)
      return pbContext_Fail(r->ctx, pb_bad_argument, "%s: control.pushes: another process cannot be pushed", c->task->name);
    const pbPlantWait wait = {c->silence, o->progress, o->user};
    return pbPlant_OfProcess(r->ctx, c->task, o->plant, &wait, &r->plant);
  }

  const pbTask *world = c->world ? c->world : c->task;
  return pbPlant_OfModel(r->ctx,
                         &(pbPlantWorld){.model = world->model,
                                         .theta = world->theta,
                                         .start = c->start,
                                         .pushes = c->pushes,
                                         .push_count = c->push_count,
                                         .notes = &r->control->log.notes},
                         &r->plant);
}

static bool is_whole(double times) { return fabs(times - round(times)) <= 1e-6 * fmax(times, 1); }

static pbStatus check_length(const Run *r) {
  const pbModel *model = r->plant.model;
  double steps = r->duration / r->plant.timestep, most = (double)PB_ARRAY_LIMIT / sizeof(double);
  double width =
      pbModel_StateSize(model) + pbModel_Size(model, "nu") + (r->plant.sensordata ? pbModel_Size(model, "nsensordata") : 0);
  if (steps < 1 - ample)
    return pbContext_Fail(r->ctx, pb_bad_input,
                          "%s: control.duration: expected a step of the plant (%.9g s) at least, found %.9g s",
                          r->control->task->name, r->plant.timestep, r->duration);
  if (steps * width <= most) return pb_ok;
  return pbContext_Fail(r->ctx, pb_capacity,
                        "%s: control.duration: the record of %.0f steps needs %.0f MiB, at most %zu MiB are allowed",
                        r->control->task->name, steps, steps * width * sizeof(double) / 1048576, PB_ARRAY_LIMIT >> 20);
}

static pbStatus begin_times(Run *r) {
  const pbControl *c = r->control;
  const pbMpcPlan plan = pbMpc_Get(r->mpc);
  double h = r->plant.timestep;
  r->interval = c->interval > 0 ? c->interval : fmax(plan.timestep, h);
  r->duration = c->duration > 0 ? c->duration : plan.steps * plan.timestep;
  r->result->interval = r->interval;

  if (!is_whole(r->interval / h) || r->interval < (1 - ample) * h)
    return pbContext_Fail(r->ctx, pb_bad_input,
                          "%s: control.interval: expected a multiple of the plant's time step %.9g s, found %.9g s%s",
                          c->task->name, h, r->interval, c->interval > 0 ? "" : " (the time step of the plan)");
  if (!is_whole(c->delay / h))
    return pbContext_Fail(r->ctx, pb_bad_input,
                          "%s: control.delay: expected a multiple of the plant's time step %.9g s, found %.9g s", c->task->name,
                          h, c->delay);
  if (c->delay / h > 1e6)
    return pbContext_Fail(r->ctx, pb_bad_input, "%s: control.delay: more than a million steps", c->task->name);
  r->waiting = lround(c->delay / h);
  return check_length(r);
}

// Before a control has come through, that of the task's start acts.
static pbStatus begin_numbers(Run *r) {
  const pbMpcPlan plan = pbMpc_Get(r->mpc);
  size_t nu = (size_t)plan.nu, waiting = (size_t)r->waiting;
  r->measured = pbContext_AllocArray(r->ctx, (size_t)plan.nx + 1, sizeof(double));
  r->off = pbContext_AllocArray(r->ctx, (size_t)plan.n + 1, sizeof(double));
  r->ctrl = pbContext_AllocArray(r->ctx, nu + 1, sizeof(double));
  r->queue = pbContext_AllocArray(r->ctx, (waiting + 1) * nu + 1, sizeof(double));
  if (!r->measured || !r->off || !r->ctrl || !r->queue) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for a controller");

  memcpy(r->measured, plan.states, (size_t)plan.nx * sizeof *r->measured);
  for (size_t k = 0; k < waiting; k++) memcpy(r->queue + k * nu, plan.ctrl, nu * sizeof *r->queue);
  return pb_ok;
}

// ---- a record that is repeated ----------------------------------------------------------------------------------------------
static pbStatus refuse(const Run *r, const char *why) {
  return pbContext_Fail(r->ctx, pb_bad_input, "%.400s: %s", r->options->replay, why);
}

static pbStatus check_record(Run *r, const pbArrays *set) {
  const pbArray *iterations = pbArrays_Find(set, "plan/iterations");
  if (!iterations || iterations->type != pb_arrayReal || iterations->ndim != 1)
    return refuse(r, "expected the record of `pullback control`: it has no plans");
  size_t count = iterations->count;
  r->iterations = iterations->reals;
  r->starts = pbArrays_Reals(set, "plan/step", count);
  if (!r->starts || count > 100000000) return refuse(r, "the steps of its plans are missing");
  r->recorded = (int)count;

  double before = -1;
  for (size_t i = 0; i < count; i++) {
    bool good = r->iterations[i] >= 0 && r->iterations[i] <= 1e6 && r->starts[i] > before && r->starts[i] <= 1e15;
    if (!good) return refuse(r, "expected plans one after another, of 0 to 1000000 iterations");
    before = r->starts[i];
  }
  return pb_ok;
}

// It has the state that this run is at.
static pbStatus check_state(const Run *r, const pbArrays *set) {
  size_t row = (size_t)r->plant.steps;
  for (int i = 0; i < pbModel_StateFieldCount(r->plant.model); i++) {
    pbStateField field = pbModel_StateFieldAt(r->plant.model, i);
    const pbArray *rows = pbArrays_Find(set, field.name);
    size_t width = (size_t)field.size;
    if (!width || strcmp(field.name, "qacc_warmstart") == 0) continue;
    bool good = rows && rows->type == pb_arrayReal && rows->ndim >= 1 && rows->shape[0];
    good = good && rows->count == rows->shape[0] * width;
    if (good && row >= rows->shape[0]) continue;
    if (good && memcmp(rows->reals + row * width, r->plant.x + field.offset, width * sizeof(double)) == 0) continue;
    if (row == 0)
      return pbContext_Fail(r->ctx, pb_bad_input, "%.400s: the record of another run: it begins with another %s",
                            r->options->replay, field.name);
    return pbContext_Fail(r->ctx, pb_bad_input, "%.400s: the record of another run: after step %zu it has another %s",
                          r->options->replay, row - 1, field.name);
  }
  return pb_ok;
}

// ---- measuring, planning ------------------------------------------------------------------------------------------------------
static void measure(Run *r) {
  const pbControl *c = r->control;
  const pbModel *model = c->task->model;
  pbPlant_CopyState(r->plant.model, r->plant.x, model, r->measured);
  if (!c->noise) return;

  // as many numbers whatever the deviations are
  for (int i = 0; i < pbModel_TangentSize(model); i++) r->off[i] = c->noise[i] * pbRng_Normal(&r->rng);
  pbState_Move(model, r->measured, r->off, 1);
}

static pbMpcLimits limits_of(const Run *r) {
  const pbControl *c = r->control;
  int k = r->control->log.count;
  if (k < r->recorded) return (pbMpcLimits){.iterations = (int)fmax(r->iterations[k], 1)};

  // as many as fit, unless it is said how many
  int most = c->seconds > 0 ? 100 : 1;
  return (pbMpcLimits){.iterations = c->iterations ? c->iterations : most, .seconds = c->seconds};
}

static bool is_numerical(pbStatus status) { return pbStatus_ExitCode(status) == pbStatus_ExitCode(pb_not_finite); }

static pbStatus plan(Run *r) {
  pbControlLog *log = &r->control->log;
  const pbMpcLimits limits = limits_of(r);
  bool first = log->count == 0, repeated = log->count < r->recorded;
  pbDecision d = {.step = r->plant.steps, .time = r->plant.time};
  if (repeated && r->starts[log->count] != (double)d.step)
    return refuse(r, "the record of another run: its plans begin at other steps");

  // one that cannot be run from here leaves the last one in its place
  pbStatus status = pbMpc_Plan(r->mpc, first ? 0 : r->plant.time - r->planned, r->measured, &limits, &d.news);
  if (status != pb_ok && !is_numerical(status)) return status;
  d.verdict = d.news.converged ? pb_planConverged : pb_planImproved;
  if (status != pb_ok) d.verdict = pb_planFailed;
  if (status != pb_ok && !(d.reason = pbContext_CopyText(r->ctx, pbContext_Error(r->ctx))))
    return pbContext_Fail(r->ctx, pb_no_memory, "no memory for a record");
  r->result->fallbacks += status != pb_ok;
  r->result->replayed += repeated;
  r->result->late += d.news.seconds > r->interval;
  r->result->plans++;
  d.fallbacks = r->result->fallbacks;
  d.age = pbMpc_Get(r->mpc).age;
  r->planned = r->plant.time;

  status = pbControlLog_Decide(r->ctx, log, &d);
  if (status != pb_ok) pbContext_Free(r->ctx, d.reason);
  return status;
}

// The plan's own control, without an answer to how far the state is off.
static void follow(const Run *r, double later) {
  const pbMpcPlan p = pbMpc_Get(r->mpc);
  double at = (p.age + later) / p.timestep;
  int k = (int)fmin(floor(at + ample), p.steps - 1);
  memcpy(r->ctrl, p.ctrl + (size_t)k * (size_t)p.nu, (size_t)p.nu * sizeof *r->ctrl);
}

static pbStatus decide(Run *r) {
  pbControlLog *log = &r->control->log;
  double h = r->plant.timestep;
  if (log->count == 0 || r->plant.time - r->planned >= r->interval - ample * h) PB_TRY(plan(r));

  double begun = pb_seconds(), later = r->plant.time - r->planned;

  // the plan's control, and its answer to where the plant is
  if (!r->control->feedback) follow(r, later);
  else if (pbMpc_Feedback(r->mpc, later, r->measured, r->ctrl) != pb_ok)
    return pbContext_Fail(r->ctx, pb_not_finite, "the controller, step %ld: what was measured is no state", r->plant.steps);
  pbDecision *last = &log->decisions[log->count - 1];
  last->feedback = fmax(last->feedback, pb_seconds() - begun);

  for (size_t a = 0; a < log->nu; a++) {
    if (!isfinite(r->ctrl[a]))
      return pbContext_Fail(r->ctx, pb_not_finite, "the controller, step %ld: control %zu is not finite", r->plant.steps, a);
  }
  return pb_ok;
}

// ---- steps --------------------------------------------------------------------------------------------------------------------
// The control that acts now; the one that was decided waits behind those before it.
static const double *delayed(const Run *r) {
  size_t nu = r->control->log.nu, slots = (size_t)r->waiting + 1, step = (size_t)r->plant.steps;
  memcpy(r->queue + (step + slots - 1) % slots * nu, r->ctrl, nu * sizeof *r->queue);
  return r->queue + step % slots * nu;
}

// Tells how far it is; pb_interrupted where it shall end.
static pbStatus look_up(Run *r) {
  double h = r->plant.timestep;
  int64_t done = (int64_t)(r->result->time / h + ample), total = (int64_t)fmin(ceil(r->duration / h - ample), 1e15);
  if (!pbTicker_Stops(&r->ticker, done, total)) return pb_ok;
  return pbContext_Fail(r->ctx, pb_interrupted, "interrupted at %.6g of %.6g s", r->result->time, r->duration);
}

// A step begins no earlier than its time by the clock.
static pbStatus keep_time(Run *r) {
  double due = r->began + (double)r->plant.steps * r->plant.timestep, now = pb_seconds();
  r->result->behind = fmax(r->result->behind, now - due);
  for (; now < due; now = pb_seconds()) {
    double left = fmin(due - now, 0.05);
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * left)}, NULL);
    PB_TRY(look_up(r));
  }
  return pb_ok;
}

// Sensors of the last state, with the last control.
static pbStatus observe_last(Run *r) {
  pbControlLog *log = &r->control->log;
  pbScratch *scratch;
  if (!log->ns || !log->steps) return pb_ok;
  const pbInput input = {.ctrl = log->ctrl + (size_t)(log->steps - 1) * log->nu};

  PB_TRY(pbScratch_Create(r->ctx, log->model, NULL, &scratch));
  pbStatus status = pbStep_Observe(log->model, log->theta, log->x + (size_t)log->steps * log->nx, &input, scratch,
                                   log->sensordata + (size_t)log->steps * log->ns);
  if (status != pb_ok) pbContext_Fail(r->ctx, status, "the plant, its last state: %s", pbScratch_Error(scratch));
  pbScratch_Destroy(scratch);
  return status;
}

static pbStatus save(Run *r) {
  double begun = pb_seconds();
  PB_TRY(observe_last(r));
  PB_TRY(pbControlLog_Save(r->ctx, &r->control->log, r->options->record, r->options->table));
  r->saved = pb_seconds();
  r->saving = r->saved - begun;
  return pb_ok;
}

static void keep_sensors(const Run *r) {
  pbControlLog *log = &r->control->log;
  if (log->ns)
    memcpy(log->sensordata + (size_t)(log->steps - 1) * log->ns, r->plant.sensordata, log->ns * sizeof *log->sensordata);
}

static pbStatus make_step(Run *r) {
  pbControlLog *log = &r->control->log;
  if (r->record) PB_TRY(check_state(r, r->record));
  measure(r);
  PB_TRY(decide(r));
  const double *ctrl = delayed(r);
  if (r->control->real_time) PB_TRY(keep_time(r));
  PB_TRY(pbControlLog_Add(r->ctx, log, &r->plant, ctrl));

  // a step that cannot be made is none of the record's
  pbStatus status = r->plant.kind->step(&r->plant, ctrl);
  if (status == pb_ok) keep_sensors(r);
  else log->steps--;
  if (status != pb_ok) return status;

  // without room for the state after it there is no such step
  status = pbControlLog_Add(r->ctx, log, &r->plant, NULL);
  if (status != pb_ok) log->steps--;
  return status;
}

static pbStatus go_on(Run *r) {
  double h = r->plant.timestep, first = r->plant.time;
  r->began = r->saved = pb_seconds();
  r->ticker = pbTicker_Begin("control", r->options->progress, r->options->user);

  while (r->plant.time - first < r->duration - ample * h && !r->plant.done) {
    PB_TRY(look_up(r));
    PB_TRY(make_step(r));
    r->result->time = r->plant.time - first;
    if (pb_seconds() - r->saved >= fmax(1, 10 * r->saving)) PB_TRY(save(r));
  }
  return pb_ok;
}

// What was done is written however it ended; the first error is the one that is told.
static pbStatus finish(Run *r, pbStatus status) {
  char why[1200];
  snprintf(why, sizeof why, "%.1100s", pbContext_Error(r->ctx));
  pbStatus written = save(r);
  r->result->steps = r->control->log.steps;
  r->result->done = r->plant.done;
  if (written == pb_ok) written = pbControlLog_Times(r->ctx, &r->control->log, r->result);
  if (status == pb_ok) return written;
  if (written == pb_ok)
    return pbContext_Fail(r->ctx, status, "%s%s", why, r->options->record ? "; what was done is written" : "");

  char unwritten[600];
  snprintf(unwritten, sizeof unwritten, "%.590s", pbContext_Error(r->ctx));
  return pbContext_Fail(r->ctx, status, "%s; not all of what was done could be written: %s", why, unwritten);
}

static pbStatus begin(Run *r, const pbArrays *record) {
  pbControl *c = r->control;
  const pbControlOptions *o = r->options;
  PB_TRY(pbTask_UsePool(c->task, o->pool));
  PB_TRY(pbMpc_Create(r->ctx, c->task, &r->mpc));
  PB_TRY(begin_plant(r));
  PB_TRY(begin_times(r));
  PB_TRY(begin_numbers(r));
  PB_TRY(pbControlLog_Begin(r->ctx, &r->plant, c->task->name, &c->log));
  if (record) PB_TRY(check_record(r, record));

  uint64_t seed = o->has_seed ? o->seed : c->seed;
  r->rng = pbRng_Seed(seed);
  PB_TRY(r->plant.kind->reset(&r->plant, seed));
  if (record) PB_TRY(check_state(r, record));
  r->record = record;
  return pbControlLog_Add(r->ctx, &c->log, &r->plant, NULL);
}

static void end(Run *r) {
  pbPlant_Destroy(&r->plant);
  pbMpc_Destroy(r->mpc);
  double *numbers[] = {r->measured, r->off, r->ctrl, r->queue};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) pbContext_Free(r->ctx, numbers[i]);
}

pbStatus pbControl_Run(pbControl *control, const pbControlOptions *options, pbControlResult *result) {
  static const pbControlOptions none;
  Run r = {.ctx = control->ctx, .control = control, .options = options ? options : &none, .result = result};
  pbArrays *record = NULL;
  *result = (pbControlResult){.steps = 0};
  if (r.options->plant && r.options->replay)
    return pbContext_Fail(r.ctx, pb_bad_argument, "another process cannot be repeated: a record is for plants that are models");
  if (r.options->replay) PB_TRY(pbArrays_Load(r.ctx, r.options->replay, &record));

  pbStatus status = begin(&r, record);
  if (status == pb_ok) status = finish(&r, go_on(&r));
  end(&r);
  pbArrays_Destroy(record);

  // the pool is the caller's, for this run alone
  pbStatus alone = pbTask_UsePool(control->task, NULL);
  return status != pb_ok ? status : alone;
}
