// Networks: a chain of layers with its parameters and memory, as a pbPolicyFunction. What layers do stands in layer_*.c, what
// they need of their definitions in compile.c.
// Tests: tests/unit/test_network.c.
#include "policy/network.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "energy/expression.h"

// ---- names --------------------------------------------------------------------------------------------------------------
static const char *const layer_names[] = {"dense", "activation", "clip", "scale", "normalize", "clock",     "formula", "gru",
                                          "sum",   "pd",         "pid",  "servo", "delay",     "layernorm", "explore"};
static const char *const activation_names[] = {"relu", "tanh", "elu", "softplus", "sigmoid", "silu"};
_Static_assert(sizeof layer_names / sizeof *layer_names == pb_layerKindCount, "a name for each kind of layer");
_Static_assert(sizeof activation_names / sizeof *activation_names == pb_activationCount, "a name for each activation");

static int find_name(const char *const *names, int count, const char *name) {
  if (!name) return -1;

  for (int i = 0; i < count; i++) {
    if (!strcmp(names[i], name)) return i;
  }

  return -1;
}

const char *pbLayerKind_Name(pbLayerKind kind) { return (unsigned)kind < pb_layerKindCount ? layer_names[kind] : NULL; }

bool pbLayerKind_Named(const char *name, pbLayerKind *kind) {
  int found = find_name(layer_names, pb_layerKindCount, name);
  if (found >= 0) *kind = (pbLayerKind)found;
  return found >= 0;
}

const char *pbActivation_Name(pbActivation activation) {
  return (unsigned)activation < pb_activationCount ? activation_names[activation] : NULL;
}

bool pbActivation_Named(const char *name, pbActivation *activation) {
  int found = find_name(activation_names, pb_activationCount, name);
  if (found >= 0) *activation = (pbActivation)found;
  return found >= 0;
}

// ---- memory -------------------------------------------------------------------------------------------------------------
struct pbBlock {
  struct pbBlock *next;
  _Alignas(max_align_t) char bytes[];
};

void *pbNetwork_Take(pbNetwork *network, size_t count, size_t size) {
  struct pbBlock *block = NULL;
  if (!size || count < (SIZE_MAX - sizeof *block) / size) block = pbContext_Alloc(network->ctx, sizeof *block + count * size);
  if (!block) {
    pbContext_Fail(network->ctx, pb_no_memory, "out of memory");
    return NULL;
  }

  block->next = network->blocks;
  network->blocks = block;
  return block->bytes;
}

void pbNetwork_Destroy(pbNetwork *network) {
  if (!network) return;
  pbContext *ctx = network->ctx;

  for (pbFormula *f = network->formulas; f; f = f->next) pbExpression_Destroy(f->expression);

  while (network->blocks) {
    struct pbBlock *next = network->blocks->next;
    pbContext_Free(ctx, network->blocks);
    network->blocks = next;
  }

  pbContext_Free(ctx, network->slice);
  pbContext_Free(ctx, network);
}

// ---- places and slices --------------------------------------------------------------------------------------------------
// "layer 1 (sum), chain 0, layer 2 (clip)"
static size_t write_place(const pbPlace *place, char *text, size_t size) {
  size_t used = 0;
  if (place->outer) {
    used = write_place(place->outer, text, size);
    used += (size_t)snprintf(text + used, size - used, ", chain %d, ", place->chain);
    if (used >= size) return size - 1;
  }

  const char *kind = pbLayerKind_Name(place->kind);
  used += (size_t)snprintf(text + used, size - used, "layer %d (%s)", place->layer, kind ? kind : "?");
  return used < size ? used : size - 1;
}

pbStatus pbPlace_Fail(const pbPlace *place, const char *format, ...) {
  char where[256], what[PB_ERROR_TEXT];
  write_place(place, where, sizeof where);

  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);

  return pbContext_Fail(place->network->ctx, pb_bad_argument, "%s: %s", where, what);
}

