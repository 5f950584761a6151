// How sure a fit is of its answer: covariance, interval, correlations of the unknowns from the curvature of the loss, and whether
// the deviations look as noise does. Seber & Wild, Nonlinear Regression (1989), sections 2.1.2, 5.3; Huber 1967 for the sandwich.
// Tests: tests/unit/test_uncertainty.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "optimize/inertia.h"
#include "optimize/optimizer.h"
#include "optimize/sureness.h"

enum { MOST_UNKNOWNS = 600 };
static const double most_numbers = 1e8;    // of the Jacobian
static const double undetermined = 1e-11;  // an eigenvalue relative to the largest, of columns of length one: rounding

void pbSureness_Free(pbContext *ctx, pbSureness *s) {
  if (!s) return;
  pbContext_Free(ctx, s->numbers);
  pbContext_Free(ctx, s->determined);
  pbContext_Free(ctx, s->cluster);
  pbContext_Free(ctx, s);
}

// ---- quantiles of 95 % ----------------------------------------------------------------------------------------------
// Student's of few degrees, and its expansion about the normal one (Abramowitz & Stegun 26.7.5), from there on to 5e-6.
static double student(int degrees) {
  PB_ASSERT(degrees > 0);
  static const double few[] = {12.706204736175, 4.3026527297495, 3.1824463052837, 2.7764451051978, 2.5705818356363,
                               2.4469118511450, 2.3646242515928, 2.3060041352042, 2.2621571627982, 2.2281388519863};
  const double z = 1.959963984540054, z2 = z * z;
  double v = degrees;
  if (degrees <= 10) return few[degrees - 1];

  // coefficients of 1/v, 1/v^2, ...
  double g1 = z * (z2 + 1) / 4, g2 = z * ((5 * z2 + 16) * z2 + 3) / 96, g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  double g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;

  return z + (g1 + (g2 + (g3 + g4 / v) / v) / v) / v;
}

// ---- which unknowns are determined ------------------------------------------------------------------------------------
static const pbVariable *variable_of(const pbTask *task, int i) {
  const pbVariable *v = task->variables;
  while (i >= v->first + v->count) v++;
  return v;
}

// The length of an axis or quaternion has no meaning: as well determined as anything, and of no variance.
static void hold_lengths(const pbTask *task, const double *z, pbSureness *s) {
  int n = task->n;
  for (int i = 0; i < n; i++) {
    const pbVariable *v = variable_of(task, i);
    const pbDirectionRow *row = pbVariable_Row(v, i - v->first);
    if (!row || row->at[0] != i - v->first) continue;

    // once for each row, at its first component
    double squared = 0, size = 0;
    for (int c = 0; c < row->size; c++) {
      int k = v->first + row->at[c];
      squared += z[k] * z[k];
      size = fmax(size, s->A[k * n + k]);
    }

    // z z' / |z|^2 is the length alone, as curved as the most curved component
    for (int a = 0; a < row->size; a++) {
      for (int b = 0; b < row->size; b++) {
        int at = (v->first + row->at[a]) * n + v->first + row->at[b];
        if (squared > 0) s->A[at] += size * z[v->first + row->at[a]] * z[v->first + row->at[b]] / squared;
      }
    }
  }
}

static void leave_out(pbSureness *s, int i, int n) {
  for (int k = 0; k < n; k++) s->A[i * n + k] = s->A[k * n + i] = 0;
}

// Of all samples by a move of unknown i by its own size.
static double influence(const pbSureness *s, const double *z, int i, int n) {
  return sqrt(fmax(s->A[i * n + i], 0)) * (1 + fabs(z[i]));
}

