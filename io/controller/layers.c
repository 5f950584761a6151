// Layers of a policy as C: the sums of policy/layer_*.c for one world, in the same order, so that they have the same bits.
// Tests: tests/unit/test_policy_c.c.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "io/controller/controller.h"

static bool single(const pbPrinted *p) { return strcmp(p->type, "float") == 0; }

static void put_number(const pbPrinted *p, double value) {
  pbPrinted_Number(p->out, single(p) ? (double)(float)value : value, single(p));
}

// A constant array in the type that layers compute in, or in double; returns its number.
static int put_array(pbPrinted *p, const double *value, int count, bool in_double) {
  int number = p->arrays++;
  fprintf(p->out, "static const %s %s_c%d[%d] = {", in_double ? "double" : p->type, p->name, number, count);

  for (int i = 0; i < count; i++) {
    fprintf(p->out, "%s", i % 4 ? " " : "\n    ");
    if (in_double) pbPrinted_Number(p->out, value[i], false);
    else put_number(p, value[i]);
    fprintf(p->out, "%s", i + 1 < count ? "," : "};\n");
  }

  return number;
}

// ---- a layer: constants before the function, lines in it -------------------------------------------------------------------
// Names of constants in the order in which both passes meet the layers.
typedef struct Writer {
  pbPrinted *p;
  bool constants;  // the first pass
  int array, rows, formula;
} Writer;

static int array_of(Writer *w, const double *value, int count, bool in_double) {
  if (w->constants) put_array(w->p, value, count, in_double);
  return w->array++;
}

static void put_chain(Writer *w, const pbChain *chain, const char *from, const char *to);

#define LINES(...)                                   \
  do {                                               \
    if (!w->constants) fprintf(p->out, __VA_ARGS__); \
  } while (0)

static void put_dense(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  const double *weight = p->param + l->param;
  int a = array_of(w, weight, l->outputs * l->inputs, false), b = array_of(w, weight + l->outputs * l->inputs, l->outputs, false);
  LINES("  for (int i = 0; i < %d; i++) %s[i] = %s_c%d[i];\n", l->outputs, y, p->name, b);
  LINES("  add_product(%d, %d, %s_c%d, %s, %s);\n", l->outputs, l->inputs, p->name, a, x, y);
}

static const char *const activations[pb_activationCount] = {
    [pb_activationRelu] = "%s[i] < 0 ? 0 : %s[i]",
    [pb_activationTanh] = "pb_tanh(%s[i])",
    [pb_activationElu] = "%s[i] > 0 ? %s[i] : pb_expm1(%s[i] > 0 ? 0 : %s[i])",
    [pb_activationSoftplus] = "%s[i] > 0 ? %s[i] + pbLog1p(pbExp(-%s[i])) : pbLog1p(pbExp(%s[i]))",
    [pb_activationSigmoid] = "pb_sigmoid(%s[i])",
    [pb_activationSilu] = "%s[i] * pb_sigmoid(%s[i])"};

static void put_activation(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  LINES("  for (int i = 0; i < %d; i++) %s[i] = (%s)(", l->outputs, y, p->type);

  for (const char *at = activations[l->activation]; *at; at++) {
    bool name = at[0] == '%';
    if (name) LINES("%s", x);
    else LINES("%c", *at);
    at += name;
  }
  LINES(");\n");
}

static void put_constant(Writer *w, double value) {
  if (!w->constants) put_number(w->p, value);
}

static void put_clip(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  LINES("  for (int i = 0; i < %d; i++) {\n    const %s lower = ", l->outputs, p->type);
  put_constant(w, l->lower);
  LINES(", upper = ");
  put_constant(w, l->upper);
  LINES(";\n    %s[i] = %s[i];\n    if (%s[i] < lower) %s[i] = lower;\n    if (%s[i] > upper) %s[i] = upper;\n  }\n", y, x, x, y,
        x, y);
}

static void put_scale(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  int scale = array_of(w, l->number, l->inputs, false), offset = array_of(w, l->number + l->inputs, l->inputs, false);
  LINES("  for (int i = 0; i < %d; i++) %s[i] = %s_c%d[i] * %s[i] + %s_c%d[i];\n", l->inputs, y, p->name, scale, x, p->name,
        offset);
}

