// Products of a task's Hessian and a vector: what moves along the unknowns is pushed through the run, slopes of terms move with
// what they observe, and the pullback of the run is differentiated along both (pbRollout_Second). Unknowns are controls and
// initial states; scales that are logarithms, and coordinates of initial rotations, have second derivatives of their own.
// Tests: tests/unit/test_products.c.
#include "optimize/products.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "model/joint.h"
#include "model/model.h"
#include "optimize/rotation.h"
#include "rollout/rollout.h"
#include "step/second.h"

typedef struct Each {  // of a trajectory that is fitted
  double *x0, *ctrl;   // the direction, as it moves these
  pbRolloutTangent moved;
  pbTermSet set;              // the trajectory's, with bars of its own: how they change
  double *start_bar;          // n: cotangent of the initial state at the point
  double *x0_bar, *ctrl_bar;  // how the gradient by these changes
  double *memory;
} Each;

struct pbTaskProducts {
  pbTask *task;
  pbProblem problem;  // that is served: its gradients are kept
  bool turns;         // an initial rotation is unknown
  bool kept;          // z, g and the rollouts are those of evaluation `stamp`
  bool started;       // start_bar is of it, too
  int64_t stamp;
  double *z, *g;       // n each: the point; gradient of the terms
  bool refused;        // by a step at
  double *refused_at;  // n
  const double *v;
  Each *each;  // trajectories
};

// ---- what has none ------------------------------------------------------------------------------------------------------
static const char *lacks_variable(const pbVariable *v) {
  switch (v->kind) {
    case pb_varyControl:
    case pb_varyQpos:
    case pb_varyQvel:
    case pb_varyAct: return NULL;
    case pb_varyDelay:
    case pb_varyReading: return "a delay, gain or bias";
    case pb_varyParam:
    case pb_varyInertia:
    case pb_varySets: return "a parameter";
    case pb_varyPoints:
    case pb_varyPointVelocity: return "points of deformables";
    default: return "poses of mocap bodies";
  }
}

const char *pbTask_WhyNoProducts(const pbTask *task, char *text, size_t size) {
  const pbTerm *term = NULL;
  if (task->gradient != pb_gradientExact) return "they are those of mode \"exact\"";
  if (pbTask_Sampled(task)) return "a task with draws has none";

  // the model, the unknowns, the terms, in this order
  const char *lacks = pbSecond_Lacks(task->model);
  if (lacks) snprintf(text, size, "%s none", lacks);

  for (int i = 0; i < task->variable_count && !lacks; i++) {
    lacks = lacks_variable(&task->variables[i]);
    if (lacks) snprintf(text, size, "variable '%.100s', %s, has none", task->variables[i].name, lacks);
  }

  for (int t = 0; t < task->trajectory_count && !lacks; t++) {
    if (!task->trajectories[t].test) lacks = pbTermSet_NoSecond(&task->trajectories[t].terms, &term);
    if (lacks) snprintf(text, size, "%s none (term '%.100s')", lacks, term->name);
  }

  return lacks ? text : NULL;
}

pbStatus pbTask_CheckNewton(const pbTask *task) {
  char why[256];
  if (pbTask_IsTruncated(task))
    return pbContext_Fail(task->ctx, pb_bad_input,
                          "%.400s: optimizer.method: newton-cg needs gradients of a function, and truncated ones (decay, window, "
                          "clip) are none; lbfgs takes them",
                          task->name);

  const char *lacks = task->hessian == pb_hessianExact ? pbTask_WhyNoProducts(task, why, sizeof why) : NULL;
  if (!lacks) return pb_ok;

  return pbContext_Fail(task->ctx, pb_bad_input, "%.400s: optimizer.hessian: no exact second derivatives: %s", task->name, lacks);
}

const char *pbTask_WhyInexact(pbTask *task, bool exact, int64_t differences) {
  if (differences == 0) return task->before.differences > 0 ? "a stage before the last one has no exact ones" : NULL;
  if (task->hessian == pb_hessianDifferences) return "the task asks for them";
  if (exact) return "at some points a step has no second derivatives";

  // else what the task itself lacks
  return pbTask_WhyNoProducts(task, task->inexact, sizeof task->inexact);
}

// ---- memory -----------------------------------------------------------------------------------------------------------
typedef struct Piece {
  double **to;
  size_t count;
} Piece;

