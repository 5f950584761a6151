// Deformables become part of a model: checks, bodies that points are attached to, parameters, names of controls.
// Tests: tests/unit/test_task_deform.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "couple/attach.h"
#include "couple/deform_step.h"
#include "deform/deformable.h"
#include "elementary/elementary.h"
#include "eval/stages.h"
#include "math/vec.h"
#include "model/history.h"
#include "model/motor.h"
#include "step/scratch.h"

static pbStatus no_memory(const pbModel *m) { return pbContext_Fail(m->ctx, pb_no_memory, "no memory for deformables"); }

// Their controls answer to names as actuators do.
static pbStatus add_control_names(pbModel *m, const pbDeform *d) {
  int *count = &m->names_count[pb_objActuator];
  int before = *count;
  int after = before + d->ncontrol;
  char **names = pbContext_AllocArray(m->ctx, (size_t)after + 1, sizeof *names);
  if (!names) return no_memory(m);
  // The names of the actuators come first.
  if (before) memcpy(names, m->names[pb_objActuator], (size_t)before * sizeof *names);
  pbContext_Free(m->ctx, m->names[pb_objActuator]);
  m->names[pb_objActuator] = names;

  // The count follows name by name: so many are freed if one is missing.
  for (; *count < after; (*count)++) {
    names[*count] = pbContext_CopyText(m->ctx, d->control_name[*count - before]);
    if (!names[*count]) return no_memory(m);
  }

  return pb_ok;
}

// ---- attached points ------------------------------------------------------------------------------------------------------
// Of the points attached: their bodies, their positions in the reference configuration, and whether one of the bodies has dofs.
typedef struct attached {
  int *bodies;
  double *positions;
  bool moving;
} attached;

// Of a point on a geom that of the geom, else by its name; -1: there is none.
static int body_of(const pbModel *m, const pbAttachmentDef *a) {
  if (a->geom >= 0) return m->geom_bodyid[a->geom];
  return strcmp(a->body, "world") ? pbModel_Id(m, pb_objBody, a->body) : 0;
}

static pbStatus find_bodies(const pbModel *m, const pbDeformable *from, attached *to) {
  for (int i = 0; i < from->nattached; i++) {
    const pbAttachmentDef *a = &from->attachments[i];
    to->bodies[i] = body_of(m, a);
    if (to->bodies[i] < 0)
      return pbContext_Fail(m->ctx, pb_bad_input, "points are attached to the body '%.100s', which the model does not have",
                            a->body);
    to->moving = to->moving || m->body_dofnum[m->body_weldid[to->bodies[i]]] != 0;
  }

  return pb_ok;
}

// By kinematics of the reference configuration, in a scratch of its own.
static pbStatus find_positions(const pbModel *m, const pbDeformable *from, const attached *to) {
  pbScratch *s;

  PB_TRY(pbScratch_Create(m->ctx, m, NULL, &s));
  pbStatus status = pbState_Init(m->ctx, m, m->theta0, -1, s->state);
  if (status == pb_ok) {
    pbScratch_Load(s, m->theta0, s->state, NULL);
    pbStage_Kinematics_r(&s->w.mechanism);
    pbStage_AllGeoms_r(&s->w.mechanism);
    for (int i = 0; i < from->nattached; i++) {
      const pbAttachmentDef *a = &from->attachments[i];
      // One point at a time
      const pbAttachments point = {1, to->bodies + i, &a->geom, a->size};
      pbAttach_Positions_r(&s->w, &point, a->local, to->positions + 3 * i);
    }
  }
  pbScratch_Destroy(s);

  return status;
}

// ---- what goes together ---------------------------------------------------------------------------------------------------
// NULL: nothing is missing.
static pbStatus require_coupled(pbContext *ctx, const char *missing) {
  if (!missing) return pb_ok;
  return pbContext_Fail(ctx, pb_unsupported, "deformables attached to bodies that move need %s", missing);
}

// What options and contact settings admit.
static pbStatus check_model(pbContext *ctx, const pbModel *m, bool coupled) {
  if (m->integrator == pb_intRK4)
    return pbContext_Fail(ctx, pb_unsupported, "deformables need the integrator Euler or implicitfast: RK4 has no implicit step");
  if (!coupled) return pb_ok;

  // A coupled step is one minimum: of semi-implicit Euler, and of convex contact potentials (docs/coupling.md).
  const char *missing = NULL;
  if (pb_hard(m) || m->contact.method == pb_contactImpact) missing = "the contact method soft or penalty";
  if (m->integrator != pb_intEuler) missing = "the integrator Euler";
  if (pb_noslip(m)) missing = "the option noslip_iterations=0: sweeps against slip do not see points";

  return require_coupled(ctx, missing);
}

