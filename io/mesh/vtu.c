// VTU files: XML that says where in the appended bytes each array lies, and the bytes; a .pvd lists them with their times.
// Tests: tests/unit/test_mesh_files.c.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "io/file.h"
#include "io/mesh/vtu.h"
#include "mesh/mesh.h"

// By kind of cells.
static const int vtk_type[pb_cellKindCount] = {pb_vtkVertex, pb_vtkLine,          pb_vtkTriangle, pb_vtkQuadraticTriangle,
                                               pb_vtkTetra,  pb_vtkQuadraticTetra};

typedef struct Out {
  FILE *stream;
  const pbMesh *m;
  const pbVtuFrame *frame;
  size_t offset;
  int64_t cells, entries;
} Out;

// ---- XML --------------------------------------------------------------------------------------------------------------------

static const char *escape_of(char c) {
  if (c == '<') return "&lt;";
  if (c == '&') return "&amp;";
  return c == '"' ? "&quot;" : NULL;
}

static void put_text(FILE *stream, const char *text) {
  for (; *text; text++) {
    const char *escaped = escape_of(*text);

    // XML 1.0 has no control characters.
    if (escaped) fputs(escaped, stream);
    else fputc((unsigned char)*text < 32 ? ' ' : *text, stream);
  }
}

static void declare(Out *o, const char *type, const char *name, int components, size_t bytes) {
  fprintf(o->stream, "<DataArray type=\"%s\" Name=\"", type);
  put_text(o->stream, name);
  fputs("\"", o->stream);
  if (components > 1) fprintf(o->stream, " NumberOfComponents=\"%d\"", components);

  // Each array begins with its length; its offset counts from the "_".
  fprintf(o->stream, " format=\"appended\" offset=\"%zu\"/>\n", o->offset);
  o->offset += bytes + sizeof(uint64_t);
}

static void declare_values(Out *o, const char *tag, int count, const pbVtuArray *arrays, int64_t rows, bool groups) {
  fprintf(o->stream, "<%s>\n", tag);
  for (int i = 0; i < count; i++)
    declare(o, "Float64", arrays[i].name, arrays[i].components, (size_t)rows * (size_t)arrays[i].components * sizeof(double));
  if (groups) declare(o, "Int32", "group", 1, (size_t)rows * sizeof(int32_t));
  fprintf(o->stream, "</%s>\n", tag);
}

static void put_head(Out *o) {
  const pbVtuFrame *f = o->frame;

  fprintf(o->stream,
          "<?xml version=\"1.0\"?>\n<VTKFile type=\"UnstructuredGrid\" version=\"1.0\" byte_order=\"LittleEndian\" "
          "header_type=\"UInt64\">\n<UnstructuredGrid>\n<Piece NumberOfPoints=\"%d\" NumberOfCells=\"%lld\">\n<Points>\n",
          o->m->points, (long long)o->cells);

  // In the order in which put_all writes them.
  declare(o, "Float64", "Points", 3, (size_t)o->m->points * 3 * sizeof(double));

  fputs("</Points>\n<Cells>\n", o->stream);
  declare(o, "Int32", "connectivity", 1, (size_t)o->entries * sizeof(int32_t));
  declare(o, "Int64", "offsets", 1, (size_t)o->cells * sizeof(int64_t));
  declare(o, "UInt8", "types", 1, (size_t)o->cells);
  fputs("</Cells>\n", o->stream);

  declare_values(o, "PointData", f->point_arrays, f->point, o->m->points, false);
  declare_values(o, "CellData", f->cell_arrays, f->cell, o->cells, true);

  fputs("</Piece>\n</UnstructuredGrid>\n<AppendedData encoding=\"raw\">\n_", o->stream);
}

// ---- bytes ------------------------------------------------------------------------------------------------------------------

static void put_block(Out *o, const void *bytes, size_t size) {
  uint64_t header = size;
  fwrite(&header, sizeof header, 1, o->stream);
  if (size) fwrite(bytes, 1, size, o->stream);
}

static void put_header(Out *o, uint64_t size) { fwrite(&size, sizeof size, 1, o->stream); }

