// Actuators on sites: a wrench of gear in the frame of the site or of its reference; dofs that move both do not count.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/actuator.h"
#include "bodies/load_moment.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// Last dof that moves both bodies; -1 if none.
static int common_dof(const NUM(pbMechanism) *w, int body1, int body2) {
  int a = w->t->body_dofend[body1], b = w->t->body_dofend[body2];
  while (a != b && a >= 0 && b >= 0) {
    if (a < b) b = w->m->dof_parentid[b];
    else a = w->m->dof_parentid[a];
  }
  return a == b ? a : -1;
}

// Length of a site transmission with a reference site: gear . (position, rotation vector) in the reference's frame.
static num refsite_length(const NUM(pbMechanism) *w, int site, int ref, const num gear[6]) {
  num vec[3], q[4], r[4], length = 0;
  bool rotates = re(gear[3]) != 0 || re(gear[4]) != 0 || re(gear[5]) != 0;

  // What no gear asks for is left out.
  if (re(gear[0]) != 0 || re(gear[1]) != 0 || re(gear[2]) != 0) {
    v3_sub(vec, w->site_xpos + 3 * site, w->site_xpos + 3 * ref);
    m3_tmulv(vec, w->site_xmat + 9 * ref, vec);
    length += v3_dot(vec, gear);
  }

  if (rotates) {
    quat_mul(q, w->xquat + 4 * w->m->site_bodyid[site], w->p.site_quat + 4 * site);
    quat_mul(r, w->xquat + 4 * w->m->site_bodyid[ref], w->p.site_quat + 4 * ref);
    quat_conj(r, r);
    quat_mul(q, r, q);
    quat_log(vec, q);
    length += v3_dot(vec, gear + 3);
  }
  return length;
}

static void moment(NUM(pbMechanism) *w, int u, int *used) {
  const pbModel *m = w->m;
  int site = m->actuator_trnid[2 * u], ref = m->actuator_trnid[2 * u + 1], stop = -1;
  const num *gear = w->p.actuator_gear + 6 * u, *R = w->site_xmat + 9 * (ref < 0 ? site : ref);
  num force[3], torque[3], *dense = w->tmp;
  m3_mulv(force, R, gear);
  m3_mulv(torque, R, gear + 3);

  memset(dense, 0, (size_t)m->nv * sizeof(num));
  w->act_length[u] = ref < 0 ? 0 : refsite_length(w, site, ref, gear);
  if (ref >= 0) stop = common_dof(w, m->site_bodyid[site], m->site_bodyid[ref]);

  add_site_moment(w, site, force, torque, 1, stop, dense);
  if (ref >= 0) add_site_moment(w, ref, force, torque, -1, stop, dense);

  // Zeros, too: they may have slopes.
  int e1 = w->t->body_dofend[m->site_bodyid[site]], e2 = ref < 0 ? -1 : w->t->body_dofend[m->site_bodyid[ref]];
  for (int i = stop + 1; i <= (e1 > e2 ? e1 : e2); i++) put_moment(w, used, i, dense[i]);
}

PB_TRANSMISSION(site, moment);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"

// Torque on a body (world axes) into P, and on its site's frame.
static void add_torque(LANE(pbAdjoint) *a, int body, const lane t[3]) {
  for (int k = 0; k < 3; k++) a->P[6 * body + k] += t[k];
}

// What the two ends of a site transmission share: the wrench (world, plain) of unit force, and velocities it works on, first
// minus second.
typedef struct site_wrench {
  num force[3], torque[3];
  lane velocity[3], rotation[3];
  lane at[3];  // cotangent of the first end's position minus the second's
} site_wrench;

// One end: the wrench on the site's motion under X, with sign. p: cotangent of the site's position.
static void site_end(LANE(pbAdjoint) *a, int site, num sign, site_wrench *s, lane p[3]) {
  const NUM(pbMechanism) *w = a->w;
  int b = w->m->site_bodyid[site];
  const lane *X = a->X + 6 * b;
  num d[3], F[3], T[3];
  lane vel[3];

  body_offset(w, b, w->site_xpos + 3 * site, d);
  v3_scale(F, s->force, sign);
  v3_scale(T, s->torque, sign);
  PB_POINTVEL(vel, X, d);
  PB_CROSS(p, F, X);

  for (int k = 0; k < 3; k++) {
    p[k] += sign * s->at[k];
    s->velocity[k] += sign * vel[k];
    s->rotation[k] += sign * X[k];
  }
  LANE(pbSweep_Point)(a, b, d, F, p, a->F);
  v3_addto(a->F + 6 * b, T);
}

