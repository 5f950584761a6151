// DC motors, as MuJoCo's dcmotor that is told a voltage V (XML reference, "dcmotor", and its technical note):
//   torque = K i, i = (V - K velocity) / R, or a state: di/dt = ((V - K velocity) / R - i) / te, at most so fast
//   R = R0 (1 + alpha (T + Ta - T0)), dT/dt = (R i^2 - T / RT) / C where the winding's temperature T (above Ta) is a state
// and, whatever limits the torque, cogging A sin(N length + phase) and LuGre's friction (Canudas de Wit, Olsson, Astrom,
// Lischinsky, A new model for control of systems with friction, 1995) -s0 z - s1 dz/dt by the deflection z of bristles:
//   dz/dt = velocity - s0 |velocity| / g z, g = Fc + (Fs - Fc) exp(-(velocity / vs)^2)
// gainprm: R0, K, alpha, T0. dynprm: te, greatest |di/dt| (0: none), RT, C, Ta, s0, s1. biasprm: A, N, phase, Fc, Fs, vs.
// Tests: tests/python/test_dcmotor.py, tests/conformance/test_step.c, tests/conformance/test_lists.c.
#include "bodies/actuator.h"
#include "bodies/actuators.h"
#include "model/motor.h"

#define LEAST 1e-15  // of what is divided by, as in MuJoCo

// The activation that is a state of the motor.
static int place(const NUM(pbMechanism) *w, int u, int state) {
  int states = w->m->actuator_motor[u];
  PB_ASSERT(states & state);
  return w->m->actuator_actadr[u] + pbMotor_Count(states & (state - 1));
}

static bool has(const NUM(pbMechanism) *w, int u, int state) { return w->m->actuator_motor[u] & state; }

// Which state an activation is.
static int state_of(const NUM(pbMechanism) *w, int u, int i) {
  for (int state = pb_motorTemperature; state < pb_motorCurrent; state *= 2) {
    if (has(w, u, state) && place(w, u, state) == i) return state;
  }
  return pb_motorCurrent;
}

// ---- torque -----------------------------------------------------------------------------------------------------------
static num resistance(const NUM(pbMechanism) *w, int u) {
  const num *g = w->p.actuator_gainprm + 10 * u;
  if (!has(w, u, pb_motorTemperature)) return g[0];
  return g[0] * (1 + g[2] * (w->act[place(w, u, pb_motorTemperature)] + w->p.actuator_dynprm[10 * u + 4] - g[3]));
}

static num gain(const NUM(pbMechanism) *w, int u) {
  num K = w->p.actuator_gainprm[10 * u + 1];
  return has(w, u, pb_motorCurrent) ? K : K / num_at_least(resistance(w, u), LEAST);
}
PB_GAIN(dcmotor, gain);

static num back_emf(const NUM(pbMechanism) *w, int u) {
  return has(w, u, pb_motorCurrent) ? 0 : -gain(w, u) * w->p.actuator_gainprm[10 * u + 1] * w->act_velocity[u];
}

// 1 - exp(-h / te): what a step takes of the way to the current that is asked for.
static num current_share(const NUM(pbMechanism) *w, int u) {
  return 1 - num_exp(-w->p.timestep[0] / num_at_least(w->p.actuator_dynprm[10 * u], LEAST));
}

// Rate of the current before its limit, and whether that holds it.
static num current_rate(const NUM(pbMechanism) *w, int u, num ctrl) {
  const num *g = w->p.actuator_gainprm + 10 * u;
  num R = resistance(w, u), te = num_at_least(w->p.actuator_dynprm[10 * u], LEAST);
  return (ctrl / R - g[1] / R * w->act_velocity[u] - w->act[place(w, u, pb_motorCurrent)]) / te;
}
static bool is_limited(const NUM(pbMechanism) *w, int u, num current_rate) {
  return has(w, u, pb_motorRate) && fabs(re(current_rate)) > fmax(re(w->p.actuator_dynprm[10 * u + 1]), 0);
}

static num slope(const NUM(pbMechanism) *w, int u) {
  num K = w->p.actuator_gainprm[10 * u + 1], drag = K * K / num_at_least(resistance(w, u), LEAST);
  if (!has(w, u, pb_motorCurrent)) return -drag;
  return is_limited(w, u, current_rate(w, u, NUM(pbActuator_Control)(w, u))) ? 0 : -drag * current_share(w, u);
}

