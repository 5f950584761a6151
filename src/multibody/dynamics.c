// Mass matrix, velocities, bias forces, accelerations.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "base/assert.h"
#include "eval/mechanism.h"
#include "eval/stages.h"
#include "math/vec.h"
#include "geometry/wrap.h"
#include "model/joint.h"
#include "model/tendon_path.h"
#include "multibody/spatial.h"
#include "multibody/tendon.h"

// Rotor inertia that actuators reflect to a joint's dof or a tendon: sum of actuator_armature gear^2.
static num reflected_armature(const NUM(pbMechanism) *w, const num *per_actuator, const int *start, const int *list, int i) {
  num s = 0;
  for (int k = start[i]; k < start[i + 1]; k++) {
    num gear = w->p.actuator_gear[6 * list[k]];
    s += per_actuator[list[k]] * gear * gear;
  }
  return s;
}

num NUM(pbTendon_Armature)(const NUM(pbMechanism) *w, int tendon) {
  return w->p.tendon_armature[tendon] +
         reflected_armature(w, w->p.actuator_armature, w->t->ten_actuator_start, w->t->ten_actuator, tendon);
}

// M += armature J'J on the pattern of M; couplings between branches have no place there and are left out, as in MuJoCo.
static void add_tendon_armature(NUM(pbMechanism) *w, int tendon, num armature) {
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
static void mass_row(NUM(pbMechanism) *w, int i) {
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

// Of a body and all below it, from the leaves. Bodies that cannot move belong to no tree.
void NUM(pbStage_Composites)(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  memcpy(w->crb, w->inert, 10 * (size_t)m->nbody * sizeof(num));
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    if (w->t->body_tree[b] < 0 || w->t->body_tree[parent] < 0) continue;
    const num *child = w->crb + 10 * b;
    num *sum = w->crb + 10 * parent;
    for (int k = 0; k < 10; k++) sum[k] += child[k];
  }
}

void NUM(pbStage_Inertia)(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  const pbTreePattern *tree = &w->t->M;
  NUM(pbStage_Composites)(w);

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
static void body_velocity(NUM(pbMechanism) *w, int b, num V[6], num A[6]) {
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

// Velocity and acceleration of a body's point, A its accelerations.
static void point_motion(const NUM(pbMechanism) *w, int b, const num point[3], const num *A, num vel[3], num acc[3]) {
  num d[3], t[3];
  const num *V = w->V + 6 * b;
  body_offset(w, b, point, d);
  PB_POINTVEL(vel, V, d);
  PB_POINTVEL(acc, A + 6 * b, d);
  v3_cross(t, V, vel);
  v3_addto(acc, t);
}

// In the geom's frame: d2L/dt2 = e . x'' + x' H x' over both ends, x'' = a - a_geom - 2 w x (v - v_geom) there.
num NUM(pbTendon_Bend)(const NUM(pbMechanism) *w, const pbPiece *p, const NUM(pbWrapPath) *path, const num *A) {
  int geom = w->m->geom_bodyid[p->geom];
  num H[49], rel[6], sum = 0;
  PB_ASSERT(p->geom >= 0);
  NUM(pbWrap_Curvature)(path, H);
  for (int e = 0; e < 2; e++) {
    const num *x = w->site_xpos + 3 * p->site[e];
    num v[3], acc[3], other[3], minus[3], spin[3];
    point_motion(w, w->m->site_bodyid[p->site[e]], x, A, v, acc);
    point_motion(w, geom, x, A, other, minus);
    v3_sub(rel + 3 * e, v, other);
    v3_subfrom(acc, minus);
    v3_cross(spin, w->V + 6 * geom, rel + 3 * e);
    v3_addscl(acc, spin, -2);
    sum += v3_dot(path->end[e], acc);
  }

  for (int i = 0; i < 6; i++) {
    for (int j = 0; j < 6; j++) sum += rel[i] * H[7 * i + j] * rel[j];
  }

  return sum;
}

// Second derivative of a spatial tendon's length by time at zero joint acceleration.
static num tendon_dot(const NUM(pbMechanism) *w, int tendon);

// Velocities and accelerations at qacc = 0, from the root.
static void push_velocities(NUM(pbMechanism) *w, num *force) {
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
static void pull_bias(NUM(pbMechanism) *w, num *force) {
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
static void tendon_velocities(NUM(pbMechanism) *w) {
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

// Recursive Newton-Euler (Featherstone, 5.3): gravity counts as an upward acceleration of the world. qfrc_load: so far the bias
// without armature of tendons.
void NUM(pbStage_Velocity)(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  memset(w->V, 0, 6 * sizeof(num));
  memset(w->A0, 0, 6 * sizeof(num));
  if (!(m->disableflags & pb_disGravity)) {
    v3_neg(w->A0 + 3, w->p.gravity);
  }

  num *force = w->cfrc_int;  // sum of I A + V x* I V over the subtree
  push_velocities(w, force);
  pull_bias(w, force);
  memcpy(w->qfrc_load, w->qfrc_bias, (size_t)m->nv * sizeof(num));
  tendon_velocities(w);
}

// ---- tendons ------------------------------------------------------------------------------------------------------
// Velocity of a site, and its acceleration at zero joint acceleration without gravity.
static void site_motion(const NUM(pbMechanism) *w, int site, num vel[3], num acc[3]) {
  int b = w->m->site_bodyid[site];
  num d[3], t[3];
  body_offset(w, b, w->site_xpos + 3 * site, d);

  const num *V = w->V + 6 * b, *A = w->A0 + 6 * b;
  PB_POINTVEL(vel, V, d);
  PB_POINTVEL(acc, A, d);
  v3_cross(t, V, vel);
  v3_addto(acc, t);

  // Gravity is in A0 as an acceleration of the world.
  v3_subfrom(acc, w->A0 + 3);
}

static num tendon_dot(const NUM(pbMechanism) *w, int tendon) {
  const pbModel *m = w->m;
  if (!pb_isSpatial(m, tendon)) return 0;

  num sum = 0;
  pbPiece p = pb_pathOf(m, tendon);
  while (pb_nextPiece(m, tendon, &p)) {
    int s1 = p.site[0], s2 = p.site[1];
    num v1[3], a1[3], v2[3], a2[3], dir[3], divisor = p.pulley < 0 ? 1 : w->p.wrap_prm[p.pulley];
    const NUM(pbWrapPath) *path = NUM(pbTendon_Around)(w, &p);
    if (path) {
      sum += NUM(pbTendon_Bend)(w, &p, path, w->A0) / divisor;
      continue;
    }

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

num NUM(pbTendon_Dot)(const NUM(pbMechanism) *w, int tendon) { return tendon_dot(w, tendon); }

// J += scale * dir . (velocity of a body's point) over the dofs after `stop` that move it; they are collected in the dense row.
static void add_point_row(const NUM(pbMechanism) *w, int b, const num point[3], const num dir[3], num scale, int stop,
                          num *dense) {
  num d[3], u[3];

  body_offset(w, b, point, d);
  for (int i = w->t->body_dofend[b]; i > stop; i = w->m->dof_parentid[i]) {
    const num *S = w->S + 6 * i;
    PB_POINTVEL(u, S, d);
    dense[i] += scale * v3_dot(dir, u);
  }
}

// Finds the path of a piece around its geom, where it has one and does not go straight past it.
static const NUM(pbWrapPath) *find_path(NUM(pbMechanism) *w, const pbPiece *p) {
  if (p->geom < 0) return NULL;
  PB_ASSERT(p->geom < w->m->ngeom && p->side < w->m->nsite);
  PB_ASSERT(w->wrapped < w->m->nwrap / 2);
  NUM(pbWrapPath) *path = w->wrap_path + w->wrapped;

  NUM(pbObstacle) o = {.type = p->type,
                       .pos = w->geom_xpos + 3 * p->geom,
                       .mat = w->geom_xmat + 9 * p->geom,
                       .radius = w->p.geom_size[3 * p->geom],
                       .side = p->side < 0 ? NULL : w->site_xpos + 3 * p->side};
  bool around = NUM(pbWrap_Find)(&o, w->site_xpos + 3 * p->site[0], w->site_xpos + 3 * p->site[1], path);
  w->wrap_at[p->next - 1] = around ? w->wrapped++ : -1;
  return around ? path : NULL;
}

// A piece around a geom: each end's line pulls at the site, and as much against it at the same point of the geom's body.
static num wrapped_piece(const NUM(pbMechanism) *w, const pbPiece *p, const NUM(pbWrapPath) *path, num divisor, int stop,
                         num *dense) {
  const pbModel *m = w->m;
  int geom = m->geom_bodyid[p->geom];
  for (int e = 0; e < 2; e++) {
    int body = m->site_bodyid[p->site[e]];
    const num *x = w->site_xpos + 3 * p->site[e];
    if (body == geom) continue;
    add_point_row(w, body, x, path->end[e], 1 / divisor, stop, dense);
    add_point_row(w, geom, x, path->end[e], -1 / divisor, stop, dense);
  }

  return path->length / divisor;
}

static num straight_piece(const NUM(pbMechanism) *w, const pbPiece *p, num divisor, int stop, num *dense) {
  int s1 = p->site[0], s2 = p->site[1], b1 = w->m->site_bodyid[s1], b2 = w->m->site_bodyid[s2];
  num dir[3];
  v3_sub(dir, w->site_xpos + 3 * s2, w->site_xpos + 3 * s1);
  num length = v3_norm(dir) / divisor;
  v3_normalize(dir);

  // A segment within one body does not change its length.
  if (b1 == b2) return length;

  add_point_row(w, b2, w->site_xpos + 3 * s2, dir, 1 / divisor, stop, dense);
  add_point_row(w, b1, w->site_xpos + 3 * s1, dir, -1 / divisor, stop, dense);
  return length;
}

// Length of a tendon and its derivative by every dof: a sum over joints, or over pieces between sites, each divided by the
// pulley before it.
static void tendon_path(NUM(pbMechanism) *w, int tendon, num *dense) {
  const pbModel *m = w->m;
  num length = 0;
  if (!pb_isSpatial(m, tendon)) {
    for (int i = m->tendon_adr[tendon], end = i + m->tendon_num[tendon]; i < end; i++) {
      int j = m->wrap_objid[i];
      length += w->p.wrap_prm[i] * w->qpos[m->jnt_qposadr[j]];
      dense[m->jnt_dofadr[j]] += w->p.wrap_prm[i];
    }
    w->ten_length[tendon] = length;
    return;
  }

  pbPiece p = pb_pathOf(m, tendon);
  int stop = w->t->body_dofend[w->t->ten_carrier[tendon]];

  while (pb_nextPiece(m, tendon, &p)) {
    num divisor = p.pulley < 0 ? 1 : w->p.wrap_prm[p.pulley];
    const NUM(pbWrapPath) *path = find_path(w, &p);
    if (path) length += wrapped_piece(w, &p, path, divisor, stop, dense);
    else length += straight_piece(w, &p, divisor, stop, dense);
  }
  w->ten_length[tendon] = length;
}

void NUM(pbStage_Tendon)(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  num *dense = w->tmp;
  w->wrapped = 0;

  for (int k = 0; k < m->ntendon; k++) {
    int first = w->ten_start[k], end = w->ten_start[k + 1];
    for (int a = first; a < end; a++) dense[w->ten_dofs[a]] = 0;
    tendon_path(w, k, dense);

    // What stays zero, too: it may have slopes.
    for (int a = first; a < end; a++) w->ten_J[a] = dense[w->ten_dofs[a]];
  }
}

void NUM(pbStage_Acceleration)(NUM(pbMechanism) *w) { NUM(pbAccelerations)(w, w->qacc, w->A); }

void NUM(pbAccelerations)(const NUM(pbMechanism) *w, const num *qacc, num *accelerations) {
  const pbModel *m = w->m;

  memcpy(accelerations, w->A0, 6 * sizeof(num));
  for (int b = 1; b < m->nbody; b++) {
    num A[6];
    v6_copy(A, accelerations + 6 * m->body_parentid[b]);
    for (int i = m->body_dofadr[b], e = i + m->body_dofnum[b]; i < e; i++) {
      const num *S = w->S + 6 * i, *Sdot = w->Sdot + 6 * i;
      PB_AXPY6(A, w->qvel[i], Sdot);
      PB_AXPY6(A, qacc[i], S);
    }
    v6_copy(accelerations + 6 * b, A);
  }
}
