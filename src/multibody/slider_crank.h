// The slider-crank: a rod of given length from the crank's site to a slider, which moves along the z axis of its own site. The
// transmission's length, before its gear, is where on that axis the rod ends: a . v - sqrt((a . v)^2 + rod^2 - v . v), v the way
// from the slider's site to the crank's and a the axis. Where the rod is too short for that, it is a . v.
#ifndef PB_SLIDER_CRANK_H
#define PB_SLIDER_CRANK_H

#include "eval/work.h"

typedef struct NUM(pbSliderCrank) {
  int crank, slider;          // sites
  num vec[3], axis[3];        // v, a
  num along, root, length;    // a . v; the square root, 0 where the rod is too short
  num by_vec[3], by_axis[3];  // derivatives of the length
} NUM(pbSliderCrank);

void NUM(pbSliderCrank_At)(const NUM(pbWork) *w, int actuator, NUM(pbSliderCrank) *s);

#endif
