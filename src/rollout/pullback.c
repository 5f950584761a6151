// The pullback of a rollout: the schedule's Reverse actions, each step's own pullback, and the checks of what comes out.
// Forward and the actions in between: rollout.c. Tests: tests/unit/test_rollout.c, tests/unit/test_kinks.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "couple/deform_step.h"
#include "base/assert.h"
#include "base/context.h"
#include "impact/impact.h"
#include "model/model.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

// ---- cotangents -----------------------------------------------------------------------------------------------------
const double *pbCotangent_At(const pbCotangent *c, int width, int k, int steps) {
  if (!c->data || c->count == 0 || width == 0) return NULL;
  PB_ASSERT(k >= 0 && k <= steps);
  PB_ASSERT(c->steps || c->count == 1 || c->count == steps + 1);

  // Without steps: the final state alone, or every state.
  if (!c->steps) {
    if (c->count == 1) return k == steps ? c->data : NULL;
    return c->data + (size_t)k * (size_t)width;
  }

  int row = pbRows_Find(c->steps, c->count, k);
  return row < 0 ? NULL : c->data + (size_t)row * (size_t)width;
}

static pbStatus check_cotangent(const pbRollout *r, const pbCotangent *c, const char *name) {
  if (!c->data) return pb_ok;
  if (c->count < 0) return pbContext_Fail(r->ctx, pb_bad_argument, "cotangent of %s: a negative number of rows", name);

  if (!c->steps) {
    if (c->count <= 1 || c->count == r->plan.steps + 1) return pb_ok;
    return pbContext_Fail(r->ctx, pb_bad_argument, "cotangent of %s: expected 1 row (final state) or %d (every state), found %d",
                          name, r->plan.steps + 1, c->count);
  }

  for (int i = 0; i < c->count; i++) {
    int least = i ? c->steps[i - 1] + 1 : 0;
    if (c->steps[i] < least || c->steps[i] > r->plan.steps)
      return pbContext_Fail(r->ctx, pb_bad_argument, "cotangent of %s: step %d of row %d is not ascending in 0 .. %d", name,
                            c->steps[i], i, r->plan.steps);
  }

  return pb_ok;
}

pbStatus pbRolloutBar_Check(const pbRollout *r, const pbRolloutBar *bar) {
  PB_TRY(check_cotangent(r, &bar->qpos, "qpos"));
  PB_TRY(check_cotangent(r, &bar->qvel, "qvel"));
  PB_TRY(check_cotangent(r, &bar->act, "act"));
  PB_TRY(check_cotangent(r, &bar->sensordata, "sensordata"));
  PB_TRY(check_cotangent(r, &bar->xpos, "xpos"));
  PB_TRY(check_cotangent(r, &bar->points, "points"));
  PB_TRY(check_cotangent(r, &bar->point_velocity, "point_velocity"));
  PB_TRY(check_cotangent(r, &bar->x, "x"));

  return check_cotangent(r, &bar->site_xpos, "site_xpos");
}

// out += in; NULL counts as zero.
static void add(double *out, const double *in, int n) {
  if (!in) return;
  for (int i = 0; i < n; i++) out[i] += in[i];
}

static bool observed_at(const pbRollout *r, const pbRolloutBar *bar, int k, pbObservationBar *observed) {
  int steps = r->plan.steps;

  // NULL where state k has no cotangent.
  observed->sensordata = pbCotangent_At(&bar->sensordata, r->ns, k, steps);
  observed->xpos = pbCotangent_At(&bar->xpos, 3 * r->nbody, k, steps);
  observed->site_xpos = pbCotangent_At(&bar->site_xpos, 3 * r->nsite, k, steps);

  return observed->sensordata || observed->xpos || observed->site_xpos;
}

