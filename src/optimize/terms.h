// Inside of terms: what a term looks at once, and the numbers that it sees there.
#ifndef PB_TERMS_H
#define PB_TERMS_H

#include "optimize/task.h"

typedef struct pbMoment {  // a state, or a time between two, that a term looks at
  const pbTerm *term;
  int k, row, step;  // which of the term's; row in set->rows and number of the state at or before it
  double fraction;   // of the way to the next state
  bool between;      // the next state counts, if only in derivatives by the time
  double rate;       // of the fraction by the delay, 1/s; 0: it is fixed, or the time lies beyond the trajectory
  double weight;
  const double *target;  // of parts that are missing NaN
} pbMoment;

// Rows of a quantity at a moment, and likewise of tangents and cotangents.
typedef struct pbSeen {
  const double *at, *next;  // at: NULL where controls are not given; next: NULL at a state, and of what is held until then
} pbSeen;
typedef struct pbSeenBar {
  double *at, *next;  // likewise; at NULL: nobody wants them
} pbSeenBar;

// ---- reading.c
// The part itself, or its deviation from the target, where it is an axis of a rotation.
double pbPart_Value(const pbPart *part, const pbMoment *m, const pbTerm *of, pbSeen seen, const double *target);
// Cotangent `bar` of that to the rows; returns what goes to the fraction.
double pbPart_Pull(const pbPart *part, const pbMoment *m, const pbTerm *of, pbSeen seen, const double *target, double bar,
                   pbSeenBar to);
// Tangent of that, where the rows move by `by` and the fraction by `fraction`.
double pbPart_Push(const pbPart *part, const pbMoment *m, const pbTerm *of, pbSeen seen, const double *target, pbSeen by,
                   double fraction);

// How Pull changes along tangents of the rows, `bar` the same: of a rotation, whose rows turn with it (at a state alone; all else
// is linear).
void pbPart_PullTangent(const pbPart *part, const pbMoment *m, pbSeen seen, const double *target, double bar, pbSeen by,
                        pbSeenBar to);

// The k-th moment of a term, found from a row at or before it.
pbMoment pbTerm_Moment(const pbTermSet *set, const pbTerm *term, int k, int row);
// The loss of component i of a term at its k-th time, whose state `row` holds, as (r + s d)^2 of its move d, or as 2 r s d
// alone: of squares r is the residual; of a norm both are those of the parabola that touches it from above; what curves
// downwards, or not at all, is linear. The slopes s are added to the bars of that state. False: it is missing.
typedef struct pbTermModel {
  double r;
  bool linear;
} pbTermModel;
bool pbTerm_ModelAt(const pbTermSet *set, const pbTerm *term, int k, int row, int i, const double *ctrl, double *ctrl_bar,
                    pbTermModel *model);
// Deviation of that component; false: it is missing.
bool pbTerm_DeviationAt(const pbTermSet *set, const pbTerm *term, int k, int row, int i, const double *ctrl, double *deviation);
// Of a deviation what a one-sided term counts.
double pbTerm_Violation(const pbTerm *term, double deviation);
// The number of a row that holds a state, from a row at or before it.
int pbTermSet_Row(const pbTermSet *set, int row, int step);

#endif