// ---- what no limit holds ----------------------------------------------------------------------------------------------
static num beyond(const NUM(pbMechanism) *w, int u) {
  const num *b = w->p.actuator_biasprm + 10 * u, *d = w->p.actuator_dynprm + 10 * u;
  num force = re(b[0]) != 0 ? b[0] * num_sin(b[1] * w->act_length[u] + b[2]) : 0;
  if (!has(w, u, pb_motorBristle)) return force;

  int i = place(w, u, pb_motorBristle);
  return force - (d[5] * w->act[i] + d[6] * w->act_dot[i]);
}

// As MuJoCo's: of bristles that stay where they are.
static num beyond_slope(const NUM(pbMechanism) *w, int u) {
  return has(w, u, pb_motorBristle) ? -w->p.actuator_dynprm[10 * u + 6] : 0;
}
PB_BIAS(dcmotor, back_emf, .slope = slope, .beyond = beyond, .beyond_slope = beyond_slope);

// ---- states -----------------------------------------------------------------------------------------------------------
// g of LuGre's friction.
static num stribeck(const NUM(pbMechanism) *w, int u) {
  const num *b = w->p.actuator_biasprm + 10 * u;
  num ratio = w->act_velocity[u] / num_at_least(b[5], LEAST);
  return b[3] + (b[4] - b[3]) * num_exp(-ratio * ratio);
}

// a of dz/dt = a z + velocity.
static num decay(const NUM(pbMechanism) *w, int u) {
  return -w->p.actuator_dynprm[10 * u + 5] * num_abs(w->act_velocity[u]) / num_at_least(stribeck(w, u), LEAST);
}

static num rate(const NUM(pbMechanism) *w, int u, num ctrl, int i) {
  const num *d = w->p.actuator_dynprm + 10 * u;
  switch (state_of(w, u, i)) {
    case pb_motorTemperature: {
      num R = resistance(w, u), K = w->p.actuator_gainprm[10 * u + 1];
      num current = has(w, u, pb_motorCurrent) ? w->act[place(w, u, pb_motorCurrent)] : (ctrl - K * w->act_velocity[u]) / R;
      return (R * current * current - w->act[i] / d[2]) / d[3];
    }
    case pb_motorBristle: return decay(w, u) * w->act[i] + w->act_velocity[u];
    default: {
      num rate = current_rate(w, u, ctrl);
      return is_limited(w, u, rate) ? num_sign(rate) * num_at_least(d[1], 0) : rate;
    }
  }
}

// (exp(a h) - 1) / a, h at a = 0.
static num reach(num a, num h) {
  num x = a * h;
  if (fabs(re(x)) < 1e-5) return h * (1 + x / 2 + x * x / 6);
  return (num_exp(x) - 1) / a;
}

// Exact while voltage, resistance and velocity stay; the temperature by Euler's step.
static num next(const NUM(pbMechanism) *w, int u, int i, num act, num act_dot) {
  num h = w->p.timestep[0];
  switch (state_of(w, u, i)) {
    case pb_motorTemperature: return act + act_dot * h;
    case pb_motorBristle: {
      num a = decay(w, u);
      return num_exp(a * h) * act + reach(a, h) * w->act_velocity[u];
    }
    default: return act + act_dot * num_at_least(w->p.actuator_dynprm[10 * u], LEAST) * current_share(w, u);
  }
}
PB_DYNAMICS(dcmotor, rate, .next = next);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"
#include "elementary/elementary.h"

// R = R0 (1 + alpha warm), warm = T + Ta - T0.
static void pull_resistance(LANE(pbAdjoint) *a, int u, lane bar) {
  const NUM(pbMechanism) *w = a->w;
  const num *g = w->p.actuator_gainprm + 10 * u;
  if (!has(w, u, pb_motorTemperature)) {
    PB_THETA(a, actuator_gainprm, 10 * u, bar);
    return;
  }

  int i = place(w, u, pb_motorTemperature);
  num warm = w->act[i] + w->p.actuator_dynprm[10 * u + 4] - g[3];
  PB_THETA(a, actuator_gainprm, 10 * u, bar * (1 + g[2] * warm));
  PB_THETA(a, actuator_gainprm, 10 * u + 2, bar * (g[0] * warm));
  PB_THETA(a, actuator_dynprm, 10 * u + 4, bar * (g[0] * g[2]));
  PB_THETA(a, actuator_gainprm, 10 * u + 3, -bar * (g[0] * g[2]));
  a->act[i] += bar * (g[0] * g[2]);
}

// factor K / R, or factor K where the current is a state.
static void pull_gain(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  (void)length;
  (void)velocity;
  num K = w->p.actuator_gainprm[10 * u + 1], R = has(w, u, pb_motorCurrent) ? 1 : num_max(resistance(w, u), LEAST);
  PB_THETA(a, actuator_gainprm, 10 * u + 1, bar / R);
  if (!has(w, u, pb_motorCurrent) && re(R) > LEAST) pull_resistance(a, u, -bar * (K / (R * R)));
}
PB_GAIN_PULL(dcmotor, pull_gain);

