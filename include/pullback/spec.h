// Pullback: the spec, an editable description of a world. Read from a file (io.h) or built by hand, edited freely, then
// compiled into a const model.
//
// The spec is plain data: arrays of structs holding values as an MJCF file would state them. Angles are in the unit that
// compiler.degree names. Units otherwise SI. Edit elements in place (spec->geoms[3].mass = 2); new ones come by pbSpec_Add*.
// Strings and number lists inside a spec belong to it: pbSpec_Add* copies them, later changes go through pbSpec_Text and
// pbSpec_Reals. Things refer to each other by name, bodies and frames by id; names are resolved when compiling.
// Defaults are MuJoCo 4.0's (XMLreference of its manual).
#ifndef PULLBACK_SPEC_H
#define PULLBACK_SPEC_H

#include <pullback/base.h>
#include <pullback/actuators.h>
#include <pullback/enums.h>
#include <pullback/model.h>
#include <pullback/solid.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- parts of elements ----------------------------------------------------------------------------------------------

// Where an element stands in a file; line 0: made from C. Copied into error messages.
typedef struct pbPlace {
  const char *file;
  int line, column;
  int model;  // whose compiler settings act on it: 0: those of the spec; k: attached[k - 1] of the spec
} pbPlace;

typedef struct pbReals {  // a list of numbers
  const double *data;
  int count;
} pbReals;

typedef struct pbInts {
  const int *data;
  int count;
} pbInts;

// Orientation. If alt is not pb_altNone it rules, otherwise quat (w x y z, normalized when compiling).
typedef enum pbAlt { pb_altNone, pb_altAxisangle, pb_altXyaxes, pb_altZaxis, pb_altEuler } pbAlt;
typedef struct pbPose {
  double pos[3];
  double quat[4];
  pbAlt alt;
  double value[6];  // axisangle: axis, angle; xyaxes: x, y; zaxis: z; euler: three angles in compiler.eulerseq
} pbPose;

// Opening members of every element.
#define PB_ELEMENT                          \
  const char *name; /* "" if it has none */ \
  pbPlace place;                            \
  int key; /* set by pbSpec_Add*: rises within each list, stays with the element, is never another's */

// ---- the tree -------------------------------------------------------------------------------------------------------
// frame: id of the frame an element stands in, -1 if directly in its body. A frame stands in a frame (parent) or directly in
// its body (-1); poses compose from the outermost inwards. A body's frame stands in the body's parent.

typedef struct pbFrameDef {
  PB_ELEMENT
  int body, parent;
  pbPose pose;
} pbFrameDef;

typedef struct pbBodyDef {  // body 0 is the world
  PB_ELEMENT
  int parent, frame;
  pbPose pose;
  bool has_inertial;      // an <inertial> was given
  double mass;            // kg
  pbPose inertial;        // pos[0] is NAN where not given
  int inertial_frame;     // frame the <inertial> stands in, -1: directly in the body
  double diaginertia[3];  // kg m^2
  double fullinertia[6];  // xx yy zz xy xz yz; [0] is NAN where not given
  bool inertia_kept;      // as given, also where no body has it (pb_inertiaKeep), whatever the rule for others
  double gravcomp;
  bool mocap;   // its pose is an input of every step (pbInput.mocap_pos); a child of the world without joints
  bool simple;  // may be treated as a simple body; kept, changes speed elsewhere, never motion here
  bool fuse;    // compiler.fusestatic may make it part of its parent
  pbReals user;
} pbBodyDef;

typedef struct pbJointDef {
  PB_ELEMENT
  int body, frame;
  int type;  // pb_jnt*
  int group;
  double pos[3], axis[3];
  double ref, springref;
  double springdamper[2];  // time constant, damping ratio; both > 0: stiffness and damping follow from the inertia
  double stiffness[3];     // linear, quadratic, cubic coefficient
  double damping[3];
  double armature, frictionloss;
  int limited, actfrclimited;  // pb_false, pb_true, pb_auto
  double range[2], actfrcrange[2], margin;
  double solref_limit[2], solimp_limit[5], solref_friction[2], solimp_friction[5];
  bool actgravcomp;
  int align;  // free joint: pb_false, pb_true, pb_auto (compiler.alignfree)
  pbReals user;
} pbJointDef;

