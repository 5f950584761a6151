// Constraint rows: Jacobians, impedance, regularisation, reference acceleration. MuJoCo's order: equalities, friction
// loss, limits, contacts.
#include "model/joint.h"
#include "contact/contact.h"
#include "contact/penalty.h"
#include "contact/row.h"
#include "linalg/vector.h"
#include "math/vec.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"

// ---- building blocks ------------------------------------------------------------------------------------------------
static NUM(pbRow) *new_row(NUM(pbWork) *w, int kind, int id, int dim) {
  NUM(pbRow) *r = w->row + w->nrow++;
  r->kind = kind, r->id = id, r->side = 0, r->dim = dim, r->n = 0;
  r->dofs = w->ndofs_used, r->J = w->nJ_used;
  r->margin = 0, r->mu = 0, r->loss = 0, r->zone = 0;
  for (int k = 0; k < 6; k++) r->pos[k] = 0;
  return r;
}

// The dofs of the row are known (n in row_dofs at r->dofs): claim them and room for J, to be filled.
static num *claim(NUM(pbWork) *w, NUM(pbRow) *r, int n) {
  r->n = n;
  w->ndofs_used += n;
  w->nJ_used += n * r->dim;
  return w->row_J + r->J;
}

// Ascending dofs that move body1 or body2 (without those that move both, if asked). Returns their number.
static int merge_chains(const NUM(pbWork) *w, int body1, int body2, bool skip_common, int *dofs) {
  int a = w->t->body_dofend[body1], b = w->t->body_dofend[body2], n = 0;
  while (a >= 0 || b >= 0) {
    int top = a > b ? a : b;
    if (a == b && skip_common) break;
    dofs[n++] = top;
    if (a == top) a = w->m->dof_parentid[a];
    if (b == top) b = w->m->dof_parentid[b];
  }
  for (int i = 0; i < n / 2; i++) {
    int t = dofs[i];
    dofs[i] = dofs[n - 1 - i];
    dofs[n - 1 - i] = t;
  }
  return n;
}

// Is dof i among those that move the body? (walk up; chains are short)
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

// ---- impedance ------------------------------------------------------------------------------------------------------
void NUM(pbRow_Reference)(const NUM(pbWork) *w, const num *solref, num out[2], bool friction) {
  safe_reference(w, solref, out, friction);
}

void NUM(pbRow_Impedance)(const num *solimp, num pos, num margin, num *imp, num *slope) {
  num d0 = num_clip(solimp[0], 1e-4, 0.9999), d1 = num_clip(solimp[1], 1e-4, 0.9999), width = num_at_least(solimp[2], 0);
  num mid = num_clip(solimp[3], 1e-4, 0.9999), power = num_at_least(solimp[4], 1), y, dy;
  *slope = 0;
  if (re(width) <= 1e-15) {
    *imp = 0.5 * (d0 + d1);
    return;
  }
  num x = (pos - margin) / width;
  double sign = re(x) < 0 ? -1 : 1;
  x = sign * x;
  if (re(x) >= 1 || re(x) <= 0) {
    *imp = re(x) >= 1 ? d1 : d0;
    return;
  }
  if (re(power) == 1 && im(power) == 0) {
    y = x, dy = 1;
  } else if (re(x) <= re(mid)) {
    num a = 1 / num_pow(mid, power - 1), below = num_pow(x, power - 1);
    y = a * below * x, dy = power * a * below;
  } else {
    num b = 1 / num_pow(1 - mid, power - 1), above = num_pow(1 - x, power - 1);
    y = 1 - b * above * (1 - x), dy = power * b * above;
  }
  *imp = d0 + y * (d1 - d0);
  *slope = dy * sign * (d1 - d0) / width;
}

// Distance the impedance depends on: the residual, its norm for connect and weld.
static num impedance_distance(const NUM(pbRow) *r) {
  num s = 0;
  if (r->kind != pb_rowEquality || r->dim == 1) return r->pos[0];
  for (int k = 0; k < r->dim; k++) s += r->pos[k] * r->pos[k];
  return num_sqrt(s);
}

// Share of a contact's impedance while its geoms are still `gap` apart, 0 < gap < onset: from 1 to 0, twice differentiable at
// both ends; and its slope.
static num fade(num gap, double onset, num *slope) {
  num t = 1 - gap / onset;
  *slope = -30 * t * t * (1 - t) * (1 - t) / onset;
  return t * t * t * (10 + t * (6 * t - 15));
}

