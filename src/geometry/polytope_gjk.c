// The point of M (polytope.h) next to 0, by the simplex of Gilbert, Johnson and Keerthi. In doubles.
// Tests: tests/unit/test_polytope.c, tests/unit/test_poses.c, tests/oracle/test_polytopes.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/polytope.h"

enum { ROUNDS = 200 };
#define TOUCH 1e-10  // of the scale: closer than this, directions to 0 are rounding

typedef struct simplex {
  pbDifference *corner;
  int count;
  double v[3];
} simplex;

static void keep(simplex *s, int count, const int *which) {
  pbDifference kept[4];
  PB_ASSERT(count >= 1 && count <= 4);
  for (int k = 0; k < count; k++) kept[k] = s->corner[which[k]];
  memcpy(s->corner, kept, (size_t)count * sizeof kept[0]);
  s->count = count;
}

// Point next to 0 of the segment p q; which of its ends carry it (bits).
static int nearest_on_segment(const double p[3], const double q[3], double v[3]) {
  double d[3];

  v3_sub(d, q, p);
  double along = -v3_dot(p, d), length2 = v3_dot(d, d);
  if (!(along > 0)) {
    v3_copy(v, p);
    return 1;
  }
  if (!(along < length2)) {
    v3_copy(v, q);
    return 2;
  }
  v3_along(v, p, d, along / length2);

  return 3;
}

// The same of the triangle a b c: inside, or the nearest of its three sides.
static int nearest_on_triangle(const double a[3], const double b[3], const double c[3], double v[3]) {
  const double *p[3] = {a, b, c};
  double ab[3], ac[3], n[3], side[3];

  v3_sub(ab, b, a);
  v3_sub(ac, c, a);
  v3_cross(n, ab, ac);
  double area2 = v3_dot(n, n);

  // 0 is within the side q r where (r - q) x (-q) turns as n does.
  bool inside = area2 > 0;
  for (int k = 0; k < 3 && inside; k++) {
    double turn[3];
    v3_sub(side, p[(k + 1) % 3], p[k]);
    v3_cross(turn, p[k], side);
    inside = v3_dot(turn, n) > 0;
  }
  if (inside) {
    v3_scale(v, n, v3_dot(n, a) / area2);
    return 7;
  }

  // Else on a side.
  int carried = 0;
  double best = INFINITY;
  for (int k = 0; k < 3; k++) {
    int next = (k + 1) % 3;
    double x[3];
    int bits = nearest_on_segment(p[k], p[next], x);
    if (!(v3_dot(x, x) < best)) continue;
    best = v3_dot(x, x);
    v3_copy(v, x);
    carried = (bits & 1 ? 1 << k : 0) | (bits & 2 ? 1 << next : 0);
  }

  return carried;
}

// The same of a tetrahedron; 15: 0 is inside.
static int nearest_on_tetrahedron(const simplex *s, double v[3]) {
  static const int faces[4][4] = {{0, 1, 2, 3}, {0, 3, 1, 2}, {0, 2, 3, 1}, {1, 3, 2, 0}};  // the last: the corner across
  const pbDifference *p = s->corner;
  int carried = 15;
  double best = INFINITY;

  for (int f = 0; f < 4; f++) {
    const double *a = p[faces[f][0]].m, *b = p[faces[f][1]].m, *c = p[faces[f][2]].m;
    double ab[3], ac[3], ad[3], n[3], x[3];
    v3_sub(ab, b, a);
    v3_sub(ac, c, a);
    v3_sub(ad, p[faces[f][3]].m, a);
    v3_cross(n, ab, ac);

    // On the side of the corner across: 0 is not beyond this face.
    if (-v3_dot(n, a) * v3_dot(n, ad) > 0) continue;

    int bits = nearest_on_triangle(a, b, c, x);
    if (!(v3_dot(x, x) < best)) continue;
    best = v3_dot(x, x);
    v3_copy(v, x);
    carried = 0;
    for (int k = 0; k < 3; k++) carried |= bits & (1 << k) ? 1 << faces[f][k] : 0;
  }

  return carried;
}

// The smallest part of the simplex that carries its point next to 0; false: 0 is inside.
static bool reduce(simplex *s) {
  pbDifference *p = s->corner;
  int bits = 1, which[4], count = 0;

  switch (s->count) {
    case 1: v3_copy(s->v, p[0].m); break;
    case 2: bits = nearest_on_segment(p[0].m, p[1].m, s->v); break;
    case 3: bits = nearest_on_triangle(p[0].m, p[1].m, p[2].m, s->v); break;
    default: bits = nearest_on_tetrahedron(s, s->v); break;
  }
  if (bits == 15) return false;

  // Only the corners that count are kept.
  for (int k = 0; k < s->count; k++) {
    if (bits & (1 << k)) which[count++] = k;
  }
  keep(s, count, which);

  return true;
}

static bool is_among(const pbDifference *corners, int count, const pbDifference *w) {
  for (int k = 0; k < count; k++) {
    if (corners[k].m[0] == w->m[0] && corners[k].m[1] == w->m[1] && corners[k].m[2] == w->m[2]) return true;
  }
  return false;
}

pbGjkResult pbPolytope_Gjk(pbPolytopePair *pair, double reach, pbDifference corners[4], int *count, double v[3]) {
  simplex s = {.corner = corners, .count = 1};
  double d[3], touch = TOUCH * pair->scale;

  // Begin along the line of centers.
  v3_copy(d, pair->shape[1].pos);
  pbPolytope_Support(pair, d, &corners[0]);
  reduce(&s);

  for (int round = 0; round < ROUNDS; round++) {
    double length = v3_norm(s.v), before[3];
    if (!(length > touch)) break;

    // The corner of M furthest toward 0: all of M is beyond its plane.
    pbDifference w;
    v3_scale(d, s.v, -1 / length);
    pbPolytope_Support(pair, d, &w);
    double bound = -v3_dot(d, w.m);
    if (bound > reach) return pb_gjkApart;

    // None nearer: v is the point.
    if (length - bound <= pair->gap || is_among(corners, s.count, &w)) break;

    // With the new corner, unless rounding undoes it.
    pbDifference old[4];
    int old_count = s.count;
    memcpy(old, corners, sizeof old);
    v3_copy(before, s.v);
    corners[s.count++] = w;
    if (!reduce(&s)) {
      *count = s.count;
      return pb_gjkOverlap;
    }

    // No progress but by rounding.
    if (v3_dot(s.v, s.v) < v3_dot(before, before)) continue;
    memcpy(corners, old, sizeof old);
    s.count = old_count;
    v3_copy(s.v, before);
    break;
  }

  *count = s.count;
  v3_copy(v, s.v);

  return v3_norm(v) > touch ? pb_gjkNear : pb_gjkOverlap;
}

#else
typedef int polytope_gjk_is_for_doubles;
#endif
