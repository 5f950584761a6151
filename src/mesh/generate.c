// Chains, grids, discs, boxes and cylinders.
// Tests: tests/unit/test_mesh.c.
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "mesh/mesh.h"

static bool positive(double x) { return x > 0 && isfinite(x); }
static bool finite3(const double *x) { return isfinite(x[0]) && isfinite(x[1]) && isfinite(x[2]); }

static pbStatus refuse(pbContext *ctx, const char *name, const char *reason) {
  return pbContext_Fail(ctx, pb_bad_argument, "%s: %s", name, reason);
}

static void set_point(pbMesh *m, int i, double x, double y, double z) {
  double *p = m->point + 3 * i;
  p[0] = x;
  p[1] = y;
  p[2] = z;
}

static void set_triangle(int *to, int a, int b, int c) {
  to[0] = a;
  to[1] = b;
  to[2] = c;
}

// In positive orientation.
static void set_tetrahedron(const pbMesh *m, int *to, const int *v) {
  const double *x = m->point;
  bool inverted = pbMesh_Det(x + 3 * v[0], x + 3 * v[1], x + 3 * v[2], x + 3 * v[3]) < 0;
  to[0] = v[inverted];
  to[1] = v[!inverted];
  to[2] = v[2];
  to[3] = v[3];
}

pbStatus pbMesh_Chain(pbContext *ctx, const double from[3], const double to[3], int edges, pbMesh **mesh) {
  if (edges < 1) return refuse(ctx, "chain", "it needs at least one edge");
  if (!finite3(from) || !finite3(to)) return refuse(ctx, "chain", "its ends are not finite");

  int64_t counts[pb_cellKindCount] = {[pb_cellEdge] = edges};
  PB_TRY(pbMesh_Create(ctx, "chain", (int64_t)edges + 1, counts, mesh));

  for (int i = 0; i <= edges; i++) {
    // Both ends are met exactly.
    double s = (double)i / edges;
    for (int k = 0; k < 3; k++) (*mesh)->point[3 * i + k] = (1 - s) * from[k] + s * to[k];
  }
  for (int i = 0; i < 2 * edges; i++) (*mesh)->cells[pb_cellEdge].vertex[i] = (i + 1) / 2;
  return pb_ok;
}

// ---- grid -----------------------------------------------------------------------------------------------------------------

pbStatus pbMesh_Grid(pbContext *ctx, const pbGrid *g, pbMesh **mesh) {
  int nu = g->cells[0], nv = g->cells[1];
  if (nu < 1 || nv < 1) return refuse(ctx, "grid", "it needs at least one cell along each side");

  const double zero[3] = {0};
  if (!finite3(g->corner) || !positive(pbMesh_Twice(zero, g->u, g->v))) return refuse(ctx, "grid", "its sides span no area");

  int64_t counts[pb_cellKindCount] = {[pb_cellTriangle] = 2 * (int64_t)nu * nv};
  PB_TRY(pbMesh_Create(ctx, "grid", ((int64_t)nu + 1) * ((int64_t)nv + 1), counts, mesh));
  pbMesh *m = *mesh;

  for (int i = 0; i < m->points; i++) {
    int column = i % (nu + 1);
    int row = i / (nu + 1);
    double s = (double)column / nu;
    double t = (double)row / nv;
    for (int k = 0; k < 3; k++) m->point[3 * i + k] = g->corner[k] + s * g->u[k] + t * g->v[k];
  }
  // Two triangles a cell: the diagonal from corner a, or, mirrored, from corner b.

  int *to = m->cells[pb_cellTriangle].vertex;
  for (int c = 0; c < nu * nv; c++, to += 6) {
    int i = c % nu, j = c / nu, a = i + (nu + 1) * j, b = a + 1, d = a + nu + 1, e = d + 1;
    bool mirrored = g->pattern == pb_gridAlternating && (i + j) % 2;
    set_triangle(to, a, b, mirrored ? d : e);
    set_triangle(to + 3, mirrored ? b : a, e, d);
  }
  return pb_ok;
}

