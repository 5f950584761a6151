// The adjoint of one evaluation: gradient of the frozen scalar W, the virtual power (multibody derivation: docs/derivatives.md).
//
// Lanes. An adjoint is compiled for one cotangent, and once more for several side by side: rows of a Jacobian share the traversal
// of the tree and differ in their cotangents alone.
//   lane          the type of a cotangent: double, or a vector of PB_LANES doubles, one for each seed; in complex numbers (second
// derivatives, step/second.h) a cotangent with its derivative, for which PB_LANES is 2. Primal quantities are num.
//   PB_LANES      how many: 1, or as many as a vector register holds (2, 4, 8)
//   LANE(name)    name_one_r or name_lanes_r, name_one_v3, ...: a function or struct that is there in both versions (eval/lane.h)
//   _one, _lanes  these two versions, by which other sources call them (step/variants.h)
//   PB_LANE0(x)   the only lane of x where there is one, the first of several: for sums that several lanes do not want
//   PB_LANE_ZERO  zero in all lanes
// Arithmetic works on both alike. Gradients by parameters (theta) are for one cotangent: PB_THETA and PB_WANTS do nothing for
// several.
#ifndef PB_ADJOINT_H
#define PB_ADJOINT_H

#include "elementary/elementary.h"
#include "eval/lane.h"
#include "eval/mechanism.h"
#include "model/wanted.h"

// Seeds, each with a cotangent of its own: in complex numbers one, whose value and derivative are two doubles.
#define PB_SEEDS (PB_IS_COMPLEX ? 1 : PB_LANES)
#if PB_IS_COMPLEX
typedef num lane;
#elif PB_LANES > 1
typedef double lane __attribute__((vector_size(8 * PB_LANES), aligned(8 * PB_LANES)));
#else
typedef double lane;
#endif

// Views of the gradient by theta, one to a field (as in par.h).
typedef struct pbBars {
#define X(name, rows, cols, ...) num *name;
  PB_MODEL_PARAMS(X)
  PB_MESH_PARAMS(X)
#undef X
} pbBars;

static inline void bars_view(pbBars *b, const pbModel *m, num *theta) {
  PB_ASSERT(theta != NULL);

  // each field where the model has it in theta
#define X(name, rows, cols, ...) b->name = theta + (m->name - m->theta0);
  PB_MODEL_PARAMS(X)
  PB_MESH_PARAMS(X)
#undef X
}

// Of a row, with sweeps against slip (solve/noslip.h): cotangents of what the sweeps begin with.
typedef struct LANE(pbSlipBar) {
  lane x[6];         // of the residual of each row
  lane friction[5];  // of a contact
  lane edges[5];     // of the sums of two edges' forces, of a pyramid
  lane normal;       // of the normal force, of an elliptic cone
  lane bound;        // of the upper bound, of dry friction
  lane log_D;        // of the logarithm of edge_D
} LANE(pbSlipBar);

// The solution that the forces, the rows and the inertia of an evaluation are differentiated at. With sweeps against slip it is
// Newton's, which they begin with; the work holds what they made of it, which sensors and integrators see. Without, both are one.
typedef struct LANE(pbSolution) {
  const num *qacc;   // nv
  const num *A;      // nbody x 6: accelerations of bodies
  const num *force;  // max_row x 6: of rows; NULL: those that the rows have (pbRow.f)
} LANE(pbSolution);

