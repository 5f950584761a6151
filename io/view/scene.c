// Shapes, tendons and colors as they are shown, and their surfaces as triangles.
// Tests: tests/oracle/test_view.py.
#include "io/view/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/policy.h>

#include "elementary/elementary.h"

enum { AROUND = 24, PROFILE = 16 };  // facets around an axis, points of a profile

// ---- fields ------------------------------------------------------------------------------------------------------------

static const int *integers(const pbModel *m, const char *name) {
  pbField f;
  return pbModel_Field(m, name, &f) ? f.integers : NULL;
}

static const double *reals(const pbModel *m, const char *name) {
  pbField f;
  return pbModel_Field(m, name, &f) ? f.reals : NULL;
}

pbStatus pbScene_GoOn(pbScene *scene, const char *part, int64_t done, int64_t all) {
  scene->ticker.phase = part;
  return pbTicker_Stops(&scene->ticker, done, all) ? pbContext_Fail(scene->ctx, pb_interrupted, "interrupted") : pb_ok;
}

static pbStatus find_fields(pbScene *scene) {
  const pbModel *m = scene->model;

#define COUNT(name)    .name = pbModel_Size(m, #name)
#define INTEGERS(name) .name = integers(m, #name)
#define REALS(name)    .name = reals(m, #name)
  scene->drawn = (pbDrawn){
      COUNT(ngeom),           COUNT(nsite),         COUNT(ntendon),         INTEGERS(geom_type),        INTEGERS(geom_bodyid),
      INTEGERS(geom_matid),   INTEGERS(geom_group), INTEGERS(geom_contype), INTEGERS(geom_conaffinity), INTEGERS(site_type),
      INTEGERS(site_bodyid),  INTEGERS(site_matid), INTEGERS(site_group),   INTEGERS(tendon_adr),       INTEGERS(tendon_num),
      INTEGERS(tendon_matid), INTEGERS(wrap_type),  INTEGERS(wrap_objid),   REALS(geom_size),           REALS(geom_pos),
      REALS(geom_quat),       REALS(geom_aabb),     REALS(geom_rgba),       REALS(site_size),           REALS(site_pos),
      REALS(site_quat),       REALS(site_rgba),     REALS(tendon_rgba),     REALS(tendon_width),        REALS(mat_rgba),
      REALS(mat_cells),       REALS(stat_extent),   INTEGERS(geom_dataid)};
#undef COUNT
#undef INTEGERS
#undef REALS
  return pbScene_MakeFields(scene);
}

pbStatus pbScene_Of(pbContext *ctx, const pbShown *shown, pbScene *scene) {
  const pbModel *m = shown->model;
  pbPolicyInfo policy;
  *scene = (pbScene){.ctx = ctx,
                     .model = m,
                     .looks = shown->looks,
                     .theta = shown->theta,
                     .path = shown->path,
                     .nq = pbModel_Size(m, "nq"),
                     .nv = pbModel_Size(m, "nv"),
                     .nu = pbModel_Size(m, "nu"),
                     .nbody = pbModel_Size(m, "nbody"),
                     .ncommand = pbModel_PolicyInfo(m, &policy) ? policy.commands : 0,
                     .nx = pbModel_StateSize(m),
                     .ticker = pbTicker_Begin("frames", shown->progress, shown->user)};
  PB_TRY(pbScratch_Create(ctx, m, NULL, &scene->scratch));
  return find_fields(scene);
}

int pbScene_Surfaces(const pbScene *scene) { return pbModel_MeshSurfaceCount(pbScene_Looks(scene)) + scene->drawn.fields; }