// What the caller's cotangents say of the state itself, in the order of its tangent space.
static void add_direct(const pbRollout *r, const pbRolloutBar *bar, int k, double *x_bar) {
  int steps = r->plan.steps;

  // Order of the tangent space: positions, velocities, activations, points, their velocities.
  add(x_bar, pbCotangent_At(&bar->qpos, r->nv, k, steps), r->nv);
  add(x_bar + r->nv, pbCotangent_At(&bar->qvel, r->nv, k, steps), r->nv);
  add(x_bar + 2 * r->nv, pbCotangent_At(&bar->act, r->na, k, steps), r->na);

  double *points = x_bar + 2 * r->nv + r->na;
  add(points, pbCotangent_At(&bar->points, r->np, k, steps), r->np);
  add(points + r->np, pbCotangent_At(&bar->point_velocity, r->np, k, steps), r->np);
  add(x_bar, pbCotangent_At(&bar->x, r->n, k, steps), r->n);
}

static double *row_bar(double *data, int k, int width) { return data ? data + (size_t)k * (size_t)width : NULL; }

pbInputBar pbRollout_InputBarAt(const pbRollout *r, const pbRolloutGradient *g, int k) {
  if (r->plan.steps == 0 && !r->input.constant) return (pbInputBar){0};

  k = pbRollout_InputRow(r, k);
  // Velocities that are not given are the caller's poses'.
  double *velocity = row_bar(r->input.mocap_vel ? g->mocap_vel : NULL, k, 6 * r->nmocap);
  if (pbPrescribed_Wanted(r, g)) velocity = r->mocap_rate_bar;
  return (pbInputBar){.ctrl = row_bar(g->ctrl, k, r->nu),
                      .qfrc = row_bar(g->qfrc, k, r->nv),
                      .xfrc = row_bar(g->xfrc, k, 6 * r->nbody),
                      .command = row_bar(g->command, k, r->ncommand),
                      .mocap_pos = row_bar(g->mocap_pos, k, 3 * r->nmocap),
                      .mocap_rot = row_bar(g->mocap_rot, k, 3 * r->nmocap),
                      .mocap_vel = velocity};
}

static void count_events(int64_t *all, int *first, int here, int k) {
  *all += here;
  if (here) *first = k;  // steps come from the last to the first
}

// What the correction for the times of events found at step k.
static void note_events(const pbEventCount *here, int k, pbCertificate *c) {
  count_events(&c->events, &c->event_step, here->corrected, k);
  count_events(&c->grazing, &c->grazing_step, here->grazing, k);
  count_events(&c->simultaneous, &c->simultaneous_step, here->together, k);
  if (here->grazing) memcpy(c->grazing_contact, here->grazing_name, sizeof c->grazing_contact);
  if (here->together) memcpy(c->simultaneous_contact, here->together_name, sizeof c->simultaneous_contact);
}

// With a path that accelerates an impact that comes later throws otherwise, by the acceleration times what the time moves: no
// branch of a step knows that, whatever the time step.
static void note_led(const pbRollout *r, const pbEventCount *here, int k, pbCertificate *c) {
  if (!here->led || !pbPrescribed_Bends(r, k, here->led_by)) return;
  count_events(&c->grazing, &c->grazing_step, here->led, k);
  snprintf(c->grazing_contact, sizeof c->grazing_contact, "%.120s, led by a path that accelerates", here->led_name);
}

// Steps come from the last to the first.
static void note_tie(pbScratch *s, int k, pbCertificate *c) {
  char pair[sizeof c->tie_contact];
  if (!pbScratch_TiedPair(s, pair, sizeof pair)) return;
  c->ties++;
  c->tie_step = k;
  memcpy(c->tie_contact, pair, sizeof pair);
}

static void note_kink(pbScratch *s, int k, pbCertificate *c) {
  char element[sizeof c->kink_element];
  if (!pbScratch_KinkedElement(s, element, sizeof element)) return;
  c->kinks++;
  c->kink_step = k;
  memcpy(c->kink_element, element, sizeof element);
}

