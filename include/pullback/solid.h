// Pullback: rigid shapes bounded by triangles: volume, center, inertia and principal axes, with their derivatives by the points,
// and convex hulls.
//
// Rules and names are those of MuJoCo 4.0's meshes. Points are first moved by -refpos, turned by the inverse of refquat and
// scaled, in this order. Of a scale that mirrors (a negative product) the triangles are turned round.
#ifndef PULLBACK_SOLID_H
#define PULLBACK_SOLID_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// What is weighed. Each triangle spans a pyramid with a common apex; theirs are the volumes that are added.
typedef enum pbMeshInertia {
  pb_meshInertiaConvex,  // the convex hull, solid
  pb_meshInertiaExact,   // signed volumes: right for closed surfaces that are oriented outwards
  pb_meshInertiaLegacy,  // absolute volumes about the triangles' centroid, then about the center: right for convex shapes
  pb_meshInertiaShell    // the triangles themselves, by area
} pbMeshInertia;

typedef struct pbMeshSolid {
  int points, triangles;
  const double *point;  // points x 3, m
  const int *triangle;  // triangles x 3, counterclockwise seen from outside
  double scale[3], refpos[3], refquat[4];
  pbMeshInertia inertia;
  int most;  // corners of the hull, see pbHull_Create
} pbMeshSolid;
PB_API pbMeshSolid pbMeshSolid_Default(void);  // no points; scale 1, refpos 0, refquat 1 0 0 0, legacy

// Of unit density. The frame at center, turned by quat, has the principal axes; moments decrease.
typedef struct pbMeshProperties {
  double volume;      // m^3; of a shell the area, m^2
  double center[3];   // m, in the frame of the moved points
  double tensor[6];   // about the center, in that frame: xx yy zz xy xz yz, m^5 (shell: m^4)
  double quat[4];     // principal axes in that frame
  double moments[3];  // about the principal axes, m^5 (shell: m^4)
} pbMeshProperties;
// pb_bad_argument: point numbers out of range, numbers that are not finite, refquat of length 0. pb_bad_input, in MuJoCo's
// terms: area or volume too small or negative, moments that no body has; "exact": an edge that two triangles walk in the same
// direction. pb_unsupported: "convex" where hulls were not built in.
PB_API PB_NODISCARD pbStatus pbMesh_Properties(pbContext *ctx, const pbMeshSolid *solid, pbMeshProperties *properties);

// Cotangents; those of quat by a small rotation in the principal frame.
typedef struct pbMeshPropertiesBar {
  double volume, center[3], tensor[6], rotation[3], moments[3];
} pbMeshPropertiesBar;
typedef struct pbMeshSolidBar {  // added to
  double *point;                 // points x 3; NULL: not wanted
  double scale[3], refpos[3], refquat[4];
} pbMeshSolidBar;
// The faces of a hull and the signs of "legacy" count as fixed. pb_singular: a cotangent of the rotation about an axis across
// which two moments agree to 1e-8 of the largest: it has no derivative, the tensor's has.
PB_API PB_NODISCARD pbStatus pbMesh_PropertiesVjp(pbContext *ctx, const pbMeshSolid *solid, const pbMeshPropertiesBar *bar,
                                                  pbMeshSolidBar *gradient);

// Convex hull: its corners, its triangles, and its faces as polygons: triangles that touch and whose normals agree after rounding
// azimuth and polar angle to 0.01 rad, as MuJoCo joins them.
typedef struct pbHull {
  pbContext *ctx;
  int corners, triangles, polygons;
  int *corner;    // corners: numbers of points, in qhull's order
  int *triangle;  // triangles x 3: numbers of points, counterclockwise seen from outside
  int *first;     // polygons + 1: where the corners of each begin in `around`
  int *around;    // numbers of points, counterclockwise seen from outside
} pbHull;
// By qhull ("Qt"); most >= 4: of so many points, the furthest first ("Q9 TA"); 0: all. pb_bad_argument: 1 <= most < 4, points
// that are not finite. pb_bad_input: fewer than four points, or all at one place, on a line, in a plane. pb_unsupported: hulls
// were not built in (PULLBACK_QHULL=OFF).
PB_API PB_NODISCARD pbStatus pbHull_Create(pbContext *ctx, const double *point, int points, int most, pbHull **hull);
PB_API void pbHull_Destroy(pbHull *hull);  // NULL is fine

#ifdef __cplusplus
}
#endif
#endif
