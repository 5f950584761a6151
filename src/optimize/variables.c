// Unknowns of a task and what they mean: parameters, initial state, controls; from unknowns to values, and back for derivatives.
// Tests: tests/unit/test_task.c, tests/unit/test_task_sphere.c, tests/unit/test_task_csv.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "model/model.h"
#include "model/sphere.h"
#include "optimize/inertia.h"
#include "optimize/rotation.h"
#include "optimize/task.h"

static double physical(const pbVariable *v, double z) { return v->logarithm ? pbExp(v->scale * z) : v->scale * z; }

double pbVariable_Scaled(const pbVariable *v, double value) {
  if (!v->logarithm) return value / v->scale;

  // a lower bound of zero is no bound of the logarithm
  return (value > 0 ? pbLog(value) : -INFINITY) / v->scale;
}
static double slope(const pbVariable *v, double value) { return v->logarithm ? v->scale * value : v->scale; }
static bool of_theta(const pbVariable *v) {
  return v->kind == pb_varyParam || v->kind == pb_varySets || v->kind == pb_varyInertia;
}
static bool of_poses(const pbVariable *v) { return v->kind >= pb_varyMocapPos && v->kind <= pb_varyMocapRotBefore; }

// ---- axes and quaternions: u = z / |z| ------------------------------------------------------------------------------
const pbDirectionRow *pbVariable_Row(const pbVariable *v, int k) {
  for (int i = 0; i < v->row_count; i++) {
    const pbDirectionRow *row = &v->rows[i];
    for (int c = 0; c < row->size; c++) {
      if (row->at[c] == k) return row;
    }
  }

  return NULL;
}

// Length of the row at z, in the unit of its value.
static double row_length(const pbVariable *v, const pbDirectionRow *row, const double *z) {
  double given[4] = {0};
  for (int c = 0; c < row->size; c++) given[c] = physical(v, z[v->first + row->at[c]]);
  return pbSphere_Length(given, row->size);
}

// A row of no length, or of one that is no number, stays as it is: it is refused where parameters are checked.
static void normalize_row(const pbVariable *v, const pbDirectionRow *row, const double *z, double *value) {
  double length = row_length(v, row, z);
  if (!(length > 0) || !isfinite(length) || fabs(length - 1) <= 1e-12) return;

  for (int c = 0; c < row->size; c++) value[v->first + row->at[c]] /= length;
}

// Motion of the row's entry c by its unknown k: (1 - u u') / |z|.
static double row_slope(const pbTask *task, const pbVariable *v, const pbDirectionRow *row, const double *z, int c, int k) {
  PB_ASSERT(k >= 0 && k < v->count && c >= 0 && c < row->size);
  const double *u = task->value + v->first;
  return ((row->at[c] == k) - u[row->at[c]] * u[k]) * v->scale / row_length(v, row, z);
}

void pbTask_Values(const pbTask *task, const double *z, double *value) {
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];

    // Each by itself, then axes and quaternions to length one.
    for (int k = v->first; k < v->first + v->count; k++) value[k] = physical(v, z[k]);
    for (int r = 0; r < v->row_count; r++) normalize_row(v, v->rows + r, z, value);
    if (v->kind == pb_varyInertia) pbInertia_Values(z + v->first, value + v->first);
  }
}

// ---- rotations of joints: q = q0 exp(w) -----------------------------------------------------------------------------
// Which axis of a rotation a degree of freedom is; -1: a plain coordinate. *coord: its entry in qpos (or of the quaternion).
static int dof_axis(const pbModel *m, size_t dof, int *coord) {
  int j = m->dof_jntid[dof], type = m->jnt_type[j], k = (int)dof - m->jnt_dofadr[j];
  PB_ASSERT((int)dof < m->nv);

  // Of a ball joint all three are rotations.
  if (type == pb_jntBall) {
    *coord = m->jnt_qposadr[j];
    return k;
  }

  // Of a free joint the first three are positions.
  if (type == pb_jntFree && k >= 3) {
    *coord = m->jnt_qposadr[j] + 3;
    return k - 3;
  }

  *coord = m->jnt_qposadr[j] + k;

  return -1;
}

