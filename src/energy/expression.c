// Expressions: the graph of energies with inputs for coordinates of points, of which value and gradient are compiled and no more.
// Tests: tests/unit/test_expression.c.
#include "energy/expression.h"

#include "base/assert.h"
#include "base/context.h"
#include "energy/derive.h"
#include "energy/energy_inside.h"
#include "energy/formula.h"

struct pbExpression {
  pbContext *ctx;
  int points, most;
  pbProgram value, gradient;  // gradient: value first
  int *vertex;                // most x points: each evaluation has points of its own
  void *work;
};

// Number k of all inputs is coordinate k % 3 of point k / 3.
static pbValue number_at(pbGraph *g, int k) { return pbGraph_At(g, pbGraph_Position(g, k / 3), k % 3, 0); }

static pbStatus check_inputs(pbContext *ctx, const pbExpressionInput *inputs, int count, int *numbers) {
  *numbers = 0;
  for (int i = 0; i < count; i++) {
    const char *fault = pbFormula_NameFault(inputs[i].name);
    PB_ASSERT(inputs[i].count >= 1 && inputs[i].count <= 3);
    if (fault) return pbContext_Fail(ctx, pb_bad_input, "'%.60s': %s", inputs[i].name, fault);
    *numbers += inputs[i].count;
  }

  if (*numbers <= PB_EXPRESSION_NUMBERS) return pb_ok;
  return pbContext_Fail(ctx, pb_bad_input, "%d numbers; a formula takes at most %d", *numbers, (int)PB_EXPRESSION_NUMBERS);
}

static pbStatus read_named(pbGraph *g, const char *formula, const pbExpressionInput *inputs, int count, int *value) {
  pbFormulaName *names = pbContext_AllocArray(g->ctx, (size_t)count + 1, sizeof *names);
  if (!names) return pbContext_Fail(g->ctx, pb_no_memory, "out of memory");

  for (int i = 0, k = 0; i < count; i++) {
    pbValue part[3];
    for (int c = 0; c < inputs[i].count; c++) part[c] = number_at(g, k + c);
    k += inputs[i].count;
    names[i] = (pbFormulaName){inputs[i].name, inputs[i].count > 1 ? pbGraph_Columns(g, inputs[i].count, part) : part[0]};
  }

  pbStatus status = pbFormula_ReadNamed(g, formula, names, count, value);
  pbContext_Free(g->ctx, names);

  return status;
}

static void compile_programs(pbGraph *g, int value, pbExpression *e) {
  int nodes[1 + PB_EXPRESSION_NUMBERS] = {value};

  // What is held for a gradient would make it another's.
  for (int i = 0; i <= value; i++) {
    if (g->node[i].op == pb_opFreeze)
      pbGraph_Fail(g, pb_bad_input, "freeze() has no use here: derivatives are those of the formula");
  }

  if (!g->status) pbDerive_Gradient(g, value, nodes + 1);
  if (!g->status) pbProgram_Compile(g, nodes, 1, &e->value);
  if (!g->status) pbProgram_Compile(g, nodes, 1 + 3 * e->points, &e->gradient);
}

size_t pbExpression_WorkBytes(const pbExpression *e) {
  size_t value = pbRun_WorkSize(&e->value, false), gradient = pbRun_WorkSize(&e->gradient, false);
  return value > gradient ? value : gradient;
}

static pbStatus allocate_work(pbExpression *e) {
  int entries = e->most * e->points;
  size_t real = pbExpression_WorkBytes(e), in_complex = pbRun_WorkSize(&e->gradient, true);
  e->work = pbContext_Alloc(e->ctx, real > in_complex ? real : in_complex);
  e->vertex = pbContext_AllocArray(e->ctx, (size_t)entries, sizeof *e->vertex);
  if (!e->work || !e->vertex) return pbContext_Fail(e->ctx, pb_no_memory, "out of memory");

  for (int i = 0; i < entries; i++) e->vertex[i] = i;
  return pb_ok;
}