// Impedance of a row: d(pos), or 1 where error reduction and force mixing are set; before touch the one at touch, faded.
static void set_impedance(const NUM(pbWork) *w, NUM(pbRow) *r, const num *solimp) {
  bool mixing = pb_mixing(w->m, r->kind);
  num pos = impedance_distance(r), gap = pos - r->margin, touch = mixing ? 1 : num_clip(solimp[0], 1e-4, 0.9999), slope;
  r->imp = touch, r->dimp = 0;
  if (pb_before_touch(r)) {
    num share = fade(gap, w->m->contact.onset, &slope);
    bool some = re(share) > 1e-30;
    r->imp = touch * (some ? share : 1e-30);
    r->dimp = some ? touch * slope : 0;
  } else if (!mixing) {
    NUM(pbRow_Impedance)(solimp, pos, r->margin, &r->imp, &r->dimp);
  }
}

const num *NUM(pbRow_Parameters)(const NUM(pbWork) *w, const NUM(pbRow) *r, const num **solimp, const num **solreffriction) {
  const pbModel *m = w->m;
  *solreffriction = NULL;
  switch (r->kind) {
    case pb_rowEquality: *solimp = w->p.eq_solimp + 5 * r->id; return w->p.eq_solref + 2 * r->id;
    case pb_rowFriction:
      if (r->id >= m->nv) {
        *solimp = w->p.tendon_solimp_fri + 5 * (r->id - m->nv);
        return w->p.tendon_solref_fri + 2 * (r->id - m->nv);
      }
      *solimp = w->p.dof_solimp + 5 * r->id;
      return w->p.dof_solref + 2 * r->id;
    case pb_rowLimit:
      if (r->id >= m->njnt) {
        *solimp = w->p.tendon_solimp_lim + 5 * (r->id - m->njnt);
        return w->p.tendon_solref_lim + 2 * (r->id - m->njnt);
      }
      *solimp = w->p.jnt_solimp + 5 * r->id;
      return w->p.jnt_solref + 2 * r->id;
    default:
      *solimp = w->contact[r->id].solimp;
      *solreffriction = w->contact[r->id].solreffriction;
      return w->contact[r->id].solref;
  }
}

// A row that nothing moves: MuJoCo leaves it out. False: the row was taken back.
static bool moved(NUM(pbWork) *w, NUM(pbRow) *r) {
  for (int i = 0; i < r->n * r->dim; i++) {
    if (re(w->row_J[r->J + i]) != 0) return true;
  }
  w->nrow--, w->ndofs_used = r->dofs, w->nJ_used = r->J;
  return false;
}

// Stiffness, damping and damping of friction rows.
static void set_reference(const NUM(pbWork) *w, NUM(pbRow) *r, const num *solref, const num *solreffriction, const num *solimp) {
  num ref[2], fref[2], d1 = num_clip(solimp[1], 1e-4, 0.9999), k;
  if (pb_mixing(w->m, r->kind)) {
    num h = w->p.timestep[0];
    r->kbi[0] = pb_erp(w->m) / (h * h), r->kbi[1] = r->kbi[2] = 1 / h;
    pbNormalLaw law = pb_normal_law(w, r);
    if (law == pb_normalBounce) r->kbi[0] = 0, r->kbi[1] *= 1 + w->contact[r->id].restitution;
    num depth = r->margin - r->pos[0];
    if (law == pb_normalRise) r->kbi[0] = pb_rising(pb_weight(w), h, depth) / (h * depth);
    return;
  }
  NUM(pbRow_Reference)(w, solref, ref, false);
  stiffness_damping(ref, d1, &r->kbi[0], &r->kbi[1]);
  r->kbi[2] = r->kbi[1];
  if (r->kind == pb_rowFriction) r->kbi[0] = 0;
  if (!pb_elliptic(w->m, r)) return;
  NUM(pbRow_Reference)(w, solreffriction, fref, true);
  if (re(fref[0]) != 0 || re(fref[1]) != 0) stiffness_damping(fref, d1, &k, &r->kbi[2]);
}

num NUM(pbRow_Regularisation)(const NUM(pbWork) *w, const NUM(pbRow) *r, int i) {
  if (pb_mixing(w->m, r->kind)) return pb_cfm(w->m) / (w->p.timestep[0] * r->imp);
  num soft = (1 - r->imp) / r->imp, diag = r->diag[i];
  if (!pb_pyramidal(w->m, r)) return soft * diag;
  num mu = w->contact[r->id].friction[0];
  return soft * (diag + mu * mu * diag);
}

