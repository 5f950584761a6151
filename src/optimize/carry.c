// Unknowns of one task as unknowns of another that has the same variables and other lengths of trajectories.
// Tests: tests/unit/test_stages.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "optimize/task.h"

static int steps_of(const pbTask *task, const pbVariable *v) {
  return task->trajectories[v->trajectory < 0 ? 0 : v->trajectory].steps;
}

static double physical(const pbVariable *v, double z) { return v->logarithm ? pbExp(v->scale * z) : v->scale * z; }
static double unknown(const pbVariable *v, double value) { return (v->logarithm ? pbLog(value) : value) / v->scale; }

// The step at which a knot begins to act, or between steps the moment whose value it is.
static double moment_of(const pbVariable *v, int knot, int steps) {
  if (v->linear) return v->knots > 1 ? (double)knot * (steps - 1) / (v->knots - 1) : 0;

  // the first whole step
  int64_t step = ((int64_t)knot * steps + v->knots - 1) / v->knots;
  return (double)step;
}

// Entry `a` of a variable at a moment; what is beyond the last step is the last knot.
static double value_at(const pbVariable *v, const double *z, int steps, double moment, int a) {
  int last = v->knots - 1, width = v->index_count, knot = last;
  double right = 0;
  PB_ASSERT(moment >= 0 && a >= 0 && a < width);

  if (moment < steps - 1 && v->linear) {
    double at = moment * last / (steps - 1);
    knot = (int)at < last ? (int)at : last;
    right = knot < last ? at - knot : 0;
  } else if (moment < steps) {
    knot = v->linear ? last : (int)((int64_t)moment * v->knots / steps);
  }

  const double *here = z + v->first + (size_t)knot * (size_t)width + a;
  if (right <= 0) return here[0];
  return unknown(v, (1 - right) * physical(v, here[0]) + right * physical(v, here[width]));
}

void pbTask_Carry(const pbTask *from, const double *z, const pbTask *to, double *out) {
  PB_ASSERT(from->variable_count == to->variable_count && from->trajectory_count == to->trajectory_count);
  for (int i = 0; i < to->variable_count; i++) {
    const pbVariable *v = &from->variables[i], *w = &to->variables[i];
    int steps = steps_of(from, v), others = steps_of(to, w);
    PB_ASSERT(v->kind == w->kind && v->index_count == w->index_count);

    // as it is, or by the moments of its knots
    bool same = v->count == w->count && (steps == others || w->knots == 1);
    int moved = same ? 0 : w->count;
    if (same) memcpy(out + w->first, z + v->first, (size_t)w->count * sizeof *out);
    for (int k = 0; k < moved; k++)
      out[w->first + k] = value_at(v, z, steps, moment_of(w, k / w->index_count, others), k % w->index_count);
  }

  // a bound may be another one there
  for (int i = 0; i < to->n; i++) out[i] = fmin(fmax(out[i], to->lower[i]), to->upper[i]);
}
