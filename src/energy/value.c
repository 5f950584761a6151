// Small values over scalar nodes: shapes, and every function of the formula language.
// Tests: tests/unit/test_energy_formula.c.
#include <math.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/context.h"
#include "energy/graph.h"

static const pbValue failed = {0};

static pbInputs number_inputs(const pbEnergyDef *def) {
  int n = 3 * def->points;
  pbInputs in = {.points = def->points, .parameter_count = def->parameter_count, .rest = n, .previous = 2 * n};

  // x, X, y, the time step, the time, parameters, then the weights of pullbacks.
  in.timestep = 3 * n;
  in.time = in.timestep + 1;
  in.parameter[0] = in.time + 1;
  for (int i = 0; i < def->parameter_count; i++)
    in.parameter[i + 1] = in.parameter[i] + def->parameters[i].rows * def->parameters[i].cols;
  in.weight = in.parameter[def->parameter_count];
  in.count = in.weight + n;

  return in;
}

static pbStatus check_definition(pbContext *ctx, const pbEnergyDef *def) {
  if (def->points < 1 || def->points > PB_ENERGY_POINTS)
    return pbContext_Fail(ctx, pb_bad_input, "an energy has 1 to %d points, not %d", PB_ENERGY_POINTS, def->points);
  if (def->parameter_count < 0 || def->parameter_count > PB_ENERGY_PARAMETERS)
    return pbContext_Fail(ctx, pb_bad_input, "an energy has at most %d parameters, not %d", PB_ENERGY_PARAMETERS,
                          def->parameter_count);

  for (int i = 0; i < def->parameter_count; i++) {
    const pbEnergyParameter *p = &def->parameters[i];
    if (p->rows < 1 || p->rows > 3 || p->cols < 1 || p->cols > 3)
      return pbContext_Fail(ctx, pb_bad_input, "parameter '%s': %d x %d numbers; up to 3 x 3 are possible",
                            p->name ? p->name : "", p->rows, p->cols);
  }

  return pb_ok;
}

pbStatus pbGraph_Create(pbContext *ctx, const pbEnergyDef *def, pbGraph **graph) {
  PB_TRY(check_definition(ctx, def));
  pbGraph *g = pbContext_Alloc(ctx, sizeof *g);
  if (!g) return pbContext_Fail(ctx, pb_no_memory, "out of memory");

  g->ctx = ctx;
  g->at.function = pb_fnCount;
  g->inputs = number_inputs(def);

  for (int i = 0; i < def->parameter_count; i++) {
    g->shape[i].rows = def->parameters[i].rows;
    g->shape[i].cols = def->parameters[i].cols;
  }

  *graph = g;
  return pb_ok;
}

void pbGraph_Destroy(pbGraph *g) {
  if (!g) return;
  pbContext *ctx = g->ctx;
  pbContext_Free(ctx, g->node);
  pbContext_Free(ctx, g->table);
  pbContext_Free(ctx, g);
}

// ---- leaves -----------------------------------------------------------------------------------------------------------
static pbValue scalar(int node) { return (pbValue){1, 1, {node}}; }

static pbValue input_value(pbGraph *g, int first, int rows, int cols) {
  pbValue v = {rows, cols, {0}};
  PB_ASSERT(rows >= 1 && rows <= 3 && cols >= 1 && cols <= 3);

  for (int i = 0; i < rows * cols; i++) v.node[i] = pbGraph_Input(g, first + i);
  return v;
}

static pbValue point_value(pbGraph *g, int first, int index, char letter) {
  if (index >= 0 && index < g->inputs.points) return input_value(g, first + 3 * index, 3, 1);
  pbGraph_Fail(g, pb_bad_input, "%c%d: the element has %d points, %c0 to %c%d", letter, index, g->inputs.points, letter, letter,
               g->inputs.points - 1);

  return failed;
}

