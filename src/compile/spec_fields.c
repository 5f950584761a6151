// The fields of a spec's elements and settings, by kind: one row for each member, its type and length taken from the member
// itself. A member without a row is found by the tests.
// Tests: tests/unit/test_spec_edit.c, tests/python/test_spec.py.
#include <pullback/edit.h>

#include <string.h>

#include <pullback/equalities.h>
#include <pullback/sensors.h>

#include "base/assert.h"

// Names of the records that are no elements, as those of elements.
typedef pbCompilerSettings pbCompilerDef;
typedef pbOptionSettings pbOptionDef;
typedef pbStatisticSettings pbStatisticDef;
typedef pbSizeSettings pbSizesDef;
typedef pbSpec pbWholeDef;
typedef pbWrap pbWrapDef;
typedef pbTupleEntry pbEntryDef;

typedef struct row {
  pbSpecKind kind;
  pbSpecField field;
} row;

// Tables, by column.
// clang-format off
#define TYPE_OF(m) \
  _Generic((m), bool: pb_fieldBool, int: pb_fieldInt, unsigned: pb_fieldInt, int *: pb_fieldInt, double: pb_fieldReal, \
           double *: pb_fieldReal, char *: pb_fieldLetters, const char *: pb_fieldText, pbReals: pb_fieldReals, \
           pbInts: pb_fieldInts, const pbWrap *: pb_fieldPath, const pbTupleEntry *: pb_fieldEntries, \
           const char *const *: pb_fieldPairs)
#define COUNT_OF(m) \
  (int)_Generic((m), int *: sizeof(m) / (sizeof(int)), double *: sizeof(m) / (sizeof(double)), char *: sizeof(m), pbReals: 0, \
                pbInts: 0, const pbWrap *: 0, const pbTupleEntry *: 0, const char *const *: 0, default: 1)
#define OF(Kind, m) ((pb##Kind##Def *)0)->m
#define ROW(Kind, m, length, words, refers, optional, unit, meaning) \
  {pb_spec##Kind, {#m, TYPE_OF(OF(Kind, m)), offsetof(pb##Kind##Def, m), length, COUNT_OF(OF(Kind, m)), words, refers, optional, \
                   unit, meaning}}
#define F(Kind, m, unit, meaning) ROW(Kind, m, 0, NULL, -1, false, unit, meaning)
#define MAYBE(Kind, m, unit, meaning) ROW(Kind, m, 0, NULL, -1, true, unit, meaning)
#define WORD(Kind, m, words, meaning) ROW(Kind, m, 0, words, -1, false, "", meaning)
#define ID(Kind, m, Of, meaning) ROW(Kind, m, 0, NULL, pb_spec##Of, false, "", meaning)
#define LIST(Kind, m, length, meaning) ROW(Kind, m, offsetof(pb##Kind##Def, length), NULL, -1, false, "", meaning)

// ---- words ------------------------------------------------------------------------------------------------------------
#define TRISTATE "false true auto"
#define SHAPES "plane hfield sphere capsule ellipsoid cylinder box mesh"
#define MODES "fixed track trackcom targetbody targetbodycom"
#define NAMED(name, value, word, ...) " " word "=" #value
#define OBJECTS \
  "none=0 body=1 xbody=2 joint=3 geom=5 site=6 camera=7 light=8 mesh=10 skin=11 hfield=12 texture=13 material=14 pair=15 " \
  "exclude=16 equality=17 tendon=18 actuator=19 sensor=20 numeric=21 text=22 tuple=23 key=24"

#define INTERPOLATIONS "zoh linear cubic"

// ---- groups -----------------------------------------------------------------------------------------------------------
#define NAME(Kind) F(Kind, name, "", "its name, by which others refer to it; empty: none")
#define HISTORY(Kind, what, late) \
  F(Kind, nsample, "", "samples of " what " that are kept"), \
  WORD(Kind, interp, INTERPOLATIONS, "how it is read between them"), F(Kind, delay, "s", "by which " late "; needs samples")
