// "mesh" of a deformable body: a file, a generator with its numbers, or points and elements as they are.
// Tests: tests/unit/test_task_deform.c, tests/oracle/test_deform_cli.py.
#include <limits.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/context.h"
#include "base/suggest.h"
#include "io/task/task_deform.h"

// More than anybody simulates, and few enough that a slip in a file does not take the machine's memory.
enum { most_cells = 4000000 };
static const double large_body = 100;  // m: what is longer was hardly meant so

// ---- numbers --------------------------------------------------------------------------------------------------------
static pbStatus reals(pbTaskReader *r, const json_t *object, const char *key, size_t count, double *out) {
  if (!json_object_get(object, key)) return pbTaskReader_Fail(r, pb_bad_input, "\"%s\" is missing", key);
  return pbTaskReader_Spread(r, object, key, count, out);
}

static pbStatus vector(pbTaskReader *r, const json_t *object, const char *key, double *out) {
  const json_t *value = json_object_get(object, key);
  if (json_is_number(value)) return pbTaskReader_FailAt(r, key, "expected three numbers");
  return reals(r, object, key, 3, out);
}

static pbStatus counts(pbTaskReader *r, const json_t *object, const char *key, int count, int *out) {
  double values[3];
  PB_TRY(reals(r, object, key, (size_t)count, values));

  for (int i = 0; i < count; i++) {
    if (!(values[i] >= 1 && values[i] <= most_cells && floor(values[i]) == values[i]))
      return pbTaskReader_FailAt(r, key, "expected whole numbers from 1 to %d", most_cells);
    out[i] = (int)values[i];
  }
  return pb_ok;
}

static pbStatus bounded(pbTaskReader *r, double cells) {
  if (cells <= most_cells) return pb_ok;
  return pbTaskReader_Fail(r, pb_capacity, "expected at most %d cells, found %.0f", most_cells, cells);
}

static pbStatus made(pbTaskReader *r, pbStatus status) { return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status); }

// One of two words; absent: the first.
static pbStatus choice(pbTaskReader *r, const json_t *object, const char *key, const char *first, const char *second,
                       bool *is_second) {
  const char *word = first;
  PB_TRY(pbTaskReader_Text(r, object, key, &word));

  *is_second = strcmp(word, second) == 0;
  if (*is_second || strcmp(word, first) == 0) return pb_ok;
  return pbTaskReader_FailAt(r, key, "expected \"%s\" or \"%s\"", first, second);
}

// ---- generators -----------------------------------------------------------------------------------------------------
static pbStatus read_chain(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"from", "to", "edges", NULL};
  double from[3], to[3];
  int edges;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(vector(r, o, "from", from));
  PB_TRY(vector(r, o, "to", to));
  PB_TRY(counts(r, o, "edges", 1, &edges));

  return made(r, pbMesh_Chain(r->ctx, from, to, edges, mesh));
}

static pbStatus read_grid(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"corner", "u", "v", "cells", "pattern", NULL};
  pbGrid grid = {.pattern = pb_gridUniform};
  bool alternating;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  if (json_object_get(o, "corner")) PB_TRY(vector(r, o, "corner", grid.corner));
  PB_TRY(vector(r, o, "u", grid.u));
  PB_TRY(vector(r, o, "v", grid.v));
  PB_TRY(counts(r, o, "cells", 2, grid.cells));
  PB_TRY(choice(r, o, "pattern", "uniform", "alternating", &alternating));
  if (alternating) grid.pattern = pb_gridAlternating;

  // two triangles a cell
  PB_TRY(bounded(r, 2.0 * grid.cells[0] * grid.cells[1]));
  return made(r, pbMesh_Grid(r->ctx, &grid, mesh));
}

