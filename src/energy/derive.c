// Symbolic derivatives on the graph: forward (tangent) and reverse (adjoint) accumulation node by node (Griewank and Walther
// 2008), and which derivatives an energy needs. Tests compare all of them with complex steps: unit/test_energy_oracle.
// Tests: tests/unit/test_builtin.c, tests/unit/test_energy.c, tests/unit/test_energy_oracle.c.
#include "energy/derive.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"

static int *take_ints(pbGraph *g, int count) {
  int *a = pbContext_AllocArray(g->ctx, (size_t)count + 1, sizeof *a);
  if (!a) pbGraph_Fail(g, pb_no_memory, "out of memory");
  return a;
}

static int op_of(const pbGraph *g, int i) { return g->node[i].op; }
static int constant(pbGraph *g, double value) { return pbGraph_Constant(g, value); }
static int reciprocal(pbGraph *g, int a) { return pb_div(g, constant(g, 1), a); }

// What is made from here on comes from differentiating node i.
static void locate_derivative(pbGraph *g, int i) {
  g->at = g->node[i].place;
  g->at.derived = true;
}

// ---- derivatives of single operations ---------------------------------------------------------------------------------
// d asin(a) = 1/sqrt(1 - a^2) = -d acos(a).
static int partial_arc(pbGraph *g, int i, int a) {
  int slope = reciprocal(g, pbGraph_Node(g, pb_opSqrt, pb_sub(g, constant(g, 1), pb_mul(g, a, a)), 0, 0));
  return op_of(g, i) == pb_opAsin ? slope : pb_neg(g, slope);
}

// d atan2(y, x) = (x dy - y dx)/(x^2 + y^2).
static int partial_atan2(pbGraph *g, int y, int x, int k) {
  int slope = reciprocal(g, pb_add(g, pb_mul(g, y, y), pb_mul(g, x, x)));
  return k == 0 ? pb_mul(g, x, slope) : pb_neg(g, pb_mul(g, y, slope));
}

// d a^b = a^b log(a) db + b a^(b - 1) da.
static int partial_pow(pbGraph *g, int i, int a, int b, int k) {
  if (k == 1) return pb_mul(g, i, pbGraph_Node(g, pb_opLog, a, 0, 0));
  return pb_mul(g, b, pbGraph_PowNode(g, a, pb_sub(g, b, constant(g, 1))));
}

// Of f with (f^2 - a)^2 - 8 c f - 4 b = 0: implicitly, with r = f^2 - a, df (4 f r - 8 c) = 2 r da + 4 db + 8 f dc.
static int partial_stretch(pbGraph *g, int i, int a, int c, int k) {
  int r = pb_sub(g, pb_mul(g, i, i), a);
  int slope = reciprocal(g, pb_sub(g, pb_mul(g, i, r), pb_mul(g, constant(g, 2), c)));

  if (k == 0) return pb_mul(g, constant(g, 0.5), pb_mul(g, r, slope));
  return k == 1 ? slope : pb_mul(g, constant(g, 2), pb_mul(g, i, slope));
}

// 1/sqrt(c), of the inverse hyperbolic functions
static int over_root(pbGraph *g, int c) { return reciprocal(g, pbGraph_Node(g, pb_opSqrt, c, 0, 0)); }

// d erf(a) = 2/sqrt(pi) exp(-a^2) = -d erfc(a).
static int partial_erf(pbGraph *g, int i, int a) {
  double factor = op_of(g, i) == pb_opErf ? 2 / sqrt(M_PI) : -2 / sqrt(M_PI);
  return pb_mul(g, constant(g, factor), pbGraph_Node(g, pb_opExp, pb_neg(g, pb_mul(g, a, a)), 0, 0));
}

