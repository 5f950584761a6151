// What changes between plans: targets and weights of terms, bounds of controls, parameters of the model. It is written into the
// task, which has its own numbers back when the controller goes. Tests: tests/unit/test_mpc_changes.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/suggest.h"
#include "model/model.h"
#include "optimize/mpc.h"

static pbTermSet *terms_of(const pbMpc *mpc) { return &mpc->task->trajectories[0].terms; }

// ---- the task as it was ----------------------------------------------------------------------------------------------------
static pbStatus copy_numbers(pbMpc *mpc, const double *from, size_t count, double **to) {
  *to = pbContext_AllocArray(mpc->ctx, count + 1, sizeof(double));
  if (!*to) return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no memory for a plan", mpc->task->name);

  memcpy(*to, from, count * sizeof(double));
  return pb_ok;
}

// Room for a target at all of the term's times, in place of the task's.
static pbStatus own_target(pbMpc *mpc, pbTerm *t, pbMpcTermBefore *before) {
  size_t width = (size_t)t->target_width, rows = (size_t)(t->target_rows > 1 ? t->target_rows : 1);
  *before = (pbMpcTermBefore){.target = t->target, .target_rows = t->target_rows, .weight = t->weight};
  before->own = pbContext_AllocArray(mpc->ctx, (size_t)t->step_count * width + 1, sizeof(double));
  if (!before->own) return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no memory for a plan", mpc->task->name);

  PB_ASSERT(rows == 1 || rows == (size_t)t->step_count);
  memcpy(before->own, t->target, rows * width * sizeof(double));
  t->target = before->own;
  return pb_ok;
}

pbStatus pbMpcChanges_Create(pbMpc *mpc) {
  pbTask *task = mpc->task;
  pbTermSet *set = terms_of(mpc);
  size_t n = (size_t)task->n;

  // what is written over
  PB_TRY(copy_numbers(mpc, task->trajectories[0].x0, (size_t)set->nx, &mpc->x0));
  PB_TRY(copy_numbers(mpc, task->lower, n, &mpc->lower));
  PB_TRY(copy_numbers(mpc, task->upper, n, &mpc->upper));
  PB_TRY(copy_numbers(mpc, task->theta, task->ntheta, &mpc->theta));
  PB_TRY(copy_numbers(mpc, task->theta, task->ntheta, &mpc->theta_new));

  mpc->terms = pbContext_AllocArray(mpc->ctx, (size_t)set->count + 1, sizeof *mpc->terms);
  if (!mpc->terms) return pbContext_Fail(mpc->ctx, pb_no_memory, "%s: no memory for a plan", task->name);
  for (int i = 0; i < set->count; i++) PB_TRY(own_target(mpc, &set->terms[i], &mpc->terms[i]));

  return pb_ok;
}

static void give_back(double *to, const double *before, size_t count) {
  if (before) memcpy(to, before, count * sizeof *to);
}

void pbMpcChanges_Undo(pbMpc *mpc) {
  pbTask *task = mpc->task;
  pbTermSet *set = terms_of(mpc);
  size_t n = (size_t)task->n;

  // what was copied by the time that Create failed, or all
  give_back(task->trajectories[0].x0, mpc->x0, (size_t)set->nx);
  give_back(task->lower, mpc->lower, n);
  give_back(task->upper, mpc->upper, n);
  give_back(task->theta, mpc->theta, task->ntheta);

  // those that were come to
  int count = mpc->terms ? set->count : 0;
  for (int i = 0; i < count && mpc->terms[i].target; i++) {
    const pbMpcTermBefore *before = &mpc->terms[i];
    set->terms[i].target = before->target;
    set->terms[i].target_rows = before->target_rows;
    set->terms[i].weight = before->weight;
    pbContext_Free(mpc->ctx, before->own);
  }

  pbTask_ClearMultipliers(task);
  task->same = false;

  void *all[] = {mpc->x0, mpc->lower, mpc->upper, mpc->theta, mpc->theta_new, mpc->terms};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(mpc->ctx, all[i]);
}