// A step to pull back, and what is observed at its state.
typedef struct StepAt {
  int k;
  const double *record;
  void *cached;
  const double *next;                // costate of the state after it; NULL: what is observed alone
  const pbObservationBar *observed;  // NULL: nothing
  const pbInput *input;              // NULL: the row's
  bool events;                       // written: events were corrected
} StepAt;

// What the pullback of a step takes and gives.
typedef struct StepCall {
  pbInput input;
  pbInputBar input_bar;
  pbStepRecord step;
  pbStepCotangent cotangent;
  pbStepBar out;
} StepCall;

static void call_of(const pbRollout *r, const pbRolloutGradient *g, const StepAt *at, StepCall *call) {
  call->input = at->input ? *at->input : pbRollout_InputAt(r, at->k);
  call->input_bar = pbRollout_InputBarAt(r, g, at->k);
  call->step =
      (pbStepRecord){.model = r->model, .theta = r->theta, .record = at->record, .cached = at->cached, .input = &call->input};
  call->cotangent = (pbStepCotangent){.next = at->next, .observed = at->observed};
  call->out = (pbStepBar){r->costate_before, &call->input_bar, g->theta};
}

pbStatus pbRollout_PullOne(pbRollout *r, pbScratch *s, int k, const pbStepRecord *step, const pbStepCotangent *cotangent,
                           const pbStepBar *out, pbEventCount *events) {
  const pbObservationBar *observed = cotangent->observed;
  pbStatus status;
  s->ticks = k;
  do {
    status = pbStep_VjpCached(step, cotangent, s, out);
  } while (pbScratch_Grow(s, &status));
  s->ticks = 0;

  // Saltation: what a step with frozen rows leaves out, that the time of an onset or a release moves.
  if (status == pb_ok && cotangent->next && r->gradient == pb_gradientEvent)
    status = pbStep_EventsVjp(step, cotangent->next, k == 0, s, out, events);
  if (status == pb_ok) pbClock_Pull(r, observed ? observed->sensordata : NULL, step->record, k, out->theta);

  return status == pb_ok ? status : pbRollout_StepFailed(r, status, k, pbScratch_Error(s));
}

// By the kind of gradient.
// For pullbacks that evaluate a step again: what its policy observed had the noise of its row.
static void put_noise(const pbRollout *r, int k) {
  PB_ASSERT(k >= 0 && (!r->noise || r->model->policy));
  size_t width = r->noise ? (size_t)r->model->policy->observed : 0;
  const double *row = r->noise ? r->noise + (size_t)pbRollout_InputRow(r, k) * width : NULL;
  if (r->scratch->policy) r->scratch->policy->noise = row;
  if (r->smooth_scratch && r->smooth_scratch->policy) r->smooth_scratch->policy->noise = row;
}

static pbStatus pull_step(pbRollout *r, const pbRolloutGradient *g, StepAt *at, pbCertificate *c) {
  pbScratch *s = r->scratch;
  StepCall call;

  call_of(r, g, at, &call);
  put_noise(r, at->k);

  // The smooth gradient is that of the same step with smooth contacts, evaluated here.
  if (r->gradient == pb_gradientSmooth) {
    PB_TRY(pbSmooth_Step(r, at->record, &call.input, at->k));
    s = r->smooth_scratch;
    call.step.model = r->smooth;
    call.step.record = r->smooth_record;
    call.step.cached = NULL;
  }

  pbEventCount here = {0};
  PB_TRY(pbRollout_PullOne(r, s, at->k, &call.step, &call.cotangent, &call.out, &here));
  if (!at->next) return pb_ok;

  // What it met: events, impacts, ties, kinks.
  note_events(&here, at->k, c);
  note_led(r, &here, at->k, c);
  at->events = here.corrected > 0;
  if (s->impacts && pbImpacts_Recorded(s, at->record)) {
    here = (pbEventCount){0};
    pbImpacts_CountLed(s, &here);
    note_led(r, &here, at->k, c);
  }
  note_tie(s, at->k, c);
  note_kink(s, at->k, c);

  return pb_ok;
}

