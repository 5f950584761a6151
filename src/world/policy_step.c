// A policy in the world's step (policy_step.h): what it observes, its functions, the inputs that they make; both derivatives by
// the chain rule around those of the open-loop step. Tests: tests/conformance/test_policy.c.
#include "world/policy_step.h"

#include <string.h>

#include "base/arena.h"
#include "base/mutate.h"
#include "base/assert.h"
#include "base/context.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "world/cached.h"
#include "world/history_step.h"
#include "world/policy_points.h"

// ---- memory --------------------------------------------------------------------------------------------------------
static size_t largest(size_t a, size_t b) { return a > b ? a : b; }

static size_t function_bytes(const pbPolicyFunction *f) {
  if (!f || !f->work_bytes) return 0;
  // One column at a time, and products of as many as are kept; or of the exact twin.
  size_t own = largest(f->work_bytes(f->self, 1), function_bytes(f->exact));
  return f->gather ? largest(own, f->work_bytes(f->self, pb_keptColumns)) : own;
}

static double *take(pbArena *a, int count) { return pbArena_Take(a, (size_t)count, sizeof(double)); }

static void lay_out(pbArena *a, pbPolicyWork *k, const pbModel *m) {
  const pbPolicyModel *p = k->model;
  int inputs = p->act ? p->act->observations : 0;
  int bodies = 6 * m->nbody;
  double **values[] = {&k->observation, &k->held, &k->memory, &k->out, &k->act_input, &k->ctrl, &k->qfrc, &k->xfrc};
  double **bars[] = {&k->observation_bar, &k->held_bar, &k->memory_bar, &k->out_bar,
                     &k->act_input_bar,   &k->ctrl_bar, &k->qfrc_bar,   &k->xfrc_bar};
  const int size[] = {p->observing, p->held, p->memory, p->outputs, inputs, pb_controls(m), m->nv, bodies};

  // A number and its cotangent or tangent have the same size.
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    PB_ASSERT(size[i] >= 0);
    *values[i] = take(a, size[i]);
    *bars[i] = take(a, size[i]);
  }
  k->zero_tail = take(a, p->memory + p->held);

  // Functions without products keep no columns.
  for (int i = 0; i < 2; i++) {
    const pbPolicyFunction *f = k->kept[i].function;
    k->kept[i].number = pbArena_Take(a, f && f->gather ? f->kept_size * pb_keptColumns : 0, sizeof(double));
  }
  k->function_work = pbArena_Take(a, largest(function_bytes(p->decide), function_bytes(p->act)), 1);
}

pbStatus pbPolicyWork_Create(pbScratch *s) {
  const pbPolicyModel *p = s->model->policy;
  pbPolicyWork *k = s->policy = pbContext_Alloc(s->ctx, sizeof *k);
  if (!k) return pb_no_memory;

  k->model = p;
  k->kept[0] = (pbKeptColumns){.function = p->decide, .at = p->theta};
  k->kept[1] = (pbKeptColumns){.function = p->act, .at = p->act_theta};

  // One block, measured by the code that divides it.
  pbArena arena = pbArena_Measure();
  lay_out(&arena, k, s->model);
  size_t needed = pbArena_Needed(&arena);
  k->memory_block = pbContext_Alloc(s->ctx, needed);
  if (!k->memory_block) return pb_no_memory;

  arena = pbArena_Over(k->memory_block, needed);
  lay_out(&arena, k, s->model);
  PB_ASSERT(!arena.failed);
  return pb_ok;
}

void pbPolicyWork_Destroy(pbScratch *s) {
  if (!s->policy) return;
  pbContext_Free(s->ctx, s->policy->closed.memory);
  pbContext_Free(s->ctx, s->policy->memory_block);
  pbContext_Free(s->ctx, s->policy);
}

// ---- where numbers of the policy stand in a state or its tangent ---------------------------------------------------
// Memory of decide, of act, what is held. tail: the policy's part of a state or of a (co)tangent.
static int held_at(const pbPolicyModel *p) { return p->memory; }

static const double *state_tail(const pbScratch *s, const double *x) { return x + state_layout(s->model).policy; }

static bool is_deciding(const pbPolicyModel *p, const double *tail) { return tail[p->memory + p->held] < 0.5; }

