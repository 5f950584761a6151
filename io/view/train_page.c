// The page of a training: how it went as curves, and an episode of the best policy.
// Tests: tests/unit/test_surface.c, tests/oracle/test_train.py, tests/oracle/test_view.py.
#include <math.h>
#include <string.h>

#include <pullback/io.h>
#include <pullback/policy.h>

#include "io/view/scene.h"

enum { MOST_POINTS = 2000, CURVE_ROOM = MOST_POINTS + 2, MOST_STEPS = 1000000, FRAMES_PER_SECOND = 120 };
enum { EVALUATED = 5, WINDOW = 8, DROPPED = 9, NAME_ROOM = 200 };  // of the columns

// Columns of a row, as the CSV has them, in words.
static const char *const titles[PB_TRAIN_COLUMNS] = {[2] = "loss a decision, mean over the worlds",
                                                     [3] = "norm of the gradient",
                                                     [4] = "mean squared error of the critic",
                                                     [EVALUATED] = "loss a decision, mean over evaluated episodes",
                                                     [6] = "share of them that last to the end",
                                                     [7] = "agreement of the worlds' gradients",
                                                     [WINDOW] = "window in use, decisions",
                                                     [DROPPED] = "worlds that diverged",
                                                     [10] = "s up to their end, mean",
                                                     [11] = "share of them that are a success",
                                                     [12] = "share of the likelihood ratio in the gradient",
                                                     [13] = "deviation before the squash, mean over the outputs",
                                                     [14] = "entropy of a decision",
                                                     [15] = "what entropy counts in costs"};

// ---- curves -----------------------------------------------------------------------------------------------------------
static bool windows_change(const pbTrain *train) {
  const pbTrainRow *rows = pbTrain_Rows(train);
  for (int i = 1; i < pbTrain_RowCount(train); i++) {
    if (rows[i].window != rows[0].window) return true;
  }

  return false;
}

// A column over the updates, as far as it has numbers; of very many every so many. Worlds that diverged only where some did,
// windows where they changed.
static pbCurve make_curve(const pbTrain *train, int k, const char *name, const double *first, double *x, double *y) {
  pbCurve curve = {.name = name, .x = x, .y = y};
  int numbers = 0, seen = 0;
  double largest = 0;

  for (int i = 0; i < pbTrain_RowCount(train); i++) {
    double value = pbTrain_Number(train, i, k);
    numbers += isfinite(value);
    largest = value > largest ? value : largest;
  }
  if (k == DROPPED && largest == 0) return curve;
  if (k == WINDOW && !windows_change(train)) return curve;

  // before the first update
  if (first && isfinite(*first)) {
    x[curve.count] = 0;
    y[curve.count++] = *first;
  }

  int every = (numbers - 1) / MOST_POINTS + 1;
  for (int i = 0; i < pbTrain_RowCount(train); i++) {
    double value = pbTrain_Number(train, i, k);
    if (!isfinite(value)) continue;
    bool shown = seen % every == 0 || seen + 1 == numbers;
    seen++;
    if (!shown) continue;

    x[curve.count] = pbTrain_Rows(train)[i].update;
    y[curve.count++] = value;
  }

  return curve;
}

// ---- the episode --------------------------------------------------------------------------------------------------------
typedef struct Episode {
  pbContext *ctx;
  const pbTrain *train;
  const pbTrainResult *result;
  pbScene scene;
  pbSimulation s;
  double *x0, *control, *command, *pos, *quat, *vel, *theta;
  int ncommand;
} Episode;

static bool take(pbContext *ctx, long count, double **out) {
  *out = pbContext_Alloc(ctx, ((size_t)count + 1) * sizeof **out);
  return *out;
}

// The parameters that were drawn for the episode.
static pbStatus take_theta(Episode *e) {
  size_t count = pbModel_ParamSize(e->s.model);
  if (!take(e->ctx, (long)count, &e->theta)) return pbScene_NoMemory(e->ctx);
  memcpy(e->theta, e->s.theta, count * sizeof *e->theta);
  e->s.theta = e->theta;

  return pbTrain_EvaluationTheta(e->train, 0, e->theta);
}

