// Derived constants at the reference configuration, and the frozen scalar that their pullback differentiates; see setconst.h.
// Poses are in setconst_poses.c, virtual inertia in setconst_fluid.c.
//
// Small and dense: it runs once per model, and once per parameter for the pullback. Forward kinematics, composite inertia and
// Cholesky factor as in Featherstone 2008 (chapters 4 and 6), with MuJoCo 4.0's conventions.
// Tests: tests/oracle/test_constants.py.
#include "compile/setconst.h"

#include <pullback/actuators.h>

#include "base/assert.h"
#include "linalg/small.h"
#include "math/vec.h"
#include "model/equality.h"
#include "model/equality_data.h"
#include "model/joint.h"
#include "model/par.h"
#include "model/term_fields.h"
#include "number/number.h"

#define MIN_VALUE  1e-15  // MuJoCo's mjMINVAL
#define PIVOT_TINY 1e-14  // a smaller pivot of M, relative to the diagonal, is rounding: M is singular

typedef NUM(pbDerive) derive;

void NUM(pbDerive_Layout)(pbArena *a, const pbModel *m, derive *w) {
  size_t nb = (size_t)m->nbody;
  size_t nv = (size_t)m->nv;
  size_t nj = (size_t)m->njnt;
#define TAKE(member, count) w->member = pbArena_Take(a, count, sizeof *w->member)

  // Poses.
  TAKE(xpos, 3 * nb);
  TAKE(xquat, 4 * nb);
  TAKE(xmat, 9 * nb);
  TAKE(xipos, 3 * nb);
  TAKE(ximat, 9 * nb);
  TAKE(com, 3 * nb);

  // Joints.
  TAKE(xanchor, 3 * nj);
  TAKE(xaxis, 3 * nj);

  // Inertia and motion about the reference points, and the mass matrix.
  TAKE(inertia, 10 * nb);
  TAKE(cdof, 6 * nv);
  TAKE(M, w->plan.entries);
  TAKE(M0, nv);
  TAKE(diagonal, nv);

  // Sites and tendons.
  TAKE(site_xpos, 3 * (size_t)m->nsite);
  TAKE(ten_length, (size_t)m->ntendon);

  // One row of a Jacobian.
  TAKE(row, nv);
  TAKE(jac, 6 * (size_t)w->plan.max_size);
  TAKE(touched, nv);
  TAKE(mark, nv);
#undef TAKE
}

// ---- inertia ------------------------------------------------------------------------------------------------------
// Spatial vectors of a tree are about the center of mass of the whole tree, as in MuJoCo.
static const num *reference_point(const pbModel *m, const derive *w, int body) { return w->com + 3 * m->body_rootid[body]; }

// Masses and centers of mass of subtrees, from the leaves to the root.
static void find_centers(const pbModel *m, const NUM(pbPar) *p, num *subtreemass, derive *w) {
  // First moments, m x.
  for (int b = 0; b < m->nbody; b++) {
    subtreemass[b] = p->body_mass[b];
    v3_scale(w->com + 3 * b, w->xipos + 3 * b, p->body_mass[b]);
  }

  // Children come after their parents.
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    subtreemass[parent] += subtreemass[b];
    v3_addto(w->com + 3 * parent, w->com + 3 * b);
  }

  // Subtrees without mass have the center of their body.
  for (int b = 0; b < m->nbody; b++) {
    if (re(subtreemass[b]) < MIN_VALUE) {
      v3_copy(w->com + 3 * b, w->xipos + 3 * b);
    } else {
      v3_scale(w->com + 3 * b, w->com + 3 * b, 1 / subtreemass[b]);
    }
  }
}

