// The adjoint of one evaluation: gradient of the frozen scalar W, the virtual power (multibody derivation: docs/derivatives.md).
// Cotangents are of type lane: double, or several seeds side by side (Jacobians). Primal quantities are plain double.
#ifndef PB_ADJOINT_H
#define PB_ADJOINT_H

#include "multibody/work.h"

#ifdef PB_LANES
typedef double lane __attribute__((vector_size(8 * PB_LANES), aligned(8 * PB_LANES)));
#define LANE(name) name##_lanes
#else
typedef double lane;
#define PB_LANES 1
#define LANE(name) name##_one
#endif

// Cotangents of one evaluation. Spatial ones are (torque, force) about the tree's ref, dual to motions.
typedef struct LANE(pbAdjoint) {
  const pbWork_r *w;
  double *theta;       // gradient by parameters, added to; NULL: not wanted (always NULL with lanes)
  // virtual motions: given
  lane *lam;           // nv: H^-1 of the cotangent of qacc (virtual velocity of W)
  lane *mu;            // nv: Mhat^-1 (h vbar), 0 where the integrator does not damp
  // body fields pushed up from joint rates by the sweep
  lane *Vl, *Vm;       // nbody x 6 (Vl includes virtual motions given to subtrees by force and torque sensors)
  double *Va, *Vw;     // nbody x 6: from qacc; from qacc - qacc_integrated
  // cotangents on body fields, filled by force elements, rows, sensors; then pulled down
  lane *FV, *FA, *FM, *FW; // nbody x 6: on V, A, Vm, Vw
  lane *FL;            // nbody x 6: on Vl
  lane *FVa;           // nbody x 6: on Va
  lane *P;             // nbody x 6: on the body's pose (rigid motion of it and all below, in world axes about ref)
  // results, added to
  lane *q, *v, *act;   // nv, nv, na: tangent of the state
  lane *ctrl, *qfrc, *xfrc;  // nu, nv, nbody x 6
  // direct cotangents, given by sensors before the solve of lam
  lane *qacc;          // nv: cotangent of qacc
  lane *force;         // per row 6: cotangent on row forces (touch, limit force sensors)
  lane *ten_len, *ten_vel;  // ntendon: cotangents of tendon length and velocity
  lane *act_len, *act_vel, *act_force;  // nu
} LANE(pbAdjoint);

#endif
