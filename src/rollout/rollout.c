// The driver: plays the actions of the schedule on the world's step. What is computed again is computed from the same bits
// by the same call, so every budget gives the same gradient.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/context.h"
#include "rollout/rollout.h"
#include "model/model.h"
#include "step/scratch.h"

static void layout(pbArena *a, pbRollout *r) {
  size_t nx = (size_t)r->nx, n = (size_t)r->n, record = (size_t)r->nrecord;
  r->records = pbArena_Take(a, (size_t)r->plan.leaf, record * sizeof(double));
  r->cached = pbArena_Take(a, r->plan.cached_bytes, 1);
  r->cached_at = pbArena_Take(a, (size_t)r->plan.leaf, sizeof(size_t));
  r->snapshots = pbArena_Take(a, (size_t)r->plan.snapshots, nx * sizeof(double));
  r->held = pbArena_Take(a, (size_t)r->plan.snapshots, sizeof(int));
  r->final_record = pbArena_Take(a, record, sizeof(double));
  r->x = pbArena_Take(a, nx, sizeof(double));
  r->x_before = pbArena_Take(a, nx, sizeof(double));
  r->x_final = pbArena_Take(a, nx, sizeof(double));
  r->costate = pbArena_Take(a, n, sizeof(double));
  r->costate_before = pbArena_Take(a, n, sizeof(double));
}

static void sizes(pbRollout *r, const pbModel *m) {
  r->nx = pbModel_StateSize(m);
  r->n = pbModel_TangentSize(m);
  r->nrecord = pbTape_Size(m);
  r->nv = m->nv;
  r->na = m->na;
  r->nu = pb_controls(m);
  r->ns = m->nsensordata;
  r->nbody = m->nbody;
  r->nsite = m->nsite;
  r->np = 3 * pbModel_PointCount(m);
  r->ntheta = pbModel_ParamSize(m);
  r->xpos_by_observing = m->integrator == pb_intRK4 || pbModel_ContactSettings(m).method == pb_contactImpact;
}

pbStatus pbRollout_Create(pbContext *ctx, const pbModel *model, const pbRolloutPlan *plan, const pbCapacity *capacity,
                          pbRollout **rollout) {
  *rollout = NULL;
  pbRollout *r = pbContext_Alloc(ctx, sizeof *r);
  if (!r) return pbContext_Fail(ctx, pb_no_memory, "no memory for a rollout");
  *r = (pbRollout){.ctx = ctx, .model = model, .plan = *plan, .bound = 1e10};
  if (capacity) r->capacity = *capacity;
  sizes(r, model);
  pbArena a = pbArena_Measure();
  layout(&a, r);
  size_t needed = pbArena_Needed(&a);
  pbStatus status = needed == SIZE_MAX || !(r->memory = pbContext_Alloc(ctx, needed))
                        ? pbContext_Fail(ctx, pb_no_memory, "no memory for the tape of a rollout: %zu bytes", plan->planned_bytes)
                        : pbScratch_Create(ctx, model, capacity, &r->scratch);

  if (status != pb_ok) {
    pbRollout_Destroy(r);
    return status;
  }

  a = pbArena_Over(r->memory, needed);
  layout(&a, r);
  *rollout = r;

  return pb_ok;
}

void pbRollout_Destroy(pbRollout *r) {
  if (!r) return;
  pbScratch_Destroy(r->scratch);
  pbSmooth_Destroy(r);
  pbChoice_Destroy(r);
  pbContext_Free(r->ctx, r->memory);
  pbContext_Free(r->ctx, r);
}

void pbRollout_OnProgress(pbRollout *r, pbProgressFunction function, void *user) {
  r->ticker.function = function;
  r->ticker.user = user;
}

void pbRollout_SetBound(pbRollout *r, double bound) { r->bound = bound; }