#define PLACED(Kind) \
  ID(Kind, body, Body, "the body that it stands in"), \
  ID(Kind, frame, Frame, "the frame that it stands in; none: directly in its body")
#define POSE(Kind, m) \
  F(Kind, m.pos, "m", "position in the frame or body around it"), \
  F(Kind, m.quat, "", "orientation, w x y z, where alt is none; normalized when compiling"), \
  WORD(Kind, m.alt, "none axisangle xyaxes zaxis euler", "how the orientation is given: none is by quat"), \
  F(Kind, m.value, "angles as compiler.degree", \
    "axisangle: axis, angle; xyaxes: x, y; zaxis: z; euler: three angles in compiler.eulerseq")
#define SOLVER(Kind) \
  F(Kind, solref, "s, 1", "time constant and damping ratio of the constraint"), \
  F(Kind, solimp, "", "impedance of the constraint: dmin, dmax, width, midpoint, power")
#define ROW_SOLVERS(Kind) \
  F(Kind, solref_limit, "s, 1", "solref of the limit"), \
  F(Kind, solimp_limit, "", "solimp of the limit"), \
  F(Kind, solref_friction, "s, 1", "solref of the friction loss"), \
  F(Kind, solimp_friction, "", "solimp of the friction loss")
#define LIMITS(Kind, unit) \
  WORD(Kind, limited, TRISTATE, "whether range acts; auto: where one is given"), \
  WORD(Kind, actfrclimited, TRISTATE, "whether actfrcrange acts; auto: where one is given"), \
  F(Kind, range, unit, "least and greatest value"), \
  F(Kind, actfrcrange, "N or N m", "least and greatest force of all actuators together"), \
  F(Kind, margin, unit, "distance from the limit at which it acts")
#define USER(Kind) F(Kind, user, "", "numbers of the user's own")
#define GROUP(Kind) F(Kind, group, "", "its group in pictures")
#define RGBA(Kind) F(Kind, rgba, "", "color: red, green, blue, opacity"), F(Kind, material, "", "name of a material; empty: none")

