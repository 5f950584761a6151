// What each kind of layer needs of its definition: sizes that fit, numbers that are numbers, slices and their starts.
// Tests: tests/unit/test_network.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "policy/compile_formula.h"
#include "policy/network.h"

enum { MOST = 1 << 24 };  // outputs of a layer

#define NONE   0., 0.               // bounds of a slice: any number
#define ABOVE0 0x1p-1022, INFINITY  // more than zero

static pbStatus check_size(const pbPlace *place, int size) {
  if (size >= 1 && size <= MOST) return pb_ok;
  return pbPlace_Fail(place, "size %d: 1 to %d are possible", size, MOST);
}

static pbStatus check_finite(const pbPlace *place, const char *what, double value) {
  return isfinite(value) ? pb_ok : pbPlace_Fail(place, "%s is %g", what, value);
}

static pbStatus check_limit(const pbPlace *place, const char *what, double value) {
  return value >= 0 ? pb_ok : pbPlace_Fail(place, "%s %g: not less than 0 is expected, 0 for none", what, value);
}

// n copies of a number.
static double *repeat(const pbPlace *place, int n, double value) {
  double *copies = pbNetwork_Take(place->network, (size_t)n, sizeof *copies);
  if (!copies) return NULL;

  for (int i = 0; i < n; i++) copies[i] = value;
  return copies;
}

// n numbers of the definition, or n times `value` where it has none.
static pbStatus copy_numbers(const pbPlace *place, const char *what, const double *from, int n, double value, double *to) {
  for (int i = 0; i < n; i++) {
    to[i] = from ? from[i] : value;
    if (!isfinite(to[i])) return pbPlace_Fail(place, "%s[%d] is %g", what, i, to[i]);
  }

  return pb_ok;
}

// ---- dense --------------------------------------------------------------------------------------------------------------
static pbStatus compile_dense(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  double gain = def->gain == 0 ? 1 : def->gain;
  PB_TRY(check_size(place, def->size));
  PB_TRY(check_finite(place, "gain", gain));
  if (l->inputs < 1) return pbPlace_Fail(place, "it has no inputs");
  if ((unsigned)def->init > pb_initZero) return pbPlace_Fail(place, "%d is no initialization", (int)def->init);
  if ((size_t)def->size * (size_t)l->inputs > INT32_MAX / 4)
    return pbPlace_Fail(place, "%d x %d weights are too many", def->size, l->inputs);

  // The weights' start. Zeros need no memory.
  double *start = NULL;
  if (def->init != pb_initZero) {
    start = pbNetwork_Take(place->network, (size_t)def->size * (size_t)l->inputs, sizeof *start);
    if (!start) return pb_no_memory;
    PB_TRY(pbWeights_Start(place->network->ctx, def->init, gain, def->size, l->inputs, place->seed, start));
  }

  l->outputs = def->size;
  l->keeps = l->inputs + l->outputs;
  PB_TRY(pbPlace_AddSlice(place, l, (pbPolicySlice){"weight", "1", def->size, l->inputs, start, NONE, false}));
  return pbPlace_AddSlice(place, l, (pbPolicySlice){"bias", "1", def->size, 1, NULL, NONE, false});
}

// ---- entry by entry -----------------------------------------------------------------------------------------------------
static pbStatus compile_activation(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  if (!pbActivation_Name(def->activation)) return pbPlace_Fail(place, "%d is no activation", (int)def->activation);
  l->activation = def->activation;
  return pb_ok;
}

static pbStatus compile_clip(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  if (!(def->lower < def->upper))
    return pbPlace_Fail(place, "its lower bound %g is not below its upper bound %g", def->lower, def->upper);
  l->lower = def->lower;
  l->upper = def->upper;
  l->projected = def->projected;
  return pb_ok;
}

static pbStatus compile_scale(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  double *number = pbNetwork_Take(place->network, 2 * (size_t)l->inputs, sizeof *number);
  if (!number) return pb_no_memory;
  l->number = number;
  PB_TRY(copy_numbers(place, "scale", def->scale, l->inputs, 1, number));
  return copy_numbers(place, "offset", def->offset, l->inputs, 0, number + l->inputs);
}

static pbStatus compile_normalize(const pbPlace *place, pbLayer *l) {
  double *ones = repeat(place, l->inputs, 1);
  if (!ones) return pb_no_memory;
  l->keeps = 2 * l->inputs;
  PB_TRY(pbPlace_AddSlice(place, l, (pbPolicySlice){"mean", NULL, l->inputs, 1, NULL, NONE, true}));
  return pbPlace_AddSlice(place, l, (pbPolicySlice){"deviation", NULL, l->inputs, 1, ones, ABOVE0, true});
}

