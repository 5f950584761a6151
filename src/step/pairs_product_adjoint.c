// Jacobians by pairs of dofs (step/pairs.h): matrices of bodies down the tree, axes, pairs, and the product with the seeds.
// Primal: step_kernel.c; tests: tests/conformance/test_step.c.
#include "step/step_adjoint.h"

#if PB_LANES > 1

#include "base/assert.h"
#include "model/columns.h"
#include "model/joint.h"
#include "multibody/lane3.h"
#include "multibody/spatial.h"

typedef LANE(pbVjpBlock) block;
typedef LANE(pbPairs) pairs;
typedef pbWide wide;

enum { columns = pb_pairColumns, strips = pb_jacobianStrips };

static double *matrix_of(const pairs *p, int power, int body, int field, bool transposed) {
  return LANE(pbPairs_Matrix)(p, power, body, field, transposed);
}
static double *axis_of(const pairs *p, int kind, int k) { return LANE(pbPairs_Axis)(p, kind, k); }
static bool moves(const NUM(pbMechanism) *w, int body) { return w->t->body_tree[body] >= 0; }

// ---- down the tree ------------------------------------------------------------------------------------------------------
static void transpose(const double *from, double *to) {
  for (int c = 0; c < 6; c++) {
    for (int r = 0; r < 6; r++) to[columns * c + r] = from[columns * r + c];
    to[columns * c + 6] = to[columns * c + 7] = 0;
  }
}

// The matrices of a body to its parent's; they begin with the first body that is touched.
static void add_to_parent(const pairs *p, int power, int b, int parent) {
  PB_ASSERT(parent < b);
  for (int field = 0; field < p->fields[power]; field++) {
    const wide *from = (const wide *)matrix_of(p, power, b, field, false);
    wide *to = (wide *)matrix_of(p, power, parent, field, false);
    for (int r = 0; r < 6; r++) to[r] = p->touched[parent] ? to[r] + from[r] : from[r];
  }
  p->touched[parent] = true;
}

// Bodies with all that they carry, of what acts besides inertia; transposed, too.
static void add_up(const block *k, int power) {
  const NUM(pbMechanism) *w = k->a.w;
  const pairs *p = &k->pairs;

  for (int b = w->m->nbody - 1; b > 0; b--) {
    int parent = w->m->body_parentid[b];
    if (!p->touched[b] || !moves(w, b)) continue;
    if (moves(w, parent)) add_to_parent(p, power, b, parent);
    for (int field = 0; field < p->fields[power]; field++) {
      transpose(matrix_of(p, power, b, field, false), matrix_of(p, power, b, field, true));
    }
  }
}

static void add_up_plain(const block *k, int size, double *x) {
  const NUM(pbMechanism) *w = k->a.w;
  for (int b = w->m->nbody - 1; b > 0; b--) {
    int parent = w->m->body_parentid[b];
    if (!moves(w, parent)) continue;
    for (int i = 0; i < size; i++) x[size * parent + i] += x[size * b + i];
  }
}

// I-dot = V x* I - I V x of an inertia about the reference point: with h = m d, h changes by m v + w x h, the moments by
// [w]x J - J [w]x + 2 (h . v) - v h' - h v'; no mass is added.
static void inertia_rate(const double I[10], const double V[6], double rate[10]) {
  const double J[9] = {I[4], I[7], I[8], I[7], I[5], I[9], I[8], I[9], I[6]}, *h = I + 1, *v = V + 3;
  double WJ[9], along = 2 * PB_DOT3(h, v);

  // [w]x J
  for (int c = 0; c < 3; c++) {
    WJ[c] = V[1] * J[6 + c] - V[2] * J[3 + c];
    WJ[3 + c] = V[2] * J[c] - V[0] * J[6 + c];
    WJ[6 + c] = V[0] * J[3 + c] - V[1] * J[c];
  }

  rate[0] = 0;
  for (int c = 0; c < 3; c++) rate[1 + c] = I[0] * v[c];
  PB_ADDCROSS(rate + 1, 1, V, h);
  for (int c = 0; c < 3; c++) rate[4 + c] = 2 * (WJ[4 * c] - v[c] * h[c]) + along;
  rate[7] = WJ[1] + WJ[3] - v[0] * h[1] - h[0] * v[1];
  rate[8] = WJ[2] + WJ[6] - v[0] * h[2] - h[0] * v[2];
  rate[9] = WJ[5] + WJ[7] - v[1] * h[2] - h[1] * v[2];
}

