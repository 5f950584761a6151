// Searches on convex hulls of meshes (hull.h): the furthest corner, the polygon on a plane, the nearest feature.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/hull.h"

enum { FEW_CORNERS = 32, MOST_ROUNDS = 200 };
#define TIE   1e-10  // relative to the hull's radius: what differs by less is the same
#define EXACT 1e-15  // relative: rounding

// ---- support ------------------------------------------------------------------------------------------------------------
int pbHull_Support(const pbMeshHull *h, const double d[3], int start) {
  int best = start;
  double most = v3_dot(h->corner + 3 * start, d);
  PB_ASSERT(start >= 0 && start < h->corners);

  // Few are all looked at; among many, from neighbor to neighbor, for a hull has no second summit.
  if (h->corners <= FEW_CORNERS) {
    for (int i = 0; i < h->corners; i++) {
      double value = v3_dot(h->corner + 3 * i, d);
      if (!(value > most)) continue;
      best = i;
      most = value;
    }
    return best;
  }

  // Up to a corner without a higher neighbor.
  for (int from = -1; from != best;) {
    from = best;

    for (int k = h->first_next[from]; k < h->first_next[from + 1]; k++) {
      double value = v3_dot(h->corner + 3 * h->next[k], d);
      if (!(value > most)) continue;
      best = h->next[k];
      most = value;
    }
  }
  return best;
}

// ---- a plane ------------------------------------------------------------------------------------------------------------
// The polygon at a corner that looks most against the plane; of those that tie the first; -1: the corner is inside of one.
static int facing_polygon(const pbMeshHull *h, int corner, const double n[3]) {
  int best = -1;
  double least = 1;

  for (int k = h->first_face[corner]; k < h->first_face[corner + 1]; k++) {
    double cosine = v3_dot(h->normal + 3 * h->face[k], n);
    if (best >= 0 && !(cosine < least - TIE)) continue;

    best = h->face[k];
    least = cosine;
  }
  return best;
}

// Of the polygon's corners as deep as the deepest the first: where it begins.
static int deepest_of(const pbMeshHull *h, int polygon, const double n[3], int deepest) {
  double depth = v3_dot(h->corner + 3 * deepest, n);

  for (int k = h->first[polygon]; k < h->first[polygon + 1]; k++) {
    if (v3_dot(h->corner + 3 * h->around[k], n) <= depth + TIE * h->radius) return k - h->first[polygon];
  }
  PB_ASSERT(false);
  return 0;
}

static double quadrilateral(const pbMeshHull *h, const int *around, const int k[4]) {
  double u[3], v[3], area[3];
  v3_sub(u, h->corner + 3 * around[k[0]], h->corner + 3 * around[k[2]]);
  v3_sub(v, h->corner + 3 * around[k[1]], h->corner + 3 * around[k[3]]);

  // Twice the area, by the diagonals.
  v3_cross(area, u, v);
  return v3_norm(area);
}

// Moves one corner on while the area grows.
static bool grow(const pbMeshHull *h, const int *around, int count, int which, int k[4], double *area) {
  int moved[4] = {k[0], k[1], k[2], k[3]};
  moved[which] = (moved[which] + 1) % count;

  double larger = quadrilateral(h, around, moved);
  if (!(larger > *area)) return false;

  k[which] = moved[which];
  *area = larger;
  return true;
}

int pbHull_OnPlane(const pbMeshHull *h, const double n[3], int corner[4]) {
  double down[3];
  v3_neg(down, n);
  corner[0] = pbHull_Support(h, down, 0);
  int polygon = facing_polygon(h, corner[0], n);
  if (polygon < 0) return 1;

  // From the deepest on, the others grow away from it, the last one first.
  const int *around = h->around + h->first[polygon];
  int count = h->first[polygon + 1] - h->first[polygon];
  int start = deepest_of(h, polygon, n, corner[0]);
  int k[4] = {start, (start + 1) % count, (start + 2) % count, (start + 3) % count};
  PB_ASSERT(count >= 3);

  if (count > 4) {
    double area = quadrilateral(h, around, k);
    while (grow(h, around, count, 3, k, &area)) {
      while (grow(h, around, count, 2, k, &area)) continue;
      while (grow(h, around, count, 1, k, &area)) continue;
    }
  }

  int used = count < 4 ? count : 4;
  for (int i = 0; i < used; i++) corner[i] = around[k[i]];
  return used;
}

