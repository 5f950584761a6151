// Forward derivative of an impact by complex step.
#include "number/number.h"

#if PB_IS_COMPLEX

#include "impact/impact_jvp.h"
#include "impact/impact_kernel.h"
#include "model/state_layout.h"
#include "step/jvp_parts.h"

pbStatus pbJvp_Strike(void *block, const double *theta, const double *x, const pbDirection *d, int candidate, int point,
                      double *gap, double *velocity) {
  pbJvp *j = block;
  pbWork_c *w = &j->w;
  const pbModel *m = w->m;
  pbStateLayout at = state_layout(m);
  pbStrike_c s;
  pbJvp_SetScale(j, d);
  pbJvp_LoadTheta(j, theta, d->theta);
  pbJvp_LoadPosition(j, x + at.qpos, d->x);
  pbJvp_Blend(j, w->qvel, x + at.qvel, d->x ? d->x + m->nv : NULL, m->nv);
  PB_TRY(pbImpact_Strike_c(w, candidate, point, &s));
  pbJvp_Imaginary(j, gap, &s.gap, 1);
  pbJvp_Imaginary(j, velocity, w->qvel, m->nv);
  return pb_ok;
}

#endif
