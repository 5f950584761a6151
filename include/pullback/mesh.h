// Pullback: meshes for deformables: points and cells, generators, checks, surfaces, files.
//
// Points are x, y, z in double; cells are rows of point numbers, from 0. Lengths are the caller's (metres in a world).
// A tetrahedron is positive where det(x1 - x0, x2 - x0, x3 - x0) > 0. Nodes in the middle of edges follow the corners:
//
//   triangle6       0 1 2, then 01 12 20
//   tetrahedron10   0 1 2 3, then 01 12 02 03 13 23   (VTK's order; Gmsh has the last two the other way round)
//
// Functions that hand out a mesh or cells leave them untouched on failure; the context has the text. A mesh outlives no
// context it was made with. A const mesh may be read by many threads, each with a context of its own.
#ifndef PULLBACK_MESH_H
#define PULLBACK_MESH_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pbCellKind {
  pb_cellPoint,
  pb_cellEdge,
  pb_cellTriangle,
  pb_cellTriangle6,
  pb_cellTetrahedron,
  pb_cellTetrahedron10,
  pb_cellKindCount
} pbCellKind;
PB_API const char *pbCellKind_Name(pbCellKind kind);  // "point", "edge", "triangle", ...
PB_API int pbCellKind_Nodes(pbCellKind kind);         // 1, 2, 3, 6, 4, 10
PB_API int pbCellKind_Dimension(pbCellKind kind);     // 0, 1, 2, 2, 3, 3

typedef struct pbCells {
  int count;
  int *vertex;  // count x nodes
  int *group;   // count: number of the group a cell is in; 0: none
} pbCells;
PB_API void pbCells_Clear(pbContext *ctx, pbCells *cells);

typedef struct pbMeshGroup {  // a named set of cells ("physical group"); numbers are told apart by dimension
  int dimension, number;      // number > 0
  char *name;                 // "" where it has none
} pbMeshGroup;

typedef struct pbMesh {
  pbContext *ctx;  // that it is allocated with
  char *name;      // file or generator, for messages
  int points;
  double *point;  // points x 3
  pbCells cells[pb_cellKindCount];
  int groups;
  pbMeshGroup *group;
} pbMesh;

enum { PB_MESH_MOST = 100000000 };  // points, and cells of one kind, at most

// All zeros, `group` of each kind included; fill in. counts NULL: no cells. pb_capacity above PB_MESH_MOST.
PB_API PB_NODISCARD pbStatus pbMesh_Create(pbContext *ctx, const char *name, int64_t points,
                                           const int64_t counts[pb_cellKindCount], pbMesh **mesh);
PB_API void pbMesh_Destroy(pbMesh *mesh);  // NULL is fine
// Name a group; again: renames it.
PB_API PB_NODISCARD pbStatus pbMesh_NameGroup(pbMesh *mesh, int dimension, int number, const char *name);
PB_API const pbMeshGroup *pbMesh_FindGroup(const pbMesh *mesh, const char *name);  // NULL: none of this name
// Points of a group's cells (what a pin holds), ascending, each once; group 0. pb_bad_input names the groups there are where there is
// none of this name. The caller clears `points`.
PB_API PB_NODISCARD pbStatus pbMesh_GroupPoints(pbContext *ctx, const pbMesh *mesh, const char *name, pbCells *points);

// ---- generators -------------------------------------------------------------------------------------------------------
// Errors: pb_bad_argument with the reason (counts below 1, sizes that are not positive and finite).

// Straight line of `edges` edges, edges + 1 points in order.
PB_API PB_NODISCARD pbStatus pbMesh_Chain(pbContext *ctx, const double from[3], const double to[3], int edges, pbMesh **mesh);

typedef enum pbGridPattern {
  pb_gridUniform,      // all diagonals alike
  pb_gridAlternating,  // neighbouring cells mirrored: no preferred direction
} pbGridPattern;
typedef struct pbGrid {
  double corner[3], u[3], v[3];  // a parallelogram: corner + s u + t v
  int cells[2];                  // along u and v, two triangles each
  pbGridPattern pattern;
} pbGrid;
// Point i + (cells[0] + 1) j lies at s = i / cells[0], t = j / cells[1]. Normals along u x v.
PB_API PB_NODISCARD pbStatus pbMesh_Grid(pbContext *ctx, const pbGrid *grid, pbMesh **mesh);

