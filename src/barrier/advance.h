// Continuous collision detection of one pair by conservative advancement (Mirtich 1996; with the norm of the motion as bound it
// is the additive advancement of Li, Kaufman, Jiang 2021): lower bounds of the distance, no roots.
#ifndef PB_BARRIER_ADVANCE_H
#define PB_BARRIER_ADVANCE_H

// Primitives of na and nb vertices (as pbClosest_Find) move from A, B by dA, dB. The largest t in [0, 1] that is found for which
// the distance stays at least xi + keep * min(gap at the start, dhat) all the way; -1: the gap is closed at the start.
double pbAdvance_Pair(int na, const double *A, const double *dA, int nb, const double *B, const double *dB, double xi,
                      double dhat, double keep);
// The same for a point and the plane of three (which may turn and stretch), on its free side
double pbAdvance_Plane(const double *p, const double *dp, const double *plane, const double *dplane, double xi, double dhat,
                       double keep);

#endif
