// How sure a fit is of its answer: covariance, interval, correlations of the unknowns from the curvature of the loss, and whether
// the deviations look as noise does. Seber & Wild, Nonlinear Regression (1989), sections 2.1.2, 5.3; Huber 1967 for the sandwich.
// Tests: tests/unit/test_uncertainty.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "optimize/optimizer.h"
#include "optimize/terms.h"

enum { MOST_UNKNOWNS = 600 };
static const double most_numbers = 1e8;    // of the Jacobian
static const double undetermined = 1e-11;  // an eigenvalue relative to the largest, of columns of length one: rounding

typedef struct pbSureness {  // memory of it all
  pbUncertainty told;
  double *numbers;
  unsigned char *determined;
  double *J, *d;                  // m x n, m
  double *A, *B, *V, *L, *P, *C;  // n x n: curvature, slopes' squares; eigenvectors, roots of eigenvalues (n); products
  double *length;                 // n: of the columns
  double *deviation, *lower, *upper, *z, *correlation;
  char why[200], weakest[600], warning[600];
} Sureness;

void pbSureness_Free(pbContext *ctx, Sureness *s) {
  if (!s) return;
  pbContext_Free(ctx, s->numbers);
  pbContext_Free(ctx, s->determined);
  pbContext_Free(ctx, s);
}

// ---- quantiles of 95 % ----------------------------------------------------------------------------------------------
// Student's by its expansion about the normal one (Abramowitz & Stegun 26.7.5); of one and two degrees in closed form.
static double student(int degrees) {
  const double z = 1.959963984540054, z2 = z * z;
  double v = degrees;
  if (degrees == 1) return 12.706204736432095;
  if (degrees == 2) return 4.302652729911275;

  double g1 = z * (z2 + 1) / 4, g2 = z * ((5 * z2 + 16) * z2 + 3) / 96, g3 = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
  double g4 = z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160;
  return z + (g1 + (g2 + (g3 + g4 / v) / v) / v) / v;
}

// ---- curvature and slopes of the loss ---------------------------------------------------------------------------------
// Half the second and the first derivative of what a deviation adds to the loss; of a norm the terms of one time belong together.
typedef struct Weight {
  double curvature, slope;
} Weight;

static bool counts(const pbTerm *t, double d) {
  if (t->type == pb_termAbove) return d < 0;
  if (t->type == pb_termBelow) return d > 0;
  return true;
}

static Weight weigh(const pbTerm *t, double weight, double d) {
  if (!counts(t, d)) return (Weight){0, 0};
  if (t->type != pb_termHuber || fabs(d) <= t->delta) return (Weight){weight, weight * d};
  return (Weight){0, weight * copysign(t->delta, d)};
}

// Of squares that state a sigma the slopes are as large as that says; else as large as they are.
static bool is_known(const pbTerm *t) { return t->sigma && t->type != pb_termHuber && t->type != pb_termNorm; }
static bool is_plain(const pbTerm *t) { return t->type != pb_termHuber && t->type != pb_termNorm; }

static void add_outer(double *A, const double *row, double weight, int n) {
  for (int i = 0; i < n; i++) {
    double x = weight * row[i];
    for (int k = 0; k <= i; k++) A[i * n + k] += x * row[k];
  }
}

// The deviations of one time, whose norm is what counts: with e = d / |d| the curvature (1 - e e') / |d|, the slope e.
static void add_norm(Sureness *s, const pbTerm *t, double weight, size_t first, int count, int n) {
  double *sum = s->z, squares = t->epsilon * t->epsilon;
  for (int i = 0; i < count; i++) squares += s->d[first + (size_t)i] * s->d[first + (size_t)i];
  double norm = sqrt(squares);

  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int i = 0; i < count; i++) {
    const double *row = s->J + (first + (size_t)i) * (size_t)n;
    for (int k = 0; k < n; k++) sum[k] += s->d[first + (size_t)i] / norm * row[k];
    add_outer(s->A, row, 0.5 * weight / norm, n);
  }
  add_outer(s->A, sum, -0.5 * weight / norm, n);
  add_outer(s->B, sum, 0.25 * weight * weight, n);
}