// The costate of the state becomes what is observed there alone. Inputs and parameters have had their share of both.
static pbStatus cut(pbRollout *r, const StepAt *at, pbCertificate *c) {
  const pbRolloutGradient none = {0};
  StepAt alone = *at;

  c->truncated = true;
  c->cuts++;
  memset(r->costate_before, 0, (size_t)r->n * sizeof *r->costate_before);
  alone.next = NULL;

  return at->observed ? pull_step(r, &none, &alone, c) : pb_ok;
}

// A policy's gradients by its parameters are made for many steps at once, from the last step on.
static void collect_parameters(pbRollout *r, const double *theta_bar) {
  PB_ASSERT(!theta_bar || r->scratch);

  pbPolicy_Collect(r->scratch, theta_bar);
  pbPolicy_Collect(r->smooth_scratch, theta_bar);
}

static pbStatus flush_parameters(pbRollout *r, double *theta_bar) {
  PB_ASSERT(!r->scratch->policy || r->scratch->policy->collect == theta_bar);

  pbStatus status = pbPolicy_Flush(r->scratch, r->theta, theta_bar);
  if (status == pb_ok) status = pbPolicy_Flush(r->smooth_scratch, r->theta, theta_bar);

  return status == pb_ok ? pb_ok : pbContext_Fail(r->ctx, status, "gradient by a policy's parameters: %s", pbStatus_Text(status));
}

// A new start owes nothing to what was before it: from here on back it is that of the state that was left, by what was observed
// of that one.
static pbStatus leave(pbRollout *r, const pbRolloutBar *bar, const pbRolloutGradient *g, int k, pbCertificate *c) {
  pbObservationBar observed;
  pbInput input;
  StepAt alone = {.k = k, .record = pbTrack_LeftAt(r, k, &input), .observed = &observed, .input = &input};

  memset(r->costate_before, 0, (size_t)r->n * sizeof *r->costate_before);
  if (r->pull_before) {
    // products that are kept are of the parameters behind it
    PB_TRY(flush_parameters(r, g->theta));
    collect_parameters(r, g->theta);
    PB_TRY(pbTrack_PullBefore(r, k, g->theta));
  }

  return observed_at(r, bar, k, &observed) ? pull_step(r, g, &alone, c) : pb_ok;
}

// What is observed at the state that a step begins from.
static const pbObservationBar *observed_of_step(const pbRollout *r, const pbRolloutBar *bar, int k, pbObservationBar *bars) {
  return observed_at(r, bar, k, bars) && !pbTrack_LeftAt(r, k, NULL) ? bars : NULL;
}

// The costate that a step is pulled with.
static void begin_pull(pbRollout *r, int k, pbCertificate *certificate) {
  PB_ASSERT(k >= 0 && k <= r->plan.steps);
  PB_VALIDATE(k == r->plan.steps || pb_allFinite(r->costate, (size_t)r->n));

  // The last state has no step behind it.
  memset(r->costate_before, 0, (size_t)r->n * sizeof *r->costate);
  pbPrescribed_Begin(r);
  if (k < r->plan.steps) pbTruncation_Shorten(r, k + 1, certificate);
}