// ---- the nearest feature --------------------------------------------------------------------------------------------------
// Corners seen from the point, and the point of them that is nearest to it (Gilbert, Johnson, Keerthi 1988).
typedef struct simplex {
  int count, corner[4];
  double x[4][3], nearest[3];
} simplex;

static void keep(simplex *s, int count, const int which[3]) {
  simplex all = *s;
  PB_ASSERT(count >= 1 && count <= 3);
  s->count = count;

  for (int i = 0; i < count; i++) {
    s->corner[i] = all.corner[which[i]];
    v3_copy(s->x[i], all.x[which[i]]);
  }
}

// The nearest point to the origin of the segment a b.
static void reduce_segment(simplex *s, int a, int b) {
  double edge[3];
  v3_sub(edge, s->x[b], s->x[a]);
  double t = -v3_dot(s->x[a], edge), length2 = v3_dot(edge, edge);

  if (t > 0 && t < length2) {
    v3_along(s->nearest, s->x[a], edge, t / length2);
    keep(s, 2, (int[3]){a, b});
    return;
  }

  // Beyond an end, that end.
  int end = t > 0 ? b : a;
  v3_copy(s->nearest, s->x[end]);
  keep(s, 1, (int[3]){end});
}

// Of the triangle a b c: which side of its edges the origin is on (Ericson, Real-Time Collision Detection, 5.1.5).
static void reduce_triangle(simplex *s, int a, int b, int c) {
  const double *A = s->x[a], *B = s->x[b], *C = s->x[c];
  double ab[3], ac[3];
  v3_sub(ab, B, A);
  v3_sub(ac, C, A);

  // Along both edges from each corner, and the areas that the origin makes with each edge.
  double d1 = -v3_dot(ab, A), d2 = -v3_dot(ac, A), d3 = -v3_dot(ab, B), d4 = -v3_dot(ac, B), d5 = -v3_dot(ab, C);
  double d6 = -v3_dot(ac, C), u = d3 * d6 - d5 * d4, v = d5 * d2 - d1 * d6, w = d1 * d4 - d3 * d2;

  // Beyond an edge, the nearest point is on it, at one of its ends, or on the other edge there.
  bool beyond[3] = {w <= 0 && d1 >= 0 && d3 <= 0, v <= 0 && d2 >= 0 && d6 <= 0, u <= 0 && d4 >= d3 && d5 >= d6};
  if (beyond[0]) reduce_segment(s, a, b);
  else if (beyond[1]) reduce_segment(s, a, c);
  else if (beyond[2]) reduce_segment(s, b, c);
  else if (d1 <= 0 && d2 <= 0) reduce_segment(s, a, a);
  else if (d3 >= 0 && d4 <= d3) reduce_segment(s, b, b);
  else if (d6 >= 0 && d5 <= d6) reduce_segment(s, c, c);
  else {
    double normal[3];
    v3_cross(normal, ab, ac);
    v3_scale(s->nearest, normal, v3_dot(A, normal) / v3_dot(normal, normal));
    keep(s, 3, (int[3]){a, b, c});
  }
}

// Is the origin on the same side of three corners' plane as the fourth corner?
static bool same_side(const simplex *s, int a, int b, int c, int d) {
  double ab[3], ac[3], ad[3], normal[3];
  v3_sub(ab, s->x[b], s->x[a]);
  v3_sub(ac, s->x[c], s->x[a]);
  v3_sub(ad, s->x[d], s->x[a]);

  v3_cross(normal, ab, ac);
  return v3_dot(normal, ad) * -v3_dot(normal, s->x[a]) > 0;
}

