// Forward derivatives: the complex variant of the step behind plain pointers (its types are not visible to other sources).
#ifndef PB_JVP_H
#define PB_JVP_H

#include <pullback/world.h>

// Bytes of a complex evaluation for a capacity of contacts; carving it from a block. jvp.h's handle is that block.
size_t pbJvp_Size(const pbModel *m, int max_contacts);
void pbJvp_Carve(void *block, const pbModel *m, int max_contacts);
// The step from state x along a direction; stages: the accelerations it found.
pbStatus pbJvp_Run(void *block, const double *theta, const double *x, const pbInput *input, double *stages,
                   const pbDirection *direction, bool integrate, double *next, double *sensordata, double *xpos,
                   double *site_xpos);
// For the next runs: a further potential of the accelerations (work.h), and the derivative of its slope g; S NULL: none.
void pbJvp_Couple(void *block, const double *S, const double *g, const double *way, const double *at);
// After a run: the derivative of the accelerations (nv).
void pbJvp_Acceleration(const void *block, double *way);
// Afterwards, where it did not integrate: derivatives of pos - margin of each block's first row.
void pbJvp_Distances(const void *block, double *distances);

// Contact `hit` of a candidate strikes in state x: the slope of its gap, and of the velocity after (nv), along a direction.
pbStatus pbJvp_Strike(void *block, const double *theta, const double *x, const pbDirection *direction, int candidate, int hit,
                      double *gap, double *velocity);

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
