// The motion on a page: frames of a trajectory, poses and contacts in them, numbers to be plotted, and where the camera looks.
// Tests: tests/unit/test_surface.c, tests/oracle/test_train.py, tests/oracle/test_view.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elementary/elementary.h"
#include "io/view/view.h"

enum {
  MOST_FRAMES = 20000,
  MOST_INSET = 1500,
  FRAMES_PER_SECOND = 120,
  LOOKS = 256
};  // frames that the camera takes into account

static pbStatus too_long(const View *v) {
  return pbContext_Fail(v->scene->ctx, pb_capacity, "the trajectory is too long for a page");
}

// ---- frames --------------------------------------------------------------------------------------------------------

static pbStatus find_points(View *v) {
  const pbScene *scene = v->scene;
  size_t width = 3 * (size_t)pbModel_PointCount(scene->model);

  const pbArray *points = pbArrays_Find(v->trajectory, "points");
  if (!width) return pb_ok;
  if (!points || points->type != pb_arrayReal || points->ndim != 2 || points->shape[0] != v->rows || points->shape[1] != width)
    return pbContext_Fail(scene->ctx, pb_bad_input, "%s: expected 'points' of shape (N+1, %zu) for this model", v->file, width);

  v->points = points;
  PB_TRY(pbModel_PointMesh(scene->ctx, scene->model, scene->theta, &v->mesh));
  return pbMesh_Skin(scene->ctx, v->mesh, &v->skin);
}

static pbStatus check_trajectory(View *v) {
  const pbScene *scene = v->scene;
  const pbArray *qpos = pbArrays_Find(v->trajectory, "qpos");
  char text[200];
  if (!qpos)
    return pbContext_Fail(scene->ctx, pb_bad_input,
                          "%s: holds no 'qpos'; expected a trajectory, as 'pullback simulate' writes it", v->file);
  if (qpos->type != pb_arrayReal || qpos->ndim != 2 || qpos->shape[1] != (size_t)scene->nq || !qpos->shape[0]) {
    return pbContext_Fail(scene->ctx, pb_bad_input, "%s: 'qpos' %s; expected (N+1, %d) for this model", v->file,
                          pbArray_What(qpos, text, sizeof text), scene->nq);
  }

  v->rows = qpos->shape[0];
  PB_TRY(find_points(v));

  // all of it is shown, or acts on what is shown
  for (size_t i = 0; i < pbArrays_Count(v->trajectory); i++) {
    const pbArray *a = pbArrays_At(v->trajectory, i);
    if (a->type == pb_arrayReal) PB_TRY(pbArray_CheckFinite(scene->ctx, a, v->file));
  }
  return pb_ok;
}

static double row_time(const View *v, size_t row) {
  const pbArray *time = pbArrays_Find(v->trajectory, "time");
  if (time && time->type == pb_arrayReal && time->ndim == 1 && time->count == v->rows) return time->reals[row];

  // files without times: the model's steps, or just the rows
  pbParam timestep;

  bool known = pbModel_Param(v->scene->ctx, v->scene->model, "timestep", &timestep) == pb_ok;
  return known ? (double)row * v->scene->theta[timestep.offset] : (double)row;
}

