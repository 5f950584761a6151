// Multifrontal factorization A = P' L D L' P over an analysis, solution with its factor, and an estimate of the condition. The
// arithmetic is in factor_kernel.c and solve_kernel.c, the shape of fronts in analysis.h.
//
// Memory. A factor is two blocks: L, the panels of all fronts one after the other, and D. A tape may hold several. What a
// factorization or a solution needs besides is one block of the caller's, of pbSparseAnalysis_WorkSize: the largest of both,
// since they are never under way together. In it are the updates that fronts leave to their parents, on two stacks, for even and
// odd depths of the tree, whose places the analysis has laid out: nothing is allocated while numbers are at work. Children come
// in an order that keeps the stacks low (Liu 1986).
//
// What is not done, and why. Pivots are taken as they come: to exchange them would make the places above depend on values, and
// one analysis could not serve many factors. Small ones are refused, and the residual of a refined solution tells of growth. No
// order of METIS, which needs up to a seventh less work: it draws from the C library's global random state and allocates outside
// of the context, so that two threads would get other orders and other bits. No order of the step before where contacts have
// come: it makes the factor many times worse, and results would depend on history. No fused multiplication, which would change
// bits with the processor.
//
// Measured (bench/results/sparse.csv, make bench-sparse): by the time of CHOLMOD's factor .37 for 2187 unknowns, .75 for 14 739,
// 1.09 for 46 875. Tests: tests/unit/test_sparse.c.
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "sparse/kernels.h"

static const double TINY = 1e-14;  // a pivot below this fraction of its row's largest entry is none

struct pbSparseFactor {
  pbContext *ctx;
  const pbSparseAnalysis *analysis;
  const pbSparseKernels *kernels;
  double *L;        // panels of the fronts, panel_size and a vector to read beyond
  double *D;        // pivots by place, 3n and one to spare
  double smallest;  // of the last factorization
  int smallest_place;
};

// ---- memory ---------------------------------------------------------------------------------------------------------
static int least(int a, int b) { return a < b ? a : b; }

static pbFactorWork factor_work(pbArena *arena, const pbSparseAnalysis *a) {
  size_t depth = (size_t)least(a->most_pivots, PB_DEPTH), rows = (size_t)least(a->most_rows, PB_STRIP);
  size_t columns = (size_t)least(a->most_rows, PB_BREADTH);
  pbFactorWork w;
  w.stack = pbArena_Take(arena, a->stack_size, sizeof(double));
  w.tiny = pbArena_Take(arena, 3 * (size_t)a->n, sizeof(double));
  w.front.left = pbArena_Take(arena, (rows + PB_TILE_ROWS) * depth, sizeof(double));
  w.front.right = pbArena_Take(arena, (columns + PB_TILE_COLUMNS) * depth, sizeof(double));
  return w;
}

typedef struct SolveWork {
  double *y;           // workspace, PB_SOLVE_LANES x 3n: right-hand sides, then solutions, by place
  double *front;       // workspace, PB_SOLVE_LANES x most_rows: a front's part of them
  double *residual;    // workspace, 3n: b - A x of a refined solution; a vector of the estimate of the condition
  double *correction;  // workspace, 3n: A^-1 residual; likewise
} SolveWork;

static SolveWork solve_work(pbArena *arena, const pbSparseAnalysis *a) {
  size_t n = 3 * (size_t)a->n;
  SolveWork w;
  w.y = pbArena_Take(arena, PB_SOLVE_LANES * n, sizeof(double));
  w.front = pbArena_Take(arena, PB_SOLVE_LANES * (size_t)a->most_rows, sizeof(double));
  w.residual = pbArena_Take(arena, n, sizeof(double));
  w.correction = pbArena_Take(arena, n, sizeof(double));
  PB_ASSERT(!arena->failed);
  return w;
}

size_t pbSparseAnalysis_WorkSize(const pbSparseAnalysis *a) {
  pbArena factor = pbArena_Measure(), solve = pbArena_Measure();
  factor_work(&factor, a);
  solve_work(&solve, a);

  // One room for both, never used together.
  size_t f = pbArena_Needed(&factor), s = pbArena_Needed(&solve);
  return f > s ? f : s;
}