static const double *command_of(const pbInput *input) { return input ? input->command : NULL; }

// ---- forward -------------------------------------------------------------------------------------------------------
// Numbers that no evaluation is needed for: commands, what is held, the time.
static void observe_inputs(pbPolicyWork *k, const double *tail, const pbInput *input, double time) {
  const pbPolicyModel *p = k->model;
  const double *command = command_of(input);

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (pb_observeEvaluates(r->kind) || pb_observesPoints(r->kind)) continue;
    PB_ASSERT(r->at + r->count <= p->observing);

    // Commands that are not given are zero.
    for (int i = 0; i < r->count; i++) {
      int entry = r->first + (r->component ? r->component[i] : i);
      double value = time;
      if (r->kind == pb_observeCommand) value = command ? command[entry] : 0;
      if (r->kind == pb_observeLast) value = tail[held_at(p) + entry];
      k->observation[r->at + i] = r->scale * value;
    }
  }
}

static void observe_all(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  // All rows at once: those that come from no evaluation are written after it, and draws are zero but for noise.
  const pbPolicyModel *p = s->policy->model;
  if (p->evaluates) memcpy(s->policy->observation, s->w.observation, (size_t)p->observing * sizeof(double));
  if (s->history) pbHistory_Observe(s, theta, x, s->policy->observation);
  observe_inputs(s->policy, state_tail(s, x), input, x[state_layout(s->model).time]);
  pbPolicyPoints_Put(s->model, x + state_layout(s->model).deform, s->policy->observation);
  memset(s->policy->observation + p->observed - p->decide->draws, 0, (size_t)p->decide->draws * sizeof(double));
  s->policy->decides = is_deciding(p, state_tail(s, x));
  int noisy = s->policy->noise ? p->observed : 0;
  for (int i = 0; i < noisy; i++) s->policy->observation[i] += s->policy->noise[i];
}

void pbPolicy_Sense(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  // A policy of commands and the time alone needs no evaluation. Nor does it load: that would use up the place in a cache that
  // the step's own evaluation is to be written to.
  if (s->policy->model->evaluates) {
    pbScratch_Load(s, theta, x, input);
    s->variant->sense(&s->w);
  } else {
    *s->w.time = x[state_layout(s->model).time];  // for messages
  }

  observe_all(s, theta, x, input);
}

pbStatus pbPolicy_Failed(pbScratch *s, const pbPolicyFunction *f, pbStatus status) {
  return pbScratch_Fail(s, status, "policy '%.100s': %s at time %.9g", f->name, pbStatus_Text(status), *s->w.time);
}

void pbPolicy_JoinActInput(pbPolicyWork *k) {
  const pbPolicyModel *p = k->model;
  PB_ASSERT(p->act && p->act->observations == p->held + p->acted);

  memcpy(k->act_input, k->held, (size_t)p->held * sizeof(double));
  memcpy(k->act_input + p->held, k->observation + p->observed, (size_t)p->acted * sizeof(double));
}

// Between decisions held and memory stay as they are.
bool pbPolicy_BeginDecide(pbScratch *s, const double *x, pbPolicyCall *call) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const double *tail = state_tail(s, x);

  memcpy(k->memory, tail, (size_t)p->decide_memory * sizeof(double));
  memcpy(k->held, tail + held_at(p), (size_t)p->held * sizeof(double));
  *call = (pbPolicyCall){.kept = &k->kept[0], .o = k->observation, .m = tail, .out = k->held, .m_next = k->memory};
  return k->decides;
}

// Without a part that acts every step what is held goes out.
bool pbPolicy_BeginAct(pbScratch *s, const double *x, pbPolicyCall *call) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  int own = p->decide_memory;
  if (!p->act) {
    PB_ASSERT(p->outputs == p->held);
    memcpy(k->out, k->held, (size_t)p->outputs * sizeof(double));
    return false;
  }

  pbPolicy_JoinActInput(k);
  *call = (pbPolicyCall){
      .kept = &k->kept[1], .o = k->act_input, .m = state_tail(s, x) + own, .out = k->out, .m_next = k->memory + own};
  return true;
}

