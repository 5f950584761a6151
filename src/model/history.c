// Histories of controls and sensors: where buffers stand, how a sample is written and read between others, the derivatives of
// both. As MuJoCo's documentation of delays says, and compared with it.
// Tests: tests/unit/test_history.c, tests/oracle/test_delay.py.
#include "model/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/sensors.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/sensor.h"
#include "model/term_fields.h"

static const double same_time = 1e-15;  // MuJoCo's: times that are nearer are one

// ---- buffers -------------------------------------------------------------------------------------------------------
// The numbers of an object's buffer; false: it keeps none.
static bool describe(const pbModel *m, pbBuffer *b) {
  const int *history = (b->sensor ? m->sensor_history : m->actuator_history) + 2 * b->object;

  b->n = history[0] > 0 ? history[0] : 0;
  b->interp = history[1];
  b->dim = b->sensor ? m->sensor_dim[b->object] : 1;

  PB_ASSERT(b->dim >= 1);
  return b->n > 0;
}

bool pbBuffer_Next(const pbModel *m, pbBuffer *b) {
  // Behind the one before.
  if (b->object >= 0) {
    b->at += 2 + b->n + b->n * b->dim;
    b->tangent += b->n * b->dim;
  }

  for (b->object++;; b->object++) {
    int count = b->sensor ? m->nsensor : m->nu;
    if (b->object < count) {
      if (describe(m, b)) return true;
      continue;
    }
    if (b->sensor) return false;
    b->sensor = true;
    b->object = -1;
  }
}

bool pbBuffer_OfSensor(const pbModel *m, int sensor, pbBuffer *b) {
  if (m->sensor_history[2 * sensor] <= 0) return false;

  // Behind those of actuators and of sensors before it
  *b = (pbBuffer){.object = -1};
  while (pbBuffer_Next(m, b)) {
    if (b->sensor && b->object == sensor) return true;
  }
  return false;
}

size_t pbBuffer_DelayAt(const pbModel *m, const pbBuffer *b) {
  return (size_t)(b->sensor ? PB_TERM_AT(m, sensor_delay) : PB_TERM_AT(m, actuator_delay)) + (size_t)b->object;
}

double pbBuffer_Delay(const pbModel *m, const double *theta, const pbBuffer *b) { return theta[pbBuffer_DelayAt(m, b)]; }

void pbHistory_Count(pbModel *m) {
  for (int u = 0; u < m->nu; u++) m->actuator_historyadr[u] = -1;
  for (int i = 0; i < m->nsensor; i++) m->sensor_historyadr[i] = -1;
  m->history_tangent = 0;

  // One behind the other.
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    (b.sensor ? m->sensor_historyadr : m->actuator_historyadr)[b.object] = b.at;
    m->history_tangent += b.n * b.dim;
    PB_ASSERT(b.at + 2 + b.n + b.n * b.dim <= m->nhistory);
  }
}

pbStatus pbHistory_Check(pbContext *ctx, const pbModel *m) {
  if (!(m->disableflags & pb_disSensor)) return pb_ok;

  for (int i = 0; i < m->nsensor; i++) {
    if (m->sensor_historyadr[i] < 0) continue;
    const char *name = pbModel_Name(m, pb_objSensor, i);
    return pbContext_Fail(ctx, pb_unsupported,
                          "sensor %d%s%s%s keeps samples (nsample), which the flag sensor=\"disable\" leaves open", i,
                          *name ? " '" : "", name, *name ? "'" : "");
  }
  return pb_ok;
}

// Before the start an actuator's samples are a step apart. A sensor with an interval has measured at whole intervals, each at the
// step that follows; no two at the same step, and none at the step at which it is to measure first.
static void put_times(const double interval[2], double last, double h, int n, double *times) {
  double next = interval[1] == 0 ? 0 : 1;
  PB_ASSERT(n >= 1);

  for (int i = n - 1; i >= 0; i--) {
    next = interval[0] > 0 ? fmin(ceil((last - (n - 1 - i) * interval[0]) / h), next - 1) : -(n - i);
    times[i] = next * h;
  }
}

void pbHistory_Init(const pbModel *m, const double *theta, double *history) {
  double h = theta[m->timestep - m->theta0];
  memset(history, 0, (size_t)m->nhistory * sizeof *history);

  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    const double *interval = b.sensor ? m->sensor_interval + 2 * b.object : (const double[]){0, 0};
    double last = interval[1] == 0 ? -interval[0] : interval[1];

    // By its own clock; then the ring
    if (b.sensor) history[b.at] = interval[0] > 0 ? last : -h;
    history[b.at + 1] = b.n - 1;
    put_times(interval, last, h, b.n, history + b.at + 2);
  }
}

