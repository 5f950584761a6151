// Jacobians by pairs of dofs (step/pairs.h): which evaluations go, and the pullback of all terms under unit motions and rates.
// Primal: step_kernel.c; tests: tests/conformance/test_step.c.
#include "step/step_adjoint.h"

#if PB_LANES > 1

#include <pullback/actuators.h>

#include "base/assert.h"
#include "bodies/row_adjoint.h"
#include "model/equality.h"
#include "model/tendon_path.h"
#include "multibody/damping.h"
#include "multibody/equality.h"
#include "multibody/lane3.h"
#include "multibody/spatial.h"

typedef LANE(pbVjpBlock) block;
typedef LANE(pbPairs) pairs;

enum { columns = pb_pairColumns };

// ---- which evaluations --------------------------------------------------------------------------------------------------
bool LANE(pbPairs_Serve)(const pbModel *m) {
  enum { few = 8 };  // dofs whose rows one traversal has, or two: the same on every instruction set
  if (m->nv <= few) return false;
  for (int k = 0; k < m->ntendon; k++) {
    if (pb_isSpatial(m, k)) return false;
  }
  for (int u = 0; u < m->nu; u++) {
    int type = m->actuator_trntype[u];
    if (type != pb_trnJoint && type != pb_trnJointInParent && type != pb_trnTendon) return false;
  }

  // Compensation through actuators has a field of its own, a free body that stands alone a block of the damped inertia.
  for (int j = 0; j < m->njnt; j++) {
    if (m->jnt_actgravcomp[j]) return false;
    if (m->integrator == pb_intImplicitfast && free_standalone(m, j)) return false;
  }
  return true;
}

static bool moves(const NUM(pbMechanism) *w, int body) { return w->t->body_tree[body] >= 0; }

// The two bodies of a contact, a connect or a weld that carries a force; false: another row.
static bool row_bodies(const NUM(pbConstraints) *w, const NUM(pbRow) *r, int body[2]) {
  const pbModel *m = w->m;
  if (!r->zone) return false;
  if (r->kind == pb_rowContact) {
    const NUM(pbContact) *c = w->contact + r->contact;
    body[0] = m->geom_bodyid[c->geom1];
    body[1] = m->geom_bodyid[c->geom2];
    return true;
  }
  if (r->kind != pb_rowEquality || !pbEquality_HasEnds(m->eq_type[r->equality])) return false;

  // By bodies or by sites.
  double p[2][3], q[2][4];
  NUM(pbEquality_Ends)(&w->mechanism, r->equality, body, p[0], p[1], q[0], q[1]);
  return true;
}

static bool pushed(const NUM(pbMechanism) *w, int body) {
  for (int k = 0; k < 6; k++) {
    if (w->xfrc_applied[6 * body + k] != 0) return true;
  }
  return false;
}

// Bodies on which more acts than inertia: under mu it is fluids. Rows of two bodies that both move are pulled later, by
// themselves.
static bool look_at_bodies(block *k, int power) {
  const NUM(pbConstraints) *w = k->a.constraints;
  bool *touched = k->pairs.touched, of_lam = power == pb_powerOfLam, any = false, ends = false;
  for (int b = 0; b < w->m->nbody; b++) {
    touched[b] = w->has_fluid || (of_lam && (w->p.body_gravcomp[b] != 0 || pushed(&w->mechanism, b)));
  }

  for (int i = 0; i < w->nrow; i++) {
    int body[2];
    k->a.later[i] = false;
    if (!of_lam || !row_bodies(w, w->row + i, body)) continue;
    touched[body[0]] = touched[body[1]] = true;
    ends = ends || w->row[i].kind == pb_rowEquality;
    k->a.later[i] = moves(&w->mechanism, body[0]) && moves(&w->mechanism, body[1]);
  }

  // Fields up to those of mu, of connects and welds, of others.
  int fields = ends ? pb_pairVw : pb_pairA;
  k->pairs.fields[power] = of_lam ? fields : pb_pairFields;
  for (int b = 1; b < w->m->nbody; b++) any = any || (touched[b] && moves(&w->mechanism, b));
  return any;
}

