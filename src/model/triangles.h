// Triangles of a mesh in a tree of boxes, for rays: all its faces, not those of its hull.
#ifndef PB_MODEL_TRIANGLES_H
#define PB_MODEL_TRIANGLES_H

#include "model/model.h"

// A box that holds triangles: of a leaf those from `first` on, else of the nodes `first` and `first` + 1.
typedef struct pbTriangleNode {
  double low[3], high[3];
  int first, count;  // count 0: no leaf
} pbTriangleNode;

// In the frame of the mesh's geoms (mesh.h). Nothing in it: rays do not look at the mesh.
typedef struct pbTriangleTree {
  int nodes, triangles;
  const pbTriangleNode *node;  // the root first; children behind their parent
  const double *corner;        // triangles x 3 corners x 3, m, counterclockwise seen from outside
} pbTriangleTree;

enum { PB_TRIANGLE_DEPTH = 64 };  // most levels: the number of triangles at least halves, but for rounding up

#endif
