// Searches on convex hulls of meshes (hull.h): the furthest corner, the polygon on a plane, the nearest feature.
// Tests: tests/unit/test_geometry.c, tests/unit/test_standing.c, tests/unit/test_ties.c.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/hull.h"

enum { MOST_ROUNDS = 200 };
#define TIE   1e-10  // relative to the hull's radius: what differs by less is the same
#define FLAT  1e-7   // the same: corners are stored in single precision
#define RESTS 1e-3   // the same: depths at rest differ by less
#define EXACT 1e-15  // relative: rounding

// ---- support ------------------------------------------------------------------------------------------------------------
void pbHull_Corner(const pbHullView *view, int corner, double x[3]) {
  v3_copy(x, view->hull->corner + 3 * corner);
  if (!view->moved) return;

  m3_mulv(x, view->stretch, x);
  v3_addto(x, view->shift);
}

void pbHull_Normal(const pbHullView *view, int polygon, double normal[3]) {
  v3_copy(normal, view->hull->normal + 3 * polygon);
  if (!view->moved) return;

  // Vector areas go by the cofactors.
  const double *a = view->stretch;
  double cofactor[9];
  v3_cross(cofactor, a + 3, a + 6);
  v3_cross(cofactor + 3, a + 6, a);
  v3_cross(cofactor + 6, a, a + 3);
  m3_mulv(normal, cofactor, normal);
  v3_normalize(normal);
}

int pbHull_Support(const pbHullView *view, const double direction[3]) {
  double d[3];
  if (!view->moved) return pbMeshHull_Support(view->hull, direction);

  // d . (A x + b): the furthest along A' d before the points were moved.
  m3_tmulv(d, view->stretch, direction);
  return pbMeshHull_Support(view->hull, d);
}

// ---- a plane ------------------------------------------------------------------------------------------------------------
// The polygon at a corner that looks most against the plane; of those that tie the first; -1: the corner is inside of one.
static int facing_polygon(const pbHullView *view, int corner, const double n[3]) {
  const pbMeshHull *h = view->hull;
  int best = -1;
  double least = 1;

  for (int k = h->first_face[corner]; k < h->first_face[corner + 1]; k++) {
    double normal[3];
    pbHull_Normal(view, h->face[k], normal);
    double cosine = v3_dot(normal, n);
    if (best >= 0 && !(cosine < least - TIE)) continue;

    best = h->face[k];
    least = cosine;
  }

  return best;
}

// Of the polygon's corners as deep as the deepest the first: where it begins.
static int deepest_of(const pbHullView *view, int polygon, const double n[3], int deepest) {
  const pbMeshHull *h = view->hull;
  double x[3];
  pbHull_Corner(view, deepest, x);
  double depth = v3_dot(x, n);

  for (int k = h->first[polygon]; k < h->first[polygon + 1]; k++) {
    pbHull_Corner(view, h->around[k], x);
    if (v3_dot(x, n) <= depth + TIE * view->radius) return k - h->first[polygon];
  }
  PB_ASSERT(false);

  return 0;
}

// How far apart in depth the corners of a polygon are.
static double spread_of(const pbHullView *view, int polygon, const double n[3]) {
  const pbMeshHull *h = view->hull;
  double least = INFINITY, most = -INFINITY;

  for (int k = h->first[polygon]; k < h->first[polygon + 1]; k++) {
    double x[3];
    pbHull_Corner(view, h->around[k], x);
    least = fmin(least, v3_dot(x, n));
    most = fmax(most, v3_dot(x, n));
  }

  return most - least;
}

// Four corners of a polygon: twice their area, and how far their mean is from where the center of the mesh stands.
typedef struct quadrilateral {
  int k[4];
  double area, offset;
} quadrilateral;

static void measure(const pbHullView *view, const int *around, const double n[3], quadrilateral *q) {
  double x[4][3], u[3], v[3], mean[3] = {0};
  for (int i = 0; i < 4; i++) {
    pbHull_Corner(view, around[q->k[i]], x[i]);
    v3_addscl(mean, x[i], 0.25);
  }

  // By the diagonals.
  v3_sub(u, x[0], x[2]);
  v3_sub(v, x[1], x[3]);
  v3_cross(u, u, v);
  q->area = v3_norm(u);

  v3_addscl(mean, n, -v3_dot(mean, n));
  q->offset = v3_norm(mean);
}

// Moves one corner towards the next one if the area grows, or loses no more than a share of it.
static bool grow(const pbHullView *view, const int *around, int count, const double n[3], int which, double share,
                 quadrilateral *q) {
  quadrilateral moved = *q;
  moved.k[which] = (moved.k[which] + 1) % count;
  if (moved.k[which] == moved.k[(which + 1) % 4]) return false;

  measure(view, around, n, &moved);
  if (!(moved.area > q->area * (1 - share))) return false;
  *q = moved;

  return true;
}

