// Meshes: sizes of what is generated against closed forms, how cells meet, what checks find.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/mesh.h>

#include "support/meter.h"
#include "support/support.h"

static const double pi = 3.14159265358979323846;

#define OK(ctx, expression)                                                           \
  do {                                                                                \
    if ((expression) != pb_ok) fail_msg("%s: %s", #expression, pbContext_Error(ctx)); \
  } while (0)
#define NEAR(value, wanted, relative)                                                                             \
  do {                                                                                                            \
    double is = (value), should = (wanted);                                                                       \
    if (!(fabs(is - should) <= (relative)*fabs(should))) fail_msg("%s: %.17g, wanted %.17g", #value, is, should); \
  } while (0)

// Six times the volume within outward triangles, and their area.
static void enclosed(const pbMesh *m, const pbCells *triangles, double *volume, double *area) {
  *volume = *area = 0;
  for (int i = 0; i < triangles->count; i++) {
    const double *a = m->point + 3 * triangles->vertex[3 * i], *b = m->point + 3 * triangles->vertex[3 * i + 1],
                 *c = m->point + 3 * triangles->vertex[3 * i + 2];
    double n[3], u[3], v[3];
    for (int k = 0; k < 3; k++) {
      u[k] = b[k] - a[k];
      v[k] = c[k] - a[k];
    }
    n[0] = u[1] * v[2] - u[2] * v[1];
    n[1] = u[2] * v[0] - u[0] * v[2];
    n[2] = u[0] * v[1] - u[1] * v[0];
    *volume += (a[0] * n[0] + a[1] * n[1] + a[2] * n[2]) / 6;
    *area += sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]) / 2;
  }
}

// A solid is sound: no fault, one part, its boundary closed, turned outward, of this area and Euler characteristic 2.
static pbMeshReport solid(pbContext *ctx, const pbMesh *m, double volume, double area) {
  pbMeshReport r, skin;
  OK(ctx, pbMesh_Check(ctx, m, pb_meshConnected, &r));
  assert_int_equal(r.unused, 0);
  NEAR(r.volume, volume, 1e-13);
  pbCells boundary, edges;
  OK(ctx, pbMesh_Boundary(ctx, m, &boundary));
  pbMesh shell = {.ctx = ctx, .name = m->name, .points = m->points, .point = m->point, .cells = {[pb_cellTriangle] = boundary}};
  OK(ctx, pbMesh_Check(ctx, &shell, pb_meshClosed | pb_meshOriented | pb_meshManifold | pb_meshConnected, &skin));
  double inside, outside;
  enclosed(m, &boundary, &inside, &outside);
  NEAR(inside, volume, 1e-13);
  NEAR(outside, area, 1e-13);
  NEAR(skin.area, area, 1e-13);
  OK(ctx, pbCells_Edges(ctx, pb_cellTriangle, &boundary, &edges));
  assert_int_equal(m->points - skin.unused - edges.count + boundary.count, 2);
  pbCells_Clear(ctx, &edges);
  pbCells_Clear(ctx, &boundary);
  return r;
}

static int edge_count(pbContext *ctx, const pbMesh *m, pbCellKind kind) {
  pbCells edges;
  OK(ctx, pbCells_Edges(ctx, kind, &m->cells[kind], &edges));
  int count = edges.count;
  pbCells_Clear(ctx, &edges);
  return count;
}

static void test_chain(void **state) {
  pbContext *ctx = *state;
  pbMesh *m;
  pbMeshReport r;
  const double from[3] = {1, 2, 3}, to[3] = {1, 5, 7};
  OK(ctx, pbMesh_Chain(ctx, from, to, 7, &m));
  OK(ctx, pbMesh_Check(ctx, m, pb_meshConnected, &r));
  NEAR(r.length, 5, 1e-15);
  assert_int_equal(m->points, 8);
  assert_memory_equal(m->point + 21, to, sizeof to);
  pbMesh_Destroy(m);
  assert_int_equal(pbMesh_Chain(ctx, from, to, 0, &m), pb_bad_argument);
}

