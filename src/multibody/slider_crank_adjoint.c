// Gradient of slider-cranks. Primal: slider_crank.c; tests: tests/conformance/test_step.c.
//
// With u the velocity of v and r that of the axis a under the rates c, s the root and
//   alpha = a . v, beta = a . u, gamma = v . u, delta = v . r,
// the moment's power is W = (1 - alpha / s) (beta + delta) + gamma / s.
#include "multibody/slider_crank.h"

#include "eval/adjoint.h"
#include "math/vec.h"
#include "multibody/force_adjoint.h"
#include "multibody/spatial.h"

// How the two sites move under a->X: velocity of one less that of the other, rotation of the slider's body.
static void motion_of(const LANE(pbAdjoint) *a, const NUM(pbSliderCrank) *s, double d[2][3], lane u[3], lane omega[3]) {
  const NUM(pbWork) *w = a->w;
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

void LANE(pbSliderCrank_Pull)(LANE(pbAdjoint) *a, int actuator, lane length) {
  const NUM(pbWork) *w = a->w;
  double gear = w->p.actuator_gear[6 * actuator], d[2][3], F[3], T[3];
  NUM(pbSliderCrank) s;
  lane u[3], omega[3], rate[3], v_bar[3], a_bar[3], turned[3];
  NUM(pbSliderCrank_At)(w, actuator, &s);
  LANE(pbSweep_Push)(w, a->c, a->X);
  motion_of(a, &s, d, u, omega);

  // The power and its slopes, by beta and delta, by gamma, by alpha (through the root as well), by the root.
  PB_CROSS(rate, omega, s.axis);
  lane slide = PB_DOT3(s.axis, u) + PB_DOT3(s.vec, rate), gamma = PB_DOT3(s.vec, u);
  bool reaches = s.root > 0;
  double by_slide = reaches ? 1 - s.along / s.root : 1, by_gamma = reaches ? 1 / s.root : 0;
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
  memset(a->F, 0, 6 * (size_t)w->m->nbody * sizeof(double));
  for (int e = 0; e < 2; e++) {
    int body = w->m->site_bodyid[site[e]];
    double sign = e ? -1 : 1, push[3];
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
