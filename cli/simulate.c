// pullback simulate: a rollout, all of its states or every so many.
// Tests: tests/oracle/test_cli.py.
#include <limits.h>
#include <math.h>
#include <string.h>

#include "worlds.h"

enum { MOST_FIELDS = 32, META_ROOM = 1 << 20 };  // bytes left for meta, which is written last

typedef struct Recorder {
  int count;
  pbStateField fields[MOST_FIELDS];
  double *rows[MOST_FIELDS];  // (kept, size) each
  double *sensordata;
  size_t kept;  // states
} Recorder;

// States of a run of so many steps that are kept: the first, every n-th, and the last.
static size_t kept_states(long steps, long every) { return (size_t)((steps + every - 1) / every) + 1; }

// Row of the state after k steps, or -1 where it is not kept.
static long row_of(const cliRun *run, const Recorder *r, long k) {
  if (k == run->steps) return (long)r->kept - 1;
  return k % run->every == 0 ? k / run->every : -1;
}

static double *sensors_of(const cliRun *run, const Recorder *r, long k) {
  long row = row_of(run, r, k);
  return run->nsensordata && row >= 0 ? r->sensordata + (size_t)row * (size_t)run->nsensordata : NULL;
}

// The smallest `every` whose arrays fit; 0: none can.
static long smallest_every(const cliRun *run, double inputs, double state) {
  double states = floor(((double)PB_ARRAY_LIMIT - inputs) / state);
  if (states < 3) return 0;

  // all but the first and the last are `every` steps apart
  return (long)((double)run->steps / (states - 2)) + 1;
}

static pbStatus check_size(const cliRun *run, const Recorder *r) {
  double numbers = run->nsensordata, input = run->nu;
  for (int i = 0; i < r->count; i++) numbers += r->fields[i].size;
  if (run->qfrc) input += run->nv;
  if (run->xfrc) input += 6. * run->nbody;
  if (run->command) input += run->ncommand;
  if (run->mocap_pos) input += 3. * run->nmocap;
  if (run->mocap_quat) input += 4. * run->nmocap;
  if (run->mocap_vel) input += 6. * run->nmocap;

  double inputs = META_ROOM + sizeof(double) * input * (double)run->steps, state = sizeof(double) * numbers;
  if (inputs + state * (double)r->kept <= (double)PB_ARRAY_LIMIT) return pb_ok;

  char advice[80] = "";
  long every = smallest_every(run, inputs, state);
  if (every && every <= run->steps) snprintf(advice, sizeof advice, "; --every %ld would fit", every);
  return pbContext_Fail(run->ctx, pb_capacity,
                        "%zu states of %.0f bytes, the inputs of %ld steps and meta need %.0f MiB, at most %zu MiB are allowed%s",
                        r->kept, state, run->steps, (inputs + state * (double)r->kept) / 1048576, PB_ARRAY_LIMIT >> 20, advice);
}

static pbStatus make_recorder(const cliRun *run, pbArrays *set, Recorder *r) {
  size_t n = (size_t)run->steps, nmocap = (size_t)run->nmocap;
  r->count = pbModel_StateFieldCount(run->model);
  if (r->count > MOST_FIELDS) return pbContext_Fail(run->ctx, pb_capacity, "too many state fields");
  for (int i = 0; i < r->count; i++) r->fields[i] = pbModel_StateFieldAt(run->model, i);

  r->kept = kept_states(run->steps, run->every);

  // refused before the first step, not after the last
  PB_TRY(check_size(run, r));

  for (int i = 0; i < r->count; i++) {
    bool is_time = strcmp(r->fields[i].name, "time") == 0;
    size_t shape[2] = {r->kept, (size_t)r->fields[i].size};
    PB_TRY(pbArrays_AddReals(set, r->fields[i].name, is_time ? 1 : 2, shape, NULL, &r->rows[i]));
  }

  PB_TRY(pbArrays_AddReals(set, "control", 2, (size_t[]){n, (size_t)run->nu}, run->control, NULL));
  if (run->qfrc) PB_TRY(pbArrays_AddReals(set, "qfrc", 2, (size_t[]){n, (size_t)run->nv}, run->qfrc, NULL));
  if (run->xfrc) PB_TRY(pbArrays_AddReals(set, "xfrc", 3, (size_t[]){n, (size_t)run->nbody, 6}, run->xfrc, NULL));
  if (run->command) PB_TRY(pbArrays_AddReals(set, "command", 2, (size_t[]){n, (size_t)run->ncommand}, run->command, NULL));
  if (run->mocap_pos) PB_TRY(pbArrays_AddReals(set, "mocap_pos", 3, (size_t[]){n, nmocap, 3}, run->mocap_pos, NULL));
  if (run->mocap_quat) PB_TRY(pbArrays_AddReals(set, "mocap_quat", 3, (size_t[]){n, nmocap, 4}, run->mocap_quat, NULL));
  if (run->mocap_vel) PB_TRY(pbArrays_AddReals(set, "mocap_vel", 3, (size_t[]){n, nmocap, 6}, run->mocap_vel, NULL));
  if (run->mocap_before) {
    const double *quat = run->mocap_before + 3 * nmocap;
    PB_TRY(pbArrays_AddReals(set, "mocap_pos_before", 2, (size_t[]){nmocap, 3}, run->mocap_before, NULL));
    PB_TRY(pbArrays_AddReals(set, "mocap_quat_before", 2, (size_t[]){nmocap, 4}, quat, NULL));
  }
  return pbArrays_AddReals(set, "sensordata", 2, (size_t[]){r->kept, (size_t)run->nsensordata}, NULL, &r->sensordata);
}