static void test_grid(void **state) {
  pbContext *ctx = *state;
  for (int pattern = 0; pattern < 2; pattern++) {
    pbMesh *m;
    pbMeshReport r;
    pbGrid g = {.corner = {1, 0, 0}, .u = {2, 0, 0}, .v = {0.5, 3, 0}, .cells = {5, 4}, .pattern = pattern};
    OK(ctx, pbMesh_Grid(ctx, &g, &m));
    OK(ctx, pbMesh_Check(ctx, m, pb_meshManifold | pb_meshOriented | pb_meshConnected, &r));
    NEAR(r.area, 6, 1e-14);
    assert_int_equal(r.open_edges, 2 * (5 + 4));
    assert_int_equal(m->points - edge_count(ctx, m, pb_cellTriangle) + m->cells[pb_cellTriangle].count, 1);
    double volume, area;
    for (int i = 0; i < m->points; i++) m->point[3 * i + 2] = 1;  // normals along z: the volume below is that of the area
    enclosed(m, &m->cells[pb_cellTriangle], &volume, &area);
    NEAR(volume, 6.0 / 3, 1e-14);
    // each inner edge is a hinge of the two triangles beside it
    pbCells hinges;
    OK(ctx, pbCells_Hinges(ctx, &m->cells[pb_cellTriangle], &hinges));
    assert_int_equal(hinges.count, edge_count(ctx, m, pb_cellTriangle) - r.open_edges);
    for (int i = 0; i < hinges.count; i++) {
      const int *h = hinges.vertex + 4 * i;
      pbCells pair = {.count = 2, .vertex = (int[]){h[0], h[1], h[2], h[1], h[0], h[3]}};
      enclosed(m, &pair, &volume, &area);
      NEAR(area, 6.0 / 20, 1e-13);
      NEAR(volume, 6.0 / 60, 1e-13);  // both turned as in the mesh
    }
    pbCells_Clear(ctx, &hinges);
    pbMesh_Destroy(m);
  }
  pbMesh *m = NULL;
  pbGrid none = {.u = {1, 0, 0}, .v = {2, 0, 0}, .cells = {1, 1}};
  assert_int_equal(pbMesh_Grid(ctx, &none, &m), pb_bad_argument);
  pbGrid large = {.u = {1, 0, 0}, .v = {0, 1, 0}, .cells = {1 << 30, 1 << 30}};
  assert_int_equal(pbMesh_Grid(ctx, &large, &m), pb_capacity);
  assert_null(m);
}

static void test_disc_and_cylinder(void **state) {
  pbContext *ctx = *state;
  for (int rings = 1; rings <= 5; rings++) {
    pbMesh *m;
    pbMeshReport r;
    int n = 6 * rings;
    double base = 0.5 * n * sin(2 * pi / n) * 1.5 * 1.5, rim = 2 * n * sin(pi / n) * 1.5;
    OK(ctx, pbMesh_Disc(ctx, 1.5, rings, &m));
    OK(ctx, pbMesh_Check(ctx, m, pb_meshManifold | pb_meshOriented | pb_meshConnected, &r));
    NEAR(r.area, base, 1e-14);
    assert_int_equal(r.open_edges, n);
    assert_int_equal(m->cells[pb_cellTriangle].count, n * rings);
    assert_true(r.quality > 0.87);
    NEAR(m->point[3 * (m->points - n)], 1.5, 1e-15);  // the rim begins on the x axis
    pbMesh_Destroy(m);
    OK(ctx, pbMesh_Cylinder(ctx, 1.5, 2, rings, 3, &m));
    solid(ctx, m, 2 * base, 2 * base + 2 * rim);
    pbMesh_Destroy(m);
  }
}

static void test_box(void **state) {
  pbContext *ctx = *state;
  for (int split = 0; split < 2; split++) {
    pbMesh *m;
    pbBox b = {.low = {-1, 0, 0.5}, .high = {3, 1, 1}, .cells = {4, 3, 2}, .split = split};
    OK(ctx, pbMesh_Box(ctx, &b, &m));
    assert_int_equal(m->cells[pb_cellTetrahedron].count, 24 * (split ? 5 : 6));
    solid(ctx, m, 2, 2 * (4 + 2 + 0.5));
    pbMesh_Destroy(m);
  }
  pbMesh *m;
  pbBox flat = {.high = {1, 1, 0}, .cells = {1, 1, 1}};
  assert_int_equal(pbMesh_Box(ctx, &flat, &m), pb_bad_argument);
}

