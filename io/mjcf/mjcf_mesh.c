// Meshes: the element of a mesh, and the files of those on which something that moves depends.
// Tests: tests/oracle/test_bad_meshes.py, tests/oracle/test_solids.py.
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <pullback/mesh.h>

#include "base/context.h"
#include "compile/spec_pool.h"
#include "io/mjcf/mjcf_reader.h"

// ---- the element --------------------------------------------------------------------------------------------------------

// How many numbers, from the first on, are whole and none below zero.
static int take_whole(const double *numbers, int count, int *out) {
  for (int i = 0; i < count; i++) {
    if (!(numbers[i] >= 0 && numbers[i] <= INT_MAX && numbers[i] == (int)numbers[i])) return i;
    out[i] = (int)numbers[i];
  }
  return count;
}

static pbStatus read_faces(pbMjcfReader *reader, const pbXmlNode *node, pbMeshDef *def) {
  const char *text = pbXml_Get(node, "face");
  const char *bad;
  int count = 0;
  if (!text) return pb_ok;

  // How many, then the numbers.
  (void)pbXml_Numbers(&reader->document, text, NULL, 0, &count, &bad);
  double *numbers = pbContext_AllocArray(reader->ctx, (size_t)count + 1, sizeof *numbers);
  int *face = pbSpecPool_Take(reader->spec->pool, (size_t)count + 1, sizeof *face);
  bool room = numbers && face;
  if (room) (void)pbXml_Numbers(&reader->document, text, numbers, count, &count, &bad);

  int whole = room ? take_whole(numbers, count, face) : 0;
  pbContext_Free(reader->ctx, numbers);
  if (!room) return NO_MEMORY(node);
  if (whole < count) return FAIL(node, "attribute 'face' has numbers that are not those of points");
  def->face = (pbInts){face, count};
  return pb_ok;
}

const char *pbMjcf_NameByFile(pbMjcfReader *reader, const char *file) {
  const char *slash = strrchr(file, '/'), *from = slash ? slash + 1 : file, *dot = strrchr(from, '.');
  return pbSpecPool_Text(reader->spec->pool, from, dot ? (size_t)(dot - from) : strlen(from));
}

pbStatus pbMjcf_Mesh(pbMjcfReader *reader, const pbXmlNode *node, const pbMjcfClass *class) {
  pbMeshDef def = class->mesh;
  def.place = node->place;

  PB_TRY(pbMjcf_Store(reader, node, &def));
  PB_TRY(read_faces(reader, node, &def));

  if (!*def.name && *def.file) {
    def.name = pbMjcf_NameByFile(reader, def.file);
    if (!def.name || !pbMjcf_AssetName(reader, node, &def.name)) return NO_MEMORY(node);
  }
  return pbSpec_AddMesh(reader->spec, &def) < 0 ? NO_MEMORY(node) : pb_ok;
}

// ---- files --------------------------------------------------------------------------------------------------------------

// By the media type, where it is stated, else by the name.
static pbStatus find_ending(pbMjcfReader *reader, const pbXmlNode *node, const pbMeshDef *def, const char **ending) {
  static const char *const types[][2] = {{"model/stl", ".stl"}, {"model/obj", ".obj"}, {"model/vnd.mujoco.msh", ".msh"}};
  *ending = "";
  if (!*def->content_type) return pb_ok;

  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(def->content_type, types[i][0]) != 0) continue;
    *ending = types[i][1];
    return pb_ok;
  }
  return REFUSE(node, "attribute 'content_type' is \"%.60s\", expected model/stl, model/obj or model/vnd.mujoco.msh",
                def->content_type);
}

// false: longer than the room.
static bool join_folder(const pbMjcfReader *reader, const char *own, const char *file, char *path, size_t size) {
  const char *folder = own ? own : reader->assetdir;
  const char *slash = strrchr(file, '/');
  if (reader->strippath && slash) file = slash + 1;

  // An absolute name stands for itself.
  if (!folder || !*folder || *file == '/') folder = "";
  const char *between = *folder && folder[strlen(folder) - 1] != '/' ? "/" : "";
  int n = snprintf(path, size, "%s%s%s", folder, between, file);

  return n > 0 && (size_t)n < size;
}

static pbStatus find_file(pbMjcfReader *reader, const pbXmlNode *node, bool picture, const char *file, char **real) {
  char path[PATH_MAX];
  const pbMjcfReader *of = pbMjcf_ReaderOf(reader, node);
  if (!join_folder(of, picture ? of->texturedir : of->meshdir, file, path, sizeof path))
    return FAIL(node, "the name of its file is too long");

  // As seen from its own model's file; where it is not there, beside the included file that names it.
  const char *model = of->document.root->place.file;
  if (pbXml_FindBeside(&reader->document, node, model, path, real) == pb_ok) return pb_ok;
  if (strcmp(node->place.file, model) != 0 && pbXml_FindBeside(&reader->document, node, node->place.file, file, real) == pb_ok)
    return pb_ok;
  return pbXml_FindBeside(&reader->document, node, model, path, real);
}

pbStatus pbMjcf_FindAsset(pbMjcfReader *reader, const pbXmlNode *node, const char *file, char **real) {
  return find_file(reader, node, false, file, real);
}