// I = {xx yy zz xy xz yz, m d, m} about the reference point, d from there to the center of mass: R diag R' + m (|d|^2 1 - d d').
static void body_inertia(const pbModel *m, const NUM(pbPar) *p, int b, derive *w) {
  static const int row[6] = {0, 1, 2, 0, 0, 1}, col[6] = {0, 1, 2, 1, 2, 2};
  const num *R = w->ximat + 9 * b;
  const num *I = p->body_inertia + 3 * b;
  num *out = w->inertia + 10 * b;
  num mass = p->body_mass[b];
  num d[3];
  v3_sub(d, w->xipos + 3 * b, reference_point(m, w, b));

  for (int e = 0; e < 6; e++) {
    int i = row[e], j = col[e];
    num sum = 0;
    for (int k = 0; k < 3; k++) sum += R[3 * i + k] * I[k] * R[3 * j + k];

    // Beside the diagonal, where a design has them.
    int products = m->ndesignbody ? 3 : 0;
    for (int k = 0; k < products; k++) {
      int s = (k + 1) % 3, t = (k + 2) % 3;
      sum += p->body_products[3 * b + k] * (R[3 * i + s] * R[3 * j + t] + R[3 * i + t] * R[3 * j + s]);
    }
    out[e] = sum + mass * ((i == j ? v3_norm2(d) : 0) - d[i] * d[j]);
  }

  v3_scale(out + 6, d, mass);
  out[9] = mass;
}

// Momentum I S (angular about the reference point, linear) of the inertia I under the motion S = (rotation w, velocity v):
//   (J w + m d x v, m v + w x m d).
static void momentum_of(num r[6], const num I[10], const num S[6]) {
  num c[3];

  // J w + m d x v
  r[0] = I[0] * S[0] + I[3] * S[1] + I[4] * S[2];
  r[1] = I[3] * S[0] + I[1] * S[1] + I[5] * S[2];
  r[2] = I[4] * S[0] + I[5] * S[1] + I[2] * S[2];
  v3_addcross(r, I + 6, S + 3);

  // m v + w x m d
  v3_cross(c, S, I + 6);
  for (int k = 0; k < 3; k++) r[3 + k] = I[9] * S[3 + k] + c[k];
}

static num dot6(const num a[6], const num b[6]) { return v3_dot(a, b) + v3_dot(a + 3, b + 3); }

// Motion of the bodies that a joint moves per unit of each of its velocities: rotation, and velocity of the reference point.
static void joint_motion(const pbModel *m, int j, derive *w) {
  int b = m->jnt_bodyid[j];
  num *S = w->cdof + 6 * m->jnt_dofadr[j], arm[3];
  v3_sub(arm, reference_point(m, w, b), w->xanchor + 3 * j);

  if (m->jnt_type[j] == pb_jntSlide) {
    v3_zero(S);
    v3_copy(S + 3, w->xaxis + 3 * j);
    return;
  }

  if (m->jnt_type[j] == pb_jntHinge) {
    v3_copy(S, w->xaxis + 3 * j);
    v3_cross(S + 3, S, arm);
    return;
  }

  // Translations along the world's axes, then rotations about the body's.
  if (m->jnt_type[j] == pb_jntFree) {
    memset(S, 0, 18 * sizeof(num));
    for (int k = 0; k < 3; k++) S[6 * k + 3 + k] = 1;
    S += 18;
  }

  // A rotation about an axis through the anchor moves the reference point by axis x arm.
  for (int k = 0; k < 3; k++) {
    m3_col(S + 6 * k, w->xmat + 9 * b, k);
    v3_cross(S + 6 * k + 3, S + 6 * k, arm);
  }
}

// Entry of M at two dofs of one tree. In the block, leaves come first, so the larger index is the row.
static num *mass_entry(const derive *w, int i, int j) {
  int a = w->plan.local[i];
  int b = w->plan.local[j];
  int comp = w->plan.comp[i];
  PB_ASSERT(w->plan.comp[j] == comp);  // dofs of one tree
  size_t high = (size_t)(a > b ? a : b), low = (size_t)(a > b ? b : a);
  return w->M + w->plan.block[comp] + high * (size_t)w->plan.size[comp] + low;
}

// Armature of actuators, reflected to their joint or tendon.
static void add_actuator_armature(const pbModel *m, const NUM(pbPar) *p, derive *w) {
  for (int a = 0; a < m->nu; a++) {
    if (m->actuator_trntype[a] > pb_trnJointInParent) continue;
    int j = m->actuator_trnid[2 * a];
    num reflected = p->actuator_armature[a] * p->actuator_gear[6 * a] * p->actuator_gear[6 * a];
    for (int k = 0; k < pbJoint_DofCount(m->jnt_type[j]); k++) w->M0[m->jnt_dofadr[j] + k] += reflected;
  }
}

static num tendon_armature(const pbModel *m, const NUM(pbPar) *p, int t) {
  num armature = p->tendon_armature[t];
  for (int a = 0; a < m->nu; a++) {
    if (m->actuator_trntype[a] == pb_trnTendon && m->actuator_trnid[2 * a] == t)
      armature += p->actuator_armature[a] * p->actuator_gear[6 * a] * p->actuator_gear[6 * a];
  }
  return armature;
}

