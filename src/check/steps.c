// The check of a model's derivatives, single steps: <w, J d> = <J' w, d> with jvp (complex step of the same source) and vjp
// (hand-written adjoint), rows of the full Jacobians against the pullback of w, and at some steps slopes of the program. Kinks
// are found, named and left out: next to one, a difference says nothing about a derivative.
// Tests: tests/oracle/test_check.py.
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "check/check.h"

// What a step is differentiated by.
typedef enum Kind { by_states, by_controls, by_poses, by_parameters, kind_count } Kind;

static const struct {
  const char *name;
  pbBy first, last;
} kinds[kind_count] = {{"state", by_state, by_state},
                       {"control", by_ctrl, by_ctrl},
                       {"mocap poses", by_mocap_pos, by_mocap_rot},
                       {"parameters", by_theta, by_theta}};

typedef struct Tests {  // NULL: there is nothing of the kind
  pbCheckTest *dot[seen_count][kind_count], *slope[kind_count], *jacobian;
  double *A;  // room for the Jacobians
} Tests;

// ---- dot products ----------------------------------------------------------------------------------------------------

static void draw_kind(pbCheck *d, Kind kind) {
  pbVectors_Clear(&d->direction);
  for (pbBy part = kinds[kind].first; part <= kinds[kind].last; part++) pbCheck_DrawPart(d, part);
}

// How far both sides are apart, relative to the terms of both sums and, but for parameters, to a little of |w| |d|: a product of
// two orthogonal vectors is rounding alone.
static double error_of(const pbCheck *d, pbSeen seen, Kind kind, double ahead) {
  size_t n = (size_t)(seen == in_states ? d->r->n : d->r->ns);
  const double *tangent = d->tangent[seen] + (seen == in_states ? n : 0);  // of the row that has a cotangent
  double terms = 0, least = 0, back = pbCheck_GradientAlong(d, seen, &terms);
  if (kind != by_parameters) least = 1e-4 * d->norm[seen] * sqrt(pbVectors_Squared(&d->direction));
  if (!isfinite(ahead) || !isfinite(back)) return NAN;

  // the product of the norms bounds the rounding of <w, J d>
  return fabs(ahead - back) / (d->norm[seen] * pbProbe_Norm(tangent, n) + terms + least + DBL_MIN);
}

// Which parameters disagree: each alone. The direction is as before afterwards.
static pbStatus blame_parameters(pbCheck *d, pbSeen seen, pbCheckTest *t) {
  double ahead[seen_count], *direction = d->direction.of[by_theta];
  size_t size = d->r->ntheta * sizeof *direction;
  memcpy(d->theta_near, direction, size);

  for (int i = 0; i < pbModel_ParamCount(d->r->model); i++) {
    memset(direction, 0, size);
    pbTheta_Draw(d->r->model, d->theta, i, pb_drawEach, &d->rng, direction);
    PB_TRY(pbCheck_Push(d, ahead));
    if (error_of(d, seen, by_parameters, ahead[seen]) > t->limit)
      pbCheck_AddWords(t, "disagree: ", "%s", pbModel_ParamAt(d->r->model, i).name);
  }

  memcpy(direction, d->theta_near, size);
  return pbCheck_Push(d, ahead);
}

// At a kink both sides may be right: each direction of differentiation may choose another one.
static pbStatus find_excuse(pbCheck *d, pbSeen seen, double ahead, const char **excuse) {
  pbStanding found[seen_count];
  bool rounding = false;
  *excuse = NULL;

  pbCheck_Measure(d, 0, false, 1e-6, found);
  for (int k = 0; k < seen_count; k++) {
    if (found[k].known && !found[k].bent) continue;
    *excuse = pbCheck_FindKink(d);
    if (!*excuse) *excuse = pb_namelessKink;
    return pb_ok;
  }

  PB_TRY(pbCheck_IsRounding(d, seen, ahead, &rounding));
  if (rounding) *excuse = "rounding alone";
  return pb_ok;
}

