// Contacts of two convex polytopes, or of one and a round shape, from what carries their normal (polytope.h), in the number type:
// the deepest point, and where faces or edges lie flat on each other the corners of what they have in common, seen along the
// normal; each has the distance there. All that the search found is frozen.
// Tests: tests/unit/test_polytope.c, tests/unit/test_poses.c, tests/oracle/test_polytopes.py.
#include "geometry/polytope.h"

#include "base/assert.h"
#include "geometry/convex.h"
#include "geometry/feature_hash.h"
#include "geometry/hull.h"
#include "geometry/polytope_contact.h"
#include "geometry/standing.h"

enum {
  FLAT_CONTACTS = 4,
  LEVEL_CONTACTS = 8
};                          // most contacts of two flat features, as MuJoCo's; of those that lie on each other
#define PARALLEL 0.9999999  // cosine of edges that overlap along a line
#define SAME     1e-7       // of the scale: corners closer than this are one
#define ROUNDED  1e-9       // of the scale: rounding of distances
#define RESTS    1e-3       // of the scale: distances between faces that lie on each other differ by less
#define UNEVEN   1e-7       // of the scale: of faces whose corners are in single precision
#define SIDE     1e-12      // of the scale: corners this near to a side are on it

typedef NUM(pbTouch) contact_pair;
typedef NUM(pbManifold) manifold;

void NUM(pbPolytope_Corner)(const NUM(pbShape) *s, int id, num out[3]) {
  num local[3] = {0, 0, 0};

  PB_ASSERT(id >= 0);
  if (s->hull) {
    hull_corner(s, id, local);
  } else if (s->type == pb_geomBox) {
    for (int i = 0; i < 3; i++) local[i] = id & (1 << i) ? s->size[i] : -s->size[i];
  } else if (s->type == pb_geomCapsule) {
    local[2] = id ? s->size[1] : -s->size[1];
  }
  m3_mulv(out, s->mat, local);
  v3_addto(out, s->pos);
}

// ---- normal ------------------------------------------------------------------------------------------------------------
// Of the plane through three corners of M, the line through two, or the corner itself; and the distance of 0 from it.
static void set_normal(contact_pair *p) {
  const pbPolytopeNormal *found = p->found;
  num m[3][3] = {{0}}, d[2][3], *n = p->n;

  for (int k = 0; k < found->count || k == 0; k++) {
    num a[3], b[3];
    NUM(pbPolytope_Corner)(p->shape[0], found->id[k][0], a);
    NUM(pbPolytope_Corner)(p->shape[1], found->id[k][1], b);
    v3_sub(m[k], a, b);
  }
  for (int k = 1; k < found->count; k++) v3_sub(d[k - 1], m[k], m[0]);
  PB_ASSERT(found->count >= 0 && found->count <= 3);

  switch (found->count) {
    case 1: v3_neg(n, m[0]); break;
    case 2:
      v3_scale(n, d[0], num_div(v3_dot(m[0], d[0]), v3_dot(d[0], d[0])));
      v3_subfrom(n, m[0]);
      break;
    case 3:
      v3_cross(n, d[0], d[1]);
      if (re(n[0]) * found->n[0] + re(n[1]) * found->n[1] + re(n[2]) * found->n[2] < 0) v3_neg(n, n);
      break;
    default:
      for (int i = 0; i < 3; i++) n[i] = found->n[i];
  }
  v3_normalize(n);
  p->dist = -v3_dot(n, m[0]) - p->radius[0] - p->radius[1];
}

// ---- the deepest point -------------------------------------------------------------------------------------------------
// Midway between the surfaces, at a point of one of the cores.
static void put_at(const contact_pair *p, int shape, const num point[3], num dist, NUM(pbContactPoint) *contact) {
  contact->dist = dist;
  v3_along(contact->pos, point, p->n, (shape ? -1 : 1) * (p->radius[shape] + 0.5 * dist));
  v3_copy(contact->normal, p->n);
  v3_zero(contact->hint);
}

