// The adjoint of one evaluation: gradient of the frozen scalar W, the virtual power (multibody derivation: docs/derivatives.md).
// Cotangents are of type lane: double, or several seeds side by side (Jacobians). Primal quantities are plain double.
#ifndef PB_ADJOINT_H
#define PB_ADJOINT_H

#include "multibody/work.h"

#ifdef PB_LANES
typedef double lane __attribute__((vector_size(8 * PB_LANES), aligned(8 * PB_LANES)));
#define PB_LANE_KIND _lanes
#else
typedef double lane;
#define PB_LANES 1
#define PB_LANE_KIND _one
#endif
// Names: LANE(f) is f_one_r, f_lanes_r, f_one_v3, ...: the kind of lane, then the variant of the plain kernels it calls.
#define PB_LANE_PASTE2(a, b) a##b
#define PB_LANE_PASTE(a, b) PB_LANE_PASTE2(a, b)
#define PB_LANE_NUM(name) NUM(name)
#define LANE(name) PB_LANE_NUM(PB_LANE_PASTE(name, PB_LANE_KIND))

// Cotangents of one evaluation. Spatial ones are wrenches (torque, force) about the tree's ref, dual to motions.
// Everything is linear in the lane quantities; FL and FM multiply lane motions and so are plain numbers.
typedef struct LANE(pbAdjoint) {
  const NUM(pbWork) *w;
  double *theta;  // gradient by parameters (layout of theta), added to; NULL: not wanted (always NULL with several lanes)

  // virtual motions
  lane *lam;      // nv: H^-1 of the cotangent of qacc
  lane *mu;       // nv: Mhat^-1 (h vbar); 0 where the integrator does not damp
  lane *Vl, *Vm;  // nbody x 6: body motions of lam and mu
  lane *Vs;       // nbody x 6: motion that force and torque sensors give to a body and all below it (injected after the
                  // body's joints), minus the cotangent of the interaction wrench at that body
  lane *Vx;       // nbody x 6: Vl + Vs of the body and its ancestors: what inertia, xfrc, contacts, connect and weld see
  double *Va, *Vw;  // nbody x 6: body motions of qacc and of qacc - qacc_integrated

  // cotangents of body fields: filled by force elements, rows and sensors, then pulled down the tree
  lane *FV, *FA, *FW, *FVa;  // nbody x 6: of V, A, Vw, Va
  double *FL, *FX, *FM;      // nbody x 6: of Vl, Vx, Vm
  lane *P;                   // nbody x 6: of the body's pose (rigid motion of the body, fields of other bodies held still)

  // direct cotangents, from sensors and observations, set before lam is solved for
  lane *qacc;                           // nv
  lane *force;                          // max_row x 6: of the forces f of each row in its basis
  lane *ten_len, *ten_vel;              // ntendon
  lane *act_len, *act_vel, *act_force;  // nu
  lane *qfrc_actuator;                  // nv: after the clamp by jnt_actfrcrange; acts on actuators as more of lam at that dof

  // results, added to
  lane *q, *v, *act;         // nv, nv, na: tangent of the state
  lane *ctrl, *qfrc, *xfrc;  // nu, nv, nbody x 6
} LANE(pbAdjoint);

// A material point p of a body (offset d from ref), force F on its velocity u under field X: F . (X_lin + X_ang x d).
// Pose cotangent of the point at a frozen field and F is the couple u x F ... see docs/derivatives.md.

// theta[field row, column] += value, where theta is wanted.
#define PB_THETA(a, field, index, value)                                                    \
  do {                                                                                      \
    if (PB_LANES == 1 && (a)->theta)                                                        \
      (a)->theta[((a)->w->m->field - (a)->w->m->theta0) + (index)] += PB_LANE0(value);      \
  } while (0)
#if PB_LANES == 1
#define PB_LANE0(value) (value)
#else
#define PB_LANE0(value) ((value)[0])
#endif

// Direct cotangents of sensors: bar (nsensordata). Sets P, FV, FA, Vs, and the members under "direct cotangents"; adds to q, v,
// theta. Called first. Vs of a body that cannot move is about the world's origin; Vs of force and torque sensors does not
// cover spatial tendons, whose share is set here (MuJoCo counts them as loads of the body they pull).
void LANE(pbSensor_Adjoint)(LANE(pbAdjoint) *a, const lane *bar);
// W += sum of Vl . (fluid wrench); W += h sum of Vm . B (Va - Vw), B the damping of implicitfast.
void LANE(pbFluid_Adjoint)(LANE(pbAdjoint) *a);
void LANE(pbFluid_DampingAdjoint)(LANE(pbAdjoint) *a, double h);

#endif