// Momentum and rate of the inertia of bodies with all that they carry.
static void add_up_inertia(const block *k) {
  const NUM(pbMechanism) *w = k->a.w;
  const pairs *p = &k->pairs;
  memcpy(p->momentum, k->a.IV, 6 * (size_t)w->m->nbody * sizeof(double));

  for (int b = 1; b < w->m->nbody; b++) {
    if (moves(w, b)) inertia_rate(w->inert + 10 * b, w->V + 6 * b, p->rate + 10 * b);
  }

  add_up_plain(k, 6, p->momentum);
  add_up_plain(k, 10, p->rate);
}

// ---- axes ---------------------------------------------------------------------------------------------------------------
static void keep_axis(const pairs *p, int kind, int dof, const double X[6]) {
  PB_ASSERT(dof >= 0 && dof < p->padded && kind < pb_axisKinds);
  for (int k = 0; k < 6; k++) axis_of(p, kind, k)[dof] = X[k];
}

// Fields of a body before a joint.
typedef struct motions {
  double V[6], A[6], Va[6], Vw[6];
} motions;

static void axis_fields(const block *k, int dof, const motions *before, const double rate[6]) {
  const NUM(pbMechanism) *w = k->a.w;
  const pairs *p = &k->pairs;
  const double *S = w->S + 6 * dof, *by_V = w->Sdot + 6 * dof;  // V_b x S; translations of a free joint have V_b of zero
  double by_A[6] = {0}, by_Va[6] = {0}, by_Vw[6] = {0};

  PB_ADDMXM(by_A, 1, before->A, S);
  PB_ADDMXM(by_A, 1, before->V, by_V);
  PB_ADDMXM(by_Va, 1, before->Va, S);
  keep_axis(p, pb_axisPose, dof, S);
  keep_axis(p, pb_axisV, dof, by_V);
  keep_axis(p, pb_axisA, dof, by_A);
  keep_axis(p, pb_axisVa, dof, by_Va);
  keep_axis(p, pb_axisRate, dof, rate);
  if (!w->damped) return;

  PB_ADDMXM(by_Vw, 1, before->Vw, S);
  keep_axis(p, pb_axisVw, dof, by_Vw);
}

// n axes that move with what was before the first; then what is behind them. A by the rate of one: S-dot, and S x (V - V behind).
static void group_axes(const block *k, int first, int n, motions *before) {
  const NUM(pbMechanism) *w = k->a.w;
  double behind[6];
  PB_ASSERT(first + n <= w->m->nv && (n == 1 || n == 3));
  memcpy(behind, before->V, sizeof behind);
  for (int i = first; i < first + n; i++) PB_AXPY6(behind, w->qvel[i], w->S + 6 * i);

  for (int i = first; i < first + n; i++) {
    const double *S = w->S + 6 * i, *Sdot = w->Sdot + 6 * i;
    double rate[6];
    memcpy(rate, Sdot, sizeof rate);
    if (n == 1) PB_AXPY6(rate, 1, Sdot);  // V behind x S is V before x S
    else PB_ADDMXM(rate, 1, behind, S);
    axis_fields(k, i, before, rate);
  }

  memcpy(before->V, behind, sizeof behind);
  for (int i = first; i < first + n; i++) {
    double acc = k->a.at.qacc[i];
    PB_AXPY6(before->A, acc, w->S + 6 * i);
    PB_AXPY6(before->A, w->qvel[i], w->Sdot + 6 * i);
    PB_AXPY6(before->Va, acc, w->S + 6 * i);
    if (w->damped) PB_AXPY6(before->Vw, acc - w->qacc_integrated[i], w->S + 6 * i);
  }
}