// Rotation vector the variables of trajectory t give the joint of `dof`.
static void rotation_of(const pbTask *task, int t, size_t dof, double *w) {
  const pbModel *m = task->model;
  memset(w, 0, 3 * sizeof *w);

  // Each unknown of the joint is a component of the vector.
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (v->kind != pb_varyQpos || (v->trajectory >= 0 && v->trajectory != t)) continue;

    for (int k = 0; k < v->count; k++) {
      int coord, axis = dof_axis(m, v->index[k], &coord);
      if (axis >= 0 && m->dof_jntid[v->index[k]] == m->dof_jntid[dof]) w[axis] = task->value[v->first + k];
    }
  }
}

// ---- controls: weights of the knots at a step -----------------------------------------------------------------------
int pbVariable_Knot(const pbVariable *v, int step, int steps, double *right) {
  PB_ASSERT(step >= 0 && step < steps && v->knots >= 1);
  *right = 0;
  if (v->knots == 1) return 0;
  if (!v->linear) return (int)((int64_t)step * v->knots / steps);

  // The first knot is at the first step, the last knot at the last.
  double at = steps > 1 ? (double)step * (v->knots - 1) / (steps - 1) : 0;
  int knot = (int)at < v->knots - 2 ? (int)at : v->knots - 2;
  *right = at - knot;

  return knot;
}

// ---- from unknowns to values ----------------------------------------------------------------------------------------
static void apply_qpos(pbTask *task, int t, const pbVariable *v) {
  double *qpos = task->trajectories[t].x0_now + task->trajectories[t].terms.qpos_at, w[3];
  for (int k = 0; k < v->count; k++) {
    int coord, axis = dof_axis(task->model, v->index[k], &coord);

    // Lengths and angles are values themselves.
    if (axis < 0) {
      qpos[coord] = task->value[v->first + k];
      continue;
    }

    // Several unknowns of one joint: from the file's quaternion every time.
    rotation_of(task, t, v->index[k], w);
    memcpy(qpos + coord, task->trajectories[t].x0 + task->trajectories[t].terms.qpos_at + coord, 4 * sizeof *qpos);
    pbRotation_Apply(qpos + coord, w);
  }
}

// The rotation vector that these entries give the joint of entry k.
static void joint_rotation(const pbModel *m, const size_t *dof, const double *by, int count, int k, double *w) {
  memset(w, 0, 3 * sizeof *w);
  for (int i = 0; i < count; i++) {
    int coord, axis = dof_axis(m, dof[i], &coord);
    if (axis >= 0 && m->dof_jntid[dof[i]] == m->dof_jntid[dof[k]]) w[axis] = by[i];
  }
}

void pbTask_MoveQpos(const pbTask *task, const size_t *dof, const double *by, int count, bool set, double *qpos) {
  const pbModel *m = task->model;
  int last = -1;  // joint whose rotation was the last; its entries follow one another

  for (int k = 0; k < count; k++) {
    int coord, axis = dof_axis(m, dof[k], &coord);
    double w[3];
    if (axis < 0) {
      qpos[coord] = by[k] + (set ? 0 : qpos[coord]);
      continue;
    }

    // Once for all entries of a joint.
    if (m->dof_jntid[dof[k]] == last) continue;
    last = m->dof_jntid[dof[k]];
    joint_rotation(m, dof, by, count, k, w);
    pbRotation_Apply(qpos + coord, w);
  }
}

// The recording, as late as the unknown says; its derivative beside it.
static void apply_delay(pbTask *task, pbTrajectory *tr, const pbVariable *v) {
  double delay = task->value[v->first];
  if (tr->steps == 0) return;
  PB_ASSERT(tr->recorded && tr->delay_slope);

  pbRecorded_Controls(tr->recorded, delay, tr->steps, tr->ctrl_now);
  pbRecorded_DelaySlopes(tr->recorded, delay, tr->steps, tr->delay_slope);
}