void pbScene_Rotate(double r[3], const double q[4], const double v[3]) {
  double w = q[0], x = q[1], y = q[2], z = q[3];
  double t[3] = {w * v[0] + y * v[2] - z * v[1], w * v[1] + z * v[0] - x * v[2], w * v[2] + x * v[1] - y * v[0]};

  // v + 2 u x (w v + u x v), u the vector part of q
  double rotated[3] = {v[0] + 2 * (y * t[2] - z * t[1]), v[1] + 2 * (z * t[0] - x * t[2]), v[2] + 2 * (x * t[1] - y * t[0])};

  memcpy(r, rotated, sizeof rotated);
}

// ---- shapes ------------------------------------------------------------------------------------------------------------

// Row of a parameter: the scene's, not the compiled one.
static const double *row_of(const pbScene *scene, const double *field, int row, int cols) {
  return scene->theta + (field - pbModel_DefaultParams(scene->model)) + (size_t)row * (size_t)cols;
}

// MuJoCo's rule: a color of its own, which is any but the default, wins over the material's.
static void color_of(const pbDrawn *m, const double *own, int material, double rgba[4]) {
  bool given = own[0] != 0.5 || own[1] != 0.5 || own[2] != 0.5 || own[3] != 1;
  memcpy(rgba, given || material < 0 ? own : m->mat_rgba + 4 * (size_t)material, 4 * sizeof *rgba);
}

// Colors of the cells of a material's texture; 1 where there is none.
static void cells_of(const pbDrawn *m, int material, double cells[6]) {
  for (int k = 0; k < 6; k++) cells[k] = material < 0 ? 1 : m->mat_cells[6 * (size_t)material + (size_t)k];
}

void pbSceneShape_Color(const pbSceneShape *s, double rgba[4]) {
  for (int k = 0; k < 3; k++) rgba[k] = s->rgba[k] * (s->cells[k] + s->cells[3 + k]) / 2;
  rgba[3] = s->rgba[3];
}

const pbModel *pbScene_Looks(const pbScene *scene) { return scene->looks ? scene->looks : scene->model; }

static void put_field_look(const pbScene *scene, int field, pbSceneShape *s) {
  s->surface = pbModel_MeshSurfaceCount(pbScene_Looks(scene)) + field;
  s->look = scene->drawn.field[field];
  for (int k = 0; k < 4; k++) s->surface_quat[k] = k == 0;
  for (int k = 0; k < 3; k++) s->surface_pos[k] = 0;
}

static pbSceneShape geom_shape(const pbScene *scene, int g) {
  const pbDrawn *m = &scene->drawn;
  pbSceneShape s = {
      .id = g, .type = m->geom_type[g], .body = m->geom_bodyid[g], .name = pbModel_Name(scene->model, pb_objGeom, g)};

  // parameters as they are given, not as compiled
  memcpy(s.size, row_of(scene, m->geom_size, g, 3), sizeof s.size);
  memcpy(s.pos, row_of(scene, m->geom_pos, g, 3), sizeof s.pos);
  memcpy(s.quat, row_of(scene, m->geom_quat, g, 4), sizeof s.quat);
  memcpy(s.box, m->geom_aabb + 6 * (size_t)g, sizeof s.box);

  // what a mesh looks like, if its file was read; else its box, if that is known
  s.group = m->geom_group[g];
  s.collides = m->geom_contype[g] || m->geom_conaffinity[g];
  s.surface = pbModel_GeomSurface(pbScene_Looks(scene), g, s.surface_pos, s.surface_quat);
  if (s.surface >= 0) s.look = pbModel_MeshSurface(pbScene_Looks(scene), s.surface);
  if (!s.look.triangles) s.surface = -1;
  if (s.type == pb_geomHfield) put_field_look(scene, m->geom_dataid[g], &s);

  bool seen = s.type < pb_geomMesh || s.surface >= 0 || s.box[3] > 0 || s.box[4] > 0 || s.box[5] > 0;

  color_of(m, m->geom_rgba + 4 * (size_t)g, m->geom_matid[g], s.rgba);
  cells_of(m, m->geom_matid[g], s.cells);
  s.hidden = !(s.rgba[3] > 0) || !seen;
  return s;
}

