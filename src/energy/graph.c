// Nodes of a graph: each made once, simplified as they are made. Simplification does not change what the result rounds to by more
// than rounding, and never makes a value where there was none.
// Tests: tests/unit/test_energy_oracle.c, tests/unit/test_energy.c.
#include "energy/graph.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "elementary/hyperbolic.h"

int pbOp_Operands(pbOp op) {
  static const uint8_t operands[pb_opCount] = {
#define X(id, n) n,
      PB_OP_TABLE(X)
#undef X
  };

  return operands[op];
}

void pbGraph_Fail(pbGraph *g, pbStatus status, const char *format, ...) {
  if (g->status) return;
  g->status = status;
  va_list args;
  va_start(args, format);
  vsnprintf(g->error, sizeof g->error, format, args);
  va_end(args);
}

// ---- nodes without duplicates -----------------------------------------------------------------------------------------
static uint64_t bits_of(double value) {
  uint64_t b;
  memcpy(&b, &value, sizeof b);
  return b;
}

// Multiplicative hashing (Knuth 1998, 6.4), by the golden ratio.
static uint64_t hash_node(const pbNode *n) {
  uint64_t h = n->op;
  for (int k = 0; k < 3; k++) h = (h ^ (uint64_t)n->of[k]) * 0x9e3779b97f4a7c15u;
  h = (h ^ bits_of(n->value)) * 0xbf58476d1ce4e5b9u;

  return h ^ (h >> 29);
}

// Values by their bits: a constant may be NaN, and zeros have one sign (pbGraph_Constant).
static bool same_node(const pbNode *a, const pbNode *b) {
  return a->op == b->op && !memcmp(a->of, b->of, sizeof a->of) && bits_of(a->value) == bits_of(b->value);
}

// Where the node is in the table, or the free place for it.
static int find_slot(const pbGraph *g, const pbNode *n) {
  int i = (int)(hash_node(n) & (uint64_t)(g->table_size - 1));
  while (g->table[i] && !same_node(&g->node[g->table[i] - 1], n)) i = (i + 1) & (g->table_size - 1);
  return i;
}

// Twice the room for nodes, and a table four times as large as the nodes.
static bool grow_nodes(pbGraph *g) {
  // A bound, since derivatives of a formula that is not long may be.
  int capacity = g->capacity ? 2 * g->capacity : 256;
  if (capacity > PB_GRAPH_MOST_NODES) {
    pbGraph_Fail(g, pb_bad_input, "the formula is too large: its derivatives take more than %d operations", PB_GRAPH_MOST_NODES);
    return false;
  }

  pbNode *nodes = pbContext_Resize(g->ctx, g->node, (size_t)capacity * sizeof *nodes);
  if (nodes) g->node = nodes;
  int *table = nodes ? pbContext_AllocArray(g->ctx, (size_t)capacity * 4, sizeof *table) : NULL;

  if (!table) {
    pbGraph_Fail(g, pb_no_memory, "out of memory");
    return false;
  }

  // All nodes again, in the larger table.
  pbContext_Free(g->ctx, g->table);
  g->table = table;
  g->table_size = 4 * capacity;
  g->capacity = capacity;
  for (int i = 0; i < g->count; i++) g->table[find_slot(g, &g->node[i])] = i + 1;

  return true;
}

static bool is(const pbGraph *g, int a, pbOp op) { return g->node[a].op == op; }
static bool is_value(const pbGraph *g, int a, double value) { return is(g, a, pb_opConstant) && g->node[a].value == value; }
static int of(const pbGraph *g, int a, int k) { return g->node[a].of[k]; }

// A select with 0 on one side is a guard: where that side is taken, what the other side is multiplied with may be anything,
// infinite as well. 0 times that would be NaN, so guards stay outside of products and quotients: (c ? a : 0) b is
// (c ? a b : 0). Sums of guards are guards, and a select of a guard is one.
static bool is_guard(const pbGraph *g, int a) { return g->node[a].guard; }

