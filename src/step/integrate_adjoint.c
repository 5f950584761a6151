// Derivatives of what integrate_kernel.c does: how velocities move positions, and the gyroscopic block of free bodies that
// implicitfast takes. Tests: tests/conformance/test_step.c.
#include "step/step_adjoint.h"

#include "base/assert.h"
#include "elementary/elementary.h"
#include "eval/work.h"
#include "math/vec.h"
#include "model/joint.h"
#include "multibody/spatial.h"
#include "step/integrate.h"

// out = R y for a rotation matrix
static void rotate_lanes(const num R[9], const lane y[3], lane out[3]) {
  for (int k = 0; k < 3; k++) out[k] = R[3 * k] * y[0] + R[3 * k + 1] * y[1] + R[3 * k + 2] * y[2];
}

// ---- positions ------------------------------------------------------------------------------------------------------
// out = exp(w) x for a rotation vector w
static void rotate_by(const num w[3], const lane x[3], lane out[3]) {
  num q[4], R[9];
  quat_exp(q, w);
  quat_to_mat(R, q);
  rotate_lanes(R, x, out);
}

// Right Jacobian of exp, transposed: out = Jr(w)' x = x + (1 - cos t) / t^2 w x x + (t - sin t) / t^3 w x (w x x), t = |w|
// (Chirikjian, Stochastic Models, Information Theory, and Lie Groups, 2); near zero by its series.
static void right_jacobian(const num w[3], const lane x[3], lane out[3]) {
  num t2 = v3_dot(w, w), t = num_sqrt(t2), b, c;
  lane y[3], yy[3];
  if (re(t2) < 1e-6) {
    b = 0.5 - t2 / 24;
    c = 1. / 6 - t2 / 120;
  } else {
    num sine, cosine;
    num_sincos(t, &sine, &cosine);
    b = (1 - cosine) / t2;
    c = (t - sine) / (t2 * t);
  }

  PB_CROSS(y, w, x);
  PB_CROSS(yy, w, y);
  for (int k = 0; k < 3; k++) out[k] = x[k] + b * y[k] + c * yy[k];
}

void LANE(pbVjp_Position)(const pbModel *m, const num *u, num h, const lane *q_next, lane *q, lane *rate, num *h_bar) {
  for (int j = 0; j < m->njnt; j++) {
    int dof = m->jnt_dofadr[j], type = m->jnt_type[j], n = pbJoint_PlainCount(type);

    // Slides, hinges, and the translations of free joints: q+ = q + h u.
    for (int i = dof; i < dof + n; i++) {
      q[i] += q_next[i];
      rate[i] += h * q_next[i];
      *h_bar += PB_LANE0(q_next[i]) * u[i];
    }
    if (!pbJoint_HasRotation(type)) continue;

    // q+ = q exp(h w): a tangent before it is seen through the rotation, one of w through the Jacobian of exp.
    const num *w = u + dof + n, rotation[3] = {h * w[0], h * w[1], h * w[2]};
    lane back[3], onto[3];
    rotate_by(rotation, q_next + dof + n, back);
    right_jacobian(rotation, q_next + dof + n, onto);
    for (int k = 0; k < 3; k++) {
      q[dof + n + k] += back[k];
      rate[dof + n + k] += h * onto[k];
      *h_bar += PB_LANE0(q_next[dof + n + k]) * w[k];
    }
  }
}

// ---- gyroscopic force of free bodies, implicitfast ------------------------------------------------------------------
// The bias derivative of a tree on one free joint; its gradient by complex step, one direction at a time.

enum {
  free_rotation = 0,
  free_rate = 3,
  free_mass = 6,
  free_ipos = 7,
  free_iquat = 10,
  free_inertia = 13,
  free_products = 16,
  free_inputs = 19
};

#if PB_IS_COMPLEX
// The same columns without a complex step: in body axes nothing depends on the rotation, and the rest are polynomials of at most
// second degree, whose central differences are exact. Those by parameters are not asked for.
typedef struct free_body {
  num ipos[3], iquat[4], inertia[6], mass;
} free_body;

static void free_value(const NUM(pbWork) *w, int root, const num rate[3], const free_body *f, num out[6]) {
  const num *a = w->qacc_integrated + w->m->jnt_dofadr[w->m->body_jntadr[root]] + 3;
  NUM(pbFree_BiasDerivative)(w->xmat + 9 * root, rate, a, f->mass, f->ipos, f->iquat, f->inertia, out);
}

// The force turns with the body, R [e_axis]x R' f; the torque is in its axes.
static void turn_force(const num *R, int axis, num out[6]) {
  num local[3], e[3] = {0};
  e[axis] = 1;
  m3_tmulv(local, R, out);
  v3_cross(local, e, local);
  m3_mulv(out, R, local);
  v3_zero(out + 3);
}