// Unknowns at their bounds are held, and those that nothing depends on, but by rounding, are not known.
static void sort_out(const pbTask *task, const double *z, pbSureness *s) {
  int n = task->n;
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, influence(s, z, i, n));

  // bounds first: what they hold may well be seen
  for (int i = 0; i < n; i++) {
    s->determined[i] = z[i] <= task->lower[i] || z[i] >= task->upper[i] ? pb_isAtBound : pb_isDetermined;
    bool unseen = !(influence(s, z, i, n) > undetermined * most);
    if (s->determined[i] == pb_isDetermined && unseen) s->determined[i] = pb_isUndetermined;
    if (s->determined[i] != pb_isDetermined) leave_out(s, i, n);
    s->length[i] = s->A[i * n + i] > 0 ? sqrt(s->A[i * n + i]) : 0;
  }

  // columns of length one; what is left out is a direction of its own
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++)
      s->A[i * n + k] = s->length[i] && s->length[k] ? s->A[i * n + k] / (s->length[i] * s->length[k]) : 0;
  }
}

// Eigenvectors with their roots, and which unknowns take part in directions that are rounding.
static int decompose(pbSureness *s, int n, double *most, double *least) {
  int count = 0;
  pbVec_Eigen(s->A, s->V, s->L, n);

  // roots of eigenvalues, squared
  *most = 0;
  for (int k = 0; k < n; k++) *most = fmax(*most, s->L[k] * s->L[k]);

  *least = *most;
  for (int k = 0; k < n; k++) {
    double value = s->L[k] * s->L[k];
    if (value > undetermined * *most) {
      *least = fmin(*least, value);
      count++;
      continue;
    }

    // rounding: whoever has a part in this direction is not determined
    s->L[k] = 0;
    for (int i = 0; i < n; i++) {
      bool takes_part = s->length[i] > 0 && fabs(s->V[i * n + k]) > 1e-4;
      if (takes_part && s->determined[i] == pb_isDetermined) s->determined[i] = pb_isUndetermined;
    }
  }

  return count;
}

// The spread of clusters tells nothing of what one of them alone sees.
static void mark_clusters(pbSureness *s, int n) {
  for (int i = 0; i < n; i++) {
    if (s->told.clusters && s->determined[i] == pb_isDetermined && s->cluster[i] >= 0) s->determined[i] = pb_isOfOneCluster;
  }
}

// C = P B P with P the inverse of A where it has one, all of columns of length one.
static void invert(pbSureness *s, int n) {
  // P from the eigenvectors; B to the lengths that A has
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) {
      double sum = 0;
      for (int e = 0; e < n; e++) {
        if (s->L[e] > 0) sum += s->V[i * n + e] * s->V[k * n + e] / (s->L[e] * s->L[e]);
      }
      s->P[i * n + k] = sum;
      bool left_out = !(s->length[i] > 0 && s->length[k] > 0);
      s->B[i * n + k] = left_out ? 0 : s->B[i * n + k] / (s->length[i] * s->length[k]);
    }
  }

  // P B, where A is not needed any more
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) {
      double sum = 0;
      for (int e = 0; e < n; e++) sum += s->P[i * n + e] * s->B[e * n + k];
      s->A[i * n + k] = sum;
    }
  }

  // (P B) P, back in the minimizer's coordinates
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) {
      double sum = 0;
      for (int e = 0; e < n; e++) sum += s->A[i * n + e] * s->P[e * n + k];
      s->C[i * n + k] = s->length[i] > 0 && s->length[k] > 0 ? sum / (s->length[i] * s->length[k]) : 0;
    }
  }
}

// ---- of values --------------------------------------------------------------------------------------------------------
// Values of axes, quaternions and inertias depend on several unknowns each.
static bool is_coupled(const pbVariable *v) { return v->row_count || v->kind == pb_varyInertia; }

// Covariance of the values i and k.
static double covariance(const pbTask *task, const double *z, const pbSureness *s, int i, int k) {
  const pbVariable *vi = variable_of(task, i), *vk = variable_of(task, k);
  int n = task->n;
  if (!is_coupled(vi) && !is_coupled(vk)) return pbTask_ValueSlope(task, i) * pbTask_ValueSlope(task, k) * s->C[i * n + k];

  // by all unknowns that either value depends on
  double sum = 0;
  for (int a = vi->first; a < vi->first + vi->count; a++) {
    double by = pbTask_ValueBy(task, z, i, a);
    int end = by != 0 ? vk->first + vk->count : 0;
    for (int b = vk->first; b < end; b++) sum += by * s->C[a * n + b] * pbTask_ValueBy(task, z, k, b);
  }

  return sum;
}

