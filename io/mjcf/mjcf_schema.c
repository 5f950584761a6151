// The table of MJCF. Groups of attributes that several elements share are macros of the element's path p.
// Tests: tests/oracle/test_schema.py.
#include "io/mjcf/mjcf_schema.h"

#include <pullback/equalities.h>
#include <pullback/sensors.h>
#include <pullback/spec.h>

// Tables, by column.
// clang-format off
#define AT(Type, member) (unsigned short)offsetof(Type, member)
#define NOWHERE pb_mjcfNowhere

// ---- rows -------------------------------------------------------------------------------------------------------------
// elements: supported, may stand only once, without effect, refused
#define E(p) {p, NULL, pb_mjcfSupported, 0, NULL, NULL, 0, 0, 0, NOWHERE, 0}
#define E1(p) {p, NULL, pb_mjcfSupported, 1, NULL, NULL, 0, 0, 0, NOWHERE, 0}
#define VISUAL(p) {p, NULL, pb_mjcfNoEffect, 0, NULL, NULL, 0, 0, 0, NOWHERE, 0}
#define VISUAL1(p) {p, NULL, pb_mjcfNoEffect, 1, NULL, NULL, 0, 0, 0, NOWHERE, 0}
#define REFUSED(p) {p, NULL, pb_mjcfRefused, 0, NULL, NULL, 0, 0, 0, NOWHERE, 0}
// attributes that act
#define NUM(p, a, lo, hi, T, m) {p, a, pb_mjcfSupported, 0, NULL, NULL, 'd', lo, hi, AT(T, m), 0}
#define INT(p, a, lo, hi, T, m) {p, a, pb_mjcfSupported, 0, NULL, NULL, 'i', lo, hi, AT(T, m), 0}
#define TXT(p, a, T, m) {p, a, pb_mjcfSupported, 0, NULL, NULL, 't', 0, 0, AT(T, m), 0}
#define TXT_(p, a, T, m) {p, a, pb_mjcfSupported, 1, NULL, NULL, 't', 0, 0, AT(T, m), 0}  // required
#define VEC(p, a, T, m) {p, a, pb_mjcfSupported, 0, NULL, NULL, 'v', 0, 0, AT(T, m), 0}
#define KEY(p, a, w, T, m) {p, a, pb_mjcfSupported, 0, w, NULL, 'k', 1, 1, AT(T, m), 0}
#define YES(p, a, T, m) {p, a, pb_mjcfSupported, 0, "false true", NULL, 'b', 1, 1, AT(T, m), 0}
#define NAME(p) {p, "name", pb_mjcfSupported, 0, NULL, NULL, 'n', 0, 0, NOWHERE, 0}
#define NAME_(p) {p, "name", pb_mjcfSupported, 1, NULL, NULL, 'n', 0, 0, NOWHERE, 0}
#define CLASS(p, a) {p, a, pb_mjcfSupported, 0, NULL, NULL, 'c', 0, 0, NOWHERE, 0}
#define FLAG(a, type, member, bit) \
  {"option/flag", a, pb_mjcfSupported, 0, "disable enable", NULL, type, 1, 1, AT(pbOptionSettings, member), bit}
#define DIS(a, bit) FLAG(a, 'f', disableflags, bit)
#define EN(a, bit) FLAG(a, 'e', enableflags, bit)
// attributes that act, their values taken up by code
#define NUMX(p, a, lo, hi) {p, a, pb_mjcfSupported, 0, NULL, NULL, 'd', lo, hi, NOWHERE, 0}
#define NUMX_(p, a, lo, hi) {p, a, pb_mjcfSupported, 1, NULL, NULL, 'd', lo, hi, NOWHERE, 0}
#define TXTX(p, a) {p, a, pb_mjcfSupported, 0, NULL, NULL, 'a', 0, 0, NOWHERE, 0}
#define TXTX_(p, a) {p, a, pb_mjcfSupported, 1, NULL, NULL, 'a', 0, 0, NOWHERE, 0}
#define KEYX(p, a, w) {p, a, pb_mjcfSupported, 0, w, NULL, 'k', 1, 1, NOWHERE, 0}
// attributes without effect: numbers, integers, keywords, text, any count of numbers
#define NUM0(p, a, lo, hi) {p, a, pb_mjcfNoEffect, 0, NULL, NULL, 'd', lo, hi, NOWHERE, 0}
#define INT0(p, a, lo, hi) {p, a, pb_mjcfNoEffect, 0, NULL, NULL, 'i', lo, hi, NOWHERE, 0}
#define KEY0(p, a, w) {p, a, pb_mjcfNoEffect, 0, w, NULL, 'k', 1, 1, NOWHERE, 0}
#define TXT0(p, a) {p, a, pb_mjcfNoEffect, 0, NULL, NULL, 'a', 0, 0, NOWHERE, 0}
#define VEC0(p, a) {p, a, pb_mjcfNoEffect, 0, NULL, NULL, 'r', 0, 0, NOWHERE, 0}
// the same, stored in the spec
#define NUMK(p, a, lo, hi, T, m) {p, a, pb_mjcfNoEffect, 0, NULL, NULL, 'd', lo, hi, AT(T, m), 0}
#define INTK(p, a, lo, hi, T, m) {p, a, pb_mjcfNoEffect, 0, NULL, NULL, 'i', lo, hi, AT(T, m), 0}
#define TXTK(p, a, T, m) {p, a, pb_mjcfNoEffect, 0, NULL, NULL, 't', 0, 0, AT(T, m), 0}
#define YESK(p, a, T, m) {p, a, pb_mjcfNoEffect, 0, "false true", NULL, 'b', 1, 1, AT(T, m), 0}
#define KEYK(p, a, w, T, m) {p, a, pb_mjcfNoEffect, 0, w, NULL, 'k', 1, 1, AT(T, m), 0}
// attributes that are refused: always, or unless the value is the neutral one
#define NO(p, a) {p, a, pb_mjcfRefused, 0, NULL, NULL, 'a', 0, 0, NOWHERE, 0}
#define NO_(p, a, neutral) {p, a, pb_mjcfRefused, 0, NULL, neutral, 'a', 0, 0, NOWHERE, 0}

#define BOOLEAN "false true"
#define TRISTATE "false true auto"

// ---- groups of attributes -----------------------------------------------------------------------------------------------
#define QUAT(p, T, m) {p, "quat", pb_mjcfSupported, 0, NULL, NULL, 'q', 4, 4, AT(T, m.quat), 0}
#define ALT(p, a, n, T, m, kind) {p, a, pb_mjcfSupported, 0, NULL, NULL, 'o', n, n, AT(T, m), kind}
#define ORIENTATION(p, T, m)                                                                                       \
  QUAT(p, T, m), ALT(p, "axisangle", 4, T, m, pb_altAxisangle), ALT(p, "xyaxes", 6, T, m, pb_altXyaxes),           \
      ALT(p, "zaxis", 3, T, m, pb_altZaxis), ALT(p, "euler", 3, T, m, pb_altEuler)
#define POSE(p, T) NUM(p, "pos", 3, 3, T, pose.pos), ORIENTATION(p, T, pose)
#define SOLVER(p, T) NUM(p, "solref", 1, 2, T, solref), NUM(p, "solimp", 1, 5, T, solimp)
#define ROW_SOLVERS(p, T)                                                                                        \
  NUM(p, "solreflimit", 1, 2, T, solref_limit), NUM(p, "solimplimit", 1, 5, T, solimp_limit),                      \
      NUM(p, "solreffriction", 1, 2, T, solref_friction), NUM(p, "solimpfriction", 1, 5, T, solimp_friction)