static pbSceneShape site_shape(const pbScene *scene, int i) {
  const pbDrawn *m = &scene->drawn;
  pbSceneShape s = {.site = true,
                    .id = i,
                    .type = m->site_type[i],
                    .body = m->site_bodyid[i],
                    .name = pbModel_Name(scene->model, pb_objSite, i)};
  s.group = m->site_group[i];
  s.surface = -1;

  // parameters as they are given, not as compiled
  memcpy(s.size, row_of(scene, m->site_size, i, 3), sizeof s.size);
  memcpy(s.pos, row_of(scene, m->site_pos, i, 3), sizeof s.pos);
  memcpy(s.quat, row_of(scene, m->site_quat, i, 4), sizeof s.quat);
  color_of(m, m->site_rgba + 4 * (size_t)i, m->site_matid[i], s.rgba);
  cells_of(m, m->site_matid[i], s.cells);
  s.hidden = !(s.rgba[3] > 0);
  return s;
}

int pbScene_Shapes(const pbScene *scene) { return scene->drawn.ngeom + scene->drawn.nsite; }

pbSceneShape pbScene_Shape(const pbScene *scene, int index) {
  int ngeom = scene->drawn.ngeom;
  return index < ngeom ? geom_shape(scene, index) : site_shape(scene, index - ngeom);
}

// ---- tendons -----------------------------------------------------------------------------------------------------------

static bool is_geom(const pbDrawn *m, int station) { return m->wrap_type[station] > pb_wrapSite; }

// Two sites that follow each other, at most with a geom between; a pulley begins another branch.
static bool is_segment(const pbDrawn *m, int station, int end) {
  int next = station + 1 < end && is_geom(m, station + 1) ? station + 2 : station + 1;
  return next < end && m->wrap_type[station] == pb_wrapSite && m->wrap_type[next] == pb_wrapSite;
}

int pbSceneTendon_Segments(const pbScene *scene, int t) {
  const pbDrawn *m = &scene->drawn;
  int count = 0, end = m->tendon_adr[t] + m->tendon_num[t];

  for (int k = m->tendon_adr[t]; k < end; k++) count += is_segment(m, k, end);
  return count;
}

static pbSceneStation station_of(const pbScene *scene, int site) {
  const pbDrawn *m = &scene->drawn;
  pbSceneStation s = {.body = m->site_bodyid[site]};
  memcpy(s.at, row_of(scene, m->site_pos, site, 3), sizeof s.at);
  return s;
}

pbScenePiece pbSceneTendon_Segment(const pbScene *scene, int t, int segment) {
  const pbDrawn *m = &scene->drawn;
  int at = m->tendon_adr[t], end = at + m->tendon_num[t];

  // segments count from 0, and pulleys lie in between
  for (int left = segment; !is_segment(m, at, end) || left-- > 0;) at++;

  bool wraps = is_geom(m, at + 1);
  int side = wraps ? pbModel_Integer(scene->model, "wrap_side", at + 1) : -1;
  pbScenePiece p = {.geom = wraps ? m->wrap_objid[at + 1] : -1, .station = at + 1, .has_side = side >= 0};
  p.end[0] = station_of(scene, m->wrap_objid[at]);
  p.end[1] = station_of(scene, m->wrap_objid[at + 1 + wraps]);
  if (p.has_side) p.side = station_of(scene, side);
  return p;
}

void pbSceneTendon_Color(const pbScene *scene, int t, double rgba[4]) {
  const pbDrawn *m = &scene->drawn;
  color_of(m, m->tendon_rgba + 4 * (size_t)t, m->tendon_matid[t], rgba);
}

// ---- a row of a trajectory -----------------------------------------------------------------------------------------------

