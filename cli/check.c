// pullback check, the gradient doctor: a short rollout of the user's model, its derivatives tested from several sides, and
// in words what is wrong, where and why.
//   dot product   <w, J d> = <J' w, d> with jvp (complex step of the same source) and vjp (hand-written adjoint), every step
//   Jacobians     w A, w B, w C, w D of the full Jacobians = the pullback of w
//   differences   <w, J d> against Richardson differences of the model's own step; kinks are found, named and left out
//   slopes        states and sensors of a short rollout against one-sided and central differences, parameters at bounds and
//                 ties included
//   --at-start    from rest with controls 0: each control and each number of the state against one-sided slopes
//   Taylor        |f(x + e d) - f(x) - e <g, d>| falls as e^2 over the whole rollout, along the gradient and random directions
//   --mode        with event or smooth: <w, J d> = <J' w, d> of that gradient over the whole rollout
//   certificate   residual of the solver, growth of the costate, contact onsets and releases
// Tests: tests/oracle/test_check.py.
#include "check.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "slopes.h"

enum { MOST_HORIZON = 10000 };

const char cli_solverTest[] = "solver converged", cli_finiteTest[] = "derivatives exist";

// ---- vectors, tests, findings --------------------------------------------------------------------------------------

double *cliCheck_Vector(const cliCheck *d, cliCheckVector which) { return d->work + (size_t)which * d->width; }

double cli_dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

double cli_dotAlong(const double *bar, const double *direction, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    // what stands still counts as nothing, even where its derivative is not finite
    if (direction[i] != 0) sum += bar[i] * direction[i];
  }
  return sum;
}

double cli_norm(const double *a, size_t n) { return sqrt(cli_dot(a, a, n)); }

void cliCheck_DrawNormals(cliCheck *d, double *out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = pbRng_Normal(&d->rng);
}

cliCheckTest *cliCheck_AddTest(cliCheck *d, const char *name, double limit) {
  cliCheckTest *t = &d->tests[d->test_count < CLI_CHECK_TESTS - 1 ? d->test_count++ : CLI_CHECK_TESTS - 1];
  *t = (cliCheckTest){.limit = limit, .step = -1, .holds = true};
  snprintf(t->name, sizeof t->name, "%s", name);
  return t;
}

void cliCheck_AddFinding(cliCheck *d, const char *what, const char *where, const char *why, ...) {
  if (d->finding_count == CLI_CHECK_FINDINGS) return;
  cliCheckFinding *f = &d->findings[d->finding_count++];
  snprintf(f->what, sizeof f->what, "%s", what);
  snprintf(f->where, sizeof f->where, "%s", where);

  va_list args;
  va_start(args, why);
  vsnprintf(f->why, sizeof f->why, why, args);
  va_end(args);
}

void cliCheck_CountCase(cliCheckTest *t, double error, long step) {
  t->tried++;
  if (!(error <= t->limit)) t->holds = false;

  // the first case counts whatever it is, then the worst; NaN is worse than any number
  if (t->step >= 0 && !(error > t->worst) && !isnan(error)) return;
  t->worst = isnan(error) ? (double)NAN : error;  // without a sign
  t->step = step;
}

void cliCheck_LeaveOut(cliCheckTest *t, const char *name, const char *kink, long step) {
  size_t used = strlen(t->words);
  t->skipped++;
  if (used + 110 > sizeof t->words) return;

  char where[32] = "";
  if (step >= 0) snprintf(where, sizeof where, "step %ld: ", step);
  snprintf(t->words + used, sizeof t->words - used, "%s%s%s%s%s", used ? "; " : "left out: ", name ? name : "", name ? ", " : "",
           where, kink);
}

// ---- the rollout ---------------------------------------------------------------------------------------------------

// Angle [rad] by which a path that meets its geom cannot turn at once.
static const double least_jump = 0.3;

