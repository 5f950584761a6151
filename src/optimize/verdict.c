// Why a search ended, found out at its answer by some more evaluations: unknowns that nothing depends on, kinks and bounds
// where the gradient is zero, a full Newton step that would gain nothing, a jump of the loss and the contact that makes it.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "optimize/optimizer.h"
#include "optimize/task.h"
#include "model/model.h"

enum {
  MOST_DENSE = 128,  // unknowns up to which the Jacobian at the answer is formed
  MOST_PROBES = 24,  // unknowns whose gradient is zero that are looked at one by one
  DECADES = 12,      // lengths of a step along a direction: 1e-2 ... 1e-13 of 1 + |z|
  BISECTIONS = 40,
  MOST_PAIRS = 4096,  // contacts compared in a step
};
static const double most_dense_entries = 3e7;  // of that Jacobian
static const double no_gain = 1e-8;            // of the loss: a full step that promises less is convergence
static const double noise_of_loss = 1e-11;     // rounding of a loss, relative; what is below 1e3 of it is no jump

const char *pbRunOutcome_Name(pbRunOutcome outcome) {
  static const char *const names[pb_runOutcomeCount] = {"criteria met",      "converged", "no influence",
                                                        "stalled at a jump", "stalled",   "iteration limit"};
  return (unsigned)outcome < pb_runOutcomeCount ? names[outcome] : "unknown";
}

typedef struct Judge {
  pbTask *task;
  pbVerdict *verdict;
  const double *z;  // the answer
  int n;
  double value, noise, negligible;  // loss at the answer, its rounding, a gain that is none
  bool smooth;                      // the gradient could be had
  double *g, *trial, *d;            // n each
  double *J, *A, *B, *D;            // Jacobian, J'J with its eigenvectors and roots of eigenvalues; NULL where it is not formed
  double *residuals;
} Judge;

static bool soft(pbStatus status) { return status == pb_not_finite || status == pb_no_convergence || status == pb_singular; }

static pbStatus value_at(Judge *j, const double *z, double *value) {
  pbStatus status = pbTask_Loss(j->task, z, value, NULL);
  if (!soft(status)) return status;
  *value = INFINITY;

  return pb_ok;
}