// Before anything runs: the model is as it was when the rollout was made, and theta can be read.
pbStatus pbRollout_Ready(pbRollout *r) {
  if (pbScratch_Stale(r->scratch, r->model))
    return pbContext_Fail(
        r->ctx, pb_bad_argument,
        "this rollout was made for the model as it was before its options or contact settings changed; make it anew");
  pbStatus status = pbScratch_Trust(r->scratch, r->model, r->theta);
  if (status != pb_ok) return pbContext_Fail(r->ctx, status, "%s", pbScratch_Error(r->scratch));
  if (r->gradient == pb_gradientSmooth && !pbSmooth_Fits(r))
    return pbContext_Fail(r->ctx, pb_bad_argument,
                          "smooth_kappa or smooth_onset has changed since the gradient 'smooth' was chosen; choose it again");

  return r->smooth_scratch ? pbScratch_Trust(r->smooth_scratch, r->smooth, r->theta) : pb_ok;
}

// ---- one step -------------------------------------------------------------------------------------------------------
static int row_at(const pbRollout *r, int k) {
  return r->input.constant || k == 0 ? 0 : k < r->plan.steps ? k : r->plan.steps - 1;
}
static const double *row(const double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }

pbInput pbRollout_InputAt(const pbRollout *r, int k) {
  if (r->plan.steps == 0 && !r->input.constant) return (pbInput){NULL, NULL, NULL};
  k = row_at(r, k);
  return (pbInput){row(r->input.ctrl, k, r->nu), row(r->input.qfrc, k, r->nv), row(r->input.xfrc, k, 6 * r->nbody)};
}

pbStatus pbRollout_StepFailed(pbRollout *r, pbStatus status, int k, const char *what) {
  return pbContext_Fail(r->ctx, status, "step %d of %d (time %.9g): %s", k, r->plan.steps, k * r->timestep, what);
}

pbStatus pbRollout_Stopped(const pbRollout *r, int k) {
  return pbContext_Fail(r->ctx, pb_interrupted, "interrupted at step %d of %d", k, r->plan.steps);
}

static bool within(const double *x, int n, double bound) {
  bool good = true;
  for (int i = 0; i < n; i++) good &= fabs(x[i]) <= bound;  // false for NaN
  return good;
}

// Which entry left the bounds, for the message.
static pbStatus out_of_bounds(pbRollout *r, const double *x, int k) {
  char text[320], name[160];
  int i = 0;

  while (fabs(x[i]) <= r->bound) i++;
  snprintf(text, sizeof text,
           "%s became %g: the state grows beyond bounds (unstable motion; a smaller time step or more damping helps)",
           pbState_EntryName(r->model, i, name, sizeof name), x[i]);

  return pbRollout_StepFailed(r, pb_not_finite, k, text);
}

pbStatus pbRollout_StepChecked(pbRollout *r, const double *theta, double *x, const pbInput *input, int k, double *sensordata) {
  pbStatus status;
  do {
    status = pbStep_Forward(r->model, theta, x, input, r->scratch, sensordata);
  } while (pbScratch_Grow(r->scratch, &status));
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));

  return within(x, r->nx, r->bound) ? pb_ok : out_of_bounds(r, x, k);
}

const double *pbRollout_SeenField(const pbRollout *r, const char *name) {
  const double *data = NULL;
  int rows, cols;
  return pbScratch_Field(r->scratch, name, &data, &rows, &cols) ? data : NULL;
}

static pbStatus observe(pbRollout *r, const double *x, int k, double *sensordata) {
  pbInput input = pbRollout_InputAt(r, k);
  pbStatus status = pbStep_Observe(r->model, r->theta, x, &input, r->scratch, sensordata);

  return status == pb_ok ? pb_ok : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
}

// ---- forward --------------------------------------------------------------------------------------------------------
// Where the arrays of the caller hold state k; -1: not wanted.
int pbRows_Find(const int *rows, int count, int k) {
  if (!rows) return k;
  int low = 0, high = count - 1;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (rows[middle] < k) low = middle + 1;
    else high = middle;
  }

  return count > 0 && rows[low] == k ? low : -1;
}

pbStatus pbRows_Check(const pbRollout *r, const int *rows, int count) {
  for (int i = 0; rows && i < count; i++)
    if (rows[i] < (i ? rows[i - 1] + 1 : 0) || rows[i] > r->plan.steps)
      return pbContext_Fail(r->ctx, pb_bad_argument, "states to keep: %d (number %d) is not ascending in 0 .. %d", rows[i], i,
                            r->plan.steps);

  return pb_ok;
}

