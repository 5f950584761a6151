// Checks of single steps on the way back, with the very numbers that the pullback has there: costates w' after the step and w
// before it, and what the step adds to the gradients of inputs and parameters. Along a direction d of state, inputs and theta,
//
//   <w', D f d> = <w, d> + <added, d>
//
// where D f d is a forward derivative (the complex program: another text than the adjoint), at the first kind of sampled step;
// or a quotient of differences of the program itself, at both kinds. What both derivatives get wrong alike only the quotient
// sees.
// Tests: tests/unit/test_rollout.c.
#include "rollout/sample.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "impact/impact.h"
#include "model/model.h"
#include "model/state_layout.h"
#include "step/scratch.h"

enum { per_sample = 400, few = 200 };  // one sample of each kind for so many steps; below so many all are cheap

// ---- memory, and which steps -----------------------------------------------------------------------------------------
// The gradients that step k adds to, row by row.
static pbVectors gradient_rows(const pbRollout *r, const pbStepCheck *s, int k) {
  const pbInputBar bar = pbRollout_InputBarAt(r, s->gradient, k);
#define X(name) [by_##name] = bar.name,
  pbVectors row = {.of = {PB_ACTING(X)}};
#undef X
  pbVectors_Widths(r, row.size);
  return row;
}

static void lay_out(pbArena *a, void *check) {
  pbStepCheck *s = check;
  const pbRollout *r = s->moved.r;
  pbVectors wanted = gradient_rows(r, s, 0);

  // State, and theta and those inputs that a gradient is wanted by.
  for (pbBy i = by_ctrl; i < by_theta; i++) wanted.size[i] = wanted.of[i] ? wanted.size[i] : 0;
  if (!s->gradient->theta) wanted.size[by_theta] = 0;
  pbVectors_LayOut(a, wanted.size, &s->direction);
  pbVectors_LayOut(a, wanted.size, &s->added);
  pbVectors_LayOut(a, wanted.size, &s->aside);
  wanted.size[by_state] = wanted.size[by_theta] = 0;
  pbVectors_LayOut(a, wanted.size, &s->before);

  pbMoved_LayOut(a, &s->moved);
  s->next = pbArena_Take(a, (size_t)r->n, sizeof *s->next);
  s->x = pbArena_Take(a, (size_t)r->nx, sizeof *s->x);
  s->steps = pbArena_Take(a, (size_t)s->most_drawn, sizeof *s->steps);
  s->quotients = pbArena_Take(a, (size_t)s->most_drawn, sizeof *s->quotients);
}

// One step of each of `count` stretches of equal length, at random, and the one given (-1: none): ascending, how many.
static int draw_steps(pbRng *rng, int steps, int count, int one, int *out) {
  PB_ASSERT(steps > 0 && one < steps);
  int n = 0;

  for (int i = 0; i < count; i++) {
    // Stratified: at random within its stretch.
    int k = (int)((i + pbRng_Uniform(rng)) * steps / count);
    if (k >= steps) k = steps - 1;

    // The given one takes its position among the others.
    if (one >= 0 && one <= k) {
      if (one < k) out[n++] = one;
      one = -1;
    }

    if (n == 0 || out[n - 1] < k) out[n++] = k;
  }

  if (one >= 0) out[n++] = one;
  PB_ASSERT(n <= count + 1);
  PB_VALIDATE(pb_ascending(out, n) && pb_allWithin(out, n, 0, steps));
  return n;
}

