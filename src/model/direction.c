// Random directions of theta that keep what a move must keep.
// Tests: tests/unit/test_rollout.c, tests/unit/test_check.c.
#include "model/direction.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "model/equality.h"
#include "model/joint.h"
#include "model/param.h"

static double draw_symmetric(pbRng *rng) { return 2 * pbRng_Uniform(rng) - 1; }

// What is itself a direction in space moves on its sphere: a move less its part along the value. One share of all its numbers
// would leave nothing: then each has a move of its own.
static void turn(pbRng *rng, pbDraw how, const double *value, double *direction, int n) {
  double along = 0, squared = 0;
  for (int i = 0; i < n; i++) squared += value[i] * value[i];
  if (!(squared > 0)) memset(direction, 0, (size_t)n * sizeof *direction);
  if (!(squared > 0)) return;

  for (int i = 0; i < n; i++) {
    if (how == pb_drawTogether) direction[i] = draw_symmetric(rng) * sqrt(squared);
    along += value[i] * direction[i];
  }
  for (int i = 0; i < n; i++) direction[i] -= value[i] * along / squared;
}

// Quaternions among the positions of joints.
static void turn_joints(const pbModel *m, size_t from, const double *theta, pbDraw how, pbRng *rng, double *direction) {
  for (int j = 0; j < m->njnt; j++) {
    size_t q = from + (size_t)m->jnt_qposadr[j] + (size_t)pbJoint_PlainCount(m->jnt_type[j]);
    if (pbJoint_HasRotation(m->jnt_type[j])) turn(rng, how, theta + q, direction + q, 4);
  }
}

static void keep_within(const pbModel *m, const double *theta, int number, pbDraw how, pbRng *rng, double *direction) {
  const pbParamRow *row = pbParam_Row(number);
  pbParam p = pbModel_ParamAt(m, number);
  if (!row) return;

  for (int r = 0; r < p.rows; r++) {
    size_t i = p.offset + (size_t)r * (size_t)p.cols;
    if (p.moves == pb_movesAxis || p.moves == pb_movesQuaternion) turn(rng, how, theta + i, direction + i, p.cols);
    bool poses = p.moves == pb_movesWelds && pbEquality_Of(m->eq_type[r]) == pb_ofPoses;
    if (poses) turn(rng, how, theta + i + 6, direction + i + 6, 4);
    if (row->kink == pb_kinkImpedance) direction[i + 3] = direction[i + 4] = 0;
  }

  if (p.moves == pb_movesPositions) turn_joints(m, p.offset, theta, how, rng, direction);
}

void pbTheta_Draw(const pbModel *m, const double *theta, int number, pbDraw how, pbRng *rng, double *direction) {
  pbParam p = pbModel_ParamAt(m, number);
  size_t end = p.offset + (size_t)p.rows * (size_t)p.cols;
  double share = how == pb_drawEach ? 0 : draw_symmetric(rng), largest = 0;
  PB_ASSERT(theta && direction);

  for (size_t i = p.offset; i < end; i++) largest = fmax(largest, fabs(theta[i]));
  for (size_t i = p.offset; i < end; i++) {
    double size = fabs(theta[i]);
    if (how == pb_drawEach) share = pbRng_Normal(rng);
    if (how == pb_drawAll) share = draw_symmetric(rng);
    if (how == pb_drawAll && size == 0) size = largest > 0 ? largest : 1;
    direction[i] = share * size;
  }

  if (how != pb_drawAll) keep_within(m, theta, number, how, rng, direction);
}