bool LANE(pbPairs_OnlyInertia)(const LANE(pbAdjoint) *a) {
  const pbModel *m = a->w->m;
  if (m->integrator != pb_intEuler) return false;

  // Dampers that are not linear have slopes.
  for (int i = 0; i < m->nv; i++) {
    if (a->damping[3 * i + 1] != 0 || a->damping[3 * i + 2] != 0) return false;
  }
  for (int k = 0; k < m->ntendon; k++) {
    double c[3];
    NUM(pbTendon_Damping)(a->w, k, c);
    if (c[1] != 0 || c[2] != 0) return false;
  }
  return true;
}

// ---- unit motions and rates ---------------------------------------------------------------------------------------------
static void set_lane(lane *x, int l, double value) { ((double *)x)[l] = value; }

// Nothing has been collected for a body, which does not move.
static void clear_fields(const LANE(pbAdjoint) *a, int b, bool damped) {
  lane *const fields[] = {a->Vx, a->P, a->FV, a->FA, a->FVa, a->FW, a->Vm};
  size_t count = sizeof fields / sizeof *fields - (damped ? 0 : 2);

  for (size_t f = 0; f < count; f++) LANE(pbLane_Zero6)(fields[f] + 6 * b);
  for (int i = 6 * b; i < 6 * b + 6; i++) a->FX[i] = a->FL[i] = a->FM[i] = 0;
}

// Terms pulled under unit motions `first` and following of all bodies that they touch, and under the rates of dofs of these
// colors.
static void pull_units(block *k, int power, int first) {
  LANE(pbAdjoint) *a = &k->a;
  const NUM(pbWork) *w = a->work;
  const pbModel *m = w->m;
  lane *rate = power == pb_powerOfMu ? a->mu : a->lam, *motion = power == pb_powerOfMu ? a->Vm : a->Vl;
  size_t dofs = (size_t)m->nv * sizeof(lane);

  LANE(pbVjp_Begin)(k, w);
  memset(k->ctrl, 0, (size_t)m->nu * sizeof(lane));
  a->damped = a->has_mu = power == pb_powerOfMu;
  a->apart = true;
  a->Vx = a->Vl;

  // Nothing moves but every body in its own way,
  for (int b = 0; b < m->nbody; b++) {
    if (!k->pairs.touched[b]) continue;
    clear_fields(a, b, a->damped);
    if (!moves(&w->mechanism, b)) continue;
    for (int l = 0; l < PB_LANES && first + l < 6; l++) set_lane(motion + 6 * b + first + l, l, 1);
  }

  // and joints by the way.
  memset(a->lam, 0, dofs);
  if (a->damped) memset(a->mu, 0, dofs);
  for (int i = 0; i < m->nv; i++) {
    int l = w->t->dof_color[i] - first;
    if (l >= 0 && l < PB_LANES) set_lane(rate + i, l, 1);
  }
  LANE(pbVjp_Terms)(k);
}

// Columns `first` and following of a matrix.
PB_INLINE void keep_matrix(const pairs *p, int power, int body, int field, int first, l6 F) {
  double *to = LANE(pbPairs_Matrix)(p, power, body, field, false);
  lane row[6];
  PB_ASSERT(first % PB_LANES == 0 && first < 6);

  l6_store(row, F);
  for (int r = 0; r < 6; r++) {
    if (PB_LANES < columns && first == 0) to[columns * r + 6] = to[columns * r + 7] = 0;
    memcpy(to + columns * r + first, row + r, sizeof(lane));
  }
}

