// Projected Gauss-Seidel: against the complementarity solver, both derivatives, and what they refuse.
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pgs.h>

#include "lcp_instances.h"
#include "support/one_context.h"

// A = J J' + cfm, everything in one block: A b bound mu f0, so that derivatives by all of it are one array
enum { MOST = 40 };
typedef struct Problem {
  pbPgs p;
  int n;
  double J[MOST * MOST], *all;
  size_t count;
  pbPgsKind kind[MOST];
  int normal[MOST];
} Problem;
static size_t total(int m) { return (size_t)m * (size_t)m + 4 * (size_t)m; }
static pbPgsBar slices(double *all, int m) {
  double *v = all + m * m;
  return (pbPgsBar){.A = all, .b = v, .bound = v + m, .mu = v + 2 * m, .f0 = v + 3 * m};
}
static const double *start(const Problem *q) { return slices(q->all, q->p.m).f0; }

// contacts of a normal and `tangents` rows of friction, then rows of a joint and of a motor
static Problem *problem(pbRng *r, int contacts, int tangents, int joints, int motors, double cfm) {
  Problem *q = calloc(1, sizeof *q);
  int m = contacts * (1 + tangents) + joints + motors, n = q->n = (3 * m + 3) / 4;
  q->count = total(m);
  q->all = calloc(q->count, 8);
  pbPgsBar v = slices(q->all, m);
  for (int i = 0; i < m; i++) {
    bool contact = i < contacts * (1 + tangents), normal = contact && i % (1 + tangents) == 0, joint = !contact && i < m - motors;
    q->kind[i] = normal ? pb_pgsOneSided : contact ? pb_pgsFriction : joint ? pb_pgsEquality : pb_pgsBox;
    q->normal[i] = contact && !normal ? i - i % (1 + tangents) : -1;
    v.mu[i] = normal || i % (1 + tangents) == 1 ? uniform(r, .2, 1) : i ? v.mu[i - 1] : 0;
    v.bound[i] = uniform(r, .1, .6);
    v.f0[i] = normal ? uniform(r, 0, 1) : uniform(r, -.3, .3);
    v.b[i] = pbRng_Normal(r) - (normal ? 1 : 0);
    for (int k = 0; k < n; k++) q->J[i * n + k] = pbRng_Normal(r) / sqrt(n);
  }
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) {
      double sum = i == j ? cfm : 0;
      for (int k = 0; k < n; k++) sum += q->J[i * n + k] * q->J[j * n + k];
      v.A[i * m + j] = sum;
    }
  q->p = (pbPgs){m, v.A, v.b, q->kind, v.bound, q->normal, v.mu};
  return q;
}
static void done(Problem *q) {
  free(q->all);
  free(q);
}

typedef struct Run {
  double *f, *history, *bar;
  pbPgsReport report;
  void *work;
  size_t size;
  pbStatus status;
} Run;
static Run run(const Problem *q, const pbPgsOptions *o) {
  int m = q->p.m;
  size_t size = pbPgs_ImplicitWorkSize(m) + pbPgs_WorkSize(m);
  Run s = {.f = calloc((size_t)m + 1, 8), .bar = calloc(q->count, 8), .work = malloc(size), .size = size};
  s.history = calloc(pbPgs_HistorySize(m, o->sweeps), 8);
  memset(s.work, 0xff, size);
  s.status = pbPgs_Solve(ctx, &(pbPgsCall){&q->p, o, s.work, size}, start(q), s.f, s.history, &s.report);
  return s;
}
static void over(Run *s) {
  free(s->f);
  free(s->history);
  free(s->bar);
  free(s->work);
}

// ---- the same sweeps in complex numbers -----------------------------------------------------------------------------
typedef double _Complex cplx;

// Of the rows of a pair of tangents of one contact, where friction is a cone: the first. They move together.
static bool begins_cone(const Problem *q, const pbPgsOptions *o, int i) {
  return o->cone && q->kind[i] == pb_pgsFriction && i + 1 < q->p.m && q->kind[i + 1] == pb_pgsFriction &&
         q->normal[i] == q->normal[i + 1];
}

// The row's set, by the forces that the sweep reads: half line, box, or disc of a cone's two rows. Decisions by real parts.
static void project(const Problem *q, int i, bool cone, cplx limit, cplx force[2]) {
  if (q->kind[i] == pb_pgsOneSided && creal(force[0]) < 0) force[0] = 0;
  if (q->kind[i] < pb_pgsBox) return;

  if (cone) {
    cplx norm = csqrt(force[0] * force[0] + force[1] * force[1]);
    if (creal(norm) <= creal(limit)) return;
    force[0] *= limit / norm;
    force[1] *= limit / norm;
    return;
  }
  if (creal(force[0]) > creal(limit)) force[0] = limit;
  if (creal(force[0]) < -creal(limit)) force[0] = -limit;
}

