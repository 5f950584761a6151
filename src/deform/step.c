// One step: what the past predicts, the solution, and the state after it; the working memory of all this. Derivatives: adjoint.c,
// jvp.c.
// Tests: tests/unit/test_deform.c.
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/context.h"
#include "deform/deform.h"
#include "deform/project.h"
#include "sparse/krylov.h"

// ---- working memory -----------------------------------------------------------------------------------------------
// Vectors over all points that a method of minimization needs beside the step's own.
static size_t history_rows(pbDeformMinimizer method) {
  if (method == pb_minimizeLbfgs) return 2 * PB_LBFGS_PAIRS;
  return method == pb_minimizeNewton ? 0 : 4;
}

static void lay_out(pbArena *a, pbDeformWork *w) {
  const pbDeform *d = w->d;
  size_t n = (size_t)d->npoint, p = 3 * (size_t)d->most_points, most_parameters = (size_t)d->most_parameters;
  size_t real = sizeof(double), complex = 2 * sizeof(double);
  double **of_points[] = {&w->x,      &w->y,     &w->v,        &w->v1,       &w->xhat,   &w->accel,
                          &w->next_x, &w->point, &w->weights,  &w->gradient, &w->step,   &w->adjoint,
                          &w->z_bar,  &w->y_bar, &w->past_bar, &w->ago,      &w->ago_bar};

  // Over points: vectors, masses, what solvers need.
  for (size_t i = 0; i < sizeof of_points / sizeof *of_points; i++) *of_points[i] = pbArena_Take(a, 3 * n, real);
  w->history = pbArena_Take(a, 3 * n * history_rows(d->options.method), real);
  w->preconditioner_x = pbArena_Take(a, 3 * n, real);
  w->saddle = pbArena_Take(a, d->options.scheme == pb_schemeStatic ? 3 * n : 0, real);
  w->cg_work = pbArena_Take(a, pbCg_WorkSize(3 * d->nfree) + 64, 1);
  w->mass = pbArena_Take(a, n, real);
  w->mass_bar = pbArena_Take(a, n, real);
  w->rhs = pbArena_Take(a, 3 * (size_t)d->nfree, real);

  // Over a chunk of elements: what their programs return, and room for projections.
  w->value_out = pbArena_Take(a, PB_DEFORM_CHUNK, real);
  w->gradient_out = pbArena_Take(a, PB_DEFORM_CHUNK * p, real);
  w->hessian_out = pbArena_Take(a, PB_DEFORM_CHUNK * p * p, real);
  w->eigen = pbArena_Take(a, (size_t)pbProject_Room((int)p), real);
  w->energy_work = pbArena_Take(a, d->work_bytes, 1);

  // Everything that a forward derivative goes along, as complex numbers.
  w->complex_out = pbArena_Take(a, PB_DEFORM_CHUNK * p, complex);
  w->complex_stencil = pbArena_Take(a, d->collision ? PB_DEFORM_CHUNK * pb_stencilParameters : 0, complex);
  w->complex_z = pbArena_Take(a, 3 * n, complex);
  w->complex_y = pbArena_Take(a, 3 * n, complex);
  w->complex_theta = pbArena_Take(a, d->ntheta, complex);
  w->complex_control = pbArena_Take(a, (size_t)d->ncontrol, complex);
  w->complex_data = pbArena_Take(a, d->ndata, complex);

  // Where the parameters of the group at hand are.
  w->parameter = pbArena_Take(a, most_parameters, sizeof *w->parameter);
  w->parameter_bar = pbArena_Take(a, most_parameters, sizeof *w->parameter_bar);
  w->parameter_complex = pbArena_Take(a, most_parameters, sizeof *w->parameter_complex);
  w->stride = pbArena_Take(a, most_parameters, sizeof *w->stride);
  w->zero_control = pbArena_Take(a, (size_t)d->ncontrol, real);
  w->led_bar = pbArena_Take(a, (size_t)d->nled, real);
  w->led_state = pbArena_Take(a, d->nled ? (size_t)pbDeform_State(d).tangent : 0, real);
}

