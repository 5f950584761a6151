// Implicit adjoint of contacts with Coulomb's cone. With c(z, s) = 0 for the law of a contact in its state (open: z; sticking:
// s; sliding: s_n and z_t + mu z_n s_t / |s_t|) and multipliers w:
//
//   Q l + A'v + G'u = g,   A l = g of y,   G l + (dc/dz)'w = g of z,   u = g of s - (dc/ds)'w
//
// and dmu = -w dc/dmu; everything else as in the linear problem.
// Tests: tests/unit/test_lcp_cones.c, tests/unit/test_lcp.c, tests/unit/test_condensed.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "lcp/cones.h"

static const double NONE = 1e-11;  // of the largest: counts as zero
static const double SINGULAR = 1e-10;

// Derivatives of the law's rows by z and s, scaled (row, column).
typedef struct Law {
  double by_z[3][3], by_s[3][3], by_mu[3];
} Law;

static Law law_of(pbContactState state, double mu, const double *z, const double *s) {
  Law law = {0};
  double speed = pbHypot(s[1], s[2]), d[2] = {speed > 0 ? s[1] / speed : 0, speed > 0 ? s[2] / speed : 0};

  PB_ASSERT(mu >= 0 && isfinite(speed));

  if (state == pb_contactSticks) {
    for (int k = 0; k < 3; k++) law.by_s[k][k] = 1;
  }

  if (state == pb_contactSlides) {
    // Across the slip times speed / (speed + mu z_n), so that no entry is large.
    double across = speed > 0 ? speed / (speed + mu * z[0]) : 1;
    law.by_s[0][0] = 1;

    // Along the slip z_t follows mu z_n; across it the direction may turn.
    for (int i = 0; i < 2; i++) {
      law.by_z[1 + i][0] = mu * d[i];
      law.by_mu[1 + i] = z[0] * d[i];
      for (int j = 0; j < 2; j++) {
        law.by_z[1 + i][1 + j] = d[i] * d[j] + across * ((i == j) - d[i] * d[j]);
        law.by_s[1 + i][1 + j] = (1 - across) * ((i == j) - d[i] * d[j]);
      }
    }
  }

  return law;
}

typedef struct Cones {
  pbLcpAdjoint a;
  pbConesWork *w;
  const double *mu;
  double *multiplier;  // 3 a contact, scaled
  int *rows, count;
} Cones;

static void scale_contact(const Cones *k, int c, double *z, double *s) {
  double S = k->w->base.reduced.S[3 * c];
  for (int i = 0; i < 3; i++) {
    z[i] = k->a.at->z[3 * c + i] / S;
    s[i] = k->a.at->s[3 * c + i] * S;
  }
}

static Law law_at(const Cones *k, int c) {
  double z[3], s[3];
  scale_contact(k, c, z, s);
  return law_of((pbContactState)k->w->state[c], k->mu[c], z, s);
}

static pbContactState state_of(double mu, const double *z, bool slips, double size) {
  if (z[0] <= NONE * size) return pb_contactOpen;
  return slips || mu == 0 ? pb_contactSlides : pb_contactSticks;
}

// Of each contact whether it is open, sticks or slides, and the rows of those that are not open. Degenerate: between two.
static void find_states(Cones *k, pbLcpAdjointReport *report) {
  const pbReduced *r = &k->w->base.reduced;
  double size = 0, z[3], s[3];

  k->count = 0;
  for (int c = 0; 3 * c < r->m; c++) {
    scale_contact(k, c, z, s);
    size = fmax(size, fmax(pbDense_MaxAbs(z, 3), pbDense_MaxAbs(s, 3)));
  }

  for (int c = 0; 3 * c < r->m; c++) {
    scale_contact(k, c, z, s);
    bool slips = pbHypot(s[1], s[2]) > NONE * size;
    k->w->state[c] = state_of(k->mu[c], z, slips, size);
    bool open = k->w->state[c] == pb_contactOpen, edge = pbHypot(z[1], z[2]) >= k->mu[c] * z[0] - NONE * size;
    report->degenerate += open ? s[0] <= NONE * size : !slips && k->mu[c] > 0 && edge;

    // Only contacts that push have multipliers.
    if (open) continue;
    for (int i = 0; i < 3; i++) k->rows[k->count++] = 3 * c + i;
  }

  PB_ASSERT(k->count % 3 == 0 && k->count <= r->m);
  report->active = k->count / 3;
}

