// Muscles: gain, bias, rate of activation, each with its partial derivatives below it.
// Tests: tests/conformance/test_step.c, tests/oracle/test_muscles.py, tests/python/test_meetings.py.
#include "multibody/muscle.h"

#include <pullback/actuators.h>

#include "base/assert.h"
#include "eval/mechanism.h"
#include "model/term_fields.h"

#define MIN_VALUE 1e-15  // MuJoCo's mjMINVAL

enum { p_range0, p_range1, p_force, p_scale, p_lmin, p_lmax, p_vmax, p_fpmax, p_fvmax };

// A curve's value with its slopes by its variable and by the parameter that shapes it there.
typedef struct curve {
  num value, slope, by_least, by_most;
} curve;

// ---- curves -----------------------------------------------------------------------------------------------------------
// Parabolas from 0 at lmin over 1 at length 1 to 0 at lmax, half of each side curved up and half down.
static curve length_curve(num L, num lmin, num lmax) {
  num rise = num_at_least(0.5 * (1 - lmin), MIN_VALUE), fall = num_at_least(0.5 * (lmax - 1), MIN_VALUE), x;
  if (re(L) < re(lmin) || re(L) > re(lmax)) return (curve){0};

  // Up from lmin, curved up, then down ...
  if (re(L) <= re(0.5 * (lmin + 1))) {
    x = (L - lmin) / rise;
    return (curve){0.5 * x * x, x / rise, x * (0.5 * x - 1) / rise, 0};
  }

  if (re(L) <= 1) {
    x = (1 - L) / rise;
    return (curve){1 - 0.5 * x * x, x / rise, -0.5 * x * x / rise, 0};
  }

  // ... and down to lmax.
  if (re(L) <= re(0.5 * (1 + lmax))) {
    x = (L - 1) / fall;
    return (curve){1 - 0.5 * x * x, -x / fall, 0, 0.5 * x * x / fall};
  }

  x = (lmax - L) / fall;
  return (curve){0.5 * x * x, -x / fall, 0, x * (1 - 0.5 * x) / fall};
}

// From 0 where it shortens at full speed over 1 at rest to fvmax where it is stretched.
static curve velocity_curve(num V, num fvmax) {
  num y = fvmax - 1;

  // Shortening, then stretched, then faster than the curve goes.
  if (re(V) <= -1) return (curve){0};
  if (re(V) <= 0) return (curve){(V + 1) * (V + 1), 2 * (V + 1), 0, 0};
  if (re(V) > re(y)) return (curve){fvmax, 0, 0, 1};

  num z = (y - V) / num_at_least(y, MIN_VALUE);
  return (curve){fvmax - (y - V) * z, 2 * z, 0, (1 - z) * (1 - z)};
}

// The slope of that, as a curve.
static curve velocity_slope(num V, num fvmax) {
  num y = fvmax - 1;
  if (re(V) <= -1 || re(V) > fmax(0, re(y))) return (curve){0};
  if (re(V) <= 0) return (curve){2 * (V + 1), 2, 0, 0};

  y = num_at_least(y, MIN_VALUE);
  return (curve){2 * (y - V) / y, -2 / y, 0, 2 * V / (y * y)};
}

// Beyond length 1 a parabola up to the middle between that and lmax, then its tangent.
static curve passive_curve(num L, num lmax) {
  num half = num_at_least(0.5 * (lmax - 1), MIN_VALUE), b = 0.5 * (1 + lmax), x;
  if (re(L) <= 1) return (curve){0};

  if (re(L) <= re(b)) {
    x = (L - 1) / half;
    return (curve){0.5 * x * x, x / half, 0, -0.5 * x * x / half};
  }

  x = (L - b) / half;
  return (curve){0.5 + x, 1 / half, 0, -0.5 * (1 + x) / half};
}

// ---- gain and bias ------------------------------------------------------------------------------------------------------
// A muscle at its length and velocity, in its own units.
typedef struct muscle {
  const num *prm, *lengthrange;
  num length, peak, acc0;
  num span;   // range1 - range0
  num L0, L;  // optimal length; length by it
  num full;   // L0 vmax: full speed
  num V;
} muscle;

static muscle muscle_at(const NUM(pbMechanism) *w, int u, const num *prm) {
  muscle s = {.prm = prm, .lengthrange = PB_TERM(w, actuator_lengthrange) + 2 * u, .length = w->act_length[u]};
  PB_ASSERT(u >= 0 && u < w->m->nu && prm != NULL);
  s.acc0 = num_at_least(PB_TERM(w, actuator_acc0)[u], MIN_VALUE);
  s.peak = re(prm[p_force]) < 0 ? prm[p_scale] / s.acc0 : prm[p_force];

  // Length and velocity in units of the optimal length.
  s.span = num_at_least(prm[p_range1] - prm[p_range0], MIN_VALUE);
  s.L0 = (s.lengthrange[1] - s.lengthrange[0]) / s.span;
  s.L = prm[p_range0] + (s.length - s.lengthrange[0]) / num_at_least(s.L0, MIN_VALUE);
  s.full = num_at_least(s.L0 * prm[p_vmax], MIN_VALUE);
  s.V = w->act_velocity[u] / s.full;
  return s;
}

