// Gradients by the points of hulls from those of contacts: by strains of all of them, and by single corners.
// Tests: tests/unit/test_polytope.c, tests/oracle/test_mesh_parameters.py, tests/oracle/test_mesh_contact.py.
#include "geometry/searched.h"

#include <string.h>

#include "base/assert.h"
#include "geometry/hull.h"
#include "geometry/polytope_contact.h"
#include "math/vec.h"

#if !PB_IS_COMPLEX
// Sum over contacts of row_bar . d row, the d along the seeded imaginary direction.
static double pull_rows(const pbContactPoint_c *contacts, int count, const pbContactBar *bar) {
  double sum = 0;
  for (int i = 0; i < count; i++) {
    const double *value = (const double *)&contacts[i];
    for (int r = 0; r < 10; r++) sum += bar[i].row[r] * value[2 * r + 1] / PB_IMAG_STEP;
  }
  return sum;
}

// ---- strains ----------------------------------------------------------------------------------------------------------
// Points x of a shape's frame to (1 + i step e) x: e is 1 at an entry of the diagonal, or 1/2 at two entries across it.
static void seed_strain(int k, pbShape_c *shape) {
  int a = k < 3 ? k : (k + 1) % 3, b = k < 3 ? k : (k + 2) % 3;
  for (int i = 0; i < 3; i++) {
    double to_a = 0.5 * __real__ shape->mat[3 * i + b], to_b = 0.5 * __real__ shape->mat[3 * i + a];
    __imag__ shape->mat[3 * i + a] += PB_IMAG_STEP * to_a;
    __imag__ shape->mat[3 * i + b] += PB_IMAG_STEP * to_b;
  }
}

// d row = (d row / d e) d e, the corners of a hull moved by d x = d e x in its frame. Planes on hulls and polytopes have it in
// closed form; round shapes one strain after the other, by complex step of the contacts as they were found.
void NUM(pbPair_PullStrain)(const NUM(pbShape) shape[2], double margin, const pbSearched *kept, int count,
                            const pbContactBar *bar, const bool wanted[2], double strain_bar[2][6]) {
  pbSearched room;
  memset(strain_bar, 0, 2 * sizeof *strain_bar);
  if (shape[0].type == pb_geomPlane) {
    NUM(pbPlane_PullStrain)(&shape[0], &shape[1], margin, count, bar, strain_bar[1]);
    return;
  }
  const pbSearched *found = search(&shape[0], &shape[1], margin, kept, &room);
  if (!found) return;
  bool polytope = found->kind == pb_searchedPolytope;
  if (polytope && NUM(pbPolytope_PullStrain)(shape, margin, &found->facet, count, bar, strain_bar)) return;

  for (int column = 0; column < 12; column++) {
    int which = column / 6;
    pbShape_c seeded[2];
    pbContactPoint_c contacts[PB_MAX_CONTACT_POINTS];
    if (!wanted[which]) continue;

    for (int i = 0; i < 2; i++) lift_shape(&shape[i], &seeded[i]);
    seed_strain(column % 6, &seeded[which]);
    int made = collide_again(found, &seeded[0], &seeded[1], margin, count, contacts);

    strain_bar[which][column % 6] = pull_rows(contacts, count < made ? count : made, bar);
  }
}

// ---- corners --------------------------------------------------------------------------------------------------------
// What of a hull a contact may depend on: corner number i of a list in which some stand twice, -1 behind its end.
static int listed_corner(const NUM(pbShape) *shape, const pbPolytopeNormal *found, int which, int i) {
  const pbFlat *flat = &found->flat[which];
  const pbMeshHull *hull = shape->hull;
  int ids = found->count ? found->count : 1, round = found->is_round && found->round.body == which ? 3 : 0;

  // The normal's, those of a search along it, then those of the face or edge that lies flat.
  if (i < ids) return found->id[i][which];
  if (i < ids + round) return found->round.id[i - ids];
  i -= ids + round;
  if (flat->sides == 2) return i < 2 ? flat->edge[i] : -1;
  if (flat->sides < 3) return -1;

  int first = hull->first[flat->face];
  return i < hull->first[flat->face + 1] - first ? hull->around[first + i] : -1;
}

static bool is_listed_before(const NUM(pbShape) *shape, const pbPolytopeNormal *found, int which, int i) {
  for (int k = 0; k < i; k++) {
    if (listed_corner(shape, found, which, k) == listed_corner(shape, found, which, i)) return true;
  }
  return false;
}

// d row = (d row / d x) d x of one corner x alone, along the axes of the shape's frame: by complex step of the contacts as they
// were found.
static void pull_corner(const pbSearched *found, const NUM(pbShape) shape[2], double margin, int count, const pbContactBar *bar,
                        int which, int corner, double *vertex_bar) {
  for (int axis = 0; axis < 3; axis++) {
    pbShape_c seeded[2];
    pbContactPoint_c contacts[PB_MAX_CONTACT_POINTS];
    for (int i = 0; i < 2; i++) lift_shape(&shape[i], &seeded[i]);
    seeded[which].nudged = corner;
    for (int i = 0; i < 3; i++) seeded[which].nudge[i] = 0;
    __imag__ seeded[which].nudge[axis] = PB_IMAG_STEP;

    int made = collide_again(found, &seeded[0], &seeded[1], margin, count, contacts);
    vertex_bar[3 * shape[which].hull->vertex[corner] + axis] += pull_rows(contacts, count < made ? count : made, bar);
  }
}

void NUM(pbPair_PullCorners)(const NUM(pbShape) shape[2], double margin, const pbSearched *kept, int count,
                             const pbContactBar *bar, int which, double *vertex_bar) {
  pbSearched room;
  const pbSearched *found = search(&shape[0], &shape[1], margin, kept, &room);
  int corner[PB_HULL_ON_PLANE];
  PB_ASSERT(shape[which].hull && shape[which].hull->vertex);
  if (!found) return;

  // Planes and balls meet few.
  if (shape[0].type == pb_geomPlane || shape[0].type == pb_geomSphere) {
    int n = NUM(pbMesh_Touching)(&shape[0], &shape[1], margin, corner);
    for (int i = 0; i < n; i++) pull_corner(found, shape, margin, count, bar, which, corner[i], vertex_bar);
    return;
  }

  for (int i = 0;; i++) {
    int id = listed_corner(&shape[which], &found->facet, which, i);
    if (id < 0) return;
    if (is_listed_before(&shape[which], &found->facet, which, i)) continue;
    pull_corner(found, shape, margin, count, bar, which, id, vertex_bar);
  }
}

#else
typedef int strains_are_for_doubles;
#endif
