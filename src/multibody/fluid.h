// Fluid forces on one part of a body: the body's equivalent inertia box, or a geom taken as an ellipsoid (MuJoCo's manual,
// "Fluid forces"). Pure functions of a small struct, so that the adjoint can differentiate them by complex step.
#ifndef PB_FLUID_H
#define PB_FLUID_H

#include <stddef.h>

#include "eval/names.h"

enum {
  pb_fluidBox = -1,    // part type of the inertia box; other types are those of geoms
  pb_fluidMedium = 5,  // density, viscosity, wind (3)
  pb_fluidShape = 15   // most shape parameters; box: mass, inertia (3); ellipsoid: geom_size (3), geom_fluid (12)
};

#include "multibody/fluid_number.h"
#if !PB_IS_COMPLEX
#include "number/complex_begin.h"
#include "multibody/fluid_number.h"
#include "number/complex_end.h"

_Static_assert(sizeof(pbFluidPart_c) - offsetof(pbFluidPart_c, d) ==
                   2 * (sizeof(NUM(pbFluidPart)) - offsetof(NUM(pbFluidPart), d)),
               "a part is its kind and numbers");
#endif

// Parts of a body: 0 where its mass is nil, 1 for the box, otherwise its geoms (some may not interact: take returns false).
int NUM(pbFluid_Parts)(const NUM(pbMechanism) *w, int body, bool *box);
bool NUM(pbFluid_Take)(const NUM(pbMechanism) *w, int body, bool box, int index, NUM(pbFluidPart) *part);
void NUM(pbFluid_Fill)(const NUM(pbMechanism) *w, int body, bool box, int index,
                       NUM(pbFluidPart) *part);  // whether it interacts or not
// Has the force of a geom that does not interact a slope by its interaction coefficient? Not under implicitfast, whose damping
// jumps there (it is not scaled by the coefficient).
bool NUM(pbFluid_Sloped)(const NUM(pbMechanism) *w, int geom);

void NUM(pbFluid_Damping)(const NUM(pbMechanism) *w, int body, num B[36]);
// Power under the motion X of a body of what a unit of density and a unit of viscosity would exert on it, added.
void NUM(pbFluid_UnitPower)(const NUM(pbMechanism) *w, int body, const num X[6], num power[2]);
// The same of Y . B (X - Xless), fields of all bodies (nbody x 6), B the damping of implicitfast.
void NUM(pbFluid_UnitDamping)(const NUM(pbMechanism) *w, const num *Y, const num *X, const num *Xless, num power[2]);
// Fluid forces of body b on itself, world axes: wrench (torque, force) about the body's reference point, added.
void NUM(pbFluid_Body)(const NUM(pbMechanism) *w, int body, num wrench[6]);

#endif
