// Terms that are to be met and not weighed: the augmented Lagrangian method (Hestenes, Powell 1969; Rockafellar 1974 for those
// that are one-sided). With a multiplier y of a deviation d and a weight w the loss is w (d + y / 2 w)^2: a deviation that is
// shifted. So a search by any method sees a loss like others; when it has come far enough the shifts move by what is off, and
// of what has not come much closer the weight grows (Nocedal & Wright 2006, 17.3). Tests: tests/unit/test_constraints.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "optimize/terms.h"

static const double growth = 10, most_stiffness = 1e9;
static const double enough = 0.25;  // of what was off: more is not much closer

static size_t samples_of(const pbTerm *t) { return (size_t)t->step_count * (size_t)t->part_count; }

pbStatus pbMultipliers_Create(pbContext *ctx, const pbTerm *t, double tolerance, pbMultipliers **created) {
  pbMultipliers *m = *created = pbContext_Alloc(ctx, sizeof *m);
  PB_ASSERT(tolerance > 0);
  if (!m) return pbContext_Fail(ctx, pb_no_memory, "no memory for a constraint");

  *m = (pbMultipliers){.tolerance = tolerance, .stiffness = 1, .worst = INFINITY};
  m->shift = pbContext_AllocArray(ctx, 2 * samples_of(t) + 1, sizeof *m->shift);
  m->found = m->shift ? m->shift + samples_of(t) : NULL;
  return m->shift ? pb_ok : pbContext_Fail(ctx, pb_no_memory, "no memory for a constraint");
}

void pbMultipliers_Free(pbContext *ctx, pbMultipliers *m) {
  if (!m) return;
  pbContext_Free(ctx, m->shift);
  pbContext_Free(ctx, m);
}

// ---- all of a task's --------------------------------------------------------------------------------------------------
// The next term that is a constraint of a trajectory that is fitted; from t = 0, i = -1 on.
static pbTerm *next_constraint(const pbTask *task, int *t, int *i) {
  for (; *t < task->trajectory_count; ++*t, *i = -1) {
    const pbTermSet *set = &task->trajectories[*t].terms;
    if (task->trajectories[*t].test) continue;
    while (++*i < set->count) {
      if (set->terms[*i].constraint) return &set->terms[*i];
    }
  }

  return NULL;
}

bool pbTask_IsConstrained(const pbTask *task) {
  int t = 0, i = -1;
  return next_constraint(task, &t, &i) != NULL;
}

void pbTask_ClearMultipliers(pbTask *task) {
  int t = 0, i = -1;

  // shifts of a run before are none of the next one's
  for (pbTerm *term; (term = next_constraint(task, &t, &i));) {
    pbMultipliers *m = term->constraint;
    memset(m->shift, 0, samples_of(term) * sizeof *m->shift);
    m->stiffness = 1;
    m->worst = INFINITY;
  }
  task->same = false;
}

// ---- told -------------------------------------------------------------------------------------------------------------
void pbTask_KeepMultipliers(pbTask *task) {
  int t = 0, i = -1;

  // y = 2 w s of a deviation, which is relative to sigma where there is one
  for (pbTerm *term; (term = next_constraint(task, &t, &i));) {
    pbMultipliers *m = term->constraint;
    const pbTrajectory *tr = &task->trajectories[t];
    int row = 0;
    for (int k = 0; k < term->step_count; k++) {
      double weight = term->weight * m->stiffness * (term->factor ? term->factor[k] : 1), d;
      row = pbTermSet_Row(&tr->terms, row, term->steps[k]);

      for (int part = 0; part < term->part_count; part++) {
        int at = k * term->part_count + part;
        bool seen = pbTerm_DeviationAt(&tr->terms, term, k, row, part, tr->ctrl_now, &d);
        double pull = seen ? pbTerm_Violation(term, d + m->shift[at]) : 0;
        m->found[at] = 2 * weight * pull / (term->sigma ? term->sigma[part] : 1);
      }
    }
    m->known = true;
  }
}

