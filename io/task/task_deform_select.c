// Points and elements of a deformable body, by name, position or number.
// Tests: tests/unit/test_task_deform.c, tests/oracle/test_deform_cli.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "io/task/task_deform.h"

// ---- points ---------------------------------------------------------------------------------------------------------
typedef struct Chosen {  // points in the order they were named, each once
  int *points, count;
  bool *taken;
} Chosen;

static void take(Chosen *c, int point) {
  if (!c->taken[point]) c->points[c->count++] = point;
  c->taken[point] = true;
}

static pbStatus no_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for deformables"); }

// [low, high] of a box, in the mesh's own coordinates; null leaves a side open.
static pbStatus read_corner(pbTaskReader *r, const json_t *list, double open, double *out) {
  bool good = json_is_array(list) && json_array_size(list) == 3;
  size_t count = good ? 3 : 0;
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(list, i);
    good &= json_is_number(value) || json_is_null(value);
    out[i] = json_is_null(value) ? open : json_number_value(value);
  }

  if (good) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input, "expected [[x, y, z], [x, y, z]]: two corners, null for an open side");
}

static pbStatus take_box(pbTaskReader *r, const pbMesh *mesh, const json_t *value, Chosen *c) {
  double low[3], high[3], size = 0;
  bool good = json_is_array(value) && json_array_size(value) == 2;

  // of what is no pair of corners read_corner gets no list, which it refuses
  PB_TRY(read_corner(r, good ? json_array_get(value, 0) : NULL, -INFINITY, low));
  PB_TRY(read_corner(r, json_array_get(value, 1), INFINITY, high));

  for (int i = 0; i < 3; i++) {
    if (!(low[i] <= high[i])) return pbTaskReader_Fail(r, pb_bad_input, "the first corner is above the second");
  }

  // points on a side are inside, whatever rounding did to them
  for (int i = 0; i < 3 * mesh->points; i++) size = fmax(size, fabs(mesh->point[i]));
  for (int i = 0; i < mesh->points; i++) {
    const double *x = mesh->point + 3 * i, slack = 1e-9 * size;
    bool in = true;
    for (int k = 0; k < 3; k++) in &= x[k] >= low[k] - slack && x[k] <= high[k] + slack;
    if (in) take(c, i);
  }
  return pb_ok;
}

static pbStatus take_nearest(pbTaskReader *r, const pbMesh *mesh, const json_t *object, Chosen *c) {
  double at[3], least = INFINITY;
  int nearest = 0;
  if (!json_is_array(json_object_get(object, "nearest"))) return pbTaskReader_FailAt(r, "nearest", "expected [x, y, z]");
  PB_TRY(pbTaskReader_Spread(r, object, "nearest", 3, at));

  // the first of several that are as near
  for (int i = 0; i < mesh->points; i++) {
    double d = 0;
    for (int k = 0; k < 3; k++) d += (mesh->point[3 * i + k] - at[k]) * (mesh->point[3 * i + k] - at[k]);
    if (d < least) {
      least = d;
      nearest = i;
    }
  }

  take(c, nearest);
  return pb_ok;
}

static pbStatus take_place(pbTaskReader *r, const pbMesh *mesh, const json_t *value, Chosen *c) {
  static const char *const keys[] = {"box", "nearest", NULL};
  PB_TRY(pbTaskReader_Keys(r, value, keys));
  if (json_object_size(value) != 1) return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"box\" and \"nearest\"");
  if (json_object_get(value, "nearest")) return take_nearest(r, mesh, value, c);

  pbTaskReader_Enter(r, "box");
  PB_TRY(take_box(r, mesh, json_object_get(value, "box"), c));
  pbTaskReader_Leave(r);
  return pb_ok;
}

