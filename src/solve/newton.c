#include "solve/newton.h"

#include "contact/potential.h"
#include "contact/row.h"
#include "linalg/vector.h"
#include "solve/dual.h"

// ---- row potentials -------------------------------------------------------------------------------------------------
// Each: cost, force f = -ds/dx, Hessian K (if not NULL; not where the zone is 0) at x, and the zone (active set).
typedef struct at_x {
  const num *x;
  num *f, *K;
  int zone;
} at_x;

// 1/2 D x^2 on every row.
static num quadratic(const NUM(pbRow) *r, at_x *p) {
  num cost = 0;
  if (p->K && r->dim > 1) memset(p->K, 0, sizeof(num) * (size_t)(r->dim * r->dim));
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
  if (p->K) p->K[0] = 0;
  return r->loss * (sign * x - 0.5 * edge);
}

static num no_force(const NUM(pbRow) *r, at_x *p) {
  p->zone = 0;
  for (int k = 0; k < r->dim; k++) p->f[k] = 0;
  return 0;
}

static num one_sided(const NUM(pbRow) *r, double kappa, at_x *p) {
  num phi, slope;
  if (!pb_side(p->x[0], kappa, &phi, &slope)) return no_force(r, p);
  p->f[0] = r->D[0] * phi;
  if (p->K) p->K[0] = r->D[0] * slope;
  p->zone = 1;
  return pb_side_cost(re(p->x[0]), re(r->D[0]), kappa);
}

// Edges normal +- mu_k tangent_k, each one-sided.
static num pyramid(const num *mu, const NUM(pbRow) *r, double kappa, at_x *p) {
  int n = r->dim, zone = 0;
  num D = r->D[0], cost = 0, *f = p->f, *K = p->K;
  for (int k = 0; k < n; k++) f[k] = 0;
  for (int k = 0; K && k < n * n; k++) K[k] = 0;
  for (int k = 1; k < n; k++) {
    for (int s = 0; s < 2; s++) {
      num m = s ? -mu[k - 1] : mu[k - 1], x = p->x[0] + m * p->x[k], phi, slope;
      if (!pb_side(x, kappa, &phi, &slope)) continue;
      zone |= 1 << (2 * (k - 1) + s);
      cost += pb_side_cost(re(x), re(D), kappa);
      f[0] += D * phi;
      f[k] += D * m * phi;
      if (!K) continue;
      num curve = D * slope;
      K[0] += curve;
      K[k] += curve * m;
      K[k * n] += curve * m;
      K[k * n + k] += curve * m * m;
    }
  }
  p->zone = zone;
  return cost;
}

// The cone smoothed: one zone.
static num smooth_cone(const num *friction, const NUM(pbRow) *r, double kappa, at_x *p) {
  double T = 0, mu = re(r->mu), c = sqrt(1 + mu * mu), D = re(r->D[0]);
  NUM(pbCone_Smooth)(r->dim, p->x, r->D[0], r->mu, friction, kappa, p->f, p->K);
  for (int k = 1; k < r->dim; k++) T += re(friction[k - 1] * p->x[k]) * re(friction[k - 1] * p->x[k]);
  T = sqrt(T);
  p->zone = 1;
  return pb_side_cost((re(p->x[0]) - T) / c, D, kappa) + pb_side_cost((mu * re(p->x[0]) + T / mu) / c, D, mu * mu * kappa);
}

// The cone, three zones; N = mu x0, T = |friction_j x_j|.
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

// -f . x: a force that was given.
static num linear(const NUM(pbRow) *r, at_x *p) {
  num cost = 0;
  if (p->K) memset(p->K, 0, sizeof(num) * (size_t)(r->dim * r->dim));
  for (int k = 0; k < r->dim; k++) {
    p->f[k] = r->f[k];
    cost -= r->f[k] * p->x[k];
  }
  p->zone = re(r->f[0]) > 0;
  return cost;
}

static num potential(const NUM(pbWork) *w, const NUM(pbRow) *r, at_x *p) {
  double kappa = w->m->contact.kappa;
  if (pb_explicit(w->m, r)) return linear(r, p);
  switch (r->kind) {
    case pb_rowEquality: return quadratic(r, p);
    case pb_rowFriction: return friction_loss(r, p);
    case pb_rowLimit: return one_sided(r, kappa, p);
    default: {
      const num *friction = w->contact[r->id].friction;
      if (r->dim == 1) return one_sided(r, kappa, p);
      if (w->m->cone != pb_coneElliptic) return pyramid(friction, r, kappa, p);
      return kappa > 0 ? smooth_cone(friction, r, kappa, p) : cone(friction, r, p);
    }
  }
}