static pbStatus call_function(pbScratch *s, const pbPolicyCall *c, const double *theta) {
  const pbPolicyFunction *f = c->kept->function;
  pbStatus status = f->forward(f->self, 1, theta + c->kept->at, c->o, c->m, c->out, c->m_next, s->policy->function_work);
  return status == pb_ok ? pb_ok : pbPolicy_Failed(s, f, status);
}

pbStatus pbPolicy_Call(pbScratch *s, const double *theta, const double *x) {
  pbPolicyCall call;

  // Act sees what decide has put out.
  if (pbPolicy_BeginDecide(s, x, &call)) PB_TRY(call_function(s, &call, theta));
  return pbPolicy_BeginAct(s, x, &call) ? call_function(s, &call, theta) : pb_ok;
}

// Inputs with what the policy puts out; those to which it adds nothing stay the caller's.
static void add_outputs(pbPolicyWork *k, const pbModel *m, const pbInput *input) {
  const pbPolicyModel *p = k->model;
  const pbInput none = {0};
  k->input = input ? *input : none;
  k->given = k->input.ctrl;

  double *to[pb_outputKindCount] = {k->ctrl, k->qfrc, k->xfrc};
  const double **seen[pb_outputKindCount] = {&k->input.ctrl, &k->input.qfrc, &k->input.xfrc};
  const int size[pb_outputKindCount] = {pb_controls(m), m->nv, 6 * m->nbody};

  // The caller's stay as they are: sums go to the work's own.
  for (int kind = 0; kind < pb_outputKindCount; kind++) {
    if (!p->reaches[kind]) continue;
    if (*seen[kind]) memcpy(to[kind], *seen[kind], (size_t)size[kind] * sizeof(double));
    else memset(to[kind], 0, (size_t)size[kind] * sizeof(double));
    *seen[kind] = to[kind];
  }

  for (int i = 0; i < p->outputs; i++) {
    const pbOutputTarget *t = &p->target[i];
    PB_ASSERT(t->index >= 0 && t->index < size[t->kind]);
    to[t->kind][t->index] += t->scale * k->out[i];
  }
}

// pb_not_finite where one of the numbers is not.
static pbStatus check_numbers(pbScratch *s, const pbPolicyFunction *f, const char *what, const double *number, int count,
                              const double *x) {
  int bad = pbScratch_FirstNotFinite(number, count);
  if (bad < 0) return pb_ok;

  return pbScratch_Fail(s, pb_not_finite, "policy '%.100s': %s %d is %g at time %.9g", f->name, what, bad,
                        pbScratch_WithoutSign(number[bad]), x[state_layout(s->model).time]);
}

pbStatus pbPolicy_Accept(pbScratch *s, const double *x, const pbInput *input) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;

  PB_TRY(check_numbers(s, p->decide, "output", k->held, p->held, x));
  if (p->act) PB_TRY(check_numbers(s, p->act, "output", k->out, p->outputs, x));
  PB_TRY(check_numbers(s, p->decide, "memory", k->memory, p->memory, x));
  add_outputs(k, s->model, input);
  return pb_ok;
}

pbStatus pbPolicy_Before(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  PB_ASSERT(s->policy);

  // A pack may have called the functions for several worlds.
  bool called = s->policy->called;
  s->policy->called = false;
  if (!called) {
    pbPolicy_Sense(s, theta, x, input);
    PB_TRY(pbPolicy_Call(s, theta, x));
  }
  return pbPolicy_Accept(s, x, input);
}

bool pbPolicy_HearsNow(const pbScratch *s, const double *x) {
  const pbPolicyModel *p = s->policy->model;
  const double *tail = state_tail(s, x);
  return p->hears && (s->policy->decides ? 1 : tail[p->memory + p->held] + 1) >= p->every;
}

// Controls that were given, or their tangents, as if they had been decided.
static void hear(const pbPolicyModel *p, const double *ctrl, double *held) {
  PB_ASSERT(!p->act);
  if (!ctrl) return;

  // In the decision's own scale; what it gives to nothing else has no noise.
  for (int i = 0; i < p->outputs; i++) {
    const pbOutputTarget *t = &p->target[i];
    if (t->kind == pb_outputControl && t->scale != 0) held[i] += ctrl[t->index] / t->scale;
  }
}

