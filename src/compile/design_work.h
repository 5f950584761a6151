// What the values of a design (design.c) and their derivatives (design_derivative.c) work with.
#ifndef PB_DESIGN_WORK_H
#define PB_DESIGN_WORK_H

#include <pullback/solid.h>

#include "compile/design.h"

enum { PROPERTIES = 10 };  // numbers of a mesh: volume, center, tensor

typedef struct pbDesignWork {
  pbContext *ctx;
  const pbModel *m;
  const pbDesign *d;
  const double *theta;                  // as given
  const double *after;                  // with what follows
  bool *changed;                        // nmesh: its parameters are not those that were compiled
  double *mesh;                         // nmesh x PROPERTIES
  double *mesh_bar;                     // the same: cotangents, or the direction
  double *mesh_rotation;                // nmesh x 3: of its axes, the same
  double *vertex;                       // points of a mesh whose vertices are exposed
  double *vertex_bar;                   // of any mesh: cotangents
  double *density, *part_mesh;          // parts of a body: 1, PROPERTIES each
  _Complex double *density_c, *mesh_c;  // the same
} pbDesignWork;

static inline size_t at(const pbDesignWork *w, const double *field) { return (size_t)(field - w->m->theta0); }

// Memory; the caller frees it.
PB_NODISCARD pbStatus pbDesign_OpenWork(pbDesignWork *w, void **memory);
// Exposed vertices are in the frame that was compiled: what they differ by goes back to the file's by F = R S^-1 Q, as compiled.
void pbDesign_VertexFrame(const pbDesignWork *w, int mesh, double F[9]);
// The mesh at theta; where its vertices are exposed, its points are in w->vertex.
pbMeshSolid pbDesign_Solid(const pbDesignWork *w, int mesh);
// Its properties, also into w->mesh.
PB_NODISCARD pbStatus pbDesign_Measure(pbDesignWork *w, int mesh, pbMeshProperties *p);
// Densities and meshes of a body's parts; do any differ from what was compiled?
bool pbDesign_Gather(pbDesignWork *w, int body);

#endif
