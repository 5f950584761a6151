// Length ranges of actuators: stated, those of the target, or found as MuJoCo's mj_setLengthRange does: from the reference
// configuration the target is pulled either way by forces along its moment, with limits and equalities and nothing else, until it
// stays; the shortest and the greatest length over the last part of that is the range.
// Tests: tests/oracle/test_compile.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "elementary/elementary.h"
#include "eval/stages.h"
#include "eval/work.h"
#include "linalg/tree_ldl.h"
#include "math/vec.h"
#include "model/joint.h"
#include "model/term_fields.h"
#include "model/topology.h"

#define MIN_VALUE 1e-15  // MuJoCo's mjMINVAL

enum { most_steps = 20000 };  // of one pull; MuJoCo's own settings take 1000

typedef struct pull {
  const pbCompilerSettings *set;
  pbWork_r w;
  int actuator;
  double sign;             // -1: to the least length, 1: to the greatest
  double *direction;       // nv: M^-1 moment
  double least, greatest;  // length over the interval
} pull;

// Forces along the moment that accelerate all joints together by as much as is set, within the greatest force.
static pbStatus pull_on_target(pull *p) {
  pbWork_r *w = &p->w;
  const pbTreePattern *tree = &w->t->M;
  int nv = w->m->nv, first = w->mom_start[p->actuator], end = w->mom_start[p->actuator + 1];
  double norm = 0, force = 0;
  PB_ASSERT(end - first <= nv);
  memset(p->direction, 0, (size_t)nv * sizeof(double));
  memset(w->qfrc_applied, 0, (size_t)nv * sizeof(double));

  for (int i = first; i < end; i++) p->direction[w->mom_dofs[i]] = w->mom[i];

  // What a unit force accelerates.
  memcpy(w->LD, w->M, (size_t)tree->size * sizeof(double));
  if (pbTree_Factor_r(tree, w->LD, w->Dinv) >= 0) return pb_singular;

  pbTree_Solve_r(tree, w->LD, w->Dinv, p->direction);
  for (int i = 0; i < nv; i++) norm += p->direction[i] * p->direction[i];

  // Scaled to the acceleration that is set, then to the greatest force.
  double scale = p->sign * p->set->lengthrange_accel / fmax(MIN_VALUE, sqrt(norm));
  for (int i = first; i < end; i++) force += w->mom[i] * w->mom[i];
  double most = p->set->lengthrange_maxforce;
  if (most > 0 && fabs(scale) * sqrt(force) > most) scale *= most / fmax(MIN_VALUE, fabs(scale) * sqrt(force));

  for (int i = first; i < end; i++) w->qfrc_applied[w->mom_dofs[i]] = scale * w->mom[i];
  return pb_ok;
}

static void move(const pbModel *m, double *qpos, const double *v, double h) {
  for (int j = 0; j < m->njnt; j++) {
    double *q = qpos + m->jnt_qposadr[j];
    const double *u = v + m->jnt_dofadr[j];
    if (pbJoint_IsScalar(m->jnt_type[j])) {
      q[0] += h * u[0];
      continue;
    }

    if (m->jnt_type[j] == pb_jntFree) {
      v3_addscl(q, u, h);
      q += 3;
      u += 3;
    }

    // A rotation about the body's axes.
    quat_normalize(q);
    quat_integrate(q, u, h);
  }
}

// One time step under the pull; *length: at its start.
static pbStatus pull_step(pull *p, double *length) {
  pbWork_r *w = &p->w;
  const pbModel *m = w->m;
  double h = m->timestep[0], decay = pbExp(-h / fmax(0.01, p->set->lengthrange_timeconst));
  for (int i = 0; i < m->nv; i++) w->qvel[i] *= decay;

  // Lengths and moments, then forces along the moment.
  pbStage_Kinematics_r(&w->mechanism);
  pbStage_Tendon_r(&w->mechanism);
  pbStage_Velocity_r(&w->mechanism);
  pbStage_Inertia_r(&w->mechanism);
  pbStage_Passive_r(&w->mechanism);
  pbStage_Actuation_r(&w->constraints);
  *length = w->act_length[p->actuator];
  PB_TRY(pull_on_target(p));
  pbStage_Smooth_r(&w->mechanism);
  PB_TRY(pbStage_Rows_r(&w->constraints));
  PB_TRY(pbStage_Solve_r(w));

  // Semi-implicit Euler.
  for (int i = 0; i < m->nv; i++) {
    w->qvel[i] += h * w->qacc[i];
    if (!(fabs(w->qvel[i]) < 1e10)) return pb_not_finite;
  }

  memcpy(w->qacc_warmstart, w->qacc, (size_t)m->nv * sizeof(double));
  move(m, w->qpos, w->qvel, h);
  return pb_ok;
}

// From the reference configuration; the lengths of the last part.
static pbStatus pull_one_way(pull *p) {
  const pbModel *m = p->w.m;
  double h = m->timestep[0], time = 0, length;
  bool seen = false;

  // At rest.
  memcpy(p->w.qpos, m->qpos0, (size_t)m->nq * sizeof(double));
  memset(p->w.qvel, 0, (size_t)m->nv * sizeof(double));
  memset(p->w.qacc_warmstart, 0, (size_t)m->nv * sizeof(double));

  // The first part is on the way.
  while (time < p->set->lengthrange_inttotal) {
    PB_TRY(pull_step(p, &length));
    time += h;

    if (!(time > p->set->lengthrange_inttotal - p->set->lengthrange_interval)) continue;
    p->least = seen ? fmin(p->least, length) : length;
    p->greatest = seen ? fmax(p->greatest, length) : length;
    seen = true;
  }

  if (!seen) p->least = p->greatest = 0;
  return pb_ok;
}