static void put(double *out, int row, int width, const double *data) {
  if (out && data && width > 0) memcpy(out + (size_t)row * (size_t)width, data, (size_t)width * sizeof *data);
}

// What is wanted of state k: a view of the output with every array at its row, empty where nothing is.
static pbRolloutOutput wanted_at(const pbRollout *r, const pbRolloutOutput *out, int k) {
  int row = out ? pbRows_Find(out->rows, out->row_count, k) : -1;
  if (row < 0) return (pbRolloutOutput){0};
  size_t at = (size_t)row;

  return (pbRolloutOutput){.states = out->states ? out->states + at * (size_t)r->nx : NULL,
                           .sensordata = out->sensordata ? out->sensordata + at * (size_t)r->ns : NULL,
                           .xpos = out->xpos ? out->xpos + at * 3 * (size_t)r->nbody : NULL,
                           .site_xpos = out->site_xpos ? out->site_xpos + at * 3 * (size_t)r->nsite : NULL};
}

static void put_positions(const pbRollout *r, const pbRolloutOutput *wanted) {
  if (wanted->xpos) put(wanted->xpos, 0, 3 * r->nbody, pbRollout_SeenField(r, "xpos"));
  if (wanted->site_xpos) put(wanted->site_xpos, 0, 3 * r->nsite, pbRollout_SeenField(r, "site_xpos"));
}

static double *record_of(const pbRollout *r, int k) { return r->records + (size_t)(k - r->leaf_from) * (size_t)r->nrecord; }

// Around a step with `left` steps of its leaf to go: its evaluation, from where there is room for those of all that follow. These
// are read first on the way back, while they are still near the core.
static bool keep(pbRollout *r, int left) {
  size_t room = r->plan.cached_bytes - r->cached_used;
  if (room == 0) return false;
  if (r->cached_used == 0 && pbCached_Guess(r->scratch) > room / (size_t)left) return false;

  return pbCached_Begin(r->scratch, r->cached + r->cached_used, room);
}

static pbStatus save_evaluation(pbRollout *r, int index, bool begun) {
  size_t size = 0;
  if (begun) PB_TRY(pbCached_Save(r->scratch, r->plan.cached_bytes - r->cached_used, &size));
  r->cached_at[index] = size ? r->cached_used : SIZE_MAX;
  r->cached_used += size < r->plan.cached_bytes - r->cached_used ? size : r->plan.cached_bytes - r->cached_used;

  return pb_ok;
}

static void *cached_of(const pbRollout *r, int index) {
  return r->cached_at[index] == SIZE_MAX ? NULL : r->cached + r->cached_at[index];
}

// Step k from r->x. left: steps that are still to be recorded, this one among them; 0: it is not.
static pbStatus advance(pbRollout *r, int k, int left, const pbRolloutOutput *out) {
  pbInput input = pbRollout_InputAt(r, k);
  pbRolloutOutput wanted = wanted_at(r, out, k);

  memcpy(r->x_before, r->x, (size_t)r->nx * sizeof *r->x);
  put(wanted.states, 0, r->nx, r->x);
  bool early = r->xpos_by_observing && (wanted.xpos || wanted.site_xpos);

  if (early) {
    PB_TRY(observe(r, r->x, k, NULL));
    put_positions(r, &wanted);
  }

  bool begun = left > 0 && keep(r, left);
  PB_TRY(pbRollout_StepChecked(r, r->theta, r->x, &input, k, wanted.sensordata));
  if (!early) put_positions(r, &wanted);
  if (left == 0) return pb_ok;
  pbTape_Record(r->model, r->x_before, r->scratch, record_of(r, k));
  pbStatus status = save_evaluation(r, k - r->leaf_from, begun);

  return status == pb_ok ? status : pbRollout_StepFailed(r, status, k, pbStatus_Text(status));
}

