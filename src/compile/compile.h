// Inside of the compiler: what the files compile*.c share. Working copies of the elements stand parallel to the arrays of
// the spec (same index); ids in the model are given at the end, since fusing and discarding change them.
#ifndef PB_COMPILE_H
#define PB_COMPILE_H

#include <pullback/edit.h>

#include "compile/spec_settings.h"
#include "model/model.h"

#define PB_DEGREE       (3.14159265358979323846 / 180)
#define PB_SAME_MOMENTS 1e-8   // of the largest moment: the axes in their plane have no derivative
#define PB_TINY         1e-14  // MuJoCo's mjEPS: least length, mass, size a model is written with

// A list of elements in one body, linked through `next` of the working copies; -1 ends it.
typedef struct pbChain {
  int head, tail;
} pbChain;

// Opening members of a working copy: next in its body, body it stands in, id in the model.
#define PB_ITEM(Def) \
  const Def *def;    \
  int next, body, id;

typedef struct pbFrameWork {
  double pos[3], quat[4];
  bool done;
} pbFrameWork;

typedef struct pbBodyWork {
  const pbBodyDef *def;
  int parent, child, sibling, last_child;  // first child, next child of the same parent; -1: none
  int id;                                  // -1: fused into its parent
  int weld;                                // body at the root of what is welded together
  int nchild;                              // children that are left after fusing
  int ndof, last_dof;                      // last_dof: of the body or its nearest ancestor with one
  pbChain joints, geoms, sites, cameras, lights;
  double pos[3], quat[4], ipos[3], iquat[4], mass, inertia[3], margin;
  bool has_ipos;
  bool adjusted;  // the compiler's bounds or balance changed its inertia
  bool stated;    // its inertia, or that of a body fused into it, was stated rather than found from geoms
  bool absorbed;  // another body was fused into it
  bool aligned;   // its frame was moved to that of its inertia
} pbBodyWork;

typedef struct pbJointWork {
  PB_ITEM(pbJointDef)
  double pos[3], axis[3], range[2], ref, springref;
  bool limited, actfrclimited;
} pbJointWork;

typedef struct pbMeshWork {
  const pbMeshDef *def;
  pbMeshProperties properties;
  double size[3], aabb[6];  // in the frame of the principal axes
  struct pbHull *hull;      // NULL: nothing that it shapes touches anything
  bool measured;            // properties and bounds are there
  bool done;                // else nothing that moves has its shape: it is not in the model
  int id;                   // -1: not in the model
} pbMeshWork;

typedef struct pbHfieldWork {
  const pbHfieldDef *def;  // NULL: nothing depends on it: it is not in the model
  int id;
} pbHfieldWork;

typedef struct pbGeomWork {
  PB_ITEM(pbGeomDef)
  double pos[3], quat[4], size[3], mass, inertia[3], aabb[6];
  const pbMeshWork *mesh;      // of a geom of type mesh whose shape acts, else NULL
  const pbHfieldWork *hfield;  // of a geom of type hfield, the same
  bool needed;                 // may touch, or something refers to it; otherwise it is visual-only
} pbGeomWork;

typedef struct pbSiteWork {
  PB_ITEM(pbSiteDef)
  double pos[3], quat[4], size[3];
} pbSiteWork;

typedef struct pbCameraWork {
  PB_ITEM(pbCameraDef)
  double pos[3], quat[4];
} pbCameraWork;

typedef struct pbLightWork {
  PB_ITEM(pbLightDef)
  double pos[3], dir[3];
} pbLightWork;

typedef struct pbPairWork {
  const pbPairDef *def;
  int geom1, geom2;  // indices of the spec; the body of geom1 comes first
  int signature, index;
} pbPairWork;

typedef struct pbExcludeWork {
  const pbExcludeDef *def;
  int signature, index;
} pbExcludeWork;

typedef struct pbNamed {
  const char *name;
  int index;
} pbNamed;
// Names of one kind, sorted.
typedef struct pbNameTable {
  pbNamed *entries;
  int count;
} pbNameTable;

enum { PB_NAME_KINDS = 26, PB_COMPILE_BLOCKS = 64 };

typedef struct pbCompiler {
  const pbSpec *spec;
  pbContext *ctx;
  pbModel *m;
  pbNameTable tables[PB_NAME_KINDS];  // by pb_ref*
  int *order;                         // indices of bodies, depth first
  int norder;
  pbFrameWork *frames;
  pbBodyWork *bodies;
  pbJointWork *joints;
  pbGeomWork *geoms;
  pbMeshWork *meshes;
  pbHfieldWork *hfields;
  pbSiteWork *sites;
  pbCameraWork *cameras;
  pbLightWork *lights;
  pbPairWork *pairs;
  pbExcludeWork *excludes;
  void *blocks[PB_COMPILE_BLOCKS];
  int nblocks;
} pbCompiler;

// Zeroed memory that is freed when compiling ends; NULL with the error set.
void *pbCompile_Take(pbCompiler *c, size_t count, size_t size);

