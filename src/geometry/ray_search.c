// Which part of a shape's surface a ray meets first (ray.h). In doubles.
// Tests: tests/oracle/test_rays.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/primitive.h"
#include "geometry/ray.h"

// ---- flat parts -----------------------------------------------------------------------------------------------------------
static bool is_nearer(const pbRaySearch *s, double x) { return x >= 0 && x < s->x; }

static void keep(pbRaySearch *s, double x, const pbRayFeature *feature) {
  s->x = x;
  s->found = true;
  *s->feature = *feature;
}

void pbRay_Flat(pbRaySearch *s, double x, int axis, int side, double offset, int id) {
  pbRayFeature f = {.part = pb_rayFlat, .id = id, .offset = offset, .moved = -1};
  f.normal[axis] = side;
  if (is_nearer(s, x)) keep(s, x, &f);
}

// A face of the shape itself: the size of this number moves it.
static void offer_face(pbRaySearch *s, double x, int axis, int side, int moved, int id) {
  bool nearer = is_nearer(s, x);
  pbRay_Flat(s, x, axis, side, 0, id);
  if (nearer) s->feature->moved = moved;
}

// The ray passes the triangle on the same side of all three edges. What is said of an edge is exactly the opposite for the
// triangle beyond it, so that no ray slips through between them.
void pbRay_Triangle(pbRaySearch *s, const double a[3], const double b[3], const double c[3], int id) {
  double from_a[3], from_b[3], from_c[3], moment[3], ab[3], ac[3];
  v3_sub(from_a, a, s->p);
  v3_sub(from_b, b, s->p);
  v3_sub(from_c, c, s->p);
  v3_cross(moment, from_a, from_b);
  double e1 = v3_dot(moment, s->v);
  v3_cross(moment, from_b, from_c);
  double e2 = v3_dot(moment, s->v);
  v3_cross(moment, from_c, from_a);
  double e3 = v3_dot(moment, s->v);
  if (!((e1 >= 0 && e2 >= 0 && e3 >= 0) || (e1 <= 0 && e2 <= 0 && e3 <= 0))) return;

  // Where it meets the plane; of a triangle without area, or a ray along it, nowhere.
  pbRayFeature f = {.part = pb_rayFlat, .id = id, .moved = -1};
  v3_sub(ab, b, a);
  v3_sub(ac, c, a);
  v3_cross(f.normal, ab, ac);
  if (!(v3_normalize(f.normal) > 0)) return;
  double slope = v3_dot(f.normal, s->v);
  if (!(fabs(slope) > PB_TINY)) return;

  double x = v3_dot(f.normal, from_a) / slope;
  f.offset = v3_dot(f.normal, a);
  if (is_nearer(s, x)) keep(s, x, &f);
}

// Where the line meets one face of a box; -1: beside it, or behind.
static double meet_face(const double p[3], const double v[3], const double size[3], int axis, int side) {
  int j = (axis + 1) % 3, k = (axis + 2) % 3;
  double x = (side * size[axis] - p[axis]) / v[axis];
  bool within = fabs(p[j] + x * v[j]) <= size[j] && fabs(p[k] + x * v[k]) <= size[k];
  return x >= 0 && within ? x : -1;
}

bool pbRay_Box(pbRaySearch *s, const double center[3], const double size[3], int id, bool bounds, double sides[6]) {
  double p[3];
  bool met = false;
  v3_sub(p, s->p, center);

  for (int face = 0; face < 6; face++) {
    int axis = face / 2, side = face % 2 ? 1 : -1;
    double x = fabs(s->v[axis]) > PB_TINY ? meet_face(p, s->v, size, axis, side) : -1;
    if (sides) sides[face] = x;
    met = met || x >= 0;
    if (!bounds) pbRay_Flat(s, x, axis, side, side * center[axis] + size[axis], id + face);
  }
  return met;
}

