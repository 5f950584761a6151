// Inside of meshes: shapes of cells, and tables of rows brought into order.
#ifndef PB_MESH_H
#define PB_MESH_H

#include <pullback/mesh.h>

#include <math.h>

#include "base/assert.h"

enum { pb_mostNodes = 10 };

typedef struct pbCellShape {
  const char *name, *many;
  int nodes, dimension, corners;
  int edges, edge[12][2];      // quadratic cells: halves of edges
  int triangles, face[16][3];  // flat triangles: a triangle's own, a tetrahedron's faces seen from outside
  int per_face;                // so many of them make up one face
} pbCellShape;
extern const pbCellShape pb_cellShape[pb_cellKindCount];

// Order rows (each `width` numbers from 0 to range - 1) by their entries, the first counting most; equal ones stay in order.
// `order` has room for `rows` numbers. pb_no_memory.
PB_NODISCARD pbStatus pbRows_Sort(pbContext *ctx, const int *row, int rows, int width, int range, int *order);
// Sort the numbers of one row.
void pbRow_Sort(int *row, int width);
// Point numbers in range, finite coordinates.
PB_NODISCARD pbStatus pbMesh_CheckNumbers(pbContext *ctx, const pbMesh *mesh);
pbStatus pbMesh_NoMemory(pbContext *ctx, const char *name);
// Room for `count` cells of `nodes`, zeroed; pb_no_memory leaves nothing behind.
PB_NODISCARD pbStatus pbCells_Room(pbContext *ctx, const char *name, int count, int nodes, pbCells *cells);

// Is every cell's point one of the mesh? For assertions; pbMesh_CheckNumbers tells users what is wrong.
static inline bool pbMesh_IsNumbered(const pbMesh *m) {
  for (int k = 0; k < pb_cellKindCount; k++) {
    if (!pb_allWithin(m->cells[k].vertex, m->cells[k].count * pb_cellShape[k].nodes, 0, m->points)) return false;
  }
  return true;
}

// det(b - a, c - a, d - a): six times the volume of a tetrahedron.
static inline double pbMesh_Det(const double *a, const double *b, const double *c, const double *d) {
  double u[3], v[3], w[3];
  for (int k = 0; k < 3; k++) {
    u[k] = b[k] - a[k];
    v[k] = c[k] - a[k];
    w[k] = d[k] - a[k];
  }
  return u[0] * (v[1] * w[2] - v[2] * w[1]) + u[1] * (v[2] * w[0] - v[0] * w[2]) + u[2] * (v[0] * w[1] - v[1] * w[0]);
}
// Twice the area of a triangle.
static inline double pbMesh_Twice(const double *a, const double *b, const double *c) {
  double u[3], v[3];
  for (int k = 0; k < 3; k++) {
    u[k] = b[k] - a[k];
    v[k] = c[k] - a[k];
  }
  double x = u[1] * v[2] - u[2] * v[1], y = u[2] * v[0] - u[0] * v[2], z = u[0] * v[1] - u[1] * v[0];
  return sqrt(x * x + y * y + z * z);
}

#endif