static void put_normalize(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  const double *mean = p->param + l->param;
  int a = array_of(w, mean, l->inputs, false), b = array_of(w, mean + l->inputs, l->inputs, false);
  LINES("  for (int i = 0; i < %d; i++) %s[i] = (%s[i] - %s_c%d[i]) / %s_c%d[i];\n", l->inputs, y, x, p->name, a, p->name, b);
}

// Without the mean in y, then normed there, then by gain and bias.
static void put_norm(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  int n = l->inputs;
  const double *gain = p->param + l->param;
  int a = array_of(w, gain, n, false), b = array_of(w, gain + n, n, false);

  LINES("  {\n    %s mean = 0, inverse = 0;\n", p->type);
  LINES("    for (int i = 0; i < %d; i++) mean += %s[i];\n    mean /= %d;\n", n, x, n);
  LINES("    for (int i = 0; i < %d; i++) %s[i] = %s[i] - mean;\n", n, y, x);
  LINES("    for (int i = 0; i < %d; i++) inverse += %s[i] * %s[i];\n    inverse /= %d;\n", n, y, y, n);
  LINES("    inverse = 1 / %s(inverse + ", single(p) ? "sqrtf" : "sqrt");
  put_constant(w, 1e-5);
  LINES(");\n    for (int i = 0; i < %d; i++) {\n      %s[i] *= inverse;\n", n, y);
  LINES("      %s[i] = %s_c%d[i] * %s[i] + %s_c%d[i];\n    }\n  }\n", y, p->name, a, y, p->name, b);
}

// What explores in a training passes on what it gets.
static void put_explore(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  LINES("  for (int i = 0; i < %d; i++) %s[i] = %s[i];\n", l->inputs, y, x);
}

static void put_clock(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  int rest = l->inputs - 1, count = (l->outputs - rest) / 2;
  if (rest) LINES("  for (int i = 0; i < %d; i++) %s[i] = %s[i + 1];\n", rest, y, x);

  for (int k = 0; k < count; k++) {
    LINES("  {\n    double sine, cosine;\n    pbSinCos(");
    if (!w->constants) pbPrinted_Number(p->out, 2 * 3.14159265358979323846 * l->number[k], false);
    LINES(" * (double)%s[0], &sine, &cosine);\n    %s[%d] = (%s)sine;\n    %s[%d] = (%s)cosine;\n  }\n", x, y, rest + 2 * k,
          p->type, y, rest + 2 * k + 1, p->type);
  }
}

static void put_formula(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  for (int i = 0; i < l->outputs; i++) {
    const pbFormula *f = &l->formula[i];
    char name[160];
    snprintf(name, sizeof name, "%.100s_f%d", p->name, w->formula++);
    if (w->constants) {
      pbPrinted_Formula(p, name, f);
      continue;
    }

    fprintf(p->out, "  {\n    double in[%d];\n", f->used > 0 ? f->used : 1);
    for (int j = 0; j < f->used; j++) {
      fprintf(p->out, "    in[%d] = ", j);
      if (f->row[j] < l->inputs) fprintf(p->out, "(double)%s[%d]", x, f->row[j]);
      else pbPrinted_Number(p->out, p->param[l->param + f->row[j] - l->inputs], false);
      fprintf(p->out, ";\n");
    }
    if (!f->used) fprintf(p->out, "    in[0] = 0;\n");
    fprintf(p->out, "    %s[%d] = (%s)%s(in);\n  }\n", y, i, p->type, name);
  }
}

