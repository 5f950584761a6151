// What threads read of plans while another one makes them: two buffers under a lock, which is held for an answer, a copy or the
// exchange of both, microseconds each. Tests: tests/unit/test_mpc_shared.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/context.h"
#include "optimize/mpc.h"
#include "step/scratch.h"

// ---- memory -------------------------------------------------------------------------------------------------------------
static size_t controls_of(const pbMpcPlan *p) { return (size_t)p->steps * (size_t)p->nu; }
static size_t states_of(const pbMpcPlan *p) { return ((size_t)p->steps + 1) * (size_t)p->nx; }
static size_t gains_of(const pbMpcPlan *p) { return controls_of(p) * (size_t)p->n; }

static bool allocate_buffer(pbContext *ctx, const pbMpcPlan *p, pbMpcBuffer *b) {
  size_t controls = controls_of(p);
  PB_ASSERT(p->steps > 0 && p->n > 0);
  b->ctrl = pbContext_AllocArray(ctx, 3 * controls + 1, sizeof(double));
  b->states = pbContext_AllocArray(ctx, states_of(p) + 1, sizeof(double));
  b->gain = pbContext_AllocArray(ctx, gains_of(p) + 1, sizeof(double));
  if (!b->ctrl || !b->states || !b->gain) return false;

  // bounds have the room behind controls
  b->lower = b->ctrl + controls;
  b->upper = b->lower + controls;
  return true;
}

static void show_front(pbMpcShown *s) {
  s->plan.ctrl = s->front.ctrl;
  s->plan.states = s->front.states;
  s->plan.gain = s->front.gain;
}

pbStatus pbMpcShown_Create(pbMpc *mpc) {
  const pbTask *task = mpc->task;
  const pbTermSet *set = &task->trajectories[0].terms;
  pbMpcShown *s = pbContext_Alloc(mpc->ctx, sizeof *s);
  if (!s) return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no memory for a plan", task->name);

  // a lock of its own, if it may be had
  if (pthread_mutex_init(&s->lock, NULL)) {
    pbContext_Free(mpc->ctx, s);
    return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no lock for a plan", task->name);
  }

  mpc->shown = s;
  s->model = task->model;
  s->plan = (pbMpcPlan){.steps = set->steps, .nu = set->nu, .nx = set->nx, .n = set->n, .timestep = set->timestep};
  s->off = pbContext_AllocArray(mpc->ctx, 2 * (size_t)set->n + 1, sizeof(double));
  if (!s->off || !allocate_buffer(mpc->ctx, &s->plan, &s->front) || !allocate_buffer(mpc->ctx, &s->plan, &s->back))
    return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no memory for a plan", task->name);
  show_front(s);

  return pb_ok;
}

void pbMpcShown_Free(pbMpc *mpc) {
  pbMpcShown *s = mpc->shown;
  if (!s) return;

  // both buffers; bounds lie behind controls
  void *all[] = {s->front.ctrl, s->front.states, s->front.gain, s->back.ctrl, s->back.states, s->back.gain, s->off};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(mpc->ctx, all[i]);
  pthread_mutex_destroy(&s->lock);
  pbContext_Free(mpc->ctx, s);
}

// ---- by the thread that plans ---------------------------------------------------------------------------------------------
void pbMpcShown_Begin(pbMpc *mpc, double elapsed) {
  pbMpcShown *s = mpc->shown;
  PB_ASSERT(elapsed >= 0);

  // the clock and the age of what answers go on together
  pthread_mutex_lock(&s->lock);
  s->plan.age += elapsed;
  s->plan.clock += elapsed;
  s->plan.plans++;
  pthread_mutex_unlock(&s->lock);
}

void pbMpcShown_Refuse(const pbMpc *mpc) {
  pbMpcShown *s = mpc->shown;
  pthread_mutex_lock(&s->lock);
  s->plan.refused++;
  pthread_mutex_unlock(&s->lock);
}

void pbMpcShown_Fail(pbMpc *mpc) {
  pbMpcShown *s = mpc->shown;
  pthread_mutex_lock(&s->lock);
  s->plan.failed++;
  s->fallen = true;
  pthread_mutex_unlock(&s->lock);
}

static void find_bounds(const pbMpc *mpc, const pbMpcBuffer *b) {
  const pbMpcPlan *p = &mpc->shown->plan;

  // those of the knots that act in each step
  for (int k = 0; k < p->steps; k++) {
    size_t at = (size_t)k * (size_t)p->nu;
    pbTask_ControlBounds(mpc->task, 0, k, b->lower + at, b->upper + at);
  }
}

void pbMpcShown_Publish(pbMpc *mpc) {
  pbMpcShown *s = mpc->shown;
  find_bounds(mpc, &s->back);

  // an exchange: nobody reads the back
  pthread_mutex_lock(&s->lock);
  pbMpcBuffer before = s->front;
  s->front = s->back;
  s->back = before;
  show_front(s);

  // it is of now
  s->plan.age = 0;
  s->begun = s->plan.clock;
  s->fallen = false;
  pthread_mutex_unlock(&s->lock);
}

