// Derivatives of a step with the events in it (impact/event.h): which there are, what they do to cotangents and tangents, and,
// for hard contact, the saltation of impacts that act together. Tests: tests/unit/test_event.c.
#include "impact/event_kernel.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "contact/prescribed.h"
#include "impact/variants.h"
#include "model/joint.h"
#include "model/mocap.h"
#include "step/integrate.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "world/cached.h"
#include "world/drift.h"
#include "world/history_step.h"
#include "world/policy_step.h"

// ---- the events of a step -------------------------------------------------------------------------------------------------
// Releases first, then onsets, in scratch->events.
typedef struct step_events {
  pbEvent *releases, *onsets;
  int release_count, onset_count;
} step_events;

// Of the step that work holds; v: the velocity at which the step moves positions. first: nothing appears at the initial state.
static step_events find_events(const pbScratch *s, const double *v, bool first) {
  step_events f = {.releases = s->events};

  // Hard contact that separates pushes no more: its release changes nothing.
  if (!pb_hard(s->model)) f.release_count = s->variant->impact->event_find(&s->w, v, f.releases);
  f.onsets = f.releases + f.release_count;
  if (!first) f.onset_count = s->variant->impact->event_find(&s->w, NULL, f.onsets);
  PB_ASSERT(f.release_count <= s->w.nrow && f.onset_count <= s->w.nrow);  // one for a row

  return f;
}

// The velocity at which the step moves positions: the new one, or for Runge-Kutta about the mean.
static void velocity_across(const pbScratch *s, const double *stages, double *v) {
  const pbWork_r *w = &s->w;
  int nv = s->model->nv;
  double h = w->p.timestep[0];
  bool rk4 = s->model->integrator == pb_intRK4;

  for (int i = 0; i < nv; i++) {
    double a = 0;
    // Runge-Kutta: half of the weighted sum is about the mean velocity.
    if (rk4) {
      for (int k = 0; k < 4; k++) a += 0.5 * pb_rkWeight[k] * stages[k * nv + i];
    } else {
      a = w->qacc_integrated[i];
    }
    v[i] = w->qvel[i] + h * a;
  }
}

// A cached evaluation stays as it is: events work on a copy.
static void copy_cached(pbWork_r *w) {
  const char *cached = w->cached_at;
  pbWork_MoveTo_r(w, NULL);
  // Where it had a place of its own
  if (cached != w->cached_at) memcpy(w->cached_at, cached, w->cached_bytes);
}

// What it meets has the velocity of a path, which the impulse sees.
static void count_led(const pbScratch *s, const pbEvent *e, pbEventCount *count) {
  if (!pb_hard(s->model) || !pb_follows(s->model) || e->kind != pb_rowContact) return;
  const pbContact_r *c = s->w.contact + s->w.row[e->row].contact;
  if (!pb_prescribed(&s->w.constraints, c)) return;

  int first = pb_carrier(s->model, c->geom1), second = pb_carrier(s->model, c->geom2);
  count->led++;
  count->led_by = first > second ? first : second;
  pbScratch_KindName(s, e->kind, e->id, count->led_name, sizeof count->led_name);
}

static void count_events(const pbScratch *s, const pbEvent *events, int n, pbEventCount *count) {
  for (int i = 0; i < n; i++) {
    const pbEvent *e = events + i;
    // Without a force at the guard nothing jumps.
    if (!e->pushes) continue;
    // Told alike: neither can be relied on at this time step.
    bool coarse = e->grazing || e->unsteady;
    if (coarse) pbScratch_KindName(s, e->kind, e->id, count->grazing_name, sizeof count->grazing_name);
    if (e->together) pbScratch_KindName(s, e->kind, e->id, count->together_name, sizeof count->together_name);
    count->grazing += coarse;
    count->corrected += !e->grazing;
    count->together += e->together;
    if (e->acts && !e->release) count_led(s, e, count);
  }
}

static pbStatus explain(pbScratch *s, pbStatus status) {
  return status == pb_ok ? status : pbScratch_Fail(s, status, "derivative of an event: %s", pbStatus_Text(status));
}

static pbStatus apply_jumps(pbScratch *s, const double *v, pbEvent *events, int n, const pbEventPull *pull) {
  return n ? explain(s, s->variant->impact->event_jumps(&s->w, v, events, n, pull)) : pb_ok;
}