// Moves one corner by one if the area stays and the mean comes nearer to the center.
static bool settle(const pbHullView *view, const int *around, int count, const double n[3], quadrilateral *q) {
  for (int move = 0; move < 6; move++) {
    quadrilateral moved = *q;
    int which = 1 + move / 2, next = (moved.k[which] + (move % 2 ? count - 1 : 1)) % count;
    if (next == moved.k[which - 1] || next == moved.k[(which + 1) % 4]) continue;

    moved.k[which] = next;
    measure(view, around, n, &moved);
    if (!(moved.area >= q->area * (1 - FLAT) && moved.offset < q->offset - FLAT * view->radius)) continue;
    *q = moved;
    return true;
  }

  return false;
}

// From the deepest corner on, the others grow away from it, the last one first. Of a regular polygon many areas are the same up
// to what single precision can tell, and rounding says where the growth stops. That is MuJoCo's choice for a tilted one. One that
// lies on the plane takes the largest area, and of equal ones the one in balance: it comes to rest, all equally deep.
static void spread_out(const pbHullView *view, int polygon, const double n[3], bool rests, quadrilateral *q) {
  const pbMeshHull *h = view->hull;
  const int *around = h->around + h->first[polygon], count = h->first[polygon + 1] - h->first[polygon];
  double share = rests ? FLAT : 0;

  measure(view, around, n, q);
  while (grow(view, around, count, n, 3, share, q)) {
    while (grow(view, around, count, n, 2, share, q)) continue;
    while (grow(view, around, count, n, 1, share, q)) continue;
  }
  while (rests && settle(view, around, count, n, q)) continue;
}

// All corners, or four of many, seen along the polygon's own normal: the same ones however it is tilted.
static int corners_at_rest(const pbHullView *view, int polygon, int *corner) {
  const pbMeshHull *h = view->hull;
  const int *around = h->around + h->first[polygon], count = h->first[polygon + 1] - h->first[polygon];
  quadrilateral q = {.k = {0, 1, 2, 3}};
  double normal[3];

  // Few enough.
  if (count <= PB_HULL_ON_PLANE) {
    memcpy(corner, around, (size_t)count * sizeof *corner);
    return count;
  }

  // Of many a balanced quadrilateral.
  pbHull_Normal(view, polygon, normal);
  spread_out(view, polygon, normal, true, &q);
  for (int i = 0; i < 4; i++) corner[i] = around[q.k[i]];
  return 4;
}

