// Newton's method on the convex objective of a step (newton.h):
//
//   c(a) = 1/2 a . M a - qfrc_smooth . a + sum over rows of s(J a - aref) + the coupled deformables' quadratic model
//   gradient  M a - qfrc_smooth - J'f(a),   Hessian  H = M + J'K(a) J
//
// Memory. None of its own: everything is in the work (eval/work.h). H has the sparsity of the tree, joined where rows couple
// branches; its pattern is made once a step, when room for it grows if need be, its values and factor (H_LD, H_Dinv) in each
// iteration. The factor at the solution is that of the adjoint, so it is made again only where the last iteration had
// another (factor_current).
//
// How far a step goes. The full step is exact where it stays within one zone of every row, since the cost is quadratic there.
// Where it lowers the cost by a tenth of what its slope promises it is taken; else the minimum along it is searched for, which is
// one, since the cost is convex. At first every step had that search.
//
// Where it begins. At the warm start, if that is better than no acceleration: both costs are had without a factor of M. Only else
// is the acceleration without rows needed, and M factored; at first every step did that.
//
// Where it ends. Unless a tolerance is set, at rounding: derivatives are those of the minimum. It ends where the gradient or,
// among stiff rows whose forces cancel, the acceleration is at rounding and the gradient has not halved twice in a row. At first
// the gradient alone was asked: such rows never came below its limit, and two roundings could alternate until the last iteration.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_step.py.
#include "eval/stages.h"
#include "solve/newton.h"

#include "base/assert.h"
#include "contact/potential.h"
#include "contact/row.h"
#include "eval/work.h"
#include "linalg/vector.h"
#include "solve/dual.h"
#include "solve/noslip.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of this file only

// ---- H = M + J'KJ ---------------------------------------------------------------------------------------------------
// Do the dofs stand side by side at the end of the last one's row?
static inline bool on_chain(const pbTreePattern *tree, const int *dofs, int n) {
  int last = dofs[n - 1];
  int before = tree->depth[last] + 1 - n;
  return before >= 0 && memcmp(dofs, tree->chain + tree->adr[last] + before, (size_t)n * sizeof(int)) == 0;
}

// The slope of the coupled deformables' quadratic model at a, by dof i.
static num couple_slope(const NUM(pbWork) *w, const num *a, int i) {
  int nv = w->m->nv;
  num sum = w->couple_g[i];
  for (int k = 0; k < nv; k++) sum += w->couple_S[i * nv + k] * (a[k] - w->couple_at[k]);
  return sum;
}

// Joins the branches of the tree that a row's dofs (ascending) lie on.
static void join_branches(NUM(pbWork) *w, const int *dofs, int n) {
  const pbTreePattern *M = &w->t->M;
  for (int i = n - 1; i > 0; i--) {
    // Is the dof before this one its ancestor in the tree of M?
    int up = dofs[i];
    while (up > dofs[i - 1]) up = M->parent[up];
    if (up == dofs[i - 1]) continue;

    if (!w->need_cross) memcpy(w->joined.parent, M->parent, (size_t)M->n * sizeof(int));
    w->need_cross = true;
    NUM(pbTree_Join)(w->joined.parent, dofs[i], dofs[i - 1]);
  }
}

static pbStatus lay_out_joined(NUM(pbWork) *w) {
  PB_TRY(NUM(pbWork_ReserveJoined)(w, NUM(pbTree_Entries)(&w->joined)));
  NUM(pbTree_Layout)(&w->joined);
  PB_ASSERT((size_t)w->joined.size <= w->joined_room);
  w->H = w->joined;
  return pb_ok;
}

// The pattern of H: that of M if it fits, otherwise with the branches joined that rows couple.
static pbStatus set_pattern(NUM(pbWork) *w) {
  const pbTreePattern *M = &w->t->M;
  w->need_cross = false;
  w->H = *M;

  // The coupled deformables' model is dense: all dofs are one chain.
  if (w->couple_S) {
    for (int i = 0; i < M->n; i++) w->joined.parent[i] = i - 1;
    w->need_cross = true;
    return lay_out_joined(w);
  }

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    const int *dofs = w->row_dofs + r->dofs;
    if (pb_explicit(w->m, r) || on_chain(M, dofs, r->n)) continue;
    join_branches(w, dofs, r->n);
  }

  return w->need_cross ? lay_out_joined(w) : pb_ok;
}