// Of a corner and a feature, the corner; of two edges their crossing.
static void set_deepest(contact_pair *p) {
  const pbPolytopeNormal *f = p->found;
  num a[2][3], b[2][3];
  int other[2] = {f->id[0][0], f->id[0][1]};

  for (int k = 1; k < f->count; k++) {
    for (int s = 0; s < 2; s++) other[s] = f->id[k][s] != f->id[0][s] ? f->id[k][s] : other[s];
  }

  // A corner alone.
  p->deepest_shape = other[0] == f->id[0][0] || other[1] != f->id[0][1] ? 0 : 1;
  p->deepest_corner = -1;
  if (other[0] == f->id[0][0] || other[1] == f->id[0][1]) {
    p->deepest_corner = f->id[0][p->deepest_shape];
    NUM(pbPolytope_Corner)(p->shape[p->deepest_shape], p->deepest_corner, p->deepest);
    return;
  }

  // Two edges.
  for (int k = 0; k < 2; k++) {
    NUM(pbPolytope_Corner)(p->shape[0], k ? other[0] : f->id[0][0], a[k]);
    NUM(pbPolytope_Corner)(p->shape[1], k ? other[1] : f->id[0][1], b[k]);
  }
  lines_crossing(p->n, a, b, p->deepest);
}

// ---- flat features -----------------------------------------------------------------------------------------------------
// Corners of a shape's flat feature. Returns their number, 0 or 1: nothing is flat.
static int flat_corners(const contact_pair *p, int shape, num (*out)[3]) {
  const NUM(pbShape) *s = p->shape[shape];
  const pbFlat *flat = &p->found->flat[shape];

  if (p->found->is_round && shape != p->found->round.body) {
    num u[3];
    v3_scale(u, p->n, shape ? -1 : 1);
    return NUM(pbPolytope_RoundCorners)(s, u, out);
  }

  int id[PB_POLYGON_SIDES], count = flat_ids(s, flat, id);
  for (int k = 0; k < count; k++) NUM(pbPolytope_Corner)(s, id[k], out[k]);
  return count;
}

// How far a polygon's corners are from its plane.
static double unevenness(int n, const num (*corner)[3]) {
  double most = 0;
  num normal[3], x[3];
  if (n < 4) return 0;

  plane_normal(n, corner, normal);
  for (int k = 1; k < n; k++) {
    v3_sub(x, corner[k], corner[0]);
    most = fmax(most, fabs(re(v3_dot(x, normal))));
  }
  return most;
}

static void add_point(const contact_pair *p, manifold *m, const num point[3], num dist, int from) {
  double same = SAME * p->found->scale;

  if (!(re(dist) <= p->margin)) return;
  for (int k = 0; k < m->count; k++) {
    num d[3];
    v3_sub(d, m->point[k], point);
    if (re(v3_dot(d, d)) < same * same) return;
  }
  PB_ASSERT(m->count < PB_POLYGON_MOST);
  v3_copy(m->point[m->count], point);
  m->from[m->count] = from;

  // Nothing is deeper than the deepest point; faces that are not quite plane may look so. As deep to rounding, as all corners of
  // what lies flat, it has a distance of its own.
  bool below = !p->found->lies && re(dist) < re(p->dist);
  m->deepest[m->count] = re(dist) < re(p->dist) - ROUNDED * p->found->scale;
  if (below) dist = m->deepest[m->count] ? p->dist : num_make(re(p->dist), im(dist));
  m->dist[m->count++] = dist;
}

// Cuts of a polygon's corners after those before. Without room the numbers go on.
static void follow_cuts(int n, const num (*corner)[3], const int (*from)[2], int side, manifold *m, int *cut) {
  int before[PB_POLYGON_MOST];
  memcpy(before, cut, sizeof before);

  for (int k = 0; k < n; k++) {
    cut[k] = before[from[k][0]];
    if (from[k][1] < 0) continue;

    cut[k] = m->cuts++;
    if (cut[k] >= PB_CUTS) continue;
    m->cut[cut[k]].p = before[from[k][0]];
    m->cut[cut[k]].q = before[from[k][1]];
    m->cut[cut[k]].side = side;
    v3_copy(m->cut[cut[k]].x, corner[k]);
  }
}