cliTrace cliRun_Trace(const cliRun *run) {
  pbReport report = pbScratch_Report(run->scratch);
  cliTrace t = {.contacts = report.contacts, .rows = report.rows, .active = 1469598103934665603u};
  const double *data = NULL;
  int rows = 0, cols = 0;
  pbScratch_Gather(run->scratch);

  // FNV-1a over which rows carry a force
  if (pbScratch_Field(run->scratch, "efc_force", &data, &rows, &cols)) {
    for (int i = 0; i < rows * cols; i++) t.active = (t.active ^ (data[i] != 0 ? 2u : 1u)) * 1099511628211u;
  }

  if (pbScratch_Field(run->scratch, "contact_frame", &data, &rows, &cols)) {
    // weights without a pattern: normals that swap or cancel must not leave the sum as it was
    for (int i = 0; i < 3 * rows; i++) t.normals += cos(i + 1) * data[i / 3 * cols + i % 3];

    // contacts of bodies only: barriers of deformables come and go smoothly
    if (pbModel_ContactSettings(run->model).method != pb_contactImpact) t.contacts = rows;
  }

  // a path is straight, goes around in one sense or the other, or touches from inside
  t.ways = 1469598103934665603u;
  if (pbScratch_Field(run->scratch, "wrap_turn", &data, &rows, &cols)) {
    for (int i = 0; i < rows; i++) {
      t.ways = (t.ways ^ (uint64_t)((data[i] > 0) + 2 * (data[i] < 0) + 4 * isinf(data[i]))) * 1099511628211u;
      if (!isinf(data[i])) t.turns += cos(i + 1) * data[i];
    }
  }

  // what rays meet, the nearest pairs, and by which part
  t.looks = 1469598103934665603u;
  if (pbScratch_Field(run->scratch, "sensor_look", &data, &rows, &cols)) {
    for (int i = 0; i < rows * cols; i++) t.looks = (t.looks ^ (uint64_t)(int64_t)data[i]) * 1099511628211u;
  }
  return t;
}

// What a difference between two traces means.
const char *cliTrace_Kink(const cliTrace *a, const cliTrace *b) {
  if (a->contacts < b->contacts) return "contact onset";
  if (a->contacts > b->contacts) return "contact release";
  if (a->rows != b->rows) return "a limit or friction row that appears or goes";
  if (a->active != b->active) return "a constraint that starts or stops pushing";
  if (a->ways != b->ways) {
    bool jumps = fabs(a->turns - b->turns) > least_jump;
    return jumps ? "a tendon that jumps off its geom: an end crosses the ray opposite the side site"
                 : "a tendon that meets or leaves a geom";
  }
  if (a->looks != b->looks)
    return "a sensor that looks elsewhere: its ray crosses an edge, or another pair or feature is nearest";
  return "a clamp, a tie or a change of feature in a contact";
}

bool cliTrace_Same(const cliTrace *a, const cliTrace *b) {
  return a->contacts == b->contacts && a->rows == b->rows && a->active == b->active && a->ways == b->ways && a->looks == b->looks;
}

static pbStatus record_rollout(cliCheck *d) {
  cliRun *run = d->run;

  memcpy(d->states, run->x0, (size_t)d->nx * sizeof *d->states);

  for (long k = 0; k < run->steps; k++) {
    double *x = d->states + (size_t)(k + 1) * (size_t)d->nx;
    memcpy(x, x - d->nx, (size_t)d->nx * sizeof *x);

    pbInput input = cliRun_Input(run, k);

    // scratch grows with the number of contacts: the step is made again then
    pbStatus status;
    do {
      status = pbStep_Forward(run->model, run->theta, x, &input, run->scratch, NULL);
    } while (pbScratch_Grow(run->scratch, &status));

    if (status != pb_ok) return cliRun_StepFailed(run, status, k);
    PB_TRY(cliRun_CheckState(run, x, k));

    PB_TRY(cliRun_GoOn(run, "rollout", k, run->steps));

    // what the derivatives of this step start from
    pbTape_Record(run->model, x - d->nx, run->scratch, d->records + (size_t)k * (size_t)d->nr);

    d->reports[k] = pbScratch_Report(run->scratch);
    cliRun_NoteSolve(run, k);
    d->traces[k] = cliRun_Trace(d->run);
  }
  return pb_ok;
}