static pbStatus compile_norm(const pbPlace *place, pbLayer *l) {
  if (l->inputs < 2) return pbPlace_Fail(place, "its inputs are %d: of fewer than 2 nothing is left", l->inputs);
  double *ones = repeat(place, l->inputs, 1);
  if (!ones) return pb_no_memory;
  l->tape = l->inputs + 1;
  l->keeps = 2 * l->inputs;
  PB_TRY(pbPlace_AddSlice(place, l, (pbPolicySlice){"gain", "1", l->inputs, 1, ones, NONE, false}));
  return pbPlace_AddSlice(place, l, (pbPolicySlice){"bias", "1", l->inputs, 1, NULL, NONE, false});
}

// The last of a network but its squash, so that its density is known.
static pbStatus compile_explore(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  if (place->outer) return pbPlace_Fail(place, "it stands in a sum: expected among the network's own layers");
  if (l->inputs < 1) return pbPlace_Fail(place, "it has no inputs");
  if (!(def->deviation > 0 && isfinite(def->deviation)))
    return pbPlace_Fail(place, "deviation %g: more than 0 is expected", def->deviation);

  double *start = repeat(place, l->inputs, pbLog(def->deviation));
  if (!start) return pb_no_memory;
  l->drawn = def->drawn;
  l->keeps = l->inputs;
  if (def->drawn) place->network->draws = l->inputs;
  return pbPlace_AddSlice(place, l, (pbPolicySlice){"log_deviation", "1", l->inputs, 1, start, NONE, true});
}

static pbStatus compile_clock(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  if (l->inputs < 1) return pbPlace_Fail(place, "its first input is the time, and it has none");
  if (def->frequencies < 1 || def->frequencies > MOST || !def->frequency)
    return pbPlace_Fail(place, "%d frequencies: at least one is expected", def->frequency ? def->frequencies : 0);

  double *number = pbNetwork_Take(place->network, (size_t)def->frequencies, sizeof *number);
  if (!number) return pb_no_memory;
  l->number = number;
  l->outputs = l->inputs - 1 + 2 * def->frequencies;
  return copy_numbers(place, "frequency", def->frequency, def->frequencies, 0, number);
}

// ---- sums ---------------------------------------------------------------------------------------------------------------
static pbStatus compile_sum(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  if (def->chains < 1 || !def->chain)
    return pbPlace_Fail(place, "%d chains: at least one is expected", def->chain ? def->chains : 0);
  l->chain = pbNetwork_Take(place->network, (size_t)def->chains, sizeof *l->chain);
  if (!l->chain) return pb_no_memory;

  for (int k = 0; k < def->chains; k++) {
    pbChain *chain = &l->chain[k];
    if (def->chain[k].count < 1 || !def->chain[k].layer) return pbPlace_Fail(place, "chain %d has no layers", k);
    PB_TRY(pbChain_Compile(place->network, place, k, l->inputs, &def->chain[k], place->seed, chain));
    if (chain->outputs != l->chain[0].outputs)
      return pbPlace_Fail(place, "chain %d has %d outputs, chain 0 has %d", k, chain->outputs, l->chain[0].outputs);

    l->tape += chain->tape;
    l->chains++;
  }

  l->outputs = l->chain[0].outputs;
  return pb_ok;
}

// ---- controllers of joints ----------------------------------------------------------------------------------------------
static pbStatus add_gain(const pbPlace *place, pbLayer *l, const char *name, double start) {
  PB_TRY(check_finite(place, name, start));
  double *starts = repeat(place, l->outputs, start);
  if (!starts) return pb_no_memory;
  return pbPlace_AddSlice(place, l, (pbPolicySlice){name, NULL, l->outputs, 1, starts, NONE, false});
}

static pbStatus compile_pid(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  PB_TRY(check_limit(place, "windup", def->windup));
  if (!(def->interval > 0) || !isfinite(def->interval))
    return pbPlace_Fail(place, "interval %g: the seconds between decisions are expected, more than 0", def->interval);

  l->memory = l->outputs;
  l->windup = def->windup;
  l->interval = def->interval;
  return pb_ok;
}

