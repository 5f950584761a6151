// Deformables in the world's step and its derivatives: where the model, its state and theta hold what is theirs.
#include "world/deform_step.h"

#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "world/state_layout.h"

// ---- the model ------------------------------------------------------------------------------------------------------
static pbStatus no_memory(const pbModel *m) { return pbContext_Fail(m->ctx, pb_no_memory, "no memory for deformables"); }

// Their controls answer to names as actuators do.
static pbStatus add_control_names(pbModel *m, const pbDeform *d) {
  int before = m->names_count[pb_objActuator], after = before + d->ncontrol;
  char **names = pbContext_AllocArray(m->ctx, (size_t)after + 1, sizeof *names);
  if (!names) return no_memory(m);
  if (before) memcpy(names, m->names[pb_objActuator], (size_t)before * sizeof *names);
  pbContext_Free(m->ctx, m->names[pb_objActuator]);
  m->names[pb_objActuator] = names;
  for (; m->names_count[pb_objActuator] < after; m->names_count[pb_objActuator]++) {
    int i = m->names_count[pb_objActuator];
    if (!(names[i] = pbContext_CopyText(m->ctx, d->control_name[i - before]))) return no_memory(m);
  }
  return pb_ok;
}

pbStatus pbModel_SetDeformable(pbModel *m, const pbDeformable *from) {
  pbDeform *d;
  if (m->deform) return pbContext_Fail(m->ctx, pb_bad_argument, "the model has deformables already");
  if (m->integrator == pb_intRK4)
    return pbContext_Fail(m->ctx, pb_unsupported,
                          "deformables need the integrator Euler or implicitfast: RK4 has no implicit step");
  PB_TRY(pbDeform_Compile(m->ctx, from, &d));
  size_t at = m->ntheta;
  pbStatus status = pbModel_GrowParams(m, d->ntheta);
  if (status == pb_ok) status = add_control_names(m, d);
  if (status != pb_ok) {
    pbDeform_Destroy(d);
    return status;
  }
  memcpy(m->theta0 + at, d->theta0, d->ntheta * sizeof(double));
  m->deform = d;
  m->deform_theta = at;
  m->deform_state = pbDeform_State(d).size;
  m->deform_tangent = pbDeform_State(d).tangent;
  m->deform_controls = d->ncontrol;
  return pb_ok;
}

void pbModel_StartControls(const pbModel *m, int keyframe, double *ctrl) {
  for (int i = 0; i < m->nu; i++) ctrl[i] = keyframe >= 0 && keyframe < m->nkey ? m->key_ctrl[keyframe * m->nu + i] : 0;
  if (m->deform_controls) memcpy(ctrl + m->nu, m->deform->control0, (size_t)m->deform_controls * sizeof *ctrl);
}

pbStatus pbModel_PointMasses(const pbModel *m, const double *theta, double *mass) {
  pbDeformWork *w;
  if (!m->deform) return pb_ok;
  PB_TRY(pbDeformWork_Create(m->deform, &w));
  w->in.theta = theta + m->deform_theta;
  w->scheme = pbScheme_Table(pb_schemeStatic, true);  // which asks for none
  pbStatus status = pbDeform_Masses(w);
  if (status == pb_ok) memcpy(mass, w->mass, (size_t)m->deform->npoint * sizeof *mass);
  else status = pbContext_Fail(m->ctx, status, "%s", w->error);
  pbDeformWork_Destroy(w);
  return status;
}

int pbModel_PointCount(const pbModel *m) { return m->deform ? m->deform->npoint : 0; }

const int *pbModel_PointSet(const pbModel *m, const char *name, int *count) {
  for (int i = 0; m->deform && i < m->deform->nset; i++) {
    const pbPointSet *s = &m->deform->set[i];
    if (strcmp(s->name, name)) continue;
    *count = s->count;
    return s->points;
  }
  return NULL;
}

const char *pbModel_PointSetName(const pbModel *m, int index) {
  return m->deform && index >= 0 && index < m->deform->nset ? m->deform->set[index].name : NULL;
}

bool pbModel_DeformGroupAt(const pbModel *m, int index, pbDeformGroup *group) {
  if (!m->deform || index < 0 || index >= m->deform->ngroup) return false;
  const pbElementGroup *g = &m->deform->group[index];
  *group = (pbDeformGroup){g->name, g->count, g->points, g->vertex};
  return true;
}

// ---- state ----------------------------------------------------------------------------------------------------------
static const char *const field_names[] = {"points", "point_velocity", "points_before", "point_velocity_before", "points_begun"};

int pbDeform_FieldCount(const pbDeform *d) { return pbDeform_State(d).size > 6 * d->npoint ? 5 : 2; }