static void body_axes(const block *k, int b) {
  const LANE(pbAdjoint) *a = &k->a;
  const pbModel *m = a->w->m;
  int parent = 6 * m->body_parentid[b];
  motions before;
  memset(&before, 0, sizeof before);
  memcpy(before.V, a->w->V + parent, sizeof before.V);
  memcpy(before.A, a->at.A + parent, sizeof before.A);
  memcpy(before.Va, a->Va + parent, sizeof before.Va);
  if (a->w->damped) memcpy(before.Vw, a->Vw + parent, sizeof before.Vw);

  for (int j = m->body_jntadr[b]; j < m->body_jntadr[b] + m->body_jntnum[b]; j++) {
    int dof = m->jnt_dofadr[j], n = pbJoint_GroupSize(m->jnt_type[j]);
    bool is_free = m->jnt_type[j] == pb_jntFree;
    if (is_free) group_axes(k, dof, 3, &before);
    group_axes(k, is_free ? dof + 3 : dof, n, &before);
  }
}

static void all_axes(const block *k) {
  const pbModel *m = k->a.w->m;
  const pairs *p = &k->pairs;
  for (int row = 0; row < 6 * pb_axisKinds; row++) {
    for (int i = m->nv; i < p->padded; i++) p->axis[row * p->padded + i] = 0;
  }

  for (int b = 1; b < m->nbody; b++) {
    if (m->body_jntnum[b]) body_axes(k, b);
  }
}

// First of the dofs that move together with this one.
static int group_of(const pbModel *m, int dof) {
  int joint = m->dof_jntid[dof], first = m->jnt_dofadr[joint];
  if (m->jnt_type[joint] == pb_jntFree && dof >= first + 3) return first + 3;
  return first;
}

// ---- pairs --------------------------------------------------------------------------------------------------------------
// What is paired: a power; by pose and Va, too; and with that of lam mu, where inertia alone is under it.
typedef struct what {
  int power;
  bool touched, inertia;
} what;

// What carried dofs have for the axes of their carriers, a row of all dofs for each number: M S of the fields V, A and Vw; then
// for the axis of the carrier, under its rate, by positions and velocities of the dof, and as by positions of those before all of
// the joint's axes; the same by positions under mu, of Vw.
enum {
  carried_V,
  carried_A = 6,
  carried_Vw = 12,
  carried_position = 18,
  carried_velocity = 24,
  carried_before = 30,
  carried_damped = 36,
  carried_damped_before = 42,
};
static double *carried_of(const pairs *p, int row, int dof) { return p->carried + row * p->padded + dof; }

static void store_six(const pairs *p, int row, int at, const wide x[6]) {
  for (int r = 0; r < 6; r++) *(wide *)carried_of(p, row + r, at) = x[r];
}
static void load_six(const pairs *p, int kind, int at, wide x[6]) {
  for (int r = 0; r < 6; r++) x[r] = *(const wide *)(axis_of(p, kind, r) + at);
}

// Numbers of the bodies of eight dofs.
static void gather(const pbModel *m, const double *from, int size, int at, wide *to) {
  for (int l = 0; l < columns; l++) {
    const double *x = from + size * m->dof_bodyid[at + l < m->nv ? at + l : m->nv - 1];
    for (int i = 0; i < size; i++) ((double *)(to + i))[l] = x[i];
  }
}

// Inertia under lam, of bodies with all that they carry: M is -I of A, and X x* I V - I-dot X of V, whose first part changes its
// sign where M is transposed.
static void carry_inertia(const block *k, int at, const wide S[6], const wide I[10]) {
  const pairs *p = &k->pairs;
  wide rate[10], momentum[6], force[6], axis[6], by_V[6] = {{0}}, by_A[6] = {{0}}, position[6] = {{0}}, velocity[6];
  gather(k->a.w->m, p->rate, 10, at, rate);
  gather(k->a.w->m, p->momentum, 6, at, momentum);
  gather(k->a.w->m, p->force[pb_powerOfLam], 6, at, force);

  // For the axes of carriers, and by velocities of the dof.
  PB_ADDINERT(by_A, -1.0, I, S);
  PB_ADDINERT(by_V, -1.0, rate, S);
  memcpy(velocity, by_V, sizeof velocity);
  PB_ADDMXF(by_V, 1.0, S, momentum);
  PB_ADDMXF(velocity, -1.0, S, momentum);
  load_six(p, pb_axisRate, at, axis);
  PB_ADDINERT(velocity, -1.0, I, axis);

  // By its positions.
  load_six(p, pb_axisV, at, axis);
  PB_ADDINERT(position, -1.0, rate, axis);
  PB_ADDMXF(position, -1.0, axis, momentum);
  load_six(p, pb_axisA, at, axis);
  PB_ADDINERT(position, -1.0, I, axis);

  store_six(p, carried_V, at, by_V);
  store_six(p, carried_A, at, by_A);
  store_six(p, carried_position, at, position);
  store_six(p, carried_velocity, at, velocity);

  // The force on the carried moves against what is before its joint.
  PB_ADDMXF(position, 1.0, S, force);
  store_six(p, carried_before, at, position);
}

