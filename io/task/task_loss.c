// The "loss" of a task: terms, the states they observe, and their targets, given in the file or recorded.
// Tests: tests/unit/test_task.c, tests/unit/test_task_terms.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "elementary/elementary.h"
#include "io/task/task_loss.h"
#include "model/joint.h"
#include "model/model.h"
#include "model/policy_data.h"

// Quantities that a term observes, in the order of pbQuantity: their words, and their arrays in files of data.
// clang-format off
#define QUANTITIES(X)                                                                                                     \
  X("qpos", "qpos") X("qvel", "qvel") X("act", "act") X("sensor", "sensordata") X("body", "xpos") X("site", "site_xpos")  \
  X("points", "points") X("point_velocity", "point_velocity") X("control", "control")                                    \
  X("command", "command") X("decision", "decision") X("last_decision", "last_decision")
#define WORD(word, array)  word,
#define ARRAY(word, array) array,
static const char *const quantity_keys[] = {QUANTITIES(WORD) "formula"};
static const char *const array_names[] = {QUANTITIES(ARRAY) "formula"};
static const char *const input_keys[] = {QUANTITIES(WORD) "components", NULL};
static const char *const term_keys[] = {QUANTITIES(WORD) "name", "components", "at", "target", "type", "weight", "mean",
                                        "epsilon", "delta", "discount", "constraint", "tolerance", "formula", "inputs", "sigma",
                                        "delay", "gain", "bias", "schedule",
                                        NULL};
// clang-format on
static const char *const function_keys[] = {"name", "function", "sees", "at", "weight", NULL};
_Static_assert(sizeof quantity_keys / sizeof *quantity_keys == pb_quantityCount + 1, "a word for each quantity, and formulas");

// What a distance from the target costs.
static const struct {
  const char *name;
  pbTermType type;
} term_types[] = {{"squared", pb_termSquared}, {"norm", pb_termNorm},   {"huber", pb_termHuber},
                  {"linear", pb_termLinear},   {"above", pb_termAbove}, {"below", pb_termBelow}};
enum { TERM_TYPES = sizeof term_types / sizeof *term_types };

static int joint_coords(const pbModel *m, int j) { return pbJoint_PositionCount(m->jnt_type[j]); }
static int joint_dofs(const pbModel *m, int j) { return pbJoint_DofCount(m->jnt_type[j]); }

static void add_part(pbTermLayout *l, int index, int coord, int target, int axis) {
  l->parts[l->part_count++] = (pbPart){index, coord, target, axis};
}

// Positions are columns of their own; a quaternion is one target of four columns with three parts, one for each axis of its
// tangent.
static void add_joint_positions(pbTermLayout *l, const pbModel *m, int j) {
  int coords = joint_coords(m, j), dofs = joint_dofs(m, j);
  int first = l->target_width, adr = m->jnt_qposadr[j], dof = m->jnt_dofadr[j];
  int plain = pbJoint_PlainCount(m->jnt_type[j]);

  for (int i = 0; i < coords; i++) l->columns[l->target_width++] = adr + i;
  for (int i = 0; i < plain; i++) add_part(l, dof + i, adr + i, first + i, -1);
  for (int i = plain; i < dofs; i++) add_part(l, dof + i, adr + plain, first + plain, i - plain);
}

static void add_plain(pbTermLayout *l, int from, int count) {
  for (int i = from; i < from + count; i++) {
    l->columns[l->target_width] = i;
    add_part(l, i, i, l->target_width++, -1);
  }
}

