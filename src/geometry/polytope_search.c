// Which corners of two polytopes carry the normal of their deepest contact (polytope.h). Tests: tests/unit/test_ties.c.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/polytope.h"
#include "geometry/tie.h"

#define ACCURACY 1e-12  // of the scale: of depths
#define ROUGH    1e-4   // of the scale: where a shape is round, before Newton's method
#define BASIN    5e-10  // of the scale: of depths there; among minima as close as this any may be taken
#define GAP      1e-13  // of the scale: how far M may reach beyond the plane through its point next to 0
#define EQUAL    1e-11  // of the scale: a plainer normal is taken where it is as deep
#define APART    1e-9   // of the scale: boxes must be further apart
#define TOUCHING 1e-6   // of the scale: shapes nearer than this
#define UNEVEN   1e-7   // of the scale: what a face that carries the normal may lack of the distance
#define LEVEL    1e-10  // sine of the angle of faces that lie on each other: tilted by more one of them is deeper
#define LIES     1e-3   // of the scale: how far apart in height the corners of a face are that lies on a field
#define SINKS    1e-2   // of the scale: and how far it sinks in at most
#define PARALLEL 1e-6   // sine of the angle of edges whose cross product is noise

// ---- supports ----------------------------------------------------------------------------------------------------------
// Corner furthest along d (in the shape's frame).
static int furthest(const pbSupport *s, const double d[3]) {
  if (s->hull) return pbMeshHull_Support(s->hull, d);
  if (s->type == pb_geomBox) return (d[0] > 0) | (d[1] > 0) << 1 | (d[2] > 0) << 2;
  return s->corners == 2 && d[2] > 0;
}

static void round_support(const pbSupport *s, const double d[3], double out[3]) {
  double size = 0, rho = sqrt(d[0] * d[0] + d[1] * d[1]);

  if (s->type == pb_geomCylinder) {
    out[0] = rho > 0 ? s->size[0] * d[0] / rho : s->size[0];
    out[1] = rho > 0 ? s->size[0] * d[1] / rho : 0;
    out[2] = d[2] > 0 ? s->size[1] : -s->size[1];
    return;
  }

  // Ellipsoid: S^2 d / |S d|.
  for (int i = 0; i < 3; i++) size += s->size[i] * s->size[i] * d[i] * d[i];
  double inverse = size > 0 ? 1 / sqrt(size) : 0;
  for (int i = 0; i < 3; i++) out[i] = inverse * s->size[i] * s->size[i] * d[i];
}

// From the center of shape 1, in world axes.
static void corner_in_world(const pbSupport *s, int corner, double out[3]) {
  m3_mulv(out, s->mat, (s->hull ? s->hull->corner : s->own) + 3 * corner);
  v3_addto(out, s->pos);
}

void pbPolytope_Support(const pbPolytopePair *pair, const double d[3], pbDifference *out) {
  double point[2][3];

  for (int k = 0; k < 2; k++) {
    const pbSupport *s = &pair->shape[k];
    double local[3];
    m3_tmulv(local, s->mat, d);
    if (k) v3_neg(local, local);

    // A corner, or a point of a round surface.
    out->id[k] = -1;
    if (s->corners) {
      out->id[k] = furthest(s, local);
      corner_in_world(s, out->id[k], point[k]);
    } else {
      double on[3];
      round_support(s, local, on);
      m3_mulv(point[k], s->mat, on);
      v3_addto(point[k], s->pos);
    }
  }
  v3_sub(out->m, point[0], point[1]);
}

void pbPolytope_Difference(const pbPolytopePair *pair, const int id[2], double m[3]) {
  double point[2][3];
  for (int k = 0; k < 2; k++) corner_in_world(&pair->shape[k], id[k], point[k]);
  v3_sub(m, point[0], point[1]);
}

double pbPolytope_Sigma(const pbPolytopePair *pair, const double n[3]) {
  pbDifference w;
  pbPolytope_Support(pair, n, &w);
  return v3_dot(n, w.m);
}

