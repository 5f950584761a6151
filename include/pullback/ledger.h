// Pullback: the energy ledger of a run: what forces do, where the energy stays, and what the integrator makes of it.
//
//   pbLedger l;   pbLedger_Begin(model, theta, x, &input, scratch, &l)
//   per step:     pbStep_Forward(model, theta, x, &input, scratch, NULL)   then at once   pbLedger_Add(scratch, &l)
//   pbLedger_End(model, theta, x, &input, scratch, &l)
#ifndef PULLBACK_LEDGER_H
#define PULLBACK_LEDGER_H

#include <pullback/world.h>

#ifdef __cplusplus
extern "C" {
#endif

// Work of a force over a step is its power at the mean of the velocities before and after, times h (Euler, implicitfast: with it
// the kinetic energy at the mass matrix of the step changes by exactly the work of all forces, impulses of contacts included);
// forces that the integrator treats implicitly count as they acted. RK4: the power at each stage, weighed as the stages are.
typedef struct pbLedger {
  double time;                // s
  double actuators, applied;  // J: work of actuators; of forces that are given (qfrc, xfrc) and of gravity compensation
  double delivered;           // J: the positive work of each actuator and of what is applied, summed over steps
  double kinetic, potential;  // J: change from Begin to End; potential: gravity, springs of joints and tendons
  // J: what was taken out of the motion: negative where it was given (soft contacts and limits hold energy for a while)
  double dampers, fluid, friction, limits, equalities, contacts;
  // J: kinetic + potential + what was taken - actuators - applied: what steps of finite length made (negative: lost). Falls
  // with h as the integrator's order says (across impacts: like h).
  double remainder;
  double force, power;   // largest force of an actuator [N, N m]; largest power of all together, of either sign [W]
  int force_actuator;    // whose force; -1 without actuators
  double begin;          // J: kinetic + potential at Begin
  double begin_kinetic;  // J
} pbLedger;

// Sets the ledger to zero and takes the energy at a state. pb_unsupported, with the scratch's error, where there is none to be
// kept: contact method impact (velocities jump within a step), deformables.
PB_API PB_NODISCARD pbStatus pbLedger_Begin(const pbModel *model, const double *theta, const double *x, const pbInput *input,
                                            pbScratch *scratch, pbLedger *ledger);
// Adds the step that the scratch has just made. No other call with the scratch may come in between.
PB_API void pbLedger_Add(pbScratch *scratch, pbLedger *ledger);
// Takes the energy at the last state: kinetic, potential and remainder are from here on those of the whole run. Further steps and
// another End may follow.
PB_API PB_NODISCARD pbStatus pbLedger_End(const pbModel *model, const double *theta, const double *x, const pbInput *input,
                                          pbScratch *scratch, pbLedger *ledger);
// J: all that was taken out of the motion.
PB_API double pbLedger_Taken(const pbLedger *ledger);
// |remainder| by the work delivered; where next to none was (a millionth), by what was taken, the changes of energy and the
// motion at the begin, in size; 0 where nothing moved.
PB_API double pbLedger_Gap(const pbLedger *ledger);

#ifdef __cplusplus
}
#endif
#endif