static pbStatus compare_modes(pbCheck *d, Kind kind, pbSeen seen, double ahead, pbCheckTest *t) {
  const char *excuse = NULL;
  double error = error_of(d, seen, kind, ahead);
  if (error > t->limit) PB_TRY(find_excuse(d, seen, ahead, &excuse));
  if (excuse) {
    pbCheck_LeaveOut(t, NULL, excuse, d->from);
    return pb_ok;
  }

  bool before = t->holds;
  pbCheck_CountCase(t, error, d->from);
  return before && !t->holds && kind == by_parameters ? blame_parameters(d, seen, t) : pb_ok;
}

// ---- differences -----------------------------------------------------------------------------------------------------

// One direction of one step; `name` (of a parameter, or NULL) goes into the remarks.
static pbStatus compare_slopes(pbCheck *d, const char *name, pbCheckTest *t) {
  pbStanding found[seen_count];
  bool wrong;
  return pbCheck_Compare(d, &(pbComparison){.test = {t}, .name = name, .step = d->from}, found, &wrong);
}

static pbStatus compare_parameters(pbCheck *d, pbCheckTest *t) {
  for (int i = 0; i < pbModel_ParamCount(d->r->model); i++) {
    pbParam p = pbModel_ParamAt(d->r->model, i);
    double *direction = d->direction.of[by_theta];
    pbVectors_Clear(&d->direction);
    pbTheta_Draw(d->r->model, d->theta, i, pb_drawEach, &d->rng, direction);
    if (pbProbe_Moved(direction + p.offset, (size_t)p.rows * (size_t)p.cols)) PB_TRY(compare_slopes(d, p.name, t));
  }
  return pb_ok;
}

// ---- Jacobians -------------------------------------------------------------------------------------------------------

// Distance between a cotangent pulled back and w times a Jacobian (rows x cols), relative to both.
static void compare_rows(char letter, const double *w, int rows, const double *J, int cols, const double *pulled, int step,
                         pbCheckTest *t) {
  if (!rows || !cols) return;

  // entries below a part of |w| are compared with that part: less is rounding
  bool finite = true;
  double error = 0, size = 1e-4 * pbProbe_Norm(w, (size_t)rows) + DBL_MIN;
  for (int j = 0; j < cols; j++) {
    double sum = 0;
    for (int i = 0; i < rows; i++) sum += w[i] * J[(size_t)i * (size_t)cols + (size_t)j];
    error = fmax(error, fabs(sum - pulled[j]));
    size = fmax(size, fmax(fabs(sum), fabs(pulled[j])));
    finite = finite && isfinite(sum) && isfinite(pulled[j]);
  }

  error = finite ? error / size : NAN;
  pbCheck_CountCase(t, error, step);

  if (!(error <= t->limit)) pbCheck_AddWords(t, "wrong: ", "%c", letter);
}

static pbStatus compare_jacobians(pbCheck *d, double *A, pbCheckTest *t) {
  const pbRollout *r = d->r;
  size_t n = (size_t)r->n, nu = (size_t)r->nu, ns = (size_t)r->ns;
  double *B = A + n * n, *C = B + n * nu, *D = C + ns * n;
  pbInput input = pbRollout_InputAt(r, 0);

  memset(A, 0, (n + ns) * (n + nu) * sizeof *A);
  pbStatus status;
  do {
    status = pbStep_Jacobian(r->model, d->theta, pbRollout_RecordAt(r, 0), &input, d->scratch, A, B, C, D);
  } while (pbScratch_Grow(d->scratch, &status));
  if (status != pb_ok) return pbRollout_StepFailed(d->r, status, 0, pbScratch_Error(d->scratch));

  // w of the next state, and of the sensors before it
  const pbVectors *next = &d->bar[in_states], *seen = &d->bar[in_sensors];
  const double *w = d->w[in_states] + n;
  compare_rows('A', w, r->n, A, r->n, next->of[by_state], d->from, t);
  compare_rows('B', w, r->n, B, r->nu, next->of[by_ctrl], d->from, t);
  compare_rows('C', d->w[in_sensors], r->ns, C, r->n, seen->of[by_state], d->from, t);
  compare_rows('D', d->w[in_sensors], r->ns, D, r->nu, seen->of[by_ctrl], d->from, t);
  return pb_ok;
}

