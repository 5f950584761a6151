// Exact predicates by sums of doubles that do not overlap (Shewchuk 1997).
// Tests: tests/unit/test_barrier_geometry.c.
#include "barrier/exact.h"

#include <math.h>

#include "base/assert.h"

// ---- exact sums -----------------------------------------------------------------------------------------------------
enum { most_terms = 24 * 4 };
typedef struct Sum {  // of all terms, smallest first, no two overlap
  double term[most_terms];
  int count;
} Sum;

static void sum_add(Sum *s, double x) {
  PB_ASSERT(s->count < most_terms);

  // Two-sum (Knuth) of x with each term: x becomes the rounded sum, the term its error.
  for (int i = 0; i < s->count; i++) {
    double both = x + s->term[i], part = both - x;
    s->term[i] = (x - (both - part)) + (s->term[i] - part);
    x = both;
  }

  s->term[s->count++] = x;
}

// x y z as four doubles: two-products by fused multiplication.
static void sum_add_product(Sum *s, double x, double y, double z) {
  // x y = xy + error, and both times z again as pairs.
  double xy = x * y, error = fma(x, y, -xy);
  double high = xy * z, low = error * z;

  sum_add(s, fma(error, z, -low));
  sum_add(s, low);
  sum_add(s, fma(xy, z, -high));
  sum_add(s, high);
}

// That of its largest term that is not zero: all others together are smaller.
static int sum_sign(const Sum *s) {
  for (int i = s->count - 1; i >= 0; i--) {
    if (s->term[i] != 0) return s->term[i] > 0 ? 1 : -1;
  }

  return 0;
}

// ---- sides ----------------------------------------------------------------------------------------------------------
// sign det(a, b, c), the Leibniz formula.
static void sum_add_det(Sum *s, const double *a, const double *b, const double *c, double sign) {
  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    sum_add_product(s, sign * a[i], b[j], c[k]);
    sum_add_product(s, -sign * a[i], b[k], c[j]);
  }
}

// det(b - a, c - a, d - a) without a difference that would round: expanded by the four minors of the coordinates.
static int exact_side(const double *a, const double *b, const double *c, const double *d) {
  Sum s = {.count = 0};

  sum_add_det(&s, b, c, d, 1);
  sum_add_det(&s, a, c, d, -1);
  sum_add_det(&s, a, b, d, 1);
  sum_add_det(&s, a, b, c, -1);

  return sum_sign(&s);
}

int pbExact_Side(const double *a, const double *b, const double *c, const double *d) {
  double u[3], v[3], w[3], det = 0, size = 0;
  for (int k = 0; k < 3; k++) {
    u[k] = b[k] - a[k];
    v[k] = c[k] - a[k];
    w[k] = d[k] - a[k];
  }

  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;

    // u . (v x w), and the same with absolute values, which bounds its error.
    double p = v[j] * w[k], q = v[k] * w[j];

    det += u[i] * (p - q);
    size += fabs(u[i]) * (fabs(p) + fabs(q));
  }

  // In doubles where the sign is sure: an error of 7.8e-16 of the size is proven (Shewchuk 1997, orient3d).
  double error = 1e-15 * size;
  if (det > error) return 1;
  return det < -error ? -1 : exact_side(a, b, c, d);
}

// In the plane of the axes i and j: sign of (b - a) x (c - a), whether a, b, c go round to the left
static int orientation(const double *a, const double *b, const double *c, int i, int j) {
  Sum s = {.count = 0};

  // b x c - a x c + a x b, each product exact.
  sum_add_product(&s, b[i], c[j], 1);
  sum_add_product(&s, -b[j], c[i], 1);
  sum_add_product(&s, -a[i], c[j], 1);
  sum_add_product(&s, a[j], c[i], 1);
  sum_add_product(&s, a[i], b[j], 1);
  sum_add_product(&s, -a[j], b[i], 1);

  return sum_sign(&s);
}

// ---- in one plane ---------------------------------------------------------------------------------------------------
static bool between(double x, double a, double b) { return (a <= x && x <= b) || (b <= x && x <= a); }

static bool on_segment(const double *p, const double *a, const double *b, int i, int j) {
  return orientation(a, b, p, i, j) == 0 && between(p[i], a[i], b[i]) && between(p[j], a[j], b[j]);
}

static bool segments_meet(const double *a, const double *b, const double *c, const double *d, int i, int j) {
  // An end on the other segment, or ends on both sides of each other's line.
  if (on_segment(a, c, d, i, j) || on_segment(b, c, d, i, j) || on_segment(c, a, b, i, j) || on_segment(d, a, b, i, j))
    return true;

  bool crosses = orientation(a, b, c, i, j) * orientation(a, b, d, i, j) < 0;
  return crosses && orientation(c, d, a, i, j) * orientation(c, d, b, i, j) < 0;
}

static bool is_inside(const double *p, const double *t, int i, int j) {
  int first = orientation(t, t + 3, p, i, j);
  return first && orientation(t + 3, t + 6, p, i, j) == first && orientation(t + 6, t, p, i, j) == first;
}

static bool flat_meet(const double *e, const double *t, int i, int j) {
  for (int k = 0; k < 3; k++) {
    if (segments_meet(e, e + 3, t + 3 * k, t + 3 * ((k + 1) % 3), i, j)) return true;
  }

  return is_inside(e, t, i, j);
}

// What lies in one plane meets if it does so seen along all three axes: from one of them nothing covers anything else.
static bool coplanar_meet(const double *e, const double *t) {
  // A triangle without area may lie beside the edge's line in space.
  for (int k = 0; k < 3; k++) {
    if (pbExact_Side(e, e + 3, t + 3 * k, t + 3 * ((k + 1) % 3))) return false;
  }

  return flat_meet(e, t, 0, 1) && flat_meet(e, t, 1, 2) && flat_meet(e, t, 2, 0);
}

bool pbExact_EdgeMeetsTriangle(const double *e, const double *t) {
  int from = pbExact_Side(t, t + 3, t + 6, e), to = pbExact_Side(t, t + 3, t + 6, e + 3);
  if (from == 0 && to == 0) return coplanar_meet(e, t);
  if (from == to) return false;

  // The edge crosses the triangle's plane; its line goes round all three edges in the same direction where it meets the triangle.
  int least = 1, largest = -1;
  for (int k = 0; k < 3; k++) {
    int side = pbExact_Side(e, e + 3, t + 3 * k, t + 3 * ((k + 1) % 3));
    least = side < least ? side : least;
    largest = side > largest ? side : largest;
  }

  return least >= 0 || largest <= 0;
}