static void take_group(const pbMesh *mesh, const pbMeshGroup *group, Chosen *c) {
  for (int kind = 0; kind < pb_cellKindCount; kind++) {
    const pbCells *cells = &mesh->cells[kind];
    int nodes = pbCellKind_Nodes((pbCellKind)kind);
    if (pbCellKind_Dimension((pbCellKind)kind) != group->dimension) continue;
    for (int i = 0; i < cells->count * nodes; i++) {
      if (cells->group[i / nodes] == group->number) take(c, cells->vertex[i]);
    }
  }
}

static pbStatus take_name(pbTaskReader *r, const pbDeformBody *body, const char *name, Chosen *c) {
  pbSuggest near = pbSuggest_For(name);
  char hint[200];

  // the body's own sets come before the groups of its mesh
  for (int i = 0; i < body->set_count; i++) {
    const pbBodySet *set = &body->sets[i];
    pbSuggest_Offer(&near, set->name);
    if (strcmp(set->name, name) != 0) continue;
    for (int k = 0; k < set->count; k++) take(c, set->points[k]);
    return pb_ok;
  }

  const pbMeshGroup *group = pbMesh_FindGroup(body->mesh, name);
  if (group) {
    take_group(body->mesh, group, c);
    return pb_ok;
  }

  for (int i = 0; i < body->mesh->groups; i++) pbSuggest_Offer(&near, body->mesh->group[i].name);
  return pbTaskReader_Fail(r, pb_bad_input, "'%.80s' is neither a set of '%.80s' nor a group of its mesh%s", name, body->name,
                           pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus take_item(pbTaskReader *r, const pbDeformBody *body, const json_t *value, Chosen *c) {
  int all = body->mesh->points;
  if (json_is_string(value)) return take_name(r, body, json_string_value(value), c);
  if (json_is_object(value)) return take_place(r, body->mesh, value, c);
  if (!json_is_integer(value))
    return pbTaskReader_Fail(
        r, pb_bad_input,
        "expected a set, a group of the mesh, {\"box\": [low, high]}, {\"nearest\": [x, y, z]}, a number or a list");

  json_int_t number = json_integer_value(value);
  if (number < 0 || number >= all)
    return pbTaskReader_Fail(r, pb_bad_input, "'%.80s' has no point %lld: it has %d", body->name, (long long)number, all);

  take(c, (int)number);
  return pb_ok;
}

static pbStatus take_all(pbTaskReader *r, const pbDeformBody *body, const json_t *value, Chosen *c) {
  pbStatus status = pb_ok;
  if (json_is_true(value)) {
    for (int i = 0; i < body->mesh->points; i++) take(c, i);
  } else if (json_is_array(value)) {
    for (size_t i = 0; status == pb_ok && i < json_array_size(value); i++) {
      pbTaskReader_EnterAt(r, i);
      status = take_item(r, body, json_array_get(value, i), c);
      if (status == pb_ok) pbTaskReader_Leave(r);
    }
  } else {
    status = take_item(r, body, value, c);
  }

  if (status == pb_ok && c->count == 0) return pbTaskReader_Fail(r, pb_bad_input, "this selects no point of '%.80s'", body->name);
  return status;
}

pbStatus pbTask_SelectPoints(pbTaskReader *r, const pbDeformBody *body, const json_t *value, int **points, int *count) {
  size_t room = (size_t)body->mesh->points + 1;
  Chosen c = {.points = pbContext_AllocArray(r->ctx, room, sizeof(int)),
              .taken = pbContext_AllocArray(r->ctx, room, sizeof(bool))};

  pbStatus status = c.points && c.taken ? take_all(r, body, value, &c) : no_memory(r);

  pbContext_Free(r->ctx, c.taken);
  if (status != pb_ok) pbContext_Free(r->ctx, c.points);
  *points = status == pb_ok ? c.points : NULL;
  *count = c.count;
  return status;
}

// ---- elements -------------------------------------------------------------------------------------------------------
// Kinds in the order they are looked for, and the words of "on" that mean them.
static const struct {
  int cell, nodes, dimension;
  const char *word;
} kinds[] = {{pb_cellTetrahedron10, 10, 3, "tetrahedra"},
             {pb_cellTetrahedron, 4, 3, "tetrahedra"},
             {pb_cellTriangle6, 6, 2, "triangles"},
             {pb_cellTriangle, 3, 2, "triangles"},
             {pb_cellHinge, 4, 2, "hinges"},
             {pb_cellBend, 3, 1, "bends"},
             {pb_cellEdge, 2, 1, "edges"},
             {pb_cellPoint, 1, 0, "points"}};
enum { kind_count = sizeof kinds / sizeof *kinds };

int pbTask_CellNodes(int cell) {
  for (int i = 0; i < kind_count; i++) {
    if (kinds[i].cell == cell) return kinds[i].nodes;
  }
  return 0;
}

unsigned pbTask_CellsOf(int points) {
  unsigned bits = 0;
  for (int i = 0; i < kind_count; i++) bits |= kinds[i].nodes == points ? 1u << kinds[i].cell : 0;
  return bits;
}

static pbStatus made(pbTaskReader *r, pbStatus status) { return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status); }

// Three points in a row: one at every point where exactly two of the edges meet.
static pbStatus bends_of(pbTaskReader *r, const pbMesh *mesh, const pbCells *edges, pbCells *bends) {
  // of each point two neighbors and the number of its edges
  int *ends = pbContext_AllocArray(r->ctx, 3 * (size_t)mesh->points + 1, sizeof *ends);
  bends->vertex = pbContext_AllocArray(r->ctx, 3 * (size_t)mesh->points + 1, sizeof(int));
  if (!ends || !bends->vertex) {
    pbContext_Free(r->ctx, ends);
    return no_memory(r);
  }

  for (int i = 0; i < 2 * edges->count; i++) {
    int *e = ends + 3 * edges->vertex[i];

    // i ^ 1 is the edge's other end
    if (e[2] < 2) e[e[2]] = edges->vertex[i ^ 1];
    e[2]++;
  }

  for (int i = 0; i < mesh->points; i++) {
    if (ends[3 * i + 2] != 2) continue;
    int *b = bends->vertex + 3 * bends->count++;
    b[0] = ends[3 * i];
    b[1] = i;
    b[2] = ends[3 * i + 1];
  }

  pbContext_Free(r->ctx, ends);
  return pb_ok;
}

static pbStatus copy_cells(pbTaskReader *r, const pbCells *from, int nodes, int group, pbCells *to) {
  to->vertex = pbContext_AllocArray(r->ctx, (size_t)from->count * (size_t)nodes + 1, sizeof(int));
  if (!to->vertex) return no_memory(r);

  for (int i = 0; i < from->count; i++) {
    if (group && from->group[i] != group) continue;
    memcpy(to->vertex + nodes * to->count++, from->vertex + nodes * i, (size_t)nodes * sizeof(int));
  }
  return pb_ok;
}

// The mesh's own edges; where it has none, those of its cells.
static pbStatus edges_of(pbTaskReader *r, const pbMesh *mesh, int group, pbCells *edges) {
  if (mesh->cells[pb_cellEdge].count) return copy_cells(r, &mesh->cells[pb_cellEdge], 2, group, edges);

  // edges made from cells are in no group
  if (group) return pb_ok;

  // solids and surfaces come first in the table
  for (int i = 0; i < 4; i++) {
    const pbCells *cells = &mesh->cells[kinds[i].cell];
    if (cells->count) return made(r, pbCells_Edges(r->ctx, (pbCellKind)kinds[i].cell, cells, edges));
  }
  return pb_ok;
}

// All elements of a kind that the mesh has, or those of one of its groups.
static pbStatus cells_of(pbTaskReader *r, const pbMesh *mesh, int cell, int group, pbCells *out) {
  pbCells part = {0};
  pbStatus status;
  if (cell == pb_cellEdge) return edges_of(r, mesh, group, out);

  // bends and hinges are made from edges and triangles
  if (cell == pb_cellBend) {
    status = edges_of(r, mesh, group, &part);
    if (status == pb_ok) status = bends_of(r, mesh, &part, out);
  } else if (cell == pb_cellHinge) {
    status = copy_cells(r, &mesh->cells[pb_cellTriangle], 3, group, &part);
    if (status == pb_ok) status = made(r, pbCells_Hinges(r->ctx, &part, out));
  } else {
    return copy_cells(r, &mesh->cells[cell], pbTask_CellNodes(cell), group, out);
  }

  pbCells_Clear(r->ctx, &part);
  return status;
}

// Elements by their points, [[i, j, ...], ...]: of a wanted kind with as many points, or with `points` points each.
static pbStatus listed(pbTaskReader *r, const pbDeformBody *body, const json_t *on, unsigned wanted, int points, int *cell,
                       pbCells *out) {
  size_t rows = 0, nodes = json_array_size(json_array_get(on, 0));
  double *data = NULL;

  // where kinds of two orders fit, the first of the table
  *cell = -1;
  for (int i = kind_count - 1; i >= 0; i--) {
    if (wanted >> kinds[i].cell & 1 && (size_t)kinds[i].nodes == nodes) *cell = kinds[i].cell;
  }

  if (nodes == 0 || (points ? nodes != (size_t)points : *cell < 0))
    return pbTaskReader_Fail(r, pb_bad_input, "elements of %zu points do not fit this energy", nodes);

  PB_TRY(pbTaskReader_Rows(r, on, nodes, &rows, &data));
  out->vertex = pbContext_AllocArray(r->ctx, rows * nodes + 1, sizeof(int));
  out->count = (int)rows;
  pbStatus status = out->vertex ? pb_ok : no_memory(r);

  // whole numbers of points of this body
  for (size_t i = 0; status == pb_ok && i < rows * nodes; i++) {
    out->vertex[i] = (int)data[i];
    if (data[i] >= 0 && data[i] < body->mesh->points && floor(data[i]) == data[i]) continue;
    pbTaskReader_EnterAt(r, i / nodes);
    status =
        pbTaskReader_Fail(r, pb_bad_input, "expected a point number from 0 to %d, found %.12g", body->mesh->points - 1, data[i]);
  }

  pbContext_Free(r->ctx, data);
  return status;
}

static pbStatus points_named(pbTaskReader *r, const pbDeformBody *body, const json_t *on, unsigned wanted, int *cell,
                             pbCells *out) {
  *cell = pb_cellPoint;

  if (!(wanted >> pb_cellPoint & 1))
    return pbTaskReader_Fail(
        r, pb_bad_input,
        "%s%.60s%sthis names points, but the energy is one of larger elements (tetrahedra, triangles, hinges, bends, edges, "
        "surface, or a group of the mesh)",
        json_is_string(on) ? "'" : "", json_is_string(on) ? json_string_value(on) : "", json_is_string(on) ? "': " : "");
  return pbTask_SelectPoints(r, body, on, &out->vertex, &out->count);
}

// " (it is one of tetrahedra, triangles)"
static const char *kinds_text(unsigned wanted, char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < kind_count && used < size; i++) {
    // kinds of two orders have one word
    bool said = i > 0 && wanted >> kinds[i - 1].cell & 1 && !strcmp(kinds[i].word, kinds[i - 1].word);
    if (wanted >> kinds[i].cell & 1 && !said)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : " (it is one of ", kinds[i].word);
  }
  if (used && used < size - 1) snprintf(text + used, size - used, ")");
  return text;
}