// "1.0.2": names of layers, chains of sums between them
static size_t write_name(const pbPlace *place, char *text, size_t size) {
  size_t used = 0;
  if (place->outer) {
    used = write_name(place->outer, text, size);
    used += (size_t)snprintf(text + used, size - used, ".%d.", place->chain);
    if (used >= size) return size - 1;
  }

  used += place->name ? (size_t)snprintf(text + used, size - used, "%s", place->name)
                      : (size_t)snprintf(text + used, size - used, "%d", place->layer);
  return used < size ? used : size - 1;
}

static pbStatus copy_slice_name(const pbPlace *place, pbPolicySlice *slice) {
  char name[256];
  size_t used = write_name(place, name, sizeof name);
  int more = snprintf(name + used, sizeof name - used, ".%s", slice->name);
  if (used + (size_t)more >= sizeof name) return pbPlace_Fail(place, "the names of its slices are longer than 255 letters");

  char *copy = pbNetwork_Take(place->network, strlen(name) + 1, 1);
  if (!copy) return pb_no_memory;
  strcpy(copy, name);
  slice->name = copy;
  return pb_ok;
}

pbStatus pbPlace_AddSlice(const pbPlace *place, pbLayer *l, pbPolicySlice slice) {
  pbNetwork *network = place->network;
  size_t size = (size_t)slice.rows * (size_t)slice.cols;
  PB_TRY(copy_slice_name(place, &slice));

  for (int i = 0; i < network->slices; i++) {
    if (!strcmp(network->slice[i].name, slice.name))
      return pbPlace_Fail(place, "another layer has slices of the same name, '%s'", slice.name);
  }

  // Numbers of parameters are int: as indices of theta they could not be more.
  if (size > INT32_MAX / 2 - network->params) return pbPlace_Fail(place, "more than %d parameters in all", INT32_MAX / 2);
  pbPolicySlice *more = pbContext_Resize(network->ctx, network->slice, (size_t)(network->slices + 1) * sizeof slice);
  if (!more) return pbContext_Fail(network->ctx, pb_no_memory, "out of memory");

  network->slice = more;
  more[network->slices++] = slice;
  network->params += size;
  l->params += (int)size;
  return pb_ok;
}

// ---- chains -------------------------------------------------------------------------------------------------------------
static bool is_name(const char *name) {
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
  return length > 0 && !name[length];
}

static pbStatus compile_layer(const pbPlace *place, const pbLayerDef *def, int inputs, pbLayer *l) {
  pbNetwork *network = place->network;
  if (!pbLayerKind_Name(def->kind)) return pbPlace_Fail(place, "%d is no kind of layer", (int)def->kind);
  if (def->name && !is_name(def->name))
    return pbPlace_Fail(place, "the name '%s': letters, digits, '_' and '-' are possible", def->name);

  *l = (pbLayer){.kind = def->kind, .inputs = inputs, .state = network->memory, .param = (int)network->params};
  l->kept = network->keeps;
  PB_TRY(pbLayer_Compile(place, def, inputs, l));
  if (l->kind == pb_layerSum) return pb_ok;  // its chains have taken their own

  if (network->memory > INT32_MAX / 8 - l->memory || network->keeps > INT32_MAX / 8 - l->keeps)
    return pbPlace_Fail(place, "too much memory");
  network->memory += l->memory;
  network->keeps += l->keeps;
  return pb_ok;
}

// Behind a layer that explores nothing comes but a squash whose derivative is known, at the end.
static pbStatus check_behind(const pbPlace *place, const pbChain *chain, int i) {
  const pbLayer *l = &chain->layer[i];
  bool squash = l->kind == pb_layerActivation && l->activation == pb_activationTanh;
  bool behind = i > 0 && chain->layer[i - 1].kind == pb_layerExplore,
       later = i > 1 && chain->layer[i - 2].kind == pb_layerExplore;

  return later || (behind && !squash) ? pbPlace_Fail(place, "behind \"explore\" comes tanh, or nothing") : pb_ok;
}

