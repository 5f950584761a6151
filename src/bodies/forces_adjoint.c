// Gradient of the virtual power of forces, file by file. Primal: forces.c; tests: tests/conformance/test_step.c.
#include "bodies/force_adjoint.h"
#include "bodies/forces.h"
#include "multibody/spatial.h"

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

// ---- the load of joints ------------------------------------------------------------------------------------------------
// Springs along tendons: the Jacobian has the tension times the motion, beside what is there by lam.
static void pull_tendon_loads(LANE(pbAdjoint) *a, LANE(pbAdjoint) *load) {
  const NUM(pbMechanism) *w = a->w;
  for (int k = 0; k < w->m->ntendon; k++) {
    lane power = PB_LANE_ZERO;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) power += w->ten_J[i] * load->lam[w->ten_dofs[i]];
    num tension = LANE(pbTendon_PullSpring)(load, k, power);

    if (tension == 0) continue;
    lane *row = LANE(pbTendon_Other)(a, k);
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) row[w->ten_dofs[i]] += tension * load->lam[w->ten_dofs[i]];
  }
}

// W = loss . qfrc_load: the power of all but actuators and dampers at accelerations of zero, A0 of bodies, under motions of
// its own.
static void pull_load(LANE(pbAdjoint) *a) {
  const NUM(pbMechanism) *w = a->w;
  size_t bodies = 6 * (size_t)w->m->nbody;
  LANE(pbAdjoint) load = *a;
  load.lam = a->loss + w->m->nv;
  load.Vl = load.Vx = a->load_X;
  load.FL = load.FX = a->load_F;
  load.rate_IV = a->load_F + bodies;
  load.at.A = w->A0;
  load.damped = load.has_mu = load.has_Vs = load.fresh = false;

  // The rates of momentum without I Va.
  LANE(pbSweep_Push)(w, load.lam, load.Vl);
  memset(load.FL, 0, bodies * sizeof(num));
  memcpy(load.rate_IV, a->rate_IV, bodies * sizeof(num));
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) PB_ADDINERT(load.rate_IV + 6 * b, -1, w->inert + 10 * b, a->Va + 6 * b);
  }
  LANE(pbSweep_Inertia)(&load);

  // A0 = A - Va: what is by A is not by accelerations of joints.
  for (int b = 1; b < w->m->nbody; b++) {
    if (w->t->body_tree[b] >= 0) PB_ADDINERT(a->FVa + 6 * b, 1, w->inert + 10 * b, load.Vl + 6 * b);
  }

  // Gravity compensation that goes through actuators is none of it: it finds zeros for lam_act, where it writes what it takes.
  memset(a->c, 0, (size_t)w->m->nv * sizeof(lane));
  load.lam_act = a->c;
  for (int k = FORCES - 1; k >= 0; k--) {
    bool left_out = forces[k].file == &LANE(pbForcePull_damper) || forces[k].file == &LANE(pbForcePull_armature);
    if (forces[k].file->pull && !left_out && pb_acts(w->m, forces[k].acts)) forces[k].file->pull(&load);
  }
  if (!(w->m->disableflags & pb_disSpring)) pull_tendon_loads(a, &load);

  // The field's own axes.
  memcpy(a->F, load.FL, bodies * sizeof(num));
  LANE(pbSweep_PullExtra)(a, load.lam);
}

// ---- all --------------------------------------------------------------------------------------------------------------
void LANE(pbForce_Joints)(LANE(pbAdjoint) *a) {
  for (int k = FORCES - 1; k >= 0; k--) {
    if (forces[k].file->pull && pb_acts(a->w->m, forces[k].acts)) forces[k].file->pull(a);
  }
  if (a->loaded) pull_load(a);
}

void LANE(pbForce_Tendons)(LANE(pbAdjoint) *a) {
  for (int k = FORCES - 1; k >= 0; k--) {
    if (!forces[k].file->pull_tendon || !pb_acts(a->w->m, forces[k].acts)) continue;
    for (int tendon = 0; tendon < a->w->m->ntendon; tendon++) forces[k].file->pull_tendon(a, tendon, a->ten_power[tendon]);
  }

  LANE(pbTendon_PullPaths)(a);
}
