// What the gradients of forces share: those of src/bodies (joints, actuators), tendon_adjoint.c.
#ifndef PB_FORCE_ADJOINT_H
#define PB_FORCE_ADJOINT_H

#include "base/assert.h"
#include "eval/adjoint.h"

#if PB_LANES > 1
#pragma GCC diagnostic ignored "-Wpsabi"  // lanes are passed between functions of one file only
#endif

static inline num pb_signOf(num x) {
  if (re(x) > 0) return 1;
  return re(x) < 0 ? -1 : 0;
}

// Cotangents of the three coefficients of a damper to its own fields and to those of the actuators reflected to it, which count
// times gear^2. start, list: the actuators of damper i.
static inline void damping_parameters(LANE(pbAdjoint) *a, const lane bar[3], num *linear, num *poly, const int *start,
                                      const int *list, int i) {
#if PB_LANES == 1
  const NUM(pbMechanism) *w = a->w;
  *linear += bar[0];
  poly[0] += bar[1];
  poly[1] += bar[2];

  // b of the damper is its own and, times gear^2, those of actuators on it.
  for (int k = start[i]; k < start[i + 1]; k++) {
    int u = list[k];
    PB_ASSERT(u >= 0 && u < w->m->nu);
    num gear = w->p.actuator_gear[6 * u], g2 = gear * gear;
    PB_THETA(a, actuator_damping, u, bar[0] * g2);
    PB_THETA(a, actuator_dampingpoly, 2 * u, bar[1] * g2);
    PB_THETA(a, actuator_dampingpoly, 2 * u + 1, bar[2] * g2);

    num linear_power = bar[0] * w->p.actuator_damping[u];
    num power = linear_power + bar[1] * w->p.actuator_dampingpoly[2 * u] + bar[2] * w->p.actuator_dampingpoly[2 * u + 1];
    PB_THETA(a, actuator_gear, 6 * u, 2 * gear * power);
  }
#else
  (void)a;
  (void)bar;
  (void)linear;
  (void)poly;
  (void)start;
  (void)list;
  (void)i;
#endif
}

// Two dofs have an entry in M: one moves what the other does.
static inline bool dofs_are_related(const NUM(pbMechanism) *w, int i, int j) {
  const pbTreePattern *tree = &w->t->M;
  int high = i > j ? i : j, low = i > j ? j : i, depth = tree->depth[low];
  return depth <= tree->depth[high] && tree->chain[tree->adr[high] + depth] == low;
}

// W = s mu' (r r') x on the pattern of M, for a sparse row r: adds its gradient by r to c (NULL: not wanted), returns W / s.
static inline lane pb_outerPower(const NUM(pbMechanism) *w, const int *dofs, const num *row, int n, num s, const lane *mu,
                                 const num *x, lane *c) {
  lane power = PB_LANE_ZERO;
  PB_VALIDATE(pb_ascending(dofs, n) && pb_allWithin(dofs, n, 0, w->m->nv));
  for (int i = 0; i < n; i++) {
    lane rmu = PB_LANE_ZERO;
    num rx = 0;
    for (int j = 0; j < n; j++) {
      // couplings between branches have no place in M
      if (!dofs_are_related(w, dofs[i], dofs[j])) continue;
      rmu += row[j] * mu[dofs[j]];
      rx += row[j] * x[dofs[j]];
    }

    if (c) c[dofs[i]] += s * (mu[dofs[i]] * rx + x[dofs[i]] * rmu);
    power += row[i] * mu[dofs[i]] * rx;
  }
  return power;
}

#endif
