// Forward derivatives of points on bodies, behind plain pointers (step/jvp.h).
#ifndef PB_ATTACH_JVP_H
#define PB_ATTACH_JVP_H

#include <pullback/world.h>

// Points on bodies at the end of a step, q (+) h (v + h a), or at its start; with forces f on them, tau is the gradient of f . x by
// the accelerations. Along one direction of everything; theta and its direction are loaded before.
struct pbAttach;
typedef struct pbRide {
  const struct pbAttach *at;
  const double *qpos, *qvel, *acc, *local;  // state, accelerations, places (count x 3)
  const double *force;                      // count x 3; NULL: no tau
  bool start;
  void *room;  // pbJvp_RideRoom bytes
} pbRide;
typedef struct pbRideWay {  // NULL: zero
  const double *q, *v, *acc, *local;
} pbRideWay;
size_t pbJvp_RideRoom(const pbModel *m, int count);
void pbJvp_RideTheta(void *block, const double *theta, const double *direction);
// The direction of theta is one entry of a row of `cols` numbers from `entry - col` on, or (slope 0) none again. unit: the row is a
// quaternion or an axis.
void pbJvp_RidePoke(void *block, const double *theta, size_t entry, int col, int cols, bool unit, double slope);
// Values and derivatives of x (count x 3) and tau (nv); NULL: not wanted.
void pbJvp_Ride(void *block, const pbRide *ride, const pbRideWay *way, double *x, double *x_way, double *tau, double *tau_way);

#endif
