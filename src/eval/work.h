// Everything one forward evaluation computes, by stage. Arrays are carved from one block (work.c); shapes are given as
// (rows x columns), row-major. Spatial vectors are (angular, linear) in world axes about ref of the body's tree.
#ifndef PB_WORK_H
#define PB_WORK_H

#include "base/arena.h"
#include "base/assert.h"
#include "eval/found.h"
#include "geometry/pair.h"
#include "geometry/wrap.h"
#include "linalg/tree_ldl.h"
#include "model/par.h"
#include "model/row_kinds.h"
#include "model/tendon_path.h"
#include "model/terrain.h"
#include "model/topology.h"
#include "number/number.h"

#ifdef PB_NUMBER_SUFFIX  // one type for all variants of doubles (number.h)
#define pbContact_v3 pbContact_r
#define pbContact_v4 pbContact_r
#define pbRow_v3     pbRow_r
#define pbRow_v4     pbRow_r
#define pbWork_v3    pbWork_r
#define pbWork_v4    pbWork_r
#endif

// A contact that makes rows.
typedef struct NUM(pbContact) {
  int geom1, geom2, pair, point;  // pair: explicit pair id or -1; point: which of the pair's contact points
  int prism;                      // of geom1, a height field (model/terrain.h); else -1
  int dim;                        // condim
  num dist, pos[3], frame[9];     // rows of frame: normal (geom1 -> geom2), two tangents
  num hint[3];
  num margin;  // distance at which force starts
  num friction[5], solref[2], solreffriction[2], solimp[5];
  num restitution;
} NUM(pbContact);

// Active set of a row's potential (contact/potential.h), pbRow.zone. In pb_zoneOpen, whatever the potential, there is no force.
enum { pb_zoneOpen = 0, pb_zoneActive = 1 };  // quadratic, one-sided and smoothed rows, given forces
enum {
  pb_lossQuadratic = 1,
  pb_lossAbove = 2,
  pb_lossBelow = 3
};  // bounded rows (friction loss, servos): -D x between the bounds of the force, or x above or below
enum { pb_coneTop = pb_zoneOpen, pb_coneMiddle = 1, pb_coneBottom = 2 };  // elliptic cone: separates, slides, sticks
// Pyramid: a bit for each edge that pushes, normal + mu_k tangent_k (side 0) or normal - mu_k tangent_k (side 1), k from 1.
static inline int pb_edge_bit(int tangent, int side) { return 1 << (2 * (tangent - 1) + side); }

// Constraint rows that belong together, in a basis of dim rows: x = J a - aref, force f = -ds/dx, Hessian K = d2s/dx2.
// Pyramidal contacts keep their basis (normal, tangents, ...); edges are functions of it.
typedef struct NUM(pbRow) {
  pbRowKind kind;
  union {
    int id;  // with the kind, says which rows these are (of tendons: nv + tendon for friction loss, njnt + tendon for limits)
    int equality;  // pb_rowEquality
    int dof;       // pb_rowFriction of a dof
    int actuator;  // pb_rowServo
    int joint;     // pb_rowLimit of a joint
    int contact;   // pb_rowContact: index into the contacts
  };
  int tendon;          // friction loss and limits of tendons: which; else -1
  int side;            // limits: -1 lower, +1 upper, 0 of a ball's angle
  int dim;             // rows in the basis
  int n;               // dofs touched
  int dofs, J;         // offsets into row_dofs (n, ascending) and row_J (dim x n)
  int zone;            // active set, see above
  int factor_zone;     // the zone that the factor of H was made for
  int solref, solimp;  // where in theta (2, 5 numbers); contacts, which have their own: -1
  int at;              // hard contact, or sweeps against slip: first number of the row in w->dual or w->slip
  num margin;
  num imp, dimp;        // impedance d and its derivative by pos (connect, weld: by its norm)
  num k, b, b_tangent;  // of the reference acceleration: stiffness, damping, damping of a contact's tangential rows
  num mu;               // elliptic cone: its regularized friction, friction_0 / sqrt(impratio)
  num bound[2];         // bounded rows: least and largest force; of friction loss -loss, loss
  num target;           // servos: the velocity asked for

  // Of each of dim rows
  num pos[6];   // position residual (contacts: dist, 0, ...)
  num diag[6];  // diagApprox of each row; contacts: that of the normal, for all, in [0]
  union {
    num R[6];    // regularization of each row
    num edge_R;  // pyramid: of each edge
  };
  union {
    num D[6];    // inverse of R
    num edge_D;  // pyramid: inverse of edge_R
  };
  num vel[6];  // J v
  num aref[6];
  num x[6];  // J a - aref at the solution
  num f[6];
  num K[36];  // dim x dim
  num Jp[6];  // J p, line search
} NUM(pbRow);

