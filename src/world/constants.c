// pbModel_SetConstants and its pullback.
//
// The pullback differentiates the same source by complex step, one run per parameter that the derived constants depend on: some
// hundreds of small dense runs, once per gradient.
#include <complex.h>
#include <string.h>

#include "base/context.h"
#include "world/setconst.h"

// ---- coupled degrees of freedom -----------------------------------------------------------------------------------
static int group_of(const pbDerivePlan *plan, int tree) {
  while (plan->group[tree] != tree) tree = plan->group[tree];
  return tree;
}

static void join(pbDerivePlan *plan, int a, int b) {
  a = group_of(plan, a), b = group_of(plan, b);
  if (a < b) {
    plan->group[b] = a;
  } else {
    plan->group[a] = b;
  }
}

static int body_tree(const pbModel *m, int body) {
  int weld = m->body_weldid[body];
  return m->body_dofnum[weld] ? m->dof_treeid[m->body_dofadr[weld]] : -1;
}

static bool has_armature(const pbModel *m, int t) {
  if (m->tendon_armature[t] != 0) return true;
  for (int a = 0; a < m->nu; a++) {
    if (m->actuator_trntype[a] == pb_trnTendon && m->actuator_trnid[2 * a] == t && m->actuator_armature[a] != 0) return true;
  }
  return false;
}

// Trees that a tendon passes through are coupled by its armature, now or (as it may be a parameter) at other values.
static void couple(const pbModel *m, pbDerivePlan *plan, int t) {
  int first = -1;
  for (int i = m->tendon_adr[t]; i < m->tendon_adr[t] + m->tendon_num[t]; i++) {
    int type = m->wrap_type[i], id = m->wrap_objid[i];
    if (type == pb_wrapPulley) continue;
    int tree = body_tree(m, type == pb_wrapJoint ? m->jnt_bodyid[id] : m->site_bodyid[id]);
    if (tree < 0) continue;
    if (first >= 0) join(plan, first, tree);
    first = tree;
  }
}

static void list_dofs(const pbModel *m, pbDerivePlan *plan, int ntree) {
  for (int t = 0; t < ntree; t++) {  // groups get numbers in the order of their first tree
    if (plan->group[t] == t) plan->size[plan->ncomp] = 0, plan->start[t] = plan->ncomp++;
  }
  for (int i = 0; i < m->nv; i++) {
    plan->comp[i] = plan->start[group_of(plan, m->dof_treeid[i])];
    plan->local[i] = plan->size[plan->comp[i]]++;
  }
  for (int c = 0, at = 0; c < plan->ncomp; at += plan->size[c++]) plan->start[c] = at;
  for (int i = 0; i < m->nv; i++) plan->dofs[plan->start[plan->comp[i]] + plan->local[i]] = i;
  for (int c = 0; c < plan->ncomp; c++) {
    plan->block[c] = plan->entries;
    plan->entries += (size_t)plan->size[c] * (size_t)plan->size[c];
    if (plan->size[c] > plan->max_size) plan->max_size = plan->size[c];
  }
}

static void make_plan(const pbModel *m, pbDerivePlan *plan, int ntree, bool all_tendons) {
  plan->ncomp = plan->max_size = 0;
  plan->entries = 0;
  for (int t = 0; t < ntree; t++) plan->group[t] = t;
  for (int t = 0; t < m->ntendon; t++) {
    if (all_tendons || has_armature(m, t)) couple(m, plan, t);
  }
  list_dofs(m, plan, ntree);
}

// The arrays come first; how large the blocks are is known once they are filled, so a measuring arena needs a real plan too.
pbStatus pbDerive_MakePlan(pbContext *ctx, const pbModel *m, bool all_tendons, pbDerivePlan *plan) {
  size_t nv = (size_t)m->nv, ntree = m->nv ? (size_t)m->dof_treeid[m->nv - 1] + 1 : 0;
  int *memory = pbContext_AllocArray(ctx, 3 * nv + 3 * ntree, sizeof(int));
  size_t *blocks = pbContext_AllocArray(ctx, ntree, sizeof(size_t));
  *plan = (pbDerivePlan){.comp = memory, .block = blocks};
  if (!memory || !blocks) {
    pbDerive_FreePlan(ctx, plan);
    return pbContext_Fail(ctx, pb_no_memory, "out of memory for derived constants");
  }
  plan->local = memory + nv, plan->dofs = memory + 2 * nv;
  plan->size = memory + 3 * nv, plan->start = plan->size + ntree, plan->group = plan->start + ntree;
  make_plan(m, plan, (int)ntree, all_tendons);
  return pb_ok;
}

