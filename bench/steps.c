// Speed of one world on one core, beside MuJoCo in the same process: step, vjp, rollout with gradient, full Jacobians.
//   steps MODEL.xml [REPEATS [FOLDER]]      prints "quantity,pullback_us,mujoco_us" per line, after lines "# name value"
// Files of the model may lie in FOLDER too.
//
// Both engines start from the same states, some 20 of them a quarter of a second and more into one trajectory (contacts are
// there), get the same controls, and run 50 steps from each. A piece of 50 steps is short beside a time slice: the least of
// its repeats, taken in turn with the other engine's and two at a time (the second finds its own data near), is its time without
// what else the machine does. Time is the thread's own.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pullback/pullback.h>

#include "rollout/rollout.h"

#ifdef PB_HAVE_MUJOCO
#include <mujoco/mujoco.h>
#else
typedef struct mjModel mjModel;
typedef struct mjData mjData;
#endif

enum { piece = 50, pieces = 20, lead_in = 60, jacobians = 6 };  // steps of a piece; number of them; steps before the first
enum { burst = 8 };                                             // steps of a piece whose Jacobians are taken from records

typedef struct Times {  // microseconds of every piece, least of the repeats
  double step, recorded, rollout, gradient, vjp, jacobian, linearized, their_step, their_jacobian;
} Times;

typedef struct Bench {
  pbContext *ctx;
  pbModel *m;
  pbScratch *s;
  pbRollout *off, *on;  // without and with a tape
  int nx, nv, nu, na, n, record;
  const double *theta;
  double *starts, *controls;  // pieces x nx; pieces x piece x nu
  double *x, *tape, *sensed, *next_bar, *x_bar, *ctrl_bar, *theta_bar, *A, *B, *ones, *room;
  mjModel *mj;
  mjData *d;
  double *their_A, *their_B;
  double contacts, mesh_contacts, iterations, their_contacts,
      apart;  // means per step; largest distance of positions after a piece
  Times best[pieces];
} Bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void keep(double *best, double began) {
  double t = now() - began;
  if (*best == 0 || t < *best) *best = t;
}

static void need(pbStatus status, const char *what) {
  if (status == pb_ok) return;
  fprintf(stderr, "steps: %s: %s\n", pbStatus_Text(status), what);
  exit(pbStatus_ExitCode(status));
}

static double *numbers(size_t count) {
  double *a = calloc(count + 1, sizeof *a);
  if (!a) need(pb_no_memory, "");
  return a;
}

// ---- both engines at the same place -----------------------------------------------------------------------------------
static void load(Bench *b, const char *file, const char *folder) {
  b->ctx = pbContext_Create(NULL);
  need(pbModel_Load(b->ctx, file, &(pbLoadOptions){.allow_root = folder}, &b->m), pbContext_Error(b->ctx));
  need(pbModel_SetOption(b->m, "integrator", "Euler"), pbContext_Error(b->ctx));
  need(pbModel_SetOption(b->m, "tolerance", "1e-8"), pbContext_Error(b->ctx));
  need(pbScratch_Create(b->ctx, b->m, NULL, &b->s), pbContext_Error(b->ctx));
  pbRolloutPlan plan;
  need(pbRollout_PlanSlots(b->ctx, b->m, piece, 0, 1, &plan), pbContext_Error(b->ctx));
  need(pbRollout_Create(b->ctx, b->m, &plan, NULL, &b->off), pbContext_Error(b->ctx));
  need(pbRollout_Plan(b->ctx, b->m, piece, 0, &plan), pbContext_Error(b->ctx));
  need(pbRollout_Create(b->ctx, b->m, &plan, NULL, &b->on), pbContext_Error(b->ctx));
  b->nx = pbModel_StateSize(b->m);
  b->n = pbModel_TangentSize(b->m);
  b->record = pbTape_Size(b->m);
  b->nv = pbModel_Size(b->m, "nv");
  b->nu = pbModel_Size(b->m, "nu");
  b->na = pbModel_Size(b->m, "na");
  b->theta = pbModel_DefaultParams(b->m);
  size_t n = (size_t)b->n, nu = (size_t)b->nu;
  b->starts = numbers((size_t)(pieces * b->nx));
  b->controls = numbers(pieces * piece * nu);
  b->x = numbers((size_t)b->nx);
  b->tape = numbers((size_t)(piece * b->record));
  b->sensed = numbers((size_t)pbModel_Size(b->m, "nsensordata"));
  b->next_bar = numbers(n);
  b->x_bar = numbers(n);
  b->ctrl_bar = numbers(piece * nu);
  b->theta_bar = numbers(pbModel_ParamSize(b->m));
  b->ones = numbers(n);
  b->A = numbers(n * n);
  b->B = numbers(n * nu);
  b->room = numbers(pbRollout_LinearizeRoom(b->m));
  b->their_A = numbers(n * n);
  b->their_B = numbers(n * nu);
  for (int i = 0; i < b->n; i++) b->ones[i] = 1;
}