// -K^2 / R velocity
static void pull_back_emf(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  (void)length;
  if (has(w, u, pb_motorCurrent)) return;

  num K = w->p.actuator_gainprm[10 * u + 1], R = num_max(resistance(w, u), LEAST), v = w->act_velocity[u];
  *velocity -= bar * (K * K / R);
  PB_THETA(a, actuator_gainprm, 10 * u + 1, -bar * (2 * K * v / R));
  if (re(R) > LEAST) pull_resistance(a, u, bar * (K * K * v / (R * R)));
}

// -K^2 / R share
static void pull_slope(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  (void)length;
  (void)velocity;
  num K = w->p.actuator_gainprm[10 * u + 1], te = w->p.actuator_dynprm[10 * u], R = num_max(resistance(w, u), LEAST), share = 1;
  if (has(w, u, pb_motorCurrent)) {
    if (is_limited(w, u, current_rate(w, u, NUM(pbActuator_Control)(w, u)))) return;
    share = current_share(w, u);
  }
  PB_THETA(a, actuator_gainprm, 10 * u + 1, -bar * (2 * K / R * share));
  if (re(R) > LEAST) pull_resistance(a, u, bar * (K * K / (R * R) * share));
  if (!has(w, u, pb_motorCurrent) || re(te) <= LEAST) return;

  // share = 1 - exp(-h / te)
  num left = 1 - share, by_share = -K * K / R;
  PB_THETA(a, actuator_dynprm, 10 * u, -bar * (by_share * left * w->p.timestep[0] / (te * te)));
  a->h_bar += PB_LANE0(bar) * by_share * left / te;
}

// A sin(N length + phase) - s0 z - s1 dz/dt
static void pull_beyond(LANE(pbAdjoint) *a, int u, lane bar, lane *length, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  const num *b = w->p.actuator_biasprm + 10 * u, *d = w->p.actuator_dynprm + 10 * u;
  num sine, cosine;
  (void)velocity;
  num_sincos(b[1] * w->act_length[u] + b[2], &sine, &cosine);
  *length += bar * (b[0] * cosine * b[1]);
  PB_THETA(a, actuator_biasprm, 10 * u, bar * sine);
  PB_THETA(a, actuator_biasprm, 10 * u + 1, bar * (b[0] * cosine * w->act_length[u]));
  PB_THETA(a, actuator_biasprm, 10 * u + 2, bar * (b[0] * cosine));
  if (!has(w, u, pb_motorBristle)) return;

  int i = place(w, u, pb_motorBristle);
  a->act[i] -= bar * d[5];
  a->act_dot[i] -= bar * d[6];
  PB_THETA(a, actuator_dynprm, 10 * u + 5, -bar * w->act[i]);
  PB_THETA(a, actuator_dynprm, 10 * u + 6, -bar * w->act_dot[i]);
}

static void pull_beyond_slope(LANE(pbAdjoint) *a, int u, lane bar) {
  if (has(a->w, u, pb_motorBristle)) PB_THETA(a, actuator_dynprm, 10 * u + 6, -bar);
}
PB_BIAS_PULL(dcmotor, pull_back_emf, .pull_slope = pull_slope, .pull_beyond = pull_beyond,
             .pull_beyond_slope = pull_beyond_slope);

// a = -s0 |v| / g, at rest with the mean slope of both sides, which is zero.
static void pull_decay(LANE(pbAdjoint) *a, int u, lane bar, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  const num *b = w->p.actuator_biasprm + 10 * u;
  num s0 = w->p.actuator_dynprm[10 * u + 5], v = w->act_velocity[u], vs = num_max(b[5], LEAST), least = stribeck(w, u);
  num g = num_max(least, LEAST), by_g = re(least) > LEAST ? s0 * num_abs(v) / (g * g) : 0, fall = num_exp(-(v / vs) * (v / vs));
  *velocity += bar * (by_g * (b[4] - b[3]) * fall * (-2 * v / (vs * vs)) - s0 * num_sign(v) / g);
  PB_THETA(a, actuator_dynprm, 10 * u + 5, -bar * (num_abs(v) / g));
  PB_THETA(a, actuator_biasprm, 10 * u + 3, bar * (by_g * (1 - fall)));
  PB_THETA(a, actuator_biasprm, 10 * u + 4, bar * (by_g * fall));
  if (re(b[5]) > LEAST)
    PB_THETA(a, actuator_biasprm, 10 * u + 5, bar * (by_g * (b[4] - b[3]) * fall * 2 * v * v / (vs * vs * vs)));
}

