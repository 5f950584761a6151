// A program run over elements. The kernel is compiled per number type: what depends on it is passed as void.
#ifndef PB_ENERGY_RUN_H
#define PB_ENERGY_RUN_H

#include "energy/program.h"
#include "number/number.h"

enum { PB_BLOCK = 32 };  // elements side by side

typedef struct pbOutputRows {  // outputs first, first + 1, ... of an element are n numbers in a row; to[e n]
  void *to;                    // NULL: not wanted
  int first, n;
} pbOutputRows;

typedef struct pbRun {
  const pbProgram *program;
  int points, count;
  const int *vertex, *row;                   // row where vertex is NULL: point k of element e is row[k] + e
  const void *vertices[pb_groupWeight + 1];  // x, X, y and w by group, vertices x 3; time step and time: one number
  const void *const *parameter;
  const int *stride;              // NULL: all 0
  pbOutputRows rows[3];           // value first: it is infinite in elements with a fault, everything else 0
  void *bar[pb_groupWeight + 1];  // or: derivatives, added into by the ports of the program
  void *const *parameter_bar;
  void *work;  // pbRun_WorkSize
} pbRun;

size_t pbRun_WorkSize(const pbProgram *p, bool in_complex);

// The first element that left the domain, or -1. fault may be NULL.
int NUM(pbRun_Elements)(const pbRun *run, pbEnergyFault *fault);

// The text of a fault from the instruction and the values of its operands.
void pbRun_Explain(const pbProgram *p, int instruction, const double *operand, pbEnergyFault *fault);
void pbRun_ExplainInput(const pbPort *port, double value, pbEnergyFault *fault);

#endif
