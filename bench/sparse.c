// Sparse factorisation on the stiffness of an elastic box cut into tetrahedra, beside CHOLMOD where it is installed (supernodal, one
// thread, given the same order of elimination).
//
//   sparse [SIDE ...]      cells along an edge; 8 16 24 by default
//
// A line of comma-separated figures for each: times of the processor in milliseconds, the least of several rounds; CHOLMOD's analysis
// is given the order as well (same_order_ms is the one to compare). METIS and AMD: time to find an order, and the work it leaves.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pullback/random.h>
#include "sparse/kernels.h"
#include "sparse/sparse.h"

#ifdef PB_HAVE_CHOLMOD
#include <suitesparse/cholmod.h>
#include <suitesparse/amd.h>
#endif
#ifdef PB_HAVE_METIS
#include <metis.h>
#endif

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Least time in ms of repeating `statement` for a while.
#define LEAST(result, statement)                                       \
  do {                                                                 \
    double pb_begin = seconds();                                       \
    result = INFINITY;                                                 \
    for (int pb_k = 0; pb_k < 3 || seconds() - pb_begin < 1; pb_k++) { \
      double pb_start = seconds();                                     \
      statement;                                                       \
      result = fmin(result, 1e3 * (seconds() - pb_start));             \
    }                                                                  \
  } while (0)

static void must(pbContext *ctx, pbStatus status) {
  if (status == pb_ok) return;
  fprintf(stderr, "%s\n", pbContext_Error(ctx));
  exit(1);
}

// ---- the matrix -----------------------------------------------------------------------------------------------------
static const int CUBE[6][4] = {{0, 1, 3, 7}, {0, 1, 5, 7}, {0, 2, 3, 7}, {0, 2, 6, 7}, {0, 4, 5, 7}, {0, 4, 6, 7}};

static int *box(int side, int *tets) {
  int *t = malloc(sizeof(int) * 24 * (size_t)(side * side * side)), count = 0, line = side + 1;
  for (int z = 0; z < side; z++)
    for (int y = 0; y < side; y++)
      for (int x = 0; x < side; x++)
        for (int k = 0; k < 6; k++, count++)
          for (int v = 0; v < 4; v++) {
            int c = CUBE[k][v];
            t[4 * count + v] = x + (c & 1) + line * (y + (c >> 1 & 1) + line * (z + (c >> 2)));
          }
  *tets = count;
  return t;
}

static void gradients(const int *v, int line, double g[4][3]) {
  double x[4][3], E[3][3];
  for (int a = 0; a < 4; a++) {
    x[a][0] = v[a] % line;
    x[a][1] = v[a] / line % line;
    x[a][2] = v[a] / line / line;
  }
  for (int a = 0; a < 3; a++)
    for (int i = 0; i < 3; i++) E[a][i] = x[a + 1][i] - x[0][i];
  double det = 0;
  for (int a = 0; a < 3; a++) {
    const double *p = E[(a + 1) % 3], *q = E[(a + 2) % 3];
    for (int i = 0; i < 3; i++) g[a + 1][i] = p[(i + 1) % 3] * q[(i + 2) % 3] - p[(i + 2) % 3] * q[(i + 1) % 3];
  }
  for (int i = 0; i < 3; i++) det += E[0][i] * g[1][i];
  for (int i = 0; i < 3; i++) {
    for (int a = 1; a < 4; a++) g[a][i] /= det;
    g[0][i] = -g[1][i] - g[2][i] - g[3][i];
  }
}

static double *stiffness(const pbSparsePattern *p, const int *tet, int tets, int line) {
  double *values = calloc(9 * (size_t)p->slots, sizeof(double));
  for (int t = 0; t < tets; t++) {
    const int *v = tet + 4 * t;
    double g[4][3];
    gradients(v, line, g);
    for (int a = 0; a < 4; a++)
      for (int b = 0; b < 4; b++) {
        if (v[a] < v[b]) continue;
        double *block = values + 9 * (size_t)pbSparse_Slot(p, v[a], v[b]), dot = 0;
        for (int i = 0; i < 3; i++) dot += g[a][i] * g[b][i];
        for (int i = 0; i < 3; i++)
          for (int j = 0; j < 3; j++)
            block[3 * i + j] += 1.5 * g[a][i] * g[b][j] + g[b][i] * g[a][j] + (i == j) * (dot + (a == b ? .01 : 0));
      }
  }
  return values;
}

