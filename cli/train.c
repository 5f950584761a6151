// pullback train: a task with a policy in, the trained policy out, with a table and a page of how it went.
// Tests: tests/oracle/test_train.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { MOST_PATH = 4096 };

typedef struct Names {  // of what is written
  char policy[MOST_PATH + 16], state[MOST_PATH + 16], table[MOST_PATH + 16], page[MOST_PATH + 16];
} Names;

// After -o, or after the task in the current folder.
static pbStatus make_names(cliApp *app, Names *n) {
  const char *output = app->args.text[opt_output], *from = output ? output : app->args.positional[0];
  if (!output && strrchr(from, '/')) from = strrchr(from, '/') + 1;

  size_t length = strlen(from);
  const char *const suffixes[] = {".npz", ".json"};
  for (int i = 0; i < 2; i++) {
    size_t m = strlen(suffixes[i]);
    if (length > m && strcmp(from + length - m, suffixes[i]) == 0) {
      length -= m;
      break;
    }
  }
  if (!length || length >= MOST_PATH)
    return pbContext_Fail(app->ctx, pb_bad_argument, "-o: the name of the output is too long or empty");

  snprintf(n->policy, sizeof n->policy, "%.*s.npz", (int)length, from);
  snprintf(n->state, sizeof n->state, "%.*s.state", (int)length, from);
  snprintf(n->table, sizeof n->table, "%.*s.csv", (int)length, from);
  snprintf(n->page, sizeof n->page, "%.*s.html", (int)length, from);
  return pb_ok;
}

static int on_progress(void *user, const pbTrainNews *news) {
  cliProgress *progress = user;
  char note[160];
  int n = snprintf(note, sizeof note, "%.3g robot-steps/s", news->steps_per_second);

  // nothing is known before the first update
  if (isfinite(news->cost)) n += snprintf(note + n, sizeof note - (size_t)n, ", loss %.5g", news->cost);
  if (isfinite(news->score)) snprintf(note + n, sizeof note - (size_t)n, ", evaluated %.5g", news->score);
  cliProgress_Show(progress, news->update, news->updates, note);
  return cliSignals_Caught();
}

static pbStatus run_training(cliApp *app, pbTrain *train, const Names *names, pbTrainResult *result) {
  long seed = 0, threads = 0;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, __LONG_MAX__, 0, &seed));
  PB_TRY(cliArgs_Integer(app, opt_threads, 1, pb_mostThreads, 0, &threads));
  if (app->args.text[opt_fresh]) unlink(names->state);

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
static void write_number(FILE *out, double value, bool last) {
  if (isfinite(value)) fprintf(out, "%.9g", value);
  fputc(last ? '\n' : ',', out);
}

static pbStatus write_table(cliApp *app, const pbTrain *train, const char *path) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return cli_noMemory(app->ctx);

  fputs("update,robot_steps,loss,gradient_norm,critic_error,evaluated,alive,dropped\n", out);
  const pbTrainRow *rows = pbTrain_Rows(train);
  for (int i = 0; i < pbTrain_RowCount(train); i++) {
    const double row[] = {rows[i].update, rows[i].steps, rows[i].cost,  rows[i].norm,
                          rows[i].value,  rows[i].score, rows[i].alive, rows[i].dropped};
    for (int k = 0; k < PB_TRAIN_COLUMNS; k++) write_number(out, row[k], k + 1 == PB_TRAIN_COLUMNS);
  }

  return cli_saveText(app, path, out, &text, &size);
}

static void print_summary(cliApp *app, const pbTrain *train, const Names *names, const pbTrainResult *result) {
  if (app->args.text[opt_quiet]) return;
  fprintf(cli_err, "pullback train: %s: %d updates, %.4g robot-steps, %.3g s%s\n", pbTrainMethod_Name(pbTrain_Method(train)),
          result->updates, result->steps, result->seconds, result->resumed ? ", resumed" : "");
  fprintf(cli_err, "  loss a decision, mean over training starts: %.6g at the start, %.6g after update %d (%.0f %% to the end)\n",
          result->first_score, result->score, result->best_update, 100 * result->alive);
  if (result->dropped > 0) fprintf(cli_err, "  %.0f worlds diverged, and were left out and begun anew\n", result->dropped);
  fprintf(cli_err, "  written: %s, %s, %s\n", names->policy, names->table, names->page);
}

// The verdict, with the window in the unit that a task has it.
static void warn_noise(const pbTrainResult *result) {
  char where[120];
  snprintf(where, sizeof where, "in most windows (half of what gradients reach is \"window\": %d): ", result->noise_window);
  cliNoise_Warn(&result->noise, where);
}

static pbStatus write_results(cliApp *app, const pbTrain *train, const Names *names, const pbTrainResult *result) {
  cliSignals_Hold();
  pbStatus status = pbPolicy_Save(app->ctx, pbTrain_Model(train), result->theta, names->policy);
  cliSignals_Release();
  PB_TRY(status);
  PB_TRY(write_table(app, train, names->table));
  PB_TRY(cliTrain_Page(app, train, result, names->page));

  // done: the next run starts over
  unlink(names->state);
  print_summary(app, train, names, result);
  warn_noise(result);
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