static void test_sphere_and_ball(void **state) {
  pbContext *ctx = *state;
  double error[9] = {0};
  for (int n = 1; n <= 8; n++) {
    pbMesh *sphere, *ball;
    pbMeshReport r;
    OK(ctx, pbMesh_Sphere(ctx, 2, n, &sphere));
    OK(ctx, pbMesh_Check(ctx, sphere, pb_meshManifold | pb_meshOriented | pb_meshClosed | pb_meshConnected, &r));
    assert_int_equal(r.unused, 0);
    assert_int_equal(sphere->points - edge_count(ctx, sphere, pb_cellTriangle) + sphere->cells[pb_cellTriangle].count, 2);
    assert_true(r.quality > (n == 1 ? 0.999 : 0.97));
    double volume, area;
    enclosed(sphere, &sphere->cells[pb_cellTriangle], &volume, &area);
    if (n == 1) NEAR(volume, 5.0 / 12 * (3 + sqrt(5)) * pow(2 / sin(2 * pi / 5), 3), 1e-14);
    error[n] = 4.0 / 3 * pi * 8 - volume;
    OK(ctx, pbMesh_Ball(ctx, 2, n, &ball));
    pbMeshReport b = solid(ctx, ball, volume, area);
    assert_true(b.quality > 0.73);
    // the last points are the sphere's
    int first = ball->points - sphere->points;
    assert_memory_equal(ball->point + 3 * first, sphere->point, sizeof(double) * 3 * (size_t)sphere->points);
    pbMesh_Destroy(sphere);
    pbMesh_Destroy(ball);
  }
  NEAR(log2(error[4] / error[8]), 2, 0.02);  // the volume converges by the second order
}

static void test_quadratic(void **state) {
  pbContext *ctx = *state;
  pbMesh *m, *q;
  OK(ctx, pbMesh_Ball(ctx, 1, 2, &m));
  m->cells[pb_cellTetrahedron].group[7] = 3;
  OK(ctx, pbMesh_NameGroup(m, 3, 3, "core"));
  OK(ctx, pbMesh_Quadratic(ctx, m, &q));
  assert_int_equal(q->points, m->points + edge_count(ctx, m, pb_cellTetrahedron));
  assert_int_equal(q->cells[pb_cellTetrahedron10].group[7], 3);
  assert_string_equal(q->group[0].name, "core");
  pbMeshReport r;
  OK(ctx, pbMesh_Check(ctx, m, 0, &r));
  pbCells boundary;
  OK(ctx, pbMesh_Boundary(ctx, m, &boundary));
  double volume, area;
  enclosed(m, &boundary, &volume, &area);
  pbCells_Clear(ctx, &boundary);
  solid(ctx, q, r.volume, area);  // straight edges: the same body, its boundary in four triangles a face
  assert_int_equal(edge_count(ctx, q, pb_cellTetrahedron10), 2 * edge_count(ctx, m, pb_cellTetrahedron));
  // nodes pushed out to the sphere: more volume than the flat one, less than the ball
  for (int i = 0; i < q->points; i++) {
    double *x = q->point + 3 * i, size = sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    for (int k = 0; k < 3 && size > 0.85; k++) x[k] /= size;
  }
  pbMeshReport curved;
  OK(ctx, pbMesh_Check(ctx, q, 0, &curved));
  NEAR(curved.volume, 4.0 / 3 * pi, 3e-3);
  assert_true(curved.volume > r.volume && curved.volume < 4.0 / 3 * pi);
  // a node nearer to one end than a quarter of its edge folds the element, whose corners stay as they were
  const int *v = q->cells[pb_cellTetrahedron10].vertex;
  for (int k = 0; k < 3; k++) q->point[3 * v[4] + k] = 0.9 * q->point[3 * v[0] + k] + 0.1 * q->point[3 * v[1] + k];
  assert_int_equal(pbMesh_Check(ctx, q, 0, NULL), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "tetrahedron10 0 (points"));
  assert_non_null(strstr(pbContext_Error(ctx), "is folded"));
  pbMesh_Destroy(q);
  pbMesh_Destroy(m);
}

// Exact volume of a curved element: the map x + a y^2 moves points along x by what keeps volume, x (1 + y) changes it.
static void test_curved_volume(void **state) {
  pbContext *ctx = *state;
  pbMesh *m, *q;
  OK(ctx, pbMesh_Create(ctx, "one", 4, (int64_t[pb_cellKindCount]){[pb_cellTetrahedron] = 1}, &m));
  memcpy(m->point, (double[12]){0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1}, 12 * sizeof(double));
  memcpy(m->cells[pb_cellTetrahedron].vertex, (int[4]){0, 1, 2, 3}, 4 * sizeof(int));
  OK(ctx, pbMesh_Quadratic(ctx, m, &q));
  for (int i = 0; i < 10; i++) {
    double *x = q->point + 3 * i, old[3] = {x[0], x[1], x[2]};
    x[0] = old[0] * (1 + old[1]);
    x[1] = old[1] * (1 + old[2]);
    x[2] = old[2] * (1 + old[0]);
  }
  pbMeshReport r;
  OK(ctx, pbMesh_Check(ctx, q, 0, &r));
  // integral of (1+x)(1+y)(1+z) + xyz over the unit tetrahedron: 1/6 + 3/24 + 3/120 + 2/720
  NEAR(r.volume, 1.0 / 6 + 3.0 / 24 + 3.0 / 120 + 2.0 / 720, 1e-14);
  pbMesh_Destroy(q);
  pbMesh_Destroy(m);
}