// Cotangents of one evaluation. Spatial ones are wrenches (torque, force) about the tree's ref, dual to motions.
// Everything is linear in the lane quantities; FL and FM multiply lane motions and so are plain numbers.
typedef struct LANE(pbAdjoint) {
  const NUM(pbMechanism) *w;
  const NUM(pbConstraints) *constraints;  // the same evaluation for those who see more of it (eval/names.h)
  const NUM(pbWork) *work;
  LANE(pbSolution) at;
  num *theta;           // gradient by parameters (layout of theta), added to; NULL: not wanted (always NULL with several lanes)
  pbBars bar;           // the same by field, where it is wanted
  const char *refused;  // in complex numbers: what has no second derivatives, where something was met; NULL: nothing
  unsigned want;        // groups of parameters (model/wanted.h) that are wanted; 0 where theta is NULL

  // virtual motions
  lane *lam;      // nv: H^-1 of the cotangent of qacc
  lane *mu;       // nv: Mhat^-1 (h vbar); 0 where the integrator does not damp
  lane *Vl, *Vm;  // nbody x 6: body motions of lam and mu
  lane *Vs;       // nbody x 6: motion that force and torque sensors give to a body and all below it (injected after the
                  // body's joints), minus the cotangent of the interaction wrench at that body
  lane *Vx;       // nbody x 6: Vl + Vs of the body and its ancestors: what inertia, xfrc, contacts, connect and weld see

  // what depends on the evaluation alone
  num *Va, *Vw;                         // nbody x 6: body motions of at.qacc and of at.qacc - qacc_integrated
  num *IV, *rate_IV, *IW;               // nbody x 6: I V; I at.A + V x* I V, what the body's motion takes; I Vw
  num *damping;                         // nv x 3: coefficients of each dof's damper
  pbContactJacobian *contact_jacobian;  // max_con: how each contact moves with its pair

  // cotangents of body fields: filled by force elements, rows and sensors, then pulled down the tree
  lane *FV, *FA, *FW, *FVa;   // nbody x 6: of V, A, Vw, Va
  num *FL, *FX, *FM;          // nbody x 6: of Vl, Vx, Vm
  pbContactBar *contact_bar;  // max_con, of models with meshes: what contacts had so far, see pbContact_PullMeshes
  lane *P;                    // nbody x 6: of the body's pose (rigid motion), the fields of all bodies held

  // direct cotangents, from sensors and observations, set before lam is solved for
  lane *qacc;                           // nv
  lane *force;                          // max_row x 6: of the forces f of each row in its basis
  lane *ten_len, *ten_vel;              // ntendon: of length and velocity
  lane *act_len, *act_vel, *act_force;  // nu
  lane *qfrc_actuator;                  // nv: after the clamp by jnt_actfrcrange; acts on actuators as more of lam at that dof

  lane *act_dot;  // na: of act_dot (given by the integrator), then used

  lane *loss;   // 2 x nv: of the level of losses by the force of actuators, which is more of lam_act; by qfrc_load
  bool loaded;  // some are not zero

  lane *act_residual, *act_target;  // nu: of the residual of a servo's row; of the velocity that it asks for

  // collected by rows, forces and actuators, then pulled through tendons and transmissions
  num *ten_lam;     // ntendon: of J lam, J the tendon's Jacobian row; that is the tension
  lane *ten_acc;    // ntendon: of J qacc
  lane *ten_power;  // ntendon: J lam
  bool *ten_other;  // ntendon: whether J has cotangents besides: ten_c, by pbTendon_Other
  lane *ten_c;      // ntendon x nv
  lane *c;          // nv: of a moment
  lane *lam_act;    // nv: lam where qfrc_actuator is not limited, else 0
  bool act_free;    // lam_act is lam
  lane *X, *G;      // nbody x 6: scratch fields
  num *F;           // nbody x 6
  lane *load_X;     // nbody x 6: motions by the second half of loss, and what their power alone collects:
  num *load_F;      // 2 x nbody x 6

  lane *z, *u;  // of hard contact: max_row x 6, cotangents of a row's residual; of its law, room for twice

  // sweeps against slip: what rows read of them, and what they work with (solve/noslip_adjoint.h)
  LANE(pbSlipBar) *slip_row;  // max_row
  lane *slip_loss;            // nv + ntendon: of the forces of losses of zero
  struct LANE(pbSlipAdjoint) *slip;

  lane *y0;                        // max_row x 6: functional of each row besides J lam (Vs, force)
  bool fresh;                      // nothing was added to cotangents of body fields yet: the inertial sweep clears them
  bool damped;                     // the step is damped: Vm, Vw count
  bool has_mu;                     // mu is set: damped, or wanted for the gradient by a damping that is zero
  bool has_Vs, has_FA, has_force;  // some of these were set
  bool apart;                      // bodies move as Vx says, whatever lam is, and have no inertia (step/pairs_adjoint.c),
  bool *later;                     // max_row: and these rows are pulled by themselves
  num h_bar;                       // of the time step, collected from everywhere (one lane)

  // results, added to
  lane *q, *v, *act;            // nv, nv, na: tangent of the state
  lane *ctrl, *qfrc, *xfrc;     // nu, nv, nbody x 6
  lane *mocap_pos, *mocap_rot;  // nmocap x 3 each
  lane *mocap_vel;              // nmocap x 6
} LANE(pbAdjoint);