// Mocap bodies along the episode's path, or none where they are the model's.
static pbStatus take_path(Episode *e) {
  long poses = e->s.steps * pbModel_Size(e->s.model, "nmocap");
  bool room = take(e->ctx, 3 * poses, &e->pos) && take(e->ctx, 4 * poses, &e->quat);
  if (!room || !take(e->ctx, 6 * poses, &e->vel)) return pbScene_NoMemory(e->ctx);
  if (!pbTrain_EvaluationPath(e->train, 0, (int)e->s.steps, e->pos, e->quat, e->vel)) return pb_ok;

  e->s.input.mocap_pos = e->pos;
  e->s.input.mocap_quat = e->quat;
  e->s.input.mocap_vel = e->vel;

  return pb_ok;
}

static pbStatus begin_episode(Episode *e) {
  long steps = e->s.steps, width = e->ncommand;
  bool room = take(e->ctx, e->scene.nx, &e->x0) && take(e->ctx, steps * e->scene.nu, &e->control);
  if (width) room = room && take(e->ctx, steps * width, &e->command);
  if (!room) return pbScene_NoMemory(e->ctx);
  PB_TRY(take_path(e));

  // nothing but the policy's own controls, in the episode's world and by its commands; without its pushes
  pbTrain_EvaluationStart(e->train, 0, e->x0, e->command);
  pbTrain_EvaluationCommand(e->train, 0, (int)steps, e->command);
  e->s.x0 = e->x0;
  e->s.input.ctrl = e->control;
  e->s.input.command = e->command;

  // no more states than are shown
  pbParam h;
  PB_TRY(pbModel_Param(e->ctx, e->s.model, "timestep", &h));
  e->s.every = (long)(1 / (FRAMES_PER_SECOND * e->s.theta[h.offset]));

  return pb_ok;
}

static void end_episode(Episode *e) {
  double *memory[] = {e->x0, e->control, e->command, e->pos, e->quat, e->vel, e->theta};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(e->ctx, memory[i]);
  pbScene_End(&e->scene);
}

// ---- text -----------------------------------------------------------------------------------------------------------------
static void put_summary(const Episode *e, FILE *out) {
  const pbTrain *train = e->train;
  const pbTrainResult *result = e->result;

  fprintf(out, "%s, %d updates, %.4g robot-steps\n", pbTrainMethod_Name(pbTrain_Method(train)), result->updates, result->steps);
  fprintf(out, "loss a decision, mean over training starts: %.6g at the start, %.6g after update %d\n", result->first_score,
          result->score, result->best_update);
  fprintf(out, "of these episodes %.0f %% last to the end, %.3g s in the mean", 100 * result->alive, result->length);
  if (isfinite(result->success)) fprintf(out, ", and %.0f %% are a success", 100 * result->success);
  fputc('\n', out);
  if (result->dropped > 0) fprintf(out, "%.0f worlds diverged, and were begun anew\n", result->dropped);

  fprintf(out, "to be seen: the policy of update %d from the first of these starts", result->best_update);
  for (int i = 0; i < e->ncommand; i++) fprintf(out, "%s%.4g", i ? ", " : "; its commands: ", e->command[i]);
}

static pbStatus write_text(const Episode *e, char **text) {
  pbDraft draft;
  PB_TRY(pbDraft_Begin(e->ctx, &draft));
  put_summary(e, draft.stream);

  return pbDraft_End(&draft, text, NULL);
}

// ---- the whole --------------------------------------------------------------------------------------------------------
// Whether an episode ended in a step that could not be taken. The training is done all the same, and its page says why nothing
// moves; every other failure is one of the page.
static bool failed_in_a_step(pbStatus status) {
  return status == pb_not_finite || status == pb_no_convergence || status == pb_singular || status == pb_capacity;
}

// The page to a text of its own: what fails halfway is written anew.
static pbStatus put_page(Episode *e, const pbArrays *trajectory, const pbSidePanel *panel, const char *file, FILE *out) {
  pbDraft draft;
  char *page = NULL;
  size_t size = 0;
  PB_TRY(pbDraft_Begin(e->ctx, &draft));

  pbStatus status = pbPage_Put(&e->scene, trajectory, file, panel, draft.stream);
  if (status == pb_ok) status = pbDraft_End(&draft, &page, &size);
  if (status == pb_ok) fwrite(page, 1, size, out);
  pbDraft_Drop(&draft);
  pbContext_Free(e->ctx, page);

  return status;
}

// The page with the episode in motion; where a step of it fails, without motion and with the reason.
static pbStatus play(Episode *e, pbSidePanel *panel, const char *file, pbStepNotes *notes, FILE *out) {
  pbArrays *trajectory;
  PB_TRY(pbArrays_Create(e->ctx, &trajectory));
  pbStatus status = pbSimulation_Run(e->ctx, &e->s, trajectory, notes);
  if (status == pb_ok) status = put_page(e, trajectory, panel, file, out);
  else *notes = pbStepNotes_None();
  pbArrays_Destroy(trajectory);
  if (!failed_in_a_step(status)) return status;

  panel->no_motion = pbContext_Error(e->ctx);
  return put_page(e, NULL, panel, file, out);
}