// Whether nobody says what the controls are.
static bool has_random_controls(const cliRun *run) {
  const char *const *text = run->app->args.text;
  return run->nu && !run->task && !text[opt_control] && !text[opt_keyframe] && !text[opt_at_start];
}

// Controls that make the model move: inside their ranges where they have one.
static void random_controls(cliCheck *d) {
  const cliRun *run = d->run;
  pbField limited;
  pbParam range;

  bool known = pbModel_Field(run->model, "actuator_ctrllimited", &limited) &&
               pbModel_Param(run->ctx, run->model, "actuator_ctrlrange", &range) == pb_ok;
  for (long k = 0; k < run->steps; k++) {
    for (int i = 0; i < run->nu; i++) {
      double low = -1, high = 1, start = run->control[(size_t)k * (size_t)run->nu + (size_t)i];
      // actuators of deformables have no range: stay near what was set
      if (known && i >= limited.rows) {
        low = start - 0.1 * fabs(start) - 0.01 * (start == 0);
        high = start + 0.1 * fabs(start) + 0.01 * (start == 0);
      } else if (known && limited.integers[i]) {
        low = run->theta[range.offset + 2 * (size_t)i];
        high = run->theta[range.offset + 2 * (size_t)i + 1];
      }

      run->control[(size_t)k * (size_t)run->nu + (size_t)i] = low + (high - low) * pbRng_Uniform(&d->rng);
    }
  }
}

// Rest is a special state: many kinks (friction, polynomial damping) lie there. Unless a state is given, things move a little.
static void random_velocity(cliCheck *d) {
  const cliRun *run = d->run;
  double *direction = cliCheck_Vector(d, vec_direction);

  // velocities only, of bodies and of deformables' points
  memset(direction, 0, (size_t)d->nt * sizeof *direction);
  cliCheck_DrawNormals(d, direction + run->nv, (size_t)run->nv);
  size_t np = 3 * (size_t)pbModel_PointCount(run->model);
  cliCheck_DrawNormals(d, direction + 2 * run->nv + run->na + np, np);

  pbState_Move(run->model, run->x0, direction, 0.01);
}

// ---- directions of theta -------------------------------------------------------------------------------------------

// Unit vectors move on their spheres: direction -= value <value, direction> / <value, value>.
static void keep_unit_length(const double *value, double *direction, int n) {
  double along = cli_dot(value, direction, (size_t)n);
  double size = cli_dot(value, value, (size_t)n);
  if (!(size > 0)) return;

  for (int i = 0; i < n; i++) direction[i] -= value[i] * along / size;
}

static void keep_joint_quaternions(const cliRun *run, const pbParam *p, double *direction) {
  pbField type, address;
  if (!pbModel_Field(run->model, "jnt_type", &type) || !pbModel_Field(run->model, "jnt_qposadr", &address)) return;

  for (int j = 0; j < type.rows; j++) {
    if (type.integers[j] != pb_jntFree && type.integers[j] != pb_jntBall) continue;
    size_t at = p->offset + (size_t)address.integers[j] + (type.integers[j] == pb_jntFree ? 3 : 0);
    keep_unit_length(run->theta + at, direction + at, 4);
  }
}

