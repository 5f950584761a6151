// Runs with gaps. Tests: tests/unit/test_gaps.c.
#include "optimize/gaps.h"

#include <math.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "model/joint.h"
#include "model/model.h"

// Of the given states the one before step k; -1: none is given there.
static int given_at(const pbGivenStates *given, int k) {
  int low = 0, high = given->count;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (given->step[middle] < k) low = middle + 1;
    else high = middle;
  }

  return low < given->count && given->step[low] == k ? low : -1;
}

void pbGapRun_Jump(void *user, int k, double *x) {
  const pbGapRun *run = user;
  int at = given_at(run->given, k);
  if (at < 0) return;

  size_t n = (size_t)run->n, row = (size_t)at * n;
  const double *gap = run->measured ? run->measured + row : run->gap + row;
  PB_ASSERT(gap && run->part >= 0 && run->part <= 1);

  // as given, seen from where it is
  if (run->measured) {
    size_t nx = (size_t)pbModel_StateSize(run->model);
    pbState_Difference(run->model, x, run->given->x + (size_t)at * nx, run->measured + row);
  }

  // no gap is no move, to the bit
  bool any = false;
  for (size_t i = 0; i < n; i++) {
    run->moved[i] = run->part * gap[i];
    any |= run->moved[i] != 0;
  }
  if (any) pbState_Move(run->model, x, run->moved, 1);
}

// q exp(v) exp(d) = q exp(d) exp(R'v), with R the rotation by d (Rodrigues): three rows of v.
static void turn_back(const double *d, double *rows, size_t width) {
  double angle = sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]), sine, cosine;
  if (angle == 0) return;

  pbSinCos(angle, &sine, &cosine);

  const double a[3] = {d[0] / angle, d[1] / angle, d[2] / angle};
  for (size_t j = 0; j < width; j++) {
    const double v[3] = {rows[j], rows[width + j], rows[2 * width + j]};

    // one column
    double along = (1 - cosine) * (a[0] * v[0] + a[1] * v[1] + a[2] * v[2]);
    for (int i = 0; i < 3; i++) {
      int next = (i + 1) % 3, last = (i + 2) % 3;
      rows[(size_t)i * width + j] = cosine * v[i] - sine * (a[next] * v[last] - a[last] * v[next]) + along * a[i];
    }
  }
}

void pbGap_Transport(const pbModel *m, const double *gap, double *rows, int width) {
  PB_ASSERT(width > 0);
  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;

    // of a free joint behind its position
    size_t dof = (size_t)(m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]));
    turn_back(gap + dof, rows + dof * (size_t)width, (size_t)width);
  }
}
