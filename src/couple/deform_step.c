// Deformables in the world's step and its derivatives: where the model, its state and theta hold what is theirs. Here they step
// beside the bodies; where they pull bodies that move, couple.h has one step for both.
// Tests: tests/unit/test_guess.c.
#include "couple/deform_step.h"

#include <math.h>
#include <string.h>

#include "base/context.h"
#include "couple/couple.h"
#include "math/vec.h"
#include "model/state_layout.h"
#include "step/scratch.h"

// ---- arguments ----------------------------------------------------------------------------------------------------------
static bool gravity_acts(const pbModel *m) { return !(m->disableflags & pb_disGravity); }

pbDeformInput pbDeformInput_Of(const pbModel *m, const double *theta, const double *x, const pbInput *input) {
  const double *gravity = theta + (m->gravity - m->theta0);
  pbDeformInput in = {.theta = theta + m->deform_theta, .h = theta[m->timestep - m->theta0], .time = x[state_layout(m).time]};

  // Their controls stand behind those of the actuators.
  if (input && input->ctrl) in.control = input->ctrl + m->nu;
  for (int k = 0; k < 3; k++) in.gravity[k] = gravity_acts(m) ? gravity[k] : 0;

  return in;
}

pbDeformBar pbDeformBar_Of(const pbModel *m, const pbInputBar *input_bar, double *theta_bar) {
  pbDeformBar bar = {.theta = NULL};

  if (input_bar && input_bar->ctrl) bar.control = input_bar->ctrl + m->nu;
  if (!theta_bar) return bar;

  bar.theta = theta_bar + m->deform_theta;
  bar.h = theta_bar + (m->timestep - m->theta0);
  if (gravity_acts(m)) bar.gravity = theta_bar + (m->gravity - m->theta0);

  return bar;
}

pbDeformDirection pbDeformDirection_Of(const pbModel *m, const pbDirection *direction) {
  pbDeformDirection d = {.state = NULL};

  if (direction->x) d.state = direction->x + 2 * m->nv + m->na;
  if (direction->ctrl) d.control = direction->ctrl + m->nu;
  if (!direction->theta) return d;

  d.theta = direction->theta + m->deform_theta;
  d.h = direction->theta[m->timestep - m->theta0];
  if (gravity_acts(m)) d.gravity = direction->theta + (m->gravity - m->theta0);

  return d;
}

// ---- the step -------------------------------------------------------------------------------------------------------------
void pbScratch_NoteDeform(pbScratch *s) {
  const pbDeformReport *from = &s->deform->report;
  pbReport *to = &s->report;

  to->iterations = from->iterations > to->iterations ? from->iterations : to->iterations;
  to->residual = from->residual > to->residual ? from->residual : to->residual;
  // Of bodies and deformables the worse
  to->converged = to->converged && from->converged;
  to->deforms = true;
  if (s->deform->barrier) to->contacts += pbBarrier_ContactCount(s->deform->barrier);
}

static pbStatus fail_at(pbScratch *s, pbStatus status, double time) {
  return pbScratch_Fail(s, status, "%s at time %.9g", s->deform->error, time);
}

// The deformables' part of a state, with points attached to bodies where those are.
static const double *state_of(pbScratch *s, const double *theta, const double *x, const pbInput *input) {
  return s->couple ? pbCouple_State(s, theta, x, input) : x + state_layout(s->model).deform;
}

pbStatus pbScratch_DeformStep(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *next) {
  pbDeformInput in = pbDeformInput_Of(s->model, theta, x, input);
  pbStatus status = pbDeform_Step(s->deform, &in, state_of(s, theta, x, input), next + state_layout(s->model).deform);

  if (status != pb_ok) return fail_at(s, status, in.time);
  pbScratch_NoteDeform(s);
  return pb_ok;
}

void pbScratch_DeformRecord(const pbScratch *s, double *record) {
  const pbModel *m = s->model;
  size_t points = 3 * (size_t)m->deform->npoint;

  memcpy(record, s->state + state_layout(m).deform, (size_t)m->deform_state * sizeof(double));
  // The preconditioner's point, and whether it has one: a coupled step leaves none.
  memcpy(record + m->deform_state, s->deform->preconditioner_x, points * sizeof(double));
  record[m->deform_state + (int)points] = !pb_coupled(m) && s->deform->preconditioner_valid;
}

bool pbScratch_KinkedElement(pbScratch *s, char *text, size_t size) {
  return s->deform && pbDeform_FindKink(s->deform, text, size);
}

void pbScratch_GuessDeform(pbScratch *s, const double *record) {
  if (!s->deform) return;

  // The state after the step stands behind the bodies' part of the record.
  const pbModel *m = s->model;
  s->deform->guess = record ? record + pbTape_Size(m) - pb_deformRecord(m) + pbDeform_State(m->deform).x : NULL;
  // The accelerations found, of bodies that share the step's minimum.
  if (s->couple) s->couple->guess = record && pb_coupled(m) ? record + tape_stages(m) : NULL;
}

// ---- derivatives ----------------------------------------------------------------------------------------------------------
pbStatus pbScratch_DeformVjp(pbScratch *s, const pbStepRecord *step, const double *next_bar, const pbStepBar *out) {
  const pbModel *m = s->model;
  int tangent = 2 * m->nv + m->na;
  const double *x = step->record;

  pbDeformInput in = pbDeformInput_Of(m, step->theta, x, step->input);
  pbDeformBar bar = pbDeformBar_Of(m, out->input, out->theta);
  in.ticks = s->ticks;

  // Behind the bodies' part of the record: the state after the step, the preconditioner's point, and whether there is one.
  const double *next = x + pbTape_Size(m) - pb_deformRecord(m);
  const double *point = next + m->deform_state;
  bool valid = point[3 * m->deform->npoint] != 0;
  pbDeformPreconditioner near = {valid ? point : NULL, step->cached};

  // Points attached to bodies that rest have cotangents of their own.
  pbStatus status;
  if (s->couple) {
    const pbRestingBar rest = pbCouple_RestBegin(s, next_bar + tangent);
    const double *state = pbCouple_State(s, step->theta, x, step->input);
    status = pbDeform_Vjp(s->deform, &in, state, next, &near, rest.next_bar, rest.state_bar, &bar);
    if (status == pb_ok) pbCouple_RestEnd(s, step, out);
  } else {
    const double *state = x + state_layout(m).deform;
    status = pbDeform_Vjp(s->deform, &in, state, next, &near, next_bar + tangent, out->x + tangent, &bar);
  }

  return status == pb_ok ? pb_ok : fail_at(s, status, in.time);
}

pbStatus pbScratch_DeformJvp(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, double *next) {
  const pbModel *m = s->model;
  int tangent = 2 * m->nv + m->na;
  const double *x = step->record;

  pbDeformInput in = pbDeformInput_Of(m, step->theta, x, step->input);
  pbDeformDirection d = pbDeformDirection_Of(m, direction);
  in.ticks = s->ticks;

  const double *state = state_of(s, step->theta, x, step->input);
  if (s->couple) d.state = pbCouple_RestTangent(s, step, direction);
  pbStatus status = pbDeform_Jvp(s->deform, &in, state, x + pbTape_Size(m) - pb_deformRecord(m), &d, next + tangent);

  return status == pb_ok ? pb_ok : fail_at(s, status, in.time);
}