// Are pivots positive, as those of a definite matrix are?
static bool are_positive(const num *inverse, int n) {
  for (int i = 0; i < n; i++) {
    if (!(re(inverse[i]) > 0)) return false;
  }
  return true;
}

// Do the dofs of every row lie on one chain of H, so that its products find their entries?
static bool pattern_holds(const NUM(pbWork) *w) {
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    const int *dofs = w->row_dofs + r->dofs;
    if (pb_explicit(w->m, r)) continue;
    for (int i = r->n - 1, up = dofs[r->n - 1]; i >= 0; i--) {
      while (up > dofs[i]) up = w->H.parent[up];
      if (up != dofs[i]) return false;
    }
  }
  return true;
}

// Row i of M, from its chain to that of H, which is longer where branches are joined.
static void copy_row(NUM(pbWork) *w, int i) {
  const pbTreePattern *M = &w->t->M;
  const pbTreePattern *H = &w->H;
  const num *from = w->M + M->adr[i];
  num *to = w->H_LD + H->adr[i];
  int last = H->depth[i];
  PB_ASSERT(M->depth[i] <= last);

  // Chains of one length are the same.
  if (M->depth[i] == last) {
    for (int a = 0; a <= last; a += PB_WIDTH) *vec_at(to + a) = *vec_in(from + a);
    return;
  }

  // Else there are gaps between what M has.
  const int *chain = M->chain + M->adr[i];
  for (int a = 0; a <= last; a += PB_WIDTH) *vec_at(to + a) = (pbVector){0};
  for (int a = 0; a <= M->depth[i]; a++) to[H->depth[chain[a]]] = from[a];
}

static void copy_mass(NUM(pbWork) *w) {
  const pbTreePattern *M = &w->t->M;
  const pbTreePattern *H = &w->H;

  if (!w->need_cross) {
    memcpy(w->H_LD, w->M, (size_t)M->size * sizeof(num));
    return;
  }

  for (int i = 0; i < M->n; i++) {
    copy_row(w, i);

    // The deformables' curvature, dense.
    if (!w->couple_S) continue;
    num *to = w->H_LD + H->adr[i];
    for (int k = 0; k <= i; k++) to[H->depth[k]] += w->couple_S[i * M->n + k];
  }
}

// Adds to the entries in the columns of some dofs, as many as a vector holds.
static inline void add_apart(num *row, const int *depth, const int *dofs, pbVector s) {
  int at[PB_WIDTH];
  pbVector v;
  for (int e = 0; e < PB_WIDTH; e++) at[e] = depth[dofs[e]];

  // Mostly they follow each other: of each of the branches joined.
  vec_gather(row, at, &v);
  v += s;
  vec_scatter(&v, row, at);
}

// H += J'KJ of one row, lower triangle; its dofs stand side by side (aligned) or not.
PB_COPIES void add_row(int dim, bool aligned, NUM(pbWork) *w, const NUM(pbRow) *r) {
  const int *dofs = w->row_dofs + r->dofs;
  const int *depth = w->H.depth;
  const num *J = w->row_J + r->J;
  int n = r->n;
  int before = depth[dofs[n - 1]] + 1 - n;
  PB_ASSERT(dim <= 6);

  for (int i = 0; i < n; i++) {
    // Column i of K J.
    num KJ[6];
    for (int k = 0; k < dim; k++) {
      KJ[k] = 0;
      for (int l = 0; l < dim; l++) KJ[k] += r->K[k * dim + l] * J[l * n + i];
    }

    // Its products with columns j <= i of J, some at a time.
    num *row = w->H_LD + w->H.adr[dofs[i]];
    int last = i + 1 - PB_WIDTH;
    int j = 0;
    for (; j <= last; j += PB_WIDTH) {
      pbVector s = KJ[0] * *vec_in(J + j);
      for (int k = 1; k < dim; k++) s += KJ[k] * *vec_in(J + k * n + j);
      if (aligned) *vec_at(row + before + j) += s;
      else add_apart(row, depth, dofs + j, s);
    }
    for (; j <= i; j++) {
      num s = KJ[0] * J[j];
      for (int k = 1; k < dim; k++) s += KJ[k] * J[k * n + j];
      row[aligned ? before + j : depth[dofs[j]]] += s;
    }
  }
}