static pbStatus compile_joints(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  bool servo = def->kind == pb_layerServo;
  int wanted = servo ? 2 : 3;
  PB_TRY(check_size(place, def->size));
  PB_TRY(check_limit(place, "limit", def->limit));
  if (l->inputs != wanted * def->size)
    return pbPlace_Fail(place, "%d inputs: %d for each of %d outputs are expected (set-points, positions%s)", l->inputs, wanted,
                        def->size, servo ? "" : ", velocities");

  l->outputs = def->size;
  l->limit = def->limit;
  double gain = def->gain == 0 ? 1 : def->gain;
  PB_TRY(add_gain(place, l, servo ? "gain" : "kp", gain));
  if (!servo) PB_TRY(add_gain(place, l, "kd", def->kd));

  if (def->kind == pb_layerPid) {
    PB_TRY(compile_pid(place, def, l));
    PB_TRY(add_gain(place, l, "ki", def->ki));
  }

  l->keeps = l->params;
  return pb_ok;
}

// ---- with memory --------------------------------------------------------------------------------------------------------
static pbStatus compile_gru(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  double gain = def->gain == 0 ? 1 : def->gain;
  PB_TRY(check_size(place, def->size));
  PB_TRY(check_finite(place, "gain", gain));
  if (l->inputs < 1) return pbPlace_Fail(place, "it has no inputs");
  if ((unsigned)def->init > pb_initZero) return pbPlace_Fail(place, "%d is no initialization", (int)def->init);
  size_t n = (size_t)def->size, inputs = (size_t)l->inputs;
  if (3 * n * (n > inputs ? n : inputs) > INT32_MAX / 4) return pbPlace_Fail(place, "%d states are too many", def->size);

  // Each gate's matrices start by themselves.
  double *start[2] = {NULL, NULL};
  for (int k = 0; k < 2; k++) {
    int cols = k ? def->size : l->inputs;
    start[k] = pbNetwork_Take(place->network, 3 * n * (size_t)cols, sizeof **start);
    if (!start[k]) return pb_no_memory;

    for (int gate = 0; gate < 3; gate++) {
      double *weight = start[k] + (size_t)gate * n * (size_t)cols;
      uint64_t seed = place->seed + 0x10000u * (uint64_t)(3 * k + gate + 1);
      PB_TRY(pbWeights_Start(place->network->ctx, def->init, gain, def->size, cols, seed, weight));
    }
  }

  l->outputs = def->size;
  l->memory = def->size;
  l->tape = 4 * def->size;
  l->keeps = l->inputs + 5 * def->size;
  PB_TRY(pbPlace_AddSlice(place, l, (pbPolicySlice){"weight", "1", 3 * def->size, l->inputs, start[0], NONE, false}));
  PB_TRY(pbPlace_AddSlice(place, l, (pbPolicySlice){"recurrent", "1", 3 * def->size, def->size, start[1], NONE, false}));
  return pbPlace_AddSlice(place, l, (pbPolicySlice){"bias", "1", 3 * def->size, 1, NULL, NONE, false});
}

static pbStatus compile_delay(const pbPlace *place, const pbLayerDef *def, pbLayer *l) {
  PB_TRY(check_size(place, def->size));
  if (l->inputs < 1) return pbPlace_Fail(place, "it has no inputs");
  if ((double)def->size * l->inputs > MOST)
    return pbPlace_Fail(place, "%d decisions of %d inputs are too many", def->size, l->inputs);
  if (!(def->delay >= 0 && def->delay <= def->size))
    return pbPlace_Fail(place, "delay %g: 0 to its size, %d decisions, are possible", def->delay, def->size);

  double *start = repeat(place, 1, def->delay);
  if (!start) return pb_no_memory;
  l->memory = def->size * l->inputs;
  l->keeps = 1;
  return pbPlace_AddSlice(place, l, (pbPolicySlice){"delay", "decisions", 1, 1, start, 0, def->size, false});
}

pbStatus pbLayer_Compile(const pbPlace *place, const pbLayerDef *def, int inputs, pbLayer *l) {
  l->outputs = inputs;  // of those that work entry by entry

  switch (def->kind) {
    case pb_layerDense: return compile_dense(place, def, l);
    case pb_layerActivation: return compile_activation(place, def, l);
    case pb_layerClip: return compile_clip(place, def, l);
    case pb_layerScale: return compile_scale(place, def, l);
    case pb_layerNormalize: return compile_normalize(place, l);
    case pb_layerNorm: return compile_norm(place, l);
    case pb_layerExplore: return compile_explore(place, def, l);
    case pb_layerClock: return compile_clock(place, def, l);
    case pb_layerSum: return compile_sum(place, def, l);
    case pb_layerPd:
    case pb_layerPid:
    case pb_layerServo: return compile_joints(place, def, l);
    case pb_layerFormula: return pbFormula_Compile(place, def, l);
    case pb_layerGru: return compile_gru(place, def, l);
    case pb_layerDelay: return compile_delay(place, def, l);
    case pb_layerKindCount: break;
  }

  PB_ASSERT(false);
  return pb_bad_argument;
}
