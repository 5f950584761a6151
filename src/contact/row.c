// Constraint rows: Jacobians and residuals, in MuJoCo's order: equalities, friction loss, servos, limits, contacts. The rest:
// row_numbers.c. Their derivatives: row_adjoint.h names the files.
// Tests: tests/unit/test_kinks.c, tests/unit/test_servo.c, tests/conformance/test_step.c.
#include <pullback/actuators.h>

#include "base/assert.h"
#include "contact/contact.h"
#include "contact/penalty.h"
#include "contact/prescribed.h"
#include "contact/row.h"
#include "contact/weight.h"
#include "linalg/vector.h"
#include "math/vec.h"
#include "model/equality_data.h"
#include "model/joint.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"

// ---- building blocks ------------------------------------------------------------------------------------------------
static NUM(pbRow) *new_row(NUM(pbWork) *w, pbRowKind kind, int id, int dim) {
  PB_ASSERT(w->nrow < w->max_row && dim >= 1 && dim <= 6);
  NUM(pbRow) *r = w->row + w->nrow++;
  r->kind = kind;
  r->id = id;
  r->tendon = -1;
  r->side = 0;
  r->dim = dim;
  r->n = 0;
  r->dofs = w->ndofs_used;
  r->J = w->nJ_used;

  // Zero unless its kind sets it.
  r->zone = pb_zoneOpen;
  r->margin = 0;
  r->mu = 0;
  r->bound[0] = r->bound[1] = 0;
  r->target = 0;
  for (int k = 0; k < 6; k++) r->pos[k] = 0;
  return r;
}

// The dofs of the row are known (n in row_dofs at r->dofs): claim them and room for J, to be filled.
static num *claim(NUM(pbWork) *w, NUM(pbRow) *r, int n) {
  PB_VALIDATE(pb_ascending(w->row_dofs + r->dofs, n) && pb_allWithin(w->row_dofs + r->dofs, n, 0, w->m->nv));
  r->n = n;
  w->ndofs_used += n;
  w->nJ_used += n * r->dim;
  PB_ASSERT(w->ndofs_used <= w->max_dofs);
  return w->row_J + r->J;
}

// Ascending dofs that move body1 or body2 (without those that move both, if asked). Returns their number.
static int merge_chains(const NUM(pbWork) *w, int body1, int body2, bool skip_common, int *dofs) {
  int a = w->t->body_dofend[body1];
  int b = w->t->body_dofend[body2];
  int n = 0;

  // Up both chains at once, the larger dof first.
  while (a >= 0 || b >= 0) {
    int top = a > b ? a : b;
    if (a == b && skip_common) break;
    dofs[n++] = top;
    if (a == top) a = w->m->dof_parentid[a];
    if (b == top) b = w->m->dof_parentid[b];
  }

  // From descending to ascending.
  for (int i = 0; i < n / 2; i++) {
    int t = dofs[i];
    dofs[i] = dofs[n - 1 - i];
    dofs[n - 1 - i] = t;
  }

  return n;
}

// Is dof i among those that move the body? The chain of the body's last dof names them by depth.
static inline bool moves(const NUM(pbWork) *w, int i, int body) {
  int end = w->t->body_dofend[body];
  if (end < i) return false;
  const pbTreePattern *tree = &w->t->M;
  int depth = tree->depth[i];
  return depth <= tree->depth[end] && tree->chain[tree->adr[end] + depth] == i;
}

// Column of dof i: velocity of the point of body (lin) and angular velocity (ang), times sign, added.
static void add_column(const NUM(pbWork) *w, int i, const num offset[3], double sign, num lin[3], num ang[3]) {
  const num *S = w->S + 6 * i;
  num u[3];
  PB_POINTVEL(u, S, offset);
  v3_addscl(lin, u, sign);
  v3_addscl(ang, S, sign);
}

// out = J v
PB_COPIES void times(int dim, const num *J, const int *dofs, int n, const num *v, num *out) {
  pbVector dot[6] = {0};
  int i = 0;

  for (; i + PB_WIDTH <= n; i += PB_WIDTH) {
    pbVector u;
    vec_gather(v, dofs + i, &u);
    for (int k = 0; k < dim; k++) dot[k] += *vec_in(J + k * n + i) * u;
  }

  // The rest, one by one.
  for (int k = 0; k < dim; k++) out[k] = vec_sum(dot + k);
  for (; i < n; i++) {
    for (int k = 0; k < dim; k++) out[k] += J[k * n + i] * v[dofs[i]];
  }
}

