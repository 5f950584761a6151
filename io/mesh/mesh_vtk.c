// Legacy VTK, text or binary (big-endian), versions 1 to 5.1: UNSTRUCTURED_GRID and POLYDATA. What follows the cells (data) is
// not read.
// Tests: tests/unit/test_mesh_files.c.
#include <strings.h>

#include "base/context.h"
#include "io/mesh/mesh_reader.h"
#include "io/mesh/vtu.h"
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

  t->start = NULL;
  t->vertex = NULL;
  t->cells = 0;
  t->entries = 0;
}

static pbStatus read_type(pbMeshReader *r, pbReadType *type) {
  static const struct {
    const char *name;
    pbReadType type;
  } types[] = {{"float", pb_readFloat32},      {"double", pb_readFloat64},     {"int", pb_readInt32},
               {"vtktypeint64", pb_readInt64}, {"vtktypeint32", pb_readInt32}, {"long", pb_readInt64},
               {"vtkIdType", pb_readInt64}};
  char word[PB_MESH_WORD];

  pbRead_Word(r, word);

  // VTK itself does not care for case here.
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcasecmp(word, types[i].name) != 0) continue;
    *type = types[i].type;
    return pb_ok;
  }
  return pbRead_Unsupported(r, "numbers of type '%.60s'", word);
}

