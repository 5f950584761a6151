// The check of a model's derivatives, a short rollout: derivatives of all states and all sensors by state, control and
// parameters, in reverse and forward mode, against one-sided slopes. A parameter at a bound moves into its domain, any other to
// both sides, where the mean of both counts: at a tie that is the even share. What does not settle as the move shrinks (a jump,
// an onset) is left out.
// Tests: tests/oracle/test_check.py.
#include "check/slopes_inside.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/model.h"
#include "model/state_layout.h"

enum { most_steps = 3 };

// ---- the rollout -----------------------------------------------------------------------------------------------------
static size_t rows(const Slopes *s) { return (size_t)s->steps + 1; }

static double *take_piece(double **next, size_t count) {
  double *piece = *next;
  *next += count;
  return piece;
}

static size_t place_arrays(Slopes *s, double *memory) {
  double *next = memory;
  size_t n = rows(s), controls = (size_t)s->steps * s->nu;
  s->states = take_piece(&next, n * s->nx);
  s->sensors = take_piece(&next, n * s->ns);
  s->states_try = take_piece(&next, n * s->nx);
  s->sensors_try = take_piece(&next, n * s->ns);

  // of each functional: its cotangents and its gradient
  for (int k = 0; k < seen_count; k++) {
    s->w[k] = take_piece(&next, n * (k == in_states ? s->nt : s->ns));
    s->x_bar[k] = take_piece(&next, s->nt);
    s->u_bar[k] = take_piece(&next, controls);
    s->theta_bar[k] = take_piece(&next, s->np);
  }

  // cotangents by quantity, tangents of all rows, and the direction
  s->split = take_piece(&next, n * s->nt);
  s->tangent = take_piece(&next, n * (s->nt + s->ns));
  s->x_direction = take_piece(&next, s->nt);
  s->u_direction = take_piece(&next, controls);
  s->theta_direction = take_piece(&next, s->np);
  s->x = take_piece(&next, s->nx);
  s->x_start = take_piece(&next, s->nx);
  s->u = take_piece(&next, controls);
  s->theta = take_piece(&next, s->np);
  s->theta_near = take_piece(&next, s->np);
  s->change = take_piece(&next, s->nt);
  return (size_t)(next - memory);
}

static pbStatus allocate(Slopes *s) {
  const pbRollout *r = s->d->r;
  s->nx = (size_t)r->nx;
  s->nt = (size_t)r->n;
  s->nv = (size_t)r->nv;
  s->na = (size_t)r->na;
  s->nu = (size_t)r->nu;
  s->ns = (size_t)r->ns;
  s->np = r->ntheta;
  s->points = (size_t)r->np;

  // a step of deformables is worth many of bodies
  int most = s->points ? 2 : most_steps;
  s->steps = r->plan.steps < most ? (int)r->plan.steps : most;

  // once to count, once to place
  double nothing;
  size_t count = place_arrays(s, &nothing);
  s->memory = pbContext_Alloc(r->ctx, count * sizeof *s->memory);
  if (!s->memory) return pbCheck_NoMemory(s->d);
  place_arrays(s, s->memory);

  pbRolloutPlan plan;
  PB_TRY(pbRollout_Plan(r->ctx, r->model, s->steps, 0, &plan));
  return pbRollout_Create(r->ctx, r->model, &plan, NULL, &s->rollout);
}

static void release(Slopes *s) {
  pbRollout_Destroy(s->rollout);
  pbContext_Free(s->d->r->ctx, s->memory);
}

static pbRolloutInput input_of(const Slopes *s, const double *control) {
  pbRolloutInput input = s->d->r->input;
  input.ctrl = s->nu ? control : NULL;
  return input;
}

static pbStatus forward(Slopes *s, const double *x, const double *control, const double *theta, double *states, double *sensors) {
  pbRolloutInput input = input_of(s, control);
  return pbRollout_Forward(s->rollout, theta, x, &input,
                           &(pbRolloutOutput){.states = states, .sensordata = s->ns ? sensors : NULL});
}