// The interval is that of the minimizer's coordinate: of a logarithm one by factors. Axes have no coordinate of their own.
static void bound(const pbTask *task, const double *z, pbSureness *s, int i) {
  const pbVariable *v = variable_of(task, i);
  PB_ASSERT(i >= 0 && i < task->n && s->deviation[i] >= 0);
  double wide = s->told.quantile * s->deviation[i];
  char name[256];
  s->lower[i] = task->value[i] - wide;
  s->upper[i] = task->value[i] + wide;
  if (!v->logarithm) return;

  // both ends in the minimizer's coordinate, and their values
  memcpy(s->z, z, (size_t)task->n * sizeof *z);
  double of_z = s->told.quantile * sqrt(s->C[i * task->n + i]);
  s->z[i] = z[i] - of_z;
  pbTask_Unknown(task, i, s->z, name, sizeof name, &s->lower[i]);
  s->z[i] = z[i] + of_z;
  pbTask_Unknown(task, i, s->z, name, sizeof name, &s->upper[i]);
}

// Whether value i of an inertia stays where the unknowns move along what the samples do not see. Its ten unknowns are none of its
// values: what is said of an unknown is said of no value.
static bool is_value_seen(const pbTask *task, const double *z, const pbSureness *s, int i) {
  const pbVariable *v = variable_of(task, i);
  int n = task->n, end = v->first + v->count;
  double by[PB_INERTIA], most = 0;
  for (int a = v->first; a < end; a++) most = fmax(most, fabs(by[a - v->first] = pbTask_ValueBy(task, z, i, a)));
  if (most == 0) return false;  // it is at the end of what it can be
  for (int a = v->first; a < end; a++) {
    if (s->length[a] == 0 && fabs(by[a - v->first]) > 1e-9 * most) return false;
  }

  // Along directions that are rounding: more than what parts of it that cancel leave.
  for (int e = 0; e < n; e++) {
    double move = 0, size = 0;
    if (s->L[e] > 0) continue;
    for (int a = v->first; a < end; a++) {
      if (s->length[a] == 0 || fabs(s->V[a * n + e]) < 1e-4) continue;
      double part = s->V[a * n + e] / s->length[a] * by[a - v->first];
      move += part;
      size += fabs(part);
    }
    if (fabs(move) > 1e-3 * size) return false;
  }
  return true;
}

static void sort_values(const pbTask *task, const double *z, pbSureness *s) {
  for (const pbVariable *v = task->variables; v < task->variables + task->variable_count; v++) {
    int count = v->kind == pb_varyInertia ? v->count : 0;
    for (int i = v->first; i < v->first + count; i++)
      s->determined[i] = is_value_seen(task, z, s, i) ? pb_isDetermined : pb_isUndetermined;
  }
}

static void tell_values(const pbTask *task, const double *z, pbSureness *s) {
  int n = task->n;
  sort_values(task, z, s);

  // no number for what is not determined
  for (int i = 0; i < n; i++) {
    s->deviation[i] = s->lower[i] = s->upper[i] = NAN;
    if (s->determined[i] != pb_isDetermined) continue;
    s->deviation[i] = sqrt(fmax(covariance(task, z, s, i, i), 0));
    bound(task, z, s, i);
  }

  // rounding may take a correlation beyond one
  for (int i = 0; i < n; i++) {
    for (int k = 0; k <= i; k++) {
      double size = s->deviation[i] * s->deviation[k], one = size > 0 ? 1 : NAN;
      double c = i == k || isnan(one) ? one : fmin(fmax(covariance(task, z, s, i, k) / size, -1), 1);
      s->correlation[i * n + k] = s->correlation[k * n + i] = c;
    }
  }
}