pbStatus pbDeformWork_Create(pbContext *ctx, const pbDeform *d, const pbDeformCapacity *capacity, pbDeformWork **work) {
  pbDeformCapacity room = capacity ? *capacity : (pbDeformCapacity){0};
  pbDeformWork *w = pbContext_Alloc(ctx, sizeof *w);

  *work = NULL;
  if (!w) return pbContext_Fail(ctx, pb_no_memory, "no memory for deformables");
  *w = (pbDeformWork){.d = d, .ctx = ctx};

  // The same code measures what it needs and lays it out.
  pbArena a = pbArena_Measure();
  lay_out(&a, w);
  size_t needed = pbArena_Needed(&a);

  pbStatus status = pb_ok;
  if (needed == SIZE_MAX || !(w->memory = pbContext_Alloc(ctx, needed)))
    status = pbContext_Fail(ctx, pb_no_memory, "no memory for deformables: %zu bytes", needed);

  if (status == pb_ok && d->collision) status = pbBarrier_Create(ctx, d->collision, room.stencils, &w->barrier);
  if (status == pb_ok) status = pbDeformMatrix_Create(w, room.matrix);

  if (status != pb_ok) {
    pbDeformWork_Destroy(w);
    return status;
  }

  a = pbArena_Over(w->memory, needed);
  lay_out(&a, w);
  PB_ASSERT(pbArena_Needed(&a) == needed);
  *work = w;

  return pb_ok;
}

void pbDeformWork_Destroy(pbDeformWork *w) {
  if (!w) return;
  pbDeformMatrix_Destroy(w);
  pbBarrier_Destroy(w->barrier);
  pbContext_Free(w->ctx, w->memory);
  pbContext_Free(w->ctx, w);
}

// ---- room for contacts ----------------------------------------------------------------------------------------------

pbStatus pbDeformWork_Grow(pbDeformWork *w) {
  if (!w->lacks) return pbDeform_Fail(w, pb_capacity, "room for contacts was not too small");

  pbStatus status = w->barrier ? pbBarrier_Grow(w->barrier) : pb_ok;
  if (status == pb_ok) status = pbDeformMatrix_Grow(w);
  if (status != pb_ok) return pbDeform_Fail(w, status, "no memory for more contacts");
  w->lacks = false;

  return pb_ok;
}

// ---- the start of a step ------------------------------------------------------------------------------------------
// a = M^-1 force at the state before, friction and damping as of the step that led there.
static pbStatus initial_acceleration(pbDeformWork *w) {
  const pbDeform *d = w->d;
  int n = 3 * d->npoint;

  memset(w->accel, 0, (size_t)n * sizeof(double));
  if (w->barrier) PB_TRY(pbDeformContact_Update(w, w->y));

  // The start of that step, if its velocity was that of the end.
  for (int i = 0; i < n; i++) w->point[i] = w->y[i] - w->in.h * w->v[i];
  PB_TRY(pbDeform_Evaluate(w, &(pbEvaluation){.z = w->y,
                                              .y = w->point,
                                              .ago = w->point,
                                              .span = w->in.h,
                                              .time = w->in.time,
                                              .gradient = w->accel,
                                              .gradient_scale = -1}));

  for (int i = 0; i < n; i++) w->accel[i] = w->mass[i / 3] > 0 ? w->accel[i] / w->mass[i / 3] + w->in.gravity[i % 3] : 0;

  return pb_ok;
}

pbStatus pbDeform_Begin(pbDeformWork *w, const pbDeformInput *in, const double *state) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;

  PB_ASSERT(in->theta && in->h > 0);
  w->in = *in;
  w->lacks = false;
  w->error[0] = 0;
  if (!w->in.control) w->in.control = w->zero_control;

  // A scheme with a history takes its first step without one.
  w->scheme = pbScheme_Table(d->options.scheme, at.size > 2 * n && state[at.begun] == 0);
  PB_TRY(pbDeform_Masses(w));
  memcpy(w->y, state + at.x, (size_t)n * sizeof(double));
  memcpy(w->v, state + at.v, (size_t)n * sizeof(double));
  pbDeformLead_Begin(w);

  const pbSchemeTable *s = w->scheme;
  const double *ago = s->ago[0];
  double h = in->h;

  if (w->barrier) PB_TRY(pbDeformContact_Begin(w));
  if (pbScheme_NeedsAcceleration(s)) PB_TRY(initial_acceleration(w));

  // xhat = sum start[i] e[i] and ago = sum ago[i] e[i] of the past e = (x, h v, x1, h v1, h^2 a).

  for (int i = 0; i < n; i++) {
    w->xhat[i] = s->start[pb_pastX] * w->y[i] + s->start[pb_pastV] * h * w->v[i];
    if (s->history) w->xhat[i] += s->start[pb_pastX1] * state[at.x1 + i] + s->start[pb_pastV1] * h * state[at.v1 + i];
    if (s->start[pb_pastA] != 0) w->xhat[i] += s->start[pb_pastA] * h * h * w->accel[i];

    w->ago[i] = ago[pb_pastX] * w->y[i] + ago[pb_pastV] * h * w->v[i] + (s->history ? ago[pb_pastX1] * state[at.x1 + i] : 0);
  }

  return pb_ok;
}

