// A task as sweeps see it: which knots act when, what each unknown moves, and the rows of residuals by the state that they are
// of. The sweep itself: riccati.c.
// Tests: tests/unit/test_sweep.c.
#include "optimize/along.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/model.h"
#include "optimize/terms.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "world/cached.h"

// ---- which tasks ----------------------------------------------------------------------------------------------------
static int count_fitted(const pbTask *task) {
  int count = 0;
  for (int t = 0; t < task->trajectory_count; t++) count += !task->trajectories[t].test;
  return count;
}

static const char *refuse_model(const pbModel *m) {
  if (m->deform) return "the model has deformables";
  if (m->policy) return "the model has a policy";
  if (m->contact.method == pb_contactImpact) return "contact is by impacts";
  if (pbModel_TangentSize(m) != 2 * m->nv + m->na) return "a state has more than positions, velocities and activations";
  return NULL;
}

static const char *refuse_variable(const pbTask *task, const pbVariable *v) {
  bool start = v->kind == pb_varyQpos || v->kind == pb_varyQvel || v->kind == pb_varyAct;
  if (!start && v->kind != pb_varyControl) return "a variable is neither of controls nor of an initial state";
  if (v->trajectory < 0 && count_fitted(task) != 1) return "a variable is of several trajectories";
  return NULL;
}

static const char *refuse_term(const pbTerm *t) {
  const pbReading *r = t->reading;

  // Times of its own may still be those of states.
  if (t->hosted) return "a term is a function of several states";
  if (!r || !r->time) return NULL;

  bool between = r->varied;
  for (int k = 0; k < t->step_count; k++) between |= r->fraction[k] > 0;
  return between ? "a term looks between two states" : NULL;
}

const char *pbTaskSweep_WhyNot(const pbTask *task) {
  const char *why = refuse_model(task->model);

  // What needs other derivatives than those of one step after the other, in one world.
  if (pbTask_IsTruncated(task)) why = "gradients are truncated";
  if (pbTask_Sampled(task)) why = "worlds are drawn";
  if (task->prior_count) why = "a variable has a prior";
  if (task->gradient == pb_gradientEvent) why = "its mode is 'event'";
  for (int i = 0; i < task->variable_count && !why; i++) why = refuse_variable(task, &task->variables[i]);

  for (int t = 0; t < task->trajectory_count && !why; t++) {
    const pbTrajectory *tr = &task->trajectories[t];
    if (tr->test) continue;
    for (int i = 0; i < tr->terms.count && !why; i++) why = refuse_term(&tr->terms.terms[i]);
  }

  return why;
}

// ---- sizes ----------------------------------------------------------------------------------------------------------
static bool is_of(const pbVariable *v, int t) { return v->trajectory < 0 || v->trajectory == t; }
static bool is_control(const pbVariable *v) { return v->kind == pb_varyControl; }
// Knots of one actuator that act in the same step.
static int knots_at_once(const pbVariable *v) { return v->linear && v->knots > 1 ? 2 : 1; }

static int count_slots(const pbTask *task, int t) {
  int slots = 0;

  // linear knots take two at a time
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (is_control(v) && is_of(v, t)) slots += knots_at_once(v) * v->index_count;
  }

  return slots;
}

static int count_starts(const pbTask *task, int t) {
  int count = 0;
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (!is_control(v) && is_of(v, t)) count += v->count;
  }

  return count;
}

// A matrix takes the Jacobians of all steps again for every 16 unknowns, a row of which costs some hundred operations a
// coordinate, and m n^2 / 2 for J'J. A sweep takes them once, and two products of matrices a step, twice an iteration.
bool pbTaskSweep_Pays(const pbTask *task) {
  enum { least = 128, batch = 16, row_cost = 100 };
  double unknowns = task->n, dense = (double)task->m * unknowns * unknowns / 2, sweep = 0;
  if (task->n <= least) return false;

  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTrajectory *tr = &task->trajectories[t];
    if (tr->test) continue;
    double n = tr->terms.n, size = n + count_slots(task, t), steps = tr->steps, jacobian = row_cost * n * n * steps;
    dense += jacobian * unknowns / batch / count_fitted(task);
    sweep += jacobian + 4 * size * size * n * steps;
  }

  return 2 * sweep < dense;
}

