// The public derivatives of a step.
#include <string.h>

#include "base/context.h"
#include "world/jvp.h"
#include "world/scratch.h"
#include "world/vjp.h"

pbStatus pbStep_Jvp(const pbModel *m, const double *theta, const double *record, const pbInput *input, const pbDirection *direction,
                    pbScratch *s, double *next, double *sensordata, double *xpos, double *site_xpos) {
  memcpy(s->stages, record + pbModel_StateSize(m), (size_t)(pb_stages(m) * m->nv) * sizeof(double));
  pbStatus status = pbJvp_Run(s->complex_work, theta, record, input, s->stages, direction, next != NULL, next, sensordata, xpos, site_xpos);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "forward derivative: %s", pbStatus_Text(status));
}

pbStatus pbStep_Vjp(const pbModel *m, const double *theta, const double *record, const pbInput *input, const double *next_bar,
                    const pbObservationBar *observed, pbScratch *s, double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  const double *stages = record + pbModel_StateSize(m);
  pbPullback p = {.q = x_bar, .v = x_bar + m->nv, .act = x_bar + 2 * m->nv, .theta = theta_bar};
  if (next_bar) p.q_next = next_bar, p.v_next = next_bar + m->nv, p.act_next = next_bar + 2 * m->nv;
  if (observed) p.sensordata = observed->sensordata, p.xpos = observed->xpos, p.site_xpos = observed->site_xpos;
  if (input_bar) p.ctrl = input_bar->ctrl, p.qfrc = input_bar->qfrc, p.xfrc = input_bar->xfrc;
  pbScratch_Load(s, theta, record, input);
  pbStatus status = s->variant->vjp(s->adjoint_one, false, &s->w, stages, &p);
  s->report.residual = s->w.residual;
  return status == pb_ok ? status : pbScratch_Fail(s, status, "pullback: %s", pbStatus_Text(status));
}

pbStatus pbStep_Jacobian(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s, double *A,
                         double *B, double *C, double *D) {
  (void)m, (void)theta, (void)record, (void)input, (void)A, (void)B, (void)C, (void)D;
  return pbScratch_Fail(s, pb_unsupported, "not yet");
}
