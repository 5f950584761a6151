#include "energy/derive.h"

#include <math.h>
#include <string.h>

#include "base/context.h"

static int *ints(pbGraph *g, int count) {
  int *a = pbContext_AllocArray(g->ctx, (size_t)count + 1, sizeof *a);
  if (!a) pbGraph_Fail(g, pb_no_memory, "out of memory");
  return a;
}

static int op_of(const pbGraph *g, int i) { return g->node[i].op; }
static int constant(pbGraph *g, double value) { return pbGraph_Constant(g, value); }
static int over(pbGraph *g, int a) { return pb_div(g, constant(g, 1), a); }

// What is made from here on comes from differentiating node i.
static void stand_at(pbGraph *g, int i) {
  g->at = g->node[i].place;
  g->at.derived = true;
}

// ---- derivatives of single operations ---------------------------------------------------------------------------------
// By operand k, of all but the linear operations, products, quotients and choices, which the sweeps treat themselves.
static int partial(pbGraph *g, int i, int k) {
  int a = g->node[i].of[0], b = g->node[i].of[1];
  switch (op_of(g, i)) {
    case pb_opSqrt: return pb_mul(g, constant(g, 0.5), over(g, i));
    case pb_opLog: return over(g, a);
    case pb_opExp: return i;
    case pb_opSin: return pbGraph_Node(g, pb_opCos, a, 0, 0);
    case pb_opCos: return pb_neg(g, pbGraph_Node(g, pb_opSin, a, 0, 0));
    case pb_opAsin:
    case pb_opAcos: {
      int slope = over(g, pbGraph_Node(g, pb_opSqrt, pb_sub(g, constant(g, 1), pb_mul(g, a, a)), 0, 0));
      return op_of(g, i) == pb_opAsin ? slope : pb_neg(g, slope);
    }
    case pb_opAtan2: {  // of (y, x)
      int slope = over(g, pb_add(g, pb_mul(g, a, a), pb_mul(g, b, b)));

      return k == 0 ? pb_mul(g, b, slope) : pb_neg(g, pb_mul(g, a, slope));
    }
    case pb_opPow:
      if (k == 1) return pb_mul(g, i, pbGraph_Node(g, pb_opLog, a, 0, 0));

      return pb_mul(g, b, pbGraph_PowNode(g, a, pb_sub(g, b, constant(g, 1))));
    case pb_opStretch: {  // (f^2 - a)^2 - 8 c f - 4 b = 0 differentiated
      int r = pb_sub(g, pb_mul(g, i, i), a),
          slope = over(g, pb_sub(g, pb_mul(g, i, r), pb_mul(g, constant(g, 2), g->node[i].of[2])));
      if (k == 0) return pb_mul(g, constant(g, 0.5), pb_mul(g, r, slope));

      return k == 1 ? slope : pb_mul(g, constant(g, 2), pb_mul(g, i, slope));
    }
    case pb_opAbs: return pbGraph_Node(g, pb_opSign, a, 0, 0);
    default: return constant(g, 0);  // comparisons, sign, freeze
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

  for (int k = 0; k < operands; k++) moving += t[n.of[k]] != zero;
  if (!moving) return zero;
  stand_at(g, i);

  switch (n.op) {
    case pb_opAdd: return pb_add(g, t[a], t[b]);
    case pb_opSub: return pb_sub(g, t[a], t[b]);
    case pb_opNeg: return pb_neg(g, t[a]);
    case pb_opMul: return pb_add(g, pb_mul(g, t[a], b), pb_mul(g, a, t[b]));
    case pb_opDiv: return pb_mul(g, pb_sub(g, t[a], pb_mul(g, i, t[b])), over(g, b));
    case pb_opSelect: return pbGraph_Node(g, pb_opSelect, a, t[b], t[c]);
    case pb_opMin:
    case pb_opMax: return pbGraph_Node(g, pb_opSelect, takes_first(g, i), t[a], t[b]);
    default: break;
  }

  int sum = zero;
  for (int k = 0; k < operands; k++) {
    if (t[n.of[k]] != zero) sum = pb_add(g, sum, pb_mul(g, t[n.of[k]], partial(g, i, k)));
  }

  return sum;
}

// ---- backward: what node i with adjoint `bar` adds to the adjoints of its operands -------------------------------------------
static void backward(pbGraph *g, int i, int bar, const uint8_t *active, int *adjoint) {
  const pbNode n = g->node[i];
  int a = n.of[0], b = n.of[1], c = n.of[2], zero = constant(g, 0), to[3] = {zero, zero, zero};

  stand_at(g, i);
  switch (n.op) {
    case pb_opAdd: to[0] = to[1] = bar; break;
    case pb_opSub:
      to[0] = bar;
      to[1] = pb_neg(g, bar);
      break;
    case pb_opNeg: to[0] = pb_neg(g, bar); break;
    case pb_opMul:
      if (active[a]) to[0] = pb_mul(g, bar, b);
      if (active[b]) to[1] = pb_mul(g, bar, a);
      break;
    case pb_opDiv:
      to[0] = pb_mul(g, bar, over(g, b));
      if (active[b]) to[1] = pb_neg(g, pb_mul(g, to[0], i));
      break;
    case pb_opSelect:
      to[1] = pbGraph_Node(g, pb_opSelect, a, bar, zero);
      to[2] = pbGraph_Node(g, pb_opSelect, a, zero, bar);
      break;
    case pb_opMin:
    case pb_opMax:
      to[0] = pbGraph_Node(g, pb_opSelect, takes_first(g, i), bar, zero);
      to[1] = pbGraph_Node(g, pb_opSelect, takes_first(g, i), zero, bar);
      break;
    default:
      for (int k = 0; k < pbOp_Operands(n.op); k++)
        if (active[n.of[k]]) to[k] = pb_mul(g, bar, partial(g, i, k));
  }

  int operand[3] = {a, b, c};
  for (int k = 0; k < pbOp_Operands(n.op); k++)
    if (active[operand[k]]) adjoint[operand[k]] = pb_add(g, adjoint[operand[k]], to[k]);
}

// Adjoints of all nodes up to root that lead to a node with active 2 (the variables), which are set by the caller. Sets the rest
// of `active` to 1 where a variable is below. NULL: out of memory. What is in freeze() does not move.
static int *reverse(pbGraph *g, int root, uint8_t *active) {
  int *adjoint = ints(g, root + 1), zero = constant(g, 0);
  if (g->status) return adjoint;
  for (int i = 0; i <= root; i++) {
    adjoint[i] = zero;
    if (active[i] || op_of(g, i) == pb_opFreeze) continue;
    for (int k = 0; k < pbOp_Operands(op_of(g, i)); k++) active[i] |= active[g->node[i].of[k]] != 0;
  }

  adjoint[root] = constant(g, 1);
  for (int i = root; i >= 0 && !g->status; i--)
    if (active[i] == 1 && adjoint[i] != zero) backward(g, i, adjoint[i], active, adjoint);

  return adjoint;
}

// Marks what is needed for the nodes marked already.
static void mark_below(const pbGraph *g, int count, uint8_t *needed) {
  for (int i = count - 1; i >= 0; i--) {
    for (int k = 0; needed[i] && k < pbOp_Operands(op_of(g, i)); k++) needed[g->node[i].of[k]] |= 1;
  }
}

static uint8_t *flags(pbGraph *g, int count) {
  uint8_t *f = pbContext_AllocArray(g->ctx, (size_t)count + 1, 1);
  if (!f) pbGraph_Fail(g, pb_no_memory, "out of memory");
  return f;
}

// The nodes with every freeze(e) replaced by e, written over `node`.
static void unfreeze(pbGraph *g, int *node, int n) {
  int count = g->count, *map = ints(g, count);
  uint8_t *needed = flags(g, count);

  for (int k = 0; k < n && !g->status; k++) needed[node[k]] = 1;
  if (!g->status) mark_below(g, count, needed);
  for (int i = 0; i < count && !g->status; i++) {
    pbNode e = g->node[i];
    map[i] = i;
    if (!needed[i] || !pbOp_Operands(e.op)) continue;
    g->at = e.place;
    for (int k = 0; k < pbOp_Operands(e.op); k++) e.of[k] = map[e.of[k]];
    map[i] = e.op == pb_opFreeze ? e.of[0] : pbGraph_Node(g, e.op, e.of[0], e.of[1], e.of[2]);
  }

  for (int k = 0; k < n && !g->status; k++) node[k] = map[node[k]];
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

static double *reals(pbGraph *g, size_t count) {
  double *a = pbContext_AllocArray(g->ctx, count + 1, sizeof *a);
  if (!a) pbGraph_Fail(g, pb_no_memory, "out of memory");
  return a;
}

static void whole_basis(Basis *b) {
  b->r = b->n;
  for (int i = 0; i < b->n * b->n; i++) b->R[i] = i % (b->n + 1) == 0;
  for (int i = 0; i < b->n; i++) b->pivot[i] = i;
}

static void subtract(double *a, double f, const double *row, int n) {
  for (int j = 0; j < n && f != 0; j++) a[j] -= f * row[j];
}

// R with the row v more. Of equally large entries the last is the pivot: points are seen from the first.
static void add_row(Basis *b, const double *v) {
  int n = b->n, pivot = 0;
  double *rest = b->R + b->r * n, size = 0;

  if (b->r == n) return;
  memcpy(rest, v, sizeof *v * (size_t)n);
  for (int i = 0; i < b->r; i++) subtract(rest, rest[b->pivot[i]], b->R + i * n, n);

  for (int j = 0; j < n; j++) {
    size = fmax(size, fabs(v[j]));
    if (fabs(rest[j]) >= fabs(rest[pivot])) pivot = j;
  }

  if (!(fabs(rest[pivot]) > 1e-9 * size)) return;
  double one_over = 1 / rest[pivot];
  for (int j = 0; j < n; j++) rest[j] = fabs(rest[j]) > 1e-13 * size ? rest[j] * one_over : 0;
  for (int i = 0; i < b->r; i++) subtract(b->R + i * n, b->R[i * n + pivot], rest, n);
  b->pivot[b->r++] = pivot;
}

enum Kind { fixed, linear, bent };  // how a node depends on x; linear: with numbers as coefficients

// Kind of node i, and where it is linear its coefficients in row i of `row`.
static int linear_row(const pbGraph *g, int i, int n, const uint8_t *kind, double *row) {
  const pbNode *e = &g->node[i];
  int a = e->of[0], b = e->of[1], most = fixed;
  double *own = row + (size_t)i * (size_t)n, fa = 0, fb = 0;

  if (e->op == pb_opInput) {
    if (a < n) own[a] = 1;
    return a < n ? linear : fixed;
  }

  for (int k = 0; k < pbOp_Operands(e->op); k++)
    if (kind[e->of[k]] > most) most = kind[e->of[k]];
  if (most != linear) return most;

  switch (e->op) {
    case pb_opAdd: fa = fb = 1; break;
    case pb_opSub:
      fa = 1;
      fb = -1;
      break;
    case pb_opNeg: fa = -1; break;
    case pb_opMul:
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

    for (int k = 0; kind[i] == bent && k < pbOp_Operands(op_of(g, i)); k++) {
      int a = g->node[i].of[k];
      if (kind[a] == linear) add_row(b, row + (size_t)a * (size_t)b->n);
    }
  }
}

static Basis basis_of(pbGraph *g, const int *root, int roots) {
  Basis b = {.n = 3 * g->inputs.points};
  int count = g->count;
  size_t n = (size_t)b.n, room = (size_t)count * n;

  b.R = reals(g, n * n);
  b.pivot = ints(g, b.n);
  if (room > 1u << 22) {  // it would save work, but not here
    if (!g->status) whole_basis(&b);

    return b;
  }

  uint8_t *needed = flags(g, count), *kind = flags(g, count);
  double *row = reals(g, room);

  for (int k = 0; k < roots && !g->status; k++) needed[root[k]] = 2;
  if (!g->status) find_basis(g, count, needed, kind, row, &b);
  if (!g->status && b.r == b.n) whole_basis(&b);
  pbContext_Free(g->ctx, needed);
  pbContext_Free(g->ctx, kind);
  pbContext_Free(g->ctx, row);

  return b;
}

// ---- gradient and Hessian ---------------------------------------------------------------------------------------------
static void gradient_of(pbGraph *g, int value, int *gradient) {
  uint8_t *active = flags(g, value);
  int zero = constant(g, 0), n = 3 * g->inputs.points;

  for (int i = 0; i <= value && !g->status; i++)
    if (op_of(g, i) == pb_opInput && g->node[i].of[0] < n) active[i] = 2;
  int *adjoint = g->status ? NULL : reverse(g, value, active);
  for (int i = 0; i < n; i++) gradient[i] = zero;
  for (int i = 0; i <= value && !g->status; i++)
    if (active[i] == 2) gradient[g->node[i].of[0]] = adjoint[i];
  pbContext_Free(g->ctx, adjoint);
  pbContext_Free(g->ctx, active);
}

// Derivatives of nodes by the pivots, rows x r. symmetric: the nodes belong to the pivots; the lower triangle is made and
// mirrored.
static void jacobian_of(pbGraph *g, const int *node, int rows, const Basis *b, bool symmetric, int *jacobian) {
  int count = g->count, zero = constant(g, 0), *t = ints(g, g->count);
  uint8_t *needed = flags(g, g->count);

  for (int i = 0; i < rows && !g->status; i++) needed[node[i]] = 1;
  if (!g->status) mark_below(g, count, needed);
  for (int k = 0; k < b->r && !g->status; k++) {
    for (int i = 0; i < count; i++) {
      bool seed = op_of(g, i) == pb_opInput && g->node[i].of[0] == b->pivot[k];
      t[i] = seed ? constant(g, 1) : needed[i] ? tangent(g, i, t) : zero;
    }

    for (int i = symmetric ? k : 0; i < rows && !g->status; i++) {
      jacobian[i * b->r + k] = t[node[i]];
      if (symmetric) jacobian[k * b->r + i] = t[node[i]];
    }
  }

  pbContext_Free(g->ctx, needed);
  pbContext_Free(g->ctx, t);
}

static int weighted(pbGraph *g, int sum, double weight, int node) {
  return weight == 0 ? sum : pb_add(g, sum, pb_mul(g, constant(g, weight), node));
}

// rows x r times R: rows x n
static void times_basis(pbGraph *g, const int *a, int rows, const Basis *b, int *product) {
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < b->n; j++) {
      int sum = constant(g, 0);
      for (int k = 0; k < b->r; k++) sum = weighted(g, sum, b->R[k * b->n + j], a[i * b->r + k]);
      product[i * b->n + j] = sum;
    }
  }
}

