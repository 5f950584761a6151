// Poses of mocap bodies in a task: paths that trajectories have, and unknowns of them: positions, and rotations of what the file
// says, q = q0 exp(w). Tests: tests/oracle/test_mocap.py.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/mocap.h"
#include "model/model.h"
#include "optimize/rotation.h"
#include "optimize/task.h"

static bool is_of(const pbVariable *v, pbVariableKind kind, int t) {
  return v->kind == kind && (v->trajectory < 0 || v->trajectory == t);
}

static bool is_pose(const pbVariable *v) { return v->kind >= pb_varyMocapPos && v->kind <= pb_varyMocapRotBefore; }

static bool is_rotation(pbVariableKind kind) { return kind == pb_varyMocapRot || kind == pb_varyMocapRotBefore; }

// Numbers that a variable of poses is about, one row for each step or a single one. Rotations are read from quaternions.
typedef struct Rows {
  double *now, *bar;
  size_t width;  // of a row of cotangents; of `now` but for rotations
  int count;
} Rows;

static Rows rows_of(const pbTask *task, int t, pbVariableKind kind) {
  const pbPoses *p = &task->trajectories[t].poses;
  size_t n = (size_t)task->model->nmocap;
  int steps = task->trajectories[t].steps;

  // Rotations are applied to quaternions, and pulled back as rotation vectors.
  switch (kind) {
    case pb_varyMocapPos: return (Rows){p->pos_now, p->pos_bar, 3 * n, steps};
    case pb_varyMocapRot: return (Rows){p->quat_now, p->rot_bar, 3 * n, steps};
    case pb_varyMocapVel: return (Rows){p->vel_now, p->vel_bar, 6 * n, steps};
    case pb_varyMocapPosBefore: return (Rows){p->before_now[0], p->before_bar[0], 3 * n, 1};
    default: return (Rows){p->before_now[1], p->before_bar[1], 3 * n, 1};
  }
}

// ---- memory ---------------------------------------------------------------------------------------------------------
pbStatus pbPoses_Give(pbTask *task, pbTrajectory *tr, int keyframe) {
  const pbModel *m = task->model;
  size_t n = (size_t)m->nmocap;

  if (tr->poses.pos || !n) return pb_ok;

  // One row for each step, one at least.
  size_t rows = tr->steps > 0 ? (size_t)tr->steps : 1;
  tr->poses.pos = pbContext_AllocArray(task->ctx, rows * 7 * n, sizeof(double));
  if (!tr->poses.pos) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for poses", task->name);
  tr->poses.quat = tr->poses.pos + rows * 3 * n;

  for (size_t k = 0; k < rows; k++)
    pbModel_MocapPose(m, task->theta, keyframe, tr->poses.pos + k * 3 * n, tr->poses.quat + k * 4 * n);

  return pb_ok;
}

pbStatus pbPoses_GiveMotion(pbTask *task, pbTrajectory *tr) {
  size_t n = (size_t)task->model->nmocap, rows = tr->steps > 0 ? (size_t)tr->steps : 1;

  double *memory = pbContext_AllocArray(task->ctx, (rows * 6 + 7) * n, sizeof(double));
  if (!memory) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for poses", task->name);

  // One block, freed by the pointer to its begin.
  tr->poses.before[0] = memory;
  tr->poses.before[1] = memory + 3 * n;
  tr->poses.vel = memory + 7 * n;

  return pb_ok;
}

pbStatus pbPoses_GiveBefore(pbTask *task, pbTrajectory *tr, int part) {
  pbPoses *p = &tr->poses;
  size_t width = (size_t)(part ? 4 : 3) * (size_t)task->model->nmocap;
  PB_ASSERT(p->pos && (part == 0 || part == 1));

  // Memory for velocities comes with it; without any the poses say them.
  if (!p->before[0]) {
    PB_TRY(pbPoses_GiveMotion(task, tr));
    p->vel = NULL;
    pbModel_MocapPose(task->model, task->theta, -1, p->before[0], p->before[1]);
  }

  if (p->origin[part] == pb_fromFirstRow) memcpy(p->before[part], part ? p->quat : p->pos, width * sizeof(double));
  p->origin[part] = pb_fromGiven;

  return pb_ok;
}

