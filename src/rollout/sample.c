// Checks of single steps on the way back, with the very numbers that the pullback has there: costates w' after the step and w
// before it, and what the step adds to the gradients of inputs and parameters. Along a direction d of state, inputs and theta,
//
//   <w', D f d> = <w, d> + <added, d>
//
// where D f d is a forward derivative (the complex program: another text than the adjoint), at the first kind of sampled step;
// or a quotient of differences of the program itself, at both kinds. What both derivatives get wrong alike only the quotient
// sees. The directions are drawn in direction.c.
// Tests: tests/unit/test_rollout.c.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "impact/impact.h"
#include "model/model.h"
#include "model/state_layout.h"
#include "rollout/sample.h"
#include "step/scratch.h"

enum { per_sample = 400, few = 200 };  // one sample of each kind for so many steps; below so many all are cheap

static double dot(const double *a, const double *b, size_t n) {
  if (!a || !b) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// The size of the terms of a product, by which its rounding is judged.
static double dot_sizes(const double *a, const double *b, size_t n) {
  if (!a || !b) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += fabs(a[i] * b[i]);
  return sum;
}

// ---- memory, and which steps -----------------------------------------------------------------------------------------
static double *take(double **next, size_t n) {
  double *piece = *next;
  *next += n;
  return piece;
}

static void find_widths(const pbRollout *r, size_t width[inputs]) {
  // Rotations of mocap bodies have as many numbers as their positions.
  const int n[inputs] = {r->nu, r->nv, 6 * r->nbody, r->ncommand, 3 * r->nmocap, 3 * r->nmocap, 6 * r->nmocap};

  for (int i = 0; i < inputs; i++) width[i] = (size_t)n[i];
}

// The gradients by inputs, in the same order.
static void input_bars(const pbRollout *r, const pbRolloutGradient *g, const double *bars[inputs]) {
  const double *all[inputs] = {g->ctrl, g->qfrc, g->xfrc, g->command, g->mocap_pos, g->mocap_rot, g->mocap_vel};

  // Velocities that poses say are checked before they are handed on to these.
  if (!r->input.mocap_vel) all[in_mocap_vel] = pbPrescribed_Wanted(r, g) ? r->mocap_rate_bar : NULL;

  memcpy(bars, all, sizeof all);
}

// Room for the parts of a direction that are wanted.
static StepVectors carve_vectors(const pbRollout *r, const pbStepCheck *s, const pbRolloutGradient *g, double **next) {
  StepVectors v = {.x = take(next, (size_t)r->n)};
  const double *wanted[inputs];

  input_bars(r, g, wanted);
  for (int i = 0; i < inputs; i++) v.input[i] = wanted[i] ? take(next, s->width[i]) : NULL;
  if (g->theta) v.theta = take(next, r->ntheta);

  return v;
}

static pbStatus allocate_sample(const pbRollout *r, const pbRolloutGradient *g, size_t drawn, pbStepCheck *s) {
  size_t n = (size_t)r->n, nx = (size_t)r->nx, ns = (size_t)r->ns, nb = 3 * (size_t)r->nbody, nsite = 3 * (size_t)r->nsite;
  size_t poses = 7 * (size_t)r->nmocap, all = 0;
  find_widths(r, s->width);
  for (int i = 0; i < inputs; i++) all += s->width[i];
  size_t one = n + all + (g->theta ? r->ntheta : 0);
  size_t total = 3 * one + all + poses + 2 * n + 5 * nx + 3 * (ns + nb + nsite) + drawn;
  s->memory = pbContext_AllocArray(r->ctx, total, sizeof(double));
  if (!s->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");

  // Three directions or cotangents, then states and outputs of the sides of a quotient.
  double *next = s->memory;
  s->direction = carve_vectors(r, s, g, &next);
  s->added = carve_vectors(r, s, g, &next);
  s->moved = carve_vectors(r, s, g, &next);
  s->input_before = take(&next, all);
  s->poses = take(&next, poses);
  s->next = take(&next, n);
  s->apart = take(&next, n);

  for (int i = 0; i < 2; i++) s->state[i] = take(&next, nx);
  for (int i = 0; i < 3; i++) {
    s->after[i] = take(&next, nx);
    s->sensor[i] = take(&next, ns);
    s->xpos[i] = take(&next, nb);
    s->site[i] = take(&next, nsite);
  }

  // Numbers of steps are the last, in room of doubles.
  s->steps = (int *)take(&next, drawn);
  PB_ASSERT(next <= s->memory + total);
  return pb_ok;
}

pbStatus pbStepCheck_Begin(pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *g, pbStepCheck **check) {
  int steps = r->plan.steps;
  int count = 1 + steps / per_sample;
  int quotients = steps < few ? 2 : steps / per_sample;
  pbStepCheck *s = *check = pbContext_Alloc(r->ctx, sizeof *s);
  if (!s) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");
  PB_TRY(allocate_sample(r, g, (size_t)(count + quotients + 4), s));

  s->gradient = g;
  s->quotients = s->steps + count + 2;
  s->rng = pbRng_Seed(options->seed);
  if (steps == 0) return pb_ok;

  // The step with most contacts is checked too, but where that would cost a rollout of few samples much.
  int crowded = steps < few || steps > 2 * per_sample ? r->forward.most_contacts_step : -1;
  s->step_count = pbStepCheck_DrawSteps(&s->rng, steps, count, crowded, s->steps);
  s->quotient_count = pbStepCheck_DrawSteps(&s->rng, steps, quotients, crowded, s->quotients);

  return pb_ok;
}

void pbStepCheck_End(const pbRollout *r, pbStepCheck *s) {
  if (!s) return;
  pbContext_Free(r->ctx, s->memory);
  pbContext_Free(r->ctx, s);
}

// ---- directions ------------------------------------------------------------------------------------------------------
static void draw_normal(pbRng *rng, double *direction, size_t n) {
  if (!direction) return;
  for (size_t i = 0; i < n; i++) direction[i] = pbRng_Normal(rng);
}

static void draw_state_and_inputs(const pbRollout *r, pbStepCheck *s) {
  draw_normal(&s->rng, s->direction.x, (size_t)r->n);
  for (int i = 0; i < inputs; i++) draw_normal(&s->rng, s->direction.input[i], s->width[i]);
}

// Parts of a direction that can be told apart by name: positions, velocities, activations, points, what a policy holds; inputs;
// fields of theta.
enum { part_qpos, part_qvel, part_act, part_points, part_policy, part_input, part_theta = part_input + inputs, part_all = -1 };

// Zero but for entries from .. to - 1.
static void keep_range(double *direction, size_t n, size_t from, size_t to) {
  if (!direction) return;

  for (size_t i = 0; i < n; i++) {
    if (i < from || i >= to) direction[i] = 0;
  }
}

static void keep_part(const pbRollout *r, const pbStepCheck *s, const StepVectors *d, int part) {
  size_t nv = (size_t)r->nv, na = (size_t)r->na, n = (size_t)r->n;
  const size_t ends[] = {0, nv, 2 * nv, 2 * nv + na, (size_t)tangent_policy(r->model), n};

  if (part == part_all) return;

  // The parts of the state, in the order of its tangent space.
  bool state = part <= part_policy;
  keep_range(d->x, n, state ? ends[part] : 0, state ? ends[part + 1] : 0);

  // Inputs.
  for (int i = 0; i < inputs; i++) {
    if (part != part_input + i) keep_range(d->input[i], s->width[i], 0, 0);
  }

  // A field of theta; of any other part nothing of theta stays.
  pbParam p = part >= part_theta ? pbModel_ParamAt(r->model, part - part_theta) : (pbParam){0};
  keep_range(d->theta, r->ntheta, p.offset, p.offset + (size_t)p.rows * (size_t)p.cols);
}

static const char *part_name(const pbRollout *r, int part) {
  static const char *const names[] = {"qpos", "qvel", "act",     "points",    "policy",    "control",
                                      "qfrc", "xfrc", "command", "mocap_pos", "mocap_rot", "mocap_vel"};
  if (part < 0) return "";
  return part < part_theta ? names[part] : pbModel_ParamAt(r->model, part - part_theta).name;
}

// ---- both sides ------------------------------------------------------------------------------------------------------
double pbStepCheck_Reverse(const StepCheck *a, const StepVectors *d, bool theta, double *size) {
  const pbRollout *r = a->r;
  const StepVectors *g = &a->s->added;
  size_t n = (size_t)r->n, nt = theta ? r->ntheta : 0;

  // State, inputs, parameters.
  *size += dot_sizes(d->x, a->w, n) + dot_sizes(d->theta, g->theta, nt);
  double sum = dot(d->x, a->w, n);

  for (int i = 0; i < inputs; i++) {
    *size += dot_sizes(d->input[i], g->input[i], a->s->width[i]);
    sum += dot(d->input[i], g->input[i], a->s->width[i]);
  }

  return sum + dot(d->theta, g->theta, nt);
}

static pbStatus failed(const StepCheck *a, pbStatus status) {
  return status == pb_ok ? status : pbRollout_StepFailed(a->r, status, a->k, pbScratch_Error(a->scratch));
}

// What the step adds to gradients of inputs and parameters, once more and by itself: sums over all steps would drown it.
static pbStatus pull_again(const StepCheck *a) {
  const pbRollout *r = a->r;
  StepVectors *g = &a->s->added;
  double *const *u = g->input;
  pbInputBar bar = {u[in_ctrl], u[in_qfrc], u[in_xfrc], u[in_command], u[in_mocap_pos], u[in_mocap_rot], u[in_mocap_vel]};
  pbEventCount count = {0};

  // From zero, by the cached evaluation where there is one.
  memset(g->x, 0, (size_t)r->n * sizeof *g->x);
  for (int i = 0; i < inputs; i++) {
    if (g->input[i]) memset(g->input[i], 0, a->s->width[i] * sizeof(double));
  }
  if (g->theta) memset(g->theta, 0, r->ntheta * sizeof *g->theta);

  const pbStepRecord step = {.model = a->m, .theta = r->theta, .record = a->record, .cached = a->cached, .input = &a->input};
  const pbStepBar out = {g->x, &bar, g->theta};
  pbStatus status;

  a->s->evaluations++;
  a->scratch->ticks = a->k;
  do {
    status = pbStep_VjpCached(&step, &(pbStepCotangent){.next = a->w_next, .observed = a->observed}, a->scratch, &out);
  } while (pbScratch_Grow(a->scratch, &status));
  a->scratch->ticks = 0;

  // As pull_step of pullback.c adds to it.
  if (status == pb_ok) pbClock_Pull(r, a->observed ? a->observed->sensordata : NULL, a->record, a->k, g->theta);
  if (status == pb_ok && r->gradient == pb_gradientEvent)
    status = pbStep_EventsVjp(&step, a->w_next, a->k == 0, a->scratch, &out, &count);
  pbSelection_Clear(r, g->theta);

  return failed(a, status);
}

// <w', D f d> by the forward derivative, with what is observed at the state.
static pbStatus forward_product(const StepCheck *a, const StepVectors *d, double *value, double *size) {
  pbRollout *r = a->r;
  pbStepCheck *s = a->s;
  const pbObservationBar none = {0}, *o = a->observed ? a->observed : &none;
  double *const *u = d->input;
  pbDirection direction = {d->x,     u[in_ctrl],      u[in_qfrc],      u[in_xfrc],     u[in_command],
                           d->theta, u[in_mocap_pos], u[in_mocap_rot], u[in_mocap_vel]};
  size_t n = (size_t)r->n, ns = (size_t)r->ns, nb = 3 * (size_t)r->nbody, nsite = 3 * (size_t)r->nsite;

  enum { as_steps = 4 };  // complex arithmetic
  memset(s->next, 0, n * sizeof(double));
  s->evaluations += as_steps;
  pbStatus status;
  a->scratch->ticks = a->k;

  do {
    status = pbStep_Jvp(a->m, r->theta, a->record, &a->input, &direction, a->scratch, s->next,
                        o->sensordata ? s->sensor[0] : NULL, o->xpos ? s->xpos[0] : NULL, o->site_xpos ? s->site[0] : NULL);
  } while (pbScratch_Grow(a->scratch, &status));
  a->scratch->ticks = 0;
  if (status == pb_ok) pbClock_Push(r, d->theta, a->record, a->k, o->sensordata ? s->sensor[0] : NULL);

  // The correction for the times of events reads a step that was just made.
  if (status == pb_ok && r->gradient == pb_gradientEvent) {
    memcpy(s->after[2], a->record, (size_t)r->nx * sizeof(double));
    status = pbStep_Forward(a->m, r->theta, s->after[2], &a->input, a->scratch, NULL);
    const pbStepRecord step = {.model = a->m, .theta = r->theta, .record = a->record, .input = &a->input};
    if (status == pb_ok) status = pbStep_EventsJvp(&step, s->after[2], &direction, a->k == 0, a->scratch, s->next);
  }

  // Paired with the costate after the step and with what the caller gave for outputs.
  *value = dot(a->w_next, s->next, n) + dot(o->sensordata, s->sensor[0], ns) + dot(o->xpos, s->xpos[0], nb) +
           dot(o->site_xpos, s->site[0], nsite);
  *size += dot_sizes(a->w_next, s->next, n) + dot_sizes(o->sensordata, s->sensor[0], ns) + dot_sizes(o->xpos, s->xpos[0], nb) +
           dot_sizes(o->site_xpos, s->site[0], nsite);

  return failed(a, status);
}

// ---- findings --------------------------------------------------------------------------------------------------------
// Notes the worst so far, by how far it is beyond what is allowed. Whether this is it, and off.
static bool worst_is_off(const StepCheck *a, pbCertificate *c, double gradient, double other, double error, double limit) {
  bool off = !(error <= limit);
  bool worse = error * c->spot_limit > c->spot_error * limit;
  if (c->spot_step >= 0 && (c->spot_off || !off) && !worse) return false;

  // One that is off outranks every one that is not.
  c->spot_gradient = gradient;
  c->spot_difference = other;
  c->spot_error = error;
  c->spot_limit = limit;
  c->spot_step = a->k;
  c->spot_off = off;
  c->spot_where[0] = c->spot_row[0] = 0;

  return off;
}

// How far a direction is off: against differences or the forward derivative. False: the forward derivative failed.
static bool measure_gap(const StepCheck *a, const StepVectors *d, bool by_quotient, double *gap) {
  if (by_quotient) {
    Quotient q = {0};
    *gap = pbStepCheck_Compare(a, d, true, &q) == differs ? fabs(q.value - q.gradient) : 0;
    return true;
  }

  double size = 0, value = 0;
  double back = pbStepCheck_Reverse(a, d, true, &size);
  if (forward_product(a, d, &value, &size) != pb_ok) return false;
  *gap = fabs(value - back);
  return true;
}

// Names the constraint that pushes most at this step.
static void name_strongest_row(const StepCheck *a, pbCertificate *c) {
  double *x = a->s->after[2];
  memcpy(x, a->record, (size_t)a->r->nx * sizeof(double));
  if (pbStep_Forward(a->m, a->r->theta, x, &a->input, a->scratch, NULL) == pb_ok)
    pbScratch_StrongestRow(a->scratch, c->spot_row, sizeof c->spot_row);
}

// Which part of the direction is off most: each alone. by_quotient: against differences.
static void find_worst_part(const StepCheck *a, const StepVectors *d, bool by_quotient, pbCertificate *c) {
  pbRollout *r = a->r;
  int parts = part_theta + (d->theta ? pbModel_ParamCount(r->model) : 0), worst = part_all;
  double most = 0;
  size_t n = (size_t)(a->s->added.x - a->s->direction.x);  // numbers of a direction
  double *whole = a->s->direction.x;
  PB_ASSERT(n > 0 && d->x == whole);
  double *copy = pbContext_AllocArray(r->ctx, n, sizeof *copy);
  if (!copy) return;
  memcpy(copy, whole, n * sizeof *copy);

  // The direction itself is cut down to the part, and restored afterwards.
  for (int part = 0; part < parts; part++) {
    double gap;
    memcpy(whole, copy, n * sizeof *copy);
    keep_part(r, a->s, d, part);
    if (!measure_gap(a, d, by_quotient, &gap)) break;
    if (!(gap > most)) continue;
    most = gap;
    worst = part;
  }

  memcpy(whole, copy, n * sizeof *copy);
  pbContext_Free(r->ctx, copy);
  snprintf(c->spot_where, sizeof c->spot_where, "%s", part_name(r, worst));
  name_strongest_row(a, c);
}

// What rounding may do: a solve with a matrix of condition number k loses as many digits. Hard contact and deformables tell none:
// half of the digits.
static double allowed_by_rounding(const StepCheck *a) {
  const pbRollout *r = a->r;
  double half = sqrt(DBL_EPSILON), terms = 16 * (double)(r->n + r->nu + a->scratch->w.nrow);

  if (r->model->deform || pb_hard(a->m) || a->scratch->impacts) return half;

  // One rounding for each term that enters, amplified by the solve.
  return fmin(half, DBL_EPSILON * terms * pbScratch_Condition(a->scratch));
}

static pbStatus check_forward(const StepCheck *a, pbCertificate *c) {
  pbStepCheck *s = a->s;
  double value, size = 0, other = 0, limit = allowed_by_rounding(a);
  draw_state_and_inputs(a->r, s);
  pbRollout_DrawTheta(a->r, &s->rng, false, s->direction.theta);

  PB_TRY(forward_product(a, &s->direction, &value, &size));
  double back = pbStepCheck_Reverse(a, &s->direction, true, &other);
  double error = size + other > 0 ? fabs(value - back) / (size + other) : 0;
  c->spot_steps++;
  if (worst_is_off(a, c, back, value, error, limit)) find_worst_part(a, &s->direction, false, c);

  return pb_ok;
}

// State and inputs of a direction together to length one: the moves of a quotient are lengths.
static void normalize(const pbRollout *r, const pbStepCheck *s) {
  const StepVectors *d = &s->direction;
  size_t n = (size_t)r->n;
  double sum = dot(d->x, d->x, n);

  for (int i = 0; i < inputs; i++) sum += dot(d->input[i], d->input[i], s->width[i]);
  if (!(sum > 0)) return;

  // All by the same length.
  for (size_t k = 0; k < n; k++) d->x[k] /= sqrt(sum);

  for (int i = 0; i < inputs; i++) {
    size_t width = d->input[i] ? s->width[i] : 0;
    for (size_t k = 0; k < width; k++) d->input[i][k] /= sqrt(sum);
  }
}

// Nothing can be said here: neither for the gradient nor against it.
static void leave_out(const StepCheck *a, Verdict why, pbCertificate *c) {
  pbCertificate_NoteTie(c, a->r, a->record, &a->input, a->k);
  if (c->spot_tie_step == a->k) why = at_tie;

  c->spot_left_out++;
  c->spot_left_kink += why == at_kink;
  c->spot_left_tie += why == at_tie;
  c->spot_left_noise += why == in_noise;
}

// theta too where it is there and stays on its branch. Whether anything was compared.
static bool check_quotient(const StepCheck *a, bool theta, pbCertificate *c) {
  pbStepCheck *s = a->s;
  Quotient q = {0};
  draw_state_and_inputs(a->r, s);
  normalize(a->r, s);
  StepVectors direction = s->direction;
  if (theta) pbRollout_DrawTheta(a->r, &s->rng, true, s->direction.theta);
  else direction.theta = NULL;

  // Many parameters have kinks: where the direction meets one, state and inputs are compared without them.
  Verdict v = pbStepCheck_Compare(a, &direction, theta, &q);

  if (v > differs && theta) {
    direction.theta = NULL;
    v = pbStepCheck_Compare(a, &direction, false, &q);
  }

  if (v > differs) {
    leave_out(a, v, c);
    return false;
  }

  c->spot_quotients++;
  c->spot_steps_share = (double)c->spot_quotients / a->r->plan.steps;
  c->spot_entries_share = fmax(c->spot_entries_share, pbStepCheck_MovedShare(a, &direction));
  if (worst_is_off(a, c, q.gradient, q.value, q.error, q.limit)) find_worst_part(a, &direction, true, c);

  return true;
}

// ---- on the way back -------------------------------------------------------------------------------------------------
static bool next_is(const int *steps, int count, int k) { return count > 0 && steps[count - 1] == k; }

// The rows of the inputs' gradients that step k adds to; NULL: not wanted.
static void find_input_rows(const pbRollout *r, const pbStepCheck *s, int k, const double *rows[inputs]) {
  size_t row = r->input.constant || k == 0 ? 0 : (size_t)k;

  input_bars(r, s->gradient, rows);
  for (int i = 0; i < inputs; i++) {
    bool alone = i == in_mocap_vel && !r->input.mocap_vel;
    if (rows[i] && !alone) rows[i] += row * s->width[i];
  }
}

// Notes what the inputs' gradients hold before a sampled step.
void pbStepCheck_Before(pbRollout *r, pbStepCheck *s, int k) {
  const double *rows[inputs];
  double *to = s->input_before;

  if (!next_is(s->steps, s->step_count, k) && !next_is(s->quotients, s->quotient_count, k)) return;
  find_input_rows(r, s, k, rows);

  // Of the rows that the step will add to.
  for (int i = 0; i < inputs; to += s->width[i], i++) {
    if (rows[i]) memcpy(to, rows[i], s->width[i] * sizeof *to);
  }
}

// What the step added to the rows of its inputs, by difference.
static void added_inputs(const StepCheck *a) {
  const double *rows[inputs], *before = a->s->input_before;

  find_input_rows(a->r, a->s, a->k, rows);
  for (int i = 0; i < inputs; before += a->s->width[i], i++) {
    size_t width = rows[i] ? a->s->width[i] : 0;
    for (size_t k = 0; k < width; k++) a->s->added.input[i][k] = rows[i][k] - before[k];
  }
}

pbStatus pbStepCheck_Step(pbRollout *r, pbStepCheck *s, int k, const double *record, void *cached,
                          const pbObservationBar *observed, bool events, pbCertificate *c) {
  PB_ASSERT(k >= 0 && k < r->plan.steps);
  PB_ASSERT(s->step_count == 0 || s->steps[s->step_count - 1] <= k);
  bool smooth = r->gradient == pb_gradientSmooth;
  bool both = next_is(s->steps, s->step_count, k) || (events && !s->event_seen);
  bool differences = next_is(s->quotients, s->quotient_count, k);
  if (next_is(s->steps, s->step_count, k)) s->step_count--;

  // A policy without a forward derivative leaves quotients alone.
  differences = differences || (both && !pbPolicy_Pushes(r->model));
  both = both && pbPolicy_Pushes(r->model);
  if (next_is(s->quotients, s->quotient_count, k)) s->quotient_count--;
  if (!both && !differences) return pb_ok;

  StepCheck a = {.r = r,
                 .s = s,
                 .m = smooth ? r->smooth : r->model,
                 .scratch = smooth ? r->smooth_scratch : r->scratch,
                 .record = smooth ? r->smooth_record : record,
                 .cached = smooth ? NULL : cached,
                 .observed = observed,
                 .w_next = r->costate,
                 .w = r->costate_before,
                 .input = pbRollout_InputAt(r, k),
                 .k = k,
                 .events = events};

  // Where the step is pulled back once more anyway, its share is there without the rounding of sums.
  if (both) PB_TRY(pull_again(&a));
  else added_inputs(&a);
  if (both) PB_TRY(check_forward(&a, c));

  // Of a step corrected for its events a quotient of one step is no truth: there the forward derivative is.
  bool impact = events || pbImpacts_Recorded(r->scratch, record);
  bool compared = both && impact;
  if (!events) compared |= check_quotient(&a, both && s->added.theta, c);
  s->event_seen |= events;

  // Which kinds of steps were checked: pbCertificate_Checked.
  if (compared) c->spot_part |= impact ? pb_partImpacts : pb_partSteps;
  c->spot_evaluations = s->evaluations;

  c->spot_checked |= compared || c->spot_off;

  return pb_ok;
}
