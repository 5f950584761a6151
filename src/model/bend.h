// Entries of theta that lie where the motion bends: at the end of what they may be, where they have no effect, or level with another.
#ifndef PB_BEND_H
#define PB_BEND_H

#include <pullback/model.h>

typedef enum pbBendKind {
  pb_bendNone,
  pb_bendLower,  // at its least value: the gradient is that of larger ones
  pb_bendUpper,  // at its largest value: the gradient is that of smaller ones
  pb_bendFlat,   // beyond it: no effect until it comes back
  pb_bendTie     // of the same value as the same entry of another geom, of which the larger (or smaller) counts: half each
} pbBendKind;

typedef struct pbBend {
  pbBendKind kind;
  double at;     // the value at which it bends
  size_t other;  // tie: the other entry of theta
} pbBend;

// The entry row, column of a parameter, at the values theta.
pbBend pbBend_At(const pbModel *model, const double *theta, const pbParam *param, int row, int column);

#endif
