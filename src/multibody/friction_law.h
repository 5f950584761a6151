// How large the friction loss of a dof is, by its velocity and load. Tests: tests/unit/test_friction_law.c.
//
//   loss = frictionloss + |km tm - ke te| + s (stiction + |lm tm - le te| + q),   s = exp(-|v / stribeck|^stribeckpower)
//
// tm: force of actuators on the dof; te: all else that acts there at the start of the step but dampers and constraints (gravity,
// Coriolis forces, springs, the medium, what is applied). (km, ke) is dof_frictionload, (lm, le) dof_stictionload; q is there
// where tm and te oppose each other, (qm, qe) dof_stictionquad: qe te^2 where the motor drives, |tm| > |te|, qm tm^2 where it is
// driven, the mean of both between.
//
// With viscous damping (dof_damping) these are models M1 to M6 of Duclusaud, Passault, Padois and Daniel, "Extended Friction
// Models for the Physics Simulation of Servo Actuators", arXiv:2410.08650: M1 frictionloss; M2 with stiction; M3 km = ke; M4
// both, lm = le; M5 km, ke, lm, le; M6 with qm, qe. The level is that of the start of the step, as velocity and load are.
#ifndef PB_FRICTION_LAW_H
#define PB_FRICTION_LAW_H

#include "eval/mechanism.h"
#include "model/term_fields.h"

// Has it a part by velocity or load? Others have a frictionloss alone.
static inline bool dof_has_law(const NUM(pbMechanism) *w, int i) {
  const num *load = PB_TERM(w, dof_frictionload) + 2 * i, *more = PB_TERM(w, dof_stictionload) + 2 * i,
            *quad = PB_TERM(w, dof_stictionquad) + 2 * i;
  return re(PB_TERM(w, dof_stiction)[i]) != 0 || re(load[0]) != 0 || re(load[1]) != 0 || re(more[0]) != 0 || re(more[1]) != 0 ||
         re(quad[0]) != 0 || re(quad[1]) != 0;
}

// The same of the complex program, in which a direction may move coefficients that are zero.
static inline bool dof_law_acts(const NUM(pbMechanism) *w, int i) {
#if PB_IS_COMPLEX
  const num *load = PB_TERM(w, dof_frictionload) + 2 * i, *more = PB_TERM(w, dof_stictionload) + 2 * i,
            *quad = PB_TERM(w, dof_stictionquad) + 2 * i;
  return PB_TERM(w, dof_stiction)[i] != 0 || load[0] != 0 || load[1] != 0 || more[0] != 0 || more[1] != 0 || quad[0] != 0 ||
         quad[1] != 0;
#else
  return dof_has_law(w, i);
#endif
}

// |v / stribeck|^power, and the share of what is there at rest. A velocity of zero takes it away at once.
static inline num stribeck_exponent(const NUM(pbMechanism) *w, int i) {
  num v = num_abs(w->qvel[i]), scale = PB_TERM(w, dof_stribeck)[i];
  if (!(re(scale) > 0)) return re(v) > 0 ? 1e3 : 0;
  return re(v) > 0 ? num_pow(v / scale, PB_TERM(w, dof_stribeckpower)[i]) : 0;
}
static inline num stribeck_share(num exponent) { return re(exponent) < 700 ? num_exp(-exponent) : 0; }

// The size of c[0] tm - c[1] te is c[0] motor + c[1] external, both with their signs. At coefficients of zero it bends: there the
// slope by each of them is that of moving it alone, from that side.
typedef struct load_parts {
  num motor, external;
} load_parts;

static inline double sign_of(double x) { return (x > 0) - (x < 0); }

static inline load_parts load_of(const NUM(pbMechanism) *w, int i, const num c[2]) {
  double motor = re(w->qfrc_actuator[i]), external = re(w->qfrc_load[i]);
  double sign = sign_of(re(c[0]) * motor - re(c[1]) * external), other = -sign;
  if (re(c[0]) == 0 && re(c[1]) == 0) {
    sign = sign_of(motor);
    other = sign_of(external);
  }
  return (load_parts){sign * w->qfrc_actuator[i], other * w->qfrc_load[i]};
}
static inline num load_size(const NUM(pbMechanism) *w, int i, const num c[2]) {
  load_parts of = load_of(w, i, c);
  return c[0] * of.motor + c[1] * of.external;
}