// Tiles are read in whole vectors, which may reach beyond the last panel.
static size_t panel_bytes(const pbSparseAnalysis *a) { return sizeof(double) * (a->panel_size + PB_PANEL_ALIGN); }

size_t pbSparseFactor_Bytes(const pbSparseAnalysis *a) {
  return sizeof(pbSparseFactor) + panel_bytes(a) + sizeof(double) * (3 * (size_t)a->n + 1);
}

pbStatus pbSparseFactor_Create(pbContext *ctx, const pbSparseAnalysis *a, pbSparseFactor **factor) {
  *factor = NULL;
  pbSparseFactor *f = pbContext_Alloc(ctx, sizeof *f);
  if (f) {
    *f = (pbSparseFactor){.ctx = ctx, .analysis = a, .kernels = pbSparseKernels_At(0)};
    f->L = pbContext_Alloc(ctx, panel_bytes(a));
    f->D = pbContext_AllocArray(ctx, 3 * (size_t)a->n + 1, sizeof *f->D);

    // All of it or nothing.
    if (f->L && f->D) {
      *factor = f;
      return pb_ok;
    }
    pbSparseFactor_Destroy(f);
  }
  return pbContext_Fail(ctx, pb_no_memory, "no memory for a sparse factor of %zu bytes", pbSparseFactor_Bytes(a));
}

void pbSparseFactor_Destroy(pbSparseFactor *f) {
  if (!f) return;
  pbContext *ctx = f->ctx;
  pbContext_Free(ctx, f->L);
  pbContext_Free(ctx, f->D);
  pbContext_Free(ctx, f);
}

void pbSparseFactor_Use(pbSparseFactor *f, int index) { f->kernels = pbSparseKernels_At(index); }

void pbSparseFactor_Copy(const pbSparseFactor *from, pbSparseFactor *to) {
  memcpy(to->L, from->L, panel_bytes(from->analysis));
  memcpy(to->D, from->D, sizeof *to->D * 3 * (size_t)from->analysis->n);
  PB_ASSERT(to->analysis->n == from->analysis->n && to->analysis->panel_size == from->analysis->panel_size);
  to->smallest = from->smallest;
  to->smallest_place = from->smallest_place;
}

size_t pbSparseFactor_SavedBytes(const pbSparseAnalysis *a) { return panel_bytes(a) + sizeof(double) * (3 * (size_t)a->n + 2); }

void pbSparseFactor_Save(const pbSparseFactor *f, void *memory) {
  double *to = memory, place = f->smallest_place;
  size_t n = 3 * (size_t)f->analysis->n;
  memcpy(to, f->D, n * sizeof *to);
  to[n] = f->smallest;
  to[n + 1] = place;
  memcpy(to + n + 2, f->L, panel_bytes(f->analysis));
}

void pbSparseFactor_Load(pbSparseFactor *f, const void *memory) {
  const double *from = memory;
  size_t n = 3 * (size_t)f->analysis->n;
  memcpy(f->D, from, n * sizeof *from);
  f->smallest = from[n];
  f->smallest_place = (int)from[n + 1];
  PB_ASSERT(f->smallest_place >= 0 && (n == 0 || (size_t)f->smallest_place < n));
  memcpy(f->L, from + n + 2, panel_bytes(f->analysis));
}

// ---- factorization --------------------------------------------------------------------------------------------------
static void raise_to(double *most, double x) { *most = fabs(x) > *most ? fabs(x) : *most; }

// Largest entry of each row, times TINY. Diagonal blocks are read below the diagonal only.
static void find_tiny(const pbSparseAnalysis *a, const double *values, double *tiny) {
  memset(tiny, 0, sizeof *tiny * 3 * (size_t)a->n);
  for (int s = 0; s < a->slots; s++) {
    double *row = tiny + 3 * a->place[a->slot_row[s]], *column = tiny + 3 * a->place[a->slot_column[s]];
    bool diagonal = a->slot_row[s] == a->slot_column[s];
    for (int r = 0; r < 3; r++) {
      for (int c = 0; c < (diagonal ? r + 1 : 3); c++) {
        double v = values[9 * (size_t)s + (size_t)(3 * r + c)];
        raise_to(&row[r], v);
        raise_to(&column[c], v);
      }
    }
  }
  for (int i = 0; i < 3 * a->n; i++) tiny[i] *= TINY;
}

