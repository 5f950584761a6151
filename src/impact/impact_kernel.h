// Impacts on the number type: what touches, and the instantaneous change of velocity. The composition of flights and impacts
// to a step is in impact.c.
#ifndef PB_IMPACT_KERNEL_H
#define PB_IMPACT_KERNEL_H

#include "eval/work.h"

#include "eval/touch.h"

enum { pb_strikeMost = 8, pb_strikeRows = 3 * pb_strikeMost };  // contacts that strike together, and their rows

typedef struct pbStruck {
  int point, first, n;  // contact; its rows: the normal, and the directions of slip that can be moved (none without friction)
  bool open, slides;    // it does not push; friction is at its limit
  double cos, sin;      // directions of slip from the contact's tangents
} pbStruck;

// Contacts of one pair that strike together: w->qvel before; after it w->qvel += X' impulse. Velocities and impulses along
// directions of slip are scaled by friction.
typedef struct NUM(pbStrike) {
  int count, n;  // contacts, rows
  pbStruck contact[pb_strikeMost];
  num gap, restitution;  // distance less margin of the first
  num used;              // restitution in the law: less than that of the contact where it is capped
  bool capped;
  num before[pb_strikeRows], after[pb_strikeRows], impulse[pb_strikeRows];
  num A[pb_strikeRows][pb_strikeRows];  // mobility: velocity by impulse
  num *J, *X;                           // n x nv: rows, and M^-1 J'
} NUM(pbStrike);

// Contacts within `reach` of their margin at the positions and velocities in w, at most `most`; returns their number, or -1
// for more.
int NUM(pbImpact_Look)(NUM(pbWork) *w, double reach, int most, pbTouch *touch);
// Smallest gap of a candidate at the positions in w; `reach` where it is larger than that.
double NUM(pbImpact_Gap)(NUM(pbWork) *w, int candidate, double reach);
// Contact `point` of the candidate (numbered as pbImpact_Look does within PB_TOUCH) strikes, with those of the same pair that touch
// and approach too. Leaves the factor of M in w->LD.
pbStatus NUM(pbImpact_Strike)(NUM(pbWork) *w, int candidate, int point, NUM(pbStrike) *s);
pbStatus NUM(pbImpact_Change)(NUM(pbWork) *w, int candidate, int point);  // the same, leaving out what struck

// The law of impact C(before, after, impulse) = 0 of contact c and its slopes by `after` and `impulse`, n x n; by `before` there is
// one, the restitution in the first entry (none where it is open).
void NUM(pbStrike_Law)(const NUM(pbStrike) *s, int c, num C[3], num by_after[3][3], num by_impulse[3][3]);
// The power that the capped law forbids, p . (before + after): twice the energy that the impact makes.
num NUM(pbStrike_Gain)(const NUM(pbStrike) *s);
// Of the law capped, with one more unknown and equation: slopes of the law by `used`, and of the gain by the impulses.
void NUM(pbStrike_Border)(const NUM(pbStrike) *s, num *by_restitution, num *gain_by);
// x := K^-1 x, or transposed, with K = dC/d(after) A + dC/d(impulse) of all rows; what redundant contacts leave open is zero.
void NUM(pbStrike_Solve)(const NUM(pbStrike) *s, num *x, bool transposed);

#endif
