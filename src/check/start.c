// The check of a model's derivatives where a search begins (at_start): the gradient of a short rollout from where a search
// begins, by each control and each number of the state alone, against one-sided slopes. Rest, zeros and bounds are where motions
// bend: there a gradient is the slope to a side, at a bound the one into the domain, or the even share of both.
// Tests: tests/oracle/test_check.py.
#include "check/check.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/actuators.h>
#include <pullback/enums.h>

enum { most_steps = 10, most_entries = 100 };
static const double start_limit = 1e-4;

typedef struct Start {
  pbCheck *d;
  pbRollout *rollout;
  int steps;
  bool tied;                    // there are contacts without a derivative of every direction
  double *w, *x_bar, *u_bar;    // cotangent of the last state; gradients
  double *x, *u, *end, *moved;  // what moves, the last state and where it goes
  double *change;
  double size;  // of the terms of the functional
  double *memory;
} Start;

// An entry that moves alone: of the state's tangent, or a control in all steps.
typedef struct Entry {
  bool control;
  size_t number;
  int side;  // 1, -1: the domain is to this side only
  double unit;
} Entry;

// One-sided slope from moves by e, e/2 and e/4 (Richardson), and how far its last two extrapolations are apart.
typedef struct Slope {
  double value, doubt;
} Slope;

static pbStatus allocate(Start *s) {
  const pbCheck *d = s->d;
  size_t nt = (size_t)d->r->n, nx = (size_t)d->r->nx, controls = (size_t)s->steps * (size_t)d->r->nu;
  s->memory = pbContext_Alloc(d->r->ctx, (3 * nt + 2 * controls + 3 * nx) * sizeof *s->memory + 1);
  if (!s->memory) return pbCheck_NoMemory(d);

  // of the state's tangent, of states, of controls
  double *next = s->memory, **of_tangent[] = {&s->w, &s->x_bar, &s->change}, **of_states[] = {&s->x, &s->end, &s->moved};
  for (int i = 0; i < 3; i++, next += nt) *of_tangent[i] = next;
  for (int i = 0; i < 3; i++, next += nx) *of_states[i] = next;
  s->u_bar = next;
  s->u = next + controls;

  pbRolloutPlan plan;
  PB_TRY(pbRollout_Plan(d->r->ctx, d->r->model, s->steps, 0, &plan));
  return pbRollout_Create(d->r->ctx, d->r->model, &plan, NULL, &s->rollout);
}

static pbStatus forward(Start *s, double *end) {
  const pbRollout *r = s->d->r;
  pbRolloutInput input = r->input;
  input.ctrl = s->d->r->nu ? s->u : NULL;
  return pbRollout_Forward(s->rollout, s->d->theta, s->x, &input, &(pbRolloutOutput){.final_state = end});
}

// Numbers of the state that move: not the past that deformables keep, nor what a policy holds.
static int moving_count(const pbCheck *d) { return 2 * d->r->nv + d->r->na + 6 * pbModel_PointCount(d->r->model); }

// A random functional of the last state, and its gradient.
static pbStatus pull(Start *s) {
  const pbCheck *d = s->d;
  size_t nt = (size_t)d->r->n, controls = (size_t)s->steps * (size_t)d->r->nu;
  memset(s->w, 0, nt * sizeof(double));
  pbCheck_DrawNormals(s->d, s->w, (size_t)moving_count(d));
  memset(s->x_bar, 0, nt * sizeof(double));
  memset(s->u_bar, 0, controls * sizeof(double));

  memcpy(s->x, d->x0, (size_t)d->r->nx * sizeof(double));
  if (controls) memcpy(s->u, d->control, controls * sizeof(double));
  PB_TRY(forward(s, s->end));
  for (int i = 0; i < d->r->nx; i++) s->size += fabs(s->end[i]);

  // by both at once
  pbRolloutBar bar = {.x = {.data = s->w, .count = 1}};
  pbRolloutGradient out = {.x0 = s->x_bar, .ctrl = controls ? s->u_bar : NULL};
  return pbRollout_Vjp(s->rollout, &bar, NULL, &out, NULL);
}