pbValue pbGraph_Position(pbGraph *g, int index) { return point_value(g, 0, index, 'x'); }
pbValue pbGraph_Rest(pbGraph *g, int index) { return point_value(g, g->inputs.rest, index, 'X'); }
pbValue pbGraph_Previous(pbGraph *g, int index) { return point_value(g, g->inputs.previous, index, 'y'); }
pbValue pbGraph_Timestep(pbGraph *g) { return input_value(g, g->inputs.timestep, 1, 1); }
pbValue pbGraph_Time(pbGraph *g) { return input_value(g, g->inputs.time, 1, 1); }
pbValue pbGraph_Number(pbGraph *g, double value) { return scalar(pbGraph_Constant(g, value)); }

pbValue pbGraph_Parameter(pbGraph *g, int index) {
  if (index >= 0 && index < g->inputs.parameter_count)
    return input_value(g, g->inputs.parameter[index], g->shape[index].rows, g->shape[index].cols);
  pbGraph_Fail(g, pb_bad_input, "there is no parameter %d", index);

  return failed;
}

pbValue pbGraph_Identity(pbGraph *g, int n) {
  if (n < 1 || n > 3) {
    pbGraph_Fail(g, pb_bad_input, "identity is of 1, 2 or 3 rows, not %d", n);
    return failed;
  }

  pbValue v = {n, n, {0}};
  for (int i = 0; i < n * n; i++) v.node[i] = pbGraph_Constant(g, i % (n + 1) == 0);
  return v;
}

pbValue pbGraph_Columns(pbGraph *g, int count, const pbValue *column) {
  if (g->status) return failed;
  if (count < 1 || count > 3) {
    pbGraph_Fail(g, pb_bad_input, "[ ] takes 1 to 3 scalars or columns, not %d", count);
    return failed;
  }

  // All of one length.
  int rows = column[0].rows;
  for (int j = 0; j < count; j++) {
    if (column[j].rows == rows && column[j].cols == 1) continue;
    pbGraph_Fail(g, pb_bad_input, "[ ] takes scalars, or vectors of one length as columns");
    return failed;
  }

  // Scalars stand below each other, vectors beside each other.
  if (rows == 1) {
    pbValue v = {count, 1, {0}};
    for (int i = 0; i < count; i++) v.node[i] = column[i].node[0];

    return v;
  }

  pbValue v = {rows, count, {0}};
  for (int i = 0; i < rows * count; i++) v.node[i] = column[i % count].node[i / count];
  return v;
}

pbValue pbGraph_At(pbGraph *g, pbValue v, int row, int col) {
  if (g->status) return failed;
  if (row >= 0 && row < v.rows && col >= 0 && col < v.cols) return scalar(v.node[row * v.cols + col]);
  if (v.cols == 1) {
    pbGraph_Fail(g, pb_bad_input, "component %d of %d (they count from 0)", row, v.rows);
  } else {
    pbGraph_Fail(g, pb_bad_input, "entry %d, %d of a %d x %d matrix (they count from 0)", row, col, v.rows, v.cols);
  }

  return failed;
}

// ---- functions --------------------------------------------------------------------------------------------------------
typedef struct Text {
  char text[32];
} Text;

static Text shape_text(pbValue v) {
  Text t;
  if (v.rows == 1 && v.cols == 1) snprintf(t.text, sizeof t.text, "a scalar");
  else if (v.cols == 1) snprintf(t.text, sizeof t.text, "a vector of %d", v.rows);
  else snprintf(t.text, sizeof t.text, "a %d x %d matrix", v.rows, v.cols);

  return t;
}

static const char *name_of(pbFunction f) {
  static const char *const names[pb_fnCount] = {
#define X(id, name, least, most) name,
      PB_FUNCTION_TABLE(X)
#undef X
  };
  return names[f];
}

static pbValue refuse(pbGraph *g, pbFunction f, const char *wants, int count, const pbValue *a) {
  Text first = shape_text(a[0]);

  if (count == 1) pbGraph_Fail(g, pb_bad_input, "'%s' takes %s, not %s", name_of(f), wants, first.text);
  else pbGraph_Fail(g, pb_bad_input, "'%s' takes %s, not %s and %s", name_of(f), wants, first.text, shape_text(a[1]).text);
  return failed;
}