typedef struct Kind {
  pbObject object;
  int all, full;
} Kind;
static Kind kind_of(const pbModel *m, pbQuantity q) {
  int held = m->policy ? m->policy->held : 0, commands = m->policy ? m->policy->commands : 0;
  switch (q) {
    case pb_observedCommand: return (Kind){pb_objActuator, 1, commands};
    case pb_observedDecision:
    case pb_observedLast: return (Kind){pb_objActuator, 1, held};
    case pb_observedQpos: return (Kind){pb_objJoint, m->njnt, m->nq};
    case pb_observedQvel: return (Kind){pb_objJoint, m->njnt, m->nv};
    case pb_observedAct: return (Kind){pb_objActuator, m->nu, m->na};
    case pb_observedSensor: return (Kind){pb_objSensor, m->nsensor, m->nsensordata};
    case pb_observedBody: return (Kind){pb_objBody, m->nbody, 3 * m->nbody};
    case pb_observedSite: return (Kind){pb_objSite, m->nsite, 3 * m->nsite};
    case pb_observedPoints:
    case pb_observedPointVelocity: return (Kind){pb_objPoint, pbModel_PointCount(m), 3 * pbModel_PointCount(m)};
    default: return (Kind){pb_objActuator, pb_controls(m), pb_controls(m)};
  }
}

static void add_object(pbTermLayout *l, const pbModel *m, pbQuantity q, int id) {
  switch (q) {
    case pb_observedQpos: add_joint_positions(l, m, id); return;
    case pb_observedQvel: add_plain(l, m->jnt_dofadr[id], joint_dofs(m, id)); return;
    case pb_observedAct: add_plain(l, m->actuator_actadr[id], m->actuator_actadr[id] < 0 ? 0 : m->actuator_actnum[id]); return;
    case pb_observedSensor: add_plain(l, m->sensor_adr[id], m->sensor_dim[id]); return;
    case pb_observedBody:
    case pb_observedPoints:
    case pb_observedPointVelocity:
    case pb_observedSite: add_plain(l, 3 * id, 3); return;
    default: add_plain(l, id, 1); return;
  }
}

// Entries of the sensors and activations that are named, beside the 7 coordinates that any other object has at most.
static size_t extra_room(const pbModel *m, pbQuantity q, const int *ids, int count) {
  size_t room = 0;
  for (int i = 0; i < count; i++) {
    if (q == pb_observedSensor) room += (size_t)m->sensor_dim[ids[i]];
    if (q == pb_observedAct) room += (size_t)m->actuator_actnum[ids[i]];
  }

  return room;
}

static pbStatus read_layout(pbTaskReader *r, const json_t *value, pbQuantity q, pbTermLayout *l) {
  const pbModel *m = r->model;
  Kind kind = kind_of(m, q);
  int *ids = NULL, count;
  if (kind.object == pb_objPoint) PB_TRY(pbTaskReader_Points(r, value, &ids, &count));
  else PB_TRY(pbTaskReader_Ids(r, value, kind.object, kind.all, &ids, &count));

  // at most as many names as there are objects: that bounds the room
  pbStatus status = count > kind.all ? pbTaskReader_Fail(r, pb_bad_input, "more names than the model has") : pb_ok;
  size_t room = (size_t)count * 7 + (size_t)kind.full;
  if (status == pb_ok) room += extra_room(m, q, ids, count);

  if (status == pb_ok) {
    l->parts = pbContext_AllocArray(r->ctx, room + 1, sizeof *l->parts);
    l->columns = pbContext_AllocArray(r->ctx, room + 1, sizeof *l->columns);
    if (!l->parts || !l->columns) status = pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");
  }

  if (status != pb_ok) count = 0;
  for (int i = 0; i < count; i++) add_object(l, m, q, ids[i]);
  l->full_width = kind.full;
  l->array = array_names[q];
  if (status == pb_ok && l->part_count == 0) status = pbTaskReader_Fail(r, pb_bad_input, "this names nothing the model has");

  pbContext_Free(r->ctx, ids);
  return status;
}

// What only a training sees, and of an audit the commands: all of it, without names.
static pbStatus read_given(pbTaskReader *r, const json_t *value, pbQuantity q, pbTermLayout *l) {
  static const char *const none[] = {"the policy observes no commands", "the model has no policy", "the model has no policy"};
  int width = kind_of(r->model, q).full;
  if (!r->learning && !(r->audit && q == pb_observedCommand))
    return pbTaskReader_Fail(r, pb_unsupported, "only terms of a training see it; an audit takes a \"loss\" of its own");
  if (!json_is_true(value)) return pbTaskReader_Fail(r, pb_bad_input, "expected true; \"components\" chooses numbers of it");
  if (width == 0) return pbTaskReader_Fail(r, pb_bad_input, "%s", none[q - pb_observedCommand]);

  l->parts = pbContext_AllocArray(r->ctx, (size_t)width + 1, sizeof *l->parts);
  l->columns = pbContext_AllocArray(r->ctx, (size_t)width + 1, sizeof *l->columns);
  if (!l->parts || !l->columns) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");
  add_plain(l, 0, width);
  l->full_width = width;
  l->array = array_names[q];

  return pb_ok;
}

