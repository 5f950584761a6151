// Mesh files: what is written comes back bit by bit, what other programs may write is understood, what is damaged is refused with its
// place. (tests/oracle/test_mesh_files.py compares with files of another library.)
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/mesh.h>

#include "support/meter.h"

typedef struct Fixture {
  pbContext *ctx;
  char folder[64], path[128];
} Fixture;

static int set_up(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  f->ctx = pbContext_Create(NULL);
  strcpy(f->folder, "/tmp/pullback-mesh-XXXXXX");
  *state = f;
  return mkdtemp(f->folder) ? 0 : 1;
}

static int tear_down(void **state) {
  Fixture *f = *state;
  int left = rmdir(f->folder);  // fails where a file was left behind
  pbContext_Destroy(f->ctx);
  free(f);
  return left;
}

static const char *path_of(Fixture *f, const char *name) {
  snprintf(f->path, sizeof f->path, "%s/%s", f->folder, name);
  return f->path;
}

#define OK(ctx, expression)                                                           \
  do {                                                                                \
    if ((expression) != pb_ok) fail_msg("%s: %s", #expression, pbContext_Error(ctx)); \
  } while (0)

// ---- round trips ------------------------------------------------------------------------------------------------------------

// Twelve points with awkward numbers, and two cells of each kind asked for, with groups.
static pbMesh *example(pbContext *ctx, unsigned kinds) {
  int64_t counts[pb_cellKindCount];
  for (int k = 0; k < pb_cellKindCount; k++) counts[k] = kinds >> k & 1 ? 2 : 0;
  pbMesh *m;
  OK(ctx, pbMesh_Create(ctx, "example", 12, counts, &m));
  for (int i = 0; i < 36; i++) m->point[i] = sin(i * i) * pow(10, i % 7 - 3);
  for (int k = 0; k < pb_cellKindCount; k++) {
    for (int i = 0; i < 2 * pbCellKind_Nodes(k) && counts[k]; i++) m->cells[k].vertex[i] = (i * 7 + k) % 12;
    for (int i = 0; i < 2 && counts[k]; i++) m->cells[k].group[i] = i * (k + 1);
  }
  OK(ctx, pbMesh_NameGroup(m, 2, 3, "held fast"));
  return m;
}

static void same(const pbMesh *a, const pbMesh *b, bool groups) {
  assert_int_equal(a->points, b->points);
  assert_memory_equal(a->point, b->point, (size_t)a->points * 3 * sizeof(double));
  for (int k = 0; k < pb_cellKindCount; k++) {
    assert_int_equal(a->cells[k].count, b->cells[k].count);
    if (!a->cells[k].count) continue;
    assert_memory_equal(a->cells[k].vertex, b->cells[k].vertex, (size_t)(a->cells[k].count * pbCellKind_Nodes(k)) * sizeof(int));
    if (groups) assert_memory_equal(a->cells[k].group, b->cells[k].group, (size_t)a->cells[k].count * sizeof(int));
  }
}

static const struct {
  const char *name;
  unsigned kinds;
  bool groups, names;
} trips[] = {{"a.obj", 7, false, false}, {"a.vtk", 63, false, false}, {"a.msh", 63, true, true}, {"a.vtu", 63, true, false}};

static void round_trips(Fixture *f) {
  for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
    pbMesh *m = example(f->ctx, trips[i].kinds), *back;
    OK(f->ctx, pbMesh_Save(f->ctx, path_of(f, trips[i].name), m));
    OK(f->ctx, pbMesh_Load(f->ctx, f->path, &back));
    same(m, back, trips[i].groups);
    if (trips[i].names) assert_int_equal(pbMesh_FindGroup(back, "held fast")->number, 3);
    assert_int_equal(unlink(f->path), 0);
    pbMesh_Destroy(m);
    pbMesh_Destroy(back);
  }
}

static void test_round_trips(void **state) {
  round_trips(*state);
  // in a language that writes numbers with a comma, too
  if (setlocale(LC_ALL, "de_DE.UTF-8")) round_trips(*state);
  setlocale(LC_ALL, "C");
}

static void test_stl_round_trip(void **state) {
  Fixture *f = *state;
  pbMesh *m, *back;
  OK(f->ctx, pbMesh_Sphere(f->ctx, 1, 3, &m));
  OK(f->ctx, pbMesh_Save(f->ctx, path_of(f, "a.stl"), m));
  OK(f->ctx, pbMesh_Load(f->ctx, f->path, &back));
  unlink(f->path);
  assert_int_equal(back->points, m->points);
  OK(f->ctx, pbMesh_Check(f->ctx, back, pb_meshClosed | pb_meshOriented | pb_meshManifold, NULL));
  for (int i = 0; i < 3 * m->cells[pb_cellTriangle].count; i++) {
    const double *a = m->point + 3 * m->cells[pb_cellTriangle].vertex[i],
                 *b = back->point + 3 * back->cells[pb_cellTriangle].vertex[i];
    for (int k = 0; k < 3; k++) assert_true((float)a[k] == b[k]);
  }
  pbMesh_Destroy(m);
  pbMesh_Destroy(back);
  pbMesh *tets = example(f->ctx, 1 << pb_cellTetrahedron);
  assert_int_equal(pbMesh_Save(f->ctx, path_of(f, "a.obj"), tets), pb_unsupported);
  assert_non_null(strstr(pbContext_Error(f->ctx), ".obj files hold no tetrahedra"));
  assert_int_equal(pbMesh_Save(f->ctx, path_of(f, "a.xyz"), tets), pb_unsupported);
  assert_int_equal(pbMesh_Save(f->ctx, "/nowhere/a.vtu", tets), pb_file);
  pbMesh_Destroy(tets);
}

