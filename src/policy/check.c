// Whether a policy keeps what pbPolicyFunction promises: same numbers from same input, adding, gradients of many columns, the
// derivative. Whoever writes a controller makes one of these mistakes first; each is told by name.
// Tests: tests/unit/test_policy_check.c.
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "policy/check.h"

static const char *const call_names[call_count] = {"forward", "pull", "gather", "pull", "push"};
static const Width sources[in_count] = {of_observations, of_memory, of_params,  of_observations,
                                        of_memory,       of_params, of_outputs, of_memory};
static const struct {
  Call call;
  const char *what;
  Width width;
} targets[to_count] = {
    {call_forward, "out", of_outputs},     {call_forward, "m_next", of_memory}, {call_pull, "o_bar", of_observations},
    {call_pull, "m_bar", of_memory},       {call_pull, "param_bar", of_params}, {call_keep, "kept", of_kept},
    {call_gather, "param_bar", of_params}, {call_push, "out_dot", of_outputs},  {call_push, "m_next_dot", of_memory}};

// ---- sizes --------------------------------------------------------------------------------------------------------------
size_t pbTrial_RowsIn(const Check *c, Source k) { return c->width[sources[k]]; }
size_t pbTrial_RowsOut(const Check *c, Target k) { return c->width[targets[k].width]; }

// Parameters are the same for all columns.
static size_t count(const Check *c, Width width, int batch) { return c->width[width] * (width == of_params ? 1 : (size_t)batch); }
static size_t count_in(const Check *c, Source k, int batch) { return count(c, sources[k], batch); }
static size_t count_out(const Check *c, Target k, int batch) { return count(c, targets[k].width, batch); }

static bool has(const Check *c, Call call) {
  if (call == call_push) return c->f->push;
  return c->f->gather || (call != call_keep && call != call_gather);
}

static void lay_out(pbArena *a, void *check) {
  Check *c = check;
  Input *inputs[] = {&c->all, &c->other, &c->one};
  Output *outputs[] = {&c->first, &c->second, &c->third, &c->fourth};

  for (int i = 0; i < 3; i++) {
    for (Source k = 0; k < in_count; k++) {
      inputs[i]->of[k] = pbArena_Take(a, count_in(c, k, COLUMNS), sizeof(double));
      inputs[i]->copy[k] = pbArena_Take(a, count_in(c, k, COLUMNS), sizeof(double));
    }
  }

  for (int i = 0; i < 4; i++) {
    for (Target k = 0; k < to_count; k++) outputs[i]->of[k] = pbArena_Take(a, count_out(c, k, COLUMNS), sizeof(double));
    outputs[i]->work = pbArena_Take(a, c->work_bytes + GUARD, 1);
  }
}

// ---- what is told -------------------------------------------------------------------------------------------------------
bool pbTrial_Fail(Check *c, const char *format, ...) {
  if (c->report->text[0]) return false;

  va_list args;
  va_start(args, format);
  vsnprintf(c->report->text, sizeof c->report->text, format, args);
  va_end(args);
  return false;
}

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static bool same(double a, double b) { return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b)); }

// ---- points -------------------------------------------------------------------------------------------------------------
// Of mean 0 and variance 1: uniform, since a million of normal deviates would take longer than all else.
static double draw_number(pbRng *rng) { return 3.4641016151377544 * (pbRng_Uniform(rng) - 0.5); }

// Near the start of a slice, within its bounds.
static void draw_slice(Check *c, const pbPolicySlice *slice, double *to) {
  for (int k = 0; k < slice->rows * slice->cols; k++) {
    double start = slice->start ? slice->start[k] : 0, range = slice->upper - slice->lower;
    to[k] = start + 0.1 * (1 + fabs(start)) * draw_number(&c->rng);
    if (!(range > 0)) continue;

    // At a bound itself there may be a kink.
    double edge = isfinite(range) ? 1e-3 * range : 0;
    if (to[k] < slice->lower + edge) to[k] = isfinite(range) ? slice->lower + edge : start;
    if (to[k] > slice->upper - edge) to[k] = isfinite(range) ? slice->upper - edge : start;
  }
}