// ---- names and checks ----------------------------------------------------------------------------------------------
static const char *name_of(const pbModel *m, const pbBuffer *b) {
  return pbModel_Name(m, b->sensor ? pb_objSensor : pb_objActuator, b->object);
}

char *pbHistory_EntryName(const pbModel *m, int entry, bool tangent, char *text, size_t size) {
  snprintf(text, size, "history[%d]", entry);

  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    int first = tangent ? b.tangent : b.at, count = b.n * b.dim + (tangent ? 0 : 2 + b.n);
    if (entry < first || entry >= first + count) continue;

    const char *kind = b.sensor ? "sensor" : "actuator", *name = name_of(m, &b);
    if (name && *name) snprintf(text, size, "history[%d] (%s '%.100s')", entry, kind, name);
    else snprintf(text, size, "history[%d] (%s %d)", entry, kind, b.object);
  }
  return text;
}

// Slots by age, the oldest first.
static int slot_of(int n, int cursor, int logical) { return (cursor + 1 + logical) % n; }
static double time_at(const pbBuffer *b, const double *history, int logical) {
  return pbBuffer_Times(b, history)[slot_of(b->n, (int)history[b->at + 1], logical)];
}

bool pbHistory_Readable(const pbModel *m, const double *history, char *text, size_t size) {
  for (pbBuffer b = {.object = -1}; pbBuffer_Next(m, &b);) {
    char entry[160];
    double cursor = history[b.at + 1];
    if (!(cursor >= 0 && cursor < b.n && cursor == floor(cursor))) {
      snprintf(text, size, "%s: its cursor is %g, expected a whole number from 0 to %d",
               pbHistory_EntryName(m, b.at + 1, false, entry, sizeof entry), cursor, b.n - 1);
      return false;
    }

    for (int i = 1; i < b.n; i++) {
      double before = time_at(&b, history, i - 1), after = time_at(&b, history, i);
      if (after - before >= same_time) continue;

      int slot = slot_of(b.n, (int)cursor, i);
      snprintf(text, size, "%s: the time of a sample is %g, expected more than that of the one before, %g",
               pbHistory_EntryName(m, b.at + 2 + slot, false, entry, sizeof entry), after, before);
      return false;
    }
  }
  return true;
}

