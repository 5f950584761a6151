// pullback control: a task and its plant in, the motion, a table of the plans and a page out.
// Tests: tests/oracle/test_control.py.
#include <string.h>

#include <pullback/view.h>

#include "cli.h"

typedef struct Names {  // of what is written
  char record[PB_RUN_PATH], table[PB_RUN_PATH];
} Names;

// After -o, or after the task in the current folder.
static pbStatus make_names(cliApp *app, Names *n) {
  const char *output = app->args.text[opt_output], *task = app->args.positional[0], *replay = app->args.text[opt_replay];

  if (output) snprintf(n->record, sizeof n->record, "%s", output);
  else PB_TRY(pbRun_FileName(app->ctx, NULL, task, ".control.npz", n->record, sizeof n->record));
  PB_TRY(pbRun_FileName(app->ctx, output, task, output ? ".csv" : ".control.csv", n->table, sizeof n->table));

  if (replay && strcmp(replay, n->record) == 0)
    return pbContext_Fail(app->ctx, pb_bad_argument, "--replay %s: this file is written, too; -o names another one", replay);

  // asked before the work that is to be written
  PB_TRY(cliPage_CanWrite(app));
  PB_TRY(pbFile_CanWrite(app->ctx, n->table));
  return pbFile_CanWrite(app->ctx, n->record);
}

static int on_progress(void *user, const pbProgress *p) {
  cliProgress *progress = user;
  progress->what = p->phase;
  if (strcmp(p->phase, "control") == 0) cliProgress_Show(progress, (double)p->done, (double)p->total, "");
  return cliSignals_Caught();
}

// ---- the table ------------------------------------------------------------------------------------------------------------
static void print_times(FILE *out, const char *what, pbControlTimes t) {
  fprintf(out, "  %-34s %10.3f %12.3f %10.3f\n", what, 1e3 * t.median, 1e3 * t.percentile99, 1e3 * t.largest);
}

static void print_summary(cliApp *app, const Names *names, const pbControlResult *r) {
  FILE *out = cli_out;
  if (app->args.text[opt_quiet]) return;

  fprintf(out, "pullback control: %ld steps, %.6g s%s; %d plans, one every %.6g s\n", r->steps, r->time,
          r->done ? ", ended by the plant" : "", r->plans, r->interval);
  fprintf(out, "  %-34s %10s %12s %10s\n", "ms", "median", "99th perc.", "largest");

  print_times(out, "a plan", r->plan);
  print_times(out, "  of it derivatives (prepare)", r->prepare);
  print_times(out, "  of it the search (plan)", r->search);
  print_times(out, "a control out of it (feedback)", r->feedback);
  fprintf(out, "  %d plans took longer than the interval; %d had no answer, and the one before went on\n", r->late, r->fallbacks);
  if (r->replayed) fprintf(out, "  %d plans with the iterations of %s\n", r->replayed, app->args.text[opt_replay]);
  if (r->behind > 0) fprintf(out, "  in real time: at most %.3f ms behind\n", 1e3 * r->behind);
  fprintf(out, "  written: %s, %s\n", names->record, names->table);
}

typedef struct Shown {  // what the page is of
  cliApp *app;
  pbControl *control;
  const pbControlResult *result;
} Shown;

static pbStatus put_page(void *user, const pbPageHead *head, FILE *out) {
  const Shown *s = user;
  return pbControl_Page(s->control, s->result, head->path, s->app->args.text[opt_allow_root], out);
}

// ---- the run ----------------------------------------------------------------------------------------------------------------
static pbStatus run_control(cliApp *app, pbControl *control, const Names *names, pbPool *pool, pbControlResult *result) {
  long seed = 0;
  cliProgress progress;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, __LONG_MAX__, 0, &seed));
  cliProgress_Begin(&progress, app, "control");
  const pbControlOptions options = {.plant = app->args.text[opt_plant],
                                    .replay = app->args.text[opt_replay],
                                    .has_seed = app->args.text[opt_seed] != NULL,
                                    .seed = (uint64_t)seed,
                                    .record = names->record,
                                    .table = names->table,
                                    .pool = pool,
                                    .progress = on_progress,
                                    .user = &progress};

  // from here on an interrupt is a flag that the run asks for: it writes what was done before it ends
  cliSignals_Defer();
  pbStatus status = pbControl_Run(control, &options, result);
  cliProgress_End(&progress);

  bool written = result->steps > 0;
  if (status == pb_interrupted && written)
    fprintf(cli_err, "pullback control: %s: %s, %s\n", pbContext_Error(app->ctx), names->record, names->table);
  else if (status == pb_interrupted) fprintf(cli_err, "pullback control: %s\n", pbContext_Error(app->ctx));
  if (status == pb_interrupted || (status == pb_ok && cliSignals_Caught())) return pb_interrupted;
  cliSignals_Undefer();
  return status;
}

static pbStatus control_task(cliApp *app, Names *names) {
  pbControl *control;
  pbControlResult result;
  pbPool *pool = NULL;

  PB_TRY(make_names(app, names));
  PB_TRY(cliArgs_Pool(app, &pool));

  pbStatus status = pbControl_Load(app->ctx, app->args.positional[0], app->args.text[opt_allow_root], &control);
  if (status == pb_ok) status = run_control(app, control, names, pool, &result);
  if (status == pb_ok) {
    print_summary(app, names, &result);
    status = cliPage_Save(app, app->args.positional[0], put_page, &(Shown){app, control, &result});
  }

  pbControl_Destroy(control);
  pbPool_Destroy(pool);
  return status;
}

pbStatus cliControl_Run(cliApp *app) {
  Names *names = pbContext_Alloc(app->ctx, sizeof *names);
  if (!names) return cli_noMemory(app->ctx);

  pbStatus status = control_task(app, names);
  pbContext_Free(app->ctx, names);
  return status;
}
