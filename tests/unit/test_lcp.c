// Linear complementarity with friction: known answers, random contact problems, an independent pivoting method, derivatives.
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "lcp_instances.h"
#include "support/one_context.h"
#include "support/support.h"

typedef struct Solved {
  pbLcp l;
  pbLcpSolution at;
  pbLcpReport report;
  pbStatus status;
  void *work;
  size_t size;
} Solved;

static Solved solve(pbLcp l, const pbLcpOptions *options) {
  Solved s = {.l = l, .size = pbLcp_WorkSize(l.n, l.m, l.e)};
  double **parts[] = {&s.at.x, &s.at.y, &s.at.z, &s.at.s};
  int sizes[] = {l.n, l.e, l.m, l.m};
  for (int k = 0; k < 4; k++) {
    *parts[k] = malloc(sizeof(double) * (size_t)(sizes[k] + 1));
    for (int i = 0; i <= sizes[k]; i++) (*parts[k])[i] = -77;
  }
  s.work = malloc(s.size);
  memset(s.work, 0xff, s.size);  // NaN
  s.status = pbLcp_Solve(ctx, &s.l, options, s.work, s.size, &s.at, &s.report);
  return s;
}
static void done(Solved *s) {
  free(s->at.x);
  free(s->at.y);
  free(s->at.z);
  free(s->at.s);
  free(s->work);
}

// One block of memory for derivatives by everything, in the order Q p G h F A b
typedef struct Bars {
  double *all;
  size_t count;
  pbLcpBar bar;
} Bars;
static Bars bars(const pbLcp *l) {
  size_t n = (size_t)l->n, m = (size_t)l->m, e = (size_t)l->e;
  Bars b = {.count = n * n + n + m * n + m + m * m + e * n + e};
  double *at = b.all = calloc(b.count, sizeof(double));
  b.bar.Q = at;
  b.bar.p = at += n * n;
  b.bar.G = at += n;
  b.bar.h = at += m * n;
  b.bar.F = at += m;
  b.bar.A = at += m * m;
  b.bar.b = at + e * n;
  return b;
}
static Bars vjp(const Solved *s, pbLcpCotangent g, pbLcpAdjointReport *report) {
  Bars b = bars(&s->l);
  memset(s->work, 0xff, s->size);
  assert_int_equal(pbLcp_Vjp(ctx, &s->l, &s->at, &g, s->work, s->size, &b.bar, report), pb_ok);
  return b;
}

static void all_near(const double *a, const double *b, int n, double tolerance) {
  for (int i = 0; i < n; i++) assert_near(a[i], b[i], tolerance);
}
static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- known answers --------------------------------------------------------------------------------------------------
static const double eye2[] = {1, 0, 0, 1}, F2[] = {.2, .3, .05, .25}, F2t[] = {.2, .05, .3, .25}, h2[] = {.53, 1.69};
static const double p_free[] = {-1.7, -3.1};
static const double Q_tied[] = {2, 1, 1, 3}, p_tied[] = {-5.2, -8.6}, A_tied[] = {1, 1}, b_tied[] = {3};

static void test_two_rows(void **state) {
  (void)state;
  pbLcp l = {.n = 2, .m = 2, .Q = eye2, .p = p_free, .G = eye2, .h = h2, .F = F2};
  Solved s = solve(l, NULL);
  assert_int_equal(s.status, pb_ok);
  all_near(s.at.x, (double[]){1, 2}, 2, 1e-12);
  all_near(s.at.z, (double[]){.7, 1.1}, 2, 1e-12);
  all_near(s.at.s, (double[]){0, 0}, 2, 0);
  Bars b = vjp(&s, (pbLcpCotangent){.x = (double[]){1, 1}}, NULL);
  double right[] = {-19. / 99, -13. / 33};
  all_near(b.bar.p, right, 2, 1e-12);
  all_near(b.bar.h, (double[]){80. / 99, 20. / 33}, 2, 1e-12);
  all_near(b.bar.F, (double[]){56. / 99, 8. / 9, 14. / 33, 2. / 3}, 4, 1e-12);
  // With the friction matrix not transposed the adjoint is another one, and these figures tell.
  s.l.F = F2t;
  Bars wrong = vjp(&s, (pbLcpCotangent){.x = (double[]){1, 1}}, NULL);
  all_near(wrong.bar.p, (double[]){-107. / 297, -67. / 297}, 2, 1e-12);
  assert_true(fabs(wrong.bar.p[0] - right[0]) > .1 && fabs(wrong.bar.p[1] - right[1]) > .1);
  free(b.all);
  free(wrong.all);
  done(&s);
}

