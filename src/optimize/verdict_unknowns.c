// Unknowns and directions that the loss at an answer does not determine: those nothing depends on, those whose gradient is zero
// at a kink or a bound of the model, and combinations of unknowns that leave the loss as it is.
// Tests: tests/unit/test_verdict.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "optimize/optimizer.h"
#include "optimize/verdict.h"

enum { MOST_PROBES = 24 };  // unknowns whose gradient is zero that are probed one by one

// ---- unknowns whose gradient is zero ----------------------------------------------------------------------------------
static bool zero_derivative(const Judge *j, int i) {
  if (!j->J) return j->g[i] == 0;

  // With a Jacobian: no residual depends on it, not just their sum.
  for (size_t k = 0; k < j->task->m; k++) {
    if (j->J[k * (size_t)j->n + (size_t)i] != 0) return false;
  }

  return true;
}

// An axis or a quaternion has none along itself, whatever its influence: all of its components count.
static bool zero_gradient(const Judge *j, int i) {
  const pbVariable *v = pbJudge_VariableOf(j, i);
  const pbDirectionRow *row = pbVariable_Row(v, i - v->first);

  // A plain unknown.
  if (!row) return zero_derivative(j, i);

  for (int c = 0; c < row->size; c++) {
    if (!zero_derivative(j, v->first + row->at[c])) return false;
  }

  return true;
}

static double probe_size(const Judge *j, int i) { return 1e-3 * (1 + fabs(j->z[i])); }

// In j->trial, the unknowns of [first, end) that have a zero gradient moved by `part` of their probe, within their bounds.
static void move_suspects(const Judge *j, int first, int end, double part) {
  for (int i = first; i < end; i++) {
    if (!(j->verdict->notes[i] & pb_unknownInert)) continue;

    // Each by its own size.
    double moved = j->z[i] + part * probe_size(j, i);
    j->trial[i] = fmin(fmax(moved, j->task->lower[i]), j->task->upper[i]);
  }
}

// Nothing of the loss changes, to the last bit, in either direction.
// The loss with those unknowns moved down and up; any: whether it changes at all.
static pbStatus probe(Judge *j, int first, int end, double out[2], bool *any) {
  *any = false;
  for (int side = 0; side < 2; side++) {
    memcpy(j->trial, j->z, (size_t)j->n * sizeof(double));
    move_suspects(j, first, end, side ? 1 : -1);
    PB_TRY(pbJudge_Value(j, j->trial, &out[side]));
    *any |= out[side] != j->value;
  }

  return pb_ok;
}

// z with unknown i moved by this much, within its bounds; what the loss is there.
static pbStatus value_beside(Judge *j, int i, double change, double *value) {
  memcpy(j->trial, j->z, (size_t)j->n * sizeof(double));
  j->trial[i] = fmin(fmax(j->z[i] + change, j->task->lower[i]), j->task->upper[i]);
  *value = j->value;

  return j->trial[i] == j->z[i] ? pb_ok : pbJudge_Value(j, j->trial, value);
}

// Unknown i, whose gradient is zero, promises `fall` where it is changed by this much.
static void tell_kink(Judge *j, int i, double change, double fall) {
  char name[160];
  double before, after;

  j->verdict->notes[i] |= pb_unknownKink;
  memcpy(j->trial, j->z, (size_t)j->n * sizeof(double));
  j->trial[i] = fmin(fmax(j->z[i] + change, j->task->lower[i]), j->task->upper[i]);
  pbTask_Unknown(j->task, i, j->z, name, sizeof name, &before);
  pbTask_Unknown(j->task, i, j->trial, name, sizeof name, &after);
  pbJudge_Advise(
      j,
      "%s = %.6g has the gradient 0 (a bound of the model, a kink, a plateau or an unstable balance), but at %.6g the loss is "
      "less by %.3g: begin there",
      name, before, after, fall);
}

