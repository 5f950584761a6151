// Evaluations cached beside the thin tape: all that the pullback of a step reads, so that it need not evaluate again. The
// record of the step (state, accelerations) is still what identifies it; with or without, the gradient has the same bits. Not
// for Runge-Kutta, which evaluates more than once.
#ifndef PB_CACHED_H
#define PB_CACHED_H

#include <pullback/world.h>

#include "step/record.h"

// Bytes that a step with this many contacts needs at most; 0: it cannot be cached.
size_t pbCached_Room(const pbModel *model, int contacts);
// Before pbStep_Forward: the evaluation is written there at once (aligned to 64 bytes). False: there is not enough room, or it
// cannot be cached.
bool pbCached_Begin(pbScratch *scratch, void *cached, size_t room);
// Bytes that the step evaluated last would take, as a guess at the next one's; 0: it cannot be cached.
size_t pbCached_Guess(pbScratch *scratch);
// After it: what else is cached, behind that; completes what the step left undone (the factor at its solution). *size: bytes
// taken in all, 0 where there is not enough room.
PB_NODISCARD pbStatus pbCached_Save(pbScratch *scratch, size_t room, size_t *size);

// The step's state and input into the work, with the cached evaluation where there is one.
PB_NODISCARD pbStatus pbCached_Load(pbScratch *scratch, const pbStepRecord *step);

// The evaluation at its own place again, before memory that one was cached in ends.
void pbCached_Leave(pbScratch *scratch);

// pbStep_Vjp, with the cached evaluation of the step where there is one, and with cotangents of distances.
PB_NODISCARD pbStatus pbStep_VjpCached(const pbStepRecord *step, const pbStepCotangent *in, pbScratch *scratch,
                                       const pbStepBar *out);

// Of a step with a policy, by a theta whose directions have length one: the part before the pullback of its functions, which a
// pack goes on with (policy_pack.h); pbStep_VjpCached with the same arguments does the rest. Likewise what a policy sees of a
// state, before pbStep_Forward (step.c).
PB_NODISCARD pbStatus pbStep_VjpToFunctions(const pbStepRecord *step, const pbStepCotangent *in, pbScratch *scratch,
                                            const pbStepBar *out);
PB_NODISCARD pbStatus pbStep_Sense(const pbModel *model, const double *theta, const double *x, const pbInput *input,
                                   pbScratch *scratch);

// The open-loop step's own, without a policy.
PB_NODISCARD pbStatus pbStep_VjpOpen(pbScratch *scratch, const pbStepRecord *step, const pbStepCotangent *in,
                                     const pbStepBar *out);
// Does the scratch hold the step's evaluation, at the state before it, after such a pullback?
bool pbStep_LeavesEvaluation(const pbScratch *scratch, const pbStepRecord *step, const pbStepCotangent *in);

// ---- derivative.c: pbStep_JacobianBy of a step as it is recorded, with the cached evaluation where there is one; pbStep_Jvp of
// one, with a normalized theta, and the open-loop step's own.
PB_NODISCARD pbStatus pbStep_JacobianRecord(const pbStepRecord *step, pbScratch *scratch, const pbJacobian *out);
PB_NODISCARD pbStatus pbStep_JvpRecord(pbScratch *scratch, const pbStepRecord *step, const pbDirection *direction,
                                       const pbStepTangent *out);
PB_NODISCARD pbStatus pbStep_JvpOpen(pbScratch *scratch, const pbStepRecord *step, const pbDirection *direction,
                                     const pbStepTangent *out);

#endif