// ---- when knots act -------------------------------------------------------------------------------------------------
// The first of the knots of a variable that act in a step; -1: there is no step.
static int knot_at(const pbVariable *v, int step, int steps) {
  double right;
  return step < 0 ? -1 : pbVariable_Knot(v, step, steps, &right);
}

// Does knot `which` act in this step, its neighbors' weights aside?
static bool acts(const pbVariable *v, int which, int step, int steps) {
  int knot = knot_at(v, step, steps);
  return knot >= 0 && which >= knot && which < knot + knots_at_once(v);
}

static int slot_of(const pbVariable *v, int first_slot, int knot, int actuator) {
  int ways = knots_at_once(v);
  PB_ASSERT(knot >= 0 && actuator >= 0 && actuator < v->index_count);
  return first_slot + ways * actuator + knot % ways;
}

// Knots that act in a step and not in the one before it; counted, and written where there is room.
static int note_entries(const pbTask *task, int t, int step, pbRiccatiEntry *to) {
  int steps = task->trajectories[t].steps, slot = 0, count = 0;
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (!is_control(v) || !is_of(v, t)) continue;

    // The later one first: the other may have been there before.
    int first = knot_at(v, step, steps), last = first + knots_at_once(v) - 1;
    for (int knot = last; knot >= first; knot--) {
      if (acts(v, knot, step - 1, steps)) continue;
      for (int a = 0; a < v->index_count; a++) {
        if (to) to[count] = (pbRiccatiEntry){step, slot_of(v, slot, knot, a), v->first + knot * v->index_count + a};
        count++;
      }
    }

    slot += knots_at_once(v) * v->index_count;
  }

  return count;
}

static int count_entries(const pbTask *task, int t) {
  int count = 0;
  for (int k = 0; k < task->trajectories[t].steps; k++) count += note_entries(task, t, k, NULL);
  return count;
}

static void list_unknowns(const pbTask *task, int t, pbAlong *along) {
  pbRiccati *s = &along->riccati;
  int slot = 0, start = 0, entry = 0;
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (!is_of(v, t)) continue;

    // of a control its slots, of the initial state its unknowns
    int starts = is_control(v) ? 0 : v->count, slots = is_control(v) ? v->index_count * knots_at_once(v) : 0;
    for (int k = 0; k < starts; k++) s->start_unknown[start++] = v->first + k;
    for (int c = 0; c < slots; c++) along->actuator[slot++] = (int)v->index[c / knots_at_once(v)];
  }

  // As the sweep meets them, from the last step to the first.
  for (int k = s->steps - 1; k >= 0; k--) entry += note_entries(task, t, k, s->entries + entry);
  PB_ASSERT(slot == s->slots && start == s->start_count && entry == s->entry_count);
}

// ---- memory ---------------------------------------------------------------------------------------------------------
static pbStatus create_seat(pbAlong *a, int t, pbSeat *seat) {
  const pbTask *task = a->sweep->task;
  const pbTermSet *set = &task->trajectories[t].terms;
  size_t n = (size_t)set->n, nu = (size_t)set->nu, slots = (size_t)a->riccati.slots;

  // what linearizing a step needs stands behind its results
  size_t room = pbRollout_LinearizeRoom(task->model);
  seat->along = a;
  seat->A = pbContext_AllocArray(task->ctx, n * n + n * nu + slots + n + nu + room, sizeof(double));
  if (!seat->A) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for a sweep", task->name);

  seat->B = seat->A + n * n;
  seat->weight = seat->B + n * nu;
  seat->row = seat->weight + slots;
  seat->room = seat->row + n + nu;

  return pb_ok;
}

