// Least squares along one trajectory: sum |r + J p|^2 + lambda p'D p over knots of controls and the initial state, where every
// row of J belongs to one state. J is never formed: the value of what is left, a quadratic function of the state and the knots at
// hand, goes backwards through the steps (a Riccati sweep), and each unknown is minimized over where it enters.
#ifndef PB_RICCATI_H
#define PB_RICCATI_H

#include <pullback/base.h>

typedef struct pbRiccatiEntry {  // an unknown acts from this step on, in a slot that another had before it
  int step, slot, unknown;
} pbRiccatiEntry;

typedef struct pbRiccati {
  int steps, n, slots, size;  // size: n + slots, of the state with the knots at hand
  // What does not change
  int entry_count;          // knots that ever act, those of the last step first
  pbRiccatiEntry *entries;  // of the same step in the order in which they are minimized over
  int start_count;          // unknowns of the initial state
  int *start_unknown;       // start_count
  // The linearized trajectory, written by the caller
  double *start;  // (start_count, n): motion of the initial state by each
  double *F;      // (steps, n, size): the next state by this one and the knots at hand
  size_t *first;  // steps + 2: rows first[k] .. first[k + 1] - 1 are of state k
  double *G, *r;  // (rows, size) and rows: residuals by the state and the knots at hand, of the last state those of the last step
  double *C;      // (steps, size, size): what the step's own curvature adds to P there; NULL: none. The caller's
  bool hessians;  // whether they are added
  bool *linear;   // rows: no residual, but 2 r G x in place of (r + G x)^2; zero from Create on
  // Workspace
  double *P, *Y, *Z;           // size x size, n x size, slots x slots
  double *q, *before;          // size each
  double *gain;                // (entry_count, size + 1): an unknown is minus that times (state and knots, 1)
  double *S, *s, *start_gain;  // start_count squared, start_count, (start_count, start_count + 1)
  int *at;                     // size
  void *product;               // room for products of matrices
  double *numbers;             // all of the above
  int *integers;
} pbRiccati;

// Memory for the sizes that are set, with rows residuals; integers are zero. Freed after a failure, too.
PB_NODISCARD pbStatus pbRiccati_Create(pbContext *ctx, pbRiccati *s, size_t rows);
void pbRiccati_Free(pbContext *ctx, pbRiccati *s);

// All are of the problem's unknowns, by their numbers; what is not of this trajectory is left alone.
void pbRiccati_Look(pbRiccati *s, double *g, double *diagonal);  // J'r, and the diagonal of J'J
// p of the unknowns that are not held, 0 of the others; false where a pivot is not positive.
bool pbRiccati_Solve(pbRiccati *s, double lambda, const double *D, const bool *held, double *p);
double pbRiccati_Squared(pbRiccati *s, const double *p);  // |J p|^2
// J'r alone, by vectors; costates (steps, n): of the state after each step, NULL: not wanted
void pbRiccati_Gradient(pbRiccati *s, double *g, double *costates);

// ---- steps of a sweep: P and q of what is left from state k on, x'P x + 2 q'x, by the state and the knots at hand
void pbRiccati_BeginLast(pbRiccati *s);                     // at the last state
void pbRiccati_PullBack(pbRiccati *s, int k);               // from state k + 1 to state k, with what is seen there
void pbRiccati_PullVector(pbRiccati *s, int k, double *v);  // a linear function alone
void pbRiccati_BeginStart(pbRiccati *s);  // S and s of the unknowns of the initial state, when all knots are done with

#endif