// What is summed over all deviations.
typedef struct Sums {
  size_t m, known, at;        // deviations, those with sigma; the next one
  double squares, estimated;  // weighted, of those with sigma and of those without
  double products, own;       // of neighbors in time, of each with itself
  double bare;                // squares without weights
  int pairs;
} Sums;

// Slopes of terms with sigma have the variance of one sigma; of others without it the variance is put in later, as A stands in B.
static void add_term(Sureness *s, const pbTermSet *set, const pbTerm *t, int n, Sums *sums) {
  pbMoment p = {.row = 0};
  for (int k = 0; k < t->step_count; k++) {
    p = pbTerm_Moment(set, t, k, p.row);
    int count = 0;
    for (int i = 0; i < t->part_count; i++) count += !isnan(p.target[t->parts[i].target]);
    if (t->type == pb_termNorm) add_norm(s, t, p.weight, sums->at, count, n);

    for (int i = 0; i < count; i++) {
      size_t at = sums->at + (size_t)i;
      double d = s->d[at];
      Weight w = weigh(t, p.weight, d);
      sums->bare += d * d;
      if (is_known(t)) sums->squares += w.slope * d;
      else sums->estimated += w.slope * d;
      if (t->type == pb_termNorm) continue;

      const double *row = s->J + at * (size_t)n;
      add_outer(s->A, row, w.curvature, n);
      if (!is_plain(t)) add_outer(s->B, row, w.slope * w.slope, n);
      else if (is_known(t)) add_outer(s->B, row, w.curvature * w.curvature, n);
      else add_outer(s->P, row, w.curvature, n);
    }

    sums->at += (size_t)count;
    sums->m += (size_t)count;
    sums->known += t->sigma ? (size_t)count : 0;
  }
}

// Each component with itself at the time before: with gaps the last one that there is.
static void correlate_term(const Sureness *s, const pbTermSet *set, const pbTerm *t, size_t first, Sums *sums) {
  for (int i = 0; i < t->part_count; i++) {
    pbMoment p = {.row = 0};
    size_t at = first;
    double before = NAN;
    for (int k = 0; k < t->step_count; k++) {
      p = pbTerm_Moment(set, t, k, p.row);
      for (int j = 0; j < t->part_count; j++) {
        if (isnan(p.target[t->parts[j].target])) continue;
        double d = s->d[at++];
        if (j != i) continue;
        sums->own += p.weight * d * d;
        if (!isnan(before)) sums->products += p.weight * before * d;
        sums->pairs += !isnan(before);
        before = d;
      }
    }
  }
}

static void mirror(double *A, int n) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < i; k++) A[k * n + i] = A[i * n + k];
  }
}

static void add_all(pbTask *task, Sureness *s, Sums *sums) {
  int n = task->n;
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;
    int terms = task->trajectories[t].test ? 0 : set->count;
    for (int i = 0; i < terms; i++) {
      size_t first = sums->at;
      add_term(s, set, &set->terms[i], n, sums);
      if (set->terms[i].recorded) correlate_term(s, set, &set->terms[i], first, sums);
    }
  }

  // What is known before counts as samples with a sigma do.
  for (int i = 0; i < n && task->prior_count; i++) {
    double squared = task->prior_weight[i] * task->prior_weight[i];
    s->A[i * n + i] += squared;
    s->B[i * n + i] += squared;
  }

  mirror(s->A, n);
  mirror(s->B, n);
  mirror(s->P, n);
}

// ---- which unknowns are determined ------------------------------------------------------------------------------------
static const pbVariable *variable_of(const pbTask *task, int i) {
  const pbVariable *v = task->variables;
  while (i >= v->first + v->count) v++;
  return v;
}

// The length of an axis or quaternion has no meaning: as well determined as anything, and of no variance.
static void hold_lengths(const pbTask *task, const double *z, Sureness *s) {
  int n = task->n;
  for (int i = 0; i < n; i++) {
    const pbVariable *v = variable_of(task, i);
    const pbDirectionRow *row = pbVariable_Row(v, i - v->first);
    if (!row || row->at[0] != i - v->first) continue;

    double squared = 0, size = 0;
    for (int c = 0; c < row->size; c++) {
      int k = v->first + row->at[c];
      squared += z[k] * z[k];
      size = fmax(size, s->A[k * n + k]);
    }
    for (int a = 0; a < row->size; a++) {
      for (int b = 0; b < row->size; b++) {
        int at = (v->first + row->at[a]) * n + v->first + row->at[b];
        if (squared > 0) s->A[at] += size * z[v->first + row->at[a]] * z[v->first + row->at[b]] / squared;
      }
    }
  }
}

