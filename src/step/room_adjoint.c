// Memory of the pullback of a step: a block that is laid out once, and another one for what is as long as contacts and rows.
// Tests: tests/hostile/test_failing_allocator.c, tests/conformance/test_step.c.
#include "step/step_adjoint.h"

#include <pullback/actuators.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "eval/work.h"
#include "model/exposed.h"
#include "model/policy_data.h"

typedef LANE(pbVjpBlock) block;

#define TAKE(field, count) field = pbArena_Take(arena, (size_t)(count), sizeof(*field))

// Cotangents after the step, results, and those that Runge-Kutta passes from stage to stage.
static void lay_out_step(pbArena *arena, block *k, const pbModel *m) {
  // cotangents after the step
  TAKE(k->q_next, m->nv);
  TAKE(k->v_next, m->nv);
  TAKE(k->act_next, m->na);

  // results
  TAKE(k->q_sum, m->nv);
  TAKE(k->v_sum, m->nv);
  TAKE(k->act_sum, m->na);
  TAKE(k->ctrl, m->nu);
  TAKE(k->ctrl_later, pb_staged(m) ? 2 * m->nu : 0);
  TAKE(k->qfrc, m->nv);
  TAKE(k->xfrc, 6 * m->nbody);
  TAKE(k->mocap_pos, 3 * m->nmocap);
  TAKE(k->mocap_rot, 3 * m->nmocap);
  TAKE(k->mocap_vel, 6 * m->nmocap);

  // of Runge-Kutta's stages
  TAKE(k->rk_v, 4 * m->nv);
  TAKE(k->rk_a, 4 * m->nv);
  TAKE(k->rk_d, 4 * m->na);
  TAKE(k->rate, m->nv);
  TAKE(k->sensordata, m->nsensordata);
  TAKE(k->observed_row, m->policy ? m->policy->widest : 0);
}

// Virtual motions, what depends on the evaluation alone, and room to work in: written before they are read.
static void lay_out_motions(pbArena *arena, block *k, const pbModel *m) {
  LANE(pbAdjoint) *a = &k->a;
  int bodies = 6 * m->nbody;
  // virtual motions: of joints and of bodies
  TAKE(a->lam, m->nv);
  TAKE(a->mu, m->nv);
  TAKE(a->Vl, bodies);
  TAKE(a->Vm, bodies);
  TAKE(k->Vx, bodies);

  // by the evaluation alone
  TAKE(a->Va, bodies);
  TAKE(a->Vw, bodies);
  TAKE(a->IV, bodies);
  TAKE(a->rate_IV, bodies);
  TAKE(a->IW, bodies);
  TAKE(a->damping, 3 * m->nv);

  // room to work in
  TAKE(a->c, m->nv);
  TAKE(a->lam_act, m->nv);
  TAKE(a->X, bodies);
  TAKE(a->G, bodies);
  TAKE(a->F, bodies);
  TAKE(a->load_X, bodies);
  TAKE(a->load_F, 2 * bodies);
  TAKE(a->ten_power, m->ntendon);
  TAKE(a->ten_c, (size_t)m->ntendon * (size_t)m->nv);
}

// What is zero at the start of an evaluation: fields of bodies (cleared where sensors come first, else by the inertial sweep),
// and the others.
static void lay_out_collected(pbArena *arena, block *k, const pbModel *m) {
  LANE(pbAdjoint) *a = &k->a;
  int bodies = 6 * m->nbody;
  k->bodies_from = pbArena_Mark(arena);
  // fields of bodies
  TAKE(a->Vs, bodies);
  TAKE(a->FV, bodies);
  TAKE(a->FA, bodies);
  TAKE(a->FW, bodies);
  TAKE(a->FVa, bodies);
  TAKE(a->FL, bodies);
  TAKE(a->FX, bodies);
  TAKE(a->FM, bodies);
  TAKE(a->P, bodies);

  k->cleared_from = pbArena_Mark(arena);
  // direct cotangents of sensors, and what is pulled through tendons and joints
  TAKE(a->qacc, m->nv);
  TAKE(a->ten_len, m->ntendon);
  TAKE(a->ten_vel, m->ntendon);
  TAKE(a->act_len, m->nu);
  TAKE(a->act_vel, m->nu);
  TAKE(a->act_force, m->nu);
  TAKE(a->qfrc_actuator, m->nv);
  TAKE(a->act_dot, m->na);
  TAKE(a->act_residual, m->nu);
  TAKE(a->act_target, m->nu);
  TAKE(a->loss, 2 * m->nv);
  TAKE(a->ten_lam, m->ntendon);
  TAKE(a->ten_acc, m->ntendon);
  TAKE(a->ten_other, m->ntendon);
  TAKE(a->q, m->nv);
  TAKE(a->v, m->nv);
  TAKE(a->act, m->na);
  k->cleared_to = pbArena_Mark(arena);
}

