// Medit's .mesh, text, as fTetWild, MMG and PolyFEM write it (https://github.com/LoicMarechal/libMeshb): sections of a keyword, a
// count and rows that end with a reference, from which groups are made. Other sections are passed over.
// Tests: tests/unit/test_mesh_files.c.
#include <ctype.h>
#include <stdio.h>

#include "base/context.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

enum { NAMED_REFERENCES = 4096 };  // references from 1 up to here have names

typedef struct Medit {
  pbMeshReader *r;
  int dimension;  // 2: in the plane z = 0
  bool named[4][NAMED_REFERENCES];
} Medit;

typedef struct Section {
  const char *keyword;
  int corners, dimension;
  pbStatus (*add)(pbMeshReader *, const int *, int group);
} Section;

static pbStatus add_edge(pbMeshReader *r, const int *v, int g) { return pbRead_AddCell(r, pb_cellEdge, v, g); }
static pbStatus add_triangle(pbMeshReader *r, const int *v, int g) { return pbRead_AddCell(r, pb_cellTriangle, v, g); }
static pbStatus add_tetrahedron(pbMeshReader *r, const int *v, int g) { return pbRead_AddCell(r, pb_cellTetrahedron, v, g); }
static pbStatus add_hexahedron(pbMeshReader *r, const int *v, int g) { return pbRead_AddSolid(r, pb_solidHexahedron, v, g); }
static pbStatus add_prism(pbMeshReader *r, const int *v, int g) { return pbRead_AddSolid(r, pb_solidPrism, v, g); }
static pbStatus add_pyramid(pbMeshReader *r, const int *v, int g) { return pbRead_AddSolid(r, pb_solidPyramid, v, g); }

static const Section sections[] = {{"Edges", 2, 1, add_edge},
                                   {"Triangles", 3, 2, add_triangle},
                                   {"Quadrilaterals", 4, 2, pbRead_AddQuadrangle},
                                   {"Tetrahedra", 4, 3, add_tetrahedron},
                                   {"Hexahedra", 8, 3, add_hexahedron},
                                   {"Prisms", 6, 3, add_prism},
                                   {"Pyramids", 5, 3, add_pyramid}};

// The next word that is none of a comment.
static bool next_word(pbMeshReader *r, char *word) {
  while (pbRead_Word(r, word)) {
    if (*word != '#') return true;
    pbRead_SkipLine(r);
  }
  return false;
}

static pbStatus whole(pbMeshReader *r, int64_t *value) {
  char word[PB_MESH_WORD];
  if (!next_word(r, word)) return pbRead_Fail(r, "expected a whole number, found the end of the file");
  return pbRead_WordInteger(r, word, value);
}

static pbStatus count_rows(pbMeshReader *r, const char *what, int *count) {
  int64_t n, most = (r->end - r->at) / 2 + 1;
  PB_TRY(whole(r, &n));

  // A number and a blank are two bytes.
  if (n < 0 || n > most || n > PB_MESH_MOST)
    return pbRead_Fail(r, "%lld %s; the file has room for at most %lld", (long long)n, what, (long long)most);
  *count = (int)n;
  return pb_ok;
}

static pbStatus read_points(Medit *m) {
  int count;
  PB_TRY(count_rows(m->r, "vertices", &count));

  for (int i = 0; i < count; i++) {
    char word[PB_MESH_WORD];
    double x[3] = {0};
    int64_t reference;

    // Coordinates, then a reference, which points have no use for.
    for (int k = 0; k < m->dimension; k++) {
      if (!next_word(m->r, word)) return pbRead_Fail(m->r, "expected a number, found the end of the file");
      PB_TRY(pbRead_WordReal(m->r, word, &x[k]));
    }

    PB_TRY(whole(m->r, &reference));
    PB_TRY(pbRead_AddPoint(m->r, x));
  }
  return pb_ok;
}

// The group of a reference, named when it is first met: "triangles:3".
static pbStatus find_group(Medit *m, int dimension, int64_t reference, int *group) {
  static const char *const many[] = {"points", "edges", "triangles", "tetrahedra"};
  char name[64];

  *group = reference > 0 && reference <= INT32_MAX ? (int)reference : 0;
  if (*group < 1 || *group >= NAMED_REFERENCES || m->named[dimension][*group]) return pb_ok;

  m->named[dimension][*group] = true;
  snprintf(name, sizeof name, "%s:%d", many[dimension], *group);
  return pbMesh_NameGroup(m->r->mesh, dimension, *group, name);
}

static pbStatus read_cells(Medit *m, const Section *s) {
  int count;
  PB_TRY(count_rows(m->r, s->keyword, &count));

  for (int i = 0; i < count; i++) {
    int vertex[8], group;
    int64_t value;

    for (int k = 0; k < s->corners; k++) {
      PB_TRY(whole(m->r, &value));
      PB_TRY(pbRead_Range(m->r, value, 1));
      vertex[k] = (int)value - 1;
    }

    PB_TRY(whole(m->r, &value));
    PB_TRY(find_group(m, s->dimension, value, &group));
    PB_TRY(s->add(m->r, vertex, group));
  }
  return pb_ok;
}

static pbStatus read_dimension(Medit *m) {
  int64_t dimension;
  PB_TRY(whole(m->r, &dimension));
  if (dimension < 2 || dimension > 3) return pbRead_Fail(m->r, "dimension %lld: expected 2 or 3", (long long)dimension);

  m->dimension = (int)dimension;
  return pb_ok;
}

static pbStatus read_section(Medit *m, const char *word) {
  if (!strcmp(word, "Dimension")) return read_dimension(m);
  if (!m->dimension) return pbRead_Fail(m->r, "expected 'Dimension', found '%.60s'", word);
  if (!strcmp(word, "Vertices")) return read_points(m);

  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
    if (!strcmp(word, sections[i].keyword)) return read_cells(m, &sections[i]);

  // Cells of a higher order would be lost: P2, Q2, ...
  size_t length = strlen(word);
  bool curved = length > 2 && isdigit((unsigned char)word[length - 1]) && (word[length - 2] == 'P' || word[length - 2] == 'Q');
  if (curved) return pbRead_Unsupported(m->r, "'%.60s' are not supported (linear cells are)", word);
  return pb_ok;  // its numbers are passed over
}

pbStatus pbRead_Medit(pbMeshReader *r) {
  char word[PB_MESH_WORD];
  int64_t version;

  if (!next_word(r, word) || strcmp(word, "MeshVersionFormatted") != 0)
    return pbRead_Fail(r, "expected 'MeshVersionFormatted', found '%.60s'", word);
  PB_TRY(whole(r, &version));
  if (version < 1 || version > 4) return pbRead_Unsupported(r, "version %lld of Medit's format", (long long)version);

  // Too large for a stack.
  Medit *m = pbContext_Alloc(r->ctx, sizeof *m);
  if (!m) return pbMesh_NoMemory(r->ctx, r->name);
  m->r = r;

  // Between sections that are read stand keywords, and numbers of those that are not.
  pbStatus status = pb_ok;
  while (status == pb_ok && next_word(r, word) && strcmp(word, "End") != 0)
    if (isalpha((unsigned char)*word)) status = read_section(m, word);

  pbContext_Free(r->ctx, m);
  return status;
}