// ---- in words -----------------------------------------------------------------------------------------------------------
// The largest parts of a direction: "body_mass:arm +0.3, dof_damping:elbow -0.02".
static void name_direction(const pbTask *task, const double *z, const pbSureness *s, int e, double size, char *text,
                           size_t room) {
  int n = task->n;
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(s->V[i * n + e]));

  int named = 0;
  for (int i = 0; i < n && named < 5; i++) {
    // what is small beside the largest part says nothing
    char name[160];
    const pbVariable *v = variable_of(task, i);

    // the value's own move, in its unit
    double move = 0, parts = 0;
    bool moves = v->kind != pb_varyInertia && s->length[i] > 0 && fabs(s->V[i * n + e]) >= 0.1 * most;
    for (int k = v->first; k < v->first + v->count; k++) {
      double by = s->length[k] > 0 && (k == i || is_coupled(v)) ? pbTask_ValueBy(task, z, i, k) : 0;
      double part = by != 0 ? size * s->V[k * n + e] / s->length[k] * by : 0;
      move += part;
      parts += fabs(part);
      moves = moves || (v->kind == pb_varyInertia && by != 0 && fabs(s->V[k * n + e]) >= 0.1 * most);
    }

    // Of an inertia a value moves with some of ten unknowns, or they cancel in it.
    if (!moves || fabs(move) <= 1e-3 * parts) continue;
    pbTask_Unknown(task, i, z, name, sizeof name, NULL);
    size_t used = strlen(text);
    snprintf(text + used, room - used, "%s%.100s %+.3g", named++ ? ", " : "", name, move);
  }
}

// A direction, of columns of length one, becomes what moves with it by one standard deviation along it, and its variance is told:
// by the covariance, which is more than the curvature's inverse where slopes have another variance (losses that are no squares,
// priors beside samples of unknown sigma). By that inverse it is the direction itself.
static double variance_along(const pbSureness *s, int e, int n) {
  double sum = 0;
  PB_ASSERT(e >= 0 && e < n && s->L[e] > 0);
  for (int i = 0; i < n; i++) {
    double moved = 0;
    for (int k = 0; k < n; k++) moved += s->C[i * n + k] * s->length[k] * s->V[k * n + e];
    s->z[i] = moved * s->length[i];
    sum += s->z[i] * s->V[i * n + e];
  }
  return fmax(sum, 0);
}

static void tell_weakest(const pbTask *task, const double *z, pbSureness *s) {
  int n = task->n, weakest = -1, unknown = -1;
  double largest = 0;
  s->weakest[0] = 0;
  for (int e = 0; e < n; e++) {
    bool real = false;
    for (int i = 0; i < n; i++) real = real || (s->length[i] > 0 && fabs(s->V[i * n + e]) > 1e-4);

    // an unknown that was left out is a direction of its own
    if (!real) continue;
    double variance = s->L[e] > 0 ? variance_along(s, e, n) : 0;
    if (s->L[e] == 0) unknown = e;
    else if (weakest < 0 || variance > largest) weakest = e;
    largest = fmax(largest, variance);
  }

  // first what is not known at all: a move of the size of the largest part
  if (unknown >= 0) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, s->length[i] > 0 ? fabs(s->V[i * n + unknown] / s->length[i]) : 0);
    snprintf(s->weakest, sizeof s->weakest, "not determined: the samples do not see ");
    name_direction(task, z, s, unknown, 1 / most, s->weakest, sizeof s->weakest);
    strncat(s->weakest, " together", sizeof s->weakest - strlen(s->weakest) - 1);
    return;
  }

  // else by how much it may be off
  if (weakest < 0) return;
  double deviation = sqrt(variance_along(s, weakest, n)), share = deviation > 0 ? 1 / deviation : 0;
  for (int i = 0; i < n; i++) s->V[i * n + weakest] = share * s->z[i];
  snprintf(s->weakest, sizeof s->weakest, "determined least: ");
  name_direction(task, z, s, weakest, 1, s->weakest, sizeof s->weakest);
  strncat(s->weakest, " together (one standard deviation)", sizeof s->weakest - strlen(s->weakest) - 1);
}

