// Mesh files: whatever the bytes, a mesh whose numbers are in range or an error with a text. The first byte chooses the format:
// '0', '1', ...
#include <pullback/mesh.h>

#include <stdlib.h>

static void use(pbContext *ctx, pbMesh *m) {
  pbCells skin;
  (void)!pbMesh_Check(ctx, m, pb_meshManifold | pb_meshOriented, NULL);
  (void)!pbMesh_Orient(m);
  if (pbMesh_Skin(ctx, m, &skin) != pb_ok) abort();
  for (int i = 0; i < 3 * skin.count; i++)
    if (skin.vertex[i] < 0 || skin.vertex[i] >= m->points) abort();
  pbCells_Clear(ctx, &skin);
  if (pbMesh_Weld(m) != pb_ok || pbMesh_DropUnused(m) != pb_ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"fuzz.obj", "fuzz.stl", "fuzz.ply", "fuzz.msh", "fuzz.vtk", "fuzz.vtu", "fuzz.mesh"};
  if (!size) return 0;
  pbContext *ctx = pbContext_Create(NULL);
  pbMesh *m = NULL;
  pbStatus status = pbMesh_Parse(ctx, data + 1, size - 1, names[(*data + 1) % 7], &m);
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();
  if (status == pb_ok) use(ctx, m);
  pbMesh_Destroy(m);
  pbContext_Destroy(ctx);
  return 0;
}
