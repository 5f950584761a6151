// Whether a policy keeps what pbPolicyFunction promises: same numbers from same input, adding, gradients of many columns, the
// derivative. Whoever writes a controller makes one of these mistakes first; each is told by name.
// Tests: tests/unit/test_policy_check.c.
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "policy/check.h"

static const struct {
  const char *call, *what;
} targets[to_count] = {{"forward", "out"},      {"forward", "m_next"}, {"pull", "o_bar"},
                       {"pull", "m_bar"},       {"pull", "param_bar"}, {"pull", "kept"},
                       {"gather", "param_bar"}, {"push", "out_dot"},   {"push", "m_next_dot"}};

// ---- sizes --------------------------------------------------------------------------------------------------------------
size_t pbTrial_RowsIn(const Check *c, Source k) {
  switch (k) {
    case in_o:
    case in_oDot: return (size_t)c->f->observations;
    case in_p:
    case in_pDot: return c->params;
    case in_outBar: return (size_t)c->f->outputs;
    default: return (size_t)c->f->memory;
  }
}

size_t pbTrial_RowsOut(const Check *c, Target k) {
  switch (k) {
    case to_out:
    case to_outDot: return (size_t)c->f->outputs;
    case to_oBar: return (size_t)c->f->observations;
    case to_pBar:
    case to_gathered: return c->params;
    case to_kept: return c->f->kept_size;
    default: return (size_t)c->f->memory;
  }
}

