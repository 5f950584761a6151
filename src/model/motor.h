// Activations of a DC motor, of which each motor has those that its numbers ask for, in MuJoCo's order.
#ifndef PB_MODEL_MOTOR_H
#define PB_MODEL_MOTOR_H

#include <pullback/actuators.h>
#include <pullback/spec.h>

#include "model/model.h"

// Temperature of the winding above the ambient [K]; deflection of LuGre's bristles [rad or m]; current [A]. And, no activation,
// whether the current's rate is limited.
enum { pb_motorTemperature = 1, pb_motorBristle = 2, pb_motorCurrent = 4, pb_motorRate = 8 };

// What of it a motor has; dynprm: its numbers (bodies/actuators/dcmotor.c).
static inline int pbMotor_States(const double *dynprm) {
  int states = (dynprm[2] > 0 ? pb_motorTemperature : 0) | (dynprm[5] > 0 ? pb_motorBristle : 0);
  if (dynprm[0] > 0) states |= pb_motorCurrent | (dynprm[1] > 0 ? pb_motorRate : 0);
  return states;
}

// How many activations these are.
static inline int pbMotor_Count(int states) { return (states & 1) + (states >> 1 & 1) + (states >> 2 & 1); }

// Number of activations of an actuator.
static inline int pbActuatorDef_Activations(const pbActuatorDef *def) {
  if (def->dyntype != pb_dynDcmotor) return def->dyntype != pb_dynNone;
  return pbMotor_Count(pbMotor_States(def->dynprm));
}

// pb_unsupported where the integrator does not go with a motor's activations: stages have no velocity to go by.
PB_NODISCARD pbStatus pbMotor_Check(pbContext *ctx, const pbModel *model);

#endif