void pbTask_ForgetMultipliers(pbTask *task) {
  int t = 0, i = -1;

  for (pbTerm *term; (term = next_constraint(task, &t, &i));) term->constraint->known = false;
}

const double *pbTask_Multipliers(const pbTask *task, int i, size_t *times, size_t *components) {
  int t = 0;
  PB_ASSERT(i >= 0);
  while (i >= task->trajectories[t].terms.count) i -= task->trajectories[t++].terms.count;
  PB_ASSERT(t < task->trajectory_count);

  const pbTerm *term = &task->trajectories[t].terms.terms[i];
  bool known = term->constraint && term->constraint->known;
  *times = known ? (size_t)term->step_count : 0;
  *components = known ? (size_t)term->part_count : 0;

  return known ? term->constraint->found : NULL;
}

// ---- moved in time ----------------------------------------------------------------------------------------------------
// The term's shifts as they would be looked at `later`: between two times on a line, beyond the last that of the last. The state
// at the end of the horizon, which losses weigh otherwise than those before, stays by itself. Rows are read at their own place
// and behind it alone, so they may be written in place.
static void shift_in_time(const pbTermSet *set, const pbTerm *term, double later) {
  double *shift = term->constraint->shift, h = set->timestep;
  int parts = term->part_count, last = term->step_count - 1, from = 0;
  while (last >= 0 && term->steps[last] == set->steps) last--;
  PB_ASSERT(later > 0);

  for (int k = 0; k <= last; k++) {
    double at = pbTerm_Time(term, k, h) + later;
    while (from < last && pbTerm_Time(term, from + 1, h) <= at + 1e-9 * h) from++;

    // times are sums of steps but for rounding
    int next = from < last ? from + 1 : last;
    double begin = pbTerm_Time(term, from, h), length = pbTerm_Time(term, next, h) - begin;
    double part = length > 0 ? fmin(fmax((at - begin) / length, 0), 1) : 0;
    if (part < 1e-9) part = 0;

    // each component by itself
    for (int i = 0; i < parts; i++) shift[k * parts + i] = (1 - part) * shift[from * parts + i] + part * shift[next * parts + i];
  }
}

void pbTask_ShiftMultipliers(pbTask *task, double later) {
  int t = 0, i = -1;
  PB_ASSERT(later >= 0);

  for (pbTerm *term; (term = next_constraint(task, &t, &i));) {
    pbMultipliers *m = term->constraint;
    size_t count = samples_of(term);

    // y = 2 w s
    for (size_t k = 0; k < count; k++) m->shift[k] *= m->stiffness;
    m->stiffness = 1;
    m->worst = INFINITY;
    if (later > 0) shift_in_time(&task->trajectories[t].terms, term, later);
  }
  task->same = false;
}

// ---- by what is off -----------------------------------------------------------------------------------------------------
// Does a term look at positions and velocities alone? Those of the state that is begun with are given.
static bool is_of_state(const pbTerm *term) {
  bool state = term->quantity != pb_observedControl && term->quantity != pb_observedSensor;

  // of a formula each of what it sees
  int inputs = term->formula ? term->formula->input_count : 0;
  for (int i = 0; i < inputs; i++) state &= is_of_state(&term->formula->inputs[i]);
  return state;
}

double pbTerm_WorstToCome(const pbTrajectory *tr, const pbTerm *term) {
  double worst = 0;
  int row = 0;
  bool given = is_of_state(term);
  PB_ASSERT(term->constraint);

  // as term_at does, but for what is given
  for (int k = 0; k < term->step_count; k++) {
    double squares = 0, d;
    row = pbTermSet_Row(&tr->terms, row, term->steps[k]);
    if (given && term->steps[k] == 0) continue;
    for (int i = 0; i < term->part_count; i++) {
      if (!pbTerm_DeviationAt(&tr->terms, term, k, row, i, tr->ctrl_now, &d)) continue;
      d = pbTerm_Violation(term, d);
      squares += d * d;
    }

    worst = fmax(worst, sqrt(squares));
  }

  return worst;
}

