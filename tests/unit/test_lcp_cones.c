// Contacts with Coulomb's cone: known answers, the law itself at random contacts, derivatives.
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
  pbCones l;
  pbLcpSolution at;
  pbLcpReport report;
  pbStatus status;
  void *work;
  size_t size;
} Solved;

static Solved solve(pbCones l, const pbLcpOptions *options) {
  Solved s = {.l = l, .size = pbCones_WorkSize(l.n, l.contacts, l.e)};
  double **parts[] = {&s.at.x, &s.at.y, &s.at.z, &s.at.s};
  int sizes[] = {l.n, l.e, 3 * l.contacts, 3 * l.contacts};
  for (int k = 0; k < 4; k++) *parts[k] = calloc((size_t)sizes[k] + 1, sizeof(double));
  s.work = malloc(s.size);
  memset(s.work, 0xff, s.size);  // NaN
  s.status = pbCones_Solve(ctx, &s.l, options, s.work, s.size, &s.at, &s.report);
  return s;
}
static void done(Solved *s) {
  free(s->at.x);
  free(s->at.y);
  free(s->at.z);
  free(s->at.s);
  free(s->work);
}

// In one block: Q p G h mu A b
typedef struct Bars {
  double *all;
  size_t count;
  pbConesBar bar;
} Bars;
static Bars bars(const pbCones *l) {
  size_t n = (size_t)l->n, m = 3 * (size_t)l->contacts, e = (size_t)l->e;
  Bars b = {.count = n * n + n + m * n + m + m / 3 + e * n + e};
  double *at = b.all = calloc(b.count, sizeof(double));
  b.bar.Q = at;
  b.bar.p = at += n * n;
  b.bar.G = at += n;
  b.bar.h = at += m * n;
  b.bar.mu = at += m;
  b.bar.A = at += m / 3;
  b.bar.b = at + e * n;
  return b;
}
static Bars vjp(const Solved *s, pbLcpCotangent g, pbLcpAdjointReport *report) {
  Bars b = bars(&s->l);
  memset(s->work, 0xff, s->size);
  assert_int_equal(pbCones_Vjp(ctx, &s->l, &s->at, &g, s->work, s->size, &b.bar, report), pb_ok);
  return b;
}

// A point of mass 2 upon a plane, pressed on with impulse 3: (normal, tangents) are the axes.
static void test_point_on_a_plane(void **state) {
  (void)state;
  double Q[9] = {2, 0, 0, 0, 2, 0, 0, 0, 2}, G[9] = {-1, 0, 0, 0, -1, 0, 0, 0, -1}, h[3] = {0}, mu = .5;
  struct {
    double p[3], x[3], z[3];
  } cases[] = {{{3, -6, -8}, {0, 3 - .45, 4 - .6}, {3, -.9, -1.2}},  // slides: 1.5 of 10 taken
               {{3, -.6, -.8}, {0, 0, 0}, {3, -.6, -.8}},            // sticks
               {{-1, -6, -8}, {.5, 3, 4}, {0, 0, 0}}};               // leaves
  for (int k = 0; k < 3; k++) {
    Solved s = solve((pbCones){.n = 3, .contacts = 1, .Q = Q, .p = cases[k].p, .G = G, .h = h, .mu = &mu}, NULL);
    assert_int_equal(s.status, pb_ok);
    for (int i = 0; i < 3; i++) {
      assert_near(s.at.x[i], cases[k].x[i], 1e-12);
      assert_near(s.at.z[i], cases[k].z[i], 1e-12);
    }
    pbLcpAdjointReport report;
    Bars b = vjp(&s, (pbLcpCotangent){.x = (double[]){0, 1, 0}}, &report);
    assert_near(b.bar.mu[0], k == 0 ? -3 * .6 / 2 : 0, 1e-12);  // friction grows by 3 along the slip
    assert_near(b.bar.p[0], k == 0 ? -.5 * .6 / 2 : 0, 1e-12);  // so does it by the pressure
    assert_near(b.bar.p[1], k == 1 ? 0 : k == 0 ? -(.5 - .5 * 1.5 / 10 * .64) : -.5, 1e-12);  // and it turns with the slip
    free(b.all);
    done(&s);
  }
}