// ---- impacts of hard contact ----------------------------------------------------------------------------------------------
// Onsets of hard contact. Those that act together have the saltation D + (F+ - D F) dt with one time dt, the mean of their
// d(dist - margin) / rate by their impulses; D is the step, whose dependence on depth cancels. Groups that do not affect each
// other may be taken in any order, so each as the last one: D and F then belong to the state that the others have left behind.
// Their columns F+ - D F must sum up to that of the whole step; what little is left is shared out. Where much is left, the
// order matters after all: there is no derivative, and all are taken together.
typedef struct impacts {
  pbScratch *s;
  pbStepRecord step;
  pbEvent *events;
  int count, groups;
  const double *v_given, *v_after;                       // nv: of the step as it is, as it is taken
  double *F, *F_after, *by_flow, *all, *sum, *modified;  // n each; modified: a record
  const double *bar, *distance;                          // reverse or forward: of the state after; of distances
  double *distance_bar, *next;                           // nrow, n: what comes out, added to
  double *moves;                                         // n: what `next` gets
  // An impact alone in its step is taken where it touches, `late` before the step (move_to_touch).
  bool at_touch;
  double late;
  double *touch, *v_touch, *from, *to;  // a record; nv; n each: what goes into the step there, and comes out of it
} impacts;

enum { columns = 9 };

size_t pbEvents_Room(const pbModel *m) {
  return columns * (size_t)pbModel_TangentSize(m) + 2 * ((size_t)tape_stages(m) + (size_t)(pb_solutions(m) * m->nv));
}

static void carve_columns(impacts *p, double *room) {
  size_t n = (size_t)pbModel_TangentSize(p->s->model);

  memset(room, 0, columns * n * sizeof(double));
  p->F = room;
  p->F_after = room + n;
  p->by_flow = room + 2 * n;
  p->all = room + 3 * n;
  p->sum = room + 4 * n;
  p->moves = room + 5 * n;
  p->v_touch = room + 6 * n;
  p->from = room + 7 * n;
  p->to = room + 8 * n;
  p->modified = room + columns * n;
  p->touch = p->modified + tape_stages(p->s->model) + pb_solutions(p->s->model) * p->s->model->nv;
}

// The acceleration a at velocity v, without the onsets of a group, all, or none.
static pbStatus find_rate(impacts *p, const double *v, int without, bool at_guard, double *a) {
  return explain(p->s, p->s->variant->impact->event_rate(&p->s->w, v, p->events, p->count, without, at_guard, a));
}

// The share of each event in its group's time: by its impulse, or equally where none has any.
static void set_shares(impacts *p, int group) {
  double total = 0;
  int members = 0;

  for (int i = 0; i < p->count; i++) {
    if (!p->events[i].acts || p->events[i].group != group) continue;
    total += p->events[i].impulse;
    members++;
  }
  for (int i = 0; i < p->count; i++) {
    pbEvent *e = p->events + i;
    if (!e->acts || e->group != group) continue;
    e->share = total > 0 ? e->impulse / total : 1. / members;
    e->bar = 0;
    e->together = members > 1;
  }
}

// What acts together. Work is at the solution of the step, and is so again.
static pbStatus group_events(impacts *p) {
  pbScratch *s = p->s;
  const double *v = p->step.record + state_layout(s->model).qvel;
  double *a = p->F + s->model->nv;

  s->variant->impact->event_classify(&s->w, p->events, p->count, NULL);
  // Without their rows: does that acceleration undo the closing speed?
  PB_TRY(find_rate(p, v, pb_eventsAll, true, a));
  // Back to the solution of the step
  PB_TRY(find_rate(p, v, pb_eventsNone, false, p->by_flow));
  s->variant->impact->event_classify(&s->w, p->events, p->count, a);
  p->groups = s->variant->impact->event_group(&s->w, p->events, p->count, s->event_parent);
  for (int g = 0; g < p->groups; g++) set_shares(p, g);

  return pb_ok;
}

// ---- the time of touch ------------------------------------------------------------------------------------------------------
// A step sees an impact up to h late: deeper, turned on, perhaps on another edge. One that is alone in its step is differentiated
// where it touches, at the state moved back by that time at its velocity; the way there goes at the old velocity, the way back
// to the state after the step at the new one.