// (R i^2 - T / RT) / C, i a state or (V - K v) / R.
static void pull_temperature(LANE(pbAdjoint) *a, int u, int i, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  const num *d = w->p.actuator_dynprm + 10 * u;
  num R = resistance(w, u), K = w->p.actuator_gainprm[10 * u + 1], v = w->act_velocity[u];
  bool state = has(w, u, pb_motorCurrent);
  int at = state ? place(w, u, pb_motorCurrent) : 0;
  num current = state ? w->act[at] : (NUM(pbActuator_Control)(w, u) - K * v) / R;
  lane bar = a->act_dot[i] / d[3];

  a->act[i] -= bar / d[2];
  PB_THETA(a, actuator_dynprm, 10 * u + 2, bar * (w->act[i] / (d[2] * d[2])));
  PB_THETA(a, actuator_dynprm, 10 * u + 3, -bar * w->act_dot[i]);
  pull_resistance(a, u, (state ? bar : -bar) * (current * current));
  if (state) {
    a->act[at] += bar * (2 * R * current);
    return;
  }

  lane voltage = bar * (2 * current);
  *velocity -= voltage * K;
  PB_THETA(a, actuator_gainprm, 10 * u + 1, -voltage * v);
  LANE(pbActuator_PullControl)(a, u, voltage);
}

// ((V - K v) / R - i) / te, or the end of its range.
static void pull_current(LANE(pbAdjoint) *a, int u, int i, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  const num *d = w->p.actuator_dynprm + 10 * u;
  num ctrl = NUM(pbActuator_Control)(w, u), raw = current_rate(w, u, ctrl);
  if (is_limited(w, u, raw)) {
    if (re(d[1]) >= 0) PB_THETA(a, actuator_dynprm, 10 * u + 1, re(raw) > 0 ? a->act_dot[i] : -a->act_dot[i]);
    return;
  }

  num R = resistance(w, u), K = w->p.actuator_gainprm[10 * u + 1], v = w->act_velocity[u], te = num_max(d[0], LEAST);
  lane bar = a->act_dot[i] / te;
  a->act[i] -= bar;
  *velocity -= bar * (K / R);
  PB_THETA(a, actuator_gainprm, 10 * u + 1, -bar * (v / R));
  if (re(d[0]) > LEAST) PB_THETA(a, actuator_dynprm, 10 * u, -bar * raw);
  pull_resistance(a, u, -bar * ((ctrl - K * v) / (R * R)));
  LANE(pbActuator_PullControl)(a, u, bar / R);
}

static void pull_rate(LANE(pbAdjoint) *a, int u, int i, lane *velocity) {
  const NUM(pbMechanism) *w = a->w;
  switch (state_of(w, u, i)) {
    case pb_motorTemperature: pull_temperature(a, u, i, velocity); return;
    case pb_motorBristle:
      a->act[i] += a->act_dot[i] * decay(w, u);
      *velocity += a->act_dot[i];
      pull_decay(a, u, a->act_dot[i] * w->act[i], velocity);
      return;
    default: pull_current(a, u, i, velocity);
  }
}

// d/da of (exp(a h) - 1) / a.
static num reach_slope(num a, num h) {
  num x = a * h;
  if (fabs(re(x)) < 0.05)
    return h * h * (0.5 + x * (1. / 3 + x * (1. / 8 + x * (1. / 30 + x * (1. / 144 + x * (1. / 840 + x / 5760))))));
  return ((x - 1) * num_exp(x) + 1) / (a * a);
}

static void pull_next(LANE(pbAdjoint) *a, int u, int i, num act, num act_dot, lane bar, lane *act_bar, lane *dot_bar) {
  const NUM(pbMechanism) *w = a->w;
  num h = w->p.timestep[0], v = w->act_velocity[u];
  switch (state_of(w, u, i)) {
    case pb_motorTemperature: LANE(pbForce_EulerNext)(a, i, act_dot, bar, act_bar, dot_bar); return;
    case pb_motorBristle: {
      num rate = decay(w, u), left = num_exp(rate * h);
      act_bar[i] += bar * left;
      a->act_vel[u] += bar * reach(rate, h);
      a->h_bar += PB_LANE0(bar) * (left * (rate * act + v));
      pull_decay(a, u, bar * (h * left * act + reach_slope(rate, h) * v), a->act_vel + u);
      return;
    }
    default: LANE(pbForce_FilterNext)(a, u, i, act_dot, bar, act_bar, dot_bar);
  }
}
PB_DYNAMICS_PULL(dcmotor, pull_rate, .pull_next = pull_next);
#endif