// Shifts by what is off.
static void move_shifts(const pbTrajectory *tr, pbTerm *term) {
  pbMultipliers *m = term->constraint;
  int row = 0;
  PB_ASSERT(m && m->stiffness >= 1);

  // what is on the right side of a one-sided term, shift and all, has no multiplier
  for (int k = 0; k < term->step_count; k++) {
    row = pbTermSet_Row(&tr->terms, row, term->steps[k]);
    for (int i = 0; i < term->part_count; i++) {
      double d, *shift = &m->shift[k * term->part_count + i];
      if (!pbTerm_DeviationAt(&tr->terms, term, k, row, i, tr->ctrl_now, &d)) continue;
      *shift = pbTerm_Violation(term, d + *shift);
    }
  }
}

// The weight grows, and the multiplier stays what it is.
static void stiffen(const pbTerm *term, pbMultipliers *m) {
  size_t count = samples_of(term);
  PB_ASSERT(m->stiffness < most_stiffness);

  // y = 2 w s
  m->stiffness *= growth;
  for (size_t k = 0; k < count; k++) m->shift[k] /= growth;
}

double pbTask_Stiffness(const pbTask *task) {
  int t = 0, i = -1;
  double most = 1;

  // each grows by itself
  for (const pbTerm *term; (term = next_constraint(task, &t, &i));) most = fmax(most, term->constraint->stiffness);
  return most;
}

bool pbTask_MoveMultipliers(pbTask *task, pbMultiplierMove how) {
  int t = 0, i = -1;
  bool met = true;

  for (pbTerm *term; (term = next_constraint(task, &t, &i));) {
    pbMultipliers *m = term->constraint;
    const pbTrajectory *tr = &task->trajectories[t];
    double worst = how.to_come ? pbTerm_WorstToCome(tr, term) : term->deviation;
    move_shifts(tr, term);
    met &= worst <= m->tolerance;
    bool stiffer = worst > m->tolerance && worst > enough * m->worst && m->stiffness < most_stiffness;
    if (stiffer && how.may_stiffen) stiffen(term, m);
    m->worst = worst;
  }
  task->same = false;

  return met;
}

double pbTask_PlainTerms(const pbTask *task) {
  double sum = 0;
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    int terms = task->trajectories[t].test ? 0 : set->count;

    // of constraints what they would be as terms
    for (int i = 0; i < terms; i++) sum += set->terms[i].constraint ? set->terms[i].constraint->plain : set->terms[i].value;
  }

  return sum;
}

const pbTerm *pbTask_WorstConstraint(const pbTask *task) {
  const pbTerm *found = NULL;
  double most = 1;
  int t = 0, i = -1;
  for (const pbTerm *term; (term = next_constraint(task, &t, &i));) {
    double off = term->deviation / term->constraint->tolerance;

    // relative to what each may be off by
    if (off <= most) continue;
    most = off;
    found = term;
  }

  return found;
}

// ---- as numbers -------------------------------------------------------------------------------------------------------
size_t pbTask_MultiplierNumbers(const pbTask *task) {
  size_t count = 0;
  int t = 0, i = -1;

  // stiffness, what was off, shifts
  for (const pbTerm *term; (term = next_constraint(task, &t, &i));) count += 2 + samples_of(term);
  return count;
}

void pbTask_SaveMultipliers(const pbTask *task, double *out) {
  int t = 0, i = -1;
  for (const pbTerm *term; (term = next_constraint(task, &t, &i));) {
    const pbMultipliers *m = term->constraint;
    *out++ = m->stiffness;
    *out++ = m->worst;
    memcpy(out, m->shift, samples_of(term) * sizeof *out);
    out += samples_of(term);
  }
}

void pbTask_LoadMultipliers(pbTask *task, const double *in) {
  int t = 0, i = -1;

  // in the order of Save
  for (pbTerm *term; (term = next_constraint(task, &t, &i));) {
    pbMultipliers *m = term->constraint;
    m->stiffness = *in++;
    m->worst = *in++;
    memcpy(m->shift, in, samples_of(term) * sizeof *in);
    in += samples_of(term);
  }
}
