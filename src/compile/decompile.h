// Inside of decompile*.c: a model with parameters on its way to a spec.
#ifndef PB_DECOMPILE_H
#define PB_DECOMPILE_H

#include <pullback/spec.h>

#include "model/model.h"

typedef struct pbDecompiler {
  pbContext *ctx;
  const pbModel *m;
  const double *theta;    // directions in it are of length one
  const double *derived;  // the same with what follows from the others
  pbSpec *spec;           // in the order of the model
} pbDecompiler;

// Directions in theta as the compiler leaves those of a file.
void pbDecompile_Normalize(const pbModel *m, double *theta);

// ---- decompile_shape.c: meshes and height fields
PB_NODISCARD pbStatus pbDecompile_Shapes(pbDecompiler *d);
// Is the geom's frame another one than that of its file, or text?
bool pbDecompile_IsShaped(const pbModel *m, int geom);
void pbDecompile_PlaceShape(const pbDecompiler *d, int geom, pbPose *pose);

#endif
