// Histories in the world's step (history_step.h): what acts and what is told, and both derivatives by the chain rule around those
// of the step that acts at once.
// Tests: tests/conformance/test_step.c, tests/conformance/test_policy.c, tests/oracle/test_delay.py.
#include "world/history_step.h"

#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "base/mutate.h"
#include "model/param.h"
#include "model/policy_data.h"
#include "model/sensor.h"
#include "world/cached.h"

// ---- memory --------------------------------------------------------------------------------------------------------
static double *take(pbArena *a, int count) { return pbArena_Take(a, (size_t)count, sizeof(double)); }

static void lay_out(pbArena *a, pbScratch *s) {
  const pbModel *m = s->model;
  pbHistoryWork *k = s->history;
  int later = pb_staged(m) ? 2 * m->nu : 0;

  k->ctrl = take(a, pb_controls(m));
  k->ctrl_later = take(a, later);
  k->ctrl_bar = take(a, pb_controls(m));
  k->ctrl_later_bar = take(a, later);
  k->measured_bar = take(a, m->nsensordata);
  k->samples_bar = take(a, m->history_tangent);
  s->told = take(a, m->nsensordata);
}

pbStatus pbHistoryWork_Create(pbScratch *s) {
  const pbModel *m = s->model;
  if (!m->nhistory) return pb_ok;
  pbHistoryWork *k = s->history = pbContext_Alloc(s->ctx, sizeof *k);
  if (!k) return pb_no_memory;
  for (int i = 0; i < m->nsensor; i++) k->measures = k->measures || m->sensor_historyadr[i] >= 0;

  // One block, measured by the code that divides it.
  pbArena arena = pbArena_Measure();
  lay_out(&arena, s);
  size_t needed = pbArena_Needed(&arena);
  s->told = NULL;
  k->block = pbContext_Alloc(s->ctx, needed);
  if (!k->block) return pb_no_memory;

  arena = pbArena_Over(k->block, needed);
  lay_out(&arena, s);
  PB_ASSERT(!arena.failed);
  if (!pb_staged(m)) return pb_ok;

  s->ctrl_later = k->ctrl_later;
  s->ctrl_later_bar = k->ctrl_later_bar;
  return pb_ok;
}

void pbHistoryWork_Destroy(pbScratch *s) {
  if (!s->history) return;
  pbContext_Free(s->ctx, s->history->block);
  pbContext_Free(s->ctx, s->history);
}

// ---- what a step looks at ------------------------------------------------------------------------------------------
// A state's history and the clock, for one world and step.
typedef struct Now {
  const pbModel *m;
  const double *theta, *history;
  pbHistoryClock clock;
} Now;

static Now now_of(const pbScratch *s, const double *theta, const double *x) {
  const pbModel *m = s->model;
  pbStateLayout at = state_layout(m);
  const pbHistoryClock clock = {.now = x[at.time], .h = theta[m->timestep - m->theta0], .ticks = s->ticks};
  return (Now){m, theta, x + at.history, clock};
}

// Controls act at the start of a step, under Runge-Kutta also in the middle and at the end.
static const double later[3] = {0, 0.5, 1};
static int rows_of(const pbModel *m) { return pb_staged(m) ? 3 : 1; }
// Where the control of an actuator stands in one of these rows.
static double *row_at(double *first, double *others, const pbModel *m, int row, int actuator) {
  return row ? others + (row - 1) * m->nu + actuator : first + actuator;
}

static bool delays(const Now *n, const pbBuffer *b) { return !b->sensor && pbBuffer_Delay(n->m, n->theta, b) != 0; }
static bool tells_late(const Now *n, const pbBuffer *b) {
  return b->sensor && pbHistory_TellsLate(n->m, n->theta, b, n->history, n->clock.now);
}
static bool writes(const Now *n, const pbBuffer *b) {
  return !b->sensor || pbHistory_Measures(n->m, b, n->history, n->clock.now);
}

static pbLateReading reading_at(const Now *n, const pbBuffer *b, int row) {
  pbHistoryClock clock = n->clock;
  clock.later = later[row];
  PB_ASSERT(row < rows_of(n->m));

  return pbHistory_Read(b, n->history, &clock, pbBuffer_Delay(n->m, n->theta, b));
}

// sum of w times sample, of one of the buffer's numbers; samples: of the buffer, or their tangents.
static double combine(const pbLateReading *r, const double *w, const pbBuffer *b, const double *samples, int number) {
  double sum = 0;
  PB_ASSERT(number >= 0 && number < b->dim);

  for (int i = 0; i < r->count; i++) sum += w[i] * samples[r->slot[i] * b->dim + number];
  return sum;
}