// Controls: slow waves over half of the range, of another phase and pace for every actuator.
static void waves(const Bench *b, int step, double *u) {
  pbField range;
  bool limited = pbModel_Field(b->m, "actuator_ctrlrange", &range);
  for (int i = 0; i < b->nu; i++) {
    double lo = limited ? range.reals[2 * i] : -1, hi = limited ? range.reals[2 * i + 1] : 1;
    if (hi <= lo) {
      lo = -1;
      hi = 1;
    }
    u[i] = 0.5 * (lo + hi) + 0.25 * (hi - lo) * sin(0.02 * (1 + 0.13 * i) * step + 2.4 * i);
  }
}

// Contacts of the last step in which a mesh takes part.
static int mesh_contacts(const Bench *b) {
  enum { mesh_type = 7 };
  const double *geom;
  pbField type;
  int count = 0, rows, cols;
  need(pbScratch_Gather(b->s), "contacts");
  if (!pbScratch_Field(b->s, "contact_geom", &geom, &rows, &cols) || !pbModel_Field(b->m, "geom_type", &type)) return 0;
  for (int k = 0; k < rows; k++)
    count += type.integers[(int)geom[2 * k]] == mesh_type || type.integers[(int)geom[2 * k + 1]] == mesh_type;
  return count;
}

// The states the pieces start from: one trajectory, which the pieces then go through again.
static void prepare(Bench *b) {
  double *u = numbers((size_t)b->nu);
  pbInput input = {.ctrl = u};
  need(pbState_Init(b->ctx, b->m, b->theta, -1, b->x), "start");
  for (int k = 0; k < lead_in + pieces * piece; k++) {
    int at = k - lead_in;
    waves(b, k, u);
    if (at >= 0) {
      if (at % piece == 0) memcpy(b->starts + at / piece * b->nx, b->x, (size_t)b->nx * sizeof(double));
      memcpy(b->controls + at * b->nu, u, (size_t)b->nu * sizeof(double));
    }
    need(pbStep_Forward(b->m, b->theta, b->x, &input, b->s, NULL), pbScratch_Error(b->s));
    if (at < 0) continue;
    b->contacts += pbScratch_Report(b->s).contacts / (double)(pieces * piece);
    b->mesh_contacts += mesh_contacts(b) / (double)(pieces * piece);
    b->iterations += pbScratch_Report(b->s).iterations / (double)(pieces * piece);
  }
  free(u);
}

#ifdef PB_HAVE_MUJOCO
static void load_theirs(Bench *b, const char *file) {
  char text[1000] = "";
  b->mj = mj_loadXML(file, NULL, text, sizeof text);
  if (!b->mj) need(pb_bad_input, text);
  b->mj->opt.integrator = mjINT_EULER;
  b->mj->opt.solver = mjSOL_NEWTON;
  b->mj->opt.tolerance = 1e-8;
  b->mj->opt.iterations = 100;
  b->d = mj_makeData(b->mj);
}

static void put_theirs(const Bench *b, int p) {
  const double *x = b->starts + p * b->nx;
  double *fields[] = {&b->d->time, b->d->qpos, b->d->qvel, b->d->act, b->d->qacc_warmstart};
  const char *names[] = {"time", "qpos", "qvel", "act", "qacc_warmstart"};
  mj_resetData(b->mj, b->d);
  for (int i = 0; i < pbModel_StateFieldCount(b->m); i++) {
    pbStateField f = pbModel_StateFieldAt(b->m, i);
    for (int k = 0; k < 5; k++) {
      if (!strcmp(f.name, names[k])) memcpy(fields[k], x + f.offset, (size_t)f.size * sizeof(double));
    }
  }
}

static void their_steps(Bench *b, int p, bool first) {
  size_t row = (size_t)b->nu * sizeof(double);
  put_theirs(b, p);
  double began = now();
  for (int k = 0; k < piece; k++) {
    if (row) memcpy(b->d->ctrl, b->controls + (p * piece + k) * b->nu, row);
    mj_step(b->mj, b->d);
    if (first) b->their_contacts += b->d->ncon / (double)(pieces * piece);
  }
  keep(&b->best[p].their_step, began);
  if (!first) return;
  for (int i = 0; i < b->mj->nq; i++) b->apart = fmax(b->apart, fabs(b->d->qpos[i] - b->x[1 + i]));
}