// Relative to the values: zeros (no friction, no margin) stay zero, where many fields have their kinks.
void cliCheck_DrawParameter(const cliRun *run, pbRng *rng, const pbParam *p, double *direction) {
  const double *theta = run->theta;
  size_t count = (size_t)p->rows * (size_t)p->cols;
  for (size_t i = 0; i < count; i++) direction[p->offset + i] = pbRng_Normal(rng) * fabs(theta[p->offset + i]);

  pbField eq_type = {0};
  bool weld = p->moves == pb_movesWelds && pbModel_Field(run->model, "eq_type", &eq_type);

  for (int r = 0; r < p->rows; r++) {
    size_t at = p->offset + (size_t)r * (size_t)p->cols;
    if (p->moves == pb_movesAxis || p->moves == pb_movesQuaternion) keep_unit_length(theta + at, direction + at, p->cols);

    // in a weld's data the relative quaternion follows anchor and position
    if (weld && eq_type.integers[r] == 1) keep_unit_length(theta + at + 6, direction + at + 6, 4);

    // midpoint and power of solimp: exponents with kinks at their defaults
    if (strstr(p->name, "solimp")) direction[at + 3] = direction[at + 4] = 0;
  }

  if (p->moves == pb_movesPositions) keep_joint_quaternions(run, p, direction);
}

void cliCheck_DrawTheta(cliCheck *d) {
  memset(d->theta_direction, 0, d->np * sizeof *d->theta_direction);
  for (int i = 0; i < pbModel_ParamCount(d->run->model); i++) {
    pbParam p = pbModel_ParamAt(d->run->model, i);
    cliCheck_DrawParameter(d->run, &d->rng, &p, d->theta_direction);
  }
}

// ---- report --------------------------------------------------------------------------------------------------------

static bool all_hold(const cliCheck *d) {
  for (int i = 0; i < d->test_count; i++) {
    if (!d->tests[i].holds) return false;
  }
  return true;
}

static int most_contacts(const cliCheck *d) {
  int most = 0;
  for (long k = 0; k < d->run->steps; k++) most = d->traces[k].contacts > most ? d->traces[k].contacts : most;
  return most;
}

static void tests_json(const cliCheck *d, cliJson *j) {
  cliJson_Open(j, "checks", '[');
  for (int i = 0; i < d->test_count; i++) {
    const cliCheckTest *t = &d->tests[i];

    cliJson_OpenLine(j, NULL, '{');
    cliJson_Text(j, "name", t->name);
    cliJson_Bool(j, "holds", t->holds);
    cliJson_Integer(j, "cases", t->tried);
    cliJson_Integer(j, "left_out", t->skipped);
    cliJson_Number(j, "worst", t->worst);
    cliJson_Number(j, "limit", t->limit);
    cliJson_Integer(j, "step", t->step);
    cliJson_Text(j, "words", t->words);
    cliJson_Close(j, '}');
  }
  cliJson_Close(j, ']');
}

static void report_json(const cliCheck *d) {
  cliJson j = {.out = cli_out};
  cliJson_Open(&j, NULL, '{');
  cliJson_Text(&j, "model", d->run->model_path);
  cliJson_Text(&j, "version", pbVersion());
  cliJson_Bool(&j, "holds", all_hold(d));
  cliJson_Integer(&j, "steps", d->run->steps);
  cliJson_Integer(&j, "most_contacts", most_contacts(d));

  tests_json(d, &j);

  // in words
  cliJson_Open(&j, "findings", '[');
  for (int i = 0; i < d->finding_count; i++) {
    cliJson_OpenLine(&j, NULL, '{');
    cliJson_Text(&j, "what", d->findings[i].what);
    cliJson_Text(&j, "where", d->findings[i].where);
    cliJson_Text(&j, "why", d->findings[i].why);
    cliJson_Close(&j, '}');
  }
  cliJson_Close(&j, ']');

  // of the rollout itself
  cliJson_Number(&j, "penetration", d->run->penetration);
  cliJson_Integer(&j, "penetration_step", d->run->penetration_step);
  cliJson_Number(&j, "growth", d->certificate.growth);
  cliJson_Number(&j, "growth_rate", d->certificate.growth_rate);
  cliJson_Number(&j, "worst_residual", d->certificate.worst_residual);
  cliJson_Close(&j, '}');
}