// ---- faults ---------------------------------------------------------------------------------------------------------------

typedef struct Bad {
  const char *what;
  int points, triangles, tetrahedra;
  unsigned wishes;
  int triangle[9], tetrahedron[8];
  pbStatus status;
  const char *text;
} Bad;

// Corners of the unit cube by bits, and a point on an edge.
static const double places[9][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0},  {0, 0, 1},
                                    {1, 0, 1}, {0, 1, 1}, {1, 1, 1}, {0.5, 0, 0}};

static const Bad bad_meshes[] = {
    {"range", 4, 1, 0, 0, {0, 1, 4}, {0}, pb_bad_input, "triangle 0 names point 4; there are 4"},
    {"negative", 4, 1, 0, 0, {0, -1, 2}, {0}, pb_bad_input, "names point -1"},
    {"twice", 4, 1, 0, 0, {0, 1, 1}, {0}, pb_bad_input, "triangle 0 (points 0 1 1, near 0.6667 0 0) has a point twice"},
    {"line",
     9,
     2,
     0,
     0,
     {0, 1, 2, 0, 8, 1},
     {0},
     pb_bad_input,
     "triangle 1 (points 0 8 1, near 0.5 0 0) is degenerate: its size is 0"},
    {"flat", 4, 0, 1, 0, {0}, {0, 1, 2, 3}, pb_bad_input, "tetrahedron 0 (points 0 1 2 3, near 0.5 0.5 0) is degenerate"},
    {"inverted",
     8,
     0,
     2,
     0,
     {0},
     {0, 1, 2, 4, 3, 7, 5, 6},
     pb_bad_input,
     "tetrahedron 1 (points 3 7 5 6, near 0.75 0.75 0.75) is inverted: its volume is -0.167"},
    {"again",
     4,
     2,
     0,
     0,
     {0, 1, 2, 2, 0, 1},
     {0},
     pb_bad_input,
     "triangle 1 (points 2 0 1, near 0.3333 0.3333 0) has the points of triangle 0"},
    {"crowded",
     5,
     3,
     0,
     pb_meshManifold,
     {0, 1, 2, 1, 0, 4, 0, 1, 3},
     {0},
     pb_bad_input,
     "the edge of points 0 and 1 (near 0 0 0) has more than two triangles"},
    {"turned", 5, 2, 0, pb_meshOriented, {0, 1, 2, 0, 1, 4}, {0}, pb_bad_input, "opposite orientation"},
    {"open",
     3,
     1,
     0,
     pb_meshClosed,
     {0, 1, 2},
     {0},
     pb_bad_input,
     "the edge of points 0 and 1 (near 0 0 0) has only one triangle"},
    {"parts", 6, 2, 0, pb_meshConnected, {0, 1, 2, 3, 4, 5}, {0}, pb_bad_input, "2 parts that are not connected"},
    {"parts", 6, 2, 0, 0, {0, 1, 2, 3, 4, 5}, {0}, pb_ok, "2 parts that are not connected"},
    {"unused", 6, 1, 0, 0, {0, 1, 2}, {0}, pb_ok, "3 points are in no cell, the last is 5"},
    {"crowded", 5, 3, 0, 0, {0, 1, 2, 1, 0, 4, 0, 1, 3}, {0}, pb_ok, ""},
};

// ---- tetrahedra that lie in each other, and thin ones -----------------------------------------------------------------------

static double six_volumes(const double *a, const double *b, const double *c, const double *d) {
  double e[3][3];
  for (int k = 0; k < 3; k++) {
    e[0][k] = b[k] - a[k];
    e[1][k] = c[k] - a[k];
    e[2][k] = d[k] - a[k];
  }
  double sum = 0;
  for (int k = 0; k < 3; k++) sum += e[0][k] * (e[1][(k + 1) % 3] * e[2][(k + 2) % 3] - e[1][(k + 2) % 3] * e[2][(k + 1) % 3]);
  return sum;
}