static pbStatus minimize(pbDeformWork *w) {
  return w->d->options.method == pb_minimizeNewton ? pbDeform_Newton(w) : pbDeform_Minimize(w);
}

// Fixed coordinates go on with their velocity, x+ = x + h v; in a coupled step those of attached points go where bodies take
// them.
static bool is_prescribed(const pbDeform *d, int i) {
  return pbDeform_IsFixed(d, i) && (d->attached_of[i / 3] < 0 || !d->coupled);
}

bool pbDeform_PrescribedStep(pbDeformWork *w) {
  bool some = false;

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    w->step[i] = is_prescribed(w->d, i) ? w->x[i] - (w->y[i] + w->in.h * w->v[i]) : 0;
    some = some || w->step[i] != 0;
  }

  return some;
}

void pbDeform_MovePrescribed(pbDeformWork *w, double share) {
  PB_ASSERT(share >= 0 && share <= 1);

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    if (is_prescribed(w->d, i)) w->x[i] = share < 1 ? w->x[i] - share * w->step[i] : w->y[i] + w->in.h * w->v[i];
  }
}

// x+ = xhat of explicit schemes, with prescribed coordinates where they go.
static void explicit_solution(pbDeformWork *w) {
  memcpy(w->x, w->xhat, 3 * (size_t)w->d->npoint * sizeof(double));
  pbDeform_MovePrescribed(w, 1);
}

// An explicit step finds out afterwards what it would pass through: nothing slows it on the way, so it is refused.
static pbStatus check_explicit_path(pbDeformWork *w) {
  static const double keep = 0.01;  // of every gap: less is as good as closed
  int n = 3 * w->d->npoint;

  if (!w->barrier) return pb_ok;
  for (int i = 0; i < n; i++) w->step[i] = w->y[i] - w->x[i];
  double share = pbDeform_MaxStepTo(w, w->y, w->step, keep);
  if (share == 1) return pb_ok;

  return pbDeform_Fail(
      w, pb_no_convergence,
      "contact: in a step of %.3g s of the explicit scheme %s would meet; with the velocities at hand they would not "
      "in %.3g s (implicit schemes stop there)",
      w->in.h, pbBarrier_Limit(w->barrier), share * w->in.h);
}

// The potential at x; infinite outside of an energy's domain.
static double potential_at(pbDeformWork *w, const double *x) {
  PB_ASSERT(x);
  double value;
  return pbDeform_Look(w, x, &value, NULL, false, 0) == pb_ok ? value : INFINITY;
}

// The largest of share, share/2, ... of the way of prescribed points that leaves the potential finite.
static double admissible_share(pbDeformWork *w, double share) {
  PB_ASSERT(share >= 0 && share <= 1);
  enum { halvings = 40 };
  int n = 3 * w->d->npoint;

  for (int k = 0; k < halvings; k++, share *= 0.5) {
    for (int i = 0; i < n; i++) w->next_x[i] = w->x[i] - share * w->step[i];
    if (potential_at(w, w->next_x) < INFINITY) return share;
  }

  return 0;
}