// The one event that acts, where no other contact or limit has a force; NULL: there is none such.
static const pbEvent *lone_event(const impacts *p) {
  const pbModel *m = p->s->model;
  const pbWork_r *w = &p->s->w;
  const pbEvent *lone = NULL;

  if (m->policy || m->deform || w->mocap_moves) return NULL;
  for (int i = 0; i < p->count; i++) {
    if (!p->events[i].acts) continue;
    if (lone) return NULL;
    lone = p->events + i;
  }
  if (!lone) return NULL;
  PB_ASSERT(lone->row >= 0 && lone->row < w->nrow);

  // Rows without force take no part.
  for (int k = 0; k < w->nrow; k++) {
    const pbRow_r *r = w->row + k;
    if (k != lone->row && r->zone && (r->kind == pb_rowContact || r->kind == pb_rowLimit)) return NULL;
  }

  return lone;
}

// What of the scene a row is of
typedef struct subject {
  int kind, id, geom1, geom2;
} subject;

static subject subject_of(const pbWork_r *w, const pbRow_r *r) {
  if (r->kind != pb_rowContact) return (subject){.kind = r->kind, .id = r->id};
  // Of a pair that turns, another point may come to touch.
  return (subject){r->kind, 0, w->contact[r->contact].geom1, w->contact[r->contact].geom2};
}

// The deepest row of the same; NULL: it does not touch.
static const pbRow_r *deepest_row(const pbWork_r *w, subject of) {
  const pbRow_r *deepest = NULL;
  double least = 0;
  for (const pbRow_r *r = w->row; r < w->row + w->nrow; r++) {
    subject is = subject_of(w, r);
    if (is.kind != of.kind || is.id != of.id || is.geom1 != of.geom1 || is.geom2 != of.geom2) continue;
    double gap = r->pos[0] - r->margin;
    if (gap > least || (deepest && gap == least)) continue;
    deepest = r;
    least = gap;
  }
  return deepest;
}

// Evaluates the step of a record; known: at the solution in it.
static pbStatus evaluate_record(pbScratch *s, const pbStepRecord *given, bool known) {
  const pbModel *m = s->model;
  pbStepRecord step = *given;

  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  memcpy(s->stages, step.record + tape_stages(m), (size_t)(pb_solutions(m) * m->nv) * sizeof(double));
  pbScratch_Load(s, step.theta, step.record, pbHistory_Open(s, &step).input);
  return s->variant->run(&s->w, s->stages, known, false, false);
}

// The record of the step from the state `late` before, at the same velocity.
static pbStatus evaluate_before(impacts *p, const double *record, double late) {
  pbScratch *s = p->s;
  const pbModel *m = s->model;
  size_t solution = (size_t)(pb_solutions(m) * m->nv);
  pbStepRecord step = p->step;

  memcpy(p->touch, record, ((size_t)tape_stages(m) + solution) * sizeof(double));
  pbIntegrate_Position_r(m, p->touch + state_layout(m).qpos, record + state_layout(m).qvel, -late);
  step.record = p->touch;
  step.cached = NULL;
  PB_TRY(evaluate_record(s, &step, false));
  memcpy(p->touch + tape_stages(m), s->stages, solution * sizeof(double));

  return pb_ok;
}

// How long before the step the row of an event touched: Newton's method from within, halving where that is outside. Leaves the
// evaluation there, and whether it is found in at_touch; want of memory alone is an error.
static pbStatus find_touch(impacts *p, const double *record, const pbEvent *e) {
  static const double near = 1e-3, within = 1 - 1e-4;  // parts of a step, of the way to the touch
  enum { most = 8 };
  const pbWork_r *w = &p->s->w;
  double h = w->p.timestep[0];
  subject of = subject_of(w, w->row + e->row);
  double inside = 0, outside = 1.5 * h, late = within * e->when;

  p->at_touch = false;
  for (int k = 0; k < most; k++) {
    pbStatus status = evaluate_before(p, record, late);
    if (status != pb_ok) return status == pb_no_memory ? status : pb_ok;
    const pbRow_r *r = deepest_row(w, of);
    if (!r) {
      // Too far back
      outside = late;
      late = inside + 0.9 * (outside - inside);
      continue;
    }
    double gap = r->pos[0] - r->margin, rate = r->vel[0];
    if (!(rate < 0)) return pb_ok;
    p->late = inside = late;
    if ((p->at_touch = gap >= near * h * rate)) return pb_ok;
    late += within * gap / rate;
    if (late >= outside) late = 0.5 * (inside + outside);
  }

  return pb_ok;
}

