// pullback jacobian: A, B, C, D of every step along a rollout.
#include <string.h>

#include "cli.h"

typedef struct Matrices {
  double *a, *b, *c, *d;
} Matrices;

static pbStatus make_matrices(const cliRun *run, pbArrays *set, Matrices *m) {
  size_t steps = (size_t)run->steps, n = (size_t)run->nt, nu = (size_t)run->nu, ns = (size_t)run->nsensordata;
  PB_TRY(pbArrays_AddReals(set, "A", 3, (size_t[]){steps, n, n}, NULL, &m->a));
  PB_TRY(pbArrays_AddReals(set, "B", 3, (size_t[]){steps, n, nu}, NULL, &m->b));
  PB_TRY(pbArrays_AddReals(set, "C", 3, (size_t[]){steps, ns, n}, NULL, &m->c));
  return pbArrays_AddReals(set, "D", 3, (size_t[]){steps, ns, nu}, NULL, &m->d);
}

static pbStatus one_step(cliRun *run, const Matrices *m, double *x, double *before, double *record, long k) {
  size_t n = (size_t)run->nt, nu = (size_t)run->nu, ns = (size_t)run->nsensordata, row = (size_t)k;
  pbInput input = cliRun_Input(run, k);
  memcpy(before, x, (size_t)run->nx * sizeof *x);
  PB_TRY(pbStep_Forward(run->model, run->theta, x, &input, run->scratch, NULL));
  cliRun_NoteSolve(run, k);
  pbTape_Record(run->model, before, run->scratch, record);
  PB_TRY(pbStep_Jacobian(run->model, run->theta, record, &input, run->scratch, m->a + row * n * n, m->b + row * n * nu,
                         m->c + row * ns * n, m->d + row * ns * nu));
  bool fine = cli_finite(x, (size_t)run->nx) && cli_finite(m->a + row * n * n, n * n) && cli_finite(m->b + row * n * nu, n * nu);
  return fine && cli_finite(m->c + row * ns * n, ns * n) && cli_finite(m->d + row * ns * nu, ns * nu) ? pb_ok : pb_not_finite;
}

static pbStatus add_meta(const cliRun *run, pbArrays *set) {
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (!stream) return pbContext_Fail(run->ctx, pb_no_memory, "out of memory");
  cliJson j = {.out = stream, .compact = true};
  cliJson_Open(&j, NULL, '{');
  cliRun_Meta(run, &j);
  cliJson_Text(&j, "order", "dq (nv, tangent space), dv (nv), dact (na)");
  cliJson_Close(&j, '}');
  return cliRun_AddMeta(set, stream, &text);
}

static pbStatus jacobians(cliRun *run, pbArrays *set, double *work) {
  Matrices m = {0};
  PB_TRY(make_matrices(run, set, &m));
  PB_TRY(pbScratch_Create(run->model, NULL, &run->scratch));
  double *x = work, *before = x + run->nx, *record = before + run->nx;
  memcpy(x, run->x0, (size_t)run->nx * sizeof *x);
  cliProgress progress;
  cliProgress_Begin(&progress, run->app, "jacobian");
  pbStatus status = pb_ok;
  for (long k = 0; k < run->steps && status == pb_ok; k++) {
    status = one_step(run, &m, x, before, record, k);
    if (status != pb_ok) status = cliRun_StepFailed(run, status, k);
    cliProgress_Show(&progress, (double)k + 1, (double)run->steps, NULL);
  }
  cliProgress_End(&progress);
  PB_TRY(status);
  cliRun_WarnSolver(run);
  PB_TRY(add_meta(run, set));
  return cli_save(run->app, set);
}

pbStatus cliJacobian_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *set = NULL;
  double *work = NULL;
  pbStatus status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);
  if (status == pb_ok) {
    work = pbContext_Alloc(app->ctx, (2 * (size_t)run.nx + (size_t)pbTape_Size(run.model)) * sizeof *work);
    status = work ? jacobians(&run, set, work) : pb_no_memory;
  }
  pbContext_Free(app->ctx, work);
  pbArrays_Destroy(set);
  cliRun_End(&run);
  return status;
}