const double *pbPoses_Start(const pbTrajectory *tr, pbVariableKind kind) {
  if (kind == pb_varyMocapPos) return tr->poses.pos;
  if (kind == pb_varyMocapVel) return tr->poses.vel;
  return kind == pb_varyMocapPosBefore ? tr->poses.before[0] : NULL;
}

// As used, and cotangents: of steps, of what was before, and the rotations of one step.
static pbStatus give_room(pbTask *task, const pbTrajectory *tr, pbPoses *p) {
  size_t n = (size_t)task->model->nmocap, rows = tr->steps > 0 ? (size_t)tr->steps : 1;
  size_t velocities = p->vel ? 6 * rows : 0;

  p->pos_now = pbContext_AllocArray(task->ctx, (rows * 13 + 2 * velocities + 16) * n, sizeof(double));
  if (!p->pos_now) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for poses", task->name);

  p->quat_now = p->pos_now + rows * 3 * n;
  p->pos_bar = p->quat_now + rows * 4 * n;
  p->rot_bar = p->pos_bar + rows * 3 * n;
  p->vel_now = p->rot_bar + rows * 3 * n;
  p->vel_bar = p->vel_now + velocities * n;

  double *last = p->vel_bar + velocities * n;

  p->before_now[0] = last;
  p->before_now[1] = last + 3 * n;
  p->before_bar[0] = last + 7 * n;
  p->before_bar[1] = last + 10 * n;
  p->turn = last + 13 * n;

  return pb_ok;
}

pbStatus pbPoses_SetUp(pbTask *task, pbTrajectory *tr) {
  pbPoses *p = &tr->poses;
  if (!p->pos) return pb_ok;

  PB_TRY(give_room(task, tr, p));

  // Derivatives are taken only where something is unknown.
  int t = (int)(tr - task->trajectories);
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    p->varied = p->varied || is_pose(v);

    // An unknown path begins at rest.
    for (int part = 0; part < 2; part++) {
      bool own = is_of(v, part ? pb_varyMocapRot : pb_varyMocapPos, t);
      if (own && p->origin[part] == pb_fromModel) p->origin[part] = pb_fromFirstRow;
    }
  }

  return pb_ok;
}

bool pbPoses_AreModels(const pbTask *task, const pbTrajectory *tr) {
  const pbModel *m = task->model;
  const double *body_pos = task->theta + (m->body_pos - m->theta0), *body_quat = task->theta + (m->body_quat - m->theta0);
  size_t n = (size_t)m->nmocap, rows = tr->steps > 0 ? (size_t)tr->steps : 1;
  bool same = true;

  if (!tr->poses.pos) return true;
  // How they move counts, too.
  if (tr->poses.vel || tr->poses.origin[0] == pb_fromGiven || tr->poses.origin[1] == pb_fromGiven) return false;

  // To the bit: a keyframe that says nothing has the model's.
  for (size_t i = 0; i < rows * n; i++) {
    int b = pbModel_MocapBody(m, (int)(i % n));
    for (int k = 0; k < 3; k++) same &= tr->poses.pos[3 * i + (size_t)k] == body_pos[3 * b + k];
    for (int k = 0; k < 4; k++) same &= tr->poses.quat[4 * i + (size_t)k] == body_quat[4 * b + k];
  }

  return same;
}

void pbPoses_Free(pbContext *ctx, pbPoses *p) {
  pbContext_Free(ctx, p->pos);
  pbContext_Free(ctx, p->pos_now);
  pbContext_Free(ctx, p->before[0]);
}

// ---- from unknowns to poses -----------------------------------------------------------------------------------------
// The value that a variable gives its entry a at a step.
static double value_at(const pbTask *task, const pbVariable *v, int step, int steps, int a) {
  double right;
  int knot = pbVariable_Knot(v, step, steps, &right);

  // Between two knots by their distance.
  const double *u = task->value + v->first + (size_t)knot * (size_t)v->index_count + a;

  return right > 0 ? (1 - right) * u[0] + right * u[v->index_count] : u[0];
}

// Rotation vectors of all mocap bodies at a row, by all variables of this kind.
static const double *turn_at(const pbTask *task, int t, pbVariableKind kind, int row) {
  const pbTrajectory *tr = &task->trajectories[t];
  double *turn = tr->poses.turn;

  memset(turn, 0, 3 * (size_t)task->model->nmocap * sizeof *turn);
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (!is_of(v, kind, t)) continue;

    for (int a = 0; a < v->index_count; a++) turn[v->index[a]] = value_at(task, v, row, rows_of(task, t, kind).count, a);
  }

  return turn;
}

