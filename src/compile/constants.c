// pbModel_SetConstants and its pullback; its directional derivative is in constants_jvp.c.
//
// The pullback freezes what the inverse mass matrix does to each weight (setconst.h, pbFrozen). What remains is a scalar without
// an inverse, differentiated by complex step of the same source: one cheap run per parameter, once per gradient.
// Tests: tests/unit/test_compile.c, tests/oracle/test_constants.py.
#include <complex.h>
#include <math.h>
#include <string.h>

#include <pullback/actuators.h>

#include "base/assert.h"
#include "base/context.h"
#include "base/mutate.h"
#include "compile/design.h"
#include "compile/setconst.h"
#include "model/equality.h"
#include "model/equality_data.h"
#include "model/joint.h"
#include "model/term_fields.h"
#include "number/number.h"

// ---- blocks of the mass matrix ------------------------------------------------------------------------------------
// One dense block for each kinematic tree. Leaves come first, so that the Cholesky factor has no fill (Featherstone 2008, 6.4).
static void fill_plan(const pbModel *m, pbDerivePlan *plan) {
  for (int i = 0; i < m->nv; i++) {
    int c = plan->comp[i] = m->dof_treeid[i];
    if (!plan->size[c]) plan->start[c] = i;
    plan->size[c]++;
  }

  // Last dofs first.
  for (int i = 0; i < m->nv; i++) {
    int c = plan->comp[i];
    plan->local[i] = plan->start[c] + plan->size[c] - 1 - i;
    PB_ASSERT(plan->local[i] >= 0 && plan->local[i] < plan->size[c]);  // the dofs of a tree follow each other
  }

  // Square blocks, one after the other.
  for (int c = 0; c < plan->ncomp; c++) {
    plan->block[c] = plan->entries;
    plan->entries += (size_t)plan->size[c] * (size_t)plan->size[c];
    if (plan->size[c] > plan->max_size) plan->max_size = plan->size[c];
  }
}

pbStatus pbDerive_MakePlan(pbContext *ctx, const pbModel *m, pbDerivePlan *plan) {
  size_t nv = (size_t)m->nv;
  size_t ntree = nv ? (size_t)m->dof_treeid[nv - 1] + 1 : 0;
  int *memory = pbContext_AllocArray(ctx, 2 * nv + 2 * ntree, sizeof(int));
  size_t *blocks = pbContext_AllocArray(ctx, ntree, sizeof(size_t));
  *plan = (pbDerivePlan){.ncomp = (int)ntree, .comp = memory, .block = blocks};

  if (!memory || !blocks) {
    pbDerive_FreePlan(ctx, plan);
    return pbContext_Fail(ctx, pb_no_memory, "out of memory for derived constants");
  }

  // memory: comp, local (nv each), size, start (ntree each).
  plan->local = memory + nv;
  plan->size = memory + 2 * nv;
  plan->start = plan->size + ntree;
  fill_plan(m, plan);
  return pb_ok;
}

void pbDerive_FreePlan(pbContext *ctx, pbDerivePlan *plan) {
  pbContext_Free(ctx, plan->comp);
  pbContext_Free(ctx, plan->block);
  *plan = (pbDerivePlan){0};
}

static pbStatus check_theta(pbContext *ctx, const pbModel *m, const double *theta) {
  char text[640];
  bool unit;
  if (pbModel_Readable(m, theta, &unit, text, sizeof text)) return pb_ok;
  return pbContext_Fail(ctx, pb_bad_input, "%s", text);
}

// ---- values -------------------------------------------------------------------------------------------------------
pbStatus pbDerive_Create(pbContext *ctx, const pbModel *m, pbDerive_r *w, void **memory) {
  *memory = NULL;
  PB_TRY(pbDerive_MakePlan(ctx, m, &w->plan));

  // Measured, allocated, laid out.
  pbArena arena = pbArena_Measure();
  pbDerive_Layout_r(&arena, m, w);
  size_t needed = pbArena_Needed(&arena);
  *memory = needed < PB_DERIVE_LIMIT ? pbContext_Alloc(ctx, needed) : NULL;
  if (!*memory) {
    pbDerive_FreePlan(ctx, &w->plan);
    return pbContext_Fail(ctx, pb_no_memory, "out of memory for derived constants");
  }

  arena = pbArena_Over(*memory, needed);
  pbDerive_Layout_r(&arena, m, w);
  PB_ASSERT(!arena.failed && pbArena_Needed(&arena) == needed);
  return pb_ok;
}

