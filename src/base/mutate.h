// Faults by number, for the test of the tests (tests/conformance/test_lists.c): a build with PULLBACK_MUTATE multiplies the
// pullback of one entry of one of the engine's lists by a number that is set at run time. Everywhere else PB_MUTE is nothing.
//   PB_MUTE(list, entry, x, n)     stands where the pullback of an entry is dispatched, x its n cotangents
//   PB_MUTE_NAMED(list, name)      an entry of this name is pulled back from here on: it is number 1
//   PB_MUTE_PARAMS(m, theta_bar)   every parameter's own cotangents
#ifndef PB_MUTATE_H
#define PB_MUTATE_H

typedef enum pbMuteList {
  pb_muteNothing,
  pb_muteSensor,        // by type
  pb_muteRow,           // by pb_mute_row
  pb_mutePair,          // by pb_mute_pair
  pb_muteTransmission,  // of actuators, as the next three by type
  pb_muteDynamics,
  pb_muteGain,
  pb_muteBias,
  pb_muteParam,        // by number, pbModel_ParamAt
  pb_muteTerm,         // of losses, by type
  pb_muteQuantity,     // of losses, by what is observed
  pb_muteLayer,        // of policies, by kind
  pb_muteObservation,  // of policies, by kind
  pb_muteOutput,       // of policies, by kind
  pb_muteEnergy,       // by name: pbMutation.name
  pb_muteHosted,       // of losses by the host, by what they see
  pb_muteScheme,       // of deformables, by pbScheme
  pb_muteCoupling,     // of points on bodies, by pbCoupledBy
} pbMuteList;

// Rows are told apart by what they are for, equalities by their type.
static inline int pb_mute_row(int kind, int equality) { return kind ? kind : 8 + equality; }
// What points on bodies are pulled back to; the rest is theta, and what they do to the bodies' own equations.
typedef enum pbCoupledBy {
  pb_coupledPositions,
  pb_coupledVelocities,
  pb_coupledPlaces,
  pb_coupledParameters,
  pb_coupledForces,
  pb_coupledByCount
} pbCoupledBy;
static inline int pb_mute_coupled(const double *q, const double *v, const double *local) {
  if (q) return pb_coupledPositions;
  if (v) return pb_coupledVelocities;
  return local ? pb_coupledPlaces : pb_coupledParameters;
}
// Shapes in the order of their types.
static inline int pb_mute_pair(int type1, int type2) { return type1 < type2 ? 8 * type1 + type2 : 8 * type2 + type1; }

#ifdef PULLBACK_MUTATE
#include <string.h>

typedef struct pbMutation {
  pbMuteList list;
  int entry;         // energies: 1 while the one of that name is pulled back
  const char *name;  // of an energy
  double factor;
} pbMutation;
extern pbMutation pb_mutation;

static inline double pb_mute_factor(pbMuteList list, int entry) {
  return pb_mutation.list == list && pb_mutation.entry == entry ? pb_mutation.factor : 1;
}
#define PB_MUTE(list, entry, x, n)                                   \
  do {                                                               \
    double mute_factor = pb_mute_factor(list, entry);                \
    if (mute_factor == 1) break;                                     \
    for (int mute = 0; mute < (n); mute++) (x)[mute] *= mute_factor; \
  } while (0)
#define PB_MUTE_NAMED(which, text)                                                          \
  do {                                                                                      \
    if (pb_mutation.list == (which)) pb_mutation.entry = !strcmp(pb_mutation.name, (text)); \
  } while (0)
#define PB_MUTE_PARAMS(m, theta_bar)                                                                         \
  do {                                                                                                       \
    for (int mute_param = 0; mute_param < pbModel_ParamCount(m); mute_param++) {                             \
      pbParam mute_slice = pbModel_ParamAt(m, mute_param);                                                   \
      PB_MUTE(pb_muteParam, mute_param, (theta_bar) + mute_slice.offset, mute_slice.rows * mute_slice.cols); \
    }                                                                                                        \
  } while (0)
#else
#define PB_MUTE(list, entry, x, n)   ((void)0)
#define PB_MUTE_NAMED(list, text)    ((void)0)
#define PB_MUTE_PARAMS(m, theta_bar) ((void)0)
#endif

#endif