void pbDerive_FreePlan(pbContext *ctx, pbDerivePlan *plan) {
  pbContext_Free(ctx, plan->comp);
  pbContext_Free(ctx, plan->block);
  *plan = (pbDerivePlan){0};
}

// ---- values -------------------------------------------------------------------------------------------------------
pbStatus pbDerive_Create(const pbModel *m, bool all_tendons, pbDerive_r *w, void **memory) {
  *memory = NULL;
  PB_TRY(pbDerive_MakePlan(m->ctx, m, all_tendons, &w->plan));
  pbArena arena = pbArena_Measure();
  pbDerive_Layout_r(&arena, m, w);
  size_t needed = pbArena_Needed(&arena);
  *memory = needed < PB_DERIVE_LIMIT ? pbContext_Alloc(m->ctx, needed) : NULL;
  if (!*memory) {
    pbDerive_FreePlan(m->ctx, &w->plan);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for derived constants");
  }
  arena = pbArena_Over(*memory, needed);
  pbDerive_Layout_r(&arena, m, w);
  return pb_ok;
}

void pbDerive_Destroy(const pbModel *m, pbDerive_r *w, void *memory) {
  pbDerive_FreePlan(m->ctx, &w->plan);
  pbContext_Free(m->ctx, memory);
}

pbStatus pbDerive_Singular(const pbModel *m, int dof) {
  return pbContext_Fail(m->ctx, pb_singular, "the mass matrix is not positive definite at joint '%s' in the reference configuration",
                        pbModel_Name(m, pb_objDof, dof));
}

static bool armature_is_on(const pbModel *m, const double *theta) {
  const double *tendon = theta + (m->tendon_armature - m->theta0), *actuator = theta + (m->actuator_armature - m->theta0);
  for (int t = 0; t < m->ntendon; t++) {
    if (tendon[t] != 0) return true;
  }
  for (int a = 0; a < m->nu; a++) {
    if (actuator[a] != 0 && m->actuator_trntype[a] == pb_trnTendon) return true;
  }
  return false;
}

pbStatus pbModel_SetConstants(const pbModel *m, double *theta) {
  pbDerive_r w;
  void *memory;
  PB_TRY(pbDerive_Create(m, armature_is_on(m, theta), &w, &memory));
  int bad = pbDerive_Run_r(m, theta, &w);
  pbDerive_Destroy(m, &w, memory);
  return bad < 0 ? pb_ok : pbDerive_Singular(m, bad);
}

// ---- pullback -----------------------------------------------------------------------------------------------------
#define STEP 1e-40

typedef struct pbPullback {
  const pbModel *m;
  const double *theta;
  double *theta_bar;
  double *derived_bar;          // theta_bar where it is derived, zero elsewhere
  const _Complex double *base;  // theta
  _Complex double *at;          // a copy that is perturbed
  int *derived;                 // indices with a cotangent
  int nderived;
  pbDerive_c w;
} pbPullback;

static void note_derived(pbPullback *p, size_t index) {
  if (p->theta_bar[index] == 0) return;
  p->derived_bar[p->nderived] = p->theta_bar[index];
  p->derived[p->nderived++] = (int)index;
  p->theta_bar[index] = 0;
}

static void note_slice(pbPullback *p, const double *field, int count) {
  for (int i = 0; i < count; i++) note_derived(p, (size_t)(field - p->m->theta0) + (size_t)i);
}