static bool of_training(pbQuantity q) { return q >= pb_observedCommand && q < pb_quantityCount; }

static pbStatus choose_components(pbTaskReader *r, const json_t *object, pbTermLayout *l) {
  int *chosen = pbContext_AllocArray(r->ctx, (size_t)l->part_count + 1, sizeof *chosen), count = 0;
  pbPart *parts = pbContext_AllocArray(r->ctx, (size_t)l->part_count + 1, sizeof *parts);
  pbStatus status = chosen && parts ? pbTaskReader_Components(r, object, l->part_count, chosen, &count)
                                    : pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");
  if (status == pb_ok && count == 0) status = pbTaskReader_Fail(r, pb_bad_input, "no components");

  if (status == pb_ok) {
    for (int i = 0; i < count; i++) parts[i] = l->parts[chosen[i]];
    memcpy(l->parts, parts, (size_t)count * sizeof *parts);
    l->part_count = count;
  }

  pbContext_Free(r->ctx, chosen);
  pbContext_Free(r->ctx, parts);
  return status;
}

// ---- terms ----------------------------------------------------------------------------------------------------------
static pbStatus unknown_type(pbTaskReader *r, const char *type) {
  pbSuggest near = pbSuggest_For(type);
  char hint[64], words[160] = "";
  size_t n = 0;

  // All of them: "squared, norm, ... or below".
  for (int i = 0; i < TERM_TYPES; i++) {
    const char *before = i == TERM_TYPES - 1 ? " or " : ", ";
    n += (size_t)snprintf(words + n, sizeof words - n, "%s%s", i > 0 ? before : "", term_types[i].name);
    PB_ASSERT(n < sizeof words);
    pbSuggest_Offer(&near, term_types[i].name);
  }

  return pbTaskReader_FailAt(r, "type", "expected %s, found '%.60s'%s", words, type, pbSuggest_Write(&near, hint, sizeof hint));
}

// Weights of the states by their times, where the future counts less.
static pbStatus read_discount(pbTaskReader *r, const json_t *object, pbTerm *t) {
  PB_TRY(pbTaskReader_Real(r, object, "discount", &t->discount));
  if (!(t->discount >= 0 && t->discount < 1e9)) return pbTaskReader_FailAt(r, "discount", "expected a rate in 1/s, at least 0");
  if (t->discount == 0) return pb_ok;

  t->factor = pbContext_AllocArray(r->ctx, (size_t)t->step_count + 1, sizeof *t->factor);
  if (!t->factor) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");

  for (int k = 0; k < t->step_count; k++) t->factor[k] = pbExp(-t->discount * pbTerm_Time(t, k, pbTaskReader_Timestep(r)));
  return pb_ok;
}

