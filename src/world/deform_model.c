// Deformables become part of a model: checks, bodies that points are attached to, parameters, names of controls.
#include <string.h>

#include "base/context.h"
#include "couple/attach.h"
#include "couple/deform_step.h"
#include "deform/deformable.h"
#include "math/vec.h"
#include "step/scratch.h"

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

// Bodies by name, places of the points on them in the reference configuration, and whether one of the bodies can move.
static pbStatus find_bodies(pbModel *m, const pbDeformable *from, int *bodies, double *places, bool *moving) {
  pbScratch *s;
  if (from->nattached == 0) return pb_ok;
  for (int i = 0; i < from->nattached; i++) {
    const pbAttachmentDef *r = &from->attachments[i];
    bodies[i] = r->geom >= 0 ? m->geom_bodyid[r->geom] : strcmp(r->body, "world") ? pbModel_Id(m, pb_objBody, r->body) : 0;
    if (bodies[i] < 0)
      return pbContext_Fail(m->ctx, pb_bad_input, "points are attached to the body '%.100s', which the model does not have",
                            r->body);
    *moving = *moving || m->body_weldid[bodies[i]] != 0;
  }
  PB_TRY(pbScratch_Create(m->ctx, m, NULL, &s));
  double *x = s->state;
  pbStatus status = pbState_Init(m->ctx, m, m->theta0, -1, x);
  if (status == pb_ok) {
    pbScratch_Load(s, m->theta0, x, NULL);
    pbStage_Kinematics_r(&s->w);
    for (int i = 0; i < from->nattached; i++) {
      const pbAttachmentDef *r = &from->attachments[i];
      const pbAttachments point = {1, bodies + i, &r->geom, r->size};
      pbAttach_Positions_r(&s->w, &point, r->local, places + 3 * i);
    }
  }
  pbScratch_Destroy(s);
  return status;
}

static pbStatus coupled_needs(pbContext *ctx, const char *text) {
  return text ? pbContext_Fail(ctx, pb_unsupported, "deformables that hang on bodies that move need %s", text) : pb_ok;
}

// What options and contact settings leave possible.
static pbStatus check_model(pbContext *ctx, const pbModel *m, bool coupled) {
  if (m->integrator == pb_intRK4)
    return pbContext_Fail(ctx, pb_unsupported, "deformables need the integrator Euler or implicitfast: RK4 has no implicit step");
  return coupled_needs(ctx, !coupled                                              ? NULL
                            : m->integrator != pb_intEuler                        ? "the integrator Euler"
                            : pb_hard(m) || m->contact.method == pb_contactImpact ? "the contact method soft or penalty"
                                                                                  : NULL);
}

static pbStatus check_coupled(pbContext *ctx, const pbDeformable *from) {
  return coupled_needs(ctx, from->options.scheme != pb_schemeImplicitEuler ? "the scheme implicit_euler"
                            : from->options.method != pb_minimiseNewton    ? "the method newton"
                            : from->contact.kind == pb_frictionImplicit    ? "friction that is lagged"
                                                                           : NULL);
}

pbStatus pbModel_CheckDeform(pbContext *ctx, const pbModel *m) {
  if (!m->deform) return pb_ok;
  PB_TRY(check_model(ctx, m, m->deform->coupled));
  bool damped = m->deform->coupled && !(m->disableflags & pb_disEulerdamp);  // attached points move as under explicit damping
  return coupled_needs(ctx, damped ? "the flag eulerdamp off: joint damping acts explicitly" : NULL);
}

pbStatus pbModel_Check(pbContext *ctx, const pbModel *m) {
  PB_TRY(pbModel_CheckContact(ctx, m));
  return pbModel_CheckDeform(ctx, m);
}

