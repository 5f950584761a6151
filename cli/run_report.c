// What is said of a run: failed steps, unconverged solves and gained energy on standard error, and "meta" of the files it writes.
// Tests: tests/oracle/test_task_run.py.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

pbStatus cliRun_GoOn(cliRun *run, const char *part, long done, long all) {
  cliProgress_Show(&run->progress, (double)done, (double)all, part);
  return cliSignals_Caught() ? pbContext_Fail(run->ctx, pb_interrupted, "interrupted") : pb_ok;
}

pbStatus cliRun_StepFailed(const cliRun *run, pbStatus status, long k) {
  const char *text = run->scratch ? pbScratch_Error(run->scratch) : "";
  return pbContext_Fail(run->ctx, status, "step %ld of %ld: %s", k, run->steps, *text ? text : pbStatus_Text(status));
}

pbStatus cliRun_CheckState(const cliRun *run, const double *x, long k) {
  // MuJoCo's mjMAXVAL: beyond it a state counts as lost
  static const double bound = 1e10;
  char name[160];
  for (int i = 0; i < run->nx; i++) {
    if (fabs(x[i]) <= bound) continue;
    return pbContext_Fail(
        run->ctx, pb_not_finite,
        "step %ld of %ld: %s became %g: the state grows beyond bounds (unstable motion; try a smaller time step or more damping)",
        k, run->steps, pbState_EntryName(run->model, i, name, sizeof name), x[i]);
  }
  return pb_ok;
}

// ---- the constraint solver -----------------------------------------------------------------------------------------

void cliRun_NoteResidual(cliRun *run, double residual, double condition, const char *row, long k) {
  // the first counts whatever it is
  if (run->worst_residual_step >= 0 && residual <= run->worst_residual) return;
  run->worst_residual = residual;
  run->worst_residual_step = k;
  run->worst_condition = condition;
  snprintf(run->worst_row, sizeof run->worst_row, "%s", row);
}

void cliRun_NoteSolve(cliRun *run, long k) {
  pbReport report = pbScratch_Report(run->scratch);

  // without constraints and deformables nothing was solved
  if (report.rows || report.deforms)
    cliRun_NoteResidual(run, report.residual, report.condition, pbScratch_WorstRow(run->scratch), k);
  run->unconverged += !report.converged;

  cliRun_NotePenetration(run, report.penetration, report.penetrating, k);

  run->gains += report.gains;
  if (!(report.gain > run->gain)) return;
  run->gain = report.gain;
  run->gain_step = k;
  memcpy(run->gaining, report.gaining, sizeof run->gaining);
}

void cliRun_NotePenetration(cliRun *run, double depth, const int geoms[2], long k) {
  if (!(depth > run->penetration)) return;
  run->penetration = depth;
  run->penetration_step = k;
  memcpy(run->penetrating, geoms, sizeof run->penetrating);
}

void cliRun_NoteCertificate(cliRun *run, const pbCertificate *c) {
  if (c->worst_residual_step >= 0) {
    run->unconverged = (long)c->unconverged;
    cliRun_NoteResidual(run, c->worst_residual, c->worst_condition, c->worst_row, c->worst_residual_step);
  }

  cliRun_NotePenetration(run, c->penetration, c->penetrating, c->penetration_step);
  run->gains = (long)c->gains;
  run->gain = c->gain;
  run->gain_step = c->gain_step;
  memcpy(run->gaining, c->gaining, sizeof run->gaining);
}

// What the convergence of a solve depends on: hard contact has neither that condition number nor those iterations.
static void solver_detail(const cliRun *run, char *text, size_t size) {
  pbContactSettings c = pbModel_ContactSettings(run->model);
  text[0] = 0;

  if (c.method == pb_contactSweeps) {
    snprintf(text, size, " (contact setting sweeps is %.0f; a larger cfm, set with erp, needs fewer)", c.sweeps);
    return;
  }
  if (c.method == pb_contactLcp || c.method == pb_contactCones) return;

  snprintf(text, size, " (condition number about %.0e; option iterations is %d)", run->worst_condition,
           cliModel_Integer(run->model, "iterations", 0));
}