static void print_test(const cliCheckTest *t) {
  const char *verdict = t->tried ? "holds" : "-";
  if (!t->holds) verdict = "FAILS";

  fprintf(cli_out, "  %-38s %-5s  worst %7.1e  limit %.0e  %d case%s", t->name, verdict, t->worst, t->limit, t->tried,
          t->tried == 1 ? "" : "s");
  if (t->skipped) fprintf(cli_out, ", %d left out", t->skipped);
  if (t->words[0]) fprintf(cli_out, "\n      %s", t->words);
  fputc('\n', cli_out);
}

static void report_text(const cliCheck *d) {
  int failed = 0;
  fprintf(cli_out, "%s: %ld steps%s, at most %d contacts\n", d->run->model_path, d->run->steps,
          has_random_controls(d->run) ? " with random controls" : "", most_contacts(d));

  for (int i = 0; i < d->test_count; i++) {
    print_test(&d->tests[i]);
    failed += !d->tests[i].holds;
  }

  for (int i = 0; i < d->finding_count; i++) {
    const cliCheckFinding *f = &d->findings[i];
    fprintf(cli_out, "\n%s, %s:\n  %s\n", f->what, f->where, f->why);
  }

  if (failed) fprintf(cli_out, "\n%d of %d checks fail.\n", failed, d->test_count);
  else fprintf(cli_out, "\nAll %d checks hold.\n", d->test_count);
}

// ---- the command ---------------------------------------------------------------------------------------------------

static pbStatus allocate(cliCheck *d) {
  cliRun *run = d->run;
  size_t n = (size_t)run->steps;

  d->nt = run->nt;
  d->nx = run->nx;
  d->nu = run->nu;
  d->ns = run->nsensordata;
  d->nr = pbTape_Size(run->model);
  d->np = run->ntheta;

  // cliCheck_Vector gives out vectors by their role, all as wide as the widest
  const int sizes[] = {d->nt, d->nx, d->nu, d->ns, 7 * run->nmocap, 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) d->width = (size_t)sizes[i] > d->width ? (size_t)sizes[i] : d->width;

  d->records = pbContext_Alloc(run->ctx, n * (size_t)d->nr * sizeof *d->records);
  d->states = pbContext_Alloc(run->ctx, (n + 1) * (size_t)d->nx * sizeof *d->states);
  d->traces = pbContext_Alloc(run->ctx, n * sizeof *d->traces);
  d->reports = pbContext_Alloc(run->ctx, n * sizeof *d->reports);
  d->theta_direction = pbContext_Alloc(run->ctx, 3 * d->np * sizeof *d->theta_direction);
  d->work = pbContext_Alloc(run->ctx, vec_count * d->width * sizeof *d->work);

  if (!d->records || !d->states || !d->traces || !d->reports || !d->theta_direction || !d->work) {
    return cli_noMemory(run->ctx);
  }

  d->theta_bar = d->theta_direction + d->np;
  d->theta_try = d->theta_bar + d->np;
  return pbScratch_Create(run->ctx, run->model, NULL, &run->scratch);
}

static void release(cliCheck *d) {
  pbContext *ctx = d->run->app->ctx;
  void *memory[] = {d->records, d->states, d->traces, d->reports, d->theta_direction, d->work};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(ctx, memory[i]);
}