// ---- disc and cylinder ----------------------------------------------------------------------------------------------
// Rings of 6 k points around point 0.
static int disc_points(int rings) { return 1 + 3 * rings * (rings + 1); }
static int ring_point(int ring, int i) { return ring ? disc_points(ring - 1) + i % (6 * ring) : 0; }

static void place_disc(pbMesh *m, int first, double radius, int rings, double z) {
  for (int ring = 0; ring <= rings; ring++) {
    double r = radius * ring / rings;
    int n = ring ? 6 * ring : 1;
    for (int i = 0; i < n; i++) {
      // Counterclockwise from the x axis.
      double angle = 2 * 3.14159265358979323846 * i / n;
      set_point(m, first + ring_point(ring, i), r * pbCos(angle), r * pbSin(angle), z);
    }
  }
}

// Six sectors of each ring: `ring` triangles with an edge on the outer circle, ring - 1 with one on the inner.
static void disc_triangles(int rings, int *to) {
  for (int ring = 1; ring <= rings; ring++) {
    for (int i = 0; i < 6 * ring; i++, to += 3) {
      // The point of the inner circle across from the edge.
      int in = i / ring * (ring - 1) + i % ring;
      set_triangle(to, ring_point(ring, i), ring_point(ring, i + 1), ring_point(ring - 1, in));

      if (i % ring == ring - 1) continue;
      to += 3;
      set_triangle(to, ring_point(ring, i + 1), ring_point(ring - 1, in + 1), ring_point(ring - 1, in));
    }
  }
}

static pbStatus check_disc(pbContext *ctx, const char *name, double radius, int rings) {
  if (!positive(radius)) return refuse(ctx, name, "its radius must be positive and finite");
  if (rings < 1 || rings > 4000)
    return pbContext_Fail(ctx, pb_bad_argument, "%s: expected 1 to 4000 rings, found %d", name, rings);
  return pb_ok;
}

pbStatus pbMesh_Disc(pbContext *ctx, double radius, int rings, pbMesh **mesh) {
  PB_TRY(check_disc(ctx, "disc", radius, rings));
  int64_t counts[pb_cellKindCount] = {[pb_cellTriangle] = 6 * (int64_t)rings * rings};
  PB_TRY(pbMesh_Create(ctx, "disc", disc_points(rings), counts, mesh));

  place_disc(*mesh, 0, radius, rings, 0);
  disc_triangles(rings, (*mesh)->cells[pb_cellTriangle].vertex);
  PB_VALIDATE(pbMesh_IsNumbered(*mesh));
  return pb_ok;
}

// The prism over a triangle, cut along the diagonals that rise with the number of the point, so that neighbors agree.
static void cut_prism(const pbMesh *m, const int *triangle, int below, int above, int *to) {
  int v[3];
  memcpy(v, triangle, sizeof v);
  pbRow_Sort(v, 3);

  for (int k = 0; k < 3; k++) {
    int tet[4];

    // The k-th tetrahedron rises at the k-th corner.
    for (int i = 0; i < 4; i++) tet[i] = i <= k ? below + v[i] : above + v[i - 1];
    set_tetrahedron(m, to + 4 * k, tet);
  }
}

// Layers of prisms over a disc.
static void fill_cylinder(pbMesh *m, const pbMesh *disc, int layers) {
  const pbCells *base = &disc->cells[pb_cellTriangle];
  int *to = m->cells[pb_cellTetrahedron].vertex;
  for (int k = 0; k < layers; k++) {
    for (int i = 0; i < base->count; i++, to += 12) {
      cut_prism(m, base->vertex + 3 * i, k * disc->points, (k + 1) * disc->points, to);
    }
  }
}

