// What a mesh must be before it can carry physics, each fault named with its cells and their place.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "mesh/mesh.h"

enum { shown_faults = 3 };         // of each sort
static const double flat = 1e-12;  // area or volume over the longest edge squared or cubed that counts as none

typedef struct Check {
  pbContext *ctx;
  const pbMesh *m;
  pbMeshReport r;
  int faults;
  size_t length;
  char text[1600];
} Check;

static void say(Check *c, const char *format, ...) PB_PRINTF(2, 3);
static void say(Check *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t room = sizeof c->text - c->length;
  int n = vsnprintf(c->text + c->length, room, format, args);
  va_end(args);
  if (n > 0) c->length += (size_t)n < room ? (size_t)n : room - 1;
}

// Counts a fault of a sort; true where it is among those shown, its line begun.
static bool fault(Check *c, int *count) {
  c->faults++;
  if (++*count > shown_faults) return false;
  say(c, "%s%.300s: ", c->length ? "\n" : "", c->m->name);
  return true;
}

static void rest(Check *c, int count, const char *what) {
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
      if (v < 0 || v >= m->points)
        return pbContext_Fail(ctx, pb_bad_input, "%.400s: %s %zu names point %d; there are %d, counted from 0", m->name,
                              pb_cellShape[kind].name, i / (size_t)nodes, v, m->points);
    }
  }
  for (int i = 0; i < m->points; i++) {
    const double *x = point(m, i);
    if (!isfinite(x[0]) || !isfinite(x[1]) || !isfinite(x[2]))
      return pbContext_Fail(ctx, pb_bad_input, "%.400s: point %d (%g %g %g) is not finite", m->name, i, x[0], x[1], x[2]);
  }
  return pb_ok;
}

static void bounds(Check *c) {
  for (int i = 0; i < c->m->points; i++) {
    for (int k = 0; k < 3; k++) {
      double x = point(c->m, i)[k];
      if (!i || x < c->r.low[k]) c->r.low[k] = x;
      if (!i || x > c->r.high[k]) c->r.high[k] = x;
    }
  }
}

// ---- single cells -----------------------------------------------------------------------------------------------------------

// Barycentric gradients' factor at a place L of a quadratic tetrahedron: derivative of node n's shape function by L[k].
static double shape_slope(int n, const double *L, int k) {
  static const int ends[6][2] = {{0, 1}, {1, 2}, {0, 2}, {0, 3}, {1, 3}, {2, 3}};
  if (n < 4) return n == k ? 4 * L[k] - 1 : 0;
  const int *e = ends[n - 4];
  return e[0] == k ? 4 * L[e[1]] : e[1] == k ? 4 * L[e[0]] : 0;
}

// Determinant of the map of a quadratic tetrahedron; 6 V where edges are straight.
static double quadratic_det(const pbMesh *m, const int *v, const double *L) {
  double column[4][3] = {{0}}, zero[3] = {0}, by[3][3];
  for (int n = 0; n < 10; n++)
    for (int k = 0; k < 4; k++)
      for (int i = 0; i < 3; i++) column[k][i] += shape_slope(n, L, k) * point(m, v[n])[i];
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < 3; i++) by[k][i] = column[k + 1][i] - column[0][i];
  return pbMesh_Det(zero, by[0], by[1], by[2]);
}

// Six times the volume, exactly (the determinant is cubic: five places), and the least determinant at the ten nodes.
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

static Size size_of(const pbMesh *m, pbCellKind kind, const int *v) {
  int corners = pb_cellShape[kind].corners, dimension = pb_cellShape[kind].dimension;
  double squares = 0, longest = 0, least = 0;
  for (int i = 0; i < corners; i++) {
    for (int j = 0; j < i; j++) {
      double sum = 0;
      for (int k = 0; k < 3; k++) sum += (point(m, v[i])[k] - point(m, v[j])[k]) * (point(m, v[i])[k] - point(m, v[j])[k]);
      squares += sum;
      longest = fmax(longest, sqrt(sum));
    }
  }
  if (dimension == 1) return (Size){longest, 1, longest == 0, false};
  if (dimension == 2) {
    double twice = pbMesh_Twice(point(m, v[0]), point(m, v[1]), point(m, v[2]));
    return (Size){twice / 2, squares > 0 ? 2 * sqrt(3) * twice / squares : 0, !(twice > flat * longest * longest), false};
  }
  double six = pbMesh_Det(point(m, v[0]), point(m, v[1]), point(m, v[2]), point(m, v[3]));
  double ratio = squares > 0 ? copysign(12 * pow(fabs(six) / 2, 2.0 / 3), six) / squares : 0;
  bool none = !(fabs(six) > flat * longest * longest * longest);
  least = six;
  if (kind == pb_cellTetrahedron10) six = quadratic_volume(m, v, &least);
  return (Size){six / 6, ratio, none, least < 0};
}