PB_COPIES void add_placed(int dim, NUM(pbWork) *w, const NUM(pbRow) *r) {
  if (on_chain(&w->H, w->row_dofs + r->dofs, r->n)) add_row(dim, true, w, r);
  else add_row(dim, false, w, r);
}

// The same, by a copy for each of the common sizes.
static void add_curvature(NUM(pbWork) *w, const NUM(pbRow) *r) {
  const int *dofs = w->row_dofs + r->dofs;

  // Friction loss and limits of joints touch one entry.
  if (r->n == 1 && r->dim == 1) {
    num J = w->row_J[r->J];
    w->H_LD[w->H.adr[dofs[0]] + w->H.depth[dofs[0]]] += r->K[0] * J * J;
    return;
  }

  // A limit of a tendon, contacts with friction, those that resist turning.
  switch (r->dim) {
    case 1: add_placed(1, w, r); break;
    case 3: add_placed(3, w, r); break;
    case 4: add_placed(4, w, r); break;
    default: add_placed(r->dim, w, r); break;
  }
}

pbStatus NUM(pbSolve_Factor)(NUM(pbWork) *w) {
  PB_VALIDATE(pattern_holds(w));
  copy_mass(w);
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    r->factor_zone = r->zone;
    if (r->zone && !pb_explicit(w->m, r)) add_curvature(w, r);
  }

  int bad = NUM(pbTree_Factor)(&w->H, w->H_LD, w->H_Dinv);
  PB_VALIDATE(bad >= 0 || are_positive(w->H_Dinv, w->m->nv));
  return bad < 0 ? pb_ok : pb_singular;
}

// ---- the objective --------------------------------------------------------------------------------------------------
// x = J a - aref of every row.
static void set_residuals(NUM(pbWork) *w, const num *a) {
  for (int k = 0; k < w->nrow; k++) {
    NUM(pbRow) *r = w->row + k;
    pb_row_times(&w->constraints, r, a, r->x);
    for (int i = 0; i < r->dim; i++) r->x[i] -= r->aref[i];
  }
}

// Rows at the acceleration a; returns their cost.
static num evaluate_rows(NUM(pbWork) *w, const num *a) {
  num cost = 0;
  set_residuals(w, a);
  for (int k = 0; k < w->nrow; k++) cost += NUM(pbRow_Evaluate)(&w->constraints, w->row + k);
  return cost;
}

// qfrc_constraint = J'f
static void set_constraint_force(NUM(pbWork) *w) {
  memset(w->qfrc_constraint, 0, (size_t)w->m->nv * sizeof(num));
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->zone) pb_row_add_force(&w->constraints, r, r->f, w->qfrc_constraint);
  }
}

static inline double larger(double a, double b) { return b > a ? b : a; }

// grad = M a - qfrc_smooth - J'f; returns its largest entry relative to the largest of its terms.
static double set_gradient(NUM(pbWork) *w) {
  double size = 1e-300;
  double worst = 0;

  set_constraint_force(w);

  // A residual is small beside what it is the difference of.
  for (int i = 0; i < w->m->nv; i++) {
    num Ma = w->Ma[i];
    num smooth = w->qfrc_smooth[i];
    num force = w->qfrc_constraint[i];
    num gradient = Ma - smooth - force;
    if (w->couple_S) gradient += couple_slope(w, w->qacc, i);

    w->grad[i] = gradient;
    size = larger(larger(size, fabs(re(Ma))), larger(fabs(re(smooth)), fabs(re(force))));
    worst = larger(worst, fabs(re(gradient)));
  }

  return worst / size;
}

// H at the rows as they are.
static pbStatus factor_here(NUM(pbWork) *w) {
  PB_TRY(set_pattern(w));
  w->factor_current = true;
  return NUM(pbSolve_Factor)(w);
}

