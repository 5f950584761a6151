#include "barrier/exact.h"

#include <math.h>

// ---- exact sums -----------------------------------------------------------------------------------------------------
enum { most_terms = 24 * 4 };
typedef struct Sum {  // of all terms, smallest first, no two overlap
  double term[most_terms];
  int count;
} Sum;

static void sum_add(Sum *s, double x) {
  for (int i = 0; i < s->count; i++) {  // x + term = both, with the error left behind
    double both = x + s->term[i], part = both - x;
    s->term[i] = (x - (both - part)) + (s->term[i] - part);
    x = both;
  }

  s->term[s->count++] = x;
}

static void sum_add_product(Sum *s, double x, double y, double z) {
  double xy = x * y, error = fma(x, y, -xy);
  double high = xy * z, low = error * z;

  sum_add(s, fma(error, z, -low));
  sum_add(s, low);
  sum_add(s, fma(xy, z, -high));
  sum_add(s, high);
}

static int sum_sign(const Sum *s) {
  for (int i = s->count - 1; i >= 0; i--)
    if (s->term[i] != 0) return s->term[i] > 0 ? 1 : -1;
  return 0;
}

// ---- sides ----------------------------------------------------------------------------------------------------------
static void sum_add_det(Sum *s, const double *a, const double *b, const double *c, double sign) {
  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    sum_add_product(s, sign * a[i], b[j], c[k]);
    sum_add_product(s, -sign * a[i], b[k], c[j]);
  }
}

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
    double p = v[j] * w[k], q = v[k] * w[j];

    det += u[i] * (p - q);
    size += fabs(u[i]) * (fabs(p) + fabs(q));
  }

  double error = 1e-15 * size;  // 7.8e-16 is proven (Shewchuk 1997, orient3d)
  return det > error ? 1 : det < -error ? -1 : exact_side(a, b, c, d);
}

// In the plane of the axes i and j: sign of (b - a) x (c - a)
static int turn(const double *a, const double *b, const double *c, int i, int j) {
  Sum s = {.count = 0};
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
  return turn(a, b, p, i, j) == 0 && between(p[i], a[i], b[i]) && between(p[j], a[j], b[j]);
}

static bool segments_meet(const double *a, const double *b, const double *c, const double *d, int i, int j) {
  if (on_segment(a, c, d, i, j) || on_segment(b, c, d, i, j) || on_segment(c, a, b, i, j) || on_segment(d, a, b, i, j))
    return true;
  return turn(a, b, c, i, j) * turn(a, b, d, i, j) < 0 && turn(c, d, a, i, j) * turn(c, d, b, i, j) < 0;
}

static bool inside(const double *p, const double *t, int i, int j) {
  int first = turn(t, t + 3, p, i, j);
  return first && turn(t + 3, t + 6, p, i, j) == first && turn(t + 6, t, p, i, j) == first;
}

static bool flat_meet(const double *e, const double *t, int i, int j) {
  for (int k = 0; k < 3; k++)
    if (segments_meet(e, e + 3, t + 3 * k, t + 3 * ((k + 1) % 3), i, j)) return true;
  return inside(e, t, i, j);
}

// What lies in one plane meets if it does so seen along all three axes: from one of them nothing covers anything else.
static bool coplanar_meet(const double *e, const double *t) {
  for (int k = 0; k < 3; k++)
    if (pbExact_Side(e, e + 3, t + 3 * k, t + 3 * ((k + 1) % 3))) return false;  // a triangle without area, beside the edge
  return flat_meet(e, t, 0, 1) && flat_meet(e, t, 1, 2) && flat_meet(e, t, 2, 0);
}

bool pbExact_EdgeMeetsTriangle(const double *e, const double *t) {
  int from = pbExact_Side(t, t + 3, t + 6, e), to = pbExact_Side(t, t + 3, t + 6, e + 3);
  if (from == 0 && to == 0) return coplanar_meet(e, t);
  if (from == to) return false;
  int least = 1, largest = -1;

  for (int k = 0; k < 3; k++) {  // the line goes round all three edges the same way
    int side = pbExact_Side(e, e + 3, t + 3 * k, t + 3 * ((k + 1) % 3));
    least = side < least ? side : least;
    largest = side > largest ? side : largest;
  }

  return least >= 0 || largest <= 0;
}