// Every row, or as many per second of motion as the eye can follow.
static pbStatus choose_frames(View *v) {
  v->row_of = pbContext_Alloc(v->scene->ctx, v->rows * sizeof *v->row_of);
  v->time = pbContext_Alloc(v->scene->ctx, v->rows * sizeof *v->time);
  if (!v->row_of || !v->time) return pbScene_NoMemory(v->scene->ctx);

  // seconds between frames: what the eye can follow, or more where the page would hold too many
  size_t most = v->inset ? MOST_INSET : MOST_FRAMES;
  double span = row_time(v, v->rows - 1) - row_time(v, 0), gap = fmax(1.0 / FRAMES_PER_SECOND, span / (double)most);

  // where times do not ascend, every so many rows
  size_t stride = v->rows / most + 1;
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

static void put_contact(float *to, const pbSceneContacts *c, size_t i) {
  const double *frame = c->frame + 9 * i, *force = c->force + 6 * i;

  for (int k = 0; k < 3; k++) {
    to[k] = (float)c->pos[3 * i + (size_t)k];
    to[3 + k] = (float)frame[k];

    // from the frame's axes, which are its rows, to those of the world
    to[6 + k] = (float)(frame[k] * force[0] + frame[3 + k] * force[1] + frame[6 + k] * force[2]);
  }
  to[9] = (float)c->geom[2 * i];
  to[10] = (float)c->geom[2 * i + 1];
}

static pbStatus keep_contacts(View *v, size_t frame) {
  pbSceneContacts c = pbScene_Contacts(v->scene);
  size_t first = v->contact_start[frame], end = first + (size_t)c.count;
  v->contact_start[frame + 1] = end;

  // room grows by doubling, up to what a page can hold
  if (end > v->contact_room) {
    size_t room = 2 * end, bytes = room * VIEW_CONTACT * sizeof(float);
    float *grown = NULL;
    if (bytes <= PB_ARRAY_LIMIT / 4) grown = pbContext_Resize(v->scene->ctx, v->contacts, bytes);
    if (!grown) return pbScene_NoMemory(v->scene->ctx);
    v->contacts = grown;
    v->contact_room = room;
  }

  for (size_t i = 0; i < (size_t)c.count; i++) put_contact(v->contacts + VIEW_CONTACT * (first + i), &c, i);
  return pb_ok;
}

static pbStatus one_frame(View *v, size_t frame, double *x, double *poses) {
  pbScene *scene = v->scene;
  PB_TRY(pbScene_Observe(scene, v->trajectory, v->row_of[frame], x));
  PB_TRY(pbScene_Poses(scene, poses));

  size_t width = 7 * (size_t)scene->nbody;

  for (size_t i = 0; i < width; i++) v->poses[frame * width + i] = (float)poses[i];
  return keep_contacts(v, frame);
}

static pbStatus make_places(View *v) {
  if (!v->points) return pb_ok;

  size_t width = v->points->shape[1];
  if (v->frames * width * sizeof *v->places > PB_ARRAY_LIMIT / 4) return too_long(v);

  v->places = pbContext_Alloc(v->scene->ctx, v->frames * width * sizeof *v->places);
  if (!v->places) return pbScene_NoMemory(v->scene->ctx);

  for (size_t i = 0; i < v->frames * width; i++) {
    size_t row = v->row_of[i / width];
    v->places[i] = (float)v->points->reals[row * width + i % width];
  }
  return pb_ok;
}

static pbStatus make_poses(View *v) {
  pbScene *scene = v->scene;
  size_t count = v->frames * 7 * (size_t)scene->nbody;
  if (count * sizeof *v->poses > PB_ARRAY_LIMIT / 4) return too_long(v);

  v->poses = pbContext_Alloc(scene->ctx, count * sizeof *v->poses);
  v->contact_start = pbContext_Alloc(scene->ctx, (v->frames + 1) * sizeof *v->contact_start);
  double *x = pbContext_Alloc(scene->ctx, ((size_t)scene->nx + 7 * (size_t)scene->nbody) * sizeof *x);

  // an initial state for the fields that a trajectory does not hold
  pbStatus status = pb_no_memory;
  if (v->poses && v->contact_start && x) status = pbState_Init(scene->ctx, scene->model, scene->theta, -1, x);

  for (size_t k = 0; k < v->frames && status == pb_ok; k++) {
    status = pbScene_GoOn(scene, "frames", (int64_t)k, (int64_t)v->frames);
    if (status == pb_ok) status = one_frame(v, k, x, x + scene->nx);
  }

  pbContext_Free(scene->ctx, x);
  return status;
}

pbStatus pbView_ReadMotion(View *v) {
  PB_TRY(check_trajectory(v));
  PB_TRY(choose_frames(v));
  PB_TRY(make_poses(v));
  PB_TRY(make_places(v));
  return pbView_ReadGhost(v);
}

// ---- what the camera looks at ----------------------------------------------------------------------------------------

typedef struct Box {
  double low[3], high[3];
} Box;

static const Box empty_box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};

static void widen(Box *box, const double point[3], double radius) {
  for (int i = 0; i < 3; i++) {
    box->low[i] = fmin(box->low[i], point[i] - radius);
    box->high[i] = fmax(box->high[i], point[i] + radius);
  }
}

static double size_of(const Box *box) {
  double size = 0;

  for (int i = 0; i < 3; i++) size = fmax(size, box->high[i] - box->low[i]);
  return size;
}

// Half sides of a box around a shape in its own frame; 0 for planes.
static void half_of(const pbSceneShape *s, double half[3]) {
  // capsules and cylinders have a radius and a half length
  const double *size = s->size;

  bool round = s->type == pb_geomCapsule || s->type == pb_geomCylinder;
  double tall = s->type == pb_geomCapsule ? size[0] + size[1] : size[1];

  for (int k = 0; k < 3; k++) half[k] = s->type == pb_geomSphere ? size[0] : size[k];
  if (round) memcpy(half, (double[3]){size[0], size[0], tall}, 3 * sizeof *half);
  if (s->type == pb_geomPlane || s->type > pb_geomBox) memset(half, 0, 3 * sizeof *half);
}