static bool becomes_guard(const pbGraph *g, const pbNode *n) {
  bool inside[3];

  for (int k = 0; k < 3; k++) inside[k] = g->node[n->of[k]].guard || (n->op == pb_opSelect && is_value(g, n->of[k], 0));

  switch (n->op) {
    case pb_opSelect: return inside[1] || inside[2];
    case pb_opAdd:
    case pb_opSub: return inside[0] && inside[1];
    case pb_opNeg: return inside[0];
    default: return false;
  }
}

// The number of a node: of the one that is there, or a new one behind all others.
static int make_node(pbGraph *g, pbNode n) {
  PB_ASSERT(n.op < pb_opCount);
  if (g->status) return 0;
  if (g->count == g->capacity && !grow_nodes(g)) return 0;
  int slot = find_slot(g, &n);

  // A new one: its operands are there, so they have smaller numbers.
  if (!g->table[slot]) {
    n.place = g->at;
    n.guard = pbOp_Operands(n.op) && becomes_guard(g, &n);
    g->node[g->count] = n;
    g->count++;
    g->table[slot] = g->count;
  }

  return g->table[slot] - 1;
}

int pbGraph_Constant(pbGraph *g, double value) {
  return make_node(g, (pbNode){.op = pb_opConstant, .value = value == 0 ? 0 : value});
}

int pbGraph_Input(pbGraph *g, int input) {
  PB_ASSERT(input >= 0 && input < g->inputs.count);
  return make_node(g, (pbNode){.op = pb_opInput, .of = {input}});
}

// ---- simplification ---------------------------------------------------------------------------------------------------
// op(a, b) within the guards of operand `k`, a or b
static int apply_inside_guard(pbGraph *g, pbOp op, int a, int b, int k) {
  const pbNode guard = g->node[k ? b : a];
  int part[2];

  for (int side = 0; side < 2; side++) {
    int p = guard.of[guard.op == pb_opSelect ? side + 1 : side];

    // The side that is zero stays so.
    if (is_value(g, p, 0)) part[side] = p;
    else part[side] = k ? pbGraph_Node(g, op, a, p, 0) : pbGraph_Node(g, op, p, b, 0);
  }

  if (guard.op == pb_opSelect) return pbGraph_Node(g, pb_opSelect, guard.of[0], part[0], part[1]);
  return pbGraph_Node(g, (pbOp)guard.op, part[0], part[1], 0);
}

// Whether a and b are guards by the same condition.
static bool same_guards(const pbGraph *g, int a, int b) {
  return is(g, a, pb_opSelect) && is(g, b, pb_opSelect) && is_guard(g, a) && is_guard(g, b) && of(g, a, 0) == of(g, b, 0);
}

// (c ? a : 0) + (c ? b : 0) = (c ? a + b : 0), and so for differences: one guard instead of two.
static int merge_guards(pbGraph *g, pbOp op, int a, int b) {
  int yes = pbGraph_Node(g, op, of(g, a, 1), of(g, b, 1), 0), no = pbGraph_Node(g, op, of(g, a, 2), of(g, b, 2), 0);
  return pbGraph_Node(g, pb_opSelect, of(g, a, 0), yes, no);
}

// Operands of sums and products in order, so that a + b and b + a are one node.
static int make_commutative(pbGraph *g, pbOp op, int a, int b) {
  return make_node(g, (pbNode){.op = (uint8_t)op, .of = {a < b ? a : b, a < b ? b : a}});
}

static int make_sum(pbGraph *g, int a, int b) {
  if (is_value(g, a, 0)) return b;
  if (is_value(g, b, 0)) return a;

  // a + a = 2 a, and signs: a + -b = a - b.
  if (a == b) return pb_mul(g, pbGraph_Constant(g, 2), a);
  if (is(g, b, pb_opNeg)) return pb_sub(g, a, of(g, b, 0));
  if (is(g, a, pb_opNeg)) return pb_sub(g, b, of(g, a, 0));
  if (same_guards(g, a, b)) return merge_guards(g, pb_opAdd, a, b);

  return make_commutative(g, pb_opAdd, a, b);
}