static void apply_numbers(const pbTask *task, int t, const pbVariable *v) {
  Rows rows = rows_of(task, t, v->kind);

  // Between knots on lines, where the variable says so.
  for (int k = 0; k < rows.count; k++) {
    for (int a = 0; a < v->index_count; a++) rows.now[(size_t)k * rows.width + v->index[a]] = value_at(task, v, k, rows.count, a);
  }
}

// All components of a body's rotation at once, whichever variables they are of.
static void apply_rotations(const pbTask *task, int t, pbVariableKind kind) {
  Rows rows = rows_of(task, t, kind);
  size_t n = (size_t)task->model->nmocap;

  // From the file's quaternions, which are in the rows.
  for (int row = 0; row < rows.count; row++) {
    const double *turn = turn_at(task, t, kind, row);
    for (size_t k = 0; k < n; k++) pbRotation_Apply(rows.now + ((size_t)row * n + k) * 4, turn + 3 * k);
  }
}

void pbPoses_Apply(pbTask *task, int t) {
  const pbTrajectory *tr = &task->trajectories[t];
  const pbPoses *p = &tr->poses;
  size_t n = (size_t)task->model->nmocap, rows = tr->steps > 0 ? (size_t)tr->steps : 1;
  if (!p->pos) return;

  // From the file's values each time: nothing of the last point stays.
  memcpy(p->pos_now, p->pos, rows * 3 * n * sizeof(double));
  memcpy(p->quat_now, p->quat, rows * 4 * n * sizeof(double));

  if (p->vel) memcpy(p->vel_now, p->vel, rows * 6 * n * sizeof(double));
  if (p->before[0]) {
    memcpy(p->before_now[0], p->before[0], 3 * n * sizeof(double));
    memcpy(p->before_now[1], p->before[1], 4 * n * sizeof(double));
  }
  if (!p->varied) return;

  // Numbers one by one; rotations when all their components are known.
  bool turned[2] = {false, false};
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (!is_pose(v) || !is_of(v, v->kind, t)) continue;

    if (is_rotation(v->kind)) turned[v->kind == pb_varyMocapRotBefore] = true;
    else apply_numbers(task, t, v);
  }

  if (turned[0]) apply_rotations(task, t, pb_varyMocapRot);
  if (turned[1]) apply_rotations(task, t, pb_varyMocapRotBefore);
}

// ---- derivatives ----------------------------------------------------------------------------------------------------
// Motion of a row by entry a of a variable there: three numbers from *at on (no rotations: the first alone).
static void motion_at(const pbTask *task, int t, const pbVariable *v, int row, int a, size_t *at, double motion[3]) {
  size_t index = v->index[a];

  *at = index;
  motion[0] = 1;
  motion[1] = motion[2] = 0;
  if (!is_rotation(v->kind)) return;

  // A component of a rotation vector turns the body about three axes.
  *at = index / 3 * 3;
  pbRotation_Column(turn_at(task, t, v->kind, row) + *at, (int)(index % 3), motion);
}

void pbPoses_Pull(const pbTask *task, int t, const pbVariable *v, double *gradient) {
  Rows rows = rows_of(task, t, v->kind);
  bool rotations = is_rotation(v->kind);

  for (int row = 0; row < rows.count; row++) {
    double right, motion[3];
    int knot = pbVariable_Knot(v, row, rows.count, &right);
    const double *bars = rows.bar + (size_t)row * rows.width;

    for (int a = 0; a < v->index_count; a++) {
      size_t at;
      motion_at(task, t, v, row, a, &at, motion);
      double bar = motion[0] * bars[at];
      if (rotations) bar += motion[1] * bars[at + 1] + motion[2] * bars[at + 2];

      // To the knots before and after it.
      int first = v->first + knot * v->index_count + a, next = first + v->index_count;
      gradient[first] += (1 - right) * bar * pbTask_ValueSlope(task, first);
      if (right > 0) gradient[next] += right * bar * pbTask_ValueSlope(task, next);
    }
  }
}

static double *direction_of(const pbTaskDirection *to, pbVariableKind kind) {
  switch (kind) {
    case pb_varyMocapPos: return to->mocap_pos;
    case pb_varyMocapRot: return to->mocap_rot;
    case pb_varyMocapVel: return to->mocap_vel;
    case pb_varyMocapPosBefore: return to->before[0];
    default: return to->before[1];
  }
}