static void test_refusals(void **state) {
  (void)state;
  double Q[9] = {2, 0, 0, 0, 2, 0, 0, 0, 2}, G[9] = {-1, 0, 0, 0, -1, 0, 0, 0, -1}, h[3] = {0}, mu = .5, p[3] = {3, -6, -8};
  pbCones good = {.n = 3, .contacts = 1, .Q = Q, .p = p, .G = G, .h = h, .mu = &mu};
  size_t size = pbCones_WorkSize(3, 1, 0);
  void *work = malloc(size);
  double x[3], z[3], s[3];
  pbLcpSolution out = {x, NULL, z, s};
  pbCones l = good;
  l.contacts = -1;
  assert_int_equal(pbCones_Solve(ctx, &l, NULL, work, size, &out, NULL), pb_bad_argument);
  l = good;
  l.mu = NULL;
  assert_int_equal(pbCones_Solve(ctx, &l, NULL, work, size, &out, NULL), pb_bad_argument);
  l = good;
  l.mu = (double[]){-1};
  assert_int_equal(pbCones_Solve(ctx, &l, NULL, work, size, &out, NULL), pb_bad_input);
  l = good;
  l.h = (double[]){0, NAN, 0};
  assert_int_equal(pbCones_Solve(ctx, &l, NULL, work, size, &out, NULL), pb_bad_input);
  assert_int_equal(pbCones_Solve(ctx, &good, NULL, work, size - 1, &out, NULL), pb_bad_argument);
  assert_int_equal(pbCones_Solve(ctx, &good, &(pbLcpOptions){.iterations = 1}, work, size, &out, NULL), pb_no_convergence);
  l = good;
  l.Q = (double[]){1, 0, 0, 1, 1, 0, 0, 0, 1};
  assert_int_equal(pbCones_Solve(ctx, &l, NULL, work, size, &out, NULL), pb_singular);
  free(work);
}

// Signorini's and Coulomb's laws, contact by contact, and the momentum
static double law_error(const Solved *s) {
  const pbCones *l = &s->l;
  double worst = 0;
  for (int c = 0; c < l->contacts; c++) {
    const double *z = s->at.z + 3 * c;
    double u[3], mu = l->mu[c];
    for (int k = 0; k < 3; k++) {
      u[k] = l->h[3 * c + k];
      for (int j = 0; j < l->n; j++) u[k] -= l->G[(size_t)(3 * c + k) * (size_t)l->n + (size_t)j] * s->at.x[j];
    }
    double slip = hypot(u[1], u[2]), force = hypot(z[1], z[2]);
    worst = fmax(worst, fabs(fmin(z[0], u[0])));
    worst = fmax(worst, force - mu * z[0]);
    worst = fmax(worst, fabs(u[1] * z[1] + u[2] * z[2] + slip * mu * z[0]));  // dissipation is the greatest there is
  }
  for (int j = 0; j < l->n; j++) {
    double sum = l->p[j];
    for (int k = 0; k < l->n; k++) sum += l->Q[(size_t)j * (size_t)l->n + (size_t)k] * s->at.x[k];
    for (int i = 0; i < 3 * l->contacts; i++) sum += l->G[(size_t)i * (size_t)l->n + (size_t)j] * s->at.z[i];
    for (int i = 0; i < l->e; i++) sum += l->A[(size_t)i * (size_t)l->n + (size_t)j] * s->at.y[i];
    worst = fmax(worst, fabs(sum));
  }
  return worst / s->report.scale;
}