// Terms that are to be met: squares, to one side or to both.
static pbStatus read_constraint(pbTaskReader *r, const json_t *object, pbTerm *t) {
  bool constraint = false, one_sided = t->type == pb_termAbove || t->type == pb_termBelow;
  double tolerance = 1e-6;
  PB_TRY(pbTaskReader_Bool(r, object, "constraint", &constraint));
  PB_TRY(pbTaskReader_Real(r, object, "tolerance", &tolerance));
  if (!constraint && json_object_get(object, "tolerance"))
    return pbTaskReader_FailAt(r, "tolerance", "only a constraint has one");
  if (!constraint) return pb_ok;

  if (t->type != pb_termSquared && !one_sided)
    return pbTaskReader_FailAt(r, "constraint", "only terms of type squared, above and below can be constraints");
  if (!(t->weight > 0)) return pbTaskReader_FailAt(r, "constraint", "a constraint begins with a weight, more than 0");
  if (!(tolerance > 0 && tolerance < 1e300)) return pbTaskReader_FailAt(r, "tolerance", "expected a number, more than 0");
  pbStatus status = pbMultipliers_Create(r->ctx, t, tolerance, &t->constraint);

  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

static pbStatus read_type(pbTaskReader *r, const json_t *object, pbTerm *t) {
  const char *type = t->formula ? "linear" : "squared";
  int which = 0;
  t->weight = 1;
  t->epsilon = 1e-8;
  t->delta = 1;

  PB_TRY(pbTaskReader_Text(r, object, "type", &type));
  PB_TRY(pbTaskReader_Real(r, object, "weight", &t->weight));
  PB_TRY(pbTaskReader_Real(r, object, "epsilon", &t->epsilon));
  PB_TRY(pbTaskReader_Real(r, object, "delta", &t->delta));
  PB_TRY(pbTaskReader_Bool(r, object, "mean", &t->mean));

  // by its word
  while (which < TERM_TYPES && strcmp(type, term_types[which].name) != 0) which++;
  if (which == TERM_TYPES) return unknown_type(r, type);
  t->type = term_types[which].type;

  if (!(t->epsilon > 0) || !(t->delta > 0)) return pbTaskReader_Fail(r, pb_bad_input, "epsilon and delta must be positive");

  // the mean over the times that have a sample, not over components
  if (t->mean) t->weight /= pbTerm_TimesSampled(t);
  PB_TRY(read_discount(r, object, t));

  return read_constraint(r, object, t);
}

// formula: one of the quantities may be a formula of others
static pbStatus find_quantity(pbTaskReader *r, const json_t *object, bool formula, pbQuantity *q, const json_t **value) {
  int found = 0;
  for (int i = 0; i < pb_quantityCount + formula; i++) {
    if (!json_object_get(object, quantity_keys[i])) continue;
    *value = json_object_get(object, quantity_keys[i]);
    *q = (pbQuantity)i;
    found++;
  }

  if (found == 1) return pb_ok;
  return pbTaskReader_Fail(r, pb_bad_input,
                           "expected one of qpos, qvel, act, sensor, body, site, points, point_velocity, control, command, "
                           "decision, last_decision%s",
                           formula ? ", formula" : "");
}

static pbStatus copy_name(pbTaskReader *r, const json_t *object, const json_t *value, pbTerm *t) {
  const char *name = NULL;
  char made[128];
  PB_TRY(pbTaskReader_Text(r, object, "name", &name));

  // without a name of its own a term is called by what it observes
  const char *of = json_string_value(value);
  snprintf(made, sizeof made, "%s%s%.100s", quantity_keys[t->quantity], of ? ":" : "", of ? of : "");
  t->name = pbContext_CopyText(r->ctx, name ? name : made);

  return t->name ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");
}

// What a term or an input of a formula observes, and which components of it.
static pbStatus read_parts(pbTaskReader *r, const json_t *object, const json_t *value, pbTerm *t, pbTermLayout *l) {
  pbTaskReader_Enter(r, quantity_keys[t->quantity]);
  PB_TRY(of_training(t->quantity) ? read_given(r, value, t->quantity, l) : read_layout(r, value, t->quantity, l));
  pbTaskReader_Leave(r);

  // the term owns its parts from here
  PB_TRY(choose_components(r, object, l));
  t->part_count = l->part_count;
  t->parts = l->parts;
  l->parts = NULL;

  return pb_ok;
}

static pbStatus read_input(pbTaskReader *r, const json_t *object, pbTerm *input) {
  const json_t *value = NULL;
  pbTermLayout layout = {0};
  PB_TRY(pbTaskReader_Keys(r, object, input_keys));
  PB_TRY(find_quantity(r, object, false, &input->quantity, &value));

  pbStatus status = read_parts(r, object, value, input, &layout);
  input->target_width = layout.target_width;
  pbContext_Free(r->ctx, layout.parts);
  pbContext_Free(r->ctx, layout.columns);
  if (status != pb_ok) return status;

  if (input->part_count > 3)
    return pbTaskReader_Fail(r, pb_bad_input, "%d numbers; an input of a formula has 1 to 3: choose them by \"components\"",
                             input->part_count);

  return pbTask_DefaultTarget(r, input);
}

// The formula itself, of its inputs and the time.
static pbStatus create_expression(pbTaskReader *r, const char *text, const pbTerm *t) {
  pbFormula *f = t->formula;
  size_t states = (size_t)t->step_count;
  pbExpressionInput *inputs = pbContext_AllocArray(r->ctx, (size_t)f->input_count + 1, sizeof *inputs);
  if (!inputs) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a formula");

  for (int i = 0; i < f->input_count; i++) inputs[i] = (pbExpressionInput){f->inputs[i].name, f->inputs[i].part_count};

  // behind them the time
  inputs[f->input_count] = (pbExpressionInput){"t", 1};
  pbStatus status = pbExpression_Create(r->ctx, text, inputs, f->input_count + 1, t->step_count, &f->expression);
  pbContext_Free(r->ctx, inputs);
  if (status != pb_ok) return pbTaskReader_FailAgain(r, status);

  f->width = pbExpression_Width(f->expression);
  if ((double)states * f->width > 3e7)
    return pbTaskReader_Fail(r, pb_capacity, "too many numbers: a formula of %zu states", states);
  f->in = pbContext_AllocArray(r->ctx, states * (size_t)f->width, sizeof(double));
  f->slope = pbContext_AllocArray(r->ctx, states * (size_t)f->width, sizeof(double));
  f->value = pbContext_AllocArray(r->ctx, states, sizeof(double));

  return f->in && f->slope && f->value ? pb_ok : pbTaskReader_Fail(r, pb_no_memory, "no memory for a formula");
}

static pbStatus read_inputs(pbTaskReader *r, const json_t *inputs, pbFormula *f) {
  const char *name;
  json_t *value;
  if (!json_is_object(inputs)) return pbTaskReader_Fail(r, pb_bad_input, "expected an object {name: quantity}");
  if (json_object_size(inputs) > PB_EXPRESSION_NUMBERS)
    return pbTaskReader_Fail(r, pb_bad_input, "more than %d inputs", (int)PB_EXPRESSION_NUMBERS);

  f->inputs = pbContext_AllocArray(r->ctx, json_object_size(inputs) + 1, sizeof *f->inputs);
  if (!f->inputs) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a formula");

  json_object_foreach((json_t *)inputs, name, value) {
    // counted first: what was read of it is freed with the term
    pbTerm *input = &f->inputs[f->input_count++];
    pbTaskReader_Enter(r, name);
    if (strcmp(name, "t") == 0) return pbTaskReader_Fail(r, pb_bad_input, "t is the time in formulas already");
    input->name = pbContext_CopyText(r->ctx, name);
    if (!input->name) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a formula");
    PB_TRY(read_input(r, value, input));
    pbTaskReader_Leave(r);
  }

  return pb_ok;
}

// One component, whatever its inputs have: the deviation of its value from the target.
static pbStatus begin_formula(pbTaskReader *r, const json_t *object, pbTerm *t, pbTermLayout *l) {
  const json_t *inputs = json_object_get(object, "inputs");
  t->formula = pbContext_Alloc(r->ctx, sizeof *t->formula);
  t->parts = pbContext_AllocArray(r->ctx, 1, sizeof *t->parts);
  l->columns = pbContext_AllocArray(r->ctx, 1, sizeof *l->columns);
  if (!t->formula || !t->parts || !l->columns) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a formula");

  // a number with a number as target
  t->parts[0] = (pbPart){0, 0, 0, -1};
  t->part_count = 1;
  l->part_count = 1;
  l->target_width = 1;
  l->full_width = 1;
  l->array = array_names[pb_quantityCount];

  if (json_object_get(object, "components"))
    return pbTaskReader_FailAt(r, "components", "a formula is one number; its inputs have components");
  if (json_is_object(json_object_get(object, "target")))
    return pbTaskReader_FailAt(r, "target", "recordings hold no formulas: expected a number, or one for each time");
  if (!inputs) return pb_ok;

  pbTaskReader_Enter(r, "inputs");
  PB_TRY(read_inputs(r, inputs, t->formula));
  pbTaskReader_Leave(r);

  return pb_ok;
}

static pbStatus finish_formula(pbTaskReader *r, const json_t *object, pbTerm *t) {
  const char *text = NULL;
  PB_TRY(pbTaskReader_Text(r, object, "formula", &text));
  pbTaskReader_Enter(r, "formula");
  PB_TRY(create_expression(r, text, t));
  pbTaskReader_Leave(r);

  return pb_ok;
}

// ---- functions of the host ------------------------------------------------------------------------------------------
static pbStatus see(pbTaskReader *r, const char *name, pbHosted *h) {
  pbSuggest near = pbSuggest_For(name);
  char hint[64];
  for (int q = 0; q <= pb_observedControl; q++) {
    if (strcmp(name, quantity_keys[q]) == 0) {
      h->sees[q] = true;
      return pb_ok;
    }
    pbSuggest_Offer(&near, quantity_keys[q]);
  }

  return pbTaskReader_Fail(r, pb_bad_input, "'%.60s' is no quantity%s", name, pbSuggest_Write(&near, hint, sizeof hint));
}

// "sees": names of quantities; absent: all but positions of bodies and sites, as far as there are any.
static pbStatus read_sees(pbTaskReader *r, const json_t *list, pbHosted *h) {
  for (int q = 0; q <= pb_observedControl; q++)
    h->sees[q] = !list && q != pb_observedBody && q != pb_observedSite && kind_of(r->model, (pbQuantity)q).full > 0;
  if (!list) return pb_ok;

  // by their names in terms
  if (!json_is_array(list) || json_array_size(list) == 0)
    return pbTaskReader_Fail(r, pb_bad_input, "expected a list of quantities");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    if (!name) return pbTaskReader_Fail(r, pb_bad_input, "expected names of quantities");
    PB_TRY(see(r, name, h));
  }

  return pb_ok;
}