static bool repeats(const int *v, int nodes) {
  for (int i = 0; i < nodes; i++)
    for (int j = 0; j < i; j++)
      if (v[i] == v[j]) return true;
  return false;
}

static void add_size(Check *c, pbCellKind kind, int cell, Size size) {
  pbMeshReport *r = &c->r;
  int dimension = pb_cellShape[kind].dimension;
  *(dimension == 1 ? &r->length : dimension == 2 ? &r->area : &r->volume) += size.measure;
  if (dimension > 1 && (r->worst < 0 || size.quality < r->quality)) {
    r->quality = size.quality;
    r->worst_kind = kind;
    r->worst = cell;
  }
}

static void check_cell(Check *c, pbCellKind kind, int cell) {
  const int *v = row_of(c->m, kind, cell);
  if (repeats(v, pb_cellShape[kind].nodes)) {
    if (!fault(c, &c->r.repeated)) return;
    say_cell(c, kind, cell);
    say(c, " has a point twice");
    return;
  }
  Size size = size_of(c->m, kind, v);
  add_size(c, kind, cell, size);
  if (size.degenerate && fault(c, &c->r.degenerate)) {
    say_cell(c, kind, cell);
    say(c, " is degenerate: its size is %.3g", size.measure);
  } else if (!size.degenerate && size.folded && fault(c, &c->r.inverted)) {
    say_cell(c, kind, cell);
    say(c, size.measure < 0 ? " is inverted: its volume is %.3g" : " is folded: its map turns over, its volume is %.3g",
        size.measure);
  }
}

static void check_cells(Check *c) {
  c->r.quality = 1;
  c->r.worst = -1;
  for (pbCellKind kind = pb_cellEdge; kind < pb_cellKindCount; kind++)
    for (int i = 0; i < c->m->cells[kind].count; i++) check_cell(c, kind, i);
  rest(c, c->r.repeated, "cells with a point twice");
  rest(c, c->r.degenerate, "degenerate cells");
  rest(c, c->r.inverted, "inverted cells");
}

// ---- cells among each other
// -----------------------------------------------------------------------------------------------------

typedef struct Rows {
  int count, width;
  int *row, *order;
} Rows;

static pbStatus rows_begin(Check *c, Rows *t, int count, int width) {
  *t = (Rows){count, width, NULL, NULL};
  t->row = pbContext_AllocArray(c->ctx, (size_t)count * (size_t)width, sizeof(int));
  t->order = pbContext_AllocArray(c->ctx, (size_t)count, sizeof(int));
  return t->row && t->order ? pb_ok : pbMesh_NoMemory(c->ctx, c->m->name);
}
static int *rows_at(const Rows *t, int i) { return t->row + (size_t)t->order[i] * (size_t)t->width; }
static int rows_alike(const Rows *t, int at) {
  int n = 1;
  while (at + n < t->count && !memcmp(rows_at(t, at), rows_at(t, at + n), (size_t)t->width * sizeof(int))) n++;
  return n;
}
static void rows_end(Check *c, Rows *t) {
  pbContext_Free(c->ctx, t->row);
  pbContext_Free(c->ctx, t->order);
}

static void report_duplicates(Check *c, pbCellKind kind, const Rows *t) {
  for (int i = 0, n; i < t->count; i += n) {
    n = rows_alike(t, i);
    for (int k = 1; k < n; k++) {
      if (!fault(c, &c->r.duplicate)) continue;
      say_cell(c, kind, t->order[i + k]);
      say(c, " has the points of %s %d", pb_cellShape[kind].name, t->order[i]);
    }
  }
}

