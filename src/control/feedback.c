// Feedback along a linearized trajectory. Tests: tests/unit/test_ilqr.c.
#include "control/feedback.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "linalg/product.h"

// ---- memory ---------------------------------------------------------------------------------------------------------
enum { alignment = 64 };

static int widest(const pbFeedback *f) { return f->of->slots > f->of->start_count ? f->of->slots : f->of->start_count; }

// C += A'B of `rows` rows.
static pbProductShape shape_of(const pbFeedback *f, int rows) {
  int size = f->of->size;
  return (pbProductShape){.m = size, .n = size, .k = rows, .a_transposed = true, .lda = size, .ldb = size, .ldc = size};
}

pbStatus pbFeedback_Create(pbContext *ctx, pbFeedback *f, pbRiccati *of) {
  *f = (pbFeedback){.of = of};
  PB_ASSERT(of->steps > 0 && of->size == of->n + of->slots);
  size_t entries = (size_t)of->entry_count, starts = (size_t)of->start_count, size = (size_t)of->size;
  size_t width = (size_t)widest(f), of_slots = (size_t)of->slots * size;
  pbProductShape shape = shape_of(f, of->slots);
  size_t doubles = entries * (size + 1) + starts + 2 * of_slots + size + pbBoxQp_Doubles((int)width);
  size_t bytes = pbProduct_WorkBytes(&shape) + alignment;

  f->numbers = pbContext_AllocArray(ctx, doubles + bytes / sizeof(double) + 1, sizeof(double));
  f->integers = pbContext_AllocArray(ctx, 2 * width + 1, sizeof(int));
  if (!f->numbers || !f->integers) return pbContext_Fail(ctx, pb_no_memory, "no memory for feedback of %d steps", of->steps);

  // one after the other
  f->move = f->numbers;
  f->gain = f->move + entries;
  f->start_move = f->gain + entries * size;
  f->W = f->start_move + starts;
  f->M = f->W + of_slots;
  f->moved = f->M + of_slots;
  f->room = f->moved + size;
  f->at = f->integers + width;
  f->product = (void *)(((uintptr_t)(f->numbers + doubles) + alignment - 1) / alignment * alignment);

  return pb_ok;
}

void pbFeedback_Free(pbContext *ctx, pbFeedback *f) {
  pbContext_Free(ctx, f->numbers);
  pbContext_Free(ctx, f->integers);
  *f = (pbFeedback){0};
}

// ---- the knots of one step --------------------------------------------------------------------------------------------
typedef struct Limits {
  const double *z, *lower, *upper;
  double *moves;
} Limits;

// Room for a problem of so many unknowns.
static pbBoxQp problem_of(pbFeedback *f, int count) {
  pbBoxQp q;
  pbBoxQp_Place(&q, count, f->room, f->integers);
  return q;
}

static void limit(pbBoxQp *q, int a, int unknown, const Limits *l) {
  q->lower[a] = l->lower[unknown] - l->z[unknown];
  q->upper[a] = l->upper[unknown] - l->z[unknown];
}

// A group: entries first .. first + count - 1 of step k.
typedef struct Group {
  int k, first, count;
} Group;

static double mean_diagonal(const pbRiccati *s, int from, int to) {
  double sum = 0;
  for (int i = from; i < to; i++) sum += fabs(s->P[(size_t)i * (size_t)s->size + (size_t)i]);
  return to > from ? sum / (to - from) : 0;
}

// W: rows of P by the group's knots, and what damping adds to them: states by their mean curvature
// after the step, `of_states`, knots by the mean of the group's.
static void gather_rows(pbFeedback *f, const Group *g, double lambda, double of_states) {
  const pbRiccati *s = f->of;
  size_t n = (size_t)s->n, size = (size_t)s->size;
  const double *F = s->F + (size_t)g->k * n * size;
  double of_knots = 0;

  for (int a = 0; a < g->count; a++) {
    f->at[a] = s->n + s->entries[g->first + a].slot;
    memcpy(f->W + (size_t)a * size, s->P + (size_t)f->at[a] * size, size * sizeof *f->W);
    of_knots += fabs(s->P[(size_t)f->at[a] * size + (size_t)f->at[a]]) / g->count;
  }
  if (lambda == 0) return;

  for (int a = 0; a < g->count; a++) {
    double *row = f->W + (size_t)a * size;
    for (size_t i = 0; i < n; i++) {
      double by = lambda * of_states * F[i * size + (size_t)f->at[a]];
      if (by == 0) continue;
      for (size_t j = 0; j < size; j++) row[j] += by * F[i * size + j];
    }
    row[f->at[a]] += lambda * (of_knots > 0 ? of_knots : 1);
  }
}

