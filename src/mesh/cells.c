// Shapes of cells, and what follows from cells alone: edges, hinges, boundary.
// Tests: tests/unit/test_mesh.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "mesh/mesh.h"

// clang-format off
const pbCellShape pb_cellShape[pb_cellKindCount] = {
    [pb_cellPoint] = {"point", "points", 1, 0, 1, 0, {{0}}, 0, {{0}}, 0},
    [pb_cellEdge] = {"edge", "edges", 2, 1, 2, 1, {{0, 1}}, 0, {{0}}, 0},
    [pb_cellTriangle] = {"triangle", "triangles", 3, 2, 3, 3, {{0, 1}, {1, 2}, {2, 0}}, 1, {{0, 1, 2}}, 1},
    [pb_cellTriangle6] = {"triangle6", "triangles6", 6, 2, 3, 6, {{0, 3}, {3, 1}, {1, 4}, {4, 2}, {2, 5}, {5, 0}},
                          4, {{0, 3, 5}, {1, 4, 3}, {2, 5, 4}, {3, 4, 5}}, 4},
    [pb_cellTetrahedron] = {"tetrahedron", "tetrahedra", 4, 3, 4, 6, {{0, 1}, {1, 2}, {0, 2}, {0, 3}, {1, 3}, {2, 3}},
                            4, {{1, 2, 3}, {0, 3, 2}, {0, 1, 3}, {0, 2, 1}}, 1},
    [pb_cellTetrahedron10] = {"tetrahedron10", "tetrahedra10", 10, 3, 4,
                              12, {{0, 4}, {4, 1}, {1, 5}, {5, 2}, {0, 6}, {6, 2},
                                   {0, 7}, {7, 3}, {1, 8}, {8, 3}, {2, 9}, {9, 3}},
                              16, {{1, 5, 8}, {2, 9, 5}, {3, 8, 9}, {5, 9, 8}, {0, 7, 6}, {3, 9, 7}, {2, 6, 9}, {7, 9, 6},
                                   {0, 4, 7}, {1, 8, 4}, {3, 7, 8}, {4, 8, 7}, {0, 6, 4}, {2, 5, 6}, {1, 4, 5}, {6, 5, 4}}, 4},
};
// clang-format on

const char *pbCellKind_Name(pbCellKind kind) { return kind < pb_cellKindCount ? pb_cellShape[kind].name : "unknown"; }
int pbCellKind_Nodes(pbCellKind kind) { return kind < pb_cellKindCount ? pb_cellShape[kind].nodes : 0; }
int pbCellKind_Dimension(pbCellKind kind) { return kind < pb_cellKindCount ? pb_cellShape[kind].dimension : -1; }

// ---- rows in order --------------------------------------------------------------------------------------------------------

void pbRow_Sort(int *row, int width) {
  for (int i = 1; i < width; i++) {
    int value = row[i], j = i;

    // Insertion: rows are short.
    for (; j > 0 && row[j - 1] > value; j--) row[j] = row[j - 1];
    row[j] = value;
  }
}

// Radix sort: counting sort by one column after the other, the least first, so that time grows with the rows whatever they
// hold.
static void sort_rows(const int *row, int rows, int width, int range, int *order, int *start, int *next) {
  for (int i = 0; i < rows; i++) order[i] = i;
  for (int column = width - 1; column >= 0; column--) {
    const int *key = row + column;
    memset(start, 0, ((size_t)range + 1) * sizeof *start);
    for (int i = 0; i < rows; i++) start[key[(size_t)i * (size_t)width] + 1]++;
    for (int v = 0; v < range; v++) start[v + 1] += start[v];

    // Stable: what the later columns ordered stays in order.
    for (int i = 0; i < rows; i++) next[start[key[(size_t)order[i] * (size_t)width]]++] = order[i];
    memcpy(order, next, (size_t)rows * sizeof *order);
  }
}

pbStatus pbRows_Sort(pbContext *ctx, const int *row, int rows, int width, int range, int *order) {
  int *start = pbContext_AllocArray(ctx, (size_t)range + 1, sizeof *start);
  int *next = pbContext_AllocArray(ctx, (size_t)rows, sizeof *next);
  bool fits = start && next;
  PB_VALIDATE(pb_allWithin(row, rows * width, 0, range));
  if (fits) sort_rows(row, rows, width, range, order, start, next);

  pbContext_Free(ctx, start);
  pbContext_Free(ctx, next);
  return fits ? pb_ok : pbMesh_NoMemory(ctx, "mesh");
}

static int range_of(const pbCells *cells, int nodes) {
  int most = -1;
  for (size_t i = 0; i < (size_t)cells->count * (size_t)nodes; i++) most = cells->vertex[i] > most ? cells->vertex[i] : most;
  return most + 1;
}

// ---- edges and hinges -------------------------------------------------------------------------------------------------------

