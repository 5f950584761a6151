// What a mesh must be before it can carry physics, each fault named with its cells and their place.
// Tests: tests/unit/test_mesh.c.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "mesh/mesh.h"
#include "mesh/overlap.h"

enum { shown_faults = 3 };         // of each sort
enum { most_pairs = 100000 };      // that are looked for: where all lie in all there are as many as squares
static const double flat = 1e-12;  // area or volume over the longest edge squared or cubed that counts as none

typedef struct Check {
  pbContext *ctx;
  const pbMesh *m;
  pbMeshReport r;
  int faults;
  size_t length, held;  // of the text: of faults, and where a warning behind them begins
  char text[1600];
} Check;

static void say(Check *c, const char *format, ...) PB_PRINTF(2, 3);
static void say(Check *c, const char *format, ...) {
  va_list args;
  va_start(args, format);

  // What does not fit is cut off.
  size_t room = sizeof c->text - c->length;
  int n = vsnprintf(c->text + c->length, room, format, args);
  va_end(args);
  if (n > 0) c->length += (size_t)n < room ? (size_t)n : room - 1;
}

// Counts a fault of a sort; true where it is among those shown, its line begun.
static bool begin_fault(Check *c, int *count) {
  c->faults++;
  if (++*count > shown_faults) return false;
  say(c, "%s%.300s: ", c->length ? "\n" : "", c->m->name);
  return true;
}

// The same of a warning: it is said at once, and alone.
static bool begin_warning(Check *c, int *count) {
  if (++*count > shown_faults) return false;
  c->held = c->length;
  say(c, "%.300s: ", c->m->name);
  return true;
}

static void end_warning(Check *c) {
  pbContext_Warn(c->ctx, "%s", c->text + c->held);
  c->length = c->held;
  c->text[c->length] = 0;
}

static void warn_of_rest(const Check *c, int count, const char *what) {
  if (count > shown_faults) pbContext_Warn(c->ctx, "%.300s: and %d more %s", c->m->name, count - shown_faults, what);
}

static void say_rest(Check *c, int count, const char *what) {
  if (count > shown_faults) say(c, "\n%.300s: and %d more %s", c->m->name, count - shown_faults, what);
}

static const int *row_of(const pbMesh *m, pbCellKind kind, int cell) {
  return m->cells[kind].vertex + (size_t)cell * (size_t)pb_cellShape[kind].nodes;
}
static const double *point(const pbMesh *m, int i) { return m->point + 3 * (size_t)i; }

// "tetrahedron 12 (points 3 4 5 6, near 0.1 0.2 0.3)"
static void say_cell(Check *c, pbCellKind kind, int cell) {
  const pbCellShape *s = &pb_cellShape[kind];
  const int *v = row_of(c->m, kind, cell);
  double at[3] = {0};

  say(c, "%s %d (points", s->name, cell);
  for (int i = 0; i < s->corners; i++) {
    // Its points, and the middle of its corners.
    say(c, " %d", v[i]);
    for (int k = 0; k < 3; k++) at[k] += point(c->m, v[i])[k] / s->corners;
  }
  say(c, ", near %.4g %.4g %.4g)", at[0], at[1], at[2]);
}

// ---- numbers ----------------------------------------------------------------------------------------------------------------

pbStatus pbMesh_CheckNumbers(pbContext *ctx, const pbMesh *m) {
  for (int kind = 0; kind < pb_cellKindCount; kind++) {
    int nodes = pb_cellShape[kind].nodes;
    for (size_t i = 0; i < (size_t)m->cells[kind].count * (size_t)nodes; i++) {
      int v = m->cells[kind].vertex[i];

      // Everything else indexes by these numbers.
      if (v < 0 || v >= m->points)
        return pbContext_Fail(ctx, pb_bad_input, "%.400s: %s %zu names point %d; there are %d, counted from 0", m->name,
                              pb_cellShape[kind].name, i / (size_t)nodes, v, m->points);
    }
  }

  for (int i = 0; i < m->points; i++) {
    const double *x = point(m, i);

    // Nor do sums and comparisons mean anything otherwise.
    if (!isfinite(x[0]) || !isfinite(x[1]) || !isfinite(x[2]))
      return pbContext_Fail(ctx, pb_bad_input, "%.400s: point %d (%g %g %g) is not finite", m->name, i, x[0], x[1], x[2]);
  }
  return pb_ok;
}

