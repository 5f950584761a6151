// The convex hull of a mesh as contacts look at it: its corners one after the other, from the tables of a compiled model.
#ifndef PB_MODEL_MESH_H
#define PB_MODEL_MESH_H

// In the frame of the mesh's geoms: origin at the center of mass, principal axes. Corners count within the hull.
typedef struct pbMeshHull {
  int corners, polygons;
  const double *corner;   // corners x 3, m
  const double *normal;   // polygons x 3: outward, unit
  const int *first;       // polygons + 1: where the corners of each begin in `around`
  const int *around;      // corners of polygons, counterclockwise seen from outside
  const int *first_face;  // corners + 1: where the polygons at each corner begin in `face`; one inside a polygon has none
  const int *face;        // polygons at corners
  const int *first_next;  // corners + 1: where the neighbors of each corner begin in `next`
  const int *next;        // corners across the edges of the hull's triangles
  int triangles;
  const int *triangle;  // triangles x 3: corners, counterclockwise seen from outside; those of a polygon may tilt a little
  double radius;        // of the ball about the origin that holds it
} pbMeshHull;

#endif