// The unknown has an influence, though its gradient is zero: a smooth minimum, or the loss is less beside it, near by or a little
// further (far: the loss there, below and above).
static pbStatus examine_unknown(Judge *j, int i, const double far[2]) {
  j->verdict->notes[i] &= (unsigned char)~pb_unknownInert;

  // Only a fall well above rounding counts.
  double size = probe_size(j, i), best = 1e3 * j->noise, change = 0;
  for (int side = 0; side < 2; side++) {
    double near, sign = side ? 1 : -1;

    // Near by: a thousandth of the probe.
    PB_TRY(value_beside(j, i, 1e-3 * sign * size, &near));
    if (j->value - near > best) {
      best = j->value - near;
      change = 1e-3 * sign * size;
    }

    if (j->value - far[side] > best) {
      best = j->value - far[side];
      change = sign * size;
    }
  }

  if (change != 0) tell_kink(j, i, change, best);
  return pb_ok;
}

// Of one variable whose suspects do change the loss: each alone, as far as probes go.
static pbStatus examine_variable(Judge *j, const pbVariable *variable, int *probed) {
  for (int i = variable->first; i < variable->first + variable->count; i++) {
    if (!(j->verdict->notes[i] & pb_unknownInert)) continue;
    if (++*probed > MOST_PROBES) {
      j->verdict->notes[i] &= (unsigned char)~pb_unknownInert;  // not known
      continue;
    }

    bool alone;
    double values[2];
    PB_TRY(probe(j, i, i + 1, values, &alone));
    if (alone) PB_TRY(examine_unknown(j, i, values));
  }

  return pb_ok;
}

static int note_suspects(Judge *j) {
  int suspects = 0;
  for (int i = 0; i < j->n; i++) {
    if (!zero_gradient(j, i)) continue;
    j->verdict->notes[i] |= pb_unknownInert;
    suspects++;
  }

  return suspects;
}

static bool any_suspect(const Judge *j, int first, int end) {
  for (int i = first; i < end; i++) {
    if (j->verdict->notes[i] & pb_unknownInert) return true;
  }

  return false;
}

// The same of all suspects but those of [first, end).
static pbStatus probe_others(Judge *j, int first, int end, double out[2]) {
  for (int side = 0; side < 2; side++) {
    memcpy(j->trial, j->z, (size_t)j->n * sizeof(double));

    // Before them and behind.
    move_suspects(j, 0, first, side ? 1 : -1);
    move_suspects(j, end, j->n, side ? 1 : -1);
    PB_TRY(pbJudge_Value(j, j->trial, &out[side]));
  }

  return pb_ok;
}

// Weights of two layers that are zero change nothing alone. Where all suspects together do, a variable takes part whose absence
// is seen.
static pbStatus acquit_those_together(Judge *j) {
  double all[2], others[2];
  PB_TRY(probe(j, 0, j->n, all, &j->together));
  if (!j->together) return pb_ok;

  // The set stays the same until each has been left out.
  memset(j->d, 0, (size_t)j->n * sizeof(double));
  for (int v = 0; v < j->task->variable_count; v++) {
    int first = j->task->variables[v].first, end = first + j->task->variables[v].count;
    if (!any_suspect(j, first, end)) continue;
    PB_TRY(probe_others(j, first, end, others));

    // To the last bit, as it is for one alone.
    bool seen = others[0] != all[0] || others[1] != all[1];
    for (int i = first; i < end; i++) j->d[i] = seen;
  }

  // Those that take part.
  for (int i = 0; i < j->n; i++) {
    if (j->d[i] != 0) j->verdict->notes[i] &= (unsigned char)~pb_unknownInert;
  }

  return pb_ok;
}

pbStatus pbJudge_FindInert(Judge *j) {
  int probed = 0;
  bool any;
  double values[2];
  if (note_suspects(j) == 0) return pb_ok;

  // All suspects together, then those of one variable, then each: most often the first probe acquits none.
  PB_TRY(probe(j, 0, j->n, values, &any));
  if (!any) return pb_ok;

  for (int v = 0; v < j->task->variable_count; v++) {
    const pbVariable *variable = &j->task->variables[v];
    int first = variable->first, end = first + variable->count;
    if (!any_suspect(j, first, end)) continue;
    PB_TRY(probe(j, first, end, values, &any));
    if (any) PB_TRY(examine_variable(j, variable, &probed));
  }

  return pbJudge_CountNotes(j, pb_unknownInert) > 0 ? acquit_those_together(j) : pb_ok;
}

int pbJudge_CountNotes(const Judge *j, unsigned note) {
  int count = 0;
  for (int i = 0; i < j->n; i++) count += (j->verdict->notes[i] & note) != 0;
  return count;
}

