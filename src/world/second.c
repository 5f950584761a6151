// Second derivatives of a step, as the public has them. Tests: tests/unit/test_second.c, tests/conformance/test_step.c.
#include <string.h>

#include "base/context.h"
#include "model/policy_data.h"
#include "model/sphere.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "step/second.h"

const char *pbSecond_Lacks(const pbModel *m) {
  if (m->deform) return "deformables have";
  if (m->policy) return "a policy has";
  if (m->nhistory) return "delays have";
  if (m->contact.method != pb_contactSoft && m->contact.method != pb_contactPenalty)
    return "contact methods other than soft and penalty have";
  if (pb_noslip(m)) return "noslip_iterations have";
  return NULL;
}

// By the normalized theta, along directions on its spheres.
static pbStatus run(pbScratch *s, const pbStepRecord *step, const double *moved, const pbSecond *second, double *bar) {
  const pbModel *m = step->model;
  pbStatus status = pbScratch_MakeComplex(s);
  if (status != pb_ok) return pbScratch_Fail(s, status, "second derivatives: %s", pbStatus_Text(status));

  memcpy(s->stages, step->record + tape_stages(m), (size_t)(pb_solutions(m) * m->nv) * sizeof(double));
  status = pbSecond_Run(s->ctx, s->complex_work, step, s->stages, moved, second, bar);
  if (status == pb_ok) return pb_ok;
  const char *text = pbSecond_Error(s->complex_work);
  return pbScratch_Fail(s, status, "second derivatives: %s", *text ? text : pbStatus_Text(status));
}

pbStatus pbStep_SecondRecord(pbScratch *s, const pbStepRecord *given, const double *moved, const pbSecond *second, double *bar) {
  const pbModel *m = given->model;
  pbStepRecord step = *given;
  pbSecond along = *second;
  pbDirection direction = second->direction ? *second->direction : (pbDirection){0};
  along.direction = &direction;
  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  PB_TRY(pbScratch_CheckRecord(s, step.record));
  const char *what = pbSecond_Lacks(m);
  if (what) return pbScratch_Fail(s, pb_bad_input, "second derivatives: %s none", what);

  // Kernels see directions of length one, so the direction of theta goes there too.
  if (step.theta != given->theta && direction.theta) {
    memcpy(s->theta_tangent, direction.theta, m->ntheta * sizeof(double));
    pbSphere_Push(m, given->theta, s->theta_tangent);
    direction.theta = s->theta_tangent;
  }

  return run(s, &step, moved, &along, bar);
}

pbStatus pbStep_Second(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                       const pbSecond *second) {
  const pbStepRecord step = {.model = m, .theta = theta, .record = record, .input = input};
  return pbStep_SecondRecord(s, &step, NULL, second, NULL);
}