static void test_two_rows_and_an_equality(void **state) {
  (void)state;
  pbLcp l = {.n = 2, .m = 2, .e = 1, .Q = Q_tied, .p = p_tied, .G = eye2, .h = h2, .F = F2, .A = A_tied, .b = b_tied};
  Solved s = solve(l, NULL);
  assert_int_equal(s.status, pb_ok);
  all_near(s.at.x, (double[]){1, 2}, 2, 1e-12);
  all_near(s.at.z, (double[]){.7, 1.1}, 2, 1e-12);
  assert_near(s.at.y[0], .5, 1e-12);
  Bars b = vjp(&s, (pbLcpCotangent){.x = (double[]){1, 0}}, NULL);
  all_near(b.bar.p, (double[]){-7. / 181, 7. / 181}, 2, 1e-12);
  all_near(b.bar.h, (double[]){60. / 181, -100. / 181}, 2, 1e-12);
  assert_near(b.bar.b[0], 114. / 181, 1e-12);
  all_near(b.bar.A, (double[]){-235. / 362, -449. / 362}, 2, 1e-12);
  s.l.F = F2t;  // passes by p, not by h
  Bars wrong = vjp(&s, (pbLcpCotangent){.x = (double[]){1, 0}}, NULL);
  all_near(wrong.bar.p, b.bar.p, 2, 1e-12);
  all_near(wrong.bar.h, (double[]){110. / 181, -50. / 181}, 2, 1e-12);
  free(b.all);
  free(wrong.all);
  done(&s);
}

static void test_one_row(void **state) {
  (void)state;
  pbLcp l = {.n = 1, .m = 1, .Q = (double[]){1}, .p = (double[]){-2}, .G = (double[]){1}, .h = (double[]){1}, .F = (double[]){0}};
  Solved s = solve(l, NULL);
  assert_int_equal(s.status, pb_ok);
  assert_string_equal(pbLcpMethod_Name(pb_lcpInterior), "interior");
  assert_string_equal(pbLcpMethod_Name(pb_lcpPath), "path");
  assert_string_equal(pbLcpMethod_Name(pb_lcpMethodCount), "unknown");
  assert_near(s.at.x[0], 1, 1e-12);
  assert_near(s.at.z[0], 1, 1e-12);
  Bars b = vjp(&s, (pbLcpCotangent){.x = (double[]){1}}, NULL);
  assert_near(b.bar.G[0], -1, 1e-12);
  assert_near(b.bar.h[0], 1, 1e-12);
  assert_near(b.bar.F[0], 1, 1e-12);
  free(b.all);
  done(&s);
}

// ---- derivatives ----------------------------------------------------------------------------------------------------
typedef struct Random {
  pbLcp l;
  double *all;
  size_t count;
} Random;
static Random random_problem(pbRng *r) {
  int n = 2 + below(r, 5), m = 1 + below(r, 6), e = below(r, 3) < 1 ? 0 : below(r, n < 3 ? n : 3);
  Random p = {.l = {.n = n, .m = m, .e = e}};
  Bars b = bars(&p.l);
  p.all = b.all;
  p.count = b.count;
  for (size_t i = 0; i < b.count; i++) b.all[i] = pbRng_Normal(r);
  double S[64], T[64];
  for (int i = 0; i < n * n; i++) S[i] = pbRng_Normal(r);
  for (int i = 0; i < m * m; i++) T[i] = pbRng_Normal(r);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      b.bar.Q[i * n + j] = i == j ? .5 : 0;
      for (int k = 0; k < n; k++) b.bar.Q[i * n + j] += S[i * n + k] * S[j * n + k] / n;
    }
  for (int i = 0; i < m; i++)
    for (int j = 0; j < m; j++) {  // monotone, far from symmetric
      b.bar.F[i * m + j] = i == j ? .1 : i < j ? T[i * m + j] : -T[j * m + i];
      for (int k = 0; k < m; k++) b.bar.F[i * m + j] += .1 * T[i * m + k] * T[j * m + k] / m;
    }
  p.l.Q = b.bar.Q;
  p.l.p = b.bar.p;
  p.l.G = b.bar.G;
  p.l.h = b.bar.h;
  p.l.F = b.bar.F;
  p.l.A = b.bar.A;
  p.l.b = b.bar.b;
  return p;
}
static double loss(pbLcp l, const double *g) {  // g: weights of x y z s
  Solved s = solve(l, NULL);
  assert_int_equal(s.status, pb_ok);
  double sum = 0;
  for (int i = 0; i < l.n; i++) sum += g[i] * s.at.x[i];
  for (int i = 0; i < l.e; i++) sum += g[l.n + i] * s.at.y[i];
  for (int i = 0; i < l.m; i++) sum += g[l.n + l.e + i] * s.at.z[i] + g[l.n + l.e + l.m + i] * s.at.s[i];
  done(&s);
  return sum;
}

