// pullback check, the gradient doctor: a short rollout of the user's model, its derivatives tested from several sides, and
// in words what is wrong, where and why.
//   dot product   <w, J d> = <J' w, d> with jvp (complex step of the same source) and vjp (hand-written adjoint), every step
//   Jacobians     w A, w B, w C, w D of the full Jacobians = the pullback of w
//   differences   <w, J d> against Richardson differences of the model's own step; kinks are found, named and left out
//   slopes        states and sensors of a short rollout against differences to one side and both, bounds and ties of parameters included
//   Taylor        |f(x + e d) - f(x) - e <g, d>| falls as e^2 over the whole rollout, along the gradient and random directions
//   --mode        with event or smooth: <w, J d> = <J' w, d> of that gradient over the whole rollout
//   certificate   residual of the solver, growth of the costate, contacts that come and go
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include <pullback/random.h>

#include "cli.h"
#include "slopes.h"

enum {
  MOST_TESTS = 24,
  MOST_FINDINGS = 64,
  WORDS = 320,
  MOST_HORIZON = 10000,
  TAYLOR_POINTS = 14,
  DIFFERENCE_STEPS = 12,
  MOST_EVENTS = 6
};
static const char solver_test[] = "solver converged", finite_test[] = "derivatives exist";
static const double dot_limit = 1e-10, difference_limit = 1e-6, residual_limit = 1e-8, penetration_limit = 0.1;

typedef struct Test {
  char name[48];
  int tried, skipped;  // cases that counted, and those left out (kinks, no reliable difference)
  double worst, limit;
  long step;  // of the worst; -1: none
  bool holds;
  char words[WORDS];  // what is wrong, or left out
} Test;

typedef struct Finding {
  char what[96], where[96], why[WORDS];
} Finding;

typedef struct Trace {  // what a step saw: tells a kink from an error
  int contacts, rows;
  uint64_t active;  // hash of which rows push
  double normals;   // of all contacts, in one sum
} Trace;

typedef struct Doctor {
  cliRun *run;
  pbRng rng;
  int nt, nx, nu, ns, nr;  // nr: tape record
  size_t np;
  double *records;    // (N, nr)
  double *states;     // (N + 1, nx)
  Trace *traces;      // N
  pbReport *reports;  // N
  double *theta_way;  // a direction of theta
  double *theta_bar, *theta_try;
  double *work;  // several vectors of max(nt, nx, nu, ns)
  size_t width;
  Test tests[MOST_TESTS];
  int test_count;
  Finding findings[MOST_FINDINGS];
  int finding_count;
  pbCertificate certificate;
  pbGradientKind mode;
} Doctor;

static double *vector(const Doctor *d, int i) { return d->work + (size_t)i * d->width; }

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// The product along a way, without what the way leaves out: that may be infinite.
static double along(const double *bar, const double *way, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    if (way[i] != 0) sum += bar[i] * way[i];
  }
  return sum;
}

static double norm(const double *a, size_t n) { return sqrt(dot(a, a, n)); }

static void draw(Doctor *d, double *out, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = pbRng_Normal(&d->rng);
}

static Test *add_test(Doctor *d, const char *name, double limit) {
  Test *t = &d->tests[d->test_count < MOST_TESTS - 1 ? d->test_count++ : MOST_TESTS - 1];
  *t = (Test){.limit = limit, .step = -1, .holds = true};
  snprintf(t->name, sizeof t->name, "%s", name);
  return t;
}

__attribute__((format(printf, 4, 5))) static void find(Doctor *d, const char *what, const char *where, const char *why, ...) {
  if (d->finding_count == MOST_FINDINGS) return;
  Finding *f = &d->findings[d->finding_count++];
  snprintf(f->what, sizeof f->what, "%s", what);
  snprintf(f->where, sizeof f->where, "%s", where);
  va_list args;
  va_start(args, why);
  vsnprintf(f->why, sizeof f->why, why, args);
  va_end(args);
}

static void count_case(Test *t, double error, long step) {
  t->tried++;
  if (!(error <= t->limit)) t->holds = false;
  if (t->step >= 0 && !(error > t->worst) && !isnan(error)) return;
  t->worst = isnan(error) ? (double)NAN : error;  // without a sign
  t->step = step;
}

// ---- the rollout ---------------------------------------------------------------------------------------------------

static Trace trace_of(const Doctor *d) {
  pbReport r = pbScratch_Report(d->run->scratch);
  Trace t = {.contacts = r.contacts, .rows = r.rows, .active = 1469598103934665603u};
  const double *data = NULL;
  int rows = 0, cols = 0;
  pbScratch_Gather(d->run->scratch);
  if (pbScratch_Field(d->run->scratch, "efc_force", &data, &rows, &cols)) {
    for (int i = 0; i < rows * cols; i++) t.active = (t.active ^ (data[i] != 0 ? 2u : 1u)) * 1099511628211u;
  }
  if (pbScratch_Field(d->run->scratch, "contact_frame", &data, &rows, &cols)) {
    for (int i = 0; i < 3 * rows; i++) t.normals += cos(i + 1) * data[i / 3 * cols + i % 3];
    // Those of bodies; barriers of deformables come and go smoothly.
    if (pbModel_ContactSettings(d->run->model).method != pb_contactImpact) t.contacts = rows;
  }
  return t;
}

// What a difference between two traces means.
static const char *kink_name(const Trace *a, const Trace *b) {
  if (a->contacts < b->contacts) return "contact onset";
  if (a->contacts > b->contacts) return "contact release";
  if (a->rows != b->rows) return "a limit or friction row that appears or goes";
  if (a->active != b->active) return "a constraint that starts or stops pushing";
  return "a clamp, a tie or a change of feature in a contact";
}

static bool same_trace(const Trace *a, const Trace *b) {
  return a->contacts == b->contacts && a->rows == b->rows && a->active == b->active;
}

static pbStatus walk(Doctor *d) {
  cliRun *run = d->run;
  memcpy(d->states, run->x0, (size_t)d->nx * sizeof *d->states);
  for (long k = 0; k < run->steps; k++) {
    double *x = d->states + (size_t)(k + 1) * (size_t)d->nx;
    memcpy(x, x - d->nx, (size_t)d->nx * sizeof *x);
    pbInput input = cliRun_Input(run, k);
    pbStatus status;
    do {
      status = pbStep_Forward(run->model, run->theta, x, &input, run->scratch, NULL);
    } while (pbScratch_Grow(run->scratch, &status));
    if (status != pb_ok) return cliRun_StepFailed(run, status, k);
    PB_TRY(cliRun_CheckState(run, x, k));
    pbTape_Record(run->model, x - d->nx, run->scratch, d->records + (size_t)k * (size_t)d->nr);
    d->reports[k] = pbScratch_Report(run->scratch);
    cliRun_NoteSolve(run, k);
    d->traces[k] = trace_of(d);
  }
  return pb_ok;
}

// Controls that make the model move: inside their ranges where they have one.
static bool has_random_controls(const cliRun *run) {
  return run->nu && !run->task && !run->app->args.text[opt_control] && !run->app->args.text[opt_keyframe];
}