static void say(Judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(Judge *j, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(j->verdict->reason, sizeof j->verdict->reason, format, list);
  va_end(list);
}

// One line more of what else a user should know.
static void add(Judge *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(Judge *j, const char *format, ...) {
  va_list list;
  size_t used = strlen(j->verdict->advice), room = sizeof j->verdict->advice - used;
  if (room < 200) return;
  va_start(list, format);
  vsnprintf(j->verdict->advice + used, room - 1, format, list);
  va_end(list);
  strcat(j->verdict->advice, "\n");
}

static const char *name_of(const Judge *j, int i, char *name, size_t size) {
  pbTask_Unknown(j->task, i, j->z, name, size, NULL);
  return name;
}

// "a, b, c and 4 more": the unknowns with a note.
static void list_names(const Judge *j, unsigned note, char *text, size_t size) {
  int all = 0, shown = 0;
  size_t used = 0;

  for (int i = 0; i < j->n; i++) all += (j->verdict->notes[i] & note) != 0;
  text[0] = 0;
  for (int i = 0; i < j->n && shown < 4; i++) {
    char name[160];
    if (!(j->verdict->notes[i] & note)) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s", shown++ ? ", " : "", name_of(j, i, name, sizeof name));
    if (used >= size - 1) return;
  }

  if (all > shown) snprintf(text + used, size - used, " and %d more", all - shown);
}

// ---- derivatives at the answer --------------------------------------------------------------------------------------
static pbStatus numbers(Judge *j, size_t count, double **data) {
  *data = pbContext_AllocArray(j->task->ctx, count + 1, sizeof(double));
  return *data ? pb_ok : pbContext_Fail(j->task->ctx, pb_no_memory, "%s: no memory to judge the answer", j->task->name);
}

static pbStatus jacobian(Judge *j) {
  size_t n = (size_t)j->n, m = j->task->m;
  if (m == 0 || j->n > MOST_DENSE || (double)m * (double)n > most_dense_entries) return pb_ok;
  PB_TRY(numbers(j, m, &j->residuals));
  PB_TRY(numbers(j, m * n, &j->J));
  PB_TRY(numbers(j, n * n, &j->A));
  PB_TRY(numbers(j, n * n, &j->B));
  PB_TRY(numbers(j, n, &j->D));
  pbStatus status = pbTask_Residuals(j->task, j->z, j->residuals, j->J);
  if (status == pb_ok) return pb_ok;
  pbContext_Free(j->task->ctx, j->J);
  j->J = NULL;

  return soft(status) ? pb_ok : status;
}

static pbStatus derivatives(Judge *j) {
  size_t n = (size_t)j->n;
  PB_TRY(numbers(j, n, &j->g));
  PB_TRY(numbers(j, n, &j->trial));
  PB_TRY(numbers(j, n, &j->d));
  pbStatus status = pbTask_Loss(j->task, j->z, &j->value, j->g);
  if (status != pb_ok && !soft(status)) return status;
  j->smooth = status == pb_ok;
  double first = isfinite(j->task->first_value) ? fabs(j->task->first_value) : 0;
  j->noise = noise_of_loss * fabs(j->value) + 1e-18 * first;
  j->negligible = no_gain * fabs(j->value) + 1e-20 * first;

  return j->smooth ? jacobian(j) : pb_ok;
}

static bool at_lower(const Judge *j, int i) { return j->z[i] <= j->task->lower[i]; }
static bool at_upper(const Judge *j, int i) { return j->z[i] >= j->task->upper[i]; }
static bool held(const Judge *j, int i) { return (at_lower(j, i) && j->g[i] > 0) || (at_upper(j, i) && j->g[i] < 0); }

static void note_bounds(Judge *j) {
  for (int i = 0; i < j->n; i++) {
    if (at_lower(j, i)) j->verdict->notes[i] |= pb_unknownAtLower;
    if (at_upper(j, i)) j->verdict->notes[i] |= pb_unknownAtUpper;
  }
}

static const pbVariable *variable_of(const Judge *j, int i) {
  const pbVariable *v = j->task->variables;
  while (i >= v->first + v->count) v++;
  return v;
}

// Lengths of axes and quaternions have no meaning, so no loss sees them: to A (n x n, of columns of this length; NULL: one)
// goes a rank for each that says it is not to change.
static void hold_lengths(const Judge *j, double *A, const double *length) {
  int n = j->n;
  double size = 0;

  for (int i = 0; i < n; i++) size = fmax(size, A[i * n + i]);
  for (int v = 0; v < j->task->variable_count; v++) {
    const pbVariable *variable = &j->task->variables[v];
    for (int k = 0; k < variable->row_count; k++) {
      const pbDirectionRow *row = &variable->rows[k];
      double along[4], squared = 0;

      for (int c = 0; c < row->size; c++) {
        int i = variable->first + row->at[c];
        along[c] = j->z[i] * (length ? length[i] : 1);
        squared += along[c] * along[c];
      }

      if (!(squared > 0)) continue;
      for (int a = 0; a < row->size; a++) {
        for (int b = 0; b < row->size; b++) {
          int at = (variable->first + row->at[a]) * n + variable->first + row->at[b];
          A[at] += size * along[a] * along[b] / squared;
        }
      }
    }
  }
}

// ---- unknowns whose gradient is zero ----------------------------------------------------------------------------------
static bool zero_derivative(const Judge *j, int i) {
  if (!j->J) return j->g[i] == 0;
  for (size_t k = 0; k < j->task->m; k++)
    if (j->J[k * (size_t)j->n + (size_t)i] != 0) return false;

  return true;
}

// An axis or a quaternion has none along itself, whatever its influence: all of its components count.
static bool zero_gradient(const Judge *j, int i) {
  const pbVariable *v = variable_of(j, i);
  const pbDirectionRow *row = pbVariable_Row(v, i - v->first);

  if (!row) return zero_derivative(j, i);
  for (int c = 0; c < row->size; c++) {
    if (!zero_derivative(j, v->first + row->at[c])) return false;
  }

  return true;
}

static double probe_size(const Judge *j, int i) { return 1e-3 * (1 + fabs(j->z[i])); }

// z with the unknowns of [first, end) that have a zero gradient moved by `part` of their probe, within their bounds.
static void move_suspects(const Judge *j, int first, int end, double part) {
  memcpy(j->trial, j->z, (size_t)j->n * sizeof(double));
  for (int i = first; i < end; i++) {
    if (!(j->verdict->notes[i] & pb_unknownInert)) continue;
    double moved = j->z[i] + part * probe_size(j, i);
    j->trial[i] = fmin(fmax(moved, j->task->lower[i]), j->task->upper[i]);
  }
}

// Nothing of the loss changes, to the last bit, in either direction.
static pbStatus changes(Judge *j, int first, int end, double out[2], bool *any) {
  *any = false;
  for (int side = 0; side < 2; side++) {
    move_suspects(j, first, end, side ? 1 : -1);
    PB_TRY(value_at(j, j->trial, &out[side]));
    *any |= out[side] != j->value;
  }

  return pb_ok;
}

// z with unknown i moved by this much, within its bounds; what the loss is there.
static pbStatus beside(Judge *j, int i, double way, double *value) {
  memcpy(j->trial, j->z, (size_t)j->n * sizeof(double));
  j->trial[i] = fmin(fmax(j->z[i] + way, j->task->lower[i]), j->task->upper[i]);
  *value = j->value;

  return j->trial[i] == j->z[i] ? pb_ok : value_at(j, j->trial, value);
}

// Unknown i, whose gradient is zero, promises `fall` where it is moved by `way`.
static void tell_kink(Judge *j, int i, double way, double fall) {
  char name[160];
  double before, after;

  j->verdict->notes[i] |= pb_unknownKink;
  memcpy(j->trial, j->z, (size_t)j->n * sizeof(double));
  j->trial[i] = fmin(fmax(j->z[i] + way, j->task->lower[i]), j->task->upper[i]);
  pbTask_Unknown(j->task, i, j->z, name, sizeof name, &before);
  pbTask_Unknown(j->task, i, j->trial, name, sizeof name, &after);
  add(j,
      "%s = %.6g has the gradient 0 (a bound of the model, a kink, a plateau or an unstable balance), but at %.6g the loss is "
      "less by "
      "%.3g: begin there",
      name, before, after, fall);
}

// The unknown has an influence, though its gradient is zero: a smooth minimum, or less is had beside it, near by or a little
// further (far: the loss there, below and above).
static pbStatus look_at(Judge *j, int i, const double far[2]) {
  j->verdict->notes[i] &= (unsigned char)~pb_unknownInert;
  double size = probe_size(j, i), best = 1e3 * j->noise, way = 0;
  for (int side = 0; side < 2; side++) {
    double near, sign = side ? 1 : -1;
    PB_TRY(beside(j, i, 1e-3 * sign * size, &near));
    if (j->value - near > best) {
      best = j->value - near;
      way = 1e-3 * sign * size;
    }

    if (j->value - far[side] > best) {
      best = j->value - far[side];
      way = sign * size;
    }
  }

  if (way != 0) tell_kink(j, i, way, best);
  return pb_ok;
}

static pbStatus find_inert(Judge *j) {
  int suspects = 0, looked = 0;
  bool any;
  double values[2];

  for (int i = 0; i < j->n; i++) {
    bool zero = zero_gradient(j, i);
    suspects += zero;
    if (zero) j->verdict->notes[i] |= pb_unknownInert;
  }

  if (suspects == 0) return pb_ok;
  PB_TRY(changes(j, 0, j->n, values, &any));
  if (!any) return pb_ok;

  for (int v = 0; v < j->task->variable_count; v++) {
    const pbVariable *variable = &j->task->variables[v];
    int first = variable->first, end = first + variable->count, mine = 0;

    for (int i = first; i < end; i++) mine += (j->verdict->notes[i] & pb_unknownInert) != 0;
    if (mine == 0) continue;
    PB_TRY(changes(j, first, end, values, &any));

    for (int i = first; i < end && any; i++) {
      if (!(j->verdict->notes[i] & pb_unknownInert)) continue;
      if (++looked > MOST_PROBES) {
        j->verdict->notes[i] &= (unsigned char)~pb_unknownInert;  // not known
        continue;
      }

      bool alone;
      PB_TRY(changes(j, i, i + 1, values, &alone));
      if (alone) PB_TRY(look_at(j, i, values));
    }
  }

  return pb_ok;
}

static int count_notes(const Judge *j, unsigned note) {
  int count = 0;
  for (int i = 0; i < j->n; i++) count += (j->verdict->notes[i] & note) != 0;
  return count;
}

// ---- directions the loss does not see ---------------------------------------------------------------------------------
// Eigenvector e, of columns of this length, as changes of the unknowns; the largest is one.
static void name_direction(Judge *j, size_t e, const double *length) {
  size_t n = (size_t)j->n, used = 0;
  char text[400] = "", name[160];
  double largest = 0;

  for (size_t i = 0; i < n; i++)
    if (length[i] > 0) largest = fmax(largest, fabs(j->B[i * n + e]) / length[i]);
  for (size_t i = 0; i < n && used < sizeof text - 1; i++) {
    double part = length[i] > 0 ? j->B[i * n + e] / length[i] / largest : 0;
    if (fabs(part) < 0.01) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%+.3g %s", used ? ", " : "", part,
                             name_of(j, (int)i, name, sizeof name));
  }

  add(j, "the loss does not determine all unknowns: a change by %s together leaves it as it is", text);
}

// Of J'J with columns of length one: eigenvalues below 1e-12 of the largest are rounding.
static void find_unseen(Judge *j) {
  size_t n = (size_t)j->n;
  if (!j->J) return;
  double *length = j->d, most = 0;

  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (size_t k = 0; k < j->task->m; k++) sum += j->J[k * n + i] * j->J[k * n + i];
    length[i] = sqrt(sum);
  }

  memset(j->A, 0, n * n * sizeof(double));
  for (size_t k = 0; k < j->task->m; k++) {
    const double *row = j->J + k * n;
    for (size_t a = 0; a < n; a++) {
      if (length[a] == 0) continue;
      for (size_t b = 0; b < n; b++) j->A[a * n + b] += length[b] > 0 ? row[a] / length[a] * (row[b] / length[b]) : 0;
    }
  }

  for (size_t i = 0; i < n; i++)
    if (length[i] == 0) j->A[i * n + i] = 1;  // those without influence are named already
  hold_lengths(j, j->A, length);
  pbVec_Eigen(j->A, j->B, j->D, j->n);
  for (size_t i = 0; i < n; i++) most = fmax(most, j->D[i]);

  for (size_t e = 0; e < n; e++) {
    if (j->D[e] > 1e-6 * most) continue;
    j->verdict->unseen++;
    if (j->verdict->unseen <= 2) name_direction(j, e, length);
  }
}