// Chance leaves four deviations of either once in ten thousand fits.
static void warn(pbSureness *s, const pbSums *sums) {
  const pbUncertainty *u = &s->told;
  double spread = sqrt(2.0 / u->degrees), neighbors = sums->pairs > 0 ? 4 / sqrt(sums->pairs) : INFINITY;
  bool exact = u->sigma && u->chi_square < 1e-6;  // data without noise: what is left is rounding
  bool related = u->autocorrelation > neighbors && u->autocorrelation > 0.1 && !exact;
  const char *outliers = related || sums->robust < sums->m ? "; the intervals are too narrow" : ", or some samples are outliers";
  const char *narrow = u->clusters ? "" : outliers;
  s->warning[0] = 0;

  if (u->sigma && u->chi_square > 1 + 4 * spread)
    snprintf(s->warning, sizeof s->warning,
             "the deviations are %.3g times as large as \"sigma\" says%s: the model cannot be right, or sigma is too small%s",
             sqrt(u->chi_square), related ? " and follow one another" : "", narrow);
  else if (related)
    snprintf(s->warning, sizeof s->warning,
             "deviations follow one another (correlation %.2f of a sample with the next): the model misses something that the "
             "recording shows%s",
             u->autocorrelation, narrow);
  else if (u->sigma && u->chi_square < 1 - 4 * spread)
    snprintf(s->warning, sizeof s->warning,
             "the deviations are %.3g times as large as \"sigma\" says: sigma is too large, and so are the intervals",
             sqrt(u->chi_square));
}

// ---- all of it ----------------------------------------------------------------------------------------------------------
static const char *no_fit(const pbTask *task, pbSureness *s, size_t m) {
  int n = task->n;
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    for (int i = 0; i < set->count; i++) {
      const pbTerm *term = &set->terms[i];
      if (!term->hosted && term->type != pb_termLinear && term->weight >= 0) continue;
      snprintf(s->why, sizeof s->why, "term '%.100s' is no deviation whose size counts", term->name);
      return s->why;
    }
  }

  // what takes no share in one sum of deviations, or too much memory
  if (task->clustered && pbSureness_Clusters(task) < 2)
    snprintf(s->why, sizeof s->why, "a single cluster has no spread that tells how sure it is");
  else if (pbTask_Sampled(task)) snprintf(s->why, sizeof s->why, "the loss is a mean over drawn worlds");
  else if (pbTask_IsTruncated(task)) snprintf(s->why, sizeof s->why, "gradients are truncated");
  else if (n > MOST_UNKNOWNS || (double)m * n > most_numbers)
    snprintf(s->why, sizeof s->why, "%d unknowns and %zu samples are too many (%d unknowns, %.0g numbers)", n, m,
             (int)MOST_UNKNOWNS, most_numbers);
  else return NULL;
  return s->why;
}

static pbStatus allocate(pbTask *task, pbSureness *s, size_t m) {
  size_t n = (size_t)task->n, squares = n * n;
  size_t sums = task->clustered ? n * (size_t)task->trajectory_count : 0;
  double **pieces[] = {&s->J,           &s->d, &s->A,      &s->B,         &s->V,     &s->P,     &s->C, &s->sum,
                       &s->correlation, &s->L, &s->length, &s->deviation, &s->lower, &s->upper, &s->z};
  const size_t sizes[] = {m * n, m, squares, squares, squares, squares, squares, sums, squares, n, n, n, n, n, n};
  enum { PIECES = sizeof sizes / sizeof *sizes };
  size_t total = 1;
  for (int i = 0; i < PIECES; i++) total += sizes[i];

  s->numbers = pbContext_AllocArray(task->ctx, total, sizeof(double));
  s->determined = pbContext_AllocArray(task->ctx, n + 1, 1);
  s->cluster = pbContext_AllocArray(task->ctx, n + 1, sizeof *s->cluster);
  if (!s->numbers || !s->determined || !s->cluster)
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the uncertainty", task->name);

  for (size_t i = 0; i < n; i++) s->cluster[i] = pb_seenByNone;
  // one block, in the pieces' order
  double *next = s->numbers;
  for (int i = 0; i < PIECES; i++) {
    *pieces[i] = next;
    next += sizes[i];
  }

  return pb_ok;
}