void pbTrial_Draw(Check *c, Input *in, int batch, double scale) {
  in->batch = batch;
  double *p = in->of[in_p];

  for (int i = 0; i < c->f->slices; i++) {
    draw_slice(c, &c->f->slice[i], p);
    p += (size_t)c->f->slice[i].rows * (size_t)c->f->slice[i].cols;
  }

  for (Source k = 0; k < in_count; k++) {
    size_t n = count_in(c, k, batch);
    double size = k == in_o || k == in_m ? scale : 1;
    for (size_t i = 0; i < n; i++) {
      if (k != in_p) in->of[k][i] = size * draw_number(&c->rng);
      in->copy[k][i] = in->of[k][i];
    }
  }
}

// ---- calls --------------------------------------------------------------------------------------------------------------
static double *fill(const Check *c, const Output *out, Target k, int batch, double value) {
  size_t n = out->of[k] ? count_out(c, k, batch) : 0;
  for (size_t i = 0; i < n; i++) out->of[k][i] = value;
  return out->of[k];
}

pbStatus pbTrial_Call(const Check *c, Call call, const Input *in, Output *out, int byte) {
  const pbPolicyFunction *f = c->f;
  double *const *x = in->of, *const *y = out->of;
  int batch = in->batch;
  bool keep = call == call_keep;
  void *work = memset(out->work, byte, c->work_bytes + GUARD);
  PB_ASSERT(batch == 1 || batch == COLUMNS);

  switch (call) {
    case call_forward: return f->forward(f->self, batch, x[in_p], x[in_o], x[in_m], y[to_out], y[to_next], work);
    case call_gather:
      fill(c, out, to_gathered, batch, 0);
      return f->gather(f->self, batch, x[in_p], y[to_kept], batch, y[to_gathered], work);
    case call_push:
      return f->push(f->self, batch, x[in_p], x[in_pDot], x[in_o], x[in_oDot], x[in_m], x[in_mDot], y[to_outDot], y[to_nextDot],
                     work);
    default:
      for (Target k = to_oBar; k <= to_pBar; k++) fill(c, out, k, batch, out->before);
      return f->pull(f->self, batch, x[in_p], x[in_o], x[in_m], x[in_outBar], x[in_nextBar], y[to_oBar], y[to_mBar], y[to_pBar],
                     keep ? y[to_kept] : NULL, keep ? batch : 0, work);
  }
}

bool pbTrial_Try(Check *c, Call call, const Input *in, Output *out, int byte) {
  pbStatus status = pbTrial_Call(c, call, in, out, byte);
  return status == pb_ok || pbTrial_Fail(c, "%s returns an error: %s", call_names[call], pbStatus_Text(status));
}

// Nothing was written behind the working memory, nor to what is only to be read.
static bool kept_within(Check *c, const Output *out, int byte, const Input *in, const char *call) {
  const unsigned char *guard = (const unsigned char *)out->work + c->f->work_bytes(c->f->self, in->batch);
  for (int i = 0; i < GUARD; i++) {
    if (guard[i] != byte) return pbTrial_Fail(c, "%s writes behind its working memory: work_bytes is too small", call);
  }

  for (Source k = 0; k < in_count; k++) {
    size_t n = count_in(c, k, in->batch);
    if (n && memcmp(in->of[k], in->copy[k], n * sizeof(double))) return pbTrial_Fail(c, "%s writes to its input", call);
  }

  return true;
}

// Everything that the function has, at one input.
static bool call_all(Check *c, const Input *in, Output *out, int byte) {
  for (Call call = 0; call < call_count; call++) {
    if (!has(c, call)) continue;

    if (!pbTrial_Try(c, call, in, out, byte) || !kept_within(c, out, byte, in, call_names[call])) return false;

    size_t left_alone = call == call_keep ? c->width[of_params] : 0;
    for (size_t i = 0; i < left_alone; i++) {
      if (out->of[to_pBar][i] != 0) return pbTrial_Fail(c, "pull with kept writes to param_bar, which it must leave alone");
    }
  }

  return true;
}

// The first number of a target that differs: its place among all of them, or -1.
static long first_other(const Check *c, const Output *a, const Output *b, Target k, int batch) {
  for (size_t i = 0; i < count_out(c, k, batch); i++) {
    if (!same(a->of[k][i], b->of[k][i])) return (long)i;
  }

  return -1;
}