static int make_difference(pbGraph *g, int a, int b) {
  if (is_value(g, b, 0)) return a;
  if (is_value(g, a, 0)) return pb_neg(g, b);

  // a - a = 0, a - -b = a + b, -a - b = -(a + b).
  if (a == b) return pbGraph_Constant(g, 0);
  if (is(g, b, pb_opNeg)) return pb_add(g, a, of(g, b, 0));
  if (is(g, a, pb_opNeg)) return pb_neg(g, pb_add(g, of(g, a, 0), b));
  if (same_guards(g, a, b)) return merge_guards(g, pb_opSub, a, b);

  return make_node(g, (pbNode){.op = pb_opSub, .of = {a, b}});
}

// Whether a node is a number times something.
static bool has_factor(const pbGraph *g, int a) { return is(g, a, pb_opMul) && is(g, of(g, a, 0), pb_opConstant); }

static int make_product(pbGraph *g, int a, int b) {
  // Numbers first.
  if (is(g, b, pb_opConstant)) {
    int swap = a;
    a = b;
    b = swap;
  }

  // 0 b = 0, 1 b = b, -1 b = -b.
  if (is_value(g, a, 0)) return a;
  if (is_value(g, a, 1)) return b;
  if (is_value(g, a, -1)) return pb_neg(g, b);

  // Signs go outwards, or into the number.
  if (is(g, a, pb_opNeg)) return pb_neg(g, pb_mul(g, of(g, a, 0), b));

  if (is(g, b, pb_opNeg)) {
    if (is(g, a, pb_opConstant)) return pb_mul(g, pbGraph_Constant(g, -g->node[a].value), of(g, b, 0));
    return pb_neg(g, pb_mul(g, a, of(g, b, 0)));
  }

  if (is_guard(g, a)) return apply_inside_guard(g, pb_opMul, a, b, 0);
  if (is_guard(g, b)) return apply_inside_guard(g, pb_opMul, a, b, 1);

  // Factors that are numbers come first and are one.
  if (has_factor(g, b)) {
    // a (n r) = n (a r), or (a n) r where a is a number too and that is finite.
    int number = of(g, b, 0), rest = of(g, b, 1);
    double both = g->node[a].value * g->node[number].value;
    if (!is(g, a, pb_opConstant)) return pb_mul(g, number, pb_mul(g, a, rest));
    if (isfinite(both)) return pb_mul(g, pbGraph_Constant(g, both), rest);
  }

  if (has_factor(g, a)) return pb_mul(g, of(g, a, 0), pb_mul(g, of(g, a, 1), b));

  // sqrt(a) sqrt(a) = a.
  if (a == b && is(g, a, pb_opSqrt)) return of(g, a, 0);
  if (is(g, a, pb_opConstant)) return make_node(g, (pbNode){.op = pb_opMul, .of = {a, b}});

  return make_commutative(g, pb_opMul, a, b);
}

static int make_quotient(pbGraph *g, int a, int b) {
  if (is_value(g, b, 1)) return a;
  if (is(g, a, pb_opConstant) && !is_value(g, a, 1)) return pb_mul(g, a, pb_div(g, pbGraph_Constant(g, 1), b));

  // Division by a power of two is a product, exactly.
  if (is(g, b, pb_opConstant)) {
    double inverse = 1 / g->node[b].value;
    int exponent;

    if (fabs(frexp(inverse, &exponent)) == 0.5) return pb_mul(g, pbGraph_Constant(g, inverse), a);
  }

  if (is(g, a, pb_opNeg)) return pb_neg(g, pb_div(g, of(g, a, 0), b));
  if (is(g, b, pb_opNeg)) return pb_neg(g, pb_div(g, a, of(g, b, 0)));
  if (has_factor(g, a)) return pb_mul(g, of(g, a, 0), pb_div(g, of(g, a, 1), b));
  if (is_guard(g, a)) return apply_inside_guard(g, pb_opDiv, a, b, 0);

  return make_node(g, (pbNode){.op = pb_opDiv, .of = {a, b}});
}

