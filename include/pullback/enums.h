// Pullback: enumerations of specs and models, by MuJoCo's values (those a model here can hold).
#ifndef PULLBACK_ENUMS_H
#define PULLBACK_ENUMS_H

enum { pb_jntFree, pb_jntBall, pb_jntSlide, pb_jntHinge };
// clang-format off
enum {
  pb_geomPlane = 0, pb_geomHfield = 1, pb_geomSphere = 2, pb_geomCapsule = 3, pb_geomEllipsoid = 4, pb_geomCylinder = 5,
  pb_geomBox = 6, pb_geomMesh = 7
};
// clang-format on
enum { pb_intEuler = 0, pb_intRK4 = 1, pb_intImplicit = 2, pb_intImplicitfast = 3 };
enum { pb_conePyramidal = 0, pb_coneElliptic = 1 };
enum { pb_solPGS = 0, pb_solCG = 1, pb_solNewton = 2 };
enum { pb_wrapNone = 0, pb_wrapJoint = 1, pb_wrapPulley = 2, pb_wrapSite = 3, pb_wrapSphere = 4, pb_wrapCylinder = 5 };
enum { pb_false = 0, pb_true = 1, pb_auto = 2 };  // limited = false, true, or as the range and compiler.autolimits say
enum { pb_camFixed, pb_camTrack, pb_camTrackcom, pb_camTargetbody, pb_camTargetbodycom };

// Option flags (bit masks of disableflags, enableflags)
// clang-format off
enum {
  pb_disConstraint = 1 << 0, pb_disEquality = 1 << 1, pb_disFrictionloss = 1 << 2, pb_disLimit = 1 << 3, pb_disContact = 1 << 4,
  pb_disSpring = 1 << 5, pb_disDamper = 1 << 6, pb_disGravity = 1 << 7, pb_disClampctrl = 1 << 8, pb_disWarmstart = 1 << 9,
  pb_disFilterparent = 1 << 10, pb_disActuation = 1 << 11, pb_disRefsafe = 1 << 12, pb_disSensor = 1 << 13,
  pb_disMidphase = 1 << 14, pb_disEulerdamp = 1 << 15, pb_disAutoreset = 1 << 16, pb_disNativeccd = 1 << 17,
  pb_disIsland = 1 << 18, pb_disMulticcd = 1 << 19
};
// clang-format on
// clang-format off
enum { pb_enOverride = 1 << 0, pb_enEnergy = 1 << 1, pb_enFwdinv = 1 << 2, pb_enInvdiscrete = 1 << 3, pb_enDiagexact = 1 << 5 };
// clang-format on

// What a sensor or a tuple points at (MuJoCo's mjtObj).
// clang-format off
enum {
  pb_refNone = 0, pb_refBody = 1, pb_refXbody = 2, pb_refJoint = 3, pb_refGeom = 5, pb_refSite = 6, pb_refCamera = 7,
  pb_refLight = 8, pb_refMesh = 10, pb_refSkin = 11, pb_refHfield = 12, pb_refTexture = 13, pb_refMaterial = 14, pb_refPair = 15,
  pb_refExclude = 16, pb_refEquality = 17, pb_refTendon = 18, pb_refActuator = 19, pb_refSensor = 20, pb_refNumeric = 21,
  pb_refText = 22, pb_refTuple = 23, pb_refKey = 24
};
// clang-format on

// What a rangefinder writes of each of its rays, in this order (pbSensorDef.data). X(enumerator, bit, word, numbers)
#define PB_RAY_DATA(X)        \
  X(pb_rayDist, 0, "dist", 1) \
  X(pb_rayDir, 1, "dir", 3)   \
  X(pb_rayOrigin, 2, "origin", 3) X(pb_rayPoint, 3, "point", 3) X(pb_rayNormal, 4, "normal", 3) X(pb_rayDepth, 5, "depth", 1)
enum {
#define X(name, bit, word, size) name = 1 << (bit),
  PB_RAY_DATA(X)
#undef X
};

// What a contact sensor writes of each of its contacts, in this order (pbSensorDef.data). X(enumerator, bit, word, numbers)
#define PB_CONTACT_DATA(X)            \
  X(pb_contactFound, 0, "found", 1)   \
  X(pb_contactForce, 1, "force", 3)   \
  X(pb_contactTorque, 2, "torque", 3) \
  X(pb_contactDist, 3, "dist", 1)     \
  X(pb_contactPos, 4, "pos", 3)       \
  X(pb_contactNormal, 5, "normal", 3) \
  X(pb_contactTangent, 6, "tangent", 3) X(pb_contactLinvel, 7, "linvel", 3) X(pb_contactAngvel, 8, "angvel", 3)
enum {
#define X(name, bit, word, size) name = 1 << (bit),
  PB_CONTACT_DATA(X)
#undef X
};
// Which contacts a sensor writes where there are more than it has room for: the first, the nearest, those with the greatest
// forces; or one sum of all.
enum { pb_reduceNone = 0, pb_reduceMindist = 1, pb_reduceMaxforce = 2, pb_reduceNetforce = 3 };

// How a history is read between two of its samples: the one before holds; on a line; on a cubic spline (Catmull-Rom).
enum { pb_interpZoh = 0, pb_interpLinear = 1, pb_interpCubic = 2 };

// What becomes of inertias that no body has (negative moments or mass, one moment larger than the sum of the others) and of bodies
// that move without mass.
typedef enum pbInertiaRule {
  pb_inertiaRefuse,  // an error with the name: MuJoCo's rule, which balanceinertia, boundmass and boundinertia soften
  pb_inertiaKeep,    // as given, with a warning; an error where the mass matrix is not positive definite (pb_singular)
  pb_inertiaRepair   // MuJoCo's balance and bounds where they are needed, each change in a warning
} pbInertiaRule;

#endif
