// Derivatives against differences, by numbers alone. What lies within a move of a contact that begins, or of another kink, is no
// derivative: slopes tell both sides apart, and quotients are taken over shorter and shorter moves.
// Tests: tests/unit/test_rollout.c, tests/unit/test_policy_check.c, tests/unit/test_check.c.
#include "probe/probe.h"

#include <float.h>
#include <math.h>

#include "base/assert.h"

// ---- products -----------------------------------------------------------------------------------------------------------
double pbProbe_Dot(const double *bar, const double *direction, size_t n) {
  if (!bar || !direction) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    if (direction[i] != 0) sum += bar[i] * direction[i];
  }
  return sum;
}

double pbProbe_Terms(const double *bar, const double *direction, size_t n) {
  if (!bar || !direction) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    if (direction[i] != 0) sum += fabs(bar[i] * direction[i]);
  }
  return sum;
}

double pbProbe_Norm(const double *a, size_t n) { return sqrt(pbProbe_Dot(a, a, n)); }

double pbProbe_Across(const double *w, const double *from, const double *to, size_t n) {
  if (!w) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += w[i] * (to[i] - from[i]);
  return sum;
}

size_t pbProbe_Moved(const double *direction, size_t n) {
  size_t moved = 0;
  if (!direction) return 0;

  for (size_t i = 0; i < n; i++) moved += direction[i] != 0;
  return moved;
}

const double *pbProbe_Displace(const double *base, const double *direction, double size, size_t n, double *out) {
  if (!direction) return base;

  for (size_t i = 0; i < n; i++) out[i] = (base ? base[i] : 0) + size * direction[i];
  return out;
}

// ---- slopes -------------------------------------------------------------------------------------------------------------
double pbProbe_Central(pbProbeFunction function, void *self, double h) {
  double wide = (function(self, h) - function(self, -h)) / (2 * h);
  double narrow = (function(self, h / 2) - function(self, -h / 2)) / h;
  return (4 * narrow - wide) / 3;
}

pbSlope pbSlope_Of(const double change[3], double e, double rounding) {
  double d[3], noise = rounding / fabs(e);
  for (int i = 0; i < 3; i++) d[i] = change[i] / ldexp(e, -i);

  // each extrapolation removes a power of e; what it is off by is judged by what it changed
  double first = 2 * d[1] - d[0], second = 2 * d[2] - d[1];
  return (pbSlope){.value = (4 * second - first) / 3, .doubt = fabs(second - first) + noise, .rounding = noise};
}

pbStanding pbStanding_Of(double gradient, const pbSlope *right, const pbSlope *left, int side, bool strict, double least,
                         double limit) {
  bool both = side == 0;
  const pbSlope *own = side < 0 ? left : right;
  pbStanding s = {.gradient = gradient, .right = both ? right->value : own->value, .left = both ? left->value : own->value};
  double doubt = both ? right->doubt + left->doubt : own->doubt;
  double rounding = both ? right->rounding + left->rounding : own->rounding;
  double size = fabs(s.right) + fabs(s.left) + fabs(gradient) + least + DBL_MIN;

  double error = fabs(gradient - 0.5 * (s.right + s.left));
  s.bent = fabs(s.right - s.left) > limit * size + 10 * doubt;
  if (s.bent && !strict) error = fmin(error, fmin(fabs(gradient - s.right), fabs(gradient - s.left)));

  s.known = doubt <= limit * size;
  s.drowned = rounding > limit * size;
  s.off = error / size;
  s.error = fmax(0, error - doubt) / size;
  return s;
}

// ---- shorter and shorter moves ------------------------------------------------------------------------------------------
enum { moves = 4, shorter = 32 };

// Two central quotients contradict the gradient by `gap`: is that one of both sides?
static pbStatus look_ahead(const pbLadder *l, double h, double gap, const pbQuotient *central, pbAgreement *verdict) {
  pbQuotient ahead = {0};
  PB_TRY(l->between(l->self, 0, h, &ahead));

  // the quotients to both sides are as far apart as twice this one from their mean
  if (ahead.missing || ahead.tied) *verdict = ahead.tied ? pb_atTie : pb_atKink;
  else *verdict = !ahead.parted && 2 * fabs(ahead.value - central->value) < gap / 8 ? pb_differs : pb_atKink;
  return pb_ok;
}

pbStatus pbLadder_Judge(const pbLadder *l, double gradient, pbJudgement *found) {
  double before = NAN, h = l->longest;
  PB_ASSERT(h > 0);
  *found = (pbJudgement){.verdict = pb_atKink, .gradient = gradient};  // until a move stays on one branch

  for (int i = 0; i < moves; i++, h /= shorter) {
    pbQuotient q = {0};
    PB_TRY(l->between(l->self, -h, h, &q));
    if (q.missing) continue;

    double gap = fabs(q.value - gradient), change = fabs(q.value - before);
    found->value = before = q.value;
    found->error = q.scale > 0 ? gap / q.scale : 0;
    found->limit = q.scale > 0 ? q.allowed / q.scale : 0;
    found->verdict = pb_agrees;
    if (gap <= q.allowed) return pb_ok;

    // A single quotient proves nothing: the one before must say the same, well above its noise.
    found->verdict = q.tied ? pb_atTie : pb_inNoise;
    if (q.parted && !q.tied) found->verdict = pb_atKink;
    if (q.parted || !(change < gap / 8) || !(q.noise < gap / 8)) continue;
    return look_ahead(l, h, gap, &q, &found->verdict);
  }

  return pb_ok;
}
