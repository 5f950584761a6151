// Energies: a formula or a graph, its derivatives, their programs; and evaluation, which picks the program and the variant of the
// kernel.
// Tests: tests/unit/test_energy.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/mutate.h"
#include "base/own.h"
#include "energy/derive.h"
#include "energy/energy_inside.h"
#include "energy/formula.h"
#include "number/kernel_table.h"

// ---- creation ---------------------------------------------------------------------------------------------------------
static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "out of memory"); }

static bool copy_text(pbContext *ctx, const char *text, const char **copy) {
  return !text || (*copy = pbContext_CopyText(ctx, text));
}

static bool copy_definition(pbEnergy *e, const pbEnergyDef *def) {
  e->def.points = def->points;

  if (!copy_text(e->ctx, def->name ? def->name : "", &e->def.name) || !copy_text(e->ctx, def->formula, &e->def.formula))
    return false;
  e->parameter = pbContext_AllocArray(e->ctx, (size_t)def->parameter_count, sizeof *e->parameter);
  e->def.parameters = e->parameter;
  if (!e->parameter) return false;

  for (int i = 0; i < def->parameter_count; i++) {
    pbEnergyParameter *p = &e->parameter[i];
    *p = def->parameters[i];
    p->name = NULL;
    p->unit = NULL;
    e->def.parameter_count = i + 1;  // so that what is copied is freed where the next copy fails
    if (!copy_text(e->ctx, def->parameters[i].name ? def->parameters[i].name : "", &p->name)) return false;
    if (!copy_text(e->ctx, def->parameters[i].unit, &p->unit)) return false;
  }

  return true;
}

void pbEnergy_Destroy(pbEnergy *e) {
  if (!e) return;
  pbContext *ctx = e->ctx;
  pbProgram *programs[] = {&e->value, &e->gradient, &e->hessian, &e->pull_x, &e->pull_rest};
  for (int i = 0; i < 5; i++) pbProgram_Destroy(ctx, programs[i]);

  for (int i = 0; i < e->def.parameter_count; i++) {
    pbContext_Free(ctx, pb_own(e->parameter[i].name));
    pbContext_Free(ctx, pb_own(e->parameter[i].unit));
  }

  pbContext_Free(ctx, e->parameter);
  pbContext_Free(ctx, pb_own(e->def.name));
  pbContext_Free(ctx, pb_own(e->def.formula));
  pbContext_Free(ctx, e);
}

static void note_inputs(pbEnergy *e, const pbProgram *p) {
  for (int k = 0; k < p->input_count; k++) {
    if (p->input[k].group <= pb_groupTime) e->uses[p->input[k].group] = true;
  }
}

static bool chooses(const pbProgram *p) {
  for (int i = 0; i < p->count; i++) {
    switch (p->code[i].code) {
      case pb_opAbs_code:
      case pb_opSign_code:
      case pb_opMin_code:
      case pb_opMax_code:
      case pb_opSelect_code: return true;
      default: break;
    }
  }
  return false;
}

static void compile_programs(pbGraph *g, const pbDerived *d, pbEnergy *e) {
  int n = 3 * g->inputs.points, *all = pbContext_AllocArray(g->ctx, (size_t)(1 + n + n * n), sizeof *all);
  if (!all) {
    pbGraph_Fail(g, pb_no_memory, "out of memory");
    return;
  }

  // One list of outputs, of which the programs compute a part: value; and gradient; and Hessian.
  all[0] = d->value;
  memcpy(all + 1, d->gradient, sizeof *all * (size_t)n);
  memcpy(all + 1 + n, d->hessian, sizeof *all * (size_t)(n * n));

  const int outputs[] = {1, 1 + n, 1 + n + n * n};
  pbProgram *const programs[] = {&e->value, &e->gradient, &e->hessian};

  for (int i = 0; i < 3 && !g->status; i++) pbProgram_Compile(g, all, outputs[i], programs[i]);
  pbContext_Free(g->ctx, all);

  // Pullbacks by positions apart from all others: a pullback may want them alone.
  if (!g->status) pbProgram_CompilePull(g, d->pull, 0, n, &e->pull_x);
  if (!g->status) pbProgram_CompilePull(g, d->pull, n, g->inputs.weight, &e->pull_rest);
  note_inputs(e, &e->value);
  e->chooses = !g->status && chooses(&e->value);
  PB_ASSERT(g->status || e->hessian.output_count == 1 + n + n * n);
}