static bool is_scalar(pbValue v) { return v.rows == 1 && v.cols == 1; }
static bool same_shape(pbValue a, pbValue b) { return a.rows == b.rows && a.cols == b.cols; }
static bool is_square(pbValue v) { return v.rows == v.cols; }

// Entry by entry.
static pbValue each(pbGraph *g, pbOp op, pbValue a, pbValue b) {
  pbValue v = {a.rows, a.cols, {0}};
  PB_ASSERT(same_shape(a, b));

  for (int i = 0; i < a.rows * a.cols; i++) v.node[i] = pbGraph_Node(g, op, a.node[i], b.node[i], 0);
  return v;
}

// Every entry with one scalar.
static pbValue each_by(pbGraph *g, pbOp op, pbValue a, int s) {
  pbValue v = {a.rows, a.cols, {0}};
  for (int i = 0; i < a.rows * a.cols; i++) v.node[i] = pbGraph_Node(g, op, a.node[i], s, 0);
  return v;
}

static pbValue transpose(pbValue a) {
  pbValue v = {a.cols, a.rows, {0}};
  for (int i = 0; i < a.rows; i++) {
    for (int j = 0; j < a.cols; j++) v.node[j * a.rows + i] = a.node[i * a.cols + j];
  }

  return v;
}

static pbValue product(pbGraph *g, pbValue a, pbValue b) {
  pbValue v = {a.rows, b.cols, {0}};
  PB_ASSERT(a.cols == b.rows && a.rows <= 3 && b.cols <= 3);

  for (int i = 0; i < a.rows; i++) {
    for (int j = 0; j < b.cols; j++) {
      // Sums begin with their first term, not with zero.
      int sum = pb_mul(g, a.node[i * a.cols], b.node[j]);
      for (int k = 1; k < a.cols; k++) sum = pb_add(g, sum, pb_mul(g, a.node[i * a.cols + k], b.node[k * b.cols + j]));
      v.node[i * b.cols + j] = sum;
    }
  }

  return v;
}

static pbValue multiply(pbGraph *g, const pbValue *a) {
  // A scalar with anything, then matrices.
  if (is_scalar(a[0])) return each_by(g, pb_opMul, a[1], a[0].node[0]);
  if (is_scalar(a[1])) return each_by(g, pb_opMul, a[0], a[1].node[0]);
  if (a[0].cols == a[1].rows) return product(g, a[0], a[1]);

  // Two columns: which product is meant?
  if (a[0].cols == 1 && a[1].cols == 1) {
    pbGraph_Fail(g, pb_bad_input, "a product of two vectors: dot(a, b), cross(a, b) or outer(a, b)?");
    return failed;
  }

  return refuse(g, pb_fnMul, "as many columns as rows", 2, a);
}

static int dot(pbGraph *g, pbValue a, pbValue b) {
  int sum = pb_mul(g, a.node[0], b.node[0]);
  for (int i = 1; i < a.rows * a.cols; i++) sum = pb_add(g, sum, pb_mul(g, a.node[i], b.node[i]));
  return sum;
}

static int norm(pbGraph *g, pbValue a) { return pbGraph_Node(g, pb_opSqrt, dot(g, a, a), 0, 0); }

// a[i] b[j] - a[j] b[i]
static int minor(pbGraph *g, const int *a, const int *b, int i, int j) {
  return pb_sub(g, pb_mul(g, a[i], b[j]), pb_mul(g, a[j], b[i]));
}

static pbValue cross(pbGraph *g, const int *a, const int *b) {
  return (pbValue){3, 1, {minor(g, a, b, 1, 2), minor(g, a, b, 2, 0), minor(g, a, b, 0, 1)}};
}