// Where numbers begin: bytes start behind the end of this line.
static void set_numbers(Vtk *t, bool begins) {
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

static pbStatus read_points_section(Vtk *t) {
  int count;
  pbReadType type = pb_readFloat64;

  // Cells come behind the points they name, so there is one section.
  if (t->r->mesh->points) return pbRead_Fail(t->r, "POINTS a second time");

  PB_TRY(pbRead_Count(t->r, pb_readInt32, 6, "points", &count));
  PB_TRY(read_type(t->r, &type));

  set_numbers(t, true);
  pbStatus status = read_points(t, count, type);
  set_numbers(t, false);
  return status;
}

static pbStatus read_vertex(Vtk *t, pbReadType type, int *to) {
  int64_t v;
  PB_TRY(pbRead_Integer(t->r, type, &v));
  PB_TRY(pbRead_Range(t->r, v, 0));
  *to = (int)v;
  return pb_ok;
}

// Up to version 4: each cell its length and its points.
static pbStatus read_packed_cells(Vtk *t, int size) {
  int at = 0;
  for (int i = 0; i < t->cells; i++) {
    int64_t n;
    PB_TRY(pbRead_Integer(t->r, pb_readInt32, &n));

    // `size` entries hold the lengths as well.
    if (n < 1 || n > size - at - 1)
      return pbRead_Fail(t->r, "a cell of %lld points where %d are left", (long long)n, size - at - 1);

    t->start[i] = t->entries;
    for (int64_t k = 0; k < n; k++) PB_TRY(read_vertex(t, pb_readInt32, &t->vertex[t->entries++]));
    at += (int)n + 1;
  }
  t->start[t->cells] = t->entries;
  return pb_ok;
}

static pbStatus read_offset(Vtk *t, pbReadType type, int i, int size) {
  int64_t at;
  PB_TRY(pbRead_Integer(t->r, type, &at));

  // Offsets begin at 0 and do not fall; there is one more than there are cells.
  if (at < (i ? t->start[i - 1] : 0) || at > size || (i == 0 && at))
    return pbRead_Fail(t->r, "offset %lld of cell %d", (long long)at, i);
  t->start[i] = (int)at;
  return pb_ok;
}

// From version 5.1: where each cell begins, then the points of all.
static pbStatus read_indexed_cells(Vtk *t, int size) {
  pbReadType type = pb_readFloat64;

  PB_TRY(pbRead_Expect(t->r, "OFFSETS"));
  PB_TRY(read_type(t->r, &type));
  set_numbers(t, true);
  for (int i = 0; i <= t->cells; i++) PB_TRY(read_offset(t, type, i, size));
  if (t->start[t->cells] != size) return pbRead_Fail(t->r, "offsets end at %d of %d", t->start[t->cells], size);

  set_numbers(t, false);
  PB_TRY(pbRead_Expect(t->r, "CONNECTIVITY"));

  PB_TRY(read_type(t->r, &type));
  set_numbers(t, true);
  for (t->entries = 0; t->entries < size; t->entries++) PB_TRY(read_vertex(t, type, &t->vertex[t->entries]));
  return pb_ok;
}

static pbStatus read_table(Vtk *t) {
  int count, size;

  drop_table(t);
  PB_TRY(pbRead_Count(t->r, pb_readInt32, 2, "cells", &count));
  PB_TRY(pbRead_Count(t->r, pb_readInt32, 2, "entries of cells", &size));

  // From version 5 on the count is that of offsets, one more than cells.
  if (t->offsets && count < 1) return size ? pbRead_Fail(t->r, "no offsets for %d entries", size) : pb_ok;
  t->cells = count - t->offsets;

  t->start = pbContext_AllocArray(t->r->ctx, (size_t)t->cells + 1, sizeof(int));
  t->vertex = pbContext_AllocArray(t->r->ctx, (size_t)size, sizeof(int));
  if (!t->start || !t->vertex) return pbMesh_NoMemory(t->r->ctx, t->r->name);

  // Up to version 4 the numbers follow at once, later each list has a head of its own.
  if (!t->offsets) set_numbers(t, true);

  PB_TRY(t->offsets ? read_indexed_cells(t, size) : read_packed_cells(t, size));
  set_numbers(t, false);
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

static pbStatus read_cell_types(Vtk *t) {
  int64_t count;
  PB_TRY(pbRead_Integer(t->r, pb_readInt32, &count));
  if (count != t->cells) return pbRead_Fail(t->r, "%lld types of %d cells", (long long)count, t->cells);

  set_numbers(t, true);
  pbStatus status = add_cells(t, -1);
  set_numbers(t, false);
  return status;
}

// Sections with cells of one type.
static int type_of_section(const char *word) {
  static const struct {
    const char *name;
    int type;
  } sections[] = {{"VERTICES", pb_vtkPolyVertex},
                  {"LINES", pb_vtkPolyLine},
                  {"POLYGONS", pb_vtkPolygon},
                  {"TRIANGLE_STRIPS", pb_vtkTriangleStrip}};

  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
    if (!strcmp(word, sections[i].name)) return sections[i].type;
  return 0;
}

static void pass_metadata(Vtk *t) {
  char line[PB_MESH_WORD];
  pbRead_SkipLine(t->r);

  // Metadata end with an empty line.
  do pbRead_Line(t->r, line);
  while (*line && t->r->at < t->r->end);
}

static pbStatus read_sections(Vtk *t) {
  char word[PB_MESH_WORD];
  while (pbRead_Word(t->r, word)) {
    int type = type_of_section(word);

    // Sections of one type have the table only; CELLS is followed by CELL_TYPES.
    if (!strcmp(word, "POINTS")) PB_TRY(read_points_section(t));
    else if (!strcmp(word, "CELLS")) PB_TRY(read_table(t));
    else if (!strcmp(word, "CELL_TYPES")) PB_TRY(read_cell_types(t));
    else if (!strcmp(word, "CELL_DATA") || !strcmp(word, "POINT_DATA")) return pb_ok;
    else if (!strcmp(word, "METADATA")) pass_metadata(t);
    else if (!strcmp(word, "FIELD")) return pbRead_Unsupported(t->r, "FIELD before the cells");
    else if (!type) return pbRead_Fail(t->r, "unknown section '%.60s'", word);

    if (!type) continue;
    PB_TRY(read_table(t));
    PB_TRY(add_cells(t, type));
  }
  return pb_ok;
}

static pbStatus read_header(Vtk *t) {
  char line[PB_MESH_WORD], word[PB_MESH_WORD];
  static const char magic[] = "# vtk DataFile Version ";

  pbRead_Line(t->r, line);
  if (strncmp(line, magic, strlen(magic)) != 0) return pbRead_Fail(t->r, "expected '%s', found '%.60s'", magic, line);
  t->offsets = line[strlen(magic)] >= '5';

  pbRead_SkipLine(t->r);  // the title
  pbRead_Word(t->r, word);
  t->bytes = !strcmp(word, "BINARY");
  if (!t->bytes && strcmp(word, "ASCII") != 0) return pbRead_Fail(t->r, "expected ASCII or BINARY, found '%.60s'", word);

  // Bytes are big-endian.
  t->r->by_byte = t->bytes;
  t->r->swap = t->bytes;

  PB_TRY(pbRead_Expect(t->r, "DATASET"));
  pbRead_Word(t->r, word);
  if (strcmp(word, "UNSTRUCTURED_GRID") != 0 && strcmp(word, "POLYDATA") != 0)
    return pbRead_Unsupported(t->r, "a dataset '%.60s' (UNSTRUCTURED_GRID and POLYDATA are supported)", word);
  return pb_ok;
}

pbStatus pbRead_Vtk(pbMeshReader *r) {
  Vtk t = {.r = r};
  pbStatus status = read_header(&t);
  if (status == pb_ok) status = read_sections(&t);

  drop_table(&t);
  return status;
}
