// Where a force bends: the slopes taken there. The forward program and its derivatives read the same choice.
#ifndef PB_KINK_H
#define PB_KINK_H

#include "multibody/reference.h"

// ---- friction loss of zero --------------------------------------------------------------------------------------------
// It makes no row. The row it would make saturates at once, whatever its regularization: its force is -loss times the sign of
// x = J a + b J v at the accelerations a. So that sign is the slope by a loss of zero, from the side on which there are losses.
static inline bool loss_acts(const pbModel *m) { return !(m->disableflags & (pb_disConstraint | pb_disFrictionloss)); }

static inline double loss_damping(const NUM(pbMechanism) *w, int id) {
  int tendon = id - w->m->nv;
  const num *solref = tendon < 0 ? w->p.dof_solref + 2 * id : w->p.tendon_solref_fri + 2 * tendon;
  const num *solimp = tendon < 0 ? w->p.dof_solimp + 5 * id : w->p.tendon_solimp_fri + 5 * tendon;
  num ref[2], k, b;
  safe_reference(w, solref, ref, false);
  stiffness_damping(ref, num_clip(solimp[1], 1e-4, 0.9999), &k, &b);
  return re(b);
}

// What is slower than the first and gains less than the second is at rest, and rounding has no sign: there any loss sticks.
static const double rest_speed = 1e-10, rest_acceleration = 1e-9;  // m/s, m/s^2, or the same in radians

// id: dof, or nv + tendon. At rest, where x is zero, so is the force.
static inline double loss_sign(const NUM(pbMechanism) *w, int id, const num *a) {
  int tendon = id - w->m->nv;
  double acc = tendon < 0 ? re(a[id]) : 0, vel = re(tendon < 0 ? w->qvel[id] : w->ten_velocity[tendon]);
  if (tendon >= 0) {
    for (int i = w->ten_start[tendon]; i < w->ten_start[tendon + 1]; i++) acc += re(w->ten_J[i]) * re(a[w->ten_dofs[i]]);
  }
  if (fabs(vel) < rest_speed && fabs(acc) < rest_acceleration) return 0;

  // The row would ask for the acceleration -b v. Where both go one way it is against both, whatever b is.
  if (acc > 0 && vel > 0) return 1;
  if (acc < 0 && vel < 0) return -1;
  double x = acc + loss_damping(w, id) * vel;
  if (x > 0) return 1;
  return x < 0 ? -1 : 0;
}

// ---- rest band of a tendon's spring -------------------------------------------------------------------------------------
// Shares of the lower and upper end in the stretch: half at an end itself. Where both are one length (the default), which is
// where a model rests, they add up to one.
static inline void band_shares(num at, num low, num high, double share[2]) {
  double length = re(at), lower = re(low), upper = re(high);
  share[0] = share[1] = 0;
  if (length > upper) {
    share[1] = 1;
    return;
  }
  if (length == upper) share[1] = 0.5;
  if (length < lower) share[0] = 1;
  if (length == lower) share[0] = 0.5;
}

// Stretch of a tendon beyond its rest band.
static inline num tendon_stretch(const NUM(pbMechanism) *w, int k) {
  num above = w->ten_length[k] - w->p.tendon_lengthspring[2 * k + 1], below = w->ten_length[k] - w->p.tendon_lengthspring[2 * k];
  if (re(above) > 0) return above;
  return re(below) < 0 ? below : num_max(above, 0) + num_min(below, 0);
}

#endif
