#include "couple/couple.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/context.h"
#include "model/state_layout.h"

// ---- memory -----------------------------------------------------------------------------------------------------------
static void layout(pbArena *a, const pbModel *m, pbCouple *c) {
  const pbDeform *d = m->deform;
  size_t n = (size_t)m->nv, p = 3 * (size_t)d->nrider, real = sizeof(double);
  double **of_acc[] = {&c->g,    &c->at_acc,    &c->acc,  &c->way, &c->slope,  &c->lam,
                       &c->more, &c->trial_acc, &c->unit, &c->tau, &c->tau_way};
  for (size_t i = 0; i < sizeof of_acc / sizeof *of_acc; i++) *of_acc[i] = pbArena_Take(a, n, real);
  double **of_places[] = {&c->riders.x, &c->riders.gradient, &c->x_bar, &c->y_bar, &c->x_way, &c->local_way, &c->force};
  for (size_t i = 0; i < sizeof of_places / sizeof *of_places; i++) *of_places[i] = pbArena_Take(a, p, real);
  c->state = pbArena_Take(a, (size_t)m->deform_state, real);
  c->next_bar = pbArena_Take(a, (size_t)m->deform_tangent, real);
  c->state_bar = pbArena_Take(a, (size_t)m->deform_tangent, real);
  c->K = pbArena_Take(a, n * n, real);
  c->S = pbArena_Take(a, n * n, real);
  c->eigen = pbArena_Take(a, (size_t)pbProject_Room(m->nv), real);
  c->riders.J = pbArena_Take(a, p * n, real);
  c->riders.A = pbArena_Take(a, n * n, real);
  c->riders.B = pbArena_Take(a, n * 3 * (size_t)d->nfree, real);
  c->columns = pbArena_Take(a, n * 3 * (size_t)d->npoint, real);
  c->ride.room = pbArena_Take(a, pbJvp_RideRoom(m, d->nrider), 1);
}

pbStatus pbCouple_Create(pbScratch *s) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple = pbContext_Alloc(s->ctx, sizeof *c);
  if (!c) return pb_no_memory;
  pbArena a = pbArena_Measure();
  layout(&a, m, c);
  size_t needed = pbArena_Needed(&a);
  if (needed == SIZE_MAX || !(c->memory = pbContext_Alloc(s->ctx, needed))) return pb_no_memory;
  a = pbArena_Over(c->memory, needed);
  layout(&a, m, c);
  c->at = (pbAttach){d->nrider, d->rider_body, d->rider_geom, d->rider_size};
  c->riders.n = m->nv;
  c->ride.at = &c->at;
  return pb_ok;
}

void pbCouple_Destroy(pbScratch *s) {
  if (!s->couple) return;
  pbContext_Free(s->ctx, s->couple->memory);
  pbContext_Free(s->ctx, s->couple);
}

// ---- places -----------------------------------------------------------------------------------------------------------
static void put_places(const pbDeform *d, const double *places, double *points) {
  for (int i = 0; i < d->nrider; i++) memcpy(points + 3 * d->rider[i], places + 3 * i, 3 * sizeof(double));
}

static void take_places(const pbDeform *d, const double *points, double *places) {
  for (int i = 0; i < d->nrider; i++) memcpy(places + 3 * i, points + 3 * d->rider[i], 3 * sizeof(double));
}

static void ride_from(pbScratch *s, const double *theta, const double *x) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  pbStateLayout at = state_layout(m);
  c->ride.qpos = x + at.qpos, c->ride.qvel = x + at.qvel, c->ride.acc = c->acc;
  c->ride.local = theta + m->deform_theta + m->deform->local_at;
  c->ride.force = NULL, c->ride.start = false;
}

void pbCouple_Place(pbScratch *s, const double *theta, const double *x, double *points) {
  pbCouple *c = s->couple;
  ride_from(s, theta, x);
  c->ride.start = true;
  pbJvp_RideTheta(s->complex_work, theta, NULL);
  pbJvp_Ride(s->complex_work, &c->ride, &(pbRideWay){NULL}, c->riders.x, NULL, NULL, NULL);
  put_places(s->model->deform, c->riders.x, points);
  c->ride.start = false;
}

