// Legacy VTK, text or binary (big-endian), versions 1 to 5.1: UNSTRUCTURED_GRID and POLYDATA. What follows the cells (data) is not
// read.
#include <strings.h>

#include "base/context.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

typedef struct Vtk {
  pbMeshReader *r;
  bool bytes;
  bool offsets;         // version 5: cells as offsets and connectivity
  int cells, entries;   // of the table that was read last
  int *start, *vertex;  // cells + 1, entries
} Vtk;

static void drop_table(Vtk *t) {
  pbContext_Free(t->r->ctx, t->start);
  pbContext_Free(t->r->ctx, t->vertex);
  t->start = t->vertex = NULL;
  t->cells = t->entries = 0;
}

static pbStatus type_of(pbMeshReader *r, pbReadType *type) {
  static const struct {
    const char *name;
    pbReadType type;
  } types[] = {{"float", pb_readFloat32},      {"double", pb_readFloat64},     {"int", pb_readInt32},
               {"vtktypeint64", pb_readInt64}, {"vtktypeint32", pb_readInt32}, {"long", pb_readInt64},
               {"vtkIdType", pb_readInt64}};
  char word[PB_MESH_WORD];
  pbRead_Word(r, word);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcasecmp(word, types[i].name) != 0) continue;
    *type = types[i].type;
    return pb_ok;
  }
  return pbRead_Unsupported(r, "numbers of type '%.60s'", word);
}

// Where numbers begin: bytes start behind the end of this line.
static void body(Vtk *t, bool begins) {
  if (begins && t->bytes) pbRead_SkipLine(t->r);
  t->r->binary = begins && t->bytes;
}

static pbStatus read_points(Vtk *t, int count, pbReadType type) {
  for (int i = 0; i < count; i++) {
    double x[3];
    for (int k = 0; k < 3; k++) PB_TRY(pbRead_Real(t->r, type, &x[k]));
    PB_TRY(pbRead_AddPoint(t->r, x));
  }
  return pb_ok;
}

static pbStatus points(Vtk *t) {
  int count;
  pbReadType type = pb_readFloat64;
  if (t->r->mesh->points) return pbRead_Fail(t->r, "POINTS a second time");
  PB_TRY(pbRead_Count(t->r, pb_readInt32, 6, "points", &count));
  PB_TRY(type_of(t->r, &type));
  body(t, true);
  pbStatus status = read_points(t, count, type);
  body(t, false);
  return status;
}

static pbStatus vertex(Vtk *t, pbReadType type, int *to) {
  int64_t v;
  PB_TRY(pbRead_Integer(t->r, type, &v));
  PB_TRY(pbRead_Range(t->r, v, 0));
  *to = (int)v;
  return pb_ok;
}

// Up to version 4: each cell its length and its points.
static pbStatus packed_cells(Vtk *t, int size) {
  int at = 0;
  for (int i = 0; i < t->cells; i++) {
    int64_t n;
    PB_TRY(pbRead_Integer(t->r, pb_readInt32, &n));
    if (n < 1 || n > size - at - 1)
      return pbRead_Fail(t->r, "a cell of %lld points where %d are left", (long long)n, size - at - 1);
    t->start[i] = t->entries;
    for (int64_t k = 0; k < n; k++) PB_TRY(vertex(t, pb_readInt32, &t->vertex[t->entries++]));
    at += (int)n + 1;
  }
  t->start[t->cells] = t->entries;
  return pb_ok;
}

static pbStatus offset(Vtk *t, pbReadType type, int i, int size) {
  int64_t at;
  PB_TRY(pbRead_Integer(t->r, type, &at));
  if (at < (i ? t->start[i - 1] : 0) || at > size || (i == 0 && at))
    return pbRead_Fail(t->r, "offset %lld of cell %d", (long long)at, i);
  t->start[i] = (int)at;
  return pb_ok;
}

// From version 5.1: where each cell begins, then the points of all.
static pbStatus indexed_cells(Vtk *t, int size) {
  pbReadType type = pb_readFloat64;
  PB_TRY(pbRead_Expect(t->r, "OFFSETS"));
  PB_TRY(type_of(t->r, &type));
  body(t, true);
  for (int i = 0; i <= t->cells; i++) PB_TRY(offset(t, type, i, size));
  if (t->start[t->cells] != size) return pbRead_Fail(t->r, "offsets end at %d of %d", t->start[t->cells], size);
  body(t, false);
  PB_TRY(pbRead_Expect(t->r, "CONNECTIVITY"));
  PB_TRY(type_of(t->r, &type));
  body(t, true);
  for (t->entries = 0; t->entries < size; t->entries++) PB_TRY(vertex(t, type, &t->vertex[t->entries]));
  return pb_ok;
}

