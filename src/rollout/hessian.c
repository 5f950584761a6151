// Second derivatives of a step: what a costate after the step says of it, by the state before it and its controls. Rotations are
// moved along straight lines of their tangent space, so that this is the Hessian of a function and symmetric. Exactly, where a
// step has them (step/second.h), a column for each direction; else by central differences of its pullback, where, if quotients
// to either side disagree, there is a kink. Tests: tests/unit/test_ilqr.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/joint.h"
#include "rollout/rollout.h"
#include "step/scratch.h"
#include "step/second.h"
#include "world/cached.h"

enum { cached_contacts = 64 };         // at most
static const double move_size = 1e-5;  // of an entry of the tangent, of a control besides relative to it

typedef struct Side {
  pbRollout *r;
  int k;
  const double *x, *costate;  // of the step, and after it
  double *after;              // the state that it leads to
  // Of the step at hand, which begins somewhere beside x
  double *from, *to, *record, *ctrl, *turn, *bar, *direction;
  double *here, *ahead, *behind;  // pullbacks: by the state, then by the controls
  double *unit;                   // nu
  void *cached;
  size_t cached_room;
} Side;

static Side lay_out(pbRollout *r, int k, double *room) {
  size_t nx = (size_t)r->nx, n = (size_t)r->n, nu = (size_t)r->nu, all = n + nu;
  Side b = {.r = r, .k = k};
  const struct {
    double **to;
    size_t count;
  } pieces[] = {{&b.after, nx}, {&b.from, nx},   {&b.to, nx},      {&b.record, (size_t)r->nrecord},
                {&b.ctrl, nu},  {&b.turn, n},    {&b.bar, n},      {&b.direction, n},
                {&b.here, all}, {&b.ahead, all}, {&b.behind, all}, {&b.unit, nu}};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    *pieces[i].to = room;
    room += pieces[i].count;
  }

  size_t bytes = (size_t)room % 64;
  b.cached = (char *)room + (64 - bytes) % 64;
  b.cached_room = pbCached_Room(r->model, cached_contacts);

  return b;
}

size_t pbRollout_HessianRoom(const pbModel *m) {
  size_t nx = (size_t)pbModel_StateSize(m), n = (size_t)pbModel_TangentSize(m), nu = (size_t)pb_controls(m);
  size_t cached = pbCached_Room(m, cached_contacts) / sizeof(double) + 64 / sizeof(double);
  return 3 * nx + (size_t)pbTape_Size(m) + 6 * n + 5 * nu + cached + 1;
}

// v + w x v / 2 of each rotation, w of `turns`: to first order the transpose of the right Jacobian of exp at w; with sign -1
// that of its inverse.
static void turn_all(const pbModel *m, const double *turns, double sign, double *v) {
  for (int j = 0; j < m->njnt; j++) {
    if (!pbJoint_HasRotation(m->jnt_type[j])) continue;
    int at = m->jnt_dofadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    const double *w = turns + at, before[3] = {v[at], v[at + 1], v[at + 2]};
    for (int i = 0; i < 3; i++) {
      int next = (i + 1) % 3, last = (i + 2) % 3;
      v[at + i] += sign / 2 * (w[next] * before[last] - w[last] * before[next]);
    }
  }
}

// The pullback of the costate through the step from b->from, where controls are b->ctrl, in the tangent spaces of x and of the
// state after it.
static pbStatus pull_from(Side *b, double *bar) {
  pbRollout *r = b->r;
  pbInput input = pbRollout_InputAt(r, b->k);
  size_t size = 0;
  if (r->nu) input.ctrl = b->ctrl;

  memcpy(b->to, b->from, (size_t)r->nx * sizeof *b->to);
  bool begun = r->model->nhistory == 0 && pbCached_Begin(r->scratch, b->cached, b->cached_room);
  PB_TRY(pbRollout_StepChecked(r, r->theta, b->to, &input, b->k, NULL));
  if (begun) PB_TRY(pbCached_Save(r->scratch, b->cached_room, &size));
  pbTape_Record(r->model, b->from, r->scratch, b->record);

  // at x itself this is the state after it
  if (bar == b->here) memcpy(b->after, b->to, (size_t)r->nx * sizeof *b->to);
  pbState_Difference(r->model, b->after, b->to, b->turn);
  memcpy(b->bar, b->costate, (size_t)r->n * sizeof *b->bar);
  turn_all(r->model, b->turn, -1, b->bar);

  memset(bar, 0, (size_t)(r->n + r->nu) * sizeof *bar);
  const pbStepRecord step = {
      .model = r->model, .theta = r->theta, .record = b->record, .cached = size ? b->cached : NULL, .input = &input};
  const pbInputBar by_input = {.ctrl = r->nu ? bar + r->n : NULL};
  pbStatus status =
      pbStep_VjpCached(&step, &(pbStepCotangent){.next = b->bar}, r->scratch, &(pbStepBar){.x = bar, .input = &by_input});
  if (status != pb_ok) return pbRollout_StepFailed(r, status, b->k, pbScratch_Error(r->scratch));

  return pb_ok;
}

// From x moved along entry `which` of state and controls by `by`.
static pbStatus pull_beside(Side *b, int which, double by, double *bar) {
  const pbRollout *r = b->r;
  pbInput input = pbRollout_InputAt(r, b->k);
  PB_ASSERT(which < r->n + r->nu);
  memcpy(b->from, b->x, (size_t)r->nx * sizeof *b->from);
  if (r->nu && input.ctrl) memcpy(b->ctrl, input.ctrl, (size_t)r->nu * sizeof *b->ctrl);
  else memset(b->ctrl, 0, (size_t)r->nu * sizeof *b->ctrl);

  memset(b->direction, 0, (size_t)r->n * sizeof *b->direction);
  if (which >= r->n) b->ctrl[which - r->n] += by;
  else if (which >= 0) b->direction[which] = by;
  if (which >= 0 && which < r->n) pbState_Move(r->model, b->from, b->direction, 1);

  PB_TRY(pull_from(b, bar));
  turn_all(r->model, b->direction, 1, bar);

  return pb_ok;
}

