// Fields of single terms of src/bodies: parameters as those of model_fields.h, rows of the same words. Models and kernels have no
// members for them, so that one that is added is known to the term alone that reads it.
#ifndef PB_TERM_FIELDS_H
#define PB_TERM_FIELDS_H

// clang-format off
#define PB_TERM_PARAMS(X) \
  X(dof_stiction, nv, 1, "N|N m", Nonnegative, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Ours, \
    "friction loss at rest beyond dof_frictionloss; of it exp(-(speed / dof_stribeck)^dof_stribeckpower) is left") \
  X(dof_stribeck, nv, 1, "m/s|rad/s", Positive, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Ours, \
    "velocity at which 1/e of the loss at rest is left") \
  X(dof_stribeckpower, nv, 1, "", Positive, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Ours, \
    "how suddenly it goes") \
  X(dof_frictionload, nv, 2, "", Nonnegative, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Ours, \
    "(km, ke): friction loss by load, size of km (force of actuators) - ke (other forces)") \
  X(dof_stictionload, nv, 2, "", Nonnegative, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Ours, \
    "the same at rest, in addition; velocity takes it away as dof_stiction") \
  X(dof_stictionquad, nv, 2, "1/N|1/(N m)", Nonnegative, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Ours, \
    "(qm, qe): the same by the square of the lesser of two forces that oppose each other") \
  X(actuator_speed, nu, 1, "m/s|rad/s", Nonnegative, Free, Smooth, Own, 0, Ours, \
    "of servos: greatest velocity asked for") \
  X(actuator_deadband, nu, 1, "m/s|rad/s", Nonnegative, Free, Smooth, Own, 0, Ours, \
    "of servos: velocity that is not acted upon") \
  X(actuator_lengthrange, nu, 2, "m|rad", Any, Free, Smooth, Own, 0, Mujoco, \
    "shortest and longest length of what a muscle acts on") \
  X(actuator_acc0, nu, 1, "", Any, Free, Smooth, Derived, 0, Mujoco, \
    "acceleration by a unit force at qpos0; it scales muscles") \
  X(actuator_delay, nudelay, 1, "s", Nonnegative, Free, Delay, Own, 0, Mujoco, \
    "of the control, where samples of it are kept; 0: it acts at once") \
  X(sensor_delay, nsensordelay, 1, "s", Nonnegative, Free, Delay, Own, 0, Mujoco, \
    "of what it measures, where samples of it are kept; 0: it is told at once")
// clang-format on

enum {
#define X(name, ...) pb_term_##name,
  PB_TERM_PARAMS(X)
#undef X
      pb_termCount
};

// The field's default values in a model; its values of an evaluation; its place in theta.
#define PB_TERM_DEFAULT(m, name) ((m)->term[pb_term_##name])
#define PB_TERM(w, name)         ((w)->p.theta + PB_TERM_AT((w)->m, name))
#define PB_TERM_AT(m, name)      ((m)->term[pb_term_##name] - (m)->theta0)
// theta[field row, column] += value, where theta is wanted (as PB_THETA).
#define PB_TERM_THETA(a, name, index, value)                                                               \
  do {                                                                                                     \
    if (PB_LANES == 1 && (a)->theta) (a)->theta[PB_TERM_AT((a)->w->m, name) + (index)] += PB_LANE0(value); \
  } while (0)

#endif
