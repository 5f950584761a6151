// A motion as files for other programs: VTU series and glTF. Deformables with their points; geoms, sites and tendons with their
// bodies.
// Tests: tests/oracle/test_view.py.
#include <math.h>
#include <string.h>

#include "elementary/elementary.h"
#include "io/view/scene.h"

enum { CONTACT_WIDTH = 9, NAME_SIZE = 160 };  // a contact: position, normal, distance, two geoms

// Numbers of the cells of rigid parts; -1 where a cell is of another kind.
enum { CELL_BODY, CELL_GEOM, CELL_SITE, CELL_TENDON, CELL_RGBA, CELL_ARRAYS };

struct pbMotion {
  pbContext *ctx;
  pbScene scene;
  const pbArrays *set;
  const pbArray *time, *points, *velocity;  // the latter two NULL without deformables
  pbMesh *mesh;                             // of deformables
  pbCells skin;
  size_t frames;
  double far;           // half the size of planes without end
  double *pose;         // bodies x frames x 7
  size_t *first;        // frames + 1: first contact of each frame
  double *contact;      // of all frames
  size_t contact_room;  // contacts
  int shapes;           // that are drawn
  pbSceneShape *shape;
  pbMesh **surface;               // of each, in the frame of its body
  int points_of_tendons, pieces;  // pieces: straight ones, between two of the points
  double *path;                   // frames x points_of_tendons x 3, tendon by tendon
  pbMesh *rigid;                  // all in one: the tendons' pieces, then the shapes
  double *cell[CELL_ARRAYS];
};

static pbStatus no_memory(const pbMotion *m) {
  return pbContext_Fail(m->scene.ctx, pb_no_memory, "out of memory for the motion");
}

static void *take(const pbMotion *m, size_t count, size_t size) { return pbContext_Alloc(m->scene.ctx, (count + 1) * size); }

// ---- what moves -------------------------------------------------------------------------------------------------------

static const double *pose_of(const pbMotion *m, int body, size_t frame) {
  return m->pose + 7 * ((size_t)body * m->frames + frame);
}

static void move_point(const double *pose, const double at[3], double x[3]) {
  double rotated[3];
  pbScene_Rotate(rotated, pose + 3, at);
  for (int k = 0; k < 3; k++) x[k] = pose[k] + rotated[k];
}

static pbStatus keep_contacts(pbMotion *m, size_t frame) {
  pbSceneContacts c = pbScene_Contacts(&m->scene);
  size_t end = m->first[frame] + (size_t)c.count;

  m->first[frame + 1] = end;
  if (!c.count) return pb_ok;

  if (!m->contact || end > m->contact_room) {
    size_t room = 2 * end;
    double *grown = pbContext_Resize(m->scene.ctx, m->contact, room * CONTACT_WIDTH * sizeof *grown);
    if (!grown) return no_memory(m);
    m->contact = grown;
    m->contact_room = room;
  }

  for (size_t i = 0; i < (size_t)c.count; i++) {
    // position, normal, distance, geoms
    double *to = m->contact + CONTACT_WIDTH * (m->first[frame] + i);
    memcpy(to, c.pos + 3 * i, 3 * sizeof *to);
    memcpy(to + 3, c.frame + 9 * i, 3 * sizeof *to);
    to[6] = c.dist[i];
    memcpy(to + 7, c.geom + 2 * i, 2 * sizeof *to);
  }
  return pb_ok;
}

static void keep_paths(const pbMotion *m, double *x) {
  for (int t = 0; t < m->scene.drawn.ntendon; t++) {
    for (int k = 0; k < pbSceneTendon_Segments(&m->scene, t); k++) {
      pbScenePiece p = pbSceneTendon_Segment(&m->scene, t, k);
      pbScene_Path(&m->scene, &p, x);
      x += 3 * pbScenePiece_Points(&p);
    }
  }
}

