// Runs with gaps. Tests: tests/unit/test_gaps.c.
#include "optimize/gaps.h"

#include <string.h>

#include "base/assert.h"

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
