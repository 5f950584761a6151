// Histories in the world's step (model/history.h): delayed controls are read before an evaluation, what was given and measured is
// written after it. A step is
//
//   c = read (history, u),  (x', s) = step (x, c),  told = read (history, s),  history' = write (history, u, s)
//
// and its derivatives are those of the step that acts on c at once, and of reading and writing, which are linear in samples. It
// stands inside of a policy's loop (policy_step.h), whose outputs are as late as the caller's controls.
#ifndef PB_HISTORY_STEP_H
#define PB_HISTORY_STEP_H

#include "model/history.h"
#include "step/record.h"
#include "step/scratch.h"

typedef struct pbHistoryWork {
  bool measures;              // some sensor keeps samples
  pbInput input;              // what the step sees: the caller's, with the controls below
  double *ctrl, *ctrl_later;  // pb_controls: those that act; 2 x nu: in the middle and at the end of the step (pb_staged)

  // Cotangents, and in forward derivatives tangents, of the same; of what sensors measure; of samples.
  double *ctrl_bar, *ctrl_later_bar;
  double *measured_bar;  // nsensordata
  double *samples_bar;   // history_tangent
  void *block;
} pbHistoryWork;

PB_NODISCARD pbStatus pbHistoryWork_Create(pbScratch *s);
void pbHistoryWork_Destroy(pbScratch *s);

// The input that acts at a state.
const pbInput *pbHistory_Before(pbScratch *s, const double *theta, const double *x, const pbInput *input);
// What sensors tell, of what they measured in the work (pbScratch.told).
void pbHistory_Tell(pbScratch *s, const double *theta, const double *x);
// The history after the step: input is the caller's, or what a policy made of it.
void pbHistory_Next(const pbScratch *s, const double *x, const pbInput *input, double *next);

// The step with controls that act at once; it needs none of what follows.
pbStepRecord pbHistory_Open(pbScratch *s, const pbStepRecord *step);
PB_NODISCARD pbStatus pbHistory_Vjp(pbScratch *s, const pbStepRecord *step, const pbStepCotangent *in, const pbStepBar *out);
PB_NODISCARD pbStatus pbHistory_Jvp(pbScratch *s, const pbStepRecord *step, const pbDirection *direction,
                                    const pbStepTangent *out);

// Numbers that a policy observes of sensors that tell late, in their places among its observations: what is told of a state;
// cotangents to samples, delays and the time step (theta_bar may be NULL), which leaves zero there; tangents along a direction.
void pbHistory_Observe(const pbScratch *s, const double *theta, const double *x, double *observation);
void pbHistory_PullObserved(const pbScratch *s, const double *theta, const double *x, double *observation_bar, double *x_bar,
                            double *theta_bar);
void pbHistory_PushObserved(const pbScratch *s, const double *theta, const double *x, const pbDirection *direction,
                            double *tangent);

// A state of a rollout whose time step moved by dh, `ticks` steps after its start: its samples' times.
void pbHistory_MoveTimes(const pbModel *m, const double *theta, int ticks, double dh, double *x);

#endif
