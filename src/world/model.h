// The compiled model: sizes, integer tables, parameters, names. Field lists in model_fields.h.
#ifndef PB_MODEL_H
#define PB_MODEL_H

#include <pullback/model.h>

#include "model_fields.h"

// MuJoCo's enumerations, by their values (only those a compiled model can hold here)
enum { pb_jntFree, pb_jntBall, pb_jntSlide, pb_jntHinge };
enum { pb_geomPlane = 0, pb_geomHfield = 1, pb_geomSphere = 2, pb_geomCapsule = 3, pb_geomEllipsoid = 4, pb_geomCylinder = 5, pb_geomBox = 6, pb_geomMesh = 7 };
enum { pb_intEuler = 0, pb_intRK4 = 1, pb_intImplicit = 2, pb_intImplicitfast = 3 };
enum { pb_conePyramidal = 0, pb_coneElliptic = 1 };
enum { pb_eqConnect = 0, pb_eqWeld = 1, pb_eqJoint = 2, pb_eqTendon = 3 };
enum { pb_wrapNone = 0, pb_wrapJoint = 1, pb_wrapPulley = 2, pb_wrapSite = 3 };
enum { pb_trnJoint = 0, pb_trnJointInParent = 1, pb_trnSliderCrank = 2, pb_trnTendon = 3, pb_trnSite = 4, pb_trnBody = 5 };
enum { pb_dynNone = 0, pb_dynIntegrator = 1, pb_dynFilter = 2, pb_dynFilterExact = 3 };
enum { pb_gainFixed = 0, pb_gainAffine = 1 };
enum { pb_biasNone = 0, pb_biasAffine = 1 };

typedef struct pbModelExtra pbModelExtra;  // visual things that are kept, never read by a step

struct pbModel {
  pbContext *ctx;
#define X(name) int name;
  PB_MODEL_SIZES(X)
  PB_MODEL_OPTIONS(X)
#undef X
  int one;           // 1, the row count of options in the field lists
  double tolerance;  // of Newton; 0: rounding
  double file_tolerance;  // what the file said ("option tolerance"), kept for information

#define X(name, rows, cols) int *name;
  PB_MODEL_INTS(X)
#undef X
#define X(name, rows, cols, unit) double *name;
  PB_MODEL_PARAMS(X)
#undef X
#define X(name, rows, cols) double *name;
  PB_MODEL_CONSTANTS(X)
#undef X

  double *theta0;   // default parameters; the pointers of PB_MODEL_PARAMS point into it
  size_t ntheta;
  char **names[pb_objCount];  // [kind][id]; "" where unnamed
  int names_count[pb_objCount];
  char *model_name;
  void *ints_block, *reals_block;  // memory behind the pointers above
  struct pbTopology *topology;     // derived tables of the step (topology.h), made once by pbModel_Finish
};

// Allocate all arrays for the sizes already set in *model (zeroed), and set pointers. Counts must be final.
PB_NODISCARD pbStatus pbModel_Allocate(pbModel *model);
// After the fields are filled: derived tables of the step.
PB_NODISCARD pbStatus pbModel_Finish(pbModel *model);

#endif
