// Forces of penalty contacts (penalty.h). Their derivatives by everything: by_... here, and penalty_adjoint.c.
// Tests: tests/unit/test_contact.c.
#include "contact/penalty.h"

#include "base/assert.h"

// S(t) from 0 to 1, twice differentiable; and its slope.
static num smooth_step(num t, num *slope) {
  *slope = 0;
  if (re(t) <= 0) return 0;
  if (re(t) >= 1) return 1;
  *slope = 30 * t * t * (1 - t) * (1 - t);
  return t * t * t * (10 + t * (6 * t - 15));
}

NUM(pbNormalForce) NUM(pbPenalty_Normal)(num k, num c, double width, num depth, num speed) {
  PB_ASSERT(width > 0 && re(k) > 0);

  // g = k depth - c speed S(depth / width), u = g / (k width)
  num fade_slope, share_slope;
  num fade = smooth_step(depth / width, &fade_slope);
  num g = k * depth - c * speed * fade;
  num u = g / (k * width);

  // N = g S(u); by g, and by the stiffness in u besides.
  num share = smooth_step(u, &share_slope);
  num by_g = share + u * share_slope;
  return (NUM(pbNormalForce)){.force = g * share,
                              .by_depth = by_g * (k - c * speed * fade_slope / width),
                              .by_speed = -by_g * c * fade,
                              .by_stiffness = by_g * depth - u * u * width * share_slope,
                              .by_damping = -by_g * speed * fade};
}

num NUM(pbPenalty_Slide)(int n, const num *friction, double slip, const num *vel) {
  num sum = friction[0] * friction[0] * slip * slip;
  for (int j = 1; j < n; j++) sum += friction[j - 1] * friction[j - 1] * vel[j] * vel[j];
  return num_sqrt(sum);
}

void NUM(pbPenalty_Force)(int n, num normal, const num *friction, double slip, const num *vel, num *f) {
  // Friction against the sliding velocity, regularized by slip: all of mu N only where slip is small beside it.
  num each = normal / NUM(pbPenalty_Slide)(n, friction, slip, vel);
  f[0] = normal;
  for (int j = 1; j < n; j++) f[j] = -each * friction[j - 1] * friction[j - 1] * vel[j];
}