static pbStatus table(Vtk *t) {
  int count, size;
  drop_table(t);
  PB_TRY(pbRead_Count(t->r, pb_readInt32, 2, "cells", &count));
  PB_TRY(pbRead_Count(t->r, pb_readInt32, 2, "entries of cells", &size));
  if (t->offsets && count < 1) return size ? pbRead_Fail(t->r, "no offsets for %d entries", size) : pb_ok;
  t->cells = count - t->offsets;
  t->start = pbContext_AllocArray(t->r->ctx, (size_t)t->cells + 1, sizeof(int));
  t->vertex = pbContext_AllocArray(t->r->ctx, (size_t)size, sizeof(int));
  if (!t->start || !t->vertex) return pbMesh_NoMemory(t->r->ctx, t->r->name);
  if (!t->offsets) body(t, true);
  PB_TRY(t->offsets ? indexed_cells(t, size) : packed_cells(t, size));
  body(t, false);
  return pb_ok;
}

// Cells of the table; type -1: each has its own, which follow in the file.
static pbStatus add_cells(Vtk *t, int64_t type) {
  bool own = type < 0;
  for (int i = 0; i < t->cells; i++) {
    if (own) PB_TRY(pbRead_Integer(t->r, pb_readInt32, &type));
    PB_TRY(pbRead_AddVtkCell(t->r, type < 256 ? (int)type : 256, t->vertex + t->start[i], t->start[i + 1] - t->start[i], 0));
  }
  return pb_ok;
}

static pbStatus cell_types(Vtk *t) {
  int64_t count;
  PB_TRY(pbRead_Integer(t->r, pb_readInt32, &count));
  if (count != t->cells) return pbRead_Fail(t->r, "%lld types of %d cells", (long long)count, t->cells);
  body(t, true);
  pbStatus status = add_cells(t, -1);
  body(t, false);
  return status;
}

// Sections with cells of one type.
static int type_of_section(const char *word) {
  static const struct {
    const char *name;
    int type;
  } sections[] = {{"VERTICES", 2}, {"LINES", 4}, {"POLYGONS", 7}, {"TRIANGLE_STRIPS", 6}};
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
    if (!strcmp(word, sections[i].name)) return sections[i].type;
  return 0;
}

static void pass_metadata(Vtk *t) {
  char line[PB_MESH_WORD];
  do pbRead_Line(t->r, line);
  while (*line && t->r->at < t->r->end);
}

static pbStatus sections(Vtk *t) {
  char word[PB_MESH_WORD];
  while (pbRead_Word(t->r, word)) {
    int type = type_of_section(word);
    if (!strcmp(word, "POINTS")) PB_TRY(points(t));
    else if (!strcmp(word, "CELLS")) PB_TRY(table(t));
    else if (!strcmp(word, "CELL_TYPES")) PB_TRY(cell_types(t));
    else if (!strcmp(word, "CELL_DATA") || !strcmp(word, "POINT_DATA")) return pb_ok;
    else if (!strcmp(word, "METADATA")) pbRead_SkipLine(t->r), pass_metadata(t);
    else if (!strcmp(word, "FIELD")) return pbRead_Unsupported(t->r, "FIELD before the cells");
    else if (!type) return pbRead_Fail(t->r, "'%.60s' is no section of VTK that is known", word);
    if (!type) continue;
    PB_TRY(table(t));
    PB_TRY(add_cells(t, type));
  }
  return pb_ok;
}

static pbStatus header(Vtk *t) {
  char line[PB_MESH_WORD], word[PB_MESH_WORD];
  static const char magic[] = "# vtk DataFile Version ";
  pbRead_Line(t->r, line);
  if (strncmp(line, magic, strlen(magic)) != 0) return pbRead_Fail(t->r, "'%s' is expected, not '%.60s'", magic, line);
  t->offsets = line[strlen(magic)] >= '5';
  pbRead_SkipLine(t->r);  // the title
  pbRead_Word(t->r, word);
  t->bytes = !strcmp(word, "BINARY");
  if (!t->bytes && strcmp(word, "ASCII") != 0) return pbRead_Fail(t->r, "ASCII or BINARY is expected, not '%.60s'", word);
  t->r->by_byte = t->r->swap = t->bytes;
  PB_TRY(pbRead_Expect(t->r, "DATASET"));
  pbRead_Word(t->r, word);
  if (strcmp(word, "UNSTRUCTURED_GRID") != 0 && strcmp(word, "POLYDATA") != 0)
    return pbRead_Unsupported(t->r, "a dataset '%.60s' (UNSTRUCTURED_GRID and POLYDATA are supported)", word);
  return pb_ok;
}

pbStatus pbRead_Vtk(pbMeshReader *r) {
  Vtk t = {.r = r};
  pbStatus status = header(&t);
  if (status == pb_ok) status = sections(&t);
  drop_table(&t);
  return status;
}