static pbStatus check_duplicates(Check *c, pbCellKind kind) {
  const pbCells *cells = &c->m->cells[kind];
  int nodes = pb_cellShape[kind].nodes, width = pb_cellShape[kind].corners;
  Rows t;
  pbStatus status = rows_begin(c, &t, cells->count, width);
  for (int i = 0; status == pb_ok && i < cells->count; i++) {
    memcpy(t.row + (size_t)i * (size_t)width, cells->vertex + (size_t)i * (size_t)nodes, (size_t)width * sizeof(int));
    pbRow_Sort(t.row + (size_t)i * (size_t)width, width);
  }
  if (status == pb_ok) status = pbRows_Sort(c->ctx, t.row, cells->count, width, c->m->points, t.order);
  if (status == pb_ok) report_duplicates(c, kind, &t);
  rows_end(c, &t);
  return status;
}

// A triangle's edge k by running number over both kinds of triangles.
static void triangle_edge(const pbMesh *m, int at, int *edge) {
  int first = m->cells[pb_cellTriangle].count, cell = at / 3;
  const int *v = cell < first ? row_of(m, pb_cellTriangle, cell) : row_of(m, pb_cellTriangle6, cell - first);
  edge[0] = v[at % 3];
  edge[1] = v[(at % 3 + 1) % 3];
}

static bool fault_at_edge(Check *c, bool wrong, int *count, const int *edge, const char *what) {
  if (!wrong) {
    ++*count;
    return false;
  }
  if (!fault(c, count)) return true;
  const double *x = point(c->m, edge[0]);
  say(c, "the edge of points %d and %d (near %.4g %.4g %.4g) %s", edge[0], edge[1], x[0], x[1], x[2], what);
  return true;
}

static void report_edges(Check *c, const Rows *t, unsigned wishes) {
  for (int i = 0, n; i < t->count; i += n) {
    n = rows_alike(t, i);
    int *edge = rows_at(t, i), first[2], second[2];
    if (n == 1) fault_at_edge(c, wishes & pb_meshClosed, &c->r.open_edges, edge, "has only one triangle");
    if (n > 2) fault_at_edge(c, wishes & pb_meshManifold, &c->r.crowded_edges, edge, "has more than two triangles");
    if (n != 2) continue;
    triangle_edge(c->m, t->order[i], first);
    triangle_edge(c->m, t->order[i + 1], second);
    if (first[0] == second[0])
      fault_at_edge(c, wishes & pb_meshOriented, &c->r.turned_edges, edge, "has two triangles that turn against each other");
  }
  if (wishes & pb_meshClosed) rest(c, c->r.open_edges, "edges with one triangle");
  if (wishes & pb_meshManifold) rest(c, c->r.crowded_edges, "edges with more than two triangles");
  if (wishes & pb_meshOriented) rest(c, c->r.turned_edges, "edges whose triangles turn against each other");
}

static pbStatus check_edges(Check *c, unsigned wishes) {
  Rows t;
  int count = 3 * (c->m->cells[pb_cellTriangle].count + c->m->cells[pb_cellTriangle6].count);
  pbStatus status = rows_begin(c, &t, count, 2);
  for (int i = 0; status == pb_ok && i < count; i++) {
    triangle_edge(c->m, i, t.row + 2 * (size_t)i);
    pbRow_Sort(t.row + 2 * (size_t)i, 2);
  }
  if (status == pb_ok) status = pbRows_Sort(c->ctx, t.row, count, 2, c->m->points, t.order);
  if (status == pb_ok) report_edges(c, &t, wishes);
  rows_end(c, &t);
  return status;
}

static void report_faces(Check *c, const Rows *t) {
  for (int i = 0, n; i < t->count; i += n) {
    n = rows_alike(t, i);
    const int *v = rows_at(t, i);
    if (n > 2 && fault(c, &c->r.crowded_faces))
      say(c, "the triangle of points %d %d %d is a face of %d tetrahedra", v[0], v[1], v[2], n);
  }
  rest(c, c->r.crowded_faces, "faces of more than two tetrahedra");
}

