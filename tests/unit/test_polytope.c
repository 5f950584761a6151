// Contacts of hulls with each other and with other shapes: depths against all normals that a facet of the difference can have,
// points on both surfaces, Jacobians against complex step and differences, flat faces, and shapes in the same place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "geometry/pair.h"
#include "math/vec.h"
#include "model/mesh.h"
#include "model/model.h"
#include "support/support.h"

enum { CORNERS = 96, EDGES = 3 * CORNERS, FACES = 2 * CORNERS };

// A hull with room for its tables; its faces are triangles, or those of a box.
typedef struct solid {
  pbMeshHull hull;
  double corner[CORNERS][3], normal[FACES][3];
  int first[FACES + 1], around[3 * FACES], first_face[CORNERS + 1], face[3 * FACES], first_next[CORNERS + 1], next[2 * EDGES],
      triangle[FACES][3];
} solid;

static void add_face(solid *s, const double n[3], const int *corner, int count) {
  int f = s->hull.polygons++;
  v3_copy(s->normal[f], n);
  s->first[f + 1] = s->first[f] + count;
  for (int k = 0; k < count; k++) s->around[s->first[f] + k] = corner[k];
}

// Faces at corners and neighbors, from the faces.
static void finish(solid *s, int corners) {
  pbMeshHull *h = &s->hull;
  int faces = 0, nexts = 0;
  for (int c = 0; c < corners; c++) {
    s->first_face[c] = faces;
    s->first_next[c] = nexts;
    for (int f = 0; f < h->polygons; f++) {
      int begin = s->first[f], count = s->first[f + 1] - begin;
      for (int k = 0; k < count; k++) {
        if (s->around[begin + k] != c) continue;
        s->face[faces++] = f;
        s->next[nexts++] = s->around[begin + (k + 1) % count];
      }
    }
  }
  // Triangles: fans of the faces.
  int triangles = 0;
  for (int f = 0; f < h->polygons; f++) {
    const int *corner = s->around + s->first[f];
    for (int k = 2; k < s->first[f + 1] - s->first[f]; k++) {
      s->triangle[triangles][0] = corner[0];
      s->triangle[triangles][1] = corner[k - 1];
      s->triangle[triangles++][2] = corner[k];
    }
  }
  s->first_face[corners] = faces;
  s->first_next[corners] = nexts;
  *h = (pbMeshHull){.corners = corners,
                    .polygons = h->polygons,
                    .corner = s->corner[0],
                    .normal = s->normal[0],
                    .first = s->first,
                    .around = s->around,
                    .first_face = s->first_face,
                    .face = s->face,
                    .first_next = s->first_next,
                    .next = s->next,
                    .triangles = triangles,
                    .triangle = s->triangle[0]};
  for (int c = 0; c < corners; c++) h->radius = fmax(h->radius, v3_norm(s->corner[c]));
  pbMeshHull_SetBox(h);
}

// Points on an ellipsoid: all are corners. A face is a triangle that no other point is beyond.
static void make_random(uint64_t *seed, int corners, solid *s) {
  double radii[3];
  memset(s, 0, sizeof *s);
  for (int i = 0; i < 3; i++) radii[i] = 0.2 + 0.15 * random_unit(seed);
  for (int c = 0; c < corners; c++) {
    double v[3] = {random_unit(seed), random_unit(seed), random_unit(seed)};
    v3_normalize(v);
    for (int i = 0; i < 3; i++) s->corner[c][i] = radii[i] * v[i];
  }
  for (int a = 0; a < corners; a++) {
    for (int b = 0; b < corners; b++) {
      for (int c = a + 1; c < corners && b > a; c++) {
        double ab[3], ac[3], n[3];
        v3_sub(ab, s->corner[b], s->corner[a]);
        v3_sub(ac, s->corner[c], s->corner[a]);
        v3_cross(n, ab, ac);
        v3_normalize(n);
        bool outer = b != c;
        for (int k = 0; k < corners && outer; k++) {
          double d[3];
          v3_sub(d, s->corner[k], s->corner[a]);
          outer = k == a || k == b || k == c || v3_dot(n, d) < 0;
        }
        if (outer) add_face(s, n, (int[3]){a, b, c}, 3);
      }
    }
  }
  finish(s, corners);
}

