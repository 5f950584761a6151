// Mesh files of rigid shapes: whatever the bytes, an error with a text, or a shape whose volume, derivative and hull have either
// numbers in range or an error with a text. The first byte chooses the format, the second what is weighed and the scale.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pullback/mesh.h>
#include <pullback/solid.h>

enum { most_points = 2000 };  // of which hulls are made, for speed

static bool failed(pbContext *ctx, pbStatus status) {
  if (status != pb_ok && !pbContext_Error(ctx)[0]) abort();
  return status != pb_ok;
}

static void weigh(pbContext *ctx, const pbMeshSolid *solid) {
  pbMeshProperties p;
  pbMeshPropertiesBar bar = {.volume = 1, .tensor = {1, 2, 3, 4, 5, 6}};
  pbMeshSolidBar gradient = {.point = calloc((size_t)solid->points + 1, 3 * sizeof(double))};
  if (!gradient.point) abort();

  if (!failed(ctx, pbMesh_Properties(ctx, solid, &p))) {
    if (!(p.volume > 0) || !isfinite(p.volume) || !isfinite(p.center[0] + p.quat[0] + p.moments[0])) abort();
    (void)failed(ctx, pbMesh_PropertiesVjp(ctx, solid, &bar, &gradient));
  }
  free(gradient.point);
}

static void wrap(pbContext *ctx, const pbMesh *m, int most) {
  pbHull *hull = NULL;
  if (m->points > most_points || failed(ctx, pbHull_Create(ctx, m->point, m->points, most, &hull))) return;
  for (int i = 0; i < hull->corners; i++)
    if (hull->corner[i] < 0 || hull->corner[i] >= m->points) abort();
  for (int i = 0; i < hull->first[hull->polygons]; i++)
    if (hull->around[i] < 0 || hull->around[i] >= m->points) abort();
  pbHull_Destroy(hull);
}

static void use(pbContext *ctx, const pbMesh *m, uint8_t choice) {
  const pbCells *faces = &m->cells[pb_cellTriangle];
  pbMeshSolid solid = pbMeshSolid_Default();
  solid.points = m->points;
  solid.point = m->point;
  solid.triangles = faces->count;
  solid.triangle = faces->vertex;
  solid.inertia = (pbMeshInertia)(choice % 4);
  if (choice & 4) solid.scale[1] = -2;
  if (choice & 8) solid.scale[2] = 0;

  if (solid.inertia != pb_meshInertiaConvex || m->points <= most_points) weigh(ctx, &solid);
  wrap(ctx, m, choice & 16 ? 6 : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const endings[] = {".stl", ".obj", ".msh", ".dae", ".glb"};
  char path[40];
  if (size < 2) return 0;
  int fd = memfd_create("shape", 0);
  if (fd < 0 || write(fd, data + 2, size - 2) != (ssize_t)(size - 2)) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

  pbContext *ctx = pbContext_Create(NULL);
  pbMesh *m = NULL;
  if (!failed(ctx, pbMesh_LoadShape(ctx, path, *data == 'g' ? ".gltf" : endings[*data % 5], &m))) use(ctx, m, data[1]);
  pbMesh_Destroy(m);
  pbContext_Destroy(ctx);
  close(fd);
  return 0;
}