static void find_bounds(Check *c) {
  for (int i = 0; i < c->m->points; i++) {
    for (int k = 0; k < 3; k++) {
      double x = point(c->m, i)[k];
      if (!i || x < c->r.low[k]) c->r.low[k] = x;
      if (!i || x > c->r.high[k]) c->r.high[k] = x;
    }
  }
}

// ---- single cells -----------------------------------------------------------------------------------------------------------

// Derivative of node n's shape function by the barycentric coordinate L[k] of a quadratic tetrahedron: N_n = L_n (2 L_n - 1) at
// corners, N_n = 4 L_i L_j on the edge (i, j).
static double shape_slope(int n, const double *L, int k) {
  static const int ends[6][2] = {{0, 1}, {1, 2}, {0, 2}, {0, 3}, {1, 3}, {2, 3}};
  if (n < 4) return n == k ? 4 * L[k] - 1 : 0;

  const int *e = ends[n - 4];
  if (e[0] == k) return 4 * L[e[1]];
  return e[1] == k ? 4 * L[e[0]] : 0;
}

// Determinant of the map of a quadratic tetrahedron; 6 V where edges are straight.
static double quadratic_det(const pbMesh *m, const int *v, const double *L) {
  double column[4][3] = {{0}}, zero[3] = {0}, by[3][3];
  for (int n = 0; n < 10; n++) {
    for (int k = 0; k < 4; k++) {
      double slope = shape_slope(n, L, k);
      for (int i = 0; i < 3; i++) column[k][i] += slope * point(m, v[n])[i];
    }
  }

  // L[0] = 1 - L[1] - L[2] - L[3]
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < 3; i++) by[k][i] = column[k + 1][i] - column[0][i];
  }
  return pbMesh_Det(zero, by[0], by[1], by[2]);
}

// Six times the volume, exactly (the determinant is cubic: Gauss's five points), and the least determinant at the ten nodes.
static double quadratic_volume(const pbMesh *m, const int *v, double *least) {
  const double middle[4] = {0.25, 0.25, 0.25, 0.25};
  double sum = -0.8 * quadratic_det(m, v, middle);

  *least = INFINITY;
  for (int i = 0; i < 4; i++) {
    double L[4], corner[4] = {0};
    for (int k = 0; k < 4; k++) L[k] = k == i ? 0.5 : 1.0 / 6;
    corner[i] = 1;
    sum += 0.45 * quadratic_det(m, v, L);

    *least = fmin(*least, quadratic_det(m, v, corner));
    // The middles of the edges from this corner.
    for (int j = 0; j < i; j++) {
      double half[4] = {0};
      half[i] = half[j] = 0.5;
      *least = fmin(*least, quadratic_det(m, v, half));
    }
  }
  return sum;
}

typedef struct Size {
  double measure;           // length, area, volume
  double quality;           // mean ratio by corners, with the sign of the volume
  bool degenerate, folded;  // folded: negative somewhere
} Size;

// Summed squares of the lengths of all edges between corners, and the longest of them.
static double edge_squares(const pbMesh *m, const int *v, int corners, double *longest) {
  double squares = 0;
  *longest = 0;
  for (int i = 0; i < corners; i++) {
    for (int j = 0; j < i; j++) {
      double sum = 0;
      for (int k = 0; k < 3; k++) sum += (point(m, v[i])[k] - point(m, v[j])[k]) * (point(m, v[i])[k] - point(m, v[j])[k]);
      squares += sum;
      *longest = fmax(*longest, sqrt(sum));
    }
  }
  return squares;
}

