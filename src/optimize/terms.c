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
#include "optimize/task.h"

void pbTermSet_Begin(pbTermSet *set, pbContext *ctx, const pbModel *m, int steps) {
  PB_ASSERT(steps >= 0);
  *set = (pbTermSet){.ctx = ctx,
                     .model = m,
                     .steps = steps,
                     .nx = pbModel_StateSize(m),
                     .n = pbModel_TangentSize(m),
                     .nv = m->nv,
                     .na = m->na,
                     .nu = pb_controls(m),
                     .ns = m->nsensordata,
                     .nbody = m->nbody,
                     .nsite = m->nsite,
                     .np = 3 * pbModel_PointCount(m)};

  // Where the observed fields begin in a state.
  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    if (strcmp(f.name, "qpos") == 0) set->qpos_at = f.offset;
    if (strcmp(f.name, "qvel") == 0) set->qvel_at = f.offset;
    if (strcmp(f.name, "act") == 0) set->act_at = f.offset;
    if (strcmp(f.name, "points") == 0) set->points_at = f.offset;
  }
}

static void free_formula(pbContext *ctx, pbFormula *f);

static void free_term(pbContext *ctx, pbTerm *t) {
  free_formula(ctx, t->formula);
  pbHosted_Free(ctx, t->hosted);
  void *all[] = {t->name, t->parts, t->steps, t->target, t->factor};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

static void free_formula(pbContext *ctx, pbFormula *f) {
  if (!f) return;
  for (int i = 0; i < f->input_count; i++) free_term(ctx, &f->inputs[i]);
  pbExpression_Destroy(f->expression);

  void *all[] = {f->inputs, f->in, f->value, f->slope, f};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(ctx, all[i]);
}

void pbTermSet_Free(pbTermSet *set) {
  if (set->terms) {
    for (int i = 0; i < set->count; i++) free_term(set->ctx, &set->terms[i]);
  }

  // Rows, what Forward wrote, cotangents.
  void *all[] = {
      set->terms, set->rows,  set->states,     set->sensordata, set->xpos,     set->site_xpos,  set->bar_q,
      set->bar_v, set->bar_a, set->bar_sensor, set->bar_xpos,   set->bar_site, set->bar_points, set->bar_point_velocity};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(set->ctx, all[i]);
  *set = (pbTermSet){0};
}

static pbStatus allocate_rows(const pbTermSet *set, bool wanted, int width, double **data) {
  if (!wanted) return pb_ok;

  *data = pbContext_AllocArray(set->ctx, (size_t)set->row_count * (size_t)width + 1, sizeof(double));
  if (*data) return pb_ok;
  return pbContext_Fail(set->ctx, pb_no_memory, "no memory for what the loss observes (%d states)", set->row_count);
}

static void note_uses(pbTermSet *set, const pbTerm *t) {
  const pbFormula *f = t->formula;
  for (int q = 0; q < pb_quantityCount; q++) set->uses[q] |= t->hosted && t->hosted->sees[q];
  if (!f) {
    if (!t->hosted) set->uses[t->quantity] = true;
    return;
  }

  for (int i = 0; i < f->input_count; i++) {
    PB_ASSERT(f->inputs[i].quantity < pb_quantityCount && f->inputs[i].part_count <= 3);
    set->uses[f->inputs[i].quantity] = true;
  }
}

// The states that any term observes, ascending.
static pbStatus collect_rows(pbTermSet *set) {
  char *mark = pbContext_Alloc(set->ctx, (size_t)set->steps + 1);
  if (!mark) return pbContext_Fail(set->ctx, pb_no_memory, "no memory for the loss");

  for (int i = 0; i < set->count; i++) {
    const pbTerm *t = &set->terms[i];
    PB_ASSERT(pb_ascending(t->steps, t->step_count) && pb_allWithin(t->steps, t->step_count, 0, set->steps + 1));
    note_uses(set, t);
    for (int k = 0; k < t->step_count; k++) mark[t->steps[k]] = 1;
  }

  // Count them, then list them.
  for (int k = 0; k <= set->steps; k++) set->row_count += mark[k];
  set->rows = pbContext_AllocArray(set->ctx, (size_t)set->row_count + 1, sizeof(int));
  if (set->rows) {
    int at = 0;
    for (int k = 0; k <= set->steps; k++) {
      if (mark[k]) set->rows[at++] = k;
    }
  }
  pbContext_Free(set->ctx, mark);

  return set->rows ? pb_ok : pbContext_Fail(set->ctx, pb_no_memory, "no memory for the loss");
}

pbStatus pbTermSet_Finish(pbTermSet *set) {
  PB_TRY(collect_rows(set));
  const bool *u = set->uses;

  // What Forward writes.
  bool positions = u[pb_observedQpos] || u[pb_observedPoints];
  bool velocities = u[pb_observedQvel] || u[pb_observedPointVelocity];
  PB_TRY(allocate_rows(set, positions || velocities || u[pb_observedAct], set->nx, &set->states));
  PB_TRY(allocate_rows(set, u[pb_observedSensor], set->ns, &set->sensordata));
  PB_TRY(allocate_rows(set, u[pb_observedBody], 3 * set->nbody, &set->xpos));
  PB_TRY(allocate_rows(set, u[pb_observedSite], 3 * set->nsite, &set->site_xpos));

  // The cotangents of it.
  PB_TRY(allocate_rows(set, u[pb_observedQpos], set->nv, &set->bar_q));
  PB_TRY(allocate_rows(set, u[pb_observedQvel], set->nv, &set->bar_v));
  PB_TRY(allocate_rows(set, u[pb_observedAct], set->na, &set->bar_a));
  PB_TRY(allocate_rows(set, u[pb_observedSensor], set->ns, &set->bar_sensor));
  PB_TRY(allocate_rows(set, u[pb_observedBody], 3 * set->nbody, &set->bar_xpos));
  PB_TRY(allocate_rows(set, u[pb_observedPoints], set->np, &set->bar_points));
  PB_TRY(allocate_rows(set, u[pb_observedPointVelocity], set->np, &set->bar_point_velocity));

  return allocate_rows(set, u[pb_observedSite], 3 * set->nsite, &set->bar_site);
}

pbRolloutOutput pbTermSet_Output(const pbTermSet *set) {
  return (pbRolloutOutput){.states = set->states,
                           .sensordata = set->sensordata,
                           .xpos = set->xpos,
                           .site_xpos = set->site_xpos,
                           .rows = set->rows,
                           .row_count = set->row_count};
}

pbRolloutBar pbTermSet_Bar(const pbTermSet *s) {
  int count = s->row_count;
  const int *rows = s->rows;

  return (pbRolloutBar){{s->bar_q, count, rows},
                        {s->bar_v, count, rows},
                        {s->bar_a, count, rows},
                        {s->bar_sensor, count, rows},
                        {s->bar_xpos, count, rows},
                        {s->bar_site, count, rows},
                        {s->bar_points, count, rows},
                        {s->bar_point_velocity, count, rows},
                        {NULL, 0, NULL}};
}

// ---- rotations ------------------------------------------------------------------------------------------------------
// w with q = from exp(w): the rotation from one orientation to another, in the frame of the first (and, along w, of the second).
static void rotation_between(const double *from, const double *q, double *w) {
  // conj(from) q = (cosine, sine axis) of half the angle.
  double cosine = from[0] * q[0] + from[1] * q[1] + from[2] * q[2] + from[3] * q[3];
  double axis[3] = {from[0] * q[1] - from[1] * q[0] - from[2] * q[3] + from[3] * q[2],
                    from[0] * q[2] + from[1] * q[3] - from[2] * q[0] - from[3] * q[1],
                    from[0] * q[3] - from[1] * q[2] + from[2] * q[1] - from[3] * q[0]};
  double sine = sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);

  // Near zero angle / sine is 2. q and -q are the same rotation, of which the shorter way is taken.
  double sign = cosine < 0 ? -1 : 1, scale = sign * (sine > 1e-300 ? 2 * pbAtan2(sine, fabs(cosine)) / sine : 2);
  for (int i = 0; i < 3; i++) w[i] = scale * axis[i];
}

