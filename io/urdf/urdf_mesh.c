// Meshes: those of a name and scale once, and the files of those that collide, or that are to be seen.
// Tests: tests/unit/test_urdf.c, tests/oracle/test_urdf.py.
#include <stdio.h>
#include <string.h>

#include <pullback/mesh.h>
#include <pullback/solid.h>

#include "base/assert.h"
#include "io/urdf/urdf_reader.h"

// A name of its own: that of the file without folder and ending, with a number behind it where another mesh has it.
static const char *make_name(pbUrdfReader *reader, const char *file) {
  char name[300];
  const char *slash = strrchr(file, '/'), *from = slash ? slash + 1 : file, *dot = strrchr(from, '.');
  int length = (int)(dot ? (size_t)(dot - from) : strlen(from));
  if (!length) {  // the name of a folder, or an ending alone
    from = "mesh";
    length = 4;
  }
  snprintf(name, sizeof name, "%.*s", length < 200 ? length : 200, from);

  for (int i = 1; pbNames_Find(&reader->names, PB_URDF_MESH_NAME, name) >= 0; i++)
    snprintf(name, sizeof name, "%.*s%d", length < 200 ? length : 200, from, i);
  const char *copy = pbSpec_Text(reader->spec, name);
  return copy && pbNames_Set(&reader->names, PB_URDF_MESH_NAME, copy, reader->spec->nmesh) ? copy : NULL;
}

pbStatus pbUrdf_Mesh(pbUrdfReader *reader, const pbXmlNode *node, const char **name) {
  pbMeshDef def = pbMeshDef_Default();
  const char *file;
  def.place = node->place;
  PB_TRY(pbUrdf_NeedText(reader, node, "filename", &file));
  PB_TRY(pbUrdf_Scale(reader, node, def.scale));

  // Known by file and scale.
  size_t size = strlen(file) + 80;
  char *key = pbSpecPool_Take(&reader->document->pool, size, 1);
  if (!key) return NO_MEMORY(node);
  snprintf(key, size, "%a %a %a %s", def.scale[0], def.scale[1], def.scale[2], file);

  int known = pbNames_Find(&reader->names, PB_URDF_MESH, key);
  if (known >= 0) {
    *name = reader->spec->meshes[known].name;
    return pb_ok;
  }

  if (!pbNames_Set(&reader->names, PB_URDF_MESH, key, reader->spec->nmesh)) return NO_MEMORY(node);
  def.file = file;
  def.name = *name = make_name(reader, file);
  if (!def.name) return NO_MEMORY(node);
  reader->mesh_nodes[reader->spec->nmesh] = node;
  return pbSpec_AddMesh(reader->spec, &def) < 0 ? NO_MEMORY(node) : pb_ok;
}

// ---- files --------------------------------------------------------------------------------------------------------------

static pbStatus load_file(pbUrdfReader *reader, const pbXmlNode *node, const char *real, pbMeshDef *def) {
  pbMesh *mesh = NULL;
  pbStatus status = pbMesh_LoadShape(reader->ctx, real, "", &mesh);
  if (status != pb_ok) {
    char text[600];  // a copy: the error is written over itself
    snprintf(text, sizeof text, "%s", pbContext_Error(reader->ctx));
    return pbXml_Fail(reader->document, status, node, "%s", text);
  }

  const pbCells *triangles = &mesh->cells[pb_cellTriangle];
  def->vertex = pbSpec_Reals(reader->spec, mesh->point, 3 * mesh->points);
  if (triangles->count) def->face = pbSpec_Ints(reader->spec, triangles->vertex, 3 * triangles->count);
  bool room = def->vertex.data && (!triangles->count || def->face.data);
  pbMesh_Destroy(mesh);
  return room ? pb_ok : NO_MEMORY(node);
}

// Of a mesh that is only seen: whatever is wrong with it, there is less to see.
static pbStatus look_at_file(pbUrdfReader *reader, const pbXmlNode *node, pbMeshDef *def) {
  char *real;
  pbStatus status = pbUrdf_FindFile(reader, node, def->file, &real);
  if (status == pb_ok) status = load_file(reader, node, real, def);
  if (status == pb_ok || status == pb_no_memory) return status;

  char text[600];
  snprintf(text, sizeof text, "%s", pbContext_Error(reader->ctx));
  pbContext_Warn(reader->ctx, "%s; it is not seen", text);
  def->file = "";  // asked for once
  return pb_ok;
}

