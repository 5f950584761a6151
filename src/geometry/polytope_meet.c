// Where a polytope and a cylinder meet, of what lies flat on each other to rounding: what stands for it may be beside the other
// shape, a corner of an edge that is level with the cap but beyond its rim, or the rim's lowest point, or a line's lower end,
// beyond a side of the face. Then another point that is as deep. The same of two faces that touch along their sides. In the
// number type; all decisions look at real parts.
// Tests: tests/unit/test_polytope.c, tests/unit/test_poses.c, tests/oracle/test_polytopes.py.
#include "base/assert.h"
#include "geometry/convex.h"
#include "geometry/polytope_contact.h"

#define INSIDE 1e-10  // of the scale: how far outside of a shape a point may be
#define BESIDE 1e-9   // of the scale: sides of faces that touch
#define HARDLY 1e-6   // of the scale: how much less deep the point of a tilted line is where the line enters the face

typedef NUM(pbTouch) contact_pair;

// Is the point of the cylinder across from `on`, a point of the polytope, in the cylinder?
static bool faces_cylinder(const contact_pair *p, const num u[3], const num on[3], num dist) {
  const NUM(pbShape) *s = p->shape[!p->found->round.body];
  num d[3], local[3];
  v3_sub(d, on, s->pos);
  v3_addscl(d, u, dist);
  m3_tmulv(local, s->mat, d);

  double x = re(local[0]), y = re(local[1]), slack = INSIDE * p->found->scale;
  return sqrt(x * x + y * y) <= re(s->size[0]) + slack && fabs(re(local[2])) <= re(s->size[1]) + slack;
}

// `on` instead of the deepest point if it is as deep; distances closer than 3 ties are one.
static bool take(contact_pair *p, double tie, const num u[3], const num on[3]) {
  num top[3], x[3];
  NUM(pbPolytope_RoundPoint)(p, u, top);
  v3_sub(x, top, on);
  num dist = v3_dot(u, x);
  if (!(re(dist) <= re(p->dist) + 3 * tie)) return false;

  p->dist = dist;
  p->deepest_shape = p->found->round.body;
  v3_copy(p->deepest, on);
  return true;
}

// Of the edges at the deepest corner that are level with it the point next to the cylinder's center.
static bool meet_edges(contact_pair *p, double tie, const num u[3]) {
  const pbRound *r = &p->found->round;
  const NUM(pbShape) *body = p->shape[r->body];
  int first = body->hull ? body->hull->first_next[r->id[0]] : 0, count = 3;
  num end[2][3], on[3], x[3];
  if (body->hull) count = body->hull->first_next[r->id[0] + 1] - first;
  NUM(pbPolytope_Corner)(body, r->id[0], end[0]);

  for (int k = 0; k < count; k++) {
    NUM(pbPolytope_Corner)(body, body->hull ? body->hull->next[first + k] : r->id[0] ^ (1 << k), end[1]);
    v3_sub(x, end[1], end[0]);
    if (!(fabs(re(v3_dot(u, x))) <= 3 * tie)) continue;
    nearest_on_polygon(u, 2, end, p->shape[!r->body]->pos, on);
    if (faces_cylinder(p, u, on, p->dist) && take(p, tie, u, on)) return true;
  }
  return false;
}

// From the point `to` of a face back toward the point `from`, next to the cylinder's center, until the rim is reached.
static bool draw_in(const contact_pair *p, const num from[3], num to[3]) {
  const NUM(pbShape) *s = p->shape[!p->found->round.body];
  num axis[3], x[3], e[3], step[3], radius = s->size[0];
  m3_col(axis, s->mat, 2);
  v3_sub(step, to, from);
  v3_sub(x, from, s->pos);
  v3_addscl(x, axis, -v3_dot(x, axis));
  v3_along(e, step, axis, -v3_dot(step, axis));

  // |x + t e| = radius
  num a = v3_dot(e, e), b = v3_dot(e, x), c = v3_dot(x, x) - radius * radius, root = b * b - a * c;
  if (!(re(a) > 0 && re(c) < 0)) return false;
  v3_along(to, from, step, num_div(num_sqrt(root) - b, a));
  return true;
}