// ---- files of others --------------------------------------------------------------------------------------------------------

typedef struct Sample {
  const char *name, *text;
  int points, cells[pb_cellKindCount];
} Sample;

static const Sample samples[] = {
    {"a.obj",
     "# a quad, a triangle by negative numbers, a line over two lines\nmtllib x.mtl\no thing\nv 0 0 0 1\nv 1 0 0\r\nv 1 1 0\nv 0 "
     "1 0\n"
     "vn 0 0 1\nvt 0 0\ng left side\nusemtl red\ns off\nf 1/1/1 2/1/1 3//1 4/1 # ends here\ng\nf -4 -2 -1\nl 1 2 \\\n 3\np 4\n",
     4,
     {1, 2, 3}},
    {"a.stl",
     "solid two words\n facet normal 0 0 nan\n  outer loop\n   vertex 0 0 0\n   vertex 1 0 0\n   vertex 0 1e0 0\n  endloop\n "
     "endfacet\n"
     " facet normal 0 0 1\n outer loop vertex 0 1 0 vertex 1 0 0 vertex 1 1 0 endloop endfacet\nendsolid two words\n",
     4,
     {0, 0, 2}},
    {"a.ply",
     "ply\nformat ascii 1.0\ncomment made by hand\nelement vertex 4\nproperty double x\nproperty uchar red\nproperty double y\n"
     "property float z\nproperty float quality\nelement face 2\nproperty list uchar float texcoord\nproperty list uchar int "
     "vertex_indices\n"
     "element edge 1\nproperty int vertex1\nproperty int vertex2\nelement other 1\nproperty int i\nend_header\n"
     "0 9 0 0 nan\n1 9 0 0 1\n1 9 1 0 2\n0 9 1 0 3\n2 0.5 0.5 4 0 1 2 3\n0 3 0 1 2\n0 2\n7\n",
     4,
     {0, 1, 3}},
    {"a.msh",  // version 4.1: entities with groups, tags with gaps, parametric nodes, a section nobody knows
     "$MeshFormat\n4.1 0 8\n$EndMeshFormat\n$PhysicalNames\n2\n2 7 \"held\"\n3 9 \"body of it\"\n$EndPhysicalNames\n$Entities\n1 "
     "0 1 1\n"
     "1 0 0 0 0\n5 0 0 0 1 1 1 1 -7 0\n6 0 0 0 1 1 1 2 9 3 1 5\n$EndEntities\n$Strange\nanything\n$EndStrange\n"
     "$Nodes\n2 4 10 40\n2 5 1 2\n10\n40\n0 0 0 0.5 0.5\n1 0 0 0.5 0.5\n3 6 0 2\n20\n30\n0 1 0\n0 0 1\n$EndNodes\n"
     "$Elements\n3 3 1 3\n2 5 2 1\n1 10 20 40\n3 6 4 1\n2 10 40 20 30\n0 1 15 1\n3 30\n$EndElements\n",
     4,
     {1, 0, 1, 0, 1}},
    {"b.msh",
     "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n7 0 0 0\n3 1 0 0\n5 0 1 0\n9 1 1 0\n$EndNodes\n$Elements\n2\n1 3 2 4 1 7 "
     "3 9 5\n"
     "2 8 0 7 3 5\n$EndElements\n",
     4,
     {0, 0, 2}},
    {"a.vtk",
     "# vtk DataFile Version 3.0\na title\nASCII\nDATASET POLYDATA\nPOINTS 5 float\n0 0 0 1 0 0 1 1 0\n0 1 0 2 2 2\nVERTICES 1 "
     "3\n2 3 4\n"
     "LINES 1 4\n3 0 1 2\nPOLYGONS 1 5\n4 0 1 2 3\nTRIANGLE_STRIPS 1 5\n4 0 1 3 2\nPOINT_DATA 5\nSCALARS a float\n",
     5,
     {2, 2, 4}},
    {"a.vtu",
     "<?xml version=\"1.0\"?><VTKFile type=\"UnstructuredGrid\" version=\"0.1\" byte_order=\"LittleEndian\"><UnstructuredGrid>"
     "<Piece NumberOfPoints=\"3\" NumberOfCells=\"1\"><PointData><DataArray type=\"Float32\" Name=\"T\" format=\"ascii\">1 2 "
     "3</DataArray>"
     "</PointData><CellData><DataArray type=\"Int32\" Name=\"group\" format=\"ascii\">4</DataArray></CellData><Points>"
     "<DataArray type=\"Float32\" NumberOfComponents=\"3\" "
     "format=\"binary\">JAAAAAAAAAAAAAAAAAAAAAAAgD8AAAAAAAAAAAAAAAAAAIA/AAAAAA==</DataArray>"
     "</Points><Cells><DataArray type=\"Int64\" Name=\"connectivity\" format=\"ascii\">0 1 2</DataArray>\n"
     "<DataArray type=\"Int64\" Name=\"offsets\" format=\"ascii\">3</DataArray>\n<DataArray type=\"UInt8\" Name=\"types\" "
     "format=\"ascii\">5"
     "</DataArray></Cells></Piece></UnstructuredGrid></VTKFile>",
     3,
     {0, 0, 1}},
    {"a.mesh",
     "MeshVersionFormatted 1\nDimension\n3\n# by hand\nVertices\n5\n0 0 0 0\n1 0 0 0\n0 1 0 9\n0 0 1 0\n1 1 1 0\nNormals 1\n"
     "0 0 1\nRidges\n1\n1\nEdges 1\n1 2 0\nTriangles 2\n1 3 2 7\n1 2 4 -7\nTetrahedra\n2\n1 2 3 4 3\n2 3 4 5 3\nEnd\nmore",
     5,
     {0, 1, 2, 0, 2}},
    {"b.mesh",  // two hexahedra side by side, a prism and a pyramid on them, and quadrangles of their faces
     "MeshVersionFormatted 2 Dimension 3 Vertices 15\n0 0 0 0 1 0 0 0 2 0 0 0 0 1 0 0 1 1 0 0 2 1 0 0\n"
     "0 0 1 0 1 0 1 0 2 0 1 0 0 1 1 0 1 1 1 0 2 1 1 0\n.5 .5 1.5 0 1 .5 2 0 2 .5 2 0\n"
     "Hexahedra 2 1 2 5 4 7 8 11 10 1 2 3 6 5 8 9 12 11 1\nPyramids 1 7 8 11 10 13 1\nPrisms 1 8 11 14 9 12 15 1\n"
     "Quadrilaterals 2 2 5 11 8 4 5 2 3 6 4\nEnd",
     15,
     {0, 0, 4, 0, 17}},
};
enum { sample_count = sizeof samples / sizeof *samples };