static void put_cells(Out *o) {
  int64_t end = 0;

  // Connectivity: the points of all cells, kind by kind.
  put_header(o, (uint64_t)o->entries * sizeof(int32_t));
  for (int k = 0; k < pb_cellKindCount; k++)
    if (o->m->cells[k].count)
      fwrite(o->m->cells[k].vertex, sizeof(int32_t), (size_t)o->m->cells[k].count * (size_t)pb_cellShape[k].nodes, o->stream);

  // Offsets: where each cell ends in it.
  put_header(o, (uint64_t)o->cells * sizeof(int64_t));
  for (int k = 0; k < pb_cellKindCount; k++) {
    for (int i = 0; i < o->m->cells[k].count; i++) {
      end += pb_cellShape[k].nodes;
      fwrite(&end, sizeof end, 1, o->stream);
    }
  }

  put_header(o, (uint64_t)o->cells);
  for (int k = 0; k < pb_cellKindCount; k++)
    for (int i = 0; i < o->m->cells[k].count; i++) fputc(vtk_type[k], o->stream);
}

static void put_values(Out *o, int count, const pbVtuArray *arrays, int64_t rows) {
  for (int i = 0; i < count; i++) put_block(o, arrays[i].values, (size_t)rows * (size_t)arrays[i].components * sizeof(double));
}

static void put_all(Out *o) {
  const pbVtuFrame *f = o->frame;

  put_head(o);
  put_block(o, f->x ? f->x : o->m->point, (size_t)o->m->points * 3 * sizeof(double));

  put_cells(o);
  put_values(o, f->point_arrays, f->point, o->m->points);
  put_values(o, f->cell_arrays, f->cell, o->cells);

  put_header(o, (uint64_t)o->cells * sizeof(int32_t));
  for (int k = 0; k < pb_cellKindCount; k++)
    if (o->m->cells[k].count) fwrite(o->m->cells[k].group, sizeof(int32_t), (size_t)o->m->cells[k].count, o->stream);

  fputs("\n</AppendedData>\n</VTKFile>\n", o->stream);
}

static pbStatus check_arrays(pbContext *ctx, const char *path, int count, const pbVtuArray *arrays) {
  for (int i = 0; i < count; i++)
    if (!arrays[i].name || !arrays[i].values || arrays[i].components < 1)
      return pbContext_Fail(ctx, pb_bad_argument, "%.400s: array %d has no name, values or components", path, i);
  return pb_ok;
}

pbStatus pbVtu_WriteOne(pbContext *ctx, const char *path, const pbMesh *m, const pbVtuFrame *frame) {
  pbFile file;
  Out o = {.m = m, .frame = frame};
  PB_TRY(check_arrays(ctx, path, frame->point_arrays, frame->point));
  PB_TRY(check_arrays(ctx, path, frame->cell_arrays, frame->cell));

  // Cells of all kinds are one list in the file.
  for (int k = 0; k < pb_cellKindCount; k++) {
    o.cells += m->cells[k].count;
    o.entries += (int64_t)m->cells[k].count * pb_cellShape[k].nodes;
  }

  PB_TRY(pbFile_Begin(ctx, path, &file));
  o.stream = file.stream;
  put_all(&o);

  return pbFile_Commit(&file);
}

// ---- series -----------------------------------------------------------------------------------------------------------------

enum { MOST_PARTS = 8, MOST_PART_NAME = 64 };

typedef struct Listed {  // a file
  double time;
  int part, number;
} Listed;

struct pbVtuWriter {
  pbContext *ctx;
  const pbMesh *m;
  char *stem, *scratch;  // path without its ending; room for a path
  size_t scratch_size;
  int files, room;
  Listed *file;
  int parts, written[MOST_PARTS];  // files of each; part 0 is the mesh of the writer
  char *part[MOST_PARTS];          // names
};

pbStatus pbVtuWriter_Create(pbContext *ctx, const char *path, const pbMesh *mesh, pbVtuWriter **writer) {
  size_t length = strlen(path);

  // At least one character in front of the ending.
  if (length < 5 || strcmp(path + length - 4, ".pvd") != 0)
    return pbContext_Fail(ctx, pb_bad_argument, "%.400s: the name of a series ends in .pvd", path);

  pbVtuWriter *w = pbContext_Alloc(ctx, sizeof *w);
  if (!w) return pbMesh_NoMemory(ctx, path);

  w->ctx = ctx;
  w->m = mesh;
  w->stem = pbContext_CopyText(ctx, path);
  w->scratch_size = length + 32 + MOST_PART_NAME;
  w->scratch = pbContext_Alloc(ctx, w->scratch_size);
  w->part[0] = pbContext_CopyText(ctx, "");
  w->parts = 1;
  if (!w->stem || !w->scratch || !w->part[0]) {
    pbVtuWriter_Destroy(w);
    return pbMesh_NoMemory(ctx, path);
  }

  // NAME.pvd: the files of the series begin with NAME.
  w->stem[length - 4] = 0;

  *writer = w;
  return pb_ok;
}