static void make_box(const double half[3], solid *s) {
  memset(s, 0, sizeof *s);
  for (int c = 0; c < 8; c++) {
    for (int i = 0; i < 3; i++) s->corner[c][i] = c & (1 << i) ? half[i] : -half[i];
  }
  for (int f = 0; f < 6; f++) {
    int axis = f / 2, u = 1 << (axis + 1) % 3, v = 1 << (axis + 2) % 3, base = f % 2 << axis;
    double n[3] = {0, 0, 0};
    n[axis] = f % 2 ? 1 : -1;
    add_face(s, n, (int[4]){base, base | (f % 2 ? u : v), base | u | v, base | (f % 2 ? v : u)}, 4);
  }
  finish(s, 8);
}

// An upright prism, turned and stored in single precision: its caps are not quite flat.
static void make_prism(uint64_t *seed, int sides, solid *s) {
  int lower[CORNERS], upper[CORNERS];
  double mat[9], n[3] = {0, 0, 1}, down[3] = {0, 0, -1};
  memset(s, 0, sizeof *s);
  random_rotation(seed, mat);
  for (int k = 0; k < sides; k++) {
    double angle = 2 * PB_PI * k / sides;
    upper[k] = k;
    lower[sides - 1 - k] = k + sides;
    for (int z = 0; z < 2; z++) {
      double *x = s->corner[k + z * sides];
      v3_set(x, 0.3 * cos(angle), 0.2 * sin(angle), z ? -0.1 : 0.1);
      m3_mulv(x, mat, x);
      for (int i = 0; i < 3; i++) x[i] = (float)x[i];
    }
  }
  m3_mulv(n, mat, n);
  m3_mulv(down, mat, down);
  add_face(s, n, upper, sides);
  add_face(s, down, lower, sides);
  for (int k = 0; k < sides; k++) {
    int next = (k + 1) % sides;
    add_face(s, n, (int[4]){k, k + sides, next + sides, next}, 4);
  }
  finish(s, 2 * sides);
}

// Among many corners, also of caps that face the direction but for rounding: that of a look at all of them.
static void test_supports(void **unused) {
  (void)unused;
  static solid s;
  uint64_t seed = 9;
  int start[PB_HULL_STARTS];
  for (int shape = 0; shape < 12; shape++) {
    if (shape % 2) make_prism(&seed, 8 + 3 * shape, &s);
    else make_random(&seed, 40, &s);
    pbMeshHull_SetStarts(&s.hull, start);
    for (int trial = 0; trial < 2000; trial++) {
      double d[3], off = pow(10, -trial % 12);
      int best = 0;
      for (int i = 0; i < 3; i++) d[i] = random_unit(&seed) * off + (trial % 3 ? s.normal[trial % 2][i] : 0);
      for (int c = 0; c < s.hull.corners; c++) best = v3_dot(d, s.corner[c]) > v3_dot(d, s.corner[best]) ? c : best;
      int found = pbMeshHull_Support(&s.hull, d);
      if (found != best) fail_msg("shape %d, trial %d: corner %d, %d is furthest", shape, trial, found, best);
    }
  }
}

static pbShape_r place(const solid *s, const double pos[3], const double mat[9]) {
  pbShape_r shape = {.type = pb_geomMesh, .hull = &s->hull, .nudged = -1};
  v3_copy(shape.pos, pos);
  m3_copy(shape.mat, mat);
  return shape;
}

// ---- depth ----------------------------------------------------------------------------------------------------------
static double furthest(const pbShape_r *s, const double n[3]) {
  double best = -INFINITY, m[3];
  m3_tmulv(m, s->mat, n);
  for (int c = 0; c < s->hull->corners; c++) best = fmax(best, v3_dot(m, s->hull->corner + 3 * c));
  return best + v3_dot(n, s->pos);
}

static double sigma(const pbShape_r *s1, const pbShape_r *s2, const double n[3]) {
  double back[3];
  v3_neg(back, n);
  return furthest(s1, n) + furthest(s2, back);
}

