// Mocap bodies: children of the world whose poses are inputs (pullback/world.h).
#ifndef PB_MOCAP_H
#define PB_MOCAP_H

#include <pullback/world.h>

// Can the inputs be read: positions and velocities finite, quaternions of a length from 1e-6 to 1e6? Any may be NULL. Else why
// not, in words; when: "", or " before row 0".
bool pbMocap_Readable(const pbModel *model, const pbInput *input, const char *when, char *text, size_t size);
// "mocap body 'hand'".
void pbMocap_Name(const pbModel *model, int mocap, char *text, size_t size);

// ---- their velocity, as a function of two poses (mocap_rate.c) ------------------------------------------------------------
// Poses before a step of length h and at it: pos nmocap x 3, quat nmocap x 4 of any length.
typedef struct pbMocapPath {
  const double *pos[2], *quat[2];
  double h;
} pbMocapPath;
// A direction of the same; rotations in the bodies' frames; NULL: zero.
typedef struct pbMocapTangent {
  const double *pos[2], *rot[2];
  double h;
} pbMocapTangent;
typedef struct pbMocapBar {  // cotangents, added to; NULL: not wanted
  double *pos[2], *rot[2], *h;
} pbMocapBar;
// Velocity (nmocap x 6) of body origins and about them, world axes: of the shorter way round.
void pbMocap_Rate(const pbModel *model, const pbMocapPath *path, double *velocity);
void pbMocap_PushRate(const pbModel *model, const pbMocapPath *path, const pbMocapTangent *tangent, double *velocity);
void pbMocap_PullRate(const pbModel *model, const pbMocapPath *path, const double *velocity_bar, const pbMocapBar *bar);
// A direction along which bodies of these orientations move so: positions, and rotations in their frames (nmocap x 3 each).
void pbMocap_Flow(const pbModel *model, const double *quat, const double *velocity, double *pos, double *rot);
// Cotangents of where they stand a time `span` along (rotations in the frames there) to the velocity (added to).
void pbMocap_PullMove(const pbModel *model, const double *quat, const double *velocity, double span, const double *pos_bar,
                      const double *rot_bar, double *velocity_bar);
// Is this (6 numbers) more than can be swept in a step? Can the body touch, or does it hold, anything: joints, partners of
// contact, equality constraints, attached points? Else where it goes concerns nobody.
bool pbMocap_Jumps(const pbModel *model, const double *velocity, double h);
bool pbMocap_Meets(const pbModel *model, int mocap);
// Do steps read velocities? Gradients by events do, too.
bool pbMocap_Counts(const pbModel *model);
// Velocities of all bodies: those that jump rest, unless velocities count and something meets the body: false, with the reason.
bool pbMocap_Settle(const pbModel *model, double h, bool counts, double *velocity, char *text, size_t size);
#endif
