// Jacobians of an open-loop step of bodies: rows some at a time, one pullback with unit cotangents side by side, and those of new
// velocities all at once (step/jacobian_adjoint.c). Tests: tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include "world/open_jacobian.h"

#include <string.h>

#include "base/assert.h"
#include "elementary/elementary.h"
#include "impact/impact.h"
#include "math/vec.h"
#include "model/joint.h"
#include "step/scratch.h"
#include "world/cached.h"

// ---- rotations -----------------------------------------------------------------------------------------------------
// q+ = q exp(r): dq+ = back dq + J dr, back = exp(-r), J the right Jacobian of exp,
//   J e = e - b r x e + c r x (r x e),   b = (1 - cos t) / t^2,   c = (t - sin t) / t^3,   t = |r|
static void rotation_step(const double rotation[3], double back[9], double J[9]) {
  double minus[3], q[4];

  v3_neg(minus, rotation);
  // back = exp(-r)
  quat_exp(q, minus);
  PB_VALIDATE(pb_isUnit(q, 4));
  quat_to_mat(back, q);

  double t2 = v3_dot(rotation, rotation);
  double t = sqrt(t2), sine, cosine;
  pbSinCos(t, &sine, &cosine);
  double b = t2 < 1e-6 ? 0.5 - t2 / 24 : (1 - cosine) / t2;
  double c = t2 < 1e-6 ? 1. / 6 - t2 / 120 : (t - sine) / (t2 * t);
  for (int k = 0; k < 3; k++) {
    double e[3] = {0};
    double once[3], twice[3];
    // Column k
    e[k] = 1;
    v3_cross(once, rotation, e);
    v3_cross(twice, rotation, once);
    for (int r = 0; r < 3; r++) J[3 * r + k] = e[r] - b * once[r] + c * twice[r];
  }
}

// ---- Jacobians -----------------------------------------------------------------------------------------------------
// Rows come some at a time, as many as the variant has lanes: one pullback with unit cotangents side by side.
typedef struct batch {
  pbScratch *s;
  pbStepRecord step;
  double *seed_q, *seed_v, *seed_act, *seed_sensor;  // nv, nv, na, nsensordata, times the lanes
  double *q, *v, *act, *inputs;                      // inputs: those of columns, one after the other
  int lanes;
  bool evaluated;  // the step has been replayed: later batches use it again
} batch;

// A Jacobian by the state and one by inputs; NULL: not wanted.
typedef struct jacobians {
  double *A, *B;  // rows of pb_openSize, of pb_inputColumns numbers
  unsigned by;
} jacobians;

// From row `row` on.
static jacobians rows_from(const batch *b, jacobians of, int row) {
  const pbModel *m = b->step.model;
  if (of.A) of.A += (size_t)row * (size_t)pb_openSize(m);
  if (of.B) of.B += (size_t)row * (size_t)pb_inputColumns(m, of.by);
  return of;
}

static double *take(double **room, size_t count) {
  double *taken = *room;
  *room += count;
  return taken;
}

static batch begin_batch(pbScratch *s, const pbStepRecord *step) {
  const pbModel *m = step->model;
  size_t lanes = (size_t)s->variant->lanes();
  size_t nv = (size_t)m->nv;
  size_t na = (size_t)m->na;
  size_t ns = (size_t)m->nsensordata;
  double *room = s->seeds;

  PB_ASSERT(lanes >= 1 && lanes <= pb_lanesMost);

  // Seeds are zero but for the row at hand.
  memset(room, 0, lanes * (2 * nv + na + ns) * sizeof(double));

  batch b = {.s = s, .step = *step, .lanes = (int)lanes};
  b.seed_q = take(&room, lanes * nv);
  b.seed_v = take(&room, lanes * nv);
  b.seed_act = take(&room, lanes * na);
  b.seed_sensor = take(&room, lanes * ns);
  b.q = take(&room, lanes * nv);
  b.v = take(&room, lanes * nv);
  b.act = take(&room, lanes * na);
  b.inputs = room;
  return b;
}

pbInputBar pbJacobian_Inputs(const pbModel *m, unsigned by, int lanes, double *inputs) {
  // In the order of pb_inputColumns
  size_t each = (size_t)lanes;
  pbInputBar bar = {0};
  if (by & pb_byControl) bar.ctrl = take(&inputs, each * (size_t)pb_controls(m));
  if (by & pb_byMocapPos) bar.mocap_pos = take(&inputs, each * 3 * (size_t)m->nmocap);
  if (by & pb_byMocapRot) bar.mocap_rot = take(&inputs, each * 3 * (size_t)m->nmocap);
  if (by & pb_byForce) bar.qfrc = take(&inputs, each * (size_t)m->nv);
  if (by & pb_byWrench) bar.xfrc = inputs;
  return bar;
}