// Pullback through what is observed at state k and, unless it is the last, through step k. The result is in r->costate.
static pbStatus pull(pbRollout *r, const pbRolloutBar *bar, const pbRolloutGradient *g, int k, const double *record, void *cached,
                     pbCertificate *certificate) {
  bool last = k == r->plan.steps;
  pbObservationBar bars;
  bool left = pbTrack_LeftAt(r, k, NULL) != NULL;
  const pbObservationBar *observed = observed_of_step(r, bar, k, &bars);
  StepAt at = {.k = k, .record = record, .cached = cached, .next = last ? NULL : r->costate, .observed = observed};

  // Unless PullAhead has begun it.
  if (!r->ahead) begin_pull(r, k, certificate);
  r->ahead = false;

  // A sampled step is checked with the numbers that its pullback had: costates before and after.
  if (r->step_check && !last) pbStepCheck_Before(r, r->step_check, k);
  if (observed || !last) PB_TRY(pull_step(r, g, &at, certificate));
  if (r->step_check && !last) PB_TRY(pbStepCheck_Step(r, r->step_check, k, record, cached, observed, at.events, certificate));
  if (pbTruncation_Cuts(r, k)) PB_TRY(cut(r, &at, certificate));
  if (left) PB_TRY(leave(r, bar, g, k, certificate));
  pbPrescribed_Pull(r, g, k);
  add_direct(r, bar, k, r->costate_before);

  // The costate before this step is the one after the step before.
  double *swap = r->costate;
  r->costate = r->costate_before;
  r->costate_before = swap;

  return pb_ok;
}

static bool all_finite(const double *v, int n) { return !v || pb_allFinite(v, (size_t)n); }

// Which of the caller's cotangents at state k is not finite; NULL: none.
static const char *bad_cotangent(const pbRollout *r, const pbRolloutBar *bar, int k) {
  const struct {
    const char *name;
    const pbCotangent *cotangent;
    int width;
  } all[] = {{"qpos", &bar->qpos, r->nv},
             {"qvel", &bar->qvel, r->nv},
             {"act", &bar->act, r->na},
             {"sensordata", &bar->sensordata, r->ns},
             {"xpos", &bar->xpos, 3 * r->nbody},
             {"site_xpos", &bar->site_xpos, 3 * r->nsite},
             {"points", &bar->points, r->np},
             {"point_velocity", &bar->point_velocity, r->np},
             {"x", &bar->x, r->n}};

  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (!all_finite(pbCotangent_At(all[i].cotangent, all[i].width, k, r->plan.steps), all[i].width)) return all[i].name;
  }

  return NULL;
}

// Why the costate at state k is not finite: it grew on its way back, or one step has no derivative, or it was handed in so.
static pbStatus costate_lost(pbRollout *r, const pbRolloutBar *bar, const pbGrowth *growth, int k) {
  static const double large = 230;  // ln of 1e100, beyond which products may overflow in any step
  const char *given = bad_cotangent(r, bar, k);
  char name[160], text[480];

  // The first entry that is not finite names the coordinate.
  int i = 0;

  while (i < r->n && isfinite(r->costate[i])) i++;
  bool grown = i == r->n || (growth->count > 0 && growth->now > large);

  if (given) {
    snprintf(text, sizeof text, "the cotangent of %s given for this state is not finite", given);
  } else if (grown) {
    snprintf(text, sizeof text,
             "the gradient grows beyond bounds on its way back to this state (chaotic or stiff motion; a shorter horizon or more "
             "damping helps)");
  } else {
    snprintf(
        text, sizeof text,
        "the gradient by %s is %s: this step has no finite derivative there (a length of zero under a root, or a parameter or "
        "an input of extreme size)",
        pbState_TangentName(r->model, i, name, sizeof name), isnan(r->costate[i]) ? "NaN" : "infinite");
  }

  return pbRollout_StepFailed(r, pb_not_finite, k, text);
}

static pbStatus measure_costate(pbRollout *r, const pbRolloutBar *bar, pbGrowth *growth, pbCertificate *certificate, int k) {
  // One test for all entries: a sum of squares is finite only if every entry is.
  double sum = 0;
  for (int i = 0; i < r->n; i++) sum += r->costate[i] * r->costate[i];

  if (!isfinite(sum)) return costate_lost(r, bar, growth, k);
  pbGrowth_Add(growth, certificate, (r->plan.steps - k) * r->timestep, sqrt(sum), k);

  return pb_ok;
}

