// pullback check, the gradient doctor: the check of a model's derivatives (pullback/check.h) for a run of the command line, as
// text or JSON.
// Tests: tests/oracle/test_check.py, tests/oracle/test_going_on.py.
#include <limits.h>
#include <string.h>

#include <pullback/describe.h>

#include "kept.h"

// ---- report --------------------------------------------------------------------------------------------------------

static void print_test(const pbCheckTest *t) {
  const char *verdict = t->tried ? "holds" : "-";
  if (!t->holds) verdict = "FAILS";

  fprintf(cli_out, "  %-38s %-5s  worst %7.1e  limit %.0e  %d case%s", t->name, verdict, t->worst, t->limit, t->tried,
          t->tried == 1 ? "" : "s");
  if (t->skipped) fprintf(cli_out, ", %d left out", t->skipped);
  if (t->words[0]) fprintf(cli_out, "\n      %s", t->words);
  fputc('\n', cli_out);
}

static void report_text(const cliRun *run, const pbCheckReport *r, bool random) {
  int failed = 0;
  fprintf(cli_out, "%s: %d steps%s, at most %d contacts\n", run->model_path, r->steps, random ? " with random controls" : "",
          r->most_contacts);

  for (int i = 0; i < r->test_count; i++) {
    print_test(&r->test[i]);
    failed += !r->test[i].holds;
  }

  for (const pbCheckFinding *f = r->finding; f < r->finding + r->finding_count; f++)
    fprintf(cli_out, "\n%s, %s:\n  %s\n", f->what, f->where, f->why);

  if (failed) fprintf(cli_out, "\n%d of %d checks fail.\n", failed, r->test_count);
  else fprintf(cli_out, "\nAll %d checks hold.\n", r->test_count);
}

// ---- the command ---------------------------------------------------------------------------------------------------

static int go_on(void *user, const pbProgress *p) {
  cliRun *run = user;
  cliProgress_Show(&run->progress, (double)p->done, (double)p->total, p->phase);
  return cliSignals_Caught();
}

typedef struct Checked {  // what the page is of
  cliRun *run;
  const pbCheckReport *report;
} Checked;

static pbStatus put_page(void *user, const pbPageHead *head, FILE *out) {
  const Checked *c = user;
  return pbCheckReport_Page(c->run->ctx, c->report, head, out);
}

// Nobody but a forger gets there.
static pbStatus of_another(const cliKept *kept) {
  return pbContext_Fail(kept->app->ctx, pb_bad_input, "%s: does not fit the check; --fresh begins anew", kept->path);
}

// Where an earlier run was interrupted; without --page there is none.
static pbStatus take_up(cliKept *kept, pbCheckPoint *point) {
  PB_TRY(cliKept_Load(kept));
  if (!kept->from) return pb_ok;

  if (!pbCheckPoint_Restore(point, kept->from)) return of_another(kept);
  if (!kept->app->args.text[opt_quiet]) fprintf(cli_err, "pullback check: goes on where it was, with %s\n", kept->path);
  return pb_ok;
}

static pbStatus interrupted(cliKept *kept, const pbCheckPoint *point) {
  const cliApp *app = kept->app;
  if (!app->args.text[opt_page]) return cli_nothingKept(app, " without --page");
  if (point && !point->part) return cli_nothingKept(app, " yet");

  char said[600];
  snprintf(said, sizeof said, "%s", pbContext_Error(app->ctx));
  PB_TRY(pbArrays_Create(app->ctx, &kept->left));
  if (point) PB_TRY(pbCheckPoint_Keep(point, kept->left));
  return cliKept_Save(kept, said);
}

static pbStatus check_run(cliRun *run, cliKept *kept, pbCheckPoint *point) {
  cliApp *app = run->app;
  const char *const *text = app->args.text;
  pbCheckOptions options = {.steps = (int)run->steps, .at_start = text[opt_at_start], .progress = go_on, .user = run};
  long seed = 0;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, LONG_MAX, 0, &seed));
  PB_TRY(cliArgs_Mode(app, &options.mode));
  PB_TRY(cliPage_CanWrite(app));
  options.seed = (uint64_t)seed;

  // a task says which gradient it is made for, and where it starts; a model alone is moved unless somebody says how
  if (run->task && !text[opt_mode]) options.mode = pbTask_GradientKind(run->task);
  bool free_start = !run->task && !text[opt_keyframe] && !text[opt_at_start];
  options.random_controls = free_start && run->nu && !text[opt_control];
  options.random_velocity = free_start && !text[opt_init];

  PB_TRY(take_up(kept, point));
  if (!kept->path[0]) point = NULL;

  pbCheckReport *report;
  pbRolloutInput input = cliRun_Inputs(run);
  cliProgress_Begin(&run->progress, app, "check");
  cliSignals_Defer();
  pbStatus status = pbCheck_GoOnFrom(run->ctx, run->model, run->theta, run->x0, &input, &options, point, &report);
  cliProgress_End(&run->progress);
  if (status == pb_interrupted) return interrupted(kept, point);
  cliSignals_Undefer();
  if (status == pb_bad_argument && kept->from) return of_another(kept);
  PB_TRY(status);

  cliRun_NoteCertificate(run, &report->certificate);
  cliRun_WarnSolver(run);
  if (text[opt_json]) pbCheckReport_Describe(report, run->model_path, &(pbJson){.out = cli_out});
  else report_text(run, report, options.random_controls);

  pbStatus saved = cliPage_Save(app, run->model_path, put_page, &(Checked){run, report});
  bool holds = report->holds;
  pbCheckReport_Free(run->ctx, report);
  PB_TRY(saved);
  return holds ? pb_ok : pb_check_failed;
}

pbStatus cliCheck_Run(cliApp *app) {
  cliRun run = {.app = app};
  long horizon = 20;
  cliKept kept;
  pbCheckPoint *point = pbContext_Alloc(app->ctx, sizeof *point);
  pbStatus status = cliKept_Begin(app, &kept);
  if (status == pb_ok && !point) status = cli_noMemory(app->ctx);
  if (status == pb_ok) status = cliArgs_Integer(app, opt_horizon, 1, PB_CHECK_STEPS, 20, &horizon);

  if (status == pb_ok) status = cliRun_Begin(app, horizon, &run);
  if (status == pb_ok) cliRun_FirstTrajectory(&run);
  if (status == pb_ok) status = check_run(&run, &kept, point);
  status = cliKept_End(&kept, status);
  pbContext_Free(app->ctx, point);
  cliRun_End(&run);
  return status;
}
