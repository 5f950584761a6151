// Nodes in the middle of edges.
// Tests: tests/unit/test_mesh.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "mesh/mesh.h"

static const struct {
  pbCellKind from, to;
} pairs[] = {{pb_cellTriangle, pb_cellTriangle6}, {pb_cellTetrahedron, pb_cellTetrahedron10}};

typedef struct Middles {  // every edge of every cell; those of one pair of points are one node
  int count, nodes;
  int *end, *order, *node;
} Middles;

static void free_middles(pbContext *ctx, Middles *e) {
  pbContext_Free(ctx, e->end);
  pbContext_Free(ctx, e->order);
  pbContext_Free(ctx, e->node);
}

static void list_edges(const pbCells *cells, pbCellKind kind, int *end) {
  const pbCellShape *s = &pb_cellShape[kind];
  for (int i = 0; i < cells->count * s->edges; i++, end += 2) {
    const int *v = cells->vertex + (size_t)(i / s->edges) * (size_t)s->nodes;
    for (int k = 0; k < 2; k++) end[k] = v[s->edge[i % s->edges][k]];
    pbRow_Sort(end, 2);
  }
}

static pbStatus find_middles(pbContext *ctx, const pbMesh *m, Middles *e) {
  for (int p = 0; p < 2; p++) e->count += m->cells[pairs[p].from].count * pb_cellShape[pairs[p].from].edges;
  e->end = pbContext_AllocArray(ctx, (size_t)e->count, 2 * sizeof(int));
  e->order = pbContext_AllocArray(ctx, (size_t)e->count, sizeof(int));
  e->node = pbContext_AllocArray(ctx, (size_t)e->count, sizeof(int));
  if (!e->end || !e->order || !e->node) return pbMesh_NoMemory(ctx, m->name);
  // Triangles first, tetrahedra then.

  list_edges(&m->cells[pb_cellTriangle], pb_cellTriangle, e->end);
  list_edges(&m->cells[pb_cellTetrahedron], pb_cellTetrahedron, e->end + 6 * (size_t)m->cells[pb_cellTriangle].count);
  PB_VALIDATE(pb_allWithin(e->end, 2 * e->count, 0, m->points));
  PB_TRY(pbRows_Sort(ctx, e->end, e->count, 2, m->points, e->order));

  // Runs of equal edges share a node, behind the points there are.
  for (int i = 0; i < e->count; i++) {
    const int *now = e->end + 2 * (size_t)e->order[i], *before = i ? e->end + 2 * (size_t)e->order[i - 1] : NULL;

    // A new pair of points is a new node.
    if (!before || memcmp(now, before, 2 * sizeof *now) != 0) e->nodes++;
    e->node[e->order[i]] = m->points + e->nodes - 1;
  }
  return pb_ok;
}

static void append_cells(const pbCells *from, int nodes, pbCells *to, int at) {
  if (!from->count) return;
  memcpy(to->vertex + (size_t)at * (size_t)nodes, from->vertex, (size_t)from->count * (size_t)nodes * sizeof(int));
  memcpy(to->group + at, from->group, (size_t)from->count * sizeof(int));
}

// Linear cells with their middles, in front of the quadratic ones that were there.
static void raise_cells(const pbMesh *m, const Middles *e, pbMesh *q) {
  const int *node = e->node;
  for (int p = 0; p < 2; p++) {
    const pbCellShape *s = &pb_cellShape[pairs[p].from];
    const pbCells *from = &m->cells[pairs[p].from];
    pbCells *to = &q->cells[pairs[p].to];
    for (int i = 0; i < from->count; i++, node += s->edges) {
      // Corners, then middles in the order of the edges.
      int *row = to->vertex + (size_t)i * (size_t)(s->nodes + s->edges);
      memcpy(row, from->vertex + (size_t)i * (size_t)s->nodes, (size_t)s->nodes * sizeof *row);
      memcpy(row + s->nodes, node, (size_t)s->edges * sizeof *row);
      to->group[i] = from->group[i];
    }
    append_cells(&m->cells[pairs[p].to], s->nodes + s->edges, to, from->count);
  }
}

static void fill_quadratic(const pbMesh *m, const Middles *e, pbMesh *q) {
  if (m->points) memcpy(q->point, m->point, (size_t)m->points * 3 * sizeof(double));
  for (int i = 0; i < e->count; i++) {
    const double *a = m->point + 3 * (size_t)e->end[2 * (size_t)i], *b = m->point + 3 * (size_t)e->end[2 * (size_t)i + 1];
    for (int k = 0; k < 3; k++) q->point[3 * (size_t)e->node[i] + (size_t)k] = 0.5 * (a[k] + b[k]);
  }

  raise_cells(m, e, q);
  PB_VALIDATE(pbMesh_IsNumbered(q));

  // Points and edges stay what they are.
  append_cells(&m->cells[pb_cellPoint], 1, &q->cells[pb_cellPoint], 0);
  append_cells(&m->cells[pb_cellEdge], 2, &q->cells[pb_cellEdge], 0);
}

static pbStatus make_quadratic(pbContext *ctx, const pbMesh *m, Middles *e, pbMesh **q) {
  PB_TRY(find_middles(ctx, m, e));
  int64_t counts[pb_cellKindCount] = {[pb_cellPoint] = m->cells[pb_cellPoint].count, [pb_cellEdge] = m->cells[pb_cellEdge].count};
  for (int p = 0; p < 2; p++) counts[pairs[p].to] = (int64_t)m->cells[pairs[p].from].count + m->cells[pairs[p].to].count;
  // Groups are kept, of cells and by name.

  PB_TRY(pbMesh_Create(ctx, m->name, (int64_t)m->points + e->nodes, counts, q));
  fill_quadratic(m, e, *q);
  for (int i = 0; i < m->groups; i++) PB_TRY(pbMesh_NameGroup(*q, m->group[i].dimension, m->group[i].number, m->group[i].name));
  return pb_ok;
}

pbStatus pbMesh_Quadratic(pbContext *ctx, const pbMesh *m, pbMesh **quadratic) {
  Middles e = {0};
  pbMesh *q = NULL;
  pbStatus status = make_quadratic(ctx, m, &e, &q);
  free_middles(ctx, &e);

  if (status == pb_ok) {
    *quadratic = q;
  } else {
    pbMesh_Destroy(q);
  }
  return status;
}