// Of functions of one number that have their slopes from hyperbolic functions, roots and the bell curve.
static int partial_curve(pbGraph *g, int i, int a) {
  int one = constant(g, 1);
  switch (op_of(g, i)) {
    case pb_opExpm1: return pbGraph_Node(g, pb_opExp, a, 0, 0);
    case pb_opLog1p: return reciprocal(g, pb_add(g, one, a));
    case pb_opSinh: return pbGraph_Node(g, pb_opCosh, a, 0, 0);
    case pb_opCosh: return pbGraph_Node(g, pb_opSinh, a, 0, 0);
    case pb_opTanh: return pb_mul(g, pb_sub(g, one, i), pb_add(g, one, i));
    case pb_opAsinh: return over_root(g, pb_add(g, one, pb_mul(g, a, a)));
    case pb_opAcosh: return over_root(g, pb_mul(g, pb_sub(g, a, one), pb_add(g, a, one)));
    case pb_opAtanh: return reciprocal(g, pb_mul(g, pb_sub(g, one, a), pb_add(g, one, a)));
    case pb_opErf:
    case pb_opErfc: return partial_erf(g, i, a);
    default: return constant(g, 0);  // comparisons, sign, freeze
  }
}

// By operand k, of all but the linear operations, products, quotients and choices, which the sweeps treat themselves.
static int partial(pbGraph *g, int i, int k) {
  int a = g->node[i].of[0], b = g->node[i].of[1];

  // Of the node itself where that is shorter: d sqrt(a) = 1/(2 sqrt(a)), d exp(a) = exp(a).
  switch (op_of(g, i)) {
    case pb_opSqrt: return pb_mul(g, constant(g, 0.5), reciprocal(g, i));
    case pb_opLog: return reciprocal(g, a);
    case pb_opExp: return i;
    case pb_opSin: return pbGraph_Node(g, pb_opCos, a, 0, 0);
    case pb_opCos: return pb_neg(g, pbGraph_Node(g, pb_opSin, a, 0, 0));
    case pb_opAsin:
    case pb_opAcos: return partial_arc(g, i, a);
    case pb_opAtan2: return partial_atan2(g, a, b, k);
    case pb_opPow: return partial_pow(g, i, a, b, k);
    case pb_opStretch: return partial_stretch(g, i, a, g->node[i].of[2], k);
    case pb_opAbs: return pbGraph_Node(g, pb_opSign, a, 0, 0);
    default: return partial_curve(g, i, a);
  }
}

// The condition on which min and max take the first operand.
static int takes_first(pbGraph *g, int i) {
  int a = g->node[i].of[0], b = g->node[i].of[1];
  return op_of(g, i) == pb_opMin ? pbGraph_Node(g, pb_opLessEqual, a, b, 0) : pbGraph_Node(g, pb_opLessEqual, b, a, 0);
}

// ---- forward: the tangent of node i from those of its operands ------------------------------------------------------------
static int tangent(pbGraph *g, int i, const int *t) {
  const pbNode n = g->node[i];
  int a = n.of[0], b = n.of[1], c = n.of[2], zero = constant(g, 0), operands = pbOp_Operands(n.op), moving = 0;

  // Nothing below moves: neither does this.
  for (int k = 0; k < operands; k++) moving += t[n.of[k]] != zero;
  if (!moving) return zero;

  locate_derivative(g, i);

  switch (n.op) {
    case pb_opAdd: return pb_add(g, t[a], t[b]);
    case pb_opSub: return pb_sub(g, t[a], t[b]);
    case pb_opNeg: return pb_neg(g, t[a]);
    case pb_opMul: return pb_add(g, pb_mul(g, t[a], b), pb_mul(g, a, t[b]));

    // d(a/b) = (da - (a/b) db)/b.
    case pb_opDiv: return pb_mul(g, pb_sub(g, t[a], pb_mul(g, i, t[b])), reciprocal(g, b));
    case pb_opSelect: return pbGraph_Node(g, pb_opSelect, a, t[b], t[c]);
    case pb_opMin:
    case pb_opMax: return pbGraph_Node(g, pb_opSelect, takes_first(g, i), t[a], t[b]);
    default: break;
  }

  // The chain rule, over the operands that move.
  int sum = zero;
  for (int k = 0; k < operands; k++) {
    if (t[n.of[k]] != zero) sum = pb_add(g, sum, pb_mul(g, t[n.of[k]], partial(g, i, k)));
  }

  return sum;
}

