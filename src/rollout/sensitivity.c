// Many directions at once through steps, by reverse: rows of a step's Jacobian by its state, controls and parameters are pulled
// back, one evaluation for all of them, and multiply the directions. A forward derivative costs an evaluation in complex numbers
// for each direction; a row costs a pullback, and there are as many as velocities, whatever the number of directions. Rows of
// positions follow from those of velocities where the integrator says so.
// Tests: tests/python/test_jacobian.py.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/joint.h"
#include "model/state_layout.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "step/wanted.h"

// A forward derivative of a step takes about twice as long as the pullback of a row.
enum { rows_for_a_direction = 2 };

struct pbSensitivity {
  const pbRolloutDirection *direction;
  int count;
  double *seed, *x_bar, *ctrl_bar, *theta_bar;  // of the row at hand
  double *way;                                  // (count, moved): entries of theta that any direction moves, of each direction
  size_t *at, moved;                            // which they are
  unsigned skip;                                // groups of parameters that none moves
  bool once;                                    // one evaluation serves all rows
  bool follow;                                  // positions without rotations are q + h v
};

// ---- which ones ---------------------------------------------------------------------------------------------------------
static bool plain(const pbRolloutDirection *d, const pbRolloutTangent *t) {
  bool acts = d->qfrc || d->xfrc || d->command || d->mocap_pos || d->mocap_rot || d->mocap_vel || d->mocap_pos_before ||
              d->mocap_rot_before;
  return !acts && !t->sensordata && !t->xpos && !t->site_xpos;
}

static bool follows(const pbModel *m) { return m->integrator != pb_intRK4 && !pb_hard(m) && !pb_noslip(m); }

// Dofs of rotations have their rows of positions pulled, all others those of velocities alone.
static int count_rows(const pbModel *m) {
  int turns = 0;
  for (int j = 0; j < m->njnt; j++) turns += pbJoint_HasRotation(m->jnt_type[j]) ? 3 : 0;
  return m->nv + m->na + (follows(m) ? turns : m->nv);
}

bool pbSensitivity_Serves(const pbRollout *r, int count, const pbRolloutDirection *directions, const pbRolloutTangent *tangents) {
  const pbModel *m = r->model;
  bool bodies = r->gradient == pb_gradientExact && !m->deform && !m->policy && !m->nmocap;
  if (!bodies || m->contact.method == pb_contactImpact || count_rows(m) >= rows_for_a_direction * count) return false;

  for (int i = 0; i < count; i++) {
    if (!plain(&directions[i], &tangents[i])) return false;
  }

  return true;
}

// ---- what moves ---------------------------------------------------------------------------------------------------------
static bool moves(const pbSensitivity *s, size_t entry) {
  for (int i = 0; i < s->count; i++) {
    if (s->direction[i].theta && s->direction[i].theta[entry] != 0) return true;
  }
  return false;
}

// Entries of theta that move, in order; the fields of all others are left out of pullbacks.
static pbStatus find_moved(pbRollout *r, pbSensitivity *s) {
  const pbModel *m = r->model;
  int fields = pbModel_ParamCount(m);
  bool *unwanted = pbContext_AllocArray(r->ctx, (size_t)fields + 1, sizeof *unwanted);
  s->at = pbContext_AllocArray(r->ctx, r->ntheta + 1, sizeof *s->at);
  if (!unwanted || !s->at) {
    pbContext_Free(r->ctx, unwanted);
    return pb_no_memory;
  }

  for (int f = 0; f < fields; f++) {
    pbParam p = pbModel_ParamAt(m, f);
    size_t first = p.offset, size = (size_t)p.rows * (size_t)p.cols, before = s->moved;
    for (size_t i = first; i < first + size; i++) {
      if (moves(s, i)) s->at[s->moved++] = i;
    }
    unwanted[f] = s->moved == before;
  }

  PB_ASSERT(s->moved <= r->ntheta);
  s->skip = pbWanted_Skip(m, unwanted);
  pbContext_Free(r->ctx, unwanted);
  return pb_ok;
}

static pbStatus gather_ways(pbRollout *r, pbSensitivity *s) {
  PB_TRY(find_moved(r, s));
  size_t numbers = (size_t)(2 * r->n + r->nu) + r->ntheta + (size_t)s->count * s->moved;
  s->seed = pbContext_AllocArray(r->ctx, numbers + 1, sizeof(double));
  if (!s->seed) return pb_no_memory;
  s->x_bar = s->seed + r->n;
  s->ctrl_bar = s->x_bar + r->n;
  s->theta_bar = s->ctrl_bar + r->nu;
  s->way = s->theta_bar + r->ntheta;

  for (int i = 0; i < s->count; i++) {
    const double *theta = s->direction[i].theta;
    double *way = s->way + (size_t)i * s->moved;
    size_t entries = theta ? s->moved : 0;
    for (size_t e = 0; e < entries; e++) way[e] = theta[s->at[e]];
  }
  return pb_ok;
}

