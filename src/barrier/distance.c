// Closest features: regions of points, edges and triangles (Ericson 2005, 5.1).
// Tests: tests/unit/test_barrier_geometry.c.
#include "barrier/distance.h"

#include <stdbool.h>

#include "base/assert.h"
#include "math/vec.h"

// Below these sines squared, edges count as parallel and triangles as edges: the closest feature has fewer vertices then.
static const double PARALLEL = 1e-14, SLIVER = 1e-20;

static pbClosest closest_points(const double *p, const double *q, int a, int b) {
  pbClosest c = {.na = 1, .nb = 1, .a = {a}, .b = {b}};
  v3_sub(c.apart, p, q);
  c.d2 = v3_norm2(c.apart);

  return c;
}

// Point p, number a of its primitive, and edge of vertices b0 and b1 of theirs
static pbClosest closest_point_edge(const double *p, int a, const double *B, int b0, int b1) {
  const double *q0 = B + 3 * b0, *q1 = B + 3 * b1;
  double e[3], r[3];

  v3_sub(e, q1, q0);
  v3_sub(r, p, q0);
  double along = v3_dot(r, e), length2 = v3_norm2(e);

  // Beyond an end, and for edges without length: an end.
  if (!(along > 0)) return closest_points(p, q0, a, b0);
  if (!(along < length2)) return closest_points(p, q1, a, b1);

  pbClosest c = {.na = 1, .nb = 2, .a = {a}, .b = {b0, b1}};
  v3_along(c.apart, r, e, -along / length2);
  c.d2 = v3_norm2(c.apart);

  return c;
}

// Squared distance of p from the edge of vertices b0 and b1
static double edge_distance2(const double *p, const double *B, int b0, int b1) {
  double e[3], r[3];

  v3_sub(e, B + 3 * b1, B + 3 * b0);
  v3_sub(r, p, B + 3 * b0);

  // The nearest point at w of the edge; comparisons are false for edges without length.
  double along = v3_dot(r, e), length2 = v3_norm2(e), w = 0;
  if (along > 0) w = along < length2 ? along / length2 : 1;
  v3_addscl(r, e, -w);

  return v3_norm2(r);
}

// The same pair, the other primitive first.
static pbClosest swap_sides(pbClosest c) {
  pbClosest r = {.na = c.nb, .nb = c.na, .d2 = c.d2};
  for (int k = 0; k < 3; k++) {
    r.a[k] = c.b[k];
    r.b[k] = c.a[k];
    r.apart[k] = -c.apart[k];
  }

  return r;
}

static int index_of_least(const double *d2, int count) {
  int best = 0;
  for (int k = 1; k < count; k++) best = d2[k] < d2[best] ? k : best;
  return best;
}

// Whether p is over the inside of triangle T, whose normal is n: to the left of each edge.
static bool over_triangle(const double *p, const double *T, const double *n) {
  for (int k = 0; k < 3; k++) {
    double e[3], r[3], c[3];
    v3_sub(e, T + 3 * ((k + 1) % 3), T + 3 * k);
    v3_sub(r, p, T + 3 * k);
    v3_cross(c, e, r);
    if (!(v3_dot(c, n) > 0)) return false;
  }

  return true;
}

static pbClosest closest_point_triangle(const double *p, const double *T) {
  double e1[3], e2[3], n[3], r[3];

  v3_sub(e1, T + 3, T);
  v3_sub(e2, T + 6, T);
  v3_cross(n, e1, e2);
  double nn = v3_norm2(n);

  // Outside of the prism over the triangle, or over one without area: the nearest edge.
  if (!(nn > SLIVER * v3_norm2(e1) * v3_norm2(e2) && over_triangle(p, T, n))) {
    double d2[3] = {edge_distance2(p, T, 0, 1), edge_distance2(p, T, 1, 2), edge_distance2(p, T, 0, 2)};
    int k = index_of_least(d2, 3);

    return closest_point_edge(p, 0, T, k == 1 ? 1 : 0, k == 0 ? 1 : 2);
  }

  pbClosest c = {.na = 1, .nb = 3, .b = {0, 1, 2}};
  v3_sub(r, p, T);
  v3_scale(c.apart, n, v3_dot(r, n) / nn);
  c.d2 = v3_norm2(c.apart);

  return c;
}

// Of edges a = A1 - A0 and b = B1 - B0, across = a x b: where the lines are closest, at A0 + s a and B0 + t b with
//   s = -gap . (b x across) / across^2,  t = -gap . (a x across) / across^2,  gap = A0 - B0
// if both are inside and the lines are not parallel; else at an end of one of them.
static pbClosest closest_edges(const double *A, const double *B) {
  double a[3], b[3], gap[3], across[3], b_across[3], a_across[3];

  v3_sub(a, A + 3, A);
  v3_sub(b, B + 3, B);
  v3_sub(gap, A, B);
  v3_cross(across, a, b);
  double across2 = v3_norm2(across);

  if (across2 > PARALLEL * v3_norm2(a) * v3_norm2(b)) {
    v3_cross(b_across, b, across);
    v3_cross(a_across, a, across);

    // Both times across2, so that nothing is divided before it is known to be inside.
    double s = -v3_dot(gap, b_across), t = -v3_dot(gap, a_across);

    if (s > 0 && s < across2 && t > 0 && t < across2) {
      pbClosest c = {.na = 2, .nb = 2, .a = {0, 1}, .b = {0, 1}};
      v3_scale(c.apart, across, v3_dot(gap, across) / across2);
      c.d2 = v3_norm2(c.apart);

      return c;
    }
  }

  // An end of one of them and the other edge.
  double d2[4] = {edge_distance2(A, B, 0, 1), edge_distance2(A + 3, B, 0, 1), edge_distance2(B, A, 0, 1),
                  edge_distance2(B + 3, A, 0, 1)};
  int k = index_of_least(d2, 4);

  if (k < 2) return closest_point_edge(A + 3 * k, k, B, 0, 1);
  return swap_sides(closest_point_edge(B + 3 * (k - 2), k - 2, A, 0, 1));
}

pbClosest pbClosest_Find(int na, const double *A, int nb, const double *B) {
  PB_ASSERT((na == 1 && nb >= 1 && nb <= 3) || (na == 2 && nb == 2));

  if (na == 2) return closest_edges(A, B);
  if (nb == 1) return closest_points(A, B, 0, 0);
  if (nb == 2) return closest_point_edge(A, 0, B, 0, 1);
  return closest_point_triangle(A, B);
}
