// pullback gradient: what its parts share.
#ifndef PB_CLI_GRADIENT_H
#define PB_CLI_GRADIENT_H

#include "kept.h"

enum { CLI_GRADIENT_STATES = 11 };  // qpos, qvel, ..., beside parameters

typedef struct cliSlice {  // parameters to write
  char name[256];          // as it was asked for
  bool part;               // not a whole field
  pbParam param;
} cliSlice;

typedef struct cliGradient {
  cliRun *run;
  bool wanted[CLI_GRADIENT_STATES];
  cliSlice *slices;
  int slice_count;
  pbRolloutPlan plan;
  pbRollout *rollout;
  pbArrays *cotangents;
  pbRolloutBar bar;
  pbLoss *loss;
  pbGradientKind mode;
  pbSpotCheck check;
  pbVjpOptions truncation;                   // decay, window, clip
  int count;                                 // trajectories of a task that are summed over; 1 for all else
  long most_steps;                           // of one of them
  double loss_value;                         // the sum
  double *losses;                            // count
  double *x0, *theta;                        // cotangents of the initial states (count rows) and of theta (NULL: not wanted)
  pbCertificate certificate, *certificates;  // of the trajectory at hand; of all
  pbNoise *noises;                           // of all
  cliKept kept;
  int done;         // trajectories that are at their end
  bool whole;       // of the one after these, the pullback: what is left is how far it reaches
  pbPulled pulled;  // how far the pullback of that one came
} cliGradient;

pbStatus cliGradient_AddMeta(const cliGradient *g, pbArrays *set);
// What a user should know from the certificate of trajectory t.
void cliGradient_Warn(const cliGradient *g, int t);

// What an interrupted run has left, and what is left by this one: sums, and where the pullback at hand is. `all`: gradients by
// inputs, rows of all trajectories.
pbStatus cliGradient_TakeUp(cliGradient *g, const pbRolloutGradient *all);
// `text`: what is said of it.
pbStatus cliGradient_Leave(cliGradient *g, const pbRolloutGradient *all, const char *text);

#endif