// ---- what is refused -------------------------------------------------------------------------------------------------------
static pbStatus refuse(const pbMpc *mpc, const char *name, const char *what) {
  return pbContext_Fail(mpc->ctx, pb_bad_argument, "'%.100s': %s", name, what);
}

static pbStatus refuse_count(const pbMpc *mpc, const char *name, size_t count, const char *expected) {
  char what[200];
  snprintf(what, sizeof what, "expected %s, found %zu", expected, count);
  return refuse(mpc, name, what);
}

static pbStatus check_finite(const pbMpc *mpc, const char *name, const double *values, size_t count) {
  char what[100];
  for (size_t i = 0; i < count; i++) {
    if (isfinite(values[i])) continue;
    snprintf(what, sizeof what, "number %zu is %s; expected finite numbers", i, isnan(values[i]) ? "NaN" : "infinite");
    return refuse(mpc, name, what);
  }

  return pb_ok;
}

// ---- terms -----------------------------------------------------------------------------------------------------------------
// The next term of a name from *i = -1 on.
static pbTerm *next_term(const pbMpc *mpc, const char *name, int *i) {
  pbTermSet *set = terms_of(mpc);
  while (++*i < set->count) {
    if (strcmp(set->terms[*i].name, name) == 0) return &set->terms[*i];
  }

  return NULL;
}

static pbStatus check_term(const pbMpc *mpc, const char *name) {
  const pbTermSet *set = terms_of(mpc);
  int i = -1;
  if (next_term(mpc, name, &i)) return pb_ok;

  // perhaps another was meant
  char hint[64], what[120];
  pbSuggest near = pbSuggest_For(name);
  for (i = 0; i < set->count; i++) pbSuggest_Offer(&near, set->terms[i].name);
  snprintf(what, sizeof what, "no term of the loss has this name%s", pbSuggest_Write(&near, hint, sizeof hint));
  return refuse(mpc, name, what);
}

static bool has_rotation(const pbTerm *t) {
  bool rotations = false;
  for (int i = 0; i < t->part_count; i++) rotations |= t->parts[i].axis >= 0;
  return rotations;
}

// Numbers of a target at one time: of each component, and of quaternions all four.
static size_t target_numbers(const pbTerm *t) { return (size_t)(has_rotation(t) ? t->target_width : t->part_count); }

static void put_row(const pbTerm *t, const double *from, bool one, double *row) {
  bool rotations = has_rotation(t);
  PB_ASSERT(t->target_width >= t->part_count || rotations);

  // components that the term does not look at are left out
  int count = rotations ? t->target_width : t->part_count;
  for (int i = 0; i < count; i++) row[rotations ? i : t->parts[i].target] = from[one ? 0 : i];
}

// Quaternions of zeros, or too long for numbers, which have no direction.
static bool has_zero_quaternion(const pbTerm *t, const double *row, bool one) {
  for (int i = 0; i < t->part_count; i++) {
    double norm = 0;
    if (t->parts[i].axis < 0) continue;

    // one number stands for all four
    for (int k = 0; k < 4; k++) {
      double q = row[one ? 0 : t->parts[i].target + k];
      norm += q * q;
    }
    if (!(norm > 1e-12) || isinf(norm)) return true;
  }

  return false;
}

static pbStatus check_target(const pbMpc *mpc, const pbTerm *t, const double *target, size_t count) {
  size_t row = target_numbers(t), times = (size_t)t->step_count;
  char expected[120];
  if (pbTerm_Samples(t) != times * (size_t)t->part_count)
    return refuse(mpc, t->name, "samples of its target are missing, and it cannot be changed");

  // one, a row, or a row at each time
  bool one = count == 1, all = count == times * row;
  snprintf(expected, sizeof expected, "1 number, %zu or %zu (%zu times)", row, times * row, times);
  if (!one && !all && count != row) return refuse_count(mpc, t->name, count, expected);

  size_t rows = all && !one ? times : 1;
  for (size_t k = 0; k < rows; k++) {
    if (has_zero_quaternion(t, target + k * row, one)) return refuse(mpc, t->name, "a target quaternion is zero");
  }

  return pb_ok;
}