static pbMesh *tetrahedra(pbContext *ctx, int points, const double *point, int count, const int *vertex) {
  pbMesh *m;
  OK(ctx, pbMesh_Create(ctx, "tets", points, (int64_t[pb_cellKindCount]){[pb_cellTetrahedron] = count}, &m));
  memcpy(m->point, point, 3 * (size_t)points * sizeof *point);
  memcpy(m->cells[pb_cellTetrahedron].vertex, vertex, 4 * (size_t)count * sizeof *vertex);
  return m;
}

static void test_a_face_with_both_on_one_side(void **state) {
  pbContext *ctx = *state;
  static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, .2, .2, .5};
  pbMesh *m = tetrahedra(ctx, 5, x, 2, (int[]){0, 1, 2, 3, 0, 1, 2, 4});
  pbMeshReport r;
  assert_int_equal(pbMesh_Check(ctx, m, 0, &r), pb_bad_input);
  assert_int_equal(r.overlapping, 1);
  assert_non_null(strstr(pbContext_Error(ctx),
                         "tetrahedron 0 (points 0 1 2 3, near 0.25 0.25 0.25) and tetrahedron 1 (points 0 1 "
                         "2 4, near 0.3 0.3 0.125) lie in each other: both are on one side"));
  pbMesh_Destroy(m);
}

// Two blocks that are one mesh: they touch in a plane, or a part of each lies in the other.
static void test_parts_that_lie_in_each_other(void **state) {
  (void)state;
  for (int trial = 0; trial < 4; trial++) {
    pbContext *ctx = pbContext_Create(NULL);
    pbMesh *one, *both;
    const pbBox box = {.high = {1, 1, 1}, .cells = {3, 3, 3}};
    OK(ctx, pbMesh_Box(ctx, &box, &one));
    int n = one->cells[pb_cellTetrahedron].count;
    OK(ctx, pbMesh_Create(ctx, "both", 2 * one->points, (int64_t[pb_cellKindCount]){[pb_cellTetrahedron] = 2 * n}, &both));
    const double shift = (double[]){1, .9, 0, 1 - 1e-8}[trial];  // beside, into, onto, as good as beside
    for (int i = 0; i < 6 * one->points; i++) {
      both->point[i] = one->point[i % (3 * one->points)] + (i >= 3 * one->points && i % 3 == 0 ? shift : 0) + 1e3;
    }
    for (int i = 0; i < 8 * n; i++) {
      both->cells[pb_cellTetrahedron].vertex[i] = one->cells[pb_cellTetrahedron].vertex[i % (4 * n)] + i / (4 * n) * one->points;
    }
    pbMeshReport r;
    OK(ctx, pbMesh_Check(ctx, both, 0, &r));
    bool overlap = trial == 1 || trial == 2;
    if ((r.overlapping > 0) != overlap) fail_msg("%d: %d pairs", trial, r.overlapping);
    assert_true(!overlap == !strstr(pbContext_Warnings(ctx), " lie in each other"));
    // Each of those within has a counterpart that is told.
    if (trial == 2) assert_true(r.overlapping >= n / 3);
    pbMesh_Destroy(one);
    pbMesh_Destroy(both);
    pbContext_Destroy(ctx);
  }
}

// Where two of them hold a point, found at random, they lie in each other.
static void test_overlaps_of_pairs_at_random(void **state) {
  (void)state;
  uint64_t random = 7;
  int met = 0, apart = 0;
  for (int trial = 0; trial < 300; trial++) {
    pbContext *ctx = pbContext_Create(NULL);
    double x[24];
    for (int i = 0; i < 24; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      x[i] = (double)(random >> 33) / 2147483648. + (i >= 12 && i % 3 == 0 ? .4 : 0);
    }
    int v[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int c = 0; c < 2; c++) {
      int *w = v + 4 * c;
      if (six_volumes(x + 3 * w[0], x + 3 * w[1], x + 3 * w[2], x + 3 * w[3]) > 0) continue;
      w[0] = 4 * c + 1;
      w[1] = 4 * c;
    }
    pbMesh *m = tetrahedra(ctx, 8, x, 2, v);
    pbMeshReport r;
    OK(ctx, pbMesh_Check(ctx, m, 0, &r));
    bool seen = false;
    for (int k = 0; k < 20000 && !seen; k++) {
      double L[4], p[3] = {0}, sum = 0;
      for (int i = 0; i < 4; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sum += L[i] = -log((double)((random >> 33) + 1) / 2147483649.);
      }
      for (int i = 0; i < 4; i++) {
        for (int a = 0; a < 3; a++) p[a] += L[i] / sum * x[3 * v[i] + a];
      }
      bool inside = true;
      for (int i = 0; i < 4; i++) {
        const double *q[4];
        for (int j = 0; j < 4; j++) q[j] = j == i ? p : x + 3 * v[4 + j];
        inside = inside && six_volumes(q[0], q[1], q[2], q[3]) > 0;
      }
      seen = inside;
    }
    if (seen && !r.overlapping) fail_msg("%d: a common point, and not told", trial);
    met += seen;
    apart += !r.overlapping;
    pbMesh_Destroy(m);
    pbContext_Destroy(ctx);
  }
  assert_true(met > 50 && apart > 50);
}

