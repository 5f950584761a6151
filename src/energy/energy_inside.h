// What an energy consists of, and its programs in complex numbers: derivatives forward, and every test of a derivative.
#ifndef PB_ENERGY_INSIDE_H
#define PB_ENERGY_INSIDE_H

#include "energy/run.h"

struct pbEnergy {
  pbContext *ctx;
  pbEnergyDef def;
  pbEnergyParameter *parameter;
  bool symmetric, chooses, uses[pb_inputTime + 1];
  pbProgram value, gradient, hessian;  // the outputs of those before it and its own
  pbProgram pull_x, pull_rest;         // derivatives of w . gradient: by x, by everything else
};

// As pbElements, pbElementsOut and pbElementsBar; every number is a _Complex double.
typedef struct pbComplexElements {
  int count;
  const int *vertex;
  const void *x, *rest, *previous;
  const void *const *parameter;
  const int *stride;
  const void *timestep, *time;
  const int *row;
} pbComplexElements;
typedef struct pbComplexOut {
  void *value, *gradient, *hessian;
} pbComplexOut;
typedef struct pbComplexBar {
  void *x, *rest, *previous;
  void *const *parameter;
  void *timestep, *time;
} pbComplexBar;

size_t pbEnergy_WorkSizeComplex(const pbEnergy *energy);
// Whether the formula has choices in it: min, max, abs, sign, conditions.
bool pbEnergy_Chooses(const pbEnergy *energy);
bool pbEnergy_EvaluateComplex(const pbEnergy *energy, const pbComplexElements *elements, const pbComplexOut *out, void *work,
                              pbEnergyFault *fault);

// Instruction sets this processor has, 0 the widest; past the last NULL.
typedef __typeof__(NUM(pbRun_Elements)) pbRunElements;
pbRunElements *pbRun_Variant(int index);
pbRunElements pbRun_Elements_c;  // in complex numbers

#endif
