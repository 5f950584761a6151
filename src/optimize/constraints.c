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
  m->shift = pbContext_AllocArray(ctx, samples_of(t) + 1, sizeof *m->shift);
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

bool pbTask_MoveMultipliers(pbTask *task) {
  int t = 0, i = -1;
  bool met = true;

  for (pbTerm *term; (term = next_constraint(task, &t, &i));) {
    pbMultipliers *m = term->constraint;
    double worst = term->deviation;
    move_shifts(&task->trajectories[t], term);
    met &= worst <= m->tolerance;
    if (worst > m->tolerance && worst > enough * m->worst && m->stiffness < most_stiffness) stiffen(term, m);
    m->worst = worst;
  }
  task->same = false;

  return met;
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