// Two that stand across each other, edge over edge: no plane of a face is between them.
static void test_edges_across_each_other(void **state) {
  pbContext *ctx = *state;
  for (int trial = 0; trial < 2; trial++) {
    double gap = trial ? -.1 : .1;
    double x[] = {-1, 0, 0, 1, 0, 0, 0, .3, -1, 0, -.3, -1, 0, -1, gap, 0, 1, gap, .3, 0, 1 + gap, -.3, 0, 1 + gap};
    for (int i = 0; i < 8; i++) {  // turned, so that their boxes meet
      double y = x[3 * i + 1], z = x[3 * i + 2];
      x[3 * i + 1] = (y - z) / sqrt(2);
      x[3 * i + 2] = (y + z) / sqrt(2);
    }
    pbMesh *m = tetrahedra(ctx, 8, x, 2, (int[]){0, 1, 2, 3, 4, 5, 6, 7});
    pbMeshReport r;
    if (pbMesh_Check(ctx, m, 0, &r) != pb_ok) {  // the other way round
      OK(ctx, pbMesh_Orient(m));
      OK(ctx, pbMesh_Check(ctx, m, 0, &r));
    }
    assert_int_equal(r.overlapping, trial);
    pbMesh_Destroy(m);
  }
}

static void test_slivers_are_told(void **state) {
  pbContext *ctx = *state;
  static const double x[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, .5, .5, 1e-9};
  pbMesh *m = tetrahedra(ctx, 4, x, 1, (int[]){0, 1, 2, 3});
  pbMeshReport r;
  OK(ctx, pbMesh_Check(ctx, m, 0, &r));
  assert_int_equal(r.slivers, 1);
  assert_non_null(strstr(pbContext_Warnings(ctx),
                         "tets: tetrahedron 0 (points 0 1 2 3, near 0.375 0.375 2.5e-10) is a sliver: its "
                         "quality is"));
  pbMesh_Destroy(m);
}

static pbMesh *make(pbContext *ctx, const Bad *b) {
  pbMesh *m;
  int64_t counts[pb_cellKindCount] = {[pb_cellTriangle] = b->triangles, [pb_cellTetrahedron] = b->tetrahedra};
  OK(ctx, pbMesh_Create(ctx, b->what, b->points, counts, &m));
  memcpy(m->point, places, (size_t)b->points * 3 * sizeof(double));
  if (b->triangles) memcpy(m->cells[pb_cellTriangle].vertex, b->triangle, (size_t)b->triangles * 3 * sizeof(int));
  if (b->tetrahedra) memcpy(m->cells[pb_cellTetrahedron].vertex, b->tetrahedron, (size_t)b->tetrahedra * 4 * sizeof(int));
  return m;
}

static void test_faults_are_named(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad_meshes / sizeof *bad_meshes; i++) {
    const Bad *b = &bad_meshes[i];
    pbContext *ctx = pbContext_Create(NULL);
    pbMesh *m = make(ctx, b);
    pbStatus status = pbMesh_Check(ctx, m, b->wishes, NULL);
    const char *text = status == pb_ok ? pbContext_Warnings(ctx) : pbContext_Error(ctx);
    if (status != b->status || !strstr(text, b->text)) fail_msg("%zu %s: %s: '%s'", i, b->what, pbStatus_Text(status), text);
    pbMesh_Destroy(m);
    pbContext_Destroy(ctx);
  }
}

static void test_many_faults(void **state) {
  pbContext *ctx = *state;
  pbMesh *m;
  pbMeshReport r;
  OK(ctx, pbMesh_Ball(ctx, 1, 3, &m));
  int *v = m->cells[pb_cellTetrahedron].vertex, count = m->cells[pb_cellTetrahedron].count;
  for (int i = 0; i < count; i++) {
    int t = v[4 * i];
    if (i % 2) {
      v[4 * i] = v[4 * i + 1];
      v[4 * i + 1] = t;
    }
  }
  assert_int_equal(pbMesh_Check(ctx, m, 0, &r), pb_bad_input);
  assert_int_equal(r.inverted, count / 2);
  assert_non_null(strstr(pbContext_Error(ctx), "and 267 more inverted cells"));
  assert_int_equal(pbMesh_Orient(m), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "270 of 540 tetrahedra are inverted"));
  m->point[5] = NAN;
  assert_int_equal(pbMesh_Check(ctx, m, 0, &r), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "ball: point 1 ("));
  pbMesh_Destroy(m);
}

