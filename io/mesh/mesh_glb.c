// glTF: in one binary file (.glb), or as text (.gltf) with its numbers in files beside it or in base64. The triangles of all
// meshes that the scene shows, by the poses of their nodes; points that no triangle has are left out. Compressed meshes are
// refused by name. Numbers of buffers: gltf_buffer.c.
// Tests: tests/unit/test_mesh_files.c, tests/oracle/test_dae.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "io/json/read.h"
#include "io/mesh/gltf_buffer.h"
#include "io/mesh/mesh_reader.h"
#include "math/vec.h"
#include "mesh/mesh.h"

enum {
  MOST_DEPTH = 64,         // of nodes in nodes
  MOST_CORNERS = 48 << 20  // of all triangles
};

typedef struct Glb {
  pbMeshReader *r;
  json_t *root;
  pbGltfBuffers buffers;
  int corners;
} Glb;

typedef double Transform[12];  // rows of a 3 x 4 matrix

#define FAIL(...) pbContext_Fail(g->r->ctx, pb_bad_input, "%.400s: " __VA_ARGS__)
#define NAME      g->r->name

// ---- JSON ---------------------------------------------------------------------------------------------------------------------

// A whole number of an object from 0 to `most`; `otherwise` where it is not there.
static pbStatus whole(const Glb *g, const json_t *object, const char *key, int64_t otherwise, int64_t most, int64_t *value) {
  const json_t *given = json_object_get(object, key);
  *value = otherwise;
  if (!given && otherwise >= 0) return pb_ok;

  // A wrong one is below zero, too.
  *value = json_is_integer(given) ? json_integer_value(given) : -1;

  return *value >= 0 && *value <= most ? pb_ok : FAIL("%s: expected a whole number from 0 to %lld", NAME, key, (long long)most);
}

// The object that an index of another means.
static pbStatus entry(const Glb *g, const json_t *object, const char *key, const char *list, const json_t **found) {
  const json_t *all = json_object_get(g->root, list);
  int64_t index;

  // By its place in the list.
  PB_TRY(whole(g, object, key, -1, INT32_MAX, &index));
  *found = json_array_get(all, (size_t)index);

  return json_is_object(*found) ? pb_ok : FAIL("%s: there is no entry %lld of '%s'", NAME, key, (long long)index, list);
}

// `count` numbers of an object; as they are where there are none.
static pbStatus reals(const Glb *g, const json_t *object, const char *key, size_t count, double *values) {
  const json_t *list = json_object_get(object, key);

  if (!list) return pb_ok;

  for (size_t i = 0; i < count; i++) {
    const json_t *number = json_array_get(list, i);
    if (!json_is_number(number)) return FAIL("%s: expected %zu numbers", NAME, key, count);
    values[i] = json_number_value(number);
  }

  return pb_ok;
}

// ---- accessors ----------------------------------------------------------------------------------------------------------------

typedef struct Items {  // numbers in the chunk of bytes
  const unsigned char *at;
  size_t stride;
  int count;
  pbReadType type;
} Items;

static pbStatus item_type(const Glb *g, const json_t *accessor, bool points, pbReadType *type) {
  int64_t kind;

  // Points are three floats.
  PB_TRY(whole(g, accessor, "componentType", -1, 5126, &kind));
  const char *shape = json_string_value(json_object_get(accessor, "type"));

  if (!shape || strcmp(shape, points ? "VEC3" : "SCALAR") != 0)
    return FAIL("type: expected %s", NAME, points ? "VEC3" : "SCALAR");

  // glTF's numbers for types.
  *type = pb_readFloat32;
  if (points) return kind == 5126 ? pb_ok : FAIL("componentType: expected floats (5126) for points", NAME);
  if (kind == 5121) *type = pb_readUint8;
  else if (kind == 5123) *type = pb_readUint16;
  else if (kind == 5125) *type = pb_readUint32;
  else return FAIL("componentType: expected whole numbers (5121, 5123, 5125) for corners", NAME);

  return pb_ok;
}