// dw for q moved by d in its own frame: dw = (1 + [w]/2 + k [w]^2) d, k = 1/a^2 - cot(a/2) / 2a, a = |w| (inverse right
// Jacobian of the exponential). Row `axis` of that matrix.
static void rotation_row(const double *w, int axis, double *row) {
  double aa = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], a = sqrt(aa);
  // Near zero by the series of k, whose closed form cancels.
  double k = a < 1e-3 ? 1.0 / 12 + aa / 720 : 1 / aa - 0.5 * pbCos(0.5 * a) / (a * pbSin(0.5 * a));

  // [w] as a matrix.
  const double W[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};

  for (int j = 0; j < 3; j++) {
    double square = w[axis] * w[j] - (axis == j ? aa : 0);
    row[j] = (axis == j) + 0.5 * W[3 * axis + j] + k * square;
  }
}

// ---- one component --------------------------------------------------------------------------------------------------
typedef struct TermState {  // a state that a term observes
  const pbTerm *term;
  int k, row, step;  // which of the term's, row in set->rows, number of the state
  double weight;
  const double *target;
} TermState;

// The last state has the controls of the last step.
static size_t control_offset(const pbTermSet *s, int step) {
  int last = s->steps > 0 ? s->steps - 1 : 0;
  return (size_t)(step < last ? step : last) * (size_t)s->nu;
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
    default: return ctrl ? ctrl + control_offset(s, step) : NULL;
  }
}