num NUM(pbRow_Evaluate)(const NUM(pbWork) *w, NUM(pbRow) *r) {
  at_x p = {r->x, r->f, r->K, 0};
  num cost = potential(w, r, &p);
  r->zone = p.zone;
  return cost;
}

// ---- H = M + J'KJ ---------------------------------------------------------------------------------------------------
// Do the dofs stand side by side at the end of the last one's row?
static inline bool on_chain(const pbTreePattern *tree, const int *dofs, int n) {
  int last = dofs[n - 1], before = tree->depth[last] + 1 - n;
  return before >= 0 && memcmp(dofs, tree->chain + tree->adr[last] + before, (size_t)n * sizeof(int)) == 0;
}

// The slope of the further potential at a, by dof i.
static num couple_slope(const NUM(pbWork) *w, const num *a, int i) {
  int nv = w->m->nv;
  num sum = w->couple_g[i];
  for (int k = 0; k < nv; k++) sum += w->couple_S[i * nv + k] * (a[k] - w->couple_at[k]);
  return sum;
}

// The pattern of H: that of M if it fits, otherwise with the branches joined that rows couple.
static void layout(NUM(pbWork) *w) {
  const pbTreePattern *M = &w->t->M;
  w->need_cross = false;
  w->H = *M;
  if (w->couple_S) {  // all dofs are one chain
    for (int i = 0; i < M->n; i++) w->joined.parent[i] = i - 1;
    w->need_cross = true;
    NUM(pbTree_Layout)(&w->joined);
    w->H = w->joined;
    return;
  }
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    const int *dofs = w->row_dofs + r->dofs;
    if (pb_explicit(w->m, r) || on_chain(M, dofs, r->n)) continue;
    for (int i = r->n - 1; i > 0; i--) {
      int up = dofs[i];
      while (up > dofs[i - 1]) up = M->parent[up];
      if (up == dofs[i - 1]) continue;
      if (!w->need_cross) memcpy(w->joined.parent, M->parent, (size_t)M->n * sizeof(int));
      w->need_cross = true;
      NUM(pbTree_Join)(w->joined.parent, dofs[i], dofs[i - 1]);
    }
  }
  if (!w->need_cross) return;
  NUM(pbTree_Layout)(&w->joined);
  w->H = w->joined;
}

static void copy_mass(NUM(pbWork) *w) {
  const pbTreePattern *M = &w->t->M, *H = &w->H;
  if (!w->need_cross) {
    memcpy(w->H_LD, w->M, (size_t)M->size * sizeof(num));
    return;
  }
  memset(w->H_LD, 0, (size_t)H->size * sizeof(num));
  for (int i = 0; i < M->n; i++) {
    const num *from = w->M + M->adr[i];
    num *to = w->H_LD + H->adr[i];
    const int *chain = M->chain + M->adr[i];
    for (int a = 0; a <= M->depth[i]; a++) to[H->depth[chain[a]]] = from[a];
    for (int k = 0; w->couple_S && k <= i; k++) to[H->depth[k]] += w->couple_S[i * M->n + k];
  }
}

// H += J'KJ of one row; its dofs stand side by side or not.
PB_COPIES void add_row(int dim, bool aligned, NUM(pbWork) *w, const NUM(pbRow) *r) {
  const int *dofs = w->row_dofs + r->dofs, *depth = w->H.depth;
  const num *J = w->row_J + r->J;
  int n = r->n, before = depth[dofs[n - 1]] + 1 - n;
  for (int i = 0; i < n; i++) {
    num KJ[6], *row = w->H_LD + w->H.adr[dofs[i]];
    int j = 0;
    for (int k = 0; k < dim; k++) {
      KJ[k] = 0;
      for (int l = 0; l < dim; l++) KJ[k] += r->K[k * dim + l] * J[l * n + i];
    }
    for (; aligned && j + PB_WIDTH <= i + 1; j += PB_WIDTH) {
      pbVector v = *vec_in(row + before + j), s = KJ[0] * *vec_in(J + j);
      for (int k = 1; k < dim; k++) s += KJ[k] * *vec_in(J + k * n + j);
      *vec_at(row + before + j) = v + s;
    }
    for (; j <= i; j++) {
      num s = KJ[0] * J[j];
      for (int k = 1; k < dim; k++) s += KJ[k] * J[k * n + j];
      row[aligned ? before + j : depth[dofs[j]]] += s;
    }
  }
}

