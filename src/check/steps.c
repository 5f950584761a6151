// The check of a model's derivatives, derivatives of single steps against each other: <w, J d> = <J' w, d> with jvp (complex
// step of the same source) and vjp (hand-written adjoint), and rows of the full Jacobians against the pullback of w.
// Tests: tests/oracle/test_check.py.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"

// ---- one step: dot products ----------------------------------------------------------------------------------------

const char *pbCheck_KindName(pbInputKind kind) {
  static const char *const names[kind_count] = {"state", "control", "mocap poses", "parameters"};
  return names[kind];
}

pbStepDirection pbCheck_Direction(const pbCheck *d, pbInputKind kind, const double *direction) {
  return (pbStepDirection){.x = kind == kind_state ? direction : NULL,
                           .ctrl = kind == kind_control ? direction : NULL,
                           .mocap = kind == kind_mocap ? direction : NULL,
                           .theta = kind == kind_theta ? d->theta_direction : NULL};
}

size_t pbCheck_KindSize(const pbCheck *d, pbInputKind kind) {
  switch (kind) {
    case kind_state: return (size_t)d->r->n;
    case kind_control: return (size_t)d->r->nu;
    case kind_mocap: return 6 * (size_t)d->r->nmocap;
    default: return d->r->ntheta;
  }
}

// Pullback of step k's cotangents, those in vec_next_bar and (sensors) vec_sensor_bar: into vec_x_bar, vec_ctrl_bar and
// theta_bar.
pbStatus pbCheck_PullStep(pbCheck *d, int k, bool sensors) {
  const pbRollout *r = d->r;
  pbInput input = pbRollout_InputAt(r, k);
  pbObservationBar seen = {.sensordata = pbCheck_Vector(d, vec_sensor_bar)};

  // the pullback adds to what is there
  memset(pbCheck_Vector(d, vec_x_bar), 0, d->width * sizeof(double));
  memset(pbCheck_Vector(d, vec_ctrl_bar), 0, d->width * sizeof(double));
  memset(d->theta_bar, 0, d->r->ntheta * sizeof *d->theta_bar);

  double *poses = pbCheck_Vector(d, vec_mocap_bar);
  memset(poses, 0, d->width * sizeof *poses);
  pbInputBar bar = {.ctrl = pbCheck_Vector(d, vec_ctrl_bar), .mocap_pos = poses, .mocap_rot = poses + 3 * r->nmocap};
  pbStatus status;
  do {
    status = pbStep_Vjp(r->model, d->theta, pbRollout_RecordAt(r, k), &input, pbCheck_Vector(d, vec_next_bar),
                        sensors ? &seen : NULL, d->scratch, pbCheck_Vector(d, vec_x_bar), &bar, d->theta_bar);
  } while (pbScratch_Grow(d->scratch, &status));
  return status == pb_ok ? pb_ok : pbCheck_StepFailed(d, status, k);
}

// <w, J d> by jvp; `size` is the product of norms that its rounding is measured by.
static pbStatus push_step(pbCheck *d, int k, bool sensors, const pbStepDirection *direction, double *value, double *size) {
  const pbRollout *r = d->r;
  pbInput input = pbRollout_InputAt(r, k);
  pbDirection inputs = {.x = direction->x, .ctrl = direction->ctrl, .theta = direction->theta};
  if (direction->mocap) {
    inputs.mocap_pos = direction->mocap;
    inputs.mocap_rot = direction->mocap + 3 * r->nmocap;
  }
  double *next = pbCheck_Vector(d, vec_next_dot), *seen = pbCheck_Vector(d, vec_sensor_dot);
  memset(next, 0, d->width * sizeof *next);
  memset(seen, 0, d->width * sizeof *seen);

  pbStatus status;
  do {
    status = pbStep_Jvp(r->model, d->theta, pbRollout_RecordAt(r, k), &input, &inputs, d->scratch, next, sensors ? seen : NULL,
                        NULL, NULL);
  } while (pbScratch_Grow(d->scratch, &status));
  if (status != pb_ok) return pbCheck_StepFailed(d, status, k);

  // the value, and the norms that bound its rounding
  *value = pbCheck_Dot(pbCheck_Vector(d, vec_next_bar), next, (size_t)d->r->n) +
           (sensors ? pbCheck_Dot(pbCheck_Vector(d, vec_sensor_bar), seen, (size_t)d->r->ns) : 0);
  *size = pbCheck_Norm(pbCheck_Vector(d, vec_next_bar), (size_t)d->r->n) * pbCheck_Norm(next, (size_t)d->r->n);
  if (sensors) *size += pbCheck_Norm(pbCheck_Vector(d, vec_sensor_bar), (size_t)d->r->ns) * pbCheck_Norm(seen, (size_t)d->r->ns);
  return pb_ok;
}