// The pullback of what `p` says, with room for what comes of it.
static pbStatus pull(batch *b, pbPullback p, unsigned by) {
  const pbModel *m = b->step.model;
  // Room for what comes of it, which is one block from q on
  const pbInputBar to = pbJacobian_Inputs(m, by, b->lanes, b->inputs);
  p.q = b->q;
  p.v = b->v;
  p.act = b->act;
  p.ctrl = to.ctrl;
  p.mocap_pos = to.mocap_pos;
  p.mocap_rot = to.mocap_rot;
  p.qfrc = to.qfrc;
  p.xfrc = to.xfrc;
  p.evaluated = b->evaluated;

  // Pullbacks add.
  memset(b->q, 0, (size_t)(b->lanes * (pb_openSize(m) + pb_inputColumns(m, by))) * sizeof(double));
  if (!b->evaluated) pbScratch_Load(b->s, b->step.theta, b->step.record, b->step.input);
  b->evaluated = m->integrator != pb_intRK4;
  return b->s->variant->vjp_lanes(b->s->adjoint_lanes, &b->s->w, b->step.record + tape_stages(m), &p);
}

static pbStatus pull_batch(batch *b, bool step, unsigned by) {
  pbPullback p = {0};
  if (step) {
    p.q_next = b->seed_q;
    p.v_next = b->seed_v;
    p.act_next = b->seed_act;
  } else {
    p.sensordata = b->seed_sensor;
  }

  return pull(b, p, by);
}

// The first row of a Jacobian from one lane of the batch.
static void store_row(const batch *b, int lane, jacobians to) {
  const pbModel *m = b->step.model;
  int nv = m->nv;

  if (to.A) {
    for (int i = 0; i < nv; i++) to.A[i] = b->q[i * b->lanes + lane];
    for (int i = 0; i < nv; i++) to.A[nv + i] = b->v[i * b->lanes + lane];
    for (int i = 0; i < m->na; i++) to.A[2 * nv + i] = b->act[i * b->lanes + lane];
  }
  if (to.B) {
    for (int i = 0; i < pb_inputColumns(m, to.by); i++) to.B[i] = b->inputs[i * b->lanes + lane];
  }
}

// count rows from the seeds at `seed` (entry i of lane i mod lanes).
static pbStatus pull_rows(batch *b, double *seed, int count, bool step, jacobians to) {
  for (int first = 0; first < count; first += b->lanes) {
    int here = count - first < b->lanes ? count - first : b->lanes;
    // As many unit cotangents as there are lanes, side by side
    for (int l = 0; l < here; l++) seed[(first + l) * b->lanes + l] = 1;
    PB_TRY(pull_batch(b, step, to.by));
    for (int l = 0; l < here; l++) {
      seed[(first + l) * b->lanes + l] = 0;
      store_row(b, l, rows_from(b, to, first + l));
    }
  }

  return pb_ok;
}

// q+ = q + h v+ of one degree of freedom: its row from that of v+.
static void translation_row(double h, int row, int from, double *J, int cols) {
  if (!J) return;
  for (int c = 0; c < cols; c++) J[row * cols + c] = h * J[from * cols + c];
}

// The three rows of a rotation q exp(h v+): h times the right Jacobian times those of v+.
static void rotation_rows(double h, const double right[9], int row, int from, double *J, int cols) {
  if (!J) return;
  for (int r = 0; r < 3; r++) {
    for (int c = 0; c < cols; c++) {
      const double *col = J + from * cols + c;
      double along = right[3 * r] * col[0] + right[3 * r + 1] * col[cols] + right[3 * r + 2] * col[2 * cols];
      J[(row + r) * cols + c] = h * along;
    }
  }
}

// q+ = q (+) h v+: rows of q+ from those of v+ (semi-implicit integrators), a joint at a time.
static void position_rows(const batch *b, jacobians to) {
  const pbModel *m = b->step.model;
  const pbWork_r *w = &b->s->w;
  int n = pb_openSize(m);
  int nv = m->nv;
  int columns = pb_inputColumns(m, to.by);
  double h = w->p.timestep[0];

  for (int j = 0; j < m->njnt; j++) {
    int type = m->jnt_type[j];
    int dof = m->jnt_dofadr[j];
    int translations = pbJoint_PlainCount(type);
    // Plain positions: dq+ = dq + h dv+
    for (int i = dof; i < dof + translations; i++) {
      translation_row(h, i, nv + i, to.A, n);
      translation_row(h, i, nv + i, to.B, columns);
      if (to.A) to.A[i * n + i] += 1;
    }
    if (!pbJoint_HasRotation(type)) continue;

    // The rotation by h v+: dq+ = back dq + J h dv+
    double rotation[3], back[9], right[9];
    dof += translations;
    for (int k = 0; k < 3; k++) rotation[k] = h * (w->v0[dof + k] + h * w->qacc_integrated[dof + k]);
    rotation_step(rotation, back, right);
    rotation_rows(h, right, dof, nv + dof, to.A, n);
    rotation_rows(h, right, dof, nv + dof, to.B, columns);
    if (!to.A) continue;
    for (int k = 0; k < 9; k++) to.A[(dof + k / 3) * n + dof + k % 3] += back[k];
  }
}