pbStatus pbStepCheck_Begin(pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *g, pbStepCheck **check) {
  int steps = r->plan.steps;
  int count = 1 + steps / per_sample;
  int quotients = steps < few ? 2 : steps / per_sample;
  pbStepCheck *s = *check = pbContext_Alloc(r->ctx, sizeof *s);
  if (!s) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");

  *s = (pbStepCheck){.gradient = g, .rng = pbRng_Seed(options->seed), .most_drawn = 2 + (count > quotients ? count : quotients)};
  s->moved.r = r;
  s->memory = pbArena_Make(r->ctx, lay_out, s);
  if (!s->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");
  if (steps == 0) return pb_ok;

  // The step with most contacts is checked too, but where that would cost a rollout of few samples much.
  int crowded = steps < few || steps > 2 * per_sample ? r->forward.most_contacts_step : -1;
  s->step_count = draw_steps(&s->rng, steps, count, crowded, s->steps);
  s->quotient_count = draw_steps(&s->rng, steps, quotients, crowded, s->quotients);

  return pb_ok;
}

void pbStepCheck_End(const pbRollout *r, pbStepCheck *s) {
  if (!s) return;
  pbContext_Free(r->ctx, s->memory);
  pbContext_Free(r->ctx, s);
}

void pbStepCheck_Save(const pbStepCheck *s, double *out) {
  pbRng_Save(&s->rng, out);
  out[PB_RNG_DOUBLES] = s->step_count;
  out[PB_RNG_DOUBLES + 1] = s->quotient_count;
  out[PB_RNG_DOUBLES + 2] = s->event_seen;
  out[PB_RNG_DOUBLES + 3] = (double)s->moved.evaluations;
}

// As many as are left of those that were drawn, whatever a file says.
static int left_of(double count, int drawn) { return count >= 0 && count <= drawn ? (int)count : drawn; }

void pbStepCheck_Load(pbStepCheck *s, const double *in) {
  if (pbRng_Fits(in)) s->rng = pbRng_Load(in);
  s->step_count = left_of(in[PB_RNG_DOUBLES], s->step_count);
  s->quotient_count = left_of(in[PB_RNG_DOUBLES + 1], s->quotient_count);
  s->event_seen = in[PB_RNG_DOUBLES + 2] != 0;
  double evaluations = in[PB_RNG_DOUBLES + 3];
  s->moved.evaluations = evaluations >= 0 && evaluations < 1e15 ? (int64_t)evaluations : 0;
}

// ---- parts of a direction --------------------------------------------------------------------------------------------
// Entries from .. to - 1 of a vector, which can be told apart by name.
typedef struct Part {
  const char *name;
  pbBy by;
  size_t from, to;
} Part;

// Positions, velocities, activations, points, samples, what a policy holds; inputs; fields of theta. False: there are no more.
static bool part_at(const pbRollout *r, const pbVectors *d, int number, Part *part) {
  enum { of_state = 6, acting = of_state + by_mocap_vel - by_ctrl + 1 };
  static const char *const names[acting] = {"qpos", "qvel", "act",     "points",    "history",   "policy",   "control",
                                            "qfrc", "xfrc", "command", "mocap_pos", "mocap_rot", "mocap_vel"};
  size_t nv = (size_t)r->nv, na = (size_t)r->na, points = (size_t)tangent_history(r->model);
  const size_t ends[] = {0, nv, 2 * nv, 2 * nv + na, points, (size_t)tangent_policy(r->model), (size_t)r->n};

  // The parts of the state are in the order of its tangent space.
  if (number < of_state) {
    *part = (Part){names[number], by_state, ends[number], ends[number + 1]};
  } else if (number < acting) {
    pbBy by = (pbBy)(by_ctrl + number - of_state);
    *part = (Part){names[number], by, 0, d->size[by]};
  } else {
    if (number - acting >= pbModel_ParamCount(r->model)) return false;
    pbParam p = pbModel_ParamAt(r->model, number - acting);
    *part = (Part){p.name, by_theta, p.offset, p.offset + (size_t)p.rows * (size_t)p.cols};
  }
  return true;
}

// ---- both sides ------------------------------------------------------------------------------------------------------
static pbStepRecord record_of(const StepCheck *a) {
  return (pbStepRecord){.model = a->m, .theta = a->r->theta, .record = a->record, .cached = a->cached, .input = &a->input};
}

// What the step adds to gradients of inputs and parameters, once more and by itself: sums over all steps would drown it.
static pbStatus pull_again(const StepCheck *a) {
  const pbVectors *g = &a->s->added;
  pbInputBar bar = pbVectors_InputBar(g);
  pbEventCount events = {0};
  pbStepRecord step = record_of(a);

  // From zero, by the cached evaluation where there is one.
  pbVectors_Clear(g);
  a->s->moved.evaluations++;
  PB_TRY(pbRollout_PullOne(a->r, a->scratch, a->k, &step, &(pbStepCotangent){.next = a->w_next, .observed = a->observed},
                           &(pbStepBar){g->of[by_state], &bar, g->of[by_theta]}, &events));
  pbSelection_Clear(a->r, g->of[by_theta]);
  return pb_ok;
}

// <w', D f d> by the forward derivative, with what is observed at the state.
static pbStatus forward_product(const StepCheck *a, const pbVectors *d, double *value, double *size) {
  enum { as_steps = 4 };  // complex arithmetic
  pbRollout *r = a->r;
  pbStepCheck *s = a->s;
  const pbSide *seen = &s->moved.side[0];
  const pbObservationBar none = {0}, *o = a->observed ? a->observed : &none;
  const struct {
    const double *w;
    double *tangent;
    size_t n;
  } pairs[] = {{a->w_next, s->next, (size_t)r->n},
               {o->sensordata, seen->sensor, (size_t)r->ns},
               {o->xpos, seen->xpos, 3 * (size_t)r->nbody},
               {o->site_xpos, seen->site, 3 * (size_t)r->nsite}};

  // The correction for the times of events reads a step that was just made.
  s->moved.evaluations += as_steps;
  memcpy(s->x, a->record, (size_t)r->nx * sizeof(double));
  if (r->gradient == pb_gradientEvent) {
    pbStatus status = pbStep_Forward(a->m, r->theta, s->x, &a->input, a->scratch, NULL);
    if (status != pb_ok) return pbRollout_StepFailed(r, status, a->k, pbScratch_Error(a->scratch));
  }

  // What nothing is asked of is not pushed.
  memset(s->next, 0, (size_t)r->n * sizeof(double));
  double *asked[4];
  for (int i = 0; i < 4; i++) asked[i] = pairs[i].w ? pairs[i].tangent : NULL;
  const pbStepTangent out = {asked[0], asked[1], asked[2], asked[3]};
  pbDirection direction = pbVectors_Direction(d);
  pbStepRecord step = record_of(a);
  PB_TRY(pbRollout_PushOne(r, a->scratch, a->k, &step, a->record, s->x, &direction, &out));

  // Paired with the costate after the step and with what the caller gave for outputs.
  *value = 0;
  for (int i = 0; i < 4; i++) {
    *value += pbProbe_Dot(pairs[i].w, pairs[i].tangent, pairs[i].n);
    *size += pbProbe_Terms(pairs[i].w, pairs[i].tangent, pairs[i].n);
  }
  return pb_ok;
}

// ---- findings --------------------------------------------------------------------------------------------------------
// Notes the worst so far, by how far it is beyond what is allowed. Whether this is it, and off.
static bool worst_is_off(const StepCheck *a, pbCertificate *c, const pbJudgement *q) {
  bool off = !(q->error <= q->limit);
  bool worse = q->error * c->spot_limit > c->spot_error * q->limit;
  if (c->spot_step >= 0 && (c->spot_off || !off) && !worse) return false;

  // One that is off outranks every one that is not.
  c->spot_gradient = q->gradient;
  c->spot_difference = q->value;
  c->spot_error = q->error;
  c->spot_limit = q->limit;
  c->spot_step = a->k;
  c->spot_off = off;
  c->spot_where[0] = c->spot_row[0] = 0;

  return off;
}

// How far a direction is off: against differences or the forward derivative.
static pbStatus measure_gap(const StepCheck *a, const pbVectors *d, bool by_quotient, double *gap) {
  pbJudgement q;
  double size = 0, value = 0;
  if (by_quotient) {
    PB_TRY(pbStepCheck_Compare(a, d, &q));
    *gap = q.verdict == pb_differs ? fabs(q.value - q.gradient) : 0;
    return pb_ok;
  }

  PB_TRY(forward_product(a, d, &value, &size));
  *gap = fabs(value - pbVectors_Dot(&a->s->added, d, NULL));
  return pb_ok;
}

// Names the constraint that pushes most at this step.
static void name_strongest_row(const StepCheck *a, pbCertificate *c) {
  double *x = a->s->x;
  memcpy(x, a->record, (size_t)a->r->nx * sizeof(double));
  if (pbStep_Forward(a->m, a->r->theta, x, &a->input, a->scratch, NULL) == pb_ok)
    pbScratch_StrongestRow(a->scratch, c->spot_row, sizeof c->spot_row);
}

// Which part of the direction is off most: each alone. by_quotient: against differences.
static pbStatus find_worst_part(const StepCheck *a, const pbVectors *d, bool by_quotient, pbCertificate *c) {
  const pbVectors *whole = &a->s->aside;
  const char *worst = "";
  double most = 0, gap = 0;
  pbStatus status = pb_ok;
  Part p;
  pbVectors_Copy(d, whole);

  // The direction itself is cut down to the part, and restored afterwards.
  for (int i = 0; status == pb_ok && part_at(a->r, d, i, &p); i++) {
    if (!d->of[p.by]) continue;
    pbVectors_Clear(d);
    memcpy(d->of[p.by] + p.from, whole->of[p.by] + p.from, (p.to - p.from) * sizeof(double));
    status = measure_gap(a, d, by_quotient, &gap);
    if (status != pb_ok || !(gap > most)) continue;
    most = gap;
    worst = p.name;
  }

  pbVectors_Copy(whole, d);
  snprintf(c->spot_where, sizeof c->spot_where, "%s", worst);
  name_strongest_row(a, c);
  return status == pb_no_memory ? status : pb_ok;
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
  pbJudgement q = {.limit = allowed_by_rounding(a)};
  double size = 0, other = 0;
  pbVectors_DrawNormals(&s->direction, &s->rng);
  pbRollout_DrawTheta(a->r, &s->rng, pb_drawAll, s->direction.of[by_theta]);

  PB_TRY(forward_product(a, &s->direction, &q.value, &size));
  q.gradient = pbVectors_Dot(&s->added, &s->direction, &other);
  q.error = size + other > 0 ? fabs(q.value - q.gradient) / (size + other) : 0;
  c->spot_steps++;
  return worst_is_off(a, c, &q) ? find_worst_part(a, &s->direction, false, c) : pb_ok;
}

// Nothing can be said here: neither for the gradient nor against it.
static pbStatus leave_out(const StepCheck *a, pbAgreement why, pbCertificate *c) {
  PB_TRY(pbCertificate_NoteTie(c, a->r, a->record, &a->input, a->k));
  pbCertificate_LeaveOut(c, c->spot_tie_step == a->k ? pb_atTie : why);
  return pb_ok;
}

// theta too where it is there and stays on its branch. *compared: whether anything was.
static pbStatus check_quotient(const StepCheck *a, bool theta, bool *compared, pbCertificate *c) {
  pbStepCheck *s = a->s;
  pbJudgement q;

  // State and inputs together to length one: the moves of a quotient are lengths.
  pbVectors direction = s->direction;
  if (!theta) direction.of[by_theta] = NULL;
  pbRollout_DrawUnit(a->r, &s->rng, &direction);

  // Many parameters have kinks: where the direction meets one, state and inputs are compared without them.
  PB_TRY(pbStepCheck_Compare(a, &direction, &q));
  if (q.verdict > pb_differs && theta) {
    direction.of[by_theta] = NULL;
    PB_TRY(pbStepCheck_Compare(a, &direction, &q));
  }

  if (q.verdict > pb_differs) return leave_out(a, q.verdict, c);

  *compared = true;
  c->spot_quotients++;
  c->spot_steps_share = (double)c->spot_quotients / a->r->plan.steps;
  c->spot_entries_share = fmax(c->spot_entries_share, pbRollout_MovedShare(a->r, &direction, s->gradient->theta));
  return worst_is_off(a, c, &q) ? find_worst_part(a, &direction, true, c) : pb_ok;
}

// ---- on the way back -------------------------------------------------------------------------------------------------
static bool next_is(const int *steps, int count, int k) { return count > 0 && steps[count - 1] == k; }

// Notes what the inputs' gradients hold before a sampled step.
void pbStepCheck_Before(pbRollout *r, pbStepCheck *s, int k) {
  if (!next_is(s->steps, s->step_count, k) && !next_is(s->quotients, s->quotient_count, k)) return;

  // Of the rows that the step will add to.
  pbVectors rows = gradient_rows(r, s, k);
  pbVectors_Copy(&rows, &s->before);
}

// What the step added to the rows of its inputs, by difference.
static void added_inputs(const StepCheck *a) {
  pbVectors rows = gradient_rows(a->r, a->s, a->k);

  for (pbBy i = by_ctrl; i < by_theta; i++) {
    size_t width = rows.of[i] ? rows.size[i] : 0;
    for (size_t k = 0; k < width; k++) a->s->added.of[i][k] = rows.of[i][k] - a->s->before.of[i][k];
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
                 .input = pbRollout_InputAt(r, k),
                 .k = k};
  s->moved.model = a.m;
  s->moved.scratch = a.scratch;

  // Where the step is pulled back once more anyway, its share is there without the rounding of sums. By the state it is the
  // costate before it.
  if (both) PB_TRY(pull_again(&a));
  else added_inputs(&a);
  memcpy(s->added.of[by_state], r->costate_before, (size_t)r->n * sizeof(double));
  if (both) PB_TRY(check_forward(&a, c));

  // Of a step corrected for its events a quotient of one step is no truth: there the forward derivative is.
  bool impact = events || pbImpacts_Recorded(r->scratch, record);
  bool compared = both && impact;
  if (!events) PB_TRY(check_quotient(&a, both && s->added.of[by_theta], &compared, c));
  s->event_seen |= events;

  // Which kinds of steps were checked: pbCertificate_Checked.
  if (compared) c->spot_part |= impact ? pb_partImpacts : pb_partSteps;
  c->spot_evaluations = s->moved.evaluations;

  c->spot_checked |= compared || c->spot_off;

  return pb_ok;
}