const double *pbCheck_Pulled(const pbCheck *d, pbInputKind kind) {
  switch (kind) {
    case kind_state: return pbCheck_Vector(d, vec_x_bar);
    case kind_control: return pbCheck_Vector(d, vec_ctrl_bar);
    case kind_mocap: return pbCheck_Vector(d, vec_mocap_bar);
    default: return d->theta_bar;
  }
}

// Which parameters disagree: each alone.
static pbStatus blame_parameters(pbCheck *d, int k, bool sensors, pbCheckTest *t) {
  size_t used = strlen(t->words);
  for (int i = 0; i < pbModel_ParamCount(d->r->model); i++) {
    pbParam p = pbModel_ParamAt(d->r->model, i);
    memset(d->theta_direction, 0, d->r->ntheta * sizeof *d->theta_direction);
    pbCheck_DrawParameter(d, &p, d->theta_direction);

    pbStepDirection direction = {.theta = d->theta_direction};
    double forward = 0, size = 0;
    PB_TRY(push_step(d, k, sensors, &direction, &forward, &size));

    // disagrees beyond rounding, and there is room for its name
    double back = pbCheck_DotAlong(d->theta_bar, d->theta_direction, d->r->ntheta);
    if (fabs(forward - back) <= pb_dotLimit * (size + fabs(back)) + DBL_MIN || used + 40 > sizeof t->words) continue;
    used += (size_t)snprintf(t->words + used, sizeof t->words - used, "%s%s", used ? ", " : "disagree: ", p.name);
  }
  return pb_ok;
}

// How far both values move where every parameter moves by some units in its last place: what rounding leaves of them. Of bodies
// that are small for where they are (a millimeter at a meter from the origin) that is more than of others.
static pbStatus measure_rounding(pbCheck *d, int k, bool sensors, const pbStepDirection *direction, double forward, double back,
                                 double *noise) {
  const double *theta = d->theta;
  pbStatus status = pb_ok;

  *noise = 0;

  for (int i = 0; i < 3 && status == pb_ok; i++) {
    double moved = 0, size = 0;

    for (size_t j = 0; j < d->r->ntheta; j++) d->theta_try[j] = theta[j] * (1 + 8 * DBL_EPSILON * (pbRng_Uniform(&d->rng) - 0.5));

    d->theta = d->theta_try;
    status = push_step(d, k, sensors, direction, &moved, &size);
    if (status == pb_ok) status = pbCheck_PullStep(d, k, sensors);
    d->theta = theta;

    *noise = fmax(*noise, fabs(moved - forward) + fabs(pbCheck_DotAlong(d->theta_bar, direction->theta, d->r->ntheta) - back));
  }

  // the gradient as it was
  return status == pb_ok ? pbCheck_PullStep(d, k, sensors) : status;
}

