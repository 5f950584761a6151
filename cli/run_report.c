// What is said of a run: failed steps, unconverged solves and gained energy on standard error, and "meta" of the files it writes.
// Tests: tests/oracle/test_task_run.py.
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

int cliProgress_On(void *user, const pbProgress *p) {
  cliProgress_Show(user, (double)p->done, (double)p->total, NULL);
  return cliSignals_Caught();
}

pbStatus cliRun_StepFailed(const cliRun *run, pbStatus status, long k) {
  const char *text = run->scratch ? pbScratch_Error(run->scratch) : "";
  return pbContext_Fail(run->ctx, status, "step %ld of %ld: %s", k, run->steps, *text ? text : pbStatus_Text(status));
}

pbStatus cliRun_CheckState(const cliRun *run, const double *x, long k) {
  pbSimulation s = cliRun_Simulation(run);
  return pbSimulation_Check(run->ctx, &s, x, k);
}

// ---- the constraint solver -----------------------------------------------------------------------------------------

void cliRun_NoteSolve(cliRun *run, long k) { pbStepNotes_Add(&run->notes, run->scratch, k); }

void cliRun_NoteCertificate(cliRun *run, const pbCertificate *c) { pbStepNotes_AddCertificate(&run->notes, c); }

// A file that ends Newton's method early moves otherwise in MuJoCo.
void cli_noteFile(const cliApp *app, const pbModel *model) {
  static const char *const names[] = {"iterations", "ls_iterations"};
  if (app->args.text[opt_quiet]) return;

  for (int i = 0; i < 2; i++) {
    // what the file asks for, beside what is used
    char field[32];
    snprintf(field, sizeof field, "file_%s", names[i]);
    int asked = pbModel_Integer(model, field, 0), used = pbModel_Integer(model, names[i], 0);
    if (asked >= used) continue;

    // only less than what is done makes a difference
    fprintf(cli_err,
            "pullback: note: the file has %s=%d; the solver runs to full accuracy (--option %s=file: as the file says)\n",
            names[i], asked, names[i]);
  }
}

void cliRun_WarnSolver(const cliRun *run) {
  cli_noteFile(run->app, run->model);
  char text[PB_NOTES_TEXT];
  cliRun_Warn(pbStepNotes_Say(&run->notes, run->model, run->steps, text, sizeof text));
}

// ---- results -------------------------------------------------------------------------------------------------------

void cliRun_Meta(const cliRun *run, pbJson *j) {
  pbSimulation s = cliRun_Simulation(run);
  pbSimulation_Describe(run->ctx, &s, &run->notes, j);
}

pbStatus cliRun_AddMeta(pbArrays *set, pbDraft *draft) {
  pbContext *ctx = draft->ctx;
  char *text;
  PB_TRY(pbDraft_End(draft, &text, NULL));

  pbStatus status = pbArrays_AddText(set, "meta", text);
  pbContext_Free(ctx, text);
  return status;
}

pbStatus cli_saveDraft(cliApp *app, const char *path, pbDraft *draft) {
  char *text;
  size_t size;
  PB_TRY(pbDraft_End(draft, &text, &size));

  cliSignals_Hold();
  pbStatus status = pbFile_Write(app->ctx, path, text, size);
  cliSignals_Release();

  pbContext_Free(app->ctx, text);
  return status;
}

pbStatus cli_forget(cliApp *app, const char *state, bool needed) {
  if (unlink(state) == 0 || errno == ENOENT) return pb_ok;

  int reason = errno;
  if (needed) return pbContext_Fail(app->ctx, pb_file, "%s: cannot be removed: %s", state, strerror(reason));
  fprintf(cli_err, "pullback: warning: %s: cannot be removed: %s; the next run goes on from it\n", state, strerror(reason));
  return pb_ok;
}

pbStatus cli_save(cliApp *app, const pbArrays *set) {
  cliSignals_Hold();
  pbStatus status = pbArrays_SaveNpz(set, app->args.text[opt_output], app->args.text[opt_compressed] != NULL);
  cliSignals_Release();
  return status;
}
