// pbModel_SetConstants and its pullback.
//
// The pullback differentiates the same source by complex step, one run per parameter that the derived constants depend on: some
// hundreds of small dense runs, once per gradient.
#include <complex.h>
#include <string.h>

#include "base/context.h"
#include "world/setconst.h"

// ---- blocks of the mass matrix ------------------------------------------------------------------------------------
static void fill_plan(const pbModel *m, pbDerivePlan *plan) {
  for (int i = 0; i < m->nv; i++) {
    int c = plan->comp[i] = m->dof_treeid[i];
    if (!plan->size[c]) plan->start[c] = i;
    plan->size[c]++;
  }
  for (int i = 0; i < m->nv; i++) plan->local[i] = plan->start[plan->comp[i]] + plan->size[plan->comp[i]] - 1 - i;
  for (int c = 0; c < plan->ncomp; c++) {
    plan->block[c] = plan->entries;
    plan->entries += (size_t)plan->size[c] * (size_t)plan->size[c];
    if (plan->size[c] > plan->max_size) plan->max_size = plan->size[c];
  }
}

pbStatus pbDerive_MakePlan(const pbModel *m, pbDerivePlan *plan) {
  size_t nv = (size_t)m->nv, ntree = nv ? (size_t)m->dof_treeid[nv - 1] + 1 : 0;
  int *memory = pbContext_AllocArray(m->ctx, 2 * nv + 2 * ntree, sizeof(int));
  size_t *blocks = pbContext_AllocArray(m->ctx, ntree, sizeof(size_t));
  *plan = (pbDerivePlan){.ncomp = (int)ntree, .comp = memory, .block = blocks};
  if (!memory || !blocks) {
    pbDerive_FreePlan(m, plan);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for derived constants");
  }
  plan->local = memory + nv, plan->size = memory + 2 * nv, plan->start = plan->size + ntree;
  fill_plan(m, plan);
  return pb_ok;
}

void pbDerive_FreePlan(const pbModel *m, pbDerivePlan *plan) {
  pbContext_Free(m->ctx, plan->comp);
  pbContext_Free(m->ctx, plan->block);
  *plan = (pbDerivePlan){0};
}

// ---- values -------------------------------------------------------------------------------------------------------
pbStatus pbDerive_Create(const pbModel *m, pbDerive_r *w, void **memory) {
  *memory = NULL;
  PB_TRY(pbDerive_MakePlan(m, &w->plan));
  pbArena arena = pbArena_Measure();
  pbDerive_Layout_r(&arena, m, w);
  size_t needed = pbArena_Needed(&arena);
  *memory = needed < PB_DERIVE_LIMIT ? pbContext_Alloc(m->ctx, needed) : NULL;
  if (!*memory) {
    pbDerive_FreePlan(m, &w->plan);
    return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for derived constants");
  }
  arena = pbArena_Over(*memory, needed);
  pbDerive_Layout_r(&arena, m, w);
  return pb_ok;
}

void pbDerive_Destroy(const pbModel *m, pbDerive_r *w, void *memory) {
  pbDerive_FreePlan(m, &w->plan);
  pbContext_Free(m->ctx, memory);
}

pbStatus pbModel_SetConstants(const pbModel *m, double *theta) {
  pbDerive_r w;
  void *memory;
  PB_TRY(pbDerive_Create(m, &w, &memory));
  int bad = pbDerive_Run_r(m, theta, &w);
  pbDerive_Destroy(m, &w, memory);
  if (bad >= 0) pbContext_Warn(m->ctx, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
  return pb_ok;
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

static bool in_fluid(const pbPullback *p, int geom) { return p->theta[p->m->geom_fluid - p->m->theta0 + 12 * geom] > 0; }

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
  for (int g = 0; g < m->ngeom; g++) {
    if (in_fluid(p, g)) note_slice(p, m->geom_fluid + 12 * g + 6, 6);
  }
}

static void pull_entry(pbPullback *p, size_t index) {
  memcpy(p->at, p->base, p->m->ntheta * sizeof *p->at);
  p->at[index] += STEP * I;
  pbDerive_Run_c(p->m, p->at, &p->w);
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
  for (int g = 0; g < m->ngeom; g++) {
    if (in_fluid(p, g)) pull_slice(p, m->geom_size + 3 * g, 3);
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
  PB_TRY(pbDerive_MakePlan(m, &p.w.plan));
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
  pbDerive_FreePlan(m, &p.w.plan);
  if (!memory) return pbContext_Fail(m->ctx, pb_no_memory, "out of memory for derived constants");
  return bad < 0 ? pb_ok : pbContext_Fail(m->ctx, pb_singular, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
}