// One dot product. Its error is relative to the terms of both sums and, for state and control, to a little of |w| |d|: a product
// of two orthogonal vectors is rounding alone.
static pbStatus dot_case(pbCheck *d, int k, bool sensors, pbInputKind kind, pbCheckTest *t) {
  double *drawn = pbCheck_Vector(d, vec_direction), forward = 0, size = 0;
  if (kind == kind_theta) pbCheck_DrawTheta(d);
  else pbCheck_DrawNormals(d, drawn, pbCheck_KindSize(d, kind));

  pbStepDirection direction = pbCheck_Direction(d, kind, drawn);
  PB_TRY(push_step(d, k, sensors, &direction, &forward, &size));

  const double *moved = kind == kind_theta ? d->theta_direction : drawn;
  const double *bar = pbCheck_Pulled(d, kind);
  size_t n = pbCheck_KindSize(d, kind);
  double back = pbCheck_DotAlong(bar, moved, n), terms = 0;
  for (size_t i = 0; i < n; i++) terms += moved[i] != 0 ? fabs(bar[i] * moved[i]) : 0;

  double least = 0;
  if (kind != kind_theta)
    least = 1e-4 *
            pbCheck_Norm(pbCheck_Vector(d, sensors ? vec_sensor_bar : vec_next_bar), (size_t)(sensors ? d->r->ns : d->r->n)) *
            pbCheck_Norm(moved, n);
  double error = fabs(forward - back) / (size + terms + least + DBL_MIN);
  bool finite = isfinite(forward) && isfinite(back);

  // at a kink both sides may be right
  const char *kink = NULL;
  if (finite && error > pb_dotLimit) PB_TRY(pbCheck_FindKink(d, k, &direction, &kink));

  double noise = 0;
  if (!kink && finite && error > pb_dotLimit && kind == kind_theta)
    PB_TRY(measure_rounding(d, k, sensors, &direction, forward, back, &noise));

  if (fabs(forward - back) < 10 * noise) kink = "rounding alone";
  if (kink) {
    pbCheck_LeaveOut(t, NULL, kink, k);
    return pb_ok;
  }

  bool before = t->holds;
  pbCheck_CountCase(t, finite ? error : NAN, k);
  return before && !t->holds && kind == kind_theta ? blame_parameters(d, k, sensors, t) : pb_ok;
}

static pbStatus dot_step(pbCheck *d, int k, bool sensors, pbCheckTest *const tests[kind_count]) {
  pbCheck_DrawNormals(d, pbCheck_Vector(d, vec_next_bar), (size_t)d->r->n);
  pbCheck_DrawNormals(d, pbCheck_Vector(d, vec_sensor_bar), (size_t)d->r->ns);

  // sensors are tested alone: errors of the state are much larger and would hide theirs
  if (sensors) memset(pbCheck_Vector(d, vec_next_bar), 0, (size_t)d->r->n * sizeof(double));
  PB_TRY(pbCheck_PullStep(d, k, sensors));

  for (pbInputKind kind = 0; kind < kind_count; kind++) {
    if (tests[kind]) PB_TRY(dot_case(d, k, sensors, kind, tests[kind]));
  }
  return pb_ok;
}

pbStatus pbCheck_DotProducts(pbCheck *d) {
  for (int sensors = 0; sensors < (d->r->ns ? 2 : 1); sensors++) {
    pbCheckTest *tests[kind_count] = {0};
    for (pbInputKind kind = 0; kind < kind_count; kind++) {
      if (!pbCheck_KindSize(d, kind)) continue;
      char name[48];
      snprintf(name, sizeof name, "dot product, %s by %s", sensors ? "sensors" : "step", pbCheck_KindName(kind));
      tests[kind] = pbCheck_AddTest(d, name, pb_dotLimit);
    }

    // every step, with directions of its own
    for (int k = 0; k < d->r->plan.steps; k++) {
      PB_TRY(pbCheck_GoOn(d, "dot products", k, d->r->plan.steps));
      PB_TRY(dot_step(d, k, sensors, tests));
    }
  }
  return pb_ok;
}

// ---- one step: Jacobians -------------------------------------------------------------------------------------------