// Short blocks: memset and memcpy would be string instructions, slow to start.
static inline void LANE(pbLane_Zero6)(lane x[6]) {
  const lane zero = {0};
  x[0] = zero;
  x[1] = zero;
  x[2] = zero;
  x[3] = zero;
  x[4] = zero;
  x[5] = zero;
}

// Cotangents of a tendon's Jacobian row that are not by lam, the velocity or the acceleration: nv, to be added to.
static inline lane *LANE(pbTendon_Other)(LANE(pbAdjoint) *a, int tendon) {
  size_t nv = (size_t)a->w->m->nv;
  lane *c = a->ten_c + (size_t)tendon * nv;
  if (!a->ten_other[tendon]) memset(c, 0, nv * sizeof(lane));
  a->ten_other[tendon] = true;
  return c;
}

// theta[field row, column] += value, where theta is wanted.
#define PB_THETA(a, field, index, value)                                       \
  do {                                                                         \
    if (PB_LANES == 1 && (a)->theta) (a)->bar.field[index] += PB_LANE0(value); \
  } while (0)
// Is any field of the group wanted?
#define PB_WANTS(a, group) (PB_LANES == 1 && ((a)->want & (group)) != 0)
#if PB_LANES == 1 || PB_IS_COMPLEX
#define PB_LANE0(value) (value)
#else
#define PB_LANE0(value) ((value)[0])
#endif

// Direct cotangents of sensors (nsensordata; changed: zero where a cutoff clamps). Sets P, FV, FA, Vs, and the members under
// "direct cotangents"; adds to q, v, theta. Called first. Vs of a body that cannot move is about the world's origin; Vs of force
// and torque sensors does not cover spatial tendons, whose share is set here (MuJoCo counts them as loads of the body they
// pull). Needs what pbStage_Acceleration and pbStage_Sensors left in the work (A, sensordata, subtree_com, cfrc_int). Sets
// has_Vs, has_FA, has_force.
void LANE(pbSensor_Adjoint)(LANE(pbAdjoint) *a, lane *sensordata);
// W += sum of Vl . (fluid wrench); W += h sum of Vm . B (Va - Vw), B the damping of implicitfast.
void LANE(pbFluid_Adjoint)(LANE(pbAdjoint) *a);
void LANE(pbFluid_DampingAdjoint)(LANE(pbAdjoint) *a, num h);

// ---- sweeps ---------------------------------------------------------------------------------------------------------
#define PB_LANE_ZERO ((lane){0})

