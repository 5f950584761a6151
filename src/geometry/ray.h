// Rays: where a half line first meets the surface of a shape, from outside or from within, by the rules of MuJoCo's mj_ray.
// All in the frame of the shape. Two parts: a search in doubles for the part of the surface that is met first (ray_search.c, one
// program; ray_terrain.c for height fields), and the point on it in the number type with its derivatives (ray.c).
#ifndef PB_RAY_H
#define PB_RAY_H

#include "model/terrain.h"
#include "model/triangles.h"
#include "number/number.h"

// Numbers of the parts of a height field: six faces of the base, four sides, triangles of the surface.
enum { PB_RAY_BASE = 0, PB_RAY_SIDES = 6, PB_RAY_SURFACE = 10 };

// What a ray may meet. A plane is met from above only, within its size where that is positive.
typedef struct pbRayTarget {
  int type;  // pb_geom*
  double size[3];
  const pbTriangleTree *tree;  // of a mesh
  pbTerrain terrain;           // of a height field,
  bool varies;                 // whose heights are parameters
} pbRayTarget;

typedef enum pbRayPart { pb_rayFlat, pb_rayBall, pb_rayTube, pb_rayEllipsoid } pbRayPart;

// The part of a surface that a ray meets.
typedef struct pbRayFeature {
  pbRayPart part;
  int id;            // says within a shape which part this is
  bool leaves;       // round parts: of the line's two points the second
  double normal[3];  // flat: outward, unit; its points x have normal . x = offset, and the size `moved` more
  double offset;
  int moved;  // -1: the plane does not depend on sizes
  int end;    // ball: its center is at end * size[1] on the z axis
} pbRayFeature;

// Nearest point of the half line p + x v, x in [0, most): returns x and what was met; -1: nothing.
double pbRay_Search(const pbRayTarget *target, const double p[3], const double v[3], double most, pbRayFeature *feature);

// The triangle of a height field's surface that a feature is (a prism's number), -1: none.
static inline int pb_rayPrism(const pbRayFeature *f) { return f->id < PB_RAY_SURFACE ? -1 : f->id - PB_RAY_SURFACE; }

// The point on the part that was found, x, and the unit normal outward there.
void NUM(pbRay_At)(const pbRayFeature *feature, const num size[3], const num p[3], const num v[3], num *x, num normal[3]);

// Rows x, normal (3); columns p (3), v (3), size (3). Zero where the ray only touches a round part: there is no derivative.
typedef struct pbRayJacobian {
  num d[4][9];
} pbRayJacobian;
void NUM(pbRay_Jacobian)(const pbRayFeature *feature, const num size[3], const num p[3], const num v[3], pbRayJacobian *jacobian);

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
// What a search has found so far.
typedef struct pbRaySearch {
  const double *p, *v;
  double x;  // of the nearest point, or where the search ends
  bool found;
  pbRayFeature *feature;
} pbRaySearch;

// Flat parts, met from both sides: a triangle; a box about `center` (bounds alone: offer nothing), whose faces have the numbers
// from `id` on, by axis, lower before upper. sides: where the line meets each, -1 where it does not; NULL: not wanted.
void pbRay_Triangle(pbRaySearch *s, const double a[3], const double b[3], const double c[3], int id);
bool pbRay_Box(pbRaySearch *s, const double center[3], const double size[3], int id, bool bounds, double sides[6]);
void pbRay_Flat(pbRaySearch *s, double x, int axis, int side, double offset, int id);
void pbRay_Terrain(pbRaySearch *s, const pbTerrain *terrain, bool varies);
#endif

#endif
