// What a controller has done: the motion as arrays, its decisions as a table, times in short.
// Tests: tests/oracle/test_control.py.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pullback/io.h>

#include "base/context.h"
#include "base/text.h"
#include "io/control/control.h"
#include "io/file.h"

static pbStatus no_memory(pbContext *ctx) { return pbContext_Fail(ctx, pb_no_memory, "no memory for a record"); }

pbStatus pbControlLog_Begin(pbContext *ctx, const pbPlant *plant, const char *path, pbControlLog *log) {
  pbControlLog_Clear(ctx, log);
  *log = (pbControlLog){.model = plant->model, .theta = plant->theta, .path = path, .notes = pbStepNotes_None()};
  log->nx = (size_t)pbModel_StateSize(plant->model);
  log->nu = (size_t)pbModel_Size(plant->model, "nu");
  log->ns = plant->sensordata ? (size_t)pbModel_Size(plant->model, "nsensordata") : 0;
  return pb_ok;
}

void pbControlLog_Clear(pbContext *ctx, pbControlLog *log) {
  for (int i = 0; i < log->count; i++) pbContext_Free(ctx, log->decisions[i].reason);
  void *memory[] = {log->x, log->ctrl, log->sensordata, log->decisions};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) pbContext_Free(ctx, memory[i]);
  *log = (pbControlLog){.steps = 0};
}

// ---- rows -----------------------------------------------------------------------------------------------------------------
static bool grow(pbContext *ctx, double **rows, size_t count, size_t width) {
  double *grown = pbContext_Resize(ctx, *rows, (count * width + 1) * sizeof *grown);
  if (grown) *rows = grown;
  return grown;
}

static pbStatus make_room(pbContext *ctx, pbControlLog *log) {
  if (log->steps + 1 < log->room) return pb_ok;
  size_t room = log->room ? 2 * (size_t)log->room : 256;
  if ((log->nx + log->nu + log->ns) * (size_t)log->steps * sizeof(double) > PB_ARRAY_LIMIT - (1 << 24))
    return pbContext_Fail(ctx, pb_capacity, "a record may hold %zu MiB; that is full after %ld steps", PB_ARRAY_LIMIT >> 20,
                          log->steps);

  bool good =
      grow(ctx, &log->x, room, log->nx) && grow(ctx, &log->ctrl, room, log->nu) && grow(ctx, &log->sensordata, room, log->ns);
  if (!good) return no_memory(ctx);
  log->room = (long)room;
  return pb_ok;
}

pbStatus pbControlLog_Add(pbContext *ctx, pbControlLog *log, const pbPlant *plant, const double *ctrl) {
  PB_TRY(make_room(ctx, log));
  size_t row = (size_t)log->steps;
  memcpy(log->x + row * log->nx, plant->x, log->nx * sizeof *plant->x);

  if (log->ns) memset(log->sensordata + row * log->ns, 0, log->ns * sizeof *log->sensordata);

  // the last state has no control yet; sensors are those of the state before a step, known after it
  if (!ctrl) return pb_ok;
  memcpy(log->ctrl + row * log->nu, ctrl, log->nu * sizeof *ctrl);
  log->steps++;
  return pb_ok;
}

pbStatus pbControlLog_Decide(pbContext *ctx, pbControlLog *log, const pbDecision *decision) {
  if (log->count == log->decision_room) {
    int room = log->decision_room ? 2 * log->decision_room : 128;
    pbDecision *grown = pbContext_Resize(ctx, log->decisions, (size_t)room * sizeof *grown);
    if (!grown) return no_memory(ctx);
    log->decisions = grown;
    log->decision_room = room;
  }
  log->decisions[log->count++] = *decision;
  return pb_ok;
}

// ---- arrays ---------------------------------------------------------------------------------------------------------------
static pbStatus add_state(const pbControlLog *log, pbArrays *set) {
  size_t rows = (size_t)log->steps + 1;
  for (int i = 0; i < pbModel_StateFieldCount(log->model); i++) {
    pbStateField field = pbModel_StateFieldAt(log->model, i);
    size_t shape[2] = {rows, (size_t)field.size}, width = shape[1];
    double *to;
    PB_TRY(pbArrays_AddReals(set, field.name, strcmp(field.name, "time") == 0 ? 1 : 2, shape, NULL, &to));
    if (!width) continue;
    for (size_t k = 0; k < rows; k++) memcpy(to + k * width, log->x + k * log->nx + field.offset, width * sizeof *to);
  }
  return pb_ok;
}

typedef double DecisionNumber(const pbDecision *decision);
static double step_of(const pbDecision *d) { return (double)d->step; }
static double time_of(const pbDecision *d) { return d->time; }
static double iterations_of(const pbDecision *d) { return d->news.iterations; }
static double verdict_of(const pbDecision *d) { return d->verdict; }
static double loss_of(const pbDecision *d) { return d->news.loss; }
static double guess_of(const pbDecision *d) { return d->news.guess_loss; }

// Without times, which are never the same again: a run that is repeated has the same bytes.
static pbStatus add_decisions(const pbControlLog *log, pbArrays *set) {
  static const struct {
    const char *name;
    DecisionNumber *number;
  } columns[] = {{"plan/step", step_of},       {"plan/time", time_of}, {"plan/iterations", iterations_of},
                 {"plan/verdict", verdict_of}, {"plan/loss", loss_of}, {"plan/guess_loss", guess_of}};
  size_t count = (size_t)log->count;
  for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
    double *to;
    PB_TRY(pbArrays_AddReals(set, columns[c].name, 1, &count, NULL, &to));
    for (size_t i = 0; i < count; i++) to[i] = columns[c].number(&log->decisions[i]);
  }
  return pb_ok;
}