// Quality is the mean ratio (Liu & Joe 1994): 1 of an equilateral cell, 0 of a flat one.
static Size size_of(const pbMesh *m, pbCellKind kind, const int *v) {
  int dimension = pb_cellShape[kind].dimension;
  double longest, squares = edge_squares(m, v, pb_cellShape[kind].corners, &longest);

  // Degenerate is relative to the cell's own size, so that units do not matter.
  if (dimension == 1) return (Size){longest, 1, longest == 0, false};
  if (dimension == 2) {
    double twice = pbMesh_Twice(point(m, v[0]), point(m, v[1]), point(m, v[2]));
    return (Size){twice / 2, squares > 0 ? 2 * sqrt(3) * twice / squares : 0, !(twice > flat * longest * longest), false};
  }

  // By corners first; a curved tetrahedron may be folded though its corners are not.
  double six = pbMesh_Det(point(m, v[0]), point(m, v[1]), point(m, v[2]), point(m, v[3]));
  double ratio = squares > 0 ? copysign(12 * pbPow(fabs(six) / 2, 2.0 / 3), six) / squares : 0;
  bool none = !(fabs(six) > flat * longest * longest * longest);
  double least = six;
  if (kind == pb_cellTetrahedron10) six = quadratic_volume(m, v, &least);
  return (Size){six / 6, ratio, none, least < 0};
}

static bool repeats(const int *v, int nodes) {
  for (int i = 0; i < nodes; i++) {
    for (int j = 0; j < i; j++) {
      if (v[i] == v[j]) return true;
    }
  }
  return false;
}

static void add_measure(pbMeshReport *r, int dimension, double measure) {
  switch (dimension) {
    case 1: r->length += measure; break;
    case 2: r->area += measure; break;
    default: r->volume += measure; break;
  }
}

static void add_size(Check *c, pbCellKind kind, int cell, Size size) {
  pbMeshReport *r = &c->r;
  int dimension = pb_cellShape[kind].dimension;
  add_measure(r, dimension, size.measure);
  if (dimension > 1 && (r->worst < 0 || size.quality < r->quality)) {
    r->quality = size.quality;
    r->worst_kind = kind;
    r->worst = cell;
  }

  // What is flat or turned is told as such.
  bool thin = dimension > 1 && !size.degenerate && size.quality > 0 && size.quality < PB_MESH_SLIVER;
  if (!thin || !begin_warning(c, &r->slivers)) return;
  say_cell(c, kind, cell);
  say(c, " is a sliver: its quality is %.2g (1 is regular)", size.quality);
  end_warning(c);
}

static void check_cell(Check *c, pbCellKind kind, int cell) {
  const int *v = row_of(c->m, kind, cell);
  if (repeats(v, pb_cellShape[kind].nodes)) {
    if (!begin_fault(c, &c->r.repeated)) return;
    say_cell(c, kind, cell);
    say(c, " has a point twice");
    return;
  }

  // Its measure counts even where it is bad.
  Size size = size_of(c->m, kind, v);
  add_size(c, kind, cell, size);

  // A degenerate cell is not called inverted, too: its sign is rounding.
  if (size.degenerate && begin_fault(c, &c->r.degenerate)) {
    say_cell(c, kind, cell);
    say(c, " is degenerate: its size is %.3g", size.measure);
  } else if (!size.degenerate && size.folded && begin_fault(c, &c->r.inverted)) {
    say_cell(c, kind, cell);
    say(c,
        size.measure < 0 ? " is inverted: its volume is %.3g" : " is folded: its map is inverted in places, its volume is %.3g",
        size.measure);
  }
}

static void check_cells(Check *c) {
  c->r.quality = 1;
  c->r.worst = -1;
  for (pbCellKind kind = pb_cellEdge; kind < pb_cellKindCount; kind++) {
    for (int i = 0; i < c->m->cells[kind].count; i++) check_cell(c, kind, i);
  }

  PB_ASSERT(c->r.repeated >= 0 && c->r.degenerate >= 0 && c->r.inverted >= 0);
  say_rest(c, c->r.repeated, "cells with a point twice");
  say_rest(c, c->r.degenerate, "degenerate cells");
  say_rest(c, c->r.inverted, "inverted cells");
  warn_of_rest(c, c->r.slivers, "slivers");
}