// Columns [from, from + width) of every row of the cotangents of states, side by side.
static pbCotangent columns(const Slopes *s, double **next, size_t from, size_t width) {
  pbCotangent c = {.data = width ? *next : NULL, .count = (int)rows(s)};
  for (size_t k = 0; k < rows(s); k++) {
    memcpy(*next, s->w[in_states] + k * s->nt + from, width * sizeof(double));
    *next += width;
  }
  return c;
}

// Gradient of one functional, by all inputs.
static pbStatus pull(Slopes *s, Seen seen) {
  double *next = s->split;

  memset(s->x_bar[seen], 0, s->nt * sizeof(double));
  memset(s->u_bar[seen], 0, (size_t)s->steps * s->nu * sizeof(double));
  memset(s->theta_bar[seen], 0, s->np * sizeof(double));
  pbRolloutBar bar = {0};
  if (seen == in_states) {
    bar.qpos = columns(s, &next, 0, s->nv);
    bar.qvel = columns(s, &next, s->nv, s->nv);
    bar.act = columns(s, &next, 2 * s->nv, s->na);
    bar.points = columns(s, &next, 2 * s->nv + s->na, s->points);
    bar.point_velocity = columns(s, &next, 2 * s->nv + s->na + s->points, s->points);
  } else {
    bar.sensordata = (pbCotangent){.data = s->w[in_sensors], .count = (int)rows(s)};
  }

  pbRolloutGradient out = {.x0 = s->x_bar[seen], .ctrl = s->nu ? s->u_bar[seen] : NULL, .theta = s->theta_bar[seen]};
  pbCertificate certificate;
  PB_TRY(pbRollout_Vjp(s->rollout, &bar, NULL, &out, &certificate));
  s->touching = certificate.most_contacts > 0;
  return pb_ok;
}

// Random functionals and their gradients. The past states that deformables store beside the state have no cotangent.
static pbStatus draw_functionals(Slopes *s) {
  size_t used = 2 * s->nv + s->na + 2 * s->points;
  for (size_t k = 0; k < rows(s); k++) {
    for (size_t i = 0; i < used; i++) s->w[in_states][k * s->nt + i] = pbRng_Normal(&s->d->rng);
    for (size_t i = 0; i < s->ns; i++) s->w[in_sensors][k * s->ns + i] = pbRng_Normal(&s->d->rng);
  }

  // through the same rounding as every moved state
  memcpy(s->x_start, s->d->x0, s->nx * sizeof(double));
  pbState_Move(s->d->r->model, s->x_start, s->x_direction, 0);
  PB_TRY(forward(s, s->x_start, s->d->control, s->d->theta, s->states, s->sensors));
  PB_TRY(pull(s, in_states));

  // magnitude of the terms, for the rounding of differences
  size_t first = (size_t)state_layout(s->d->r->model).qpos, moving = (size_t)s->d->r->model->nq + (size_t)s->d->r->nv;
  for (size_t k = 0; k < rows(s); k++) {
    for (size_t i = 0; i < moving; i++) s->size[in_states] += fabs(s->states[k * s->nx + first + i]);
  }
  for (size_t i = 0; i < rows(s) * s->ns; i++) s->size[in_sensors] += fabs(s->w[in_sensors][i] * s->sensors[i]);
  return s->ns ? pull(s, in_sensors) : pb_ok;
}

// ---- along a direction ---------------------------------------------------------------------------------------------------
// Both functionals after a move by e; NaN where the rollout fails.
static void evaluate_move(Slopes *s, double e, double value[seen_count]) {
  const pbRollout *r = s->d->r;
  value[in_states] = value[in_sensors] = NAN;

  memcpy(s->x, s->d->x0, s->nx * sizeof(double));
  pbState_Move(r->model, s->x, s->x_direction, e);
  for (size_t i = 0; i < (size_t)s->steps * s->nu; i++) s->u[i] = s->d->control[i] + e * s->u_direction[i];
  for (size_t i = 0; i < s->np; i++) s->theta[i] = s->d->theta[i] + e * s->theta_direction[i];

  if (forward(s, s->x, s->u, s->theta, s->states_try, s->sensors_try) != pb_ok) return;

  value[in_states] = 0;
  for (size_t k = 0; k < rows(s); k++) {
    pbState_Difference(r->model, s->states + k * s->nx, s->states_try + k * s->nx, s->change);
    value[in_states] += pbCheck_Dot(s->w[in_states] + k * s->nt, s->change, s->nt);
  }

  value[in_sensors] = 0;
  for (size_t i = 0; i < rows(s) * s->ns; i++) value[in_sensors] += s->w[in_sensors][i] * (s->sensors_try[i] - s->sensors[i]);
}

