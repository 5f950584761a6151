// Animated glTF 2.0, binary (https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html). A deforming part has its first frame
// as positions and each later one as a morph target (differences); weights go from target to target, so a viewer's linear
// interpolation of weights is that of positions. The JSON and the bytes are made by the same walk over the arrays, once to
// find where each lies and its bounds, once to write them.
// Tests: tests/unit/test_mesh_files.c.
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "io/file.h"
#include "mesh/mesh.h"

enum { default_frames = 100 };

typedef struct Text {
  char *at;  // NULL after a failure
  size_t length, room;
} Text;

typedef struct Glb {
  pbContext *ctx;
  const char *path;
  const pbGlb *g;
  int keyframes;  // frames that are written of what deforms
  int *used;      // of the part at hand: its points that are drawn
  int points;     // how many
  Text views, accessors, meshes, materials, nodes, channels, samplers;
  int accessor_count, node_count, mesh_count, sampler_count;
  uint64_t offset;
  FILE *stream;                     // NULL: first walk
  int times, rigid_times, weights;  // accessors
  const double *pose;               // whose accessors are translations and rotations: parts of one body share them
  int translations, rotations;
} Glb;

// ---- text -----------------------------------------------------------------------------------------------------------------

static void append_format(pbContext *ctx, Text *t, const char *format, ...) PB_PRINTF(3, 4);
static void append_format(pbContext *ctx, Text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);

  // Measure, make room, then write.
  int n = vsnprintf(NULL, 0, format, args);
  if (t->at && n >= 0 && t->length + (size_t)n + 1 > t->room) {
    size_t room = 2 * (t->length + (size_t)n + 1);
    char *grown = pbContext_Resize(ctx, t->at, room);
    if (!grown) pbContext_Free(ctx, t->at);
    t->at = grown;
    t->room = room;
  }
  if (t->at && n >= 0) t->length += (size_t)vsnprintf(t->at + t->length, t->room - t->length, format, again);

  va_end(again);
  va_end(args);
}

static void append_name(pbContext *ctx, Text *t, const char *name) {
  // JSON escapes quotes, backslashes and control characters; the rest is UTF-8 as it comes.
  for (; name && *name; name++) {
    unsigned char c = (unsigned char)*name;
    if (c == '"' || c == '\\') append_format(ctx, t, "\\%c", c);
    else if (c < 32) append_format(ctx, t, "\\u%04x", c);
    else append_format(ctx, t, "%c", c);
  }
}

static Text *texts_of(Glb *w, int i) {
  Text *all[] = {&w->views, &w->accessors, &w->meshes, &w->materials, &w->nodes, &w->channels, &w->samplers};
  return i < 7 ? all[i] : NULL;
}

// ---- arrays ---------------------------------------------------------------------------------------------------------------

// Rows of numbers, made one by one.
typedef struct Array Array;
struct Array {
  const char *type;  // of glTF
  int width;
  size_t rows;
  bool bounds, whole;  // least and largest are given; numbers are 32-bit counts
  int target;          // what a viewer does with them; 0: not drawn
  const pbGlbPart *part;
  const int *vertex;
  int frame;
  bool all;  // of all frames, not of the keyframes alone
  void (*row)(const Glb *w, const Array *a, size_t i, double *x);
};

static void put_row(Glb *w, const Array *a, const double *x) {
  for (int k = 0; k < a->width; k++) {
    float real = (float)x[k];
    uint32_t whole = a->whole ? (uint32_t)x[k] : 0;
    fwrite(a->whole ? (const void *)&whole : &real, 4, 1, w->stream);
  }
}

static void append_bounds(Glb *w, const char *name, const float *x, int width) {
  append_format(w->ctx, &w->accessors, ",\"%s\":[", name);
  for (int k = 0; k < width; k++) append_format(w->ctx, &w->accessors, "%s%.9g", k ? "," : "", (double)x[k]);
  append_format(w->ctx, &w->accessors, "]");
}

static void append_array(Glb *w, const Array *a, const float *low, const float *high) {
  int i = w->accessor_count;  // each array has a view and an accessor of the same number
  uint64_t bytes = (uint64_t)a->rows * (uint64_t)a->width * 4;

  append_format(w->ctx, &w->views, "%s{\"buffer\":0,\"byteOffset\":%llu,\"byteLength\":%llu", i ? "," : "",
                (unsigned long long)w->offset, (unsigned long long)bytes);
  if (a->target) append_format(w->ctx, &w->views, ",\"target\":%d", a->target);
  append_format(w->ctx, &w->views, "}");

  // 5125 is UNSIGNED_INT, 5126 is FLOAT.
  append_format(w->ctx, &w->accessors, "%s{\"bufferView\":%d,\"componentType\":%d,\"count\":%zu,\"type\":\"%s\"", i ? "," : "", i,
                a->whole ? 5125 : 5126, a->rows, a->type);
  if (a->bounds) {
    append_bounds(w, "min", low, a->width);
    append_bounds(w, "max", high, a->width);
  }
  append_format(w->ctx, &w->accessors, "}");

  w->offset += bytes;
}