// Places after accelerations `acc`, into `points`.
static void place_at(pbScratch *s, const double *acc, double *points) {
  pbCouple *c = s->couple;
  c->ride.acc = acc;
  c->ride.force = NULL;
  pbJvp_Ride(s->complex_work, &c->ride, &(pbRideWay){NULL}, c->riders.x, NULL, NULL, NULL);
  put_places(s->model->deform, c->riders.x, points);
  c->ride.acc = c->acc;
}

// J (force NULL), or K and tau, at c->acc: a column for each degree of freedom.
static void columns_at(pbScratch *s, const double *force) {
  pbCouple *c = s->couple;
  int n = c->riders.n, p = 3 * c->at.count;
  c->ride.force = force;
  memset(c->unit, 0, (size_t)n * sizeof(double));
  for (int k = 0; k < n; k++) {
    c->unit[k] = 1;
    pbJvp_Ride(s->complex_work, &c->ride, &(pbRideWay){.acc = c->unit}, NULL, c->x_way, c->tau, c->tau_way);
    c->unit[k] = 0;
    for (int i = 0; i < p && !force; i++) c->riders.J[i * n + k] = c->x_way[i];
    for (int i = 0; i < n && force; i++) c->K[i * n + k] = c->tau_way[i];
  }
}

// ---- the coupled system -----------------------------------------------------------------------------------------------
// Value, gradients and matrices at (c->acc, w->x): J, riders.gradient, K, A, B, tau, the factor of Hxx (definite: made so).
static pbStatus look(pbScratch *s, bool exact, double *value) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int negative;
  place_at(s, c->acc, w->x);
  columns_at(s, NULL);
  if (exact) {
    PB_TRY(pbDeform_Look(w, w->x, value, w->gradient, true, 0));
    PB_TRY(pbDeformMatrix_Factor(w, &negative));
  } else {
    PB_TRY(pbDeform_LookDefinite(w, w->x, value, w->gradient));
  }
  columns_at(s, c->riders.gradient);
  return pb_ok;
}

// columns := Hxx^-1 B' (a row for each degree of freedom), S := (A + K - B columns) / h^4, g := (tau - B x_part) / h^4 with
// x_part = Hxx^-1 of the free points' gradient, left in w->step.
static pbStatus eliminate(pbScratch *s) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;
  int n = c->riders.n, width = 3 * d->nfree, all = 3 * d->npoint;
  double h4 = pow(w->in.h, 4);
  memcpy(w->step, w->gradient, (size_t)all * sizeof(double));
  PB_TRY(pbDeform_Solve(w, false, w->step));
  for (int k = 0; k < n; k++) {
    double *column = c->columns + (size_t)k * (size_t)all;
    memset(column, 0, (size_t)all * sizeof(double));
    for (int i = 0; i < d->nfree; i++) memcpy(column + 3 * d->point[i], c->riders.B + k * width + 3 * i, 3 * sizeof(double));
    PB_TRY(pbDeform_Solve(w, false, column));
  }
  for (int k = 0; k < n; k++) {
    double sum = c->tau[k];
    for (int i = 0; i < width; i++) sum -= c->riders.B[k * width + i] * w->step[3 * d->point[i / 3] + i % 3];
    c->g[k] = sum / h4;
    for (int l = 0; l < n; l++) {
      double entry = c->riders.A[k * n + l] + c->K[k * n + l];
      for (int i = 0; i < width; i++)
        entry -= c->riders.B[k * width + i] * c->columns[(size_t)l * (size_t)all + (size_t)(3 * d->point[i / 3] + i % 3)];
      c->S[k * n + l] = entry / h4;
    }
  }
  for (int k = 0; k < n; k++) {
    for (int l = 0; l < k; l++) c->S[k * n + l] = c->S[l * n + k] = 0.5 * (c->S[k * n + l] + c->S[l * n + k]);
  }
  memcpy(c->at_acc, c->acc, (size_t)n * sizeof(double));
  return pb_ok;
}