// The least value over the group's moves with the state where it is.
static bool choose_moves(pbFeedback *f, const Group *g, const Limits *l, pbBoxQp *q) {
  const pbRiccati *s = f->of;
  size_t size = (size_t)s->size;
  *q = problem_of(f, g->count);

  for (int a = 0; a < g->count; a++) {
    bool seen = s->q[f->at[a]] != 0;
    for (int b = 0; b < g->count; b++) {
      q->H[a * g->count + b] = f->W[(size_t)a * size + (size_t)f->at[b]];
      seen |= q->H[a * g->count + b] != 0;
    }
    q->g[a] = s->q[f->at[a]];
    limit(q, a, s->entries[g->first + a].unknown, l);

    // what nothing depends on stays where it is
    if (!seen) q->lower[a] = q->upper[a] = 0;
    q->x[a] = l->moves[s->entries[g->first + a].unknown];
  }

  return pbBoxQp_Solve(q);
}

// Rows of W become the answers of those that are free, -H_ff^-1 W_f, of the others zero; columns of the group itself are none.
static void find_gains(pbFeedback *f, const Group *g, const pbBoxQp *q) {
  size_t size = (size_t)f->of->size;
  int count = q->free_count;
  PB_ASSERT(count >= 0 && count <= g->count);

  // L L' X = W, rows of X in the place of those of W
  for (int a = 0; a < count; a++) {
    double *row = f->W + (size_t)q->free[a] * size;
    for (int b = 0; b < a; b++) {
      const double *other = f->W + (size_t)q->free[b] * size;
      double by = q->L[a * count + b];
      for (size_t j = 0; j < size; j++) row[j] -= by * other[j];
    }
    for (size_t j = 0; j < size; j++) row[j] /= q->L[a * count + a];
  }
  for (int a = count - 1; a >= 0; a--) {
    double *row = f->W + (size_t)q->free[a] * size;
    for (int b = a + 1; b < count; b++) {
      const double *other = f->W + (size_t)q->free[b] * size;
      double by = q->L[b * count + a];
      for (size_t j = 0; j < size; j++) row[j] -= by * other[j];
    }
    for (size_t j = 0; j < size; j++) row[j] /= q->L[a * count + a];
  }

  for (int a = 0, next = 0; a < g->count; a++) {
    double *row = f->W + (size_t)a * size, *gain = f->gain + (size_t)(g->first + a) * size;
    bool is_free = next < count && q->free[next] == a;
    next += is_free;
    for (size_t j = 0; j < size; j++) row[j] = is_free ? -row[j] : 0;
    for (int b = 0; b < g->count; b++) row[f->at[b]] = 0;
    for (size_t j = 0; j < size; j++) gain[j] = -row[j];
  }
}

// What the move of a knot adds to the promise. slope: the loss's by the knot when all later knots make their moves, of which
// `moved` is what those have added (their part is of second order); pulled: the slope that the group's own moves add.
static void promise(pbFeedback *f, double move, double slope, double moved, double pulled) {
  f->linear += 2 * move * (slope - moved);
  f->size += fabs(2 * move * (slope - moved));
  f->quadratic += move * (2 * moved + pulled);
}

// P and q with the group's knots at moves y and answers K: P + K'N + N'K with N = P_gg K / 2 + P_g, q + K'(P_gg y + q_g) + P_g'y.
// The slots are empty for the knots before them.
static void go_on_without(pbFeedback *f, const Group *g, const double *y) {
  pbRiccati *s = f->of;
  size_t size = (size_t)s->size;
  double *q = s->q, *before = s->before, *moved = f->moved;

  // borrowed for what the moves of this group add to q
  memset(before, 0, size * sizeof *before);
  for (int a = 0; a < g->count; a++) {
    int at = f->at[a];
    const double *row = s->P + (size_t)at * size, *K = f->W + (size_t)a * size;
    double *N = f->M + (size_t)a * size, pulled = 0, slope = q[at] - moved[at];
    memcpy(N, row, size * sizeof *N);
    for (int b = 0; b < g->count; b++) {
      double by = row[f->at[b]];
      pulled += by * y[b];
      for (size_t j = 0; j < size; j++) N[j] += by / 2 * f->W[(size_t)b * size + j];
    }

    promise(f, y[a], q[at], moved[at], pulled);
    for (size_t j = 0; j < size; j++) {
      q[j] += K[j] * slope;
      before[j] += K[j] * (moved[at] + pulled) + row[j] * y[a];
    }
  }
  for (size_t j = 0; j < size; j++) {
    q[j] += before[j];
    moved[j] += before[j];
  }

  pbProductShape shape = shape_of(f, g->count);
  pbProduct_Add(&shape, f->W, f->M, s->P, f->product);
  pbProduct_Add(&shape, f->M, f->W, s->P, f->product);

  for (int a = 0; a < g->count; a++) {
    size_t at = (size_t)f->at[a];
    memset(s->P + at * size, 0, size * sizeof *s->P);
    for (size_t j = 0; j < size; j++) s->P[j * size + at] = 0;
    q[at] = moved[at] = 0;
  }
}

