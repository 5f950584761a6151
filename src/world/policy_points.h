// What a policy sees of deformables' points: positions, velocities, means, numbers of the state itself. They are linear in it.
#ifndef PB_POLICY_POINTS_H
#define PB_POLICY_POINTS_H

#include "model/policy_data.h"

// Which points a row is of, from `def` (its object, its points, or all): row->points, row->point_count. On failure a reason.
PB_NODISCARD pbStatus pbPolicyPoints_Choose(const pbModel *m, const pbObserveDef *def, pbObserveRow *row, const char **reason);

// `deform`: the deformables' part of a state, or of a tangent, which has the same order (NULL: zero). Writes those entries of
// `observation` (policy->observing) that are of points; value and tangent are the same sums.
void pbPolicyPoints_Put(const pbModel *m, const double *deform, double *observation);
// Its pullback: adds to the deformables' part of a state's cotangent.
void pbPolicyPoints_Pull(const pbModel *m, const double *observation_bar, double *deform_bar);

#endif