// ---- shapes ------------------------------------------------------------------------------------------------------------
// Of the ball about the shape's center that holds it.
static double radius_of(const pbSupport *s) {
  const double *size = s->size;

  // All entries' norm is at least the largest stretch.
  double stretch2 = v3_dot(s->mat, s->mat) + v3_dot(s->mat + 3, s->mat + 3) + v3_dot(s->mat + 6, s->mat + 6);
  if (s->hull) return s->hull->radius * (s->moved ? sqrt(stretch2) : 1);
  switch (s->type) {
    case pb_geomCapsule: return size[0] + size[1];
    case pb_geomCylinder: return sqrt(size[0] * size[0] + size[1] * size[1]);
    case pb_geomEllipsoid: return fmax(size[0], fmax(size[1], size[2]));
    case pb_geomBox: return v3_norm(size);
    default: return size[0];
  }
}

static void prepare(pbSupport *s) {
  static const int corners[] = {[pb_geomSphere] = 1, [pb_geomCapsule] = 2, [pb_geomBox] = 8, [pb_geomMesh] = 0};

  s->corners = s->hull ? s->hull->corners : corners[s->type];
  s->radius = s->type == pb_geomSphere || s->type == pb_geomCapsule ? s->size[0] : 0;

  // Corners of what is no hull.
  v3_zero(s->own);
  if (s->type == pb_geomBox) {
    for (int k = 0; k < 24; k++) s->own[k] = k / 3 & (1 << k % 3) ? s->size[k % 3] : -s->size[k % 3];
  }
  if (s->type == pb_geomCapsule) {
    for (int k = 0; k < 2; k++) v3_set(s->own + 3 * k, 0, 0, k ? s->size[1] : -s->size[1]);
  }
}

// ---- boxes -------------------------------------------------------------------------------------------------------------
// The box along the shape's axes that holds it: its center, from the center of shape 1, and half edges.
static void box_of(const pbSupport *s, double center[3], double half[3]) {
  const double *size = s->size;

  v3_copy(center, s->pos);
  switch (s->type) {
    case pb_geomSphere: v3_set(half, size[0], size[0], size[0]); return;
    case pb_geomCapsule: v3_set(half, size[0], size[0], size[0] + size[1]); return;
    case pb_geomCylinder: v3_set(half, size[0], size[0], size[1]); return;
    case pb_geomEllipsoid:
    case pb_geomBox: v3_copy(half, size); return;
    default: break;
  }

  double x[3];
  m3_mulv(x, s->mat, s->hull->center);
  v3_addto(center, x);
  v3_copy(half, s->hull->half);
}

// Is there a plane along an axis of one, or across one of each, that keeps the boxes further apart than reach? (Gottschalk, Lin,
// Manocha 1996.) Their centers are |apart . axis| from each other along it, and each box reaches half its width.
static bool boxes_apart(const pbPolytopePair *pair, double reach) {
  const pbSupport *a = &pair->shape[0], *b = &pair->shape[1];
  double center[2][3], half[2][3], apart[3], dif[3], turn[9], size[9];  // turn: the second's axes as columns
  if (a->moved || b->moved) return false;                               // their axes are not square

  for (int k = 0; k < 2; k++) box_of(&pair->shape[k], center[k], half[k]);
  v3_sub(dif, center[1], center[0]);
  m3_tmulv(apart, a->mat, dif);
  m3_tmul(turn, a->mat, b->mat);

  // Along an axis of the first.
  for (int i = 0; i < 9; i++) size[i] = fabs(turn[i]);
  for (int i = 0; i < 3; i++) {
    if (fabs(apart[i]) > half[0][i] + v3_dot(size + 3 * i, half[1]) + reach) return true;
  }

  // Along an axis of the second.
  for (int j = 0; j < 3; j++) {
    double along = apart[0] * turn[j] + apart[1] * turn[3 + j] + apart[2] * turn[6 + j];
    double first = half[0][0] * size[j] + half[0][1] * size[3 + j] + half[0][2] * size[6 + j];
    if (fabs(along) > first + half[1][j] + reach) return true;
  }

  // Along axis i of the first x axis j of the second. Such vectors are no longer than one, so that reach is on the safe side.
  for (int i = 0; i < 3; i++) {
    int i1 = (i + 1) % 3, i2 = (i + 2) % 3;
    for (int j = 0; j < 3; j++) {
      int j1 = (j + 1) % 3, j2 = (j + 2) % 3;
      double along = apart[i2] * turn[3 * i1 + j] - apart[i1] * turn[3 * i2 + j];
      double both = half[0][i1] * size[3 * i2 + j] + half[0][i2] * size[3 * i1 + j] + half[1][j1] * size[3 * i + j2] +
                    half[1][j2] * size[3 * i + j1];
      if (fabs(along) > both + reach) return true;
    }
  }

  return false;
}

