// Many directions at once through steps, by reverse: rows of a step's Jacobian by its state, controls and parameters are pulled
// back, one evaluation for all of them, and multiply the directions. A forward derivative costs an evaluation in complex numbers
// for each direction; a row costs a pullback, and there are as many as velocities, whatever the number of directions. Rows of
// positions follow from those of velocities where the integrator says so. Where only the state and controls move, all rows are
// there at once (pbStep_JacobianRecord).
// Tests: tests/python/test_jacobian.py.
#include <string.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "model/joint.h"
#include "model/state_layout.h"
#include "linalg/product.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "step/wanted.h"
#include "world/cached.h"

// A forward derivative of a step takes about five times as long as the pullback of a row, and twice where each row evaluates
// again (Runge-Kutta, policies).
enum { rows_for_a_direction = 5, rows_again = 2 };

struct pbSensitivity {
  const pbRollout *rollout;
  const pbRolloutDirection *direction;
  int count;
  double *seed, *seen;  // of the row at hand: cotangents of a state, of an output
  double *x_bar, *ctrl_bar, *qfrc_bar, *xfrc_bar, *theta_bar;
  double *command_bar, *pos_bar, *rot_bar, *vel_bar;  // of mocap bodies
  double *velocity;   // (count, 6 nmocap): what velocities of mocap bodies owe to poses, of the step at hand
  double *row;        // (rows, n + moved): of the Jacobian at hand, by the state and by entries of theta that any direction moves
  double *way;        // (count, n + moved): the directions at hand by the same
  double *along;      // (count, widest of the outputs)
  size_t *at, moved;  // which they are
  unsigned skip;      // groups of parameters that none moves
  bool once;          // one evaluation serves all rows
  bool follow;        // positions without rotations are q + h v
  bool pushed;        // some direction has forces
  bool led;           // or moves mocap bodies
  bool sped;          // or sets them in motion
  bool whole;         // only states and controls move: A and B of a step serve all
  double *A, *B, *controls;  // n x n, n x nu; (count, nu): of the directions
  void *product_work, *memory;
};

// What is seen of a state beside it.
enum { OUTPUTS = 3 };
static int output_width(const pbRollout *r, int output) {
  const int widths[OUTPUTS] = {r->ns, 3 * r->nbody, 3 * r->nsite};
  PB_ASSERT(output >= 0 && output < OUTPUTS);
  return widths[output];
}

static double *output_of(const pbRolloutTangent *t, int output) {
  double *const of[OUTPUTS] = {t->sensordata, t->xpos, t->site_xpos};
  return of[output];
}

// ---- which ones ---------------------------------------------------------------------------------------------------------
// The same of all: what is seen, and of which states.
static bool alike(const pbRolloutTangent *a, const pbRolloutTangent *b) {
  for (int o = 0; o < OUTPUTS; o++) {
    if (!output_of(a, o) != !output_of(b, o)) return false;
  }
  return a->rows == b->rows && a->row_count == b->row_count;
}

// Rows of outputs, on average of all states.
static double count_seen(const pbRollout *r, const pbRolloutTangent *t) {
  int rows = 0;
  for (int o = 0; o < OUTPUTS; o++) rows += output_of(t, o) ? output_width(r, o) : 0;
  return t->rows ? (double)rows * t->row_count / (r->plan.steps + 1.) : rows;
}

static bool evaluates_once(const pbModel *m) { return m->integrator != pb_intRK4 && !m->policy; }
static bool follows(const pbModel *m) { return m->integrator != pb_intRK4 && !pb_hard(m) && !pb_noslip(m); }

// Dofs of rotations have their rows of positions pulled, all others those of velocities alone.
static int count_rows(const pbModel *m) {
  int turns = 0;
  for (int j = 0; j < m->njnt; j++) turns += pbJoint_HasRotation(m->jnt_type[j]) ? 3 : 0;
  return pbModel_TangentSize(m) - (follows(m) ? m->nv - turns : 0);
}