// Over all directions that a facet of the difference can have: of faces, and across two edges.
static double least_sigma(const pbShape_r *s1, const pbShape_r *s2) {
  const pbShape_r *s[2] = {s1, s2};
  double best = INFINITY, n[3];
  for (int k = 0; k < 2; k++) {
    for (int f = 0; f < s[k]->hull->polygons; f++) {
      m3_mulv(n, s[k]->mat, s[k]->hull->normal + 3 * f);
      if (k) v3_neg(n, n);
      best = fmin(best, sigma(s1, s2, n));
    }
  }
  const pbMeshHull *h1 = s1->hull, *h2 = s2->hull;
  for (int a = 0; a < h1->corners; a++) {
    for (int i = h1->first_next[a]; i < h1->first_next[a + 1]; i++) {
      for (int b = 0; b < h2->corners; b++) {
        for (int j = h2->first_next[b]; j < h2->first_next[b + 1]; j++) {
          double d1[3], d2[3], e1[3], e2[3];
          v3_sub(d1, h1->corner + 3 * h1->next[i], h1->corner + 3 * a);
          v3_sub(d2, h2->corner + 3 * h2->next[j], h2->corner + 3 * b);
          m3_mulv(e1, s1->mat, d1);
          m3_mulv(e2, s2->mat, d2);
          v3_cross(n, e1, e2);
          if (v3_normalize(n) > 1e-9) best = fmin(best, sigma(s1, s2, n));
        }
      }
    }
  }
  return best;
}

static double outside(const pbShape_r *s, const double point[3]) {
  double d[3], local[3], worst = -INFINITY;
  v3_sub(d, point, s->pos);
  m3_tmulv(local, s->mat, d);
  for (int f = 0; f < s->hull->polygons; f++) {
    double x[3];
    v3_sub(x, local, s->hull->corner + 3 * s->hull->around[s->hull->first[f]]);
    worst = fmax(worst, v3_dot(x, s->hull->normal + 3 * f));
  }
  return worst;
}

// The points of both shapes, half the distance from pos along the normal, are on their surfaces or within.
static void check_contacts(const char *what, const pbShape_r *s1, const pbShape_r *s2, double margin, double dist) {
  pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
  int count = pbPair_Collide_r(s1, s2, margin, c), deepest = 0;
  if (dist > margin) {
    if (count) fail_msg("%s: a contact at %.17g of shapes %.17g apart", what, c[0].dist, dist);
    return;
  }
  if (!count) fail_msg("%s: no contact of shapes %.17g apart", what, dist);
  for (int k = 0; k < count; k++) {
    double p1[3], p2[3];
    if (c[k].dist < c[deepest].dist) deepest = k;
    v3_along(p1, c[k].pos, c[k].normal, -0.5 * c[k].dist);
    v3_along(p2, c[k].pos, c[k].normal, 0.5 * c[k].dist);
    if (!(outside(s1, p1) < 1e-9 && outside(s2, p2) < 1e-9))
      fail_msg("%s: contact %d of %d is %.3g and %.3g outside", what, k, count, outside(s1, p1), outside(s2, p2));
    if (!(fabs(v3_norm(c[k].normal) - 1) < 1e-14)) fail_msg("%s: normal of length %.17g", what, v3_norm(c[k].normal));
  }
  if (!(fabs(c[deepest].dist - dist) < 1e-10)) fail_msg("%s: distance %.17g, not %.17g", what, c[deepest].dist, dist);
  if (!(fabs(sigma(s1, s2, c[0].normal) + dist) < 1e-10)) fail_msg("%s: the normal is not that of the distance", what);
}

