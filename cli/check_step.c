// pullback check, derivatives of single steps against each other: <w, J d> = <J' w, d> with jvp (complex step of the same
// source) and vjp (hand-written adjoint), and rows of the full Jacobians against the pullback of w.
// Tests: tests/oracle/test_check.py.
#include <float.h>
#include <math.h>
#include <string.h>

#include "check.h"

// ---- one step: dot products ----------------------------------------------------------------------------------------

const char *cliCheck_KindName(cliInputKind kind) {
  static const char *const names[kind_count] = {"state", "control", "mocap poses", "parameters"};
  return names[kind];
}

cliStepDirection cliCheck_Direction(const cliCheck *d, cliInputKind kind, const double *direction) {
  return (cliStepDirection){.x = kind == kind_state ? direction : NULL,
                            .ctrl = kind == kind_control ? direction : NULL,
                            .mocap = kind == kind_mocap ? direction : NULL,
                            .theta = kind == kind_theta ? d->theta_direction : NULL};
}

size_t cliCheck_KindSize(const cliCheck *d, cliInputKind kind) {
  switch (kind) {
    case kind_state: return (size_t)d->nt;
    case kind_control: return (size_t)d->nu;
    case kind_mocap: return 6 * (size_t)d->run->nmocap;
    default: return d->np;
  }
}

// Pullback of step k's cotangents, those in vec_next_bar and (sensors) vec_sensor_bar: into vec_x_bar, vec_ctrl_bar and
// theta_bar.
pbStatus cliCheck_PullStep(cliCheck *d, long k, bool sensors) {
  const cliRun *run = d->run;
  pbInput input = cliRun_Input(run, k);
  pbObservationBar seen = {.sensordata = cliCheck_Vector(d, vec_sensor_bar)};

  // the pullback adds to what is there
  memset(cliCheck_Vector(d, vec_x_bar), 0, d->width * sizeof(double));
  memset(cliCheck_Vector(d, vec_ctrl_bar), 0, d->width * sizeof(double));
  memset(d->theta_bar, 0, d->np * sizeof *d->theta_bar);

  double *poses = cliCheck_Vector(d, vec_mocap_bar);
  memset(poses, 0, d->width * sizeof *poses);
  pbInputBar bar = {.ctrl = cliCheck_Vector(d, vec_ctrl_bar), .mocap_pos = poses, .mocap_rot = poses + 3 * run->nmocap};
  pbStatus status;
  do {
    status = pbStep_Vjp(run->model, run->theta, d->records + (size_t)k * (size_t)d->nr, &input, cliCheck_Vector(d, vec_next_bar),
                        sensors ? &seen : NULL, run->scratch, cliCheck_Vector(d, vec_x_bar), &bar, d->theta_bar);
  } while (pbScratch_Grow(run->scratch, &status));
  return status == pb_ok ? pb_ok : cliRun_StepFailed(run, status, k);
}

// <w, J d> by jvp; `size` is the product of norms that its rounding is measured by.
static pbStatus push_step(cliCheck *d, long k, bool sensors, const cliStepDirection *direction, double *value, double *size) {
  const cliRun *run = d->run;
  pbInput input = cliRun_Input(run, k);
  pbDirection inputs = {.x = direction->x, .ctrl = direction->ctrl, .theta = direction->theta};
  if (direction->mocap) {
    inputs.mocap_pos = direction->mocap;
    inputs.mocap_rot = direction->mocap + 3 * run->nmocap;
  }
  double *next = cliCheck_Vector(d, vec_next_dot), *seen = cliCheck_Vector(d, vec_sensor_dot);
  memset(next, 0, d->width * sizeof *next);
  memset(seen, 0, d->width * sizeof *seen);

  pbStatus status;
  do {
    status = pbStep_Jvp(run->model, run->theta, d->records + (size_t)k * (size_t)d->nr, &input, &inputs, run->scratch, next,
                        sensors ? seen : NULL, NULL, NULL);
  } while (pbScratch_Grow(run->scratch, &status));
  if (status != pb_ok) return cliRun_StepFailed(run, status, k);

  // the value, and the norms that bound its rounding
  *value = cli_dot(cliCheck_Vector(d, vec_next_bar), next, (size_t)d->nt) +
           (sensors ? cli_dot(cliCheck_Vector(d, vec_sensor_bar), seen, (size_t)d->ns) : 0);
  *size = cli_norm(cliCheck_Vector(d, vec_next_bar), (size_t)d->nt) * cli_norm(next, (size_t)d->nt);
  if (sensors) *size += cli_norm(cliCheck_Vector(d, vec_sensor_bar), (size_t)d->ns) * cli_norm(seen, (size_t)d->ns);
  return pb_ok;
}