// Settings of the model that an element comes from.
#define SETTINGS(def) pbSpec_Settings(c->spec, &(def)->place)

// Fail at an element; status pb_bad_input.
#define PB_AT(c, def, element, ...) pbSpec_Fail((c)->spec, pb_bad_input, &(def)->place, element, (def)->name, __VA_ARGS__)

// pbSpec_Keep for all fields of a record.
bool pbSpec_KeepAll(pbSpec *spec, pbSpecKind kind, void *record);
// Memory for a list of elements, with room as adding them one by one makes it (spec.c); NULL when out of memory.
void *pbSpec_NewList(pbContext *ctx, pbSpecKind kind, int count);
// The list of a kind becomes another one.
void pbSpec_SetList(pbSpec *spec, pbSpecKind kind, void *elements, int count);
// pbSpec_At, to be read alone.
const void *pbSpec_Look(const pbSpec *spec, pbSpecKind kind, int id);
// Are all numbers finite, and none smaller than makes sense? pb_bad_input with the place.
pbStatus pbSpec_CheckNumbers(const pbSpec *spec);
// Do bodies, frames and what stands in them make a tree? pb_bad_input with the place.
pbStatus pbSpec_CheckTree(const pbSpec *spec);

// A warning in the words of pbSpec_Fail.
void pbSpec_Warn(const pbSpec *spec, const pbPlace *place, const char *element, const char *name, const char *format, ...)
    PB_PRINTF(5, 6);

// ---- compile_names.c ----
PB_NODISCARD pbStatus pbCompile_Names(pbCompiler *c);  // sorts names, refuses names given twice
// Index in the spec of a named thing; -1 if there is none.
int pbCompile_Find(const pbCompiler *c, int ref_kind, const char *name);
// The same, or pb_bad_input at the place with "unknown body 'x' in weld, did you mean ...".
PB_NODISCARD pbStatus pbCompile_Resolve(const pbCompiler *c, int ref_kind, const char *name, const pbPlace *place,
                                        const char *element, const char *element_name, int *index);
PB_NODISCARD pbStatus pbCompile_StoreNames(pbCompiler *c);  // into the model
PB_NODISCARD pbStatus pbCompile_CountMaterials(pbCompiler *c);
PB_NODISCARD pbStatus pbCompile_Materials(pbCompiler *c);
// Id in the model of an element of the spec.
int pbCompile_Id(const pbCompiler *c, int ref_kind, int index);

// ---- compile_pose.c ----
double pbPose_Normalize(double *v, int n);  // returns the length before; 0 and v untouched if it is smaller than 1e-7
void pbPose_MulQuat(double r[4], const double a[4], const double b[4]);  // normalized
void pbPose_Rotate(double r[3], const double v[3], const double quat[4]);
// Pose of a child given in the frame (pos, quat) becomes its pose in the frame's parent.
void pbPose_Compose(const double pos[3], const double quat[4], double child_pos[3], double child_quat[4]);
void pbPose_FromZ(double quat[4], const double z[3]);  // least rotation that takes the z axis to z (unit length)
// Orientation as stated; NULL, or what is wrong with it.
const char *pbPose_Orientation(const pbCompilerSettings *settings, const pbPose *pose, double quat[4]);
// Eigenvalues in decreasing order and principal axes of (xx yy zz xy xz yz); NULL, or what is wrong.
const char *pbPose_Principal(const double full[6], double quat[4], double diagonal[3]);
// The same of finite numbers, as MuJoCo does it for meshes: off-diagonal entries of 1e-7 of the largest moment stay.
void pbPose_PrincipalOfMesh(const double full[6], double quat[4], double diagonal[3]);
// Inertia (xx yy zz xy xz yz) of a rigid part about a point, with its center of mass at r from there, is added to total.
void pbPose_AddInertia(double total[6], double mass, const double diagonal[3], const double quat[4], const double r[3]);
// Pose and size of a shape given by its end points; NULL, or what is wrong.
const char *pbPose_FromTo(int type, const double fromto[6], double pos[3], double quat[4], double size[3]);

// ---- compile_shape.c ----
// NULL, or which size is wrong.
const char *pbPrimitive_CheckSize(int type, const double size[3]);
double pbPrimitive_Volume(int type, const double size[3], bool shell);  // m^3, or m^2 of a shell
void pbPrimitive_Inertia(int type, const double size[3], bool shell, double mass, double inertia[3]);
double pbPrimitive_Radius(int type, const double size[3]);             // of the bounding ball; 0: unbounded
void pbPrimitive_Box(int type, const double size[3], double aabb[6]);  // center, half sizes

