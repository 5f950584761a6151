// The programs of an energy as C text: the same operations in the same order on a few elements side by side.
// Tests: tests/unit/test_energy_formula.c.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "energy/energy_inside.h"

typedef struct Text {
  pbContext *ctx;
  char *text;
  size_t length, capacity;
  bool failed;
} Text;

static bool reserve_text(Text *t, size_t more) {
  if (t->failed || t->length + more < t->capacity) return !t->failed;
  size_t capacity = 2 * t->capacity + more + 4096;
  char *grown = pbContext_Resize(t->ctx, t->text, capacity);

  if (!grown) {
    t->failed = true;
    return false;
  }

  t->text = grown;
  t->capacity = capacity;

  return true;
}

static void put(Text *t, const char *format, ...) PB_PRINTF(2, 3);
static void put(Text *t, const char *format, ...) {
  // What does not fit is written again, with room for it.
  for (int again = 0; again < 2; again++) {
    if (t->failed) return;
    size_t room = t->capacity - t->length;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(t->text ? t->text + t->length : NULL, room, format, args);
    va_end(args);

    if (length >= 0 && (size_t)length < room) {
      t->length += (size_t)length;
      return;
    }

    reserve_text(t, (size_t)length + 1);
  }
}

// All digits, with a point in every locale
static void put_number(Text *t, double value) {
  char digits[40];
  snprintf(digits, sizeof digits, "%.17g", value);

  for (char *s = digits; *s; s++) {
    if (!strchr("0123456789eE+-", *s)) *s = '.';
  }

  put(t, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

// ---- what stands before the functions ---------------------------------------------------------------------------------------
static void put_comment(Text *t, const char *text) {
  put(t, "//   ");
  if (text) {
    for (; *text; text++) put(t, *text == '\n' ? "\n//   " : "%c", *text);
  }

  put(t, "\n");
}

// Functions of C, lane by lane: X(code, operands as the loop has them)
static const struct {
  int code;
  const char *name, *body;
} lane_functions[] = {
    {pb_opSqrt_code, "sqrt", "sqrt(a[i])"},
    {pb_opLog_code, "log", "log(a[i])"},
    {pb_opExp_code, "exp", "exp(a[i])"},
    {pb_opSin_code, "sin", "sin(a[i])"},
    {pb_opCos_code, "cos", "cos(a[i])"},
    {pb_opAsin_code, "asin", "asin(a[i])"},
    {pb_opAcos_code, "acos", "acos(a[i])"},
    {pb_opExpm1_code, "expm1", "expm1(a[i])"},
    {pb_opLog1p_code, "log1p", "log1p(a[i])"},
    {pb_opSinh_code, "sinh", "sinh(a[i])"},
    {pb_opCosh_code, "cosh", "cosh(a[i])"},
    {pb_opTanh_code, "tanh", "tanh(a[i])"},
    {pb_opAsinh_code, "asinh", "asinh(a[i])"},
    {pb_opAcosh_code, "acosh", "acosh(a[i])"},
    {pb_opAtanh_code, "atanh", "atanh(a[i])"},
    {pb_opErf_code, "erf", "erf(a[i])"},
    {pb_opErfc_code, "erfc", "erfc(a[i])"},
    {pb_opAtan2_code, "atan2", "atan2(a[i], b[i])"},
    {pb_opPow_code, "pow", "pow(a[i], b[i])"},
    {pb_opAbs_code, "abs", "fabs(a[i])"},
    {pb_opSign_code, "sign", "a[i] > 0 ? 1 : a[i] < 0 ? -1 : a[i]"},
    {pb_opMin_code, "min", "a[i] <= b[i] ? a[i] : b[i] < a[i] ? b[i] : NAN"},
    {pb_opMax_code, "max", "a[i] >= b[i] ? a[i] : b[i] > a[i] ? b[i] : NAN"},
    {pb_opLess_code, "less", "a[i] < b[i] ? 1 : a[i] >= b[i] ? 0 : NAN"},
    {pb_opLessEqual_code, "less_equal", "a[i] <= b[i] ? 1 : a[i] > b[i] ? 0 : NAN"},
    {pb_opStretch_code, "stretch", "ROOT(a[i], b[i], c[i])"},
    {pb_opSelect_code, "select", "a[i] > 0 ? b[i] : a[i] <= 0 ? c[i] : NAN"},
};
enum { LANE_FUNCTIONS = sizeof lane_functions / sizeof *lane_functions };

static void put_explanation(Text *t, const pbEnergy *e) {
  put(t, "// The energy '%s', its gradient and its Hessian, for elements of %d points.\n", e->def.name, e->def.points);
  if (e->def.formula) put_comment(t, e->def.formula);
  put(t, "// vertex: count x %d; x, X, y: vertices x 3; parameters: ", e->def.points);
  for (int i = 0; i < e->def.parameter_count; i++) put(t, "%s%s", i ? ", " : "", e->parameter[i].name);
  put(t,
      ", each with its stride from one\n// element to the next (stride NULL: all 0). value: count; gradient: count x %d; "
      "hessian: "
      "count x %d x %d.\n",
      3 * e->def.points, 3 * e->def.points, 3 * e->def.points);
  put(t,
      "// Compile with -O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math. Outside of the domain results "
      "are\n"
      "// not finite.\n");
}

static void put_lane_functions(Text *t, const char *name) {
  // The same Newton iteration as pbOp_Stretch.
  put(t, "#include <math.h>\n#include <stddef.h>\n\n#ifndef PB_LANES\n#define PB_LANES 4\n#endif\n");
  put(t, "typedef double %s_lanes __attribute__((vector_size(8 * PB_LANES)));\n", name);
  put(t,
      "// The largest root f of (f^2 - a)^2 - 8 c f - 4 b\n"
      "static inline __attribute__((unused)) double %s_root(double a, double b, double c) {\n"
      "  double f = sqrt(3 * a);\n"
      "  for (int i = 0; i < 100; i++) {\n"
      "    double r = f * f - a, p = r * r - 8 * c * f - 4 * b, slope = 4 * f * r - 8 * c, step = p / slope;\n"
      "    if (!(slope > 0) || !(step > 1e-16 * f)) break;\n"
      "    f -= step;\n"
      "  }\n"
      "  return f;\n"
      "}\n#define ROOT %s_root\n",
      name, name);

  // One function for each, lane by lane: vectors of GCC have no functions of their own.
  put(t,
      "#define LANE_FUNCTION(name, expression) \\\n"
      "  static inline __attribute__((unused)) %s_lanes %s_##name(%s_lanes a, %s_lanes b, %s_lanes c) { \\\n"
      "    %s_lanes r; \\\n    for (int i = 0; i < PB_LANES; i++) r[i] = expression; \\\n    (void)b, (void)c; \\\n    return r; "
      "\\\n  }\n",
      name, name, name, name, name, name);

  for (int k = 0; k < LANE_FUNCTIONS; k++) put(t, "LANE_FUNCTION(%s, %s)\n", lane_functions[k].name, lane_functions[k].body);
  put(t, "#undef LANE_FUNCTION\n#undef ROOT\n");
}

// ---- one function -----------------------------------------------------------------------------------------------------
static void put_input(Text *t, const pbEnergy *e, const pbPort *port, const char *name, int k) {
  // By the groups of ports.
  static const char *const arrays[] = {"x", "X", "y", "h", "t"};
  put(t, "    %s_lanes i%d;\n    for (int i = 0; i < PB_LANES; i++) i%d[i] = ", name, k, k);
  if (port->group <= pb_groupPrevious)
    put(t, "%s[3 * (size_t)vertex[(size_t)at[i] * %d + %d] + %d];\n", arrays[port->group], e->def.points, port->index,
        port->offset);
  else if (port->group == pb_groupParameter)
    put(t, "parameter[%d][(stride ? (size_t)at[i] * (size_t)stride[%d] : 0) + %d];\n", port->index, port->index, port->offset);
  else put(t, "%s;\n", arrays[port->group]);
}

// Names of the values in slots: constants c, inputs i, results r with their numbers.
typedef struct Named {
  char kind;
  int number;
} Named;

// An operand that an operation does not have is written as its first, where a function of lanes takes three.
static void put_operation(Text *t, const pbInstruction *s, const char *name, const Named *in) {
  const Named *v[4];
  for (int k = 0; k < 4; k++) v[k] = &in[s->of[k < pbCode_Operands((pbCode)s->code) ? k : 0]];

// A letter and a number: the name of an operand.
#define V(k) v[k]->kind, v[k]->number
  switch (s->code) {
    case pb_opAdd_code: put(t, "%c%d + %c%d", V(0), V(1)); return;
    case pb_opSub_code: put(t, "%c%d - %c%d", V(0), V(1)); return;
    case pb_opMul_code: put(t, "%c%d * %c%d", V(0), V(1)); return;
    case pb_opDiv_code: put(t, "%c%d / %c%d", V(0), V(1)); return;
    case pb_opNeg_code: put(t, "-%c%d", V(0)); return;
    case pb_opFreeze_code: put(t, "%c%d", V(0)); return;
    case pb_mulAdd: put(t, "%c%d * %c%d + %c%d", V(0), V(1), V(2)); return;
    case pb_mulSub: put(t, "%c%d * %c%d - %c%d", V(0), V(1), V(2)); return;
    case pb_subMul: put(t, "%c%d - %c%d * %c%d", V(2), V(0), V(1)); return;
    case pb_mulAddMul: put(t, "%c%d * %c%d + %c%d * %c%d", V(0), V(1), V(2), V(3)); return;
    case pb_mulSubMul: put(t, "%c%d * %c%d - %c%d * %c%d", V(0), V(1), V(2), V(3)); return;
    default: break;
  }

  for (int k = 0; k < LANE_FUNCTIONS; k++) {
    if (lane_functions[k].code == s->code) put(t, "%s_%s(%c%d, %c%d, %c%d)", name, lane_functions[k].name, V(0), V(1), V(2));
  }
#undef V
}

static void put_outputs(Text *t, const pbProgram *p, const Named *in, const char *name, int n) {
  // All outputs of the lanes, then element by element to where they belong.
  put(t, "    const %s_lanes out[] = {", name);
  for (int k = 0; k < p->output_count; k++) {
    Named v = in[p->output[k]];
    put(t, "%s%c%d%s", k % 12 ? " " : "\n        ", v.kind, v.number, k + 1 < p->output_count ? "," : "};\n");
  }

  // Lanes beyond the last element repeat it and are not written.
  put(t, "    for (int i = 0; i < PB_LANES && e + i < count; i++) {\n      value[e + i] = out[0][i];\n");
  if (p->output_count > 1)
    put(t, "      for (int k = 0; k < %d; k++) gradient[(size_t)at[i] * %d + (size_t)k] = out[1 + k][i];\n", n, n);
  if (p->output_count > 1 + n)
    put(t, "      for (int k = 0; k < %d; k++) hessian[(size_t)at[i] * %d + (size_t)k] = out[%d + k][i];\n", n * n, n * n, 1 + n);
  put(t, "    }\n");
}

static void put_body(Text *t, const pbEnergy *e, const pbProgram *p, const char *name, Named *in) {
  // Constants are slots from zero on, inputs where their ports say.
  for (int k = 0; k < p->constant_count; k++) {
    in[k] = (Named){'c', k};
    put(t, "    const %s_lanes c%d = (%s_lanes){0} + ", name, k, name);
    put_number(t, p->constant[k]);
    put(t, ";\n");
  }

  for (int k = 0; k < p->input_count; k++) {
    in[p->input[k].slot] = (Named){'i', k};
    put_input(t, e, &p->input[k], name, k);
  }

  // One result for each instruction; its slot is named after the last that wrote there.
  for (int k = 0; k < p->count; k++) {
    put(t, "    const %s_lanes r%d = ", name, k);
    put_operation(t, &p->code[k], name, in);
    put(t, ";\n");
    in[p->code[k].to] = (Named){'r', k};
  }

  put_outputs(t, p, in, name, 3 * e->def.points);
}

static void put_function(Text *t, const pbEnergy *e, const pbProgram *p, const char *name, const char *what,
                         const char *results) {
  Named *in = pbContext_Alloc(t->ctx, (size_t)p->slots * sizeof *in);
  if (!in) t->failed = true;

  // A prototype, so that -Wmissing-prototypes has nothing to say.
  put(t,
      "\nvoid %s_%s(int count, const int *vertex, const double *x, const double *X, const double *y, const double *const "
      "*parameter,\n"
      "    const int *stride, double h, double t, %s);\n",
      name, what, results);
  put(t,
      "void %s_%s(int count, const int *vertex, const double *x, const double *X, const double *y, const double *const "
      "*parameter,\n"
      "    const int *stride, double h, double t, %s) {\n",
      name, what, results);

  put(t,
      "  (void)vertex, (void)x, (void)X, (void)y, (void)parameter, (void)stride, (void)h, (void)t;\n"
      "  for (int e = 0; e < count; e += PB_LANES) {\n    int at[PB_LANES];\n"
      "    for (int i = 0; i < PB_LANES; i++) at[i] = e + i < count ? e + i : count - 1;\n");
  if (!t->failed) put_body(t, e, p, name, in);
  put(t, "  }\n}\n");
  pbContext_Free(t->ctx, in);
}

char *pbEnergy_EmitC(const pbEnergy *e, const char *name) {
  Text t = {.ctx = e->ctx};
  reserve_text(&t, 1);
  put_explanation(&t, e);
  put_lane_functions(&t, name);
  put_function(&t, e, &e->value, name, "value", "double *value");
  put_function(&t, e, &e->gradient, name, "gradient", "double *value, double *gradient");
  put_function(&t, e, &e->hessian, name, "hessian", "double *value, double *gradient, double *hessian");

  if (!t.failed) return t.text;
  pbContext_Free(e->ctx, t.text);

  return NULL;
}
