// What an audit sees of its runs while they go: overlaps in steps and, of fast motion, between them; forces of actuators, at
// their own place and at joints; limits and equalities that give way. Tests: tests/oracle/test_audit.py, validation/K109.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "model/equality.h"
#include "model/joint.h"
#include "model/model.h"
#include "optimize/audit.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "world/policy_step.h"

enum { MOST_PARTS = 256 };                // of a step, that are looked at
static const double share = 0.1;          // of the lesser size of a pair, that it may overlap,
static const double least_limit = 0.005;  // m: but this at least, and half of that size at most
static const double stop_angle = 0.035;   // rad: that limits and equalities may give way
static const double stop_length = 0.005;  // m: likewise

double pbAudit_DefaultAngle(void) { return stop_angle; }
double pbAudit_DefaultLength(void) { return stop_length; }

// ---- sizes ------------------------------------------------------------------------------------------------------------------
// The least extent of a geom; infinite where it has none, as planes and points.
static double thickness(const pbModel *m, int geom) {
  if (geom < 0 || geom >= m->ngeom || m->geom_type[geom] == pb_geomPlane || m->geom_type[geom] == pb_geomHfield) return INFINITY;

  const double *half = m->geom_aabb + 6 * geom + 3;
  double least = 2 * fmin(half[0], fmin(half[1], half[2]));

  // Points have no size to overlap by.
  return least > 0 ? least : INFINITY;
}

static double pair_thickness(const pbModel *m, int a, int b) { return fmin(thickness(m, a), thickness(m, b)); }

// What has to be passed on the way through a geom: of a field its base, where it is lowest.
static double depth(const pbModel *m, int geom) {
  bool field = geom >= 0 && geom < m->ngeom && m->geom_type[geom] == pb_geomHfield;
  return field ? m->hfield_size[4 * m->geom_dataid[geom] + 3] : thickness(m, geom);
}

static double pair_depth(const pbModel *m, int a, int b) { return fmin(depth(m, a), depth(m, b)); }

// How far a pair may overlap.
static double overlap_limit(const pbAuditWatch *w, int a, int b) {
  double size = pair_thickness(w->model, a, b);
  if (w->o->penetration > 0) return w->o->penetration;

  // Small things by half of them at most.
  return isfinite(size) ? fmin(fmax(share * size, least_limit), size / 2) : least_limit;
}

// ---- what counts most -------------------------------------------------------------------------------------------------------
// Keeps what is the largest part of its limit; true: this is.
static bool keep(pbAuditMost *most, double value, double limit) {
  PB_ASSERT(limit > 0);
  if (!(value > most->value / most->limit * limit)) return false;

  most->value = value;
  most->limit = limit;

  return true;
}

static const char *name_of(const pbModel *m, pbObject kind, int id) {
  const char *name = pbModel_Name(m, kind, id);
  return name ? name : "";
}

static void name_it(const pbModel *m, pbAuditMost *most, const char *kind, pbObject object, int id) {
  snprintf(most->name, sizeof most->name, "%s '%.80s'", kind, name_of(m, object, id));
}

// ---- overlaps ---------------------------------------------------------------------------------------------------------------
static void name_pair(const pbModel *m, pbAuditMost *most, int a, int b, const char *when) {
  const char *first = a >= 0 && a < m->ngeom ? name_of(m, pb_objGeom, a) : "";
  const char *second = b >= 0 && b < m->ngeom ? name_of(m, pb_objGeom, b) : "";
  snprintf(most->name, sizeof most->name, "geoms '%.36s' and '%.36s'%s", first, second, when);
}

static void watch_overlaps(pbAuditWatch *w, const pbScratch *s) {
  for (int i = 0; i < s->w.ncon; i++) {
    const pbContact_r *c = s->w.contact + i;
    if (!(c->dist < 0)) continue;

    if (keep(w->overlap, -c->dist, overlap_limit(w, c->geom1, c->geom2))) name_pair(w->model, w->overlap, c->geom1, c->geom2, "");
  }
}