static void random_controls(Doctor *d) {
  const cliRun *run = d->run;
  pbField limited;
  pbParam range;
  bool known = pbModel_Field(run->model, "actuator_ctrllimited", &limited) &&
               pbModel_Param(run->ctx, run->model, "actuator_ctrlrange", &range) == pb_ok;
  for (long k = 0; k < run->steps; k++) {
    for (int i = 0; i < run->nu; i++) {
      double low = -1, high = 1, start = run->control[(size_t)k * (size_t)run->nu + (size_t)i];
      if (known && i >= limited.rows) {  // deformables': near what was set
        low = start - 0.1 * fabs(start) - 0.01 * (start == 0), high = start + 0.1 * fabs(start) + 0.01 * (start == 0);
      } else if (known && limited.integers[i]) {
        low = run->theta[range.offset + 2 * (size_t)i];
        high = run->theta[range.offset + 2 * (size_t)i + 1];
      }
      run->control[(size_t)k * (size_t)run->nu + (size_t)i] = low + (high - low) * pbRng_Uniform(&d->rng);
    }
  }
}

// Rest is a special state: many kinks (friction, polynomial damping) lie there. Unless a state is given, things move a little.
static void random_velocity(Doctor *d) {
  const cliRun *run = d->run;
  double *way = vector(d, 4);
  memset(way, 0, (size_t)d->nt * sizeof *way);
  draw(d, way + run->nv, (size_t)run->nv);
  size_t np = 3 * (size_t)pbModel_PointCount(run->model);
  draw(d, way + 2 * run->nv + run->na + np, np);
  pbState_Move(run->model, run->x0, way, 0.01);
}

// ---- directions of theta -------------------------------------------------------------------------------------------

// Unit vectors move on their spheres: take out the part along them.
static void project(const double *value, double *way, int n) {
  double along = dot(value, way, (size_t)n), size = dot(value, value, (size_t)n);
  for (int i = 0; i < n && size > 0; i++) way[i] -= value[i] * along / size;
}

static void project_joint_quaternions(const cliRun *run, const pbParam *p, double *way) {
  pbField type, address;
  if (!pbModel_Field(run->model, "jnt_type", &type) || !pbModel_Field(run->model, "jnt_qposadr", &address)) return;
  for (int j = 0; j < type.rows; j++) {
    if (type.integers[j] > 1) continue;
    size_t at = p->offset + (size_t)address.integers[j] + (type.integers[j] == 0 ? 3 : 0);
    project(run->theta + at, way + at, 4);
  }
}

static bool ends_with(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && strcmp(text + n - m, suffix) == 0;
}

// Relative to what is there: zeros (no friction, no margin) stay zero, where many fields have their kinks.
void cliCheck_DrawParameter(const cliRun *run, pbRng *rng, const pbParam *p, double *way) {
  const double *theta = run->theta;
  size_t count = (size_t)p->rows * (size_t)p->cols;
  for (size_t i = 0; i < count; i++) way[p->offset + i] = pbRng_Normal(rng) * fabs(theta[p->offset + i]);
  pbField eq_type = {0};
  bool weld = strcmp(p->name, "eq_data") == 0 && pbModel_Field(run->model, "eq_type", &eq_type);
  for (int r = 0; r < p->rows; r++) {
    size_t at = p->offset + (size_t)r * (size_t)p->cols;
    if (ends_with(p->name, "quat") && p->cols == 4) project(theta + at, way + at, 4);
    if (strcmp(p->name, "jnt_axis") == 0) project(theta + at, way + at, 3);
    if (weld && eq_type.integers[r] == 1) project(theta + at + 6, way + at + 6, 4);
    if (strstr(p->name, "solimp")) way[at + 3] = way[at + 4] = 0;  // midpoint and power: exponents with kinks at their defaults
  }
  if (strcmp(p->name, "qpos0") == 0 || strcmp(p->name, "qpos_spring") == 0) project_joint_quaternions(run, p, way);
}

static void draw_parameter(Doctor *d, const pbParam *p, double *way) { cliCheck_DrawParameter(d->run, &d->rng, p, way); }

static void draw_theta(Doctor *d) {
  memset(d->theta_way, 0, d->np * sizeof *d->theta_way);
  for (int i = 0; i < pbModel_ParamCount(d->run->model); i++) {
    pbParam p = pbModel_ParamAt(d->run->model, i);
    draw_parameter(d, &p, d->theta_way);
  }
}

// ---- one step: dot products ----------------------------------------------------------------------------------------

typedef enum Kind { kind_state, kind_control, kind_theta, kind_count } Kind;
static const char *const kind_names[kind_count] = {"state", "control", "parameters"};

typedef struct Way {  // direction of one step's inputs; NULL: zero
  const double *x, *ctrl, *theta;
} Way;

static Way way_of(const Doctor *d, Kind kind, const double *way) {
  return (Way){.x = kind == kind_state ? way : NULL,
               .ctrl = kind == kind_control ? way : NULL,
               .theta = kind == kind_theta ? d->theta_way : NULL};
}

static size_t kind_size(const Doctor *d, Kind kind) {
  return kind == kind_state ? (size_t)d->nt : kind == kind_control ? (size_t)d->nu : d->np;
}

// Cotangents of one step at random: next state in vector 0, sensors in vector 1. Pullback: x in 2, control in 3, theta_bar.
static pbStatus pull_step(Doctor *d, long k, bool sensors) {
  const cliRun *run = d->run;
  pbInput input = cliRun_Input(run, k);
  pbObservationBar seen = {.sensordata = vector(d, 1)};
  memset(vector(d, 2), 0, d->width * sizeof(double));
  memset(vector(d, 3), 0, d->width * sizeof(double));
  memset(d->theta_bar, 0, d->np * sizeof *d->theta_bar);
  pbInputBar bar = {.ctrl = vector(d, 3)};
  pbStatus status;
  do {
    status = pbStep_Vjp(run->model, run->theta, d->records + (size_t)k * (size_t)d->nr, &input, vector(d, 0),
                        sensors ? &seen : NULL, run->scratch, vector(d, 2), &bar, d->theta_bar);
  } while (pbScratch_Grow(run->scratch, &status));
  return status == pb_ok ? pb_ok : cliRun_StepFailed(run, status, k);
}

// <w, J d> by jvp; its size by the terms it is made of.
static pbStatus push_step(Doctor *d, long k, bool sensors, const Way *way, double *value, double *size) {
  const cliRun *run = d->run;
  pbInput input = cliRun_Input(run, k);
  pbDirection direction = {.x = way->x, .ctrl = way->ctrl, .theta = way->theta};
  double *next = vector(d, 5), *seen = vector(d, 6);
  memset(next, 0, 2 * d->width * sizeof *next);
  pbStatus status;
  do {
    status = pbStep_Jvp(run->model, run->theta, d->records + (size_t)k * (size_t)d->nr, &input, &direction, run->scratch, next,
                        sensors ? seen : NULL, NULL, NULL);
  } while (pbScratch_Grow(run->scratch, &status));
  if (status != pb_ok) return cliRun_StepFailed(run, status, k);
  *value = dot(vector(d, 0), next, (size_t)d->nt) + (sensors ? dot(vector(d, 1), seen, (size_t)d->ns) : 0);
  *size = norm(vector(d, 0), (size_t)d->nt) * norm(next, (size_t)d->nt);
  if (sensors) *size += norm(vector(d, 1), (size_t)d->ns) * norm(seen, (size_t)d->ns);
  return pb_ok;
}