// M += armature r r', r the row of the tendon's length, on the pattern of M alone: as in MuJoCo, couplings between branches have
// no place in it.
static void add_tendon_armature(const pbModel *m, const NUM(pbPar) *p, const num *theta, derive *w) {
  for (int t = 0; t < m->ntendon; t++) {
    num armature = tendon_armature(m, p, t);
    if (re(armature) == 0 && im(armature) == 0) continue;

    // Only pairs of a dof and its ancestors have entries.
    int n = NUM(pbDerive_TendonRow)(m, theta, w, t);
    PB_VALIDATE(pb_allWithin(w->touched, n, 0, m->nv));
    for (int a = 0; a < n; a++) {
      int i = w->touched[a];
      for (int j = i; j >= 0; j = m->dof_parentid[j]) {
        if (w->mark[j]) *mass_entry(w, i, j) += armature * w->row[i] * w->row[j];
      }
    }
    NUM(pbDerive_ClearRow)(w, n);
  }
}

// Composite rigid body algorithm (Featherstone 2008, section 6.2), into the blocks of M and its diagonals.
static void mass_matrix(const pbModel *m, const NUM(pbPar) *p, const num *theta, derive *w) {
  for (size_t i = 0; i < w->plan.entries; i++) w->M[i] = 0;
  for (int b = 1; b < m->nbody; b++) body_inertia(m, p, b, w);
  for (int j = 0; j < m->njnt; j++) joint_motion(m, j, w);

  // Inertia of each subtree; the world needs none.
  for (int b = m->nbody - 1; b > 0; b--) {
    int parent = m->body_parentid[b];
    if (!parent) continue;
    for (int k = 0; k < 10; k++) w->inertia[10 * parent + k] += w->inertia[10 * b + k];
  }

  for (int i = 0; i < m->nv; i++) w->M0[i] = p->dof_armature[i];
  add_actuator_armature(m, p, w);

  // M_ij = S_j . I_i S_i for j = i and its ancestors; other entries of a row are zero.
  for (int i = 0; i < m->nv; i++) {
    num f[6];
    momentum_of(f, w->inertia + 10 * m->dof_bodyid[i], w->cdof + 6 * i);
    w->M0[i] += dot6(w->cdof + 6 * i, f);
    *mass_entry(w, i, i) = w->M0[i];
    for (int j = m->dof_parentid[i]; j >= 0; j = m->dof_parentid[j]) *mass_entry(w, i, j) = dot6(w->cdof + 6 * j, f);
  }

  add_tendon_armature(m, p, theta, w);
  for (int i = 0; i < m->nv; i++) w->diagonal[i] = *mass_entry(w, i, i);
}

// Cholesky factor of each block in place, row by row; -1, or the last dof whose pivot is not positive.
static int factor_blocks(const derive *w) {
  int bad = -1;
  for (int c = 0; c < w->plan.ncomp; c++) {
    int n = w->plan.size[c];
    num *A = w->plan.block[c] + w->M;
    PB_ASSERT(n <= w->plan.max_size && w->plan.block[c] + (size_t)n * (size_t)n <= w->plan.entries);

    for (int i = 0; i < n; i++) {
      num *row = A + (size_t)i * (size_t)n;

      // The pivot is compared with the diagonal as it was before the sums.
      double diagonal = re(row[i]);
      num pivot = small_cholesky_row(A, n, i);
      if (re(pivot) > PIVOT_TINY * diagonal) {
        row[i] = num_sqrt(pivot);
      } else {
        row[i] = num_sqrt(MIN_VALUE);
        bad = w->plan.start[c] + n - 1 - i;
      }
    }
  }
  return bad;
}

// Forward substitution, and unless `half`, back substitution.
void NUM(pbDerive_Solve)(const derive *w, int comp, num *x, bool half) {
  int n = w->plan.size[comp];
  const num *L = w->M + w->plan.block[comp];

  // Half: |L^-1 x|^2 is all that is wanted.
  small_forward(L, n, x);
  if (!half) small_backward(L, n, x);
}

