// What a file of src/bodies/actuators offers on the way back (actuator.h). Where PB_HAS_PULLBACK (eval/lane.h).
#ifndef PB_BODIES_ACTUATOR_ADJOINT_H
#define PB_BODIES_ACTUATOR_ADJOINT_H

#include "multibody/force_adjoint.h"

typedef struct LANE(pbTransmissionPull) {
  // Cotangents a->c (nv) of the moment and that of the length to what makes them.
  void (*pull)(LANE(pbAdjoint) *a, int actuator, lane length);
  // The same where the moment's cotangent is force lam + velocity v (NULL: it has no short way).
  void (*pull_along)(LANE(pbAdjoint) *a, int actuator, lane length, lane velocity);
  bool sees_sites;  // the moment is the motion of sites: c of all dofs
} LANE(pbTransmissionPull);

// Cotangent of a gain or bias to length, velocity and its parameters; the same of its slope and of what it has beyond limits
// (NULL: nothing).
typedef struct LANE(pbActuatorLawPull) {
  void (*pull)(LANE(pbAdjoint) *a, int actuator, lane bar, lane *length, lane *velocity);
  void (*pull_slope)(LANE(pbAdjoint) *a, int actuator, lane bar, lane *length, lane *velocity);
  void (*pull_beyond)(LANE(pbAdjoint) *a, int actuator, lane bar, lane *length, lane *velocity);
  void (*pull_beyond_slope)(LANE(pbAdjoint) *a, int actuator, lane bar);
} LANE(pbActuatorLawPull);

typedef struct LANE(pbActivationLawPull) {
  // act_dot[i] to the activations, the control (pbActuator_PullControl), velocity and parameters.
  void (*pull)(LANE(pbAdjoint) *a, int actuator, int i, lane *velocity);
  // bar of next to act_bar[i], dot_bar[i], a->act_vel and parameters, h_bar among it. NULL: pbForce_EulerNext.
  void (*pull_next)(LANE(pbAdjoint) *a, int actuator, int i, num act, num act_dot, lane bar, lane *act_bar, lane *dot_bar);
} LANE(pbActivationLawPull);

#define PB_TRANSMISSION_PULL(law, function, ...) \
  const LANE(pbTransmissionPull) LANE(pbTransmissionPull_##law) = {.pull = function, ##__VA_ARGS__}
#define PB_GAIN_PULL(law, function, ...) const LANE(pbActuatorLawPull) LANE(pbGainPull_##law) = {.pull = function, ##__VA_ARGS__}
#define PB_BIAS_PULL(law, function, ...) const LANE(pbActuatorLawPull) LANE(pbBiasPull_##law) = {.pull = function, ##__VA_ARGS__}
#define PB_DYNAMICS_PULL(law, function, ...) \
  const LANE(pbActivationLawPull) LANE(pbDynamicsPull_##law) = {.pull = function, ##__VA_ARGS__}

// pull_next of act + act_dot h, and of act + act_dot tau (1 - exp(-h / tau)), tau at least 1e-15, the first number of dynprm.
void LANE(pbForce_EulerNext)(LANE(pbAdjoint) *a, int i, num act_dot, lane bar, lane *act_bar, lane *dot_bar);
void LANE(pbForce_FilterNext)(LANE(pbAdjoint) *a, int actuator, int i, num act_dot, lane bar, lane *act_bar, lane *dot_bar);
// Cotangent of the control to ctrl or the end of its range; of a setpoint that was taken less its turns, 2 pi |gear| each.
void LANE(pbActuator_PullControl)(LANE(pbAdjoint) *a, int actuator, lane bar);
void LANE(pbActuator_PullTurns)(LANE(pbAdjoint) *a, int actuator, num setpoint, num near, lane bar);

#endif
