// The scene on a page: meshes, shapes, tendons, cameras, and the tree of joints by which the page moves bodies itself.
// Tests: tests/unit/test_surface.c, tests/oracle/test_train.py, tests/oracle/test_view.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/equalities.h>

#include "io/view/view.h"

// ---- meshes: welded, 16 bits a coordinate, each once -----------------------------------------------------------------------

typedef struct Packed {
  double low[3], step;  // a coordinate is low + step n, n from 0 to 65535
  int points, triangles;
  unsigned char *point;     // points x 3, two bytes each, least first
  unsigned char *triangle;  // triangles x 3, two bytes each, four where points do not fit two
  size_t point_size, triangle_size;
} Packed;

typedef struct Meshes {
  Packed *packed;
  int count;
  int *of_surface, *hull_of_surface;  // number of the packed mesh, -1: not made, -2: there is none
} Meshes;

static void clear_packed(pbContext *ctx, Packed *p) {
  pbContext_Free(ctx, p->point);
  pbContext_Free(ctx, p->triangle);
}

static void find_grid(const double *point, int points, Packed *p) {
  double high[3] = {0};

  for (int i = 0; i < points; i++) {
    for (int k = 0; k < 3; k++) {
      double x = point[3 * i + k];
      p->low[k] = i ? fmin(p->low[k], x) : x;
      high[k] = i ? fmax(high[k], x) : x;
    }
  }

  // one step for all axes, so that normals keep their directions
  double extent = 0;

  for (int k = 0; k < 3; k++) extent = fmax(extent, high[k] - p->low[k]);
  p->step = extent > 0 ? extent / 65535 : 1;
}

typedef struct Grid {
  const Packed *p;
  uint16_t (*kept)[3];
  int *slot, mask;  // of a hash table: number of a kept point + 1, 0: free
} Grid;

// Number among the kept points of one that is at the same place on the grid.
static int weld(Grid *g, const double x[3], int *count) {
  uint16_t n[3];
  uint32_t hash = 2166136261u;

  for (int k = 0; k < 3; k++) {
    n[k] = (uint16_t)fmin(65535, fmax(0, round((x[k] - g->p->low[k]) / g->p->step)));
    hash = (hash ^ n[k]) * 16777619u;
  }

  // the next free place, or the one that has it
  int at = (int)((hash ^ hash >> 15) & (uint32_t)g->mask);

  for (; g->slot[at]; at = (at + 1) & g->mask) {
    if (memcmp(g->kept[g->slot[at] - 1], n, sizeof n) == 0) return g->slot[at] - 1;
  }
  memcpy(g->kept[*count], n, sizeof n);
  g->slot[at] = ++*count;
  return *count - 1;
}

static void put_integer(unsigned char *to, uint32_t value, size_t size) {
  for (size_t b = 0; b < size; b++) to[b] = (unsigned char)(value >> (8 * b));
}

// Points in the order in which triangles first use them; those that none uses are left out.
static bool pack_with(pbContext *ctx, Grid *g, const double *point, const int *triangle, int triangles, int *number, Packed *p) {
  for (int i = 0; i < 3 * triangles; i++) {
    int v = triangle[i];
    if (number[v] < 0) number[v] = weld(g, point + 3 * v, &p->points);
  }

  // numbers of points: two bytes where that is enough
  size_t size = p->points > 65536 ? 4 : 2;
  p->triangles = triangles;
  p->point_size = 6 * (size_t)p->points;
  p->triangle_size = 3 * size * (size_t)triangles;
  p->point = pbContext_Alloc(ctx, p->point_size + 1);
  p->triangle = pbContext_Alloc(ctx, p->triangle_size + 1);
  if (!p->point || !p->triangle) return false;

  for (int i = 0; i < 3 * p->points; i++) put_integer(p->point + 2 * i, g->kept[i / 3][i % 3], 2);
  for (int i = 0; i < 3 * triangles; i++) put_integer(p->triangle + size * (size_t)i, (uint32_t)number[triangle[i]], size);
  return true;
}

static pbStatus pack(pbContext *ctx, const double *point, int points, const int *triangle, int triangles, Packed *p) {
  find_grid(point, points, p);

  // at most half full
  int slots = 16;
  while (slots < 2 * points) slots *= 2;

  Grid g = {.p = p, .mask = slots - 1};
  size_t room = (size_t)points + 1;
  g.kept = pbContext_Alloc(ctx, room * sizeof *g.kept);
  g.slot = pbContext_Alloc(ctx, (size_t)slots * sizeof *g.slot);
  int *number = pbContext_Alloc(ctx, room * sizeof *number);

  // -1: not used so far
  if (number) memset(number, -1, room * sizeof *number);

  bool done = g.kept && g.slot && number && pack_with(ctx, &g, point, triangle, triangles, number, p);

  pbContext_Free(ctx, g.kept);
  pbContext_Free(ctx, g.slot);
  pbContext_Free(ctx, number);
  return done ? pb_ok : pbScene_NoMemory(ctx);
}