// ---- rows ---------------------------------------------------------------------------------------------------------
// A dof that is new to the row begins with zero; the new count.
static int touch_dof(derive *w, int dof, int n) {
  if (w->mark[dof]) return n;
  w->mark[dof] = true;
  w->row[dof] = 0;
  w->touched[n] = dof;
  return n + 1;
}

void NUM(pbDerive_ClearRow)(derive *w, int n) {
  for (int i = 0; i < n; i++) w->mark[w->touched[i]] = false;
}

// Last dof that moves a body, its own or an ancestor's; -1 if none.
static int last_dof(const pbModel *m, int body) {
  // What is welded together at once: chains of fixed links are long.
  body = m->body_weldid[body];
  while (body > 0 && !m->body_dofnum[body]) body = m->body_weldid[m->body_parentid[body]];
  return body > 0 ? m->body_dofadr[body] + m->body_dofnum[body] - 1 : -1;
}

int NUM(pbDerive_AddPoint)(const pbModel *m, derive *w, int body, const num *point, const num *force, const num *torque,
                           num scale, int n) {
  num arm[3], moment[3];
  v3_sub(arm, point, reference_point(m, w, body));
  v3_cross(moment, arm, force);
  if (torque) v3_addto(moment, torque);

  // Virtual power of the wrench at the reference point under the motion of each dof above the body.
  for (int i = last_dof(m, body); i >= 0; i = m->dof_parentid[i]) {
    n = touch_dof(w, i, n);
    w->row[i] += scale * (v3_dot(w->cdof + 6 * i, moment) + v3_dot(w->cdof + 6 * i + 3, force));
  }
  return n;
}

// A piece between two bodies pulls at its ends, along the path there; around a geom as much against each end on the geom's body.
static int piece_row(const pbModel *m, const NUM(pbPar) *p, derive *w, const pbPiece *piece, int n) {
  num along[3], divisor = piece->pulley < 0 ? 1 : num_max(p->wrap_prm[piece->pulley], MIN_VALUE);
  int body[2] = {m->site_bodyid[piece->site[0]], m->site_bodyid[piece->site[1]]};
  const num *x[2] = {w->site_xpos + 3 * piece->site[0], w->site_xpos + 3 * piece->site[1]};

  // Around a geom.
  NUM(pbWrapPath) path;
  if (NUM(pbDerive_Wraps)(m, p, w, piece, &path)) {
    int geom = m->geom_bodyid[piece->geom];
    for (int e = 0; e < 2; e++) {
      if (body[e] == geom) continue;
      n = NUM(pbDerive_AddPoint)(m, w, body[e], x[e], path.end[e], NULL, 1 / divisor, n);
      n = NUM(pbDerive_AddPoint)(m, w, geom, x[e], path.end[e], NULL, -1 / divisor, n);
    }

    return n;
  }

  // Straight: along itself.
  if (body[0] == body[1]) return n;
  v3_sub(along, x[1], x[0]);
  v3_normalize(along);
  n = NUM(pbDerive_AddPoint)(m, w, body[1], x[1], along, NULL, 1 / divisor, n);
  return NUM(pbDerive_AddPoint)(m, w, body[0], x[0], along, NULL, -1 / divisor, n);
}

int NUM(pbDerive_TendonRow)(const pbModel *m, const num *theta, derive *w, int t) {
  NUM(pbPar) p;
  par_view(&p, m, theta);
  int n = 0;
  if (pb_isSpatial(m, t)) {
    pbPiece piece = pb_pathOf(m, t);

    // Piece by piece, sites and what is between them.
    while (pb_nextPiece(m, t, &piece)) n = piece_row(m, &p, w, &piece, n);
    return n;
  }

  // Fixed tendons: coefficients are the row.
  for (int i = m->tendon_adr[t], end = i + m->tendon_num[t]; i < end; i++) {
    int dof = m->jnt_dofadr[m->wrap_objid[i]];
    n = touch_dof(w, dof, n);
    w->row[dof] += p.wrap_prm[i];
  }
  return n;
}

