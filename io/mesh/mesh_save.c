// Meshes into files, by the ending of the name: OBJ, legacy VTK, Gmsh, STL and (vtu.c) VTU.
// Tests: tests/unit/test_mesh_files.c.
#include <string.h>
#include <strings.h>

#include "io/file.h"
#include "io/mesh/vtu.h"
#include "mesh/mesh.h"

static const int *row_of(const pbMesh *m, int kind, int i) {
  return m->cells[kind].vertex + (size_t)i * (size_t)pb_cellShape[kind].nodes;
}

static void put_points(FILE *out, const pbMesh *m, const char *before) {
  for (int i = 0; i < m->points; i++)
    fprintf(out, "%s%.17g %.17g %.17g\n", before, m->point[3 * i], m->point[3 * i + 1], m->point[3 * i + 2]);
}

static void put_row(FILE *out, const int *v, int nodes, int first) {
  for (int k = 0; k < nodes; k++) fprintf(out, " %d", v[k] + first);
  fputc('\n', out);
}

static const char *group_name(const pbMesh *m, int dimension, int number) {
  for (int i = 0; i < m->groups; i++)
    if (m->group[i].dimension == dimension && m->group[i].number == number) return m->group[i].name;
  return "";
}

// ---- formats ----------------------------------------------------------------------------------------------------------------

static void put_obj(FILE *out, const void *mesh) {
  const pbMesh *m = mesh;
  int group = 0;

  // Numbers of points count from 1.
  put_points(out, m, "v ");
  for (int i = 0; i < m->cells[pb_cellPoint].count; i++) {
    fputc('p', out);
    put_row(out, row_of(m, pb_cellPoint, i), 1, 1);
  }
  for (int i = 0; i < m->cells[pb_cellEdge].count; i++) {
    fputc('l', out);
    put_row(out, row_of(m, pb_cellEdge, i), 2, 1);
  }

  for (int i = 0; i < m->cells[pb_cellTriangle].count; i++) {
    // Groups begin with a "g" line; those without a name are given one, no group is an empty line.
    int now = m->cells[pb_cellTriangle].group[i];
    const char *name = group_name(m, 2, now);
    if (now != group && *name) fprintf(out, "g %s\n", name);
    else if (now != group && now) fprintf(out, "g group%d\n", now);
    else if (now != group) fputs("g\n", out);

    group = now;
    fputc('f', out);
    put_row(out, row_of(m, pb_cellTriangle, i), 3, 1);
  }
}

static void put_vtk(FILE *out, const void *mesh) {
  const pbMesh *m = mesh;
  static const int type[pb_cellKindCount] = {pb_vtkVertex, pb_vtkLine,          pb_vtkTriangle, pb_vtkQuadraticTriangle,
                                             pb_vtkTetra,  pb_vtkQuadraticTetra};

  // An entry of the table is a cell's count of points, or one of its points.
  long long cells = 0, entries = 0;
  for (int k = 0; k < pb_cellKindCount; k++) {
    cells += m->cells[k].count;
    entries += (long long)m->cells[k].count * (pb_cellShape[k].nodes + 1);
  }

  fprintf(out, "# vtk DataFile Version 3.0\nmesh\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS %d double\n", m->points);
  put_points(out, m, "");

  fprintf(out, "CELLS %lld %lld\n", cells, entries);
  for (int k = 0; k < pb_cellKindCount; k++) {
    int nodes = pb_cellShape[k].nodes;
    for (int i = 0; i < m->cells[k].count; i++) {
      fprintf(out, "%d", nodes);
      put_row(out, row_of(m, k, i), nodes, 0);
    }
  }

  fprintf(out, "CELL_TYPES %lld\n", cells);
  for (int k = 0; k < pb_cellKindCount; k++)
    for (int i = 0; i < m->cells[k].count; i++) fprintf(out, "%d\n", type[k]);
}

