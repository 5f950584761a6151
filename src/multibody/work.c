// The layout of an evaluation: what it consists of, but for what its contacts make long (work_room.c).
// Tests: tests/hostile/test_nan_scratch.c, tests/conformance/test_step.c.
#include "base/arena.h"
#include "base/assert.h"
#include "eval/contact.h"
#include "eval/row.h"
#include "eval/work.h"
#include "model/exposed.h"
#include "model/policy_data.h"

// What a pullback reads of an evaluation, rows and factors aside: in one piece, which pbWork_MoveTo puts where it is cached.
// clang-format off
#define CACHED(X) \
  X(ref, 3 * t->ntree) X(xpos, 3 * m->nbody) X(xquat, 4 * m->nbody) X(xmat, 9 * m->nbody) X(xipos, 3 * m->nbody) \
  X(ximat, 9 * m->nbody) X(xanchor, 3 * m->njnt) X(xaxis, 3 * m->njnt) X(jnt_rotation, 4 * m->njnt) \
  X(geom_xpos, 3 * m->ngeom) X(geom_xmat, 9 * m->ngeom) \
  X(S, 6 * m->nv) X(inert, 10 * m->nbody) X(M, t->M.size) X(ten_length, m->ntendon) X(ten_velocity, m->ntendon) \
  X(act_length, m->nu) X(act_velocity, m->nu) X(actuator_force, m->nu) X(act_dot, m->na) \
  X(act_gain, m->nu) X(act_input, m->nu) X(act_raw, m->nu) X(act_scale, m->nu) X(act_target, m->nu) \
  X(mom_start, m->nu + 1) \
  X(V, 6 * m->nbody) X(Vb, 6 * m->nv) X(Sdot, 6 * m->nv) X(A0, 6 * m->nbody) X(qfrc_actuator, m->nv) X(qacc, m->nv) \
  X(qfrc_constraint, m->nv) X(H_Dinv, m->nv) X(Mhat_Dinv, m->nv) X(damp, m->nv) X(qacc_integrated, m->nv) \
  X(Mhat, t->M.size) X(qfrc_load, m->nv)
// clang-format on

#define TAKE(field, count) w->field = pbArena_Take(arena, (size_t)(count), sizeof(*w->field));

static void lay_out_inputs(pbArena *arena, NUM(pbWork) *w) {
  const pbModel *m = w->m;
  TAKE(qpos, m->nq)
  TAKE(qvel, m->nv)
  TAKE(act, m->na)
  TAKE(ctrl, m->nu)
  TAKE(qfrc_applied, m->nv)
  TAKE(xfrc_applied, 6 * m->nbody)
  TAKE(mocap_pos, 3 * m->nmocap)
  TAKE(mocap_quat, 4 * m->nmocap)
  TAKE(mocap_vel, 6 * m->nmocap)
  TAKE(time, 1)
}

// Jacobians of tendons and moments, the pattern of H by rows.
static void lay_out_transmissions(pbArena *arena, NUM(pbWork) *w) {
  const pbModel *m = w->m;
  const pbTopology *t = w->t;
  // sparse rows of tendons and moments
  TAKE(ten_J, t->ten_start[m->ntendon])
  TAKE(wrap_at, m->nwrap)
  TAKE(wrap_path, m->nwrap / 2)  // there is a site between any two of them
  TAKE(mom_dofs, m->nu * m->nv)
  TAKE(mom, m->nu * m->nv)

  // the pattern of H where rows join branches; its entries grow (pbWork_ReserveJoined)
  w->joined.n = m->nv;
  TAKE(joined.parent, m->nv)
  TAKE(joined.depth, m->nv)
  TAKE(joined.adr, m->nv)
  TAKE(joined.block, m->nv)
  TAKE(free_A, 36 * m->njnt)
}

