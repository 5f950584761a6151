// Reverse derivatives of one step. Cotangents come and go as plain pointers: their lanes are not visible to other sources.
#ifndef PB_VJP_H
#define PB_VJP_H

#include <pullback/world.h>

#include "eval/lane.h"
#include "eval/names.h"

enum { pb_lanesMost = 8 };  // cotangents side by side: at most; see pbVariant

// A pullback in two halves, of one cotangent: to the inputs, for a policy to say what they owe to its observations; then from
// cotangents of those down the tree to the state. Between them neither block nor work may change.
typedef enum pbPullPhase { pb_pullWhole, pb_pullToInputs, pb_pullFromObservations } pbPullPhase;

// What goes in and out, for `lanes` cotangents at once (1 or those of the variant): entry i of cotangent l stands at [i * lanes +
// l]. Everything in is added to; NULL in: zero; NULL out: not wanted.
typedef struct pbPullback {
  const double *q_next, *v_next, *act_next;     // nv, nv, na: cotangents after the step; q_next NULL: no step
  const double *sensordata, *xpos, *site_xpos;  // cotangents of what is observed before it
  const double *observation;                    // of what a policy observes before it (eval/work.h)
  const double *distance;                       // nrow, one cotangent only: of pos - margin of limits and contacts there
  double *q, *v, *act, *ctrl, *qfrc, *xfrc;     // of the state before, and of the inputs
  double *ctrl_later;                           // 2 x nu: in the middle and at the end of the step (pb_staged)
  double *mocap_pos, *mocap_rot;                // nmocap x 3 each
  double *mocap_vel;                            // nmocap x 6
  double *theta;                                // ParamSize; one cotangent only
  unsigned skip;                                // groups of its fields that are not wanted (model/wanted.h)
  const double *qacc;                           // more cotangent of the accelerations; one cotangent only. NULL: none
  double *lam;                                  // out, written: solution of the adjoint system; one cotangent only
  bool cached;                                  // work holds the evaluation of this step, accelerations and sensors aside
  pbPullPhase phase;
  bool evaluated;     // work holds the replay of this step already (not for Runge-Kutta)
  bool knows_stages;  // complex numbers, Runge-Kutta: work has the accelerations of the stages before the last
} pbPullback;

#if PB_IS_COMPLEX
// In complex numbers the same pullback, with what is in and out as pairs of a value and a derivative: lanes = 2. One cotangent,
// no parameters. pb_bad_input, with the reason in the work, of what has no second derivatives.
pbStatus pbVjp_Create_lanes_c(pbContext *ctx, const pbWork_c *w, void **block);
void pbVjp_Destroy_lanes_c(pbContext *ctx, void *block);
pbStatus pbVjp_Run_lanes_c(void *block, pbWork_c *w, const double *stages, const pbPullback *pull);
#else
int LANE(pbVjp_Lanes)(void);
// The block of cotangents with room for what work has room for, which grows with it, and the end of it (NULL is fine). After a
// failure: NULL.
pbStatus LANE(pbVjp_Create)(pbContext *ctx, const NUM(pbWork) *w, void **block);
void LANE(pbVjp_Destroy)(pbContext *ctx, void *block);
pbStatus LANE(pbVjp_Run)(void *block, NUM(pbWork) *w, const double *stages, const pbPullback *pull);
// Several lanes only: rows of q+ and v+ of the step's Jacobians (not for Runge-Kutta): A (2 nv x 2 nv + na), B (2 nv x
// pb_inputColumns, model/columns.h); either may be NULL. cached: as of pbPullback. Work holds the evaluation afterwards.
pbStatus LANE(pbVjp_State)(void *block, NUM(pbWork) *w, const double *stages, bool cached, unsigned by, double *A, double *B);
#endif

#endif
