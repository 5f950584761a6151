// Pullback: an editable spec is compiled into a const model; a model knows its sizes, names and parameters.
#ifndef PULLBACK_MODEL_H
#define PULLBACK_MODEL_H

#include <pullback/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// Compiled model: constant, free of pointers to whatever it was made from, shared by any number of threads.
typedef struct pbModel pbModel;

PB_API void pbModel_Destroy(pbModel *model);  // NULL is fine

// A model as bytes, for other processes on machines of the same type: a model from them gives the same bits. `bytes` is from
// ctx (pbContext_Free). Unpack, pb_bad_input: bytes that are damaged, or of another version (major and minor number). What
// meshes look like is left out. pb_unsupported: deformables, a policy, vertices in theta, designs.
PB_API PB_NODISCARD pbStatus pbModel_Pack(pbContext *ctx, const pbModel *model, void **bytes, size_t *size);
PB_API PB_NODISCARD pbStatus pbModel_Unpack(pbContext *ctx, const void *bytes, size_t size, pbModel **model);

// Counts by MuJoCo's name: "nq", "nv", "nu", "na", "nbody", "njnt", "ngeom", "nsite", "nsensordata", ...; -1 if unknown.
PB_API int pbModel_Size(const pbModel *model, const char *name);
// Size of a state's tangent: 2 nv + na, and behind these what deformables (deform.h) and a policy (policy.h: memory, then what is
// held) add.
PB_API int pbModel_TangentSize(const pbModel *model);

typedef enum pbObject {  // kinds of named things
  pb_objBody,
  pb_objJoint,
  pb_objGeom,
  pb_objSite,
  pb_objPair,
  pb_objEquality,
  pb_objTendon,
  pb_objActuator,
  pb_objSensor,
  pb_objKeyframe,
  pb_objNumeric,
  pb_objCamera,
  pb_objLight,
  pb_objExclude,
  pb_objText,
  pb_objTuple,
  pb_objDof,
  pb_objPoint,   // of deformables; named by sets (pbModel_PointSet)
  pb_objMesh,    // meshes that something depends on
  pb_objHfield,  // height fields, too
  pb_objCount
} pbObject;
// Name of a thing; "" if it has none; NULL if out of range.
PB_API const char *pbModel_Name(const pbModel *model, pbObject kind, int id);
// Id by name; -1 if there is none.
PB_API int pbModel_Id(const pbModel *model, pbObject kind, const char *name);

// In what a parameter may move: any numbers; unit vectors, unit quaternions; in positions (as qpos) the quaternions of ball and free
// joints; in the numbers of a weld its relative orientation.
typedef enum pbMoves { pb_movesFree, pb_movesAxis, pb_movesQuaternion, pb_movesPositions, pb_movesWelds } pbMoves;

// A named slice of theta (docs/parameters.md has them all).
typedef struct pbParam {
  const char *name;     // MuJoCo's name: "body_mass", "gravity"
  const char *unit;     // "kg"; "a|b" where it depends on the row
  const char *meaning;  // a few words
  pbMoves moves;
  int rows, cols;  // theta[offset + r * cols + c]; 1 row for options
  size_t offset;
  pbObject rows_are;    // what a row belongs to (pb_objCount: nothing named)
  double lower, upper;  // range of meaningful values (+-infinity where open)
  bool derived;         // follows from other parameters (dof_invweight0, ...), see pbModel_SetConstants
  bool fixed;           // a constant of a policy, like the numbers of a normalizer: no optimizer's unknown unless it is named
  bool option;          // of the model as a whole (timestep, gravity, ...): one row that belongs to no object
} pbParam;
PB_API size_t pbModel_ParamSize(const pbModel *model);  // length of theta
PB_API int pbModel_ParamCount(const pbModel *model);    // number of slices
PB_API pbParam pbModel_ParamAt(const pbModel *model, int index);
// Slice by name. FIELD: all of it, "body_mass". FIELD:OBJECT: the row of a named thing, "geom_friction:floor" (of a joint of
// several degrees of freedom: its rows); a number for one without a name. FIELD:OBJECT:ENTRY: one number of these,
// "geom_friction:floor:0". Options belong to no object: "gravity:2".
// pb_bad_argument with a "did you mean" in the text of ctx (NULL: none is wanted) if there is none.
PB_API PB_NODISCARD pbStatus pbModel_Param(pbContext *ctx, const pbModel *model, const char *name, pbParam *param);
// A parameter of this name from here on; before the first scratch, and before a policy. Kernels of models without read none.
// "mesh_vert:NAME": vertices of a mesh that may touch, of shape (vertices, 3) in the frame of its geoms. What touches is the hull
// with the faces that were compiled, which a change of vertices must leave convex; mass and inertia stay.
// "hfield_data:NAME": heights of a height field, of shape (rows, columns), no less than 0: shares of its elevation above the
// base, as compiled from 0 to 1, and never scaled again; they may be greater. Contacts and rangefinders follow.
// pb_bad_argument: no such thing, exposed already. pb_unsupported: nothing of the mesh may touch, or deformables meet it.
PB_API PB_NODISCARD pbStatus pbModel_Expose(pbModel *model, const char *name);
// Name of one entry of theta as pbModel_Param reads it; returns text.
PB_API char *pbModel_ParamName(const pbModel *model, size_t entry, char *text, size_t size);
// Values the model was compiled with; theta of every call may be this. Length pbModel_ParamSize.
PB_API const double *pbModel_DefaultParams(const pbModel *model);
// Checks values before a run: finite, masses and sizes in range, inertias positive, ranges ordered, axes and quaternions of a
// length from 1e-6 to 1e6 (they are normalized where they are used), hulls of exposed vertices convex. pb_bad_input with the
// entry in the text of ctx (NULL: none is wanted).
PB_API PB_NODISCARD pbStatus pbModel_CheckParams(pbContext *ctx, const pbModel *model, const double *theta);