static pbStatus find_range(pbCompiler *c, const pbActuatorDef *d, pull *p, double range[2]) {
  double spread[2];
  for (int side = 0; side < 2; side++) {
    p->sign = side ? 1 : -1;
    if (pull_one_way(p) != pb_ok)
      return PB_AT(c, d, "actuator", "no lengthrange is given, and the simulation that finds one is unstable");

    // The outer end of what was seen.
    range[side] = side ? p->greatest : p->least;
    spread[side] = p->greatest - p->least;
  }

  // Something must have moved, and come to rest at both ends.
  double found = range[1] - range[0];
  if (!(found > 0))
    return PB_AT(c, d, "actuator", "no lengthrange is given, and pulled both ways it is (%g, %g)", range[0], range[1]);
  for (int side = 0; side < 2; side++) {
    if (spread[side] > p->set->lengthrange_tolrange * found)
      return PB_AT(c, d, "actuator", "no lengthrange is given, and at its %s length it still moves by %g of (%g, %g)",
                   side ? "greatest" : "least", spread[side], range[0], range[1]);
  }

  return pb_ok;
}

// ---- which ------------------------------------------------------------------------------------------------------------
// Has the actuator a range already, or is none asked for?
static bool is_settled(const pbCompiler *c, const pbActuatorDef *d, int i) {
  const pbCompilerSettings *set = &c->spec->compiler;
  bool muscle = d->gaintype == pb_gainMuscle || d->biastype == pb_biasMuscle;
  const double *range = PB_TERM_DEFAULT(c->m, actuator_lengthrange) + 2 * i;

  // Of all, of muscles alone, of none.
  if (set->lengthrange_mode == 0 || (set->lengthrange_mode < 3 && !muscle)) return true;
  return set->useexisting && range[0] < range[1];
}

// From the target, where it has limits.
static bool take_limits(pbCompiler *c, const pbActuatorDef *d, int i) {
  pbModel *m = c->m;
  const double *from = NULL;
  int id = m->actuator_trnid[2 * i];

  // A joint's or a tendon's.
  if (!c->spec->compiler.uselimit) return false;
  if (d->trntype <= pb_trnJointInParent && m->jnt_limited[id]) from = m->jnt_range + 2 * id;
  if (d->trntype == pb_trnTendon && m->tendon_limited[id]) from = m->tendon_range + 2 * id;

  if (from) memcpy(PB_TERM_DEFAULT(m, actuator_lengthrange) + 2 * i, from, 2 * sizeof(double));
  return from != NULL;
}

static pbStatus find_all(pbCompiler *c, pull *p) {
  pbModel *m = c->m;
  for (int i = 0; i < m->nu; i++) {
    const pbActuatorDef *d = &c->spec->actuators[i];

    // Given, of the target, or found.
    if (is_settled(c, d, i) || take_limits(c, d, i)) continue;
    p->actuator = i;
    PB_ASSERT(m->actuator_trnid[2 * i] >= 0);
    PB_TRY(find_range(c, d, p, PB_TERM_DEFAULT(m, actuator_lengthrange) + 2 * i));
  }

  return pb_ok;
}

pbStatus pbCompile_LengthRanges(pbCompiler *c) {
  pbModel *m = c->m;
  const pbCompilerSettings *set = &c->spec->compiler;
  bool any = false;

  // Most models need no simulation.
  for (int i = 0; i < m->nu && !any; i++) any = !is_settled(c, &c->spec->actuators[i], i);
  if (!any) return pb_ok;

  // A file must not keep a compiler busy forever.
  double h = set->lengthrange_timestep > 0 ? set->lengthrange_timestep : m->timestep[0];
  if (!(set->lengthrange_inttotal / h <= most_steps))
    return pbContext_Fail(c->ctx, pb_bad_input, "compiler/lengthrange: inttotal %g is more than %d steps of %g",
                          set->lengthrange_inttotal, most_steps, h);

  // An evaluation without contacts.
  pull p = {.set = set};
  pbStatus status = pbWork_Open_r(&p.w, c->ctx, m, (pbRoom){.grows = true});
  p.direction = pbContext_AllocArray(c->ctx, (size_t)m->nv, sizeof *p.direction);
  if (status != pb_ok || !p.direction) {
    pbWork_Close_r(&p.w);
    pbContext_Free(c->ctx, p.direction);
    return pbContext_Fail(c->ctx, pb_no_memory, "out of memory for length ranges");
  }

  // Limits and equalities alone act, with a time step of their own.
  int flags = m->disableflags;
  double timestep = m->timestep[0];
  m->disableflags = pb_disFrictionloss | pb_disContact | pb_disSpring | pb_disDamper | pb_disGravity | pb_disActuation;
  m->timestep[0] = h;
  par_view(&p.w.p, m, m->theta0);

  // Back to the model's own.
  status = find_all(c, &p);
  m->disableflags = flags;
  m->timestep[0] = timestep;
  pbWork_Close_r(&p.w);
  pbContext_Free(c->ctx, p.direction);
  return status;
}