// H = R'(H_z R), the lower triangle made and mirrored
static void congruence(pbGraph *g, const int *hz, const Basis *b, int *hessian) {
  int n = b->n, *half = ints(g, b->r * n);
  if (!g->status) times_basis(g, hz, b->r, b, half);
  for (int i = 0; i < n && !g->status; i++) {
    for (int j = 0; j <= i; j++) {
      int sum = constant(g, 0);
      for (int k = 0; k < b->r; k++) sum = weighted(g, sum, b->R[k * n + i], half[k * n + j]);
      hessian[i * n + j] = hessian[j * n + i] = sum;
    }
  }

  pbContext_Free(g->ctx, half);
}

static void symmetric_hessian(pbGraph *g, pbDerived *d) {
  Basis b = basis_of(g, &d->value, 1);
  int *gz = ints(g, b.r), *hz = ints(g, b.r * b.r);

  for (int k = 0; k < b.r && !g->status; k++) gz[k] = d->gradient[b.pivot[k]];
  if (!g->status) jacobian_of(g, gz, b.r, &b, true, hz);
  if (!g->status) congruence(g, hz, &b, d->hessian);
  pbContext_Free(g->ctx, gz);
  pbContext_Free(g->ctx, hz);
  basis_destroy(g->ctx, &b);
}