// Of what was found over the face the deepest point, where that is as deep but for `slack`: as the faces are plane, since of
// corners in single precision the piece that a tilted line would rest on may be a diagonal, which is no edge, and the minimum
// is that of the face but for rounding.
static bool take_lowest(contact_pair *p, const NUM(pbManifold) *m, double slack) {
  int low = 0;
  if (!m->count) return false;

  for (int k = 1; k < m->count; k++) low = re(m->dist[k]) < re(m->dist[low]) ? k : low;
  if (!(re(m->dist[low]) <= re(p->dist) + slack)) return false;
  p->dist = m->dist[low];
  p->deepest_shape = !m->ref;
  v3_copy(p->deepest, m->point[low]);
  return true;
}

// The rim's lowest point beyond a face: instead the point of the face next to it that is under the cylinder, if that is as deep.
static bool meet_face(contact_pair *p, const NUM(pbManifold) *m, const num u[3], int sides, const num (*corner)[3]) {
  num on[3], middle[3], x[3];
  double slack = INSIDE * p->found->scale;
  nearest_on_polygon(p->n, sides, corner, p->deepest, on);
  v3_sub(x, p->deepest, on);
  v3_addscl(x, p->n, -v3_dot(x, p->n));
  if (!(re(v3_dot(x, x)) > slack * slack)) return false;

  if (!faces_cylinder(p, u, on, p->dist)) {
    nearest_on_polygon(p->n, sides, corner, p->shape[!p->found->round.body]->pos, middle);
    if (!draw_in(p, middle, on) || !faces_cylinder(p, u, on, p->dist))
      return m->ref == p->found->round.body && take_lowest(p, m, HARDLY * p->found->scale);
  }
  p->deepest_shape = p->found->round.body;
  v3_copy(p->deepest, on);
  return true;
}

void NUM(pbPolytope_MeetCylinder)(contact_pair *p, const NUM(pbManifold) *m, int sides, const num (*corner)[3]) {
  const pbRound *r = &p->found->round;
  const NUM(pbShape) *round = p->shape[!r->body];
  bool carried = r->kind == pb_roundCap || r->kind == pb_roundSide;
  num on[3], u[3];
  PB_ASSERT(round->type == pb_geomCylinder && sides <= PB_POLYGON_SIDES);
  v3_scale(u, p->n, r->body ? -1 : 1);

  // A corner that is not under the cylinder; alone on an edge or a face there is more than that corner.
  bool beside = carried && !faces_cylinder(p, u, p->deepest, p->dist);
  if (beside && (meet_edges(p, m->tie, u) || take_lowest(p, m, 3 * m->tie))) return;
  if (sides < 2) return;

  if (r->kind == pb_roundFace && meet_face(p, m, u, sides, corner)) return;

  // Any point of the face that is as deep, and next to the cylinder's center.
  bool flat = carried || (r->kind != pb_roundCross && support_is_flat(round->type, r->sign));
  if (m->count || !flat) return;
  nearest_on_polygon(p->n, sides, corner, round->pos, on);
  take(p, m->tie, u, on);
}

void NUM(pbPolytope_MeetFaces)(contact_pair *p, const int sides[2], const num (*corner)[PB_POLYGON_SIDES][3]) {
  double least = BESIDE * p->found->scale;
  int found[2] = {-1, -1}, id[PB_POLYGON_SIDES];
  least *= least;

  // Of the corners of both the one that is over the other face, or next to it.
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < sides[k]; i++) {
      num on[3], x[3];
      nearest_on_polygon(p->n, sides[!k], corner[!k], corner[k][i], on);
      v3_sub(x, corner[k][i], on);
      v3_addscl(x, p->n, -v3_dot(x, p->n));
      if (!(re(v3_dot(x, x)) < least)) continue;
      least = re(v3_dot(x, x));
      found[0] = k;
      found[1] = i;
    }
  }
  if (found[0] < 0) return;

  p->deepest_shape = found[0];
  v3_copy(p->deepest, corner[found[0]][found[1]]);
  flat_ids(p->shape[found[0]], &p->found->flat[found[0]], id);
  p->deepest_corner = id[found[1]];
}