// ---- is there anything to gain ----------------------------------------------------------------------------------------
// The Gauss-Newton step on the unknowns that no bound holds, and what it promises. Damped by 1e-12 of the diagonal, so that
// directions the loss does not see do no harm.
static double newton_direction(Judge *j) {
  int n = j->n;
  double *A = j->A, *L = j->B, *p = j->d, promised = 0;

  memset(A, 0, (size_t)n * (size_t)n * sizeof(double));
  for (size_t k = 0; k < j->task->m; k++) {
    const double *row = j->J + k * (size_t)n;
    for (int a = 0; a < n; a++)
      for (int b = 0; b < n && row[a] != 0; b++) A[a * n + b] += row[a] * row[b];
  }

  hold_lengths(j, A, NULL);
  for (int i = 0; i < n; i++) {
    bool stuck = held(j, i) || A[i * n + i] == 0;
    p[i] = stuck ? 0 : -0.5 * j->g[i];
    for (int k = 0; k <= i; k++) {
      bool off = stuck || held(j, k) || A[k * n + k] == 0;
      double sum = i == k ? (off ? 1 : A[i * n + i] * (1 + 1e-12)) : off ? 0 : A[i * n + k];

      for (int l = 0; l < k; l++) sum -= L[i * n + l] * L[k * n + l];
      if (i == k && !(sum > 1e-14 * A[i * n + i])) sum = fmax(A[i * n + i], 1);  // not seen: leave it where it is
      L[i * n + k] = i == k ? sqrt(sum) : sum / L[k * n + k];
    }
  }

  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) p[i] -= L[i * n + k] * p[k];
    p[i] /= L[i * n + i];
  }

  for (int i = n - 1; i >= 0; i--) {
    for (int k = i + 1; k < n; k++) p[i] -= L[k * n + i] * p[k];
    p[i] /= L[i * n + i];
  }

  for (int i = 0; i < n; i++) {
    p[i] = fmin(fmax(j->z[i] + p[i], j->task->lower[i]), j->task->upper[i]) - j->z[i];
    promised -= j->g[i] * p[i];
  }

  for (int a = 0; a < n; a++) promised -= p[a] * pbVec_Dot(A + a * n, p, n);
  return promised;
}