typedef struct NUM(pbWork) {
  const pbModel *m;
  const pbTopology *t;
  NUM(pbPar) p;
  bool replay;      // the solution is known (qacc_warmstart): no iterations, only its factor
  bool need_cross;  // rows couple branches of the tree (H is joined)

  // inputs: state and controls of this evaluation
  num *qpos, *qvel, *act, *ctrl, *qfrc_applied, *xfrc_applied;
  num *mocap_pos, *mocap_quat;         // nmocap x 3, 4: poses of mocap bodies,
  num *mocap_vel;                      // nmocap x 6: how they move (pbInput), zero unless
  bool mocap_moves;                    // some do
  bool mocap_own_pos, mocap_own_quat;  // and whether they are the model's: body_pos, body_quat act
  double time;

  // position stage
  double *ref;                      // ntree x 3: reference point of each tree (a frozen constant)
  num *xpos, *xquat, *xmat;         // nbody x 3, 4, 9
  num *xipos, *ximat;               // nbody x 3, 9: inertial frame
  num *xanchor, *xaxis;             // njnt x 3
  num *jnt_rotation;                // njnt x 4: rotation by the joint (hinge, ball)
  num *geom_xpos, *geom_xmat;       // ngeom x 3, 9
  pbMeshHull *own_hull;             // nexposed: of exposed meshes (model/exposed.h),
  pbTerrain *own_terrain;           // nexposed: of exposed fields,
  double *own_real;                 // and their numbers
  double *geom_ball;                // ngeom x 4: center, and radius of a ball about it that holds the geom and its margin
  num *site_xpos, *site_xmat;       // nsite x 3, 9
  bool all_sites, all_geoms;        // those are there too that no step reads
  num *S;                           // nv x 6: motion of the body by the dof
  num *inert, *crb;                 // nbody x 10: inertia, composite inertia about ref
  num *M, *LD, *Dinv;               // t->M.size, same, nv: mass matrix; its factor where it was asked for (pbSolve_Smooth)
  num *ten_length, *ten_velocity;   // ntendon
  const int *ten_start, *ten_dofs;  // the topology's: ntendon + 1; dofs of each tendon's Jacobian, ascending
  num *ten_J;                       // as ten_dofs
  int *wrap_at, wrapped;            // nwrap: index into wrap_path of the piece around that geom, -1: it is straight; their number
  NUM(pbWrapPath) *wrap_path;       // nwrap / 2: pieces that go around a geom, by Tendon
  num *act_length, *act_velocity;   // nu
  num *actuator_force, *act_dot;    // nu, na
  num *act_gain, *act_input;        // nu: gain; what it multiplies (control or activation), 1
  num *act_raw;                     // nu: force before any limit; servos: velocity before any limit
  num *act_target;                  // nu: servos: the velocity asked for
  num *act_scale;                   // nu: clamps on the force: 1 free, 0 saturated, between where a tendon is scaled
  int *mom_start, *mom_dofs;        // nu + 1; dofs of each actuator's moment, ascending
  num *mom;                         // as mom_dofs: moment of the actuator

  // velocity stage
  num *V, *Vb;  // nbody x 6 body velocity; nv x 6 velocity before the dof was added
  num *Sdot;    // nv x 6: Vb x S (0 for free translations)
  num *A0;      // nbody x 6: acceleration at qacc = 0, gravity included (root: -g)
  num *A;       // nbody x 6: acceleration at qacc (after the solve)
  num *qfrc_bias, *qfrc_passive, *qfrc_actuator, *qfrc_smooth, *qacc_smooth;  // nv (qacc_smooth: see pbSolve_Smooth)
  num *qfrc_spring, *qfrc_damper, *qfrc_gravcomp, *qfrc_fluid;                // nv

  // contacts and rows
  int *near;  // t->ncandidate: candidates that may touch
  int ncon, max_con;
  NUM(pbContact) *contact;
  struct pbSearched *searched;  // max_con: of pairs that go by a search what it found, at the first contact (geometry/search.h)
  int nrow, max_row, ndofs_used, max_dofs, nJ_used, max_J;
  NUM(pbRow) *row;
  int *row_dofs;
  num *row_J;

  // solve
  num *qacc, *qacc_warmstart, *qfrc_constraint;  // nv
  pbTreePattern H, joined;                       // pattern of M + J'KJ: that of M, or joined where rows couple branches
  num *H_LD, *H_Dinv;
  bool factor_current;                  // the factor is that at the solution
  num *grad, *step, *Ma, *Mstep, *tmp;  // nv; Ma = M qacc
  int iterations;
  double residual;

  // A further potential of the accelerations, the quadratic model of deformables that are coupled to the bodies
  // (couple/couple.h): g . (a - at) + 1/2 (a - at) . S (a - at), S nv x nv. NULL: none.
  const double *couple_S, *couple_at;
  const num *couple_g;

  // hard contact (solve/dual.h): n numbers of all rows side by side, at most max (0: the method needs none)
  struct {
    const pbFound *known;  // the forces, where they are known; NULL: they are searched for
    double kappa;          // smooths the laws on the way to a solution, 0 there
    bool condensed;        // LU is of H over the dofs, with blocks Binv and K for each row, not of T over the active rows
    double *Binv, *K, *h;  // 36 per row, 36 per row, 2 nv
    int n, max, count;     // count: rows that are not held at zero
    double *A, *LU, *Z, *b, *rho, *f, *x;  // n x n, count x count, nv x n, n each
    double *diagonal, *trial, *trial_x, *after, *from, *path, *origin, *nearest, *weight, *softness,
        *step;           // n each, path 4 n, step 2 n
    int *active, *perm;  // count each
  } dual;
  int worst_row;  // that fits its law worst, where the solve did not converge

  // sweeps against slip (solve/noslip.h): of n numbers at most max (0: none are asked for)
  struct {
    int n, max, sweeps;      // how many were done
    num *A, *Z, *x;          // n x n, n x nv, n: J M^-1 J', rows M^-1 J', residuals
    num *f;                  // (noslip_iterations + 1) x n: Newton's forces, then those after each sweep
    num *qacc;               // nv: of Newton's solution
    int *island, *ended;     // nv each, by trees: the first of those that rows connect; how many sweeps it had
    double *gain, *inertia;  // nv each, by island: of a sweep; trace of M
    int *sign;               // nv + ntendon: of losses of zero, against which their force is (complex program)
  } slip;

  // integrator
  num *Mhat, *Mhat_Dinv;  // t->M.size, nv: M + h B or M - h D, factored
  num *damp;              // nv: B of Euler, or unused
  num *qacc_integrated;   // nv: Mhat^-1 M qacc
  bool damped;            // Mhat differs from M
  bool has_fluid;         // density or viscosity is not zero
  num *free_A;            // njnt x 36: M - h D + h dbias/dv of standalone free bodies (implicitfast)

  // Runge-Kutta: the state at the start, velocities, accelerations and activation rates of the stages
  num *q0, *v0, *a0;        // nq, nv, na
  num *rk_v, *rk_a, *rk_d;  // 4 x nv, 4 x nv, 4 x na (the first stage also for the other integrators)

  num *impact_J;  // 48 x nv: rows of the contacts of an impact, and these by M^-1 (contact method impact)

  // what is observed at the start of the step (a later stage overwrites xpos)
  num *observed_xpos, *observed_site;  // nbody x 3, nsite x 3

  // what a policy observes (step/observe_kernel.c): all numbers, and room for those of a row
  num *observation, *observed_row;
  bool sensed;  // positions and velocities of the state in the work are there already: the next evaluation goes on from them

  // sensors
  num *sensordata;                    // nsensordata
  num *subtree_com, *subtree_linvel;  // nbody x 3: center of mass of a body and all below it, its velocity; for sensors
  num *cfrc_int;                      // nbody x 6: about ref, what holds the body; filled when a force or torque sensor asks
  void *memory;                       // the block everything lies in
  size_t cached_from, cached_bytes;   // part of it that a pullback reads besides rows and the factor of H,
  char *cached_at;                    // and where that part is now (pbWork_MoveTo)
  char error[200];                    // what went wrong
} NUM(pbWork);

