// pullback simulate: a rollout, all of its states.
#include <string.h>

#include "cli.h"
#include "io/file.h"

enum { MOST_FIELDS = 32 };

typedef struct Recorder {
  int count;
  pbStateField fields[MOST_FIELDS];
  double *rows[MOST_FIELDS];  // (N + 1, size) each
  double *sensordata;
} Recorder;

static pbStatus make_recorder(const cliRun *run, pbArrays *set, Recorder *r) {
  size_t n = (size_t)run->steps + 1;
  r->count = pbModel_StateFieldCount(run->model);
  if (r->count > MOST_FIELDS) return pbContext_Fail(run->ctx, pb_capacity, "too many state fields");
  for (int i = 0; i < r->count; i++) {
    r->fields[i] = pbModel_StateFieldAt(run->model, i);
    bool is_time = strcmp(r->fields[i].name, "time") == 0;
    size_t shape[2] = {n, (size_t)r->fields[i].size};
    PB_TRY(pbArrays_AddReals(set, r->fields[i].name, is_time ? 1 : 2, shape, NULL, &r->rows[i]));
  }
  PB_TRY(pbArrays_AddReals(set, "control", 2, (size_t[]){n - 1, (size_t)run->nu}, run->control, NULL));
  if (run->qfrc) PB_TRY(pbArrays_AddReals(set, "qfrc", 2, (size_t[]){n - 1, (size_t)run->nv}, run->qfrc, NULL));
  if (run->xfrc) PB_TRY(pbArrays_AddReals(set, "xfrc", 3, (size_t[]){n - 1, (size_t)run->nbody, 6}, run->xfrc, NULL));
  return pbArrays_AddReals(set, "sensordata", 2, (size_t[]){n, (size_t)run->nsensordata}, NULL, &r->sensordata);
}

static void record(const Recorder *r, const double *x, long k) {
  for (int i = 0; i < r->count; i++) {
    size_t size = (size_t)r->fields[i].size;
    if (size) memcpy(r->rows[i] + (size_t)k * size, x + r->fields[i].offset, size * sizeof *x);
  }
}

static pbStatus run_steps(cliRun *run, const Recorder *r, double *x, cliProgress *progress) {
  size_t ns = (size_t)run->nsensordata;
  for (long k = 0; k < run->steps; k++) {
    record(r, x, k);
    pbInput input = cliRun_Input(run, k);
    pbStatus status;
    do {
      status = pbStep_Forward(run->model, run->theta, x, &input, run->scratch, ns ? r->sensordata + (size_t)k * ns : NULL);
    } while (pbScratch_Grow(run->scratch, &status));
    if (status != pb_ok) return cliRun_StepFailed(run, status, k);
    cliRun_NoteSolve(run, k);
    PB_TRY(cliRun_CheckState(run, x, k));
    cliProgress_Show(progress, (double)k + 1, (double)run->steps, NULL);
  }
  record(r, x, run->steps);
  pbInput input = cliRun_Input(run, run->steps);
  pbStatus status =
      pbStep_Observe(run->model, run->theta, x, &input, run->scratch, ns ? r->sensordata + (size_t)run->steps * ns : NULL);
  if (status != pb_ok) return cliRun_StepFailed(run, status, run->steps);
  cliRun_NoteSolve(run, run->steps);
  return pb_ok;
}

static pbStatus add_meta(const cliRun *run, pbArrays *set) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (!stream) return pbContext_Fail(run->ctx, pb_no_memory, "out of memory");
  cliJson j = {.out = stream, .compact = true};
  cliJson_Open(&j, NULL, '{');
  cliRun_Meta(run, &j);
  cliJson_Close(&j, '}');
  return cliRun_AddMeta(set, stream, &text);
}

static pbStatus simulate(cliRun *run, pbArrays *set, double *x) {
  Recorder recorder = {0};
  PB_TRY(make_recorder(run, set, &recorder));
  PB_TRY(pbScratch_Create(run->ctx, run->model, NULL, &run->scratch));
  cliProgress progress;
  cliProgress_Begin(&progress, run->app, "simulate");
  memcpy(x, run->x0, (size_t)run->nx * sizeof *x);
  pbStatus status = run_steps(run, &recorder, x, &progress);
  cliProgress_End(&progress);
  PB_TRY(status);
  cliRun_WarnSolver(run);
  return add_meta(run, set);
}

pbStatus cliRun_Simulate(cliRun *run, pbArrays *set) {
  double *x = pbContext_Alloc(run->ctx, (size_t)run->nx * sizeof *x);
  if (!x) return pbContext_Fail(run->ctx, pb_no_memory, "out of memory");
  pbStatus status = simulate(run, set, x);
  pbContext_Free(run->ctx, x);
  return status;
}

pbStatus cliSimulate_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *set = NULL;
  pbStatus status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) cliRun_FirstTrajectory(&run);
  if (status == pb_ok) status = pbFile_CanBegin(app->ctx, app->args.text[opt_output]);  // before the work, not after it
  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);
  if (status == pb_ok) status = cliRun_Simulate(&run, set);
  if (status == pb_ok) status = cli_save(app, set);
  if (status == pb_ok) status = cliMotion_Write(&run, set);
  pbArrays_Destroy(set);
  cliRun_End(&run);
  return status;
}