static void downhill(Judge *j) {
  for (int i = 0; i < j->n; i++) j->d[i] = held(j, i) ? 0 : -j->g[i];
}

// Largest entry, relative to 1 + |z|, one.
static bool normalise(Judge *j) {
  double most = 0;
  for (int i = 0; i < j->n; i++) most = fmax(most, fabs(j->d[i]) / (1 + fabs(j->z[i])));
  for (int i = 0; i < j->n && most > 0; i++) j->d[i] /= most;

  return most > 0;
}

typedef struct Line {  // values along d, shortest step first
  double at[DECADES], value[DECADES];
  double slope;  // by the gradient
} Line;

static void along(const Judge *j, double t, double *z) {
  for (int i = 0; i < j->n; i++) z[i] = fmin(fmax(j->z[i] + t * j->d[i], j->task->lower[i]), j->task->upper[i]);
}

static pbStatus look_along(Judge *j, Line *line) {
  line->slope = pbVec_Dot(j->g, j->d, j->n);
  for (int k = 0; k < DECADES; k++) {
    line->at[k] = pow(10, k + 1 - DECADES - 2);
    along(j, line->at[k], j->trial);
    PB_TRY(value_at(j, j->trial, &line->value[k]));
  }

  return pb_ok;
}

// Largest decrease along the line.
static double gain(const Judge *j, const Line *line) {
  double best = 0;
  for (int k = 0; k < DECADES; k++) best = fmax(best, j->value - line->value[k]);
  return best;
}