void NUM(pbRow_Times)(const NUM(pbWork) *w, const NUM(pbRow) *r, const num *v, num *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;
  if (r->dim == 1) times(1, J, dofs, r->n, v, out);
  else if (r->dim == 3) times(3, J, dofs, r->n, v, out);
  else times(r->dim, J, dofs, r->n, v, out);
}

// out += J'f
PB_COPIES void add_force(int dim, const num *J, const int *dofs, int n, const num *f, num *out) {
  int i = 0;
  for (; i + PB_WIDTH <= n; i += PB_WIDTH) {
    pbVector u;
    vec_gather(out, dofs + i, &u);
    for (int k = 0; k < dim; k++) u += f[k] * *vec_in(J + k * n + i);
    vec_scatter(&u, out, dofs + i);
  }

  // The rest, one by one.
  for (; i < n; i++) {
    for (int k = 0; k < dim; k++) out[dofs[i]] += f[k] * J[k * n + i];
  }
}

void NUM(pbRow_AddForce)(const NUM(pbWork) *w, const NUM(pbRow) *r, const num *f, num *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const num *J = w->row_J + r->J;
  if (r->dim == 3) add_force(3, J, dofs, r->n, f, out);
  else add_force(r->dim, J, dofs, r->n, f, out);
}

// A row that nothing moves: MuJoCo leaves it out. False: the row was taken back.
static bool moved(NUM(pbWork) *w, NUM(pbRow) *r) {
  for (int i = 0; i < r->n * r->dim; i++) {
    if (re(w->row_J[r->J + i]) != 0) return true;
  }

  w->nrow--;
  w->ndofs_used = r->dofs;
  w->nJ_used = r->J;
  return false;
}

// The rest of a row whose J, pos, margin and diag are set.
static void finish_row(NUM(pbWork) *w, NUM(pbRow) *r) {
  if (r->kind == pb_rowContact || moved(w, r)) NUM(pbRow_SetNumbers)(w, r, w->qvel);
}

// ---- equalities -----------------------------------------------------------------------------------------------------
// vec(conj(q2) x q1) for a pure quaternion x: how angular rates enter a weld's orientation residual (twice).
static void relative_rate(num out[3], const num q2[4], const num x[3], const num q1[4]) {
  num c[4], t[4];
  quat_conj(c, q2);
  quat_mulaxis(t, c, x);
  quat_mul(c, t, q1);
  v3_set(out, c[1], c[2], c[3]);
}

// Acceleration of a point and its body at zero joint acceleration, without gravity.
static void drift(const NUM(pbWork) *w, int body, const num p[3], num lin[3], num ang[3]) {
  num d[3], u[3], t[3];
  body_offset(w, body, p, d);
  const num *V = w->V + 6 * body;
  const num *A = w->A0 + 6 * body;

  // A + w x u, less gravity, which A0 holds as an acceleration of the world.
  PB_POINTVEL(u, V, d);
  PB_POINTVEL(lin, A, d);
  v3_cross(t, V, u);
  v3_addto(lin, t);
  for (int k = 0; k < 3; k++) lin[k] -= w->A0[3 + k];
  v3_copy(ang, A);
}

// Both ends of a connect or weld.
typedef struct ends {
  int body[2];
  num p1[3], p2[3], q1[4], q2[4];
  num scale;  // of a weld's rotational rows
} ends;

// aref -= (d/dt J) v of connect and weld; rotational rows: of scale / 2 vec(conj(q2) (w1 - w2) q1).
static void subtract_drift(const NUM(pbWork) *w, NUM(pbRow) *r, const ends *e) {
  num l1[3], a1[3], l2[3], a2[3];
  drift(w, e->body[0], e->p1, l1, a1);
  drift(w, e->body[1], e->p2, l2, a2);
  for (int k = 0; k < 3; k++) r->aref[k] -= l1[k] - l2[k];
  if (r->dim < 6) return;

  // The angular accelerations ...
  const num *w1 = w->V + 6 * e->body[0];
  const num *w2 = w->V + 6 * e->body[1];
  num rel[3], t[3], half[4], dq[4];
  v3_sub(rel, w1, w2);
  v3_sub(a1, a1, a2);
  relative_rate(t, e->q2, a1, e->q1);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * e->scale;

  // ... and the rates of both orientations, dq/dt = w q / 2.
  quat_set(half, 0, 0.5 * w2[0], 0.5 * w2[1], 0.5 * w2[2]);
  quat_mul(dq, half, e->q2);
  relative_rate(t, dq, rel, e->q1);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * e->scale;

  quat_set(half, 0, 0.5 * w1[0], 0.5 * w1[1], 0.5 * w1[2]);
  quat_mul(dq, half, e->q1);
  relative_rate(t, e->q2, rel, dq);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * e->scale;
}