static void set_regularisation(const NUM(pbWork) *w, NUM(pbRow) *r) {
  bool elliptic = pb_elliptic(w->m, r), pyramidal = pb_pyramidal(w->m, r), contact = r->kind == pb_rowContact;
  int own = elliptic || pyramidal ? 1 : r->dim;
  for (int i = 0; i < own; i++) {
    num R = NUM(pbRow_Regularisation)(w, r, contact ? 0 : i);
    if (pb_hard(w->m)) r->R[i] = R + pb_little(w->m) * r->diag[contact ? 0 : i];
    else r->R[i] = num_max(PB_LEAST_R, R);
  }
  if (elliptic || pyramidal) {
    const num *mu = w->contact[r->id].friction;
    num ratio = num_max(1e-15, w->p.impratio[0]), R1 = r->R[0] / ratio;
    r->mu = mu[0] / num_sqrt(ratio);
    for (int i = 1; elliptic && i < r->dim; i++) r->R[i] = R1 * mu[0] * mu[0] / (mu[i - 1] * mu[i - 1]);
    if (pyramidal && !pb_mixing(w->m, r->kind)) r->R[0] = 2 * r->mu * r->mu * r->R[0];
  }
  for (int i = 0; i < (pyramidal ? 1 : r->dim); i++) r->D[i] = 1 / r->R[i];
}

// R, D, k, b, aref at the velocity v.
static void set_numbers(const NUM(pbWork) *w, NUM(pbRow) *r, const num *v) {
  const num *solimp, *solreffriction, *solref = NUM(pbRow_Parameters)(w, r, &solimp, &solreffriction);
  set_impedance(w, r, solimp);
  NUM(pbRow_Times)(w, r, v, r->vel);
  set_reference(w, r, solref, solreffriction, solimp);
  set_regularisation(w, r);
  bool contact = r->kind == pb_rowContact, own_damping = pb_elliptic(w->m, r) || pb_hard(w->m);
  for (int i = 0; i < r->dim; i++) {
    bool tangent = contact && i > 0;
    num damping = own_damping && tangent ? r->kbi[2] : r->kbi[1];
    r->aref[i] = -damping * r->vel[i] - (tangent ? 0 : r->kbi[0] * r->imp * (r->pos[i] - r->margin));
  }
}

// The rest of a row whose J, pos, margin and diag are set.
static void finish(NUM(pbWork) *w, NUM(pbRow) *r) {
  if (r->kind == pb_rowContact || moved(w, r)) set_numbers(w, r, w->qvel);
}

void NUM(pbRow_AtGuard)(const NUM(pbWork) *w, NUM(pbRow) *r, const num *v) {
  r->pos[0] = r->margin;
  set_numbers(w, r, v);
}

void NUM(pbRow_AtVelocity)(const NUM(pbWork) *w, NUM(pbRow) *r, const num *v) {
  num before[6];
  if (r->kind == pb_rowContact) {
    set_numbers(w, r, v);
    return;
  }
  memcpy(before, r->vel, sizeof before);
  NUM(pbRow_Times)(w, r, v, r->vel);
  for (int i = 0; i < r->dim; i++) r->aref[i] -= r->kbi[1] * (r->vel[i] - before[i]);
}

// ---- equalities -----------------------------------------------------------------------------------------------------
// vec(conj(q2) x q1) for a pure quaternion x: how angular rates enter a weld's orientation residual (twice).
static void sandwich(num out[3], const num q2[4], const num x[3], const num q1[4]) {
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
  const num *V = w->V + 6 * body, *A = w->A0 + 6 * body;
  PB_POINTVEL(u, V, d);
  PB_POINTVEL(lin, A, d);
  v3_cross(t, V, u);
  v3_addto(lin, t);
  for (int k = 0; k < 3; k++) lin[k] -= w->A0[3 + k];
  v3_copy(ang, A);
}

