// Which parameters a pullback computes gradients for, in groups that share work. A group is left out where none of its fields is
// wanted (column "wakes" of model_fields.h); the adjoint then writes nothing, or a part only, to those fields.
#ifndef PB_WANTED_H
#define PB_WANTED_H

// clang-format off
enum {
  pb_wantPoses = 1 << 0,        // of bodies in their parents, of joints in bodies
  pb_wantInertia = 1 << 1,       // masses, their centers and axes
  pb_wantInertiaAxes = 1 << 2,          // axes of inertia
  pb_wantMedium = 1 << 3,        // density and viscosity
  pb_wantFluidShape = 1 << 4,    // of what the fluid pushes
  pb_wantGeoms = 1 << 5,         // poses and sizes of geoms that touch or are wrapped around
  pb_wantSprings = 1 << 6,       // of joints
  pb_wantDamping = 1 << 7,       // of joints and tendons
  pb_wantArmature = 1 << 8,      // of joints
  pb_wantTendon = 1 << 9,        // armature of tendons
  pb_wantGravcomp = 1 << 10,     // gravity compensation
  pb_wantSites = 1 << 11,        // poses of sites
  pb_wantRows = 1 << 12,         // everything that rows have of their own, but for losses of zero
  pb_wantImpedance = 1 << 13,    // of rows
  pb_wantFriction = 1 << 14,     // of contacts
  pb_wantLoss = 1 << 15,         // friction loss
  pb_wantMeshes = 1 << 16,       // scale and place of meshes that touch
  pb_wantEverything = (1 << 17) - 1
};
// clang-format on

#endif
