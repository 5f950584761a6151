// Some nodes of a graph as straight code for a machine with numbered slots: constants, inputs, then one instruction after
// the other. Slots are reused as soon as nobody reads them any more, so that a block of elements stays in the cache.
#ifndef PB_ENERGY_PROGRAM_H
#define PB_ENERGY_PROGRAM_H

#include "energy/graph.h"

// What instructions do with the operands a, b, c, d. Products are rounded before they are added: no fused multiply-add.
typedef enum pbCode {
#define X(id, operands) id##_code,
  PB_OP_TABLE(X)
#undef X
      pb_mulAdd,  // a b + c
  pb_mulSub,      // a b - c
  pb_subMul,      // c - a b
  pb_mulAddMul,   // a b + c d
  pb_mulSubMul,   // a b - c d
  pb_codeCount
} pbCode;

typedef struct pbInstruction {
  uint16_t code, to, of[4];
} pbInstruction;

typedef enum pbGroup {
  pb_groupX,
  pb_groupRest,
  pb_groupPrevious,
  pb_groupTimestep,
  pb_groupTime,
  pb_groupParameter,
  pb_groupWeight
} pbGroup;
typedef struct pbPort {  // where an input comes from, and where a derivative by it goes
  uint16_t slot;
  uint8_t group;   // pbGroup
  uint8_t index;   // point or parameter
  uint8_t offset;  // component
} pbPort;

typedef struct pbProgram {
  int count, slots, constant_count, input_count, output_count;
  pbInstruction *code;  // count
  pbOrigin *place;      // count
  double *constant;     // in slots 0, 1, ...
  pbPort *input;
  uint16_t *output;  // slots; a value that is several outputs occurs several times
  uint16_t *stored;  // stored_count: the same, each once
  int stored_count;
  pbPort *port;  // of outputs that are derivatives by inputs; NULL: rows
} pbProgram;

// outputs: nodes. g->status says whether it went well.
void pbProgram_Compile(pbGraph *g, const int *output, int outputs, pbProgram *p);
// As above, of those among the derivatives by input i in node[i] that are not zero.
void pbProgram_CompilePull(pbGraph *g, const int *node, int first, int last, pbProgram *p);
void pbProgram_Destroy(pbContext *ctx, pbProgram *p);

int pbCode_Operands(pbCode code);

#endif
