// Points that ride on bodies, and on geoms: where they are, and what forces on them do to the degrees of freedom.
#ifndef PB_ATTACH_H
#define PB_ATTACH_H

#include "eval/work.h"

typedef struct pbAttach {
  int count;
  const int *body, *geom,
      *size;  // count, count (-1: none), count x 3: which sizes of the geom its coordinates count in (-1: metres)
} pbAttach;

// After kinematics: x (count x 3) of the places `local` (count x 3).
void NUM(pbAttach_Places)(const NUM(pbWork) *w, const pbAttach *at, const num *local, num *x);
// Generalised forces (nv) of forces f (count x 3) at x. wrench: nbody x 6, room.
void NUM(pbAttach_Force)(const NUM(pbWork) *w, const pbAttach *at, const num *x, const double *f, num *wrench, num *tau);

#endif
