// Stages of an evaluation, in order; each reads what the ones before it wrote.
#ifndef PB_STAGES_H
#define PB_STAGES_H

#include <pullback/base.h>

#include "eval/names.h"

void NUM(pbStage_Kinematics)(NUM(pbMechanism) *w);     // xpos .. site_xmat, S, inert
void NUM(pbStage_Sites)(NUM(pbMechanism) *w);          // a part of Kinematics: site_xpos, site_xmat
void NUM(pbStage_AllSites)(NUM(pbMechanism) *w);       // those that are not there yet
void NUM(pbStage_AllGeoms)(NUM(pbMechanism) *w);       // geom_xpos, geom_xmat of those that are not there yet
void NUM(pbStage_Composites)(NUM(pbMechanism) *w);     // a part of Inertia: crb
void NUM(pbStage_Inertia)(NUM(pbMechanism) *w);        // crb, M (with tendon armature)
void NUM(pbStage_Tendon)(NUM(pbMechanism) *w);         // ten_length, ten_J, paths around geoms (before Inertia)
void NUM(pbStage_Velocity)(NUM(pbMechanism) *w);       // V, Vb, Sdot, A0, qfrc_bias, ten_velocity
void NUM(pbStage_Passive)(NUM(pbMechanism) *w);        // qfrc_spring, damper, gravcomp, fluid, passive
void NUM(pbStage_Actuation)(NUM(pbConstraints) *w);    // actuator length, velocity, force, act_dot, qfrc_actuator
void NUM(pbStage_Smooth)(NUM(pbMechanism) *w);         // qfrc_smooth
pbStatus NUM(pbStage_Collide)(NUM(pbConstraints) *w);  // contact
pbStatus NUM(pbStage_Rows)(NUM(pbConstraints) *w);     // row
pbStatus NUM(pbStage_Solve)(NUM(pbWork) *w);           // qacc, forces, H factor
void NUM(pbStage_Servos)(NUM(pbConstraints) *w);       // actuator_force of servos: what their rows have found
void NUM(pbStage_Acceleration)(NUM(pbMechanism) *w);   // A
void NUM(pbAccelerations)(const NUM(pbMechanism) *w, const num *qacc,
                          num *accelerations);     // the same by other joint accelerations
void NUM(pbStage_Sensors)(NUM(pbConstraints) *w);  // sensordata (needs A)
// Lengths, velocities and moments of actuators: a part of Actuation.
void NUM(pbActuator_Transmissions)(NUM(pbConstraints) *w);

#endif