// Shares of qm tm^2 and qe te^2.
static inline void quad_shares(const NUM(pbMechanism) *w, int i, double share[2]) {
  double motor = re(w->qfrc_actuator[i]), external = re(w->qfrc_load[i]), more = fabs(motor) - fabs(external);
  bool oppose = (motor > 0 && external < 0) || (motor < 0 && external > 0);
  share[1] = more > 0 ? 1 : 0;
  if (more == 0) share[1] = 0.5;
  share[0] = 1 - share[1];
  if (!oppose) share[0] = share[1] = 0;
}

// What stands beside s.
static inline num rest_level(const NUM(pbMechanism) *w, int i) {
  const num *q = PB_TERM(w, dof_stictionquad) + 2 * i;
  num motor = w->qfrc_actuator[i], external = w->qfrc_load[i];
  double share[2];
  quad_shares(w, i, share);
  num quad = share[0] * q[0] * motor * motor + share[1] * q[1] * external * external;
  return PB_TERM(w, dof_stiction)[i] + load_size(w, i, PB_TERM(w, dof_stictionload) + 2 * i) + quad;
}

static inline num dof_loss(const NUM(pbMechanism) *w, int i) {
  num loss = w->p.dof_frictionloss[i];
  if (!dof_law_acts(w, i)) return loss;
  num share = stribeck_share(stribeck_exponent(w, i));
  return loss + load_size(w, i, PB_TERM(w, dof_frictionload) + 2 * i) + share * rest_level(w, i);
}

// Does it make a row? As in MuJoCo, dofs have one for all losses but zero; that of a law may be zero for a moment.
static inline bool dof_has_loss(const NUM(pbMechanism) *w, int i) { return re(dof_loss(w, i)) != 0; }

// ---- derivative -------------------------------------------------------------------------------------------------------
// By the state: velocity, force of actuators, other forces.
typedef struct loss_slopes {
  num velocity, motor, external;
} loss_slopes;

static inline loss_slopes dof_loss_slopes(const NUM(pbMechanism) *w, int i) {
  const num *load = PB_TERM(w, dof_frictionload) + 2 * i, *more = PB_TERM(w, dof_stictionload) + 2 * i,
            *quad = PB_TERM(w, dof_stictionquad) + 2 * i;
  num exponent = stribeck_exponent(w, i), s = stribeck_share(exponent), v = w->qvel[i];
  double share[2];
  quad_shares(w, i, share);

  // With coefficients both sizes bend with one sign; without them they are none.
  double sign = sign_of(re(load[0] * w->qfrc_actuator[i] - load[1] * w->qfrc_load[i]));
  double rest_sign = sign_of(re(more[0] * w->qfrc_actuator[i] - more[1] * w->qfrc_load[i]));
  loss_slopes d = {0, sign * load[0] + s * (rest_sign * more[0] + 2 * share[0] * quad[0] * w->qfrc_actuator[i]),
                   -sign * load[1] + s * (-rest_sign * more[1] + 2 * share[1] * quad[1] * w->qfrc_load[i])};
  // At rest the mean of both sides, which is zero; that of a square, the default, goes on from there.
  const num scale = PB_TERM(w, dof_stribeck)[i];
  if (PB_IS_COMPLEX && re(v) == 0 && re(scale) > 0 && re(PB_TERM(w, dof_stribeckpower)[i]) == 2)
    d.velocity = -2 * v / (scale * scale) * rest_level(w, i);
  if (re(v) != 0 && re(s) > 0) d.velocity = -s * exponent * PB_TERM(w, dof_stribeckpower)[i] / v * rest_level(w, i);
  return d;
}

#endif