static int make_negative(pbGraph *g, int a) {
  if (is(g, a, pb_opNeg)) return of(g, a, 0);

  // -(a - b) = b - a, -(n a) = (-n) a, and into the sides of a guard.
  if (is(g, a, pb_opSub)) return pb_sub(g, of(g, a, 1), of(g, a, 0));
  if (has_factor(g, a)) return pb_mul(g, pbGraph_Constant(g, -g->node[of(g, a, 0)].value), of(g, a, 1));
  if (is_guard(g, a) && is(g, a, pb_opSelect))
    return pbGraph_Node(g, pb_opSelect, of(g, a, 0), pb_neg(g, of(g, a, 1)), pb_neg(g, of(g, a, 2)));

  return make_node(g, (pbNode){.op = pb_opNeg, .of = {a}});
}

static int make_select(pbGraph *g, int c, int a, int b) {
  if (is(g, c, pb_opConstant)) return g->node[c].value > 0 ? a : b;

  // A choice by the same condition inside is decided.
  if (is(g, a, pb_opSelect) && of(g, a, 0) == c) a = of(g, a, 1);
  if (is(g, b, pb_opSelect) && of(g, b, 0) == c) b = of(g, b, 2);

  return a == b ? a : make_node(g, (pbNode){.op = pb_opSelect, .of = {c, a, b}});
}

// Newton's method from above, where the polynomial is convex: 3 a >= f^2 is Cauchy and Schwarz.
double pbOp_Stretch(double a, double b, double c) {
  double f = sqrt(3 * a);
  for (int i = 0; i < 100; i++) {
    double r = f * f - a, p = r * r - 8 * c * f - 4 * b, slope = 4 * f * r - 8 * c, step = p / slope;
    if (!(slope > 0) || !(step > 1e-16 * f)) break;
    f -= step;
  }

  return f;
}

// Comparisons of NaN are false both ways; what chooses by one gives NaN.
static double sign_of(double a) {
  if (a > 0) return 1;
  return a < 0 ? -1 : a;
}

static double least_of(double a, double b) {
  if (a <= b) return a;
  return b < a ? b : NAN;
}

static double largest_of(double a, double b) {
  if (a >= b) return a;
  return b > a ? b : NAN;
}

static double is_less(double a, double b) {
  if (a < b) return 1;
  return a >= b ? 0 : NAN;
}

static double is_less_equal(double a, double b) {
  if (a <= b) return 1;
  return a > b ? 0 : NAN;
}

static double choose(double a, double b, double c) {
  if (a > 0) return b;
  return a <= 0 ? c : NAN;
}

