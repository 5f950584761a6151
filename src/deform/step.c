// One step: what the past predicts, the solution, what is kept.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/context.h"
#include "deform/deform.h"
#include "deform/project.h"
#include "sparse/krylov.h"

pbStatus pbDeform_Fail(pbDeformWork *w, pbStatus status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(w->error, sizeof w->error, format, args);
  va_end(args);

  return status;
}

// ---- working memory -----------------------------------------------------------------------------------------------
static void layout(pbArena *a, pbDeformWork *w) {
  const pbDeform *d = w->d;
  size_t n = (size_t)d->npoint, p = 3 * (size_t)d->most_points, real = sizeof(double);
  double **of_points[] = {&w->x,      &w->y,     &w->v,        &w->v1,       &w->xhat,   &w->accel,
                          &w->next_x, &w->point, &w->weights,  &w->gradient, &w->step,   &w->adjoint,
                          &w->z_bar,  &w->y_bar, &w->past_bar, &w->ago,      &w->ago_bar};
  int rows = d->options.method == pb_minimiseLbfgs ? 2 * PB_LBFGS_PAIRS : d->options.method == pb_minimiseNewton ? 0 : 4;

  for (size_t i = 0; i < sizeof of_points / sizeof *of_points; i++) *of_points[i] = pbArena_Take(a, 3 * n, real);
  w->history = pbArena_Take(a, 3 * n * (size_t)rows, real);
  w->anchor = pbArena_Take(a, 3 * n, real);
  w->saddle = pbArena_Take(a, d->options.scheme == pb_schemeStatic ? 3 * n : 0, real);
  w->cg_work = pbArena_Take(a, pbCg_WorkSize(3 * d->nfree) + 64, 1);
  w->mass = pbArena_Take(a, n, real);
  w->mass_bar = pbArena_Take(a, n, real);
  w->rhs = pbArena_Take(a, 3 * (size_t)d->nfree, real);
  w->value_out = pbArena_Take(a, PB_DEFORM_CHUNK, real);
  w->gradient_out = pbArena_Take(a, PB_DEFORM_CHUNK * p, real);
  w->hessian_out = pbArena_Take(a, PB_DEFORM_CHUNK * p * p, real);
  w->complex_out = pbArena_Take(a, PB_DEFORM_CHUNK * p, 2 * real);
  w->complex_stencil = pbArena_Take(a, d->collision ? PB_DEFORM_CHUNK * pb_stencilParameters : 0, 2 * real);
  w->complex_z = pbArena_Take(a, 3 * n, 2 * real);
  w->complex_y = pbArena_Take(a, 3 * n, 2 * real);
  w->complex_theta = pbArena_Take(a, d->ntheta, 2 * real);
  w->complex_control = pbArena_Take(a, (size_t)d->ncontrol, 2 * real);
  w->complex_data = pbArena_Take(a, d->ndata, 2 * real);
  w->eigen = pbArena_Take(a, (size_t)pbProject_Room((int)p), real);
  w->parameter = pbArena_Take(a, (size_t)d->most_parameters, sizeof *w->parameter);
  w->parameter_bar = pbArena_Take(a, (size_t)d->most_parameters, sizeof *w->parameter_bar);
  w->parameter_complex = pbArena_Take(a, (size_t)d->most_parameters, sizeof *w->parameter_complex);
  w->stride = pbArena_Take(a, (size_t)d->most_parameters, sizeof *w->stride);
  w->zero_control = pbArena_Take(a, (size_t)d->ncontrol, real);
  w->energy_work = pbArena_Take(a, d->work_bytes, 1);
}

pbStatus pbDeformWork_Create(pbContext *ctx, const pbDeform *d, const pbDeformCapacity *capacity, pbDeformWork **work) {
  pbDeformCapacity room = capacity ? *capacity : (pbDeformCapacity){0};
  pbDeformWork *w = pbContext_Alloc(ctx, sizeof *w);

  *work = NULL;
  if (!w) return pbContext_Fail(ctx, pb_no_memory, "no memory for deformables");
  *w = (pbDeformWork){.d = d, .ctx = ctx};
  pbArena a = pbArena_Measure();
  layout(&a, w);
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
  layout(&a, w);
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
pbStatus pbDeform_Lacks(pbDeformWork *w, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!w->lacks) vsnprintf(w->lacking, sizeof w->lacking, format, args);
  va_end(args);
  w->lacks = true;

  return pbDeform_Fail(w, pb_capacity, "%s", w->lacking);
}

