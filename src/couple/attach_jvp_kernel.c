// Attached points and the forces on them, with derivatives along a direction by complex step.
// Tests: tests/unit/test_deform.c.
#include "eval/stages.h"
#include "multibody/damping.h"
#include "number/number.h"

#if PB_IS_COMPLEX

#include "couple/attach.h"
#include "couple/attach_jvp.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/polynomial.h"
#include "step/integrate.h"
#include "step/jvp_parts.h"

size_t pbJvp_AttachmentRoom(const pbModel *m, int count) {
  return (6 * (size_t)(count + m->nbody) + 2 * (size_t)m->nv) * sizeof(num);
}

void pbJvp_LoadAttachmentTheta(void *block, const double *theta, const double *direction) {
  pbJvp *j = block;
  j->shrink = 1;
  j->grow = 1;
  pbJvp_LoadTheta(j, theta, direction);
}

void pbJvp_SeedAttachmentTheta(void *block, const double *theta, size_t entry, int col, int cols, bool unit, double slope) {
  pbJvp *j = block;

  size_t first = entry - (size_t)col;
  num *row = j->theta + first;
  for (int c = 0; c < cols; c++) row[c] = num_make(theta[first + (size_t)c], c == col ? pbJvp_StepIn(j, slope) : 0);
  if (unit) pbJvp_Project(row, 1, cols);
}

// out = Jr(r)' x with Jr the right Jacobian of the exponential map of rotations:
//   Jr(r)' x = x + b r x x + c r x (r x x),   b = (1 - cos t) / t^2,   c = (t - sin t) / t^3,   t = |r|
static void right_jacobian_transposed(const num rotation[3], const num x[3], num out[3]) {
  num t2 = v3_dot(rotation, rotation);
  num b, c, once[3], twice[3];

  if (re(t2) < 1e-4) {  // by their series: the quotients lose all digits here
    b = 0.5 - t2 / 24 * (1 - t2 / 30);
    c = 1. / 6 - t2 / 120 * (1 - t2 / 42);
  } else {
    num t = num_sqrt(t2);
    b = (1 - num_cos(t)) / t2;
    c = (t - num_sin(t)) / (t2 * t);
  }

  v3_cross(once, rotation, x);
  v3_cross(twice, rotation, once);
  for (int k = 0; k < 3; k++) out[k] = x[k] + b * once[k] + c * twice[k];
}

// Generalized forces are gradients by motions at the end of the step. The accelerations move that end by h^2, times the right
// Jacobian where a joint rotates by h u.
static void by_acceleration(const pbModel *m, const num *u, num h, num *tau) {
  for (int k = 0; k < m->njnt; k++) {
    int type = m->jnt_type[k];
    if (!pbJoint_HasRotation(type)) continue;
    int dof = m->jnt_dofadr[k] + pbJoint_PlainCount(type);
    num rotation[3], pulled[3];
    v3_scale(rotation, u + dof, h);
    right_jacobian_transposed(rotation, tau + dof, pulled);
    v3_copy(tau + dof, pulled);
  }

  for (int i = 0; i < m->nv; i++) tau[i] *= h * h;
}

static void write_out(const pbJvp *j, const num *z, int n, double *value, double *tangent) {
  if (value) {
    for (int i = 0; i < n; i++) value[i] = re(z[i]);
  }
  pbJvp_Imaginary(j, tangent, z, n);
}

// Where mocap bodies were a step ago: x - h v, exp(-h w) q.
static void move_mocap_back(pbWork_c *w, num h) {
  for (int k = 0; k < w->m->nmocap; k++) {
    const num *velocity = w->mocap_vel + 6 * k;
    num turn[3];
    num q[4];

    // The angular velocity is in the world's axes: the turn comes from the left.
    v3_addscl(w->mocap_pos + 3 * k, velocity, -h);
    v3_scale(turn, velocity + 3, -h);
    quat_exp(q, turn);
    quat_mul(w->mocap_quat + 4 * k, q, w->mocap_quat + 4 * k);
  }
}

void pbJvp_Attachments(void *block, const pbAttachmentQuery *query, const pbAttachmentTangent *tangent,
                       const pbAttachmentOut *out) {
  pbJvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  int n = 3 * query->points->count;
  int nv = m->nv;
  num h = w->p.timestep[0];

  num *local = query->room;
  num *x = local + n;
  num *wrench = x + n;
  num *tau = wrench + 6 * m->nbody;
  num *u = tau + nv;

  // u = v + h a, the velocity at which the step moves positions
  pbJvp_LoadPosition(j, query->qpos, tangent->q);
  pbJvp_Blend(j, u, query->qvel, tangent->v, nv);
  for (int i = 0; i < nv; i++) {
    double acc = query->acc ? query->acc[i] : 0;
    u[i] += h * num_make(acc, tangent->acc ? pbJvp_StepIn(j, tangent->acc[i]) : 0);
  }

  if (!query->start) pbIntegrate_Position_c(m, w->qpos, u, h);
  pbJvp_LoadMocap(
      j, query->input,
      &(pbDirection){.mocap_pos = tangent->mocap_pos, .mocap_rot = tangent->mocap_rot, .mocap_vel = tangent->mocap_vel});
  if (query->start && w->mocap_moves) move_mocap_back(w, h);
  pbStage_Kinematics_c(&w->mechanism);

  pbJvp_Blend(j, local, query->local, tangent->local, n);
  pbAttach_Positions_c(w, query->points, local, x);
  write_out(j, x, n, out->x, out->x_tangent);
  if (!query->force) return;

  pbAttach_Force_c(w, query->points, x, query->force, wrench, tau);
  by_acceleration(m, u, h, tau);
  write_out(j, tau, nv, out->tau, out->tau_tangent);
}

void pbJvp_JointDamping(void *block, const pbAttachmentQuery *query, const pbAttachmentTangent *tangent, double *damping,
                        double *damping_tangent) {
  pbJvp *j = block;
  const pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  bool off = m->disableflags & (pb_disEulerdamp | pb_disDamper);
  num *v = query->room;

  // The slope of each joint's polynomial, in place of its velocity.
  PB_ASSERT(v);
  pbJvp_Blend(j, v, query->qvel, tangent->v, m->nv);
  for (int i = 0; i < m->nv; i++) {
    num c[3];
    pbDof_Damping_c(&w->mechanism, i, c);
    v[i] = off ? 0 : w->p.timestep[0] * pb_polynomialSlope(c, v[i], true);
  }
  write_out(j, v, m->nv, damping, damping_tangent);
}

#endif