typedef struct pbGeomDef {
  PB_ELEMENT
  int body, frame;
  int type;  // pb_geom*
  pbPose pose;
  double fromto[6];  // [0] is NAN where not given
  double size[3];
  int contype, conaffinity, condim, group, priority;
  double friction[3];  // slide, torsion, roll
  double solmix, solref[2], solimp[5], margin, gap;
  double mass;     // NAN: from density
  double density;  // kg/m^3 (shell: kg/m^2)
  bool shell;      // mass sits on the surface
  bool fluid_ellipsoid;
  double fluid_coef[5];
  // visual
  double rgba[4];
  const char *material;
  const char *mesh, *hfield;  // "" unless type is mesh or hfield (see pbSpec_Check), or a primitive fitted to a mesh
  double fitscale;
  pbReals user;
} pbGeomDef;

typedef struct pbSiteDef {
  PB_ELEMENT
  int body, frame;
  int type;
  int group;
  pbPose pose;
  double fromto[6];
  double size[3];
  double rgba[4];
  const char *material, *mesh;
  pbReals user;
} pbSiteDef;

typedef struct pbCameraDef {
  PB_ELEMENT
  int body, frame;
  pbPose pose;
  int mode;            // pb_cam*
  const char *target;  // body
  double fovy, ipd;    // degrees, metres
  bool orthographic;
  int resolution[2];
  double sensorsize[2], focal[2], focalpixel[2], principal[2], principalpixel[2];
  pbReals user;
} pbCameraDef;

typedef struct pbLightDef {
  PB_ELEMENT
  int body, frame;
  double pos[3], dir[3];
  int mode;
  const char *target;
  bool directional, castshadow, active;
  double attenuation[3], cutoff, exponent, ambient[3], diffuse[3], specular[3];
} pbLightDef;

// ---- beside the tree ------------------------------------------------------------------------------------------------

typedef struct pbPairDef {
  PB_ELEMENT
  const char *geom1, *geom2;
  int condim;
  double friction[5], solref[2], solreffriction[2], solimp[5], margin, gap;
} pbPairDef;

typedef struct pbExcludeDef {
  PB_ELEMENT
  const char *body1, *body2;
} pbExcludeDef;

typedef struct pbEqualityDef {
  PB_ELEMENT
  int type;  // pb_eq*
  bool active;
  const char *name1, *name2;  // bodies, sites, joints or tendons; name2 "": the world, or a constant
  bool sites;                 // connect, weld: name1 and name2 are sites
  double solref[2], solimp[5];
  double anchor[3];    // connect, weld
  double relpose[7];   // weld; all of the quaternion zero: take it from the reference configuration
  double torquescale;  // weld
  double polycoef[5];  // joint, tendon
} pbEqualityDef;

typedef struct pbWrap {  // a station of a tendon's path
  int type;              // pb_wrapJoint (fixed tendons), pb_wrapPulley, pb_wrapSite; pb_wrapSphere: a geom, of either shape
  const char *target;    // joint, site, or geom (a sphere or cylinder between two sites)
  const char *sidesite;  // of a geom: the site by which the path goes, inside of the geom where the site is; "" or NULL: none
  double value;          // coefficient of a joint, divisor of a pulley
  pbPlace place;
} pbWrap;

typedef struct pbTendonDef {
  PB_ELEMENT
  bool spatial;
  const pbWrap *path;
  int path_count;
  int group;
  int limited, actfrclimited;
  double range[2], actfrcrange[2], margin;
  double solref_limit[2], solimp_limit[5], solref_friction[2], solimp_friction[5];
  double frictionloss, springlength[2];  // springlength -1 -1: the length in the reference configuration
  double stiffness[3], damping[3], armature;
  double width, rgba[4];
  const char *material;
  pbReals user;
} pbTendonDef;