static pbStatus pull_final(pbRollout *r, const pbRolloutBar *bar, const pbRolloutGradient *g, pbCertificate *certificate) {
  pbObservationBar observed;

  // A record of the last state, kept for further pullbacks.
  if (observed_at(r, bar, r->plan.steps, &observed) && !r->has_final_record) {
    PB_TRY(pbRollout_Observe(r, r->x_final, r->plan.steps, NULL));
    pbTape_Record(r->model, r->x_final, r->scratch, r->final_record);
    r->has_final_record = true;
  }

  return pull(r, bar, g, r->plan.steps, r->final_record, NULL, certificate);
}

// The records of the last leaf are there from Forward, unless an earlier Vjp used them up.
static pbStatus first_leaf(pbRollout *r, pbScheduleAction *action) {
  // A tape of all steps is never used up.
  if (r->plan.leaf >= r->plan.steps) {
    *action = (pbScheduleAction){r->plan.steps > 0 ? pb_scheduleReverse : pb_scheduleDone, 0, r->plan.steps, -1};
    r->schedule.next = pb_scheduleDone;
    return pb_ok;
  }

  // Forward stopped before its last leaf was reversed.
  if (r->tape_fresh) {
    *action = (pbScheduleAction){pb_scheduleReverse, r->leaf_from, r->plan.steps, -1};
    r->tape_fresh = false;
    return pb_ok;
  }

  // Its records are gone: play the schedule from the start.
  pbRollout_Restart(r);
  return pbRollout_Play(r, NULL, false, action);
}

// Where step k is a mark: all that is due to the gradient so far, and that it is there.
static pbStatus tell_mark(pbRollout *r, pbPulling *p, int k) {
  const pbPullMarks *m = p->marks;
  if (!m || !p->gradient.theta || p->marked == m->count || m->step[p->marked] != k) return pb_ok;
  PB_TRY(flush_parameters(r, p->gradient.theta));
  collect_parameters(r, p->gradient.theta);
  m->note(m->user, p->world, p->marked++, p->gradient.theta);

  return pb_ok;
}

// Step k, and how long the costate is before it.
pbStatus pbRollout_PullStep(pbRollout *r, pbPulling *p, int k) {
  PB_TRY(pull(r, p->bar, &p->gradient, k, pbRollout_RecordAt(r, k), pbRollout_CachedAt(r, k), p->certificate));
  PB_TRY(measure_costate(r, p->bar, &p->growth, p->certificate, k));
  PB_TRY(tell_mark(r, p, k));
  p->at = k;

  return pbProgressMeter_Step(&r->meter) ? pbRollout_Stopped(r, k) : pb_ok;
}

pbStatus pbRollout_PullAhead(pbRollout *r, pbPulling *p, int k) {
  pbObservationBar bars;
  const pbObservationBar *observed = observed_of_step(r, p->bar, k, &bars);
  StepAt at = {.k = k, .record = pbRollout_RecordAt(r, k), .next = r->costate, .observed = observed};
  StepCall call;
  PB_ASSERT(!r->step_check && r->gradient != pb_gradientSmooth && !pbRollout_CachedAt(r, k));

  begin_pull(r, k, p->certificate);
  call_of(r, &p->gradient, &at, &call);

  // The same call goes on from here in PullStep.
  r->ahead = true;
  r->scratch->ticks = k;
  pbStatus status = pbStep_VjpToFunctions(&call.step, &call.cotangent, r->scratch, &call.out);
  r->scratch->ticks = 0;

  return status == pb_ok ? status : pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
}

// What the last state owes to its outputs and to the caller's cotangents.
static pbStatus begin_backward(pbRollout *r, pbPulling *p) {
  p->growth = (pbGrowth){.first = NAN};

  PB_TRY(pull_final(r, p->bar, &p->gradient, p->certificate));
  PB_TRY(measure_costate(r, p->bar, &p->growth, p->certificate, r->plan.steps));
  p->at = r->plan.steps;

  return pb_ok;
}

