// "layers" of a policy: each an object with the word of its kind and what belongs to that kind.
// Tests: tests/unit/test_policy_file.c, tests/oracle/test_train.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "io/task/policy.h"

// A forged file asks for no more than this: numbers between two layers, weights of one layer, chains within chains.
enum { MOST_WIDTH = 1 << 16, MOST_WEIGHTS = 1 << 26, MOST_DEPTH = 4, MOST_LAYERS = 256 };

typedef struct Layers {  // a chain while it is read
  pbTaskReader *r;
  pbSpecPool *pool;
  pbLayerDef *layer;
  int count, width, depth;
} Layers;

static pbStatus read_chain(Layers *l, const json_t *list);

// ---- numbers ----------------------------------------------------------------------------------------------------------
static pbStatus fail_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for a policy"); }

// The size that the kind's own key gives.
static pbStatus read_size(Layers *l, const json_t *object, pbLayerDef *d) {
  int inputs = l->width;
  d->size = 0;
  PB_TRY(pbTaskReader_Int(l->r, object, pbLayerKind_Name(d->kind), 1, MOST_WIDTH, &d->size));

  if ((double)inputs * d->size > MOST_WEIGHTS)
    return pbTaskReader_FailAt(l->r, pbLayerKind_Name(d->kind), "%d x %d weights are too many", d->size, inputs);
  l->width = d->size;

  return pb_ok;
}

// A list of numbers of any length, or one number; into the pool.
static pbStatus read_list(Layers *l, const json_t *object, const char *key, const double **out, int *count) {
  pbTaskNumbers numbers;
  const json_t *value = json_object_get(object, key);
  if (!value) return pb_ok;

  pbTaskReader_Enter(l->r, key);
  PB_TRY(pbTaskReader_Numbers(l->r, value, &numbers));

  // kept in the pool, with the layer
  bool good = !numbers.nested && numbers.cols > 0 && numbers.cols <= MOST_WIDTH;
  double *kept = good ? pbSpecPool_Take(l->pool, numbers.cols, sizeof *kept) : NULL;
  if (kept) memcpy(kept, numbers.data, numbers.cols * sizeof *kept);
  pbContext_Free(l->r->ctx, numbers.data);

  if (!good) return pbTaskReader_Fail(l->r, pb_bad_input, "expected a list of numbers");
  if (!kept) return fail_memory(l->r);
  *out = kept;
  *count = (int)numbers.cols;
  pbTaskReader_Leave(l->r);

  return pb_ok;
}

// One number for each input, or one for all.
static pbStatus read_spread(Layers *l, const json_t *object, const char *key, const double **out) {
  if (!json_object_get(object, key)) return pb_ok;
  double *kept = pbSpecPool_Take(l->pool, (size_t)l->width, sizeof *kept);
  if (!kept) return fail_memory(l->r);
  *out = kept;

  return pbTaskReader_Spread(l->r, object, key, (size_t)l->width, kept);
}

