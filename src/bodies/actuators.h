// All actuators of a model: beside the stage (eval/stages.h) what integrators and derivatives ask of src/bodies/actuators.
#ifndef PB_BODIES_ACTUATORS_H
#define PB_BODIES_ACTUATORS_H

#include "base/assert.h"
#include "eval/names.h"
#include "model/model.h"
#include "model/motor.h"

// Is the actuator off, by a flag or by its group? Then it has no force, and its activation stays.
static inline bool pb_actuator_off(const pbModel *m, int actuator) {
  PB_ASSERT(actuator >= 0 && actuator < m->nu);
  int group = m->actuator_group[actuator];

  return (m->disableflags & pb_disActuation) || (group >= 0 && group <= 30 && (m->disableactuator >> group & 1));
}
// A servo that is not off: its force is that of a row, not given by its law.
static inline bool pb_servo(const pbModel *m, int actuator) {
  PB_ASSERT(actuator >= 0 && actuator < m->nu);

  return m->actuator_servo[actuator] && !pb_actuator_off(m, actuator);
}
// Is all of the actuator's force without effect: is it off, or held by its joint's limit? Is the force of its law (all but what
// is beyond limits), by its own limit or its tendon's, too?
bool NUM(pbActuator_Held)(const NUM(pbMechanism) *w, int actuator);
bool NUM(pbActuator_Saturated)(const NUM(pbMechanism) *w, int actuator);
// Slope of an actuator's force by its velocity as implicitfast takes it; zero where it is held. Of its gain alone.
num NUM(pbActuator_Slope)(const NUM(pbMechanism) *w, int actuator);
num NUM(pbActuator_GainSlope)(const NUM(pbMechanism) *w, int actuator);
// Is what the gain multiplies the control, and not the last activation?
static inline bool pb_actuator_direct(const pbModel *m, int actuator) {
  PB_ASSERT(actuator >= 0 && actuator < m->nu);
  int type = m->actuator_dyntype[actuator];

  return type == pb_dynNone || (type == pb_dynDcmotor && !(m->actuator_motor[actuator] & pb_motorCurrent));
}
// Rate of activation i of the actuator, the control within its range.
num NUM(pbActuator_Rate)(const NUM(pbMechanism) *w, int actuator, num ctrl, int i);
// The control, within its range.
num NUM(pbActuator_Control)(const NUM(pbMechanism) *w, int actuator);
// The gear, three numbers, of a servo on a rotation, where setpoints a turn of 2 pi |gear| apart are the same; NULL of others.
const num *NUM(pbActuator_Turning)(const NUM(pbMechanism) *w, int actuator);
// Whole turns between a setpoint and the same one that is nearest to `near`.
double NUM(pbActuator_Turns)(const num *gear, num setpoint, num near);
// That one: the setpoint less its turns; itself where there are none.
num NUM(pbActuator_Wrap)(const NUM(pbMechanism) *w, int actuator, num setpoint, num near);
// Activation i one time step after act, and before its range holds it.
num NUM(pbActuator_Free)(const NUM(pbMechanism) *w, int actuator, int i, num act, num act_dot);
num NUM(pbActuator_Next)(const NUM(pbMechanism) *w, int actuator, int i, num act, num act_dot);

#endif
