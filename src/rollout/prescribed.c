// How mocap bodies move during a step of a rollout: as the caller says, or as the rows of their poses say, from that of the step
// before to that of the step. What a step owes to these velocities goes back to both rows, and to the time step between them.
// Nothing is kept from step to step: whatever the budget, part or world, a step has the same bits. Tests:
// tests/oracle/test_mocap.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "math/vec.h"
#include "model/mocap.h"
#include "model/model.h"
#include "rollout/rollout.h"

// Where a pose, or a derivative by it, stands: a row of the input, the pose before row 0, or the model's.
enum { from_row, from_before, from_model };

static const double *row_of(const double *data, int row, int width) { return data ? data + (size_t)row * (size_t)width : NULL; }

// Of both sides of a path: 0 the step before, 1 the step.
static int source(bool rows, bool before, int row, int side) {
  if (rows && row - 1 + side >= 0) return from_row;
  return before && side == 0 && row == 0 ? from_before : from_model;
}

typedef struct Sources {
  int row;              // of the step
  int pos[2], quat[2];  // from_row, ...
} Sources;

// False: they rest.
static bool sources_at(const pbRollout *r, int k, Sources *s) {
  const pbRolloutInput *in = &r->input;
  bool before = in->mocap_pos_before || in->mocap_quat_before;

  // Velocities that are given need no path, and the model's own poses stay where they are.
  if (!r->nmocap || in->mocap_vel || !(in->mocap_pos || in->mocap_quat || before)) return false;
  if (r->plan.steps == 0 && !in->constant) return false;

  // A single row has stood there for ever.
  if (in->constant && (k > 0 || !before)) return false;

  s->row = pbRollout_InputRow(r, k);
  PB_ASSERT(s->row >= 0);
  for (int side = 0; side < 2; side++) {
    s->pos[side] = source(in->mocap_pos, in->mocap_pos_before, s->row, side);
    s->quat[side] = source(in->mocap_quat, in->mocap_quat_before, s->row, side);
  }
  return true;
}

static const double *either(int from, const double *rows, int row, int width, const double *before, const double *model) {
  if (from == from_row) return row_of(rows, row, width);
  return from == from_before ? before : model;
}

static double timestep_of(const pbRollout *r, const double *theta) { return theta[r->model->timestep - r->model->theta0]; }

// The poses of both sides; own: room for the model's.
static pbMocapPath path_of(const pbRollout *r, const Sources *s, const double *theta, double *own) {
  const pbRolloutInput *in = &r->input;
  double *own_quat = own + 3 * r->nmocap;
  pbMocapPath p = {.h = timestep_of(r, theta)};
  PB_ASSERT(r->nmocap > 0 && own);

  // Side 0: where the step before left off.
  pbModel_MocapPose(r->model, theta, -1, own, own_quat);
  for (int side = 0; side < 2; side++) {
    int row = s->row - 1 + side;
    p.pos[side] = either(s->pos[side], in->mocap_pos, row, 3 * r->nmocap, in->mocap_pos_before, own);
    p.quat[side] = either(s->quat[side], in->mocap_quat, row, 4 * r->nmocap, in->mocap_quat_before, own_quat);
  }
  return p;
}

const double *pbPrescribed_Rate(const pbRollout *r, int k) {
  Sources s;
  if (r->input.mocap_vel) return row_of(r->input.mocap_vel, pbRollout_InputRow(r, k), 6 * r->nmocap);
  if (!sources_at(r, k, &s)) return NULL;

  pbMocapPath p = path_of(r, &s, r->theta, r->mocap_own);
  pbMocap_Rate(r->model, &p, r->mocap_rate);

  // What jumps rests; pbPrescribed_Check refuses it where that would matter.
  pbMocap_Settle(r->model, p.h, false, r->mocap_rate, NULL, 0);
  return r->mocap_rate;
}

bool pbPrescribed_Bends(const pbRollout *r, int k, int mocap) {
  static const double rounding = 1e-6;  // relative
  int other = k + 1 < r->plan.steps ? k + 1 : k - 1;
  double here[6] = {0}, change = 0, size = 0;
  PB_ASSERT(mocap >= 0 && mocap < r->nmocap);

  const double *rate = other >= 0 ? pbPrescribed_Rate(r, other) : NULL;
  if (rate) memcpy(here, rate + 6 * mocap, sizeof here);
  bool known = rate;
  rate = pbPrescribed_Rate(r, k);  // last, so that what the step's input points to is there again
  if (!rate || !known) return false;

  for (int i = 0; i < 6; i++) {
    change = fmax(change, fabs(rate[6 * mocap + i] - here[i]));
    size = fmax(size, fmax(fabs(here[i]), fabs(rate[6 * mocap + i])));
  }
  return change > rounding * size;
}

