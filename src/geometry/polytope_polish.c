// Polytope against cylinder or ellipsoid: from a normal that is nearly the deepest one to the minimum of sigma next to it
// (polytope.h). Its neighborhood is made of pieces: faces of the polytope, circles at right angles to its edges, directions that
// one corner supports; and where the cylinder is straight, its axis, directions across it. The minima of all pieces at a corner
// are candidates, Newton's method gives those that are curved; the lowest is taken, and again from there. In doubles.
// Tests: tests/unit/test_polytope.c, tests/unit/test_poses.c, tests/oracle/test_polytopes.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "elementary/elementary.h"
#include "geometry/convex_probe.h"
#include "geometry/polytope.h"

enum { NEWTON_STEPS = 15, HALVINGS = 6, ARC_HALVINGS = 54, ROUNDS = 40, TOWARD = 9 };
#define NEAR     0.9    // cosine: candidates further away are none
#define BELOW    1e-14  // of the scale: what counts as lower
#define WINS     1e-9   // of the scale: how much higher than the start a piece's minimum may be
#define UNEVEN   1e-7   // of the scale: the same where nothing else carries the normal
#define LOWER    1e-10  // of the scale: what is worth another round at the same corner
#define FLATS    1e-9   // of the scale: curvature below it is none
#define THIN     1e-9   // sine of the angle of corners that make no plane
#define PASSES   0.05   // sine: edges this nearly across a cylinder's axis have circles that pass it closely
#define ARC_FROM 1e-13  // radians: of a walk along such a circle
#define ARC_TO   0.5
#define END_FROM 1e-6      // radians: beside where an edge crosses the axis
#define ACROSS   0.999999  // cosine: of normals that count as that of a face
#define LYING    1e-3      // sine: a cylinder's axis that is nearer to a face's plane lies on it
#define BESIDE   1e-12     // of the scale: what counts as beyond a side

typedef struct polishing {
  pbPolytopePair *pair;
  const pbSupport *body, *other;
  double center[3], axis[3];  // of the round shape, from the body's
  double best, slack, start[3];
  pbRound *out;
} polishing;

static void corner_at(const polishing *p, int id, double out[3]) {
  const pbSupport *s = p->body;
  m3_mulv(out, s->mat, (s->hull ? s->hull->corner : s->own) + 3 * id);
}

// The round shape's point furthest against u, and the direction -u in its frame.
static void round_point(const polishing *p, const double u[3], double m[3], double out[3]) {
  double local[3];
  signed char sign[3];

  m3_tmulv(m, p->other->mat, u);
  v3_neg(m, m);
  pick_signs(p->other->type, m, 0, sign);
  core_support(p->other->type, p->other->size, m, sign, local);
  m3_mulv(out, p->other->mat, local);
  v3_addto(out, p->center);
}

static double sigma_at(const polishing *p, const double u[3]) {
  double n[3];
  v3_scale(n, u, p->out->body ? -1 : 1);
  return pbPolytope_Sigma(p->pair, n);
}

// Is the corner that a piece hangs on the one that supports u? What is straight may have the direction of a minimum that another
// corner is at. Of a face, whose corners may be uneven, to single precision.
static bool is_support(const polishing *p, const double u[3], pbRoundKind kind, int id, double value) {
  double corner[3], point[3], m[3], x[3];
  corner_at(p, id, corner);
  round_point(p, u, m, point);
  v3_sub(x, corner, point);
  return value - v3_dot(u, x) <= (kind == pb_roundFace ? UNEVEN : p->slack) * p->pair->scale;
}

static bool offer_round(polishing *p, const double u[3], pbRoundKind kind, int a, int b, int c) {
  if (!(v3_dot(u, p->start) > NEAR)) return false;

  // The full sigma: a piece's own value counts only where its corner is the support.
  double value = sigma_at(p, u);
  if (!(value < p->best - BELOW * p->pair->scale)) return false;
  if (!is_support(p, u, kind, a, value)) return false;
  p->best = value;
  p->out->kind = kind;
  p->out->id[0] = a;
  p->out->id[1] = b;
  p->out->id[2] = c;
  v3_copy(p->out->u, u);

  return true;
}