// Inertia under mu: I of Vw.
static void carry_damped(const block *k, int at, const wide S[6], const wide I[10]) {
  const pairs *p = &k->pairs;
  wide force[6], axis[6], by_Vw[6] = {{0}}, position[6] = {{0}};
  gather(k->a.w->m, p->force[pb_powerOfMu], 6, at, force);
  load_six(p, pb_axisVw, at, axis);

  PB_ADDINERT(by_Vw, 1.0, I, S);
  PB_ADDINERT(position, 1.0, I, axis);

  store_six(p, carried_Vw, at, by_Vw);
  store_six(p, carried_damped, at, position);
  PB_ADDMXF(position, 1.0, S, force);
  store_six(p, carried_damped_before, at, position);
}

// Of all dofs, what inertia has under a power; under that of mu, too, where inertia alone is under it.
static void carry(const block *k, int power, bool inertia) {
  const NUM(pbMechanism) *w = k->a.w;
  const pairs *p = &k->pairs;
  for (int at = 0; at < p->padded; at += columns) {
    wide S[6], I[10];
    load_six(p, pb_axisPose, at, S);
    gather(w->m, w->crb, 10, at, I);

    if (power == pb_powerOfLam) carry_inertia(k, at, S, I);
    if (power == pb_powerOfMu || inertia) carry_damped(k, at, S, I);
  }
  if (power == pb_powerOfLam) return;

  // Nothing else has inertia under mu.
  size_t six = 6 * (size_t)p->padded * sizeof(double);
  memset(carried_of(p, carried_V, 0), 0, six);
  memset(carried_of(p, carried_velocity, 0), 0, six);
  memcpy(carried_of(p, carried_position, 0), carried_of(p, carried_damped, 0), six);
  memcpy(carried_of(p, carried_before, 0), carried_of(p, carried_damped_before, 0), six);
}

// What acts besides inertia, of a field: M S, and M' (axis) by positions, those of V and A also by velocities.
PB_INLINE void carry_field(const block *k, int power, int dof, int field, double by_axis[8]) {
  const pairs *p = &k->pairs;
  int b = k->a.w->m->dof_bodyid[dof];
  const wide *M = (const wide *)matrix_of(p, power, b, field, false);
  const wide *transposed = (const wide *)matrix_of(p, power, b, field, true);
  const double *S = k->a.w->S + 6 * dof;
  wide sum = {0}, position = {0}, velocity = {0};

  for (int r = 0; r < 6; r++) {
    sum += transposed[r] * S[r];
    position += M[r] * axis_of(p, field, r)[dof];
    if (field == pb_pairV) velocity += M[r] * S[r];
    if (field == pb_pairA) velocity += M[r] * axis_of(p, pb_axisRate, r)[dof];
  }

  // To rows of all dofs.
  memcpy(by_axis, &sum, sizeof sum);
  for (int r = 0; r < 6; r++) {
    *carried_of(p, carried_position + r, dof) += position[r];
    *carried_of(p, carried_before + r, dof) += position[r];
    if (field == pb_pairV || field == pb_pairA) *carried_of(p, carried_velocity + r, dof) += velocity[r];
  }
}

// Fields that not all bodies have: for the axes of pose and of Va.
typedef struct others {
  double pose[8], Va[8];
} others;