// Disc around the origin in the plane z = 0, normals along z: 6 rings^2 triangles, point 0 in the middle, the last 6 rings points
// on the rim. Its area is that of the polygon of the rim.
PB_API PB_NODISCARD pbStatus pbMesh_Disc(pbContext *ctx, double radius, int rings, pbMesh **mesh);

typedef enum pbBoxSplit {
  pb_boxSix,   // six tetrahedra a cell around one diagonal, all cells alike
  pb_boxFive,  // five, neighbouring cells mirrored: no preferred direction
} pbBoxSplit;
typedef struct pbBox {
  double low[3], high[3];
  int cells[3];
  pbBoxSplit split;
} pbBox;
// Beam, block or plate. Point i + (nx + 1) (j + (ny + 1) k) is that of cell corner (i, j, k). Faces conform.
PB_API PB_NODISCARD pbStatus pbMesh_Box(pbContext *ctx, const pbBox *box, pbMesh **mesh);

// Solid cylinder along z from 0 to height: the disc's points, `layers` + 1 times; three tetrahedra a prism.
PB_API PB_NODISCARD pbStatus pbMesh_Cylinder(pbContext *ctx, double radius, double height, int rings, int layers, pbMesh **mesh);

// Surface of a sphere around the origin: an icosahedron, each edge cut into `cuts`. 10 cuts^2 + 2 points, 20 cuts^2 triangles,
// outward.
PB_API PB_NODISCARD pbStatus pbMesh_Sphere(pbContext *ctx, double radius, int cuts, pbMesh **mesh);
// Solid ball: `shells` such spheres, the k-th of radius k/shells with k cuts, around point 0; the last 10 shells^2 + 2 points are the
// surface, in the order of pbMesh_Sphere. 20 shells^3 tetrahedra.
PB_API PB_NODISCARD pbStatus pbMesh_Ball(pbContext *ctx, double radius, int shells, pbMesh **mesh);

// Triangles and tetrahedra with nodes in the middle of their (straight) edges, shared between cells; points keep their numbers, new
// ones follow. Points, edges, groups and quadratic cells are copied.
PB_API PB_NODISCARD pbStatus pbMesh_Quadratic(pbContext *ctx, const pbMesh *mesh, pbMesh **quadratic);

// ---- what follows from cells ------------------------------------------------------------------------------------------
// The caller clears `cells` (pbCells_Clear). Order and result depend on the input alone. Point numbers must be in range
// (pbMesh_Check).

// Edges of cells (two points each, lower number first, ascending); quadratic cells give both halves of each edge.
PB_API PB_NODISCARD pbStatus pbCells_Edges(pbContext *ctx, pbCellKind kind, const pbCells *cells, pbCells *edges);
// Pairs of triangles across an edge, four points each: a, b (the edge as the first triangle walks it), c (rest of the first), d (rest of
// the second): a bending stencil. pb_bad_input names an edge with more than two triangles.
PB_API PB_NODISCARD pbStatus pbCells_Hinges(pbContext *ctx, const pbCells *triangles, pbCells *hinges);
// Faces that belong to one tetrahedron, as outward triangles with its group; those of quadratic ones in four triangles each, so that
// every node is a corner.
PB_API PB_NODISCARD pbStatus pbMesh_Boundary(pbContext *ctx, const pbMesh *mesh, pbCells *triangles);
// What can be seen and touched: the boundary, then the mesh's own triangles (quadratic ones in four) that are no face of a tetrahedron.
PB_API PB_NODISCARD pbStatus pbMesh_Skin(pbContext *ctx, const pbMesh *mesh, pbCells *triangles);

// ---- checks -----------------------------------------------------------------------------------------------------------