// ---- what carries a normal ---------------------------------------------------------------------------------------------
// The plane of three corners of one shape, or (cross) of an edge of each, as a normal that turns with n.
typedef struct carrier {
  int id[3][2];
} carrier;

static bool carrier_normal(const pbPolytopePair *pair, const carrier *c, const double n[3], double out[3]) {
  double m[3][3], side[2][3];

  for (int k = 0; k < 3; k++) {
    double a[3], b[3];
    corner_in_world(&pair->shape[0], c->id[k][0], a);
    corner_in_world(&pair->shape[1], c->id[k][1], b);
    v3_sub(m[k], a, b);
  }

  // Of unit sides, so that a sine tells whether they are parallel.
  for (int k = 0; k < 2; k++) {
    v3_sub(side[k], m[k + 1], m[0]);
    if (!(v3_normalize(side[k]) > 0)) return false;
  }
  v3_cross(out, side[0], side[1]);
  if (!(v3_normalize(out) > PARALLEL)) return false;
  if (v3_dot(out, n) < 0) v3_neg(out, out);

  return true;
}

// A normal of it that is near n and as deep but for rounding: taken. *deepest: sigma at what there is.
static bool offer(pbPolytopePair *pair, const carrier *c, double deepest, pbPolytopeNormal *out) {
  double n[3], sigma;

  if (!carrier_normal(pair, c, out->n, n) || v3_dot(n, out->n) < PB_ALIGNED) return false;
  sigma = pbPolytope_Sigma(pair, n);
  if (!(sigma <= deepest + EQUAL * pair->scale)) return false;

  out->count = 3;
  memcpy(out->id, c->id, sizeof c->id);
  v3_copy(out->n, n);
  out->dist = -sigma;
  return true;
}

// Which of three corners are different.
static int different(const pbDifference m[3], int k, int id[3]) {
  int count = 0;

  for (int i = 0; i < 3; i++) {
    bool fresh = true;
    for (int j = 0; j < count; j++) fresh = fresh && id[j] != m[i].id[k];
    if (fresh) id[count++] = m[i].id[k];
  }
  return count;
}

static bool offer_face(pbPolytopePair *pair, int k, const int id[3], int other, double deepest, pbPolytopeNormal *out) {
  carrier c;
  for (int i = 0; i < 3; i++) {
    c.id[i][k] = id[i];
    c.id[i][!k] = other;
  }
  return offer(pair, &c, deepest, out);
}

// Of a hull whose points moved: a normal of a face, or the one of contact, from the shape's frame to world axes, by cofactors.
static void moved_normal(const pbSupport *s, const double n[3], double world[3]) {
  double cofactor[9];
  v3_cross(cofactor, s->mat + 3, s->mat + 6);
  v3_cross(cofactor + 3, s->mat + 6, s->mat);
  v3_cross(cofactor + 6, s->mat, s->mat + 3);
  m3_mulv(world, cofactor, n);
  v3_normalize(world);
}

static double face_cosine(const pbSupport *s, const double n[3], const double face[3]) {
  double a[3], b[3];
  if (!s->moved) return v3_dot(n, face);

  moved_normal(s, n, a);
  moved_normal(s, face, b);
  return v3_dot(a, b);
}

