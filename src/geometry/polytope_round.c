// Contacts of a polytope and a cylinder or an ellipsoid (polytope.c): the normal of what carries it, the deepest point, and the
// corners of a cylinder's flat features. In the number type; all that the search found is frozen.
// Tests: tests/unit/test_polytope.c, tests/unit/test_poses.c, tests/oracle/test_polytopes.py.
#include "base/assert.h"
#include "elementary/elementary.h"
#include "geometry/convex.h"
#include "geometry/polytope_contact.h"

enum { DISC_SIDES = 6 };
#define SIDE    1e-12  // of the scale: points this near to a side are on it
#define UPRIGHT 1e-4   // sine: a cylinder's axis that is nearer to the normal stands upright

typedef NUM(pbTouch) contact_pair;

// Of the round shape the point furthest against u, its features frozen.
void NUM(pbPolytope_RoundPoint)(const contact_pair *p, const num u[3], num out[3]) {
  const pbRound *r = &p->found->round;
  const NUM(pbShape) *s = p->shape[!r->body];
  num m[3], local[3];

  m3_tmulv(m, s->mat, u);
  v3_neg(m, m);
  core_support(s->type, s->size, m, r->sign, local);
  m3_mulv(out, s->mat, local);
  v3_addto(out, s->pos);
}

// Where u solves tangent . (corner - point(u)) = 0: one Newton step from the real solution with the real Hessian, whose imaginary
// part is the derivative of the implicit function. edge: u stays at right angles to it; NULL: of all directions.
static void step_to_stationary(const contact_pair *p, const num corner[3], const num *edge, num u[3]) {
  const pbRound *r = &p->found->round;
  num t[2][3], x[3], point[3], g[2] = {0, 0};

  // Tangents as the search had them; that along a circle moves with the edge.
  for (int i = 0; i < 3; i++) {
    t[0][i] = r->tangent[0][i];
    t[1][i] = r->tangent[1][i];
  }
  if (edge) {
    v3_addscl(u, edge, -v3_dot(u, edge));
    v3_normalize(u);
    v3_cross(t[0], edge, u);
  }

  // One step along the tangents.
  NUM(pbPolytope_RoundPoint)(p, u, point);
  v3_sub(x, corner, point);
  for (int k = 0; k < 2; k++) g[k] = v3_dot(x, t[k]);
  if (edge) {
    v3_addscl(u, t[0], -r->inverse[0] * g[0]);
  } else {
    v3_addscl(u, t[0], -(r->inverse[0] * g[0] + r->inverse[1] * g[1]));
    v3_addscl(u, t[1], -(r->inverse[1] * g[0] + r->inverse[2] * g[1]));
  }
  v3_normalize(u);
}

// An edge crosses the rim of a cylinder that lies almost flat on it: there the direction of the rim's point is rounding.
// Where the edge, moved by the distance, is as far from the axis as the rim, next to that point; or the edge's end before it.
static void cross_rim(const contact_pair *p, const num ends[2][3], const num edge[3], const num axis[3], const num point[3],
                      num out[3]) {
  const num *corner = ends[0];
  const pbRound *r = &p->found->round;
  const NUM(pbShape) *round = p->shape[!r->body];
  num x[3], e[3], d[3], radius = round->size[0];

  // Across the axis.
  v3_sub(x, corner, round->pos);
  v3_addscl(x, p->n, r->body ? -p->dist : p->dist);
  v3_addscl(x, axis, -v3_dot(x, axis));
  v3_along(e, edge, axis, -v3_dot(edge, axis));
  num a = v3_dot(e, e), b = v3_dot(e, x), root = b * b - a * (v3_dot(x, x) - radius * radius);
  root = re(root) > 0 ? num_sqrt(root) : 0;

  // Of both crossings the nearer one.
  v3_sub(d, point, corner);
  num along = v3_dot(d, edge), low = num_div(-b - root, a), high = num_div(-b + root, a);
  num at = fabs(re(along) - re(low)) < fabs(re(along) - re(high)) ? low : high;

  v3_sub(d, ends[1], corner);
  v3_along(out, corner, edge, at);
  if (re(at) < 0 || re(at) > re(v3_dot(d, edge))) v3_copy(out, ends[re(at) > 0]);
}

// The same of a rim beside the face that carries it: where it crosses the face's side.
static void stay_on_face(contact_pair *p, const num axis[3]) {
  int body = p->found->round.body, id[PB_POLYGON_SIDES], sides = flat_ids(p->shape[body], &p->found->flat[body], id);
  num corner[PB_POLYGON_SIDES + 1][3], edge[3];
  for (int k = 0; k < sides; k++) NUM(pbPolytope_Corner)(p->shape[body], id[k], corner[k]);
  int side = side_beyond(sides, corner, SIDE * p->found->scale, p->deepest);
  if (side < 0) return;

  v3_copy(corner[sides], corner[0]);
  v3_sub(edge, corner[side + 1], corner[side]);
  v3_normalize(edge);
  cross_rim(p, corner + side, edge, axis, p->deepest, p->deepest);
  p->deepest_shape = body;
}

