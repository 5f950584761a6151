// pullback export: a model with its parameters as an MJCF file, and what such a file cannot say; its policy as C.
// Tests: tests/oracle/test_export.py.
#include <string.h>

#include "cli.h"

static void print_unsaid(const cliApp *app, const char *lines) {
  if (!*lines || app->args.text[opt_quiet]) return;
  fprintf(cli_err, "pullback export: MJCF cannot say:\n");
  for (const char *at = lines; *at; at += strcspn(at, "\n") + 1) fprintf(cli_err, "  %.*s\n", (int)strcspn(at, "\n"), at);
}

static bool ends_in(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  return n > m && strcmp(path + n - m, suffix) == 0;
}

// The policy alone, as C.
static pbStatus write_policy(cliRun *run) {
  const cliApp *app = run->app;
  cliSignals_Hold();
  pbStatus status = pbPolicy_SaveC(run->ctx, run->model, run->theta, app->args.text[opt_output]);
  cliSignals_Release();
  return status;
}

static pbStatus write_file(cliRun *run) {
  const cliApp *app = run->app;
  if (ends_in(app->args.text[opt_output], ".c")) return write_policy(run);
  char *unsaid;

  // the file appears whole: signals wait
  cliSignals_Hold();
  pbStatus status = pbModel_SaveMjcf(run->ctx, run->model, run->theta, app->args.text[opt_output], &unsaid);
  cliSignals_Release();
  if (status != pb_ok) return status;

  print_unsaid(app, unsaid);
  bool whole = !*unsaid || !app->args.text[opt_strict];
  pbContext_Free(run->ctx, unsaid);
  return whole ? pb_ok : pb_check_failed;
}

pbStatus cliExport_Run(cliApp *app) {
  cliRun run = {0};
  pbStatus status = cliRun_Whole(app, &run);
  if (status == pb_ok) status = write_file(&run);
  cliRun_End(&run);
  return status;
}