// Newton's law of restitution constrains normal velocities only: coupled to friction, an impact can gain kinetic energy.
static void warn_energy(const cliRun *run) {
  if (!run->gains) return;

  bool impact = pbModel_ContactSettings(run->model).method == pb_contactImpact;
  const char *remedy = impact ? "contact setting restitution_law=capped prevents it"
                              : "less restitution reduces it, and contact method impact with restitution_law=capped prevents it";
  fprintf(cli_err,
          "pullback: warning: step %ld of %ld: the impact of geom %d '%s' and geom %d '%s' made %.3g J of kinetic energy, the "
          "worst of %ld such impacts; Newton's restitution with friction can do this; %s\n",
          run->gain_step, run->steps, run->gaining[0], pbModel_Name(run->model, pb_objGeom, run->gaining[0]), run->gaining[1],
          pbModel_Name(run->model, pb_objGeom, run->gaining[1]), run->gain, run->gains, remedy);
}

// The worst step is one of the deformables' minimizer, not of a constraint.
static bool minimizer_stopped(const cliRun *run) {
  return pbModel_PointCount(run->model) > 0 && !run->worst_row[0] && run->worst_condition == 0;
}

static void warn_minimizer(const cliRun *run) {
  fprintf(cli_err,
          "pullback: warning: step %ld of %ld: the minimizer of the deformables stopped where points still moved by %.1e of the "
          "scene's size, the worst of %ld steps that did not converge; results are off by at least as much, and gradients, which "
          "assume a minimum, may be wrong altogether (see the deformables' iterations, tolerance and approximate)\n",
          run->worst_residual_step, run->steps, run->worst_residual, run->unconverged);
}

// A file that ends Newton's method early moves otherwise in MuJoCo.
static void note_file(const cliRun *run) {
  static const char *const names[] = {"iterations", "ls_iterations"};
  if (run->app->args.text[opt_quiet]) return;

  for (int i = 0; i < 2; i++) {
    // what the file asks for, beside what is used
    char field[32];
    snprintf(field, sizeof field, "file_%s", names[i]);
    int asked = cliModel_Integer(run->model, field, 0), used = cliModel_Integer(run->model, names[i], 0);
    if (asked >= used) continue;

    // only less than what is done makes a difference
    fprintf(cli_err,
            "pullback: note: the file has %s=%d; the solver runs to full accuracy (--option %s=file: as the file says)\n",
            names[i], asked, names[i]);
  }
}

void cliRun_WarnSolver(const cliRun *run) {
  note_file(run);
  warn_energy(run);
  if (!run->unconverged) return;

  if (minimizer_stopped(run)) {
    warn_minimizer(run);
    return;
  }

  // Shares of contacts that hold one body come slowest of all, and move nothing.
  char detail[160];
  solver_detail(run, detail, sizeof detail);
  bool sweeps = pbModel_ContactSettings(run->model).method == pb_contactSweeps;
  fprintf(
      cli_err,
      "pullback: warning: step %ld of %ld: the constraint solver stopped at relative residual %.1e%s%s, the worst of %ld steps "
      "that did not converge; %s%s\n",
      run->worst_residual_step, run->steps, run->worst_residual, run->worst_row[0] ? " at the " : "", run->worst_row,
      run->unconverged,
      sweeps ? "forces are off by about as much, the motion by less where several contacts hold one body, and gradients, which "
               "assume converged sweeps, may be off by far more"
             : "results are off by about as much",
      detail);
}

// ---- results -------------------------------------------------------------------------------------------------------