pbStatus pbModel_SetDeformable(pbModel *m, const pbDeformable *from) {
  pbDeform *d;
  if (m->deform) return pbContext_Fail(m->ctx, pb_bad_argument, "the model has deformables already");
  double *places = pbContext_AllocArray(m->ctx, 3 * (size_t)from->nattached + 1, sizeof(double));
  int *bodies = pbContext_AllocArray(m->ctx, (size_t)from->nattached + 1, sizeof(int));
  bool moving = false;
  pbStatus status = places && bodies ? find_bodies(m, from, bodies, places, &moving) : no_memory(m);
  if (status == pb_ok) status = check_model(m->ctx, m, moving);
  if (status == pb_ok && moving) status = check_coupled(m->ctx, from);
  if (status == pb_ok) status = pbDeform_Compile(m->ctx, from, bodies, places, &d);
  pbContext_Free(m->ctx, places);
  pbContext_Free(m->ctx, bodies);
  PB_TRY(status);
  d->coupled = moving;
  if (moving) m->disableflags |= pb_disEulerdamp;
  size_t at = m->ntheta;
  status = pbModel_GrowParams(m, d->ntheta);
  if (status == pb_ok) status = add_control_names(m, d);
  if (status != pb_ok) {
    pbDeform_Destroy(d);
    return status;
  }
  memcpy(m->theta0 + at, d->theta0, d->ntheta * sizeof(double));
  m->deform = d;
  m->deform_theta = at;
  m->revision++;
  m->deform_state = pbDeform_State(d).size;
  m->deform_tangent = pbDeform_State(d).tangent;
  m->deform_controls = d->ncontrol;
  return pb_ok;
}

void pbModel_StartControls(const pbModel *m, int keyframe, double *ctrl) {
  for (int i = 0; i < m->nu; i++) ctrl[i] = keyframe >= 0 && keyframe < m->nkey ? m->key_ctrl[keyframe * m->nu + i] : 0;
  if (m->deform_controls) memcpy(ctrl + m->nu, m->deform->control0, (size_t)m->deform_controls * sizeof *ctrl);
}

pbStatus pbModel_PointMasses(pbContext *ctx, const pbModel *m, const double *theta, double *mass) {
  pbDeformWork *w;
  if (!m->deform) return pb_ok;
  PB_TRY(pbDeformWork_Create(ctx, m->deform, NULL, &w));
  w->in.theta = theta + m->deform_theta;
  w->scheme = pbScheme_Table(pb_schemeStatic, true);  // which asks for none
  pbStatus status = pbDeform_Masses(w);
  if (status == pb_ok) memcpy(mass, w->mass, (size_t)m->deform->npoint * sizeof *mass);
  else status = pbContext_Fail(ctx, status, "%s", w->error);
  pbDeformWork_Destroy(w);
  return status;
}

pbStatus pbModel_PointMesh(pbContext *ctx, const pbModel *m, const double *theta, pbMesh **mesh) {
  static const pbCellSets none = {0};
  if (!m->deform) return pbCellSets_Mesh(ctx, &none, 0, NULL, mesh);
  return pbCellSets_Mesh(ctx, &m->deform->cells, m->deform->npoint, theta + m->deform_theta + pb_restAt, mesh);
}

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
  *group = (pbDeformGroup){.name = g->name,
                           .energy = pbEnergy_Definition(g->energy)->name,
                           .mass = g->mass,
                           .count = g->count,
                           .points = g->points,
                           .vertex = g->vertex};
  return true;
}

bool pbModel_DeformInfo(const pbModel *m, pbDeformInfo *info) {
  if (!m->deform) return false;

  const pbDeform *d = m->deform;
  *info = (pbDeformInfo){
      .scheme = d->options.scheme, .method = d->options.method, .points = d->npoint, .moving = d->nfree, .controls = d->ncontrol};
  return true;
}

bool pbModel_SceneryAt(const pbModel *m, int index, pbScenery *scenery) {
  if (!m->deform || index < 0 || index >= m->deform->nscenery) return false;

  const pbSceneryPoints *s = &m->deform->scenery[index];
  *scenery = (pbScenery){.name = s->name, .geom = s->geom, .first = s->first, .count = s->count};
  return true;
}