// Size of the block for a capacity of contacts, and carving it (the same code: memory NULL counts).
size_t NUM(pbWork_Carve)(NUM(pbWork) *w, const pbModel *m, int max_contacts, void *memory);
// Put what a pullback reads into another block of cached_bytes (aligned to 64; NULL: back to its own place), without what is in
// it.
void NUM(pbWork_MoveTo)(NUM(pbWork) *w, void *block);

// ---- stages, in order; each reads what the ones before it wrote ----------------------------------------------------
void NUM(pbStage_Kinematics)(NUM(pbWork) *w);    // xpos .. site_xmat, S, inert
void NUM(pbStage_Sites)(NUM(pbWork) *w);         // a part of Kinematics: site_xpos, site_xmat
void NUM(pbStage_AllSites)(NUM(pbWork) *w);      // those that are not there yet
void NUM(pbStage_AllGeoms)(NUM(pbWork) *w);      // geom_xpos, geom_xmat of those that are not there yet
void NUM(pbStage_Inertia)(NUM(pbWork) *w);       // crb, M (with tendon armature)
void NUM(pbStage_Tendon)(NUM(pbWork) *w);        // ten_length, ten_J, paths around geoms (before Inertia)
void NUM(pbStage_Velocity)(NUM(pbWork) *w);      // V, Vb, Sdot, A0, qfrc_bias, ten_velocity
void NUM(pbStage_Passive)(NUM(pbWork) *w);       // qfrc_spring, damper, gravcomp, fluid, passive
void NUM(pbStage_Actuation)(NUM(pbWork) *w);     // actuator length, velocity, force, act_dot, qfrc_actuator
void NUM(pbStage_Smooth)(NUM(pbWork) *w);        // qfrc_smooth
pbStatus NUM(pbStage_Collide)(NUM(pbWork) *w);   // contact
pbStatus NUM(pbStage_Rows)(NUM(pbWork) *w);      // row
pbStatus NUM(pbStage_Solve)(NUM(pbWork) *w);     // qacc, forces, H factor
void NUM(pbStage_Servos)(NUM(pbWork) *w);        // actuator_force of servos: what their rows have found
void NUM(pbStage_Acceleration)(NUM(pbWork) *w);  // A
void NUM(pbAccelerations)(const NUM(pbWork) *w, const num *qacc, num *accelerations);  // the same by other joint accelerations
void NUM(pbStage_Sensors)(NUM(pbWork) *w);                                             // sensordata (needs A)
// Lengths, velocities and moments of actuators: a part of Actuation.
void NUM(pbActuator_Transmissions)(NUM(pbWork) *w);

