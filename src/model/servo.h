// Servos: actuators whose force is found, not given. A servo asks for a velocity of what it moves, the one at which its force law
// is zero, and has the force within its range that gives this velocity after the step, or comes closest to it:
//
//   asked = (gain input + b0 + b1 length) / -b2,   0 where |asked| <= actuator_deadband, at most actuator_speed where that is > 0
//
// So a position actuator with kp and kv becomes a servo of gain kp / kv, a velocity actuator one that is told its velocity. The
// row of its force: bodies/rows/servo.c; the velocity: bodies/actuators.c (servo_target).
#ifndef PB_SERVO_H
#define PB_SERVO_H

#include <math.h>

#include "model/model.h"

// Which actuators are servos: "all" that can be, "none", or names separated by commas. pb_bad_argument with the actuator and what
// it lacks; then nothing has changed.
PB_NODISCARD pbStatus pbModel_SetServos(pbModel *model, const char *names);
// The same names again, as many as the text has room for; "none".
void pbModel_WriteServos(const pbModel *model, char *text, size_t size);
// Do parameters keep every servo one? pb_bad_argument.
PB_NODISCARD pbStatus pbModel_CheckServos(pbContext *ctx, const pbModel *model, const double *theta);

// Within the dead band a servo asks for rest.
static inline bool pbServo_Rests(double asked, double deadband) { return deadband > 0 && fabs(asked) <= deadband; }

#endif