// One row, or the two of a cone, from the forces `from`: force - omega (A force + b) / diagonal, the greater of a cone's two.
static int sweep_row(const Problem *q, const pbPgsOptions *o, double omega, const cplx *all, int i, const cplx *from, cplx *to) {
  int m = q->p.m;
  const cplx *A = all, *b = A + m * m, *bound = b + m, *mu = bound + m;
  bool cone = begins_cone(q, o, i);
  int rows = cone ? 2 : 1;

  cplx diagonal = A[i * m + i], force[2], limit = 0;
  if (cone && creal(A[(i + 1) * m + i + 1]) > creal(diagonal)) diagonal = A[(i + 1) * m + i + 1];
  for (int c = 0; c < rows; c++) {
    cplx velocity = b[i + c];
    for (int j = 0; j < m; j++) velocity += A[(i + c) * m + j] * from[j];
    force[c] = from[i + c] - omega * velocity / diagonal;
  }

  if (q->kind[i] == pb_pgsBox) limit = bound[i];
  if (q->kind[i] == pb_pgsFriction && creal(from[q->normal[i]]) > 0) limit = mu[i] * from[q->normal[i]];
  project(q, i, cone, limit, force);
  for (int c = 0; c < rows; c++) to[i + c] = force[c];
  return rows;
}

// all: A, b, bound, mu and the start, as in a Problem; f: the forces after the sweeps.
static void complex_sweeps(const Problem *q, const pbPgsOptions *o, double omega, const cplx *all, cplx *f) {
  int m = q->p.m;
  const cplx *first = all + m * m + 3 * m;
  cplx before[MOST];

  memcpy(f, first, sizeof *f * (size_t)m);
  for (int k = 0; k < o->sweeps; k++) {
    memcpy(before, f, sizeof *f * (size_t)m);
    const cplx *from = o->order == pb_pgsJacobi ? before : f;
    for (int i = 0; i < m;) i += sweep_row(q, o, omega, all, i, from, f);
  }
}

static void test_unrolled(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(3);
  double worst = 0;
  for (int k = 0; k < 200; k++) {
    int tangents = k % 3;
    Problem *q = problem(&r, 1 + below(&r, 6), tangents, below(&r, 4), below(&r, 4), .1);
    int m = q->p.m;
    pbPgsOptions o = {.order = k / 3 % 2 ? pb_pgsJacobi : pb_pgsGaussSeidel, .cone = k / 6 % 2, .sweeps = 1 + below(&r, 12)};
    if (k % 5 == 0) o.omega = .7;
    Run s = run(q, &o);
    assert_int_equal(s.status, pb_ok);
    assert_int_equal(s.report.sweeps, o.sweeps);
    double g[MOST], exact = 0, forward = 0, size = 1;
    cplx *all = calloc(q->count, sizeof *all), f[MOST];
    double *way = calloc(q->count, 8);
    for (int i = 0; i < m; i++) g[i] = pbRng_Normal(&r);
    for (size_t i = 0; i < q->count; i++) way[i] = pbRng_Normal(&r);
    pbPgsBar w = slices(way, m), b = slices(s.bar, m);
    for (int i = 0; o.cone && i + 1 < m; i++)
      if (q->normal[i] >= 0 && q->normal[i] == q->normal[i + 1]) w.mu[i + 1] = 0;  // a cone's is that of its first row
    for (size_t i = 0; i < q->count; i++) all[i] = q->all[i] + I * 1e-40 * way[i];
    complex_sweeps(q, &o, s.report.omega, all, f);
    for (int i = 0; i < m; i++) {
      assert_true(fabs(creal(f[i]) - s.f[i]) < 1e-12);
      forward += g[i] * cimag(f[i]) / 1e-40;
    }
    memset(s.work, 0xff, s.size);
    assert_int_equal(pbPgs_VjpUnrolled(ctx, &(pbPgsCall){&q->p, &o, s.work, s.size}, &s.report, s.history, g, &b), pb_ok);
    for (size_t i = 0; i < q->count; i++) {
      exact += s.bar[i] * way[i];
      size += fabs(s.bar[i] * way[i]);
    }
    worst = fmax(worst, fabs(exact - forward) / size);
    free(all);
    free(way);
    over(&s);
    done(q);
  }
  print_message("backwards through the sweeps against the complex step: %.1e at most\n", worst);
  assert_true(worst < 1e-13);
}