// ---- cells among each other -----------------------------------------------------------------------------------------
// Cells, edges and faces are compared as rows of point numbers in ascending order, which are sorted so that equal ones follow
// each other.
typedef struct Rows {
  int count, width;
  int *row, *order;
} Rows;

static pbStatus begin_rows(Check *c, Rows *t, int count, int width) {
  *t = (Rows){count, width, NULL, NULL};
  t->row = pbContext_AllocArray(c->ctx, (size_t)count * (size_t)width, sizeof(int));
  t->order = pbContext_AllocArray(c->ctx, (size_t)count, sizeof(int));
  return t->row && t->order ? pb_ok : pbMesh_NoMemory(c->ctx, c->m->name);
}
static int *row_at(const Rows *t, int i) { return t->row + (size_t)t->order[i] * (size_t)t->width; }
static int equal_rows(const Rows *t, int at) {
  int n = 1;
  while (at + n < t->count && !memcmp(row_at(t, at), row_at(t, at + n), (size_t)t->width * sizeof(int))) n++;
  return n;
}
static void end_rows(Check *c, Rows *t) {
  pbContext_Free(c->ctx, t->row);
  pbContext_Free(c->ctx, t->order);
}

static void report_duplicates(Check *c, pbCellKind kind, const Rows *t) {
  for (int i = 0, n; i < t->count; i += n) {
    n = equal_rows(t, i);
    for (int k = 1; k < n; k++) {
      if (!begin_fault(c, &c->r.duplicate)) continue;
      say_cell(c, kind, t->order[i + k]);
      say(c, " has the points of %s %d", pb_cellShape[kind].name, t->order[i]);
    }
  }
}

static pbStatus check_duplicates(Check *c, pbCellKind kind) {
  const pbCells *cells = &c->m->cells[kind];
  int nodes = pb_cellShape[kind].nodes, width = pb_cellShape[kind].corners;
  Rows t;
  pbStatus status = begin_rows(c, &t, cells->count, width);
  if (status == pb_ok) {
    for (int i = 0; i < cells->count; i++) {
      int *row = t.row + (size_t)i * (size_t)width;

      // Corners alone: middles follow from them.
      memcpy(row, cells->vertex + (size_t)i * (size_t)nodes, (size_t)width * sizeof(int));
      pbRow_Sort(row, width);
    }
    status = pbRows_Sort(c->ctx, t.row, cells->count, width, c->m->points, t.order);
  }

  if (status == pb_ok) report_duplicates(c, kind, &t);
  end_rows(c, &t);
  return status;
}

// Edge number `at` over both kinds of triangles, in the direction of its triangle.
static void triangle_edge(const pbMesh *m, int at, int *edge) {
  int first = m->cells[pb_cellTriangle].count, cell = at / 3;
  const int *v = cell < first ? row_of(m, pb_cellTriangle, cell) : row_of(m, pb_cellTriangle6, cell - first);
  edge[0] = v[at % 3];
  edge[1] = v[(at % 3 + 1) % 3];
}

// A fault where the caller wants none of its sort, else only counted.
static bool fault_at_edge(Check *c, bool wrong, int *count, const int *edge, const char *what) {
  if (!wrong) {
    ++*count;
    return false;
  }

  if (!begin_fault(c, count)) return true;
  const double *x = point(c->m, edge[0]);
  say(c, "the edge of points %d and %d (near %.4g %.4g %.4g) %s", edge[0], edge[1], x[0], x[1], x[2], what);
  return true;
}

