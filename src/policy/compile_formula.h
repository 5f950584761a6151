// Formulas of a layer, read from text.
#ifndef PB_POLICY_COMPILE_FORMULA_H
#define PB_POLICY_COMPILE_FORMULA_H

#include "policy/network.h"

enum { PB_FORMULA_BLOCK = 32 };  // columns that are evaluated side by side

// The layer's outputs, one a formula, and its slice of parameters. pb_bad_argument with the output and the place in its formula.
PB_NODISCARD pbStatus pbFormula_Compile(const pbPlace *place, const pbLayerDef *def, pbLayer *l);

#endif