pbStatus pbPrescribed_CheckBefore(pbRollout *r) {
  const pbRolloutInput *in = &r->input;
  const pbInput before = {.mocap_pos = in->mocap_pos_before, .mocap_quat = in->mocap_quat_before};
  char text[400];

  // One of both would be ignored.
  if (r->nmocap && in->mocap_vel && (before.mocap_pos || before.mocap_quat))
    return pbContext_Fail(r->ctx, pb_bad_input,
                          "mocap_vel and %s: velocities that are given do not follow from poses; expected one of both",
                          before.mocap_pos ? "mocap_pos_before" : "mocap_quat_before");
  if (pbMocap_Readable(r->model, &before, " before row 0", text, sizeof text)) return pb_ok;
  return pbContext_Fail(r->ctx, pb_bad_input, "%s", text);
}

pbStatus pbPrescribed_Check(pbRollout *r, int k) {
  bool counts = r->gradient == pb_gradientEvent || (r->nmocap && pbMocap_Counts(r->model));
  char text[400];
  Sources s;

  // Where nothing reads a velocity, a jump does no harm.
  if (!counts || !sources_at(r, k, &s)) return pb_ok;

  pbMocapPath p = path_of(r, &s, r->theta, r->mocap_own);
  pbMocap_Rate(r->model, &p, r->mocap_rate);
  if (pbMocap_Settle(r->model, p.h, true, r->mocap_rate, text, sizeof text)) return pb_ok;
  return pbRollout_StepFailed(r, pb_bad_input, k, text);
}

pbStatus pbPrescribed_CheckAll(pbRollout *r) {
  int steps = r->nmocap && r->gradient == pb_gradientEvent ? r->plan.steps : 0;
  for (int k = 0; k < steps; k++) PB_TRY(pbPrescribed_Check(r, k));

  return pb_ok;
}

// ---- forward ----------------------------------------------------------------------------------------------------------------
// The model's poses move with theta: rotations in the bodies' frames.
static void push_model(const pbRollout *r, const double *theta, double *pos, double *rot) {
  const pbModel *m = r->model;

  for (int b = 0; b < m->nbody; b++) {
    int k = m->body_mocapid[b];
    if (k < 0) continue;
    PB_ASSERT(k < r->nmocap);

    const double *x = theta + (m->body_pos - m->theta0) + 3 * b, *d = theta + (m->body_quat - m->theta0) + 4 * b;
    const double *quat = r->theta + (m->body_quat - m->theta0) + 4 * b;

    // Twice the vector part of conj(q) dq / |q|^2
    double back[4], turn[4], length2 = quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3];
    quat_conj(back, quat);
    quat_mul(turn, back, d);

    for (int i = 0; i < 3; i++) {
      pos[3 * k + i] = x[i];
      rot[3 * k + i] = 2 * turn[1 + i] / length2;
    }
  }
}

const double *pbPrescribed_Push(const pbRollout *r, const pbRolloutDirection *d, int k) {
  Sources s;
  int n = 3 * r->nmocap;
  if (r->input.mocap_vel) return row_of(d->mocap_vel, pbRollout_InputRow(r, k), 2 * n);
  if (!sources_at(r, k, &s)) return NULL;

  double *own_pos = r->mocap_own_rate, *own_rot = own_pos + n;
  pbMocapPath p = path_of(r, &s, r->theta, r->mocap_own);
  if (d->theta) push_model(r, d->theta, own_pos, own_rot);
  else own_pos = own_rot = NULL;

  // The time between both poses may move, too.
  pbMocapTangent along = {.h = d->theta ? timestep_of(r, d->theta) : 0};
  for (int side = 0; side < 2; side++) {
    int row = s.row - 1 + side;
    along.pos[side] = either(s.pos[side], d->mocap_pos, row, n, d->mocap_pos_before, own_pos);
    along.rot[side] = either(s.quat[side], d->mocap_rot, row, n, d->mocap_rot_before, own_rot);
  }

  pbMocap_Rate(r->model, &p, r->mocap_rate);
  pbMocap_PushRate(r->model, &p, &along, r->mocap_rate_bar);

  // Where a marker jumps its velocity is zero, whatever its path.
  for (int i = 0; i < r->nmocap; i++) {
    if (pbMocap_Jumps(r->model, r->mocap_rate + 6 * i, p.h)) memset(r->mocap_rate_bar + 6 * i, 0, 6 * sizeof(double));
  }

  return r->mocap_rate_bar;
}