static int tendon_points(const pbMotion *m, int t) {
  int points = 0;
  for (int k = 0; k < pbSceneTendon_Segments(&m->scene, t); k++) {
    pbScenePiece p = pbSceneTendon_Segment(&m->scene, t, k);
    points += pbScenePiece_Points(&p);
  }
  return points;
}

// Points of each piece are its own: as many straight parts as points, less one for each piece.
static int tendon_edges(const pbMotion *m, int t) { return tendon_points(m, t) - pbSceneTendon_Segments(&m->scene, t); }

static void put_edges(const pbMotion *m, int t, int first, int *vertex) {
  for (int k = 0; k < pbSceneTendon_Segments(&m->scene, t); k++, first++) {
    pbScenePiece p = pbSceneTendon_Segment(&m->scene, t, k);
    for (int i = 1; i < pbScenePiece_Points(&p); i++, first++) {
      *vertex++ = first;
      *vertex++ = first + 1;
    }
  }
}

static pbStatus observe_frames(pbMotion *m, double *x, double *poses) {
  size_t nbody = (size_t)m->scene.nbody;
  for (size_t k = 0; k < m->frames; k++) {
    PB_TRY(pbScene_Observe(&m->scene, m->set, k, x));
    PB_TRY(pbScene_Poses(&m->scene, poses));

    // body by body: glTF has the frames of one body side by side
    for (size_t b = 0; b < nbody; b++) memcpy(m->pose + 7 * (b * m->frames + k), poses + 7 * b, 7 * sizeof *poses);
    PB_TRY(keep_contacts(m, k));
    keep_paths(m, m->path + k * 3 * (size_t)m->points_of_tendons);
  }
  return pb_ok;
}

static pbStatus observe(pbMotion *m) {
  const pbScene *scene = &m->scene;
  size_t nbody = (size_t)scene->nbody;
  for (int t = 0; t < scene->drawn.ntendon; t++) {
    m->points_of_tendons += tendon_points(m, t);
    m->pieces += tendon_edges(m, t);
  }

  m->pose = take(m, nbody * m->frames, 7 * sizeof *m->pose);
  m->path = take(m, (size_t)m->points_of_tendons * m->frames, 3 * sizeof *m->path);
  m->first = take(m, m->frames, sizeof *m->first);
  double *x = take(m, (size_t)scene->nx + 7 * nbody, sizeof *x);

  // an initial state for the fields that the arrays do not hold
  pbStatus status = pb_no_memory;
  if (m->pose && m->path && m->first && x) status = pbState_Init(scene->ctx, scene->model, scene->theta, -1, x);
  if (status == pb_ok) status = observe_frames(m, x, x + scene->nx);

  pbContext_Free(scene->ctx, x);
  return status;
}

// Half the size of planes without end: twice the farthest coordinate of the motion, or of MuJoCo's extent of the model.
static double plane_size(const pbMotion *m) {
  double far = m->scene.drawn.stat_extent[0];
  for (size_t i = 0; i < (size_t)m->scene.nbody * m->frames; i++)
    for (int k = 0; k < 3; k++) far = fmax(far, fabs(m->pose[7 * i + (size_t)k]));
  if (!m->points) return 2 * far;

  for (size_t i = 0; i < m->points->count; i++) far = fmax(far, fabs(m->points->reals[i]));
  return 2 * far;
}

static pbStatus make_shapes(pbMotion *m) {
  const pbScene *scene = &m->scene;
  int all = pbScene_Shapes(scene);
  m->far = plane_size(m);
  m->shape = take(m, (size_t)all, sizeof *m->shape);
  m->surface = take(m, (size_t)all, sizeof(void *));
  if (!m->shape || !m->surface) return no_memory(m);

  for (int i = 0; i < all; i++) {
    pbSceneShape s = pbScene_Shape(scene, i);
    if (s.hidden || (s.site && s.group >= SCENE_SHOWN_GROUPS)) continue;
    m->shape[m->shapes] = s;
    PB_TRY(pbSceneShape_Mesh(scene->ctx, &s, m->far, &m->surface[m->shapes]));
    m->shapes++;
  }
  return pb_ok;
}

