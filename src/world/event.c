#include "impact/event_kernel.h"

#include <math.h>
#include <string.h>

#include "impact/variants.h"
#include "step/integrate.h"
#include "step/jvp.h"
#include "world/kept.h"
#include "step/scratch.h"

// The velocity at which the step moves positions: the new one, or for Runge-Kutta about the mean.
static void velocity_across(const pbScratch *s, const double *stages, double *v) {
  const pbWork_r *w = &s->w;
  int nv = s->model->nv;
  bool rk4 = s->model->integrator == pb_intRK4;
  for (int i = 0; i < nv; i++) {
    double a = rk4 ? 0 : w->qacc_integrated[i];
    for (int k = 0; rk4 && k < 4; k++) a += 0.5 * pb_rkWeight[k] * stages[k * nv + i];
    v[i] = w->qvel[i] + w->p.timestep[0] * a;
  }
}

// An evaluation that is kept stays as it is: go on in a copy.
static void leave(pbWork_r *w) {
  const char *kept = w->kept_at;
  pbWork_Place_r(w, NULL);
  if (kept != w->kept_at) memcpy(w->kept_at, kept, w->kept_bytes);
}

static void tell(const pbScratch *s, const pbEvent *events, int n, pbEventCount *count) {
  for (int i = 0; i < n; i++) {
    const pbEvent *e = events + i;
    if (!e->pushes) continue;
    if (e->grazing) pbScratch_KindName(s, e->kind, e->id, count->grazing_name, sizeof count->grazing_name);
    if (e->together) pbScratch_KindName(s, e->kind, e->id, count->together_name, sizeof count->together_name);
    count->grazing += e->grazing, count->corrected += !e->grazing, count->together += e->together;
  }
}

// Events of the step that work holds, releases first, then onsets. v: the velocity at which the step moves positions.
typedef struct found {
  pbEvent *releases, *onsets;
  int release_count, onset_count;
} found;

static found find(const pbScratch *s, const double *v, bool first) {
  found f = {.releases = s->events};
  // hard contact that parts pushes no more
  f.release_count = pb_hard(s->model) ? 0 : s->variant->impact->event_find(&s->w, v, f.releases);
  f.onsets = f.releases + f.release_count;
  f.onset_count = first ? 0 : s->variant->impact->event_find(&s->w, NULL, f.onsets);
  return f;
}

static pbStatus jumps(pbScratch *s, const double *v, pbEvent *events, int n, const pbEventPull *pull) {
  pbStatus status = n ? s->variant->impact->event_jumps(&s->w, v, events, n, pull) : pb_ok;
  return status == pb_ok ? status : pbScratch_Fail(s, status, "derivative of an event: %s", pbStatus_Text(status));
}

// ---- impulses -----------------------------------------------------------------------------------------------------------
// Onsets of hard contact. Those that strike together have the saltation D + (F+ - D F) dt with one moment dt, the mean of their
// d(dist - margin) / rate by their impulses; D is the step, whose dependence on depth cancels. Groups that leave each other alone may
// be taken in any order, so each as the last one: D and F then belong to the state that the others have left behind. Their columns
// F+ - D F must sum up to that of the whole step; what little is left is shared out. Where much is left, the order matters after all:
// there is no derivative, and all strike together.
typedef struct impulses {
  pbScratch *s;
  const double *theta, *record;
  const pbInput *input;
  pbEvent *events;
  int count, groups;
  const double *v_after;                                 // nv
  double *F, *F_after, *by_flow, *all, *sum, *modified;  // n each; modified: a record
  const double *bar, *distance;                          // reverse or forward: of the state after; of distances
  double *distance_bar, *next;                           // nrow, n: what comes out, added to
  double *bars, *moves;                                  // the same on the way
} impulses;

enum { columns = 6 };

size_t pbEvents_Room(const pbModel *m) {
  return columns * (size_t)pbModel_TangentSize(m) + (size_t)tape_stages(m) + (size_t)(pb_stages(m) * m->nv);
}

static void share_room(impulses *p, double *room) {
  size_t n = (size_t)pbModel_TangentSize(p->s->model);
  memset(room, 0, columns * n * sizeof(double));
  p->F = room, p->F_after = room + n, p->by_flow = room + 2 * n, p->all = room + 3 * n, p->sum = room + 4 * n,
  p->moves = room + 5 * n;
  p->modified = room + columns * n;
}

static pbStatus rate(impulses *p, const double *v, int without, bool at_guard, double *a) {
  pbStatus status = p->s->variant->impact->event_rate(&p->s->w, v, p->events, p->count, without, at_guard, a);
  return status == pb_ok ? status : pbScratch_Fail(p->s, status, "derivative of an event: %s", pbStatus_Text(status));
}

