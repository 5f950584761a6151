// Differences of a short rollout: all states, and all sensors, by state, control and parameters, against reverse and forward mode.
// A parameter at a bound moves into its domain, any other to both sides, where the mean of both counts: at a tie that is the even
// share. What does not settle as the move shrinks (a jump, an onset) is left out.
#include "slopes.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { most_steps = 3, blamed = 60 };
typedef enum Kind { by_state, by_control, by_parameter } Kind;
typedef enum Seen { in_states, in_sensors, seen_count } Seen;
typedef enum Set {
  inside,
  zeros,
  edges,
  set_count
} Set;  // of a parameter's entries: that have a size, that are zero, at a bound

typedef struct Slopes {
  cliRun *run;
  pbRng *rng;
  cliSlopes *out;
  pbRollout *rollout;
  int steps;
  bool touching;            // there are contacts
  double size[seen_count];  // of the terms of a functional, for what rounding leaves of its differences
  size_t nx, nt, nv, na, nu, ns, np, points;
  double *states, *sensors, *states_try, *sensors_try;  // (steps + 1) rows
  double *w[seen_count];                                // cotangents: (steps + 1, nt), (steps + 1, ns)
  double *split;                                        // the first by quantity
  double *x_bar[seen_count], *u_bar[seen_count], *theta_bar[seen_count];
  double *x_way, *u_way, *theta_way, *x_start, *x, *u, *theta, *change, *tangent, *memory;
} Slopes;

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// Without what the way leaves out: that may be infinite.
static double along(const double *bar, const double *way, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    if (way[i] != 0) sum += bar[i] * way[i];
  }
  return sum;
}

// ---- the rollout -----------------------------------------------------------------------------------------------------
static size_t rows(const Slopes *s) { return (size_t)s->steps + 1; }

static double *take(double **next, size_t count) {
  double *piece = *next;
  *next += count;
  return piece;
}

static size_t layout(Slopes *s, double *memory) {
  double *next = memory;
  size_t n = rows(s), controls = (size_t)s->steps * s->nu;
  s->states = take(&next, n * s->nx), s->sensors = take(&next, n * s->ns);
  s->states_try = take(&next, n * s->nx), s->sensors_try = take(&next, n * s->ns);
  for (int k = 0; k < seen_count; k++) {
    s->w[k] = take(&next, n * (k == in_states ? s->nt : s->ns));
    s->x_bar[k] = take(&next, s->nt), s->u_bar[k] = take(&next, controls), s->theta_bar[k] = take(&next, s->np);
  }
  s->split = take(&next, n * s->nt), s->tangent = take(&next, n * (s->nt + s->ns));
  s->x_way = take(&next, s->nt), s->u_way = take(&next, controls), s->theta_way = take(&next, s->np);
  s->x = take(&next, s->nx), s->x_start = take(&next, s->nx), s->u = take(&next, controls), s->theta = take(&next, s->np),
  s->change = take(&next, s->nt);
  return (size_t)(next - memory);
}

static pbStatus begin(Slopes *s) {
  const cliRun *run = s->run;
  pbRolloutPlan plan;
  s->nx = (size_t)run->nx, s->nt = (size_t)run->nt, s->nv = (size_t)run->nv, s->na = (size_t)run->na, s->nu = (size_t)run->nu;
  s->ns = (size_t)run->nsensordata, s->np = run->ntheta, s->points = 3 * (size_t)pbModel_PointCount(run->model);
  int most = s->points ? 2 : most_steps;
  s->steps = run->steps < most ? (int)run->steps : most;
  double nothing;
  size_t count = layout(s, &nothing);
  s->memory = pbContext_Alloc(run->ctx, count * sizeof *s->memory);
  if (!s->memory) return pbContext_Fail(run->ctx, pb_no_memory, "out of memory");
  layout(s, s->memory);
  PB_TRY(pbRollout_Plan(run->ctx, run->model, s->steps, 0, &plan));
  return pbRollout_Create(run->ctx, run->model, &plan, NULL, &s->rollout);
}

