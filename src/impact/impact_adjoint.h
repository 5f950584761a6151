// Parts of the adjoint of an impact (impact_adjoint.c), put together in step_adjoint.c.
#ifndef PB_IMPACT_ADJOINT_H
#define PB_IMPACT_ADJOINT_H

#include "eval/adjoint.h"
#include "impact/impact_kernel.h"

#if PB_LANES == 1
typedef struct pbImpactBar {
  double *lam;                                         // nv: virtual velocity
  double after[pb_strikeRows], before[pb_strikeRows];  // of the rows' velocities
  double restitution;
} pbImpactBar;

// The small system of the law, and what follows from it, for the cotangent w_bar of the velocity after.
void LANE(pbImpact_Law)(const NUM(pbWork) *w, const NUM(pbStrike) *s, const double *w_bar, pbImpactBar *bar);
// A contact's share of W, with the body fields Vm (of -lam), Vw (of the change of velocity) and V (before).
void LANE(pbImpact_Contact)(LANE(pbAdjoint) *a, const NUM(pbStrike) *s, int index, const pbImpactBar *bar);
#endif

#endif