// ---- between steps ------------------------------------------------------------------------------------------------------------
// How far any point of a geom went, at most: its center, and the corners of its box about it.
static double way_of(const pbAuditWatch *w, const pbScratch *s, int geom) {
  const double *x = s->w.geom_xpos + 3 * geom, *R = s->w.geom_xmat + 9 * geom;
  const double *before = w->pose + 12 * geom, *half = w->model->geom_aabb + 6 * geom + 3;
  double way, moved[3];

  // Of the center.
  for (int k = 0; k < 3; k++) moved[k] = x[k] - before[k];
  way = sqrt(moved[0] * moved[0] + moved[1] * moved[1] + moved[2] * moved[2]);
  if (!isfinite(thickness(w->model, geom))) return way;

  // Columns of the rotation, as far as the box reaches along each.
  for (int c = 0; c < 3; c++) {
    double turned = 0;
    for (int k = 0; k < 3; k++) turned += pbPow(R[3 * k + c] - before[3 + 3 * k + c], 2);
    way += sqrt(turned) * half[c];
  }

  return way;
}

static bool may_touch(const pbModel *m, int a, int b) {
  // Pairs that the model names.
  for (int i = 0; i < m->npair; i++) {
    int first = m->pair_geom1[i], second = m->pair_geom2[i];
    if ((first == a && second == b) || (first == b && second == a)) return true;
  }

  // By MuJoCo's bits; geoms of a body are one thing.
  bool types = (m->geom_contype[a] & m->geom_conaffinity[b]) || (m->geom_contype[b] & m->geom_conaffinity[a]);

  return types && m->geom_bodyid[a] != m->geom_bodyid[b];
}

// Near enough to have met on their ways.
static bool may_meet(const pbAuditWatch *w, const pbScratch *s, int a, int b, double way) {
  const double *x = s->w.geom_xpos + 3 * a, *y = s->w.geom_xpos + 3 * b;
  // By balls about both.
  double reach = w->model->geom_rbound[a] + w->model->geom_rbound[b] + way;
  double d[3] = {x[0] - y[0], x[1] - y[1], x[2] - y[2]};

  return d[0] * d[0] + d[1] * d[1] + d[2] * d[2] < reach * reach;
}

// Parts in which the step is to be looked at, so that no pair goes further than half of its size in one; 1: it is not.
static double parts_of_step(const pbAuditWatch *w, const pbScratch *s) {
  const pbModel *m = w->model;
  double parts = 1;

  for (int a = 0; a < m->ngeom; a++) {
    if (!(w->way[a] > 0)) continue;

    for (int b = 0; b < m->ngeom; b++) {
      // Two that move are a pair once. Nothing passes through a plane.
      double way = w->way[a] + w->way[b], size = pair_depth(m, a, b);
      bool once = b > a || !(w->way[b] > 0);
      if (!once || !(2 * way > size) || !isfinite(depth(m, a)) || !isfinite(depth(m, b))) continue;
      if (may_touch(m, a, b) && may_meet(w, s, a, b, way)) parts = fmax(parts, 2 * way / size);
    }
  }

  return parts;
}

static void watch_contacts_between(pbAuditWatch *w, const pbScratch *s) {
  const pbModel *m = w->model;

  for (int i = 0; i < s->w.ncon; i++) {
    const pbContact_r *c = s->w.contact + i;
    if (!(c->dist < 0) || c->geom1 < 0 || c->geom2 < 0 || c->geom1 >= m->ngeom || c->geom2 >= m->ngeom) continue;

    // Of pairs that might have passed through each other: never deeper than half of the thinner.
    double size = pair_depth(m, c->geom1, c->geom2), limit = overlap_limit(w, c->geom1, c->geom2);
    if (!(2 * (w->way[c->geom1] + w->way[c->geom2]) > size) || !isfinite(size)) continue;
    if (keep(w->overlap, -c->dist, fmin(limit, size / 2))) name_pair(m, w->overlap, c->geom1, c->geom2, ", between two steps");
  }
}