#define JOINT(p)                                                                                                 \
  KEY(p, "type", "free ball slide hinge", pbJointDef, type), INT(p, "group", 1, 1, pbJointDef, group),             \
      NUM(p, "pos", 3, 3, pbJointDef, pos), NUM(p, "axis", 3, 3, pbJointDef, axis),                                \
      NUM(p, "springdamper", 2, 2, pbJointDef, springdamper), KEY(p, "limited", TRISTATE, pbJointDef, limited),    \
      KEY(p, "actuatorfrclimited", TRISTATE, pbJointDef, actfrclimited), ROW_SOLVERS(p, pbJointDef),               \
      NUM(p, "stiffness", 1, 3, pbJointDef, stiffness), NUM(p, "range", 2, 2, pbJointDef, range),                  \
      NUM(p, "actuatorfrcrange", 2, 2, pbJointDef, actfrcrange), YES(p, "actuatorgravcomp", pbJointDef, actgravcomp), \
      NUM(p, "margin", 1, 1, pbJointDef, margin), NUM(p, "ref", 1, 1, pbJointDef, ref),                            \
      NUM(p, "springref", 1, 1, pbJointDef, springref), NO_(p, "springyield", "0"),                                \
      NUM(p, "armature", 1, 1, pbJointDef, armature), NUM(p, "damping", 1, 3, pbJointDef, damping),                \
      NUM(p, "frictionloss", 1, 1, pbJointDef, frictionloss), VEC(p, "user", pbJointDef, user)

#define MESH(p)                                                                                                  \
  NUM(p, "scale", 3, 3, pbMeshDef, scale), INT(p, "maxhullvert", 1, 1, pbMeshDef, maxhullvert),                    \
      KEY(p, "inertia", "convex exact legacy shell", pbMeshDef, inertia)
#define GEOM(p)                                                                                                  \
  KEY(p, "type", "plane hfield sphere capsule ellipsoid cylinder box mesh !sdf", pbGeomDef, type),                 \
      INT(p, "contype", 1, 1, pbGeomDef, contype), INT(p, "conaffinity", 1, 1, pbGeomDef, conaffinity),            \
      INT(p, "condim", 1, 1, pbGeomDef, condim), INT(p, "group", 1, 1, pbGeomDef, group),                          \
      INT(p, "priority", 1, 1, pbGeomDef, priority), NUM(p, "size", 1, 3, pbGeomDef, size),                        \
      TXTK(p, "material", pbGeomDef, material), NUM(p, "friction", 1, 3, pbGeomDef, friction),                     \
      NUM(p, "mass", 1, 1, pbGeomDef, mass), NUM(p, "density", 1, 1, pbGeomDef, density),                          \
      YES(p, "shellinertia", pbGeomDef, shell), NUM(p, "solmix", 1, 1, pbGeomDef, solmix), SOLVER(p, pbGeomDef),   \
      NUM(p, "margin", 1, 1, pbGeomDef, margin), NUM(p, "gap", 1, 1, pbGeomDef, gap),                              \
      NO_(p, "surfacevel", "0 0 0 0 0 0"), NO_(p, "adhesion", "0"), NUM(p, "fromto", 6, 6, pbGeomDef, fromto),     \
      POSE(p, pbGeomDef), TXTK(p, "hfield", pbGeomDef, hfield), TXTK(p, "mesh", pbGeomDef, mesh),                  \
      NUMK(p, "fitscale", 1, 1, pbGeomDef, fitscale), NUMK(p, "rgba", 4, 4, pbGeomDef, rgba),                      \
      KEY0(p, "castshadow", BOOLEAN), KEYX(p, "fluidshape", "none ellipsoid"),                                     \
      NUM(p, "fluidcoef", 1, 5, pbGeomDef, fluid_coef), VEC(p, "user", pbGeomDef, user)

#define SITE(p)                                                                                                  \
  KEY(p, "type", "sphere=2 capsule=3 ellipsoid=4 cylinder=5 box=6 !mesh=7", pbSiteDef, type),                      \
      INT(p, "group", 1, 1, pbSiteDef, group), POSE(p, pbSiteDef), TXTK(p, "material", pbSiteDef, material),       \
      NO(p, "mesh"), NUM(p, "size", 1, 3, pbSiteDef, size), NUM(p, "fromto", 6, 6, pbSiteDef, fromto),             \
      NUMK(p, "rgba", 4, 4, pbSiteDef, rgba), VEC(p, "user", pbSiteDef, user)

#define CAMERA_MODES "fixed track trackcom targetbody targetbodycom"
#define CAMERA(p)                                                                                                \
  {p, "projection", pb_mjcfNoEffect, 0, "perspective orthographic", NULL, 'b', 1, 1, AT(pbCameraDef, orthographic), 0}, \
  NUMK(p, "fovy", 1, 1, pbCameraDef, fovy), \
      NUMK(p, "ipd", 1, 1, pbCameraDef, ipd), INTK(p, "resolution", 2, 2, pbCameraDef, resolution), TXT0(p, "output"), \
      POSE(p, pbCameraDef), KEYK(p, "mode", CAMERA_MODES, pbCameraDef, mode),                                      \
      NUMK(p, "focal", 2, 2, pbCameraDef, focal), NUMK(p, "focalpixel", 2, 2, pbCameraDef, focalpixel),            \
      NUMK(p, "principal", 2, 2, pbCameraDef, principal), NUMK(p, "principalpixel", 2, 2, pbCameraDef, principalpixel), \
      NUMK(p, "sensorsize", 2, 2, pbCameraDef, sensorsize), VEC(p, "user", pbCameraDef, user)

#define LIGHT(p)                                                                                                 \
  YESK(p, "directional", pbLightDef, directional), KEY0(p, "type", "spot directional point image"),                \
      YESK(p, "castshadow", pbLightDef, castshadow), YESK(p, "active", pbLightDef, active),                        \
      NUMK(p, "pos", 3, 3, pbLightDef, pos), NUMK(p, "dir", 3, 3, pbLightDef, dir), NUM0(p, "bulbradius", 1, 1),   \
      NUM0(p, "intensity", 1, 1), NUM0(p, "range", 1, 1), NUMK(p, "attenuation", 3, 3, pbLightDef, attenuation),   \
      NUMK(p, "cutoff", 1, 1, pbLightDef, cutoff), NUM0(p, "softness", 1, 1), NUMK(p, "exponent", 1, 1, pbLightDef, exponent), \
      NUMK(p, "ambient", 3, 3, pbLightDef, ambient), NUMK(p, "diffuse", 3, 3, pbLightDef, diffuse),                \
      NUMK(p, "specular", 3, 3, pbLightDef, specular), KEYK(p, "mode", CAMERA_MODES, pbLightDef, mode)

#define PAIR(p)                                                                                                  \
  INT(p, "condim", 1, 1, pbPairDef, condim), NUM(p, "friction", 1, 5, pbPairDef, friction), SOLVER(p, pbPairDef),  \
      NUM(p, "solreffriction", 1, 2, pbPairDef, solreffriction), NUM(p, "gap", 1, 1, pbPairDef, gap),              \
      NUM(p, "margin", 1, 1, pbPairDef, margin), NO_(p, "adhesion", "0")