double pbOp_Value(pbOp op, double a, double b, double c) {
  // As the kernel computes, so that folding a constant changes no result.
  switch (op) {
    case pb_opAdd: return a + b;
    case pb_opSub: return a - b;
    case pb_opMul: return a * b;
    case pb_opDiv: return a / b;
    case pb_opNeg: return -a;
    case pb_opSqrt: return sqrt(a);
    case pb_opLog: return pbLog(a);
    case pb_opExp: return pbExp(a);
    case pb_opSin: return pbSin(a);
    case pb_opCos: return pbCos(a);
    case pb_opAsin: return pbAsin(a);
    case pb_opAcos: return pbAcos(a);
    case pb_opAtan2: return pbAtan2(a, b);
    case pb_opPow: return pbPow(a, b);
    case pb_opAbs: return fabs(a);
    case pb_opSign: return sign_of(a);
    case pb_opMin: return least_of(a, b);
    case pb_opMax: return largest_of(a, b);
    case pb_opLess: return is_less(a, b);
    case pb_opLessEqual: return is_less_equal(a, b);
    case pb_opSelect: return choose(a, b, c);
    case pb_opStretch: return pbOp_Stretch(a, b, c);
    case pb_opFreeze: return a;
    case pb_opExpm1: return pbExpm1(a);
    case pb_opLog1p: return pbLog1p(a);
    case pb_opSinh: return pbSinh(a);
    case pb_opCosh: return pbCosh(a);
    case pb_opTanh: return pbTanh(a);
    case pb_opAsinh: return pbAsinh(a);
    case pb_opAcosh: return pbAcosh(a);
    case pb_opAtanh: return pbAtanh(a);
    case pb_opErf: return pbErf(a);
    case pb_opErfc: return pbErfc(a);
    case pb_opConstant:
    case pb_opInput:
    case pb_opCount: break;
  }

  return NAN;
}

// The value where all operands are numbers and it is finite. What is not finite is left for the run to report.
static bool fold_constants(const pbGraph *g, pbOp op, const int operand[3], double *value) {
  double v[3] = {0};

  for (int k = 0; k < pbOp_Operands(op); k++) {
    if (!is(g, operand[k], pb_opConstant)) return false;
    v[k] = g->node[operand[k]].value;
  }

  *value = pbOp_Value(op, v[0], v[1], v[2]);
  return isfinite(*value);
}

int pbGraph_Node(pbGraph *g, pbOp op, int a, int b, int c) {
  double value;
  if (g->status) return 0;
  if (fold_constants(g, op, (int[3]){a, b, c}, &value)) return pbGraph_Constant(g, value);
  PB_ASSERT(a >= 0 && a < g->count && b >= 0 && b < g->count && c >= 0 && c < g->count);

  // Rules for operations that have some; all others are nodes as they are.
  switch (op) {
    case pb_opAdd: return make_sum(g, a, b);
    case pb_opSub: return make_difference(g, a, b);
    case pb_opMul: return make_product(g, a, b);
    case pb_opDiv: return make_quotient(g, a, b);
    case pb_opNeg: return make_negative(g, a);
    case pb_opSelect: return make_select(g, a, b, c);
    case pb_opMin:
    case pb_opMax:
      // min(a, a) = a.
      if (a == b) return a;
      break;
    case pb_opAbs:
      if (is(g, a, pb_opAbs)) return a;
      if (is(g, a, pb_opNeg)) a = of(g, a, 0);
      break;
    default: break;
  }

  return make_node(g, (pbNode){.op = (uint8_t)op, .of = {a, b, c}});
}

// x^n for n > 0 by squares
static int whole_power(pbGraph *g, int x, int n) {
  if (n == 1) return x;
  int half = whole_power(g, x, n / 2), square = pb_mul(g, half, half);
  return n % 2 ? pb_mul(g, x, square) : square;
}

int pbGraph_PowNode(pbGraph *g, int a, int b) {
  double p = g->status || !is(g, b, pb_opConstant) ? 0.25 : g->node[b].value;
  if (p == 0) return pbGraph_Constant(g, 1);

  // Small whole and half exponents by products and a root, which are faster than pow and have all derivatives.
  if (fabs(p) > 64 || 2 * p != floor(2 * p)) return pbGraph_Node(g, pb_opPow, a, b, 0);
  int whole = (int)floor(fabs(p)), y = whole ? whole_power(g, a, whole) : pbGraph_Constant(g, 1);
  if (whole != fabs(p)) y = pb_mul(g, y, pbGraph_Node(g, pb_opSqrt, a, 0, 0));

  return p < 0 ? pb_div(g, pbGraph_Constant(g, 1), y) : y;
}