// Memory of the curves: points and names of every column that may be one.
typedef struct Curves {
  pbCurve *curve;
  double *numbers;
  char *names;
} Curves;

// A term of the loss is told by its column's name, all else in words.
static const char *title_of(const pbTrain *train, int k, char *name) {
  if (k < PB_TRAIN_COLUMNS) return titles[k];
  return pbTrain_ColumnName(train, k, name, NAME_ROOM);
}

// What terms cost apart from one another is of interest where there are several.
static int shown_columns(const pbTrain *train) {
  int columns = pbTrain_ColumnCount(train);
  return columns > PB_TRAIN_COLUMNS + 2 ? columns : PB_TRAIN_COLUMNS;
}

static pbStatus make_page(Episode *e, const Curves *memory, const char *file, pbStepNotes *notes, FILE *out) {
  pbCurve *curves = memory->curve;
  pbSidePanel panel = {.title = "Training", .axis = "update", .curve = curves};
  for (int k = 0; k < shown_columns(e->train); k++) {
    const char *title = title_of(e->train, k, memory->names + (size_t)k * NAME_ROOM);
    if (!title) continue;
    double *x = memory->numbers + (size_t)2 * CURVE_ROOM * (size_t)k;
    curves[panel.curves] = make_curve(e->train, k, title, k == EVALUATED ? &e->result->first_score : NULL, x, x + CURVE_ROOM);
    panel.curves += curves[panel.curves].count > 0;
  }

  char *text = NULL;
  PB_TRY(begin_episode(e));
  pbStatus status = write_text(e, &text);
  panel.text = text;
  if (status == pb_ok) status = play(e, &panel, file, notes, out);
  pbContext_Free(e->ctx, text);

  return status;
}

static pbStatus show(Episode *e, const pbModel *looks, const char *task, const char *file, pbStepNotes *notes, FILE *out) {
  pbPolicyInfo policy;
  long steps = pbTrain_EpisodeSteps(e->train);
  e->ncommand = pbModel_PolicyInfo(e->s.model, &policy) ? policy.commands : 0;
  e->s.steps = steps < MOST_STEPS ? steps : MOST_STEPS;
  size_t columns = (size_t)shown_columns(e->train);
  Curves memory = {.curve = pbContext_Alloc(e->ctx, columns * sizeof *memory.curve),
                   .numbers = pbContext_Alloc(e->ctx, 2 * CURVE_ROOM * columns * sizeof *memory.numbers),
                   .names = pbContext_Alloc(e->ctx, columns * NAME_ROOM)};
  bool room = memory.curve && memory.numbers && memory.names;

  pbStatus status = take_theta(e);
  if (status == pb_ok)
    status = pbScene_Of(e->ctx, &(pbShown){.model = e->s.model, .theta = e->s.theta, .looks = looks, .path = task}, &e->scene);
  if (status == pb_ok) status = room ? make_page(e, &memory, file, notes, out) : pbScene_NoMemory(e->ctx);
  pbContext_Free(e->ctx, memory.curve);
  pbContext_Free(e->ctx, memory.numbers);
  pbContext_Free(e->ctx, memory.names);
  end_episode(e);

  return status;
}

pbStatus pbTrain_Page(pbContext *ctx, const pbTrain *train, const pbTrainResult *result, const char *task, const char *allow_root,
                      const char *file, pbStepNotes *notes, FILE *out) {
  Episode e = {.ctx = ctx, .train = train, .result = result};
  e.s = (pbSimulation){.model = pbTrain_Model(train),
                       .theta = result->theta,
                       .command = "train",
                       .path = task,
                       .trajectory = -1,
                       .recompute = false};
  *notes = pbStepNotes_None();

  // a training has no use for what meshes look like; where they are not there any more, their boxes are seen
  pbModel *looks = NULL;
  pbLoadOptions load = {.allow_root = allow_root, .surfaces = true};
  pbStatus status = pbModel_Load(ctx, task, &load, &looks);
  if (status == pb_no_memory) return status;
  if (status != pb_ok) looks = NULL;

  status = show(&e, looks, task, file, notes, out);
  pbModel_Destroy(looks);
  return status;
}