// ---- backward: what node i with adjoint `bar` adds to the adjoints of its operands -------------------------------------------
static void add_adjoints(pbGraph *g, int i, int bar, const uint8_t *active, int *adjoint) {
  const pbNode n = g->node[i];
  int a = n.of[0], b = n.of[1], zero = constant(g, 0), to[3] = {zero, zero, zero}, operands = pbOp_Operands(n.op);

  locate_derivative(g, i);
  switch (n.op) {
    case pb_opAdd:
      to[0] = bar;
      to[1] = bar;
      break;
    case pb_opSub:
      to[0] = bar;
      to[1] = pb_neg(g, bar);
      break;
    case pb_opNeg: to[0] = pb_neg(g, bar); break;
    case pb_opMul:
      // Only what leads to a variable is made.
      if (active[a]) to[0] = pb_mul(g, bar, b);
      if (active[b]) to[1] = pb_mul(g, bar, a);
      break;
    case pb_opDiv:
      to[0] = pb_mul(g, bar, reciprocal(g, b));
      if (active[b]) to[1] = pb_neg(g, pb_mul(g, to[0], i));
      break;
    case pb_opSelect:
      // The side that is taken gets all of it; the condition has no derivative.
      to[1] = pbGraph_Node(g, pb_opSelect, a, bar, zero);
      to[2] = pbGraph_Node(g, pb_opSelect, a, zero, bar);
      break;
    case pb_opMin:
    case pb_opMax:
      to[0] = pbGraph_Node(g, pb_opSelect, takes_first(g, i), bar, zero);
      to[1] = pbGraph_Node(g, pb_opSelect, takes_first(g, i), zero, bar);
      break;
    default:
      for (int k = 0; k < operands; k++) {
        if (active[n.of[k]]) to[k] = pb_mul(g, bar, partial(g, i, k));
      }
  }

  // What leads to no variable gets nothing.
  for (int k = 0; k < operands; k++) {
    if (active[n.of[k]]) adjoint[n.of[k]] = pb_add(g, adjoint[n.of[k]], to[k]);
  }
}

// Adjoints of all nodes up to root that lead to a node with active 2 (the variables), which are set by the caller. Sets the rest
// of `active` to 1 where a variable is below. NULL: out of memory. What is in freeze() does not move.
static int *reverse(pbGraph *g, int root, uint8_t *active) {
  int *adjoint = take_ints(g, root + 1), zero = constant(g, 0);
  if (g->status) return adjoint;

  // Operands have smaller numbers: upwards once.
  PB_ASSERT(root < g->count);
  for (int i = 0; i <= root; i++) {
    adjoint[i] = zero;
    if (active[i] || op_of(g, i) == pb_opFreeze) continue;
    for (int k = 0; k < pbOp_Operands(op_of(g, i)); k++) {
      PB_ASSERT(g->node[i].of[k] < i);
      active[i] |= active[g->node[i].of[k]] != 0;
    }
  }

  // And downwards, from the root to the variables.
  adjoint[root] = constant(g, 1);
  for (int i = root; i >= 0 && !g->status; i--) {
    if (active[i] == 1 && adjoint[i] != zero) add_adjoints(g, i, adjoint[i], active, adjoint);
  }

  return adjoint;
}

// Marks what is needed for the nodes marked already.
static void mark_below(const pbGraph *g, int count, uint8_t *needed) {
  for (int i = count - 1; i >= 0; i--) {
    if (!needed[i]) continue;
    for (int k = 0; k < pbOp_Operands(op_of(g, i)); k++) needed[g->node[i].of[k]] |= 1;
  }
}

static uint8_t *take_flags(pbGraph *g, int count) {
  uint8_t *f = pbContext_AllocArray(g->ctx, (size_t)count + 1, 1);
  if (!f) pbGraph_Fail(g, pb_no_memory, "out of memory");
  return f;
}