static const double *observed_row(const pbTermSet *s, const TermState *p, const double *ctrl) {
  return pbTermSet_Observed(s, p->term->quantity, p->row, p->step, ctrl);
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
    default: return ctrl_bar ? ctrl_bar + control_offset(s, step) : NULL;
  }
}

static double *bar_row(const pbTermSet *s, const TermState *p, double *ctrl_bar) {
  return pbTermSet_BarRow(s, p->term->quantity, p->row, p->step, ctrl_bar);
}

static const double *tangent_row(const pbTermSet *s, const TermState *p, const pbObservedTangent *t) {
  size_t row = (size_t)p->row;

  // Where the quantity begins in the tangent space of the state.
  switch (p->term->quantity) {
    case pb_observedQpos: return t->x + row * (size_t)s->n;
    case pb_observedQvel: return t->x + row * (size_t)s->n + s->nv;
    case pb_observedAct: return t->x + row * (size_t)s->n + 2 * s->nv;
    case pb_observedSensor: return t->sensordata + row * (size_t)s->ns;
    case pb_observedBody: return t->xpos + row * 3 * (size_t)s->nbody;
    case pb_observedSite: return t->site_xpos + row * 3 * (size_t)s->nsite;
    case pb_observedPoints: return t->x + row * (size_t)s->n + 2 * s->nv + s->na;
    case pb_observedPointVelocity: return t->x + row * (size_t)s->n + 2 * s->nv + s->na + s->np;
    default: return t->ctrl ? t->ctrl + control_offset(s, p->step) : NULL;
  }
}

// The component itself; controls that are not given are zero.
static double deviation(const pbPart *part, const pbTerm *term, const double *observed, const double *target) {
  if (!observed) return -target[part->target];

  // A coordinate is compared as it is, a rotation by its rotation vector.
  if (part->axis < 0) return observed[term->quantity == pb_observedQpos ? part->coord : part->index] - target[part->target];

  double w[3];
  rotation_between(target + part->target, observed + part->coord, w);

  return w[part->axis];
}