// ---- VTU ------------------------------------------------------------------------------------------------------------------

static void number_cell(pbMotion *m, int cell, int kind, int id, int body, const double rgba[4]) {
  // -1: of no object of that kind
  for (int a = CELL_BODY; a < CELL_RGBA; a++) m->cell[a][cell] = -1;
  m->cell[kind][cell] = id;
  m->cell[CELL_BODY][cell] = body;
  memcpy(m->cell[CELL_RGBA] + 4 * (size_t)cell, rgba, 4 * sizeof *rgba);
}

static pbStatus make_rigid(pbMotion *m) {
  int64_t counts[pb_cellKindCount] = {0}, points = m->points_of_tendons;
  counts[pb_cellEdge] = m->pieces;

  for (int i = 0; i < m->shapes; i++) {
    points += m->surface[i]->points;
    counts[pb_cellTriangle] += m->surface[i]->cells[pb_cellTriangle].count;
  }
  PB_TRY(pbMesh_Create(m->scene.ctx, "rigid", points, counts, &m->rigid));

  for (int a = 0; a < CELL_ARRAYS; a++) {
    m->cell[a] = take(m, (size_t)(counts[pb_cellEdge] + counts[pb_cellTriangle]), (a == CELL_RGBA ? 4 : 1) * sizeof(double));
    if (!m->cell[a]) return no_memory(m);
  }
  return pb_ok;
}

static void fill_rigid(pbMotion *m) {
  int cell = 0, point = 0;
  // the tendons first
  for (int t = 0; t < m->scene.drawn.ntendon; t++) {
    double rgba[4];
    pbSceneTendon_Color(&m->scene, t, rgba);
    put_edges(m, t, point, m->rigid->cells[pb_cellEdge].vertex + 2 * cell);
    for (int k = tendon_edges(m, t); k > 0; k--) number_cell(m, cell++, CELL_TENDON, t, -1, rgba);
    point += tendon_points(m, t);
  }

  // then the triangles of every shape, their points counted on
  int *to = m->rigid->cells[pb_cellTriangle].vertex;
  for (int i = 0; i < m->shapes; i++) {
    const pbSceneShape *s = &m->shape[i];
    const pbCells *triangles = &m->surface[i]->cells[pb_cellTriangle];
    for (int c = 0; c < 3 * triangles->count; c++) *to++ = point + triangles->vertex[c];
    double rgba[4];
    pbSceneShape_Color(s, rgba);
    for (int c = 0; c < triangles->count; c++) number_cell(m, cell++, s->site ? CELL_SITE : CELL_GEOM, s->id, s->body, rgba);

    point += m->surface[i]->points;
  }
}

static void move_rigid(pbMotion *m, size_t frame) {
  // in the order of fill_rigid: tendons, then shapes
  size_t numbers = 3 * (size_t)m->points_of_tendons;
  double *x = m->rigid->point;
  memcpy(x, m->path + frame * numbers, numbers * sizeof *x);
  x += numbers;

  for (int i = 0; i < m->shapes; i++) {
    const double *pose = pose_of(m, m->shape[i].body, frame);
    for (int p = 0; p < m->surface[i]->points; p++, x += 3) move_point(pose, m->surface[i]->point + 3 * p, x);
  }
}

static pbStatus write_rigid(pbMotion *m, pbVtuWriter *writer, size_t frame) {
  pbVtuArray cells[CELL_ARRAYS] = {{"body", 1, m->cell[CELL_BODY]},
                                   {"geom", 1, m->cell[CELL_GEOM]},
                                   {"site", 1, m->cell[CELL_SITE]},
                                   {"tendon", 1, m->cell[CELL_TENDON]},
                                   {"rgba", 4, m->cell[CELL_RGBA]}};
  pbVtuFrame f = {.time = m->time->reals[frame], .cell_arrays = CELL_ARRAYS, .cell = cells};
  if (!m->shapes && !m->pieces) return pb_ok;

  move_rigid(m, frame);
  return pbVtuWriter_WritePart(writer, "rigid", m->rigid, &f);
}