void pbVtuWriter_Destroy(pbVtuWriter *w) {
  if (!w) return;
  pbContext_Free(w->ctx, w->stem);
  pbContext_Free(w->ctx, w->scratch);
  pbContext_Free(w->ctx, w->file);
  for (int i = 0; i < w->parts; i++) pbContext_Free(w->ctx, w->part[i]);
  pbContext_Free(w->ctx, w);
}

// NAME_000000.vtu, of a part NAME_PART_000000.vtu.
static const char *ending_of(const pbVtuWriter *w, const Listed *file, char *text, size_t size) {
  const char *part = w->part[file->part];
  snprintf(text, size, "%s%s_%06d.vtu", *part ? "_" : "", part, file->number);
  return text;
}

static pbStatus write_file(pbVtuWriter *w, int part, const pbMesh *mesh, const pbVtuFrame *frame) {
  char ending[MOST_PART_NAME + 32];

  // Room for one more in the list.
  if (w->files == w->room) {
    int room = w->room ? 2 * w->room : 64;
    Listed *grown = pbContext_Resize(w->ctx, w->file, (size_t)room * sizeof *grown);
    if (!grown) return pbMesh_NoMemory(w->ctx, w->stem);
    w->file = grown;
    w->room = room;
  }

  Listed *file = &w->file[w->files];
  *file = (Listed){frame->time, part, w->written[part]};
  snprintf(w->scratch, w->scratch_size, "%s%s", w->stem, ending_of(w, file, ending, sizeof ending));

  // It counts once it is written.
  PB_TRY(pbVtu_WriteOne(w->ctx, w->scratch, mesh, frame));
  w->written[part]++;
  w->files++;
  return pb_ok;
}

pbStatus pbVtuWriter_Write(pbVtuWriter *w, const pbVtuFrame *frame) {
  if (!w->m) return pbContext_Fail(w->ctx, pb_bad_argument, "%.400s: the series has parts alone, no mesh of its own", w->stem);
  return write_file(w, 0, w->m, frame);
}

pbStatus pbVtuWriter_WritePart(pbVtuWriter *w, const char *part, const pbMesh *mesh, const pbVtuFrame *frame) {
  // Part 0 is the mesh of the writer, which has no name.
  int p = 1;
  while (p < w->parts && strcmp(w->part[p], part) != 0) p++;

  // A name that is new becomes part of file names, so it must not lead elsewhere.
  if (p == w->parts) {
    size_t length = strlen(part);
    if (!length || length >= MOST_PART_NAME || strchr(part, '/') || p == MOST_PARTS)
      return pbContext_Fail(w->ctx, pb_bad_argument, "%.400s: '%.100s' is no name of a part, or there are more than %d", w->stem,
                            part, MOST_PARTS - 1);
    if (!(w->part[p] = pbContext_CopyText(w->ctx, part))) return pbMesh_NoMemory(w->ctx, w->stem);
    w->parts++;
  }

  return write_file(w, p, mesh, frame);
}

static void put_list(FILE *stream, const void *writer) {
  const pbVtuWriter *w = writer;
  const char *slash = strrchr(w->stem, '/');
  const char *name = slash ? slash + 1 : w->stem;  // files are named relative to the list
  char ending[MOST_PART_NAME + 32];

  fputs("<?xml version=\"1.0\"?>\n<VTKFile type=\"Collection\" version=\"1.0\" byte_order=\"LittleEndian\">\n<Collection>\n",
        stream);

  for (int i = 0; i < w->files; i++) {
    fprintf(stream, "<DataSet timestep=\"%.17g\" part=\"%d\" file=\"", w->file[i].time, w->file[i].part);
    put_text(stream, name);
    put_text(stream, ending_of(w, &w->file[i], ending, sizeof ending));
    fputs("\"/>\n", stream);
  }

  fputs("</Collection>\n</VTKFile>\n", stream);
}

pbStatus pbVtuWriter_Finish(pbVtuWriter *w) {
  snprintf(w->scratch, w->scratch_size, "%s.pvd", w->stem);
  return pbFile_WriteText(w->ctx, w->scratch, put_list, w);
}