// Where the numbers of a buffer's object stand in sensordata.
static int numbers_at(const pbModel *m, const pbBuffer *b) { return m->sensor_adr[b->object]; }

// ---- forward -------------------------------------------------------------------------------------------------------
// Controls as they are given, in every row; then those that are read.
static void read_controls(pbScratch *s, const Now *n, const double *given) {
  pbHistoryWork *k = s->history;
  const pbModel *m = n->m;
  size_t count = (size_t)pb_controls(m), nu = (size_t)m->nu;

  if (given) memcpy(k->ctrl, given, count * sizeof(double));
  else memset(k->ctrl, 0, count * sizeof(double));
  for (int row = 1; row < rows_of(m); row++) memcpy(k->ctrl_later + (size_t)(row - 1) * nu, k->ctrl, nu * sizeof(double));

  // Each at its own times
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (!delays(n, &b)) continue;
    for (int row = 0; row < rows_of(m); row++) {
      pbLateReading r = reading_at(n, &b, row);
      *row_at(k->ctrl, k->ctrl_later, m, row, b.object) = combine(&r, r.weight, &b, n->history + pbBuffer_Samples(&b), 0);
    }
  }
}

const pbInput *pbHistory_Before(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  pbHistoryWork *k = s->history;
  const pbInput none = {0};
  Now n = now_of(s, theta, x);

  // The rest of it acts at once.
  k->input = input ? *input : none;
  read_controls(s, &n, k->input.ctrl);
  k->input.ctrl = k->ctrl;
  return &k->input;
}

void pbHistory_Tell(pbScratch *s, const double *theta, const double *x) {
  Now n = now_of(s, theta, x);
  memcpy(s->told, s->w.sensordata, (size_t)n.m->nsensordata * sizeof(double));

  for (pbBuffer b = {.object = -1}; pbBuffer_Next(n.m, &b);) {
    if (!tells_late(&n, &b)) continue;

    // Over what it measures now
    pbLateReading r = reading_at(&n, &b, 0);
    double *told = s->told + numbers_at(n.m, &b);
    for (int i = 0; i < b.dim; i++) told[i] = combine(&r, r.weight, &b, n.history + pbBuffer_Samples(&b), i);
  }
}

void pbHistory_Next(const pbScratch *s, const double *x, const pbInput *input, double *next) {
  const pbModel *m = s->model;
  pbStateLayout at = state_layout(m);
  double *history = next + at.history, now = x[at.time];
  memcpy(history, x + at.history, (size_t)m->nhistory * sizeof(double));

  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (b.sensor && !pbHistory_Measures(m, &b, history, now)) continue;

    // The sensor's own clock goes on by whole intervals.
    if (b.sensor && m->sensor_interval[2 * b.object] > 0) history[b.at] += m->sensor_interval[2 * b.object];

    // In the place of an older sample.
    pbInsertion plan = pbHistory_Plan(&b, history, now);
    double *samples = history + pbBuffer_Samples(&b), *slot = samples + plan.slot * b.dim;
    pbInsertion_Move(&b, &plan, samples);
    if (b.sensor) memcpy(slot, s->w.sensordata + numbers_at(m, &b), (size_t)b.dim * sizeof(double));
    else *slot = input && input->ctrl ? input->ctrl[b.object] : 0;
    pbInsertion_Stamp(&b, &plan, now, history);
  }
}

void pbHistory_MoveTimes(const pbModel *m, const double *theta, int ticks, double dh, double *x) {
  pbStateLayout at = state_layout(m);
  const pbHistoryClock clock = {.now = x[at.time], .h = theta[m->timestep - m->theta0], .ticks = ticks};

  // What was there at the start stays.
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    double *times = x + at.history + b.at + 2;
    for (int i = 0; i < b.n; i++) times[i] += pbHistory_Tick(&clock, times[i]) * dh;
  }
}

// ---- both derivatives ----------------------------------------------------------------------------------------------
pbStepRecord pbHistory_Open(pbScratch *s, const pbStepRecord *step) {
  if (!s->history || step->read) return *step;

  pbStepRecord open = *step;
  PB_ASSERT(step->input != &s->history->input);
  open.input = pbHistory_Before(s, step->theta, step->record, step->input);
  if (pb_staged(s->model)) open.ctrl_later = s->history->ctrl_later;
  open.read = true;
  return open;
}