// The bytes of the buffer that a view is of.
static pbStatus find_buffer(Glb *g, const json_t *view, const pbGltfBuffer **buffer) {
  int64_t index;
  PB_TRY(whole(g, view, "buffer", -1, INT32_MAX, &index));
  return pbGltf_Buffer(g->r, g->root, &g->buffers, index, buffer);
}

// Where the items of an accessor lie: all of them inside their buffer.
static pbStatus find_items(Glb *g, const json_t *accessor, bool points, Items *items) {
  const json_t *view;
  const pbGltfBuffer *buffer;
  int64_t count, offset, start, length, stride;

  PB_TRY(item_type(g, accessor, points, &items->type));
  if (json_object_get(accessor, "sparse")) return FAIL("sparse accessors are not supported", NAME);

  PB_TRY(entry(g, accessor, "bufferView", "bufferViews", &view));
  PB_TRY(find_buffer(g, view, &buffer));
  const int64_t most = (int64_t)buffer->size;
  PB_TRY(whole(g, accessor, "count", -1, INT32_MAX / 4, &count));
  PB_TRY(whole(g, accessor, "byteOffset", 0, most, &offset));
  PB_TRY(whole(g, view, "byteOffset", 0, most, &start));
  PB_TRY(whole(g, view, "byteLength", -1, most, &length));

  // Items may stand apart.
  int64_t size = pbRead_Width(items->type) * (points ? 3 : 1);

  PB_TRY(whole(g, view, "byteStride", size, 252, &stride));
  if (stride < size) return FAIL("byteStride: %lld bytes, but an item has %lld", NAME, (long long)stride, (long long)size);
  if (start + length > most || (count && offset + (count - 1) * stride + size > length))
    return FAIL("an accessor reaches beyond its bytes", NAME);

  items->at = buffer->bytes + start + offset;
  items->stride = (size_t)stride;
  items->count = (int)count;

  return pb_ok;
}

// ---- meshes -------------------------------------------------------------------------------------------------------------------

typedef struct Faces {
  Items point, index;
  bool indexed, mirrored;
  const double *at;
  int *place;  // of a point in the mesh, -1: not there yet
} Faces;

// The point of a corner in the mesh, added where it is new.
static pbStatus corner(Glb *g, const Faces *f, int k, int *out) {
  int64_t i = f->indexed ? pbRead_IntegerAt(f->index.at + (size_t)k * f->index.stride, f->index.type, false) : k;

  if (i >= f->point.count) return FAIL("a triangle has point %lld, but there are %d", NAME, (long long)i, f->point.count);

  if (f->place[i] < 0) {
    double x[3], moved[3];
    for (int c = 0; c < 3; c++)
      x[c] = pbRead_RealAt(f->point.at + (size_t)i * f->point.stride + 4 * (size_t)c, pb_readFloat32, false);
    for (int c = 0; c < 3; c++) moved[c] = v3_dot(f->at + 4 * c, x) + f->at[4 * c + 3];
    f->place[i] = g->r->mesh->points;
    PB_TRY(pbRead_AddPoint(g->r, moved));
  }
  PB_ASSERT(f->place[i] < g->r->mesh->points);
  *out = f->place[i];

  return pb_ok;
}

// Triangles alone (4), in strips (5) or in fans (6).
static pbStatus add_triangles(Glb *g, const Faces *f, int mode) {
  int corners = f->indexed ? f->index.count : f->point.count;

  if ((g->corners += corners) > MOST_CORNERS) return FAIL("the scene shows more than %d corners", NAME, MOST_CORNERS);

  for (int k = 2; k < corners; k += mode == 4 ? 3 : 1) {
    int at[3] = {mode == 6 ? 0 : k - 2, k - 1, k}, triangle[3];

    // Every other triangle of a strip runs the other way round.
    bool back = f->mirrored != (mode == 5 && k % 2 == 1);
    for (int c = 0; c < 3; c++) PB_TRY(corner(g, f, at[back ? 2 - c : c], &triangle[c]));
    PB_TRY(pbRead_AddCell(g->r, pb_cellTriangle, triangle, 0));
  }

  return pb_ok;
}