// What only the evaluation itself reads.
static void lay_out_stages(pbArena *arena, NUM(pbWork) *w) {
  const pbModel *m = w->m;
  const pbTopology *t = w->t;
  // sites, which a pullback places again; exposed meshes and fields; broad phase, inertias
  TAKE(site_xpos, 3 * m->nsite)
  TAKE(site_xmat, 9 * m->nsite)
  TAKE(own_hull, m->nexposed)
  TAKE(own_terrain, m->nexposed)
  TAKE(own_real, pb_exposedReals(m))
  TAKE(geom_ball, 4 * m->ngeom)
  TAKE(near, t->ncandidate)
  TAKE(crb, 10 * m->nbody)
  TAKE(LD, t->M.size)
  TAKE(Dinv, m->nv)
  TAKE(A, 6 * m->nbody)

  // forces and accelerations
  TAKE(qfrc_bias, m->nv)
  TAKE(qfrc_passive, m->nv)
  TAKE(qfrc_smooth, m->nv)
  TAKE(qacc_smooth, m->nv)
  TAKE(qfrc_spring, m->nv)
  TAKE(qfrc_damper, m->nv)
  TAKE(qfrc_gravcomp, m->nv)
  TAKE(qfrc_fluid, m->nv)

  // the solver's
  TAKE(qacc_warmstart, m->nv)
  TAKE(grad, m->nv)
  TAKE(step, m->nv)
  TAKE(Ma, m->nv)
  TAKE(Mstep, m->nv)
  TAKE(tmp, m->nv)
}

// States and rates of a step, impacts, what is observed.
static void lay_out_step(pbArena *arena, NUM(pbWork) *w) {
  const pbModel *m = w->m;
  // the start, and rates of the stages
  TAKE(q0, m->nq)
  TAKE(v0, m->nv)
  TAKE(a0, m->na)
  TAKE(rk_ctrl, pb_staged(m) ? 3 * m->nu : 0)
  TAKE(rk_v, 4 * m->nv)
  TAKE(rk_a, 4 * m->nv)
  TAKE(rk_d, 4 * m->na)
  TAKE(impact_J, (m->contact.method == pb_contactImpact) * 48 * m->nv)

  TAKE(observed_xpos, 3 * m->nbody)
  TAKE(observed_site, 3 * m->nsite)
  TAKE(observation, m->policy ? m->policy->observing : 0)
  TAKE(observed_row, m->policy ? m->policy->widest : 0)
  TAKE(sensordata, m->nsensordata)
  TAKE(subtree_com, 3 * m->nbody)
  TAKE(subtree_linvel, 3 * m->nbody)
  TAKE(cfrc_int, 6 * m->nbody)
}

size_t NUM(pbWork_Carve)(NUM(pbWork) *w, const pbModel *m, void *memory) {
  const pbTopology *t = m->topology;
  pbArena whole = pbArena_Measure(), *arena = &whole;
  memset(w, 0, sizeof *w);
  w->m = m;
  w->t = t;
  w->ten_start = t->ten_start;
  w->ten_dofs = t->ten_dof;
  w->memory = memory;
  whole.base = memory;  // what it was measured to be

  lay_out_inputs(arena, w);
  w->cached_from = pbArena_Mark(arena);
  CACHED(TAKE)
  w->cached_bytes = pbArena_Mark(arena) - w->cached_from;
  w->cached_at = memory ? (char *)memory + w->cached_from : NULL;

  lay_out_transmissions(arena, w);
  lay_out_stages(arena, w);
  lay_out_step(arena, w);
  PB_ASSERT(!whole.failed);
  return pbArena_Mark(arena);
}
#undef TAKE

void NUM(pbWork_MoveTo)(NUM(pbWork) *w, void *block) {
  char *from = w->cached_at, *to = block ? block : (char *)w->memory + w->cached_from;
  PB_ASSERT(to != NULL);
  if (from == to) return;

  // Every pointer of the piece by as much. The counts of the list are of no use here.
  w->cached_at = to;
  const pbModel *m = w->m;
  const pbTopology *t = w->t;
#define MOVE(field, count) w->field = (void *)(to + ((char *)w->field - from));
  CACHED(MOVE)
#undef MOVE
  (void)m;
  (void)t;
}
