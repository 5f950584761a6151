// Inside of mesh files: one VTU file, and VTK's numbers of the types of cells (vtkCellType.h).
#ifndef PB_IO_VTU_H
#define PB_IO_VTU_H

#include <pullback/mesh.h>

typedef enum pbVtkType {
  pb_vtkVertex = 1,
  pb_vtkPolyVertex = 2,
  pb_vtkLine = 3,
  pb_vtkPolyLine = 4,
  pb_vtkTriangle = 5,
  pb_vtkTriangleStrip = 6,
  pb_vtkPolygon = 7,
  pb_vtkQuad = 9,
  pb_vtkTetra = 10,
  pb_vtkVoxel = 11,
  pb_vtkHexahedron = 12,
  pb_vtkWedge = 13,
  pb_vtkPyramid = 14,
  pb_vtkQuadraticEdge = 21,
  pb_vtkQuadraticTriangle = 22,
  pb_vtkQuadraticTetra = 24
} pbVtkType;

PB_NODISCARD pbStatus pbVtu_WriteOne(pbContext *ctx, const char *path, const pbMesh *mesh, const pbVtuFrame *frame);

#endif
