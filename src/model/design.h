// What masses and frames of bodies and geoms are compiled from, kept where a spec asks for it (pbSpec.design), so that
// pbModel_SetConstants can follow the parameters of meshes and densities.
#ifndef PB_DESIGN_H
#define PB_DESIGN_H

#include "model/model.h"

// A geom that weighs.
typedef struct pbDesignPart {
  int body, geom, mesh;    // geom -1: it is only seen, and not in the model; mesh -1: a primitive
  bool by_density;         // else by a stated mass
  double mass, density;    // as compiled
  double pos[3], quat[4];  // in the body: of the frame of a mesh's moved points (solid.h); of a primitive's principal axes
  double moments[3];       // of a primitive, at its compiled mass
} pbDesignPart;

// A geom whose shape is a mesh.
typedef struct pbDesignGeom {
  int geom, mesh;
  double pos[3], quat[4];  // of the frame of the moved points in the body
} pbDesignGeom;

// As compiled: what pbMeshSolid and pbMeshProperties say of it.
typedef struct pbDesignMesh {
  int points, triangles, inertia, most;
  double *point;  // points x 3
  int *triangle;  // triangles x 3
  double scale[3], refpos[3], refquat[4];
  double volume, center[3], tensor[6], quat[4], moments[3];
} pbDesignMesh;

typedef struct pbDesign {
  int geoms;
  int *first;          // nbody + 1: parts of each body; none where its inertia does not follow from its geoms
  pbDesignPart *part;  // by bodies
  pbDesignGeom *geom;
  pbDesignMesh *mesh;  // nmesh
  double *theta0;      // own fields of the model as compiled; its defaults may change
} pbDesign;

void pbDesign_Destroy(pbContext *ctx, pbDesign *design, int meshes);  // NULL is fine

#endif