static void test_random_contacts(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(29);
  int good = 0, by_path = 0, count = 200;
  double worst = 0;
  for (int k = 0; k < count; k++) {
    int contacts = below(&r, 16);
    Instance c = instance_make(&r, 3, 1 + below(&r, 8), contacts, 0, .8, (Kind)below(&r, kind_count), below(&r, 2), 100);
    pbCones l = instance_cones(&c);
    Solved s = solve(l, NULL);
    assert_true(s.status == pb_ok || s.status == pb_no_convergence);
    if (s.status == pb_ok) {
      worst = fmax(worst, law_error(&s));
      good++;
      by_path += s.report.method == pb_lcpPath;
    }
    done(&s);
    instance_free(&c);
    free((double *)l.G);
    free((double *)l.h);
  }
  print_message("%d of %d solved (%d by the path), the law holds to %.1e\n", good, count, by_path, worst);
  assert_true(good == count && worst < 1e-9);
}

static double loss(pbCones l, const double *g) {
  Solved s = solve(l, NULL);
  assert_int_equal(s.status, pb_ok);
  double sum = 0;
  for (int i = 0; i < l.n; i++) sum += g[i] * s.at.x[i];
  for (int i = 0; i < l.e; i++) sum += g[l.n + i] * s.at.y[i];
  for (int i = 0; i < 3 * l.contacts; i++) sum += g[l.n + l.e + i] * s.at.z[i] + g[l.n + l.e + 3 * l.contacts + i] * s.at.s[i];
  done(&s);
  return sum;
}
// Away from the edges between the states of a contact
static bool clear(const Solved *s, int states[3]) {
  for (int c = 0; c < s->l.contacts; c++) {
    const double *z = s->at.z + 3 * c, *u = s->at.s + 3 * c, slip = hypot(u[1], u[2]), force = hypot(z[1], z[2]);
    if (fmax(z[0], u[0]) < 1e-2) return false;
    if (z[0] > 0 && slip < 1e-2 && (slip > 0 || s->l.mu[c] * z[0] - force < 1e-2)) return false;
  }
  for (int c = 0; c < s->l.contacts; c++) {
    const double *z = s->at.z + 3 * c, *u = s->at.s + 3 * c;
    states[z[0] == 0 ? 0 : hypot(u[1], u[2]) == 0 ? 1 : 2]++;
  }
  return true;
}

static void test_gradients(void **state) {
  (void)state;
  pbRng r = pbRng_Seed(31);
  int checked = 0, states[3] = {0}, tried = 0;
  double worst = 0;
  while (checked < 90 && tried++ < 2000) {
    int n = 3 + below(&r, 4), contacts = 1 + below(&r, n / 3), e = n > 3 * contacts ? below(&r, n - 3 * contacts + 1) : 0;
    pbCones l = {.n = n, .contacts = contacts, .e = e};
    Bars P = bars(&l);
    for (size_t i = 0; i < P.count; i++) P.all[i] = pbRng_Normal(&r);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) P.bar.Q[i * n + j] = i == j ? 1.5 : .2 / (1 + abs(i - j));
    for (int c = 0; c < contacts; c++) {
      P.bar.mu[c] = checked % 3 ? uniform(&r, .1, .8) : uniform(&r, 1, 3);
      for (int k = 0; k < 3; k++) P.bar.h[3 * c + k] *= .3;
      P.bar.h[3 * c] -= checked % 3 ? 0 : 1;  // pressed together
    }
    l.Q = P.bar.Q;
    l.p = P.bar.p;
    l.G = P.bar.G;
    l.h = P.bar.h;
    l.mu = P.bar.mu;
    l.A = P.bar.A;
    l.b = P.bar.b;
    Solved s = solve(l, NULL);
    if (s.status == pb_ok && clear(&s, states)) {
      double g[64];
      for (int i = 0; i < n + e + 6 * contacts; i++) g[i] = pbRng_Normal(&r);
      pbLcpAdjointReport report;
      Bars b = vjp(&s, (pbLcpCotangent){g, g + n, g + n + e, g + n + e + 3 * contacts}, &report);
      double size = 1;
      for (size_t i = 0; i < b.count; i++) size = fmax(size, fabs(b.all[i]));
      for (size_t i = 0; i < b.count; i++) {
        int row = (int)i / n, col = (int)i % n;
        bool in_Q = i < (size_t)(n * n);
        if (in_Q && col > row) continue;
        double was = P.all[i], step = 1e-6, up, down, exact = b.all[i];
        P.all[i] = was + step;
        up = loss(l, g);
        P.all[i] = was - step;
        down = loss(l, g);
        P.all[i] = was;
        if (in_Q && col < row) exact += b.all[col * n + row];
        worst = fmax(worst, fabs((up - down) / (2 * step) - exact) / size);
      }
      checked++;
      free(b.all);
    }
    free(P.all);
    done(&s);
  }
  print_message("%d problems; contacts %d open, %d sticking, %d sliding: gradients off by %.1e at most\n", checked, states[0],
                states[1], states[2], worst);
  assert_true(checked == 90 && worst < 1e-6 && states[0] > 5 && states[1] > 5 && states[2] > 5);
}