static void pull_heard(const pbPolicyModel *p, const double *held_bar, double *ctrl_bar) {
  // held += ctrl / scale
  for (int i = 0; i < p->outputs; i++) {
    const pbOutputTarget *t = &p->target[i];
    if (t->kind == pb_outputControl && t->scale != 0) ctrl_bar[t->index] += held_bar[i] / t->scale;
  }
}

void pbPolicy_Next(const pbScratch *s, const double *x, double *next) {
  const pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  double *tail = next + state_layout(s->model).policy;
  // Steps since the decision, this one among them; the last before the next decision leaves zero.
  double count = k->decides ? 1 : state_tail(s, x)[p->memory + p->held] + 1;
  PB_ASSERT(p->every >= 1);

  memcpy(tail, k->memory, (size_t)p->memory * sizeof(double));
  memcpy(tail + held_at(p), k->held, (size_t)p->held * sizeof(double));
  // In training with the noise that was added behind the policy.
  if (pbPolicy_HearsNow(s, x)) hear(p, k->given, tail + held_at(p));
  tail[p->memory + p->held] = count < p->every ? count : 0;
}

void pbPolicy_Record(const pbScratch *s, double *record) {
  const pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;

  memcpy(record, k->held, (size_t)p->held * sizeof(double));
  memcpy(record + p->held, k->out, (size_t)p->outputs * sizeof(double));
  memcpy(record + p->held + p->outputs, k->observation, (size_t)p->observing * sizeof(double));
}

// ---- both derivatives ----------------------------------------------------------------------------------------------
static pbStepRecord opened(const pbPolicyWork *k, const pbStepRecord *step) {
  pbStepRecord open = *step;
  PB_ASSERT(!step->open && step->input != &k->input);
  open.input = &k->input;
  open.open = true;
  return open;
}

pbStepRecord pbPolicy_Open(pbScratch *s, const pbStepRecord *step) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const double *left = step->record + tape_policy(s->model);

  // What the step left in its record.
  memcpy(k->held, left, (size_t)p->held * sizeof(double));
  memcpy(k->out, left + p->held, (size_t)p->outputs * sizeof(double));
  memcpy(k->observation, left + p->held + p->outputs, (size_t)p->observing * sizeof(double));
  add_outputs(k, s->model, step->input);
  k->decides = is_deciding(k->model, state_tail(s, step->record));
  return opened(k, step);
}

// ---- reverse -------------------------------------------------------------------------------------------------------
// Where the pullback of a function leaves its gradient by parameters: at once in theta_bar, or as a kept column.
typedef struct parameter_bar {
  double *direct, *kept;
} parameter_bar;

static pbStatus gather(pbPolicyWork *k, pbKeptColumns *c, const double *theta, double *theta_bar) {
  if (!c->count) return pb_ok;
  int columns = c->count;
  PB_ASSERT(columns <= pb_keptColumns);

  // Whatever comes of it, the columns are used up.
  c->count = 0;
  return c->function->gather(c->function->self, columns, theta + c->at, c->number, pb_keptColumns, theta_bar + c->at,
                             k->function_work);
}

static parameter_bar begin_parameters(pbPolicyWork *k, pbKeptColumns *c, double *theta_bar) {
  parameter_bar bar = {NULL, NULL};
  if (!theta_bar || k->skip) return bar;

  // Gradients that go elsewhere than where columns are collected for are made at once.
  if (theta_bar == k->collect && c->function->gather) bar.kept = c->number + c->count;
  else bar.direct = theta_bar + c->at;
  return bar;
}

double *pbPolicy_KeptColumn(pbPolicyWork *k, pbKeptColumns *c, double *theta_bar) {
  return begin_parameters(k, c, theta_bar).kept;
}

// A column more; a whole block goes to the gradient.
pbStatus pbPolicy_KeepColumn(pbPolicyWork *k, pbKeptColumns *c, const double *theta, double *theta_bar) {
  return ++c->count == pb_keptColumns ? gather(k, c, theta, theta_bar) : pb_ok;
}