// Whether kind i is one that `on` means: of the group's dimension (or its points), of the word, or any without both.
static bool is_meant(int i, const char *word, const pbMeshGroup *group) {
  if (group) return kinds[i].dimension == group->dimension || kinds[i].cell == pb_cellPoint;
  return !word || !strcmp(word, kinds[i].word);
}

static pbStatus points_of_kind(pbTaskReader *r, const pbDeformBody *body, const char *group, pbCells *out) {
  json_t *all = group ? json_string(group) : json_true();
  pbStatus status = all ? pbTask_SelectPoints(r, body, all, &out->vertex, &out->count) : no_memory(r);
  json_decref(all);
  return status;
}

// The first wanted kind, of the word, of the group, or any, of which there are elements.
static pbStatus of_kind(pbTaskReader *r, const pbDeformBody *body, const char *word, const pbMeshGroup *group, unsigned wanted,
                        int *cell, pbCells *out) {
  for (int i = 0; i < kind_count; i++) {
    if (!is_meant(i, word, group) || !(wanted >> kinds[i].cell & 1)) continue;

    *cell = kinds[i].cell;
    if (*cell == pb_cellPoint) return points_of_kind(r, body, group ? word : NULL, out);
    PB_TRY(cells_of(r, body->mesh, *cell, group ? group->number : 0, out));
    if (out->count) return pb_ok;
    pbCells_Clear(r->ctx, out);
  }

  char takes[120];
  return pbTaskReader_Fail(r, pb_bad_input, "'%.80s' has no elements%s%.80s%s that fit this energy%s", body->name,
                           word ? " '" : "", word ? word : "", word ? "'" : "", kinds_text(wanted, takes, sizeof takes));
}