num NUM(pbMuscle_Gain)(const NUM(pbMechanism) *w, int u) {
  muscle s = muscle_at(w, u, w->p.actuator_gainprm + 10 * u);
  return -s.peak * length_curve(s.L, s.prm[p_lmin], s.prm[p_lmax]).value * velocity_curve(s.V, s.prm[p_fvmax]).value;
}

num NUM(pbMuscle_GainSlope)(const NUM(pbMechanism) *w, int u) {
  muscle s = muscle_at(w, u, w->p.actuator_gainprm + 10 * u);
  num FL = length_curve(s.L, s.prm[p_lmin], s.prm[p_lmax]).value;
  return -s.peak * FL * velocity_slope(s.V, s.prm[p_fvmax]).value / s.full;
}

num NUM(pbMuscle_Bias)(const NUM(pbMechanism) *w, int u) {
  muscle s = muscle_at(w, u, w->p.actuator_biasprm + 10 * u);
  return -s.peak * s.prm[p_fpmax] * passive_curve(s.L, s.prm[p_lmax]).value;
}

// Cotangents of peak, L, V and the full speed to what they are computed from.
static void to_inputs(const muscle *s, num peak, num L, num V, num full, NUM(pbMusclePartials) *out) {
  if (re(s->prm[p_force]) < 0) {
    out->prm[p_scale] += peak / s->acc0;
    if (re(s->acc0) > MIN_VALUE) out->acc0 -= peak * s->peak / s->acc0;
  } else {
    out->prm[p_force] += peak;
  }

  // V = velocity / full, full = L0 vmax
  num L0 = 0;
  out->velocity += V / s->full;
  full -= V * s->V / s->full;
  if (re(s->full) > MIN_VALUE) {
    L0 += full * s->prm[p_vmax];
    out->prm[p_vmax] += full * s->L0;
  }

  // L = range0 + (length - lengthrange0) / L0
  num unit = num_at_least(s->L0, MIN_VALUE);
  out->prm[p_range0] += L;
  out->length += L / unit;
  out->lengthrange[0] -= L / unit;
  if (re(s->L0) > MIN_VALUE) L0 -= L * (s->length - s->lengthrange[0]) / (unit * unit);

  // L0 = (lengthrange1 - lengthrange0) / span
  out->lengthrange[1] += L0 / s->span;
  out->lengthrange[0] -= L0 / s->span;
  if (re(s->span) <= MIN_VALUE) return;

  out->prm[p_range1] -= L0 * s->L0 / s->span;
  out->prm[p_range0] += L0 * s->L0 / s->span;
}

bool NUM(pbMuscle_Partials)(const NUM(pbMechanism) *w, int u, pbMusclePart part, NUM(pbMusclePartials) *out) {
  muscle s = muscle_at(w, u, (part == pb_muscleBias ? w->p.actuator_biasprm : w->p.actuator_gainprm) + 10 * u);
  if (part == pb_muscleBias && re(s.L) <= 1) return false;
  *out = (NUM(pbMusclePartials)){0};
  PB_ASSERT(part == pb_muscleBias || w->m->actuator_gaintype[u] == pb_gainMuscle);

  // bias = -F fpmax FP
  if (part == pb_muscleBias) {
    curve P = passive_curve(s.L, s.prm[p_lmax]);
    num force = s.peak * s.prm[p_fpmax];
    out->prm[p_fpmax] = -s.peak * P.value;
    out->prm[p_lmax] = -force * P.by_most;
    to_inputs(&s, -s.prm[p_fpmax] * P.value, -force * P.slope, 0, 0, out);
    return true;
  }

  // gain = -F FL FV; slope = -F FL FV' / full
  bool slope = part == pb_muscleGainSlope;
  curve L = length_curve(s.L, s.prm[p_lmin], s.prm[p_lmax]);
  curve V = slope ? velocity_slope(s.V, s.prm[p_fvmax]) : velocity_curve(s.V, s.prm[p_fvmax]);
  num over = slope ? 1 / s.full : 1, F = s.peak * over;
  out->prm[p_lmin] = -F * L.by_least * V.value;
  out->prm[p_lmax] = -F * L.by_most * V.value;
  out->prm[p_fvmax] = -F * L.value * V.by_most;
  num full = slope ? F * L.value * V.value / s.full : 0;
  to_inputs(&s, -L.value * V.value * over, -F * L.slope * V.value, -F * L.value * V.slope, full, out);
  return true;
}

