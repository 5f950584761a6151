// The public derivatives of a step.
#include <string.h>

#include "model/joint.h"
#include "base/context.h"
#include "math/vec.h"
#include "couple/couple.h"
#include "couple/deform_step.h"
#include "impact/impact.h"
#include "step/jvp.h"
#include "world/kept.h"
#include "step/scratch.h"
#include "model/sphere.h"
#include "step/vjp.h"

pbStatus pbStep_Jvp(const pbModel *m, const double *theta, const double *record, const pbInput *input,
                    const pbDirection *direction, pbScratch *s, double *next, double *sensordata, double *xpos,
                    double *site_xpos) {
  pbDirection tangential = *direction;
  const double *given = theta;
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(pbScratch_CheckRecord(s, record));
  if (theta != given && direction->theta) {
    memcpy(s->theta_way, direction->theta, m->ntheta * sizeof(double));
    pbSphere_Push(m, given, s->theta_way);
    tangential.theta = s->theta_way;
    direction = &tangential;
  }
  if (pb_coupled(m) && next) {
    pbStatus coupled = pbCouple_Jvp(s, theta, record, input, direction, next, sensordata, xpos, site_xpos);
    return coupled == pb_ok ? coupled
                            : pbScratch_Fail(s, coupled, "forward derivative: %s",
                                             *s->deform->error ? s->deform->error : pbStatus_Text(coupled));
  }
  if (m->deform && next) PB_TRY(pbScratch_DeformJvp(s, theta, record, input, direction, next));
  if (next && pbImpacts_Recorded(s, record)) {  // its flights, and what is seen at the start by itself
    PB_TRY(pbImpacts_Jvp(s, theta, record, input, direction, next));
    next = NULL;
  }
  memcpy(s->stages, record + tape_stages(m), (size_t)(pb_stages(m) * m->nv) * sizeof(double));
  pbStatus status =
      pbJvp_Run(s->complex_work, theta, record, input, s->stages, direction, next != NULL, next, sensordata, xpos, site_xpos);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "forward derivative: %s", pbStatus_Text(status));
}

pbStatus pbStep_Vjp(const pbModel *m, const double *theta, const double *record, const pbInput *input, const double *next_bar,
                    const pbObservationBar *observed, pbScratch *s, double *x_bar, const pbInputBar *input_bar,
                    double *theta_bar) {
  return pbStep_VjpKept(m, theta, record, NULL, input, next_bar, observed, NULL, s, x_bar, input_bar, theta_bar);
}

// ---- rotations ------------------------------------------------------------------------------------------------------
// q+ = q exp(turn): dq+ = back dq + J d(turn), back = exp(-turn), J the right Jacobian of exp.
static void rotation_step(const double turn[3], double back[9], double J[9]) {
  double minus[3], q[4], t2 = v3_dot(turn, turn), t = sqrt(t2), b, c;
  v3_neg(minus, turn);
  quat_exp(q, minus);
  quat_to_mat(back, q);
  b = t2 < 1e-6 ? 0.5 - t2 / 24 : (1 - cos(t)) / t2;
  c = t2 < 1e-6 ? 1. / 6 - t2 / 120 : (t - sin(t)) / (t2 * t);
  for (int k = 0; k < 3; k++) {  // J e = e - b turn x e + c turn x (turn x e)
    double e[3] = {0}, x[3], xx[3];
    e[k] = 1;
    v3_cross(x, turn, e), v3_cross(xx, turn, x);
    for (int r = 0; r < 3; r++) J[3 * r + k] = e[r] - b * x[r] + c * xx[r];
  }
}

// ---- Jacobians ------------------------------------------------------------------------------------------------------
// Rows come some at a time, as many as the variant has lanes: one pullback with unit cotangents side by side.
typedef struct batch {
  const pbModel *m;
  pbScratch *s;
  const double *theta, *record;
  const pbInput *input;
  double *seed_q, *seed_v, *seed_act, *seed_sensor;  // nv, nv, na, nsensordata, times the lanes
  double *q, *v, *act, *ctrl;
  int lanes;
  bool evaluated;  // the step has been replayed: later batches reuse it
} batch;

