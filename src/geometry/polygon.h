// Polygons of contact: clipping, and the few corners that stand for all. In the number type.
#ifndef PB_POLYGON_H
#define PB_POLYGON_H

#include "base/assert.h"
#include "math/vec.h"

enum { PB_POLYGON_SIDES = 96, PB_POLYGON_MOST = 2 * PB_POLYGON_SIDES };  // of a face; of what two have in common

// The part of a polygon where side . (x - origin) <= 0, to `slack` (Sutherland and Hodgman). A side of two corners stays one.
// from: the corner each one is (and -1), or the two between which the plane is crossed.
static inline int clip_by_plane(int n, const num (*in)[3], num (*out)[3], int (*from)[2], const num origin[3], const num side[3],
                                double slack) {
  int count = 0, sides = n == 2 ? 1 : n;
  for (int k = 0; k < n; k++) {
    const num *p = in[k], *q = in[k + 1 == n ? 0 : k + 1];
    num dp[3], dq[3], step[3];
    v3_sub(dp, p, origin);
    v3_sub(dq, q, origin);
    num hp = v3_dot(dp, side), hq = v3_dot(dq, side);
    // Corners inside stay; a side that crosses gives its crossing point.
    bool p_in = re(hp) <= slack, q_in = re(hq) <= slack;

    if (p_in && count < PB_POLYGON_MOST) {
      from[count][0] = k;
      from[count][1] = -1;
      v3_copy(out[count++], p);
    }
    if (p_in == q_in || k >= sides || count == PB_POLYGON_MOST) continue;

    // The end inside is on the plane but for the slack: it is the crossing, which would lie beyond it.
    if (re(p_in ? hp : hq) > 0) continue;
    v3_sub(step, q, p);
    from[count][0] = k;
    from[count][1] = k + 1 == n ? 0 : k + 1;
    v3_along(out[count++], p, step, num_div(hp, hp - hq));
  }
  return count;
}

// Twice the area of a triangle, seen along n.
static inline double seen_area(const double n[3], const double a[3], const double b[3], const double c[3]) {
  double u[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]}, v[3] = {c[0] - a[0], c[1] - a[1], c[2] - a[2]};
  return n[0] * (u[1] * v[2] - u[2] * v[1]) + n[1] * (u[2] * v[0] - u[0] * v[2]) + n[2] * (u[0] * v[1] - u[1] * v[0]);
}

// The four corners of a convex polygon that enclose the largest area, in its order. At a tie the first.
static inline void largest_quadrangle(const double n[3], int count, const double (*corner)[3], int best[4]) {
  double most = -1;
  for (int i = 0; i < 4; i++) best[i] = i;
  for (int a = 0; a < count; a++) {
    int b = a + 1, d = a + 3;
    for (int c = a + 2; c < count + a - 1 && c < count; c++) {
      // Across the diagonal a c the area rises, then falls.
      while (b + 1 < c &&
             fabs(seen_area(n, corner[a], corner[b + 1], corner[c])) >= fabs(seen_area(n, corner[a], corner[b], corner[c])))
        b++;
      if (d <= c) d = c + 1;
      while (d + 1 < count + a && fabs(seen_area(n, corner[c], corner[(d + 1) % count], corner[a])) >=
                                      fabs(seen_area(n, corner[c], corner[d % count], corner[a])))
        d++;
      double area =
          fabs(seen_area(n, corner[a], corner[b], corner[c])) + fabs(seen_area(n, corner[c], corner[d % count], corner[a]));
      if (!(area > most * (1 + 1e-9))) continue;
      most = area;
      best[0] = a;
      best[1] = b;
      best[2] = c;
      best[3] = d % count;
    }
  }
}

// Normal of a polygon's plane, from corners that are spread around it.
static inline void plane_normal(int n, const num (*corner)[3], num out[3]) {
  num u[3], v[3];
  v3_sub(u, corner[n / 3], corner[0]);
  v3_sub(v, corner[2 * n / 3], corner[0]);
  v3_cross(out, u, v);
  v3_normalize(out);
}

// The point of a polygon next to a point x, both seen along the normal: x itself where it is inside, else on a side.
static inline void nearest_on_polygon(const num n[3], int sides, const num (*corner)[3], const num x[3], num out[3]) {
  double least = INFINITY, plane_side = 0;
  bool inside = sides > 2;
  num plane[3], d[3];

  v3_copy(out, corner[0]);
  for (int k = 0; k < (sides == 2 ? 1 : sides); k++) {
    num e[3], across[3], on[3] = {0, 0, 0};
    v3_sub(e, corner[k + 1 == sides ? 0 : k + 1], corner[k]);
    v3_sub(d, x, corner[k]);
    v3_cross(across, e, n);
    double side = re(v3_dot(across, d));
    inside = inside && side * plane_side >= 0;
    plane_side = plane_side != 0 ? plane_side : side;

    // Along the side, from one end to the other.
    v3_cross(across, n, across);
    num length2 = v3_dot(e, across);
    if (!(re(length2) > 0)) continue;
    v3_along(on, corner[k], e, num_clip(num_div(v3_dot(d, across), length2), 0, 1));
    v3_sub(d, x, on);
    double height = re(v3_dot(d, n)), distance = re(v3_dot(d, d)) - height * height;
    if (!(distance < least)) continue;
    least = distance;
    v3_copy(out, on);
  }
  if (!inside) return;

  plane_normal(sides, corner, plane);
  v3_sub(d, corner[0], x);
  v3_along(out, x, n, num_div(v3_dot(d, plane), v3_dot(n, plane)));
}

// Of a polygon's sides (counterclockwise) that which x is furthest beyond, more than slack; -1: none, or no polygon.
static inline int side_beyond(int sides, const num (*corner)[3], double slack, const num x[3]) {
  num plane[3], e[3], d[3], across[3];
  int best = -1;
  if (sides < 3) return best;

  plane_normal(sides, corner, plane);
  for (int k = 0; k < sides; k++) {
    v3_sub(e, corner[k + 1 == sides ? 0 : k + 1], corner[k]);
    v3_sub(d, x, corner[k]);
    v3_cross(across, e, plane);
    if (!(re(v3_normalize(across)) > 0) || !(re(v3_dot(across, d)) > slack)) continue;
    slack = re(v3_dot(across, d));
    best = k;
  }
  return best;
}

#endif