// Corners as they were given.
static void begin_cuts(int n, const num (*corner)[3], manifold *m, int *cut) {
  PB_ASSERT(n <= PB_CUTS);
  m->cuts = n;

  for (int k = 0; k < n; k++) {
    cut[k] = k;
    m->cut[k].p = k;
    m->cut[k].q = -1;
    v3_copy(m->cut[k].x, corner[k]);
  }
}

// Where a field goes on in the same plane beyond a prism's side there is no corner of contact, and a body's corner on the side
// belongs to one prism: contacts are those with one face.
static bool belongs_to_prism(const contact_pair *p, const manifold *m, int cut, const num x[3]) {
  unsigned on = p->shape[0]->hull->goes_on;

  // Crossings of a border.
  if (cut < PB_CUTS && m->cut[cut].q >= 0 && (on >> m->cut[cut].side & 1)) return false;
  return prism_has(p->shape[0], x);
}

// What the other shape's flat feature has over a face. The height of a point over the face's plane is measured along n:
//   dist = +-(point - corner) . normal / (n . normal), shape 1 below, shape 2 above.
static void clip_to_face(const contact_pair *p, int n_face, const num (*face)[3], int n, num (*poly)[PB_POLYGON_MOST][3],
                         manifold *m) {
  num normal[3], side[3], edge[3], dif[3];
  double slack = SIDE * p->found->scale;
  int which = 0, from[PB_POLYGON_MOST][2], cut[PB_POLYGON_MOST];

  begin_cuts(n, poly[0], m, cut);

  // The sides of the face, one after the other, back and forth between two buffers.
  for (int k = 0; k < n_face && n; k++) {
    v3_sub(edge, face[k + 1 == n_face ? 0 : k + 1], face[k]);
    v3_cross(side, edge, p->n);
    if (m->ref) v3_neg(side, side);
    if (!(re(v3_normalize(side)) > 0)) continue;
    n = clip_by_plane(n, poly[which], poly[!which], from, face[k], side, slack);
    which = !which;
    follow_cuts(n, poly[which], from, k, m, cut);
  }

  // The plane that carries the normal, or the face's own; that where the first is of a sliver of what is not quite plane.
  num slope, corner[3];
  plane_normal(n_face, face, normal);
  v3_copy(corner, face[0]);
  bool even = m->tie <= 2 * ROUNDED * p->found->scale;
  if (even && carries_normal(p->found, m->ref)) {
    v3_scale(normal, p->n, m->ref ? -1 : 1);
    if (!p->found->is_round) NUM(pbPolytope_Corner)(p->shape[m->ref], p->found->id[0][m->ref], corner);
  }

  // Heights over it.
  slope = v3_dot(normal, p->n);
  for (int k = 0; k < n; k++) {
    if (p->found->lies && !belongs_to_prism(p, m, cut[k], poly[which][k])) continue;
    v3_sub(dif, poly[which][k], corner);
    num height = num_div(v3_dot(dif, normal), slope);
    add_point(p, m, poly[which][k], (m->ref ? -height : height) - p->radius[0] - p->radius[1], cut[k]);
  }
}

// Edges that are nearly parallel: the ends of their overlap. Points are of shape 2.
static void overlap_edges(const contact_pair *p, const num a[2][3], const num b[2][3], manifold *m) {
  num e1[3], e2[3], dif[3];

  v3_sub(e1, a[1], a[0]);
  v3_sub(e2, b[1], b[0]);
  num length1 = v3_normalize(e1), length2 = v3_normalize(e2), cosine = v3_dot(e1, e2);
  if (!(fabs(re(cosine)) > PARALLEL)) return;

  // Of all four ends those that are beside the other edge.
  for (int end = 0; end < 4; end++) {
    // An end of the one edge, and the point of the other with the same place along it.
    num point[3];
    const num *from = end < 2 ? a[end] : b[end - 2];
    v3_sub(dif, from, end < 2 ? b[0] : a[0]);
    num along = end < 2 ? num_div(v3_dot(dif, e1), cosine) : v3_dot(dif, e1);
    num most = end < 2 ? length2 : length1;
    if (re(along) < -SIDE * p->found->scale || re(along) > re(most) + SIDE * p->found->scale) continue;
    v3_along(point, end < 2 ? b[0] : a[0], end < 2 ? e2 : e1, along);
    v3_sub(dif, end < 2 ? point : from, end < 2 ? from : point);
    add_point(p, m, end < 2 ? point : from, v3_dot(dif, p->n) - p->radius[0] - p->radius[1], end);
  }
}