static pbStatus pull_function(pbScratch *s, const pbPolicyPull *c, const double *theta, double *theta_bar) {
  pbPolicyWork *k = s->policy;
  const pbPolicyFunction *f = k->rows ? pbPolicy_OfRows(c->kept->function) : c->kept->function;
  parameter_bar bar = begin_parameters(k, c->kept, theta_bar);

  pbStatus status = f->pull(f->self, 1, theta + c->kept->at, c->o, c->m, c->out_bar, c->m_next_bar, c->o_bar, c->m_bar,
                            bar.direct, bar.kept, pb_keptColumns, k->function_work);
  if (status == pb_ok && bar.kept) status = pbPolicy_KeepColumn(k, c->kept, theta, theta_bar);
  return status == pb_ok ? pb_ok : pbPolicy_Failed(s, f, status);
}

static void add_to(double *to, const double *from, int n) {
  for (int i = 0; i < n; i++) to[i] += from[i];
}

// Cotangents of the policy's part of the state after a step; zero where there is no step.
static const double *next_tail(const pbScratch *s, const double *next_bar) {
  return next_bar ? next_bar + tangent_policy(s->model) : s->policy->zero_tail;
}

// From cotangents of what act puts out to held_bar and those of what it saw.
bool pbPolicy_BeginPullAct(pbScratch *s, const pbStepRecord *step, const double *next_bar, double *x_bar, pbPolicyPull *call) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  int own = p->decide_memory, seen = p->acted;
  PB_VALIDATE(pb_allFinite(k->out_bar, (size_t)p->outputs));
  memset(k->observation_bar, 0, (size_t)p->observing * sizeof(double));
  memcpy(k->held_bar, next_tail(s, next_bar) + held_at(p), (size_t)p->held * sizeof(double));

  // What went out was what is held.
  if (!p->act) {
    add_to(k->held_bar, k->out_bar, p->held);
    return false;
  }

  pbPolicy_JoinActInput(k);
  memset(k->act_input_bar, 0, (size_t)(p->held + seen) * sizeof(double));
  *call = (pbPolicyPull){.kept = &k->kept[1],
                         .o = k->act_input,
                         .m = state_tail(s, step->record) + own,
                         .out_bar = k->out_bar,
                         .m_next_bar = next_tail(s, next_bar) + own,
                         .o_bar = k->act_input_bar,
                         .m_bar = x_bar + tangent_policy(s->model) + own};
  return true;
}

// Its inputs: what is held, then what it observes.
void pbPolicy_EndPullAct(pbScratch *s) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  add_to(k->held_bar, k->act_input_bar, p->held);
  add_to(k->observation_bar + p->observed, k->act_input_bar + p->held, p->acted);
}

// From held_bar. Between decisions it is that of what was held before.
bool pbPolicy_BeginPullDecide(pbScratch *s, const pbStepRecord *step, const double *next_bar, double *x_bar, pbPolicyPull *call) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  double *tail_bar = x_bar + tangent_policy(s->model);
  if (!k->decides) {
    add_to(tail_bar, next_tail(s, next_bar), p->decide_memory);
    add_to(tail_bar + held_at(p), k->held_bar, p->held);
    return false;
  }

  *call = (pbPolicyPull){.kept = &k->kept[0],
                         .o = k->observation,
                         .m = state_tail(s, step->record),
                         .out_bar = k->held_bar,
                         .m_next_bar = next_tail(s, next_bar),
                         .o_bar = k->observation_bar,
                         .m_bar = tail_bar};
  return true;
}

// From out_bar, and cotangents of memory and what is held after the step (NULL: no step), to observation_bar, the policy's part
// of the state before, parameters.
static pbStatus pull_functions(pbScratch *s, const pbStepRecord *step, const double *next_bar, double *x_bar, double *theta_bar) {
  pbPolicyPull call;

  // Act first: its cotangents of what is held go on to decide.
  if (pbPolicy_BeginPullAct(s, step, next_bar, x_bar, &call)) {
    PB_TRY(pull_function(s, &call, step->theta, theta_bar));
    pbPolicy_EndPullAct(s);
  }
  return pbPolicy_BeginPullDecide(s, step, next_bar, x_bar, &call) ? pull_function(s, &call, step->theta, theta_bar) : pb_ok;
}

