// Gradient by mesh_scale, mesh_refpos and mesh_refquat: from a contact's to that by the map of a hull's points (mesh_map.c), from
// there to parameters.
#include "contact/row_adjoint.h"

#include "base/assert.h"
#include "contact/contact.h"
#include "math/vec.h"
#include "multibody/spatial.h"

#if PB_LANES == 1
// D_bar, to_bar: of D, and of what is added to its points, S R' (refpos0 - refpos).
static void pull_parameters(LANE(pbAdjoint) *a, int mesh, const double D_bar[9], const double to_bar[3]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  const double *scale = w->p.mesh_scale + 3 * mesh, *scale0 = m->mesh_scale + 3 * mesh;
  double q[4], R[9], R0[9], turned[9], from[3], to[3], g[3], torque[3] = {0}, back[3];

  // turned = R' R0
  quat_copy(q, w->p.mesh_refquat + 4 * mesh);
  quat_normalize(q);
  quat_to_mat(R, q);
  quat_to_mat(R0, m->mesh_refquat + 4 * mesh);
  m3_tmul(turned, R, R0);

  // S to, to = R' (refpos0 - refpos), which a small rotation turns to to x rotation.
  v3_sub(from, m->mesh_refpos + 3 * mesh, w->p.mesh_refpos + 3 * mesh);
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

// stretch = Q' D Q, shift = Q' (S to + D center - center)
static void pull_map(LANE(pbAdjoint) *a, int mesh, const double stretch_bar[9], const double shift_bar[3]) {
  const pbModel *m = a->w->m;
  const double *center = m->mesh_pos + 3 * mesh;
  double Q[9], M[9], D_bar[9], to_bar[3];
  PB_ASSERT(mesh >= 0 && mesh < m->nmesh);

  // Out of the frame of the geoms
  quat_to_mat(Q, m->mesh_quat + 4 * mesh);
  m3_mul(M, Q, stretch_bar);
  m3_mult(D_bar, M, Q);
  m3_mulv(to_bar, Q, shift_bar);

  // D moves the center, too.
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) D_bar[3 * i + j] += to_bar[i] * center[j];
  }
  pull_parameters(a, mesh, D_bar, to_bar);
}

// Of points that go by E x + t: the symmetric part of E from the strain, the other from the torque, t from the force. x is the
// image of x0 under the map as it is, which changes by d stretch x0 + d shift: E = d stretch / stretch, t = d shift - E shift.
static void pull_motion(LANE(pbAdjoint) *a, int mesh, const NUM(pbShape) *shape, const double strain[6], const double wrench[6]) {
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
    pull_map(a, mesh, E_bar, force);
    return;
  }

  // Row by row of E: stretch_bar = (E_bar - force shift') / stretch'.
  for (int i = 0; i < 3; i++) {
    v3_addscl(E_bar + 3 * i, shape->shift, -force[i]);
    if (!m3_solve(stretch_bar + 3 * i, shape->stretch, E_bar + 3 * i)) return;
  }
  pull_map(a, mesh, stretch_bar, force);
}

// count contacts of one pair
static void pull_pair_meshes(LANE(pbAdjoint) *a, int first, int count, double reach) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbContact) *c = w->contact + first;
  const pbContactBar *bar = a->contact_bar + first;
  const int geom[2] = {c->geom1, c->geom2};
  NUM(pbShape) shape[2];
  pbPrism prism;
  contact_shapes(w, c, &prism, &shape[0], &shape[1]);

  // Prisms of height fields are hulls of no mesh.
  double strain[2][6];
  bool is_mesh[2];
  for (int k = 0; k < 2; k++) is_mesh[k] = w->m->geom_type[geom[k]] == pb_geomMesh;
  if (!is_mesh[0] && !is_mesh[1]) return;
  NUM(pbPair_PullStrain)(shape, c->margin + reach, count, bar, is_mesh, strain);

  for (int k = 0; k < 2; k++) {
    double wrench[6] = {0};
    if (!is_mesh[k]) continue;

    for (int i = 0; i < count; i++) {
      for (int j = 0; j < 6; j++) wrench[j] += bar[i].wrench[k][j];
    }
    pull_motion(a, w->m->geom_dataid[geom[k]], &shape[k], strain[k], wrench);
  }
}

void LANE(pbContact_KeepBar)(LANE(pbAdjoint) *a, int contact, const double bar[10], const double w1[6], const double w2[6]) {
  pbContactBar *to = a->contact_bar + contact;
  PB_ASSERT(contact >= 0 && contact < a->w->ncon);
  if (!a->w->m->nmesh) return;

  for (int r = 0; r < 10; r++) to->row[r] += bar[r];
  for (int i = 0; i < 6; i++) to->wrench[0][i] += w1[i];
  for (int i = 0; i < 6; i++) to->wrench[1][i] += w2[i];
}

static bool is_kept(const pbContactBar *bar, int count) {
  for (int i = 0; i < count; i++) {
    for (int r = 0; r < 10; r++) {
      if (bar[i].row[r] != 0) return true;
    }
  }
  return false;
}

void LANE(pbContact_PullMeshes)(LANE(pbAdjoint) *a, double reach) {
  const NUM(pbWork) *w = a->w;
  if (!w->m->nmesh || !PB_WANTS(a, pb_wantMeshes)) return;

  // Pair by pair: one search serves all of its contacts.
  for (int first = 0, next = 0; first < w->ncon; first = next) {
    for (next = first + 1; next < w->ncon && w->contact[next].point; next++) continue;
    if (is_kept(a->contact_bar + first, next - first)) pull_pair_meshes(a, first, next - first, reach);
  }
}

void LANE(pbContact_ClearMeshes)(LANE(pbAdjoint) *a) {
  if (a->w->m->nmesh) memset(a->contact_bar, 0, (size_t)a->w->ncon * sizeof *a->contact_bar);
}
#else
typedef int meshes_have_no_lanes;
#endif