// Contacts of a frame as points. column: room for the arrays, each with all contacts.
static pbStatus put_contacts(pbMotion *m, pbVtuWriter *writer, size_t frame, pbMesh *mesh, double *column) {
  size_t count = m->first[frame + 1] - m->first[frame];
  const double *from = m->contact + CONTACT_WIDTH * m->first[frame];
  double *normal = column, *distance = normal + 3 * count, *geoms = distance + count;

  for (size_t i = 0; i < count; i++, from += CONTACT_WIDTH) {
    memcpy(mesh->point + 3 * i, from, 3 * sizeof *from);
    memcpy(normal + 3 * i, from + 3, 3 * sizeof *from);
    distance[i] = from[6];
    memcpy(geoms + 2 * i, from + 7, 2 * sizeof *from);
    mesh->cells[pb_cellPoint].vertex[i] = (int)i;
  }
  pbVtuArray arrays[] = {{"normal", 3, normal}, {"distance", 1, distance}, {"geom", 2, geoms}};
  pbVtuFrame f = {.time = m->time->reals[frame], .point_arrays = 3, .point = arrays};
  return pbVtuWriter_WritePart(writer, "contacts", mesh, &f);
}

static pbStatus write_contacts(pbMotion *m, pbVtuWriter *writer, size_t frame) {
  size_t count = m->first[frame + 1] - m->first[frame];
  pbMesh *mesh = NULL;

  // a part that has none in any frame is left out
  if (!m->first[m->frames]) return pb_ok;
  int64_t counts[pb_cellKindCount] = {[pb_cellPoint] = (int64_t)count};
  PB_TRY(pbMesh_Create(m->scene.ctx, "contacts", (int64_t)count, counts, &mesh));

  double *column = take(m, 6 * count, sizeof *column);
  pbStatus status = column ? put_contacts(m, writer, frame, mesh, column) : no_memory(m);

  pbContext_Free(m->scene.ctx, column);
  pbMesh_Destroy(mesh);
  return status;
}

static pbStatus write_deformables(const pbMotion *m, pbVtuWriter *writer, size_t frame) {
  if (!m->mesh) return pb_ok;
  size_t width = 3 * (size_t)m->mesh->points;
  pbVtuArray velocity = {"velocity", 3, m->velocity->reals + frame * width};
  pbVtuFrame f = {.time = m->time->reals[frame], .x = m->points->reals + frame * width, .point_arrays = 1, .point = &velocity};
  return pbVtuWriter_Write(writer, &f);
}

static pbStatus write_frames(pbMotion *m, pbVtuWriter *writer) {
  for (size_t k = 0; k < m->frames; k++) {
    PB_TRY(write_deformables(m, writer, k));
    PB_TRY(write_rigid(m, writer, k));
    PB_TRY(write_contacts(m, writer, k));
  }
  return pbVtuWriter_Finish(writer);
}

static pbStatus write_vtu(pbMotion *m, const char *path) {
  pbVtuWriter *writer;
  PB_TRY(pbVtuWriter_Create(m->scene.ctx, path, m->mesh, &writer));
  pbStatus status = write_frames(m, writer);
  pbVtuWriter_Destroy(writer);
  return status;
}

// ---- glTF -----------------------------------------------------------------------------------------------------------------

// Colors of models are sRGB, glTF's factors linear: the sRGB transfer function (IEC 61966-2-1).
static double linear(double c) { return c <= 0.04045 ? c / 12.92 : pbPow((c + 0.055) / 1.055, 2.4); }

static void set_color(pbGlbPart *part, const double rgba[4]) {
  for (int k = 0; k < 3; k++) part->colour[k] = linear(fmin(fmax(rgba[k], 0), 1));
  part->colour[3] = fmin(fmax(rgba[3], 0), 1);
}