// Plays actions up to the next Reverse (returned) or Done. `out` and the certificate only on the first sweep.
static pbStatus sweep(pbRollout *r, pbRolloutOutput *out, bool first, pbScheduleAction *action) {
  size_t bytes = (size_t)r->nx * sizeof *r->x;
  for (;;) {
    pbScheduleAction a = *action = pbSchedule_Next(&r->schedule);
    if (a.kind == pb_scheduleReverse || a.kind == pb_scheduleDone) return pb_ok;
    if (a.kind == pb_scheduleStore) memcpy(r->snapshots + (size_t)a.slot * (size_t)r->nx, r->x, bytes);
    if (a.kind == pb_scheduleRestore) memcpy(r->x, a.slot < 0 ? r->x0 : r->snapshots + (size_t)a.slot * (size_t)r->nx, bytes);
    if (a.kind != pb_scheduleAdvance && a.kind != pb_scheduleRecord) continue;
    bool record = a.kind == pb_scheduleRecord;

    if (record) {
      r->leaf_from = a.from;
      r->cached_used = 0;
    }

    for (int k = a.from; k < a.to; k++) {
      PB_TRY(advance(r, k, record ? a.to - k : 0, first ? out : NULL));
      if (first) {
        pbReport report = pbScratch_Report(r->scratch);
        pbCertificate_Step(&r->seen, &report, pbScratch_WorstRow(r->scratch), k);
        if (out) out->steps_done = k + 1;
      }

      if (pbTicker_Step(&r->ticker)) return pbRollout_Stopped(r, k + 1);
    }
  }
}

static pbStatus read_timestep(pbRollout *r) {
  pbParam timestep;
  PB_TRY(pbModel_Param(r->ctx, r->model, "timestep", &timestep));
  r->timestep = r->theta[timestep.offset];

  return pb_ok;
}

static pbStatus final_state(pbRollout *r, pbRolloutOutput *out) {
  pbRolloutOutput wanted = wanted_at(r, out, r->plan.steps);
  memcpy(r->x_final, r->x, (size_t)r->nx * sizeof *r->x);
  if (out) put(out->final_state, 0, r->nx, r->x);
  put(wanted.states, 0, r->nx, r->x);
  if (!wanted.sensordata && !wanted.xpos && !wanted.site_xpos) return pb_ok;
  PB_TRY(observe(r, r->x, r->plan.steps, wanted.sensordata));
  put_positions(r, &wanted);

  return pb_ok;
}

static void restart(pbRollout *r) {
  memcpy(r->x, r->x0, (size_t)r->nx * sizeof *r->x);
  r->schedule = pbSchedule_Begin(r->plan.steps, r->plan.snapshots, r->plan.leaf, r->held);
}

pbStatus pbRollout_Forward(pbRollout *r, const double *theta, const double *x0, const pbRolloutInput *input,
                           pbRolloutOutput *out) {
  r->theta = theta;
  r->x0 = x0;
  r->input = input ? *input : (pbRolloutInput){0};
  r->ran = r->has_final_record = r->tape_fresh = false;
  r->seen = (pbCertificate){.worst_residual_step = -1,
                            .approach = INFINITY,
                            .event_step = -1,
                            .grazing_step = -1,
                            .simultaneous_step = -1,
                            .penetrating = {-1, -1},
                            .penetration_step = -1,
                            .gaining = {-1, -1},
                            .gain_step = -1,
                            .spot_step = -1,
                            .spot_kink = -1,
                            .most_contacts_step = -1};
  if (out) out->steps_done = 0;
  if (out) PB_TRY(pbRows_Check(r, out->rows, out->row_count));
  PB_TRY(pbRollout_Ready(r));
  PB_TRY(read_timestep(r));
  char text[400];
  if (!pbState_Readable(r->model, x0, text, sizeof text))
    return pbContext_Fail(r->ctx, pb_bad_input, "the initial state: %s", text);
  if (!within(x0, r->nx, r->bound)) return out_of_bounds(r, x0, 0);
  restart(r);
  if (pbTicker_Begin(&r->ticker, "forward", r->plan.steps)) return pbRollout_Stopped(r, 0);
  pbScheduleAction action;
  PB_TRY(sweep(r, out, true, &action));
  // the schedule stands before its first Reverse: Vjp goes on from here
  PB_TRY(final_state(r, out));
  r->ran = r->tape_fresh = true;

  return pb_ok;
}