// ---- derived fields -----------------------------------------------------------------------------------------------
// row' M^-1 row = sum over its blocks of |L^-1 row|^2.
static num row_weight(derive *w, int n) {
  num sum = 0;
  for (int a = 0; a < n; a++) {
    int comp = w->plan.comp[w->touched[a]];
    int size = w->plan.size[comp];

    // Each block once, at the first of its dofs.
    bool first = true;
    for (int b = 0; b < a && first; b++) first = w->plan.comp[w->touched[b]] != comp;
    if (!first) continue;

    // The part of the row in this block.
    for (int i = 0; i < size; i++) w->jac[i] = 0;
    for (int b = a; b < n; b++) {
      int dof = w->touched[b];
      if (w->plan.comp[dof] == comp) w->jac[w->plan.local[dof]] = w->row[dof];
    }

    // L^-1 row alone: its square is the weight.
    NUM(pbDerive_Solve)(w, comp, w->jac, true);
    for (int i = 0; i < size; i++) sum += w->jac[i] * w->jac[i];
  }
  return sum;
}

static num unit_weight(derive *w, int dof) {
  w->touched[0] = dof;
  w->row[dof] = 1;
  return row_weight(w, 1);
}

// Mean over the axes of the acceleration at the center of mass by a unit force there, and by a unit torque.
static void body_weight(const pbModel *m, int b, derive *w, num out[2]) {
  for (int k = 0; k < 2; k++) {
    num sum = 0;
    for (int axis = 0; axis < 3; axis++) {
      num unit[3] = {axis == 0, axis == 1, axis == 2}, none[3] = {0, 0, 0};
      int n = NUM(pbDerive_AddPoint)(m, w, b, w->xipos + 3 * b, k ? none : unit, k ? unit : NULL, 1, 0);

      sum += row_weight(w, n);
      NUM(pbDerive_ClearRow)(w, n);
    }
    out[k] = sum / 3;
  }
}

static num sliding_weight(num mass) { return 1 / num_max(mass, MIN_VALUE); }

// body_invweight0: zero for what stands still.
static void body_weights(const pbModel *m, const NUM(pbPar) *p, num *out, derive *w) {
  for (int b = 0; b < m->nbody; b++) {
    out[2 * b] = out[2 * b + 1] = 0;
    if (b == 0 || m->body_dofnum[m->body_weldid[b]] == 0) continue;

    // A body that only slides moves against its own mass alone, in MuJoCo's formula.
    if (m->body_simple[b] == 2) {
      out[2 * b] = sliding_weight(p->body_mass[b]);
    } else {
      body_weight(m, b, w, out + 2 * b);
    }
  }
}

// dof_invweight0: the same for all directions of a translation or rotation, their mean.
static void dof_weights(const pbModel *m, const NUM(pbPar) *p, num *out, derive *w) {
  for (int j = 0; j < m->njnt; j++) {
    int adr = m->jnt_dofadr[j];
    int each = pbJoint_GroupSize(m->jnt_type[j]);
    int groups = pbJoint_DofCount(m->jnt_type[j]) / each;

    // As its body.
    if (m->body_simple[m->jnt_bodyid[j]] == 2) {
      out[adr] = sliding_weight(p->body_mass[m->jnt_bodyid[j]]);
      continue;
    }

    for (int g = 0; g < groups; g++) {
      num sum = 0;

      // The row of a dof is a unit vector.
      for (int k = 0; k < each; k++) sum += unit_weight(w, adr + 3 * g + k);

      for (int k = 0; k < each; k++) out[adr + 3 * g + k] = sum / each;
    }
  }
}

bool NUM(pbDerive_SolveRow)(derive *w, int comp, int n) {
  bool any = false;
  int size = w->plan.size[comp];
  for (int i = 0; i < size; i++) w->jac[i] = 0;

  // The part of the row in this block.
  for (int i = 0; i < n; i++) {
    int dof = w->touched[i];
    if (w->plan.comp[dof] != comp) continue;
    any = true;
    w->jac[w->plan.local[dof]] = w->row[dof];
  }

  if (any) NUM(pbDerive_Solve)(w, comp, w->jac, false);
  return any;
}

// actuator_acc0 = |M^-1 row|: the joints' acceleration by a unit force.
static num unit_acceleration(derive *w, int n) {
  num sum = 0;
  for (int c = 0; c < w->plan.ncomp; c++) {
    if (!NUM(pbDerive_SolveRow)(w, c, n)) continue;
    for (int i = 0; i < w->plan.size[c]; i++) sum += w->jac[i] * w->jac[i];
  }

  return num_sqrt(sum);
}

static void actuator_accelerations(const pbModel *m, const num *theta, derive *w, num *out) {
  for (int a = 0; a < m->nu; a++) {
    num length;
    int n = NUM(pbDerive_ActuatorRow)(m, theta, w, a, &length);

    // The length itself is stored once, by compile_finish.c.
    out[a] = unit_acceleration(w, n);
    NUM(pbDerive_ClearRow)(w, n);
  }
}

