// Cells of meshes, for files and pictures.
#ifndef PB_DEFORM_CELLS_H
#define PB_DEFORM_CELLS_H

#include <pullback/mesh.h>

typedef struct pbCellSet {
  char *name;
  pbCellKind kind;
  int count, *vertex;
} pbCellSet;
typedef struct pbCellSets {
  int count;
  pbCellSet *list;
} pbCellSets;
void pbCellSets_Free(pbContext *ctx, pbCellSets *sets);
PB_NODISCARD pbStatus pbCellSets_Add(pbContext *ctx, pbCellSets *sets, const char *name, pbCellKind kind, int count,
                                     const int *vertex);
// All of them over the points `rest` (points x 3), a group for each name and dimension.
PB_NODISCARD pbStatus pbCellSets_Mesh(pbContext *ctx, const pbCellSets *sets, int points, const double *rest, pbMesh **mesh);

#endif
