// Many worlds at once beside MuJoCo's own batch in C (mjbatch.h), in one process.
//   batch MODEL.xml [WORLDS [REPEATS]]      prints "quantity,pullback_us,beside_us" per line: CPU time a world and step
//
// Both engines get the same controls, of another phase in every world, from the same reset on. A call of one alternates with a
// call of the other. Times are the least of the repeats; those on two threads are of the whole process.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pullback/pullback.h>

#ifdef PB_HAVE_MUJOCO
#include <mujoco/mjbatch.h>
#include <mujoco/mujoco.h>
#endif

enum { steps = 150, window = 50 };  // single steps; a rollout with gradient

typedef struct Bench {
  pbContext *ctx;
  pbModel *m;
  int worlds;
  size_t nx, nv, nu;
  double *ctrl, *ones, *theta_bar, *x0_bar;  // (worlds, window, nu), ...
  double *sensed;                            // (worlds, nsensordata): mj_step computes them, too; NULL: there are none
  pbPool *pool[3];                           // by threads
  pbBatch *batch[3];
#ifdef PB_HAVE_MUJOCO
  mjModel *their_model;
  mjBatch *theirs;
#endif
} Bench;

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void need(const Bench *b, pbStatus status) {
  if (status == pb_ok) return;
  fprintf(stderr, "batch: %s\n", pbContext_Error(b->ctx));
  exit(pbStatus_ExitCode(status));
}

static double *numbers(size_t count) {
  double *a = calloc(count + 1, sizeof *a);
  if (!a) exit(5);
  return a;
}

static double wave(int world, int step, size_t actuator) { return 0.1 * sin(0.03 * step + world + (double)actuator); }

// ---- the peer ---------------------------------------------------------------------------------------------------------
#ifdef PB_HAVE_MUJOCO
static void open_theirs(Bench *b, const char *file) {
  char text[1000] = "";
  b->their_model = mj_loadXML(file, NULL, text, sizeof text);
  if (!b->their_model) {
    fprintf(stderr, "batch: %s\n", text);
    exit(3);
  }
  b->their_model->opt.integrator = mjINT_EULER;
  b->their_model->opt.solver = mjSOL_NEWTON;
  b->their_model->opt.tolerance = 1e-8;
  b->their_model->opt.iterations = 100;

  mjBatchConfig config;
  mjb_defaultConfig(&config);
  config.nthread = 1;
  b->theirs = mjb_makeBatch(b->their_model, b->worlds, &config, NULL, 0);
}

static void reset_theirs(Bench *b) { mjb_reset(b->theirs, NULL, 0, NULL, 0); }

static double step_theirs(Bench *b, int k) {
  int size;
  mjtNum *ctrl = mjb_stateComponent(b->theirs, mjSTATE_CTRL, &size);
  for (int w = 0; w < b->worlds; w++) {
    for (size_t i = 0; i < b->nu; i++) ctrl[(size_t)w * (size_t)mjb_nstate(b->theirs) + i] = wave(w, k, i);
  }

  double began = cpu();
  if (mjb_step(b->theirs, NULL, 0, 1, 0)) exit(4);
  return cpu() - began;
}

static void close_theirs(Bench *b) {
  mjb_deleteBatch(b->theirs);
  mj_deleteModel(b->their_model);
}
#else
static void open_theirs(Bench *b, const char *file) {
  (void)b;
  (void)file;
}
static void reset_theirs(Bench *b) { (void)b; }
static double step_theirs(Bench *b, int k) { return (void)b, (void)k, 0; }
static void close_theirs(Bench *b) { (void)b; }
#endif

// ---- ours -------------------------------------------------------------------------------------------------------------
static void open_ours(Bench *b, const char *file, int worlds) {
  b->ctx = pbContext_Create(NULL);
  b->worlds = worlds;
  need(b, pbModel_Load(b->ctx, file, NULL, &b->m));
  need(b, pbModel_SetOption(b->m, "integrator", "Euler"));
  need(b, pbModel_SetOption(b->m, "tolerance", "1e-8"));
  b->nx = (size_t)pbModel_StateSize(b->m);
  b->nv = (size_t)pbModel_Size(b->m, "nv");
  b->nu = (size_t)pbModel_Size(b->m, "nu");

  size_t w = (size_t)worlds;
  b->ctrl = numbers(w * window * b->nu);
  b->ones = numbers(w * b->nv);
  b->theta_bar = numbers(pbModel_ParamSize(b->m));
  b->x0_bar = numbers(w * (size_t)pbModel_TangentSize(b->m));
  for (size_t i = 0; i < w * b->nv; i++) b->ones[i] = 1;
  size_t sensors = (size_t)pbModel_Size(b->m, "nsensordata");
  b->sensed = sensors ? numbers(w * sensors) : NULL;
  for (int threads = 1; threads <= 2; threads++) {
    need(b, pbPool_Create(b->ctx, threads, &b->pool[threads]));
    pbBatchOptions options = {.worlds = worlds, .pool = b->pool[threads], .steps = window};
    need(b, pbBatch_Create(b->ctx, b->m, &options, &b->batch[threads]));
  }
}

