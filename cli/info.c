// pullback info: what a model holds, for people and as JSON.
// Tests: tests/oracle/test_cli.py.
#include <math.h>
#include <string.h>

#include "cli.h"

static const char *const size_names[] = {"nq",          "nv",    "nu",        "na",        "nbody",    "njnt",  "ngeom",
                                         "nsite",       "npair", "nexclude",  "neq",       "ntendon",  "nwrap", "nsensor",
                                         "nsensordata", "nkey",  "ncam",      "nlight",    "nnumeric", "ntext", "ntuple",
                                         "nmat",        "nmesh", "nmeshvert", "nmeshpoly", "nmocap"};
static const char *const joint_types[] = {"free", "ball", "slide", "hinge"};
static const char *const geom_types[] = {"plane", "hfield", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"};
static const char *const equality_types[] = {"connect", "weld", "joint", "tendon"};
static const char *const integrators[] = {"Euler", "RK4", "implicit", "implicitfast"};
static const char *const cones[] = {"pyramidal", "elliptic"};

enum { MOST_COLUMNS = 6 };
typedef struct Column {
  const char *label, *field;  // an integer field of one column
  const char *const *words;   // for its values, or NULL
  int word_count;
  pbObject names;  // the value is the id of such a thing (pb_objCount: a plain number)
} Column;
typedef struct Table {  // things of one kind with their addresses
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
     {{"actadr", "actuator_actadr", NULL, 0, pb_objCount}, {"actnum", "actuator_actnum", NULL, 0, pb_objCount}}},
    {"sensors",
     "nsensor",
     pb_objSensor,
     {{"type", "sensor_type", NULL, 0, pb_objCount},
      {"adr", "sensor_adr", NULL, 0, pb_objCount},
      {"dim", "sensor_dim", NULL, 0, pb_objCount}}},
    {"keyframes", "nkey", pb_objKeyframe, {{0}}},
};
enum { TABLE_COUNT = sizeof tables / sizeof *tables };

static const struct {  // reals, in JSON alone
  pbObject kind;
  const char *label, *field;
} numbers[] = {{pb_objBody, "mass", "body_mass"},
               {pb_objJoint, "axis", "jnt_axis"},
               {pb_objJoint, "range", "jnt_range"},
               {pb_objJoint, "actuatorfrcrange", "jnt_actfrcrange"},
               {pb_objEquality, "data", "eq_data"}};

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

static const char *option_word(const pbModel *model, const char *name, const char *const *words, int count) {
  pbField f;
  if (!pbModel_Field(model, name, &f) || !f.integers || f.integers[0] < 0 || f.integers[0] >= count) return NULL;
  return words[f.integers[0]];
}

// ---- deformables ---------------------------------------------------------------------------------------------------
// Total mass; NaN where the parameters give none.
static double total_mass(const cliRun *run) {
  size_t n = (size_t)pbModel_PointCount(run->model);
  double *mass = pbContext_Alloc(run->ctx, n * sizeof *mass), sum = 0;
  bool good = mass && pbModel_PointMasses(run->ctx, run->model, run->theta, mass) == pb_ok;
  if (good) {
    for (size_t i = 0; i < n; i++) sum += mass[i];
  }

  pbContext_Free(run->ctx, mass);
  return good ? sum : NAN;
}