// ---- orders ---------------------------------------------------------------------------------------------------------
static int *graph(const pbSparsePattern *p, int *begin) {
  int *adjacent = malloc(sizeof(int) * 2 * (size_t)p->slots), *fill = calloc((size_t)p->n + 1, sizeof(int));
  for (int j = 0; j < p->n; j++)
    for (int s = p->begin[j] + 1; s < p->begin[j + 1]; s++) {
      fill[j]++;
      fill[p->row[s]]++;
    }
  begin[0] = 0;
  for (int i = 0; i < p->n; i++) {
    begin[i + 1] = begin[i] + fill[i];
    fill[i] = begin[i];
  }
  for (int j = 0; j < p->n; j++)
    for (int s = p->begin[j] + 1; s < p->begin[j + 1]; s++) {
      adjacent[fill[j]++] = p->row[s];
      adjacent[fill[p->row[s]]++] = j;
    }
  free(fill);
  return adjacent;
}

typedef struct Order {
  double ms, gflop;
} Order;

static Order measured(pbContext *ctx, const pbSparsePattern *p, double ms, const int *order) {
  pbSparseAnalysis *a;
  must(ctx, pbSparseAnalysis_Create(ctx, p, order, &a));
  Order o = {ms, 1e-9 * pbSparseAnalysis_Flops(a)};
  pbSparseAnalysis_Destroy(a);
  return o;
}

static void other_orders(pbContext *ctx, const pbSparsePattern *p, Order *by_metis, Order *by_amd) {
  int n = p->n, *begin = malloc(sizeof(int) * ((size_t)n + 1)), *adjacent = graph(p, begin),
      *order = malloc(sizeof(int) * (size_t)n), *place = malloc(sizeof(int) * (size_t)n);
  *by_metis = *by_amd = (Order){NAN, NAN};
  for (int i = 0; i < n; i++) order[i] = place[i] = i;
  double ms = 0;
#ifdef PB_HAVE_METIS
  LEAST(ms, METIS_NodeND(&n, begin, adjacent, NULL, NULL, order, place));
  *by_metis = measured(ctx, p, ms, order);
#endif
#ifdef PB_HAVE_CHOLMOD
  LEAST(ms, amd_order(n, begin, adjacent, order, NULL, NULL));
  *by_amd = measured(ctx, p, ms, order);
#endif
  (void)ms;
  (void)measured;
  (void)ctx;
  free(begin);
  free(adjacent);
  free(order);
  free(place);
}

// ---- CHOLMOD --------------------------------------------------------------------------------------------------------
typedef struct Times {
  double analyse, factor, solve, entries;
} Times;

#ifdef PB_HAVE_CHOLMOD
static cholmod_sparse *lower_triangle(const pbSparsePattern *p, const double *values, cholmod_common *c) {
  size_t n = 3 * (size_t)p->n;
  cholmod_sparse *A = cholmod_allocate_sparse(n, n, 9 * (size_t)p->slots, 1, 1, -1, CHOLMOD_REAL, c);
  int *begin = A->p, *row = A->i, count = 0;
  double *x = A->x;
  for (int j = 0; j < 3 * p->n; j++) {
    begin[j] = count;
    for (int s = p->begin[j / 3]; s < p->begin[j / 3 + 1]; s++)
      for (int r = 0; r < 3; r++)
        if (3 * p->row[s] + r >= j) {
          row[count] = 3 * p->row[s] + r;
          x[count++] = values[9 * s + 3 * r + j % 3];
        }
  }
  begin[n] = count;
  return A;
}

static Times cholmod_times(const pbSparsePattern *p, const double *values, const int *order, const double *b) {
  Times t;
  cholmod_common c;
  cholmod_start(&c);
  c.supernodal = CHOLMOD_SUPERNODAL;
  c.nmethods = 1;
  c.method[0].ordering = CHOLMOD_GIVEN;
  cholmod_sparse *A = lower_triangle(p, values, &c);
  int n = 3 * p->n, *given = malloc(sizeof(int) * (size_t)n);
  for (int i = 0; i < n; i++) given[i] = 3 * order[i / 3] + i % 3;
  cholmod_factor *L = NULL;
  LEAST(t.analyse, (cholmod_free_factor(&L, &c), L = cholmod_analyze_p(A, given, NULL, 0, &c)));
  LEAST(t.factor, cholmod_factorize(A, L, &c));
  cholmod_dense *B = cholmod_allocate_dense((size_t)n, 1, (size_t)n, CHOLMOD_REAL, &c), *X = NULL;
  memcpy(B->x, b, sizeof(double) * (size_t)n);
  LEAST(t.solve, (cholmod_free_dense(&X, &c), X = cholmod_solve(CHOLMOD_A, L, B, &c)));
  t.entries = (double)L->xsize;
  cholmod_free_dense(&X, &c);
  cholmod_free_dense(&B, &c);
  cholmod_free_factor(&L, &c);
  cholmod_free_sparse(&A, &c);
  cholmod_finish(&c);
  free(given);
  return t;
}
#else
static Times cholmod_times(const pbSparsePattern *p, const double *values, const int *order, const double *b) {
  (void)p;
  (void)values;
  (void)order;
  (void)b;
  return (Times){NAN, NAN, NAN, NAN};
}
#endif

