// What enters theta on request (pbModel_Expose): vertices of meshes, heights of fields. Kernels read the model's own where
// nothing is exposed.
#ifndef PB_EXPOSED_H
#define PB_EXPOSED_H

#include <math.h>
#include <string.h>

#include "model/mesh.h"
#include "model/model.h"
#include "model/terrain.h"
#include "model/topology.h"
#include "number/number.h"

typedef struct pbExposed {
  char *name;      // "mesh_vert:NAME", "hfield_data:NAME"
  pbObject of;     // mesh or height field,
  int id;          // and which
  int rows, cols;  // vertices by coordinates, heights by rows and columns
  size_t offset;   // in theta
} pbExposed;

void pbExposed_Destroy(pbModel *m);

// pb_bad_input, with mesh and vertex in the text of ctx, where vertices of an exposed mesh make no convex hull any more with the
// faces that were compiled: an edge between two faces has sunk below their corners by more than a thousandth of the hull's
// radius, or nothing is between the faces.
pbStatus pbExposed_CheckHulls(pbContext *ctx, const pbModel *m, const double *theta);

// Number among what is exposed, or -1.
static inline int pb_exposedOf(const pbModel *m, pbObject of, int id) {
  int i = m->nexposed - 1;

  while (i >= 0 && (m->exposed[i].id != id || m->exposed[i].of != of)) i--;
  return i;
}

static inline int pb_exposedMesh(const pbModel *m, int mesh) { return pb_exposedOf(m, pb_objMesh, mesh); }

// Do contacts have derivatives by what shapes are made of: by parameters of meshes, or by what is exposed?
static inline bool pb_shapesVary(const pbModel *m) { return m->nmesh || m->nexposed; }

// Reals of what is exposed: of hulls corners and normals of polygons, heights.
static inline size_t pb_exposedReals(const pbModel *m) {
  size_t n = 0;

  for (int i = 0; i < m->nexposed; i++) {
    const pbExposed *e = &m->exposed[i];
    const pbMeshHull *hull = &m->topology->hull[e->of == pb_objMesh ? e->id : 0];
    n += e->of == pb_objMesh ? 3 * (size_t)(hull->corners + hull->polygons) : (size_t)e->rows * (size_t)e->cols;
  }
  return n;
}

// The vector area of a polygon, to unit length.
static inline void pb_polygonNormal(const double *corner, const int *around, int count, double normal[3]) {
  double length = 0;
  memset(normal, 0, 3 * sizeof *normal);

  // Sum of the cross products of neighbors
  for (int k = 0; k < count; k++) {
    const double *a = corner + 3 * around[k], *b = corner + 3 * around[(k + 1) % count];
    for (int i = 0; i < 3; i++) normal[i] += a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
  }

  // One without area has no direction.
  for (int i = 0; i < 3; i++) length += normal[i] * normal[i];
  if (!(length > 0)) return;
  for (int i = 0; i < 3; i++) normal[i] /= sqrt(length);
}

// A hull by its vertices in theta; returns what of reals is left.
static inline double *exposed_hull(const pbMeshHull *compiled, const num *vertex, pbMeshHull *h, double *reals) {
  double *corner = reals, *normal = reals + 3 * compiled->corners;
  *h = *compiled;
  h->block = NULL;
  h->radius = 0;

  // Corners are vertices.
  for (int i = 0; i < h->corners; i++) {
    double length = 0;
    for (int k = 0; k < 3; k++) {
      corner[3 * i + k] = re(vertex[3 * h->vertex[i] + k]);
      length += corner[3 * i + k] * corner[3 * i + k];
    }

    h->radius = fmax(h->radius, sqrt(length));
  }

  // Faces are those that were compiled.
  for (int p = 0; p < h->polygons; p++)
    pb_polygonNormal(corner, h->around + h->first[p], h->first[p + 1] - h->first[p], normal + 3 * p);

  h->corner = corner;
  h->normal = normal;
  pbMeshHull_SetBox(h);
  return normal + 3 * h->polygons;
}

static inline double *exposed_terrain(const pbModel *m, const pbExposed *e, const num *height, pbTerrain *t, double *reals) {
  size_t count = (size_t)e->rows * (size_t)e->cols;
  *t = pbTerrain_Compiled(m, e->id);
  t->height = reals;
  t->highest = 0;

  for (size_t i = 0; i < count; i++) {
    reals[i] = re(height[i]);
    t->highest = fmax(t->highest, reals[i]);
  }
  return reals + count;
}

// What is exposed as searches see it, by theta: hull or terrain by its number, numbers one behind the other in reals.
static inline void exposed_view(const pbModel *m, const num *theta, pbMeshHull *hull, pbTerrain *terrain, double *reals) {
  for (int i = 0; i < m->nexposed; i++) {
    const pbExposed *e = &m->exposed[i];
    const num *values = theta + e->offset;

    if (e->of == pb_objMesh) reals = exposed_hull(&m->topology->hull[e->id], values, &hull[i], reals);
    else reals = exposed_terrain(m, e, values, &terrain[i], reals);
  }
}

#endif