static pbStatus surface_of(pbTaskReader *r, const pbDeformBody *body, unsigned wanted, int *cell, pbCells *out) {
  *cell = pb_cellTriangle;
  if (!(wanted >> pb_cellTriangle & 1))
    return pbTaskReader_Fail(r, pb_bad_input, "a surface is made of triangles, which do not fit this energy");

  PB_TRY(made(r, pbMesh_Skin(r->ctx, body->mesh, out)));
  return out->count ? pb_ok : pbTaskReader_Fail(r, pb_bad_input, "'%.80s' has no surface", body->name);
}

static bool is_kind(const char *word) {
  for (int i = 0; i < kind_count; i++) {
    if (!strcmp(kinds[i].word, word)) return true;
  }
  return false;
}

static bool is_set(const pbDeformBody *body, const char *word) {
  for (int i = 0; i < body->set_count; i++) {
    if (!strcmp(body->sets[i].name, word)) return true;
  }
  return false;
}

static pbStatus select_elements(pbTaskReader *r, const pbDeformBody *body, const json_t *on, unsigned wanted, int points,
                                int *cell, pbCells *out) {
  const char *word = json_string_value(on);

  // words for kinds first, then groups of the mesh unless a set has their name, then points
  if (!on || (word && is_kind(word))) return of_kind(r, body, word, NULL, wanted, cell, out);
  if (word && !strcmp(word, "surface")) return surface_of(r, body, wanted, cell, out);
  const pbMeshGroup *group = word ? pbMesh_FindGroup(body->mesh, word) : NULL;
  if (group && !is_set(body, word)) return of_kind(r, body, word, group, wanted, cell, out);

  if (json_is_array(on) && json_is_array(json_array_get(on, 0))) return listed(r, body, on, wanted, points, cell, out);
  return points_named(r, body, on, wanted, cell, out);
}

pbStatus pbTask_SelectElements(pbTaskReader *r, const pbDeformBody *body, const json_t *on, unsigned wanted, int points,
                               int *cell, int **vertex, int *count) {
  pbCells cells = {0};
  pbTaskReader_Enter(r, "on");
  pbStatus status = select_elements(r, body, on, wanted, points, cell, &cells);

  *vertex = NULL;
  if (status == pb_ok) {
    pbTaskReader_Leave(r);

    // the caller's from here on
    *vertex = cells.vertex;
    *count = cells.count;
    cells.vertex = NULL;
  }

  pbCells_Clear(r->ctx, &cells);
  return status;
}