static pbStatus read_box(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"low", "high", "size", "cells", "split", NULL};
  pbBox box = {.split = pb_boxSix};
  double size[3];
  bool five;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  if (!json_object_get(o, "high") == !json_object_get(o, "size"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"high\" and \"size\"");

  if (json_object_get(o, "low")) PB_TRY(vector(r, o, "low", box.low));
  if (json_object_get(o, "high")) {
    PB_TRY(vector(r, o, "high", box.high));
  } else {
    PB_TRY(vector(r, o, "size", size));
    for (int i = 0; i < 3; i++) box.high[i] = box.low[i] + size[i];
  }

  PB_TRY(counts(r, o, "cells", 3, box.cells));
  PB_TRY(choice(r, o, "split", "six", "five", &five));
  if (five) box.split = pb_boxFive;

  // a cell is five or six tetrahedra
  PB_TRY(bounded(r, 6.0 * box.cells[0] * box.cells[1] * box.cells[2]));
  return made(r, pbMesh_Box(r->ctx, &box, mesh));
}

static pbStatus read_disc(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"radius", "rings", NULL};
  double radius;
  int rings;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(reals(r, o, "radius", 1, &radius));
  PB_TRY(counts(r, o, "rings", 1, &rings));

  // ring k has 6 (2 k - 1) triangles
  PB_TRY(bounded(r, 6.0 * rings * rings));
  return made(r, pbMesh_Disc(r->ctx, radius, rings, mesh));
}

static pbStatus read_cylinder(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"radius", "height", "rings", "layers", NULL};
  double radius, height;
  int rings, layers;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(reals(r, o, "radius", 1, &radius));
  PB_TRY(reals(r, o, "height", 1, &height));
  PB_TRY(counts(r, o, "rings", 1, &rings));
  PB_TRY(counts(r, o, "layers", 1, &layers));

  // a prism over each triangle of the disc, three tetrahedra each
  PB_TRY(bounded(r, 18.0 * rings * rings * layers));
  return made(r, pbMesh_Cylinder(r->ctx, radius, height, rings, layers, mesh));
}

static pbStatus read_sphere(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"radius", "cuts", NULL};
  double radius;
  int cuts;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(reals(r, o, "radius", 1, &radius));
  PB_TRY(counts(r, o, "cuts", 1, &cuts));

  // each of the icosahedron's 20 faces is cut into cuts^2 triangles
  PB_TRY(bounded(r, 20.0 * cuts * cuts));
  return made(r, pbMesh_Sphere(r->ctx, radius, cuts, mesh));
}

static pbStatus read_ball(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"radius", "shells", NULL};
  double radius;
  int shells;

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(reals(r, o, "radius", 1, &radius));
  PB_TRY(counts(r, o, "shells", 1, &shells));

  // each of the 20 tetrahedra is cut into shells^3 equal volumes
  PB_TRY(bounded(r, 20.0 * shells * shells * shells));
  return made(r, pbMesh_Ball(r->ctx, radius, shells, mesh));
}

// ---- points and elements as they are --------------------------------------------------------------------------------
static const struct {
  const char *key;
  pbCellKind kind;
} lists[] = {{"edges", pb_cellEdge},
             {"triangles", pb_cellTriangle},
             {"triangles6", pb_cellTriangle6},
             {"tetrahedra", pb_cellTetrahedron},
             {"tetrahedra10", pb_cellTetrahedron10}};
enum { list_count = sizeof lists / sizeof *lists };

typedef struct Explicit {
  double *point, *cells[list_count];
  size_t points, counts[list_count];
} Explicit;

static pbStatus read_lists(pbTaskReader *r, const json_t *o, Explicit *e) {
  // points first: elements are checked against their number
  pbTaskReader_Enter(r, "points");
  PB_TRY(pbTaskReader_Rows(r, json_object_get(o, "points"), 3, &e->points, &e->point));
  if (e->points == 0) return pbTaskReader_Fail(r, pb_bad_input, "no points");
  pbTaskReader_Leave(r);

  for (int i = 0; i < list_count; i++) {
    const json_t *list = json_object_get(o, lists[i].key);
    if (!list) continue;
    pbTaskReader_Enter(r, lists[i].key);
    PB_TRY(pbTaskReader_Rows(r, list, (size_t)pbCellKind_Nodes(lists[i].kind), &e->counts[i], &e->cells[i]));
    PB_TRY(bounded(r, (double)e->counts[i]));
    pbTaskReader_Leave(r);
  }
  return bounded(r, (double)e->points);
}