// A chain of bodies, each in contact with the next: solved in another form than few contacts. Derivatives along directions that
// change everything.
static void test_gradients_of_a_chain(void **state) {
  (void)state;
  enum { contacts = 8, n = 3 * contacts + 3 };
  pbRng r = pbRng_Seed(37);
  int checked = 0, states[3] = {0}, tried = 0;
  double worst = 0, eps = 1e-6;
  while (checked < 30 && tried++ < 3000) {
    pbCones l = {.n = n, .contacts = contacts};
    Bars P = bars(&l);
    for (int i = 0; i < n; i++) {
      P.bar.Q[i * n + i] = uniform(&r, 1, 2);
      P.bar.p[i] = pbRng_Normal(&r);
    }
    for (int row = 0; row < 3 * contacts; row++) {
      P.bar.h[row] = .3 * pbRng_Normal(&r) - (row % 3 == 0 && checked % 2);
      for (int j = 0; j < 6; j++) P.bar.G[row * n + row / 3 * 3 + j] = pbRng_Normal(&r);
    }
    for (int c = 0; c < contacts; c++) P.bar.mu[c] = uniform(&r, .1, 1);
    l.Q = P.bar.Q;
    l.p = P.bar.p;
    l.G = P.bar.G;
    l.h = P.bar.h;
    l.mu = P.bar.mu;
    Solved s = solve(l, NULL);
    if (s.status == pb_ok && clear(&s, states)) {
      double g[n + 6 * contacts], exact = 0, at[2], *way = calloc(P.count, 8);
      for (int i = 0; i < n + 6 * contacts; i++) g[i] = pbRng_Normal(&r);
      pbLcpAdjointReport report;
      Bars b = vjp(&s, (pbLcpCotangent){g, NULL, g + n, g + n + 3 * contacts}, &report);
      assert_true(report.deficiency == 0 && report.residual < 1e-9);
      for (size_t i = 0; i < P.count; i++) {
        way[i] = P.all[i] * pbRng_Normal(&r);
        exact += way[i] * b.all[i];
      }
      for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < P.count; i++) P.all[i] += (side ? 2 : -1) * eps * way[i];
        at[side] = loss(l, g);
      }
      worst = fmax(worst, fabs((at[1] - at[0]) / (2 * eps) - exact) / (1 + fabs(exact)));
      checked++;
      free(b.all);
      free(way);
    }
    free(P.all);
    done(&s);
  }
  print_message("%d chains; contacts %d open, %d sticking, %d sliding: derivatives off by %.1e at most\n", checked, states[0],
                states[1], states[2], worst);
  assert_true(checked == 30 && worst < 1e-6 && states[0] > 5 && states[1] > 5 && states[2] > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_point_on_a_plane),     cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_random_contacts),      cmocka_unit_test(test_gradients),
      cmocka_unit_test(test_gradients_of_a_chain),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