static pbMesh *parse(pbContext *ctx, const char *name, const char *text) {
  pbMesh *m;
  OK(ctx, pbMesh_Parse(ctx, text, strlen(text), name, &m));
  return m;
}

static void test_samples(void **state) {
  Fixture *f = *state;
  for (int i = 0; i < sample_count; i++) {
    pbMesh *m = parse(f->ctx, samples[i].name, samples[i].text);
    if (m->points != samples[i].points) fail_msg("%s (%d): %d points", samples[i].name, i, m->points);
    for (int k = 0; k < pb_cellKindCount; k++)
      if (m->cells[k].count != samples[i].cells[k])
        fail_msg("%s (%d): %d %s", samples[i].name, i, m->cells[k].count, pbCellKind_Name(k));
    pbMesh_Destroy(m);
  }
  assert_non_null(strstr(pbContext_Warnings(f->ctx), "b.msh: 1 curved lines are left out"));
}

static void test_details_of_samples(void **state) {
  Fixture *f = *state;
  pbMesh *obj = parse(f->ctx, "a.obj", samples[0].text), *msh = parse(f->ctx, "a.msh", samples[3].text),
         *vtk = parse(f->ctx, "a.vtk", samples[5].text), *vtu = parse(f->ctx, "a.vtu", samples[6].text);
  assert_memory_equal(obj->cells[pb_cellTriangle].vertex, ((int[]){0, 1, 2, 0, 2, 3, 0, 2, 3}), 9 * sizeof(int));
  assert_int_equal(pbMesh_FindGroup(obj, "left side")->number, obj->cells[pb_cellTriangle].group[1]);
  assert_int_equal(obj->cells[pb_cellTriangle].group[2], 0);
  assert_memory_equal(msh->cells[pb_cellTriangle].vertex, ((int[]){0, 2, 1}), 3 * sizeof(int));  // nodes in the file's order
  assert_memory_equal(msh->cells[pb_cellTetrahedron].vertex, ((int[]){0, 1, 2, 3}), 4 * sizeof(int));
  assert_int_equal(msh->cells[pb_cellTriangle].group[0], 7);
  assert_int_equal(msh->cells[pb_cellTetrahedron].group[0], 9);
  assert_string_equal(pbMesh_FindGroup(msh, "body of it")->name, "body of it");
  OK(f->ctx, pbMesh_Check(f->ctx, msh, 0, NULL));
  assert_memory_equal(vtk->cells[pb_cellTriangle].vertex + 6, ((int[]){0, 1, 3, 1, 2, 3}), 6 * sizeof(int));  // the strip
  assert_memory_equal(vtu->point, ((double[]){0, 0, 0, 1, 0, 0, 0, 1, 0}), 9 * sizeof(double));
  assert_int_equal(vtu->cells[pb_cellTriangle].group[0], 4);
  pbMesh *all[] = {obj, msh, vtk, vtu};
  for (int i = 0; i < 4; i++) pbMesh_Destroy(all[i]);
}

static void test_details_of_medit(void **state) {
  Fixture *f = *state;
  pbMesh *m = parse(f->ctx, "a.mesh", samples[7].text);
  assert_memory_equal(m->cells[pb_cellTetrahedron].vertex, ((int[]){0, 1, 2, 3, 1, 2, 3, 4}), 8 * sizeof(int));
  assert_memory_equal(m->cells[pb_cellTriangle].group, ((int[]){7, 0}), 2 * sizeof(int));
  assert_int_equal(pbMesh_FindGroup(m, "triangles:7")->dimension, 2);
  assert_int_equal(pbMesh_FindGroup(m, "tetrahedra:3")->number, 3);
  pbMesh_Destroy(m);
  m = parse(f->ctx, "flat.mesh", "MeshVersionFormatted 1 Dimension 2 Vertices 3 0 0 0 1 0 0 0 1 0 Triangles 1 1 2 3 0 End");
  assert_true(m->point[5] == 0 && m->point[6] == 0 && m->point[7] == 1);
  pbMesh_Destroy(m);
}

