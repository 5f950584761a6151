#include "number/number.h"

#if !PB_IS_COMPLEX

#include "contact/row.h"
#include "math/vec.h"
#include "solve/newton.h"
#include "step/integrate.h"
#include "impact/event_kernel.h"
#include "step/kernels.h"

static const double same_time = 1e-6;  // part of a time step
// Parts of a closing speed: below, an impulse leaves a row that it does not move at all, or another onset, as it was.
static const double structural = 1e-9, weak = 1e-3;

// The distance a step back is known to first order only. Hard contact that was there before does not close, so it is no risk to look a
// little further back, by this part of a step.
static const double bend = 0.1;

// ---- which ----------------------------------------------------------------------------------------------------------
// First row of a block: J_n v.
static double normal_times(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *v) {
  const int *dofs = w->row_dofs + r->dofs;
  const double *J = w->row_J + r->J;
  double s = 0;
  for (int i = 0; i < r->n; i++) s += J[i] * v[dofs[i]];
  return s;
}

static void insert(pbEvent *events, int n, pbEvent e) {
  for (; n > 0 && events[n - 1].when < e.when; n--) events[n] = events[n - 1];
  events[n] = e;
}

int NUM(pbEvent_Find)(const NUM(pbWork) *w, const double *v_next, pbEvent *events) {
  double h = w->p.timestep[0];
  int n = 0;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->kind != pb_rowContact && r->kind != pb_rowLimit) continue;
    if (pb_explicit(w->m, r) || (r->kind == pb_rowContact && w->m->contact.onset > 0)) continue;  // their force fades in
    double gap = r->pos[0] - r->margin, rate = v_next ? normal_times(w, r, v_next) : r->vel[0];
    double before = rate < 0 && pb_hard(w->m) ? gap - (1 + bend) * h * rate : gap - h * rate;
    bool crossed = v_next ? gap + h * rate >= 0 : before >= 0;
    if (crossed)
      insert(events, n++,
             (pbEvent){.row = k, .kind = r->kind, .id = r->id, .release = v_next, .when = fabs(gap / rate), .rate = rate});
  }
  return n;
}

// ---- their jumps ------------------------------------------------------------------------------------------------------
typedef struct jumps {
  NUM(pbWork) *w;
  pbEvent *events;
  const pbEventPull *pull;
  int rows;             // without those of the events, which come behind them, in order
  double *base, *last;  // nv: accelerations without the rows of a group, and with some of them
} jumps;

static void swap_rows(NUM(pbWork) *w, int a, int b) {
  NUM(pbRow) t = w->row[a];
  w->row[a] = w->row[b];
  w->row[b] = t;
}

// Rows of the events to the end, as they are at the guard.
static void gather(jumps *j, const double *v, int count) {
  NUM(pbWork) *w = j->w;
  j->rows = w->nrow - count;
  for (int e = count - 1; e >= 0; e--) {
    int from = j->events[e].place, to = j->rows + e;
    for (int f = 0; f < e; f++) {
      if (j->events[f].place == to) j->events[f].place = from;
    }
    swap_rows(w, from, to);
    NUM(pbRow_AtGuard)(w, w->row + to, v);
  }
}

// qacc_integrated with the first `rows` rows, from where qacc is.
static pbStatus solve(NUM(pbWork) *w, int rows) {
  w->nrow = rows;
  memcpy(w->qacc_warmstart, w->qacc, (size_t)w->m->nv * sizeof(double));
  PB_TRY(NUM(pbStage_Solve)(w));
  return NUM(pbIntegrate_Damp)(w);
}

// Event e moves velocities by the jump, positions by h times as much; `share` of it.
static void apply(const jumps *j, const pbEvent *e, const NUM(pbRow) *r, double share, const double *change) {
  const NUM(pbWork) *w = j->w;
  const pbEventPull *p = j->pull;
  const int *dofs = w->row_dofs + r->dofs;
  const double *J = w->row_J + r->J;
  double h = w->p.timestep[0], factor = (e->release ? -share : share) / e->rate, g = 0;
  if (p->v_bar) {
    for (int i = 0; i < w->m->nv; i++) g += change[i] * (p->v_bar[i] + (p->q_bar ? h * p->q_bar[i] : 0));
    g *= factor;
    p->distance_bar[e->row] += g;
    for (int i = 0; e->release && i < r->n; i++) p->v_next_bar[dofs[i]] += h * g * J[i];
  }
  if (p->v) {
    double way = factor * (p->distance[e->row] + (e->release ? h * normal_times(w, r, p->v_next) : 0));
    for (int i = 0; i < w->m->nv; i++) p->v[i] += way * change[i];
    for (int i = 0; p->q && i < w->m->nv; i++) p->q[i] += way * h * change[i];
  }
}

