// Height fields as contacts look at them: below each triangle of the surface a prism that reaches down to the base, a convex
// body. Cells are cut along the diagonal from their first corner (least row and column) to the opposite one, as in MuJoCo.
#ifndef PB_TERRAIN_H
#define PB_TERRAIN_H

#include <stdbool.h>

#include "model/mesh.h"
#include "model/model.h"

enum { PB_TERRAIN_CONTACTS = 50 };  // most contacts of a field with one geom, as in MuJoCo

// In the frame of the field.
typedef struct pbPrism {
  pbMeshHull hull;  // its tables lie here: not to be copied
  double corner[18], normal[15];
} pbPrism;

// number: two a cell, cells by rows.
void pbTerrain_Prism(const pbModel *m, int hfield, int number, pbPrism *prism);

// The prisms that a box may touch, by rising number.
typedef struct pbTerrainWindow {
  int row_end, column, column_end;  // cells, without the ends
  double low;                       // prisms that lie below it are passed over
  int r, c, half;                   // the next one
} pbTerrainWindow;
void pbTerrain_Open(const pbModel *m, int hfield, const double low[3], const double high[3], pbTerrainWindow *window);
int pbTerrain_Next(const pbModel *m, int hfield, pbTerrainWindow *window);  // -1: there is none left

// Bounds of a shape that is neither a plane nor a field, in a frame with these axes (columns of R) and this origin.
typedef struct pbBoundShape {
  int type;  // pb_geom*
  const pbMeshHull *hull;
  double pos[3], mat[9], size[3];
} pbBoundShape;
void pbTerrain_Bounds(const pbBoundShape *shape, const double origin[3], const double R[9], double low[3], double high[3]);

#endif
