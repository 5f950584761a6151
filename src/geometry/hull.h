// Convex hulls of meshes (model/mesh.h) as their geoms have them: corners in the shape's frame, and searches on them. Searches
// look at real parts alone and are one program of doubles; what was chosen gives contacts in the number type.
#ifndef PB_HULL_H
#define PB_HULL_H

#include "geometry/pair.h"
#include "math/vec.h"
#include "model/mesh.h"

// A corner in the shape's frame.
static inline void hull_corner(const NUM(pbShape) *shape, int corner, num x[3]) {
  const double *v = shape->hull->corner + 3 * corner;
  v3_set(x, v[0], v[1], v[2]);
}

// The same in the world, seen from the shape's origin.
static inline void hull_lever(const NUM(pbShape) *shape, int corner, num lever[3]) {
  num x[3];
  hull_corner(shape, corner, x);
  m3_mulv(lever, shape->mat, x);
}

// Corners of the polygon that lies on a plane: the deepest first, then counterclockwise seen from outside, at most four that
// make a large quadrilateral, as MuJoCo 4.0 chooses them. n: the plane's normal in the hull's frame. Returns their number.
int pbHull_OnPlane(const pbMeshHull *hull, const double n[3], int corner[4]);

// What of a hull is nearest to a point: one to three corners; of a point inside, those of the triangle whose plane is nearest.
typedef struct pbHullNearest {
  int count, corner[3];
  bool inside;
} pbHullNearest;
pbHullNearest pbHull_Nearest(const pbMeshHull *hull, const double point[3]);

// The corner furthest along a direction; start: where to begin the walk, 0 if nothing is known.
int pbHull_Support(const pbMeshHull *hull, const double direction[3], int start);

#endif