// The time that a clock writes moves with the time step (rollout/clock.c has what it tells at once).
static bool is_clock(const Now *n, const pbBuffer *b) {
  return b->sensor && pbHistory_IsClock(n->m, n->theta, b->object, n->clock.now);
}

// ---- reverse -------------------------------------------------------------------------------------------------------
typedef struct Pull {
  Now now;
  pbHistoryWork *work;
  double *samples;              // of x_bar
  double *theta, *ctrl;         // NULL: not wanted
  const double *sensor, *next;  // of what is told; of the samples after the step; NULL: zero
} Pull;

// Of a number that is read to samples, the delay and the time step.
static void pull_number(const Pull *p, const pbBuffer *b, int row, int number, double bar) {
  const pbModel *m = p->now.m;
  pbLateReading r = reading_at(&p->now, b, row);
  const double *samples = p->now.history + pbBuffer_Samples(b);

  // value = sum of weight times sample, at now - delay
  for (int i = 0; i < r.count; i++) p->samples[b->tangent + r.slot[i] * b->dim + number] += r.weight[i] * bar;
  if (!p->theta) return;

  double delay_bar = -combine(&r, r.rate, b, samples, number) * bar;
  PB_MUTE(pb_muteParam, b->sensor ? pb_param_sensor_delay : pb_param_actuator_delay, &delay_bar, 1);
  p->theta[pbBuffer_DelayAt(m, b)] += delay_bar;
  p->theta[m->timestep - m->theta0] += combine(&r, r.by_step, b, samples, number) * bar;
}

// Of the history after the step: to that before it, and to what was written.
static void pull_next(const Pull *p) {
  const pbModel *m = p->now.m;
  pbHistoryWork *k = p->work;
  PB_ASSERT(p->next);
  memcpy(k->samples_bar, p->next, (size_t)m->history_tangent * sizeof(double));

  // As pbHistory_Next, back
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    double *bar = k->samples_bar + b.tangent;
    if (writes(&p->now, &b)) {
      pbInsertion plan = pbHistory_Plan(&b, p->now.history, p->now.clock.now);
      double *ctrl = p->ctrl ? p->ctrl + b.object : NULL;
      pbInsertion_Pull(&b, &plan, bar, b.sensor ? k->measured_bar + numbers_at(m, &b) : ctrl);
    }
    for (int i = 0; i < b.n * b.dim; i++) p->samples[b.tangent + i] += bar[i];
  }
}

// Of what is told: what tells at once has just measured it.
static void pull_told(const Pull *p) {
  const pbModel *m = p->now.m;
  double *measured = p->work->measured_bar;
  PB_ASSERT(p->sensor);
  memcpy(measured, p->sensor, (size_t)m->nsensordata * sizeof(double));

  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (!tells_late(&p->now, &b)) continue;
    memset(measured + numbers_at(m, &b), 0, (size_t)b.dim * sizeof(double));
    for (int i = 0; i < b.dim; i++) pull_number(p, &b, 0, i, p->sensor[numbers_at(m, &b) + i]);
  }
}

// Times that clocks have written.
static void pull_clocks(const Pull *p) {
  const pbModel *m = p->now.m;
  if (!p->theta || !p->next) return;

  // A number each
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (!is_clock(&p->now, &b) || !writes(&p->now, &b)) continue;
    pbInsertion plan = pbHistory_Plan(&b, p->now.history, p->now.clock.now);
    p->theta[m->timestep - m->theta0] += p->now.clock.ticks * p->next[b.tangent + plan.slot];
  }
}

// Of the controls that acted: to samples, or where they act at once to those given.
static void pull_controls(const Pull *p) {
  const pbModel *m = p->now.m;
  pbHistoryWork *k = p->work;

  // What is read owes nothing to the control of now.
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (!delays(&p->now, &b)) continue;
    for (int row = 0; row < rows_of(m); row++) {
      double *bar = row_at(k->ctrl_bar, k->ctrl_later_bar, m, row, b.object);
      pull_number(p, &b, row, 0, *bar);
      *bar = 0;
    }
  }
  if (!p->ctrl) return;

  for (int i = 0; i < pb_controls(m); i++) p->ctrl[i] += k->ctrl_bar[i];
  for (int row = 1; row < rows_of(m); row++) {
    for (int u = 0; u < m->nu; u++) p->ctrl[u] += *row_at(k->ctrl_bar, k->ctrl_later_bar, m, row, u);
  }
}

