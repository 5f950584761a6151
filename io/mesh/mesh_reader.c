// What readers of mesh files share: messages with the place, words and numbers, the mesh that grows.
// Tests: tests/unit/test_urdf.c.
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/file.h"
#include "io/mesh/mesh_reader.h"
#include "io/mesh/vtu.h"
#include "mesh/mesh.h"

// ---- errors -----------------------------------------------------------------------------------------------------------------

static pbStatus fail_at(const pbMeshReader *r, pbStatus status, const char *format, va_list args) {
  char text[1024];
  vsnprintf(text, sizeof text, format, args);

  // What was found may be anything, and a message is text.
  for (char *c = text; *c; c++)
    if (!isprint((unsigned char)*c)) *c = '?';

  // Bytes of binary files have no lines to count.
  if (r->binary || r->by_byte)
    return pbContext_Fail(r->ctx, status, "%.400s: byte %zu: %s", r->name, (size_t)(r->at - r->begin), text);
  return pbContext_Fail(r->ctx, status, "%.400s:%d: %s", r->name, r->line, text);
}

pbStatus pbRead_Fail(const pbMeshReader *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  pbStatus status = fail_at(r, pb_bad_input, format, args);
  va_end(args);
  return status;
}

pbStatus pbRead_Unsupported(const pbMeshReader *r, const char *format, ...) {
  va_list args;
  va_start(args, format);
  pbStatus status = fail_at(r, pb_unsupported, format, args);
  va_end(args);
  return status;
}

// ---- text ---------------------------------------------------------------------------------------------------------------