static void deviation_pull(const pbPart *part, const double *observed, const double *target, double bar, double *out) {
  if (!out || bar == 0) return;
  if (part->axis < 0) {
    out[part->index] += bar;
    return;
  }

  // The rotation's cotangent is in the body's frame, as the state's tangent is.
  double w[3], row[3];
  rotation_between(target + part->target, observed + part->coord, w);
  rotation_row(w, part->axis, row);
  for (int j = 0; j < 3; j++) out[part->index - part->axis + j] += bar * row[j];
}

static double deviation_push(const pbPart *part, const double *observed, const double *target, const double *tangent) {
  if (!tangent) return 0;
  if (part->axis < 0) return tangent[part->index];

  // As deviation_pull.
  double w[3], row[3];
  rotation_between(target + part->target, observed + part->coord, w);
  rotation_row(w, part->axis, row);
  const double *d = tangent + part->index - part->axis;

  return row[0] * d[0] + row[1] * d[1] + row[2] * d[2];
}

// The k-th state that a term observes. Steps and rows ascend, so the search starts where the last one ended.
static TermState find_state(const pbTermSet *s, const pbTerm *t, int k, int row) {
  PB_ASSERT(k >= 0 && k < t->step_count);
  while (s->rows[row] < t->steps[k]) row++;

  double weight = t->factor ? t->weight * t->factor[k] : t->weight;
  return (TermState){t, k, row, t->steps[k], weight, t->target + (size_t)(t->target_rows > 1 ? k : 0) * (size_t)t->target_width};
}

// ---- formulas -------------------------------------------------------------------------------------------------------
// The state as an input of the term's formula observes it.
static TermState input_state(const TermState *p, const pbTerm *input) {
  TermState state = *p;
  state.term = input;
  state.target = input->target;
  return state;
}

static void gather_inputs(const pbTermSet *s, const TermState *p, const double *ctrl, double *in) {
  const pbFormula *f = p->term->formula;
  for (int i = 0; i < f->input_count; i++) {
    TermState state = input_state(p, &f->inputs[i]);
    const double *observed = observed_row(s, &state, ctrl);
    for (int c = 0; c < f->inputs[i].part_count; c++)
      *in++ = deviation(&f->inputs[i].parts[c], &f->inputs[i], observed, state.target);
  }

  *in = p->step * s->timestep;
}

// Values at all states that the term looks at, with slopes if `pull`; false: set->fault says why not.
static bool evaluate_formula(pbTermSet *s, const pbTerm *t, const double *ctrl, bool pull) {
  const pbFormula *f = t->formula;
  pbEnergyFault fault;
  PB_ASSERT(t->part_count == 1 && f->width == pbExpression_Width(f->expression));
  TermState p = {.row = 0};
  for (int k = 0; k < t->step_count; k++) {
    p = find_state(s, t, k, p.row);
    gather_inputs(s, &p, ctrl, f->in + (size_t)k * (size_t)f->width);
  }

  if (pbExpression_Evaluate(f->expression, t->step_count, f->in, f->value, pull ? f->slope : NULL, &fault)) return true;

  int step = t->steps[fault.element < 0 ? 0 : fault.element];
  s->failure = pb_not_finite;
  snprintf(s->fault, sizeof s->fault, "term '%.60s' at time %.9g: %.100s", t->name, step * s->timestep, fault.what);
  return false;
}

// Chain rule: `bar` of the formula's value to what its inputs observe.
static void formula_pull(const pbTermSet *s, const TermState *p, const double *ctrl, double bar, double *ctrl_bar) {
  const pbFormula *f = p->term->formula;
  const double *slope = f->slope + (size_t)p->k * (size_t)f->width;

  for (int i = 0; i < f->input_count; i++) {
    TermState state = input_state(p, &f->inputs[i]);
    const double *observed = observed_row(s, &state, ctrl);
    double *to = bar_row(s, &state, ctrl_bar);
    for (int c = 0; c < f->inputs[i].part_count; c++)
      deviation_pull(&f->inputs[i].parts[c], observed, state.target, bar * *slope++, to);
  }
}