static bool same_outputs(Check *c, const Output *a, const Output *b, int batch, const char *why) {
  for (Target k = 0; k < to_count; k++) {
    long at = has(c, targets[k].call) ? first_other(c, a, b, k, batch) : -1;
    if (at < 0) continue;

    return pbTrial_Fail(c, "%s %s: %s[%ld] is %.9g, then %.9g", call_names[targets[k].call], why, targets[k].what, at,
                        a->of[k][at], b->of[k][at]);
  }

  return true;
}

// ---- the same numbers from the same input -----------------------------------------------------------------------------------
static bool check_repeats(Check *c) {
  // Another input between, for what remembers.
  if (!call_all(c, &c->all, &c->first, CLEAN) || !call_all(c, &c->other, &c->second, CLEAN)) return false;
  if (!call_all(c, &c->all, &c->third, CLEAN)) return false;
  if (!same_outputs(c, &c->first, &c->third, COLUMNS,
                    "gives other numbers for the same input: it keeps state between calls, in a variable of its own"))
    return false;

  if (!call_all(c, &c->all, &c->third, SPOILED)) return false;
  return same_outputs(c, &c->first, &c->third, COLUMNS, "depends on what its working memory held before");
}

// Column b of an input as a batch of one.
static void take_column(const Check *c, const Input *in, int b, Input *one) {
  PB_ASSERT(b >= 0 && b < in->batch);
  one->batch = 1;

  for (Source k = 0; k < in_count; k++) {
    bool shared = sources[k] == of_params;
    size_t n = pbTrial_RowsIn(c, k), step = shared ? 1 : (size_t)in->batch, first = shared ? 0 : (size_t)b;
    for (size_t i = 0; i < n; i++) {
      one->of[k][i] = in->of[k][i * step + first];
      one->copy[k][i] = one->of[k][i];
    }
  }
}

static bool check_columns(Check *c) {
  for (int b = 0; b < COLUMNS; b++) {
    take_column(c, &c->all, b, &c->one);
    if (!call_all(c, &c->one, &c->second, CLEAN)) return false;

    // What the columns share, and what only gather reads, is no column's own.
    for (Target k = 0; k < to_count; k++) {
      if (targets[k].width == of_params || k == to_kept || !has(c, targets[k].call)) continue;

      for (size_t i = 0; i < pbTrial_RowsOut(c, k); i++) {
        double within = c->first.of[k][i * COLUMNS + (size_t)b];
        if (same(within, c->second.of[k][i])) continue;
        return pbTrial_Fail(c, "%s: column %d of %d depends on the other columns: %s[%zu] is %.9g, alone %.9g",
                            call_names[targets[k].call], b, COLUMNS, targets[k].what, i, within, c->second.of[k][i]);
      }
    }
  }

  return true;
}

// Two threads, an input each, many times over.
typedef struct Worker {
  const Check *check;
  const Input *in;
  const Output *expected;
  Output *out;
  atomic_int *away;  // threads that have not come yet: both begin together
  atomic_int *busy;  // those that have not done their calls yet
  int times;
  const char *other;  // the call that gave other numbers
} Worker;

// Whether a call gives what it gave alone.
static bool repeats(const Worker *w, Call call) {
  if (pbTrial_Call(w->check, call, w->in, w->out, CLEAN) != pb_ok) return false;

  for (Target k = 0; k < to_count; k++) {
    if (targets[k].call == call && first_other(w->check, w->expected, w->out, k, w->in->batch) >= 0) return false;
  }
  return true;
}

static void *work_through(void *argument) {
  static const Call calls[] = {call_forward, call_pull, call_push};
  Worker *w = argument;
  atomic_fetch_sub(w->away, 1);
  while (atomic_load(w->away)) sched_yield();

  // Until the other has done its calls too, or they might never have met.
  bool busy = true;
  for (int i = 0; !w->other && i < 1000 * w->times; i++) {
    if (i == w->times) {
      atomic_fetch_sub(w->busy, 1);
      busy = false;
    }

    if (!busy && !atomic_load(w->busy)) break;
    for (int k = 0; k < 3; k++) {
      if (has(w->check, calls[k]) && !repeats(w, calls[k])) w->other = call_names[calls[k]];
    }
  }

  if (busy) atomic_fetch_sub(w->busy, 1);
  return NULL;
}

