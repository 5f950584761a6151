// What a file of src/bodies/actuators offers: a transmission, a law of gain or bias, dynamics of an activation, and, below it,
// its pullback. Their rows stand in pullback/actuators.h. A file is compiled for each kind of lane, law and pullback together,
// and for the forward program in complex numbers, the law alone.
#ifndef PB_BODIES_ACTUATOR_H
#define PB_BODIES_ACTUATOR_H

#include "base/assert.h"
#include "eval/lane.h"
#include "eval/mechanism.h"

typedef struct LANE(pbTransmission) {
  // Sets act_length and adds the moment's entries, dofs ascending (put_moment). Entries that are zero now, but may not stay so,
  // too.
  void (*moment)(NUM(pbMechanism) *w, int actuator, int *used);
  // The same of what acts by contacts (eval/constraints.h), in its place.
  void (*moment_constrained)(NUM(pbConstraints) *w, int actuator, int *used);
} LANE(pbTransmission);

// Gain or bias, by act_length, act_velocity and parameters, and its derivative by velocity (NULL: zero). Of a bias: a force that
// the actuator's own limits do not hold (NULL: none), and its slope.
typedef struct LANE(pbActuatorLaw) {
  num (*value)(const NUM(pbMechanism) *w, int actuator);
  num (*slope)(const NUM(pbMechanism) *w, int actuator);
  num (*beyond)(const NUM(pbMechanism) *w, int actuator);
  num (*beyond_slope)(const NUM(pbMechanism) *w, int actuator);
} LANE(pbActuatorLaw);

typedef struct LANE(pbActivationLaw) {
  // Rate of activation i, which is act[i], the control within its range.
  num (*rate)(const NUM(pbMechanism) *w, int actuator, num ctrl, int i);
  // The activation after a time step that begins at act, before its range. NULL: act + act_dot h.
  num (*next)(const NUM(pbMechanism) *w, int actuator, int i, num act, num act_dot);
} LANE(pbActivationLaw);

#define PB_TRANSMISSION(law, function, ...) \
  const LANE(pbTransmission) LANE(pbTransmission_##law) = {.moment = function, ##__VA_ARGS__}
#define PB_GAIN(law, function, ...)     const LANE(pbActuatorLaw) LANE(pbGain_##law) = {.value = function, ##__VA_ARGS__}
#define PB_BIAS(law, function, ...)     const LANE(pbActuatorLaw) LANE(pbBias_##law) = {.value = function, ##__VA_ARGS__}
#define PB_DYNAMICS(law, function, ...) const LANE(pbActivationLaw) LANE(pbDynamics_##law) = {.rate = function, ##__VA_ARGS__}

static inline void put_moment(NUM(pbMechanism) *w, int *used, int dof, num value) {
  PB_ASSERT(dof >= 0 && dof < w->m->nv && *used < w->m->nu * w->m->nv);
  w->mom_dofs[*used] = dof;
  w->mom[(*used)++] = value;
}

#endif
