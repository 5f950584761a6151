// What a model holds, as values of JSON: sizes, options, the state, things of every kind, deformables, policy, parameters.
// Tests: tests/unit/test_describe.c, tests/oracle/test_cli.py, tests/python/test_commands.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/contact.h>
#include <pullback/deform.h>
#include <pullback/describe.h>
#include <pullback/enums.h>
#include <pullback/equalities.h>
#include <pullback/policy.h>

#include "base/text.h"

static const char *const size_names[] = {"nq",          "nv",    "nu",        "na",        "nbody",    "njnt",    "ngeom",
                                         "nsite",       "npair", "nexclude",  "neq",       "ntendon",  "nwrap",   "nsensor",
                                         "nsensordata", "nkey",  "ncam",      "nlight",    "nnumeric", "ntext",   "ntuple",
                                         "nmat",        "nmesh", "nmeshvert", "nmeshpoly", "nmocap",   "nhistory"};
static const char *const joint_types[] = {"free", "ball", "slide", "hinge"};
static const char *const geom_types[] = {"plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"};
static const char *const equality_types[PB_EQUALITY_TYPES] = {
#define X(name, value, word, ...) [value] = word,
    PB_EQUALITY_TABLE(X)
#undef X
};
static const char *const integrators[] = {"Euler", "RK4", "implicit", "implicitfast"};
static const char *const cones[] = {"pyramidal", "elliptic"};

enum { MOST_COLUMNS = 6 };
typedef struct Column {
  const char *label, *field;  // an integer field of one column
  const char *const *words;   // for its values, or NULL
  int word_count;
  pbObject names;  // the value is the id of such a thing (pb_objCount: a plain number)
} Column;
typedef struct Table {
  const char *label, *size;
  pbObject kind;
  Column columns[MOST_COLUMNS];
} Table;

#define PB_WORDS(list) list, sizeof list / sizeof *list
static const Table tables[] = {
    {"bodies",
     "nbody",
     pb_objBody,
     {{"parent", "body_parentid", NULL, 0, pb_objBody},
      {"jntadr", "body_jntadr", NULL, 0, pb_objCount},
      {"jntnum", "body_jntnum", NULL, 0, pb_objCount},
      {"dofadr", "body_dofadr", NULL, 0, pb_objCount},
      {"dofnum", "body_dofnum", NULL, 0, pb_objCount}}},
    {"joints",
     "njnt",
     pb_objJoint,
     {{"type", "jnt_type", PB_WORDS(joint_types), pb_objCount},
      {"body", "jnt_bodyid", NULL, 0, pb_objBody},
      {"qposadr", "jnt_qposadr", NULL, 0, pb_objCount},
      {"dofadr", "jnt_dofadr", NULL, 0, pb_objCount},
      {"limited", "jnt_limited", NULL, 0, pb_objCount}}},
    {"geoms",
     "ngeom",
     pb_objGeom,
     {{"type", "geom_type", PB_WORDS(geom_types), pb_objCount},
      {"body", "geom_bodyid", NULL, 0, pb_objBody},
      {"mesh", "geom_dataid", NULL, 0, pb_objMesh},
      {"hfield", "geom_dataid", NULL, 0, pb_objHfield}}},
    {"meshes",
     "nmesh",
     pb_objMesh,
     {{"vertadr", "mesh_vertadr", NULL, 0, pb_objCount},
      {"vertnum", "mesh_vertnum", NULL, 0, pb_objCount},
      {"polynum", "mesh_polynum", NULL, 0, pb_objCount}}},
    {"hfields",
     "nhfield",
     pb_objHfield,
     {{"adr", "hfield_adr", NULL, 0, pb_objCount},
      {"nrow", "hfield_nrow", NULL, 0, pb_objCount},
      {"ncol", "hfield_ncol", NULL, 0, pb_objCount}}},
    {"sites", "nsite", pb_objSite, {{"body", "site_bodyid", NULL, 0, pb_objBody}}},
    {"equalities", "neq", pb_objEquality, {{"type", "eq_type", PB_WORDS(equality_types), pb_objCount}}},
    {"tendons",
     "ntendon",
     pb_objTendon,
     {{"adr", "tendon_adr", NULL, 0, pb_objCount}, {"num", "tendon_num", NULL, 0, pb_objCount}}},
    {"actuators",
     "nu",
     pb_objActuator,
     {{"actadr", "actuator_actadr", NULL, 0, pb_objCount},
      {"actnum", "actuator_actnum", NULL, 0, pb_objCount},
      {"historyadr", "actuator_historyadr", NULL, 0, pb_objCount}}},
    {"sensors",
     "nsensor",
     pb_objSensor,
     {{"type", "sensor_type", NULL, 0, pb_objCount},
      {"adr", "sensor_adr", NULL, 0, pb_objCount},
      {"dim", "sensor_dim", NULL, 0, pb_objCount},
      {"historyadr", "sensor_historyadr", NULL, 0, pb_objCount}}},
    {"keyframes", "nkey", pb_objKeyframe, {{0}}},
};
enum { TABLE_COUNT = sizeof tables / sizeof *tables };