#define EQUALITY(p) YES(p, "active", pbEqualityDef, active), SOLVER(p, pbEqualityDef)
// By what an equality is of (model/equality.h).
#define EQUALITY_NAMED(p) E(p), NAME(p), CLASS(p, "class"), EQUALITY(p)
#define EQUALITY_Points(p)                                                                                       \
  EQUALITY_NAMED(p), TXTX(p, "body1"), TXTX(p, "body2"), NUM(p, "anchor", 3, 3, pbEqualityDef, anchor), TXTX(p, "site1"), \
      TXTX(p, "site2")
#define EQUALITY_Poses(p)                                                                                        \
  EQUALITY_Points(p), NUM(p, "relpose", 7, 7, pbEqualityDef, relpose), NUM(p, "torquescale", 1, 1, pbEqualityDef, torquescale)
#define EQUALITY_COUPLED(p, first, second)                                                                        \
  EQUALITY_NAMED(p), TXT_(p, first, pbEqualityDef, name1), TXT(p, second, pbEqualityDef, name2), \
      NUM(p, "polycoef", 1, 5, pbEqualityDef, polycoef)
#define EQUALITY_Joints(p) EQUALITY_COUPLED(p, "joint1", "joint2")
#define EQUALITY_Tendons(p) EQUALITY_COUPLED(p, "tendon1", "tendon2")

#define TENDON(p)                                                                                                \
  INT(p, "group", 1, 1, pbTendonDef, group), KEY(p, "limited", TRISTATE, pbTendonDef, limited),                    \
      KEY(p, "actuatorfrclimited", TRISTATE, pbTendonDef, actfrclimited), NUM(p, "range", 2, 2, pbTendonDef, range), \
      NUM(p, "actuatorfrcrange", 2, 2, pbTendonDef, actfrcrange), ROW_SOLVERS(p, pbTendonDef),                     \
      NUM(p, "frictionloss", 1, 1, pbTendonDef, frictionloss), NUMX(p, "springlength", 1, 2), NO_(p, "springyield", "0"), \
      NUM(p, "margin", 1, 1, pbTendonDef, margin), NUM(p, "stiffness", 1, 3, pbTendonDef, stiffness),              \
      NUM(p, "damping", 1, 3, pbTendonDef, damping), NUM(p, "armature", 1, 1, pbTendonDef, armature),              \
      VEC(p, "user", pbTendonDef, user)
#define TENDON_SEEN(p)                                                                                           \
  NUMK(p, "width", 1, 1, pbTendonDef, width), TXTK(p, "material", pbTendonDef, material), NUMK(p, "rgba", 4, 4, pbTendonDef, rgba)

// Samples of a control or of what a sensor measured, and how late they act or are told.
#define HISTORY(p, T)                                                                                            \
  INT(p, "nsample", 1, 1, T, nsample), KEY(p, "interp", "zoh linear cubic", T, interp), NUM(p, "delay", 1, 1, T, delay)
// What all actuators have.
#define ACTUATOR(p)                                                                                              \
  INT(p, "group", 1, 1, pbActuatorDef, group), HISTORY(p, pbActuatorDef),                                          \
      NUM(p, "ctrlrange", 2, 2, pbActuatorDef, ctrlrange), VEC(p, "user", pbActuatorDef, user),                    \
      KEY(p, "forcelimited", TRISTATE, pbActuatorDef, forcelimited), NUM(p, "forcerange", 2, 2, pbActuatorDef, forcerange), \
      NUM(p, "gear", 1, 6, pbActuatorDef, gear), NUM(p, "damping", 1, 3, pbActuatorDef, damping),                  \
      NUM(p, "armature", 1, 1, pbActuatorDef, armature), NUM(p, "cranklength", 1, 1, pbActuatorDef, cranklength)
#define CTRL_LIMITED(p) KEY(p, "ctrllimited", TRISTATE, pbActuatorDef, ctrllimited)
#define ACT_LIMITED(p)                                                                                           \
  KEY(p, "actlimited", TRISTATE, pbActuatorDef, actlimited), NUM(p, "actrange", 2, 2, pbActuatorDef, actrange)
#define TARGET(p)                                                                                                \
  NAME(p), CLASS(p, "class"), NUM(p, "lengthrange", 2, 2, pbActuatorDef, lengthrange), TXTX(p, "joint"),           \
      TXTX(p, "jointinparent"), TXTX(p, "tendon"), TXT(p, "slidersite", pbActuatorDef, refsite), TXTX(p, "cranksite")
#define TRANSMISSION(p) TARGET(p), TXTX(p, "site"), TXT(p, "refsite", pbActuatorDef, refsite)
// With a fixed or affine gain the input is only a label.
#define INPUT(p) {p, "input", pb_mjcfNoEffect, 0, "pos vel pressure voltage !expmap !quat !ff !none", "", 'k', 1, 1, NOWHERE, 0}
#define WORD(name, value, word, law) " " word "=" #value
#define GENERAL(p)                                                                                               \
  ACTUATOR(p), CTRL_LIMITED(p), ACT_LIMITED(p), INT(p, "actdim", 1, 1, pbActuatorDef, actdim), INPUT(p),           \
      NO_(p, "velrange", "0 0"), NO_(p, "ffrange", "0 0"), NUM(p, "inheritrange", 1, 1, pbActuatorDef, inheritrange), \
      KEY(p, "dyntype", "none=0" PB_DYNAMICS_KINDS(WORD) " !pid !user", pbActuatorDef, dyntype), \
      KEY(p, "gaintype", PB_GAINS(WORD) " !so3 !pid !user", pbActuatorDef, gaintype),                \
      KEY(p, "biastype", "none=0" PB_BIASES(WORD) " !so3 !user", pbActuatorDef, biastype),                      \
      NUM(p, "dynprm", 1, 10, pbActuatorDef, dynprm), NUM(p, "gainprm", 1, 10, pbActuatorDef, gainprm),            \
      NUM(p, "biasprm", 1, 10, pbActuatorDef, biasprm), YES(p, "actearly", pbActuatorDef, actearly)
#define ADHESION(p)                                                                                              \
  INT(p, "group", 1, 1, pbActuatorDef, group), HISTORY(p, pbActuatorDef),                                          \
      NUM(p, "ctrlrange", 2, 2, pbActuatorDef, ctrlrange), VEC(p, "user", pbActuatorDef, user),                    \
      KEY(p, "forcelimited", TRISTATE, pbActuatorDef, forcelimited), NUM(p, "forcerange", 2, 2, pbActuatorDef, forcerange), \
      NUMX(p, "gain", 1, 1)
#define SERVO(p) NUMX(p, "kp", 1, 1), NUMX(p, "kv", 1, 1), NUMX(p, "dampratio", 1, 1), NUMX(p, "inheritrange", 1, 1)
#define POSITION(p) ACTUATOR(p), CTRL_LIMITED(p), SERVO(p), NUMX(p, "timeconst", 1, 1)
#define VELOCITY(p) ACTUATOR(p), CTRL_LIMITED(p), NUMX(p, "kv", 1, 1)
#define INTVELOCITY(p) ACTUATOR(p), CTRL_LIMITED(p), ACT_LIMITED(p), SERVO(p)
#define DAMPER(p) ACTUATOR(p), NUMX(p, "kv", 1, 1)
#define CYLINDER(p)                                                                                              \
  ACTUATOR(p), CTRL_LIMITED(p), NUMX(p, "timeconst", 1, 1), NUMX(p, "area", 1, 1), NUMX(p, "diameter", 1, 1), \
  NUMX(p, "bias", 3, 3)
