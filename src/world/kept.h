// An evaluation kept beside the thin tape: all that the pullback of a step reads, so that it need not evaluate again. The
// record of the step (state, accelerations) is still what says which step it is; with or without, the gradient has the same
// bits. Not for Runge-Kutta, which evaluates more than once.
#ifndef PB_KEPT_H
#define PB_KEPT_H

#include <pullback/world.h>

// Bytes that a step with this many contacts needs at most; 0: it cannot be kept.
size_t pbKept_Room(const pbModel *model, int contacts);
// Before pbStep_Forward: the evaluation is written there at once (aligned to 64 bytes). False: there is not enough room, or it
// cannot be kept.
bool pbKept_Begin(pbScratch *scratch, void *kept, size_t room);
// Bytes that the step evaluated last would take, as a guess at the next one's; 0: it cannot be kept.
size_t pbKept_Guess(pbScratch *scratch);
// After it: what else is kept, behind that; completes what the step left undone (the factor at its solution). *size: bytes taken
// in all, 0 where there is not enough room.
PB_NODISCARD pbStatus pbKept_Save(pbScratch *scratch, size_t room, size_t *size);

// pbStep_Vjp with what pbKept_Save left (NULL: evaluate again). distance_bar: cotangents of pos - margin of the rows, or NULL.
PB_NODISCARD pbStatus pbStep_VjpKept(const pbModel *model, const double *theta, const double *record, void *kept,
                                     const pbInput *input, const double *next_bar, const pbObservationBar *observed,
                                     const double *distance_bar, pbScratch *scratch, double *x_bar, const pbInputBar *input_bar,
                                     double *theta_bar);

#endif
