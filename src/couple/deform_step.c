// Deformables in the world's step and its derivatives: where the model, its state and theta hold what is theirs.
#include "couple/deform_step.h"

#include <math.h>
#include <string.h>

#include "base/context.h"
#include "math/vec.h"
#include "couple/couple.h"
#include "model/state_layout.h"

pbDeformInput pbDeformInput_Of(const pbModel *m, const double *theta, const double *x, const pbInput *input) {
  pbDeformInput in = {.theta = theta + m->deform_theta,
                      .control = input && input->ctrl ? input->ctrl + m->nu : NULL,
                      .h = theta[m->timestep - m->theta0],
                      .time = x[state_layout(m).time]};
  const double *g = theta + (m->gravity - m->theta0);
  for (int k = 0; k < 3; k++) in.gravity[k] = m->disableflags & pb_disGravity ? 0 : g[k];
  return in;
}

pbDeformBar pbDeformBar_Of(const pbModel *m, const pbInputBar *input_bar, double *theta_bar) {
  pbDeformBar bar = {.control = input_bar && input_bar->ctrl ? input_bar->ctrl + m->nu : NULL};
  if (!theta_bar) return bar;
  bar.theta = theta_bar + m->deform_theta;
  bar.gravity = m->disableflags & pb_disGravity ? NULL : theta_bar + (m->gravity - m->theta0);
  bar.h = theta_bar + (m->timestep - m->theta0);
  return bar;
}

void pbScratch_NoteDeform(pbScratch *s) {
  const pbDeformReport *r = &s->deform->report;
  s->report.iterations = r->iterations > s->report.iterations ? r->iterations : s->report.iterations;
  s->report.residual = r->residual > s->report.residual ? r->residual : s->report.residual;
  s->report.converged = s->report.converged && r->converged;
  s->report.deforms = true;
  if (s->deform->barrier) s->report.contacts += pbBarrier_ContactCount(s->deform->barrier);
}

static pbStatus failed(pbScratch *s, pbStatus status, double time) {
  return pbScratch_Fail(s, status, "%s at time %.9g", s->deform->error, time);
}

pbStatus pbScratch_DeformStep(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *next) {
  int at = state_layout(s->model).deform;
  pbDeformInput in = pbDeformInput_Of(s->model, theta, x, input);
  const double *state = s->couple ? pbCouple_State(s, theta, x) : x + at;
  pbStatus status = pbDeform_Step(s->deform, &in, state, next + at);
  if (status != pb_ok) return failed(s, status, in.time);
  pbScratch_NoteDeform(s);
  return pb_ok;
}

void pbScratch_DeformRecord(const pbScratch *s, double *record) {
  const pbModel *m = s->model;
  size_t points = 3 * (size_t)m->deform->npoint;
  memcpy(record, s->state + state_layout(m).deform, (size_t)m->deform_state * sizeof(double));
  memcpy(record + m->deform_state, s->deform->anchor, points * sizeof(double));
  record[m->deform_state + (int)points] = !pb_coupled(m) && s->deform->anchored;
}

pbStatus pbScratch_DeformVjp(pbScratch *s, const double *theta, const double *record, const void *kept, const pbInput *input,
                             const double *next_bar, double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  const pbModel *m = s->model;
  int at = state_layout(m).deform, tangent = 2 * m->nv + m->na;
  pbDeformInput in = pbDeformInput_Of(m, theta, record, input);
  in.ticks = s->ticks;
  pbDeformBar bar = pbDeformBar_Of(m, input_bar, theta_bar);
  const double *next = record + pbTape_Size(m) - pb_deformRecord(m);
  const double *anchor = next + m->deform_state;
  pbDeformAnchor near = {anchor[3 * m->deform->npoint] != 0 ? anchor : NULL, kept};
  pbStatus status;
  if (s->couple) {
    const pbRestingBar rest = pbCouple_RestBegin(s, next_bar + tangent);
    status = pbDeform_Vjp(s->deform, &in, pbCouple_State(s, theta, record), next, &near, rest.next_bar, rest.state_bar, &bar);
    if (status == pb_ok) pbCouple_RestEnd(s, theta, record, x_bar + tangent, theta_bar);
  } else {
    status = pbDeform_Vjp(s->deform, &in, record + at, next, &near, next_bar + tangent, x_bar + tangent, &bar);
  }
  return status == pb_ok ? pb_ok : failed(s, status, in.time);
}

pbDeformDirection pbDeformDirection_Of(const pbModel *m, const pbDirection *direction) {
  pbDeformDirection d = {.state = direction->x ? direction->x + 2 * m->nv + m->na : NULL,
                         .control = direction->ctrl ? direction->ctrl + m->nu : NULL};
  if (!direction->theta) return d;
  d.theta = direction->theta + m->deform_theta;
  d.gravity = m->disableflags & pb_disGravity ? NULL : direction->theta + (m->gravity - m->theta0);
  d.h = direction->theta[m->timestep - m->theta0];
  return d;
}

pbStatus pbScratch_DeformJvp(pbScratch *s, const double *theta, const double *record, const pbInput *input,
                             const pbDirection *direction, double *next) {
  const pbModel *m = s->model;
  int at = state_layout(m).deform, tangent = 2 * m->nv + m->na;
  pbDeformInput in = pbDeformInput_Of(m, theta, record, input);
  in.ticks = s->ticks;
  pbDeformDirection d = pbDeformDirection_Of(m, direction);
  const double *state = s->couple ? pbCouple_State(s, theta, record) : record + at;
  if (s->couple) d.state = pbCouple_RestWay(s, theta, record, direction);
  pbStatus status = pbDeform_Jvp(s->deform, &in, state, record + pbTape_Size(m) - pb_deformRecord(m), &d, next + tangent);
  return status == pb_ok ? pb_ok : failed(s, status, in.time);
}
