// Mass matrix, velocities, bias forces, accelerations.
#include "base/assert.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/spatial.h"

// Rotor inertia that actuators reflect to a joint's dof or a tendon: sum of actuator_armature gear^2.
static num reflected_armature(const NUM(pbWork) *w, const num *per_actuator, const int *start, const int *list, int i) {
  num s = 0;
  for (int k = start[i]; k < start[i + 1]; k++) {
    num gear = w->p.actuator_gear[6 * list[k]];
    s += per_actuator[list[k]] * gear * gear;
  }
  return s;
}

num NUM(pbTendon_Armature)(const NUM(pbWork) *w, int tendon) {
  return w->p.tendon_armature[tendon] +
         reflected_armature(w, w->p.actuator_armature, w->t->ten_actuator_start, w->t->ten_actuator, tendon);
}

// M += armature J'J on the pattern of M; couplings between branches have no place there and are left out, as in MuJoCo.
static void add_tendon_armature(NUM(pbWork) *w, int tendon, num armature) {
  const pbTreePattern *tree = &w->t->M;
  const int *dofs = w->ten_dofs + w->ten_start[tendon];
  const num *J = w->ten_J + w->ten_start[tendon];
  int n = w->ten_start[tendon + 1] - w->ten_start[tendon];

  // The entry of two dofs stands in the row of the later one, at the depth of the other, if that lies on its way to the root.
  for (int a = 0; a < n; a++) {
    for (int b = 0; b <= a; b++) {
      int i = dofs[a], j = dofs[b], depth = tree->depth[j];
      if (depth <= tree->depth[i] && tree->chain[tree->adr[i] + depth] == j) w->M[tree->adr[i] + depth] += armature * J[a] * J[b];
    }
  }
}

// out = I X: momentum of a motion, I X = (I_o w + m d x v, m v - m d x w)
static inline void momentum(num out[6], const num I[10], const num X[6]) {
  num a[3], b[3], c[3], rotated[3];
  v3_set(rotated, I[4] * X[0] + I[7] * X[1] + I[8] * X[2], I[7] * X[0] + I[5] * X[1] + I[9] * X[2],
         I[8] * X[0] + I[9] * X[1] + I[6] * X[2]);
  v3_cross(a, I + 1, X + 3);
  v3_cross(b, X, I + 1);
  v3_scale(c, X + 3, I[0]);
  v3_add(out, rotated, a);
  v3_add(out + 3, c, b);
}

// Row i of M: M_ij = S_j . I_composite S_i (Featherstone, Rigid Body Dynamics Algorithms, 6.2).
static void mass_row(NUM(pbWork) *w, int i) {
  const pbTreePattern *tree = &w->t->M;
  const int *chain = tree->chain + tree->adr[i], depth = tree->depth[i];
  bool free = w->m->jnt_type[w->m->dof_jntid[chain[0]]] == pb_jntFree;
  const num *motions = w->S;
  num F[6], *row = w->M + tree->adr[i];
  PB_ASSERT(chain[depth] == i);

  momentum(F, w->crb + 10 * w->m->dof_bodyid[i], w->S + 6 * i);

  // The first three dofs of a free joint go along the world's axes: there S . F is an entry of F.
  int along = 0;
  if (free) along = depth < 3 ? depth + 1 : 3;
  for (int a = 0; a < along; a++) row[a] = F[3 + a];
  for (int a = along; a <= depth; a++) {
    const num *S = motions + 6 * chain[a];
    row[a] = PB_DOT6(S, F);
  }
}

void NUM(pbStage_Inertia)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  const pbTreePattern *tree = &w->t->M;

  // Composite inertias: of a body and all below it, from the leaves. Bodies that cannot move belong to no tree.
  memcpy(w->crb, w->inert, 10 * (size_t)m->nbody * sizeof(num));
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    if (w->t->body_tree[b] < 0 || w->t->body_tree[parent] < 0) continue;
    const num *child = w->crb + 10 * b;
    num *sum = w->crb + 10 * parent;
    for (int k = 0; k < 10; k++) sum[k] += child[k];
  }

  for (int i = 0; i < m->nv; i++) {
    mass_row(w, i);
    w->M[tree->adr[i] + tree->depth[i]] +=
        w->p.dof_armature[i] + reflected_armature(w, w->p.actuator_armature, w->t->dof_actuator_start, w->t->dof_actuator, i);
  }

  for (int k = 0; k < m->ntendon; k++) {
    num armature = NUM(pbTendon_Armature)(w, k);
    if (!num_is(armature, 0)) add_tendon_armature(w, k, armature);
  }
}