pbStatus pbDeform_Settle(pbDeformWork *w, pbStatus status) {
  return w->lacks ? pbDeform_Fail(w, pb_capacity, "%s", w->lacking) : status;
}

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
static pbStatus acceleration(pbDeformWork *w) {
  const pbDeform *d = w->d;
  int n = 3 * d->npoint;

  memset(w->accel, 0, (size_t)n * sizeof(double));
  if (w->barrier) PB_TRY(pbDeformContact_Update(w, w->y));
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

bool pbScheme_NeedsAcceleration(const pbSchemeTable *s) { return s->start[pb_pastA] != 0; }

pbStatus pbDeform_Begin(pbDeformWork *w, const pbDeformInput *in, const double *state) {
  const pbDeform *d = w->d;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;

  w->in = *in;
  w->lacks = false;
  w->error[0] = 0;
  if (!w->in.control) w->in.control = w->zero_control;
  w->scheme = pbScheme_Table(d->options.scheme, at.size > 2 * n && state[at.begun] == 0);
  PB_TRY(pbDeform_Masses(w));
  memcpy(w->y, state + at.x, (size_t)n * sizeof(double));
  memcpy(w->v, state + at.v, (size_t)n * sizeof(double));
  const pbSchemeTable *s = w->scheme;
  double h = in->h;
  const double *ago = s->ago[0];
  if (w->barrier) PB_TRY(pbDeformContact_Begin(w));
  if (pbScheme_NeedsAcceleration(s)) PB_TRY(acceleration(w));

  for (int i = 0; i < n; i++) {
    w->xhat[i] = s->start[pb_pastX] * w->y[i] + s->start[pb_pastV] * h * w->v[i];
    if (s->history) w->xhat[i] += s->start[pb_pastX1] * state[at.x1 + i] + s->start[pb_pastV1] * h * state[at.v1 + i];
    if (s->start[pb_pastA] != 0) w->xhat[i] += s->start[pb_pastA] * h * h * w->accel[i];
    w->ago[i] = ago[pb_pastX] * w->y[i] + ago[pb_pastV] * h * w->v[i] + (s->history ? ago[pb_pastX1] * state[at.x1 + i] : 0);
  }

  return pb_ok;
}

static pbStatus minimise(pbDeformWork *w) {
  return w->d->options.method == pb_minimiseNewton ? pbDeform_Newton(w) : pbDeform_Minimise(w);
}

// Points on bodies go where those take them.
static bool driven(const pbDeform *d, int i) { return pbDeform_IsFixed(d, i) && d->attached_of[i / 3] < 0; }

bool pbDeform_WayOfFixed(pbDeformWork *w) {
  bool some = false;
  for (int i = 0; i < 3 * w->d->npoint; i++) {
    w->step[i] = driven(w->d, i) ? w->x[i] - (w->y[i] + w->in.h * w->v[i]) : 0;
    some = some || w->step[i] != 0;
  }

  return some;
}

void pbDeform_MoveFixed(pbDeformWork *w, double share) {
  for (int i = 0; i < 3 * w->d->npoint; i++) {
    if (driven(w->d, i)) w->x[i] = share < 1 ? w->x[i] - share * w->step[i] : w->y[i] + w->in.h * w->v[i];
  }
}

// Where the search begins: the state before, with what is fixed where it goes. It must not pass through anything on its way: where gaps
// stop it, what is free gives way before it goes on.
static pbStatus first_guess(pbDeformWork *w) {
  enum { most = 200 };
  size_t n = 3 * (size_t)w->d->npoint * sizeof(double);
  if (!w->scheme->implicit) {
    memcpy(w->x, w->xhat, n);
    for (int i = 0; i < w->d->nattached; i++)
      memcpy(w->x + 3 * w->d->attached[i], w->y + 3 * w->d->attached[i], 3 * sizeof(double));
    pbDeform_MoveFixed(w, 1);

    return pb_ok;
  }

  memcpy(w->x, w->y, n);
  for (int k = 0; k < most && pbDeform_WayOfFixed(w); k++) {
    double share = pbDeform_MaxStep(w, w->x, w->step);
    pbDeform_MoveFixed(w, share);
    if (share == 1) return pb_ok;
    pbStatus status = minimise(w);
    if (status != pb_ok && status != pb_no_convergence) return status;
  }

  return pbDeform_WayOfFixed(w)
             ? pbDeform_Fail(w, pb_no_convergence, "fixed points cannot go where they must: what is in their way has no room")
             : pb_ok;
}

void pbDeform_Finish(const pbDeformWork *w, const double *state, double *next) {
  const pbDeform *d = w->d;
  const pbSchemeTable *s = w->scheme;
  pbDeformState at = pbDeform_State(d);
  int n = 3 * d->npoint;
  double h = w->in.h;

  for (int i = 0; i < n; i++) {
    double hv = s->new * w->x[i] + s->next[pb_pastX] * w->y[i] + s->next[pb_pastV] * h * w->v[i];
    if (s->history) hv += s->next[pb_pastX1] * state[at.x1 + i] + s->next[pb_pastV1] * h * state[at.v1 + i];
    double v = pbDeform_IsFixed(d, i) ? w->v[i] : hv / h;

    if (at.size > 2 * n) {
      next[at.x1 + i] = w->y[i];
      next[at.v1 + i] = w->v[i];
    }

    next[at.x + i] = w->x[i];
    next[at.v + i] = v;
  }

  if (at.size > 2 * n) next[at.begun] = 1;
}

static pbStatus step(pbDeformWork *w, const pbDeformInput *in, const double *state, double *next) {
  w->report = (pbDeformReport){.converged = true};
  w->anchored = false;
  PB_TRY(pbDeform_Begin(w, in, state));
  PB_TRY(first_guess(w));
  if (w->scheme->implicit) PB_TRY(minimise(w));

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    if (isfinite(w->x[i])) continue;
    return pbDeform_Fail(w, pb_not_finite, "point %d becomes %g: the motion grows beyond bounds", i / 3, w->x[i]);
  }

  pbDeform_Finish(w, state, next);
  return pb_ok;
}

pbStatus pbDeform_Step(pbDeformWork *w, const pbDeformInput *in, const double *state, double *next) {
  return pbDeform_Settle(w, step(w, in, state, next));
}