static void apply_control_at(const pbTask *task, pbTrajectory *tr, const pbVariable *v, int step) {
  double right;
  int knot = pbVariable_Knot(v, step, tr->steps, &right);

  // Between two knots by their distance.
  for (int a = 0; a < v->index_count; a++) {
    const double *u = task->value + v->first + (size_t)knot * (size_t)v->index_count + a;
    size_t at = (size_t)step * (size_t)pb_controls(task->model) + v->index[a];
    tr->ctrl_now[at] = right > 0 ? (1 - right) * u[0] + right * u[v->index_count] : u[0];

    // what is an unknown itself is not recorded
    if (tr->delay_slope) tr->delay_slope[at] = 0;
  }
}

static void apply_control(const pbTask *task, pbTrajectory *tr, const pbVariable *v) {
  for (int step = 0; step < tr->steps; step++) apply_control_at(task, tr, v, step);
}

void pbTask_ApplyControlsAt(pbTask *task, int t, const double *z, int step) {
  pbTrajectory *tr = &task->trajectories[t];
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (v->kind != pb_varyControl || !(v->trajectory < 0 || v->trajectory == t)) continue;

    // values of the knots that act
    double right;
    int knot = pbVariable_Knot(v, step, tr->steps, &right), count = (right > 0 ? 2 : 1) * v->index_count;
    for (int k = v->first + knot * v->index_count; count-- > 0; k++) task->value[k] = physical(v, z[k]);
    apply_control_at(task, tr, v, step);
  }
}

// What bounds of a knot, and of the one after it, are in between; at a knot its own, for an infinite one times zero is none.
static double between_knots(const pbVariable *v, const double *bound, double right) {
  double here = physical(v, bound[0]), next = right > 0 ? physical(v, bound[v->index_count]) : here;
  if (right == 0 || right == 1) return right > 0 ? next : here;
  return (1 - right) * here + right * next;
}

void pbTask_ControlBounds(const pbTask *task, int t, int step, double *lower, double *upper) {
  int nu = pb_controls(task->model);
  for (int a = 0; a < nu; a++) {
    lower[a] = -INFINITY;
    upper[a] = INFINITY;
  }

  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (v->kind != pb_varyControl || !(v->trajectory < 0 || v->trajectory == t)) continue;

    double right;
    int first = v->first + pbVariable_Knot(v, step, task->trajectories[t].steps, &right) * v->index_count;
    for (int a = 0; a < v->index_count; a++) {
      lower[v->index[a]] = between_knots(v, task->lower + first + a, right);
      upper[v->index[a]] = between_knots(v, task->upper + first + a, right);
    }
  }
}

// Where plain entries of the initial state begin: in the state, and in its tangent.
int pbTask_StateAt(const pbTermSet *s, pbVariableKind kind) {
  switch (kind) {
    case pb_varyQvel: return s->qvel_at;
    case pb_varyAct: return s->act_at;
    case pb_varyPoints: return s->points_at;
    default: return s->points_at + s->np;
  }
}
static size_t tangent_at(const pbTermSet *s, pbVariableKind kind) {
  switch (kind) {
    case pb_varyQpos: return 0;
    case pb_varyQvel: return (size_t)s->nv;
    case pb_varyAct: return 2 * (size_t)s->nv;
    default: return 2 * (size_t)s->nv + (size_t)s->na + (size_t)(kind == pb_varyPointVelocity ? s->np : 0);
  }
}

// ---- delays, gains and biases: those of all terms of a name ---------------------------------------------------------
static const pbReading *reading_of(const pbTermSet *set, int i, const pbVariable *v) {
  const pbTerm *term = &set->terms[i];
  return term->reading && strcmp(term->name, v->term) == 0 ? term->reading : NULL;
}