// What the parabola through the values promises: slope^2 / 2 curvature, where two neighbours agree on the curvature.
static double parabola_gain(const Judge *j, const Line *line) {
  double before = 0;
  for (int k = DECADES - 1; k >= 0; k--) {
    double t = line->at[k], bend = 2 * (line->value[k] - j->value - line->slope * t) / (t * t);
    if (!(fabs(line->value[k] - j->value) > 1e3 * j->noise)) return INFINITY;
    if (bend > 0 && before > 0.5 * bend && before < 2 * bend) return line->slope * line->slope / (2 * bend);
    before = bend;
  }

  return INFINITY;
}

// ---- jumps --------------------------------------------------------------------------------------------------------------
// The first stretch of the line on which the loss changes out of all proportion to its slope.
static bool suspect_jump(const Judge *j, const Line *line, double *low, double *high) {
  double t = 0, value = j->value, steep = fabs(line->slope);
  for (int k = 0; k < DECADES; k++) {
    double dt = line->at[k] - t, change = fabs(line->value[k] - value);
    if (isfinite(line->value[k]) && change > 100 * steep * dt + 1e3 * j->noise + 1e-9 * fabs(j->value)) {
      *low = t;
      *high = line->at[k];
      return true;
    }

    if (!isfinite(line->value[k])) return false;
    if (dt > 0 && change > 1e3 * j->noise) steep = fmax(steep, change / dt);
    t = line->at[k];
    value = line->value[k];
  }

  return false;
}

