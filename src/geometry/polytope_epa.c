// The facet of M (polytope.h) nearest to 0, by a polytope of corners of M that grows where it is nearest to 0. Its facets' planes
// bound the depth from below, the supports along their normals from above: where both meet, the facet is the nearest for certain.
// 0 may be outside: then the facet is the one that 0 is furthest beyond. In doubles.
// Tests: tests/unit/test_polytope.c, tests/unit/test_poses.c, tests/oracle/test_polytopes.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/polytope.h"

#define FLAT   1e-9  // of the scale: a first tetrahedron must be thicker
#define INSIDE 1e-6  // of the scale: 0 is this far below the faces of a polytope that is used again

typedef pbGrownFace face;
typedef pbGrown growing;

// ---- the first tetrahedron ---------------------------------------------------------------------------------------------
// How far a point is from the first corner, the line through two, the plane through three.
static double height_over(const growing *g, const double point[3]) {
  double x[3], side[3], other[3], n[3];
  PB_ASSERT(g->corners >= 1 && g->corners <= 3);
  v3_sub(x, point, g->corner[0].m);
  if (g->corners == 1) return v3_norm(x);

  v3_sub(side, g->corner[1].m, g->corner[0].m);
  v3_cross(n, side, x);
  if (g->corners == 2) return v3_norm(n) / v3_norm(side);

  v3_sub(other, g->corner[2].m, g->corner[0].m);
  v3_cross(n, side, other);
  v3_normalize(n);
  return fabs(v3_dot(n, x));
}

// One more corner: the furthest of the supports along these directions; false: flat.
static bool widen(growing *g, const double (*d)[3], int directions) {
  double best = FLAT * g->pair->scale;
  bool found = false;

  for (int k = 0; k < directions; k++) {
    pbDifference w;
    pbPolytope_Support(g->pair, d[k], &w);
    double height = height_over(g, w.m);
    if (!(height > best)) continue;

    best = height;
    found = true;
    g->corner[g->corners] = w;
  }

  g->corners += found;
  return found;
}