#define MUSCLE(p)                                                                                                \
  ACTUATOR(p), CTRL_LIMITED(p), NUMX(p, "timeconst", 2, 2), NUMX(p, "range", 2, 2), NUMX(p, "force", 1, 1),        \
      NUMX(p, "scale", 1, 1), NUMX(p, "lmin", 1, 1), NUMX(p, "lmax", 1, 1), NUMX(p, "vmax", 1, 1),                 \
      NUMX(p, "fpmax", 1, 1), NUMX(p, "fvmax", 1, 1)
#define DCMOTOR(p)                                                                                               \
  INT(p, "group", 1, 1, pbActuatorDef, group), HISTORY(p, pbActuatorDef),                                          \
      NUM(p, "ctrlrange", 2, 2, pbActuatorDef, ctrlrange), VEC(p, "user", pbActuatorDef, user),                    \
      NUM(p, "gear", 1, 6, pbActuatorDef, gear), NUM(p, "damping", 1, 3, pbActuatorDef, damping),                  \
      NUM(p, "armature", 1, 1, pbActuatorDef, armature), NUM(p, "cranklength", 1, 1, pbActuatorDef, cranklength),  \
      CTRL_LIMITED(p), NUMX(p, "motorconst", 1, 2), NUMX(p, "resistance", 1, 1), NUMX(p, "nominal", 1, 3),         \
      NUMX(p, "saturation", 1, 3), NUMX(p, "inductance", 1, 2), NUMX(p, "cogging", 1, 3), NO_(p, "controller", "0 0 0 0 0 0"), \
      NUMX(p, "thermal", 1, 6), NUMX(p, "lugre", 1, 5),                                                                  \
      {p, "input", pb_mjcfNoEffect, 0, "voltage !pos !vel !ff !none", "", 'k', 1, 1, NOWHERE, 0}

// Refused actuators
#define GONE_ACT(p)                                                                                              \
  NO(p, "group"), NO(p, "nsample"), NO(p, "interp"), NO(p, "delay"), NO(p, "ctrlrange"), NO(p, "user"), NO(p, "forcelimited"), \
      NO(p, "forcerange")
#define GONE_DRIVE(p) NO(p, "gear"), NO(p, "damping"), NO(p, "armature"), NO(p, "cranklength")
#define GONE_NAMED(p) NO(p, "name"), NO(p, "class")
#define GONE_TARGET(p)                                                                                           \
  NO(p, "lengthrange"), NO(p, "joint"), NO(p, "jointinparent"), NO(p, "tendon"), NO(p, "slidersite"), NO(p, "cranksite")
#define GONE_SITES(p) NO(p, "site"), NO(p, "refsite")
#define GONE_ORIENTATION(p) GONE_ACT(p), NO(p, "kp"), NO(p, "kv"), NO(p, "dampratio"), NO(p, "input")
#define GONE_PID(p)                                                                                              \
  GONE_ACT(p), GONE_DRIVE(p), NO(p, "ctrllimited"), NO(p, "posrange"), NO(p, "velrange"), NO(p, "ffrange"), \
  NO(p, "inheritrange"), \
      NO(p, "kp"), NO(p, "kv"), NO(p, "dampratio"), NO(p, "ki"), NO(p, "imax"), NO(p, "slewmax"), NO(p, "input")
#define SENSOR(p)                                                                                                \
  E("sensor/" p), NAME("sensor/" p), HISTORY("sensor/" p, pbSensorDef),                                          \
      NUM("sensor/" p, "interval", 1, 2, pbSensorDef, interval), NUM("sensor/" p, "cutoff", 1, 1, pbSensorDef, cutoff), \
      NUM("sensor/" p, "noise", 1, 1, pbSensorDef, noise), VEC("sensor/" p, "user", pbSensorDef, user)
// By what a sensor is of (model/sensor.h).
#define SENSOR_NAMES(p, what) SENSOR(p), TXT_("sensor/" p, what, pbSensorDef, objname)
#define SENSOR_Site(p) SENSOR_NAMES(p, "site")
#define SENSOR_SiteInCamera(p) SENSOR_Site(p), TXT_("sensor/" p, "camera", pbSensorDef, refname)
#define SENSOR_ScalarJoint(p) SENSOR_NAMES(p, "joint")
#define SENSOR_BallJoint(p) SENSOR_NAMES(p, "joint")
#define SENSOR_LimitedJoint(p) SENSOR_NAMES(p, "joint")
#define SENSOR_Tendon(p) SENSOR_NAMES(p, "tendon")
#define SENSOR_LimitedTendon(p) SENSOR_NAMES(p, "tendon")
#define SENSOR_Actuator(p) SENSOR_NAMES(p, "actuator")
#define SENSOR_Body(p) SENSOR_NAMES(p, "body")
#define FRAME_TYPES "body=1 xbody=2 geom=5 site=6 camera=7"
#define SENSOR_Frame(p)                                                                                          \
  SENSOR(p), {"sensor/" p, "objtype", pb_mjcfSupported, 1, FRAME_TYPES, NULL, 'k', 1, 1, AT(pbSensorDef, objtype), 0}, \
      TXT_("sensor/" p, "objname", pbSensorDef, objname)
#define SENSOR_FrameInFrame(p)                                                                                   \
  SENSOR_Frame(p), KEY("sensor/" p, "reftype", FRAME_TYPES, pbSensorDef, reftype), \
  TXT("sensor/" p, "refname", pbSensorDef, refname)
#define SENSOR_FrameInSite(p) SENSOR_Frame(p), TXT_("sensor/" p, "site", pbSensorDef, refname), NO("sensor/" p, "enclosed")
#define SENSOR_Shapes(p)                                                                                         \
  SENSOR(p), TXT("sensor/" p, "geom1", pbSensorDef, objname), TXT("sensor/" p, "body1", pbSensorDef, objname), \
      TXT("sensor/" p, "geom2", pbSensorDef, refname), TXT("sensor/" p, "body2", pbSensorDef, refname)
#define SENSOR_Ray(p)                                                                                            \
  SENSOR(p), TXT("sensor/" p, "site", pbSensorDef, objname), TXT("sensor/" p, "camera", pbSensorDef, objname), \
      TXTX("sensor/" p, "data")
#define SENSOR_Contact(p)                                                                                        \
  SENSOR_Shapes(p), TXT("sensor/" p, "subtree1", pbSensorDef, objname), TXT("sensor/" p, "subtree2", pbSensorDef, refname), \
      TXT("sensor/" p, "site", pbSensorDef, objname), INT("sensor/" p, "num", 1, 1, pbSensorDef, num), \
      TXTX("sensor/" p, "data"), KEY("sensor/" p, "reduce", "none mindist maxforce netforce", pbSensorDef, reduce)
#define SENSOR_Nothing(p) SENSOR(p)

#define PLUGIN(p)                                                                                                \
  REFUSED(p "plugin"), NO(p "plugin", "plugin"), NO(p "plugin", "instance"), REFUSED(p "plugin/config"), \
  NO(p "plugin/config", "key"), \
      NO(p "plugin/config", "value")
#define FLEX_CONTACT(p)                                                                                          \
  REFUSED(p), NO(p, "contype"), NO(p, "conaffinity"), NO(p, "condim"), NO(p, "priority"), NO(p, "friction"), NO(p, "solmix"), \
      NO(p, "solref"), NO(p, "solimp"), NO(p, "margin"), NO(p, "gap"), NO(p, "selfcollide"), NO(p, "activelayers"), \
      NO(p, "passive")
