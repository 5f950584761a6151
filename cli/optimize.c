// pullback optimize: a task file in, the result as JSON and the trajectories out.
// Tests: tests/oracle/test_task_run.py.
#include <math.h>
#include <string.h>

#include <pullback/trajectory.h>

#include "cli.h"

typedef struct Names {  // files beside the result
  char state[PB_RUN_PATH], result[PB_RUN_PATH];
  char (*trajectory)[PB_RUN_PATH];
  const char **list;
} Names;

// Output names follow from -o, or from the name of the task in the current folder.
static pbStatus make_names(cliApp *app, const pbTask *task, Names *n) {
  const char *output = app->args.text[opt_output], *from = app->args.positional[0];
  size_t count = (size_t)pbTask_TrajectoryCount(task);
  char ending[40] = ".trajectory.npz";

  n->trajectory = pbContext_Alloc(app->ctx, count * sizeof *n->trajectory);
  n->list = pbContext_Alloc(app->ctx, count * sizeof *n->list);
  if (!n->trajectory || !n->list) return cli_noMemory(app->ctx);
  for (size_t t = 0; t < count; t++) {
    if (t) snprintf(ending, sizeof ending, ".trajectory-%zu.npz", t);
    PB_TRY(pbRun_FileName(app->ctx, output, from, ending, n->trajectory[t], sizeof n->trajectory[t]));
    n->list[t] = n->trajectory[t];
  }

  // beside the trajectory, where nobody says where, and it is not printed
  if (output) snprintf(n->result, sizeof n->result, "%s", output);
  else if (!app->args.text[opt_json]) PB_TRY(pbRun_FileName(app->ctx, NULL, from, ".result.json", n->result, sizeof n->result));

  // asked before the work that is to be written
  PB_TRY(cliPage_CanWrite(app));
  if (n->result[0]) PB_TRY(pbFile_CanWrite(app->ctx, n->result));
  return pbFile_CanWrite(app->ctx, n->trajectory[0]);
}

static int on_progress(void *user, const pbProgress *p) {
  cliProgress *progress = user;
  char note[64];
  progress->what = p->phase;
  cliProgress_Show(progress, (double)p->done, (double)p->total, pbRun_Say(p, note, sizeof note));
  return cliSignals_Caught();
}

// The trajectory that a solution gives. Its file appears whole: signals wait.
static pbStatus save_trajectory(cliApp *app, pbTask *task, const double *z, int trajectory, const char *path) {
  cliProgress progress;
  pbStepNotes notes;
  char said[PB_NOTES_TEXT];
  pbArrays *set;
  PB_TRY(pbArrays_Create(app->ctx, &set));

  cliProgress_Begin(&progress, app, "simulate");
  pbTaskAnswer answer = {
      .z = z, .trajectory = trajectory, .path = app->args.positional[0], .progress = cliProgress_On, .user = &progress};
  pbStatus status = pbTask_Simulate(app->ctx, task, &answer, set, &notes);
  cliProgress_End(&progress);
  if (status == pb_ok) {
    cli_noteFile(app, pbTask_Model(task));
    cliRun_Warn(pbStepNotes_Say(&notes, pbTask_Model(task), pbTask_Steps(task, trajectory), said, sizeof said));
  }

  cliSignals_Hold();
  if (status == pb_ok) status = pbArrays_SaveNpz(set, path, false);
  cliSignals_Release();
  pbArrays_Destroy(set);
  return status;
}

static pbStatus save_json(cliApp *app, pbTask *task, const Names *names, const pbRunResult *result) {
  int count = pbTask_TrajectoryCount(task);
  if (app->args.text[opt_json]) PB_TRY(pbTask_DescribeResult(task, result, names->list, count, NULL, cli_out));
  if (!names->result[0]) return pb_ok;

  pbDraft page;
  PB_TRY(pbDraft_Begin(app->ctx, &page));
  pbStatus status = pbTask_DescribeResult(task, result, names->list, count, NULL, page.stream);
  if (status == pb_ok) return cli_saveDraft(app, names->result, &page);

  pbDraft_Drop(&page);
  return status;
}

typedef struct Answer {  // what the page is of
  cliApp *app;
  pbTask *task;
  const Names *names;
  const pbRunResult *result;
} Answer;

static pbStatus put_page(void *user, const pbPageHead *head, FILE *out) {
  const Answer *a = user;
  return pbRun_Page(a->app->ctx, a->task, a->result, a->names->list, pbTask_TrajectoryCount(a->task), head, out);
}