static bool check_threads(Check *c) {
  // What must come out is known from calls one after the other.
  if (!call_all(c, &c->all, &c->first, CLEAN) || !call_all(c, &c->other, &c->second, CLEAN)) return false;
  pthread_t thread;
  int times = 4 + (int)(100 / (1 + c->width[of_params] / 1000));
  atomic_int away = 2, busy = 2;
  Worker own = {c, &c->all, &c->first, &c->third, &away, &busy, times, NULL};
  Worker beside = {c, &c->other, &c->second, &c->fourth, &away, &busy, times, NULL};

  bool started = pthread_create(&thread, NULL, work_through, &beside) == 0;
  if (started) {
    work_through(&own);
    pthread_join(thread, NULL);
  }

  c->no_thread = !started;
  if (!started) return pbTrial_Fail(c, "no thread could be had to check it with");

  const char *other = own.other ? own.other : beside.other;
  return !other ||
         pbTrial_Fail(c, "%s gives other numbers when two threads call it at once: it has memory that they share", other);
}

// ---- adding -------------------------------------------------------------------------------------------------------------
// Equal but for rounding, of numbers of the size that both have.
static bool near(const Check *c, double a, double b, double size) { return fabs(a - b) <= 1e5 * c->rounding * (size + fabs(b)); }

static bool check_adding(Check *c) {
  const double before = 2;
  Output more_there = c->second;
  more_there.before = before;
  c->report->adds = false;
  if (!call_all(c, &c->all, &c->first, CLEAN) || !pbTrial_Try(c, call_pull, &c->all, &more_there, CLEAN)) return false;

  for (Target k = to_oBar; k <= to_pBar; k++) {
    for (size_t i = 0; i < count_out(c, k, COLUMNS); i++) {
      double from_zero = c->first.of[k][i], more = c->second.of[k][i] - before;
      if (!isfinite(from_zero) || near(c, more, from_zero, before)) continue;
      if (same(c->second.of[k][i], from_zero))
        return pbTrial_Fail(c, "pull writes over %s; it must add to what is there", targets[k].what);
      return pbTrial_Fail(c, "pull does not add to %s: [%zu] is %.9g on zeros, %.9g more on %g", targets[k].what, i, from_zero,
                          more, before);
    }
  }

  c->report->adds = true;
  return true;
}

static bool same_gradient(Check *c) {
  for (size_t i = 0; i < c->width[of_params]; i++) {
    double pulled = c->first.of[to_pBar][i], gathered = c->first.of[to_gathered][i];
    if (isfinite(pulled) && !near(c, gathered, pulled, 1))
      return pbTrial_Fail(c, "gather and pull differ: param_bar[%zu] is %.9g by gather, %.9g by pull", i, gathered, pulled);
  }

  return true;
}

// Without parameters wanted, and with gather instead.
static bool check_gather(Check *c) {
  Output bare = c->second;
  bare.of[to_pBar] = NULL;
  c->report->gathers = false;
  if (!pbTrial_Try(c, call_pull, &c->all, &bare, CLEAN)) return false;
  if (first_other(c, &c->first, &c->second, to_oBar, COLUMNS) >= 0 ||
      first_other(c, &c->first, &c->second, to_mBar, COLUMNS) >= 0)
    return pbTrial_Fail(c, "pull gives other cotangents where param_bar is not wanted (NULL)");

  if (c->f->gather && !same_gradient(c)) return false;
  c->report->gathers = true;
  return true;
}
// ---- the whole ----------------------------------------------------------------------------------------------------------
static pbStatus check_slice(pbContext *ctx, const char *name, const pbPolicySlice *s, int number) {
  if (!s->name || !*s->name) return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': slice %d has no name", name, number);
  if (s->rows < 0 || s->cols < 0)
    return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': slice '%s' of %d x %d numbers", name, s->name, s->rows, s->cols);

  if (!s->start) return pb_ok;
  for (int k = 0; k < s->rows * s->cols; k++) {
    if (!isfinite(s->start[k]))
      return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': number %d of the start of '%s' is %g", name, k, s->name,
                            s->start[k]);
  }

  return pb_ok;
}