#define FLEX_ELASTICITY(p)                                                                                       \
  REFUSED(p), NO(p, "young"), NO(p, "poisson"), NO(p, "shear"), NO(p, "damping"), NO(p, "thickness"), NO(p, "yield"), \
      NO(p, "elastic2d"), NO(p, "section"), NO(p, "sectionsize")
#define SKIN(p)                                                                                                  \
  VISUAL(p), TXT0(p, "name"), TXT0(p, "file"), TXT0(p, "material"), NUM0(p, "rgba", 4, 4), NUM0(p, "inflate", 1, 1), \
      VEC0(p, "vertex"), VEC0(p, "texcoord"), VEC0(p, "face"), INT0(p, "group", 1, 1), VISUAL(p "/bone"),            \
      TXT0(p "/bone", "body"), NUM0(p "/bone", "bindpos", 3, 3), NUM0(p "/bone", "bindquat", 4, 4),                \
      VEC0(p "/bone", "vertid"), VEC0(p "/bone", "vertweight")
#define TEXTURE(p)                                                                                               \
  KEY0(p, "type", "2d cube skybox"), KEY0(p, "colorspace", "auto linear sRGB"), INT0(p, "gridsize", 2, 2), \
  TXT0(p, "gridlayout"), \
      KEY0(p, "builtin", "none gradient checker flat"), NUM0(p, "rgb1", 3, 3), NUM0(p, "rgb2", 3, 3),              \
      KEY0(p, "mark", "none edge cross random"), NUM0(p, "markrgb", 3, 3), NUM0(p, "random", 1, 1), INT0(p, "width", 1, 1), \
      INT0(p, "height", 1, 1), KEY0(p, "hflip", BOOLEAN), KEY0(p, "vflip", BOOLEAN), INT0(p, "nchannel", 1, 1),    \
      KEY0(p, "embed", TRISTATE)
#define MATERIAL(p)                                                                                              \
  TXT0(p, "texture"), NUM0(p, "texrepeat", 2, 2), KEY0(p, "texuniform", BOOLEAN), NUM0(p, "emission", 1, 1),       \
      NUM0(p, "specular", 1, 1), NUM0(p, "shininess", 1, 1), NUM0(p, "reflectance", 1, 1), NUM0(p, "metallic", 1, 1), \
      NUM0(p, "roughness", 1, 1), NUM0(p, "rgba", 4, 4), VISUAL(p "/layer"), TXT0(p "/layer", "texture"), TXT0(p "/layer", "role")
#define COLOR(a) NUM0("visual/rgba", a, 4, 4)
#define SCALE(a) NUM0("visual/scale", a, 1, 1)
#define MAP(a) NUM0("visual/map", a, 1, 1)

#define OPT(a, lo, hi, m) NUM("option", a, lo, hi, pbOptionSettings, m)
#define CMP(a, m) YES("compiler", a, pbCompilerSettings, m)
#define RANGE(a, m) NUM("compiler/lengthrange", a, 1, 1, pbCompilerSettings, m)
#define SIZE(m) INT("size", #m, 1, 1, pbSizeSettings, m)