static bool is_shared_in(Source k) { return k == in_p || k == in_pDot; }
static bool is_shared_out(Target k) { return k == to_pBar || k == to_gathered; }
static size_t count_in(const Check *c, Source k, int batch) {
  return pbTrial_RowsIn(c, k) * (is_shared_in(k) ? 1 : (size_t)batch);
}
static size_t count_out(const Check *c, Target k, int batch) {
  return pbTrial_RowsOut(c, k) * (is_shared_out(k) ? 1 : (size_t)batch);
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
void *pbTrial_Work(const Check *c, Output *out, int byte) { return memset(out->work, byte, c->work_bytes + GUARD); }

bool pbTrial_StatusOk(Check *c, const char *call, pbStatus status) {
  return status == pb_ok || pbTrial_Fail(c, "%s returns an error: %s", call, pbStatus_Text(status));
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

static void clear(const Check *c, Output *out, Target k, int batch, double value) {
  for (size_t i = 0; i < count_out(c, k, batch); i++) out->of[k][i] = value;
}

pbStatus pbTrial_Forward(const Check *c, const Input *in, Output *out, int byte) {
  PB_ASSERT(in->batch == 1 || in->batch == COLUMNS);
  const pbPolicyFunction *f = c->f;
  return f->forward(f->self, in->batch, in->of[in_p], in->of[in_o], in->of[in_m], out->of[to_out], out->of[to_next],
                    pbTrial_Work(c, out, byte));
}

pbStatus pbTrial_Pull(const Check *c, const Input *in, Output *out, int byte, double before, bool keep) {
  const pbPolicyFunction *f = c->f;
  Target bars[] = {to_oBar, to_mBar, to_pBar};
  for (int i = 0; i < 3; i++) clear(c, out, bars[i], in->batch, before);

  return f->pull(f->self, in->batch, in->of[in_p], in->of[in_o], in->of[in_m], in->of[in_outBar], in->of[in_nextBar],
                 out->of[to_oBar], out->of[to_mBar], out->of[to_pBar], keep ? out->of[to_kept] : NULL, keep ? in->batch : 0,
                 pbTrial_Work(c, out, byte));
}

static pbStatus call_gather(const Check *c, const Input *in, Output *out, int byte) {
  clear(c, out, to_gathered, in->batch, 0);
  return c->f->gather(c->f->self, in->batch, in->of[in_p], out->of[to_kept], in->batch, out->of[to_gathered],
                      pbTrial_Work(c, out, byte));
}

static pbStatus call_push(const Check *c, const Input *in, Output *out, int byte) {
  const pbPolicyFunction *f = c->f;
  return f->push(f->self, in->batch, in->of[in_p], in->of[in_pDot], in->of[in_o], in->of[in_oDot], in->of[in_m], in->of[in_mDot],
                 out->of[to_outDot], out->of[to_nextDot], pbTrial_Work(c, out, byte));
}

// A call that has ended well and kept within its memory.
static bool is_good(Check *c, const char *call, pbStatus status, const Input *in, const Output *out, int byte) {
  return pbTrial_StatusOk(c, call, status) && kept_within(c, out, byte, in, call);
}

// Everything that the function has, at one input. Pull last without keeping, so that param_bar is there.
static bool call_all(Check *c, const Input *in, Output *out, int byte) {
  if (!is_good(c, "forward", pbTrial_Forward(c, in, out, byte), in, out, byte)) return false;

  if (c->f->gather) {
    if (!is_good(c, "pull", pbTrial_Pull(c, in, out, byte, 0, true), in, out, byte)) return false;
    for (size_t i = 0; i < c->params; i++) {
      if (out->of[to_pBar][i] != 0) return pbTrial_Fail(c, "pull with kept writes to param_bar, which it must leave alone");
    }

    if (!is_good(c, "gather", call_gather(c, in, out, byte), in, out, byte)) return false;
  }

  if (!is_good(c, "pull", pbTrial_Pull(c, in, out, byte, 0, false), in, out, byte)) return false;
  return !c->f->push || is_good(c, "push", call_push(c, in, out, byte), in, out, byte);
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
    bool there = (c->f->push || k < to_outDot) && (c->f->gather || (k != to_kept && k != to_gathered));
    long at = there ? first_other(c, a, b, k, batch) : -1;
    if (at < 0) continue;

    return pbTrial_Fail(c, "%s %s: %s[%ld] is %.9g, then %.9g", targets[k].call, why, targets[k].what, at, a->of[k][at],
                        b->of[k][at]);
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
    size_t n = pbTrial_RowsIn(c, k), step = is_shared_in(k) ? 1 : (size_t)in->batch, first = is_shared_in(k) ? 0 : (size_t)b;
    for (size_t i = 0; i < n; i++) {
      one->of[k][i] = in->of[k][i * step + first];
      one->copy[k][i] = one->of[k][i];
    }
  }
}

static bool check_columns(Check *c) {
  static const Target alone[] = {to_out, to_next, to_oBar, to_mBar, to_outDot, to_nextDot};

  for (int b = 0; b < COLUMNS; b++) {
    take_column(c, &c->all, b, &c->one);
    if (!call_all(c, &c->one, &c->second, CLEAN)) return false;

    for (int t = 0; t < (c->f->push ? 6 : 4); t++) {
      Target k = alone[t];
      for (size_t i = 0; i < pbTrial_RowsOut(c, k); i++) {
        double within = c->first.of[k][i * COLUMNS + (size_t)b];
        if (same(within, c->second.of[k][i])) continue;
        return pbTrial_Fail(c, "%s: column %d of %d depends on the other columns: %s[%zu] is %.9g, alone %.9g", targets[k].call,
                            b, COLUMNS, targets[k].what, i, within, c->second.of[k][i]);
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
  pthread_barrier_t *start;
  atomic_int *busy;  // threads that have not done their calls yet
  int times;
  const char *other;  // the call that gave other numbers
} Worker;

static bool differs(const Worker *w, Target k) { return first_other(w->check, w->expected, w->out, k, w->in->batch) >= 0; }

static void *work_through(void *argument) {
  Worker *w = argument;
  const Check *c = w->check;
  pthread_barrier_wait(w->start);

  // Until the other has done its calls too, or they might never have met.
  bool busy = true;
  for (int i = 0; !w->other && i < 1000 * w->times; i++) {
    if (i == w->times) {
      atomic_fetch_sub(w->busy, 1);
      busy = false;
    }

    if (!busy && !atomic_load(w->busy)) break;
    pbStatus status = pbTrial_Forward(c, w->in, w->out, CLEAN);
    if (status != pb_ok || differs(w, to_out) || differs(w, to_next)) w->other = "forward";
    status = pbTrial_Pull(c, w->in, w->out, CLEAN, 0, false);
    if (status != pb_ok || differs(w, to_oBar) || differs(w, to_mBar) || differs(w, to_pBar)) w->other = "pull";
    if (c->f->push) status = call_push(c, w->in, w->out, CLEAN);
    if (c->f->push && (status != pb_ok || differs(w, to_outDot) || differs(w, to_nextDot))) w->other = "push";
  }

  if (busy) atomic_fetch_sub(w->busy, 1);
  return NULL;
}

static bool check_threads(Check *c) {
  // What must come out is known from calls one after the other.
  if (!call_all(c, &c->all, &c->first, CLEAN) || !call_all(c, &c->other, &c->second, CLEAN)) return false;
  pthread_barrier_t start;
  pthread_t thread;
  int times = 4 + (int)(100 / (1 + c->params / 1000));
  atomic_int busy = 2;
  Worker own = {c, &c->all, &c->first, &c->third, &start, &busy, times, NULL};
  Worker beside = {c, &c->other, &c->second, &c->fourth, &start, &busy, times, NULL};

  if (pthread_barrier_init(&start, NULL, 2)) return pbTrial_Fail(c, "no thread could be had to check it with");
  bool started = pthread_create(&thread, NULL, work_through, &beside) == 0;
  if (started) {
    work_through(&own);
    pthread_join(thread, NULL);
  }

  pthread_barrier_destroy(&start);
  if (!started) return pbTrial_Fail(c, "no thread could be had to check it with");

  const char *other = own.other ? own.other : beside.other;
  return !other ||
         pbTrial_Fail(c, "%s gives other numbers when two threads call it at once: it has memory that they share", other);
}

// ---- adding -------------------------------------------------------------------------------------------------------------
// Equal but for rounding, of numbers of the size that both have.
static bool near(const Check *c, double a, double b, double size) { return fabs(a - b) <= 1e5 * c->rounding * (size + fabs(b)); }

static bool check_adding(Check *c) {
  static const Target bars[] = {to_oBar, to_mBar, to_pBar};
  const double before = 2;
  c->report->adds = false;
  if (!call_all(c, &c->all, &c->first, CLEAN)) return false;
  if (!pbTrial_StatusOk(c, "pull", pbTrial_Pull(c, &c->all, &c->second, CLEAN, before, false))) return false;

  for (int t = 0; t < 3; t++) {
    Target k = bars[t];
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
  for (size_t i = 0; i < c->params; i++) {
    double pulled = c->first.of[to_pBar][i], gathered = c->first.of[to_gathered][i];
    if (isfinite(pulled) && !near(c, gathered, pulled, 1))
      return pbTrial_Fail(c, "gather and pull differ: param_bar[%zu] is %.9g by gather, %.9g by pull", i, gathered, pulled);
  }

  return true;
}

// Without parameters wanted, and with gather instead.
static bool check_gather(Check *c) {
  const pbPolicyFunction *f = c->f;
  const Input *in = &c->all;
  c->report->gathers = false;
  clear(c, &c->second, to_oBar, COLUMNS, 0);
  clear(c, &c->second, to_mBar, COLUMNS, 0);

  pbStatus status = f->pull(f->self, COLUMNS, in->of[in_p], in->of[in_o], in->of[in_m], in->of[in_outBar], in->of[in_nextBar],
                            c->second.of[to_oBar], c->second.of[to_mBar], NULL, NULL, 0, pbTrial_Work(c, &c->second, CLEAN));
  if (!pbTrial_StatusOk(c, "pull", status)) return false;
  if (first_other(c, &c->first, &c->second, to_oBar, COLUMNS) >= 0 ||
      first_other(c, &c->first, &c->second, to_mBar, COLUMNS) >= 0)
    return pbTrial_Fail(c, "pull gives other cotangents where param_bar is not wanted (NULL)");

  if (f->gather && !same_gradient(c)) return false;
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
  if (!pbTrial_StatusOk(c, "forward", pbTrial_Forward(c, &c->all, &c->first, CLEAN))) return false;

  c->f = c->f->exact;
  if (!pbTrial_StatusOk(c, "forward", pbTrial_Forward(c, &c->all, &c->second, CLEAN))) return false;
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
  for (int i = 0; i < f->slices; i++) c.params += (size_t)f->slice[i].rows * (size_t)f->slice[i].cols;
  c.work_bytes = most_work(f);

  void *memory = pbArena_Make(ctx, lay_out, &c);
  if (!memory) return pbContext_Fail(ctx, pb_no_memory, "out of memory");
  PB_ASSERT((uintptr_t)c.first.work % 64 == 0);

  check_all(&c);
  pbContext_Free(ctx, memory);
  if (!report->text[0]) return pb_ok;
  return pbContext_Fail(ctx, pb_check_failed, "policy '%s': %s", f->name ? f->name : "", report->text);
}

pbStatus pbPolicy_Check(pbContext *ctx, const pbPolicyFunction *function, uint64_t seed, pbPolicyReport *report) {
  *report = (pbPolicyReport){.dot = NAN, .difference = NAN};
  return check_function(ctx, function, seed, report);
}