// Cotangents of what was observed without an evaluation: points, commands, what was held, the time, that of the start and k time
// steps.
static void pull_inputs(pbScratch *s, const pbStepBar *out) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const pbModel *m = s->model;
  double *command = out->input ? out->input->command : NULL;
  double *held = out->x + tangent_policy(m) + held_at(p);
  pbPolicyPoints_Pull(m, k->observation_bar, out->x + tangent_deform(m));

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (pb_observeEvaluates(r->kind) || pb_observesPoints(r->kind)) continue;

    // Each to where it was read.
    for (int i = 0; i < r->count; i++) {
      int entry = r->first + (r->component ? r->component[i] : i);
      double bar = r->scale * k->observation_bar[r->at + i];
      if (r->kind == pb_observeCommand && command) command[entry] += bar;
      if (r->kind == pb_observeLast) held[entry] += bar;
      if (r->kind == pb_observeTime && out->theta) out->theta[m->timestep - m->theta0] += s->ticks * bar;
    }
  }
}

// Cotangents of the inputs that the open step saw go to `bar`: the work's own where the policy adds to them.
static pbInputBar begin_input_bars(pbPolicyWork *k, const pbModel *m, const pbInputBar *given) {
  const pbPolicyModel *p = k->model;
  pbInputBar bar = {0};
  if (given) bar = *given;
  bar.command = NULL;  // no open step reads it

  double *own[pb_outputKindCount] = {k->ctrl_bar, k->qfrc_bar, k->xfrc_bar};
  double **to[pb_outputKindCount] = {&bar.ctrl, &bar.qfrc, &bar.xfrc};
  const int size[pb_outputKindCount] = {pb_controls(m), m->nv, 6 * m->nbody};

  for (int kind = 0; kind < pb_outputKindCount; kind++) {
    if (!p->reaches[kind]) continue;
    memset(own[kind], 0, (size_t)size[kind] * sizeof(double));
    *to[kind] = own[kind];
  }
  return bar;
}

// From there to the caller's, and to out_bar.
static void end_input_bars(pbPolicyWork *k, const pbModel *m, const pbInputBar *given) {
  const pbPolicyModel *p = k->model;
  const double *own[pb_outputKindCount] = {k->ctrl_bar, k->qfrc_bar, k->xfrc_bar};
  double *to[pb_outputKindCount] = {NULL, NULL, NULL};
  const int size[pb_outputKindCount] = {pb_controls(m), m->nv, 6 * m->nbody};
  if (given) {
    to[pb_outputControl] = given->ctrl;
    to[pb_outputForce] = given->qfrc;
    to[pb_outputWrench] = given->xfrc;
  }

  // The caller's input and the policy's output were added: both get the same.
  for (int kind = 0; kind < pb_outputKindCount; kind++) {
    if (p->reaches[kind] && to[kind]) add_to(to[kind], own[kind], size[kind]);
  }
  for (int i = 0; i < p->outputs; i++) {
    k->out_bar[i] = p->target[i].scale * own[p->target[i].kind][p->target[i].index];
    PB_MUTE(pb_muteOutput, p->target[i].kind, k->out_bar + i, 1);
  }
}

// Where the step has one evaluation at the state that was observed, its pullback waits for what the observations add.
static bool in_halves(const pbPolicyWork *k, bool evaluated) { return evaluated && k->model->evaluates && !k->model->lengths; }

pbStatus pbPolicy_VjpToFunctions(pbScratch *s, const pbStepRecord *step, const pbStepCotangent *in, const pbStepBar *out) {
  pbPolicyWork *k = s->policy;
  const pbModel *m = s->model;
  pbStepRecord open = pbPolicy_Open(s, step);
  pbInputBar bar = begin_input_bars(k, m, out->input);
  pbStepBar to = {out->x, &bar, out->theta};

  bool evaluated = pbStep_LeavesEvaluation(s, &open, in);
  pbStepCotangent given = *in;
  given.phase = in_halves(k, evaluated) ? pb_pullToInputs : pb_pullWhole;

  // Of the step with the inputs that it saw
  PB_TRY(pbStep_VjpOpen(s, &open, &given, &to));
  end_input_bars(k, m, out->input);
  if (out->input && out->input->ctrl && pbPolicy_HearsNow(s, step->record))
    pull_heard(k->model, next_tail(s, in->next) + held_at(k->model), out->input->ctrl);
  return pb_ok;
}