// Of the angle between a face and an edge (changed to a unit vector); 1 where that has no length.
static double edge_sine(const pbSupport *s, const double n[3], double edge[3]) {
  double world[3];
  v3_copy(world, n);
  if (s->moved) {
    moved_normal(s, n, world);
    m3_mulv(edge, s->mat, edge);
  }
  return v3_normalize(edge) > 0 ? fabs(v3_dot(edge, world)) : 1;
}

// The face of a box or hull at a corner whose normal is nearest to n (in its frame): the cosine, 0 where none is near.
static double flat_face(const pbSupport *s, const double n[3], int corner, pbFlat *flat) {
  double best = PB_ALIGNED;

  flat->sides = 1;
  if (s->type == pb_geomBox) {
    int axis = 0;
    for (int i = 1; i < 3; i++) axis = fabs(n[i]) > fabs(n[axis]) ? i : axis;
    flat->face = 2 * axis + (n[axis] > 0);
    if (fabs(n[axis]) > best) flat->sides = 4;
    best = fabs(n[axis]);
  }
  PB_ASSERT(corner >= 0 && corner < s->corners);
  if (!s->hull) return flat->sides > 1 ? best : 0;

  // Of the faces at the corner.
  const pbMeshHull *h = s->hull;
  for (int k = h->first_face[corner]; k < h->first_face[corner + 1]; k++) {
    double cosine = face_cosine(s, n, h->normal + 3 * h->face[k]);
    if (!(cosine > best)) continue;

    best = cosine;
    flat->face = h->face[k];
    flat->sides = h->first[flat->face + 1] - h->first[flat->face];
  }

  return flat->sides > 1 ? best : 0;
}

// The edge at a corner that is nearest to right angles with n.
static bool flat_edge(const pbSupport *s, const double n[3], int corner, pbFlat *flat) {
  double best = PB_LEVEL;
  int first = s->hull ? s->hull->first_next[corner] : 0, count = s->type == pb_geomBox ? 3 : s->type == pb_geomCapsule;

  if (s->hull) count = s->hull->first_next[corner + 1] - first;
  flat->sides = 1;
  flat->edge[0] = corner;

  // Along its neighbors.
  for (int k = 0; k < count; k++) {
    int other = s->hull ? s->hull->next[first + k] : corner ^ (1 << k);
    const double *corners = s->hull ? s->hull->corner : s->own;
    double e[3];
    v3_sub(e, corners + 3 * other, corners + 3 * corner);
    double sine = edge_sine(s, n, e);
    if (!(sine < best)) continue;

    best = sine;
    flat->edge[1] = other;
    flat->sides = 2;
  }

  return flat->sides > 1;
}

static void direction_in(const pbPolytopePair *pair, int k, const double n[3], double local[3]) {
  m3_tmulv(local, pair->shape[k].mat, n);
  if (k) v3_neg(local, local);
}

// Of a mesh the face with this normal that a corner is level with, be there but slivers at it.
static bool take_level_face(const pbSupport *s, const double n[3], int corner, pbFlat *flat) {
  int face = s->hull && !s->moved ? pbMeshHull_LevelFace(s->hull, n, corner) : -1;
  if (face >= 0) *flat = (pbFlat){.face = face, .sides = s->hull->first[face + 1] - s->hull->first[face]};
  return face >= 0;
}

