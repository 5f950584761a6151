// Fluid forces on one part of a body: the body's equivalent inertia box, or a geom taken as an ellipsoid (MuJoCo's manual,
// "Fluid forces"). Pure functions of a small struct, so that the adjoint can differentiate them by complex step.
#ifndef PB_FLUID_H
#define PB_FLUID_H

#include "eval/work.h"

enum {
  pb_fluidBox = -1,    // part type of the inertia box; other types are those of geoms
  pb_fluidMedium = 5,  // density, viscosity, wind (3)
  pb_fluidShape = 15   // most shape parameters; box: mass, inertia (3); ellipsoid: geom_size (3), geom_fluid (12)
};

#define PB_FLUID_PART(number)                             \
  {                                                       \
    int type;                                             \
    bool symmetric;    /* damping is symmetrised */       \
    number d[3], R[9]; /* frame: offset from ref, axes */ \
    number V[6];       /* velocity of the body */         \
    number medium[pb_fluidMedium];                        \
    number shape[pb_fluidShape];                          \
  }
typedef struct NUM(pbFluidPart) PB_FLUID_PART(num) NUM(pbFluidPart);

// Parts of a body: 0 where its mass is nil, 1 for the box, otherwise its geoms (some may not interact: take returns false).
int NUM(pbFluid_Parts)(const NUM(pbWork) *w, int body, bool *box);
bool NUM(pbFluid_Take)(const NUM(pbWork) *w, int body, bool box, int index, NUM(pbFluidPart) *part);
void NUM(pbFluid_Fill)(const NUM(pbWork) *w, int body, bool box, int index,
                       NUM(pbFluidPart) *part);  // whether it interacts or not
// Has the force of a geom that does not interact a slope by its interaction coefficient? Not under implicitfast, whose damping
// jumps there (it is not scaled by the coefficient).
bool NUM(pbFluid_Sloped)(const NUM(pbWork) *w, int geom);
// In the part's own frame: velocity of its origin relative to the fluid (angular, linear), force of the fluid (torque, force;
// linear in density and viscosity), its derivative by that velocity as implicitfast takes it (symmetrised where the part
// says so, and not scaled by geom_fluid[0]).
void NUM(pbFluid_LocalVelocity)(const NUM(pbFluidPart) *part, num u[6]);
void NUM(pbFluid_LocalForce)(const NUM(pbFluidPart) *part, const num u[6], num f[6]);
void NUM(pbFluid_LocalDamping)(const NUM(pbFluidPart) *part, const num u[6], num B[36]);
// wrench += force of the fluid (torque about ref, force), world axes.
void NUM(pbFluid_Wrench)(const NUM(pbFluidPart) *part, num wrench[6]);
// B += d(wrench)/d(velocity of the body) as implicitfast takes it.
void NUM(pbFluid_PartDamping)(const NUM(pbFluidPart) *part, num B[36]);

#if !PB_IS_COMPLEX
typedef struct pbFluidPart_c PB_FLUID_PART(_Complex double) pbFluidPart_c;
void pbFluid_LocalForce_c(const pbFluidPart_c *part, const _Complex double u[6], _Complex double f[6]);
void pbFluid_LocalDamping_c(const pbFluidPart_c *part, const _Complex double u[6], _Complex double B[36]);
void pbFluid_Wrench_c(const pbFluidPart_c *part, _Complex double wrench[6]);
void pbFluid_PartDamping_c(const pbFluidPart_c *part, _Complex double B[36]);
#endif

#endif