static pbStatus create_energy(pbContext *ctx, pbGraph *g, int value, const pbEnergyDef *def, pbEnergy **energy) {
  pbEnergy *e = pbContext_Alloc(ctx, sizeof *e);
  pbDerived d = {0};

  if (!e) return no_memory(ctx);
  e->ctx = ctx;

  // The definition, which messages and users read; then derivatives, then programs.
  if (!copy_definition(e, def)) pbGraph_Fail(g, pb_no_memory, "out of memory");
  if (!g->status) pbDerive_All(g, def, value, &d);
  e->symmetric = d.symmetric;
  if (!g->status) compile_programs(g, &d, e);
  pbDerived_Destroy(ctx, &d);

  if (!g->status) {
    *energy = e;
    return pb_ok;
  }

  pbEnergy_Destroy(e);
  return pbContext_Fail(ctx, g->status, "energy '%.64s': %s", def->name ? def->name : "", g->error);
}

pbStatus pbEnergy_FromGraph(pbContext *ctx, pbGraph *g, pbValue value, const pbEnergyDef *def, pbEnergy **energy) {
  if (!g->status && (value.rows != 1 || value.cols != 1))
    pbGraph_Fail(g, pb_bad_input, "the energy must be a scalar, not %d x %d numbers", value.rows, value.cols);
  if (!g->status && (def->points != g->inputs.points || def->parameter_count != g->inputs.parameter_count))
    pbGraph_Fail(g, pb_bad_argument, "the graph was made with other points or parameters");
  if (g->status) return pbContext_Fail(ctx, g->status, "energy '%.64s': %s", def->name ? def->name : "", g->error);

  return create_energy(ctx, g, value.node[0], def, energy);
}

pbStatus pbEnergy_Create(pbContext *ctx, const pbEnergyDef *def, pbEnergy **energy) {
  pbGraph *g;
  int value = 0;

  if (!def->formula) return pbContext_Fail(ctx, pb_bad_argument, "energy '%.64s' has no formula", def->name ? def->name : "");

  // Through a graph, which is of no use afterwards.
  PB_TRY(pbGraph_Create(ctx, def, &g));
  pbStatus status = pbFormula_CheckNames(ctx, def);
  if (!status) status = pbFormula_Read(g, def, &value);
  if (!status) status = create_energy(ctx, g, value, def, energy);
  pbGraph_Destroy(g);

  return status;
}

const pbEnergyDef *pbEnergy_Definition(const pbEnergy *e) { return &e->def; }
bool pbEnergy_Symmetric(const pbEnergy *e) { return e->symmetric; }
bool pbEnergy_Chooses(const pbEnergy *e) { return e->chooses; }
bool pbEnergy_Uses(const pbEnergy *e, pbEnergyInput input) { return e->uses[input]; }

// ---- evaluation -------------------------------------------------------------------------------------------------------
PB_KERNEL_DECLARE(run, pbRun_Elements)

pbRunElements *pbRun_Variant(int index) {
#define X(suffix) pbRun_Elements##suffix,
  static pbRunElements *const variants[] = {PB_VARIANTS(X)};
#undef X
  int variant = pbCpu_Variant(index);
  return variant < 0 ? NULL : variants[variant];
}

static size_t work_size(const pbEnergy *e, bool in_complex) {
  const pbProgram *programs[] = {&e->value, &e->gradient, &e->hessian, &e->pull_x, &e->pull_rest};
  size_t most = 0;

  for (int i = 0; i < 5; i++) {
    size_t size = pbRun_WorkSize(programs[i], in_complex);
    if (size > most) most = size;
  }

  return most;
}

