// Jacobians of an open-loop step of bodies: rows some at a time, one pullback with unit cotangents side by side, and those of new
// positions and velocities all at once (step/jacobian_adjoint.c).
// Tests: tests/conformance/test_step.c, tests/conformance/test_jacobian_bits.c, tests/oracle/test_derivatives.py.
#include "world/open_jacobian.h"

#include <string.h>

#include "base/assert.h"
#include "impact/impact.h"
#include "step/scratch.h"
#include "world/cached.h"

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

// Rows of the state after the step.
static pbStatus state_rows(batch *b, jacobians to) {
  const pbStepRecord *step = &b->step;
  const pbModel *m = step->model;
  pbScratch *s = b->s;

  if (pbImpacts_Recorded(s, step->record)) return pbImpacts_Jacobian(s, step, to.by, to.A, to.B);

  // Runge-Kutta, hard contact and sweeps against slip pull every row; else rows of positions follow from those of velocities.
  if (m->integrator == pb_intRK4 || pb_hard(m) || pb_noslip(m)) {
    PB_TRY(pull_rows(b, b->seed_q, m->nv, true, to));
    PB_TRY(pull_rows(b, b->seed_v, m->nv, true, rows_from(b, to, m->nv)));
  } else {
    bool cached = step->cached != NULL;
    PB_TRY(pbCached_Load(s, step));
    PB_TRY(s->variant->vjp_lanes_state(s->adjoint_lanes, &s->w, step->record + tape_stages(m), cached, to.by, to.A, to.B));
    b->evaluated = true;
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