// The box of a shape in the frame of its body.
static void box_of(const pbSceneShape *s, Box *box) {
  double half[3], x[3];
  *box = empty_box;

  // a mesh: all of its points
  if (s->type > pb_geomBox && s->surface >= 0) {
    for (int i = 0; i < s->look.points; i++) {
      pbScene_Rotate(x, s->surface_quat, s->look.point + 3 * i);
      for (int k = 0; k < 3; k++) x[k] += s->surface_pos[k];
      pbScene_Rotate(x, s->quat, x);
      for (int k = 0; k < 3; k++) x[k] += s->pos[k];
      widen(box, x, 0);
    }
    return;
  }

  // eight corners
  half_of(s, half);
  const double *middle = s->box, *sides = s->type > pb_geomBox ? s->box + 3 : half;

  for (int corner = 0; corner < 8; corner++) {
    for (int k = 0; k < 3; k++) x[k] = (s->type > pb_geomBox ? middle[k] : 0) + (corner >> k & 1 ? sides[k] : -sides[k]);
    pbScene_Rotate(x, s->quat, x);
    for (int k = 0; k < 3; k++) x[k] += s->pos[k];
    widen(box, x, 0);
  }
}

// Boxes of what moves with each body. Sites mark places, planes have no end: neither says how large the model is.
static void body_boxes(const View *v, Box *boxes) {
  Box box;

  for (int b = 0; b < v->scene->nbody; b++) boxes[b] = empty_box;

  for (int i = 0; i < v->shape_count; i++) {
    const pbSceneShape *s = &v->shape[i];
    if (s->site || s->type == pb_geomPlane) continue;
    box_of(s, &box);
    widen(&boxes[s->body], box.low, 0);
    widen(&boxes[s->body], box.high, 0);
  }
}