// ---- compile_mesh.c ----
// The mesh that a geom names, measured when it is first asked for.
PB_NODISCARD pbStatus pbCompile_Mesh(pbCompiler *c, const pbGeomDef *geom, const pbMeshWork **mesh);
// Size of a primitive where it is fitted to a mesh (compiler.fitaabb); pos, quat: as stated, then the shape's.
PB_NODISCARD pbStatus pbCompile_Fit(pbCompiler *c, const pbGeomDef *geom, double pos[3], double quat[4], double size[3]);
pbMeshSolid pbCompile_Solid(const pbMeshDef *d);             // what a mesh weighs, without copies
PB_NODISCARD pbStatus pbCompile_CountMeshes(pbCompiler *c);  // ids, and sizes of their fields in the model
void pbCompile_StoreMeshes(pbCompiler *c);
void pbCompile_DropMeshes(pbCompiler *c);  // hulls

// ---- compile_hfield.c ----
// The height field that a geom names, checked when it is first asked for.
PB_NODISCARD pbStatus pbCompile_Hfield(pbCompiler *c, const pbGeomDef *geom, const pbHfieldWork **hfield);
void pbCompile_HfieldSize(const pbHfieldDef *d, double size[3]);  // of its geoms: the half sides of a box that weighs as much
double pbCompile_HfieldRadius(const pbHfieldDef *d);
void pbCompile_HfieldBox(const pbHfieldDef *d, double aabb[6]);  // center and half sides
PB_NODISCARD pbStatus pbCompile_CountHfields(pbCompiler *c);
void pbCompile_StoreHfields(pbCompiler *c);

// ---- compile_design.c ----
PB_NODISCARD pbStatus pbCompile_Design(pbCompiler *c);  // into the model, where the spec asks for it

// ---- compile_source.c ----
PB_NODISCARD pbStatus pbCompile_Source(pbCompiler *c);  // into the model, where the spec asks for it

// ---- compile_surface.c ----
PB_NODISCARD pbStatus pbCompile_Surfaces(pbCompiler *c);  // into the model, where the spec asks for them

// ---- compile_body.c: the tree ----
// Inertia of a body (compile_inertia.c): of all geoms that give mass, unchanged where none does; bounded and checked; at least
// what inertiarule repair gives what has none.
bool pbCompile_GivesMass(const pbCompiler *c, const pbGeomWork *g);
PB_NODISCARD pbStatus pbCompile_InertiaOfGeoms(pbCompiler *c, pbBodyWork *b);
PB_NODISCARD pbStatus pbCompile_CheckInertia(pbCompiler *c, pbBodyWork *b);
void pbCompile_RepairInertia(pbCompiler *c, pbBodyWork *b);
// Poses of what stands in a body (geoms, sites, cameras, lights) are composed with (pos, quat).
void pbCompile_ComposeItems(pbCompiler *c, const pbBodyWork *b, const double pos[3], const double quat[4]);
PB_NODISCARD pbStatus pbCompile_Tree(pbCompiler *c);
PB_NODISCARD pbStatus pbCompile_Fuse(pbCompiler *c);    // compile_fuse.c
void pbCompile_NumberBodies(pbCompiler *c);             // ids of bodies and their count (compile_store.c)
PB_NODISCARD pbStatus pbCompile_Number(pbCompiler *c);  // ids and counts of what stands in them
PB_NODISCARD pbStatus pbCompile_StoreTree(pbCompiler *c);
double pbCompile_FieldOfView(const pbCameraDef *camera);  // degrees
void pbCompile_FinishSimple(pbCompiler *c);
// Whether a range holds: as stated, or by the range where it is left open. Fails where autolimits is off and a range stands
// alone.
PB_NODISCARD pbStatus pbCompile_Limited(const pbCompiler *c, const pbPlace *place, const char *element, const char *name,
                                        const char *attribute, int limited, const double range[2], bool *result);
// Copy user numbers into a row of the model.
void pbCompile_User(double *row, int columns, pbReals user);

// ---- compile_relation.c: pairs, excludes, equalities, tendons ----
PB_NODISCARD pbStatus pbCompile_Pairs(pbCompiler *c);  // resolves; marks geoms that are needed
void pbCompile_MarkObstacles(pbCompiler *c);           // geoms that tendons wrap around
PB_NODISCARD pbStatus pbCompile_StorePairs(pbCompiler *c);
PB_NODISCARD pbStatus pbCompile_Equalities(pbCompiler *c);
PB_NODISCARD pbStatus pbCompile_Tendons(pbCompiler *c);

// ---- compile_actuator.c, compile_sensor.c ----
PB_NODISCARD pbStatus pbCompile_LengthRanges(pbCompiler *c);  // length_range.c: needs the finished model
PB_NODISCARD pbStatus pbCompile_Actuators(pbCompiler *c);
PB_NODISCARD pbStatus pbCompile_Sensors(pbCompiler *c);
PB_NODISCARD pbStatus pbCompile_CountSensors(pbCompiler *c);
PB_NODISCARD pbStatus pbCompile_CountHistory(pbCompiler *c);  // after sensors; checks of what keeps samples

// ---- compile_finish.c: what follows from the reference configuration ----
PB_NODISCARD pbStatus pbCompile_Constants(pbCompiler *c);

#endif
