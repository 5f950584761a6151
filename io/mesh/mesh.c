// Mesh files: which reader, and what all of them share.
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/context.h"
#include "io/file.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

// ---- errors -----------------------------------------------------------------------------------------------------------------

static pbStatus fail_at(const pbMeshReader *r, pbStatus status, const char *format, va_list args) {
  char text[1024];
  vsnprintf(text, sizeof text, format, args);
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
    r->at++;
    r->line++;
  }
  return true;
}

void pbRead_SkipLine(pbMeshReader *r) {
  const unsigned char *end = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
  r->at = end ? end + 1 : r->end;
  r->line += end != NULL;
}

void pbRead_Line(pbMeshReader *r, char line[PB_MESH_WORD]) {
  while (r->at < r->end && blank(*r->at)) r->at++;
  const unsigned char *from = r->at;
  pbRead_SkipLine(r);
  const unsigned char *to = r->at;
  while (to > from && (blank(to[-1]) || to[-1] == '\n')) to--;
  size_t n = (size_t)(to - from) < PB_MESH_WORD - 1 ? (size_t)(to - from) : PB_MESH_WORD - 1;
  memcpy(line, from, n);
  line[n] = 0;
}

pbStatus pbRead_Expect(pbMeshReader *r, const char *word) {
  char found[PB_MESH_WORD];
  pbRead_Word(r, found);
  return strcmp(found, word) ? pbRead_Fail(r, "'%s' is expected, not '%.60s'", word, found) : pb_ok;
}

pbStatus pbRead_WordReal(pbMeshReader *r, const char *word, double *value) {
  char *end;
  double x = *word ? strtod_l(word, &end, r->locale) : NAN;
  if (!*word || *end) return pbRead_Fail(r, "a number is expected, not '%.60s'", word);
  if (!isfinite(x)) return pbRead_Fail(r, "'%.60s' is not finite", word);
  *value = x;
  return pb_ok;
}

pbStatus pbRead_WordInteger(pbMeshReader *r, const char *word, int64_t *value) {
  const char *digit = word + (*word == '-' || *word == '+');
  int64_t x = 0;
  bool good = *digit != 0;
  for (; good && *digit; digit++)
    good = isdigit((unsigned char)*digit) && !__builtin_mul_overflow(x, 10, &x) && !__builtin_add_overflow(x, *digit - '0', &x);
  if (!good) return pbRead_Fail(r, "a whole number is expected, not '%.60s'", word);
  *value = *word == '-' ? -x : x;
  return pb_ok;
}

// ---- numbers, as words or as bytes ------------------------------------------------------------------------------------------

