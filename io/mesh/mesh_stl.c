// STL, text or binary: triangles with corners of their own, joined where their positions are the same.
// Tests: tests/unit/test_mesh_files.c.
#include "io/mesh/mesh_reader.h"

static pbStatus add_triangle(pbMeshReader *r, const double x[3][3]) {
  // Points of different triangles are joined at the end (pbMesh_Weld).
  int first = r->mesh->points;
  for (int k = 0; k < 3; k++) PB_TRY(pbRead_AddPoint(r, x[k]));
  return pbRead_AddCell(r, pb_cellTriangle, (int[3]){first, first + 1, first + 2}, 0);
}

static pbStatus read_vector(pbMeshReader *r, double *x) {
  for (int k = 0; k < 3; k++) PB_TRY(pbRead_Real(r, pb_readFloat32, &x[k]));
  return pb_ok;
}

static pbStatus read_text_facet(pbMeshReader *r) {
  char word[PB_MESH_WORD];
  double x[3][3];

  // Any numbers: the normal follows from the corners.
  PB_TRY(pbRead_Expect(r, "normal"));
  for (int k = 0; k < 3; k++) pbRead_Word(r, word);

  PB_TRY(pbRead_Expect(r, "outer"));
  PB_TRY(pbRead_Expect(r, "loop"));
  for (int k = 0; k < 3; k++) {
    PB_TRY(pbRead_Expect(r, "vertex"));
    PB_TRY(read_vector(r, x[k]));
  }

  PB_TRY(pbRead_Expect(r, "endloop"));
  PB_TRY(pbRead_Expect(r, "endfacet"));
  return add_triangle(r, x);
}

static pbStatus read_text(pbMeshReader *r) {
  char word[PB_MESH_WORD];
  while (pbRead_Word(r, word)) {
    if (strcmp(word, "solid") != 0) return pbRead_Fail(r, "expected 'solid', found '%.60s'", word);

    // The rest of the line is the solid's name.
    pbRead_SkipLine(r);

    for (;;) {
      if (!pbRead_Word(r, word)) return pbRead_Fail(r, "the file ends before 'endsolid'");
      if (!strcmp(word, "endsolid")) break;
      if (strcmp(word, "facet") != 0) return pbRead_Fail(r, "expected 'facet' or 'endsolid', found '%.60s'", word);
      PB_TRY(read_text_facet(r));
    }

    pbRead_SkipLine(r);
  }
  return pb_ok;
}

static pbStatus read_binary(pbMeshReader *r) {
  int count;
  double x[3][3];

  // 80 bytes of anything, the count, 50 bytes for each triangle.
  r->binary = true;
  if (r->end - r->at < 84) return pbRead_Fail(r, "neither text that begins with 'solid' nor long enough for a binary STL");
  r->at += 80;
  PB_TRY(pbRead_Count(r, pb_readUint32, 50, "triangles", &count));

  for (int i = 0; i < count; i++) {
    if (r->end - r->at < 50) return pbRead_Fail(r, "the file is cut short: %d triangles of %d", i, count);

    r->at += 12;  // the normal
    for (int k = 0; k < 3; k++) PB_TRY(read_vector(r, x[k]));
    r->at += 2;  // attributes

    PB_TRY(add_triangle(r, x));
  }
  return pb_ok;
}

// Binary files may begin with "solid", too: their length tells.
static bool is_text(const pbMeshReader *r) {
  size_t size = (size_t)(r->end - r->begin);
  if (size >= 84 && (size - 84) % 50 == 0 && (size - 84) / 50 == (uint32_t)pbRead_IntegerAt(r->begin + 80, pb_readUint32, false))
    return false;

  const unsigned char *at = r->begin;
  while (at < r->end && strchr(" \t\r\n", *at) && *at) at++;
  return r->end - at >= 5 && !memcmp(at, "solid", 5);
}

pbStatus pbRead_Stl(pbMeshReader *r) {
  PB_TRY(is_text(r) ? read_text(r) : read_binary(r));
  return pbMesh_Weld(r->mesh);
}
