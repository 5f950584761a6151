// All compiled fields, and all quantities of one forward evaluation, as arrays. For tests and for looking inside.
// Tests: tests/unit/test_describe.c, tests/oracle/test_cli.py, tests/python/test_commands.py.
#include <string.h>

#include <pullback/describe.h>

typedef struct Inspected {
  const pbModel *model;
  const double *theta, *x;
  const pbScratch *scratch;
} Inspected;

static bool ends_in(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && strcmp(text + n - m, suffix) == 0;
}

// The shape that MuJoCo's Python gives the field; returns the number of dimensions.
static int field_shape(const pbModel *model, const pbField *f, size_t shape[2]) {
  pbParam param;

  // one column is a dimension of its own where another model has more
  bool varies = ends_in(f->name, "_user") || (strncmp(f->name, "key_", 4) == 0 && strcmp(f->name, "key_time") != 0);

  shape[0] = (size_t)f->rows;
  shape[1] = (size_t)f->cols;

  // an option has one row, which is no dimension
  if (pbModel_Param(NULL, model, f->name, &param) == pb_ok && param.option) {
    shape[0] = shape[1];
    return f->cols == 1 ? 0 : 1;
  }

  return f->cols == 1 && !varies ? 1 : 2;
}

static pbStatus add_fields(const Inspected *in, pbArrays *set) {
  pbField f;
  for (int i = 0; pbModel_FieldAt(in->model, i, &f); i++) {
    char name[160];
    size_t shape[2];
    int ndim = field_shape(in->model, &f, shape);

    snprintf(name, sizeof name, "model/%s", f.name);
    if (f.integers) {
      PB_TRY(pbArrays_AddInts(set, name, ndim, shape, f.integers, NULL));
    } else {
      PB_TRY(pbArrays_AddReals(set, name, ndim, shape, f.reals, NULL));
    }
  }

  // the parameters as the run has them: with --param and --constants
  for (int i = 0; i < pbModel_ParamCount(in->model); i++) {
    pbParam p = pbModel_ParamAt(in->model, i);
    char name[160];
    size_t shape[2];
    snprintf(name, sizeof name, "param/%s", p.name);
    PB_TRY(pbArrays_AddReals(set, name, pbParam_Shape(&p, shape), shape, in->theta + p.offset, NULL));
  }
  return pb_ok;
}

static pbStatus add_quantities(const Inspected *in, pbArrays *set) {
  // clang-format off
  static const char *const names[] = {
      // kinematics
      "xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat",
      "subtree_com", "cvel",
      // dynamics
      "M", "qfrc_bias", "qfrc_passive", "qfrc_actuator", "qfrc_smooth", "qacc_smooth", "qacc", "qfrc_constraint",
      "ten_length", "ten_velocity", "actuator_length", "actuator_velocity", "actuator_force", "act_dot",
      // contacts and constraints
      "contact_dist", "contact_pos", "contact_frame", "contact_geom", "contact_force", "contact_dim", "contact_friction",
      "contact_includemargin", "contact_solref", "contact_solimp",
      "efc_J", "efc_pos", "efc_margin", "efc_aref", "efc_R", "efc_D", "efc_vel", "efc_force", "efc_diagApprox", "efc_type",
      "efc_frictionloss", "efc_KBIP",
      "sensordata", "sensor_look"};
  // clang-format on

  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const double *data = NULL;
    int rows = 0, cols = 0;
    if (!pbScratch_Field(in->scratch, names[i], &data, &rows, &cols)) continue;

    // matrices stay so where they happen to have one column
    bool flat = cols == 1 && strcmp(names[i], "efc_J") != 0 && strcmp(names[i], "M") != 0;
    PB_TRY(pbArrays_AddReals(set, names[i], flat ? 1 : 2, (size_t[]){(size_t)rows, (size_t)cols}, data, NULL));
  }
  return pb_ok;
}

static pbStatus add_state(const Inspected *in, pbArrays *set) {
  for (int i = 0; i < pbModel_StateFieldCount(in->model); i++) {
    pbStateField f = pbModel_StateFieldAt(in->model, i);
    PB_TRY(pbArrays_AddReals(set, f.name, 1, (size_t[]){(size_t)f.size}, in->x + f.offset, NULL));
  }

  pbReport report = pbScratch_Report(in->scratch);
  const struct {
    const char *name;
    double value;
  } figures[] = {{"ncon", report.contacts},
                 {"nefc", report.rows},
                 {"solver_niter", report.iterations},
                 {"solver_residual", report.residual}};

  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
    PB_TRY(pbArrays_AddReals(set, figures[i].name, 0, NULL, &figures[i].value, NULL));
  }
  return pb_ok;
}

static pbStatus add_all(const Inspected *in, pbArrays *set) {
  PB_TRY(add_fields(in, set));
  PB_TRY(add_state(in, set));
  return add_quantities(in, set);
}

static pbStatus inspect(pbContext *ctx, const Inspected *in, const pbInput *input, pbScratch *scratch, pbArrays *set) {
  size_t width = (size_t)pbModel_Size(in->model, "nsensordata");
  double *sensordata = pbContext_Alloc(ctx, width * sizeof *sensordata);
  if (!sensordata) return pbContext_Fail(ctx, pb_no_memory, "out of memory");

  pbStatus status;
  do status = pbStep_Observe(in->model, in->theta, in->x, input, scratch, sensordata);
  while (pbScratch_Grow(scratch, &status));

  if (status != pb_ok) {
    const char *text = pbScratch_Error(scratch);
    status = pbContext_Fail(ctx, status, "step 0 of 1: %s", *text ? text : pbStatus_Text(status));
  } else {
    status = pbScratch_Gather(scratch);
    status = status == pb_ok ? add_all(in, set) : pbContext_Fail(ctx, status, "out of memory");
  }

  // a model without sensors has an empty array
  if (status == pb_ok && !pbArrays_Find(set, "sensordata"))
    status = pbArrays_AddReals(set, "sensordata", 1, (size_t[]){width}, sensordata, NULL);
  pbContext_Free(ctx, sensordata);
  return status;
}

pbStatus pbModel_Inspect(pbContext *ctx, const pbModel *model, const double *theta, const double *x, const pbInput *input,
                         pbArrays *set) {
  pbScratch *scratch;
  PB_TRY(pbScratch_Create(ctx, model, NULL, &scratch));
  pbStatus status = inspect(ctx, &(Inspected){model, theta, x, scratch}, input, scratch, set);
  pbScratch_Destroy(scratch);
  return status;
}