// At the known solution (qacc_warmstart): rows, M qacc, gradient and factor.
static pbStatus at_solution(NUM(pbWork) *w) {
  memcpy(w->qacc, w->qacc_warmstart, (size_t)w->m->nv * sizeof(num));
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  evaluate_rows(w, w->qacc);
  w->iterations = 0;
  w->residual = set_gradient(w);
  return factor_here(w);
}

#if !PB_IS_COMPLEX

// ---- line search ----------------------------------------------------------------------------------------------------
// Is the factor of H the one at the rows' zones, and H constant within them?
static bool factor_holds(const NUM(pbWork) *w) {
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;

    // Potentials whose curvature changes within a zone: the cone's middle, and everything that is smoothed.
    bool curved = pb_elliptic(w->m, r) && r->zone == pb_coneMiddle;
    curved |= w->m->contact.kappa > 0 && (r->kind == pb_rowContact || r->kind == pb_rowLimit);
    curved &= !pb_explicit(w->m, r);
    if (curved || r->zone != r->factor_zone) return false;
  }

  return true;
}

static double dot(const double *a, const double *b, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

// Slope and curvature of the cost along the step, at the distance alpha; quadratic: those of what is no row, at alpha = 0.
static void line_derivatives(const NUM(pbWork) *w, double alpha, const double quadratic[2], double *slope, double *curve) {
  double x[6], f[6], K[36];
  *slope = quadratic[0] + alpha * quadratic[1];
  *curve = quadratic[1];

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    NUM(pbPotential) p = {.x = x, .f = f, .K = K};
    for (int i = 0; i < r->dim; i++) x[i] = r->x[i] + alpha * r->Jp[i];
    NUM(pbPotential_At)(&w->constraints, r, &p);
    if (!p.zone) continue;

    // Slope -f . Jp, curvature Jp . K Jp.
    for (int i = 0; i < r->dim; i++) {
      *slope -= f[i] * r->Jp[i];
      for (int j = 0; j < r->dim; j++) *curve += r->Jp[i] * K[i * r->dim + j] * r->Jp[j];
    }
  }
}

// Slope and curvature at alpha = 0, along the step, of the cost without its rows; Jp of every row.
static void begin_line(NUM(pbWork) *w, double quadratic[2]) {
  int nv = w->m->nv;
  NUM(pbTree_Mul)(&w->t->M, w->M, w->step, w->Mstep);
  quadratic[0] = 0;
  quadratic[1] = dot(w->step, w->Mstep, nv);
  for (int i = 0; i < nv; i++) quadratic[0] += w->step[i] * (w->Ma[i] - w->qfrc_smooth[i]);

  // The deformables' quadratic model along the step.
  if (w->couple_S) {
    for (int i = 0; i < nv; i++) {
      quadratic[0] += w->step[i] * couple_slope(w, w->qacc, i);
      for (int k = 0; k < nv; k++) quadratic[1] += w->step[i] * w->couple_S[i * nv + k] * w->step[k];
    }
  }

  for (int k = 0; k < w->nrow; k++) pb_row_times(&w->constraints, w->row + k, w->step, w->row[k].Jp);
}

// Minimum of the cost along the step: Newton's method on the slope inside a bracket.
static double line_search(NUM(pbWork) *w, int limit) {
  double quadratic[2], slope, curve;
  double lo = 0, hi = INFINITY, alpha = 1;

  begin_line(w, quadratic);
  double first = fabs(dot(w->step, w->grad, w->m->nv));

  for (int it = 0; it < limit; it++) {
    line_derivatives(w, alpha, quadratic, &slope, &curve);
    if (fabs(slope) <= 1e-12 * first || !(curve > 0)) break;
    if (slope > 0) hi = alpha;
    else lo = alpha;

    // Where Newton's step leaves the bracket: twice as far, or its middle.
    double next = alpha - slope / curve;
    if (next <= lo || next >= hi) next = isinf(hi) ? 2 * alpha : 0.5 * (lo + hi);
    if (fabs(next - alpha) <= 1e-14 * alpha) break;
    alpha = next;
  }

  PB_ASSERT(!(alpha <= 0));
  return alpha;
}