// The impact where it touches, or, where it is not alone there or cannot be found, as it was.
static pbStatus move_to_touch(impacts *p) {
  pbScratch *s = p->s;
  const pbEvent *lone = p->groups == 1 ? lone_event(p) : NULL;
  const double *record = p->step.record;
  const double *v = record + state_layout(s->model).qvel;

  if (!lone) return pb_ok;
  PB_TRY(explain(s, find_touch(p, record, lone)));
  if (p->at_touch) {
    PB_ASSERT(p->late >= 0 && p->late <= 1.5 * s->w.p.timestep[0]);
    p->step.record = p->touch;
    p->step.cached = NULL;
    p->count = s->variant->impact->event_find(&s->w, NULL, p->events);
    PB_ASSERT(p->count <= s->w.nrow);
    PB_TRY(group_events(p));
    // The accelerations of the step are in by_flow.
    for (int i = 0; i < s->model->nv; i++) p->v_touch[i] = v[i] + s->w.p.timestep[0] * p->by_flow[i];
    p->v_after = p->v_touch;
    p->at_touch = p->groups == 1 && lone_event(p);
    if (p->at_touch) return pb_ok;
  }

  // Back to the step as it is
  p->step.record = record;
  p->v_after = p->v_given;
  PB_TRY(explain(s, evaluate_record(s, &p->step, true)));
  p->count = s->variant->impact->event_find(&s->w, NULL, p->events);

  return group_events(p);
}

// column = F+ - D F, D the step from the record.
static pbStatus saltation_column(impacts *p, const double *record, double *column) {
  const pbModel *m = p->s->model;
  // D F: the step along the rate of the state before
  pbDirection flow = {.x = p->F};

  pbStepRecord step = p->step;
  // What is prescribed flows too.
  double *pos = p->s->event_poses, *rot = pos + 3 * m->nmocap;
  if (p->s->w.mocap_moves) {
    pbMocap_Flow(m, p->s->w.mocap_quat, p->s->w.mocap_vel, pos, rot);
    flow.mocap_pos = pos;
    flow.mocap_rot = rot;
  }

  step.record = record;
  PB_TRY(pbScratch_Enter(p->s, m, &step.theta));
  PB_TRY(pbStep_JvpRecord(p->s, &step, &flow, &(pbStepTangent){.next = p->by_flow}));
  for (int i = 0; i < 2 * m->nv; i++) column[i] = p->F_after[i] - p->by_flow[i];

  return pb_ok;
}

// The column, times scale, with the time of a group: its cotangent to the distances, or its tangent to the state after.
static void apply_column(impacts *p, int group, const double *column, double scale) {
  int n = 2 * p->s->model->nv;
  double along = 0;
  double moved = 0;

  if (p->bar) {
    for (int i = 0; i < n; i++) along += column[i] * p->bar[i];
  }

  for (int k = 0; k < p->count; k++) {
    pbEvent *e = p->events + k;
    if (!e->acts || e->group != group) continue;
    // dt = sum of share d(dist - margin) / rate
    e->bar += scale * along * e->share / e->rate;
    if (p->distance) moved += scale * e->share * p->distance[e->row] / e->rate;
  }

  if (p->next) {
    for (int i = 0; i < n; i++) p->moves[i] += moved * column[i];
  }
}

// A group as the last one, from the state that the others leave; its column is applied and added to the sum.
static pbStatus take_as_last(impacts *p, int group) {
  pbScratch *s = p->s;
  const pbModel *m = s->model;
  const double *before = p->step.record + state_layout(m).qvel;
  size_t nv = (size_t)m->nv;
  double h = s->w.p.timestep[0];
  double *v = p->F;
  double *a = p->F + nv;
  double *column = p->by_flow;

  // The record of a step from the velocity after all other groups
  PB_TRY(find_rate(p, before, group, false, a));
  for (size_t i = 0; i < nv; i++) v[i] = before[i] + h * a[i];
  PB_TRY(find_rate(p, v, pb_eventsNone, false, a));
  memcpy(p->modified, p->step.record, (size_t)tape_stages(m) * sizeof(double));
  memcpy(p->modified + state_layout(m).qvel, v, nv * sizeof(double));
  memcpy(p->modified + tape_stages(m), s->w.qacc, nv * sizeof(double));

  // Its saltation from there
  PB_TRY(find_rate(p, v, group, true, a));
  PB_TRY(saltation_column(p, p->modified, column));
  apply_column(p, group, column, 1);
  for (size_t i = 0; i < 2 * nv; i++) p->sum[i] += column[i];

  return pb_ok;
}