PB_INLINE void carry_others(const block *k, int power, int dof, others *o) {
  const pairs *p = &k->pairs;
  double by_V[8], by_A[8] = {0}, by_Vw[8] = {0};

  carry_field(k, power, dof, pb_pairPose, o->pose);
  carry_field(k, power, dof, pb_pairV, by_V);
  carry_field(k, power, dof, pb_pairVa, o->Va);
  if (p->fields[power] > pb_pairA) carry_field(k, power, dof, pb_pairA, by_A);
  if (power == pb_powerOfMu) carry_field(k, power, dof, pb_pairVw, by_Vw);

  // These inertia has, too.
  for (int r = 0; r < 6; r++) {
    *carried_of(p, carried_V + r, dof) += by_V[r];
    *carried_of(p, carried_A + r, dof) += by_A[r];
    if (power == pb_powerOfMu) *carried_of(p, carried_Vw + r, dof) += by_Vw[r];
  }
}

// A dof with eight others as its carriers: by their positions and velocities under its rate; by its own under theirs; the first
// and the third under mu.
enum { carrier_q, carrier_v, own_q, own_v, mu_carrier_q, mu_own_q, pair_rows };

PB_INLINE void meet(const pairs *p, what of, int dof, const others *o, int at) {
  bool of_lam = of.power == pb_powerOfLam, of_V = of_lam || of.touched;
  wide out[pair_rows] = {{0}}, by_A = {0}, by_pose = {0}, by_Va = {0}, by_Vw = {0}, rate = {0};  // sums of their own: none waits
  for (int r = 0; r < 6; r++) {
#define AXIS(kind) (*(const wide *)(axis_of(p, kind, r) + at))
#define DOF(row)   (*carried_of(p, (row) + r, dof))
    const wide S = AXIS(pb_axisPose);
    out[own_q] += S * DOF(carried_before);
    if (of_V) {
      out[own_v] += S * DOF(carried_velocity);
      out[carrier_q] += AXIS(pb_axisV) * DOF(carried_V);
      out[carrier_v] += S * DOF(carried_V);
    }
    if (of_lam) {
      by_A += AXIS(pb_axisA) * DOF(carried_A);
      rate += AXIS(pb_axisRate) * DOF(carried_A);
    } else {
      by_Vw += AXIS(pb_axisVw) * DOF(carried_Vw);
    }
    if (of.touched) {
      by_pose += S * o->pose[r];
      by_Va += AXIS(pb_axisVa) * o->Va[r];
    }
    if (of.inertia) {
      out[mu_carrier_q] += AXIS(pb_axisVw) * DOF(carried_Vw);
      out[mu_own_q] += S * DOF(carried_damped_before);
    }
#undef AXIS
#undef DOF
  }

  out[carrier_v] += rate;
  out[carrier_q] += (by_A + by_Vw) + (by_pose + by_Va);
  int rows = of.inertia ? pair_rows : mu_carrier_q;
  for (int row = 0; row < rows; row++) *(wide *)(p->row + row * p->padded + at) = out[row];
}

// S . (six rows of what a dof has).
static double along(const pairs *p, const double S[6], int row, int dof) {
  double sum = 0;
  for (int r = 0; r < 6; r++) sum += S[r] * *carried_of(p, row + r, dof);
  return sum;
}

