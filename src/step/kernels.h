// Entry points of the number-generic kernels, one table per variant; chosen once per scratch.
#ifndef PB_KERNELS_H
#define PB_KERNELS_H

#include "eval/names.h"
#include "model/model.h"

struct pbObserveRow;

// One step from the state in w (qpos, qvel, act; inputs set). Leaves the state after it in w. stages: pb_solutions(m) x nv,
// the accelerations found: written, or with replay given (then nothing is iterated). sense: sensordata (complex numbers: also
// observed_xpos, observed_site) is filled from the first evaluation. integrate: false stops after the first evaluation.
pbStatus NUM(pbStep_Run)(NUM(pbWork) *w, double *stages, bool replay, bool sense, bool integrate);
// Evaluation `stage` alone, its state rebuilt from the state at the start and the accelerations of the stages before;
// for the backward pass. Leaves rk_v of the stages up to this one. known: w has rk_a of the stages before already, which complex
// numbers would evaluate.
pbStatus NUM(pbStep_Stage)(NUM(pbWork) *w, const double *stages, int stage, bool known);

// Of a model with a policy: positions and velocities of the state in w, and from them w->observation. The next evaluation, which
// must be of the same state, goes on from there.
void NUM(pbObserve_Sense)(NUM(pbWork) *w);
// Position of the point that a row is of.
void NUM(pbObserve_Point)(const NUM(pbWork) *w, const struct pbObserveRow *row, num point[3]);

#if !PB_IS_COMPLEX
double NUM(pbFinite_Sum)(const double *x, size_t n);
#endif

static inline int pb_stages(const pbModel *m) { return m->integrator == pb_intRK4 ? 4 : 1; }

// Rows of `stages`: the accelerations of each evaluation; where sweeps against slip follow, then those before the sweeps.
static inline int pb_solutions(const pbModel *m) { return pb_noslip(m) ? 2 * pb_stages(m) : pb_stages(m); }

#endif