// ---- curved pieces -----------------------------------------------------------------------------------------------------
// sigma's part of a corner: f(u) = u . (corner - point(u)), with its gradient x = corner - point and second derivatives.
typedef struct piece {
  double value, x[3], m[3];
} piece;

static void piece_at(const polishing *p, const double corner[3], const double u[3], piece *f) {
  double point[3];
  round_point(p, u, f->m, point);
  v3_sub(f->x, corner, point);
  f->value = v3_dot(u, f->x);
}

static double piece_curvature(const polishing *p, const piece *f, const double a[3], const double b[3]) {
  double la[3], lb[3];
  m3_tmulv(la, p->other->mat, a);
  m3_tmulv(lb, p->other->mat, b);
  if (p->other->type == pb_geomEllipsoid) return ellipsoid_curvature(p->other->size, f->m, la, lb);
  return circle_curvature(p->other->size[0], f->m, la, lb);
}

// Gradient and Hessian along up to two tangents at u.
static void slopes(const polishing *p, const piece *f, int tangents, double t[2][3], double g[2], double h[3]) {
  g[1] = h[1] = 0;
  h[2] = 1;
  g[0] = v3_dot(f->x, t[0]);
  h[0] = piece_curvature(p, f, t[0], t[0]) - f->value;
  if (tangents == 1) return;
  g[1] = v3_dot(f->x, t[1]);
  h[1] = piece_curvature(p, f, t[0], t[1]);
  h[2] = piece_curvature(p, f, t[1], t[1]) - f->value;
}

// Tangents: both across u, or the one that is at right angles to an edge, too.
static int make_tangents(const double u[3], const double *edge, double t[2][3]) {
  if (edge) {
    v3_cross(t[0], edge, u);
    v3_normalize(t[0]);
    return 1;
  }

  double e[3] = {0, 0, 0};
  int least = 0;
  for (int i = 1; i < 3; i++) least = fabs(u[i]) < fabs(u[least]) ? i : least;
  e[least] = 1;
  v3_cross(t[0], u, e);
  v3_normalize(t[0]);
  v3_cross(t[1], u, t[0]);

  return 2;
}

// Newton's step, or downhill where sigma is not convex; at most a fifth of a radian.
static void newton_step(const double g[2], const double h[3], double floor, double step[2]) {
  double det = h[0] * h[2] - h[1] * h[1];

  if (h[0] > floor && det > floor * fabs(h[2])) {
    step[0] = -(h[2] * g[0] - h[1] * g[1]) / det;
    step[1] = -(h[0] * g[1] - h[1] * g[0]) / det;
  } else {
    double size = fabs(h[0]) + fabs(h[1]) + fabs(h[2]) + floor;
    step[0] = -g[0] / size;
    step[1] = -g[1] / size;
  }
  double length = sqrt(step[0] * step[0] + step[1] * step[1]);
  if (!(length > 0.2)) return;
  for (int k = 0; k < 2; k++) step[k] *= 0.2 / length;
}

// To the rounding of a unit vector, where sigma is sharply bent.
static bool is_stationary(const double g[2], const double h[3], double scale) {
  return fabs(g[0]) < 1e-12 * scale + 1e-15 * h[0] && fabs(g[1]) < 1e-12 * scale + 1e-15 * h[2];
}

// Along an edge's circle from a toward b, f by the angle: its slope.
static double arc_slope(const polishing *p, const double corner[3], const double a[3], const double b[3], double t, double u[3]) {
  double along[3], sine, cosine;
  piece f;
  pbSinCos(t, &sine, &cosine);
  for (int i = 0; i < 3; i++) {
    u[i] = cosine * a[i] + sine * b[i];
    along[i] = cosine * b[i] - sine * a[i];
  }
  piece_at(p, corner, u, &f);
  return v3_dot(f.x, along);
}