pbStatus pbHistory_Vjp(pbScratch *s, const pbStepRecord *step, const pbStepCotangent *in, const pbStepBar *out) {
  const pbModel *m = s->model;
  pbHistoryWork *k = s->history;
  pbStepRecord open = pbHistory_Open(s, step);
  const double *sensor = in->observed ? in->observed->sensordata : NULL;
  // What else is observed depends on no control.
  if (!in->next && !sensor) return pbStep_VjpOpen(s, &open, in, out);

  Pull pull = {.now = now_of(s, step->theta, step->record),
               .work = k,
               .samples = out->x + tangent_history(m),
               .theta = out->theta,
               .ctrl = out->input ? out->input->ctrl : NULL,
               .sensor = sensor,
               .next = in->next ? in->next + tangent_history(m) : NULL};

  // What pullbacks add to
  memset(k->measured_bar, 0, (size_t)m->nsensordata * sizeof(double));
  memset(k->ctrl_bar, 0, (size_t)pb_controls(m) * sizeof(double));
  if (pb_staged(m)) memset(k->ctrl_later_bar, 0, 2 * (size_t)m->nu * sizeof(double));
  if (sensor) pull_told(&pull);
  if (in->next) pull_next(&pull);

  // The step itself, with cotangents of what it measures.
  const pbObservationBar none = {0};
  const pbInputBar unwanted = {0};
  pbObservationBar observed = in->observed ? *in->observed : none;
  pbInputBar input = out->input ? *out->input : unwanted;
  pbStepCotangent given = *in;
  pbStepBar to = {out->x, &input, out->theta};
  input.ctrl = k->ctrl_bar;
  if (sensor || k->measures) {
    observed.sensordata = k->measured_bar;
    given.observed = &observed;
  }
  PB_TRY(pbStep_VjpOpen(s, &open, &given, &to));

  pull_clocks(&pull);
  pull_controls(&pull);
  return pb_ok;
}

// ---- forward derivative --------------------------------------------------------------------------------------------
typedef struct Push {
  Now now;
  const double *samples, *theta;  // NULL: zero
} Push;

static double push_number(const Push *p, const pbBuffer *b, int row, int number) {
  const pbModel *m = p->now.m;
  pbLateReading r = reading_at(&p->now, b, row);
  const double *samples = p->now.history + pbBuffer_Samples(b);
  double tangent = p->samples ? combine(&r, r.weight, b, p->samples + b->tangent, number) : 0;
  if (!p->theta) return tangent;

  // As pull_number
  tangent -= combine(&r, r.rate, b, samples, number) * p->theta[pbBuffer_DelayAt(m, b)];
  return tangent + combine(&r, r.by_step, b, samples, number) * p->theta[m->timestep - m->theta0];
}

// Tangents of the controls that act; as read_controls.
static void push_controls(pbHistoryWork *k, const Push *p, const double *given) {
  const pbModel *m = p->now.m;
  size_t count = (size_t)pb_controls(m), nu = (size_t)m->nu;

  if (given) memcpy(k->ctrl_bar, given, count * sizeof(double));
  else memset(k->ctrl_bar, 0, count * sizeof(double));
  for (int row = 1; row < rows_of(m); row++) memcpy(k->ctrl_later_bar + (size_t)(row - 1) * nu, k->ctrl_bar, nu * sizeof(double));

  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (!delays(&p->now, &b)) continue;
    for (int row = 0; row < rows_of(m); row++)
      *row_at(k->ctrl_bar, k->ctrl_later_bar, m, row, b.object) = push_number(p, &b, row, 0);
  }
}

// The samples after the step.
static void push_next(const pbHistoryWork *k, const Push *p, const double *ctrl, double *next) {
  const pbModel *m = p->now.m;
  size_t bytes = (size_t)m->history_tangent * sizeof(double);
  if (p->samples) memcpy(next, p->samples, bytes);
  else memset(next, 0, bytes);

  // As pbHistory_Next
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (!writes(&p->now, &b)) continue;
    pbInsertion plan = pbHistory_Plan(&b, p->now.history, p->now.clock.now);
    double *samples = next + b.tangent, *slot = samples + plan.slot * b.dim;
    pbInsertion_Move(&b, &plan, samples);

    if (b.sensor) memcpy(slot, k->measured_bar + numbers_at(m, &b), (size_t)b.dim * sizeof(double));
    else *slot = ctrl ? ctrl[b.object] : 0;
    if (p->theta && is_clock(&p->now, &b)) *slot += p->now.clock.ticks * p->theta[m->timestep - m->theta0];
  }
}

