// Terms of a loss on what is observed of a trajectory: value, pullback, push-forward, side by side.
// Tests: tests/unit/test_task.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/deform.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/mutate.h"
#include "elementary/elementary.h"
#include "model/model.h"
#include "optimize/terms.h"

// ---- rows of what is observed ----------------------------------------------------------------------------------------
// The last state has the controls of the last step.
static size_t control_offset(const pbTermSet *s, int step) {
  int last = s->steps > 0 ? s->steps - 1 : 0;
  return (size_t)(step < last ? step : last) * (size_t)s->nu;
}

// A state has the commands under which it was reached.
static size_t command_offset(const pbTermSet *s, int step) {
  return s->commands_by_step && step > 0 ? (size_t)(step - 1) * (size_t)s->ncommand : 0;
}

const double *pbTermSet_Observed(const pbTermSet *s, pbQuantity quantity, int which, int step, const double *ctrl) {
  size_t row = (size_t)which;
  PB_ASSERT(which < s->row_count && s->rows[which] == step);

  switch (quantity) {
    case pb_observedQpos: return s->states + row * (size_t)s->nx + s->qpos_at;
    case pb_observedQvel: return s->states + row * (size_t)s->nx + s->qvel_at;
    case pb_observedAct: return s->states + row * (size_t)s->nx + s->act_at;
    case pb_observedSensor: return s->sensordata + row * (size_t)s->ns;
    case pb_observedBody: return s->xpos + row * 3 * (size_t)s->nbody;
    case pb_observedSite: return s->site_xpos + row * 3 * (size_t)s->nsite;
    case pb_observedPoints: return s->states + row * (size_t)s->nx + s->points_at;
    case pb_observedPointVelocity: return s->states + row * (size_t)s->nx + s->points_at + s->np;
    case pb_observedCommand: return s->command + command_offset(s, step);
    case pb_observedDecision: return s->states + row * (size_t)s->nx + s->held_at;
    case pb_observedLast: return s->last;
    default: return ctrl ? ctrl + control_offset(s, step) : NULL;
  }
}

// Controls and commands hold until the next step; all else goes on to the next state.
static bool goes_on(const pbMoment *p, const pbTerm *of) {
  return p->between && of->quantity != pb_observedControl && of->quantity != pb_observedCommand;
}

static pbSeen see(const pbTermSet *s, const pbMoment *p, const pbTerm *of, const double *ctrl) {
  pbSeen seen = {.at = pbTermSet_Observed(s, of->quantity, p->row, p->step, ctrl)};
  if (goes_on(p, of)) seen.next = pbTermSet_Observed(s, of->quantity, p->row + 1, p->step + 1, ctrl);
  return seen;
}

double *pbTermSet_BarRow(const pbTermSet *s, pbQuantity quantity, int which, int step, double *ctrl_bar) {
  size_t row = (size_t)which;
  switch (quantity) {
    case pb_observedQpos: return s->bar_q + row * (size_t)s->nv;
    case pb_observedQvel: return s->bar_v + row * (size_t)s->nv;
    case pb_observedAct: return s->bar_a + row * (size_t)s->na;
    case pb_observedSensor: return s->bar_sensor + row * (size_t)s->ns;
    case pb_observedBody: return s->bar_xpos + row * 3 * (size_t)s->nbody;
    case pb_observedSite: return s->bar_site + row * 3 * (size_t)s->nsite;
    case pb_observedPoints: return s->bar_points + row * (size_t)s->np;
    case pb_observedPointVelocity: return s->bar_point_velocity + row * (size_t)s->np;
    case pb_observedCommand: return NULL;  // given
    case pb_observedDecision: return s->bar_decision + row * (size_t)s->nheld;
    case pb_observedLast: return s->bar_last + row * (size_t)s->nheld;
    default: return ctrl_bar ? ctrl_bar + control_offset(s, step) : NULL;
  }
}

static pbSeenBar bars_at(const pbTermSet *s, const pbMoment *p, const pbTerm *of, double *ctrl_bar) {
  pbSeenBar bar = {.at = pbTermSet_BarRow(s, of->quantity, p->row, p->step, ctrl_bar)};
  if (goes_on(p, of)) bar.next = pbTermSet_BarRow(s, of->quantity, p->row + 1, p->step + 1, ctrl_bar);
  return bar;
}

