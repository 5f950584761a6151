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

// Events of the step that work holds, releases first, then onsets. v: the velocity at which the step moves positions.
typedef struct found {
  pbEvent *releases, *onsets;
  int release_count, onset_count;
} found;

static found find(const pbScratch *s, const double *v, bool first) {
  found f = {.releases = s->events};
  // hard contact that parts pushes no more
  f.release_count = pb_hard(s->model) ? 0 : s->variant->event_find(&s->w, v, f.releases);
  f.onsets = f.releases + f.release_count;
  f.onset_count = first ? 0 : s->variant->event_find(&s->w, NULL, f.onsets);
  return f;
}

static pbStatus jumps(pbScratch *s, const double *v, pbEvent *events, int n, const pbEventPull *pull) {
  pbStatus status = n ? s->variant->event_jumps(&s->w, v, events, n, pull) : pb_ok;
  return status == pb_ok ? status : pbScratch_Fail(s, status, "derivative of an event: %s", pbStatus_Text(status));
}

// ---- one impulse --------------------------------------------------------------------------------------------------------
// A step with the onset of one hard contact alone is the whole jump map D of its saltation D + (F+ - D F) n' / rate, F = (v, a) the
// rates of the state before and F+ = (v+, a+) after: so what of D moves with the depth of the contact cancels.
typedef struct flow {
  double *v, *a, *v_after, *a_after;  // nv each, in scratch->seeds
} flow;

static bool one_impulse(const pbModel *m, const found *f) { return pb_hard(m) && f->onset_count == 1; }

static pbStatus flow_around(pbScratch *s, const double *v_after, pbEvent *event, flow *F) {
  size_t nv = (size_t)s->model->nv, bytes = nv * sizeof(double);
  *F = (flow){s->seeds, s->seeds + nv, s->seeds + 2 * nv, s->seeds + 3 * nv};
  memcpy(F->v, s->w.qvel, bytes), memcpy(F->v_after, v_after, bytes);
  pbStatus status = s->variant->event_around(&s->w, s->w.qvel, event, F->a, F->a_after);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "derivative of an event: %s", pbStatus_Text(status));
}

static double along(const double *v, const double *a, const double *bar, size_t nv) {
  double sum = 0;
  for (size_t i = 0; i < nv; i++) sum += v[i] * bar[i] + a[i] * bar[nv + i];
  return sum;
}

// The step with its onsets and releases: v+ += D (onsets), q+ follows by h D, v+ += D (releases). Here from the last to the first.
pbStatus pbStep_EventsVjp(const pbModel *m, const double *theta, const double *record, void *kept, const pbInput *input,
                          const double *next_bar, bool first, pbScratch *s, double *x_bar, const pbInputBar *input_bar,
                          double *theta_bar, pbEventCount *count) {
  size_t n = (size_t)pbModel_TangentSize(m), nv = (size_t)m->nv;
  double *next = s->event_numbers, *after = next + n, *distance = after + n, *v = s->state;
  velocity_across(s, record + pbModel_StateSize(m), v);
  found f = find(s, v, first);
  if (!f.release_count && !f.onset_count) return pb_ok;
  memset(next, 0, n * sizeof(double));
  memset(distance, 0, (size_t)s->w.nrow * sizeof(double));
  leave(&s->w);
  if (one_impulse(m, &f)) {
    flow F;
    PB_TRY(flow_around(s, v, f.onsets, &F));
    tell(f.onsets, 1, count);
    if (f.onsets->grazing || !f.onsets->pushes) return pb_ok;
    memset(after, 0, n * sizeof(double));
    PB_TRY(pbStep_VjpKept(m, theta, record, kept, input, next_bar, NULL, NULL, s, after, NULL, NULL));
    distance[f.onsets->row] = (along(F.v_after, F.a_after, next_bar, nv) - along(F.v, F.a, after, nv)) / f.onsets->rate;
    return pbStep_VjpKept(m, theta, record, kept, input, next, NULL, distance, s, x_bar, input_bar, theta_bar);
  }
  pbEventPull bars = {.v_bar = next_bar + nv, .distance_bar = distance, .v_next_bar = next + nv};
  PB_TRY(jumps(s, v, f.releases, f.release_count, &bars));
  for (size_t i = 0; i < nv; i++) after[i] = next_bar[nv + i] + next[nv + i];
  bars.v_bar = after, bars.q_bar = next_bar;
  PB_TRY(jumps(s, s->w.qvel, f.onsets, f.onset_count, &bars));
  tell(f.releases, f.release_count + f.onset_count, count);
  return pbStep_VjpKept(m, theta, record, kept, input, next, NULL, distance, s, x_bar, input_bar, theta_bar);
}

pbStatus pbStep_EventsJvp(const pbModel *m, const double *theta, const double *record, const double *x_next, const pbInput *input,
                          const pbDirection *direction, bool first, pbScratch *s, double *next) {
  size_t nv = (size_t)m->nv;
  double *after = s->event_numbers, *distance = after + nv, *v = s->state;
  const double *v_next = x_next + state_layout(m).qvel;
  memcpy(s->stages, record + pbModel_StateSize(m), (size_t)(pb_stages(m) * m->nv) * sizeof(double));
  pbScratch_Load(s, theta, record, input);
  PB_TRY(s->variant->run(&s->w, s->stages, true, false, false));
  for (size_t i = 0; i < nv; i++) v[i] = m->integrator == pb_intRK4 ? 0.5 * (s->w.qvel[i] + v_next[i]) : v_next[i];
  found f = find(s, v, first);
  if (!f.release_count && !f.onset_count) return pb_ok;
  PB_TRY(pbStep_Jvp(m, theta, record, input, direction, s, NULL, NULL, NULL, NULL));
  pbJvp_Distances(s->complex_work, distance);
  if (one_impulse(m, &f)) {
    flow F;
    PB_TRY(flow_around(s, v, f.onsets, &F));
    if (f.onsets->grazing || !f.onsets->pushes) return pb_ok;
    double moved = distance[f.onsets->row] / f.onsets->rate, *pushed = s->seeds + 4 * nv;
    memset(pushed, 0, (size_t)pbModel_TangentSize(m) * sizeof(double));
    memcpy(pushed, F.v, nv * sizeof(double)), memcpy(pushed + nv, F.a, nv * sizeof(double));
    double *by_flow = pushed + pbModel_TangentSize(m);
    PB_TRY(pbStep_Jvp(m, theta, record, input, &(pbDirection){.x = pushed}, s, by_flow, NULL, NULL, NULL));
    for (size_t i = 0; i < nv; i++) {
      next[i] += moved * (F.v_after[i] - by_flow[i]);
      next[nv + i] += moved * (F.a_after[i] - by_flow[nv + i]);
    }
    return pb_ok;
  }
  PB_TRY(jumps(s, s->w.qvel, f.onsets, f.onset_count, &(pbEventPull){.distance = distance, .q = next, .v = next + nv}));
  memcpy(after, next + nv, nv * sizeof(double));
  return jumps(s, v, f.releases, f.release_count, &(pbEventPull){.distance = distance, .v_next = after, .v = next + nv});
}
