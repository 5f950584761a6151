// Gradient by mesh_scale, mesh_refpos and mesh_refquat from that by the map of a mesh's points (mesh_map.c).
// Tests: tests/oracle/test_mesh_parameters.py, tests/oracle/test_mesh_contact.py, tests/oracle/test_design.py.
#include "multibody/mesh_map.h"

#include "base/assert.h"
#include "eval/adjoint.h"
#include "math/vec.h"
#include "model/exposed.h"
#include "multibody/spatial.h"

#if PB_LANES == 1
// D_bar, to_bar: of D, and of what is added to its points, S R' (refpos0 - refpos).
static void pull_parameters(LANE(pbAdjoint) *a, int mesh, const double D_bar[9], const double to_bar[3]) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  const double *scale = w->p.mesh_scale + 3 * mesh, *scale0 = m->mesh_scale0 + 3 * mesh;
  double q[4], R[9], R0[9], turned[9], from[3], to[3], g[3], torque[3] = {0}, back[3];

  // turned = R' R0
  quat_copy(q, w->p.mesh_refquat + 4 * mesh);
  quat_normalize(q);
  quat_to_mat(R, q);
  quat_to_mat(R0, m->mesh_refquat0 + 4 * mesh);
  m3_tmul(turned, R, R0);

  // S to, to = R' (refpos0 - refpos), which a small rotation turns to to x rotation.
  v3_sub(from, m->mesh_refpos0 + 3 * mesh, w->p.mesh_refpos + 3 * mesh);
  m3_tmulv(to, R, from);
  for (int k = 0; k < 3; k++) {
    PB_THETA(a, mesh_scale, 3 * mesh + k, to_bar[k] * to[k]);
    g[k] = scale[k] * to_bar[k];
  }
  v3_addcross(torque, g, to);
  m3_mulv(back, R, g);
  for (int k = 0; k < 3; k++) PB_THETA(a, mesh_refpos, 3 * mesh + k, -back[k]);

  // D = S R' R0 / S0, column by column.
  for (int j = 0; j < 3; j++) {
    for (int i = 0; i < 3; i++) {
      to[i] = turned[3 * i + j] / scale0[j];
      PB_THETA(a, mesh_scale, 3 * mesh + i, D_bar[3 * i + j] * to[i]);
      g[i] = scale[i] * D_bar[3 * i + j];
    }
    v3_addcross(torque, g, to);
  }
  pb_quat_pull(a->bar.mesh_refquat + 4 * mesh, q, torque);
}

// Center and axes of a design: shift goes against the center, and a rotation t of the axes moves a point x to x x t.
static void pull_frame(LANE(pbAdjoint) *a, int mesh, const double Q[9], const double stretch_bar[9], const double shift_bar[3]) {
  num stretch[9], shift[3], q[4];
  double column[3], column_bar[3], torque[3] = {0}, back[3];
  PB_ASSERT(a->w->m->ndesignmesh > mesh);

  m3_mulv(back, Q, shift_bar);
  for (int k = 0; k < 3; k++) PB_THETA(a, mesh_center, 3 * mesh + k, -back[k]);

  // Where nothing moves the map is the identity.
  if (NUM(pbMesh_Map)(a->w, mesh, stretch, shift) == pb_hullStays) {
    m3_identity(stretch);
    v3_zero(shift);
  }

  // Column by column.
  v3_addcross(torque, shift_bar, shift);
  for (int j = 0; j < 3; j++) {
    m3_col(column, stretch, j);
    m3_col(column_bar, stretch_bar, j);
    v3_addcross(torque, column_bar, column);
  }

  quat_copy(q, a->w->p.mesh_axes + 4 * mesh);
  quat_normalize(q);
  pb_quat_pull(a->bar.mesh_axes + 4 * mesh, q, torque);
}

// stretch = Q' D Q0, shift = Q' (S to + D center0 - center)
void LANE(pbMesh_PullMap)(LANE(pbAdjoint) *a, int mesh, const double stretch_bar[9], const double shift_bar[3]) {
  const pbModel *m = a->w->m;
  const double *center = m->mesh_pos + 3 * mesh, *axes = m->mesh_quat + 4 * mesh;
  double q[4], Q[9], Q0[9], M[9], D_bar[9], to_bar[3];
  PB_ASSERT(mesh >= 0 && mesh < m->nmesh);

  // Out of the frame of the geoms
  quat_to_mat(Q0, axes);
  quat_copy(q, m->ndesignmesh ? a->w->p.mesh_axes + 4 * mesh : axes);
  quat_normalize(q);
  quat_to_mat(Q, q);
  m3_mul(M, Q, stretch_bar);
  m3_mult(D_bar, M, Q0);
  m3_mulv(to_bar, Q, shift_bar);
  if (m->ndesignmesh) pull_frame(a, mesh, Q, stretch_bar, shift_bar);

  // D moves the center, too.
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) D_bar[3 * i + j] += to_bar[i] * center[j];
  }
  pull_parameters(a, mesh, D_bar, to_bar);
}

// Of points that go by E x + t: the symmetric part of E from the strain, the other from the torque, t from the force. x is the
// image of x0 under the map as it is, which changes by d stretch x0 + d shift: E = d stretch / stretch, t = d shift - E shift.
void LANE(pbMesh_PullMotion)(LANE(pbAdjoint) *a, int mesh, const NUM(pbShape) *shape, const double strain[6],
                             const double wrench[6]) {
  double torque[3], force[3], E_bar[9], stretch_bar[9];
  m3_tmulv(torque, shape->mat, wrench);
  m3_tmulv(force, shape->mat, wrench + 3);

  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    E_bar[4 * i] = strain[i];
    E_bar[3 * j + k] = strain[3 + i] - 0.5 * torque[i];
    E_bar[3 * k + j] = strain[3 + i] + 0.5 * torque[i];
  }
  if (!shape->motion) {
    LANE(pbMesh_PullMap)(a, mesh, E_bar, force);
    return;
  }

  // Row by row of E: stretch_bar = (E_bar - force shift') / stretch'.
  for (int i = 0; i < 3; i++) {
    v3_addscl(E_bar + 3 * i, shape->shift, -force[i]);
    if (!m3_solve(stretch_bar + 3 * i, shape->stretch, E_bar + 3 * i)) return;
  }
  LANE(pbMesh_PullMap)(a, mesh, stretch_bar, force);
}

void LANE(pbMesh_PullVertices)(LANE(pbAdjoint) *a, int mesh, const NUM(pbShape) shape[2], double margin,
                               const struct pbSearched *kept, int count, const pbContactBar *bar, int which) {
  int exposed = pb_exposedMesh(a->w->m, mesh);
  if (exposed < 0) return;
  NUM(pbPair_PullCorners)(shape, margin, kept, count, bar, which, a->theta + a->w->m->exposed[exposed].offset);
}
#else
typedef int meshes_have_no_lanes;
#endif