static void apply_reading(const pbTask *task, const pbTermSet *set, const pbVariable *v) {
  for (int i = 0; i < set->count; i++) {
    const pbReading *r = reading_of(set, i, v);
    int count = r ? v->count : 0;
    for (int k = 0; k < count; k++) r->now[v->index[k]] = task->value[v->first + k];
  }
}

static void pull_reading(const pbTask *task, const pbTermSet *set, const pbVariable *v, double *gradient) {
  for (int i = 0; i < set->count; i++) {
    const pbReading *r = reading_of(set, i, v);
    int count = r ? v->count : 0;
    for (int k = 0; k < count; k++) gradient[v->first + k] += r->bar[v->index[k]] * slope(v, task->value[v->first + k]);
  }
}

static void apply_state(pbTask *task, int t, const pbVariable *v) {
  pbTrajectory *tr = &task->trajectories[t];
  if (v->trajectory >= 0 && v->trajectory != t) return;

  switch (v->kind) {
    case pb_varyReading: apply_reading(task, &tr->terms, v); return;
    case pb_varyQpos: apply_qpos(task, t, v); return;
    case pb_varyControl: apply_control(task, tr, v); return;
    case pb_varyDelay: return;
    default: break;
  }

  // plain entries: rotations are with the positions
  int from = pbTask_StateAt(&tr->terms, v->kind);
  for (int k = 0; k < v->count; k++) tr->x0_now[from + (int)v->index[k]] = task->value[v->first + k];
}

// ---- mass, center and inertia of a body -------------------------------------------------------------------------------
static void put_inertia(const pbTask *task, const pbVariable *v, double *theta) {
  double number[PB_INERTIA_NUMBERS];
  pbInertia_Put(task->value + v->first, number);
  for (int i = 0; i < PB_INERTIA_NUMBERS; i++) theta[v->index[i]] = number[i];
}

static void pull_inertia(const pbTask *task, const pbVariable *v, const double *z, double *gradient) {
  double bar[PB_INERTIA_NUMBERS], value_bar[PB_INERTIA] = {0}, J[PB_INERTIA * PB_INERTIA];
  for (int i = 0; i < PB_INERTIA_NUMBERS; i++) bar[i] = task->theta_bar[v->index[i]];
  pbInertia_Pull(task->value + v->first, bar, value_bar);
  pbInertia_ValuesBy(z + v->first, J);

  // from values to the ten unknowns
  for (int i = 0; i < PB_INERTIA; i++) {
    for (int k = 0; k < PB_INERTIA; k++) gradient[v->first + k] += J[i * PB_INERTIA + k] * value_bar[i];
  }
}

static void inertia_direction(const pbTask *task, const pbVariable *v, const double *z, int k, double *theta) {
  double by[PB_INERTIA], number[PB_INERTIA_NUMBERS], J[PB_INERTIA * PB_INERTIA];
  pbInertia_ValuesBy(z + v->first, J);

  // column k, pushed on to the model's numbers
  for (int i = 0; i < PB_INERTIA; i++) by[i] = J[i * PB_INERTIA + k];
  pbInertia_Push(task->value + v->first, by, number);
  for (int i = 0; i < PB_INERTIA_NUMBERS; i++) theta[v->index[i]] = number[i];
}

static double inertia_by(const pbVariable *v, const double *z, int i, int k) {
  double J[PB_INERTIA * PB_INERTIA];
  if (k < v->first || k >= v->first + PB_INERTIA) return 0;

  // within the body alone
  pbInertia_ValuesBy(z + v->first, J);

  return J[(i - v->first) * PB_INERTIA + k - v->first];
}

pbStatus pbTask_PutParameters(const pbTask *task, double *theta) {
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (v->kind == pb_varyInertia) put_inertia(task, v, theta);
    if (v->kind != pb_varyParam) continue;

    // numbers of theta themselves
    for (int k = 0; k < v->count; k++) {
      PB_ASSERT(v->index[k] < task->ntheta);
      theta[v->index[k]] = task->value[v->first + k];
    }
  }

  return pbTask_PutFollowers(task, theta);
}