static bool same_packed(const Packed *a, const Packed *b) {
  bool same_low = a->low[0] == b->low[0] && a->low[1] == b->low[1] && a->low[2] == b->low[2];
  return a->point_size == b->point_size && a->triangle_size == b->triangle_size && a->step == b->step && same_low &&
         memcmp(a->point, b->point, a->point_size) == 0 && memcmp(a->triangle, b->triangle, a->triangle_size) == 0;
}

// Files under several names are one mesh.
static pbStatus add_mesh(const View *v, Meshes *m, const double *point, int points, const int *triangle, int triangles,
                         int *made) {
  Packed *p = &m->packed[m->count];
  *p = (Packed){0};

  pbStatus status = pack(v->scene->ctx, point, points, triangle, triangles, p);

  // the first that is the same, itself at the latest
  *made = 0;
  while (status == pb_ok && *made < m->count && !same_packed(&m->packed[*made], p)) ++*made;
  if (status == pb_ok && *made == m->count) m->count++;
  else clear_packed(v->scene->ctx, p);
  return status;
}

// What touches is the hull. Of flat meshes, and where hulls were not built in, there is none.
static pbStatus add_hull(const View *v, Meshes *m, const pbMeshSurface *look, int *made) {
  pbHull *hull = NULL;
  *made = -2;
  if (pbHull_Create(v->scene->ctx, look->point, look->points, 0, &hull) != pb_ok) return pb_ok;

  pbStatus status = add_mesh(v, m, look->point, look->points, hull->triangle, hull->triangles, made);
  pbHull_Destroy(hull);
  return status;
}

static pbStatus make_meshes(const View *v, Meshes *m) {
  for (int i = 0; i < v->shape_count; i++) {
    const pbSceneShape *s = &v->shape[i];
    if (s->surface < 0) continue;

    int *seen = &m->of_surface[s->surface], *hull = &m->hull_of_surface[s->surface];
    if (s->type == pb_geomHfield) *hull = -2;  // touches as it looks
    if (s->collides && *hull == -1) PB_TRY(add_hull(v, m, &s->look, hull));

    // of what touches the hull alone is enough where only that is asked for
    bool wanted = v->shapes == view_all || *hull < 0;
    if (wanted && *seen == -1) PB_TRY(add_mesh(v, m, s->look.point, s->look.points, s->look.triangle, s->look.triangles, seen));
  }
  return pb_ok;
}