// x := A^-1 x for a factored tree matrix.
void LANE(pbSweep_Solve)(const pbTreePattern *tree, const num *LD, const num *diag_inv, lane *x);
// y = A x, A unfactored.
void LANE(pbSweep_Mul)(const pbTreePattern *tree, const num *A, const lane *x, lane *y);
// X[b] = motion of every body from joint rates.
void LANE(pbSweep_Push)(const NUM(pbMechanism) *w, const lane *rate, lane *X);
void LANE(pbSweep_PushPlain)(const NUM(pbMechanism) *w, const num *rate, num *X);
// qacc += S' (sum of FA over the subtree): cotangent of qacc from that of body accelerations.
void LANE(pbSweep_Acceleration)(LANE(pbAdjoint) *a);
// What the evaluation is differentiated at, and Va to damping there.
void LANE(pbSweep_Evaluation)(LANE(pbAdjoint) *a, const NUM(pbMechanism) *w, LANE(pbSolution) at);
// Inertial part of W: FX, FA, FV, FM, FW and the gradient by mass and inertia.
void LANE(pbSweep_Inertia)(LANE(pbAdjoint) *a);
// Everything on bodies down to joints: q, v, and the gradient by kinematic parameters and gravity.
void LANE(pbSweep_Pull)(LANE(pbAdjoint) *a);
// The same for one extra field a->X (from joint rates c) with its plain cotangents a->F (summed over subtrees in place);
// pose cotangents are left in P for the main sweep.
void LANE(pbSweep_PullExtra)(LANE(pbAdjoint) *a, const lane *c);
// Both for the bodies of a spatial tendon's path alone, from what carries all of it, where the field is zero. Clear: F and G
// of these.
void LANE(pbSweep_PushTendon)(const NUM(pbMechanism) *w, int tendon, const lane *rate, lane *X);
void LANE(pbSweep_ClearTendon)(LANE(pbAdjoint) *a, int tendon);
void LANE(pbSweep_PullTendon)(LANE(pbAdjoint) *a, int tendon, const lane *c);
// The same for two fields, from the rates u with plain cotangents a->F, and from plain rates z with the cotangents Fz (changed).
void LANE(pbSweep_PullPair)(LANE(pbAdjoint) *a, const lane *u, const num *z, lane *Fz);
// W += s U . I Y of all bodies: cotangents of U to a->F, of Y to Fz, of poses to P, and the gradient by mass and inertia.
void LANE(pbSweep_InertiaPair)(LANE(pbAdjoint) *a, num s, const lane *U, const num *Y, lane *Fz);
// W += M_bar . M, over the entries on its pattern. axes (nv x 6): cotangents of the axes S of all dofs from elsewhere, which go
// down with it (changed); inertias: room, nbody x 10.
void LANE(pbSweep_PullMass)(LANE(pbAdjoint) *a, const lane *M_bar, lane *axes, lane *inertias);
// A point of a body, offset d: force F on its velocity under a field (F plain; added to the field's cotangent `field`),
// cotangent p of the point's position with the field held.
void LANE(pbSweep_Point)(LANE(pbAdjoint) *a, int body, const num d[3], const num F[3], const lane p[3], num *field);
// Gradient by a site's pose: cotangent of its world position and torque on its frame (world axes); adds the wrench to P
// only where asked (the caller may have done so).
void LANE(pbSweep_Site)(LANE(pbAdjoint) *a, int site, const lane p[3], const lane torque[3]);

// ---- forces ---------------------------------------------------------------------------------------------------------
void LANE(pbForce_Joints)(LANE(pbAdjoint) *a);      // all of bodies/forces.h but what acts along tendons
void LANE(pbForce_Actuators)(LANE(pbAdjoint) *a);   // forces, activations, moments
void LANE(pbForce_Tendons)(LANE(pbAdjoint) *a);     // what acts along tendons; then pulls all of ten_*
void LANE(pbTendon_PullPaths)(LANE(pbAdjoint) *a);  // ten_* to paths; armature
// W = power . (spring's force) of a tendon, power by its Jacobian: to its length and theta; returns the force.
num LANE(pbTendon_PullSpring)(LANE(pbAdjoint) *a, int tendon, lane power);
// Of a spatial tendon's path. drift (or NULL): d2L/dt2 at zero joint acceleration, set.
void LANE(pbTendon_PullPath)(LANE(pbAdjoint) *a, int tendon, num *drift);
void LANE(pbForce_LimitActuators)(LANE(pbAdjoint) *a);  // lam_act and ten_power, before the others
// W += s u . (armature of joints and tendons) z.
void LANE(pbForce_TendonArmaturePair)(LANE(pbAdjoint) *a, int tendon, num s, const lane *u, const num *z);
void LANE(pbForce_ArmaturePair)(LANE(pbAdjoint) *a, num s, const lane *u, const num *z);
// W += M_bar . (armature of joints and tendons), over the entries of M.
void LANE(pbForce_TendonArmatureMass)(LANE(pbAdjoint) *a, int tendon, const lane *M_bar);
void LANE(pbForce_ArmatureMass)(LANE(pbAdjoint) *a, const lane *M_bar);
// Cotangent of act_next = Next(act, act_dot), less whole turns: adds to act and act_dot, theta.
void LANE(pbForce_Next)(LANE(pbAdjoint) *a, int actuator, int index, num act, num act_dot, lane bar, lane *act_bar,
                        lane *dot_bar);