static const double *tangent_row(const pbTermSet *s, pbQuantity quantity, int which, int step, const pbObservedTangent *t) {
  size_t row = (size_t)which;

  // Where the quantity begins in the tangent space of the state.
  switch (quantity) {
    case pb_observedQpos: return t->x + row * (size_t)s->n;
    case pb_observedQvel: return t->x + row * (size_t)s->n + s->nv;
    case pb_observedAct: return t->x + row * (size_t)s->n + 2 * s->nv;
    case pb_observedSensor: return t->sensordata + row * (size_t)s->ns;
    case pb_observedBody: return t->xpos + row * 3 * (size_t)s->nbody;
    case pb_observedSite: return t->site_xpos + row * 3 * (size_t)s->nsite;
    case pb_observedPoints: return t->x + row * (size_t)s->n + 2 * s->nv + s->na;
    case pb_observedPointVelocity: return t->x + row * (size_t)s->n + 2 * s->nv + s->na + s->np;
    default: return t->ctrl ? t->ctrl + control_offset(s, step) : NULL;
  }
}

static pbSeen tangents_at(const pbTermSet *s, const pbMoment *p, const pbTerm *of, const pbObservedTangent *t) {
  pbSeen by = {.at = tangent_row(s, of->quantity, p->row, p->step, t)};
  if (goes_on(p, of)) by.next = tangent_row(s, of->quantity, p->row + 1, p->step + 1, t);
  return by;
}

// ---- formulas -------------------------------------------------------------------------------------------------------
static void gather_inputs(const pbTermSet *s, const pbMoment *p, const double *ctrl, double *in) {
  const pbFormula *f = p->term->formula;
  for (int i = 0; i < f->input_count; i++) {
    const pbTerm *input = &f->inputs[i];
    pbSeen seen = see(s, p, input, ctrl);
    for (int c = 0; c < input->part_count; c++) *in++ = pbPart_Value(&input->parts[c], p, input, seen, input->target);
  }

  *in = s->clock + (p->step + p->fraction) * s->timestep;
}

// Values at all moments that the term looks at, with slopes if `pull`; false: set->fault says why not.
static bool evaluate_formula(pbTermSet *s, const pbTerm *t, const double *ctrl, bool pull) {
  const pbFormula *f = t->formula;
  pbEnergyFault fault;
  PB_ASSERT(t->part_count == 1 && f->width == pbExpression_Width(f->expression));
  pbMoment p = {.row = 0};

  // inputs of all times first: a formula is evaluated in blocks
  for (int k = 0; k < t->step_count; k++) {
    p = pbTerm_Moment(s, t, k, p.row);
    gather_inputs(s, &p, ctrl, f->in + (size_t)k * (size_t)f->width);
  }

  if (pbExpression_Evaluate(f->expression, t->step_count, f->in, f->value, pull ? f->slope : NULL, &fault)) return true;

  // the time at which it has none
  p = pbTerm_Moment(s, t, fault.element < 0 ? 0 : fault.element, 0);
  s->failure = pb_not_finite;
  snprintf(s->fault, sizeof s->fault, "term '%.60s' at time %.9g: %.100s", t->name,
           s->clock + (p.step + p.fraction) * s->timestep, fault.what);

  return false;
}

// Chain rule: `bar` of the formula's value to what its inputs observe; returns what goes to the fraction.
static double formula_pull(const pbTermSet *s, const pbMoment *p, const double *ctrl, double bar, double *ctrl_bar) {
  const pbFormula *f = p->term->formula;
  const double *slope = f->slope + (size_t)p->k * (size_t)f->width;
  double rate = 0;

  for (int i = 0; i < f->input_count; i++) {
    const pbTerm *input = &f->inputs[i];
    pbSeen seen = see(s, p, input, ctrl);
    pbSeenBar to = bars_at(s, p, input, ctrl_bar);
    for (int c = 0; c < input->part_count; c++)
      rate += pbPart_Pull(&input->parts[c], p, input, seen, input->target, bar * *slope++, to);
  }

  if (s->timestep_bar) *s->timestep_bar += bar * *slope * (p->step + p->fraction);
  return rate + bar * *slope * s->timestep;
}