static void put_gru(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  int n = l->outputs, id = w->rows++;
  const double *weight = p->param + l->param, *recurrent = weight + 3 * n * l->inputs, *bias = recurrent + 3 * n * n;
  int a = array_of(w, weight, 3 * n * l->inputs, false), b = array_of(w, recurrent, 3 * n * n, false);
  int c = array_of(w, bias, 3 * n, false);

  LINES("  %s h%d[%d], g%d[%d];\n", p->type, id, n, id, 3 * n);
  LINES("  for (int i = 0; i < %d; i++) h%d[i] = (%s)m[%d + i];\n", n, id, p->type, l->state);
  LINES("  for (int i = 0; i < %d; i++) g%d[i] = %s_c%d[i];\n", 3 * n, id, p->name, c);
  LINES("  add_product(%d, %d, %s_c%d, %s, g%d);\n", 3 * n, l->inputs, p->name, a, x, id);
  LINES("  add_product(%d, %d, %s_c%d, h%d, g%d);\n", 2 * n, n, p->name, b, id, id);
  LINES("  for (int i = 0; i < %d; i++) g%d[i] = pb_sigmoid(g%d[i]);\n", 2 * n, id, id);

  // r h in the place of what comes out, which is written last
  LINES("  for (int i = 0; i < %d; i++) %s[i] = g%d[i] * h%d[i];\n", n, y, id, id);
  LINES("  add_product(%d, %d, %s_c%d + %d, %s, g%d + %d);\n", n, n, p->name, b, 2 * n * n, y, id, 2 * n);
  LINES("  for (int i = 0; i < %d; i++) {\n    %s z = g%d[%d + i], c = pb_tanh(g%d[%d + i]);\n", n, p->type, id, n, id, 2 * n);
  LINES("    %s[i] = z * h%d[i] + (1 - z) * c;\n    next[%d + i] = (double)%s[i];\n  }\n", y, id, l->state, y);
}

static void put_delay(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  int longest = l->memory / l->inputs;
  double delay = p->param[l->param], at = fmin(fmax(delay, 0), longest);
  int newer = (int)at < longest ? (int)at : longest - 1;
  char now[64], before[64];

  // inputs so many decisions ago: those of now are x
  if (newer) snprintf(now, sizeof now, "m[%d + i]", l->state + (newer - 1) * l->inputs);
  else snprintf(now, sizeof now, "(double)%.40s[i]", x);
  snprintf(before, sizeof before, "m[%d + i]", l->state + newer * l->inputs);

  LINES("  for (int i = 0; i < %d; i++) {\n    double newer = %s, older = %s;\n    %s[i] = (%s)(newer + ", l->inputs, now, before,
        y, p->type);
  if (!w->constants) pbPrinted_Number(p->out, at - newer, false);
  LINES(" * (older - newer));\n  }\n");
  LINES("  for (int i = 0; i < %d; i++) next[%d + i] = (double)%s[i];\n", l->inputs, l->state, x);
  if (longest > 1)
    LINES("  for (int i = 0; i < %d; i++) next[%d + i] = m[%d + i];\n", (longest - 1) * l->inputs, l->state + l->inputs,
          l->state);
}

static void put_limit(Writer *w, const char *what, double limit) {
  pbPrinted *p = w->p;
  if (limit == 0) return;
  LINES("    %s = clipped(%s, ", what, what);
  if (!w->constants) pbPrinted_Number(p->out, limit, false);
  LINES(");\n");
}

static void put_pd(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  int n = l->outputs, slices = l->params / n, gain[3] = {0};
  for (int k = 0; k < slices; k++) gain[k] = array_of(w, p->param + l->param + k * n, n, true);

  LINES("  for (int i = 0; i < %d; i++) {\n", n);
  LINES("    double e = (double)%s[i] - (double)%s[%d + i], v = ", x, x, n);
  if (slices > 1) LINES("(double)%s[%d + i], integral = 0;\n", x, 2 * n);
  else LINES("0, integral = 0;\n");
  if (l->memory) {
    LINES("    integral = m[%d + i] + ", l->state);
    if (!w->constants) pbPrinted_Number(p->out, l->interval, false);
    LINES(" * e;\n");
    put_limit(w, "integral", l->windup);
    LINES("    next[%d + i] = integral;\n", l->state);
  }

  // gains that a law does not have are zero
  LINES("    double tau = %s_c%d[i] * e - ", p->name, gain[0]);
  if (slices > 1) LINES("%s_c%d[i] * v + ", p->name, gain[1]);
  else LINES("0 * v + ");
  if (slices > 2) LINES("%s_c%d[i] * integral;\n", p->name, gain[2]);
  else LINES("0 * integral;\n");
  put_limit(w, "tau", l->limit);
  LINES("    %s[i] = (%s)tau;\n  }\n", y, p->type);
}

