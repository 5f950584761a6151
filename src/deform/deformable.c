// Building the description of deformables: what is stated is copied and checked at once.
// Tests: tests/unit/test_deform.c.
#include "deform/deformable.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"

pbStatus pbDeformable_Create(pbContext *ctx, pbDeformable **deformable) {
  pbDeformable *d = *deformable = pbContext_Alloc(ctx, sizeof *d);
  if (!d) return pbContext_Fail(ctx, pb_no_memory, "no memory for deformables");
  d->ctx = ctx;

  return pb_ok;
}

static void free_group(pbContext *ctx, pbGroupDef *g) {
  // Without an energy there are no values yet: a group that was not finished.
  int count = g->energy && g->values ? pbEnergy_Definition(g->energy)->parameter_count : 0;
  for (int i = 0; i < count; i++) pbContext_Free(ctx, g->values[i].data);
  pbContext_Free(ctx, g->values);
  pbContext_Free(ctx, g->vertex);
  pbContext_Free(ctx, g->name);
  pbEnergy_Destroy(g->energy);
}

static void free_surface(pbContext *ctx, pbSurfaceDef *s) {
  pbContext_Free(ctx, s->name);
  pbContext_Free(ctx, s->triangle);
  pbContext_Free(ctx, s->edge);
  pbContext_Free(ctx, s->point);
}

