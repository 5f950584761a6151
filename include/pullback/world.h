// Pullback: one world, one step x' = f(x, u; theta), and its derivatives.
#ifndef PULLBACK_WORLD_H
#define PULLBACK_WORLD_H

#include <pullback/model.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- state: one flat vector of double; everything that can change the next step is in it --------------------------
typedef struct pbStateField {
  const char *name;  // "time", "qpos", "qvel", "act", "qacc_warmstart"
  int offset, size;
} pbStateField;
PB_API int pbModel_StateSize(const pbModel *model);
PB_API int pbModel_StateFieldCount(const pbModel *model);
PB_API pbStateField pbModel_StateFieldAt(const pbModel *model, int index);
// What an entry of a state is, or of its tangent (TangentSize), in words: "qpos[7] (joint 'knee')"; returns text.
PB_API char *pbState_EntryName(const pbModel *model, int entry, char *text, size_t size);
PB_API char *pbState_TangentName(const pbModel *model, int entry, char *text, size_t size);
// State the model starts in: qpos0, zero velocity; keyframe >= 0: that keyframe. x has StateSize entries. ctx (may be NULL): text
// of the error, pb_bad_argument where there is no such keyframe.
PB_API PB_NODISCARD pbStatus pbState_Init(pbContext *ctx, const pbModel *model, const double *theta, int keyframe, double *x);
// Tangent of the way from state a to state b: out (TangentSize) = (dq, dv, dact, ...); q in the tangent space at a.
PB_API void pbState_Difference(const pbModel *model, const double *a, const double *b, double *out);
// x moved along a tangent (TangentSize) by eps: q (+) eps dq, v + eps dv, act + eps dact, ... In place.
PB_API void pbState_Move(const pbModel *model, double *x, const double *tangent, double eps);
// Cotangents of qpos: tangent space (nv) from ambient coordinates (nq) at state x, and back (on the unit spheres).
PB_API void pbState_TangentFromAmbient(const pbModel *model, const double *x, const double *qpos_bar, double *dq_bar);
PB_API void pbState_AmbientFromTangent(const pbModel *model, const double *x, const double *dq_bar, double *qpos_bar);

// ---- inputs -------------------------------------------------------------------------------------------------------
typedef struct pbInput {
  const double *ctrl;     // nu; NULL: zero
  const double *qfrc;     // nv, generalised forces; NULL: zero
  const double *xfrc;     // nbody x 6: force, torque at the body's centre of mass, world axes; NULL: zero
  const double *command;  // numbers that a policy observes (pbPolicyInfo.commands); NULL: zero
  // Poses of the mocap bodies during the step, in the world. NULL, each: that of the model (body_pos, body_quat in theta); of a
  // keyframe: pbModel_MocapPose. Quaternions are normalized, pb_bad_input where their length is not in 1e-6 to 1e6, or a number
  // is not finite.
  const double *mocap_pos;   // nmocap x 3
  const double *mocap_quat;  // nmocap x 4
  // How they move there: velocity of each body's origin [m/s], then its angular velocity [rad/s], in the world's axes. So a body
  // came from x - h v and turned by exp(h w) since the step before. NULL: they rest. A single step cannot know where they were;
  // a rollout does (pbRolloutInput), and pbModel_MocapVelocity tells it of two poses. pb_bad_input where not finite.
  const double *mocap_vel;  // nmocap x 6
} pbInput;
typedef struct pbInputBar {  // same shapes; NULL: not wanted; added to
  double *ctrl, *qfrc, *xfrc, *command;
  // nmocap x 3 each: of positions, and of rotations in the bodies' frames (quat exp(r), as of a ball joint); also where the pose
  // is the model's
  double *mocap_pos, *mocap_rot;
  double *mocap_vel;  // nmocap x 6
} pbInputBar;

