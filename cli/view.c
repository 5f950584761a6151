// pullback view: one page with the model's shapes, the motion of its bodies, and the library that draws them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "cli.h"
#include "math/vec.h"

#ifdef PB_HAVE_ASSETS
extern const char pb_asset_three_js[], pb_asset_view_html[];  // texts, empty where the file was not there at build time
#else
static const char pb_asset_three_js[] = "", pb_asset_view_html[] = "";
#endif

enum { MOST_FRAMES = 20000, FRAMES_PER_SECOND = 120 };

typedef struct View {
  cliRun *run;
  pbArrays *trajectory;
  size_t rows, frames;
  size_t *row_of;         // of each frame
  double *time;           // of each frame
  float *poses;           // (frames, nbody, 7)
  const pbArray *points;  // of deformables, (rows, 3 n); NULL: none
  float *places;          // (frames, 3 n): of the points
  pbMesh *mesh;
  pbCells skin;
  char *library;  // three.js where it was read at run time
} View;

static const char *file_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "out of memory"); }

// ---- the motion ----------------------------------------------------------------------------------------------------

static const pbArray *state_array(const View *v, const pbStateField *field) {
  const pbArray *a = pbArrays_Find(v->trajectory, field->name);
  bool is_time = strcmp(field->name, "time") == 0;
  if (!a || a->type != pb_arrayReal || a->ndim != (is_time ? 1 : 2)) return NULL;
  return is_time || a->shape[1] == (size_t)field->size ? a : NULL;
}

static pbStatus load_points(View *v, const char *file) {
  const cliRun *run = v->run;
  size_t width = 3 * (size_t)pbModel_PointCount(run->model);
  const pbArray *points = pbArrays_Find(v->trajectory, "points");
  if (!width) return pb_ok;
  if (!points || points->type != pb_arrayReal || points->ndim != 2 || points->shape[0] != v->rows || points->shape[1] != width)
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: 'points' of shape (N+1, %zu) are expected for this model", file, width);
  v->points = points;
  PB_TRY(pbModel_PointMesh(run->ctx, run->model, run->theta, &v->mesh));
  return pbMesh_Skin(run->ctx, v->mesh, &v->skin);
}

static pbStatus load_trajectory(View *v) {
  const cliRun *run = v->run;
  const char *file = run->app->args.positional[1];
  PB_TRY(pbArrays_Load(run->ctx, file, &v->trajectory));
  const pbArray *qpos = pbArrays_Find(v->trajectory, "qpos");
  char text[200];
  if (!qpos)
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: holds no 'qpos'; a trajectory is what 'pullback simulate' writes", file);
  if (qpos->type != pb_arrayReal || qpos->ndim != 2 || qpos->shape[1] != (size_t)run->nq || !qpos->shape[0]) {
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: 'qpos' has shape %s; (N+1, %d) is expected for this model", file,
                          pbArray_ShapeText(qpos->ndim, qpos->shape, text, sizeof text), run->nq);
  }
  v->rows = qpos->shape[0];
  PB_TRY(load_points(v, file));
  for (size_t i = 0; i < pbArrays_Count(v->trajectory); i++) {
    const pbArray *a = pbArrays_At(v->trajectory, i);
    if (strcmp(a->name, "qpos") == 0 || strcmp(a->name, "time") == 0 || a == v->points)
      PB_TRY(pbArray_CheckFinite(run->ctx, a, file));
  }
  return pb_ok;
}

static double row_time(const View *v, size_t row) {
  const pbArray *time = pbArrays_Find(v->trajectory, "time");
  if (time && time->type == pb_arrayReal && time->ndim == 1 && time->count == v->rows) return time->reals[row];
  pbParam timestep;
  return pbModel_Param(v->run->ctx, v->run->model, "timestep", &timestep) == pb_ok ? (double)row * v->run->theta[timestep.offset]
                                                                                   : (double)row;
}

