// What enters theta on request (pbModel_Expose): vertices of meshes. Kernels read the model's own where nothing is exposed.
#ifndef PB_EXPOSED_H
#define PB_EXPOSED_H

#include <math.h>
#include <string.h>

#include "model/mesh.h"
#include "model/model.h"
#include "model/topology.h"
#include "number/number.h"

typedef struct pbExposed {
  char *name;     // "mesh_vert:NAME"
  int id;         // the mesh
  int rows;       // its vertices
  size_t offset;  // in theta
} pbExposed;

void pbExposed_Destroy(pbModel *m);

// Number among what is exposed, or -1.
static inline int pb_exposedMesh(const pbModel *m, int mesh) {
  int i = m->nexposed - 1;

  while (i >= 0 && m->exposed[i].id != mesh) i--;
  return i;
}

// Reals of the hulls of exposed meshes: corners, and normals of polygons.
static inline size_t pb_exposedReals(const pbModel *m) {
  size_t n = 0;

  for (int i = 0; i < m->nexposed; i++) {
    const pbMeshHull *hull = &m->topology->hull[m->exposed[i].id];
    n += 3 * (size_t)(hull->corners + hull->polygons);
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

// The hulls of exposed meshes as searches see them, by theta: one behind the other in hull, their numbers in reals.
static inline void exposed_view(const pbModel *m, const num *theta, pbMeshHull *hull, double *reals) {
  for (int e = 0; e < m->nexposed; e++) {
    pbMeshHull *h = &hull[e];
    const num *vertex = theta + m->exposed[e].offset;
    double *corner = reals, *normal = reals + 3 * m->topology->hull[m->exposed[e].id].corners;

    *h = m->topology->hull[m->exposed[e].id];
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
    reals = normal + 3 * h->polygons;
  }
}

#endif