// ---- activation ---------------------------------------------------------------------------------------------------------
// MuJoCo's step of the fifth degree from 0 at 0 to 1 at 1, and its slope.
static num smooth_step(num x, num *slope) {
  *slope = 0;
  if (re(x) <= 0) return 0;
  if (re(x) >= 1) return 1;

  *slope = 30 * x * x * (1 - x) * (1 - x);
  return x * x * x * (3 * x * (2 * x - 5) + 10);
}

// Time constants: of activation times 0.5 + 1.5 act, of deactivation over that; which of them counts goes by the sign of the
// excess of the control over the activation, or smoothly within the width dynprm[2].
typedef struct rate {
  num excess, stretch, act_time, deact_time;
  num share, slope;  // of the first time constant, and its slope by the excess
  num tau;
  bool smooth;
  num at_rest;  // without excess: slope of the rate by it; else 0
} rate;

// Share of activation where the control equals the activation, so that there is a kink: all of it at the least control, from
// where it can only rise, none at the largest, half between them. A control beyond its bounds does not move, and so the
// activation decides, which is not below 0 nor above 1.
static double share_at_rest(const NUM(pbMechanism) *w, int u) {
  bool limited = w->m->actuator_ctrllimited[u] && !(w->m->disableflags & pb_disClampctrl);
  const num *range = w->p.actuator_ctrlrange + 2 * u;
  double ctrl = re(w->ctrl[u]), low = limited ? fmax(0, re(range[0])) : 0, high = limited ? fmin(1, re(range[1])) : 1;
  if (low == high) return 0.5;
  if (ctrl < low) return low == 0 ? 0 : 0.5;
  if (ctrl > high) return high == 1 ? 1 : 0.5;
  if (ctrl == low) return 1;
  return ctrl == high ? 0 : 0.5;
}

static rate rate_at(const NUM(pbMechanism) *w, int u, num ctrl, num act) {
  const num *prm = w->p.actuator_dynprm + 10 * u;
  PB_ASSERT(u >= 0 && u < w->m->nu);
  rate s = {.excess = num_clip(ctrl, 0, 1) - act, .stretch = 0.5 + 1.5 * num_clip(act, 0, 1), .smooth = re(prm[2]) >= MIN_VALUE};

  // Both time constants, and which of them counts.
  s.act_time = prm[0] * s.stretch;
  s.deact_time = prm[1] / s.stretch;
  if (s.smooth) {
    s.share = smooth_step(s.excess / prm[2] + 0.5, &s.slope);
    s.tau = s.deact_time + (s.act_time - s.deact_time) * s.share;
  } else {
    s.share = re(s.excess) > 0 ? 1 : 0;
    s.slope = 0;
    s.tau = re(s.excess) > 0 ? s.act_time : s.deact_time;
    if (re(s.excess) != 0) return s;

    double share = share_at_rest(w, u);
    s.at_rest = share / num_at_least(s.act_time, MIN_VALUE) + (1 - share) / num_at_least(s.deact_time, MIN_VALUE);
  }

  return s;
}

num NUM(pbMuscle_Rate)(const NUM(pbMechanism) *w, int u, num ctrl, num act) {
  rate s = rate_at(w, u, ctrl, act);
  if (re(s.at_rest) != 0) return s.excess * s.at_rest;

  return s.excess / num_at_least(s.tau, MIN_VALUE);
}

void NUM(pbMuscle_RatePartials)(const NUM(pbMechanism) *w, int u, num ctrl, num act, NUM(pbMuscleRatePartials) *out) {
  const num *prm = w->p.actuator_dynprm + 10 * u;
  rate s = rate_at(w, u, ctrl, act);
  num tau = num_at_least(s.tau, MIN_VALUE), excess = re(s.at_rest) != 0 ? s.at_rest : 1 / tau;
  num by_tau = re(s.tau) > MIN_VALUE ? -s.excess / (tau * tau) : 0;
  *out = (NUM(pbMuscleRatePartials)){0};
  PB_ASSERT(w->m->actuator_dyntype[u] == pb_dynMuscle);

  // By the share of the time constants, in the smooth case a function of excess / width.
  if (s.smooth) {
    num by_share = by_tau * (s.act_time - s.deact_time) * s.slope;
    excess += by_share / prm[2];
    out->dynprm[2] = -by_share * s.excess / (prm[2] * prm[2]);
  }

  num by_act = by_tau * s.share, by_deact = by_tau * (1 - s.share);
  out->dynprm[0] = by_act * s.stretch;
  out->dynprm[1] = by_deact / s.stretch;

  num stretch = by_act * prm[0] - by_deact * s.deact_time / s.stretch;
  out->act = -excess;
  if (re(act) >= 0 && re(act) <= 1) out->act += 1.5 * stretch;
  if (re(ctrl) >= 0 && re(ctrl) <= 1) out->ctrl = excess;
}