// Armature of a tendon with that reflected by its actuators; damping likewise: linear and two polynomial coefficients.
num NUM(pbTendon_Armature)(const NUM(pbWork) *w, int tendon);
// Second derivative of a tendon's length by time at zero joint acceleration.
num NUM(pbTendon_Dot)(const NUM(pbWork) *w, int tendon);
// The path of a piece around its geom, as Tendon found it; NULL: it is straight.
static inline const NUM(pbWrapPath) *NUM(pbTendon_Around)(const NUM(pbWork) *w, const pbPiece *piece) {
  if (piece->geom < 0) return NULL;
  int at = w->wrap_at[piece->next - 1];  // the geom stands before the site that the next piece begins at
  PB_ASSERT(at < w->wrapped);

  return at < 0 ? NULL : w->wrap_path + at;
}
// Second derivative of such a path's length by time, A the bodies' accelerations (nbody x 6).
num NUM(pbTendon_Bend)(const NUM(pbWork) *w, const pbPiece *piece, const NUM(pbWrapPath) *path, const num *A);
enum { pb_eqObjBody = 1, pb_eqObjSite = 6 };  // mjtObj of an equality's ends
// Ends of a connect or weld: bodies, points, orientations (q1 includes the relative pose).
void NUM(pbEquality_Ends)(const NUM(pbWork) *w, int equality, int body[2], num p1[3], num p2[3], num q1[4], num q2[4]);
void NUM(pbTendon_Damping)(const NUM(pbWork) *w, int tendon, num c[3]);
void NUM(pbDof_Damping)(const NUM(pbWork) *w, int dof, num c[3]);
// Velocity derivative of the smooth forces on the pattern of M, as implicitfast takes it: D += d(passive + actuator)/dv.
void NUM(pbForce_Derivative)(const NUM(pbWork) *w, num *D);
// Is the actuator off, by a flag or by its group? Then it has no force, and its activation stays.
static inline bool pb_actuator_off(const pbModel *m, int actuator) {
  PB_ASSERT(actuator >= 0 && actuator < m->nu);
  int group = m->actuator_group[actuator];

  return (m->disableflags & pb_disActuation) || (group >= 0 && group <= 30 && (m->disableactuator >> group & 1));
}
// A servo that is not off: its force is that of a row, not given by its law.
static inline bool pb_servo(const pbModel *m, int actuator) {
  PB_ASSERT(actuator >= 0 && actuator < m->nu);

  return m->actuator_servo[actuator] && !pb_actuator_off(m, actuator);
}
// Is the actuator's force held by a limit (its own, its joint's, its tendon's), or is it off?
bool NUM(pbActuator_Saturated)(const NUM(pbWork) *w, int actuator);
// Slope of an actuator's force by its velocity as implicitfast takes it; zero where it is saturated. Of its gain alone.
num NUM(pbActuator_Slope)(const NUM(pbWork) *w, int actuator);
num NUM(pbActuator_GainSlope)(const NUM(pbWork) *w, int actuator);
void NUM(pbFluid_Damping)(const NUM(pbWork) *w, int body, num B[36]);
// Rate of an activation, the control within its range.
num NUM(pbActuator_Rate)(const NUM(pbWork) *w, int actuator, num ctrl, num act);
// The control, within its range.
num NUM(pbActuator_Control)(const NUM(pbWork) *w, int actuator);
// The gear, three numbers, of a servo on a rotation, where setpoints a turn of 2 pi |gear| apart are the same; NULL of others.
const num *NUM(pbActuator_Turning)(const NUM(pbWork) *w, int actuator);
// Whole turns between a setpoint and the same one that is nearest to `near`.
double NUM(pbActuator_Turns)(const num *gear, num setpoint, num near);
// That one: the setpoint less its turns; itself where there are none.
num NUM(pbActuator_Wrap)(const NUM(pbWork) *w, int actuator, num setpoint, num near);
// Next activation after one time step, and before its range holds it.
num NUM(pbActuator_Free)(const NUM(pbWork) *w, int actuator, num act, num act_dot);
num NUM(pbActuator_Next)(const NUM(pbWork) *w, int actuator, num act, num act_dot);