static void hand_over(pbScratch *s, bool on) {
  pbCouple *c = s->couple;
  s->w.couple_S = on ? c->S : NULL;
  s->w.couple_g = c->g, s->w.couple_at = c->at_acc;
}

// ---- the step -----------------------------------------------------------------------------------------------------------
// F at (acc, x with places there).
static double total(pbScratch *s, const double *acc, double *x) {
  pbDeformWork *w = s->deform;
  double value;
  place_at(s, acc, x);
  if (pbDeform_Look(w, x, &value, NULL, false, 0) != pb_ok) return INFINITY;
  return pow(w->in.h, 4) * s->variant->cost(&s->w, acc, s->couple->slope) + value;
}

// Places lie on arcs, contact looks along lines: the way from (c->acc, w->x) to the trial in pieces of small turns.
static bool way_is_free(pbScratch *s, double size) {
  static const double turn = 0.25;  // rad
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int n = c->riders.n, all = 3 * w->d->npoint;
  if (!w->barrier) return true;
  int pieces = 1 + (int)fmin(size * w->in.h * w->in.h * pb_largest(c->way, n) / turn, 100);
  double *from = w->z_bar, *to = w->past_bar, *step = w->y_bar;
  memcpy(from, w->x, (size_t)all * sizeof(double));
  for (int p = 1; p <= pieces; p++) {
    double share = (double)p / pieces;
    for (int i = 0; i < n; i++) c->unit[i] = c->acc[i] + share * size * c->way[i];
    for (int i = 0; i < all; i++) to[i] = w->x[i] + share * (w->next_x[i] - w->x[i]);
    place_at(s, c->unit, to);
    for (int i = 0; i < all; i++) step[i] = from[i] - to[i];
    if (pbDeform_MaxStep(w, from, step) < 1) return false;
    double *swap = from;
    from = to, to = swap;
  }
  return true;
}

// One iteration from (c->acc, w->x); *way: the largest way of a point, or of accelerations times h^2, to Newton's next place; *moved: whether
// the search found one on it that is no worse, and farther than the tolerance: one so near that its value differs by rounding is no find.
static pbStatus iterate(pbScratch *s, double tolerance, double *way, bool *moved) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;
  int n = c->riders.n, all = 3 * d->npoint, p = 3 * d->nrider;
  double h2 = w->in.h * w->in.h, h4 = h2 * h2, value, size = 1;
  PB_TRY(look(s, false, &value));
  PB_TRY(eliminate(s));
  memcpy(c->trial_acc, c->acc, (size_t)n * sizeof(double));
  hand_over(s, true);
  pbStatus status = s->variant->again(&s->w, c->trial_acc);
  if (status == pb_singular) {  // S bends downwards more than the masses hold
    pbProject_Definite(c->S, n, 1, c->eigen);
    status = s->variant->again(&s->w, c->trial_acc);
  }
  hand_over(s, false);
  if (status != pb_ok) return pbScratch_Explain(s, status);
  for (int k = 0; k < n; k++) c->way[k] = c->trial_acc[k] - c->acc[k];
  for (int k = 0; k < n; k++) {  // x - step: step = Hxx^-1 (gradient + B' way)
    for (int i = 0; i < all; i++) w->step[i] += c->columns[(size_t)k * (size_t)all + (size_t)i] * c->way[k];
  }
  double before = value + h4 * s->variant->cost(&s->w, c->acc, c->slope);
  double slope = pb_dot(w->gradient, w->step, all) - pb_dot(c->tau, c->way, n) - h4 * pb_dot(c->slope, c->way, n);
  for (int i = 0; i < p; i++) c->x_way[i] = pb_dot(c->riders.J + i * n, c->way, n);
  for (int i = 0; i < d->nrider; i++) {
    for (int k = 0; k < 3; k++) w->step[3 * d->rider[i] + k] = -c->x_way[3 * i + k];
  }
  *moved = false;
  *way = fmax(pb_largest(w->step, all), h2 * pb_largest(c->way, n));
  if (!(*way < INFINITY)) return pbScratch_Fail(s, pb_not_finite, "a step of bodies and deformables is not finite");
  size = pbDeform_MaxStep(w, w->x, w->step);
  for (int k = 0; k < 60; k++, size *= 0.5) {
    for (int i = 0; i < n; i++) c->trial_acc[i] = c->acc[i] + size * c->way[i];
    for (int i = 0; i < all; i++) w->next_x[i] = w->x[i] - size * w->step[i];
    if (!(total(s, c->trial_acc, w->next_x) <= before - 1e-4 * size * slope + 1e-13 * fabs(before))) continue;
    if (!way_is_free(s, size)) continue;
    memcpy(c->acc, c->trial_acc, (size_t)n * sizeof(double));
    memcpy(w->x, w->next_x, (size_t)all * sizeof(double));
    *moved = k == 0 || size * *way > tolerance;
    break;
  }
  return pb_ok;
}

