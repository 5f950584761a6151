// Pullback of an impact, behind plain pointers (step/vjp.h).
#ifndef PB_IMPACT_ADJOINT_H
#define PB_IMPACT_ADJOINT_H

#include "step/vjp.h"

#if !PB_IS_COMPLEX
// One cotangent: the impact at contact point `point` of a candidate in the state in w, with a time step of zero. Impact adds to
// q, v and theta what the velocity after, with cotangent v_next, gives beside v += v_next; gap_slope (nv + 1): of the gap by
// positions, and by the time as paths prescribe it. Gap, right after it: the gap itself, with the cotangent `bar`.
pbStatus LANE(pbVjp_Impact)(void *block, NUM(pbWork) *w, int candidate, int point, const pbPullback *pull, double *gap_slope);
void LANE(pbVjp_Gap)(void *block, NUM(pbWork) *w, int point, double bar, const pbPullback *pull);
#endif

#endif