// Do the faces lie on each other?
static bool lies_level(const contact_pair *p, const manifold *m) {
  double least = INFINITY, most = -INFINITY;

  for (int k = 0; k < m->count; k++) {
    least = fmin(least, re(m->dist[k]));
    most = fmax(most, re(m->dist[k]));
  }
  return carries_normal(p->found, m->ref) && most - least <= RESTS * p->found->scale;
}

static void find_manifold(contact_pair *p, manifold *m) {
  num corner[2][PB_POLYGON_SIDES][3], poly[2][PB_POLYGON_MOST][3];
  int n[2];

  m->count = m->ref = m->taken = m->cuts = 0;
  m->edges = m->level = false;
  m->low = -1;
  m->uneven = 0;
  m->tie = ROUNDED * p->found->scale;
  // Both must have one.
  for (int k = 0; k < 2; k++) {
    n[k] = flat_corners(p, k, corner[k]);
    if (n[k] < 2) return;
  }
  m->uneven = unevenness(n[0], corner[0]) + unevenness(n[1], corner[1]);
  if (m->uneven < UNEVEN * p->found->scale) m->tie += m->uneven;  // else the faces are no planes at all
  if (n[0] == 2 && n[1] == 2) {
    m->edges = true;
    overlap_edges(p, corner[0], corner[1], m);
    return;
  }

  // Clipped to the face that carries the normal, else to the first.
  m->ref = n[0] == 2 || (n[1] > 2 && carries_normal(p->found, 1));
  memcpy(poly[0], corner[!m->ref], (size_t)n[!m->ref] * sizeof *poly[0]);
  clip_to_face(p, n[m->ref], corner[m->ref], n[!m->ref], poly, m);
  m->level = n[0] > 2 && n[1] > 2 && lies_level(p, m);

  // Faces that have a corner beside each other alone.
  bool faces = n[0] > 2 && n[1] > 2 && (carries_normal(p->found, 0) || carries_normal(p->found, 1));
  if (!m->count && faces && !p->found->is_round) NUM(pbPolytope_MeetFaces)(p, n, corner);
}

// The manifold's points in another order; those that it does not name are lost.
static void reorder_manifold(const int *from, int count, manifold *m) {
  num point[5][3], dist[5];
  int cut[5];
  bool deepest[5];
  PB_ASSERT(count <= 5);
  for (int k = 0; k < count; k++) {
    v3_copy(point[k], m->point[from[k]]);
    dist[k] = m->dist[from[k]];
    cut[k] = m->from[from[k]];
    deepest[k] = m->deepest[from[k]];
  }

  memcpy(m->point, point, (size_t)count * sizeof *point);
  memcpy(m->dist, dist, (size_t)count * sizeof *dist);
  memcpy(m->from, cut, (size_t)count * sizeof *cut);
  memcpy(m->deepest, deepest, (size_t)count * sizeof *deepest);
}

// How many contacts may be made: of faces that lie on each other all corners, so that each has its own rate whatever the tilt.
static int room_for(const contact_pair *p, const manifold *m) {
  return p->found->is_round || m->level ? LEVEL_CONTACTS : FLAT_CONTACTS;
}

// Too many: the four that enclose most, in their order.
static void reduce_manifold(const contact_pair *p, manifold *m) {
  double corner[PB_POLYGON_MOST][3], n[3];
  int best[5], low = 0;

  if (m->count <= room_for(p, m)) return;
  for (int i = 0; i < 3; i++) {
    n[i] = re(p->n[i]);
    for (int k = 0; k < m->count; k++) corner[k][i] = re(m->point[k][i]);
  }
  largest_quadrangle(n, m->count, corner, best);

  // Behind them the lowest.
  for (int k = 1; k < m->count; k++) low = re(m->dist[k]) < re(m->dist[low]) ? k : low;
  best[4] = low;
  for (int k = 0; k < 4; k++) m->taken = m->taken * PB_POLYGON_MOST + best[k];
  reorder_manifold(best, 5, m);
  m->count = 4;
  m->low = 4;
}