pbStatus pbPolicy_Vjp(pbScratch *s, const pbStepRecord *step, const pbStepCotangent *in, const pbStepBar *out) {
  pbPolicyWork *k = s->policy;
  bool called = k->called;
  k->called = false;

  // A pack may have pulled the functions of several worlds.
  if (!called) {
    PB_TRY(pbPolicy_VjpToFunctions(s, step, in, out));
    PB_TRY(pull_functions(s, step, in->next, out->x, out->theta));
  }
  for (int r = 0; r < k->model->rows; r++) {
    PB_MUTE(pb_muteObservation, k->model->row[r].kind, k->observation_bar + k->model->row[r].at, k->model->row[r].count);
  }
  pull_inputs(s, out);
  if (s->history) pbHistory_PullObserved(s, step->theta, step->record, k->observation_bar, out->x, out->theta);
  if (!k->model->evaluates) return pb_ok;

  // Of what is observed, by the state and by where mocap bodies are
  const pbStepRecord open = opened(k, step);
  bool evaluated = pbStep_LeavesEvaluation(s, &open, in), halves = in_halves(k, evaluated);
  bool again = evaluated && pb_stages(s->model) == 1;
  pbInputBar poses = {0};
  if (out->input) {
    poses.mocap_pos = out->input->mocap_pos;
    poses.mocap_rot = out->input->mocap_rot;
  }
  const pbStepCotangent seen = {
      .observation = k->observation_bar, .phase = halves ? pb_pullFromObservations : pb_pullWhole, .evaluated = again && !halves};
  return pbStep_VjpOpen(s, &open, &seen, &(pbStepBar){out->x, &poses, out->theta});
}

void pbPolicy_Collect(pbScratch *s, const double *theta_bar) {
  if (!s || !s->policy) return;

  // Columns of a call that failed are of no use.
  s->policy->collect = theta_bar;
  for (int i = 0; i < 2; i++) s->policy->kept[i].count = 0;
}

pbStatus pbPolicy_Flush(pbScratch *s, const double *theta, double *theta_bar) {
  if (!s || !s->policy || !s->policy->collect) return pb_ok;
  PB_ASSERT(theta_bar == s->policy->collect);

  // What is left of the last block
  pbStatus status = pb_ok;
  for (int i = 0; i < 2 && status == pb_ok; i++) status = gather(s->policy, &s->policy->kept[i], theta, theta_bar);
  pbPolicy_Collect(s, NULL);
  return status;
}

// ---- forward derivative --------------------------------------------------------------------------------------------
static const double *tangent_tail(const pbScratch *s, const double *direction) {
  return direction ? direction + tangent_policy(s->model) : s->policy->zero_tail;
}

// Tangents of what is observed without an evaluation.
static void push_inputs(pbScratch *s, const pbDirection *d) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const pbModel *m = s->model;
  const double *tail = tangent_tail(s, d->x);
  double time = d->theta ? s->ticks * d->theta[m->timestep - m->theta0] : 0;
  pbPolicyPoints_Put(m, d->x ? d->x + tangent_deform(m) : NULL, k->observation_bar);

  for (const pbObserveRow *r = p->row; r < p->row + p->rows; r++) {
    if (pb_observeEvaluates(r->kind) || pb_observesPoints(r->kind)) continue;
    for (int i = 0; i < r->count; i++) {
      int entry = r->first + (r->component ? r->component[i] : i);
      double tangent = time;
      if (r->kind == pb_observeCommand) tangent = d->command ? d->command[entry] : 0;
      if (r->kind == pb_observeLast) tangent = tail[held_at(p) + entry];
      k->observation_bar[r->at + i] = r->scale * tangent;
    }
  }
}