// The arrays of a trajectory in one block; what the loss does not observe has none.
static pbStatus allocate_each(pbTask *task, pbTrajectory *tr, Each *e) {
  const pbTermSet *s = &tr->terms;
  size_t rows = (size_t)s->row_count, n = (size_t)s->n, nv = (size_t)s->nv, nu = (size_t)s->nu, controls = (size_t)tr->steps * nu;
  size_t body = 3 * (size_t)s->nbody, site = 3 * (size_t)s->nsite, total = 0;
  tr->rollout->keeps_room = true;

  // its terms are the trajectory's; formulas of the time have no part in this
  e->set = *s;
  e->set.timestep_bar = NULL;
  e->moved.rows = s->rows;
  e->moved.row_count = s->row_count;
  const Piece pieces[] = {{&e->x0, n},
                          {&e->ctrl, controls},
                          {&e->start_bar, n},
                          {&e->x0_bar, n},
                          {&e->ctrl_bar, controls},
                          {&e->moved.x, s->states ? rows * n : 0},
                          {&e->moved.sensordata, s->sensordata ? rows * (size_t)s->ns : 0},
                          {&e->moved.xpos, s->xpos ? rows * body : 0},
                          {&e->moved.site_xpos, s->site_xpos ? rows * site : 0},
                          {&e->set.bar_q, s->bar_q ? rows * nv : 0},
                          {&e->set.bar_v, s->bar_v ? rows * nv : 0},
                          {&e->set.bar_a, s->bar_a ? rows * (size_t)s->na : 0},
                          {&e->set.bar_sensor, s->bar_sensor ? rows * (size_t)s->ns : 0},
                          {&e->set.bar_xpos, s->bar_xpos ? rows * body : 0},
                          {&e->set.bar_site, s->bar_site ? rows * site : 0}};
  enum { PIECES = sizeof pieces / sizeof *pieces };
  for (size_t i = 0; i < PIECES; i++) total += pieces[i].count;
  double *next = e->memory = pbContext_AllocArray(task->ctx, total + 1, sizeof *next);
  if (!next) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for second derivatives", task->name);

  // NULL where there is nothing
  for (size_t i = 0; i < PIECES; i++) {
    *pieces[i].to = pieces[i].count ? next : NULL;
    next += pieces[i].count;
  }

  return pb_ok;
}

pbStatus pbTaskProducts_Create(pbTask *task, pbTaskProducts **products) {
  size_t n = (size_t)task->n, count = (size_t)task->trajectory_count;

  // what fails half way is the caller's to destroy
  pbTaskProducts *p = *products = pbContext_Alloc(task->ctx, sizeof *p);
  if (p) p->task = task;
  if (p) p->each = pbContext_AllocArray(task->ctx, count, sizeof *p->each);
  if (p) p->z = pbContext_AllocArray(task->ctx, 3 * n, sizeof *p->z);
  if (!p || !p->each || !p->z) return pbContext_Fail(task->ctx, pb_no_memory, "%s: no memory for second derivatives", task->name);

  // what is there only where an initial rotation is unknown
  p->g = p->z + n;
  p->refused_at = p->g + n;
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    int dofs = v->kind == pb_varyQpos ? v->count : 0;
    for (int k = 0; k < dofs; k++) p->turns |= pbJoint_HasRotation(task->model->jnt_type[task->model->dof_jntid[v->index[k]]]);
  }

  for (int t = 0; t < task->trajectory_count; t++) {
    if (!task->trajectories[t].test) PB_TRY(allocate_each(task, &task->trajectories[t], &p->each[t]));
  }

  return pb_ok;
}

void pbTaskProducts_Destroy(pbTask *task, pbTaskProducts *p) {
  if (!p) return;

  // also of what was left half made
  int count = p->each ? task->trajectory_count : 0;
  for (int t = 0; t < count; t++) pbContext_Free(task->ctx, p->each[t].memory);
  pbContext_Free(task->ctx, p->each);
  pbContext_Free(task->ctx, p->z);
  pbContext_Free(task->ctx, p);
}

// ---- the point --------------------------------------------------------------------------------------------------------
void pbTaskProducts_Keep(pbTaskProducts *p, const double *z, const double *gradient) {
  const pbTask *task = p->task;
  size_t n = (size_t)task->n;
  memcpy(p->z, z, n * sizeof *z);
  memcpy(p->g, gradient, n * sizeof *z);

  // of the terms alone: what is known before curves by itself
  int known = task->prior_count ? task->n : 0;
  for (int i = 0; i < known; i++) {
    double w = task->prior_weight[i];
    p->g[i] -= 2 * w * w * (z[i] - task->prior_at[i]);
  }

  p->kept = true;
  p->started = false;
  p->stamp = task->evaluations;
}

