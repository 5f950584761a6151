// Rotations by a vector in the body's frame, q exp(w), and their motion by it.
// Tests: tests/unit/test_task.c, tests/unit/test_readings.c.
#include "optimize/rotation.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"

void pbRotation_Apply(double *q, const double *w) {
  double a = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]), f = a > 1e-12 ? pbSin(0.5 * a) / a : 0.5;

  // exp(w), and the product q exp(w): w is in the body's frame.
  double e[4] = {pbCos(0.5 * a), f * w[0], f * w[1], f * w[2]};
  double out[4] = {q[0] * e[0] - q[1] * e[1] - q[2] * e[2] - q[3] * e[3], q[0] * e[1] + q[1] * e[0] + q[2] * e[3] - q[3] * e[2],
                   q[0] * e[2] - q[1] * e[3] + q[2] * e[0] + q[3] * e[1], q[0] * e[3] + q[1] * e[2] - q[2] * e[1] + q[3] * e[0]};

  memcpy(q, out, sizeof out);
}

// 1 - (1 - cos a) / a^2 [w] + (a - sin a) / a^3 [w]^2
void pbRotation_Column(const double *w, int axis, double *column) {
  PB_ASSERT(axis >= 0 && axis < 3);
  double aa = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], a = sqrt(aa);

  // Near zero by the series of both, whose closed forms cancel.
  double b = a < 1e-3 ? 0.5 - aa / 24 : (1 - pbCos(a)) / aa;
  double c = a < 1e-3 ? 1.0 / 6 - aa / 120 : (a - pbSin(a)) / (aa * a);
  const double W[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};

  for (int i = 0; i < 3; i++) column[i] = (i == axis) - b * W[3 * i + axis] + c * (w[i] * w[axis] - (i == axis ? aa : 0));
}