// The nodes with every freeze(e) replaced by e, written over `node`.
static void write_unfrozen(pbGraph *g, int *node, int n, int count, uint8_t *needed, int *map) {
  for (int k = 0; k < n; k++) needed[node[k]] = 1;
  mark_below(g, count, needed);

  // Every node that is needed made again of what its operands became; what has nothing frozen below comes out as itself.
  for (int i = 0; i < count && !g->status; i++) {
    pbNode e = g->node[i];
    map[i] = i;
    if (!needed[i] || !pbOp_Operands(e.op)) continue;
    g->at = e.place;
    for (int k = 0; k < pbOp_Operands(e.op); k++) e.of[k] = map[e.of[k]];
    map[i] = e.op == pb_opFreeze ? e.of[0] : pbGraph_Node(g, e.op, e.of[0], e.of[1], e.of[2]);
  }

  if (g->status) return;
  for (int k = 0; k < n; k++) node[k] = map[node[k]];
}

static void unfreeze(pbGraph *g, int *node, int n) {
  int count = g->count, *map = take_ints(g, count);
  uint8_t *needed = take_flags(g, count);

  if (!g->status) write_unfrozen(g, node, n, count, needed, map);
  pbContext_Free(g->ctx, needed);
  pbContext_Free(g->ctx, map);
}

// ---- variables --------------------------------------------------------------------------------------------------------
// Energies depend on x through few differences: through z = R x with numbers in R. With R in reduced row echelon form,
// unit columns at its pivots, d/dz_k is d/dx at pivot k while the other x stand still. So only the Hessian of the pivots is
// derived, and H = R'H_z R. An energy of 4 points that translations leave alone has 9 pivots of 12.
typedef struct Basis {
  int n, r;    // of x, of z
  double *R;   // r x n, room for n x n
  int *pivot;  // r
} Basis;

static void basis_destroy(pbContext *ctx, Basis *b) {
  pbContext_Free(ctx, b->R);
  pbContext_Free(ctx, b->pivot);
}

static double *take_reals(pbGraph *g, size_t count) {
  double *a = pbContext_AllocArray(g->ctx, count + 1, sizeof *a);
  if (!a) pbGraph_Fail(g, pb_no_memory, "out of memory");
  return a;
}

// R = 1: every x is a pivot.
static void whole_basis(Basis *b) {
  b->r = b->n;

  for (int i = 0; i < b->n * b->n; i++) b->R[i] = i % (b->n + 1) == 0;
  for (int i = 0; i < b->n; i++) b->pivot[i] = i;
}

// a -= f row.
static void subtract(double *a, double f, const double *row, int n) {
  if (f == 0) return;
  for (int j = 0; j < n; j++) a[j] -= f * row[j];
}

// R with the row v more. Of equally large entries the last is the pivot: points are seen from the first.
static void add_row(Basis *b, const double *v) {
  int n = b->n, pivot = 0;
  double *rest = b->R + b->r * n, size = 0;

  if (b->r == n) return;

  // What is left of it without the rows that are there.
  memcpy(rest, v, sizeof *v * (size_t)n);
  for (int i = 0; i < b->r; i++) subtract(rest, rest[b->pivot[i]], b->R + i * n, n);

  for (int j = 0; j < n; j++) {
    size = fmax(size, fabs(v[j]));
    if (fabs(rest[j]) >= fabs(rest[pivot])) pivot = j;
  }

  // Nothing but rounding: the row adds nothing to the span.
  if (!(fabs(rest[pivot]) > 1e-9 * size)) return;

  // A unit entry at the pivot; entries of rounding are zeros.
  double one_over = 1 / rest[pivot];
  for (int j = 0; j < n; j++) rest[j] = fabs(rest[j]) > 1e-13 * size ? rest[j] * one_over : 0;

  // Its pivot leaves the other rows, and it is one of them.
  for (int i = 0; i < b->r; i++) subtract(b->R + i * n, b->R[i * n + pivot], rest, n);
  b->pivot[b->r] = pivot;
  b->r++;
  PB_ASSERT(b->r <= n);
}

enum Dependence { fixed, linear, bent };  // of a node on x; linear: with numbers as coefficients