static void push_told(const pbHistoryWork *k, const Push *p, double *told) {
  const pbModel *m = p->now.m;
  memcpy(told, k->measured_bar, (size_t)m->nsensordata * sizeof(double));
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    if (!tells_late(&p->now, &b)) continue;
    for (int i = 0; i < b.dim; i++) told[numbers_at(m, &b) + i] = push_number(p, &b, 0, i);
  }
}

pbStatus pbHistory_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *d, const pbStepTangent *out) {
  const pbModel *m = s->model;
  pbHistoryWork *k = s->history;
  pbStepRecord open = pbHistory_Open(s, step);
  Push push = {now_of(s, step->theta, step->record), d->x ? d->x + tangent_history(m) : NULL, d->theta};
  pbDirection along = *d;
  pbStepTangent inner = *out;

  // The step itself, along the controls that act
  push_controls(k, &push, d->ctrl);
  along.ctrl = k->ctrl_bar;
  if (pb_staged(m)) open.ctrl_later_tangent = k->ctrl_later_bar;
  if (out->sensordata || (k->measures && out->next)) inner.sensordata = k->measured_bar;
  PB_TRY(pbStep_JvpOpen(s, &open, &along, &inner));

  if (out->next) push_next(k, &push, d->ctrl, out->next + tangent_history(m));
  if (out->sensordata) push_told(k, &push, out->sensordata);
  return pb_ok;
}

// ---- what a policy observes ----------------------------------------------------------------------------------------
// The sensor that a number of a row is of, and which of its numbers: a row without an object has all that are early.
static int sensor_of(const pbModel *m, const pbObserveRow *r, int *number) {
  if (r->object >= 0) return r->object;

  // One after the other
  for (int i = 0; i < m->nsensor; i++) {
    if (!pbSensor_IsEarly(m, i)) continue;
    if (*number < m->sensor_dim[i]) return i;
    *number -= m->sensor_dim[i];
  }
  PB_ASSERT(false);
  return 0;
}

// Observations that are told late, one by one.
typedef struct Late {
  int row, entry;  // the next one
  int at, number;  // among the observations; of the sensor
  double scale;
  pbBuffer buffer;
} Late;

static bool next_late(const Now *n, Late *l) {
  const pbPolicyModel *p = n->m->policy;

  for (; l->row < p->rows; l->row++, l->entry = 0) {
    const pbObserveRow *r = p->row + l->row;
    for (; r->kind == pb_observeSensor && l->entry < r->count;) {
      int i = l->entry++;
      l->number = r->component ? r->component[i] : i;
      int sensor = sensor_of(n->m, r, &l->number);
      if (!pbBuffer_OfSensor(n->m, sensor, &l->buffer) || !tells_late(n, &l->buffer)) continue;
      l->at = r->at + i;
      l->scale = r->scale;
      return true;
    }
  }
  return false;
}

void pbHistory_Observe(const pbScratch *s, const double *theta, const double *x, double *observation) {
  Now n = now_of(s, theta, x);
  if (!s->history->measures) return;

  for (Late l = {0}; next_late(&n, &l);) {
    pbLateReading r = reading_at(&n, &l.buffer, 0);
    observation[l.at] = l.scale * combine(&r, r.weight, &l.buffer, n.history + pbBuffer_Samples(&l.buffer), l.number);
  }
}

void pbHistory_PullObserved(const pbScratch *s, const double *theta, const double *x, double *observation_bar, double *x_bar,
                            double *theta_bar) {
  Pull pull = {.now = now_of(s, theta, x), .work = s->history, .samples = x_bar + tangent_history(s->model), .theta = theta_bar};
  if (!s->history->measures) return;

  for (Late l = {0}; next_late(&pull.now, &l);) {
    pull_number(&pull, &l.buffer, 0, l.number, l.scale * observation_bar[l.at]);
    observation_bar[l.at] = 0;
  }
}

void pbHistory_PushObserved(const pbScratch *s, const double *theta, const double *x, const pbDirection *d, double *tangent) {
  Push push = {now_of(s, theta, x), d->x ? d->x + tangent_history(s->model) : NULL, d->theta};
  if (!s->history->measures) return;

  for (Late l = {0}; next_late(&push.now, &l);) tangent[l.at] = l.scale * push_number(&push, &l.buffer, 0, l.number);
}