pbStatus pbTask_Apply(pbTask *task, const double *z) {
  pbTask_Values(task, z, task->value);
  memcpy(task->theta_now, task->theta, task->ntheta * sizeof(double));

  for (int t = 0; t < task->trajectory_count; t++) {
    pbTrajectory *tr = &task->trajectories[t];

    // From the file's values each time: nothing of the last point stays.
    memcpy(tr->x0_now, tr->x0, (size_t)tr->terms.nx * sizeof(double));
    memcpy(tr->ctrl_now, tr->ctrl, (size_t)tr->steps * (size_t)pb_controls(task->model) * sizeof(double));
    pbPoses_Apply(task, t);
    pbTermSet_Read(&tr->terms);

    // recorded controls first: those that are unknowns themselves stand over them
    for (int i = 0; i < task->variable_count; i++) {
      const pbVariable *v = &task->variables[i];
      if (v->kind == pb_varyDelay && (v->trajectory < 0 || v->trajectory == t)) apply_delay(task, tr, v);
    }
    for (int i = 0; i < task->variable_count; i++) {
      const pbVariable *v = &task->variables[i];
      if (!of_theta(v) && !of_poses(v)) apply_state(task, t, v);
    }
    pbTermSet_Place(&tr->terms);
  }

  // Parameters come from one set of unknowns for all trajectories, and are checked when all are set.
  PB_TRY(pbTask_PutParameters(task, task->theta_now));
  task->theta_raw = task->theta_now;
  for (int t = 0; t < task->trajectory_count; t++) {
    if (task->timestep_varies)
      task->trajectories[t].terms.timestep = task->theta_now[task->model->timestep - task->model->theta0];
  }
  memcpy(task->theta_used, task->theta_now, task->ntheta * sizeof(double));

  // Parameters without meaning are a point to step back from, as one where the simulation fails.
  if (pbModel_CheckParams(task->ctx, task->model, task->theta_used) != pb_ok) return pb_not_finite;

  pbStatus status = task->recompute ? pbModel_SetConstants(task->ctx, task->model, task->theta_used) : pb_ok;

  // So is a mesh that is none any more.
  return status == pb_bad_input && task->model->design ? pb_not_finite : status;
}

// ---- which parameters gradients are wanted by -----------------------------------------------------------------------
// Is an entry of a field unknown?
static bool is_varied(const pbTask *task, const pbParam *p) {
  size_t end = p->offset + (size_t)p->rows * (size_t)p->cols;

  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    int count = v->kind == pb_varySets ? v->follower_count : v->index_count;
    if (!of_theta(v)) continue;

    for (int k = 0; k < count; k++) {
      if (v->index[k] >= p->offset && v->index[k] < end) return true;
    }
  }

  return false;
}

pbStatus pbTask_Want(pbTask *task, pbRollout *rollout) {
  int count = 0, fields = pbModel_ParamCount(task->model);
  const char **names = pbContext_AllocArray(task->ctx, (size_t)fields + 1, sizeof *names);

  if (!names) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for the names of its variables", task->name);

  // a variable may be of several fields, as all weights of a policy are
  for (int i = 0; i < fields; i++) {
    pbParam p = pbModel_ParamAt(task->model, i);
    if (is_varied(task, &p)) names[count++] = p.name;
  }

  pbStatus status = pbRollout_WantParameters(rollout, names, count, task->recompute);
  pbContext_Free(task->ctx, names);

  return status;
}

// ---- derivatives: from cotangents of values to those of unknowns ----------------------------------------------------
// Derivative by unknown k of a variable of parameters.
static double pull_param(const pbTask *task, const pbVariable *v, const double *z, int k) {
  const pbDirectionRow *row = pbVariable_Row(v, k);
  if (!row) return task->theta_bar[v->index[k]] * slope(v, task->value[v->first + k]);

  // All components of an axis or quaternion move with each.
  double sum = 0;
  for (int c = 0; c < row->size; c++) sum += task->theta_bar[v->index[row->at[c]]] * row_slope(task, v, row, z, c, k);

  return sum;
}

