// What the spot checks (sample.c, certificate.c) draw: which steps, and directions of theta.
// Tests: tests/unit/test_rollout.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include <pullback/random.h>
#include "model/joint.h"
#include "model/model.h"
#include "model/param.h"
#include "rollout/rollout.h"

int pbStepCheck_DrawSteps(pbRng *rng, int steps, int count, int one, int *out) {
  PB_ASSERT(steps > 0 && one < steps);
  int n = 0;

  for (int i = 0; i < count; i++) {
    // Stratified: at random within its stretch.
    int k = (int)((i + pbRng_Uniform(rng)) * steps / count);
    if (k >= steps) k = steps - 1;

    // The given one takes its position among the others.
    if (one >= 0 && one <= k) {
      if (one < k) out[n++] = one;
      one = -1;
    }

    if (n == 0 || out[n - 1] < k) out[n++] = k;
  }

  if (one >= 0) out[n++] = one;
  PB_ASSERT(n <= count + 1);
  PB_VALIDATE(pb_ascending(out, n) && pb_allWithin(out, n, 0, steps));
  return n;
}

static double draw_symmetric(pbRng *rng) { return 2 * pbRng_Uniform(rng) - 1; }

// What is itself a direction in space moves on its sphere: a random move less its part along the value.
static void draw_rotation(pbRng *rng, const double *value, double *direction, int n) {
  double along = 0, squared = 0;
  for (int i = 0; i < n; i++) squared += value[i] * value[i];
  memset(direction, 0, (size_t)n * sizeof *direction);
  if (!(squared > 0)) return;

  for (int i = 0; i < n; i++) {
    direction[i] = draw_symmetric(rng) * sqrt(squared);
    along += value[i] * direction[i];
  }
  for (int i = 0; i < n; i++) direction[i] -= value[i] * along / squared;
}

// Quaternions among the positions of joints.
static void draw_joint_rotations(pbRng *rng, const pbModel *m, size_t from, const double *theta, double *direction) {
  for (int j = 0; j < m->njnt; j++) {
    size_t q = from + (size_t)m->jnt_qposadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    if (pbJoint_HasRotation(m->jnt_type[j])) draw_rotation(rng, theta + q, direction + q, 4);
  }
}

// Axes and quaternions rotate; exponents of impedances with a kink at their defaults do not move.
static void restrict_field(pbRng *rng, const pbModel *m, const pbParam *p, int number, const double *theta, double *direction) {
  const pbParamRow *row = pbParam_Row(number);
  if (!row) return;

  for (int r = 0; r < p->rows; r++) {
    size_t i = p->offset + (size_t)r * (size_t)p->cols;
    if (p->moves == pb_movesAxis || p->moves == pb_movesQuaternion) draw_rotation(rng, theta + i, direction + i, p->cols);
    if (p->moves == pb_movesWelds && m->eq_type[r] == pb_eqWeld) draw_rotation(rng, theta + i + 6, direction + i + 6, 4);
    if (row->kink == pb_kinkImpedance) direction[i + 3] = direction[i + 4] = 0;
  }

  if (p->moves == pb_movesPositions) draw_joint_rotations(rng, m, p->offset, theta, direction);
}

static double largest(const double *x, size_t n) {
  double most = 0;
  for (size_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  return most;
}

static void draw_field(const pbRollout *r, pbRng *rng, int number, bool together, double *direction) {
  pbParam p = pbModel_ParamAt(r->model, number);
  size_t n = (size_t)p.rows * (size_t)p.cols;
  double factor = draw_symmetric(rng), most = largest(r->theta + p.offset, n), usual = most > 0 ? most : 1;

  if (r->unwanted && r->unwanted[number]) {
    for (size_t i = p.offset; i < p.offset + n; i++) direction[i] = 0;
    return;
  }

  // Relative to what is there; a zero of its own moves as far as the largest of its field.
  for (size_t i = p.offset; i < p.offset + n; i++) {
    double size = fabs(r->theta[i]);
    if (together) direction[i] = factor * size;
    else direction[i] = draw_symmetric(rng) * (size > 0 ? size : usual);
  }

  if (together) restrict_field(rng, r->model, &p, number, r->theta, direction);
}

void pbRollout_DrawTheta(const pbRollout *r, pbRng *rng, bool together, double *direction) {
  if (!direction) return;

  for (int i = 0; i < pbModel_ParamCount(r->model); i++) draw_field(r, rng, i, together, direction);
}

size_t pbRollout_WantedEntries(const pbRollout *r) {
  size_t count = 0;

  for (int i = 0; i < pbModel_ParamCount(r->model); i++) {
    pbParam p = pbModel_ParamAt(r->model, i);
    if (!r->unwanted || !r->unwanted[i]) count += (size_t)p.rows * (size_t)p.cols;
  }

  PB_ASSERT(count <= r->ntheta);
  return count;
}

size_t pbRollout_CountMoved(const double *direction, size_t n) {
  size_t moved = 0;
  if (!direction) return 0;

  for (size_t i = 0; i < n; i++) moved += direction[i] != 0;
  return moved;
}