// Steps of one trajectory are spread over threads where these are more than trajectories.
static pbStatus create_seats(pbAlong *a, int t) {
  pbTask *task = a->sweep->task;
  int threads = pbPool_Threads(task->pool);

  // each thread has a trajectory of its own
  if (count_fitted(task) >= threads) return pb_ok;

  a->seats = pbContext_AllocArray(task->ctx, (size_t)threads, sizeof *a->seats);
  a->failed = pbContext_AllocArray(task->ctx, (size_t)a->riccati.steps + 1, sizeof *a->failed);
  if (!a->seats || !a->failed) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for a sweep", task->name);

  // allocation hooks are those of the trajectory, as of its own scratch
  for (; a->seat_count < threads; a->seat_count++) {
    pbSeat *seat = &a->seats[a->seat_count];
    PB_TRY(create_seat(a, t, seat));
    pbStatus status = pbScratch_Create(task->trajectories[t].ctx, task->model, NULL, &seat->scratch);

    // all that derivatives work with, so that iterations take no memory
    if (status == pb_ok) status = pbScratch_MakeLanes(seat->scratch);
    if (status == pb_ok) status = pbScratch_MakeAdjoint(seat->scratch);
    if (status == pb_ok) continue;

    // what there is of it is given back with the others
    a->seat_count++;
    return pbContext_Fail(task->ctx, status, "%s", pbContext_Error(task->trajectories[t].ctx));
  }

  return pb_ok;
}

static void free_seat(const pbTask *task, pbSeat *seat) {
  pbScratch_Destroy(seat->scratch);
  pbContext_Free(task->ctx, seat->A);
}

static void free_along(const pbTask *task, pbAlong *a) {
  // also where it was made by half
  free_seat(task, &a->own);
  for (int i = 0; i < a->seat_count; i++) free_seat(task, &a->seats[i]);
  void *all[] = {a->seats, a->failed, a->actuator, a->states, a->costates, a->riccati.C};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(task->ctx, all[i]);
  pbRiccati_Free(task->ctx, &a->riccati);
}

static pbStatus create_along(pbTaskSweep *sweep, int t) {
  pbTask *task = sweep->task;
  const pbTermSet *set = &task->trajectories[t].terms;
  size_t slots = (size_t)count_slots(task, t);
  pbAlong *a = &sweep->along[t];
  a->sweep = sweep;
  a->riccati = (pbRiccati){.steps = set->steps,
                           .n = set->n,
                           .slots = (int)slots,
                           .start_count = count_starts(task, t),
                           .entry_count = count_entries(task, t)};

  // rows: one for each residual of the trajectory
  PB_TRY(pbRiccati_Create(task->ctx, &a->riccati, pbTermSet_Samples(set)));

  a->actuator = pbContext_AllocArray(task->ctx, slots + 1, sizeof *a->actuator);
  if (!a->actuator) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for a sweep", task->name);
  PB_TRY(create_seat(a, t, &a->own));
  list_unknowns(task, t, a);

  return pb_ok;
}

pbStatus pbTaskSweep_Create(pbTask *task, pbTaskSweep **created) {
  pbTaskSweep *sweep = *created = pbContext_Alloc(task->ctx, sizeof *sweep);
  if (sweep) sweep->along = pbContext_AllocArray(task->ctx, (size_t)task->trajectory_count, sizeof *sweep->along);
  if (!sweep || !sweep->along) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for a sweep", task->name);

  sweep->task = task;
  sweep->count = task->trajectory_count;

  // trajectories that test the answer have no sweep
  for (int t = 0; t < sweep->count; t++) {
    if (!task->trajectories[t].test) PB_TRY(create_along(sweep, t));
  }

  return pb_ok;
}

void pbTaskSweep_Destroy(pbTask *task, pbTaskSweep *sweep) {
  if (!sweep) return;

  // also where it was made by half
  int count = sweep->along ? sweep->count : 0;
  for (int t = 0; t < count; t++) free_along(task, &sweep->along[t]);
  pbContext_Free(task->ctx, sweep->along);
  pbContext_Free(task->ctx, sweep);
}