// Flat features at the corners that carry the normal: faces, else the edge among them, else any edge. Of the faces at all these
// corners the nearest, whichever corner the search named first.
static void find_flat(const pbPolytopePair *pair, pbPolytopeNormal *out) {
  for (int k = 0; k < 2; k++) {
    pbFlat *flat = &out->flat[k];
    double n[3], nearest = 0;
    *flat = (pbFlat){.sides = 1};
    if (!pair->shape[k].corners) continue;

    direction_in(pair, k, out->n, n);
    for (int i = 0; i == 0 || i < out->count; i++) {
      pbFlat at = {.sides = 1};
      double cosine = flat_face(&pair->shape[k], n, out->id[i][k], &at);
      if (!(cosine > nearest || (cosine > 0 && cosine == nearest && at.face < flat->face))) continue;
      nearest = cosine;
      *flat = at;
    }
    if (pair->round && nearest < 1 - PB_SAME_FACE && take_level_face(&pair->shape[k], n, out->id[0][k], flat)) continue;
    if (nearest > 0) continue;

    // No face: an edge.
    int other = out->id[0][k];
    for (int i = 1; i < out->count; i++) other = out->id[i][k] != out->id[0][k] ? out->id[i][k] : other;
    if (other != out->id[0][k]) {
      *flat = (pbFlat){.sides = 2, .edge = {out->id[0][k], other}};
    } else {
      flat_edge(&pair->shape[k], n, out->id[0][k], flat);
    }

    // In order, so that the order of contacts does not hang on the search.
    if (flat->sides == 2 && flat->edge[0] > flat->edge[1]) *flat = (pbFlat){.sides = 2, .edge = {flat->edge[1], flat->edge[0]}};
  }
}

// Corners of a face, spread around it.
static void spread_corners(const pbSupport *s, const pbFlat *flat, int id[3]) {
  if (s->hull) {
    const int *around = s->hull->around + s->hull->first[flat->face];
    for (int i = 0; i < 3; i++) id[i] = around[i * flat->sides / 3];
    return;
  }

  int axis = flat->face / 2, base = flat->face % 2 << axis;
  PB_ASSERT(axis >= 0 && axis < 3 && s->type == pb_geomBox);
  id[0] = base;
  id[1] = base | 1 << (axis + 1) % 3;
  id[2] = base | 1 << (axis + 2) % 3;
}

// Faces before crossing edges, so that what lies flat on one has its normal; what nothing carries stands still.
static void find_carrier(pbPolytopePair *pair, const pbDifference m[3], double deepest, pbPolytopeNormal *out) {
  int id[2][3], count[2];

  // The corners found make a face, or are next to one.
  for (int k = 0; k < 2; k++) count[k] = different(m, k, id[k]);
  for (int k = 0; k < 2; k++) {
    if (count[k] == 3 && offer_face(pair, k, id[k], id[!k][0], deepest, out)) return;
  }
  for (int k = 0; k < 2; k++) {
    double local[3];
    int face[3];
    pbFlat flat;
    direction_in(pair, k, out->n, local);
    if (!(flat_face(&pair->shape[k], local, id[k][0], &flat) > 0)) continue;

    spread_corners(&pair->shape[k], &flat, face);
    if (offer_face(pair, k, face, id[!k][0], deepest, out)) return;
  }

  // An edge of each: of three corners there are three edges.
  if (count[0] < 2 || count[1] < 2) return;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) {
      const int *a = id[0], *b = id[1];
      carrier c = {{{a[i % count[0]], b[j % count[1]]},
                    {a[(i + 1) % count[0]], b[j % count[1]]},
                    {a[i % count[0]], b[(j + 1) % count[1]]}}};
      if (offer(pair, &c, deepest, out)) return;
    }
  }
}

// ---- faces -------------------------------------------------------------------------------------------------------------
static int corner_around(const pbSupport *s, const pbFlat *flat, int k) {
  if (s->hull) return s->hull->around[s->hull->first[flat->face] + k];

  // Of a box, counterclockwise from outside.
  int axis = flat->face / 2, upper = flat->face % 2, u = 1 << (axis + 1) % 3, v = 1 << (axis + 2) % 3;
  int turn[4] = {0, upper ? u : v, u | v, upper ? v : u};
  return upper << axis | turn[k];
}

