// A frame (frame.h) with the cotangent of its pose. Frozen in the gradient by a frame's pose are the motions V, A, Vs as world
// vectors about ref, and interaction wrenches.
#ifndef PB_FRAME_ADJOINT_H
#define PB_FRAME_ADJOINT_H

#include "base/assert.h"
#include "eval/adjoint.h"
#include "multibody/frame.h"
#include "multibody/spatial.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of one file only
#endif

// A frame of a body with the cotangent of its pose so far: force on its origin, torque on its axes (world).
typedef struct frame_bar {
  int type, id;
  NUM(pbFrame) f;
  lane force[3], torque[3];
} frame_bar;

static inline void frame_bar_at(const LANE(pbAdjoint) *a, int type, int id, frame_bar *s) {
  memset(s->force, 0, sizeof s->force);
  memset(s->torque, 0, sizeof s->torque);
  s->type = type;
  s->id = id;
  NUM(pbFrame_At)(a->w, type, id, &s->f);
}

// Gradients by the frame's pose in its body: position, and quaternion as 2 q (0, t) with t in the frame's own axes.
#define FRAME_THETA(a, s, field_pos, field_quat)                                                                                \
  do {                                                                                                                          \
    const num *B = (a)->w->xmat + 9 * (s)->f.body, *R = (s)->f.mat, *q = (a)->w->p.field_quat + 4 * (s)->id;                    \
    num t[3];                                                                                                                   \
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
  const num *d = s->f.d;

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
  const num *V = a->w->V + 6 * s->f.body, *A = a->w->A + 6 * s->f.body;
  lane *FA = a->FA + 6 * s->f.body, *FV = a->FV + 6 * s->f.body, gu[3];
  num u[3];

  a->has_FA = true;
  NUM(pbFrame_Velocity)(a->w, &s->f, u);
  PB_ADDWRENCH(FA, 1, s->f.d, g);
  PB_ADDCROSS(s->force, 1, g, A);
  PB_ADDCROSS(FV, 1, u, g);
  PB_CROSS(gu, g, V);
  pull_velocity(a, s, gu);
}

// r = a* b (conjugate of a), and r = a b*
static inline void quat_left(lane r[4], const num *p, const lane *b) {
  r[0] = p[0] * b[0] + p[1] * b[1] + p[2] * b[2] + p[3] * b[3];
  r[1] = p[0] * b[1] - p[1] * b[0] - p[2] * b[3] + p[3] * b[2];
  r[2] = p[0] * b[2] - p[2] * b[0] - p[3] * b[1] + p[1] * b[3];
  r[3] = p[0] * b[3] - p[3] * b[0] - p[1] * b[2] + p[2] * b[1];
}
static inline void quat_right(lane r[4], const lane *b, const num *p) {
  r[0] = p[0] * b[0] + p[1] * b[1] + p[2] * b[2] + p[3] * b[3];
  r[1] = p[0] * b[1] - p[1] * b[0] - (b[2] * p[3] - b[3] * p[2]);
  r[2] = p[0] * b[2] - p[2] * b[0] - (b[3] * p[1] - b[1] * p[3]);
  r[3] = p[0] * b[3] - p[3] * b[0] - (b[1] * p[2] - b[2] * p[1]);
}

// g = mat y, y' = mat' g
static inline void to_world(lane g[3], const num *mat, const lane y[3]) {
  for (int k = 0; k < 3; k++) g[k] = mat[3 * k] * y[0] + mat[3 * k + 1] * y[1] + mat[3 * k + 2] * y[2];
}

#endif