static pbStatus refuse_pivot(pbContext *ctx, const pbSparseFactor *f, int place, double most, int *block) {
  int row = f->analysis->order[place / 3];
  double pivot = f->D[place];
  if (block) *block = row;

  if (!isfinite(pivot))
    return pbContext_Fail(ctx, pb_not_finite, "sparse factorization: the pivot of block row %d, component %d, is not finite", row,
                          place % 3);
  return pbContext_Fail(ctx, pb_singular,
                        "sparse factorization: the pivot of block row %d, component %d, is %g beside entries up to %g", row,
                        place % 3, pivot, most);
}

pbStatus pbSparse_Factor(pbContext *ctx, pbSparseFactor *f, const double *values, void *work, int *block) {
  const pbSparseAnalysis *a = f->analysis;
  pbArena arena = pbArena_Over(work, pbSparseAnalysis_WorkSize(a));
  pbFactorWork w = factor_work(&arena, a);
  PB_ASSERT(!arena.failed);
  find_tiny(a, values, w.tiny);
  int bad = f->kernels->eliminate(a, values, f->L, f->D, &w);
  if (bad >= 0) return refuse_pivot(ctx, f, bad, w.tiny[bad] / TINY, block);

  // The smallest pivot beside its row says how near to singular the matrix is.
  f->smallest = a->n ? INFINITY : 1;
  f->smallest_place = 0;
  for (int i = 0; i < 3 * a->n; i++) {
    double size = fabs(f->D[i]) / (w.tiny[i] / TINY);
    if (size < f->smallest) {
      f->smallest = size;
      f->smallest_place = i;
    }
  }

  // No pivot is zero or below what was taken for none.
  PB_VALIDATE(pb_allFinite(f->D, 3 * (size_t)a->n) && f->smallest >= TINY * (1 - 1e-9));
  return pb_ok;
}

pbSparseInertia pbSparseFactor_Inertia(const pbSparseFactor *f) {
  const pbSparseAnalysis *a = f->analysis;
  pbSparseInertia inertia = {.smallest = f->smallest, .block = a->n ? a->order[f->smallest_place / 3] : 0};
  for (int i = 0; i < 3 * a->n; i++) {
    if (f->D[i] > 0) {
      inertia.positive++;
    } else {
      inertia.negative++;
    }
  }
  return inertia;
}

// ---- solution -------------------------------------------------------------------------------------------------------
static void solve_one(const pbSparseFactor *f, const double *b, double *x, const SolveWork *w) {
  const pbSparseAnalysis *a = f->analysis;

  // Blocks in the order of elimination, and back.
  for (int k = 0; k < a->n; k++) memcpy(w->y + 3 * k, b + 3 * a->order[k], 3 * sizeof *b);
  f->kernels->substitute(a, f->L, f->D, w->y, w->front);
  for (int k = 0; k < a->n; k++) memcpy(x + 3 * a->order[k], w->y + 3 * k, 3 * sizeof *x);
}

// PB_SOLVE_LANES at once: component i of all of them side by side.
static void solve_lanes(const pbSparseFactor *f, const double *b, double *x, const SolveWork *w) {
  const pbSparseAnalysis *a = f->analysis;
  size_t n = 3 * (size_t)a->n;
  for (size_t i = 0; i < n; i++) {
    const double *from = b + 3 * (size_t)a->order[i / 3] + i % 3;
    for (size_t v = 0; v < PB_SOLVE_LANES; v++) w->y[PB_SOLVE_LANES * i + v] = from[v * n];
  }
  f->kernels->substitute_lanes(a, f->L, f->D, w->y, w->front);
  for (size_t i = 0; i < n; i++) {
    double *to = x + 3 * (size_t)a->order[i / 3] + i % 3;
    for (size_t v = 0; v < PB_SOLVE_LANES; v++) to[v * n] = w->y[PB_SOLVE_LANES * i + v];
  }
}

static SolveWork work_over(const pbSparseAnalysis *a, void *work) {
  pbArena arena = pbArena_Over(work, pbSparseAnalysis_WorkSize(a));
  return solve_work(&arena, a);
}