void pbDeformable_Destroy(pbDeformable *d) {
  if (!d) return;
  for (int i = 0; i < d->ngroup; i++) free_group(d->ctx, &d->groups[i]);
  for (int i = 0; i < d->nattached; i++) pbContext_Free(d->ctx, d->attachments[i].body);
  for (int i = 0; i < d->nsurface; i++) free_surface(d->ctx, &d->surfaces[i]);

  for (int i = 0; i < d->nset; i++) {
    pbContext_Free(d->ctx, d->sets[i].name);
    pbContext_Free(d->ctx, d->sets[i].points);
  }

  for (int i = 0; i < d->nlead; i++) {
    pbContext_Free(d->ctx, d->leads[i].name);
    pbContext_Free(d->ctx, d->leads[i].points);
    pbContext_Free(d->ctx, d->leads[i].path);
  }

  pbCellSets_Free(d->ctx, &d->cells);

  void *all[] = {d->leads, d->attachments, d->surfaces, d->pairs,    d->sets,  d->groups,
                 d->rest,  d->mass,        d->start,    d->velocity, d->fixed, d};
  pbContext *ctx = d->ctx;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

// ---- points -------------------------------------------------------------------------------------------------------
enum { most_points = 1 << 24 };  // so that three coordinates of each, and pairs of them, are ints

// An array, given by the address of its pointer, to `count` elements; false: no memory, and it is as it was.
static bool grow(pbContext *ctx, void *array, size_t count, size_t size) {
  void *grown = pbContext_Resize(ctx, *(void **)array, count * size);
  if (grown) *(void **)array = grown;
  return grown != NULL;
}

// Room for `count` more points, doubled where it has to grow.
static pbStatus reserve_points(pbDeformable *d, int count) {
  int wanted = d->npoint + count;

  if (wanted <= d->capacity) return pb_ok;
  int capacity = wanted > 2 * d->capacity ? wanted : 2 * d->capacity;
  size_t n = (size_t)capacity, real = sizeof(double);
  bool good = grow(d->ctx, &d->rest, 3 * n, real) && grow(d->ctx, &d->start, 3 * n, real) &&
              grow(d->ctx, &d->velocity, 3 * n, real) && grow(d->ctx, &d->mass, n, real) && grow(d->ctx, &d->fixed, n, 1);
  if (!good) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for %d points", wanted);
  d->capacity = capacity;

  return pb_ok;
}

static pbStatus check_finite(pbDeformable *d, const char *what, const double *x, int count, int width) {
  if (!x) return pb_ok;

  for (int i = 0; i < count * width; i++) {
    if (!isfinite(x[i]))
      return pbContext_Fail(d->ctx, pb_bad_input, "%s of point %d: a number is not finite", what, d->npoint + i / width);
  }

  return pb_ok;
}

static void copy_or_clear(double *to, const double *from, int count) {
  if (from) memcpy(to, from, (size_t)count * sizeof(double));
  else memset(to, 0, (size_t)count * sizeof(double));
}

pbStatus pbDeformable_AddPoints(pbDeformable *d, int count, const double *rest, const double *mass, const double *start,
                                const double *velocity, int *first) {
  if (count < 0 || count > most_points - d->npoint)
    return pbContext_Fail(d->ctx, pb_bad_argument, "%d more points: expected 0 to %d in all", count, most_points);

  // Everything is checked before anything changes.
  PB_TRY(check_finite(d, "rest position", rest, count, 3));
  PB_TRY(check_finite(d, "start position", start, count, 3));
  PB_TRY(check_finite(d, "velocity", velocity, count, 3));
  PB_TRY(check_finite(d, "mass", mass, count, 1));

  int masses = mass ? count : 0;
  for (int i = 0; i < masses; i++) {
    if (mass[i] < 0) return pbContext_Fail(d->ctx, pb_bad_input, "mass of point %d: %g is negative", d->npoint + i, mass[i]);
  }

  PB_TRY(reserve_points(d, count));
  int n = d->npoint;
  PB_ASSERT(n + count <= d->capacity);

  // Without start positions points start at rest; without masses they have those of groups alone.
  copy_or_clear(d->rest + 3 * n, rest, 3 * count);
  copy_or_clear(d->start + 3 * n, start ? start : rest, 3 * count);
  copy_or_clear(d->velocity + 3 * n, velocity, 3 * count);
  copy_or_clear(d->mass + n, mass, count);
  memset(d->fixed + n, 0, (size_t)count);

  if (first) *first = n;
  d->npoint += count;

  return pb_ok;
}

pbStatus pbDeformable_Fix(pbDeformable *d, int count, const int *points, int axes) {
  if (axes & ~pb_fixAll) return pbContext_Fail(d->ctx, pb_bad_argument, "axes %d: expected a sum of 1 (x), 2 (y), 4 (z)", axes);

  for (int i = 0; i < count; i++) {
    if (points[i] < 0 || points[i] >= d->npoint)
      return pbContext_Fail(d->ctx, pb_bad_argument, "point %d cannot be fixed: there are %d", points[i], d->npoint);
    d->fixed[points[i]] |= (unsigned char)axes;
  }

  return pb_ok;
}

static bool is_led(const pbDeformable *d, int point, int axes) {
  for (const pbLeadDef *l = d->leads; l < d->leads + d->nlead; l++) {
    for (int i = 0; i < l->count; i++) {
      if (l->points[i] == point && l->axes & axes) return true;
    }
  }
  return false;
}

static pbStatus check_lead(pbDeformable *d, const char *name, int count, const int *points, int axes, int steps, int rows,
                           const double *path) {
  if (!*name || strpbrk(name, ":. "))
    return pbContext_Fail(d->ctx, pb_bad_argument, "'%.100s' cannot name a path: expected a word", name);
  for (int i = 0; i < d->nlead + d->ngroup; i++) {
    const char *other = i < d->nlead ? d->leads[i].name : d->groups[i - d->nlead].name;
    if (!strcmp(other, name)) return pbContext_Fail(d->ctx, pb_bad_input, "there is a '%.100s' already: name this path", name);
  }

  bool fits = path ? steps > 0 && (rows == 1 || rows == count) : steps == 0 && rows == 1;
  if (!fits || (double)steps * rows * 3 > 1e9)
    return pbContext_Fail(d->ctx, pb_bad_argument, "path '%.100s': %d steps of %d rows for %d points", name, steps, rows, count);
  for (int i = 0; i < 3 * steps * rows; i++) {
    if (!isfinite(path[i]))
      return pbContext_Fail(d->ctx, pb_bad_input, "path '%.100s': row %d has a number that is not finite", name, i / (3 * rows));
  }

  // Fix checks points and axes.
  for (int i = 0; i < count; i++) {
    if (is_led(d, points[i], axes))
      return pbContext_Fail(d->ctx, pb_bad_input, "path '%.100s': point %d is led along another", name, points[i]);
  }

  return pb_ok;
}

pbStatus pbDeformable_Lead(pbDeformable *d, const char *name, int count, const int *points, int axes, int steps, int rows,
                           const double *path) {
  PB_TRY(check_lead(d, name, count, points, axes, steps, rows, path));
  if (!grow(d->ctx, &d->leads, (size_t)d->nlead + 1, sizeof *d->leads))
    return pbContext_Fail(d->ctx, pb_no_memory, "no memory for a path");

  size_t numbers = 3 * (size_t)steps * (size_t)rows;
  pbLeadDef l = {.count = count, .axes = axes, .steps = steps, .rows = rows, .name = pbContext_CopyText(d->ctx, name)};
  l.points = pbContext_AllocArray(d->ctx, (size_t)count + 1, sizeof(int));
  if (path) l.path = pbContext_AllocArray(d->ctx, numbers, sizeof(double));
  pbStatus status = l.name && l.points && (l.path || !path) ? pbDeformable_Fix(d, count, points, axes)
                                                            : pbContext_Fail(d->ctx, pb_no_memory, "no memory for a path");
  if (status != pb_ok) {
    pbContext_Free(d->ctx, l.name);
    pbContext_Free(d->ctx, l.points);
    pbContext_Free(d->ctx, l.path);
    return status;
  }

  if (count) memcpy(l.points, points, (size_t)count * sizeof(int));
  if (path) memcpy(l.path, path, numbers * sizeof(double));
  d->leads[d->nlead++] = l;

  return pb_ok;
}

pbStatus pbDeformable_NamePoints(pbDeformable *d, const char *name, int count, const int *points) {
  pbPointSet set = {.count = count};
  for (int i = 0; i < count; i++) {
    if (points[i] < 0 || points[i] >= d->npoint)
      return pbContext_Fail(d->ctx, pb_bad_argument, "points '%.100s': there is no point %d", name, points[i]);
  }

  for (int i = 0; i < d->nset; i++) {
    if (!strcmp(d->sets[i].name, name)) return pbContext_Fail(d->ctx, pb_bad_argument, "there are points '%.100s' already", name);
  }

  // All or nothing: the list of sets grows before it has one more.
  set.name = pbContext_CopyText(d->ctx, name);
  set.points = pbContext_AllocArray(d->ctx, (size_t)count + 1, sizeof(int));
  if (!set.name || !set.points || !grow(d->ctx, &d->sets, (size_t)d->nset + 1, sizeof set)) {
    pbContext_Free(d->ctx, set.name);
    pbContext_Free(d->ctx, set.points);
    return pbContext_Fail(d->ctx, pb_no_memory, "no memory for the points '%.100s'", name);
  }

  memcpy(set.points, points, (size_t)count * sizeof(int));
  d->sets[d->nset++] = set;

  return pb_ok;
}

void pbDeformable_SetPlanar(pbDeformable *d, bool planar) { d->planar = planar; }

// ---- points on bodies -----------------------------------------------------------------------------------------------
pbStatus pbDeformable_AddAttachment(pbDeformable *d, const pbAttachmentDef *attached, int *point) {
  double zero[3] = {0};
  pbAttachmentDef r = *attached;

  PB_TRY(check_finite(d, "position on a body", attached->local, 1, 3));

  // A point of its own, or one that is there and on no body yet.
  r.own = r.point < 0;
  if (r.own) PB_TRY(pbDeformable_AddPoints(d, 1, zero, NULL, NULL, NULL, &r.point));

  for (int i = 0; i < d->nattached; i++) {
    if (d->attachments[i].point == r.point)
      return pbContext_Fail(d->ctx, pb_bad_input, "point %d is attached to a body already", r.point);
  }

  r.body = pbContext_CopyText(d->ctx, attached->body);
  if (!r.body || !grow(d->ctx, &d->attachments, (size_t)d->nattached + 1, sizeof r)) {
    pbContext_Free(d->ctx, r.body);
    return pbContext_Fail(d->ctx, pb_no_memory, "no memory for an attached point");
  }

  // It moves with the body: no mass, no velocity and no freedom of its own.
  PB_ASSERT(r.point >= 0 && r.point < d->npoint);
  d->fixed[r.point] = pb_fixAll;
  d->mass[r.point] = 0;
  memset(d->velocity + 3 * r.point, 0, sizeof zero);
  d->attachments[d->nattached++] = r;
  *point = r.point;

  return pb_ok;
}

pbStatus pbDeformable_Attach(pbDeformable *d, const char *body, int count, const double *local, int *first) {
  int point;
  if (first) *first = d->npoint;

  for (int i = 0; i < count; i++) {
    pbAttachmentDef r = {
        .point = -1, .geom = -1, .body = (char *)(uintptr_t)body, .local = {local[3 * i], local[3 * i + 1], local[3 * i + 2]}};
    PB_TRY(pbDeformable_AddAttachment(d, &r, &point));
  }

  return pb_ok;
}

// ---- energies -----------------------------------------------------------------------------------------------------
static pbStatus check_name(pbDeformable *d, const char *name) {
  if (!name || !*name || strpbrk(name, ":. \t\n") || strlen(name) > 100)
    return pbContext_Fail(d->ctx, pb_bad_argument,
                          "'%.100s' cannot name a group of elements: expected a word without ':' and '.'", name ? name : "");

  for (int i = 0; i < d->ngroup; i++) {
    if (!strcmp(d->groups[i].name, name)) return pbContext_Fail(d->ctx, pb_bad_argument, "there is a group '%s' already", name);
  }

  return pb_ok;
}

static pbStatus check_vertices(pbDeformable *d, const char *name, int points, int count, const int *vertex) {
  // As many as leave count x points x points, entries of element matrices, an int.
  if (count < 0 || count > (1 << 30) / (points * points))
    return pbContext_Fail(d->ctx, pb_bad_argument, "%s: %d elements are too many, or less than none", name, count);

  for (int i = 0; i < count * points; i++) {
    if (vertex[i] < 0 || vertex[i] >= d->npoint)
      return pbContext_Fail(d->ctx, pb_bad_input, "%s: element %d has the point %d; there are %d", name, i / points, vertex[i],
                            d->npoint);

    // No point twice in an element: its matrix would have two entries for one pair.
    for (int k = i - i % points; k < i; k++) {
      if (vertex[k] == vertex[i])
        return pbContext_Fail(d->ctx, pb_bad_input, "%s: element %d has the point %d twice", name, i / points, vertex[i]);
    }
  }

  return pb_ok;
}

static pbStatus add_group(pbDeformable *d, const char *name, bool mass, pbEnergy *energy, int count, const int *vertex,
                          int *group) {
  const pbEnergyDef *def = pbEnergy_Definition(energy);
  pbGroupDef g = {.mass = mass, .energy = energy, .count = count};

  size_t entries = (size_t)count * (size_t)def->points;

  g.name = pbContext_CopyText(d->ctx, name);
  g.vertex = pbContext_AllocArray(d->ctx, entries + 1, sizeof(int));
  g.values = pbContext_AllocArray(d->ctx, (size_t)def->parameter_count + 1, sizeof *g.values);

  if (!g.name || !g.vertex || !g.values || !grow(d->ctx, &d->groups, (size_t)d->ngroup + 1, sizeof *d->groups)) {
    free_group(d->ctx, &g);
    return pbContext_Fail(d->ctx, pb_no_memory, "no memory for the elements of %s", name);
  }

  memcpy(g.vertex, vertex, entries * sizeof(int));
  if (group) *group = d->ngroup;
  d->groups[d->ngroup++] = g;

  return pb_ok;
}

pbStatus pbDeformable_AddEnergy(pbDeformable *d, const char *name, const pbEnergyDef *def, int count, const int *vertex,
                                int *group) {
  pbEnergy *energy;
  PB_TRY(check_name(d, name));
  PB_TRY(pbEnergy_Create(d->ctx, def, &energy));
  pbStatus status = check_vertices(d, name, def->points, count, vertex);
  if (status == pb_ok) return add_group(d, name, false, energy, count, vertex, group);
  pbEnergy_Destroy(energy);

  return status;
}

// Where the last expression of a formula begins: behind the last ';' or line end that is in no bracket. end: of the formula.
static size_t last_expression(const char *formula, size_t end) {
  int depth = 0;
  size_t begin = end;

  for (; begin > 0; begin--) {
    char c = formula[begin - 1];
    depth += (c == ')' || c == ']') - (c == '(' || c == '[');
    if (depth == 0 && (c == ';' || c == '\n')) break;
  }

  return begin;
}

static size_t formula_length(const char *formula) {
  size_t length = strlen(formula);
  while (length > 0 && strchr("; \t\n", formula[length - 1])) length--;
  return length;
}

// An energy whose gradient by every point's x is that point's share: (mass) (x0.x + x1.x + ...) / points.
static pbStatus create_mass_energy(pbDeformable *d, const pbEnergyDef *def, pbEnergy **energy) {
  size_t room = strlen(def->formula) + 64 + 16 * (size_t)def->points;
  char *text = pbContext_Alloc(d->ctx, room);

  if (!text) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for a formula");

  // The mass is the value of the formula's last expression; what comes before it defines names.
  size_t end = formula_length(def->formula), begin = last_expression(def->formula, end);
  int used = snprintf(text, room, "%.*s element_mass = %.*s; element_mass*(x0.x", (int)begin, def->formula, (int)(end - begin),
                      def->formula + begin);
  for (int i = 1; i < def->points; i++) used += snprintf(text + used, room - (size_t)used, " + x%d.x", i);
  used += snprintf(text + used, room - (size_t)used, ")/%d", def->points);
  PB_ASSERT((size_t)used < room);

  pbEnergyDef whole = *def;

  whole.formula = text;
  pbStatus status = pbEnergy_Create(d->ctx, &whole, energy);
  pbContext_Free(d->ctx, text);

  return status;
}

pbStatus pbDeformable_AddMass(pbDeformable *d, const char *name, const pbEnergyDef *def, int count, const int *vertex,
                              int *group) {
  pbEnergy *energy;
  PB_TRY(check_name(d, name));
  PB_TRY(pbEnergy_Create(d->ctx, def, &energy));  // errors refer to the formula as written, not to the one made of it
  pbEnergy_Destroy(energy);

  PB_TRY(create_mass_energy(d, def, &energy));
  pbStatus status = check_vertices(d, name, def->points, count, vertex);
  if (status == pb_ok) return add_group(d, name, true, energy, count, vertex, group);
  pbEnergy_Destroy(energy);

  return status;
}

static pbStatus find_parameter(pbDeformable *d, int group, const char *name, pbGroupDef **g, int *index) {
  if (group < 0 || group >= d->ngroup) return pbContext_Fail(d->ctx, pb_bad_argument, "there is no group %d", group);

  *g = &d->groups[group];
  const pbEnergyDef *def = pbEnergy_Definition((*g)->energy);
  pbSuggest near = pbSuggest_For(name);
  char hint[256];

  for (*index = 0; *index < def->parameter_count; ++*index) {
    if (!strcmp(def->parameters[*index].name, name)) return pb_ok;
    pbSuggest_Offer(&near, def->parameters[*index].name);
  }

  return pbContext_Fail(d->ctx, pb_bad_argument, "%s (%s) has no parameter '%.80s'%s", (*g)->name, def->name, name,
                        pbSuggest_Write(&near, hint, sizeof hint));
}

// Whether a value is within the bounds of its parameter; both zero: no bounds.
static pbStatus check_value(pbDeformable *d, const pbGroupDef *g, const pbEnergyParameter *p, size_t row, double value) {
  bool open = p->lower == 0 && p->upper == 0;

  if (p->lower == PB_MORE_THAN_ZERO && value < p->lower)
    return pbContext_Fail(d->ctx, pb_bad_input, "%s.%s, row %zu: %.10g; expected a positive number", g->name, p->name, row,
                          value);
  if (!isfinite(value) || (!open && (value < p->lower || value > p->upper)))
    return pbContext_Fail(d->ctx, pb_bad_input, "%s.%s, row %zu: %.10g is outside of its range %.10g to %.10g", g->name, p->name,
                          row, value, p->lower, p->upper);

  return pb_ok;
}

pbStatus pbDeformable_SetParameter(pbDeformable *d, int group, const char *parameter, int rows, const double *values) {
  pbGroupDef *g;
  int index;

  PB_TRY(find_parameter(d, group, parameter, &g, &index));
  const pbEnergyParameter *p = &pbEnergy_Definition(g->energy)->parameters[index];
  if (rows != 1 && rows != g->count)
    return pbContext_Fail(d->ctx, pb_bad_argument, "%s.%s: %d rows; expected 1 or %d (one an element)", g->name, p->name, rows,
                          g->count);

  // Every row against the bounds of the definition.
  size_t size = (size_t)(p->rows * p->cols), count = (size_t)rows * size;
  for (size_t i = 0; i < count; i++) PB_TRY(check_value(d, g, p, i / size, values[i]));

  // New values before the old ones go.
  double *data = pbContext_AllocArray(d->ctx, count + 1, sizeof *data);
  if (!data) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for %s.%s", g->name, p->name);

  memcpy(data, values, count * sizeof *data);
  pbContext_Free(d->ctx, g->values[index].data);
  g->values[index].data = data;
  g->values[index].rows = rows;

  return pb_ok;
}

pbStatus pbDeformable_Control(pbDeformable *d, int group, const char *parameter) {
  pbGroupDef *g;
  int index;

  PB_TRY(find_parameter(d, group, parameter, &g, &index));
  g->values[index].control = true;
  return pb_ok;
}

pbStatus pbDeformable_SetOptions(pbDeformable *d, const pbDeformOptions *options) {
  if (options->scheme < 0 || options->scheme >= pb_schemeCount)
    return pbContext_Fail(d->ctx, pb_bad_argument, "there is no scheme %d", (int)options->scheme);
  if (options->method < 0 || options->method >= pb_deformMinimizerCount)
    return pbContext_Fail(d->ctx, pb_bad_argument, "there is no method %d", (int)options->method);
  if (options->method == pb_minimizeUser && !options->minimize)
    return pbContext_Fail(d->ctx, pb_bad_argument, "the method 'user' needs a function that minimizes");
  if (!(options->residual >= 0) || !(options->rate >= 0))
    return pbContext_Fail(d->ctx, pb_bad_argument, "residual and rate of deformables: not negative");
  if (options->iterations < 0 || !(options->tolerance >= 0))
    return pbContext_Fail(d->ctx, pb_bad_argument, "iterations and tolerance of deformables: not negative");

  d->options = *options;

  return pb_ok;
}

// ---- contact --------------------------------------------------------------------------------------------------------
static pbStatus copy_indices(pbDeformable *d, const char *what, int count, int size, const int *from, int **to) {
  for (int i = 0; i < count * size; i++) {
    if (from[i] < 0 || from[i] >= d->npoint)
      return pbContext_Fail(d->ctx, pb_bad_input, "surface %d: %s %d has the point %d; there are %d", d->nsurface, what, i / size,
                            from[i], d->npoint);
  }

  *to = pbContext_AllocArray(d->ctx, (size_t)(count * size) + 1, sizeof(int));
  if (!*to) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for a surface");
  if (count) memcpy(*to, from, (size_t)(count * size) * sizeof(int));

  return pb_ok;
}

pbStatus pbDeformable_AddAnySurface(pbDeformable *d, const pbSurface *from, bool plane, int *number) {
  pbSurfaceDef s = {.triangles = from->triangles,
                    .edges = from->edges,
                    .points = from->points,
                    .radius = from->radius,
                    .self = from->self,
                    .plane = plane};

  if (from->triangles < 0 || from->edges < 0 || from->points < 0)
    return pbContext_Fail(d->ctx, pb_bad_argument, "surface %d: a negative number of triangles, edges or points", d->nsurface);
  if (!(from->radius >= 0) || !isfinite(from->radius))
    return pbContext_Fail(d->ctx, pb_bad_input, "surface %d: a radius of %g; expected 0 or more", d->nsurface, from->radius);

  // Copies of all lists, of which the first failure stops the rest.
  pbStatus status = copy_indices(d, "triangle", from->triangles, 3, from->triangle, &s.triangle);
  if (status == pb_ok) status = copy_indices(d, "edge", from->edges, 2, from->edge, &s.edge);
  if (status == pb_ok) status = copy_indices(d, "point", from->points, 1, from->point, &s.point);

  if (status == pb_ok && !(s.name = pbContext_CopyText(d->ctx, from->name ? from->name : "")))
    status = pbContext_Fail(d->ctx, pb_no_memory, "no memory for a surface");
  if (status == pb_ok && !grow(d->ctx, &d->surfaces, (size_t)d->nsurface + 1, sizeof s))
    status = pbContext_Fail(d->ctx, pb_no_memory, "no memory for a surface");

  if (status != pb_ok) {
    free_surface(d->ctx, &s);
    return status;
  }

  if (number) *number = d->nsurface;
  d->surfaces[d->nsurface++] = s;

  return pb_ok;
}

pbStatus pbDeformable_AddSurface(pbDeformable *d, const pbSurface *surface, int *number) {
  return pbDeformable_AddAnySurface(d, surface, false, number);
}

int pbDeformable_FindSurface(const pbDeformable *d, const char *name) {
  for (int i = 0; i < d->nsurface; i++) {
    if (*name && !strcmp(d->surfaces[i].name, name)) return i;
  }

  return -1;
}

const char *pbDeformable_SurfaceName(const pbDeformable *d, int number) {
  return number >= 0 && number < d->nsurface ? d->surfaces[number].name : NULL;
}

pbStatus pbDeformable_AddPlane(pbDeformable *d, const char *name, const double point[3], const double normal[3], int *number) {
  double length = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]), a[3], b[3], rest[9];
  if (!(length > 0) || !isfinite(length)) return pbContext_Fail(d->ctx, pb_bad_input, "a plane needs a normal that is not zero");

  // Tangents: a, the axis that is least along the normal without its part along it, and b = n x a.
  int least = 0, first;
  for (int k = 1; k < 3; k++) least = fabs(normal[k]) < fabs(normal[least]) ? k : least;
  for (int k = 0; k < 3; k++) a[k] = (k == least) - normal[k] * normal[least] / (length * length);
  double size = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
  for (int k = 0; k < 3; k++) a[k] /= size;
  for (int k = 0; k < 3; k++) b[k] = (normal[(k + 1) % 3] * a[(k + 2) % 3] - normal[(k + 2) % 3] * a[(k + 1) % 3]) / length;

  // Three fixed points that span it, their normal (x1 - x0) x (x2 - x0) on its free side.
  for (int k = 0; k < 3; k++) {
    rest[k] = point[k];
    rest[3 + k] = point[k] + a[k];
    rest[6 + k] = point[k] + b[k];
  }

  PB_TRY(pbDeformable_AddPoints(d, 3, rest, NULL, NULL, NULL, &first));

  int corners[3] = {first, first + 1, first + 2};
  PB_TRY(pbDeformable_Fix(d, 3, corners, pb_fixAll));

  return pbDeformable_AddAnySurface(d, &(pbSurface){.name = name, .points = 3, .point = corners}, true, number);
}