static double step_ours(Bench *b, int k) {
  for (int w = 0; w < b->worlds; w++) {
    for (size_t i = 0; i < b->nu; i++) b->ctrl[(size_t)w * b->nu + i] = wave(w, k, i);
  }

  pbBatchInput input = {.ctrl = b->ctrl};
  double began = cpu();
  need(b, pbBatch_Step(b->batch[1], NULL, NULL, 0, &input, b->sensed));
  return cpu() - began;
}

// A rollout, and one with its gradient by states and all parameters, from where the worlds of one thread are.
static void roll_ours(Bench *b, int threads, const double *from, double times[2]) {
  size_t w = (size_t)b->worlds;
  for (size_t i = 0; i < w * window * b->nu; i++)
    b->ctrl[i] = wave((int)(i / (window * b->nu)), (int)(i / b->nu) % window, i % b->nu);
  memcpy(pbBatch_States(b->batch[threads]), from, w * b->nx * sizeof *from);
  pbBatchInput input = {.ctrl = b->ctrl};
  pbRolloutBar bar = {.qpos = {.data = b->ones, .count = 1}, .qvel = {.data = b->ones, .count = 1}};
  pbBatchGradient gradient = {.x0 = b->x0_bar, .theta = b->theta_bar};

  double began = cpu();
  need(b, pbBatch_Rollout(b->batch[threads], NULL, NULL, 0, window, &input, NULL));
  times[0] = fmin(times[0], cpu() - began);
  need(b, pbBatch_Vjp(b->batch[threads], &bar, NULL, &gradient, NULL));
  times[1] = fmin(times[1], cpu() - began);
}

static void measure(Bench *b, int repeats) {
  double ours = INFINITY, theirs = INFINITY, times[3][2] = {{0}, {INFINITY, INFINITY}, {INFINITY, INFINITY}};
  double *from = numbers((size_t)b->worlds * b->nx);
  double each = (double)b->worlds;

  for (int r = 0; r < repeats; r++) {
    double sum = 0, their_sum = 0;
    need(b, pbBatch_Reset(b->batch[1], NULL, NULL, 0, -1, NULL));
    reset_theirs(b);
    for (int k = 0; k < steps; k++) {
      sum += step_ours(b, k);
      their_sum += step_theirs(b, k);
    }
    ours = fmin(ours, sum);
    theirs = fmin(theirs, their_sum);

    memcpy(from, pbBatch_States(b->batch[1]), (size_t)b->worlds * b->nx * sizeof *from);
    for (int threads = 1; threads <= 2; threads++) roll_ours(b, threads, from, times[threads]);
  }

  printf("step beside mjb_step,%.4f,%.4f\n", ours / (each * steps), theirs / (each * steps));
  printf("rollout with gradient beside mjb_step,%.4f,%.4f\n", times[1][1] / (each * window), theirs / (each * steps));
  printf("rollout: two threads beside one,%.4f,%.4f\n", times[2][0] / (each * window), times[1][0] / (each * window));
  printf("rollout with gradient: two threads beside one,%.4f,%.4f\n", times[2][1] / (each * window),
         times[1][1] / (each * window));
  free(from);
}

int main(int argc, char **argv) {
  static Bench b;
  int worlds = argc > 2 ? atoi(argv[2]) : 128;
  int repeats = argc > 3 ? atoi(argv[3]) : 5;
  if (argc < 2 || worlds < 1 || repeats < 1) {
    fprintf(stderr, "usage: batch MODEL.xml [WORLDS [REPEATS]]\n");
    return 2;
  }

  open_ours(&b, argv[1], worlds);
  open_theirs(&b, argv[1]);
  measure(&b, repeats);

  close_theirs(&b);
  for (int threads = 1; threads <= 2; threads++) {
    pbBatch_Destroy(b.batch[threads]);
    pbPool_Destroy(b.pool[threads]);
  }
  double *all[] = {b.ctrl, b.ones, b.theta_bar, b.x0_bar, b.sensed};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  pbModel_Destroy(b.m);
  pbContext_Destroy(b.ctx);
  return 0;
}
