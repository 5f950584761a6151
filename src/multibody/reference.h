// How solref and solimp become stiffness and damping of a constraint's reference.
#ifndef PB_REFERENCE_H
#define PB_REFERENCE_H

#include "eval/mechanism.h"

// solref after the safety rules: mixed formats replaced, the time constant at least two steps.
static inline void safe_reference(const NUM(pbMechanism) *w, const num *solref, num out[2], bool friction) {
  out[0] = solref[0];
  out[1] = solref[1];
  if ((re(out[0]) > 0) != (re(out[1]) > 0)) {
    out[0] = friction ? 0 : 0.02;
    out[1] = friction ? 0 : 1;
  }
  if (!(w->m->disableflags & pb_disRefsafe) && re(out[0]) > 0) out[0] = num_max(out[0], 2 * w->p.timestep[0]);
}

// Stiffness and damping from that and the upper impedance d1.
static inline void stiffness_damping(const num ref[2], num d1, num *k, num *b) {
  *k = re(ref[0]) > 0 ? 1 / num_max(1e-15, d1 * d1 * ref[0] * ref[0] * ref[1] * ref[1]) : -ref[0] / num_max(1e-15, d1 * d1);
  *b = re(ref[1]) > 0 ? 2 / num_max(1e-15, d1 * ref[0]) : -ref[1] / num_max(1e-15, d1);
}

#endif
