// Potential and kinetic energy of a state, as MuJoCo counts them.
#ifndef PB_ENERGY_H
#define PB_ENERGY_H

#include "eval/names.h"

// Of the weight of all bodies, or of those alone that can move (moving).
num NUM(pbEnergy_Gravity)(const NUM(pbMechanism) *w, bool moving);
// Of the springs of joints and tendons.
num NUM(pbEnergy_Springs)(const NUM(pbMechanism) *w);
// v' M v / 2. Changes w->tmp.
num NUM(pbEnergy_Kinetic)(const NUM(pbMechanism) *w);

#endif