// From the deviations and their Jacobian at z.
static void tell(pbTask *task, const double *z, pbSureness *s) {
  pbUncertainty *u = &s->told;
  int n = task->n;
  double most, least;
  pbSums sums = {0};
  u->clusters = pbSureness_Clusters(task);
  pbSureness_Add(task, s, &sums);
  sums.squares += pbTask_Prior(task, z, NULL);

  // Curvature of terms whose slopes are to be estimated is in P: times the variance it joins the others.
  hold_lengths(task, z, s);
  sort_out(task, z, s);
  int known = decompose(s, n, &most, &least);
  mark_clusters(s, n);
  for (int v = 0; v < task->variable_count; v++) known -= task->variables[v].row_count;
  u->samples = sums.m;
  u->degrees = (int)sums.m + task->prior_count - known;
  u->sigma = sums.known == sums.m;
  u->condition = least > 0 ? most / least : INFINITY;
  if (u->degrees < 1) {
    snprintf(s->why, sizeof s->why, "%zu samples do not determine %d unknowns", sums.m, known);
    u->why = s->why;
    return;
  }

  u->chi_square = (sums.squares + sums.estimated) / u->degrees;
  u->residual = sqrt(sums.bare / (double)sums.m);
  u->quantile = u->sigma ? 1.959963984540054 : student(u->degrees);
  if (u->clusters) u->quantile = student(u->clusters - 1);
  u->autocorrelation = sums.pairs >= 8 && sums.own > 0 ? sums.products / sums.own : NAN;
  double share = (double)u->degrees / (double)sums.m, unknown = (double)(sums.m - sums.known) * share;
  double variance = unknown > 0 ? sums.estimated / unknown : 0;

  // slopes of clusters are as large as they are
  if (u->clusters) variance = 0;
  for (int i = 0; i < n * n; i++) s->B[i] += variance * s->P[i];

  invert(s, n);
  tell_values(task, z, s);
  tell_weakest(task, z, s);
  warn(s, &sums);
}

pbStatus pbTask_Uncertainty(pbTask *task, const double *z, const pbUncertainty **uncertainty) {
  pbContext *ctx = task->ctx;
  size_t m = 0;
  *uncertainty = NULL;
  pbSureness_Free(ctx, task->sureness);

  // of the answer before nothing stays
  pbSureness *s = task->sureness = pbContext_Alloc(ctx, sizeof *s);
  if (!s) return pbContext_Fail(ctx, pb_no_memory, "%s: no memory for the uncertainty", task->name);

  for (int t = 0; t < task->trajectory_count; t++)
    m += task->trajectories[t].test ? 0 : pbTermSet_Samples(&task->trajectories[t].terms);

  // where there is none, the reason is what is told
  s->told.why = no_fit(task, s, m);
  if (s->told.why) {
    *uncertainty = &s->told;
    return pb_ok;
  }
  PB_TRY(allocate(task, s, m));

  // once more at the answer: the last evaluation may have been elsewhere
  task->same = false;
  PB_TRY(pbTask_Apply(task, z));
  PB_TRY(pbTask_EachDeviation(task, z, s->d, s->J));

  // what is told is part of the memory
  s->told.determined = s->determined;
  s->told.deviation = s->deviation;
  s->told.lower = s->lower;
  s->told.upper = s->upper;
  s->told.correlation = s->correlation;
  s->told.weakest = s->weakest;
  s->told.warning = s->warning;
  tell(task, z, s);
  PB_ASSERT(s->told.why || s->told.degrees > 0);
  *uncertainty = &s->told;

  return pb_ok;
}