PB_INLINE void pair_dof(const block *k, what of, int d) {
  const NUM(pbMechanism) *w = k->a.w;
  const pbTreePattern *tree = &w->t->M;
  const int *chain = tree->chain + tree->adr[d];
  const pairs *p = &k->pairs;
  const double *row = p->row;
  double(*to)[4] = p->tree[of.power] + tree->adr[d], (*mu)[4] = p->tree[pb_powerOfMu] + tree->adr[d];
  int depth = tree->depth[d], group = group_of(w->m, d);
  others o;
  PB_ASSERT(group <= d && chain[depth] == d);

  // With eight dofs at a time where its carriers are, which are kept.
  if (of.touched) carry_others(k, of.power, d, &o);
  for (int e = 0, at; e <= depth;) {
    meet(p, of, d, &o, at = chain[e] / columns * columns);
    while (e <= depth && chain[e] < at + columns) e++;
  }
  for (int e = 0; e <= depth; e++) {
    for (int i = 0; i < 4; i++) to[e][i] = row[i * p->padded + chain[e]];
    if (!of.inertia) continue;
    mu[e][carrier_q] = row[mu_carrier_q * p->padded + chain[e]];
    mu[e][own_q] = row[mu_own_q * p->padded + chain[e]];
  }

  // Axes of one joint move together: none of them is before another.
  for (int e = depth - 1; e >= 0 && chain[e] >= group; e--) {
    const double *S = w->S + 6 * chain[e];
    to[e][own_q] = along(p, S, carried_position, d);
    if (of.inertia) mu[e][own_q] = along(p, S, carried_damped, d);
  }
  if (!of.inertia || !k->one_rate) return;

  // Both powers under one rate.
  for (int e = 0; e <= depth; e++) {
    to[e][carrier_q] += mu[e][carrier_q];
    to[e][own_q] += mu[e][own_q];
  }
}

// All pairs of the tree under lam, and mu where inertia alone is under it.
static void pair_lam(const block *k, bool inertia) {
  const pbModel *m = k->a.w->m;
  carry(k, pb_powerOfLam, inertia);
  for (int d = 0; d < m->nv; d++) {
    bool touched = k->pairs.touched[m->dof_bodyid[d]];
    if (touched && inertia) pair_dof(k, (what){pb_powerOfLam, true, true}, d);
    else if (touched) pair_dof(k, (what){pb_powerOfLam, true, false}, d);
    else if (inertia) pair_dof(k, (what){pb_powerOfLam, false, true}, d);
    else pair_dof(k, (what){pb_powerOfLam, false, false}, d);
  }
}

static void pair_mu(const block *k) {
  const pbModel *m = k->a.w->m;
  carry(k, pb_powerOfMu, true);
  for (int d = 0; d < m->nv; d++) {
    if (k->pairs.touched[m->dof_bodyid[d]]) pair_dof(k, (what){pb_powerOfMu, true, false}, d);
    else pair_dof(k, (what){pb_powerOfMu, false, false}, d);
  }
}

// ---- the product --------------------------------------------------------------------------------------------------------
// product = sum over dofs of x (rates of so many strips of rows) times derivatives of the dof's power under lam; += under mu.
#define EACH for (int s = 0; s < used; s++)
PB_INLINE void add_strips(const block *k, int power, bool rates, int used, const lane *x, lane *product) {
  const pbTopology *t = k->a.w->t;
  const pbTreePattern *tree = &t->M;
  const double(*pair)[4] = k->pairs.tree[power];
  int nv = tree->n;

  for (int i = 0; i < nv; i++) {
    const int *chain = tree->chain + tree->adr[i];
    const double(*own)[4] = pair + tree->adr[i];
    lane *to_q = product + strips * i, *to_v = product + strips * (nv + i), q[strips], v[strips];
    EACH q[s] = power == pb_powerOfLam ? PB_LANE_ZERO : to_q[s];
    EACH v[s] = power == pb_powerOfLam ? PB_LANE_ZERO : to_v[s];

    // Under the rates of all that the dof carries, and of its carriers.
    for (int d = i; d < t->dof_end[i]; d++) {
      const double *entry = pair[tree->adr[d] + tree->depth[i]];
      EACH q[s] += x[strips * d + s] * entry[carrier_q];
      if (rates) EACH v[s] += x[strips * d + s] * entry[carrier_v];
    }
    for (int e = 0; e < tree->depth[i]; e++) {
      EACH q[s] += x[strips * chain[e] + s] * own[e][own_q];
      if (rates) EACH v[s] += x[strips * chain[e] + s] * own[e][own_v];
    }

    EACH to_q[s] = q[s];
    EACH to_v[s] = v[s];
  }
}
#undef EACH