static void add_curvature(NUM(pbWork) *w, const NUM(pbRow) *r) {
  const int *dofs = w->row_dofs + r->dofs;
  if (r->n == 1 && r->dim == 1) {
    num J = w->row_J[r->J];
    w->H_LD[w->H.adr[dofs[0]] + w->H.depth[dofs[0]]] += r->K[0] * J * J;
  } else if (!on_chain(&w->H, dofs, r->n)) {
    add_row(r->dim, false, w, r);
  } else if (r->dim == 3) {
    add_row(3, true, w, r);
  } else if (r->dim == 1) {
    add_row(1, true, w, r);
  } else {
    add_row(r->dim, true, w, r);
  }
}

pbStatus NUM(pbSolve_Factor)(NUM(pbWork) *w) {
  copy_mass(w);
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    r->held = r->zone;
    if (r->zone && !pb_explicit(w->m, r)) add_curvature(w, r);
  }
  return NUM(pbTree_Factor)(&w->H, w->H_LD, w->H_Dinv) < 0 ? pb_ok : pb_singular;
}

// ---- Newton ---------------------------------------------------------------------------------------------------------
// x = J a - aref of every row
static void set_residuals(NUM(pbWork) *w, const num *a) {
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    NUM(pbRow_Times)(w, r, a, r->x);
    for (int i = 0; i < r->dim; i++) r->x[i] -= r->aref[i];
  }
}

// Rows at the acceleration a; returns their cost.
static num evaluate(NUM(pbWork) *w, const num *a) {
  num cost = 0;
  set_residuals(w, a);
  for (int k = 0; k < w->nrow; k++) cost += NUM(pbRow_Evaluate)(w, w->row + k);
  return cost;
}

static void constraint_force(NUM(pbWork) *w) {
  memset(w->qfrc_constraint, 0, (size_t)w->m->nv * sizeof(num));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->zone) NUM(pbRow_AddForce)(w, r, r->f, w->qfrc_constraint);
  }
}

static inline double larger(double a, double b) { return b > a ? b : a; }

// grad = M a - qfrc_smooth - J'f; returns its largest entry relative to the largest of its terms.
static double gradient(NUM(pbWork) *w) {
  double size = 1e-300, worst = 0;
  constraint_force(w);
  for (int i = 0; i < w->m->nv; i++) {
    num Ma = w->Ma[i], smooth = w->qfrc_smooth[i], force = w->qfrc_constraint[i], g = Ma - smooth - force;
    if (w->couple_S) g += couple_slope(w, w->qacc, i);
    w->grad[i] = g;
    size = larger(larger(size, fabs(re(Ma))), larger(fabs(re(smooth)), fabs(re(force))));
    worst = larger(worst, fabs(re(g)));
  }
  return worst / size;
}

// H at the rows as they are.
static pbStatus factor_here(NUM(pbWork) *w) {
  layout(w);
  w->factor_current = true;
  return NUM(pbSolve_Factor)(w);
}

// At the known solution (qacc_warmstart): rows, M qacc, gradient and factor.
static pbStatus at_solution(NUM(pbWork) *w) {
  memcpy(w->qacc, w->qacc_warmstart, (size_t)w->m->nv * sizeof(num));
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  evaluate(w, w->qacc);
  w->iterations = 0;
  w->residual = gradient(w);
  return factor_here(w);
}

#if !PB_IS_COMPLEX