// Jacobian of the relative motion at both ends.
static void fill_relative_jacobian(NUM(pbWork) *w, NUM(pbRow) *r, const ends *e) {
  int *dofs = w->row_dofs + r->dofs;
  int n = merge_chains(w, e->body[0], e->body[1], false, dofs);
  num *J = claim(w, r, n);
  num d1[3], d2[3];

  body_offset(w, e->body[0], e->p1, d1);
  body_offset(w, e->body[1], e->p2, d2);

  // Columns: velocity of the anchors against each other, and the rate of the orientation residual.
  for (int i = 0; i < n; i++) {
    num lin[3] = {0}, ang[3] = {0}, rotation[3];
    if (moves(w, dofs[i], e->body[0])) add_column(w, dofs[i], d1, 1, lin, ang);
    if (moves(w, dofs[i], e->body[1])) add_column(w, dofs[i], d2, -1, lin, ang);
    for (int k = 0; k < 3; k++) J[k * n + i] = lin[k];

    if (r->dim < 6) continue;
    relative_rate(rotation, e->q2, ang, e->q1);
    for (int k = 0; k < 3; k++) J[(3 + k) * n + i] = 0.5 * e->scale * rotation[k];
  }
}

// pos = p1 - p2; welds: and scale vec(conj(q2) q1).
static void connect_or_weld(NUM(pbWork) *w, int equality) {
  bool weld = w->m->eq_type[equality] == pb_eqWeld;
  NUM(pbRow) *r = new_row(w, pb_rowEquality, equality, weld ? 6 : 3);
  ends e = {.scale = w->p.eq_data[pbWeld_Torquescale(equality)]};

  NUM(pbEquality_Ends)(w, equality, e.body, e.p1, e.p2, e.q1, e.q2);

  v3_sub(r->pos, e.p1, e.p2);
  if (weld) {
    num c[4], t[4];
    quat_conj(c, e.q2);
    quat_mul(t, c, e.q1);
    v3_scale(r->pos + 3, t + 1, e.scale);
  }
  fill_relative_jacobian(w, r, &e);

  // diagApprox: the inverse weights of both bodies, of translation or rotation.
  for (int k = 0; k < r->dim; k++) {
    int rotational = k > 2;
    r->diag[k] = w->p.body_invweight0[2 * e.body[0] + rotational] + w->p.body_invweight0[2 * e.body[1] + rotational];
  }

  // A row that nothing moves is taken back by finish_row.
  int before = w->nrow;
  finish_row(w, r);
  if (w->nrow == before) subtract_drift(w, r, &e);
}

// The Jacobian row of a joint or tendon equality while it is put together: by dof, and which dofs it touches.
typedef struct dense_row {
  num *J;         // nv
  bool *touched;  // nv
  num diag;
} dense_row;

// Value less rest value of a joint or tendon that an equality couples.
static num coupled_value(const NUM(pbWork) *w, int equality, int id) {
  if (w->m->eq_type[equality] != pb_eqJoint) return w->ten_length[id] - w->p.tendon_length0[id];
  int q = w->m->jnt_qposadr[id];
  return w->qpos[q] - w->p.qpos0[q];
}

// Adds its Jacobian times scale to the row, and its share of diagApprox.
static void add_coupled(const NUM(pbWork) *w, int equality, int id, num scale, dense_row *row) {
  if (w->m->eq_type[equality] == pb_eqJoint) {
    int dof = w->m->jnt_dofadr[id];
    row->touched[dof] = true;
    row->J[dof] += scale;
    row->diag += w->p.dof_invweight0[dof];
    return;
  }

  // A tendon: its own row of the tendons' Jacobian.
  for (int a = w->ten_start[id]; a < w->ten_start[id + 1]; a++) {
    row->touched[w->ten_dofs[a]] = true;
    row->J[w->ten_dofs[a]] += scale * w->ten_J[a];
  }
  row->diag += w->p.tendon_invweight0[id];
}