void pbSlopes_ClearDirections(Slopes *s) {
  memset(s->x_direction, 0, s->nt * sizeof(double));
  memset(s->u_direction, 0, (size_t)s->steps * s->nu * sizeof(double));
  memset(s->theta_direction, 0, s->np * sizeof(double));
}

// Parameters off by some units in their last place, in s->theta_near.
static void draw_near(Slopes *s) {
  for (size_t i = 0; i < s->np; i++)
    s->theta_near[i] = s->d->theta[i] * (1 + 8 * DBL_EPSILON * (pbRng_Uniform(&s->d->rng) - 0.5));
}

static void measure_noise(Slopes *s) {
  const double *theta = s->d->theta;
  double value[seen_count];
  pbSlopes_ClearDirections(s);

  for (int i = 0; i < 3; i++) {
    draw_near(s);
    s->d->theta = s->theta_near;
    evaluate_move(s, 0, value);
    s->d->theta = theta;

    // what changes by more than rounding can make of it jumps there
    for (int k = 0; k < seen_count; k++)
      if (fabs(value[k]) <= 1e-6 * s->size[k]) s->noise[k] = fmax(s->noise[k], fabs(value[k]));
  }
}

// One-sided slope from moves by e, e/2 and e/4, and how far the last two extrapolations are apart.
typedef struct Slope {
  double value, doubt, rounding;  // rounding: its part of the doubt
} Slope;

static void one_sided_slope(Slopes *s, double e, Slope slope[seen_count]) {
  double f[3][seen_count];

  // f(e) / e extrapolated twice (Richardson): each step removes one power of e
  for (int i = 0; i < 3; i++) evaluate_move(s, ldexp(e, -i), f[i]);

  for (int k = 0; k < seen_count; k++) {
    double d[3];
    for (int i = 0; i < 3; i++) d[i] = f[i][k] / ldexp(e, -i);
    double first = 2 * d[1] - d[0], second = 2 * d[2] - d[1];

    // rounding of the terms counts as much more as the move is short
    double rounding = fmax(4e-15 * s->size[k], 4 * s->noise[k]) / fabs(e);
    slope[k] = (Slope){.value = (4 * second - first) / 3, .doubt = fabs(second - first) + rounding, .rounding = rounding};
  }
}

// Moves belong to the model: where what is set would move a state by more than itself (a torque on a body of 1e-13 kg m^2), it is
// set that much smaller.
static void shorten_direction(Slopes *s, double ahead[seen_count]) {
  double most = 0;
  for (size_t i = 0; i < rows(s) * s->nt; i++) most = fmax(most, fabs(s->tangent[i]));
  if (most <= 1 || isinf(most)) return;

  for (size_t i = 0; i < s->nt; i++) s->x_direction[i] /= most;
  for (size_t i = 0; i < (size_t)s->steps * s->nu; i++) s->u_direction[i] /= most;
  for (size_t i = 0; i < s->np; i++) s->theta_direction[i] /= most;
  for (int k = 0; k < seen_count; k++) ahead[k] /= most;
}

// Both functionals' derivatives by forward mode, along the direction.
static pbStatus push_along(Slopes *s, double ahead[seen_count]) {
  pbRolloutTangent out = {.x = s->tangent, .sensordata = s->ns ? s->tangent + rows(s) * s->nt : NULL};
  pbRolloutDirection direction = {.x0 = s->x_direction, .ctrl = s->nu ? s->u_direction : NULL, .theta = s->theta_direction};

  // the moves went elsewhere: tangents belong to the last Forward
  PB_TRY(forward(s, s->x_start, s->d->control, s->d->theta, s->states_try, s->sensors_try));
  PB_TRY(pbRollout_Jvp(s->rollout, 1, &direction, &out));

  ahead[in_states] = pbCheck_Dot(s->w[in_states], s->tangent, rows(s) * s->nt);
  ahead[in_sensors] = pbCheck_Dot(s->w[in_sensors], s->tangent + rows(s) * s->nt, rows(s) * s->ns);
  return pb_ok;
}

