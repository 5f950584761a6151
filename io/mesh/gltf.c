// Animated glTF 2.0, binary (https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html). A deforming part has its first frame as
// positions and each later one as a morph target (differences); weights move from target to target, so a viewer's linear interpolation
// of weights is that of positions. The JSON and the bytes are made by the same walk over the arrays, once for places and bounds, once for
// writing.
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
  int kept;    // frames of what deforms
  int *used;   // of the part at hand: its points that are drawn
  int points;  // how many
  Text views, accessors, meshes, materials, nodes, channels, samplers;
  int accessor_count, node_count, mesh_count, sampler_count;
  uint64_t offset;
  FILE *stream;                     // NULL: first walk
  int times, rigid_times, weights;  // accessors
  const double *pose;               // whose accessors are moved and turned: parts of one body share them
  int moved, turned;
} Glb;

// ---- text -----------------------------------------------------------------------------------------------------------------

static void say(pbContext *ctx, Text *t, const char *format, ...) PB_PRINTF(3, 4);
static void say(pbContext *ctx, Text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  if (t->at && n >= 0 && t->length + (size_t)n + 1 > t->room) {
    size_t room = 2 * (t->length + (size_t)n + 1);
    char *grown = pbContext_Resize(ctx, t->at, room);
    if (!grown) pbContext_Free(ctx, t->at);
    t->at = grown, t->room = room;
  }
  if (t->at && n >= 0) t->length += (size_t)vsnprintf(t->at + t->length, t->room - t->length, format, again);
  va_end(again);
  va_end(args);
}