static void meta_names(const cliRun *run, cliJson *j, const char *key, pbObject kind, const char *size) {
  int count = pbModel_Size(run->model, size);
  cliJson_OpenLine(j, key, '[');
  for (int i = 0; i < count; i++) {
    const char *name = pbModel_Name(run->model, kind, i);
    cliJson_Text(j, NULL, name ? name : "");
  }
  cliJson_Close(j, ']');
}

void cliRun_Contact(const cliRun *run, cliJson *j) {
  const char *name;
  char text[64];
  const char *end = "";
  double number;

  cliJson_Open(j, "contact", '{');
  for (int i = 0; pbModel_ContactSettingAt(run->model, i, &name, text, sizeof text); i++) {
    // settings are texts: those that are numbers are written as numbers
    if (cli_number(text, &end, &number) && !*end) cliJson_Number(j, name, number);
    else cliJson_Text(j, name, text);
  }
  cliJson_Close(j, '}');
}

int cliModel_Integer(const pbModel *model, const char *name, int row) {
  pbField f;
  bool known = pbModel_Field(model, name, &f) && f.integers && row >= 0 && row < f.rows;
  return known ? f.integers[row] : -1;
}

bool cli_consecutive(int count, const int *points) {
  for (int i = 1; i < count; i++) {
    if (points[i] != points[0] + i) return false;
  }
  return true;
}

static void point_set(const char *name, int count, const int *points, cliJson *j) {
  cliJson_OpenLine(j, NULL, '{');
  cliJson_Text(j, "name", name);
  cliJson_Integer(j, "points", count);

  // most sets are ranges
  if (count && cli_consecutive(count, points)) {
    cliJson_Integer(j, "first", points[0]);
  } else {
    cliJson_OpenLine(j, "indices", '[');
    for (int i = 0; i < count; i++) cliJson_Integer(j, NULL, points[i]);
    cliJson_Close(j, ']');
  }
  cliJson_Close(j, '}');
}

