// Second derivatives of a step: its pullback along a direction, by the complex variant of the pullback's source, behind plain
// pointers.
#ifndef PB_SECOND_H
#define PB_SECOND_H

#include <pullback/world.h>

#include "step/record.h"

// How the pullback of a step changes along a direction. Of its record only the state before it is read; stages: the accelerations
// that it found; moved: of Runge-Kutta how those of the first three stages change along the direction (pbJvp_Stages); NULL: it
// is worked out. handle: of pbJvp_Create. bar (TangentSize): the pullback itself to the state before, added to, with the rounding
// of complex numbers; NULL: not wanted. Memory is taken where the first call needs it, and where contacts are more than before.
// pb_bad_input, with the reason in pbSecond_Error, of what has no second derivatives.
pbStatus pbSecond_Run(pbContext *ctx, void *handle, const pbStepRecord *step, const double *stages, const double *moved,
                      const pbSecond *second, double *bar);
// What it works with, made before the first of them.
PB_NODISCARD pbStatus pbSecond_Make(pbContext *ctx, void *handle);
const char *pbSecond_Error(const void *handle);
// What of a model has none, in words ("a policy has"); NULL: they are there, but for what an evaluation meets.
const char *pbSecond_Lacks(const pbModel *m);
// pbStep_Second of a step, with the pullback itself.
struct pbScratch;
PB_NODISCARD pbStatus pbStep_SecondRecord(struct pbScratch *s, const pbStepRecord *step, const double *moved,
                                          const pbSecond *second, double *bar);
void pbSecond_Drop(pbContext *ctx, void *handle);  // what the handle keeps of it, before the handle goes; NULL is fine

#endif
