// A policy's computation as JSON, for writers in other languages: layers one after the other, with what each takes.
// Tests: tests/unit/test_policy_c.c, tests/python/test_onnx.py.
#include <string.h>

#include <pullback/io.h>
#include <pullback/json.h>

#include "base/context.h"
#include "energy/expression.h"
#include "energy/program.h"
#include "io/controller/controller.h"
#include "model/policy_data.h"

typedef struct Layout {
  pbJson json;
  const pbPolicyModel *policy;
  int layers;  // that were written: the number of the last one
} Layout;

static int put_chain(Layout *t, const pbChain *chain, int from);

static void put_numbers(pbJson *j, const pbLayer *l) {
  if (l->kind == pb_layerScale) {
    pbJson_Numbers(j, "scale", l->number, (size_t)l->inputs);
    pbJson_Numbers(j, "offset", l->number + l->inputs, (size_t)l->inputs);
  }
  if (l->kind == pb_layerClock) pbJson_Numbers(j, "frequency", l->number, (size_t)(l->outputs - (l->inputs - 1)) / 2);
  if (l->kind == pb_layerActivation) pbJson_Text(j, "activation", pbActivation_Name(l->activation));
  if (l->kind == pb_layerClip) {
    pbJson_Number(j, "lower", l->lower);
    pbJson_Number(j, "upper", l->upper);
  }
  pbJson_Number(j, "limit", l->limit);
  pbJson_Number(j, "windup", l->windup);
  pbJson_Number(j, "interval", l->interval);
}

// Slots: constants, then what is read; then one instruction after the other.
static void put_formula(pbJson *j, const pbFormula *f) {
  const pbProgram *g = pbExpression_Program(f->expression);
  pbJson_OpenLine(j, NULL, '{');
  pbJson_Numbers(j, "constant", g->constant, (size_t)g->constant_count);

  pbJson_Open(j, "read", '[');
  for (int k = 0; k < g->input_count; k++) {
    pbJson_Open(j, NULL, '[');
    pbJson_Integer(j, NULL, g->input[k].slot);
    pbJson_Integer(j, NULL, f->row[3 * g->input[k].index + g->input[k].offset]);
    pbJson_Close(j, ']');
  }
  pbJson_Close(j, ']');

  pbJson_Open(j, "code", '[');
  for (int k = 0; k < g->count; k++) {
    const pbInstruction *at = &g->code[k];
    pbJson_Open(j, NULL, '[');
    pbJson_Text(j, NULL, pbPrinted_Operation(at->code));
    pbJson_Integer(j, NULL, at->to);
    for (int i = 0; i < pbCode_Operands((pbCode)at->code); i++) pbJson_Integer(j, NULL, at->of[i]);
    pbJson_Close(j, ']');
  }
  pbJson_Close(j, ']');
  pbJson_Integer(j, "result", g->output[0]);
  pbJson_Close(j, '}');
}

static void begin_layer(Layout *t, const pbLayer *l) {
  pbJson *j = &t->json;
  pbJson_OpenLine(j, NULL, '{');
  pbJson_Text(j, "kind", pbLayerKind_Name(l->kind));
  pbJson_Integer(j, "inputs", l->inputs);
  pbJson_Integer(j, "outputs", l->outputs);
  pbJson_Integer(j, "memory", l->memory);
  pbJson_Integer(j, "state", l->state);
  pbJson_Integer(j, "param", (int64_t)t->policy->theta + l->param);
  pbJson_Integer(j, "params", l->params);
  pbJson_Open(j, "of", '[');
}

static int put_layer(Layout *t, const pbLayer *l, int from) {
  pbJson *j = &t->json;
  begin_layer(t, l);
  pbJson_Integer(j, NULL, from);
  pbJson_Close(j, ']');
  put_numbers(j, l);

  if (l->kind == pb_layerFormula) {
    pbJson_Open(j, "formula", '[');
    for (int i = 0; i < l->outputs; i++) put_formula(j, &l->formula[i]);
    pbJson_Close(j, ']');
  }
  pbJson_Close(j, '}');
  return ++t->layers;
}