// Always in general form; the reader lowers motor, position, velocity, intvelocity, damper and cylinder to it.
// MuJoCo's rule of damping ratios holds: biastype affine, gainprm[0] = -biasprm[1] > 0 and biasprm[2] > 0 means that biasprm[2]
// is a ratio; compiling replaces it by minus the damping coefficient.
// Muscles: dyntype, gaintype and biastype muscle; dynprm = time constants of activation and deactivation, width of the transition
// between them; gainprm, biasprm = range[2], force, scale, lmin, lmax, vmax, fpmax, fvmax (docs/mjcf.md).
typedef struct pbActuatorDef {
  PB_ELEMENT
  int trntype;          // pb_trnJoint, pb_trnJointInParent, pb_trnSliderCrank, pb_trnTendon, pb_trnSite, pb_trnBody
  const char *target;   // joint, tendon, site (of a crank), body
  const char *refsite;  // of a site: what it is measured against, or ""; of a crank: its slider
  double gear[6];
  int dyntype, gaintype, biastype;
  double dynprm[10], gainprm[10], biasprm[10];
  int actdim;  // -1: as the dynamics says
  bool actearly;
  int ctrllimited, forcelimited, actlimited;
  double ctrlrange[2], forcerange[2], actrange[2];
  double inheritrange;    // > 0: position: ctrlrange, intvelocity: actrange, from the range of the target
  double lengthrange[2];  // least and greatest length; where the first is not the smaller a muscle's is found when compiling
  double damping[3], armature;
  double cranklength;   // m, of a slider-crank
  int nsample, interp;  // samples of its control that are kept; how it is read between them: pb_interp*
  double delay;         // s; 0: none
  int group;
  pbReals user;
} pbActuatorDef;

typedef struct pbSensorDef {
  PB_ELEMENT
  int type;              // pb_sens*
  int objtype, reftype;  // pb_ref*
  const char *objname, *refname;
  double cutoff, noise;
  int data;             // rangefinder: which of pb_ray* it writes; 0: pb_rayDist. contact: of pb_contact*; 0: pb_contactFound
  int reduce, num;      // contact: pb_reduce*; how many contacts it writes, 0: one
  int nsample, interp;  // samples of what it measured that are kept; how it is read between them: pb_interp*
  double delay;         // s; 0: none
  double interval[2];   // s: from one measurement to the next, 0: each step; when it last measured, 0: one interval ago
  pbReals user;
} pbSensorDef;

typedef struct pbKeyDef {  // empty list, what a short one lacks, NAN: reference configuration, zeros
  PB_ELEMENT
  double time;
  pbReals qpos, qvel, act, ctrl, mpos, mquat;
} pbKeyDef;

typedef struct pbNumericDef {
  PB_ELEMENT
  int size;  // entries in the model; the rest is zero
  pbReals data;
} pbNumericDef;

typedef struct pbTextDef {
  PB_ELEMENT
  const char *data;
} pbTextDef;

typedef struct pbTupleEntry {
  int objtype;  // pb_ref*
  const char *objname;
  double prm;
} pbTupleEntry;
typedef struct pbTupleDef {
  PB_ELEMENT
  const pbTupleEntry *entries;
  int count;
} pbTupleDef;

// A mesh as geoms of type mesh name it; rules in solid.h. A reader of files fills vertex and face of those that move something
// (pbSpec_GeomActs); those that are only seen it leaves without, unless it was asked for surfaces (pbLoadOptions).
typedef struct pbMeshDef {
  PB_ELEMENT
  const char *file;  // "" where it has none
  const char *content_type;
  pbReals vertex;  // x y z of each point, m; single precision is what MuJoCo keeps
  pbInts face;     // three points each; none: the convex hull's
  double scale[3], refpos[3], refquat[4];
  int inertia;      // pbMeshInertia
  int maxhullvert;  // most corners of its hull, -1: all
} pbMeshDef;

// A height field as geoms of type hfield name it. Heights are scaled to 0 .. 1 when compiled: (h - least) / (greatest - least),
// all 0 where they are equal. A reader of files fills elevation.
typedef struct pbHfieldDef {
  PB_ELEMENT
  const char *file;  // "" where it has none
  const char *content_type;
  int nrow, ncol;     // along y and x
  pbReals elevation;  // nrow x ncol, rows by rising y; none: flat. Single precision is what MuJoCo keeps
  double size[4];     // half sides along x and y, elevation of a height of 1, depth of the base below 0; m
} pbHfieldDef;

