// Reverse derivatives of one step behind plain pointers: lanes of cotangents are not visible to other sources.
#ifndef PB_VJP_H
#define PB_VJP_H

#include <pullback/world.h>

#include "eval/work.h"

enum { pb_lanesMost = 8 };  // cotangents side by side: at most; see pbVariant

// What goes in and out, for `lanes` cotangents at once (1 or those of the variant): entry i of cotangent l stands at [i * lanes + l].
// Everything in is added to; NULL in: zero; NULL out: not wanted.
typedef struct pbPullback {
  const double *q_next, *v_next, *act_next;     // nv, nv, na: cotangents after the step; q_next NULL: no step
  const double *sensordata, *xpos, *site_xpos;  // cotangents of what is seen before it
  const double *distance;                       // nrow, one cotangent only: of pos - margin of limits and contacts there
  double *q, *v, *act, *ctrl, *qfrc, *xfrc;     // of the state before, and of the inputs
  double *theta;                                // ParamSize; one cotangent only
  unsigned skip;                                // groups of its fields that are not wanted (eval/wanted.h)
  const double *qacc;                           // more cotangent of the accelerations; one cotangent only. NULL: none
  double *lam;                                  // out, written: solution of the adjoint system; one cotangent only
  bool kept;                                    // work holds the evaluation of this step, accelerations and sensors aside
  bool evaluated;                               // work holds the replay of this step already (not for Runge-Kutta)
} pbPullback;

// Impacts, one cotangent: contact `point` of a candidate strikes in the state in work, with a time step of zero. Strike adds to q, v
// and theta what the velocity after, with cotangent v_next, gives beside v += v_next; gap_slope (nv): of the gap by positions.
// Gap, right after it: the gap itself, with the cotangent `bar`.
#define PB_VJP_DECLARE_IMPACT(suffix)                                                                                           \
  pbStatus pbVjp_Strike_##suffix(void *block, void *work, int candidate, int point, const pbPullback *pull, double *gap_slope); \
  void pbVjp_Gap_##suffix(void *block, void *work, int point, double bar, const pbPullback *pull);

// Rows of v+ of the step's Jacobians (not for Runge-Kutta): A (nv x tangent size), B (nv x nu); either may be NULL. Work holds
// the evaluation afterwards.
#define PB_VJP_DECLARE_LANES(suffix) \
  PB_VJP_DECLARE(suffix)             \
  pbStatus pbVjp_Velocity_##suffix(void *block, void *work, const double *stages, double *A, double *B);
#define PB_VJP_DECLARE(suffix)                                                \
  size_t pbVjp_Size_##suffix(const pbModel *m, int max_contacts);             \
  void pbVjp_Carve_##suffix(void *block, const pbModel *m, int max_contacts); \
  int pbVjp_Lanes_##suffix(void);                                             \
  pbStatus pbVjp_Run_##suffix(void *block, void *work, const double *stages, const pbPullback *pull);
PB_VJP_DECLARE(one_r)
PB_VJP_DECLARE_IMPACT(one_r)
PB_VJP_DECLARE_LANES(lanes_r)
#ifdef PB_HAVE_V3
PB_VJP_DECLARE(one_v3)
PB_VJP_DECLARE_IMPACT(one_v3)
PB_VJP_DECLARE_LANES(lanes_v3)
#endif
#ifdef PB_HAVE_V4
PB_VJP_DECLARE(one_v4)
PB_VJP_DECLARE_IMPACT(one_v4)
PB_VJP_DECLARE_LANES(lanes_v4)
#endif

#endif
