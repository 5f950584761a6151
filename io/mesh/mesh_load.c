// Mesh files: which reader takes a file, by its ending.
// Tests: tests/unit/test_urdf.c.
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/context.h"
#include "io/file.h"
#include "io/mesh/mesh_reader.h"
#include "mesh/mesh.h"

typedef struct format {
  const char *ending;
  pbStatus (*read)(pbMeshReader *);
} format;
static const format formats[] = {{".obj", pbRead_Obj},   {".stl", pbRead_Stl}, {".ply", pbRead_Ply},    {".msh", pbRead_Gmsh},
                                 {".vtk", pbRead_Vtk},   {".vtu", pbRead_Vtu}, {".mesh", pbRead_Medit}, {".ele", pbRead_Ele},
                                 {".node", pbRead_Node}, {NULL, NULL}};
static const format shape_formats[] = {{".obj", pbRead_Obj}, {".stl", pbRead_Stl},   {".msh", pbRead_Msh}, {".dae", pbRead_Dae},
                                       {".glb", pbRead_Glb}, {".gltf", pbRead_Gltf}, {NULL, NULL}};

static const format *format_of(const format *all, const char *name) {
  const char *dot = strrchr(name, '.');
  if (!dot) return NULL;

  for (const format *f = all; f->ending; f++)
    if (!strcasecmp(dot, f->ending)) return f;
  return NULL;
}

static pbStatus read_mesh(pbMeshReader *r, const format *f) {
  PB_TRY(f->read(r));

  if (!r->mesh->points) return pbContext_Fail(r->ctx, pb_bad_input, "%.400s: holds no points", r->name);
  if (r->left_out) pbContext_Warn(r->ctx, "%.400s: %d curved lines are left out", r->name, r->left_out);
  if (r->solids)
    pbContext_Warn(r->ctx, "%.400s: %d hexahedra, prisms or pyramids are cut into %d tetrahedra", r->name, r->solids,
                   r->solid_parts);
  pbRead_MatchQuadrangles(r);

  // Of rigid shapes.
  if (r->other_faces)
    pbContext_Warn(r->ctx, "%.400s: %d faces of objects after the first are left out, as MuJoCo does", r->name, r->other_faces);
  if (r->thin_faces)
    pbContext_Warn(r->ctx, "%.400s: %d faces of fewer than 3 corners are left out, as MuJoCo does", r->name, r->thin_faces);
  if (r->large_faces)
    pbContext_Warn(r->ctx, "%.400s: %d faces of more than 100 corners are left out, as MuJoCo does", r->name, r->large_faces);

  return pbMesh_CheckNumbers(r->ctx, r->mesh);
}

static pbStatus parse(pbContext *ctx, const void *bytes, size_t size, const char *name, const format *f, bool rigid, bool in_file,
                      pbMesh **mesh) {
  pbMeshReader r = {.ctx = ctx,
                    .name = name,
                    .begin = bytes,
                    .at = bytes,
                    .end = (const unsigned char *)bytes + size,
                    .line = 1,
                    .rigid = rigid,
                    .in_file = in_file};

  PB_TRY(pbMesh_Create(ctx, name, 0, NULL, &r.mesh));

  // Numbers have a decimal point, whatever language the program runs in.
  r.locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  pbStatus status = r.locale ? read_mesh(&r, f) : pbMesh_NoMemory(ctx, name);
  if (r.locale) freelocale(r.locale);
  pbContext_Free(ctx, r.quadrangle);

  if (status == pb_ok) *mesh = r.mesh;
  else pbMesh_Destroy(r.mesh);
  return status;
}

static pbStatus load(pbContext *ctx, const char *path, const format *f, bool rigid, pbMesh **mesh) {
  char *bytes = NULL;
  size_t size = 0;
  PB_TRY(pbFile_ReadAll(ctx, path, PB_MESH_FILE, &bytes, &size));

  pbStatus status = parse(ctx, bytes, size, path, f, rigid, true, mesh);
  pbContext_Free(ctx, bytes);
  return status;
}

static pbStatus no_format(pbContext *ctx, const char *name) {
  return pbContext_Fail(ctx, pb_unsupported, "%.400s: the ending is none of .obj .stl .ply .msh .vtk .vtu .mesh .ele", name);
}

pbStatus pbMesh_Parse(pbContext *ctx, const void *bytes, size_t size, const char *name, pbMesh **mesh) {
  const format *f = format_of(formats, name);
  return f ? parse(ctx, bytes, size, name, f, false, false, mesh) : no_format(ctx, name);
}

pbStatus pbMesh_Load(pbContext *ctx, const char *path, pbMesh **mesh) {
  const format *f = format_of(formats, path);
  return f ? load(ctx, path, f, false, mesh) : no_format(ctx, path);
}

#define MOST_COORDINATE 0x1p30

pbStatus pbMesh_LoadShape(pbContext *ctx, const char *path, const char *ending, pbMesh **mesh) {
  const format *f = format_of(shape_formats, *ending ? ending : path);
  if (!f) return pbContext_Fail(ctx, pb_unsupported, "%.400s: a mesh's ending is none of .stl .obj .msh .dae .glb .gltf", path);

  PB_TRY(load(ctx, path, f, true, mesh));

  // MuJoCo keeps single precision, up to a bound.
  for (int i = 0; i < 3 * (*mesh)->points; i++) {
    if (!(fabs((*mesh)->point[i]) <= MOST_COORDINATE)) {
      pbMesh_Destroy(*mesh);
      *mesh = NULL;
      return pbContext_Fail(ctx, pb_bad_input, "%.400s: point %d, counted from 0, has a coordinate beyond 2^30", path, i / 3);
    }
    (*mesh)->point[i] = (float)(*mesh)->point[i];
  }
  return pb_ok;
}
