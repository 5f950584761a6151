// MuJoCo's own binary meshes: counts, then arrays; normals and texture coordinates are passed over.
// Tests: tests/unit/test_mesh_files.c.
#include "io/mesh/mesh_reader.h"

pbStatus pbRead_Msh(pbMeshReader *r) {
  int64_t points, normals, coordinates, triangles;
  int v[3];
  r->binary = true;
  int64_t *counts[4] = {&points, &normals, &coordinates, &triangles};

  // Four counts.
  if (r->end - r->at < 16) return pbRead_Fail(r, "too short for the four counts of a binary mesh");
  for (int k = 0; k < 4; k++) {
    PB_TRY(pbRead_Integer(r, pb_readInt32, counts[k]));
    if (*counts[k] < 0) return pbRead_Fail(r, "a count is negative (%lld)", (long long)*counts[k]);
  }

  // The counts are true if they give the length.
  int64_t size = 12 * points + 12 * normals + 8 * coordinates + 12 * triangles;
  if (size != r->end - r->at)
    return pbRead_Fail(r,
                       "%lld points, %lld normals, %lld texture coordinates and %lld triangles are %lld bytes, but %lld follow",
                       (long long)points, (long long)normals, (long long)coordinates, (long long)triangles, (long long)size,
                       (long long)(r->end - r->at));

  for (int64_t i = 0; i < points; i++) {
    double x[3];

    for (int k = 0; k < 3; k++) PB_TRY(pbRead_Real(r, pb_readFloat32, &x[k]));
    PB_TRY(pbRead_AddPoint(r, x));
  }

  r->at += 12 * normals + 8 * coordinates;
  for (int64_t i = 0; i < triangles; i++) {
    for (int k = 0; k < 3; k++) {
      int64_t n;
      PB_TRY(pbRead_Integer(r, pb_readInt32, &n));
      PB_TRY(pbRead_Range(r, n, 0));

      v[k] = (int)n;
    }
    PB_TRY(pbRead_AddCell(r, pb_cellTriangle, v, 0));
  }
  return pb_ok;
}
