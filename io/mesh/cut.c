// Cells with quadrangles for faces, cut into tetrahedra: hexahedra, prisms, pyramids. The least point of a cell is the tip of
// all its tetrahedra, and every quadrangle is cut from its least point: a rule by point numbers alone, so cells that share a
// face cut it alike (Dompierre, Labbe, Vallet & Camarero, How to subdivide pyramids, prisms and hexahedra into tetrahedra, 1999).
// Tests: tests/unit/test_mesh_files.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

enum { MOST_TETRAHEDRA = 6 };

typedef struct Solid {
  int corners, faces;
  int face[6][4];  // seen from outside; -1: a triangle
} Solid;

// VTK's order of corners, Gmsh's and Medit's; prisms as most programs number them, not as VTK does.
static const Solid solids[] = {
    [pb_solidHexahedron] = {8, 6, {{0, 3, 2, 1}, {4, 5, 6, 7}, {0, 1, 5, 4}, {1, 2, 6, 5}, {2, 3, 7, 6}, {3, 0, 4, 7}}},
    [pb_solidPrism] = {6, 5, {{0, 2, 1, -1}, {3, 4, 5, -1}, {0, 1, 4, 3}, {1, 2, 5, 4}, {2, 0, 3, 5}}},
    [pb_solidPyramid] = {5, 5, {{0, 3, 2, 1}, {0, 1, 4, -1}, {1, 2, 4, -1}, {2, 3, 4, -1}, {3, 0, 4, -1}}},
};

// Place of the least number.
static int least_of(const int *vertex, int count) {
  int least = 0;
  for (int i = 1; i < count; i++)
    if (vertex[i] < vertex[least]) least = i;
  return least;
}

// The triangles of a face, cut from its least point; returns how many.
static int cut_face(const Solid *s, const int *vertex, int face, int triangle[2][3]) {
  int corners = s->face[face][3] < 0 ? 3 : 4, row[4];

  for (int k = 0; k < corners; k++) row[k] = vertex[s->face[face][k]];

  int first = least_of(row, corners);
  for (int t = 0; t < corners - 2; t++) {
    triangle[t][0] = row[first];
    for (int k = 1; k < 3; k++) triangle[t][k] = row[(first + t + k) % corners];
  }
  return corners - 2;
}

static bool has_point(const int triangle[3], int point) {
  return triangle[0] == point || triangle[1] == point || triangle[2] == point;
}

// Tetrahedra over the faces that do not hold the tip; returns how many.
static int cut_solid(const Solid *s, const int *vertex, int tetrahedron[MOST_TETRAHEDRA][4]) {
  int tip = vertex[least_of(vertex, s->corners)], count = 0;

  for (int f = 0; f < s->faces; f++) {
    int triangle[2][3], triangles = cut_face(s, vertex, f, triangle);

    for (int t = 0; t < triangles; t++) {
      if (has_point(triangle[t], tip)) continue;
      PB_ASSERT(count < MOST_TETRAHEDRA);
      tetrahedron[count][0] = tip;
      memcpy(tetrahedron[count++] + 1, triangle[t], sizeof triangle[t]);
    }
  }
  return count;
}

// Sum of the tetrahedra's determinants: its sign says which way the corners are numbered.
static double six_volumes(const pbMesh *m, int count, int tetrahedron[MOST_TETRAHEDRA][4]) {
  double sum = 0;

  for (int i = 0; i < count; i++) {
    const int *v = tetrahedron[i];
    sum += pbMesh_Det(m->point + 3 * v[0], m->point + 3 * v[1], m->point + 3 * v[2], m->point + 3 * v[3]);
  }
  return sum;
}

pbStatus pbRead_AddSolid(pbMeshReader *r, pbSolidKind kind, const int *vertex, int group) {
  const Solid *s = &solids[kind];
  int tetrahedron[MOST_TETRAHEDRA][4];

  // A corner twice would be one cell or another, by how it is cut.
  for (int i = 0; i < s->corners; i++)
    for (int k = 0; k < i; k++)
      if (vertex[i] == vertex[k])
        return pbRead_Fail(r, "cell %d of those with quadrangles for faces has a point twice", r->solids);

  int count = cut_solid(s, vertex, tetrahedron);

  // Programs do not agree about prisms: VTK's own are numbered the other way round from what most write.
  bool mirrored = kind == pb_solidPrism && six_volumes(r->mesh, count, tetrahedron) < 0;
  for (int i = 0; i < count; i++) {
    int *v = tetrahedron[i];
    int row[4] = {v[0], v[1], v[mirrored ? 3 : 2], v[mirrored ? 2 : 3]};

    PB_TRY(pbRead_AddCell(r, pb_cellTetrahedron, row, group));
  }

  // A warning says at the end how many there were.
  r->solids++;
  r->solid_parts += count;
  return pb_ok;
}

// ---- quadrangles beside them --------------------------------------------------------------------------------------------

pbStatus pbRead_AddQuadrangle(pbMeshReader *r, const int *vertex, int group) {
  if (r->quadrangles == r->quadrangle_room) {
    int room = r->quadrangle_room ? 2 * r->quadrangle_room : 64;
    int *grown = pbContext_Resize(r->ctx, r->quadrangle, (size_t)room * sizeof *grown);
    if (!grown) return pbMesh_NoMemory(r->ctx, r->name);

    r->quadrangle = grown;
    r->quadrangle_room = room;
  }

  r->quadrangle[r->quadrangles++] = r->mesh->cells[pb_cellTriangle].count;
  return pbRead_AddPolygon(r, vertex, 4, group);
}

void pbRead_MatchQuadrangles(pbMeshReader *r) {
  int count = r->solids ? r->quadrangles : 0;

  for (int i = 0; i < count; i++) {
    // A fan around its first corner: 0 1 2, 0 2 3.
    int *v = r->mesh->cells[pb_cellTriangle].vertex + 3 * (size_t)r->quadrangle[i];
    const int row[4] = {v[0], v[1], v[2], v[5]};

    int first = least_of(row, 4);
    for (int t = 0; t < 2; t++) {
      v[3 * t] = row[first];
      for (int k = 1; k < 3; k++) v[3 * t + k] = row[(first + t + k) % 4];
    }
  }
}