static const struct {  // reals, in JSON alone
  pbObject kind;
  const char *label, *field;
} numbers[] = {{pb_objBody, "mass", "body_mass"},      {pb_objJoint, "axis", "jnt_axis"},
               {pb_objJoint, "range", "jnt_range"},    {pb_objJoint, "actuatorfrcrange", "jnt_actfrcrange"},
               {pb_objEquality, "data", "eq_data"},    {pb_objActuator, "delay", "actuator_delay"},
               {pb_objSensor, "delay", "sensor_delay"}};

static const char *name_of(const pbModel *model, pbObject kind, int id) {
  const char *name = pbModel_Name(model, kind, id);
  return name ? name : "";
}

// Value of a column as a word where it has one, else NULL.
static const char *word_of(const pbModel *model, const Column *c, int value) {
  if (c->words && value >= 0 && value < c->word_count) return c->words[value];
  if (c->names != pb_objCount && value >= 0) {
    const char *name = name_of(model, c->names, value);
    return *name ? name : NULL;
  }
  return NULL;
}

static int column_count(const Table *t) {
  int n = 0;
  while (n < MOST_COLUMNS && t->columns[n].field) n++;
  return n;
}

static bool column_value(const pbModel *model, const Column *c, int row, int *value) {
  pbField f;
  if (!pbModel_Field(model, c->field, &f) || !f.integers || row >= f.rows) return false;
  *value = f.integers[row * f.cols];

  // Data of a geom are those of a height field, or of a mesh.
  pbField type;
  if (strcmp(c->field, "geom_dataid") != 0) return true;
  bool hfield = pbModel_Field(model, "geom_type", &type) && type.integers && type.integers[row] == pb_geomHfield;
  if (hfield != (c->names == pb_objHfield)) *value = -1;
  return true;
}

const char *pbModel_SizeName(int index) {
  return index >= 0 && index < (int)(sizeof size_names / sizeof *size_names) ? size_names[index] : NULL;
}

bool pbModel_TableAt(const pbModel *model, int index, pbTable *table) {
  if (index < 0 || index >= TABLE_COUNT) return false;
  const Table *t = &tables[index];
  *table = (pbTable){.label = t->label, .kind = t->kind, .rows = pbModel_Size(model, t->size), .columns = column_count(t)};
  return true;
}

pbTableCell pbModel_TableCell(const pbModel *model, int table, int row, int column) {
  const Column *c = &tables[table].columns[column];
  pbTableCell cell = {.label = c->label};
  cell.known = row >= 0 && column_value(model, c, row, &cell.value);
  if (cell.known) cell.word = word_of(model, c, cell.value);
  return cell;
}

const char *pbModel_OptionWord(const pbModel *model, const char *option) {
  static const struct {
    const char *name;
    const char *const *words;
    int count;
  } table[] = {{"integrator", integrators, 4}, {"cone", cones, 2}};
  pbField f;

  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].name, option) != 0 || !pbModel_Field(model, option, &f) || !f.integers) continue;
    if (f.integers[0] >= 0 && f.integers[0] < table[i].count) return table[i].words[f.integers[0]];
  }
  return NULL;
}