// ---- writing -------------------------------------------------------------------------------------------------------
// The first sample that is not older than t; n: all are.
static int first_from(const pbBuffer *b, const double *history, double t) {
  int low = 0, high = b->n;

  while (low < high) {
    int middle = (low + high) / 2;

    if (time_at(b, history, middle) < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

pbInsertion pbHistory_Plan(const pbBuffer *b, const double *history, double t) {
  int cursor = (int)history[b->at + 1], n = b->n, i = first_from(b, history, t);
  pbInsertion plan = {.cursor = cursor, .first = slot_of(n, cursor, 0)};
  PB_ASSERT(cursor >= 0 && cursor < n);

  // Most often the newest; else in the place of one of its time, of the oldest, or between others.
  if (i == n) {
    plan.cursor = plan.slot = (cursor + 1) % n;
  } else if (fabs(t - time_at(b, history, i)) < same_time || i == 0) {
    plan.slot = slot_of(n, cursor, i);
  } else {
    plan.slot = slot_of(n, cursor, i - 1);
    plan.shift = i - 1;
  }
  return plan;
}

// Samples of dim numbers, or times: the `shift` oldest are overwritten by those after them.
static void shift_down(int n, const pbInsertion *plan, double *of, int dim) {
  for (int k = 0; k < plan->shift; k++) {
    const double *from = of + (plan->first + k + 1) % n * dim;
    memmove(of + (plan->first + k) % n * dim, from, (size_t)dim * sizeof *of);
  }
}

void pbInsertion_Move(const pbBuffer *b, const pbInsertion *plan, double *samples) { shift_down(b->n, plan, samples, b->dim); }

void pbInsertion_Stamp(const pbBuffer *b, const pbInsertion *plan, double t, double *history) {
  double *times = history + b->at + 2;

  shift_down(b->n, plan, times, 1);

  // A sample of the same time keeps it, as in MuJoCo.
  if (fabs(t - times[plan->slot]) >= same_time) times[plan->slot] = t;
  history[b->at + 1] = plan->cursor;
}

void pbInsertion_Pull(const pbBuffer *b, const pbInsertion *plan, double *bar, double *new_bar) {
  size_t bytes = (size_t)b->dim * sizeof *bar;
  double *slot = bar + plan->slot * b->dim;
  PB_ASSERT(plan->slot >= 0 && plan->slot < b->n);
  if (new_bar) {
    for (int i = 0; i < b->dim; i++) new_bar[i] += slot[i];
  }

  // What moved down goes back up; the sample that was lost owes nothing.
  for (int k = plan->shift; k > 0; k--) {
    const double *from = bar + (plan->first + k - 1) % b->n * b->dim;
    memmove(bar + (plan->first + k) % b->n * b->dim, from, bytes);
  }
  memset(plan->shift ? bar + plan->first * b->dim : slot, 0, bytes);
}

// ---- reading -------------------------------------------------------------------------------------------------------
double pbHistory_Tick(const pbHistoryClock *c, double t) {
  double age = floor((c->now - t) / c->h + 0.5);

  return age >= 1 && age <= c->ticks ? c->ticks - age : 0;
}

// A reading under way: where it looks.
typedef struct Look {
  const pbBuffer *b;
  const double *history;
  const pbHistoryClock *clock;
  double t;    // read at
  double now;  // how t moves with h
  pbLateReading *to;
} Look;

// The place of a sample among those that are read.
static int place(const Look *l, int logical) {
  pbLateReading *r = l->to;
  int slot = slot_of(l->b->n, (int)l->history[l->b->at + 1], logical);

  // Some are met twice.
  for (int i = 0; i < r->count; i++) {
    if (r->slot[i] == slot) return i;
  }
  PB_ASSERT(r->count < pb_readMost);
  r->slot[r->count] = slot;
  return r->count++;
}

static double tick_at(const Look *l, int logical) { return pbHistory_Tick(l->clock, time_at(l->b, l->history, logical)); }

// value = (1 - a) v1 + a v2, a = (t - t1) / (t2 - t1), of the samples lo and lo + 1. Rate and by_step.
static void slope_on_line(const Look *l, int lo) {
  pbLateReading *r = l->to;
  double t1 = time_at(l->b, l->history, lo), t2 = time_at(l->b, l->history, lo + 1), a = (l->t - t1) / (t2 - t1);
  int v1 = place(l, lo), v2 = place(l, lo + 1);

  // The rate times how t moves beside the samples' times
  double rate = 1 / (t2 - t1), by_step = rate * (l->now + (a - 1) * tick_at(l, lo) - a * tick_at(l, lo + 1));
  r->rate[v1] -= rate;
  r->rate[v2] += rate;
  r->by_step[v1] -= by_step;
  r->by_step[v2] += by_step;
}

// The spline of Catmull and Rom between samples lo and lo + 1, with slopes m by the neighbors of each, zero at the ends:
//   value = h00 v1 + h01 v2 + d (h10 m1 + h11 m2),  d = t2 - t1,  m1 = (v2 - v0) k1,  m2 = (v3 - v1) k2
static void read_spline(const Look *l, int lo, bool value) {
  const pbBuffer *b = l->b;
  pbLateReading *r = l->to;
  bool before = lo > 0, after = lo + 2 < b->n;
  double t1 = time_at(b, l->history, lo), t2 = time_at(b, l->history, lo + 1), d = t2 - t1, a = (l->t - t1) / d;
  double k1 = before ? 1 / (t2 - time_at(b, l->history, lo - 1)) : 0, k2 = after ? 1 / (time_at(b, l->history, lo + 2) - t1) : 0;
  int v1 = place(l, lo), v2 = place(l, lo + 1), v0 = before ? place(l, lo - 1) : v1, v3 = after ? place(l, lo + 2) : v2;

  // Hermite's polynomials, and their slopes.
  double h00 = (2 * a - 3) * a * a + 1, h10 = ((a - 2) * a + 1) * a, h01 = (3 - 2 * a) * a * a, h11 = (a - 1) * a * a;
  double g00 = 6 * (a - 1) * a, g10 = (3 * a - 4) * a + 1, g11 = (3 * a - 2) * a;
  if (value) {
    r->weight[v1] += h00;
    r->weight[v2] += h01;
    r->weight[v2] += d * h10 * k1;
    r->weight[v0] -= d * h10 * k1;
    r->weight[v3] += d * h11 * k2;
    r->weight[v1] -= d * h11 * k2;
  }

  // By t; then by h, with which t and the samples' times move: s_i of m_i.
  double T0 = before ? tick_at(l, lo - 1) : 0, T1 = tick_at(l, lo), T2 = tick_at(l, lo + 1), T3 = after ? tick_at(l, lo + 2) : 0;
  double move = l->now + (a - 1) * T1 - a * T2;
  double s1 = h10 * (T2 - T1) + h10 * d * k1 * (T0 - T2), s2 = h11 * (T2 - T1) + h11 * d * k2 * (T1 - T3);
  const double line = g00 / d;

  // What each sample adds by where it stands in the sum above
  const struct {
    int at;
    double rate, more;
  } add[] = {{v1, line, 0},           {v2, -line, 0},           {v2, g10 * k1, s1 * k1}, {v0, -g10 * k1, -s1 * k1},
             {v3, g11 * k2, s2 * k2}, {v1, -g11 * k2, -s2 * k2}};
  for (size_t i = 0; i < sizeof add / sizeof *add; i++) {
    r->rate[add[i].at] += add[i].rate;
    r->by_step[add[i].at] += add[i].rate * move + add[i].more;
  }
}

// The slope at a sample, or just before it: that of the interval behind it.
static void slope_behind(const Look *l, int logical) {
  if (logical + 1 >= l->b->n || l->b->interp == pb_interpZoh) return;

  if (l->b->interp == pb_interpLinear) slope_on_line(l, logical);
  else read_spline(l, logical, false);
}

static void read_sample(const Look *l, int logical, bool slope) {
  l->to->weight[place(l, logical)] += 1;

  if (slope) slope_behind(l, logical);
}

// Between lo and lo + 1.
static void read_between(const Look *l, int lo) {
  pbLateReading *r = l->to;
  double t1 = time_at(l->b, l->history, lo), d = time_at(l->b, l->history, lo + 1) - t1, a = (l->t - t1) / d;
  PB_ASSERT(a >= 0 && a <= 1);

  if (l->b->interp == pb_interpZoh) {
    r->weight[place(l, lo)] += 1;
  } else if (l->b->interp == pb_interpLinear) {
    r->weight[place(l, lo)] += 1 - a;
    r->weight[place(l, lo + 1)] += a;
    // As near to a sample as rounding of times: at it.
    if (1 - a < 1e-10) slope_behind(l, lo + 1);
    else slope_on_line(l, lo);
  } else {
    read_spline(l, lo, true);
  }
}

pbLateReading pbHistory_Read(const pbBuffer *b, const double *history, const pbHistoryClock *c, double delay) {
  pbLateReading reading = {0};
  double moment = c->later == 0 ? c->now : c->now + c->later * c->h;
  const Look l = {.b = b, .history = history, .clock = c, .t = moment - delay, .now = c->ticks + c->later, .to = &reading};
  double oldest = time_at(b, history, 0), newest = time_at(b, history, b->n - 1);

  // Beyond the ends, at a sample, between two.
  if (l.t <= oldest + same_time) {
    double gap = b->n > 1 ? time_at(b, history, 1) - oldest : 1;
    read_sample(&l, 0, oldest - l.t < 1e-10 * gap);
  } else if (l.t >= newest - same_time) {
    read_sample(&l, b->n - 1, false);
  } else {
    int i = first_from(b, history, l.t);
    if (fabs(l.t - time_at(b, history, i)) < same_time) read_sample(&l, i, true);
    else read_between(&l, i - 1);
  }
  return reading;
}

// ---- sensors -------------------------------------------------------------------------------------------------------
bool pbHistory_Measures(const pbModel *m, const pbBuffer *b, const double *history, double now) {
  double interval = m->sensor_interval[2 * b->object];
  PB_ASSERT(b->sensor);

  return !(interval > 0) || history[b->at] + interval <= now;
}

// A real reading beyond its cutoff is clamped to it, and no longer depends on time.
bool pbHistory_IsClock(const pbModel *m, const double *theta, int sensor, double now) {
  double cutoff = theta[m->sensor_cutoff - m->theta0 + sensor];

  if (m->sensor_type[sensor] != pb_sensClock || (m->disableflags & pb_disSensor)) return false;
  return !(cutoff > 0) || m->sensor_datatype[sensor] != pb_dataReal || (now < cutoff && now > -cutoff);
}

bool pbHistory_TellsLate(const pbModel *m, const double *theta, const pbBuffer *b, const double *history, double now) {
  return pbBuffer_Delay(m, theta, b) > 0 || !pbHistory_Measures(m, b, history, now);
}