static pbStatus solve(pbScratch *s) {
  pbDeformWork *w = s->deform;
  const pbDeformOptions *o = &w->d->options;
  int most = o->iterations ? o->iterations : 100;
  double tolerance = o->tolerance > 0 ? o->tolerance : 1e-10 * w->d->size, way = INFINITY;
  bool moved = true;
  w->report = (pbDeformReport){0};
  w->project = 0;
  while (way > tolerance && moved && w->report.iterations < most) {
    w->report.iterations++;
    PB_TRY(iterate(s, tolerance, &way, &moved));
  }
  w->report.converged = way <= tolerance;
  w->report.change = way, w->report.residual = way / w->d->size;
  if (w->report.converged || o->approximate) return pb_ok;
  return pbScratch_Fail(
      s, pb_no_convergence,
      "the step of bodies and deformables did not converge: after %d iterations Newton's method would still move "
      "points by %.3g m (tolerance %.3g)%s",
      w->report.iterations, way, tolerance, moved ? "" : ", and nothing on that way is better: the search ended");
}

// Fixed points to where they go, as far as gaps allow; what is free, and bodies, give way in between.
static pbStatus drive(pbScratch *s) {
  enum { most = 200 };
  pbDeformWork *w = s->deform;
  for (int k = 0; k < most && pbDeform_WayOfFixed(w); k++) {
    double share = pbDeform_MaxStep(w, w->x, w->step);
    pbDeform_MoveFixed(w, share);
    if (share == 1) return pb_ok;
    pbStatus status = solve(s);
    if (status != pb_ok && status != pb_no_convergence) return status;
  }
  return pbDeform_WayOfFixed(w)
             ? pbScratch_Fail(s, pb_no_convergence, "fixed points cannot go where they must: what is in their way has no room")
             : pb_ok;
}

// Start of the deformables' part: their state with the points on bodies where those are.
static pbStatus begin(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *state) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  int at = state_layout(m).deform;
  pbDeformInput in = pbDeformInput_Of(m, theta, x, input);
  in.ticks = s->ticks;
  memcpy(state, x + at, (size_t)m->deform_state * sizeof(double));
  pbCouple_Place(s, theta, x, state);
  for (int i = 0; i < d->nrider; i++) memset(state + 3 * d->npoint + 3 * d->rider[i], 0, 3 * sizeof(double));
  return pbDeform_Begin(s->deform, &in, state);
}

static pbStatus step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense, double *next) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int at = state_layout(m).deform;
  double *state = next + at;
  pbScratch_Load(s, theta, x, input);
  hand_over(s, false);
  PB_TRY(pbScratch_Run(s, false, false));
  PB_TRY(begin(s, theta, x, input, state));
  memcpy(w->x, w->y, 3 * (size_t)w->d->npoint * sizeof(double));
  // Bodies left to themselves may go through what lies before them; where nothing moves, all is as it was.
  for (int i = 0; i < m->nv; i++) c->acc[i] = -s->w.qvel[i] / w->in.h;
  pbStatus status = drive(s);
  if (status == pb_ok) status = solve(s);
  PB_TRY(status);
  double value;
  PB_TRY(look(s, true, &value));
  PB_TRY(eliminate(s));
  memcpy(s->stages, c->acc, (size_t)m->nv * sizeof(double));
  hand_over(s, true);
  status = s->variant->run(&s->w, s->stages, true, sense, true);
  hand_over(s, false);
  if (status != pb_ok) return pbScratch_Explain(s, status);
  pbDeform_Finish(w, state, state);
  pbScratch_State(s, s->w.time + w->in.h, next);
  return pb_ok;
}