// Kind of node i, and where it is linear its coefficients in row i of `row`.
static int linear_row(const pbGraph *g, int i, int n, const uint8_t *kind, double *row) {
  const pbNode *e = &g->node[i];
  int a = e->of[0], b = e->of[1], most = fixed;
  double *own = row + (size_t)i * (size_t)n, fa = 0, fb = 0;

  if (e->op == pb_opInput) {
    if (a < n) own[a] = 1;
    return a < n ? linear : fixed;
  }

  // No more than its operands, and bent where an operation is not linear in one that moves.
  for (int k = 0; k < pbOp_Operands(e->op); k++) {
    if (kind[e->of[k]] > most) most = kind[e->of[k]];
  }

  if (most != linear) return most;

  switch (e->op) {
    case pb_opAdd:
      fa = 1;
      fb = 1;
      break;
    case pb_opSub:
      fa = 1;
      fb = -1;
      break;
    case pb_opNeg: fa = -1; break;
    case pb_opMul:
      // Numbers are the first factor: pbGraph_Node sees to that.
      if (op_of(g, a) != pb_opConstant) return bent;
      fb = g->node[a].value;
      break;
    default: return bent;
  }

  subtract(own, -fa, row + (size_t)a * (size_t)n, n);
  subtract(own, -fb, row + (size_t)b * (size_t)n, n);
  return linear;
}

// From the linear nodes that something not linear is made of, and linear roots.
static void find_basis(pbGraph *g, int count, uint8_t *needed, uint8_t *kind, double *row, Basis *b) {
  mark_below(g, count, needed);

  for (int i = 0; i < count; i++) {
    if (!needed[i]) continue;

    kind[i] = (uint8_t)linear_row(g, i, b->n, kind, row);
    if ((needed[i] & 2) && kind[i] == linear) add_row(b, row + (size_t)i * (size_t)b->n);

    if (kind[i] != bent) continue;
    for (int k = 0; k < pbOp_Operands(op_of(g, i)); k++) {
      int a = g->node[i].of[k];
      if (kind[a] == linear) add_row(b, row + (size_t)a * (size_t)b->n);
    }
  }
}

static Basis make_basis(pbGraph *g, const int *root, int roots) {
  Basis b = {.n = 3 * g->inputs.points};
  int count = g->count;
  size_t n = (size_t)b.n, room = (size_t)count * n;

  b.R = take_reals(g, n * n);
  b.pivot = take_ints(g, b.n);

  // A graph so large that the rows of its nodes are too: the basis would save work, but not here.
  if (room > 1u << 22) {
    if (!g->status) whole_basis(&b);

    return b;
  }

  // What the roots are made of, its kind and its coefficients.
  uint8_t *needed = take_flags(g, count), *kind = take_flags(g, count);
  double *row = take_reals(g, room);

  if (!g->status) {
    for (int k = 0; k < roots; k++) needed[root[k]] = 2;
  }

  if (!g->status) find_basis(g, count, needed, kind, row, &b);
  if (!g->status && b.r == b.n) whole_basis(&b);

  pbContext_Free(g->ctx, needed);
  pbContext_Free(g->ctx, kind);
  pbContext_Free(g->ctx, row);

  return b;
}

// ---- gradient and Hessian ---------------------------------------------------------------------------------------------
// Marks the inputs that are positions as variables.
static void mark_positions(const pbGraph *g, int value, uint8_t *active) {
  for (int i = 0; i <= value; i++) {
    if (op_of(g, i) == pb_opInput && g->node[i].of[0] < 3 * g->inputs.points) active[i] = 2;
  }
}

// The adjoints of variables, by the numbers of their inputs.
static void collect_adjoints(const pbGraph *g, int root, const uint8_t *active, const int *adjoint, int *out) {
  for (int i = 0; i <= root; i++) {
    if (active[i] == 2) out[g->node[i].of[0]] = adjoint[i];
  }
}

void pbDerive_Gradient(pbGraph *g, int value, int *gradient) {
  uint8_t *active = take_flags(g, value);
  int zero = constant(g, 0), n = 3 * g->inputs.points;

  if (!g->status) mark_positions(g, value, active);
  int *adjoint = g->status ? NULL : reverse(g, value, active);

  // Positions that the value does not depend on have no node.
  for (int i = 0; i < n; i++) gradient[i] = zero;
  if (!g->status) collect_adjoints(g, value, active, adjoint, gradient);

  pbContext_Free(g->ctx, adjoint);
  pbContext_Free(g->ctx, active);
}