// The transposed matrix of cofactors: a adjugate(a) = det(a) 1
static pbValue adjugate(pbGraph *g, pbValue a) {
  const int *m = a.node;
  if (a.rows == 1) return scalar(pbGraph_Constant(g, 1));
  if (a.rows == 2) return (pbValue){2, 2, {m[3], pb_neg(g, m[1]), pb_neg(g, m[2]), m[0]}};

  // Its columns are cross products of the rows.
  pbValue c[3] = {cross(g, m + 3, m + 6), cross(g, m + 6, m), cross(g, m, m + 3)};

  return pbGraph_Columns(g, 3, c);
}

static int det(pbGraph *g, pbValue a) {
  const int *m = a.node;
  PB_ASSERT(is_square(a));

  if (a.rows == 1) return m[0];
  if (a.rows == 2) return minor(g, m, m + 2, 0, 1);

  return dot(g, (pbValue){3, 1, {m[0], m[1], m[2]}}, cross(g, m + 3, m + 6));
}

static pbValue inverse(pbGraph *g, pbValue a) {
  int one_over = pb_div(g, pbGraph_Constant(g, 1), det(g, a));
  return each_by(g, pb_opMul, adjugate(g, a), one_over);
}

// Sum of the principal stretches of a, the trace of S where a = R S with a rotation R. 3 x 3: by the invariants of a'a.
static int stretch(pbGraph *g, pbValue a) {
  const int *m = a.node;
  if (a.rows == 1) return m[0];

  // R S with a rotation by atan2(m2 - m1, m0 + m3): the trace is the length of that.
  if (a.rows == 2) return norm(g, (pbValue){2, 1, {pb_add(g, m[0], m[3]), pb_sub(g, m[2], m[1])}});
  pbValue cofactors = adjugate(g, a);

  return pbGraph_Node(g, pb_opStretch, dot(g, a, a), dot(g, cofactors, cofactors), det(g, a));
}

static pbValue extreme(pbGraph *g, pbOp op, int count, const pbValue *a) {
  int v = a[0].node[0];
  for (int k = 1; k < count; k++) v = pbGraph_Node(g, op, v, a[k].node[0], 0);
  return scalar(v);
}

static pbValue select_value(pbGraph *g, const pbValue *a) {
  if (!is_scalar(a[0]) || !same_shape(a[1], a[2])) {
    pbGraph_Fail(g, pb_bad_input, "'select' takes a scalar condition and two values of one shape, not %s, %s and %s",
                 shape_text(a[0]).text, shape_text(a[1]).text, shape_text(a[2]).text);
    return failed;
  }

  pbValue v = {a[1].rows, a[1].cols, {0}};
  int condition = a[0].node[0];
  for (int i = 0; i < v.rows * v.cols; i++) v.node[i] = pbGraph_Node(g, pb_opSelect, condition, a[1].node[i], a[2].node[i]);
  return v;
}

static pbValue trace(pbGraph *g, pbValue a) {
  int sum = a.node[0];
  for (int i = 1; i < a.rows; i++) sum = pb_add(g, sum, a.node[i * (a.cols + 1)]);
  return scalar(sum);
}

// Functions of square matrices.
static pbValue square_function(pbGraph *g, pbFunction f, const pbValue *a) {
  if (!is_square(a[0])) return refuse(g, f, "a square matrix", 1, a);

  switch (f) {
    case pb_fnDet: return scalar(det(g, a[0]));
    case pb_fnInverse: return inverse(g, a[0]);
    case pb_fnStretch: return scalar(stretch(g, a[0]));
    default: return trace(g, a[0]);
  }
}

// Functions of two values of one shape.
static pbValue pair_function(pbGraph *g, pbFunction f, const pbValue *a) {
  if (!same_shape(a[0], a[1])) return refuse(g, f, "two values of one shape", 2, a);

  switch (f) {
    case pb_fnAdd: return each(g, pb_opAdd, a[0], a[1]);
    case pb_fnSub: return each(g, pb_opSub, a[0], a[1]);
    default: return scalar(dot(g, a[0], a[1]));
  }
}

