// The page of a training: how it went as curves, and an episode of the best policy.
// Tests: tests/unit/test_surface.c, tests/oracle/test_train.py, tests/oracle/test_view.py.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scene.h"

enum { MOST_POINTS = 2000, CURVE_ROOM = MOST_POINTS + 2, MOST_STEPS = 1000000, FRAMES_PER_SECOND = 120 };
enum { EVALUATED = 5 };  // of the columns

// Columns of a row, as the CSV has them, in words.
static const char *const titles[PB_TRAIN_COLUMNS] = {
    [2] = "loss a decision, mean over the worlds", [3] = "norm of the gradient",
    [4] = "mean squared error of the critic",      [EVALUATED] = "loss a decision, mean over evaluated episodes",
    [6] = "share of them that last to the end",    [7] = "worlds that diverged"};

static double column(const pbTrainRow *row, int k) {
  double values[PB_TRAIN_COLUMNS];
  memcpy(values, row, sizeof values);
  return values[k];
}

// ---- curves -----------------------------------------------------------------------------------------------------------
// A column over the updates, as far as it has numbers; of very many every so many. Worlds that diverged only where some did.
static cliCurve make_curve(const pbTrain *train, int k, const double *first, double *x, double *y) {
  const pbTrainRow *rows = pbTrain_Rows(train);
  cliCurve curve = {.name = titles[k], .x = x, .y = y};
  int numbers = 0, seen = 0;
  double largest = 0;

  for (int i = 0; i < pbTrain_RowCount(train); i++) {
    double value = column(&rows[i], k);
    numbers += isfinite(value);
    largest = value > largest ? value : largest;
  }
  if (k == PB_TRAIN_COLUMNS - 1 && largest == 0) return curve;

  // before the first update
  if (first && isfinite(*first)) {
    x[curve.count] = 0;
    y[curve.count++] = *first;
  }

  int every = (numbers - 1) / MOST_POINTS + 1;
  for (int i = 0; i < pbTrain_RowCount(train); i++) {
    double value = column(&rows[i], k);
    if (!isfinite(value)) continue;
    bool shown = seen % every == 0 || seen + 1 == numbers;
    seen++;
    if (!shown) continue;

    x[curve.count] = rows[i].update;
    y[curve.count++] = value;
  }
  return curve;
}

// ---- the episode --------------------------------------------------------------------------------------------------------
static bool take(cliRun *run, long count, double **out) {
  *out = pbContext_Alloc(run->ctx, ((size_t)count + 1) * sizeof **out);
  return *out;
}

// Mocap bodies along the episode's path, or none where they are the model's.
static pbStatus take_path(cliRun *run, const pbTrain *train) {
  long poses = run->steps * run->nmocap;
  bool room = take(run, 3 * poses, &run->mocap_pos) && take(run, 4 * poses, &run->mocap_quat);
  if (!room || !take(run, 6 * poses, &run->mocap_vel)) return cli_noMemory(run->ctx);
  if (pbTrain_EvaluationPath(train, 0, (int)run->steps, run->mocap_pos, run->mocap_quat, run->mocap_vel)) return pb_ok;

  pbContext_Free(run->ctx, run->mocap_pos);
  pbContext_Free(run->ctx, run->mocap_quat);
  pbContext_Free(run->ctx, run->mocap_vel);
  run->mocap_pos = run->mocap_quat = run->mocap_vel = NULL;
  return pb_ok;
}

static pbStatus begin_episode(cliRun *run, const pbTrain *train, const pbTrainResult *result) {
  bool room = take(run, (long)run->ntheta, &run->theta) && take(run, run->nx, &run->x0);
  room = room && take(run, run->steps * run->nu, &run->control);
  if (run->ncommand) room = room && take(run, run->steps * run->ncommand, &run->command);
  if (!room) return cli_noMemory(run->ctx);
  PB_TRY(take_path(run, train));

  // nothing but the policy's own controls; the same commands throughout
  memcpy(run->theta, result->theta, run->ntheta * sizeof *run->theta);
  pbTrain_EvaluationStart(train, 0, run->x0, run->command);
  for (long k = run->ncommand; k < run->steps * run->ncommand; k++) run->command[k] = run->command[k - run->ncommand];

  // no more states than are shown
  pbParam h;
  PB_TRY(pbModel_Param(run->ctx, run->model, "timestep", &h));
  run->every = (long)(1 / (FRAMES_PER_SECOND * run->theta[h.offset]));
  return pb_ok;
}

