// Pullback: kinds of actuators, one row each: what they act on, laws of gain and bias, dynamics of their activation. From these
// lists come enumerators, the words of MJCF, and which law of src/bodies/actuators computes and differentiates each.
#ifndef PULLBACK_ACTUATORS_H
#define PULLBACK_ACTUATORS_H

// X(enumerator, value, word, law)
//   value  MuJoCo's, or from PB_ACTUATOR_OURS, 200, one that MuJoCo does not have; a number, of which MJCF's words are made
//   word   MJCF's; of a transmission the attribute that names what it acts on
//   law    of src/bodies/actuators
enum { PB_ACTUATOR_OURS = 200, PB_ACTUATOR_KINDS = 256 };
// clang-format off
#define PB_TRANSMISSIONS(X)                                                                            \
  X(pb_trnJoint, 0, "joint", joint) X(pb_trnJointInParent, 1, "jointinparent", joint)                  \
  X(pb_trnSliderCrank, 2, "cranksite", slider_crank) X(pb_trnTendon, 3, "tendon", tendon)              \
  X(pb_trnSite, 4, "site", site) X(pb_trnBody, 5, "body", adhesion)
// force = gain input + bias: gain and bias by length, velocity and their parameters
#define PB_GAINS(X) \
  X(pb_gainFixed, 0, "fixed", fixed) X(pb_gainAffine, 1, "affine", affine) X(pb_gainMuscle, 2, "muscle", muscle) \
  X(pb_gainDcmotor, 3, "dcmotor", dcmotor)
#define PB_BIASES(X) \
  X(pb_biasAffine, 1, "affine", affine) X(pb_biasMuscle, 2, "muscle", muscle) X(pb_biasDcmotor, 3, "dcmotor", dcmotor)
// d activation / dt by control and activation
#define PB_DYNAMICS_KINDS(X)                                                                           \
  X(pb_dynIntegrator, 1, "integrator", integrator) X(pb_dynFilter, 2, "filter", filter)                \
  X(pb_dynFilterExact, 3, "filterexact", filter_exact) X(pb_dynMuscle, 4, "muscle", muscle) \
  X(pb_dynDcmotor, 5, "dcmotor", dcmotor)
// clang-format on

#define X(name, value, ...) name = value,
enum { PB_TRANSMISSIONS(X) pb_trnNone = 1000 };
enum { PB_GAINS(X) };
enum { pb_biasNone = 0, PB_BIASES(X) };
enum { pb_dynNone = 0, PB_DYNAMICS_KINDS(X) };
#undef X

#endif
