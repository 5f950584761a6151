// Positions of attached points, generalized forces, and their derivatives along a direction, behind plain pointers (step/jvp.h).
#ifndef PB_ATTACH_JVP_H
#define PB_ATTACH_JVP_H

#include <pullback/world.h>

struct pbAttachments;
// The points at the end of a step, q (+) h (v + h a), or at its start.
typedef struct pbAttachmentQuery {
  const struct pbAttachments *points;
  const double *qpos, *qvel, *acc;  // of the bodies; acc NULL: zero
  const double *local;              // count x 3: local coordinates
  const double *force;              // count x 3: forces on the points; NULL: tau is not wanted
  const pbInput *input;             // poses of mocap bodies; may be NULL
  bool start;                       // at the start of the step, where mocap bodies came from with their velocities
  void *room;                       // pbJvp_AttachmentRoom bytes
} pbAttachmentQuery;
typedef struct pbAttachmentTangent {  // a direction of the same; NULL: zero
  const double *q, *v, *acc, *local;
  const double *mocap_pos, *mocap_rot, *mocap_vel;
} pbAttachmentTangent;
// Positions (count x 3), the gradient tau of force . x by the accelerations (nv), and both along the direction; NULL: not wanted.
typedef struct pbAttachmentOut {
  double *x, *x_tangent;
  double *tau, *tau_tangent;
} pbAttachmentOut;

size_t pbJvp_AttachmentRoom(const pbModel *m, int count);
// theta and its direction (NULL: zero) for the evaluations to come.
void pbJvp_LoadAttachmentTheta(void *block, const double *theta, const double *direction);
// The direction of theta becomes `slope` times entry number `entry`, which is the one at `col` in a row of `cols`; slope 0:
// none again. unit: the row is a quaternion or an axis, which moves on its sphere.
void pbJvp_SeedAttachmentTheta(void *block, const double *theta, size_t entry, int col, int cols, bool unit, double slope);
void pbJvp_Attachments(void *block, const pbAttachmentQuery *query, const pbAttachmentTangent *tangent,
                       const pbAttachmentOut *out);
// h B (nv), B the slopes of the joints' dampers at qvel, and its derivative along the direction; zero where the flags turn
// implicit damping off. NULL: not wanted.
void pbJvp_JointDamping(void *block, const pbAttachmentQuery *query, const pbAttachmentTangent *tangent, double *damping,
                        double *damping_tangent);

#endif
