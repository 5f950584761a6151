// What meshes look like: asked for by number and by geom.
// Tests: tests/unit/test_surface.c.
#include "model/surface.h"

#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/own.h"
#include "model/model.h"

void pbSurfaces_Destroy(pbContext *ctx, pbSurfaces *surfaces) {
  if (!surfaces) return;

  for (int i = 0; i < surfaces->count; i++) {
    pbContext_Free(ctx, pb_own(surfaces->surface[i].name));
    pbContext_Free(ctx, pb_own(surfaces->surface[i].point));
    pbContext_Free(ctx, pb_own(surfaces->surface[i].triangle));
  }
  pbContext_Free(ctx, surfaces->surface);
  pbContext_Free(ctx, surfaces->geom);
  pbContext_Free(ctx, surfaces);
}

int pbModel_MeshSurfaceCount(const pbModel *model) { return model->surfaces ? model->surfaces->count : 0; }

pbMeshSurface pbModel_MeshSurface(const pbModel *model, int index) {
  PB_ASSERT(index >= 0 && index < pbModel_MeshSurfaceCount(model));
  return model->surfaces->surface[index];
}

int pbModel_GeomSurface(const pbModel *model, int geom, double pos[3], double quat[4]) {
  if (!model->surfaces || geom < 0 || geom >= model->ngeom) return -1;

  const pbGeomSurface *g = &model->surfaces->geom[geom];
  memcpy(pos, g->pos, sizeof g->pos);
  memcpy(quat, g->quat, sizeof g->quat);
  return g->surface;
}