static double largest(const double *x, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  return most;
}

// The columns sum up to that of the whole step where the groups do not affect each other. sum becomes what is left.
static bool groups_commute(impacts *p) {
  static const double little = 0.01;
  int nv = p->s->model->nv;
  // The difference against the rates it is made of
  for (int i = 0; i < 2 * nv; i++) p->sum[i] -= p->all[i];
  double v = largest(p->all, nv);
  double a = largest(p->all + nv, nv) + largest(p->F_after + nv, nv);

  return largest(p->sum, nv) <= little * v && largest(p->sum + nv, nv) <= little * a;
}

// All that acts in one group.
static void join_groups(impacts *p) {
  double total = 0;
  int members = 0;

  // What the groups gave is taken back: one group of all.
  memset(p->moves, 0, 2 * (size_t)p->s->model->nv * sizeof(double));
  for (int i = 0; i < p->count; i++) {
    pbEvent *e = p->events + i;
    if (!e->acts) continue;
    e->group = 0;
    e->bar = 0;
    e->together = true;
    total += e->impulse;
    members++;
  }
  for (int i = 0; i < p->count; i++) p->events[i].share = total > 0 ? p->events[i].impulse / total : 1. / members;
}

static void add_results(const impacts *p) {
  if (p->bar) {
    for (int i = 0; i < p->count; i++) {
      if (p->events[i].acts) p->distance_bar[p->events[i].row] += p->events[i].bar;
    }
  }
  if (p->next) {
    for (int i = 0; i < 2 * p->s->model->nv; i++) p->next[i] += p->moves[i];
  }
}

// F+ and F of the whole step, and its column.
static pbStatus whole_column(impacts *p) {
  size_t nv = (size_t)p->s->model->nv;
  const double *v = p->step.record + state_layout(p->s->model).qvel;

  memcpy(p->F_after, p->v_after, nv * sizeof(double));
  PB_TRY(find_rate(p, p->v_after, pb_eventsNone, true, p->F_after + nv));
  PB_TRY(find_rate(p, v, pb_eventsAll, true, p->F + nv));
  memcpy(p->F, v, nv * sizeof(double));

  return saltation_column(p, p->step.record, p->all);
}

// The step sees an impact up to h late, so all that follows begins displaced by up to h (v+ - v-), which no derivative mends.
// It matters where motion depends on it: does the impact turn joints by more than this angle in a step, and do they then change
// their speed by more than this part in the next? Lengths have no such measure; bodies in the air move on wherever they are.
static bool turns_much(const impacts *p) {
  static const double angle = 0.02, part = 0.005;
  const pbModel *m = p->s->model;
  double turned = 0, speed = 0, change = 0;

  for (int j = 0; j < m->njnt; j++) {
    int type = m->jnt_type[j];
    if (type == pb_jntSlide || type == pb_jntFree) continue;
    int first = m->jnt_dofadr[j];
    for (int i = first; i < first + pbJoint_DofCount(type); i++) {
      double v = p->F_after[i], a = p->F_after[m->nv + i];
      turned += (v - p->F[i]) * (v - p->F[i]);
      speed += v * v;
      change += a * a;
    }
  }

  double h = p->s->w.p.timestep[0];
  return h * sqrt(turned) > angle && h * sqrt(change) > part * sqrt(speed);
}

// Which impacts there are, and where they are taken.
static pbStatus prepare_impacts(impacts *p) {
  carve_columns(p, p->s->event_columns);
  p->v_given = p->v_after;
  PB_TRY(group_events(p));
  return move_to_touch(p);
}

// What they do, to the cotangents or tangents that are set.
static pbStatus differentiate_impacts(impacts *p) {
  if (!p->groups) return pb_ok;
  PB_TRY(whole_column(p));
  for (int i = 0; i < p->count; i++) {
    pbEvent *e = p->events + i;
    e->unsteady = e->unsteady || (e->acts && turns_much(p));
  }

  if (p->groups == 1) {
    apply_column(p, 0, p->all, 1);
    add_results(p);
    return pb_ok;
  }

  for (int g = 0; g < p->groups; g++) PB_TRY(take_as_last(p, g));
  // What little the order matters is shared out among the groups.
  if (groups_commute(p)) {
    for (int g = 0; g < p->groups; g++) apply_column(p, g, p->sum, -1. / p->groups);
  } else {
    join_groups(p);
    apply_column(p, 0, p->all, 1);
  }
  add_results(p);

  return pb_ok;
}

