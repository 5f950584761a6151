// Inside of mesh files: bytes read as text or as binary numbers, with positions for messages, and the mesh that grows. Every
// count is paid for by bytes that are there, so memory stays within a fixed multiple of the file.
#ifndef PB_IO_MESH_READER_H
#define PB_IO_MESH_READER_H

#include <locale.h>
#include <string.h>

#include <pullback/mesh.h>

enum {
  PB_MESH_FILE = 512 << 20,  // bytes of one file
  PB_MESH_WORD = 256,        // of one word, with the closing zero
  PB_MESH_POLYGON = 4096,    // corners of one polygon
  PB_MESH_GROUPS = 65536
};

typedef struct pbMeshReader {
  pbContext *ctx;
  const char *name;
  const unsigned char *begin, *at, *end;
  bool binary, swap;  // numbers come as bytes; in the other order than the machine's (little-endian)
  bool by_byte;       // messages name bytes, as binary files have no lines
  int line;           // of the text, from 1
  locale_t locale;
  pbMesh *mesh;
  int point_room, cell_room[pb_cellKindCount];
  int left_out;                                   // cells that are none of ours and do no harm
  int solids, solid_parts;                        // cells that were cut into tetrahedra, and into how many
  int quadrangles, quadrangle_room, *quadrangle;  // of each its first triangle (cut.c)
  bool in_file;                                   // `name` is its path
  bool rigid;  // by the rules of rigid shapes (pbMesh_LoadShape); of those, faces that MuJoCo leaves out:
  int other_faces, large_faces, thin_faces;  // of objects after the first; of more than 100 corners; of fewer than three
} pbMeshReader;

// "name:line: text", or "name: byte N: text". pb_bad_input, or pb_unsupported.
pbStatus pbRead_Fail(const pbMeshReader *r, const char *format, ...) PB_PRINTF(2, 3);
pbStatus pbRead_Unsupported(const pbMeshReader *r, const char *format, ...) PB_PRINTF(2, 3);

// ---- text ---------------------------------------------------------------------------------------------------------------
// The next word, over ends of lines; false, word "", at the end. Longer ones are cut.
bool pbRead_Word(pbMeshReader *r, char word[PB_MESH_WORD]);
bool pbRead_LineWord(pbMeshReader *r, char word[PB_MESH_WORD]);  // the same within the line
void pbRead_SkipLine(pbMeshReader *r);
void pbRead_Line(pbMeshReader *r, char line[PB_MESH_WORD]);  // rest of the line without its end and outer blanks, cut
PB_NODISCARD pbStatus pbRead_Expect(pbMeshReader *r, const char *word);
PB_NODISCARD pbStatus pbRead_WordReal(pbMeshReader *r, const char *word, double *value);  // finite
PB_NODISCARD pbStatus pbRead_WordInteger(pbMeshReader *r, const char *word, int64_t *value);

// ---- numbers, as words or as bytes ------------------------------------------------------------------------------------------
typedef enum pbReadType {
  pb_readInt8,
  pb_readUint8,
  pb_readInt16,
  pb_readUint16,
  pb_readInt32,
  pb_readUint32,
  pb_readInt64,
  pb_readUint64,
  pb_readFloat32,
  pb_readFloat64
} pbReadType;
int pbRead_Width(pbReadType type);
// Value of one number in memory; whole numbers from 2^63 on become negative.
double pbRead_RealAt(const unsigned char *bytes, pbReadType type, bool swap);
int64_t pbRead_IntegerAt(const unsigned char *bytes, pbReadType type, bool swap);
PB_NODISCARD pbStatus pbRead_Real(pbMeshReader *r, pbReadType type, double *value);  // finite
PB_NODISCARD pbStatus pbRead_Integer(pbMeshReader *r, pbReadType type, int64_t *value);
PB_NODISCARD pbStatus pbRead_Pass(pbMeshReader *r, pbReadType type);  // one number, whatever it is
// A whole number that counts things of at least `bytes` bytes (text: half of them) each: not more than are left.
PB_NODISCARD pbStatus pbRead_Count(pbMeshReader *r, pbReadType type, size_t bytes, const char *what, int *count);

// ---- the mesh ---------------------------------------------------------------------------------------------------------------
PB_NODISCARD pbStatus pbRead_AddPoint(pbMeshReader *r, const double x[3]);
PB_NODISCARD pbStatus pbRead_AddCell(pbMeshReader *r, pbCellKind kind, const int *vertex, int group);
// 3 corners and more as a fan around the first. Vertices that are out of range are named.
PB_NODISCARD pbStatus pbRead_AddPolygon(pbMeshReader *r, const int *vertex, int corners, int group);
// The same as MuJoCo cuts the polygons of rigid shapes (polygon.c).
PB_NODISCARD pbStatus pbRead_CutPolygon(pbMeshReader *r, const int *vertex, int corners, int group);
PB_NODISCARD pbStatus pbRead_Range(const pbMeshReader *r, int64_t vertex, int64_t first);  // first <= vertex < first + points
// A cell by VTK's number of its type. Types that are not of a mesh of ours are pb_unsupported.
// Cells with quadrangles for faces, cut into tetrahedra so that neighbours fit (cut.c). Corners as VTK has them.
typedef enum pbSolidKind { pb_solidHexahedron, pb_solidPrism, pb_solidPyramid } pbSolidKind;
PB_NODISCARD pbStatus pbRead_AddSolid(pbMeshReader *r, pbSolidKind kind, const int *vertex, int group);
// Two triangles around the first corner; where cells are cut, pbRead_MatchQuadrangles cuts them as the cells' faces are.
PB_NODISCARD pbStatus pbRead_AddQuadrangle(pbMeshReader *r, const int *vertex, int group);
void pbRead_MatchQuadrangles(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_AddVtkCell(pbMeshReader *r, int type, const int *vertex, int nodes, int group);

PB_NODISCARD pbStatus pbRead_Obj(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Stl(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Ply(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Gmsh(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Vtk(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Dae(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Glb(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Gltf(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Vtu(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Msh(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Medit(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Ele(pbMeshReader *r);
PB_NODISCARD pbStatus pbRead_Node(pbMeshReader *r);

#endif