// Cotangent of the pose of a body with fields that move along with it: P + sum of X x* (cotangent of X).
PB_INLINE l6 pose_along(const LANE(pbAdjoint) *a, int b) {
  const l6 FV = l6_load(a->FV + 6 * b), FA = l6_load(a->FA + 6 * b), FVa = l6_load(a->FVa + 6 * b);
  const p6 FX = p6_add(p6_load(a->FX + 6 * b), p6_load(a->FL + 6 * b));
  const l6 P = l6_add(l6_load(a->P + 6 * b), l6_wrench(p6_load(a->w->V + 6 * b), FV));
  const l6 accelerated = l6_add(l6_wrench(p6_load(a->at.A + 6 * b), FA), l6_wrench(p6_load(a->Va + 6 * b), FVa));
  return l6_sub(l6_add(P, accelerated), l6_onto(FX, l6_load(a->Vx + 6 * b)));
}
// Cotangent of V with the third term of A.
PB_INLINE l6 velocity_along(const LANE(pbAdjoint) *a, int b) {
  return l6_add(l6_load(a->FV + 6 * b), l6_wrench(p6_load(a->w->V + 6 * b), l6_load(a->FA + 6 * b)));
}
PB_INLINE l6 damped_along(const LANE(pbAdjoint) *a, int b) {
  const l6 FW = l6_load(a->FW + 6 * b);
  return l6_sub(l6_wrench(p6_load(a->Vw + 6 * b), FW), l6_onto(p6_load(a->FM + 6 * b), l6_load(a->Vm + 6 * b)));
}

static void keep_body(const block *k, int power, int b, int first) {
  const LANE(pbAdjoint) *a = &k->a;
  const pairs *p = &k->pairs;
  l6 P = pose_along(a, b);

  keep_matrix(p, power, b, pb_pairV, first, velocity_along(a, b));
  keep_matrix(p, power, b, pb_pairVa, first, l6_load(a->FVa + 6 * b));
  if (p->fields[power] > pb_pairA) keep_matrix(p, power, b, pb_pairA, first, l6_load(a->FA + 6 * b));
  if (power == pb_powerOfMu) {
    P = l6_add(P, damped_along(a, b));
    keep_matrix(p, power, b, pb_pairVw, first, l6_load(a->FW + 6 * b));
  }
  keep_matrix(p, power, b, pb_pairPose, first, P);
}

// What the motion of a body is multiplied by: what inertia takes, and what acts, the same in all lanes.
static void keep_force(const block *k, int power, int b) {
  const LANE(pbAdjoint) *a = &k->a;
  double *force = k->pairs.force[power] + 6 * b;
  bool of_mu = power == pb_powerOfMu, touched = k->pairs.touched[b];
  for (int i = 0; i < 6; i++) {
    force[i] = of_mu ? a->IW[6 * b + i] : -a->rate_IV[6 * b + i];
    if (touched) force[i] += of_mu ? a->FM[6 * b + i] : a->FX[6 * b + i] + a->FL[6 * b + i];
  }
}

static void keep_bodies(const block *k, int power, int first) {
  const NUM(pbMechanism) *w = k->a.w;
  for (int b = 1; b < w->m->nbody; b++) {
    if (!moves(w, b)) continue;
    if (first == 0) keep_force(k, power, b);
    if (k->pairs.touched[b] && first < 6) keep_body(k, power, b, first);
  }
}

// ---- joints -------------------------------------------------------------------------------------------------------------
static void keep_entry(block *k, int power, int row, int column, const lane *at, int first) {
  pairs *p = &k->pairs;
  int l = k->a.w->t->dof_color[row] - first;
  if (l < 0 || l >= PB_LANES) return;

  double value = ((const double *)at)[l];
  if (value == 0) return;
  PB_ASSERT(p->others[power] < p->max_others);
  p->other[power][p->others[power]++] = (pbPairEntry){row, column, value};
}

// What the dofs of these colors have found in joint space: by positions and velocities of near dofs,
static void keep_joints(block *k, int power, int first) {
  const LANE(pbAdjoint) *a = &k->a;
  const pbTopology *t = a->w->t;
  int nv = a->w->m->nv;
  for (int i = 0; i < nv; i++) {
    for (int e = t->near_start[i]; e < t->near_start[i + 1]; e++) {
      keep_entry(k, power, t->near_dof[e], i, a->q + i, first);
      keep_entry(k, power, t->near_dof[e], nv + i, a->v + i, first);
    }
  }
}

// by activations and controls of actuators that act on them.
static void keep_actuators(block *k, int power, int first) {
  const LANE(pbAdjoint) *a = &k->a;
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  if (m->disableflags & pb_disActuation) return;

  for (int u = 0; u < m->nu; u++) {
    int act = m->actuator_actadr[u];
    for (int e = w->mom_start[u]; e < w->mom_start[u + 1]; e++) {
      int dof = w->mom_dofs[e];
      keep_entry(k, power, dof, 2 * m->nv + m->na + u, k->ctrl + u, first);
      for (int i = 0; i < m->actuator_actnum[u]; i++) keep_entry(k, power, dof, 2 * m->nv + act + i, a->act + act + i, first);
    }
  }
}

