// Shortest paths between two points around a sphere or cylinder, as MuJoCo 4.0's tendons take them.
//
// All happens in a plane. Of a sphere it is that of both points and its center; of a cylinder it is across the axis, along which
// the path rises evenly. With a side point the path goes around the center as the polyline point, side point, point does;
// without one the shorter way. It is straight where that is not in the way. A side point inside the geom makes the path touch
// the circle from outside, at the point where it is shortest.
//
// The length depends on the points as seen from the geom's frame and on the radius. Its gradient by an end is the unit vector
// from the path to that end: the rest of the path does not matter, it is a shortest one.
#ifndef PB_WRAP_H
#define PB_WRAP_H

#include "number/number.h"

typedef struct NUM(pbObstacle) {
  int type;         // pb_wrapSphere, pb_wrapCylinder
  const num *pos;   // 3: center, world axes
  const num *mat;   // 9: orientation; the cylinder's axis is its third column
  num radius;       // m
  const num *side;  // 3: side point, or NULL
} NUM(pbObstacle);

typedef struct NUM(pbWrapPath) {
  num length;     // m
  num end[2][3];  // gradient by each end, world axes, the geom held
  num by_radius;  // gradient by the radius

  // What the curvature is made of. Plane: two unit axes and its normal, in which both points are p.
  bool cylinder, inside;
  double turn;  // +1: counterclockwise about the normal, -1
  num axis[3][3], p[2][2];
  num n[2][2];          // unit vectors to where the path meets the circle
  num g[2][2];          // gradient of the plane's length by both points
  num straight[2];      // distance from each point to the circle along the path
  num flat, rise, arc;  // length in the plane; along the cylinder's axis; by the radius
  num radius;
} NUM(pbWrapPath);

// The path from x0 to x1 (world axes); false: it is the straight line, and *path is not written.
bool NUM(pbWrap_Find)(const NUM(pbObstacle) *o, const num x0[3], const num x1[3], NUM(pbWrapPath) *path);

// Hessian of the length by (x0, x1, radius), world axes, the geom held, as a sum of weight row row' and, of a sphere, of
// turn[0] a a + turn[1] b b + 2 turn[2] a b, a and b the moves of x0 and x1 along the normal.
enum { PB_WRAP_SQUARES = 4 };
typedef struct NUM(pbWrapSquares) {
  int n;
  bool turns;
  num row[PB_WRAP_SQUARES][7], weight[PB_WRAP_SQUARES];
  num normal[3], turn[3];
} NUM(pbWrapSquares);
void NUM(pbWrap_Squares)(const NUM(pbWrapPath) *path, NUM(pbWrapSquares) *squares);
// The same, 7 x 7.
void NUM(pbWrap_Curvature)(const NUM(pbWrapPath) *path, num H[49]);

#endif