static void their_jacobian(Bench *b, int p) {
  put_theirs(b, p);
  if (b->nu) memcpy(b->d->ctrl, b->controls + p * piece * b->nu, (size_t)b->nu * sizeof(double));
  mj_forward(b->mj, b->d);
  double began = now();
  mjd_transitionFD(b->mj, b->d, 1e-6, 0, b->their_A, b->their_B, NULL, NULL);
  keep(&b->best[p].their_jacobian, began);
}
#else
static void load_theirs(Bench *b, const char *file) {
  (void)b;
  (void)file;
}
static void their_steps(Bench *b, int p, bool first) {
  (void)b;
  (void)p;
  (void)first;
}
static void their_jacobian(Bench *b, int p) {
  (void)b;
  (void)p;
}
#endif

// ---- what is timed ------------------------------------------------------------------------------------------------------
static void run_steps(Bench *b, int p) {
  double *sensed = pbModel_Size(b->m, "nsensordata") > 0 ? b->sensed : NULL;  // mj_step computes them too
  memcpy(b->x, b->starts + p * b->nx, (size_t)b->nx * sizeof(double));
  double began = now();
  for (int k = 0; k < piece; k++) {
    pbInput input = {.ctrl = b->controls + (p * piece + k) * b->nu};
    need(pbStep_Forward(b->m, b->theta, b->x, &input, b->s, sensed), pbScratch_Error(b->s));
  }
  keep(&b->best[p].step, began);
}

// The tape of a piece, outside of any timing.
static void record_steps(Bench *b, int p) {
  double *before = numbers((size_t)b->nx);
  memcpy(b->x, b->starts + p * b->nx, (size_t)b->nx * sizeof(double));
  for (int k = 0; k < piece; k++) {
    pbInput input = {.ctrl = b->controls + (p * piece + k) * b->nu};
    memcpy(before, b->x, (size_t)b->nx * sizeof(double));
    need(pbStep_Forward(b->m, b->theta, b->x, &input, b->s, NULL), pbScratch_Error(b->s));
    pbTape_Record(b->m, before, b->s, b->tape + k * b->record);
  }
  free(before);
}

static void pull_back(Bench *b, int p) {
  size_t bytes = (size_t)b->n * sizeof(double);
  memcpy(b->next_bar, b->ones, bytes);
  double began = now();
  for (int k = piece - 1; k >= 0; k--) {
    pbInput input = {.ctrl = b->controls + (p * piece + k) * b->nu};
    pbInputBar input_bar = {.ctrl = b->ctrl_bar + k * b->nu};
    memset(b->x_bar, 0, bytes);
    need(pbStep_Vjp(b->m, b->theta, b->tape + k * b->record, &input, b->next_bar, NULL, b->s, b->x_bar, &input_bar, b->theta_bar),
         pbScratch_Error(b->s));
    memcpy(b->next_bar, b->x_bar, bytes);
  }
  keep(&b->best[p].vjp, began);
}

static void roll(Bench *b, int p, bool tape) {
  pbRolloutInput input = {.ctrl = b->controls + p * piece * b->nu};
  pbRolloutOutput output = {.final_state = b->x};
  pbRolloutBar bar = {
      .qpos = {.data = b->ones, .count = 1}, .qvel = {.data = b->ones, .count = 1}, .act = {.data = b->ones, .count = 1}};
  pbRolloutGradient gradient = {.x0 = b->x_bar, .ctrl = b->ctrl_bar, .theta = b->theta_bar};
  pbRollout *rollout = tape ? b->on : b->off;
  double began = now();
  need(pbRollout_Forward(rollout, b->theta, b->starts + p * b->nx, &input, &output), pbContext_Error(b->ctx));
  keep(tape ? &b->best[p].recorded : &b->best[p].rollout, began);
  if (!tape) return;
  need(pbRollout_Vjp(rollout, &bar, NULL, &gradient, NULL), pbContext_Error(b->ctx));
  keep(&b->best[p].gradient, began);
}

// Of some steps that follow each other, from their records.
static void jacobian(Bench *b, int p) {
  double began = now();
  for (int k = 0; k < burst; k++) {
    pbInput input = {.ctrl = b->controls + (p * piece + k) * b->nu};
    need(pbStep_Jacobian(b->m, b->theta, b->tape + k * b->record, &input, b->s, b->A, b->B, NULL, NULL), pbScratch_Error(b->s));
  }
  keep(&b->best[p].jacobian, began);
}