typedef enum pbMeshWish {  // errors beside those of every mesh; bits
  pb_meshManifold = 1,     // at most two triangles at an edge
  pb_meshOriented = 2,     // neighbouring triangles turn the same way
  pb_meshClosed = 4,       // no edge with a single triangle
  pb_meshConnected = 8,    // one part
} pbMeshWish;
typedef struct pbMeshReport {
  int repeated, degenerate, inverted, duplicate;  // cells: a point twice, without length, area or volume, negative, there before
  int crowded_edges, turned_edges,
      open_edges;               // of triangles: with more than two, with two that turn against each other, with one
  int crowded_faces;            // triangles that more than two tetrahedra share
  int unused;                   // points in no cell (single points do not count)
  int parts;                    // that hang together
  double length, area, volume;  // of edges, triangles (by corners), tetrahedra
  double quality;               // of the worst triangle or tetrahedron, by corners: mean ratio, 1 is regular; 1 if none
  pbCellKind worst_kind;
  int worst;               // its number; -1: none
  double low[3], high[3];  // bounds of the points
  int slivers;             // triangles and tetrahedra with a quality below PB_MESH_SLIVER that are not degenerate
  int overlapping;         // pairs of tetrahedra that lie in each other: on one side of a face that they share, or in part; those
                           // in part are counted up to 100 000
} pbMeshReport;
#define PB_MESH_SLIVER .01
// Every mesh: point numbers in range, finite coordinates, no repeated point in a cell, no degenerate, inverted or duplicate cell, no
// crowded face, no two tetrahedra on one side of a face; then the wishes. pb_bad_input: the text names the first cells of each
// fault with their points and place. Unused points, several parts, slivers, and tetrahedra that lie in each other otherwise are
// warnings. report may be NULL; it is filled on failure too, except after numbers out of range or NaN.
PB_API PB_NODISCARD pbStatus pbMesh_Check(pbContext *ctx, const pbMesh *mesh, unsigned wishes, pbMeshReport *report);
// Where all tetrahedra are negative they are turned; pb_bad_input, naming the first negative ones, where only some are.
PB_API PB_NODISCARD pbStatus pbMesh_Orient(pbMesh *mesh);
// Points in no cell are dropped, with single points on them; the others keep their order.
PB_API PB_NODISCARD pbStatus pbMesh_DropUnused(pbMesh *mesh);
// Points at the very same place become one, the first; triangles that lose a corner by it are dropped.
PB_API PB_NODISCARD pbStatus pbMesh_Weld(pbMesh *mesh);

// ---- files ------------------------------------------------------------------------------------------------------------
// Missing, down to the end, from a library that was built with PULLBACK_IO=OFF.
// The ending tells the format:
//
//   .obj         points keep their order; v, f, l, p; faces' groups (g). Polygons become fans of triangles, here and below
//   .stl         text or binary; corners at the same place become one point (pbMesh_Weld)
//   .ply         text or binary of either order; elements vertex, face, edge
//   .msh         Gmsh 2.2 and 4.1, text or binary: points, lines, triangles and tetrahedra of 3, 6, 4, 10 nodes, quadrangles as two
//                triangles, solids as below; physical groups with their names (the first of a cell)
//   .vtk         legacy VTK, text or binary: UNSTRUCTURED_GRID and POLYDATA, up to version 5.1, no data
//   .vtu         one piece; text, base64 or raw appended, plain or zlib; cell data "group" (or "gmsh:physical") are groups
//   .mesh        Medit, text: linear cells; references from 1 on are groups with names such as "triangles:3", "tetrahedra:3"
//   .ele         TetGen: tetrahedra of 4 nodes, points from the .node file beside it (pbMesh_Load alone); attributes are groups
//
// Solids, that is hexahedra, prisms and pyramids, are cut into six, three and two tetrahedra, which a warning says: each
// quadrangle from the least of its point numbers, so that neighbours, and quadrangles of the file, agree.
//
// Errors say file, line or byte, and reason: pb_file, pb_bad_input, pb_unsupported (cells of other kinds). At most 512 MiB; memory stays
// within a fixed multiple of the file. Point numbers are in range and coordinates finite; for the rest there is pbMesh_Check.
PB_API PB_NODISCARD pbStatus pbMesh_Load(pbContext *ctx, const char *path, pbMesh **mesh);
// The same from memory; the ending of `name` tells the format.
PB_API PB_NODISCARD pbStatus pbMesh_Parse(pbContext *ctx, const void *bytes, size_t size, const char *name, pbMesh **mesh);
// The triangles of a rigid shape by the rules of MuJoCo 4.0, points rounded to single precision: .stl; .obj (points of all
// objects, faces of the first; quadrangles cut along the shorter diagonal, other polygons ear by ear, those of more than 100
// corners left out; what is left out is a warning); .msh, MuJoCo's own: four int32 counts (points, normals, texture coordinates,
// triangles), float32 points, normals, texture coordinates, int32 triangles. And those of URDF: .dae (COLLADA as ROS reads it:
// triangles and polygons of all geometries of the scene, by unit and nodes, whatever its up axis), .glb and .gltf (glTF without
// compression; buffers of .gltf lie below its folder, or in it as base64); of these, points that no face has are left out.
// ending: ".stl", ... where the path does not tell, else "". A coordinate beyond 2^30 is an error.
PB_API PB_NODISCARD pbStatus pbMesh_LoadShape(pbContext *ctx, const char *path, const char *ending, pbMesh **mesh);
// Write by the ending, whole or not at all: .obj (points, edges, triangles, faces' groups), .vtk (legacy, text), .vtu, .msh (Gmsh 2.2,
// text), .stl (binary: triangles in single precision). Numbers come back with the same bits, but for .stl. Cells that the format
// cannot hold are an error (pb_unsupported).
PB_API PB_NODISCARD pbStatus pbMesh_Save(pbContext *ctx, const char *path, const pbMesh *mesh);