static void say_name(pbContext *ctx, Text *t, const char *name) {
  for (; name && *name; name++) {
    unsigned char c = (unsigned char)*name;
    if (c == '"' || c == '\\') say(ctx, t, "\\%c", c);
    else if (c < 32) say(ctx, t, "\\u%04x", c);
    else say(ctx, t, "%c", c);
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
  bool bounds, whole;  // least and largest are said; numbers are 32-bit counts
  int target;          // what a viewer does with them; 0: not drawn
  const pbGlbPart *part;
  const int *vertex;
  int frame;
  bool all;  // of all frames, not of those kept
  void (*row)(const Glb *w, const Array *a, size_t i, double *x);
};

static void put_row(Glb *w, const Array *a, const double *x) {
  for (int k = 0; k < a->width; k++) {
    float real = (float)x[k];
    uint32_t whole = a->whole ? (uint32_t)x[k] : 0;
    fwrite(a->whole ? (const void *)&whole : &real, 4, 1, w->stream);
  }
}

static void say_bounds(Glb *w, const char *name, const float *x, int width) {
  say(w->ctx, &w->accessors, ",\"%s\":[", name);
  for (int k = 0; k < width; k++) say(w->ctx, &w->accessors, "%s%.9g", k ? "," : "", (double)x[k]);
  say(w->ctx, &w->accessors, "]");
}

static void say_array(Glb *w, const Array *a, const float *low, const float *high) {
  int i = w->accessor_count;
  uint64_t bytes = (uint64_t)a->rows * (uint64_t)a->width * 4;
  say(w->ctx, &w->views, "%s{\"buffer\":0,\"byteOffset\":%llu,\"byteLength\":%llu", i ? "," : "", (unsigned long long)w->offset,
      (unsigned long long)bytes);
  if (a->target) say(w->ctx, &w->views, ",\"target\":%d", a->target);
  say(w->ctx, &w->views, "}");
  say(w->ctx, &w->accessors, "%s{\"bufferView\":%d,\"componentType\":%d,\"count\":%zu,\"type\":\"%s\"", i ? "," : "", i,
      a->whole ? 5125 : 5126, a->rows, a->type);
  if (a->bounds) say_bounds(w, "min", low, a->width), say_bounds(w, "max", high, a->width);
  say(w->ctx, &w->accessors, "}");
  w->offset += bytes;
}

// One array: declared in the first walk, written in the second. Returns its number, -1 where a value is not finite.
static int add_array(Glb *w, const Array *a) {
  float low[4] = {INFINITY, INFINITY, INFINITY, INFINITY}, high[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
  for (size_t i = 0; i < a->rows; i++) {
    double x[4] = {0};
    a->row(w, a, i, x);
    for (int k = 0; k < a->width; k++) {
      float value = (float)x[k];
      if (!isfinite(value)) return -1;
      low[k] = fminf(low[k], value), high[k] = fmaxf(high[k], value);
    }
    if (w->stream) put_row(w, a, x);
  }
  if (!w->stream) say_array(w, a, low, high);
  return w->accessor_count++;
}

static int kept_frame(const Glb *w, int k) {
  return w->kept < 2 ? 0 : (int)(((int64_t)k * (w->g->frames - 1) + (w->kept - 1) / 2) / (w->kept - 1));
}
static void time_row(const Glb *w, const Array *a, size_t i, double *x) {
  *x = w->g->time[a->all ? (int)i : kept_frame(w, (int)i)];
}
// Keyframe by keyframe the weights of all targets: target k is frame k + 1.
static void weight_row(const Glb *w, const Array *a, size_t i, double *x) {
  (void)a;
  size_t targets = (size_t)w->kept - 1;
  *x = i / targets == i % targets + 1;
}
static void index_row(const Glb *w, const Array *a, size_t i, double *x) { *x = w->used[a->vertex[i]]; }
static void place_row(const Glb *w, const Array *a, size_t i, double *x) {
  size_t n = (size_t)a->part->points, v = (size_t)w->used[n + i];
  const double *from = a->part->x + 3 * v, *to = from + 3 * n * (size_t)a->frame;
  for (int k = 0; k < 3; k++) x[k] = a->frame ? to[k] - from[k] : from[k];
}
static void move_row(const Glb *w, const Array *a, size_t i, double *x) {
  (void)w;
  memcpy(x, a->part->pose + 7 * i, 3 * sizeof *x);
}
// Unit quaternions, x y z w. Signs do not matter: viewers go the short way.
static void turn_row(const Glb *w, const Array *a, size_t i, double *x) {
  (void)w;
  const double *q = a->part->pose + 7 * i + 3;
  double size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  for (int k = 0; k < 4; k++) x[k] = q[(k + 1) % 4] / size;
}

// ---- parts ----------------------------------------------------------------------------------------------------------------

// used[v]: the new number of point v, used[points + i]: the i-th point drawn.
static void number_points(Glb *w, const pbGlbPart *p) {
  const pbCells *cells[2] = {p->triangles, p->edges};
  memset(w->used, 0, (size_t)p->points * sizeof *w->used);
  w->points = 0;
  for (int c = 0; c < 2; c++)
    for (int i = 0; cells[c] && i < (3 - c) * cells[c]->count; i++) w->used[cells[c]->vertex[i]] = 1;
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
             .target = 34963,
             .vertex = cells->vertex,
             .row = index_row};
  return add_array(w, &a);
}

static void say_primitive(Glb *w, const char *comma, int mode, int indices, int places, int targets) {
  say(w->ctx, &w->meshes, "%s{\"mode\":%d,\"indices\":%d,\"attributes\":{\"POSITION\":%d},\"material\":%d", comma, mode, indices,
      places, w->mesh_count);
  if (targets) say(w->ctx, &w->meshes, ",\"targets\":[");
  for (int k = 1; k <= targets; k++) say(w->ctx, &w->meshes, "%s{\"POSITION\":%d}", k > 1 ? "," : "", places + k);
  say(w->ctx, &w->meshes, targets ? "]}" : "}");
}

static void say_channel(Glb *w, int times, int values, const char *path) {
  const char *comma = w->sampler_count ? "," : "";
  say(w->ctx, &w->samplers, "%s{\"input\":%d,\"output\":%d,\"interpolation\":\"LINEAR\"}", comma, times, values);
  say(w->ctx, &w->channels, "%s{\"sampler\":%d,\"target\":{\"node\":%d,\"path\":\"%s\"}}", comma, w->sampler_count++,
      w->node_count, path);
}

static void say_material(Glb *w, const double *c) {
  const double grey[4] = {0.7, 0.7, 0.7, 1};
  if (c[0] == 0 && c[1] == 0 && c[2] == 0 && c[3] == 0) c = grey;
  say(w->ctx, &w->materials,
      "%s{\"doubleSided\":true,\"alphaMode\":\"%s\",\"pbrMetallicRoughness\":{\"baseColorFactor\":[%.9g,%.9g,%.9g,%.9g],"
      "\"metallicFactor\":0,\"roughnessFactor\":0.8}}",
      w->mesh_count ? "," : "", c[3] < 1 ? "BLEND" : "OPAQUE", c[0], c[1], c[2], c[3]);
}

static void say_pose(Glb *w, const pbGlbPart *p) {
  double move[3], turn[4];
  Array a = {.part = p};
  move_row(w, &a, 0, move);
  turn_row(w, &a, 0, turn);
  say(w->ctx, &w->nodes, ",\"translation\":[%.9g,%.9g,%.9g],\"rotation\":[%.9g,%.9g,%.9g,%.9g]", move[0], move[1], move[2],
      turn[0], turn[1], turn[2], turn[3]);
}

static void say_part(Glb *w, const pbGlbPart *p, int triangles, int edges, int places, int targets) {
  const char *comma = w->mesh_count ? "," : "";
  say_material(w, p->colour);
  say(w->ctx, &w->meshes, "%s{\"name\":\"", comma);
  say_name(w->ctx, &w->meshes, p->name);
  say(w->ctx, &w->meshes, "\",\"primitives\":[");
  if (triangles >= 0) say_primitive(w, "", 4, triangles, places, targets);
  if (edges >= 0) say_primitive(w, triangles >= 0 ? "," : "", 1, edges, places, targets);
  say(w->ctx, &w->meshes, "]}");
  say(w->ctx, &w->nodes, "%s{\"name\":\"", comma);
  say_name(w->ctx, &w->nodes, p->name);
  say(w->ctx, &w->nodes, "\",\"mesh\":%d", w->mesh_count++);
  if (p->pose) say_pose(w, p);
  say(w->ctx, &w->nodes, "}");
}

static pbStatus not_finite(Glb *w, const pbGlbPart *p) {
  return pbContext_Fail(w->ctx, pb_not_finite, "%.400s: part '%.100s' has a place or pose that is not finite", w->path,
                        p->name ? p->name : "");
}

// All of several poses are the first, which is finite.
static bool stands_still(const Glb *w, const pbGlbPart *p) {
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
  Array move = {.type = "VEC3", .width = 3, .rows = (size_t)w->g->frames, .part = p, .row = move_row};
  Array turn = {.type = "VEC4", .width = 4, .rows = (size_t)w->g->frames, .part = p, .row = turn_row};
  w->moved = add_array(w, &move);
  w->turned = w->moved < 0 ? -1 : add_array(w, &turn);
  w->pose = p->pose;
  return w->turned >= 0;
}

static pbStatus add_part(Glb *w, const pbGlbPart *p) {
  int targets = p->pose ? 0 : w->kept - 1;
  number_points(w, p);
  if (!w->points) return pb_ok;
  int triangles = add_indices(w, p->triangles, 3), edges = add_indices(w, p->edges, 2), places = w->accessor_count;
  for (int k = 0; k <= targets; k++) {
    Array a = {.type = "VEC3",
               .width = 3,
               .rows = (size_t)w->points,
               .bounds = true,
               .target = 34962,
               .part = p,
               .frame = kept_frame(w, k),
               .row = place_row};
    if (add_array(w, &a) < 0) return not_finite(w, p);
  }
  bool moves = p->pose && !stands_still(w, p);
  if (moves && !add_pose(w, p)) return not_finite(w, p);
  if (w->stream) return pb_ok;
  if (targets) say_channel(w, w->times, w->weights, "weights");
  if (moves) say_channel(w, w->rigid_times, w->moved, "translation"), say_channel(w, w->rigid_times, w->turned, "rotation");
  say_part(w, p, triangles, edges, places, targets);
  w->node_count++;
  return pb_ok;
}

static pbStatus walk(Glb *w) {
  const pbGlb *g = w->g;
  size_t kept = (size_t)w->kept;
  w->accessor_count = 0;
  w->pose = NULL;
  Array times = {.type = "SCALAR", .width = 1, .rows = kept, .bounds = true, .row = time_row};
  Array all = {.type = "SCALAR", .width = 1, .rows = (size_t)g->frames, .bounds = true, .all = true, .row = time_row};
  Array weights = {.type = "SCALAR", .width = 1, .rows = kept * (kept - 1), .row = weight_row};
  w->times = add_array(w, &times);
  w->rigid_times = add_array(w, &all);
  if (w->times < 0 || w->rigid_times < 0) return pbContext_Fail(w->ctx, pb_not_finite, "%.400s: a time is not finite", w->path);
  if (kept > 1) w->weights = add_array(w, &weights);
  for (int i = 0; i < g->parts; i++) PB_TRY(add_part(w, &g->part[i]));
  return pb_ok;
}

// ---- file -----------------------------------------------------------------------------------------------------------------

static void say_all(Glb *w, Text *t) {
  say(w->ctx, t,
      "{\"asset\":{\"version\":\"2.0\",\"generator\":\"pullback %s\"},\"scene\":0,\"scenes\":[{\"nodes\":[%d]}],\"nodes\":[%s%s",
      pbVersion(), w->node_count, w->nodes.at, w->node_count ? "," : "");
  say(w->ctx, t, "{\"rotation\":[-0.70710678118654757,0,0,0.70710678118654757]");
  for (int i = 0; i < w->node_count; i++) say(w->ctx, t, i ? ",%d" : ",\"children\":[%d", i);
  say(w->ctx, t, w->node_count ? "]}]" : "}]");
  if (w->node_count) say(w->ctx, t, ",\"meshes\":[%s],\"materials\":[%s]", w->meshes.at, w->materials.at);
  if (w->sampler_count) say(w->ctx, t, ",\"animations\":[{\"channels\":[%s],\"samplers\":[%s]}]", w->channels.at, w->samplers.at);
  say(w->ctx, t, ",\"accessors\":[%s],\"bufferViews\":[%s],\"buffers\":[{\"byteLength\":%llu}]}", w->accessors.at, w->views.at,
      (unsigned long long)w->offset);
  while (t->at && t->length % 4) say(w->ctx, t, " ");
}

static void put32(FILE *stream, uint64_t value) {
  uint32_t word = (uint32_t)value;
  fwrite(&word, sizeof word, 1, stream);
}

static pbStatus put_file(Glb *w, const Text *json) {
  pbFile file;
  uint64_t size = 12 + 8 + json->length + 8 + w->offset;
  if (size > UINT32_MAX) return pbContext_Fail(w->ctx, pb_capacity, "%.400s: more than 4 GiB; keep fewer frames", w->path);
  PB_TRY(pbFile_Begin(w->ctx, w->path, &file));
  w->stream = file.stream;
  put32(w->stream, 0x46546C67), put32(w->stream, 2), put32(w->stream, size);
  put32(w->stream, json->length), put32(w->stream, 0x4E4F534A);
  fwrite(json->at, 1, json->length, w->stream);
  put32(w->stream, w->offset), put32(w->stream, 0x004E4942);
  pbStatus status = walk(w);
  if (status == pb_ok) return pbFile_Commit(&file);
  pbFile_Abort(&file);
  return status;
}

static pbStatus make(Glb *w, Text *json) {
  for (int i = 0; i < 7; i++) {
    *texts_of(w, i) = (Text){.at = pbContext_Alloc(w->ctx, 256), .room = 256};
    if (!texts_of(w, i)->at) return pbMesh_NoMemory(w->ctx, w->path);
  }
  PB_TRY(walk(w));
  for (int i = 0; i < 7; i++)
    if (!texts_of(w, i)->at) return pbMesh_NoMemory(w->ctx, w->path);
  *json = (Text){.at = pbContext_Alloc(w->ctx, 256), .room = 256};
  say_all(w, json);
  return json->at ? put_file(w, json) : pbMesh_NoMemory(w->ctx, w->path);
}

static bool in_range(const pbCells *cells, int nodes, int points) {
  for (int i = 0; cells && i < nodes * cells->count; i++)
    if (cells->vertex[i] < 0 || cells->vertex[i] >= points) return false;
  return true;
}

static pbStatus check(pbContext *ctx, const char *path, const pbGlb *g, int *most_points) {
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

static int frames_kept(pbContext *ctx, const char *path, const pbGlb *g) {
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
  PB_TRY(check(ctx, path, g, &most_points));
  w.kept = frames_kept(ctx, path, g);
  w.used = pbContext_AllocArray(ctx, (size_t)most_points, 2 * sizeof *w.used);
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  pbStatus status = pb_no_memory;
  if (w.used && plain) {
    locale_t before = uselocale(plain);  // of this thread alone: a point in numbers, whatever the program's language
    status = make(&w, &json);
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