// ---- the trajectory at a point ----------------------------------------------------------------------------------------
void pbAlong_Weigh(const pbTask *task, int t, int step, double *weight) {
  int steps = task->trajectories[t].steps, slot = 0;
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (!is_control(v) || !is_of(v, t)) continue;

    // By the unknown, not its value.
    double right;
    int knot = pbVariable_Knot(v, step, steps, &right), ways = knots_at_once(v);
    for (int way = 0; way < ways; way++) {
      for (int a = 0; a < v->index_count; a++) {
        double slope = pbTask_ValueSlope(task, v->first + (knot + way) * v->index_count + a);
        weight[slot_of(v, slot, knot + way, a)] = slope * (way ? right : 1 - right);
      }
    }

    slot += ways * v->index_count;
  }
}

static const struct {
  pbQuantity quantity;
  bool seen;  // by a pullback of the state; else an entry of it, or a control
} kinds[] = {{pb_observedQpos, false},  {pb_observedQvel, false}, {pb_observedAct, false}, {pb_observedControl, false},
             {pb_observedSensor, true}, {pb_observedBody, true},  {pb_observedSite, true}};
enum { KINDS = sizeof kinds / sizeof *kinds, FIRST_SEEN = 4 };

static size_t width_of(const pbTermSet *s, int kind) {
  const int widths[KINDS] = {s->nv, s->nv, s->na, s->nu, s->ns, 3 * s->nbody, 3 * s->nsite};
  return (size_t)widths[kind];
}

// The state that is looked at, and rows of its bars; NULL: no term uses the quantity.
typedef struct Look {
  pbTrajectory *tr;
  const pbStepRecord *step;
  pbScratch *scratch;
  int row, k;
  double *bar[KINDS];
  bool evaluated;  // by the residual before
} Look;

static Look begin_look(pbTrajectory *tr, int row, int k, const pbStepRecord *step, pbScratch *scratch) {
  Look look = {.tr = tr, .step = step, .scratch = scratch, .row = row, .k = k};
  PB_ASSERT(tr->terms.rows[row] == k);

  for (int i = 0; i < KINDS; i++) {
    if (tr->terms.uses[kinds[i].quantity]) look.bar[i] = pbTermSet_BarRow(&tr->terms, kinds[i].quantity, row, k, tr->ctrl_bar);
  }

  return look;
}

static bool any(const double *v, size_t count) {
  bool found = false;
  for (size_t i = 0; i < count; i++) found |= v[i] != 0;
  return found;
}

// From the bars of one residual its row by the state and its controls.
static pbStatus take_row(Look *look, double *G) {
  const pbTermSet *s = &look->tr->terms;
  const size_t at[FIRST_SEEN] = {0, (size_t)s->nv, 2 * (size_t)s->nv, (size_t)s->n};
  PB_ASSERT(s->n == 2 * s->nv + s->na);

  // What the state has itself.
  memset(G, 0, (size_t)(s->n + s->nu) * sizeof *G);
  for (int i = 0; i < FIRST_SEEN; i++) {
    if (look->bar[i]) memcpy(G + at[i], look->bar[i], width_of(s, i) * sizeof *G);
  }

  // Sensors and positions through the evaluation of the state, which is made once, but for Runge-Kutta's, which ends elsewhere.
  bool seen = false;
  for (int i = FIRST_SEEN; i < KINDS; i++) seen |= look->bar[i] && any(look->bar[i], width_of(s, i));
  if (!seen) return pb_ok;

  const pbObservationBar observed = {look->bar[FIRST_SEEN], look->bar[FIRST_SEEN + 1], look->bar[FIRST_SEEN + 2]};
  const pbStepCotangent in = {.observed = &observed, .evaluated = look->evaluated};
  const pbInputBar input = {.ctrl = s->nu ? G + s->n : NULL};
  PB_TRY(pbStep_VjpCached(look->step, &in, look->scratch, &(pbStepBar){.x = G, .input = &input}));
  look->evaluated = s->model->integrator != pb_intRK4;

  bool finite = pb_allFinite(G, (size_t)(s->n + s->nu));

  return finite ? pb_ok : pbScratch_Fail(look->scratch, pb_not_finite, "the derivative of what is seen is not finite");
}

// A row by state and controls as one by state and knots.
static void by_knots(const pbAlong *a, const double *weight, const double *by_state, const double *by_control, double *to) {
  const pbRiccati *s = &a->riccati;
  memcpy(to, by_state, (size_t)s->n * sizeof *to);
  for (int c = 0; c < s->slots; c++) to[s->n + c] = by_control[a->actuator[c]] * weight[c];
}