// ---- scratch ------------------------------------------------------------------------------------------------------
// Working memory of one world, one thread, from the thread's ctx, which outlives it.
//
// Without a capacity of contacts it begins small and grows within calls, by the ctx's allocator: contacts and rows when there are
// more of them, the matrix when contacts join more bodies than before, what derivatives work with when one is first asked for.
// A call goes on where it was, so that no bit depends on it; memory that is not to be had is pb_no_memory and leaves outputs
// untouched. Room doubles, so a motion makes it a few times and then never again.
//
// With a capacity of contacts all of it is had here: no step, vjp, jvp or jacobian allocates, and what does not fit is
// pb_capacity, and the text says what is too small and how much is needed. For bodies that contacts may join in any number that
// is a dense triangle of doubles by degrees of freedom, or by twice those of as many bodies as there are contacts.
typedef struct pbScratch pbScratch;
typedef struct pbCapacity {
  // Most contacts of geoms at one time, all of whose room is had at once. 0: room grows with those that there are, up to what the
  // model's pairs can make (2^20; of hard methods 512, with noslip_iterations 256, of impact 4096).
  int contacts;
  // Contacts of deformables, which can grow between steps (pbScratch_Grow). Pairs of points, edges and triangles that are close,
  // of each of seven types and again of friction; 0: a quarter of the surfaces' primitives, and 256.
  int stencils;
  // Bytes of the matrix that they couple, analysis and factor included; 0: twice what that of the elements takes, and 1 MiB.
  size_t matrix;
} pbCapacity;
PB_API PB_NODISCARD pbStatus pbScratch_Create(pbContext *ctx, const pbModel *model, const pbCapacity *capacity,
                                              pbScratch **scratch);
PB_API void pbScratch_Destroy(pbScratch *scratch);
// Between calls: more room for contacts of deformables after a call that ended with *status. True where that was pb_capacity of
// theirs and there is more room now: the call can be made again, it left its outputs untouched, and its result has the bits it
// would have had with room from the start. Else false; *status pb_no_memory where more was not to be had.
//   do status = pbStep_Forward(...); while (pbScratch_Grow(scratch, &status));
// Rollouts do this themselves; pbReport.grown counts.
PB_API bool pbScratch_Grow(pbScratch *scratch, pbStatus *status);
// What a failed call meant, in words ("contact capacity 100 exceeded at time 0.12", "Newton: residual ... ").
PB_API const char *pbScratch_Error(const pbScratch *scratch);

// What is known after a forward evaluation.
typedef struct pbReport {
  int contacts, rows, iterations;
  double residual;   // |gradient of the constraint solve|, relative
  bool converged;    // residual at most 1e-6, or the model's tolerance if that is more
  double condition;  // where not converged: condition number of the solve's matrix, its diagonal scaled to one (a lower bound)
  int onsets, releases;  // contacts that appeared or went by the distance test since the last step of this scratch (none with the
                         // contact setting onset: they fade in)
  // Contact method impact: `contacts` and `onsets` count the impacts of the step.
  int simultaneous;  // of these, while another contact touched and approached too
  double approach;   // slowest speed of approach [m/s] of an impact; infinite without one
  // Also with lcp, cones, sweeps: all bounces of a step are one impact there.
  int gains;           // impacts that made kinetic energy, as Newton's restitution with friction can; of the worst
  double gain;         // J: what it made, 0 without one, and
  int gaining[2];      // its geoms (of several contacts: where most was made), -1 where there is none
  int grown;           // times pbScratch_Grow made room since the scratch was created
  double penetration;  // m: deepest overlap of two geoms in a contact, 0 where none do (RK4: in the last stage), and
  int penetrating[2];  // its geoms, -1 where there is none
  bool deforms;  // deformables were minimised too: residual (their last change by the size of the scene) and converged cover that
} pbReport;
PB_API pbReport pbScratch_Report(const pbScratch *scratch);
// The constraint that is to blame where the last solve did not converge ("contact of geom 'ball' and geom 'floor'"); else "".
PB_API const char *pbScratch_WorstRow(const pbScratch *scratch);
// Contacts at the state last observed (pbStep_Observe) that have no derivative of every direction, in words, the first of each
// kind: shapes of which two features tie ("contact of geom 'drawer' and geom 'case': two faces tie: ..."), shapes that touch to
// rounding, and, of hard methods, limits, bounds and contacts that to rounding neither push nor part or are about to slide; ""
// where there is none. Overwrites the contacts of that evaluation. Returns text; NULL: there was no memory for contacts.
PB_API const char *pbScratch_Tie(pbScratch *scratch, char *text, size_t size);