static void test_orientation(void **state) {
  pbContext *ctx = *state;
  pbMesh *m, *q;
  OK(ctx, pbMesh_Ball(ctx, 1, 2, &m));
  OK(ctx, pbMesh_Quadratic(ctx, m, &q));
  pbMesh *both[] = {m, q};
  for (int i = 0; i < 2; i++) {
    pbMeshReport before, after;
    for (int k = 0; k < both[i]->points; k++) both[i]->point[3 * k] *= -1;
    assert_int_equal(pbMesh_Check(ctx, both[i], 0, &before), pb_bad_input);
    OK(ctx, pbMesh_Orient(both[i]));
    OK(ctx, pbMesh_Check(ctx, both[i], 0, &after));
    NEAR(after.volume, -before.volume, 1e-14);
    pbMesh_Destroy(both[i]);
  }
}

static void test_points_joined_and_dropped(void **state) {
  pbContext *ctx = *state;
  pbMesh *m, *loose;
  OK(ctx, pbMesh_Sphere(ctx, 1, 4, &m));
  int n = m->cells[pb_cellTriangle].count;
  OK(ctx,
     pbMesh_Create(ctx, "loose", 3 * n + 3, (int64_t[pb_cellKindCount]){[pb_cellPoint] = 1, [pb_cellTriangle] = n + 1}, &loose));
  int *to = loose->cells[pb_cellTriangle].vertex;
  for (int i = 0; i < 3 * n; i++) {
    to[i] = i;
    memcpy(loose->point + 3 * i, m->point + 3 * m->cells[pb_cellTriangle].vertex[i], 3 * sizeof(double));
    if (loose->point[3 * i] == 0 && i % 2) loose->point[3 * i] = -0.0;
  }
  to[3 * n] = 0;
  to[3 * n + 1] = 3 * n;
  to[3 * n + 2] = 3 * n + 1;  // collapses
  loose->point[9 * n + 6] = 9;
  loose->cells[pb_cellPoint].vertex[0] = 3 * n + 2;
  OK(ctx, pbMesh_Weld(loose));
  assert_int_equal(loose->cells[pb_cellTriangle].count, n);
  assert_int_equal(loose->points, m->points + 2);
  OK(ctx, pbMesh_DropUnused(loose));
  assert_int_equal(loose->points, m->points);
  assert_int_equal(loose->cells[pb_cellPoint].count, 0);
  OK(ctx, pbMesh_Check(ctx, loose, pb_meshClosed | pb_meshOriented | pb_meshManifold, NULL));
  pbMesh_Destroy(loose);
  pbMesh_Destroy(m);
}

// Triangles that lie on a solid are seen once, others beside it are seen, too.
static void test_skin(void **state) {
  pbContext *ctx = *state;
  Bad b = {"skin", 9, 3, 1, 0, {0, 1, 2, 1, 3, 2, 0, 4, 1}, {0, 1, 2, 4}, pb_ok, ""};
  pbMesh *m = make(ctx, &b);
  pbCells skin, boundary;
  m->cells[pb_cellTetrahedron].group[0] = 5;
  m->cells[pb_cellTriangle].group[1] = 8;
  OK(ctx, pbMesh_Boundary(ctx, m, &boundary));
  OK(ctx, pbMesh_Skin(ctx, m, &skin));
  assert_int_equal(boundary.count, 4);
  assert_int_equal(skin.count, 5);
  assert_memory_equal(skin.vertex, boundary.vertex, 12 * sizeof(int));
  assert_memory_equal(skin.vertex + 12, ((int[]){1, 3, 2}), 3 * sizeof(int));
  assert_int_equal(skin.group[0], 5);
  assert_int_equal(skin.group[4], 8);
  pbCells_Clear(ctx, &skin);
  pbCells_Clear(ctx, &boundary);
  assert_int_equal(pbCells_Hinges(ctx, &(pbCells){.count = 3, .vertex = (int[]){0, 1, 2, 1, 0, 3, 0, 1, 4}}, &skin),
                   pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "points 0 and 1 has 3 triangles"));
  pbMesh_Destroy(m);
}

