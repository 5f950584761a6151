// The events of a step: which rows appear or go in it, and what they change, for derivatives (event.h).
// Tests: tests/unit/test_event.c.
#include "eval/stages.h"
#include "eval/work.h"
#include "number/number.h"

#if !PB_IS_COMPLEX

#include "base/assert.h"
#include "contact/prescribed.h"
#include "contact/row.h"
#include "impact/event_kernel.h"
#include "math/vec.h"
#include "multibody/spatial.h"
#include "solve/newton.h"
#include "step/integrate.h"
#include "step/kernels.h"

static const double same_time = 1e-6;  // part of a time step
// Parts of a closing speed: below, an impulse leaves a row that it does not move at all, or another onset, as it was.
static const double structural = 1e-9;
static const double weak = 1e-3;

// The distance a step back is known to first order only. Hard contact that was there before does not close, so it is no risk to
// look a little further back, by this part of a step.
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

// How fast a row's distance grows beside J_n v: by the paths of mocap bodies, where the forces have not seen it already.
static double prescribed(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  return r->kind == pb_rowContact ? NUM(pb_prescribed_rate)(&w->constraints, w->contact + r->contact) : 0;
}

static double closing(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  return pb_follows(w->m) ? r->vel[0] : r->vel[0] + prescribed(w, r);
}

// Can the row appear or go with a force? Penalty contacts have none at their margin, and with an onset forces fade in.
static bool has_events(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  if (r->kind != pb_rowContact && r->kind != pb_rowLimit) return false;
  return !(pb_explicit(w->m, r) || (r->kind == pb_rowContact && w->m->contact.onset > 0));
}

// Into a list of n, the earliest last.
static void insert(pbEvent *events, int n, pbEvent e) {
  for (; n > 0 && events[n - 1].when < e.when; n--) events[n] = events[n - 1];
  events[n] = e;
}

static bool latest_first(const pbEvent *events, int n) {
  for (int i = 1; i < n; i++) {
    if (events[i - 1].when < events[i].when) return false;
  }
  return true;
}

int NUM(pbEvent_Find)(const NUM(pbWork) *w, const double *v_next, pbEvent *events) {
  double h = w->p.timestep[0];
  int n = 0;

  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!has_events(w, r)) continue;

    // An onset: outside a step before. A release: outside a step after.
    double gap = r->pos[0] - r->margin;
    double rate = v_next ? normal_times(w, r, v_next) + prescribed(w, r) : closing(w, r);
    double before = rate < 0 && pb_hard(w->m) ? gap - (1 + bend) * h * rate : gap - h * rate;
    bool crossed = v_next ? gap + h * rate >= 0 : before >= 0;
    if (!crossed) continue;

    pbEvent e = {.row = k, .kind = r->kind, .id = r->id, .release = v_next, .when = fabs(gap / rate), .rate = rate};
    insert(events, n++, e);
  }

  PB_VALIDATE(latest_first(events, n));

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

static void reverse_rows(NUM(pbWork) *w, int first, int end) {
  for (int i = 0; i < (end - first) / 2; i++) swap_rows(w, first + i, end - 1 - i);
}

// Rows of the events to the end, as they are at the guard.
static void move_to_end(jumps *j, const double *v, int count) {
  NUM(pbWork) *w = j->w;

  j->rows = w->nrow - count;
  for (int e = count - 1; e >= 0; e--) {
    int from = j->events[e].slot;
    int to = j->rows + e;
    PB_ASSERT(from >= 0 && from <= to && to < w->nrow);

    // The row that makes room may be another event's.
    for (int f = 0; f < e; f++) {
      if (j->events[f].slot == to) j->events[f].slot = from;
    }
    swap_rows(w, from, to);
    NUM(pbRow_AtGuard)(&w->constraints, w->row + to, v);
  }
}

// qacc_integrated with the first `rows` rows, from where qacc is.
static pbStatus solve(NUM(pbWork) *w, int rows) {
  w->nrow = rows;
  memcpy(w->qacc_warmstart, w->qacc, (size_t)w->m->nv * sizeof(double));
  PB_TRY(NUM(pbStage_Solve)(w));
  return NUM(pbIntegrate_Damp)(w);
}