// The nearest of the four faces; false: the origin is inside.
static bool reduce_tetrahedron(simplex *s) {
  static const int face[4][4] = {{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 3, 1}, {1, 2, 3, 0}};
  double least = INFINITY;
  simplex best = *s;
  bool inside = true;

  // Faces between the origin and the corner across.
  for (int i = 0; i < 4; i++) {
    const int *f = face[i];
    if (same_side(s, f[0], f[1], f[2], f[3])) continue;
    inside = false;

    simplex candidate = *s;
    reduce_triangle(&candidate, f[0], f[1], f[2]);
    double distance2 = v3_dot(candidate.nearest, candidate.nearest);
    if (!(distance2 < least)) continue;

    best = candidate;
    least = distance2;
  }

  *s = best;
  return !inside;
}

static bool reduce(simplex *s) {
  if (s->count == 2) reduce_segment(s, 0, 1);
  if (s->count == 3) reduce_triangle(s, 0, 1, 2);
  return s->count < 4 || reduce_tetrahedron(s);
}

static void add_corner(const pbMeshHull *h, const double point[3], int corner, simplex *s) {
  v3_sub(s->x[s->count], h->corner + 3 * corner, point);
  s->corner[s->count++] = corner;
}

static bool holds(const simplex *s, int corner) {
  for (int i = 0; i < s->count; i++) {
    if (s->corner[i] == corner) return true;
  }
  return false;
}

// The triangle whose plane is nearest from inside.
static pbHullNearest nearest_plane(const pbMeshHull *h, const double point[3]) {
  pbHullNearest out = {.count = 3, .inside = true};
  double most = -INFINITY;

  for (int t = 0; t < h->triangles; t++) {
    const int *v = h->triangle + 3 * t;
    double a[3], b[3], c[3], normal[3];

    v3_sub(a, h->corner + 3 * v[0], point);
    v3_sub(b, h->corner + 3 * v[1], h->corner + 3 * v[0]);
    v3_sub(c, h->corner + 3 * v[2], h->corner + 3 * v[0]);
    v3_cross(normal, b, c);

    // Slivers have no direction.
    double length = v3_norm(normal), height = -v3_dot(a, normal) / length;
    if (!(length > EXACT * h->radius * h->radius && height > most)) continue;

    most = height;
    memcpy(out.corner, v, sizeof out.corner);
  }
  return out;
}

pbHullNearest pbHull_Nearest(const pbMeshHull *h, const double point[3]) {
  double toward[3], scale = h->radius + v3_norm(point);
  simplex s = {0};

  // Begin with the furthest on the point's side.
  add_corner(h, point, pbHull_Support(h, point, 0), &s);
  v3_copy(s.nearest, s.x[0]);

  for (int round = 0; round < MOST_ROUNDS; round++) {
    double length = v3_norm(s.nearest);
    if (!(length > EXACT * scale)) return nearest_plane(h, point);

    // The corner that is furthest towards the point: is there one nearer than what is known?
    v3_neg(toward, s.nearest);
    simplex before = s;
    int corner = pbHull_Support(h, toward, s.corner[0]);
    if (holds(&s, corner)) break;

    add_corner(h, point, corner, &s);
    double gain = length * length - v3_dot(s.nearest, s.x[s.count - 1]);
    if (gain > EXACT * length * scale && !reduce(&s)) return nearest_plane(h, point);
    if (gain > EXACT * length * scale && v3_norm(s.nearest) < length) continue;

    s = before;
    break;
  }

  pbHullNearest out = {.count = s.count};
  memcpy(out.corner, s.corner, (size_t)s.count * sizeof *s.corner);
  return out;
}

#else
typedef int hull_search_is_for_doubles;
#endif