// ---- reverse --------------------------------------------------------------------------------------------------------
const double *pbCotangent_At(const pbCotangent *c, int width, int k, int steps) {
  if (!c->data || c->count == 0 || width == 0) return NULL;
  if (!c->steps) {
    if (c->count == 1) return k == steps ? c->data : NULL;
    return c->data + (size_t)k * (size_t)width;
  }
  int row = pbRows_Find(c->steps, c->count, k);
  return row < 0 ? NULL : c->data + (size_t)row * (size_t)width;
}

static pbStatus check_cotangent(const pbRollout *r, const pbCotangent *c, const char *name) {
  if (!c->data) return pb_ok;
  if (c->count < 0) return pbContext_Fail(r->ctx, pb_bad_argument, "cotangent of %s: a negative number of rows", name);
  for (int i = 0; c->steps && i < c->count; i++)
    if (c->steps[i] < (i ? c->steps[i - 1] + 1 : 0) || c->steps[i] > r->plan.steps)
      return pbContext_Fail(r->ctx, pb_bad_argument, "cotangent of %s: step %d of row %d is not ascending in 0 .. %d", name,
                            c->steps[i], i, r->plan.steps);
  if (c->steps || c->count <= 1 || c->count == r->plan.steps + 1) return pb_ok;

  return pbContext_Fail(r->ctx, pb_bad_argument, "cotangent of %s: %d rows; 1 (final state) or %d (every state) are meant", name,
                        c->count, r->plan.steps + 1);
}

pbStatus pbRolloutBar_Check(const pbRollout *r, const pbRolloutBar *bar) {
  PB_TRY(check_cotangent(r, &bar->qpos, "qpos"));
  PB_TRY(check_cotangent(r, &bar->qvel, "qvel"));
  PB_TRY(check_cotangent(r, &bar->act, "act"));
  PB_TRY(check_cotangent(r, &bar->sensordata, "sensordata"));
  PB_TRY(check_cotangent(r, &bar->xpos, "xpos"));
  PB_TRY(check_cotangent(r, &bar->points, "points"));
  PB_TRY(check_cotangent(r, &bar->point_velocity, "point_velocity"));

  return check_cotangent(r, &bar->site_xpos, "site_xpos");
}

static void add(double *out, const double *in, int n) {
  for (int i = 0; in && i < n; i++) out[i] += in[i];
}

static bool observed_at(const pbRollout *r, const pbRolloutBar *bar, int k, pbObservationBar *observed) {
  int steps = r->plan.steps;
  observed->sensordata = pbCotangent_At(&bar->sensordata, r->ns, k, steps);
  observed->xpos = pbCotangent_At(&bar->xpos, 3 * r->nbody, k, steps);
  observed->site_xpos = pbCotangent_At(&bar->site_xpos, 3 * r->nsite, k, steps);

  return observed->sensordata || observed->xpos || observed->site_xpos;
}

static void add_direct(const pbRollout *r, const pbRolloutBar *bar, int k, double *x_bar) {
  int steps = r->plan.steps;
  add(x_bar, pbCotangent_At(&bar->qpos, r->nv, k, steps), r->nv);
  add(x_bar + r->nv, pbCotangent_At(&bar->qvel, r->nv, k, steps), r->nv);
  add(x_bar + 2 * r->nv, pbCotangent_At(&bar->act, r->na, k, steps), r->na);
  double *points = x_bar + 2 * r->nv + r->na;
  add(points, pbCotangent_At(&bar->points, r->np, k, steps), r->np);
  add(points + r->np, pbCotangent_At(&bar->point_velocity, r->np, k, steps), r->np);
}

static double *bar_row(double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }

static pbInputBar input_bar_at(const pbRollout *r, const pbRolloutGradient *g, int k) {
  if (r->plan.steps == 0 && !r->input.constant) return (pbInputBar){NULL, NULL, NULL};
  k = row_at(r, k);
  return (pbInputBar){bar_row(g->ctrl, k, r->nu), bar_row(g->qfrc, k, r->nv), bar_row(g->xfrc, k, 6 * r->nbody)};
}