// The direction is shortened by what they say.
pbStatus pbSlopes_Push(Slopes *s, double ahead[seen_count]) {
  PB_TRY(push_along(s, ahead));
  shorten_direction(s, ahead);
  return pb_ok;
}

static double gradient_along(const Slopes *s, Seen seen) {
  return pbCheck_DotAlong(s->x_bar[seen], s->x_direction, s->nt) +
         pbCheck_DotAlong(s->u_bar[seen], s->u_direction, (size_t)s->steps * s->nu) +
         pbCheck_DotAlong(s->theta_bar[seen], s->theta_direction, s->np);
}

// agreement is measured relative to all slopes and a little of the functional's norm
static Verdict judge(const Slopes *s, Seen seen, bool one, bool strict, const Slope *right, const Slope *left) {
  double gradient = gradient_along(s, seen), n = sqrt((double)(rows(s) * (seen == in_states ? s->nt : s->ns)));
  Verdict v = {.gradient = gradient, .right = right->value, .left = one ? right->value : left->value};
  double doubt = right->doubt + (one ? 0 : left->doubt);
  double size = fabs(v.right) + fabs(v.left) + fabs(gradient) + 1e-4 * n;

  double error = fabs(gradient - 0.5 * (v.right + v.left));
  v.bent = fabs(v.right - v.left) > 1e-4 * size + 10 * doubt;

  // at a bend, either side will do unless the mean is required
  if (v.bent && !strict) error = fmin(error, fmin(fabs(gradient - v.right), fabs(gradient - v.left)));
  v.known = doubt <= 1e-4 * size;
  v.drowned = right->rounding + (one ? 0 : left->rounding) > 1e-4 * size;
  v.error = fmax(0, error - doubt) / size;
  return v;
}

// What all bodies weigh: the solver's forces are exact to rounding of the largest.
static double weight_of(const Slopes *s) {
  pbField mass, gravity;
  const pbModel *m = s->d->r->model;
  double sum = 0;

  if (!pbModel_Field(m, "body_mass", &mass) || !pbModel_Field(m, "gravity", &gravity)) return 0;

  for (int i = 0; i < mass.rows * mass.cols; i++) sum += mass.reals[i];
  return sum * pbCheck_Norm(gravity.reals, 3);
}

// Does a move by e leave some friction loss too small to be told from rounding?
static bool drowns(const Slopes *s, double e) {
  const pbParam *p = s->dry;
  if (!p) return false;

  for (size_t i = 0; i < (size_t)p->rows * (size_t)p->cols; i++) {
    double move = fabs(e * s->theta_direction[p->offset + i]) / 4;
    if (move > 0 && move < 16 * DBL_EPSILON * weight_of(s)) return true;
  }
  return false;
}

static const double move_sizes[] = {1e-4, 1e-6, 1e-8};
enum { sizes = sizeof move_sizes / sizeof *move_sizes };

// Does a loss of the least move hold what moves: less than half of a joint's velocity is left, or more than that comes to it?
static bool is_held(const Slopes *s, size_t dof) {
  static const double rest_speed = 1e-10;  // what is slower is at rest: there losses hold, and their slope is zero
  size_t at = (size_t)state_layout(s->d->r->model).qvel + dof;
  bool held = false;

  for (size_t k = 1; k < rows(s); k++) {
    double own = s->states[k * s->nx + at], moved = s->states_try[k * s->nx + at];
    held = held || (fabs(own) > rest_speed && fabs(moved - own) > 0.5 * fabs(own));
  }
  return held;
}

int pbSlopes_LeaveHeld(Slopes *s, const pbParam *p) {
  double value[seen_count];
  int count = 0;
  if (strcmp(p->name, "dof_frictionloss") != 0) return 0;

  evaluate_move(s, move_sizes[sizes - 1] / 4, value);
  for (size_t i = 0; i < s->nv; i++) {
    double *move = s->theta_direction + p->offset + i;
    if (*move == 0 || !is_held(s, i)) continue;
    *move = 0;
    count++;
  }
  return count;
}