static pbStatus check_coupled(pbContext *ctx, const pbDeformable *from) {
  const char *missing = NULL;
  if (from->contact.kind == pb_frictionImplicit) missing = "friction that is lagged";
  if (from->options.method != pb_minimizeNewton) missing = "the method newton";
  if (from->options.scheme != pb_schemeImplicitEuler) missing = "the scheme implicit_euler";
  return require_coupled(ctx, missing);
}

pbStatus pbModel_CheckDeform(pbContext *ctx, const pbModel *m) {
  if (!m->deform) return pb_ok;
  return check_model(ctx, m, m->deform->coupled);
}

pbStatus pbModel_Check(pbContext *ctx, const pbModel *m) {
  PB_TRY(pbModel_CheckContact(ctx, m));
  PB_TRY(pbHistory_Check(ctx, m));
  PB_TRY(pbMotor_Check(ctx, m));
  return pbModel_CheckDeform(ctx, m);
}

// A coupled step is the minimum of a potential: freeze() makes forces that have none.
static pbStatus check_potential(pbContext *ctx, const pbDeform *d) {
  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    if (g->mass || pbEnergy_Symmetric(g->energy)) continue;
    // Masses and symmetric formulas have one.
    char missing[200];
    snprintf(missing, sizeof missing, "forces with a potential: the formula of '%.80s' has none, by its freeze()", g->name);
    return require_coupled(ctx, missing);
  }

  return pb_ok;
}

// ---- into the model ---------------------------------------------------------------------------------------------------------
static pbStatus compile(pbModel *m, const pbDeformable *from, attached *to, pbDeform **deform) {
  if (!to->positions || !to->bodies) return no_memory(m);
  // Where they are attached says whether they couple, and that what else must hold.
  PB_TRY(find_bodies(m, from, to));
  if (from->nattached > 0) PB_TRY(find_positions(m, from, to));
  PB_TRY(check_model(m->ctx, m, to->moving));
  if (to->moving) PB_TRY(check_coupled(m->ctx, from));
  PB_TRY(pbDeform_Compile(m->ctx, from, to->bodies, to->positions, deform));
  pbStatus status = to->moving ? check_potential(m->ctx, *deform) : pb_ok;
  if (status != pb_ok) pbDeform_Destroy(*deform);

  return status;
}

// Parameters and controls go behind those of the bodies.
static pbStatus add_to_model(pbModel *m, pbDeform *d) {
  size_t at = m->ntheta;

  PB_TRY(pbModel_GrowParams(m, d->ntheta));
  PB_TRY(add_control_names(m, d));

  memcpy(m->theta0 + at, d->theta0, d->ntheta * sizeof(double));
  m->deform = d;
  m->deform_theta = at;
  m->deform_state = pbDeform_State(d).size;
  m->deform_tangent = pbDeform_State(d).tangent;
  m->deform_controls = d->ncontrol;
  m->revision++;
  PB_ASSERT(m->ntheta == at + d->ntheta && m->names_count[pb_objActuator] == pb_controls(m));

  return pb_ok;
}

// ---- what a description will show that its author may not expect (docs/deformables.md) --------------------------------------
// Linear tetrahedra of a material that hardly changes its volume are much too stiff in bending.
static void warn_of_locking(const pbModel *m, const pbDeform *d) {
  static const double limit = 0.4;

  for (const pbElementGroup *g = d->group; g < d->group + d->ngroup; g++) {
    const char *law = g->mass ? "" : pbEnergy_Definition(g->energy)->name;
    bool linear = strstr(law, "_tetrahedron") && g->points == 4;
    int count = linear ? g->parameter_count : 0;

    // Each that has a ratio of Poisson's, by its largest value.
    for (int i = 0; i < count; i++) {
      // Of many rows the stiffest counts.
      const pbGroupParameter *p = &g->parameter[i];
      double most = 0;
      if (strcmp(p->def->name, "poisson") || p->source != pb_fromTheta) continue;
      for (int k = 0; k < p->rows; k++) most = fmax(most, d->theta0[p->offset + (size_t)k]);
      if (most > limit)
        pbContext_Warn(
            m->ctx,
            "%.100s: linear tetrahedra lock at Poisson's ratio %.3g: slender parts bend far too little; \"quadratic\": true "
            "does not (docs/deformables.md#locking)",
            g->name, most);
    }
  }
}