// Its geoms touch nothing and weigh nothing.
static void leave_out(pbUrdfReader *reader, const pbMeshDef *def) {
  for (int i = 0; i < reader->spec->ngeom; i++) {
    pbGeomDef *geom = &reader->spec->geoms[i];
    if (geom->type != pb_geomMesh || strcmp(geom->mesh, def->name) != 0) continue;
    geom->contype = geom->conaffinity = 0;
    geom->density = 0;
  }
}

// The file of a mesh that acts. *real: NULL where there is none and the caller goes on without.
static pbStatus find_solid(pbUrdfReader *reader, const pbXmlNode *node, pbMeshDef *def, char **real) {
  pbStatus status = pbUrdf_FindFile(reader, node, def->file, real);
  if (status != pb_file) return status;

  // A copy: the error is written over itself.
  char text[800];
  snprintf(text, sizeof text, "%s", pbContext_Error(reader->ctx));
  if (reader->options->missing_meshes == pb_missingRefuse)
    return pbContext_Fail(reader->ctx, status, "%s; --missing-meshes skip leaves such meshes out", text);

  pbContext_Warn(reader->ctx, "%s; it does not collide", text);
  leave_out(reader, def);
  def->file = "";  // asked for once
  *real = NULL;
  return pb_ok;
}

// A mesh that acts. Its frame comes from its volume; of one that has none from its surface, as long as it has a hull.
static pbStatus load_solid(pbUrdfReader *reader, const pbXmlNode *node, pbMeshDef *def) {
  char *real;
  PB_TRY(find_solid(reader, node, def, &real));
  if (!real) return pb_ok;

  PB_TRY(load_file(reader, node, real, def));
  if (!def->face.count) return pb_ok;

  pbMeshSolid solid = pbMeshSolid_Default();
  pbMeshProperties properties;
  solid.points = def->vertex.count / 3;
  solid.point = def->vertex.data;
  solid.triangles = def->face.count / 3;
  solid.triangle = def->face.data;
  memcpy(solid.scale, def->scale, sizeof solid.scale);
  pbStatus status = pbMesh_Properties(reader->ctx, &solid, &properties);
  if (status == pb_no_memory) return status;
  if (status != pb_bad_input) return pb_ok;  // other errors are told when it is compiled

  pbHull *hull;
  status = pbHull_Create(reader->ctx, solid.point, solid.points, 0, &hull);
  if (status == pb_bad_input) {
    // What is flat has no inside that could be touched: it is only seen.
    WARN(node, "'%.200s' is flat: it does not collide", def->name);
    leave_out(reader, def);
    return pb_ok;
  }
  if (status == pb_no_memory) return status;
  if (status == pb_ok) pbHull_Destroy(hull);
  WARN(node, "'%.200s' has no volume: its surface is weighed", def->name);
  def->inertia = pb_meshInertiaShell;
  return pb_ok;
}

// What geoms that act name, or then what others do.
static pbStatus load_meshes(pbUrdfReader *reader, bool acting) {
  pbSpec *spec = reader->spec;
  for (int i = 0; i < spec->ngeom; i++) {
    if (spec->geoms[i].type != pb_geomMesh || pbSpec_GeomActs(spec, i) != acting) continue;

    pbMeshDef *mesh = pbSpec_FindMesh(spec, spec->geoms[i].mesh);
    PB_ASSERT(mesh);  // made with the geom
    if (!*mesh->file || mesh->vertex.count) continue;
    const pbXmlNode *node = reader->mesh_nodes[mesh - spec->meshes];
    PB_TRY(acting ? load_solid(reader, node, mesh) : look_at_file(reader, node, mesh));
  }
  return pb_ok;
}

// For a file that is made of the spec: real paths in place of the names; what cannot be found keeps its name.
static pbStatus keep_paths(pbUrdfReader *reader) {
  for (int i = 0; i < reader->spec->nmesh; i++) {
    pbMeshDef *mesh = &reader->spec->meshes[i];
    char *real;
    if (!*mesh->file || pbUrdf_FindFile(reader, reader->mesh_nodes[i], mesh->file, &real) != pb_ok) continue;
    mesh->file = pbSpec_Text(reader->spec, real);
    if (!mesh->file) return NO_MEMORY(reader->mesh_nodes[i]);
  }
  return pb_ok;
}

pbStatus pbUrdf_LoadMeshes(pbUrdfReader *reader) {
  PB_TRY(load_meshes(reader, true));
  if (reader->spec->surfaces) PB_TRY(load_meshes(reader, false));
  return reader->spec->pool->source ? keep_paths(reader) : pb_ok;
}
