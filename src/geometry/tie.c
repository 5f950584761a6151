// Whether contacts of two shapes have a linear map at a pose: the map beside it, a little to either side along directions in
// which no symmetry lies, is that of the pose. In doubles. Tests:
// tests/unit/test_ties.c, tests/python/test_ties.py.
#include "geometry/pair.h"

#if !PB_IS_COMPLEX
#include "base/assert.h"
#include "geometry/polytope_contact.h"
#include "geometry/primitive.h"
#include "geometry/search.h"
#include "geometry/tie.h"
#include "math/vec.h"
#include "model/model.h"

enum { DIST = 0, POS = 1, NORMAL = 4, DIRECTIONS = 3, NUMBERS = 36 + 18 + 18 + 9 };
#define ALIGNED   1e-8  // m, and cosines: what is called aligned
#define NEAR      1     // depths: how near to its end an edge may cross another
#define DIFFERENT 1e-5  // relative: what maps may differ by,
#define TOUCHES   16    // times the move: how near counts as touching
#define CURVED    2000  // and by how many times the move besides, as curvature has it

// What the contacts of a pair do together, to first order, however they are numbered or spread: how the wrench of springs at them
// changes with a move of shape 2, how their normals and points turn and move, and where they are.
typedef struct response {
  double v[NUMBERS];
  int count;
  bool still;
} response;

// The rate of a contact's wrench, of unit force along its normal: (normal, lever x normal).
static void wrench_rate(const NUM(pbContactPoint) *c, const pbContactJacobian *j, int k, const double lever[3], double scale,
                        double rate[6]) {
  double move[3], moment[3];

  for (int i = 0; i < 3; i++) {
    rate[i] = j->d[NORMAL + i][k];
    move[i] = j->d[POS + i][k] / scale;
  }
  v3_cross(moment, move, c->normal);
  v3_cross(rate + 3, lever, rate);
  v3_addto(rate + 3, moment);
}

// depth: beyond the mean of the pair's.
static void add_contact(const NUM(pbContactPoint) *c, const pbContactJacobian *j, double depth, const double center[3],
                        double scale, response *out) {
  double lever[3], wrench[6], rate[6], *stiffness = out->v, *turn = out->v + 36, *move = out->v + 54, *place = out->v + 72;
  v3_sub(lever, c->pos, center);
  v3_scale(lever, lever, 1 / scale);
  v3_copy(wrench, c->normal);
  v3_cross(wrench + 3, lever, c->normal);

  // Rotations count as moves of the scale's length.
  for (int k = 0; k < 6; k++) {
    double unit = k < 3 ? 1 / scale : 1;
    wrench_rate(c, j, k, lever, scale, rate);
    for (int i = 0; i < 6; i++) stiffness[6 * i + k] += (wrench[i] * j->d[DIST][k] - rate[i] * depth) * unit;
    for (int i = 0; i < 3; i++) {
      turn[6 * i + k] += j->d[NORMAL + i][k] * unit * scale;
      move[6 * i + k] += j->d[POS + i][k] * unit;
    }
  }

  // Second moments, whose trace no turn changes.
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < 3; k++) place[3 * i + k] += lever[i] * lever[k];
  }
  out->count++;
}

// Is the normal one that nothing carries, so that its derivative is as if it stood still?
static bool stands_still(const pbSearched *found) {
  if (found->kind == pb_searchedConvex) return found->normal.kind == pb_normalFixed;
  return found->facet.is_round ? found->facet.round.kind == pb_roundFixed : found->facet.count == 0;
}

// False: no contact there.
static bool respond(const NUM(pbShape) *s1, const NUM(pbShape) *s2, double margin, double scale, response *out) {
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];
  pbContactJacobian jacobians[PB_MAX_CONTACT_POINTS];
  pbSearched found;
  memset(out, 0, sizeof *out);

  int count = NUM(pbPair_CollideKeeping)(s1, s2, margin, &found, contacts);
  bool searched = pbSearch_KindOf(s1->type, s2->type) != pb_searchedNothing;
  out->still = searched && count > 0 && stands_still(&found);
  NUM(pbPair_Jacobian)(s1, s2, margin, searched ? &found : NULL, count, contacts, jacobians);

  // Depths count from their mean.
  double sum = 0;

  for (int k = 0; k < count; k++) sum += contacts[k].dist;
  for (int k = 0; k < count; k++) add_contact(&contacts[k], &jacobians[k], sum / count - contacts[k].dist, s2->pos, scale, out);
  return out->count > 0;
}

