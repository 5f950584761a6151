// Mass, center of mass and moments of a body: from its geoms, checked, repaired; what stands in it moves along.
// Tests: tests/unit/test_compile.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "math/vec.h"

// ---- from geoms -----------------------------------------------------------------------------------------------------
bool pbCompile_GivesMass(const pbCompiler *c, const pbGeomWork *g) {
  const pbCompilerSettings *set = SETTINGS(c->bodies[g->body].def);
  return g->def->group >= set->inertiagrouprange[0] && g->def->group <= set->inertiagrouprange[1] && g->mass > PB_TINY;
}

// Mass, center of mass and principal axes of all geoms that give mass; nothing changes where none does.
static const char *sum_geoms(const pbCompiler *c, pbBodyWork *b) {
  const pbGeomWork *only = NULL;
  double mass = 0, center[3] = {0, 0, 0}, total[6] = {0}, r[3];
  int n = 0;

  // Mass, and its first moment.
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    const pbGeomWork *g = &c->geoms[i];
    if (!pbCompile_GivesMass(c, g)) continue;
    only = g;
    n++;
    mass += g->mass;
    v3_addscl(center, g->pos, g->mass);
  }

  if (!n) return NULL;
  b->has_ipos = true;
  b->mass = mass;

  // One geom has its principal axes already: no rounding by an eigenvalue decomposition.
  if (n == 1) {
    memcpy(b->ipos, only->pos, sizeof b->ipos);
    memcpy(b->iquat, only->quat, sizeof b->iquat);
    memcpy(b->inertia, only->inertia, sizeof b->inertia);
    return NULL;
  }

  // Parallel axis theorem about the common center of mass.
  PB_ASSERT(mass > 0);
  for (int k = 0; k < 3; k++) b->ipos[k] = center[k] / mass;
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    const pbGeomWork *g = &c->geoms[i];
    if (!pbCompile_GivesMass(c, g)) continue;
    v3_sub(r, g->pos, b->ipos);
    pbPose_AddInertia(total, g->mass, g->inertia, g->quat, r);
  }
  return pbPose_Principal(total, b->iquat, b->inertia);
}

pbStatus pbCompile_InertiaOfGeoms(pbCompiler *c, pbBodyWork *b) {
  const char *wrong = sum_geoms(c, b);
  bool mended = SETTINGS(b->def)->boundinertia > 0 || c->spec->compiler.inertiarule != pb_inertiaRefuse;
  return wrong && !mended ? PB_AT(c, b->def, "body", "%s", wrong) : pb_ok;
}

// ---- checked and repaired -------------------------------------------------------------------------------------------
// What inertiarule repair gives what has none: a milligram, and its moments about 3 cm away.
#define REPAIR_MASS    1e-6
#define REPAIR_INERTIA 1e-9

#define WARN(b, ...) pbSpec_Warn(c->spec, &(b)->def->place, "body", (b)->def->name, __VA_ARGS__)

static bool is_triangle(const double I[3]) { return I[0] + I[1] >= I[2] && I[0] + I[2] >= I[1] && I[1] + I[2] >= I[0]; }

// At least these, with a warning where that changes anything.
void pbCompile_RepairInertia(pbCompiler *c, pbBodyWork *b) {
  double *I = b->inertia;
  if (b->mass >= REPAIR_MASS && I[0] >= REPAIR_INERTIA && I[1] >= REPAIR_INERTIA && I[2] >= REPAIR_INERTIA) return;

  WARN(b, "mass %g and moments of inertia (%g, %g, %g) are repaired: at least %g and %g", b->mass, I[0], I[1], I[2], REPAIR_MASS,
       REPAIR_INERTIA);
  b->mass = fmax(b->mass, REPAIR_MASS);
  for (int k = 0; k < 3; k++) I[k] = fmax(I[k], REPAIR_INERTIA);
  b->adjusted = true;
}