// The minimum of f downhill from u on a circle that passes the cylinder's axis so closely that f is bent there within less than
// Newton's steps: the slope's sign is followed outward, then halved.
static bool minimize_past_axis(const polishing *p, const double corner[3], const double edge[3], double u[3]) {
  double a[3], b[3], low = 0, high = ARC_FROM;
  v3_copy(a, u);
  v3_cross(b, edge, a);
  if (arc_slope(p, corner, a, b, 0, u) > 0) v3_neg(b, b);

  while (high < ARC_TO && arc_slope(p, corner, a, b, high, u) < 0) {
    low = high;
    high *= 4;
  }
  if (!(high < ARC_TO)) return false;

  for (int k = 0; k < ARC_HALVINGS; k++) {
    double middle = 0.5 * (low + high);
    bool falls = arc_slope(p, corner, a, b, middle, u) < 0;
    low = falls ? middle : low;
    high = falls ? high : middle;
  }
  return true;
}

// A minimum of a corner's f, and how curved. False: it is none, or its curvature none.
static bool is_minimum(const polishing *p, const double corner[3], const double *edge, const double u[3], double t[2][3],
                       double h[3]) {
  double g[2], scale = p->pair->scale;
  piece f;

  piece_at(p, corner, u, &f);
  slopes(p, &f, make_tangents(u, edge, t), t, g, h);
  double det = h[0] * h[2] - h[1] * h[1];

  return is_stationary(g, h, scale) && h[0] > FLATS * scale && det > FLATS * scale * fabs(h[2]);
}

// The minimum of a corner's f near u, of all directions or of those across an edge. False: it is none, or its curvature none.
static bool minimize_piece(const polishing *p, const double corner[3], const double *edge, double u[3], double t[2][3],
                           double h[3]) {
  double g[2], step[2], scale = p->pair->scale;
  piece f;
  int tangents = 0;

  piece_at(p, corner, u, &f);

  // Newton's method, kept downhill.
  for (int k = 0; k < NEWTON_STEPS; k++) {
    tangents = make_tangents(u, edge, t);
    slopes(p, &f, tangents, t, g, h);
    if (fabs(g[0]) + fabs(g[1]) < 1e-16 * scale) break;
    newton_step(g, h, FLATS * scale, step);

    // Shortened until it lowers sigma.
    bool lower = false;
    for (int half = 0; half < HALVINGS && !lower; half++, step[0] *= 0.5, step[1] *= 0.5) {
      double trial[3];
      piece next;
      for (int i = 0; i < 3; i++) trial[i] = u[i] + step[0] * t[0][i] + (tangents == 2 ? step[1] * t[1][i] : 0);
      v3_normalize(trial);
      piece_at(p, corner, trial, &next);

      // Level to rounding: the slope decides.
      double t2[2][3], g2[2], h2[3];
      slopes(p, &next, make_tangents(trial, edge, t2), t2, g2, h2);
      lower = next.value < f.value - 1e-15 * scale ||
              (next.value < f.value + 1e-15 * scale && g2[0] * g2[0] + g2[1] * g2[1] < g[0] * g[0] + g[1] * g[1]);
      if (!lower) continue;
      v3_copy(u, trial);
      f = next;
    }
    if (!lower) break;
    if (v3_dot(u, p->start) < NEAR) return false;
  }

  return is_minimum(p, corner, edge, u, t, h);
}

