// pullback inspect: all compiled fields, and all quantities of one forward evaluation. For tests and for looking inside.
// Tests: tests/oracle/test_cli.py.
#include <string.h>

#include "cli.h"

// The shape that MuJoCo's Python gives the field; returns the number of dimensions.
static int field_shape(const pbModel *model, const pbField *f, size_t shape[2]) {
  pbParam param;

  // one column is a dimension of its own where another model has more
  bool varies = cli_hasSuffix(f->name, "_user") || (strncmp(f->name, "key_", 4) == 0 && strcmp(f->name, "key_time") != 0);

  shape[0] = (size_t)f->rows;
  shape[1] = (size_t)f->cols;

  // an option has one row, which is no dimension
  if (pbModel_Param(NULL, model, f->name, &param) == pb_ok && param.option) {
    shape[0] = shape[1];
    return f->cols == 1 ? 0 : 1;
  }

  return f->cols == 1 && !varies ? 1 : 2;
}

static pbStatus add_fields(const cliRun *run, pbArrays *set) {
  pbField f;
  for (int i = 0; pbModel_FieldAt(run->model, i, &f); i++) {
    char name[160];
    size_t shape[2];
    int ndim = field_shape(run->model, &f, shape);

    snprintf(name, sizeof name, "model/%s", f.name);
    if (f.integers) {
      PB_TRY(pbArrays_AddInts(set, name, ndim, shape, f.integers, NULL));
    } else {
      PB_TRY(pbArrays_AddReals(set, name, ndim, shape, f.reals, NULL));
    }
  }

  // the parameters as the run has them: with --param and --constants
  for (int i = 0; i < pbModel_ParamCount(run->model); i++) {
    pbParam p = pbModel_ParamAt(run->model, i);
    char name[160];
    size_t shape[2];
    snprintf(name, sizeof name, "param/%s", p.name);
    PB_TRY(pbArrays_AddReals(set, name, cliParam_Shape(&p, shape), shape, run->theta + p.offset, NULL));
  }
  return pb_ok;
}

static pbStatus add_quantities(const cliRun *run, pbArrays *set) {
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
    if (!pbScratch_Field(run->scratch, names[i], &data, &rows, &cols)) continue;

    // matrices stay so where they happen to have one column
    bool flat = cols == 1 && strcmp(names[i], "efc_J") != 0 && strcmp(names[i], "M") != 0;
    PB_TRY(pbArrays_AddReals(set, names[i], flat ? 1 : 2, (size_t[]){(size_t)rows, (size_t)cols}, data, NULL));
  }
  return pb_ok;
}

static pbStatus add_state(const cliRun *run, pbArrays *set) {
  for (int i = 0; i < pbModel_StateFieldCount(run->model); i++) {
    pbStateField f = pbModel_StateFieldAt(run->model, i);
    PB_TRY(pbArrays_AddReals(set, f.name, 1, (size_t[]){(size_t)f.size}, run->x0 + f.offset, NULL));
  }

  pbReport report = pbScratch_Report(run->scratch);
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

static pbStatus write_inspection(cliRun *run, pbArrays *set, double *sensordata) {
  PB_TRY(pbScratch_Create(run->ctx, run->model, NULL, &run->scratch));
  pbInput input = cliRun_Input(run, 0);

  pbStatus status = pbStep_Observe(run->model, run->theta, run->x0, &input, run->scratch, sensordata);
  if (status != pb_ok) return cliRun_StepFailed(run, status, 0);

  pbScratch_Gather(run->scratch);

  PB_TRY(add_fields(run, set));
  PB_TRY(add_state(run, set));
  PB_TRY(add_quantities(run, set));

  // a model without sensors has an empty array
  if (!pbArrays_Find(set, "sensordata")) {
    PB_TRY(pbArrays_AddReals(set, "sensordata", 1, (size_t[]){(size_t)run->nsensordata}, sensordata, NULL));
  }
  return cli_save(run->app, set);
}

pbStatus cliInspect_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *set = NULL;
  double *sensordata = NULL;
  pbStatus status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);
  if (status == pb_ok) {
    sensordata = pbContext_Alloc(app->ctx, (size_t)run.nsensordata * sizeof *sensordata);
    if (!sensordata) status = cli_noMemory(app->ctx);
  }
  if (status == pb_ok) status = write_inspection(&run, set, sensordata);

  pbContext_Free(app->ctx, sensordata);
  pbArrays_Destroy(set);
  cliRun_End(&run);
  return status;
}