// The rollouts hold the run at z, and its slopes: after an interruption it is made again. It is none of the search's.
static pbStatus return_to(pbTaskProducts *p, const double *z) {
  pbTask *task = p->task;
  size_t n = (size_t)task->n;
  if (p->kept && p->stamp == task->evaluations && memcmp(p->z, z, n * sizeof *z) == 0) return pb_ok;

  int64_t simulations = task->simulations, evaluations = task->evaluations;
  bool watch = task->watch;
  double value;
  task->watch = false;
  pbStatus status = pbTask_Loss(task, z, &value, p->g);

  // as if nothing had been evaluated
  task->watch = watch;
  task->simulations = simulations;
  task->evaluations = evaluations;
  p->kept = false;
  if (status != pb_ok) return status;

  memcpy(p->z, z, n * sizeof *z);
  pbTaskProducts_Keep(p, p->z, p->g);

  return pb_ok;
}

// Cotangents of the initial states at the point, which forward derivatives leave alone.
static pbStatus find_start_bars(pbTaskProducts *p) {
  pbTask *task = p->task;
  if (!p->turns || p->started) return pb_ok;

  // of one or two unknowns
  bool forward = !pbTask_IsTruncated(task) && pbRollout_GradientMode((size_t)task->n, 1) == pb_modeForward;
  for (int t = 0; t < task->trajectory_count; t++) {
    pbTrajectory *tr = &task->trajectories[t];
    if (tr->test) continue;
    if (forward) {
      pbTrajectory_ClearBars(tr);
      memset(task->theta_bar, 0, task->ntheta * sizeof(double));
      tr->worker = 0;
      pbStatus status = pbTrajectory_PullBack(tr, &task->truncation, task->theta_bar, NULL);
      if (status != pb_ok) return pbContext_Fail(task->ctx, status, "%s", pbContext_Error(tr->ctx));
    }
    memcpy(p->each[t].start_bar, tr->x0_bar, (size_t)tr->terms.n * sizeof(double));
  }

  p->started = true;

  return pb_ok;
}

// ---- directions of unknowns ---------------------------------------------------------------------------------------------
static bool is_of(const pbVariable *v, int t) { return v->trajectory < 0 || v->trajectory == t; }

static void move_controls(const pbTask *task, int t, const pbVariable *v, const double *by, double *ctrl) {
  const pbTrajectory *tr = &task->trajectories[t];
  size_t nu = (size_t)pb_controls(task->model);
  int width = v->index_count;

  for (int step = 0; step < tr->steps; step++) {
    double right;
    int knot = v->first + pbVariable_Knot(v, step, tr->steps, &right) * width;

    // as controls are made of knots, by their slopes
    for (int a = 0; a < width; a++) {
      double moved = (1 - right) * pbTask_ValueSlope(task, knot + a) * by[knot + a];
      if (right > 0) moved += right * pbTask_ValueSlope(task, knot + width + a) * by[knot + width + a];
      ctrl[(size_t)step * nu + v->index[a]] = moved;
    }
  }
}

// scratch: n zeros, and left so.
static void move_start(const pbTask *task, int t, const pbVariable *v, const double *by, double *x0, double *scratch) {
  int n = task->trajectories[t].terms.n;
  for (int i = v->first; i < v->first + v->count; i++) {
    if (by[i] == 0) continue;

    // rotations have several unknowns that move the same entries
    pbTask_StartDirection(task, i, t, scratch);
    for (int k = 0; k < n; k++) {
      x0[k] += by[i] * scratch[k];
      scratch[k] = 0;
    }
  }
}

static void find_direction(const pbTaskProducts *p, int t) {
  const pbTask *task = p->task;
  const pbTrajectory *tr = &task->trajectories[t];
  const Each *e = &p->each[t];
  size_t n = (size_t)tr->terms.n;
  memset(e->x0, 0, n * sizeof(double));
  memset(e->x0_bar, 0, n * sizeof(double));

  // without controls there is no row of them
  if (e->ctrl) memset(e->ctrl, 0, (size_t)tr->steps * (size_t)tr->terms.nu * sizeof(double));

  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    if (!is_of(v, t)) continue;
    if (v->kind != pb_varyControl) move_start(task, t, v, p->v, e->x0, e->x0_bar);
    else if (e->ctrl) move_controls(task, t, v, p->v, e->ctrl);
  }
}

