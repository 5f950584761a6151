// pullback view: one page with the model's shapes, the motion of its bodies, and the library that draws them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scene.h"

#ifdef PB_HAVE_ASSETS
extern const char pb_asset_three_js[], pb_asset_view_html[];  // texts, empty where the file was not there at build time
#else
static const char pb_asset_three_js[] = "", pb_asset_view_html[] = "";
#endif

enum { CONTACT_WIDTH = 6 };  // place and normal
enum { MOST_FRAMES = 20000, FRAMES_PER_SECOND = 120 };

typedef struct View {
  cliRun *run;
  const pbArrays *trajectory;
  const char *file;  // its name
  const cliAside *aside;
  size_t rows, frames;
  size_t *row_of;         // of each frame
  double *time;           // of each frame
  float *poses;           // (frames, nbody, 7)
  size_t *contact_start;  // (frames + 1): first contact of each frame
  float *contacts;        // place and normal of each
  size_t contact_room;
  const pbArray *points;  // of deformables, (rows, 3 n); NULL: none
  float *places;          // (frames, 3 n): of the points
  pbMesh *mesh;
  pbCells skin;
  char *library;  // three.js where it was read at run time
} View;

static const char *file_name(const char *path) { return strrchr(path, '/') ? strrchr(path, '/') + 1 : path; }

// ---- the motion ----------------------------------------------------------------------------------------------------

static pbStatus find_points(View *v) {
  const cliRun *run = v->run;
  size_t width = 3 * (size_t)pbModel_PointCount(run->model);

  const pbArray *points = pbArrays_Find(v->trajectory, "points");
  if (!width) return pb_ok;
  if (!points || points->type != pb_arrayReal || points->ndim != 2 || points->shape[0] != v->rows || points->shape[1] != width)
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: expected 'points' of shape (N+1, %zu) for this model", v->file, width);

  v->points = points;
  PB_TRY(pbModel_PointMesh(run->ctx, run->model, run->theta, &v->mesh));
  return pbMesh_Skin(run->ctx, v->mesh, &v->skin);
}

static pbStatus check_trajectory(View *v) {
  const cliRun *run = v->run;
  const pbArray *qpos = pbArrays_Find(v->trajectory, "qpos");
  char text[200];
  if (!qpos)
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: holds no 'qpos'; expected a trajectory, as 'pullback simulate' writes it",
                          v->file);
  if (qpos->type != pb_arrayReal || qpos->ndim != 2 || qpos->shape[1] != (size_t)run->nq || !qpos->shape[0]) {
    return pbContext_Fail(run->ctx, pb_bad_input, "%s: 'qpos' has shape %s; expected (N+1, %d) for this model", v->file,
                          pbArray_ShapeText(qpos->ndim, qpos->shape, text, sizeof text), run->nq);
  }

  v->rows = qpos->shape[0];
  PB_TRY(find_points(v));

  // only what is shown has to be finite
  for (size_t i = 0; i < pbArrays_Count(v->trajectory); i++) {
    const pbArray *a = pbArrays_At(v->trajectory, i);
    if (strcmp(a->name, "qpos") == 0 || strcmp(a->name, "time") == 0 || a == v->points)
      PB_TRY(pbArray_CheckFinite(run->ctx, a, v->file));
  }
  return pb_ok;
}

static double row_time(const View *v, size_t row) {
  const pbArray *time = pbArrays_Find(v->trajectory, "time");
  if (time && time->type == pb_arrayReal && time->ndim == 1 && time->count == v->rows) return time->reals[row];

  // files without times: the model's steps, or just the rows
  pbParam timestep;
  bool known = pbModel_Param(v->run->ctx, v->run->model, "timestep", &timestep) == pb_ok;
  return known ? (double)row * v->run->theta[timestep.offset] : (double)row;
}

// Every row, or as many per second of motion as the eye can follow.
static pbStatus choose_frames(View *v) {
  v->row_of = pbContext_Alloc(v->run->ctx, v->rows * sizeof *v->row_of);
  v->time = pbContext_Alloc(v->run->ctx, v->rows * sizeof *v->time);
  if (!v->row_of || !v->time) return cli_noMemory(v->run->ctx);

  // seconds between frames: what the eye can follow, or more where the page would hold too many
  double span = row_time(v, v->rows - 1) - row_time(v, 0), gap = 1.0 / FRAMES_PER_SECOND;
  if (span * FRAMES_PER_SECOND > MOST_FRAMES) gap = span / MOST_FRAMES;

  // where times do not ascend, every so many rows
  size_t stride = v->rows / MOST_FRAMES + 1;
  double next = -INFINITY;
  for (size_t row = 0; row < v->rows; row++) {
    double time = row_time(v, row);

    // rounding of times must not cost a frame
    bool due = span > 0 ? time >= next - 1e-9 : row % stride == 0;

    // the end of the motion is always shown
    if (!due && row + 1 < v->rows) continue;
    v->row_of[v->frames] = row;
    v->time[v->frames++] = time;

    // the next frame is due one gap later, counted on a fixed grid unless rows are further apart
    next = (next == -INFINITY || time - next > gap ? time : next) + gap;
  }
  return pb_ok;
}

