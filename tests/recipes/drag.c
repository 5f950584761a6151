// Drag of joints that saturates: -dof_drag tanh(v / width).
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c.
#include "bodies/force.h"
#include "model/term_fields.h"

#define WIDTH 0.1  // m/s or rad/s

static num curve(num v) {
  double value = tanh(re(v) / WIDTH);
  return num_chain(v, value, (1 - value * value) / WIDTH);
}

static void add(NUM(pbMechanism) *w) {
  for (int i = 0; i < w->m->nv; i++) w->qfrc_damper[i] -= PB_TERM(w, dof_drag)[i] * curve(w->qvel[i]);
}
PB_FORCE(drag, .add = add);

#if !PB_IS_COMPLEX  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"

// W = -lam drag tanh(v / width), explicit under all integrators.
static void pull(LANE(pbAdjoint) *a) {
  for (int i = 0; i < a->w->m->nv; i++) {
    double drag = PB_TERM(a->w, dof_drag)[i], share = curve(a->w->qvel[i]);
    a->v[i] -= a->lam[i] * (drag * (1 - share * share) / WIDTH);
    PB_TERM_THETA(a, dof_drag, i, -a->lam[i] * share);
  }
}
PB_FORCE_PULL(drag, .pull = pull);
#endif