static void test_groups(void **state) {
  pbContext *ctx = *state;
  pbMesh *m;
  OK(ctx, pbMesh_Create(ctx, "groups", 0, NULL, &m));
  OK(ctx, pbMesh_NameGroup(m, 2, 7, "clamped"));
  OK(ctx, pbMesh_NameGroup(m, 3, 7, "body"));
  OK(ctx, pbMesh_NameGroup(m, 2, 7, "held"));
  assert_int_equal(m->groups, 2);
  assert_int_equal(pbMesh_FindGroup(m, "held")->dimension, 2);
  assert_int_equal(pbMesh_FindGroup(m, "body")->number, 7);
  assert_null(pbMesh_FindGroup(m, "clamped"));
  OK(ctx, pbMesh_Check(ctx, m, 0, NULL));
  pbMesh_Destroy(m);
  pbCells held;
  OK(ctx, pbMesh_Grid(ctx, &(pbGrid){.u = {1}, .v = {0, 1}, .cells = {2, 2}}, &m));
  m->cells[pb_cellTriangle].group[7] = m->cells[pb_cellTriangle].group[6] = 4;
  OK(ctx, pbMesh_NameGroup(m, 3, 4, "inside"));
  OK(ctx, pbMesh_NameGroup(m, 2, 4, "corner"));
  OK(ctx, pbMesh_GroupPoints(ctx, m, "corner", &held));
  assert_int_equal(held.count, 4);
  assert_memory_equal(held.vertex, ((int[]){4, 5, 7, 8}), 4 * sizeof(int));
  pbCells_Clear(ctx, &held);
  OK(ctx, pbMesh_GroupPoints(ctx, m, "inside", &held));  // the number is another group's in another dimension
  assert_int_equal(held.count, 0);
  assert_int_equal(pbMesh_GroupPoints(ctx, m, "edge", &held), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(ctx), "no group 'edge'; there are 'inside', 'corner'"));
  pbMesh_Destroy(m);
}

// ---- memory -----------------------------------------------------------------------------------------------------------------

static pbStatus all_of_it(pbContext *ctx) {
  pbMesh *m = NULL, *q = NULL;
  pbCells cells[4] = {{0}};
  pbStatus status = pbMesh_Cylinder(ctx, 1, 1, 1, 1, &m);
  if (status == pb_ok) status = pbMesh_NameGroup(m, 3, 1, "all");
  if (status == pb_ok) status = pbMesh_Quadratic(ctx, m, &q);
  if (status == pb_ok) status = pbMesh_Check(ctx, q, pb_meshClosed, NULL);
  if (status == pb_ok) status = pbMesh_Skin(ctx, q, &cells[0]);
  if (status == pb_ok) status = pbCells_Edges(ctx, pb_cellTriangle, &cells[0], &cells[1]);
  if (status == pb_ok) status = pbCells_Hinges(ctx, &cells[0], &cells[2]);
  if (status == pb_ok) status = pbMesh_GroupPoints(ctx, q, "all", &cells[3]);
  if (status == pb_ok) status = pbMesh_Weld(q);
  if (status == pb_ok) status = pbMesh_DropUnused(q);
  for (int i = 0; i < 4; i++) pbCells_Clear(ctx, &cells[i]);
  pbMesh_Destroy(m);
  pbMesh_Destroy(q);
  return status;
}

static void test_every_allocation_fails_in_turn(void **state) {
  (void)state;
  bool failed = true;
  for (long at = 2; failed; at++) {
    Meter meter = {.fail_at = at};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *ctx = pbContext_Create(&hooks);
    pbStatus status = all_of_it(ctx);
    failed = meter.failed > 0;
    assert_int_equal(status, failed ? pb_no_memory : pb_ok);
    assert_int_equal(meter.live, 1);
    assert_true(!failed || pbContext_Error(ctx)[0]);
    pbContext_Destroy(ctx);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_context, drop_context)
  const struct CMUnitTest tests[] = {
      TEST(test_chain),
      TEST(test_grid),
      TEST(test_disc_and_cylinder),
      TEST(test_box),
      TEST(test_sphere_and_ball),
      TEST(test_quadratic),
      TEST(test_curved_volume),
      TEST(test_faults_are_named),
      TEST(test_a_face_with_both_on_one_side),
      TEST(test_parts_that_lie_in_each_other),
      TEST(test_overlaps_of_pairs_at_random),
      TEST(test_edges_across_each_other),
      TEST(test_slivers_are_told),
      TEST(test_many_faults),
      TEST(test_orientation),
      TEST(test_points_joined_and_dropped),
      TEST(test_skin),
      TEST(test_groups),
      TEST(test_every_allocation_fails_in_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