// What the functional changes by where the entry moves by e; NaN where the rollout fails.
static double value_after(Start *s, const Entry *entry, double e) {
  const pbCheck *d = s->d;
  size_t controls = (size_t)s->steps * (size_t)d->r->nu;

  memcpy(s->x, d->x0, (size_t)d->r->nx * sizeof(double));
  if (controls) memcpy(s->u, d->control, controls * sizeof(double));

  // a control in all steps, a number of the state at the start
  if (entry->control) {
    for (size_t i = entry->number; i < controls; i += (size_t)d->r->nu) s->u[i] += e;
  } else {
    memset(s->change, 0, (size_t)d->r->n * sizeof(double));
    s->change[entry->number] = 1;
    pbState_Move(d->r->model, s->x, s->change, e);
  }

  // in the tangent space, as the cotangent is
  if (forward(s, s->moved) != pb_ok) return NAN;
  pbState_Difference(d->r->model, s->end, s->moved, s->change);
  return pbCheck_Dot(s->w, s->change, (size_t)d->r->n);
}

static Slope slope_at(Start *s, const Entry *entry, double e) {
  double d[3];
  for (int i = 0; i < 3; i++) d[i] = value_after(s, entry, ldexp(e, -i)) / ldexp(e, -i);

  // Each extrapolation removes a power of e.
  double first = 2 * d[1] - d[0], second = 2 * d[2] - d[1];
  return (Slope){(4 * second - first) / 3, fabs(second - first) + 64 * DBL_EPSILON * s->size / fabs(e)};
}

static double gradient_of(const Start *s, const Entry *entry) {
  if (!entry->control) return s->x_bar[entry->number];

  double sum = 0;
  for (int k = 0; k < s->steps; k++) sum += s->u_bar[(size_t)k * (size_t)s->d->r->nu + entry->number];
  return sum;
}

static void name_entry(const Start *s, const Entry *entry, char *text, size_t size) {
  const char *actuator = entry->control ? pbModel_Name(s->d->r->model, pb_objActuator, (int)entry->number) : "";
  if (entry->control && *actuator) snprintf(text, size, "control of '%.60s'", actuator);
  else if (entry->control) snprintf(text, size, "control %d", (int)entry->number);
  else pbState_TangentName(s->d->r->model, (int)entry->number, text, size);
}

// Where the motion bends: what the gradient is of both slopes.
static void note_bend(const Start *s, const Entry *entry, double gradient, double right, double left) {
  char name[90];
  name_entry(s, entry, name, sizeof name);
  pbCheck_AddFinding(s->d, "a bend at the start", name,
                     "the slopes to both sides are %.4g and %.4g, and the gradient is %.4g: %s", right, left, gradient,
                     entry->side ? "that into the domain." : "moves to the other side change the motion by another slope.");
}

static void note_wrong(pbCheckTest *t, const Start *s, const Entry *entry, double gradient, double right, double left) {
  char name[90];
  size_t used = strlen(t->words);
  name_entry(s, entry, name, sizeof name);
  if (used + 150 > sizeof t->words) return;
  snprintf(t->words + used, sizeof t->words - used, "%s%s has gradient %.4g, slopes %.4g and %.4g",
           used ? "; " : "disagrees: ", name, gradient, right, left);
}

// The least of how far the gradient is from a slope that it may be.
static double error_of(const Entry *entry, double gradient, const Slope *right, const Slope *left, bool bent) {
  if (entry->side) return fabs(gradient - (entry->side > 0 ? right->value : left->value));

  double mean = fabs(gradient - 0.5 * (right->value + left->value));
  return bent ? fmin(mean, fmin(fabs(gradient - right->value), fabs(gradient - left->value))) : mean;
}