// Inertia turned about one of its axes: [e]x I - I [e]x, alone.
static void turn_inertia(free_body *f, int axis) {
  const num d[3] = {f->inertia[0], f->inertia[1], f->inertia[2]}, p[3] = {f->inertia[3], f->inertia[4], f->inertia[5]};
  int j = (axis + 1) % 3, k = (axis + 2) % 3;
  PB_ASSERT(axis >= 0 && axis < 3);

  // No mass: its force does not turn with the inertia.
  f->mass = 0;
  f->inertia[axis] = 0;
  f->inertia[j] = -2 * p[axis];
  f->inertia[k] = 2 * p[axis];
  f->inertia[3 + axis] = d[j] - d[k];
  f->inertia[3 + j] = p[k];
  f->inertia[3 + k] = -p[j];
}

static void free_column(const NUM(pbWork) *w, int j, int b, int input, num out[6]) {
  int root = w->m->jnt_bodyid[j];
  const num *rate = w->qvel + w->m->jnt_dofadr[j] + 3;
  free_body f = {.mass = w->p.body_mass[b]};
  NUM(pbFree_Frame)(w, root, b, f.ipos, f.iquat);
  NUM(pbFree_Inertia)(w, b, f.inertia);
  PB_ASSERT(input >= 0 && input < free_inertia && input != free_mass);

  // The whole tree turns; rates; where a body's mass lies, and how it is turned, in the root's frame.
  if (input < free_rate) {
    free_value(w, root, rate, &f, out);
    turn_force(w->xmat + 9 * root, input, out);
  } else if (input < free_mass) {  // once
    num unit[3] = {0};
    unit[input - free_rate] = 1;
    free_value(w, root, unit, &f, out);
  } else if (input < free_iquat) {  // twice in the torque
    num behind[6];
    f.ipos[input - free_ipos] += 1;
    free_value(w, root, rate, &f, out);
    f.ipos[input - free_ipos] -= 2;
    free_value(w, root, rate, &f, behind);
    for (int k = 0; k < 6; k++) out[k] = 0.5 * (out[k] - behind[k]);
  } else {
    turn_inertia(&f, input - free_iquat);
    free_value(w, root, rate, &f, out);
  }
}

#else
// What pbFree_BiasDerivative is a function of.
typedef struct free_arguments {
  _Complex double R[9], rate[3], a[3], mass, ipos[3], iquat[4], inertia[6];
} free_arguments;

static void load_free_arguments(const NUM(pbWork) *w, int j, int b, free_arguments *z) {
  int root = w->m->jnt_bodyid[j], dof = w->m->jnt_dofadr[j] + 3;
  num ipos[3], iquat[4], inertia[6];
  NUM(pbFree_Frame)(w, root, b, ipos, iquat);
  NUM(pbFree_Inertia)(w, b, inertia);

  // Real numbers all, until one is perturbed.
  z->mass = w->p.body_mass[b];
  for (int k = 0; k < 9; k++) z->R[k] = w->xmat[9 * root + k];
  for (int k = 0; k < 4; k++) z->iquat[k] = iquat[k];
  for (int k = 0; k < 6; k++) z->inertia[k] = inertia[k];
  for (int k = 0; k < 3; k++) {
    z->rate[k] = w->qvel[dof + k];
    z->a[k] = w->qacc_integrated[dof + k];
    z->ipos[k] = ipos[k];
  }
}

// R moves by R [e_axis]x, in the child frame: its two other columns.
static void perturb_rotation(_Complex double R[9], const double *xmat, int axis) {
  int p = (axis + 1) % 3, q = (axis + 2) % 3;
  for (int r = 0; r < 3; r++) {
    __imag__ R[3 * r + p] = PB_IMAG_STEP * xmat[3 * r + q];
    __imag__ R[3 * r + q] = -PB_IMAG_STEP * xmat[3 * r + p];
  }
}

static void perturb_quaternion(_Complex double q[4], int axis) {
  num value[4], half[3] = {0}, tangent[4];
  for (int k = 0; k < 4; k++) value[k] = __real__ q[k];
  half[axis] = 0.5;
  quat_mulaxis(tangent, value, half);
  for (int k = 0; k < 4; k++) __imag__ q[k] = PB_IMAG_STEP * tangent[k];
}

