// What the gradients of sensors share: sensor_adjoint.c (values), sensor_load_adjoint.c (what holds bodies, for force and torque
// sensors). Frozen in the gradient by a frame's pose are the motions V, A, Vs as world vectors about ref, and interaction
// wrenches.
#ifndef PB_SENSOR_ADJOINT_H
#define PB_SENSOR_ADJOINT_H

#include "base/assert.h"
#include "eval/adjoint.h"
#include "multibody/sensor.h"
#include "multibody/spatial.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of one file only
#endif

#define TINY 1e-15  // MuJoCo's mjMINVAL

static inline bool is_zero(const lane *x, int n) {
  for (int i = 0; i < n; i++) {
    double part[PB_LANES];
    memcpy(part, x + i, sizeof part);
    for (int k = 0; k < PB_LANES; k++) {
      if (part[k] != 0) return false;
    }
  }
  return true;
}

static inline void pull_force(LANE(pbAdjoint) *a, const NUM(pbRow) *row, lane bar) {
  a->has_force = true;
  a->force[6 * (row - a->w->row)] += bar;
}

// ---- frames -----------------------------------------------------------------------------------------------------------
// A frame of a body with the cotangent of its pose so far: force on its origin, torque on its axes (world).
typedef struct frame_bar {
  int type, id;
  NUM(pbSensorFrame) f;
  lane force[3], torque[3];
} frame_bar;

static inline void frame_bar_at(const LANE(pbAdjoint) *a, int type, int id, frame_bar *s) {
  memset(s->force, 0, sizeof s->force);
  memset(s->torque, 0, sizeof s->torque);
  s->type = type;
  s->id = id;
  NUM(pbSensor_Frame)(a->w, type, id, &s->f);
}

// Gradients by the frame's pose in its body: position, and quaternion as 2 q (0, t) with t in the frame's own axes.
#define FRAME_THETA(a, s, field_pos, field_quat)                                                                                \
  do {                                                                                                                          \
    const double *B = (a)->w->xmat + 9 * (s)->f.body, *R = (s)->f.mat, *q = (a)->w->p.field_quat + 4 * (s)->id;                 \
    double t[3];                                                                                                                \
    for (int k = 0; k < 3; k++) t[k] = PB_LANE0(R[k] * (s)->torque[0] + R[3 + k] * (s)->torque[1] + R[6 + k] * (s)->torque[2]); \
    for (int k = 0; k < 3; k++) {                                                                                               \
      PB_THETA(a, field_pos, 3 * (s)->id + k, B[k] * (s)->force[0] + B[3 + k] * (s)->force[1] + B[6 + k] * (s)->force[2]);      \
    }                                                                                                                           \
    if ((a)->theta) pb_quat_pull((a)->bar.field_quat + 4 * (s)->id, q, t);                                                      \
  } while (0)

static inline void frame_parameters(LANE(pbAdjoint) *a, const frame_bar *s) {
  if (s->type == pb_refSite) FRAME_THETA(a, s, site_pos, site_quat);
  if (s->type == pb_refGeom) FRAME_THETA(a, s, geom_pos, geom_quat);
  if (s->type == pb_refBody) FRAME_THETA(a, s, body_ipos, body_iquat);
  if (s->type == pb_refCamera) FRAME_THETA(a, s, cam_pos, cam_quat);
}

static inline void frame_bar_done(LANE(pbAdjoint) *a, const frame_bar *s) {
  lane *P = a->P + 6 * s->f.body;
  const lane *f = s->force, *t = s->torque;
  const double *d = s->f.d;

  // Not as loops: vectors of what was written number by number have to wait.
  P[0] = P[0] + (d[1] * f[2] - d[2] * f[1]) + t[0];
  P[1] = P[1] + (d[2] * f[0] - d[0] * f[2]) + t[1];
  P[2] = P[2] + (d[0] * f[1] - d[1] * f[0]) + t[2];
  P[3] += f[0];
  P[4] += f[1];
  P[5] += f[2];
  if (PB_LANES == 1 && a->theta && s->type != pb_refXbody) frame_parameters(a, s);
}

// u = V_lin + w x d, cotangent g: F_V += (d x g, g); shift of the point: g x w
static inline void pull_velocity(LANE(pbAdjoint) *a, frame_bar *s, const lane g[3]) {
  lane *FV = a->FV + 6 * s->f.body;
  PB_ADDWRENCH(FV, 1, s->f.d, g);
  PB_ADDCROSS(s->force, 1, g, a->w->V + 6 * s->f.body);
}

// acc = A_lin + alpha x d + w x u
static inline void pull_acceleration(LANE(pbAdjoint) *a, frame_bar *s, const lane g[3]) {
  const double *V = a->w->V + 6 * s->f.body, *A = a->w->A + 6 * s->f.body;
  lane *FA = a->FA + 6 * s->f.body, *FV = a->FV + 6 * s->f.body, gu[3];
  double u[3];

  a->has_FA = true;
  NUM(pbSensor_Velocity)(a->w, &s->f, u);
  PB_ADDWRENCH(FA, 1, s->f.d, g);
  PB_ADDCROSS(s->force, 1, g, A);
  PB_ADDCROSS(FV, 1, u, g);
  PB_CROSS(gu, g, V);
  pull_velocity(a, s, gu);
}

// ---- interaction wrenches (sensor_load_adjoint.c) -------------------------------------------------------------------
// The sensor's value is s . (wrench that holds the body).
void LANE(pbSensor_PullHold)(LANE(pbAdjoint) *a, int body, const lane s[6]);
// One ray of a rangefinder (ray_sensor_adjoint.c).
void LANE(pbRay_Adjoint)(LANE(pbAdjoint) *a, int sensor, int ray, const lane *bar);
// One of distance (distance_sensor_adjoint.c).
void LANE(pbDistance_Adjoint)(LANE(pbAdjoint) *a, int sensor, const lane *bar);
// Energies (energy_adjoint.c).
void LANE(pbEnergy_PullPotential)(LANE(pbAdjoint) *a, lane bar);
void LANE(pbEnergy_PullKinetic)(LANE(pbAdjoint) *a, lane bar);
// After all sensors: spatial tendons as loads on the bodies that are held.
void LANE(pbSensor_PullTendons)(LANE(pbAdjoint) *a);

#endif