static bool blank(unsigned char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

bool pbRead_LineWord(pbMeshReader *r, char word[PB_MESH_WORD]) {
  size_t n = 0;

  while (r->at < r->end && blank(*r->at)) r->at++;
  for (; r->at < r->end && !blank(*r->at) && *r->at != '\n'; r->at++)
    if (n < PB_MESH_WORD - 1) word[n++] = (char)*r->at;

  word[n] = 0;
  return n > 0;
}

bool pbRead_Word(pbMeshReader *r, char word[PB_MESH_WORD]) {
  while (!pbRead_LineWord(r, word)) {
    if (r->at >= r->end) return false;

    // The end of a line: words go on in the next.
    r->at++;
    r->line++;
  }
  return true;
}

void pbRead_SkipLine(pbMeshReader *r) {
  const unsigned char *end = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;

  // The last line may have no end.
  r->at = end ? end + 1 : r->end;
  r->line += end != NULL;
}

void pbRead_Line(pbMeshReader *r, char line[PB_MESH_WORD]) {
  while (r->at < r->end && blank(*r->at)) r->at++;

  const unsigned char *from = r->at;
  pbRead_SkipLine(r);
  const unsigned char *to = r->at;
  while (to > from && (blank(to[-1]) || to[-1] == '\n')) to--;

  // As much of it as `line` holds.
  size_t length = (size_t)(to - from);
  size_t n = length < PB_MESH_WORD - 1 ? length : PB_MESH_WORD - 1;
  memcpy(line, from, n);
  line[n] = 0;
}

pbStatus pbRead_Expect(pbMeshReader *r, const char *word) {
  char found[PB_MESH_WORD];
  pbRead_Word(r, found);
  return strcmp(found, word) ? pbRead_Fail(r, "expected '%s', found '%.60s'", word, found) : pb_ok;
}

pbStatus pbRead_WordReal(pbMeshReader *r, const char *word, double *value) {
  char *end;
  double x = *word ? strtod_l(word, &end, r->locale) : NAN;
  if (!*word || *end) return pbRead_Fail(r, "expected a number, found '%.60s'", word);
  if (!isfinite(x)) return pbRead_Fail(r, "expected a finite number, found '%.60s'", word);

  *value = x;
  return pb_ok;
}

pbStatus pbRead_WordInteger(pbMeshReader *r, const char *word, int64_t *value) {
  const char *digit = word + (*word == '-' || *word == '+');
  int64_t x = 0;

  // Digit by digit, as long as 64 bits hold the number.
  bool good = *digit != 0;
  for (; good && *digit; digit++)
    good = isdigit((unsigned char)*digit) && !__builtin_mul_overflow(x, 10, &x) && !__builtin_add_overflow(x, *digit - '0', &x);
  if (!good) return pbRead_Fail(r, "expected a whole number, found '%.60s'", word);

  *value = *word == '-' ? -x : x;
  return pb_ok;
}

// ---- numbers, as words or as bytes ------------------------------------------------------------------------------------------

int pbRead_Width(pbReadType type) {
  static const int width[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  PB_ASSERT((size_t)type < sizeof width / sizeof *width);
  return width[type];
}

// The bits of a number of `width` bytes, the lowest byte first in the file, or last (swap).
static uint64_t bits_at(const unsigned char *bytes, int width, bool swap) {
  // Put together by value, so the order of bytes in memory does not matter.
  uint64_t bits = 0;
  for (int i = 0; i < width; i++) bits |= (uint64_t)bytes[swap ? width - 1 - i : i] << (8 * i);
  return bits;
}

int64_t pbRead_IntegerAt(const unsigned char *bytes, pbReadType type, bool swap) {
  int width = pbRead_Width(type);
  uint64_t bits = bits_at(bytes, width, swap);

  // Signed types extend their sign; uint64_t beyond INT64_MAX wraps to negative values.
  switch (type) {
    case pb_readInt8: return (int8_t)bits;
    case pb_readInt16: return (int16_t)bits;
    case pb_readInt32: return (int32_t)bits;
    default: return (int64_t)bits;
  }
}

double pbRead_RealAt(const unsigned char *bytes, pbReadType type, bool swap) {
  uint64_t bits = bits_at(bytes, pbRead_Width(type), swap);

  // memcpy: the bits are those of the number.
  if (type == pb_readFloat32) {
    uint32_t low = (uint32_t)bits;
    float single;
    memcpy(&single, &low, sizeof single);
    return (double)single;
  }
  if (type == pb_readFloat64) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  return (double)pbRead_IntegerAt(bytes, type, swap);
}

// `width` bytes, NULL where the file ends before.
static const unsigned char *take_bytes(pbMeshReader *r, size_t width) {
  // Compared as a difference: a pointer behind the end would be undefined.
  if ((size_t)(r->end - r->at) < width) return NULL;

  const unsigned char *bytes = r->at;
  r->at += width;
  return bytes;
}

pbStatus pbRead_Real(pbMeshReader *r, pbReadType type, double *value) {
  char word[PB_MESH_WORD];
  if (!r->binary) {
    if (!pbRead_Word(r, word)) return pbRead_Fail(r, "expected a number, found the end of the file");
    return pbRead_WordReal(r, word, value);
  }

  const unsigned char *bytes = take_bytes(r, (size_t)pbRead_Width(type));
  if (!bytes) return pbRead_Fail(r, "the file is cut short");

  double x = pbRead_RealAt(bytes, type, r->swap);
  if (!isfinite(x)) return pbRead_Fail(r, "expected a finite number, found one that is not");

  *value = x;
  return pb_ok;
}

pbStatus pbRead_Integer(pbMeshReader *r, pbReadType type, int64_t *value) {
  char word[PB_MESH_WORD];
  if (!r->binary) {
    if (!pbRead_Word(r, word)) return pbRead_Fail(r, "expected a whole number, found the end of the file");
    return pbRead_WordInteger(r, word, value);
  }

  const unsigned char *bytes = take_bytes(r, (size_t)pbRead_Width(type));
  if (!bytes) return pbRead_Fail(r, "the file is cut short");

  *value = pbRead_IntegerAt(bytes, type, r->swap);
  return pb_ok;
}

pbStatus pbRead_Pass(pbMeshReader *r, pbReadType type) {
  char word[PB_MESH_WORD];
  bool found = r->binary ? take_bytes(r, (size_t)pbRead_Width(type)) != NULL : pbRead_Word(r, word);
  return found ? pb_ok : pbRead_Fail(r, "the file is cut short");
}

pbStatus pbRead_Count(pbMeshReader *r, pbReadType type, size_t bytes, const char *what, int *count) {
  int64_t n;
  PB_TRY(pbRead_Integer(r, type, &n));

  // A count needs that many bytes in what is left of the file, so memory stays within a fixed multiple of the file.
  size_t left = (size_t)(r->end - r->at);
  size_t least = r->binary ? bytes : (bytes + 1) / 2;
  if (n < 0 || (uint64_t)n > left / (least ? least : 1) + 1)
    return pbRead_Fail(r, "%lld %s; the file has room for at most %zu", (long long)n, what, left / (least ? least : 1));

  if (n > PB_MESH_MOST) return pbRead_Fail(r, "%lld %s; at most %d are read", (long long)n, what, PB_MESH_MOST);
  *count = (int)n;
  return pb_ok;
}

// ---- the mesh ---------------------------------------------------------------------------------------------------------------

static bool grow_array(pbContext *ctx, void *array, size_t room, size_t size) {
  void *grown = pbContext_Resize(ctx, *(void **)array, room * size);
  if (grown) *(void **)array = grown;
  return grown != NULL;
}

pbStatus pbRead_AddPoint(pbMeshReader *r, const double x[3]) {
  pbMesh *m = r->mesh;

  if (m->points == PB_MESH_MOST) return pbRead_Fail(r, "more than %d points", PB_MESH_MOST);
  if (m->points == r->point_room) {
    int room = r->point_room ? 2 * r->point_room : 64;
    if (!grow_array(r->ctx, &m->point, (size_t)room, 3 * sizeof(double))) return pbMesh_NoMemory(r->ctx, r->name);
    r->point_room = room;
  }

  memcpy(m->point + 3 * m->points++, x, 3 * sizeof(double));
  return pb_ok;
}

pbStatus pbRead_AddCell(pbMeshReader *r, pbCellKind kind, const int *vertex, int group) {
  PB_ASSERT((size_t)kind < pb_cellKindCount);
  pbCells *c = &r->mesh->cells[kind];
  size_t nodes = (size_t)pb_cellShape[kind].nodes;

  if (c->count == PB_MESH_MOST) return pbRead_Fail(r, "more than %d %s", PB_MESH_MOST, pb_cellShape[kind].many);

  // Vertices and groups grow together, by doubling.
  if (c->count == r->cell_room[kind]) {
    int room = r->cell_room[kind] ? 2 * r->cell_room[kind] : 64;
    if (!grow_array(r->ctx, &c->vertex, (size_t)room * nodes, sizeof(int)) ||
        !grow_array(r->ctx, &c->group, (size_t)room, sizeof(int)))
      return pbMesh_NoMemory(r->ctx, r->name);
    r->cell_room[kind] = room;
  }

  memcpy(c->vertex + (size_t)c->count * nodes, vertex, nodes * sizeof(int));
  c->group[c->count++] = group;
  return pb_ok;
}

pbStatus pbRead_AddPolygon(pbMeshReader *r, const int *vertex, int corners, int group) {
  if (corners < 3) return pbRead_Fail(r, "a polygon with %d corners", corners);

  // A fan of triangles around the first corner.
  for (int i = 2; i < corners; i++)
    PB_TRY(pbRead_AddCell(r, pb_cellTriangle, (int[3]){vertex[0], vertex[i - 1], vertex[i]}, group));
  return pb_ok;
}

pbStatus pbRead_Range(const pbMeshReader *r, int64_t vertex, int64_t first) {
  if (vertex >= first && vertex < first + r->mesh->points) return pb_ok;
  return pbRead_Fail(r, "point %lld is named; there are %d, counted from %lld", (long long)vertex, r->mesh->points,
                     (long long)first);
}

// Triangles of a strip: each corner from the third on makes one with the two before it, reversed every other time.
static pbStatus add_strip(pbMeshReader *r, const int *vertex, int nodes, int group) {
  for (int i = 2; i < nodes; i++)
    PB_TRY(pbRead_AddCell(r, pb_cellTriangle, (int[3]){vertex[i - 2], vertex[i - 1 + i % 2], vertex[i - i % 2]}, group));
  return pb_ok;
}

// Corners row by row, where a hexahedron's go around.
static pbStatus add_voxel(pbMeshReader *r, const int *v, int group) {
  return pbRead_AddSolid(r, pb_solidHexahedron, (int[8]){v[0], v[1], v[3], v[2], v[4], v[5], v[7], v[6]}, group);
}

pbStatus pbRead_AddVtkCell(pbMeshReader *r, int type, const int *vertex, int nodes, int group) {
  static const struct {
    int type, nodes;
    pbCellKind kind;
  } single[] = {{pb_vtkVertex, 1, pb_cellPoint},
                {pb_vtkLine, 2, pb_cellEdge},
                {pb_vtkTriangle, 3, pb_cellTriangle},
                {pb_vtkTetra, 4, pb_cellTetrahedron},
                {pb_vtkQuadraticTriangle, 6, pb_cellTriangle6},
                {pb_vtkQuadraticTetra, 10, pb_cellTetrahedron10}};

  // Types that are one cell of a mesh.
  for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
    if (single[i].type != type) continue;
    if (single[i].nodes != nodes) return pbRead_Fail(r, "a cell of type %d with %d points", type, nodes);
    return pbRead_AddCell(r, single[i].kind, vertex, group);
  }

  // Types that are several, or none.
  switch (type) {
    case pb_vtkPolyVertex:
      for (int i = 0; i < nodes; i++) PB_TRY(pbRead_AddCell(r, pb_cellPoint, vertex + i, group));
      return pb_ok;
    case pb_vtkPolyLine:
      for (int i = 1; i < nodes; i++) PB_TRY(pbRead_AddCell(r, pb_cellEdge, vertex + i - 1, group));
      return pb_ok;
    case pb_vtkTriangleStrip: return add_strip(r, vertex, nodes, group);
    case pb_vtkPolygon: return pbRead_AddPolygon(r, vertex, nodes, group);
    case pb_vtkQuad:
      if (nodes == 4) return pbRead_AddQuadrangle(r, vertex, group);
      break;
    case pb_vtkVoxel:
      if (nodes == 8) return add_voxel(r, vertex, group);
      break;
    case pb_vtkHexahedron:
      if (nodes == 8) return pbRead_AddSolid(r, pb_solidHexahedron, vertex, group);
      break;
    case pb_vtkWedge:
      if (nodes == 6) return pbRead_AddSolid(r, pb_solidPrism, vertex, group);
      break;
    case pb_vtkPyramid:
      if (nodes == 5) return pbRead_AddSolid(r, pb_solidPyramid, vertex, group);
      break;
    case pb_vtkQuadraticEdge: r->left_out++; return pb_ok;
    default: break;
  }

  return pbRead_Unsupported(
      r, "cells of VTK's type %d with %d points are not supported (linear ones and quadratic triangles and tetrahedra are)", type,
      nodes);
}