const double *pbPrescribed_Moved(const pbRollout *r, const pbRolloutDirection *d, double size, const double *theta, int k,
                                 double *room) {
  Sources s;
  int n = 3 * r->nmocap;
  double *velocity = room, *poses = room + 2 * n;
  PB_ASSERT(n > 0 && room);

  // Given velocities move by themselves.
  if (r->input.mocap_vel && d->mocap_vel) {
    const double *way = row_of(d->mocap_vel, pbRollout_InputRow(r, k), 2 * n);
    const double *given = pbPrescribed_Rate(r, k);

    for (int i = 0; i < 2 * n; i++) velocity[i] = given[i] + size * way[i];
    return velocity;
  }

  if (!sources_at(r, k, &s)) return pbPrescribed_Rate(r, k);

  // The model's have moved with theta already.
  pbMocapPath p = path_of(r, &s, theta, r->mocap_own);
  for (int side = 0; side < 2; side++) {
    int row = s.row - 1 + side;
    double *pos = poses + 7 * r->nmocap * side, *quat = pos + n;
    memcpy(pos, p.pos[side], (size_t)n * sizeof *pos);
    memcpy(quat, p.quat[side], 4 * (size_t)r->nmocap * sizeof *quat);

    pbModel_MocapMove(r->model, either(s.pos[side], d->mocap_pos, row, n, d->mocap_pos_before, NULL),
                      either(s.quat[side], d->mocap_rot, row, n, d->mocap_rot_before, NULL), size, pos, quat);
    p.pos[side] = pos;
    p.quat[side] = quat;
  }

  pbMocap_Rate(r->model, &p, velocity);
  pbMocap_Settle(r->model, p.h, false, velocity, NULL, 0);
  return velocity;
}

// ---- reverse ----------------------------------------------------------------------------------------------------------------
bool pbPrescribed_Wanted(const pbRollout *r, const pbRolloutGradient *g) {
  bool any = g->mocap_pos || g->mocap_rot || g->mocap_pos_before || g->mocap_rot_before || g->theta;
  return any && r->nmocap && !r->input.mocap_vel;
}

void pbPrescribed_Begin(const pbRollout *r) {
  if (r->nmocap) memset(r->mocap_rate_bar, 0, 6 * (size_t)r->nmocap * sizeof *r->mocap_rate_bar);
}

// Cotangents of the model's poses to theta: dq = q (0, r) / 2.
static void pull_model(const pbRollout *r, const double *pos_bar, const double *rot_bar, double *theta_bar) {
  const pbModel *m = r->model;

  for (int b = 0; b < m->nbody; b++) {
    int k = m->body_mocapid[b];
    if (k < 0) continue;
    PB_ASSERT(k < r->nmocap);

    const double *quat = r->theta + (m->body_quat - m->theta0) + 4 * b, *turn = rot_bar + 3 * k;
    double *x = theta_bar + (m->body_pos - m->theta0) + 3 * b, *q = theta_bar + (m->body_quat - m->theta0) + 4 * b;
    double length2 = quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3];
    double to[4], vector[4] = {0, turn[0], turn[1], turn[2]};

    quat_mul(to, quat, vector);
    v3_addto(x, pos_bar + 3 * k);
    for (int i = 0; i < 4; i++) q[i] += 2 * to[i] / length2;
  }
}

static double *either_bar(int from, double *rows, int row, int width, double *before, double *model) {
  if (from == from_row) return rows ? rows + (size_t)row * (size_t)width : NULL;
  return from == from_before ? before : model;
}

void pbPrescribed_Pull(const pbRollout *r, const pbRolloutGradient *g, int k) {
  Sources s;
  int n = 3 * r->nmocap;
  if (!pbPrescribed_Wanted(r, g) || !sources_at(r, k, &s)) return;

  pbMocapPath p = path_of(r, &s, r->theta, r->mocap_own);
  // What comes to the model's poses is gathered apart: it is theta's.
  double *own_pos = r->mocap_own_rate, *own_rot = own_pos + n;
  memset(own_pos, 0, 2 * (size_t)n * sizeof *own_pos);
  pbMocapBar to = {.h = g->theta ? g->theta + (r->model->timestep - r->model->theta0) : NULL};

  for (int side = 0; side < 2; side++) {
    int row = s.row - 1 + side;
    to.pos[side] = either_bar(s.pos[side], g->mocap_pos, row, n, g->mocap_pos_before, own_pos);
    to.rot[side] = either_bar(s.quat[side], g->mocap_rot, row, n, g->mocap_rot_before, own_rot);
  }

  // Where a marker jumps its velocity is zero, whatever its path.
  pbMocap_Rate(r->model, &p, r->mocap_rate);
  for (int i = 0; i < r->nmocap; i++) {
    if (pbMocap_Jumps(r->model, r->mocap_rate + 6 * i, p.h)) memset(r->mocap_rate_bar + 6 * i, 0, 6 * sizeof(double));
  }

  pbMocap_PullRate(r->model, &p, r->mocap_rate_bar, &to);
  if (g->theta) pull_model(r, own_pos, own_rot, g->theta);
}