static pbStatus keep_contacts(View *v, size_t frame) {
  cliContacts c = cliScene_Contacts(v->run);
  size_t first = v->contact_start[frame], end = first + (size_t)c.count;
  v->contact_start[frame + 1] = end;

  // room grows by doubling, up to what a page can hold
  if (end > v->contact_room) {
    size_t room = 2 * end, bytes = room * CONTACT_WIDTH * sizeof(float);
    float *grown = NULL;
    if (bytes <= PB_ARRAY_LIMIT / 4) grown = pbContext_Resize(v->run->ctx, v->contacts, bytes);
    if (!grown) return cli_noMemory(v->run->ctx);
    v->contacts = grown;
    v->contact_room = room;
  }

  for (size_t i = 0; i < (size_t)c.count; i++) {
    float *to = v->contacts + CONTACT_WIDTH * (first + i);
    for (int k = 0; k < 3; k++) {
      to[k] = (float)c.pos[3 * i + (size_t)k];
      to[3 + k] = (float)c.frame[9 * i + (size_t)k];
    }
  }
  return pb_ok;
}

static pbStatus one_frame(View *v, size_t frame, double *x, double *poses) {
  cliRun *run = v->run;
  PB_TRY(cliScene_Observe(run, v->trajectory, v->row_of[frame], x));
  PB_TRY(cliScene_Poses(run, poses));

  size_t width = 7 * (size_t)run->nbody;
  for (size_t i = 0; i < width; i++) v->poses[frame * width + i] = (float)poses[i];
  return keep_contacts(v, frame);
}

static pbStatus make_places(View *v) {
  if (!v->points) return pb_ok;

  size_t width = v->points->shape[1];
  if (v->frames * width * sizeof *v->places > PB_ARRAY_LIMIT / 4)
    return pbContext_Fail(v->run->ctx, pb_capacity, "the trajectory is too long for a page");

  v->places = pbContext_Alloc(v->run->ctx, v->frames * width * sizeof *v->places);
  if (!v->places) return cli_noMemory(v->run->ctx);
  for (size_t i = 0; i < v->frames * width; i++) {
    size_t row = v->row_of[i / width];
    v->places[i] = (float)v->points->reals[row * width + i % width];
  }
  return pb_ok;
}

static pbStatus make_poses(View *v) {
  cliRun *run = v->run;
  size_t count = v->frames * 7 * (size_t)run->nbody;
  if (count * sizeof *v->poses > PB_ARRAY_LIMIT / 4)
    return pbContext_Fail(run->ctx, pb_capacity, "the trajectory is too long for a page");

  v->poses = pbContext_Alloc(run->ctx, count * sizeof *v->poses);
  v->contact_start = pbContext_Alloc(run->ctx, (v->frames + 1) * sizeof *v->contact_start);
  double *x = pbContext_Alloc(run->ctx, ((size_t)run->nx + 7 * (size_t)run->nbody) * sizeof *x);

  // an initial state for the fields that a trajectory does not hold
  pbStatus status = pb_no_memory;
  if (v->poses && v->contact_start && x) status = pbState_Init(run->ctx, run->model, run->theta, -1, x);
  if (status == pb_ok && !run->scratch) status = pbScratch_Create(run->ctx, run->model, NULL, &run->scratch);
  for (size_t k = 0; k < v->frames && status == pb_ok; k++) status = one_frame(v, k, x, x + run->nx);

  pbContext_Free(run->ctx, x);
  return status;
}

// ---- the page ------------------------------------------------------------------------------------------------------

// Floats as base64, least byte first on any machine (RFC 4648: three bytes give four letters, missing ones '=').
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