const pbArray *pbScene_StateArray(const pbArrays *trajectory, const pbStateField *field) {
  const pbArray *a = pbArrays_Find(trajectory, field->name);

  bool is_time = strcmp(field->name, "time") == 0;
  if (!a || a->type != pb_arrayReal || a->ndim != (is_time ? 1 : 2)) return NULL;
  return is_time || a->shape[1] == (size_t)field->size ? a : NULL;
}

// Numbers of the inputs at a step; NULL where the trajectory does not hold them.
static const double *input_row(const pbArrays *trajectory, const char *name, size_t width, size_t step) {
  const pbArray *a = pbArrays_Find(trajectory, name);

  bool fits = a && a->type == pb_arrayReal && a->ndim >= 2 && width && a->count == a->shape[0] * width && a->shape[0];
  if (!fits) return NULL;
  return a->reals + (step < a->shape[0] ? step : a->shape[0] - 1) * width;
}

// Inputs are those of all steps, or, where states are kept every so many, have a row for each state. Files of before had all in
// that case, too: theirs are more rows than states.
static size_t step_of(const pbArrays *trajectory, size_t row) {
  const pbArray *time = pbArrays_Find(trajectory, "time"), *control = pbArrays_Find(trajectory, "control");
  if (time && control && time->ndim && control->ndim && control->shape[0] <= time->shape[0]) return row;

  const pbArray *meta = pbArrays_Find(trajectory, "meta");
  const char *text = meta && meta->type == pb_arrayText && meta->count == 1 ? strstr(meta->text, "\"every\":") : NULL;
  long every = text ? strtol(text + strlen("\"every\":"), NULL, 10) : 1;
  return row * (size_t)(every > 1 ? every : 1);
}

pbStatus pbScene_Observe(pbScene *scene, const pbArrays *trajectory, size_t row, double *x) {
  for (int i = 0; i < pbModel_StateFieldCount(scene->model); i++) {
    pbStateField f = pbModel_StateFieldAt(scene->model, i);
    const pbArray *a = pbScene_StateArray(trajectory, &f);
    size_t size = (size_t)f.size;
    if (a && size && (row + 1) * size <= a->count) memcpy(x + f.offset, a->reals + row * size, size * sizeof *x);
  }

  size_t step = step_of(trajectory, row), nmocap = (size_t)pbModel_Size(scene->model, "nmocap");
  pbInput input = {.ctrl = input_row(trajectory, "control", (size_t)scene->nu, step),
                   .qfrc = input_row(trajectory, "qfrc", (size_t)scene->nv, step),
                   .xfrc = input_row(trajectory, "xfrc", 6 * (size_t)scene->nbody, step),
                   .command = input_row(trajectory, "command", (size_t)scene->ncommand, step),
                   .mocap_pos = input_row(trajectory, "mocap_pos", 3 * nmocap, step),
                   .mocap_quat = input_row(trajectory, "mocap_quat", 4 * nmocap, step)};
  pbStatus status;
  do {
    status = pbStep_Observe(scene->model, scene->theta, x, &input, scene->scratch, NULL);
  } while (pbScratch_Grow(scene->scratch, &status));

  if (status != pb_ok) {
    const char *text = pbScratch_Error(scene->scratch);
    return pbContext_Fail(scene->ctx, status, "row %zu: %s", row, *text ? text : pbStatus_Text(status));
  }
  status = pbScratch_Gather(scene->scratch);
  return status == pb_ok ? pb_ok : pbContext_Fail(scene->ctx, status, "out of memory");
}

pbStatus pbScene_Poses(const pbScene *scene, double *poses) {
  const double *pos = NULL, *quat = NULL;
  int rows = 0, cols = 0;

  bool known = pbScratch_Field(scene->scratch, "xpos", &pos, &rows, &cols) &&
               pbScratch_Field(scene->scratch, "xquat", &quat, &rows, &cols);
  if (!known) return pbContext_Fail(scene->ctx, pb_unsupported, "the poses of bodies are not available");

  for (int b = 0; b < scene->nbody; b++, poses += 7) {
    memcpy(poses, pos + 3 * b, 3 * sizeof *poses);
    memcpy(poses + 3, quat + 4 * b, 4 * sizeof *poses);
  }
  return pb_ok;
}