// What belongs together, and the shares in its moment. Work is at the solution of the step, and is so again.
static pbStatus sort_out(impulses *p) {
  pbScratch *s = p->s;
  const double *v = p->record + state_layout(s->model).qvel;
  double *a = p->F + s->model->nv;
  s->variant->impact->event_look(&s->w, p->events, p->count, NULL);
  PB_TRY(rate(p, v, pb_eventsAll, true, a));
  PB_TRY(rate(p, v, pb_eventsNone, false, p->by_flow));
  s->variant->impact->event_look(&s->w, p->events, p->count, a);
  p->groups = s->variant->impact->event_group(&s->w, p->events, p->count, s->event_parent);
  for (int g = 0; g < p->groups; g++) {
    double total = 0;
    int members = 0;
    for (int i = 0; i < p->count; i++) {
      if (p->events[i].acts && p->events[i].group == g) total += p->events[i].impulse, members++;
    }
    for (int i = 0; i < p->count; i++) {
      if (!p->events[i].acts || p->events[i].group != g) continue;
      p->events[i].share = total > 0 ? p->events[i].impulse / total : 1. / members;
      p->events[i].bar = 0;
      p->events[i].together = members > 1;
    }
  }
  return pb_ok;
}

// column = F+ - D F, D the step from the record.
static pbStatus column_of(impulses *p, const double *record, double *column) {
  const pbModel *m = p->s->model;
  PB_TRY(pbStep_Jvp(m, p->theta, record, p->input, &(pbDirection){.x = p->F}, p->s, p->by_flow, NULL, NULL, NULL));
  for (int i = 0; i < 2 * m->nv; i++) column[i] = p->F_after[i] - p->by_flow[i];
  return pb_ok;
}

// The column, times scale, with the moment of a group.
static void use(impulses *p, int group, const double *column, double scale) {
  int n = 2 * p->s->model->nv;
  double along = 0, moved = 0;
  for (int i = 0; p->bar && i < n; i++) along += column[i] * p->bar[i];
  for (int k = 0; k < p->count; k++) {
    pbEvent *e = p->events + k;
    if (!e->acts || e->group != group) continue;
    e->bar += scale * along * e->share / e->rate;
    if (p->distance) moved += scale * e->share * p->distance[e->row] / e->rate;
  }
  for (int i = 0; p->next && i < n; i++) p->moves[i] += moved * column[i];
}

// A group as the last one; its column is used and added to the sum.
static pbStatus last(impulses *p, int group) {
  pbScratch *s = p->s;
  const pbModel *m = s->model;
  size_t nv = (size_t)m->nv;
  double h = s->w.p.timestep[0], *v = p->F, *a = p->F + nv, *column = p->by_flow;
  const double *before = p->record + state_layout(m).qvel;
  PB_TRY(rate(p, before, group, false, a));
  for (size_t i = 0; i < nv; i++) v[i] = before[i] + h * a[i];
  PB_TRY(rate(p, v, pb_eventsNone, false, a));
  memcpy(p->modified, p->record, (size_t)tape_stages(m) * sizeof(double));
  memcpy(p->modified + state_layout(m).qvel, v, nv * sizeof(double));
  memcpy(p->modified + tape_stages(m), s->w.qacc, nv * sizeof(double));
  PB_TRY(rate(p, v, group, true, a));
  PB_TRY(column_of(p, p->modified, column));
  use(p, group, column, 1);
  for (size_t i = 0; i < 2 * nv; i++) p->sum[i] += column[i];
  return pb_ok;
}

static double largest(const double *x, int n) {
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  return most;
}

// The columns sum up to that of the whole step where the groups leave each other alone.
static bool commute(impulses *p) {
  static const double little = 0.01;
  int nv = p->s->model->nv;
  for (int i = 0; i < 2 * nv; i++) p->sum[i] -= p->all[i];
  double v = largest(p->all, nv), a = largest(p->all + nv, nv) + largest(p->F_after + nv, nv);
  return largest(p->sum, nv) <= little * v && largest(p->sum + nv, nv) <= little * a;
}

// All that acts strikes together.
static void join(impulses *p) {
  double total = 0;
  int members = 0;
  memset(p->moves, 0, 2 * (size_t)p->s->model->nv * sizeof(double));
  for (int i = 0; i < p->count; i++) {
    pbEvent *e = p->events + i;
    if (!e->acts) continue;
    e->group = 0, e->bar = 0, e->together = true;
    total += e->impulse, members++;
  }
  for (int i = 0; i < p->count; i++) p->events[i].share = total > 0 ? p->events[i].impulse / total : 1. / members;
}

static void hand_out(const impulses *p) {
  int n = 2 * p->s->model->nv;
  for (int i = 0; p->bar && i < p->count; i++) {
    if (p->events[i].acts) p->distance_bar[p->events[i].row] += p->events[i].bar;
  }
  for (int i = 0; p->next && i < n; i++) p->next[i] += p->moves[i];
}