// ---- reverse ----------------------------------------------------------------------------------------------------------------
// The step with its onsets and releases: v+ += D (onsets), q+ follows by h D, v+ += D (releases). Here from the last to the
// first. distance_bar: of pos - margin at the start of the step; release_bar: what releases add to the cotangent of the state
// after it.
static pbStatus pull_events(pbScratch *s, const step_events *f, const double *v, const double *next_bar, double *distance_bar,
                            double *release_bar) {
  size_t nv = (size_t)s->model->nv;
  double *after = release_bar + pbModel_TangentSize(s->model);
  pbEventPull pull = {.v_bar = next_bar + nv, .distance_bar = distance_bar, .v_next_bar = release_bar + nv};

  PB_TRY(apply_jumps(s, v, f->releases, f->release_count, &pull));

  // Onsets come before releases: their velocity goes on through these.
  for (size_t i = 0; i < nv; i++) after[i] = next_bar[nv + i] + release_bar[nv + i];
  pull.v_bar = after;
  pull.q_bar = next_bar;

  return apply_jumps(s, s->w.qvel, f->onsets, f->onset_count, &pull);
}

// The step from the touch instead of the step as it is, which the pullback has taken already: that is taken back, and last, so
// that the evaluation is its.
static pbStatus pull_from_touch(impacts *p, const pbStepRecord *step, const double *next_bar, const pbStepBar *out) {
  const pbModel *m = p->s->model;
  int n = pbModel_TangentSize(m);
  const double *v = p->touch + state_layout(m).qvel;

  memset(p->to, 0, (size_t)n * sizeof(double));
  const pbStepCotangent in = {.next = p->bar, .distance = p->distance_bar};
  PB_TRY(pbStep_VjpCached(&p->step, &in, p->s, &(pbStepBar){p->to, out->input, out->theta}));
  pbDrift_Pull(m, v, -p->late, p->to);
  for (int i = 0; i < n; i++) out->x[i] += p->to[i];

  for (int i = 0; i < n; i++) p->from[i] = -next_bar[i];
  return pbStep_VjpCached(step, &(pbStepCotangent){.next = p->from}, p->s, out);
}

static pbStatus pull_impacts(pbScratch *s, const pbStepRecord *step, const step_events *f, const double *v,
                             const double *next_bar, double *distance_bar, const pbStepBar *out, pbEventCount *count) {
  size_t n = (size_t)pbModel_TangentSize(s->model);
  double *next = s->event_numbers;
  impacts p = {.s = s,
               .step = s->policy ? pbPolicy_Open(s, step) : *step,
               .events = f->onsets,
               .count = f->onset_count,
               .v_after = v,
               .bar = next_bar,
               .distance_bar = distance_bar};

  PB_TRY(prepare_impacts(&p));
  // Rows are those of where it is taken.
  memset(distance_bar, 0, (size_t)s->w.nrow * sizeof(double));
  if (p.at_touch) {
    memcpy(p.from, next_bar, n * sizeof(double));
    pbDrift_Pull(s->model, p.v_touch, p.late, p.from);
    p.bar = p.from;
  }

  PB_TRY(differentiate_impacts(&p));
  count_events(s, p.events, p.count, count);
  if (!p.groups) return pb_ok;
  if (p.at_touch) return pull_from_touch(&p, step, next_bar, out);

  // Distances are functions of the state before the step.
  memset(next, 0, n * sizeof(double));
  return pbStep_VjpCached(step, &(pbStepCotangent){.next = next, .distance = distance_bar}, s, out);
}