bool pbMjcf_KeepPath(pbMjcfReader *reader, const pbXmlNode *node, bool picture, const char **file) {
  char *real;
  if (!reader->spec->pool->source || !**file || find_file(reader, node, picture, *file, &real) != pb_ok) return true;
  *file = pbSpec_Text(reader->spec, real);
  return *file != NULL;
}

static pbStatus take_mesh(pbMjcfReader *reader, const pbXmlNode *node, const pbMesh *mesh, pbMeshDef *def) {
  const pbCells *triangles = &mesh->cells[pb_cellTriangle];
  if (def->vertex.count) return FAIL(node, "both 'file' and 'vertex' give points");
  if (def->face.count && triangles->count) return FAIL(node, "both 'file' and 'face' give faces");

  def->vertex = pbSpec_Reals(reader->spec, mesh->point, 3 * mesh->points);
  if (triangles->count) def->face = pbSpec_Ints(reader->spec, triangles->vertex, 3 * triangles->count);
  bool room = def->vertex.data && (!triangles->count || def->face.data);
  return room ? pb_ok : NO_MEMORY(node);
}

static pbStatus load_file(pbMjcfReader *reader, const pbXmlNode *node, pbMeshDef *def) {
  char *real;
  const char *ending;

  PB_TRY(find_ending(reader, node, def, &ending));
  PB_TRY(pbMjcf_FindAsset(reader, node, def->file, &real));

  pbMesh *mesh = NULL;
  pbStatus status = pbMesh_LoadShape(reader->ctx, real, ending, &mesh);
  if (status != pb_ok) {
    char text[600];

    snprintf(text, sizeof text, "%s", pbContext_Error(reader->ctx));
    return pbXml_Fail(&reader->document, status, node, "%s", text);
  }

  status = take_mesh(reader, node, mesh, def);
  pbMesh_Destroy(mesh);
  return status;
}

// MuJoCo keeps single precision.
static void round_points(pbMeshDef *def) {
  double *point = (double *)def->vertex.data;  // the spec's own
  for (int i = 0; i < def->vertex.count; i++) point[i] = (float)point[i];
}

static pbStatus load_mesh(pbMjcfReader *reader, const pbXmlNode *node, pbMeshDef *def) {
  if (pbXml_Get(node, "builtin")) return REFUSE(node, "attribute 'builtin' is not supported on a mesh that collides or weighs");
  if (*def->file) return load_file(reader, node, def);

  round_points(def);
  return pb_ok;
}

// Of a mesh that is only seen: whatever is wrong with it, there is less to see.
static pbStatus look_at_mesh(pbMjcfReader *reader, const pbXmlNode *node, pbMeshDef *def) {
  pbStatus status = load_mesh(reader, node, def);
  if (status == pb_ok || status == pb_no_memory) return status;

  char text[600];
  snprintf(text, sizeof text, "%s", pbContext_Error(reader->ctx));
  pbContext_Warn(reader->ctx, "%s; it is not seen", text);
  def->file = "";  // asked for once
  return pb_ok;
}

const pbXmlNode *pbMjcf_AssetNode(const pbMjcfReader *reader, const char *element, int k) {
  for (const pbXmlNode *section = reader->document.root->first; section; section = section->next) {
    if (strcmp(section->name, "asset") != 0) continue;
    for (const pbXmlNode *node = section->first; node; node = node->next) {
      if (!strcmp(node->name, element) && k-- == 0) return node;
    }
  }
  return NULL;
}

// What geoms that act name, or then what others do.
static pbStatus load_meshes(pbMjcfReader *reader, bool acting) {
  pbSpec *spec = reader->spec;
  for (int i = 0; i < spec->ngeom; i++) {
    const pbGeomDef *geom = &spec->geoms[i];
    bool fits = pbSpec_GeomFits(spec, i);  // whatever it is for, its size is asked for
    if ((geom->type != pb_geomMesh && !fits) || (fits || pbSpec_GeomActs(spec, i)) != acting) continue;

    // One that is not there is found when compiling; one that is read already is not read again.
    pbMeshDef *mesh = pbSpec_FindMesh(spec, geom->mesh);
    if (!mesh || (*mesh->file && mesh->vertex.count)) continue;
    const pbXmlNode *node = pbMjcf_AssetNode(reader, "mesh", (int)(mesh - spec->meshes));
    PB_TRY(acting ? load_mesh(reader, node, mesh) : look_at_mesh(reader, node, mesh));
  }
  return pb_ok;
}

pbStatus pbMjcf_LoadMeshes(pbMjcfReader *reader) {
  PB_TRY(load_meshes(reader, true));

  // What is only seen is read where it is asked for.
  if (reader->spec->surfaces) PB_TRY(load_meshes(reader, false));

  for (int i = 0; i < reader->spec->nmesh; i++) {
    const pbXmlNode *node = pbMjcf_AssetNode(reader, "mesh", i);
    if (!pbMjcf_KeepPath(reader, node, false, &reader->spec->meshes[i].file)) return NO_MEMORY(node);
  }
  return pb_ok;
}