static const double *pulled(const Doctor *d, Kind kind) {
  return kind == kind_state ? vector(d, 2) : kind == kind_control ? vector(d, 3) : d->theta_bar;
}

// Which parameters disagree: each alone.
static pbStatus blame_parameters(Doctor *d, long k, bool sensors, Test *t) {
  size_t used = strlen(t->words);
  for (int i = 0; i < pbModel_ParamCount(d->run->model); i++) {
    pbParam p = pbModel_ParamAt(d->run->model, i);
    memset(d->theta_way, 0, d->np * sizeof *d->theta_way);
    draw_parameter(d, &p, d->theta_way);
    Way way = {.theta = d->theta_way};
    double forward = 0, size = 0;
    PB_TRY(push_step(d, k, sensors, &way, &forward, &size));
    double back = along(d->theta_bar, d->theta_way, d->np);
    if (fabs(forward - back) <= dot_limit * (size + fabs(back)) + DBL_MIN || used + 40 > sizeof t->words) continue;
    used += (size_t)snprintf(t->words + used, sizeof t->words - used, "%s%s", used ? ", " : "disagree: ", p.name);
  }
  return pb_ok;
}

static pbStatus find_kink(Doctor *d, long k, const Way *way, const char **kink);
static void note_kink(Test *t, const char *name, const char *kink, long step);

static pbStatus dot_step(Doctor *d, long k, bool sensors, Test *const tests[kind_count]) {
  draw(d, vector(d, 0), (size_t)d->nt);
  draw(d, vector(d, 1), (size_t)d->ns);
  if (sensors) memset(vector(d, 0), 0, (size_t)d->nt * sizeof(double));  // sensors alone: their error must not hide
  PB_TRY(pull_step(d, k, sensors));
  for (Kind kind = 0; kind < kind_count; kind++) {
    if (!tests[kind]) continue;
    double *direction = vector(d, 4), forward = 0, size = 0;
    if (kind == kind_theta) draw_theta(d);
    else draw(d, direction, kind_size(d, kind));
    Way way = way_of(d, kind, direction);
    PB_TRY(push_step(d, k, sensors, &way, &forward, &size));
    const double *other = kind == kind_theta ? d->theta_way : direction, *bar = pulled(d, kind);
    double back = along(bar, other, kind_size(d, kind)), terms = 0;
    for (size_t i = 0; i < kind_size(d, kind); i++) terms += other[i] != 0 ? fabs(bar[i] * other[i]) : 0;
    double least = kind == kind_theta
                       ? 0
                       : 1e-4 * norm(vector(d, sensors), (size_t)(sensors ? d->ns : d->nt)) * norm(other, kind_size(d, kind));
    double error = fabs(forward - back) / (size + terms + least + DBL_MIN);
    bool before = tests[kind]->holds;
    const char *kink = NULL;
    bool finite = isfinite(forward) && isfinite(back);
    if (finite && error > dot_limit) PB_TRY(find_kink(d, k, &way, &kink));
    if (kink) {
      note_kink(tests[kind], NULL, kink, k);
      continue;
    }
    count_case(tests[kind], finite ? error : NAN, k);
    if (before && !tests[kind]->holds && kind == kind_theta) PB_TRY(blame_parameters(d, k, sensors, tests[kind]));
  }
  return pb_ok;
}

static pbStatus dot_products(Doctor *d) {
  for (int sensors = 0; sensors < (d->ns ? 2 : 1); sensors++) {
    Test *tests[kind_count] = {0};
    for (Kind kind = 0; kind < kind_count; kind++) {
      if (!kind_size(d, kind)) continue;
      char name[48];
      snprintf(name, sizeof name, "dot product, %s by %s", sensors ? "sensors" : "step", kind_names[kind]);
      tests[kind] = add_test(d, name, dot_limit);
    }
    for (long k = 0; k < d->run->steps; k++) PB_TRY(dot_step(d, k, sensors, tests));
  }
  return pb_ok;
}

// ---- one step: Jacobians -------------------------------------------------------------------------------------------

// Distance between a cotangent pulled back and w times a Jacobian (rows x cols), relative to both.
static void jacobian_case(char letter, const double *w, int rows, const double *J, int cols, const double *pulled_back, long k,
                          Test *t) {
  bool finite = true;
  double error = 0, size = 1e-4 * norm(w, (size_t)rows) + DBL_MIN;  // below it only rounding is compared
  for (int j = 0; j < cols; j++) {
    double sum = 0;
    for (int i = 0; i < rows; i++) sum += w[i] * J[(size_t)i * (size_t)cols + (size_t)j];
    error = fmax(error, fabs(sum - pulled_back[j]));
    size = fmax(size, fmax(fabs(sum), fabs(pulled_back[j])));
    finite = finite && isfinite(sum) && isfinite(pulled_back[j]);
  }
  if (!rows || !cols) return;
  error = finite ? error / size : NAN;
  count_case(t, error, k);
  size_t used = strlen(t->words);
  if (error <= t->limit || strchr(t->words, letter)) return;
  snprintf(t->words + used, sizeof t->words - used, "%s%c", used ? ", " : "wrong: ", letter);
}

static pbStatus jacobian_step(Doctor *d, long k, double *A, Test *t) {
  const cliRun *run = d->run;
  size_t nt = (size_t)d->nt, nu = (size_t)d->nu, ns = (size_t)d->ns;
  double *B = A + nt * nt, *C = B + nt * nu, *D = C + ns * nt;
  pbInput input = cliRun_Input(run, k);
  memset(A, 0, (nt + ns) * (nt + nu) * sizeof *A);
  pbStatus status;
  do {
    status = pbStep_Jacobian(run->model, run->theta, d->records + (size_t)k * (size_t)d->nr, &input, run->scratch, A, B, C, D);
  } while (pbScratch_Grow(run->scratch, &status));
  if (status != pb_ok) return cliRun_StepFailed(run, status, k);
  draw(d, vector(d, 0), nt);
  memset(vector(d, 1), 0, ns * sizeof(double));
  PB_TRY(pull_step(d, k, false));
  jacobian_case('A', vector(d, 0), d->nt, A, d->nt, vector(d, 2), k, t);
  jacobian_case('B', vector(d, 0), d->nt, B, d->nu, vector(d, 3), k, t);
  memset(vector(d, 0), 0, nt * sizeof(double));
  draw(d, vector(d, 1), ns);
  PB_TRY(pull_step(d, k, true));
  jacobian_case('C', vector(d, 1), d->ns, C, d->nt, vector(d, 2), k, t);
  jacobian_case('D', vector(d, 1), d->ns, D, d->nu, vector(d, 3), k, t);
  return pb_ok;
}

// With deformables every row of a Jacobian is a pullback of its own: of many points the dot products below say the same.
static pbStatus jacobians(Doctor *d) {
  enum { most_rows = 400 };
  if (d->nt > most_rows && pbModel_PointCount(d->run->model) > 0) return pb_ok;
  size_t count = (size_t)(d->nt + d->ns) * (size_t)(d->nt + d->nu);
  double *A = pbContext_Alloc(d->run->ctx, count * sizeof *A);
  if (!A) return pbContext_Fail(d->run->ctx, pb_no_memory, "out of memory");
  Test *t = add_test(d, "Jacobians A, B, C, D", 1e-9);
  long most = d->run->steps < DIFFERENCE_STEPS ? d->run->steps : DIFFERENCE_STEPS;
  pbStatus status = pb_ok;
  for (long i = 0; i < most && status == pb_ok; i++) status = jacobian_step(d, i * d->run->steps / most, A, t);
  pbContext_Free(d->run->ctx, A);
  return status;
}