// Do the responses to both sides part from the one between them by more than `limit` of their size, and not as those of a
// smooth map, whose changes to both sides are opposite?
static bool part(const response *behind, const response *here, const response *ahead, double limit) {
  static const int blocks[] = {0, 36, 54, 72, NUMBERS};

  for (int k = 0; k < 4; k++) {
    double size = 1, change = 0, bend = 0;
    for (int i = blocks[k]; i < blocks[k + 1]; i++) {
      // To the one side, and to the other.
      double to = ahead->v[i] - here->v[i], from = here->v[i] - behind->v[i];
      size = fmax(size, fmax(fabs(here->v[i]), fmax(fabs(ahead->v[i]), fabs(behind->v[i]))));
      change = fmax(change, fmax(fabs(to), fabs(from)));
      bend = fmax(bend, fabs(to - from));
    }
    if (change > limit * size && bend > 0.25 * change) return true;
  }
  return false;
}

static void move_shape(const NUM(pbShape) *s, const double d[6], double turn, double move, NUM(pbShape) *out) {
  *out = *s;
  v3_addscl(out->pos, d, move);

  // To first order, of its axes.
  for (int k = 0; k < 3; k++) {
    double axis[3], step[3];
    m3_col(axis, s->mat, k);
    v3_cross(step, d + 3, axis);
    for (int i = 0; i < 3; i++) out->mat[3 * i + k] += turn * step[i];
  }
}

static double size_of(const NUM(pbShape) *s) {
  double most = 0;

  if (s->hull) return s->hull->radius;
  if (s->type == pb_geomPlane) return 0;
  for (int i = 0; i < 3; i++) most = fmax(most, s->size[i]);
  return most;
}

// A mesh's corners are in single precision, and with them what it is put to. On a plane a hull stands by four corners of a face,
// the same ones until it is tilted by more. Searches for what is round stop where depths, which go by the square of an angle,
// are equal.
static double how_far(const NUM(pbShape) *s1, const NUM(pbShape) *s2) {
  bool round = s2->type == pb_geomCylinder || s2->type == pb_geomEllipsoid;

  if (s1->type == pb_geomPlane) return s2->type == pb_geomMesh ? PB_TILTED : PB_BESIDE;
  if (s1->type == pb_geomCylinder || (s1->type == pb_geomCapsule && round)) return PB_BESIDE_ROUND;
  if ((s1->hull && round) || (s2->hull && s1->type == pb_geomEllipsoid)) return PB_BESIDE_ROUND;
  if (s2->type == pb_geomMesh) return PB_BESIDE_MESH;
  return s1->type == pb_geomBox ? PB_BESIDE_BOX : PB_BESIDE;
}

// ---- where to look -----------------------------------------------------------------------------------------------------
// Where on a box a contact is: 0 at a corner, 1 at an edge, else more. Depths are along the normal, crossings of edges anywhere
// near.
static int freedom_at(const NUM(pbShape) *box, const NUM(pbContactPoint) *contact) {
  double d[3], local[3], normal[3];
  int freedom = 0;
  v3_sub(d, contact->pos, box->pos);
  m3_tmulv(local, box->mat, d);
  m3_tmulv(normal, box->mat, contact->normal);

  // On a face across its sides.
  double depth = NEAR * fabs(contact->dist), most = fmax(fabs(normal[0]), fmax(fabs(normal[1]), fabs(normal[2])));

  for (int i = 0; i < 3; i++) {
    double reach = ALIGNED + (most > 0.95 ? fabs(normal[i]) : 1) * depth;
    freedom += !(fabs(fabs(local[i]) - box->size[i]) <= reach);
  }
  return freedom;
}

// Does a corner of one box meet an edge of the other? (Edges that cross are no tie.)
static bool corner_meets_edge(const NUM(pbShape) *s1, const NUM(pbShape) *s2, int count, const NUM(pbContactPoint) *contacts) {
  for (int k = 0; k < count; k++) {
    if (freedom_at(s1, &contacts[k]) + freedom_at(s2, &contacts[k]) < 2) return true;
  }
  return false;
}

// More than two corners on a plane, and equally deep.
static bool lies_flat(const NUM(pbShape) *mesh, int count, const NUM(pbContactPoint) *contacts) {
  double least = INFINITY, most = -INFINITY;

  for (int k = 0; k < count; k++) {
    least = fmin(least, contacts[k].dist);
    most = fmax(most, contacts[k].dist);
  }
  return count > 2 && most - least <= 4 * PB_TILTED * mesh->hull->radius;
}