int pbHull_OnPlane(const pbHullView *view, const double n[3], int corner[PB_HULL_ON_PLANE]) {
  const pbMeshHull *h = view->hull;
  double down[3];
  v3_neg(down, n);
  corner[0] = pbHull_Support(view, down);
  int polygon = facing_polygon(view, corner[0], n);
  if (polygon < 0) return 1;

  // Lying flat it stands on the same corners whatever rounding and small tilts say.
  int count = h->first[polygon + 1] - h->first[polygon];
  double spread = spread_of(view, polygon, n);
  if (count > 4 && spread <= RESTS * view->radius) return corners_at_rest(view, polygon, corner);

  // As MuJoCo has them.
  int start = spread <= FLAT * view->radius ? 0 : deepest_of(view, polygon, n, corner[0]);
  quadrilateral q = {.k = {start, (start + 1) % count, (start + 2) % count, (start + 3) % count}};
  PB_ASSERT(count >= 3);
  if (count > 4) spread_out(view, polygon, n, false, &q);

  int used = count < 4 ? count : 4;
  for (int i = 0; i < used; i++) corner[i] = h->around[h->first[polygon] + q.k[i]];
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

  // How far the origin is beyond each corner along ab and along ac, and the areas that it makes with each edge, negative where it
  // is beyond that edge.
  double a_ab = -v3_dot(ab, A), a_ac = -v3_dot(ac, A), b_ab = -v3_dot(ab, B), b_ac = -v3_dot(ac, B), c_ab = -v3_dot(ab, C);
  double c_ac = -v3_dot(ac, C);
  double area_bc = b_ab * c_ac - c_ab * b_ac, area_ac = c_ab * a_ac - a_ab * c_ac, area_ab = a_ab * b_ac - b_ab * a_ac;

  // Beyond an edge and between its ends, the nearest point is on it, or on the other edge there.
  if (area_ab <= 0 && a_ab >= 0 && b_ab <= 0) reduce_segment(s, a, b);
  else if (area_ac <= 0 && a_ac >= 0 && c_ac <= 0) reduce_segment(s, a, c);
  else if (area_bc <= 0 && b_ac >= b_ab && c_ab >= c_ac) reduce_segment(s, b, c);
  // Beyond both edges of a corner, that corner.
  else if (a_ab <= 0 && a_ac <= 0) reduce_segment(s, a, a);
  else if (b_ab >= 0 && b_ac <= b_ab) reduce_segment(s, b, b);
  else if (c_ac >= 0 && c_ab <= c_ac) reduce_segment(s, c, c);
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

static void add_corner(const pbHullView *view, const double point[3], int corner, simplex *s) {
  pbHull_Corner(view, corner, s->x[s->count]);
  v3_subfrom(s->x[s->count], point);
  s->corner[s->count++] = corner;
}

static bool holds(const simplex *s, int corner) {
  for (int i = 0; i < s->count; i++) {
    if (s->corner[i] == corner) return true;
  }
  return false;
}

// The triangle whose plane is nearest from inside.
static pbHullNearest nearest_plane(const pbHullView *view, const double point[3]) {
  const pbMeshHull *h = view->hull;
  pbHullNearest out = {.count = 3, .inside = true};
  double most = -INFINITY;

  for (int t = 0; t < h->triangles; t++) {
    const int *v = h->triangle + 3 * t;
    double a[3], b[3], c[3], normal[3];

    pbHull_Corner(view, v[0], a);
    pbHull_Corner(view, v[1], b);
    pbHull_Corner(view, v[2], c);
    v3_subfrom(b, a);
    v3_subfrom(c, a);
    v3_subfrom(a, point);
    v3_cross(normal, b, c);

    // Slivers have no direction.
    double length = v3_norm(normal), height = -v3_dot(a, normal) / length;
    if (!(length > EXACT * view->radius * view->radius && height > most)) continue;

    most = height;
    memcpy(out.corner, v, sizeof out.corner);
  }
  return out;
}

// Is the corner one of the polygon's, and which?
static int place_around(const pbMeshHull *h, int polygon, int corner) {
  for (int k = h->first[polygon]; k < h->first[polygon + 1]; k++) {
    if (h->around[k] == corner) return k - h->first[polygon];
  }
  return -1;
}

// Of an edge: does it run across the polygon, as those between its triangles do, and not along its border?
static bool runs_across(const pbMeshHull *h, int polygon, const int corner[2]) {
  int count = h->first[polygon + 1] - h->first[polygon];
  int a = place_around(h, polygon, corner[0]), b = place_around(h, polygon, corner[1]);
  return a >= 0 && b >= 0 && (a + 1) % count != b && (b + 1) % count != a;
}

// The polygon that a corner or an edge nearest to a point is a part of: one that it is inside of, or that the point is straight
// over but for rounding. toward: from what is nearest to the point, a unit vector; angle: what is rounding of it. -1: none.
static int polygon_under(const pbHullView *view, const simplex *s, const double toward[3], double angle) {
  const pbMeshHull *h = view->hull;
  int best = -1, begin = h->first_face[s->corner[0]], end = h->first_face[s->corner[0] + 1];
  bool edge = s->count == 2, inside = begin == end || (edge && h->first_face[s->corner[1]] == h->first_face[s->corner[1] + 1]);
  double nearest = inside ? INFINITY : angle;

  // A corner inside of a polygon is none of its own: of all.
  for (int k = inside ? 0 : begin; k < (inside ? h->polygons : end); k++) {
    int polygon = inside ? k : h->face[k];
    double normal[3], beside[3];
    if (edge && runs_across(h, polygon, s->corner)) return polygon;

    // Straight over it.
    pbHull_Normal(view, polygon, normal);
    v3_sub(beside, normal, toward);
    if (!(v3_norm(beside) <= nearest)) continue;
    nearest = v3_norm(beside);
    best = polygon;
  }
  return best;
}

// Three corners of the polygon instead.
static void widen(const pbHullView *view, const simplex *s, double rounding, pbHullNearest *out) {
  const pbMeshHull *h = view->hull;
  double toward[3], length = v3_norm(s->nearest);
  if (s->count > 2 || !(length > 0)) return;

  v3_scale(toward, s->nearest, -1 / length);
  int polygon = polygon_under(view, s, toward, rounding / length);
  if (polygon < 0) return;

  // Spread around it.
  int sides = h->first[polygon + 1] - h->first[polygon];
  out->count = 3;
  for (int k = 0; k < 3; k++) out->corner[k] = h->around[h->first[polygon] + k * sides / 3];
}

pbHullNearest pbHull_Nearest(const pbHullView *view, const double point[3], double rounding) {
  double toward[3], scale = view->radius + v3_norm(point);
  simplex s = {0};

  // Begin with the furthest on the point's side.
  add_corner(view, point, pbHull_Support(view, point), &s);
  v3_copy(s.nearest, s.x[0]);

  for (int round = 0; round < MOST_ROUNDS; round++) {
    double length = v3_norm(s.nearest);
    if (!(length > EXACT * scale)) return nearest_plane(view, point);

    // The corner that is furthest towards the point: is there one nearer than what is known?
    v3_neg(toward, s.nearest);
    simplex before = s;
    int corner = pbHull_Support(view, toward);
    if (holds(&s, corner)) break;

    add_corner(view, point, corner, &s);
    double gain = length * length - v3_dot(s.nearest, s.x[s.count - 1]);
    if (gain > EXACT * length * scale && !reduce(&s)) return nearest_plane(view, point);
    if (gain > EXACT * length * scale && v3_norm(s.nearest) < length) continue;

    s = before;
    break;
  }

  pbHullNearest out = {.count = s.count};
  memcpy(out.corner, s.corner, (size_t)s.count * sizeof *s.corner);
  widen(view, &s, rounding, &out);
  return out;
}

#else
typedef int hull_search_is_for_doubles;
#endif
