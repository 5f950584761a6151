// The public derivatives of a step.
// Tests: tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <string.h>

#include "base/context.h"
#include "couple/couple.h"
#include "couple/deform_step.h"
#include "impact/impact.h"
#include "model/sphere.h"
#include "solve/dual.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "step/vjp.h"
#include "world/cached.h"
#include "world/history_step.h"
#include "world/policy_step.h"

// ---- forward and reverse -------------------------------------------------------------------------------------------
static pbStatus push_coupled(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  pbStatus status = pbCouple_Jvp(s, step, direction, out);
  if (status == pb_ok) return pb_ok;
  const char *text = *s->deform->error ? s->deform->error : pbStatus_Text(status);
  return pbScratch_Fail(s, status, "forward derivative: %s", text);
}

// The complex program at the step's accelerations. With hard contact at its forces, too: those that the reverse derivative is
// taken at, from the same evaluation.
static pbStatus push_bodies(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  pbFound found;
  PB_TRY(pbScratch_MakeComplex(s));

  if (pb_hard(s->model)) {
    pbScratch_Load(s, step->theta, step->record, step->input);
    PB_TRY(s->variant->run(&s->w, s->stages, true, false, false));
    pbDual_Found_r(&s->w, &found);
    pbJvp_KnowForces(s->complex_work, &found);
  }
  pbStatus status = pbJvp_Run(s->complex_work, step, s->stages, direction, out->next != NULL, out);
  pbJvp_KnowForces(s->complex_work, NULL);
  return status;
}

pbStatus pbStep_JvpOpen(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *given) {
  if (s->history && !step->read) return pbHistory_Jvp(s, step, direction, given);
  const pbModel *m = step->model;
  pbStepTangent out = *given;

  if (pb_coupled(m) && out.next) return push_coupled(s, step, direction, &out);
  if (m->deform && out.next) PB_TRY(pbScratch_DeformJvp(s, step, direction, out.next));

  // A step with impacts is pushed flight by flight; what is observed at its start by itself.
  if (out.next && pbImpacts_Recorded(s, step->record)) {
    PB_TRY(pbImpacts_Jvp(s, step, direction, out.next));
    out.next = NULL;
  }

  // The step is replayed from the accelerations that it found.
  memcpy(s->stages, step->record + tape_stages(m), (size_t)(pb_solutions(m) * m->nv) * sizeof(double));
  pbStatus status = push_bodies(s, step, direction, &out);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "forward derivative: %s", pbStatus_Text(status));
}

// By the normalized theta, along directions on its spheres. Positions do not depend on what a policy does.
pbStatus pbStep_JvpRecord(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  bool closed = step->model->policy && !step->open && (out->next || out->sensordata);
  return closed ? pbPolicy_Jvp(s, step, direction, out) : pbStep_JvpOpen(s, step, direction, out);
}

pbStatus pbStep_Jvp(const pbModel *m, const double *theta, const double *record, const pbInput *input,
                    const pbDirection *direction, pbScratch *s, double *next, double *sensordata, double *xpos,
                    double *site_xpos) {
  pbStepRecord step = {.model = m, .theta = theta, .record = record, .input = input};
  pbDirection along = *direction;

  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  PB_TRY(pbScratch_CheckRecord(s, record));

  // Kernels see directions of length one, so the direction of theta goes there too.
  if (step.theta != theta && direction->theta) {
    memcpy(s->theta_tangent, direction->theta, m->ntheta * sizeof(double));
    pbSphere_Push(m, theta, s->theta_tangent);
    along.theta = s->theta_tangent;
  }

  return pbStep_JvpRecord(s, &step, &along, &(pbStepTangent){next, sensordata, xpos, site_xpos});
}

bool pbScratch_Tangent(pbScratch *s, const char *name, double *out) {
  return s->complex_work && !pbScratch_Stale(s, s->model) && pbJvp_Field(s->complex_work, name, out);
}

pbStatus pbStep_Vjp(const pbModel *m, const double *theta, const double *record, const pbInput *input, const double *next_bar,
                    const pbObservationBar *observed, pbScratch *s, double *x_bar, const pbInputBar *input_bar,
                    double *theta_bar) {
  const pbStepRecord step = {.model = m, .theta = theta, .record = record, .input = input};
  const pbStepCotangent in = {.next = next_bar, .observed = observed};
  return pbStep_VjpCached(&step, &in, s, &(pbStepBar){x_bar, input_bar, theta_bar});
}
