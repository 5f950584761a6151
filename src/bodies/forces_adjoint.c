// Gradient of the virtual power of forces, file by file. Primal: forces.c; tests: tests/conformance/test_step.c.
#include "bodies/force_adjoint.h"
#include "bodies/forces.h"

#define X(file, acts) extern const LANE(pbForcePull) LANE(pbForcePull_##file);
PB_FORCE_FILES(X)
#undef X

static const struct {
  const LANE(pbForcePull) *file;
  pbActs acts;
} forces[] = {
#define X(file, acts) {&LANE(pbForcePull_##file), pb_acts##acts},
    PB_FORCE_FILES(X)
#undef X
};
enum { FORCES = sizeof forces / sizeof *forces };

void LANE(pbForce_Joints)(LANE(pbAdjoint) *a) {
  for (int k = FORCES - 1; k >= 0; k--) {
    if (forces[k].file->pull && pb_acts(a->w->m, forces[k].acts)) forces[k].file->pull(a);
  }
}

void LANE(pbForce_Tendons)(LANE(pbAdjoint) *a) {
  for (int k = FORCES - 1; k >= 0; k--) {
    if (!forces[k].file->pull_tendon || !pb_acts(a->w->m, forces[k].acts)) continue;
    for (int tendon = 0; tendon < a->w->m->ntendon; tendon++) forces[k].file->pull_tendon(a, tendon, a->ten_power[tendon]);
  }

  LANE(pbTendon_PullPaths)(a);
}
