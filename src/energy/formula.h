// Formulas as text, read into a graph.
#ifndef PB_ENERGY_FORMULA_H
#define PB_ENERGY_FORMULA_H

#include "energy/graph.h"

// The energy of def->formula as a node of g, which was made for def. An error is in the context: line, column, reason, and
// the line with a caret below the place.
PB_NODISCARD pbStatus pbFormula_Read(pbGraph *g, const pbEnergyDef *def, int *value);

// Names of parameters: letters, digits and '_', none twice, none that formulas use for something else.
PB_NODISCARD pbStatus pbFormula_CheckNames(pbContext *ctx, const pbEnergyDef *def);

#endif