pbStatus pbStep_EventsVjp(const pbStepRecord *step, const double *next_bar, bool first, pbScratch *s, const pbStepBar *out,
                          pbEventCount *count) {
  const pbModel *m = step->model;
  size_t n = (size_t)pbModel_TangentSize(m);

  velocity_across(s, step->record + tape_stages(m), s->state);
  PB_TRY(explain(s, pbScratch_MakeEvents(s)));
  double *next = s->event_numbers, *distance = next + n + n, *v = s->state;
  step_events f = find_events(s, v, first);
  if (!f.release_count && !f.onset_count) return pb_ok;

  // Events solve with other rows.
  copy_cached(&s->w);
  if (pb_hard(m)) return pull_impacts(s, step, &f, v, next_bar, distance, out, count);
  memset(next, 0, n * sizeof(double));
  memset(distance, 0, (size_t)s->w.nrow * sizeof(double));
  PB_TRY(pull_events(s, &f, v, next_bar, distance, next));
  count_events(s, f.releases, f.release_count + f.onset_count, count);

  // Distances, and velocities after the step, are functions of the state before it.
  return pbStep_VjpCached(step, &(pbStepCotangent){.next = next, .distance = distance}, s, out);
}

// ---- forward ----------------------------------------------------------------------------------------------------------------
static pbStatus push_events(pbScratch *s, const step_events *f, const double *v, const double *distance, double *next) {
  size_t nv = (size_t)s->model->nv;
  double *after = s->event_numbers;
  const pbEventPull onsets = {.distance = distance, .q = next, .v = next + nv};

  PB_TRY(apply_jumps(s, s->w.qvel, f->onsets, f->onset_count, &onsets));

  // Releases see the velocity that onsets have moved.
  memcpy(after, next + nv, nv * sizeof(double));
  const pbEventPull releases = {.distance = distance, .v_next = after, .v = next + nv};

  return apply_jumps(s, v, f->releases, f->release_count, &releases);
}

static pbStatus push_impacts(impacts *p, const pbStepRecord *given, const pbDirection *direction, double *distance) {
  pbScratch *s = p->s;
  const pbModel *m = s->model;
  size_t n = (size_t)pbModel_TangentSize(m);
  pbDirection along = *direction;
  double *next = p->next;

  PB_TRY(prepare_impacts(p));
  if (!p->groups) return pb_ok;
  if (p->at_touch) {
    if (along.x) memcpy(p->from, along.x, n * sizeof(double));
    pbDrift_Push(m, p->touch + state_layout(m).qvel, -p->late, p->from);
    along.x = p->from;
    PB_TRY(pbStep_Jvp(m, given->theta, p->step.record, p->step.input, &along, s, p->to, NULL, NULL, NULL));
    p->next = p->to;
  }

  // Tangents of the distances; the direction of theta is one of the theta given.
  PB_TRY(pbStep_Jvp(m, given->theta, p->step.record, p->step.input, &along, s, NULL, NULL, NULL, NULL));
  pbJvp_Distances(s->complex_work, distance);
  p->distance = distance;
  PB_TRY(differentiate_impacts(p));
  if (!p->at_touch) return pb_ok;

  pbDrift_Push(m, p->v_touch, p->late, p->to);
  memcpy(next, p->to, n * sizeof(double));

  return pb_ok;
}

pbStatus pbStep_EventsJvp(const pbStepRecord *given, const double *x_next, const pbDirection *direction, bool first, pbScratch *s,
                          double *next) {
  const pbModel *m = given->model;
  pbStepRecord step = *given;

  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  size_t nv = (size_t)m->nv;
  const double *v_next = x_next + state_layout(m).qvel;

  // The step again, and its events
  memcpy(s->stages, step.record + tape_stages(m), (size_t)(pb_solutions(m) * m->nv) * sizeof(double));
  if (m->policy) step = pbPolicy_Open(s, &step);
  pbScratch_Load(s, step.theta, step.record, pbHistory_Open(s, &step).input);
  PB_TRY(explain(s, s->variant->run(&s->w, s->stages, true, false, false)));
  PB_TRY(explain(s, pbScratch_MakeEvents(s)));
  double *distance = s->event_numbers + nv, *v = s->state;
  for (size_t i = 0; i < nv; i++) v[i] = m->integrator == pb_intRK4 ? 0.5 * (s->w.qvel[i] + v_next[i]) : v_next[i];
  step_events f = find_events(s, v, first);
  if (!f.release_count && !f.onset_count) return pb_ok;

  if (pb_hard(m)) {
    impacts p = {.s = s, .step = step, .events = f.onsets, .count = f.onset_count, .v_after = v, .next = next};
    return push_impacts(&p, given, direction, distance);
  }

  PB_TRY(pbStep_Jvp(m, given->theta, step.record, step.input, direction, s, NULL, NULL, NULL, NULL));
  pbJvp_Distances(s->complex_work, distance);

  return push_events(s, &f, v, distance, next);
}