static pbStatus run_task(cliApp *app, pbTask *task, const Names *names, pbRunResult *result) {
  long seed = 0;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, __LONG_MAX__, 0, &seed));

  // --fresh forgets an interrupted run
  if (app->args.text[opt_fresh]) PB_TRY(cli_forget(app, names->state, true));

  cliProgress progress;
  cliProgress_Begin(&progress, app, "optimize");
  pbRunOptions options = {.state_file = names->state,
                          .resume = true,
                          .has_seed = app->args.text[opt_seed] != NULL,
                          .seed = (uint64_t)seed,
                          .progress = on_progress,
                          .user = &progress};

  // from here on an interrupt is a flag that the run asks for: it saves its state before it ends
  cliSignals_Defer();
  pbStatus status = pbTask_Run(task, &options, result);
  cliProgress_End(&progress);

  // a signal after the last iteration counts, too: results are not written then
  if (status == pb_interrupted || (status == pb_ok && cliSignals_Caught())) {
    fprintf(cli_err, "pullback optimize: interrupted; the run is saved in %s, and the same command resumes it\n", names->state);
    return pb_interrupted;
  }
  cliSignals_Undefer();
  return status;
}

// ---- summary: at most 12 lines (of fits 21), on standard output where that is free ------------------------------------
enum { SUMMARY_VARIABLES = 4, SUMMARY_OF_FIT = 12, SUMMARY_ADVICE = 3 };

// The most important of a variable's notes.
static const char *note_text(unsigned note) {
  if (note & pb_unknownInert) return "  no influence";
  if (note & pb_unknownKink) return "  kink";
  if (note & pb_unknownAtLower) return "  at lower bound";
  return note & pb_unknownAtUpper ? "  at upper bound" : "";
}

static void print_deviation(FILE *out, const pbUncertainty *u, int i) {
  if (u->determined[i] == pb_isDetermined) fprintf(out, "   +- %-10.2g", u->deviation[i]);
  else if (u->determined[i] == pb_isUndetermined) fprintf(out, "   not determined");
  else if (u->determined[i] == pb_isOfOneCluster) fprintf(out, "   seen by one cluster");
}

// How sure the answer is, in words.
static void print_uncertainty(FILE *out, const pbUncertainty *u) {
  if (!u) return;
  if (u->why) {
    fprintf(out, "  no deviations: %s\n", u->why);
    return;
  }
  if (u->clusters) fprintf(out, "  intervals by the spread of %d clusters\n", u->clusters);
  if (u->sigma) fprintf(out, "  %zu samples, chi-square %.3g for each degree of freedom", u->samples, u->chi_square);
  else fprintf(out, "  %zu samples, %.3g off in the mean (root of squares)", u->samples, u->residual);
  fprintf(out, "; condition %.2g\n", u->condition);
  if (u->weakest[0]) fprintf(out, "  %s\n", u->weakest);
  if (u->warning[0]) fprintf(out, "  warning: %s\n", u->warning);
}

static void print_variables(FILE *out, const pbTask *task, const pbRunResult *result) {
  const pbUncertainty *u = result->uncertainty && !result->uncertainty->why ? result->uncertainty : NULL;
  int n = pbTask_Size(task), most = u ? SUMMARY_OF_FIT : SUMMARY_VARIABLES, shown = n <= most + 1 ? n : most;

  fprintf(out, "  %-32s %14s %14s%s\n", "variable", "start", "found", u ? "   +- (one standard deviation)" : "");

  for (int i = 0; i < shown; i++) {
    char name[256];
    double start, found;
    pbTask_Unknown(task, i, pbTask_Start(task), name, sizeof name, &start);
    pbTask_Unknown(task, i, result->z, name, sizeof name, &found);
    fprintf(out, "  %-32.80s %14.7g %14.7g", name, start, found);
    if (u) print_deviation(out, u, i);
    fprintf(out, "%s\n", note_text(result->notes[i]));
  }
  if (n > shown) fprintf(out, "  and %d more in the result\n", n - shown);
}

static void print_advice(FILE *out, const char *text) {
  for (int i = 0; i < SUMMARY_ADVICE && *text; i++) {
    int length = (int)strcspn(text, "\n");
    fprintf(out, "  %.*s\n", length, text);
    text += length + (text[length] != 0);
  }
}

// A line for each stage that another followed.
static void print_stages(FILE *out, const pbTask *task) {
  enum { most = 6 };
  int count = pbTask_StageCount(task) - 1;
  for (int k = 0; k < count && k < most; k++) {
    pbRunStage s = pbTask_Stage(task, k);
    if (s.name)
      fprintf(out, "  %.60s: loss %.7g to %.7g in %d iterations of %d steps, %s\n", s.name, s.start_loss, s.loss, s.iterations,
              s.steps, pbRunOutcome_Name(s.outcome));
  }
  if (count > most) fprintf(out, "  and %d more stages in the result\n", count - most);
}