// Text of the deformables where nobody said more; pb_capacity where room was too small, whatever came of that.
static pbStatus settle(pbScratch *s, pbStatus status, unsigned failures) {
  pbDeformWork *w = s->deform;
  bool said = s->failures != failures && !w->lacks;
  status = pbDeform_Settle(w, status);
  if (status == pb_ok || said) return status;
  return pbScratch_Fail(s, status, "%s at time %.9g", *w->error ? w->error : pbStatus_Text(status), s->w.time);
}

pbStatus pbCouple_Step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense, double *next) {
  unsigned failures = s->failures;
  return settle(s, step(s, theta, x, input, sense, next), failures);
}

// ---- pullback ---------------------------------------------------------------------------------------------------------
static void split(const double *v, int n, double *out) {
  for (int i = 0; out && i < n; i++) out[i] += v[i];
}

// Derivative of c . places + lam . tau (both of the step's end) and y . places (of its start) along what was loaded and `way`.
static double along(pbScratch *s, const pbRideWay *way, const double *c_bar, const double *force, const double *y_bar) {
  pbCouple *c = s->couple;
  int n = c->riders.n, p = 3 * c->at.count;
  c->ride.force = force;
  pbJvp_Ride(s->complex_work, &c->ride, way, NULL, c->x_way, NULL, c->tau_way);
  double sum = pb_dot(c_bar, c->x_way, p) - pb_dot(c->lam, c->tau_way, n);
  c->ride.start = true, c->ride.force = NULL;
  pbJvp_Ride(s->complex_work, &c->ride, way, NULL, c->x_way, NULL, NULL);
  c->ride.start = false;
  return sum + pb_dot(y_bar, c->x_way, p);
}

// Parameters that places hang on, by the rows of their fields.
static void pull_field(pbScratch *s, const double *theta, const double *field, int rows, int cols, bool unit, const double *c_bar,
                       const double *y_bar, double *theta_bar) {
  const pbModel *m = s->model;
  for (int i = 0; i < rows * cols; i++) {
    size_t entry = (size_t)(field - m->theta0) + (size_t)i;
    pbJvp_RidePoke(s->complex_work, theta, entry, i % cols, cols, unit, 1);
    theta_bar[entry] += along(s, &(pbRideWay){NULL}, c_bar, s->couple->force, y_bar);
    pbJvp_RidePoke(s->complex_work, theta, entry, i % cols, cols, unit, 0);
  }
}

static void pull_parameters(pbScratch *s, const double *theta, const double *c_bar, const double *y_bar, double *theta_bar) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  pull_field(s, theta, m->timestep, 1, 1, false, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->body_pos, m->nbody, 3, false, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->body_quat, m->nbody, 4, true, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->jnt_pos, m->njnt, 3, false, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->jnt_axis, m->njnt, 3, true, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->qpos0, m->nq, 1, false, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->geom_pos, m->ngeom, 3, false, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->geom_quat, m->ngeom, 4, true, c_bar, y_bar, theta_bar);
  pull_field(s, theta, m->geom_size, m->ngeom, 3, false, c_bar, y_bar, theta_bar);
  double *local_bar = theta_bar + m->deform_theta + d->local_at;
  memset(c->local_way, 0, 3 * (size_t)d->nrider * sizeof(double));
  for (int i = 0; i < 3 * d->nrider; i++) {
    c->local_way[i] = 1;
    local_bar[i] += along(s, &(pbRideWay){.local = c->local_way}, c_bar, c->force, y_bar);
    c->local_way[i] = 0;
  }
}