void pbMpcShown_Clear(pbMpc *mpc) {
  pbMpcShown *s = mpc->shown;
  pthread_mutex_lock(&s->lock);
  pbMpcPlan *p = &s->plan;
  p->age = p->clock = p->feedback_seconds = s->begun = 0;
  p->plans = p->failed = p->refused = 0;
  p->feedbacks = p->fallbacks = 0;
  s->fallen = false;
  pthread_mutex_unlock(&s->lock);
}

void pbMpcShown_Bound(pbMpc *mpc) {
  pbMpcShown *s = mpc->shown;
  pthread_mutex_lock(&s->lock);
  find_bounds(mpc, &s->front);
  pthread_mutex_unlock(&s->lock);
}

// ---- by any thread ---------------------------------------------------------------------------------------------------------
// How far a state is off that of the plan at a time, in its tangent space: within a step the plan's is on the line to the next.
static void find_off(const pbMpcShown *s, double at, int k, const double *x) {
  const double *here = s->front.states + (size_t)k * (size_t)s->plan.nx;
  size_t n = (size_t)s->plan.n;
  double part = fmin(fmax(at - k, 0), 1), *next = s->off + n;

  pbState_Difference(s->model, here, x, s->off);
  if (part <= 1e-9) return;
  pbState_Difference(s->model, here + s->plan.nx, x, next);
  for (size_t i = 0; i < n; i++) s->off[i] += part * (next[i] - s->off[i]);
}

// Controls at a time since the plan began, under the lock.
static void answer(const pbMpcShown *s, double time, const double *x, double *ctrl) {
  const pbMpcPlan *p = &s->plan;
  PB_ASSERT(p->timestep > 0 && p->steps > 0);

  // the step that acts; times are sums of steps but for rounding
  double at = fmax(time, 0) / p->timestep;
  int acts = (int)fmin(floor(at + 1e-9), p->steps - 1);
  find_off(s, at, acts, x);

  size_t nu = (size_t)p->nu, n = (size_t)p->n, k = (size_t)acts;
  const double *gain = s->front.gain + k * nu * n;
  for (size_t a = 0; a < nu; a++) {
    double u = s->front.ctrl[k * nu + a];
    for (size_t i = 0; i < n; i++) u += gain[a * n + i] * s->off[i];
    ctrl[a] = fmin(fmax(u, s->front.lower[k * nu + a]), s->front.upper[k * nu + a]);
  }
}

static bool is_state(const pbMpcShown *s, const double *x) {
  char text[400];
  return pb_allFinite(x, (size_t)s->plan.nx) && pbState_Readable(s->model, x, text, sizeof text);
}

// clock: `time` is on that of plans, and not since the last of them.
static pbStatus ask(const pbMpc *mpc, bool clock, double time, const double *x, double *ctrl, double *age) {
  pbMpcShown *s = mpc->shown;
  double begun = pb_seconds();

  // no text: the context is that of the thread that plans
  if (!isfinite(time) || !is_state(s, x)) {
    pbMpcShown_Refuse(mpc);
    return pb_bad_argument;
  }

  pthread_mutex_lock(&s->lock);

  // by the plan that is shown, whichever is being made
  double since = clock ? time - s->begun : s->plan.age + time;
  answer(s, since, x, ctrl);
  if (age) *age = since;

  s->plan.feedbacks++;
  s->plan.fallbacks += s->fallen;
  s->plan.feedback_seconds += pb_seconds() - begun;
  pthread_mutex_unlock(&s->lock);

  return pb_ok;
}

pbStatus pbMpc_Feedback(const pbMpc *mpc, double time, const double *x, double *ctrl) {
  return ask(mpc, false, time, x, ctrl, NULL);
}

pbStatus pbMpc_FeedbackAt(const pbMpc *mpc, double at, const double *x, double *ctrl, double *age) {
  return ask(mpc, true, at, x, ctrl, age);
}

pbMpcPlan pbMpc_Get(const pbMpc *mpc) {
  pthread_mutex_lock(&mpc->shown->lock);
  pbMpcPlan plan = mpc->shown->plan;
  pthread_mutex_unlock(&mpc->shown->lock);
  return plan;
}

pbMpcPlan pbMpc_Copy(const pbMpc *mpc, double *ctrl, double *states, double *gain) {
  pbMpcShown *s = mpc->shown;
  pthread_mutex_lock(&s->lock);
  pbMpcPlan plan = s->plan;
  if (ctrl) memcpy(ctrl, plan.ctrl, controls_of(&plan) * sizeof *ctrl);

  // whole: no plan is shown meanwhile
  if (states) memcpy(states, plan.states, states_of(&plan) * sizeof *states);
  if (gain) memcpy(gain, plan.gain, gains_of(&plan) * sizeof *gain);
  pthread_mutex_unlock(&s->lock);

  plan.ctrl = ctrl;
  plan.states = states;
  plan.gain = gain;
  return plan;
}