// A function sees states, and gives slopes by them.
static pbStatus not_between(const pbTaskReader *r, const pbTerm *t) {
  double h = pbTaskReader_Timestep(r);
  int k = 0;
  while (fabs(t->reading->time[k] / h - floor(t->reading->time[k] / h + 0.5)) <= 1e-5) k++;

  return pbTaskReader_Fail(r, pb_bad_input, "time %.12g is not a multiple of the time step %.12g: a function sees states only",
                           t->reading->time[k], h);
}

static pbStatus read_function(pbTaskReader *r, const json_t *object, int steps, pbTerm *t, pbTermSet *set) {
  const char *function = NULL, *name = NULL;
  const json_t *at = json_object_get(object, "at");
  pbHosted *h = t->hosted = pbContext_Alloc(r->ctx, sizeof *h);
  if (!h) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");

  // only who can give a function may have one in a loss
  PB_TRY(pbTaskReader_Keys(r, object, function_keys));
  PB_TRY(pbTaskReader_Text(r, object, "function", &function));
  if (!r->functions)
    return pbTaskReader_FailAt(r, "function", "a function of a host program: only optimizations and audits take them");
  PB_TRY(pbTaskReader_Text(r, object, "name", &name));
  t->name = pbContext_CopyText(r->ctx, name ? name : function);
  h->name = pbContext_CopyText(r->ctx, function);
  if (!t->name || !h->name) return pbTaskReader_Fail(r, pb_no_memory, "no memory for a term");

  // its value may have any sign, and is no sum of squares
  t->quantity = pb_observedFunction;
  t->type = pb_termLinear;
  t->weight = 1;
  PB_TRY(pbTaskReader_Real(r, object, "weight", &t->weight));

  pbTaskReader_Enter(r, "sees");
  PB_TRY(read_sees(r, json_object_get(object, "sees"), h));
  pbTaskReader_Leave(r);

  // all states unless it says which
  pbTaskReader_Enter(r, "at");
  PB_TRY(at ? pbTask_ReadAt(r, at, steps, t) : pbTask_StepsRange(r, 0, steps, 1, t));
  if (t->reading) return not_between(r, t);
  pbTaskReader_Leave(r);
  if (t->step_count == 0) return pbTaskReader_Fail(r, pb_bad_input, "the term looks at no state");

  // room for what it sees
  pbStatus status = pbHosted_SetUp(set, t);
  return status == pb_ok ? pb_ok : pbTaskReader_FailAgain(r, status);
}