// Poses of the mocap bodies (nmocap x 3, nmocap x 4; either may be NULL): those of a keyframe (0 .. nkey - 1); keyframe < 0:
// those of the model at theta (body_pos, body_quat). Which body a mocap body is: -1 where there is no such number.
PB_API void pbModel_MocapPose(const pbModel *model, const double *theta, int keyframe, double *pos, double *quat);
PB_API int pbModel_MocapBody(const pbModel *model, int mocap);
// Poses moved along a direction of positions and of rotations in the bodies' frames (nmocap x 3 each; NULL: as they are) by eps:
// x + eps d, q exp(eps r). In place.
PB_API void pbModel_MocapMove(const pbModel *model, const double *pos_direction, const double *rotation, double eps, double *pos,
                              double *quat);
// How the mocap bodies move that stood at the poses `before` and stand at pos, quat a time step of theta later (as pbInput; NULL,
// each: the model's): velocity (nmocap x 6: of the origin, then angular, in the world's axes), by the shorter way round. What
// goes further than four times the scene's extent or turns by more than a quarter jumps: pb_bad_input, with the body in the text
// of ctx (NULL: none is wanted), where a step reads the velocity and something meets the body; else it rests.
PB_API PB_NODISCARD pbStatus pbModel_MocapVelocity(pbContext *ctx, const pbModel *model, const double *theta,
                                                   const double *pos_before, const double *quat_before, const double *pos,
                                                   const double *quat, double *velocity);

// Recompute the derived entries of theta in place, as mj_setConst does (body_subtreemass, *_invweight0,
// tendon_length0, eq_data of weld relative poses...). Memory, text of errors and warnings: ctx, not NULL (also below).
//
// Of a model that was loaded or compiled for it (pbLoadOptions.design, pbSpec.design) first what the compiler makes of meshes and
// densities: by mesh_scale, mesh_refpos, mesh_refquat, exposed vertices (pbModel_Expose) and geom_density follow body_mass,
// body_ipos, body_iquat, body_inertia of bodies whose inertia is that of their geoms, geom_pos and geom_quat of meshes, and where
// a mesh has its center and axes (mesh_center, mesh_axes). Where two principal moments agree to 1e-8 of the largest the axes have
// no derivative: then that of the inertia as a whole is given (by body_products, which stay zero), with a warning.
// pb_bad_input: a mesh without volume, a body without mass, a density of a geom that has a stated mass.
PB_API PB_NODISCARD pbStatus pbModel_SetConstants(pbContext *ctx, const pbModel *model, double *theta);
// Pullback of SetConstants at theta (the values before the call): adds to theta_bar of the independent parameters the
// part that flows through the derived ones, and sets the cotangents of the derived ones to zero.
PB_API PB_NODISCARD pbStatus pbModel_SetConstantsVjp(pbContext *ctx, const pbModel *model, const double *theta,
                                                     double *theta_bar);