static void pull_places(pbScratch *s, const double *theta, const double *c_bar, const double *y_bar, double *x_bar,
                        double *theta_bar) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  const double *force = c->force;
  memset(c->unit, 0, (size_t)m->nv * sizeof(double));
  for (int k = 0; k < m->nv; k++) {
    c->unit[k] = 1;
    x_bar[k] += along(s, &(pbRideWay){.q = c->unit}, c_bar, force, y_bar);
    x_bar[m->nv + k] += along(s, &(pbRideWay){.v = c->unit}, c_bar, force, y_bar);
    c->unit[k] = 0;
  }
  if (theta_bar) pull_parameters(s, theta, c_bar, y_bar, theta_bar);
}

static pbStatus vjp(pbScratch *s, const double *theta, const double *record, const pbInput *input, const double *next_bar,
                    pbPullback *pull, double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int nv = m->nv, tangent = 2 * nv + m->na, all = 3 * d->npoint, width = 3 * d->nfree;
  double h4, value;
  const double *next = record + pbTape_Size(m) - pb_deformRecord(m);
  pbDeformBar bar = pbDeformBar_Of(m, input_bar, theta_bar);
  pbScratch_Load(s, theta, record, input);
  PB_TRY(begin(s, theta, record, input, c->state));
  h4 = pow(w->in.h, 4);
  memcpy(c->acc, record + tape_stages(m), (size_t)nv * sizeof(double));
  memcpy(c->next_bar, next_bar + tangent, (size_t)m->deform_tangent * sizeof(double));
  memset(c->state_bar, 0, (size_t)m->deform_tangent * sizeof(double));
  take_places(d, c->next_bar, c->x_bar);
  for (int i = 0; i < d->nrider; i++) memset(c->next_bar + all + 3 * d->rider[i], 0, 3 * sizeof(double));
  pbDeform_VjpBegin(w, c->state, next, c->next_bar);
  PB_TRY(look(s, true, &value));
  PB_TRY(eliminate(s));
  PB_TRY(pbDeform_Solve(w, true, w->adjoint));
  pbDeform_VjpPast(w, next, c->next_bar, c->state_bar, &bar);
  for (int k = 0; k < nv; k++) {
    c->more[k] = 0;
    for (int i = 0; i < width; i++) c->more[k] -= c->riders.B[k * width + i] * w->adjoint[3 * d->point[i / 3] + i % 3];
    for (int i = 0; i < 3 * d->nrider; i++) c->more[k] += c->riders.J[i * nv + k] * c->x_bar[i];
  }
  pull->qacc = c->more, pull->lam = c->lam;
  hand_over(s, true);
  pbStatus status = s->variant->vjp_one(s->adjoint_one, &s->w, record + tape_stages(m), pull);
  hand_over(s, false);
  PB_TRY(status);
  for (int k = 0; k < nv; k++) {
    c->lam[k] /= h4;
    for (int i = 0; i < all; i++) w->adjoint[i] -= c->columns[(size_t)k * (size_t)all + (size_t)i] * c->lam[k];
  }
  for (int i = 0; i < 3 * d->nrider; i++) w->adjoint[3 * d->rider[i / 3] + i % 3] = pb_dot(c->riders.J + i * nv, c->lam, nv);
  // h^4 stands before the bodies' part; of the points' VjpEnd takes h^2.
  if (bar.h) *bar.h += 2 / w->in.h * pb_dot(c->lam, c->tau, nv);
  PB_TRY(pbDeform_VjpEnd(w, c->next_bar, c->state_bar, &bar));
  take_places(d, w->y_bar, c->y_bar);
  for (int i = 0; i < d->nrider; i++) {  // what VjpEnd took for fixed points, and gave to a state that is not read
    for (int k = 0; k < 3; k++) {
      int at = 3 * d->rider[i] + k;
      c->x_bar[3 * i + k] += w->z_bar[at];
      if (bar.h) *bar.h -= (c->next_bar[at] + w->z_bar[at]) * w->v[at];
      c->state_bar[at] = c->state_bar[all + at] = 0;
    }
  }
  split(c->state_bar, m->deform_tangent, x_bar + tangent);
  ride_from(s, theta, record);
  pbJvp_RideTheta(s->complex_work, theta, NULL);
  memcpy(c->force, c->riders.gradient, 3 * (size_t)d->nrider * sizeof(double));
  pull_places(s, theta, c->x_bar, c->y_bar, x_bar, theta_bar);
  return pb_ok;
}

