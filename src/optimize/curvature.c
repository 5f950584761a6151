// What all deviations of a fit add up to: the curvature of its loss, the squares of its slopes, or of their sums over clusters,
// and how neighbors in time are related. Huber 1967 for slopes that are no curvature; Liang & Zeger 1986 for clusters.
// Tests: tests/unit/test_uncertainty.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "optimize/sureness.h"

// ---- of a deviation ---------------------------------------------------------------------------------------------------
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

// Slopes of a cluster are summed before they are squared: so they may have anything in common.
static void add_to_cluster(pbSureness *s, int cluster, const double *row, double slope, int n) {
  double *sum = s->sum + (size_t)cluster * (size_t)n;
  PB_ASSERT(cluster >= 0 && isfinite(slope));

  for (int i = 0; i < n; i++) {
    sum[i] += slope * row[i];
    if (row[i] == 0 || s->cluster[i] == cluster) continue;
    s->cluster[i] = s->cluster[i] == pb_seenByNone ? cluster : pb_seenBySeveral;
  }
}

// Samples of a term at one of its times.
static int count_there(const pbTerm *t, const pbMoment *p) {
  int count = 0;
  for (int i = 0; i < t->part_count; i++) count += !isnan(p->target[t->parts[i].target]);
  return count;
}

// Of one number a norm's curvature is all in its kink, and that of a loss is known by how densely deviations lie about it: each
// counts as spread over so much of their size (Powell 1984, with a kernel in place of a box), less the more there are. Of two
// numbers it is 1 / |d|, whose mean is there and whose variance is not. The geometric mean takes no notice of outliers.
typedef struct Blur {
  double one, two;
} Blur;

static Blur blur_of(const pbSureness *s, const pbTermSet *set, const pbTerm *t, size_t first) {
  pbMoment p = {.row = 0};
  double sum = 0, times = 0;
  for (int k = 0; k < t->step_count; k++) {
    double squares = t->epsilon * t->epsilon;
    p = pbTerm_Moment(set, t, k, p.row);
    int count = count_there(t, &p);
    for (int i = 0; i < count; i++) squares += s->d[first + (size_t)i] * s->d[first + (size_t)i];
    first += (size_t)count;
    if (count == 0) continue;
    sum += 0.5 * pbLog(fmax(squares, 1e-300));
    times++;
  }

  if (times == 0) return (Blur){0, 0};
  double size = pbExp(sum / times);
  return (Blur){2 * size / pbExp(pbLog(times) / 3), size / sqrt(times)};
}

// The deviations of one time, whose norm is what counts: with e = d / |d| the curvature (1 - e e') / |d|, the slope e.
static void add_norm(pbSureness *s, const pbTerm *t, double weight, size_t first, int count, int n, Blur blur, int cluster) {
  double *sum = s->z, squares = t->epsilon * t->epsilon;
  for (int i = 0; i < count; i++) squares += s->d[first + (size_t)i] * s->d[first + (size_t)i];
  double wide = 0, norm = sqrt(squares);
  if (count == 1) wide = blur.one;
  if (count == 2) wide = blur.two;
  double blurred = sqrt(squares + wide * wide);

  // the slope of the norm, and the part of its curvature that is that of the squares
  memset(sum, 0, (size_t)n * sizeof *sum);
  for (int i = 0; i < count; i++) {
    const double *row = s->J + (first + (size_t)i) * (size_t)n;
    for (int k = 0; k < n; k++) sum[k] += s->d[first + (size_t)i] / norm * row[k];
    add_outer(s->A, row, 0.5 * weight / blurred, n);
  }

  // along the deviation a norm is straight
  add_outer(s->A, sum, -0.5 * weight * squares / (blurred * blurred * blurred), n);
  if (cluster < 0) add_outer(s->B, sum, 0.25 * weight * weight, n);
  else add_to_cluster(s, cluster, sum, 0.5 * weight, n);
}