// The first of ascending numbers that is not below; `count`: there is none.
static int first_from(const int *numbers, int count, int least) {
  int low = 0, high = count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (numbers[middle] < least) low = middle + 1;
    else high = middle;
  }

  return low;
}

// Where the rows of each state begin, whoever writes them and when.
static void place_rows(pbRiccati *s, const pbTermSet *set) {
  // how many each has, then where they begin
  memset(s->first, 0, ((size_t)s->steps + 2) * sizeof *s->first);
  for (int i = 0; i < set->count; i++) {
    const pbTerm *term = &set->terms[i];
    for (int k = 0; k < term->step_count; k++) s->first[term->steps[k] + 1] += (size_t)pbTerm_SamplesAt(term, k);
  }
  for (int k = 0; k <= s->steps; k++) s->first[k + 1] += s->first[k];
}

// All components of a term at one of its times, from row *at on.
static pbStatus look_at_term(const pbSeat *seat, Look *look, const pbTerm *term, int k, size_t *at) {
  const pbTermSet *s = &look->tr->terms;
  pbRiccati *to = &seat->along->riccati;

  for (int i = 0; i < term->part_count; i++) {
    // Bars of this residual alone.
    for (int q = 0; q < KINDS; q++) {
      if (look->bar[q]) memset(look->bar[q], 0, width_of(s, q) * sizeof(double));
    }
    pbTermModel model;
    if (!pbTerm_ModelAt(s, term, k, look->row, i, look->tr->ctrl_now, look->tr->ctrl_bar, &model)) continue;

    PB_TRY(take_row(look, seat->row));
    PB_ASSERT(*at < to->first[look->k + 1]);
    by_knots(seat->along, seat->weight, seat->row, seat->row + s->n, to->G + *at * (size_t)to->size);
    to->linear[*at] = model.linear;
    to->r[(*at)++] = model.r;
  }

  return pb_ok;
}

static pbStatus look_at_terms(const pbSeat *seat, Look *look) {
  const pbTermSet *s = &look->tr->terms;
  size_t at = seat->along->riccati.first[look->k];
  for (int i = 0; i < s->count; i++) {
    const pbTerm *term = &s->terms[i];
    int next = first_from(term->steps, term->step_count, look->k);
    for (; next < term->step_count && term->steps[next] == look->k; next++) PB_TRY(look_at_term(seat, look, term, next, &at));
  }

  PB_ASSERT(at == seat->along->riccati.first[look->k + 1]);
  return pb_ok;
}

// State k and the step from it: what there is of both, by the state and the knots at hand.
static pbStatus take_state(void *user, int k, const pbStepRecord *step, pbScratch *scratch) {
  const pbSeat *seat = user;
  pbAlong *a = seat->along;
  int t = (int)(a - a->sweep->along);
  pbTrajectory *tr = &a->sweep->task->trajectories[t];
  const pbTermSet *set = &tr->terms;
  pbRiccati *s = &a->riccati;
  size_t n = (size_t)s->n, nu = (size_t)set->nu, size = (size_t)s->size;

  if (a->states) memcpy(a->states + (size_t)k * (size_t)set->nx, step->record, (size_t)set->nx * sizeof *a->states);

  // The last state has the controls of the last step.
  pbAlong_Weigh(a->sweep->task, t, k < s->steps ? k : s->steps - 1, seat->weight);
  if (k < s->steps) {
    double *F = s->F + (size_t)k * n * size;
    for (size_t i = 0; i < n; i++) by_knots(a, seat->weight, seat->A + i * n, seat->B + i * nu, F + i * size);
  }

  // what terms see of it, if anything
  int row = first_from(set->rows, set->row_count, k);
  if (row == set->row_count || set->rows[row] != k) return pb_ok;

  Look look = begin_look(tr, row, k, step, scratch);
  return look_at_terms(seat, &look);
}