// Sweeps against slip, but for what is as long as they are: nothing where there are none.
static void lay_out_slip(pbArena *arena, block *k, const pbModel *m) {
  LANE(pbAdjoint) *a = &k->a;
  a->slip = &k->slip;
  if (!pb_noslip(m)) return;

  TAKE(a->slip->w, m->nv);
  TAKE(a->slip->u, m->nv);
  TAKE(a->slip->Fz, 6 * m->nbody);
  TAKE(a->slip->FA, 6 * m->nbody);
  TAKE(a->slip->Y, 6 * m->nbody);
  TAKE(a->slip->M, m->topology->M.size);
  TAKE(a->slip->S, 6 * m->nv);
  TAKE(a->slip->I, 10 * m->nbody);
  TAKE(a->slip->A, 6 * m->nbody);
  TAKE(a->slip->sign, m->nv + m->ntendon);
  TAKE(a->slip_loss, m->nv + m->ntendon);
}

#if PB_SEEDS > 1
// Jacobians by pairs (pairs.h).
static int actuator_dofs(const pbModel *m, int u) {
  const pbTopology *t = m->topology;
  int id = m->actuator_trnid[2 * u];
  return m->actuator_trntype[u] == pb_trnTendon ? t->ten_start[id + 1] - t->ten_start[id] : 6;
}

static void lay_out_pairs(pbArena *arena, LANE(pbPairs) *p, const pbModel *m) {
  enum { columns = pb_pairColumns };
  const pbTopology *t = m->topology;
  p->padded = (m->nv + columns - 1) / columns * columns;
  p->max_others = 2 * t->near_start[m->nv];
  for (int u = 0; u < m->nu; u++) p->max_others += (1 + m->actuator_actnum[u]) * actuator_dofs(m, u);

  for (int power = 0; power < pb_powers; power++) {
    TAKE(p->matrix[power], 2 * pb_pairMatrix * pb_pairFields * m->nbody);
    TAKE(p->force[power], 6 * m->nbody);
    TAKE(p->tree[power], t->M.size);
    TAKE(p->other[power], p->max_others);
  }

  // What both powers share.
  TAKE(p->momentum, 6 * m->nbody);
  TAKE(p->rate, 10 * m->nbody);
  TAKE(p->touched, m->nbody);
  TAKE(p->axis, 6 * pb_axisKinds * p->padded);
  TAKE(p->carried, 48 * p->padded);
  TAKE(p->row, 6 * p->padded);
  TAKE(p->product, (2 * m->nv + m->na + m->nu) * pb_jacobianStrips);
}
#endif

static void lay_out_block(pbArena *arena, block *k, const pbModel *m) {
  size_t nv = (size_t)m->nv;
  pbArena_Take(arena, 1, sizeof(block));  // the handle itself, at the start
  k->base = arena->base;
  lay_out_step(arena, k, m);
  lay_out_motions(arena, k, m);
  lay_out_slip(arena, k, m);
  lay_out_collected(arena, k, m);

  // Jacobians solve for all seeds before they traverse the tree for some.
  if (PB_SEEDS > 1 && m->integrator != pb_intRK4) {
    size_t groups = (nv + PB_SEEDS - 1) / PB_SEEDS;
    size_t strips = (groups + pb_jacobianStrips - 1) / pb_jacobianStrips * pb_jacobianStrips;
    TAKE(k->lam_of, strips * nv);
    TAKE(k->mu_of, strips * nv);
#if PB_SEEDS > 1
    lay_out_pairs(arena, &k->pairs, m);
#endif
  }
}

