// "energies" of a deformable body: formulas and built-in ones, the elements they act on, and the values of their parameters.
// Tests: tests/unit/test_task_deform.c, tests/oracle/test_deform_cli.py.
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/suggest.h"
#include "deform/deformable.h"
#include "io/task/task_deform.h"

static pbStatus no_memory(const pbTaskReader *r) { return pbTaskReader_Fail(r, pb_no_memory, "no memory for deformables"); }

// ---- values of parameters -------------------------------------------------------------------------------------------
// {"each": ...}: a row an element; anything else is shared by all.
typedef struct Values {
  double *data;
  int rows;                    // 1, or the number of elements
  int shape_rows, shape_cols;  // of one value
} Values;

static pbStatus shared_values(pbTaskReader *r, const json_t *value, Values *v) {
  pbTaskNumbers n;
  PB_TRY(pbTaskReader_Numbers(r, value, &n));
  v->data = n.data;
  v->rows = 1;

  size_t rows = n.nested ? n.rows : n.cols, cols = n.nested ? n.cols : 1;
  v->shape_rows = (int)rows;
  v->shape_cols = (int)cols;
  if (rows >= 1 && rows <= 3 && cols >= 1 && cols <= 3) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input,
                           "expected a number, a vector or a matrix of up to 3 x 3 (one value per element: {\"each\": [...]})");
}

static pbStatus listed_values(pbTaskReader *r, const json_t *value, pbTaskArray *a) {
  pbTaskNumbers n;
  PB_TRY(pbTaskReader_Numbers(r, value, &n));
  *a = (pbTaskArray){n.data, n.nested ? 2 : 1, {n.nested ? n.rows : n.cols, n.cols, 1}, n.rows * n.cols};
  return pb_ok;
}