// ---- start ----------------------------------------------------------------------------------------------------------
// The cost at no acceleration, but for a constant.
static double cost_at_rest(const NUM(pbWork) *w) {
  double cost = 0;
  double x[6], f[6];

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    NUM(pbPotential) p = {.x = x, .f = f};
    for (int i = 0; i < r->dim; i++) x[i] = -r->aref[i];
    cost += NUM(pbPotential_At)(&w->constraints, r, &p);
  }

  return cost;
}

// The cost at a, but for the same constant. Ma, if there is one, and the rows are left there.
static double cost_at(NUM(pbWork) *w, const double *a) {
  double cost = evaluate_rows(w, a);
  NUM(pbTree_Mul)(&w->t->M, w->M, a, w->Ma);
  for (int i = 0; i < w->m->nv; i++) cost += (0.5 * w->Ma[i] - w->qfrc_smooth[i]) * a[i];
  if (!w->couple_S) return cost;

  for (int i = 0; i < w->m->nv; i++) cost += 0.5 * (w->couple_g[i] + couple_slope(w, a, i)) * (a[i] - w->couple_at[i]);
  return cost;
}

// Start from the warm start if that is better than no acceleration, which costs no factor of M to see; otherwise from the
// unconstrained acceleration: qacc, Ma and the rows there.
static pbStatus choose_start(NUM(pbWork) *w, double *cost) {
  const double *start = w->qacc_warmstart;
  bool may_use = w->couple_S || !(w->m->disableflags & pb_disWarmstart);

  if (may_use) *cost = cost_at(w, start);

  // With coupled deformables the caller has chosen the start.
  if (!w->couple_S && !(may_use && *cost < cost_at_rest(w))) {
    PB_TRY(NUM(pbSolve_Smooth)(w));
    start = w->qacc_smooth;
    *cost = cost_at(w, start);
  }

  memcpy(w->qacc, start, (size_t)w->m->nv * sizeof(double));
  return pb_ok;
}

// ---- Newton ---------------------------------------------------------------------------------------------------------
// qacc goes to tmp; returns the largest change relative to the largest acceleration.
static double accept_step(NUM(pbWork) *w) {
  double change = 0;
  double size = 1e-300;

  for (int i = 0; i < w->m->nv; i++) {
    change = larger(change, fabs(w->tmp[i] - w->qacc[i]));
    size = larger(size, fabs(w->tmp[i]));
    w->qacc[i] = w->tmp[i];
  }

  return change / size;
}

// One step, -H^-1 gradient. exact: it ended at the minimum; moved: how far it went.
static pbStatus iterate(NUM(pbWork) *w, double *cost, bool *exact, double *moved) {
  const pbModel *m = w->m;
  PB_TRY(NUM(pbSolve_Factor)(w));
  for (int i = 0; i < m->nv; i++) w->step[i] = -w->grad[i];
  NUM(pbTree_Solve)(&w->H, w->H_LD, w->H_Dinv, w->step);

  // The full step, which is exact within one zone of every row, where the cost is quadratic.
  for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qacc[i] + w->step[i];
  double before = *cost;
  double slope = dot(w->grad, w->step, m->nv);
  *cost = cost_at(w, w->tmp);
  *exact = factor_holds(w);

  // Where it does not decrease the cost by enough (Armijo): the minimum along it.
  if (!*exact && !(*cost < before + 0.1 * slope)) {
    NUM(pbTree_Mul)(&m->topology->M, w->M, w->qacc, w->Ma);
    set_residuals(w, w->qacc);
    double alpha = line_search(w, m->ls_iterations);
    for (int i = 0; i < m->nv; i++) w->tmp[i] = w->qacc[i] + alpha * w->step[i];
    *cost = cost_at(w, w->tmp);
  }

  *moved = accept_step(w);
  return pb_ok;
}