// Quantities of the last forward evaluation, by MuJoCo's name (mjData): xpos, xquat, xipos, ximat, geom_xpos, geom_xmat,
// site_xpos, site_xmat, subtree_com, cvel (about the origin of the world), M (nv x nv, dense), qfrc_bias, qfrc_passive,
// qfrc_actuator, qfrc_smooth, qacc_smooth, qacc, qfrc_constraint, ten_length, ten_velocity, actuator_length,
// actuator_velocity, actuator_force, wrap_turn, wrap_points, contact_dist, contact_pos, contact_frame, contact_geom (two columns,
// as reals), contact_force (mj_contactForce: force and torque on the second geom in the contact's frame, the normal first), efc_J
// (dense), efc_pos, efc_margin, efc_aref, efc_R, efc_force, efc_diagApprox, sensordata. By stations of tendons: wrap_turn is the
// angle [rad] by which a path goes around a geom, of either sense; 0: straight, infinite: it touches from inside; wrap_points is
// where the path comes to the geom and where it leaves it (world axes; zeros where it is straight). By sensors: sensor_look has
// the geom that a rangefinder's ray meets, or the nearest pair of a distance (-1: none), and a number that changes with the
// part of the surface or the features that are nearest.
// The dense ones are filled by pbScratch_Gather first, which alone takes memory: pb_no_memory where there is none.
// Poses of sites and geoms are completed when they are asked for: theta of that evaluation must still be there as it was. False
// if the name is unknown.
PB_API PB_NODISCARD pbStatus pbScratch_Gather(pbScratch *scratch);
PB_API bool pbScratch_Field(const pbScratch *scratch, const char *name, const double **data, int *rows, int *cols);

// All calls below, and rollouts. theta and the state are read as they are: NaN and infinity are pb_bad_input (in a state
// pb_not_finite), which names the entry. Axes and quaternions may have any length from 1e-6 to 1e6, in theta (jnt_axis, *_quat,
// *_iquat, the rotations in qpos0 and qpos_spring, relative orientations of welds) and in states; others are pb_bad_input. They
// are normalised where they are used (a length within 1e-12 of one is left alone), and a derivative by them is that of the
// normalised value: it has no part along them.
// A scratch belongs to the model as it was when it was made: after pbModel_SetOption, pbModel_SetContact or pbModel_SetDeformable
// a call with it is pb_bad_argument, and so is one with a rollout or a tape record from before. They can still be destroyed.
// pbModel_SetDeformable changes the length of states too, of which calls cannot know: states and records from before do not fit.

// ---- step ---------------------------------------------------------------------------------------------------------
// Advance x by one time step, in place. On failure x is untouched. sensordata (nsensordata, of the state before the step,
// as in MuJoCo) may be NULL.
PB_API PB_NODISCARD pbStatus pbStep_Forward(const pbModel *model, const double *theta, double *x, const pbInput *input,
                                            pbScratch *scratch, double *sensordata);
// Everything at a state without advancing it: sensordata, contacts, accelerations (see pbScratch_Field).
PB_API PB_NODISCARD pbStatus pbStep_Observe(const pbModel *model, const double *theta, const double *x, const pbInput *input,
                                            pbScratch *scratch, double *sensordata);

// Cotangents on what can be seen at the state before the step; any may be NULL.
typedef struct pbObservationBar {
  const double *sensordata;  // nsensordata
  const double *xpos;        // nbody x 3
  const double *site_xpos;   // nsite x 3
} pbObservationBar;

// Thin tape record of one step: the state before it (its first StateSize doubles), a number for the model's settings, and the
// acceleration found (its solver's start for the replay).
// pbTape_Size doubles; pbTape_Record after pbStep_Forward with the state before the step.
PB_API int pbTape_Size(const pbModel *model);
PB_API void pbTape_Record(const pbModel *model, const double *x_before, const pbScratch *scratch, double *record);

// Pullback of one step. next_bar (TangentSize) is the cotangent of the state after the step, NULL for the pullback of
// observations alone (last state of a trajectory). Adds into x_bar (TangentSize), input_bar, theta_bar (ParamSize, may be NULL).
PB_API PB_NODISCARD pbStatus pbStep_Vjp(const pbModel *model, const double *theta, const double *record, const pbInput *input,
                                        const double *next_bar, const pbObservationBar *observed, pbScratch *scratch,
                                        double *x_bar, const pbInputBar *input_bar, double *theta_bar);