static void test_depth_is_least(void **unused) {
  (void)unused;
  uint64_t seed = 5;
  static solid a, b;
  int overlapping = 0;
  for (int trial = 0; trial < 300; trial++) {
    double zero[3] = {0, 0, 0}, pos[3], mat[2][9], half[3] = {0.1, 0.15, 0.2};
    char what[40];
    make_random(&seed, 4 + trial % 9, &a);
    make_random(&seed, 4 + trial % 7, &b);
    if (trial % 5 == 0) make_box(half, &a);
    if (trial % 7 == 0) make_box(half, &b);
    for (int i = 0; i < 3; i++) pos[i] = 0.25 * random_unit(&seed);
    for (int k = 0; k < 2; k++) random_rotation(&seed, mat[k]);
    if (trial % 6 == 0) m3_copy(mat[1], mat[0]);
    pbShape_r s1 = place(&a, zero, mat[0]), s2 = place(&b, pos, mat[1]);
    double depth = least_sigma(&s1, &s2);
    if (depth < 0) continue;
    overlapping++;
    snprintf(what, sizeof what, "trial %d", trial);
    check_contacts(what, &s1, &s2, 0, -depth);
  }
  assert_true(overlapping > 100);
}

// Moved apart from where they touch, along the normal: the distance is what they were moved by.
static void test_apart(void **unused) {
  (void)unused;
  uint64_t seed = 9;
  static solid a, b;
  for (int trial = 0; trial < 300; trial++) {
    double zero[3] = {0, 0, 0}, pos[3], n[3], mat[2][9], gap = 0.02 + 0.015 * random_unit(&seed);
    char what[40];
    make_random(&seed, 4 + trial % 9, &a);
    make_random(&seed, 4 + trial % 7, &b);
    for (int k = 0; k < 2; k++) random_rotation(&seed, mat[k]);
    for (int i = 0; i < 3; i++) n[i] = random_unit(&seed);
    v3_normalize(n);
    if (trial % 3 == 0) m3_mulv(n, mat[0], a.normal[0]);

    // Corner against corner, or corner against a face.
    pbShape_r s1 = place(&a, zero, mat[0]), s2 = place(&b, zero, mat[1]);
    double m[3], p1[3] = {0}, p2[3] = {0}, h1 = -INFINITY, h2 = -INFINITY;
    for (int c = 0; c < a.hull.corners; c++) {
      m3_mulv(m, mat[0], a.corner[c]);
      if (v3_dot(m, n) > h1) {
        h1 = v3_dot(m, n);
        v3_copy(p1, m);
      }
    }
    for (int c = 0; c < b.hull.corners; c++) {
      m3_mulv(m, mat[1], b.corner[c]);
      if (-v3_dot(m, n) > h2) {
        h2 = -v3_dot(m, n);
        v3_copy(p2, m);
      }
    }
    if (trial % 3 == 0) {  // the middle of the face
      v3_zero(p1);
      for (int k = 0; k < 3; k++) {
        m3_mulv(m, mat[0], a.corner[a.around[k]]);
        v3_addscl(p1, m, 1.0 / 3);
      }
    }
    v3_sub(pos, p1, p2);
    v3_addscl(pos, n, gap);
    v3_copy(s2.pos, pos);
    snprintf(what, sizeof what, "trial %d", trial);
    check_contacts(what, &s1, &s2, 0.05, gap);
    check_contacts(what, &s1, &s2, 0.004, gap);
  }
}