// One array: declared in the first walk, written in the second. Returns its number, -1 where a value is not finite.
static int add_array(Glb *w, const Array *a) {
  float low[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
  float high[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};

  for (size_t i = 0; i < a->rows; i++) {
    double x[4] = {0};
    a->row(w, a, i, x);

    // What a viewer gets is a float: bounds are of that, and too large a double is not finite.
    for (int k = 0; k < a->width; k++) {
      float value = (float)x[k];
      if (!isfinite(value)) return -1;
      low[k] = fminf(low[k], value);
      high[k] = fmaxf(high[k], value);
    }

    if (w->stream) put_row(w, a, x);
  }

  if (!w->stream) append_array(w, a, low, high);
  return w->accessor_count++;
}

// Frame of the k-th keyframe: evenly spread over all, rounded, first and last included.
static int frame_of_keyframe(const Glb *w, int k) {
  return w->keyframes < 2 ? 0 : (int)(((int64_t)k * (w->g->frames - 1) + (w->keyframes - 1) / 2) / (w->keyframes - 1));
}

static void time_row(const Glb *w, const Array *a, size_t i, double *x) {
  *x = w->g->time[a->all ? (int)i : frame_of_keyframe(w, (int)i)];
}

// Keyframe by keyframe the weights of all targets: target k is frame k + 1.
static void weight_row(const Glb *w, const Array *a, size_t i, double *x) {
  // At keyframe 0 no weight is one: that is the first frame itself.
  (void)a;
  size_t targets = (size_t)w->keyframes - 1;
  *x = i / targets == i % targets + 1;
}

static void index_row(const Glb *w, const Array *a, size_t i, double *x) { *x = w->used[a->vertex[i]]; }

// Positions of the points drawn in the first frame, or how far they are from there in a later one.
static void position_row(const Glb *w, const Array *a, size_t i, double *x) {
  size_t n = (size_t)a->part->points, v = (size_t)w->used[n + i];
  const double *from = a->part->x + 3 * v;
  const double *to = from + 3 * n * (size_t)a->frame;
  for (int k = 0; k < 3; k++) x[k] = a->frame ? to[k] - from[k] : from[k];
}

static void translation_row(const Glb *w, const Array *a, size_t i, double *x) {
  (void)w;
  memcpy(x, a->part->pose + 7 * i, 3 * sizeof *x);
}

// Unit quaternions, x y z w. Signs do not matter: viewers go the short way.
static void rotation_row(const Glb *w, const Array *a, size_t i, double *x) {
  (void)w;
  const double *q = a->part->pose + 7 * i + 3;

  // q is w x y z.
  double size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  for (int k = 0; k < 4; k++) x[k] = q[(k + 1) % 4] / size;
}

// ---- parts ----------------------------------------------------------------------------------------------------------------

// used[v]: the new number of point v, used[points + i]: the i-th point drawn.
static void number_points(Glb *w, const pbGlbPart *p) {
  const pbCells *cells[2] = {p->triangles, p->edges};

  // Mark what triangles and edges name.
  memset(w->used, 0, (size_t)p->points * sizeof *w->used);
  w->points = 0;
  for (int c = 0; c < 2; c++) {
    int entries = cells[c] ? (3 - c) * cells[c]->count : 0;
    for (int i = 0; i < entries; i++) w->used[cells[c]->vertex[i]] = 1;
  }

  // Number what is marked, and list it.
  for (int v = 0; v < p->points; v++) {
    if (!w->used[v]) continue;
    w->used[p->points + w->points] = v;
    w->used[v] = w->points++;
  }
}

static int add_indices(Glb *w, const pbCells *cells, int nodes) {
  if (!cells || !cells->count) return -2;

  Array a = {.type = "SCALAR",
             .width = 1,
             .rows = (size_t)cells->count * (size_t)nodes,
             .whole = true,
             .target = 34963,  // ELEMENT_ARRAY_BUFFER
             .vertex = cells->vertex,
             .row = index_row};
  return add_array(w, &a);
}

static void append_primitive(Glb *w, const char *comma, int mode, int indices, int positions, int targets) {
  append_format(w->ctx, &w->meshes, "%s{\"mode\":%d,\"indices\":%d,\"attributes\":{\"POSITION\":%d},\"material\":%d", comma, mode,
                indices, positions, w->mesh_count);

  // Targets are the arrays behind the positions.
  if (targets) append_format(w->ctx, &w->meshes, ",\"targets\":[");
  for (int k = 1; k <= targets; k++) append_format(w->ctx, &w->meshes, "%s{\"POSITION\":%d}", k > 1 ? "," : "", positions + k);

  append_format(w->ctx, &w->meshes, targets ? "]}" : "}");
}

static void append_channel(Glb *w, int times, int values, const char *path) {
  const char *comma = w->sampler_count ? "," : "";

  // Values of a node over time; linear interpolation of rotations is spherical (slerp).
  append_format(w->ctx, &w->samplers, "%s{\"input\":%d,\"output\":%d,\"interpolation\":\"LINEAR\"}", comma, times, values);
  append_format(w->ctx, &w->channels, "%s{\"sampler\":%d,\"target\":{\"node\":%d,\"path\":\"%s\"}}", comma, w->sampler_count++,
                w->node_count, path);
}

static void append_material(Glb *w, const double *c) {
  const double gray[4] = {0.7, 0.7, 0.7, 1};
  if (c[0] == 0 && c[1] == 0 && c[2] == 0 && c[3] == 0) c = gray;

  append_format(
      w->ctx, &w->materials,
      "%s{\"doubleSided\":true,\"alphaMode\":\"%s\",\"pbrMetallicRoughness\":{\"baseColorFactor\":[%.9g,%.9g,%.9g,%.9g],"
      "\"metallicFactor\":0,\"roughnessFactor\":0.8}}",
      w->mesh_count ? "," : "", c[3] < 1 ? "BLEND" : "OPAQUE", c[0], c[1], c[2], c[3]);
}

static void append_pose(Glb *w, const pbGlbPart *p) {
  double translation[3], rotation[4];
  Array a = {.part = p};

  translation_row(w, &a, 0, translation);
  rotation_row(w, &a, 0, rotation);

  append_format(w->ctx, &w->nodes, ",\"translation\":[%.9g,%.9g,%.9g],\"rotation\":[%.9g,%.9g,%.9g,%.9g]", translation[0],
                translation[1], translation[2], rotation[0], rotation[1], rotation[2], rotation[3]);
}

static void append_part(Glb *w, const pbGlbPart *p, int triangles, int edges, int positions, int targets) {
  // Meshes and materials have the same numbers: one of each for a part.
  const char *comma = w->mesh_count ? "," : "";

  append_material(w, p->colour);

  // One mesh: triangles (mode 4) and lines (mode 1) share the positions.
  append_format(w->ctx, &w->meshes, "%s{\"name\":\"", comma);
  append_name(w->ctx, &w->meshes, p->name);
  append_format(w->ctx, &w->meshes, "\",\"primitives\":[");

  if (triangles >= 0) append_primitive(w, "", 4, triangles, positions, targets);
  if (edges >= 0) append_primitive(w, triangles >= 0 ? "," : "", 1, edges, positions, targets);

  append_format(w->ctx, &w->meshes, "]}");

  // One node with this mesh.
  append_format(w->ctx, &w->nodes, "%s{\"name\":\"", comma);
  append_name(w->ctx, &w->nodes, p->name);
  append_format(w->ctx, &w->nodes, "\",\"mesh\":%d", w->mesh_count++);
  if (p->pose) append_pose(w, p);
  append_format(w->ctx, &w->nodes, "}");
}

static pbStatus not_finite(Glb *w, const pbGlbPart *p) {
  return pbContext_Fail(w->ctx, pb_not_finite, "%.400s: part '%.100s' has a position or pose that is not finite", w->path,
                        p->name ? p->name : "");
}

// All of several poses are the first, which is finite.
static bool is_at_rest(const Glb *w, const pbGlbPart *p) {
  if (w->g->frames < 2) return false;
  for (int i = 0; i < 7; i++)
    if (!isfinite((float)p->pose[i])) return false;

  for (int k = 1; k < w->g->frames; k++)
    for (int i = 0; i < 7; i++)
      if (p->pose[7 * k + i] != p->pose[i]) return false;
  return true;
}

// False where a pose is not finite.
static bool add_pose(Glb *w, const pbGlbPart *p) {
  if (w->pose == p->pose) return true;

  Array translation = {.type = "VEC3", .width = 3, .rows = (size_t)w->g->frames, .part = p, .row = translation_row};
  Array rotation = {.type = "VEC4", .width = 4, .rows = (size_t)w->g->frames, .part = p, .row = rotation_row};

  // The second only where the first was finite.
  w->translations = add_array(w, &translation);
  w->rotations = w->translations < 0 ? -1 : add_array(w, &rotation);

  w->pose = p->pose;
  return w->rotations >= 0;
}

static pbStatus add_part(Glb *w, const pbGlbPart *p) {
  // What moves as a whole keeps its points; what deforms has a target for each frame but the first.
  int targets = p->pose ? 0 : w->keyframes - 1;

  number_points(w, p);
  if (!w->points) return pb_ok;

  int triangles = add_indices(w, p->triangles, 3);
  int edges = add_indices(w, p->edges, 2);
  int positions = w->accessor_count;
  for (int k = 0; k <= targets; k++) {
    Array a = {.type = "VEC3",
               .width = 3,
               .rows = (size_t)w->points,
               .bounds = true,
               .target = 34962,  // ARRAY_BUFFER
               .part = p,
               .frame = frame_of_keyframe(w, k),
               .row = position_row};
    if (add_array(w, &a) < 0) return not_finite(w, p);
  }

  bool moves = p->pose && !is_at_rest(w, p);
  if (moves && !add_pose(w, p)) return not_finite(w, p);
  if (w->stream) return pb_ok;  // the JSON is written already

  if (targets) append_channel(w, w->times, w->weights, "weights");
  if (moves) {
    append_channel(w, w->rigid_times, w->translations, "translation");
    append_channel(w, w->rigid_times, w->rotations, "rotation");
  }

  append_part(w, p, triangles, edges, positions, targets);
  w->node_count++;
  return pb_ok;
}

static pbStatus walk_arrays(Glb *w) {
  const pbGlb *g = w->g;
  size_t keyframes = (size_t)w->keyframes;
  w->accessor_count = 0;
  w->pose = NULL;

  // Times of deforming parts and of those that translation as a whole, then the weights that all deforming parts share.
  Array times = {.type = "SCALAR", .width = 1, .rows = keyframes, .bounds = true, .row = time_row};
  Array all = {.type = "SCALAR", .width = 1, .rows = (size_t)g->frames, .bounds = true, .all = true, .row = time_row};
  Array weights = {.type = "SCALAR", .width = 1, .rows = keyframes * (keyframes - 1), .row = weight_row};

  w->times = add_array(w, &times);
  w->rigid_times = add_array(w, &all);
  if (w->times < 0 || w->rigid_times < 0) return pbContext_Fail(w->ctx, pb_not_finite, "%.400s: a time is not finite", w->path);
  if (keyframes > 1) w->weights = add_array(w, &weights);

  for (int i = 0; i < g->parts; i++) PB_TRY(add_part(w, &g->part[i]));
  return pb_ok;
}

// ---- file -----------------------------------------------------------------------------------------------------------------

static void append_all(Glb *w, Text *t) {
  append_format(
      w->ctx, t,
      "{\"asset\":{\"version\":\"2.0\",\"generator\":\"pullback %s\"},\"scene\":0,\"scenes\":[{\"nodes\":[%d]}],\"nodes\":[%s%s",
      pbVersion(), w->node_count, w->nodes.at, w->node_count ? "," : "");

  // The root: z is up here, y in glTF.
  append_format(w->ctx, t, "{\"rotation\":[-0.70710678118654757,0,0,0.70710678118654757]");
  for (int i = 0; i < w->node_count; i++) append_format(w->ctx, t, i ? ",%d" : ",\"children\":[%d", i);
  append_format(w->ctx, t, w->node_count ? "]}]" : "}]");

  if (w->node_count) append_format(w->ctx, t, ",\"meshes\":[%s],\"materials\":[%s]", w->meshes.at, w->materials.at);
  if (w->sampler_count)
    append_format(w->ctx, t, ",\"animations\":[{\"channels\":[%s],\"samplers\":[%s]}]", w->channels.at, w->samplers.at);

  append_format(w->ctx, t, ",\"accessors\":[%s],\"bufferViews\":[%s],\"buffers\":[{\"byteLength\":%llu}]}", w->accessors.at,
                w->views.at, (unsigned long long)w->offset);

  // Chunks are multiples of four bytes; that of JSON is filled with blanks.
  while (t->at && t->length % 4) append_format(w->ctx, t, " ");
}

static void put32(FILE *stream, uint64_t value) {
  uint32_t word = (uint32_t)value;
  fwrite(&word, sizeof word, 1, stream);
}

static pbStatus put_file(Glb *w, const Text *json) {
  pbFile file;
  uint64_t size = 12 + 8 + json->length + 8 + w->offset;

  if (size > UINT32_MAX) return pbContext_Fail(w->ctx, pb_capacity, "%.400s: more than 4 GiB; keep fewer frames", w->path);

  // The header: "glTF", version, length of the file.
  PB_TRY(pbFile_Begin(w->ctx, w->path, &file));
  w->stream = file.stream;
  put32(w->stream, 0x46546C67);
  put32(w->stream, 2);
  put32(w->stream, size);

  // The chunk "JSON".
  put32(w->stream, json->length);
  put32(w->stream, 0x4E4F534A);
  fwrite(json->at, 1, json->length, w->stream);

  // The chunk "BIN", whose bytes come from the second walk.
  put32(w->stream, w->offset);
  put32(w->stream, 0x004E4942);
  pbStatus status = walk_arrays(w);

  if (status == pb_ok) return pbFile_Commit(&file);

  // A value that changed between the walks: nothing is left behind.
  pbFile_Abort(&file);
  return status;
}

static pbStatus write_scene(Glb *w, Text *json) {
  for (int i = 0; i < 7; i++) {
    *texts_of(w, i) = (Text){.at = pbContext_Alloc(w->ctx, 256), .room = 256};
    if (!texts_of(w, i)->at) return pbMesh_NoMemory(w->ctx, w->path);
  }

  // The first walk makes the JSON.
  PB_TRY(walk_arrays(w));
  for (int i = 0; i < 7; i++)
    if (!texts_of(w, i)->at) return pbMesh_NoMemory(w->ctx, w->path);

  *json = (Text){.at = pbContext_Alloc(w->ctx, 256), .room = 256};
  append_all(w, json);
  return json->at ? put_file(w, json) : pbMesh_NoMemory(w->ctx, w->path);
}

static bool in_range(const pbCells *cells, int nodes, int points) {
  if (!cells) return true;

  for (int i = 0; i < nodes * cells->count; i++)
    if (cells->vertex[i] < 0 || cells->vertex[i] >= points) return false;
  return true;
}

static pbStatus check_scene(pbContext *ctx, const char *path, const pbGlb *g, int *most_points) {
  if (g->frames < 1 || g->parts < 0 || !g->time)
    return pbContext_Fail(ctx, pb_bad_argument, "%.400s: no frames, or no times", path);

  for (int i = 1; i < g->frames; i++)
    if (!(g->time[i] > g->time[i - 1]))
      return pbContext_Fail(ctx, pb_bad_argument, "%.400s: the times of frames do not ascend at %d", path, i);

  for (int i = 0; i < g->parts; i++) {
    const pbGlbPart *p = &g->part[i];
    if (p->points < 0 || p->points > PB_MESH_MOST || (p->points && !p->x) || !in_range(p->triangles, 3, p->points) ||
        !in_range(p->edges, 2, p->points))
      return pbContext_Fail(ctx, pb_bad_argument, "%.400s: part %d '%.100s' names points it does not have", path, i,
                            p->name ? p->name : "");

    *most_points = p->points > *most_points ? p->points : *most_points;
  }
  return pb_ok;
}

static int count_keyframes(pbContext *ctx, const char *path, const pbGlb *g) {
  int most = g->most_frames > 0 ? g->most_frames : default_frames;
  bool deforms = false;
  for (int i = 0; i < g->parts; i++) deforms = deforms || !g->part[i].pose;

  if (g->frames <= most) return g->frames;
  if (deforms) pbContext_Warn(ctx, "%.400s: %d of %d frames are kept of what deforms", path, most < 2 ? 1 : most, g->frames);

  return most;
}

pbStatus pbGlb_Write(pbContext *ctx, const char *path, const pbGlb *g) {
  Glb w = {.ctx = ctx, .path = path, .g = g};
  Text json = {0};
  int most_points = 0;

  PB_TRY(check_scene(ctx, path, g, &most_points));
  w.keyframes = count_keyframes(ctx, path, g);
  w.used = pbContext_AllocArray(ctx, (size_t)most_points, 2 * sizeof *w.used);

  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  pbStatus status = pb_no_memory;

  // A point in numbers, whatever the program's language; of this thread alone.
  if (w.used && plain) {
    locale_t before = uselocale(plain);
    status = write_scene(&w, &json);
    uselocale(before);
  } else {
    status = pbMesh_NoMemory(ctx, path);
  }

  for (int i = 0; i < 7; i++) pbContext_Free(ctx, texts_of(&w, i)->at);
  pbContext_Free(ctx, json.at);
  pbContext_Free(ctx, w.used);
  if (plain) freelocale(plain);

  return status;
}