// Gradient of the reference length's rotational part: gear . log(r^-1 q), q and r the orientations of site and reference.
static void refsite_rotation(LANE(pbAdjoint) *a, int site, int ref, const num gear[3], lane length) {
  const NUM(pbMechanism) *w = a->w;
  num q[4], r[4], c[4], d[3], minus[3], R[9];
  lane g[3], right[3], left[3], torque[3], back[3];

  // d = log(r^-1 q)
  quat_mul(q, w->xquat + 4 * w->m->site_bodyid[site], w->p.site_quat + 4 * site);
  quat_mul(r, w->xquat + 4 * w->m->site_bodyid[ref], w->p.site_quat + 4 * ref);
  quat_conj(c, r);
  quat_mul(q, c, q);
  quat_log(d, q);

  v3_neg(minus, d);
  for (int k = 0; k < 3; k++) g[k] = length * gear[k];
  pb_log_pull(d, g, right);     // rotated from the right: by the site in its own axes
  pb_log_pull(minus, g, left);  // from the left: in the reference's axes

  quat_to_mat(R, r);
  for (int k = 0; k < 3; k++) {
    torque[k] = R[3 * k] * left[0] + R[3 * k + 1] * left[1] + R[3 * k + 2] * left[2];
    back[k] = -torque[k];
  }
  add_torque(a, w->m->site_bodyid[site], torque);
  add_torque(a, w->m->site_bodyid[ref], back);
#if PB_LANES == 1
  if (a->theta) {
    num *bar = a->bar.site_quat, other[3];
    v3_neg(other, left);
    pb_quat_pull(bar + 4 * site, w->p.site_quat + 4 * site, right);
    pb_quat_pull(bar + 4 * ref, w->p.site_quat + 4 * ref, other);
    for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, (int)(gear - w->p.actuator_gear) + k, length * d[k]);
  }
#else
  (void)right;
#endif
}

// Parameters of a site transmission: poses of sites, gear in the frame's axes R.
static void site_parameters(LANE(pbAdjoint) *a, int u, const num *R, const site_wrench *s, const lane p[3], const lane q[3],
                            const lane torque[3]) {
#if PB_LANES == 1
  num g[3];
  int site = a->w->m->actuator_trnid[2 * u], ref = a->w->m->actuator_trnid[2 * u + 1];
  if (!a->theta) return;
  LANE(pbSweep_Site)(a, site, p, ref < 0 ? torque : NULL);
  if (ref >= 0) LANE(pbSweep_Site)(a, ref, q, torque);

  m3_tmulv(g, R, s->velocity);
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + k, g[k]);
  m3_tmulv(g, R, s->rotation);
  for (int k = 0; k < 3; k++) PB_THETA(a, actuator_gear, 6 * u + 3 + k, g[k]);
#else
  (void)a;
  (void)u;
  (void)R;
  (void)s;
  (void)p;
  (void)q;
  (void)torque;
#endif
}

// The moment is a wrench of gear, fixed in the site's frame or the reference's, on the site's motion (against the reference's):
// W = (force, torque) . (motion of the rates c); with a reference the length is gear . (pose in its frame).
static void pull(LANE(pbAdjoint) *a, int u, lane length) {
  const NUM(pbMechanism) *w = a->w;
  const pbModel *m = w->m;
  int site = m->actuator_trnid[2 * u], ref = m->actuator_trnid[2 * u + 1], frame = ref < 0 ? site : ref;
  const num *gear = w->p.actuator_gear + 6 * u, *R = w->site_xmat + 9 * frame;
  num apart[3] = {0};
  lane p[3], q[3] = {0}, torque[3];
  site_wrench s = {0};
  m3_mulv(s.force, R, gear);
  m3_mulv(s.torque, R, gear + 3);

  // Motions common to both ends do not count. The length is force . apart, and the rotation's share.
  if (ref >= 0) {
    int stop = common_dof(w, m->site_bodyid[site], m->site_bodyid[ref]);
    for (int i = stop; i >= 0; i = m->dof_parentid[i]) a->c[i] = PB_LANE_ZERO;
    v3_sub(apart, w->site_xpos + 3 * site, w->site_xpos + 3 * ref);
    for (int k = 0; k < 3; k++) s.at[k] = length * s.force[k];
    if (gear[3] != 0 || gear[4] != 0 || gear[5] != 0) refsite_rotation(a, site, ref, gear + 3, length);
  }

  LANE(pbSweep_Push)(w, a->c, a->X);
  memset(a->F, 0, 6 * (size_t)m->nbody * sizeof(num));
  site_end(a, site, 1, &s, p);
  if (ref >= 0) site_end(a, ref, -1, &s, q);

  // The frame of force and torque rotates with its body.
  for (int k = 0; k < 3; k++) s.velocity[k] += length * apart[k];
  PB_CROSS(torque, s.force, s.velocity);
  PB_ADDCROSS(torque, 1, s.torque, s.rotation);
  add_torque(a, m->site_bodyid[frame], torque);
  LANE(pbSweep_PullExtra)(a, a->c);
  site_parameters(a, u, R, &s, p, q, torque);
}

PB_TRANSMISSION_PULL(site, pull, .sees_sites = true);
#endif
