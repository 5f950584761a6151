// Degrees of freedom that meet in joint space: those of a joint, along a fixed tendon, of joints or tendons that an equality
// couples. What acts there has derivatives between these alone, so one pullback finds the rows of many dofs at once if no two of
// them are near the same dof: dofs of one color (Curtis, Powell & Reid 1974). Spatial tendons go along bodies.
// Tests: tests/unit/test_near.c, tests/conformance/test_step.c.
#include <pullback/equalities.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/invariants.h"
#include "model/tendon_path.h"
#include "model/topology.h"

// ---- what meets ---------------------------------------------------------------------------------------------------------
static bool tendon_has(const pbTopology *t, int tendon, int dof) {
  for (int i = t->ten_start[tendon]; i < t->ten_start[tendon + 1]; i++) {
    if (t->ten_dof[i] == dof) return true;
  }
  return false;
}

static void mark_tendon(const pbTopology *t, int tendon, bool *near) {
  for (int i = t->ten_start[tendon]; i < t->ten_start[tendon + 1]; i++) near[t->ten_dof[i]] = true;
}

// One side of an equality of joints or tendons: whether it has the dof; marked.
static bool side_has(const pbModel *m, const pbTopology *t, int type, int id, int dof) {
  if (id < 0) return false;
  return type == pb_eqJoint ? m->jnt_dofadr[id] == dof : tendon_has(t, id, dof);
}
static void mark_side(const pbModel *m, const pbTopology *t, int type, int id, bool *near) {
  if (id < 0) return;
  if (type == pb_eqJoint) near[m->jnt_dofadr[id]] = true;
  else mark_tendon(t, id, near);
}

// All that are near a dof, itself among them.
static void mark_near(const pbModel *m, const pbTopology *t, int dof, bool *near) {
  for (int i = 0; i < m->nv; i++) near[i] = m->dof_jntid[i] == m->dof_jntid[dof];
  for (int k = 0; k < m->ntendon; k++) {
    if (!pb_isSpatial(m, k) && tendon_has(t, k, dof)) mark_tendon(t, k, near);
  }
  for (int e = 0; e < m->neq; e++) {
    int type = m->eq_type[e], ends[2] = {m->eq_obj1id[e], m->eq_obj2id[e]};
    if (type != pb_eqJoint && type != pb_eqTendon) continue;
    if (!side_has(m, t, type, ends[0], dof) && !side_has(m, t, type, ends[1], dof)) continue;
    for (int side = 0; side < 2; side++) mark_side(m, t, type, ends[side], near);
  }
}

// The lists of all dofs; counted where there is no memory for them yet.
static size_t list_near(const pbModel *m, pbTopology *t, bool *near, bool store) {
  size_t used = 0;
  for (int i = 0; i < m->nv; i++) {
    if (store) t->near_start[i] = (int)used;
    mark_near(m, t, i, near);
    for (int k = 0; k < m->nv; k++) {
      if (!near[k]) continue;
      if (store) t->near_dof[used] = k;
      used++;
    }
  }
  if (store) t->near_start[m->nv] = (int)used;
  return used;
}

// ---- colors -------------------------------------------------------------------------------------------------------------
// The smallest color that no dof has which is near one that is near this one. taken: room for nv.
static int free_color(const pbTopology *t, int nv, int dof, bool *taken) {
  for (int c = 0; c < nv; c++) taken[c] = false;
  for (int a = t->near_start[dof]; a < t->near_start[dof + 1]; a++) {
    int between = t->near_dof[a];
    for (int b = t->near_start[between]; b < t->near_start[between + 1]; b++) {
      if (t->near_dof[b] < dof) taken[t->dof_color[t->near_dof[b]]] = true;
    }
  }

  int color = 0;
  while (taken[color]) color++;
  return color;
}

pbStatus pbTopology_Near(const pbModel *m, pbTopology *t) {
  size_t nv = (size_t)m->nv;
  bool *marks = pbContext_AllocArray(m->ctx, nv + 1, sizeof *marks);
  int *block = marks ? pbContext_AllocArray(m->ctx, 2 * nv + 1 + list_near(m, t, marks, false), sizeof *block) : NULL;
  t->near_start = block;
  if (!block) {
    pbContext_Free(m->ctx, marks);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for the tables of a model");
  }

  t->dof_color = block + nv + 1;
  t->near_dof = t->dof_color + nv;
  list_near(m, t, marks, true);
  t->ncolor = 0;
  for (int i = 0; i < m->nv; i++) {
    t->dof_color[i] = free_color(t, m->nv, i, marks);
    if (t->dof_color[i] >= t->ncolor) t->ncolor = t->dof_color[i] + 1;
  }
  pbContext_Free(m->ctx, marks);
  PB_VALIDATE(pb_listsAreRows(t->near_start, m->nv, t->near_dof, m->nv));
  return pb_ok;
}