// Every edge of every cell, lower number first, and the order of them; both to be freed.
static pbStatus edge_rows(pbContext *ctx, pbCellKind kind, const pbCells *cells, int **row, int **order) {
  const pbCellShape *shape = &pb_cellShape[kind];
  int rows = cells->count * shape->edges;
  *row = pbContext_AllocArray(ctx, (size_t)rows, 2 * sizeof(int));
  *order = pbContext_AllocArray(ctx, (size_t)rows, sizeof(int));
  if (!*row || !*order) return pbMesh_NoMemory(ctx, "mesh");

  for (int i = 0; i < rows; i++) {
    // Edges of a cell follow each other.
    const int *v = cells->vertex + (size_t)(i / shape->edges) * (size_t)shape->nodes, *e = shape->edge[i % shape->edges];
    int *to = *row + 2 * (size_t)i;

    to[0] = v[e[0]];
    to[1] = v[e[1]];
    pbRow_Sort(to, 2);
  }

  return pbRows_Sort(ctx, *row, rows, 2, range_of(cells, shape->nodes), *order);
}

// Rows from `at` on, in order, that are alike.
static int equal_rows(const int *row, const int *order, int rows, int width, int at) {
  int n = 1;
  while (at + n < rows && !memcmp(row + (size_t)order[at] * (size_t)width, row + (size_t)order[at + n] * (size_t)width,
                                  (size_t)width * sizeof *row))
    n++;
  return n;
}

static pbStatus unique_edges(pbContext *ctx, const int *row, const int *order, int rows, pbCells *edges) {
  int count = 0;
  for (int i = 0; i < rows; i += equal_rows(row, order, rows, 2, i)) count++;

  pbCells found;
  PB_TRY(pbCells_Room(ctx, "edges", count, 2, &found));

  // The first of each run.
  count = 0;
  for (int i = 0; i < rows; i += equal_rows(row, order, rows, 2, i)) {
    memcpy(found.vertex + 2 * (size_t)count++, row + 2 * (size_t)order[i], 2 * sizeof *row);
  }
  PB_ASSERT(count == found.count);
  *edges = found;
  return pb_ok;
}

pbStatus pbCells_Edges(pbContext *ctx, pbCellKind kind, const pbCells *cells, pbCells *edges) {
  if (kind >= pb_cellKindCount) return pbContext_Fail(ctx, pb_bad_argument, "edges: no such kind of cell: %d", (int)kind);
  int *row = NULL, *order = NULL;
  pbStatus status = edge_rows(ctx, kind, cells, &row, &order);
  if (status == pb_ok) status = unique_edges(ctx, row, order, cells->count * pb_cellShape[kind].edges, edges);

  pbContext_Free(ctx, row);
  pbContext_Free(ctx, order);
  return status;
}

// The pairs among the ordered edges of triangles; hinges NULL: they are only counted.
static pbStatus pair_up(pbContext *ctx, const pbCells *triangles, const int *row, const int *order, int *count, int *hinge) {
  int rows = 3 * triangles->count;
  *count = 0;
  for (int i = 0, n; i < rows; i += n) {
    n = equal_rows(row, order, rows, 2, i);
    const int *edge = row + 2 * order[i];
    if (n > 2) return pbContext_Fail(ctx, pb_bad_input, "the edge of points %d and %d has %d triangles", edge[0], edge[1], n);
    if (n < 2) continue;

    // The edge in the first triangle's direction, and the corners opposite it.
    int first = order[i] / 3, side = order[i] % 3, second = order[i + 1] / 3, other = order[i + 1] % 3;
    const int *a = triangles->vertex + 3 * first, *b = triangles->vertex + 3 * second;
    if (hinge)
      memcpy(hinge + 4 * *count, (int[4]){a[side], a[(side + 1) % 3], a[(side + 2) % 3], b[(other + 2) % 3]}, 4 * sizeof(int));
    ++*count;
  }
  return pb_ok;
}

pbStatus pbCells_Hinges(pbContext *ctx, const pbCells *triangles, pbCells *hinges) {
  int *row = NULL, *order = NULL, count = 0;
  pbCells found = {0};

  // Once to count, once to write.
  pbStatus status = edge_rows(ctx, pb_cellTriangle, triangles, &row, &order);
  if (status == pb_ok) status = pair_up(ctx, triangles, row, order, &count, NULL);
  if (status == pb_ok) status = pbCells_Room(ctx, "hinges", count, 4, &found);
  if (status == pb_ok) status = pair_up(ctx, triangles, row, order, &count, found.vertex);
  if (status == pb_ok) *hinges = found;

  pbContext_Free(ctx, row);
  pbContext_Free(ctx, order);
  return status;
}

// ---- boundary and skin ------------------------------------------------------------------------------------------------------

typedef struct Faces {  // of all tetrahedra, and (where the skin is wanted) the mesh's triangles behind them
  int count, solid;     // faces, those of them that belong to tetrahedra
  int *key, *order;     // count x 3: corners in ascending order
  bool *shown;
} Faces;

static const pbCellKind solids[] = {pb_cellTetrahedron, pb_cellTetrahedron10}, sheets[] = {pb_cellTriangle, pb_cellTriangle6};

static int faces_of(pbCellKind kind) { return pb_cellShape[kind].triangles / pb_cellShape[kind].per_face; }

