// What the rows of parameters (model_fields.h, term_fields.h) say of a parameter, by its number in theta.
#ifndef PB_PARAM_H
#define PB_PARAM_H

#include <stdbool.h>
#include <stddef.h>

#include <pullback/model.h>

#include "model/model_fields.h"
#include "model/term_fields.h"

// Which values are meaningful. Positive: zero divides.
typedef enum pbRange { pb_rangeAny, pb_rangeNonnegative, pb_rangePositive, pb_rangeShare } pbRange;  // share: 0 to 1

// Where the motion bends by it (bend.c). Impedance: its five entries have ends of their own; Friction: the least that counts;
// Fluid: its switch. Delay: at samples, between which it is read. Mixed: the greater or lesser of two geoms' values counts, too.
typedef enum pbKink {
  pb_kinkSmooth,
  pb_kinkImpedance,
  pb_kinkFriction,
  pb_kinkFluid,
  pb_kinkDelay,
  pb_kinkMixedFriction,
  pb_kinkMixedRestitution,
  pb_kinkMixedReference
} pbKink;

// What pbModel_SetConstants makes of it: nothing; some entries; all in designs (design.h); all, always.
typedef enum pbFollows { pb_followsOwn, pb_followsSome, pb_followsDesign, pb_followsDerived } pbFollows;

typedef struct pbParamRow {
  const char *name, *unit, *meaning;
  size_t rows, pointer;  // offsets in the model
  int cols;
  pbObject rows_are;
  pbRange range;
  pbMoves moves;
  pbKink kink;
  pbFollows follows;
  unsigned wakes;  // groups of model/wanted.h
} pbParamRow;

// Numbers of the fields: pb_param_body_mass, ...
enum {
#define X(name, ...) pb_param_##name,
  PB_MODEL_PARAMS(X) PB_TERM_PARAMS(X) PB_MESH_PARAMS(X)
#undef X
      pb_paramCount
};

// NULL: no field of the model, but what is exposed, of deformables or of a policy.
const pbParamRow *pbParam_Row(int number);
const pbParamRow *pbParam_Named(const char *name);

#endif