static void json_deformables(const cliRun *run, cliJson *j) {
  pbDeformInfo info;
  pbDeformGroup g;
  if (!pbModel_DeformInfo(run->model, &info)) return;

  cliJson_Open(j, "deformables", '{');
  cliJson_Text(j, "scheme", pbScheme_Name(info.scheme));
  cliJson_Text(j, "method", pbDeformMinimizer_Name(info.method));
  cliJson_Integer(j, "points", info.points);
  cliJson_Integer(j, "points_that_move", info.moving);
  cliJson_Number(j, "mass", total_mass(run));
  cliRun_PointSets(run, j);

  cliJson_Open(j, "groups", '[');
  for (int i = 0; pbModel_DeformGroupAt(run->model, i, &g); i++) {
    cliJson_OpenLine(j, NULL, '{');
    cliJson_Text(j, "name", g.name);
    cliJson_Text(j, "energy", g.energy);
    cliJson_Bool(j, "gives_mass", g.mass);
    cliJson_Integer(j, "elements", g.count);
    cliJson_Integer(j, "points", g.points);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');

  // controls of deformables follow those of the actuators
  cliJson_OpenLine(j, "controls", '[');
  for (int i = run->nu - info.controls; i < run->nu; i++) cliJson_Text(j, NULL, pbModel_Name(run->model, pb_objActuator, i));
  cliJson_Close(j, ']');
  cliJson_Close(j, '}');
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

static void json_numbers(const pbModel *model, pbObject kind, int row, cliJson *j) {
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
    pbField f;

    // one number stands alone, several are a list
    if (numbers[k].kind != kind || !pbModel_Field(model, numbers[k].field, &f)) continue;
    if (f.cols == 1) cliJson_Number(j, numbers[k].label, f.reals[row]);
    else cliJson_Numbers(j, numbers[k].label, f.reals + (size_t)row * (size_t)f.cols, (size_t)f.cols);
  }
}

// What an equality ties: bodies, sites, joints or tendons; a second one that is not there is left out.
static void json_ends(const pbModel *model, int row, cliJson *j) {
  static const char *const labels[] = {"name1", "name2"}, *const fields[] = {"eq_obj1id", "eq_obj2id"};
  pbField type, objtype, id;

  // joints and tendons by the type, bodies and sites by what the file named
  if (!pbModel_Field(model, "eq_type", &type) || !pbModel_Field(model, "eq_objtype", &objtype)) return;

  pbObject kind = objtype.integers[row] == pb_refSite ? pb_objSite : pb_objBody;
  if (type.integers[row] == pb_eqJoint) kind = pb_objJoint;
  if (type.integers[row] == pb_eqTendon) kind = pb_objTendon;

  // the second may be the world or a constant
  for (int k = 0; k < 2; k++) {
    if (!pbModel_Field(model, fields[k], &id) || id.integers[row] < 0) continue;
    cliJson_Text(j, labels[k], name_of(model, kind, id.integers[row]));
  }
}

static void json_table(const pbModel *model, const Table *t, cliJson *j) {
  cliJson_Open(j, t->label, '[');
  for (int i = 0; i < pbModel_Size(model, t->size); i++) {
    cliJson_OpenLine(j, NULL, '{');
    cliJson_Integer(j, "id", i);
    cliJson_Text(j, "name", name_of(model, t->kind, i));

    for (int k = 0; k < column_count(t); k++) {
      int value = 0;

      if (!column_value(model, &t->columns[k], i, &value)) continue;

      // things are named by their ids, types by words
      const char *word = t->columns[k].words ? word_of(model, &t->columns[k], value) : NULL;
      if (word) cliJson_Text(j, t->columns[k].label, word);
      else cliJson_Integer(j, t->columns[k].label, value);
    }
    json_numbers(model, t->kind, i, j);
    if (t->kind == pb_objEquality) json_ends(model, i, j);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
}

static void json_params(const cliRun *run, cliJson *j) {
  cliJson_Open(j, "params", '[');
  for (int i = 0; i < pbModel_ParamCount(run->model); i++) {
    pbParam p = pbModel_ParamAt(run->model, i);
    size_t shape[2];
    int ndim = cliParam_Shape(&p, shape);

    cliJson_OpenLine(j, NULL, '{');
    cliJson_Text(j, "name", p.name);
    cliJson_OpenLine(j, "shape", '[');
    for (int d = 0; d < ndim; d++) cliJson_Integer(j, NULL, (long)shape[d]);
    cliJson_Close(j, ']');

    cliJson_Text(j, "unit", p.unit);
    cliJson_Text(j, "meaning", p.meaning);
    cliJson_Number(j, "lower", p.lower);
    cliJson_Number(j, "upper", p.upper);
    cliJson_Bool(j, "derived", p.derived);
    if (p.fixed) cliJson_Bool(j, "fixed", true);
    cliJson_Integer(j, "offset", (long)p.offset);
    cliJson_Numbers(j, "value", run->theta + p.offset, (size_t)p.rows * (size_t)p.cols);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
}

// What the policy sees, number by number: columns of its first weights.
static void json_policy(const pbModel *m, cliJson *j) {
  pbPolicyInfo info;
  char name[400];
  if (!pbModel_PolicyInfo(m, &info)) return;

  cliJson_Open(j, "policy", '{');
  cliJson_Text(j, "name", info.name);
  cliJson_Integer(j, "every", info.every);
  cliJson_Integer(j, "memory", info.memory);
  cliJson_Integer(j, "held", info.held);
  cliJson_Integer(j, "outputs", info.outputs);
  cliJson_Integer(j, "commands", info.commands);

  cliJson_Open(j, "observations", '[');
  for (int i = 0; i < info.observations; i++) cliJson_Text(j, NULL, pbModel_ObservationName(m, i, name, sizeof name));
  cliJson_Close(j, ']');
  cliJson_Close(j, '}');
}

static double real_field(const pbModel *m, const char *name) {
  pbField f;

  // one number, or none of that name
  return pbModel_Field(m, name, &f) && f.reals ? f.reals[0] : NAN;
}

// What the file says of the solver, which counts on request only.
static void json_file_options(const pbModel *m, cliJson *j) {
  cliJson_OpenLine(j, "file_options", '{');
  cliJson_Number(j, "tolerance", real_field(m, "file_tolerance"));
  cliJson_Integer(j, "iterations", cliModel_Integer(m, "file_iterations", 0));
  cliJson_Integer(j, "ls_iterations", cliModel_Integer(m, "file_ls_iterations", 0));
  cliJson_Close(j, '}');
}

// What reading the model left out or changed, a text each.
static void json_warnings(const cliRun *run, cliJson *j) {
  char line[2048];
  cliJson_Open(j, "warnings", '[');

  // lines, as the context keeps them
  for (const char *at = pbContext_Warnings(run->ctx); *at;) {
    size_t length = strcspn(at, "\n");
    snprintf(line, sizeof line, "%.*s", (int)length, at);
    cliJson_Text(j, NULL, line);
    at += length + (at[length] == '\n');
  }
  cliJson_Close(j, ']');
}

static void json_info(const cliRun *run) {
  const pbModel *m = run->model;
  cliJson j = {.out = cli_out};
  cliJson_Open(&j, NULL, '{');
  cliJson_Text(&j, "model", run->model_path);
  cliJson_Text(&j, "version", pbVersion());
  cliJson_Text(&j, "constants", run->recompute ? "recompute" : "keep");

  cliJson_OpenLine(&j, "sizes", '{');
  for (size_t i = 0; i < sizeof size_names / sizeof *size_names; i++)
    cliJson_Integer(&j, size_names[i], pbModel_Size(m, size_names[i]));
  cliJson_Close(&j, '}');

  const char *integrator = option_word(m, "integrator", integrators, 4), *cone = option_word(m, "cone", cones, 2);
  cliJson_OpenLine(&j, "options", '{');
  if (integrator) cliJson_Text(&j, "integrator", integrator);
  if (cone) cliJson_Text(&j, "cone", cone);
  cliJson_Integer(&j, "noslip_iterations", cliModel_Integer(m, "noslip_iterations", 0));
  cliJson_Close(&j, '}');
  json_file_options(m, &j);
  cliRun_Contact(run, &j);

  // where each field stands in the state vector
  cliJson_Open(&j, "state", '[');
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    cliJson_OpenLine(&j, NULL, '{');
    cliJson_Text(&j, "name", f.name);
    cliJson_Integer(&j, "offset", f.offset);
    cliJson_Integer(&j, "size", f.size);
    cliJson_Close(&j, '}');
  }
  cliJson_Close(&j, ']');

  for (int i = 0; i < TABLE_COUNT; i++) json_table(m, &tables[i], &j);
  json_warnings(run, &j);
  json_deformables(run, &j);
  json_policy(m, &j);
  json_params(run, &j);
  cliJson_Close(&j, '}');
}

// ---- text ----------------------------------------------------------------------------------------------------------

// Names come from files: nothing in them may steer a terminal.
static void put_name(const char *name, int width) {
  int n = 0;
  for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
    fputc(*c < 32 || *c == 127 ? '?' : *c, cli_out);
    n += (*c & 0xC0) != 0x80;  // bytes that continue a UTF-8 character take no column
  }

  for (; n < width; n++) fputc(' ', cli_out);
}

static void text_table(const pbModel *model, const Table *t) {
  int count = pbModel_Size(model, t->size), columns = column_count(t);
  if (count < 1) return;
  fprintf(cli_out, "\n%s\n   id  %-24s", t->label, "name");
  for (int k = 0; k < columns; k++) fprintf(cli_out, "  %-10s", t->columns[k].label);
  fputc('\n', cli_out);

  for (int i = 0; i < count; i++) {
    fprintf(cli_out, "  %3d  ", i);
    put_name(name_of(model, t->kind, i), 24);

    for (int k = 0; k < columns; k++) {
      int value = 0;
      char text[16] = "";
      bool known = column_value(model, &t->columns[k], i, &value);

      const char *word = known ? word_of(model, &t->columns[k], value) : NULL;
      if (known && !word) snprintf(text, sizeof text, "%d", value);
      fprintf(cli_out, "  ");
      put_name(word ? word : text, 10);
    }
    fputc('\n', cli_out);
  }
}

static void bound_text(double value, char *text, size_t size) {
  if (isfinite(value)) snprintf(text, size, "%.4g", value);
  else snprintf(text, size, "%s", value < 0 ? "-inf" : "inf");
}

static void text_params(const cliRun *run) {
  fprintf(cli_out, "\nparameters\n  %-22s  %-12s  %-18s  %-22s\n", "name", "shape", "unit", "bounds");
  for (int i = 0; i < pbModel_ParamCount(run->model); i++) {
    pbParam p = pbModel_ParamAt(run->model, i);

    // a field that this model has nothing of
    if (!p.rows || !p.cols) continue;

    // shape, unit, bounds
    size_t shape[2];
    char text[64], lower[24], upper[24];

    pbArray_ShapeText(cliParam_Shape(&p, shape), shape, text, sizeof text);
    bound_text(p.lower, lower, sizeof lower);
    bound_text(p.upper, upper, sizeof upper);
    const char *kind = p.fixed ? "  fixed" : "";
    if (p.derived) kind = "  derived";
    fprintf(cli_out, "  %-22s  %-12s  %-18s  [%s, %s]%s", p.name, text, *p.unit ? p.unit : "-", lower, upper, kind);

    // short values only
    if (p.rows == 1 && p.cols <= 3) {
      fprintf(cli_out, "  =");
      for (int k = 0; k < p.cols; k++) fprintf(cli_out, " %.10g", run->theta[p.offset + (size_t)k]);
    }
    fputc('\n', cli_out);
  }
}

// How many points a set has, and, where they follow each other, the rows of the first and the last.
static void put_rows(int count, int first, bool consecutive) {
  if (consecutive && count) fprintf(cli_out, "%-6d  %d to %d\n", count, first, first + count - 1);
  else fprintf(cli_out, "%d\n", count);
}

static void text_deformables(const cliRun *run) {
  const pbModel *m = run->model;
  pbDeformInfo info;
  pbDeformGroup g;
  pbScenery s;
  const char *name;
  if (!pbModel_DeformInfo(m, &info)) return;

  fprintf(cli_out,
          "\ndeformables\n  %d points, %d of them move, %.6g kg; scheme %s by %s\n  points                    number  rows\n",
          info.points, info.moving, total_mass(run), pbScheme_Name(info.scheme), pbDeformMinimizer_Name(info.method));

  // points of bodies and sets, then of geoms and planes that deformables meet
  for (int i = 0; (name = pbModel_PointSetName(m, i)) != NULL; i++) {
    int count = 0;
    const int *points = pbModel_PointSet(m, name, &count);
    fprintf(cli_out, "    ");
    put_name(name, 24);
    put_rows(count, count ? points[0] : 0, cli_consecutive(count, points));
  }

  for (int i = 0; pbModel_SceneryAt(m, i, &s); i++) {
    fprintf(cli_out, "    ");
    put_name(*s.name ? s.name : "(plane)", 24);
    put_rows(s.count, s.first, true);
  }

  fprintf(cli_out, "  elements                  number  points  energy\n");
  for (int i = 0; pbModel_DeformGroupAt(m, i, &g); i++) {
    fprintf(cli_out, "    ");
    put_name(g.name, 24);
    fprintf(cli_out, "%-6d  %-6d  ", g.count, g.points);
    put_name(g.energy, 0);
    fprintf(cli_out, "%s\n", g.mass ? " (mass)" : "");
  }
}

static void text_policy(const pbModel *m) {
  enum { most_shown = 100 };  // of points there may be thousands; JSON has them all
  pbPolicyInfo info;
  char name[400];
  if (!pbModel_PolicyInfo(m, &info)) return;

  fprintf(cli_out, "\npolicy\n  ");
  put_name(info.name, 0);
  fprintf(cli_out, "  decides every %d steps  outputs %d  memory %d  commands %d\n", info.every, info.outputs, info.memory,
          info.commands);
  for (int i = 0; i < info.observations && i < most_shown; i++) {
    fprintf(cli_out, "  sees %4d  ", i);
    put_name(pbModel_ObservationName(m, i, name, sizeof name), 0);
    fputc('\n', cli_out);
  }
  if (info.observations > most_shown) fprintf(cli_out, "  and %d more\n", info.observations - most_shown);
}

// Sweeps against slip, and what the file says of Newton's method.
static void text_solver(const pbModel *m) {
  int noslip = cliModel_Integer(m, "noslip_iterations", 0);
  if (noslip) fprintf(cli_out, "  noslip_iterations %d  noslip_tolerance %.4g", noslip, real_field(m, "noslip_tolerance"));

  // the file's own are told only
  fprintf(cli_out, "\n  of the file, used on request (--option iterations=file): tolerance %.4g  iterations %d  ls_iterations %d",
          real_field(m, "file_tolerance"), cliModel_Integer(m, "file_iterations", 0),
          cliModel_Integer(m, "file_ls_iterations", 0));
}

static void text_info(const cliRun *run) {
  const pbModel *m = run->model;
  put_name(run->model_path, 0);
  fprintf(cli_out, "\n\nsizes\n ");
  for (size_t i = 0; i < sizeof size_names / sizeof *size_names; i++) {
    int count = pbModel_Size(m, size_names[i]);
    if (count > 0) fprintf(cli_out, " %s %d", size_names[i], count);
  }

  const char *integrator = option_word(m, "integrator", integrators, 4), *cone = option_word(m, "cone", cones, 2);
  if (integrator && cone) fprintf(cli_out, "\n\noptions\n  integrator %s  cone %s", integrator, cone);
  text_solver(m);

  fprintf(cli_out, "\n\nstate\n");
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    fprintf(cli_out, "  %-16s  from %d, %d numbers\n", f.name, f.offset, f.size);
  }

  for (int i = 0; i < TABLE_COUNT; i++) text_table(m, &tables[i]);
  text_deformables(run);
  text_policy(m);
  text_params(run);
}

pbStatus cliInfo_Run(cliApp *app) {
  cliRun run = {0};
  pbStatus status = cliRun_Model(app, &run);
  if (status == pb_ok && app->args.text[opt_json]) json_info(&run);
  else if (status == pb_ok) text_info(&run);
  cliRun_End(&run);
  return status;
}