// Does SetConstants of a design write this entry of theta?
PB_API bool pbModel_Follows(const pbModel *model, size_t entry);
// Of a slice that was given a value before pbModel_SetConstants: pb_bad_argument where that computed another value, which would
// drop what was given without a word. before, after: theta (ParamSize) before and after that call.
PB_API PB_NODISCARD pbStatus pbModel_CheckGiven(pbContext *ctx, const pbModel *model, const pbParam *slice, const double *before,
                                                const double *after);

// Push a direction (ParamSize, in place) through SetConstants at theta (the values before the call).
PB_API PB_NODISCARD pbStatus pbModel_SetConstantsJvp(pbContext *ctx, const pbModel *model, const double *theta,
                                                     double *direction);

// Values of theta where the motion bends, so that a derivative is that of one side, or a convention.
typedef enum pbBendKind {
  pb_bendNone,
  pb_bendLower,  // at its least value: the gradient is that of larger ones
  pb_bendUpper,  // at its largest value: the gradient is that of smaller ones
  pb_bendFlat,   // beyond it: no effect until it comes back
  pb_bendTie     // of the same value as the same entry of another geom, of which the larger (or smaller) counts: half each
} pbBendKind;
typedef struct pbBend {
  pbBendKind kind;
  double at;     // the value at which it bends
  size_t other;  // tie: the other entry of theta
} pbBend;
// Entry (row, column) of a slice (pbModel_ParamAt) at the values theta (ParamSize).
PB_API pbBend pbBend_At(const pbModel *model, const double *theta, const pbParam *param, int row, int column);

// Compiled field by MuJoCo's name, integer or real, for inspection. Shape is rows x cols. Exactly one of the two data
// pointers is set. index from 0 until it returns false.
typedef struct pbField {
  const char *name;
  int rows, cols;
  const int *integers;
  const double *reals;
} pbField;
PB_API bool pbModel_FieldAt(const pbModel *model, int index, pbField *field);
PB_API bool pbModel_Field(const pbModel *model, const char *name, pbField *field);
// An integer of a field of one column, or of the model as a whole ("iterations", row 0); -1 where there is none.
PB_API int pbModel_Integer(const pbModel *model, const char *name, int row);

// What meshes look like, where loading was asked to keep it (pbLoadOptions.surfaces, or the spec's): each once, in its own frame,
// scaled. Those without triangles show their convex hull.
typedef struct pbMeshSurface {
  const char *name;  // of the mesh
  int points, triangles;
  const double *point;  // points x 3, m
  const int *triangle;  // triangles x 3, counterclockwise seen from outside
} pbMeshSurface;
PB_API int pbModel_MeshSurfaceCount(const pbModel *model);
PB_API pbMeshSurface pbModel_MeshSurface(const pbModel *model, int index);
// The surface of a geom, and where its frame is in that of the geom; -1: it has none (not a mesh, or its file was not read).
PB_API int pbModel_GeomSurface(const pbModel *model, int geom, double pos[3], double quat[4]);

// Options that are not parameters: "integrator", "cone", "solver" by name or number; "tolerance" (relative residual at which
// Newton stops; 0: rounding, the default), "iterations" (100), "ls_iterations" (50), each a number or "file": what the file
// says, which else is told only (fields file_tolerance, file_iterations, file_ls_iterations); "noslip_iterations";
// flags ("contact", "gravity", "eulerdamp", ... as in MJCF) with "enable" or "disable"; "servo": names of actuators separated
// by commas, "all" that can be, or "none". For use between compile and the first step: what was made before (scratches,
// rollouts, tape records) is refused afterwards.
//
// A servo asks for the velocity at which its force law is zero, at most actuator_speed (a parameter; 0: any), none where it
// is within actuator_deadband. It has the force within its forcerange that gives this velocity after the step (hard methods,
// erp and cfm) or approaches it as friction loss of its joint or tendon does (solref, solimp): limits of speed and force hold
// together. It is made of a position actuator with kv or of a velocity actuator (docs/contact-gradients.md).
PB_API PB_NODISCARD pbStatus pbModel_SetOption(pbModel *model, const char *name, const char *value);
// Option number `index` from 0: its name and its value as SetOption takes it. False: there are no more.
PB_API bool pbModel_OptionAt(const pbModel *model, int index, const char **name, char *text, size_t size);
// Whether options, contact settings (contact.h) and deformables (deform.h) go together, whatever order they were set in:
// pb_bad_argument or pb_unsupported with the reason. pbScratch_Create asks the same.
PB_API PB_NODISCARD pbStatus pbModel_Check(pbContext *ctx, const pbModel *model);

#ifdef __cplusplus
}
#endif
#endif