int pbRead_Width(pbReadType type) {
  static const int width[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return width[type];
}

static uint64_t bits_at(const unsigned char *bytes, int width, bool swap) {
  uint64_t bits = 0;
  for (int i = 0; i < width; i++) bits |= (uint64_t)bytes[swap ? width - 1 - i : i] << (8 * i);
  return bits;
}

int64_t pbRead_IntegerAt(const unsigned char *bytes, pbReadType type, bool swap) {
  int width = pbRead_Width(type);
  uint64_t bits = bits_at(bytes, width, swap);
  switch (type) {
    case pb_readInt8: return (int8_t)bits;
    case pb_readInt16: return (int16_t)bits;
    case pb_readInt32: return (int32_t)bits;
    default: return (int64_t)bits;
  }
}

double pbRead_RealAt(const unsigned char *bytes, pbReadType type, bool swap) {
  uint64_t bits = bits_at(bytes, pbRead_Width(type), swap);
  uint32_t low = (uint32_t)bits;
  float single;
  double value;
  if (type == pb_readFloat32) return memcpy(&single, &low, sizeof single), (double)single;
  if (type == pb_readFloat64) return memcpy(&value, &bits, sizeof value), value;
  return (double)pbRead_IntegerAt(bytes, type, swap);
}

// `width` bytes, NULL where the file ends before.
static const unsigned char *take(pbMeshReader *r, size_t width) {
  if ((size_t)(r->end - r->at) < width) return NULL;
  const unsigned char *bytes = r->at;
  r->at += width;
  return bytes;
}

pbStatus pbRead_Real(pbMeshReader *r, pbReadType type, double *value) {
  char word[PB_MESH_WORD];
  if (!r->binary)
    return pbRead_Word(r, word) ? pbRead_WordReal(r, word, value) : pbRead_Fail(r, "the file ends where a number is expected");
  const unsigned char *bytes = take(r, (size_t)pbRead_Width(type));
  if (!bytes) return pbRead_Fail(r, "the file is cut short");
  double x = pbRead_RealAt(bytes, type, r->swap);
  if (!isfinite(x)) return pbRead_Fail(r, "a number is not finite");
  *value = x;
  return pb_ok;
}

pbStatus pbRead_Integer(pbMeshReader *r, pbReadType type, int64_t *value) {
  char word[PB_MESH_WORD];
  if (!r->binary)
    return pbRead_Word(r, word) ? pbRead_WordInteger(r, word, value)
                                : pbRead_Fail(r, "the file ends where a whole number is expected");
  const unsigned char *bytes = take(r, (size_t)pbRead_Width(type));
  if (!bytes) return pbRead_Fail(r, "the file is cut short");
  *value = pbRead_IntegerAt(bytes, type, r->swap);
  return pb_ok;
}

pbStatus pbRead_Pass(pbMeshReader *r, pbReadType type) {
  char word[PB_MESH_WORD];
  if (!r->binary ? pbRead_Word(r, word) : take(r, (size_t)pbRead_Width(type)) != NULL) return pb_ok;
  return pbRead_Fail(r, "the file is cut short");
}

pbStatus pbRead_Count(pbMeshReader *r, pbReadType type, size_t bytes, const char *what, int *count) {
  int64_t n;
  PB_TRY(pbRead_Integer(r, type, &n));
  size_t left = (size_t)(r->end - r->at), least = r->binary ? bytes : (bytes + 1) / 2;
  if (n < 0 || (uint64_t)n > left / (least ? least : 1) + 1)
    return pbRead_Fail(r, "%lld %s; the file has room for at most %zu", (long long)n, what, left / (least ? least : 1));
  if (n > PB_MESH_MOST) return pbRead_Fail(r, "%lld %s; at most %d are read", (long long)n, what, PB_MESH_MOST);
  *count = (int)n;
  return pb_ok;
}

// ---- the mesh ---------------------------------------------------------------------------------------------------------------

static bool grow(pbContext *ctx, void *array, size_t room, size_t size) {
  void *grown = pbContext_Resize(ctx, *(void **)array, room * size);
  if (grown) *(void **)array = grown;
  return grown != NULL;
}

pbStatus pbRead_AddPoint(pbMeshReader *r, const double x[3]) {
  pbMesh *m = r->mesh;
  if (m->points == PB_MESH_MOST) return pbRead_Fail(r, "more than %d points", PB_MESH_MOST);
  if (m->points == r->point_room) {
    int room = r->point_room ? 2 * r->point_room : 64;
    if (!grow(r->ctx, &m->point, (size_t)room, 3 * sizeof(double))) return pbMesh_NoMemory(r->ctx, r->name);
    r->point_room = room;
  }
  memcpy(m->point + 3 * m->points++, x, 3 * sizeof(double));
  return pb_ok;
}

pbStatus pbRead_AddCell(pbMeshReader *r, pbCellKind kind, const int *vertex, int group) {
  pbCells *c = &r->mesh->cells[kind];
  size_t nodes = (size_t)pb_cellShape[kind].nodes;
  if (c->count == PB_MESH_MOST) return pbRead_Fail(r, "more than %d %s", PB_MESH_MOST, pb_cellShape[kind].many);
  if (c->count == r->cell_room[kind]) {
    int room = r->cell_room[kind] ? 2 * r->cell_room[kind] : 64;
    if (!grow(r->ctx, &c->vertex, (size_t)room * nodes, sizeof(int)) || !grow(r->ctx, &c->group, (size_t)room, sizeof(int)))
      return pbMesh_NoMemory(r->ctx, r->name);
    r->cell_room[kind] = room;
  }
  memcpy(c->vertex + (size_t)c->count * nodes, vertex, nodes * sizeof(int));
  c->group[c->count++] = group;
  return pb_ok;
}

pbStatus pbRead_AddPolygon(pbMeshReader *r, const int *vertex, int corners, int group) {
  if (corners < 3) return pbRead_Fail(r, "a polygon with %d corners", corners);
  for (int i = 2; i < corners; i++)
    PB_TRY(pbRead_AddCell(r, pb_cellTriangle, (int[3]){vertex[0], vertex[i - 1], vertex[i]}, group));
  return pb_ok;
}

pbStatus pbRead_Range(const pbMeshReader *r, int64_t vertex, int64_t first) {
  if (vertex >= first && vertex < first + r->mesh->points) return pb_ok;
  return pbRead_Fail(r, "point %lld is named; there are %d, counted from %lld", (long long)vertex, r->mesh->points,
                     (long long)first);
}

pbStatus pbRead_AddVtkCell(pbMeshReader *r, int type, const int *vertex, int nodes, int group) {
  static const struct {
    int type, nodes;
    pbCellKind kind;
  } single[] = {{1, 1, pb_cellPoint},        {3, 2, pb_cellEdge},       {5, 3, pb_cellTriangle},
                {10, 4, pb_cellTetrahedron}, {22, 6, pb_cellTriangle6}, {24, 10, pb_cellTetrahedron10}};
  for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
    if (single[i].type != type) continue;
    if (single[i].nodes != nodes) return pbRead_Fail(r, "a cell of type %d with %d points", type, nodes);
    return pbRead_AddCell(r, single[i].kind, vertex, group);
  }
  if (type == 7 || (type == 9 && nodes == 4)) return pbRead_AddPolygon(r, vertex, nodes, group);
  for (int i = 0; type == 2 && i < nodes; i++) PB_TRY(pbRead_AddCell(r, pb_cellPoint, vertex + i, group));
  for (int i = 1; type == 4 && i < nodes; i++) PB_TRY(pbRead_AddCell(r, pb_cellEdge, vertex + i - 1, group));
  for (int i = 2; type == 6 && i < nodes; i++)  // every other triangle of a strip is turned
    PB_TRY(pbRead_AddCell(r, pb_cellTriangle, (int[3]){vertex[i - 2], vertex[i - 1 + i % 2], vertex[i - i % 2]}, group));
  r->left_out += type == 21;  // curved lines
  if (type == 2 || type == 4 || type == 6 || type == 21) return pb_ok;
  return pbRead_Unsupported(r, "cells of VTK's type %d with %d points are not supported (triangles and tetrahedra are)", type,
                            nodes);
}