// Every row, or as many as an eye can follow.
static pbStatus choose_frames(View *v) {
  v->row_of = pbContext_Alloc(v->run->ctx, v->rows * sizeof *v->row_of);
  v->time = pbContext_Alloc(v->run->ctx, v->rows * sizeof *v->time);
  if (!v->row_of || !v->time) return no_memory(v->run->ctx);
  double span = row_time(v, v->rows - 1) - row_time(v, 0), gap = 1.0 / FRAMES_PER_SECOND;
  if (span * FRAMES_PER_SECOND > MOST_FRAMES) gap = span / MOST_FRAMES;
  size_t stride = v->rows / MOST_FRAMES + 1;  // where times do not ascend
  double next = -INFINITY;
  for (size_t row = 0; row < v->rows; row++) {
    double time = row_time(v, row);
    bool due = span > 0 ? time >= next - 1e-9 : row % stride == 0;
    if (!due && row + 1 < v->rows) continue;
    v->row_of[v->frames] = row;
    v->time[v->frames++] = time;
    next = (next == -INFINITY || time - next > gap ? time : next) + gap;
  }
  return pb_ok;
}

static void state_of_row(const View *v, size_t row, double *x) {
  for (int i = 0; i < pbModel_StateFieldCount(v->run->model); i++) {
    pbStateField f = pbModel_StateFieldAt(v->run->model, i);
    const pbArray *a = state_array(v, &f);
    size_t size = (size_t)f.size;
    if (strcmp(f.name, "qpos") != 0 && strcmp(f.name, "time") != 0) continue;  // poses follow from these alone
    if (a && size && (row + 1) * size <= a->count) memcpy(x + f.offset, a->reals + row * size, size * sizeof *x);
  }
}

static pbStatus one_frame(const View *v, size_t frame, double *x) {
  cliRun *run = v->run;
  pbInput none = {0};
  state_of_row(v, v->row_of[frame], x);
  pbStatus status = pbStep_Observe(run->model, run->theta, x, &none, run->scratch, NULL);
  if (status != pb_ok) return cliRun_StepFailed(run, status, (long)v->row_of[frame]);
  pbScratch_Gather(run->scratch);
  const double *pos = NULL, *quat = NULL;
  int rows = 0, cols = 0;
  if (!pbScratch_Field(run->scratch, "xpos", &pos, &rows, &cols) ||
      !pbScratch_Field(run->scratch, "xquat", &quat, &rows, &cols)) {
    return pbContext_Fail(run->ctx, pb_unsupported, "the poses of bodies are not to be had");
  }
  float *out = v->poses + frame * 7 * (size_t)run->nbody;
  for (int b = 0; b < run->nbody; b++, out += 7) {
    for (int i = 0; i < 3; i++) out[i] = (float)pos[3 * b + i];
    for (int i = 0; i < 4; i++) out[3 + i] = (float)quat[4 * b + i];
  }
  return pb_ok;
}

static pbStatus make_places(View *v) {
  if (!v->points) return pb_ok;
  size_t width = v->points->shape[1];
  if (v->frames * width * sizeof *v->places > PB_ARRAY_LIMIT / 4)
    return pbContext_Fail(v->run->ctx, pb_capacity, "the trajectory is too long for a page");
  v->places = pbContext_Alloc(v->run->ctx, v->frames * width * sizeof *v->places);
  if (!v->places) return no_memory(v->run->ctx);
  for (size_t i = 0; i < v->frames * width; i++) v->places[i] = (float)v->points->reals[v->row_of[i / width] * width + i % width];
  return pb_ok;
}

static pbStatus make_poses(View *v) {
  cliRun *run = v->run;
  size_t count = v->frames * 7 * (size_t)run->nbody;
  if (count * sizeof *v->poses > PB_ARRAY_LIMIT / 4)
    return pbContext_Fail(run->ctx, pb_capacity, "the trajectory is too long for a page");
  v->poses = pbContext_Alloc(run->ctx, count * sizeof *v->poses);
  double *x = pbContext_Alloc(run->ctx, (size_t)run->nx * sizeof *x);
  pbStatus status = v->poses && x ? pbState_Init(run->ctx, run->model, run->theta, -1, x) : no_memory(run->ctx);
  if (status == pb_ok) status = pbScratch_Create(run->ctx, run->model, NULL, &run->scratch);
  for (size_t k = 0; k < v->frames && status == pb_ok; k++) status = one_frame(v, k, x);
  pbContext_Free(run->ctx, x);
  return status;
}

