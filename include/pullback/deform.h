// Pullback: deformable things. Points with masses, energies over them, contact between them; part of a world's state, step and
// derivatives. State the energies, and forces, implicit steps and gradients follow (docs/energies.md, docs/deformables.md).
//
//   pbDeformable *d;              pbDeformable_Create(ctx, &d)
//   pbDeformable_AddPoints(...)   pbDeformable_AddEnergy(...)   pbDeformable_SetParameter(...)   pbDeformable_Fix(...)
//   pbModel_SetDeformable(model, d)           the model owns a compiled copy; d may be destroyed
//
// From then on the model's state has the fields "points" and "point_velocity" (npoint x 3 each, and what the integrator keeps of
// the past), its tangent the same at its end, and theta the slices "point_rest", "point_mass" and GROUP.PARAMETER, one for each
// parameter of each energy. Steps, rollouts, checkpoints, derivatives, tasks and the program work on these as on joints.
#ifndef PULLBACK_DEFORM_H
#define PULLBACK_DEFORM_H

#include <pullback/energy.h>
#include <pullback/mesh.h>
#include <pullback/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pbDeformable pbDeformable;
PB_API PB_NODISCARD pbStatus pbDeformable_Create(pbContext *ctx, pbDeformable **deformable);
PB_API void pbDeformable_Destroy(pbDeformable *deformable);  // NULL is fine

// ---- points -------------------------------------------------------------------------------------------------------
// Appends `count` points at rest positions `rest` (count x 3, m), with masses (kg; NULL: none but what mass groups add), starting
// at positions `start` with velocities (m/s) (NULL: at rest). *first becomes the index of the first.
PB_API PB_NODISCARD pbStatus pbDeformable_AddPoints(pbDeformable *deformable, int count, const double *rest, const double *mass,
                                                    const double *start, const double *velocity, int *first);
// A name for some points, as losses and variables of tasks use it. A name given twice is an error.
PB_API PB_NODISCARD pbStatus pbDeformable_NamePoints(pbDeformable *deformable, const char *name, int count, const int *points);
// Cells of a mesh over these points, for files and pictures; no physics.
PB_API PB_NODISCARD pbStatus pbDeformable_AddCells(pbDeformable *deformable, const char *name, pbCellKind kind, int count,
                                                   const int *vertex);
enum { pb_fixX = 1, pb_fixY = 2, pb_fixZ = 4, pb_fixAll = 7 };
// These points do not follow forces along these axes: they go on with the velocity they have. Their positions and velocities
// are state like others', so boundary values have gradients. Contradictory pins cannot be stated: fixing twice is fixing once.
PB_API PB_NODISCARD pbStatus pbDeformable_Fix(pbDeformable *deformable, int count, const int *points, int axes);
// Leads points: along these axes they go along a path, in step k from where they are to where they start (pbDeformable_AddPoints)
// plus displacement k, with the velocity of that way; what comes after the last row stays there. k counts steps by the state's
// time over the time step. path: steps x rows x 3 [m], rows 1 (all alike) or `count` (one each), the parameter NAME.path, whose
// entries along other axes do nothing; NULL (steps 0, rows 1): displacements are controls, one for each axis, NAME.x, NAME.y,
// NAME.z, 0 at the start. `name` is a word, unique among groups and paths. A coordinate is led once, and not by a body.
PB_API PB_NODISCARD pbStatus pbDeformable_Lead(pbDeformable *deformable, const char *name, int count, const int *points, int axes,
                                               int steps, int rows, const double *path);
// All points, those added later too, keep their z: a planar scene.
PB_API void pbDeformable_SetPlanar(pbDeformable *deformable, bool planar);

// Appends points attached to a body of the model (or "world"), at positions `local` (count x 3, m, body frame; the parameter
// attach_local). Energies and surfaces over them push the body, inside the same step; they have no mass of their own, and their
// part of the state is written by the step.
PB_API PB_NODISCARD pbStatus pbDeformable_Attach(pbDeformable *deformable, const char *body, int count, const double *local,
                                                 int *first);
// Attaches points to a body, where they are in the reference configuration of the model; masses, pins and velocities that they
// had are lost.
PB_API PB_NODISCARD pbStatus pbDeformable_AttachPoints(pbDeformable *deformable, const pbModel *model, const char *body,
                                                       int count, const int *points);
// A geom of the model as a surface that deformables meet: sphere (a point with a radius), capsule (an edge with a radius), box,
// plane exactly; cylinder and ellipsoid as closed meshes; a mesh that may touch as its convex hull. Follows geom_pos, geom_quat,
// geom_size, mesh_scale, mesh_refpos, mesh_refquat and the poses of bodies, radii aside (contact.radius).
PB_API PB_NODISCARD pbStatus pbDeformable_AttachGeom(pbDeformable *deformable, const pbModel *model, const char *geom,
                                                     int *number);