static pbStatus read_term(pbTaskReader *r, const json_t *object, pbTermSet *set, pbTerm *t, pbTermLayout *l) {
  const json_t *value = NULL;
  if (json_object_get(object, "function")) return read_function(r, object, set->steps, t, set);

  PB_TRY(pbTaskReader_Keys(r, object, term_keys));
  PB_TRY(find_quantity(r, object, true, &t->quantity, &value));
  if (json_object_get(object, "schedule") && !r->trains)
    return pbTaskReader_FailAt(r, "schedule", "only weights of a training's loss change on the way");
  bool formula = t->quantity == pb_observedFormula;
  PB_TRY(copy_name(r, object, formula ? NULL : value, t));
  if (!formula && json_object_get(object, "inputs")) return pbTaskReader_FailAt(r, "inputs", "only a formula has inputs");

  PB_TRY(formula ? begin_formula(r, object, t, l) : read_parts(r, object, value, t, l));
  PB_TRY(pbTask_ReadTarget(r, object, set->steps, l, t));
  if (t->step_count == 0) return pb_ok;

  // its memory is that of all states it is evaluated at
  if (formula) PB_TRY(finish_formula(r, object, t));
  PB_TRY(pbTask_ReadReading(r, object, set->steps, t));

  return read_type(r, object, t);
}