static void put_target(pbTerm *t, const double *target, size_t count) {
  size_t row = target_numbers(t), width = (size_t)t->target_width, times = (size_t)t->step_count;
  bool one = count == 1;
  t->target_rows = !one && count == times * row ? (int)times : 1;

  for (int k = 0; k < t->target_rows; k++) {
    double *to = t->target + (size_t)k * width;
    put_row(t, target + (size_t)k * row, one, to);

    // zero ones were refused
    bool unit = pbTerm_NormalizeTarget(t, to);
    PB_ASSERT(unit);
    (void)unit;
  }
}

pbStatus pbMpc_SetTarget(pbMpc *mpc, const char *term, const double *target, size_t count) {
  int i = -1;
  PB_TRY(check_term(mpc, term));
  PB_TRY(check_finite(mpc, term, target, count));

  // all of them first: what is refused changes none
  for (const pbTerm *t; (t = next_term(mpc, term, &i));) PB_TRY(check_target(mpc, t, target, count));

  i = -1;
  for (pbTerm *t; (t = next_term(mpc, term, &i));) put_target(t, target, count);
  mpc->task->same = false;

  return pb_ok;
}

// Multipliers, which are twice the weight times shifts, stay what they are.
static void keep_multipliers(pbMpc *mpc, pbTerm *t, double factor) {
  size_t count = (size_t)t->step_count * (size_t)t->part_count;
  PB_ASSERT(factor > 0);

  // those that the next plan begins with
  pbTask_LoadMultipliers(mpc->task, mpc->multipliers);
  for (size_t i = 0; i < count; i++) t->constraint->shift[i] *= factor;
  pbTask_SaveMultipliers(mpc->task, mpc->multipliers);
}

pbStatus pbMpc_SetWeight(pbMpc *mpc, const char *term, double weight) {
  int i = -1;
  PB_TRY(check_term(mpc, term));
  PB_TRY(check_finite(mpc, term, &weight, 1));

  // all of them first
  for (const pbTerm *t; (t = next_term(mpc, term, &i));) {
    if (t->constraint && !(weight > 0)) return refuse(mpc, term, "expected a weight of more than 0, for it is a constraint");
    if (t->constraint && !(weight >= 1e-100 && weight <= 1e100))
      return refuse(mpc, term, "expected a weight from 1e-100 to 1e100, for it is a constraint");
  }

  i = -1;
  for (pbTerm *t; (t = next_term(mpc, term, &i));) {
    double before = t->weight;
    t->weight = t->mean ? weight / pbTerm_TimesSampled(t) : weight;

    if (t->constraint) keep_multipliers(mpc, t, before / t->weight);
  }
  mpc->task->same = false;

  return pb_ok;
}

// ---- bounds ----------------------------------------------------------------------------------------------------------------
static pbVariable *next_variable(const pbMpc *mpc, const char *name, int *i) {
  while (++*i < mpc->task->variable_count) {
    if (strcmp(mpc->task->variables[*i].name, name) == 0) return &mpc->task->variables[*i];
  }

  return NULL;
}

static pbStatus check_variable(const pbMpc *mpc, const char *name) {
  int i = -1;
  if (next_variable(mpc, name, &i)) return pb_ok;

  // perhaps another was meant
  char hint[64], what[120];
  pbSuggest near = pbSuggest_For(name);
  for (i = 0; i < mpc->task->variable_count; i++) pbSuggest_Offer(&near, mpc->task->variables[i].name);
  snprintf(what, sizeof what, "no variable of the task has this name%s", pbSuggest_Write(&near, hint, sizeof hint));
  return refuse(mpc, name, what);
}

// The number that is given for entry i, by knots and actuators; as an unknown.
static double bound_at(const pbVariable *v, const double *given, size_t count, int i) {
  size_t at = count == 1 ? 0 : (size_t)i % count;
  return pbVariable_Scaled(v, given[at]);
}

