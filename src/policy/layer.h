// A layer and a chain of layers, as compiled from their definitions, and what a layer's file offers.
//
// Numbers stand in rows, one row for each input, output, parameter or entry of memory, and one column for each world: entry i
// of column b at [i * batch + b]. What is computed in `real` (policy/real.h) is passed as such; a column depends on itself alone.
#ifndef PB_POLICY_LAYER_H
#define PB_POLICY_LAYER_H

#include <pullback/policy.h>

#include "base/arena.h"
#include "policy/fit.h"
#include "policy/real.h"

typedef struct pbChain pbChain;

// A formula layer's output: an expression of some of the inputs and parameters.
typedef struct pbFormula {
  struct pbExpression *expression;
  int used;
  int *row;                // used: of an input, or the number of inputs and of a parameter behind them
  struct pbFormula *next;  // of the network, to be destroyed with it
} pbFormula;

typedef struct pbLayer {
  pbLayerKind kind;
  int inputs, outputs;
  int tape;           // rows that forward leaves for pull and push, besides the outputs
  int memory, state;  // rows of memory, and the first of them in the function's
  int param;          // the first of its parameters in the function's
  int params;
  int kept, keeps;  // rows that pull leaves for gather: the first, how many
  // What the kinds need of their definitions.
  pbActivation activation;
  bool projected;
  double lower, upper, limit, windup, interval;
  bool drawn;
  const double *number;      // scale: scales, offsets; clock: frequencies
  const pbFormula *formula;  // one for each output
  pbChain *chain;
  int chains;
} pbLayer;

struct pbChain {
  pbLayer *layer;
  int count, inputs, outputs;
  int tape;  // rows of all layers' outputs and tapes, one layer behind the other
};

// A call of a function, as its layers see it. What is not wanted is NULL.
typedef struct pbPass {
  int batch;
  bool exact;  // projected clips have the derivative of the program
  const double *param, *param_dot;
  const double *m, *m_dot, *m_next_bar;
  double *m_next, *m_next_dot, *m_bar;
  const real *draw, *draw_dot;  // rows of the function's draws; NULL: it has none
  double *draw_bar;             // what is added to
  double *kept;                 // pull: what gather takes
  int kept_stride;              // from one row of kept to the next
  pbArena arena;
} pbPass;

// What a kind of layer does, in each of both number types.
typedef struct pbLayerOps {
  // y and tape (rows of l->tape; NULL where that is 0), and rows of memory, from x.
  void (*forward)(const pbLayer *l, pbPass *pass, const real *x, real *y, real *tape);
  // Writes x_bar, adds to pass->m_bar, keeps; after forward with the same x, y, tape.
  void (*pull)(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *y_bar, real *x_bar);
  // Writes y_dot and tangents of memory; after forward.
  void (*push)(const pbLayer *l, pbPass *pass, const real *x, const real *y, const real *tape, const real *x_dot, real *y_dot);
  // Adds the gradient by the layer's parameters, from rows that pull kept: `batch` columns. NULL without parameters.
  void (*gather)(const pbLayer *l, pbPass *pass, double *bar);
  // Takes from a measuring arena as much as any of the above takes, and gives it back. NULL: they take nothing.
  void (*reserve)(const pbLayer *l, int batch, pbArena *arena);
} pbLayerOps;

// One a file: layer_NAME.c.
#define PB_LAYER_FILES(X)                   \
  X(pb_layerDense, pbLayer_Dense)           \
  X(pb_layerActivation, pbLayer_Activation) \
  X(pb_layerClip, pbLayer_Clip)             \
  X(pb_layerScale, pbLayer_Scale)           \
  X(pb_layerNormalize, pbLayer_Normalize)   \
  X(pb_layerClock, pbLayer_Clock)           \
  X(pb_layerFormula, pbLayer_Formula)       \
  X(pb_layerGru, pbLayer_Gru)               \
  X(pb_layerDelay, pbLayer_Delay)           \
  X(pb_layerNorm, pbLayer_Norm)             \
  X(pb_layerExplore, pbLayer_Explore)       \
  X(pb_layerSum, pbLayer_Sum) X(pb_layerPd, pbLayer_Pd) X(pb_layerPid, pbLayer_Pd) X(pb_layerServo, pbLayer_Pd)
#define X(kind, name) extern const pbLayerOps REAL(name);
PB_LAYER_FILES(X)
#undef X