// Compares along the directions that are set, at the first step size that agrees with the gradient, else at the most certain one.
void pbSlopes_Measure(Slopes *s, bool one, bool strict, Verdict v[seen_count], double limit) {
  for (int i = 0; i < sizes; i++) {
    Slope right[seen_count], left[seen_count];
    bool settled = true;
    one_sided_slope(s, move_sizes[i], right);
    if (!one) one_sided_slope(s, -move_sizes[i], left);

    for (int k = 0; k < seen_count; k++) {
      Verdict now = judge(s, k, one, strict, &right[k], &left[k]);
      now.known = now.known && !drowns(s, move_sizes[i]);

      // certain ones before doubtful ones, then the smaller error
      bool better = i == 0 || (now.known && (!v[k].known || now.error < v[k].error));
      if (better) v[k] = now;
      settled = settled && v[k].known && v[k].error <= limit;
    }

    if (settled) return;
  }
}

// ---- tests ---------------------------------------------------------------------------------------------------------------
void pbSlopes_AddWords(pbCheckTest *t, const char *before, const char *name, const char *what) {
  size_t used = strlen(t->words);
  if (used + 120 > sizeof t->words) return;
  snprintf(t->words + used, sizeof t->words - used, "%s%s%s%s", used ? "; " : before, name ? name : "", name ? " " : "", what);
}

// Which test a functional's slope belongs to; NULL: none. States that move by their state and control are tested step by step.
pbCheckTest *pbSlopes_TestOf(Slopes *s, Kind kind, Seen seen) {
  if (seen == in_states) return kind == by_parameter && s->nt ? s->tests[0] : NULL;
  return s->tests[1 + kind];
}

const char *pbSlopes_Place(const Verdict *v, bool one) {
  if (v->bent) return "at a tie or kink";
  return one ? "at its bound" : "";
}

// One functional's verdict; true where it holds or says nothing.
static bool count_verdict(const Comparison *c, const Verdict *v, pbCheckTest *t) {
  if (!v->known) {
    t->skipped++;
    pbSlopes_AddWords(t, "left out: ", c->name,
                      v->drowned ? "is too small to see beside rounding"
                                 : "does not settle: a jump, an onset, or a sensor that looks elsewhere");
    return true;
  }

  if (v->error > t->limit && c->excused) {
    t->skipped++;
    pbSlopes_AddWords(t, "left out: ", c->name, c->excused);
    return true;
  }

  t->tried++;
  if (!(v->error <= t->worst)) t->worst = v->error;
  if (v->error <= t->limit) return true;

  // of a test that fails nothing else is told
  if (t->holds) t->words[0] = 0;
  t->holds = false;
  pbSlopes_AddWords(t, "disagrees: ", c->name, pbSlopes_Place(v, c->one));
  return false;
}

// What sensors look at in the rows after a move by e.
static uint64_t looks_after(Slopes *s, double e) {
  double value[seen_count];
  uint64_t looks = 0;
  evaluate_move(s, e, value);

  for (size_t k = 0; k < rows(s); k++) {
    pbInput input = pbRollout_InputAt(s->d->r, (int)k);
    pbStatus status;
    do {
      memcpy(s->x, s->states_try + k * s->nx, s->nx * sizeof(double));
      status = pbStep_Forward(s->d->r->model, s->theta, s->x, &input, s->d->scratch, NULL);
    } while (pbScratch_Grow(s->d->scratch, &status));
    if (status == pb_ok) looks = looks * 1099511628211u ^ pbTrace_Of(s->d->r->model, s->d->scratch).looks;
  }
  return looks;
}

// Whether sensors look at something else after the least move to one side than to the other: another pair or feature is as near.
static bool looks_differ(Slopes *s) { return looks_after(s, 1e-6) != looks_after(s, -1e-6); }