// A point given in body `from`, expressed in body `to`.
static void carry_point(const derive *w, int from, int to, const num point[3], num out[3]) {
  num x[3];
  m3_mulv(x, w->xmat + 9 * from, point);
  v3_addto(x, w->xpos + 3 * from);
  v3_subfrom(x, w->xpos + 3 * to);
  m3_tmulv(out, w->xmat + 9 * to, x);
}

static void derive_equality(const pbModel *m, int e, num *data, const derive *w) {
  int b1 = m->eq_obj1id[e], b2 = m->eq_obj2id[e];
  if (m->eq_objtype[e] != pb_refBody) return;
  pbEqualityOf of = pbEquality_Of(m->eq_type[e]);
  if (of == pb_ofPoints) carry_point(w, b1, b2, data + pb_connectAnchor, data + pb_connectAnchor + 3);
  if (of != pb_ofPoses || re(data[pb_weldFollows]) == 0) return;
  carry_point(w, b2, b1, data + pb_weldAnchor, data + pb_weldAnchor + 3);
  num back[4];
  quat_conj(back, w->xquat + 4 * b1);
  quat_mul(data + pb_weldRelquat, back, w->xquat + 4 * b2);
}

// ---- all of them -----------------------------------------------------------------------------------------------------
int NUM(pbDerive_Run)(const pbModel *m, num *theta, derive *w) {
  NUM(pbPar) p;
  par_view(&p, m, theta);

#define OUT(field) (theta + (m->field - m->theta0))

  // Kinematics and mass matrix.
  NUM(pbDerive_Poses)(m, theta, p.qpos0, w);
  memset(w->mark, 0, (size_t)m->nv * sizeof *w->mark);
  find_centers(m, &p, OUT(body_subtreemass), w);
  mass_matrix(m, &p, theta, w);
  int bad = factor_blocks(w);

  // Weights: see setconst.h.
  body_weights(m, &p, OUT(body_invweight0), w);
  dof_weights(m, &p, OUT(dof_invweight0), w);

  for (int t = 0; t < m->ntendon; t++) {
    int n = NUM(pbDerive_TendonRow)(m, theta, w, t);
    OUT(tendon_invweight0)[t] = row_weight(w, n);
    NUM(pbDerive_ClearRow)(w, n);
    OUT(tendon_length0)[t] = w->ten_length[t];
  }

  actuator_accelerations(m, theta, w, theta + PB_TERM_AT(m, actuator_acc0));

  for (int e = 0; e < m->neq; e++) derive_equality(m, e, OUT(eq_data) + pbEquality_Data(e), w);
  for (int g = 0; g < m->ngeom; g++) {
    if (re(p.geom_fluid[12 * g]) > 0)
      NUM(pbDerive_VirtualInertia)(m->geom_type[g], p.geom_size + 3 * g, OUT(geom_fluid) + 12 * g + 6);
  }
#undef OUT
  return bad;
}

// ---- pullback -----------------------------------------------------------------------------------------------------
// 2 c x . r summed over the three axes of forces (k = 0) or torques (k = 1) at a body's center of mass; x along the chain.
static num body_power(const pbModel *m, int b, int k, const double **x, const derive *w) {
  num arm[3], sum = 0;
  v3_sub(arm, w->xipos + 3 * b, reference_point(m, w, b));

  for (int i = last_dof(m, b); i >= 0; i = m->dof_parentid[i], *x += 3) {
    const num *S = w->cdof + 6 * i;
    num u[3];

    // Velocity of the center of mass (k = 0), or angular velocity, by this dof.
    v3_copy(u, S);
    if (k == 0) {
      v3_cross(u, S, arm);
      v3_addto(u, S + 3);
    }

    for (int axis = 0; axis < 3; axis++) sum += (*x)[axis] * u[axis];
  }
  return sum;
}

