// Forward derivative of an impact by complex step.
// Tests: tests/unit/test_impact.c.
#include "number/number.h"

#if PB_IS_COMPLEX

#include "eval/work.h"
#include "impact/impact_jvp.h"
#include "impact/impact_kernel.h"
#include "model/state_layout.h"
#include "step/jvp_parts.h"

pbStatus pbJvp_Impact(void *block, const pbImpactAt *impact, const pbDirection *d, double *gap, double *velocity) {
  pbJvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  pbStateLayout at = state_layout(m);
  pbImpact_c s;

  // The state and theta with their direction
  pbJvp_SetScale(j, d);
  pbJvp_LoadTheta(j, impact->theta, d->theta);
  pbJvp_LoadMocap(j, impact->input, d);
  pbJvp_LoadPosition(j, impact->x + at.qpos, d->x);
  pbJvp_Blend(j, w->qvel, impact->x + at.qvel, d->x ? d->x + m->nv : NULL, m->nv);

  pbImpact_Stand_c(w, num_make(impact->span, pbJvp_StepIn(j, impact->span_rate)));
  PB_TRY(pbImpact_Solve_c(w, impact->candidate, impact->point, &s));
  // The gap, and the velocity after
  pbJvp_Imaginary(j, gap, &s.gap, 1);
  pbJvp_Imaginary(j, velocity, w->qvel, m->nv);

  return pb_ok;
}

#endif
