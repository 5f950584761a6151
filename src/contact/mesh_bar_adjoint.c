// Gradient by parameters of meshes: from contacts' to those by the motion of their points (multibody/mesh_map_adjoint.c); and by
// heights of fields.
// Tests: tests/oracle/test_hfield.py, tests/oracle/test_hfield_parameters.py, tests/oracle/test_mesh_parameters.py.
#include "contact/row_adjoint.h"

#include "base/assert.h"
#include "contact/contact.h"
#include "math/vec.h"
#include "multibody/spatial.h"

#if PB_LANES == 1
// The upper corners of a prism go up and down by heights.
static void pull_heights(LANE(pbAdjoint) *a, const NUM(pbContact) *c, const NUM(pbShape) shape[2], double margin,
                         const pbSearched *found, int count, const pbContactBar *bar) {
  int exposed;
  pbTerrain terrain = field_terrain(a->w, a->w->m->geom_dataid[c->geom1], &exposed);
  double corner_bar[18] = {0};
  size_t at[3];
  if (exposed < 0) return;

  NUM(pbPair_PullCorners)(shape, margin, found, count, bar, 0, corner_bar);
  double *height_bar = a->theta + a->w->m->exposed[exposed].offset;
  pbTerrain_Heights(&terrain, c->prism, at);
  for (int k = 0; k < 3; k++) height_bar[at[k]] += terrain.size[2] * corner_bar[3 * (PB_PRISM_TOP + k) + 2];
}

// count contacts of one pair
static void pull_pair_meshes(LANE(pbAdjoint) *a, int first, int count, double reach) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + first;
  const pbContactBar *bar = a->contact_bar + first;
  const int geom[2] = {c->geom1, c->geom2};
  NUM(pbShape) shape[2];
  NUM(pbColumn) column;
  contact_shapes(w, c, &column, &shape[0], &shape[1]);
  reach = NUM(pbContact_Reach)(w, c->geom1, c->geom2, c->pair, reach);

  // Prisms of height fields are hulls of no mesh.
  double strain[2][6];
  bool is_mesh[2];
  for (int k = 0; k < 2; k++) is_mesh[k] = w->m->geom_type[geom[k]] == pb_geomMesh;
  const pbSearched *found = contact_search(w, first);
  if (c->prism >= 0) pull_heights(a, c, shape, c->margin + reach, found, count, bar);
  if (!is_mesh[0] && !is_mesh[1]) return;
  NUM(pbPair_PullStrain)(shape, c->margin + reach, found, count, bar, is_mesh, strain);

  for (int k = 0; k < 2; k++) {
    double wrench[6] = {0};
    if (!is_mesh[k]) continue;

    for (int i = 0; i < count; i++) {
      for (int j = 0; j < 6; j++) wrench[j] += bar[i].wrench[k][j];
    }
    LANE(pbMesh_PullMotion)(a, w->m->geom_dataid[geom[k]], &shape[k], strain[k], wrench);
    LANE(pbMesh_PullVertices)(a, w->m->geom_dataid[geom[k]], shape, c->margin + reach, found, count, bar, k);
  }
}

void LANE(pbContact_KeepBar)(LANE(pbAdjoint) *a, int contact, const double bar[10], const double w1[6], const double w2[6]) {
  pbContactBar *to = a->contact_bar + contact;
  PB_ASSERT(contact >= 0 && contact < a->constraints->ncon);
  if (!pb_shapesVary(a->w->m)) return;

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
  const NUM(pbConstraints) *w = a->constraints;
  if (!pb_shapesVary(w->m) || !PB_WANTS(a, pb_wantMeshes)) return;

  // Pair by pair: one search serves all of its contacts.
  for (int first = 0, next = 0; first < w->ncon; first = next) {
    for (next = first + 1; next < w->ncon && w->contact[next].point; next++) continue;
    if (is_kept(a->contact_bar + first, next - first)) pull_pair_meshes(a, first, next - first, reach);
  }
}

void LANE(pbContact_ClearMeshes)(LANE(pbAdjoint) *a) {
  if (pb_shapesVary(a->w->m)) memset(a->contact_bar, 0, (size_t)a->constraints->ncon * sizeof *a->contact_bar);
}
#else
typedef int meshes_have_no_lanes;
#endif