// ---- the table ----------------------------------------------------------------------------------------------------------
static const pbMjcfRow table[] = {
    E("mujoco"), TXTX("mujoco", "model"),

    E("option"), OPT("timestep", 1, 1, timestep), OPT("impratio", 1, 1, impratio), OPT("tolerance", 1, 1, tolerance),
    OPT("ls_tolerance", 1, 1, ls_tolerance), OPT("noslip_tolerance", 1, 1, noslip_tolerance),
    NUM0("option", "ccd_tolerance", 1, 1),
    NUM0("option", "sleep_tolerance", 1, 1), OPT("gravity", 3, 3, gravity), OPT("wind", 3, 3, wind),
    OPT("magnetic", 3, 3, magnetic), OPT("density", 1, 1, density), OPT("viscosity", 1, 1, viscosity),
    OPT("o_margin", 1, 1, o_margin), OPT("o_solref", 1, 2, o_solref), OPT("o_solimp", 1, 5, o_solimp),
    OPT("o_friction", 1, 5, o_friction),
    KEY("option", "integrator", "Euler RK4 !implicit implicitfast !discrete", pbOptionSettings, integrator),
    KEY("option", "cone", "pyramidal elliptic", pbOptionSettings, cone), KEY0("option", "jacobian", "dense sparse auto"),
    KEY("option", "solver", "PGS CG Newton", pbOptionSettings, solver),
    INT("option", "iterations", 1, 1, pbOptionSettings, iterations),
    INT("option", "ls_iterations", 1, 1, pbOptionSettings, ls_iterations), 
    INT("option", "noslip_iterations", 1, 1, pbOptionSettings, noslip_iterations),
    INT0("option", "ccd_iterations", 1, 1), INT0("option", "sdf_iterations", 1, 1), INT0("option", "sdf_initpoints", 1, 1),
    NUMX("option", "actuatorgroupdisable", 1, 31),

    E1("option/flag"), DIS("constraint", pb_disConstraint), DIS("equality", pb_disEquality),
    DIS("frictionloss", pb_disFrictionloss),
    DIS("limit", pb_disLimit), DIS("contact", pb_disContact), DIS("spring", pb_disSpring), DIS("damper", pb_disDamper),
    DIS("gravity", pb_disGravity), DIS("clampctrl", pb_disClampctrl), DIS("warmstart", pb_disWarmstart),
    DIS("filterparent", pb_disFilterparent), DIS("actuation", pb_disActuation), DIS("refsafe", pb_disRefsafe),
    DIS("sensor", pb_disSensor), DIS("midphase", pb_disMidphase), DIS("eulerdamp", pb_disEulerdamp),
    DIS("autoreset", pb_disAutoreset), DIS("nativeccd", pb_disNativeccd), DIS("island", pb_disIsland),
    DIS("multiccd", pb_disMulticcd), EN("override", pb_enOverride), EN("energy", pb_enEnergy), EN("fwdinv", pb_enFwdinv),
    EN("invdiscrete", pb_enInvdiscrete), NO_("option/flag", "sleep", "disable"), NO_("option/flag", "diagexact", "disable"),
    NO_("option/flag", "ipc", "disable"), NO_("option/flag", "speculative", "disable"),

    E("compiler"), CMP("autolimits", autolimits), NUM("compiler", "boundmass", 1, 1, pbCompilerSettings, boundmass),
    NUM("compiler", "boundinertia", 1, 1, pbCompilerSettings, boundinertia),
    NUM("compiler", "settotalmass", 1, 1, pbCompilerSettings, settotalmass), CMP("balanceinertia", balanceinertia),
    KEYX("compiler", "strippath", BOOLEAN), KEYX("compiler", "coordinate", "local !global"),
    KEYX("compiler", "angle", "radian degree"),
    YESK("compiler", "fitaabb", pbCompilerSettings, fitaabb), TXTX("compiler", "eulerseq"), TXTX("compiler", "meshdir"),
    TXT0("compiler", "texturedir"), CMP("discardvisual", discardvisual), KEY0("compiler", "usethread", BOOLEAN),
    CMP("fusestatic", fusestatic), KEY("compiler", "inertiafromgeom", TRISTATE, pbCompilerSettings, inertiafromgeom),
    INT("compiler", "inertiagrouprange", 2, 2, pbCompilerSettings, inertiagrouprange), KEY0("compiler", "saveinertial", BOOLEAN),
    KEY0("compiler", "savecompiled", BOOLEAN), KEY0("compiler", "savecanonical", BOOLEAN), TXTX("compiler", "assetdir"),
    CMP("alignfree", alignfree), KEYX("compiler", "conflict", "warning merge error"),
    KEY0("compiler", "passthrough", "none textures"),

    E1("compiler/lengthrange"),
    KEY("compiler/lengthrange", "mode", "none muscle muscleuser all", pbCompilerSettings, lengthrange_mode),
    YES("compiler/lengthrange", "useexisting", pbCompilerSettings, useexisting),
    YES("compiler/lengthrange", "uselimit", pbCompilerSettings, uselimit), RANGE("accel", lengthrange_accel),
    RANGE("maxforce", lengthrange_maxforce), RANGE("timeconst", lengthrange_timeconst), RANGE("timestep", lengthrange_timestep),
    RANGE("inttotal", lengthrange_inttotal), RANGE("interval", lengthrange_interval), RANGE("tolrange", lengthrange_tolrange),

    E("size"), TXT0("size", "memory"), INT0("size", "njmax", 1, 1), INT0("size", "nconmax", 1, 1), INT0("size", "nstack", 1, 1),
    INTK("size", "nuserdata", 1, 1, pbSizeSettings, nuserdata), SIZE(nkey), SIZE(nuser_body), SIZE(nuser_jnt), SIZE(nuser_geom),
    SIZE(nuser_site), SIZE(nuser_cam), SIZE(nuser_tendon), SIZE(nuser_actuator), SIZE(nuser_sensor),

    E("statistic"), NUM("statistic", "meaninertia", 1, 1, pbStatisticSettings, meaninertia),
    NUM("statistic", "meanmass", 1, 1, pbStatisticSettings, meanmass),
    NUM("statistic", "meansize", 1, 1, pbStatisticSettings, meansize),
    NUM("statistic", "extent", 1, 1, pbStatisticSettings, extent), NUM("statistic", "center", 3, 3, pbStatisticSettings, center),

    E("worldbody"),
    E("body"), NAME("body"), CLASS("body", "childclass"), POSE("body", pbBodyDef), YES("body", "mocap", pbBodyDef, mocap),
    NUM("body", "gravcomp", 1, 1, pbBodyDef, gravcomp), KEY0("body", "sleep", "auto never allowed init"),
    KEYX("body", "simple", "false auto"), KEYX("body", "fuse", "false auto"), VEC("body", "user", pbBodyDef, user),
    E1("body/inertial"), {"body/inertial", "pos", pb_mjcfSupported, 1, NULL, NULL, 'd', 3, 3, AT(pbBodyDef, inertial.pos), 0},
    ORIENTATION("body/inertial", pbBodyDef, inertial),
    {"body/inertial", "mass", pb_mjcfSupported, 1, NULL, NULL, 'd', 1, 1, AT(pbBodyDef, mass), 0},
    NUM("body/inertial", "diaginertia", 3, 3, pbBodyDef, diaginertia),
    NUM("body/inertial", "fullinertia", 6, 6, pbBodyDef, fullinertia),
    E("body/joint"), NAME("body/joint"), CLASS("body/joint", "class"), JOINT("body/joint"),
    E("body/freejoint"), NAME("body/freejoint"), INT("body/freejoint", "group", 1, 1, pbJointDef, group),
    KEY("body/freejoint", "align", TRISTATE, pbJointDef, align),
    E("body/geom"), NAME("body/geom"), CLASS("body/geom", "class"), GEOM("body/geom"), PLUGIN("body/geom/"),
    E("body/site"), NAME("body/site"), CLASS("body/site", "class"), SITE("body/site"),
    VISUAL("body/camera"), NAME("body/camera"), CLASS("body/camera", "class"), CAMERA("body/camera"),
    TXTK("body/camera", "target", pbCameraDef, target),
    VISUAL("body/light"), NAME("body/light"), CLASS("body/light", "class"), LIGHT("body/light"),
    TXTK("body/light", "target", pbLightDef, target), TXT0("body/light", "texture"),
    E("body/attach"), TXTX("body/attach", "model"), TXTX("body/attach", "body"), TXTX("body/attach", "frame"),
    TXTX_("body/attach", "prefix"),
    PLUGIN("body/"),

    // meta-elements, not in XMLschema
    E("frame"), NAME("frame"), CLASS("frame", "childclass"), POSE("frame", pbFrameDef), NO_("frame", "scale", "1"),
    KEY0("frame", "scaling", "similar geometry"), NO_("frame", "massscale", "0"),
    E("replicate"), {"replicate", "count", pb_mjcfSupported, 1, NULL, NULL, 'i', 1, 1, NOWHERE, 0}, TXTX("replicate", "sep"),
    NUMX("replicate", "offset", 3, 3), NUMX("replicate", "euler", 3, 3),
    E("include"), TXTX_("include", "file"),

    E("contact"),
    E("contact/pair"), NAME("contact/pair"), CLASS("contact/pair", "class"), TXT_("contact/pair", "geom1", pbPairDef, geom1),
    TXT_("contact/pair", "geom2", pbPairDef, geom2), PAIR("contact/pair"),
    E("contact/exclude"), NAME("contact/exclude"), TXT_("contact/exclude", "body1", pbExcludeDef, body1),
    TXT_("contact/exclude", "body2", pbExcludeDef, body2),

    E("equality"),
#define X(name, value, word, of, ...) EQUALITY_##of("equality/" word),
    PB_EQUALITY_TABLE(X)
#undef X
    REFUSED("equality/flex"), GONE_NAMED("equality/flex"), NO("equality/flex", "active"), NO("equality/flex", "solref"),
    NO("equality/flex", "solimp"), NO("equality/flex", "flex"),
    REFUSED("equality/flexstrain"), GONE_NAMED("equality/flexstrain"), NO("equality/flexstrain", "active"),
    NO("equality/flexstrain", "solref"),
    NO("equality/flexstrain", "solimp"), NO("equality/flexstrain", "flex"), NO("equality/flexstrain", "cell"),

    E("tendon"),
    E("tendon/spatial"), NAME("tendon/spatial"), CLASS("tendon/spatial", "class"), TENDON("tendon/spatial"),
    TENDON_SEEN("tendon/spatial"),
    E("tendon/spatial/site"), TXTX_("tendon/spatial/site", "site"),
    E("tendon/spatial/geom"), TXTX_("tendon/spatial/geom", "geom"), TXTX("tendon/spatial/geom", "sidesite"),
    E("tendon/spatial/pulley"), NUMX_("tendon/spatial/pulley", "divisor", 1, 1),
    E("tendon/fixed"), NAME("tendon/fixed"), CLASS("tendon/fixed", "class"), TENDON("tendon/fixed"),
    E("tendon/fixed/joint"), TXTX_("tendon/fixed/joint", "joint"), NUMX_("tendon/fixed/joint", "coef", 1, 1),

    E("actuator"),
    E("actuator/general"), TRANSMISSION("actuator/general"), GENERAL("actuator/general"), TXTX("actuator/general", "body"),
    E("actuator/motor"), TRANSMISSION("actuator/motor"), ACTUATOR("actuator/motor"), CTRL_LIMITED("actuator/motor"),
    E("actuator/position"), TRANSMISSION("actuator/position"), POSITION("actuator/position"),
    E("actuator/velocity"), TRANSMISSION("actuator/velocity"), VELOCITY("actuator/velocity"),
    E("actuator/intvelocity"), TRANSMISSION("actuator/intvelocity"), INTVELOCITY("actuator/intvelocity"),
    REFUSED("actuator/orientation"), GONE_NAMED("actuator/orientation"), NO("actuator/orientation", "joint"),
    GONE_SITES("actuator/orientation"),
    GONE_ORIENTATION("actuator/orientation"),
    REFUSED("actuator/pid"), GONE_NAMED("actuator/pid"), GONE_TARGET("actuator/pid"), GONE_SITES("actuator/pid"),
    GONE_PID("actuator/pid"),
    E("actuator/damper"), TRANSMISSION("actuator/damper"), DAMPER("actuator/damper"),
    E("actuator/cylinder"), TRANSMISSION("actuator/cylinder"), CYLINDER("actuator/cylinder"),
    E("actuator/muscle"), TARGET("actuator/muscle"), MUSCLE("actuator/muscle"), NUMX("actuator/muscle", "tausmooth", 1, 1),
    E("actuator/adhesion"), NAME("actuator/adhesion"), CLASS("actuator/adhesion", "class"), ADHESION("actuator/adhesion"),
    TXTX_("actuator/adhesion", "body"),
    E("actuator/dcmotor"), TRANSMISSION("actuator/dcmotor"), DCMOTOR("actuator/dcmotor"),
    REFUSED("actuator/plugin"), GONE_NAMED("actuator/plugin"), GONE_ACT("actuator/plugin"), GONE_DRIVE("actuator/plugin"),
    GONE_TARGET("actuator/plugin"), NO("actuator/plugin", "site"), NO("actuator/plugin", "plugin"),
    NO("actuator/plugin", "instance"),
    NO("actuator/plugin", "ctrllimited"), NO("actuator/plugin", "actlimited"), NO("actuator/plugin", "actrange"),
    NO("actuator/plugin", "actdim"), NO("actuator/plugin", "dyntype"), NO("actuator/plugin", "dynprm"),
    NO("actuator/plugin", "actearly"),
    REFUSED("actuator/plugin/config"), NO("actuator/plugin/config", "key"), NO("actuator/plugin/config", "value"),

    E("sensor"),
#define X(name, value, word, size, of, ...) SENSOR_##of(word),
    PB_SENSOR_TABLE(X)
#undef X
    REFUSED("sensor/tactile"), NO("sensor/tactile", "name"), NO("sensor/tactile", "geom"), NO("sensor/tactile", "mesh"),
    NO("sensor/tactile", "nsample"), NO("sensor/tactile", "interp"), NO("sensor/tactile", "delay"),
    NO("sensor/tactile", "interval"),
    NO("sensor/tactile", "cutoff"), NO("sensor/tactile", "user"),
    REFUSED("sensor/user"), NO("sensor/user", "name"), NO("sensor/user", "objtype"), NO("sensor/user", "objname"),
    NO("sensor/user", "datatype"),
    NO("sensor/user", "needstage"), NO("sensor/user", "dim"), NO("sensor/user", "cutoff"), NO("sensor/user", "noise"),
    NO("sensor/user", "user"),
    REFUSED("sensor/plugin"), NO("sensor/plugin", "name"), NO("sensor/plugin", "plugin"), NO("sensor/plugin", "instance"),
    NO("sensor/plugin", "cutoff"), NO("sensor/plugin", "objtype"), NO("sensor/plugin", "objname"), NO("sensor/plugin", "reftype"),
    NO("sensor/plugin", "refname"), NO("sensor/plugin", "user"), REFUSED("sensor/plugin/config"),
    NO("sensor/plugin/config", "key"),
    NO("sensor/plugin/config", "value"),

    E("keyframe"),
    E("keyframe/key"), NAME("keyframe/key"), NUM("keyframe/key", "time", 1, 1, pbKeyDef, time),
    VEC("keyframe/key", "qpos", pbKeyDef, qpos),
    VEC("keyframe/key", "qvel", pbKeyDef, qvel), VEC("keyframe/key", "act", pbKeyDef, act),
    VEC("keyframe/key", "mpos", pbKeyDef, mpos), VEC("keyframe/key", "mquat", pbKeyDef, mquat),
    VEC("keyframe/key", "ctrl", pbKeyDef, ctrl), NO_("keyframe/key", "plastic", ""),

    E("default"), CLASS("default", "class"),
    E1("default/mesh"), MESH("default/mesh"),
    VISUAL1("default/texture"), TEXTURE("default/texture"),
    VISUAL1("default/material"), MATERIAL("default/material"),
    E1("default/joint"), JOINT("default/joint"), E1("default/geom"), GEOM("default/geom"), E1("default/site"),
    SITE("default/site"),
    VISUAL1("default/camera"), CAMERA("default/camera"), VISUAL1("default/light"), LIGHT("default/light"), E1("default/pair"),
    PAIR("default/pair"),
    E1("default/equality"), EQUALITY("default/equality"), E1("default/tendon"), TENDON("default/tendon"),
    TENDON_SEEN("default/tendon"),
    E1("default/general"), GENERAL("default/general"), E1("default/motor"), ACTUATOR("default/motor"),
    CTRL_LIMITED("default/motor"),
    E1("default/position"), POSITION("default/position"), E1("default/velocity"), VELOCITY("default/velocity"),
    E1("default/intvelocity"), INTVELOCITY("default/intvelocity"), E1("default/damper"), DAMPER("default/damper"),
    E1("default/cylinder"), CYLINDER("default/cylinder"), REFUSED("default/orientation"), GONE_ORIENTATION("default/orientation"),
    REFUSED("default/pid"), GONE_PID("default/pid"), E1("default/muscle"), MUSCLE("default/muscle"),
    E1("default/adhesion"), ADHESION("default/adhesion"), E1("default/dcmotor"), DCMOTOR("default/dcmotor"),

    E("custom"),
    E("custom/numeric"), NAME_("custom/numeric"), INT("custom/numeric", "size", 1, 1, pbNumericDef, size),
    VEC("custom/numeric", "data", pbNumericDef, data),
    E("custom/text"), NAME_("custom/text"), TXT_("custom/text", "data", pbTextDef, data),
    E("custom/tuple"), NAME_("custom/tuple"), E("custom/tuple/element"), TXTX_("custom/tuple/element", "objtype"),
    TXTX_("custom/tuple/element", "objname"), NUMX("custom/tuple/element", "prm", 1, 1),

    VISUAL("asset"),
    E("asset/mesh"), NAME("asset/mesh"), CLASS("asset/mesh", "class"), TXT("asset/mesh", "content_type", pbMeshDef, content_type),
    TXT("asset/mesh", "file", pbMeshDef, file),
    VEC("asset/mesh", "vertex", pbMeshDef, vertex), VEC0("asset/mesh", "normal"), VEC0("asset/mesh", "texcoord"),
    {"asset/mesh", "face", pb_mjcfSupported, 0, NULL, NULL, 'r', 0, 0, NOWHERE, 0},
    NUM("asset/mesh", "refpos", 3, 3, pbMeshDef, refpos), NUM("asset/mesh", "refquat", 4, 4, pbMeshDef, refquat),
    MESH("asset/mesh"),
    KEY0("asset/mesh", "smoothnormal", BOOLEAN),
    TXT0("asset/mesh", "builtin"), VEC0("asset/mesh", "params"), TXT0("asset/mesh", "material"), PLUGIN("asset/mesh/"),
    E("asset/hfield"), NAME("asset/hfield"), TXT("asset/hfield", "content_type", pbHfieldDef, content_type),
    TXT("asset/hfield", "file", pbHfieldDef, file), INT("asset/hfield", "nrow", 1, 1, pbHfieldDef, nrow),
    INT("asset/hfield", "ncol", 1, 1, pbHfieldDef, ncol), NUM("asset/hfield", "size", 4, 4, pbHfieldDef, size),
    VEC("asset/hfield", "elevation", pbHfieldDef, elevation),
    SKIN("asset/skin"),
    VISUAL("asset/texture"), TXT0("asset/texture", "name"), TXT0("asset/texture", "class"), TXT0("asset/texture", "content_type"),
    TXT0("asset/texture", "file"), TXT0("asset/texture", "fileright"), TXT0("asset/texture", "fileleft"),
    TXT0("asset/texture", "fileup"),
    TXT0("asset/texture", "filedown"), TXT0("asset/texture", "filefront"), TXT0("asset/texture", "fileback"),
    TEXTURE("asset/texture"),
    VISUAL("asset/material"), TXT0("asset/material", "name"), TXT0("asset/material", "class"), MATERIAL("asset/material"),
    E("asset/model"), TXTX("asset/model", "name"), TXTX_("asset/model", "file"), TXTX("asset/model", "content_type"),

    VISUAL("visual"),
    VISUAL1("visual/global"), INT0("visual/global", "cameraid", 1, 1), KEY0("visual/global", "orthographic", BOOLEAN),
    NUM0("visual/global", "fovy", 1, 1), NUM0("visual/global", "ipd", 1, 1), NUM0("visual/global", "azimuth", 1, 1),
    NUM0("visual/global", "elevation", 1, 1), NUM0("visual/global", "linewidth", 1, 1), NUM0("visual/global", "glow", 1, 1),
    INT0("visual/global", "offwidth", 1, 1), INT0("visual/global", "offheight", 1, 1), NUM0("visual/global", "realtime", 1, 1),
    KEY0("visual/global", "ellipsoidinertia", BOOLEAN), KEY0("visual/global", "bvactive", BOOLEAN),
    VISUAL1("visual/quality"), INT0("visual/quality", "shadowsize", 1, 1), INT0("visual/quality", "offsamples", 1, 1),
    INT0("visual/quality", "numslices", 1, 1), INT0("visual/quality", "numstacks", 1, 1),
    INT0("visual/quality", "numquads", 1, 1),
    VISUAL1("visual/headlight"), NUM0("visual/headlight", "ambient", 3, 3), NUM0("visual/headlight", "diffuse", 3, 3),
    NUM0("visual/headlight", "specular", 3, 3), TXT0("visual/headlight", "active"),
    VISUAL1("visual/map"), MAP("stiffness"), MAP("stiffnessrot"), MAP("force"), MAP("torque"), MAP("alpha"), MAP("fogstart"),
    MAP("fogend"),
    MAP("znear"), MAP("zfar"), MAP("haze"), MAP("shadowclip"), MAP("shadowscale"), MAP("actuatortendon"),
    VISUAL1("visual/scale"), SCALE("forcewidth"), SCALE("contactwidth"), SCALE("contactheight"), SCALE("connect"), SCALE("com"),
    SCALE("camera"), SCALE("light"), SCALE("selectpoint"), SCALE("jointlength"), SCALE("jointwidth"), SCALE("actuatorlength"),
    SCALE("actuatorwidth"), SCALE("framelength"), SCALE("framewidth"), SCALE("constraint"), SCALE("slidercrank"),
    SCALE("frustum"),
    VISUAL1("visual/rgba"), COLOR("fog"), COLOR("haze"), COLOR("force"), COLOR("inertia"), COLOR("joint"), COLOR("actuator"),
    COLOR("actuatornegative"), COLOR("actuatorpositive"), COLOR("com"), COLOR("camera"), COLOR("light"),
    COLOR("selectpoint"),
    COLOR("connect"), COLOR("contactpoint"), COLOR("contactforce"), COLOR("contactfriction"), COLOR("contacttorque"),
    COLOR("contactgap"), COLOR("rangefinder"), COLOR("constraint"), COLOR("slidercrank"), COLOR("crankbroken"),
    COLOR("frustum"),
    COLOR("bv"), COLOR("bvactive"),

    E("deformable"), SKIN("deformable/skin"),
    REFUSED("deformable/flex"), NO("deformable/flex", "name"), NO("deformable/flex", "group"), NO("deformable/flex", "dim"),
    NO("deformable/flex", "radius"), NO("deformable/flex", "material"), NO("deformable/flex", "rgba"),
    NO("deformable/flex", "flatskin"),
    NO("deformable/flex", "body"), NO("deformable/flex", "vertex"), NO("deformable/flex", "element"),
    NO("deformable/flex", "texcoord"),
    NO("deformable/flex", "elemtexcoord"), NO("deformable/flex", "node"), NO("deformable/flex", "nodecoord"),
    NO("deformable/flex", "cellcount"), NO("deformable/flex", "dof"), FLEX_CONTACT("deformable/flex/contact"),
    REFUSED("deformable/flex/edge"),
    NO("deformable/flex/edge", "stiffness"), NO("deformable/flex/edge", "damping"), FLEX_ELASTICITY("deformable/flex/elasticity"),
    REFUSED("body/flexcomp"), NO("body/flexcomp", "name"), NO("body/flexcomp", "type"), NO("body/flexcomp", "group"),
    NO("body/flexcomp", "dim"),
    NO("body/flexcomp", "dof"), NO("body/flexcomp", "count"), NO("body/flexcomp", "cellcount"), NO("body/flexcomp", "spacing"),
    NO("body/flexcomp", "radius"), NO("body/flexcomp", "rigid"), NO("body/flexcomp", "mass"), NO("body/flexcomp", "inertiabox"),
    NO("body/flexcomp", "scale"), NO("body/flexcomp", "file"), NO("body/flexcomp", "mesh"), NO("body/flexcomp", "point"),
    NO("body/flexcomp", "element"), NO("body/flexcomp", "texcoord"), NO("body/flexcomp", "material"), NO("body/flexcomp", "rgba"),
    NO("body/flexcomp", "flatskin"), NO("body/flexcomp", "pos"), NO("body/flexcomp", "quat"), NO("body/flexcomp", "axisangle"),
    NO("body/flexcomp", "xyaxes"), NO("body/flexcomp", "zaxis"), NO("body/flexcomp", "euler"), NO("body/flexcomp", "origin"),
    REFUSED("body/flexcomp/edge"), NO("body/flexcomp/edge", "equality"), NO("body/flexcomp/edge", "solref"),
    NO("body/flexcomp/edge", "solimp"),
    NO("body/flexcomp/edge", "stiffness"), NO("body/flexcomp/edge", "damping"), FLEX_ELASTICITY("body/flexcomp/elasticity"),
    FLEX_CONTACT("body/flexcomp/contact"), REFUSED("body/flexcomp/pin"), NO("body/flexcomp/pin", "id"),
    NO("body/flexcomp/pin", "range"),
    NO("body/flexcomp/pin", "grid"), NO("body/flexcomp/pin", "gridrange"), PLUGIN("body/flexcomp/"),

    REFUSED("extension"), REFUSED("extension/plugin"), NO("extension/plugin", "plugin"), REFUSED("extension/plugin/instance"),
    NO("extension/plugin/instance", "name"), REFUSED("extension/plugin/instance/config"),
    NO("extension/plugin/instance/config", "key"),
    NO("extension/plugin/instance/config", "value"),
};

const pbMjcfRow *pbMjcf_Table(int *count) {
  *count = (int)(sizeof table / sizeof *table);
  return table;
}