// A visual-only element (mesh, texture, material, skin, visual settings), stored as it stands: names and values of its
// attributes. No physics depends on it.
typedef struct pbVisualDef {
  PB_ELEMENT
  const char *element;  // "asset/material", "asset/mesh", "visual/rgba"
  double rgba[4];       // of a material: its color, where it gives none that of its class; else 1 1 1 1
  double cells[6];      // of a texture built in: the two colors (red, green, blue) of its cells, alike where there is one; else 1
  const char *texture;  // of a material, "" where it has none
  int parent;           // id of the visual element that contains it, -1
  const char *const *keys, *const *values;
  int count;
} pbVisualDef;

// ---- settings ---------------------------------------------------------------------------------------------------------

typedef struct pbCompilerSettings {
  bool degree;  // unit of angles in the spec
  char eulerseq[4];
  bool autolimits;
  double boundmass, boundinertia, settotalmass;  // settotalmass <= 0: leave
  bool balanceinertia, fusestatic, alignfree, discardvisual, fitaabb;
  int inertiafromgeom;  // pb_false, pb_true, pb_auto
  int inertiarule;      // pbInertiaRule
  int inertiagrouprange[2];
  // Length ranges of actuators: whose are found, and how: given ones stay, limits of the target count, or else the target is
  // pulled both ways, at most so long (accel: of the joints together; maxforce 0: no bound; s, and a share of the range).
  int lengthrange_mode;  // 0 none, 1 muscle, 2 muscleuser, 3 all
  bool useexisting, uselimit;
  double lengthrange_accel, lengthrange_maxforce, lengthrange_timeconst, lengthrange_timestep, lengthrange_inttotal,
      lengthrange_interval, lengthrange_tolrange;
} pbCompilerSettings;

typedef struct pbOptionSettings {
  double timestep, gravity[3], wind[3], magnetic[3], density, viscosity, impratio;
  double o_margin, o_solref[2], o_solimp[5], o_friction[5];
  double tolerance, ls_tolerance, noslip_tolerance;
  int integrator, cone, solver, iterations, ls_iterations, noslip_iterations;
  int disableflags, enableflags;
  int disableactuator;  // bit mask of actuator groups
} pbOptionSettings;

typedef struct pbStatisticSettings {  // NAN: computed
  double meaninertia, meanmass, meansize, extent, center[3];
} pbStatisticSettings;

typedef struct pbSizeSettings {
  int nkey;  // at least so many keyframes
  int nuserdata;
  int nuser_body, nuser_jnt, nuser_geom, nuser_site, nuser_cam, nuser_tendon, nuser_actuator, nuser_sensor;  // -1: as used
} pbSizeSettings;

// ---- the spec -----------------------------------------------------------------------------------------------------------

// X(Kind, member, count): every array of the spec
// clang-format off
#define PB_SPEC_LISTS(X)                                                                                          \
  X(Frame, frames, nframe) X(Body, bodies, nbody) X(Joint, joints, njoint) X(Geom, geoms, ngeom) X(Site, sites, nsite) \
  X(Camera, cameras, ncamera) X(Light, lights, nlight) X(Pair, pairs, npair) X(Exclude, excludes, nexclude)         \
  X(Equality, equalities, nequality) X(Tendon, tendons, ntendon) X(Actuator, actuators, nactuator)                  \
  X(Sensor, sensors, nsensor) X(Key, keys, nkey) X(Numeric, numerics, nnumeric) X(Text, texts, ntext)               \
  X(Tuple, tuples, ntuple) X(Mesh, meshes, nmesh) X(Hfield, hfields, nhfield) X(Visual, visuals, nvisual)
// clang-format on

typedef struct pbSpec {
  pbContext *ctx;
  const char *model_name;
  const char *folder;  // of the file it was read from; "" if none
  bool surfaces;       // the model keeps what its meshes look like (pbModel_MeshSurface)
  bool design;         // masses and frames follow the parameters of meshes (pbModel_SetConstants)
  pbCompilerSettings compiler;
  pbOptionSettings option;
  pbStatisticSettings statistic;
  pbSizeSettings size;
  const pbCompilerSettings *attached;  // of models that elements were attached from (pbPlace.model)
  int nattached;
  // Elements in the order they were stated. bodies[0] is the world. Compiling numbers bodies depth first, children in this order,
  // and whatever stands in bodies by body. Pointers into these arrays hold until the next pbSpec_Add* or pbSpec_Remove (edit.h).
#define X(Kind, member, count) \
  pb##Kind##Def *member;       \
  int count;
  PB_SPEC_LISTS(X)
#undef X
  struct pbSpecPool *pool;  // owner of strings and lists
} pbSpec;

