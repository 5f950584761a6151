// Contact and attachment of a task's deformables: to bodies of the model, its geoms, planes and each other.
// Tests: tests/unit/test_task_deform.c, tests/oracle/test_deform_cli.py.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "io/task/task_deform.h"

static pbStatus made(pbTaskReader *r, pbStatus status) { return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status); }

static pbStatus need_model(pbTaskReader *r, const char *what) {
  return r->model ? pb_ok : pbTaskReader_Fail(r, pb_bad_input, "there is no model to look up this %s in", what);
}

static void shift(int *points, int count, int by) {
  for (int i = 0; i < count; i++) points[i] += by;
}

// ---- points on bodies -------------------------------------------------------------------------------------------------
static pbStatus read_attachment(pbTaskReader *r, const json_t *o, const pbDeformBody *body, pbDeformable *d) {
  static const char *const keys[] = {"points", "body", "comment", NULL};
  const char *name = NULL;
  int *points = NULL, count;
  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(pbTaskReader_Text(r, o, "body", &name));
  if (!name || !json_object_get(o, "points")) return pbTaskReader_Fail(r, pb_bad_input, "expected \"points\" and \"body\"");

  PB_TRY(need_model(r, "body"));
  pbTaskReader_Enter(r, "points");
  PB_TRY(pbTask_SelectPoints(r, body, json_object_get(o, "points"), &points, &count));
  pbTaskReader_Leave(r);

  shift(points, count, body->first);
  pbStatus status = made(r, pbDeformable_AttachPoints(d, r->model, name, count, points));
  pbContext_Free(r->ctx, points);
  return status;
}

