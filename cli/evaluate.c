// pullback evaluate: what a policy does in episodes that no training has seen.
// Tests: tests/oracle/test_evaluate.py.
#include <limits.h>
#include <math.h>

#include <pullback/learn.h>

#include "cli.h"

static int on_progress(void *user, const pbTrainNews *news) {
  cliProgress_Show(user, 0, 1, "");
  (void)news;
  return cliSignals_Caught();
}

static void print_line(const char *what, double value, const char *unit) {
  if (isfinite(value)) fprintf(cli_out, "  %-22s %.4g%s\n", what, value, unit);
}

// Which terms of "done" they were ended by: one may be ended by several.
static void print_ends(const pbTrainTest *t) {
  fprintf(cli_out, "  %-22s %d (%.3g %%)", "ended early", t->ended, 100.0 * t->ended / t->starts);
  for (int i = 0; i < t->ends; i++) fprintf(cli_out, "%s%s: %d", i ? ", " : "; ", t->end[i].name, t->end[i].episodes);
  if (t->diverged) fprintf(cli_out, "; diverged: %d", t->diverged);
  fputc('\n', cli_out);
}

static void print_terms(const pbTrainTest *t) {
  fprintf(cli_out, "  %-22s %16s %18s\n", "term of the loss", "cost a decision", "root mean square");
  for (int i = 0; i < t->terms; i++) {
    fprintf(cli_out, "  %-22s %16.5g ", t->term[i].name, t->term[i].cost);
    if (isfinite(t->term[i].rms)) fprintf(cli_out, "%18.4g\n", t->term[i].rms);
    else fprintf(cli_out, "%18s\n", "-");
  }
}

static void print_test(const pbTrainTest *t) {
  fprintf(cli_out, "%d episodes of %.4g s that no training has seen (seed %llu)\n", t->starts, t->seconds,
          (unsigned long long)t->seed);
  print_ends(t);
  print_line("length", t->length, " s in the mean");
  print_line("success", 100 * t->success, " %");
  print_line("distance", t->distance, " m in the mean");
  print_line("loss", t->score, " a decision");
  print_terms(t);
}

// To a file, or where no text is wanted.
static pbStatus write_json(cliApp *app, const pbTrainTest *test) {
  char *text = NULL;
  pbDraft page;
  PB_TRY(pbTrainTest_Json(app->ctx, test, &text));
  if (!app->args.text[opt_output]) {
    fprintf(cli_out, "%s\n", text);
    pbContext_Free(app->ctx, text);
    return pb_ok;
  }

  pbStatus status = pbDraft_Begin(app->ctx, &page);
  if (status == pb_ok) fprintf(page.stream, "%s\n", text);
  pbContext_Free(app->ctx, text);
  return status == pb_ok ? cli_saveDraft(app, app->args.text[opt_output], &page) : status;
}

static pbStatus run_test(cliApp *app, pbTrain *train, pbTrainTest *test) {
  long seed = 0, threads = 0, starts = 0;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, LONG_MAX, 0, &seed));
  PB_TRY(cliArgs_Integer(app, opt_threads, 1, pb_mostThreads, 0, &threads));
  PB_TRY(cliArgs_Integer(app, opt_starts, 1, 100000, 200, &starts));

  cliProgress progress;
  cliProgress_Begin(&progress, app, "evaluate");
  pbTrainOptions options = {.threads = (int)threads,
                            .has_seed = app->args.text[opt_seed] != NULL,
                            .seed = (uint64_t)seed,
                            .progress = on_progress,
                            .user = &progress};

  // nothing is kept of it
  cliSignals_Defer();
  pbStatus status = pbTrain_Test(train, &options, (int)starts, test);
  cliProgress_End(&progress);
  if (status == pb_interrupted) fprintf(cli_err, "pullback evaluate: interrupted\n");
  cliSignals_Undefer();

  return status;
}

pbStatus cliEvaluate_Run(cliApp *app) {
  pbTrain *train;
  pbTrainTest test;
  PB_TRY(pbTrain_Load(app->ctx, app->args.positional[0], app->args.text[opt_allow_root], app->args.text[opt_policy], &train));

  pbStatus status = run_test(app, train, &test);
  if (status == pb_ok && !app->args.text[opt_json]) print_test(&test);
  if (status == pb_ok && (app->args.text[opt_json] || app->args.text[opt_output])) status = write_json(app, &test);
  pbTrain_Destroy(train);

  return status;
}