pbStatus pbChain_Compile(pbNetwork *network, const pbPlace *outer, int number, int inputs, const pbChainDef *def, uint64_t seed,
                         pbChain *chain) {
  *chain = (pbChain){.inputs = inputs, .outputs = inputs, .layer = pbNetwork_Take(network, (size_t)def->count, sizeof(pbLayer))};
  if (!chain->layer) return pb_no_memory;

  for (int i = 0; i < def->count; i++) {
    pbLayer *l = &chain->layer[i];
    pbPlace place = {network, outer, number, i, def->layer[i].name, def->layer[i].kind, seed + (uint64_t)network->slices};
    PB_TRY(compile_layer(&place, &def->layer[i], chain->outputs, l));
    PB_TRY(check_behind(&place, chain, i));
    if (chain->tape > INT32_MAX / 8 - l->outputs - l->tape) return pbPlace_Fail(&place, "too many outputs");

    chain->tape += l->outputs + l->tape;
    chain->outputs = l->outputs;
    chain->count++;
  }

  return pb_ok;
}

// ---- the whole ----------------------------------------------------------------------------------------------------------
static bool is_projected(const pbChainDef *def) {
  for (int i = 0; i < def->count; i++) {
    const pbLayerDef *l = &def->layer[i];
    if (l->kind == pb_layerClip && l->projected) return true;
    if (l->kind != pb_layerSum) continue;

    for (int k = 0; k < l->chains; k++) {
      if (is_projected(&l->chain[k])) return true;
    }
  }

  return false;
}

static void make_function(pbNetwork *network, bool single) {
  const pbNetworkCalls *calls = single ? &pbNetworkCalls_single : &pbNetworkCalls_double;

  network->function = (pbPolicyFunction){.name = "network", .self = network, .slice = network->slice, .slices = network->slices};
  pbPolicyFunction *f = &network->function;
  f->draws = network->draws;
  f->observations = network->chain.inputs + f->draws;
  f->outputs = network->chain.outputs;
  f->memory = network->memory;
  f->rounding = single ? 6e-8 : 0;

  f->work_bytes = calls->work_bytes;
  network->work_one = calls->work_bytes(network, 1);
  f->forward = calls->forward;
  f->pull = calls->pull;
  f->push = calls->push;
  f->gather = calls->gather;
  f->kept_size = (size_t)calls->kept_size(network->keeps);
}

// The same layers once more, with the derivative of the program.
static pbStatus make_twin(pbNetwork *network) {
  pbNetwork *twin = pbNetwork_Take(network, 1, sizeof *twin);
  if (!twin) return pb_no_memory;

  *twin = *network;
  twin->exact = true;
  twin->function.self = twin;
  network->function.exact = &twin->function;
  return pb_ok;
}

static pbStatus compile_network(pbNetwork *network, int inputs, const pbChainDef *def, uint64_t seed, bool single) {
  PB_TRY(pbChain_Compile(network, NULL, 0, inputs, def, seed, &network->chain));
  make_function(network, single);
  return is_projected(def) ? make_twin(network) : pb_ok;
}

pbStatus pbNetwork_Create(pbContext *ctx, int inputs, const pbLayerDef *layer, int count, uint64_t seed, bool single,
                          pbNetwork **network) {
  *network = NULL;
  if (inputs < 0 || inputs > INT32_MAX / 8) return pbContext_Fail(ctx, pb_bad_argument, "a network of %d inputs", inputs);
  if (count < 1 || !layer) return pbContext_Fail(ctx, pb_bad_argument, "a network has at least one layer, not %d", count);

  pbNetwork *made = pbContext_Alloc(ctx, sizeof *made);
  if (!made) return pbContext_Fail(ctx, pb_no_memory, "out of memory");
  made->ctx = ctx;

  pbChainDef def = {layer, count};
  pbStatus status = compile_network(made, inputs, &def, seed, single);
  if (status != pb_ok) {
    pbNetwork_Destroy(made);
    return status;
  }

  *network = made;
  return pb_ok;
}

const pbPolicyFunction *pbNetwork_Function(const pbNetwork *network) { return &network->function; }

pbNetworkFit pbNetwork_FitOf(const pbPolicyFunction *f) {
  if (f->memory || f->draws) return NULL;
  if (f->pull == pbNetworkCalls_double.pull) return pbNetworkCalls_double.fit;
  return f->pull == pbNetworkCalls_single.pull ? pbNetworkCalls_single.fit : NULL;
}