PB_API PB_NODISCARD pbStatus pbSpec_Create(pbContext *ctx, pbSpec **spec);  // an empty world
PB_API void pbSpec_Destroy(pbSpec *spec);                                   // NULL is fine

// Defaults of a kind: pbGeomDef def = pbGeomDef_Default();
#define X(Kind, member, count) PB_API pb##Kind##Def pb##Kind##Def_Default(void);
PB_SPEC_LISTS(X)
#undef X

// Append a copy of *def (its strings and lists too); the id of the new element, or -1 when out of memory or when the element
// names a parent that is not there (the context says which). Body: def->parent; joints, geoms, ...: def->body.
#define X(Kind, member, count) PB_API int pbSpec_Add##Kind(pbSpec *spec, const pb##Kind##Def *def);
PB_SPEC_LISTS(X)
#undef X

// Element by name, NULL if there is none. To be edited in place.
#define X(Kind, member, count) PB_API pb##Kind##Def *pbSpec_Find##Kind(pbSpec *spec, const char *name);
PB_SPEC_LISTS(X)
#undef X

// Copies that the spec owns, for editing; NULL (and data NULL) when out of memory.
PB_API const char *pbSpec_Text(pbSpec *spec, const char *text);
PB_API pbReals pbSpec_Reals(pbSpec *spec, const double *data, int count);
PB_API pbInts pbSpec_Ints(pbSpec *spec, const int *data, int count);
PB_API const pbWrap *pbSpec_Wraps(pbSpec *spec, const pbWrap *path, int count);

// May the geom touch others: by its masks, or in a pair? geom: its index.
PB_API bool pbSpec_GeomTouches(const pbSpec *spec, int geom);
// Does a sensor measure the distance of the geom, or of its body's geoms? geom: its index.
PB_API bool pbSpec_GeomMeasured(const pbSpec *spec, int geom);
// Does a rangefinder send out rays? They meet geoms that are only seen, too, and all faces of meshes.
PB_API bool pbSpec_HasRays(const pbSpec *spec);
// Does anything that moves depend on the geom's shape or place: may it touch, weigh or feel a fluid, does a sensor look at it?
// Else it is only seen. geom: its index.
PB_API bool pbSpec_GeomActs(const pbSpec *spec, int geom);
// Is the geom a primitive whose size and pose come from a mesh that it names (compiler.fitaabb)? geom: its index.
PB_API bool pbSpec_GeomFits(const pbSpec *spec, int geom);
// What no compile may accept: shapes that collide but have no physics here (hfield), transmissions, dynamics, integrators
// and sensors that are not supported, ids out of range. pb_unsupported or pb_bad_input with the place. Compiling calls it.
PB_API PB_NODISCARD pbStatus pbSpec_Check(const pbSpec *spec);
// Record "file:line:column: element 'name': text" in the context.
PB_API pbStatus pbSpec_Fail(const pbSpec *spec, pbStatus status, const pbPlace *place, const char *element, const char *name,
                            const char *format, ...) PB_PRINTF(6, 7);

// Models that are compiled from here on keep what they were made from, for pbModel_Spec. A copy of the spec does so, too.
PB_API void pbSpec_KeepSource(pbSpec *spec);
// Spec to model. The spec stays as it is and may be edited and compiled again.
PB_API PB_NODISCARD pbStatus pbSpec_Compile(const pbSpec *spec, pbModel **model);
// A model with parameters theta (ParamSize; NULL: its own) as a spec again, whose every number stands in full: bodies in their
// own frames, poses by quaternions, angles in radians, stated inertias, actuators in general form; nothing is left of frames,
// densities, fused bodies and the compiler's rules. What a spec cannot say of theta (geom_restitution, one of several damping
// coefficients of a ball joint, ...) is not in it: compile it and compare. pb_bad_argument where the model did not keep what it
// was made from (pbSpec_KeepSource, pbModel_LoadWhole).
PB_API PB_NODISCARD pbStatus pbModel_Spec(pbContext *ctx, const pbModel *model, const double *theta, pbSpec **spec);

#ifdef __cplusplus
}
#endif
#endif
