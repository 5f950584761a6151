// Impacts on the number type: what touches, and the instantaneous change of velocity. The composition of flights and impacts
// to a step is in impact.c.
#ifndef PB_IMPACT_KERNEL_H
#define PB_IMPACT_KERNEL_H

#include "multibody/work.h"

#include "world/touch.h"

// One impact with restitution e: w->qvel before it; after it w->qvel += X' impulse. Rows: the normal, and the directions of
// slip that can be moved (none without friction), velocities and impulses there scaled by friction.
typedef struct NUM(pbStrike) {
  int n;
  bool slides;
  double cos, sin;  // directions of slip from the contact's tangents (times friction)
  num gap;          // distance less margin
  num before[3], after[3], impulse[3];
  num A[3][3];  // mobility: velocity by impulse
  num *J, *X;   // 3 x nv: rows, and M^-1 J'
  num restitution;
} NUM(pbStrike);

// Contacts within `reach` of their margin at the positions and velocities in w, at most `most`; returns their number, or -1
// for more.
int NUM(pbImpact_Look)(NUM(pbWork) *w, double reach, int most, pbTouch *touch);
// Smallest gap of a candidate at the positions in w; `reach` where it is larger than that.
double NUM(pbImpact_Gap)(NUM(pbWork) *w, int candidate, double reach);
// Contact `hit` of the candidate (numbered as pbImpact_Look does within PB_TOUCH) strikes. Leaves the factor of M in w->LD.
pbStatus NUM(pbImpact_Strike)(NUM(pbWork) *w, int candidate, int hit, NUM(pbStrike) *s);

// The law of impact C(before, after, impulse) = 0 and its slopes by `after` and `impulse`; by `before` there is one, the
// restitution in the first entry.
void NUM(pbStrike_Law)(const NUM(pbStrike) *s, num C[3], num by_after[3][3], num by_impulse[3][3]);

// x := A^-1 x for n <= 3 unknowns, by elimination with pivots. False: singular.
bool NUM(pbStrike_Solve)(int n, num A[3][3], num *x);

// pbImpact_Strike alone.
pbStatus NUM(pbImpact_Change)(NUM(pbWork) *w, int candidate, int hit);

#endif