// From a corner beside and beyond a cap to the rim; else u stays.
static void toward_rim(const polishing *p, const double corner[3], double u[3]) {
  double x[3], along[3], radial[3];
  v3_sub(x, corner, p->center);
  double height = v3_dot(x, p->axis), beyond = fabs(height) - p->other->size[1];
  v3_scale(along, p->axis, height > 0 ? 1 : -1);
  v3_along(radial, x, p->axis, -height);
  double aside = v3_normalize(radial) - p->other->size[0];
  if (!(beyond > 0 && aside > 0)) return;

  for (int i = 0; i < 3; i++) u[i] = -(beyond * along[i] + aside * radial[i]);
  v3_normalize(u);
}

static void try_corner(polishing *p, int id) {
  double corner[3], u[3], t[2][3], h[3];

  corner_at(p, id, corner);
  v3_copy(u, p->start);
  if (p->other->type == pb_geomCylinder) toward_rim(p, corner, u);
  if (!minimize_piece(p, corner, NULL, u, t, h) || !offer_round(p, u, pb_roundSphere, id, id, id)) return;

  // The inverse Hessian carries the derivative of the normal (polytope.c).
  double det = h[0] * h[2] - h[1] * h[1];
  memcpy(p->out->tangent, t, sizeof p->out->tangent);
  p->out->inverse[0] = h[2] / det;
  p->out->inverse[1] = -h[1] / det;
  p->out->inverse[2] = h[0] / det;
}

static void try_edge_circle(polishing *p, int id, int other, const double corner[3], const double edge[3]) {
  double u[3], from[3], t[2][3], h[3];
  v3_along(from, p->start, edge, -v3_dot(p->start, edge));
  if (!(v3_normalize(from) > 0.1)) return;
  v3_copy(u, from);

  if (!minimize_piece(p, corner, edge, u, t, h)) {
    bool passes = p->other->type == pb_geomCylinder && fabs(v3_dot(edge, p->axis)) < PASSES;
    if (!passes || !minimize_past_axis(p, corner, edge, from) || !is_minimum(p, corner, edge, from, t, h)) return;
    v3_copy(u, from);
  }
  if (!offer_round(p, u, pb_roundCircle, id, other, other)) return;
  p->out->inverse[0] = 1 / h[0];
}

// An edge that crosses the cylinder's axis may do so beyond the cylinder's end: on either side of where they cross one end alone
// supports the normal, and there may be a minimum.
static void try_ends(polishing *p, int id, int other, const double corner[3], const double edge[3]) {
  double cross[3], across[3], u[3], t[2][3], h[3];
  v3_copy(cross, p->out->u);
  v3_cross(across, edge, cross);
  for (int side = -1; side <= 1; side += 2) {
    v3_along(u, cross, across, side * END_FROM);
    v3_normalize(u);
    if (!minimize_piece(p, corner, edge, u, t, h) || !offer_round(p, u, pb_roundCircle, id, other, other)) continue;
    p->out->inverse[0] = 1 / h[0];
  }
}

// ---- straight pieces ---------------------------------------------------------------------------------------------------
static void offer_toward(polishing *p, double u[3], pbRoundKind kind, int a, int b, int c) {
  if (!(v3_normalize(u) > 1e-9)) return;
  if (v3_dot(u, p->start) < 0) v3_neg(u, u);
  offer_round(p, u, kind, a, b, c);
}

static void offer_plane(polishing *p, int a, int b, int c) {
  double corner[3], first[3], second[3], u[3];
  corner_at(p, a, corner);
  corner_at(p, b, first);
  corner_at(p, c, second);
  v3_subfrom(first, corner);
  v3_subfrom(second, corner);
  v3_cross(u, first, second);
  double area = v3_norm(u);
  if (!(area > THIN * v3_norm(first) * v3_norm(second))) return;
  v3_scale(u, u, 1 / area);
  offer_toward(p, u, pb_roundFace, a, b, c);
}

// Where the search ended, if it was on a face; of a hull the faces of several corners at this one, by corners far from each
// other, as the planes of neighbors may be those of slivers.
static void try_found(polishing *p, const int found[3]) {
  if (found[0] < 0 || found[0] == found[1] || found[1] == found[2] || found[2] == found[0]) return;
  offer_plane(p, found[0], found[1], found[2]);
}

