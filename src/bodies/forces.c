// Passive forces, file by file, and their derivative by velocity for implicitfast. Derivative: forces_adjoint.c.
// Tests: tests/unit/test_kinks.c, tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "bodies/actuators.h"
#include "bodies/forces.h"

#include "bodies/force.h"
#include "eval/stages.h"
#include "math/vec.h"
#include "multibody/outer.h"

#define X(file, acts) extern const LANE(pbForceFile) LANE(pbForceFile_##file);
PB_FORCE_FILES(X)
#undef X

static const struct {
  const LANE(pbForceFile) *file;
  pbActs acts;
} forces[] = {
#define X(file, acts) {&LANE(pbForceFile_##file), pb_acts##acts},
    PB_FORCE_FILES(X)
#undef X
};
enum { FORCES = sizeof forces / sizeof *forces };

void NUM(pbStage_Passive)(NUM(pbMechanism) *w) {
  const pbModel *m = w->m;
  size_t bytes = (size_t)m->nv * sizeof(num);
  memset(w->qfrc_spring, 0, bytes);
  memset(w->qfrc_damper, 0, bytes);
  memset(w->qfrc_gravcomp, 0, bytes);
  memset(w->qfrc_fluid, 0, bytes);

  w->has_fluid = !num_is(w->p.density[0], 0) || !num_is(w->p.viscosity[0], 0);
  if (w->has_fluid) NUM(pbStage_AllGeoms)(w);

  for (int k = 0; k < FORCES; k++) {
    if (forces[k].file->add && pb_acts(m, forces[k].acts)) forces[k].file->add(w);
  }

  // Gravity compensation that goes through actuators is theirs.
  for (int i = 0; i < m->nv; i++) {
    num sum = w->qfrc_spring[i] + w->qfrc_damper[i] + w->qfrc_fluid[i];
    w->qfrc_passive[i] = m->jnt_actgravcomp[m->dof_jntid[i]] ? sum : sum + w->qfrc_gravcomp[i];
  }
}

static void add_actuator_slopes(const NUM(pbMechanism) *w, num *D) {
  for (int u = 0; u < w->m->nu; u++) {
    num slope = NUM(pbActuator_Slope)(w, u);
    int adr = w->mom_start[u], n = w->mom_start[u + 1] - adr;
    if (re(slope) != 0 || im(slope) != 0) add_outer(w, w->mom_dofs + adr, w->mom + adr, n, slope, D);
  }
}

void NUM(pbForce_Derivative)(const NUM(pbMechanism) *w, num *D) {
  const pbModel *m = w->m;
  if (!(m->disableflags & pb_disActuation)) add_actuator_slopes(w, D);

  for (int k = 0; k < FORCES; k++) {
    if (forces[k].file->slopes && pb_acts(m, forces[k].acts)) forces[k].file->slopes(w, D);
  }
}