pbStatus pbTask_PullTheta(pbTask *task, const double *z, double *gradient) {
  if (task->recompute) PB_TRY(pbModel_SetConstantsVjp(task->ctx, task->model, task->theta_raw, task->theta_bar));
  pbTask_ThroughWorld(task, task->theta_bar);

  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (v->kind == pb_varyInertia) pull_inertia(task, v, z, gradient);
    if (v->kind != pb_varyParam) continue;
    for (int k = 0; k < v->count; k++) gradient[v->first + k] += pull_param(task, v, z, k);
  }

  pbTask_PullFollowers(task, gradient);

  return pb_ok;
}

// Motion of the initial state, in the tangent space, by entry k of a variable of qpos: up to three entries from *dof on.
static int qpos_motion(const pbTask *task, int t, const pbVariable *v, int k, size_t *dof, double *motion) {
  int coord, axis = dof_axis(task->model, v->index[k], &coord);
  *dof = v->index[k];
  motion[0] = 1;
  if (axis < 0) return 1;

  double w[3];
  rotation_of(task, t, v->index[k], w);
  pbRotation_Column(w, axis, motion);
  *dof -= (size_t)axis;

  return 3;
}

static void pull_control(const pbTask *task, const pbTrajectory *tr, const pbVariable *v, double *gradient) {
  size_t nu = (size_t)pb_controls(task->model), width = (size_t)v->index_count;

  for (int step = 0; step < tr->steps; step++) {
    double right;
    int knot = pbVariable_Knot(v, step, tr->steps, &right);

    for (size_t a = 0; a < width; a++) {
      double bar = tr->ctrl_bar[(size_t)step * nu + v->index[a]];
      size_t at = (size_t)v->first + (size_t)knot * width + a, next = at + width;

      // The transpose of apply_control.
      gradient[at] += (1 - right) * bar * slope(v, task->value[at]);
      if (right > 0) gradient[next] += right * bar * slope(v, task->value[next]);
    }
  }
}

// The transpose of apply_delay.
static void pull_delay(const pbTask *task, const pbTrajectory *tr, const pbVariable *v, double *gradient) {
  size_t count = (size_t)tr->steps * (size_t)pb_controls(task->model);
  double sum = 0;

  for (size_t i = 0; i < count; i++) sum += tr->ctrl_bar[i] * tr->delay_slope[i];
  gradient[v->first] += sum * slope(v, task->value[v->first]);
}

static void pull_initial_state(const pbTask *task, int t, const pbVariable *v, double *gradient) {
  const pbTrajectory *tr = &task->trajectories[t];
  const double *bar = tr->x0_bar + tangent_at(&tr->terms, v->kind);

  for (int k = 0; k < v->count; k++) {
    size_t dof = v->index[k];
    double motion[3] = {1, 0, 0}, sum = 0;

    // A component of a rotation vector moves three degrees of freedom.
    int entries = v->kind == pb_varyQpos ? qpos_motion(task, t, v, k, &dof, motion) : 1;

    for (int e = 0; e < entries; e++) sum += motion[e] * bar[dof + (size_t)e];
    gradient[v->first + k] += sum * slope(v, task->value[v->first + k]);
  }
}

void pbTask_PullTrajectory(pbTask *task, int t, double *gradient) {
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (of_theta(v) || (v->trajectory >= 0 && v->trajectory != t)) continue;
    if (v->kind == pb_varyReading) pull_reading(task, &task->trajectories[t].terms, v, gradient);
    else if (v->kind == pb_varyControl) pull_control(task, &task->trajectories[t], v, gradient);
    else if (v->kind == pb_varyDelay) pull_delay(task, &task->trajectories[t], v, gradient);
    else if (of_poses(v)) pbPoses_Pull(task, t, v, gradient);
    else pull_initial_state(task, t, v, gradient);
  }
}