// ---- energies -----------------------------------------------------------------------------------------------------
// Appends `count` elements (count x def->points indices of points) under the energy `def`; `name` is that of the group, unique,
// a word without ':' . Parameters start as pbDeformable_SetParameter says; all must be set before use. *group: its number.
PB_API PB_NODISCARD pbStatus pbDeformable_AddEnergy(pbDeformable *deformable, const char *name, const pbEnergyDef *def, int count,
                                                    const int *vertex, int *group);
// The same, for masses: `def` gives an element's mass [kg] (of rest positions and parameters; density times volume), which its
// points share equally.
PB_API PB_NODISCARD pbStatus pbDeformable_AddMass(pbDeformable *deformable, const char *name, const pbEnergyDef *def, int count,
                                                  const int *vertex, int *group);
// Values of a parameter: `rows` = 1: shared by all elements, rows = number of elements: one each; row-major, rows x cols.
PB_API PB_NODISCARD pbStatus pbDeformable_SetParameter(pbDeformable *deformable, int group, const char *parameter, int rows,
                                                       const double *values);
// The parameter follows controls instead of theta: each of its numbers is one more entry of ctrl after the model's actuators
// (muscle activations, moving targets, forces that vary in time), named GROUP.PARAMETER or GROUP.PARAMETER[row], starting value
// as set.
PB_API PB_NODISCARD pbStatus pbDeformable_Control(pbDeformable *deformable, int group, const char *parameter);

// ---- stepping -----------------------------------------------------------------------------------------------------
// Steps minimize an incremental potential 1/2 |x - xhat|^2_M + c h^2 sum_e E(x) (design of each: src/deform/scheme.c).
typedef enum pbScheme {
  pb_schemeImplicitEuler,    // order 1, dissipates
  pb_schemeBdf2,             // order 2, dissipates little; its first step is one of implicit Euler
  pb_schemeTrapezoid,        // Newmark with beta 1/4, gamma 1/2: order 2, keeps the energy of linear systems
  pb_schemeAvf4,             // average vector field with Simpson's rule: keeps quartic energies exactly
  pb_schemeSymplecticEuler,  // explicit: stable below 2 / highest frequency only
  pb_schemeStatic,           // no inertia: each step goes to an equilibrium near the state before
  pb_schemeCount
} pbScheme;
// How the minimum is looked for. All but Newton are there to be compared with, and for energies whose Hessians are of no use; the
// pullback is the same for all of them and supposes that the minimum was reached.
typedef enum pbDeformMinimizer {
  pb_minimizeNewton,    // exact Hessians, sparse factorization
  pb_minimizeNewtonCg,  // the same by preconditioned conjugate gradients: less memory
  pb_minimizeLbfgs,
  pb_minimizeGradient,  // steepest descent with line search
  pb_minimizeAdam,
  pb_minimizeUser,
  pb_deformMinimizerCount
} pbDeformMinimizer;
PB_API const char *pbDeformMinimizer_Name(
    pbDeformMinimizer method);  // "newton", "newton_cg", "lbfgs", "gradient", "adam", "user"
PB_API bool pbDeformMinimizer_Named(const char *name, pbDeformMinimizer *method);

// The potential of a step over `n` = 3 npoint coordinates; the gradient is zero at fixed ones, which must stay as they are.
typedef struct pbPotential {
  int n;
  // false: outside of an energy's domain (value infinite). gradient may be NULL.
  bool (*evaluate)(const struct pbPotential *potential, const double *x, double *value, double *gradient);
  // largest s <= 1 for which x - s step is reached without leaving what is allowed (contact)
  double (*max_step)(const struct pbPotential *potential, const double *x, const double *step);
  void *inside;
} pbPotential;
// A minimizer of the user's: x from the start to a minimum; *iterations counts. pb_ok: converged.
typedef pbStatus (*pbDeformMinimize)(void *user, const pbPotential *potential, double *x, int *iterations);

typedef struct pbDeformOptions {
  pbScheme scheme;
  pbDeformMinimizer method;
  int iterations;    // most a step; 0: 100 of Newton's, 100 000 of others
  double tolerance;  // m: a step has converged when Newton's next change of any coordinate is below it; 0: 1e-10 times the size
                     // of the scene
  double residual;   // N: other methods end when no force that is left over is larger; 0: 1e-8
  double rate;       // of Adam, m; 0: 0.1
  bool approximate;  // go on from a step that did not converge (reported) instead of failing
  pbDeformMinimize minimize;
  void *user;
} pbDeformOptions;
PB_API const char *pbScheme_Name(pbScheme scheme);  // "implicit_euler", "bdf2", "trapezoid", "avf4", "symplectic_euler", "static"
PB_API bool pbScheme_Named(const char *name, pbScheme *scheme);
PB_API PB_NODISCARD pbStatus pbDeformable_SetOptions(pbDeformable *deformable, const pbDeformOptions *options);