const double *cliCheck_Pulled(const cliCheck *d, cliInputKind kind) {
  switch (kind) {
    case kind_state: return cliCheck_Vector(d, vec_x_bar);
    case kind_control: return cliCheck_Vector(d, vec_ctrl_bar);
    case kind_mocap: return cliCheck_Vector(d, vec_mocap_bar);
    default: return d->theta_bar;
  }
}

// Which parameters disagree: each alone.
static pbStatus blame_parameters(cliCheck *d, long k, bool sensors, cliCheckTest *t) {
  size_t used = strlen(t->words);
  for (int i = 0; i < pbModel_ParamCount(d->run->model); i++) {
    pbParam p = pbModel_ParamAt(d->run->model, i);
    memset(d->theta_direction, 0, d->np * sizeof *d->theta_direction);
    cliCheck_DrawParameter(d->run, &d->rng, &p, d->theta_direction);

    cliStepDirection direction = {.theta = d->theta_direction};
    double forward = 0, size = 0;
    PB_TRY(push_step(d, k, sensors, &direction, &forward, &size));

    // disagrees beyond rounding, and there is room for its name
    double back = cli_dotAlong(d->theta_bar, d->theta_direction, d->np);
    if (fabs(forward - back) <= cli_dotLimit * (size + fabs(back)) + DBL_MIN || used + 40 > sizeof t->words) continue;
    used += (size_t)snprintf(t->words + used, sizeof t->words - used, "%s%s", used ? ", " : "disagree: ", p.name);
  }
  return pb_ok;
}

// How far both values move where every parameter moves by some units in its last place: what rounding leaves of them. Of bodies
// that are small for where they are (a millimeter at a meter from the origin) that is more than of others.
static pbStatus measure_rounding(cliCheck *d, long k, bool sensors, const cliStepDirection *direction, double forward,
                                 double back, double *noise) {
  double *theta = d->run->theta;
  pbStatus status = pb_ok;

  *noise = 0;

  for (int i = 0; i < 3 && status == pb_ok; i++) {
    double moved = 0, size = 0;

    for (size_t j = 0; j < d->np; j++) d->theta_try[j] = theta[j] * (1 + 8 * DBL_EPSILON * (pbRng_Uniform(&d->rng) - 0.5));

    d->run->theta = d->theta_try;
    status = push_step(d, k, sensors, direction, &moved, &size);
    if (status == pb_ok) status = cliCheck_PullStep(d, k, sensors);
    d->run->theta = theta;

    *noise = fmax(*noise, fabs(moved - forward) + fabs(cli_dotAlong(d->theta_bar, direction->theta, d->np) - back));
  }

  // the gradient as it was
  return status == pb_ok ? cliCheck_PullStep(d, k, sensors) : status;
}