// ---- chains (layer_chain.c) -------------------------------------------------------------------------------------------
// As the functions of layers; the last layer's outputs stand at the end of `tape`: pbChain_Outputs.
void REAL(pbChain_Forward)(const pbChain *chain, pbPass *pass, const real *x, real *tape);
void REAL(pbChain_Pull)(const pbChain *chain, pbPass *pass, const real *x, const real *tape, const real *y_bar, real *x_bar);
void REAL(pbChain_Push)(const pbChain *chain, pbPass *pass, const real *x, const real *tape, const real *x_dot, real *y_dot);
void REAL(pbChain_Gather)(const pbChain *chain, pbPass *pass, double *param_bar);
void REAL(pbChain_Reserve)(const pbChain *chain, int batch, pbArena *arena);
const real *REAL(pbChain_Outputs)(const pbChain *chain, int batch, const real *x, const real *tape);

// ---- rows (layer_rows.c) ----------------------------------------------------------------------------------------------
static inline real *pb_takeRows(pbArena *arena, int rows, int batch) {
  return pbArena_Take(arena, (size_t)rows * (size_t)batch, sizeof(real));
}
// Numbers that pull leaves for gather: `rows` rows, from `row` of the layer's on.
void REAL(pbKept_Put)(const pbLayer *l, pbPass *pass, int row, int rows, const real *from);
// Rows as they stand one behind the other, columns first, first + 1, ... of them: `columns` a row. In double it is where they
// were kept and *stride the distance between rows; in float it is `room`.
const real *REAL(pbKept_Get)(const pbLayer *l, const pbPass *pass, int row, int rows, int first, int columns, real *room,
                             int *stride);
// bar[i] += row i summed over columns, for layers whose rows are the gradients of each column.
void REAL(pbKept_Sum)(const pbLayer *l, pbPass *pass, double *bar);
// Doubles a column that `rows` rows take.
int REAL(pbKept_Size)(int rows);

// ---- matrices of parameters (layer_matrix.c) --------------------------------------------------------------------------
// rows x cols numbers, row by row. y += W x, x_bar += W' y_bar.
void REAL(pbMatrix_Apply)(pbPass *pass, const double *matrix, int rows, int cols, const real *x, real *y);
void REAL(pbMatrix_Pull)(pbPass *pass, const double *matrix, int rows, int cols, const real *y_bar, real *x_bar);
// bar += sum over columns of y_bar x', in ascending order, from what was kept of both: the first rows of each.
typedef struct pbKeptMatrix {
  int rows, cols, x, y;
} pbKeptMatrix;
void REAL(pbMatrix_Gather)(const pbLayer *l, pbPass *pass, pbKeptMatrix kept, double *bar);
// y = bias, in all columns; NULL: zeros. bar[i] += kept row `row` + i summed over columns.
void REAL(pbBias_Fill)(const double *bias, int rows, int batch, real *y);
void REAL(pbBias_Gather)(const pbLayer *l, pbPass *pass, int row, int rows, double *bar);
// What any of them takes.
void REAL(pbMatrix_Reserve)(int rows, int cols, int batch, pbArena *arena);

// The function's calls in each number type (layer_function.c), over its chain.
typedef struct pbNetworkCalls {
  size_t (*work_bytes)(const void *self, int batch);
  pbStatus (*forward)(const void *self, int batch, const double *param, const double *o, const double *m, double *out,
                      double *m_next, void *work);
  pbStatus (*pull)(const void *self, int batch, const double *param, const double *o, const double *m, const double *out_bar,
                   const double *m_next_bar, double *o_bar, double *m_bar, double *param_bar, double *kept, int kept_stride,
                   void *work);
  pbStatus (*push)(const void *self, int batch, const double *param, const double *param_dot, const double *o,
                   const double *o_dot, const double *m, const double *m_dot, double *out_dot, double *m_next_dot, void *work);
  int (*kept_size)(int rows);
  pbStatus (*gather)(const void *self, int columns, const double *param, const double *kept, int kept_stride, double *param_bar,
                     void *work);
  pbNetworkFit fit;
} pbNetworkCalls;
extern const pbNetworkCalls pbNetworkCalls_double, pbNetworkCalls_single;

struct pbNetwork {
  pbContext *ctx;
  pbPolicyFunction function;
  pbChain chain;
  int keeps, memory, draws;
  size_t work_one;  // bytes of work for one column
  bool exact;       // of the twin that has projected clips as exact ones, over the same layers
  size_t params;
  pbPolicySlice *slice;
  int slices;
  pbFormula *formulas;
  struct pbBlock *blocks;  // everything that was taken while it was made
};

#endif