static void test_implicit_is_unrolled_at_convergence(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(5);
  double apart = 0, law_off = 0;
  int compared = 0, tied = 0, held = 0;
  for (int k = 0; k < 120; k++) {
    Problem *q = problem(&r, 1 + below(&r, 5), k % 3, below(&r, 3), below(&r, 3), .2);
    int m = q->p.m;
    pbPgsOptions o = {.order = k / 3 % 2 ? pb_pgsJacobi : pb_pgsGaussSeidel, .cone = k / 6 % 2, .sweeps = 3000};
    Run s = run(q, &o);
    assert_int_equal(s.status, pb_ok);
    double g[MOST], size = 1;
    for (int i = 0; i < m; i++) g[i] = pbRng_Normal(&r);
    double *implicit = calloc(q->count, 8);
    pbPgsBar b = slices(s.bar, m), c = slices(implicit, m);
    pbPgsAdjointReport report;
    assert_int_equal(pbPgs_VjpUnrolled(ctx, &(pbPgsCall){&q->p, &o, s.work, s.size}, &s.report, s.history, g, &b), pb_ok);
    memset(s.work, 0xff, s.size);
    assert_int_equal(pbPgs_VjpImplicit(ctx, &(pbPgsCall){&q->p, &o, s.work, s.size}, s.f, g, &c, &report), pb_ok);
    if (s.report.residual < 1e-13 && !report.degenerate) {
      assert_true(report.residual < 1e-12 && report.deficiency == 0);
      for (size_t i = 0; i < q->count; i++) size = fmax(size, fabs(s.bar[i]));
      for (size_t i = 0; i < q->count; i++) apart = fmax(apart, fabs(s.bar[i] - implicit[i]) / size);
      // the laws hold along any change of b
      pbPgsLaw law[MOST];
      assert_int_equal(pbPgs_Linearize(&(pbPgsCall){&q->p, &o, s.work, s.size}, s.f, law), 0);
      cplx *all = calloc(q->count, sizeof *all), f[MOST], w[MOST];
      for (size_t i = 0; i < q->count; i++) all[i] = q->all[i];
      for (int i = 0; i < m; i++) all[m * m + i] += I * 1e-40 * pbRng_Normal(&r);
      complex_sweeps(q, &o, s.report.omega, all, f);
      for (int i = 0; i < m; i++) {
        w[i] = all[m * m + i];
        for (int j = 0; j < m; j++) w[i] += all[i * m + j] * f[j];
      }
      for (int i = 0; i < m; i++) {
        cplx sum = law[i].force[0] * f[i] + law[i].velocity[0] * w[i];
        if (law[i].other >= 0) sum += law[i].force[1] * f[law[i].other] + law[i].velocity[1] * w[law[i].other];
        if (law[i].normal >= 0) sum -= law[i].tie * f[law[i].normal];
        law_off = fmax(law_off, fabs(cimag(sum)) / 1e-40);
      }
      compared++;
      tied += report.tied;
      held += report.held;
      free(all);
    }
    free(implicit);
    over(&s);
    done(q);
  }
  print_message("%d problems, %d rows at friction's bound, %d held: implicit and unrolled apart by %.1e, laws off by %.1e\n",
                compared, tied, held, apart, law_off);
  assert_true(compared > 80 && tied > 30 && held > 30 && apart < 1e-8 && law_off < 1e-8);
}

// One-sided rows, and boxes as two rows each (f = z - bound, z <= 2 bound), where the laws are the same
static void test_against_the_complementarity_solver(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(7);
  double worst = 0;
  for (int k = 0; k < 60; k++) {
    Problem *q = problem(&r, 2 + below(&r, 5), 0, 0, 1 + below(&r, 5), .1);
    int m = q->p.m, boxes = 0, n = q->n, extra[MOST];
    for (int i = 0; i < m; i++) extra[i] = q->kind[i] == pb_pgsBox ? m + boxes++ : -1;
    int M = m + boxes;
    double *Q = calloc((size_t)(n * n), 8), *p = calloc((size_t)n, 8), *G = calloc((size_t)(M * n), 8), *h = calloc((size_t)M, 8);
    double *F = calloc((size_t)(M * M), 8), x[MOST], z[2 * MOST], slack[2 * MOST];
    for (int i = 0; i < n; i++) Q[i * n + i] = 1;
    for (int i = 0; i < m; i++) {
      h[i] = q->p.b[i];
      for (int j = 0; j < m; j++)
        if (extra[j] >= 0) h[i] -= q->p.A[i * m + j] * q->p.bound[j];
      memcpy(G + i * n, q->J + i * n, 8 * (size_t)n);
      F[i * M + i] = .1;
      if (extra[i] < 0) continue;
      F[i * M + extra[i]] = 1;
      F[extra[i] * M + i] = -1;
      h[extra[i]] = 2 * q->p.bound[i];
    }
    pbLcp l = {.n = n, .m = M, .Q = Q, .p = p, .G = G, .h = h, .F = F};
    size_t size = pbLcp_WorkSize(n, M, 0);
    void *work = malloc(size);
    pbLcpSolution at = {x, NULL, z, slack};
    assert_int_equal(pbLcp_Solve(ctx, &l, NULL, work, size, &at, NULL), pb_ok);
    Run s = run(q, &(pbPgsOptions){.sweeps = 5000, .tolerance = 1e-14});
    assert_int_equal(s.status, pb_ok);
    for (int i = 0; i < m; i++) worst = fmax(worst, fabs(s.f[i] - z[i] + (extra[i] >= 0 ? q->p.bound[i] : 0)));
    free(Q);
    free(p);
    free(G);
    free(h);
    free(F);
    free(work);
    over(&s);
    done(q);
  }
  print_message("against the complementarity solver: %.1e at most\n", worst);
  assert_true(worst < 1e-10);
}