static double formula_push(const pbTermSet *s, const pbMoment *p, const pbObservedTangent *tangent, double fraction) {
  const pbFormula *f = p->term->formula;
  const double *slope = f->slope + (size_t)p->k * (size_t)f->width;
  double sum = 0;

  for (int i = 0; i < f->input_count; i++) {
    const pbTerm *input = &f->inputs[i];
    pbSeen seen = see(s, p, input, NULL), by = tangents_at(s, p, input, tangent);
    for (int c = 0; c < input->part_count; c++)
      sum += *slope++ * pbPart_Push(&input->parts[c], p, input, seen, input->target, by, fraction);
  }

  return sum + *slope * (fraction * s->timestep + (p->step + p->fraction) * tangent->timestep);
}

// ---- component i of a term, whatever it is ----------------------------------------------------------------------------
// d = (gain y + bias - target) / sigma; of rotations, which are compared in the tangent space, the rotation vector / sigma.
static bool is_missing(const pbMoment *p, int i) { return isnan(p->target[p->term->parts[i].target]); }
static bool is_rotation(const pbTerm *t, int i) { return t->parts[i].axis >= 0; }
static double reading_at(const pbTerm *t, int which) { return t->reading->now[which]; }

// What the term sees, before its gain and bias.
static double seen_value(const pbTermSet *s, const pbMoment *p, const double *ctrl, int i) {
  const pbTerm *t = p->term;
  if (t->formula) return t->formula->value[p->k];
  return pbPart_Value(&t->parts[i], p, t, see(s, p, t, ctrl), p->target);
}

static double component(const pbTermSet *s, const pbMoment *p, const double *ctrl, int i) {
  const pbTerm *t = p->term;
  PB_ASSERT(i >= 0 && i < t->part_count && p->k < t->step_count);
  double y = seen_value(s, p, ctrl, i);

  if (t->reading && !is_rotation(t, i)) y = reading_at(t, 1 + i) * y + reading_at(t, 1 + t->part_count + i);
  if (!is_rotation(t, i)) y -= p->target[t->parts[i].target];

  return t->sigma ? y / t->sigma[i] : y;
}

static void component_pull(const pbTermSet *s, const pbMoment *p, const double *ctrl, int i, double bar, double *ctrl_bar) {
  const pbTerm *t = p->term;
  const pbReading *r = t->reading;
  PB_MUTE(pb_muteQuantity, t->formula ? pb_observedFormula : t->quantity, &bar, 1);
  if (t->sigma) bar /= t->sigma[i];

  if (r && !is_rotation(t, i)) {
    r->bar[1 + i] += bar * seen_value(s, p, ctrl, i);
    r->bar[1 + t->part_count + i] += bar;
    bar *= r->now[1 + i];
  }

  // on to the states, and by the time between them
  double rate = t->formula ? formula_pull(s, p, ctrl, bar, ctrl_bar)
                           : pbPart_Pull(&t->parts[i], p, t, see(s, p, t, ctrl), p->target, bar, bars_at(s, p, t, ctrl_bar));
  if (p->rate != 0) r->bar[0] += rate * p->rate;
}

// What a direction does to a number of a term's reading.
static double reading_tangent(const pbTerm *t, const pbObservedTangent *tangent, int which) {
  const pbVariable *v = tangent->reading;
  bool moves = v && v->index[tangent->entry] == (size_t)which && strcmp(v->term, t->name) == 0;
  return moves ? tangent->size : 0;
}

static double component_push(const pbTermSet *s, const pbMoment *p, const double *ctrl, const pbObservedTangent *tangent, int i) {
  const pbTerm *t = p->term;
  double fraction = p->rate != 0 ? p->rate * reading_tangent(t, tangent, 0) : 0;
  double moved = t->formula
                     ? formula_push(s, p, tangent, fraction)
                     : pbPart_Push(&t->parts[i], p, t, see(s, p, t, ctrl), p->target, tangents_at(s, p, t, tangent), fraction);

  if (t->reading && !is_rotation(t, i)) {
    // the gain's own move, then the bias'
    moved *= reading_at(t, 1 + i);
    double gain = reading_tangent(t, tangent, 1 + i);
    if (gain != 0) moved += gain * seen_value(s, p, ctrl, i);
    moved += reading_tangent(t, tangent, 1 + t->part_count + i);
  }

  return t->sigma ? moved / t->sigma[i] : moved;
}