// ---- flat on flat ---------------------------------------------------------------------------------------------------
static void test_stacked_boxes(void **unused) {
  (void)unused;
  static solid a;
  static const double turned[9] = {0.8, -0.6, 0, 0.6, 0.8, 0, 0, 0, 1}, level[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  double half[3] = {0.1, 0.1, 0.1}, low[3] = {0, 0, 0}, high[3] = {0.03, 0, 0.199};
  make_box(half, &a);
  for (int turn = 0; turn < 2; turn++) {
    pbShape_r mesh1 = place(&a, low, level), mesh2 = place(&a, high, turn ? turned : level), box = mesh1;
    box.type = pb_geomBox;
    box.hull = NULL;
    v3_copy(box.size, half);
    for (int kind = 0; kind < 2; kind++) {
      pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
      int count = pbPair_Collide_r(kind ? &box : &mesh1, &mesh2, 0, c);
      // Turned, the faces have an octagon in common.
      assert_int_equal(count, turn ? 8 : 4);
      for (int k = 0; k < count; k++) {
        assert_true(fabs(c[k].dist + 0.001) < 1e-15 && fabs(c[k].pos[2] - 0.0995) < 1e-15 && fabs(c[k].normal[2] - 1) < 1e-15);
        if (!turn)
          assert_true(fabs(fabs(c[k].pos[1]) - 0.1) < 1e-14 &&
                      (fabs(c[k].pos[0] + 0.07) < 1e-14 || fabs(c[k].pos[0] - 0.1) < 1e-14));
      }
    }
  }
}

// Capsule, cylinder lying and standing on a face: two, two and three points at their depths.
static void test_round_on_a_face(void **unused) {
  (void)unused;
  static solid a;
  static const double level[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, lying[9] = {0, 0, 1, 1, 0, 0, 0, 1, 0};
  double half[3] = {0.3, 0.3, 0.1}, low[3] = {0, 0, 0};
  static const struct {
    int type, count;
    double height;
    bool lies;
  } cases[] = {{pb_geomCapsule, 2, 0.05, true},
               {pb_geomCylinder, 2, 0.05, true},
               {pb_geomCylinder, 3, 0.12, false},
               {pb_geomSphere, 1, 0.05, false},
               {pb_geomCapsule, 1, 0.17, false}};
  make_box(half, &a);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    pbShape_r mesh = place(&a, low, level), other = {.type = cases[k].type, .size = {0.05, 0.12, 0}};
    if (other.type == pb_geomSphere) other.size[1] = 0;
    m3_copy(other.mat, cases[k].lies ? lying : level);
    v3_set(other.pos, 0.01, 0.02, 0.1 + cases[k].height - 0.001);
    pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
    assert_int_equal(pbPair_Collide_r(&other, &mesh, 0, c), cases[k].count);
    for (int i = 0; i < cases[k].count; i++)
      assert_true(fabs(c[i].dist + 0.001) < 1e-14 && fabs(c[i].normal[2] + 1) < 1e-14 && fabs(c[i].pos[2] - 0.0995) < 1e-14);
  }
}

// Equal shapes in one place, and whatever is not finite.
static void test_hostile(void **unused) {
  (void)unused;
  static solid a;
  double half[3] = {0.1, 0.15, 0.2}, zero[3] = {0, 0, 0}, level[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  make_box(half, &a);
  pbShape_r s1 = place(&a, zero, level), s2 = s1;
  check_contacts("one in the other", &s1, &s2, 0, -0.2);
  static const double odd[] = {NAN, INFINITY, 1e300, -1e160};
  for (int k = 0; k < 4; k++) {
    pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
    s2.pos[k % 3] = odd[k];
    assert_int_equal(pbPair_Collide_r(&s1, &s2, 0.1, c), 0);
  }
}

// ---- Jacobians ------------------------------------------------------------------------------------------------------
static void lift(const pbShape_r *in, pbShape_c *out) {
  out->type = in->type;
  out->hull = in->hull;
  out->vertex = NULL;
  out->nudged = -1;
  out->motion = in->motion;
  for (int i = 0; i < 9; i++) out->stretch[i] = in->stretch[i];
  for (int i = 0; i < 3; i++) out->shift[i] = in->shift[i];
  for (int i = 0; i < 3; i++) {
    out->pos[i] = in->pos[i];
    out->size[i] = in->size[i];
  }
  for (int i = 0; i < 9; i++) out->mat[i] = in->mat[i];
}

static int moved(const pbShape_r *s1, const pbShape_r *s2, int column, double h, pbContactPoint_r *contacts) {
  pbShape_r a = *s1, b = *s2;
  if (column < 3) {
    double q[4] = {cos(0.5 * h), 0, 0, 0}, turn[9];
    q[1 + column] = sin(0.5 * h);
    quat_to_mat(turn, q);
    m3_mul(b.mat, turn, s2->mat);
  } else if (column < 6) {
    b.pos[column - 3] += h;
  } else if (column < 9) {
    a.size[column - 6] += h;
  } else {
    b.size[column - 9] += h;
  }
  return pbPair_Collide_r(&a, &b, 0.05, contacts);
}

// By Richardson's rule from two central differences; false where they do not agree: a change of features.
static bool difference(const pbShape_r *s1, const pbShape_r *s2, int column, int count, double (*out)[10]) {
  pbContactPoint_r c[4][PB_MAX_CONTACT_POINTS];
  static const double h[4] = {1e-5, -1e-5, 5e-6, -5e-6};
  for (int k = 0; k < 4; k++) {
    if (moved(s1, s2, column, h[k], c[k]) != count) return false;
  }
  for (int k = 0; k < count; k++) {
    for (int r = 0; r < 10; r++) {
      double wide = (((double *)&c[0][k])[r] - ((double *)&c[1][k])[r]) / 2e-5,
             narrow = (((double *)&c[2][k])[r] - ((double *)&c[3][k])[r]) / 1e-5;
      if (!(fabs(wide - narrow) < 1e-5 * (1 + fabs(narrow)))) return false;
      out[k][r] = narrow + (narrow - wide) / 3;
    }
  }
  return true;
}

static void seed_column(const pbShape_r *s2, int column, pbShape_c *c1, pbShape_c *c2) {
  if (column < 3) {
    int a = (column + 1) % 3, b = (column + 2) % 3;
    for (int k = 0; k < 3; k++) {
      __imag__ c2->mat[3 * a + k] = -PB_IMAG_STEP * s2->mat[3 * b + k];
      __imag__ c2->mat[3 * b + k] = PB_IMAG_STEP * s2->mat[3 * a + k];
    }
  } else if (column < 6) {
    __imag__ c2->pos[column - 3] = PB_IMAG_STEP;
  } else if (column < 9) {
    __imag__ c1->size[column - 6] = PB_IMAG_STEP;
  } else {
    __imag__ c2->size[column - 9] = PB_IMAG_STEP;
  }
}

// Shapes that lie flat on each other, or nearly so: a box of each kind, a capsule, prisms, edges along each other; some stretched.
static void lay_flat(uint64_t *seed, int kind, solid *a, solid *b, pbShape_r *s1, pbShape_r *s2) {
  static const double zero[3] = {0}, half[3] = {0.2, 0.15, 0.1};
  double tilt = kind == 4 ? 1e-5 : 0.05, q[4] = {1, 0, 0, 0}, turn[9], mat[2][9], pos[3];
  make_box(half, b);
  make_box(half, a);
  if (kind == 3) make_random(seed, 16, a);
  random_rotation(seed, mat[1]);
  for (int i = 1; i < 4; i++) q[i] = tilt * random_unit(seed);
  if (kind < 4) q[3] = random_unit(seed);
  if (kind == 2) q[0] = q[2] = 1;
  quat_normalize(q);
  quat_to_mat(turn, q);
  m3_mul(mat[0], mat[1], turn);
  v3_set(pos, 0.1 * random_unit(seed), 0.1 * random_unit(seed), kind == 2 ? 0.14 : 0.195);
  if (kind == 4) v3_set(pos, 0.1 * random_unit(seed), 2 * half[1] + 0.004, 2 * half[2] + 0.004);  // edge by edge, apart
  m3_mulv(pos, mat[1], pos);
  *s1 = place(a, pos, mat[0]);
  *s2 = place(b, zero, mat[1]);
  if (kind == 1 || kind == 2) {
    s1->type = kind == 1 ? pb_geomBox : pb_geomCapsule;
    s1->hull = NULL;
    v3_copy(s1->size, half);
    if (kind == 2) v3_set(s1->size, 0.05, 0.3, 0);
  }
  if (kind == 5) {
    s2->motion = pb_hullMoves;
    for (int i = 0; i < 9; i++) s2->stretch[i] = (i % 4 == 0) + 0.04 * random_unit(seed) * (i % 4 == 0);
    v3_set(s2->shift, 0.01, -0.01, 0.005);
  }
}

static void same_rates(const char *what, int kind, const double *value, const pbContactPoint_c *c) {
  for (int r = 0; r < 10; r++) {
    double rate = ((const double *)c)[2 * r + 1] / PB_IMAG_STEP;
    if (!(fabs(value[r] - rate) < 1e-8 * (1 + fabs(rate))))
      fail_msg("%s, kind %d, row %d: %g, complex step %g", what, kind, r, value[r], rate);
  }
}

// Of many points, by poses, sizes and strains.
static void test_flat_rates(void **unused) {
  (void)unused;
  static solid a, b;
  uint64_t seed = 12;
  int found[6] = {0};
  for (int trial = 0; trial < 300; trial++) {
    int kind = trial % 6;
    pbShape_r s[2];
    pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
    pbContactPoint_c made[PB_MAX_CONTACT_POINTS];
    pbContactJacobian j[PB_MAX_CONTACT_POINTS];
    lay_flat(&seed, kind, &a, &b, &s[0], &s[1]);
    int count = pbPair_Collide_r(&s[0], &s[1], 0.02, c);
    if (!count) continue;
    found[kind] += count > 1;
    pbPair_Jacobian_r(&s[0], &s[1], 0.02, NULL, count, c, j);
    for (int column = 0; column < 12; column++) {
      pbShape_c s1, s2;
      lift(&s[0], &s1);
      lift(&s[1], &s2);
      seed_column(&s[1], column, &s1, &s2);
      assert_int_equal(pbPair_Collide_c(&s1, &s2, 0.02, made), count);
      for (int k = 0; k < count; k++) {
        double value[10];
        for (int r = 0; r < 10; r++) value[r] = j[k].d[r][column];
        if (s[0].hull && column >= 6) continue;
        same_rates("column", kind, value, &made[k]);
      }
    }

    // The strain of each shape, from one cotangent of each row.
    for (int k = 0; k < count; k++) {
      for (int which = 0; which < 2; which++) {
        double value[6][10];
        for (int r = 0; r < 10; r++) {
          pbContactBar bar[PB_MAX_CONTACT_POINTS];
          double strain[2][6];
          memset(bar, 0, sizeof bar);
          bar[k].row[r] = 1;
          pbPair_PullStrain_r(s, 0.02, NULL, count, bar, (bool[2]){true, true}, strain);
          for (int e = 0; e < 6; e++) value[e][r] = strain[which][e];
        }
        for (int e = 0; e < 6 && s[which].hull; e++) {
          pbShape_c strained[2];
          int p = e < 3 ? e : (e + 1) % 3, q = e < 3 ? e : (e + 2) % 3;
          for (int i = 0; i < 2; i++) lift(&s[i], &strained[i]);
          for (int i = 0; i < 3; i++) {
            __imag__ strained[which].mat[3 * i + p] += 0.5 * PB_IMAG_STEP * s[which].mat[3 * i + q];
            __imag__ strained[which].mat[3 * i + q] += 0.5 * PB_IMAG_STEP * s[which].mat[3 * i + p];
          }
          assert_int_equal(pbPair_Collide_c(&strained[0], &strained[1], 0.02, made), count);
          same_rates("strain", kind, value[e], &made[k]);
        }
      }
    }
  }
  for (int kind = 0; kind < 6; kind++) {
    if (found[kind] < 10) fail_msg("kind %d: %d with more than one point", kind, found[kind]);
  }
}

static void test_jacobians(void **unused) {
  (void)unused;
  static const int types[] = {pb_geomSphere, pb_geomCapsule, pb_geomEllipsoid, pb_geomCylinder, pb_geomBox, pb_geomMesh};
  static solid a, b;
  uint64_t seed = 3;
  for (int t = 0; t < 6; t++) {
    int compared = 0, found = 0;
    for (int trial = 0; trial < 60; trial++) {
      double pos[3], mat[2][9], zero[3] = {0, 0, 0}, half[3] = {0.2, 0.15, 0.1};
      make_random(&seed, 12, &a);
      make_random(&seed, 12, &b);
      if (trial % 3 == 0) make_box(half, &b);
      for (int k = 0; k < 2; k++) random_rotation(&seed, mat[k]);
      for (int i = 0; i < 3; i++) pos[i] = 0.35 * random_unit(&seed);
      pbShape_r s1 = place(&a, pos, mat[0]), s2 = place(&b, zero, mat[1]);
      s1.type = types[t];
      if (types[t] != pb_geomMesh) s1.hull = NULL;
      v3_set(s1.size, 0.08, types[t] == pb_geomSphere ? 0 : 0.12, 0.1);

      pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
      pbContactJacobian jac[PB_MAX_CONTACT_POINTS];
      int count = pbPair_Collide_r(&s1, &s2, 0.05, c);
      found += count > 0;
      pbPair_Jacobian_r(&s1, &s2, 0.05, NULL, count, c, jac);
      for (int column = 0; column < 12 && count; column++) {
        double quotient[PB_MAX_CONTACT_POINTS][10];
        pbShape_c c1, c2;
        pbContactPoint_c exact[PB_MAX_CONTACT_POINTS];
        lift(&s1, &c1);
        lift(&s2, &c2);
        seed_column(&s2, column, &c1, &c2);
        assert_int_equal(pbPair_Collide_c(&c1, &c2, 0.05, exact), count);
        bool smooth = difference(&s1, &s2, column, count, quotient);
        compared += smooth;
        for (int k = 0; k < 10 * count; k++) {
          double d = jac[k / 10].d[k % 10][column], e = ((double *)&exact[k / 10])[2 * (k % 10) + 1] / PB_IMAG_STEP;
          if (!(fabs(d - e) < 1e-12 * (1 + fabs(d))))
            fail_msg("type %d trial %d column %d: %.15g, complex step %.15g", types[t], trial, column, d, e);
          if (smooth && !(fabs(d - quotient[k / 10][k % 10]) < 1e-6 * (1 + d * d)))
            fail_msg("type %d trial %d contact %d of %d row %d column %d: %.12g, difference %.12g", types[t], trial, k / 10,
                     count, k % 10, column, d, quotient[k / 10][k % 10]);
        }
      }
    }
    if (!(found > 15 && compared > 10 * found)) fail_msg("type %d: %d found, %d columns compared", types[t], found, compared);
  }
}

// A tiny move meets the same features, a large one mostly others.
static void test_features(void **unused) {
  (void)unused;
  static const int types[] = {pb_geomCapsule, pb_geomEllipsoid, pb_geomCylinder, pb_geomBox, pb_geomMesh};
  static solid a, b;
  uint64_t seed = 8;
  for (int t = 0; t < 5; t++) {
    int found = 0, same = 0, others = 0;
    for (int trial = 0; trial < 60; trial++) {
      double mat[2][9], zero[3] = {0, 0, 0};
      pbContactPoint_r c[PB_MAX_CONTACT_POINTS];
      make_random(&seed, 12, &a);
      make_random(&seed, 12, &b);
      for (int k = 0; k < 2; k++) random_rotation(&seed, mat[k]);
      pbShape_r s1 = place(&a, zero, mat[0]), s2 = place(&b, zero, mat[1]), near = s2, far = s2;
      s1.type = types[t];
      if (types[t] != pb_geomMesh) s1.hull = NULL;
      v3_set(s1.size, 0.08, 0.12, 0.1);
      for (int i = 0; i < 3; i++) s1.pos[i] = 0.3 * random_unit(&seed);
      for (int i = 0; i < 3; i++) near.pos[i] = 1e-10 * random_unit(&seed);
      random_rotation(&seed, far.mat);
      if (!pbPair_Collide_r(&s1, &s2, 0, c)) continue;
      found++;
      same += pbPair_Feature_r(&s1, &s2) == pbPair_Feature_r(&s1, &near);
      others += pbPair_Feature_r(&s1, &s2) != pbPair_Feature_r(&s1, &far);
    }
    if (!(found >= 10 && same == found && others > found / 2))
      fail_msg("type %d: %d, %d the same, %d others", types[t], found, same, others);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_depth_is_least),  cmocka_unit_test(test_apart),    cmocka_unit_test(test_stacked_boxes),
      cmocka_unit_test(test_round_on_a_face), cmocka_unit_test(test_hostile),  cmocka_unit_test(test_jacobians),
      cmocka_unit_test(test_features),        cmocka_unit_test(test_supports), cmocka_unit_test(test_flat_rates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