// Halve it towards where the loss changes most; true where the change stays.
static pbStatus narrow(Judge *j, double *low, double *high, double *jump) {
  double first, last, middle;
  along(j, *low, j->trial);
  PB_TRY(value_at(j, j->trial, &first));
  along(j, *high, j->trial);
  PB_TRY(value_at(j, j->trial, &last));
  double whole = fabs(last - first);

  for (int i = 0; i < BISECTIONS; i++) {
    double t = 0.5 * (*low + *high);
    if (!(t > *low && t < *high) || *high - *low < 1e-15) break;
    along(j, t, j->trial);
    PB_TRY(value_at(j, j->trial, &middle));
    bool right = fabs(last - middle) > fabs(middle - first);
    *(right ? low : high) = t;
    *(right ? &first : &last) = middle;
  }

  *jump = last - first;
  if (!isfinite(*jump) || fabs(*jump) < 0.1 * whole || fabs(*jump) < 1e3 * j->noise) *jump = 0;
  return pb_ok;
}

// ---- the contact behind a jump --------------------------------------------------------------------------------------------
typedef struct Side {  // one of two runs side by side
  double *theta, *x, *ctrl;
  pbScratch *scratch;
} Side;

static void end_side(Judge *j, Side *side) {
  pbScratch_Destroy(side->scratch);
  pbContext_Free(j->task->ctx, side->theta);
  pbContext_Free(j->task->ctx, side->x);
  pbContext_Free(j->task->ctx, side->ctrl);
}

static pbStatus begin_side(Judge *j, double t, int trajectory, Side *side) {
  const pbModel *m = pbTask_Model(j->task);
  size_t controls = (size_t)pbTask_Steps(j->task, trajectory) * (size_t)pb_controls(m);

  along(j, t, j->trial);
  PB_TRY(numbers(j, j->task->ntheta, &side->theta));
  PB_TRY(numbers(j, (size_t)pbModel_StateSize(m), &side->x));
  PB_TRY(numbers(j, controls, &side->ctrl));
  PB_TRY(pbTask_Expand(j->task, j->trial, trajectory, side->theta, side->x, side->ctrl));

  return pbScratch_Create(j->task->ctx, m, NULL, &side->scratch);
}

// How often the pair touches in the step that scratch has just done.
static int touches(const double *pairs, int count, const double *pair) {
  int found = 0;
  for (int i = 0; i < count; i++) found += pairs[2 * i] == pair[0] && pairs[2 * i + 1] == pair[1];
  return found;
}

static int contacts_of(const Side *side, const double **pairs) {
  int rows = 0, cols = 0;
  *pairs = NULL;
  if (pbScratch_Report(side->scratch).contacts == 0) return 0;
  pbScratch_Gather(side->scratch);

  return pbScratch_Field(side->scratch, "contact_geom", pairs, &rows, &cols) && cols == 2 ? rows : 0;
}

// A pair that `more` has and `less` has not, or not as often.
static bool differs(const Side *more, const Side *less, int pair[2]) {
  const double *a, *b;
  int na = contacts_of(more, &a), nb = contacts_of(less, &b);

  for (int i = 0; i < na && i < MOST_PAIRS; i++) {
    if (touches(a, na, a + 2 * i) <= touches(b, nb, a + 2 * i)) continue;
    pair[0] = (int)a[2 * i];
    pair[1] = (int)a[2 * i + 1];

    return true;
  }

  return false;
}

static const char *geom_name(const pbModel *m, int geom, char *text, size_t size) {
  const char *name = geom >= 0 && geom < pbModel_Size(m, "ngeom") ? pbModel_Name(m, pb_objGeom, geom) : NULL;
  if (name && *name) snprintf(text, size, "geom '%s'", name);
  else snprintf(text, size, "geom %d", geom);
  return text;
}