// u from the multipliers: g of s (where s is free) - (dc/ds)'w
static void update_velocities(Cones *k) {
  const double *gs = k->a.bar->s;
  const pbReduced *r = &k->w->base.reduced;

  for (int c = 0; 3 * c < r->m; c++) {
    Law l = law_at(k, c);
    for (int j = 0; j < 3; j++) {
      // All of s that the law leaves free.
      double sum = 0;
      for (int i = 0; i < 3; i++) sum += l.by_s[i][j] * k->multiplier[3 * c + i];
      k->a.u[3 * c + j] = (gs ? gs[3 * c + j] : 0) - sum * r->S[3 * c + j];
    }
  }

  pbLcpAdjoint_Primal(&k->a);
}

// Residual of a row: g of z - G l - (dc/dz)'w, scaled.
static double row_residual(const Cones *k, int row) {
  const pbLcp *p = k->a.l;
  Law l = law_at(k, row / 3);
  double sum = -pbDense_Dot(p->G + (size_t)row * (size_t)p->n, k->a.lambda, p->n);

  // In scaled rows, as the multipliers are.
  if (k->a.bar->z) sum += k->a.bar->z[row];
  sum *= k->w->base.reduced.S[row];
  for (int i = 0; i < 3; i++) sum -= l.by_z[i][row % 3] * k->multiplier[row / 3 * 3 + i];

  return sum;
}

// The same of all rows that count, by blocks; out: 3 a contact. Returns the largest.
static double residual_condensed(const Cones *k, double *out) {
  const pbReduced *r = &k->w->base.reduced;
  double worst = 0;

  pbCondensed_Rows(&k->w->base.condensed, k->a.lambda, out);

  // Open contacts have no multiplier, and no residual.
  for (int row = 0; row < r->m; row++) {
    double sum = -out[row] + (k->a.bar->z ? k->a.bar->z[row] * r->S[row] : 0);
    for (int i = 0; i < 3; i++) sum -= k->w->by_z[row / 3][i][row % 3] * k->multiplier[row / 3 * 3 + i];
    out[row] = k->w->state[row / 3] == pb_contactOpen ? 0 : sum;
    worst = fmax(worst, fabs(out[row]));
  }

  return worst;
}

// The laws and the regularized matrix, factored; open contacts have the law z = 0 and no multiplier. deficiency: by the growth
// of the determinant, as in vjp.c.
static bool factor_condensed(Cones *k, int *deficiency) {
  pbCondensed *c = &k->w->base.condensed;
  double grown[2];

  for (int i = 0; 3 * i < k->w->base.reduced.m; i++) {
    Law l = law_at(k, i);
    memcpy(k->w->by_z[i], l.by_z, sizeof l.by_z);
    memcpy(k->w->by_s[i], l.by_s, sizeof l.by_s);
    if (k->w->state[i] != pb_contactOpen) continue;
    for (int j = 0; j < 3; j++) k->w->by_z[i][j][j] = 1;
  }

  for (int round = 0; round < 2; round++) {
    if (!pbCondensed_FactorLaws(c, k->w->by_s, k->w->by_z, (round ? 1 : 10) * PB_CONDENSED_DELTA)) return false;
    grown[round] = c->log_det;
  }

  *deficiency = (int)lround((grown[0] - grown[1]) / pbLog(10));
  return true;
}

// In the condensed form, as in vjp.c. False where this does not lead to the end.
static bool solve_condensed(Cones *k, pbLcpAdjointReport *report) {
  pbInterior *in = &k->w->base.interior;
  pbCondensed *c = &k->w->base.condensed;
  int m = k->w->base.reduced.m;
  double first = 0, rest = INFINITY, last;
  int deficiency;
  if (!factor_condensed(k, &deficiency)) return false;

  for (int round = 0; round < 8; round++) {
    last = rest;
    rest = residual_condensed(k, in->r);
    if (!round) first = rest;
    if (rest <= 1e-13 * first || !(rest < .5 * last)) break;

    pbCondensed_SolveT(c, in->r);
    for (int i = 0; i < m; i++) {
      if (k->w->state[i / 3] != pb_contactOpen) k->multiplier[i] += in->r[i];
    }
    update_velocities(k);
  }

  // Singular where contacts are redundant: the condition is of what is not.
  report->deficiency = deficiency;
  report->condition = fmax(k->w->base.reduced.condition, pbCondensed_Condition(c, in->r, in->t));
  report->residual = first > 0 ? rest / first : 0;

  return report->residual <= 1e-6;
}