pbStateField pbDeform_FieldAt(const pbDeform *d, int index, int base) {
  int n = 3 * d->npoint;
  if (index < 0 || index >= pbDeform_FieldCount(d)) return (pbStateField){NULL, 0, 0};
  return (pbStateField){field_names[index], base + index * n, index == 4 ? 1 : n};
}

char *pbDeform_EntryName(const pbDeform *d, int entry, char *text, size_t size) {
  int n = 3 * d->npoint, field = n ? entry / n : 4, i = n ? entry % n : 0;
  if (field >= 4) snprintf(text, size, "points_begun");
  else snprintf(text, size, "%s[%d] (point %d, %c)", field_names[field], i, i / 3, "xyz"[i % 3]);
  return text;
}

void pbDeform_Init(const pbDeform *d, double *state) {
  pbDeformState at = pbDeform_State(d);
  size_t bytes = 3 * (size_t)d->npoint * sizeof(double);
  memcpy(state + at.x, d->start, bytes);
  memcpy(state + at.v, d->velocity, bytes);
}

// ---- step -----------------------------------------------------------------------------------------------------------
static pbDeformInput input_of(const pbModel *m, const double *theta, const double *x, const pbInput *input) {
  pbDeformInput in = {.theta = theta + m->deform_theta,
                      .control = input && input->ctrl ? input->ctrl + m->nu : NULL,
                      .h = theta[m->timestep - m->theta0],
                      .time = x[state_layout(m).time]};
  const double *g = theta + (m->gravity - m->theta0);
  for (int k = 0; k < 3; k++) in.gravity[k] = m->disableflags & pb_disGravity ? 0 : g[k];
  return in;
}

static pbStatus failed(pbScratch *s, pbStatus status, double time) {
  return pbScratch_Fail(s, status, "%s at time %.9g", s->deform->error, time);
}

pbStatus pbScratch_DeformStep(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *next) {
  int at = state_layout(s->model).deform;
  pbDeformInput in = input_of(s->model, theta, x, input);
  pbStatus status = pbDeform_Step(s->deform, &in, x + at, next + at);
  if (status != pb_ok) return failed(s, status, in.time);
  const pbDeformReport *r = &s->deform->report;
  s->report.iterations = r->iterations > s->report.iterations ? r->iterations : s->report.iterations;
  s->report.residual = r->residual > s->report.residual ? r->residual : s->report.residual;
  s->report.converged = s->report.converged && r->converged;
  if (s->deform->barrier) s->report.contacts += pbBarrier_ContactCount(s->deform->barrier);
  return pb_ok;
}

pbStatus pbScratch_DeformVjp(pbScratch *s, const double *theta, const double *record, const pbInput *input,
                             const double *next_bar, double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  const pbModel *m = s->model;
  int at = state_layout(m).deform, tangent = 2 * m->nv + m->na;
  pbDeformInput in = input_of(m, theta, record, input);
  pbDeformBar bar = {.control = input_bar && input_bar->ctrl ? input_bar->ctrl + m->nu : NULL};
  if (theta_bar) {
    bar.theta = theta_bar + m->deform_theta;
    bar.gravity = m->disableflags & pb_disGravity ? NULL : theta_bar + (m->gravity - m->theta0);
    bar.h = theta_bar + (m->timestep - m->theta0);
  }
  const double *next = record + pbTape_Size(m) - m->deform_state;
  pbStatus status = pbDeform_Vjp(s->deform, &in, record + at, next, next_bar + tangent, x_bar + tangent, &bar);
  return status == pb_ok ? pb_ok : failed(s, status, in.time);
}

pbStatus pbScratch_DeformJvp(pbScratch *s, const double *theta, const double *record, const pbInput *input,
                             const pbDirection *direction, double *next) {
  const pbModel *m = s->model;
  int at = state_layout(m).deform, tangent = 2 * m->nv + m->na;
  pbDeformInput in = input_of(m, theta, record, input);
  pbDeformDirection d = {.state = direction->x ? direction->x + tangent : NULL,
                         .control = direction->ctrl ? direction->ctrl + m->nu : NULL};
  if (direction->theta) {
    d.theta = direction->theta + m->deform_theta;
    d.gravity = m->disableflags & pb_disGravity ? NULL : direction->theta + (m->gravity - m->theta0);
    d.h = direction->theta[m->timestep - m->theta0];
  }
  pbStatus status = pbDeform_Jvp(s->deform, &in, record + at, record + pbTape_Size(m) - m->deform_state, &d, next + tangent);
  return status == pb_ok ? pb_ok : failed(s, status, in.time);
}