// pos = x1 - P(x2), J = J1 - P'(x2) J2, with the polynomial P of eq_data and x the values less those at rest.
static void joint_or_tendon(NUM(pbWork) *w, int equality) {
  const pbModel *m = w->m;
  const num *c = w->p.eq_data + pbCoupling_Polycoef(equality);
  NUM(pbRow) *r = new_row(w, pb_rowEquality, equality, 1);
  int first = m->eq_obj1id[equality];
  int second = m->eq_obj2id[equality];

  // tmp and step are free until rows are solved for.
  dense_row row = {.J = w->tmp, .touched = (bool *)w->step};
  memset(row.J, 0, (size_t)m->nv * sizeof(num));
  memset(row.touched, 0, (size_t)m->nv * sizeof(bool));

  r->pos[0] = coupled_value(w, equality, first) - c[0];
  add_coupled(w, equality, first, 1, &row);
  if (second >= 0) {
    num x = coupled_value(w, equality, second);
    r->pos[0] -= x * (c[1] + x * (c[2] + x * (c[3] + x * c[4])));
    add_coupled(w, equality, second, -(c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4]))), &row);
  }
  r->diag[0] = row.diag;

  // From the dense row to the dofs that it touches.
  int n = 0;
  int *dofs = w->row_dofs + r->dofs;
  for (int i = 0; i < m->nv; i++) {
    if (row.touched[i]) dofs[n++] = i;
  }
  num *J = claim(w, r, n);
  for (int i = 0; i < n; i++) J[i] = row.J[dofs[i]];
  finish_row(w, r);
}

// ---- friction loss ------------------------------------------------------------------------------------------
// One row along one dof.
static NUM(pbRow) *dof_row(NUM(pbWork) *w, pbRowKind kind, int id, int dof, double sign) {
  NUM(pbRow) *r = new_row(w, kind, id, 1);
  w->row_dofs[r->dofs] = dof;
  claim(w, r, 1)[0] = sign;
  r->diag[0] = w->p.dof_invweight0[dof];
  return r;
}

// One row along a tendon.
static NUM(pbRow) *tendon_row(NUM(pbWork) *w, pbRowKind kind, int id, int tendon, double sign) {
  NUM(pbRow) *r = new_row(w, kind, id, 1);
  int start = w->ten_start[tendon];
  int n = w->ten_start[tendon + 1] - start;

  r->tendon = tendon;

  // Its Jacobian, as the tendon stage has left it.
  memcpy(w->row_dofs + r->dofs, w->ten_dofs + start, (size_t)n * sizeof(int));
  num *J = claim(w, r, n);
  for (int i = 0; i < n; i++) J[i] = sign * w->ten_J[start + i];
  r->diag[0] = w->p.tendon_invweight0[tendon];
  return r;
}

// A loss of zero makes no row, but has a slope: a force in the complex program, at the accelerations that are given to it.
static void loss_slopes(NUM(pbWork) *w) {
  for (int i = 0; i < w->m->nv; i++) {
    num loss = w->p.dof_frictionloss[i];
    if (re(loss) != 0 || im(loss) == 0) continue;
    w->qfrc_smooth[i] += num_make(0, -loss_sign(w, i, w->qacc_warmstart) * im(loss));
  }

  // Tendons pull by their Jacobian, whose own derivative meets no force.
  for (int k = 0; k < w->m->ntendon; k++) {
    num loss = w->p.tendon_frictionloss[k];
    if (re(loss) > 0 || im(loss) == 0) continue;
    double force = -loss_sign(w, w->m->nv + k, w->qacc_warmstart) * im(loss);
    for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) {
      w->qfrc_smooth[w->ten_dofs[a]] += num_make(0, force * re(w->ten_J[a]));
    }
  }
}

static void set_loss(NUM(pbRow) *r, num loss) {
  r->bound[0] = -loss;
  r->bound[1] = loss;
}

static void friction_rows(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  if (PB_IS_COMPLEX) loss_slopes(w);

  for (int i = 0; i < m->nv; i++) {
    if (re(w->p.dof_frictionloss[i]) == 0) continue;
    NUM(pbRow) *r = dof_row(w, pb_rowFriction, i, i, 1);
    set_loss(r, w->p.dof_frictionloss[i]);
    finish_row(w, r);
  }

  // As in MuJoCo, dofs make rows for all losses but zero, tendons for positive ones.
  for (int k = 0; k < m->ntendon; k++) {
    if (!(re(w->p.tendon_frictionloss[k]) > 0)) continue;
    NUM(pbRow) *r = tendon_row(w, pb_rowFriction, m->nv + k, k, 1);
    set_loss(r, w->p.tendon_frictionloss[k]);
    finish_row(w, r);
  }
}