static void record(const cliRun *run, const Recorder *r, const double *x, long k) {
  long row = row_of(run, r, k);
  if (row < 0) return;

  for (int i = 0; i < r->count; i++) {
    size_t size = (size_t)r->fields[i].size;
    if (size) memcpy(r->rows[i] + (size_t)row * size, x + r->fields[i].offset, size * sizeof *x);
  }
}

static pbStatus run_steps(cliRun *run, const Recorder *r, double *x, cliProgress *progress) {
  for (long k = 0; k < run->steps; k++) {
    record(run, r, x, k);

    pbInput input = cliRun_Input(run, k);

    // scratch grows with the number of contacts: the step is made again then
    pbStatus status;
    do {
      status = pbStep_Forward(run->model, run->theta, x, &input, run->scratch, sensors_of(run, r, k));
    } while (pbScratch_Grow(run->scratch, &status));
    if (status != pb_ok) return cliRun_StepFailed(run, status, k);

    cliRun_NoteSolve(run, k);
    PB_TRY(cliRun_CheckState(run, x, k));
    cliProgress_Show(progress, (double)k + 1, (double)run->steps, NULL);
  }

  // the last state is observed with the last input, for its sensors
  record(run, r, x, run->steps);
  pbInput input = cliRun_Input(run, run->steps);
  pbStatus status = pbStep_Observe(run->model, run->theta, x, &input, run->scratch, sensors_of(run, r, run->steps));
  if (status != pb_ok) return cliRun_StepFailed(run, status, run->steps);

  cliRun_NoteSolve(run, run->steps);
  return pb_ok;
}

static pbStatus add_meta(const cliRun *run, pbArrays *set) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (!stream) return cli_noMemory(run->ctx);

  cliJson j = {.out = stream, .compact = true};
  cliJson_Open(&j, NULL, '{');
  cliRun_Meta(run, &j);

  if (run->every > 1) cliJson_Integer(&j, "every", run->every);
  cliJson_Close(&j, '}');
  return cliRun_AddMeta(set, stream, &text);
}

static pbStatus simulate(cliRun *run, pbArrays *set, double *x) {
  Recorder recorder = {0};
  PB_TRY(make_recorder(run, set, &recorder));
  PB_TRY(pbScratch_Create(run->ctx, run->model, NULL, &run->scratch));

  cliProgress progress;
  cliProgress_Begin(&progress, run->app, "simulate");

  // the run keeps its initial state: steps are made in a copy
  memcpy(x, run->x0, (size_t)run->nx * sizeof *x);
  pbStatus status = run_steps(run, &recorder, x, &progress);
  cliProgress_End(&progress);
  PB_TRY(status);

  cliRun_WarnSolver(run);
  return add_meta(run, set);
}

pbStatus cliRun_Simulate(cliRun *run, pbArrays *set) {
  if (run->every < 1) run->every = 1;
  double *x = pbContext_Alloc(run->ctx, (size_t)run->nx * sizeof *x);
  if (!x) return cli_noMemory(run->ctx);
  pbStatus status = simulate(run, set, x);
  pbContext_Free(run->ctx, x);
  return status;
}

pbStatus cliSimulate_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *set = NULL;
  pbStatus status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) status = cliArgs_Integer(app, opt_every, 1, INT_MAX, 1, &run.every);

  if (status == pb_ok) cliRun_FirstTrajectory(&run);

  // Whether the files can be written is asked before the work, not after it.
  static const cliOptionId outputs[] = {opt_output, opt_vtu, opt_glb};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    const char *name = app->args.text[outputs[i]];
    if (status == pb_ok && name) status = pbFile_CanWrite(app->ctx, name);
  }

  if (status == pb_ok && app->args.text[opt_worlds]) {
    status = cliWorlds_Simulate(&run);
    cliRun_End(&run);
    return status;
  }

  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);
  if (status == pb_ok) status = cliRun_Simulate(&run, set);
  if (status == pb_ok) status = cli_save(app, set);
  if (status == pb_ok) status = cliMotion_Write(&run, set);
  pbArrays_Destroy(set);
  cliRun_End(&run);
  return status;
}