// One dot product. Its error is relative to the terms of both sums and, for state and control, to a little of |w| |d|: a product
// of two orthogonal vectors is rounding alone.
static pbStatus dot_case(cliCheck *d, long k, bool sensors, cliInputKind kind, cliCheckTest *t) {
  double *drawn = cliCheck_Vector(d, vec_direction), forward = 0, size = 0;
  if (kind == kind_theta) cliCheck_DrawTheta(d);
  else cliCheck_DrawNormals(d, drawn, cliCheck_KindSize(d, kind));

  cliStepDirection direction = cliCheck_Direction(d, kind, drawn);
  PB_TRY(push_step(d, k, sensors, &direction, &forward, &size));

  const double *moved = kind == kind_theta ? d->theta_direction : drawn;
  const double *bar = cliCheck_Pulled(d, kind);
  size_t n = cliCheck_KindSize(d, kind);
  double back = cli_dotAlong(bar, moved, n), terms = 0;
  for (size_t i = 0; i < n; i++) terms += moved[i] != 0 ? fabs(bar[i] * moved[i]) : 0;

  double least = 0;
  if (kind != kind_theta)
    least = 1e-4 * cli_norm(cliCheck_Vector(d, sensors ? vec_sensor_bar : vec_next_bar), (size_t)(sensors ? d->ns : d->nt)) *
            cli_norm(moved, n);
  double error = fabs(forward - back) / (size + terms + least + DBL_MIN);
  bool finite = isfinite(forward) && isfinite(back);

  // at a kink both sides may be right
  const char *kink = NULL;
  if (finite && error > cli_dotLimit) PB_TRY(cliCheck_FindKink(d, k, &direction, &kink));

  double noise = 0;
  if (!kink && finite && error > cli_dotLimit && kind == kind_theta)
    PB_TRY(measure_rounding(d, k, sensors, &direction, forward, back, &noise));

  if (fabs(forward - back) < 10 * noise) kink = "rounding alone";
  if (kink) {
    cliCheck_LeaveOut(t, NULL, kink, k);
    return pb_ok;
  }

  bool before = t->holds;
  cliCheck_CountCase(t, finite ? error : NAN, k);
  return before && !t->holds && kind == kind_theta ? blame_parameters(d, k, sensors, t) : pb_ok;
}

static pbStatus dot_step(cliCheck *d, long k, bool sensors, cliCheckTest *const tests[kind_count]) {
  cliCheck_DrawNormals(d, cliCheck_Vector(d, vec_next_bar), (size_t)d->nt);
  cliCheck_DrawNormals(d, cliCheck_Vector(d, vec_sensor_bar), (size_t)d->ns);

  // sensors are tested alone: errors of the state are much larger and would hide theirs
  if (sensors) memset(cliCheck_Vector(d, vec_next_bar), 0, (size_t)d->nt * sizeof(double));
  PB_TRY(cliCheck_PullStep(d, k, sensors));

  for (cliInputKind kind = 0; kind < kind_count; kind++) {
    if (tests[kind]) PB_TRY(dot_case(d, k, sensors, kind, tests[kind]));
  }
  return pb_ok;
}

pbStatus cliCheck_DotProducts(cliCheck *d) {
  for (int sensors = 0; sensors < (d->ns ? 2 : 1); sensors++) {
    cliCheckTest *tests[kind_count] = {0};
    for (cliInputKind kind = 0; kind < kind_count; kind++) {
      if (!cliCheck_KindSize(d, kind)) continue;
      char name[48];
      snprintf(name, sizeof name, "dot product, %s by %s", sensors ? "sensors" : "step", cliCheck_KindName(kind));
      tests[kind] = cliCheck_AddTest(d, name, cli_dotLimit);
    }

    // every step, with directions of its own
    for (long k = 0; k < d->run->steps; k++) {
      PB_TRY(cliRun_GoOn(d->run, "dot products", k, d->run->steps));
      PB_TRY(dot_step(d, k, sensors, tests));
    }
  }
  return pb_ok;
}

// ---- one step: Jacobians -------------------------------------------------------------------------------------------