static void test_gradients_of_random_problems(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(5);
  int checked = 0, active = 0, inactive = 0, tied = 0;
  double worst = 0;
  while (checked < 200) {
    Random p = random_problem(&r);
    int n = p.l.n, m = p.l.m, e = p.l.e;
    Solved s = solve(p.l, NULL);
    assert_int_equal(s.status, pb_ok);
    bool strict = true;
    for (int i = 0; i < m; i++) strict &= fmax(s.at.z[i], s.at.s[i]) > 1e-2;
    if (strict) {
      double g[32];
      bool only_x = checked % 2;
      for (int i = 0; i < n + e + 2 * m; i++) g[i] = i < n || !only_x ? pbRng_Normal(&r) : 0;
      pbLcpAdjointReport report;
      Bars b = vjp(&s, (pbLcpCotangent){g, g + n, g + n + e, g + n + e + m}, &report);
      assert_int_equal(report.deficiency, 0);
      assert_int_equal(report.degenerate, 0);
      assert_true(report.residual < 1e-10);
      double size = 1;
      for (size_t i = 0; i < b.count; i++) size = fmax(size, fabs(b.all[i]));
      for (size_t i = 0; i < b.count; i++) {
        int row = (int)i / n, col = (int)i % n;
        bool in_Q = i < (size_t)(n * n);
        if (in_Q && col > row) continue;
        double was = p.all[i], step = 1e-5, up, down, exact = b.all[i];
        p.all[i] = was + step;
        up = loss(p.l, g);
        p.all[i] = was - step;
        down = loss(p.l, g);
        p.all[i] = was;
        if (in_Q && col < row) exact += b.all[col * n + row];
        worst = fmax(worst, fabs((up - down) / (2 * step) - exact) / size);
      }
      checked++;
      for (int i = 0; i < m; i++) {
        active += s.at.z[i] > 0;
        inactive += s.at.z[i] == 0;
      }
      tied += e > 0;
      free(b.all);
    }
    free(p.all);
    done(&s);
  }
  print_message("200 problems, %d rows active, %d open, %d problems with equalities: gradients off by %.1e at most\n", active,
                inactive, tied, worst);
  assert_true(worst < 1e-6 && active > 100 && inactive > 100 && tied > 50);
}

// Discs of radius 1, 1.9 apart, one moving into the other: gradient of |v'|^2 by v.
static double discs(const double *v, double *gradient) {
  double Q[36] = {0}, p[6], G[24] = {0}, h[4] = {0}, F[16] = {0}, mu = .7, e = .5;
  const double inertia[] = {.5, 1, 1, .5, 1, 1};  // (theta, x, y) of both, mass 1
  for (int i = 0; i < 6; i++) {
    Q[7 * i] = inertia[i];
    p[i] = -inertia[i] * v[i];
  }
  const double normal[6] = {0, -1, 0, 0, 1, 0}, tangent[6] = {-.95, 0, -1, -.95, 0, 1};
  for (int i = 0; i < 6; i++) {
    G[i] = -normal[i];
    G[6 + i] = -tangent[i];
    G[12 + i] = tangent[i];
  }
  for (int i = 0; i < 6; i++) h[0] += e * normal[i] * v[i];
  F[1 * 4 + 3] = F[2 * 4 + 3] = 1;
  F[3 * 4] = mu;
  F[3 * 4 + 1] = F[3 * 4 + 2] = -1;
  Solved s = solve((pbLcp){.n = 6, .m = 4, .Q = Q, .p = p, .G = G, .h = h, .F = F}, NULL);
  assert_int_equal(s.status, pb_ok);
  double sum = 0, g[6];
  for (int i = 0; i < 6; i++) {
    sum += s.at.x[i] * s.at.x[i];
    g[i] = 2 * s.at.x[i];
  }
  if (gradient) {
    Bars b = vjp(&s, (pbLcpCotangent){.x = g}, NULL);
    for (int i = 0; i < 6; i++) gradient[i] = -inertia[i] * b.bar.p[i] + e * normal[i] * b.bar.h[0];
    free(b.all);
  }
  done(&s);
  return sum;
}
static void test_two_discs(void **state) {
  (void)state;
  double v[6] = {0, 1, .5, 0, 0, 0}, g[6], norm = 0;
  discs(v, g);
  for (int i = 0; i < 6; i++) {
    double was = v[i], up, down;
    v[i] = was + 1e-5;
    up = discs(v, NULL);
    v[i] = was - 1e-5;
    down = discs(v, NULL);
    v[i] = was;
    assert_near(g[i], (up - down) / 2e-5, 1e-6);
    norm += fabs(g[i]);
  }
  assert_true(norm > .1);
}