static pbStatus pull_batch(batch *b, bool step) {
  const pbModel *m = b->m;
  pbPullback p = {.sensordata = step ? NULL : b->seed_sensor, .q = b->q, .v = b->v, .act = b->act, .ctrl = b->ctrl};
  if (step) p.q_next = b->seed_q, p.v_next = b->seed_v, p.act_next = b->seed_act;
  memset(b->q, 0, (size_t)(b->lanes * (2 * m->nv + m->na + m->nu)) * sizeof(double));
  p.evaluated = b->evaluated;
  if (!b->evaluated) pbScratch_Load(b->s, b->theta, b->record, b->input);
  b->evaluated = m->integrator != pb_intRK4;
  return b->s->variant->vjp_lanes(b->s->adjoint_lanes, &b->s->w, b->record + tape_stages(m), &p);
}

// Row of a Jacobian from one lane of the batch.
static void store(const batch *b, int lane, double *A_row, double *B_row) {
  const pbModel *m = b->m;
  for (int i = 0; A_row && i < m->nv; i++) A_row[i] = b->q[i * b->lanes + lane], A_row[m->nv + i] = b->v[i * b->lanes + lane];
  for (int i = 0; A_row && i < m->na; i++) A_row[2 * m->nv + i] = b->act[i * b->lanes + lane];
  for (int i = 0; B_row && i < m->nu; i++) B_row[i] = b->ctrl[i * b->lanes + lane];
}

// count rows from the seeds at `seed` (entry i of lane i mod lanes).
static pbStatus rows(batch *b, double *seed, int count, bool step, double *A, double *B) {
  const pbModel *m = b->m;
  int n = pbModel_TangentSize(m);
  for (int first = 0; first < count; first += b->lanes) {
    int here = count - first < b->lanes ? count - first : b->lanes;
    for (int l = 0; l < here; l++) seed[(first + l) * b->lanes + l] = 1;
    PB_TRY(pull_batch(b, step));
    for (int l = 0; l < here; l++) {
      seed[(first + l) * b->lanes + l] = 0;
      store(b, l, A ? A + (size_t)(first + l) * (size_t)n : NULL, B ? B + (size_t)(first + l) * (size_t)m->nu : NULL);
    }
  }
  return pb_ok;
}

// q+ = q (+) h v+: rows of q+ from those of v+ (semi-implicit integrators), a rotation at a time.
static void position_rows(const batch *b, double *A, double *B) {
  const pbModel *m = b->m;
  const pbWork_r *w = &b->s->w;
  int n = pbModel_TangentSize(m), nv = m->nv;
  double h = w->p.timestep[0];
  for (int j = 0; j < m->njnt; j++) {
    int type = m->jnt_type[j], dof = m->jnt_dofadr[j], plain = pbJoint_PlainCount(type);
    for (int i = dof; i < dof + plain; i++) {
      for (int c = 0; A && c < n; c++) A[i * n + c] = h * A[(nv + i) * n + c];
      for (int c = 0; B && c < m->nu; c++) B[i * m->nu + c] = h * B[(nv + i) * m->nu + c];
      if (A) A[i * n + i] += 1;
    }
    if (!pbJoint_HasRotation(type)) continue;
    double turn[3], back[9], J[9];
    dof += plain;
    for (int k = 0; k < 3; k++) turn[k] = h * (w->v0[dof + k] + h * w->qacc_integrated[dof + k]);
    rotation_step(turn, back, J);
    for (int r = 0; r < 3; r++) {
      for (int c = 0; A && c < n; c++) {
        double *col = A + (nv + dof) * n + c;
        A[(dof + r) * n + c] = h * (J[3 * r] * col[0] + J[3 * r + 1] * col[n] + J[3 * r + 2] * col[2 * n]);
      }
      for (int c = 0; B && c < m->nu; c++) {
        double *col = B + (nv + dof) * m->nu + c;
        B[(dof + r) * m->nu + c] = h * (J[3 * r] * col[0] + J[3 * r + 1] * col[m->nu] + J[3 * r + 2] * col[2 * m->nu]);
      }
      for (int c = 0; A && c < 3; c++) A[(dof + r) * n + dof + c] += back[3 * r + c];
    }
  }
}