bool pbSensitivity_Serves(const pbRollout *r, int count, const pbRolloutTangent *tangents) {
  const pbModel *m = r->model;
  bool bodies = r->gradient == pb_gradientExact && !m->deform;
  if (!bodies || m->contact.method == pb_contactImpact) return false;
  int most = evaluates_once(m) ? rows_for_a_direction : rows_again;
  if (count_rows(m) + count_seen(r, tangents) >= most * count) return false;

  for (int i = 0; i < count; i++) {
    if (!alike(&tangents[0], &tangents[i])) return false;
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
  size_t n = (size_t)r->n, nu = (size_t)r->nu, nv = (size_t)r->nv, nxfrc = 6 * (size_t)r->nbody, count = (size_t)s->count;

  // The widest of the outputs.
  size_t seen = 0;
  for (int o = 0; o < OUTPUTS; o++) seen = (size_t)output_width(r, o) > seen ? (size_t)output_width(r, o) : seen;

  size_t mocap = (size_t)r->nmocap;
  size_t width = n + s->moved, rows = n > seen ? n : seen;
  size_t numbers = 2 * n + nu + nv + nxfrc + (size_t)r->ncommand + 12 * mocap + seen + r->ntheta + rows * width +
                   count * (width + seen + 6 * mocap);
  s->seed = pbContext_AllocArray(r->ctx, numbers + 1, sizeof(double));
  if (!s->seed) return pb_no_memory;
  s->seen = s->seed + n;
  s->row = s->seen + seen;
  s->x_bar = s->row + rows * width;
  s->ctrl_bar = s->x_bar + n;
  s->qfrc_bar = s->ctrl_bar + nu;
  s->xfrc_bar = s->qfrc_bar + nv;
  s->command_bar = s->xfrc_bar + nxfrc;
  s->pos_bar = s->command_bar + r->ncommand;
  s->rot_bar = s->pos_bar + 3 * mocap;
  s->vel_bar = s->rot_bar + 3 * mocap;
  s->theta_bar = s->vel_bar + 6 * mocap;
  s->way = s->theta_bar + r->ntheta;

  s->along = s->way + count * width;
  s->velocity = s->along + count * seen;

  for (size_t i = 0; i < count; i++) {
    const double *theta = s->direction[i].theta;
    size_t entries = theta ? s->moved : 0;
    for (size_t e = 0; e < entries; e++) s->way[i * width + n + e] = theta[s->at[e]];
  }
  return pb_ok;
}

// Does nothing move but states and controls? Then their Jacobians need no row of their own.
static bool is_whole(const pbRollout *r, const pbSensitivity *s) {
  bool whole = s->moved == 0 && !s->pushed && r->nmocap == 0 && r->model->nhistory == 0;

  for (int i = 0; i < s->count; i++) whole = whole && !s->direction[i].command;
  return whole;
}

// Numbers of all directions (count x width) times so many rows, transposed; into rows of `length`.
static pbProductShape shape_of(const pbSensitivity *s, int rows, int width, int length) {
  return (pbProductShape){.m = s->count, .n = rows, .k = width, .b_transposed = true, .lda = width, .ldb = width, .ldc = length};
}

static void lay_out(pbArena *a, void *self) {
  pbSensitivity *s = self;
  const pbRollout *r = s->rollout;
  size_t n = s->whole ? (size_t)r->n : 0, nu = s->whole ? (size_t)r->nu : 0;
  int rows = r->n, width = r->n + (int)s->moved;

  for (int o = 0; o < OUTPUTS; o++) rows = output_width(r, o) > rows ? output_width(r, o) : rows;

  // A and B where they serve; products of any rows
  const pbProductShape largest = shape_of(s, rows, width > r->nu ? width : r->nu, rows);
  s->A = pbArena_Take(a, n * n, sizeof(double));
  s->B = pbArena_Take(a, n * nu, sizeof(double));
  s->controls = pbArena_Take(a, (size_t)s->count * nu, sizeof(double));
  s->product_work = pbArena_Take(a, pbProduct_WorkBytes(&largest), 1);
}

pbStatus pbSensitivity_Create(pbRollout *r, int count, const pbRolloutDirection *directions, pbSensitivity **created) {
  pbSensitivity *s = pbContext_AllocArray(r->ctx, 1, sizeof *s);
  if (!s) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for %d directions", count);
  s->rollout = r;
  s->direction = directions;
  s->count = count;
  for (int i = 0; i < count; i++) {
    s->pushed = s->pushed || directions[i].qfrc || directions[i].xfrc;
    s->led = s->led || directions[i].mocap_pos || directions[i].mocap_rot;
  }

  // What serves all rows of a step.
  s->once = evaluates_once(r->model);
  s->follow = follows(r->model);

  pbStatus status = gather_ways(r, s);
  s->whole = status == pb_ok && is_whole(r, s);
  if (status == pb_ok) s->memory = pbArena_Make(r->ctx, lay_out, s);
  if (!s->memory) status = pb_no_memory;
  *created = s;
  return status == pb_ok ? status : pbContext_Fail(r->ctx, status, "no memory for %d directions", count);
}

void pbSensitivity_Destroy(const pbRollout *r, pbSensitivity *s) {
  if (!s) return;
  pbContext_Free(r->ctx, s->memory);
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

// What acts in step k, of a direction; the last state of a rollout without steps has no input.
static double acting(const pbRollout *r, const pbSensitivity *s, int k, const pbRolloutDirection *d) {
  if (r->plan.steps == 0 && !r->input.constant) return 0;

  // Inputs of a direction have the rows of the inputs themselves.
  size_t row = (size_t)pbRollout_InputRow(r, k), nu = (size_t)r->nu, nv = (size_t)r->nv, nxfrc = 6 * (size_t)r->nbody;

  double sum = d->ctrl ? product(s->ctrl_bar, d->ctrl + row * nu, nu) : 0;
  if (d->qfrc) sum += product(s->qfrc_bar, d->qfrc + row * nv, nv);
  if (d->xfrc) sum += product(s->xfrc_bar, d->xfrc + row * nxfrc, nxfrc);
  if (d->command) sum += product(s->command_bar, d->command + row * (size_t)r->ncommand, (size_t)r->ncommand);

  // Poses of mocap bodies; their velocities have been found for the step.
  size_t led = 3 * (size_t)r->nmocap;
  if (d->mocap_pos) sum += product(s->pos_bar, d->mocap_pos + row * led, led);
  if (d->mocap_rot) sum += product(s->rot_bar, d->mocap_rot + row * led, led);
  if (s->sped) sum += product(s->vel_bar, s->velocity + 2 * led * (size_t)(d - s->direction), 2 * led);
  return sum;
}

// Row `row` of those at hand, by the state and by theta; next: what all directions' inputs add, `length` apart.
static pbStatus pull_row(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, const pbStepCotangent *in, int row,
                         double *next, size_t length) {
  size_t n = (size_t)r->n, inputs = (size_t)(r->nu + r->nv + 6 * r->nbody + r->ncommand + 12 * r->nmocap);
  memset(s->x_bar, 0, (n + inputs + r->ntheta) * sizeof(double));
  const pbInputBar input_bar = {.ctrl = s->ctrl_bar,
                                .qfrc = s->pushed ? s->qfrc_bar : NULL,
                                .xfrc = s->pushed ? s->xfrc_bar : NULL,
                                .command = r->ncommand ? s->command_bar : NULL,
                                .mocap_pos = s->led ? s->pos_bar : NULL,
                                .mocap_rot = s->led ? s->rot_bar : NULL,
                                .mocap_vel = s->sped ? s->vel_bar : NULL};
  const pbStepBar out = {.x = s->x_bar, .input = &input_bar, .theta = s->moved ? s->theta_bar : NULL};

  r->scratch->ticks = k;
  pbStatus status = pbStep_VjpCached(step, in, r->scratch, &out);
  r->scratch->ticks = 0;
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));

  // Entries of theta that move, side by side.
  double *to = s->row + (size_t)row * (n + s->moved);

  memcpy(to, s->x_bar, n * sizeof *to);
  for (size_t e = 0; e < s->moved; e++) to[n + e] = s->theta_bar[s->at[e]];

  // What acts has other shapes.
  for (int i = 0; i < s->count; i++) next[(size_t)i * length] = acting(r, s, k, &s->direction[i]);
  return pb_ok;
}

