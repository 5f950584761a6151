#include "solve/newton.h"

#include "contact/row.h"

// ---- row potentials -------------------------------------------------------------------------------------------------
// Each: cost, force f = -ds/dx, Hessian K (if not NULL, zero on entry) at x, and the zone (active set).
typedef struct at_x {
  const num *x;
  num *f, *K;
  int zone;
} at_x;

// 1/2 D x^2 on every row.
static num quadratic(const NUM(pbRow) *r, at_x *p) {
  num cost = 0;
  for (int k = 0; k < r->dim; k++) {
    p->f[k] = -r->D[k] * p->x[k];
    cost += 0.5 * r->D[k] * p->x[k] * p->x[k];
    if (p->K) p->K[k * r->dim + k] = r->D[k];
  }
  p->zone = 1;
  return cost;
}

// Huber: quadratic within R eta, linear beyond.
static num friction_loss(const NUM(pbRow) *r, at_x *p) {
  num x = p->x[0], edge = r->R[0] * r->loss;
  if (re(x) > -re(edge) && re(x) < re(edge)) return quadratic(r, p);
  double sign = re(x) > 0 ? 1 : -1;
  p->zone = re(x) > 0 ? 2 : 3;
  p->f[0] = -sign * r->loss;
  return r->loss * (sign * x - 0.5 * edge);
}

static num no_force(const NUM(pbRow) *r, at_x *p) {
  p->zone = 0;
  for (int k = 0; k < r->dim; k++) p->f[k] = 0;
  return 0;
}

static num one_sided(const NUM(pbRow) *r, at_x *p) { return re(p->x[0]) < 0 ? quadratic(r, p) : no_force(r, p); }

// Edges normal +- mu_k tangent_k, each one-sided.
static num pyramid(const num *mu, const NUM(pbRow) *r, at_x *p) {
  int n = r->dim, zone = 0;
  num D = r->D[0], cost = 0, *f = p->f, *K = p->K;
  for (int k = 0; k < n; k++) f[k] = 0;
  for (int k = 1; k < n; k++) {
    for (int s = 0; s < 2; s++) {
      num m = s ? -mu[k - 1] : mu[k - 1], x = p->x[0] + m * p->x[k];
      if (!(re(x) < 0)) continue;
      zone |= 1 << (2 * (k - 1) + s);
      cost += 0.5 * D * x * x;
      f[0] -= D * x;
      f[k] -= D * m * x;
      if (!K) continue;
      K[0] += D;
      K[k] += D * m;
      K[k * n] += D * m;
      K[k * n + k] += D * m * m;
    }
  }
  p->zone = zone;
  return cost;
}

// Smooth cone, three zones; N = mu x0, T = |friction_j x_j|.
static num cone(const num *friction, const NUM(pbRow) *r, at_x *p) {
  int n = r->dim;
  num mu = r->mu, N = mu * p->x[0], U[6], T2 = 0, T = 0;
  for (int k = 1; k < n; k++) {
    U[k] = friction[k - 1] * p->x[k];
    T2 += U[k] * U[k];
  }
  if (re(T2) > 0) T = num_sqrt(T2);
  if (re(N) >= re(mu) * re(T) || (re(T) <= 0 && re(N) >= 0)) return no_force(r, p);
  if (re(mu) * re(N) + re(T) <= 0 || (re(T) <= 0 && re(N) < 0)) {
    num cost = quadratic(r, p);
    p->zone = 2;
    return cost;
  }
  p->zone = 1;  // middle: 1/2 Dm (N - mu T)^2
  num Dm = r->D[0] / (mu * mu * (1 + mu * mu)), e = N - mu * T, g[6];
  g[0] = mu;
  for (int k = 1; k < n; k++) g[k] = -mu * friction[k - 1] * U[k] / T;
  for (int k = 0; k < n; k++) p->f[k] = -Dm * e * g[k];
  for (int i = 0; p->K && i < n; i++) {
    for (int j = 0; j < n; j++) {
      num h = Dm * g[i] * g[j];
      if (i && j) {
        num curve = ((i == j ? 1 : 0) - U[i] * U[j] / T2) / T;
        h -= Dm * e * mu * friction[i - 1] * friction[j - 1] * curve;
      }
      p->K[i * n + j] = h;
    }
  }
  return 0.5 * Dm * e * e;
}

