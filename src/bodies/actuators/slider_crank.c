// Slider-cranks: a rod of given length from the crank's site to a slider, which moves along the z axis of its own site. The
// transmission's length, before its gear, is where on that axis the rod ends: a . v - sqrt((a . v)^2 + rod^2 - v . v), v the way
// from the slider's site to the crank's and a the axis. Where the rod is too short for that, it is a . v.
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/actuator.h"
#include "bodies/load_moment.h"
#include "math/vec.h"

typedef struct slider_crank {
  int crank, slider;          // sites
  num vec[3], axis[3];        // v, a
  num along, root, length;    // a . v; the square root, 0 where the rod is too short
  num by_vec[3], by_axis[3];  // derivatives of the length
} slider_crank;

static void slider_crank_at(const NUM(pbMechanism) *w, int u, slider_crank *s) {
  double rod = w->m->actuator_cranklength[u];
  s->crank = w->m->actuator_trnid[2 * u];
  s->slider = w->m->actuator_trnid[2 * u + 1];
  PB_ASSERT(s->crank >= 0 && s->slider >= 0 && rod > 0);

  v3_sub(s->vec, w->site_xpos + 3 * s->crank, w->site_xpos + 3 * s->slider);
  m3_col(s->axis, w->site_xmat + 9 * s->slider, 2);
  s->along = v3_dot(s->axis, s->vec);
  s->root = 0;

  // Too short: the foot of the crank's site on the axis.
  num square = s->along * s->along + rod * rod - v3_dot(s->vec, s->vec);
  if (!(re(square) > 0)) {
    s->length = s->along;
    v3_copy(s->by_vec, s->axis);
    v3_copy(s->by_axis, s->vec);
    return;
  }

  s->root = num_sqrt(square);
  s->length = s->along - s->root;
  num share = 1 - num_div(s->along, s->root);
  v3_scale(s->by_vec, s->axis, share);
  v3_addscl(s->by_vec, s->vec, num_div(1, s->root));
  v3_scale(s->by_axis, s->vec, share);
}

// The rod's end moves with the crank's site, and against the slider's, whose axis turns.
static void moment(NUM(pbMechanism) *w, int u, int *used) {
  const pbModel *m = w->m;
  num gear = w->p.actuator_gear[6 * u], force[3], torque[3], none[3] = {0}, *dense = w->tmp;
  slider_crank s;
  slider_crank_at(w, u, &s);
  w->act_length[u] = gear * s.length;
  v3_scale(force, s.by_vec, gear);
  v3_cross(torque, s.by_axis, s.axis);
  v3_scale(torque, torque, gear);

  memset(dense, 0, (size_t)m->nv * sizeof(num));
  add_site_moment(w, s.crank, force, none, 1, -1, dense);
  add_site_moment(w, s.slider, force, torque, -1, -1, dense);

  // Zeros, too, as of sites.
  int e1 = w->t->body_dofend[m->site_bodyid[s.crank]], e2 = w->t->body_dofend[m->site_bodyid[s.slider]];
  for (int i = 0; i <= (e1 > e2 ? e1 : e2); i++) put_moment(w, used, i, dense[i]);
}

PB_TRANSMISSION(slider_crank, moment);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/actuator_adjoint.h"
#include "multibody/spatial.h"

// With u the velocity of v and r that of the axis a under the rates c, s the root and
//   alpha = a . v, beta = a . u, gamma = v . u, delta = v . r,
// the moment's power is W = (1 - alpha / s) (beta + delta) + gamma / s.
// How the two sites move under a->X: velocity of one less that of the other, rotation of the slider's body.
static void motion_of(const LANE(pbAdjoint) *a, const slider_crank *s, num d[2][3], lane u[3], lane omega[3]) {
  const NUM(pbMechanism) *w = a->w;
  const int site[2] = {s->crank, s->slider};
  lane v[3];

  for (int e = 0; e < 2; e++) {
    int body = w->m->site_bodyid[site[e]];
    const lane *X = a->X + 6 * body;
    body_offset(w, body, w->site_xpos + 3 * site[e], d[e]);
    PB_POINTVEL(v, X, d[e]);
    for (int k = 0; k < 3; k++) u[k] = e ? u[k] - v[k] : v[k];
    for (int k = 0; k < 3; k++) omega[k] = X[k];  // of the last, the slider's
  }
}

static void pull(LANE(pbAdjoint) *a, int actuator, lane length) {
  const NUM(pbMechanism) *w = a->w;
  num gear = w->p.actuator_gear[6 * actuator], d[2][3], F[3], T[3];
  slider_crank s;
  lane u[3], omega[3], rate[3], v_bar[3], a_bar[3], turned[3];
  slider_crank_at(w, actuator, &s);
  LANE(pbSweep_Push)(w, a->c, a->X);
  motion_of(a, &s, d, u, omega);

  // The power and its slopes, by beta and delta, by gamma, by alpha (through the root as well), by the root.
  PB_CROSS(rate, omega, s.axis);
  lane slide = PB_DOT3(s.axis, u) + PB_DOT3(s.vec, rate), gamma = PB_DOT3(s.vec, u);
  bool reaches = re(s.root) > 0;
  num by_slide = reaches ? 1 - s.along / s.root : 1, by_gamma = reaches ? 1 / s.root : 0;
  lane by_root = reaches ? (s.along * slide - gamma) / (s.root * s.root) : PB_LANE_ZERO;
  lane by_along = reaches ? (by_root * s.along - slide) / s.root : PB_LANE_ZERO;
  lane power = by_slide * slide + by_gamma * gamma;

  // To v and a, which the length depends on, too.
  PB_CROSS(turned, s.vec, omega);
  for (int k = 0; k < 3; k++) {
    v_bar[k] = by_along * s.axis[k] - by_root * (by_gamma * s.vec[k]) + by_slide * rate[k] + by_gamma * u[k];
    a_bar[k] = by_along * s.vec[k] + by_slide * (u[k] + turned[k]);
    v_bar[k] = gear * (v_bar[k] + length * s.by_vec[k]);
    a_bar[k] = gear * (a_bar[k] + length * s.by_axis[k]);
    F[k] = gear * (by_slide * s.axis[k] + by_gamma * s.vec[k]);
  }
  v3_cross(T, s.axis, s.vec);
  v3_scale(T, T, gear * by_slide);
  PB_THETA(a, actuator_gear, 6 * actuator, power + length * s.length);

  // To the sites: F on the crank's velocity and against it on the slider's, whose axis turns with its body.
  const int site[2] = {s.crank, s.slider};
  memset(a->F, 0, 6 * (size_t)w->m->nbody * sizeof(num));
  for (int e = 0; e < 2; e++) {
    int body = w->m->site_bodyid[site[e]];
    num sign = e ? -1 : 1, push[3];
    lane p[3], torque[3] = {0};
    v3_scale(push, F, sign);
    PB_CROSS(p, push, a->X + 6 * body);
    for (int k = 0; k < 3; k++) p[k] += sign * v_bar[k];
    LANE(pbSweep_Point)(a, body, d[e], push, p, a->F);

    if (e) PB_CROSS(torque, s.axis, a_bar);
    for (int k = 0; k < 3; k++) {
      a->P[6 * body + k] += torque[k];
      a->F[6 * body + k] += e ? T[k] : 0;
    }
    LANE(pbSweep_Site)(a, site[e], p, e ? torque : NULL);
  }
  LANE(pbSweep_PullExtra)(a, a->c);
}
PB_TRANSMISSION_PULL(slider_crank, pull, .sees_sites = true);
#endif
