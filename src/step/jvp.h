// Forward derivatives: the complex variant of the step behind plain pointers (its types are not visible to other sources).
#ifndef PB_JVP_H
#define PB_JVP_H

#include <pullback/world.h>

#include "eval/found.h"
#include "eval/room.h"
#include "step/record.h"

// A complex evaluation with room for contacts as another has it (pbRoom); the handle of what is below. After a failure: NULL.
PB_NODISCARD pbStatus pbJvp_Create(pbContext *ctx, const pbModel *m, pbRoom room, void **block);
void pbJvp_Destroy(pbContext *ctx, void *block);  // NULL is fine
// The step along a direction; of its record only the state before it is read. stages: the accelerations it found.
pbStatus pbJvp_Run(void *block, const pbStepRecord *step, double *stages, const pbDirection *direction, bool integrate,
                   const pbStepTangent *out);
// For the next runs: the forces of hard contact that the step found; NULL: they are searched for.
void pbJvp_KnowForces(void *block, const pbFound *found);
// Tangent of what the policy of a step observes of its state (eval/work.h).
void pbJvp_Sense(void *block, const pbStepRecord *step, const pbDirection *direction, double *tangent);
// For the next runs: a further potential of the accelerations (work.h), and the derivative of its slope g; S NULL: none.
void pbJvp_Couple(void *block, const double *S, const double *g, const double *g_tangent, const double *at);
// After a step of Runge-Kutta: derivatives of the accelerations of its first three stages (3 x nv).
void pbJvp_Stages(const void *block, double *tangents);
// After a run: the derivative of the accelerations (nv).
void pbJvp_Acceleration(const void *block, double *tangent);
// Afterwards, where it did not integrate: derivative of a quantity by the name and in the shape of pbScratch_Tangent; false:
// there is none of the name.
bool pbJvp_Field(void *block, const char *name, double *out);
// Likewise: derivatives of pos - margin of each block's first row.
void pbJvp_Distances(const void *block, double *distances);

#endif