// Distance between a cotangent pulled back and w times a Jacobian (rows x cols), relative to both.
static void jacobian_case(char letter, const double *w, int rows, const double *J, int cols, const double *pulled_back, long k,
                          cliCheckTest *t) {
  if (!rows || !cols) return;

  // entries below a part of |w| are compared with that part: less is rounding
  bool finite = true;
  double error = 0, size = 1e-4 * cli_norm(w, (size_t)rows) + DBL_MIN;
  for (int j = 0; j < cols; j++) {
    double sum = 0;
    for (int i = 0; i < rows; i++) sum += w[i] * J[(size_t)i * (size_t)cols + (size_t)j];
    error = fmax(error, fabs(sum - pulled_back[j]));
    size = fmax(size, fmax(fabs(sum), fabs(pulled_back[j])));
    finite = finite && isfinite(sum) && isfinite(pulled_back[j]);
  }

  error = finite ? error / size : NAN;
  cliCheck_CountCase(t, error, k);

  // each letter is named once
  size_t used = strlen(t->words);
  if (error <= t->limit || strchr(t->words, letter)) return;
  snprintf(t->words + used, sizeof t->words - used, "%s%c", used ? ", " : "wrong: ", letter);
}

static pbStatus jacobian_step(cliCheck *d, long k, double *A, cliCheckTest *t) {
  const cliRun *run = d->run;
  size_t nt = (size_t)d->nt, nu = (size_t)d->nu, ns = (size_t)d->ns;
  double *B = A + nt * nt, *C = B + nt * nu, *D = C + ns * nt;
  pbInput input = cliRun_Input(run, k);

  memset(A, 0, (nt + ns) * (nt + nu) * sizeof *A);
  pbStatus status;
  do {
    status = pbStep_Jacobian(run->model, run->theta, d->records + (size_t)k * (size_t)d->nr, &input, run->scratch, A, B, C, D);
  } while (pbScratch_Grow(run->scratch, &status));
  if (status != pb_ok) return cliRun_StepFailed(run, status, k);

  // rows of A and B: w of the next state
  cliCheck_DrawNormals(d, cliCheck_Vector(d, vec_next_bar), nt);
  memset(cliCheck_Vector(d, vec_sensor_bar), 0, ns * sizeof(double));
  PB_TRY(cliCheck_PullStep(d, k, false));
  jacobian_case('A', cliCheck_Vector(d, vec_next_bar), d->nt, A, d->nt, cliCheck_Vector(d, vec_x_bar), k, t);
  jacobian_case('B', cliCheck_Vector(d, vec_next_bar), d->nt, B, d->nu, cliCheck_Vector(d, vec_ctrl_bar), k, t);

  // rows of C and D: w of the sensors
  memset(cliCheck_Vector(d, vec_next_bar), 0, nt * sizeof(double));
  cliCheck_DrawNormals(d, cliCheck_Vector(d, vec_sensor_bar), ns);
  PB_TRY(cliCheck_PullStep(d, k, true));
  jacobian_case('C', cliCheck_Vector(d, vec_sensor_bar), d->ns, C, d->nt, cliCheck_Vector(d, vec_x_bar), k, t);
  jacobian_case('D', cliCheck_Vector(d, vec_sensor_bar), d->ns, D, d->nu, cliCheck_Vector(d, vec_ctrl_bar), k, t);
  return pb_ok;
}

// With deformables each row of a Jacobian is a pullback of its own. For many points that is left to the dot products, which test
// the same derivatives.
pbStatus cliCheck_Jacobians(cliCheck *d) {
  enum { most_rows = 400 };
  if (d->nt > most_rows && pbModel_PointCount(d->run->model) > 0) return pb_ok;

  size_t count = (size_t)(d->nt + d->ns) * (size_t)(d->nt + d->nu);
  double *A = pbContext_Alloc(d->run->ctx, count * sizeof *A);
  if (!A) return cli_noMemory(d->run->ctx);

  // a few steps spread over the rollout
  cliCheckTest *t = cliCheck_AddTest(d, "Jacobians A, B, C, D", 1e-9);
  long most = d->run->steps < CLI_CHECK_DIFFERENCES ? d->run->steps : CLI_CHECK_DIFFERENCES;
  pbStatus status = pb_ok;
  for (long i = 0; i < most && status == pb_ok; i++) {
    status = cliRun_GoOn(d->run, "Jacobians", i, most);
    if (status == pb_ok) status = jacobian_step(d, i * d->run->steps / most, A, t);
  }

  pbContext_Free(d->run->ctx, A);
  return status;
}