int pbParam_Shape(const pbParam *param, size_t shape[2]) {
  int n = 0;
  if (!param->option) shape[n++] = (size_t)param->rows;
  if (param->cols != 1) shape[n++] = (size_t)param->cols;
  return n;
}

// ---- deformables ---------------------------------------------------------------------------------------------------
double pbModel_PointMass(pbContext *ctx, const pbModel *model, const double *theta) {
  size_t n = (size_t)pbModel_PointCount(model);
  double *mass = pbContext_Alloc(ctx, n * sizeof *mass), sum = 0;
  bool good = mass && pbModel_PointMasses(ctx, model, theta, mass) == pb_ok;
  if (good) {
    for (size_t i = 0; i < n; i++) sum += mass[i];
  }

  pbContext_Free(ctx, mass);
  return good ? sum : NAN;
}

static bool is_range(int count, const int *points) {
  for (int i = 1; i < count; i++) {
    if (points[i] != points[0] + i) return false;
  }
  return true;
}

static void point_set(const char *name, int count, const int *points, pbJson *j) {
  pbJson_OpenLine(j, NULL, '{');
  pbJson_Text(j, "name", name);
  pbJson_Integer(j, "points", count);

  // most sets are ranges
  if (count && is_range(count, points)) {
    pbJson_Integer(j, "first", points[0]);
  } else {
    pbJson_OpenLine(j, "indices", '[');
    for (int i = 0; i < count; i++) pbJson_Integer(j, NULL, points[i]);
    pbJson_Close(j, ']');
  }
  pbJson_Close(j, '}');
}

