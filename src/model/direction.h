// Random directions of theta, for whoever compares derivatives by parameters.
#ifndef PB_DIRECTION_H
#define PB_DIRECTION_H

#include <pullback/random.h>

#include "model/model.h"

typedef enum pbDraw {
  // Each number by its own share of its size, normally distributed. A zero (no friction, no margin) is a kink of many fields, and
  // stays.
  pb_drawEach,
  // All numbers of the field by the same share, so that values that are equal, where the larger of two counts, stay so; zeros
  // stay.
  pb_drawTogether,
  // Every number, zeros as far as the largest of the field: for derivatives, which have a side at a kink.
  pb_drawAll
} pbDraw;

// Of parameter `number`, into its part of direction (ParamSize). Each and together keep what is a direction in space on its
// sphere (axes, quaternions, those of joints and welds) and the exponents of impedances, which have a kink at their defaults.
void pbTheta_Draw(const pbModel *m, const double *theta, int number, pbDraw how, pbRng *rng, double *direction);

#endif