pbStatus pbCouple_Vjp(pbScratch *s, const double *theta, const double *record, const pbInput *input, const double *next_bar,
                      pbPullback *pull, double *x_bar, const pbInputBar *input_bar, double *theta_bar) {
  unsigned failures = s->failures;
  return settle(s, vjp(s, theta, record, input, next_bar, pull, x_bar, input_bar, theta_bar), failures);
}

// ---- forward derivative -----------------------------------------------------------------------------------------------
// Places on their way: at the end of the step to c->x_way (with tau's to c->tau_way), at its start to c->y_bar.
static void push_places(pbScratch *s, const double *theta, const double *record, const pbDirection *dir) {
  const pbModel *m = s->model;
  pbCouple *c = s->couple;
  const double *local = dir->theta ? dir->theta + m->deform_theta + m->deform->local_at : NULL;
  pbRideWay way = {.q = dir->x, .v = dir->x ? dir->x + m->nv : NULL, .local = local};
  ride_from(s, theta, record);
  pbJvp_RideTheta(s->complex_work, theta, dir->theta);
  c->ride.start = true;
  pbJvp_Ride(s->complex_work, &c->ride, &way, NULL, c->y_bar, NULL, NULL);
  c->ride.start = false, c->ride.force = c->force;
  pbJvp_Ride(s->complex_work, &c->ride, &way, NULL, c->x_way, NULL, c->tau_way);
}

static pbStatus jvp(pbScratch *s, const double *theta, const double *record, const pbInput *input, const pbDirection *dir,
                    double *next_way, double *sensordata, double *xpos, double *site_xpos) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int nv = m->nv, tangent = 2 * nv + m->na, all = 3 * d->npoint, width = 3 * d->nfree;
  double value, h4;
  const double *next = record + pbTape_Size(m) - pb_deformRecord(m);
  pbDeformDirection way = pbDeformDirection_Of(m, dir);
  pbScratch_Load(s, theta, record, input);
  PB_TRY(begin(s, theta, record, input, c->state));
  h4 = pow(w->in.h, 4);
  memcpy(c->acc, record + tape_stages(m), (size_t)nv * sizeof(double));
  memcpy(w->x, next, (size_t)all * sizeof(double));
  PB_TRY(look(s, true, &value));
  PB_TRY(eliminate(s));
  memcpy(c->force, c->riders.gradient, 3 * (size_t)d->nrider * sizeof(double));
  push_places(s, theta, record, dir);
  memset(c->state_bar, 0, (size_t)m->deform_tangent * sizeof(double));
  if (way.state) memcpy(c->state_bar, way.state, (size_t)m->deform_tangent * sizeof(double));
  for (int i = 0; i < 3 * d->nrider; i++) {
    int k = 3 * d->rider[i / 3] + i % 3;
    c->state_bar[k] = c->y_bar[i], c->state_bar[all + k] = 0;
  }
  way.state = c->state_bar;
  PB_TRY(pbDeform_JvpBegin(w, c->state, next, &way, c->x_way));
  for (int k = 0; k < nv; k++) {
    c->more[k] = c->tau_way[k] - 2 * way.h / w->in.h * c->tau[k];
    for (int i = 0; i < 3 * d->nrider; i++) c->more[k] -= c->riders.J[i * nv + k] * w->step[3 * d->rider[i / 3] + i % 3];
  }
  PB_TRY(pbDeform_Solve(w, false, w->step));
  for (int k = 0; k < nv; k++) {
    for (int i = 0; i < width; i++) c->more[k] += c->riders.B[k * width + i] * w->step[3 * d->point[i / 3] + i % 3];
    c->more[k] /= h4;
  }
  pbJvp_Couple(s->complex_work, c->S, c->g, c->more, c->at_acc);
  pbStatus status = pbJvp_Run(s->complex_work, theta, record, input, c->acc, dir, true, next_way, sensordata, xpos, site_xpos);
  pbJvp_Acceleration(s->complex_work, c->way);
  pbJvp_Couple(s->complex_work, NULL, NULL, NULL, NULL);
  PB_TRY(status);
  for (int k = 0; k < nv; k++) {
    for (int i = 0; i < all; i++) w->step[i] -= c->columns[(size_t)k * (size_t)all + (size_t)i] * c->way[k];
  }
  for (int i = 0; i < 3 * d->nrider; i++)
    w->z_bar[3 * d->rider[i / 3] + i % 3] = c->x_way[i] + pb_dot(c->riders.J + i * nv, c->way, nv);
  pbDeform_JvpEnd(w, c->state, next, &way, next_way + tangent);
  for (int i = 0; i < 3 * d->nrider; i++) next_way[tangent + all + 3 * d->rider[i / 3] + i % 3] = 0;
  return pb_ok;
}