// ---- both -----------------------------------------------------------------------------------------------------------
static double residual(const pbSparsePattern *p, const double *values, const double *b, const double *x) {
  double *y = malloc(sizeof(double) * 3 * (size_t)p->n), most = 0;
  pbSparse_Multiply(p, values, NULL, false, x, y);
  for (int i = 0; i < 3 * p->n; i++) most = fmax(most, fabs(y[i] - b[i]));
  free(y);
  return most;
}

static void run(pbContext *ctx, int side) {
  int tets, *tet = box(side, &tets), *pairs = malloc(sizeof(int) * 32 * (size_t)tets);
  size_t count = 0;
  for (int t = 0; t < tets; t++)
    for (int a = 0; a < 4; a++)
      for (int b = 0; b < 4; b++) {
        pairs[2 * count] = tet[4 * t + a];
        pairs[2 * count++ + 1] = tet[4 * t + b];
      }
  pbSparsePattern *p = NULL;
  pbSparseAnalysis *a = NULL, *again = NULL;
  pbSparseFactor *f;
  double pattern_ms, analyse_ms, again_ms, factor_ms, solve_ms, four_ms;
  int line = side + 1, n = line * line * line;
  LEAST(pattern_ms, (pbSparsePattern_Destroy(p), must(ctx, pbSparsePattern_Create(ctx, n, NULL, pairs, count, &p))));
  double *values = stiffness(p, tet, tets, line), *b = malloc(sizeof(double) * 24 * (size_t)n), *x = b + 12 * n;
  pbRng r = pbRng_Seed(1);
  for (int i = 0; i < 12 * n; i++) b[i] = pbRng_Normal(&r);
  LEAST(analyse_ms, (pbSparseAnalysis_Destroy(a), must(ctx, pbSparseAnalysis_Create(ctx, p, NULL, &a))));
  const int *order = pbSparseAnalysis_Order(a);
  LEAST(again_ms, (pbSparseAnalysis_Destroy(again), must(ctx, pbSparseAnalysis_Create(ctx, p, order, &again))));
  must(ctx, pbSparseFactor_Create(ctx, a, &f));
  void *work = malloc(pbSparseAnalysis_WorkSize(a));
  LEAST(factor_ms, must(ctx, pbSparse_Factor(ctx, f, values, work, NULL)));
  LEAST(solve_ms, pbSparse_Solve(f, 1, b, x, work));
  LEAST(four_ms, pbSparse_Solve(f, 4, b, x, work));
  Times t = cholmod_times(p, values, order, b);
  double flops = pbSparseAnalysis_Flops(a);
  Order metis, amd;
  other_orders(ctx, p, &metis, &amd);
  double ratio = factor_ms / t.factor, most = 1.5;
  printf("%d,%d,%.2f,%.3f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.1f,%.1e,", side, 3 * n, 1e-6 * (double)pbSparseAnalysis_Entries(a),
         1e-9 * flops, pattern_ms, analyse_ms, again_ms, factor_ms, solve_ms, four_ms, 1e-6 * flops / factor_ms,
         residual(p, values, b, x));
  printf("%.2f,%.2f,%.2f,%.2f,%.3f,%.2f,%.3f,%.2f,<= %.1f,%s\n", t.analyse, t.factor, t.solve, metis.ms, metis.gflop, amd.ms,
         amd.gflop, ratio, most,
         ratio <= most  ? "yes"
         : isnan(ratio) ? ""
                        : "no");
  fflush(stdout);
  pbSparseFactor_Destroy(f);
  pbSparseAnalysis_Destroy(a);
  pbSparseAnalysis_Destroy(again);
  pbSparsePattern_Destroy(p);
  free(tet);
  free(pairs);
  free(values);
  free(b);
  free(work);
}

int main(int count, char **argument) {
  if (!getenv("OMP_NUM_THREADS")) {  // read before main begins
    setenv("OMP_NUM_THREADS", "1", 1);
    execv("/proc/self/exe", argument);
  }
  pbContext *ctx = pbContext_Create(NULL);
  printf(
      "side,unknowns,entries_M,gflop,pattern_ms,analyse_ms,same_order_ms,factor_ms,solve_ms,solve_four_ms,gflop_per_s,residual,"
      "cholmod_analyse_ms,cholmod_factor_ms,cholmod_solve_ms,metis_ms,metis_gflop,amd_ms,amd_gflop,factor_by_cholmod,required,"
      "holds\n");
  if (count < 2) {
    run(ctx, 8);
    run(ctx, 16);
    run(ctx, 24);
  }
  for (int k = 1; k < count; k++) run(ctx, atoi(argument[k]));
  pbContext_Destroy(ctx);
  return 0;
}