// The last of the rows has been put in: what its event moves.
static pbStatus jump(jumps *j, const pbEvent *e, int rows, double share) {
  NUM(pbWork) *w = j->w;
  const NUM(pbRow) *r = w->row + rows - 1;
  size_t nv = (size_t)w->m->nv;
  double *with = j->base + 2 * nv, *change = j->base + 3 * nv;
  memcpy(with, w->qacc_integrated, nv * sizeof(double));
  for (size_t i = 0; i < nv; i++) change[i] = with[i] - j->last[i];
  if (!e->grazing) apply(j, e, r, share, change);
  memcpy(j->last, with, nv * sizeof(double));
  return pb_ok;
}

// Rows of events first .. end - 1, which come at the same time, one after the other; `back`: from the last to the first.
static pbStatus put_in(jumps *j, int first, int end, bool back, double share) {
  NUM(pbWork) *w = j->w;
  size_t bytes = (size_t)w->m->nv * sizeof(double);
  memcpy(j->last, j->base, bytes);
  for (int i = 0; back && i < (end - first) / 2; i++) swap_rows(w, j->rows + first + i, j->rows + end - 1 - i);
  for (int i = first; i < end; i++) {
    pbEvent *e = j->events + (back ? first + end - 1 - i : i);
    PB_TRY(solve(w, j->rows + i + 1));
    e->pushes = e->pushes || w->row[j->rows + i].zone;
    PB_TRY(jump(j, e, j->rows + i + 1, share));
  }
  return pb_ok;
}

// A soft row takes the time 1/b or 1/sqrt(k) to change a speed. What speeds up by more than its rate in that time, or its row changes
// the rate much faster, is pressed together or slides past, not struck: bodies that come to rest do so many times, each for a
// moment, and 1 / rate says nothing of it.
static bool grazes(const NUM(pbWork) *w, const NUM(pbRow) *r, double rate, const double *without, const double *with) {
  static const double much = 4;
  double h = w->p.timestep[0], own = 1 / fmax(r->b * r->imp, sqrt(r->k) * r->imp);
  double free = fabs(normal_times(w, r, without)), pushed = fabs(normal_times(w, r, with));
  return fabs(rate) <= fmax(h * fmax(free, pushed), own * fmax(free, pushed / much));
}

// Events at the same time have no order; the mean of two opposite ones is what a central difference across the tie gives.
static pbStatus group(jumps *j, int first, int end) {
  NUM(pbWork) *w = j->w;
  memcpy(j->base, w->qacc_integrated, (size_t)w->m->nv * sizeof(double));
  PB_TRY(solve(w, j->rows + end));
  for (int i = first; i < end; i++) {
    pbEvent *e = j->events + i;
    e->together = end - first > 1;
    e->grazing = grazes(w, w->row + j->rows + i, e->rate, j->base, w->qacc_integrated);
  }
  if (end - first == 1) return put_in(j, first, end, false, 1);
  PB_TRY(put_in(j, first, end, true, 0.5));
  for (int i = 0; i < (end - first) / 2; i++) swap_rows(w, j->rows + first + i, j->rows + end - 1 - i);
  return put_in(j, first, end, false, 0.5);
}

// The rows anew, those of the events at the end, and the acceleration without these.
static pbStatus prepare(jumps *j, const double *v, int count) {
  NUM(pbWork) *w = j->w;
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);  // of all other forces an evaluation that is cached has only the sum
  for (int i = 0; i < w->m->nv; i++) w->qfrc_smooth[i] = w->Ma[i] - w->qfrc_constraint[i];
  w->replay = false;
  PB_TRY(NUM(pbStage_Rows)(w));
  for (int e = 0; e < count; e++) j->events[e].place = j->events[e].row;
  gather(j, v, count);
  return solve(w, j->rows);
}

pbStatus NUM(pbEvent_Jumps)(NUM(pbWork) *w, const double *v, pbEvent *events, int count, const pbEventPull *pull) {
  jumps j = {.w = w, .events = events, .pull = pull, .base = w->rk_v, .last = w->rk_v + w->m->nv};
  PB_TRY(prepare(&j, v, count));
  for (int first = 0, end = 1; first < count; first = end++) {
    while (end < count && events[first].when - events[end].when <= same_time * w->p.timestep[0]) end++;
    PB_TRY(group(&j, first, end));
  }
  return pb_ok;
}