// A short rollout by everything, bounds and ties included.
static pbStatus slope_tests(cliCheck *d) {
  cliSlopes found = {0};
  PB_TRY(cliSlopes_Run(d->run, &d->rng, &found));

  for (int i = 0; i < slopes_most; i++) {
    const cliSlopeTest *s = &found.tests[i];
    if (!s->name) continue;

    // reported like the other tests
    cliCheckTest *t = cliCheck_AddTest(d, s->name, s->limit);
    t->tried = s->tried;
    t->skipped = s->skipped;
    t->worst = s->worst;
    t->holds = s->holds;
    snprintf(t->words, sizeof t->words, "%s", s->words);
  }

  for (int i = 0; i < found.bend_count; i++)
    cliCheck_AddFinding(d, "at a bound or tie", found.bends[i].where, "%s", found.bends[i].why);
  return pb_ok;
}

static pbStatus run_tests(cliCheck *d) {
  PB_TRY(cliCheck_DotProducts(d));
  PB_TRY(cliCheck_Jacobians(d));
  PB_TRY(cliCheck_Differences(d));
  PB_TRY(slope_tests(d));
  if (d->run->app->args.text[opt_at_start]) PB_TRY(cliCheck_AtStart(d));
  PB_TRY(cliCheck_TaylorRemainders(d));
  return cliCheck_Mode(d);
}

// A derivative that does not exist ends the tests, not the report.
static pbStatus test_derivatives(cliCheck *d) {
  pbStatus status = run_tests(d);

  // other failures (memory, arguments) are the command's own
  bool numerical = status != pb_ok && pbStatus_ExitCode(status) == pbStatus_ExitCode(pb_not_finite);

  cliCheckTest *t = cliCheck_AddTest(d, cli_finiteTest, 0);
  cliCheck_CountCase(t, status == pb_ok ? 0 : 1, -1);

  if (!numerical) return status;

  cliCheck_AddFinding(d, "no derivative", "the step named here", "%s. What comes after it was not tested.",
                      pbContext_Error(d->run->ctx));
  return pb_ok;
}

static pbStatus examine_rollout(cliCheck *d) {
  cliApp *app = d->run->app;
  const char *const *text = app->args.text;
  long seed = 0;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, LONG_MAX, 0, &seed));
  PB_TRY(cliArgs_Mode(app, &d->mode));

  // a task says which gradient it is made for
  if (d->run->task && !text[opt_mode]) d->mode = pbTask_GradientKind(d->run->task);
  d->rng = pbRng_Seed((uint64_t)seed);
  PB_TRY(allocate(d));

  cliProgress_Begin(&d->run->progress, app, "check");

  // the rollout that everything is about
  if (has_random_controls(d->run)) random_controls(d);
  if (!text[opt_init] && !text[opt_keyframe] && !text[opt_at_start] && !d->run->task) random_velocity(d);
  PB_TRY(record_rollout(d));
  PB_TRY(test_derivatives(d));
  cliProgress_End(&d->run->progress);

  cliCheck_SolverFindings(d);
  cliCheck_FailureFindings(d);
  cliCheck_GrowthFindings(d);
  cliCheck_PenetrationFindings(d);
  cliCheck_ContactFindings(d);
  PB_TRY(cliCheck_TieFindings(d));

  cliRun_WarnSolver(d->run);
  if (text[opt_json]) report_json(d);
  else report_text(d);
  return all_hold(d) ? pb_ok : pb_check_failed;
}

pbStatus cliCheck_Run(cliApp *app) {
  cliRun run = {0};
  cliCheck *d = pbContext_Alloc(app->ctx, sizeof *d);
  if (!d) return cli_noMemory(app->ctx);

  long horizon = 20;
  d->run = &run;
  run.app = app;
  pbStatus status = cliArgs_Integer(app, opt_horizon, 1, MOST_HORIZON, 20, &horizon);

  if (status == pb_ok) status = cliRun_Begin(app, horizon, &run);
  if (status == pb_ok) cliRun_FirstTrajectory(&run);
  if (status == pb_ok) status = examine_rollout(d);

  // loading a model clears the run: free what there is of it
  d->run = &run;
  run.app = app;
  release(d);
  cliRun_End(&run);
  pbContext_Free(app->ctx, d);
  return status;
}