static void count(int64_t *all, int *first, int here, int k) {
  *all += here;
  if (here) *first = k;  // steps come from the last to the first
}

// Step k and what is seen at its state, by the kind of gradient.
static pbStatus pull_step(pbRollout *r, const pbRolloutGradient *g, int k, const double *record, void *cached,
                          const pbObservationBar *observed, bool *events, pbCertificate *c) {
  const pbModel *m = r->model;
  pbScratch *s = r->scratch;
  pbInput input = pbRollout_InputAt(r, k);
  pbInputBar input_bar = input_bar_at(r, g, k);
  const double *next = k == r->plan.steps ? NULL : r->costate;

  if (r->gradient == pb_gradientSmooth) {
    PB_TRY(pbSmooth_Step(r, record, &input, k));
    m = r->smooth;
    s = r->smooth_scratch;
    record = r->smooth_record;
    cached = NULL;
  }

  const pbStepRecord step = {m, r->theta, record, cached, &input};
  const pbStepBar out = {r->costate_before, &input_bar, g->theta};
  pbStatus status;

  s->ticks = k;
  do {
    status = pbStep_VjpCached(&step, &(pbStepCotangent){.next = next, .observed = observed}, s, &out);
  } while (pbScratch_Grow(s, &status));
  s->ticks = 0;
  pbEventCount here = {0};

  if (status == pb_ok && next && r->gradient == pb_gradientEvent) {
    status = pbStep_EventsVjp(&step, next, k == 0, s, &out, &here);
    count(&c->events, &c->event_step, here.corrected, k);
    count(&c->grazing, &c->grazing_step, here.grazing, k);
    count(&c->simultaneous, &c->simultaneous_step, here.together, k);
    if (here.grazing) memcpy(c->grazing_contact, here.grazing_name, sizeof c->grazing_contact);
    if (here.together) memcpy(c->simultaneous_contact, here.together_name, sizeof c->simultaneous_contact);
    *events = here.corrected > 0;
  }

  if (status == pb_ok) pbClock_Pull(r, observed ? observed->sensordata : NULL, record, k, g->theta);
  return status == pb_ok ? status : pbRollout_StepFailed(r, status, k, pbScratch_Error(s));
}

// Pullback through what is seen at state k and, unless it is the last, through step k. The result is in r->costate.
static pbStatus pull(pbRollout *r, const pbRolloutBar *bar, const pbRolloutGradient *g, int k, const double *record, void *cached,
                     pbCertificate *certificate) {
  bool last = k == r->plan.steps, events = false;
  pbObservationBar observed;
  bool sees = observed_at(r, bar, k, &observed);

  memset(r->costate_before, 0, (size_t)r->n * sizeof *r->costate);
  if (r->sample && !last) pbSample_Before(r, r->sample, k);
  if (sees || !last) PB_TRY(pull_step(r, g, k, record, cached, sees ? &observed : NULL, &events, certificate));
  if (r->sample && !last) PB_TRY(pbSample_Step(r, r->sample, k, record, cached, sees ? &observed : NULL, events, certificate));
  add_direct(r, bar, k, r->costate_before);
  double *swap = r->costate;
  r->costate = r->costate_before;
  r->costate_before = swap;

  return pb_ok;
}

static bool all_finite(const double *v, int n) {
  for (int i = 0; v && i < n; i++)
    if (!isfinite(v[i])) return false;
  return true;
}

// Which of the caller's cotangents at state k is not finite; NULL: none.
static const char *bad_cotangent(const pbRollout *r, const pbRolloutBar *bar, int k) {
  const struct {
    const char *name;
    const pbCotangent *cotangent;
    int width;
  } all[] = {{"qpos", &bar->qpos, r->nv},        {"qvel", &bar->qvel, r->nv},
             {"act", &bar->act, r->na},          {"sensordata", &bar->sensordata, r->ns},
             {"xpos", &bar->xpos, 3 * r->nbody}, {"site_xpos", &bar->site_xpos, 3 * r->nsite},
             {"points", &bar->points, r->np},    {"point_velocity", &bar->point_velocity, r->np}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!all_finite(pbCotangent_At(all[i].cotangent, all[i].width, k, r->plan.steps), all[i].width)) return all[i].name;
  return NULL;
}