// Event e moves velocities by its jump times factor, positions by h times as much: the cotangent of its distance.
static void pull_jump(const jumps *j, const pbEvent *e, const NUM(pbRow) *r, double factor, const double *change) {
  const NUM(pbWork) *w = j->w;
  const pbEventPull *p = j->pull;
  double h = w->p.timestep[0];
  double g = 0;

  for (int i = 0; i < w->m->nv; i++) g += change[i] * (p->v_bar[i] + (p->q_bar ? h * p->q_bar[i] : 0));
  g *= factor;
  p->distance_bar[e->row] += g;
  if (!e->release) return;

  // The distance a step later
  const int *dofs = w->row_dofs + r->dofs;
  const double *J = w->row_J + r->J;
  for (int i = 0; i < r->n; i++) p->v_next_bar[dofs[i]] += h * g * J[i];
}

static void push_jump(const jumps *j, const pbEvent *e, const NUM(pbRow) *r, double factor, const double *change) {
  const NUM(pbWork) *w = j->w;
  const pbEventPull *p = j->pull;
  double h = w->p.timestep[0];
  double moved = factor * (p->distance[e->row] + (e->release ? h * normal_times(w, r, p->v_next) : 0));

  for (int i = 0; i < w->m->nv; i++) p->v[i] += moved * change[i];
  if (!p->q) return;
  for (int i = 0; i < w->m->nv; i++) p->q[i] += moved * h * change[i];
}

// The last of the rows has been put in: `share` of what its event moves.
static void apply_jump(jumps *j, const pbEvent *e, int rows, double share) {
  const NUM(pbWork) *w = j->w;
  const NUM(pbRow) *r = w->row + rows - 1;
  size_t nv = (size_t)w->m->nv;
  double *with = j->base + 2 * nv;
  double *change = j->base + 3 * nv;

  // The jump Da: with the row less without it
  memcpy(with, w->qacc_integrated, nv * sizeof(double));
  for (size_t i = 0; i < nv; i++) change[i] = with[i] - j->last[i];

  if (!e->grazing) {
    double factor = (e->release ? -share : share) / e->rate;
    if (j->pull->v_bar) pull_jump(j, e, r, factor, change);
    if (j->pull->v) push_jump(j, e, r, factor, change);
  }
  memcpy(j->last, with, nv * sizeof(double));
}

// Rows of events first .. end - 1, which come at the same time, one after the other; `back`: from the last to the first.
static pbStatus add_rows(jumps *j, int first, int end, bool back, double share) {
  NUM(pbWork) *w = j->w;

  memcpy(j->last, j->base, (size_t)w->m->nv * sizeof(double));
  if (back) reverse_rows(w, j->rows + first, j->rows + end);
  for (int i = first; i < end; i++) {
    pbEvent *e = j->events + (back ? first + end - 1 - i : i);
    PB_TRY(solve(w, j->rows + i + 1));
    // In either order
    e->pushes = e->pushes || w->row[j->rows + i].zone;
    apply_jump(j, e, j->rows + i + 1, share);
  }

  return pb_ok;
}

// A soft row takes the time 1/b or 1/sqrt(k) to change a speed. What speeds up by more than its rate in that time, or its row
// changes the rate much faster, is pressed together or slides past, without an impact: bodies that come to rest do so many
// times, each for a moment, and 1 / rate says nothing of it.
static bool grazes(const NUM(pbWork) *w, const NUM(pbRow) *r, double rate, const double *without, const double *with) {
  static const double much = 4;
  double h = w->p.timestep[0];
  double own = 1 / fmax(r->b * r->imp, sqrt(r->k) * r->imp);
  double free = fabs(normal_times(w, r, without));
  double pushed = fabs(normal_times(w, r, with));
  return fabs(rate) <= fmax(h * fmax(free, pushed), own * fmax(free, pushed / much));
}

// Events at the same time have no order; the mean of two opposite ones is what a central difference across the tie gives.
static pbStatus apply_group(jumps *j, int first, int end) {
  NUM(pbWork) *w = j->w;
  bool together = end - first > 1;

  memcpy(j->base, w->qacc_integrated, (size_t)w->m->nv * sizeof(double));
  PB_TRY(solve(w, j->rows + end));
  for (int i = first; i < end; i++) {
    pbEvent *e = j->events + i;
    // Grazing is judged with the whole group at once.
    e->together = together;
    e->grazing = grazes(w, w->row + j->rows + i, e->rate, j->base, w->qacc_integrated);
  }

  if (!together) return add_rows(j, first, end, false, 1);
  PB_TRY(add_rows(j, first, end, true, 0.5));
  reverse_rows(w, j->rows + first, j->rows + end);

  return add_rows(j, first, end, false, 0.5);
}