// Cotangent g of a rotation vector d = log(q) to the tangent of q at the right (child frame), by the inverse right Jacobian of
// exp, transposed: Jr(d)^-T g = g - 1/2 d x g + c d x (d x g), c = (1 - t/2 cot(t/2)) / t^2 with t = |d|, near zero its series.
static inline void pb_log_pull(const num d[3], const lane g[3], lane out[3]) {
  num t2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2], c;
  if (re(t2) < 1e-4) {
    c = 1. / 12 + t2 * (1. / 720 + t2 * (1. / 30240 + t2 / 1209600));
  } else {
    num half = 0.5 * num_sqrt(t2), sine, cosine;
    num_sincos(half, &sine, &cosine);
    c = (1 - half * cosine / sine) / t2;
  }

  // x = d x g, xx = d x x
  lane x[3], xx[3];
  x[0] = d[1] * g[2] - d[2] * g[1];
  x[1] = d[2] * g[0] - d[0] * g[2];
  x[2] = d[0] * g[1] - d[1] * g[0];
  xx[0] = d[1] * x[2] - d[2] * x[1];
  xx[1] = d[2] * x[0] - d[0] * x[2];
  xx[2] = d[0] * x[1] - d[1] * x[0];
  for (int k = 0; k < 3; k++) out[k] = g[k] - 0.5 * x[k] + c * xx[k];
}

// ---- rows -----------------------------------------------------------------------------------------------------------
// Before lam: cotangents of row forces and Vs to the cotangent of qacc.
void LANE(pbRows_Direct)(LANE(pbAdjoint) *a);
// J x of a row, and out += J'f.
void LANE(pbRow_Times)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const lane *x, lane *out);
void LANE(pbRow_AddForce)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const lane *f, lane *out);
// Hard contact: lam, z and u from the cotangents of qacc and of the forces (y0), by the factor at the solution (pbDual_Factor).
void LANE(pbDual_Adjoint)(LANE(pbAdjoint) *a);
// The contacts' `contact_jacobian`.
void LANE(pbRows_Evaluation)(LANE(pbAdjoint) *a);
// act_residual and act_target of servos; before pbForce_Actuators.
void LANE(pbRows_Servos)(LANE(pbAdjoint) *a);
// Levels of losses of dofs: to loss and velocities, where pbForce_LimitActuators begins; to theta.
void LANE(pbRows_Losses)(LANE(pbAdjoint) *a);
void LANE(pbLoss_PullParameters)(LANE(pbAdjoint) *a, int dof, num bar);
void LANE(pbRows_Adjoint)(LANE(pbAdjoint) *a);
// One of them, under Vx (not of hard contact).
void LANE(pbRows_PullApart)(LANE(pbAdjoint) *a, int row);
// Moments of actuators on bodies by their contacts (bodies/actuators/adhesion.c); after pbForce_Actuators.
void LANE(pbAdhesion_Pull)(LANE(pbAdjoint) *a);
#if PB_LANES == 1
// What contacts collect in `contact_bar`, found within `reach` of their margins, to the parameters of meshes that touch.
void LANE(pbContact_ClearMeshes)(LANE(pbAdjoint) *a);
void LANE(pbContact_PullMeshes)(LANE(pbAdjoint) *a, double reach);
#endif
// Cotangent of pos - margin of a limit or contact: to positions and parameters, at held fields.
void LANE(pbRows_Distance)(LANE(pbAdjoint) *a, int row, lane bar);
#if PB_LANES == 1
// By the map of a mesh's points, stretch x + shift: from its cotangents; from those of a motion of the points where they are,
// E x + t, the symmetric part of E as strain (xx yy zz yz zx xy, in the frame of the shape), the rest as a wrench about its pos
// (world axes).
void LANE(pbMesh_PullMap)(LANE(pbAdjoint) *a, int mesh, const num stretch_bar[9], const num shift_bar[3]);
void LANE(pbMesh_PullMotion)(LANE(pbAdjoint) *a, int mesh, const NUM(pbShape) *shape, const num strain[6], const num wrench[6]);
// By single vertices, where they are parameters: from those of a pair's contacts, as pbPair_PullCorners.
void LANE(pbMesh_PullVertices)(LANE(pbAdjoint) *a, int mesh, const NUM(pbShape) shape[2], double margin,
                               const struct pbSearched *kept, int count, const pbContactBar *bar, int which);
// Cotangents of one contact's distance less its margin, position, axes of its frame (changed), frictions and restitution: to P of
// both bodies and theta. reach: how far beyond the margin contacts were looked for.
void LANE(pbRows_Touch)(LANE(pbAdjoint) *a, int contact, double reach, num dist, const num pos[3], num axes[3][3],
                        const num friction[2], num restitution);
#endif

#endif