static void report_edges(Check *c, const Rows *t, unsigned wishes) {
  for (int i = 0, n; i < t->count; i += n) {
    n = equal_rows(t, i);
    int *edge = row_at(t, i), first[2], second[2];

    // One triangle: a border; more than two: no surface.
    if (n == 1) fault_at_edge(c, wishes & pb_meshClosed, &c->r.open_edges, edge, "has only one triangle");
    if (n > 2) fault_at_edge(c, wishes & pb_meshManifold, &c->r.crowded_edges, edge, "has more than two triangles");
    if (n != 2) continue;

    // Triangles of one orientation run along their common edge in opposite directions.
    triangle_edge(c->m, t->order[i], first);
    triangle_edge(c->m, t->order[i + 1], second);
    if (first[0] == second[0])
      fault_at_edge(c, wishes & pb_meshOriented, &c->r.turned_edges, edge, "has two triangles of opposite orientation");
  }

  if (wishes & pb_meshClosed) say_rest(c, c->r.open_edges, "edges with one triangle");
  if (wishes & pb_meshManifold) say_rest(c, c->r.crowded_edges, "edges with more than two triangles");
  if (wishes & pb_meshOriented) say_rest(c, c->r.turned_edges, "edges whose triangles have opposite orientations");
}

static pbStatus check_edges(Check *c, unsigned wishes) {
  Rows t;
  int count = 3 * (c->m->cells[pb_cellTriangle].count + c->m->cells[pb_cellTriangle6].count);
  pbStatus status = begin_rows(c, &t, count, 2);
  if (status == pb_ok) {
    for (int i = 0; i < count; i++) {
      triangle_edge(c->m, i, t.row + 2 * (size_t)i);
      pbRow_Sort(t.row + 2 * (size_t)i, 2);
    }
    status = pbRows_Sort(c->ctx, t.row, count, 2, c->m->points, t.order);
  }

  if (status == pb_ok) report_edges(c, &t, wishes);
  end_rows(c, &t);
  return status;
}

// A tetrahedron by its number over both kinds.
static void say_tetrahedron(Check *c, int at) {
  int linear = c->m->cells[pb_cellTetrahedron].count;

  // Linear ones come first.
  say_cell(c, at < linear ? pb_cellTetrahedron : pb_cellTetrahedron10, at < linear ? at : at - linear);
}

// The corner of a tetrahedron that is none of a face.
static int tip_over(const pbMesh *m, int at, const int *face) {
  int linear = m->cells[pb_cellTetrahedron].count;
  const int *v = at < linear ? row_of(m, pb_cellTetrahedron, at) : row_of(m, pb_cellTetrahedron10, at - linear);
  for (int k = 0; k < 4; k++)
    if (v[k] != face[0] && v[k] != face[1] && v[k] != face[2]) return v[k];
  return v[0];  // one with a point twice
}

static double side_of(const pbMesh *m, const int *face, int tip) {
  return pbMesh_Det(point(m, face[0]), point(m, face[1]), point(m, face[2]), point(m, tip));
}

// Two tetrahedra on one side of a face that they share lie in each other, unless one is turned or flat.
static void report_side(Check *c, const Rows *t, int i) {
  const int *face = row_at(t, i);
  int one = t->order[i] / 4, other = t->order[i + 1] / 4, tip[2] = {tip_over(c->m, one, face), tip_over(c->m, other, face)};
  double side[2] = {side_of(c->m, face, tip[0]), side_of(c->m, face, tip[1])};

  // The same corners: there before.
  if (tip[0] == tip[1] || !(side[0] * side[1] > 0) || c->r.inverted || c->r.degenerate) return;

  if (!begin_fault(c, &c->r.overlapping)) return;
  say_tetrahedron(c, one);
  say(c, " and ");
  say_tetrahedron(c, other);
  say(c, " lie in each other: both are on one side of the face that they share");
}

static void report_faces(Check *c, const Rows *t) {
  for (int i = 0, n; i < t->count; i += n) {
    n = equal_rows(t, i);
    const int *v = row_at(t, i);
    if (n == 2) report_side(c, t, i);
    if (n > 2 && begin_fault(c, &c->r.crowded_faces))
      say(c, "the triangle of points %d %d %d is a face of %d tetrahedra", v[0], v[1], v[2], n);
  }
  say_rest(c, c->r.crowded_faces, "faces of more than two tetrahedra");
  say_rest(c, c->r.overlapping, "pairs that lie in each other");
}

