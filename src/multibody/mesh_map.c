// The motion of a mesh's points by its parameters (mesh_map.h).
// Tests: tests/oracle/test_mesh_parameters.py, tests/oracle/test_mesh_contact.py.
#include "multibody/mesh_map.h"

#include "base/assert.h"
#include "eval/mechanism.h"
#include "math/vec.h"

// Are the values those that were compiled, and without derivative?
static bool as_compiled(const num *value, const double *compiled, int n, bool *real) {
  bool exact = true;
  for (int k = 0; k < n; k++) {
    exact &= num_is(value[k], compiled[k]);
    *real &= re(value[k]) == compiled[k];
  }
  return exact;
}

// Points that stay where they are: the complex program decides as that of doubles does, to which nothing is moved.
static void stay(num stretch[9], num shift[3]) {
  for (int i = 0; i < 9; i++) stretch[i] = num_make(i % 4 == 0, im(stretch[i]));
  for (int i = 0; i < 3; i++) shift[i] = num_make(0, im(shift[i]));
}

// Center and axes of a mesh, which a design lets follow its parameters; are they those that were compiled?
static bool frame_of(const NUM(pbMechanism) *w, int mesh, num center[3], num axes[4], bool *real) {
  const pbModel *m = w->m;
  const double *center0 = m->mesh_pos + 3 * mesh, *axes0 = m->mesh_quat + 4 * mesh;
  bool design = m->ndesignmesh > 0;

  for (int k = 0; k < 3; k++) center[k] = design ? w->p.mesh_center[3 * mesh + k] : center0[k];
  for (int k = 0; k < 4; k++) axes[k] = design ? w->p.mesh_axes[4 * mesh + k] : axes0[k];

  bool exact = as_compiled(center, center0, 3, real);
  return as_compiled(axes, axes0, 4, real) && exact;
}

// Points of the file are taken to p by R' (p - refpos), scaled; then to the frame of the geoms by center and axes:
//   y = S R' (p - refpos),  x = Q' (y - center)
pbHullMotion NUM(pbMesh_Map)(const NUM(pbMechanism) *w, int mesh, num stretch[9], num shift[3]) {
  const pbModel *m = w->m;
  const num *scale = w->p.mesh_scale + 3 * mesh, *refpos = w->p.mesh_refpos + 3 * mesh, *refquat = w->p.mesh_refquat + 4 * mesh;
  const double *scale0 = m->mesh_scale0 + 3 * mesh, *refpos0 = m->mesh_refpos0 + 3 * mesh;
  const double *refquat0 = m->mesh_refquat0 + 4 * mesh;
  PB_ASSERT(mesh >= 0 && mesh < m->nmesh);
  bool real = true, exact = as_compiled(scale, scale0, 3, &real);
  exact &= as_compiled(refpos, refpos0, 3, &real);
  exact &= as_compiled(refquat, refquat0, 4, &real);
  num q[4], R[9], q0[4], R0[9], Q0[9], axes[4], Q[9], center[3], M[9], D[9], from[3], to[3];
  exact &= frame_of(w, mesh, center, axes, &real);
  if (exact) return pb_hullStays;

  // Rotations now, as compiled, and of the axes.
  quat_copy(q, refquat);
  quat_normalize(q);
  quat_to_mat(R, q);
  for (int k = 0; k < 4; k++) q0[k] = refquat0[k];
  quat_to_mat(R0, q0);
  for (int k = 0; k < 4; k++) q0[k] = m->mesh_quat[4 * mesh + k];
  quat_to_mat(Q0, q0);
  quat_normalize(axes);
  quat_to_mat(Q, axes);

  // y = D y0 + S R' (refpos0 - refpos), D = S R' R0 / S0.
  m3_tmul(D, R, R0);
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) D[3 * i + j] *= scale[i] / scale0[j];
    from[i] = refpos0[i] - refpos[i];
  }
  m3_tmulv(to, R, from);

  // stretch = Q' D Q0, shift = Q' (S to + D center0 - center).
  m3_mul(M, D, Q0);
  m3_tmul(stretch, Q, M);
  for (int k = 0; k < 3; k++) from[k] = m->mesh_pos[3 * mesh + k];
  m3_mulv(shift, D, from);
  for (int k = 0; k < 3; k++) from[k] = scale[k] * to[k] + shift[k] - center[k];
  m3_tmulv(shift, Q, from);

  if (!real) return pb_hullMoves;
  stay(stretch, shift);
  return pb_hullVaries;
}
