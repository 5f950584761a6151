// The convex hull of a mesh as contacts look at it: its corners one after the other, from the tables of a compiled model.
#ifndef PB_MODEL_MESH_H
#define PB_MODEL_MESH_H

enum { PB_HULL_BLOCK = 4 };                                                       // neighbors side by side
enum { PB_HULL_CELLS = 16, PB_HULL_STARTS = 6 * PB_HULL_CELLS * PB_HULL_CELLS };  // of directions: squares of a cube's side, all

// In the frame of the mesh's geoms: origin at the center of mass, principal axes. Corners count within the hull.
typedef struct pbMeshHull {
  int corners, polygons;
  const double *corner;    // corners x 3, m
  const int *vertex;       // corners: vertices of the mesh
  const double *normal;    // polygons x 3: outward, unit
  const int *first;        // polygons + 1: where the corners of each begin in `around`
  const int *around;       // corners of polygons, counterclockwise seen from outside
  const int *first_face;   // corners + 1: where the polygons at each corner begin in `face`; one inside a polygon has none
  const int *face;         // polygons at corners
  const int *first_next;   // corners + 1: where the neighbors of each corner begin in `next`
  const int *next;         // corners across the edges of the hull's triangles
  const int *first_block;  // corners + 1: where the blocks of each corner's neighbors begin in `block`
  const double *block;     // x, y, z of four neighbors each, the last repeated; NULL: corners are parameters, look at each
  int triangles;
  const int *triangle;        // triangles x 3: corners, counterclockwise seen from outside; those of a polygon may tilt a little
  double radius;              // of the ball about the origin that holds it
  double center[3], half[3];  // of the box along the axes that holds it
  const int *start;           // PB_HULL_STARTS: where climbs begin, by direction; of hulls with many corners
  unsigned goes_on;           // of a height field's prism: bit k where its top goes on beyond side k in the same plane
} pbMeshHull;

// The corner furthest along a direction (in the frame of the corners, of any length); of equal ones the first.
int pbMeshHull_Support(const pbMeshHull *hull, const double direction[3]);

// The polygon whose normal is this one (a unit vector in the frame of the corners) but for rounding, at a corner or at those that
// hang together with it at the same height, but for single precision; -1: there is none. (At corners along the sides of a flat
// face there may be slivers alone, whose normals are anything.)
#define PB_SAME_FACE 5e-13  // of a cosine: normals 1e-6 apart
int pbMeshHull_LevelFace(const pbMeshHull *hull, const double normal[3], int corner);

// From the corners: the table, in `start`, and the box.
void pbMeshHull_SetStarts(pbMeshHull *hull, int *start);
void pbMeshHull_SetBox(pbMeshHull *hull);

#endif