// s = z = 0: the open side's derivative, finite. Redundant rows: x's derivatives are those without the copy.
static void test_degenerate_points(void **state) {
  (void)state;
  double h0[] = {1.7, 3.1};
  Solved s = solve((pbLcp){.n = 2, .m = 2, .Q = eye2, .p = p_free, .G = eye2, .h = h0, .F = F2}, NULL);
  assert_int_equal(s.status, pb_ok);
  pbLcpAdjointReport report;
  Bars b = vjp(&s, (pbLcpCotangent){.x = (double[]){1, 1}}, &report);
  assert_int_equal(report.degenerate, 2);
  all_near(b.bar.p, (double[]){-1, -1}, 2, 1e-12);
  all_near(b.bar.h, (double[]){0, 0}, 2, 0);
  free(b.all);
  done(&s);

  double G[] = {1, 0, 1, 0, 2, 0}, h[] = {.5, .5, 1}, A[] = {0, 1, 0, 2}, equal[] = {1, 2};
  s = solve((pbLcp){.n = 2, .m = 3, .e = 2, .Q = Q_tied, .p = p_tied, .G = G, .h = h, .A = A, .b = equal}, NULL);
  assert_int_equal(s.status, pb_ok);
  assert_int_equal(s.report.dropped_rows, 1);
  all_near(s.at.x, (double[]){.5, 1}, 2, 1e-12);
  b = vjp(&s, (pbLcpCotangent){.x = (double[]){1, 1}}, &report);
  assert_int_equal(report.deficiency, 2);
  assert_true(report.residual < 1e-10);
  all_near(b.bar.p, (double[]){0, 0}, 2, 1e-12);
  assert_near(b.bar.h[0] + b.bar.h[1] + 2 * b.bar.h[2], 1, 1e-12);
  assert_near(b.bar.b[0] + 2 * b.bar.b[1], 1, 1e-12);
  free(b.all);
  b = vjp(&s, (pbLcpCotangent){.z = (double[]){1, -1, 0}}, &report);  // what the problem does not determine is reported
  assert_true(report.residual > .1);
  free(b.all);
  done(&s);
}

// ---- refusals -------------------------------------------------------------------------------------------------------
static void refused(pbLcp l, pbStatus status, const char *word) {
  size_t size = pbLcp_WorkSize(2, 2, 2);
  void *work = malloc(size);
  double x[2] = {-77, -77}, y[2] = {0}, z[2] = {-77, -77}, s[2] = {-77, -77}, g[2] = {1, 1}, out[2] = {0};
  assert_int_equal(pbLcp_Solve(ctx, &l, NULL, work, size, &(pbLcpSolution){x, y, z, s}, NULL), status);
  assert_non_null(strstr(pbContext_Error(ctx), word));
  assert_true(x[0] == -77 && z[0] == -77 && s[0] == -77);
  x[0] = x[1] = z[0] = z[1] = s[0] = s[1] = 0;
  if (status != pb_no_convergence) {
    assert_int_equal(
        pbLcp_Vjp(ctx, &l, &(pbLcpSolution){x, y, z, s}, &(pbLcpCotangent){.x = g}, work, size, &(pbLcpBar){.p = out}, NULL),
        status);
    assert_true(out[0] == 0);
  }
  free(work);
}
static void test_bad_input(void **state) {
  (void)state;
  pbLcp good = {.n = 2, .m = 2, .Q = eye2, .p = p_free, .G = eye2, .h = h2, .F = F2}, l = good;
  l.n = -1;
  refused(l, pb_bad_argument, "sizes");
  l = good;
  l.m = -2;
  refused(l, pb_bad_argument, "sizes");
  l = good;
  l.m = 1 << 30;
  refused(l, pb_bad_argument, "sizes");
  l = good;
  l.m = 100;
  refused(l, pb_bad_argument, "bytes");
  l = good;
  l.h = NULL;
  refused(l, pb_bad_argument, "h is missing");
  l = good;
  l.e = 1;
  refused(l, pb_bad_argument, "A is missing");
  l = good;
  l.F = (double[]){1, NAN, 0, 1};
  refused(l, pb_bad_input, "F has");
  l = good;
  l.p = (double[]){1, INFINITY};
  refused(l, pb_bad_input, "p has");
  l = good;
  l.Q = (double[]){1, 1, 1, 1};
  refused(l, pb_singular, "row 1");
  l = good;
  l.Q = (double[]){1, 0, 0, -1};
  refused(l, pb_singular, "row 1");
  // no solution: x <= -1 and x >= 1; equalities that contradict each other
  l = (pbLcp){.n = 1, .m = 2, .Q = eye2, .p = p_free, .G = (double[]){1, -1}, .h = (double[]){-1, -1}};
  refused(l, pb_no_convergence, "condition");
  l = (pbLcp){.n = 1, .e = 2, .Q = eye2, .p = p_free, .A = (double[]){1, 2}, .b = (double[]){1, 1}};
  refused(l, pb_no_convergence, "worst");
  Solved s = solve(good, &(pbLcpOptions){.iterations = 1});
  assert_int_equal(s.status, pb_no_convergence);
  assert_true(s.report.complementarity > 1e-6 && s.report.worst_row >= 0 && s.report.condition > 1);
  done(&s);
}