// ---- second derivatives of steps --------------------------------------------------------------------------------------
pbStatus pbTaskSweep_BeginHessians(pbTaskSweep *sweep, int t) {
  pbTask *task = sweep->task;
  const pbTermSet *set = &task->trajectories[t].terms;
  pbAlong *a = &sweep->along[t];
  size_t n = (size_t)set->n, all = n + (size_t)set->nu, steps = (size_t)set->steps, size = (size_t)a->riccati.size;
  a->costates = pbContext_AllocArray(task->ctx, steps * n + all * all + pbRollout_HessianRoom(task->model), sizeof(double));
  a->riccati.C = pbContext_AllocArray(task->ctx, steps * size, size * sizeof(double));
  pbStatus made = pbRollout_MakeHessian(task->trajectories[t].rollout);
  if (!a->costates || !a->riccati.C || made != pb_ok)
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for second derivatives", task->name);

  a->H = a->costates + steps * n;
  a->hessian_room = a->H + all * all;

  return pb_ok;
}

// H by state and controls as C by state and knots.
static void hessian_by_knots(const pbAlong *a, size_t all, double *C) {
  const double *weight = a->own.weight;
  const pbRiccati *s = &a->riccati;
  for (int i = 0; i < s->size; i++) {
    int row = i < s->n ? i : s->n + a->actuator[i - s->n];
    double by = i < s->n ? 1 : weight[i - s->n], *to = C + (size_t)i * (size_t)s->size;
    by_knots(a, weight, a->H + (size_t)row * all, a->H + (size_t)row * all + s->n, to);
    for (int j = 0; j < s->size; j++) to[j] *= by;
  }
}

pbStatus pbTaskSweep_TakeHessians(pbTaskSweep *sweep, int t) {
  pbTask *task = sweep->task;
  pbTrajectory *tr = &task->trajectories[t];
  pbAlong *a = &sweep->along[t];
  pbRiccati *s = &a->riccati;
  PB_ASSERT(a->states && a->costates && s->C);
  size_t all = (size_t)s->n + (size_t)tr->terms.nu, nx = (size_t)tr->terms.nx, entries = (size_t)s->size * (size_t)s->size;

  // step by step, in no order that matters
  for (int k = 0; k < s->steps; k++) {
    const double *x = a->states + (size_t)k * nx, *costate = a->costates + (size_t)k * (size_t)s->n;
    PB_TRY(pbRollout_Hessian(tr->rollout, k, x, costate, a->H, a->hessian_room));
    pbAlong_Weigh(task, t, k, a->own.weight);
    hessian_by_knots(a, all, s->C + (size_t)k * entries);
  }

  return pb_ok;
}

// The initial state moves as the unknowns are here.
static void begin_trajectory(pbTaskSweep *sweep, int t) {
  const pbTask *task = sweep->task;
  pbRiccati *s = &sweep->along[t].riccati;
  size_t n = (size_t)s->n;

  memset(s->start, 0, (size_t)s->start_count * n * sizeof *s->start);
  for (int i = 0; i < s->start_count; i++) pbTask_StartDirection(task, s->start_unknown[i], t, s->start + (size_t)i * n);

  place_rows(s, &task->trajectories[t].terms);
}

static pbLinearized at_seat(pbSeat *seat) {
  return (pbLinearized){.A = seat->A, .B = seat->B, .room = seat->room, .see = take_state, .user = seat};
}

static pbStatus take_trajectory(void *user, int t) {
  pbTaskSweep *sweep = user;
  const pbLinearized out = at_seat(&sweep->along[t].own);

  begin_trajectory(sweep, t);
  return pbRollout_Linearize(sweep->task->trajectories[t].rollout, &out);
}

pbTaskTaker pbTaskSweep_Taker(pbTaskSweep *sweep) { return (pbTaskTaker){take_trajectory, sweep}; }

// ---- the steps of one trajectory, on threads ----------------------------------------------------------------------------
pbStatus pbTaskSweep_Spread(pbTaskSweep *sweep, int t) { return create_seats(&sweep->along[t], t); }

bool pbTaskSweep_IsSpread(const pbTaskSweep *sweep, int t) {
  const pbTask *task = sweep->task;
  int seats = sweep->along[t].seat_count;

  // the pool may be another by now
  return seats > 0 && seats >= pbPool_Threads(task->pool) && pbRollout_HasSteps(task->trajectories[t].rollout);
}