// Seen along n: is a point over the face of shape k?
static bool is_over(const pbPolytopePair *pair, int k, const pbFlat *flat, const double n[3], const double x[3], double slack) {
  const pbSupport *s = &pair->shape[k];

  for (int i = 0; i < flat->sides; i++) {
    double a[3], edge[3], side[3];
    corner_in_world(s, corner_around(s, flat, i), a);
    corner_in_world(s, corner_around(s, flat, i + 1 == flat->sides ? 0 : i + 1), edge);
    v3_subfrom(edge, a);
    v3_cross(side, edge, n);
    if (k) v3_neg(side, side);
    v3_normalize(side);

    // Outward from this side.
    v3_sub(edge, x, a);
    if (v3_dot(edge, side) > slack) return false;
  }
  return true;
}

// Does the other shape's nearest corner to a face stand over it, so that the face carries the normal for certain?
static bool nearest_is_over(const pbPolytopePair *pair, int k, const pbFlat *flat, const double n[3]) {
  pbDifference w;
  double x[3];
  pbPolytope_Support(pair, n, &w);
  corner_in_world(&pair->shape[!k], w.id[!k], x);
  return is_over(pair, k, flat, n, x, pb_rounding(pair->scale, pair->away));
}

// What is next to 0 of M is of a face of one of the shapes, or over its border but for rounding (the search stops where distances
// are equal: an angle may be off by the root of that): it carries the normal.
static void find_level(pbPolytopePair *pair, pbPolytopeNormal *out) {
  double angle = pb_rounding(pair->scale, pair->away) / out->dist, deepest = UNEVEN * pair->scale - out->dist;

  // Of shapes that touch the direction may be rounding and see them overlap: a face that sees less of that is the better one.
  bool touching = out->dist < TOUCHING * pair->scale;
  if (touching) deepest = fmax(0, pbPolytope_Sigma(pair, out->n));
  bool overlap = touching && deepest > EQUAL * pair->scale;

  for (int k = 0; k < 2; k++) {
    pbPolytopeNormal face = *out;
    double local[3], beside[3];
    int id[3];
    pbFlat flat;
    direction_in(pair, k, out->n, local);
    if (!(flat_face(&pair->shape[k], local, out->id[0][k], &flat) > 0)) continue;

    // Over a face that keeps the shapes apart their distance is that from it.
    spread_corners(&pair->shape[k], &flat, id);
    if (!offer_face(pair, k, id, out->id[0][!k], deepest, &face)) continue;
    v3_sub(beside, face.n, out->n);
    if (!overlap && !(v3_norm(beside) <= angle) && !nearest_is_over(pair, k, &flat, face.n)) continue;

    // With the corner that is nearest to it.
    pbDifference w;
    pbPolytope_Support(pair, face.n, &w);
    for (int i = 0; i < 3; i++) face.id[i][!k] = w.id[!k];
    *out = face;
    return;
  }
}

// Seen along n: does the face of shape k hold all of the other one?
static bool reaches_around(const pbPolytopePair *pair, int k, const pbFlat flat[2], const double n[3]) {
  const pbSupport *other = &pair->shape[!k];

  for (int j = 0; j < flat[!k].sides; j++) {
    double x[3];
    corner_in_world(other, corner_around(other, &flat[!k], j), x);
    if (!is_over(pair, k, &flat[k], n, x, APART * pair->scale)) return false;
  }
  return true;
}

// Of two faces that lie on each other either carries the normal; tilted any way that of the one around the other does.
static void prefer_wider(pbPolytopePair *pair, pbPolytopeNormal *out) {
  if (out->count != 3) return;
  int k = out->id[0][1] == out->id[1][1] && out->id[0][1] == out->id[2][1] ? 0 : 1, id[3];
  if (out->id[0][!k] != out->id[1][!k] || out->id[0][!k] != out->id[2][!k]) return;

  // The faces at both.
  pbFlat flat[2];
  for (int i = 0; i < 2; i++) {
    double local[3];
    direction_in(pair, i, out->n, local);
    if (!(flat_face(&pair->shape[i], local, out->id[0][i], &flat[i]) > 0)) return;
  }

  // The other one's normal is the same, or nearly.
  pbPolytopeNormal wider = *out;
  double beside[3];
  spread_corners(&pair->shape[!k], &flat[!k], id);
  if (!offer_face(pair, !k, id, out->id[0][k], -out->dist, &wider)) return;
  v3_sub(beside, wider.n, out->n);
  if (!(v3_norm(beside) <= LEVEL)) return;
  if (reaches_around(pair, !k, flat, out->n) && !reaches_around(pair, k, flat, out->n)) *out = wider;
}