// What the first step in which the runs on both sides differ says; "" where they never do.
static void compare_step(Judge *j, int trajectory, int step, const Side *a, const Side *b, char *text, size_t size) {
  const pbModel *m = pbTask_Model(j->task);
  int pair[2], steps = pbTask_Steps(j->task, trajectory);
  pbReport before = pbScratch_Report(a->scratch), after = pbScratch_Report(b->scratch);
  bool begins = differs(b, a, pair), ends = !begins && differs(a, b, pair);
  char first[120], second[120], where[40] = "";

  if (pbTask_TrajectoryCount(j->task) > 1) snprintf(where, sizeof where, " of trajectory %d", trajectory);
  if (begins || ends)
    snprintf(text, size, "contact of %s and %s %s at step %d of %d%s", geom_name(m, pair[0], first, sizeof first),
             geom_name(m, pair[1], second, sizeof second), begins ? "begins" : "ends", step, steps, where);
  else if (before.rows != after.rows)
    snprintf(text, size, "a limit or another constraint %s at step %d of %d%s", after.rows > before.rows ? "begins" : "ends",
             step, steps, where);
}

static pbStatus step_both(Judge *j, int trajectory, Side sides[2], char *text, size_t size) {
  const pbModel *m = pbTask_Model(j->task);
  int nu = pb_controls(m);

  for (int k = 0; k < pbTask_Steps(j->task, trajectory) && !*text; k++) {
    for (int s = 0; s < 2; s++) {
      pbInput input = {.ctrl = sides[s].ctrl + (size_t)k * (size_t)nu};
      pbStatus status;

      do {
        status = pbStep_Forward(m, sides[s].theta, sides[s].x, &input, sides[s].scratch, NULL);
      } while (pbScratch_Grow(sides[s].scratch, &status));
      if (status != pb_ok) return pb_ok;
    }

    compare_step(j, trajectory, k, &sides[0], &sides[1], text, size);
  }

  return pb_ok;
}

static pbStatus find_contact(Judge *j, double low, double high, char *text, size_t size) {
  text[0] = 0;
  for (int t = 0; t < pbTask_TrajectoryCount(j->task) && !*text; t++) {
    Side sides[2] = {{0}};
    pbStatus status = begin_side(j, low, t, &sides[0]);

    if (status == pb_ok) status = begin_side(j, high, t, &sides[1]);
    if (status == pb_ok) status = step_both(j, t, sides, text, size);
    end_side(j, &sides[0]);
    end_side(j, &sides[1]);
    if (status != pb_ok && !soft(status)) return status;
  }

  return pb_ok;
}

static pbStatus look_for_jump(Judge *j, const Line *line, bool *found) {
  double low, high, jump = 0;
  char contact[320];

  *found = false;
  if (!suspect_jump(j, line, &low, &high)) return pb_ok;
  PB_TRY(narrow(j, &low, &high, &jump));
  if (jump == 0) return pb_ok;
  PB_TRY(find_contact(j, low, high, contact, sizeof contact));
  *found = true;
  say(j, "the loss jumps by %.3g%s%s beside the answer, and no derivative sees a jump", jump, contact[0] ? " where " : "",
      contact);
  add(j,
      "try a smoothed contact first (\"contact\": {\"kappa\": 1000, \"onset\": 0.02}, then smaller) and go on sharp from its "
      "answer; or "
      "\"restarts\", or method cmaes (docs/contact-gradients.md, Choosing)");

  return pb_ok;
}

// ---- the verdict ----------------------------------------------------------------------------------------------------------
static double gradient_tolerance(const Judge *j) {
  double tolerance = j->task->optimizer.gradient_tolerance;
  return tolerance == 0 ? 1e-9 : tolerance;
}

static double projected_norm(const Judge *j) {
  double worst = 0;
  for (int i = 0; i < j->n; i++) {
    double moved = fmin(fmax(j->z[i] - j->g[i], j->task->lower[i]), j->task->upper[i]);
    worst = fmax(worst, fabs(moved - j->z[i]));
  }

  return worst;
}