// With freeze() the gradient has held something that its Jacobian does not hold.
static void frozen_hessian(pbGraph *g, pbDerived *d) {
  int n = 3 * g->inputs.points;
  unfreeze(g, d->gradient, n);
  Basis b = basis_of(g, d->gradient, n);
  int *jacobian = ints(g, n * b.r);
  if (!g->status) jacobian_of(g, d->gradient, n, &b, false, jacobian);
  if (!g->status) times_basis(g, jacobian, n, &b, d->hessian);
  pbContext_Free(g->ctx, jacobian);
  basis_destroy(g->ctx, &b);
}

// ---- pullback ---------------------------------------------------------------------------------------------------------
// phi = w . gradient is the tangent of the value along w, and one number: one reverse sweep has all its derivatives.
static int along_weights(pbGraph *g, int value) {
  int *t = ints(g, value + 1), zero = constant(g, 0), phi = zero;
  for (int i = 0; i <= value && !g->status; i++) {
    const pbNode e = g->node[i];
    if (e.op == pb_opInput) t[i] = e.of[0] < g->inputs.rest ? pbGraph_Input(g, g->inputs.weight + e.of[0]) : zero;
    else t[i] = pbOp_Operands(e.op) ? tangent(g, i, t) : zero;
  }

  if (!g->status) phi = t[value];
  pbContext_Free(g->ctx, t);
  return phi;
}