static num potential(const NUM(pbWork) *w, const NUM(pbRow) *r, at_x *p) {
  if (p->K) memset(p->K, 0, sizeof(num) * (size_t)(r->dim * r->dim));
  switch (r->kind) {
    case pb_rowEquality: return quadratic(r, p);
    case pb_rowFriction: return friction_loss(r, p);
    case pb_rowLimit: return one_sided(r, p);
    default:
      if (r->dim == 1) return one_sided(r, p);
      if (w->m->cone == pb_coneElliptic) return cone(w->contact[r->id].friction, r, p);
      return pyramid(w->contact[r->id].friction, r, p);
  }
}

num NUM(pbRow_Evaluate)(const NUM(pbWork) *w, NUM(pbRow) *r) {
  at_x p = {r->x, r->f, r->K, 0};
  num cost = potential(w, r, &p);
  r->zone = p.zone;
  return cost;
}

// ---- H = M + J'KJ ---------------------------------------------------------------------------------------------------
// Does H fit the pattern of M? Otherwise join the branches that rows couple.
static void layout(NUM(pbWork) *w) {
  const pbTreePattern *M = &w->t->M;
  pbTreePattern *H = &w->H;
  bool cross = false;
  memcpy(H->parent, M->parent, (size_t)M->n * sizeof(int));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    const int *dofs = w->row_dofs + r->dofs;
    for (int i = r->n - 1; i > 0; i--) {
      int up = dofs[i];
      while (up > dofs[i - 1]) up = M->parent[up];
      if (up == dofs[i - 1]) continue;
      cross = true;
      NUM(pbTree_Join)(H->parent, dofs[i], dofs[i - 1]);
    }
  }
  w->need_cross = cross;
  NUM(pbTree_Layout)(H);
}

static void copy_mass(NUM(pbWork) *w) {
  const pbTreePattern *M = &w->t->M, *H = &w->H;
  if (!w->need_cross) {
    memcpy(w->H_LD, w->M, (size_t)M->size * sizeof(num));
    return;
  }
  memset(w->H_LD, 0, (size_t)H->size * sizeof(num));
  for (int i = 0; i < M->n; i++) {
    for (int a = 0; a <= M->depth[i]; a++) w->H_LD[H->adr[i] + H->depth[M->chain[M->adr[i] + a]]] = w->M[M->adr[i] + a];
  }
}

// H += J'KJ of one row.
static void add_row(NUM(pbWork) *w, const NUM(pbRow) *r) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;
  int n = r->n, dim = r->dim;
  for (int i = 0; i < n; i++) {
    num KJ[6];
    for (int k = 0; k < dim; k++) {
      num s = 0;
      for (int l = 0; l < dim; l++) s += r->K[k * dim + l] * J[l * n + i];
      KJ[k] = s;
    }
    num *row = w->H_LD + w->H.adr[dofs[i]];
    for (int j = 0; j <= i; j++) {
      num s = 0;
      for (int k = 0; k < dim; k++) s += KJ[k] * J[k * n + j];
      row[w->H.depth[dofs[j]]] += s;
    }
  }
}

pbStatus NUM(pbSolve_Factor)(NUM(pbWork) *w) {
  copy_mass(w);
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->zone) add_row(w, r);
  }
  return NUM(pbTree_Factor)(&w->H, w->H_LD, w->H_Dinv) < 0 ? pb_ok : pb_singular;
}

// ---- Newton ---------------------------------------------------------------------------------------------------------
static void row_times(const NUM(pbWork) *w, const NUM(pbRow) *r, const num *v, num *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;
  for (int k = 0; k < r->dim; k++, J += r->n) {
    num s = 0;
    for (int i = 0; i < r->n; i++) s += J[i] * v[dofs[i]];
    out[k] = s;
  }
}

// x = J a - aref of every row
static void set_residuals(NUM(pbWork) *w, const num *a) {
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    row_times(w, r, a, r->x);
    for (int i = 0; i < r->dim; i++) r->x[i] -= r->aref[i];
  }
}

// Evaluate all rows; returns their cost. changed: some zone is another than before.
static num evaluate(NUM(pbWork) *w, bool *changed) {
  num cost = 0;
  *changed = false;
  for (int k = 0; k < w->nrow; k++) {
    int before = w->row[k].zone;
    cost += NUM(pbRow_Evaluate)(w, w->row + k);
    *changed |= w->row[k].zone != before;
  }
  return cost;
}

