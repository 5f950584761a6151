// Forces on one part of a body in a number type: included once for each (number/complex_begin.h).

typedef struct NUM(pbFluidPart) {
  int type;
  bool symmetric;  // damping is symmetrized
  num d[3], R[9];  // frame: offset from ref, axes
  num V[6];        // velocity of the body
  num medium[pb_fluidMedium];
  num shape[pb_fluidShape];
} NUM(pbFluidPart);

// In the part's own frame: velocity of its origin relative to the fluid (angular, linear), force of the fluid (torque, force;
// linear in density and viscosity), its derivative by that velocity as implicitfast takes it (symmetrized where the part
// says so, and not scaled by geom_fluid[0]).
void NUM(pbFluid_LocalVelocity)(const NUM(pbFluidPart) *part, num u[6]);
void NUM(pbFluid_LocalForce)(const NUM(pbFluidPart) *part, const num u[6], num f[6]);
void NUM(pbFluid_LocalDamping)(const NUM(pbFluidPart) *part, const num u[6], num B[36]);
// wrench += force of the fluid (torque about ref, force), world axes.
void NUM(pbFluid_Wrench)(const NUM(pbFluidPart) *part, num wrench[6]);
// B += d(wrench)/d(velocity of the body) as implicitfast takes it.
void NUM(pbFluid_PartDamping)(const NUM(pbFluidPart) *part, num B[36]);