// Cells with quadrangles for faces: every face is cut alike by both of its neighbours, and by quadrangles of a file.
static void test_solids_are_cut_so_that_they_fit(void **state) {
  Fixture *f = *state;
  pbMesh *m = parse(f->ctx, "b.mesh", samples[8].text);
  pbMeshReport r;
  assert_non_null(strstr(pbContext_Warnings(f->ctx), "b.mesh: 4 hexahedra, prisms or pyramids are cut into 17 tetrahedra"));
  OK(f->ctx, pbMesh_Check(f->ctx, m, pb_meshConnected, &r));
  assert_true(fabs(r.volume - (2 + 0.5 / 3 + 0.5)) < 1e-14);

  // The prism's tip touches the pyramid's at no face: the boundary has the area of the shapes, once.
  pbCells outside, skin;
  OK(f->ctx, pbMesh_Boundary(f->ctx, m, &outside));
  OK(f->ctx, pbMesh_Skin(f->ctx, m, &skin));
  assert_int_equal(skin.count, outside.count);  // quadrangles are faces of tetrahedra
  char name[] = "skin";
  pbMesh surface = {.ctx = f->ctx, .name = name, .points = m->points, .point = m->point};
  surface.cells[pb_cellTriangle] = outside;
  OK(f->ctx, pbMesh_Check(f->ctx, &surface, pb_meshClosed | pb_meshOriented, NULL));
  pbCells_Clear(f->ctx, &outside);
  pbCells_Clear(f->ctx, &skin);
  pbMesh_Destroy(m);
}

static pbMesh *grid_of_hexahedra(pbContext *ctx, const int *number) {
  static const int corner[8][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
  char *text = malloc(1 << 16), *at = text;
  at += sprintf(at, "MeshVersionFormatted 2 Dimension 3 Vertices 64");
  int place[64];
  for (int i = 0; i < 64; i++) place[number[i]] = i;
  for (int i = 0; i < 64; i++) at += sprintf(at, "\n%d %d %d 0", place[i] % 4, place[i] / 4 % 4, place[i] / 16);
  at += sprintf(at, "\nHexahedra 27");
  for (int c = 0; c < 27; c++) {
    at += sprintf(at, "\n");
    for (int k = 0; k < 8; k++) {
      int x = c % 3 + corner[k][0], y = c / 3 % 3 + corner[k][1], z = c / 9 + corner[k][2];
      at += sprintf(at, "%d ", number[x + 4 * y + 16 * z] + 1);
    }
    at += sprintf(at, "0");
  }
  pbMesh *m = parse(ctx, "grid.mesh", text);
  free(text);
  return m;
}

// However points are numbered: 27 cubes have the volume and the closed surface of one.
static void test_any_numbering_of_hexahedra(void **state) {
  Fixture *f = *state;
  uint64_t random = 1;
  for (int trial = 0; trial < 50; trial++) {
    int number[64];
    for (int i = 0; i < 64; i++) number[i] = i;
    for (int i = trial ? 63 : 0; i > 0; i--) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      int k = (int)((random >> 33) % (uint64_t)(i + 1)), t = number[i];
      number[i] = number[k];
      number[k] = t;
    }
    pbMesh *m = grid_of_hexahedra(f->ctx, number);
    pbMeshReport r;
    OK(f->ctx, pbMesh_Check(f->ctx, m, pb_meshConnected, &r));
    assert_true(m->cells[pb_cellTetrahedron].count == 27 * 6 && fabs(r.volume - 27) < 1e-12 && !r.overlapping);
    pbCells outside;
    OK(f->ctx, pbMesh_Boundary(f->ctx, m, &outside));
    assert_int_equal(outside.count, 6 * 9 * 2);  // a face that neighbours cut differently would have four more
    pbCells_Clear(f->ctx, &outside);
    pbMesh_Destroy(m);
  }
}

// VTK and Gmsh: the same cells by their numbers; VTK's own prisms run the other way round, and voxels go row by row.
static void test_solids_of_vtk_and_gmsh(void **state) {
  Fixture *f = *state;
  static const struct {
    const char *name, *text;
    double volume;
  } files[] = {
      {"h.vtk",
       "# vtk DataFile Version 3.0\n\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 8 float\n0 0 0 1 0 0 1 1 0 0 1 0 0 0 1 1 0 1 1 1 "
       "1 "
       "0 1 1\nCELLS 1 9\n8 0 1 2 3 4 5 6 7\nCELL_TYPES 1\n12\n",
       1},
      {"v.vtk",
       "# vtk DataFile Version 3.0\n\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 8 float\n0 0 0 1 0 0 0 1 0 1 1 0 0 0 1 1 0 1 0 1 "
       "1 "
       "1 1 1\nCELLS 1 9\n8 0 1 2 3 4 5 6 7\nCELL_TYPES 1\n11\n",
       1},
      {"w.vtk",
       "# vtk DataFile Version 3.0\n\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 7 float\n0 0 0 0 1 0 1 0 0 0 0 1 0 1 1 1 0 1 .3 "
       ".3 "
       "2\nCELLS 2 12\n6 0 1 2 3 4 5\n4 3 5 4 6\nCELL_TYPES 2\n13 10\n",
       0.5 + 0.5 / 3},
      {"p.msh",
       "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n5\n1 0 0 0\n2 1 0 0\n3 1 1 0\n4 0 1 0\n5 .5 .5 1\n$EndNodes\n"
       "$Elements\n1\n1 7 0 1 2 3 4 5\n$EndElements\n",
       1. / 3},
      {"w.msh",
       "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n6\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n5 1 0 1\n6 0 1 1\n$EndNodes\n"
       "$Elements\n1\n1 6 0 1 2 3 4 5 6\n$EndElements\n",
       0.5},
      {"h.msh",
       "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n8\n1 0 0 0\n2 1 0 0\n3 1 1 0\n4 0 1 0\n5 0 0 1\n6 1 0 1\n7 1 1 1\n8 0 1 1\n"
       "$EndNodes\n$Elements\n1\n1 5 0 1 2 3 4 5 6 7 8\n$EndElements\n",
       1},
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    pbMesh *m = parse(f->ctx, files[i].name, files[i].text);
    pbMeshReport r;
    OK(f->ctx, pbMesh_Check(f->ctx, m, pb_meshConnected, &r));
    if (!(fabs(r.volume - files[i].volume) < 1e-7)) fail_msg("%s: volume %g", files[i].name, r.volume);
    pbMesh_Destroy(m);
  }
}