double pbTerm_Reading(const pbTermSet *s, const pbTerm *t, int k, int i, const double *ctrl, double *recorded) {
  const pbMoment p = pbTerm_Moment(s, t, k, 0);
  double deviation = component(s, &p, ctrl, i) * (t->sigma ? t->sigma[i] : 1);

  // A rotation is told by its deviation.
  if (is_rotation(t, i)) {
    *recorded = is_missing(&p, i) ? NAN : 0;
    return deviation;
  }

  *recorded = p.target[t->parts[i].target];
  double seen = seen_value(s, &p, ctrl, i);

  return t->reading ? reading_at(t, 1 + i) * seen + reading_at(t, 1 + t->part_count + i) : seen;
}

// ---- value ----------------------------------------------------------------------------------------------------------
// Of a deviation what a one-sided term counts; its slope is 0 or 1. At the target itself both are 0.
double pbTerm_Violation(const pbTerm *t, double d) {
  if (t->type == pb_termAbove) return d < 0 ? d : 0;
  if (t->type == pb_termBelow) return d > 0 ? d : 0;
  return d;
}

// The deviation that counts in the loss: of a constraint it is shifted.
static double weighed(const pbTermSet *s, const pbMoment *p, const double *ctrl, int i) {
  const pbTerm *t = p->term;
  double d = component(s, p, ctrl, i);
  return t->constraint ? d + t->constraint->shift[p->k * t->part_count + i] : d;
}

// What a constraint that is met would add by its shift.
static double multiplied(const pbMoment *p, int i) {
  const pbTerm *t = p->term;
  double shift = t->constraint ? t->constraint->shift[p->k * t->part_count + i] : 0;
  return shift * shift;
}

// Loss of one deviation, and its slope.
static double entry_loss(const pbTerm *t, double d, double norm, double *slope) {
  double v = pbTerm_Violation(t, d);
  switch (t->type) {
    case pb_termNorm: *slope = d / norm; return 0;  // the value is added once per state
    case pb_termHuber:
      // Quadratic up to delta, linear beyond it.
      *slope = fabs(d) <= t->delta ? 2 * d : 2 * copysign(t->delta, d);
      return fabs(d) <= t->delta ? d * d : t->delta * (2 * fabs(d) - t->delta);
    case pb_termLinear: *slope = 1; return d;
    default: *slope = 2 * v; return v * v;
  }
}

static double term_at(const pbTermSet *s, pbTerm *t, const pbMoment *p, const double *ctrl, bool pull, double *ctrl_bar) {
  double squares = 0, value = 0;

  // All components first: of a norm every slope needs the sum.
  for (int i = 0; i < t->part_count; i++) {
    double d = is_missing(p, i) ? 0 : pbTerm_Violation(t, component(s, p, ctrl, i));
    squares += d * d;
  }

  // The largest deviation of any state is what stop criteria compare; epsilon rounds off the kink of the norm at zero.
  double norm = sqrt(squares + t->epsilon * t->epsilon);
  t->deviation = squares <= t->deviation * t->deviation ? t->deviation : sqrt(squares);
  if (t->constraint) t->constraint->plain += p->weight / t->constraint->stiffness * squares;
  for (int i = 0; i < t->part_count; i++) {
    double slope;
    if (is_missing(p, i)) continue;
    value += entry_loss(t, weighed(s, p, ctrl, i), norm, &slope) - multiplied(p, i);
    PB_MUTE(pb_muteTerm, t->type, &slope, 1);
    if (pull && slope != 0) component_pull(s, p, ctrl, i, p->weight * slope, ctrl_bar);
  }

  return p->weight * (t->type == pb_termNorm ? norm : value);
}