// ---- contact ------------------------------------------------------------------------------------------------------
// Barriers between surfaces keep them apart at every moment (docs/barrier.md). A surface is a group of primitives over points.
typedef struct pbSurface {
  const char *name;     // NULL: none
  int triangles;        // their edges and corners take part by themselves
  const int *triangle;  // x 3
  int edges;            // of lines
  const int *edge;      // x 2
  int points;           // by themselves
  const int *point;
  double radius;  // m: thickness around all of it; the parameter contact.radius
  bool self;      // meets itself too
} pbSurface;
// Stiffness and friction are stated for pairs, so that theta grows with the square of the surfaces: pbModel_SetDeformable refuses
// more than these with pb_capacity.
#define PB_MOST_SURFACES 2048
// *number: of the surface, from 0. By name: -1 where there is none.
PB_API int pbDeformable_FindSurface(const pbDeformable *deformable, const char *name);
PB_API const char *pbDeformable_SurfaceName(const pbDeformable *deformable, int number);  // NULL beyond the last
PB_API PB_NODISCARD pbStatus pbDeformable_AddSurface(pbDeformable *deformable, const pbSurface *surface, int *number);
// A plane through `point` with its free side along `normal`; a surface of its own, of three fixed points.
PB_API PB_NODISCARD pbStatus pbDeformable_AddPlane(pbDeformable *deformable, const char *name, const double point[3],
                                                   const double normal[3], int *number);
// Whether two surfaces meet (all do, unless said otherwise), their stiffness [N/m] and friction coefficient; negative: as
// pbDeformContact says. Parameters contact.stiffness and contact.friction: a row for each pair, surfaces x surfaces, the smaller
// number first.
PB_API PB_NODISCARD pbStatus pbDeformable_SetPair(pbDeformable *deformable, int first, int second, bool meet, double stiffness,
                                                  double friction);
typedef enum pbFrictionKind { pb_frictionNone, pb_frictionLagged, pb_frictionImplicit, pb_frictionKindCount } pbFrictionKind;
typedef struct pbDeformContact {
  double distance;      // m: gap at which the barrier begins; contact.distance
  double stiffness;     // N/m, of pairs that have none of their own
  double friction;      // likewise
  double velocity;      // m/s: sliding speed at which friction has its full size; contact.velocity
  pbFrictionKind kind;  // lagged: normal forces and directions of the start of the step; implicit: of its end
} pbDeformContact;
PB_API PB_NODISCARD pbStatus pbDeformable_SetContact(pbDeformable *deformable, const pbDeformContact *contact);

// ---- to the model ---------------------------------------------------------------------------------------------------
// Checks everything (indices, values, degenerate elements, points without mass) and makes it part of the model; once, between
// compiling and the first scratch. The model's gravity acts on the masses, its time step is theirs.
PB_API PB_NODISCARD pbStatus pbModel_SetDeformable(pbModel *model, const pbDeformable *deformable);
// What all controls ("nu") start with: those of actuators as in a keyframe (-1: zero), those of deformables as set.
PB_API void pbModel_StartControls(const pbModel *model, int keyframe, double *ctrl);
// Masses of all points (npoint), those of elements included.
PB_API PB_NODISCARD pbStatus pbModel_PointMasses(pbContext *ctx, const pbModel *model, const double *theta, double *mass);
PB_API int pbModel_PointCount(const pbModel *model);
// What the model's deformables are, all together; false (*info as it was) where it has none.
typedef struct pbDeformInfo {
  pbScheme scheme;
  pbDeformMinimizer method;
  int points, moving;  // rows of "points" in a state; those with an axis that is not fixed
  int controls;        // the last so many of ctrl ("nu"), named as actuators are (pb_objActuator)
} pbDeformInfo;
PB_API bool pbModel_DeformInfo(const pbModel *model, pbDeformInfo *info);
// The points of that name; NULL where there is none. By number: the name, NULL beyond the last.
PB_API const int *pbModel_PointSet(const pbModel *model, const char *name, int *count);
PB_API const char *pbModel_PointSetName(const pbModel *model, int index);
// All points at rest (theta) with the cells that were added, a group for each name.
PB_API PB_NODISCARD pbStatus pbModel_PointMesh(pbContext *ctx, const pbModel *model, const double *theta, pbMesh **mesh);
// Groups by number: name, energy, elements' table; false beyond the last.
typedef struct pbDeformGroup {
  const char *name;
  const char *energy;  // name of its definition: a built-in energy, or the user's
  bool mass;           // gives masses, no forces (pbDeformable_AddMass)
  int count, points;   // elements, points of each
  const int *vertex;   // count x points
} pbDeformGroup;
PB_API bool pbModel_DeformGroupAt(const pbModel *model, int index, pbDeformGroup *group);
// Points that nobody listed, in consecutive rows: of a plane, or of a geom as a surface. By number; false beyond the last.
typedef struct pbScenery {
  const char *name;  // of the plane or geom; "": it has none
  bool geom;         // else a plane
  int first, count;  // rows of "points"
} pbScenery;
PB_API bool pbModel_SceneryAt(const pbModel *model, int index, pbScenery *scenery);

#ifdef __cplusplus
}
#endif
#endif