// ---- all steps -------------------------------------------------------------------------------------------------------

static void add_tests(pbCheck *d, Tests *t) {
  static const char *const what[seen_count] = {"step", "sensors"};
  const pbRollout *r = d->r;
  bool there[kind_count] = {true, r->nu > 0, r->nmocap > 0, true};

  for (pbSeen seen = 0; seen < (r->ns ? 2 : 1); seen++) {
    for (Kind kind = 0; kind < kind_count; kind++) {
      pbWords name = pbWords_Of("dot product, %s by %s", what[seen], kinds[kind].name);
      t->dot[seen][kind] = there[kind] ? pbCheck_AddTest(d, name.text, 1e-10) : NULL;
    }
  }

  // With deformables each row of a Jacobian is a pullback of its own. For many points that is left to the dot products.
  enum { most_rows = 400 };
  if (r->n <= most_rows || r->np == 0) t->jacobian = pbCheck_AddTest(d, "Jacobians A, B, C, D", 1e-9);

  for (Kind kind = 0; kind < kind_count; kind++) {
    pbWords name = pbWords_Of("differences, step by %s", kinds[kind].name);
    t->slope[kind] = there[kind] ? pbCheck_AddTest(d, name.text, 1e-6) : NULL;
  }
}

// sampled: the number of this step among those whose differences are taken, or -1.
static pbStatus test_step(pbCheck *d, int k, int sampled, const Tests *t) {
  PB_TRY(pbCheck_Stretch(d, k, 1));
  pbStatus status = pbCheck_DrawFunctionals(d, pb_rowsOfStep, NULL);
  if (status == pb_not_finite) pbCheck_CountCase(t->dot[in_states][by_states], NAN, k);
  PB_TRY(status);

  // these need no direction
  if (sampled >= 0 && t->jacobian) PB_TRY(compare_jacobians(d, t->A, t->jacobian));

  for (Kind kind = 0; kind < kind_count; kind++) {
    double ahead[seen_count];
    if (!t->slope[kind]) continue;

    // one direction of each kind for all comparisons
    draw_kind(d, kind);
    PB_TRY(pbCheck_Push(d, ahead));
    for (pbSeen seen = 0; seen < seen_count; seen++) {
      if (t->dot[seen][kind]) PB_TRY(compare_modes(d, kind, seen, ahead[seen], t->dot[seen][kind]));
    }
    if (sampled >= 0 && kind != by_parameters) PB_TRY(compare_slopes(d, NULL, t->slope[kind]));
  }

  // parameters are many: in every other of these steps
  return sampled >= 0 && sampled % 2 == 0 ? compare_parameters(d, t->slope[by_parameters]) : pb_ok;
}

pbStatus pbCheck_Steps(pbCheck *d) {
  const pbRollout *r = d->r;
  int most = d->steps < CHECKED_STEPS ? d->steps : CHECKED_STEPS, sampled = 0;
  Tests t = {0};
  if (pbCheck_Skips(d, pb_ofSteps)) return pb_ok;
  add_tests(d, &t);

  // of all of them: A (n, n), B (n, nu), C (ns, n), D (ns, nu)
  if (t.jacobian) t.A = pbContext_AllocArray(r->ctx, (size_t)(r->n + r->ns) * (size_t)(r->n + r->nu) + 1, sizeof *t.A);
  if (t.jacobian && !t.A) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the Jacobians of the check");

  pbStatus status = pb_ok;
  int from = pbCheck_Resume(d, pb_ofSteps);

  for (int k = 0; k < d->steps && status == pb_ok; k++) {
    bool differences = k == sampled * d->steps / most && sampled < most;
    if (k >= from) pbCheck_Mark(d, pb_ofSteps, k);
    status = pbCheck_GoOn(d, "steps", k, d->steps);
    if (status == pb_ok && k >= from) status = test_step(d, k, differences ? sampled : -1, &t);
    sampled += differences;
  }

  pbContext_Free(r->ctx, t.A);
  return status;
}