static pbStatus fill_cells(pbTaskReader *r, const Explicit *e, int i, pbMesh *mesh) {
  int nodes = pbCellKind_Nodes(lists[i].kind);

  pbTaskReader_Enter(r, lists[i].key);
  for (size_t k = 0; k < e->counts[i] * (size_t)nodes; k++) {
    // numbers of JSON are reals
    double v = e->cells[i][k];
    if (!(v >= 0 && v < (double)e->points && floor(v) == v)) {
      pbTaskReader_EnterAt(r, k / (size_t)nodes);
      return pbTaskReader_Fail(r, pb_bad_input, "expected a point number from 0 to %zu, found %.12g", e->points - 1, v);
    }
    mesh->cells[lists[i].kind].vertex[k] = (int)v;
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus fill_mesh(pbTaskReader *r, const Explicit *e, pbMesh **mesh) {
  int64_t sizes[pb_cellKindCount] = {0};
  for (int i = 0; i < list_count; i++) sizes[lists[i].kind] = (int64_t)e->counts[i];

  PB_TRY(made(r, pbMesh_Create(r->ctx, "mesh", (int64_t)e->points, sizes, mesh)));
  memcpy((*mesh)->point, e->point, 3 * e->points * sizeof(double));
  for (int i = 0; i < list_count; i++) PB_TRY(fill_cells(r, e, i, *mesh));
  return pb_ok;
}

static pbStatus read_explicit(pbTaskReader *r, const json_t *o, pbMesh **mesh) {
  static const char *const keys[] = {"points", "edges", "triangles", "triangles6", "tetrahedra", "tetrahedra10", NULL};
  Explicit e = {0};

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  pbStatus status = read_lists(r, o, &e);
  if (status == pb_ok) status = fill_mesh(r, &e, mesh);

  pbContext_Free(r->ctx, e.point);
  for (int i = 0; i < list_count; i++) pbContext_Free(r->ctx, e.cells[i]);
  return status;
}

// ---- the whole ------------------------------------------------------------------------------------------------------
static const struct {
  const char *name;
  pbStatus (*read)(pbTaskReader *, const json_t *, pbMesh **);
} generators[] = {{"chain", read_chain},       {"grid", read_grid},     {"disc", read_disc}, {"box", read_box},
                  {"cylinder", read_cylinder}, {"sphere", read_sphere}, {"ball", read_ball}};
enum { generator_count = sizeof generators / sizeof *generators };

static pbStatus read_generated(pbTaskReader *r, const json_t *value, pbMesh **mesh) {
  static const char *const keys[] = {"chain", "grid", "disc", "box", "cylinder", "sphere", "ball", "points", NULL};

  // a mesh given by its elements has keys of its own
  if (json_object_get(value, "points")) return read_explicit(r, value, mesh);
  PB_TRY(pbTaskReader_Keys(r, value, keys));
  if (json_object_size(value) != 1)
    return pbTaskReader_Fail(r, pb_bad_input,
                             "expected one of chain, grid, disc, box, cylinder, sphere, ball, or points with elements");

  for (int i = 0; i < generator_count; i++) {
    const json_t *numbers = json_object_get(value, generators[i].name);
    if (!numbers) continue;
    pbTaskReader_Enter(r, generators[i].name);
    PB_TRY(generators[i].read(r, numbers, mesh));
    pbTaskReader_Leave(r);
  }
  return pb_ok;
}

static pbStatus quadratic(pbTaskReader *r, const json_t *body, pbMesh **mesh) {
  bool wanted = false;
  pbMesh *finer = NULL;
  PB_TRY(pbTaskReader_Bool(r, body, "quadratic", &wanted));

  if (!wanted) return pb_ok;
  PB_TRY(made(r, pbMesh_Quadratic(r->ctx, *mesh, &finer)));
  pbMesh_Destroy(*mesh);
  *mesh = finer;
  return pb_ok;
}

static bool has_cells(const pbMesh *mesh) {
  int count = 0;
  for (int k = 0; k < pb_cellKindCount; k++) count += mesh->cells[k].count;
  return count > 0;
}

// Formats whose corners have a point for each set of texture coordinates or normals, so that a surface is open along seams.
static bool has_seams(const char *file) {
  const char *dot = strrchr(file, '.');
  return dot && (!strcasecmp(dot, ".obj") || !strcasecmp(dot, ".ply"));
}

// Points that stand where others do become one. Along an open seam a body would fall apart.
static pbStatus join_seams(pbTaskReader *r, const json_t *body, const char *file, pbMesh *mesh) {
  bool wanted = has_seams(file);
  PB_TRY(pbTaskReader_Bool(r, body, "weld", &wanted));
  if (!wanted) return pb_ok;

  int points = mesh->points, triangles = mesh->cells[pb_cellTriangle].count;
  PB_TRY(made(r, pbMesh_Weld(mesh)));
  points -= mesh->points;
  triangles -= mesh->cells[pb_cellTriangle].count;
  if (points)
    pbContext_Warn(
        r->ctx,
        "%.400s: %d points that stand where others do are joined with them, as along seams; \"weld\": false keeps them "
        "apart",
        mesh->name, points);
  if (triangles) pbContext_Warn(r->ctx, "%.400s: %d triangles that lose a corner by it are left out", mesh->name, triangles);
  return pb_ok;
}

// Lengths are metres, and files do not say theirs: whoever gives a scale has thought of it.
static void ask_for_units(pbTaskReader *r, const json_t *body, const pbMesh *mesh) {
  double size = 0;
  for (int k = 0; k < 3; k++) {
    double low = mesh->points ? mesh->point[k] : 0, high = low;
    for (int i = 1; i < mesh->points; i++) {
      low = fmin(low, mesh->point[3 * i + k]);
      high = fmax(high, mesh->point[3 * i + k]);
    }
    size = fmax(size, high - low);
  }

  if (size < large_body || json_object_get(body, "scale")) return;
  pbContext_Warn(
      r->ctx,
      "%.400s: is %.4g m long, as lengths are metres; \"scale\": 0.001 where the file's are millimetres, 1 where they are "
      "metres",
      mesh->name, size);
}

static pbStatus read_file(pbTaskReader *r, const json_t *body, const char *file, pbMesh **mesh) {
  char *path = NULL;

  PB_TRY(pbTaskReader_Path(r, file, &path));
  pbStatus status = pbMesh_Load(r->ctx, path, mesh);
  pbContext_Free(r->ctx, path);

  PB_TRY(made(r, status));
  PB_TRY(join_seams(r, body, file, *mesh));

  // points in no element would be without forces
  if (has_cells(*mesh)) PB_TRY(made(r, pbMesh_DropUnused(*mesh)));

  ask_for_units(r, body, *mesh);
  return bounded(r, (*mesh)->points);
}

pbStatus pbTask_ReadMesh(pbTaskReader *r, const json_t *body, pbMesh **mesh) {
  const json_t *value = json_object_get(body, "mesh");
  if (!value) return pbTaskReader_Fail(r, pb_bad_input, "\"mesh\" is missing");

  pbTaskReader_Enter(r, "mesh");
  if (json_is_string(value)) PB_TRY(read_file(r, body, json_string_value(value), mesh));
  else if (json_is_object(value)) PB_TRY(read_generated(r, value, mesh));
  else return pbTaskReader_Fail(r, pb_bad_input, "expected the name of a file, or an object {generator: numbers}");

  // elements of one orientation, and none that is degenerate
  if (has_cells(*mesh)) {
    PB_TRY(made(r, pbMesh_Orient(*mesh)));
    PB_TRY(made(r, pbMesh_Check(r->ctx, *mesh, 0, NULL)));
  }

  pbTaskReader_Leave(r);
  return quadratic(r, body, mesh);
}
