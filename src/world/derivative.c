// The public derivatives of a step.
// Tests: tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "couple/couple.h"
#include "couple/deform_step.h"
#include "elementary/elementary.h"
#include "impact/impact.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/sphere.h"
#include "solve/dual.h"
#include "step/jvp.h"
#include "step/scratch.h"
#include "step/vjp.h"
#include "world/cached.h"
#include "world/history_step.h"
#include "world/policy_step.h"

// ---- forward and reverse -------------------------------------------------------------------------------------------
static pbStatus push_coupled(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  pbStatus status = pbCouple_Jvp(s, step, direction, out);
  if (status == pb_ok) return pb_ok;
  const char *text = *s->deform->error ? s->deform->error : pbStatus_Text(status);
  return pbScratch_Fail(s, status, "forward derivative: %s", text);
}

// The complex program at the step's accelerations. With hard contact at its forces, too: those that the reverse derivative is
// taken at, from the same evaluation.
static pbStatus push_bodies(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  pbFound found;
  PB_TRY(pbScratch_MakeComplex(s));

  if (pb_hard(s->model)) {
    pbScratch_Load(s, step->theta, step->record, step->input);
    PB_TRY(s->variant->run(&s->w, s->stages, true, false, false));
    pbDual_Found_r(&s->w, &found);
    pbJvp_KnowForces(s->complex_work, &found);
  }
  pbStatus status = pbJvp_Run(s->complex_work, step, s->stages, direction, out->next != NULL, out);
  pbJvp_KnowForces(s->complex_work, NULL);
  return status;
}

pbStatus pbStep_JvpOpen(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *given) {
  if (s->history && !step->read) return pbHistory_Jvp(s, step, direction, given);
  const pbModel *m = step->model;
  pbStepTangent out = *given;

  if (pb_coupled(m) && out.next) return push_coupled(s, step, direction, &out);
  if (m->deform && out.next) PB_TRY(pbScratch_DeformJvp(s, step, direction, out.next));

  // A step with impacts is pushed flight by flight; what is observed at its start by itself.
  if (out.next && pbImpacts_Recorded(s, step->record)) {
    PB_TRY(pbImpacts_Jvp(s, step, direction, out.next));
    out.next = NULL;
  }

  // The step is replayed from the accelerations that it found.
  memcpy(s->stages, step->record + tape_stages(m), (size_t)(pb_solutions(m) * m->nv) * sizeof(double));
  pbStatus status = push_bodies(s, step, direction, &out);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "forward derivative: %s", pbStatus_Text(status));
}

// By the normalized theta, along directions on its spheres. Positions do not depend on what a policy does.
pbStatus pbStep_JvpRecord(pbScratch *s, const pbStepRecord *step, const pbDirection *direction, const pbStepTangent *out) {
  bool closed = step->model->policy && !step->open && (out->next || out->sensordata);
  return closed ? pbPolicy_Jvp(s, step, direction, out) : pbStep_JvpOpen(s, step, direction, out);
}

pbStatus pbStep_Jvp(const pbModel *m, const double *theta, const double *record, const pbInput *input,
                    const pbDirection *direction, pbScratch *s, double *next, double *sensordata, double *xpos,
                    double *site_xpos) {
  pbStepRecord step = {.model = m, .theta = theta, .record = record, .input = input};
  pbDirection along = *direction;

  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  PB_TRY(pbScratch_CheckRecord(s, record));

  // Kernels see directions of length one, so the direction of theta goes there too.
  if (step.theta != theta && direction->theta) {
    memcpy(s->theta_tangent, direction->theta, m->ntheta * sizeof(double));
    pbSphere_Push(m, theta, s->theta_tangent);
    along.theta = s->theta_tangent;
  }

  return pbStep_JvpRecord(s, &step, &along, &(pbStepTangent){next, sensordata, xpos, site_xpos});
}

bool pbScratch_Tangent(pbScratch *s, const char *name, double *out) {
  return s->complex_work && !pbScratch_Stale(s, s->model) && pbJvp_Field(s->complex_work, name, out);
}

pbStatus pbStep_Vjp(const pbModel *m, const double *theta, const double *record, const pbInput *input, const double *next_bar,
                    const pbObservationBar *observed, pbScratch *s, double *x_bar, const pbInputBar *input_bar,
                    double *theta_bar) {
  const pbStepRecord step = {.model = m, .theta = theta, .record = record, .input = input};
  const pbStepCotangent in = {.next = next_bar, .observed = observed};
  return pbStep_VjpCached(&step, &in, s, &(pbStepBar){x_bar, input_bar, theta_bar});
}

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
  double *A, *B;  // rows of pbModel_TangentSize, of pbModel_Columns numbers
  unsigned by;
} jacobians;