// Is the factor of H the one at the rows' zones, and H constant within them?
static bool factor_holds(const NUM(pbWork) *w) {
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    bool curved = pb_elliptic(w->m, r) && r->zone == 1;
    curved |= w->m->contact.kappa > 0 && (r->kind == pb_rowContact || r->kind == pb_rowLimit);
    curved &= !pb_explicit(w->m, r);
    if (curved || r->zone != r->held) return false;
  }
  return true;
}

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
  NUM(pbTree_Mul)(&w->t->M, w->M, w->step, w->Mstep);
  double gauss[2] = {0, dot(w->step, w->Mstep, nv)}, slope, curve, lo = 0, hi = INFINITY, alpha = 1, first;
  for (int i = 0; i < nv; i++) gauss[0] += w->step[i] * (w->Ma[i] - w->qfrc_smooth[i]);
  for (int i = 0; w->couple_S && i < nv; i++) {
    gauss[0] += w->step[i] * couple_slope(w, w->qacc, i);
    for (int k = 0; k < nv; k++) gauss[1] += w->step[i] * w->couple_S[i * nv + k] * w->step[k];
  }
  for (int k = 0; k < w->nrow; k++) NUM(pbRow_Times)(w, w->row + k, w->step, w->row[k].Jp);
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

// The cost at no acceleration, but for a constant.
static double cost_at_rest(const NUM(pbWork) *w) {
  double cost = 0, x[6], f[6];
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    at_x p = {x, f, NULL, 0};
    for (int i = 0; i < r->dim; i++) x[i] = -r->aref[i];
    cost += potential(w, r, &p);
  }
  return cost;
}

// The cost at a, but for the same constant. Ma, if there is one, and the rows are left there.
static double cost_at(NUM(pbWork) *w, const double *a) {
  double cost = evaluate(w, a);
  NUM(pbTree_Mul)(&w->t->M, w->M, a, w->Ma);
  for (int i = 0; i < w->m->nv; i++) cost += (0.5 * w->Ma[i] - w->qfrc_smooth[i]) * a[i];
  for (int i = 0; w->couple_S && i < w->m->nv; i++)
    cost += 0.5 * (w->couple_g[i] + couple_slope(w, a, i)) * (a[i] - w->couple_at[i]);
  return cost;
}

// Start from the warm start if that is better than no acceleration, which costs no factor of M to see; otherwise from the
// unconstrained acceleration: qacc, Ma and the rows there.
static pbStatus choose_start(NUM(pbWork) *w, double *cost) {
  const double *start = w->qacc_warmstart;
  if (w->couple_S) {
    *cost = cost_at(w, start);
  } else if ((w->m->disableflags & pb_dsblWarmstart) || !((*cost = cost_at(w, start)) < cost_at_rest(w))) {
    PB_TRY(NUM(pbSolve_Smooth)(w));
    start = w->qacc_smooth;
    *cost = cost_at(w, start);
  }
  memcpy(w->qacc, start, (size_t)w->m->nv * sizeof(double));
  return pb_ok;
}

// qacc goes to tmp; returns the largest entry of the way relative to the largest acceleration.
static double move(NUM(pbWork) *w) {
  double way = 0, size = 1e-300;
  for (int i = 0; i < w->m->nv; i++) {
    way = larger(way, fabs(w->tmp[i] - w->qacc[i]));
    size = larger(size, fabs(w->tmp[i]));
    w->qacc[i] = w->tmp[i];
  }
  return way / size;
}

// One step, from which the minimum may be known to be reached, and how far it went.
static pbStatus iterate(NUM(pbWork) *w, double *cost, bool *exact, double *moved) {
  const pbModel *m = w->m;
  PB_TRY(NUM(pbSolve_Factor)(w));
  for (int i = 0; i < m->nv; i++) w->step[i] = -w->grad[i];
  NUM(pbTree_Solve)(&w->H, w->H_LD, w->H_Dinv, w->step);
  for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qacc[i] + w->step[i];
  double before = *cost, slope = dot(w->grad, w->step, m->nv);
  *cost = cost_at(w, w->tmp);
  *exact = factor_holds(w);  // the full step within one zone of every row, where the cost is quadratic
  if (!*exact && !(*cost < before + 0.1 * slope)) {
    NUM(pbTree_Mul)(&m->topology->M, w->M, w->qacc, w->Ma);
    set_residuals(w, w->qacc);
    double alpha = line_search(w, m->ls_iterations > 0 ? m->ls_iterations : 50);
    for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qacc[i] + alpha * w->step[i];
    *cost = cost_at(w, w->tmp);
  }
  *moved = move(w);
  return pb_ok;
}