static void end(Slopes *s) {
  pbRollout_Destroy(s->rollout);
  pbContext_Free(s->run->ctx, s->memory);
}

static pbRolloutInput input_of(const Slopes *s, const double *control) {
  return (pbRolloutInput){.ctrl = s->nu ? control : NULL, .qfrc = s->run->qfrc, .xfrc = s->run->xfrc};
}

static pbStatus forward(Slopes *s, const double *x, const double *control, const double *theta, double *states, double *sensors) {
  pbRolloutInput input = input_of(s, control);
  return pbRollout_Forward(s->rollout, theta, x, &input,
                           &(pbRolloutOutput){.states = states, .sensordata = s->ns ? sensors : NULL});
}

// Columns [from, from + width) of every row of the cotangents of states, side by side.
static pbCotangent columns(const Slopes *s, double **next, size_t from, size_t width) {
  pbCotangent c = {.data = width ? *next : NULL, .count = (int)rows(s)};
  for (size_t k = 0; k < rows(s); k++, *next += width) memcpy(*next, s->w[in_states] + k * s->nt + from, width * sizeof(double));
  return c;
}

static pbStatus pull(Slopes *s, Seen seen) {
  double *next = s->split;
  pbRolloutBar bar = {0};
  if (seen == in_states) {
    bar.qpos = columns(s, &next, 0, s->nv), bar.qvel = columns(s, &next, s->nv, s->nv);
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

// Random functionals, and their gradients. What deformables keep of the past beside states has no cotangent.
static pbStatus gradients(Slopes *s) {
  size_t used = 2 * s->nv + s->na + 2 * s->points;
  for (size_t k = 0; k < rows(s); k++) {
    for (size_t i = 0; i < used; i++) s->w[in_states][k * s->nt + i] = pbRng_Normal(s->rng);
    for (size_t i = 0; i < s->ns; i++) s->w[in_sensors][k * s->ns + i] = pbRng_Normal(s->rng);
  }
  memcpy(s->x_start, s->run->x0, s->nx * sizeof(double));
  pbState_Move(s->run->model, s->x_start, s->x_way, 0);  // as every other is moved, to the last digit
  PB_TRY(forward(s, s->x_start, s->run->control, s->run->theta, s->states, s->sensors));
  PB_TRY(pull(s, in_states));
  size_t first = (size_t)cliRun_StateField(s->run, "qpos").offset, moving = (size_t)(s->run->nq + s->run->nv);
  for (size_t k = 0; k < rows(s); k++) {
    for (size_t i = 0; i < moving; i++) s->size[in_states] += fabs(s->states[k * s->nx + first + i]);
  }
  for (size_t i = 0; i < rows(s) * s->ns; i++) s->size[in_sensors] += fabs(s->w[in_sensors][i] * s->sensors[i]);
  return s->ns ? pull(s, in_sensors) : pb_ok;
}

// ---- along a way -------------------------------------------------------------------------------------------------------
// Both functionals after a move by e; NaN where the rollout fails.
static void evaluate(Slopes *s, double e, double value[seen_count]) {
  const cliRun *run = s->run;
  value[in_states] = value[in_sensors] = NAN;
  memcpy(s->x, run->x0, s->nx * sizeof(double));
  pbState_Move(run->model, s->x, s->x_way, e);
  for (size_t i = 0; i < (size_t)s->steps * s->nu; i++) s->u[i] = run->control[i] + e * s->u_way[i];
  for (size_t i = 0; i < s->np; i++) s->theta[i] = run->theta[i] + e * s->theta_way[i];
  if (forward(s, s->x, s->u, s->theta, s->states_try, s->sensors_try) != pb_ok) return;
  value[in_states] = 0;
  for (size_t k = 0; k < rows(s); k++) {
    pbState_Difference(run->model, s->states + k * s->nx, s->states_try + k * s->nx, s->change);
    value[in_states] += dot(s->w[in_states] + k * s->nt, s->change, s->nt);
  }
  value[in_sensors] = 0;
  for (size_t i = 0; i < rows(s) * s->ns; i++) value[in_sensors] += s->w[in_sensors][i] * (s->sensors_try[i] - s->sensors[i]);
}

// Slope to one side, from moves by e, e/2 and e/4, and how far it still is from settling.
typedef struct Slope {
  double value, doubt;
} Slope;

static void one_side(Slopes *s, double e, Slope slope[seen_count]) {
  double f[3][seen_count];
  for (int i = 0; i < 3; i++) evaluate(s, ldexp(e, -i), f[i]);
  for (int k = 0; k < seen_count; k++) {
    double d[3];
    for (int i = 0; i < 3; i++) d[i] = f[i][k] / ldexp(e, -i);
    double first = 2 * d[1] - d[0], second = 2 * d[2] - d[1];
    slope[k] = (Slope){.value = (4 * second - first) / 3, .doubt = fabs(second - first) + 4e-15 * s->size[k] / fabs(e)};
  }
}

// Sum of forward mode's products.
static pbStatus push(Slopes *s, double ahead[seen_count]) {
  pbRolloutTangent out = {.x = s->tangent, .sensordata = s->ns ? s->tangent + rows(s) * s->nt : NULL};
  pbRolloutDirection way = {.x0 = s->x_way, .ctrl = s->nu ? s->u_way : NULL, .theta = s->theta_way};
  PB_TRY(forward(s, s->x_start, s->run->control, s->run->theta, s->states_try, s->sensors_try));
  PB_TRY(pbRollout_Jvp(s->rollout, 1, &way, &out));
  ahead[in_states] = dot(s->w[in_states], s->tangent, rows(s) * s->nt);
  ahead[in_sensors] = dot(s->w[in_sensors], s->tangent + rows(s) * s->nt, rows(s) * s->ns);
  return pb_ok;
}

static double gradient_along(const Slopes *s, Seen seen) {
  return along(s->x_bar[seen], s->x_way, s->nt) + along(s->u_bar[seen], s->u_way, (size_t)s->steps * s->nu) +
         along(s->theta_bar[seen], s->theta_way, s->np);
}

// How a gradient stands to the slopes of both sides (one: only to the right). strict: at a bend, to their mean.
typedef struct Verdict {
  bool known, bent;
  double gradient, right, left, error;
} Verdict;

static Verdict judge(const Slopes *s, Seen seen, bool one, bool strict, const Slope *right, const Slope *left) {
  double gradient = gradient_along(s, seen), n = sqrt((double)(rows(s) * (seen == in_states ? s->nt : s->ns)));
  Verdict v = {.gradient = gradient, .right = right->value, .left = one ? right->value : left->value};
  double doubt = right->doubt + (one ? 0 : left->doubt), size = fabs(v.right) + fabs(v.left) + fabs(gradient) + 1e-4 * n;
  double wanted = 0.5 * (v.right + v.left), error = fabs(gradient - wanted);
  v.bent = fabs(v.right - v.left) > 1e-4 * size + 10 * doubt;
  if (v.bent && !strict) error = fmin(error, fmin(fabs(gradient - v.right), fabs(gradient - v.left)));
  v.known = doubt <= 1e-4 * size;
  v.error = fmax(0, error - doubt) / size;
  return v;
}

// The slopes along the ways that are set, by the first size of move that agrees with the gradient or else the surer one.
static void look(Slopes *s, bool one, bool strict, Verdict v[seen_count], double limit) {
  static const double sizes[] = {1e-4, 1e-6, 1e-8};
  for (int i = 0; i < 3; i++) {
    Slope right[seen_count], left[seen_count];
    bool settled = true;
    one_side(s, sizes[i], right);
    if (!one) one_side(s, -sizes[i], left);
    for (int k = 0; k < seen_count; k++) {
      Verdict now = judge(s, k, one, strict, &right[k], &left[k]);
      bool better = i == 0 || (now.known && (!v[k].known || now.error < v[k].error));
      if (better) v[k] = now;
      settled = settled && v[k].known && v[k].error <= limit;
    }
    if (settled) return;
  }
}

// ---- tests ---------------------------------------------------------------------------------------------------------------
static void say(cliSlopeTest *t, const char *begin_with, const char *name, const char *what) {
  size_t used = strlen(t->words);
  if (used + 120 > sizeof t->words) return;
  snprintf(t->words + used, sizeof t->words - used, "%s%s%s%s", used ? "; " : begin_with, name ? name : "", name ? " " : "",
           what);
}

static void clear_ways(Slopes *s) {
  memset(s->x_way, 0, s->nt * sizeof(double));
  memset(s->u_way, 0, (size_t)s->steps * s->nu * sizeof(double));
  memset(s->theta_way, 0, s->np * sizeof(double));
}

// Which test a functional's slope belongs to; NULL: none.
static cliSlopeTest *test_of(Slopes *s, Kind kind, Seen seen) {
  cliSlopeTest *t = s->out->tests;
  if (seen == in_states) return kind == by_parameter ? &t[0] : NULL;  // by state and control: step by step elsewhere
  return s->ns ? &t[1 + kind] : NULL;
}

static pbStatus compare(Slopes *s, Kind kind, bool one, bool strict, const char *name, const char *excused, bool *wrong,
                        Verdict v[seen_count]) {
  static const double dot_limit = 1e-9;
  double ahead[seen_count];
  look(s, one, strict, v, s->out->tests[0].limit);
  PB_TRY(push(s, ahead));
  for (int k = 0; k < seen_count; k++) {
    cliSlopeTest *t = test_of(s, kind, k);
    double back = v[k].gradient, apart = fabs(ahead[k] - back) / (fabs(ahead[k]) + fabs(back) + 1e-4);
    if (!t) continue;
    if (!(apart <= dot_limit)) {
      t->holds = false;
      if (wrong) *wrong = true;
      say(t, "", name, "differs forwards and backwards");
    }
    if (!v[k].known) {
      t->skipped++;
      continue;
    }
    if (v[k].error > t->limit && excused) {
      t->skipped++;
      say(t, "left out: ", name, excused);
      continue;
    }
    t->tried++;
    if (!(v[k].error <= t->worst)) t->worst = v[k].error;
    if (v[k].error <= t->limit) continue;
    t->holds = false;
    if (wrong) *wrong = true;
    say(t, "disagrees: ", name, v[k].bent ? "at a tie or kink" : one ? "at its bound" : "");
  }
  return pb_ok;
}

// ---- parameters --------------------------------------------------------------------------------------------------------
static Set set_of(const Slopes *s, const pbParam *p, int row, int column, pbBend *bend) {
  *bend = pbBend_At(s->run->model, s->run->theta, p, row, column);
  if (bend->kind == pb_bendLower || bend->kind == pb_bendUpper) return edges;
  if (bend->kind == pb_bendFlat) return set_count;
  return s->run->theta[p->offset + (size_t)(row * p->cols + column)] == 0 ? zeros : inside;
}

// Random direction of the entries of one set; how many they are. Zeros move by a part of what the field has elsewhere.
static int draw(Slopes *s, const pbParam *p, Set set) {
  double *way = s->theta_way, most = 0;
  int count = 0;
  clear_ways(s);
  cliCheck_DrawParameter(s->run, s->rng, p, way);
  for (size_t i = 0; i < (size_t)p->rows * (size_t)p->cols; i++) most = fmax(most, fabs(s->run->theta[p->offset + i]));
  for (int r = 0; r < p->rows; r++) {
    for (int c = 0; c < p->cols; c++) {
      size_t at = p->offset + (size_t)(r * p->cols + c);
      pbBend bend;
      Set own = set_of(s, p, r, c, &bend);
      double size = 0.5 + pbRng_Uniform(s->rng);
      if (own != set) way[at] = 0;
      else if (set == zeros) way[at] = 0.1 * (most > 0 ? fmin(most, 1) : 0.1) * pbRng_Normal(s->rng);
      else if (set == edges) way[at] = size * (bend.at != 0 ? fabs(bend.at) : 0.1) * (bend.kind == pb_bendUpper ? -1 : 1);
      count += way[at] != 0;
    }
    // a rest band of no width moves as one: its ends cannot pass each other
    const double *value = s->run->theta + p->offset + r * p->cols;
    if (strcmp(p->name, "tendon_lengthspring") == 0 && value[0] == value[1])
      way[p->offset + (size_t)(2 * r + 1)] = way[p->offset + (size_t)(2 * r)];
  }
  return count;
}

// Forces at a limit and ends of ranges: where a value just has that of its limit it is free, whatever lies beyond.
static bool has_limits(const pbParam *p) {
  return strncmp(p->name, "actuator_", 9) == 0 || strstr(p->name, "range") || strcmp(p->name, "sensor_cutoff") == 0;
}

static bool ends_with(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && strcmp(text + n - m, suffix) == 0;
}

// The entries of a set that are wrong alone.
static pbStatus blame(Slopes *s, const pbParam *p, Set set) {
  bool unit = ends_with(p->name, "quat") || strcmp(p->name, "jnt_axis") == 0;  // no entry moves alone
  size_t first = p->offset, count = (size_t)p->rows * (size_t)p->cols;
  int tried = 0, named = 0;
  for (size_t i = first; i < first + count && tried < blamed && named < 2 && !unit; i++) {
    pbBend bend;
    Verdict v[seen_count];
    char name[120], what[160];
    int row = (int)(i - first) / p->cols, column = (int)(i - first) % p->cols;
    if (set_of(s, p, row, column, &bend) != set) continue;
    clear_ways(s);
    s->theta_way[i] = (set == inside ? fabs(s->run->theta[i]) : 0.1) * (bend.kind == pb_bendUpper ? -1 : 1);
    look(s, set == edges, !has_limits(p), v, s->out->tests[0].limit);
    tried++;
    for (int k = 0; k < seen_count; k++) {
      cliSlopeTest *t = test_of(s, by_parameter, k);
      if (!t || !v[k].known || v[k].error <= t->limit) continue;
      double scale = 1 / s->theta_way[i];
      named++;
      const char *place = set == edges ? " at its bound" : v[k].bent ? " at a tie or kink" : "";
      snprintf(what, sizeof what, "has gradient %.4g%s, difference %.4g", v[k].gradient * scale, place,
               0.5 * (v[k].right + v[k].left) * scale);
      say(t, "", pbModel_ParamName(s->run->model, i, name, sizeof name), what);
    }
  }
  return pb_ok;
}

static const char *entry_name(const Slopes *s, size_t entry, char *text, size_t size) {
  return pbModel_ParamName(s->run->model, entry, text, size);
}

// The first tie of a field that bends, for the report.
static void note_bend(Slopes *s, const pbParam *p) {
  char name[90], other[90];
  for (int i = 0; i < p->rows * p->cols && s->out->bend_count < slopes_bends; i++) {
    pbBend bend = pbBend_At(s->run->model, s->run->theta, p, i / p->cols, i % p->cols);
    if (bend.kind != pb_bendTie) continue;
    cliBend *b = &s->out->bends[s->out->bend_count++];
    entry_name(s, p->offset + (size_t)i, name, sizeof name), entry_name(s, bend.other, other, sizeof other);
    snprintf(b->where, sizeof b->where, "%s", name);
    snprintf(
        b->why, sizeof b->why,
        "has the value %.4g of %s, and only one of the two counts: the slopes to both sides differ, and the gradient is half of "
        "each. Move one of them, or both together.",
        bend.at, other);
    return;
  }
}

// The first entry of a field whose bound the gradient looks away from, for the report.
static void note_bound(Slopes *s, const pbParam *p) {
  char name[90];
  for (int i = 0; i < p->rows * p->cols && s->out->bend_count < slopes_bends; i++) {
    pbBend bend = pbBend_At(s->run->model, s->run->theta, p, i / p->cols, i % p->cols);
    size_t at = p->offset + (size_t)i;
    if ((bend.kind != pb_bendLower && bend.kind != pb_bendUpper) || s->theta_bar[in_states][at] == 0) continue;
    cliBend *b = &s->out->bends[s->out->bend_count++];
    snprintf(b->where, sizeof b->where, "%s", entry_name(s, at, name, sizeof name));
    snprintf(b->why, sizeof b->why, "is at its bound %.4g; the gradient is that towards %s values.", bend.at,
             bend.kind == pb_bendLower ? "larger" : "smaller");
    return;
  }
}

// Where shapes touch, other features of them may meet as soon as they are moved or turned (differences by step tell more of that).
static const char *excuse(const Slopes *s, const pbParam *p) {
  static const char *const places[] = {"geom_pos",  "geom_quat", "geom_size", "body_pos",
                                       "body_quat", "jnt_pos",   "jnt_axis",  "qpos0"};
  for (size_t i = 0; s->touching && i < sizeof places / sizeof *places; i++) {
    if (strcmp(p->name, places[i]) == 0) return "where shapes touch, whose features may change";
  }
  return NULL;
}

static pbStatus by_parameters(Slopes *s) {
  for (int i = 0; i < pbModel_ParamCount(s->run->model); i++) {
    pbParam p = pbModel_ParamAt(s->run->model, i);
    for (Set set = 0; set < set_count; set++) {
      Verdict v[seen_count];
      bool wrong = false;
      if (!draw(s, &p, set)) continue;
      PB_TRY(compare(s, by_parameter, set == edges, !has_limits(&p), p.name, excuse(s, &p), &wrong, v));
      if (wrong) PB_TRY(blame(s, &p, set));
      if (set == edges && p.lower == 0 && strstr(p.name, "frictionloss")) note_bound(s, &p);
      if (v[in_states].known && v[in_states].bent && !wrong) note_bend(s, &p);
    }
  }
  return pb_ok;
}

static pbStatus every_kind(Slopes *s) {
  Verdict v[seen_count];
  PB_TRY(gradients(s));
  PB_TRY(by_parameters(s));
  clear_ways(s);
  for (size_t i = 0; i < s->nt; i++) s->x_way[i] = pbRng_Normal(s->rng);
  if (s->ns) PB_TRY(compare(s, by_state, false, false, NULL, NULL, NULL, v));
  clear_ways(s);
  for (size_t i = 0; i < (size_t)s->steps * s->nu; i++) s->u_way[i] = pbRng_Normal(s->rng);
  return s->ns && s->nu ? compare(s, by_control, false, false, NULL, NULL, NULL, v) : pb_ok;
}

pbStatus cliSlopes_Run(cliRun *run, pbRng *rng, cliSlopes *slopes) {
  static const char *const names[slopes_most] = {"differences, states by parameters", "differences, sensors by state",
                                                 "differences, sensors by control", "differences, sensors by parameters"};
  Slopes s = {.run = run, .rng = rng, .out = slopes};
  for (int i = 0; i < slopes_most; i++) {
    bool there = i == 0 || (run->nsensordata > 0 && (i != 2 || run->nu > 0));
    slopes->tests[i] = (cliSlopeTest){.name = there ? names[i] : NULL, .limit = 1e-4, .holds = true};
  }
  pbStatus status = begin(&s);
  if (status == pb_ok) status = every_kind(&s);
  end(&s);
  return status;
}