// The rows again, those of the events at the end, and the acceleration without these.
static pbStatus prepare(jumps *j, const double *v, int count) {
  NUM(pbWork) *w = j->w;

  // Of all other forces a cached evaluation has only the sum: M a - J'f.
  NUM(pbTree_Mul)(&w->t->M, w->M, w->qacc, w->Ma);
  for (int i = 0; i < w->m->nv; i++) w->qfrc_smooth[i] = w->Ma[i] - w->qfrc_constraint[i];
  w->replay = false;
  PB_TRY(NUM(pbStage_Rows)(&w->constraints));

  // Where their rows are, before any moves
  for (int e = 0; e < count; e++) j->events[e].slot = j->events[e].row;
  move_to_end(j, v, count);

  return solve(w, j->rows);
}

pbStatus NUM(pbEvent_Jumps)(NUM(pbWork) *w, const double *v, pbEvent *events, int count, const pbEventPull *pull) {
  jumps j = {.w = w, .events = events, .pull = pull, .base = w->rk_v, .last = w->rk_v + w->m->nv};

  PB_TRY(prepare(&j, v, count));

  // Groups of events at the same time, in order
  double tie = same_time * w->p.timestep[0];
  for (int first = 0, end = 1; first < count; first = end++) {
    while (end < count && events[first].when - events[end].when <= tie) end++;
    PB_TRY(apply_group(&j, first, end));
  }

  return pb_ok;
}

// ---- impulses ---------------------------------------------------------------------------------------------------------
// M^-1 J'f of a row.
static void by_force(const NUM(pbWork) *w, const NUM(pbRow) *r, double *a) {
  memset(a, 0, (size_t)w->m->nv * sizeof(double));
  // Its force through the rows' Jacobian
  NUM(pbRow_AddForce)(&w->constraints, r, r->f, a);
  NUM(pbTree_Solve)(&w->t->M, w->LD, w->Dinv, a);
}

// Does the change dv of the velocity, by an impulse of another contact that closed at the speed `rate`, change what this row
// does?
static bool disturbed(const NUM(pbWork) *w, const NUM(pbRow) *r, bool onset, const double *dv, double rate) {
  double u[6];

  NUM(pbRow_Times)(&w->constraints, r, dv, u);
  if (!onset) {
    for (int i = 0; i < r->dim; i++) {
      if (fabs(u[i]) > structural * fabs(rate)) return true;
    }
    return false;
  }

  // An onset of its own: by its closing speed, and by slip as far as friction opposes it
  double slip = 0;
  int dim = r->kind == pb_rowContact ? r->dim : 1;
  for (int i = 1; i < dim; i++) slip += w->contact[r->contact].friction[i - 1] * fabs(u[i]);

  return fmax(fabs(u[0]), slip) > weak * fabs(closing(w, r));
}

static int find_root(const int *parent, int k) {
  while (parent[k] != k) k = parent[k];
  return k;
}

static bool acts_at_row(const pbEvent *events, int count, int row) {
  for (int e = 0; e < count; e++) {
    if (events[e].row == row && events[e].acts) return true;
  }
  return false;
}

// Joins the rows that the impulse of event e disturbs with its own.
static void join_disturbed(const NUM(pbWork) *w, const pbEvent *events, int count, int e, int *parent) {
  double h = w->p.timestep[0];
  double *dv = w->rk_v;
  int row = events[e].row;

  by_force(w, w->row + row, dv);
  for (int i = 0; i < w->m->nv; i++) dv[i] *= h;

  for (int k = 0; k < w->nrow; k++) {
    // Rows without force have nothing to change.
    if (k == row || !w->row[k].zone) continue;
    bool onset = acts_at_row(events, count, k);
    if (disturbed(w, w->row + k, onset, dv, events[e].rate)) parent[find_root(parent, k)] = find_root(parent, row);
  }
}

int NUM(pbEvent_Group)(const NUM(pbWork) *w, pbEvent *events, int count, int *parent) {
  double h = w->p.timestep[0];

  // Sets of rows that affect each other, joined pair by pair (union-find)
  for (int k = 0; k < w->nrow; k++) parent[k] = k;
  for (int e = 0; e < count; e++) {
    if (events[e].acts) join_disturbed(w, events, count, e, parent);
  }

  // A number for each set with an event that acts
  int groups = 0;
  for (int e = 0; e < count; e++) {
    if (!events[e].acts) continue;
    int own = find_root(parent, events[e].row);
    int f = 0;
    // The number of an earlier event in the same set, or a new one
    while (f < e && !(events[f].acts && find_root(parent, events[f].row) == own)) f++;
    events[e].group = f < e ? events[f].group : groups++;
    events[e].impulse = h * w->row[events[e].row].f[0];
    PB_ASSERT(events[e].group >= 0 && events[e].group < groups);
  }

  return groups;
}