static pbStatus check_shape(pbContext *ctx, const pbPolicyFunction *f) {
  const char *name = f->name ? f->name : "";
  if (!f->work_bytes || !f->forward || !f->pull)
    return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': work_bytes, forward and pull must be there", name);
  if (f->observations < 0 || f->outputs < 0 || f->memory < 0 || f->slices < 0 || (f->slices && !f->slice))
    return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': %d observations, %d outputs, %d numbers of memory, %d slices", name,
                          f->observations, f->outputs, f->memory, f->slices);
  if (!f->gather != !f->kept_size && !(f->gather && !f->slices))
    return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': gather and kept_size go together", name);
  if (!(f->rounding >= 0 && f->rounding < 0.01))
    return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': a unit roundoff of %g", name, f->rounding);

  for (int i = 0; i < f->slices; i++) PB_TRY(check_slice(ctx, name, &f->slice[i], i));
  const pbPolicyFunction *e = f->exact;
  if (e && (e->observations != f->observations || e->outputs != f->outputs || e->memory != f->memory || e->slices != f->slices))
    return pbContext_Fail(ctx, pb_bad_argument, "policy '%s': its exact twin has other sizes", name);
  return pb_ok;
}

// For batches of one and of COLUMNS, of the function and its twin.
static size_t most_work(const pbPolicyFunction *f) {
  size_t one = f->work_bytes(f->self, 1), many = f->work_bytes(f->self, COLUMNS), own = one > many ? one : many;
  size_t twin = f->exact ? most_work(f->exact) : 0;
  return own > twin ? own : twin;
}

// From here on derivatives are those of the exact twin, which must be the same function.
static bool take_exact(Check *c) {
  if (!c->f->exact) return true;
  if (!pbTrial_Try(c, call_forward, &c->all, &c->first, CLEAN)) return false;

  c->f = c->f->exact;
  if (!pbTrial_Try(c, call_forward, &c->all, &c->second, CLEAN)) return false;
  if (first_other(c, &c->first, &c->second, to_out, COLUMNS) < 0 && first_other(c, &c->first, &c->second, to_next, COLUMNS) < 0)
    return true;
  return pbTrial_Fail(c, "its exact twin has another forward");
}

static void check_all(Check *c) {
  pbTrial_Draw(c, &c->all, COLUMNS, 1);
  pbTrial_Draw(c, &c->other, COLUMNS, 1);
  c->report->pure = check_repeats(c) && check_columns(c) && check_threads(c);
  if (!c->report->pure || !check_adding(c) || !check_gather(c)) return;

  if (take_exact(c)) pbTrial_Derivatives(c);
}

static pbStatus check_function(pbContext *ctx, const pbPolicyFunction *f, uint64_t seed, pbPolicyReport *report) {
  PB_TRY(check_shape(ctx, f));
  Check c = {.ctx = ctx, .f = f, .report = report, .rng = pbRng_Seed(seed), .rounding = f->rounding > 0 ? f->rounding : 1.1e-16};
  const int sizes[] = {[of_observations] = f->observations, [of_memory] = f->memory, [of_outputs] = f->outputs};
  for (Width k = of_observations; k <= of_outputs; k++) c.width[k] = (size_t)sizes[k];
  for (int i = 0; i < f->slices; i++) c.width[of_params] += (size_t)f->slice[i].rows * (size_t)f->slice[i].cols;
  c.width[of_kept] = f->kept_size;
  c.work_bytes = most_work(f);

  void *memory = pbArena_Make(ctx, lay_out, &c);
  if (!memory) return pbContext_Fail(ctx, pb_no_memory, "out of memory");
  PB_ASSERT((uintptr_t)c.first.work % 64 == 0);

  check_all(&c);
  pbContext_Free(ctx, memory);
  if (!report->text[0]) return pb_ok;
  return pbContext_Fail(ctx, c.no_thread ? pb_no_memory : pb_check_failed, "policy '%s': %s", f->name ? f->name : "",
                        report->text);
}

pbStatus pbPolicy_Check(pbContext *ctx, const pbPolicyFunction *function, uint64_t seed, pbPolicyReport *report) {
  *report = (pbPolicyReport){.dot = NAN, .difference = NAN};
  return check_function(ctx, function, seed, report);
}
