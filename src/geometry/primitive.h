// Kernels shared by the files of geometry/: which features of two shapes meet, and contacts of points with radii.
// Conventions of all kernels: write contacts from the first on, return their number. Comparisons are written so that a NaN
// means "no contact".
#ifndef PB_PRIMITIVE_H
#define PB_PRIMITIVE_H

#include "base/assert.h"
#include "geometry/pair.h"
#include "math/vec.h"

#define PB_TINY 1e-15  // MuJoCo's mjMINVAL: lengths below it have no direction

int NUM(pbPlane_Cylinder)(const NUM(pbShape) *plane, const NUM(pbShape) *cylinder, double margin, NUM(pbContactPoint) *contacts);
int NUM(pbSphere_Box)(const num center[3], num radius, const NUM(pbShape) *box, double margin, NUM(pbContactPoint) *contacts);
int NUM(pbCapsule_Box)(const NUM(pbShape) *capsule, const NUM(pbShape) *box, double margin, NUM(pbContactPoint) *contacts);
int NUM(pbBox_Box)(const NUM(pbShape) *box1, const NUM(pbShape) *box2, double margin, NUM(pbContactPoint) *contacts);
int NUM(pbPolytope_Collide)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, NUM(pbContactPoint) *contacts);
int NUM(pbPlane_Mesh)(const NUM(pbShape) *plane, const NUM(pbShape) *mesh, double margin, NUM(pbContactPoint) *contacts);
int NUM(pbSphere_Mesh)(const NUM(pbShape) *sphere, const NUM(pbShape) *mesh, double margin, NUM(pbContactPoint) *contact);
void NUM(pbPlane_MeshRates)(const NUM(pbShape) *plane, const NUM(pbShape) *mesh, double margin, int count, pbContactJacobian *j);
void NUM(pbSphere_MeshRates)(const NUM(pbShape) *sphere, const NUM(pbShape) *mesh, const NUM(pbContactPoint) *contact,
                             pbContactJacobian *j);
#if !PB_IS_COMPLEX
void NUM(pbPlane_PullStrain)(const NUM(pbShape) *plane, const NUM(pbShape) *mesh, double margin, int count,
                             const pbContactBar *bar, double strain_bar[6]);
// As pbPair_Jacobian, of what pbPolytope_Collide returned.
void NUM(pbPolytope_Jacobian)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, int count,
                              pbContactJacobian *jacobians);
// The corners that a plane or ball meets, at most PB_HULL_ON_PLANE; returns their number.
int NUM(pbMesh_Touching)(const NUM(pbShape) *other, const NUM(pbShape) *mesh, double margin, int *corner);
int NUM(pbBox_Feature)(const NUM(pbShape) *box1, const NUM(pbShape) *box2);           // as pbPair_Feature, of two boxes
int NUM(pbMesh_Feature)(const NUM(pbShape) *other, const NUM(pbShape) *mesh);         // as pbPair_Feature, of a plane or sphere
int NUM(pbPolytope_Feature)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2);  // as pbPair_Feature
#endif
// Searches for what contacts come from; out->kind is set. False: apart.
bool NUM(pbPair_Search)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, struct pbSearched *out);

// Normal of balls about the same point: the cross product of two axes; if they are parallel, x of the world, which then rotates
// with the frame mat1, as derivatives by relative motion have it.
static inline void coincident_normal(const num mat1[9], const num mat2[9], num normal[3]) {
  num axis1[3], axis2[3];
  m3_col(axis1, mat1, 2);
  m3_col(axis2, mat2, 2);
  v3_cross(normal, axis1, axis2);
  if (re(v3_normalize(normal)) >= PB_TINY || !PB_IS_COMPLEX) return;

  for (int i = 0; i < 3; i++) {
    double slope = 0;
    for (int k = 0; k < 3; k++) slope += im(mat1[3 * i + k]) * re(mat1[k]);
    normal[i] = num_make(re(normal[i]), slope);
  }
}

// A cylinder whose axis is nearer to a plane's normal than this (its sine) counts as upright: which radius is steepest is
// rounding there (its part along the normal, the square of this, is a difference of numbers near 1). Slopes are those of
// points that rotate with the cylinder, which to first order move its load as the points of the steepest radius do: so
// differences over larger moves say too.
#define PB_UPRIGHT 1e-6

// Ball of radius r1 about c1 against ball of radius r2 about c2. mat1, mat2: frames that give the normal where the centers
// coincide.
static inline int ball_ball(const num c1[3], const num mat1[9], num r1, const num c2[3], const num mat2[9], num r2, double margin,
                            NUM(pbContactPoint) *contact) {
  num dif[3];
  v3_sub(dif, c2, c1);

  num d2 = v3_dot(dif, dif);
  double reach = margin + re(r1) + re(r2);
  if (!(re(d2) <= reach * reach)) return 0;

  num len = re(d2) > 0 ? num_sqrt(d2) : 0;
  contact->dist = len - r1 - r2;

  // Concentric balls have no direction of their own.
  if (re(len) < PB_TINY) {
    coincident_normal(mat1, mat2, contact->normal);
  } else {
    v3_scale(contact->normal, dif, num_div(1, len));
  }

  v3_along(contact->pos, c1, contact->normal, r1 + 0.5 * contact->dist);
  v3_zero(contact->hint);
  return 1;
}

// Half-space below the plane through origin with a unit normal against a ball; the contact's normal is the plane's.
static inline int plane_ball(const num origin[3], const num normal[3], const num center[3], num radius, double margin,
                             NUM(pbContactPoint) *contact) {
  num dif[3];
  v3_sub(dif, center, origin);

  num height = v3_dot(dif, normal);
  if (!(re(height) <= margin + re(radius))) return 0;

  contact->dist = height - radius;
  v3_copy(contact->normal, normal);
  v3_along(contact->pos, center, normal, -(0.5 * contact->dist + radius));
  v3_zero(contact->hint);
  return 1;
}