static void put_msh(FILE *out, const void *mesh) {
  const pbMesh *m = mesh;
  static const int type[pb_cellKindCount] = {15, 1, 2, 9, 4, 11};  // Gmsh's numbers
  long long cells = 0, tag = 0;

  fputs("$MeshFormat\n2.2 0 8\n$EndMeshFormat\n", out);
  if (m->groups) {
    fprintf(out, "$PhysicalNames\n%d\n", m->groups);
    for (int i = 0; i < m->groups; i++)
      fprintf(out, "%d %d \"%s\"\n", m->group[i].dimension, m->group[i].number, m->group[i].name);
    fputs("$EndPhysicalNames\n", out);
  }

  fprintf(out, "$Nodes\n%d\n", m->points);
  for (int i = 0; i < m->points; i++)
    fprintf(out, "%d %.17g %.17g %.17g\n", i + 1, m->point[3 * i], m->point[3 * i + 1], m->point[3 * i + 2]);

  for (int k = 0; k < pb_cellKindCount; k++) cells += m->cells[k].count;
  fprintf(out, "$EndNodes\n$Elements\n%lld\n", cells);

  for (int k = 0; k < pb_cellKindCount; k++) {
    for (int i = 0; i < m->cells[k].count; i++) {
      int v[pb_mostNodes], group = m->cells[k].group[i];
      memcpy(v, row_of(m, k, i), (size_t)pb_cellShape[k].nodes * sizeof *v);

      // Gmsh has the middles of the edges 13 and 23 of a tetrahedron the other way round.
      int last = v[9 % pb_mostNodes];
      if (k == pb_cellTetrahedron10) {
        v[9] = v[8];
        v[8] = last;
      }

      // Two tags: the physical group, and the entity of the geometry, which is the same here.
      fprintf(out, "%lld %d 2 %d %d", ++tag, type[k], group, group);
      put_row(out, v, pb_cellShape[k].nodes, 1);
    }
  }

  fputs("$EndElements\n", out);
}

static void put_stl(FILE *out, const void *mesh) {
  const pbMesh *m = mesh;
  char head[80] = "mesh";
  uint32_t count = (uint32_t)m->cells[pb_cellTriangle].count;

  fwrite(head, 1, sizeof head, out);
  fwrite(&count, sizeof count, 1, out);

  for (uint32_t i = 0; i < count; i++) {
    // A normal of zeros: readers take it from the corners.
    float row[12] = {0};
    const int *v = row_of(m, pb_cellTriangle, (int)i);

    for (int k = 0; k < 9; k++) row[3 + k] = (float)m->point[3 * v[k / 3] + k % 3];
    fwrite(row, sizeof row, 1, out);
    fwrite("\0", 1, 2, out);
  }
}

static const unsigned every_kind = (1u << pb_cellKindCount) - 1;
static const unsigned surface_only = 1u << pb_cellTriangle;

static const struct {
  const char *ending;
  void (*put)(FILE *, const void *);  // NULL: VTU
  bool volume;
  bool lines;
} formats[] = {{".obj", put_obj, false, true},
               {".vtk", put_vtk, true, true},
               {".msh", put_msh, true, true},
               {".stl", put_stl, false, false},
               {".vtu", NULL, true, true}};

static pbStatus check_kinds(pbContext *ctx, const char *path, const pbMesh *m, int f) {
  unsigned kinds = formats[f].volume ? every_kind : surface_only;
  if (formats[f].lines) kinds |= 1u << pb_cellPoint | 1u << pb_cellEdge;

  for (int k = 0; k < pb_cellKindCount; k++)
    if (m->cells[k].count && !(kinds >> k & 1))
      return pbContext_Fail(ctx, pb_unsupported, "%.400s: %s files hold no %s", path, formats[f].ending, pb_cellShape[k].many);
  return pb_ok;
}

pbStatus pbMesh_Save(pbContext *ctx, const char *path, const pbMesh *m) {
  const char *dot = strrchr(path, '.');
  size_t count = dot ? sizeof formats / sizeof *formats : 0;
  for (size_t f = 0; f < count; f++) {
    if (strcasecmp(dot, formats[f].ending) != 0) continue;

    PB_TRY(pbMesh_CheckNumbers(ctx, m));
    PB_TRY(check_kinds(ctx, path, m, (int)f));

    if (!formats[f].put) return pbVtu_WriteOne(ctx, path, m, &(pbVtuFrame){0});
    return pbFile_WriteText(ctx, path, formats[f].put, m);
  }

  return pbContext_Fail(ctx, pb_unsupported, "%.400s: the ending is none of .obj .stl .msh .vtk .vtu", path);
}