static double formula_push(const pbTermSet *s, const TermState *p, const pbObservedTangent *tangent) {
  const pbFormula *f = p->term->formula;
  const double *slope = f->slope + (size_t)p->k * (size_t)f->width;
  double sum = 0;

  for (int i = 0; i < f->input_count; i++) {
    TermState state = input_state(p, &f->inputs[i]);
    const double *observed = observed_row(s, &state, NULL), *moved = tangent_row(s, &state, tangent);
    for (int c = 0; c < f->inputs[i].part_count; c++)
      sum += *slope++ * deviation_push(&f->inputs[i].parts[c], observed, state.target, moved);
  }

  return sum;
}

// ---- component i of a term, whatever it is -----------------------------------------------------------------------------
static double component(const pbTermSet *s, const TermState *p, const double *ctrl, int i) {
  const pbTerm *t = p->term;
  PB_ASSERT(i >= 0 && i < t->part_count && p->k < t->step_count);
  if (t->formula) return t->formula->value[p->k] - p->target[0];
  return deviation(&t->parts[i], t, observed_row(s, p, ctrl), p->target);
}

static void component_pull(const pbTermSet *s, const TermState *p, const double *ctrl, int i, double bar, double *ctrl_bar) {
  PB_MUTE(pb_muteQuantity, p->term->formula ? pb_observedFormula : p->term->quantity, &bar, 1);
  if (p->term->formula) formula_pull(s, p, ctrl, bar, ctrl_bar);
  else deviation_pull(&p->term->parts[i], observed_row(s, p, ctrl), p->target, bar, bar_row(s, p, ctrl_bar));
}

static double component_push(const pbTermSet *s, const TermState *p, const pbObservedTangent *tangent, int i) {
  if (p->term->formula) return formula_push(s, p, tangent);
  return deviation_push(&p->term->parts[i], observed_row(s, p, NULL), p->target, tangent_row(s, p, tangent));
}

// ---- value ----------------------------------------------------------------------------------------------------------
// Of a deviation what a one-sided term counts; its slope is 0 or 1. At the target itself both are 0.
static double violation(const pbTerm *t, double d) {
  if (t->type == pb_termAbove) return d < 0 ? d : 0;
  if (t->type == pb_termBelow) return d > 0 ? d : 0;
  return d;
}