// What `rows` rows from the first on are along all directions, added to rows of `length`.
static void multiply(const pbRollout *r, const pbSensitivity *s, int rows, int length, double *to) {
  const pbProductShape shape = shape_of(s, rows, r->n + (int)s->moved, length);
  PB_ASSERT(rows >= 0 && length >= rows);
  pbProduct_Add(&shape, s->way, s->row, to, s->product_work);
}

// Entries `first` to `end` of each of `next`.
static pbStatus push_some(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, bool evaluated, int first, int end,
                          double *next) {
  size_t n = (size_t)r->n;
  PB_ASSERT(0 <= first && first <= end && end <= r->n);

  for (int row = first; row < end; row++) {
    s->seed[row] = 1;
    const pbStepCotangent in = {.next = s->seed, .evaluated = evaluated};
    pbStatus status = pull_row(r, s, k, step, &in, row - first, next + row, n);
    s->seed[row] = 0;

    PB_TRY(status);
    evaluated = s->once;
  }

  multiply(r, s, end - first, r->n, next + first);
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
  PB_TRY(push_some(r, s, k, step, false, s->follow ? m->nv : 0, r->n, next));

  // Rows of positions: those of rotations are pulled, too.
  int joints = s->follow ? m->njnt : 0;
  for (int j = 0; j < joints; j++) {
    int dof = m->jnt_dofadr[j];
    int translations = pbJoint_PlainCount(m->jnt_type[j]);

    follow_velocities(r, s, dof, translations, after, now, next);
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    dof += translations;
    PB_TRY(push_some(r, s, k, step, s->once, dof, dof + 3, next));
  }

  return pb_ok;
}