// ---- contact problems -----------------------------------------------------------------------------------------------
// The problem as stated, measured here: complementarity, momentum (stationarity), joints
static void measure(const Solved *s, double *complementarity, double *momentum, double *joints) {
  const pbLcp *l = &s->l;
  *complementarity = *momentum = *joints = 0;
  for (int i = 0; i < l->m; i++) {
    double slack = l->h[i];
    for (int j = 0; j < l->n; j++) slack -= l->G[(size_t)i * (size_t)l->n + (size_t)j] * s->at.x[j];
    for (int j = 0; j < l->m; j++) slack += l->F[(size_t)i * (size_t)l->m + (size_t)j] * s->at.z[j];
    *complementarity = fmax(*complementarity, fabs(fmin(slack, s->at.z[i])));
    assert_true(s->at.z[i] >= 0 && s->at.s[i] >= 0 && s->at.z[i] * s->at.s[i] == 0);
  }
  for (int j = 0; j < l->n; j++) {
    double sum = l->p[j];
    for (int k = 0; k < l->n; k++) sum += l->Q[(size_t)j * (size_t)l->n + (size_t)k] * s->at.x[k];
    for (int i = 0; i < l->m; i++) sum += l->G[(size_t)i * (size_t)l->n + (size_t)j] * s->at.z[i];
    for (int i = 0; i < l->e; i++) sum += l->A[(size_t)i * (size_t)l->n + (size_t)j] * s->at.y[i];
    *momentum = fmax(*momentum, fabs(sum));
  }
  for (int i = 0; i < l->e; i++) {
    double sum = -l->b[i];
    for (int j = 0; j < l->n; j++) sum += l->A[(size_t)i * (size_t)l->n + (size_t)j] * s->at.x[j];
    *joints = fmax(*joints, fabs(sum));
  }
}
static Instance random_world(pbRng *r, int most, double mu_low, double mu_high) {
  int dim = 2 + below(r, 2), contacts = below(r, most + 1), bodies = 1 + below(r, contacts < 10 ? 10 : contacts);
  Kind kind = (Kind)below(r, kind_count);
  return instance_make(r, dim, bodies < 50 ? bodies : 50, contacts, mu_low, mu_high, kind, below(r, 2), 100);
}

static void test_random_contacts(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(17);
  int good = 0, by_path = 0;
  double start = seconds();
  for (int k = 0; k < 500; k++) {
    Instance c = random_world(&r, 30, 0, .5);
    Solved s = solve(instance_problem(&c), NULL);
    if (s.status == pb_ok) {
      double complementarity, momentum, joints;
      measure(&s, &complementarity, &momentum, &joints);
      assert_true(complementarity <= 1e-9 * s.report.scale && momentum <= 1e-10 * s.report.scale && joints <= 1e-10);
      good++;
      by_path += s.report.method == pb_lcpPath;
    } else {
      assert_int_equal(s.status, pb_no_convergence);
    }
    done(&s);
    instance_free(&c);
  }
  print_message("%d of 500 solved, %d by the path, %.1f s\n", good, by_path, seconds() - start);
  assert_int_equal(good, 500);
}

static void test_mass_ratio_and_redundant_joints(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(3);
  int good = 0;
  for (int k = 0; k < 40; k++) {
    Instance c = instance_make(&r, 2 + k % 2, 6, 12, 0, .5, (Kind)(k % 3), k % 4 > 1, 1e6);
    Solved s = solve(instance_problem(&c), NULL);
    assert_true(s.status == pb_ok || s.status == pb_no_convergence);
    assert_true(s.report.condition >= 1);
    good += s.status == pb_ok;
    done(&s);
    instance_free(&c);
  }
  print_message("masses 1 : 1e6: %d of 40 solved\n", good);
  assert_true(good >= 39);
}