static void try_polygons(polishing *p, int id) {
  const pbMeshHull *h = p->body->hull;
  if (!h) return;

  for (int k = h->first_face[id]; k < h->first_face[id + 1]; k++) {
    int f = h->face[k], sides = h->first[f + 1] - h->first[f];
    const int *around = h->around + h->first[f];
    if (sides > 3) offer_plane(p, around[0], around[sides / 3], around[2 * sides / 3]);
  }
}

// The planes of a corner and two of its neighbors: its faces are among them.
static void try_faces(polishing *p, int id, const double corner[3], const int *next, int count) {
  for (int i = 0; i < count; i++) {
    double first[3], second[3], u[3];
    corner_at(p, next[i], first);
    v3_subfrom(first, corner);
    v3_normalize(first);
    if (fabs(v3_dot(first, p->start)) > 0.5) continue;

    // With each neighbor after it.
    for (int j = i + 1; j < count; j++) {
      corner_at(p, next[j], second);
      v3_subfrom(second, corner);
      v3_normalize(second);
      v3_cross(u, first, second);
      offer_toward(p, u, pb_roundFace, id, next[i], next[j]);
    }
  }
}

static void try_at_corner(polishing *p, int id) {
  int box_next[3] = {id ^ 1, id ^ 2, id ^ 4}, count = 3;
  const int *next = box_next;
  bool cylinder = p->other->type == pb_geomCylinder;
  double corner[3], u[3], edge[3];

  corner_at(p, id, corner);
  if (p->body->hull) {
    next = p->body->hull->next + p->body->hull->first_next[id];
    count = p->body->hull->first_next[id + 1] - p->body->hull->first_next[id];
  }

  // Faces; a cylinder's cap and side.
  try_polygons(p, id);
  try_faces(p, id, corner, next, count);
  if (cylinder) {
    v3_copy(u, p->axis);
    offer_toward(p, u, pb_roundCap, id, id, id);
    v3_sub(u, corner, p->center);
    v3_addscl(u, p->axis, -v3_dot(u, p->axis));
    offer_toward(p, u, pb_roundSide, id, id, id);
  }

  // Edges.
  for (int k = 0; k < count; k++) {
    corner_at(p, next[k], edge);
    v3_subfrom(edge, corner);
    if (!(v3_normalize(edge) > 0)) continue;
    v3_cross(u, edge, p->axis);
    if (cylinder) offer_toward(p, u, pb_roundCross, id, next[k], next[k]);
    try_edge_circle(p, id, next[k], corner, edge);
    const pbRound *best = p->out;
    if (best->kind == pb_roundCross && best->id[0] == id && best->id[1] == next[k]) try_ends(p, id, next[k], corner, edge);
  }

  // A corner inside of a cylinder is nearest to a cap or the side.
  if (!cylinder || p->best < 0) try_corner(p, id);
}

// The corners of the face whose normal u is, or nearly: of a hull one at the first corner that carries u. Returns their number;
// 0: there is none.
static int face_across(const polishing *p, int box[4], const int **around) {
  const pbRound *r = p->out;
  const pbMeshHull *h = p->body->hull;
  double m[3], nearest = r->kind == pb_roundFace ? -1 : ACROSS;
  int face = -1, axis = 0;

  m3_tmulv(m, p->body->mat, r->u);
  if (!h) {
    for (int i = 1; i < 3; i++) axis = fabs(m[i]) > fabs(m[axis]) ? i : axis;
    if (!(fabs(m[axis]) >= nearest)) return 0;
    int base = m[axis] > 0 ? 1 << axis : 0, first = 1 << (axis + 1) % 3, second = 1 << (axis + 2) % 3;
    const int corner[4] = {base, base | first, base | first | second, base | second};
    memcpy(box, corner, sizeof corner);
    *around = box;
    return 4;
  }

  for (int k = h->first_face[r->id[0]]; k < h->first_face[r->id[0] + 1]; k++) {
    double cosine = v3_dot(m, h->normal + 3 * h->face[k]);
    face = cosine > nearest ? h->face[k] : face;
    nearest = fmax(nearest, cosine);
  }
  if (face < 0) return 0;
  *around = h->around + h->first[face];
  return h->first[face + 1] - h->first[face];
}