// Descent is left, or none can be had: which of the two.
static pbStatus stalled(Judge *j, double promised) {
  Line line;
  bool jump = false, looked = false;

  for (int pass = 0; pass < 2; pass++) {
    if (pass == 0 && !(j->J && promised > 0)) continue;  // Newton's direction first, then the gradient's
    if (pass == 1) downhill(j);
    if (!normalise(j)) continue;
    PB_TRY(look_along(j, &line));
    looked = true;
    PB_TRY(look_for_jump(j, &line, &jump));

    if (jump) {
      j->verdict->outcome = pb_runStalledAtJump;
      return pb_ok;
    }

    if (pass == 1 && !j->J && gain(j, &line) <= j->negligible && parabola_gain(j, &line) <= j->negligible) {
      j->verdict->outcome = pb_runConverged;
      say(j, "along its gradient the loss has no more than a hundred-millionth of itself to lose");
      return pb_ok;
    }
  }

  j->verdict->outcome = pb_runStalled;
  if (looked && gain(j, &line) > j->negligible)
    say(j, "the search found no better point, though the loss still falls by %.3g along its gradient: its surface is rough there",
        gain(j, &line));
  else
    say(j,
        "the search found no better point, and the gradient is not zero: a kink of the loss, or a gradient that is not that of "
        "the loss "
        "('pullback check' tells)");

  return pb_ok;
}

static pbStatus no_influence(Judge *j) {
  char names[400];
  list_names(j, pb_unknownInert, names, sizeof names);
  if (names[0]) add(j, "nothing in the loss depends on %s", names);
  if (count_notes(j, pb_unknownInert) < j->n) return pb_ok;
  j->verdict->outcome = pb_runNoInfluence;
  say(j, "the loss depends on none of the variables");

  return pb_ok;
}

static pbStatus judge(Judge *j, bool used_up) {
  double promised = -1;
  note_bounds(j);
  if (j->task->met) {
    j->verdict->outcome = pb_runCriteriaMet;
    say(j, "the stop criteria are met");
    return pb_ok;
  }

  PB_TRY(derivatives(j));
  j->verdict->outcome = used_up ? pb_runIterationLimit : pb_runStalled;
  say(j, used_up ? "the iterations are used up" : "no gradient can be had at the answer: %s", pbContext_Error(j->task->ctx));
  if (!j->smooth) return pb_ok;
  PB_TRY(find_inert(j));
  PB_TRY(no_influence(j));
  if (j->verdict->outcome == pb_runNoInfluence) return pb_ok;
  find_unseen(j);
  int kinks = count_notes(j, pb_unknownKink);
  if (j->J) promised = newton_direction(j);
  const char *why = kinks > 0                                    ? NULL
                    : j->value == 0                              ? "the loss is zero"
                    : projected_norm(j) <= gradient_tolerance(j) ? "the gradient is zero to within its tolerance"
                    : j->J && promised <= j->negligible
                        ? "a full Newton step would gain less than a hundred-millionth of the loss"
                        : NULL;

  if (why) {
    j->verdict->outcome = pb_runConverged;
    say(j, "%s", why);
    return pb_ok;
  }

  if (used_up) return pb_ok;
  if (kinks > 0) {
    j->verdict->outcome = pb_runStalled;
    say(j, "the gradient is zero at a kink or bound, and the loss falls beside it");
    return pb_ok;
  }

  return stalled(j, promised);
}

pbStatus pbTask_Judge(pbTask *task, bool used_up) {
  Judge j = {.task = task, .verdict = &task->verdict, .z = task->result_z, .n = task->n};
  unsigned char *notes = task->verdict.notes;

  memset(notes, 0, (size_t)task->n);
  task->verdict = (pbVerdict){.notes = notes};
  pbStatus status = judge(&j, used_up);
  double *all[] = {j.g, j.trial, j.d, j.J, j.A, j.B, j.D, j.residuals};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(task->ctx, all[i]);

  return status;
}