// ---- one step: differences -----------------------------------------------------------------------------------------

typedef struct Probe {  // the functional <w, x'(e) - x'(0)> of a step moved by e along a way
  Doctor *d;
  long step;
  Way way;
  Trace trace;  // of the last evaluation
} Probe;

static pbStatus evaluate(Probe *p, double e, double *value) {
  Doctor *d = p->d;
  const cliRun *run = d->run;
  double *x = vector(d, 7), *control = vector(d, 8), *change = vector(d, 9);
  const double *theta = run->theta;
  pbInput input = cliRun_Input(run, p->step);
  memcpy(x, d->states + (size_t)p->step * (size_t)d->nx, (size_t)d->nx * sizeof *x);
  if (p->way.x) pbState_Move(run->model, x, p->way.x, e);
  if (p->way.ctrl) {
    for (int i = 0; i < d->nu; i++) control[i] = input.ctrl[i] + e * p->way.ctrl[i];
    input.ctrl = control;
  }
  if (p->way.theta) {
    for (size_t i = 0; i < d->np; i++) d->theta_try[i] = run->theta[i] + e * p->way.theta[i];
    theta = d->theta_try;
  }
  pbStatus status;
  do {
    status = pbStep_Forward(run->model, theta, x, &input, run->scratch, NULL);
  } while (pbScratch_Grow(run->scratch, &status));
  if (status != pb_ok) return cliRun_StepFailed(run, status, p->step);
  p->trace = trace_of(d);
  pbState_Difference(run->model, d->states + (size_t)(p->step + 1) * (size_t)d->nx, x, change);
  *value = dot(vector(d, 0), change, (size_t)d->nt);
  return pb_ok;
}

typedef struct Quotient {
  double value, uncertainty;
  const char *kink;  // NULL: none
} Quotient;

// Where shapes share a centre or an axis point, the normal of their contact is arbitrary: the smallest move turns it.
static bool normals_jump(const Trace *a, const Trace *b, double e) {
  return e < 2e-6 && a->contacts == b->contacts && fabs(a->normals - b->normals) > 0.02;
}

// Order 4 by Richardson. At a kink one-sided slopes differ by the same at e and e/2, where they should halve.
static pbStatus quotient(Probe *p, double e, Quotient *q) {
  double f[4] = {0};
  Trace traces[4];
  const double at[4] = {e, -e, e / 2, -e / 2};
  for (int i = 0; i < 4; i++) {
    PB_TRY(evaluate(p, at[i], &f[i]));
    traces[i] = p->trace;
  }
  double d1 = (f[0] - f[1]) / (2 * e), d2 = (f[2] - f[3]) / e;
  double k1 = fabs(f[0] + f[1]) / (2 * e), k2 = fabs(f[2] + f[3]) / e;
  *q = (Quotient){.value = (4 * d2 - d1) / 3, .uncertainty = fabs(d2 - d1) / 3};
  bool bent = k2 > 0.7 * k1 && k2 > 1e-6 * (1e-4 + fabs(d2)) + 1e-15 / e;
  for (int i = 0; i < 4 && !q->kink; i++) {
    if (!same_trace(&traces[i], &p->d->traces[p->step])) q->kink = kink_name(&p->d->traces[p->step], &traces[i]);
  }
  if (bent && !q->kink) q->kink = kink_name(&traces[0], &traces[0]);
  if (!bent && q->uncertainty < 1e-8 * (1e-4 + fabs(d2))) q->kink = NULL;  // it went smoothly nevertheless
  for (int i = 0; i < 4; i++) {
    if (normals_jump(&traces[i], &p->d->traces[p->step], e)) q->kink = "a contact whose normal jumps";
  }
  return pb_ok;
}

// The quotient of least uncertainty over three sizes. Where one of them sees a kink, or no two agree, that is noted: a difference
// then proves nothing against a derivative.
static pbStatus best_quotient(Probe *p, Quotient *best) {
  static const double sizes[] = {1e-4, 1e-5, 1e-6};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  Quotient q[COUNT];
  *best = (Quotient){.uncertainty = INFINITY};
  const char *kink = NULL;
  double spread = INFINITY;
  for (int i = 0; i < COUNT; i++) {
    PB_TRY(quotient(p, sizes[i], &q[i]));
    if (q[i].uncertainty < best->uncertainty) *best = q[i];
    if (q[i].kink) kink = q[i].kink;
    if (i) spread = fmin(spread, fabs(q[i].value - q[i - 1].value));
  }
  best->kink = kink;
  best->uncertainty = fmax(best->uncertainty, spread);
  return pb_ok;
}

// At a kink each way of differentiating picks a side: no two need agree there.
static pbStatus find_kink(Doctor *d, long k, const Way *way, const char **kink) {
  Probe probe = {.d = d, .step = k, .way = *way};
  Quotient q;
  double *w = vector(d, 0), *kept = vector(d, 10);
  memcpy(kept, w, (size_t)d->nt * sizeof *w);
  draw(d, w, (size_t)d->nt);  // whatever was asked of the step: a kink shows in the state after it
  pbStatus status = best_quotient(&probe, &q);
  memcpy(w, kept, (size_t)d->nt * sizeof *w);
  *kink = status == pb_ok ? q.kink : NULL;
  return status;
}

static void note_kink(Test *t, const char *name, const char *kink, long step) {
  size_t used = strlen(t->words);
  t->skipped++;
  if (used + 110 > sizeof t->words) return;
  char where[32] = "";
  if (step >= 0) snprintf(where, sizeof where, "step %ld: ", step);
  snprintf(t->words + used, sizeof t->words - used, "%s%s%s%s%s", used ? "; " : "left out: ", name ? name : "", name ? ", " : "",
           where, kink);
}

// One direction of one step; `name` (of a parameter, or NULL) goes into the words.
static pbStatus difference_case(Doctor *d, long k, Kind kind, const char *name, Test *t) {
  const double *way = kind == kind_theta ? d->theta_way : vector(d, 4);
  double back = along(pulled(d, kind), way, kind_size(d, kind));
  Probe probe = {.d = d, .step = k, .way = way_of(d, kind, vector(d, 4))};
  Quotient q;
  PB_TRY(best_quotient(&probe, &q));
  double size = 1e-3 * norm(vector(d, 0), (size_t)d->nt) + fabs(q.value) + fabs(back);
  double error = size > 0 ? fabs(q.value - back) / size : size;  // size 0: a model without degrees of freedom
  if (error > t->limit && (q.kink || q.uncertainty > 0.5 * t->limit * size)) {
    return note_kink(t, name, q.kink ? q.kink : "no reliable difference", k), pb_ok;
  }
  size_t used = strlen(t->words);
  if (error > t->limit && name && used + 60 < sizeof t->words) {
    snprintf(t->words + used, sizeof t->words - used, "%s%s disagrees", used ? "; " : "", name);
  }
  count_case(t, error, k);
  return pb_ok;
}

