// The graph behind a formula: scalar nodes in a directed graph without duplicates. A node is made from operands that exist
// already, so operands have smaller numbers and one loop is a topological order. Making a node simplifies: constants are
// folded, zeros and ones vanish, signs move outwards.
#ifndef PB_ENERGY_GRAPH_H
#define PB_ENERGY_GRAPH_H

#include <pullback/energy.h>

// X(enumerator, operands)
// clang-format off
#define PB_OP_TABLE(X)                                                                                          \
  X(pb_opConstant, 0) X(pb_opInput, 0) X(pb_opAdd, 2) X(pb_opSub, 2) X(pb_opMul, 2) X(pb_opDiv, 2) X(pb_opNeg, 1) \
  X(pb_opSqrt, 1) X(pb_opLog, 1) X(pb_opExp, 1) X(pb_opSin, 1) X(pb_opCos, 1) X(pb_opAsin, 1) X(pb_opAcos, 1)     \
  X(pb_opAtan2, 2) X(pb_opPow, 2) X(pb_opAbs, 1) X(pb_opSign, 1) X(pb_opMin, 2) X(pb_opMax, 2) X(pb_opLess, 2)    \
  X(pb_opLessEqual, 2) X(pb_opSelect, 3) X(pb_opStretch, 3) X(pb_opFreeze, 1) X(pb_opExpm1, 1)    \
  X(pb_opLog1p, 1) X(pb_opSinh, 1) X(pb_opCosh, 1) X(pb_opTanh, 1) X(pb_opAsinh, 1) X(pb_opAcosh, 1) X(pb_opAtanh, 1) \
  X(pb_opErf, 1) X(pb_opErfc, 1)
// clang-format on
typedef enum pbOp {
#define X(id, operands) id,
  PB_OP_TABLE(X)
#undef X
      pb_opCount
} pbOp;

typedef struct pbOrigin {  // where in a formula something was asked for
  int line, column;        // from 1; 0: not from text
  uint8_t function;        // pbFunction; pb_fnCount: none
  bool derived;            // made by differentiating what stands there
} pbOrigin;

typedef struct pbNode {
  uint8_t op;
  bool guard;    // 0 where something else may be infinite: stays outside of products
  int of[3];     // operands, the rest 0; of an input its number
  double value;  // of a constant
  pbOrigin place;
} pbNode;

// Numbers of the inputs: x, X, y (3 points each), h, t, parameters one after the other, weights w (3 points).
typedef struct pbInputs {
  int points, parameter_count, count;
  int rest, previous, timestep, time, parameter[PB_ENERGY_PARAMETERS + 1], weight;
} pbInputs;

struct pbGraph {
  pbContext *ctx;
  pbInputs inputs;
  struct {
    int rows, cols;
  } shape[PB_ENERGY_PARAMETERS];
  pbNode *node;
  int count, capacity;
  int *table, table_size;  // open addressing, node + 1
  pbOrigin at;             // given to new nodes
  pbStatus status;         // the first thing that went wrong; then every node is 0
  char error[160];
};

enum { PB_GRAPH_MOST_NODES = 1 << 20 };

// What is wrong, kept unless something was before.
void pbGraph_Fail(pbGraph *g, pbStatus status, const char *format, ...) PB_PRINTF(3, 4);
// Nodes; after a failure 0.
int pbGraph_Constant(pbGraph *g, double value);
int pbGraph_Input(pbGraph *g, int input);
int pbGraph_Node(pbGraph *g, pbOp op, int a, int b, int c);
int pbGraph_PowNode(pbGraph *g, int a, int b);  // integer and half powers by multiplication and sqrt

int pbOp_Operands(pbOp op);
double pbOp_Value(pbOp op, double a, double b, double c);
// s1 + s2 + s3 from s1^2 + s2^2 + s3^2, the products s1^2 s2^2 + ..., and s1 s2 s3, at most one of which is negative: the largest
// root f of (f^2 - a)^2 - 8 c f - 4 b.
double pbOp_Stretch(double a, double b, double c);

static inline int pb_add(pbGraph *g, int a, int b) { return pbGraph_Node(g, pb_opAdd, a, b, 0); }
static inline int pb_sub(pbGraph *g, int a, int b) { return pbGraph_Node(g, pb_opSub, a, b, 0); }
static inline int pb_mul(pbGraph *g, int a, int b) { return pbGraph_Node(g, pb_opMul, a, b, 0); }
static inline int pb_div(pbGraph *g, int a, int b) { return pbGraph_Node(g, pb_opDiv, a, b, 0); }
static inline int pb_neg(pbGraph *g, int a) { return pbGraph_Node(g, pb_opNeg, a, 0, 0); }

#endif