void pbDerive_Destroy(pbContext *ctx, pbDerive_r *w, void *memory) {
  pbDerive_FreePlan(ctx, &w->plan);
  pbContext_Free(ctx, memory);
}

int pbDerive_Overflow(const pbModel *m, const pbDerive_r *w) {
  for (int i = 0; i < m->nv; i++) {
    if (!isfinite(w->M0[i])) return i;
  }
  return -1;
}

pbStatus pbModel_SetConstants(pbContext *ctx, const pbModel *m, double *theta) {
  pbDerive_r w;
  void *memory;
  PB_TRY(check_theta(ctx, m, theta));
  PB_TRY(pbDesign_Apply(ctx, m, theta));
  PB_TRY(pbDerive_Create(ctx, m, &w, &memory));

  // A singular M is replaced by MuJoCo's pivot, with a warning: values are usable.
  int bad = pbDerive_Run_r(m, theta, &w), huge = pbDerive_Overflow(m, &w);
  pbDerive_Destroy(ctx, &w, memory);
  if (huge >= 0) pbContext_Warn(ctx, PB_OVERFLOW_TEXT, huge, pbModel_Name(m, pb_objDof, huge));
  else if (bad >= 0) pbContext_Warn(ctx, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
  return pb_ok;
}

pbStatus pbModel_CheckGiven(pbContext *ctx, const pbModel *m, const pbParam *slice, const double *before, const double *after) {
  char name[256];

  // What was given may differ by rounding.
  for (size_t i = slice->offset; i < slice->offset + (size_t)slice->rows * (size_t)slice->cols; i++) {
    if (fabs(after[i] - before[i]) <= 1e-9 * (1 + fabs(after[i]))) continue;
    return pbContext_Fail(ctx, pb_bad_argument,
                          "%s follows from other parameters where constants are recomputed (%.6g was given, %.6g is computed); "
                          "leave it out, or keep the constants",
                          pbModel_ParamName(m, i, name, sizeof name), before[i], after[i]);
  }
  return pb_ok;
}

// ---- pullback -----------------------------------------------------------------------------------------------------
typedef struct pbPullback {
  const pbModel *m;
  double *theta_bar;
  double *values;       // theta with its derived entries
  double *bar;          // theta_bar where it is derived, zero elsewhere
  double *x;            // one solution M^-1 row
  double *pair;         // 2 nv: of an actuator M^-1 row, and M^-1 of that
  _Complex double *at;  // theta, perturbed
  const bool *wanted;   // ntheta: entries whose gradients are; NULL: all
  bool any;             // some cotangent is not zero
  pbFrozen f;
  pbDerive_r real;
  pbDerive_c w;
} pbPullback;

// Cotangents of derived entries move from theta_bar to bar.
static void take_slice(pbPullback *p, const double *field, int count) {
  size_t start = (size_t)(field - p->m->theta0);
  for (size_t i = start; i < start + (size_t)count; i++) {
    p->any = p->any || p->theta_bar[i] != 0;
    p->bar[i] = p->theta_bar[i];
    p->theta_bar[i] = 0;
  }
}

static bool in_fluid(const pbPullback *p, int geom) { return p->values[p->m->geom_fluid - p->m->theta0 + 12 * geom] > 0; }

static void take_all(pbPullback *p) {
  const pbModel *m = p->m;
  const double *data = p->values + (m->eq_data - m->theta0);

  // Weights, masses and lengths.
  take_slice(p, m->body_subtreemass, m->nbody);
  take_slice(p, m->body_invweight0, 2 * m->nbody);
  take_slice(p, m->dof_invweight0, m->nv);
  take_slice(p, m->tendon_length0, m->ntendon);
  take_slice(p, m->tendon_invweight0, m->ntendon);
  take_slice(p, PB_TERM_DEFAULT(m, actuator_acc0), m->nu);

  // Relative poses where they follow from qpos0, and virtual inertias.
  for (int e = 0; e < m->neq; e++) {
    if (m->eq_objtype[e] != pb_refBody) continue;
    pbEqualityOf of = pbEquality_Of(m->eq_type[e]);
    if (of == pb_ofPoints) take_slice(p, m->eq_data + pbConnect_Anchor(e, 1), 3);
    if (of == pb_ofPoses && data[pbWeld_Follows(e)] != 0) take_slice(p, m->eq_data + pbWeld_Anchor(e, 0), 7);
  }
  for (int g = 0; g < m->ngeom; g++) {
    if (in_fluid(p, g)) take_slice(p, m->geom_fluid + 12 * g + 6, 6);
  }
}

// ---- freezing: x = M^-1 row for every weight, C += c x x' ---------------------------------------------------------
// The row of `real` (n touched dofs) with weight c: 2 c x at the touched dofs goes to out, `stride` apart (NULL: not wanted).
static void freeze_row(pbPullback *p, int n, double c, double *out, int stride) {
  if (c == 0) return;
  pbDerive_r *w = &p->real;

  for (int k = 0; k < w->plan.ncomp; k++) {
    int size = w->plan.size[k];
    bool any = false;
    for (int i = 0; i < n && !any; i++) any = w->plan.comp[w->touched[i]] == k;
    if (!any) continue;

    // x = M^-1 row, in the block's order
    memset(p->x, 0, (size_t)size * sizeof *p->x);
    for (int i = 0; i < n; i++) {
      if (w->plan.comp[w->touched[i]] == k) p->x[w->plan.local[w->touched[i]]] = w->row[w->touched[i]];
    }

    pbDerive_Solve_r(w, k, p->x, false);

    // C += c x x', lower triangle
    double *C = p->f.C + w->plan.block[k];
    for (int i = 0; i < size; i++) {
      for (int j = 0; j <= i; j++) C[(size_t)size * (size_t)i + (size_t)j] += c * p->x[i] * p->x[j];
    }

    // 2 c x, which Power pairs with the row (setconst.h).
    if (!out) continue;
    for (int i = 0; i < n; i++) {
      if (w->plan.comp[w->touched[i]] == k) out[(size_t)stride * (size_t)i] = 2 * c * p->x[w->plan.local[w->touched[i]]];
    }
  }
}

// In the order of body_power (setconst.c): forces, then torques, of each body with general weights; three axes side by side.
static void freeze_bodies(pbPullback *p) {
  const pbModel *m = p->m;
  const double *bar = p->bar + (m->body_invweight0 - m->theta0);
  double *out = p->f.x_body;

  for (int b = 1; b < m->nbody; b++) {
    // Bodies that stand still have no weight, and those that only slide one without M.
    if (m->body_dofnum[m->body_weldid[b]] == 0 || m->body_simple[b] == 2) continue;

    for (int k = 0; k < 2; k++) {
      int n = 0;

      // The weight is a mean over three axes.
      for (int axis = 0; axis < 3; axis++) {
        const double unit[3] = {axis == 0, axis == 1, axis == 2}, none[3] = {0, 0, 0};
        n = pbDerive_AddPoint_r(m, &p->real, b, p->real.xipos + 3 * b, k ? none : unit, k ? unit : NULL, 1, 0);
        freeze_row(p, n, bar[2 * b + k] / 3, out + axis, 3);
        pbDerive_ClearRow_r(&p->real, n);
      }
      out += 3 * (size_t)n;
    }
  }
}

// A mean over the dofs of a translation or rotation. Rows of dofs are constant, so no x is wanted.
static void freeze_dofs(pbPullback *p) {
  const pbModel *m = p->m;
  for (int j = 0; j < m->njnt; j++) {
    if (m->body_simple[m->jnt_bodyid[j]] == 2) continue;
    int each = pbJoint_GroupSize(m->jnt_type[j]);
    int groups = pbJoint_DofCount(m->jnt_type[j]) / each;

    for (int g = 0; g < groups; g++) {
      int adr = m->jnt_dofadr[j] + 3 * g;
      double mean = 0;

      // All dofs of the group have the mean as their weight.
      for (int k = 0; k < each; k++) mean += p->bar[m->dof_invweight0 - m->theta0 + adr + k] / each;

      for (int k = 0; k < each; k++) {
        p->real.touched[0] = adr + k;
        p->real.row[adr + k] = 1;
        freeze_row(p, 1, mean, NULL, 0);
      }
    }
  }
}

static void freeze_tendons(pbPullback *p) {
  const pbModel *m = p->m;
  double *out = p->f.x_tendon;
  for (int t = 0; t < m->ntendon; t++) {
    int n = pbDerive_TendonRow_r(m, p->values, &p->real, t);
    freeze_row(p, n, p->bar[m->tendon_invweight0 - m->theta0 + t], out, 1);
    pbDerive_ClearRow_r(&p->real, n);
    out += n;
  }
}

// Entry-wise over a component: |x|^2 of x = M^-1 row in w->jac, and x, y = M^-1 x there (unscaled).
typedef struct acceleration {
  double *x, *y;  // nv, by dof
} acceleration;

static double solve_twice(pbPullback *p, int n, acceleration *to) {
  pbDerive_r *w = &p->real;
  double sum = 0;
  // x first, then y from it.
  memset(to->x, 0, 2 * (size_t)p->m->nv * sizeof *to->x);
  for (int c = 0; c < w->plan.ncomp; c++) {
    if (!pbDerive_SolveRow_r(w, c, n)) continue;

    // Twice through the factor.
    memcpy(p->x, w->jac, (size_t)w->plan.size[c] * sizeof *p->x);
    pbDerive_Solve_r(w, c, p->x, false);

    // From the block's order to the dofs'.
    for (int i = w->plan.start[c]; i < w->plan.start[c] + w->plan.size[c]; i++) {
      to->x[i] = w->jac[w->plan.local[i]];
      to->y[i] = p->x[w->plan.local[i]];
      sum += to->x[i] * to->x[i];
    }
  }

  return sqrt(sum);
}

// C += s (y x' + x y') / 2, lower triangles.
static void add_symmetric(pbPullback *p, const acceleration *of, double s) {
  const pbDerivePlan *plan = &p->real.plan;
  for (int c = 0; c < plan->ncomp; c++) {
    // Leaves first: the dofs of a block in reverse.
    int size = plan->size[c], last = plan->start[c] + size - 1;
    double *C = p->f.C + plan->block[c];
    for (int i = 0; i < size; i++) {
      for (int j = 0; j <= i; j++) {
        double pair = of->y[last - i] * of->x[last - j] + of->x[last - i] * of->y[last - j];
        C[(size_t)size * (size_t)i + (size_t)j] += 0.5 * s * pair;
      }
    }
  }
}

static void freeze_actuators(pbPullback *p) {
  const pbModel *m = p->m;
  const double *bar = p->bar + PB_TERM_AT(m, actuator_acc0);
  double *out = p->f.x_actuator;

  // In the order of actuator_powers (setconst.c).
  acceleration at = {.x = p->pair, .y = p->pair + m->nv};
  for (int a = 0; a < m->nu; a++) {
    double length;
    if (bar[a] == 0) continue;

    // c y, and c (y x' + x y') / 2 into C.
    int n = pbDerive_ActuatorRow_r(m, p->values, &p->real, a, &length);
    double norm = solve_twice(p, n, &at), c = norm > 0 ? bar[a] / norm : 0;
    for (int i = 0; i < n; i++) *out++ = c * at.y[p->real.touched[i]];
    add_symmetric(p, &at, c);
    pbDerive_ClearRow_r(&p->real, n);
  }
}

// ---- what constants are read from -----------------------------------------------------------------------------------
// Ranges of theta, one after the other.
typedef struct sources {
  const pbModel *m;
  const double *bar;     // of derived entries, ntheta; NULL: as if all were wanted
  const double *values;  // ntheta, with derived entries; NULL: as if every geom had virtual inertia
  void (*visit)(void *user, size_t start, size_t count);
  void *user;
} sources;

static void visit(const sources *s, const double *field, int count) {
  size_t start = (size_t)(field - s->m->theta0);
  PB_ASSERT(count >= 0 && start + (size_t)count <= s->m->ntheta);
  s->visit(s->user, start, (size_t)count);
}

static bool has_virtual_inertia(const sources *s, int geom) {
  return !s->values || s->values[s->m->geom_fluid - s->m->theta0 + 12 * geom] > 0;
}

static bool wants_acceleration(const sources *s, int a) { return !s->bar || s->bar[PB_TERM_AT(s->m, actuator_acc0) + a] != 0; }

// Is the acceleration by an actuator on a site wanted?
static bool pulls_site(const sources *s, int a) {
  int type = s->m->actuator_trntype[a];
  return (type == pb_trnSite || type == pb_trnSliderCrank) && wants_acceleration(s, a);
}

// Geoms that tendons wrap around, each once.
static void visit_obstacles(const sources *s) {
  const pbModel *m = s->m;
  for (int g = 0; g < m->ngeom; g++) {
    bool wrapped = false;
    for (int i = 0; i < m->nwrap && !wrapped; i++) wrapped = m->wrap_type[i] >= pb_wrapSphere && m->wrap_objid[i] == g;
    if (!wrapped) continue;
    visit(s, m->geom_pos + 3 * g, 3);
    visit(s, m->geom_quat + 4 * g, 4);
    if (!has_virtual_inertia(s, g)) visit(s, m->geom_size + 3 * g, 1);
  }
}

// All that the derived entries depend on.
static void visit_sources(const sources *s) {
  const pbModel *m = s->m;

  // Poses and inertias.
  visit(s, m->qpos0, m->nq);
  visit(s, m->body_pos, 3 * m->nbody);
  visit(s, m->body_quat, 4 * m->nbody);
  visit(s, m->body_ipos, 3 * m->nbody);
  visit(s, m->body_iquat, 4 * m->nbody);
  visit(s, m->body_mass, m->nbody);
  visit(s, m->body_inertia, 3 * m->nbody);
  visit(s, m->body_products, 3 * m->ndesignbody);

  // Joints.
  visit(s, m->jnt_pos, 3 * m->njnt);
  visit(s, m->jnt_axis, 3 * m->njnt);
  visit(s, m->dof_armature, m->nv);

  // Sites and coefficients of tendons: frames where an actuator's acceleration is wanted, geoms where a path goes around one.
  bool frames = false, wraps = false;
  for (int i = 0; i < m->nwrap; i++) wraps = wraps || m->wrap_type[i] >= pb_wrapSphere;
  for (int a = 0; a < m->nu; a++) frames = frames || pulls_site(s, a);
  if (m->ntendon || frames) visit(s, m->site_pos, 3 * m->nsite);
  if (frames) visit(s, m->site_quat, 4 * m->nsite);
  visit(s, m->wrap_prm, m->nwrap);
  if (wraps) visit_obstacles(s);

  // Armature, its own and reflected.
  visit(s, m->tendon_armature, m->ntendon);
  visit(s, m->actuator_armature, m->nu);
  for (int a = 0; a < m->nu; a++) {
    // Damping and armature go by the first gear, an acceleration by all.
    visit(s, m->actuator_gear + 6 * a, wants_acceleration(s, a) ? 6 : 1);
  }

  // What relative poses and virtual inertias are computed from.
  for (int e = 0; e < m->neq; e++) {
    if (pbEquality_HasEnds(m->eq_type[e])) visit(s, m->eq_data + pbEquality_Data(e), 3);
  }
  for (int g = 0; g < m->ngeom; g++) {
    if (has_virtual_inertia(s, g)) visit(s, m->geom_size + 3 * g, 3);
  }
}

typedef struct asked_range {
  size_t start, end;
  bool read;
} asked_range;

static void meet_range(void *user, size_t start, size_t count) {
  asked_range *r = user;
  r->read = r->read || (start < r->end && r->start < start + count);
}

bool pbConstants_Read(const pbModel *m, size_t start, size_t count) {
  asked_range r = {.start = start, .end = start + count};
  visit_sources(&(sources){.m = m, .visit = meet_range, .user = &r});
  return r.read || m->design;
}

// ---- one complex step per parameter -------------------------------------------------------------------------------
// Im Power(theta + i h e_k) / h for each entry k that is wanted: exact to rounding (Squire and Trapp 1998).
static void pull_range(void *user, size_t start, size_t count) {
  pbPullback *p = user;
  for (size_t i = start; i < start + count; i++) {
    if (p->wanted && !p->wanted[i]) continue;
    p->at[i] = p->values[i] + PB_IMAG_STEP * I;
    p->theta_bar[i] += cimag(pbDerive_Power_c(p->m, p->at, &p->f, &p->w)) / PB_IMAG_STEP;
    p->at[i] = p->values[i];
  }
}

// ---- memory -------------------------------------------------------------------------------------------------------
// Dofs that move a body.
static size_t chain_length(const pbModel *m, int body) {
  while (body > 0 && !m->body_dofnum[body]) body = m->body_parentid[body];

  size_t n = 0;
  for (int i = body > 0 ? m->body_dofadr[body] + m->body_dofnum[body] - 1 : -1; i >= 0; i = m->dof_parentid[i]) n++;
  return n;
}

static void lay_out_pullback(pbArena *a, pbPullback *p) {
  const pbModel *m = p->m;

  // Room for the x of every row: six rows a body, and one a tendon with at most the chains of its sites.
  size_t chains = 0;
  size_t stations = 0;
  for (int b = 0; b < m->nbody; b++) chains += 6 * chain_length(m, b);
  for (int i = 0; i < m->nwrap; i++) {
    stations += m->wrap_type[i] < pb_wrapSite ? 1 : chain_length(m, pb_bodyOfStation(m, i));
  }

  // Work of this file.
  p->values = pbArena_Take(a, m->ntheta, sizeof(double));
  p->bar = pbArena_Take(a, m->ntheta, sizeof(double));
  p->at = pbArena_Take(a, m->ntheta, sizeof(_Complex double));
  p->x = pbArena_Take(a, (size_t)p->w.plan.max_size, sizeof(double));
  p->pair = pbArena_Take(a, 2 * (size_t)m->nv, sizeof(double));

  // What is frozen.
  p->f.C = pbArena_Take(a, p->w.plan.entries, sizeof(double));
  p->f.x_body = pbArena_Take(a, chains, sizeof(double));
  p->f.x_tendon = pbArena_Take(a, stations, sizeof(double));
  p->f.x_actuator = pbArena_Take(a, (size_t)m->nu * (size_t)m->nv, sizeof(double));
  p->f.bar = p->bar;

  // Work of the kernel, in both numbers.
  pbDerive_Layout_r(a, m, &p->real);
  pbDerive_Layout_c(a, m, &p->w);
}

static int run_pullback(pbPullback *p, const double *theta) {
  const pbModel *m = p->m;
  memcpy(p->values, theta, m->ntheta * sizeof *theta);
  int bad = pbDerive_Run_r(m, p->values, &p->real);
  take_all(p);
  if (bad >= 0 || !p->any) return bad;

  freeze_bodies(p);  // into memory that starts as zeros
  freeze_dofs(p);
  freeze_tendons(p);
  freeze_actuators(p);

  for (size_t i = 0; i < m->ntheta; i++) p->at[i] = p->values[i];
  visit_sources(&(sources){.m = m, .bar = p->bar, .values = p->values, .visit = pull_range, .user = p});
  return bad;
}

static pbStatus pull_constants(pbContext *ctx, const pbModel *m, const double *theta, const bool *wanted, double *theta_bar) {
  pbPullback p = {.m = m, .theta_bar = theta_bar, .wanted = wanted};
  PB_TRY(pbDerive_MakePlan(ctx, m, &p.w.plan));
  p.real.plan = p.w.plan;

  // Both numbers' work memory and the rows in one block.
  pbArena arena = pbArena_Measure();
  lay_out_pullback(&arena, &p);
  size_t needed = pbArena_Needed(&arena);
  void *memory = needed < PB_DERIVE_LIMIT ? pbContext_Alloc(ctx, needed) : NULL;
  int bad = -1;
  if (memory) {
    arena = pbArena_Over(memory, needed);
    lay_out_pullback(&arena, &p);
    PB_ASSERT(!arena.failed && pbArena_Needed(&arena) == needed);
    bad = run_pullback(&p, theta);
  }

  pbContext_Free(ctx, memory);
  pbDerive_FreePlan(ctx, &p.w.plan);
  if (!memory) return pbContext_Fail(ctx, pb_no_memory, "out of memory for derived constants");
  return bad < 0 ? pb_ok : pbContext_Fail(ctx, pb_singular, PB_SINGULAR_TEXT, pbModel_Name(m, pb_objDof, bad));
}

pbStatus pbConstants_Pull(pbContext *ctx, const pbModel *m, const double *theta, const bool *wanted, double *theta_bar) {
  double *after;
  PB_TRY(check_theta(ctx, m, theta));
  if (!m->design) return pull_constants(ctx, m, theta, wanted, theta_bar);

  // The constants follow from what the design gave, which takes all of it further.
  PB_TRY(pbDesign_Open(ctx, m, theta, &after));
  pbStatus status = pull_constants(ctx, m, after, NULL, theta_bar);
  if (status == pb_ok) status = pbDesign_Vjp(ctx, m, theta, after, theta_bar);
  pbContext_Free(ctx, after);
  PB_MUTE_PARAMS(m, theta_bar);
  return status;
}

pbStatus pbModel_SetConstantsVjp(pbContext *ctx, const pbModel *m, const double *theta, double *theta_bar) {
  return pbConstants_Pull(ctx, m, theta, NULL, theta_bar);
}