// ---- one trajectory ---------------------------------------------------------------------------------------------------
static pbStatus change_of(const pbTaskProducts *p, int t) {
  pbTrajectory *tr = &p->task->trajectories[t];
  Each *e = &p->each[t];
  find_direction(p, t);

  // there, through the terms, and back
  const pbRolloutDirection along = {.x0 = e->x0, .ctrl = e->ctrl};
  PB_TRY(pbRollout_Jvp(tr->rollout, 1, &along, &e->moved));
  const pbObservedTangent observed = {.x = e->moved.x,
                                      .sensordata = e->moved.sensordata,
                                      .xpos = e->moved.xpos,
                                      .site_xpos = e->moved.site_xpos,
                                      .ctrl = e->ctrl};

  // terms of controls add to these themselves
  if (e->ctrl_bar) memset(e->ctrl_bar, 0, (size_t)tr->steps * (size_t)tr->terms.nu * sizeof(double));
  pbTermSet_PullTangent(&e->set, tr->ctrl_now, &observed, e->ctrl_bar);

  pbRolloutBar bar = pbTermSet_Bar(&tr->terms), bar_tangent = pbTermSet_Bar(&e->set);
  const pbRolloutSecond second = {
      .direction = &along, .bar = &bar, .bar_tangent = &bar_tangent, .gradient = {.x0 = e->x0_bar, .ctrl = e->ctrl_bar}};
  return pbRollout_Second(tr->rollout, &second);
}

static void change_task(void *user, int t, int worker) {
  const pbTaskProducts *p = user;
  pbTrajectory *tr = &p->task->trajectories[t];
  tr->worker = worker;
  tr->status = tr->test ? pb_ok : change_of(p, t);
}

// ---- second derivatives of what unknowns mean -----------------------------------------------------------------------------
static void cross(const double *a, const double *b, double *c) {
  for (int i = 0; i < 3; i++) c[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

// How the right Jacobian of exp, transposed, takes b where w moves by dw: the change of (1 + B [w] + C [w]^2) b,
// B = (1 - cos a) / a^2, C = (a - sin a) / a^3.
static void turn_tangent(const double *w, const double *dw, const double *b, double *out) {
  double aa = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], a = sqrt(aa), along = w[0] * dw[0] + w[1] * dw[1] + w[2] * dw[2];
  double sine = pbSin(a), cosine = pbCos(a);

  // by w'dw; near zero the series, whose closed forms cancel
  double B = 0.5 - aa / 24 + aa * aa / 720, C = 1.0 / 6 - aa / 120 + aa * aa / 5040;
  double dB = -1.0 / 12 + aa * (1.0 / 180 - aa / 6720), dC = -1.0 / 60 + aa * (1.0 / 1260 - aa / 60480);

  if (a > 0.05) {
    B = (1 - cosine) / aa;
    C = (a - sine) / (aa * a);
    dB = (sine - 2 * a * B) / (aa * a);
    dC = ((1 - cosine) - 3 * aa * C) / (aa * aa);
  }

  // by the product rule
  double wb[3], db[3], wwb[3], dwb[3], wdb[3];
  cross(w, b, wb);
  cross(dw, b, db);
  cross(w, wb, wwb);
  cross(dw, wb, dwb);
  cross(w, db, wdb);
  for (int i = 0; i < 3; i++) out[i] = B * db[i] + C * (dwb[i] + wdb[i]) + along * (dB * wb[i] + dC * wwb[i]);
}

// The rotation of a joint among the unknowns of a trajectory's initial state: its vector, how it moves, and the unknowns.
typedef struct Turn {
  double w[3], dw[3], slope[3];
  int unknown[3];  // -1: none
} Turn;

static bool find_turn(const pbTaskProducts *p, int t, int first_dof, Turn *turn) {
  const pbTask *task = p->task;
  bool any = false;
  *turn = (Turn){.unknown = {-1, -1, -1}};

  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    int dofs = v->kind == pb_varyQpos && is_of(v, t) ? v->count : 0;
    for (int k = 0; k < dofs; k++) {
      int axis = (int)v->index[k] - first_dof, unknown = v->first + k;
      if (axis < 0 || axis > 2) continue;
      any = true;
      turn->unknown[axis] = unknown;
      turn->w[axis] = task->value[unknown];
      turn->slope[axis] = pbTask_ValueSlope(task, unknown);
      turn->dw[axis] = turn->slope[axis] * p->v[unknown];
    }
  }

  return any;
}