// (W (dc/ds)' + (dc/dz)') w = what is left; a second round takes the rounding out.
static void solve_dense(Cones *k, pbLcpAdjointReport *report) {
  const pbReduced *r = &k->w->base.reduced;
  pbInterior *in = &k->w->base.interior;
  int n = k->count;
  PB_ASSERT(n > 0);
  in->cod.n = n;

  // Column b: what its multiplier does to every row.
  for (int b = 0; b < n; b++) {
    int c = k->rows[b] / 3, row = k->rows[b] % 3;
    Law l = law_at(k, c);

    for (int a = 0; a < n; a++) {
      double *to = in->cod.A + (size_t)b * (size_t)n + a;
      *to = pbDense_Dot(r->M + (size_t)k->rows[a] * (size_t)r->m + 3 * c, l.by_s[row], 3);
      if (k->rows[a] / 3 == c) *to += l.by_z[row][k->rows[a] % 3];
    }
  }

  pbDenseCod_Factor(&in->cod, SINGULAR);

  double first = 0, rest = 0;

  // As often as in vjp.c.
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < n; i++) in->r[i] = row_residual(k, k->rows[i]);
    if (!round) first = pbDense_MaxAbs(in->r, n);
    pbDenseCod_Solve(&in->cod, in->r, in->t);
    for (int i = 0; i < n; i++) k->multiplier[k->rows[i]] += in->r[i];
    update_velocities(k);
  }

  for (int i = 0; i < n; i++) rest = fmax(rest, fabs(row_residual(k, k->rows[i])));
  report->deficiency = n - in->cod.rank;
  report->condition = fmax(r->condition, in->cod.condition);
  report->residual = first > 0 ? rest / first : 0;
}

static void begin_adjoint(Cones *k, pbLcpAdjointReport *report) {
  report->degenerate = 0;
  find_states(k, report);
  report->condition = k->w->base.reduced.condition;
  memset(k->multiplier, 0, sizeof *k->multiplier * (size_t)k->a.l->m);
  update_velocities(k);
}

static void solve_adjoint(Cones *k, pbLcpAdjointReport *report) {
  pbLcpWork *w = &k->w->base;
  pbCondensed_Make(&w->condensed, &w->reduced, k->a.l, 3);
  begin_adjoint(k, report);
  if (!k->count || (w->condensed.pays && solve_condensed(k, report))) return;

  // Dense, from the beginning: scales are exact now.
  pbReduced_Matrices(&w->reduced, k->a.l);
  begin_adjoint(k, report);
  solve_dense(k, report);
}

pbStatus pbCones_Vjp(pbContext *ctx, const pbCones *p, const pbLcpSolution *at, const pbLcpCotangent *cotangent, void *work,
                     size_t work_size, const pbConesBar *bar, pbLcpAdjointReport *report) {
  pbLcpAdjointReport own;
  if (!report) report = &own;
  *report = (pbLcpAdjointReport){.condition = 1};
  pbConesWork w;
  PB_TRY(pbConesWork_Begin(ctx, p, work, work_size, &w));
  pbLcp l = pbCones_Linear(p);
  PB_TRY(pbLcpAdjoint_Check(ctx, &l, at, cotangent));

  int row;
  pbStatus status = pbReduced_Begin(&w.base.reduced, &l, &row);
  if (status) return pbContext_Fail(ctx, status, "LCP: Q is not positive definite (row %d)", row);
  Cones k = {{&l, at, cotangent, &w.base, w.base.x, w.base.y, w.base.z}, &w, p->mu, w.step, w.base.interior.rows, 0};
  solve_adjoint(&k, report);

  pbLcpBar linear = {.Q = bar->Q, .p = bar->p, .G = bar->G, .h = bar->h, .A = bar->A, .b = bar->b};

  // As of the linear problem, then friction.
  PB_TRY(pbLcpAdjoint_HandOut(ctx, &k.a, &linear));

  if (!bar->mu) return pb_ok;
  for (int c = 0; c < p->contacts; c++) {
    Law of = law_at(&k, c);
    for (int i = 0; i < 3; i++) bar->mu[c] -= k.multiplier[3 * c + i] * of.by_mu[i];
  }

  return pb_ok;
}