// ---- height fields -----------------------------------------------------------------------------------------------------
// How far apart in height along n (out of the ground) the ends are of what a body has next to the ground: a face, or a capsule's
// or a cylinder's line; of a cylinder's cap, too. Infinite: a corner, or nothing flat. deepest: the corner furthest against n.
static double unevenness_along(const pbPolytopePair *pair, const double n[3], int deepest) {
  const pbSupport *body = &pair->shape[1];
  double local[3], least = INFINITY, most = -INFINITY;
  pbFlat flat;
  direction_in(pair, 1, n, local);
  if (body->type == pb_geomCapsule) return 2 * body->size[1] * fabs(local[2]);
  if (body->type == pb_geomCylinder)
    return fmin(2 * body->size[1] * fabs(local[2]), 2 * body->size[0] * sqrt(local[0] * local[0] + local[1] * local[1]));
  if (body->corners < 4 || !flat_face(body, local, deepest, &flat)) return INFINITY;

  // Of a face all corners.
  for (int k = 0; k < flat.sides; k++) {
    double x[3];
    corner_in_world(body, corner_around(body, &flat, k), x);
    least = fmin(least, v3_dot(x, n));
    most = fmax(most, v3_dot(x, n));
  }
  return most - least;
}

// What lies on the top of a field's prism touches along the top's normal whatever of it is over the prism. (The prism's upright
// sides are inside of the ground; where a body reaches over one by less than it sinks in, that is nearer than the top.)
static bool lie_on_top(pbPolytopePair *pair, pbPolytopeNormal *out) {
  const pbSupport *field = &pair->shape[0], *body = &pair->shape[1];
  if (field->type != pb_geomHfield) return false;

  double n[3], local[3];
  pbDifference w;
  m3_mulv(n, field->mat, field->hull->normal);
  pbPolytope_Support(pair, n, &w);
  double depth = v3_dot(n, w.m);

  // Beside the ground, or too deep in it: no matter of its surface.
  if (!(depth + body->radius <= SINKS * pair->scale)) return false;
  if (!(unevenness_along(pair, n, w.id[1]) <= LIES * pair->scale)) return false;

  // The top carries the normal.
  out->count = 3;
  out->dist = -depth;
  v3_copy(out->n, n);
  for (int i = 0; i < 3; i++) {
    out->id[i][0] = field->hull->around[i];
    out->id[i][1] = w.id[1];
  }

  // A cylinder with its cap or its side; see what is polished.
  direction_in(pair, 1, n, local);
  out->is_round = pair->round;
  out->round = (pbRound){.kind = pb_roundFace, .sign = {0, 0, local[2] > 0 ? 1 : -1}};
  for (int i = 0; i < 3; i++) out->round.id[i] = field->hull->around[i];
  v3_copy(out->round.u, n);
  return true;
}

// ---- the search --------------------------------------------------------------------------------------------------------
static void from_outside(pbPolytopePair *pair, const pbDifference *simplex, int count, const double v[3], pbPolytopeNormal *out) {
  double length = v3_norm(v);
  PB_ASSERT(length > 0 && count >= 1 && count <= 3);

  v3_scale(out->n, v, -1 / length);
  out->dist = length;
  out->count = count < 3 ? count : 0;
  for (int k = 0; k < 3; k++) memcpy(out->id[k], simplex[k < count ? k : 0].id, sizeof out->id[k]);
  if (pair->round) return;

  // Of a short v the direction is rounding: then a plainer normal need only be as deep as what it gives.
  if (count == 3) find_carrier(pair, simplex, fmax(-length, pbPolytope_Sigma(pair, out->n)), out);
  if (out->count < 3) find_level(pair, out);
  prefer_wider(pair, out);
}