static pbStatus fill(pbExpression *e, const char *formula, const pbExpressionInput *inputs, int count) {
  pbEnergyDef def = {.points = e->points};
  pbGraph *g;
  int value = 0;
  PB_TRY(pbGraph_Create(e->ctx, &def, &g));

  pbStatus status = read_named(g, formula, inputs, count, &value);
  if (status == pb_ok) compile_programs(g, value, e);
  if (status == pb_ok && g->status) status = pbContext_Fail(e->ctx, g->status, "%s", g->error);
  pbGraph_Destroy(g);

  return status == pb_ok ? allocate_work(e) : status;
}

pbStatus pbExpression_Create(pbContext *ctx, const char *formula, const pbExpressionInput *inputs, int count, int most,
                             pbExpression **expression) {
  int numbers;
  *expression = NULL;
  PB_TRY(check_inputs(ctx, inputs, count, &numbers));
  pbExpression *e = pbContext_Alloc(ctx, sizeof *e);
  if (!e) return pbContext_Fail(ctx, pb_no_memory, "out of memory");

  e->ctx = ctx;
  e->most = most;
  e->points = numbers > 3 ? (numbers + 2) / 3 : 1;

  pbStatus status = (double)most * e->points > 1e8 ? pbContext_Fail(ctx, pb_capacity, "too many evaluations of a formula")
                                                   : fill(e, formula, inputs, count);
  if (status == pb_ok) *expression = e;
  else pbExpression_Destroy(e);

  return status;
}

void pbExpression_Destroy(pbExpression *e) {
  if (!e) return;
  pbProgram_Destroy(e->ctx, &e->value);
  pbProgram_Destroy(e->ctx, &e->gradient);
  pbContext_Free(e->ctx, e->vertex);
  pbContext_Free(e->ctx, e->work);
  pbContext_Free(e->ctx, e);
}

const pbProgram *pbExpression_Program(const pbExpression *e) { return &e->value; }

int pbExpression_Width(const pbExpression *e) { return 3 * e->points; }

bool pbExpression_EvaluateIn(const pbExpression *e, int count, const double *in, double *value, double *gradient, void *work,
                             pbEnergyFault *fault) {
  PB_ASSERT(count >= 0 && count <= e->most);
  pbRun run = {.program = gradient ? &e->gradient : &e->value,
               .points = e->points,
               .count = count,
               .vertex = e->vertex,
               .vertices = {in},
               .work = work,
               .rows = {{value, 0, 1}, {gradient, 1, 3 * e->points}}};

  return pbRun_Variant(0)(&run, fault) < 0;
}

// The gradient in dual numbers: complex ones whose imaginary parts are too small to have a square.
bool pbExpression_Second(const pbExpression *e, const double *in, const double *direction, double *change) {
  enum { width = PB_EXPRESSION_NUMBERS + 3 };
  const double tiny = 1e-150;
  _Complex double at[width], value, gradient[width];
  int n = pbExpression_Width(e);
  PB_ASSERT(n <= width);
  for (int i = 0; i < n; i++) {
    double *part = (double *)&at[i];
    part[0] = in[i];
    part[1] = tiny * direction[i];
  }

  pbEnergyFault fault;
  pbRun run = {.program = &e->gradient,
               .points = e->points,
               .count = 1,
               .vertex = e->vertex,
               .vertices = {at},
               .work = e->work,
               .rows = {{&value, 0, 1}, {gradient, 1, n}}};
  if (pbRun_Elements_c(&run, &fault) >= 0) return false;

  for (int i = 0; i < n; i++) change[i] = ((double *)&gradient[i])[1] / tiny;
  return true;
}

bool pbExpression_Evaluate(const pbExpression *e, int count, const double *in, double *value, double *gradient,
                           pbEnergyFault *fault) {
  return pbExpression_EvaluateIn(e, count, in, value, gradient, e->work, fault);
}