static pbStatus values_of_each(pbTaskReader *r, const json_t *value, int elements, Values *v) {
  pbTaskArray a = {0};
  pbTaskReader_Enter(r, "each");
  PB_TRY(json_is_object(value) ? pbTaskReader_Array(r, value, &a) : listed_values(r, value, &a));

  v->data = a.data;
  v->rows = elements;

  // (N), (N, rows) or (N, rows, cols); rows of 4 or 9 numbers are matrices. More than 10 fits nothing and is refused later.
  size_t width = a.ndim >= 2 ? a.shape[1] : 1;
  v->shape_rows = (int)(width < 10 ? width : 10);
  v->shape_cols = 1;
  if (a.ndim == 3) v->shape_cols = (int)(a.shape[2] < 10 ? a.shape[2] : 10);
  else if (width == 4 || width == 9) v->shape_rows = v->shape_cols = width == 4 ? 2 : 3;

  if (a.ndim < 1 || a.shape[0] != (size_t)elements)
    return pbTaskReader_Fail(r, pb_bad_input, "%zu values; there are %d elements", a.ndim ? a.shape[0] : 1, elements);
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus read_values(pbTaskReader *r, const json_t *value, int elements, Values *v) {
  if (!json_is_object(value)) return shared_values(r, value, v);
  const json_t *each = json_object_get(value, "each"), *shared = json_object_get(value, "value");
  if (!each == !shared) return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"value\" and \"each\"");
  if (each) return values_of_each(r, each, elements, v);

  pbTaskReader_Enter(r, "value");
  PB_TRY(shared_values(r, shared, v));
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- a formula's parameters, declared by their values ---------------------------------------------------------------
typedef struct Declared {
  pbEnergyParameter list[PB_ENERGY_PARAMETERS];
  Values values[PB_ENERGY_PARAMETERS];
  int count;
} Declared;

static void free_declared(pbTaskReader *r, Declared *d) {
  int count = d ? d->count : 0;
  for (int i = 0; i < count; i++) pbContext_Free(r->ctx, d->values[i].data);
  pbContext_Free(r->ctx, d);
}

static pbStatus declare(pbTaskReader *r, const char *name, const json_t *value, int elements, pbEnergyParameter *p, Values *v) {
  static const char *const keys[] = {"value", "each", "lower", "upper", "unit", "constant", NULL};
  if (json_is_object(value)) PB_TRY(pbTaskReader_Keys(r, value, keys));
  PB_TRY(read_values(r, value, elements, v));
  *p = (pbEnergyParameter){.name = name, .rows = v->shape_rows, .cols = v->shape_cols};
  if (!json_is_object(value)) return pb_ok;

  // one bound alone leaves the other side open
  bool bounded = json_object_get(value, "lower") || json_object_get(value, "upper");
  if (bounded) {
    p->lower = -1e300;
    p->upper = 1e300;
  }
  PB_TRY(pbTaskReader_Real(r, value, "lower", &p->lower));
  PB_TRY(pbTaskReader_Real(r, value, "upper", &p->upper));
  if (bounded && !(p->lower < p->upper)) return pbTaskReader_Fail(r, pb_bad_input, "\"lower\" must be below \"upper\"");

  PB_TRY(pbTaskReader_Text(r, value, "unit", &p->unit));
  return pbTaskReader_Bool(r, value, "constant", &p->constant);
}

static pbStatus declare_all(pbTaskReader *r, const json_t *object, int elements, Declared *d) {
  const char *name;
  json_t *value;
  if (!object) return pb_ok;

  pbTaskReader_Enter(r, "parameters");
  if (!json_is_object(object)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: value}");
  if (json_object_size(object) > PB_ENERGY_PARAMETERS)
    return pbTaskReader_Fail(r, pb_capacity, "more than %d parameters", PB_ENERGY_PARAMETERS);

  json_object_foreach((json_t *)object, name, value) {
    pbTaskReader_Enter(r, name);

    // counted first: what was read of it is freed with the others
    d->count++;
    PB_TRY(declare(r, name, value, elements, &d->list[d->count - 1], &d->values[d->count - 1]));
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// Points of an element: one more than the highest number behind x, X or y.
static int points_of(const char *formula) {
  int most = 0;
  for (const char *at = formula; *at; at++) {
    // part of a longer name, or of a number
    bool inside = at > formula && (isalnum((unsigned char)at[-1]) || at[-1] == '_' || at[-1] == '.');
    if (inside || !strchr("xXy", *at) || !isdigit((unsigned char)at[1])) continue;

    int number = 0;
    const char *digit = at + 1;
    for (; isdigit((unsigned char)*digit) && number < 1000; digit++) number = 10 * number + (*digit - '0');

    // x12 is a point, x12a a name
    if (!isalpha((unsigned char)*digit) && *digit != '_' && number >= most) most = number + 1;
  }
  return most;
}

// ---- groups ---------------------------------------------------------------------------------------------------------
typedef struct Elements {
  int cell, *vertex, count;
} Elements;

static pbStatus group_name(pbTaskReader *r, const pbDeformBody *body, const char *name, char *text, size_t size) {
  // energies between bodies have no body's name in front
  int used = body ? snprintf(text, size, "%s_%s", body->name, name) : snprintf(text, size, "%s", name);
  return used > 0 && (size_t)used < size ? pb_ok : pbTaskReader_Fail(r, pb_bad_input, "the name of body and energy are too long");
}

static pbStatus read_controls(pbTaskReader *r, const json_t *list, int group, pbDeformable *d) {
  if (!list) return pb_ok;

  pbTaskReader_Enter(r, "controls");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of parameters");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    pbTaskReader_EnterAt(r, i);
    if (!name) return pbTaskReader_Fail(r, pb_bad_input, "expected the name of a parameter");
    pbStatus status = pbDeformable_Control(d, group, name);
    if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus set_values(pbTaskReader *r, int group, const char *name, const Values *v, pbDeformable *d) {
  pbStatus status = pbDeformable_SetParameter(d, group, name, v->rows, v->data);
  if (status == pb_ok) return pb_ok;
  pbTaskReader_Enter(r, "parameters");
  pbTaskReader_Enter(r, name);
  return pbTaskReader_FailAgain(r, status);
}

// ---- formulas -------------------------------------------------------------------------------------------------------
static pbStatus add_formula(pbTaskReader *r, const json_t *o, const pbDeformBody *body, const char *formula, int points,
                            const Elements *e, Declared *p, pbDeformable *d) {
  char name[256];
  const char *given = json_string_value(json_object_get(o, "name"));
  bool mass = false;
  int group;

  PB_TRY(pbTaskReader_Bool(r, o, "mass", &mass));
  PB_TRY(group_name(r, body, given, name, sizeof name));
  PB_TRY(declare_all(r, json_object_get(o, "parameters"), e->count, p));

  pbEnergyDef def = {given, formula, points, p->count, p->list};

  // with "mass" the value of the formula is the mass of an element, not an energy
  pbStatus status = mass ? pbDeformable_AddMass(d, name, &def, e->count, e->vertex, &group)
                         : pbDeformable_AddEnergy(d, name, &def, e->count, e->vertex, &group);

  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);
  for (int i = 0; i < p->count; i++) PB_TRY(set_values(r, group, p->list[i].name, &p->values[i], d));

  return read_controls(r, json_object_get(o, "controls"), group, d);
}

static pbStatus read_formula(pbTaskReader *r, const json_t *o, const pbDeformBody *body, Elements *e, pbDeformable *d) {
  const char *formula = NULL, *name = NULL;
  PB_TRY(pbTaskReader_Text(r, o, "formula", &formula));
  PB_TRY(pbTaskReader_Text(r, o, "name", &name));
  if (!name) return pbTaskReader_Fail(r, pb_bad_input, "\"name\" is missing: the parameters of a formula are found under it");

  int points = points_of(formula);
  if (points < 1 || points > PB_ENERGY_POINTS)
    return pbTaskReader_FailAt(r, "formula", "it looks at no point x0, x1, ... up to x%d", PB_ENERGY_POINTS - 1);

  // elements of any kind that have as many points
  PB_TRY(
      pbTask_SelectElements(r, body, json_object_get(o, "on"), pbTask_CellsOf(points), points, &e->cell, &e->vertex, &e->count));

  // from points of the body to those of all
  for (int i = 0; i < e->count * points; i++) e->vertex[i] += body->first;
  Declared *p = pbContext_Alloc(r->ctx, sizeof *p);
  pbStatus status = p ? add_formula(r, o, body, formula, points, e, p, d) : no_memory(r);
  free_declared(r, p);
  return status;
}

// ---- built-in energies ----------------------------------------------------------------------------------------------
static bool is_called(const pbMaterial *m, const char *name) { return !strcmp(m->name, name) || !strcmp(m->family, name); }

// Kinds of elements that the energy exists for; if none, the context says which names there are.
static pbStatus kinds_of(pbTaskReader *r, const char *name, unsigned *wanted) {
  const pbMaterial *m;
  *wanted = 0;
  for (int i = 0; (m = pbMaterial_At(i)); i++) *wanted |= is_called(m, name) ? 1u << m->cell : 0;
  if (*wanted) return pb_ok;

  pbTaskReader_Enter(r, "energy");
  pbStatus status = pbMaterial_Get(r->ctx, name, -1, &m);
  return pbTaskReader_FailAgain(r, status == pb_ok ? pb_bad_input : status);
}

static const pbEnergyParameter *parameter_of(const pbMaterial *m, const char *name) {
  int count = m ? m->def.parameter_count : 0;
  for (int i = 0; i < count; i++) {
    if (!strcmp(m->def.parameters[i].name, name)) return &m->def.parameters[i];
  }
  return NULL;
}

// A built-in energy with its group, and that of its mass where it has one (else mass is NULL).
typedef struct Builtin {
  const pbMaterial *material, *mass;
  int group, mass_group;
} Builtin;

// One value into whichever of the two groups has a parameter of that name.
static pbStatus set_builtin(pbTaskReader *r, const char *name, const json_t *value, int elements, const Builtin *b,
                            pbDeformable *d) {
  static const char *const keys[] = {"value", "each", NULL};
  const pbEnergyParameter *own = parameter_of(b->material, name), *of_mass = parameter_of(b->mass, name);
  const pbEnergyParameter *p = own ? own : of_mass;
  Values v = {0};
  pbTaskReader_Enter(r, name);
  if (json_is_object(value)) PB_TRY(pbTaskReader_Keys(r, value, keys));

  pbStatus status = read_values(r, value, elements, &v);
  if (status == pb_ok && v.shape_rows * v.shape_cols != p->rows * p->cols)
    status = pbTaskReader_Fail(r, pb_bad_input, "expected %d numbers, found %d", p->rows * p->cols, v.shape_rows * v.shape_cols);

  // set_values enters "parameters" and the name by itself
  if (status == pb_ok) {
    pbTaskReader_Leave(r);
    pbTaskReader_Leave(r);
  }
  if (status == pb_ok && own) status = set_values(r, b->group, name, &v, d);
  if (status == pb_ok && of_mass) status = set_values(r, b->mass_group, name, &v, d);
  if (status == pb_ok) pbTaskReader_Enter(r, "parameters");

  pbContext_Free(r->ctx, v.data);
  return status;
}

static void offer_parameters(pbSuggest *near, const pbMaterial *m) {
  int count = m ? m->def.parameter_count : 0;
  for (int i = 0; i < count; i++) pbSuggest_Offer(near, m->def.parameters[i].name);
}

static pbStatus unknown_parameter(pbTaskReader *r, const char *name, const pbMaterial *m, const pbMaterial *mass) {
  pbSuggest near = pbSuggest_For(name);
  char hint[200];
  offer_parameters(&near, m);
  offer_parameters(&near, mass);
  return pbTaskReader_Fail(r, pb_bad_input, "%s has no parameter '%.80s'%s", m->name, name,
                           pbSuggest_Write(&near, hint, sizeof hint));
}

static pbStatus check_given(pbTaskReader *r, const json_t *given, const pbMaterial *m) {
  int count = m ? m->def.parameter_count : 0;
  for (int i = 0; i < count; i++) {
    const pbEnergyParameter *p = &m->def.parameters[i];
    if (!json_object_get(given, p->name))
      return pbTaskReader_Fail(r, pb_bad_input, "\"%s\" is missing: %s has it [%s]", p->name, m->name, p->unit ? p->unit : "1");
  }
  return pb_ok;
}

static pbStatus read_parameters(pbTaskReader *r, const json_t *given, int elements, const Builtin *b, pbDeformable *d) {
  const char *name;
  json_t *value;
  pbTaskReader_Enter(r, "parameters");
  if (given && !json_is_object(given)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: value}");
  PB_TRY(check_given(r, given, b->material));
  PB_TRY(check_given(r, given, b->mass));

  json_object_foreach((json_t *)given, name, value) {
    if (!parameter_of(b->material, name) && !parameter_of(b->mass, name)) return unknown_parameter(r, name, b->material, b->mass);
    PB_TRY(set_builtin(r, name, value, elements, b, d));
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus add_builtin(pbTaskReader *r, const json_t *o, const pbDeformBody *body, const pbMaterial *m, const Elements *e,
                            pbDeformable *d) {
  char name[256], mass_name[260];
  const char *given = m->family;
  const json_t *parameters = json_object_get(o, "parameters");
  Builtin b = {.material = m, .mass_group = -1};
  PB_TRY(pbTaskReader_Text(r, o, "name", &given));
  PB_TRY(group_name(r, body, given, name, sizeof name));
  snprintf(mass_name, sizeof mass_name, "%.250s_mass", name);

  // a density brings the mass of the same elements along, unless it is the energy's own parameter
  bool dense = m->mass && !parameter_of(m, "density") && json_object_get(parameters, "density");
  if (dense) b.mass = pbMaterial_Find(m->mass);

  bool gives_mass = m->traits & pb_materialMass;

  // some built-in formulas are masses themselves
  pbStatus status = gives_mass ? pbDeformable_AddMass(d, name, &m->def, e->count, e->vertex, &b.group)
                               : pbDeformable_AddEnergy(d, name, &m->def, e->count, e->vertex, &b.group);
  if (status == pb_ok && b.mass) status = pbDeformable_AddMass(d, mass_name, &b.mass->def, e->count, e->vertex, &b.mass_group);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);

  PB_TRY(read_parameters(r, parameters, e->count, &b, d));
  return read_controls(r, json_object_get(o, "controls"), b.group, d);
}

static pbStatus read_builtin(pbTaskReader *r, const json_t *o, const pbDeformBody *body, Elements *e, pbDeformable *d) {
  const char *name = NULL;
  const pbMaterial *m;
  unsigned wanted;
  PB_TRY(pbTaskReader_Text(r, o, "energy", &name));

  if (json_object_get(o, "mass")) return pbTaskReader_FailAt(r, "mass", "is for formulas; \"%.60s\" is known", name);

  // the elements decide which of the family it is
  PB_TRY(kinds_of(r, name, &wanted));
  PB_TRY(pbTask_SelectElements(r, body, json_object_get(o, "on"), wanted, 0, &e->cell, &e->vertex, &e->count));

  // from points of the body to those of all
  for (int i = 0; i < e->count * pbTask_CellNodes(e->cell); i++) e->vertex[i] += body->first;

  pbStatus status = pbMaterial_Get(r->ctx, name, e->cell, &m);
  return status == pb_ok ? add_builtin(r, o, body, m, e, d) : pbTaskReader_FailAgain(r, status);
}

// ---- the list -------------------------------------------------------------------------------------------------------
static pbStatus read_energy(pbTaskReader *r, const json_t *o, const pbDeformBody *body, Elements *e, pbDeformable *d) {
  static const char *const keys[] = {"energy", "formula", "name", "on", "parameters", "mass", "controls", "comment", NULL};
  PB_TRY(pbTaskReader_Keys(r, o, keys));
  if (!json_object_get(o, "formula") == !json_object_get(o, "energy"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"energy\" and \"formula\"");
  return json_object_get(o, "energy") ? read_builtin(r, o, body, e, d) : read_formula(r, o, body, e, d);
}

pbStatus pbTask_ReadEnergies(pbTaskReader *r, const json_t *list, const pbDeformBody *body, pbDeformable *d) {
  if (!list) return pb_ok;
  pbTaskReader_Enter(r, "energies");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of energies");

  for (size_t i = 0; i < json_array_size(list); i++) {
    Elements e = {0};
    pbTaskReader_EnterAt(r, i);
    pbStatus status = read_energy(r, json_array_get(list, i), body, &e, d);
    pbContext_Free(r->ctx, e.vertex);
    if (status != pb_ok) return status;
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

// ---- energies between bodies ----------------------------------------------------------------------------------------
static pbStatus named_points(pbTaskReader *r, const json_t *item, const pbDeformable *d, const pbPointSet **set) {
  const char *name = json_string_value(item);
  char hint[200];
  if (!name) return pbTaskReader_Fail(r, pb_bad_input, "expected the name of points (BODY or BODY_SET)");

  // names of bodies and of their sets
  pbSuggest near = pbSuggest_For(name);
  for (int i = 0; i < d->nset; i++) {
    *set = &d->sets[i];
    if (!strcmp(d->sets[i].name, name)) return pb_ok;
    pbSuggest_Offer(&near, d->sets[i].name);
  }
  return pbTaskReader_Fail(r, pb_bad_input, "there are no points '%.80s'%s", name, pbSuggest_Write(&near, hint, sizeof hint));
}

// The k-th points of all sets make the k-th element; a set of one point is in all of them.
static pbStatus read_between(pbTaskReader *r, const json_t *list, const pbDeformable *d, int *points, Elements *e) {
  const pbPointSet *sets[PB_ENERGY_POINTS];
  size_t n = json_array_size(list);
  pbTaskReader_Enter(r, "between");
  if (n < 1 || n > PB_ENERGY_POINTS) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of names of points");

  // the longest set gives the number of elements
  e->count = 1;
  for (size_t k = 0; k < n; k++) {
    pbTaskReader_EnterAt(r, k);
    PB_TRY(named_points(r, json_array_get(list, k), d, &sets[k]));
    if (e->count > 1 && sets[k]->count > 1 && sets[k]->count != e->count)
      return pbTaskReader_Fail(r, pb_bad_input, "'%.80s' are %d points; those before are %d", sets[k]->name, sets[k]->count,
                               e->count);
    e->count = sets[k]->count > 1 ? sets[k]->count : e->count;
    pbTaskReader_Leave(r);
  }

  *points = (int)n;
  e->vertex = pbContext_AllocArray(r->ctx, (size_t)e->count * n + 1, sizeof(int));
  if (!e->vertex) return no_memory(r);
  for (size_t i = 0; i < (size_t)e->count * n; i++) {
    const pbPointSet *set = sets[i % n];
    e->vertex[i] = set->points[set->count > 1 ? i / n : 0];
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}

static pbStatus join_by_formula(pbTaskReader *r, const json_t *o, int points, const Elements *e, pbDeformable *d) {
  const char *formula = NULL;
  PB_TRY(pbTaskReader_Text(r, o, "formula", &formula));
  if (!json_is_string(json_object_get(o, "name"))) return pbTaskReader_Fail(r, pb_bad_input, "\"name\" is missing");
  if (points_of(formula) != points)
    return pbTaskReader_FailAt(r, "formula", "it looks at %d points; \"between\" names %d", points_of(formula), points);

  Declared *p = pbContext_Alloc(r->ctx, sizeof *p);
  pbStatus status = p ? add_formula(r, o, NULL, formula, points, e, p, d) : no_memory(r);
  free_declared(r, p);
  return status;
}

static pbStatus join_by_builtin(pbTaskReader *r, const json_t *o, int points, const Elements *e, pbDeformable *d) {
  const char *name = NULL;
  const pbMaterial *m, *found = NULL;
  unsigned wanted;
  PB_TRY(pbTaskReader_Text(r, o, "energy", &name));
  PB_TRY(kinds_of(r, name, &wanted));

  // the first of the name that has as many points
  for (int i = 0; (m = pbMaterial_At(i)) && !found; i++) found = is_called(m, name) && m->def.points == points ? m : NULL;

  if (found) return add_builtin(r, o, NULL, found, e, d);
  return pbTaskReader_FailAt(r, "energy", "'%.60s' is none between %d points", name, points);
}

static pbStatus read_join(pbTaskReader *r, const json_t *o, Elements *e, pbDeformable *d) {
  static const char *const keys[] = {"between", "energy", "formula", "name", "parameters", "controls", "comment", NULL};
  int points = 0;
  PB_TRY(pbTaskReader_Keys(r, o, keys));
  if (!json_object_get(o, "formula") == !json_object_get(o, "energy"))
    return pbTaskReader_Fail(r, pb_bad_input, "expected one of \"energy\" and \"formula\"");

  PB_TRY(read_between(r, json_object_get(o, "between"), d, &points, e));
  return json_object_get(o, "energy") ? join_by_builtin(r, o, points, e, d) : join_by_formula(r, o, points, e, d);
}

pbStatus pbTask_ReadJoins(pbTaskReader *r, const json_t *list, pbDeformable *d) {
  if (!list) return pb_ok;
  pbTaskReader_Enter(r, "energies");
  if (!json_is_array(list)) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of energies");

  for (size_t i = 0; i < json_array_size(list); i++) {
    Elements e = {0};
    pbTaskReader_EnterAt(r, i);
    pbStatus status = read_join(r, json_array_get(list, i), &e, d);
    pbContext_Free(r->ctx, e.vertex);
    if (status != pb_ok) return status;
    pbTaskReader_Leave(r);
  }
  pbTaskReader_Leave(r);
  return pb_ok;
}