// ---- the page ------------------------------------------------------------------------------------------------------

// A float as base64 wants it: least byte first, on any machine.
static void put_base64(FILE *out, const float *values, size_t count) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned char three[3];
  int held = 0;
  fputc('"', out);
  for (size_t i = 0; i < 4 * count; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i / 4], sizeof bits);
    three[held++] = (unsigned char)(bits >> (8 * (i % 4)));
    if (held < 3 && i + 1 < 4 * count) continue;
    for (int k = held; k < 3; k++) three[k] = 0;
    uint32_t group = (uint32_t)three[0] << 16 | (uint32_t)three[1] << 8 | three[2];
    for (int k = 0; k < 4; k++) fputc(k <= held ? letters[group >> (18 - 6 * k) & 63] : '=', out);
    held = 0;
  }
  fputc('"', out);
}

static const double *real_row(const cliRun *run, const char *name, int row, int cols) {
  pbParam p;
  pbField f;
  if (pbModel_Param(run->ctx, run->model, name, &p) == pb_ok && p.cols == cols)
    return run->theta + p.offset + (size_t)row * (size_t)cols;
  if (pbModel_Field(run->model, name, &f) && f.reals && f.cols == cols && row < f.rows)
    return f.reals + (size_t)row * (size_t)cols;
  return NULL;
}

static void numbers_or(cliJson *j, const char *key, const double *values, const double *other, size_t count) {
  cliJson_Numbers(j, key, values ? values : other, count);
}

static void put_geoms(const cliRun *run, cliJson *j) {
  static const double zero[6] = {0}, grey[4] = {0.5, 0.5, 0.5, 1}, unit[4] = {1, 0, 0, 0};
  pbField type, body;
  cliJson_Open(j, "geoms", '[');
  bool known = pbModel_Field(run->model, "geom_type", &type) && pbModel_Field(run->model, "geom_bodyid", &body);
  for (int i = 0; known && i < type.rows; i++) {
    cliJson_OpenLine(j, NULL, '{');
    cliJson_Integer(j, "type", type.integers[i]);
    cliJson_Integer(j, "body", body.integers[i]);
    numbers_or(j, "size", real_row(run, "geom_size", i, 3), zero, 3);
    numbers_or(j, "pos", real_row(run, "geom_pos", i, 3), zero, 3);
    numbers_or(j, "quat", real_row(run, "geom_quat", i, 4), unit, 4);
    numbers_or(j, "rgba", real_row(run, "geom_rgba", i, 4), grey, 4);
    numbers_or(j, "box", real_row(run, "geom_aabb", i, 6), zero, 6);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
}

// ---- the scene: where the camera looks from ------------------------------------------------------------------------

typedef struct Box {
  double low[3], high[3];
} Box;

static const Box empty_box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};

static void widen(Box *box, const double center[3], double radius) {
  for (int i = 0; i < 3; i++) {
    box->low[i] = fmin(box->low[i], center[i] - radius);
    box->high[i] = fmax(box->high[i], center[i] + radius);
  }
}

static double size_of(const Box *box) {
  double size = 0;
  for (int i = 0; i < 3; i++) size = fmax(size, box->high[i] - box->low[i]);
  return size;
}

// A ball around a shape; 0 for what has no end.
static double radius_of(int type, const double *size, const double *box) {
  switch (type) {
    case 0: return 0;
    case 2: return size[0];
    case 3: return size[0] + size[1];
    case 4: return fmax(size[0], fmax(size[1], size[2]));
    case 5: return hypot(size[0], size[1]);
    case 6: return sqrt(size[0] * size[0] + size[1] * size[1] + size[2] * size[2]);
    default: return box ? hypot(hypot(box[0], box[1]), box[2]) + hypot(hypot(box[3], box[4]), box[5]) : 0;
  }
}