// All rows at once: next = A now + B u.
static pbStatus push_whole(pbRollout *r, const pbSensitivity *s, int k, const pbStepRecord *step, const double *now,
                           double *next) {
  size_t n = (size_t)r->n, nu = (size_t)r->nu, row = (size_t)pbRollout_InputRow(r, k);
  const pbJacobian to = {.by = pb_byControl, .A = s->A, .B = nu ? s->B : NULL};
  pbStatus status = pbStep_JacobianRecord(step, r->scratch, &to);
  if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));

  // Controls of a direction have the rows of the controls themselves.
  memset(s->controls, 0, (size_t)s->count * nu * sizeof(double));
  for (int i = 0; i < s->count; i++) {
    const double *ctrl = s->direction[i].ctrl;
    if (ctrl && nu) memcpy(s->controls + (size_t)i * nu, ctrl + row * nu, nu * sizeof(double));
  }

  // What moves now through A, controls through B.
  const pbProductShape by_state = shape_of(s, r->n, r->n, r->n), by_control = shape_of(s, r->n, r->nu, r->n);
  memset(next, 0, (size_t)s->count * n * sizeof(double));
  pbProduct_Add(&by_state, now, s->A, next, s->product_work);
  if (nu) pbProduct_Add(&by_control, s->controls, s->B, next, s->product_work);
  return pb_ok;
}

// The directions' states beside their entries of theta.
static void take_now(const pbRollout *r, const pbSensitivity *s, const double *now) {
  size_t n = (size_t)r->n, width = n + s->moved;
  PB_ASSERT(s->count > 0);

  for (size_t i = 0; i < (size_t)s->count; i++) memcpy(s->way + i * width, now + i * n, n * sizeof *now);
}

// Velocities of mocap bodies along all directions. What moves them is worked out in the room of the rollout, which has the
// velocities themselves afterwards, as before.
static void find_velocities(pbRollout *r, pbSensitivity *s, int k) {
  size_t width = 6 * (size_t)r->nmocap;
  s->sped = false;
  if (!width || (r->plan.steps == 0 && !r->input.constant)) return;

  for (int i = 0; i < s->count; i++) {
    const double *velocity = pbPrescribed_Push(r, &s->direction[i], k);
    double *to = s->velocity + (size_t)i * width;
    if (velocity) memcpy(to, velocity, width * sizeof *to);
    else memset(to, 0, width * sizeof *to);
    s->sped = s->sped || velocity;
  }
  (void)pbPrescribed_Rate(r, k);
}

