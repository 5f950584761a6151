// A chain of layers: each takes the outputs of the one before it.
// Tests: tests/unit/test_network.c.
#include "base/assert.h"
#include "base/mutate.h"
#include "policy/layer.h"

static const pbLayerOps *ops_of(const pbLayer *l) {
  static const pbLayerOps *const table[pb_layerKindCount] = {
#define X(kind, name) [kind] = &REAL(name),
      PB_LAYER_FILES(X)
#undef X
  };
  PB_ASSERT(l->kind < pb_layerKindCount && table[l->kind]);
  return table[l->kind];
}

// A layer's outputs and, behind them, its tape.
typedef struct Place {
  const real *x, *y, *tape;
} Place;

static size_t rows_of(const pbLayer *l) { return (size_t)l->outputs + (size_t)l->tape; }

// Of the layer behind `place`; the first's x is the chain's.
static Place place_of(const pbLayer *l, int batch, const real *x, const real *tape) {
  const real *y = tape;
  return (Place){x, y, y + (size_t)l->outputs * (size_t)batch};
}

void REAL(pbChain_Forward)(const pbChain *chain, pbPass *pass, const real *x, real *tape) {
  for (const pbLayer *l = chain->layer; l < chain->layer + chain->count; l++) {
    real *y = tape, *inside = tape + (size_t)l->outputs * (size_t)pass->batch;
    ops_of(l)->forward(l, pass, x, y, inside);
    x = y;
    tape += rows_of(l) * (size_t)pass->batch;
  }
}

const real *REAL(pbChain_Outputs)(const pbChain *chain, int batch, const real *x, const real *tape) {
  for (const pbLayer *l = chain->layer; l < chain->layer + chain->count; l++) {
    x = tape;
    tape += rows_of(l) * (size_t)batch;
  }

  return x;
}

// The most rows that stand between two layers.
static int widest(const pbChain *chain) {
  int most = chain->inputs;
  for (int i = 0; i < chain->count; i++) most = chain->layer[i].outputs > most ? chain->layer[i].outputs : most;
  return most;
}

void REAL(pbChain_Pull)(const pbChain *chain, pbPass *pass, const real *x, const real *tape, const real *y_bar, real *x_bar) {
  size_t mark = pbArena_Mark(&pass->arena), n = (size_t)pass->batch;
  real *room[2];
  for (int i = 0; i < 2; i++) room[i] = pb_takeRows(&pass->arena, widest(chain), pass->batch);

  // From the last to the first, whose cotangents are the chain's.
  const real *end = tape + (size_t)chain->tape * n;
  for (int i = chain->count - 1; i >= 0; i--) {
    const pbLayer *l = &chain->layer[i];
    end -= rows_of(l) * n;
    Place at = place_of(l, pass->batch, i > 0 ? end - rows_of(l - 1) * n : x, end);
    real *to = i > 0 ? room[i % 2] : x_bar;
    ops_of(l)->pull(l, pass, at.x, at.y, at.tape, y_bar, to);
    PB_MUTE(pb_muteLayer, l->kind, to, l->inputs * pass->batch);
    y_bar = to;
  }

  pbArena_Release(&pass->arena, mark);
}

void REAL(pbChain_Push)(const pbChain *chain, pbPass *pass, const real *x, const real *tape, const real *x_dot, real *y_dot) {
  size_t mark = pbArena_Mark(&pass->arena);
  real *room[2];
  for (int i = 0; i < 2; i++) room[i] = pb_takeRows(&pass->arena, widest(chain), pass->batch);

  for (int i = 0; i < chain->count; i++) {
    const pbLayer *l = &chain->layer[i];
    Place at = place_of(l, pass->batch, x, tape);
    real *to = i + 1 < chain->count ? room[i % 2] : y_dot;
    ops_of(l)->push(l, pass, at.x, at.y, at.tape, x_dot, to);
    x_dot = to;
    x = at.y;
    tape += rows_of(l) * (size_t)pass->batch;
  }

  pbArena_Release(&pass->arena, mark);
}

void REAL(pbChain_Gather)(const pbChain *chain, pbPass *pass, double *param_bar) {
  for (const pbLayer *l = chain->layer; l < chain->layer + chain->count; l++) {
    if (ops_of(l)->gather) ops_of(l)->gather(l, pass, param_bar + l->param);
  }
}

void REAL(pbChain_Reserve)(const pbChain *chain, int batch, pbArena *arena) {
  size_t mark = pbArena_Mark(arena);
  for (int i = 0; i < 2; i++) pb_takeRows(arena, widest(chain), batch);

  for (const pbLayer *l = chain->layer; l < chain->layer + chain->count; l++) {
    if (ops_of(l)->reserve) ops_of(l)->reserve(l, batch, arena);
  }

  pbArena_Release(arena, mark);
}