// What moves (shapes of bodies, not of the world) in one frame.
static void widen_frame(const View *v, size_t frame, Box *box) {
  pbField type, body;
  const cliRun *run = v->run;
  if (!pbModel_Field(run->model, "geom_type", &type) || !pbModel_Field(run->model, "geom_bodyid", &body)) return;
  for (int g = 0; g < type.rows; g++) {
    const double *size = real_row(run, "geom_size", g, 3), *at = real_row(run, "geom_pos", g, 3);
    double radius = size ? radius_of(type.integers[g], size, real_row(run, "geom_aabb", g, 6)) : 0;
    if (!body.integers[g] || !at || !(radius > 0 && isfinite(radius))) continue;
    const float *pose = v->poses + 7 * (frame * (size_t)run->nbody + (size_t)body.integers[g]);
    double quat[4] = {pose[3], pose[4], pose[5], pose[6]}, center[3];
    quat_rotate(center, quat, at);
    for (int i = 0; i < 3; i++) center[i] += pose[i];
    widen(box, center, radius);
  }
}

static void widen_cells(const double *x, const pbCells *cells, int nodes, Box *box) {
  for (int i = 0; i < cells->count * nodes; i++) widen(box, x + 3 * cells->vertex[i], 0);
}

// What is drawn of deformables; of points alone all.
static void widen_points(const View *v, size_t frame, Box *box) {
  if (!v->points) return;
  const double *x = v->points->reals + v->row_of[frame] * v->points->shape[1];
  const pbCells *edges = &v->mesh->cells[pb_cellEdge];
  widen_cells(x, &v->skin, 3, box);
  widen_cells(x, edges, 2, box);
  for (int i = 0; !v->skin.count && !edges->count && i < v->mesh->points; i++) widen(box, x + 3 * i, 0);
}

// The body the camera may follow: the first that moves.
static int moving_body(const View *v) {
  size_t nbody = (size_t)v->run->nbody, last = (v->frames - 1) * 7 * nbody;
  for (size_t b = 1; b < nbody; b++) {
    for (size_t i = 0; i < 3; i++) {
      if (v->poses[7 * b + i] != v->poses[last + 7 * b + i]) return (int)b;
    }
  }
  return 0;
}

typedef struct Scene {
  double extent, center[3];
  int follow;
  bool following;  // from the start
} Scene;

// All of the motion where it fits; where it leads far away, the model at its start, which the camera then follows.
static Scene make_scene(const View *v) {
  Box first = empty_box, all = empty_box;
  widen_frame(v, 0, &first), widen_points(v, 0, &first);
  for (size_t k = 0; k < v->frames; k++) widen_frame(v, k, &all), widen_points(v, k, &all);
  Scene s = {.extent = 1, .follow = moving_body(v)};
  if (!(size_of(&first) > 1e-9)) return s;
  s.following = s.follow && size_of(&all) > 5 * size_of(&first);
  const Box *shown = s.following ? &first : &all;
  s.extent = (s.following ? 2 : 1) * size_of(shown);
  for (int i = 0; i < 3; i++) s.center[i] = 0.5 * (shown->low[i] + shown->high[i]);
  return s;
}

static void put_cells(cliJson *j, const char *key, const pbCells *cells, int nodes) {
  cliJson_OpenLine(j, key, '[');
  for (int i = 0; i < cells->count * nodes; i++) cliJson_Integer(j, NULL, cells->vertex[i]);
  cliJson_Close(j, ']');
}

// Surface, edges and places of all points, as the poses.
static void put_skin(const View *v, cliJson *j) {
  if (!v->points) return;
  size_t width = v->points->shape[1];
  cliJson_Open(j, "skin", '{');
  put_cells(j, "triangles", &v->skin, 3);
  put_cells(j, "edges", &v->mesh->cells[pb_cellEdge], 2);
  fputs(",\n    \"points\": ", j->out);
  put_base64(j->out, v->places, v->frames * width);
  cliJson_Close(j, '}');
}