static void put_meshes(const Meshes *m, pbJson *j) {
  pbJson_Open(j, "meshes", '[');
  for (int i = 0; i < m->count; i++) {
    const Packed *p = &m->packed[i];
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Numbers(j, "low", p->low, 3);
    pbJson_Number(j, "step", p->step);
    pbJson_Bool(j, "wide", p->points > 65536);
    pbJson_Bytes(j, "points", p->point, p->point_size);
    pbJson_Bytes(j, "triangles", p->triangle, p->triangle_size);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}

// ---- shapes ------------------------------------------------------------------------------------------------------------

static void put_look(const pbSceneShape *s, const Meshes *m, pbJson *j) {
  if (s->surface < 0) {
    pbJson_Numbers(j, "box", s->box, 6);
    return;
  }

  int seen = m->of_surface[s->surface], hull = m->hull_of_surface[s->surface];
  pbJson_Text(j, "file", s->look.name);
  if (seen >= 0) pbJson_Integer(j, "mesh", seen);
  if (s->collides && hull >= 0) pbJson_Integer(j, "hull", hull);
  pbJson_Numbers(j, "mesh_pos", s->surface_pos, 3);
  pbJson_Numbers(j, "mesh_quat", s->surface_quat, 4);
}

static void put_shape(const pbSceneShape *s, const Meshes *m, pbJson *j) {
  pbJson_OpenLine(j, NULL, '{');
  pbJson_Text(j, "name", s->name);
  pbJson_Integer(j, "id", s->id);
  pbJson_Integer(j, "type", s->type);
  pbJson_Integer(j, "body", s->body);
  pbJson_Integer(j, "group", s->group);
  if (!s->site) pbJson_Bool(j, "collides", s->collides);

  pbJson_Numbers(j, "size", s->size, 3);
  pbJson_Numbers(j, "pos", s->pos, 3);
  pbJson_Numbers(j, "quat", s->quat, 4);
  pbJson_Numbers(j, "rgba", s->rgba, 4);
  bool textured = false;
  for (int k = 0; k < 6; k++) textured |= s->cells[k] != 1;
  if (textured) pbJson_Numbers(j, "cells", s->cells, 6);
  if (s->type > pb_geomBox || s->type == pb_geomHfield) put_look(s, m, j);
  pbJson_Close(j, '}');
}

static void put_shapes(const View *v, const char *key, bool sites, const Meshes *m, pbJson *j) {
  pbJson_Open(j, key, '[');
  for (int i = 0; i < v->shape_count; i++) {
    if (v->shape[i].site == sites) put_shape(&v->shape[i], m, j);
  }
  pbJson_Close(j, ']');
}

// What the page needs to go around a geom.
static void put_wrap(const pbScene *scene, const pbScenePiece *p, int piece, pbJson *j) {
  pbSceneShape s = pbScene_Shape(scene, p->geom);
  pbJson_Open(j, NULL, '{');
  pbJson_Integer(j, "piece", piece);
  pbJson_Integer(j, "body", s.body);
  pbJson_Bool(j, "cylinder", s.type == pb_geomCylinder);
  pbJson_Number(j, "radius", s.size[0]);
  pbJson_Numbers(j, "pos", s.pos, 3);
  pbJson_Numbers(j, "quat", s.quat, 4);

  if (p->has_side) pbJson_Integer(j, "side_body", p->side.body);
  if (p->has_side) pbJson_Numbers(j, "side", p->side.at, 3);
  pbJson_Close(j, '}');
}

// Two ends a piece, each fixed to a body.
static void put_tendon(const pbScene *scene, int t, int segments, const double rgba[4], pbJson *j) {
  pbJson_OpenLine(j, NULL, '{');
  pbJson_Text(j, "name", pbModel_Name(scene->model, pb_objTendon, t));
  pbJson_Number(j, "width", scene->drawn.tendon_width[t]);
  pbJson_Numbers(j, "rgba", rgba, 4);

  pbJson_OpenLine(j, "bodies", '[');
  for (int k = 0; k < segments; k++) {
    pbScenePiece p = pbSceneTendon_Segment(scene, t, k);
    pbJson_Integer(j, NULL, p.end[0].body);
    pbJson_Integer(j, NULL, p.end[1].body);
  }
  pbJson_Close(j, ']');

  // where the pieces end, in the frames of these bodies
  pbJson_OpenLine(j, "points", '[');
  for (int k = 0; k < segments; k++) {
    pbScenePiece p = pbSceneTendon_Segment(scene, t, k);
    for (int i = 0; i < 6; i++) pbJson_Number(j, NULL, p.end[i / 3].at[i % 3]);
  }
  pbJson_Close(j, ']');

  // those that may go around something
  pbJson_OpenLine(j, "wraps", '[');
  for (int k = 0; k < segments; k++) {
    pbScenePiece p = pbSceneTendon_Segment(scene, t, k);
    if (p.geom >= 0) put_wrap(scene, &p, k, j);
  }
  pbJson_Close(j, ']');
  pbJson_Close(j, '}');
}

static void put_tendons(const pbScene *scene, pbJson *j) {
  pbJson_Open(j, "tendons", '[');
  for (int t = 0; t < scene->drawn.ntendon; t++) {
    double rgba[4];
    int segments = pbSceneTendon_Segments(scene, t);
    pbSceneTendon_Color(scene, t, rgba);
    if (segments && rgba[3] > 0) put_tendon(scene, t, segments, rgba, j);
  }
  pbJson_Close(j, ']');
}

// ---- the tree ------------------------------------------------------------------------------------------------------------

// A field of the model as numbers: of theta where it is a parameter.
static void put_field(const pbScene *scene, pbJson *j, const char *key, const char *name, int first, int rows) {
  pbParam param;
  pbField field = {0};
  const double *values = NULL;

  // the run's value where it is a parameter
  bool known = pbModel_Field(scene->model, name, &field);
  if (known && pbModel_Param(NULL, scene->model, name, &param) == pb_ok) values = scene->theta + param.offset;
  else values = field.reals;

  pbJson_OpenLine(j, key, '[');
  for (int i = first * field.cols; i < (first + rows) * field.cols; i++) {
    if (values) pbJson_Number(j, NULL, values[i]);
    else if (field.integers) pbJson_Integer(j, NULL, field.integers[i]);
  }
  pbJson_Close(j, ']');
}

static void put_joints(const pbScene *scene, pbJson *j) {
  pbJson_Open(j, "joints", '[');
  for (int i = 0; i < pbModel_Size(scene->model, "njnt"); i++) {
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", pbModel_Name(scene->model, pb_objJoint, i));
    pbJson_Integer(j, "type", pbModel_Integer(scene->model, "jnt_type", i));
    pbJson_Integer(j, "body", pbModel_Integer(scene->model, "jnt_bodyid", i));
    pbJson_Integer(j, "qpos", pbModel_Integer(scene->model, "jnt_qposadr", i));
    put_field(scene, j, "pos", "jnt_pos", i, 1);
    put_field(scene, j, "axis", "jnt_axis", i, 1);
    if (pbModel_Integer(scene->model, "jnt_limited", i) > 0) put_field(scene, j, "range", "jnt_range", i, 1);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');

  // joints that follow others: q1 - ref1 = polynomial of (q2 - ref2)
  pbJson_Open(j, "couplings", '[');
  for (int e = 0; e < pbModel_Size(scene->model, "neq"); e++) {
    // other equalities are none that a slider could keep
    bool joint = pbModel_Integer(scene->model, "eq_type", e) == pb_eqJoint && pbModel_Integer(scene->model, "eq_active0", e);
    if (!joint) continue;
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Integer(j, "joint", pbModel_Integer(scene->model, "eq_obj1id", e));
    pbJson_Integer(j, "by", pbModel_Integer(scene->model, "eq_obj2id", e));
    put_field(scene, j, "data", "eq_data", e, 1);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}

static void put_cameras(const pbScene *scene, pbJson *j) {
  pbJson_Open(j, "cameras", '[');
  for (int i = 0; i < pbModel_Size(scene->model, "ncam"); i++) {
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", pbModel_Name(scene->model, pb_objCamera, i));
    pbJson_Integer(j, "mode", pbModel_Integer(scene->model, "cam_mode", i));
    pbJson_Integer(j, "body", pbModel_Integer(scene->model, "cam_bodyid", i));
    pbJson_Integer(j, "target", pbModel_Integer(scene->model, "cam_targetbodyid", i));
    put_field(scene, j, "pos", "cam_pos", i, 1);
    put_field(scene, j, "quat", "cam_quat", i, 1);
    put_field(scene, j, "fovy", "cam_fovy", i, 1);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}

static void put_tree(const pbScene *scene, pbJson *j) {
  static const char *const fields[] = {"body_parentid", "body_pos", "body_quat", "body_ipos", "body_mass"};
  pbJson_OpenLine(j, "bodies", '[');
  for (int b = 0; b < scene->nbody; b++) pbJson_Text(j, NULL, pbModel_Name(scene->model, pb_objBody, b));
  pbJson_Close(j, ']');

  pbJson_OpenLine(j, "bodygeoms", '[');  // names of all geoms, by which contacts are told
  for (int g = 0; g < scene->drawn.ngeom; g++) pbJson_Text(j, NULL, pbModel_Name(scene->model, pb_objGeom, g));
  pbJson_Close(j, ']');
  put_field(scene, j, "geom_body", "geom_bodyid", 0, scene->drawn.ngeom);

  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) put_field(scene, j, fields[i], fields[i], 0, scene->nbody);
  put_field(scene, j, "qpos0", "qpos0", 0, scene->nq);

  // bodies that are where they are put
  pbJson_OpenLine(j, "mocap", '[');
  for (int i = 0; i < pbModel_Size(scene->model, "nmocap"); i++) pbJson_Integer(j, NULL, pbModel_MocapBody(scene->model, i));
  pbJson_Close(j, ']');
  put_joints(scene, j);
}

// ---- the whole -----------------------------------------------------------------------------------------------------------

pbStatus pbView_PutScene(const View *v, pbJson *j) {
  pbContext *ctx = v->scene->ctx;
  size_t surfaces = (size_t)pbScene_Surfaces(v->scene);
  Meshes m = {.packed = pbContext_Alloc(ctx, (2 * surfaces + 1) * sizeof *m.packed),
              .of_surface = pbContext_Alloc(ctx, (surfaces + 1) * sizeof(int)),
              .hull_of_surface = pbContext_Alloc(ctx, (surfaces + 1) * sizeof(int))};

  bool room = m.packed && m.of_surface && m.hull_of_surface;
  if (room) {
    memset(m.of_surface, -1, surfaces * sizeof(int));
    memset(m.hull_of_surface, -1, surfaces * sizeof(int));
  }

  pbStatus status = room ? make_meshes(v, &m) : pbScene_NoMemory(ctx);
  if (status == pb_ok) {
    put_tree(v->scene, j);
    put_meshes(&m, j);
    put_shapes(v, "geoms", false, &m, j);
    put_shapes(v, "sites", true, &m, j);
    put_tendons(v->scene, j);
    put_cameras(v->scene, j);
  }

  for (int i = 0; i < m.count; i++) clear_packed(ctx, &m.packed[i]);
  pbContext_Free(ctx, m.packed);
  pbContext_Free(ctx, m.of_surface);
  pbContext_Free(ctx, m.hull_of_surface);
  return status;
}