// The compiler knows how many strips, and keeps them in registers.
static void add_tree(const block *k, int power, bool rates, int used, const lane *x, lane *product) {
  PB_ASSERT(used >= 1 && used <= strips);
  switch (rates ? used : -used) {
    case 1: add_strips(k, power, true, 1, x, product); return;
    case 2: add_strips(k, power, true, 2, x, product); return;
    case 3: add_strips(k, power, true, 3, x, product); return;
    case 4: add_strips(k, power, true, 4, x, product); return;
    case -1: add_strips(k, power, false, 1, x, product); return;
    case -2: add_strips(k, power, false, 2, x, product); return;
    case -3: add_strips(k, power, false, 3, x, product); return;
    default: add_strips(k, power, false, 4, x, product);
  }
}

// What a body has under the motion of another one by x, one strip.
static void add_cross(const block *k, const pbPairCross *c, int strip, const lane *x, lane *product) {
  const NUM(pbMechanism) *w = k->a.w;
  const pairs *p = &k->pairs;
  lane motion[6] = {{0}}, field[pb_pairVw][6] = {{{0}}};
  PB_ASSERT(moves(w, c->moved) && moves(w, c->body));
  for (int i = w->t->body_dofend[c->moved]; i >= 0; i = w->m->dof_parentid[i]) {
    PB_AXPY6(motion, x[strips * i + strip], w->S + 6 * i);
  }
  for (int f = 0; f < p->fields[pb_powerOfLam]; f++) {
    for (int r = 0; r < 6; r++) {
      for (int e = 0; e < 6; e++) field[f][r] += c->matrix[f][columns * r + e] * motion[e];
    }
  }

  // To the dofs that move the body.
  for (int i = w->t->body_dofend[c->body]; i >= 0; i = w->m->dof_parentid[i]) {
    lane q = {0}, v = {0};
    for (int r = 0; r < 6; r++) {
      for (int f = 0; f < p->fields[pb_powerOfLam]; f++) q += axis_of(p, f, r)[i] * field[f][r];
      v += axis_of(p, pb_axisPose, r)[i] * field[pb_pairV][r] + axis_of(p, pb_axisRate, r)[i] * field[pb_pairA][r];
    }
    product[strips * i + strip] += q;
    product[strips * (w->m->nv + i) + strip] += v;
  }
}

static void add_others(const block *k, int power, int used, const lane *x, lane *product) {
  const pairs *p = &k->pairs;
  for (int e = 0; e < p->others[power]; e++) {
    const pbPairEntry *o = p->other[power] + e;
    PB_ASSERT(o->row < k->a.w->m->nv);
    for (int s = 0; s < used; s++) product[strips * o->column + s] += x[strips * o->row + s] * o->value;
  }
  if (power != pb_powerOfLam) return;

  for (int i = 0; i < p->crosses; i++) {
    for (int s = 0; s < used; s++) add_cross(k, p->cross + i, s, x, product);
  }
}