static void put_sum(Writer *w, const pbLayer *l, const char *x, const char *y) {
  pbPrinted *p = w->p;
  for (int k = 0; k < l->chains; k++) {
    char part[32];
    snprintf(part, sizeof part, "x%d", w->rows++);
    LINES("  %s %s[%d];\n", p->type, part, l->outputs);
    put_chain(w, &l->chain[k], x, part);
    LINES("  for (int i = 0; i < %d; i++) %s[i] %s %s[i];\n", l->outputs, y, k ? "+=" : "=", part);
  }
}

static void (*const writers[pb_layerKindCount])(Writer *w, const pbLayer *l, const char *x, const char *y) = {
    [pb_layerDense] = put_dense,
    [pb_layerActivation] = put_activation,
    [pb_layerClip] = put_clip,
    [pb_layerScale] = put_scale,
    [pb_layerNormalize] = put_normalize,
    [pb_layerClock] = put_clock,
    [pb_layerFormula] = put_formula,
    [pb_layerGru] = put_gru,
    [pb_layerSum] = put_sum,
    [pb_layerPd] = put_pd,
    [pb_layerPid] = put_pd,
    [pb_layerServo] = put_pd,
    [pb_layerDelay] = put_delay,
    [pb_layerNorm] = put_norm,
    [pb_layerExplore] = put_explore};

static void put_chain(Writer *w, const pbChain *chain, const char *from, const char *to) {
  pbPrinted *p = w->p;
  char x[32], y[32];
  snprintf(x, sizeof x, "%.30s", from);

  for (int i = 0; i < chain->count; i++) {
    const pbLayer *l = &chain->layer[i];
    bool last = i + 1 == chain->count;
    if (last) snprintf(y, sizeof y, "%.30s", to);
    else snprintf(y, sizeof y, "x%d", w->rows++);

    if (!last) LINES("  %s %s[%d];\n", p->type, y, l->outputs);
    LINES("  // %s\n", pbLayerKind_Name(l->kind));
    writers[l->kind](w, l, x, y);
    memcpy(x, y, sizeof x);
  }
}

// ---- a network -------------------------------------------------------------------------------------------------------------
const char *pbPrinted_Lacks(const pbChain *chain) {
  for (int i = 0; i < chain->count; i++) {
    const pbLayer *l = &chain->layer[i];
    if (!writers[l->kind]) return pbLayerKind_Name(l->kind);
    if (l->kind == pb_layerActivation && !activations[l->activation]) return pbActivation_Name(l->activation);
    for (int k = 0; k < l->chains; k++) {
      const char *lacks = pbPrinted_Lacks(&l->chain[k]);
      if (lacks) return lacks;
    }
  }

  return NULL;
}

void pbPrinted_Needs(pbPrinted *p, const pbChain *chain) {
  for (int i = 0; i < chain->count; i++) {
    const pbLayer *l = &chain->layer[i];
    bool softplus = l->kind == pb_layerActivation && l->activation == pb_activationSoftplus;
    bool smooth = l->kind == pb_layerActivation && l->activation != pb_activationRelu && !softplus;

    p->products = p->products || l->kind == pb_layerDense || l->kind == pb_layerGru;
    p->exponential = p->exponential || l->kind == pb_layerGru || smooth;
    p->formulas = p->formulas || l->kind == pb_layerFormula;
    p->elementary = p->elementary || softplus || l->kind == pb_layerClock || l->kind == pb_layerFormula;
    for (int k = 0; k < l->chains; k++) pbPrinted_Needs(p, &l->chain[k]);
  }
}

void pbPrinted_Network(pbPrinted *p, const char *part, const pbChain *chain) {
  Writer constants = {.p = p, .constants = true}, lines = {.p = p};
  lines.array = constants.array = p->arrays;
  lines.rows = constants.rows = p->rows;
  lines.formula = constants.formula = p->rows;
  put_chain(&constants, chain, "x", "y");

  fprintf(p->out, "\nstatic void %s_%s(const double *m, double *next, const %s *x, %s *y) {\n", p->name, part, p->type, p->type);
  fprintf(p->out, "  (void)m;\n  (void)next;\n");
  put_chain(&lines, chain, "x", "y");
  fprintf(p->out, "}\n\n");
  p->rows = lines.rows + lines.formula;
  PB_ASSERT(lines.array == p->arrays && constants.formula == lines.formula);
}