static pbStatus read_primitive(Glb *g, const json_t *primitive, const double *at) {
  Faces f = {.at = at, .indexed = json_object_get(primitive, "indices") != NULL};
  const json_t *accessor;
  int64_t mode;

  PB_TRY(whole(g, primitive, "mode", 4, 6, &mode));
  if (mode < 4) return pb_ok;  // points and lines

  // Corners in order where there are no indices.
  PB_TRY(entry(g, json_object_get(primitive, "attributes"), "POSITION", "accessors", &accessor));
  PB_TRY(find_items(g, accessor, true, &f.point));
  if (f.indexed) PB_TRY(entry(g, primitive, "indices", "accessors", &accessor));
  if (f.indexed) PB_TRY(find_items(g, accessor, false, &f.index));

  // A mirror turns the corners round.
  double cross[3];
  v3_cross(cross, at, at + 4);
  f.mirrored = v3_dot(cross, at + 8) < 0;

  f.place = pbContext_AllocArray(g->r->ctx, (size_t)f.point.count + 1, sizeof *f.place);
  if (!f.place) return pbMesh_NoMemory(g->r->ctx, NAME);
  for (int i = 0; i < f.point.count; i++) f.place[i] = -1;
  pbStatus status = add_triangles(g, &f, (int)mode);
  pbContext_Free(g->r->ctx, f.place);

  return status;
}

// ---- nodes --------------------------------------------------------------------------------------------------------------------

static pbStatus read_pose(const Glb *g, const json_t *node, Transform at) {
  double m[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, move[3] = {0}, turn[4] = {0, 0, 0, 1}, scale[3] = {1, 1, 1},
         R[9];
  PB_TRY(reals(g, node, "matrix", 16, m));
  PB_TRY(reals(g, node, "translation", 3, move));
  PB_TRY(reals(g, node, "rotation", 4, turn));
  PB_TRY(reals(g, node, "scale", 3, scale));

  // A matrix comes column by column; else scale, then turn, then move.
  for (int i = 0; i < 12; i++) at[i] = m[4 * (i % 4) + i / 4];
  if (json_object_get(node, "matrix")) return pb_ok;

  const double quat[4] = {turn[3], turn[0], turn[1], turn[2]};
  quat_to_mat(R, quat);
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) at[4 * i + j] = R[3 * i + j] * scale[j];
    at[4 * i + 3] = move[i];
  }

  return pb_ok;
}

static pbStatus read_node(Glb *g, const json_t *list, size_t k, const double *parent, int depth) {
  const json_t *number = json_array_get(list, k), *mesh;
  const json_t *node = json_array_get(json_object_get(g->root, "nodes"), (size_t)json_integer_value(number));

  if (!json_is_integer(number) || !json_is_object(node)) return FAIL("nodes: an entry is not there", NAME);
  if (depth > MOST_DEPTH) return FAIL("nodes are nested more than %d deep: one may hold itself", NAME, MOST_DEPTH);
  if ((g->corners += 1) > MOST_CORNERS) return FAIL("the scene shows too many nodes", NAME);

  // Its pose in the world.
  Transform own, at;

  PB_TRY(read_pose(g, node, own));
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 4; j++)
      at[4 * i + j] = parent[4 * i] * own[j] + parent[4 * i + 1] * own[4 + j] + parent[4 * i + 2] * own[8 + j] +
                      (j == 3 ? parent[4 * i + 3] : 0);

  if (json_object_get(node, "mesh")) {
    PB_TRY(entry(g, node, "mesh", "meshes", &mesh));
    const json_t *primitives = json_object_get(mesh, "primitives");
    for (size_t i = 0; i < json_array_size(primitives); i++) PB_TRY(read_primitive(g, json_array_get(primitives, i), at));
  }

  const json_t *children = json_object_get(node, "children");

  for (size_t i = 0; i < json_array_size(children); i++) PB_TRY(read_node(g, children, i, at, depth + 1));

  return pb_ok;
}