// From row `row` on.
static jacobians rows_from(const batch *b, jacobians of, int row) {
  const pbModel *m = b->step.model;
  if (of.A) of.A += (size_t)row * (size_t)pbModel_TangentSize(m);
  if (of.B) of.B += (size_t)row * (size_t)pbModel_Columns(m, of.by);
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

// Where the inputs' columns of a pullback go, among `inputs`.
static void place_inputs(const pbModel *m, unsigned by, int lanes, double *inputs, double **ctrl, double **pos, double **rot) {
  size_t each = (size_t)lanes;
  *ctrl = by & pb_byControl ? take(&inputs, each * (size_t)pb_controls(m)) : NULL;
  *pos = by & pb_byMocapPos ? take(&inputs, each * 3 * (size_t)m->nmocap) : NULL;
  *rot = by & pb_byMocapRot ? inputs : NULL;
}

static pbStatus pull_batch(batch *b, bool step, unsigned by) {
  const pbModel *m = b->step.model;
  pbPullback p = {.q = b->q, .v = b->v, .act = b->act, .evaluated = b->evaluated};
  place_inputs(m, by, b->lanes, b->inputs, &p.ctrl, &p.mocap_pos, &p.mocap_rot);

  if (step) {
    p.q_next = b->seed_q;
    p.v_next = b->seed_v;
    p.act_next = b->seed_act;
  } else {
    p.sensordata = b->seed_sensor;
  }

  // Pullbacks add.
  memset(b->q, 0, (size_t)(b->lanes * (2 * m->nv + m->na + pbModel_Columns(m, by))) * sizeof(double));
  if (!b->evaluated) pbScratch_Load(b->s, b->step.theta, b->step.record, b->step.input);
  b->evaluated = m->integrator != pb_intRK4;
  return b->s->variant->vjp_lanes(b->s->adjoint_lanes, &b->s->w, b->step.record + tape_stages(m), &p);
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
    for (int i = 0; i < pbModel_Columns(m, to.by); i++) to.B[i] = b->inputs[i * b->lanes + lane];
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
  int n = pbModel_TangentSize(m);
  int nv = m->nv;
  int columns = pbModel_Columns(m, to.by);
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

// ---- Jacobians of worlds with deformables, a policy or histories: a pullback for each row -------------------------------------
static pbStatus row_by_row(const pbStepRecord *given, pbScratch *s, jacobians of_state, jacobians of_sensors) {
  const pbModel *m = given->model;
  size_t n = (size_t)pbModel_TangentSize(m);
  size_t nu = (size_t)pbModel_Columns(m, of_state.by);
  size_t ns = (size_t)m->nsensordata;
  double *seed = s->row;
  double *sensor_seed = seed + n;
  double *x_bar = sensor_seed + ns;
  double *inputs = x_bar + n;
  const pbObservationBar observed = {.sensordata = sensor_seed};
  pbInputBar input_bar = {0};
  place_inputs(m, of_state.by, 1, inputs, &input_bar.ctrl, &input_bar.mocap_pos, &input_bar.mocap_rot);

  memset(seed, 0, (2 * n + nu + ns) * sizeof *seed);

  for (size_t r = 0; r < n + ns; r++) {
    // First rows of the state, then of the sensors
    bool step = r < n;
    size_t row = step ? r : r - n;
    jacobians to = step ? of_state : of_sensors;
    if (!to.A && !to.B) continue;

    memset(x_bar, 0, (n + nu) * sizeof *x_bar);
    // The seeds of both stand side by side.
    seed[r] = 1;
    pbStepCotangent in = {.next = step ? seed : NULL, .observed = step ? NULL : &observed};
    pbStatus status = pbStep_VjpCached(given, &in, s, &(pbStepBar){x_bar, &input_bar, NULL});
    seed[r] = 0;
    if (to.A) memcpy(to.A + row * n, x_bar, n * sizeof *x_bar);
    if (to.B) memcpy(to.B + row * nu, inputs, nu * sizeof *inputs);
    PB_TRY(status);
  }

  return pb_ok;
}

// ---- both ----------------------------------------------------------------------------------------------------------
pbStatus pbStep_JacobianRecord(const pbStepRecord *given, pbScratch *s, const pbJacobian *out) {
  const pbModel *m = given->model;
  pbStepRecord step = *given;
  const jacobians of_state = {out->A, out->B, out->by}, of_sensors = {out->C, out->D, out->by};

  PB_TRY(pbScratch_Enter(s, m, &step.theta));
  PB_TRY(pbScratch_CheckRecord(s, step.record));
  if (m->deform || m->policy || m->nhistory) return row_by_row(&step, s, of_state, of_sensors);

  batch b = begin_batch(s, &step);
  pbStatus status = pbScratch_MakeLanes(s);
  if (status != pb_ok) return pbScratch_Fail(s, status, "Jacobian: %s", pbStatus_Text(status));
  status = out->A || out->B ? state_rows(&b, of_state) : pb_ok;
  b.evaluated = false;  // sensors need more of an evaluation than a step
  if (status == pb_ok && (out->C || out->D)) status = pull_rows(&b, b.seed_sensor, m->nsensordata, false, of_sensors);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "Jacobian: %s", pbStatus_Text(status));
}

pbStatus pbStep_JacobianBy(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                           const pbJacobian *out) {
  const pbStepRecord step = {.model = m, .theta = theta, .record = record, .input = input};
  return pbStep_JacobianRecord(&step, s, out);
}

pbStatus pbStep_Jacobian(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                         double *A, double *B, double *C, double *D) {
  return pbStep_JacobianBy(m, theta, record, input, s, &(pbJacobian){pb_byControl, A, B, C, D});
}