static pbStatus backward(pbRollout *r, pbPulling *p) {
  pbScheduleAction action;
  PB_TRY(pbRollout_GoesOn(r) ? pbPulled_Leaf(r, p->at, &action) : first_leaf(r, &action));

  // Leaf by leaf: reverse it, then let the schedule record the one before.
  while (action.kind == pb_scheduleReverse) {
    for (int k = action.to - 1; k >= action.from; k--) PB_TRY(pbRollout_PullStep(r, p, k));
    PB_TRY(pbRollout_Play(r, NULL, false, &action));
  }

  PB_ASSERT(action.kind == pb_scheduleDone);
  return pb_ok;
}

// Where a costate is finite, what it gives parameters and inputs need not be.
static pbStatus check_theta(const pbRollout *r, const double *theta) {
  if (!theta) return pb_ok;
  size_t bad = pbModel_FirstNotFinite(r->model, theta);
  if (bad >= r->ntheta) return pb_ok;

  char name[256];
  return pbContext_Fail(r->ctx, pb_not_finite, "the gradient by parameter %s is %s: it has no finite derivative there",
                        pbModel_ParamName(r->model, bad, name, sizeof name), isnan(theta[bad]) ? "NaN" : "infinite");
}

static pbStatus check_input(const pbRollout *r, const char *name, const double *data, int width) {
  if (!data) return pb_ok;

  size_t rows = r->input.constant ? 1 : (size_t)r->plan.steps;
  size_t columns = (size_t)width;
  for (size_t i = 0; i < rows * columns; i++) {
    if (isfinite(data[i])) continue;
    return pbContext_Fail(r->ctx, pb_not_finite, "the gradient by %s[%zu] of step %zu is %s: it has no finite derivative there",
                          name, i % columns, i / columns, isnan(data[i]) ? "NaN" : "infinite");
  }

  return pb_ok;
}

static pbStatus check_gradient(const pbRollout *r, const pbRolloutGradient *g) {
  PB_TRY(check_theta(r, g->theta));
  PB_TRY(check_input(r, "ctrl", g->ctrl, r->nu));
  PB_TRY(check_input(r, "qfrc", g->qfrc, r->nv));
  PB_TRY(check_input(r, "command", g->command, r->ncommand));
  PB_TRY(check_input(r, "mocap_pos", g->mocap_pos, 3 * r->nmocap));
  PB_TRY(check_input(r, "mocap_rot", g->mocap_rot, 3 * r->nmocap));
  PB_TRY(check_input(r, "mocap_vel", g->mocap_vel, 6 * r->nmocap));

  return check_input(r, "xfrc", g->xfrc, 6 * r->nbody);
}

static void begin_certificate(const pbRollout *r, pbCertificate *c) {
  *c = r->forward;
  c->steps = r->plan.steps;
  c->recomputed = r->plan.recomputed;
  c->tape_bytes = r->plan.planned_bytes;
  c->full_tape_bytes = r->plan.full_bytes;

  // Where an earlier Vjp has used up the last leaf, everything up to it is run once more.
  if (r->plan.leaf < r->plan.steps && !r->tape_fresh) c->recomputed += r->plan.steps;
}

static pbStatus begin_spot_check(pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *gradient, pbSpot **spot) {
  // What a policy projects is no derivative of the program: there is nothing to compare with.
  if (!options || !pbPolicy_IsExact(r->model)) return pb_ok;

  // Differences of the whole rollout know nothing of a truncated gradient; those of single steps do.
  bool whole = options->spot_check == pb_checkFull && !pbTruncation_Acts(&r->truncation);

  switch (options->spot_check) {
    case pb_checkFull:
      return whole ? pbSpot_Begin(r, options, gradient, spot) : pbStepCheck_Begin(r, options, gradient, &r->step_check);
    case pb_checkSteps: return pbStepCheck_Begin(r, options, gradient, &r->step_check);
    default: return pb_ok;
  }
}