// Numbers that a set will hold: bounded before anything is allocated for them.
static pbStatus check_size(const pbTaskReader *r, const pbTermSet *s) {
  // states that several terms observe are held once
  double rows = 0, formulas = 0, widths = 2.0 * s->nx + 2.0 * s->ns + 6.0 * s->nbody + 6.0 * s->nsite;
  for (int i = 0; i < s->count; i++) rows += s->terms[i].step_count;
  for (int i = 0; i < s->count; i++)
    formulas += s->terms[i].formula ? 2.0 * s->terms[i].formula->width * s->terms[i].step_count : 0;
  if (rows > s->steps + 1.0) rows = s->steps + 1.0;

  if (rows * widths + formulas <= 1e8) return pb_ok;
  return pbTaskReader_Fail(r, pb_capacity, "the loss observes too much: %.0f states of %.0f numbers", rows, widths);
}

pbStatus pbTask_ReadLoss(pbTaskReader *r, const json_t *loss, pbTermSet *set) {
  if (!json_is_array(loss) || json_array_size(loss) == 0) return pbTaskReader_Fail(r, pb_bad_input, "expected a list of terms");
  if (json_array_size(loss) > 10000) return pbTaskReader_Fail(r, pb_bad_input, "more than 10000 terms");

  set->timestep = pbTaskReader_Timestep(r);
  set->terms = pbContext_AllocArray(r->ctx, json_array_size(loss), sizeof *set->terms);
  if (!set->terms) return pbTaskReader_Fail(r, pb_no_memory, "no memory for the loss");

  pbStatus status = pb_ok;

  // the path stays at the term that failed, for the message
  for (size_t i = 0; status == pb_ok && i < json_array_size(loss); i++) {
    pbTermLayout layout = {0};
    pbTaskReader_EnterAt(r, i);

    // counted first: what was read of it is freed with the set
    set->count++;
    pbTerm *term = &set->terms[set->count - 1];
    status = read_term(r, json_array_get(loss, i), set, term, &layout);
    if (status == pb_ok && term->step_count == 0) pbTermSet_DropLast(set);
    pbContext_Free(r->ctx, layout.parts);
    pbContext_Free(r->ctx, layout.columns);
    if (status == pb_ok) pbTaskReader_Leave(r);
  }

  return status == pb_ok ? check_size(r, set) : status;
}