static pbStatus difference_parameters(Doctor *d, long k, Test *t) {
  for (int i = 0; i < pbModel_ParamCount(d->run->model); i++) {
    pbParam p = pbModel_ParamAt(d->run->model, i);
    size_t count = (size_t)p.rows * (size_t)p.cols;
    memset(d->theta_way, 0, d->np * sizeof *d->theta_way);
    draw_parameter(d, &p, d->theta_way);
    if (norm(d->theta_way + p.offset, count) > 0) PB_TRY(difference_case(d, k, kind_theta, p.name, t));
  }
  return pb_ok;
}

static pbStatus differences(Doctor *d) {
  Test *tests[kind_count] = {0};
  for (Kind kind = 0; kind < kind_count; kind++) {
    char name[48];
    snprintf(name, sizeof name, "differences, step by %s", kind_names[kind]);
    if (kind_size(d, kind)) tests[kind] = add_test(d, name, difference_limit);
  }
  long most = d->run->steps < DIFFERENCE_STEPS ? d->run->steps : DIFFERENCE_STEPS;
  for (long i = 0; i < most; i++) {
    long k = i * d->run->steps / most;
    draw(d, vector(d, 0), (size_t)d->nt);
    PB_TRY(pull_step(d, k, false));
    for (Kind kind = 0; kind < kind_theta; kind++) {
      if (!tests[kind]) continue;
      draw(d, vector(d, 4), kind_size(d, kind));
      PB_TRY(difference_case(d, k, kind, NULL, tests[kind]));
    }
    if (i % 2 == 0) PB_TRY(difference_parameters(d, k, tests[kind_theta]));
  }
  return pb_ok;
}

// ---- the rollout: Taylor remainder ---------------------------------------------------------------------------------

typedef struct Rolled {
  const double *bar;    // of the final state (vector 0)
  const double *x_way;  // vector 4
  const double *u_way;  // (N, nu), NULL: none
  double *control;      // room for moved controls
  long kink_step;       // first step whose trace differs from that of the unmoved rollout; -1: none
  const char *kink;
} Rolled;

static pbStatus roll(Doctor *d, Rolled *r, double e, double *value) {
  const cliRun *run = d->run;
  double *x = vector(d, 7), *change = vector(d, 9);
  memcpy(x, d->states, (size_t)d->nx * sizeof *x);
  pbState_Move(run->model, x, r->x_way, e);
  r->kink_step = -1;
  for (long k = 0; k < run->steps; k++) {
    pbInput input = cliRun_Input(run, k);
    double *u = r->control;
    for (int i = 0; i < d->nu; i++) u[i] = input.ctrl[i] + e * r->u_way[(size_t)k * (size_t)d->nu + (size_t)i];
    input.ctrl = u;
    pbStatus status;
    do {
      status = pbStep_Forward(run->model, run->theta, x, &input, run->scratch, NULL);
    } while (pbScratch_Grow(run->scratch, &status));
    if (status != pb_ok) return cliRun_StepFailed(run, status, k);
    Trace t = trace_of(d);
    if (r->kink_step >= 0 || same_trace(&t, &d->traces[k])) continue;
    r->kink_step = k;
    r->kink = kink_name(&d->traces[k], &t);
  }
  pbState_Difference(run->model, d->states + (size_t)run->steps * (size_t)d->nx, x, change);
  *value = dot(r->bar, change, (size_t)d->nt);
  return pb_ok;
}

// Why a remainder falls too slowly: not at all at a jump; differently on both sides at a kink (a wrong gradient
// leaves equal and opposite remainders).
static const char *slow_fall(Doctor *d, Rolled *r, double e, double slope, double fall, double remainder) {
  double value = 0;
  if (fall < 0.5) return r->kink_step >= 0 ? r->kink : "the motion jumps (a change of feature in a contact)";
  if (roll(d, r, -e, &value) != pb_ok) return "a step that fails nearby";
  double other = value + e * slope;  // opposite and equal where the gradient is wrong
  return fabs(other + remainder) > 0.1 * fmax(fabs(other), fabs(remainder))
             ? (r->kink_step >= 0 ? r->kink : "a clamp, a tie or a change of feature in a contact")
             : NULL;
}

// Remainders at quartered steps: they fall as e^2 where the gradient is right, as e where it is wrong, until rounding takes over.
// What counts is the last fall above rounding.
static pbStatus taylor(Doctor *d, Rolled *r, double slope, double noise, Test *t) {
  double last = 0, fall = INFINITY, size = INFINITY, e = 1e-2;
  for (int i = 0; i < TAYLOR_POINTS; i++, e /= 4) {
    double value = 0, scale = e * (fabs(slope) + 1e-3 * norm(r->bar, (size_t)d->nt)) + DBL_MIN;
    pbStatus status = roll(d, r, e, &value);
    double remainder = status == pb_ok ? value - e * slope : INFINITY;
    if (i && fabs(remainder) < 30 * (noise + 1e-15 * scale)) {
      size = fmin(size, fabs(remainder) / scale);
      break;
    }
    fall = isfinite(last) && i ? log(fabs(last / remainder)) / log(4.0) : INFINITY;
    size = fabs(remainder) / scale;
    last = remainder;
  }
  if (fall == INFINITY && size > 1e-5) fall = 0;
  bool fine = fall >= 2 - t->limit || size < 1e-6;
  const char *kink = fine ? NULL : slow_fall(d, r, 4 * e, slope, fall, last);
  if (kink) return note_kink(t, NULL, kink, r->kink_step), pb_ok;
  count_case(t, fine ? 0 : 2 - fall, -1);
  if (!fine && !t->words[0]) snprintf(t->words, sizeof t->words, "the remainder falls with slope %.2f where 2 is expected", fall);
  return pb_ok;
}

// Cotangent w of the final state; what deformables keep of the past beside it has none.
static pbRolloutBar final_bar(const Doctor *d, double *w) {
  const cliRun *run = d->run;
  size_t nv = (size_t)run->nv, na = (size_t)run->na, np = 3 * (size_t)pbModel_PointCount(run->model), past = 2 * nv + na + 2 * np;
  pbRolloutBar bar = {.qpos = {.data = w, .count = 1}, .qvel = {.data = w + nv, .count = 1}};
  if (na) bar.act = (pbCotangent){.data = w + 2 * nv, .count = 1};
  if (np) bar.points = (pbCotangent){.data = w + 2 * nv + na, .count = 1};
  if (np) bar.point_velocity = (pbCotangent){.data = w + 2 * nv + na + np, .count = 1};
  memset(w + past, 0, ((size_t)d->nt - past) * sizeof *w);
  return bar;
}

static pbStatus rollout_gradient(Doctor *d, double *x_bar, double *u_bar) {
  cliRun *run = d->run;
  pbRolloutPlan plan;
  pbRollout *rollout = NULL;
  PB_TRY(pbRollout_Plan(run->ctx, run->model, (int)run->steps, 0, &plan));
  PB_TRY(pbRollout_Create(run->ctx, run->model, &plan, NULL, &rollout));
  pbRolloutInput input = {.ctrl = run->control, .qfrc = run->qfrc, .xfrc = run->xfrc};
  pbRolloutBar bar = final_bar(d, vector(d, 0));
  pbRolloutGradient out = {.x0 = x_bar, .ctrl = run->nu ? u_bar : NULL};
  pbVjpOptions options = {.spot_check = pb_checkSteps, .seed = 1};
  pbStatus status = pbRollout_Forward(rollout, run->theta, run->x0, &input, NULL);
  if (status == pb_ok) status = pbRollout_Vjp(rollout, &bar, &options, &out, &d->certificate);
  if (status == pb_ok && !(cli_finite(x_bar, (size_t)d->nt) && cli_finite(u_bar, (size_t)run->steps * (size_t)d->nu)))
    status = pbContext_Fail(run->ctx, pb_not_finite, "the gradient of the rollout is not finite");
  pbRollout_Destroy(rollout);
  return status;
}