void pbPoses_Direction(const pbTask *task, int t, const pbVariable *v, int k, double size, const pbTaskDirection *to) {
  Rows rows = rows_of(task, t, v->kind);
  double *out = direction_of(to, v->kind);
  int own_knot = k / v->index_count, entries = is_rotation(v->kind) ? 3 : 1;
  PB_ASSERT(out);

  for (int row = 0; row < rows.count; row++) {
    double right, weight = 0, motion[3];
    int knot = pbVariable_Knot(v, row, rows.count, &right);
    if (knot == own_knot) weight = 1 - right;
    if (knot + 1 == own_knot) weight = right;

    // The transpose of pbPoses_Pull
    size_t at;
    motion_at(task, t, v, row, k % v->index_count, &at, motion);
    for (int e = 0; e < entries; e++) out[(size_t)row * rows.width + at + (size_t)e] = weight * size * motion[e];
  }
}

void pbPoses_ClearBars(const pbTask *task, const pbTrajectory *tr) {
  const pbPoses *p = &tr->poses;
  size_t n = (size_t)task->model->nmocap, rows = tr->steps > 0 ? (size_t)tr->steps : 1;
  if (!p->varied) return;

  memset(p->pos_bar, 0, rows * 3 * n * sizeof(double));
  memset(p->rot_bar, 0, rows * 3 * n * sizeof(double));

  if (p->vel) memset(p->vel_bar, 0, rows * 6 * n * sizeof(double));
  for (int i = 0; i < 2; i++) memset(p->before_bar[i], 0, 3 * n * sizeof(double));
}

void pbPoses_Want(const pbTrajectory *tr, pbRolloutGradient *gradient) {
  const pbPoses *p = &tr->poses;
  double *first[2] = {p->pos_bar, p->rot_bar}, *from[2] = {NULL, NULL};
  if (!p->varied) return;

  // Where they stand in the first row they stood before.
  for (int i = 0; i < 2; i++) {
    if (p->origin[i] == pb_fromFirstRow) from[i] = first[i];
    if (p->origin[i] == pb_fromGiven) from[i] = p->before_bar[i];
  }

  // Of velocities that are given the poses before are none.
  gradient->mocap_pos = first[0];
  gradient->mocap_rot = first[1];

  if (p->vel) gradient->mocap_vel = p->vel_bar;
  gradient->mocap_pos_before = from[0];
  gradient->mocap_rot_before = from[1];
}

// ---- runs -----------------------------------------------------------------------------------------------------------
// How they move: as given, else from where they stood before. Rows as the file says them, or with the unknowns in.
static void act_by(const pbPoses *p, bool now, pbRolloutInput *input) {
  const double *first[2] = {now ? p->pos_now : p->pos, now ? p->quat_now : p->quat}, *from[2] = {NULL, NULL};
  for (int i = 0; i < 2; i++) {
    if (p->origin[i] == pb_fromFirstRow) from[i] = first[i];
    if (p->origin[i] == pb_fromGiven) from[i] = now ? p->before_now[i] : p->before[i];
  }

  // Velocities that are given say all of it.
  input->mocap_pos = first[0];
  input->mocap_quat = first[1];

  if (p->vel) input->mocap_vel = now ? p->vel_now : p->vel;
  input->mocap_pos_before = p->vel ? NULL : from[0];
  input->mocap_quat_before = p->vel ? NULL : from[1];
}

void pbPoses_Act(const pbTrajectory *tr, pbRolloutInput *input) { act_by(&tr->poses, true, input); }

// Numbers of a step that Fine takes: poses and velocities.
size_t pbPoses_Numbers(const pbTask *task, const pbTrajectory *tr) {
  return tr->poses.pos ? 13 * (size_t)task->model->nmocap : 0;
}

// Velocities in the step of a row; false: what jumps rests, and is told by the steps as they are.
static bool rate_at(const pbTask *task, const pbRolloutInput *in, size_t row, double *velocity) {
  const pbModel *m = task->model;
  size_t n = (size_t)m->nmocap;

  if (in->mocap_vel) memcpy(velocity, in->mocap_vel + row * 6 * n, 6 * n * sizeof *velocity);
  if (in->mocap_vel) return true;

  // From the pose before, which for the first row stands apart.
  const double *pos = row ? in->mocap_pos + (row - 1) * 3 * n : in->mocap_pos_before;
  const double *quat = row ? in->mocap_quat + (row - 1) * 4 * n : in->mocap_quat_before;
  pbStatus status =
      pbModel_MocapVelocity(NULL, m, task->theta, pos, quat, in->mocap_pos + row * 3 * n, in->mocap_quat + row * 4 * n, velocity);
  if (status != pb_ok) pbMocap_Settle(m, task->theta[m->timestep - m->theta0], false, velocity, NULL, 0);
  return status == pb_ok;
}