// ---- two bodies that move -----------------------------------------------------------------------------------------------
// Columns added.
static void add_matrix(double *to, int first, l6 F) {
  lane row[6];
  l6_store(row, F);
  for (int r = 0; r < 6; r++) {
    for (int l = 0; l < PB_LANES && first + l < 6; l++) to[columns * r + first + l] += ((const double *)(row + r))[l];
  }
}

static void add_body(const LANE(pbAdjoint) *a, int b, int first, bool accelerations, double *const to[pb_pairVw]) {
  add_matrix(to[pb_pairPose], first, pose_along(a, b));
  add_matrix(to[pb_pairV], first, velocity_along(a, b));
  if (accelerations) add_matrix(to[pb_pairA], first, l6_load(a->FA + 6 * b));
  add_matrix(to[pb_pairVa], first, l6_load(a->FVa + 6 * b));
}

// Contacts of a pair follow each other: they share what one of its bodies has under the motion of the other.
static pbPairCross *cross_of(pairs *p, int from, int moved, int body) {
  for (int i = from; i < p->crosses; i++) {
    if (p->cross[i].moved == moved && p->cross[i].body == body) return p->cross + i;
  }
  pbPairCross *c = p->cross + p->crosses++;
  memset(c, 0, sizeof *c);
  c->moved = moved;
  c->body = body;
  return c;
}

// A row under the motion of one of its bodies: what that one has adds to its own matrices.
static void pull_side(block *k, int row, const int body[2], int side, pbPairCross *cross) {
  LANE(pbAdjoint) *a = &k->a;
  const pairs *p = &k->pairs;
  bool ends = p->fields[pb_powerOfLam] > pb_pairA;
  double *own[pb_pairVw], *other[pb_pairVw];
  for (int field = 0; field < pb_pairVw; field++) {
    own[field] = LANE(pbPairs_Matrix)(p, pb_powerOfLam, body[side], field, false);
    other[field] = cross->matrix[field];
  }

  for (int first = 0; first < 6; first += PB_LANES) {
    clear_fields(a, body[0], false);
    clear_fields(a, body[1], false);
    for (int l = 0; l < PB_LANES && first + l < 6; l++) set_lane(a->Vx + 6 * body[side] + first + l, l, 1);
    LANE(pbRows_PullApart)(a, row);
    add_body(a, body[side], first, ends, own);
    add_body(a, body[!side], first, ends, other);

    // The row's force is the same under any motion.
    if (side || first) continue;
    for (int s = 0; s < 2; s++) PB_AXPY6(p->force[pb_powerOfLam] + 6 * body[s], 1, a->FX + 6 * body[s]);
  }
}

static void pull_crosses(block *k) {
  const NUM(pbConstraints) *w = k->a.constraints;
  pairs *p = &k->pairs;
  p->crosses = 0;
  for (int i = 0; i < w->nrow; i++) {
    int body[2], from = p->crosses > 2 ? p->crosses - 2 : 0;
    if (!k->a.later[i] || !row_bodies(w, w->row + i, body)) continue;
    for (int side = 0; side < 2; side++) pull_side(k, i, body, side, cross_of(p, from, body[side], body[!side]));
  }
}

// ---- a power ------------------------------------------------------------------------------------------------------------
bool LANE(pbPairs_Pull)(block *k, int power) {
  const NUM(pbMechanism) *w = k->a.w;
  int most = w->t->ncolor > 0 ? w->t->ncolor : 1;
  k->pairs.others[power] = 0;
  if (look_at_bodies(k, power) && most < 6) most = 6;

  for (int first = 0; first < most; first += PB_LANES) {
    pull_units(k, power, first);
    if (k->a.loaded) return false;
    keep_bodies(k, power, first);
    keep_joints(k, power, first);
    keep_actuators(k, power, first);
  }

  if (power == pb_powerOfLam) pull_crosses(k);
  return true;
}

#endif