// Why the costate at state k is not finite: it grew on its way back, or one step has no derivative, or it was handed in so.
static pbStatus costate_lost(pbRollout *r, const pbRolloutBar *bar, const pbGrowth *growth, int k) {
  static const double large = 230;  // ln of 1e100, beyond which products may overflow in any step
  const char *given = bad_cotangent(r, bar, k);
  char name[160], text[480];
  int i = 0;

  while (i < r->n && isfinite(r->costate[i])) i++;
  bool grown = i == r->n || (growth->count > 0 && growth->now > large);
  if (given) {
    snprintf(text, sizeof text, "the cotangent of %s given for this state is not finite", given);
  } else if (grown) {
    snprintf(text, sizeof text,
             "the gradient grows beyond bounds on its way back to this state (chaotic or stiff motion; a shorter horizon or more "
             "damping helps)");
  } else {
    snprintf(
        text, sizeof text,
        "the gradient by %s is %s: this step has no finite derivative there (a length of zero under a root, or a parameter or "
        "an input of extreme size)",
        pbState_TangentName(r->model, i, name, sizeof name), isnan(r->costate[i]) ? "NaN" : "infinite");
  }

  return pbRollout_StepFailed(r, pb_not_finite, k, text);
}

static pbStatus measure(pbRollout *r, const pbRolloutBar *bar, pbGrowth *growth, pbCertificate *certificate, int k) {
  double sum = 0;
  for (int i = 0; i < r->n; i++) sum += r->costate[i] * r->costate[i];
  if (!isfinite(sum)) return costate_lost(r, bar, growth, k);
  pbGrowth_Add(growth, certificate, (r->plan.steps - k) * r->timestep, sqrt(sum), k);

  return pb_ok;
}

static pbStatus pull_final(pbRollout *r, const pbRolloutBar *bar, const pbRolloutGradient *g, pbCertificate *certificate) {
  pbObservationBar observed;
  if (observed_at(r, bar, r->plan.steps, &observed) && !r->has_final_record) {
    PB_TRY(observe(r, r->x_final, r->plan.steps, NULL));
    pbTape_Record(r->model, r->x_final, r->scratch, r->final_record);
    r->has_final_record = true;
  }

  return pull(r, bar, g, r->plan.steps, r->final_record, NULL, certificate);
}

// The records of the last leaf are there from Forward, unless an earlier Vjp used them up.
static pbStatus first_leaf(pbRollout *r, pbScheduleAction *action) {
  if (r->plan.leaf >= r->plan.steps) {
    *action = (pbScheduleAction){r->plan.steps > 0 ? pb_scheduleReverse : pb_scheduleDone, 0, r->plan.steps, -1};
    r->schedule.next = pb_scheduleDone;
    return pb_ok;
  }

  if (r->tape_fresh) {
    *action = (pbScheduleAction){pb_scheduleReverse, r->leaf_from, r->plan.steps, -1};
    r->tape_fresh = false;
    return pb_ok;
  }

  restart(r);
  return sweep(r, NULL, false, action);
}

static pbStatus backward(pbRollout *r, const pbRolloutBar *bar, const pbRolloutGradient *g, pbCertificate *certificate) {
  pbGrowth growth = {.first = NAN};
  PB_TRY(pull_final(r, bar, g, certificate));
  PB_TRY(measure(r, bar, &growth, certificate, r->plan.steps));
  pbScheduleAction action;
  PB_TRY(first_leaf(r, &action));

  while (action.kind == pb_scheduleReverse) {
    for (int k = action.to - 1; k >= action.from; k--) {
      PB_TRY(pull(r, bar, g, k, record_of(r, k), cached_of(r, k - r->leaf_from), certificate));
      PB_TRY(measure(r, bar, &growth, certificate, k));
      if (pbTicker_Step(&r->ticker)) return pbRollout_Stopped(r, k);
    }

    PB_TRY(sweep(r, NULL, false, &action));
  }

  pbGrowth_Finish(&growth, certificate);
  return pb_ok;
}

