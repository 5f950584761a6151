// Tetrahedra that lie in each other. Where every face between two tetrahedra has one on each side, a place that is covered
// twice reaches to a face of the boundary, seen from inside: how many tetrahedra are at a place is the winding number of the
// boundary around it. So those that have such a face are compared with all others, by separating axes, behind a tree of boxes
// along a space-filling curve.
// Tests: tests/unit/test_mesh.c.
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "mesh/mesh.h"
#include "mesh/overlap.h"

enum { leaf_cells = 4, most_depth = 40 };
static const double shallow = 1e-6;  // of the smaller one's size: what touches, up to rounding in a file

typedef struct Box {
  double low[3], high[3];
} Box;

typedef struct Placed {  // a tetrahedron along the curve
  uint64_t code;
  int cell;
} Placed;

typedef struct Search {
  pbOverlapSeen seen;
  void *whom;
  const pbMesh *m;
  int count;
  bool ended;  // by whom
  Placed *placed;
  Box *box;   // of cells
  Box *node;  // of the tree: children of node i are 2 i + 1 and 2 i + 2, each with half of its cells
} Search;

static const int *corners_of(const pbMesh *m, int cell) {
  int linear = m->cells[pb_cellTetrahedron].count;
  PB_ASSERT(cell >= 0 && cell < linear + m->cells[pb_cellTetrahedron10].count);

  // Linear ones come first.
  return cell < linear ? m->cells[pb_cellTetrahedron].vertex + 4 * (size_t)cell
                       : m->cells[pb_cellTetrahedron10].vertex + 10 * (size_t)(cell - linear);
}

static void include(Box *b, const double *low, const double *high) {
  for (int k = 0; k < 3; k++) {
    b->low[k] = fmin(b->low[k], low[k]);
    b->high[k] = fmax(b->high[k], high[k]);
  }
}

static const Box no_box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};

static Box box_of(const pbMesh *m, int cell) {
  Box b = no_box;
  const int *v = corners_of(m, cell);

  for (int i = 0; i < 4; i++) include(&b, m->point + 3 * (size_t)v[i], m->point + 3 * (size_t)v[i]);
  return b;
}

static bool boxes_meet(const Box *a, const Box *b) {
  for (int k = 0; k < 3; k++)
    if (a->low[k] >= b->high[k] || b->low[k] >= a->high[k]) return false;
  return true;
}

// ---- two tetrahedra -----------------------------------------------------------------------------------------------------

typedef double Corners[4][3];

static void cross(double *out, const double *a, const double *b) {
  for (int k = 0; k < 3; k++) out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}
static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// Is there nothing, or as good as nothing, between their shadows on that axis?
static bool separates(const double *axis, Corners a, Corners b, double depth) {
  double from[2] = {INFINITY, INFINITY}, to[2] = {-INFINITY, -INFINITY};

  for (int i = 0; i < 4; i++) {
    double x[2] = {dot(axis, a[i]), dot(axis, b[i])};

    for (int s = 0; s < 2; s++) {
      from[s] = fmin(from[s], x[s]);
      to[s] = fmax(to[s], x[s]);
    }
  }

  // The axis is of any length.
  return fmin(to[0], to[1]) - fmax(from[0], from[1]) <= depth * sqrt(dot(axis, axis));
}

static const int edge_ends[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};

static void edge_of(double *out, Corners a, int edge) {
  for (int k = 0; k < 3; k++) out[k] = a[edge_ends[edge][1]][k] - a[edge_ends[edge][0]][k];
}

// Planes of faces of a.
static bool face_separates(Corners a, Corners b, double depth) {
  static const int faces[4][2] = {{0, 1}, {0, 2}, {1, 2}, {3, 4}};  // two edges of each
  for (int f = 0; f < 4; f++) {
    double u[3], v[3], axis[3];
    edge_of(u, a, faces[f][0]);
    edge_of(v, a, faces[f][1]);
    cross(axis, u, v);
    if (separates(axis, a, b, depth)) return true;
  }
  return false;
}

static bool edges_separate(Corners a, Corners b, double depth) {
  for (int i = 0; i < 36; i++) {
    double u[3], v[3], axis[3];
    edge_of(u, a, i / 6);
    edge_of(v, b, i % 6);
    cross(axis, u, v);

    // Edges side by side have no axis.
    if (dot(axis, axis) > 1e-20 * dot(u, u) * dot(v, v) && separates(axis, a, b, depth)) return true;
  }
  return false;
}

static double size_of(const Box *b) {
  double sum = 0;
  for (int k = 0; k < 3; k++) sum += (b->high[k] - b->low[k]) * (b->high[k] - b->low[k]);
  return sqrt(sum);
}

static bool lie_in_each_other(const Search *s, int one, int other) {
  Corners a, b;
  const int *v = corners_of(s->m, one), *w = corners_of(s->m, other);
  const double *origin = s->m->point + 3 * (size_t)v[0];

  // About a corner, so that what is far away from zero loses no digits.
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < 3; k++) {
      a[i][k] = s->m->point[3 * (size_t)v[i] + (size_t)k] - origin[k];
      b[i][k] = s->m->point[3 * (size_t)w[i] + (size_t)k] - origin[k];
    }
  }

  double depth = shallow * fmin(size_of(&s->box[one]), size_of(&s->box[other]));
  return !face_separates(a, b, depth) && !face_separates(b, a, depth) && !edges_separate(a, b, depth);
}

