// Wavefront OBJ: v, f, l, p, and groups (g); what only looks (normals, textures, materials) is passed over.
// Tests: tests/unit/test_mesh_files.c.
#include "base/context.h"
#include "io/mesh/mesh_reader.h"
#include "io/mesh/vtu.h"

// "7", "7/1", "7//3", "-1": the point's number, from 1 on.
static pbStatus read_number(pbMeshReader *r, char *word, int64_t *n) {
  word[strcspn(word, "/")] = 0;
  PB_TRY(pbRead_WordInteger(r, word, n));

  // Negative ones count back from the last point so far.
  if (*n < 0) *n += (int64_t)r->mesh->points + 1;
  return *n < 1 ? pbRead_Range(r, *n, 1) : pb_ok;
}

static pbStatus read_corner(pbMeshReader *r, char *word, int *vertex) {
  int64_t n;

  PB_TRY(read_number(r, word, &n));
  PB_TRY(pbRead_Range(r, n, 1));
  *vertex = (int)n - 1;
  return pb_ok;
}

// The next word of a line that may go on after a backslash.
static bool next_word(pbMeshReader *r, char *word) {
  while (pbRead_LineWord(r, word)) {
    // A comment ends the line, a backslash continues it.
    if (strcmp(word, "\\") != 0) return *word != '#';
    pbRead_SkipLine(r);
  }
  return false;
}

static pbStatus read_point(pbMeshReader *r) {
  char word[PB_MESH_WORD];
  double x[3];
  for (int k = 0; k < 3; k++) {
    if (!next_word(r, word)) return pbRead_Fail(r, "a point with %d coordinates", k);
    PB_TRY(pbRead_WordReal(r, word, &x[k]));
  }
  return pbRead_AddPoint(r, x);
}

static pbStatus read_cells(pbMeshReader *r, char what, int group) {
  char word[PB_MESH_WORD];
  int v[PB_MESH_POLYGON];
  int n = 0;

  while (next_word(r, word)) {
    if (n == PB_MESH_POLYGON) return pbRead_Fail(r, "more than %d corners", PB_MESH_POLYGON);
    PB_TRY(read_corner(r, word, &v[n++]));
  }

  if (what == 'f') return r->rigid ? pbRead_CutPolygon(r, v, n, group) : pbRead_AddPolygon(r, v, n, group);
  if (!n || (what == 'l' && n < 2)) return pbRead_Fail(r, "a line with %d points", n);
  return pbRead_AddVtkCell(r, what == 'l' ? pb_vtkPolyLine : pb_vtkPolyVertex, v, n, 0);
}

// A face that is left out: its points may come later, as in MuJoCo.
static pbStatus pass_face(pbMeshReader *r) {
  char word[PB_MESH_WORD];
  int64_t n;

  while (next_word(r, word)) PB_TRY(read_number(r, word, &n));
  r->other_faces++;
  return pb_ok;
}

static pbStatus change_group(pbMeshReader *r, int *group) {
  char name[PB_MESH_WORD];
  const pbMesh *m = r->mesh;

  pbRead_Line(r, name);
  *group = 0;
  if (!*name) return pb_ok;

  // Groups are numbered in the order in which they are first named.
  const pbMeshGroup *known = pbMesh_FindGroup(m, name);
  if (!known && m->groups >= 4096) return pbRead_Fail(r, "more than 4096 groups");

  *group = known ? known->number : m->groups + 1;
  return known ? pb_ok : pbMesh_NameGroup(r->mesh, 2, *group, name);
}

static bool only_looks(const char *word) {
  static const char *const words[] = {"vt",     "vn",  "o",          "s",         "mg",    "usemtl",   "mtllib",  "usemap",
                                      "maplib", "lod", "shadow_obj", "trace_obj", "bevel", "c_interp", "d_interp"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(word, words[i])) return true;
  return *word == '#';
}

// Of rigid shapes the first object counts, as in MuJoCo: faces up to the next `o` or `g`, and the points of all.
static bool ends_shape(const pbMeshReader *r, const char *word) {
  return r->rigid && r->mesh->cells[pb_cellTriangle].count && (!strcmp(word, "o") || !strcmp(word, "g"));
}

pbStatus pbRead_Obj(pbMeshReader *r) {
  char word[PB_MESH_WORD];
  int group = 0;
  bool ended = false;
  while (pbRead_Word(r, word)) {
    ended = ended || ends_shape(r, word);
    if (ended && !strcmp(word, "f")) {
      PB_TRY(pass_face(r));
      pbRead_SkipLine(r);
      continue;
    }

    if (!strcmp(word, "g")) {
      PB_TRY(change_group(r, &group));
      continue;
    }

    if (!strcmp(word, "v")) PB_TRY(read_point(r));
    else if (!strcmp(word, "f") || !strcmp(word, "l") || !strcmp(word, "p")) PB_TRY(read_cells(r, *word, group));
    else if (!only_looks(word)) return pbRead_Fail(r, "unknown statement '%.60s'", word);

    // More numbers (weights, colors) are left.
    pbRead_SkipLine(r);
  }
  return pb_ok;
}
