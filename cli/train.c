// pullback train: a task with a policy in, the trained policy out, with a table and a page of how it went.
// Tests: tests/oracle/test_train.py.
#include <math.h>

#include <pullback/view.h>

#include "cli.h"

typedef struct Names {  // of what is written
  char policy[PB_RUN_PATH], state[PB_RUN_PATH], table[PB_RUN_PATH], page[PB_RUN_PATH];
} Names;

// After -o, or after the task in the current folder.
static pbStatus make_names(cliApp *app, Names *n) {
  const char *output = app->args.text[opt_output], *task = app->args.positional[0];
  PB_TRY(pbRun_FileName(app->ctx, output, task, ".npz", n->policy, sizeof n->policy));
  PB_TRY(pbRun_FileName(app->ctx, output, task, ".state", n->state, sizeof n->state));
  PB_TRY(pbRun_FileName(app->ctx, output, task, ".csv", n->table, sizeof n->table));
  return pbRun_FileName(app->ctx, output, task, ".html", n->page, sizeof n->page);
}

static int on_progress(void *user, const pbTrainNews *news) {
  char note[160];
  cliProgress_Show(user, news->update, news->updates, pbTrainNews_Say(news, note, sizeof note));
  return cliSignals_Caught();
}

static pbStatus run_training(cliApp *app, pbTrain *train, const Names *names, pbTrainResult *result) {
  long seed = 0, threads = 0;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, __LONG_MAX__, 0, &seed));
  PB_TRY(cliArgs_Integer(app, opt_threads, 1, pb_mostThreads, 0, &threads));
  if (app->args.text[opt_fresh]) PB_TRY(cli_forget(app, names->state, true));

  cliProgress progress;
  cliProgress_Begin(&progress, app, "train");
  pbTrainOptions options = {.threads = (int)threads,
                            .has_seed = app->args.text[opt_seed] != NULL,
                            .seed = (uint64_t)seed,
                            .state_file = names->state,
                            .resume = true,
                            .progress = on_progress,
                            .user = &progress};

  // from here on an interrupt is a flag that the training asks for: it saves its state before it ends
  cliSignals_Defer();
  pbStatus status = pbTrain_Run(train, &options, result);
  cliProgress_End(&progress);
  if (status == pb_interrupted || (status == pb_ok && cliSignals_Caught())) {
    fprintf(cli_err, "pullback train: interrupted; the training is saved in %s, and the same command resumes it\n", names->state);
    return pb_interrupted;
  }
  cliSignals_Undefer();
  return status;
}

// ---- the table ----------------------------------------------------------------------------------------------------------
static pbStatus write_table(cliApp *app, const pbTrain *train, const char *path) {
  pbDraft table;
  PB_TRY(pbDraft_Begin(app->ctx, &table));

  pbTrain_Table(train, table.stream);
  return cli_saveDraft(app, path, &table);
}

static void print_summary(cliApp *app, const pbTrain *train, const Names *names, const pbTrainResult *result) {
  if (app->args.text[opt_quiet]) return;
  fprintf(cli_err, "pullback train: %s: %d updates, %.4g robot-steps, %.3g s%s\n", pbTrainMethod_Name(pbTrain_Method(train)),
          result->updates, result->steps, result->seconds, result->resumed ? ", resumed" : "");
  fprintf(cli_err, "  loss a decision, mean over training starts: %.6g at the start, %.6g after update %d (%.0f %% to the end)\n",
          result->first_score, result->score, result->best_update, 100 * result->alive);
  if (isfinite(result->success))
    fprintf(cli_err, "  episodes of %.3g s in the mean, %.0f %% of them a success\n", result->length, 100 * result->success);
  if (result->dropped > 0) fprintf(cli_err, "  %.0f worlds diverged, and were left out and begun anew\n", result->dropped);
  fprintf(cli_err, "  written: %s, %s, %s\n", names->policy, names->table, names->page);
}

// Curves, and the best policy from the first of the evaluations' starts.
static pbStatus write_page(cliApp *app, const pbTrain *train, const pbTrainResult *result, const char *path) {
  char said[PB_NOTES_TEXT];
  pbStepNotes notes;
  pbDraft page;
  PB_TRY(pbDraft_Begin(app->ctx, &page));

  pbStatus status =
      pbTrain_Page(app->ctx, train, result, app->args.positional[0], app->args.text[opt_allow_root], path, &notes, page.stream);
  cli_noteFile(app, pbTrain_Model(train));
  cliRun_Warn(pbStepNotes_Say(&notes, pbTrain_Model(train), pbTrain_EpisodeSteps(train), said, sizeof said));
  if (status == pb_ok) return cli_saveDraft(app, path, &page);
  pbDraft_Drop(&page);
  return status;
}

static pbStatus write_results(cliApp *app, const pbTrain *train, const Names *names, const pbTrainResult *result) {
  cliSignals_Hold();
  pbStatus status = pbPolicy_Save(app->ctx, pbTrain_Model(train), result->theta, names->policy);
  cliSignals_Release();
  PB_TRY(status);
  PB_TRY(write_table(app, train, names->table));
  PB_TRY(write_page(app, train, result, names->page));

  // done: the next run starts over
  PB_TRY(cli_forget(app, names->state, false));
  print_summary(app, train, names, result);
  char said[PB_NOTES_TEXT];
  cliRun_Warn(pbTrainResult_Warning(result, said, sizeof said));
  return pb_ok;
}

static pbStatus train_task(cliApp *app, Names *names) {
  pbTrain *train;
  pbTrainResult result = {0};
  PB_TRY(make_names(app, names));
  PB_TRY(pbFile_CanWrite(app->ctx, names->policy));
  PB_TRY(pbTrain_Load(app->ctx, app->args.positional[0], app->args.text[opt_allow_root], app->args.text[opt_policy], &train));

  pbStatus status = run_training(app, train, names, &result);
  if (status == pb_ok) status = write_results(app, train, names, &result);
  pbTrain_Destroy(train);
  return status;
}

pbStatus cliTrain_Run(cliApp *app) {
  Names *names = pbContext_Alloc(app->ctx, sizeof *names);
  if (!names) return cli_noMemory(app->ctx);
  pbStatus status = train_task(app, names);
  pbContext_Free(app->ctx, names);
  return status;
}