static void put_data(const View *v, FILE *out) {
  const cliRun *run = v->run;
  Scene scene = make_scene(v);
  cliJson j = {.out = out};
  cliJson_Open(&j, NULL, '{');
  cliJson_Text(&j, "title", file_name(run->model_path));
  cliJson_Text(&j, "version", pbVersion());
  cliJson_Number(&j, "extent", scene.extent);
  cliJson_Numbers(&j, "center", scene.center, 3);
  cliJson_Integer(&j, "follow", scene.follow);
  cliJson_Bool(&j, "following", scene.following);
  cliJson_OpenLine(&j, "bodies", '[');
  for (int b = 0; b < run->nbody; b++) cliJson_Text(&j, NULL, pbModel_Name(run->model, pb_objBody, b));
  cliJson_Close(&j, ']');
  put_geoms(run, &j);
  put_skin(v, &j);
  cliJson_Numbers(&j, "time", v->time, v->frames);
  fputs(",\n  \"poses\": ", out);
  put_base64(out, v->poses, v->frames * 7 * (size_t)run->nbody);
  cliJson_Close(&j, '}');
}

static void put_html_text(FILE *out, const char *text) {
  for (; *text; text++) {
    switch (*text) {
      case '<': fputs("&lt;", out); break;
      case '>': fputs("&gt;", out); break;
      case '&': fputs("&amp;", out); break;
      case '"': fputs("&quot;", out); break;
      default: fputc(*text, out);
    }
  }
}

// The page is a text with {{title}}, {{three}} and {{data}} in it.
static void put_page(const View *v, const char *page, const char *library, FILE *out) {
  for (const char *at = page; *at;) {
    const char *mark = strstr(at, "{{");
    if (!mark) mark = at + strlen(at);
    fwrite(at, 1, (size_t)(mark - at), out);
    at = mark;
    if (strncmp(at, "{{title}}", 9) == 0) {
      put_html_text(out, file_name(v->run->model_path));
      at += 9;
    } else if (strncmp(at, "{{three}}", 9) == 0) {
      fputs(library, out);
      at += 9;
    } else if (strncmp(at, "{{data}}", 8) == 0) {
      put_data(v, out);
      at += 8;
    } else if (*at) {
      fwrite(at, 1, 2, out);
      at += 2;
    }
  }
}

static pbStatus find_library(View *v, const char **library) {
  static const char *const places[] = {"/usr/share/javascript/three/three.min.js", "/usr/share/nodejs/three/build/three.min.js"};
  *library = pb_asset_three_js;
  if (!pb_asset_view_html[0])
    return pbContext_Fail(v->run->ctx, pb_unsupported, "this program was built without the page of the viewer");
  if (**library) return pb_ok;
  size_t length = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (pbFile_ReadAll(v->run->ctx, places[i], (size_t)16 << 20, &v->library, &length) == pb_ok)
      return *library = v->library, pb_ok;
  }
  return pbContext_Fail(v->run->ctx, pb_file,
                        "three.js is not there: it was missing when the program was built, and %s does not exist "
                        "(Debian: apt install libjs-three)",
                        places[0]);
}

static pbStatus view(View *v) {
  const char *library = NULL;
  PB_TRY(find_library(v, &library));
  PB_TRY(load_trajectory(v));
  PB_TRY(choose_frames(v));
  PB_TRY(make_poses(v));
  PB_TRY(make_places(v));
  pbFile file;
  cliSignals_Hold();
  pbStatus status = pbFile_Begin(v->run->ctx, v->run->app->args.text[opt_output], &file);
  if (status == pb_ok) {
    put_page(v, pb_asset_view_html, library, file.stream);
    status = pbFile_Commit(&file);
  }
  cliSignals_Release();
  return status;
}

pbStatus cliView_Run(cliApp *app) {
  cliRun run = {0};
  View v = {.run = &run};
  pbStatus status = cliRun_Model(app, &run);
  if (status == pb_ok) status = view(&v);
  pbArrays_Destroy(v.trajectory);
  pbContext_Free(app->ctx, v.row_of);
  pbContext_Free(app->ctx, v.time);
  pbContext_Free(app->ctx, v.poses);
  pbContext_Free(app->ctx, v.places);
  pbCells_Clear(app->ctx, &v.skin);
  pbMesh_Destroy(v.mesh);
  pbContext_Free(app->ctx, v.library);
  cliRun_End(&run);
  return status;
}
