// Features of two shapes that meet exactly: one map where there is one, that of the primitives a hull is made after; else a tie.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "geometry/pair.h"
#include "geometry/polytope.h"
#include "geometry/tie.h"
#include "math/vec.h"
#include "model/mesh.h"
#include "model/model.h"

// A box as a hull: corners by the bits of their signs, faces of two triangles.
static const int around[24] = {0, 4, 6, 2, 1, 3, 7, 5, 0, 1, 5, 4, 2, 6, 7, 3, 0, 2, 3, 1, 4, 5, 7, 6};
static const double normal[18] = {-1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 1};
typedef struct solid {
  pbMeshHull hull;
  double corner[24];
  int first[7], first_face[9], face[24], first_next[9], next[48], triangle[36], vertex[8];
} solid;

// Neighbors of a corner: along edges, and across the faces' diagonals from their first corner to their third.
static int neighbors_of(int corner, int *next) {
  int count = 0;
  for (int f = 0; f < 6; f++) {
    for (int k = 0; k < 4; k++) {
      const int *a = around + 4 * f;
      if (a[k] != corner) continue;
      next[count++] = a[(k + 1) % 4];
      if (k % 2 == 0) next[count++] = a[(k + 2) % 4];
    }
  }
  return count;
}

static pbShape_r make_hull(const double half[3], solid *s) {
  int faces = 0, nexts = 0;
  for (int c = 0; c < 8; c++) {
    for (int i = 0; i < 3; i++) s->corner[3 * c + i] = c & 1 << i ? half[i] : -half[i];
    s->first_face[c] = faces;
    s->first_next[c] = nexts;
    s->vertex[c] = c;
    for (int k = 0; k < 24; k++) {
      if (around[k] == c) s->face[faces++] = k / 4;
    }
    nexts += neighbors_of(c, s->next + nexts);
  }
  s->first_face[8] = faces;
  s->first_next[8] = nexts;
  for (int f = 0; f < 6; f++) {
    const int *a = around + 4 * f, triangles[6] = {a[0], a[1], a[2], a[0], a[2], a[3]};
    memcpy(s->triangle + 6 * f, triangles, sizeof triangles);
    s->first[f] = 4 * f;
  }
  s->first[6] = 24;
  s->hull = (pbMeshHull){.corners = 8,
                         .polygons = 6,
                         .corner = s->corner,
                         .vertex = s->vertex,
                         .normal = normal,
                         .first = s->first,
                         .around = around,
                         .first_face = s->first_face,
                         .face = s->face,
                         .first_next = s->first_next,
                         .next = s->next,
                         .triangles = 12,
                         .triangle = s->triangle,
                         .radius = v3_norm(half)};
  pbMeshHull_SetBox(&s->hull);
  return (pbShape_r){.type = pb_geomMesh, .hull = &s->hull, .nudged = -1, .mat = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
}

static pbShape_r make(int type, double a, double b, double c) {
  return (pbShape_r){.type = type, .size = {a, b, c}, .nudged = -1, .mat = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
}

typedef struct touch {
  int count;
  pbContactPoint_r contact[PB_MAX_CONTACT_POINTS];
  pbContactJacobian jacobian[PB_MAX_CONTACT_POINTS];
  bool tied;
} touch;

static touch meet(const pbShape_r *s1, const pbShape_r *s2) {
  touch t = {.count = 0};
  t.count = pbPair_Collide_r(s1, s2, 0, t.contact);
  assert_true(t.count > 0);
  pbPair_Jacobian_r(s1, s2, 0, NULL, t.count, t.contact, t.jacobian);
  t.tied = pbPair_Tied_r(s1, s2, 0, t.count, t.contact);
  return t;
}

// Derivatives by moves of shape 2 (rows of the contact's distance, place and normal), to rounding.
static void assert_same(const touch *a, const touch *b) {
  assert_int_equal(a->count, b->count);
  for (int k = 0; k < a->count; k++) {
    for (int r = 0; r < 7; r++) {
      for (int c = 0; c < 6; c++) assert_float_equal(a->jacobian[k].d[r][c], b->jacobian[k].d[r][c], 1e-9);
    }
  }
}

// Over a face, its diagonal and its middle as a box has it; over its border a tie, on hull and box.
static void test_ball_on_a_face(void **unused) {
  (void)unused;
  static const double place[4][2] = {{0.03, 0.01}, {0, 0}, {0.04, 0.04}, {0.04, -0.04}};
  static solid s;
  double half[3] = {0.2, 0.2, 0.1};
  pbShape_r hull = make_hull(half, &s), box = make(pb_geomBox, 0.2, 0.2, 0.1), ball = make(pb_geomSphere, 0.05, 0, 0);
  for (int k = 0; k < 4; k++) {
    v3_set(ball.pos, place[k][0], place[k][1], 0.1499);
    touch on_hull = meet(&ball, &hull), on_box = meet(&ball, &box);
    assert_same(&on_hull, &on_box);
    assert_false(on_hull.tied || on_box.tied);
  }
  v3_set(ball.pos, 0.2, 0.01, 0.1499);
  assert_true(meet(&ball, &hull).tied && meet(&ball, &box).tied);
}

// A capsule and a box that lie on a hull: each end and corner has its own rate, and the hull carries the normal.
static void test_flat_on_a_face(void **unused) {
  (void)unused;
  static solid s;
  double half[3] = {0.2, 0.2, 0.1};
  pbShape_r hull = make_hull(half, &s), other[2] = {make(pb_geomCapsule, 0.05, 0.06, 0), make(pb_geomBox, 0.05, 0.05, 0.05)};
  double lying[9] = {0, 0, 1, 0, 1, 0, -1, 0, 0};
  m3_copy(other[0].mat, lying);
  for (int k = 0; k < 2; k++) {
    for (int place = 0; place < 2; place++) {
      v3_set(other[k].pos, 0.031 * place, 0.017 * place, 0.1499);
      touch t = meet(&other[k], &hull);
      assert_int_equal(t.count, k ? 4 : 2);
      assert_false(t.tied);
      for (int i = 0; i < t.count; i++) {
        // The hull turns about its center: the distance by the lever of the point, the normal with the hull.
        assert_float_equal(t.jacobian[i].d[0][0], -t.contact[i].pos[1], 1e-4);
        assert_float_equal(t.jacobian[i].d[0][1], t.contact[i].pos[0], 1e-4);
        assert_float_equal(t.jacobian[i].d[4][1], t.contact[i].normal[2], 1e-9);
      }
    }
  }
}

// A cylinder stands on a box and on a hull as on a plane, exactly upright and nearly so.
static void test_upright_cylinder(void **unused) {
  (void)unused;
  static solid s;
  double half[3] = {0.2, 0.2, 0.1};
  pbShape_r hull = make_hull(half, &s), box = make(pb_geomBox, 0.2, 0.2, 0.1), plane = make(pb_geomPlane, 0, 0, 0);
  v3_set(plane.pos, 0, 0, 0.1);
  for (double tilt = 0; tilt<1e-2; tilt = tilt> 0 ? 100 * tilt : 1e-12) {
    pbShape_r can = make(pb_geomCylinder, 0.05, 0.08, 0);
    double q[4], axis[3] = {0.6, 0.8, 0};
    quat_axisangle(q, axis, tilt);
    quat_to_mat(can.mat, q);
    v3_set(can.pos, 0.031, 0.017, 0.1799);
    touch on_plane = meet(&plane, &can), others[2] = {meet(&can, &box), meet(&can, &hull)};
    for (int k = 0; k < 2; k++) {
      assert_int_equal(others[k].count, on_plane.count);
      assert_false(others[k].tied);
      for (int i = 0; i < on_plane.count; i++) {
        double d[3];
        v3_sub(d, others[k].contact[i].pos, on_plane.contact[i].pos);
        // From the cylinder down, and turning with what it stands on.
        assert_float_equal(others[k].contact[i].normal[2], -1, 1e-12);
        assert_float_equal(others[k].jacobian[i].d[4][1], -1, 1e-9);
        assert_true(v3_norm(d) < 1e-9 && fabs(others[k].contact[i].dist - on_plane.contact[i].dist) < 1e-12);
      }
    }
  }
}

// Equal faces, and a corner on a corner: no map is that of all directions.
static void test_ties_are_told(void **unused) {
  (void)unused;
  static solid s, t;
  double half[3] = {0.05, 0.05, 0.05}, wider[3] = {0.2, 0.05, 0.05}, longer[3] = {0.05, 0.2, 0.05};
  pbShape_r a = make_hull(half, &s), b = make_hull(half, &t);
  v3_set(b.pos, 0, 0, 0.0999);
  assert_true(meet(&a, &b).tied);
  a = make_hull(wider, &s);
  b = make_hull(longer, &t);
  v3_set(b.pos, 0, 0, 0.0999);
  assert_true(meet(&a, &b).tied);

  // Within the other's face.
  wider[1] = 0.1;
  a = make_hull(wider, &s);
  b = make_hull(half, &t);
  v3_set(b.pos, 0.01, 0, 0.0999);
  assert_false(meet(&a, &b).tied);
}

static bool search(const pbShape_r *s1, const pbShape_r *s2, pbGrown *grown, pbPolytopeNormal *found) {
  pbPolytopePair pair;
  to_support(s1, &pair.shape[0]);
  to_support(s2, &pair.shape[1]);
  return pbPolytope_SearchNear(&pair, 0, grown, found);
}

// Deep in each other: a search that goes on from the one at a pose nearby finds what one from nothing does. Far away it may begin
// anew.
static void test_searches_go_on(void **state) {
  static const double half1[3] = {0.11, 0.07, 0.05}, half2[3] = {0.06, 0.09, 0.04}, move[3] = {1e-7, 1e-4, 3e-2};
  static pbGrown grown;
  solid s, t;
  pbPolytopeNormal again, anew;
  (void)state;

  pbShape_r a = make_hull(half1, &s), b = make_hull(half2, &t);
  for (int k = 0; k < 100; k++) {
    double turn = 0.3 + 0.37 * k, tilt = 0.2 + 0.53 * k;
    double mat[9] = {cos(turn), -sin(turn) * cos(tilt), sin(turn) * sin(tilt),  //
                     sin(turn), cos(turn) * cos(tilt),  -cos(turn) * sin(tilt), 0, sin(tilt), cos(tilt)};
    memcpy(b.mat, mat, sizeof mat);
    for (int i = 0; i < 3; i++) b.pos[i] = 0.05 * sin(1.1 * k + 2.3 * i + 0.4);

    grown.whole = false;
    assert_true(search(&a, &b, &grown, &again) && grown.whole);
    for (int i = 0; i < 6; i++) {
      pbShape_r moved = b;
      moved.pos[i % 3] += move[i / 2];
      assert_true(search(&a, &moved, &grown, &again) && search(&a, &moved, NULL, &anew));
      assert_true(fabs(again.dist - anew.dist) < 1e-12);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ball_on_a_face), cmocka_unit_test(test_flat_on_a_face),
                                     cmocka_unit_test(test_upright_cylinder), cmocka_unit_test(test_ties_are_told),
                                     cmocka_unit_test(test_searches_go_on)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