static const row table[] = {
    NAME(Frame), ID(Frame, body, Body, "the body that it stands in"),
    ID(Frame, parent, Frame, "the frame that it stands in; none: directly in its body"), POSE(Frame, pose),

    NAME(Body), ID(Body, parent, Body, "the body that it hangs on"),
    ID(Body, frame, Frame, "the frame of its parent that it stands in; none: directly"), POSE(Body, pose),
    F(Body, has_inertial, "", "its mass and inertia are given, as by <inertial>"),
    F(Body, mass, "kg", "mass, where has_inertial"), MAYBE(Body, inertial.pos, "m", "center of mass; none: not given"),
    F(Body, inertial.quat, "", "orientation of the principal axes, w x y z"),
    WORD(Body, inertial.alt, "none axisangle xyaxes zaxis euler", "how that orientation is given: none is by inertial_quat"),
    F(Body, inertial.value, "angles as compiler.degree", "as value"),
    ID(Body, inertial_frame, Frame, "the frame that its inertia stands in; none: directly in the body"),
    F(Body, diaginertia, "kg m^2", "principal moments"),
    MAYBE(Body, fullinertia, "kg m^2", "xx yy zz xy xz yz; none: not given"),
    F(Body, inertia_kept, "", "as given, also where no body has such an inertia"),
    F(Body, gravcomp, "", "share of its weight that is carried"),
    F(Body, mocap, "", "its pose is an input of every step; a child of the world without joints"),
    F(Body, simple, "", "kept; changes no motion"), F(Body, fuse, "", "compiler.fusestatic may make it part of its parent"),
    USER(Body),

    NAME(Joint), PLACED(Joint), WORD(Joint, type, "free ball slide hinge", "its kind"), GROUP(Joint),
    F(Joint, pos, "m", "where it is in its body"), F(Joint, axis, "", "its direction; normalized when compiling"),
    F(Joint, ref, "m, or an angle as compiler.degree", "position at rest"),
    F(Joint, springref, "m, or an angle as compiler.degree", "position at which its spring pulls nothing"),
    F(Joint, springdamper, "s, 1", "time constant and damping ratio; both above 0: stiffness and damping follow"),
    F(Joint, stiffness, "N/m or N m/rad", "of its spring: linear, quadratic, cubic"),
    F(Joint, damping, "N s/m or N m s/rad", "linear, quadratic, cubic"),
    F(Joint, armature, "kg or kg m^2", "inertia of its rotor"), F(Joint, frictionloss, "N or N m", "dry friction"),
    LIMITS(Joint, "m, or an angle as compiler.degree"), ROW_SOLVERS(Joint),
    F(Joint, actgravcomp, "", "its body's gravity compensation counts as an actuator's force"),
    WORD(Joint, align, TRISTATE, "free: its frame is moved to the body's inertia; auto: as compiler.alignfree"), USER(Joint),

    NAME(Geom), PLACED(Geom), WORD(Geom, type, SHAPES, "its shape"), POSE(Geom, pose),
    MAYBE(Geom, fromto, "m", "both ends of its axis; none: not given"), F(Geom, size, "m", "radius, half lengths, by type"),
    F(Geom, contype, "", "mask: touches those whose conaffinity has a bit of it"),
    F(Geom, conaffinity, "", "mask: touches those whose contype has a bit of it"),
    F(Geom, condim, "", "dimensions of its contacts: 1, 3, 4 or 6"), GROUP(Geom),
    F(Geom, priority, "", "whose friction and solver parameters count: the higher one's"),
    F(Geom, friction, "1, m, m", "slide, torsion, roll"), F(Geom, solmix, "", "weight where two geoms' parameters are mixed"),
    SOLVER(Geom), F(Geom, margin, "m", "distance at which contacts begin to act"),
    F(Geom, gap, "m", "of margin: where contacts are there without a force"), MAYBE(Geom, mass, "kg", "none: from density"),
    F(Geom, density, "kg/m^3", "of a shell kg/m^2"), F(Geom, shell, "", "its mass sits on its surface"),
    F(Geom, fluid_ellipsoid, "", "a fluid acts on it as on an ellipsoid"),
    F(Geom, fluid_coef, "", "blunt drag, slender drag, angular drag, Kutta lift, Magnus lift"), RGBA(Geom),
    F(Geom, mesh, "", "name of a mesh, where type is mesh or it is fitted to one"),
    F(Geom, hfield, "", "name of a height field, where type is hfield"),
    F(Geom, fitscale, "", "scale of a shape that is fitted to a mesh"), USER(Geom),

    NAME(Site), PLACED(Site), WORD(Site, type, SHAPES, "its shape"), GROUP(Site), POSE(Site, pose),
    MAYBE(Site, fromto, "m", "both ends of its axis; none: not given"), F(Site, size, "m", "radius, half lengths, by type"),
    RGBA(Site), F(Site, mesh, "", "name of a mesh; kept"), USER(Site),

    NAME(Camera), PLACED(Camera), POSE(Camera, pose), WORD(Camera, mode, MODES, "how it moves"),
    F(Camera, target, "", "name of the body that it looks at"), F(Camera, fovy, "degrees", "vertical field of view"),
    F(Camera, ipd, "m", "distance between eyes"), F(Camera, orthographic, "", "without perspective"),
    F(Camera, resolution, "pixels", "width, height"), F(Camera, sensorsize, "m", "width, height"),
    F(Camera, focal, "m", "focal lengths"), F(Camera, focalpixel, "pixels", "focal lengths"),
    F(Camera, principal, "m", "principal point"), F(Camera, principalpixel, "pixels", "principal point"), USER(Camera),

    NAME(Light), PLACED(Light), F(Light, pos, "m", "position"), F(Light, dir, "", "direction"),
    WORD(Light, mode, MODES, "how it moves"), F(Light, target, "", "name of the body that it shines at"),
    F(Light, directional, "", "its rays are parallel"), F(Light, castshadow, "", "it casts shadows"),
    F(Light, active, "", "it shines"), F(Light, attenuation, "", "constant, linear, quadratic"),
    F(Light, cutoff, "degrees", "half angle of a spot"), F(Light, exponent, "", "of a spot"), F(Light, ambient, "", "color"),
    F(Light, diffuse, "", "color"), F(Light, specular, "", "color"),

    NAME(Pair), F(Pair, geom1, "", "name of a geom"), F(Pair, geom2, "", "name of the other"),
    F(Pair, condim, "", "dimensions of its contacts: 1, 3, 4 or 6"),
    F(Pair, friction, "1, 1, m, m, m", "slide twice, torsion, roll twice"), SOLVER(Pair),
    F(Pair, solreffriction, "s, 1", "solref of friction; 0 0: as solref"),
    F(Pair, margin, "m", "distance at which contacts begin to act"),
    F(Pair, gap, "m", "of margin: where contacts are there without a force"),

    NAME(Exclude), F(Exclude, body1, "", "name of a body"), F(Exclude, body2, "", "name of the other: they do not touch"),

    NAME(Equality), WORD(Equality, type, "" PB_EQUALITY_TABLE(NAMED), "what it holds"), F(Equality, active, "", "it acts"),
    F(Equality, name1, "", "name of a body, site, joint or tendon"),
    F(Equality, name2, "", "name of the other; empty: the world, or a constant"),
    F(Equality, sites, "", "connect, weld: both names are of sites"), SOLVER(Equality),
    F(Equality, anchor, "m", "connect, weld: the point that stays together"),
    F(Equality, relpose, "m, 1", "weld: pose of the second in the first, x y z w x y z; quaternion 0: as at rest"),
    F(Equality, torquescale, "m", "weld: weight of rotations"),
    F(Equality, polycoef, "", "joint, tendon: coefficients of the polynomial"),

    NAME(Tendon), F(Tendon, spatial, "", "its path goes by sites and geoms; else it is a sum of joints"),
    LIST(Tendon, path, path_count, "its stations in order"), GROUP(Tendon), LIMITS(Tendon, "m"), ROW_SOLVERS(Tendon),
    F(Tendon, frictionloss, "N", "dry friction"),
    F(Tendon, springlength, "m", "least and greatest length at which its spring pulls nothing; -1 -1: that at rest"),
    F(Tendon, stiffness, "N/m", "linear, quadratic, cubic"), F(Tendon, damping, "N s/m", "linear, quadratic, cubic"),
    F(Tendon, armature, "kg", "inertia along it"), F(Tendon, width, "m", "radius in pictures"), RGBA(Tendon), USER(Tendon),

    NAME(Actuator), WORD(Actuator, trntype, "" PB_TRANSMISSIONS(NAMED) " none=1000", "what it acts on"),
    F(Actuator, target, "", "name of what it acts on: joint, tendon, site, body"),
    F(Actuator, refsite, "", "site: what it is measured against; crank: its slider"),
    F(Actuator, gear, "", "scale of length and force, or a wrench's directions"),
    WORD(Actuator, dyntype, "none=0" PB_DYNAMICS_KINDS(NAMED), "dynamics of its activation"),
    WORD(Actuator, gaintype, "" PB_GAINS(NAMED), "law of its gain"),
    WORD(Actuator, biastype, "none=0" PB_BIASES(NAMED), "law of its bias"),
    F(Actuator, dynprm, "", "parameters of the dynamics"), F(Actuator, gainprm, "", "parameters of the gain"),
    F(Actuator, biasprm, "", "parameters of the bias"),
    F(Actuator, actdim, "", "numbers of its activation; -1: as the dynamics says"),
    F(Actuator, actearly, "", "the force is of the next activation"),
    WORD(Actuator, ctrllimited, TRISTATE, "whether ctrlrange acts; auto: where one is given"),
    WORD(Actuator, forcelimited, TRISTATE, "whether forcerange acts; auto: where one is given"),
    WORD(Actuator, actlimited, TRISTATE, "whether actrange acts; auto: where one is given"),
    F(Actuator, ctrlrange, "of the control", "least and greatest"), F(Actuator, forcerange, "N or N m", "least and greatest"),
    F(Actuator, actrange, "of the activation", "least and greatest"),
    F(Actuator, inheritrange, "", "above 0: the range of control or activation is so often that of the target"),
    F(Actuator, lengthrange, "m or rad", "least and greatest length; where the first is not the smaller a muscle's is found"),
    F(Actuator, damping, "", "linear, quadratic, cubic"), F(Actuator, armature, "kg or kg m^2", "inertia along it"),
    F(Actuator, cranklength, "m", "of a slider-crank"), HISTORY(Actuator, "its control", "its control acts late"),
    GROUP(Actuator), USER(Actuator),

    NAME(Sensor), WORD(Sensor, type, "" PB_SENSOR_TABLE(NAMED), "what it measures"),
    WORD(Sensor, objtype, OBJECTS, "kind of what it is of"),
    WORD(Sensor, reftype, OBJECTS, "kind of what it is measured against"), F(Sensor, objname, "", "name of what it is of"),
    F(Sensor, refname, "", "name of what it is measured against"),
    F(Sensor, cutoff, "of the sensor", "greatest value; 0: none"), F(Sensor, noise, "of the sensor", "kept; nothing is drawn"),
    F(Sensor, data, "", "rangefinder, contact: bits of what it writes; 0: the first"),
    WORD(Sensor, reduce, "none mindist maxforce netforce", "contact: which it writes"),
    F(Sensor, num, "", "contact: how many it writes; 0: one"), HISTORY(Sensor, "what it measured", "it is told late"),
    F(Sensor, interval, "s", "from one measurement to the next, 0: each step; when it last measured, 0: one interval ago"),
    USER(Sensor),

    NAME(Key), F(Key, time, "s", "time"), MAYBE(Key, qpos, "m and rad", "positions; empty: at rest"),
    MAYBE(Key, qvel, "m/s and rad/s", "velocities; empty: zero"), MAYBE(Key, act, "", "activations; empty: zero"),
    MAYBE(Key, ctrl, "", "controls; empty: zero"), MAYBE(Key, mpos, "m", "positions of mocap bodies; empty: at rest"),
    MAYBE(Key, mquat, "", "orientations of mocap bodies, w x y z; empty: at rest"),

    NAME(Numeric), F(Numeric, size, "", "entries in the model; the rest is zero"), F(Numeric, data, "", "numbers"), NAME(Text),
    F(Text, data, "", "a text"), NAME(Tuple), LIST(Tuple, entries, count, "what it holds"),

    NAME(Mesh), F(Mesh, file, "", "where it was read from; kept"), F(Mesh, content_type, "", "media type of the file; kept"),
    F(Mesh, vertex, "m", "x y z of each point"), F(Mesh, face, "", "three points each; empty: the convex hull's"),
    F(Mesh, scale, "", "along x, y, z"), F(Mesh, refpos, "m", "what becomes its origin"),
    F(Mesh, refquat, "", "what becomes its orientation, w x y z"),
    WORD(Mesh, inertia, "convex exact legacy shell", "how mass and inertia are found"),
    F(Mesh, maxhullvert, "", "most corners of its hull; -1: all"),

    NAME(Hfield), F(Hfield, file, "", "where it was read from; kept"),
    F(Hfield, content_type, "", "media type of the file; kept"), F(Hfield, nrow, "", "points along y"),
    F(Hfield, ncol, "", "points along x"), F(Hfield, elevation, "", "heights, nrow x ncol, rows by rising y; empty: flat"),
    F(Hfield, size, "m", "half sides along x and y, elevation of a height of 1, depth of the base"),

    NAME(Visual), F(Visual, element, "", "path of the element: asset/material"),
    F(Visual, rgba, "", "of a material: its color"), F(Visual, cells, "", "of a texture built in: the two colors of its cells"),
    F(Visual, texture, "", "of a material: name of its texture"), ID(Visual, parent, Visual, "the visual element around it"),
    LIST(Visual, keys, count, "its attributes as texts, by name"),

    F(Compiler, degree, "", "angles are in degrees; else in rad"),
    F(Compiler, eulerseq, "", "axes of euler angles: three of x y z X Y Z"),
    F(Compiler, autolimits, "", "limits that are auto act where a range is given"),
    F(Compiler, boundmass, "kg", "least mass of moving bodies"),
    F(Compiler, boundinertia, "kg m^2", "least moment of moving bodies"),
    F(Compiler, settotalmass, "kg", "scale all masses to this; 0 or less: leave"),
    F(Compiler, balanceinertia, "", "moments that no body has are made alike"),
    F(Compiler, fusestatic, "", "bodies without joints become part of their parents"),
    F(Compiler, alignfree, "", "frames of free bodies are moved to their inertia"),
    F(Compiler, discardvisual, "", "geoms that are only seen are dropped"),
    F(Compiler, fitaabb, "", "shapes are fitted to a mesh's box, else to its inertia"),
    WORD(Compiler, inertiafromgeom, TRISTATE, "inertias are found from geoms; auto: where none is given"),
    WORD(Compiler, inertiarule, "refuse keep repair", "what becomes of inertias that no body has"),
    F(Compiler, inertiagrouprange, "", "groups of geoms that weigh"),
    WORD(Compiler, lengthrange_mode, "none muscle muscleuser all", "which actuators' length ranges are found"),
    F(Compiler, useexisting, "", "ranges that are given stay"),
    F(Compiler, uselimit, "", "limits of the target count as its range"),
    F(Compiler, lengthrange_accel, "m/s^2 or rad/s^2", "how hard the target is pulled"),
    F(Compiler, lengthrange_maxforce, "N or N m", "most force; 0: no bound"),
    F(Compiler, lengthrange_timeconst, "s", "time constant of velocities"), F(Compiler, lengthrange_timestep, "s", "time step"),
    F(Compiler, lengthrange_inttotal, "s", "how long it is pulled"),
    F(Compiler, lengthrange_interval, "s", "over which lengths are compared"),
    F(Compiler, lengthrange_tolrange, "", "by how much of the range they may differ"),

    F(Option, timestep, "s", "time step"), F(Option, gravity, "m/s^2", "gravity"),
    F(Option, wind, "m/s", "velocity of the fluid"), F(Option, magnetic, "", "magnetic field"),
    F(Option, density, "kg/m^3", "density of the fluid"), F(Option, viscosity, "Pa s", "viscosity of the fluid"),
    F(Option, impratio, "", "stiffness of friction over that of normals"),
    F(Option, o_margin, "m", "margin of all contacts where overridden"),
    F(Option, o_solref, "s, 1", "solref of all contacts where overridden"),
    F(Option, o_solimp, "", "solimp of all contacts where overridden"),
    F(Option, o_friction, "", "friction of all contacts where overridden"), F(Option, tolerance, "", "of the solver"),
    F(Option, ls_tolerance, "", "of its line search"), F(Option, noslip_tolerance, "", "of the slip solver"),
    WORD(Option, integrator, "Euler RK4 implicit implicitfast", "integrator"),
    WORD(Option, cone, "pyramidal elliptic", "cone of friction"), WORD(Option, solver, "PGS CG Newton", "solver"),
    F(Option, iterations, "", "most iterations of the solver"),
    F(Option, ls_iterations, "", "most iterations of its line search"),
    F(Option, noslip_iterations, "", "iterations of the slip solver"), F(Option, disableflags, "", "bits of what is off"),
    F(Option, enableflags, "", "bits of what is on"),
    F(Option, disableactuator, "", "bits of groups of actuators that are off"),

    MAYBE(Statistic, meaninertia, "kg m^2", "none: computed"), MAYBE(Statistic, meanmass, "kg", "none: computed"),
    MAYBE(Statistic, meansize, "m", "none: computed"), MAYBE(Statistic, extent, "m", "none: computed"),
    MAYBE(Statistic, center, "m", "none: computed"),

    F(Sizes, nkey, "", "least number of keyframes"), F(Sizes, nuserdata, "", "numbers of the user's own in the data"),
    F(Sizes, nuser_body, "", "numbers a body; -1: as used"), F(Sizes, nuser_jnt, "", "numbers a joint; -1: as used"),
    F(Sizes, nuser_geom, "", "numbers a geom; -1: as used"), F(Sizes, nuser_site, "", "numbers a site; -1: as used"),
    F(Sizes, nuser_cam, "", "numbers a camera; -1: as used"), F(Sizes, nuser_tendon, "", "numbers a tendon; -1: as used"),
    F(Sizes, nuser_actuator, "", "numbers an actuator; -1: as used"),
    F(Sizes, nuser_sensor, "", "numbers a sensor; -1: as used"),

    F(Whole, model_name, "", "the model's name"), F(Whole, folder, "", "of the file that it was read from"),
    F(Whole, surfaces, "", "the model keeps what its meshes look like"),
    F(Whole, design, "", "masses and frames follow the parameters of meshes"),

    WORD(Wrap, type, "joint=1 pulley=2 site=3 geom=4", "what the station is"),
    F(Wrap, target, "", "name of a joint, a site or a geom"),
    F(Wrap, sidesite, "", "of a geom: the site by which the path goes"),
    F(Wrap, value, "", "coefficient of a joint, divisor of a pulley"),

    WORD(Entry, objtype, OBJECTS, "kind of the object"), F(Entry, objname, "", "its name"),
    F(Entry, prm, "", "a number with it"),
};
// clang-format on