static void put_shape(const cliShape *s, cliJson *j) {
  cliJson_OpenLine(j, NULL, '{');
  cliJson_Text(j, "name", s->name);
  cliJson_Integer(j, "type", s->type);
  cliJson_Integer(j, "body", s->body);
  cliJson_Numbers(j, "size", s->size, 3);
  cliJson_Numbers(j, "pos", s->pos, 3);
  cliJson_Numbers(j, "quat", s->quat, 4);
  cliJson_Numbers(j, "rgba", s->rgba, 4);
  if (!s->site) cliJson_Numbers(j, "box", s->box, 6);
  cliJson_Close(j, '}');
}

static void put_shapes(const cliRun *run, const char *key, bool sites, cliJson *j) {
  cliJson_Open(j, key, '[');
  for (int i = 0; i < cliScene_Shapes(run); i++) {
    cliShape s = cliScene_Shape(run, i);
    if (s.site == sites && !s.hidden) put_shape(&s, j);
  }
  cliJson_Close(j, ']');
}

// Two ends a piece, each fixed to a body.
static void put_tendon(const cliRun *run, int t, int segments, const double rgba[4], cliJson *j) {
  cliStation end[2];

  cliJson_OpenLine(j, NULL, '{');
  cliJson_Text(j, "name", pbModel_Name(run->model, pb_objTendon, t));
  cliJson_Number(j, "width", run->drawn.tendon_width[t]);
  cliJson_Numbers(j, "rgba", rgba, 4);

  cliJson_OpenLine(j, "bodies", '[');
  for (int k = 0; k < segments; k++) {
    cliTendon_Segment(run, t, k, end);
    cliJson_Integer(j, NULL, end[0].body);
    cliJson_Integer(j, NULL, end[1].body);
  }
  cliJson_Close(j, ']');

  // where the pieces end, in the frames of these bodies
  cliJson_OpenLine(j, "points", '[');
  for (int k = 0; k < segments; k++) {
    cliTendon_Segment(run, t, k, end);
    for (int i = 0; i < 6; i++) cliJson_Number(j, NULL, end[i / 3].at[i % 3]);
  }
  cliJson_Close(j, ']');
  cliJson_Close(j, '}');
}

static void put_tendons(const cliRun *run, cliJson *j) {
  cliJson_Open(j, "tendons", '[');
  for (int t = 0; t < run->drawn.ntendon; t++) {
    double rgba[4];
    int segments = cliTendon_Segments(run, t);
    cliTendon_Color(run, t, rgba);
    if (segments && rgba[3] > 0) put_tendon(run, t, segments, rgba, j);
  }
  cliJson_Close(j, ']');
}

static void put_contacts(const View *v, cliJson *j) {
  size_t count = v->contact_start[v->frames];
  if (!count) return;

  cliJson_Open(j, "contacts", '{');
  cliJson_OpenLine(j, "start", '[');

  // contacts of frame k: start[k] to start[k + 1] - 1
  for (size_t k = 0; k <= v->frames; k++) cliJson_Integer(j, NULL, (long)v->contact_start[k]);
  cliJson_Close(j, ']');

  fputs(",\n    \"places\": ", j->out);
  put_base64(j->out, v->contacts, CONTACT_WIDTH * count);
  cliJson_Close(j, '}');
}

// ---- the scene: what the camera looks at -----------------------------------------------------------------------------

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

// Radius of a ball around a shape; 0 for planes.
static double radius_of(int type, const double *size, const double *box) {
  switch (type) {
    case pb_geomPlane: return 0;
    case pb_geomSphere: return size[0];
    case pb_geomCapsule: return size[0] + size[1];
    case pb_geomEllipsoid: return fmax(size[0], fmax(size[1], size[2]));
    case pb_geomCylinder: return hypot(size[0], size[1]);
    case pb_geomBox: return sqrt(size[0] * size[0] + size[1] * size[1] + size[2] * size[2]);
    default: return box ? hypot(hypot(box[0], box[1]), box[2]) + hypot(hypot(box[3], box[4]), box[5]) : 0;
  }
}

// What moves (shapes of bodies, not of the world) in one frame.
static void widen_frame(const View *v, size_t frame, Box *box) {
  const cliRun *run = v->run;
  for (int i = 0; i < cliScene_Shapes(run); i++) {
    cliShape s = cliScene_Shape(run, i);

    // sites mark places, planes have no end: neither says how large the model is
    double radius = s.site ? 0 : radius_of(s.type, s.size, s.box);
    if (!s.body || !(radius > 0 && isfinite(radius))) continue;

    const float *pose = v->poses + 7 * (frame * (size_t)run->nbody + (size_t)s.body);
    double quat[4] = {pose[3], pose[4], pose[5], pose[6]}, center[3];
    cli_rotate(center, quat, s.pos);
    for (int k = 0; k < 3; k++) center[k] += pose[k];
    widen(box, center, radius);
  }
}

