// The page of a controller: what was recorded in motion, its plans as curves.
// Tests: tests/oracle/test_control.py.
#include <math.h>
#include <stdio.h>

#include <pullback/io.h>

#include "io/control/control.h"
#include "io/view/scene.h"

enum { MOST_POINTS = 2000, CURVES = 6 };

typedef struct Curves {
  pbCurve curve[CURVES];
  int count;
  double *numbers;
} Curves;

static double value_of(const pbDecision *d, int k) {
  const double values[CURVES] = {d->news.loss,
                                 d->news.iterations,
                                 1e3 * d->news.seconds,
                                 1e3 * d->news.linearize_seconds,
                                 1e3 * (d->news.plan_seconds + d->news.run_seconds),
                                 1e3 * d->feedback};
  return values[k];
}

static pbStatus make_curves(pbContext *ctx, const pbControlLog *log, Curves *c) {
  static const char *const titles[CURVES] = {
      "loss of the plan",         "iterations of the plan",
      "time of a plan, ms",       "of it for derivatives (prepare), ms",
      "of it for the search, ms", "longest time of a control out of the plan (feedback), ms"};
  size_t room = MOST_POINTS + 2;
  c->numbers = pbContext_Alloc(ctx, 2 * room * CURVES * sizeof *c->numbers);
  if (!c->numbers) return pbScene_NoMemory(ctx);

  // of very many every so many, and the last
  int every = (log->count - 1) / MOST_POINTS + 1;
  for (int k = 0; k < CURVES; k++) {
    double *x = c->numbers + 2 * room * (size_t)k, *y = x + room;
    pbCurve *curve = &c->curve[c->count];

    *curve = (pbCurve){.name = titles[k], .x = x, .y = y};
    for (int i = 0; i < log->count; i++) {
      double value = value_of(&log->decisions[i], k);
      if (!isfinite(value) || (i % every != 0 && i + 1 != log->count)) continue;
      x[curve->count] = log->decisions[i].time;
      y[curve->count++] = value;
    }
    c->count += curve->count > 0;
  }
  return pb_ok;
}

static void put_times(FILE *out, const char *name, pbControlTimes t) {
  fprintf(out, "%s: %.3g ms median, %.3g ms 99th percentile, %.3g ms largest\n", name, 1e3 * t.median, 1e3 * t.percentile99,
          1e3 * t.largest);
}

static pbStatus write_text(pbContext *ctx, const pbControlResult *r, char **text) {
  pbDraft draft;
  PB_TRY(pbDraft_Begin(ctx, &draft));

  fprintf(draft.stream, "%ld steps, %.6g s%s; %d plans, one every %.6g s\n", r->steps, r->time,
          r->done ? ", ended by the plant" : "", r->plans, r->interval);
  put_times(draft.stream, "a plan", r->plan);
  put_times(draft.stream, "a control out of it", r->feedback);

  fprintf(draft.stream, "%d plans took longer than the interval; %d had no answer, and the one before went on", r->late,
          r->fallbacks);
  return pbDraft_End(&draft, text, NULL);
}

static pbStatus put_page(pbControl *control, pbScene *scene, const pbArrays *motion, const pbSidePanel *panel, FILE *out) {
  pbDraft draft;
  char *page = NULL;
  size_t size = 0;
  PB_TRY(pbDraft_Begin(control->ctx, &draft));

  // to a text of its own: nothing of a page that failed is out
  pbStatus status = pbPage_Put(scene, motion, "the record", panel, draft.stream);
  if (status == pb_ok) status = pbDraft_End(&draft, &page, &size);
  if (status == pb_ok) fwrite(page, 1, size, out);
  pbDraft_Drop(&draft);
  pbContext_Free(control->ctx, page);
  return status;
}

static pbStatus make_page(pbControl *control, const pbControlResult *result, pbScene *scene, const pbArrays *motion, FILE *out) {
  Curves curves = {.count = 0};
  char *text = NULL;

  pbStatus status = make_curves(control->ctx, &control->log, &curves);
  if (status == pb_ok) status = write_text(control->ctx, result, &text);
  const pbSidePanel panel = {.title = "Control", .text = text, .axis = "s", .curves = curves.count, .curve = curves.curve};
  if (status == pb_ok) status = put_page(control, scene, motion, &panel, out);
  pbContext_Free(control->ctx, text);
  pbContext_Free(control->ctx, curves.numbers);
  return status;
}

// Of the task's own model what its meshes look like; of another plant, and where they are not there any more, boxes are seen.
static pbStatus read_looks(pbControl *control, const char *task, const char *allow_root, pbModel **looks) {
  *looks = NULL;
  if (control->log.model != control->task->model) return pb_ok;
  pbStatus status = pbModel_Load(control->ctx, task, &(pbLoadOptions){.allow_root = allow_root, .surfaces = true}, looks);
  if (status != pb_ok) *looks = NULL;
  return status == pb_no_memory ? status : pb_ok;
}

static pbStatus show(pbControl *control, const pbControlResult *result, pbShown shown, FILE *out) {
  pbArrays *motion = NULL;
  pbScene scene;

  pbStatus status = pbScene_Of(control->ctx, &shown, &scene);
  if (status == pb_ok) status = pbArrays_Create(control->ctx, &motion);
  if (status == pb_ok) status = pbControlLog_Arrays(control->ctx, &control->log, motion);
  if (status == pb_ok) status = make_page(control, result, &scene, motion, out);

  pbArrays_Destroy(motion);
  pbScene_End(&scene);
  return status;
}

pbStatus pbControl_Page(pbControl *control, const pbControlResult *result, const char *task, const char *allow_root, FILE *out) {
  const pbControlLog *log = &control->log;
  if (!log->room) return pbContext_Fail(control->ctx, pb_bad_argument, "a page of a controller that has not run");

  pbModel *looks;
  PB_TRY(read_looks(control, task, allow_root, &looks));
  pbStatus status = show(control, result, (pbShown){.model = log->model, .theta = log->theta, .looks = looks, .path = task}, out);
  pbModel_Destroy(looks);
  return status;
}
