// Rollouts of several lengths with their gradients, beside MuJoCo's forward of the same steps in the same process.
//   rollouts MODEL.xml [PAIRS [STEPS ...]]     prints "steps,quantity,value" per line
//
// Everything is taken in turn with what it is compared with, PAIRS times (21), and every ratio is the median of the ratios of
// neighbours: what else the machine does meets both sides alike. Time is the thread's own. A sample repeats short rollouts until it
// has `sample` steps.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pullback/pullback.h>

#ifdef PB_HAVE_MUJOCO
#include <mujoco/mujoco.h>
#endif

enum { most_pairs = 101, sample = 1000 };

typedef struct Bench {
  pbContext *ctx;
  pbModel *m;
  int nx, n, nu, steps, repeats;
  const double *theta;
  double *x0, *x, *controls, *x_bar, *ctrl_bar, *theta_bar, *ones;
#ifdef PB_HAVE_MUJOCO
  mjModel *mj;
  mjData *d;
#endif
} Bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void need(pbStatus status, const char *what) {
  if (status == pb_ok) return;
  fprintf(stderr, "rollouts: %s: %s\n", pbStatus_Text(status), what);
  exit(pbStatus_ExitCode(status));
}

static double *numbers(size_t count) {
  double *a = calloc(count + 1, sizeof *a);
  if (!a) need(pb_no_memory, "");
  return a;
}

// ---- the models and their controls --------------------------------------------------------------------------------------
static void load(Bench *b, const char *file) {
  b->ctx = pbContext_Create(NULL);
  need(pbModel_Load(b->ctx, file, NULL, &b->m), pbContext_Error(b->ctx));
  need(pbModel_SetOption(b->m, "integrator", "Euler"), pbContext_Error(b->ctx));
  need(pbModel_SetOption(b->m, "tolerance", "1e-8"), pbContext_Error(b->ctx));
  b->nx = pbModel_StateSize(b->m);
  b->n = pbModel_TangentSize(b->m);
  b->nu = pbModel_Size(b->m, "nu");
  b->theta = pbModel_DefaultParams(b->m);
  b->x0 = numbers((size_t)b->nx);
  b->x = numbers((size_t)b->nx);
  b->x_bar = numbers((size_t)b->n);
  b->ones = numbers((size_t)b->n);
  b->theta_bar = numbers(pbModel_ParamSize(b->m));
  for (int i = 0; i < b->n; i++) b->ones[i] = 1;
  need(pbState_Init(b->ctx, b->m, b->theta, -1, b->x0), "start");
#ifdef PB_HAVE_MUJOCO
  char text[1000] = "";
  b->mj = mj_loadXML(file, NULL, text, sizeof text);
  if (!b->mj) need(pb_bad_input, text);
  b->mj->opt.integrator = mjINT_EULER;
  b->mj->opt.solver = mjSOL_NEWTON;
  b->mj->opt.tolerance = 1e-8;
  b->mj->opt.iterations = 100;
  b->d = mj_makeData(b->mj);
#endif
}

// Slow waves over a tenth of the range, of another phase and pace for every actuator.
static void set_steps(Bench *b, int steps) {
  size_t count = (size_t)steps * (size_t)b->nu;
  free(b->controls);
  free(b->ctrl_bar);
  b->controls = numbers(count);
  b->ctrl_bar = numbers(count);
  b->steps = steps;
  b->repeats = steps < sample ? sample / steps : 1;
  for (int k = 0; k < steps; k++) {
    for (int i = 0; i < b->nu; i++) b->controls[k * b->nu + i] = 0.1 * sin(0.02 * (1 + 0.13 * i) * k + 2.4 * i);
  }
}

// ---- what is timed ------------------------------------------------------------------------------------------------------
static double theirs(Bench *b) {
#ifdef PB_HAVE_MUJOCO
  double began = now();
  for (int r = 0; r < b->repeats; r++) {
    mj_resetData(b->mj, b->d);
    for (int k = 0; k < b->steps; k++) {
      if (b->nu) memcpy(b->d->ctrl, b->controls + k * b->nu, (size_t)b->nu * sizeof(double));
      mj_step(b->mj, b->d);
    }
  }
  return now() - began;
#else
  (void)b;
  return 0;
#endif
}

typedef struct Times {
  double both, back;  // rollout with gradient; of this the pullback
} Times;