// ---- impulses ---------------------------------------------------------------------------------------------------------
// M^-1 J'f of a row.
static void by_force(const NUM(pbWork) *w, const NUM(pbRow) *r, double *a) {
  memset(a, 0, (size_t)w->m->nv * sizeof(double));
  NUM(pbRow_AddForce)(w, r, r->f, a);
  NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, a);
}

// Does the change dv of the velocity, by an impulse of another contact that closed at the speed `rate`, change what this row does?
static bool disturbed(const NUM(pbWork) *w, const NUM(pbRow) *r, bool onset, const double *dv, double rate) {
  double u[6], slip = 0;
  NUM(pbRow_Times)(w, r, dv, u);
  if (!onset) {
    for (int i = 0; i < r->dim; i++) {
      if (fabs(u[i]) > structural * fabs(rate)) return true;
    }
    return false;
  }
  for (int i = 1; r->kind == pb_rowContact && i < r->dim; i++) slip += w->contact[r->contact].friction[i - 1] * fabs(u[i]);
  return fmax(fabs(u[0]), slip) > weak * fabs(r->vel[0]);
}

static int root(const int *parent, int k) {
  while (parent[k] != k) k = parent[k];
  return k;
}

int NUM(pbEvent_Group)(const NUM(pbWork) *w, pbEvent *events, int count, int *parent) {
  double h = w->p.timestep[0], *dv = w->rk_v;
  int groups = 0;
  for (int k = 0; k < w->nrow; k++) parent[k] = k;
  for (int e = 0; e < count; e++) {
    const NUM(pbRow) *r = w->row + events[e].row;
    if (!events[e].acts) continue;
    by_force(w, r, dv);
    for (int i = 0; i < w->m->nv; i++) dv[i] *= h;
    for (int k = 0; k < w->nrow; k++) {
      if (k == events[e].row || !w->row[k].zone) continue;
      bool onset = false;
      for (int f = 0; f < count; f++) onset = onset || (events[f].row == k && events[f].acts);
      if (disturbed(w, w->row + k, onset, dv, events[e].rate)) parent[root(parent, k)] = root(parent, events[e].row);
    }
  }
  for (int e = 0; e < count; e++) {
    int own = root(parent, events[e].row), f = 0;
    if (!events[e].acts) continue;
    while (f < e && !(events[f].acts && root(parent, events[f].row) == own)) f++;
    events[e].group = f < e ? events[f].group : groups++;
    events[e].impulse = h * w->row[events[e].row].f[0];
  }
  return groups;
}

void NUM(pbEvent_Look)(const NUM(pbWork) *w, pbEvent *events, int count, const double *a) {
  double h = w->p.timestep[0];
  for (int e = 0; e < count; e++) {
    const NUM(pbRow) *r = w->row + events[e].row;
    events[e].pushes = r->zone;
    events[e].grazing = a && fabs(events[e].rate) <= h * fabs(normal_times(w, r, a));
    events[e].acts = events[e].pushes && !events[e].grazing;
  }
}

pbStatus NUM(pbEvent_Rate)(NUM(pbWork) *w, const double *v, const pbEvent *events, int count, int without, bool at_guard,
                           double *a) {
  int rows = 0;
  if (v != w->qvel) memcpy(w->qvel, v, (size_t)w->m->nv * sizeof(double));
  w->replay = false;
  NUM(pbStage_Velocity)(w);
  NUM(pbStage_Passive)(w);
  NUM(pbStage_Actuation)(w);
  NUM(pbStage_Smooth)(w);
  PB_TRY(NUM(pbStage_Rows)(w));
  for (int k = 0; k < w->nrow; k++) {
    const pbEvent *e = NULL;
    for (int i = 0; i < count && !e; i++) e = events[i].row == k && events[i].acts ? events + i : NULL;
    if (e && at_guard) NUM(pbRow_AtGuard)(w, w->row + k, v);
    if (e && (without == pb_eventsAll || e->group == without)) continue;
    if (rows < k) w->row[rows] = w->row[k];
    rows++;
  }
  PB_TRY(solve(w, rows));
  memcpy(a, w->qacc_integrated, (size_t)w->m->nv * sizeof(double));
  return pb_ok;
}

#endif