// count: of the simplex; 0: from what was grown close by.
static bool from_inside(pbPolytopePair *pair, const pbDifference *simplex, int count, pbPolytopeNormal *out) {
  pbDifference facet[3];
  double depth, accuracy = (pair->round ? BASIN : ACCURACY) * pair->scale;

  // Well inside of what was grown close by, or from the simplex.
  bool again = !count && pbPolytope_EpaAgain(pair, accuracy, facet, out->n, &depth);
  if (!again && (!count || !pbPolytope_Epa(pair, accuracy, simplex, count, facet, out->n, &depth))) return false;
  out->dist = -depth;
  out->count = 0;
  for (int k = 0; k < 3; k++) memcpy(out->id[k], facet[k].id, sizeof out->id[k]);
  if (pair->round) return true;

  find_carrier(pair, facet, depth, out);
  prefer_wider(pair, out);

  return true;
}

// Of a normal that nothing carries: its support.
static void set_support(pbPolytopePair *pair, pbPolytopeNormal *out) {
  pbDifference w;
  if (out->count) return;

  pbPolytope_Support(pair, out->n, &w);
  memcpy(out->id[0], w.id, sizeof w.id);
  out->dist = -v3_dot(out->n, w.m);
}

static bool find_normal(pbPolytopePair *pair, double reach, pbPolytopeNormal *out) {
  pbDifference simplex[4];
  double v[3];
  int count = 0;

  // On a height field first: touching to rounding the others may find nothing.
  out->lies = lie_on_top(pair, out);
  if (out->lies) return true;
  if (pair->grown && pair->grown->whole && !pair->round && from_inside(pair, simplex, 0, out)) return true;

  // Of shapes that overlap the nearest facet, of others the nearest point.
  switch (pbPolytope_Gjk(pair, reach, simplex, &count, v)) {
    case pb_gjkApart: return false;
    case pb_gjkNear: from_outside(pair, simplex, count, v, out); return true;
    default: return from_inside(pair, simplex, count, out);
  }
}

bool pbPolytope_Search(pbPolytopePair *pair, double margin, pbPolytopeNormal *out) {
  return pbPolytope_SearchNear(pair, margin, NULL, out);
}

bool pbPolytope_SearchNear(pbPolytopePair *pair, double margin, pbGrown *grown, pbPolytopeNormal *out) {
  double radii = 0, *apart = pair->shape[1].pos;

  pair->grown = grown;
  pair->scale = 0;
  pair->round = out->is_round = false;
  for (int k = 0; k < 2; k++) {
    prepare(&pair->shape[k]);
    pair->scale += radius_of(&pair->shape[k]);
    pair->round = pair->round || !pair->shape[k].corners;
    radii += pair->shape[k].radius;
  }

  // Positions from the center of shape 1.
  pair->away = fmax(v3_norm(apart), v3_norm(pair->shape[0].pos));
  v3_subfrom(apart, pair->shape[0].pos);
  v3_zero(pair->shape[0].pos);
  if (!(v3_norm(apart) <= pair->scale + margin) || !(pair->scale < 1e150)) return false;  // also where a position is NaN

  // Most pairs are apart; the slack is of rounding.
  if (boxes_apart(pair, fmax(margin, 0) + APART * pair->scale)) return false;

  pair->gap = (pair->round ? ROUGH : GAP) * pair->scale;
  if (!find_normal(pair, margin + radii, out)) return false;

  // Newton's method for what is round, then the shapes' radii.
  out->scale = pair->scale;
  if (pair->round && !out->lies) {
    pbPolytope_Polish(pair, out);
  } else if (!out->lies) {
    set_support(pair, out);
  }
  PB_VALIDATE(out->lies || pbPolytope_IsLeast(pair, out, out->dist));
  out->dist -= radii;
  if (!(out->dist <= margin)) return false;
  find_flat(pair, out);

  return true;
}

#else
typedef int polytope_search_is_for_doubles;
#endif
