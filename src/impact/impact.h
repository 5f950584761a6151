// Contact method `impact`: a step is a ballistic flight, without contact rows, to the first instant at which two geoms touch, the
// impact there, and the next flight. Behind pbStep_*; kernels in impact_kernel.c.
#ifndef PB_IMPACT_H
#define PB_IMPACT_H

#include <pullback/world.h>

#include "impact/event.h"
#include "step/record.h"

typedef struct pbImpacts pbImpacts;

PB_NODISCARD pbStatus pbImpacts_Create(pbScratch *scratch, int contacts);
void pbImpacts_Destroy(pbScratch *scratch);

// The step: the state after it to `next`; sense: sensors of its start are left in the work.
PB_NODISCARD pbStatus pbImpacts_Step(pbScratch *scratch, const double *theta, const double *x, const pbInput *input, bool sense,
                                     double *next);
// Impacts of the last step; they are the last number of a tape record. Forget: there was an evaluation alone.
int pbImpacts_Count(const pbScratch *scratch);
void pbImpacts_Forget(pbScratch *scratch);
// Of a recorded step.
int pbImpacts_Recorded(const pbScratch *scratch, const double *record);
// For a step with impacts; next_bar and next not NULL.
PB_NODISCARD pbStatus pbImpacts_Vjp(pbScratch *scratch, const pbStepRecord *step, const double *next_bar, const pbStepBar *out);
PB_NODISCARD pbStatus pbImpacts_Jvp(pbScratch *scratch, const pbStepRecord *step, const pbDirection *direction, double *next);
// Of the step that Vjp was last called for: impacts that throw with the velocity of a path (pbEventCount.led).
void pbImpacts_CountLed(const pbScratch *scratch, pbEventCount *count);
// A and B of pbStep_Jacobian.
PB_NODISCARD pbStatus pbImpacts_Jacobian(pbScratch *scratch, const pbStepRecord *step, unsigned by, double *A, double *B);

#endif
