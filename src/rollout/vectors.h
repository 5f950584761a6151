// Directions, and cotangents, of all that a step or a rollout depends on, part by part.
#ifndef PB_VECTORS_H
#define PB_VECTORS_H

#include <pullback/random.h>

#include "base/arena.h"
#include "model/direction.h"
#include "rollout/rollout.h"

// What acts in a step, as the arguments of steps and rollouts call it.
#define PB_ACTING(X) X(ctrl) X(qfrc) X(xfrc) X(command) X(mocap_pos) X(mocap_rot) X(mocap_vel)

// The state (of a rollout: the first), what acts, and parameters.
typedef enum pbBy {
  by_state,
#define X(name) by_##name,
  PB_ACTING(X)
#undef X
      by_pos_before,
  by_rot_before,
  by_theta,
  by_count
} pbBy;

typedef struct pbVectors {
  double *of[by_count];   // NULL: zero, or not wanted
  size_t size[by_count];  // of what is there
} pbVectors;

// As wide as one row of each part.
void pbVectors_Widths(const pbRollout *r, size_t width[by_count]);
// What a gradient of the whole rollout has of what the caller gave, with the sizes of its rows; x0: of the first state, or NULL.
pbVectors pbVectors_OfGradient(const pbRollout *r, const pbRolloutGradient *gradient, double *x0);
// Room for the parts of these sizes.
void pbVectors_LayOut(pbArena *a, const size_t size[by_count], pbVectors *v);
// Of a rollout's direction the rows that act in step k; without a state.
pbVectors pbVectors_Row(const pbRollout *r, const pbVectors *all, int k);

void pbVectors_Clear(const pbVectors *v);
void pbVectors_Copy(const pbVectors *from, const pbVectors *to);
void pbVectors_DrawNormals(const pbVectors *v, pbRng *rng);  // all but theta
void pbVectors_Divide(const pbVectors *v, double length);    // all but theta
double pbVectors_Squared(const pbVectors *v);                // all but theta
// <bar, direction>; *terms, where it is not NULL, grows by the size of its terms.
double pbVectors_Dot(const pbVectors *bar, const pbVectors *direction, double *terms);

// As the arguments of steps and rollouts.
pbDirection pbVectors_Direction(const pbVectors *v);
pbInputBar pbVectors_InputBar(const pbVectors *v);
pbRolloutDirection pbVectors_RolloutDirection(const pbVectors *v);
pbRolloutGradient pbVectors_RolloutGradient(const pbVectors *v);

// ---- moved.c: steps of the program, displaced along a direction ---------------------------------------------------------
// One end of a quotient: where it is, and what is seen there.
typedef struct pbSide {
  double at;  // along the direction
  double *x, *sensor, *xpos, *site;
  const double *theta;  // there: the rollout's, or in the room for it
  double *moved_theta;
  uint64_t branch;  // of the last step; 0: features tie there
} pbSide;

typedef struct pbMoved {
  pbRollout *r;
  const pbModel *model;
  pbScratch *scratch;
  pbSide side[2];
  double *input[by_count], *quat, *path;  // room for moved inputs; path: of mocap bodies, for the caller
  double *apart;                          // tangent between the sides
  int64_t evaluations;
} pbMoved;

void pbMoved_LayOut(pbArena *a, pbMoved *m);
// Puts a side at `at` along the direction, from state x and theta.
void pbMoved_Place(const pbMoved *m, pbSide *side, double at, const double *x, const double *theta, const pbVectors *direction);
// What acts on a side, moved along a step's direction; poses that nobody gives are those of the model at its theta. Valid until
// the next call.
pbInput pbMoved_Input(const pbMoved *m, const pbSide *side, const pbInput *input, const pbVectors *direction);
// Advances a side by a step, or, last, only looks. seen: what is observed before it (NULL: nothing) goes to the side.
PB_NODISCARD pbStatus pbMoved_Step(pbMoved *m, pbSide *side, const pbInput *input, const pbObservationBar *seen, bool last);
// Step k of the rollout, or behind it a look, along a direction of all rows; mocap bodies move as their poses say.
PB_NODISCARD pbStatus pbMoved_StepAt(pbMoved *m, pbSide *side, const pbVectors *all, int k, const pbObservationBar *seen);
// From side 0 to side 1: <seen, what was observed>; and the tangent between their states, in m->apart.
double pbMoved_Observed(const pbMoved *m, const pbObservationBar *seen);
const double *pbMoved_Apart(const pbMoved *m);

// A direction of theta that is wanted (model/direction.h).
void pbRollout_DrawTheta(const pbRollout *r, pbRng *rng, pbDraw how, double *direction);
// What moves of quotients go along: all but theta normally distributed and together of length one, theta as above.
void pbRollout_DrawUnit(const pbRollout *r, pbRng *rng, const pbVectors *direction);
// The share of entries that move along a direction, among all that it has and, theta: all parameters that are wanted.
double pbRollout_MovedShare(const pbRollout *r, const pbVectors *direction, bool theta);

#endif