static void constraint_force(NUM(pbWork) *w) {
  memset(w->qfrc_constraint, 0, (size_t)w->m->nv * sizeof(num));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    const int *dofs = w->row_dofs + r->dofs;
    const num *J = w->row_J + r->J;
    for (int l = 0; l < r->dim; l++, J += r->n) {
      for (int i = 0; i < r->n; i++) w->qfrc_constraint[dofs[i]] += J[i] * r->f[l];
    }
  }
}

// grad = M a - qfrc_smooth - J'f; returns its largest entry relative to the largest of its terms.
static double gradient(NUM(pbWork) *w) {
  double size = 1e-300, worst = 0;
  constraint_force(w);
  for (int i = 0; i < w->m->nv; i++) {
    w->grad[i] = w->Ma[i] - w->qfrc_smooth[i] - w->qfrc_constraint[i];
    size = fmax(size, fmax(fabs(re(w->Ma[i])), fmax(fabs(re(w->qfrc_smooth[i])), fabs(re(w->qfrc_constraint[i])))));
    worst = fmax(worst, fabs(re(w->grad[i])));
  }
  return worst / size;
}

#if !PB_IS_COMPLEX

static double dot(const double *a, const double *b, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

// Slope and curvature of the cost along the step, at distance alpha.
static void along(const NUM(pbWork) *w, double alpha, const double gauss[2], double *slope, double *curve) {
  double x[6], f[6], K[36];
  *slope = gauss[0] + alpha * gauss[1];
  *curve = gauss[1];
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    at_x p = {x, f, K, 0};
    for (int i = 0; i < r->dim; i++) x[i] = r->x[i] + alpha * r->Jp[i];
    potential(w, r, &p);
    if (!p.zone) continue;
    for (int i = 0; i < r->dim; i++) {
      *slope -= f[i] * r->Jp[i];
      for (int j = 0; j < r->dim; j++) *curve += r->Jp[i] * K[i * r->dim + j] * r->Jp[j];
    }
  }
}

// Minimum of the cost along the step: Newton on the slope inside a bracket.
static double line_search(NUM(pbWork) *w, int limit) {
  int nv = w->m->nv;
  double gauss[2] = {0, dot(w->step, w->Mstep, nv)}, slope, curve, lo = 0, hi = INFINITY, alpha = 1, first;
  for (int i = 0; i < nv; i++) gauss[0] += w->step[i] * (w->Ma[i] - w->qfrc_smooth[i]);
  for (int k = 0; k < w->nrow; k++) row_times(w, w->row + k, w->step, w->row[k].Jp);
  first = fabs(dot(w->step, w->grad, nv));
  for (int it = 0; it < limit; it++) {
    along(w, alpha, gauss, &slope, &curve);
    if (fabs(slope) <= 1e-12 * first || !(curve > 0)) break;
    if (slope > 0) hi = alpha;
    else lo = alpha;
    double next = alpha - slope / curve;
    if (next <= lo || next >= hi) next = isinf(hi) ? 2 * alpha : 0.5 * (lo + hi);
    if (fabs(next - alpha) <= 1e-14 * alpha) break;
    alpha = next;
  }
  return alpha;
}

// Cost of the Gauss term at a: 1/2 (a - a0)' M (a - a0), with Ma known.
static double gauss_cost(const NUM(pbWork) *w, const double *a) {
  double s = 0;
  for (int i = 0; i < w->m->nv; i++) s += 0.5 * (w->Ma[i] - w->qfrc_smooth[i]) * (a[i] - w->qacc_smooth[i]);
  return s;
}

// Start from the better of the warm start and the unconstrained acceleration: qacc, Ma and the rows there.
static void choose_start(NUM(pbWork) *w) {
  size_t bytes = (size_t)w->m->nv * sizeof(double);
  bool changed, cold_only = w->m->disableflags & pb_dsblWarmstart;
  memcpy(w->qacc, w->qacc_smooth, bytes);
  set_residuals(w, w->qacc);
  double cold = evaluate(w, &changed);
  if (!cold_only) {
    NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc_warmstart, w->Ma);
    set_residuals(w, w->qacc_warmstart);
    double warm = evaluate(w, &changed) + gauss_cost(w, w->qacc_warmstart);
    if (warm <= cold) {
      memcpy(w->qacc, w->qacc_warmstart, bytes);
      return;
    }
    set_residuals(w, w->qacc);
    evaluate(w, &changed);
  }
  memcpy(w->Ma, w->qfrc_smooth, bytes);
}

