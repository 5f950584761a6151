// pullback optimize: a task file in, the result as JSON and the trajectories out.
// Tests: tests/oracle/test_task_run.py.
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { MOST_PATH = 4096 };

typedef struct Names {  // files beside the result
  char stem[MOST_PATH], state[MOST_PATH + 16], trajectory[MOST_PATH + 32];
} Names;

// Output names follow from -o, or from the name of the task in the current folder.
static pbStatus make_names(cliApp *app, Names *n) {
  const char *output = app->args.text[opt_output], *from = output ? output : app->args.positional[0];
  if (!output && strrchr(from, '/')) from = strrchr(from, '/') + 1;

  size_t length = strlen(from);
  if (length > 5 && strcmp(from + length - 5, ".json") == 0) length -= 5;
  if (!length || length >= MOST_PATH)
    return pbContext_Fail(app->ctx, pb_bad_argument, "-o: the name of the output is too long or empty");

  // everything beside the result is named after it
  memcpy(n->stem, from, length);
  n->stem[length] = 0;
  snprintf(n->state, sizeof n->state, "%s.state", n->stem);
  return pb_ok;
}

static void name_trajectory(Names *n, int trajectory) {
  if (trajectory) snprintf(n->trajectory, sizeof n->trajectory, "%s.trajectory-%d.npz", n->stem, trajectory);
  else snprintf(n->trajectory, sizeof n->trajectory, "%s.trajectory.npz", n->stem);
}

static int on_progress(void *user, const pbProgress *p) {
  cliProgress *progress = user;
  char note[64] = "first evaluation";

  // before the first evaluation there is no loss to show
  if (isfinite(p->value)) snprintf(note, sizeof note, "loss %.6g", p->value);
  progress->what = p->phase;
  cliProgress_Show(progress, (double)p->done, (double)p->total, note);
  return cliSignals_Caught();
}

// Poses of mocap bodies, where they are not the model's.
static pbStatus keep_poses(cliRun *run, pbTask *task, const double *z, int trajectory) {
  bool given = false;

  // whether there are any, before there is memory for them
  PB_TRY(pbTask_Poses(task, z, trajectory, NULL, NULL, &given));
  if (!given) return pb_ok;

  size_t numbers = (size_t)run->steps * (size_t)run->nmocap;
  run->mocap_pos = pbContext_Alloc(run->ctx, numbers * 3 * sizeof *run->mocap_pos);
  run->mocap_quat = pbContext_Alloc(run->ctx, numbers * 4 * sizeof *run->mocap_quat);
  if (!run->mocap_pos || !run->mocap_quat) return cli_noMemory(run->ctx);
  PB_TRY(pbTask_Poses(task, z, trajectory, run->mocap_pos, run->mocap_quat, &given));

  // and how they move
  size_t bodies = (size_t)run->nmocap;
  run->mocap_before = pbContext_Alloc(run->ctx, 7 * bodies * sizeof *run->mocap_before);
  double *velocity = pbContext_Alloc(run->ctx, numbers * 6 * sizeof *velocity);
  if (!run->mocap_before || !velocity) return cli_noMemory(run->ctx);
  if (pbTask_PoseMotion(task, trajectory, run->mocap_before, run->mocap_before + 3 * bodies, velocity)) {
    // given: they do not follow from where the bodies were
    run->mocap_vel = velocity;
    pbContext_Free(run->ctx, run->mocap_before);
    run->mocap_before = NULL;
    return pb_ok;
  }
  pbContext_Free(run->ctx, velocity);
  return cliRun_KeepRates(run);
}