// Power under the motion X of a body of what a unit of density and a unit of viscosity would exert on it, added.
void NUM(pbFluid_UnitPower)(const NUM(pbWork) *w, int body, const num X[6], num power[2]);
// The same of Y . B (X - Xless), fields of all bodies (nbody x 6), B the damping of implicitfast.
void NUM(pbFluid_UnitDamping)(const NUM(pbWork) *w, const num *Y, const num *X, const num *Xless, num power[2]);
// Fluid forces of body b on itself, world axes: wrench (torque, force) about the body's reference point, added.
void NUM(pbFluid_Body)(const NUM(pbWork) *w, int body, num wrench[6]);

// A tree of exactly one free joint, jointless children or not: implicitfast gives its six dofs an unsymmetric block.
static inline bool free_standalone(const pbModel *m, int joint) {
  PB_ASSERT(joint >= 0 && joint < m->njnt);
  int dof = m->jnt_dofadr[joint];
  if (m->jnt_type[joint] != pb_jntFree) return false;

  // The next dof, if there is one, belongs to another tree.
  return dof + 6 == m->nv || m->dof_treeid[dof + 6] != m->dof_treeid[dof];
}

// Offset of a world point from the reference point of a body's tree.
static inline void body_offset(const NUM(pbWork) *w, int body, const num point[3], num d[3]) {
  PB_ASSERT(body >= 0 && body < w->m->nbody);
  int tree = w->t->body_tree[body];

  // Bodies that cannot move belong to no tree; their reference is the world's origin.
  for (int k = 0; k < 3; k++) d[k] = point[k] - (tree < 0 ? 0 : w->ref[3 * tree + k]);
}

#endif
