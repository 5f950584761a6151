// Height fields as contacts look at them: below each triangle of the surface a prism that reaches down to the base, a convex
// body. Cells are cut along the diagonal from their first corner (least row and column) to the opposite one, as in MuJoCo.
#ifndef PB_TERRAIN_H
#define PB_TERRAIN_H

#include <stdbool.h>

#include "model/mesh.h"
#include "model/model.h"

enum { PB_TERRAIN_CONTACTS = 50 };  // most contacts of a field with one geom, as in MuJoCo

// The heights that act: the model's, or those of theta (exposed.h).
typedef struct pbTerrain {
  int rows, columns;
  const double *size;    // half lengths along x and y, elevation, depth of the base; m
  const double *height;  // rows x columns, times the elevation
  double highest;        // none is above it
} pbTerrain;

static inline pbTerrain pbTerrain_Compiled(const pbModel *m, int hfield) {
  return (pbTerrain){.rows = m->hfield_nrow[hfield],
                     .columns = m->hfield_ncol[hfield],
                     .size = m->hfield_size + 4 * (size_t)hfield,
                     .height = m->hfield_data + m->hfield_adr[hfield],
                     .highest = 1};
}

// In the frame of the field.
typedef struct pbPrism {
  pbMeshHull hull;  // its tables lie here: not to be copied
  double corner[18], normal[15];
} pbPrism;
enum { PB_PRISM_TOP = 3 };  // number of the first of three corners above the others, which are on the base's bottom

// number: two a cell, cells by rows. Corners are numbers in hull.vertex, too.
void pbTerrain_Prism(const pbTerrain *terrain, int number, pbPrism *prism);
// Which heights its three upper corners have.
void pbTerrain_Heights(const pbTerrain *terrain, int number, size_t height[3]);

// The prisms that a box may touch, by rising number.
typedef struct pbTerrainWindow {
  int row_end, column, column_end;  // cells, without the ends
  double low;                       // prisms that lie below it are passed over
  int r, c, half;                   // the next one
} pbTerrainWindow;
void pbTerrain_Open(const pbTerrain *terrain, const double low[3], const double high[3], pbTerrainWindow *window);
int pbTerrain_Next(const pbTerrain *terrain, pbTerrainWindow *window);  // -1: there is none left

// Bounds of a shape that is neither a plane nor a field, in a frame with these axes (columns of R) and this origin.
typedef struct pbBoundShape {
  int type;  // pb_geom*
  const pbMeshHull *hull;
  double pos[3], mat[9], size[3];
} pbBoundShape;
void pbTerrain_Bounds(const pbBoundShape *shape, const double origin[3], const double R[9], double low[3], double high[3]);

#endif