static bool plan_group(pbFeedback *f, const Group *g, double lambda, double of_states, const Limits *l) {
  pbBoxQp q;
  if (g->count == 0) return true;

  gather_rows(f, g, lambda, of_states);
  if (!choose_moves(f, g, l, &q)) return false;
  for (int a = 0; a < g->count; a++) f->move[g->first + a] = l->moves[f->of->entries[g->first + a].unknown] = q.x[a];
  find_gains(f, g, &q);
  go_on_without(f, g, q.x);

  return true;
}

// ---- gaps -------------------------------------------------------------------------------------------------------------
// The state of P and q comes nearer to where the step before it leads: with a gap d a part alpha of the plan moves it by
// -alpha d beside what that step makes of earlier moves (Mastalli et al. 2020, "Crocoddyl", IV).
static void close_gap(pbFeedback *f, const double *d) {
  pbRiccati *s = f->of;
  size_t size = (size_t)s->size;
  double *pulled = s->before;

  // borrowed: P d, the knots at hand where they are
  memset(pulled, 0, size * sizeof *pulled);
  for (int i = 0; i < s->n; i++) {
    const double *row = s->P + (size_t)i * size;
    for (size_t j = 0; j < size; j++) pulled[j] += row[j] * d[i];
  }

  for (int i = 0; i < s->n; i++) promise(f, -d[i], s->q[i], f->moved[i], -pulled[i]);
  for (size_t j = 0; j < size; j++) {
    s->q[j] -= pulled[j];
    f->moved[j] -= pulled[j];
  }
}

// ---- the initial state ------------------------------------------------------------------------------------------------
static bool plan_start(pbFeedback *f, double lambda, const Limits *l) {
  pbRiccati *s = f->of;
  int count = s->start_count;
  double mean = 0;
  if (count <= 0) return true;

  pbRiccati_BeginStart(s);
  pbBoxQp q = problem_of(f, count);
  for (int a = 0; a < count; a++) mean += s->S[a * count + a] / count;

  for (int a = 0; a < count; a++) {
    bool seen = s->s[a] != 0;
    for (int b = 0; b < count; b++) {
      q.H[a * count + b] = s->S[a * count + b];
      seen |= q.H[a * count + b] != 0;
    }
    q.H[a * count + a] += lambda * (mean > 0 ? mean : 1);
    q.g[a] = s->s[a];
    limit(&q, a, s->start_unknown[a], l);
    if (!seen) q.lower[a] = q.upper[a] = 0;
    q.x[a] = l->moves[s->start_unknown[a]];
  }
  if (!pbBoxQp_Solve(&q)) return false;

  for (int a = 0; a < count; a++) {
    double pulled = 0, moved = 0;
    f->start_move[a] = l->moves[s->start_unknown[a]] = q.x[a];
    for (int b = 0; b < count; b++) pulled += s->S[a * count + b] * q.x[b];
    for (int i = 0; i < s->n; i++) moved += s->start[(size_t)a * (size_t)s->n + (size_t)i] * f->moved[i];
    promise(f, q.x[a], s->s[a], moved, pulled);
  }

  return true;
}

// ---- the whole --------------------------------------------------------------------------------------------------------
bool pbFeedback_Plan(pbFeedback *f, double lambda, const double *z, const double *lower, const double *upper, double *moves) {
  pbRiccati *s = f->of;
  const Limits limits = {z, lower, upper, moves};
  f->linear = f->quadratic = f->size = 0;
  memset(f->moved, 0, (size_t)s->size * sizeof *f->moved);
  PB_ASSERT(lambda >= 0);

  int e = 0, gap = f->gaps ? f->gap_count - 1 : -1;
  pbRiccati_BeginLast(s);
  for (int k = s->steps - 1; k >= 0; k--) {
    double of_states = mean_diagonal(s, 0, s->n);
    if (gap >= 0 && f->gap_step[gap] == k + 1) close_gap(f, f->gaps + (size_t)gap-- * (size_t)s->n);
    pbRiccati_PullBack(s, k);
    pbRiccati_PullVector(s, k, f->moved);

    Group group = {.k = k, .first = e};
    while (e < s->entry_count && s->entries[e].step == k) e++;
    group.count = e - group.first;
    if (!plan_group(f, &group, lambda, of_states, &limits)) return false;
  }

  PB_ASSERT(e == s->entry_count);
  return plan_start(f, lambda, &limits);
}

bool pbFeedback_Descends(const pbFeedback *f) { return f->linear <= 1e-9 * f->size; }

double pbFeedback_Move(const pbFeedback *f, int entry, double alpha, const double *x) {
  const double *gain = f->gain + (size_t)entry * (size_t)f->of->size;
  double move = alpha * f->move[entry];
  PB_ASSERT(entry >= 0 && entry < f->of->entry_count);

  for (int i = 0; i < f->of->size; i++) move -= gain[i] * x[i];
  return move;
}