// Column of the derivative of body b's share of dbias/dv ahat by one input: a rotation of the tree, its rates, mass, position and
// rotation of the body's inertial frame in the root's, principal inertia.
static void free_column(const NUM(pbWork) *w, int j, int b, int input, num out[6]) {
  free_arguments z;
  _Complex double value[6];
  PB_ASSERT(input >= 0 && input < free_inputs);
  load_free_arguments(w, j, b, &z);

  if (input < free_rate) perturb_rotation(z.R, w->xmat + 9 * w->m->jnt_bodyid[j], input);
  else if (input < free_mass) __imag__ z.rate[input - free_rate] = PB_IMAG_STEP;
  else if (input < free_ipos) __imag__ z.mass = PB_IMAG_STEP;
  else if (input < free_iquat) __imag__ z.ipos[input - free_ipos] = PB_IMAG_STEP;
  else if (input < free_inertia) perturb_quaternion(z.iquat, input - free_iquat);
  else __imag__ z.inertia[input - free_inertia] = PB_IMAG_STEP;

  pbFree_BiasDerivative_c(z.R, z.rate, z.a, z.mass, z.ipos, z.iquat, z.inertia, value);
  for (int k = 0; k < 6; k++) out[k] = __imag__ value[k] / PB_IMAG_STEP;
}
#endif

// Cotangents of a body's inertial frame in the root's (position; rotation in the inertial frame's axes) to its own parameters
// and, for a child, to its pose relative to the root.
static void pull_free_frame(LANE(pbAdjoint) *a, int root, int b, const lane position[3], const lane rotation[3]) {
  const NUM(pbWork) *w = a->work;
  lane force[3], torque[3];
  num d[3];
  rotate_lanes(w->xmat + 9 * root, position, force);
  rotate_lanes(w->ximat + 9 * b, rotation, torque);
  body_offset(&w->mechanism, b, w->xipos + 3 * b, d);

  // Moving both bodies together changes nothing, so the root gets the opposite.
  if (b != root) {
    for (int side = 0; side < 2; side++) {
      int body = side ? root : b;
      num sign = side ? -1 : 1;
      PB_ADDWRENCH(a->P + 6 * body, sign, d, force);
      for (int k = 0; k < 3; k++) a->P[6 * body + k] += sign * torque[k];
    }
  }

#if PB_LANES == 1
  if (!a->theta) return;
  num local[3];
  m3_tmulv(local, w->xmat + 9 * b, force);
  for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, local[k]);
  pb_quat_pull(a->bar.body_iquat + 4 * b, w->p.body_iquat + 4 * b, rotation);
#endif
}

// The time step's share: the power over h.
static void pull_free_step(LANE(pbAdjoint) *a, int root, int b, int dof) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->work;
  num value[6], ipos[3], iquat[4], inertia[6];
  if (!a->theta) return;
  NUM(pbFree_Frame)(w, root, b, ipos, iquat);
  NUM(pbFree_Inertia)(w, b, inertia);
  NUM(pbFree_BiasDerivative)(w->xmat + 9 * root, w->qvel + dof + 3, w->qacc_integrated + dof + 3, w->p.body_mass[b], ipos, iquat,
                             inertia, value);
  a->h_bar -= PB_DOT6(value, a->mu + dof);
#else
  (void)a;
  (void)root;
  (void)b;
  (void)dof;
#endif
}

void LANE(pbVjp_FreeBias)(LANE(pbAdjoint) *a, int j, num h) {
  const NUM(pbWork) *w = a->work;
  int root = w->m->jnt_bodyid[j], dof = w->m->jnt_dofadr[j];
  PB_ASSERT(w->m->jnt_type[j] == pb_jntFree && dof + 6 <= w->m->nv);
  for (int b = root; b < w->m->nbody; b++) {
    lane position[3], rotation[3];
    if (w->t->body_tree[b] != w->t->body_tree[root]) continue;

    // Contract each column with mu; what it is by goes to the state or to parameters.
    int inputs = w->m->ndesignbody ? free_inputs : free_products;
    for (int i = 0; i < inputs; i++) {
      num d[6];
      if (PB_IS_COMPLEX && (i == free_mass || i >= free_inertia)) continue;  // parameters
      free_column(w, j, b, i, d);
      lane g = -h * PB_DOT6(d, a->mu + dof);
      if (i < free_rate) a->q[dof + 3 + i] += g;
      else if (i < free_mass) a->v[dof + 3 + i - free_rate] += g;
      else if (i < free_ipos) PB_THETA(a, body_mass, b, g);
      else if (i < free_iquat) position[i - free_ipos] = g;
      else if (i < free_inertia) rotation[i - free_iquat] = g;
      else if (i < free_products) PB_THETA(a, body_inertia, 3 * b + i - free_inertia, g);
      else PB_THETA(a, body_products, 3 * b + i - free_products, g);
    }
    pull_free_frame(a, root, b, position, rotation);
    pull_free_step(a, root, b, dof);
  }
}
