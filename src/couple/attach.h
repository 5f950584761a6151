// Points attached to bodies and geoms: where they are, and the generalized forces that forces on them make.
#ifndef PB_ATTACH_H
#define PB_ATTACH_H

#include "eval/names.h"

typedef struct pbAttachments {
  int count;
  const int *body;  // count
  const int *geom;  // count; -1: none, local coordinates are those of the body
  const int *size;  // count x 3: which size of the geom scales a local coordinate; -1: none, it is in meters
} pbAttachments;

// After kinematics: positions x (count x 3) of the points with local coordinates `local` (count x 3).
void NUM(pbAttach_Positions)(const NUM(pbWork) *w, const pbAttachments *points, const num *local, num *x);
// Generalized forces tau (nv) of forces f (count x 3) at x. wrench: room, nbody x 6.
void NUM(pbAttach_Force)(const NUM(pbWork) *w, const pbAttachments *points, const num *x, const double *f, num *wrench, num *tau);

#endif