void pbSparse_Solve(const pbSparseFactor *f, int count, const double *b, double *x, void *work) {
  SolveWork w = work_over(f->analysis, work);
  size_t n = 3 * (size_t)f->analysis->n;
  int i = 0;
  for (; i + PB_SOLVE_LANES <= count; i += PB_SOLVE_LANES) solve_lanes(f, b + (size_t)i * n, x + (size_t)i * n, &w);
  for (; i < count; i++) solve_one(f, b + (size_t)i * n, x + (size_t)i * n, &w);
}

static double largest(const double *x, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) raise_to(&most, x[i]);
  return most;
}

double pbSparse_SolveRefined(const pbSparseFactor *f, const pbSparsePattern *pattern, const double *values, const double *b,
                             double *x, void *work) {
  SolveWork w = work_over(f->analysis, work);
  int n = 3 * f->analysis->n;
  PB_ASSERT(pattern->n == f->analysis->n && pattern->slots == f->analysis->slots && x != b);
  double size = largest(b, n);
  solve_one(f, b, x, &w);

  // x += A^-1 (b - A x)
  pbSparse_Multiply(pattern, values, NULL, false, x, w.residual);
  for (int i = 0; i < n; i++) w.residual[i] = b[i] - w.residual[i];
  double residual = largest(w.residual, n);
  solve_one(f, w.residual, w.correction, &w);
  for (int i = 0; i < n; i++) x[i] += w.correction[i];
  return size > 0 ? residual / size : 0;
}

// ---- condition ------------------------------------------------------------------------------------------------------
static double norm1(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += fabs(x[i]);
  return sum;
}

// The largest column sum of |A|.
static double matrix_norm(const pbSparsePattern *p, const double *values, double *sum) {
  memset(sum, 0, sizeof *sum * 3 * (size_t)p->n);
  for (int j = 0; j < p->n; j++) {
    for (int s = p->begin[j]; s < p->begin[j + 1]; s++) {
      for (int e = 0; e < 9; e++) {
        double v = fabs(values[9 * (size_t)s + (size_t)e]);
        sum[3 * j + e % 3] += v;
        if (p->row[s] != j) sum[3 * p->row[s] + e / 3] += v;
      }
    }
  }
  return largest(sum, 3 * p->n);
}

// Hager's ascent: |A^-1 x|_1 is convex in x, so that its maximum over the unit ball of the 1-norm is at a unit vector; from
// one to the next by the gradient. Leaves the last direction in x.
static double inverse_norm(const pbSparseFactor *f, int n, double *x, double *y, const SolveWork *w) {
  double estimate = 0;
  int last = -1;
  for (int i = 0; i < n; i++) x[i] = 1.0 / n;
  for (int round = 0; round < 5; round++) {
    solve_one(f, x, y, w);
    double now = norm1(y, n);
    if (now <= estimate) break;
    estimate = now;

    // The gradient of the norm by x; A is symmetric.
    for (int i = 0; i < n; i++) y[i] = y[i] >= 0 ? 1 : -1;
    solve_one(f, y, x, w);
    int best = 0;
    for (int i = 1; i < n; i++) best = fabs(x[i]) > fabs(x[best]) ? i : best;
    if (best == last) break;

    memset(x, 0, sizeof *x * (size_t)n);
    x[best] = 1;
    last = best;
  }
  return estimate;
}

double pbSparse_Condition(const pbSparseFactor *f, const pbSparsePattern *p, const double *values, void *work) {
  SolveWork w = work_over(f->analysis, work);
  int n = 3 * p->n;
  if (n == 0) return 1;

  double norm = matrix_norm(p, values, w.residual), *x = w.residual, *y = w.correction;
  double estimate = inverse_norm(f, n, x, y, &w);

  // Higham's safeguard: a vector of alternating signs and growing size finds what the ascent missed.
  for (int i = 0; i < n; i++) x[i] = (i % 2 ? -1 : 1) * (1 + (double)i / (n > 1 ? n - 1 : 1));
  solve_one(f, x, y, &w);
  double other = 2 * norm1(y, n) / (3.0 * n);
  return norm * (other > estimate ? other : estimate);
}