// out = X x Y: motion cross motion
static inline void motion_cross(num out[6], const num X[6], const num Y[6]) {
  num a[3], b[3], c[3];
  v3_cross(a, X, Y);
  v3_cross(b, X, Y + 3);
  v3_cross(c, X + 3, Y);
  v3_copy(out, a);
  v3_add(out + 3, b, c);
}

// out = I A + V x* I V: wrench of a body's inertia
static inline void inertial_wrench(num out[6], const num I[10], const num A[6], const num V[6]) {
  num f[6], p[6], a[3], b[3], c[3];

  momentum(f, I, A);
  momentum(p, I, V);
  v3_cross(a, V, p);
  v3_cross(b, V + 3, p + 3);
  v3_cross(c, V, p + 3);
  v3_addto(a, b);
  v3_add(out, f, a);
  v3_add(out + 3, f + 3, c);
}

// Along the dofs of a body: the velocity before each and S-dot; to V and A (its acceleration at qacc = 0) what they add.
static void body_velocity(NUM(pbWork) *w, int b, num V[6], num A[6]) {
  const pbModel *m = w->m;
  for (int k = 0; k < m->body_jntnum[b]; k++) {
    int j = m->body_jntadr[b] + k, dof = m->jnt_dofadr[j], type = m->jnt_type[j];
    int count = pbJoint_HasRotation(type) ? 3 : 1;

    // Translations of a free joint go along world axes: S-dot = 0.
    if (type == pb_jntFree) {
      for (int i = 0; i < 3; i++) v6_copy(w->Vb + 6 * (dof + i), V);
      memset(w->Sdot + 6 * dof, 0, 18 * sizeof(num));
      for (int i = dof; i < dof + 3; i++) PB_AXPY6(V, w->qvel[i], w->S + 6 * i);
      dof += 3;
    }

    // All of a joint's rotations move with the velocity before the first.
    for (int i = dof; i < dof + count; i++) {
      num *Sdot = w->Sdot + 6 * i, rate = w->qvel[i], d[6];
      v6_copy(w->Vb + 6 * i, V);
      motion_cross(d, V, w->S + 6 * i);
      v6_copy(Sdot, d);
      PB_AXPY6(A, rate, d);
    }
    for (int i = dof; i < dof + count; i++) PB_AXPY6(V, w->qvel[i], w->S + 6 * i);
  }
}

// Second derivative of a spatial tendon's length by time at zero joint acceleration.
static num tendon_dot(const NUM(pbWork) *w, int tendon);

// Velocities and accelerations at qacc = 0, from the root.
static void push_velocities(NUM(pbWork) *w, num *force) {
  const pbModel *m = w->m;
  for (int b = 1; b < m->nbody; b++) {
    int parent = m->body_parentid[b];
    num V[6], A[6];
    v6_copy(V, w->V + 6 * parent);
    v6_copy(A, w->A0 + 6 * parent);
    body_velocity(w, b, V, A);
    v6_copy(w->V + 6 * b, V);

    v6_copy(w->A0 + 6 * b, A);
    if (w->t->body_tree[b] >= 0) inertial_wrench(force + 6 * b, w->inert + 10 * b, A, V);
  }
}

// qfrc_bias = S' (sum of the wrenches over the subtree), from the leaves.
static void pull_bias(NUM(pbWork) *w, num *force) {
  const pbModel *m = w->m;
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    const num *F = force + 6 * b;
    PB_ASSERT(parent < b);

    // The subtree's wrench is whole: to the parent, and on the body's own axes.
    if (w->t->body_tree[b] >= 0 && w->t->body_tree[parent] >= 0) {
      num *sum = force + 6 * parent;
      PB_AXPY6(sum, 1, F);
    }
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) {
      const num *S = w->S + 6 * i;
      w->qfrc_bias[i] = PB_DOT6(S, F);
    }
  }
}