// ---- an independent method: Lemke's, on the dense tableau, ties broken by lexicographic order ----------------------------
// s = M z + q; false: a ray, or too many pivots
static bool lemke(const double *M, const double *q, int m, double *z) {
  int cols = 2 * m + 2, pivots = 0;  // s, z, the artificial one, the right-hand side
  double *T = calloc((size_t)m * (size_t)cols, sizeof(double));
  int *basis = malloc(sizeof(int) * (size_t)m), row = 0, enter;
  for (int i = 0; i < m; i++) {
    double *t = T + (size_t)i * (size_t)cols;
    t[i] = 1;
    t[2 * m] = -1;
    t[cols - 1] = q[i];
    basis[i] = i;
    for (int j = 0; j < m; j++) t[m + j] = -M[(size_t)i * (size_t)m + (size_t)j];
    if (q[i] < q[row]) row = i;
  }
  bool found = m == 0 || q[row] >= 0;
  enter = 2 * m;
  while (!found && pivots++ < 50 * m) {
    double *p = T + (size_t)row * (size_t)cols, pivot = p[enter];
    for (int j = 0; j < cols; j++) p[j] /= pivot;
    for (int i = 0; i < m; i++) {
      double *t = T + (size_t)i * (size_t)cols, f = t[enter];
      if (i == row || f == 0) continue;
      for (int j = 0; j < cols; j++) t[j] -= f * p[j];
      t[enter] = 0;
    }
    int left = basis[row];
    basis[row] = enter;
    if (left == 2 * m) {
      found = true;
      break;
    }
    enter = left < m ? left + m : left - m;
    row = -1;
    for (int i = 0; i < m; i++) {
      const double *t = T + (size_t)i * (size_t)cols, *best = row < 0 ? NULL : T + (size_t)row * (size_t)cols;
      if (t[enter] < 1e-9) continue;
      double gap = best ? t[cols - 1] / t[enter] - best[cols - 1] / best[enter] : -1;
      for (int j = 0; j < m && fabs(gap) < 1e-12; j++) gap = t[j] / t[enter] - best[j] / best[enter];
      if (gap < 0) row = i;
      if (best && basis[i] == 2 * m && t[cols - 1] / t[enter] <= best[cols - 1] / best[enter] + 1e-12) row = i;
    }
    if (row < 0) break;
  }
  memset(z, 0, sizeof *z * (size_t)m);
  for (int i = 0; i < m; i++)
    if (basis[i] >= m && basis[i] < 2 * m) z[basis[i] - m] = T[(size_t)i * (size_t)cols + (size_t)(cols - 1)];
  free(T);
  free(basis);
  return found;
}

// Without equalities and with diagonal Q: M = G Q^-1 G' + F
static bool lemke_contacts(const pbLcp *l, double *x, double *residual) {
  size_t n = (size_t)l->n, m = (size_t)l->m;
  double *M = calloc(m * m + 1, 8), *q = calloc(m + 1, 8), *z = calloc(m + 1, 8);
  for (size_t i = 0; i < m; i++) {
    q[i] = l->h[i];
    for (size_t k = 0; k < n; k++) q[i] += l->G[i * n + k] * l->p[k] / l->Q[k * n + k];
    for (size_t j = 0; j < m; j++) {
      M[i * m + j] = l->F[i * m + j];
      for (size_t k = 0; k < n; k++) M[i * m + j] += l->G[i * n + k] * l->G[j * n + k] / l->Q[k * n + k];
    }
  }
  bool found = lemke(M, q, l->m, z);
  *residual = 0;
  for (size_t i = 0; i < m; i++) {
    double s = q[i];
    for (size_t j = 0; j < m; j++) s += M[i * m + j] * z[j];
    *residual = fmax(*residual, fabs(fmin(s, z[i])));
  }
  for (size_t k = 0; k < n; k++) {
    x[k] = -l->p[k];
    for (size_t i = 0; i < m; i++) x[k] -= l->G[i * n + k] * z[i];
    x[k] /= l->Q[k * n + k];
  }
  free(M);
  free(q);
  free(z);
  return found;
}

static void test_agrees_with_lemke(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(23);
  double worst = 0, apart = 0;
  int compared = 0, both = 0, ours = 0, theirs = 0;
  for (int k = 0; k < 240; k++) {
    bool smooth = k % 2;
    int dim = 2 + below(&r, 2), contacts = 1 + below(&r, 12);
    Instance c =
        instance_make(&r, dim, 1 + below(&r, 8), contacts, smooth ? 0 : .1, smooth ? 0 : .5, (Kind)(k / 2 % 3), false, 100);
    Solved s = solve(instance_problem(&c), NULL);
    double *x = calloc((size_t)c.n, 8), residual, most = 0;
    bool found = lemke_contacts(&s.l, x, &residual) && residual < 1e-8 * s.report.scale;
    ours += s.status == pb_ok;
    theirs += found;
    for (int i = 0; i < c.n && found && s.status == pb_ok; i++) most = fmax(most, fabs(x[i] - s.at.x[i]));
    if (found && s.status == pb_ok && smooth) {
      worst = fmax(worst, most);
      compared++;
    }
    if (found && s.status == pb_ok && !smooth) {
      apart = fmax(apart, most);
      both += most < 1e-7;
    }
    free(x);
    done(&s);
    instance_free(&c);
  }
  print_message(
      "solved %d, Lemke's method %d of 240; without friction %d compared, velocities apart by %.1e at most;\n"
      "with friction (not unique) %d of 120 the same, apart by %.1e at most\n",
      ours, theirs, compared, worst, both, apart);
  assert_int_equal(ours, 240);
  assert_true(compared > 100 && worst < 1e-7 && both > 80);
}