// inertiarule keep: what no body has is said. Links without mass and inertia are common and move with what is welded to them.
static void warn_of_inertia(const pbCompiler *c, const pbBodyWork *b) {
  const double *I = b->inertia;
  bool positive = b->mass >= 0 && I[0] >= 0 && I[1] >= 0 && I[2] >= 0;
  if (!positive || !is_triangle(I))
    WARN(b, "no body has mass %g and moments of inertia (%g, %g, %g); they are kept", b->mass, I[0], I[1], I[2]);
}

// compiler boundmass, boundinertia, balanceinertia; then the triangle inequality of principal moments must hold.
pbStatus pbCompile_CheckInertia(pbCompiler *c, pbBodyWork *b) {
  const pbCompilerSettings *set = SETTINGS(b->def);
  int rule = b->def->inertia_kept ? pb_inertiaKeep : c->spec->compiler.inertiarule;
  bool repair = rule == pb_inertiaRepair;
  double *I = b->inertia;
  if (!pb_allFinite(&b->mass, 1) || !pb_allFinite(I, 3) || !pb_allFinite(b->ipos, 3))
    return PB_AT(c, b->def, "body", "mass, inertia or center of mass is not finite");

  // As given: the compiler's bounds do not act, of which those of zero would take what is negative away.
  if (rule == pb_inertiaKeep) {
    if (!b->def->inertia_kept) warn_of_inertia(c, b);
    return pb_ok;
  }

  // A mass without any moments, and what is negative.
  bool point = b->mass > 0 && !(I[0] > 0 && I[1] > 0 && I[2] > 0);
  if (repair && (point || b->mass < 0 || fmin(fmin(I[0], I[1]), I[2]) < 0)) pbCompile_RepairInertia(c, b);

  // Bounds first: one may correct a negative mass.
  b->adjusted =
      b->adjusted || b->mass < set->boundmass || I[0] < set->boundinertia || I[1] < set->boundinertia || I[2] < set->boundinertia;
  b->mass = fmax(b->mass, set->boundmass);
  for (int k = 0; k < 3; k++) I[k] = fmax(I[k], set->boundinertia);
  if (b->mass < 0 || I[0] < 0 || I[1] < 0 || I[2] < 0) return PB_AT(c, b->def, "body", "mass and inertia cannot be negative");

  // I_xx + I_yy >= I_zz for every order of axes, or no distribution of mass has it.
  if (is_triangle(I)) return pb_ok;
  if (!set->balanceinertia && !repair)
    return PB_AT(c, b->def, "body",
                 "no body has the inertia (%g, %g, %g): each moment is at most the sum of the other two; "
                 "compiler balanceinertia=\"true\" evens it out",
                 I[0], I[1], I[2]);

  // The moments of a ball with the same trace.
  if (repair) WARN(b, "the moments of inertia (%g, %g, %g) are no body's: each is repaired to their mean", I[0], I[1], I[2]);
  I[0] = I[1] = I[2] = (I[0] + I[1] + I[2]) / 3;
  b->adjusted = true;
  return pb_ok;
}

// ---- moved ----------------------------------------------------------------------------------------------------------
void pbCompile_ComposeItems(pbCompiler *c, const pbBodyWork *b, const double pos[3], const double quat[4]) {
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) pbPose_Compose(pos, quat, c->geoms[i].pos, c->geoms[i].quat);
  for (int i = b->sites.head; i >= 0; i = c->sites[i].next) pbPose_Compose(pos, quat, c->sites[i].pos, c->sites[i].quat);
  for (int i = b->cameras.head; i >= 0; i = c->cameras[i].next) pbPose_Compose(pos, quat, c->cameras[i].pos, c->cameras[i].quat);

  // A light has a point and a direction.
  for (int i = b->lights.head; i >= 0; i = c->lights[i].next) {
    double unused[4] = {1, 0, 0, 0};
    pbPose_Compose(pos, quat, c->lights[i].pos, unused);
    pbPose_Rotate(c->lights[i].dir, c->lights[i].dir, quat);
  }
}
