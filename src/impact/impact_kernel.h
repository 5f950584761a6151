// Impacts on the number type: which contacts touch, and the instantaneous change of velocity. The composition of flights and
// impacts to a step is in impact.c.
#ifndef PB_IMPACT_KERNEL_H
#define PB_IMPACT_KERNEL_H

#include <pullback/base.h>

#include "eval/names.h"
#include "eval/touch.h"

enum { pb_impactContacts = 8, pb_impactRows = 3 * pb_impactContacts };  // that act together at most, and their rows

// A contact in an impact.
typedef struct pbImpactContact {
  int point;          // in w->contact
  int first, n;       // its rows: the normal, and the directions of slip that can be moved (none without friction)
  bool open, slides;  // it transmits no impulse; friction is at its limit
  double cos, sin;    // directions of slip from the contact's tangents
} pbImpactContact;

// Contacts of one pair in one impact: w->qvel before; after it w->qvel += X' impulse. Velocities and impulses along directions
// of slip are scaled by friction.
typedef struct NUM(pbImpact) {
  int count, n;  // contacts, rows
  pbImpactContact contact[pb_impactContacts];
  num gap, restitution;  // distance less margin of the first
  num used;              // restitution in the law: less than that of the contact where it is capped
  bool capped;
  num before[pb_impactRows], after[pb_impactRows], impulse[pb_impactRows];
  num A[pb_impactRows][pb_impactRows];  // mobility: velocity by impulse
  num *J, *X;                           // n x nv: rows, and M^-1 J'
} NUM(pbImpact);

// Contacts within `reach` of their margin at the positions and velocities in w, at most `most`; returns their number, or -1
// for more.
int NUM(pbImpact_FindContacts)(NUM(pbWork) *w, double reach, int most, pbTouch *touch);
// Smallest gap of a candidate at the positions in w; `reach` where it is larger than that.
double NUM(pbImpact_Gap)(NUM(pbWork) *w, int candidate, double reach);
// The impact at contact point `point` of the candidate (numbered as pbImpact_FindContacts does within PB_TOUCH), with those of
// the same pair that touch and approach too. Changes w->qvel and leaves the factor of M in w->LD.
pbStatus NUM(pbImpact_Solve)(NUM(pbWork) *w, int candidate, int point, NUM(pbImpact) *s);
pbStatus NUM(pbImpact_Change)(NUM(pbWork) *w, int candidate, int point);  // the same, of the velocity alone

// Mocap bodies a time `span` further along their path (negative: before).
void NUM(pbImpact_Stand)(NUM(pbWork) *w, num span);

// ---- impact_law_kernel.c ------------------------------------------------------------------------------------------------
// The law of impact C(before, after, impulse) = 0 of contact c and its slopes by `after` and `impulse`, n x n; by `before`
// there is one, the restitution in the first entry (none where it is open).
typedef struct NUM(pbImpactLaw) {
  num C[3], by_after[3][3], by_impulse[3][3];
} NUM(pbImpactLaw);
void NUM(pbImpact_Law)(const NUM(pbImpact) *s, int c, NUM(pbImpactLaw) *law);
// The impulses that meet the law, and velocities after; restitution less where it would make energy and may be capped. False:
// none were found.
bool NUM(pbImpact_FindImpulses)(NUM(pbImpact) *s, bool may_cap);
// The power that the capped law forbids, p . (before + after): twice the energy that the impact makes.
num NUM(pbImpact_Gain)(const NUM(pbImpact) *s);
// Of the law capped, with one more unknown and equation: slopes of the law by `used`, and of the gain by the impulses.
void NUM(pbImpact_Border)(const NUM(pbImpact) *s, num *by_restitution, num *gain_by);
// x := K^-1 x, or transposed, with K = dC/d(after) A + dC/d(impulse) of all rows; what redundant contacts leave open is zero.
void NUM(pbImpact_SolveLaw)(const NUM(pbImpact) *s, num *x, bool transposed);

#endif