// Where a costate is finite, what it gives parameters and inputs need not be.
static pbStatus check_gradient(const pbRollout *r, const pbRolloutGradient *g) {
  size_t rows = r->input.constant ? 1 : (size_t)r->plan.steps;
  const struct {
    const char *name;
    const double *data;
    size_t width;
  } inputs[] = {{"ctrl", g->ctrl, (size_t)r->nu}, {"qfrc", g->qfrc, (size_t)r->nv}, {"xfrc", g->xfrc, 6 * (size_t)r->nbody}};
  char name[256];
  size_t bad = g->theta ? pbModel_FirstNotFinite(r->model, g->theta) : r->ntheta;
  if (bad < r->ntheta)
    return pbContext_Fail(r->ctx, pb_not_finite, "the gradient by parameter %s is %s: it has no finite derivative there",
                          pbModel_ParamName(r->model, bad, name, sizeof name), isnan(g->theta[bad]) ? "NaN" : "infinite");

  for (int k = 0; k < 3; k++) {
    for (size_t i = 0; inputs[k].data && i < rows * inputs[k].width; i++) {
      if (isfinite(inputs[k].data[i])) continue;
      return pbContext_Fail(r->ctx, pb_not_finite, "the gradient by %s[%zu] of step %zu is %s: it has no finite derivative there",
                            inputs[k].name, i % inputs[k].width, i / inputs[k].width,
                            isnan(inputs[k].data[i]) ? "NaN" : "infinite");
    }
  }

  return pb_ok;
}

pbStatus pbRollout_Vjp(pbRollout *r, const pbRolloutBar *bar, const pbVjpOptions *options, const pbRolloutGradient *gradient,
                       pbCertificate *certificate) {
  pbRolloutGradient wanted = gradient ? *gradient : (pbRolloutGradient){0};
  pbCertificate local;

  if (pbChoice_None(r)) wanted.theta = NULL;
  gradient = &wanted;
  if (!certificate) certificate = &local;
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "a pullback needs a rollout that ran to its end first");
  PB_TRY(pbRollout_Ready(r));
  PB_TRY(pbRolloutBar_Check(r, bar));
  *certificate = r->seen;
  certificate->steps = r->plan.steps;
  certificate->recomputed = r->plan.recomputed;
  certificate->tape_bytes = r->plan.planned_bytes;
  certificate->full_tape_bytes = r->plan.full_bytes;
  if (r->plan.leaf < r->plan.steps && !r->tape_fresh) certificate->recomputed += r->plan.steps;
  if (pbTicker_Begin(&r->ticker, "backward", certificate->recomputed + r->plan.steps)) return pbRollout_Stopped(r, r->plan.steps);
  pbSpot spot = {0};
  pbSpotCheck check = options ? options->spot_check : pb_checkNone;
  pbStatus status = check == pb_checkFull    ? pbSpot_Begin(r, options, gradient, &spot)
                    : check == pb_checkSteps ? pbSample_Begin(r, options, gradient, &r->sample)
                                             : pb_ok;
  pbChoice_Keep(r, gradient->theta);
  if (status == pb_ok) status = backward(r, bar, gradient, certificate);
  pbChoice_Restore(r, gradient->theta);
  if (status == pb_ok) status = check_gradient(r, gradient);
  // where events were corrected or contacts smoothed, the program's difference quotient is not what the gradient should be
  bool comparable = r->gradient == pb_gradientExact || (r->gradient == pb_gradientEvent && certificate->events == 0);
  if (status == pb_ok && check == pb_checkFull && comparable)
    status = pbSpot_Check(r, &spot, bar, r->costate, gradient, certificate);
  if (status == pb_ok && gradient->x0) add(gradient->x0, r->costate, r->n);
  pbSpot_End(r, &spot);
  pbSample_End(r, r->sample);
  r->sample = NULL;
  if (status != pb_ok) r->tape_fresh = false;

  return status;
}