pbStatus pbRollout_BeginVjp(pbRollout *r, pbPulling *p) {
  PB_ASSERT(!r->step_check);
  p->spot = NULL;
  p->at = -1;
  if (!p->certificate) p->certificate = &p->local;
  if (pbSelection_None(r)) p->gradient.theta = NULL;

  // Nothing is begun before all that was given is checked.
  if (!r->ran) return pbContext_Fail(r->ctx, pb_bad_argument, "a pullback needs a rollout that ran to its end first");
  PB_TRY(pbRollout_Ready(r));
  PB_TRY(pbRolloutBar_Check(r, p->bar));
  PB_TRY(pbPulled_Check(r));
  PB_TRY(pbPrescribed_CheckAll(r));

  begin_certificate(r, p->certificate);
  PB_TRY(pbTruncation_Begin(r, p->options, p->certificate));
  if (pbProgressMeter_Begin(&r->meter, "backward", p->certificate->recomputed + r->plan.steps))
    return pbRollout_Stopped(r, r->plan.steps);

  // Kernels may write entries of fields that are not wanted: the caller's are put aside and back.
  PB_TRY(begin_spot_check(r, p->options, &p->gradient, &p->spot));
  pbSelection_Keep(r, p->gradient.theta);
  collect_parameters(r, p->gradient.theta);
  p->kept = true;

  if (!pbRollout_GoesOn(r)) return begin_backward(r, p);
  pbPulled_TakeUp(r, p);
  return pb_ok;
}

// Where events were corrected or contacts smoothed, the program's difference quotient is not what the gradient should be.
static bool checks_all(const pbRollout *r, const pbPulling *p) {
  bool full =
      p->options && p->options->spot_check == pb_checkFull && !pbTruncation_Acts(&r->truncation) && pbPolicy_IsExact(r->model);

  return full && (r->gradient == pb_gradientExact || (r->gradient == pb_gradientEvent && p->certificate->events == 0));
}

// Products that are still to be made belong to a gradient, and to what a pullback that goes on later has of it.
static pbStatus end_products(pbRollout *r, const pbPulling *p, pbStatus status) {
  bool later = status == pb_interrupted && p->at >= 0 && r->pulled;
  if (status != pb_ok && !later) return status;

  pbStatus flushed = flush_parameters(r, p->gradient.theta);
  return flushed == pb_ok ? status : flushed;
}

pbStatus pbRollout_EndVjp(pbRollout *r, pbPulling *p, pbStatus status) {
  const pbRolloutGradient *g = &p->gradient;

  // What was kept for products goes to the gradient; entries that are not wanted become what they were.
  if (status == pb_ok) pbGrowth_Finish(&p->growth, p->certificate);
  status = end_products(r, p, status);
  if (p->kept) {
    collect_parameters(r, NULL);
    pbSelection_Restore(r, g->theta);
  }
  if (status == pb_ok) status = check_gradient(r, g);

  if (status == pb_ok && checks_all(r, p)) status = pbSpot_Check(r, p->spot, p->bar, r->costate, g, p->certificate);
  if (status == pb_ok && g->x0) add(g->x0, r->costate, r->n);

  pbPulled_Leave(r, p, status);

  // Whatever happened, nothing of this call stays.
  pbSpot_End(r, p->spot);
  p->spot = NULL;
  pbStepCheck_End(r, r->step_check);
  r->step_check = NULL;
  if (status != pb_ok && p->kept) r->tape_fresh = false;

  return status;
}

pbStatus pbRollout_Pull(pbRollout *r, pbPulling *p) {
  pbStatus status = pbRollout_BeginVjp(r, p);
  if (status == pb_ok) status = backward(r, p);

  return pbRollout_EndVjp(r, p, status);
}

pbStatus pbRollout_Vjp(pbRollout *r, const pbRolloutBar *bar, const pbVjpOptions *options, const pbRolloutGradient *gradient,
                       pbCertificate *certificate) {
  pbPulling p = {.bar = bar, .options = options, .certificate = certificate};
  if (gradient) p.gradient = *gradient;

  return pbRollout_Pull(r, &p);
}