// A cell's face, from the running number of a face among all cells of a kind.
typedef struct Place {
  pbCellKind kind;
  int cell, face;
} Place;
static Place place_of(const pbMesh *m, int at) {
  for (int i = 0; i < 4; i++) {
    // Tetrahedra first, then triangles.
    pbCellKind kind = i < 2 ? solids[i] : sheets[i - 2];
    int count = m->cells[kind].count * faces_of(kind);
    if (at < count) return (Place){kind, at / faces_of(kind), at % faces_of(kind)};
    at -= count;
  }
  PB_ASSERT(false);  // the number of a face is below their count
  return (Place){pb_cellPoint, 0, 0};
}

// Corners of a face: the first points of its first three triangles where it is made of four.
static void find_corners(const pbMesh *m, Place p, int *corner) {
  const pbCellShape *shape = &pb_cellShape[p.kind];
  const int *v = m->cells[p.kind].vertex + (size_t)p.cell * (size_t)shape->nodes;
  for (int k = 0; k < 3; k++) {
    corner[k] = shape->per_face == 1 ? v[shape->face[p.face][k]] : v[shape->face[p.face * shape->per_face + k][0]];
  }
}

static void free_faces(pbContext *ctx, Faces *f) {
  pbContext_Free(ctx, f->key);
  pbContext_Free(ctx, f->order);
  pbContext_Free(ctx, f->shown);
}

static pbStatus list_faces(pbContext *ctx, const pbMesh *m, bool skin, Faces *f) {
  for (int i = 0; i < 2; i++) f->solid += m->cells[solids[i]].count * faces_of(solids[i]);
  f->count = f->solid;
  if (skin) f->count += m->cells[sheets[0]].count + m->cells[sheets[1]].count;

  // Corners in ascending order tell which faces are the same.
  f->key = pbContext_AllocArray(ctx, (size_t)f->count, 3 * sizeof(int));
  f->order = pbContext_AllocArray(ctx, (size_t)f->count, sizeof(int));
  f->shown = pbContext_AllocArray(ctx, (size_t)f->count, sizeof(bool));
  if (!f->key || !f->order || !f->shown) return pbMesh_NoMemory(ctx, m->name);

  for (int i = 0; i < f->count; i++) {
    find_corners(m, place_of(m, i), f->key + 3 * (size_t)i);
    pbRow_Sort(f->key + 3 * (size_t)i, 3);
  }
  return pbRows_Sort(ctx, f->key, f->count, 3, m->points, f->order);
}

// A face of one tetrahedron is shown, and a triangle that is no face of any.
static void choose_faces(Faces *f) {
  for (int i = 0, n; i < f->count; i += n) {
    n = equal_rows(f->key, f->order, f->count, 3, i);

    // The order is stable: faces of tetrahedra come first.
    int inside = 0;
    while (inside < n && f->order[i + inside] < f->solid) inside++;
    for (int k = 0; k < n; k++) f->shown[f->order[i + k]] = inside == 0 || (inside == 1 && k == 0);
  }
}

static pbStatus shown_triangles(pbContext *ctx, const pbMesh *m, const Faces *f, pbCells *triangles) {
  int64_t count = 0;
  for (int i = 0; i < f->count; i++) {
    if (f->shown[i]) count += pb_cellShape[place_of(m, i).kind].per_face;
  }

  // A face of a quadratic cell is several triangles.
  if (count > PB_MESH_MOST) return pbContext_Fail(ctx, pb_capacity, "%.400s: the surface has too many triangles", m->name);
  PB_TRY(pbCells_Room(ctx, m->name, (int)count, 3, triangles));

  count = 0;
  for (int i = 0; i < f->count; i++) {
    if (!f->shown[i]) continue;

    // With the group of its cell.
    Place p = place_of(m, i);
    const pbCellShape *shape = &pb_cellShape[p.kind];
    const int *v = m->cells[p.kind].vertex + (size_t)p.cell * (size_t)shape->nodes;
    for (int k = 0; k < shape->per_face; k++, count++) {
      for (int j = 0; j < 3; j++) triangles->vertex[3 * count + j] = v[shape->face[p.face * shape->per_face + k][j]];
      triangles->group[count] = m->cells[p.kind].group ? m->cells[p.kind].group[p.cell] : 0;
    }
  }
  return pb_ok;
}

static pbStatus find_surface(pbContext *ctx, const pbMesh *m, bool skin, pbCells *triangles) {
  Faces f = {0};
  pbCells found = {0};
  pbStatus status = list_faces(ctx, m, skin, &f);
  if (status == pb_ok) {
    choose_faces(&f);
    status = shown_triangles(ctx, m, &f, &found);
  }
  free_faces(ctx, &f);

  if (status == pb_ok) *triangles = found;
  return status;
}

pbStatus pbMesh_Boundary(pbContext *ctx, const pbMesh *m, pbCells *triangles) { return find_surface(ctx, m, false, triangles); }
pbStatus pbMesh_Skin(pbContext *ctx, const pbMesh *m, pbCells *triangles) { return find_surface(ctx, m, true, triangles); }
