// Formulas as text, read into a graph.
#ifndef PB_ENERGY_FORMULA_H
#define PB_ENERGY_FORMULA_H

#include "energy/graph.h"

// The energy of def->formula as a node of g, which was made for def. An error is in the context: line, column, reason, and
// the line with a caret below the place.
PB_NODISCARD pbStatus pbFormula_Read(pbGraph *g, const pbEnergyDef *def, int *value);

// A name that a formula may use, and what it stands for.
typedef struct pbFormulaName {
  const char *name;
  pbValue value;
} pbFormulaName;
// A formula of these names alone: numbers, functions and pi are as in energies, but there are no points, parameters, h or t.
// A name goes before what it means elsewhere ("x0", "t"). The value is a scalar.
PB_NODISCARD pbStatus pbFormula_ReadNamed(pbGraph *g, const char *formula, const pbFormulaName *names, int count, int *value);
// Why `name` cannot be one of these; NULL: it can.
const char *pbFormula_NameFault(const char *name);

// Names of parameters: letters, digits and '_', none twice, none that formulas use for something else.
PB_NODISCARD pbStatus pbFormula_CheckNames(pbContext *ctx, const pbEnergyDef *def);

#endif