pbSceneContacts pbScene_Contacts(const pbScene *scene) {
  pbSceneContacts c = {0};
  int cols = 0;

  bool known = pbScratch_Field(scene->scratch, "contact_dist", &c.dist, &c.count, &cols) &&
               pbScratch_Field(scene->scratch, "contact_pos", &c.pos, &c.count, &cols) &&
               pbScratch_Field(scene->scratch, "contact_frame", &c.frame, &c.count, &cols) &&
               pbScratch_Field(scene->scratch, "contact_geom", &c.geom, &c.count, &cols) &&
               pbScratch_Field(scene->scratch, "contact_force", &c.force, &c.count, &cols);

  // before the first evaluation there are none
  if (!known) c.count = 0;
  return c;
}

// ---- surfaces ----------------------------------------------------------------------------------------------------------

static pbStatus new_mesh(pbContext *ctx, const pbSceneShape *s, int points, int triangles, pbMesh **mesh) {
  int64_t counts[pb_cellKindCount] = {0};
  counts[pb_cellTriangle] = triangles;
  return pbMesh_Create(ctx, s->name, points, counts, mesh);
}

static int *put_triangle(int *to, int a, int b, int c) {
  to[0] = a;
  to[1] = b;
  to[2] = c;
  return to + 3;
}

// Surface of revolution of a profile (radius, height) from the lower pole to the upper one. The poles are points 0 and 1.
static pbStatus revolve_profile(pbContext *ctx, const pbSceneShape *s, double (*profile)[2], int count, pbMesh **mesh) {
  int rings = count - 2;
  PB_TRY(new_mesh(ctx, s, 2 + rings * AROUND, 2 * AROUND * rings, mesh));
  double *x = (*mesh)->point;
  int *to = (*mesh)->cells[pb_cellTriangle].vertex;

  x[2] = profile[0][1];
  x[5] = profile[count - 1][1];

  for (int r = 0; r < rings; r++) {
    for (int k = 0; k < AROUND; k++) {
      double angle = 2 * M_PI * k / AROUND, *p = x + 3 * (2 + r * AROUND + k);
      p[0] = profile[r + 1][0] * pbCos(angle);
      p[1] = profile[r + 1][0] * pbSin(angle);
      p[2] = profile[r + 1][1];
    }
  }

  // fans at the poles, two triangles for each quad between rings
  for (int k = 0; k < AROUND; k++) {
    int next = (k + 1) % AROUND, top = 2 + (rings - 1) * AROUND;
    to = put_triangle(to, 0, 2 + next, 2 + k);
    to = put_triangle(to, 1, top + k, top + next);
    for (int r = 0; r + 1 < rings; r++) {
      int low = 2 + r * AROUND, high = low + AROUND;
      to = put_triangle(to, low + k, low + next, high + next);
      to = put_triangle(to, low + k, high + next, high + k);
    }
  }
  return pb_ok;
}

// Two half circles `half` above and below the middle; without `half` a ball.
static pbStatus round_mesh(pbContext *ctx, const pbSceneShape *s, double radius, double half, pbMesh **mesh) {
  double profile[PROFILE][2];
  const int middle = PROFILE / 2;

  for (int i = 0; i < PROFILE; i++) {
    bool upper = i >= middle;

    // a capsule's halves both reach the equator, a ball has no point there
    double steps = half > 0 ? middle - 1 : 0.5 * (PROFILE - 1);
    double angle = (half > 0 && upper ? i - middle : i - steps) / steps * M_PI / 2;
    profile[i][0] = radius * pbCos(angle);
    profile[i][1] = radius * pbSin(angle) + (upper ? half : -half);
  }

  return revolve_profile(ctx, s, profile, PROFILE, mesh);
}