// Velocities of tendons; armature along a moving path adds J' armature (dJ/dt v) to the bias.
static void tendon_velocities(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  for (int k = 0; k < m->ntendon; k++) {
    num s = 0;
    for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) s += w->ten_J[a] * w->qvel[w->ten_dofs[a]];
    w->ten_velocity[k] = s;

    num armature = NUM(pbTendon_Armature)(w, k);
    if (num_is(armature, 0)) continue;
    num bias = armature * tendon_dot(w, k);
    for (int a = w->ten_start[k]; a < w->ten_start[k + 1]; a++) w->qfrc_bias[w->ten_dofs[a]] += bias * w->ten_J[a];
  }
}

// Recursive Newton-Euler (Featherstone, 5.3): gravity counts as an upward acceleration of the world.
void NUM(pbStage_Velocity)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  memset(w->V, 0, 6 * sizeof(num));
  memset(w->A0, 0, 6 * sizeof(num));
  if (!(m->disableflags & pb_disGravity)) {
    for (int k = 0; k < 3; k++) w->A0[3 + k] = -w->p.gravity[k];
  }

  num *force = w->cfrc_int;  // sum of I A + V x* I V over the subtree
  push_velocities(w, force);
  pull_bias(w, force);
  tendon_velocities(w);
}

// ---- tendons ------------------------------------------------------------------------------------------------------
// Velocity of a site, and its acceleration at zero joint acceleration without gravity.
static void site_motion(const NUM(pbWork) *w, int site, num vel[3], num acc[3]) {
  int b = w->m->site_bodyid[site];
  num d[3], t[3];
  body_offset(w, b, w->site_xpos + 3 * site, d);

  const num *V = w->V + 6 * b, *A = w->A0 + 6 * b;
  PB_POINTVEL(vel, V, d);
  PB_POINTVEL(acc, A, d);
  v3_cross(t, V, vel);
  v3_addto(acc, t);

  // Gravity is in A0 as an acceleration of the world.
  for (int k = 0; k < 3; k++) acc[k] -= w->A0[3 + k];
}

static num tendon_dot(const NUM(pbWork) *w, int tendon) {
  const pbModel *m = w->m;
  int adr = m->tendon_adr[tendon], end = adr + m->tendon_num[tendon];
  if (m->wrap_type[adr] == pb_wrapJoint) return 0;

  num divisor = 1, sum = 0;
  for (int i = adr; i < end - 1; i++) {
    if (m->wrap_type[i] == pb_wrapPulley) divisor = w->p.wrap_prm[i];
    if (m->wrap_type[i] != pb_wrapSite || m->wrap_type[i + 1] != pb_wrapSite) continue;

    int s1 = m->wrap_objid[i], s2 = m->wrap_objid[i + 1];
    num v1[3], a1[3], v2[3], a2[3], dir[3];
    site_motion(w, s1, v1, a1);
    site_motion(w, s2, v2, a2);
    v3_sub(dir, w->site_xpos + 3 * s2, w->site_xpos + 3 * s1);
    num length = v3_normalize(dir);
    if (re(length) < 1e-15) continue;

    // d2L/dt2 = dir . acc + (|v|^2 - (dir . v)^2) / L
    v3_subfrom(v2, v1);
    v3_subfrom(a2, a1);
    num along = v3_dot(dir, v2);
    sum += (v3_dot(dir, a2) + (v3_dot(v2, v2) - along * along) / length) / divisor;
  }
  return sum;
}

num NUM(pbTendon_Dot)(const NUM(pbWork) *w, int tendon) { return tendon_dot(w, tendon); }