// What is as long as the lists of contacts and rows: written, or cleared for the rows there are, before it is read.
static void lay_out_lists(pbArena *arena, block *k, const pbModel *m) {
  LANE(pbAdjoint) *a = &k->a;
  int contacts = k->max_contacts, rows = contacts + m->topology->max_blocks;
  TAKE(a->contact_jacobian, contacts);
  TAKE(a->contact_bar, PB_LANES == 1 && pb_shapesVary(m) ? contacts : 0);
  TAKE(a->y0, 6 * rows);
  TAKE(a->force, 6 * rows);
#if PB_SEEDS > 1
  TAKE(a->later, rows);
  TAKE(k->pairs.cross, 2 * rows);
#endif

  if (pb_hard(m)) {
    TAKE(a->z, 6 * rows);
    TAKE(a->u, 2 * (contacts * m->topology->max_dim + m->topology->max_blocks + 5 * m->neq));
  }
  if (pb_noslip(m)) {
    size_t n = (size_t)k->max_slip;
    TAKE(a->slip->f, n);
    TAKE(a->slip->x, n);
    TAKE(a->slip->z, n);
    TAKE(a->slip->G, n * n);
    TAKE(a->slip->update, n);
    TAKE(a->slip_row, rows);
    TAKE(a->slip->force, 6 * rows);
  }
}
#undef TAKE

static pbStatus make_lists(block *k, const pbModel *m, int contacts, int slip) {
  block probe = *k;
  PB_ASSERT(contacts >= k->max_contacts && slip >= k->max_slip);
  pbArena measure = pbArena_Measure();
  probe.a.slip = &probe.slip;
  probe.max_contacts = contacts;
  probe.max_slip = slip;
  lay_out_lists(&measure, &probe, m);

  size_t needed = pbArena_Needed(&measure);
  void *memory = needed == SIZE_MAX ? NULL : pbContext_Alloc(k->ctx, needed);
  if (!memory) return pb_no_memory;
  pbContext_Free(k->ctx, k->lists);
  k->lists = memory;
  k->max_contacts = contacts;
  k->max_slip = slip;
  pbArena arena = pbArena_Over(memory, needed);
  lay_out_lists(&arena, k, m);
  PB_ASSERT(!arena.failed);
  return pb_ok;
}

pbStatus LANE(pbVjp_Reserve)(block *k, const NUM(pbWork) *w) {
  if (w->max_con <= k->max_contacts && w->slip.max <= k->max_slip) return pb_ok;
  return make_lists(k, w->m, w->max_con, w->slip.max);
}

pbStatus LANE(pbVjp_Create)(pbContext *ctx, const NUM(pbWork) *w, void **memory) {
  const pbModel *m = w->m;
  block probe;
  pbArena measure = pbArena_Measure();
  lay_out_block(&measure, &probe, m);
  size_t needed = pbArena_Needed(&measure);
  *memory = needed == SIZE_MAX ? NULL : pbContext_Alloc(ctx, needed);
  if (!*memory) return pb_no_memory;

  pbArena arena = pbArena_Over(*memory, needed);
  block *k = LANE(pbVjp_Block)(*memory);
  lay_out_block(&arena, k, m);
  PB_ASSERT(!arena.failed);
  PB_ASSERT(pbArena_Needed(&arena) == needed);  // all of it is used
  k->ctx = ctx;
  pbStatus status = make_lists(k, m, w->max_con, w->slip.max);
  if (status == pb_ok) return pb_ok;
  LANE(pbVjp_Destroy)(ctx, *memory);
  *memory = NULL;
  return status;
}

void LANE(pbVjp_Destroy)(pbContext *ctx, void *memory) {
  if (!memory) return;
  PB_ASSERT(LANE(pbVjp_Block)(memory)->ctx == ctx);
  pbContext_Free(ctx, LANE(pbVjp_Block)(memory)->lists);
  pbContext_Free(ctx, memory);
}