// All derived entries that have a cotangent; it is taken out of theta_bar.
static void note_all(pbPullback *p) {
  const pbModel *m = p->m;
  const double *data = p->theta + (m->eq_data - m->theta0);
  note_slice(p, m->body_subtreemass, m->nbody);
  note_slice(p, m->body_invweight0, 2 * m->nbody);
  note_slice(p, m->dof_invweight0, m->nv);
  note_slice(p, m->tendon_length0, m->ntendon);
  note_slice(p, m->tendon_invweight0, m->ntendon);
  for (int e = 0; e < m->neq; e++) {
    if (m->eq_objtype[e] != pb_refBody) continue;
    if (m->eq_type[e] == pb_eqConnect) note_slice(p, m->eq_data + 12 * e + 3, 3);
    if (m->eq_type[e] == pb_eqWeld && data[12 * e + 11] != 0) note_slice(p, m->eq_data + 12 * e + 3, 7);
  }
}

static void pull_entry(pbPullback *p, size_t index) {
  memcpy(p->at, p->base, p->m->ntheta * sizeof *p->at);
  p->at[index] += STEP * I;
  if (pbDerive_Run_c(p->m, p->at, &p->w) >= 0) return;  // cannot be: the real parts are those that were factored before
  double sum = 0;
  for (int k = 0; k < p->nderived; k++) sum += p->derived_bar[k] * cimag(p->at[p->derived[k]]);
  p->theta_bar[index] += sum / STEP;
}

static void pull_slice(pbPullback *p, const double *field, int count) {
  for (int i = 0; i < count; i++) pull_entry(p, (size_t)(field - p->m->theta0) + (size_t)i);
}

static void pull_all(pbPullback *p) {
  const pbModel *m = p->m;
  pull_slice(p, m->qpos0, m->nq);
  pull_slice(p, m->body_pos, 3 * m->nbody);
  pull_slice(p, m->body_quat, 4 * m->nbody);
  pull_slice(p, m->body_ipos, 3 * m->nbody);
  pull_slice(p, m->body_iquat, 4 * m->nbody);
  pull_slice(p, m->body_mass, m->nbody);
  pull_slice(p, m->body_inertia, 3 * m->nbody);
  pull_slice(p, m->jnt_pos, 3 * m->njnt);
  pull_slice(p, m->jnt_axis, 3 * m->njnt);
  pull_slice(p, m->dof_armature, m->nv);
  if (m->ntendon) pull_slice(p, m->site_pos, 3 * m->nsite);
  pull_slice(p, m->wrap_prm, m->nwrap);
  pull_slice(p, m->tendon_armature, m->ntendon);
  pull_slice(p, m->actuator_armature, m->nu);
  for (int a = 0; a < m->nu; a++) pull_slice(p, m->actuator_gear + 6 * a, 1);
  for (int e = 0; e < m->neq; e++) {
    if (m->eq_type[e] <= pb_eqWeld) pull_slice(p, m->eq_data + 12 * e, 3);
  }
}

static void layout(pbArena *a, pbPullback *p) {
  p->derived_bar = pbArena_Take(a, p->m->ntheta, sizeof(double));
  p->derived = pbArena_Take(a, p->m->ntheta, sizeof(int));
  p->base = pbArena_Take(a, p->m->ntheta, sizeof(_Complex double));
  p->at = pbArena_Take(a, p->m->ntheta, sizeof(_Complex double));
  pbDerive_Layout_c(a, p->m, &p->w);
}

pbStatus pbModel_SetConstantsVjp(const pbModel *m, const double *theta, double *theta_bar) {
  pbPullback p = {.m = m, .theta = theta, .theta_bar = theta_bar};
  PB_TRY(pbDerive_MakePlan(m->ctx, m, true, &p.w.plan));
  pbArena arena = pbArena_Measure();
  layout(&arena, &p);
  size_t needed = pbArena_Needed(&arena);
  void *memory = needed < PB_DERIVE_LIMIT ? pbContext_Alloc(m->ctx, needed) : NULL;
  int bad = -1;
  if (memory) {
    arena = pbArena_Over(memory, needed);
    layout(&arena, &p);
    for (size_t i = 0; i < m->ntheta; i++) p.at[i] = ((_Complex double *)p.base)[i] = theta[i];
    bad = pbDerive_Run_c(m, p.at, &p.w);
    note_all(&p);
    if (bad < 0 && p.nderived) pull_all(&p);
  }
  pbContext_Free(m->ctx, memory);
  pbDerive_FreePlan(m->ctx, &p.w.plan);
  if (!memory) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for derived constants");
  return bad < 0 ? pb_ok : pbDerive_Singular(m, bad);
}