pbStatus pbDeformable_SetPair(pbDeformable *d, int first, int second, bool meet, double stiffness, double friction) {
  if (first < 0 || second < 0 || first >= d->nsurface || second >= d->nsurface)
    return pbContext_Fail(d->ctx, pb_bad_argument, "surfaces %d and %d: there are %d", first, second, d->nsurface);
  if (isnan(stiffness) || isnan(friction)) return pbContext_Fail(d->ctx, pb_bad_input, "surfaces %d and %d: NaN", first, second);
  if (!grow(d->ctx, &d->pairs, (size_t)d->npair + 1, sizeof *d->pairs))
    return pbContext_Fail(d->ctx, pb_no_memory, "no memory for a pair of surfaces");

  d->pairs[d->npair++] =
      (pbSurfacePair){first < second ? first : second, first < second ? second : first, meet, stiffness, friction};

  return pb_ok;
}

pbStatus pbDeformable_SetContact(pbDeformable *d, const pbDeformContact *c) {
  if (!(c->distance > 0) || !(c->stiffness > 0) || !(c->friction >= 0) || !(c->kind == pb_frictionNone || c->velocity > 0))
    return pbContext_Fail(d->ctx, pb_bad_input,
                          "contact: distance %g, stiffness %g, velocity %g must be positive, friction %g not negative",
                          c->distance, c->stiffness, c->velocity, c->friction);

  if (c->kind < 0 || c->kind >= pb_frictionKindCount)
    return pbContext_Fail(d->ctx, pb_bad_argument, "contact: there is no kind of friction %d", (int)c->kind);

  d->contact = *c;

  return pb_ok;
}
