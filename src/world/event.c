#include "world/event.h"

#include <string.h>

#include "world/integrate.h"
#include "world/jvp.h"
#include "world/kept.h"
#include "world/scratch.h"

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

static void tell(const pbEvent *events, int n, pbEventCount *count) {
  for (int i = 0; i < n; i++) {
    if (!events[i].pushes) continue;
    if (events[i].grazing) count->grazing++;
    else count->corrected++;
    if (events[i].together) count->together++;
  }
}

typedef struct step {  // what pbStep_VjpKept is called with
  const pbModel *m;
  const double *theta, *record;
  void *kept;
  const pbInput *input;
  pbScratch *s;
  double *x_bar, *theta_bar;
  const pbInputBar *input_bar;
} step;

// Cotangents of the events' distances, given that of the velocity after them, to everything before the step.
static pbStatus pull(const step *p, const double *v, const double *v_bar, int n, double *distance_bar, double *next_bar,
                     pbEventCount *count) {
  pbScratch *s = p->s;
  pbEventPull bars = {.v_bar = v_bar, .distance_bar = distance_bar, .v_next_bar = next_bar ? next_bar + p->m->nv : NULL};
  memset(distance_bar, 0, (size_t)s->w.nrow * sizeof(double));
  leave(&s->w);
  pbStatus status = s->variant->event_jumps(&s->w, v, s->events, n, &bars);
  if (status != pb_ok) return pbScratch_Fail(s, status, "pullback: event: %s", pbStatus_Text(status));
  tell(s->events, n, count);
  return pbStep_VjpKept(p->m, p->theta, p->record, p->kept, p->input, next_bar, NULL, distance_bar, s, p->x_bar, p->input_bar,
                        p->theta_bar);
}

pbStatus pbStep_EventsVjp(const pbModel *m, const double *theta, const double *record, void *kept, const pbInput *input,
                          const double *next_bar, const pbObservationBar *observed, bool first, pbScratch *s, double *x_bar,
                          const pbInputBar *input_bar, double *theta_bar, pbEventCount *count) {
  const step p = {m, theta, record, kept, input, s, x_bar, theta_bar, input_bar};
  size_t n = (size_t)pbModel_TangentSize(m), nv = (size_t)m->nv;
  double *next = s->event_numbers, *seen = next + n, *distance = seen + n, *v = s->state;
  velocity_across(s, record + pbModel_StateSize(m), v);
  int found = s->variant->event_find(&s->w, v, s->events);
  memset(next, 0, n * sizeof(double));
  if (found) {
    PB_TRY(pull(&p, v, next_bar + nv, found, distance, next, count));
  }
  found = first ? 0 : s->variant->event_find(&s->w, NULL, s->events);
  if (!found) return pb_ok;
  memset(seen, 0, n * sizeof(double));  // what is seen at the state is seen before the event
  if (observed) PB_TRY(pbStep_VjpKept(m, theta, record, kept, input, NULL, observed, NULL, s, seen, NULL, NULL));
  double h = s->w.p.timestep[0];
  for (size_t i = 0; i < nv; i++) {
    double after = next_bar[nv + i] + next[nv + i] + h * next_bar[i];  // of the velocity that the step makes
    next[i] = 0.5 * (x_bar[nv + i] - seen[nv + i] + after);
  }
  return pull(&p, s->w.qvel, next, found, distance, NULL, count);
}

// ---- forward --------------------------------------------------------------------------------------------------------
// The evaluation of the step into work, as the pullback has it.
static pbStatus replay(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s) {
  memcpy(s->stages, record + pbModel_StateSize(m), (size_t)(pb_stages(m) * m->nv) * sizeof(double));
  pbScratch_Load(s, theta, record, input);
  pbStatus status = s->variant->run(&s->w, s->stages, true, false, false);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "forward derivative: %s", pbStatus_Text(status));
}

static pbStatus push(pbScratch *s, const double *v, int n, const pbEventPull *tangents) {
  pbStatus status = s->variant->event_jumps(&s->w, v, s->events, n, tangents);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "forward derivative: event: %s", pbStatus_Text(status));
}

pbStatus pbStep_EventsJvp(const pbModel *m, const double *theta, const double *record, const double *x_next, const pbInput *input,
                          const pbDirection *direction, bool first, pbScratch *s, double *next) {
  size_t n = (size_t)pbModel_TangentSize(m), nv = (size_t)m->nv;
  double *onset = s->event_numbers, *after = onset + n, *distance = after + n, *v = s->state;
  const double *v_next = x_next + state_layout(m).qvel;
  PB_TRY(replay(m, theta, record, input, s));
  for (size_t i = 0; i < nv; i++) v[i] = m->integrator == pb_intRK4 ? 0.5 * (s->w.qvel[i] + v_next[i]) : v_next[i];
  int onsets = first ? 0 : s->variant->event_find(&s->w, NULL, s->events);
  int releases = s->variant->event_find(&s->w, v, s->events);
  if (!onsets && !releases) return pb_ok;
  PB_TRY(pbStep_Jvp(m, theta, record, input, direction, s, NULL, NULL, NULL, NULL));
  pbJvp_Distances(s->complex_work, distance);
  if (onsets) {
    memset(onset, 0, n * sizeof(double));
    onsets = s->variant->event_find(&s->w, NULL, s->events);
    PB_TRY(push(s, s->w.qvel, onsets, &(pbEventPull){.distance = distance, .v = onset + nv}));
    PB_TRY(pbStep_Jvp(m, theta, record, input, &(pbDirection){.x = onset}, s, after, NULL, NULL, NULL));
    for (size_t i = 0; i < n; i++) next[i] += 0.5 * after[i];
    for (size_t i = 0; i < nv; i++) next[i] += 0.5 * s->w.p.timestep[0] * onset[nv + i], next[nv + i] += 0.5 * onset[nv + i];
    PB_TRY(replay(m, theta, record, input, s));
  }
  if (!releases) return pb_ok;
  releases = s->variant->event_find(&s->w, v, s->events);
  memcpy(after, next + nv, nv * sizeof(double));
  return push(s, v, releases, &(pbEventPull){.distance = distance, .v_next = after, .v = next + nv});
}