// The deepest point is always among the contacts: instead of the one next to it where there are as many as there may be. Where
// several corners are as deep, those that are not over the other shape are none; then what was left out is. Of faces that lie on
// each other the four that stand for many corners stay the same whichever of all is the deepest.
static int with_deepest(const contact_pair *p, const manifold *m, NUM(pbContactPoint) *contacts, int *source, int count) {
  NUM(pbContactPoint) deepest;
  int next = 0, from = -1;
  double nearest = INFINITY, level = re(p->dist) + m->tie;

  for (int k = 0; k < count; k++) {
    if (re(contacts[k].dist) <= level) return count;
  }
  put_at(p, p->deepest_shape, p->deepest, p->dist, &deepest);
  if (m->low >= 0 && re(m->dist[m->low]) <= level) {
    // The corners chosen stand for it.
    if (m->level) return count;

    // What was left out is the deepest.
    from = m->low;
    put_at(p, !m->ref, m->point[from], m->dist[from], &deepest);
  }

  for (int k = 0; k < count; k++) {
    num d[3];
    v3_sub(d, contacts[k].pos, deepest.pos);
    if (re(v3_dot(d, d)) < nearest) {
      nearest = re(v3_dot(d, d));
      next = k;
    }
  }
  if (count < room_for(p, m)) next = count++;
  contacts[next] = deepest;
  source[next] = from;
  return count;
}

static void find_contacts(contact_pair *p, manifold *m) {
  for (int k = 0; k < 2; k++) {
    int type = p->shape[k]->type;
    p->radius[k] = type == pb_geomSphere || type == pb_geomCapsule ? p->shape[k]->size[0] : 0;
  }
  if (p->found->is_round) {
    NUM(pbPolytope_SetRound)(p);
  } else {
    set_normal(p);
    set_deepest(p);
  }
  find_manifold(p, m);
  if (p->found->is_round && p->shape[!p->found->round.body]->type == pb_geomCylinder) {
    num flat[PB_POLYGON_SIDES][3] = {{0}};
    int sides = flat_corners(p, p->found->round.body, flat);
    NUM(pbPolytope_MeetCylinder)(p, m, sides, flat);
  }
  reduce_manifold(p, m);
}

// So that whoever has room for fewer points loses the others.
static void put_deepest_first(NUM(pbContactPoint) *contacts, int *source, int count) {
  int best = 0;
  for (int k = 1; k < count; k++) {
    if (re(contacts[k].dist) < re(contacts[best].dist)) best = k;
  }
  NUM(pbContactPoint) first = contacts[0];
  contacts[0] = contacts[best];
  contacts[best] = first;

  int number = source[0];
  source[0] = source[best];
  source[best] = number;
}

// ---- standing cylinders ------------------------------------------------------------------------------------------------
// A cylinder that stands on a face: the face's contacts with it. Returns their number, 0: it does not stand on one.
static int stand(const contact_pair *p, NUM(pbContactPoint) *contacts, int *source) {
  const pbRound *r = &p->found->round;
  num corner[PB_POLYGON_SIDES][3], outward[3], off[3];
  if (!p->found->is_round || p->shape[!r->body]->type != pb_geomCylinder) return 0;

  int n = flat_corners(p, r->body, corner);
  if (n < 3) return 0;
  plane_normal(n, corner, outward);

  // Its own, and it carries the normal of contact, or that is the same to rounding, whatever it was found by.
  v3_scale(off, p->n, r->body ? -1 : 1);
  v3_subfrom(off, outward);
  if (!(re(v3_dot(off, off)) <= PB_UPRIGHT * PB_UPRIGHT)) return 0;
  if (!holds_disc(n, corner, outward, p->shape[!r->body], 1e-9 * p->found->scale)) return 0;

  int count = stand_on_plane(corner[0], outward, p->shape[!r->body], r->body, p->margin, PB_MAX_CONTACT_POINTS, contacts);
  for (int k = 0; k < count; k++) source[k] = k;
  return count;
}