// Contacts on the straight way from the state before to x. What cannot be evaluated there is not known.
static pbStatus look_between(pbAuditWatch *w, const double *x, double parts) {
  const pbModel *m = w->model;
  int count = parts < MOST_PARTS ? (int)ceil(parts) : MOST_PARTS;
  pbInput input = {.mocap_pos = w->mocap_pos, .mocap_quat = w->mocap_quat};

  // Only where something is fast.
  if (!w->between) PB_TRY(pbScratch_Create(w->ctx, m, NULL, &w->between));
  PB_ASSERT(count > 1 && w->has_pose);

  for (int i = 1; i < count; i++) {
    memcpy(w->x, w->x_before, (size_t)pbModel_StateSize(m) * sizeof *w->x);
    pbState_Difference(m, w->x_before, x, w->tangent);
    pbState_Move(m, w->x, w->tangent, (double)i / count);
    pbStatus status = pbStep_Observe(m, w->theta, w->x, &input, w->between, NULL);
    if (status == pb_no_memory) return pbContext_Fail(w->ctx, status, "out of memory on the way to a state");
    if (status == pb_ok) watch_contacts_between(w, w->between);
  }

  return pb_ok;
}

static void note_poses(pbAuditWatch *w, const pbScratch *s, const double *x) {
  for (int g = 0; g < w->model->ngeom; g++) {
    memcpy(w->pose + 12 * g, s->w.geom_xpos + 3 * g, 3 * sizeof(double));
    memcpy(w->pose + 12 * g + 3, s->w.geom_xmat + 9 * g, 9 * sizeof(double));
  }

  // The state they are of.
  memcpy(w->x_before, x, (size_t)pbModel_StateSize(w->model) * sizeof(double));
  w->has_pose = true;
}

// From the last state that was seen to x, whose poses s has.
static void watch_way(pbAuditWatch *w, const pbScratch *s, const double *x) {
  if (w->has_pose && w->status == pb_ok) {
    for (int g = 0; g < w->model->ngeom; g++) w->way[g] = way_of(w, s, g);

    double parts = parts_of_step(w, s);
    if (parts > 1) w->status = look_between(w, x, parts);
  }

  note_poses(w, s, x);
}

// ---- limits and equalities --------------------------------------------------------------------------------------------------
static double norm3(const double *x) { return sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]); }

static void watch_limit(pbAuditWatch *w, const pbRow_r *r) {
  const pbModel *m = w->model;
  bool tendon = r->tendon >= 0;
  int type = tendon ? -1 : m->jnt_type[r->joint];
  bool angle = pbJoint_IsAngle(type) || pbJoint_HasRotation(type);

  // Negative beyond the limit.
  if (!keep(w->given_way, -r->pos[0], angle ? w->o->stop_angle : w->o->stop_length)) return;

  w->given_way->angle = angle;
  if (tendon) name_it(m, w->given_way, "limit of tendon", pb_objTendon, r->tendon);
  else name_it(m, w->given_way, "limit of joint", pb_objJoint, r->joint);
}

static void watch_equality(pbAuditWatch *w, const pbRow_r *r) {
  const pbModel *m = w->model;
  int e = r->equality;
  bool joints = pbEquality_Row(m->eq_type[e])->of == pb_ofJoints, angle = joints && pbJoint_IsAngle(m->jnt_type[m->eq_obj1id[e]]);
  double way = r->dim >= 3 ? norm3(r->pos) : fabs(r->pos[0]);
  PB_ASSERT(e >= 0 && e < m->neq);

  if (keep(w->given_way, way, angle ? w->o->stop_angle : w->o->stop_length)) {
    w->given_way->angle = angle;
    name_it(m, w->given_way, "equality", pb_objEquality, e);
  }

  // A weld turns as well.
  if (r->dim < 6 || !keep(w->given_way, norm3(r->pos + 3), w->o->stop_angle)) return;
  w->given_way->angle = true;
  name_it(m, w->given_way, "equality", pb_objEquality, e);
}

static void watch_rows(pbAuditWatch *w, const pbScratch *s) {
  for (int k = 0; k < s->w.nrow; k++) {
    const pbRow_r *r = s->w.row + k;
    if (r->kind == pb_rowLimit) watch_limit(w, r);
    if (r->kind == pb_rowEquality) watch_equality(w, r);
  }
}

// ---- forces -------------------------------------------------------------------------------------------------------------------
// The largest number of what a policy puts on degrees of freedom and bodies.
static double policy_force(const pbScratch *s) {
  const pbPolicyModel *p = s->model->policy;
  double most = 0;
  if (!p) return 0;

  // Controls are judged by what their actuators do.
  for (int i = 0; i < p->outputs; i++) {
    if (p->target[i].kind != pb_outputControl) most = fmax(most, fabs(p->target[i].scale * s->policy->out[i]));
  }

  return most;
}