static pbStatus read_scene(Glb *g) {
  const Transform world = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  const json_t *needed = json_object_get(g->root, "extensionsRequired");

  if (json_array_size(needed))
    return pbContext_Fail(g->r->ctx, pb_unsupported, "%.400s: needs the extension '%.60s', which is not supported", NAME,
                          json_string_value(json_array_get(needed, 0)) ? json_string_value(json_array_get(needed, 0)) : "");

  // The scene that is shown, else the first.
  const json_t *scenes = json_object_get(g->root, "scenes");
  int64_t shown;

  PB_TRY(whole(g, g->root, "scene", 0, INT32_MAX, &shown));
  const json_t *scene = json_array_get(scenes, (size_t)shown);

  if (!json_is_object(scene)) return FAIL("scene: there is no entry %lld of 'scenes'", NAME, (long long)shown);

  const json_t *nodes = json_object_get(scene, "nodes");

  for (size_t i = 0; i < json_array_size(nodes); i++) PB_TRY(read_node(g, nodes, i, world, 0));

  return pb_ok;
}

// ---- the file -----------------------------------------------------------------------------------------------------------------

// A chunk of that type at *at, which moves behind it.
static pbStatus take_chunk(const Glb *g, const unsigned char **at, uint32_t type, const unsigned char **bytes, size_t *size) {
  size_t left = (size_t)(g->r->end - *at);
  size_t length = left < 8 ? SIZE_MAX : (size_t)pbRead_IntegerAt(*at, pb_readUint32, false);
  if (length > left - 8 || left < 8 || pbRead_IntegerAt(*at + 4, pb_readUint32, false) != type)
    return FAIL("byte %zu: a chunk is missing or cut short", NAME, (size_t)(*at - g->r->begin));

  *bytes = *at + 8;
  *size = length;
  *at += 8 + length;

  return pb_ok;
}

static pbStatus read_json(Glb *g, const unsigned char *text, size_t length) {
  json_error_t wrong;
  bool no_memory;

  g->root = pbJson_Read((const char *)text, length, 0, &wrong, &no_memory);
  if (no_memory) return pbContext_Fail(g->r->ctx, pb_no_memory, "%s: no memory to read it", NAME);
  if (!g->root) return FAIL("byte %d of its JSON: %s", NAME, wrong.position, wrong.text);

  pbStatus status = read_scene(g);
  pbGltf_DropBuffers(g->r->ctx, &g->buffers);
  json_decref(g->root);
  return status;
}

pbStatus pbRead_Gltf(pbMeshReader *r) { return read_json(&(Glb){.r = r}, r->begin, (size_t)(r->end - r->begin)); }

pbStatus pbRead_Glb(pbMeshReader *r) {
  enum { MAGIC = 0x46546C67, JSON = 0x4E4F534A, BIN = 0x004E4942 };
  Glb reader = {.r = r}, *g = &reader;
  const unsigned char *at = r->begin + 12, *text = NULL;
  size_t length = 0;
  bool head = r->end - r->begin >= 12 && pbRead_IntegerAt(r->begin, pb_readUint32, false) == MAGIC &&
              pbRead_IntegerAt(r->begin + 4, pb_readUint32, false) == 2;
  if (!head) return FAIL("byte 0: expected the head of a GLB file of version 2", NAME);

  // The description, then the numbers.
  PB_TRY(take_chunk(g, &at, JSON, &text, &length));
  if (at < r->end) PB_TRY(take_chunk(g, &at, BIN, &g->buffers.chunk.bytes, &g->buffers.chunk.size));
  return read_json(g, text, length);
}
