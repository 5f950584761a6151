// TetGen's files (https://wias-berlin.de/software/tetgen, "File formats"): tetrahedra in NAME.ele, their points in NAME.node
// beside it, numbered from 0 or 1; an attribute of a tetrahedron is its group.
// Tests: tests/unit/test_mesh_files.c.
#include <stdio.h>

#include "base/context.h"
#include "io/file.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

// The next word that is none of a comment.
static bool next_word(pbMeshReader *r, char *word) {
  while (pbRead_Word(r, word)) {
    if (*word != '#') return true;
    pbRead_SkipLine(r);
  }
  return false;
}

static pbStatus real(pbMeshReader *r, double *value) {
  char word[PB_MESH_WORD];
  if (!next_word(r, word)) return pbRead_Fail(r, "expected a number, found the end of the file");
  return pbRead_WordReal(r, word, value);
}

static pbStatus whole(pbMeshReader *r, int64_t *value) {
  char word[PB_MESH_WORD];
  if (!next_word(r, word)) return pbRead_Fail(r, "expected a whole number, found the end of the file");
  return pbRead_WordInteger(r, word, value);
}

// The numbers of a file's first line; the first of them counts rows.
static pbStatus read_head(pbMeshReader *r, const char *what, int numbers, int64_t *head) {
  for (int k = 0; k < numbers; k++) PB_TRY(whole(r, &head[k]));

  int64_t most = (r->end - r->at) / 2 + 1;
  if (head[0] < 0 || head[0] > most || head[0] > PB_MESH_MOST)
    return pbRead_Fail(r, "%lld %s; the file has room for at most %lld", (long long)head[0], what, (long long)most);
  return pb_ok;
}

// Rows are numbered one by one from *first on, which the first row tells.
static pbStatus read_number(pbMeshReader *r, int64_t i, int64_t *first) {
  int64_t number;
  PB_TRY(whole(r, &number));

  if (i == 0) *first = number;
  if (*first < 0 || *first > 1) return pbRead_Fail(r, "the first number is %lld: expected 0 or 1", (long long)*first);
  if (number != *first + i) return pbRead_Fail(r, "expected number %lld, found %lld", (long long)(*first + i), (long long)number);
  return pb_ok;
}

static pbStatus read_points(pbMeshReader *r, int64_t *first) {
  int64_t head[4];  // points, dimension, attributes, markers
  PB_TRY(read_head(r, "points", 4, head));
  if (head[1] != 3) return pbRead_Unsupported(r, "points of dimension %lld (3 is supported)", (long long)head[1]);

  for (int64_t i = 0; i < head[0]; i++) {
    double x[3];

    PB_TRY(read_number(r, i, first));
    for (int k = 0; k < 3; k++) PB_TRY(real(r, &x[k]));
    PB_TRY(pbRead_AddPoint(r, x));
    pbRead_SkipLine(r);  // attributes and a marker
  }
  return pb_ok;
}

static pbStatus read_cells(pbMeshReader *r, int64_t first) {
  int64_t head[3], start = first;  // tetrahedra, their nodes, attributes
  PB_TRY(read_head(r, "tetrahedra", 3, head));
  if (head[1] != 4)
    return pbRead_Unsupported(r, "tetrahedra of %lld nodes (4 are supported; without TetGen's -o2)", (long long)head[1]);

  for (int64_t i = 0; i < head[0]; i++) {
    int vertex[4];
    double attribute = 0;
    PB_TRY(read_number(r, i, &start));

    for (int k = 0; k < 4; k++) {
      int64_t v;
      PB_TRY(whole(r, &v));
      PB_TRY(pbRead_Range(r, v, first));
      vertex[k] = (int)(v - first);
    }

    // What is no positive whole number is no group.
    if (head[2] > 0) PB_TRY(real(r, &attribute));

    int group = attribute >= 1 && attribute <= INT32_MAX ? (int)attribute : 0;
    PB_TRY(pbRead_AddCell(r, pb_cellTetrahedron, vertex, group));
    pbRead_SkipLine(r);
  }
  return pb_ok;
}

// Points of the file beside, into the same mesh.
static pbStatus read_beside(pbMeshReader *r, const char *path, int64_t *first) {
  char *bytes = NULL;
  size_t size = 0;
  PB_TRY(pbFile_ReadAll(r->ctx, path, PB_MESH_FILE, &bytes, &size));

  pbMeshReader points = {.ctx = r->ctx, .name = path, .line = 1, .locale = r->locale, .mesh = r->mesh};
  points.begin = points.at = (const unsigned char *)bytes;
  points.end = points.begin + size;

  // It grew there: what there is room for goes with it.
  pbStatus status = read_points(&points, first);
  r->point_room = points.point_room;

  pbContext_Free(r->ctx, bytes);
  return status;
}

pbStatus pbRead_Ele(pbMeshReader *r) {
  size_t stem = strlen(r->name) - strlen(".ele"), size = stem + sizeof ".node";
  if (!r->in_file)
    return pbContext_Fail(r->ctx, pb_unsupported, "%.400s: its points are in another file: it is read by its path alone",
                          r->name);

  char *path = pbContext_Alloc(r->ctx, size);
  if (!path) return pbMesh_NoMemory(r->ctx, r->name);
  snprintf(path, size, "%.*s.node", (int)stem, r->name);

  int64_t first = 0;
  pbStatus status = read_beside(r, path, &first);
  pbContext_Free(r->ctx, path);
  return status == pb_ok ? read_cells(r, first) : status;
}

pbStatus pbRead_Node(pbMeshReader *r) {
  return pbContext_Fail(r->ctx, pb_unsupported, "%.400s: holds points alone; name the .ele file beside it, which has the cells",
                        r->name);
}
