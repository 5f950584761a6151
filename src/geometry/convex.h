// Contacts of curved convex shapes (ellipsoids and cylinders among themselves and with the others), by the unit normal n
// from shape 1 to shape 2. With the supports a(n) of shape 1 in direction n and b(n) of shape 2 in direction -n,
//   sigma(n) = n . (a(n) - b(n)),   distance = max over n of -sigma(n)
// for separated and for penetrating shapes alike. Spheres and capsules are a point and a segment with a radius.
// Two parts: a search in doubles for the best normal (convex_search.c, one program), and the contacts from it in the number
// type (convex.c), where one Newton step on the optimality conditions carries the derivative of the implicit function.
#ifndef PB_CONVEX_H
#define PB_CONVEX_H

#include "geometry/primitive.h"
#include "model/model.h"

// A shape without its radius, in doubles.
typedef struct pbCore {
  int type;  // pb_geom*
  double pos[3], mat[9], size[3], radius;
} pbCore;

typedef enum pbNormalKind {
  pb_normalFace,    // axis of one shape: box face or cylinder cap
  pb_normalCross,   // cross product of a straight line of each shape
  pb_normalCircle,  // at right angles to a straight line of one shape
  pb_normalSphere,  // stationary among all directions
  pb_normalFixed    // stationary nowhere (degenerate): derivative as if fixed
} pbNormalKind;

// Which normal, and what freezes its derivative.
typedef struct pbConvexNormal {
  pbNormalKind kind;
  double n[3];
  int shape, axis1, axis2;         // Face, Circle: shape (0, 1) and its axis; Cross: axis of shape 1, axis of shape 2
  double sign;                     // Face, Cross: of n along that direction
  double tangent[2][3];            // Sphere
  double inverse[3];               // Sphere: inverse of the 2x2 Hessian of sigma (xx, xy, yy); Circle: its one number
  signed char sign1[3], sign2[3];  // supports at n, see core_support
  double scale;                    // size of the pair
} pbConvexNormal;

// False: no contact within margin.
bool pbConvex_Search(const pbCore *core1, const pbCore *core2, double margin, pbConvexNormal *out);

static inline void to_core(const NUM(pbShape) *shape, pbCore *core) {
  core->type = shape->type;
  for (int i = 0; i < 3; i++) {
    core->pos[i] = re(shape->pos[i]);
    core->size[i] = re(shape->size[i]);
  }
  for (int i = 0; i < 9; i++) core->mat[i] = re(shape->mat[i]);

  core->radius = 0;

  // Sizes that the core does not have are zero.
  if (shape->type == pb_geomSphere || shape->type == pb_geomCapsule) {
    core->radius = core->size[0];
    core->size[0] = 0;
  }
  if (shape->type == pb_geomSphere) core->size[1] = 0;
  if (shape->type != pb_geomBox && shape->type != pb_geomEllipsoid) core->size[2] = 0;
}

// Support point in the shape's frame for the local direction m, its features frozen by sign:
//   box: corner signs; segment: sign[2] is the end; cylinder: sign[2] the cap, sign[0] nonzero: on the circle.
// Zero: the feature is flat in that direction, and its middle is meant.
static inline void core_support(int type, const num size[3], const num m[3], const signed char sign[3], num out[3]) {
  v3_zero(out);

  switch (type) {
    case pb_geomCapsule: out[2] = sign[2] * size[1]; break;
    case pb_geomBox:
      for (int i = 0; i < 3; i++) out[i] = sign[i] * size[i];
      break;
    case pb_geomCylinder: {  // radius m / |m| across the axis, and a cap
      num rho2 = m[0] * m[0] + m[1] * m[1];
      if (sign[0] && re(rho2) > 0) {
        num k = num_div(size[0], num_sqrt(rho2));
        out[0] = k * m[0];
        out[1] = k * m[1];
      }
      out[2] = sign[2] * size[1];
      break;
    }
    case pb_geomEllipsoid: {  // S^2 m / |S m|
      num s[3], l2 = 0;
      for (int i = 0; i < 3; i++) {
        s[i] = size[i] * m[i];
        l2 += s[i] * s[i];
      }
      num k = re(l2) > 0 ? num_div(1, num_sqrt(l2)) : 0;
      for (int i = 0; i < 3; i++) out[i] = k * size[i] * s[i];
      break;
    }
    default: break;
  }
}

// Whether the support is more than one point.
static inline bool support_is_flat(int type, const signed char sign[3]) {
  if (type == pb_geomCapsule) return !sign[2];
  if (type == pb_geomCylinder) return !sign[2] || !sign[0];
  return type == pb_geomBox && !(sign[0] && sign[1] && sign[2]);
}

#endif