static pbStatus newton(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  bool exact = false;
  double tolerance = m->tolerance > 1e-15 ? m->tolerance : 1e-15, least = INFINITY, cost = 0, moved = INFINITY;
  int limit = m->iterations > 0 ? m->iterations : 100, stalled = 0;
  if (w->replay) return at_solution(w);
  PB_TRY(choose_start(w, &cost));
  layout(w);
  for (w->iterations = 0;; w->iterations++) {
    w->residual = gradient(w);
    // at rounding, or (stiff rows, whose forces cancel) where the acceleration is
    bool fine = w->residual < 1e-10 || moved < 1e-13;
    stalled = fine && w->residual > 0.5 * least ? stalled + 1 : 0;
    if (w->residual < least) least = w->residual;
    if (w->residual <= tolerance || (exact && fine) || stalled > 1 || w->iterations >= limit) break;
    PB_TRY(iterate(w, &cost, &exact, &moved));
  }
  w->factor_current = w->iterations > 0 && factor_holds(w);
  return pb_ok;
}

#else

// The real solution is given; one Newton step in complex numbers carries the derivative (implicit function theorem),
// with the active set of the solution.
static pbStatus newton(NUM(pbWork) *w) {
  PB_TRY(at_solution(w));
  for (int i = 0; i < w->m->nv; i++) w->step[i] = num_make(0, -im(w->grad[i]));
  NUM(pbTree_Solve)(&w->H, w->H_LD, w->H_Dinv, w->step);
  for (int i = 0; i < w->m->nv; i++) w->qacc[i] += num_make(0, im(w->step[i]));
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  evaluate(w, w->qacc);
  constraint_force(w);
  return pb_ok;
}

#endif

void NUM(pbSolve_Pattern)(NUM(pbWork) *w) { layout(w); }

pbStatus NUM(pbSolve_Complete)(NUM(pbWork) *w) { return w->factor_current ? pb_ok : factor_here(w); }

pbStatus NUM(pbSolve_Smooth)(NUM(pbWork) *w) {
  const pbTreePattern *tree = &w->t->M;
  memcpy(w->LD, w->M, (size_t)tree->size * sizeof(num));
  if (NUM(pbTree_Factor)(tree, w->LD, w->Dinv) >= 0) return pb_singular;
  memcpy(w->qacc_smooth, w->qfrc_smooth, (size_t)w->m->nv * sizeof(num));
  NUM(pbTree_Solve)(tree, w->LD, w->Dinv, w->qacc_smooth);
  return pb_ok;
}

pbStatus NUM(pbStage_Solve)(NUM(pbWork) *w) {
  if (w->nrow) return pb_hard(w->m) ? NUM(pbDual_Solve)(w) : newton(w);
  size_t bytes = (size_t)w->m->nv * sizeof(num);
  bool known = w->replay && !PB_IS_COMPLEX;  // the solution as it was found
  memset(w->qfrc_constraint, 0, bytes);
  memcpy(w->Ma, w->qfrc_smooth, bytes);
  w->iterations = 0, w->residual = 0;
  memcpy(w->qacc, known ? w->qacc_warmstart : w->qfrc_smooth, bytes);
  PB_TRY(factor_here(w));
  for (int i = 0; w->couple_S && !known && i < w->m->nv; i++) {
    w->qacc[i] -= w->couple_g[i];
    for (int k = 0; k < w->m->nv; k++) w->qacc[i] += w->couple_S[i * w->m->nv + k] * w->couple_at[k];
  }
  if (!known) NUM(pbTree_Solve)(&w->H, w->H_LD, w->H_Dinv, w->qacc);
  if (w->couple_S) NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  return pb_ok;
}

#if !PB_IS_COMPLEX
double NUM(pbSolve_Cost)(NUM(pbWork) *w, const double *a, double *grad) {
  const double *S = w->couple_S;
  w->couple_S = NULL;
  double cost = cost_at(w, a);
  constraint_force(w);
  for (int i = 0; i < w->m->nv; i++) grad[i] = w->Ma[i] - w->qfrc_smooth[i] - w->qfrc_constraint[i];
  w->couple_S = S;
  return cost;
}

pbStatus NUM(pbSolve_Again)(NUM(pbWork) *w, double *a) {
  bool replay = w->replay;
  w->replay = false;
  memcpy(w->qacc_warmstart, a, (size_t)w->m->nv * sizeof *a);
  pbStatus status = NUM(pbStage_Solve)(w);
  w->replay = replay;
  memcpy(a, w->qacc, (size_t)w->m->nv * sizeof *a);
  return status;
}
#endif