static void leave_out(Sureness *s, int i, int n) {
  for (int k = 0; k < n; k++) s->A[i * n + k] = s->A[k * n + i] = 0;
}

// Of all samples by a move of unknown i by its own size.
static double influence(const Sureness *s, const double *z, int i, int n) {
  return sqrt(fmax(s->A[i * n + i], 0)) * (1 + fabs(z[i]));
}

// Unknowns at their bounds are held, and those that nothing depends on, but by rounding, are not known.
static void sort_out(const pbTask *task, const double *z, Sureness *s) {
  int n = task->n;
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, influence(s, z, i, n));
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
static int decompose(Sureness *s, int n, double *most, double *least) {
  int count = 0;
  pbVec_Eigen(s->A, s->V, s->L, n);
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

    s->L[k] = 0;
    for (int i = 0; i < n; i++) {
      bool takes_part = s->length[i] > 0 && fabs(s->V[i * n + k]) > 1e-4;
      if (takes_part && s->determined[i] == pb_isDetermined) s->determined[i] = pb_isUndetermined;
    }
  }

  return count;
}

// C = P B P with P the inverse of A where it has one, all of columns of length one.
static void invert(Sureness *s, int n) {
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

  for (int i = 0; i < n; i++) {
    for (int k = 0; k < n; k++) {
      double sum = 0;
      for (int e = 0; e < n; e++) sum += s->P[i * n + e] * s->B[e * n + k];
      s->A[i * n + k] = sum;
    }
  }
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

// Whether no move that the samples do not see changes value i of a body.
static bool is_seen(const pbTask *task, const double *z, const Sureness *s, const pbVariable *v, int i) {
  int n = task->n, end = v->first + v->count;
  double size = 0;
  for (int a = v->first; a < end; a++) {
    double by = pbTask_ValueBy(task, z, i, a);
    if (by != 0 && !(s->length[a] > 0)) return false;
    size += by != 0 ? by * by / (s->length[a] * s->length[a]) : 0;
  }

  for (int e = 0; e < n; e++) {
    double along = 0;
    if (s->L[e] > 0) continue;
    for (int a = v->first; a < end; a++) {
      if (s->length[a] > 0) along += pbTask_ValueBy(task, z, i, a) / s->length[a] * s->V[a * n + e];
    }
    if (fabs(along) > 1e-4 * sqrt(size)) return false;
  }
  return true;
}

// A body's mass or moment may be determined where the unknowns that make it are not, and the other way round.
static void sort_out_bodies(const pbTask *task, const double *z, Sureness *s) {
  for (int k = 0; k < task->variable_count; k++) {
    const pbVariable *v = &task->variables[k];
    if (v->kind != pb_varyInertia) continue;
    for (int i = v->first; i < v->first + v->count; i++)
      s->determined[i] = is_seen(task, z, s, v, i) ? pb_isDetermined : pb_isUndetermined;
  }
}

// Covariance of the values i and k.
static double covariance(const pbTask *task, const double *z, const Sureness *s, int i, int k) {
  const pbVariable *vi = variable_of(task, i), *vk = variable_of(task, k);
  int n = task->n;
  if (!is_coupled(vi) && !is_coupled(vk)) return pbTask_ValueSlope(task, i) * pbTask_ValueSlope(task, k) * s->C[i * n + k];

  double sum = 0;
  for (int a = vi->first; a < vi->first + vi->count; a++) {
    double by = pbTask_ValueBy(task, z, i, a);
    int end = by != 0 ? vk->first + vk->count : 0;
    for (int b = vk->first; b < end; b++) sum += by * s->C[a * n + b] * pbTask_ValueBy(task, z, k, b);
  }
  return sum;
}

// The interval is that of the minimizer's coordinate: of a logarithm one by factors. Axes have no coordinate of their own.
static void bound(const pbTask *task, const double *z, Sureness *s, int i) {
  const pbVariable *v = variable_of(task, i);
  double wide = s->told.quantile * s->deviation[i];
  char name[256];
  s->lower[i] = task->value[i] - wide;
  s->upper[i] = task->value[i] + wide;
  if (!v->logarithm) return;

  memcpy(s->z, z, (size_t)task->n * sizeof *z);
  double of_z = s->told.quantile * sqrt(s->C[i * task->n + i]);
  s->z[i] = z[i] - of_z;
  pbTask_Unknown(task, i, s->z, name, sizeof name, &s->lower[i]);
  s->z[i] = z[i] + of_z;
  pbTask_Unknown(task, i, s->z, name, sizeof name, &s->upper[i]);
}

static void tell_values(const pbTask *task, const double *z, Sureness *s) {
  int n = task->n;
  for (int i = 0; i < n; i++) {
    s->deviation[i] = s->lower[i] = s->upper[i] = NAN;
    if (s->determined[i] != pb_isDetermined) continue;
    s->deviation[i] = sqrt(fmax(covariance(task, z, s, i, i), 0));
    bound(task, z, s, i);
  }

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
static void name_direction(const pbTask *task, const double *z, const Sureness *s, int e, double size, char *text, size_t room) {
  int n = task->n;
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(s->V[i * n + e]));

  int named = 0;
  for (int i = 0; i < n && named < 5; i++) {
    char name[160];
    if (!(s->length[i] > 0) || fabs(s->V[i * n + e]) < 0.1 * most) continue;
    pbTask_Unknown(task, i, z, name, sizeof name, NULL);
    const pbVariable *v = variable_of(task, i);
    double move = 0;
    for (int k = v->first; k < v->first + v->count; k++) {
      if (s->length[k] > 0 && (k == i || is_coupled(v)))
        move += size * s->V[k * n + e] / s->length[k] * pbTask_ValueBy(task, z, i, k);
    }
    if (is_coupled(v) && fabs(move) < 1e-12 * size) continue;
    size_t used = strlen(text);
    snprintf(text + used, room - used, "%s%.100s %+.3g", named++ ? ", " : "", name, move);
  }
}

static void tell_weakest(const pbTask *task, const double *z, Sureness *s, double variance) {
  int n = task->n, weakest = -1, unknown = -1;
  s->weakest[0] = 0;
  for (int e = 0; e < n; e++) {
    bool real = false;
    for (int i = 0; i < n; i++) real = real || (s->length[i] > 0 && fabs(s->V[i * n + e]) > 1e-4);
    if (!real) continue;
    if (s->L[e] == 0) unknown = e;
    else if (weakest < 0 || s->L[e] < s->L[weakest]) weakest = e;
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
  if (weakest < 0) return;
  snprintf(s->weakest, sizeof s->weakest, "determined least: ");
  name_direction(task, z, s, weakest, sqrt(variance) / s->L[weakest], s->weakest, sizeof s->weakest);
  strncat(s->weakest, " together (one standard deviation)", sizeof s->weakest - strlen(s->weakest) - 1);
}

// Chance leaves four deviations of either once in ten thousand fits.
static void warn(Sureness *s, const Sums *sums) {
  const pbUncertainty *u = &s->told;
  double spread = sqrt(2.0 / u->degrees), neighbors = sums->pairs > 0 ? 4 / sqrt(sums->pairs) : INFINITY;
  bool exact = u->sigma && u->chi_square < 1e-6;  // data without noise: what is left is rounding
  bool related = u->autocorrelation > neighbors && u->autocorrelation > 0.1 && !exact;
  s->warning[0] = 0;

  if (u->sigma && u->chi_square > 1 + 4 * spread)
    snprintf(s->warning, sizeof s->warning,
             "the deviations are %.3g times as large as \"sigma\" says%s: the model cannot be right, or sigma is too small; the "
             "intervals are too narrow",
             sqrt(u->chi_square), related ? " and follow one another" : "");
  else if (related)
    snprintf(s->warning, sizeof s->warning,
             "deviations follow one another (correlation %.2f of a sample with the next): the model misses something that the "
             "recording shows; the intervals are too narrow",
             u->autocorrelation);
  else if (u->sigma && u->chi_square < 1 - 4 * spread)
    snprintf(s->warning, sizeof s->warning,
             "the deviations are %.3g times as large as \"sigma\" says: sigma is too large, and so are the intervals",
             sqrt(u->chi_square));
}

// ---- all of it ----------------------------------------------------------------------------------------------------------
static const char *no_fit(const pbTask *task, Sureness *s, size_t m) {
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

  if (pbTask_Sampled(task)) snprintf(s->why, sizeof s->why, "the loss is a mean over drawn worlds");
  else if (pbTask_IsTruncated(task)) snprintf(s->why, sizeof s->why, "gradients are truncated");
  else if (n > MOST_UNKNOWNS || (double)m * n > most_numbers)
    snprintf(s->why, sizeof s->why, "%d unknowns and %zu samples are too many (%d unknowns, %.0g numbers)", n, m,
             (int)MOST_UNKNOWNS, most_numbers);
  else return NULL;
  return s->why;
}

static pbStatus allocate(pbTask *task, Sureness *s, size_t m) {
  size_t n = (size_t)task->n, squares = n * n;
  double **pieces[] = {&s->J,           &s->d, &s->A,      &s->B,         &s->V,     &s->P,     &s->C,
                       &s->correlation, &s->L, &s->length, &s->deviation, &s->lower, &s->upper, &s->z};
  const size_t sizes[] = {m * n, m, squares, squares, squares, squares, squares, squares, n, n, n, n, n, n};
  enum { PIECES = sizeof sizes / sizeof *sizes };
  size_t total = 1;
  for (int i = 0; i < PIECES; i++) total += sizes[i];

  s->numbers = pbContext_AllocArray(task->ctx, total, sizeof(double));
  s->determined = pbContext_AllocArray(task->ctx, n + 1, 1);
  if (!s->numbers || !s->determined)
    return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the uncertainty", task->name);

  double *next = s->numbers;
  for (int i = 0; i < PIECES; i++) {
    *pieces[i] = next;
    next += sizes[i];
  }
  return pb_ok;
}

// From the deviations and their Jacobian at z.
static void tell(pbTask *task, const double *z, Sureness *s) {
  pbUncertainty *u = &s->told;
  int n = task->n;
  double most, least;
  Sums sums = {0};
  add_all(task, s, &sums);
  sums.squares += pbTask_Prior(task, z, NULL);

  // Curvature of terms whose slopes are to be estimated is in P: times the variance it joins the others.
  hold_lengths(task, z, s);
  sort_out(task, z, s);
  int known = decompose(s, n, &most, &least);
  sort_out_bodies(task, z, s);
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
  u->autocorrelation = sums.pairs >= 8 && sums.own > 0 ? sums.products / sums.own : NAN;
  double share = (double)u->degrees / (double)sums.m, unknown = (double)(sums.m - sums.known) * share;
  double variance = unknown > 0 ? sums.estimated / unknown : 0;
  for (int i = 0; i < n * n; i++) s->B[i] += variance * s->P[i];

  invert(s, n);
  tell_values(task, z, s);
  tell_weakest(task, z, s, u->sigma ? 1 : variance);
  warn(s, &sums);
}

pbStatus pbTask_Uncertainty(pbTask *task, const double *z, const pbUncertainty **uncertainty) {
  pbContext *ctx = task->ctx;
  size_t m = 0;
  *uncertainty = NULL;
  pbSureness_Free(ctx, task->sureness);
  Sureness *s = task->sureness = pbContext_Alloc(ctx, sizeof *s);
  if (!s) return pbContext_Fail(ctx, pb_no_memory, "%s: no memory for the uncertainty", task->name);

  for (int t = 0; t < task->trajectory_count; t++)
    m += task->trajectories[t].test ? 0 : pbTermSet_Samples(&task->trajectories[t].terms);
  s->told.why = no_fit(task, s, m);
  if (s->told.why) {
    *uncertainty = &s->told;
    return pb_ok;
  }
  PB_TRY(allocate(task, s, m));

  task->same = false;
  PB_TRY(pbTask_Apply(task, z));
  PB_TRY(pbTask_EachDeviation(task, z, s->d, s->J));
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