static void compare(Start *s, const Entry *entry, pbCheckTest *t) {
  static const double sizes[] = {1e-4, 1e-6, 1e-8};
  double gradient = gradient_of(s, entry), best = INFINITY;
  Slope right = {0}, left = {0};
  bool known = false;

  // The most certain of some sizes; one that agrees ends the search.
  for (int i = 0; i < 3 && !(known && best <= start_limit); i++) {
    Slope ahead = slope_at(s, entry, sizes[i] * entry->unit), behind = slope_at(s, entry, -sizes[i] * entry->unit);
    double size = fabs(ahead.value) + fabs(behind.value) + fabs(gradient) + 1e-4;
    double doubt = (entry->side >= 0 ? ahead.doubt : 0) + (entry->side <= 0 ? behind.doubt : 0);
    if (!(doubt <= start_limit * size)) continue;

    bool bent = fabs(ahead.value - behind.value) > start_limit * size + 10 * doubt;
    double error = fmax(0, error_of(entry, gradient, &ahead, &behind, bent) - doubt) / size;
    if (known && error >= best) continue;
    known = true;
    best = error;
    right = ahead;
    left = behind;
  }

  // what is right, wrong or not known, in words
  bool bends = fabs(right.value - left.value) > 10 * start_limit * (fabs(right.value) + fabs(left.value));
  if (!known || (s->tied && best > start_limit)) {
    char name[90];
    name_entry(s, entry, name, sizeof name);
    pbCheck_LeaveOut(t, name, known ? "at a tie of contacts, named below" : "does not settle: a jump or an onset", -1);
    return;
  }

  pbCheck_CountCase(t, best, -1);
  if (!(best <= start_limit)) note_wrong(t, s, entry, gradient, right.value, left.value);
  else if (bends) note_bend(s, entry, gradient, right.value, left.value);
}

int pbCheck_ControlSide(const pbCheck *d, int i, double *span) {
  const pbRollout *r = d->r;
  pbField limited, dynamics;
  pbParam range;
  double low = -INFINITY, high = INFINITY;
  const pbModel *m = r->model;
  *span = INFINITY;
  if (!pbModel_Field(m, "actuator_ctrllimited", &limited) || !pbModel_Field(m, "actuator_dyntype", &dynamics) ||
      i >= limited.rows)
    return 0;

  // Muscles clamp their excitation to 0 .. 1 by themselves.
  if (dynamics.integers[i] == pb_dynMuscle) {
    low = 0;
    high = 1;
  }
  if (limited.integers[i] && pbModel_Param(r->ctx, m, "actuator_ctrlrange", &range) == pb_ok) {
    low = fmax(low, d->theta[range.offset + 2 * (size_t)i]);
    high = fmin(high, d->theta[range.offset + 2 * (size_t)i + 1]);
  }

  *span = high - low;
  if (d->control[i] <= low) return 1;
  return d->control[i] >= high ? -1 : 0;
}

static Entry control_entry(const Start *s, int i) {
  double span;
  Entry entry = {.control = true, .number = (size_t)i, .side = pbCheck_ControlSide(s->d, i, &span)};
  entry.unit = span > 0 ? fmin(1, span) : 1;
  return entry;
}

// Of many entries some, drawn evenly.
static pbStatus compare_all(Start *s, const char *name, int count, bool control) {
  if (count == 0) return pb_ok;
  pbCheckTest *t = pbCheck_AddTest(s->d, name, start_limit);
  int stride = (count + most_entries - 1) / most_entries, from = (int)(pbRng_Uniform(&s->d->rng) * stride);

  for (int i = from; i < count; i += stride) {
    Entry entry = control ? control_entry(s, i) : (Entry){.number = (size_t)i, .unit = 1};
    PB_TRY(pbCheck_GoOn(s->d, "slopes at the start", i, count));
    compare(s, &entry, t);
  }
  return pb_ok;
}

pbStatus pbCheck_AtStart(pbCheck *d) {
  Start s = {.d = d, .steps = d->r->plan.steps < most_steps ? (int)d->r->plan.steps : most_steps};
  s.tied = pbCheck_FirstTie(d, d->states, s.steps) >= 0;

  pbStatus status = allocate(&s);
  if (status == pb_ok) status = pull(&s);
  if (status == pb_ok) status = compare_all(&s, "slopes at the start, by control", d->r->nu, true);
  if (status == pb_ok) status = compare_all(&s, "slopes at the start, by state", moving_count(d), false);

  pbRollout_Destroy(s.rollout);
  pbContext_Free(d->r->ctx, s.memory);
  return status;
}