// How far both derivatives of a functional move with parameters by some units in their last place: what rounding leaves of them.
static pbStatus derivative_noise(Slopes *s, Seen seen, double ahead, double back, double *noise) {
  const double *theta = s->d->theta;
  double moved[seen_count];
  pbStatus status = pb_ok;

  *noise = 0;

  for (int i = 0; i < 3 && status == pb_ok; i++) {
    draw_near(s);

    s->d->theta = s->theta_near;
    status = push_along(s, moved);
    if (status == pb_ok) status = pull(s, seen);
    s->d->theta = theta;

    *noise = fmax(*noise, fabs(moved[seen] - ahead) + fabs(gradient_along(s, seen) - back));
  }

  PB_TRY(status);
  PB_TRY(forward(s, s->x_start, s->d->control, theta, s->states_try, s->sensors_try));
  return pull(s, seen);
}

// Slopes against reverse mode, forward mode against reverse mode. wrong: one of them disagrees.
pbStatus pbSlopes_Compare(Slopes *s, const Comparison *c, Verdict v[seen_count], bool *wrong) {
  static const double dot_limit = 1e-9;
  double ahead[seen_count];
  *wrong = false;
  PB_TRY(pbSlopes_Push(s, ahead));
  pbSlopes_Measure(s, c->one, c->strict, v, s->tests[0]->limit);

  for (int k = 0; k < seen_count; k++) {
    pbCheckTest *t = pbSlopes_TestOf(s, c->kind, k);
    if (!t) continue;

    // both differentiate the same program: only rounding may tell them apart
    double back = v[k].gradient, apart = fabs(ahead[k] - back) / (fabs(ahead[k]) + fabs(back) + 1e-4), noise = 0;
    if (!(apart <= dot_limit)) PB_TRY(derivative_noise(s, k, ahead[k], back, &noise));
    if (!(apart <= dot_limit) && !(fabs(ahead[k] - back) < 10 * noise)) {
      t->holds = false;
      *wrong = true;
      pbSlopes_AddWords(t, "", c->name, "differs between forward and reverse mode");
    }

    Comparison own = *c;
    if (k == in_sensors && v[k].bent && v[k].error > t->limit && looks_differ(s))
      own.excused = "at a tie of what a sensor looks at";
    if (s->tied && !own.excused) own.excused = "at a tie of contacts, named below";
    if (!count_verdict(&own, &v[k], t)) *wrong = true;
  }
  return pb_ok;
}

// A random direction of all controls, into the range of those at its end. Whether there is one.
static bool draw_controls(Slopes *s) {
  bool one = false;
  pbSlopes_ClearDirections(s);

  for (size_t i = 0; i < (size_t)s->steps * s->nu; i++) {
    double span, move = pbRng_Normal(&s->d->rng);
    int side = pbCheck_ControlSide(s->d, (int)(i % s->nu), &span);
    s->u_direction[i] = side ? side * fabs(move) : move;
    one = one || side;
  }
  return one;
}

static pbStatus compare_all(Slopes *s) {
  Verdict v[seen_count];
  bool wrong = false;
  PB_TRY(draw_functionals(s));
  measure_noise(s);
  s->tied = pbCheck_FirstTie(s->d, s->states, s->steps) >= 0;
  PB_TRY(pbSlopes_Parameters(s));

  // states by state and control are tested step by step: here the sensors alone
  pbSlopes_ClearDirections(s);
  for (size_t i = 0; i < s->nt; i++) s->x_direction[i] = pbRng_Normal(&s->d->rng);
  if (s->ns) PB_TRY(pbSlopes_Compare(s, &(Comparison){.kind = by_state}, v, &wrong));

  bool one = draw_controls(s);
  return s->ns && s->nu ? pbSlopes_Compare(s, &(Comparison){.kind = by_control, .one = one}, v, &wrong) : pb_ok;
}

pbStatus pbCheck_Slopes(pbCheck *d) {
  static const char *const names[slope_tests] = {"differences, states by parameters", "differences, sensors by state",
                                                 "differences, sensors by control", "differences, sensors by parameters"};
  Slopes s = {.d = d, .first_test = d->report->test_count};

  // sensors by state and parameters where there are sensors, by control where there are controls, too
  for (int i = 0; i < slope_tests; i++) {
    bool there = i == 0 || (d->r->ns > 0 && (i != 2 || d->r->nu > 0));
    if (there) s.tests[i] = pbCheck_AddTest(d, names[i], 1e-4);
  }

  pbStatus status = allocate(&s);
  if (status == pb_ok) status = compare_all(&s);
  release(&s);
  return status;
}