// Quotients to either side, by entry i: their mean, or nothing where they disagree by a fair part of themselves.
static double quotient(double behind, double here, double ahead, double by, double rounding) {
  double left = (here - behind) / by, right = (ahead - here) / by;
  return fabs(right - left) <= 0.2 * (fabs(left) + fabs(right)) + rounding / by ? (left + right) / 2 : 0;
}

static double size_of(const double *v, int n) {
  double most = 0;
  PB_ASSERT(n > 0);
  for (int i = 0; i < n; i++) most = fmax(most, fabs(v[i]));
  return most;
}

// Of entry `a` of the controls of a step; 0: it is none.
static double size_of_control(const pbRollout *r, int k, int a) {
  const double *ctrl = pbRollout_InputAt(r, k).ctrl;
  return a >= 0 && ctrl ? fabs(ctrl[a]) : 0;
}

// A step beside x that cannot be made leaves its column out, as a kink does; what ends all work ends this.
static bool is_lost(pbStatus status) { return status == pb_no_memory || status == pb_interrupted; }

static pbStatus take_column(Side *b, int j, double rounding, double *H) {
  const pbRollout *r = b->r;
  int all = r->n + r->nu;
  double by = move_size * (1 + size_of_control(r, b->k, j - r->n));
  pbStatus status = pull_beside(b, j, by, b->ahead);
  if (status == pb_ok) status = pull_beside(b, j, -by, b->behind);
  if (is_lost(status)) return status;

  for (int i = 0; i < all; i++) H[i] = status == pb_ok ? quotient(b->behind[i], b->here[i], b->ahead[i], by, rounding) : 0;
  return pb_ok;
}

// ---- exactly ----------------------------------------------------------------------------------------------------------------
// Along entry j of state and controls. That tangent spaces turn as states move adds an antisymmetric part, which the mean with
// the transpose takes away.
static pbStatus take_exact_column(Side *b, const pbStepRecord *step, int j, double *H) {
  pbRollout *r = b->r;
  int n = r->n, nu = r->nu;
  PB_ASSERT(j >= 0 && j < n + nu);
  memset(b->direction, 0, (size_t)n * sizeof *b->direction);
  memset(b->unit, 0, (size_t)nu * sizeof *b->unit);
  memset(H, 0, (size_t)(n + nu) * sizeof *H);

  if (j < n) b->direction[j] = 1;
  else b->unit[j - n] = 1;

  // The costate stands still.
  const pbDirection along = {.x = b->direction, .ctrl = nu ? b->unit : NULL};
  const pbSecond second = {.direction = &along, .next = b->costate, .x = H, .input = {.ctrl = nu ? H + n : NULL}};
  return pbStep_SecondRecord(r->scratch, step, NULL, &second, NULL);
}

// After the pullback at x. pb_bad_input: there are none at this step.
static pbStatus take_exact(Side *b, double *H) {
  pbRollout *r = b->r;
  pbInput input = pbRollout_InputAt(r, b->k);

  // Nothing is moved from x: the record is there.
  if (pbSecond_Lacks(r->model)) return pb_bad_input;
  if (r->nu) input.ctrl = b->ctrl;

  const pbStepRecord step = {.model = r->model, .theta = r->theta, .record = b->record, .input = &input};
  int all = r->n + r->nu;
  for (int j = 0; j < all; j++) PB_TRY(take_exact_column(b, &step, j, H + (size_t)j * (size_t)all));
  return pb_allFinite(H, (size_t)all * (size_t)all) ? pb_ok : pb_bad_input;
}

pbStatus pbRollout_MakeHessian(pbRollout *r) {
  if (pbSecond_Lacks(r->model)) return pb_ok;

  // Complex numbers, and their pullback.
  PB_TRY(pbScratch_MakeComplex(r->scratch));
  return pbSecond_Make(r->scratch->ctx, r->scratch->complex_work);
}

pbStatus pbRollout_Hessian(pbRollout *r, int k, const double *x, const double *costate, double *H, double *room) {
  PB_ASSERT(k >= 0 && k < r->plan.steps);
  Side b = lay_out(r, k, room);
  size_t all = (size_t)r->n + (size_t)r->nu;
  b.x = x;
  b.costate = costate;
  if (pbProgressMeter_At(&r->meter, "curvature", k, r->plan.steps)) return pbRollout_Stopped(r, k);

  pbStatus status = pull_beside(&b, -1, 0, b.here);
  double rounding = 1e-12 * size_of(b.here, (int)all);
  pbStatus exact = status == pb_ok ? take_exact(&b, H) : status;
  if (is_lost(exact)) status = pbRollout_StepFailed(r, exact, k, pbScratch_Error(r->scratch));
  size_t columns = exact == pb_ok ? 0 : all;
  for (size_t j = 0; j < columns && status == pb_ok; j++) status = take_column(&b, (int)j, rounding, H + j * all);
  pbCached_Leave(r->scratch);

  // Of what is left out by one of two, half.
  for (size_t i = 0; i < all; i++) {
    for (size_t j = 0; j < i; j++) H[i * all + j] = H[j * all + i] = (H[i * all + j] + H[j * all + i]) / 2;
  }

  return status;
}