// ---- rows ---------------------------------------------------------------------------------------------------------------
// Rows of eight to columns.
PB_INLINE void transpose_wide(const wide in[8], wide out[8]) {
  wide x[8], y[8];
  for (int i = 0; i < 8; i += 2) {
    x[i] = __builtin_shufflevector(in[i], in[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    x[i + 1] = __builtin_shufflevector(in[i], in[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; i += (i & 1) ? 3 : 1) {
    y[i] = __builtin_shufflevector(x[i], x[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    y[i + 2] = __builtin_shufflevector(x[i], x[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; i++) {
    out[i] = __builtin_shufflevector(y[i], y[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    out[i + 4] = __builtin_shufflevector(y[i], y[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// n columns of the product, of eight seeds, to rows of a Jacobian that has so many in all, the first at `to`.
static void store_block(const wide *product, int n, int rows, int all, double *to) {
  enum { stride = strips * PB_LANES / columns };
  int c = 0;
  for (; c + columns <= n; c += columns) {
    wide in[columns], out[columns];
    for (int i = 0; i < columns; i++) in[i] = product[stride * (c + i)];
    transpose_wide(in, out);
    for (int i = 0; i < rows; i++) memcpy(to + (size_t)i * (size_t)all + c, out + i, sizeof(wide));
  }
  for (; c < n; c++) {
    for (int i = 0; i < rows; i++) to[(size_t)i * (size_t)all + (size_t)c] = product[stride * c][i];
  }
}

// Rows of eight seeds by inputs: forces of dofs enter the power as they are.
static void store_inputs(const block *k, unsigned by, const wide *inputs, const wide *lam, int rows, double *to) {
  const pbModel *m = k->a.w->m;
  int all = pb_inputColumns(m, by), controls = pb_inputColumns(m, by & pb_byControl);
  if (by & pb_byControl) store_block(inputs, controls, rows, all, to);
  if (by & pb_byForce) store_block(lam, m->nv, rows, all, to + controls);
}

// The rows of some seeds.
static void store_rows(const block *k, unsigned by, int first, int count, double *A, double *B) {
  const pbModel *m = k->a.w->m;
  int n = 2 * m->nv + m->na;
  size_t columns_of_B = (size_t)pb_inputColumns(m, by);
  const wide *product = (const wide *)k->pairs.product, *inputs = product + strips * PB_LANES / columns * n;
  const wide *lam = (const wide *)(k->lam_of + first / PB_LANES * m->nv);
  PB_ASSERT(count >= 1 && count <= strips * PB_LANES);

  for (int i = 0; i < count; i += columns) {
    int rows = count - i < columns ? count - i : columns;
    size_t row = (size_t)(first + i);
    if (A) store_block(product + i / columns, n, rows, n, A + row * (size_t)n);
    if (B) store_inputs(k, by, inputs + i / columns, lam + i / columns, rows, B + row * columns_of_B);
  }
  if (!A) return;

  // v+ = v + h ahat
  for (int i = first; i < first + count; i++) A[(size_t)i * (size_t)n + (size_t)(m->nv + i)] += 1;
}

static void multiply(const block *k, unsigned by, int first, bool inertia, double *A, double *B) {
  const NUM(pbWork) *w = k->a.work;
  int nv = w->m->nv, room = strips * PB_LANES, left = (nv - first + PB_LANES - 1) / PB_LANES;
  int used = left < strips ? left : strips;
  size_t at = (size_t)(first / PB_LANES * nv);
  lane *product = k->pairs.product;

  memset(product + 2 * nv * strips, 0, (size_t)((w->m->na + w->m->nu) * strips) * sizeof(lane));
  bool together = inertia && k->one_rate;  // in the power of lam (pair_dof)
  for (int power = 0; power < (w->damped && !together ? pb_powers : 1); power++) {
    const lane *x = (power == pb_powerOfMu ? LANE(pbVjp_MuOf)(k) : k->lam_of) + at;
    add_tree(k, power, power == pb_powerOfLam || !inertia, used, x, product);
    add_others(k, power, used, x, product);
  }
  store_rows(k, by, first, nv - first < room ? nv - first : room, A, B);
}

bool LANE(pbPairs_Rows)(block *k, unsigned by, double *A, double *B) {
  const NUM(pbWork) *w = k->a.work;
  bool inertia = w->damped && LANE(pbPairs_OnlyInertia)(&k->a), pulled = w->damped && !inertia;
  if (!LANE(pbPairs_Serve)(w->m) || !LANE(pbPairs_Pull)(k, pb_powerOfLam)) return false;

  // Under lam, and what needs no pullback under mu.
  double *force_mu = k->pairs.force[pb_powerOfMu];
  PB_VALIDATE(pb_allFinite((const double *)k->lam_of, (size_t)(w->m->nv * PB_LANES)));
  all_axes(k);
  add_up(k, pb_powerOfLam);
  add_up_inertia(k);
  add_up_plain(k, 6, k->pairs.force[pb_powerOfLam]);
  if (inertia) {
    memcpy(force_mu, k->a.IW, 6 * (size_t)w->m->nbody * sizeof(double));
    add_up_plain(k, 6, force_mu);
  }
  pair_lam(k, inertia);

  k->pairs.others[pb_powerOfMu] = 0;
  if (pulled) {
    if (!LANE(pbPairs_Pull)(k, pb_powerOfMu)) return false;
    add_up(k, pb_powerOfMu);
    add_up_plain(k, 6, force_mu);
    pair_mu(k);
  }

  for (int first = 0; first < w->m->nv; first += strips * PB_LANES) multiply(k, by, first, inertia, A, B);
  return true;
}

#endif