// Are the corners of a face level with its normal? A hull's polygons may be of triangles that are level but nearly.
static bool is_level(const polishing *p, int sides, const int *around) {
  double low = INFINITY, high = -INFINITY;
  for (int k = 0; k < sides; k++) {
    double corner[3];
    corner_at(p, around[k], corner);
    low = fmin(low, v3_dot(p->out->u, corner));
    high = fmax(high, v3_dot(p->out->u, corner));
  }
  return high - low <= UNEVEN * p->pair->scale;
}

// The ends of that side of a face that a point is furthest beyond; where it is beyond none they stay.
static void beyond_side(const polishing *p, int sides, const int *around, const double point[3], int end[2]) {
  double best = BESIDE * p->pair->scale;

  // Outward: away from the other corners.
  for (int k = 0; k < sides; k++) {
    double a[3], b[3], c[3], side[3];
    corner_at(p, around[k], a);
    corner_at(p, around[(k + 1) % sides], b);
    corner_at(p, around[(k + sides / 2 + 1) % sides], c);
    v3_subfrom(b, a);
    v3_subfrom(c, a);
    v3_cross(side, b, p->out->u);
    if (!(v3_normalize(side) > 0)) continue;
    v3_sub(b, point, a);
    double beyond = v3_dot(side, b) * (v3_dot(side, c) > 0 ? -1 : 1);
    if (!(beyond > best)) continue;
    best = beyond;
    end[0] = around[k];
    end[1] = around[(k + 1) % sides];
  }
}

// Of a face that lies on one side of the cylinder's axis the corner next to it; -1: the axis passes over it.
static int beside_axis(const polishing *p, int sides, const int *around) {
  double aside[3], least = INFINITY, most = -INFINITY;
  int low = -1, high = -1;

  v3_cross(aside, p->axis, p->out->u);
  for (int k = 0; k < sides; k++) {
    double corner[3];
    corner_at(p, around[k], corner);
    v3_subfrom(corner, p->center);
    double place = v3_dot(aside, corner);
    low = place < least ? around[k] : low;
    high = place > most ? around[k] : high;
    least = fmin(least, place);
    most = fmax(most, place);
  }
  if (least > 0) return low;
  return most < 0 ? high : -1;
}

// Where the normal is that of a face and what touches there of the round shape is beside the face, the minimum is not there:
// corners toward it. Of a cylinder that lies on it a line touches, of one that stands a disc.
static void toward_touching(const polishing *p, int from[TOWARD]) {
  const double *u = p->out->u;
  const int *around = NULL;
  int box[4], sides = face_across(p, box, &around);
  double m[3], point[3], end[3];
  if (!sides) return;

  round_point(p, u, m, point);
  if (p->out->kind == pb_roundCap) v3_copy(point, p->center);
  beyond_side(p, sides, around, point, from);

  // Of a polygon that is not level the triangle, too, that this is the normal of.
  if (p->out->kind == pb_roundFace && !is_level(p, sides, around)) beyond_side(p, 3, p->out->id, point, from + 7);
  if (p->other->type != pb_geomCylinder || !(fabs(v3_dot(u, p->axis)) < LYING)) return;

  from[2] = beside_axis(p, sides, around);
  for (int k = 0; k < 2; k++) {
    v3_sub(end, point, p->center);
    v3_addscl(point, p->axis, (k ? 1 : -1) * p->other->size[1] - v3_dot(end, p->axis));
    beyond_side(p, sides, around, point, from + 3 + 2 * k);
  }
}