static void clear_bars(pbTermSet *s) {
  double *bars[] = {s->bar_q,        s->bar_v,    s->bar_a,      s->bar_sensor,
                    s->bar_xpos,     s->bar_site, s->bar_points, s->bar_point_velocity,
                    s->bar_decision, s->bar_last};
  int widths[] = {s->nv, s->nv, s->na, s->ns, 3 * s->nbody, 3 * s->nsite, s->np, s->np, s->nheld, s->nheld};

  for (int i = 0; i < 10; i++) {
    if (bars[i]) memset(bars[i], 0, (size_t)s->row_count * (size_t)widths[i] * sizeof(double));
  }
  if (s->timestep_bar) *s->timestep_bar = 0;
  for (int i = 0; i < s->count; i++) {
    const pbReading *r = s->terms[i].reading;
    if (r) memset(r->bar, 0, (1 + 2 * (size_t)s->terms[i].part_count) * sizeof *r->bar);
  }
}

double pbTermSet_Value(pbTermSet *s, const double *ctrl, bool pull, double *ctrl_bar) {
  double sum = 0;
  s->fault[0] = 0;
  if (pull) clear_bars(s);
  for (int i = 0; i < s->count; i++) {
    pbTerm *t = &s->terms[i];
    t->value = 0;
    t->deviation = 0;
    if (t->constraint) t->constraint->plain = 0;
    pbMoment p = {.row = 0};
    if (t->formula && !evaluate_formula(s, t, ctrl, pull)) return NAN;

    // A function of the host is given all states at once.
    if (t->hosted && !pbHosted_Value(s, t, ctrl, pull, ctrl_bar)) return NAN;
    int states = t->hosted ? 0 : t->step_count;
    for (int k = 0; k < states; k++) {
      p = pbTerm_Moment(s, t, k, p.row);
      t->value += term_at(s, t, &p, ctrl, pull, ctrl_bar);
    }

    sum += t->value;
  }

  return sum;
}

// The norm that all components at a moment have together.
static double norm_at(const pbTermSet *s, const pbMoment *p, const double *ctrl) {
  const pbTerm *t = p->term;
  double squares = t->epsilon * t->epsilon;
  for (int i = 0; i < t->part_count; i++) {
    double d = is_missing(p, i) ? 0 : component(s, p, ctrl, i);
    squares += d * d;
  }

  return sqrt(squares);
}

// ---- how slopes change along a tangent --------------------------------------------------------------------------------
static bool sees_rotation(const pbTerm *t) {
  for (int j = 0; j < t->part_count; j++) {
    if (is_rotation(t, j)) return true;
  }

  return false;
}

const char *pbTermSet_NoSecond(const pbTermSet *s, const pbTerm **which) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = *which = &s->terms[i];
    if (t->hosted) return "a function of the host has";
    if (!t->reading || !t->reading->time) continue;

    // at times of its own
    bool rotates = sees_rotation(t);
    int inputs = t->formula ? t->formula->input_count : 0;
    for (int j = 0; j < inputs; j++) rotates |= sees_rotation(&t->formula->inputs[j]);
    if (rotates) return "rotations between two states have";
  }

  return NULL;
}

// Of an entry's loss, where deviations move by `by`; along: of the norm, sum d by.
static double slope_tangent(const pbTerm *t, double d, double by, double norm, double along) {
  switch (t->type) {
    case pb_termNorm: return by / norm - d * along / (norm * norm * norm);
    case pb_termHuber: return fabs(d) <= t->delta ? 2 * by : 0;
    case pb_termLinear: return 0;
    default: return pbTerm_Violation(t, d) != 0 || t->type == pb_termSquared ? 2 * by : 0;
  }
}

