// Muscles: MuJoCo's curves of force by length and velocity (activation: Millard et al. 2013), and their partial derivatives.
//   gain = -F FL(L) FV(V), bias = -F fpmax FP(L), F the peak force: prm's, or where that is negative scale / acc0
//   L = range0 + (length - lengthrange0) / L0, V = velocity / (L0 vmax), L0 = (lengthrange1 - lengthrange0) / (range1 - range0)
// prm: range[2], force, scale, lmin, lmax, vmax, fpmax, fvmax: gainprm for the gain, biasprm for the bias.
#ifndef PB_MUSCLE_H
#define PB_MUSCLE_H

#include "eval/names.h"

num NUM(pbMuscle_Gain)(const NUM(pbMechanism) *w, int actuator);
num NUM(pbMuscle_Bias)(const NUM(pbMechanism) *w, int actuator);
// Derivative of the gain by velocity.
num NUM(pbMuscle_GainSlope)(const NUM(pbMechanism) *w, int actuator);
// Rate of the activation: (u - act) / tau, u the control within 0 to 1.
num NUM(pbMuscle_Rate)(const NUM(pbMechanism) *w, int actuator, num ctrl, num act);

// Partial derivatives of one of the numbers above by what it is computed from.
typedef struct NUM(pbMusclePartials) {
  num length, velocity, lengthrange[2], acc0, prm[9];
} NUM(pbMusclePartials);

typedef enum pbMusclePart { pb_muscleGain, pb_muscleGainSlope, pb_muscleBias } pbMusclePart;
// False: all are zero, as those of the bias are up to the optimal length.
bool NUM(pbMuscle_Partials)(const NUM(pbMechanism) *w, int actuator, pbMusclePart part, NUM(pbMusclePartials) *out);

// The same of the rate; ctrl: 0 where the control is held within 0 to 1.
typedef struct NUM(pbMuscleRatePartials) {
  num ctrl, act, dynprm[3];
} NUM(pbMuscleRatePartials);
void NUM(pbMuscle_RatePartials)(const NUM(pbMechanism) *w, int actuator, num ctrl, num act, NUM(pbMuscleRatePartials) *out);

#endif
