// All forces on joints and bodies that follow from the state, by the files of src/bodies/forces, and what is applied.
#ifndef PB_BODIES_FORCES_H
#define PB_BODIES_FORCES_H

#include "eval/names.h"
#include "model/model.h"

// X(file, acts): in the order in which they are added; pulled back they are from the last to the first.
#define PB_FORCE_FILES(X)          \
  X(fluid, Passive)                \
  X(gravity_compensation, Passive) \
  X(applied, Always)               \
  X(armature, Always)              \
  X(damper, Dampers)               \
  X(spring, Springs)               \
  X(tendon, Passive)

// With springs or with dampers, whose flags switch them off; with either of both (MuJoCo's rule of all passive forces); always.
typedef enum pbActs { pb_actsSprings, pb_actsDampers, pb_actsPassive, pb_actsAlways } pbActs;
static inline bool pb_acts(const pbModel *m, pbActs acts) {
  bool springs = !(m->disableflags & pb_disSpring), dampers = !(m->disableflags & pb_disDamper);
  switch (acts) {
    case pb_actsSprings: return springs;
    case pb_actsDampers: return dampers;
    case pb_actsPassive: return springs || dampers;
    default: return true;
  }
}

// Velocity derivative of the smooth forces on the pattern of M, as implicitfast takes it: D += d(passive + actuator)/dv.
void NUM(pbForce_Derivative)(const NUM(pbMechanism) *w, num *D);

#endif