// Series of VTU files for ParaView: NAME.pvd lists NAME_000000.vtu, ... with their times; binary (appended), double precision.
typedef struct pbVtuWriter pbVtuWriter;
typedef struct pbVtuArray {  // numbers of points or cells, `components` each, as the mesh orders them (cells: kind by kind)
  const char *name;
  int components;
  const double *values;
} pbVtuArray;
typedef struct pbVtuFrame {
  double time;
  const double *x;  // points x 3; NULL: the mesh's
  int point_arrays, cell_arrays;
  const pbVtuArray *point, *cell;
} pbVtuFrame;
// path ends in .pvd; the mesh is borrowed until Destroy and keeps its cells (NULL: the series has parts alone). Groups go into the
// cell data "group".
PB_API PB_NODISCARD pbStatus pbVtuWriter_Create(pbContext *ctx, const char *path, const pbMesh *mesh, pbVtuWriter **writer);
PB_API PB_NODISCARD pbStatus pbVtuWriter_Write(pbVtuWriter *writer,
                                               const pbVtuFrame *frame);  // the next file; values as they are
// Another data set beside it, NAME_PART_000000.vtu, ..., listed as a part of its own: the next file of the part, with a mesh that may
// be another each time. pb_bad_argument: part is empty, 64 bytes or longer, has a slash, or is the eighth.
PB_API PB_NODISCARD pbStatus pbVtuWriter_WritePart(pbVtuWriter *writer, const char *part, const pbMesh *mesh,
                                                   const pbVtuFrame *frame);
PB_API PB_NODISCARD pbStatus pbVtuWriter_Finish(pbVtuWriter *writer);  // the list, of all files so far
PB_API void pbVtuWriter_Destroy(pbVtuWriter *writer);

// Animated glTF 2.0 in one file (.glb): what deforms as morph targets, what is rigid as a node, with an animation where it moves;
// single precision, the z axis up turned to glTF's y axis. Between frames a viewer interpolates.
typedef struct pbGlbPart {
  const char *name;
  const pbCells *triangles, *edges;  // three and two points each; either may be NULL. Edges that deform need a viewer that
                                     // can (three.js from 2020 cannot)
  int points;
  const double *x;     // deforming: frames x points x 3; rigid: points x 3
  const double *pose;  // rigid: frames x 7, position and unit quaternion (w, x, y, z); NULL: deforming
  double colour[4];    // red, green, blue, opacity, 0 to 1 (linear); all zero: grey
} pbGlbPart;
typedef struct pbGlb {
  int frames;
  const double *time;  // frames, ascending, in seconds
  int parts;
  const pbGlbPart *part;
  int most_frames;  // of what deforms: targets cost memory and time in viewers; frames are left out evenly, with a warning. 0: 100
} pbGlb;
PB_API PB_NODISCARD pbStatus pbGlb_Write(pbContext *ctx, const char *path, const pbGlb *glb);

#ifdef __cplusplus
}
#endif
#endif
