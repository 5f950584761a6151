// What the checks of single steps share: sample.c, which draws and judges, and sample_quotient.c, the differences of the program.
#ifndef PB_SAMPLE_H
#define PB_SAMPLE_H

#include <pullback/random.h>
#include "rollout/rollout.h"

// What acts during a step, each with its own direction and cotangent.
enum { in_ctrl, in_qfrc, in_xfrc, in_command, in_mocap_pos, in_mocap_rot, in_mocap_vel, inputs };
// A direction, or cotangents, of one step. Parts that are not wanted are NULL.
typedef struct StepVectors {
  double *x, *input[inputs], *theta;
} StepVectors;

struct pbStepCheck {
  const pbRolloutGradient *gradient;
  pbRng rng;
  int *steps, *quotients;  // ascending; those at the end are the next
  int step_count, quotient_count;
  int event_seen;  // a step with events was sampled
  int64_t evaluations;
  StepVectors direction, added, moved;
  size_t width[inputs];  // of the inputs' directions
  double *input_before;  // inputs' gradients before the step, side by side
  double *poses;         // 7 nmocap: of mocap bodies, moved
  double *next, *state[2], *after[3];
  double *sensor[3], *xpos[3], *site[3], *apart;
  double *memory;
};

// The step that is checked.
typedef struct StepCheck {
  pbRollout *r;
  pbStepCheck *s;
  const pbModel *m;
  pbScratch *scratch;
  const double *record;
  void *cached;
  const pbObservationBar *observed;  // NULL: nothing
  const double *w_next, *w;
  pbInput input;
  int k;
  bool events;
} StepCheck;

// What quotients say of a gradient; the last three: nothing, and why.
typedef enum Verdict { agrees, differs, at_kink, at_tie, in_noise } Verdict;
typedef struct Quotient {
  double value, gradient, error, limit;  // error and limit relative to the terms' size
} Quotient;

// <w, d> + <added, d>, and the size of its terms.
double pbStepCheck_Reverse(const StepCheck *a, const StepVectors *d, bool theta, double *size);
// Central quotients over shorter and shorter moves, until one agrees with the gradient.
Verdict pbStepCheck_Compare(const StepCheck *a, const StepVectors *d, bool theta, Quotient *q);
// Of the entries of the step's state, inputs and wanted parameters the share that moves along a direction.
double pbStepCheck_MovedShare(const StepCheck *a, const StepVectors *d);

#endif