// ---- directions -----------------------------------------------------------------------------------------------------
static void control_direction(const pbTask *task, const pbVariable *v, const pbTrajectory *tr, int k, double size, double *ctrl) {
  int own_knot = k / v->index_count, actuator = k % v->index_count;

  for (int step = 0; step < tr->steps; step++) {
    double right, weight = 0;
    int knot = pbVariable_Knot(v, step, tr->steps, &right);
    if (knot == own_knot) weight = 1 - right;
    if (knot + 1 == own_knot) weight = right;

    // Weight of its knot at this step: that of apply_control.
    ctrl[(size_t)step * (size_t)pb_controls(task->model) + v->index[actuator]] = weight * size;
  }
}

static void delay_direction(const pbTask *task, const pbTrajectory *tr, double size, double *ctrl) {
  size_t count = (size_t)tr->steps * (size_t)pb_controls(task->model);
  for (size_t i = 0; i < count; i++) ctrl[i] = size * tr->delay_slope[i];
}

static const pbVariable *variable_of(const pbTask *task, int i) {
  PB_ASSERT(i >= 0 && i < task->n);
  const pbVariable *v = task->variables;
  while (i >= v->first + v->count) v++;
  return v;
}

double pbTask_ValueSlope(const pbTask *task, int unknown) { return slope(variable_of(task, unknown), task->value[unknown]); }

double pbTask_ValueBy(const pbTask *task, const double *z, int i, int k) {
  const pbVariable *v = variable_of(task, i);
  const pbDirectionRow *row = pbVariable_Row(v, i - v->first);
  if (v->kind == pb_varyInertia) return inertia_by(v, z, i, k);
  if (!row) return i == k ? pbTask_ValueSlope(task, i) : 0;

  for (int c = 0; c < row->size; c++) {
    if (row->at[c] == i - v->first && pbVariable_Row(v, k - v->first) == row) return row_slope(task, v, row, z, c, k - v->first);
  }

  return 0;
}

static void param_direction(const pbTask *task, const pbVariable *v, const double *z, int k, double *theta) {
  const pbDirectionRow *row = pbVariable_Row(v, k);
  if (!row) {
    theta[v->index[k]] = slope(v, task->value[v->first + k]);
    return;
  }

  for (int c = 0; c < row->size; c++) theta[v->index[row->at[c]]] = row_slope(task, v, row, z, c, k);
}

static void clear_direction(const pbTask *task, const pbTrajectory *tr, const pbTaskDirection *out) {
  size_t mocap = out->mocap_pos ? (size_t)task->model->nmocap : 0, poses = (size_t)tr->steps * 3 * mocap;

  memset(out->theta, 0, task->ntheta * sizeof(double));
  memset(out->x0, 0, (size_t)tr->terms.n * sizeof(double));
  memset(out->ctrl, 0, (size_t)tr->steps * (size_t)pb_controls(task->model) * sizeof(double));
  if (poses) memset(out->mocap_pos, 0, poses * sizeof(double));
  if (poses) memset(out->mocap_rot, 0, poses * sizeof(double));
  if (poses && out->mocap_vel) memset(out->mocap_vel, 0, 2 * poses * sizeof(double));
  if (mocap) {
    memset(out->before[0], 0, 3 * mocap * sizeof(double));
    memset(out->before[1], 0, 3 * mocap * sizeof(double));
  }
}

// The initial state where entry k of a variable of it moves by `size`.
static void start_direction(const pbTask *task, int t, const pbVariable *v, int k, double size, double *x0) {
  size_t dof = v->index[k];
  double motion[3] = {1, 0, 0};  // along the coordinates of a joint's position
  int entries = v->kind == pb_varyQpos ? qpos_motion(task, t, v, k, &dof, motion) : 1;
  double *to = x0 + tangent_at(&task->trajectories[t].terms, v->kind) + dof;
  for (int e = 0; e < entries; e++) to[e] = size * motion[e];
}

