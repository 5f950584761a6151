// Continuous collision detection of one pair by conservative advancement (Mirtich 1996; with the norm of the motion as bound it
// is the additive advancement of Li, Kaufman, Jiang 2021): lower bounds of the distance, no roots.
#ifndef PB_BARRIER_ADVANCE_H
#define PB_BARRIER_ADVANCE_H

// A primitive whose vertices (count x 3) move from x to x + dx along lines.
typedef struct pbMoving {
  int count;
  const double *x, *dx;
} pbMoving;

// The largest t in [0, 1] that is found for which the distance of two primitives (of vertices as pbClosest_Find takes them) stays
// at least xi + keep * min(gap at the start, dhat) until then; -1: the gap is closed at the start.
double pbAdvance_Pair(const pbMoving *a, const pbMoving *b, double xi, double dhat, double keep);
// The same for a point and the plane of three (which may rotate and stretch), on its free side
double pbAdvance_Plane(const double *p, const double *dp, const double *plane, const double *dplane, double xi, double dhat,
                       double keep);

#endif
