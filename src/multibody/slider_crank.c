// Slider-cranks. Derivative: slider_crank_adjoint.c.
// Tests: tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include "multibody/slider_crank.h"

#include "base/assert.h"
#include "math/vec.h"

void NUM(pbSliderCrank_At)(const NUM(pbWork) *w, int u, NUM(pbSliderCrank) *s) {
  double rod = w->m->actuator_cranklength[u];
  s->crank = w->m->actuator_trnid[2 * u];
  s->slider = w->m->actuator_trnid[2 * u + 1];
  PB_ASSERT(s->crank >= 0 && s->slider >= 0 && rod > 0);

  v3_sub(s->vec, w->site_xpos + 3 * s->crank, w->site_xpos + 3 * s->slider);
  m3_col(s->axis, w->site_xmat + 9 * s->slider, 2);
  s->along = v3_dot(s->axis, s->vec);
  s->root = 0;

  // Too short: the foot of the crank's site on the axis.
  num square = s->along * s->along + rod * rod - v3_dot(s->vec, s->vec);
  if (!(re(square) > 0)) {
    s->length = s->along;
    v3_copy(s->by_vec, s->axis);
    v3_copy(s->by_axis, s->vec);
    return;
  }

  s->root = num_sqrt(square);
  s->length = s->along - s->root;
  num share = 1 - num_div(s->along, s->root);
  v3_scale(s->by_vec, s->axis, share);
  v3_addscl(s->by_vec, s->vec, num_div(1, s->root));
  v3_scale(s->by_axis, s->vec, share);
}