static bool is_variable(const pbGraph *g, const pbEnergyDef *def, int input) {
  if (input >= g->inputs.weight) return false;
  for (int i = 0; i < def->parameter_count; i++)
    if (input >= g->inputs.parameter[i] && input < g->inputs.parameter[i + 1]) return !def->parameters[i].constant;

  return true;
}

static void pullback_of(pbGraph *g, const pbEnergyDef *def, pbDerived *d) {
  int phi = along_weights(g, d->value);
  if (!d->symmetric && !g->status) unfreeze(g, &phi, 1);
  uint8_t *active = flags(g, phi);
  for (int i = 0; i <= phi && !g->status; i++)
    if (op_of(g, i) == pb_opInput && is_variable(g, def, g->node[i].of[0])) active[i] = 2;
  int *adjoint = g->status ? NULL : reverse(g, phi, active), zero = constant(g, 0);
  for (int i = 0; i < g->inputs.weight; i++) d->pull[i] = zero;
  for (int i = 0; i <= phi && !g->status; i++)
    if (active[i] == 2) d->pull[g->node[i].of[0]] = adjoint[i];
  pbContext_Free(g->ctx, adjoint);
  pbContext_Free(g->ctx, active);
}

static bool has_freeze(const pbGraph *g, int value) {
  for (int i = 0; i <= value; i++)
    if (op_of(g, i) == pb_opFreeze) return true;
  return false;
}

void pbDerive_All(pbGraph *g, const pbEnergyDef *def, int value, pbDerived *d) {
  int n = 3 * g->inputs.points;
  *d = (pbDerived){.value = value, .gradient = ints(g, n), .hessian = ints(g, n * n), .pull = ints(g, g->inputs.weight)};
  if (g->status) return;
  d->symmetric = !has_freeze(g, value);
  gradient_of(g, value, d->gradient);
  if (!g->status && d->symmetric) symmetric_hessian(g, d);
  if (!g->status && !d->symmetric) frozen_hessian(g, d);
  if (!g->status) pullback_of(g, def, d);
  if (!d->symmetric && !g->status) unfreeze(g, &d->value, 1);
}

void pbDerived_Destroy(pbContext *ctx, pbDerived *d) {
  pbContext_Free(ctx, d->gradient);
  pbContext_Free(ctx, d->hessian);
  pbContext_Free(ctx, d->pull);
}