bool pbPoses_RateAt(const pbTask *task, const pbTrajectory *tr, size_t row, double *velocity) {
  pbRolloutInput in = {0};

  act_by(&tr->poses, false, &in);
  return rate_at(task, &in, row, velocity);
}

// Poses of a shorter step, the part `left` of a step before those of the row.
static void move_back(const pbModel *m, double left, double h, const double *velocity, double *pos, double *quat) {
  enum { most = 64 };
  double along[6 * most];
  if (left <= 0 || m->nmocap > most) return;

  pbMocap_Flow(m, quat, velocity, along, along + 3 * m->nmocap);
  pbModel_MocapMove(m, along, along + 3 * m->nmocap, -left * h, pos, quat);
}

void pbPoses_Fine(const pbTask *task, const pbTrajectory *tr, int divide, double *memory, pbRolloutInput *input) {
  const pbModel *m = task->model;
  size_t n = (size_t)m->nmocap, steps = (size_t)tr->steps * (size_t)divide;
  if (!tr->poses.pos) return;

  double *pos = memory;                     // output, steps x 3 n
  double *quat = memory + steps * 3 * n;    // output, steps x 4 n
  double *velocity = quat + steps * 4 * n;  // output, steps x 6 n
  double h = task->theta[m->timestep - m->theta0];

  // What acts during a step acts in all its parts; where velocities count, what is led goes on from part to part.
  bool counts = pbMocap_Counts(m);
  pbRolloutInput act = {0};
  pbPoses_Act(tr, &act);
  for (size_t k = 0; k < steps; k++) {
    size_t row = k / (size_t)divide;
    double *own = velocity + k * 6 * n;
    memcpy(pos + k * 3 * n, tr->poses.pos_now + row * 3 * n, 3 * n * sizeof *pos);
    memcpy(quat + k * 4 * n, tr->poses.quat_now + row * 4 * n, 4 * n * sizeof *quat);

    bool moves = rate_at(task, &act, row, own);
    double left = 1 - (double)(k % (size_t)divide + 1) / divide;
    if (counts && moves) move_back(m, left, h, own, pos + k * 3 * n, quat + k * 4 * n);
  }

  input->mocap_pos = pos;
  input->mocap_quat = quat;
  input->mocap_vel = velocity;
}

pbStatus pbTask_Poses(pbTask *task, const double *z, int t, double *pos, double *quat, bool *given) {
  const pbTrajectory *tr = &task->trajectories[t];
  size_t n = (size_t)task->model->nmocap;

  *given = tr->poses.pos != NULL;
  if (!*given) return pb_ok;

  // With the unknowns in
  PB_TRY(pbTask_Expand(task, z, t, NULL, NULL, NULL));
  if (pos) memcpy(pos, tr->poses.pos_now, (size_t)tr->steps * 3 * n * sizeof *pos);
  if (quat) memcpy(quat, tr->poses.quat_now, (size_t)tr->steps * 4 * n * sizeof *quat);
  return pb_ok;
}

bool pbTask_PoseMotion(pbTask *task, int t, double *pos_before, double *quat_before, double *velocity) {
  const pbTrajectory *tr = &task->trajectories[t];
  size_t n = (size_t)task->model->nmocap;
  pbRolloutInput in = {0};

  pbPoses_Act(tr, &in);
  pbModel_MocapPose(task->model, task->theta, -1, pos_before, quat_before);
  if (pos_before && in.mocap_pos_before) memcpy(pos_before, in.mocap_pos_before, 3 * n * sizeof *pos_before);
  if (quat_before && in.mocap_quat_before) memcpy(quat_before, in.mocap_quat_before, 4 * n * sizeof *quat_before);
  if (velocity && in.mocap_vel) memcpy(velocity, in.mocap_vel, (size_t)tr->steps * 6 * n * sizeof *velocity);
  return in.mocap_vel != NULL;
}