static void scenery_points(const pbModel *m, const char *key, bool geom, cliJson *j) {
  pbScenery s;

  cliJson_Open(j, key, '[');
  for (int i = 0; pbModel_SceneryAt(m, i, &s); i++) {
    if (s.geom != geom) continue;
    cliJson_OpenLine(j, NULL, '{');
    cliJson_Text(j, "name", s.name);
    cliJson_Integer(j, "points", s.count);
    cliJson_Integer(j, "first", s.first);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
}

void cliRun_PointSets(const cliRun *run, cliJson *j) {
  const char *name;

  cliJson_Open(j, "sets", '[');
  for (int i = 0; (name = pbModel_PointSetName(run->model, i)) != NULL; i++) {
    int count = 0;
    const int *points = pbModel_PointSet(run->model, name, &count);
    point_set(name, count, points, j);
  }
  cliJson_Close(j, ']');

  // points of rigid obstacles follow those of bodies
  scenery_points(run->model, "geoms", true, j);
  scenery_points(run->model, "planes", false, j);
}

static void meta_deformables(const cliRun *run, cliJson *j) {
  cliJson_Open(j, "deformables", '{');
  cliJson_Integer(j, "points", pbModel_PointCount(run->model));
  cliRun_PointSets(run, j);
  cliJson_Close(j, '}');
}

void cli_energy_made(cliJson *j, long impacts, double joules, long step, const int geoms[2]) {
  cliJson_Open(j, "energy_made", '{');
  cliJson_Integer(j, "impacts", impacts);
  cliJson_Number(j, "joules", joules);
  cliJson_Integer(j, "step", step);
  cliJson_OpenLine(j, "geoms", '[');
  for (int i = 0; i < 2; i++) cliJson_Integer(j, NULL, geoms[i]);
  cliJson_Close(j, ']');
  cliJson_Close(j, '}');
}

static void meta_solver(const cliRun *run, cliJson *j) {
  cliJson_Open(j, "solver", '{');
  cliJson_Number(j, "worst_residual", run->worst_residual);
  cliJson_Integer(j, "step", run->worst_residual_step);
  cliJson_Integer(j, "unconverged", run->unconverged);
  cliJson_Text(j, "worst_row", run->worst_row);
  cliJson_Number(j, "worst_condition", run->worst_condition);
  cliJson_Close(j, '}');
}

static void meta_penetration(const cliRun *run, cliJson *j) {
  cliJson_Open(j, "penetration", '{');
  cliJson_Number(j, "depth", run->penetration);
  cliJson_Integer(j, "step", run->penetration_step);
  cliJson_OpenLine(j, "geoms", '[');
  for (int i = 0; i < 2; i++) cliJson_Integer(j, NULL, run->penetrating[i]);
  cliJson_Close(j, ']');
  cliJson_Close(j, '}');
}

static void meta_all_names(const cliRun *run, cliJson *j) {
  cliJson_Open(j, "names", '{');
  meta_names(run, j, "body", pb_objBody, "nbody");
  meta_names(run, j, "joint", pb_objJoint, "njnt");
  meta_names(run, j, "geom", pb_objGeom, "ngeom");
  meta_names(run, j, "site", pb_objSite, "nsite");
  meta_names(run, j, "actuator", pb_objActuator, "nu");
  meta_names(run, j, "sensor", pb_objSensor, "nsensor");
  cliJson_Close(j, '}');
}

void cliRun_Meta(const cliRun *run, cliJson *j) {
  // which run this is
  cliJson_Text(j, "program", "pullback");
  cliJson_Text(j, "version", pbVersion());
  cliJson_Text(j, "command", run->app->command->name);
  cliJson_Text(j, "model", run->model_path);
  if (run->task && pbTask_TrajectoryCount(run->task) > 1 && run->trajectories == 1)
    cliJson_Integer(j, "trajectory", run->trajectory);

  pbParam timestep;
  cliJson_Integer(j, "steps", run->steps);
  if (pbModel_Param(run->ctx, run->model, "timestep", &timestep) == pb_ok)
    cliJson_Number(j, "timestep", run->theta[timestep.offset]);

  // how well it went
  meta_solver(run, j);
  meta_penetration(run, j);
  if (run->gains) cli_energy_made(j, run->gains, run->gain, run->gain_step, run->gaining);

  cliJson_Text(j, "constants", run->recompute ? "recompute" : "keep");
  cliRun_Contact(run, j);

  // what the numbers mean
  cliJson_Open(j, "units", '{');
  cliJson_Text(j, "time", "s");
  cliJson_Text(j, "qpos", "m|rad|quaternion");
  cliJson_Text(j, "qvel", "m/s|rad/s");
  cliJson_Close(j, '}');

  meta_all_names(run, j);
  if (pbModel_PointCount(run->model)) meta_deformables(run, j);
}

pbStatus cliRun_AddMeta(pbArrays *set, FILE *stream, char **text) {
  bool bad = ferror(stream) != 0;
  if (fclose(stream) != 0) bad = true;

  // a memory stream fails for want of memory alone
  pbStatus status = bad ? pb_no_memory : pbArrays_AddText(set, "meta", *text);
  free(*text);
  *text = NULL;
  return status;
}

pbStatus cli_saveText(cliApp *app, const char *path, FILE *stream, char **text, const size_t *size) {
  bool bad = ferror(stream) != 0;
  if (fclose(stream) != 0) bad = true;

  cliSignals_Hold();
  pbStatus status = bad ? cli_noMemory(app->ctx) : pbFile_Write(app->ctx, path, *text, *size);
  cliSignals_Release();

  free(*text);
  *text = NULL;
  return status;
}

pbStatus cli_save(cliApp *app, const pbArrays *set) {
  cliSignals_Hold();
  pbStatus status = pbArrays_SaveNpz(set, app->args.text[opt_output], app->args.text[opt_compressed] != NULL);
  cliSignals_Release();
  return status;
}