static pbGlbPart rigid_part(const pbMotion *m, int i, char *name) {
  const pbSceneShape *s = &m->shape[i];
  const char *body = pbModel_Name(m->scene.model, pb_objBody, s->body);

  if (*s->name) snprintf(name, NAME_SIZE, "%s", s->name);
  else snprintf(name, NAME_SIZE, "%s %d of %.100s", s->site ? "site" : "geom", s->id, *body ? body : "a body");

  // the surface once, and the pose of its body in every frame
  pbGlbPart part = {.name = name,
                    .triangles = &m->surface[i]->cells[pb_cellTriangle],
                    .points = m->surface[i]->points,
                    .x = m->surface[i]->point,
                    .pose = pose_of(m, s->body, 0)};

  double rgba[4];
  pbSceneShape_Color(s, rgba);
  set_color(&part, rgba);
  return part;
}

// Lines that deform. x: frames x points x 3, from the tendon's `first` point on.
static pbGlbPart tendon_part(const pbMotion *m, int t, int first, const pbCells *edges, double *x, char *name) {
  const char *given = pbModel_Name(m->scene.model, pb_objTendon, t);
  double rgba[4];
  size_t points = (size_t)tendon_points(m, t), all = (size_t)m->points_of_tendons;
  if (*given) snprintf(name, NAME_SIZE, "%s", given);
  else snprintf(name, NAME_SIZE, "tendon %d", t);

  pbGlbPart part = {.name = name, .edges = edges, .points = (int)points, .x = x};
  for (size_t k = 0; k < m->frames; k++)
    memcpy(x + 3 * k * points, m->path + 3 * (k * all + (size_t)first), 3 * points * sizeof *x);

  pbSceneTendon_Color(&m->scene, t, rgba);
  set_color(&part, rgba);
  return part;
}

static pbStatus deforming_part(pbMotion *m, pbGlbPart *part) {
  if (!m->skin.count) PB_TRY(pbMesh_Skin(m->scene.ctx, m->mesh, &m->skin));
  const pbCells *edges = &m->mesh->cells[pb_cellEdge];
  *part = (pbGlbPart){.name = "deformables",
                      .triangles = m->skin.count ? &m->skin : NULL,
                      .edges = edges->count ? edges : NULL,
                      .points = m->mesh->points,
                      .x = m->points->reals,
                      .colour = {0.25, 0.5, 0.8, 1}};
  if (!part->triangles && !part->edges)
    return pbContext_Fail(m->scene.ctx, pb_unsupported, "the deformables have neither triangles nor edges to draw");
  return pb_ok;
}

typedef struct GlbWork {
  pbGlbPart *part;
  char (*name)[NAME_SIZE];
  double *tendon;  // positions of all tendons, frame by frame
  int *vertex;     // two points a piece, numbered tendon by tendon
  pbCells *edges;
} GlbWork;

static pbStatus fill_glb(pbMotion *m, const char *path, GlbWork *w) {
  int parts = 0, ntendon = m->scene.drawn.ntendon, first = 0;
  double *x = w->tendon;
  int *vertex = w->vertex;

  if (m->mesh) PB_TRY(deforming_part(m, &w->part[parts++]));
  for (int i = 0; i < m->shapes; i++, parts++) w->part[parts] = rigid_part(m, i, w->name[parts]);

  // tendons deform: their points are given frame by frame
  for (int t = 0; t < ntendon; t++) {
    int points = tendon_points(m, t);
    if (!points) continue;
    put_edges(m, t, 0, vertex);
    w->edges[t] = (pbCells){.count = tendon_edges(m, t), .vertex = vertex};
    w->part[parts] = tendon_part(m, t, first, &w->edges[t], x, w->name[parts]);
    parts++;
    x += 3 * (size_t)points * m->frames;
    vertex += 2 * tendon_edges(m, t);
    first += points;
  }

  pbGlb glb = {.frames = (int)m->frames, .time = m->time->reals, .parts = parts, .part = w->part};
  return pbGlb_Write(m->scene.ctx, path, &glb);
}

