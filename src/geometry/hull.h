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
  if (shape->vertex) v3_copy(x, shape->vertex + 3 * shape->hull->vertex[corner]);
  if (shape->nudged == corner) v3_addto(x, shape->nudge);
  if (!shape->motion) return;

  m3_mulv(x, shape->stretch, x);
  v3_addto(x, shape->shift);
}

// The same in the world, seen from the shape's origin.
static inline void hull_lever(const NUM(pbShape) *shape, int corner, num lever[3]) {
  num x[3];
  hull_corner(shape, corner, x);
  m3_mulv(lever, shape->mat, x);
}

// What searches see of a shape: its hull, and where its points are.
typedef struct pbHullView {
  const pbMeshHull *hull;
  bool moved;
  double stretch[9], shift[3], radius;  // radius: of a ball about the origin that holds the points
} pbHullView;

static inline void hull_view(const NUM(pbShape) *shape, pbHullView *view) {
  view->hull = shape->hull;
  view->moved = shape->motion == pb_hullMoves;
  view->radius = shape->hull->radius;
  if (!view->moved) return;

  // The norm of all entries is at least the largest stretch.
  double sum = 0;
  for (int i = 0; i < 9; i++) {
    view->stretch[i] = re(shape->stretch[i]);
    sum += view->stretch[i] * view->stretch[i];
  }
  for (int i = 0; i < 3; i++) view->shift[i] = re(shape->shift[i]);
  view->radius = sqrt(sum) * view->radius + fabs(view->shift[0]) + fabs(view->shift[1]) + fabs(view->shift[2]);
}

// A pose by which the points of a hull that moves are pos + mat x: its stretch and shift put into that of the shape.
static inline void hull_move(const NUM(pbShape) *shape, double pos[3], double mat[9]) {
  for (int i = 0; i < 3; i++) {
    double row[3] = {0};
    for (int k = 0; k < 3; k++) {
      pos[i] += mat[3 * i + k] * re(shape->shift[k]);
      for (int j = 0; j < 3; j++) row[j] += mat[3 * i + k] * re(shape->stretch[3 * k + j]);
    }
    memcpy(mat + 3 * i, row, sizeof row);
  }
}

// Corners of the polygon that lies on a plane: the deepest first, then counterclockwise seen from outside, at most four that
// make a large quadrilateral, as MuJoCo 4.0 chooses them; where all are almost equally deep, of those that tie the balanced ones.
// n: the plane's normal in the hull's frame. Returns their number.
int pbHull_OnPlane(const pbHullView *view, const double n[3], int corner[4]);

// What of a hull is nearest to a point: one to three corners; of a point inside, those of the triangle whose plane is nearest.
// A polygon is one face, whatever triangles it is made of: over it, and over its border to `rounding`, three of its corners.
typedef struct pbHullNearest {
  int count, corner[3];
  bool inside;
} pbHullNearest;
pbHullNearest pbHull_Nearest(const pbHullView *view, const double point[3], double rounding);

// The corner furthest along a direction.
int pbHull_Support(const pbHullView *view, const double direction[3]);
// A corner, and the unit normal of a polygon.
void pbHull_Corner(const pbHullView *view, int corner, double x[3]);
void pbHull_Normal(const pbHullView *view, int polygon, double normal[3]);

#endif