pbStatus pbSensitivity_Create(pbRollout *r, int count, const pbRolloutDirection *directions, pbSensitivity **created) {
  pbSensitivity *s = pbContext_AllocArray(r->ctx, 1, sizeof *s);
  if (!s) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for %d directions", count);
  s->direction = directions;
  s->count = count;
  s->once = r->model->integrator != pb_intRK4;
  s->follow = follows(r->model);

  pbStatus status = gather_ways(r, s);
  *created = s;
  return status == pb_ok ? status : pbContext_Fail(r->ctx, status, "no memory for %d directions", count);
}

void pbSensitivity_Destroy(const pbRollout *r, pbSensitivity *s) {
  if (!s) return;
  pbContext_Free(r->ctx, s->seed);
  pbContext_Free(r->ctx, s->at);
  pbContext_Free(r->ctx, s);
}

// ---- a step -------------------------------------------------------------------------------------------------------------
static double product(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// A row of the Jacobian, times all directions: entry `row` of each of `next`.
static pbStatus push_row(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, bool evaluated, int row,
                         const double *now, double *next) {
  size_t n = (size_t)r->n, nu = (size_t)r->nu;
  PB_ASSERT(0 <= row && row < r->n);
  PB_ASSERT(now != next);
  memset(s->x_bar, 0, (n + nu + r->ntheta) * sizeof(double));
  s->seed[row] = 1;
  const pbInputBar inputs = {.ctrl = s->ctrl_bar};
  const pbStepCotangent in = {.next = s->seed, .evaluated = evaluated};
  const pbStepBar out = {.x = s->x_bar, .input = &inputs, .theta = s->moved ? s->theta_bar : NULL};

  pbStatus status = pbStep_VjpCached(step, &in, r->scratch, &out);
  s->seed[row] = 0;
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));

  // Entries of theta that move, side by side.
  for (size_t e = 0; e < s->moved; e++) s->theta_bar[e] = s->theta_bar[s->at[e]];
  size_t input = (size_t)pbRollout_InputRow(r, k) * nu;
  for (int i = 0; i < s->count; i++) {
    const double *ctrl = s->direction[i].ctrl;
    double sum = product(s->x_bar, now + (size_t)i * n, n) + product(s->theta_bar, s->way + (size_t)i * s->moved, s->moved);
    next[(size_t)i * n + (size_t)row] = sum + (ctrl ? product(s->ctrl_bar, ctrl + input, nu) : 0);
  }
  return pb_ok;
}

// q+ = q + h v+ of dofs from `dof` on: dq+ = dq + h dv+ + v+ dh.
static void follow_velocities(const pbRollout *r, const pbSensitivity *s, int dof, int dofs, const double *after,
                              const double *now, double *next) {
  const pbModel *m = r->model;
  size_t at = (size_t)(m->timestep - m->theta0);
  double h = r->theta[at];
  PB_ASSERT(dof >= 0 && dof + dofs <= m->nv && h > 0);
  const double *v = after + state_layout(m).qvel;

  for (int i = 0; i < s->count; i++) {
    const double *d = now + (size_t)i * (size_t)r->n, *theta = s->direction[i].theta;
    double *to = next + (size_t)i * (size_t)r->n;
    for (int k = dof; k < dof + dofs; k++) to[k] = d[k] + h * to[m->nv + k] + (theta ? theta[at] * v[k] : 0);
  }
}

static pbStatus push_rows(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, const double *after, const double *now,
                          double *next) {
  const pbModel *m = r->model;
  bool evaluated = false;

  for (int row = s->follow ? m->nv : 0; row < r->n; row++) {
    PB_TRY(push_row(r, s, k, step, evaluated, row, now, next));
    evaluated = s->once;
  }

  // Rows of positions: those of rotations are pulled, too.
  int joints = s->follow ? m->njnt : 0;
  for (int j = 0; j < joints; j++) {
    int dof = m->jnt_dofadr[j];
    int translations = pbJoint_PlainCount(m->jnt_type[j]);

    follow_velocities(r, s, dof, translations, after, now, next);
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    dof += translations;
    for (int row = dof; row < dof + 3; row++) PB_TRY(push_row(r, s, k, step, evaluated, row, now, next));
  }

  return pb_ok;
}

pbStatus pbSensitivity_Step(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, const double *after,
                            const double *now, double *next) {
  unsigned skip = r->scratch->skip;
  PB_ASSERT(step->theta == r->theta && after != now);
  r->scratch->skip = s->skip;
  pbStatus status = push_rows(r, s, k, step, after, now, next);
  r->scratch->skip = skip;

  return status;
}