static void scenery_points(const pbModel *m, const char *key, bool geom, pbJson *j) {
  pbScenery s;

  pbJson_Open(j, key, '[');
  for (int i = 0; pbModel_SceneryAt(m, i, &s); i++) {
    if (s.geom != geom) continue;
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", s.name);
    pbJson_Integer(j, "points", s.count);
    pbJson_Integer(j, "first", s.first);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}

void pbModel_DescribePoints(const pbModel *model, pbJson *j) {
  const char *name;

  pbJson_Open(j, "sets", '[');
  for (int i = 0; (name = pbModel_PointSetName(model, i)) != NULL; i++) {
    int count = 0;
    const int *points = pbModel_PointSet(model, name, &count);
    point_set(name, count, points, j);
  }
  pbJson_Close(j, ']');

  // points of rigid obstacles follow those of bodies
  scenery_points(model, "geoms", true, j);
  scenery_points(model, "planes", false, j);
}

static void json_deformables(pbContext *ctx, const pbDescription *d, pbJson *j) {
  pbDeformInfo info;
  pbDeformGroup g;
  if (!pbModel_DeformInfo(d->model, &info)) return;

  pbJson_Open(j, "deformables", '{');
  pbJson_Text(j, "scheme", pbScheme_Name(info.scheme));
  pbJson_Text(j, "method", pbDeformMinimizer_Name(info.method));
  pbJson_Integer(j, "points", info.points);
  pbJson_Integer(j, "points_that_move", info.moving);
  pbJson_Number(j, "mass", pbModel_PointMass(ctx, d->model, d->theta));
  pbModel_DescribePoints(d->model, j);

  pbJson_Open(j, "groups", '[');
  for (int i = 0; pbModel_DeformGroupAt(d->model, i, &g); i++) {
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", g.name);
    pbJson_Text(j, "energy", g.energy);
    pbJson_Bool(j, "gives_mass", g.mass);
    pbJson_Integer(j, "elements", g.count);
    pbJson_Integer(j, "points", g.points);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');

  // controls of deformables follow those of the actuators
  pbJson_OpenLine(j, "controls", '[');
  int nu = pbModel_Size(d->model, "nu");
  for (int i = nu - info.controls; i < nu; i++) pbJson_Text(j, NULL, pbModel_Name(d->model, pb_objActuator, i));
  pbJson_Close(j, ']');
  pbJson_Close(j, '}');
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

static void json_numbers(const pbModel *model, pbObject kind, int row, pbJson *j) {
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
    pbField f;

    // one number stands alone, several are a list
    if (numbers[k].kind != kind || !pbModel_Field(model, numbers[k].field, &f) || row >= f.rows) continue;
    if (f.cols == 1) pbJson_Number(j, numbers[k].label, f.reals[row]);
    else pbJson_Numbers(j, numbers[k].label, f.reals + (size_t)row * (size_t)f.cols, (size_t)f.cols);
  }
}

// By what an equality is of.
#define TIES_Points  pb_objBody
#define TIES_Poses   pb_objBody
#define TIES_Joints  pb_objJoint
#define TIES_Tendons pb_objTendon
static const pbObject ties[PB_EQUALITY_TYPES] = {
#define X(name, value, word, of, ...) [value] = TIES_##of,
    PB_EQUALITY_TABLE(X)
#undef X
};

// What an equality ties: bodies, sites, joints or tendons; a second one that is not there is left out.
static void json_ends(const pbModel *model, int row, pbJson *j) {
  static const char *const labels[] = {"name1", "name2"}, *const fields[] = {"eq_obj1id", "eq_obj2id"};
  pbField type, objtype, id;

  // joints and tendons by the type, bodies and sites by what the file named
  if (!pbModel_Field(model, "eq_type", &type) || !pbModel_Field(model, "eq_objtype", &objtype)) return;

  pbObject kind = objtype.integers[row] == pb_refSite ? pb_objSite : pb_objBody;
  if (ties[type.integers[row]] != pb_objBody) kind = ties[type.integers[row]];

  // the second may be the world or a constant
  for (int k = 0; k < 2; k++) {
    if (!pbModel_Field(model, fields[k], &id) || id.integers[row] < 0) continue;
    pbJson_Text(j, labels[k], name_of(model, kind, id.integers[row]));
  }
}

static void json_table(const pbModel *model, const Table *t, pbJson *j) {
  pbJson_Open(j, t->label, '[');
  for (int i = 0; i < pbModel_Size(model, t->size); i++) {
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Integer(j, "id", i);
    pbJson_Text(j, "name", name_of(model, t->kind, i));

    for (int k = 0; k < column_count(t); k++) {
      int value = 0;

      if (!column_value(model, &t->columns[k], i, &value)) continue;

      // things are named by their ids, types by words
      const char *word = t->columns[k].words ? word_of(model, &t->columns[k], value) : NULL;
      if (word) pbJson_Text(j, t->columns[k].label, word);
      else pbJson_Integer(j, t->columns[k].label, value);
    }
    json_numbers(model, t->kind, i, j);
    if (t->kind == pb_objEquality) json_ends(model, i, j);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}

static void json_params(const pbDescription *d, pbJson *j) {
  pbJson_Open(j, "params", '[');
  for (int i = 0; i < pbModel_ParamCount(d->model); i++) {
    pbParam p = pbModel_ParamAt(d->model, i);
    size_t shape[2];
    int ndim = pbParam_Shape(&p, shape);

    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", p.name);
    pbJson_OpenLine(j, "shape", '[');
    for (int k = 0; k < ndim; k++) pbJson_Integer(j, NULL, (long)shape[k]);
    pbJson_Close(j, ']');

    pbJson_Text(j, "unit", p.unit);
    pbJson_Text(j, "meaning", p.meaning);
    pbJson_Number(j, "lower", p.lower);
    pbJson_Number(j, "upper", p.upper);
    pbJson_Bool(j, "derived", p.derived);
    if (p.fixed) pbJson_Bool(j, "fixed", true);
    pbJson_Integer(j, "offset", (long)p.offset);
    pbJson_Numbers(j, "value", d->theta + p.offset, (size_t)p.rows * (size_t)p.cols);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');
}

// What the policy sees, number by number: columns of its first weights.
static void json_policy(const pbModel *m, pbJson *j) {
  pbPolicyInfo info;
  char name[400];
  if (!pbModel_PolicyInfo(m, &info)) return;

  pbJson_Open(j, "policy", '{');
  pbJson_Text(j, "name", info.name);
  pbJson_Integer(j, "every", info.every);
  pbJson_Integer(j, "memory", info.memory);
  pbJson_Integer(j, "held", info.held);
  pbJson_Integer(j, "outputs", info.outputs);
  pbJson_Integer(j, "commands", info.commands);

  pbJson_Open(j, "observations", '[');
  for (int i = 0; i < info.observations; i++) pbJson_Text(j, NULL, pbModel_ObservationName(m, i, name, sizeof name));
  pbJson_Close(j, ']');
  pbJson_Close(j, '}');
}

static double real_field(const pbModel *m, const char *name) {
  pbField f;

  // one number, or none of that name
  return pbModel_Field(m, name, &f) && f.reals ? f.reals[0] : NAN;
}

// What the file says of the solver, which counts on request only.
static void json_file_options(const pbModel *m, pbJson *j) {
  pbJson_OpenLine(j, "file_options", '{');
  pbJson_Number(j, "tolerance", real_field(m, "file_tolerance"));
  pbJson_Integer(j, "iterations", pbModel_Integer(m, "file_iterations", 0));
  pbJson_Integer(j, "ls_iterations", pbModel_Integer(m, "file_ls_iterations", 0));
  pbJson_Close(j, '}');
}

// What reading the model left out or changed, a text each.
static void json_warnings(const pbContext *ctx, pbJson *j) {
  char line[2048];
  pbJson_Open(j, "warnings", '[');

  // lines, as the context keeps them
  for (const char *at = pbContext_Warnings(ctx); *at;) {
    size_t length = strcspn(at, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, at);
    pbJson_Text(j, NULL, line);
    at += length + (at[length] == '\n');
  }
  pbJson_Close(j, ']');
}

void pbModel_DescribeContact(const pbModel *model, pbJson *j) {
  const char *name;
  char text[64];
  double number;

  pbJson_Open(j, "contact", '{');
  for (int i = 0; pbModel_ContactSettingAt(model, i, &name, text, sizeof text); i++) {
    // settings are texts: those that are numbers are written as numbers
    if (pbText_Real(text, &number) && isfinite(number)) pbJson_Number(j, name, number);
    else pbJson_Text(j, name, text);
  }
  pbJson_Close(j, '}');
}

void pbModel_Describe(pbContext *ctx, const pbDescription *d, pbJson *j) {
  const pbModel *m = d->model;
  pbJson_Open(j, NULL, '{');
  pbJson_Text(j, "model", d->path);
  pbJson_Text(j, "version", pbVersion());
  pbJson_Text(j, "constants", d->recompute ? "recompute" : "keep");

  pbJson_OpenLine(j, "sizes", '{');
  for (size_t i = 0; i < sizeof size_names / sizeof *size_names; i++)
    pbJson_Integer(j, size_names[i], pbModel_Size(m, size_names[i]));
  pbJson_Close(j, '}');

  const char *integrator = pbModel_OptionWord(m, "integrator"), *cone = pbModel_OptionWord(m, "cone");
  pbJson_OpenLine(j, "options", '{');
  if (integrator) pbJson_Text(j, "integrator", integrator);
  if (cone) pbJson_Text(j, "cone", cone);
  pbJson_Integer(j, "noslip_iterations", pbModel_Integer(m, "noslip_iterations", 0));
  pbJson_Close(j, '}');
  json_file_options(m, j);
  pbModel_DescribeContact(m, j);

  // where each field stands in the state vector
  pbJson_Open(j, "state", '[');
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    pbJson_OpenLine(j, NULL, '{');
    pbJson_Text(j, "name", f.name);
    pbJson_Integer(j, "offset", f.offset);
    pbJson_Integer(j, "size", f.size);
    pbJson_Close(j, '}');
  }
  pbJson_Close(j, ']');

  for (int i = 0; i < TABLE_COUNT; i++) json_table(m, &tables[i], j);
  json_warnings(ctx, j);
  json_deformables(ctx, d, j);
  json_policy(m, j);
  json_params(d, j);
  pbJson_Close(j, '}');
}