// Which points of two segments are nearest: x in [-1, 1] along each; share: how far it follows its stationary value instead of
// an end: 1 inside, 0 at an end, 0.5 at a tie of both.
typedef struct segment_pair {
  num x1, x2;
  double share1, share2;
} segment_pair;

// Relative to a half length: what is nearer to an end is at that end to rounding.
#define SEGMENT_TIE 1e-10

static inline num clip_unit(num x, double *share) {
  *share = !(re(x) < -1 || re(x) > 1);
  if (re(x) < -1) return -1;
  return re(x) > 1 ? 1 : x;
}

// The same; at an end to rounding the value is as it was and the slope half of that inside, which is the central difference.
static inline num clip_evenly(num x, double *share) {
  num clipped = clip_unit(x, share);
  if (!(fabs(fabs(re(x)) - 1) <= SEGMENT_TIE)) return clipped;

  *share = 0.5;
  return num_make(re(clipped), 0.5 * im(x));
}

// sin^2 of the angle below which MuJoCo 4.0.0 takes capsules for parallel (measured)
#define PARALLEL_AXES 1e-8

// The quadratic |dif + x1 axis1 - x2 axis2|^2 of two positions: minimal where [a b; b c] [x1; x2] = [u; v].
typedef struct segment_system {
  num a, b, c, u, v;
} segment_system;

// Segments at an angle: the solution of the system, clamped one variable after the other (Ericson, Real-Time Collision
// Detection, 5.1.9, in MuJoCo's order).
static inline void nearest_at_angle(const segment_system *s, num det, segment_pair *out) {
  num a = s->a, b = s->b, c = s->c, u = s->u, v = s->v;
  num x1 = num_div(c * u - b * v, det), x2 = num_div(a * v - b * u, det);
  double share1 = 1, share2 = 1;

  // x1 beyond an end: there, and x2 stationary for it. Then the same for x2, which may free x1 again.
  if (re(x1) > 1) {
    x1 = 1;
    share1 = 0;
    x2 = num_div(v - b, c);
  } else if (re(x1) < -1) {
    x1 = -1;
    share1 = 0;
    x2 = num_div(v + b, c);
  }

  if (re(x2) > 1) {
    x2 = 1;
    share2 = 0;
    x1 = clip_unit(num_div(u - b, a), &share1);
  } else if (re(x2) < -1) {
    x2 = -1;
    share2 = 0;
    x1 = clip_unit(num_div(u + b, a), &share1);
  }
  PB_ASSERT(!(fabs(re(x1)) > 1) && !(fabs(re(x2)) > 1));
  *out = (segment_pair){x1, x2, share1, share2};
}

// Parallel segments: an end (-1 or 1) of the first and the point of the second across from it, or the end of the second that
// the overlap ends at.
static inline void nearest_to_end(const segment_system *s, double end1, segment_pair *p) {
  num on2 = num_div(s->v - end1 * s->b, s->c);
  p->x1 = end1;
  p->share1 = 0;
  p->x2 = clip_evenly(on2, &p->share2);
  if (p->share2 == 1) return;

  double end2 = re(on2) > 0 ? 1 : -1;
  num on1 = num_div(s->u - end2 * s->b, s->a);
  if (p->share2 == 0) {
    p->x1 = re(on1) * end1 < 0 ? clip_evenly(on1, &p->share1) : clip_unit(on1, &p->share1);
    return;
  }

  // A tie: both end here, or one begins where the other ends.
  bool same_end = end1 * end2 * re(s->b) < 0;
  double value = fabs(re(on2)) > 1 ? re(clip_unit(on1, &p->share1)) : end1;
  p->share1 = same_end ? 0.5 : 0;
  p->x1 = num_make(value, p->share1 * im(on1));
}

// Nearest points of the segments c1 + x1 axis1, c2 + x2 axis2 (axes scaled by half lengths), in MuJoCo's order of
// clamping. Returns 1, or 2 for parallel segments: the ends of their overlap, from below along axis1 (twice the same
// where they do not overlap).
static inline int nearest_on_segments(const num c1[3], const num axis1[3], const num c2[3], const num axis2[3],
                                      segment_pair out[2]) {
  num dif[3], cross[3];
  v3_sub(dif, c1, c2);
  segment_system s = {.a = v3_dot(axis1, axis1), .b = -v3_dot(axis1, axis2), .c = v3_dot(axis2, axis2)};
  s.u = -v3_dot(axis1, dif);
  s.v = v3_dot(axis2, dif);

  v3_cross(cross, axis1, axis2);
  num det = v3_dot(cross, cross);  // a c - b^2 without cancellation
  if (re(det) >= PARALLEL_AXES * re(s.a) * re(s.c)) {
    nearest_at_angle(&s, det, out);
    return 1;
  }

  nearest_to_end(&s, -1, &out[0]);
  nearest_to_end(&s, 1, &out[1]);
  return 2;
}

// Where a ball's center lies about a cylinder.
typedef enum cylinder_zone { zone_side, zone_cap, zone_rim } cylinder_zone;

// The cylinder's axis runs through the origin: the center is at this height, radial2 is its squared distance from the axis.
static inline cylinder_zone cylinder_zone_of(double height, double radial2, double radius, double half) {
  bool side = fabs(height) < half, cap = radial2 < radius * radius;
  if (side && cap) return half - fabs(height) < radius - sqrt(radial2 > 0 ? radial2 : 0) ? zone_cap : zone_side;
  if (side) return zone_side;
  return cap ? zone_cap : zone_rim;
}

#endif