// How what a formula says of its inputs changes: the formula's own second derivatives.
static void formula_pull_tangent(const pbTermSet *s, const pbMoment *p, const double *ctrl, const pbObservedTangent *tangent,
                                 double bar, double *ctrl_bar) {
  const pbFormula *f = p->term->formula;
  double by[PB_EXPRESSION_NUMBERS + 3] = {0}, change[PB_EXPRESSION_NUMBERS + 3], *next = by;

  // how the inputs move; the time stands
  for (int i = 0; i < f->input_count; i++) {
    const pbTerm *input = &f->inputs[i];
    pbSeen seen = see(s, p, input, ctrl), moves = tangents_at(s, p, input, tangent);
    for (int c = 0; c < input->part_count; c++) *next++ = pbPart_Push(&input->parts[c], p, input, seen, input->target, moves, 0);
  }

  // it had a value here, and has one still
  if (!pbExpression_Second(f->expression, f->in + (size_t)p->k * (size_t)f->width, by, change)) return;
  const double *second = change, *slope = f->slope + (size_t)p->k * (size_t)f->width;
  for (int i = 0; i < f->input_count; i++) {
    const pbTerm *input = &f->inputs[i];
    pbSeen seen = see(s, p, input, ctrl), moves = tangents_at(s, p, input, tangent);
    pbSeenBar to = bars_at(s, p, input, ctrl_bar);
    for (int c = 0; c < input->part_count; c++, slope++) {
      pbPart_Pull(&input->parts[c], p, input, seen, input->target, bar * *second++, to);
      if (is_rotation(input, c)) pbPart_PullTangent(&input->parts[c], p, seen, input->target, bar * *slope, moves, to);
    }
  }
}

// component_pull where what is observed moves, with the same bar: of all but formulas and rotations it stays what it is.
static void component_pull_tangent(const pbTermSet *s, const pbMoment *p, const double *ctrl, const pbObservedTangent *tangent,
                                   int i, double bar, double *ctrl_bar) {
  const pbTerm *t = p->term;
  if (t->sigma) bar /= t->sigma[i];
  if (t->reading && !is_rotation(t, i)) bar *= reading_at(t, 1 + i);

  // of what is linear in states nothing changes
  if (t->formula) formula_pull_tangent(s, p, ctrl, tangent, bar, ctrl_bar);
  else if (is_rotation(t, i))
    pbPart_PullTangent(&t->parts[i], p, see(s, p, t, ctrl), p->target, bar, tangents_at(s, p, t, tangent),
                       bars_at(s, p, t, ctrl_bar));
}

static void pull_tangent_at(const pbTermSet *s, const pbMoment *p, const double *ctrl, const pbObservedTangent *tangent,
                            double *ctrl_bar) {
  const pbTerm *t = p->term;
  double norm = t->type == pb_termNorm ? norm_at(s, p, ctrl) : 1, along = 0;
  int counted = t->type == pb_termNorm ? t->part_count : 0;
  for (int i = 0; i < counted; i++)
    along += is_missing(p, i) ? 0 : component(s, p, ctrl, i) * component_push(s, p, ctrl, tangent, i);

  for (int i = 0; i < t->part_count; i++) {
    if (is_missing(p, i)) continue;

    // the slope moves, and so does what it is of
    double slope, d = weighed(s, p, ctrl, i);
    entry_loss(t, d, norm, &slope);
    double moved = slope_tangent(t, d, component_push(s, p, ctrl, tangent, i), norm, along);
    PB_MUTE(pb_muteTerm, t->type, &moved, 1);
    if (moved != 0) component_pull(s, p, ctrl, i, p->weight * moved, ctrl_bar);
    if (slope != 0) component_pull_tangent(s, p, ctrl, tangent, i, p->weight * slope, ctrl_bar);
  }
}

void pbTermSet_PullTangent(pbTermSet *s, const double *ctrl, const pbObservedTangent *tangent, double *ctrl_bar) {
  clear_bars(s);
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    pbMoment p = {.row = 0};
    PB_ASSERT(!t->hosted);
    for (int k = 0; k < t->step_count; k++) {
      p = pbTerm_Moment(s, t, k, p.row);
      pull_tangent_at(s, &p, ctrl, tangent, ctrl_bar);
    }
  }
}

// ---- residuals: what the loss is the sum of squares of, sqrt(weight) times each deviation -------------------------------
// Of huber's loss beyond delta they are as large as its root: the value stays what it is, and what is far off counts less.
static bool is_squares(const pbTerm *t) { return t->type != pb_termNorm && t->type != pb_termLinear && t->weight >= 0; }