typedef struct Spread {
  pbAlong *along;
  const pbRollout *rollout;
} Spread;

// The last state goes with the step before it, whose controls it has: cotangents of both stand in one place.
static void take_step(void *user, int k, int worker) {
  const Spread *spread = user;
  pbAlong *a = spread->along;
  pbSeat *seat = &a->seats[worker];
  const pbLinearized out = at_seat(seat);
  int last = k == a->riccati.steps - 1 ? k + 1 : k;

  for (; k <= last; k++) a->failed[k] = pbRollout_LinearizeStep(spread->rollout, k, seat->scratch, &out);
}

pbStatus pbTaskSweep_TakeSpread(pbTaskSweep *sweep, int t) {
  pbTask *task = sweep->task;
  pbAlong *a = &sweep->along[t];
  pbTrajectory *tr = &task->trajectories[t];
  pbScratch *scratch[pb_mostThreads];
  PB_ASSERT(pbTaskSweep_IsSpread(sweep, t) && a->seat_count <= pb_mostThreads);
  for (int i = 0; i < a->seat_count; i++) scratch[i] = a->seats[i].scratch;

  begin_trajectory(sweep, t);

  // whoever is free takes the next
  Spread spread = {a, tr->rollout};
  PB_TRY(pbRollout_BeginLinearizing(tr->rollout, scratch, a->seat_count));
  pbPool_Run(task->pool, a->riccati.steps, take_step, &spread);

  // one that failed is taken once more, alone, for what it says
  bool good = true;
  for (int k = 0; k <= a->riccati.steps; k++) good &= a->failed[k] == pb_ok;
  return good ? pb_ok : take_trajectory(sweep, t);
}

// ---- all trajectories, on threads: each has unknowns of its own -------------------------------------------------------
static void look_task(void *user, int t, int worker) {
  pbTaskSweep *sweep = user;
  (void)worker;
  pbRiccati_Look(&sweep->along[t].riccati, sweep->g, sweep->diagonal);
}

static void solve_task(void *user, int t, int worker) {
  pbTaskSweep *sweep = user;
  (void)worker;
  sweep->along[t].solved = pbRiccati_Solve(&sweep->along[t].riccati, sweep->lambda, sweep->D, sweep->held, sweep->p);
}

static void squared_task(void *user, int t, int worker) {
  pbTaskSweep *sweep = user;
  (void)worker;
  sweep->along[t].squared = pbRiccati_Squared(&sweep->along[t].riccati, sweep->move);
}

static void each(pbTaskSweep *sweep, pbPoolWork work) { pbGroups_Each(&sweep->task->groups, sweep->task->pool, work, sweep); }

void pbTaskSweep_Look(pbTaskSweep *sweep, double *g, double *diagonal) {
  // Of what no trajectory sees, zero.
  memset(g, 0, (size_t)sweep->task->n * sizeof *g);
  memset(diagonal, 0, (size_t)sweep->task->n * sizeof *diagonal);
  sweep->g = g;
  sweep->diagonal = diagonal;
  each(sweep, look_task);
}

bool pbTaskSweep_Solve(pbTaskSweep *sweep, double lambda, const double *D, const bool *held, double *p) {
  memset(p, 0, (size_t)sweep->task->n * sizeof *p);
  sweep->lambda = lambda;
  sweep->D = D;
  sweep->held = held;
  sweep->p = p;
  each(sweep, solve_task);

  // Where a pivot fails, the damping is too small.
  bool solved = true;
  for (int t = 0; t < sweep->count; t++) solved &= sweep->task->trajectories[t].test || sweep->along[t].solved;
  return solved;
}

double pbTaskSweep_Squared(pbTaskSweep *sweep, const double *p) {
  double sum = 0;
  sweep->move = p;
  each(sweep, squared_task);

  // In the order of the trajectories, whoever was first.
  for (int t = 0; t < sweep->count; t++) sum += sweep->task->trajectories[t].test ? 0 : sweep->along[t].squared;
  return sum;
}