static num body_powers(const pbModel *m, const NUM(pbPar) *p, const pbFrozen *f, const derive *w) {
  const double *bar = f->bar + (m->body_invweight0 - m->theta0);
  const double *dof_bar = f->bar + (m->dof_invweight0 - m->theta0);
  const double *x = f->x_body;
  num sum = 0;

  for (int b = 1; b < m->nbody; b++) {
    if (m->body_dofnum[m->body_weldid[b]] == 0) continue;

    // A body that only slides has weights of its mass alone, without M.
    if (m->body_simple[b] == 2) {
      double weight = bar[2 * b];
      for (int i = 0; i < m->body_dofnum[b]; i++) weight += dof_bar[m->body_dofadr[b] + i];
      sum += weight * sliding_weight(p->body_mass[b]);
    } else {
      sum += body_power(m, b, 0, &x, w);
      sum += body_power(m, b, 1, &x, w);
    }
  }
  return sum;
}

// <C, M>, both symmetric and stored as lower triangles: entries beside the diagonal count twice.
static num inertia_power(const pbFrozen *f, const derive *w) {
  num sum = 0;
  for (int c = 0; c < w->plan.ncomp; c++) {
    size_t n = (size_t)w->plan.size[c];
    const num *M = w->M + w->plan.block[c];
    const double *C = f->C + w->plan.block[c];

    for (size_t i = 0; i < n; i++) {
      for (size_t j = 0; j < i; j++) sum += 2 * C[n * i + j] * M[n * i + j];
      sum += C[n * i + i] * M[n * i + i];
    }
  }
  return sum;
}

static num tendon_powers(const pbModel *m, const num *theta, const pbFrozen *f, derive *w) {
  const double *bar = f->bar + (m->tendon_length0 - m->theta0);
  const double *x = f->x_tendon;
  num sum = 0;

  for (int t = 0; t < m->ntendon; t++) {
    int n = NUM(pbDerive_TendonRow)(m, theta, w, t);
    for (int i = 0; i < n; i++) sum += *x++ * w->row[w->touched[i]];
    NUM(pbDerive_ClearRow)(w, n);
    sum += bar[t] * w->ten_length[t];
  }
  return sum;
}

static num actuator_powers(const pbModel *m, const num *theta, const pbFrozen *f, derive *w) {
  const double *bar = f->bar + PB_TERM_AT(m, actuator_acc0), *y = f->x_actuator;
  num sum = 0;
  for (int a = 0; a < m->nu; a++) {
    num length;
    if (bar[a] == 0) continue;

    int n = NUM(pbDerive_ActuatorRow)(m, theta, w, a, &length);
    for (int i = 0; i < n; i++) sum += *y++ * w->row[w->touched[i]];
    NUM(pbDerive_ClearRow)(w, n);
  }

  return sum;
}

// <bar, values>
static num pair_cotangents(const double *bar, const num *values, int n) {
  num sum = 0;
  for (int i = 0; i < n; i++) sum += bar[i] * values[i];
  return sum;
}

num NUM(pbDerive_Power)(const pbModel *m, num *theta, const pbFrozen *f, derive *w) {
  NUM(pbPar) p;
  par_view(&p, m, theta);
#define OUT(field) (theta + (m->field - m->theta0))
#define BAR(field) (f->bar + (m->field - m->theta0))

  // As Run, up to the factor.
  NUM(pbDerive_Poses)(m, theta, p.qpos0, w);
  memset(w->mark, 0, (size_t)m->nv * sizeof *w->mark);
  find_centers(m, &p, OUT(body_subtreemass), w);
  mass_matrix(m, &p, theta, w);

  num sum = body_powers(m, &p, f, w) - inertia_power(f, w) + tendon_powers(m, theta, f, w);
  sum += actuator_powers(m, theta, f, w);
  sum += pair_cotangents(BAR(body_subtreemass), p.body_subtreemass, m->nbody);
  for (int e = 0; e < m->neq; e++) {
    derive_equality(m, e, OUT(eq_data) + pbEquality_Data(e), w);
    sum += pair_cotangents(BAR(eq_data) + pbEquality_Data(e), p.eq_data + pbEquality_Data(e), pb_eqDataSize);
  }
  for (int g = 0; g < m->ngeom; g++) {
    if (!(re(p.geom_fluid[12 * g]) > 0)) continue;
    NUM(pbDerive_VirtualInertia)(m->geom_type[g], p.geom_size + 3 * g, OUT(geom_fluid) + 12 * g + 6);
    sum += pair_cotangents(BAR(geom_fluid) + 12 * g + 6, p.geom_fluid + 12 * g + 6, 6);
  }
#undef OUT
#undef BAR
  return sum;
}