// Acceleration of the body's point there, m/s^2, at the accelerations a of the dofs.
static void point_acceleration(const NUM(pbWork) *w, int b, const double *point, const double *a, double out[3]) {
  double A[6] = {0}, d[3], v[3];
  const double *V = w->V + 6 * b;

  // A = sum S a + Sdot v up to the root.
  for (int body = b; body > 0; body = w->m->body_parentid[body]) {
    int first = w->m->body_dofadr[body];
    for (int i = first; i < first + w->m->body_dofnum[body]; i++) {
      PB_AXPY6(A, w->qvel[i], w->Sdot + 6 * i);
      PB_AXPY6(A, a[i], w->S + 6 * i);
    }
  }

  // a + alpha x d + omega x (v + omega x d)
  body_offset(&w->mechanism, b, point, d);
  PB_POINTVEL(out, A, d);
  PB_POINTVEL(v, V, d);
  v3_addcross(out, V, v);
}

// Does the closing speed change by more than this part within a step? What is left of a gradient, of first order in the time
// step, is about as much or twice that. By the acceleration of what meets, along the normal: curvature is not looked at.
static bool is_unsteady(const NUM(pbWork) *w, const NUM(pbRow) *r, double rate, const double *a) {
  static const double part = 0.02;
  double first[3], second[3], change = normal_times(w, r, a);

  // Of limits J a is all; of contacts the points turn with their bodies.
  if (r->kind == pb_rowContact) {
    const NUM(pbContact) *c = w->contact + r->contact;
    point_acceleration(w, w->m->geom_bodyid[c->geom1], c->pos, a, first);
    point_acceleration(w, w->m->geom_bodyid[c->geom2], c->pos, a, second);
    change = v3_dot(c->frame, second) - v3_dot(c->frame, first);
  }

  return w->p.timestep[0] * fabs(change) > part * fabs(rate);
}

void NUM(pbEvent_Classify)(const NUM(pbWork) *w, pbEvent *events, int count, const double *a) {
  double h = w->p.timestep[0];

  for (int e = 0; e < count; e++) {
    const NUM(pbRow) *r = w->row + events[e].row;
    events[e].pushes = r->zone;
    // A rate that its own acceleration undoes within the step says nothing of the time.
    events[e].grazing = a && fabs(events[e].rate) <= h * fabs(normal_times(w, r, a));
    events[e].acts = events[e].pushes && !events[e].grazing;
    events[e].unsteady = a && events[e].acts && is_unsteady(w, r, events[e].rate, a);
  }
}

// The event of a row that acts; NULL: none.
static const pbEvent *event_of(const pbEvent *events, int count, int row) {
  for (int i = 0; i < count; i++) {
    if (events[i].row == row && events[i].acts) return events + i;
  }
  return NULL;
}

// The rows to solve with, without those of a group; returns their number.
static int keep_rows(NUM(pbWork) *w, const double *v, const pbEvent *events, int count, int without, bool at_guard) {
  int rows = 0;

  for (int k = 0; k < w->nrow; k++) {
    const pbEvent *e = event_of(events, count, k);
    // At the guard the distance is the margin.
    if (e && at_guard) NUM(pbRow_AtGuard)(&w->constraints, w->row + k, v);
    if (e && (without == pb_eventsAll || e->group == without)) continue;
    if (rows < k) w->row[rows] = w->row[k];
    rows++;
  }

  return rows;
}

pbStatus NUM(pbEvent_Rate)(NUM(pbWork) *w, const double *v, const pbEvent *events, int count, int without, bool at_guard,
                           double *a) {
  size_t bytes = (size_t)w->m->nv * sizeof(double);

  // Forces at that velocity
  if (v != w->qvel) memcpy(w->qvel, v, bytes);
  w->replay = false;
  NUM(pbStage_Velocity)(&w->mechanism);
  NUM(pbStage_Passive)(&w->mechanism);
  NUM(pbStage_Actuation)(&w->constraints);
  NUM(pbStage_Smooth)(&w->mechanism);
  PB_TRY(NUM(pbStage_Rows)(&w->constraints));

  PB_TRY(solve(w, keep_rows(w, v, events, count, without, at_guard)));
  memcpy(a, w->qacc_integrated, bytes);

  return pb_ok;
}

#endif