// J += scale * dir . (velocity of a site) over the dofs that move it; dofs are collected in the dense row `dense`.
static void add_site_row(const NUM(pbWork) *w, int site, const num dir[3], num scale, num *dense) {
  int b = w->m->site_bodyid[site];
  num d[3], u[3];

  body_offset(w, b, w->site_xpos + 3 * site, d);
  for (int i = w->t->body_dofend[b]; i >= 0; i = w->m->dof_parentid[i]) {
    const num *S = w->S + 6 * i;
    PB_POINTVEL(u, S, d);
    dense[i] += scale * v3_dot(dir, u);
  }
}

// Length of a tendon and its derivative by every dof: a sum over joints, or over segments between sites, each divided by the
// pulley before it.
static void tendon_path(NUM(pbWork) *w, int tendon, num *dense) {
  const pbModel *m = w->m;
  int adr = m->tendon_adr[tendon], end = adr + m->tendon_num[tendon];
  num length = 0, divisor = 1;
  for (int i = adr; i < end; i++) {
    if (m->wrap_type[i] == pb_wrapJoint) {
      int j = m->wrap_objid[i];
      length += w->p.wrap_prm[i] * w->qpos[m->jnt_qposadr[j]];
      dense[m->jnt_dofadr[j]] += w->p.wrap_prm[i];
      continue;
    }

    if (m->wrap_type[i] == pb_wrapPulley) divisor = w->p.wrap_prm[i];
    if (i + 1 == end || m->wrap_type[i] != pb_wrapSite || m->wrap_type[i + 1] != pb_wrapSite) continue;

    int s1 = m->wrap_objid[i], s2 = m->wrap_objid[i + 1];
    num dir[3];
    v3_sub(dir, w->site_xpos + 3 * s2, w->site_xpos + 3 * s1);
    length += v3_norm(dir) / divisor;
    v3_normalize(dir);

    // A segment within one body does not change its length.
    if (m->site_bodyid[s1] == m->site_bodyid[s2]) continue;
    add_site_row(w, s2, dir, 1 / divisor, dense);
    add_site_row(w, s1, dir, -1 / divisor, dense);
  }

  w->ten_length[tendon] = length;
}

// Mark the dofs a tendon can move.
static void tendon_dofs(const NUM(pbWork) *w, int tendon, bool *touched) {
  const pbModel *m = w->m;
  for (int i = m->tendon_adr[tendon], end = i + m->tendon_num[tendon]; i < end; i++) {
    if (m->wrap_type[i] == pb_wrapJoint) touched[m->jnt_dofadr[m->wrap_objid[i]]] = true;
    if (m->wrap_type[i] != pb_wrapSite) continue;
    for (int d = w->t->body_dofend[m->site_bodyid[m->wrap_objid[i]]]; d >= 0; d = m->dof_parentid[d]) touched[d] = true;
  }
}

void NUM(pbStage_Tendon)(NUM(pbWork) *w) {
  const pbModel *m = w->m;
  bool *touched = (bool *)w->step;
  num *dense = w->tmp;
  int used = 0;

  for (int k = 0; k < m->ntendon; k++) {
    memset(touched, 0, (size_t)m->nv * sizeof(bool));
    memset(dense, 0, (size_t)m->nv * sizeof(num));
    tendon_dofs(w, k, touched);
    tendon_path(w, k, dense);

    // What stays zero, too: it may have slopes.
    w->ten_start[k] = used;
    for (int i = 0; i < m->nv; i++) {
      if (!touched[i]) continue;
      w->ten_dofs[used] = i;
      w->ten_J[used++] = dense[i];
    }
  }
  if (m->ntendon) w->ten_start[m->ntendon] = used;
  PB_ASSERT(used <= m->ntendon * m->nv);
}

void NUM(pbStage_Acceleration)(NUM(pbWork) *w) {
  const pbModel *m = w->m;

  memcpy(w->A, w->A0, 6 * sizeof(num));
  for (int b = 1; b < m->nbody; b++) {
    num A[6];
    v6_copy(A, w->A + 6 * m->body_parentid[b]);
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) {
      const num *S = w->S + 6 * i, *Sdot = w->Sdot + 6 * i;
      PB_AXPY6(A, w->qvel[i], Sdot);
      PB_AXPY6(A, w->qacc[i], S);
    }
    v6_copy(w->A + 6 * b, A);
  }
}