static bool warn_of_pair(void *check, int cell, int other) {
  Check *c = check;
  bool more = c->r.overlapping + 1 < most_pairs;
  PB_ASSERT(cell != other);
  if (!begin_warning(c, &c->r.overlapping)) return more;

  say_tetrahedron(c, cell);
  say(c, " and ");
  say_tetrahedron(c, other);
  say(c, " lie in each other");
  end_warning(c);
  return more;
}

// Pairs that share no face. Where there are faults already, faces do not tell what is outside.
static pbStatus check_overlaps(Check *c, const Rows *t) {
  if (c->faults || !t->count) return pb_ok;
  char *outer = pbContext_AllocArray(c->ctx, (size_t)t->count / 4, sizeof *outer);
  if (!outer) return pbMesh_NoMemory(c->ctx, c->m->name);

  for (int i = 0, n; i < t->count; i += n) {
    n = equal_rows(t, i);
    if (n == 1) outer[t->order[i] / 4] = 1;
  }

  pbStatus status = pbMesh_FindOverlaps(c->ctx, c->m, outer, warn_of_pair, c);
  pbContext_Free(c->ctx, outer);

  bool all = c->r.overlapping < most_pairs;
  warn_of_rest(c, c->r.overlapping,
               all ? "pairs that lie in each other" : "pairs that lie in each other; the search ended there");
  return status;
}

// Corners of face number `at` over both kinds of tetrahedra.
static void tetrahedron_face(const pbMesh *m, int at, int *face) {
  int first = m->cells[pb_cellTetrahedron].count, cell = at / 4;
  const int *v = cell < first ? row_of(m, pb_cellTetrahedron, cell) : row_of(m, pb_cellTetrahedron10, cell - first);
  for (int k = 0; k < 3; k++) face[k] = v[pb_cellShape[pb_cellTetrahedron].face[at % 4][k]];
}

static pbStatus check_faces(Check *c) {
  const pbMesh *m = c->m;
  int count = 4 * (m->cells[pb_cellTetrahedron].count + m->cells[pb_cellTetrahedron10].count);
  Rows t;
  pbStatus status = begin_rows(c, &t, count, 3);
  if (status == pb_ok) {
    for (int i = 0; i < count; i++) {
      tetrahedron_face(m, i, t.row + 3 * (size_t)i);
      pbRow_Sort(t.row + 3 * (size_t)i, 3);
    }
    status = pbRows_Sort(c->ctx, t.row, count, 3, m->points, t.order);
  }

  if (status == pb_ok) report_faces(c, &t);
  if (status == pb_ok) status = check_overlaps(c, &t);
  end_rows(c, &t);
  return status;
}

// ---- parts ----------------------------------------------------------------------------------------------------------
// Connected parts by union and find; paths are halved on the way (Tarjan).
static int root_of(int *up, int i) {
  for (; up[i] != i; i = up[i]) up[i] = up[up[i]];
  return i;
}

// up[i]: toward the root of the part that point i is in; -1: in no cell.
static void join_points(const pbMesh *m, int *up) {
  for (int i = 0; i < m->points; i++) up[i] = -1;
  for (int kind = pb_cellEdge; kind < pb_cellKindCount; kind++) {
    int nodes = pb_cellShape[kind].nodes;
    for (int i = 0; i < m->cells[kind].count * nodes; i++) {
      int v = m->cells[kind].vertex[i], first = m->cells[kind].vertex[i - i % nodes];
      if (up[v] < 0) up[v] = v;
      up[root_of(up, v)] = root_of(up, first);
    }
  }
}