static pbStatus check_faces(Check *c) {
  const pbMesh *m = c->m;
  int first = m->cells[pb_cellTetrahedron].count, count = 4 * (first + m->cells[pb_cellTetrahedron10].count);
  Rows t;
  pbStatus status = rows_begin(c, &t, count, 3);
  for (int i = 0; status == pb_ok && i < count; i++) {
    const int *v = i / 4 < first ? row_of(m, pb_cellTetrahedron, i / 4) : row_of(m, pb_cellTetrahedron10, i / 4 - first);
    int *to = t.row + 3 * (size_t)i;
    for (int k = 0; k < 3; k++) to[k] = v[pb_cellShape[pb_cellTetrahedron].face[i % 4][k]];
    pbRow_Sort(to, 3);
  }
  if (status == pb_ok) status = pbRows_Sort(c->ctx, t.row, count, 3, m->points, t.order);
  if (status == pb_ok) report_faces(c, &t);
  rows_end(c, &t);
  return status;
}

// ---- parts
// --------------------------------------------------------------------------------------------------------------------

static int root_of(int *up, int i) {
  for (; up[i] != i; i = up[i]) up[i] = up[up[i]];
  return i;
}

static pbStatus check_parts(Check *c, unsigned wishes) {
  const pbMesh *m = c->m;
  int *up = pbContext_AllocArray(c->ctx, (size_t)m->points, sizeof *up), last = -1;
  if (!up) return pbMesh_NoMemory(c->ctx, m->name);
  for (int i = 0; i < m->points; i++) up[i] = -1;  // in no cell
  for (int kind = pb_cellEdge; kind < pb_cellKindCount; kind++) {
    int nodes = pb_cellShape[kind].nodes;
    for (int i = 0; i < m->cells[kind].count * nodes; i++) {
      int v = m->cells[kind].vertex[i], first = m->cells[kind].vertex[i - i % nodes];
      if (up[v] < 0) up[v] = v;
      up[root_of(up, v)] = root_of(up, first);
    }
  }
  for (int i = 0; i < m->points; i++) {
    c->r.parts += up[i] == i;
    if (up[i] == -1) {
      c->r.unused++;
      last = i;
    }
  }
  pbContext_Free(c->ctx, up);
  if (c->r.unused) pbContext_Warn(c->ctx, "%.300s: %d points are in no cell, the last is %d", m->name, c->r.unused, last);
  if (c->r.parts > 1 && !(wishes & pb_meshConnected))
    pbContext_Warn(c->ctx, "%.300s: %d parts that do not hang together", m->name, c->r.parts);
  int none = 0;
  if (c->r.parts > 1 && wishes & pb_meshConnected && fault(c, &none)) say(c, "%d parts that do not hang together", c->r.parts);
  return pb_ok;
}

static pbStatus check_all(Check *c, unsigned wishes) {
  bounds(c);
  check_cells(c);
  for (pbCellKind kind = pb_cellEdge; kind < pb_cellKindCount; kind++) PB_TRY(check_duplicates(c, kind));
  rest(c, c->r.duplicate, "cells that are there before");
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

// ---- orientation
// ----------------------------------------------------------------------------------------------------------------

// Corners 0 and 1 change places, and with them the nodes on the edges from them.
static void turn(pbMesh *m, pbCellKind kind) {
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

pbStatus pbMesh_Orient(pbMesh *m) {
  PB_TRY(pbMesh_CheckNumbers(m->ctx, m));
  Check c = {.ctx = m->ctx, .m = m};
  int negative = 0, all = m->cells[pb_cellTetrahedron].count + m->cells[pb_cellTetrahedron10].count;
  for (pbCellKind kind = pb_cellTetrahedron; kind <= pb_cellTetrahedron10; kind++) {
    for (int i = 0; i < m->cells[kind].count; i++) {
      const int *v = row_of(m, kind, i);
      double six = pbMesh_Det(point(m, v[0]), point(m, v[1]), point(m, v[2]), point(m, v[3]));
      if (!(six < 0) || !fault(&c, &negative)) continue;
      say_cell(&c, kind, i);
      say(&c, " is inverted: its volume is %.3g", six / 6);
    }
  }
  if (negative && negative < all) {
    rest(&c, negative, "inverted cells");
    return pbContext_Fail(m->ctx, pb_bad_input, "%s\n%.300s: %d of %d tetrahedra are inverted, not all: nothing was turned",
                          c.text, m->name, negative, all);
  }
  if (negative) {
    turn(m, pb_cellTetrahedron);
    turn(m, pb_cellTetrahedron10);
  }
  return pb_ok;
}
