// Which gradient a rollout gives. The smooth one: each recorded step once more with smooth contacts, and the derivative of that.
// Tests: tests/unit/test_event.c.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/model.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

static const char *const names[pb_gradientKindCount] = {"exact", "event", "smooth"};

const char *pbGradientKind_Name(pbGradientKind kind) { return (unsigned)kind < pb_gradientKindCount ? names[kind] : NULL; }

bool pbGradientKind_Named(const char *name, pbGradientKind *kind) {
  for (int i = 0; i < pb_gradientKindCount; i++) {
    if (strcmp(names[i], name) != 0) continue;
    *kind = (pbGradientKind)i;
    return true;
  }

  return false;
}

void pbSmooth_Destroy(pbRollout *r) {
  pbScratch_Destroy(r->smooth_scratch);
  pbContext_Free(r->ctx, r->smooth);
  pbContext_Free(r->ctx, r->smooth_record);
  r->smooth_scratch = NULL;
  r->smooth = NULL;
  r->smooth_record = NULL;
}

// Are the settings still those it was made with?
bool pbSmooth_Fits(const pbRollout *r) {
  const pbContactSettings *now = &r->model->contact, *then = &r->smooth->contact;
  return now->smooth_kappa == then->smooth_kappa && now->smooth_onset == then->smooth_onset;
}

// A copy of the model whose contacts are at least as smooth as the settings ask for, with a scratch and a record of its own.
static pbStatus create_smooth(pbRollout *r) {
  const pbContactSettings *c = &r->model->contact;
  if (pbScratch_Stale(r->scratch, r->model)) return pbRollout_Ready(r);  // says why not

  size_t numbers = (size_t)r->nrecord + (size_t)r->nx;
  r->smooth = pbContext_Alloc(r->ctx, sizeof *r->smooth);
  r->smooth_record = pbContext_AllocArray(r->ctx, numbers, sizeof(double));
  if (!r->smooth || !r->smooth_record) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for smooth gradients");
  r->smooth_x = r->smooth_record + r->nrecord;

  *r->smooth = *r->model;
  if (c->smooth_kappa > r->smooth->contact.kappa) r->smooth->contact.kappa = c->smooth_kappa;
  if (c->smooth_onset > r->smooth->contact.onset) r->smooth->contact.onset = c->smooth_onset;

  return pbScratch_Create(r->ctx, r->smooth, &r->capacity, &r->smooth_scratch);
}

pbStatus pbRollout_SetGradient(pbRollout *r, pbGradientKind kind) {
  const char *name = pbGradientKind_Name(kind);
  if (!name) return pbContext_Fail(r->ctx, pb_bad_argument, "gradient number %d: there is none", (int)kind);

  // Which gradients a contact method has: docs/contact-gradients.md.
  if (kind != pb_gradientExact && r->model->contact.method == pb_contactImpact)
    return pbContext_Fail(r->ctx, pb_bad_argument,
                          "gradient '%s': the contact method impact has none; its exact gradient contains the moments of touch",
                          name);
  if (kind != pb_gradientExact && r->model->deform)
    return pbContext_Fail(r->ctx, pb_unsupported, "gradient '%s': worlds with deformables have the exact one only", name);
  if (kind == pb_gradientEvent && pb_noslip(r->model))
    return pbContext_Fail(r->ctx, pb_unsupported,
                          "gradient 'event': sweeps against slip have none (option noslip_iterations=0 does without them)");
  if (kind == pb_gradientEvent && r->model->topology->adheres)
    return pbContext_Fail(r->ctx, pb_unsupported,
                          "gradient 'event': actuators on bodies (adhesion) have none: their force begins at no row's distance");
  if (kind == pb_gradientSmooth && r->model->contact.method != pb_contactSoft)
    return pbContext_Fail(r->ctx, pb_bad_argument, "gradient 'smooth': it takes the contact method soft only");

  // Settings may have changed since a smooth gradient was chosen before.
  if (r->smooth && !pbSmooth_Fits(r)) pbSmooth_Destroy(r);

  if (kind == pb_gradientSmooth && !r->smooth) {
    pbStatus status = create_smooth(r);
    if (status != pb_ok) pbSmooth_Destroy(r);
    PB_TRY(status);
    pbSelection_Apply(r);
  }

  r->gradient = kind;
  return pb_ok;
}

pbStatus pbSmooth_Step(pbRollout *r, const double *record, const pbInput *input, int k) {
  PB_ASSERT(r->smooth && r->smooth_scratch && k >= 0 && k <= r->plan.steps);

  // From the state of the sharp rollout, whose record begins with it: the smooth steps make no trajectory of their own.
  memcpy(r->smooth_x, record, (size_t)r->nx * sizeof(double));
  pbStatus status;
  if (k == r->plan.steps) status = pbStep_Observe(r->smooth, r->theta, r->smooth_x, input, r->smooth_scratch, NULL);
  else status = pbStep_Forward(r->smooth, r->theta, r->smooth_x, input, r->smooth_scratch, NULL);
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->smooth_scratch));

  pbTape_Record(r->smooth, record, r->smooth_scratch, r->smooth_record);

  return pb_ok;
}