static pbStatus check_parts(Check *c, unsigned wishes) {
  const pbMesh *m = c->m;
  int *up = pbContext_AllocArray(c->ctx, (size_t)m->points, sizeof *up), last = -1;
  if (!up) return pbMesh_NoMemory(c->ctx, m->name);

  join_points(m, up);
  for (int i = 0; i < m->points; i++) {
    c->r.parts += up[i] == i;
    if (up[i] == -1) {
      c->r.unused++;
      last = i;
    }
  }
  pbContext_Free(c->ctx, up);

  // Warnings, unless the caller wants one part.

  // Points in no cell are no fault: they do nothing.
  if (c->r.unused) pbContext_Warn(c->ctx, "%.300s: %d points are in no cell, the last is %d", m->name, c->r.unused, last);
  if (c->r.parts > 1 && !(wishes & pb_meshConnected))
    pbContext_Warn(c->ctx, "%.300s: %d parts that are not connected", m->name, c->r.parts);
  int none = 0;
  if (c->r.parts > 1 && wishes & pb_meshConnected && begin_fault(c, &none)) say(c, "%d parts that are not connected", c->r.parts);
  return pb_ok;
}

static pbStatus check_all(Check *c, unsigned wishes) {
  find_bounds(c);
  check_cells(c);
  for (pbCellKind kind = pb_cellEdge; kind < pb_cellKindCount; kind++) PB_TRY(check_duplicates(c, kind));
  say_rest(c, c->r.duplicate, "cells that are there before");

  PB_TRY(check_faces(c));
  PB_TRY(check_edges(c, wishes));
  return check_parts(c, wishes);
}

pbStatus pbMesh_Check(pbContext *ctx, const pbMesh *m, unsigned wishes, pbMeshReport *report) {
  PB_TRY(pbMesh_CheckNumbers(ctx, m));

  Check c = {.ctx = ctx, .m = m};
  PB_TRY(check_all(&c, wishes));
  if (report) *report = c.r;
  return c.faults ? pbContext_Fail(ctx, pb_bad_input, "%s", c.text) : pb_ok;
}

// ---- orientation ----------------------------------------------------------------------------------------------------
// Corners 0 and 1 change places, and with them the nodes on the edges from them.
static void mirror_cells(pbMesh *m, pbCellKind kind) {
  static const int swaps[][2] = {{0, 1}, {5, 6}, {7, 8}};
  for (int i = 0; i < m->cells[kind].count; i++) {
    int *v = m->cells[kind].vertex + (size_t)i * (size_t)pb_cellShape[kind].nodes;
    for (int s = 0; s < (kind == pb_cellTetrahedron10 ? 3 : 1); s++) {
      int t = v[swaps[s][0]];
      v[swaps[s][0]] = v[swaps[s][1]];
      v[swaps[s][1]] = t;
    }
  }
}

// All tetrahedra inverted: a convention of the file's, which can be mended. Some of them: an error of the mesh.
pbStatus pbMesh_Orient(pbMesh *m) {
  PB_TRY(pbMesh_CheckNumbers(m->ctx, m));

  Check c = {.ctx = m->ctx, .m = m};
  int negative = 0, all = m->cells[pb_cellTetrahedron].count + m->cells[pb_cellTetrahedron10].count;
  for (pbCellKind kind = pb_cellTetrahedron; kind <= pb_cellTetrahedron10; kind++) {
    for (int i = 0; i < m->cells[kind].count; i++) {
      const int *v = row_of(m, kind, i);
      double six = pbMesh_Det(point(m, v[0]), point(m, v[1]), point(m, v[2]), point(m, v[3]));
      if (!(six < 0) || !begin_fault(&c, &negative)) continue;

      say_cell(&c, kind, i);
      say(&c, " is inverted: its volume is %.3g", six / 6);
    }
  }

  // Mirroring some and not others would hide the error.
  if (negative && negative < all) {
    say_rest(&c, negative, "inverted cells");
    return pbContext_Fail(m->ctx, pb_bad_input, "%s\n%.300s: %d of %d tetrahedra are inverted, not all: none was mirrored",
                          c.text, m->name, negative, all);
  }
  if (negative) {
    mirror_cells(m, pb_cellTetrahedron);
    mirror_cells(m, pb_cellTetrahedron10);
  }
  return pb_ok;
}