// Up to four corners that are not in a plane.
static bool complete(growing *g) {
  static const double axes[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
  double d[4][3], side[3], other[3];

  if (g->corners < 2 && !widen(g, axes, 6)) return false;
  v3_sub(side, g->corner[1].m, g->corner[0].m);

  // Four directions around the line.
  if (g->corners < 3) {
    int least = 0;
    for (int k = 1; k < 3; k++) least = fabs(side[k]) < fabs(side[least]) ? k : least;
    v3_cross(d[0], side, axes[2 * least]);
    v3_cross(d[2], side, d[0]);

    v3_normalize(d[0]);
    v3_normalize(d[2]);
    v3_neg(d[1], d[0]);
    v3_neg(d[3], d[2]);
    if (!widen(g, d, 4)) return false;
  }

  // Both sides of the plane.
  if (g->corners < 4) {
    v3_sub(other, g->corner[2].m, g->corner[0].m);
    v3_cross(d[0], side, other);
    v3_normalize(d[0]);
    v3_neg(d[1], d[0]);
    return widen(g, d, 2);
  }

  return true;
}

// Of the simplex what is wide enough stays.
static void keep_wide(growing *g) {
  pbDifference given[4];
  int count = g->corners;
  memcpy(given, g->corner, (size_t)count * sizeof given[0]);

  g->corners = 1;
  for (int k = 1; k < count && k < 4; k++) {
    if (height_over(g, given[k].m) > FLAT * g->pair->scale) g->corner[g->corners++] = given[k];
  }
}

// ---- faces -------------------------------------------------------------------------------------------------------------
// Plane of a face; of one that has no area that of its neighbor.
static void set_plane(growing *g, face *f, const double fallback[3]) {
  const double *a = g->corner[f->corner[0]].m, *b = g->corner[f->corner[1]].m, *c = g->corner[f->corner[2]].m;
  double ab[3], ac[3];

  v3_sub(ab, b, a);
  v3_sub(ac, c, a);
  v3_cross(f->n, ab, ac);
  double area = v3_norm(f->n), length = fmax(v3_norm(ab), v3_norm(ac));
  if (area > 1e-13 * length * g->pair->scale) {
    v3_scale(f->n, f->n, 1 / area);
  } else {
    v3_copy(f->n, fallback);
  }

  // The least of the three: a bound also where the normal is rough.
  f->low = fmin(v3_dot(f->n, a), fmin(v3_dot(f->n, b), v3_dot(f->n, c)));
  f->dead = false;
}

static void first_faces(growing *g) {
  static const short corner[4][3] = {{0, 1, 2}, {0, 3, 1}, {1, 3, 2}, {2, 3, 0}},
                     next[4][3] = {{1, 2, 3}, {3, 2, 0}, {1, 3, 0}, {2, 1, 0}};
  static const double none[3] = {1, 0, 0};
  double n[3], ab[3], ac[3], ad[3];

  v3_sub(ab, g->corner[1].m, g->corner[0].m);
  v3_sub(ac, g->corner[2].m, g->corner[0].m);
  v3_sub(ad, g->corner[3].m, g->corner[0].m);
  v3_cross(n, ab, ac);

  // Corner 3 is below the first face.
  if (v3_dot(n, ad) > 0) {
    pbDifference swap = g->corner[1];
    g->corner[1] = g->corner[2];
    g->corner[2] = swap;
  }
  g->faces = 4;
  for (int k = 0; k < 4; k++) {
    memcpy(g->face[k].corner, corner[k], sizeof corner[k]);
    memcpy(g->face[k].next, next[k], sizeof next[k]);
    set_plane(g, &g->face[k], none);
  }
}

// By its bound.
static int nearest_face(const growing *g) {
  int best = -1;
  for (int k = 0; k < g->faces; k++) {
    if (!g->face[k].dead && (best < 0 || g->face[k].low < g->face[best].low)) best = k;
  }
  return best;
}

static int side_from(const face *f, int corner) {
  for (int k = 0; k < 3; k++) {
    if (f->corner[k] == corner) return k;
  }
  return -1;
}

static void kill(growing *g, int f) {
  PB_ASSERT(!g->face[f].dead && g->opens < PB_GROWN_FACES);
  g->face[f].dead = true;
  g->open[g->opens++] = (short)f;
}

// A face from the side u v of the horizon, beyond which face `beyond` stays, to the new corner.
static bool add_face(growing *g, short u, short v, short beyond) {
  if (g->start[u] >= 0 || (!g->spares && g->faces == PB_GROWN_FACES)) return false;

  short made = g->spares ? g->spare[--g->spares] : (short)g->faces++;
  face *f = &g->face[made], *other = &g->face[beyond];
  f->corner[0] = u;
  f->corner[1] = v;
  f->corner[2] = (short)(g->corners - 1);
  f->next[0] = beyond;
  f->next[1] = f->next[2] = -1;

  int side = side_from(other, v);
  PB_ASSERT(beyond >= 0 && made < PB_GROWN_FACES && side >= 0 && other->corner[(side + 1) % 3] == u);
  other->next[side] = made;

  set_plane(g, f, other->n);
  g->start[u] = made;

  return true;
}

// The faces that see the new corner, from the seed on; their rim: sides (from, to) and the face beyond. Returns its length.
static int find_rim(growing *g, int seed, const double w[3], short rim[PB_GROWN_FACES][3]) {
  int rims = 0;
  double zero = 1e-14 * g->pair->scale;

  g->opens = 0;
  kill(g, seed);

  // All that see it and hang together; the list grows on the way.
  for (int k = 0; k < g->opens; k++) {
    const face *f = &g->face[g->open[k]];
    for (int e = 0; e < 3; e++) {
      const face *next = &g->face[f->next[e]];
      if (!next->dead && v3_dot(next->n, w) > next->low + zero) kill(g, f->next[e]);
    }
  }

  // Their sides with faces that stay.
  for (int k = 0; k < g->opens; k++) {
    const face *f = &g->face[g->open[k]];
    for (int e = 0; e < 3; e++) {
      if (g->face[f->next[e]].dead) continue;
      if (rims == PB_GROWN_FACES) return 0;
      rim[rims][0] = f->corner[e];
      rim[rims][1] = f->corner[(e + 1) % 3];
      rim[rims++][2] = f->next[e];
    }
  }

  return rims;
}

// They give way to a fan from their rim to the new corner. False: no room, or rounding tore the polytope.
static bool grow(growing *g, int seed, const pbDifference *w) {
  short rim[PB_GROWN_FACES][3];
  int rims = find_rim(g, seed, w->m, rim);

  if (!rims || g->corners == PB_GROWN_CORNERS) return false;

  g->corner[g->corners++] = *w;
  // A face for each side of the rim.
  for (int k = 0; k < g->corners; k++) g->start[k] = -1;
  for (int k = 0; k < rims; k++) {
    if (!add_face(g, rim[k][0], rim[k][1], rim[k][2])) return false;
  }

  // Neighbors within the fan.
  for (int k = 0; k < rims; k++) {
    short made = g->start[rim[k][0]], next = g->start[rim[k][1]];
    if (next < 0) return false;

    g->face[made].next[1] = next;
    g->face[next].next[2] = made;
  }

  // Room for later ones.
  for (int k = 0; k < g->opens; k++) g->spare[g->spares++] = g->open[k];

  return true;
}

static bool is_corner(const growing *g, const pbDifference *w) {
  for (int k = 0; k < g->corners; k++) {
    const double *m = g->corner[k].m;
    if (m[0] == w->m[0] && m[1] == w->m[1] && m[2] == w->m[2]) return true;
  }
  return false;
}

// Whether no corner of M is beyond the face's plane by more than the accuracy; else the one furthest beyond.
static bool is_facet(const growing *g, const face *f, double accuracy, pbDifference *w) {
  pbPolytope_Support(g->pair, f->n, w);
  return !(v3_dot(f->n, w->m) > f->low + accuracy) || is_corner(g, w);
}

// What is returned: a face, the highest of M along its normal.
static double take(const growing *g, const face *f, double value, pbDifference facet[3], double n[3]) {
  for (int k = 0; k < 3; k++) facet[k] = g->corner[f->corner[k]];
  v3_copy(n, f->n);
  return value;
}

// The nearest face moves outward, or is what was looked for. Returns whether it is.
static bool find_facet(growing *g, double accuracy, pbDifference facet[3], double n[3], double *depth) {
  *depth = INFINITY;
  for (;;) {
    int nearest = nearest_face(g);
    pbDifference w;
    face *f = &g->face[nearest];
    if (nearest < 0) return false;

    bool found = is_facet(g, f, accuracy, &w);
    double value = v3_dot(f->n, w.m);

    // It only looked nearer, by rounding: no corner is left to take. (Where corners moved the polytope may have a dent.)
    if (found && value > f->low + accuracy) {
      if (g->moved) return false;
      f->low = value;
      if (value < *depth) *depth = take(g, f, value, facet, n);
      continue;
    }

    if (value < *depth || found) *depth = take(g, f, value, facet, n);
    if (found || !grow(g, nearest, &w)) return found;
  }
}

bool pbPolytope_Epa(pbPolytopePair *pair, double accuracy, const pbDifference *simplex, int count, pbDifference facet[3],
                    double n[3], double *depth) {
  growing room, *g = pair->grown ? pair->grown : &room;

  PB_ASSERT(count >= 1 && count <= 4);
  g->pair = pair;
  g->corners = count;
  g->spares = 0;
  g->whole = g->moved = false;
  memcpy(g->corner, simplex, (size_t)count * sizeof *simplex);

  // A tetrahedron to begin with.
  keep_wide(g);
  if (!complete(g)) return false;
  first_faces(g);
  g->whole = find_facet(g, accuracy, facet, n, depth);

  return *depth < INFINITY;
}

bool pbPolytope_EpaAgain(pbPolytopePair *pair, double accuracy, pbDifference facet[3], double n[3], double *depth) {
  growing *g = pair->grown;
  if (!g->whole) return false;

  // Its corners are still of M; their bounds hold if 0 is inside, well below all faces.
  g->pair = pair;
  g->whole = false;
  g->moved = true;
  for (int k = 0; k < g->corners; k++) pbPolytope_Difference(pair, g->corner[k].id, g->corner[k].m);
  for (int k = 0; k < g->faces; k++) {
    face *f = &g->face[k];
    double before[3];
    if (f->dead) continue;
    v3_copy(before, f->n);
    set_plane(g, f, before);
    if (!(f->low > INSIDE * pair->scale) || !(v3_dot(f->n, before) > 0)) return false;
  }

  g->whole = find_facet(g, accuracy, facet, n, depth);
  return g->whole;
}

#else
typedef int polytope_epa_is_for_doubles;
#endif