// Directions of a forward derivative; NULL is zero.
typedef struct pbDirection {
  const double *x;  // TangentSize
  const double *ctrl, *qfrc, *xfrc, *command;
  const double *theta;                  // ParamSize
  const double *mocap_pos, *mocap_rot;  // as in pbInputBar
  const double *mocap_vel;              // nmocap x 6
} pbDirection;
// Push a direction through one step: next (TangentSize), sensordata (may be NULL); exact to rounding (complex step of the
// same source, active set frozen).
PB_API PB_NODISCARD pbStatus pbStep_Jvp(const pbModel *model, const double *theta, const double *record, const pbInput *input,
                                        const pbDirection *direction, pbScratch *scratch, double *next, double *sensordata,
                                        double *xpos, double *site_xpos);

// How the pullback of a step (pbStep_Vjp) changes along a direction: a Hessian-vector product, where the cotangents are the
// gradient of a function. NULL: zero, or not wanted. Cotangents move with the states that they belong to: next_tangent is their
// derivative in the tangent space of the state after the step, which moves as pbStep_Jvp says, and x is one in that of the state
// before it. (A function of the coordinates w of x0 exp(w) has half of direction x result more, of each rotation.)
typedef struct pbSecond {
  const pbDirection *direction;
  const double *next, *next_tangent;            // TangentSize: cotangent of the state after the step
  pbObservationBar observed, observed_tangent;  // of what is observed before it
  double *x;                                    // TangentSize: by the state before the step; added to
  pbInputBar input;                             // by inputs; added to
} pbSecond;
// Exact to rounding (complex step of the pullback's source, active set frozen). Not by parameters, though the direction may move
// them. pb_bad_input, by name: deformables, policies, delays; contact methods but soft and penalty; noslip_iterations; forces of
// a medium; contacts, and sensors of distances, of pairs of shapes without a closed form (ellipsoids, cylinders and meshes with
// each other, with boxes and with capsules; ellipsoids with spheres; height fields; distances of two boxes).
PB_API PB_NODISCARD pbStatus pbStep_Second(const pbModel *model, const double *theta, const double *record, const pbInput *input,
                                           pbScratch *scratch, const pbSecond *second);

// Derivative of a quantity along the direction of the last pbStep_Jvp of this scratch with next NULL: out has the shape that
// pbScratch_Field says after pbStep_Observe at the same state, whose contacts are the same in number and order. xpos, xquat,
// xmat, xipos, ximat, xanchor, xaxis, geom_xpos, geom_xmat, site_xpos, site_xmat, qacc, qfrc_actuator, contact_dist,
// contact_pos, contact_frame, contact_force. Exact to rounding, features of shapes and rows that act as they are. False for
// another name.
PB_API bool pbScratch_Tangent(pbScratch *scratch, const char *name, double *out);

// Jacobians of one step, row-major; any may be NULL. n = TangentSize. A (n x n) = d next / d x, B (n x nu) = d next / d ctrl,
// C (nsensordata x n), D (nsensordata x nu).
PB_API PB_NODISCARD pbStatus pbStep_Jacobian(const pbModel *model, const double *theta, const double *record,
                                             const pbInput *input, pbScratch *scratch, double *A, double *B, double *C,
                                             double *D);
// The same with other columns of B and D: by these inputs, side by side in this order, pbModel_Columns of them.
enum { pb_byControl = 1, pb_byMocapPos = 2, pb_byMocapRot = 4 };  // nu; 3 nmocap, 3 nmocap (pbInputBar)
PB_API int pbModel_Columns(const pbModel *model, unsigned by);
typedef struct pbJacobian {
  unsigned by;
  double *A, *B, *C, *D;  // any may be NULL
} pbJacobian;
PB_API PB_NODISCARD pbStatus pbStep_JacobianBy(const pbModel *model, const double *theta, const double *record,
                                               const pbInput *input, pbScratch *scratch, const pbJacobian *out);

#ifdef __cplusplus
}
#endif
#endif