// ---- the tree -----------------------------------------------------------------------------------------------------------

// Every third bit of 63 (https://graphics.stanford.edu/~seander/bithacks.html, "Interleave bits").
static uint64_t spread_bits(uint64_t x) {
  static const uint64_t mask[] = {0x1f00000000ffff, 0x1f0000ff0000ff, 0x100f00f00f00f00f, 0x10c30c30c30c30c3, 0x1249249249249249};
  for (int i = 0; i < 5; i++) x = (x | x << (32 >> i)) & mask[i];
  return x;
}

static uint64_t code_of(const Box *b, const Box *all) {
  uint64_t code = 0;
  for (int k = 0; k < 3; k++) {
    double width = all->high[k] - all->low[k], at = (b->low[k] + b->high[k]) / 2 - all->low[k];
    double part = at / width;  // no number where all lie in a plane, or too far apart for one
    code |= spread_bits(part >= 0 && part <= 1 ? (uint64_t)(part * 0x1fffff) : 0) << k;
  }
  return code;
}

static int by_code(const void *a, const void *b) {
  const Placed *x = a, *y = b;
  if (x->code != y->code) return x->code < y->code ? -1 : 1;
  return x->cell < y->cell ? -1 : x->cell > y->cell;
}

static Box build(Search *s, int node, int from, int to) {
  Box b = no_box;
  PB_ASSERT(from < to);

  if (to - from <= leaf_cells) {
    for (int i = from; i < to; i++) include(&b, s->box[s->placed[i].cell].low, s->box[s->placed[i].cell].high);
  } else {
    // Neighbours along the curve lie side by side.
    int half = from + (to - from) / 2;
    Box left = build(s, 2 * node + 1, from, half), right = build(s, 2 * node + 2, half, to);
    include(&b, left.low, left.high);
    include(&b, right.low, right.high);
  }

  s->node[node] = b;
  return b;
}

static int nodes_over(int cells) {
  int depth = 0;
  while (cells > leaf_cells) {
    cells = cells - cells / 2;
    depth++;
  }
  PB_ASSERT(depth < most_depth);
  return (2 << depth) - 1;
}

// Pairs are told by the one with a face on the boundary; of two such by the first.
static void compare(Search *s, const char *outer, int cell, int other) {
  if (s->ended || other == cell || (outer[other] && other < cell) || !boxes_meet(&s->box[cell], &s->box[other])) return;
  if (lie_in_each_other(s, cell, other)) s->ended = !s->seen(s->whom, cell, other);
}

static void visit(Search *s, const char *outer, int cell, int node, int from, int to) {
  if (s->ended || !boxes_meet(&s->box[cell], &s->node[node])) return;

  if (to - from <= leaf_cells) {
    for (int i = from; i < to; i++) compare(s, outer, cell, s->placed[i].cell);
    return;
  }

  int half = from + (to - from) / 2;
  visit(s, outer, cell, 2 * node + 1, from, half);
  visit(s, outer, cell, 2 * node + 2, half, to);
}

static void search(Search *s, const char *outer) {
  Box all = no_box;
  for (int i = 0; i < s->count; i++) {
    s->box[i] = box_of(s->m, i);
    include(&all, s->box[i].low, s->box[i].high);
  }

  // Equal codes go by their cells: the order depends on the mesh alone.
  for (int i = 0; i < s->count; i++) s->placed[i] = (Placed){code_of(&s->box[i], &all), i};
  qsort(s->placed, (size_t)s->count, sizeof *s->placed, by_code);
  (void)build(s, 0, 0, s->count);

  for (int i = 0; i < s->count; i++)
    if (outer[i]) visit(s, outer, i, 0, 0, s->count);
}

pbStatus pbMesh_FindOverlaps(pbContext *ctx, const pbMesh *m, const char *outer, pbOverlapSeen seen, void *whom) {
  Search s = {.seen = seen, .whom = whom, .m = m};
  s.count = m->cells[pb_cellTetrahedron].count + m->cells[pb_cellTetrahedron10].count;
  PB_VALIDATE(pbMesh_IsNumbered(m));
  if (!s.count) return pb_ok;

  s.placed = pbContext_AllocArray(ctx, (size_t)s.count, sizeof *s.placed);
  s.box = pbContext_AllocArray(ctx, (size_t)s.count, sizeof *s.box);
  s.node = pbContext_AllocArray(ctx, (size_t)nodes_over(s.count), sizeof *s.node);
  bool room = s.placed && s.box && s.node;
  if (room) search(&s, outer);

  pbContext_Free(ctx, s.placed);
  pbContext_Free(ctx, s.box);
  pbContext_Free(ctx, s.node);
  return room ? pb_ok : pbMesh_NoMemory(ctx, m->name);
}