// Loss of one deviation, and its slope.
static double entry_loss(const pbTerm *t, double d, double norm, double *slope) {
  double v = violation(t, d);
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

static double term_at(const pbTermSet *s, pbTerm *t, const TermState *p, const double *ctrl, bool pull, double *ctrl_bar) {
  double squares = 0, value = 0;

  // All components first: of a norm every slope needs the sum.
  for (int i = 0; i < t->part_count; i++) {
    double d = violation(t, component(s, p, ctrl, i));
    squares += d * d;
  }

  // The largest deviation of any state is what stop criteria compare; epsilon rounds off the kink of the norm at zero.
  double norm = sqrt(squares + t->epsilon * t->epsilon);
  t->deviation = squares <= t->deviation * t->deviation ? t->deviation : sqrt(squares);
  for (int i = 0; i < t->part_count; i++) {
    double slope;
    value += entry_loss(t, component(s, p, ctrl, i), norm, &slope);
    PB_MUTE(pb_muteTerm, t->type, &slope, 1);
    if (pull && slope != 0) component_pull(s, p, ctrl, i, p->weight * slope, ctrl_bar);
  }

  return p->weight * (t->type == pb_termNorm ? norm : value);
}

static void clear_bars(pbTermSet *s) {
  double *bars[] = {s->bar_q, s->bar_v, s->bar_a, s->bar_sensor, s->bar_xpos, s->bar_site, s->bar_points, s->bar_point_velocity};
  int widths[] = {s->nv, s->nv, s->na, s->ns, 3 * s->nbody, 3 * s->nsite, s->np, s->np};

  for (int i = 0; i < 8; i++) {
    if (bars[i]) memset(bars[i], 0, (size_t)s->row_count * (size_t)widths[i] * sizeof(double));
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
    TermState p = {.row = 0};
    if (t->formula && !evaluate_formula(s, t, ctrl, pull)) return NAN;

    // A function of the host is given all states at once.
    if (t->hosted && !pbHosted_Value(s, t, ctrl, pull, ctrl_bar)) return NAN;
    int states = t->hosted ? 0 : t->step_count;
    for (int k = 0; k < states; k++) {
      p = find_state(s, t, k, p.row);
      t->value += term_at(s, t, &p, ctrl, pull, ctrl_bar);
    }

    sum += t->value;
  }

  return sum;
}

// ---- residuals: sqrt(weight) times each deviation of terms that are sums of squares ------------------------------------
static bool is_squares(const pbTerm *t) {
  return (t->type == pb_termSquared || t->type == pb_termAbove || t->type == pb_termBelow) && t->weight >= 0;
}

const pbTerm *pbTermSet_NoSquares(const pbTermSet *s) {
  for (int i = 0; i < s->count; i++) {
    if (!is_squares(&s->terms[i])) return &s->terms[i];
  }

  return NULL;
}

bool pbTermSet_NotNegative(const pbTermSet *s) {
  for (int i = 0; i < s->count; i++) {
    if (s->terms[i].type == pb_termLinear || s->terms[i].weight < 0) return false;
  }

  return true;
}

size_t pbTermSet_Residuals(const pbTermSet *s) {
  size_t m = 0;
  if (pbTermSet_NoSquares(s)) return 0;

  // One for each component at each state.
  for (int i = 0; i < s->count; i++) m += (size_t)s->terms[i].part_count * (size_t)s->terms[i].step_count;

  return m;
}

void pbTermSet_Write(const pbTermSet *s, const double *ctrl, double *r) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    TermState p = {.row = 0};

    // In the order of pbTermSet_PullResidual.
    for (int k = 0; k < t->step_count; k++) {
      p = find_state(s, t, k, p.row);
      for (int j = 0; j < t->part_count; j++) *r++ = sqrt(p.weight) * violation(t, component(s, &p, ctrl, j));
    }
  }
}

// Of a one-sided term what counts has the slope 1, the rest 0.
static double residual_slope(const pbTermSet *s, const TermState *p, const double *ctrl, int i) {
  bool one_sided = p->term->type != pb_termSquared;
  return one_sided && violation(p->term, component(s, p, ctrl, i)) == 0 ? 0 : sqrt(p->weight);
}

void pbTermSet_Push(const pbTermSet *s, const double *ctrl, const pbObservedTangent *tangent, double *J, size_t stride,
                    size_t column) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    TermState p = {.row = 0};

    for (int k = 0; k < t->step_count; k++) {
      p = find_state(s, t, k, p.row);
      for (int j = 0; j < t->part_count; j++) {
        double slope = residual_slope(s, &p, ctrl, j);
        J[column] = slope == 0 ? 0 : slope * component_push(s, &p, tangent, j);
        J += stride;
      }
    }
  }
}

void pbTermSet_PullResidual(pbTermSet *s, const double *ctrl, size_t which, double *ctrl_bar) {
  clear_bars(s);
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    size_t mine = (size_t)t->part_count * (size_t)t->step_count;

    // Residuals are numbered by term, state, component.
    if (which >= mine) {
      which -= mine;
      continue;
    }

    TermState p = find_state(s, t, (int)(which / (size_t)t->part_count), 0);
    int part = (int)(which % (size_t)t->part_count);
    component_pull(s, &p, ctrl, part, residual_slope(s, &p, ctrl, part), ctrl_bar);

    return;
  }
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

  return sum + dot(s->bar_sensor, t->sensordata, rows * (size_t)s->ns) + dot(s->bar_xpos, t->xpos, rows * 3 * (size_t)s->nbody) +
         dot(s->bar_site, t->site_xpos, rows * 3 * (size_t)s->nsite);
}
