// sigma of two convex shapes (convex.h) with its gradient and curvature at one direction, and the candidates for its minimum:
// what the search in convex_search.c is made of. In doubles.
#ifndef PB_CONVEX_PROBE_H
#define PB_CONVEX_PROBE_H

#include "geometry/convex.h"

#define FLAT 1e-10  // components of a local direction below it are zero

typedef struct search {
  const pbCore *core[2];
  double offset[3];  // center 2 - center 1
  double limit;      // sigma below this: no contact
  double scale;
  bool apart;
  double best;  // lowest sigma
  pbConvexNormal *out;
} search;

// Axes that are normals of faces: first axis and number.
static inline void face_axes(int type, int *first, int *count) {
  *first = type == pb_geomBox ? 0 : 2;
  *count = type == pb_geomCylinder;
  if (type == pb_geomBox) *count = 3;
}

// A normal of one of two parallel faces becomes that of the one which reaches around the other.
void pbConvex_PreferWider(const search *s);

// sigma and what it comes from at one direction
typedef struct probe {
  double n[3], value;
  double x[3];     // a - b, its gradient
  double m[2][3];  // n in the frame of shape 1, -n in that of shape 2
} probe;

static inline int sign_beyond(double x, double zero) {
  if (x > zero) return 1;
  return x < -zero ? -1 : 0;
}

// Which features support a shape in direction m (see core_support): components within zero of 0 are flat.
static inline void pick_signs(int type, const double m[3], double zero, signed char sign[3]) {
  sign[0] = sign[1] = sign[2] = 0;
  if (type == pb_geomSphere || type == pb_geomEllipsoid) return;

  sign[2] = sign_beyond(m[2], zero);
  if (type == pb_geomBox) {
    for (int i = 0; i < 2; i++) sign[i] = sign_beyond(m[i], zero);
  } else if (type == pb_geomCylinder) {
    sign[0] = m[0] * m[0] + m[1] * m[1] > zero * zero;
  }
}

// n . support
static inline double support_value(const pbCore *core, const double m[3]) {
  const double *s = core->size;
  switch (core->type) {
    case pb_geomCapsule: return s[1] * fabs(m[2]);
    case pb_geomBox: return s[0] * fabs(m[0]) + s[1] * fabs(m[1]) + s[2] * fabs(m[2]);
    case pb_geomCylinder: return s[0] * sqrt(m[0] * m[0] + m[1] * m[1]) + s[1] * fabs(m[2]);
    case pb_geomEllipsoid: {
      double a = s[0] * m[0], b = s[1] * m[1], c = s[2] * m[2];
      return sqrt(a * a + b * b + c * c);
    }
    default: return 0;
  }
}

static inline double sigma(const search *s, const double n[3]) {
  double m[3], value = -v3_dot(n, s->offset);
  for (int k = 0; k < 2; k++) {  // supports are even functions of the direction
    m3_tmulv(m, s->core[k]->mat, n);
    value += support_value(s->core[k], m);
  }
  return value;
}

// Supports with components below zero taken as flat.
static inline void probe_at(const search *s, const double n[3], double zero, probe *p) {
  v3_copy(p->n, n);
  v3_neg(p->x, s->offset);
  for (int k = 0; k < 2; k++) {
    const pbCore *core = s->core[k];
    double point[3], world[3], dir = k ? -1 : 1, *m = p->m[k];
    signed char sign[3];

    m3_tmulv(m, core->mat, n);
    v3_scale(m, m, dir);

    // Support in the shape's frame, seen from the world.
    pick_signs(core->type, m, zero, sign);

    core_support(core->type, core->size, m, sign, point);
    m3_mulv(world, core->mat, point);
    v3_addscl(p->x, world, dir);
  }

  p->value = v3_dot(n, p->x);
}

// Ellipsoid: d support / d m = (S^2 - q q') / l,  q = S^2 m / l,  l = |S m|
static inline double ellipsoid_curvature(const double size[3], const double m[3], const double a[3], const double b[3]) {
  double l2 = 0, ab = 0, qa = 0, qb = 0;
  for (int i = 0; i < 3; i++) {
    double s2 = size[i] * size[i];
    l2 += s2 * m[i] * m[i];
    ab += s2 * a[i] * b[i];
    qa += s2 * m[i] * a[i];
    qb += s2 * m[i] * b[i];
  }
  return l2 > 0 ? (ab - qa * qb / l2) / sqrt(l2) : 0;
}

// Cylinder, a circle of this radius: radius / rho times the part across the radial direction
static inline double circle_curvature(double radius, const double m[3], const double a[3], const double b[3]) {
  double rho2 = m[0] * m[0] + m[1] * m[1];
  double across_a = m[0] * a[1] - m[1] * a[0], across_b = m[0] * b[1] - m[1] * b[0];
  return rho2 > 0 ? radius * across_a * across_b / (rho2 * sqrt(rho2)) : 0;
}

// a' (d x / d n) b for two tangents; polyhedral parts are flat
static inline double curvature(const search *s, const probe *p, const double a[3], const double b[3]) {
  double sum = 0;
  for (int k = 0; k < 2; k++) {
    const pbCore *core = s->core[k];
    if (core->type != pb_geomEllipsoid && core->type != pb_geomCylinder) continue;

    double local_a[3], local_b[3];
    m3_tmulv(local_a, core->mat, a);
    m3_tmulv(local_b, core->mat, b);
    if (core->type == pb_geomEllipsoid) {
      sum += ellipsoid_curvature(core->size, p->m[k], local_a, local_b);
    } else {
      sum += circle_curvature(core->size[0], p->m[k], local_a, local_b);
    }
  }
  return sum;
}

// Take a candidate if it is lower by slack. Earlier kinds win ties, also of directions that are equal within FLAT; of two faces
// the lower one wins however little they are tilted.
static inline bool offer(search *s, const double n[3], double value, double slack, pbNormalKind kind) {
  if (value < s->limit) s->apart = true;
  if (!(value < s->best - slack * s->scale)) return false;

  double difference[3];
  bool faces = kind == pb_normalFace && s->out->kind == pb_normalFace;
  v3_sub(difference, n, s->out->n);
  if (!faces && s->out->kind != pb_normalFixed && v3_dot(difference, difference) < 4 * FLAT * FLAT) return false;

  s->best = value;
  s->out->kind = kind;
  v3_copy(s->out->n, n);
  return true;
}

#endif