// One for a weight of one, and its slope by the deviation. Of a one-sided term what counts has the slope 1, the rest 0.
static double residual_of(const pbTerm *t, double d, double *slope) {
  double v = pbTerm_Violation(t, d);
  bool one_sided = t->type == pb_termAbove || t->type == pb_termBelow;
  *slope = one_sided && v == 0 ? 0 : 1;
  if (t->type != pb_termHuber || fabs(d) <= t->delta) return v;

  // the root of delta (2 |d| - delta), with the deviation's sign
  double root = sqrt(t->delta * (2 * fabs(d) - t->delta));
  *slope = t->delta / root;
  return copysign(root, d);
}

const pbTerm *pbTermSet_NoSquares(const pbTermSet *s) {
  for (int i = 0; i < s->count; i++) {
    if (!is_squares(&s->terms[i])) return &s->terms[i];
  }

  return NULL;
}

bool pbTermSet_NotNegative(const pbTermSet *s) {
  for (int i = 0; i < s->count; i++) {
    if (s->terms[i].type == pb_termLinear || s->terms[i].weight < 0 || s->terms[i].constraint) return false;
  }

  return true;
}

// Components at one time that are not missing.
int pbTerm_SamplesAt(const pbTerm *t, int k) {
  const pbMoment p = {.term = t, .target = t->target + (size_t)(t->target_rows > 1 ? k : 0) * (size_t)t->target_width};
  int count = 0;
  for (int i = 0; i < t->part_count; i++) count += !is_missing(&p, i);
  return count;
}

size_t pbTerm_Samples(const pbTerm *t) {
  size_t count = 0;
  for (int k = 0; k < t->step_count; k++) count += t->hosted ? 1 : (size_t)pbTerm_SamplesAt(t, k);
  return count;
}

int pbTerm_TimesSampled(const pbTerm *t) {
  int count = 0;
  for (int k = 0; k < t->step_count; k++) count += pbTerm_SamplesAt(t, k) > 0;
  return count;
}

size_t pbTermSet_Samples(const pbTermSet *s) {
  size_t m = 0;
  for (int i = 0; i < s->count; i++) m += pbTerm_Samples(&s->terms[i]);
  return m;
}

size_t pbTermSet_Residuals(const pbTermSet *s) { return pbTermSet_NoSquares(s) ? 0 : pbTermSet_Samples(s); }

void pbTermSet_Write(const pbTermSet *s, const double *ctrl, bool bare, double *r) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    pbMoment p = {.row = 0};

    // In the order of pbTermSet_PullResidual.
    for (int k = 0; k < t->step_count; k++) {
      p = pbTerm_Moment(s, t, k, p.row);
      for (int j = 0; j < t->part_count; j++) {
        if (is_missing(&p, j)) continue;
        double slope;
        *r++ = bare ? component(s, &p, ctrl, j) : sqrt(p.weight) * residual_of(t, weighed(s, &p, ctrl, j), &slope);
      }
    }
  }
}

static double residual_slope(const pbTermSet *s, const pbMoment *p, const double *ctrl, int i) {
  double slope = 1;
  if (p->term->type != pb_termSquared) residual_of(p->term, weighed(s, p, ctrl, i), &slope);
  return slope * sqrt(p->weight);
}

void pbTermSet_Push(const pbTermSet *s, const double *ctrl, const pbObservedTangent *tangent, bool bare, double *J, size_t stride,
                    size_t column) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    pbMoment p = {.row = 0};

    for (int k = 0; k < t->step_count; k++) {
      p = pbTerm_Moment(s, t, k, p.row);
      for (int j = 0; j < t->part_count; j++) {
        if (is_missing(&p, j)) continue;
        double slope = bare ? 1 : residual_slope(s, &p, ctrl, j);
        J[column] = slope == 0 ? 0 : slope * component_push(s, &p, ctrl, tangent, j);
        J += stride;
      }
    }
  }
}

bool pbTerm_DeviationAt(const pbTermSet *s, const pbTerm *t, int k, int row, int i, const double *ctrl, double *deviation) {
  const pbMoment p = pbTerm_Moment(s, t, k, row);
  if (is_missing(&p, i)) return false;

  *deviation = component(s, &p, ctrl, i);
  return true;
}

