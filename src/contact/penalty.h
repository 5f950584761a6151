// Penalty contact: force as a closed function of depth and velocity (contact.h: method penalty).
#ifndef PB_PENALTY_H
#define PB_PENALTY_H

#include "number/number.h"

// Normal force N at a depth and a speed of separation, and its derivatives:
//   g = k depth - c speed S(depth / width),  N = g S(g / (k width)),  S(t) = t^3 (10 - 15 t + 6 t^2) between 0 and 1
typedef struct NUM(pbNormalForce) {
  num force, by_depth, by_speed, by_stiffness, by_damping;
} NUM(pbNormalForce);
NUM(pbNormalForce) NUM(pbPenalty_Normal)(num stiffness, num damping, double width, num depth, num speed);
// Speed by which friction is divided: sqrt(sum (mu_j v_j)^2 + (mu_1 slip)^2), j from 1 to n - 1; friction[j - 1] = mu_j.
num NUM(pbPenalty_Slide)(int n, const num *friction, double slip, const num *vel);
// f_0 = N, f_j = -N mu_j^2 v_j / slide
void NUM(pbPenalty_Force)(int n, num normal, const num *friction, double slip, const num *vel, num *f);

#endif