static pbStatus add_meta(pbContext *ctx, const pbControlLog *log, pbArrays *set) {
  const pbSimulation s = {
      .model = log->model, .theta = log->theta, .steps = log->steps, .command = "control", .path = log->path, .trajectory = -1};
  pbDraft draft;
  char *text;
  PB_TRY(pbDraft_Begin(ctx, &draft));

  pbJson j = {.out = draft.stream, .compact = true};
  pbJson_Open(&j, NULL, '{');
  pbSimulation_Describe(ctx, &s, &log->notes, &j);
  pbJson_Close(&j, '}');
  PB_TRY(pbDraft_End(&draft, &text, NULL));
  pbStatus status = pbArrays_AddText(set, "meta", text);
  pbContext_Free(ctx, text);
  return status;
}

pbStatus pbControlLog_Arrays(pbContext *ctx, const pbControlLog *log, pbArrays *set) {
  size_t steps = (size_t)log->steps;
  PB_TRY(add_state(log, set));
  PB_TRY(pbArrays_AddReals(set, "control", 2, (size_t[]){steps, log->nu}, log->ctrl, NULL));
  if (log->ns) PB_TRY(pbArrays_AddReals(set, "sensordata", 2, (size_t[]){steps + 1, log->ns}, log->sensordata, NULL));
  PB_TRY(add_decisions(log, set));
  return add_meta(ctx, log, set);
}

// ---- the table ------------------------------------------------------------------------------------------------------------
static void put_number(FILE *out, double value, const char *behind) {
  char text[40];
  fprintf(out, "%s%s", isfinite(value) ? pbText_PutReal(text, sizeof text, value) : "", behind);
}

// A reason as one field: lines as blanks, quotes twice.
static void put_reason(FILE *out, const char *reason) {
  if (!reason) return;
  fputc('"', out);
  for (; *reason; reason++) {
    if (*reason == '"') fputc('"', out);
    fputc(*reason == '\n' ? ' ' : *reason, out);
  }
  fputc('"', out);
}

static void put_table(FILE *out, const void *what) {
  static const char *const verdicts[] = {"improved", "converged", "failed"};
  const pbControlLog *log = what;
  fputs(
      "step,time,loss,guess_loss,iterations,verdict,seconds,prepare_seconds,search_seconds,feedback_seconds,age,fallbacks,"
      "reason\n",
      out);
  for (int i = 0; i < log->count; i++) {
    const pbDecision *d = &log->decisions[i];
    fprintf(out, "%ld,", d->step);
    put_number(out, d->time, ",");
    put_number(out, d->news.loss, ",");
    put_number(out, d->news.guess_loss, ",");
    fprintf(out, "%d,%s,", d->news.iterations, verdicts[d->verdict]);
    put_number(out, d->news.seconds, ",");
    put_number(out, d->news.linearize_seconds, ",");
    put_number(out, d->news.plan_seconds + d->news.run_seconds, ",");
    put_number(out, d->feedback, ",");
    put_number(out, d->age, ",");
    fprintf(out, "%d,", d->fallbacks);
    put_reason(out, d->reason);
    fputc('\n', out);
  }
}

pbStatus pbControlLog_Save(pbContext *ctx, const pbControlLog *log, const char *record, const char *table) {
  pbArrays *set;
  if (!log->room) return pb_ok;  // nothing was done
  if (table) PB_TRY(pbFile_WriteText(ctx, table, put_table, log));
  if (!record) return pb_ok;

  PB_TRY(pbArrays_Create(ctx, &set));
  pbStatus status = pbControlLog_Arrays(ctx, log, set);
  if (status == pb_ok) status = pbArrays_SaveNpz(set, record, false);
  pbArrays_Destroy(set);
  return status;
}

// ---- times ------------------------------------------------------------------------------------------------------------------
static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Of n that are in order, the smallest that a share of all do not exceed.
static double quantile(const double *sorted, int n, double share) {
  int k = (int)ceil(share * n) - 1;
  return sorted[k < 0 ? 0 : k];
}

static double whole_of(const pbDecision *d) { return d->news.seconds; }
static double prepare_of(const pbDecision *d) { return d->news.linearize_seconds; }
static double search_of(const pbDecision *d) { return d->news.plan_seconds + d->news.run_seconds; }
static double feedback_of(const pbDecision *d) { return d->feedback; }

pbStatus pbControlLog_Times(pbContext *ctx, const pbControlLog *log, pbControlResult *result) {
  const struct {
    DecisionNumber *number;
    pbControlTimes *times;
  } phases[] = {
      {whole_of, &result->plan}, {prepare_of, &result->prepare}, {search_of, &result->search}, {feedback_of, &result->feedback}};
  int n = log->count;
  if (n == 0) return pb_ok;
  double *sorted = pbContext_AllocArray(ctx, (size_t)n, sizeof *sorted);
  if (!sorted) return no_memory(ctx);

  for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
    for (int i = 0; i < n; i++) sorted[i] = phases[p].number(&log->decisions[i]);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    *phases[p].times = (pbControlTimes){quantile(sorted, n, 0.5), quantile(sorted, n, 0.99), sorted[n - 1]};
  }
  pbContext_Free(ctx, sorted);
  return pb_ok;
}