size_t pbEnergy_WorkSize(const pbEnergy *e) { return work_size(e, false); }
size_t pbEnergy_WorkSizeComplex(const pbEnergy *e) { return work_size(e, true); }

static pbRun new_run(const pbEnergy *e, const pbComplexElements *in, void *work) {
  return (pbRun){.points = e->def.points,
                 .count = in->count,
                 .vertex = in->vertex,
                 .row = in->row,
                 .vertices = {in->x, in->rest, in->previous, in->timestep, in->time},
                 .parameter = in->parameter,
                 .stride = in->stride,
                 .work = work};
}

static const pbProgram *program_for(const pbEnergy *e, const pbComplexOut *out) {
  if (out->hessian) return &e->hessian;
  return out->gradient ? &e->gradient : &e->value;
}

static int evaluate(const pbEnergy *e, const pbComplexElements *in, const pbComplexOut *out, void *work, pbRunElements *elements,
                    pbEnergyFault *fault) {
  int n = 3 * e->def.points;
  PB_ASSERT(in->count >= 0 && (in->count == 0 || in->vertex || in->row));
  pbRun run = new_run(e, in, work);

  // Outputs of a program: the value, n of the gradient, n x n of the Hessian.
  run.program = program_for(e, out);
  run.rows[0] = (pbOutputRows){out->value, 0, 1};
  run.rows[1] = (pbOutputRows){out->gradient, 1, n};
  run.rows[2] = (pbOutputRows){out->hessian, 1 + n, n * n};

  return elements(&run, fault);
}

static bool pullback(const pbEnergy *e, const pbComplexElements *in, const void *w, const pbComplexBar *bar, void *work,
                     pbRunElements *elements, pbEnergyFault *fault) {
  pbRun run = new_run(e, in, work);
  PB_MUTE_NAMED(pb_muteEnergy, e->def.name);
  void *const to[] = {bar->x, bar->rest, bar->previous, bar->timestep, bar->time};

  // Cotangents by group, as the ports of the programs name them.
  memcpy(run.bar, to, sizeof to);
  run.parameter_bar = bar->parameter;
  PB_ASSERT(w || in->count == 0);
  run.vertices[pb_groupWeight] = w;
  if (fault) fault->element = -1;

  // Outputs that are not wanted are ignored: their program does not run.
  run.program = &e->pull_x;
  if (bar->x && elements(&run, fault) >= 0) return false;

  run.program = &e->pull_rest;
  bool rest = bar->rest || bar->previous || bar->timestep || bar->time || bar->parameter;

  return !rest || elements(&run, fault) < 0;
}

static pbComplexElements as_pointers(const pbElements *in) {
  return (pbComplexElements){in->count,  in->vertex,    in->x,     in->rest, in->previous, (const void *const *)in->parameter,
                             in->stride, &in->timestep, &in->time, in->row};
}

bool pbEnergy_Evaluate(const pbEnergy *e, const pbElements *in, const pbElementsOut *out, void *work, pbEnergyFault *fault) {
  pbComplexElements elements = as_pointers(in);
  pbComplexOut to = {out->value, out->gradient, out->hessian};

  return evaluate(e, &elements, &to, work, pbRun_Variant(0), fault) < 0;
}

bool pbEnergy_Pullback(const pbEnergy *e, const pbElements *in, const double *w, const pbElementsBar *bar, void *work,
                       pbEnergyFault *fault) {
  pbComplexElements elements = as_pointers(in);
  pbComplexBar to = {bar->x, bar->rest, bar->previous, (void *const *)bar->parameter, bar->timestep, bar->time};

  return pullback(e, &elements, w, &to, work, pbRun_Variant(0), fault);
}

bool pbEnergy_EvaluateComplex(const pbEnergy *e, const pbComplexElements *in, const pbComplexOut *out, void *work,
                              pbEnergyFault *fault) {
  return evaluate(e, in, out, work, pbRun_Elements_c, fault) < 0;
}
