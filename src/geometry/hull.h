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

// Seen along the top's normal: on which side of a prism's side is a point? Of two prisms with that side one has a point on it.
static inline bool prism_side_has(const NUM(pbShape) *field, int side, const num x[3]) {
  const pbMeshHull *h = field->hull;
  const double *a = h->corner + 3 * h->around[side], *b = h->corner + 3 * h->around[(side + 1) % 3], *n = h->normal;
  double d[3], off[3], height = 0;
  for (int i = 0; i < 3; i++) d[i] = re(x[i]) - re(field->pos[i]);

  // From the lower end on, whichever prism asks.
  bool forth = a[1] < b[1] || (a[1] == b[1] && a[0] < b[0]);
  const double *low = forth ? a : b, *high = forth ? b : a;
  for (int i = 0; i < 3; i++) {
    off[i] = re(field->mat[i]) * d[0] + re(field->mat[3 + i]) * d[1] + re(field->mat[6 + i]) * d[2] - low[i];
    height += off[i] * n[i];
  }
  double side_of = (high[0] - low[0]) * (off[1] - height * n[1]) - (high[1] - low[1]) * (off[0] - height * n[0]);
  return forth ? side_of >= 0 : side_of < 0;
}

// Where a field goes on in the plane of a prism's top, a point that is seen over a neighbor belongs to that.
static inline bool prism_has(const NUM(pbShape) *field, const num x[3]) {
  for (int k = 0; k < 3; k++) {
    if ((field->hull->goes_on >> k & 1) && !prism_side_has(field, k, x)) return false;
  }
  return true;
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

// Corners of the polygon that lies on a plane, counterclockwise seen from outside. Of one that is tilted the deepest first, and
// at most four that make a large quadrilateral, as MuJoCo 4.0 chooses them. Of one that lies flat (its corners are equally deep
// to a thousandth of the hull's radius) all, of more than eight four that are balanced, whichever is the deepest: contacts
// respond by one map to every tilt. n: the plane's normal in the hull's frame. Returns their number.
enum { PB_HULL_ON_PLANE = 8 };
int pbHull_OnPlane(const pbHullView *view, const double n[3], int corner[PB_HULL_ON_PLANE]);

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