static void write_text(Fixture *f, const char *name, const char *text) {
  FILE *stream = fopen(path_of(f, name), "w");
  fputs(text, stream);
  fclose(stream);
}

// Two files, from 0 or from 1 on.
static void test_tetgen(void **state) {
  Fixture *f = *state;
  static const char *const files[][2] = {
      {"# made by hand\n4 3 1 1\n1 0 0 0 7.5 1\n2 1 0 0 7.5 1 # more\n3 0 1 0 7.5 1\n4 0 0 1 7.5 1\n",
       "1 4 1\n 1 1 2 3 4 5\n# end\n"},
      {"4 3 0 0\n0 0 0 0\n1 1 0 0\n2 0 1 0\n3 0 0 1\n", "1 4 0\n0 0 1 2 3\n"}};
  for (int i = 0; i < 2; i++) {
    pbMesh *m;
    write_text(f, "a.node", files[i][0]);
    write_text(f, "a.ele", files[i][1]);
    OK(f->ctx, pbMesh_Load(f->ctx, path_of(f, "a.ele"), &m));
    assert_memory_equal(m->cells[pb_cellTetrahedron].vertex, ((int[]){0, 1, 2, 3}), 4 * sizeof(int));
    assert_memory_equal(m->point, ((double[]){0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1}), 12 * sizeof(double));
    assert_int_equal(m->cells[pb_cellTetrahedron].group[0], i ? 0 : 5);
    pbMesh_Destroy(m);
  }
  unlink(path_of(f, "a.ele"));
  unlink(path_of(f, "a.node"));
}

static void test_damaged_tetgen(void **state) {
  Fixture *f = *state;
  static const struct {
    const char *node, *ele, *error;
    pbStatus status;
  } bad[] = {
      {NULL, "1 4 0\n1 1 2 3 4\n", "a.node", pb_file},
      {"", "", "a.node:1: expected a whole number, found the end of the file", pb_bad_input},
      {"9999999 3 0 0\n", "", "a.node:1: 9999999 points; the file has room", pb_bad_input},
      {"1 2 0 0\n1 0 0\n", "", "a.node:1: points of dimension 2", pb_unsupported},
      {"1 3 0 0\n5 0 0 0\n", "", "a.node:2: the first number is 5: expected 0 or 1", pb_bad_input},
      {"2 3 0 0\n1 0 0 0\n1 0 0 0\n", "", "a.node:3: expected number 2, found 1", pb_bad_input},
      {"1 3 0 0\n1 0 0 x\n", "", "a.node:2: expected a number, found 'x'", pb_bad_input},
      {"1 3 0 0\n1 0 0 0\n", "1 10 0\n", "a.ele:1: tetrahedra of 10 nodes", pb_unsupported},
      {"1 3 0 0\n1 0 0 0\n", "1 4 0\n1 1 1 1 2\n", "a.ele:2: point 2 is named; there are 1, counted from 1", pb_bad_input},
      {"1 3 0 0\n1 0 0 0\n", "-1 4 0\n", "a.ele:1: -1 tetrahedra", pb_bad_input},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    pbMesh *m = NULL;
    if (bad[i].node) write_text(f, "a.node", bad[i].node);
    write_text(f, "a.ele", bad[i].ele);
    pbStatus status = pbMesh_Load(f->ctx, path_of(f, "a.ele"), &m);
    if (status != bad[i].status || m || !strstr(pbContext_Error(f->ctx), bad[i].error))
      fail_msg("%zu: %s: '%s'", i, pbStatus_Text(status), pbContext_Error(f->ctx));
  }
  pbMesh *m;
  assert_int_equal(pbMesh_Load(f->ctx, path_of(f, "a.node"), &m), pb_unsupported);
  assert_non_null(strstr(pbContext_Error(f->ctx), "name the .ele file"));
  assert_int_equal(pbMesh_Parse(f->ctx, "1", 1, "a.ele", &m), pb_unsupported);
  unlink(path_of(f, "a.ele"));
  unlink(path_of(f, "a.node"));
}

static void put(unsigned char **to, const void *value, int width, bool swap) {
  for (int i = 0; i < width; i++) *(*to)++ = ((const unsigned char *)value)[swap ? width - 1 - i : i];
}

