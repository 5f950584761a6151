// "deformables" of a task, and the same as a file of its own. docs/deformables.md describes them.
// Tests: tests/unit/test_task_deform.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/io.h>

#include "base/context.h"
#include "base/suggest.h"
#include "elementary/elementary.h"
#include "io/file.h"
#include "io/task/task_deform.h"

static pbStatus no_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for deformables"); }
static pbStatus made(pbTaskReader *r, pbStatus status) { return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status); }

// ---- the pose of a body ---------------------------------------------------------------------------------------------
typedef struct Placed {  // a body's points at rest, where they start and how fast
  double *rest, *mass, *start, *velocity;
} Placed;

// out = a b, of 3 x 3 matrices by rows.
static void multiply(double *out, const double *a, const double *b) {
  for (int i = 0; i < 9; i++)
    out[i] = a[i / 3 * 3] * b[i % 3] + a[i / 3 * 3 + 1] * b[3 + i % 3] + a[i / 3 * 3 + 2] * b[6 + i % 3];
}

// Intrinsic rotations about x, the new y and the newest z, MJCF's default: R = Rx Ry Rz.
static void of_euler(const double *degrees, double *R) {
  static const double unit[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  memcpy(R, unit, sizeof unit);
  for (int axis = 0; axis < 3; axis++) {
    double angle = degrees[axis] * (3.14159265358979323846 / 180), turn[9] = {0}, before[9];

    int a = (axis + 1) % 3, b = (axis + 2) % 3;

    // about one axis: the other two rotate into each other
    turn[4 * axis] = 1;
    turn[4 * a] = turn[4 * b] = pbCos(angle);
    turn[3 * b + a] = pbSin(angle);
    turn[3 * a + b] = -pbSin(angle);

    memcpy(before, R, sizeof before);
    multiply(R, before, turn);
  }
}

// Rotation matrix of a quaternion (w, x, y, z) of any length.
static void of_quaternion(const double *q, double *R) {
  double w = q[0], x = q[1], y = q[2], z = q[3], n = w * w + x * x + y * y + z * z;
  const double all[9] = {w * w + x * x - y * y - z * z, 2 * (x * y - w * z),           2 * (x * z + w * y),
                         2 * (x * y + w * z),           w * w - x * x + y * y - z * z, 2 * (y * z - w * x),
                         2 * (x * z - w * y),           2 * (y * z + w * x),           w * w - x * x - y * y + z * z};
  for (int i = 0; i < 9; i++) R[i] = all[i] / n;
}

static pbStatus numbers(pbTaskReader *r, const json_t *o, const char *key, size_t count, double *out) {
  // Spread would take one number for all entries
  if (json_is_number(json_object_get(o, key))) return pbTaskReader_FailAt(r, key, "expected %zu numbers", count);
  return pbTaskReader_Spread(r, o, key, count, out);
}

static pbStatus read_rotation(pbTaskReader *r, const json_t *o, double *R) {
  double quat[4] = {1, 0, 0, 0}, euler[3] = {0}, size = 0;
  if (json_object_get(o, "quat") && json_object_get(o, "euler"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"quat\" and \"euler\", found both");

  PB_TRY(numbers(r, o, "quat", 4, quat));
  PB_TRY(numbers(r, o, "euler", 3, euler));
  for (int i = 0; i < 4; i++) size += quat[i] * quat[i];
  if (!(size > 1e-12 && isfinite(size))) return pbTaskReader_FailAt(r, "quat", "a quaternion of length zero is no orientation");

  if (json_object_get(o, "euler")) of_euler(euler, R);
  else of_quaternion(quat, R);
  return pb_ok;
}

// x = pos + R diag(scale) X
static pbStatus place_rest(pbTaskReader *r, const json_t *o, const pbMesh *mesh, double *rest) {
  double pos[3] = {0}, scale[3] = {1, 1, 1}, R[9] = {0};
  PB_TRY(numbers(r, o, "pos", 3, pos));
  PB_TRY(pbTaskReader_Spread(r, o, "scale", 3, scale));
  PB_TRY(read_rotation(r, o, R));

  // zero would flatten the elements, a negative number may turn them inside out
  for (int i = 0; i < 3; i++) {
    if (!(scale[i] > 0)) return pbTaskReader_FailAt(r, "scale", "expected positive numbers");
  }

  for (int i = 0; i < mesh->points; i++) {
    const double *x = mesh->point + 3 * i;
    for (int k = 0; k < 3; k++)
      rest[3 * i + k] = pos[k] + R[3 * k] * scale[0] * x[0] + R[3 * k + 1] * scale[1] * x[1] + R[3 * k + 2] * scale[2] * x[2];
  }
  return pb_ok;
}

// Rows for all points, or (where `one` allows it) one row that all share.
static pbStatus read_rows(pbTaskReader *r, const json_t *o, const char *key, int points, bool one, double *out, bool *given) {
  const json_t *value = json_object_get(o, key);
  size_t rows = (size_t)points;
  double *data = NULL;
  *given = value != NULL;
  if (!value) return pb_ok;

  // one row for all
  if (one && json_is_array(value) && json_is_number(json_array_get(value, 0))) {
    PB_TRY(numbers(r, o, key, 3, out));
    for (int i = 3; i < 3 * points; i++) out[i] = out[i - 3];
    return pb_ok;
  }

  // one row for each
  pbTaskReader_Enter(r, key);
  pbStatus status = pbTaskReader_Rows(r, value, 3, &rows, &data);
  if (status == pb_ok) memcpy(out, data, 3 * rows * sizeof *out);
  pbContext_Free(r->ctx, data);
  if (status == pb_ok) pbTaskReader_Leave(r);
  return status;
}

// One number is the whole body's, shared by its points.
static pbStatus read_mass(pbTaskReader *r, const json_t *o, int points, double *mass) {
  const json_t *value = json_object_get(o, "mass");
  PB_TRY(pbTaskReader_Spread(r, o, "mass", (size_t)points, mass));
  for (int i = 0; i < points; i++) {
    if (json_is_number(value)) mass[i] /= points;
    if (mass[i] < 0) return pbTaskReader_FailAt(r, "mass", "a mass is negative");
  }
  return pb_ok;
}

// ---- sets and pins --------------------------------------------------------------------------------------------------
static pbStatus read_sets(pbTaskReader *r, const json_t *object, pbDeformBody *body) {
  const char *name;
  json_t *value;
  if (!object) return pb_ok;
  pbTaskReader_Enter(r, "sets");
  if (!json_is_object(object)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: points}");

  body->sets = pbContext_AllocArray(r->ctx, json_object_size(object) + 1, sizeof *body->sets);
  if (!body->sets) return no_memory(r);

  json_object_foreach((json_t *)object, name, value) {
    pbBodySet *set = &body->sets[body->set_count];
    pbTaskReader_Enter(r, name);
    PB_TRY(pbTask_SelectPoints(r, body, value, &set->points, &set->count));

    // counted once it holds memory: it is freed with the body
    body->set_count++;
    set->name = pbContext_CopyText(r->ctx, name);
    if (!set->name) return no_memory(r);
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus name_points(pbTaskReader *r, const pbDeformBody *body, const char *set, int count, const int *points,
                            pbDeformable *d) {
  char name[256];
  int *all = pbContext_AllocArray(r->ctx, (size_t)count + 1, sizeof *all);
  if (!all) return no_memory(r);

  // a body's points are BODY, those of its sets BODY_SET
  for (int i = 0; i < count; i++) all[i] = body->first + (points ? points[i] : i);
  snprintf(name, sizeof name, "%.60s%s%.180s", body->name, set ? "_" : "", set ? set : "");

  pbStatus status = pbDeformable_NamePoints(d, name, count, all);
  pbContext_Free(r->ctx, all);
  return made(r, status);
}

// Names that parameters are called by.
static const char expected_word[] = "expected a word of at most 60 letters without ':' and '.'";
static bool is_word(const char *name) { return *name && !strpbrk(name, ":. \t\r\n") && strlen(name) <= 60; }

static int axis_bit(char c) {
  switch (c) {
    case 'x': return pb_fixX;
    case 'y': return pb_fixY;
    case 'z': return pb_fixZ;
    default: return 0;
  }
}

static pbStatus read_axes(pbTaskReader *r, const json_t *o, int *axes) {
  const char *text = "xyz";
  PB_TRY(pbTaskReader_Text(r, o, "axes", &text));
  *axes = 0;
  for (const char *c = text; *c; c++) {
    int bit = axis_bit(*c);
    if (!bit || *axes & bit) return pbTaskReader_FailAt(r, "axes", "expected letters of \"xyz\", each once");
    *axes |= bit;
  }
  return *axes ? pb_ok : pbTaskReader_FailAt(r, "axes", "expected letters of \"xyz\"");
}

// Pinned points keep the velocity that the pin gives them, not the body's.
static pbStatus hold(pbTaskReader *r, pbDeformBody *body, int count, const int *points, int axes, const double *v,
                     double *velocity) {
  for (int i = 0; i < 3 * count; i++) {
    int bit = 1 << i % 3;
    double *old = velocity + 3 * points[i / 3] + i % 3;

    if (!(axes & bit)) continue;

    // two pins may share a point where they agree
    if (body->fixed[points[i / 3]] & bit && *old != v[i % 3])
      return pbTaskReader_Fail(r, pb_bad_input, "point %d moves at %.6g along %c by another pin, at %.6g by this one",
                               points[i / 3], *old, "xyz"[i % 3], v[i % 3]);

    *old = v[i % 3];
    body->fixed[points[i / 3]] |= (unsigned char)bit;
  }
  return pb_ok;
}

// What a pin does not hold it cannot lead.
static pbStatus check_along(pbTaskReader *r, size_t count, const double *numbers, int axes) {
  for (size_t i = 0; i < count; i++) {
    if (numbers[i] == 0 || axes >> i % 3 & 1) continue;
    return pbTaskReader_Fail(r, pb_bad_input, "%.6g along %c, which is not among the pin's \"axes\"", numbers[i], "xyz"[i % 3]);
  }

  return pb_ok;
}

static pbStatus read_pin(pbTaskReader *r, const json_t *o, pbDeformBody *body, double *velocity) {
  static const char *const keys[] = {"points", "axes", "velocity", "path", "name", "comment", NULL};
  int axes, count, *points = NULL;
  double v[3] = {0};
  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(read_axes(r, o, &axes));
  PB_TRY(numbers(r, o, "velocity", 3, v));
  if (!json_object_get(o, "points")) return pbTaskReader_Fail(r, pb_bad_input, "\"points\" is missing");
  if (json_object_get(o, "path") && json_object_get(o, "velocity"))
    return pbTaskReader_Fail(r, pb_bad_input, "\"path\" and \"velocity\": a pin has one of them");
  if (json_object_get(o, "name") && !json_object_get(o, "path"))
    return pbTaskReader_FailAt(r, "name", "names the path of a pin: \"path\" is missing");

  pbTaskReader_Enter(r, "velocity");
  PB_TRY(check_along(r, 3, v, axes));
  pbTaskReader_Leave(r);

  pbTaskReader_Enter(r, "points");
  PB_TRY(pbTask_SelectPoints(r, body, json_object_get(o, "points"), &points, &count));
  pbTaskReader_Leave(r);

  pbStatus status = hold(r, body, count, points, axes, v, velocity);
  pbContext_Free(r->ctx, points);
  return status;
}

// "path": rows of three numbers, or of three for each point; a file of such; or "control".
static pbStatus lead(pbTaskReader *r, const json_t *value, pbDeformable *d, const char *name, int count, const int *points,
                     int axes) {
  if (json_is_string(value)) {
    if (strcmp(json_string_value(value), "control"))
      return pbTaskReader_Fail(r, pb_bad_input, "expected \"control\" or rows of displacements, not \"%.80s\"",
                               json_string_value(value));
    return made(r, pbDeformable_Lead(d, name, count, points, axes, 0, 1, NULL));
  }

  pbTaskNumbers n = {0};
  if (!json_is_object(value) && !json_is_array(value))
    return pbTaskReader_Fail(r, pb_bad_input, "expected rows of displacements, a file of such or \"control\"");
  PB_TRY(json_is_object(value) ? pbTaskReader_Table(r, value, &n) : pbTaskReader_Numbers(r, value, &n));
  pbStatus status;

  // one displacement for all points of the pin, or one for each
  bool each = n.cols == 3 * (size_t)count;
  if ((n.cols == 3 || each) && n.rows > 0 && (n.nested || !json_is_array(value))) {
    status = check_along(r, n.rows * n.cols, n.data, axes);
    if (status == pb_ok) status = made(r, pbDeformable_Lead(d, name, count, points, axes, (int)n.rows, each ? count : 1, n.data));
  } else {
    status =
        pbTaskReader_Fail(r, pb_bad_input, "expected a row for each step, of 3 numbers or of %d: 3 for each point", 3 * count);
  }

  pbContext_Free(r->ctx, n.data);
  return status;
}

static pbStatus read_path(pbTaskReader *r, const json_t *o, const pbDeformBody *body, pbDeformable *d) {
  const char *text = "pin";
  char name[256];
  int axes;
  int count;
  int *points;
  if (!json_object_get(o, "path")) return pb_ok;

  PB_TRY(read_axes(r, o, &axes));
  PB_TRY(pbTaskReader_Text(r, o, "name", &text));
  if (!is_word(text)) return pbTaskReader_FailAt(r, "name", expected_word);
  snprintf(name, sizeof name, "%.100s_%.100s", body->name, text);
  pbTaskReader_Enter(r, "points");
  PB_TRY(pbTask_SelectPoints(r, body, json_object_get(o, "points"), &points, &count));
  pbTaskReader_Leave(r);

  // from the body's own numbers to those of the whole deformable
  for (int i = 0; i < count; i++) points[i] += body->first;
  pbTaskReader_Enter(r, "path");
  pbStatus status = lead(r, json_object_get(o, "path"), d, name, count, points, axes);
  pbContext_Free(r->ctx, points);
  if (status == pb_ok) pbTaskReader_Leave(r);
  return status;
}

// Pins that have one, when the body's points are among all.
static pbStatus read_paths(pbTaskReader *r, const json_t *list, const pbDeformBody *body, pbDeformable *d) {
  pbTaskReader_Enter(r, "pins");
  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(read_path(r, json_array_get(list, i), body, d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_pins(pbTaskReader *r, const json_t *list, pbDeformBody *body, double *velocity) {
  // zeroed: free until a pin says otherwise
  body->fixed = pbContext_AllocArray(r->ctx, (size_t)body->mesh->points + 1, 1);
  if (!body->fixed) return no_memory(r);
  if (!list) return pb_ok;

  pbTaskReader_Enter(r, "pins");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of {\"points\": ..., \"axes\": ...}");

  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(read_pin(r, json_array_get(list, i), body, velocity));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus add_cells(pbTaskReader *r, const pbDeformBody *body, pbDeformable *d) {
  for (int kind = 0; kind < pb_cellKindCount; kind++) {
    const pbCells *cells = &body->mesh->cells[kind];
    int entries = cells->count * pbCellKind_Nodes((pbCellKind)kind);
    if (!entries) continue;
    int *vertex = pbContext_AllocArray(r->ctx, (size_t)entries, sizeof *vertex);
    if (!vertex) return no_memory(r);

    for (int i = 0; i < entries; i++) vertex[i] = body->first + cells->vertex[i];
    pbStatus status = pbDeformable_AddCells(d, body->name, (pbCellKind)kind, cells->count, vertex);
    pbContext_Free(r->ctx, vertex);
    PB_TRY(made(r, status));
  }
  return pb_ok;
}

// ---- bodies ---------------------------------------------------------------------------------------------------------
static pbStatus place(pbTaskReader *r, const json_t *o, pbDeformBody *body, const Placed *p, pbDeformable *d) {
  bool started, moving;
  int n = body->mesh->points;

  PB_TRY(place_rest(r, o, body->mesh, p->rest));
  PB_TRY(read_mass(r, o, n, p->mass));
  PB_TRY(read_rows(r, o, "start", n, false, p->start, &started));
  PB_TRY(read_rows(r, o, "velocity", n, true, p->velocity, &moving));

  // after velocities: a pin rules over the body's
  PB_TRY(read_pins(r, json_object_get(o, "pins"), body, p->velocity));

  // added only now that they are complete: fixing, cells and sets need their numbers
  PB_TRY(made(r, pbDeformable_AddPoints(d, n, p->rest, p->mass, started ? p->start : NULL, p->velocity, &body->first)));

  // fixed points go on with their velocity
  for (int i = 0; i < n; i++) {
    int point = body->first + i;
    if (body->fixed[i]) PB_TRY(made(r, pbDeformable_Fix(d, 1, &point, body->fixed[i])));
  }

  PB_TRY(read_paths(r, json_object_get(o, "pins"), body, d));
  PB_TRY(add_cells(r, body, d));
  PB_TRY(name_points(r, body, NULL, n, NULL, d));
  for (int i = 0; i < body->set_count; i++)
    PB_TRY(name_points(r, body, body->sets[i].name, body->sets[i].count, body->sets[i].points, d));
  return pb_ok;
}

static pbStatus add_points(pbTaskReader *r, const json_t *o, pbDeformBody *body, pbDeformable *d) {
  size_t n = 3 * (size_t)body->mesh->points;
  double *memory = pbContext_AllocArray(r->ctx, 4 * n + 1, sizeof *memory);
  if (!memory) return no_memory(r);

  pbStatus status = place(r, o, body, &(Placed){memory, memory + n, memory + 2 * n, memory + 3 * n}, d);
  pbContext_Free(r->ctx, memory);
  return status;
}

static pbStatus fill_body(pbTaskReader *r, const json_t *o, pbDeformTouch touch, pbDeformBody *body, pbDeformable *d) {
  static const char *const keys[] = {"name",     "mesh", "weld", "quadratic", "pos",      "quat",   "euler",   "scale",   "start",
                                     "velocity", "mass", "sets", "pins",      "energies", "attach", "surface", "comment", NULL};

  PB_TRY(pbTaskReader_Keys(r, o, keys));
  PB_TRY(pbTaskReader_Text(r, o, "name", &body->name));
  if (!body->name) return pbTaskReader_Fail(r, pb_bad_input, "\"name\" is missing");
  if (!is_word(body->name)) return pbTaskReader_FailAt(r, "name", expected_word);

  if (json_object_get(o, "weld") && !json_is_string(json_object_get(o, "mesh")))
    return pbTaskReader_FailAt(r, "weld", "is of meshes from files");
  PB_TRY(pbTask_ReadMesh(r, o, &body->mesh));

  // sets first: pins, energies and attachments name them
  PB_TRY(read_sets(r, json_object_get(o, "sets"), body));
  PB_TRY(add_points(r, o, body, d));
  PB_TRY(pbTask_ReadEnergies(r, json_object_get(o, "energies"), body, d));
  PB_TRY(pbTask_ReadAttachments(r, json_object_get(o, "attach"), body, d));
  return pbTask_ReadSurface(r, o, touch, body, d);
}

static pbStatus read_body(pbTaskReader *r, const json_t *o, pbDeformTouch touch, pbDeformable *d) {
  pbDeformBody body = {0};
  pbStatus status = fill_body(r, o, touch, &body, d);

  for (int i = 0; i < body.set_count; i++) {
    pbContext_Free(r->ctx, body.sets[i].name);
    pbContext_Free(r->ctx, body.sets[i].points);
  }
  pbContext_Free(r->ctx, body.sets);
  pbContext_Free(r->ctx, body.fixed);
  pbMesh_Destroy(body.mesh);
  return status;
}

static pbStatus read_bodies(pbTaskReader *r, const json_t *list, pbDeformTouch touch, pbDeformable *d) {
  if (!list) return pbTaskReader_Fail(r, pb_bad_input, "\"bodies\" is missing");
  pbTaskReader_Enter(r, "bodies");
  if (!json_is_array(list) || json_array_size(list) == 0) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of bodies");

  for (size_t i = 0; i < json_array_size(list); i++) {
    pbTaskReader_EnterAt(r, i);
    PB_TRY(read_body(r, json_array_get(list, i), touch, d));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- how steps are made ---------------------------------------------------------------------------------------------
// "a, b or c", of names by number.
static const char *one_of(int count, const char *(*name)(int), char *text, size_t size) {
  size_t used = (size_t)snprintf(text, size, "\"%s\"", name(0));

  for (int i = 1; i < count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s\"%s\"", i < count - 1 ? ", " : " or ", name(i));
  return text;
}
static const char *scheme_name(int i) { return pbScheme_Name((pbScheme)i); }
static const char *method_name(int i) { return pbDeformMinimizer_Name((pbDeformMinimizer)i); }

// What is near is suggested; else all that there is.
static pbStatus unknown_name(pbTaskReader *r, const char *key, const char *given, int count, const char *(*name)(int)) {
  char hint[200], all[200];
  pbSuggest near = pbSuggest_For(given);

  for (int i = 0; i < count; i++) pbSuggest_Offer(&near, name(i));
  if (near.best) return pbTaskReader_FailAt(r, key, "'%.60s' is unknown%s", given, pbSuggest_Write(&near, hint, sizeof hint));
  return pbTaskReader_FailAt(r, key, "expected %s, found '%.60s'", one_of(count, name, all, sizeof all), given);
}

static pbStatus read_scheme(pbTaskReader *r, const json_t *o, pbScheme *scheme) {
  const char *name = NULL;

  PB_TRY(pbTaskReader_Text(r, o, "scheme", &name));
  if (!name || pbScheme_Named(name, scheme)) return pb_ok;
  return unknown_name(r, "scheme", name, pb_schemeCount, scheme_name);
}

static pbStatus read_method(pbTaskReader *r, const json_t *o, pbDeformMinimizer *method) {
  const char *name = NULL;
  PB_TRY(pbTaskReader_Text(r, o, "method", &name));

  // a file cannot give the user's function
  if (!name || (pbDeformMinimizer_Named(name, method) && *method != pb_minimizeUser)) return pb_ok;
  return unknown_name(r, "method", name, pb_minimizeUser, method_name);
}

typedef struct Top {
  pbDeformOptions options;
  bool planar;
} Top;
static const pbTaskKey top_keys[] = {PB_KEY_PART("scheme"),
                                     PB_KEY_PART("method"),
                                     PB_KEY_FROM("iterations", Int, Top, options.iterations, 1, 1000000000),
                                     PB_KEY("tolerance", Positive, Top, options.tolerance),
                                     PB_KEY("residual", Positive, Top, options.residual),
                                     PB_KEY("rate", Positive, Top, options.rate),
                                     PB_KEY("approximate", Bool, Top, options.approximate),
                                     PB_KEY("planar", Bool, Top, planar),
                                     PB_KEY_PART("bodies"),
                                     PB_KEY_PART("energies"),
                                     PB_KEY_PART("contact"),
                                     PB_KEY_PART("comment"),
                                     PB_KEYS_END};

static pbStatus set_options(pbTaskReader *r, const json_t *o, Top *top, pbDeformable *d) {
  PB_TRY(read_scheme(r, o, &top->options.scheme));
  PB_TRY(read_method(r, o, &top->options.method));
  pbDeformable_SetPlanar(d, top->planar);
  return made(r, pbDeformable_SetOptions(d, &top->options));
}

static pbStatus read_object(pbTaskReader *r, const json_t *o, pbDeformable **d) {
  Top top = {0};
  PB_TRY(pbTaskReader_Fill(r, o, top_keys, &top));
  PB_TRY(made(r, pbDeformable_Create(r->ctx, d)));

  pbStatus status = set_options(r, o, &top, *d);

  // with "contact" every body gets a surface; in the plane it is an outline
  const json_t *contact = json_object_get(o, "contact");
  pbDeformTouch touch = {contact != NULL, top.planar};
  if (status == pb_ok) status = read_bodies(r, json_object_get(o, "bodies"), touch, *d);
  if (status == pb_ok) status = pbTask_ReadJoins(r, json_object_get(o, "energies"), *d);
  if (status == pb_ok && contact) status = pbTask_ReadContact(r, contact, *d);
  if (status == pb_ok) return pb_ok;

  pbDeformable_Destroy(*d);
  *d = NULL;
  return status;
}

// ---- files ----------------------------------------------------------------------------------------------------------
pbStatus pbDeformable_Load(pbContext *ctx, const pbModel *model, const char *path, const pbLoadOptions *options,
                           pbDeformable **deformable) {
  pbTaskReader r;
  char *text = NULL;
  json_t *root = NULL;
  *deformable = NULL;
  pbStatus status = pbTaskReader_Open(ctx, path, options ? options->allow_root : NULL, &r, &text);

  // Open has cleared the reader: the model comes after it
  r.model = model;

  if (status == pb_ok) status = pbTaskReader_Parse(&r, &root);

  // a task file may serve: its deformables
  const json_t *inside = json_object_get(root, "deformables");
  if (status == pb_ok && inside) pbTaskReader_Enter(&r, "deformables");
  if (status == pb_ok) status = read_object(&r, inside ? inside : root, deformable);

  json_decref(root);
  pbTaskReader_End(&r);
  pbContext_Free(ctx, text);
  return status;
}

pbStatus pbTask_ReadDeformable(pbTaskReader *r, const json_t *value, pbDeformable **deformable) {
  char *path = NULL;
  *deformable = NULL;
  if (!json_is_string(value)) return read_object(r, value, deformable);

  PB_TRY(pbTaskReader_Path(r, json_string_value(value), &path));
  pbStatus status = pbDeformable_Load(r->ctx, r->model, path, &(pbLoadOptions){.allow_root = r->allow_root}, deformable);
  pbContext_Free(r->ctx, path);
  return made(r, status);
}