// The chains come first, each from the same inputs.
static int put_sum(Layout *t, const pbLayer *l, int from) {
  int sum = put_chain(t, &l->chain[0], from);
  for (int k = 1; k < l->chains; k++) {
    int part = put_chain(t, &l->chain[k], from);
    begin_layer(t, l);
    pbJson_Integer(&t->json, NULL, sum);
    pbJson_Integer(&t->json, NULL, part);
    pbJson_Close(&t->json, ']');
    pbJson_Close(&t->json, '}');
    sum = ++t->layers;
  }

  return sum;
}

static int put_chain(Layout *t, const pbChain *chain, int from) {
  for (const pbLayer *l = chain->layer; l < chain->layer + chain->count; l++)
    from = l->kind == pb_layerSum ? put_sum(t, l, from) : put_layer(t, l, from);

  return from;
}

// ---- what is given and what comes out --------------------------------------------------------------------------------------
static void put_observed(pbJson *j, const pbModel *m) {
  char text[PB_PRINTED_TEXT];
  int input = 0;
  const pbPolicyModel *policy = m->policy;
  pbJson_Open(j, "observe", '[');

  for (const pbObserveRow *r = policy->row; r < policy->row + policy->rows; r++) {
    for (int k = 0; k < r->count; k++) {
      int component = r->component ? r->component[k] : k;
      pbPrinted_Observation(m, r, k, text, sizeof text);
      pbJson_OpenLine(j, NULL, '{');
      pbJson_Text(j, "name", text);
      if (r->kind == pb_observeLast) pbJson_Integer(j, "last", r->first + component);
      else pbJson_Integer(j, "input", input++);
      pbJson_Number(j, "scale", r->scale);
      pbJson_Close(j, '}');
    }
  }
  pbJson_Close(j, ']');
}

static void put_outputs(pbJson *j, const pbModel *m) {
  char text[PB_PRINTED_TEXT];
  pbJson_Open(j, "output", '[');
  for (int i = 0; i < m->policy->outputs; i++) {
    pbPrinted_Target(m, &m->policy->target[i], text, sizeof text);
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", text);
    pbJson_Number(j, "scale", m->policy->target[i].scale);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}

static void put_layout(Layout *t, const pbModel *m, const double *theta) {
  pbJson *j = &t->json;
  pbJson_Open(j, NULL, '{');
  pbJson_Integer(j, "every", t->policy->every);
  pbJson_Number(j, "interval", t->policy->every * pbPrinted_TimeStep(m, theta));
  pbJson_Integer(j, "held", t->policy->held);
  pbJson_Integer(j, "memory", t->policy->memory);
  put_observed(j, m);
  put_outputs(j, m);

  pbJson_Open(j, "layers", '[');
  put_chain(t, &((const pbNetwork *)t->policy->decide->self)->chain, 0);
  pbJson_Close(j, ']');
  pbJson_Close(j, '}');
}

pbStatus pbPolicy_Layout(pbContext *ctx, const pbModel *model, const double *theta, char **text) {
  *text = NULL;
  theta = theta ? theta : pbModel_DefaultParams(model);
  if (!pbPolicy_Text(model))
    return pbContext_Fail(ctx, pb_bad_argument, "the model has no policy with a description, as one from a file has");
  if (model->policy->act)
    return pbContext_Fail(ctx, pb_unsupported, "a policy with a part that acts in every step ('act') has no layout");

  pbDraft draft;
  size_t size;
  PB_TRY(pbDraft_Begin(ctx, &draft));
  Layout t = {.json = {.out = draft.stream, .compact = true}, .policy = model->policy};
  put_layout(&t, model, theta);
  return pbDraft_End(&draft, text, &size);
}