// Bytes of either order: PLY, and Gmsh 4.1, whose first number tells the order.
static void test_orders_of_bytes(void **state) {
  Fixture *f = *state;
  static const double x[9] = {0.1, 0, 0, 1, 0.2, 0, 0, 1, 0.3};
  for (int swap = 0; swap < 2; swap++) {
    unsigned char bytes[2048], *at = bytes;
    pbMesh *m;
    at += sprintf((char *)at,
                  "ply\nformat binary_%s_endian 1.0\nelement vertex 3\nproperty double x\nproperty double y\nproperty double z\n"
                  "element face 1\nproperty list uchar short vertex_index\nend_header\n",
                  swap ? "big" : "little");
    for (int i = 0; i < 9; i++) put(&at, &x[i], 8, swap);
    *at++ = 3;
    for (int i = 0; i < 3; i++) put(&at, &(short){(short)(2 - i)}, 2, swap);
    OK(f->ctx, pbMesh_Parse(f->ctx, bytes, (size_t)(at - bytes), "a.ply", &m));
    assert_memory_equal(m->point, x, sizeof x);
    assert_memory_equal(m->cells[pb_cellTriangle].vertex, ((int[]){2, 1, 0}), 3 * sizeof(int));
    pbMesh_Destroy(m);
    at = bytes;
    at += sprintf((char *)at, "$MeshFormat\n4.1 1 8\n");
    put(&at, &(int){1}, 4, swap);
    at += sprintf((char *)at, "\n$EndMeshFormat\n$Nodes\n");
    for (int i = 0; i < 4; i++) put(&at, &(int64_t[]){1, 3, 1, 3}[i], 8, swap);
    for (int i = 0; i < 3; i++) put(&at, &(int[]){2, 1, 0}[i], 4, swap);
    for (int i = 0; i < 4; i++) put(&at, &(int64_t[]){3, 1, 2, 3}[i], 8, swap);
    for (int i = 0; i < 9; i++) put(&at, &x[i], 8, swap);
    at += sprintf((char *)at, "\n$EndNodes\n$Elements\n");
    for (int i = 0; i < 4; i++) put(&at, &(int64_t[]){1, 1, 1, 1}[i], 8, swap);
    for (int i = 0; i < 3; i++) put(&at, &(int[]){2, 1, 2}[i], 4, swap);
    for (int i = 0; i < 5; i++) put(&at, &(int64_t[]){1, 1, 3, 2, 1}[i], 8, swap);
    at += sprintf((char *)at, "\n$EndElements\n");
    OK(f->ctx, pbMesh_Parse(f->ctx, bytes, (size_t)(at - bytes) - 1, "a.msh", &m));
    assert_memory_equal(m->point, x, sizeof x);
    assert_memory_equal(m->cells[pb_cellTriangle].vertex, ((int[]){2, 1, 0}), 3 * sizeof(int));
    pbMesh_Destroy(m);
  }
}

// ---- damage -----------------------------------------------------------------------------------------------------------------

static const struct {
  const char *name, *text, *error;
} damaged[] = {
    {"a.txt", "", "a.txt: the ending is none of"},
    {"a.obj", "", "a.obj: holds no points"},
    {"a.obj", "v 0 0\n", "a.obj:1: a point with 2 coordinates"},
    {"a.obj", "v 0 0 0\nv 1 x 0\n", "a.obj:2: expected a number, found 'x'"},
    {"a.obj", "v 0 0 inf\n", "a.obj:1: expected a finite number, found 'inf'"},
    {"a.obj", "v 0 0 0\nf 1 1 2\n", "a.obj:2: point 2 is named; there are 1, counted from 1"},
    {"a.obj", "v 0 0 0\nf 1 1\n", "a.obj:2: a polygon with 2 corners"},
    {"a.obj", "v 0 0 0\nf 1 1 99999999999999999999\n", "a.obj:2: expected a whole number"},
    {"a.obj", "curv 0 1\n", "a.obj:1: unknown statement 'curv'"},
    {"a.stl", "solid x\nfacet normal 0 0 1 outer loop vertex 0 0 0 vertex 0 0",
     "a.stl:2: expected a number, found the end of the file"},
    {"a.stl", "solid x\n", "a.stl:2: the file ends before 'endsolid'"},
    {"a.stl", "short", "a.stl: byte 0: neither text"},
    {"a.ply", "plyx\n", "a.ply:1: expected 'ply'"},
    {"a.ply", "ply\nformat ascii 1.0\nelement vertex 99999999\nend_header\n", "a.ply:3: 99999999 elements; the file has no room"},
    {"a.ply", "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n0\n", "an element lacks x, y, z"},
    {"a.ply", "ply\nelement vertex 1\nend_header\n0\n", "a.ply:3: expected a format in the header"},
    {"a.msh", "$MeshFormat\n3 0 8\n$EndMeshFormat\n", "a.msh:2: version '3' of MSH is not supported"},
    {"a.msh", "$Nodes\n", "a.msh:1: expected '$MeshFormat', found '$Nodes'"},
    {"a.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n2\n1 0 0 0\n1 0 0 0\n$EndNodes\n",
     "a.msh:7: node 1 is defined twice"},
    {"a.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n1\n1 0 0 0\n$EndNodes\n$Elements\n1\n1 15 0 2\n$EndElements\n",
     "a.msh:10: there is no node 2"},
    {"a.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Elements\n1\n1 12 0 1 1 1 1 1 1 1 1\n",
     "a.msh:6: elements of Gmsh's type 12 are not supported"},
    {"a.mesh", "Vertices", "a.mesh:1: expected 'MeshVersionFormatted', found 'Vertices'"},
    {"a.mesh", "MeshVersionFormatted 9", "a.mesh:1: version 9 of Medit's format"},
    {"a.mesh", "MeshVersionFormatted 1\nVertices 1", "a.mesh:2: expected 'Dimension', found 'Vertices'"},
    {"a.mesh", "MeshVersionFormatted 1\nDimension 4", "a.mesh:2: dimension 4"},
    {"a.mesh", "MeshVersionFormatted 1 Dimension 3\nVertices 77777\n", "a.mesh:2: 77777 vertices; the file has room"},
    {"a.mesh", "MeshVersionFormatted 1 Dimension 3 Vertices 1 0 0 0 0\nTriangles 1\n1 1 2 0\n",
     "a.mesh:3: point 2 is named; there are 1, counted from 1"},
    {"a.mesh", "MeshVersionFormatted 1 Dimension 3 Vertices 1 0 0 0 0\nTrianglesP2 0\n", "a.mesh:2: 'TrianglesP2' are not"},
    {"a.mesh", "MeshVersionFormatted 1 Dimension 3 Vertices 1 0 0 0 0\nHexahedra 1\n1 1 1 1 1 1 1 1 0\n",
     "a.mesh:3: cell 0 of those with quadrangles for faces has a point twice"},
    {"a.mesh", "MeshVersionFormatted 1 Dimension 3 Vertices 1 0 0", "a.mesh:1: expected a number, found the end of the file"},
    {"a.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n1000000\n", "a.msh:5: 1000000 nodes; the file has room"},
    {"a.msh", "$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Odd\n", "a.msh:5: the file ends before '$EndOdd'"},
    {"a.vtk", "hello", "a.vtk:1: expected '# vtk DataFile Version ', found 'hello'"},
    {"a.vtk", "# vtk DataFile Version 3.0\n\nASCII\nDATASET STRUCTURED_GRID\n", "a.vtk:4: a dataset 'STRUCTURED_GRID'"},
    {"a.vtk", "# vtk DataFile Version 3.0\n\nASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\nPOLYGONS 1 4\n3 0 0 1\n",
     "a.vtk:8: point 1 is named; there are 1, counted from 0"},
    {"a.vtk",
     "# vtk DataFile Version 3.0\n\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 1 float\n0 0 0\nCELLS 1 9\n8 0 0 0 0 0 0 0 "
     "0\nCELL_TYPES 1\n25\n",
     "a.vtk:10: cells of VTK's type 25 with 8 points are not supported"},
    {"a.vtk",
     "# vtk DataFile Version 3.0\n\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 1 float\n0 0 0\nCELLS 1 8\n7 0 0 0 0 0 0 "
     "0\nCELL_TYPES 1\n12\n",
     "a.vtk:10: cells of VTK's type 12 with 7 points are not supported"},
    {"a.vtk",
     "# vtk DataFile Version 3.0\n\nASCII\nDATASET UNSTRUCTURED_GRID\nPOINTS 1 float\n0 0 0\nCELLS 1 2\n1 0\nCELL_TYPES 2\n1 1\n",
     "a.vtk:9: 2 types of 1 cells"},
    {"a.vtk",
     "# vtk DataFile Version 5.1\n\nASCII\nDATASET POLYDATA\nPOINTS 1 float\n0 0 0\nPOLYGONS 2 3\nOFFSETS vtktypeint64\n0 4\n",
     "a.vtk:9: offset 4 of cell 1"},
    {"a.vtu", "<a/>", "a.vtu:1: is no VTK file"},
    {"a.vtu", "<VTKFile", "a.vtu:1: not well-formed XML"},
    {"a.vtu", "<!DOCTYPE a><VTKFile/>", "a.vtu:1: document type declarations"},
    {"a.vtu",
     "<VTKFile type='UnstructuredGrid'>\n<Piece NumberOfPoints='1' NumberOfCells='0'><Points>\n<DataArray type='Float32' "
     "NumberOfComponents='3'>0 1</DataArray></Points></Piece></VTKFile>",
     "a.vtu:3: expected 3 entries in the array 'Points', found 2"},
    {"a.vtu",
     "<VTKFile type='UnstructuredGrid'><Piece NumberOfPoints='1' NumberOfCells='0'><Points><DataArray type='Float32' "
     "NumberOfComponents='3' format='appended' offset='9'/></Points></Piece><AppendedData encoding='raw'>_12345678",
     "a.vtu:1: array 'Points' lies behind the end"},
    {"a.vtu", "<VTKFile type='UnstructuredGrid' compressor='vtkLZ4DataCompressor'/>",
     "arrays compressed by 'vtkLZ4DataCompressor'"},
};