// Worlds with deformables: a pullback for each row.
static pbStatus row_by_row(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                           double *A, double *B, double *C, double *D) {
  size_t n = (size_t)pbModel_TangentSize(m), nu = (size_t)pb_controls(m), ns = (size_t)m->nsensordata;
  double *memory = s->row;
  memset(memory, 0, (2 * n + nu + ns) * sizeof *memory);
  double *seed = memory, *seen = memory + n, *x_bar = seen + ns, *ctrl_bar = x_bar + n;
  pbStatus status = pb_ok;
  for (size_t r = 0; r < n + ns && status == pb_ok; r++) {
    bool step = r < n;
    size_t row = step ? r : r - n;
    if (!(step ? A || B : C || D)) continue;
    memset(x_bar, 0, (n + nu) * sizeof *memory);
    memory[r] = 1;
    status = pbStep_Vjp(m, theta, record, input, step ? seed : NULL, step ? NULL : &(pbObservationBar){.sensordata = seen}, s,
                        x_bar, &(pbInputBar){.ctrl = ctrl_bar}, NULL);
    memory[r] = 0;
    double *by_state = step ? A : C, *by_control = step ? B : D;
    if (by_state) memcpy(by_state + row * n, x_bar, n * sizeof *x_bar);
    if (by_control) memcpy(by_control + row * nu, ctrl_bar, nu * sizeof *ctrl_bar);
  }
  return status;
}

pbStatus pbStep_Jacobian(const pbModel *m, const double *theta, const double *record, const pbInput *input, pbScratch *s,
                         double *A, double *B, double *C, double *D) {
  PB_TRY(pbScratch_Enter(s, m, &theta));
  PB_TRY(pbScratch_CheckRecord(s, record));
  if (m->deform) return row_by_row(m, theta, record, input, s, A, B, C, D);
  size_t lanes = (size_t)s->variant->lanes();
  batch b = {.m = m, .s = s, .lanes = (int)lanes, .theta = theta, .record = record, .input = input};
  size_t n = (size_t)pbModel_TangentSize(m), nv = (size_t)m->nv, na = (size_t)m->na, ns = (size_t)m->nsensordata,
         nu = (size_t)m->nu;
  double *at = s->seeds;
  memset(at, 0, lanes * (2 * nv + na + ns) * sizeof(double));
  b.seed_q = at, at += lanes * nv;
  b.seed_v = at, at += lanes * nv;
  b.seed_act = at, at += lanes * na;
  b.seed_sensor = at, at += lanes * ns;
  b.q = at, at += lanes * nv;
  b.v = at, at += lanes * nv;
  b.act = at, at += lanes * na;
  b.ctrl = at;
  pbStatus status = pb_ok;
  if ((A || B) && pbImpacts_Recorded(s, record)) {
    status = pbImpacts_Jacobian(s, theta, record, input, A, B);
  } else if (A || B) {
    double *Av = A ? A + nv * n : NULL, *Bv = B ? B + nv * nu : NULL;
    if (m->integrator == pb_intRK4 || pb_hard(m)) {
      status = rows(&b, b.seed_q, m->nv, true, A, B);
      if (status == pb_ok) status = rows(&b, b.seed_v, m->nv, true, Av, Bv);
    } else {
      pbScratch_Load(s, theta, record, input);
      status = s->variant->vjp_lanes_velocity(s->adjoint_lanes, &s->w, record + tape_stages(m), Av, Bv);
      b.evaluated = true;
      if (status == pb_ok) position_rows(&b, A, B);
    }
    if (status == pb_ok) status = rows(&b, b.seed_act, m->na, true, A ? A + 2 * nv * n : NULL, B ? B + 2 * nv * nu : NULL);
  }
  b.evaluated = false;  // sensors ask for more
  if (status == pb_ok && (C || D)) status = rows(&b, b.seed_sensor, m->nsensordata, false, C, D);
  return status == pb_ok ? status : pbScratch_Fail(s, status, "Jacobian: %s", pbStatus_Text(status));
}