static pbStatus taylor_tests(Doctor *d, double *u_bar, double *u_way, double *control) {
  size_t n = (size_t)d->nt, m = (size_t)d->run->steps * (size_t)d->nu;
  double *x_bar = vector(d, 2), *x_way = vector(d, 4);
  draw(d, vector(d, 0), n);
  memset(x_bar, 0, n * sizeof *x_bar);
  PB_TRY(rollout_gradient(d, x_bar, u_bar));
  double length = sqrt(dot(x_bar, x_bar, n) + dot(u_bar, u_bar, m));
  Test *tests[2] = {add_test(d, "Taylor remainder, along the gradient", 0.2),
                    add_test(d, "Taylor remainder, random directions", 0.2)};
  for (int trial = 0; trial < 4; trial++) {
    for (size_t i = 0; i < n; i++)
      x_way[i] = trial ? pbRng_Normal(&d->rng) / sqrt((double)(n + m)) : x_bar[i] / (length + DBL_MIN);
    for (size_t i = 0; i < m; i++)
      u_way[i] = trial ? pbRng_Normal(&d->rng) / sqrt((double)(n + m)) : u_bar[i] / (length + DBL_MIN);
    double slope = dot(x_bar, x_way, n) + dot(u_bar, u_way, m);
    double noise =
        1e-15 * norm(vector(d, 0), n) * (1 + norm(d->states, (size_t)d->nx)) * (1 + exp(fmax(0, d->certificate.growth)));
    Rolled r = {.bar = vector(d, 0), .x_way = x_way, .u_way = u_way, .control = control};
    PB_TRY(taylor(d, &r, slope, noise, tests[trial > 0]));
  }
  return pb_ok;
}

static pbStatus taylor_remainders(Doctor *d) {
  size_t m = (size_t)d->run->steps * (size_t)d->nu;
  double *memory = pbContext_Alloc(d->run->ctx, (2 * m + (size_t)d->nu + 1) * sizeof *memory);
  if (!memory) return pbContext_Fail(d->run->ctx, pb_no_memory, "out of memory");
  pbStatus status = taylor_tests(d, memory, memory + m, memory + 2 * m);
  pbContext_Free(d->run->ctx, memory);
  return status;
}

// ---- other gradients ---------------------------------------------------------------------------------------------------
// By event or smooth: a difference quotient of the rollout is no measure, forward and reverse must still agree.
static pbStatus mode_product(Doctor *d, pbRollout *rollout, Test *t) {
  const cliRun *run = d->run;
  size_t n = (size_t)d->nt;
  double *w = vector(d, 0), *back = vector(d, 2), *way = vector(d, 4), *end = vector(d, 5);
  int last = (int)run->steps;
  draw(d, w, n), draw(d, way, n), draw_theta(d);
  memset(back, 0, n * sizeof *back);
  memset(d->theta_bar, 0, d->np * sizeof *d->theta_bar);
  pbRolloutInput input = {.ctrl = run->control, .qfrc = run->qfrc, .xfrc = run->xfrc};
  pbRolloutBar bar = final_bar(d, w);
  pbRolloutGradient out = {.x0 = back, .theta = d->theta_bar};
  pbRolloutDirection direction = {.x0 = way, .theta = d->theta_way};
  PB_TRY(pbRollout_SetGradient(rollout, d->mode));
  PB_TRY(pbRollout_Forward(rollout, run->theta, run->x0, &input, NULL));
  PB_TRY(pbRollout_Vjp(rollout, &bar, NULL, &out, &d->certificate));
  PB_TRY(pbRollout_Jvp(rollout, 1, &direction, &(pbRolloutTangent){.x = end, .rows = &last, .row_count = 1}));
  double forward = dot(w, end, n), reverse = along(back, way, n) + along(d->theta_bar, d->theta_way, d->np), size = 0;
  for (size_t i = 0; i < n; i++) size += fabs(w[i] * end[i]) + fabs(back[i] * way[i]);
  for (size_t i = 0; i < d->np; i++) size += d->theta_way[i] != 0 ? fabs(d->theta_bar[i] * d->theta_way[i]) : 0;
  count_case(t, fabs(forward - reverse) / (size + DBL_MIN), -1);
  return pb_ok;
}

static pbStatus mode_test(Doctor *d) {
  pbRolloutPlan plan;
  pbRollout *rollout = NULL;
  char name[48];
  if (d->mode == pb_gradientExact) return pb_ok;
  snprintf(name, sizeof name, "dot product of the rollout, mode %s", pbGradientKind_Name(d->mode));
  PB_TRY(pbRollout_Plan(d->run->ctx, d->run->model, (int)d->run->steps, 0, &plan));
  PB_TRY(pbRollout_Create(d->run->ctx, d->run->model, &plan, NULL, &rollout));
  pbStatus status = mode_product(d, rollout, add_test(d, name, dot_limit));
  pbRollout_Destroy(rollout);
  return status;
}

// ---- findings ------------------------------------------------------------------------------------------------------

static const char *solver_advice(const pbModel *m) {
  switch (pbModel_ContactSettings(m).method) {
    case pb_contactSweeps: return " Raise --contact sweeps.";
    case pb_contactLcp:
    case pb_contactCones: return " The laws are undecided there, as between sticking and sliding; --contact cfm softens them.";
    default: return " Raise --option iterations, or set --option tolerance=0.";
  }
}

static void solver_findings(Doctor *d) {
  Test *t = add_test(d, solver_test, residual_limit);
  char where[96];
  const pbReport *worst = NULL;
  int bad = 0;
  for (long k = 0; k < d->run->steps; k++) {
    if (!d->reports[k].rows) continue;
    double residual = d->reports[k].residual;
    count_case(t, residual, k);
    bad += !(residual <= residual_limit);
    if (t->step == k) worst = d->reports + k;
  }
  if (!bad) return;
  snprintf(where, sizeof where, "%d of %ld steps, worst at step %ld", bad, d->run->steps, t->step);
  find(d, "unconverged solve", where,
       "the constraint solve stopped at relative residual %.1e after %d iterations%s%s; the adjoint belongs to the exact "
       "solution, so gradients through these steps are wrong by about as much.%s",
       t->worst, worst->iterations, d->run->worst_row[0] ? " at the " : "", d->run->worst_row, solver_advice(d->run->model));
}

// Rigid impacts: the gradient has their moments in it, but not their order.
static void impact_findings(Doctor *d) {
  char where[64];
  int events = 0;
  for (long k = 0; k < d->run->steps; k++) {
    if (!d->reports[k].simultaneous || ++events > MOST_EVENTS) continue;
    snprintf(where, sizeof where, "step %ld", k);
    find(d, "simultaneous impacts", where,
         "several contacts touch and approach at the same instant: those of one pair strike together, pairs one after the other, "
         "the fastest first. A change of the state can part them or change that order, which the gradient does not foresee.");
  }
}