// Rows of the state after the step.
static pbStatus state_rows(batch *b, jacobians to) {
  const pbStepRecord *step = &b->step;
  const pbModel *m = step->model;
  pbScratch *s = b->s;

  if (pbImpacts_Recorded(s, step->record)) return pbImpacts_Jacobian(s, step, to.by, to.A, to.B);

  // Runge-Kutta, hard contact and sweeps against slip pull every row; else rows of positions follow from those of velocities.
  jacobians of_v = rows_from(b, to, m->nv);
  if (m->integrator == pb_intRK4 || pb_hard(m) || pb_noslip(m)) {
    PB_TRY(pull_rows(b, b->seed_q, m->nv, true, to));
    PB_TRY(pull_rows(b, b->seed_v, m->nv, true, of_v));
  } else {
    bool cached = step->cached != NULL;
    PB_TRY(pbCached_Load(s, step));
    PB_TRY(s->variant->vjp_lanes_velocity(s->adjoint_lanes, &s->w, step->record + tape_stages(m), cached, to.by, of_v.A, of_v.B));
    b->evaluated = true;
    position_rows(b, to);
  }

  return pull_rows(b, b->seed_act, m->na, true, rows_from(b, to, 2 * m->nv));
}

// ---- all ---------------------------------------------------------------------------------------------------------------
pbStatus pbStep_JacobianOpen(pbScratch *s, const pbStepRecord *step, const pbJacobian *out) {
  const jacobians of_state = {out->A, out->B, out->by}, of_sensors = {out->C, out->D, out->by};
  batch b = begin_batch(s, step);

  // Lanes are made when they are first asked for.
  pbStatus status = pbScratch_MakeLanes(s);
  if (status == pb_ok && (out->A || out->B)) status = state_rows(&b, of_state);

  b.evaluated = false;  // sensors need more of an evaluation than a step
  if (status != pb_ok || !(out->C || out->D)) return status;
  return pull_rows(&b, b.seed_sensor, step->model->nsensordata, false, of_sensors);
}

// ---- what a policy observes ----------------------------------------------------------------------------------------------
static void add_entries(const batch *b, const double *from, int lane, int count, double *to) {
  for (int i = 0; i < count; i++) to[i] += from[i * b->lanes + lane];
}

// What one lane has of a row.
static void add_observed(const batch *b, int lane, int row, const pbObservedRows *rows) {
  const pbModel *m = b->step.model;
  int columns = pb_inputColumns(m, rows->by);
  double *A = rows->A + (size_t)row * (size_t)rows->n;

  // q, v and act stand side by side.
  add_entries(b, b->q, lane, pb_openSize(m), A);
  if (rows->B) add_entries(b, b->inputs, lane, columns, rows->B + (size_t)row * (size_t)columns);
}

pbStatus pbStep_JacobianObserved(pbScratch *s, const pbStepRecord *step, const pbObservedRows *rows) {
  const pbModel *m = step->model;
  // Stages of Runge-Kutta have left another evaluation than that of the start.
  int observing = m->policy->observing;
  unsigned by = rows->B ? rows->by : 0;
  batch b = begin_batch(s, step);
  b.evaluated = m->integrator != pb_intRK4;
  PB_ASSERT(s->adjoint_lanes && rows->n >= pb_openSize(m) && !(by & ~(unsigned)(pb_byMocapPos | pb_byMocapRot)));

  for (int first = 0; first < rows->count; first += b.lanes) {
    int here = rows->count - first < b.lanes ? rows->count - first : b.lanes;

    // Lanes that no row is left for have the first one's.
    for (int l = 0; l < b.lanes; l++) {
      const double *row = rows->observation + (size_t)(first + (l < here ? l : 0)) * (size_t)observing;
      for (int i = 0; i < observing; i++) rows->room[i * b.lanes + l] = row[i];
    }

    PB_TRY(pull(&b, (pbPullback){.observation = rows->room}, by));
    for (int l = 0; l < here; l++) add_observed(&b, l, first + l, rows);
  }

  return pb_ok;
}