// A stack of boxes: every body pressed from above and below at two corners
static void test_jacobi_on_a_stack(void **state) {
  (void)state;
  enum { boxes = 5, m = 2 * boxes };
  double A[m * m] = {0}, b[m], f[m], J[m][3 * boxes] = {0};
  pbPgsKind kind[m] = {0};
  for (int i = 0; i < m; i++) {
    int body = i / 2;
    double arm = i % 2 ? .5 : -.5, weight = 1 / sqrt(1. / 6);  // turning inertia of a square
    J[i][3 * body + 1] = 1;
    J[i][3 * body + 2] = arm * weight;
    if (body) {
      J[i][3 * body - 2] = -1;
      J[i][3 * body - 1] = -arm * weight;
    }
    b[i] = body ? 0 : -.1;
    kind[i] = pb_pgsOneSided;
  }
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++)
      for (int k = 0; k < 3 * boxes; k++) A[i * m + j] += J[i][k] * J[j][k];
  pbPgs p = {m, A, b, kind, NULL, NULL, NULL};
  size_t size = pbPgs_WorkSize(m);
  void *work = malloc(size);
  pbPgsReport report;
  pbPgsOptions plain = {.order = pb_pgsJacobi, .omega = 1, .sweeps = 5000}, tuned = {.order = pb_pgsJacobi, .sweeps = 5000};
  pbStatus status = pbPgs_Solve(ctx, &(pbPgsCall){&p, &plain, work, size}, NULL, f, NULL, &report);
  assert_true(status == pb_not_finite || report.residual > .01);
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&p, &tuned, work, size}, NULL, f, NULL, &report), pb_ok);
  print_message("Jacobi's order on a stack: relaxation %.3f, residual %.1e\n", report.omega, report.residual);
  assert_true(report.omega < 1 && report.residual < 1e-10);
  for (int i = 0; i < m; i++) assert_true(fabs(f[i] - .05 * (boxes - i / 2)) < 1e-8);  // weight above, shared by two corners
  free(work);
}

static void test_refusals(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(11);
  Problem *q = problem(&r, 2, 2, 1, 1, .1);
  int m = q->p.m;
  size_t size = pbPgs_WorkSize(m);
  void *work = malloc(size);
  double f[MOST] = {7};
  pbPgsReport report;
  pbPgs p = q->p;
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&p, NULL, work, size - 1}, NULL, f, NULL, NULL), pb_bad_argument);
  p.b = NULL;
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&p, NULL, work, size}, NULL, f, NULL, NULL), pb_bad_argument);
  p = q->p;
  p.normal = NULL;
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&p, NULL, work, size}, NULL, f, NULL, NULL), pb_bad_input);
  p = q->p;
  p.bound = NULL;
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&p, NULL, work, size}, NULL, f, NULL, NULL), pb_bad_input);
  double keep = q->all[0], *diagonal = q->all;
  *diagonal = 0;
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&q->p, NULL, work, size}, NULL, f, NULL, NULL), pb_singular);
  *diagonal = NAN;
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&q->p, NULL, work, size}, NULL, f, NULL, NULL), pb_bad_input);
  *diagonal = keep;
  assert_true(f[0] == 7);
  pbPgsOptions few = {.sweeps = 1, .tolerance = 1e-12};
  assert_int_equal(pbPgs_Solve(ctx, &(pbPgsCall){&q->p, &few, work, size}, NULL, f, NULL, &report), pb_no_convergence);
  assert_true(f[0] != 7 && report.residual > 1e-12 && report.sweeps == 1);
  free(work);
  done(q);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unrolled),
      cmocka_unit_test(test_implicit_is_unrolled_at_convergence),
      cmocka_unit_test(test_against_the_complementarity_solver),
      cmocka_unit_test(test_jacobi_on_a_stack),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
