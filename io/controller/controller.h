// A policy as a file of C: what its parts are written with. docs/export.md.
#ifndef PB_IO_CONTROLLER_H
#define PB_IO_CONTROLLER_H

#include <stdio.h>

#include <pullback/model.h>

#include "policy/layer.h"

// Where the C of a network goes.
typedef struct pbPrinted {
  FILE *out;
  const char *name;                                  // before the names of its functions and arrays
  const char *type;                                  // "double", "float": what layers compute in
  const double *param;                               // of the network
  int arrays, rows;                                  // numbers for names: of constant arrays, of local ones
  bool elementary, exponential, products, formulas;  // what of the preamble it needs
} pbPrinted;

// Everything that a layer needs must be known here: NULL, or why a kind cannot be written.
const char *pbPrinted_Lacks(const pbChain *chain);
// What the preamble must have, gathered from a chain.
void pbPrinted_Needs(pbPrinted *p, const pbChain *chain);
void pbPrinted_Preamble(const pbPrinted *p);
// void NAME_PART(const double *m, double *next, const TYPE *x, TYPE *y), with its constants before it. state: of the first of its
// memory.
void pbPrinted_Network(pbPrinted *p, const char *part, const pbChain *chain);
// double NAME(const double *x), of an expression's used numbers; NaN outside of its domain.
void pbPrinted_Formula(pbPrinted *p, const char *name, const pbFormula *f);
struct pbObserveRow;
struct pbOutputTarget;

// What an observation or an output is, in words and with its unit, into PB_PRINTED_TEXT bytes.
enum { PB_PRINTED_TEXT = 600 };
void pbPrinted_Observation(const pbModel *m, const struct pbObserveRow *row, int k, char *text, size_t size);
void pbPrinted_Target(const pbModel *m, const struct pbOutputTarget *target, char *text, size_t size);
double pbPrinted_TimeStep(const pbModel *m, const double *theta);
const char *pbPrinted_Operation(int code);                    // of a formula's instruction, as C; NULL: there is none
void pbPrinted_Number(FILE *out, double value, bool single);  // exactly, whatever the locale

#endif