static void search_box(pbRaySearch *s, const double size[3]) {
  for (int face = 0; face < 6; face++) {
    int axis = face / 2, side = face % 2 ? 1 : -1;
    if (fabs(s->v[axis]) > PB_TINY) offer_face(s, meet_face(s->p, s->v, size, axis, side), axis, side, axis, face);
  }
}

static void search_plane(pbRaySearch *s, const double size[3]) {
  if (s->v[2] > -PB_TINY) return;

  // Within the rectangle that is drawn; without bounds where a size is zero.
  double x = -s->p[2] / s->v[2];
  for (int k = 0; k < 2; k++) {
    if (size[k] > 0 && fabs(s->p[k] + x * s->v[k]) > size[k]) return;
  }
  pbRay_Flat(s, x, 2, 1, 0, 0);
}

// ---- round parts ----------------------------------------------------------------------------------------------------------
// Both solutions of a x^2 + 2 b x + c = 0, in order.
static bool solve(double a, double b, double c, double x[2]) {
  double det = b * b - a * c;
  if (!(det >= 0) || a < PB_TINY) return false;
  x[0] = (-b - sqrt(det)) / a;
  x[1] = (-b + sqrt(det)) / a;
  return true;
}

static void offer_round(pbRaySearch *s, const double x[2], bool leaves, pbRayPart part, int id, int end) {
  pbRayFeature f = {.part = part, .id = id, .leaves = leaves, .moved = -1, .end = end};
  if (is_nearer(s, x[leaves])) keep(s, x[leaves], &f);
}

static bool meet_tube(const pbRaySearch *s, double radius, double x[2]) {
  const double *p = s->p, *v = s->v;
  return solve(v[0] * v[0] + v[1] * v[1], v[0] * p[0] + v[1] * p[1], p[0] * p[0] + p[1] * p[1] - radius * radius, x);
}

// The side of a capsule or cylinder, by the first point ahead.
static void search_side(pbRaySearch *s, const double size[3], int id) {
  double x[2];
  if (!meet_tube(s, size[0], x)) return;

  bool leaves = !(x[0] >= 0);
  if (fabs(s->p[2] + x[leaves] * s->v[2]) <= size[1]) offer_round(s, x, leaves, pb_rayTube, id, 0);
}

static bool meet_ball(const pbRaySearch *s, double height, double radius, double x[2]) {
  double p[3] = {s->p[0], s->p[1], s->p[2] - height};
  return solve(v3_dot(s->v, s->v), v3_dot(s->v, p), v3_dot(p, p) - radius * radius, x);
}

static void search_capsule(pbRaySearch *s, const double size[3]) {
  double x[2];
  search_side(s, size, 0);

  // Of the balls at its ends the outer halves.
  for (int end = -1; end <= 1; end += 2) {
    if (!meet_ball(s, end * size[1], size[0], x)) continue;
    for (int k = 0; k < 2; k++) {
      if (end * (s->p[2] + x[k] * s->v[2]) >= size[1]) offer_round(s, x, k, pb_rayBall, 2 + end, end);
    }
  }
}

static void search_cylinder(pbRaySearch *s, const double size[3]) {
  for (int end = -1; end <= 1 && fabs(s->v[2]) > PB_TINY; end += 2) {
    double x = (end * size[1] - s->p[2]) / s->v[2];
    double across[2] = {s->p[0] + x * s->v[0], s->p[1] + x * s->v[1]};
    if (across[0] * across[0] + across[1] * across[1] <= size[0] * size[0]) offer_face(s, x, 2, end, 1, 2 + end);
  }
  search_side(s, size, 0);
}

static void search_sphere(pbRaySearch *s, const double size[3]) {
  double x[2];
  if (meet_ball(s, 0, size[0], x)) offer_round(s, x, !(x[0] >= 0), pb_rayBall, 0, 0);
}