// Many rows in small blocks, which is solved in another form than few: derivatives along directions that change everything.
static void test_gradients_of_contacts(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(7);
  int checked = 0;
  double worst = 0, eps = 1e-6;
  for (int k = 0; k < 60; k++) {
    Instance c = instance_make(&r, 2 + k % 2, 6, 12, .1, .5, (Kind)(k % 3), k % 4 > 1, 10);
    for (int i = 0; i < c.m; i++) c.F[(size_t)i * (size_t)(c.m + 1)] += .05;  // so that z is unique
    pbLcp l = instance_problem(&c);
    Solved s = solve(l, NULL);
    assert_int_equal(s.status, pb_ok);
    bool strict = true;
    for (int i = 0; i < l.m; i++) strict &= fmax(s.at.z[i], s.at.s[i]) > 1e-3;
    double *g = calloc((size_t)(l.n + l.e + 2 * l.m), 8);
    for (int i = 0; i < l.n + l.e + 2 * l.m; i++) g[i] = i < l.n || i >= l.n + l.e ? pbRng_Normal(&r) : 0;
    if (strict) {
      pbLcpAdjointReport report;
      Bars b = vjp(&s, (pbLcpCotangent){g, NULL, g + l.n + l.e, g + l.n + l.e + l.m}, &report);
      assert_true(report.residual < 1e-9 && report.deficiency == 0);
      double *arrays[] = {c.Q, c.p, c.G, c.h, c.F}, *bar[] = {b.bar.Q, b.bar.p, b.bar.G, b.bar.h, b.bar.F};
      int sizes[] = {l.n * l.n, l.n, l.m * l.n, l.m, l.m * l.m};
      double *way[5], exact = 0, at[2];
      for (int a = 0; a < 5; a++) {
        way[a] = calloc((size_t)sizes[a], 8);
        for (int i = 0; i < sizes[a]; i++) {
          way[a][i] = arrays[a][i] * pbRng_Normal(&r);
          exact += way[a][i] * bar[a][i];
        }
      }
      for (int side = 0; side < 2; side++) {
        for (int a = 0; a < 5; a++)
          for (int i = 0; i < sizes[a]; i++) arrays[a][i] += (side ? 2 : -1) * eps * way[a][i];
        at[side] = loss(l, g);
      }
      double quotient = (at[1] - at[0]) / (2 * eps);
      worst = fmax(worst, fabs(quotient - exact) / (1 + fabs(exact)));
      for (int a = 0; a < 5; a++) free(way[a]);
      free(b.all);
    }
    checked += strict;
    free(g);
    done(&s);
    instance_free(&c);
  }
  print_message("%d heaps of 12 contacts: derivatives off by %.1e at most\n", checked, worst);
  assert_true(checked > 10 && worst < 1e-6);
}

// ---- beside the derivative of the iterations ------------------------------------------------------------------------
typedef double _Complex cplx;

// The predictor-corrector in complex numbers, all the way: an imaginary step through every iteration is their derivative.
static int iterate_complex(const cplx *M, const cplx *q, int m, cplx *z) {
  size_t bytes = sizeof(cplx) * (size_t)m;
  cplx *K = malloc(bytes * (size_t)m), *s = malloc(bytes), *d = malloc(bytes), *ds = malloc(bytes), *r = malloc(bytes);
  int it, *perm = malloc(sizeof(int) * (size_t)m);
  for (int i = 0; i < m; i++) z[i] = s[i] = 1;
  for (it = 0; it < 60; it++) {
    cplx gap = 0;
    double most = 0;
    for (int i = 0; i < m; i++) {
      r[i] = q[i] - s[i];
      for (int j = 0; j < m; j++) r[i] += M[i * m + j] * z[j];
      gap += s[i] * z[i] / m;
      most = fmax(most, fabs(creal(r[i])));
    }
    if (creal(gap) < 1e-15 && most < 1e-14) break;
    memcpy(K, M, bytes * (size_t)m);
    for (int i = 0; i < m; i++) K[i * m + i] += s[i] / z[i];
    for (int k = 0; k < m; k++) {
      int best = k;
      for (int i = k; i < m; i++)
        if (fabs(creal(K[i * m + k])) > fabs(creal(K[best * m + k]))) best = i;
      perm[k] = best;
      for (int j = 0; j < m; j++) {
        cplx t = K[k * m + j];
        K[k * m + j] = K[best * m + j];
        K[best * m + j] = t;
      }
      for (int i = k + 1; i < m; i++) {
        cplx f = K[i * m + k] /= K[k * m + k];
        for (int j = k + 1; j < m; j++) K[i * m + j] -= f * K[k * m + j];
      }
    }
    cplx target = 0;
    for (int phase = 0; phase < 2; phase++) {
      cplx a = 1;
      for (int i = 0; i < m; i++) {
        cplx second = phase ? d[i] * ds[i] : 0;
        ds[i] = target - s[i] * z[i] - second;  // kept for the slacks
        d[i] = ds[i] / z[i] - r[i];
      }
      for (int k = 0; k < m; k++) {
        cplx t = d[perm[k]];
        d[perm[k]] = d[k];
        d[k] = t;
      }
      for (int i = 0; i < m; i++)
        for (int j = 0; j < i; j++) d[i] -= K[i * m + j] * d[j];
      for (int i = m - 1; i >= 0; i--) {
        for (int j = i + 1; j < m; j++) d[i] -= K[i * m + j] * d[j];
        d[i] /= K[i * m + i];
      }
      for (int i = 0; i < m; i++) ds[i] = (ds[i] - s[i] * d[i]) / z[i];
      for (int i = 0; i < m; i++) {
        if (creal(d[i]) < 0 && creal(-z[i] / d[i]) * (phase ? .995 : 1) < creal(a)) a = -z[i] / d[i] * (phase ? .995 : 1);
        if (creal(ds[i]) < 0 && creal(-s[i] / ds[i]) * (phase ? .995 : 1) < creal(a)) a = -s[i] / ds[i] * (phase ? .995 : 1);
      }
      if (!phase) {
        cplx ahead = 0;
        for (int i = 0; i < m; i++) ahead += (z[i] + a * d[i]) * (s[i] + a * ds[i]) / m;
        cplx ratio = ahead / gap;
        target = ratio * ratio * ratio * gap;
      } else {
        for (int i = 0; i < m; i++) {
          z[i] += a * d[i];
          s[i] += a * ds[i];
        }
      }
    }
  }
  free(K);
  free(s);
  free(d);
  free(ds);
  free(r);
  free(perm);
  return it;
}