// What models are identified by: ten fields of some hundred.
static const char *const ten[] = {"body_mass",   "body_ipos",    "body_inertia",     "geom_friction",    "geom_solref",
                                  "dof_damping", "dof_armature", "dof_frictionloss", "actuator_gainprm", "gravity"};
typedef enum Wanted { want_none, want_ten, want_all } Wanted;

static Times ours(Bench *b, pbRollout *r, Wanted wanted) {
  Times t = {0, 0};
  pbRolloutInput input = {.ctrl = b->controls};
  pbRolloutOutput output = {.final_state = b->x};
  pbRolloutBar bar = {
      .qpos = {.data = b->ones, .count = 1}, .qvel = {.data = b->ones, .count = 1}, .act = {.data = b->ones, .count = 1}};
  pbRolloutGradient gradient = {.x0 = b->x_bar, .ctrl = b->ctrl_bar, .theta = wanted == want_none ? NULL : b->theta_bar};
  need(pbRollout_WantParameters(r, wanted == want_ten ? ten : NULL, 10, false), pbContext_Error(b->ctx));
  for (int i = 0; i < b->repeats; i++) {
    double began = now();
    need(pbRollout_Forward(r, b->theta, b->x0, &input, &output), pbContext_Error(b->ctx));
    double middle = now();
    need(pbRollout_Vjp(r, &bar, NULL, &gradient, NULL), pbContext_Error(b->ctx));
    double end = now();
    t.both += end - began;
    t.back += end - middle;
  }
  return t;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(const double *values, int n) {
  double sorted[most_pairs];
  memcpy(sorted, values, (size_t)n * sizeof *values);
  qsort(sorted, (size_t)n, sizeof *sorted, ascending);
  return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

enum { kept_by_thin, both_by_theirs, thin_by_theirs, without, by_ten, their_step, ratios };

static void measure(Bench *b, int steps, int pairs) {
  static const char *const name[ratios] = {"kept by thin",
                                           "gradient by forward",
                                           "thin by forward",
                                           "pullback without parameters by with",
                                           "pullback by ten fields by all",
                                           "their step (us)"};
  double value[ratios][most_pairs];
  pbRolloutPlan plan;
  pbRollout *kept, *thin;
  set_steps(b, steps);
  need(pbRollout_Plan(b->ctx, b->m, steps, 0, &plan), pbContext_Error(b->ctx));
  need(pbRollout_Create(b->ctx, b->m, &plan, NULL, &kept), pbContext_Error(b->ctx));
  plan.planned_bytes -= plan.cached_bytes;
  plan.cached_bytes = 0;
  need(pbRollout_Create(b->ctx, b->m, &plan, NULL, &thin), pbContext_Error(b->ctx));
  ours(b, kept, want_all);
  ours(b, thin, want_all);
  theirs(b);
  for (int i = 0; i < pairs; i++) {
    double forward = theirs(b);
    Times a = ours(b, thin, want_all), c = ours(b, kept, want_all), none = ours(b, thin, want_none);
    Times few = ours(b, thin, want_ten);
    value[kept_by_thin][i] = c.both / a.both;
    value[both_by_theirs][i] = forward > 0 ? c.both / forward : NAN;
    value[thin_by_theirs][i] = forward > 0 ? a.both / forward : NAN;
    value[without][i] = none.back / a.back;
    value[by_ten][i] = few.back / a.back;
    value[their_step][i] = forward / (b->repeats * b->steps);
  }
  for (int k = 0; k < ratios; k++) printf("%d,%s,%.4f\n", steps, name[k], median(value[k], pairs));
  fflush(stdout);
  pbRollout_Destroy(kept);
  pbRollout_Destroy(thin);
}

int main(int argc, char **argv) {
  static const int lengths[] = {50, 200, 1000, 4000};
  static Bench b;
  int pairs = argc > 2 ? atoi(argv[2]) : 21;
  if (argc < 2 || pairs < 1 || pairs > most_pairs) {
    fprintf(stderr, "usage: rollouts MODEL.xml [PAIRS [STEPS ...]]\n");
    return 2;
  }
  load(&b, argv[1]);
  for (int i = 3; i < argc; i++) measure(&b, atoi(argv[i]), pairs);
  for (int i = 0; i < 4 && argc <= 3; i++) measure(&b, lengths[i], pairs);
  return 0;
}