// All points go on as they came, prescribed ones where they must: w->next_x; true where that is an admissible start of the
// search, and none worse than leaving the free points behind. What moves as a whole is then at its solution, however fast it
// moves; left behind, elements between prescribed points and others would be torn, inverted, or caught in a false minimum.
static bool predict(pbDeformWork *w) {
  int n = 3 * w->d->npoint;
  if (!w->scheme->inertia) return false;

  for (int i = 0; i < n; i++) {
    w->next_x[i] = w->y[i] + w->in.h * w->v[i];
    w->step[i] = w->y[i] - w->next_x[i];
  }

  if (pbDeform_MaxStep(w, w->y, w->step) < 1) return false;
  double there = potential_at(w, w->next_x);
  if (!(there < INFINITY)) return false;

  pbDeform_PrescribedStep(w);
  pbDeform_MovePrescribed(w, 1);
  bool better = there <= potential_at(w, w->x);
  memcpy(w->x, better ? w->next_x : w->y, (size_t)n * sizeof(double));

  return better;
}

// Where the search begins: the state before; where prescribed coordinates move, the prediction, or the state before with these
// where they go. They must not pass through anything, nor take their neighbors out of an energy's domain: where that stops them,
// the free points are minimized with them there, which makes room, and they go on.
static pbStatus first_guess(pbDeformWork *w) {
  enum { most = 200 };
  memcpy(w->x, w->y, 3 * (size_t)w->d->npoint * sizeof(double));
  if (!pbDeform_PrescribedStep(w) || predict(w)) return pb_ok;

  for (int k = 0; k < most && pbDeform_PrescribedStep(w); k++) {
    double share = admissible_share(w, pbDeform_MaxStep(w, w->x, w->step));
    pbDeform_MovePrescribed(w, share);
    if (share == 1) return pb_ok;

    pbStatus status = minimize(w);
    if (status != pb_ok && status != pb_no_convergence) return status;
  }

  if (!pbDeform_PrescribedStep(w)) return pb_ok;
  return pbDeform_Fail(w, pb_no_convergence, "prescribed points are blocked: no step towards their positions is admissible%s",
                       w->barrier ? "" : " to the energies");
}

// The search begins at positions that the caller has, the solution of a step close by: not where a way of prescribed coordinates
// meets something, nor outside of an energy's domain.
static bool begin_at_guess(pbDeformWork *w) {
  double value;
  if (!w->guess) return false;

  memcpy(w->x, w->guess, 3 * (size_t)w->d->npoint * sizeof(double));
  if (pbDeform_PrescribedStep(w)) {
    if (pbDeform_MaxStep(w, w->x, w->step) < 1) return false;
    pbDeform_MovePrescribed(w, 1);
  }

  return pbDeform_Look(w, w->x, &value, NULL, false, 0) == pb_ok && value < INFINITY;
}

void pbDeform_Finish(const pbDeformWork *w, const double *state, double *next) {
  const pbDeform *d = w->d;
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  double h = w->in.h;

  for (int i = 0; i < n; i++) {
    // h v+ = new x+ + sum next[i] e[i].
    double hv = s->new * w->x[i] + s->next[pb_pastX] * w->y[i] + s->next[pb_pastV] * h * w->v[i];
    if (s->history) hv += s->next[pb_pastX1] * state[at.x1 + i] + s->next[pb_pastV1] * h * state[at.v1 + i];

    // The past of the next step; x before x+, since `next` may be `state`.
    if (at.size > 2 * n) {
      next[at.x1 + i] = w->y[i];
      next[at.v1 + i] = w->v[i];
    }

    next[at.x + i] = w->x[i];
    next[at.v + i] = pbDeform_IsFixed(d, i) ? w->v[i] : hv / h;
  }

  if (at.size > 2 * n) next[at.begun] = 1;
}

static pbStatus take_step(pbDeformWork *w, const pbDeformInput *in, const double *state, double *next) {
  w->report = (pbDeformReport){.converged = true};
  w->preconditioner_valid = false;
  PB_TRY(pbDeform_Begin(w, in, state));

  if (w->scheme->implicit) {
    if (!begin_at_guess(w)) PB_TRY(first_guess(w));
    PB_TRY(minimize(w));
  } else {
    explicit_solution(w);
  }

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    if (isfinite(w->x[i])) continue;
    return pbDeform_Fail(w, pb_not_finite, "point %d becomes %g: the motion grows beyond bounds", i / 3, w->x[i]);
  }

  if (!w->scheme->implicit) PB_TRY(check_explicit_path(w));
  pbDeform_Finish(w, state, next);

  return pb_ok;
}

pbStatus pbDeform_Step(pbDeformWork *w, const pbDeformInput *in, const double *state, double *next) {
  return pbDeform_Settle(w, take_step(w, in, state, next));
}