pbStatus pbTask_ReadAttachments(pbTaskReader *r, const json_t *list, const pbDeformBody *body, pbDeformable *d) {
  if (!list) return pb_ok;
  pbTaskReader_Enter(r, "attach");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of {\"points\": ..., \"body\": ...}");

  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(read_attachment(r, json_array_get(list, i), body, d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- surfaces of bodies -----------------------------------------------------------------------------------------------
// The surface of a body: its outer triangles, or its edges if it has no triangles, or its points if it has neither.
static pbStatus add_surface(pbTaskReader *r, const pbDeformBody *body, double radius, bool self, pbDeformable *d) {
  pbCells skin = {0};
  const pbMesh *mesh = body->mesh;
  PB_TRY(made(r, pbMesh_Skin(r->ctx, mesh, &skin)));

  const pbCells *lines = &mesh->cells[pb_cellEdge];
  bool bare = skin.count == 0 && lines->count == 0;
  int edges = skin.count ? 0 : lines->count, points = bare ? mesh->points : 0;

  // one array for all of them
  int *all = pbContext_AllocArray(r->ctx, 3 * (size_t)skin.count + 2 * (size_t)edges + (size_t)points + 1, sizeof(int));
  if (!all) {
    pbCells_Clear(r->ctx, &skin);
    return pbTaskReader_Fail(r, pb_no_memory, "no memory for a surface");
  }

  int *triangle = all, *edge = all + 3 * skin.count, *point = edge + 2 * edges;
  if (skin.count) memcpy(triangle, skin.vertex, 3 * (size_t)skin.count * sizeof(int));
  if (edges) memcpy(edge, lines->vertex, 2 * (size_t)edges * sizeof(int));
  for (int i = 0; i < points; i++) point[i] = i;
  shift(all, 3 * skin.count + 2 * edges + points, body->first);
  pbSurface surface = {.name = body->name,
                       .triangles = skin.count,
                       .triangle = triangle,
                       .edges = edges,
                       .edge = edge,
                       .points = points,
                       .point = point,
                       .radius = radius,
                       .self = self};

  pbStatus status = made(r, pbDeformable_AddSurface(d, &surface, NULL));
  pbContext_Free(r->ctx, all);
  pbCells_Clear(r->ctx, &skin);
  return status;
}

static int by_corners(const void *a, const void *b) { return memcmp(a, b, 2 * sizeof(int)); }

// Outline of a body in the plane: the edges that belong to a single triangle, from corner to corner. Returns their number.
static int outline(const pbCells *skin, int *edge) {
  int count = 3 * skin->count, single = 0;

  // every edge of every triangle, ordered so that equal ones follow each other
  for (int i = 0; i < count; i++) {
    int a = skin->vertex[i], b = skin->vertex[i % 3 == 2 ? i - 2 : i + 1];
    edge[2 * i] = a < b ? a : b;
    edge[2 * i + 1] = a < b ? b : a;
  }
  qsort(edge, (size_t)count, 2 * sizeof(int), by_corners);
  for (int i = 0, same; i < count; i += same) {
    same = 1;
    while (i + same < count && !by_corners(edge + 2 * i, edge + 2 * (i + same))) same++;

    // an edge of two triangles is inside
    if (same == 1) memmove(edge + 2 * single++, edge + 2 * i, 2 * sizeof(int));
  }
  return single;
}

// In the plane a body's surface is the outline of its triangles with its other edges, or its points if it has neither.
static pbStatus add_outline(pbTaskReader *r, const pbDeformBody *body, double radius, bool self, pbDeformable *d) {
  pbCells skin = {0};
  const pbMesh *mesh = body->mesh;
  const pbCells *lines = &mesh->cells[pb_cellEdge];
  PB_TRY(made(r, pbMesh_Skin(r->ctx, mesh, &skin)));

  // points alone where there is nothing else
  bool bare = skin.count == 0 && lines->count == 0;
  int points = bare ? mesh->points : 0;
  int *all = pbContext_AllocArray(r->ctx, 6 * (size_t)skin.count + 2 * (size_t)lines->count + (size_t)points + 1, sizeof(int));

  pbStatus status = all ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a surface");
  if (status == pb_ok) {
    // outline first, then the other edges, then the points
    int edges = outline(&skin, all), *point = all + 2 * (edges + lines->count);
    if (lines->count) memcpy(all + 2 * edges, lines->vertex, 2 * (size_t)lines->count * sizeof(int));
    edges += lines->count;
    for (int i = 0; i < points; i++) point[i] = i;
    shift(all, 2 * edges + points, body->first);

    pbSurface surface = {
        .name = body->name, .edges = edges, .edge = all, .points = points, .point = point, .radius = radius, .self = self};
    status = made(r, pbDeformable_AddSurface(d, &surface, NULL));
  }

  pbContext_Free(r->ctx, all);
  pbCells_Clear(r->ctx, &skin);
  return status;
}

pbStatus pbTask_ReadSurface(pbTaskReader *r, const json_t *o, pbDeformTouch touch, const pbDeformBody *body, pbDeformable *d) {
  typedef struct Skin {
    double radius;
    bool self;
  } Skin;
  static const pbTaskKey keys[] = {PB_KEY_FROM("radius", Real, Skin, radius, 0, INFINITY), PB_KEY("self", Bool, Skin, self),
                                   PB_KEY_PART("comment"), PB_KEYS_END};
  const json_t *value = json_object_get(o, "surface");
  Skin s = {.self = true};
  if (!touch.contact) return value ? pbTaskReader_FailAt(r, "surface", "\"contact\" of the deformables is missing") : pb_ok;
  if (json_is_false(value)) return pb_ok;

  // true, or nothing, is the default surface
  if (value && !json_is_true(value)) {
    pbTaskReader_Enter(r, "surface");
    PB_TRY(pbTaskReader_Fill(r, value, keys, &s));
    pbTaskReader_Leave(r);
  }

  return touch.planar ? add_outline(r, body, s.radius, s.self, d) : add_surface(r, body, s.radius, s.self, d);
}

// ---- contact ----------------------------------------------------------------------------------------------------------
static bool has_friction(const json_t *pairs) {
  for (size_t i = 0; i < json_array_size(pairs); i++) {
    if (json_number_value(json_object_get(json_array_get(pairs, i), "friction")) > 0) return true;
  }
  return false;
}

typedef struct Settings {
  pbDeformContact c;
  int kind;  // -1: none is named
} Settings;
static const char *const friction_kinds[] = {
    [pb_frictionNone] = "none", [pb_frictionLagged] = "lagged", [pb_frictionImplicit] = "implicit", NULL};
static const pbTaskKey contact_keys[] = {PB_KEY("distance", Real, Settings, c.distance),
                                         PB_KEY("stiffness", Real, Settings, c.stiffness),
                                         PB_KEY("friction", Real, Settings, c.friction),
                                         PB_KEY("velocity", Real, Settings, c.velocity),
                                         PB_KEY_WORD("kind", Settings, kind, friction_kinds),
                                         PB_KEY_PART("geoms"),
                                         PB_KEY_PART("planes"),
                                         PB_KEY_PART("pairs"),
                                         PB_KEY_PART("comment"),
                                         PB_KEYS_END};

static pbStatus read_settings(pbTaskReader *r, const json_t *o, pbDeformable *d) {
  Settings s = {.c = {.velocity = 1e-3}, .kind = -1};
  PB_TRY(pbTaskReader_Fill(r, o, contact_keys, &s));

  // without a kind there is friction if any coefficient is positive
  bool rubs = s.c.friction > 0 || has_friction(json_object_get(o, "pairs"));
  s.c.kind = rubs ? pb_frictionLagged : pb_frictionNone;
  if (s.kind >= 0) s.c.kind = (pbFrictionKind)s.kind;
  return made(r, pbDeformable_SetContact(d, &s.c));
}

static pbStatus new_name(pbTaskReader *r, const char *name, const pbDeformable *d) {
  if (pbDeformable_FindSurface(d, name) < 0) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "there is a surface '%.100s' already", name);
}

static pbStatus add_geom(pbTaskReader *r, const char *name, pbDeformable *d) {
  int id;
  PB_TRY(need_model(r, "geom"));
  PB_TRY(pbTaskReader_Id(r, name, pb_objGeom, &id));
  PB_TRY(new_name(r, name, d));
  return made(r, pbDeformable_AttachGeom(d, r->model, name, NULL));
}

static pbStatus read_geoms(pbTaskReader *r, const json_t *list, pbDeformable *d) {
  if (!list) return pb_ok;
  pbTaskReader_Enter(r, "geoms");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of names of geoms");

  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    pbTaskReader_EnterAt(r, i);
    if (!name) return pbTaskReader_Fail(r, pb_bad_input, "expected the name of a geom");
    PB_TRY(add_geom(r, name, d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_plane(pbTaskReader *r, const json_t *o, pbDeformable *d) {
  static const char *const keys[] = {"name", "point", "normal", "comment", NULL};
  double point[3] = {0}, normal[3] = {0, 0, 1};
  const char *name = NULL;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(pbTaskReader_Text(r, o, "name", &name));

  // a plane without a name cannot be in a pair
  if (name) PB_TRY(new_name(r, name, d));
  PB_TRY(pbTaskReader_Spread(r, o, "point", 3, point));

  // one number is no direction
  if (json_is_number(json_object_get(o, "normal"))) return pbTaskReader_FailAt(r, "normal", "expected three numbers");
  PB_TRY(pbTaskReader_Spread(r, o, "normal", 3, normal));
  return made(r, pbDeformable_AddPlane(d, name, point, normal, NULL));
}

static pbStatus read_planes(pbTaskReader *r, const json_t *list, pbDeformable *d) {
  if (!list) return pb_ok;
  pbTaskReader_Enter(r, "planes");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of {\"point\": ..., \"normal\": ...}");

  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(read_plane(r, json_array_get(list, i), d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus find_surface(pbTaskReader *r, const json_t *item, const pbDeformable *d, int *number) {
  const char *name = json_string_value(item), *candidate;
  char hint[200];
  if (!name) return pbTaskReader_Fail(r, pb_bad_input, "expected the names of two surfaces (bodies, geoms, planes)");

  *number = pbDeformable_FindSurface(d, name);
  if (*number >= 0) return pb_ok;

  // among bodies, geoms and planes
  pbSuggest near = pbSuggest_For(name);
  for (int i = 0; (candidate = pbDeformable_SurfaceName(d, i)); i++) pbSuggest_Offer(&near, candidate);
  return pbTaskReader_Fail(r, pb_bad_input, "there is no surface '%.100s'%s", name, pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus read_pair(pbTaskReader *r, const json_t *o, pbDeformable *d) {
  // what is not given stays that of the contact as a whole
  typedef struct Pair {
    double stiffness, friction;
    bool meet;
  } Pair;
  static const pbTaskKey keys[] = {PB_KEY_PART("between"),
                                   PB_KEY("meet", Bool, Pair, meet),
                                   PB_KEY("stiffness", Positive, Pair, stiffness),
                                   PB_KEY_FROM("friction", Real, Pair, friction, 0, INFINITY),
                                   PB_KEY_PART("comment"),
                                   PB_KEYS_END};
  const json_t *between = json_object_get(o, "between");
  Pair p = {.stiffness = -1, .friction = -1, .meet = true};
  int number[2];

  PB_TRY(pbTaskReader_Fill(r, o, keys, &p));

  pbTaskReader_Enter(r, "between");
  if (json_array_size(between) != 2) return pbTaskReader_Fail(r, pb_bad_input, "expected the names of two surfaces");
  for (size_t i = 0; i < 2; i++) PB_TRY(find_surface(r, json_array_get(between, i), d, &number[i]));
  pbTaskReader_Leave(r);

  return made(r, pbDeformable_SetPair(d, number[0], number[1], p.meet, p.stiffness, p.friction));
}

static pbStatus read_pairs(pbTaskReader *r, const json_t *list, pbDeformable *d) {
  if (!list) return pb_ok;
  pbTaskReader_Enter(r, "pairs");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of {\"between\": [name, name], ...}");

  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(read_pair(r, json_array_get(list, i), d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Geoms and planes do not meet each other here: the model's own contact does that.
static pbStatus separate_scenery(pbTaskReader *r, int first, pbDeformable *d) {
  int count = first;

  while (pbDeformable_SurfaceName(d, count)) count++;
  for (int i = first; i < count; i++) {
    for (int k = i + 1; k < count; k++) PB_TRY(made(r, pbDeformable_SetPair(d, i, k, false, -1, -1)));
  }
  return pb_ok;
}

pbStatus pbTask_ReadContact(pbTaskReader *r, const json_t *o, pbDeformable *d) {
  int first = 0;
  pbTaskReader_Enter(r, "contact");
  PB_TRY(read_settings(r, o, d));

  // surfaces from `first` on are geoms and planes
  while (pbDeformable_SurfaceName(d, first)) first++;
  PB_TRY(read_geoms(r, json_object_get(o, "geoms"), d));
  PB_TRY(read_planes(r, json_object_get(o, "planes"), d));

  // before the pairs of the file, which may let them meet
  PB_TRY(separate_scenery(r, first, d));
  PB_TRY(read_pairs(r, json_object_get(o, "pairs"), d));

  pbTaskReader_Leave(r);
  return pb_ok;
}
