// Inside of the verdict on a run (pbTask_Judge): what its parts share.
#ifndef PB_VERDICT_H
#define PB_VERDICT_H

#include "optimize/task.h"

typedef struct Judge {
  pbTask *task;
  pbVerdict *verdict;
  const double *z;  // the answer
  int n;
  double value, noise, negligible;  // loss at the answer, its rounding, a gain that is none
  bool smooth;                      // the loss has a gradient there
  bool together;                    // some unknowns change the loss with others alone, as the factors of a product that is zero
  double *g, *trial, *d;            // n each: gradient, a point, a direction
  double *J, *A, *B, *D;  // m x n Jacobian, J'J with its eigenvectors (n x n each), roots of eigenvalues (n); NULL where
                          // it is not formed
  double *residuals;      // m
  double seen;            // influence of an unknown on the residuals, squared, below which it is rounding
  double *look;           // workspace of a look sideways
} Judge;

// A simulation that fails at a point, which is no failure of the search.
bool pbJudge_IsSoft(pbStatus status);
// The loss at z; infinite where the simulation fails.
PB_NODISCARD pbStatus pbJudge_Value(Judge *j, const double *z, double *value);
PB_NODISCARD pbStatus pbJudge_Allocate(Judge *j, size_t count, double **data);
// The reason of the outcome; one line more of what else a user should know.
void pbJudge_Say(Judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pbJudge_Advise(Judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *pbJudge_NameOf(const Judge *j, int i, char *name, size_t size);
const pbVariable *pbJudge_VariableOf(const Judge *j, int i);
// Lengths of axes and quaternions have no meaning, so no loss sees them: to A (n x n, of columns of this length; NULL: one)
// goes a rank for each that says it is not to change.
void pbJudge_HoldLengths(const Judge *j, double *A, const double *length);

// ---- verdict_unknowns.c
int pbJudge_CountNotes(const Judge *j, unsigned note);  // unknowns with a note
PB_NODISCARD pbStatus pbJudge_FindInert(Judge *j);
void pbJudge_FindUndetermined(Judge *j);  // writes A, B, D and d
void pbJudge_TellDelays(Judge *j);        // those that put samples on states; the answer is applied
// Eigenvectors of J'J with columns of length one into B, roots of its eigenvalues into D, those lengths (n); writes A.
void pbJudge_Decompose(Judge *j, double *length);

// ---- verdict_saddle.c: sets outcome, reason, direction and the point beside where the answer is one; writes A, B, D and d
PB_NODISCARD pbStatus pbJudge_FindSaddle(Judge *j, bool *found);

// ---- verdict_jump.c
enum { DECADES = 12 };  // lengths of a step along a direction: 1e-2 ... 1e-13 of 1 + |z|
typedef struct Line {   // values along d, shortest step first
  double at[DECADES], value[DECADES];
  double slope;  // by the gradient
} Line;
PB_NODISCARD pbStatus pbJudge_Look(Judge *j, Line *line);
double pbLine_Gain(const Judge *j, const Line *line);
double pbLine_ParabolaGain(const Judge *j, const Line *line);
PB_NODISCARD pbStatus pbJudge_FindJump(Judge *j, const Line *line, bool *found);

#endif
