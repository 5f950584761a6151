// The check of a model's derivatives where a search begins (at_start): the gradient of the last state of a short rollout by each
// control and each number of the state alone, against one-sided slopes. Rest, zeros and bounds are where motions bend: there a
// gradient is the slope to a side, at a bound the one into the domain, or the even share of both.
// Tests: tests/oracle/test_check.py.
#include <math.h>
#include <string.h>

#include <pullback/actuators.h>
#include <pullback/enums.h>

#include "check/check.h"

enum { most_steps = 10, most_entries = 100 };

int pbCheck_MovingCount(const pbCheck *d) { return 2 * d->r->nv + d->r->na + 2 * d->r->np; }

int pbCheck_ControlSide(const pbCheck *d, int step, int i, double *span) {
  double control = d->control[(size_t)step * (size_t)d->r->nu + (size_t)i];
  pbField limited, dynamics;
  pbParam range;
  double low = -INFINITY, high = INFINITY;
  const pbModel *m = d->r->model;
  *span = INFINITY;
  if (!pbModel_Field(m, "actuator_ctrllimited", &limited) || !pbModel_Field(m, "actuator_dyntype", &dynamics) ||
      i >= limited.rows)
    return 0;

  // Muscles clamp their excitation to 0 .. 1 by themselves.
  if (dynamics.integers[i] == pb_dynMuscle) {
    low = 0;
    high = 1;
  }
  if (limited.integers[i] && pbModel_Param(d->r->ctx, m, "actuator_ctrlrange", &range) == pb_ok) {
    low = fmax(low, d->theta[range.offset + 2 * (size_t)i]);
    high = fmin(high, d->theta[range.offset + 2 * (size_t)i + 1]);
  }

  *span = high - low;
  if (control <= low) return 1;
  return control >= high ? -1 : 0;
}

// The place of an activation in the state, or -1.
static int activation_at(const pbModel *m, int i) {
  for (int k = 0; k < pbModel_StateFieldCount(m); k++) {
    pbStateField f = pbModel_StateFieldAt(m, k);
    if (strcmp(f.name, "act") == 0) return i < f.size ? f.offset + i : -1;
  }
  return -1;
}

int pbCheck_ActivationSide(const pbCheck *d, int step, int i) {
  const pbModel *m = d->r->model;
  pbField limited, dynamics, first, count;
  pbParam range;
  int at = activation_at(m, i);
  if (at < 0 || !pbModel_Field(m, "actuator_actlimited", &limited) || !pbModel_Field(m, "actuator_dyntype", &dynamics) ||
      !pbModel_Field(m, "actuator_actadr", &first) || !pbModel_Field(m, "actuator_actnum", &count))
    return 0;

  double act = d->rows[in_states][(size_t)step * (size_t)d->r->nx + (size_t)at], low = -INFINITY, high = INFINITY;
  for (int u = 0; u < first.rows; u++) {
    if (first.integers[u] < 0 || i < first.integers[u] || i >= first.integers[u] + count.integers[u]) continue;

    // Muscles clamp their activation to 0 .. 1 where it sets the rate.
    if (dynamics.integers[u] == pb_dynMuscle) {
      low = 0;
      high = 1;
    }
    if (limited.integers[u] && pbModel_Param(d->r->ctx, m, "actuator_actrange", &range) == pb_ok) {
      low = fmax(low, d->theta[range.offset + 2 * (size_t)u]);
      high = fmin(high, d->theta[range.offset + 2 * (size_t)u + 1]);
    }
  }
  if (act <= low) return 1;
  return act >= high ? -1 : 0;
}

// Sets the direction to one entry: a control in all steps, or a number of the state at the start. Returns the side to which its
// domain is, or 0.
static int choose_entry(pbCheck *d, pbBy part, int i) {
  double span, *direction = d->direction.of[part];
  pbVectors_Clear(&d->direction);
  direction[i] = 1;
  if (part == by_state) return 0;

  int side = pbCheck_ControlSide(d, 0, i, &span);
  double unit = span > 0 ? fmin(1, span) : 1;
  for (size_t k = 0; k < (size_t)d->r->plan.steps; k++) direction[k * (size_t)d->r->nu + (size_t)i] = unit;
  return side;
}

static pbWords name_entry(const pbCheck *d, pbBy part, int i) {
  pbWords name;
  const char *actuator = part == by_ctrl ? pbModel_Name(d->r->model, pb_objActuator, i) : "";
  if (*actuator) return pbWords_Of("control of '%.60s'", actuator);
  if (part == by_ctrl) return pbWords_Of("control %d", i);

  pbState_TangentName(d->r->model, i, name.text, sizeof name.text);
  return name;
}

static pbStatus compare_entry(pbCheck *d, pbBy part, int i, pbCheckTest *t) {
  pbWords name = name_entry(d, part, i);
  bool wrong;
  pbStanding found[seen_count], *f = &found[in_states];
  int side = choose_entry(d, part, i);
  const double *unit = d->direction.of[part] + i;

  pbComparison c = {.test = {t}, .name = name.text, .alone = unit, .side = side, .modes = true, .step = -1};
  PB_TRY(pbCheck_Compare(d, &c, found, &wrong));
  if (!f->known || f->error > t->limit) return pb_ok;

  // a bound has a slope on its other side too
  if (side) pbCheck_Measure(d, 0, false, t->limit, found);
  double right = f->right / *unit, left = f->left / *unit;
  if (fabs(right - left) > 10 * t->limit * (fabs(right) + fabs(left) + d->least[in_states]))
    pbCheck_AddFinding(d, "a bend at the start", name.text,
                       "the slopes to both sides are %.4g and %.4g, and the gradient is %.4g: %s", right, left,
                       f->gradient / *unit,
                       side ? "that into the domain." : "moves to the other side change the motion by another slope.");
  return pb_ok;
}

// Of many entries some, drawn evenly. before: entries of other kinds before these; done: of all of them, -1: none.
static pbStatus compare_entries(pbCheck *d, const char *name, pbBy part, int count, int before, int done) {
  if (count == 0 || done >= before + count) return pb_ok;
  pbCheckTest *t = pbCheck_AddTest(d, name, 1e-4);
  int stride = (count + most_entries - 1) / most_entries;
  int from = done >= before ? done - before : (int)(pbRng_Uniform(&d->rng) * stride);

  for (int i = from; i < count; i += stride) {
    pbCheck_Mark(d, pb_atStart, before + i);
    PB_TRY(pbCheck_GoOn(d, "slopes at the start", i, count));
    PB_TRY(compare_entry(d, part, i, t));
  }
  return pb_ok;
}

pbStatus pbCheck_AtStart(pbCheck *d) {
  if (pbCheck_Skips(d, pb_atStart)) return pb_ok;
  PB_TRY(pbCheck_Stretch(d, 0, d->steps < most_steps ? d->steps : most_steps));
  PB_TRY(pbCheck_DrawFunctionals(d, pb_lastState, NULL));
  d->tied = pbCheck_FirstTie(d) >= 0;
  int nu = d->r->nu, done = pbCheck_Resume(d, pb_atStart);
  PB_TRY(compare_entries(d, "slopes at the start, by control", by_ctrl, nu, 0, done));
  return compare_entries(d, "slopes at the start, by state", by_state, pbCheck_MovingCount(d), nu, done);
}