// Slopes of terms with sigma have the variance of one sigma; of others without it the variance is put in later, as A stands in B.
static void add_term(pbSureness *s, const pbTermSet *set, const pbTerm *t, int n, int cluster, pbSums *sums) {
  pbMoment p = {.row = 0};
  Blur blur = t->type == pb_termNorm ? blur_of(s, set, t, sums->at) : (Blur){0, 0};
  for (int k = 0; k < t->step_count; k++) {
    p = pbTerm_Moment(set, t, k, p.row);

    // samples that are there, in the order of the components
    int count = count_there(t, &p);
    if (t->type == pb_termNorm) add_norm(s, t, p.weight, sums->at, count, n, blur, cluster);

    for (int i = 0; i < count; i++) {
      // what the loss and its estimate of the variance are made of
      size_t at = sums->at + (size_t)i;
      double d = s->d[at];
      Weight w = weigh(t, p.weight, d);
      sums->bare += d * d;
      if (is_known(t)) sums->squares += w.slope * d;
      else sums->estimated += w.slope * d;
      if (t->type == pb_termNorm) continue;

      const double *row = s->J + at * (size_t)n;
      add_outer(s->A, row, w.curvature, n);
      if (cluster >= 0) add_to_cluster(s, cluster, row, w.slope, n);
      else if (!is_plain(t)) add_outer(s->B, row, w.slope * w.slope, n);
      else if (is_known(t)) add_outer(s->B, row, w.curvature * w.curvature, n);
      else add_outer(s->P, row, w.curvature, n);
    }

    sums->at += (size_t)count;
    sums->m += (size_t)count;
    sums->known += t->sigma ? (size_t)count : 0;
    sums->robust += is_plain(t) ? 0 : (size_t)count;
  }
}

// Each component with itself at the time before: with gaps the last one that there is.
static void correlate_term(const pbSureness *s, const pbTermSet *set, const pbTerm *t, size_t first, pbSums *sums) {
  for (int i = 0; i < t->part_count; i++) {
    pbMoment p = {.row = 0};
    size_t at = first;
    double before = NAN;
    for (int k = 0; k < t->step_count; k++) {
      p = pbTerm_Moment(set, t, k, p.row);
      for (int j = 0; j < t->part_count; j++) {
        // d has no entry of a sample that is missing
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

// How much the sums of clusters differ: their squares, with what a mean takes away of the spread.
static void add_clusters(const pbTask *task, pbSureness *s) {
  double share = s->told.clusters / (s->told.clusters - 1.0);
  for (int c = 0; c < task->trajectory_count; c++) add_outer(s->B, s->sum + (size_t)c * (size_t)task->n, share, task->n);
}

// That are fitted; 0: there are none.
int pbSureness_Clusters(const pbTask *task) {
  int count = 0;
  if (!task->clustered) return 0;

  // each once, where the first of it is
  for (int t = 0; t < task->trajectory_count; t++) {
    bool first = !task->trajectories[t].test;
    for (int u = 0; u < t && first; u++)
      first = task->trajectories[u].test || task->trajectories[u].cluster != task->trajectories[t].cluster;
    count += first;
  }
  return count;
}

void pbSureness_Add(pbTask *task, pbSureness *s, pbSums *sums) {
  int n = task->n;
  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTermSet *set = &task->trajectories[t].terms;

    // what tests the answer has no part in it
    int terms = task->trajectories[t].test ? 0 : set->count;
    for (int i = 0; i < terms; i++) {
      size_t first = sums->at;
      add_term(s, set, &set->terms[i], n, task->clustered ? task->trajectories[t].cluster : pb_seenByNone, sums);
      if (set->terms[i].recorded) correlate_term(s, set, &set->terms[i], first, sums);
    }
  }

  if (task->clustered) add_clusters(task, s);

  // What is known before counts as samples with a sigma do.
  int priors = task->prior_count ? n : 0;
  for (int i = 0; i < priors; i++) {
    double squared = task->prior_weight[i] * task->prior_weight[i];
    s->A[i * n + i] += squared;
    s->B[i * n + i] += squared;
  }

  mirror(s->A, n);
  mirror(s->B, n);
  mirror(s->P, n);
}