static void widen_cells(const double *x, const pbCells *cells, int nodes, Box *box) {
  for (int i = 0; i < cells->count * nodes; i++) widen(box, x + 3 * cells->vertex[i], 0);
}

// What is drawn of deformables: surface and edges, or all points where there are neither.
static void widen_points(const View *v, size_t frame, Box *box) {
  if (!v->points) return;

  const double *x = v->points->reals + v->row_of[frame] * v->points->shape[1];
  const pbCells *edges = &v->mesh->cells[pb_cellEdge];
  widen_cells(x, &v->skin, 3, box);
  widen_cells(x, edges, 2, box);
  if (v->skin.count || edges->count) return;

  for (int i = 0; i < v->mesh->points; i++) widen(box, x + 3 * i, 0);
}

// Largest distance of a body from where it was at the start.
static double distance_of(const View *v, size_t body) {
  size_t nbody = (size_t)v->run->nbody;
  const float *start = v->poses + 7 * body;
  double distance = 0;

  for (size_t k = 1; k < v->frames; k++) {
    const float *at = start + 7 * nbody * k;
    distance = fmax(distance, hypot(hypot((double)at[0] - start[0], (double)at[1] - start[1]), (double)at[2] - start[2]));
  }
  return distance;
}

// The body the camera may follow: the one that goes farthest, or the root of its tree if that moves along with it. 0: none moves.
static int moving_body(const View *v) {
  double most = 0;
  int far = 0;
  for (int b = 1; b < v->run->nbody; b++) {
    double distance = distance_of(v, (size_t)b);
    if (distance > most) {
      most = distance;
      far = b;
    }
  }

  int root = cliModel_Integer(v->run->model, "body_rootid", far);
  return root && distance_of(v, (size_t)root) > 0.5 * most ? root : far;
}

typedef struct Scene {
  double extent, center[3];
  int follow;
  bool following;  // from the start
} Scene;

// Shows the whole motion if it fits; if it leads far away, the model at its start, followed by the camera.
static Scene make_scene(const View *v) {
  Box first = empty_box, all = empty_box;
  widen_frame(v, 0, &first);
  widen_points(v, 0, &first);
  for (size_t k = 0; k < v->frames; k++) {
    widen_frame(v, k, &all);
    widen_points(v, k, &all);
  }

  // a model without extent keeps the default
  Scene s = {.extent = 1, .follow = moving_body(v)};
  if (!(size_of(&first) > 1e-9)) return s;

  // far is five times the model's own size
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

// Surface, edges and positions of all points, encoded as the poses are.
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

static void put_aside(const cliAside *aside, cliJson *j) {
  cliJson_Open(j, "aside", '{');
  cliJson_Text(j, "title", aside->title);
  cliJson_Text(j, "text", aside->text);
  cliJson_Text(j, "axis", aside->axis);

  cliJson_Open(j, "curves", '[');
  for (int i = 0; i < aside->curves; i++) {
    const cliCurve *c = &aside->curve[i];
    cliJson_OpenLine(j, NULL, '{');
    cliJson_Text(j, "name", c->name);
    cliJson_Numbers(j, "x", c->x, (size_t)c->count);
    cliJson_Numbers(j, "y", c->y, (size_t)c->count);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
  if (aside->instead) cliJson_Text(j, "instead", aside->instead);
  cliJson_Close(j, '}');
}

static void put_motion(const View *v, cliJson *j) {
  const cliRun *run = v->run;
  Scene scene = make_scene(v);
  cliJson_Number(j, "extent", scene.extent);
  cliJson_Numbers(j, "center", scene.center, 3);
  cliJson_Integer(j, "follow", scene.follow);
  cliJson_Bool(j, "following", scene.following);

  cliJson_OpenLine(j, "bodies", '[');
  for (int b = 0; b < run->nbody; b++) cliJson_Text(j, NULL, pbModel_Name(run->model, pb_objBody, b));
  cliJson_Close(j, ']');

  // what is drawn, each in the frame of its body
  put_shapes(run, "geoms", false, j);
  put_shapes(run, "sites", true, j);
  put_tendons(run, j);
  put_contacts(v, j);
  put_skin(v, j);

  // and how the bodies move
  cliJson_Numbers(j, "time", v->time, v->frames);
  fputs(",\n  \"poses\": ", j->out);
  put_base64(j->out, v->poses, v->frames * 7 * (size_t)run->nbody);
}

static void put_data(const View *v, FILE *out) {
  cliJson j = {.out = out};
  cliJson_Open(&j, NULL, '{');
  cliJson_Text(&j, "title", file_name(v->run->model_path));
  cliJson_Text(&j, "version", pbVersion());
  if (v->aside) put_aside(v->aside, &j);
  if (v->frames) put_motion(v, &j);
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
      // braces of the page's own scripts
      fwrite(at, 1, 2, out);
      at += 2;
    }
  }
}