static pbStatus see_nothing(void *user, int k, const pbStepRecord *step, pbScratch *s) {
  (void)user;
  (void)k;
  (void)step;
  (void)s;
  return pb_ok;
}

// Of all steps of a piece, from the evaluations that its rollout has kept.
static void linearize(Bench *b, int p) {
  const pbLinearized out = {.A = b->A, .B = b->B, .room = b->room, .see = see_nothing};
  roll(b, p, true);
  double began = now();
  need(pbRollout_Linearize(b->on, &out), pbContext_Error(b->ctx));
  keep(&b->best[p].linearized, began);
}

static void measure(Bench *b, int repeats) {
  for (int p = 0; p < pieces; p++) {
    record_steps(b, p);
    for (int r = 0; r < repeats; r++) {
      for (int k = 0; k < 2; k++) run_steps(b, p);
      for (int k = 0; k < 2; k++) their_steps(b, p, r + k == 0);
      for (int k = 0; k < 2; k++) roll(b, p, false);
      for (int k = 0; k < 2; k++) pull_back(b, p);
      for (int k = 0; k < 2; k++) roll(b, p, true);
      if (r >= jacobians) continue;
      for (int k = 0; k < 2; k++) jacobian(b, p);
      for (int k = 0; k < 2; k++) linearize(b, p);
      their_jacobian(b, p);
    }
  }
}

// Times of `our` and `their` steps of a piece.
#define LINE(name, ours, our, theirs, their)                                       \
  do {                                                                             \
    double a = 0, c = 0;                                                           \
    for (int p = 0; p < pieces; p++) a += b->best[p].ours, c += b->best[p].theirs; \
    printf("%s,%.4f,%.4f\n", name, a / (pieces * (our)), c / (pieces * (their)));  \
  } while (0)

static void print(const Bench *b) {
  printf("# dof %d\n# controls %d\n# parameters %zu\n", b->nv, b->nu, pbModel_ParamSize(b->m));
  printf("# contacts %.2f\n# iterations %.2f\n# their_contacts %.2f\n", b->contacts, b->iterations, b->their_contacts);
  printf("# mesh_contacts %.2f\n", b->mesh_contacts);
  printf("# apart %.1e\n", b->apart);
  LINE("step", step, piece, their_step, piece);
  LINE("vjp", vjp, piece, their_step, piece);
  double backward = 0, theirs = 0;
  for (int p = 0; p < pieces; p++) {
    backward += b->best[p].gradient - b->best[p].recorded;
    theirs += b->best[p].their_step;
  }
  printf("vjp in a rollout,%.4f,%.4f\n", backward / (pieces * piece), theirs / (pieces * piece));
  LINE("forward+backward", gradient, piece, their_step, piece);
  LINE("jacobian", jacobian, burst, their_jacobian, 1);

  // Beside single steps of our own.
  LINE("rollout without tape", rollout, piece, step, piece);
  LINE("rollout with tape", recorded, piece, step, piece);
  LINE("own: jacobian of a record", jacobian, burst, step, piece);
  LINE("own: jacobian of a kept evaluation", linearized, piece, step, piece);
}

static void drop(Bench *b) {
  double *all[] = {b->starts,    b->controls, b->x, b->tape, b->sensed,  b->next_bar, b->x_bar, b->ctrl_bar,
                   b->theta_bar, b->A,        b->B, b->ones, b->their_A, b->their_B,  b->room};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
#ifdef PB_HAVE_MUJOCO
  mj_deleteData(b->d);
  mj_deleteModel(b->mj);
#endif
  pbRollout_Destroy(b->on);
  pbRollout_Destroy(b->off);
  pbScratch_Destroy(b->s);
  pbModel_Destroy(b->m);
  pbContext_Destroy(b->ctx);
}

int main(int argc, char **argv) {
  static Bench b;
  int repeats = argc > 2 ? atoi(argv[2]) : 40;
  if (argc < 2 || repeats < 1) {
    fprintf(stderr, "usage: steps MODEL.xml [REPEATS [FOLDER]]\n");
    return 2;
  }
  load(&b, argv[1], argc > 3 ? argv[3] : NULL);
  load_theirs(&b, argv[1]);
  prepare(&b);
  measure(&b, repeats);
  print(&b);
  drop(&b);
  return 0;
}