static pbStatus newton(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  if (w->replay) return at_solution(w);

  double cost = 0, least = INFINITY, moved = INFINITY;
  double tolerance = m->tolerance > 1e-15 ? m->tolerance : 1e-15;
  int stalled = 0;
  bool exact = false;
  PB_TRY(choose_start(w, &cost));
  PB_TRY(set_pattern(w));

  // The gradient is measured where the last step has ended.
  for (w->iterations = 0;; w->iterations++) {
    w->residual = set_gradient(w);

    // Fine: the gradient is at rounding, or (stiff rows, whose forces cancel) the acceleration is. Then no progress twice ends
    // it.
    bool fine = w->residual < 1e-10 || moved < 1e-13;
    stalled = fine && w->residual > 0.5 * least ? stalled + 1 : 0;
    if (w->residual < least) least = w->residual;
    if (w->residual <= tolerance || (exact && fine) || stalled > 1 || w->iterations >= m->iterations) break;

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
  evaluate_rows(w, w->qacc);
  set_constraint_force(w);
  return pb_ok;
}

#endif

pbStatus NUM(pbSolve_Pattern)(NUM(pbWork) *w) { return set_pattern(w); }

pbStatus NUM(pbSolve_Complete)(NUM(pbWork) *w) { return w->factor_current ? pb_ok : factor_here(w); }

pbStatus NUM(pbSolve_Smooth)(NUM(pbWork) *w) {
  const pbTreePattern *tree = &w->t->M;
  memcpy(w->LD, w->M, (size_t)tree->size * sizeof(num));
  if (NUM(pbTree_Factor)(tree, w->LD, w->Dinv) >= 0) return pb_singular;

  memcpy(w->qacc_smooth, w->qfrc_smooth, (size_t)w->m->nv * sizeof(num));
  NUM(pbTree_Solve)(tree, w->LD, w->Dinv, w->qacc_smooth);
  return pb_ok;
}

// No rows: the objective is quadratic, and one linear solve finds its minimum.
static pbStatus solve_without_rows(NUM(pbWork) *w) {
  size_t bytes = (size_t)w->m->nv * sizeof(num);
  bool known = w->replay && !PB_IS_COMPLEX;  // the solution as it was found

  memset(w->qfrc_constraint, 0, bytes);
  memcpy(w->Ma, w->qfrc_smooth, bytes);
  w->iterations = 0;
  w->residual = 0;
  memcpy(w->qacc, known ? w->qacc_warmstart : w->qfrc_smooth, bytes);
  PB_TRY(factor_here(w));

  // (M + S) a = qfrc_smooth - g + S a_couple
  if (w->couple_S && !known) {
    for (int i = 0; i < w->m->nv; i++) {
      w->qacc[i] -= w->couple_g[i];
      for (int k = 0; k < w->m->nv; k++) w->qacc[i] += w->couple_S[i * w->m->nv + k] * w->couple_at[k];
    }
  }
  if (!known) NUM(pbTree_Solve)(&w->H, w->H_LD, w->H_Dinv, w->qacc);
  if (w->couple_S) NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  return pb_ok;
}

pbStatus NUM(pbStage_Solve)(NUM(pbWork) *w) {
  PB_ASSERT(w->nrow >= 0 && w->nrow <= w->max_row);
  if (!w->nrow) PB_TRY(solve_without_rows(w));
  else PB_TRY(pb_hard(w->m) ? NUM(pbDual_Solve)(w) : newton(w));

  if (pb_noslip(w->m)) PB_TRY(NUM(pbSlip_Sweep)(w));
  if (w->nrow) NUM(pbStage_Servos)(&w->constraints);
  return pb_ok;
}

#if !PB_IS_COMPLEX
double NUM(pbSolve_Cost)(NUM(pbWork) *w, const double *a, double *grad) {
  const double *S = w->couple_S;
  w->couple_S = NULL;

  // Without the coupling's model: the caller evaluates the deformables themselves.
  double cost = cost_at(w, a);
  set_constraint_force(w);
  for (int i = 0; i < w->m->nv; i++) grad[i] = w->Ma[i] - w->qfrc_smooth[i] - w->qfrc_constraint[i];

  w->couple_S = S;
  return cost;
}

pbStatus NUM(pbSolve_Again)(NUM(pbWork) *w, double *a) {
  bool replay = w->replay;
  w->replay = false;

  // Iterations are wanted even where the step is replayed.
  memcpy(w->qacc_warmstart, a, (size_t)w->m->nv * sizeof *a);
  pbStatus status = NUM(pbStage_Solve)(w);

  w->replay = replay;
  memcpy(a, w->qacc, (size_t)w->m->nv * sizeof *a);
  return status;
}
#endif