// The whole of a file, zero-terminated; NULL where it cannot be read or is longer than any script.
static char *read_text(pbContext *ctx, const char *path) {
  enum { MOST_SCRIPT = 16 << 20 };
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;

  bool good = fseek(file, 0, SEEK_END) == 0;
  long size = good ? ftell(file) : -1;
  good = size >= 0 && size <= MOST_SCRIPT && fseek(file, 0, SEEK_SET) == 0;
  char *text = good ? pbContext_Alloc(ctx, (size_t)size + 1) : NULL;

  if (text && fread(text, 1, (size_t)size, file) != (size_t)size) {
    pbContext_Free(ctx, text);
    text = NULL;
  }
  fclose(file);
  return text;
}

static pbStatus find_library(View *v, const char **library) {
  static const char *const paths[] = {"/usr/share/javascript/three/three.min.js", "/usr/share/nodejs/three/build/three.min.js"};
  *library = pb_asset_three_js;
  if (!pb_asset_view_html[0])
    return pbContext_Fail(v->run->ctx, pb_unsupported, "this program was built without the page of the viewer");

  // built into the program, else where Debian's package has it
  if (**library) return pb_ok;

  for (size_t i = 0; i < sizeof paths / sizeof *paths && !v->library; i++) v->library = read_text(v->run->ctx, paths[i]);
  if (v->library) {
    *library = v->library;
    return pb_ok;
  }

  return pbContext_Fail(v->run->ctx, pb_file,
                        "three.js not found: it was missing when the program was built, and %s does not exist "
                        "(Debian: apt install libjs-three)",
                        paths[0]);
}

// Without the library a page still says what stands beside the motion, and why there is none.
static pbStatus put_view(View *v, FILE *out) {
  const char *library = NULL;
  cliAside without;
  pbStatus status = find_library(v, &library);
  if (status == pb_file && v->aside) {
    without = *v->aside;
    without.instead = pbContext_Error(v->run->ctx);
    v->aside = &without;
    put_page(v, pb_asset_view_html, "", out);
    return pb_ok;
  }
  PB_TRY(status);

  if (v->trajectory) {
    cliScene_Begin(v->run);
    PB_TRY(check_trajectory(v));
    PB_TRY(choose_frames(v));
    PB_TRY(make_poses(v));
    PB_TRY(make_places(v));
  }
  put_page(v, pb_asset_view_html, v->trajectory ? library : "", out);
  return pb_ok;
}

pbStatus cliPage_Put(cliRun *run, const pbArrays *trajectory, const char *file, const cliAside *aside, FILE *out) {
  View v = {.run = run, .trajectory = trajectory, .file = file, .aside = aside};
  pbStatus status = put_view(&v, out);

  pbContext_Free(run->ctx, v.row_of);
  pbContext_Free(run->ctx, v.time);
  pbContext_Free(run->ctx, v.poses);
  pbContext_Free(run->ctx, v.contact_start);
  pbContext_Free(run->ctx, v.contacts);
  pbContext_Free(run->ctx, v.places);
  pbCells_Clear(run->ctx, &v.skin);
  pbMesh_Destroy(v.mesh);
  pbContext_Free(run->ctx, v.library);
  return status;
}

static pbStatus write_view(cliRun *run, pbArrays **trajectory) {
  const char *file = run->app->args.positional[1];
  PB_TRY(pbArrays_Load(run->ctx, file, trajectory));

  char *page = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&page, &size);
  if (!stream) return cli_noMemory(run->ctx);
  pbStatus status = cliPage_Put(run, *trajectory, file, NULL, stream);
  if (status == pb_ok) return cli_saveText(run->app, run->app->args.text[opt_output], stream, &page, &size);

  fclose(stream);
  free(page);
  return status;
}

pbStatus cliView_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *trajectory = NULL;
  pbStatus status = cliRun_Model(app, &run);
  if (status == pb_ok) status = write_view(&run, &trajectory);

  pbArrays_Destroy(trajectory);
  cliRun_End(&run);
  return status;
}