// Records by kind: names, size, and of elements where the spec has their list and its length.
static const struct {
  const char *name, *list;
  size_t size;
} kinds[] = {
#define X(Kind, member, count) [pb_spec##Kind] = {NULL, #member, sizeof(pb##Kind##Def)},
    PB_SPEC_LISTS(X)
#undef X
#define X(Kind, lower) [pb_spec##Kind] = {lower, "", sizeof(pb##Kind##Def)}
        X(Compiler, "compiler"),
    X(Option, "option"),
    X(Statistic, "statistic"),
    X(Sizes, "size"),
    X(Whole, "spec"),
    X(Wrap, "wrap"),
    X(Entry, "entry"),
#undef X
};
_Static_assert(sizeof kinds / sizeof *kinds == pb_specKinds, "a row for each kind");

static const char *const element_names[] = {"frame",   "body",    "joint",    "geom",   "site",     "camera", "light",
                                            "pair",    "exclude", "equality", "tendon", "actuator", "sensor", "key",
                                            "numeric", "text",    "tuple",    "mesh",   "hfield",   "visual"};
_Static_assert(sizeof element_names / sizeof *element_names == pb_specElements, "a name for each kind of element");

const char *pbSpecKind_Name(pbSpecKind kind) {
  PB_ASSERT(kind < pb_specKinds);
  return kind < pb_specElements ? element_names[kind] : kinds[kind].name;
}
const char *pbSpecKind_List(pbSpecKind kind) { return kinds[kind].list; }
size_t pbSpecKind_Size(pbSpecKind kind) {
  PB_ASSERT(kind < pb_specKinds);
  return kinds[kind].size;
}

bool pbSpecKind_Field(pbSpecKind kind, int index, pbSpecField *field) {
  PB_ASSERT(kind < pb_specKinds);
  const size_t rows = sizeof table / sizeof *table;
  size_t first = 0;
  while (first < rows && table[first].kind != kind) first++;

  size_t at = first + (size_t)index;
  if (index < 0 || at >= rows || table[at].kind != kind) return false;
  *field = table[at].field;
  return true;
}

void pbSpecKind_Default(pbSpecKind kind, void *record) {
  memset(record, 0, pbSpecKind_Size(kind));
  switch (kind) {
#define X(Kind, member, count) \
  case pb_spec##Kind: *(pb##Kind##Def *)record = pb##Kind##Def_Default(); break;
    PB_SPEC_LISTS(X)
#undef X
    case pb_specWrap: *(pbWrap *)record = (pbWrap){.type = pb_wrapJoint, .target = "", .sidesite = ""}; break;
    case pb_specEntry: *(pbTupleEntry *)record = (pbTupleEntry){.objname = ""}; break;
    default: break;
  }
}
