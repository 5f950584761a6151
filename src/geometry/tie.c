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
#define FORETOLD  2e-6  // of the move: contacts beside a pose this near to where the map of the pose puts them have that map

// Of moves, then of turns: in none of them lies a symmetry.
static const double direction[DIRECTIONS][6] = {
    {0.37, -0.61, 0.83, 0.53, -0.29, 0.71}, {-0.79, 0.43, 0.31, 0.67, 0.59, -0.23}, {0.47, 0.73, -0.19, -0.41, 0.89, 0.61}};

// What the contacts of a pair do together, to first order, however they are numbered or spread: how the wrench of springs at them
// changes with a move of shape 2, how their normals and points turn and move, and where they are.
typedef struct response {
  double v[NUMBERS];
  int count;
  bool still, lies;  // no normal was found; a face lies on a height field
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
  out->lies = searched && count > 0 && found.kind == pb_searchedPolytope && found.facet.lies;
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
    double size = 1, change = 0, kink = 0;
    for (int i = blocks[k]; i < blocks[k + 1]; i++) {
      // To the one side, and to the other.
      double to = ahead->v[i] - here->v[i], from = here->v[i] - behind->v[i];
      size = fmax(size, fmax(fabs(here->v[i]), fmax(fabs(ahead->v[i]), fabs(behind->v[i]))));
      change = fmax(change, fmax(fabs(to), fabs(from)));
      kink = fmax(kink, fabs(to - from));
    }
    if (change > limit * size && kink > 0.25 * change) return true;
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

// A mesh's corners are in single precision, and with them what it is put to. Searches for what is round stop where depths, which
// go by the square of an angle, are equal.
static double how_far(const NUM(pbShape) *s1, const NUM(pbShape) *s2) {
  bool round = s2->type == pb_geomCylinder || s2->type == pb_geomEllipsoid;

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

// Is a corner of the other shape in the prism and beside one of its upright sides, of those that `sides` names?
static bool corner_is_beside(const NUM(pbShape) *prism, const double corner[3], unsigned sides) {
  const pbMeshHull *h = prism->hull;
  double d[3], local[3], a[3];
  bool beside = false;
  v3_sub(d, corner, prism->pos);
  m3_tmulv(local, prism->mat, d);

  // Polygons are the top, the bottom and the sides.
  for (int f = 0; f < h->polygons; f++) {
    v3_sub(a, local, h->corner + 3 * h->around[h->first[f]]);
    double out = v3_dot(a, h->normal + 3 * f);
    if (out > ALIGNED) return false;
    beside = beside || (f > 1 && (sides >> (f - 2) & 1) && out >= -ALIGNED);
  }
  return beside;
}

// The prisms of a field go deep: a corner that stands on the border of two of them, and crosses it, ends one contact and begins
// another, which is none yet; but for a face that lies on both.
static bool stands_on_border(const NUM(pbShape) *prism, const NUM(pbShape) *other, bool lies) {
  unsigned sides = lies ? ~prism->hull->goes_on : ~0u;
  int count = other->type == pb_geomBox ? 8 : 0;
  if (other->hull) count = other->hull->corners;

  // All of them, not contacts alone: what begins to touch is none yet.
  for (int i = 0; i < count; i++) {
    double x[3];
    NUM(pbPolytope_Corner)(other, i, x);
    if (corner_is_beside(prism, x, sides)) return true;
  }
  return false;
}

// A ball, or a capsule's end, over the top of a field's prism.
static bool rolls_on_top(const NUM(pbShape) *prism, const NUM(pbShape) *other, int count, const NUM(pbContactPoint) *contacts) {
  double n[3];
  if (count != 1 || (other->type != pb_geomSphere && other->type != pb_geomCapsule)) return false;
  m3_mulv(n, prism->mat, prism->hull->normal);
  v3_subfrom(n, contacts->normal);
  return v3_norm(n) <= ALIGNED;
}

// On a height field: what lies or rolls on prisms in one plane has a tie at their border alone. 1: a tie, 0: none, -1: look
// beside.
static int ties_on_field(const NUM(pbShape) *prism, const NUM(pbShape) *other, bool lies, int count,
                         const NUM(pbContactPoint) *contacts) {
  if (stands_on_border(prism, other, lies)) return 1;

  // Each point has its own rate, whichever prism has it.
  if (lies) return 0;
  return rolls_on_top(prism, other, count, contacts) ? corner_is_beside(prism, contacts->pos, ~prism->hull->goes_on) : -1;
}

// In how many directions to look beside a pose: none where no tie can be, one where features meet along a line, all where faces
// do.
static int directions(const NUM(pbShape) *s1, const NUM(pbShape) *s2, int count, const NUM(pbContactPoint) *contacts) {
  if (s1->type == pb_geomPlane) return 0;
  if (s1->type == pb_geomSphere) return s2->type != pb_geomSphere && s2->type != pb_geomEllipsoid;
  if (s1->type == pb_geomEllipsoid && s2->type == pb_geomEllipsoid) return 0;
  if (s1->type == pb_geomBox && s2->type == pb_geomBox) return corner_meets_edge(s1, s2, count, contacts) ? DIRECTIONS : 0;
  return s1->type == pb_geomCapsule && s2->type == pb_geomCapsule ? 1 : DIRECTIONS;
}

// Do the contacts stand where the map of those at the pose puts them?
static bool as_foretold(int count, const NUM(pbContactPoint) *here, const pbContactJacobian *map, const double d[6], double turn,
                        double scale, const NUM(pbContactPoint) *there) {
  double move[6], most = FORETOLD * fabs(turn);
  for (int i = 0; i < 3; i++) {
    move[i] = d[3 + i] * turn;
    move[3 + i] = d[i] * turn * scale;
  }

  for (int k = 0; k < count; k++) {
    const double *a = &here[k].dist, *b = &there[k].dist;
    for (int row = 0; row < NORMAL + 3; row++) {
      double error = b[row] - a[row];
      for (int i = 0; i < 6; i++) error -= map[k].d[row][i] * move[i];
      if (!(fabs(error) <= (row < NORMAL ? scale : 1) * most)) return false;
    }
  }
  return true;
}

// As pbPair_CollideKeeping, of poses close to each other: searches of two polytopes go on from the last one.
static int collide_near(const NUM(pbShape) *s1, const NUM(pbShape) *s2, double margin, pbGrown *grown, pbSearched *found,
                        NUM(pbContactPoint) *contacts) {
  pbPolytopePair pair;
  found->kind = pbSearch_KindOf(s1->type, s2->type);
  if (found->kind != pb_searchedPolytope) return NUM(pbPair_CollideKeeping)(s1, s2, margin, found, contacts);

  to_support(s1, &pair.shape[0]);
  to_support(s2, &pair.shape[1]);
  if (!pbPolytope_SearchNear(&pair, margin, grown, &found->facet)) return 0;
  return NUM(pbPolytope_Contacts)(s1, s2, margin, &found->facet, contacts);
}

// Says cheaply of most pairs that no tie is near: contacts are continuous, so where they change to another map beside the pose
// they leave what the map there foretells by as much as the maps differ along the move. Only values of contacts are needed then,
// whose maps are the dearer part. Around shape 2, so that coordinates have no larger rounding than the pair. False: unknown.
static bool is_far_from_ties(const NUM(pbShape) *s1, const NUM(pbShape) *s2, double margin, double scale, double beside,
                             int most) {
  NUM(pbContactPoint) here[PB_MAX_CONTACT_POINTS], there[PB_MAX_CONTACT_POINTS];
  pbContactJacobian map[PB_MAX_CONTACT_POINTS];
  NUM(pbShape) first = *s1, second = *s2, moved;
  pbSearched found, side;
  pbGrown grown;
  grown.whole = false;
  v3_sub(first.pos, s1->pos, s2->pos);
  v3_zero(second.pos);

  bool searched = pbSearch_KindOf(s1->type, s2->type) != pb_searchedNothing;
  int count = collide_near(&first, &second, margin, &grown, &found, here);
  if (count == 0 || (searched && stands_still(&found))) return false;
  NUM(pbPair_Jacobian)(&first, &second, margin, searched ? &found : NULL, count, here, map);

  for (int k = 0; k < 2 * most; k++) {
    double step = k % 2 ? beside : -beside;
    move_shape(&second, direction[k / 2], step, step * scale, &moved);
    if (collide_near(&first, &moved, margin, &grown, &side, there) != count) return false;
    if (searched && stands_still(&side)) return false;
    if (!as_foretold(count, here, map, direction[k / 2], step, scale, there)) return false;
  }
  return true;
}

// Pairs whose features say so themselves.
static bool knows_ties(int type1, int type2) { return type1 == type2 && (type1 == pb_geomBox || type1 == pb_geomCapsule); }

bool NUM(pbPair_Tied)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, int count,
                      const NUM(pbContactPoint) *contacts) {
  double scale = size_of(shape1) + size_of(shape2), beside = how_far(shape1, shape2);
  int most = directions(shape1, shape2, count, contacts);
  response here, side[2];
  NUM(pbShape) moved;

  if (knows_ties(shape1->type, shape2->type) && NUM(pbPair_Feature)(shape1, shape2) < 0) return true;
  margin += TOUCHES * beside * scale;

  if (most == 0) return false;

  // Prisms of a field go deep: ties are at their borders.
  bool field = shape1->type == pb_geomHfield;
  if (!field && is_far_from_ties(shape1, shape2, margin, scale, beside, most)) return false;
  if (!respond(shape1, shape2, margin, scale, &here)) return false;
  if (here.still) return true;
  if (field) {
    int tied = ties_on_field(shape1, shape2, here.lies, count, contacts);
    if (tied >= 0) return tied;
  }

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