// Functions of vectors and matrices. *known: it is one of these.
static pbValue matrix_function(pbGraph *g, pbFunction f, const pbValue *a, bool *known) {
  // Shapes are checked here, or by those that are called.
  *known = true;

  switch (f) {
    case pb_fnAdd:
    case pb_fnSub:
    case pb_fnDot: return pair_function(g, f, a);
    case pb_fnDet:
    case pb_fnInverse:
    case pb_fnStretch:
    case pb_fnTrace: return square_function(g, f, a);
    case pb_fnMul: return multiply(g, a);
    case pb_fnDiv: return is_scalar(a[1]) ? each_by(g, pb_opDiv, a[0], a[1].node[0]) : refuse(g, f, "a scalar below", 2, a);
    case pb_fnNegate: return each_by(g, pb_opNeg, a[0], 0);
    case pb_fnNorm: return is_scalar(a[0]) ? refuse(g, f, "a vector or a matrix", 1, a) : scalar(norm(g, a[0]));
    case pb_fnNormalize:
      if (is_scalar(a[0])) return refuse(g, f, "a vector", 1, a);
      return each_by(g, pb_opMul, a[0], pb_div(g, pbGraph_Constant(g, 1), norm(g, a[0])));
    case pb_fnCross:
      if (a[0].rows != 3 || a[0].cols != 1 || !same_shape(a[0], a[1])) return refuse(g, f, "two vectors of 3", 2, a);
      return cross(g, a[0].node, a[1].node);
    case pb_fnOuter:
      if (a[0].cols != 1 || a[1].cols != 1) return refuse(g, f, "two vectors", 2, a);
      return product(g, a[0], transpose(a[1]));
    case pb_fnTranspose: return transpose(a[0]);
    case pb_fnFreeze: return each_by(g, pb_opFreeze, a[0], 0);
    case pb_fnSelect: return select_value(g, a);
    default: *known = false; return failed;
  }
}

// Functions that are made of others, and those that are one operation.
static pbValue curve_function(pbGraph *g, pbFunction f, int s, int b) {
  static const pbOp operation[pb_fnCount] = {
      [pb_fnExpm1] = pb_opExpm1, [pb_fnLog1p] = pb_opLog1p, [pb_fnSinh] = pb_opSinh,   [pb_fnCosh] = pb_opCosh,
      [pb_fnTanh] = pb_opTanh,   [pb_fnAsinh] = pb_opAsinh, [pb_fnAcosh] = pb_opAcosh, [pb_fnAtanh] = pb_opAtanh,
      [pb_fnErf] = pb_opErf,     [pb_fnErfc] = pb_opErfc};
  int size, square;
  switch (f) {
    case pb_fnExp2: return scalar(pbGraph_PowNode(g, pbGraph_Constant(g, 2), s));
    case pb_fnLog2: return scalar(pb_div(g, pbGraph_Node(g, pb_opLog, s, 0, 0), pbGraph_Constant(g, M_LN2)));
    case pb_fnLog10: return scalar(pb_div(g, pbGraph_Node(g, pb_opLog, s, 0, 0), pbGraph_Constant(g, M_LN10)));
    case pb_fnCbrt:
      // its argument may have any sign, a power's may not
      size = pbGraph_PowNode(g, pbGraph_Node(g, pb_opAbs, s, 0, 0), pbGraph_Constant(g, 1. / 3));
      return scalar(pb_mul(g, pbGraph_Node(g, pb_opSign, s, 0, 0), size));
    case pb_fnHypot:
      square = pb_add(g, pb_mul(g, s, s), pb_mul(g, b, b));
      return scalar(pbGraph_Node(g, pb_opSqrt, square, 0, 0));
    default: return f < pb_fnExpm1 ? failed : scalar(pbGraph_Node(g, operation[f], s, 0, 0));
  }
}