// The normal of what carries it (pbRoundKind), the distance, and the deepest point.
void NUM(pbPolytope_SetRound)(contact_pair *p) {
  const pbRound *r = &p->found->round;
  const NUM(pbShape) *other = p->shape[!r->body];
  num corner[3][3], u[3], edge[3], axis[3], point[3], x[3];

  for (int k = 0; k < 3; k++) NUM(pbPolytope_Corner)(p->shape[r->body], r->id[k], corner[k]);
  for (int i = 0; i < 3; i++) u[i] = r->u[i];
  v3_sub(edge, corner[1], corner[0]);
  m3_col(axis, other->mat, 2);

  // As the enumeration says.
  switch (r->kind) {
    case pb_roundFace:
      v3_sub(x, corner[2], corner[0]);
      v3_cross(u, edge, x);
      break;
    case pb_roundCap: v3_copy(u, axis); break;
    case pb_roundSide:
      v3_sub(u, corner[0], other->pos);
      v3_addscl(u, axis, -v3_dot(u, axis));
      break;
    case pb_roundCross: v3_cross(u, edge, axis); break;
    case pb_roundCircle:
      v3_normalize(edge);
      step_to_stationary(p, corner[0], edge, u);
      break;
    case pb_roundSphere: step_to_stationary(p, corner[0], NULL, u); break;
    case pb_roundFixed: break;
  }
  v3_normalize(u);
  if (re(u[0]) * r->u[0] + re(u[1]) * r->u[1] + re(u[2]) * r->u[2] < 0) v3_neg(u, u);

  NUM(pbPolytope_RoundPoint)(p, u, point);
  v3_sub(x, point, corner[0]);
  p->dist = v3_dot(u, x);
  v3_scale(p->n, u, r->body ? -1 : 1);

  // The point that is alone: of the round shape on a face or an edge of the other.
  bool on_other = r->kind == pb_roundFace || r->kind == pb_roundCircle;
  p->deepest_shape = on_other ? !r->body : r->body;
  v3_copy(p->deepest, on_other ? point : corner[0]);
  double sine2 = 1 - re(v3_dot(u, axis)) * re(v3_dot(u, axis));
  bool upright = other->type == pb_geomCylinder && sine2 < UPRIGHT * UPRIGHT;
  if (upright && r->kind == pb_roundFace) stay_on_face(p, axis);
  if (upright && r->kind == pb_roundCircle) {
    p->deepest_shape = r->body;
    cross_rim(p, corner, edge, axis, point, p->deepest);
  }
  if (r->kind == pb_roundCross) {
    num ends[2][3], along[2][3];
    for (int k = 0; k < 2; k++) {
      v3_copy(ends[k], corner[k]);
      v3_along(along[k], other->pos, axis, k ? 1 : -1);
    }
    lines_crossing(p->n, ends, along, p->deepest);
  }
}

// The cap of a cylinder that looks along u as a hexagon fixed in it, counterclockwise from outside, or the line of its side.
int NUM(pbPolytope_RoundCorners)(const NUM(pbShape) *s, const num u[3], num (*out)[3]) {
  num axis[3], x[3], y[3], center[3];

  if (s->type != pb_geomCylinder) return 0;
  m3_col(axis, s->mat, 2);
  num cosine = v3_dot(axis, u);
  if (fabs(re(cosine)) > PB_ALIGNED) {
    double side = re(cosine) > 0 ? 1 : -1;
    m3_col(x, s->mat, 0);
    m3_col(y, s->mat, 1);
    v3_along(center, s->pos, axis, side * s->size[1]);
    for (int k = 0; k < DISC_SIDES; k++) {
      double angle = k * (2 * PB_PI / DISC_SIDES);
      v3_along(out[k], center, x, s->size[0] * pbCos(angle));
      v3_addscl(out[k], y, side * s->size[0] * pbSin(angle));
    }
    return DISC_SIDES;
  }
  if (!(fabs(re(cosine)) < PB_LEVEL)) return 0;

  // Straight out from the axis.

  v3_along(x, u, axis, -cosine);
  v3_normalize(x);
  v3_along(center, s->pos, x, s->size[0]);
  v3_along(out[0], center, axis, -s->size[1]);
  v3_along(out[1], center, axis, s->size[1]);

  return 2;
}