// aref -= (d/dt J) v of connect and weld
static void subtract_drift(const NUM(pbWork) *w, NUM(pbRow) *r, const int body[2], const num p1[3], const num p2[3],
                           const num q1[4], const num q2[4], num scale) {
  num l1[3], a1[3], l2[3], a2[3], rel[3], t[3], half[4], dq[4];
  drift(w, body[0], p1, l1, a1), drift(w, body[1], p2, l2, a2);
  for (int k = 0; k < 3; k++) r->aref[k] -= l1[k] - l2[k];
  if (r->dim < 6) return;
  const num *w1 = w->V + 6 * body[0], *w2 = w->V + 6 * body[1];
  v3_sub(rel, w1, w2), v3_sub(a1, a1, a2);
  sandwich(t, q2, a1, q1);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * scale;
  quat_set(half, 0, 0.5 * w2[0], 0.5 * w2[1], 0.5 * w2[2]), quat_mul(dq, half, q2);
  sandwich(t, dq, rel, q1);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * scale;
  quat_set(half, 0, 0.5 * w1[0], 0.5 * w1[1], 0.5 * w1[2]), quat_mul(dq, half, q1);
  sandwich(t, q2, rel, dq);
  for (int k = 0; k < 3; k++) r->aref[3 + k] -= 0.5 * t[k] * scale;
}

static void connect_or_weld(NUM(pbWork) *w, int e) {
  bool weld = w->m->eq_type[e] == pb_eqWeld;
  NUM(pbRow) *r = new_row(w, pb_rowEquality, e, weld ? 6 : 3);
  int body[2];
  num p1[3], p2[3], q1[4], q2[4], d1[3], d2[3], c[4], t[4], scale = w->p.eq_data[12 * e + 10];
  NUM(pbEquality_Ends)(w, e, body, p1, p2, q1, q2);
  v3_sub(r->pos, p1, p2);
  if (weld) {
    quat_conj(c, q2);
    quat_mul(t, c, q1);
    v3_scale(r->pos + 3, t + 1, scale);
  }
  int *dofs = w->row_dofs + r->dofs, n = merge_chains(w, body[0], body[1], false, dofs);
  num *J = claim(w, r, n);
  body_offset(w, body[0], p1, d1), body_offset(w, body[1], p2, d2);
  for (int i = 0; i < n; i++) {
    num lin[3] = {0}, ang[3] = {0}, rot[3];
    if (moves(w, dofs[i], body[0])) add_column(w, dofs[i], d1, 1, lin, ang);
    if (moves(w, dofs[i], body[1])) add_column(w, dofs[i], d2, -1, lin, ang);
    for (int k = 0; k < 3; k++) J[k * n + i] = lin[k];
    if (!weld) continue;
    sandwich(rot, q2, ang, q1);
    for (int k = 0; k < 3; k++) J[(3 + k) * n + i] = 0.5 * scale * rot[k];
  }
  for (int k = 0; k < r->dim; k++)
    r->diag[k] = w->p.body_invweight0[2 * body[0] + (k > 2)] + w->p.body_invweight0[2 * body[1] + (k > 2)];
  int before = w->nrow;
  finish(w, r);
  if (w->nrow == before) subtract_drift(w, r, body, p1, p2, q1, q2, scale);
}

// Value and rest value of what a joint or tendon equality couples; its Jacobian row is added to `dense` times scale.
static num coupled(NUM(pbWork) *w, int e, int id, num scale, bool *touched, num *dense, num *diag) {
  const pbModel *m = w->m;
  if (m->eq_type[e] == pb_eqJoint) {
    int dof = m->jnt_dofadr[id], q = m->jnt_qposadr[id];
    touched[dof] = true;
    dense[dof] += scale;
    *diag += w->p.dof_invweight0[dof];
    return w->qpos[q] - w->p.qpos0[q];
  }
  for (int a = w->ten_start[id]; a < w->ten_start[id + 1]; a++) {
    touched[w->ten_dofs[a]] = true;
    dense[w->ten_dofs[a]] += scale * w->ten_J[a];
  }
  *diag += w->p.tendon_invweight0[id];
  return w->ten_length[id] - w->p.tendon_length0[id];
}

static void joint_or_tendon(NUM(pbWork) *w, int e) {
  const pbModel *m = w->m;
  NUM(pbRow) *r = new_row(w, pb_rowEquality, e, 1);
  const num *c = w->p.eq_data + 12 * e;
  num *dense = w->tmp;
  bool *touched = (bool *)w->step;
  memset(dense, 0, (size_t)m->nv * sizeof(num));
  memset(touched, 0, (size_t)m->nv * sizeof(bool));
  r->diag[0] = 0;
  r->pos[0] = coupled(w, e, m->eq_obj1id[e], 1, touched, dense, r->diag) - c[0];
  if (m->eq_obj2id[e] >= 0) {
    num unused = 0, none = 0;
    num x = coupled(w, e, m->eq_obj2id[e], none, touched, dense, &unused);
    r->pos[0] -= x * (c[1] + x * (c[2] + x * (c[3] + x * c[4])));
    coupled(w, e, m->eq_obj2id[e], -(c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4]))), touched, dense, r->diag);
  }
  int n = 0, *dofs = w->row_dofs + r->dofs;
  for (int i = 0; i < m->nv; i++) {
    if (touched[i]) dofs[n++] = i;
  }
  num *J = claim(w, r, n);
  for (int i = 0; i < n; i++) J[i] = dense[dofs[i]];
  finish(w, r);
}