static pbStatus box_mesh(pbContext *ctx, const pbSceneShape *s, const double center[3], const double half[3], pbMesh **mesh) {
  static const int quads[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
  PB_TRY(new_mesh(ctx, s, 8, 12, mesh));
  int *to = (*mesh)->cells[pb_cellTriangle].vertex;

  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 3; k++) (*mesh)->point[3 * i + k] = center[k] + (i >> k & 1 ? half[k] : -half[k]);

  // two triangles for each side, seen from outside counterclockwise
  for (int f = 0; f < 6; f++) {
    const int *q = quads[f];
    to = put_triangle(to, q[0], q[1], q[2]);
    to = put_triangle(to, q[0], q[2], q[3]);
  }
  return pb_ok;
}

static pbStatus plane_mesh(pbContext *ctx, const pbSceneShape *s, double far, pbMesh **mesh) {
  PB_TRY(new_mesh(ctx, s, 4, 2, mesh));
  double u = s->size[0] > 0 ? s->size[0] : far, v = s->size[1] > 0 ? s->size[1] : far;

  for (int i = 0; i < 4; i++) {
    (*mesh)->point[3 * i] = i & 1 ? u : -u;
    (*mesh)->point[3 * i + 1] = i & 2 ? v : -v;
  }

  // both face up
  int *to = (*mesh)->cells[pb_cellTriangle].vertex;
  put_triangle(put_triangle(to, 0, 1, 3), 0, 3, 2);
  return pb_ok;
}

static pbStatus surface_mesh(pbContext *ctx, const pbSceneShape *s, pbMesh **mesh) {
  PB_TRY(new_mesh(ctx, s, s->look.points, s->look.triangles, mesh));

  memcpy((*mesh)->cells[pb_cellTriangle].vertex, s->look.triangle, (size_t)s->look.triangles * 3 * sizeof(int));
  for (int i = 0; i < s->look.points; i++) {
    double *x = (*mesh)->point + 3 * i;
    pbScene_Rotate(x, s->surface_quat, s->look.point + 3 * i);
    for (int k = 0; k < 3; k++) x[k] += s->surface_pos[k];
  }
  return pb_ok;
}

static pbStatus centered_mesh(pbContext *ctx, const pbSceneShape *s, double far, pbMesh **mesh) {
  static const double zero[3] = {0};
  double r = s->size[0], h = s->size[1];
  double can[4][2] = {{0, -h}, {r, -h}, {r, h}, {0, h}};

  switch (s->type) {
    case pb_geomPlane: return plane_mesh(ctx, s, far, mesh);
    case pb_geomSphere: return round_mesh(ctx, s, r, 0, mesh);
    case pb_geomCapsule: return round_mesh(ctx, s, r, h, mesh);
    case pb_geomCylinder: return revolve_profile(ctx, s, can, 4, mesh);
    case pb_geomBox: return box_mesh(ctx, s, zero, s->size, mesh);
    case pb_geomEllipsoid:
      PB_TRY(round_mesh(ctx, s, 1, 0, mesh));
      for (int i = 0; i < 3 * (*mesh)->points; i++) (*mesh)->point[i] *= s->size[i % 3];
      return pb_ok;
    default: return s->surface >= 0 ? surface_mesh(ctx, s, mesh) : box_mesh(ctx, s, s->box, s->box + 3, mesh);
  }
}

pbStatus pbSceneShape_Mesh(pbContext *ctx, const pbSceneShape *s, double far, pbMesh **mesh) {
  PB_TRY(centered_mesh(ctx, s, far, mesh));

  for (int i = 0; i < (*mesh)->points; i++) {
    double *x = (*mesh)->point + 3 * i, rotated[3];
    pbScene_Rotate(rotated, s->quat, x);
    for (int k = 0; k < 3; k++) x[k] = s->pos[k] + rotated[k];
  }
  return pb_ok;
}
