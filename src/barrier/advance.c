// Conservative advancement: a lower bound of the time of contact is safe to move for, again and again.
// Tests: tests/unit/test_barrier_geometry.c.
#include "barrier/advance.h"

#include <math.h>

#include "barrier/distance.h"
#include "barrier/parts.h"
#include "base/assert.h"
#include "math/vec.h"

enum { most_advances = 200 };  // what is reached by then is safe

static void move_vertices(double *to, const double *from, const double *by, double t, int count) {
  for (int k = 0; k < 3 * count; k++) to[k] = from[k] + t * by[k];
}

// Largest distance of some vectors from `mean`.
static double largest_deviation(const double *v, const double *mean, int count) {
  double most = 0;

  for (int k = 0; k < count; k++) {
    double r[3];
    v3_sub(r, v + 3 * k, mean);
    most = fmax(most, v3_norm(r));
  }

  return most;
}

// Fastest that any two points of A and B approach each other: motion in common taken off
static double top_speed(const pbMoving *a, const pbMoving *b) {
  int na = a->count, nb = b->count;
  const double *dA = a->dx, *dB = b->dx;

  double mean[3] = {0};

  // The mean velocity of all vertices.
  for (int k = 0; k < na; k++) v3_addscl(mean, dA + 3 * k, 1. / (na + nb));
  for (int k = 0; k < nb; k++) v3_addscl(mean, dB + 3 * k, 1. / (na + nb));

  return largest_deviation(dA, mean, na) + largest_deviation(dB, mean, nb);
}

// How long two slabs across direction n stay apart by `target`: hulls move as their vertices do. A, B: where the vertices are
// now.
static double slab_time(const pbMoving *a, const double *A, const pbMoving *b, const double *B, const double *n, double target) {
  double time = INFINITY;

  for (int i = 0; i < a->count; i++) {
    for (int j = 0; j < b->count; j++) {
      double r[3], v[3];

      // The slabs touch when the first two vertices do, and no vertex leaves its line.
      v3_sub(r, A + 3 * i, B + 3 * j);
      v3_sub(v, a->dx + 3 * i, b->dx + 3 * j);

      double room = v3_dot(r, n) - target, rate = v3_dot(v, n);
      if (room <= 0) return 0;
      if (rate < 0) time = fmin(time, room / -rate);
    }
  }

  return time;
}

double pbAdvance_Pair(const pbMoving *first, const pbMoving *second, double xi, double dhat, double keep) {
  int na = first->count, nb = second->count;
  double a[9], b[9], speed = top_speed(first, second), target = 0, least = 0, t = 0, safe = 0;
  PB_ASSERT(na >= 1 && nb >= 1 && na + nb <= 4 && xi >= 0);

  for (int k = 0; k < most_advances; k++) {
    move_vertices(a, first->x, first->dx, t, na);
    move_vertices(b, second->x, second->dx, t, nb);
    pbClosest c = pbClosest_Find(na, a, nb, b);
    double d = sqrt(c.d2), n[3];

    // What must be left of the gap.
    if (k == 0) {
      if (!(d > xi)) return -1;
      least = keep * fmin(d - xi, dhat);
      target = xi + least;
    }

    // Below it by rounding alone, where a gap is not large beside the coordinates' last digits: back to what was safe.
    if (d < target - .5 * least) return safe;
    safe = t;
    if (d < target + .1 * least) return t;

    // The better of two bounds: slabs across the line of shortest distance, and the fastest that any two points approach.
    v3_scale(n, c.apart, 1 / d);
    double time = fmax(slab_time(first, a, second, b, n, target), (d - target) / speed);
    PB_ASSERT(!(time < 0));
    if (!(t + time < 1)) return 1;
    t += time;
  }

  return safe;
}

// Height of a moving point over a moving plane, and bounds of what it may do until the end of the motion.
typedef struct Height {
  double now, rate;
  double curvature;  // the second derivative at most,
  double horizon;    // for as long as this: the normal, not brought to unit length, keeps half of it
} Height;

// The height over the plane of a point at r from the plane's first vertex, z = r . n / |n| with n = edge2 x edge3, and
//   dz/dt = (dr . n + r . dn - z n . dn / |n|) / |n|.
// Everything moves along lines, so the norms of r and the edges are largest at an end of the motion, which bounds d2z/dt2: with
// u = n / |n| it is 2 dr . du + r . d2u, |du| <= |dn| / |n|, |d2u| <= |d2n| / |n| + 2 |du|^2, d2n = 2 dedge2 x dedge3.
static Height height_at(const double *p, const double *dp, const double *plane, const double *dplane, double t) {
  double point[3], vertex[9], edge2[3], edge3[3], dedge2[3], dedge3[3], n[3], dn[3], r[3], dr[3];

  // Positions at t and velocities, relative to the first vertex of the plane.
  move_vertices(point, p, dp, t, 1);
  move_vertices(vertex, plane, dplane, t, 3);
  v3_sub(edge2, vertex + 3, vertex);
  v3_sub(edge3, vertex + 6, vertex);
  v3_sub(r, point, vertex);
  v3_sub(dedge2, dplane + 3, dplane);
  v3_sub(dedge3, dplane + 6, dplane);
  v3_sub(dr, dp, dplane);

  v3_cross(n, edge2, edge3);
  v3_cross(dn, dedge2, edge3);
  v3_addcross(dn, edge2, dedge3);

  double size = v3_norm(n), now = v3_dot(r, n) / size;
  double rate = (v3_dot(dr, n) + v3_dot(r, dn) - now * v3_dot(n, dn) / size) / size;

  // Where r and the edges are at the end.
  double r_end[3], edge2_end[3], edge3_end[3];
  v3_along(r_end, r, dr, 1 - t);
  v3_along(edge2_end, edge2, dedge2, 1 - t);
  v3_along(edge3_end, edge3, dedge3, 1 - t);

  // The normal changes by at most `change` per unit of time, so its direction rotates at most at `rotation` while |n| keeps half.
  double lever = fmax(v3_norm(r), v3_norm(r_end)), width = v3_norm(dedge2), length = v3_norm(dedge3);
  double change = width * fmax(v3_norm(edge3), v3_norm(edge3_end)) + length * fmax(v3_norm(edge2), v3_norm(edge2_end));
  double rotation = 2 * change / size;
  double curvature = lever * (4 * width * length / size + 2 * rotation * rotation) + 2 * rotation * v3_norm(dr);

  return (Height){.now = now, .rate = rate, .curvature = curvature, .horizon = .5 * size / change};
}

double pbAdvance_Plane(const double *p, const double *dp, const double *plane, const double *dplane, double xi, double dhat,
                       double keep) {
  double target = 0, least = 0, t = 0, safe = 0;

  for (int k = 0; k < most_advances; k++) {
    Height h = height_at(p, dp, plane, dplane, t);

    if (k == 0) {
      if (!(h.now > xi)) return -1;
      least = keep * fmin(h.now - xi, dhat);
      target = xi + least;
    }

    if (!(h.now > target - .5 * least)) return safe;
    safe = t;
    if (h.now < target + .1 * least) return t;

    // The first root of room + rate t - curvature/2 t^2, in the form without cancellation.
    double room = h.now - target, root = sqrt(h.rate * h.rate + 2 * h.curvature * room);
    t += fmin(h.rate > 0 ? (h.rate + root) / h.curvature : 2 * room / (root - h.rate), h.horizon);
    if (!(t < 1)) return 1;
  }

  return safe;
}