void pbTask_StartDirection(const pbTask *task, int i, int t, double *x0) {
  const pbVariable *v = variable_of(task, i);
  start_direction(task, t, v, i - v->first, slope(v, task->value[i]), x0);
}

// What parameters, start and inputs of trajectory t do where unknown i moves: zero but for what it is of.
pbStatus pbTask_Direction(const pbTask *task, pbContext *ctx, const double *z, int i, int t, const pbTaskDirection *out) {
  const pbVariable *v = variable_of(task, i);
  const pbTrajectory *tr = &task->trajectories[t];
  double size = slope(v, task->value[i]);
  int k = i - v->first;

  clear_direction(task, tr, out);
  if (v->trajectory >= 0 && v->trajectory != t) return pb_ok;

  switch (v->kind) {
    // Parameters, what follows them by formulas, by the world's rules, and as derived constants.
    case pb_varyParam:
    case pb_varyInertia:
    case pb_varySets:
      if (v->kind == pb_varyParam) param_direction(task, v, z, k, out->theta);
      if (v->kind == pb_varyInertia) inertia_direction(task, v, z, k, out->theta);
      pbTask_PushFollowers(task, i, out->theta);
      pbTask_ThroughWorld(task, out->theta);
      return task->recompute ? pbModel_SetConstantsJvp(ctx, task->model, task->theta_raw, out->theta) : pb_ok;
    case pb_varyControl: control_direction(task, v, tr, k, size, out->ctrl); return pb_ok;
    case pb_varyReading: return pb_ok;  // nothing of the run moves: pbTask_ReadingDirection
    case pb_varyDelay: delay_direction(task, tr, size, out->ctrl); return pb_ok;
    case pb_varyMocapPos:
    case pb_varyMocapRot:
    case pb_varyMocapVel:
    case pb_varyMocapPosBefore:
    case pb_varyMocapRotBefore: pbPoses_Direction(task, t, v, k, size, out); return pb_ok;
    default: start_direction(task, t, v, k, size, out->x0); return pb_ok;
  }
}

bool pbTask_IsOf(const pbTask *task, int i, int t) {
  int trajectory = variable_of(task, i)->trajectory;
  return trajectory < 0 || trajectory == t;
}

void pbTask_ReadingDirection(const pbTask *task, int i, int t, pbObservedTangent *observed) {
  const pbVariable *v = variable_of(task, i);
  bool moves = v->kind == pb_varyReading && (v->trajectory < 0 || v->trajectory == t);

  observed->reading = moves ? v : NULL;
  observed->entry = i - v->first;
  observed->size = slope(v, task->value[i]);
}

// ---- names ----------------------------------------------------------------------------------------------------------
void pbTask_Unknown(const pbTask *task, int i, const double *z, char *name, size_t size, double *value) {
  const pbVariable *v = variable_of(task, i);
  int k = i - v->first;

  // By knot and actuator, or by the number within its variable.
  if (v->kind == pb_varyInertia) snprintf(name, size, "%s[%s]", v->name, pbInertia_Names[k]);
  else if (v->count == 1) snprintf(name, size, "%s", v->name);
  else if (v->knots > 1) snprintf(name, size, "%s[%d,%d]", v->name, k / v->index_count, k % v->index_count);
  else snprintf(name, size, "%s[%d]", v->name, k);
  if (!value) return;

  // Of an axis or quaternion that is not of length one, what it is normalized to.
  const pbDirectionRow *row = pbVariable_Row(v, k);
  double length = row ? row_length(v, row, z) : 1;
  *value = physical(v, z[i]);
  if (v->kind == pb_varyInertia) {
    double values[PB_INERTIA];
    pbInertia_Values(z + v->first, values);
    *value = values[k];
  }
  if (length > 0 && isfinite(length) && fabs(length - 1) > 1e-12) *value /= length;
}
