// Spheres and balls from an icosahedron. A sphere's faces are cut into lattice triangles and pushed out to the radius; a ball's
// twenty tetrahedra (center and face) are cut into lattice tetrahedra and octahedra, shell by shell, so that the k-th shell is
// a sphere with k cuts. An octahedron's inner diagonal is no neighbor's business: the shortest is taken.
// Tests: tests/unit/test_mesh.c.
#include "elementary/elementary.h"
#include "mesh/mesh.h"

// Corners 1 and -1 at z = +-, in two rings of five between.
// clang-format off
static const int face_corner[20][3] = {
    {0, 1, 2}, {0, 2, 3}, {0, 3, 4}, {0, 4, 5}, {0, 5, 1}, {1, 6, 2}, {2, 7, 3}, {3, 8, 4}, {4, 9, 5}, {5, 10, 1},
    {6, 7, 2}, {7, 8, 3}, {8, 9, 4}, {9, 10, 5}, {10, 6, 1}, {11, 7, 6}, {11, 8, 7}, {11, 9, 8}, {11, 10, 9}, {11, 6, 10}};
static const int edge_corner[30][2] = {
    {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {1, 5}, {1, 6}, {2, 6}, {2, 7}, {3, 7}, {3, 8},
    {4, 8}, {4, 9}, {5, 9}, {5, 10}, {1, 10}, {6, 7}, {7, 8}, {8, 9}, {9, 10}, {6, 10},
    {6, 11}, {7, 11}, {8, 11}, {9, 11}, {10, 11}};
// clang-format on

static void place_corner(int c, double *x) {
  const double fifth = 0.62831853071795864769, low = 0.44721359549995793928;  // pi / 5, 1 / sqrt 5
  bool pole = c == 0 || c == 11;

  double angle = fifth * (c <= 5 ? 2 * (c - 1) : 2 * (c - 6) + 1), r = pole ? 0 : 2 * low;
  x[0] = r * pbCos(angle);
  x[1] = r * pbSin(angle);
  x[2] = (c <= 5 ? 1 : -1) * (pole ? 1 : low);
}

static int sphere_points(int cuts) { return 10 * cuts * cuts + 2; }

static int edge_between(int a, int b) {
  int e = 0;
  while (!((edge_corner[e][0] == a && edge_corner[e][1] == b) || (edge_corner[e][0] == b && edge_corner[e][1] == a))) e++;
  return e;
}

// Number of the lattice point of face f with weights w of its corners, which add up to `cuts`: corners, then edges, then
// insides.
static int sphere_point(int f, const int *w, int cuts) {
  const int *c = face_corner[f];
  for (int k = 0; k < 3; k++) {
    if (w[k] == cuts) return c[k];
  }

  // On an edge: counted from its first corner.
  for (int k = 0; k < 3; k++) {
    int a = (k + 1) % 3, b = (k + 2) % 3;
    if (w[k]) continue;

    int e = edge_between(c[a], c[b]);
    return 12 + e * (cuts - 1) + (edge_corner[e][0] == c[a] ? w[b] : w[a]) - 1;
  }

  // Inside: rows of lattice points, each one shorter than the one before.
  int row = w[1] - 1, before = row * (cuts - 2) - row * (row - 1) / 2;
  return 12 + 30 * (cuts - 1) + f * ((cuts - 1) * (cuts - 2) / 2) + before + w[2] - 1;
}

// Lattice points of the icosahedron's faces, pushed out to the radius.
static void place_sphere(pbMesh *m, int first, double radius, int cuts) {
  double corner[12][3];
  for (int c = 0; c < 12; c++) place_corner(c, corner[c]);

  for (int f = 0; f < 20; f++) {
    for (int i = 0; i <= cuts; i++) {
      for (int j = 0; i + j <= cuts; j++) {
        // Barycentric weights in units of 1 / cuts.
        int w[3] = {cuts - i - j, i, j};
        double x[3], size = 0;
        for (int k = 0; k < 3; k++) {
          x[k] = 0;
          for (int c = 0; c < 3; c++) x[k] += w[c] * corner[face_corner[f][c]][k];
          size += x[k] * x[k];
        }

        double *to = m->point + 3 * (first + sphere_point(f, w, cuts));
        for (int k = 0; k < 3; k++) to[k] = radius * x[k] / sqrt(size);
      }
    }
  }
}

static pbStatus check_sphere(pbContext *ctx, const char *name, double radius, int cuts) {
  if (!(radius > 0) || !isfinite(radius))
    return pbContext_Fail(ctx, pb_bad_argument, "%s: its radius must be positive and finite", name);
  if (cuts < 1 || cuts > 2000)
    return pbContext_Fail(ctx, pb_bad_argument, "%s: expected 1 to 2000 cuts or shells, found %d", name, cuts);
  return pb_ok;
}

// The triangles of face f at lattice point (i, j): one that points up, and beside it one that points down where there is room.
static int *put_triangles(int f, int i, int j, int cuts, int *to) {
  int r = cuts - i - j;
  int up[3][3] = {{r, i, j}, {r - 1, i + 1, j}, {r - 1, i, j + 1}};
  for (int k = 0; k < 3; k++) *to++ = sphere_point(f, up[k], cuts);
  if (r <= 1) return to;

  // Beyond the edge of the other two, and so the other way around.
  int down[3][3] = {{r - 2, i + 1, j + 1}, {r - 1, i, j + 1}, {r - 1, i + 1, j}};
  for (int k = 0; k < 3; k++) *to++ = sphere_point(f, down[k], cuts);
  return to;
}

pbStatus pbMesh_Sphere(pbContext *ctx, double radius, int cuts, pbMesh **mesh) {
  PB_TRY(check_sphere(ctx, "sphere", radius, cuts));
  int64_t counts[pb_cellKindCount] = {[pb_cellTriangle] = 20 * (int64_t)cuts * cuts};
  PB_TRY(pbMesh_Create(ctx, "sphere", sphere_points(cuts), counts, mesh));

  place_sphere(*mesh, 0, radius, cuts);

  // Each face's lattice cells.
  int *to = (*mesh)->cells[pb_cellTriangle].vertex;
  for (int f = 0; f < 20; f++) {
    for (int i = 0; i < cuts; i++) {
      for (int j = 0; i + j < cuts; j++) to = put_triangles(f, i, j, cuts, to);
    }
  }
  return pb_ok;
}

// ---- ball -----------------------------------------------------------------------------------------------------------------

// Points of shells below this one: the center, and the sum of 10 k^2 + 2.
static int shell_start(int shell) {
  int k = shell - 1;
  return shell ? 1 + 2 * k + 5 * k * (k + 1) * (2 * k + 1) / 3 : 0;
}

// Lattice point of a tetrahedron: u are steps away from the center toward each corner of the face.
static int ball_point(int f, const int *u) {
  int shell = u[0] + u[1] + u[2];
  return shell ? shell_start(shell) + sphere_point(f, u, shell) : 0;
}

typedef struct Cut {
  pbMesh *m;
  int *to;
} Cut;

// In positive orientation.
static void add_tetrahedron(Cut *c, int a, int b, int d, int e) {
  const double *x = c->m->point;
  bool inverted = pbMesh_Det(x + 3 * a, x + 3 * b, x + 3 * d, x + 3 * e) < 0;
  c->to[0] = inverted ? b : a;
  c->to[1] = inverted ? a : b;
  c->to[2] = d;
  c->to[3] = e;
  c->to += 4;
}

static double distance2(const double *a, const double *b) {
  double sum = 0;
  for (int k = 0; k < 3; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

// Six points, k and k + 3 opposite: four tetrahedra around the shortest diagonal. Ties, up to rounding, go to the first.
static void cut_octahedron(Cut *c, const int *v) {
  int best = 0;
  double least = INFINITY;
  for (int k = 0; k < 3; k++) {
    double size = distance2(c->m->point + 3 * v[k], c->m->point + 3 * v[k + 3]);
    if (size < least * (1 - 1e-9)) {
      best = k;
      least = size;
    }
  }

  // Around that diagonal, the other four points.
  int p = (best + 1) % 3, q = (best + 2) % 3, ring[5] = {v[p], v[q], v[p + 3], v[q + 3], v[p]};
  for (int k = 0; k < 4; k++) add_tetrahedron(c, v[best], v[best + 3], ring[k], ring[k + 1]);
}

// The cells at lattice point u on the side away from the center: a tetrahedron, an octahedron, a tetrahedron the other way
// around. Each stays within the shells. room: shells outside u.
static void cut_cell(Cut *c, int f, const int *u, int room) {
  int step[3], pair[3], far[3] = {u[0] + 1, u[1] + 1, u[2] + 1};
  for (int k = 0; k < 3; k++) {
    // Neighbors one step out along a corner, and two steps out along the other two.
    int one[3] = {u[0], u[1], u[2]}, two[3] = {far[0], far[1], far[2]};
    one[k]++;
    two[k]--;
    step[k] = ball_point(f, one);
    pair[k] = room > 1 ? ball_point(f, two) : 0;  // opposite of the step along k
  }
  // The second and the third reach one and two shells further.

  add_tetrahedron(c, ball_point(f, u), step[0], step[1], step[2]);
  if (room > 1) cut_octahedron(c, (int[6]){step[0], step[1], step[2], pair[0], pair[1], pair[2]});
  if (room > 2) add_tetrahedron(c, pair[0], pair[1], pair[2], ball_point(f, far));
}

pbStatus pbMesh_Ball(pbContext *ctx, double radius, int shells, pbMesh **mesh) {
  PB_TRY(check_sphere(ctx, "ball", radius, shells));
  int64_t n = shells, counts[pb_cellKindCount] = {[pb_cellTetrahedron] = 20 * n * n * n};
  PB_TRY(pbMesh_Create(ctx, "ball", 1 + 2 * n + 5 * n * (n + 1) * (2 * n + 1) / 3, counts, mesh));

  for (int k = 1; k <= shells; k++) place_sphere(*mesh, shell_start(k), radius * k / shells, k);

  // Each of the twenty tetrahedra, lattice point by lattice point.
  Cut cut = {*mesh, (*mesh)->cells[pb_cellTetrahedron].vertex};
  for (int f = 0; f < 20; f++) {
    for (int i = 0; i < shells; i++) {
      for (int j = 0; i + j < shells; j++) {
        for (int k = 0; i + j + k < shells; k++) cut_cell(&cut, f, (int[3]){i, j, k}, shells - i - j - k);
      }
    }
  }
  return pb_ok;
}
