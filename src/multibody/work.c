#include "multibody/work.h"

// Hand out the next piece of the block; with no block, only count.
static void *take(char *block, size_t *used, size_t size) {
  size_t at = *used;
  *used = (at + size + 63) & ~(size_t)63;
  return block ? block + at : NULL;
}

size_t NUM(pbWork_Carve)(NUM(pbWork) *w, const pbModel *m, int max_contacts, void *memory) {
  const pbTopology *t = m->topology;
  size_t used = 0;
  memset(w, 0, sizeof *w);
  w->m = m;
  w->t = t;
  w->memory = memory;
#define TAKE(field, count) w->field = take(memory, &used, sizeof(*w->field) * (size_t)(count))
  TAKE(qpos, m->nq), TAKE(qvel, m->nv), TAKE(act, m->na), TAKE(ctrl, m->nu), TAKE(qfrc_applied, m->nv);
  TAKE(xfrc_applied, 6 * m->nbody);
  // what a pullback reads of an evaluation: together, so that it can be kept (world/kept.c)
  w->kept_from = used;
  TAKE(ref, 3 * t->ntree);
  TAKE(xpos, 3 * m->nbody), TAKE(xquat, 4 * m->nbody), TAKE(xmat, 9 * m->nbody);
  TAKE(xipos, 3 * m->nbody), TAKE(ximat, 9 * m->nbody);
  TAKE(xanchor, 3 * m->njnt), TAKE(xaxis, 3 * m->njnt), TAKE(jnt_turn, 4 * m->njnt);
  TAKE(geom_xpos, 3 * m->ngeom), TAKE(geom_xmat, 9 * m->ngeom);
  TAKE(site_xpos, 3 * m->nsite), TAKE(site_xmat, 9 * m->nsite);
  TAKE(S, 6 * m->nv), TAKE(inert, 10 * m->nbody), TAKE(M, t->M.size);
  TAKE(ten_length, m->ntendon), TAKE(ten_velocity, m->ntendon), TAKE(ten_start, m->ntendon + 1);
  TAKE(act_length, m->nu), TAKE(act_velocity, m->nu), TAKE(actuator_force, m->nu), TAKE(act_dot, m->na);
  TAKE(act_gain, m->nu), TAKE(act_input, m->nu), TAKE(act_raw, m->nu), TAKE(act_scale, m->nu), TAKE(mom_start, m->nu + 1);
  TAKE(V, 6 * m->nbody), TAKE(Vb, 6 * m->nv), TAKE(Sdot, 6 * m->nv), TAKE(A0, 6 * m->nbody);
  TAKE(qfrc_actuator, m->nv), TAKE(qacc, m->nv), TAKE(qfrc_constraint, m->nv), TAKE(H_Dinv, m->nv);
  TAKE(Mhat_Dinv, m->nv), TAKE(damp, m->nv), TAKE(qacc_integrated, m->nv);
  w->kept_to = used;
  TAKE(ten_dofs, m->ntendon * m->nv), TAKE(ten_J, m->ntendon * m->nv), TAKE(mom_dofs, m->nu * m->nv), TAKE(mom, m->nu * m->nv);
  int pair_dofs = 2 * t->max_chain < m->nv ? 2 * t->max_chain : m->nv;
  w->max_con = max_contacts;
  w->max_row = max_contacts + t->max_blocks;
  w->max_dofs = max_contacts * pair_dofs + t->max_rowdata;
  w->max_J = 6 * w->max_dofs;
  TAKE(contact, w->max_con), TAKE(row, w->max_row), TAKE(row_dofs, w->max_dofs), TAKE(row_J, w->max_J);
  int triangle = PB_TREE_ROOM(m->nv);
  w->joined.n = m->nv;
  TAKE(joined.parent, m->nv), TAKE(joined.depth, m->nv), TAKE(joined.adr, m->nv), TAKE(joined.block, m->nv);
  TAKE(joined.chain, triangle), TAKE(H_LD, triangle);
  TAKE(Mhat, t->M.size), TAKE(free_A, 36 * m->njnt);
  // the rest
  TAKE(geom_ball, 4 * m->ngeom), TAKE(near, t->ncandidate), TAKE(crb, 10 * m->nbody), TAKE(LD, t->M.size), TAKE(Dinv, m->nv),
      TAKE(A, 6 * m->nbody);
  TAKE(qfrc_bias, m->nv), TAKE(qfrc_passive, m->nv), TAKE(qfrc_smooth, m->nv), TAKE(qacc_smooth, m->nv);
  TAKE(qfrc_spring, m->nv), TAKE(qfrc_damper, m->nv), TAKE(qfrc_gravcomp, m->nv), TAKE(qfrc_fluid, m->nv);
  TAKE(qacc_warmstart, m->nv), TAKE(grad, m->nv), TAKE(step, m->nv), TAKE(Ma, m->nv), TAKE(Mstep, m->nv), TAKE(tmp, m->nv);
  TAKE(q0, m->nq), TAKE(v0, m->nv), TAKE(a0, m->na), TAKE(rk_v, 4 * m->nv), TAKE(rk_a, 4 * m->nv), TAKE(rk_d, 4 * m->na);
  TAKE(seen_xpos, 3 * m->nbody), TAKE(seen_site, 3 * m->nsite);
  TAKE(sensordata, m->nsensordata), TAKE(subtree_com, 3 * m->nbody), TAKE(subtree_linvel, 3 * m->nbody),
      TAKE(cfrc_int, 6 * m->nbody);
#undef TAKE
  return used;
}