// Pullbacks leave out what no direction moves, until they are ended with what was left out before.
typedef struct left_out {
  unsigned skip;
  bool policy, rows;
} left_out;

static left_out begin_pulls(pbRollout *r, const pbSensitivity *s) {
  struct pbPolicyWork *policy = r->scratch->policy;
  left_out before = {r->scratch->skip, policy && policy->skip, policy && policy->rows};
  r->scratch->skip = s->skip;
  if (policy) policy->rows = true;
  if (policy) policy->skip = s->moved == 0 || s->at[s->moved - 1] < r->model->policy->theta;  // its own are the last
  return before;
}

static void end_pulls(pbRollout *r, left_out before) {
  r->scratch->skip = before.skip;
  if (!r->scratch->policy) return;

  // as it was
  r->scratch->policy->skip = before.policy;
  r->scratch->policy->rows = before.rows;
}

pbStatus pbSensitivity_Step(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, const double *after,
                            const double *now, double *next) {
  PB_ASSERT(step->theta == r->theta && after != now);
  if (s->whole) return push_whole(r, s, k, step, now, next);
  find_velocities(r, s, k);
  take_now(r, s, now);

  left_out before = begin_pulls(r, s);
  pbStatus status = push_rows(r, s, k, step, after, now, next);
  end_pulls(r, before);

  return status;
}

// ---- what is seen ---------------------------------------------------------------------------------------------------------
// A step whose state is seen, and where that goes.
typedef struct sight {
  int k, at;  // number of the step; row of the tangents
  const pbStepRecord *step;
  const pbRolloutTangent *tangents;
} sight;

// All rows of an output. evaluated: by the row before.
static pbStatus see_output(pbRollout *r, pbSensitivity *s, const sight *seen, int output, bool *evaluated) {
  const pbObservationBar bar = {.sensordata = output == 0 ? s->seen : NULL,
                                .xpos = output == 1 ? s->seen : NULL,
                                .site_xpos = output == 2 ? s->seen : NULL};
  size_t width = (size_t)output_width(r, output), at = (size_t)seen->at * width;
  PB_ASSERT(output_of(&seen->tangents[0], output) && seen->at >= 0);

  for (size_t row = 0; row < width; row++) {
    s->seen[row] = 1;
    const pbStepCotangent in = {.observed = &bar, .evaluated = *evaluated};
    pbStatus status = pull_row(r, s, seen->k, seen->step, &in, (int)row, s->along + row, width);
    s->seen[row] = 0;
    PB_TRY(status);

    *evaluated = s->once;
  }

  multiply(r, s, (int)width, (int)width, s->along);
  for (int i = 0; i < s->count; i++)
    memcpy(output_of(&seen->tangents[i], output) + at, s->along + (size_t)i * width, width * sizeof(double));
  return pb_ok;
}

static pbStatus see_all(pbRollout *r, pbSensitivity *s, const sight *seen) {
  // What the rows of the step left is no evaluation of its beginning.
  bool evaluated = false;
  for (int output = 0; output < OUTPUTS; output++) {
    if (output_of(&seen->tangents[0], output)) PB_TRY(see_output(r, s, seen, output, &evaluated));
  }

  return pb_ok;
}

pbStatus pbSensitivity_See(pbRollout *r, pbSensitivity *s, int k, const pbStepRecord *step, const double *before, int at,
                           const pbRolloutTangent *tangents, const double *now) {
  const sight seen = {.k = k, .at = at, .step = step, .tangents = tangents};
  take_now(r, s, now);
  PB_ASSERT(step->theta == r->theta && at >= 0);
  if (k == r->plan.steps) find_velocities(r, s, k);  // else those of the step

  left_out left = begin_pulls(r, s);
  pbStatus status = see_all(r, s, &seen);
  end_pulls(r, left);
  if (status != pb_ok || !tangents[0].sensordata) return status;

  // What the step holds fixed: the clock.
  for (int i = 0; i < s->count; i++)
    pbClock_Push(r, s->direction[i].theta, before, k, tangents[i].sensordata + (size_t)at * (size_t)r->ns);

  return pb_ok;
}