// The trajectory that a solution gives. Its file appears whole: signals wait.
static pbStatus save_trajectory(cliApp *app, pbTask *task, const double *z, int trajectory, const char *path) {
  cliRun run = {.app = app,
                .ctx = app->ctx,
                .model = pbTask_Model(task),
                .model_path = app->args.positional[0],
                .steps = pbTask_Steps(task, trajectory)};
  cliRun_Sizes(&run);
  run.recompute = strcmp(pbTask_Constants(task), "recompute") == 0;

  // parameters, initial state and controls at the solution
  run.theta = pbContext_Alloc(app->ctx, run.ntheta * sizeof *run.theta);
  run.x0 = pbContext_Alloc(app->ctx, (size_t)run.nx * sizeof *run.x0);
  run.control = pbContext_Alloc(app->ctx, (size_t)run.steps * (size_t)run.nu * sizeof *run.control);
  pbStatus status = pb_no_memory;
  if (run.theta && run.x0 && run.control) status = pbTask_Expand(task, z, trajectory, run.theta, run.x0, run.control);
  if (status == pb_ok) status = keep_poses(&run, task, z, trajectory);

  pbArrays *set = NULL;
  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);
  if (status == pb_ok) status = cliRun_Simulate(&run, set);

  cliSignals_Hold();
  if (status == pb_ok) status = pbArrays_SaveNpz(set, path, false);
  cliSignals_Release();

  pbArrays_Destroy(set);
  cliRun_End(&run);
  return status;
}

// The library's JSON object with the names of the trajectory files as its first entry.
static void write_json(FILE *out, const pbTask *task, Names *names, const char *text) {
  cliJson j = {.out = out, .compact = true};
  fputs("{\n  \"trajectory_files\": ", out);
  cliJson_Open(&j, NULL, '[');
  for (int t = 0; t < pbTask_TrajectoryCount(task); t++) {
    name_trajectory(names, t);
    cliJson_Text(&j, NULL, names->trajectory);
  }
  cliJson_Close(&j, ']');

  // what follows the object's own opening brace
  const char *inside = text + strspn(text, " \t\r\n");
  inside += *inside == '{';
  const char *next = inside + strspn(inside, " \t\r\n");
  fprintf(out, "%s%s", *next == '}' ? "" : ",", inside);
  if (*inside && inside[strlen(inside) - 1] != '\n') fputc('\n', out);
}

static pbStatus save_json(cliApp *app, const pbTask *task, Names *names, const char *text) {
  if (!app->args.text[opt_output]) {
    write_json(cli_out, task, names, text);
    return pb_ok;
  }

  char *page = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&page, &size);
  if (!stream) return cli_noMemory(app->ctx);
  write_json(stream, task, names, text);

  return cli_saveText(app, app->args.text[opt_output], stream, &page, &size);
}