// ---- servos ---------------------------------------------------------------------------------------------------------
// diagApprox: the inverse weights of the dofs or the tendon that the actuator moves, by the gear.
static num servo_weight(const NUM(pbWork) *w, int u) {
  const pbModel *m = w->m;
  const num *gear = w->p.actuator_gear + 6 * u;
  int id = m->actuator_trnid[2 * u];
  if (m->actuator_trntype[u] == pb_trnTendon) return gear[0] * gear[0] * w->p.tendon_invweight0[id];

  num sum = 0;
  for (int k = 0; k < pbJoint_DofCount(m->jnt_type[id]); k++) {
    sum += gear[k] * gear[k] * w->p.dof_invweight0[m->jnt_dofadr[id] + k];
  }
  return sum;
}

// J is the actuator's moment: x = J a + b (J v - target), the force within the actuator's range.
static void servo_rows(NUM(pbWork) *w) {
  for (int u = 0; u < w->m->nu; u++) {
    if (!pb_servo(w->m, u)) continue;
    NUM(pbRow) *r = new_row(w, pb_rowServo, u, 1);
    int start = w->mom_start[u];
    int n = w->mom_start[u + 1] - start;

    memcpy(w->row_dofs + r->dofs, w->mom_dofs + start, (size_t)n * sizeof(int));
    memcpy(claim(w, r, n), w->mom + start, (size_t)n * sizeof(num));
    r->diag[0] = servo_weight(w, u);
    r->bound[0] = w->p.actuator_forcerange[2 * u];
    r->bound[1] = w->p.actuator_forcerange[2 * u + 1];
    r->target = w->act_target[u];
    finish_row(w, r);
  }
}

// ---- limits ---------------------------------------------------------------------------------------------------------
// Ball: pos = range - angle of the rotation vector, J = -axis.
static void ball_limit(NUM(pbWork) *w, int joint) {
  const pbModel *m = w->m;
  num q[4], axis[3];

  quat_copy(q, w->qpos + m->jnt_qposadr[joint]);
  quat_normalize(q);
  quat_log(axis, q);
  num angle = v3_normalize(axis);
  num range = num_max(w->p.jnt_range[2 * joint], w->p.jnt_range[2 * joint + 1]);
  if (!(re(range - angle) < re(w->p.jnt_margin[joint]))) return;

  // The row acts on all three dofs of the ball, against the axis of its rotation.
  NUM(pbRow) *r = new_row(w, pb_rowLimit, joint, 1);
  for (int k = 0; k < 3; k++) w->row_dofs[r->dofs + k] = m->jnt_dofadr[joint] + k;
  num *J = claim(w, r, 3);
  for (int k = 0; k < 3; k++) J[k] = -axis[k];
  r->pos[0] = range - angle;
  r->margin = w->p.jnt_margin[joint];
  r->diag[0] = w->p.dof_invweight0[m->jnt_dofadr[joint]];
  finish_row(w, r);
}

// Both ends of a slide's or hinge's range: pos = side (range - q), J = -side.
static void joint_limit(NUM(pbWork) *w, int joint) {
  const pbModel *m = w->m;
  for (int side = -1; side <= 1; side += 2) {
    num dist = side * (w->p.jnt_range[2 * joint + (side > 0)] - w->qpos[m->jnt_qposadr[joint]]);
    if (!(re(dist) < re(w->p.jnt_margin[joint]))) continue;

    // Pushing back into the range.
    NUM(pbRow) *r = dof_row(w, pb_rowLimit, joint, m->jnt_dofadr[joint], -side);
    r->side = side;
    r->pos[0] = dist;
    r->margin = w->p.jnt_margin[joint];
    finish_row(w, r);
  }
}

static void tendon_limit(NUM(pbWork) *w, int tendon) {
  for (int side = -1; side <= 1; side += 2) {
    num dist = side * (w->p.tendon_range[2 * tendon + (side > 0)] - w->ten_length[tendon]);
    if (!(re(dist) < re(w->p.tendon_margin[tendon]))) continue;

    NUM(pbRow) *r = tendon_row(w, pb_rowLimit, w->m->njnt + tendon, tendon, -side);
    r->side = side;
    r->pos[0] = dist;
    r->margin = w->p.tendon_margin[tendon];
    finish_row(w, r);
  }
}