static void test_damage_is_named(void **state) {
  Fixture *f = *state;
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    pbMesh *m = NULL;
    pbStatus status = pbMesh_Parse(f->ctx, damaged[i].text, strlen(damaged[i].text), damaged[i].name, &m);
    const char *error = pbContext_Error(f->ctx);
    if (status == pb_ok || m || !strstr(error, damaged[i].error))
      fail_msg("%zu: %s: '%s', wanted '%s'", i, pbStatus_Text(status), error, damaged[i].error);
  }
  pbMesh *m;
  assert_int_equal(pbMesh_Load(f->ctx, "/nowhere/a.obj", &m), pb_file);
  assert_int_equal(pbMesh_Load(f->ctx, "/tmp", &m), pb_unsupported);
}

// The bytes of what we write ourselves, binary VTU among them.
static char *written(Fixture *f, const char *name, unsigned kinds, size_t *size) {
  pbMesh *m = example(f->ctx, kinds);
  OK(f->ctx, pbMesh_Save(f->ctx, path_of(f, name), m));
  pbMesh_Destroy(m);
  FILE *stream = fopen(f->path, "rb");
  char *bytes = malloc(1 << 16);
  *size = fread(bytes, 1, 1 << 16, stream);
  fclose(stream);
  unlink(f->path);
  return bytes;
}

// Cut short anywhere, or with a byte changed: a mesh with numbers in range, or an error with a text.
static void torture(pbContext *ctx, const char *name, const char *text, size_t size) {
  uint64_t random = 1;
  for (size_t i = 0; i < 2 * size; i++) {
    char *copy = malloc(size + 1);  // of its own size, so that a sanitizer sees reads behind it
    memcpy(copy, text, size);
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t length = i < size ? i : size;
    if (i >= size) copy[i - size] = (char)(random >> 33);
    char *exact = realloc(copy, length ? length : 1);
    pbMesh *m = NULL;
    pbStatus status = pbMesh_Parse(ctx, exact, length, name, &m);
    assert_true(status == pb_ok ? m != NULL : pbContext_Error(ctx)[0] != 0);
    if (status == pb_ok) (void)!pbMesh_Check(ctx, m, 0, NULL);
    pbMesh_Destroy(m);
    free(exact);
  }
}