static pbStatus run_task(cliApp *app, pbTask *task, const Names *names, pbRunResult *result) {
  long seed = 0;
  PB_TRY(cliArgs_Integer(app, opt_seed, 0, __LONG_MAX__, 0, &seed));

  // --fresh forgets an interrupted run
  if (app->args.text[opt_fresh]) unlink(names->state);

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

// ---- summary on standard error: at most 12 lines ---------------------------------------------------------------------
enum { SUMMARY_VARIABLES = 4, SUMMARY_ADVICE = 3 };

// The most important of a variable's notes.
static const char *note_text(unsigned note) {
  if (note & pb_unknownInert) return "  no influence";
  if (note & pb_unknownKink) return "  kink";
  if (note & pb_unknownAtLower) return "  at lower bound";
  return note & pb_unknownAtUpper ? "  at upper bound" : "";
}

static void print_variables(const pbTask *task, const pbRunResult *result) {
  int n = pbTask_Size(task), shown = n <= SUMMARY_VARIABLES + 1 ? n : SUMMARY_VARIABLES;

  fprintf(cli_err, "  %-32s %14s %14s\n", "variable", "start", "found");

  for (int i = 0; i < shown; i++) {
    char name[256];
    double start, found;
    pbTask_Unknown(task, i, pbTask_Start(task), name, sizeof name, &start);
    pbTask_Unknown(task, i, result->z, name, sizeof name, &found);
    fprintf(cli_err, "  %-32.80s %14.7g %14.7g%s\n", name, start, found, note_text(result->notes[i]));
  }
  if (n > shown) fprintf(cli_err, "  and %d more in the result\n", n - shown);
}

static void print_advice(const char *text) {
  for (int i = 0; i < SUMMARY_ADVICE && *text; i++) {
    int length = (int)strcspn(text, "\n");
    fprintf(cli_err, "  %.*s\n", length, text);
    text += length + (text[length] != 0);
  }
}

static void print_summary(cliApp *app, const pbTask *task, Names *names, const pbRunResult *result) {
  int count = pbTask_TrajectoryCount(task);
  const char *output = app->args.text[opt_output];
  if (app->args.text[opt_quiet]) return;

  fprintf(cli_err, "pullback optimize: %s: %s\n", pbRunOutcome_Name(result->outcome), result->reason);
  fprintf(cli_err, "  loss %.7g at the start, %.7g found; %d iterations, %lld simulations, %.3g s\n", result->start_loss,
          result->loss, result->iterations, (long long)result->simulations, result->seconds);
  print_variables(task, result);
  print_advice(result->advice);

  name_trajectory(names, 0);
  fprintf(cli_err, "  written: %s%s%s", output ? output : "", output ? ", " : "", names->trajectory);
  if (count > 1) fprintf(cli_err, " and %d more", count - 1);
  fputc('\n', cli_err);
}

static pbStatus write_results(cliApp *app, pbTask *task, Names *names, const pbRunResult *result) {
  for (int t = 0; t < pbTask_TrajectoryCount(task); t++) {
    name_trajectory(names, t);

    pbStatus saved = save_trajectory(app, task, result->z, t, names->trajectory);
    // what ended a run may end this, too: its result is more
    if (saved != pb_ok && result->outcome != pb_runFailed) return saved;
  }

  char *text = NULL;
  PB_TRY(pbTask_ResultJson(task, result, &text));
  pbStatus status = save_json(app, task, names, text);
  pbContext_Free(app->ctx, text);
  PB_TRY(status);

  // done: the next run starts over; one that failed goes on where it was
  if (result->outcome != pb_runFailed) unlink(names->state);
  print_summary(app, task, names, result);
  cliNoise_Warn(&result->noise, "");

  // criteria that were not met fail the command as a failed check does
  return pbTask_HasStop(task) && !result->met ? pb_check_failed : pb_ok;
}

// The best of a run that ended with an error; the error remains.
static pbStatus write_best(cliApp *app, pbTask *task, Names *names, const pbRunResult *result, pbStatus ended) {
  pbStatus status = write_results(app, task, names, result);

  // the error is still how it ended
  if (status == pb_ok || status == pb_check_failed)
    return pbContext_Fail(app->ctx, ended, "%s; the best so far is written", result->reason);
  return pbContext_Fail(app->ctx, ended, "%s; the best so far (loss %.17g) could not be written", result->reason, result->loss);
}

static pbStatus optimize_task(cliApp *app, Names *names) {
  PB_TRY(make_names(app, names));
  pbTask *task = NULL;
  pbRunResult result = {0};
  PB_TRY(pbTask_LoadWith(app->ctx, app->args.positional[0], app->args.text[opt_allow_root], app->args.text[opt_policy], &task));
  pbTask_OnFunction(task, app->function, app->user);

  pbPool *pool = NULL;
  pbStatus status = cliArgs_Pool(app, &pool);
  if (status == pb_ok && pbTask_TrajectoryCount(task) > 1) status = pbTask_UsePool(task, pool);
  if (status == pb_ok) status = run_task(app, task, names, &result);
  if (status == pb_ok) status = write_results(app, task, names, &result);
  else if (status != pb_interrupted && result.z) status = write_best(app, task, names, &result, status);

  // a run that failed numerically would fail again where it left off
  if (status != pb_ok && pbStatus_ExitCode(status) == pbStatus_ExitCode(pb_not_finite)) unlink(names->state);
  pbTask_Destroy(task);
  pbPool_Destroy(pool);
  return status;
}

pbStatus cliOptimize_Run(cliApp *app) {
  Names *names = pbContext_Alloc(app->ctx, sizeof *names);
  if (!names) return cli_noMemory(app->ctx);
  pbStatus status = optimize_task(app, names);
  pbContext_Free(app->ctx, names);
  return status;
}