static void limit_rows(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  for (int j = 0; j < m->njnt; j++) {
    if (!m->jnt_limited[j]) continue;
    if (m->jnt_type[j] == pb_jntBall) ball_limit(w, j);
    if (pbJoint_IsScalar(m->jnt_type[j])) joint_limit(w, j);
  }

  // Then tendons, as MuJoCo orders them.
  for (int k = 0; k < m->ntendon; k++) {
    if (m->tendon_limited[k]) tendon_limit(w, k);
  }
}

// ---- contacts -------------------------------------------------------------------------------------------------------
// Penalty contact: the force of a row whose J, pos and margin are set; nothing of it depends on the acceleration.
static void set_force(NUM(pbWork) *w, NUM(pbRow) *r) {
  const num *friction = w->contact[r->contact].friction;
  const pbContactSettings *c = &w->m->contact;
  num stiffness = w->p.contact_stiffness[0];
  num damping = w->p.contact_damping[0];

  NUM(pbRow_Times)(w, r, w->qvel, r->vel);
  NUM(pb_add_prescribed)(w, r);
  num normal = NUM(pbPenalty_Normal)(stiffness, damping, c->width, r->margin - r->pos[0], r->vel[0]).force;
  NUM(pbPenalty_Force)(r->dim, normal, friction, c->slip, r->vel, r->f);

  // Nothing is solved for: no reference, no regularization.
  r->imp = r->dimp = 0;
  r->k = r->b = r->b_tangent = 0;
  for (int i = 0; i < r->dim; i++) r->aref[i] = r->R[i] = r->D[i] = 0;
}

// Velocity of body 2 at the contact point less that of body 1, in the contact's frame; then their relative angular velocity.
static void fill_contact_jacobian(NUM(pbWork) *w, NUM(pbRow) *r, int b1, int b2, int n) {
  const NUM(pbContact) *c = w->contact + r->contact;
  const int *dofs = w->row_dofs + r->dofs;
  num *J = claim(w, r, n);
  num d1[3], d2[3];

  body_offset(w, b1, c->pos, d1);
  body_offset(w, b2, c->pos, d2);

  // A dof moves one of the two: those that move both are left out.
  for (int i = 0; i < n; i++) {
    const num *S = w->S + 6 * dofs[i];
    bool second = moves(w, dofs[i], b2);
    const num *arm = second ? d2 : d1;
    num u[3], sign = second ? 1 : -1;
    PB_POINTVEL(u, S, arm);
    for (int k = 0; k < r->dim; k++) J[k * n + i] = sign * v3_dot(c->frame + 3 * (k < 3 ? k : k - 3), k < 3 ? u : S);
  }
}

static void contact_row(NUM(pbWork) *w, int contact) {
  const NUM(pbContact) *c = w->contact + contact;
  if (!(re(c->dist) < re(c->margin) + w->m->contact.onset)) return;

  // Dofs that move both bodies alike do not move them against each other; a contact that nothing moves makes no row.
  int b1 = w->m->geom_bodyid[c->geom1];
  int b2 = w->m->geom_bodyid[c->geom2];
  NUM(pbRow) *r = new_row(w, pb_rowContact, contact, c->dim);
  int n = merge_chains(w, b1, b2, true, w->row_dofs + r->dofs);
  if (n == 0) {
    w->nrow--;
    return;
  }

  fill_contact_jacobian(w, r, b1, b2, n);
  r->pos[0] = c->dist;
  r->margin = c->margin;
  r->diag[0] = NUM(pb_contact_weight)(w, c);
  if (pb_explicit(w->m, r)) set_force(w, r);
  else finish_row(w, r);
}

static void equality_rows(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  for (int e = 0; e < m->neq; e++) {
    if (!m->eq_active0[e]) continue;
    if (m->eq_type[e] == pb_eqConnect || m->eq_type[e] == pb_eqWeld) connect_or_weld(w, e);
    else joint_or_tendon(w, e);
  }
}

pbStatus NUM(pbStage_Rows)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  w->nrow = w->ndofs_used = w->nJ_used = 0;
  if (m->disableflags & pb_disConstraint) return pb_ok;

  // Rigid impacts have no contact rows: they come between steps.
  if (!(m->disableflags & pb_disEquality)) equality_rows(w);
  if (!(m->disableflags & pb_disFrictionloss)) friction_rows(w);
  servo_rows(w);
  if (!(m->disableflags & pb_disLimit)) limit_rows(w);
  if (m->contact.method == pb_contactImpact) return pb_ok;
  for (int c = 0; c < w->ncon; c++) contact_row(w, c);
  return pb_ok;
}