static void search_ellipsoid(pbRaySearch *s, const double size[3]) {
  double a = 0, b = 0, c = -1, x[2];
  for (int k = 0; k < 3; k++) {
    double weight = 1 / (size[k] * size[k]);
    a += weight * s->v[k] * s->v[k];
    b += weight * s->v[k] * s->p[k];
    c += weight * s->p[k] * s->p[k];
  }
  if (solve(a, b, c, x)) offer_round(s, x, !(x[0] >= 0), pb_rayEllipsoid, 0, 0);
}

// ---- meshes ---------------------------------------------------------------------------------------------------------------
// Where the ray enters a box, 0 from within; infinity: never. inverse: of v; infinite where v is zero. Comparisons instead of
// fmin and fmax, which are calls.
static double enter(const pbTriangleNode *node, const double p[3], const double inverse[3]) {
  double from = 0, to = INFINITY;
  for (int k = 0; k < 3; k++) {
    double a = (node->low[k] - p[k]) * inverse[k], b = (node->high[k] - p[k]) * inverse[k];
    double first = a < b ? a : b, last = a < b ? b : a;

    // In a face of the box, along it: 0 times infinity bounds nothing.
    if (isunordered(a, b)) continue;
    from = first > from ? first : from;
    to = last < to ? last : to;
  }
  return from <= to * (1 + 1e-12) ? from : INFINITY;
}

static void search_leaf(pbRaySearch *s, const pbTriangleTree *tree, const pbTriangleNode *node) {
  for (int i = node->first; i < node->first + node->count; i++) {
    const double *corner = tree->corner + 9 * (size_t)i;
    pbRay_Triangle(s, corner, corner + 3, corner + 6, i);
  }
}

// A box that is still to be looked at, and where the ray enters it.
typedef struct waiting_node {
  int node;
  double from;
} waiting_node;

static void search_mesh(pbRaySearch *s, const pbTriangleTree *tree) {
  waiting_node waiting[PB_TRIANGLE_DEPTH + 1];
  double inverse[3];
  int count = 0;
  if (!tree->triangles) return;

  for (int k = 0; k < 3; k++) inverse[k] = 1 / s->v[k];
  waiting[count++] = (waiting_node){0, enter(tree->node, s->p, inverse)};
  while (count) {
    waiting_node next = waiting[--count];
    const pbTriangleNode *node = tree->node + next.node;
    if (!(next.from < s->x)) continue;
    if (node->count) {
      search_leaf(s, tree, node);
      continue;
    }

    // The nearer one is looked at first.
    PB_ASSERT(count + 2 <= PB_TRIANGLE_DEPTH + 1);
    double from[2];
    for (int k = 0; k < 2; k++) from[k] = enter(tree->node + node->first + k, s->p, inverse);
    int far = from[0] < from[1];
    if (from[far] < s->x) waiting[count++] = (waiting_node){node->first + far, from[far]};
    if (from[!far] < s->x) waiting[count++] = (waiting_node){node->first + !far, from[!far]};
  }
}

// ---- shapes ---------------------------------------------------------------------------------------------------------------
double pbRay_Search(const pbRayTarget *target, const double p[3], const double v[3], double most, pbRayFeature *feature) {
  pbRaySearch s = {.p = p, .v = v, .x = most, .feature = feature};
  switch (target->type) {
    case pb_geomPlane: search_plane(&s, target->size); break;
    case pb_geomHfield: pbRay_Terrain(&s, &target->terrain, target->varies); break;
    case pb_geomSphere: search_sphere(&s, target->size); break;
    case pb_geomCapsule: search_capsule(&s, target->size); break;
    case pb_geomEllipsoid: search_ellipsoid(&s, target->size); break;
    case pb_geomCylinder: search_cylinder(&s, target->size); break;
    case pb_geomBox: search_box(&s, target->size); break;
    case pb_geomMesh: search_mesh(&s, target->tree); break;
    default: break;
  }
  return s.found ? s.x : -1;
}

#else
typedef int ray_search_is_for_doubles;
#endif