static bool is_corner(const NUM(pbShape) *s, const double point[3]) {
  int count = s->type == pb_geomBox ? 8 : 0;

  if (s->hull) count = s->hull->corners;
  for (int i = 0; i < count; i++) {
    double x[3], d[3];
    NUM(pbPolytope_Corner)(s, i, x);
    v3_sub(d, x, point);
    if (v3_norm(d) <= ALIGNED) return true;
  }
  return false;
}

// Is a point beside one of the prism's sides, which are upright?
static bool at_a_side(const NUM(pbShape) *prism, const double point[3]) {
  const pbMeshHull *h = prism->hull;
  double d[3], local[3], a[3];
  v3_sub(d, point, prism->pos);
  m3_tmulv(local, prism->mat, d);

  for (int f = 0; f < h->polygons; f++) {
    const double *normal = h->normal + 3 * f;
    if (normal[2] != 0) continue;
    v3_sub(a, local, h->corner + 3 * h->around[h->first[f]]);
    if (fabs(v3_dot(a, normal)) <= ALIGNED) return true;
  }
  return false;
}

// The prisms of a field go deep: a corner that stands on the border of two of them, and crosses it, ends one contact and begins
// another, which is none yet.
static bool stands_on_border(const NUM(pbShape) *prism, const NUM(pbShape) *other, int count,
                             const NUM(pbContactPoint) *contacts) {
  for (int k = 0; k < count; k++) {
    double x[3];
    v3_along(x, contacts[k].pos, contacts[k].normal, 0.5 * contacts[k].dist);
    if (at_a_side(prism, x) && is_corner(other, x)) return true;
  }
  return false;
}

// In how many directions to look beside a pose: none where no tie can be, one where features meet along a line, all where faces
// do.
static int directions(const NUM(pbShape) *s1, const NUM(pbShape) *s2, int count, const NUM(pbContactPoint) *contacts) {
  if (s1->type == pb_geomPlane) return s2->type == pb_geomMesh && lies_flat(s2, count, contacts) ? DIRECTIONS : 0;
  if (s1->type == pb_geomSphere) return s2->type != pb_geomSphere && s2->type != pb_geomEllipsoid;
  if (s1->type == pb_geomEllipsoid && s2->type == pb_geomEllipsoid) return 0;
  if (s1->type == pb_geomBox && s2->type == pb_geomBox) return corner_meets_edge(s1, s2, count, contacts) ? DIRECTIONS : 0;
  return s1->type == pb_geomCapsule && s2->type == pb_geomCapsule ? 1 : DIRECTIONS;
}

// Pairs whose features say so themselves.
static bool knows_ties(int type1, int type2) { return type1 == type2 && (type1 == pb_geomBox || type1 == pb_geomCapsule); }

bool NUM(pbPair_Tied)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, int count,
                      const NUM(pbContactPoint) *contacts) {
  static const double direction[DIRECTIONS][6] = {
      {0.37, -0.61, 0.83, 0.53, -0.29, 0.71}, {-0.79, 0.43, 0.31, 0.67, 0.59, -0.23}, {0.47, 0.73, -0.19, -0.41, 0.89, 0.61}};
  double scale = size_of(shape1) + size_of(shape2), beside = how_far(shape1, shape2);
  int most = directions(shape1, shape2, count, contacts);
  response here, side[2];
  NUM(pbShape) moved;

  if (shape1->type == pb_geomHfield && stands_on_border(shape1, shape2, count, contacts)) return true;
  if (knows_ties(shape1->type, shape2->type) && NUM(pbPair_Feature)(shape1, shape2) < 0) return true;
  margin += TOUCHES * beside * scale;

  if (most == 0 || !respond(shape1, shape2, margin, scale, &here)) return false;
  if (here.still) return true;

  // To both sides along each. What only just touches does so on both.
  for (int k = 0; k < most; k++) {
    for (int i = 0; i < 2; i++) {
      double step = i ? beside : -beside;
      move_shape(shape2, direction[k], step, step * scale, &moved);
      if (!respond(shape1, &moved, margin, scale, &side[i])) return true;
    }
    if (part(&side[0], &here, &side[1], DIFFERENT + CURVED * beside)) return true;
  }
  return false;
}
#else
typedef int tie_is_for_doubles;
#endif