// Distance between a cotangent pulled back and w times a Jacobian (rows x cols), relative to both.
static void jacobian_case(char letter, const double *w, int rows, const double *J, int cols, const double *pulled_back, int k,
                          pbCheckTest *t) {
  if (!rows || !cols) return;

  // entries below a part of |w| are compared with that part: less is rounding
  bool finite = true;
  double error = 0, size = 1e-4 * pbCheck_Norm(w, (size_t)rows) + DBL_MIN;
  for (int j = 0; j < cols; j++) {
    double sum = 0;
    for (int i = 0; i < rows; i++) sum += w[i] * J[(size_t)i * (size_t)cols + (size_t)j];
    error = fmax(error, fabs(sum - pulled_back[j]));
    size = fmax(size, fmax(fabs(sum), fabs(pulled_back[j])));
    finite = finite && isfinite(sum) && isfinite(pulled_back[j]);
  }

  error = finite ? error / size : NAN;
  pbCheck_CountCase(t, error, k);

  // each letter is named once
  size_t used = strlen(t->words);
  if (error <= t->limit || strchr(t->words, letter)) return;
  snprintf(t->words + used, sizeof t->words - used, "%s%c", used ? ", " : "wrong: ", letter);
}

static pbStatus jacobian_step(pbCheck *d, int k, double *A, pbCheckTest *t) {
  const pbRollout *r = d->r;
  size_t nt = (size_t)d->r->n, nu = (size_t)d->r->nu, ns = (size_t)d->r->ns;
  double *B = A + nt * nt, *C = B + nt * nu, *D = C + ns * nt;
  pbInput input = pbRollout_InputAt(r, k);

  memset(A, 0, (nt + ns) * (nt + nu) * sizeof *A);
  pbStatus status;
  do {
    status = pbStep_Jacobian(r->model, d->theta, pbRollout_RecordAt(r, k), &input, d->scratch, A, B, C, D);
  } while (pbScratch_Grow(d->scratch, &status));
  if (status != pb_ok) return pbCheck_StepFailed(d, status, k);

  // rows of A and B: w of the next state
  pbCheck_DrawNormals(d, pbCheck_Vector(d, vec_next_bar), nt);
  memset(pbCheck_Vector(d, vec_sensor_bar), 0, ns * sizeof(double));
  PB_TRY(pbCheck_PullStep(d, k, false));
  jacobian_case('A', pbCheck_Vector(d, vec_next_bar), d->r->n, A, d->r->n, pbCheck_Vector(d, vec_x_bar), k, t);
  jacobian_case('B', pbCheck_Vector(d, vec_next_bar), d->r->n, B, d->r->nu, pbCheck_Vector(d, vec_ctrl_bar), k, t);

  // rows of C and D: w of the sensors
  memset(pbCheck_Vector(d, vec_next_bar), 0, nt * sizeof(double));
  pbCheck_DrawNormals(d, pbCheck_Vector(d, vec_sensor_bar), ns);
  PB_TRY(pbCheck_PullStep(d, k, true));
  jacobian_case('C', pbCheck_Vector(d, vec_sensor_bar), d->r->ns, C, d->r->n, pbCheck_Vector(d, vec_x_bar), k, t);
  jacobian_case('D', pbCheck_Vector(d, vec_sensor_bar), d->r->ns, D, d->r->nu, pbCheck_Vector(d, vec_ctrl_bar), k, t);
  return pb_ok;
}

// With deformables each row of a Jacobian is a pullback of its own. For many points that is left to the dot products, which test
// the same derivatives.
pbStatus pbCheck_Jacobians(pbCheck *d) {
  enum { most_rows = 400 };
  if (d->r->n > most_rows && pbModel_PointCount(d->r->model) > 0) return pb_ok;

  size_t count = (size_t)(d->r->n + d->r->ns) * (size_t)(d->r->n + d->r->nu);
  double *A = pbContext_Alloc(d->r->ctx, count * sizeof *A);
  if (!A) return pbCheck_NoMemory(d);

  // a few steps spread over the rollout
  pbCheckTest *t = pbCheck_AddTest(d, "Jacobians A, B, C, D", 1e-9);
  int most = d->r->plan.steps < CHECKED_STEPS ? d->r->plan.steps : CHECKED_STEPS;
  pbStatus status = pb_ok;
  for (int i = 0; i < most && status == pb_ok; i++) {
    status = pbCheck_GoOn(d, "Jacobians", i, most);
    if (status == pb_ok) status = jacobian_step(d, i * d->r->plan.steps / most, A, t);
  }

  pbContext_Free(d->r->ctx, A);
  return status;
}