static void print_summary(cliApp *app, const pbTask *task, const Names *names, const pbRunResult *result) {
  int count = pbTask_TrajectoryCount(task);
  bool free_output = !app->args.text[opt_output] && !app->args.text[opt_json];
  FILE *out = free_output ? cli_out : cli_err;
  if (app->args.text[opt_quiet]) return;

  fprintf(out, "pullback optimize: %s: %s\n", pbRunOutcome_Name(result->outcome), result->reason);
  print_stages(out, task);
  fprintf(out, "  loss %.7g at the start, %.7g found; %d iterations, %lld simulations, %.3g s\n", result->start_loss,
          result->loss, result->iterations, (long long)result->simulations, result->seconds);
  if (result->products + result->differences > 0)
    fprintf(out, "  products with the Hessian: %lld exact, %lld by differences%s%s\n", (long long)result->products,
            (long long)result->differences, result->inexact ? ": " : "", result->inexact ? result->inexact : "");
  if (!isnan(result->test_loss)) fprintf(out, "  loss %.7g on what was kept out of the fit\n", result->test_loss);
  print_variables(out, task, result);
  int agree = pbTask_StartsAgree(task, NULL);
  if (agree)
    fprintf(out, "  %d starts, %d of which came to this loss; the best is number %d\n", pbTask_StartCount(task), agree,
            result->best_start);
  print_uncertainty(out, result->uncertainty);
  print_advice(out, result->advice);

  fprintf(out, "  written: %s%s%s", names->result, names->result[0] ? ", " : "", names->trajectory[0]);
  if (count > 1) fprintf(out, " and %d more", count - 1);
  fputc('\n', out);
}

// Criteria that were not met, or a search that came to a halt where it could not go on, fail the command as a failed check does.
static bool is_answer(const pbTask *task, const pbRunResult *result) {
  bool halted = result->outcome == pb_runStalled || result->outcome == pb_runStalledAtJump || result->outcome == pb_runSaddle;
  return pbTask_HasStop(task) ? result->met : !halted;
}

static pbStatus write_results(cliApp *app, pbTask *task, const Names *names, const pbRunResult *result) {
  for (int t = 0; t < pbTask_TrajectoryCount(task); t++) {
    pbStatus saved = save_trajectory(app, task, result->z, t, names->trajectory[t]);
    // what ended a run may end this, too: its result is more
    if (saved != pb_ok && result->outcome != pb_runFailed) return saved;
  }

  PB_TRY(save_json(app, task, names, result));
  PB_TRY(cliPage_Save(app, app->args.positional[0], put_page, &(Answer){app, task, names, result}));

  // done: the next run starts over; one that failed goes on where it was
  if (result->outcome != pb_runFailed) PB_TRY(cli_forget(app, names->state, false));
  print_summary(app, task, names, result);
  cliNoise_Warn(&result->noise, "");

  return is_answer(task, result) ? pb_ok : pb_check_failed;
}

// The best of a run that ended with an error; the error remains.
static pbStatus write_best(cliApp *app, pbTask *task, const Names *names, const pbRunResult *result, pbStatus ended) {
  pbStatus status = write_results(app, task, names, result);

  // the error is still how it ended
  if (status == pb_ok || status == pb_check_failed)
    return pbContext_Fail(app->ctx, ended, "%s; the best so far is written", result->reason);
  return pbContext_Fail(app->ctx, ended, "%s; the best so far (loss %.17g) could not be written", result->reason, result->loss);
}

static pbStatus optimize_task(cliApp *app, Names *names) {
  // a name that cannot be is refused before the work
  PB_TRY(
      pbRun_FileName(app->ctx, app->args.text[opt_output], app->args.positional[0], ".state", names->state, sizeof names->state));
  pbTask *task = NULL;
  pbRunResult result = {0};
  PB_TRY(pbTask_LoadWith(app->ctx, app->args.positional[0], app->args.text[opt_allow_root], app->args.text[opt_policy], &task));

  pbPool *pool = NULL;
  pbStatus status = make_names(app, task, names);
  if (status == pb_ok && app->args.text[opt_start]) status = pbTask_StartAt(task, app->args.text[opt_start]);
  if (status == pb_ok) status = cliArgs_Pool(app, &pool);
  bool several = status == pb_ok && (pbTask_TrajectoryCount(task) > 1 || pbTask_StartCount(task) > 1);
  if (several) status = pbTask_UsePool(task, pool);
  if (status == pb_ok) status = run_task(app, task, names, &result);
  if (status == pb_ok) status = write_results(app, task, names, &result);
  else if (status != pb_interrupted && result.z) status = write_best(app, task, names, &result, status);

  // a run that failed numerically would fail again where it left off
  bool numerical = status != pb_ok && pbStatus_ExitCode(status) == pbStatus_ExitCode(pb_not_finite);
  if (numerical && cli_forget(app, names->state, false) != pb_ok) status = pb_file;
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
  return status;
}

pbStatus cliOptimize_Run(cliApp *app) {
  Names names = {.list = NULL};
  pbStatus status = optimize_task(app, &names);
  pbContext_Free(app->ctx, names.trajectory);
  pbContext_Free(app->ctx, (void *)names.list);
  return status;
}
