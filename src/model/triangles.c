// Trees of boxes over the faces of meshes that rays may meet, from the tables of a compiled model.
// Tests: tests/oracle/test_rays.py.
#include "model/triangles.h"

#include "base/assert.h"
#include "base/context.h"
#include "model/topology.h"

enum { LEAF = 4 };  // most triangles of a leaf

typedef struct tree_builder {
  pbTriangleNode *node;
  double *corner;  // of the triangles in their order so far
  int nodes;
} tree_builder;

static void bound(tree_builder *b, pbTriangleNode *node) {
  const double *corner = b->corner + 9 * (size_t)node->first;
  for (int k = 0; k < 3; k++) node->low[k] = node->high[k] = corner[k];

  for (int i = 0; i < 3 * node->count; i++) {
    for (int k = 0; k < 3; k++) {
      node->low[k] = fmin(node->low[k], corner[3 * i + k]);
      node->high[k] = fmax(node->high[k], corner[3 * i + k]);
    }
  }
}

static double middle(const double *triangle, int axis) { return triangle[axis] + triangle[3 + axis] + triangle[6 + axis]; }

static void swap_triangles(double *a, double *b) {
  double kept[9];
  memcpy(kept, a, sizeof kept);
  memcpy(a, b, sizeof kept);
  memcpy(b, kept, sizeof kept);
}

// The lower half by the middles along an axis comes first (Hoare's selection).
static void part_at_median(double *triangle, int count, int axis) {
  int low = 0, high = count - 1, half = count / 2;

  while (low < high) {
    double pivot = middle(triangle + 9 * (size_t)((low + high) / 2), axis);
    int i = low, j = high;
    while (i <= j) {
      while (middle(triangle + 9 * (size_t)i, axis) < pivot) i++;
      while (middle(triangle + 9 * (size_t)j, axis) > pivot) j--;
      if (i <= j) swap_triangles(triangle + 9 * (size_t)i++, triangle + 9 * (size_t)j--);
    }

    if (half <= j) high = j;
    else if (half >= i) low = i;
    else return;
  }
}

// Node by node in the order of the list: whoever has many triangles gives half of them to each of two new ones behind it.
static void grow(tree_builder *b) {
  for (int at = 0; at < b->nodes; at++) {
    pbTriangleNode *node = b->node + at;
    int first = node->first, count = node->count, axis = 0;
    bound(b, node);
    if (count <= LEAF) continue;

    // Across the longest side.
    for (int k = 1; k < 3; k++) {
      if (node->high[k] - node->low[k] > node->high[axis] - node->low[axis]) axis = k;
    }
    part_at_median(b->corner + 9 * (size_t)first, count, axis);

    node->first = b->nodes;
    node->count = 0;
    b->node[b->nodes++] = (pbTriangleNode){.first = first, .count = count / 2};
    b->node[b->nodes++] = (pbTriangleNode){.first = first + count / 2, .count = count - count / 2};
  }
}

static void take_corners(const pbModel *m, int mesh, double *corner) {
  const double *x = m->mesh_vert + 3 * (size_t)m->mesh_vertadr[mesh];
  const int *face = m->mesh_face + 3 * (size_t)m->mesh_faceadr[mesh];

  for (int i = 0; i < 3 * m->mesh_facenum[mesh]; i++) {
    PB_ASSERT(face[i] >= 0 && face[i] < m->mesh_vertnum[mesh]);
    memcpy(corner + 3 * (size_t)i, x + 3 * (size_t)face[i], 3 * sizeof *x);
  }
}

pbStatus pbModel_MakeTriangles(const pbModel *m, pbTopology *t) {
  size_t faces = (size_t)m->nmeshface;

  // Of n triangles in leaves of more than LEAF / 2 there are less than n nodes, or the root alone.
  t->triangles = pbContext_AllocArray(m->ctx, (size_t)m->nmesh + 1, sizeof *t->triangles);
  t->triangle_nodes = pbContext_AllocArray(m->ctx, faces + (size_t)m->nmesh + 1, sizeof *t->triangle_nodes);
  t->triangle_corners = pbContext_AllocArray(m->ctx, 9 * faces + 1, sizeof *t->triangle_corners);
  if (!t->triangles || !t->triangle_nodes || !t->triangle_corners)
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for triangles of meshes");

  pbTriangleNode *node = t->triangle_nodes;
  double *corner = t->triangle_corners;
  for (int i = 0; i < m->nmesh; i++) {
    if (!m->mesh_facenum[i]) continue;
    tree_builder b = {.node = node, .corner = corner, .nodes = 1};
    take_corners(m, i, corner);
    node[0] = (pbTriangleNode){.count = m->mesh_facenum[i]};
    grow(&b);

    t->triangles[i] = (pbTriangleTree){.nodes = b.nodes, .triangles = m->mesh_facenum[i], .node = node, .corner = corner};
    node += b.nodes;
    corner += 9 * (size_t)m->mesh_facenum[i];
  }

  PB_ASSERT(node <= t->triangle_nodes + faces + m->nmesh);
  return pb_ok;
}