static void test_any_damage(void **state) {
  Fixture *f = *state;
  for (int i = 0; i < sample_count; i++) torture(f->ctx, samples[i].name, samples[i].text, strlen(samples[i].text));
  for (size_t i = 0; i < sizeof trips / sizeof *trips; i++) {
    size_t size;
    char *bytes = written(f, trips[i].name, trips[i].kinds, &size);
    torture(f->ctx, trips[i].name, bytes, size);
    free(bytes);
  }
}

// ---- animations ---------------------------------------------------------------------------------------------------------------

static pbStatus animate(pbContext *ctx, Fixture *f) {
  pbMesh *m = NULL;
  pbVtuWriter *writer = NULL;
  double time[2] = {0, 1}, x[2 * 12];
  for (int i = 0; i < 24; i++) x[i] = i;
  pbStatus status = pbMesh_Grid(ctx, &(pbGrid){.u = {1}, .v = {0, 1}, .cells = {1, 1}}, &m);
  if (status == pb_ok) status = pbVtuWriter_Create(ctx, path_of(f, "s.pvd"), m, &writer);
  pbVtuArray array = {"x", 3, x};
  if (status == pb_ok) status = pbVtuWriter_Write(writer, &(pbVtuFrame){.x = x, .point_arrays = 1, .point = &array});
  if (status == pb_ok) status = pbVtuWriter_Finish(writer);
  pbVtuWriter_Destroy(writer);
  pbGlbPart part = {.name = "sheet", .points = 4, .x = x};
  if (status == pb_ok) part.triangles = &m->cells[pb_cellTriangle];
  pbGlb glb = {.frames = 2, .time = time, .parts = 1, .part = &part};
  if (status == pb_ok) status = pbGlb_Write(ctx, path_of(f, "s.glb"), &glb);
  pbMesh_Destroy(m);
  return status;
}

static void remove_animation(Fixture *f) {
  static const char *const names[] = {"s.pvd", "s_000000.vtu", "s.glb"};
  for (int i = 0; i < 3; i++) unlink(path_of(f, names[i]));
}

static void test_series_and_animation(void **state) {
  Fixture *f = *state;
  OK(f->ctx, animate(f->ctx, f));
  pbMesh *m;
  OK(f->ctx, pbMesh_Load(f->ctx, path_of(f, "s_000000.vtu"), &m));
  assert_int_equal(m->cells[pb_cellTriangle].count, 2);
  assert_true(m->point[11] == 11);
  pbMesh_Destroy(m);
  remove_animation(f);
  pbVtuWriter *writer;
  assert_int_equal(pbVtuWriter_Create(f->ctx, "x.vtu", NULL, &writer), pb_bad_argument);
  double time[2] = {1, 1}, x[6] = {0, 0, 0, 0, 0, NAN};
  pbCells line = {.count = 1, .vertex = (int[]){0, 1}};
  pbGlbPart part = {.name = "line", .edges = &line, .points = 2, .x = x};
  assert_int_equal(pbGlb_Write(f->ctx, path_of(f, "s.glb"), &(pbGlb){.frames = 2, .time = time, .parts = 1, .part = &part}),
                   pb_bad_argument);
  assert_non_null(strstr(pbContext_Error(f->ctx), "do not ascend at 1"));
  assert_int_equal(pbGlb_Write(f->ctx, f->path, &(pbGlb){.frames = 1, .time = time, .parts = 1, .part = &part}), pb_not_finite);
  part.points = 1;
  assert_int_equal(pbGlb_Write(f->ctx, f->path, &(pbGlb){.frames = 1, .time = time, .parts = 1, .part = &part}), pb_bad_argument);
}

// ---- memory -------------------------------------------------------------------------------------------------------------------

static void test_every_allocation_fails_in_turn(void **state) {
  Fixture *f = *state;
  for (int i = 0; i <= sample_count; i++) {
    bool failed = true;
    for (long at = 2; failed; at++) {
      Meter meter = {.fail_at = at};
      pbAllocator hooks = meter_hooks(&meter);
      pbContext *ctx = pbContext_Create(&hooks);
      pbMesh *m = NULL;
      pbStatus status =
          i < sample_count ? pbMesh_Parse(ctx, samples[i].text, strlen(samples[i].text), samples[i].name, &m) : animate(ctx, f);
      failed = meter.failed > 0;
      // a warning that cannot be kept is no failure
      if (status != pb_ok && status != pb_no_memory) fail_msg("%d, allocation %ld: %s", i, at, pbContext_Error(ctx));
      assert_true(failed || status == pb_ok);
      pbMesh_Destroy(m);
      assert_true(meter.live <= 2);  // the context and its warnings
      pbContext_Destroy(ctx);
      assert_int_equal(meter.live, 0);
      remove_animation(f);
    }
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_round_trips),
      TEST(test_stl_round_trip),
      TEST(test_samples),
      TEST(test_details_of_medit),
      TEST(test_solids_are_cut_so_that_they_fit),
      TEST(test_any_numbering_of_hexahedra),
      TEST(test_solids_of_vtk_and_gmsh),
      TEST(test_tetgen),
      TEST(test_damaged_tetgen),
      TEST(test_details_of_samples),
      TEST(test_orders_of_bytes),
      TEST(test_damage_is_named),
      TEST(test_any_damage),
      TEST(test_series_and_animation),
      TEST(test_every_allocation_fails_in_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