pbStatus pbMesh_Cylinder(pbContext *ctx, double radius, double height, int rings, int layers, pbMesh **mesh) {
  PB_TRY(check_disc(ctx, "cylinder", radius, rings));
  if (!positive(height) || layers < 1) return refuse(ctx, "cylinder", "it needs a positive height and at least one layer");

  int64_t per_layer = disc_points(rings);
  int64_t counts[pb_cellKindCount] = {[pb_cellTetrahedron] = 18 * (int64_t)rings * rings * layers};

  // The disc says which points and triangles a layer has.
  pbMesh *disc = NULL;
  PB_TRY(pbMesh_Disc(ctx, radius, rings, &disc));
  pbStatus status = pbMesh_Create(ctx, "cylinder", per_layer * ((int64_t)layers + 1), counts, mesh);
  if (status == pb_ok) {
    for (int k = 0; k <= layers; k++) place_disc(*mesh, k * disc->points, radius, rings, height * k / layers);
    fill_cylinder(*mesh, disc, layers);
    PB_VALIDATE(pbMesh_IsNumbered(*mesh));
  }
  pbMesh_Destroy(disc);
  return status;
}

// ---- box ------------------------------------------------------------------------------------------------------------------

// Corners of a cell are numbered by bits: 1 along x, 2 along y, 4 along z. Six tetrahedra around the diagonal 0-7, all cells
// alike; or five, in two mirrored ways that alternate so that neighbors agree.
// clang-format off
static const int box_six[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7}, {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};
static const int box_five[2][5][4] = {{{0, 3, 6, 5}, {1, 0, 3, 5}, {2, 0, 3, 6}, {4, 0, 5, 6}, {7, 3, 5, 6}},
                                      {{7, 4, 2, 1}, {0, 1, 2, 4}, {3, 1, 2, 7}, {5, 1, 4, 7}, {6, 2, 4, 7}}};
// clang-format on

static void cut_box(pbMesh *m, const int *cells, bool five) {
  int nx = cells[0] + 1, ny = cells[1] + 1, *to = m->cells[pb_cellTetrahedron].vertex;
  for (int c = 0; c < cells[0] * cells[1] * cells[2]; c++) {
    // x runs fastest.
    int i = c % cells[0], j = c / cells[0] % cells[1], k = c / cells[0] / cells[1];
    const int(*tets)[4] = five ? box_five[(i + j + k) % 2] : box_six;
    // From bits to points of the grid.

    for (int t = 0; t < (five ? 5 : 6); t++, to += 4) {
      int v[4];
      for (int n = 0; n < 4; n++) {
        int bits = tets[t][n];
        v[n] = i + (bits & 1) + nx * (j + (bits >> 1 & 1) + ny * (k + (bits >> 2)));
      }
      set_tetrahedron(m, to, v);
    }
  }
}

pbStatus pbMesh_Box(pbContext *ctx, const pbBox *b, pbMesh **mesh) {
  int64_t points = 1, cells = 1;
  for (int k = 0; k < 3; k++) {
    if (b->cells[k] < 1) return refuse(ctx, "box", "it needs at least one cell along each side");
    if (!finite3(b->low) || !positive(b->high[k] - b->low[k])) return refuse(ctx, "box", "high must be above low, both finite");
    points *= (int64_t)b->cells[k] + 1;
    cells *= b->cells[k];
    if (points > PB_MESH_MOST) return pbContext_Fail(ctx, pb_capacity, "box: more than %d points", PB_MESH_MOST);
  }

  bool five = b->split == pb_boxFive;
  int64_t counts[pb_cellKindCount] = {[pb_cellTetrahedron] = cells * (five ? 5 : 6)};
  PB_TRY(pbMesh_Create(ctx, "box", points, counts, mesh));

  pbMesh *m = *mesh;
  // Corners of the box are met exactly.
  int nx = b->cells[0] + 1, ny = b->cells[1] + 1;
  for (int i = 0; i < m->points; i++) {
    int at[3] = {i % nx, i / nx % ny, i / nx / ny};
    for (int k = 0; k < 3; k++) {
      double s = (double)at[k] / b->cells[k];
      m->point[3 * i + k] = (1 - s) * b->low[k] + s * b->high[k];
    }
  }
  cut_box(m, b->cells, five);
  PB_VALIDATE(pbMesh_IsNumbered(m));
  return pb_ok;
}