// pbRollout_Second has the coordinates of x0 exp(w) at w = 0: those of the unknowns are others.
static void add_turns(const pbTaskProducts *p, int t, double *Hv) {
  const pbModel *m = p->task->model;
  Each *e = &p->each[t];
  int joints = p->turns ? m->njnt : 0;

  for (int j = 0; j < joints; j++) {
    Turn turn;
    int at = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    if (!pbJoint_HasRotation(m->jnt_type[j]) || !find_turn(p, t, at, &turn)) continue;

    // its half of w x bar taken away again, then how the Jacobian of the unknowns' own coordinates changes
    double half[3], extra[3];
    cross(e->x0 + at, e->start_bar + at, half);
    for (int i = 0; i < 3; i++) e->x0_bar[at + i] -= 0.5 * half[i];
    turn_tangent(turn.w, turn.dw, e->start_bar + at, extra);
    for (int i = 0; i < 3; i++) {
      if (turn.unknown[i] >= 0) Hv[turn.unknown[i]] += turn.slope[i] * extra[i];
    }
  }
}

// From what changed in a trajectory to unknowns: the pullback of what they mean, of other cotangents.
static void pull_trajectory(const pbTaskProducts *p, int t, double *Hv) {
  pbTrajectory *tr = &p->task->trajectories[t];
  double *x0_bar = tr->x0_bar, *ctrl_bar = tr->ctrl_bar;
  add_turns(p, t, Hv);

  // lent to what pulls gradients
  tr->x0_bar = p->each[t].x0_bar;
  if (p->each[t].ctrl_bar) tr->ctrl_bar = p->each[t].ctrl_bar;
  pbTask_PullTrajectory(p->task, t, Hv);
  tr->x0_bar = x0_bar;
  tr->ctrl_bar = ctrl_bar;
}

// Of values exp(scale z), and of what is known before.
static void add_scales(const pbTaskProducts *p, double *Hv) {
  const pbTask *task = p->task;
  for (int i = 0; i < task->variable_count; i++) {
    const pbVariable *v = &task->variables[i];
    int count = v->logarithm ? v->count : 0;
    for (int k = v->first; k < v->first + count; k++) Hv[k] += p->g[k] * v->scale * p->v[k];
  }

  int known = task->prior_count ? task->n : 0;
  for (int i = 0; i < known; i++) Hv[i] += 2 * task->prior_weight[i] * task->prior_weight[i] * p->v[i];
}

// What a step refuses along one direction it refuses along all: nothing is run again to hear it.
static pbStatus give_up(pbTaskProducts *p, const double *z, const pbTrajectory *tr) {
  p->refused = tr->status == pb_bad_input;
  memcpy(p->refused_at, z, (size_t)p->task->n * sizeof *z);
  return pbContext_Fail(p->task->ctx, tr->status, "%s", pbContext_Error(tr->ctx));
}

pbStatus pbTaskProducts_Make(pbTaskProducts *p, const double *z, const double *v, double *Hv) {
  pbTask *task = p->task;
  size_t n = (size_t)task->n;
  if (p->refused && memcmp(p->refused_at, z, n * sizeof *z) == 0)
    return pbContext_Fail(task->ctx, pb_bad_input, "%s: a step has no second derivatives", task->name);

  PB_TRY(return_to(p, z));
  PB_TRY(find_start_bars(p));
  p->v = v;

  // each by itself, then their sum in their order
  pbTask_ForAll(task, change_task, p);
  memset(Hv, 0, n * sizeof *Hv);

  for (int t = 0; t < task->trajectory_count; t++) {
    const pbTrajectory *tr = &task->trajectories[t];
    if (tr->test) continue;
    if (tr->status != pb_ok) return give_up(p, z, tr);
    pull_trajectory(p, t, Hv);
  }

  add_scales(p, Hv);

  return pb_ok;
}

// ---- of a problem -----------------------------------------------------------------------------------------------------
static pbStatus gradient_of(void *user, const double *z, double *value, double *g) {
  pbTaskProducts *p = user;
  PB_TRY(p->problem.gradient(p->problem.user, z, value, g));
  pbTaskProducts_Keep(p, z, g);

  return pb_ok;
}

static pbStatus product_of(void *user, const double *z, const double *v, double *Hv) {
  return pbTaskProducts_Make(user, z, v, Hv);
}

pbStatus pbTaskProducts_Serve(pbTask *task, pbProblem *problem, pbTaskProducts **products) {
  char why[256];
  *products = NULL;
  if (task->hessian == pb_hessianDifferences || pbTask_WhyNoProducts(task, why, sizeof why)) return pb_ok;

  PB_TRY(pbTaskProducts_Create(task, products));

  // gradients go through here, and nothing else is asked of it
  (*products)->problem = *problem;
  problem->user = *products;
  problem->value = NULL;
  problem->residuals = NULL;
  problem->gradient = gradient_of;
  problem->product = product_of;

  return pb_ok;
}