// The corners at which there may be something lower yet: that which supports the normal, those that it hangs on, and those of the
// face that it is of. Of these the first that was not tried; -1: none.
static int next_corner(const polishing *p, int support, const int *tried, int count) {
  const pbRound *r = p->out;
  int from[4 + TOWARD] = {support};
  for (int k = 1; k < 4 + TOWARD; k++) from[k] = -1;

  // What is straight may be as deep as a face that it lies in, and end beside it as that does. Where a line lies over the face,
  // only one of its corners is.
  toward_touching(p, from + 4);
  if (r->kind != pb_roundFace || from[4] >= 0) memcpy(from + 1, r->id, sizeof r->id);

  for (int k = 0; k < 4 + TOWARD; k++) {
    bool fresh = from[k] >= 0;
    for (int j = 0; j < count; j++) fresh = fresh && tried[j] != from[k];
    if (fresh) return from[k];
  }
  return -1;
}

// From corner to corner, as long as there is one that was not tried since the last gain.
static void descend(polishing *p, const int found[3]) {
  int tried[ROUNDS], count = 0;
  double toward = p->out->body ? -1 : 1;

  for (int round = 0; round < ROUNDS; round++) {
    double n[3], before = p->best;
    pbDifference w;

    // The pieces at the corner that supports this direction.
    v3_copy(p->start, p->out->u);
    v3_scale(n, p->start, toward);
    pbPolytope_Support(p->pair, n, &w);
    int support = w.id[p->out->body];
    if (round == 0) {
      for (int k = 0; k < 3; k++) p->out->id[k] = support;
      try_found(p, found);
    }

    int corner = next_corner(p, support, tried, count);
    if (corner < 0) return;
    try_at_corner(p, corner);
    if (p->best < before - LOWER * p->pair->scale) count = 0;
    tried[count++] = corner;
  }
}

void pbPolytope_Polish(pbPolytopePair *pair, pbPolytopeNormal *out) {
  int body = pair->shape[0].corners ? 0 : 1;
  polishing p = {.pair = pair, .body = &pair->shape[body], .other = &pair->shape[!body], .out = &out->round};

  PB_ASSERT(pair->shape[body].corners && !pair->shape[!body].corners);
  out->is_round = true;
  out->round.kind = pb_roundFixed;
  out->round.body = body;
  v3_sub(p.center, p.other->pos, p.body->pos);
  m3_col(p.axis, p.other->mat, 2);
  v3_scale(out->round.u, out->n, body ? -1 : 1);
  pbDifference w;
  int found[3] = {out->id[0][body], out->id[1][body], out->id[2][body]};

  // A piece's own minimum wins against the start, which single precision of corners may leave a little deeper than any piece.
  double start = sigma_at(&p, out->round.u);
  p.slack = WINS;
  p.best = start + WINS * pair->scale;
  descend(&p, found);
  if (out->round.kind == pb_roundFixed) {
    p.slack = UNEVEN;
    p.best = start + UNEVEN * pair->scale;
    descend(&p, found);
  }

  v3_scale(out->n, out->round.u, body ? -1 : 1);
  pbPolytope_Support(pair, out->n, &w);
  out->dist = -v3_dot(out->n, w.m);

  // A cap that was found at one corner may rest on another that is as low but for rounding.
  int *id = out->round.id;
  if (out->round.kind == pb_roundCap) id[0] = id[1] = id[2] = w.id[body];

  // The features of the round shape there, which the derivative freezes.
  double m[3];
  m3_tmulv(m, p.other->mat, out->round.u);
  v3_neg(m, m);
  pick_signs(p.other->type, m, FLAT, out->round.sign);
  out->count = 0;
  out->id[0][body] = out->round.id[0];
}

#else
typedef int polytope_polish_is_for_doubles;
#endif