// ---- kinds ------------------------------------------------------------------------------------------------------------
static pbStatus read_activation(Layers *l, const json_t *object, pbLayerDef *d) {
  const char *word = NULL;
  PB_TRY(pbTaskReader_Text(l->r, object, "activation", &word));
  if (pbActivation_Named(word, &d->activation)) return pb_ok;

  char hint[200];
  pbSuggest near = pbSuggest_For(word);

  for (int i = 0; i < pb_activationCount; i++) pbSuggest_Offer(&near, pbActivation_Name((pbActivation)i));

  return pbTaskReader_FailAt(l->r, "activation", "'%.60s' is no activation%s", word, pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus read_init(Layers *l, const json_t *object, pbLayerDef *d) {
  static const char *const words[] = {"orthogonal", "uniform", "zero"};
  const json_t *value = json_object_get(object, "init");
  if (!value) return pb_ok;

  // zero as a number, too
  const char *word = json_is_number(value) && json_number_value(value) == 0 ? "zero" : json_string_value(value);
  if (!word) word = "";
  for (int i = 0; i < 3; i++) {
    if (strcmp(word, words[i]) != 0) continue;
    d->init = (pbWeightInit)i;
    return pb_ok;
  }

  return pbTaskReader_FailAt(l->r, "init", "expected \"orthogonal\", \"uniform\" or \"zero\"");
}

static pbStatus read_dense(Layers *l, const json_t *object, pbLayerDef *d) {
  PB_TRY(read_size(l, object, d));
  PB_TRY(read_init(l, object, d));
  PB_TRY(pbTaskReader_Real(l->r, object, "gain", &d->gain));
  if (!json_object_get(object, "activation")) return pb_ok;

  // the short form: the activation is a layer of its own behind this one
  pbLayerDef *next = &l->layer[l->count++];
  next->kind = pb_layerActivation;

  return read_activation(l, object, next);
}

static pbStatus read_clip(Layers *l, const json_t *object, pbLayerDef *d) {
  double range[2] = {0, 0};
  PB_TRY(pbTaskReader_Spread(l->r, object, "clip", 2, range));
  if (!(range[0] < range[1])) return pbTaskReader_FailAt(l->r, "clip", "expected [lower, upper] with lower < upper");

  d->lower = range[0];
  d->upper = range[1];

  return pbTaskReader_Bool(l->r, object, "projected", &d->projected);
}

static pbStatus read_scale(Layers *l, const json_t *object, pbLayerDef *d) {
  PB_TRY(read_spread(l, object, "scale", &d->scale));
  return read_spread(l, object, "offset", &d->offset);
}

static pbStatus read_clock(Layers *l, const json_t *object, pbLayerDef *d) {
  PB_TRY(read_list(l, object, "clock", &d->frequency, &d->frequencies));
  l->width += 2 * d->frequencies - 1;
  return pb_ok;
}

static pbStatus read_formula(Layers *l, const json_t *object, pbLayerDef *d) {
  const json_t *list = json_object_get(object, "formula");
  bool one = json_is_string(list);
  size_t count = one ? 1 : json_array_size(list);
  if (count < 1 || count > MOST_WIDTH) return pbTaskReader_FailAt(l->r, "formula", "expected a list of formulas");

  const char **texts = pbSpecPool_Take(l->pool, count, sizeof *texts);
  if (!texts) return fail_memory(l->r);

  // copies: the tree goes before the layers do
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value(one ? list : json_array_get(list, i));
    if (!text) return pbTaskReader_FailAt(l->r, "formula", "entry %zu is no text", i);
    if (!(texts[i] = pbSpecPool_Text(l->pool, text, strlen(text)))) return fail_memory(l->r);
  }

  d->formula = texts;
  d->formulas = (int)count;
  PB_TRY(read_list(l, object, "parameters", &d->parameter, &d->parameters));
  l->width = d->formulas;

  return pb_ok;
}

static pbStatus read_gru(Layers *l, const json_t *object, pbLayerDef *d) {
  PB_TRY(read_size(l, object, d));
  PB_TRY(read_init(l, object, d));
  return pbTaskReader_Real(l->r, object, "gain", &d->gain);
}

static pbStatus read_sum(Layers *l, const json_t *object, pbLayerDef *d) {
  const json_t *list = json_object_get(object, "sum");
  size_t count = json_array_size(list);
  if (count < 1 || count > MOST_LAYERS) return pbTaskReader_FailAt(l->r, "sum", "expected a list of lists of layers");

  pbChainDef *chains = pbSpecPool_Take(l->pool, count, sizeof *chains);
  if (!chains) return fail_memory(l->r);
  d->chain = chains;
  d->chains = (int)count;

  // each chain over the same inputs, with as many outputs as the first
  pbTaskReader_Enter(l->r, "sum");
  int width = 0;
  for (size_t i = 0; i < count; i++) {
    Layers inner = {.r = l->r, .pool = l->pool, .width = l->width, .depth = l->depth + 1};
    pbTaskReader_EnterAt(l->r, i);
    PB_TRY(read_chain(&inner, json_array_get(list, i)));
    chains[i] = (pbChainDef){inner.layer, inner.count};

    if (i && inner.width != width)
      return pbTaskReader_Fail(l->r, pb_bad_input, "%d numbers come out of it, of the first %d", inner.width, width);
    width = inner.width;
    pbTaskReader_Leave(l->r);
  }
  pbTaskReader_Leave(l->r);
  l->width = width;

  return pb_ok;
}

// Controllers with gains: so many inputs for each output.
static pbStatus read_controller(Layers *l, const json_t *object, pbLayerDef *d) {
  int inputs = l->width, each = d->kind == pb_layerServo ? 2 : 3;
  PB_TRY(read_size(l, object, d));

  // set-points, positions, velocities: as many of each as there are outputs
  if (inputs != each * d->size)
    return pbTaskReader_FailAt(l->r, pbLayerKind_Name(d->kind), "%d outputs need %d inputs, found %d", d->size, each * d->size,
                               inputs);

  // gains and what holds them back
  PB_TRY(pbTaskReader_Real(l->r, object, d->kind == pb_layerServo ? "gain" : "kp", &d->gain));
  PB_TRY(pbTaskReader_Real(l->r, object, "kd", &d->kd));
  PB_TRY(pbTaskReader_Real(l->r, object, "ki", &d->ki));
  PB_TRY(pbTaskReader_Real(l->r, object, "limit", &d->limit));
  PB_TRY(pbTaskReader_Real(l->r, object, "windup", &d->windup));

  return pbTaskReader_Real(l->r, object, "interval", &d->interval);
}

static pbStatus read_delay(Layers *l, const json_t *object, pbLayerDef *d) {
  PB_TRY(pbTaskReader_Real(l->r, object, "delay", &d->delay));
  if (!(d->delay >= 0 && d->delay <= 10000)) return pbTaskReader_FailAt(l->r, "delay", "expected decisions from 0 to 10000");

  // room for the longest delay that its slice may come to
  d->size = (int)ceil(d->delay) > 1 ? (int)ceil(d->delay) : 1;
  return pbTaskReader_Int(l->r, object, "most", d->size, 10000, &d->size);
}

static pbStatus read_explore(Layers *l, const json_t *object, pbLayerDef *d) {
  PB_TRY(pbTaskReader_Real(l->r, object, "explore", &d->deviation));
  if (!(d->deviation >= 1e-6 && d->deviation <= 1e3))
    return pbTaskReader_FailAt(l->r, "explore", "expected the deviation that training begins with, from 1e-6 to 1000");
  if (l->depth) return pbTaskReader_FailAt(l->r, "explore", "it stands in a sum: expected among the policy's own layers");
  d->drawn = l->r->training != NULL;

  return pb_ok;
}

// Of kinds that need nothing but their word.
static pbStatus read_plain(Layers *l, const json_t *object, pbLayerDef *d) {
  const char *word = pbLayerKind_Name(d->kind);
  if (!json_is_true(json_object_get(object, word))) return pbTaskReader_FailAt(l->r, word, "expected true");
  if (d->kind == pb_layerNorm && l->width < 2)
    return pbTaskReader_FailAt(l->r, word, "at least 2 inputs are needed, found %d", l->width);

  return pb_ok;
}

static const struct LayerForm {
  pbStatus (*read)(Layers *l, const json_t *object, pbLayerDef *d);
  const char *keys[8];  // beside the kind's own and "name"
} forms[pb_layerKindCount] = {
    [pb_layerDense] = {read_dense, {"activation", "init", "gain"}},
    [pb_layerActivation] = {read_activation, {NULL}},
    [pb_layerClip] = {read_clip, {"projected"}},
    [pb_layerScale] = {read_scale, {"offset"}},
    [pb_layerNormalize] = {read_plain, {NULL}},
    [pb_layerClock] = {read_clock, {NULL}},
    [pb_layerFormula] = {read_formula, {"parameters"}},
    [pb_layerGru] = {read_gru, {"init", "gain"}},
    [pb_layerSum] = {read_sum, {NULL}},
    [pb_layerPd] = {read_controller, {"kp", "kd", "limit"}},
    [pb_layerPid] = {read_controller, {"kp", "kd", "ki", "limit", "windup", "interval"}},
    [pb_layerServo] = {read_controller, {"gain", "limit"}},
    [pb_layerDelay] = {read_delay, {"most"}},
    [pb_layerNorm] = {read_plain, {NULL}},
    [pb_layerExplore] = {read_explore, {NULL}},
};

// ---- one layer --------------------------------------------------------------------------------------------------------
// The kind whose word is a key of the object; pb_layerKindCount: none. An activation may also belong to another layer.
static pbLayerKind kind_of(const json_t *object) {
  for (int i = 0; i < pb_layerKindCount; i++) {
    if (i != pb_layerActivation && json_object_get(object, pbLayerKind_Name((pbLayerKind)i))) return (pbLayerKind)i;
  }

  return json_object_get(object, "activation") ? pb_layerActivation : pb_layerKindCount;
}

// The nearest kind to the first key of an object that has none.
static pbStatus fail_kind(const pbTaskReader *r, const json_t *object) {
  const char *key = json_object_iter_key(json_object_iter((json_t *)object));
  if (!key) return pbTaskReader_Fail(r, pb_bad_input, "expected a layer such as {\"dense\": 64}");

  char hint[200];
  pbSuggest near = pbSuggest_For(key);
  for (int i = 0; i < pb_layerKindCount; i++) pbSuggest_Offer(&near, pbLayerKind_Name((pbLayerKind)i));

  return pbTaskReader_Fail(r, pb_bad_input, "'%.80s' is no kind of layer%s", key, pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus read_layer(Layers *l, const json_t *object, size_t index) {
  pbLayerKind kind = kind_of(object);
  if (kind == pb_layerKindCount) return fail_kind(l->r, object);

  const char *keys[12] = {pbLayerKind_Name(kind), "name"};
  for (int i = 0; i < 8; i++) keys[i + 2] = forms[kind].keys[i];
  PB_TRY(pbTaskReader_Keys(l->r, object, keys));

  // named by its place in the list, whatever is put between
  char number[16];
  const char *name = number;
  snprintf(number, sizeof number, "%zu", index);
  PB_TRY(pbTaskReader_Text(l->r, object, "name", &name));
  if (!*name || strlen(name) > 60 || strpbrk(name, ":=, \t\n"))
    return pbTaskReader_FailAt(l->r, "name", "expected a word of at most 60 characters");

  pbLayerDef *d = &l->layer[l->count++];
  d->kind = kind;
  if (!(d->name = pbSpecPool_Text(l->pool, name, strlen(name)))) return fail_memory(l->r);
  PB_TRY(forms[kind].read(l, object, d));

  return l->width <= MOST_WIDTH ? pb_ok : pbTaskReader_Fail(l->r, pb_bad_input, "%d numbers are too many", l->width);
}

static pbStatus read_chain(Layers *l, const json_t *list) {
  size_t count = json_array_size(list);
  if (count < 1 || count > MOST_LAYERS) return pbTaskReader_Fail(l->r, pb_bad_input, "expected a list of layers");
  if (l->depth > MOST_DEPTH) return pbTaskReader_Fail(l->r, pb_bad_input, "sums of sums of sums: too deep");

  // a short form makes two
  l->layer = pbSpecPool_Take(l->pool, 2 * count, sizeof *l->layer);
  if (!l->layer) return fail_memory(l->r);
  for (size_t i = 0; i < count; i++) {
    pbTaskReader_EnterAt(l->r, i);
    PB_TRY(read_layer(l, json_array_get(list, i), i));
    pbTaskReader_Leave(l->r);
  }

  return pb_ok;
}

pbStatus pbTask_ReadLayers(pbTaskReader *r, const json_t *list, pbSpecPool *pool, int inputs, pbChainDef *chain, int *outputs) {
  Layers l = {.r = r, .pool = pool, .width = inputs};
  PB_TRY(read_chain(&l, list));
  *chain = (pbChainDef){l.layer, l.count};
  *outputs = l.width;

  return pb_ok;
}

pbStatus pbTask_CreateNetwork(pbTaskReader *r, const json_t *list, int inputs, uint64_t seed, int *outputs, pbNetwork **network,
                              pbNetwork **single) {
  pbSpecPool pool = {.ctx = r->ctx};
  pbChainDef chain;

  // the network copies what the pool holds
  pbStatus status = pbTask_ReadLayers(r, list, &pool, inputs, &chain, outputs);
  if (status == pb_ok) {
    status = pbNetwork_Create(r->ctx, inputs, chain.layer, chain.count, seed, false, network);
    if (status == pb_ok && single) status = pbNetwork_Create(r->ctx, inputs, chain.layer, chain.count, seed, true, single);
    if (status != pb_ok) status = pbTaskReader_FailAgain(r, status);
  }
  pbSpecPool_Clear(&pool);

  return status;
}

int pbTask_LayerOutputs(const json_t *list) {
  for (size_t i = json_array_size(list); i-- > 0;) {
    const json_t *object = json_array_get(list, i);
    pbLayerKind kind = kind_of(object);
    const json_t *value = kind < pb_layerKindCount ? json_object_get(object, pbLayerKind_Name(kind)) : NULL;

    if (kind == pb_layerFormula) return json_is_string(value) ? 1 : (int)json_array_size(value);
    if (kind == pb_layerSum) return pbTask_LayerOutputs(json_array_get(value, 0));
    if (kind == pb_layerClock || kind == pb_layerKindCount) return -1;

    // the others leave the number of entries as it is
    bool sized =
        kind == pb_layerDense || kind == pb_layerGru || kind == pb_layerPd || kind == pb_layerPid || kind == pb_layerServo;
    double size = json_number_value(value);
    if (sized) return size >= 1 && size <= MOST_WIDTH ? (int)size : -1;
  }

  return -1;
}