static void event_findings(Doctor *d) {
  const pbCertificate *c = &d->certificate;
  char where[288];
  if (c->grazing) {
    snprintf(where, sizeof where, "%ld, first at step %d: %s", (long)c->grazing, c->grazing_step, c->grazing_contact);
    find(d, "grazing contacts", where,
         "they touch too slowly for the moment of the event to have a usable derivative; they are left as in mode exact. "
         "Mode smooth has a gradient there.");
  }
  if (c->simultaneous) {
    snprintf(where, sizeof where, "%ld, first at step %d: %s", (long)c->simultaneous, c->simultaneous_step,
             c->simultaneous_contact);
    find(
        d, "simultaneous contacts", where,
        "which one is first depends on the direction of a change; the gradient is right for changes that keep them together, and "
        "for others the mean of both sides.");
  }
}

static void contact_findings(Doctor *d) {
  char where[64];
  int events = 0;
  if (pbModel_ContactSettings(d->run->model).onset > 0) return;  // they fade in
  if (pbModel_ContactSettings(d->run->model).method == pb_contactImpact) {
    impact_findings(d);
    return;
  }
  if (d->mode != pb_gradientExact) {
    event_findings(d);
    return;
  }
  for (long k = 1; k < d->run->steps; k++) {
    const Trace *a = &d->traces[k - 1], *b = &d->traces[k];
    if (a->contacts == b->contacts || ++events > MOST_EVENTS) continue;
    snprintf(where, sizeof where, "step %ld, time %.6g", k,
             d->states[(size_t)k * (size_t)d->nx + (size_t)pbModel_StateFieldAt(d->run->model, 0).offset]);
    find(d, kink_name(a, b), where,
         "the number of contacts goes from %d to %d. The gradient is that of the discrete steps; the moment of %s "
         "itself is not differentiated, so a finite change that moves it to another step is not foreseen; %s.",
         a->contacts, b->contacts, a->contacts < b->contacts ? "impact" : "release",
         pbModel_PointCount(d->run->model) ? "worlds with deformables have no mode that does that" : "--mode event does that");
  }
  if (events > MOST_EVENTS)
    find(d, "more contact events", "later steps", "%d more contacts appear or go in this rollout.", events - MOST_EVENTS);
}

// Half the least extent of a geom; of planes, which have no end, infinite.
static double half_extent(const cliRun *run, int geom) {
  pbParam size;
  pbField type;
  double least = INFINITY;

  bool known = pbModel_Param(run->ctx, run->model, "geom_size", &size) == pb_ok && pbModel_Field(run->model, "geom_type", &type);
  if (!known || type.integers[geom] == pb_geomPlane) return INFINITY;

  const double *s = run->theta + size.offset + (size_t)(geom * size.cols);
  for (int i = 0; i < size.cols; i++) least = s[i] > 0 && s[i] < least ? s[i] : least;
  return least;
}

static void put_geom(const cliRun *run, int geom, char *text, size_t size) {
  const char *name = pbModel_Name(run->model, pb_objGeom, geom);
  if (name && *name) snprintf(text, size, "'%.60s'", name);
  else snprintf(text, size, "%d", geom);
}

static void penetration_findings(Doctor *d) {
  const cliRun *run = d->run;
  if (run->penetration_step < 0) return;
  char where[96], a[80], b[80];
  const int *g = run->penetrating;
  double extent = fmin(half_extent(run, g[0]), half_extent(run, g[1])), part = run->penetration / extent;
  if (!(part > penetration_limit)) return;
  put_geom(run, g[0], a, sizeof a), put_geom(run, g[1], b, sizeof b);
  snprintf(where, sizeof where, "step %ld", run->penetration_step);
  find(d, "deep penetration", where,
       "geoms %s and %s overlap by %.3g m, %.0f %% of half the smaller one's least extent. The contact is too soft for what "
       "rests or falls on it, and the motion is that of the softness; solref and solimp (method penalty: stiffness) say how "
       "hard it is.",
       a, b, run->penetration, 100 * part);
}

static void growth_findings(Doctor *d) {
  const pbCertificate *c = &d->certificate;
  double factor = exp(c->growth);
  if (!(factor > cli_growthLimit)) return;
  char where[64];
  snprintf(where, sizeof where, "largest at step %d", c->costate_worst_step);
  find(d, "chaotic growth", where,
       "going back through %ld steps the costate grows by a factor of %.1e (%.3g per second). The gradient is exact, but "
       "says little about changes larger than %.0e. Shorten the horizon, or raise damping.",
       d->run->steps, factor, c->growth_rate, 1 / factor);
}

static void failure_findings(Doctor *d) {
  for (int i = 0; i < d->test_count; i++) {
    const Test *t = &d->tests[i];
    if (t->holds || strcmp(t->name, solver_test) == 0 || strcmp(t->name, finite_test) == 0) continue;  // they have their own
    char where[64] = "the whole rollout";
    if (t->step >= 0) snprintf(where, sizeof where, "step %ld", t->step);
    bool event = t->step >= 1 && !same_trace(&d->traces[t->step], &d->traces[t->step - 1]);
    if (isnan(t->worst)) {
      find(d, t->name, where,
           "the derivative is not finite (NaN or infinite)%s%s. A length of zero under a root, or a parameter or an input of "
           "extreme "
           "size, has none; 'pullback jacobian' names the entry.",
           t->words[0] ? "; " : "", t->words);
      continue;
    }
    find(d, t->name, where, "%.2e where at most %.0e is allowed%s%s.%s", t->worst, t->limit, t->words[0] ? "; " : "", t->words,
         event ? " The constraints that act change at this very step." : "");
  }
}

// ---- report --------------------------------------------------------------------------------------------------------

static bool all_hold(const Doctor *d) {
  for (int i = 0; i < d->test_count; i++) {
    if (!d->tests[i].holds) return false;
  }
  return true;
}

static int most_contacts(const Doctor *d) {
  int most = 0;
  for (long k = 0; k < d->run->steps; k++) most = d->traces[k].contacts > most ? d->traces[k].contacts : most;
  return most;
}

static void report_json(const Doctor *d) {
  cliJson j = {.out = stdout};
  cliJson_Open(&j, NULL, '{');
  cliJson_Text(&j, "model", d->run->model_path);
  cliJson_Text(&j, "version", pbVersion());
  cliJson_Bool(&j, "holds", all_hold(d));
  cliJson_Integer(&j, "steps", d->run->steps);
  cliJson_Integer(&j, "most_contacts", most_contacts(d));
  cliJson_Open(&j, "checks", '[');
  for (int i = 0; i < d->test_count; i++) {
    const Test *t = &d->tests[i];
    cliJson_OpenLine(&j, NULL, '{');
    cliJson_Text(&j, "name", t->name);
    cliJson_Bool(&j, "holds", t->holds);
    cliJson_Integer(&j, "cases", t->tried);
    cliJson_Integer(&j, "left_out", t->skipped);
    cliJson_Number(&j, "worst", t->worst);
    cliJson_Number(&j, "limit", t->limit);
    cliJson_Integer(&j, "step", t->step);
    cliJson_Text(&j, "words", t->words);
    cliJson_Close(&j, '}');
  }
  cliJson_Close(&j, ']');
  cliJson_Open(&j, "findings", '[');
  for (int i = 0; i < d->finding_count; i++) {
    cliJson_OpenLine(&j, NULL, '{');
    cliJson_Text(&j, "what", d->findings[i].what);
    cliJson_Text(&j, "where", d->findings[i].where);
    cliJson_Text(&j, "why", d->findings[i].why);
    cliJson_Close(&j, '}');
  }
  cliJson_Close(&j, ']');
  cliJson_Number(&j, "penetration", d->run->penetration);
  cliJson_Integer(&j, "penetration_step", d->run->penetration_step);
  cliJson_Number(&j, "growth", d->certificate.growth);
  cliJson_Number(&j, "growth_rate", d->certificate.growth_rate);
  cliJson_Number(&j, "worst_residual", d->certificate.worst_residual);
  cliJson_Close(&j, '}');
}