// All actuators together at a degree of freedom, gears and arms counted. Forces of servos are those of rows.
static double actuation_at(const pbWork_r *w, int dof) {
  double force = w->qfrc_actuator[dof];

  // By their arms there.
  for (int u = 0; u < w->m->nu; u++) {
    if (!w->m->actuator_servo[u]) continue;
    for (int a = w->mom_start[u]; a < w->mom_start[u + 1]; a++) {
      if (w->mom_dofs[a] == dof) force += w->mom[a] * w->actuator_force[u];
    }
  }

  return force;
}

// Of hinges, slides and the axes of balls; free joints are moved by thrusters, each with a limit of its own.
static void watch_joints(pbAuditWatch *w, const pbScratch *s) {
  const pbModel *m = w->model;
  if (!(w->o->joint_torque > 0)) return;

  // The largest, with the joint's name.
  for (int i = 0; i < m->nv; i++) {
    int j = m->dof_jntid[i];
    if (pbJoint_DofCount(m->jnt_type[j]) > 3) continue;

    double force = fabs(actuation_at(&s->w, i));
    if (keep(w->at_joint, force, w->o->joint_torque)) name_it(m, w->at_joint, "joint", pb_objJoint, j);
  }
}

static void watch_forces(pbAuditWatch *w, const pbScratch *s) {
  int nu = s->model->nu;

  // Of each actuator, then of the policy itself.
  for (int u = 0; u < nu; u++) w->torque[u] = fmax(w->torque[u], fabs(s->w.actuator_force[u]));
  w->torque[nu] = fmax(w->torque[nu], policy_force(s));
  watch_joints(w, s);
}

// ---- the whole -----------------------------------------------------------------------------------------------------------
void pbAuditWatch_Step(void *watcher, pbScratch *s) {
  pbAuditWatch *w = watcher;
  const pbRollout *r = w->rollout;
  PB_ASSERT(s->model == w->model);

  // Poses of mocap bodies are those of the step.
  pbInput input = pbRollout_InputAt(r, w->step++);
  w->mocap_pos = input.mocap_pos;
  w->mocap_quat = input.mocap_quat;

  watch_overlaps(w, s);
  watch_rows(w, s);
  watch_forces(w, s);
  if (w->ledger) pbLedger_Add(s, w->ledger);  // before anything else is evaluated
  watch_way(w, s, r->x_before);
}

// The last step ends at a state that no step begins at.
pbStatus pbAuditWatch_End(pbAuditWatch *w, const double *x) {
  pbInput input = {.mocap_pos = w->mocap_pos, .mocap_quat = w->mocap_quat};
  pbScratch *s = NULL;
  PB_TRY(w->status);
  PB_TRY(pbScratch_Create(w->ctx, w->model, NULL, &s));

  pbStatus status = pbStep_Observe(w->model, w->theta, x, &input, s, NULL);
  if (status == pb_ok) {
    watch_overlaps(w, s);
    watch_rows(w, s);
    watch_way(w, s, x);
  }

  pbScratch_Destroy(s);
  if (status == pb_no_memory) return pbContext_Fail(w->ctx, status, "out of memory for the last state");
  return w->status;
}

size_t pbAuditWatch_Numbers(const pbModel *m) {
  return 13 * (size_t)m->ngeom + 2 * (size_t)pbModel_StateSize(m) + (size_t)pbModel_TangentSize(m) + 1;
}

void pbAuditWatch_Begin(pbAuditWatch *w, double *memory) {
  const pbModel *m = w->model;

  // In the order of pbAuditWatch_Numbers.
  w->pose = memory;
  w->way = w->pose + 12 * (size_t)m->ngeom;
  w->x_before = w->way + m->ngeom;
  w->x = w->x_before + pbModel_StateSize(m);
  w->tangent = w->x + pbModel_StateSize(m);
}

void pbAuditWatch_Free(pbAuditWatch *w) {
  pbScratch_Destroy(w->between);
  w->between = NULL;
}