// lower, upper: NULL where they stay.
static pbStatus check_bounds(const pbMpc *mpc, const pbVariable *v, const double *lower, const double *upper, size_t count) {
  const pbTask *task = mpc->task;
  char text[160];

  // how many
  snprintf(text, sizeof text, "1 number, %d or %d", v->index_count, v->count);
  if (count != 1 && count != (size_t)v->index_count && count != (size_t)v->count) return refuse_count(mpc, v->name, count, text);

  // what they are
  for (size_t i = 0; i < count; i++) {
    bool none = (lower && isnan(lower[i])) || (upper && isnan(upper[i]));
    if (none) return refuse(mpc, v->name, "a bound is NaN; expected numbers, or infinite ones where there is none");
    if (v->logarithm && ((lower && lower[i] < 0) || (upper && !(upper[i] > 0))))
      return refuse(mpc, v->name, "a logarithm needs bounds that are not negative");
  }

  // one beside the other, also where one of them stays
  for (int i = 0; i < v->count; i++) {
    double low = lower ? bound_at(v, lower, count, i) : task->lower[v->first + i];
    double high = upper ? bound_at(v, upper, count, i) : task->upper[v->first + i];
    snprintf(text, sizeof text, "the lower bound of number %d is above its upper one, or nothing is between them", i);
    if (!(low <= high) || low == INFINITY || high == -INFINITY) return refuse(mpc, v->name, text);
  }

  return pb_ok;
}

static void put_bounds(pbMpc *mpc, const pbVariable *v, const double *lower, const double *upper, size_t count) {
  pbTask *task = mpc->task;

  // the optimizer has its own
  for (int i = 0; i < v->count; i++) {
    int at = v->first + i;
    if (lower) task->lower[at] = mpc->optimizer->lower[at] = bound_at(v, lower, count, i);
    if (upper) task->upper[at] = mpc->optimizer->upper[at] = bound_at(v, upper, count, i);
  }
}

pbStatus pbMpc_SetBounds(pbMpc *mpc, const char *variable, const double *lower, const double *upper, size_t count) {
  int i = -1;
  PB_TRY(check_variable(mpc, variable));
  for (const pbVariable *v; (v = next_variable(mpc, variable, &i));) PB_TRY(check_bounds(mpc, v, lower, upper, count));

  i = -1;
  for (const pbVariable *v; (v = next_variable(mpc, variable, &i));) put_bounds(mpc, v, lower, upper, count);

  // who asks meanwhile is kept within them, too
  pbMpcShown_Bound(mpc);
  mpc->task->same = false;

  return pb_ok;
}

// ---- parameters ------------------------------------------------------------------------------------------------------------
// What other parameters say cannot be said beside them.
static bool follows(const pbTask *task, const pbParam *p) {
  bool derived = p->derived;
  size_t count = (size_t)p->rows * (size_t)p->cols;

  // of a design more than what is derived in all models
  for (size_t i = 0; i < count; i++) derived |= pbModel_Follows(task->model, p->offset + i);
  return derived && task->recompute;
}

pbStatus pbMpc_SetParameter(pbMpc *mpc, const char *name, const double *values, size_t count) {
  pbTask *task = mpc->task;
  double *theta = mpc->theta_new;
  pbParam p;
  char expected[80];
  PB_TRY(pbModel_Param(mpc->ctx, task->model, name, &p));
  size_t size = (size_t)p.rows * (size_t)p.cols;

  // what it may not be
  snprintf(expected, sizeof expected, "1 number or %zu", size);
  if (strcmp(p.name, "timestep") == 0) return refuse(mpc, name, "the time step cannot change: times of the loss depend on it");
  if (follows(task, &p))
    return refuse(mpc, name, "it follows from other parameters (\"constants\": \"recompute\"); change those");
  if (count != 1 && count != size) return refuse_count(mpc, name, count, expected);
  PB_TRY(check_finite(mpc, name, values, count));

  // kept where the model has a meaning with it
  memcpy(theta, task->theta, task->ntheta * sizeof *theta);
  for (size_t i = 0; i < size; i++) theta[p.offset + i] = values[count == 1 ? 0 : i];
  PB_TRY(pbModel_CheckParams(mpc->ctx, task->model, theta));
  if (task->recompute) PB_TRY(pbModel_SetConstants(mpc->ctx, task->model, theta));

  memcpy(task->theta, theta, task->ntheta * sizeof *theta);
  task->same = false;

  return pb_ok;
}
