// Formulas of named numbers with one number as value, and its derivatives by all of them: terms of losses, ties between
// parameters. The language is that of energies (docs/energies.md), without their points and parameters.
#ifndef PB_ENERGY_EXPRESSION_H
#define PB_ENERGY_EXPRESSION_H

#include <pullback/energy.h>

enum { PB_EXPRESSION_NUMBERS = 3 * PB_ENERGY_POINTS };  // of all inputs together

typedef struct pbExpressionInput {
  const char *name;
  int count;  // 1: a number; 2, 3: a vector
} pbExpressionInput;

// Holds working memory of its own: pbExpression_Evaluate is for one caller at a time.
typedef struct pbExpression pbExpression;

// most: evaluations side by side. pb_bad_input: the formula, with line, column and a caret below the place, or a name.
PB_NODISCARD pbStatus pbExpression_Create(pbContext *ctx, const char *formula, const pbExpressionInput *inputs, int count,
                                          int most, pbExpression **expression);
void pbExpression_Destroy(pbExpression *expression);  // NULL is fine
// Doubles from one evaluation's inputs to those of the next: at least as many as the inputs have together.
int pbExpression_Width(const pbExpression *expression);
// in, gradient (may be NULL): count x Width, numbers in the order of the inputs, what is beyond them is finite; value: count.
// False: one left the domain of the formula, `fault` (may be NULL) says which and why.
bool pbExpression_Evaluate(const pbExpression *expression, int count, const double *in, double *value, double *gradient,
                           pbEnergyFault *fault);
// How the gradient of one evaluation changes where its inputs move along `direction` (Width): `change` (Width), exactly.
bool pbExpression_Second(const pbExpression *expression, const double *in, const double *direction, double *change);
// The same as Evaluate in the caller's memory, WorkBytes of it, so that threads may share an expression.
size_t pbExpression_WorkBytes(const pbExpression *expression);
bool pbExpression_EvaluateIn(const pbExpression *expression, int count, const double *in, double *value, double *gradient,
                             void *work, pbEnergyFault *fault);
// What is run for the value alone (energy/program.h), for who writes it down.
const struct pbProgram *pbExpression_Program(const pbExpression *expression);

#endif