// w^2 of what spins: squared velocities over squared distances, both about the mean.
static double spin_of(const pbDeform *d, const pbPointSet *set) {
  double squares[2] = {0};
  // Axis by axis: means, then squares about them.
  for (int k = 0; k < 3; k++) {
    double mean[2] = {0};
    for (int i = 0; i < set->count; i++) {
      mean[0] += d->start[3 * set->points[i] + k] / set->count;
      mean[1] += d->velocity[3 * set->points[i] + k] / set->count;
    }
    for (int i = 0; i < set->count; i++) {
      double x = d->start[3 * set->points[i] + k] - mean[0];
      double v = d->velocity[3 * set->points[i] + k] - mean[1];
      squares[0] += x * x;
      squares[1] += v * v;
    }
  }

  return squares[0] > 0 ? squares[1] / squares[0] : 0;
}

// Implicit Euler takes about the share w^2 h of the energy of a turn or vibration a second.
static void warn_of_lost_energy(const pbModel *m, const pbDeform *d) {
  static const double limit = 0.1;
  const pbPointSet *found = NULL;
  double worst = limit;
  if (d->options.scheme != pb_schemeImplicitEuler) return;

  // The set that loses most.
  for (const pbPointSet *s = d->set; s < d->set + d->nset; s++) {
    double rate = s->count > 2 ? spin_of(d, s) * *m->timestep : 0;
    if (!(rate > worst)) continue;
    worst = rate;
    found = s;
  }
  if (found)
    pbContext_Warn(m->ctx,
                   "%.100s: at its start velocities the scheme implicit_euler loses about %.0f %% of the energy of turns and "
                   "vibrations in a second; bdf2, trapezoid and avf4 do not (docs/deformables.md#energy)",
                   found->name, 100 * (1 - pbExp(-worst)));
}

pbStatus pbModel_SetDeformable(pbModel *m, const pbDeformable *from) {
  pbDeform *d;

  if (m->deform) return pbContext_Fail(m->ctx, pb_bad_argument, "the model has deformables already");
  if (m->policy)
    return pbContext_Fail(m->ctx, pb_bad_argument,
                          "the model has a policy already: deformables come before it, with their controls");

  size_t count = (size_t)from->nattached;
  attached to = {.positions = pbContext_AllocArray(m->ctx, 3 * count + 1, sizeof(double)),
                 .bodies = pbContext_AllocArray(m->ctx, count + 1, sizeof(int))};
  pbStatus status = compile(m, from, &to, &d);
  pbContext_Free(m->ctx, to.positions);
  pbContext_Free(m->ctx, to.bodies);
  PB_TRY(status);

  d->coupled = to.moving;
  status = add_to_model(m, d);
  if (status != pb_ok) {
    pbDeform_Destroy(d);
    return status;
  }

  // What is allowed, and seldom meant.
  warn_of_locking(m, d);
  warn_of_lost_energy(m, d);

  return pb_ok;
}

// ---- what callers ask -------------------------------------------------------------------------------------------------------
void pbModel_StartControls(const pbModel *m, int keyframe, double *ctrl) {
  bool exists = keyframe >= 0 && keyframe < m->nkey;
  for (int i = 0; i < m->nu; i++) ctrl[i] = exists ? m->key_ctrl[keyframe * m->nu + i] : 0;
  // Keyframes have none of the deformables.
  if (m->deform_controls) memcpy(ctrl + m->nu, m->deform->control0, (size_t)m->deform_controls * sizeof *ctrl);
}

pbStatus pbModel_PointMasses(pbContext *ctx, const pbModel *m, const double *theta, double *mass) {
  pbDeformWork *w;

  if (!m->deform) return pb_ok;
  PB_TRY(pbDeformWork_Create(ctx, m->deform, NULL, &w));

  // Statics ask for no masses, so none are refused.
  w->in.theta = theta + m->deform_theta;
  w->scheme = pbScheme_Table(pb_schemeStatic, true);
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
  if (!m->deform) return NULL;

  for (int i = 0; i < m->deform->nset; i++) {
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