static pbValue scalar_function(pbGraph *g, pbFunction f, int count, const pbValue *a) {
  int s = a[0].node[0], one = pbGraph_Constant(g, 1);

  for (int k = 0; k < count; k++) {
    if (!is_scalar(a[k])) return refuse(g, f, count == 1 ? "a scalar" : "scalars", count > 1 ? 2 : 1, a);
  }

  // All of these are single operations, or two.
  int b = count > 1 ? a[1].node[0] : 0;
  switch (f) {
    case pb_fnPower:
    case pb_fnPow: return scalar(pbGraph_PowNode(g, s, b));
    case pb_fnLess: return scalar(pbGraph_Node(g, pb_opLess, s, b, 0));
    case pb_fnLessEqual: return scalar(pbGraph_Node(g, pb_opLessEqual, s, b, 0));
    case pb_fnGreater: return scalar(pbGraph_Node(g, pb_opLess, b, s, 0));
    case pb_fnGreaterEqual: return scalar(pbGraph_Node(g, pb_opLessEqual, b, s, 0));
    case pb_fnMin: return extreme(g, pb_opMin, count, a);
    case pb_fnMax: return extreme(g, pb_opMax, count, a);
    case pb_fnAbs: return scalar(pbGraph_Node(g, pb_opAbs, s, 0, 0));
    case pb_fnSign: return scalar(pbGraph_Node(g, pb_opSign, s, 0, 0));
    case pb_fnSqrt: return scalar(pbGraph_Node(g, pb_opSqrt, s, 0, 0));
    case pb_fnLog: return scalar(pbGraph_Node(g, pb_opLog, s, 0, 0));
    case pb_fnExp: return scalar(pbGraph_Node(g, pb_opExp, s, 0, 0));
    case pb_fnSin: return scalar(pbGraph_Node(g, pb_opSin, s, 0, 0));
    case pb_fnCos: return scalar(pbGraph_Node(g, pb_opCos, s, 0, 0));
    case pb_fnTan: return scalar(pb_div(g, pbGraph_Node(g, pb_opSin, s, 0, 0), pbGraph_Node(g, pb_opCos, s, 0, 0)));
    case pb_fnAsin: return scalar(pbGraph_Node(g, pb_opAsin, s, 0, 0));
    case pb_fnAcos: return scalar(pbGraph_Node(g, pb_opAcos, s, 0, 0));
    case pb_fnAtan: return scalar(pbGraph_Node(g, pb_opAtan2, s, one, 0));
    case pb_fnAtan2: return scalar(pbGraph_Node(g, pb_opAtan2, s, b, 0));
    default: return curve_function(g, f, s, b);
  }
}

static pbValue apply_shaped(pbGraph *g, pbFunction f, int count, const pbValue *a) {
  bool known;

  // One is a node of every graph: programs number what they compute in the order that it was made.
  pbGraph_Constant(g, 1);
  pbValue v = matrix_function(g, f, a, &known);
  return known ? v : scalar_function(g, f, count, a);
}

pbValue pbGraph_Apply(pbGraph *g, pbFunction f, int count, const pbValue *a) {
  static const struct {
    int least, most;
  } takes[pb_fnCount] = {
#define X(id, name, least, most) {least, most},
      PB_FUNCTION_TABLE(X)
#undef X
  };
  if (g->status) return failed;

  if ((unsigned)f >= pb_fnCount) {
    pbGraph_Fail(g, pb_bad_argument, "there is no function %d", (int)f);
  } else if (count < takes[f].least || count > takes[f].most) {
    pbGraph_Fail(g, pb_bad_input, "'%s' takes %d%s argument%s, not %d", name_of(f), takes[f].least,
                 takes[f].most > takes[f].least ? " or more" : "", takes[f].most == 1 ? "" : "s", count);
  }

  // Values of a graph have a shape; zeros are what a failed call returned.
  for (int k = 0; k < count && !g->status; k++) {
    if (a[k].rows < 1) pbGraph_Fail(g, pb_bad_argument, "'%s': an argument is no value of a graph", name_of(f));
  }

  if (g->status) return failed;

  // Faults name the function that stands in the formula, not by those that it is made of.
  uint8_t outer = g->at.function;
  g->at.function = (uint8_t)f;
  pbValue v = apply_shaped(g, f, count, a);
  g->at.function = outer;

  return g->status ? failed : v;
}