// Derivatives of nodes by the pivots, rows x r. symmetric: the nodes belong to the pivots; the lower triangle is made and
// mirrored.
static int seeded_tangent(pbGraph *g, int i, int pivot, const uint8_t *needed, const int *t) {
  bool seed = op_of(g, i) == pb_opInput && g->node[i].of[0] == pivot;
  if (seed) return constant(g, 1);
  return needed[i] ? tangent(g, i, t) : constant(g, 0);
}

static void derive_jacobian(pbGraph *g, const int *node, int rows, const Basis *b, bool symmetric, int *jacobian) {
  int count = g->count, *t = take_ints(g, g->count);
  uint8_t *needed = take_flags(g, g->count);

  if (!g->status) {
    for (int i = 0; i < rows; i++) needed[node[i]] = 1;
    mark_below(g, count, needed);
  }

  // A forward sweep for each pivot.
  for (int k = 0; k < b->r && !g->status; k++) {
    for (int i = 0; i < count; i++) t[i] = seeded_tangent(g, i, b->pivot[k], needed, t);

    if (g->status) break;

    // Of a symmetric matrix the column below the diagonal, which is the row beside it.
    int first = symmetric ? k : 0;
    for (int i = first; i < rows; i++) {
      jacobian[i * b->r + k] = t[node[i]];
      if (symmetric) jacobian[k * b->r + i] = t[node[i]];
    }
  }

  pbContext_Free(g->ctx, needed);
  pbContext_Free(g->ctx, t);
}

static int add_weighted(pbGraph *g, int sum, double weight, int node) {
  return weight == 0 ? sum : pb_add(g, sum, pb_mul(g, constant(g, weight), node));
}

// rows x r times R: rows x n
static void times_basis(pbGraph *g, const int *a, int rows, const Basis *b, int *product) {
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < b->n; j++) {
      int sum = constant(g, 0);
      for (int k = 0; k < b->r; k++) sum = add_weighted(g, sum, b->R[k * b->n + j], a[i * b->r + k]);
      product[i * b->n + j] = sum;
    }
  }
}

// H = R'(H_z R), the lower triangle made and mirrored
static void congruence(pbGraph *g, const int *hz, const Basis *b, int *hessian) {
  int n = b->n, *half = take_ints(g, b->r * n);
  if (!g->status) times_basis(g, hz, b->r, b, half);

  for (int i = 0; i < n && !g->status; i++) {
    for (int j = 0; j <= i; j++) {
      int sum = constant(g, 0);
      for (int k = 0; k < b->r; k++) sum = add_weighted(g, sum, b->R[k * n + i], half[k * n + j]);
      hessian[i * n + j] = sum;
      hessian[j * n + i] = sum;
    }
  }

  pbContext_Free(g->ctx, half);
}

// Of a gradient of an energy: only by the pivots, and half of that.
static void symmetric_hessian(pbGraph *g, pbDerived *d) {
  Basis b = make_basis(g, &d->value, 1);
  int *gz = take_ints(g, b.r), *hz = take_ints(g, b.r * b.r);

  if (!g->status) {
    for (int k = 0; k < b.r; k++) gz[k] = d->gradient[b.pivot[k]];
    derive_jacobian(g, gz, b.r, &b, true, hz);
  }

  if (!g->status) congruence(g, hz, &b, d->hessian);

  pbContext_Free(g->ctx, gz);
  pbContext_Free(g->ctx, hz);
  basis_destroy(g->ctx, &b);
}

// With freeze() the gradient has held something that its Jacobian does not hold.
static void frozen_hessian(pbGraph *g, pbDerived *d) {
  int n = 3 * g->inputs.points;
  unfreeze(g, d->gradient, n);

  Basis b = make_basis(g, d->gradient, n);
  int *jacobian = take_ints(g, n * b.r);
  if (!g->status) derive_jacobian(g, d->gradient, n, &b, false, jacobian);
  if (!g->status) times_basis(g, jacobian, n, &b, d->hessian);

  pbContext_Free(g->ctx, jacobian);
  basis_destroy(g->ctx, &b);
}