// ---- files ----------------------------------------------------------------------------------------------------------------

static const struct {
  const char *ending;
  pbStatus (*read)(pbMeshReader *);
} formats[] = {{".obj", pbRead_Obj},  {".stl", pbRead_Stl}, {".ply", pbRead_Ply},
               {".msh", pbRead_Gmsh}, {".vtk", pbRead_Vtk}, {".vtu", pbRead_Vtu}};

static int format_of(const char *name) {
  const char *dot = strrchr(name, '.');
  for (int i = 0; dot && i < (int)(sizeof formats / sizeof *formats); i++)
    if (!strcasecmp(dot, formats[i].ending)) return i;
  return -1;
}

static pbStatus read_mesh(pbMeshReader *r, int format) {
  PB_TRY(formats[format].read(r));
  if (!r->mesh->points) return pbContext_Fail(r->ctx, pb_bad_input, "%.400s: holds no points", r->name);
  if (r->left_out) pbContext_Warn(r->ctx, "%.400s: %d curved lines are left out", r->name, r->left_out);
  return pbMesh_CheckNumbers(r->ctx, r->mesh);
}

pbStatus pbMesh_Parse(pbContext *ctx, const void *bytes, size_t size, const char *name, pbMesh **mesh) {
  int format = format_of(name);
  if (format < 0) return pbContext_Fail(ctx, pb_unsupported, "%.400s: the ending is none of .obj .stl .ply .msh .vtk .vtu", name);
  pbMeshReader r = {.ctx = ctx, .name = name, .begin = bytes, .at = bytes, .end = (const unsigned char *)bytes + size, .line = 1};
  PB_TRY(pbMesh_Create(ctx, name, 0, NULL, &r.mesh));
  r.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  pbStatus status = r.locale ? read_mesh(&r, format) : pbMesh_NoMemory(ctx, name);
  if (r.locale) freelocale(r.locale);
  if (status == pb_ok) *mesh = r.mesh;
  else pbMesh_Destroy(r.mesh);
  return status;
}

pbStatus pbMesh_Load(pbContext *ctx, const char *path, pbMesh **mesh) {
  char *bytes = NULL;
  size_t size = 0;
  if (format_of(path) >= 0) PB_TRY(pbFile_ReadAll(ctx, path, PB_MESH_FILE, &bytes, &size));
  pbStatus status = pbMesh_Parse(ctx, bytes, size, path, mesh);
  pbContext_Free(ctx, bytes);
  return status;
}