// What moves (bodies, not the world; the world where nothing else is) in one frame.
static void widen_frame(const View *v, const Box *boxes, size_t frame, int first, Box *all) {
  for (int b = first; b < v->scene->nbody; b++) {
    const float *pose = v->poses + 7 * (frame * (size_t)v->scene->nbody + (size_t)b);
    double quat[4] = {pose[3], pose[4], pose[5], pose[6]}, x[3];
    if (!(size_of(&boxes[b]) >= 0 && isfinite(size_of(&boxes[b])))) continue;

    for (int corner = 0; corner < 8; corner++) {
      for (int k = 0; k < 3; k++) x[k] = corner >> k & 1 ? boxes[b].high[k] : boxes[b].low[k];
      pbScene_Rotate(x, quat, x);
      for (int k = 0; k < 3; k++) x[k] += pose[k];
      widen(all, x, 0);
    }
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
  size_t nbody = (size_t)v->scene->nbody;
  const float *start = v->poses + 7 * body;
  double distance = 0;

  for (size_t k = 1; k < v->frames; k++) {
    const float *at = start + 7 * nbody * k;
    distance = fmax(distance, pbHypot(pbHypot((double)at[0] - start[0], (double)at[1] - start[1]), (double)at[2] - start[2]));
  }
  return distance;
}

// The body the camera may follow: the one that goes farthest, or the root of its tree if that moves along with it. 0: none moves.
static int moving_body(const View *v) {
  double most = 0;
  int far = 0;

  for (int b = 1; b < v->scene->nbody; b++) {
    double distance = distance_of(v, (size_t)b);
    if (distance > most) {
      most = distance;
      far = b;
    }
  }

  int root = pbModel_Integer(v->scene->model, "body_rootid", far);
  return root && distance_of(v, (size_t)root) > 0.5 * most ? root : far;
}

typedef struct Framing {
  double extent, center[3], floor;  // floor: height of a ground where the model has none
  int follow;

  bool following;  // from the start
} Framing;

// Shows the whole motion if it fits; if it leads far away, the model at its start, followed by the camera.
static Framing make_framing(const View *v, Box *boxes) {
  Box first = empty_box, all = empty_box;
  body_boxes(v, boxes);
  widen_frame(v, boxes, 0, 1, &first);
  widen_points(v, 0, &first);

  // what stands still counts where nothing else is there
  if (!(size_of(&first) > 1e-9)) widen_frame(v, boxes, 0, 0, &first);

  for (size_t i = 0; i < LOOKS && i < v->frames; i++) {
    size_t k = v->frames <= LOOKS ? i : i * (v->frames - 1) / (LOOKS - 1);
    widen_frame(v, boxes, k, 1, &all);
    widen_points(v, k, &all);
  }

  // a model without extent keeps the default
  Framing s = {.extent = 1, .follow = moving_body(v)};
  if (!(size_of(&first) > 1e-9 && isfinite(size_of(&first)))) return s;
  widen(&all, first.low, 0);
  widen(&all, first.high, 0);

  // far is five times the model's own size
  s.following = s.follow && size_of(&all) > 5 * size_of(&first);
  s.floor = first.low[2];

  const Box *shown = s.following ? &first : &all;
  double diagonal = 0;

  for (int i = 0; i < 3; i++) {
    s.center[i] = 0.5 * (shown->low[i] + shown->high[i]);
    diagonal = pbHypot(diagonal, shown->high[i] - shown->low[i]);
  }
  s.extent = (s.following ? 1.5 : 1) * diagonal / sqrt(2);
  return s;
}

static pbStatus put_view(const View *v, pbJson *j) {
  Box *boxes = pbContext_Alloc(v->scene->ctx, (size_t)v->scene->nbody * sizeof *boxes);
  if (!boxes) return pbScene_NoMemory(v->scene->ctx);
  Framing framing = make_framing(v, boxes);

  pbContext_Free(v->scene->ctx, boxes);

  pbJson_Number(j, "extent", framing.extent);
  pbJson_Numbers(j, "center", framing.center, 3);
  pbJson_Number(j, "floor", framing.floor);
  pbJson_Integer(j, "follow", framing.follow);
  pbJson_Bool(j, "following", framing.following);
  return pb_ok;
}

// ---- into the page -----------------------------------------------------------------------------------------------------

static void put_contacts(const View *v, pbJson *j) {
  size_t count = v->contact_start[v->frames];
  if (!count) return;

  // without velocities forces mean nothing
  const pbArray *qvel = pbArrays_Find(v->trajectory, "qvel");

  pbJson_Open(j, "contacts", '{');
  pbJson_Bool(j, "forces", qvel != NULL);

  // contacts of frame k: start[k] to start[k + 1] - 1
  pbJson_OpenLine(j, "start", '[');
  for (size_t k = 0; k <= v->frames; k++) pbJson_Integer(j, NULL, (long)v->contact_start[k]);
  pbJson_Close(j, ']');
  pbJson_Floats(j, "places", v->contacts, VIEW_CONTACT * count);
  pbJson_Close(j, '}');
}

static void put_cells(pbJson *j, const char *key, const pbCells *cells, int nodes) {
  pbJson_OpenLine(j, key, '[');
  for (int i = 0; i < cells->count * nodes; i++) pbJson_Integer(j, NULL, cells->vertex[i]);
  pbJson_Close(j, ']');
}

// Surface, edges and positions of all points, encoded as the poses are.
static void put_skin(const View *v, pbJson *j) {
  if (!v->points) return;

  pbJson_Open(j, "skin", '{');
  put_cells(j, "triangles", &v->skin, 3);
  put_cells(j, "edges", &v->mesh->cells[pb_cellEdge], 2);
  pbJson_Floats(j, "points", v->places, v->frames * v->points->shape[1]);
  pbJson_Close(j, '}');
}

// The frames of a body, if any differs from the first.
static bool pack_mover(const View *v, size_t body, float *to) {
  size_t width = 7 * (size_t)v->scene->nbody, pose = 7 * sizeof(float);
  const float *rest = v->poses + 7 * body;

  bool moves = false;

  for (size_t k = 0; k < v->frames; k++) {
    moves = moves || memcmp(rest, rest + k * width, pose) != 0;
    memcpy(to + 7 * k, rest + k * width, pose);
  }
  return moves;
}

// Bodies that keep their pose are given once: `rest` has the first frame of all, `poses` those of `movers`.
static pbStatus put_poses(const View *v, pbJson *j) {
  size_t nbody = (size_t)v->scene->nbody, movers = 0;
  float *packed = pbContext_Alloc(v->scene->ctx, v->frames * (7 * nbody + 1) * sizeof *packed);
  if (!packed) return pbScene_NoMemory(v->scene->ctx);

  pbJson_OpenLine(j, "movers", '[');
  for (size_t b = 0; b < nbody; b++) {
    // one that does not move is written over by the next
    if (!pack_mover(v, b, packed + 7 * movers * v->frames)) continue;
    pbJson_Integer(j, NULL, (long)b);
    movers++;
  }
  pbJson_Close(j, ']');

  // body by body, each with all of its frames
  pbJson_Floats(j, "rest", v->poses, 7 * nbody);
  pbJson_Floats(j, "poses", packed, movers * 7 * v->frames);

  pbContext_Free(v->scene->ctx, packed);
  return pb_ok;
}

pbStatus pbView_PutMotion(const View *v, pbJson *j) {
  pbJson_Bool(j, "moving", v->moving);
  PB_TRY(put_view(v, j));

  // what touches, what deforms, and how the bodies move
  put_contacts(v, j);
  put_skin(v, j);
  pbView_PutGhost(v, j);
  pbJson_Numbers(j, "time", v->time, v->frames);
  return put_poses(v, j);
}

// ---- numbers over time ---------------------------------------------------------------------------------------------------

// Names of the columns: of objects with their count of numbers each, from an address on.
static int address_of(const View *v, const char *address, int object, int objects, int width) {
  // behind the last: the end
  if (!address) return object;
  return object < objects ? pbModel_Integer(v->scene->model, address, object) : width;
}

static void put_names(const View *v, pbJson *j, pbObject kind, const char *count, const char *address, int width) {
  int objects = pbModel_Size(v->scene->model, count), shown = 0;
  char text[300];
  pbJson_OpenLine(j, "names", '[');

  for (int i = 0; i < objects; i++) {
    int first = address_of(v, address, i, objects, width), end = address_of(v, address, i + 1, objects, width);
    const char *given = pbModel_Name(v->scene->model, kind, i), *name = given ? given : "";

    for (int k = first; k < end && shown < width; k++, shown++) {
      int n = *name ? snprintf(text, sizeof text, "%.200s", name) : snprintf(text, sizeof text, "%d", i);
      if (end - first > 1) snprintf(text + n, sizeof text - (size_t)n, " %d", k - first);
      pbJson_Text(j, NULL, text);
    }
  }

  // what belongs to no object: controls of deformables, positions of none
  for (; shown < width; shown++) {
    snprintf(text, sizeof text, "%d", shown);
    pbJson_Text(j, NULL, text);
  }
  pbJson_Close(j, ']');
}

static pbStatus put_values(const View *v, pbJson *j, const pbArray *a, size_t width) {
  size_t count = v->frames * width, last = a->shape[0] - 1, steps = v->rows > 1 ? v->rows - 1 : 1;
  float *values = pbContext_Alloc(v->scene->ctx, count * sizeof *values);
  if (!values) return pbScene_NoMemory(v->scene->ctx);

  // inputs have a row less than states, or one for each step: the one that acts from then on
  for (size_t i = 0; i < count; i++) {
    size_t row = v->row_of[i / width];
    if (a->shape[0] > v->rows) row = row * a->shape[0] / steps;
    values[i] = (float)a->reals[(row < last ? row : last) * width + i % width];
  }
  pbJson_Floats(j, "values", values, count);

  pbContext_Free(v->scene->ctx, values);
  return pb_ok;
}

pbStatus pbView_PutSeries(const View *v, pbJson *j) {
  static const struct {
    const char *array, *title, *count, *address;
    pbObject kind;
  } series[] = {{"qpos", "position", "njnt", "jnt_qposadr", pb_objJoint},
                {"qvel", "velocity", "njnt", "jnt_dofadr", pb_objJoint},
                {"act", "activation", "na", NULL, pb_objCount},
                {"control", "control", "nu", NULL, pb_objActuator},
                {"sensordata", "sensor", "nsensor", "sensor_adr", pb_objSensor}};

  size_t kinds = v->inset ? 0 : sizeof series / sizeof *series;

  pbJson_Open(j, "series", '[');
  for (size_t i = 0; i < kinds; i++) {
    const pbArray *a = pbArrays_Find(v->trajectory, series[i].array);
    bool fits = a && a->type == pb_arrayReal && a->ndim == 2 && a->shape[0] && a->shape[1] && a->shape[0] + 1 >= v->rows;
    if (!fits) continue;

    pbJson_Open(j, NULL, '{');
    pbJson_Text(j, "title", series[i].title);
    put_names(v, j, series[i].kind, series[i].count, series[i].address, (int)a->shape[1]);
    PB_TRY(put_values(v, j, a, a->shape[1]));
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
  return pb_ok;
}