// A ball, or the end of a capsule, over a field that goes on in the plane of the prism's top: another prism has it.
static bool ends_elsewhere(const contact_pair *p, const manifold *m) {
  const pbPolytopeNormal *f = p->found;
  int type = p->shape[1]->type;
  num end[3];
  if (p->shape[0]->type != pb_geomHfield || (type != pb_geomSphere && type != pb_geomCapsule)) return false;
  if (m->count || f->lies) return false;

  // One end alone.
  for (int k = 1; k < f->count; k++) {
    if (f->id[k][1] != f->id[0][1]) return false;
  }
  NUM(pbPolytope_Corner)(p->shape[1], f->id[0][1], end);
  return !prism_has(p->shape[0], end);
}

int NUM(pbPolytope_Touch)(contact_pair *p, manifold *m, NUM(pbContactPoint) *contacts, int *source) {
  find_contacts(p, m);
  int standing = p->found->lies ? 0 : stand(p, contacts, source);
  if (standing) return standing;

  for (int k = 0; k < m->count; k++) {
    put_at(p, !m->ref, m->point[k], m->dist[k], &contacts[k]);
    source[k] = k;
  }
  if (ends_elsewhere(p, m)) return 0;
  int count = p->found->lies ? m->count : with_deepest(p, m, contacts, source, m->count);
  if (!count) return 0;
  put_deepest_first(contacts, source, count);
#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
  PB_VALIDATE(pbPolytope_AreWithin(p, m, count, contacts));
#endif
  return count;
}

int NUM(pbPolytope_Contacts)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, const pbPolytopeNormal *found,
                             NUM(pbContactPoint) *contacts) {
  contact_pair p = {.shape = {shape1, shape2}, .found = found, .margin = margin};
  manifold m;
  int source[PB_MAX_CONTACT_POINTS];
  return NUM(pbPolytope_Touch)(&p, &m, contacts, source);
}

int NUM(pbPolytope_Collide)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin,
                            NUM(pbContactPoint) *contacts) {
  pbPolytopePair pair;
  pbPolytopeNormal found;
  to_support(shape1, &pair.shape[0]);
  to_support(shape2, &pair.shape[1]);
  if (!pbPolytope_Search(&pair, margin, &found)) return 0;
  return NUM(pbPolytope_Contacts)(shape1, shape2, margin, &found, contacts);
}

#if !PB_IS_COMPLEX
// Does a cylinder stand on a face, with its axis along the normal?
static bool shape_is_upright(const contact_pair *p) {
  const NUM(pbShape) *s = p->shape[!p->found->round.body];
  double axis[3], across[3];
  if (s->type != pb_geomCylinder || p->found->flat[p->found->round.body].sides < 3) return false;
  m3_col(axis, s->mat, 2);
  v3_cross(across, axis, p->n);
  return v3_dot(across, across) < PB_UPRIGHT * PB_UPRIGHT;
}

int NUM(pbPolytope_Feature)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2) {
  pbPolytopePair pair;
  pbPolytopeNormal found;
  manifold m;

  to_support(shape1, &pair.shape[0]);
  to_support(shape2, &pair.shape[1]);
  if (!pbPolytope_Search(&pair, INFINITY, &found)) return 0;

  contact_pair p = {.shape = {shape1, shape2}, .found = &found, .margin = 0};
  find_contacts(&p, &m);

  // Of an upright cylinder any point of the rim may be the lowest.
  if (found.is_round && shape_is_upright(&p)) return -1;
  // What carries the normal. On a face any of the corners that lie flat may, so then the faces count alone.
  bool on_face = carries_normal(&found, 0) || carries_normal(&found, 1);
  unsigned hash = mix(mix(2166136261u, found.count), carries_normal(&found, 1));
  for (int k = 0; k < 2; k++) {
    const pbFlat *flat = &found.flat[k];
    hash = mix(mix(hash, flat->sides), flat->sides > 2 ? flat->face : 0);
    if (!on_face || flat->sides <= 2) hash = mix(hash, mix_corners(&found.id[0][k], found.count, 2));
  }
  if (found.is_round) hash = mix(mix(hash, (int)found.round.kind), on_face ? 0 : mix_corners(found.round.id, 3, 1));

  // Which points are in contact.
  return (int)(mix(mix(hash, m.count), m.taken) & 0x7fffffffu);
}
#endif
