// What meshes look like (pbModel_MeshSurface): beside the fields, since no step reads it.
#ifndef PB_MODEL_SURFACE_H
#define PB_MODEL_SURFACE_H

#include <pullback/model.h>

typedef struct pbGeomSurface {
  int surface;             // -1: none
  double pos[3], quat[4];  // of the surface in the frame of the geom
} pbGeomSurface;

typedef struct pbSurfaces {
  int count;
  pbMeshSurface *surface;  // names, points and triangles are its own
  pbGeomSurface *geom;     // one for each geom of the model
} pbSurfaces;

void pbSurfaces_Destroy(pbContext *ctx, pbSurfaces *surfaces);  // NULL is fine

#endif