// Of a loss w |d| the parabola w (|d|^2 / n + n) / 2 touches it where |d| is n.
bool pbTerm_ModelAt(const pbTermSet *s, const pbTerm *t, int k, int row, int i, const double *ctrl, double *ctrl_bar,
                    pbTermModel *model) {
  pbMoment p = pbTerm_Moment(s, t, k, row);
  if (is_missing(&p, i)) return false;

  double d = weighed(s, &p, ctrl, i), slope;

  // all components of a moment share its norm
  double norm = t->type == pb_termNorm ? norm_at(s, &p, ctrl) : 1;
  model->linear = !is_squares(t) && !(t->type == pb_termNorm && p.weight > 0 && norm > 0);
  if (is_squares(t)) {
    model->r = residual_of(t, d, &slope) * sqrt(p.weight);
    slope *= sqrt(p.weight);
  } else if (!model->linear) {
    // half of what the parabola is of
    slope = sqrt(p.weight / (2 * norm));
    model->r = slope * d;
  } else {
    entry_loss(t, d, norm > 0 ? norm : 1, &slope);
    model->r = p.weight * slope / 2;
    slope = slope != 0;
  }

  if (slope != 0) component_pull(s, &p, ctrl, i, slope, ctrl_bar);
  return true;
}

// Residuals are numbered by term, time, component.
void pbTermSet_PullResidual(pbTermSet *s, const double *ctrl, size_t which, bool bare, double *ctrl_bar) {
  clear_bars(s);
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    size_t mine = pbTerm_Samples(t);
    if (which >= mine) {
      which -= mine;
      continue;
    }

    pbMoment p = {.row = 0};
    for (int k = 0; k < t->step_count; k++) {
      p = pbTerm_Moment(s, t, k, p.row);
      for (int j = 0; j < t->part_count; j++) {
        if (is_missing(&p, j) || which-- > 0) continue;
        component_pull(s, &p, ctrl, j, bare ? 1 : residual_slope(s, &p, ctrl, j), ctrl_bar);
        return;
      }
    }
  }
}

// Derivative of the value along what a direction does to delays, gains and biases.
static double along_readings(const pbTermSet *s, const pbObservedTangent *t) {
  double sum = 0;
  int terms = t->reading ? s->count : 0;
  for (int i = 0; i < terms; i++) {
    const pbTerm *term = &s->terms[i];
    int which = (int)t->reading->index[t->entry];
    if (term->reading) sum += term->reading->bar[which] * reading_tangent(term, t, which);
  }

  return sum;
}

static double dot(const double *a, const double *b, size_t n) {
  if (!a || !b) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

double pbTermSet_Along(const pbTermSet *s, const pbObservedTangent *t, const double *ctrl_bar) {
  size_t nv = (size_t)s->nv, na = (size_t)s->na, np = (size_t)s->np, rows = (size_t)s->row_count;
  double sum = dot(ctrl_bar, t->ctrl, (size_t)s->steps * (size_t)s->nu);

  // Entries of the state, in the order of its tangent space.
  size_t states = t->x ? rows : 0;
  for (size_t k = 0; k < states; k++) {
    const double *x = t->x + k * (size_t)s->n;
    const double *points = x + 2 * nv + na;
    if (s->bar_q) sum += dot(s->bar_q + k * nv, x, nv);
    if (s->bar_v) sum += dot(s->bar_v + k * nv, x + nv, nv);
    if (s->bar_a) sum += dot(s->bar_a + k * na, x + 2 * nv, na);
    if (s->bar_points) sum += dot(s->bar_points + k * np, points, np);
    if (s->bar_point_velocity) sum += dot(s->bar_point_velocity + k * np, points + np, np);
  }

  if (s->timestep_bar) sum += *s->timestep_bar * t->timestep;
  return sum + along_readings(s, t) + dot(s->bar_sensor, t->sensordata, rows * (size_t)s->ns) +
         dot(s->bar_xpos, t->xpos, rows * 3 * (size_t)s->nbody) + dot(s->bar_site, t->site_xpos, rows * 3 * (size_t)s->nsite);
}