// ---- delays whose samples lie on states -------------------------------------------------------------------------------
// Terms of the name that a delay is of: their times, and how many of these lie on states.
static void count_on_states(const pbTask *task, const pbVariable *v, int *on, int *all) {
  *on = 0;
  *all = 0;
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTrajectory *tr = &task->trajectories[t];
    if (tr->test || (v->trajectory >= 0 && v->trajectory != t)) continue;

    for (int i = 0; i < tr->terms.count; i++) {
      const pbTerm *term = &tr->terms.terms[i];
      if (strcmp(term->name, v->term) != 0) continue;
      *on += pbTerm_OnStates(&tr->terms, term);
      *all += term->step_count;
    }
  }
}

void pbJudge_TellDelays(Judge *j) {
  for (int i = 0; i < j->task->variable_count; i++) {
    const pbVariable *v = &j->task->variables[i];
    char name[160];
    double delay;
    int on, all;

    // index 0 of a reading is its delay
    if (v->kind != pb_varyReading || v->index[0] != 0) continue;
    count_on_states(j->task, v, &on, &all);
    if (!on) continue;

    pbTask_Unknown(j->task, v->first, j->z, name, sizeof name, &delay);
    pbJudge_Advise(j,
                   "%s = %.6g puts %d of %d samples on states, where the line between states has a kink: the derivative by it is "
                   "that of a shorter delay, and may be another for a longer one",
                   name, delay, on, all);
  }
}

// ---- directions the loss does not determine ---------------------------------------------------------------------------
// Eigenvector e, of columns of this length, as changes of the unknowns; the largest is one.
static void name_direction(Judge *j, size_t e, const double *length) {
  size_t n = (size_t)j->n, used = 0;
  char text[400] = "", name[160];
  double largest = 0;

  for (size_t i = 0; i < n; i++) {
    if (length[i] > 0) largest = fmax(largest, fabs(j->B[i * n + e]) / length[i]);
  }

  // Unknowns with a part of less than a hundredth are left out.
  for (size_t i = 0; i < n && used < sizeof text - 1; i++) {
    double part = length[i] > 0 ? j->B[i * n + e] / length[i] / largest : 0;
    if (fabs(part) < 0.01) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%+.3g %s", used ? ", " : "", part,
                             pbJudge_NameOf(j, (int)i, name, sizeof name));
  }

  pbJudge_Advise(j, "the loss does not determine all unknowns: a change by %s together leaves it as it is", text);
}

// A = J'J with columns of length one, which `length` gets.
static void scale_normal_matrix(Judge *j, double *length) {
  size_t n = (size_t)j->n;
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (size_t k = 0; k < j->task->m; k++) sum += j->J[k * n + i] * j->J[k * n + i];
    length[i] = sqrt(sum);
  }

  // Sums over residuals, so that J is read once, row by row.
  memset(j->A, 0, n * n * sizeof(double));
  for (size_t k = 0; k < j->task->m; k++) {
    const double *row = j->J + k * n;
    for (size_t a = 0; a < n; a++) {
      if (length[a] == 0) continue;
      for (size_t b = 0; b < n; b++) j->A[a * n + b] += length[b] > 0 ? row[a] / length[a] * (row[b] / length[b]) : 0;
    }
  }

  // Unknowns without influence are named already.
  for (size_t i = 0; i < n; i++) {
    if (length[i] == 0) j->A[i * n + i] = 1;
  }
}

void pbJudge_Decompose(Judge *j, double *length) {
  scale_normal_matrix(j, length);
  pbJudge_HoldLengths(j, j->A, length);
  pbVec_Eigen(j->A, j->B, j->D, j->n);
}

// Of J'J with columns of length one: eigenvalues below 1e-12 of the largest (their roots are in D) are rounding.
void pbJudge_FindUndetermined(Judge *j) {
  size_t n = (size_t)j->n;
  if (!j->J) return;

  double *length = j->d, most = 0;
  pbJudge_Decompose(j, length);
  for (size_t i = 0; i < n; i++) most = fmax(most, j->D[i]);

  // A combination of unknowns for each, of which two are named.
  for (size_t e = 0; e < n; e++) {
    if (j->D[e] > 1e-6 * most) continue;
    j->verdict->undetermined++;
    if (j->verdict->undetermined <= 2) name_direction(j, e, length);
  }
}