// ---- text -----------------------------------------------------------------------------------------------------------------
static void put_summary(const cliRun *run, const pbTrain *train, const pbTrainResult *result, FILE *out) {
  fprintf(out, "%s, %d updates, %.4g robot-steps\n", pbTrainMethod_Name(pbTrain_Method(train)), result->updates, result->steps);
  fprintf(out, "loss a decision, mean over training starts: %.6g at the start, %.6g after update %d\n", result->first_score,
          result->score, result->best_update);
  if (result->dropped > 0) fprintf(out, "%.0f worlds diverged, and were begun anew\n", result->dropped);

  fprintf(out, "to be seen: the policy of update %d from the first of these starts", result->best_update);
  for (int i = 0; i < run->ncommand; i++) fprintf(out, "%s%.4g", i ? ", " : "; its commands: ", run->command[i]);
}

static pbStatus write_text(const cliRun *run, const pbTrain *train, const pbTrainResult *result, char **text) {
  size_t size = 0;
  FILE *out = open_memstream(text, &size);
  if (!out) return cli_noMemory(run->ctx);
  put_summary(run, train, result, out);
  return fclose(out) == 0 ? pb_ok : cli_noMemory(run->ctx);
}

static pbStatus write_page(cliRun *run, const pbArrays *set, const cliAside *aside, const char *path) {
  char *page = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&page, &size);
  if (!out) return cli_noMemory(run->ctx);
  pbStatus status = cliPage_Put(run, set, path, aside, out);
  if (status == pb_ok) return cli_saveText(run->app, path, out, &page, &size);

  fclose(out);
  free(page);
  return status;
}

// ---- the whole --------------------------------------------------------------------------------------------------------
// An episode that fails is told on the page: the training itself is done.
static bool is_told(pbStatus status) {
  return status == pb_not_finite || status == pb_no_convergence || status == pb_singular || status == pb_capacity;
}

static pbStatus play(cliRun *run, cliAside *aside, const char *path) {
  pbArrays *set;
  PB_TRY(pbArrays_Create(run->ctx, &set));
  pbStatus status = cliRun_Simulate(run, set);
  if (status == pb_ok) status = write_page(run, set, aside, path);
  pbArrays_Destroy(set);
  if (!is_told(status)) return status;

  aside->instead = pbContext_Error(run->ctx);
  return write_page(run, NULL, aside, path);
}

static pbStatus make_page(cliRun *run, const pbTrain *train, const pbTrainResult *result, double *numbers, const char *path) {
  cliCurve curves[PB_TRAIN_COLUMNS];
  cliAside aside = {.title = "Training", .axis = "update", .curve = curves};
  for (int k = 0; k < PB_TRAIN_COLUMNS; k++) {
    if (!titles[k]) continue;
    double *x = numbers + (size_t)2 * CURVE_ROOM * (size_t)k;
    curves[aside.curves] = make_curve(train, k, k == EVALUATED ? &result->first_score : NULL, x, x + CURVE_ROOM);
    aside.curves += curves[aside.curves].count > 0;
  }

  char *text = NULL;
  PB_TRY(begin_episode(run, train, result));
  pbStatus status = write_text(run, train, result, &text);
  aside.text = text;
  if (status == pb_ok) status = play(run, &aside, path);
  free(text);
  return status;
}

pbStatus cliTrain_Page(cliApp *app, const pbTrain *train, const pbTrainResult *result, const char *path) {
  long steps = pbTrain_EpisodeSteps(train);
  cliRun run = {.app = app, .ctx = app->ctx, .model = pbTrain_Model(train), .model_path = app->args.positional[0]};
  run.steps = steps < MOST_STEPS ? steps : MOST_STEPS;
  cliRun_Sizes(&run);

  // a training has no use for what meshes look like; where they cannot be read now, their boxes are seen
  pbModel *looks = NULL;
  pbLoadOptions load = {.allow_root = app->args.text[opt_allow_root], .surfaces = true};
  if (pbModel_Load(app->ctx, run.model_path, &load, &looks) == pb_ok) run.looks = looks;

  double *numbers = pbContext_Alloc(app->ctx, (size_t)2 * CURVE_ROOM * PB_TRAIN_COLUMNS * sizeof *numbers);
  pbStatus status = numbers ? make_page(&run, train, result, numbers, path) : cli_noMemory(app->ctx);
  pbContext_Free(app->ctx, numbers);
  pbModel_Destroy(looks);
  cliRun_End(&run);
  return status;
}