static pbStatus impulse(impulses *p) {
  pbScratch *s = p->s;
  size_t nv = (size_t)s->model->nv;
  const double *v = p->record + state_layout(s->model).qvel;
  share_room(p, s->event_columns);
  PB_TRY(sort_out(p));
  if (!p->groups) return pb_ok;
  memcpy(p->F_after, p->v_after, nv * sizeof(double));
  PB_TRY(rate(p, p->v_after, pb_eventsNone, true, p->F_after + nv));
  PB_TRY(rate(p, v, pb_eventsAll, true, p->F + nv));
  memcpy(p->F, v, nv * sizeof(double));
  PB_TRY(column_of(p, p->record, p->all));
  for (int g = 0; g < p->groups && p->groups > 1; g++) PB_TRY(last(p, g));
  if (p->groups > 1 && commute(p)) {
    for (int g = 0; g < p->groups; g++) use(p, g, p->sum, -1. / p->groups);
  } else {
    if (p->groups > 1) join(p);
    use(p, 0, p->all, 1);
  }
  hand_out(p);
  return pb_ok;
}

// The step with its onsets and releases: v+ += D (onsets), q+ follows by h D, v+ += D (releases). Here from the last to the first.
pbStatus pbStep_EventsVjp(const pbModel *m, const double *theta, const double *record, void *kept, const pbInput *input,
                          const double *next_bar, bool first, pbScratch *s, double *x_bar, const pbInputBar *input_bar,
                          double *theta_bar, pbEventCount *count) {
  size_t n = (size_t)pbModel_TangentSize(m), nv = (size_t)m->nv;
  double *next = s->event_numbers, *after = next + n, *distance = after + n, *v = s->state;
  velocity_across(s, record + tape_stages(m), v);
  found f = find(s, v, first);
  if (!f.release_count && !f.onset_count) return pb_ok;
  memset(next, 0, n * sizeof(double));
  memset(distance, 0, (size_t)s->w.nrow * sizeof(double));
  leave(&s->w);
  if (pb_hard(m)) {
    impulses p = {.s = s,
                  .theta = theta,
                  .record = record,
                  .input = input,
                  .events = f.onsets,
                  .count = f.onset_count,
                  .v_after = v,
                  .bar = next_bar,
                  .distance_bar = distance};
    PB_TRY(impulse(&p));
    tell(s, f.onsets, f.onset_count, count);
    if (!p.groups) return pb_ok;
    return pbStep_VjpKept(m, theta, record, kept, input, next, NULL, distance, s, x_bar, input_bar, theta_bar);
  }
  pbEventPull bars = {.v_bar = next_bar + nv, .distance_bar = distance, .v_next_bar = next + nv};
  PB_TRY(jumps(s, v, f.releases, f.release_count, &bars));
  for (size_t i = 0; i < nv; i++) after[i] = next_bar[nv + i] + next[nv + i];
  bars.v_bar = after, bars.q_bar = next_bar;
  PB_TRY(jumps(s, s->w.qvel, f.onsets, f.onset_count, &bars));
  tell(s, f.releases, f.release_count + f.onset_count, count);
  return pbStep_VjpKept(m, theta, record, kept, input, next, NULL, distance, s, x_bar, input_bar, theta_bar);
}

pbStatus pbStep_EventsJvp(const pbModel *m, const double *theta, const double *record, const double *x_next, const pbInput *input,
                          const pbDirection *direction, bool first, pbScratch *s, double *next) {
  size_t nv = (size_t)m->nv;
  double *after = s->event_numbers, *distance = after + nv, *v = s->state;
  const double *given = theta;  // directions of theta are of this one
  PB_TRY(pbScratch_Enter(s, m, &theta));
  const double *v_next = x_next + state_layout(m).qvel;
  memcpy(s->stages, record + tape_stages(m), (size_t)(pb_stages(m) * m->nv) * sizeof(double));
  pbScratch_Load(s, theta, record, input);
  PB_TRY(s->variant->run(&s->w, s->stages, true, false, false));
  for (size_t i = 0; i < nv; i++) v[i] = m->integrator == pb_intRK4 ? 0.5 * (s->w.qvel[i] + v_next[i]) : v_next[i];
  found f = find(s, v, first);
  if (!f.release_count && !f.onset_count) return pb_ok;
  PB_TRY(pbStep_Jvp(m, given, record, input, direction, s, NULL, NULL, NULL, NULL));
  pbJvp_Distances(s->complex_work, distance);
  if (pb_hard(m)) {
    impulses p = {.s = s,
                  .theta = theta,
                  .record = record,
                  .input = input,
                  .events = f.onsets,
                  .count = f.onset_count,
                  .v_after = v,
                  .next = next,
                  .distance = distance};
    return impulse(&p);
  }
  PB_TRY(jumps(s, s->w.qvel, f.onsets, f.onset_count, &(pbEventPull){.distance = distance, .q = next, .v = next + nv}));
  memcpy(after, next + nv, nv * sizeof(double));
  return jumps(s, v, f.releases, f.release_count, &(pbEventPull){.distance = distance, .v_next = after, .v = next + nv});
}