// Balls in a heap with regularised contacts: strictly monotone, so that z is unique and plain iterations converge.
static void test_implicit_against_iterations(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(41);
  double times[3] = {0}, worst = 0;
  int iterations = 0, count = 10;
  for (int k = 0; k < count; k++) {
    Instance c = instance_make(&r, 2, 12, 20, .1, .5, kind_cluster, false, 10);
    for (int i = 0; i < c.m; i++) c.F[(size_t)i * (size_t)(c.m + 1)] += 1;
    pbLcp l = instance_problem(&c);
    int n = c.n, m = c.m;
    double start = seconds(), *g = calloc((size_t)n, 8), *dp = calloc((size_t)n, 8);
    Solved s = solve(l, NULL);
    times[0] += seconds() - start;
    assert_int_equal(s.status, pb_ok);
    for (int i = 0; i < n; i++) {
      g[i] = pbRng_Normal(&r);
      dp[i] = pbRng_Normal(&r);
    }
    start = seconds();
    Bars b = vjp(&s, (pbLcpCotangent){.x = g}, NULL);
    times[1] += seconds() - start;
    double exact = 0, unrolled = 0, tiny = 1e-40;
    for (int i = 0; i < n; i++) exact += b.bar.p[i] * dp[i];
    start = seconds();
    cplx *M = malloc(sizeof *M * (size_t)(m * m)), *q = malloc(sizeof *q * (size_t)m), *z = malloc(sizeof *z * (size_t)m);
    for (int i = 0; i < m; i++) {
      q[i] = l.h[i];
      for (int a = 0; a < n; a++) q[i] += l.G[i * n + a] * (l.p[a] + I * tiny * dp[a]) / l.Q[a * n + a];
      for (int j = 0; j < m; j++) {
        M[i * m + j] = l.F[i * m + j];
        for (int a = 0; a < n; a++) M[i * m + j] += l.G[i * n + a] * l.G[j * n + a] / l.Q[a * n + a];
      }
    }
    iterations += iterate_complex(M, q, m, z);
    for (int a = 0; a < n; a++) {
      cplx x = -(l.p[a] + I * tiny * dp[a]);
      for (int i = 0; i < m; i++) x -= l.G[i * n + a] * z[i];
      unrolled += g[a] * cimag(x / l.Q[a * n + a]) / tiny;
    }
    times[2] += seconds() - start;
    worst = fmax(worst, fabs(unrolled - exact) / (1 + fabs(exact)));
    free(M);
    free(q);
    free(z);
    free(g);
    free(dp);
    free(b.all);
    done(&s);
    instance_free(&c);
  }
  print_message(
      "20 contacts: solution %.2f ms, implicit adjoint %.2f ms (all derivatives), the iterations (%.1f) with one direction "
      "%.2f ms; apart by %.1e\n",
      1e3 * times[0] / count, 1e3 * times[1] / count, 1. * iterations / count, 1e3 * times[2] / count, worst);
  assert_true(worst < 1e-6);
  assert_true(times[1] < times[2]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_rows),
      cmocka_unit_test(test_two_rows_and_an_equality),
      cmocka_unit_test(test_one_row),
      cmocka_unit_test(test_gradients_of_random_problems),
      cmocka_unit_test(test_two_discs),
      cmocka_unit_test(test_degenerate_points),
      cmocka_unit_test(test_bad_input),
      cmocka_unit_test(test_random_contacts),
      cmocka_unit_test(test_mass_ratio_and_redundant_joints),
      cmocka_unit_test(test_agrees_with_lemke),
      cmocka_unit_test(test_gradients_of_contacts),
      cmocka_unit_test(test_implicit_against_iterations),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