static void report_text(const Doctor *d) {
  int failed = 0;
  printf("%s: %ld steps%s, at most %d contacts\n", d->run->model_path, d->run->steps,
         has_random_controls(d->run) ? " with random controls" : "", most_contacts(d));
  for (int i = 0; i < d->test_count; i++) {
    const Test *t = &d->tests[i];
    const char *verdict = !t->holds ? "FAILS" : t->tried ? "holds" : "-";
    printf("  %-38s %-5s  worst %7.1e  limit %.0e  %d case%s", t->name, verdict, t->worst, t->limit, t->tried,
           t->tried == 1 ? "" : "s");
    if (t->skipped) printf(", %d left out", t->skipped);
    if (t->words[0]) printf("\n      %s", t->words);
    putchar('\n');
    failed += !t->holds;
  }
  for (int i = 0; i < d->finding_count; i++) {
    const Finding *f = &d->findings[i];
    printf("\n%s, %s:\n  %s\n", f->what, f->where, f->why);
  }
  if (failed) printf("\n%d of %d checks fail.\n", failed, d->test_count);
  else printf("\nAll %d checks hold.\n", d->test_count);
}

// ---- the command ---------------------------------------------------------------------------------------------------

static pbStatus make_room(Doctor *d) {
  cliRun *run = d->run;
  size_t n = (size_t)run->steps;
  d->nt = run->nt;
  d->nx = run->nx;
  d->nu = run->nu;
  d->ns = run->nsensordata;
  d->nr = pbTape_Size(run->model);
  d->np = run->ntheta;
  const int sizes[] = {d->nt, d->nx, d->nu, d->ns, 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) d->width = (size_t)sizes[i] > d->width ? (size_t)sizes[i] : d->width;
  d->records = pbContext_Alloc(run->ctx, n * (size_t)d->nr * sizeof *d->records);
  d->states = pbContext_Alloc(run->ctx, (n + 1) * (size_t)d->nx * sizeof *d->states);
  d->traces = pbContext_Alloc(run->ctx, n * sizeof *d->traces);
  d->reports = pbContext_Alloc(run->ctx, n * sizeof *d->reports);
  d->theta_way = pbContext_Alloc(run->ctx, 3 * d->np * sizeof *d->theta_way);
  d->work = pbContext_Alloc(run->ctx, 11 * d->width * sizeof *d->work);
  if (!d->records || !d->states || !d->traces || !d->reports || !d->theta_way || !d->work) {
    return pbContext_Fail(run->ctx, pb_no_memory, "out of memory");
  }
  d->theta_bar = d->theta_way + d->np;
  d->theta_try = d->theta_bar + d->np;
  return pbScratch_Create(run->ctx, run->model, NULL, &run->scratch);
}

static void free_room(Doctor *d) {
  pbContext *ctx = d->run->app->ctx;
  void *memory[] = {d->records, d->states, d->traces, d->reports, d->theta_way, d->work};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(ctx, memory[i]);
}

// A short rollout by everything, bounds and ties included.
static pbStatus slopes(Doctor *d) {
  cliSlopes found = {0};
  PB_TRY(cliSlopes_Run(d->run, &d->rng, &found));
  for (int i = 0; i < slopes_most; i++) {
    const cliSlopeTest *s = &found.tests[i];
    if (!s->name) continue;
    Test *t = add_test(d, s->name, s->limit);
    t->tried = s->tried, t->skipped = s->skipped, t->worst = s->worst, t->holds = s->holds;
    snprintf(t->words, sizeof t->words, "%s", s->words);
  }
  for (int i = 0; i < found.bend_count; i++) find(d, "at a bound or tie", found.bends[i].where, "%s", found.bends[i].why);
  return pb_ok;
}

static pbStatus every_test(Doctor *d) {
  PB_TRY(dot_products(d));
  PB_TRY(jacobians(d));
  PB_TRY(differences(d));
  PB_TRY(slopes(d));
  PB_TRY(taylor_remainders(d));
  return mode_test(d);
}

// A derivative that cannot be had at all ends the tests, not the report.
static pbStatus derivatives(Doctor *d) {
  pbStatus status = every_test(d);
  bool numerical = status != pb_ok && pbStatus_ExitCode(status) == pbStatus_ExitCode(pb_not_finite);
  Test *t = add_test(d, finite_test, 0);
  count_case(t, status == pb_ok ? 0 : 1, -1);
  if (!numerical) return status;
  find(d, "no derivative", "the step named here", "%s. What comes after it was not tested.", pbContext_Error(d->run->ctx));
  return pb_ok;
}

static pbStatus examine(Doctor *d) {
  long seed = 0;
  PB_TRY(cliArgs_Integer(d->run->app, opt_seed, 0, LONG_MAX, 0, &seed));
  PB_TRY(cliArgs_Mode(d->run->app, &d->mode));
  if (d->run->task && !d->run->app->args.text[opt_mode]) d->mode = pbTask_GradientKind(d->run->task);
  d->rng = pbRng_Seed((uint64_t)seed);
  PB_TRY(make_room(d));
  const char *const *text = d->run->app->args.text;
  if (has_random_controls(d->run)) random_controls(d);
  if (!text[opt_init] && !text[opt_keyframe] && !d->run->task) random_velocity(d);
  PB_TRY(walk(d));
  PB_TRY(derivatives(d));
  solver_findings(d);
  failure_findings(d);
  growth_findings(d);
  penetration_findings(d);
  contact_findings(d);
  cliRun_WarnSolver(d->run);
  if (text[opt_json]) report_json(d);
  else report_text(d);
  return all_hold(d) ? pb_ok : pb_check_failed;
}

pbStatus cliCheck_Run(cliApp *app) {
  cliRun run = {0};
  Doctor *d = pbContext_Alloc(app->ctx, sizeof *d);
  if (!d) return pbContext_Fail(app->ctx, pb_no_memory, "out of memory");
  d->run = &run;
  long horizon = 20;
  run.app = app;
  pbStatus status = cliArgs_Integer(app, opt_horizon, 1, MOST_HORIZON, 20, &horizon);
  if (status == pb_ok) status = cliRun_Begin(app, horizon, &run);
  if (status == pb_ok) cliRun_FirstTrajectory(&run);
  if (status == pb_ok) status = examine(d);
  d->run = &run;
  run.app = app;
  free_room(d);
  cliRun_End(&run);
  pbContext_Free(app->ctx, d);
  return status;
}