// ---- friction loss, limits ------------------------------------------------------------------------------------------
// One row along one dof.
static NUM(pbRow) *dof_row(NUM(pbWork) *w, int kind, int id, int dof, double sign) {
  NUM(pbRow) *r = new_row(w, kind, id, 1);
  w->row_dofs[r->dofs] = dof;
  claim(w, r, 1)[0] = sign;
  r->diag[0] = w->p.dof_invweight0[dof];
  return r;
}

static NUM(pbRow) *tendon_row(NUM(pbWork) *w, int kind, int id, int k, double sign) {
  NUM(pbRow) *r = new_row(w, kind, id, 1);
  int n = w->ten_start[k + 1] - w->ten_start[k];
  memcpy(w->row_dofs + r->dofs, w->ten_dofs + w->ten_start[k], (size_t)n * sizeof(int));
  num *J = claim(w, r, n);
  for (int i = 0; i < n; i++) J[i] = sign * w->ten_J[w->ten_start[k] + i];
  r->diag[0] = w->p.tendon_invweight0[k];
  return r;
}

// A loss of zero makes no row, but has a slope: a force in the complex program, at the accelerations that are given to it.
static void loss_slopes(NUM(pbWork) *w) {
  for (int i = 0; i < w->m->nv; i++) {
    num loss = w->p.dof_frictionloss[i];
    if (re(loss) != 0 || im(loss) == 0) continue;
    w->qfrc_smooth[i] += num_make(0, -loss_sign(w, i, w->qacc_warmstart) * im(loss));
  }
  for (int k = 0; k < w->m->ntendon; k++) {
    num loss = w->p.tendon_frictionloss[k];
    if (re(loss) > 0 || im(loss) == 0) continue;
    double force = -loss_sign(w, w->m->nv + k, w->qacc_warmstart) * im(loss);
    for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) {
      w->qfrc_smooth[w->ten_dofs[a]] += num_make(0, force * re(w->ten_J[a]));
    }
  }
}

static void friction_rows(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  if (PB_IS_COMPLEX) loss_slopes(w);
  for (int i = 0; i < m->nv; i++) {
    if (re(w->p.dof_frictionloss[i]) == 0) continue;
    NUM(pbRow) *r = dof_row(w, pb_rowFriction, i, i, 1);
    r->loss = w->p.dof_frictionloss[i];
    finish(w, r);
  }
  for (int k = 0; k < m->ntendon; k++) {
    if (!(re(w->p.tendon_frictionloss[k]) > 0)) continue;
    NUM(pbRow) *r = tendon_row(w, pb_rowFriction, m->nv + k, k, 1);
    r->loss = w->p.tendon_frictionloss[k];
    finish(w, r);
  }
}

static void ball_limit(NUM(pbWork) *w, int j) {
  const pbModel *m = w->m;
  num q[4], axis[3];
  quat_copy(q, w->qpos + m->jnt_qposadr[j]);
  quat_normalize(q);
  quat_log(axis, q);
  num angle = v3_normalize(axis), range = num_max(w->p.jnt_range[2 * j], w->p.jnt_range[2 * j + 1]);
  if (!(re(range - angle) < re(w->p.jnt_margin[j]))) return;
  NUM(pbRow) *r = new_row(w, pb_rowLimit, j, 1);
  for (int k = 0; k < 3; k++) w->row_dofs[r->dofs + k] = m->jnt_dofadr[j] + k;
  num *J = claim(w, r, 3);
  for (int k = 0; k < 3; k++) J[k] = -axis[k];
  r->pos[0] = range - angle, r->margin = w->p.jnt_margin[j];
  r->diag[0] = w->p.dof_invweight0[m->jnt_dofadr[j]];
  finish(w, r);
}

