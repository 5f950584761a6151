// Names of adjoints (*_adjoint.c), which are compiled for one cotangent, and with PB_LANES given for so many side by side
// (Jacobians): LANE(f) is f_one_r, f_lanes_r, f_one_v3, ...: the kind of lane, then the variant of the plain kernels it calls.
// Sources that are no adjoints see the names of one cotangent. The type of cotangents is in adjoint.h.
#ifndef PB_LANE_H
#define PB_LANE_H

#include "number/number.h"

#ifdef PB_LANES
#define PB_LANE_KIND _lanes
#else
#define PB_LANES     1
#define PB_LANE_KIND _one
#endif
// Terms (bodies/*/) have value and pullback in one file: is the pullback compiled? In complex numbers with PB_LANES=2 alone: a
// cotangent with its derivative, two doubles side by side.
#define PB_HAS_PULLBACK      (!PB_IS_COMPLEX || PB_LANES > 1)
#define PB_LANE_PASTE2(a, b) a##b
#define PB_LANE_PASTE(a, b)  PB_LANE_PASTE2(a, b)
#define PB_LANE_NUM(name)    NUM(name)
#define LANE(name)           PB_LANE_NUM(PB_LANE_PASTE(name, PB_LANE_KIND))

#endif
