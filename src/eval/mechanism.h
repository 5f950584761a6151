// The state of an evaluation, and how it makes bodies, tendons and actuators move and push: what forces and sensors read.
// Arrays are carved from one block (multibody/work.c); shapes are given as (rows x columns), row-major. Spatial vectors are
// (angular, linear) in world axes about ref of the body's tree.
#ifndef PB_MECHANISM_H
#define PB_MECHANISM_H

#include "base/assert.h"
#include "eval/names.h"
#include "geometry/pair.h"
#include "geometry/wrap.h"
#include "linalg/tree_ldl.h"
#include "model/par.h"
#include "model/tendon_path.h"
#include "model/terrain.h"
#include "model/topology.h"

// Numbers lie behind pointers, all of them: a compiler then knows that none that a kernel writes is a member of this struct, also
// where it is seen within another.
struct NUM(pbMechanism) {
  const pbModel *m;
  const pbTopology *t;
  NUM(pbPar) p;

  // inputs: state and controls of this evaluation
  num *qpos, *qvel, *act, *ctrl, *qfrc_applied, *xfrc_applied;
  num *mocap_pos, *mocap_quat;         // nmocap x 3, 4: poses of mocap bodies,
  num *mocap_vel;                      // nmocap x 6: how they move (pbInput), zero unless
  bool mocap_moves;                    // some do
  bool mocap_own_pos, mocap_own_quat;  // and whether they are the model's: body_pos, body_quat act
  double *time;                        // 1

  // position stage
  double *ref;                 // ntree x 3: reference point of each tree (a frozen constant)
  num *xpos, *xquat, *xmat;    // nbody x 3, 4, 9
  num *xipos, *ximat;          // nbody x 3, 9: inertial frame
  num *xanchor, *xaxis;        // njnt x 3
  num *jnt_rotation;           // njnt x 4: rotation by the joint (hinge, ball)
  num *geom_xpos, *geom_xmat;  // ngeom x 3, 9
  pbMeshHull *own_hull;        // nexposed: of exposed meshes (model/exposed.h),
  pbTerrain *own_terrain;      // nexposed: of exposed fields,
  double *own_real;            // and their numbers
  double *geom_ball;           // 4 x ngeom: centers by axes, and radii of balls about them that hold the geoms and their margins
  num *site_xpos, *site_xmat;  // nsite x 3, 9
  bool all_sites, all_geoms;   // those are there too that no step reads
  num *S;                      // nv x 6: motion of the body by the dof
  num *inert, *crb;            // nbody x 10: inertia, composite inertia about ref
  num *M, *LD, *Dinv;          // t->M.size, same, nv: mass matrix; its factor where it was asked for (pbSolve_Smooth)
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

  // velocity stage, and forces that follow from the state
  num *V, *Vb;  // nbody x 6 body velocity; nv x 6 velocity before the dof was added
  num *Sdot;    // nv x 6: Vb x S (0 for free translations)
  num *A0;      // nbody x 6: acceleration at qacc = 0, gravity included (root: -g)
  num *qfrc_bias, *qfrc_passive, *qfrc_actuator, *qfrc_smooth, *qacc_smooth;  // nv (qacc_smooth: see pbSolve_Smooth)
  num *qfrc_spring, *qfrc_damper, *qfrc_gravcomp, *qfrc_fluid;                // nv
  num *qfrc_load;  // nv: what acts but for actuators, dampers and the armature of tendons; set before rows are made

  // accelerations: as they are solved for, and as they are integrated
  num *qacc, *qacc_warmstart;  // nv; the second what the solver begins with
  num *A;                      // nbody x 6: of bodies, at qacc
  num *qacc_integrated;        // nv: Mhat^-1 M qacc
  bool damped;                 // Mhat (work.h) differs from M
  bool has_fluid;              // density or viscosity is not zero

  // A further potential of the accelerations, the quadratic model of deformables that are coupled to the bodies
  // (couple/couple.h): g . (a - at) + 1/2 (a - at) . S (a - at), S nv x nv. NULL: none.
  const double *couple_S, *couple_at;
  const num *couple_g;

  // sensors
  num *sensordata;                    // nsensordata
  num *subtree_com, *subtree_linvel;  // nbody x 3: center of mass of a body and all below it, its velocity; for sensors
  num *cfrc_int;                      // nbody x 6: about ref, what holds the body; filled when a force or torque sensor asks

  num *grad, *step, *tmp;  // nv: room; of the solver gradient and step
};

// Offset of a world point from the reference point of a body's tree.
static inline void body_offset(const NUM(pbMechanism) *w, int body, const num point[3], num d[3]) {
  PB_ASSERT(body >= 0 && body < w->m->nbody);
  int tree = w->t->body_tree[body];

  // Bodies that cannot move belong to no tree; their reference is the world's origin.
  for (int k = 0; k < 3; k++) d[k] = point[k] - (tree < 0 ? 0 : w->ref[3 * tree + k]);
}

#endif