static void limit_rows(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  for (int j = 0; j < m->njnt; j++) {
    if (!m->jnt_limited[j]) continue;
    if (m->jnt_type[j] == pb_jntBall) ball_limit(w, j);
    if (!pbJoint_IsScalar(m->jnt_type[j])) continue;
    for (int side = -1; side <= 1; side += 2) {
      num dist = side * (w->p.jnt_range[2 * j + (side > 0)] - w->qpos[m->jnt_qposadr[j]]);
      if (!(re(dist) < re(w->p.jnt_margin[j]))) continue;
      NUM(pbRow) *r = dof_row(w, pb_rowLimit, j, m->jnt_dofadr[j], -side);
      r->side = side, r->pos[0] = dist, r->margin = w->p.jnt_margin[j];
      finish(w, r);
    }
  }
  for (int k = 0; k < m->ntendon; k++) {
    for (int side = -1; side <= 1 && m->tendon_limited[k]; side += 2) {
      num dist = side * (w->p.tendon_range[2 * k + (side > 0)] - w->ten_length[k]);
      if (!(re(dist) < re(w->p.tendon_margin[k]))) continue;
      NUM(pbRow) *r = tendon_row(w, pb_rowLimit, m->njnt + k, k, -side);
      r->side = side, r->pos[0] = dist, r->margin = w->p.tendon_margin[k];
      finish(w, r);
    }
  }
}

// ---- contacts -------------------------------------------------------------------------------------------------------
// Penalty contact: the force of a row whose J, pos and margin are set; nothing of it depends on the acceleration.
static void set_force(NUM(pbWork) *w, NUM(pbRow) *r) {
  const num *friction = w->contact[r->id].friction;
  const pbContactSettings *c = &w->m->contact;
  NUM(pbRow_Times)(w, r, w->qvel, r->vel);
  num normal =
      NUM(pbPenalty_Normal)(w->p.contact_stiffness[0], w->p.contact_damping[0], c->width, r->margin - r->pos[0], r->vel[0]).force;
  NUM(pbPenalty_Force)(r->dim, normal, friction, c->slip, r->vel, r->f);
  r->imp = r->dimp = 0;
  for (int i = 0; i < 3; i++) r->kbi[i] = 0;
  for (int i = 0; i < r->dim; i++) r->aref[i] = r->R[i] = r->D[i] = 0;
}

static void contact_row(NUM(pbWork) *w, int id) {
  const NUM(pbContact) *c = w->contact + id;
  int b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  if (!(re(c->dist) < re(c->margin) + w->m->contact.onset)) return;
  NUM(pbRow) *r = new_row(w, pb_rowContact, id, c->dim);
  int *dofs = w->row_dofs + r->dofs, n = merge_chains(w, b1, b2, true, dofs);
  if (n == 0) {  // nothing moves
    w->nrow--;
    return;
  }
  num *J = claim(w, r, n), d1[3], d2[3];
  body_offset(w, b1, c->pos, d1), body_offset(w, b2, c->pos, d2);
  for (int i = 0; i < n; i++) {  // velocity of body 2 there minus that of body 1, in the contact's frame
    const num *S = w->S + 6 * dofs[i];
    bool second = moves(w, dofs[i], b2);
    const num *arm = second ? d2 : d1;
    num u[3], sign = second ? 1 : -1;
    PB_POINTVEL(u, S, arm);
    for (int k = 0; k < r->dim; k++) J[k * n + i] = sign * v3_dot(c->frame + 3 * (k < 3 ? k : k - 3), k < 3 ? u : S);
  }
  r->pos[0] = c->dist, r->margin = c->margin;
  r->diag[0] = w->p.body_invweight0[2 * b1] + w->p.body_invweight0[2 * b2];
  if (pb_explicit(w->m, r)) set_force(w, r);
  else finish(w, r);
}

pbStatus NUM(pbStage_Rows)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  w->nrow = w->ndofs_used = w->nJ_used = 0;
  if (m->disableflags & pb_dsblConstraint) return pb_ok;
  for (int e = 0; e < m->neq && !(m->disableflags & pb_dsblEquality); e++) {
    if (!m->eq_active0[e]) continue;
    if (m->eq_type[e] == pb_eqConnect || m->eq_type[e] == pb_eqWeld) connect_or_weld(w, e);
    else joint_or_tendon(w, e);
  }
  if (!(m->disableflags & pb_dsblFrictionloss)) friction_rows(w);
  if (!(m->disableflags & pb_dsblLimit)) limit_rows(w);
  for (int c = 0; c < w->ncon && m->contact.method != pb_contactImpact; c++) contact_row(w, c);
  return pb_ok;
}