// Rows without curvature of their own: one full step within an unchanged active set is exact.
static bool piecewise_quadratic(const NUM(pbWork) *w) {
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].kind == pb_rowContact && w->row[k].dim > 1 && w->m->cone == pb_coneElliptic && w->row[k].zone == 1)
      return false;
  }
  return true;
}

// The solution is known: rows, forces and the factor there.
static pbStatus at_solution(NUM(pbWork) *w) {
  bool changed;
  memcpy(w->qacc, w->qacc_warmstart, (size_t)w->m->nv * sizeof(double));
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  set_residuals(w, w->qacc);
  evaluate(w, &changed);
  layout(w);
  w->iterations = 0;
  w->residual = gradient(w);
  return NUM(pbSolve_Factor)(w);
}

static pbStatus newton(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  bool changed, exact = false;
  double tolerance = m->tolerance > 1e-15 ? m->tolerance : 1e-15, before = INFINITY;
  int limit = m->iterations > 0 ? m->iterations : 100, stalled = 0;
  if (w->replay) return at_solution(w);
  choose_start(w);
  layout(w);
  for (w->iterations = 0;; w->iterations++) {
    w->residual = gradient(w);
    stalled = w->residual < 1e-10 && w->residual > 0.5 * before ? stalled + 1 : 0;
    before = w->residual;
    if (w->residual <= tolerance || exact || stalled > 1 || w->iterations >= limit) return pb_ok;
    PB_TRY(NUM(pbSolve_Factor)(w));
    for (int i = 0; i < m->nv; i++) w->step[i] = -w->grad[i];
    NUM(pbTree_Solve)(&w->H, w->H_LD, w->H_Dinv, w->step);
    NUM(pbTree_Mul)(&m->topology->M, w->M, w->step, w->Mstep);
    double alpha = line_search(w, m->ls_iterations > 0 ? m->ls_iterations : 50);
    for (int i = 0; i < m->nv; i++) w->qacc[i] += alpha * w->step[i], w->Ma[i] += alpha * w->Mstep[i];
    set_residuals(w, w->qacc);
    evaluate(w, &changed);
    exact = !changed && alpha == 1 && piecewise_quadratic(w);
  }
}

#else

// The real solution is given; one Newton step in complex numbers carries the derivative (implicit function theorem),
// with the active set of the solution.
static pbStatus newton(NUM(pbWork) *w) {
  bool changed;
  memcpy(w->qacc, w->qacc_warmstart, (size_t)w->m->nv * sizeof(num));
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  set_residuals(w, w->qacc);
  evaluate(w, &changed);
  layout(w);
  w->residual = gradient(w);
  PB_TRY(NUM(pbSolve_Factor)(w));
  for (int i = 0; i < w->m->nv; i++) w->step[i] = num_make(0, -im(w->grad[i]));
  NUM(pbTree_Solve)(&w->H, w->H_LD, w->H_Dinv, w->step);
  for (int i = 0; i < w->m->nv; i++) w->qacc[i] += num_make(0, im(w->step[i]));
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  set_residuals(w, w->qacc);
  evaluate(w, &changed);
  constraint_force(w);
  return pb_ok;
}

#endif

void NUM(pbSolve_Pattern)(NUM(pbWork) *w) { layout(w); }

pbStatus NUM(pbSolve_Complete)(NUM(pbWork) *w) {
  layout(w);
  return NUM(pbSolve_Factor)(w);
}

pbStatus NUM(pbStage_Solve)(NUM(pbWork) *w) {
  if (w->nrow) return newton(w);
  size_t bytes = (size_t)w->m->nv * sizeof(num);
  memset(w->qfrc_constraint, 0, bytes);
  memcpy(w->Ma, w->qfrc_smooth, bytes);
  w->iterations = 0, w->residual = 0;
  if (!w->replay || PB_IS_COMPLEX) {
    memcpy(w->qacc, w->qacc_smooth, bytes);
    return pb_ok;
  }
  memcpy(w->qacc, w->qacc_warmstart, bytes);  // the solution as it was found
  layout(w);
  return NUM(pbSolve_Factor)(w);
}
