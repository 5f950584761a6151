// Applied forces: of dofs and on bodies. Primal: in sums of forces (multibody/dynamics.c).
// Tests: tests/conformance/test_step.c, tests/conformance/test_lists.c, tests/oracle/test_derivatives.py.
#include "bodies/force.h"

PB_FORCE(applied);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/force_adjoint.h"
#include "math/vec.h"
#include "multibody/spatial.h"

// W = force . (velocity of the center of mass) + torque . (angular velocity), under Vx
static void pull_wrench(LANE(pbAdjoint) *a, int b) {
  const NUM(pbMechanism) *w = a->w;
  const num *x = w->xfrc_applied + 6 * b;
  PB_ASSERT(w->t->body_tree[b] >= 0);
  const lane *X = a->Vx + 6 * b;
  bool none = x[0] == 0 && x[1] == 0 && x[2] == 0 && x[3] == 0 && x[4] == 0 && x[5] == 0;
  num d[3];
  lane u[3], p[3];

  if (none && !a->xfrc) return;
  body_offset(w, b, w->xipos + 3 * b, d);
  PB_POINTVEL(u, X, d);
  if (a->xfrc) {
    for (int k = 0; k < 3; k++) {
      a->xfrc[6 * b + k] += u[k];
      a->xfrc[6 * b + 3 + k] += X[k];
    }
  }
  if (none) return;

  // The force's point of application moves with the body; the torque sees angular motion alone.
  PB_CROSS(p, x, X);
  LANE(pbSweep_Point)(a, b, d, x, p, a->FX);
  v3_addto(a->FX + 6 * b, x + 3);

#if PB_LANES == 1
  if (a->theta) {
    num local[3];
    m3_tmulv(local, w->xmat + 9 * b, p);
    for (int k = 0; k < 3; k++) PB_THETA(a, body_ipos, 3 * b + k, local[k]);
  }
#endif
}

static void pull(LANE(pbAdjoint) *a) {
  const pbModel *m = a->w->m;
  for (int i = 0; i < m->nv; i++) {
    if (a->qfrc) a->qfrc[i] += a->lam[i];
  }

  for (int b = 1; b < m->nbody; b++) {
    if (a->w->t->body_tree[b] >= 0) pull_wrench(a, b);
  }
}
PB_FORCE_PULL(applied, .pull = pull);
#endif