pbStatus pbCouple_Jvp(pbScratch *s, const double *theta, const double *record, const pbInput *input, const pbDirection *dir,
                      double *next_way, double *sensordata, double *xpos, double *site_xpos) {
  return pbDeform_Settle(s->deform, jvp(s, theta, record, input, dir, next_way, sensordata, xpos, site_xpos));
}

// ---- points on bodies that rest ---------------------------------------------------------------------------------------
const double *pbCouple_State(pbScratch *s, const double *theta, const double *x) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  memcpy(c->state, x + state_layout(m).deform, (size_t)m->deform_state * sizeof(double));
  pbCouple_Place(s, theta, x, c->state);
  for (int i = 0; i < d->nrider; i++) memset(c->state + 3 * d->npoint + 3 * d->rider[i], 0, 3 * sizeof(double));
  return c->state;
}

pbRestingBar pbCouple_RestBegin(pbScratch *s, const double *next_bar) {
  const pbDeform *d = s->model->deform;
  pbCouple *c = s->couple;
  size_t bytes = (size_t)s->model->deform_tangent * sizeof(double);
  memcpy(c->next_bar, next_bar, bytes);
  memset(c->state_bar, 0, bytes);
  for (int i = 0; i < d->nrider; i++) memset(c->next_bar + 3 * d->npoint + 3 * d->rider[i], 0, 3 * sizeof(double));
  return (pbRestingBar){c->next_bar, c->state_bar};
}

void pbCouple_RestEnd(pbScratch *s, const double *theta, const double *x, double *x_bar, double *theta_bar) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  size_t places = 3 * (size_t)d->nrider * sizeof(double);
  take_places(d, c->state_bar, c->y_bar);  // where a place stays, its end is its start
  for (int i = 0; i < d->nrider; i++) {
    memset(c->state_bar + 3 * d->rider[i], 0, 3 * sizeof(double));
    memset(c->state_bar + 3 * d->npoint + 3 * d->rider[i], 0, 3 * sizeof(double));
  }
  split(c->state_bar, m->deform_tangent, x_bar);
  if (!theta_bar) return;
  memset(c->x_bar, 0, places), memset(c->force, 0, places);
  memset(c->lam, 0, (size_t)m->nv * sizeof(double)), memset(c->acc, 0, (size_t)m->nv * sizeof(double));
  ride_from(s, theta, x);
  pbJvp_RideTheta(s->complex_work, theta, NULL);
  pull_parameters(s, theta, c->x_bar, c->y_bar, theta_bar);
}

const double *pbCouple_RestWay(pbScratch *s, const double *theta, const double *x, const pbDirection *dir) {
  const pbModel *m = s->model;
  const pbDeform *d = m->deform;
  pbCouple *c = s->couple;
  size_t bytes = (size_t)m->deform_tangent * sizeof(double);
  memset(c->state_bar, 0, bytes);
  if (dir->x) memcpy(c->state_bar, dir->x + 2 * m->nv + m->na, bytes);
  memset(c->force, 0, 3 * (size_t)d->nrider * sizeof(double)), memset(c->acc, 0, (size_t)m->nv * sizeof(double));
  push_places(s, theta, x, dir);
  for (int i = 0; i < 3 * d->nrider; i++) {
    int k = 3 * d->rider[i / 3] + i % 3;
    c->state_bar[k] = c->y_bar[i], c->state_bar[3 * d->npoint + k] = 0;
  }
  return c->state_bar;
}