static pbStatus push_act(pbScratch *s, const pbStepRecord *step, const pbDirection *d) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const pbPolicyFunction *act = p->act;
  int own = p->decide_memory, seen = p->acted;

  // What is held goes out.
  if (!act) {
    memcpy(k->out_bar, k->held_bar, (size_t)p->held * sizeof(double));
    return pb_ok;
  }

  pbPolicy_JoinActInput(k);
  memcpy(k->act_input_bar, k->held_bar, (size_t)p->held * sizeof(double));
  memcpy(k->act_input_bar + p->held, k->observation_bar + p->observed, (size_t)seen * sizeof(double));
  pbStatus status = act->push(act->self, 1, step->theta + p->act_theta, d->theta ? d->theta + p->act_theta : NULL, k->act_input,
                              k->act_input_bar, state_tail(s, step->record) + own, tangent_tail(s, d->x) + own, k->out_bar,
                              k->memory_bar + own, k->function_work);
  return status == pb_ok ? pb_ok : pbPolicy_Failed(s, act, status);
}

static pbStatus push_decide(pbScratch *s, const pbStepRecord *step, const pbDirection *d) {
  pbPolicyWork *k = s->policy;
  const pbPolicyModel *p = k->model;
  const pbPolicyFunction *f = p->decide;
  const double *tail = tangent_tail(s, d->x);

  // Between decisions both stay as they are.
  memcpy(k->memory_bar, tail, (size_t)p->decide_memory * sizeof(double));
  memcpy(k->held_bar, tail + held_at(p), (size_t)p->held * sizeof(double));
  if (!k->decides) return pb_ok;

  pbStatus status = f->push(f->self, 1, step->theta + p->theta, d->theta ? d->theta + p->theta : NULL, k->observation,
                            k->observation_bar, state_tail(s, step->record), tail, k->held_bar, k->memory_bar, k->function_work);
  return status == pb_ok ? pb_ok : pbPolicy_Failed(s, f, status);
}

// Directions of the inputs with what the policy adds to them: the work's.
static pbDirection add_tangents(pbPolicyWork *k, const pbModel *m, const pbDirection *d) {
  const pbPolicyModel *p = k->model;
  pbDirection all = *d;
  double *own[pb_outputKindCount] = {k->ctrl_bar, k->qfrc_bar, k->xfrc_bar};
  const double **seen[pb_outputKindCount] = {&all.ctrl, &all.qfrc, &all.xfrc};
  const int size[pb_outputKindCount] = {pb_controls(m), m->nv, 6 * m->nbody};

  for (int kind = 0; kind < pb_outputKindCount; kind++) {
    if (!p->reaches[kind]) continue;
    if (*seen[kind]) memcpy(own[kind], *seen[kind], (size_t)size[kind] * sizeof(double));
    else memset(own[kind], 0, (size_t)size[kind] * sizeof(double));
    *seen[kind] = own[kind];
  }

  for (int i = 0; i < p->outputs; i++) own[p->target[i].kind][p->target[i].index] += p->target[i].scale * k->out_bar[i];
  return all;
}

pbStatus pbPolicy_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *d, const pbStepTangent *out) {
  pbPolicyWork *k = s->policy;
  const pbModel *m = s->model;
  const pbPolicyModel *p = k->model;
  pbStepRecord open = pbPolicy_Open(s, step);

  if (!pbPolicy_Pushes(m))
    return pbScratch_Fail(s, pb_unsupported, "forward derivative: the policy '%.100s' has none (push)",
                          p->decide->push ? p->act->name : p->decide->name);

  // How what it observes moves, by the complex program
  if (p->evaluates) pbJvp_Sense(s->complex_work, &open, d, k->observation_bar);
  if (s->history) pbHistory_PushObserved(s, step->theta, step->record, d, k->observation_bar);
  push_inputs(s, d);

  // Through the functions, and through the step with the inputs that they move
  PB_TRY(push_decide(s, &open, d));
  PB_TRY(push_act(s, &open, d));
  const pbDirection all = add_tangents(k, m, d);
  PB_TRY(pbStep_JvpOpen(s, &open, &all, out));
  if (!out->next) return pb_ok;

  // The policy's part of the state after it
  double *tail = out->next + tangent_policy(m);
  memcpy(tail, k->memory_bar, (size_t)p->memory * sizeof(double));
  memcpy(tail + held_at(p), k->held_bar, (size_t)p->held * sizeof(double));
  if (pbPolicy_HearsNow(s, step->record)) hear(p, d->ctrl, tail + held_at(p));
  return pb_ok;
}