// ---- pullback ---------------------------------------------------------------------------------------------------------
// phi = w . gradient is the tangent of the value along w, and one number: one reverse sweep has all its derivatives.
static int along_weights(pbGraph *g, int value) {
  int *t = take_ints(g, value + 1), zero = constant(g, 0), phi = zero;

  // Positions move along the weights, all else stands still.
  for (int i = 0; i <= value && !g->status; i++) {
    const pbNode e = g->node[i];
    if (e.op == pb_opInput) t[i] = e.of[0] < g->inputs.rest ? pbGraph_Input(g, g->inputs.weight + e.of[0]) : zero;
    else t[i] = pbOp_Operands(e.op) ? tangent(g, i, t) : zero;
  }

  if (!g->status) phi = t[value];
  pbContext_Free(g->ctx, t);
  return phi;
}

// Inputs that the pullback derives by: all but weights and parameters that are constants.
static bool is_variable(const pbGraph *g, const pbEnergyDef *def, int input) {
  if (input >= g->inputs.weight) return false;

  for (int i = 0; i < def->parameter_count; i++) {
    if (input >= g->inputs.parameter[i] && input < g->inputs.parameter[i + 1]) return !def->parameters[i].constant;
  }

  return true;
}

static void derive_pullback(pbGraph *g, const pbEnergyDef *def, pbDerived *d) {
  int phi = along_weights(g, d->value);

  // Weights stand for directions of the gradient as it is evaluated: what was frozen moves from here on.
  if (!d->symmetric && !g->status) unfreeze(g, &phi, 1);

  uint8_t *active = take_flags(g, phi);
  if (!g->status) {
    for (int i = 0; i <= phi; i++) {
      if (op_of(g, i) == pb_opInput && is_variable(g, def, g->node[i].of[0])) active[i] = 2;
    }
  }

  int *adjoint = g->status ? NULL : reverse(g, phi, active), zero = constant(g, 0);

  for (int i = 0; i < g->inputs.weight; i++) d->pull[i] = zero;
  if (!g->status) collect_adjoints(g, phi, active, adjoint, d->pull);

  pbContext_Free(g->ctx, adjoint);
  pbContext_Free(g->ctx, active);
}

static bool has_freeze(const pbGraph *g, int value) {
  for (int i = 0; i <= value; i++) {
    if (op_of(g, i) == pb_opFreeze) return true;
  }

  return false;
}

// Whether the lower triangle and the upper one are of the same nodes.
static bool is_mirrored(const int *hessian, int n) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      if (hessian[i * n + j] != hessian[j * n + i]) return false;
    }
  }

  return true;
}

void pbDerive_All(pbGraph *g, const pbEnergyDef *def, int value, pbDerived *d) {
  int n = 3 * g->inputs.points;
  *d = (pbDerived){
      .value = value, .gradient = take_ints(g, n), .hessian = take_ints(g, n * n), .pull = take_ints(g, g->inputs.weight)};
  if (g->status) return;

  // Without freeze() the gradient is one, and its Jacobian symmetric.
  PB_ASSERT(value >= 0 && value < g->count);
  d->symmetric = !has_freeze(g, value);
  pbDerive_Gradient(g, value, d->gradient);
  if (!g->status && d->symmetric) symmetric_hessian(g, d);
  PB_VALIDATE(g->status || !d->symmetric || is_mirrored(d->hessian, n));
  if (!g->status && !d->symmetric) frozen_hessian(g, d);
  if (!g->status) derive_pullback(g, def, d);

  // The value last: the derivatives above needed what it holds.
  if (!d->symmetric && !g->status) unfreeze(g, &d->value, 1);
}

void pbDerived_Destroy(pbContext *ctx, pbDerived *d) {
  pbContext_Free(ctx, d->gradient);
  pbContext_Free(ctx, d->hessian);
  pbContext_Free(ctx, d->pull);
}