static pbStatus write_glb(pbMotion *m, const char *path) {
  pbContext *ctx = m->scene.ctx;
  size_t ntendon = (size_t)m->scene.drawn.ntendon, most = 1 + (size_t)m->shapes + ntendon;
  GlbWork w = {.part = take(m, most, sizeof *w.part),
               .name = take(m, most, NAME_SIZE),
               .tendon = take(m, 3 * (size_t)m->points_of_tendons * m->frames, sizeof *w.tendon),
               .vertex = take(m, 2 * (size_t)m->pieces, sizeof *w.vertex),
               .edges = take(m, ntendon, sizeof *w.edges)};

  bool room = w.part && w.name && w.tendon && w.vertex && w.edges;
  pbStatus status = room ? fill_glb(m, path, &w) : no_memory(m);

  pbContext_Free(ctx, w.part);
  pbContext_Free(ctx, w.name);
  pbContext_Free(ctx, w.tendon);
  pbContext_Free(ctx, w.vertex);
  pbContext_Free(ctx, w.edges);
  return status;
}

// ---- both -----------------------------------------------------------------------------------------------------------------

pbStatus pbMotion_SaveVtu(pbMotion *m, const char *path) {
  if (m->rigid) return write_vtu(m, path);
  PB_TRY(make_rigid(m));
  fill_rigid(m);
  return write_vtu(m, path);
}

pbStatus pbMotion_SaveGlb(pbMotion *m, const char *path) { return write_glb(m, path); }

static pbStatus make_motion(const pbShown *shown, pbMotion *m) {
  pbContext *ctx = m->ctx;
  PB_TRY(pbScene_Of(ctx, shown, &m->scene));
  if (m->points) PB_TRY(pbModel_PointMesh(ctx, shown->model, shown->theta, &m->mesh));
  PB_TRY(observe(m));
  PB_TRY(make_shapes(m));
  if (m->mesh || m->shapes || m->pieces) return pb_ok;
  return pbContext_Fail(ctx, pb_bad_argument, "the model has nothing to draw: no geoms, sites or deformables");
}

pbStatus pbMotion_Create(pbContext *ctx, const pbShown *shown, const pbArrays *set, pbMotion **motion) {
  pbMotion *m = pbContext_Alloc(ctx, sizeof *m);
  if (!m) return pbScene_NoMemory(ctx);
  *m = (pbMotion){.ctx = ctx,
                  .set = set,
                  .time = pbArrays_Find(set, "time"),
                  .points = pbArrays_Find(set, "points"),
                  .velocity = pbArrays_Find(set, "point_velocity")};

  // the arrays of a run: time is always among them
  m->frames = m->time->count;
  pbStatus status = make_motion(shown, m);
  if (status == pb_ok) *motion = m;
  else pbMotion_Destroy(m);
  return status;
}

void pbMotion_Destroy(pbMotion *m) {
  if (!m) return;
  pbContext *ctx = m->ctx;

  for (int i = 0; i < m->shapes; i++) pbMesh_Destroy(m->surface[i]);
  for (int a = 0; a < CELL_ARRAYS; a++) pbContext_Free(ctx, m->cell[a]);
  pbContext_Free(ctx, m->path);
  pbContext_Free(ctx, m->shape);
  pbContext_Free(ctx, m->surface);
  pbContext_Free(ctx, m->pose);
  pbContext_Free(ctx, m->first);
  pbContext_Free(ctx, m->contact);
  pbCells_Clear(ctx, &m->skin);
  pbMesh_Destroy(m->rigid);
  pbMesh_Destroy(m->mesh);
  if (m->scene.ctx) pbScene_End(&m->scene);
  pbContext_Free(ctx, m);
}
