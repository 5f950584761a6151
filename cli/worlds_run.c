// simulate and gradient with --worlds: what they write has the worlds as its first axis. Of a world that failed rows are NaN from
// the step on at which it did.
// Tests: tests/oracle/test_worlds.py, tests/oracle/test_going_on.py.
#include <math.h>
#include <string.h>

#include "worlds.h"

static void fill_nan(double *values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = NAN;
}

// An array whose first axis are the worlds, NaN at first.
static pbStatus add_array(const cliWorlds *w, pbArrays *set, const char *name, int ndim, const size_t *shape, double **data) {
  // what no world reaches stays NaN
  size_t all[4] = {(size_t)w->count}, count = (size_t)w->count;
  for (int i = 0; i < ndim; i++) {
    all[i + 1] = shape[i];
    count *= shape[i];
  }
  PB_TRY(pbArrays_AddReals(set, name, ndim + 1, all, NULL, data));
  if (*data) fill_nan(*data, count);

  return pb_ok;
}

static pbStatus save(cliWorlds *w, pbArrays *set, pbStatus failed) {
  // written whatever became of some worlds: their status is the command's
  char text[320];
  snprintf(text, sizeof text, "{\"command\": \"%s\", \"worlds\": %d, \"steps\": %ld, \"failed\": %d}", w->run->app->command->name,
           w->count, w->run->steps, pbBatch_Failed(w->batch));
  PB_TRY(pbArrays_AddText(set, "meta", text));
  PB_TRY(cli_save(w->run->app, set));

  return failed;
}

// ---- simulate -------------------------------------------------------------------------------------------------------
// States that are kept: every `every`th and the last.
static int *kept_rows(const cliRun *run, int *count) {
  int steps = (int)run->steps, every = (int)run->every;
  int *rows = pbContext_Alloc(run->ctx, ((size_t)(steps / every) + 2) * sizeof *rows);
  if (!rows) return NULL;

  // the first, and the last in any case
  *count = 0;
  for (int k = 0; k < steps; k += every) rows[(*count)++] = k;
  rows[(*count)++] = steps;

  return rows;
}

// States of all worlds, field by field.
static pbStatus write_fields(const cliWorlds *w, pbArrays *set, const double *states, size_t rows) {
  const cliRun *run = w->run;
  size_t nx = (size_t)run->nx;

  for (int i = 0; i < pbModel_StateFieldCount(run->model); i++) {
    pbStateField f = pbModel_StateFieldAt(run->model, i);
    size_t size = (size_t)f.size, shape[2] = {rows, size};
    double *to = NULL;
    PB_TRY(add_array(w, set, f.name, strcmp(f.name, "time") == 0 ? 1 : 2, shape, &to));
    for (size_t k = 0; k < (size_t)w->count * rows; k++)
      if (size) memcpy(to + k * size, states + k * nx + (size_t)f.offset, size * sizeof *to);
  }

  return pb_ok;
}

// ---- worlds that are at their end, kept
typedef struct Done {
  int count;        // worlds that are at their end
  int *left, rest;  // the others
} Done;

static size_t width_of(const cliRun *run, int part) { return (size_t)(part ? run->nsensordata : run->nx); }

static const char *const part_names[] = {"rows/states", "rows/sensordata"};

// All that has come from the worlds so far, of those at their end alone: one that failed fails again, and says so.
static pbStatus leave(cliWorlds *w, cliKept *kept, const pbBatchOutput *output) {
  const cliRun *run = w->run;
  const double *const parts[] = {output->states, output->sensordata};
  size_t rows = (size_t)output->row_count, done = 0, shape[3] = {0, rows, 0};
  double *worlds, *to;
  PB_TRY(pbArrays_Create(run->ctx, &kept->left));

  for (int k = 0; k < w->count; k++) done += output->steps_done[k] == run->steps;
  PB_TRY(pbArrays_AddReals(kept->left, "worlds", 1, &done, NULL, &worlds));
  for (int k = 0, at = 0; k < w->count; k++) {
    if (output->steps_done[k] == run->steps) worlds[at++] = k;
  }

  for (int i = 0; i < 2; i++) {
    size_t numbers = rows * width_of(run, i);
    shape[0] = done;
    shape[2] = width_of(run, i);
    PB_TRY(pbArrays_AddReals(kept->left, part_names[i], 3, shape, NULL, &to));
    if (!numbers) continue;
    for (size_t k = 0; k < done; k++) memcpy(to + k * numbers, parts[i] + (size_t)worlds[k] * numbers, numbers * sizeof *to);
  }
  return pb_ok;
}

static bool ascends(const pbArray *worlds, int count) {
  for (size_t k = 0; k < worlds->count; k++) {
    double before = k ? worlds->reals[k - 1] : -1;
    if (!(worlds->reals[k] > before && worlds->reals[k] < count && worlds->reals[k] == (int)worlds->reals[k])) return false;
  }
  return true;
}

// The worlds that are left, and the results of those at their end.
static pbStatus take_up(const cliWorlds *w, const cliKept *kept, const pbBatchOutput *output, Done *done) {
  const cliRun *run = w->run;
  double *const parts[] = {output->states, output->sensordata};
  size_t rows = (size_t)output->row_count;
  const pbArray *worlds = kept->from ? pbArrays_Find(kept->from, "worlds") : NULL;
  if (kept->from && !(worlds && worlds->type == pb_arrayReal && ascends(worlds, w->count))) return cliKept_Refuse(kept);
  done->count = worlds ? (int)worlds->count : 0;

  int parts_kept = done->count ? 2 : 0;
  for (int i = 0; i < parts_kept; i++) {
    const pbArray *a = pbArrays_Find(kept->from, part_names[i]);
    size_t numbers = rows * width_of(run, i);
    if (!a || a->type != pb_arrayReal || a->count != worlds->count * numbers) return cliKept_Refuse(kept);

    // a model without sensors has none to copy
    if (!numbers) continue;
    for (size_t k = 0; k < worlds->count; k++)
      memcpy(parts[i] + (size_t)worlds->reals[k] * numbers, a->reals + k * numbers, numbers * sizeof(double));
  }

  // both lists ascend
  for (int k = 0, at = 0; k < w->count; k++) {
    bool ended = at < done->count && worlds->reals[at] == k;
    at += ended;
    if (ended) output->steps_done[k] = (int)run->steps;
    else done->left[done->rest++] = k;
  }
  return pb_ok;
}

// Steps of all worlds, those among them that an earlier run has made.
typedef struct Counted {
  cliProgress line;
  int64_t before;
} Counted;

static int show_all(void *user, const pbProgress *p) {
  Counted *c = user;
  cliProgress_Show(&c->line, (double)(c->before + p->done), (double)(c->before + p->total), NULL);
  return cliSignals_Caught();
}

static pbStatus roll(cliWorlds *w, cliKept *kept, const pbBatchOutput *output) {
  cliRun *run = w->run;
  Done done = {.left = pbContext_Alloc(run->ctx, ((size_t)w->count + 1) * sizeof *done.left)};
  // what an earlier run has left goes to its rows at once
  pbStatus status = done.left ? take_up(w, kept, output, &done) : cli_noMemory(run->ctx);
  if (status == pb_ok && kept->from && !run->app->args.text[opt_quiet])
    fprintf(cli_err, "pullback simulate: goes on with %d of %d worlds, with %s\n", done.rest, w->count, kept->path);

  // from here on an interrupt is a flag that the batch asks for
  Counted counted = {.before = (int64_t)done.count * run->steps};
  cliProgress_Begin(&counted.line, run->app, "simulate");
  cliSignals_Defer();
  pbBatch_OnProgress(w->batch, show_all, &counted);
  if (status == pb_ok && done.rest)
    status = pbBatch_Rollout(w->batch, run->theta, done.left, done.rest, (int)run->steps, &w->input, output);
  cliProgress_End(&counted.line);
  pbBatch_OnProgress(w->batch, NULL, NULL);
  if (status != pb_interrupted) cliSignals_Undefer();

  pbContext_Free(run->ctx, done.left);
  return status;
}

static pbStatus simulate(cliWorlds *w, cliKept *going, pbArrays *set, const int *rows, int count, double *states) {
  cliRun *run = w->run;
  size_t kept = (size_t)count;
  pbBatchOutput output = {.states = states, .rows = rows, .row_count = count};
  pbStatus failed = pb_ok;
  fill_nan(states, (size_t)w->count * kept * (size_t)run->nx);
  PB_TRY(add_array(w, set, "sensordata", 2, (size_t[]){kept, (size_t)run->nsensordata}, &output.sensordata));
  PB_TRY(pbArrays_AddInts(set, "steps_done", 1, (size_t[]){(size_t)w->count}, NULL, &output.steps_done));
  if (!run->nsensordata) output.sensordata = NULL;

  pbStatus status = roll(w, going, &output);
  if (status == pb_interrupted) {
    char text[80];
    int done = 0;
    for (int k = 0; k < w->count; k++) done += output.steps_done[k] == run->steps;
    snprintf(text, sizeof text, "interrupted after %d of %d worlds", done, w->count);

    // worlds at their end alone
    PB_TRY(leave(w, going, &output));
    return cliKept_Save(going, text);
  }
  PB_TRY(cliWorlds_Note(w, status, &failed));

  // rows that a failed world did not reach are still NaN
  PB_TRY(write_fields(w, set, states, kept));

  return save(w, set, failed);
}

pbStatus cliWorlds_Simulate(cliRun *run, cliKept *kept) {
  cliWorlds w;
  pbArrays *set = NULL;
  int count = 0, *rows = NULL;
  double *states = NULL;
  pbStatus status = cliWorlds_Begin(run, false, &w);
  if (status == pb_ok) status = cliKept_Load(kept);
  if (status == pb_ok) status = pbArrays_Create(run->ctx, &set);

  if (status == pb_ok) {
    rows = kept_rows(run, &count);
    double bytes = (double)w.count * count * run->nx * sizeof(double);
    if (bytes > (double)PB_ARRAY_LIMIT)
      status = pbContext_Fail(run->ctx, pb_capacity, "%d states of %d worlds are %.0f MiB, at most %zu MiB are allowed (--every)",
                              count, w.count, bytes / 1048576, PB_ARRAY_LIMIT >> 20);
    else states = pbContext_Alloc(run->ctx, (size_t)bytes);
    if (status == pb_ok && (!rows || !states)) status = cli_noMemory(run->ctx);
  }
  if (status == pb_ok) status = simulate(&w, kept, set, rows, count, states);

  pbContext_Free(run->ctx, rows);
  pbContext_Free(run->ctx, states);
  pbArrays_Destroy(set);
  cliWorlds_End(&w);

  return status;
}

// ---- gradient -------------------------------------------------------------------------------------------------------
typedef struct Cotangent {
  const char *name;
  pbCotangent *to;
  size_t width;
} Cotangent;

// (worlds, ...) of the last state, or (worlds, steps + 1, ...) of all.
static pbStatus read_cotangent(const cliWorlds *w, const char *file, const Cotangent *c, const pbArray *a) {
  size_t final = (size_t)w->count * c->width;
  size_t states = (size_t)w->run->steps + 1;
  PB_TRY(pbArray_CheckFinite(w->run->ctx, a, file));
  if (a->type == pb_arrayReal && (a->count == final || a->count == final * states)) {
    *c->to = (pbCotangent){.data = a->reals, .count = a->count == final ? 1 : (int)states};
    return pb_ok;
  }

  char shape[200];
  return pbContext_Fail(w->run->ctx, pb_bad_input,
                        "%s: '%s' %s; expected (%d, ...) for the last states or (%d, %zu, ...) for all, %zu numbers a state",
                        file, a->name, pbArray_What(a, shape, sizeof shape), w->count, w->count, states, c->width);
}

static pbStatus read_bar(const cliWorlds *w, const pbArrays *set, pbRolloutBar *bar) {
  const cliRun *run = w->run;
  const char *file = run->app->args.text[opt_cotangent];
  size_t points = 3 * (size_t)pbModel_PointCount(run->model);
  const Cotangent all[] = {{"qpos", &bar->qpos, (size_t)run->nv},
                           {"qvel", &bar->qvel, (size_t)run->nv},
                           {"act", &bar->act, (size_t)run->na},
                           {"points", &bar->points, points},
                           {"point_velocity", &bar->point_velocity, points},
                           {"sensordata", &bar->sensordata, (size_t)run->nsensordata},
                           {"xpos", &bar->xpos, 3 * (size_t)run->nbody},
                           {"site_xpos", &bar->site_xpos, 3 * (size_t)run->nsite}};
  enum { kinds = sizeof all / sizeof *all };

  // every array is one of these, or meta
  *bar = (pbRolloutBar){0};

  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    int k = 0;
    while (k < kinds && strcmp(all[k].name, a->name) != 0) k++;
    if (k < kinds) PB_TRY(read_cotangent(w, file, &all[k], a));
    else if (strcmp(a->name, "meta") != 0)
      return pbContext_Fail(run->ctx, pb_bad_input, "%s: unknown array '%.80s'", file, a->name);
  }

  return pb_ok;
}

// Shapes of inputs' gradients: of each world, or one sum where all have the same.
static pbStatus add_input(const cliWorlds *w, pbArrays *set, const char *name, size_t width, unsigned bit, double **data) {
  // without the first axis where all worlds share the input
  size_t shape[3] = {(size_t)w->count, (size_t)w->run->steps, width};
  int skip = w->input.shared & bit ? 1 : 0;

  return pbArrays_AddReals(set, name, 3 - skip, shape + skip, NULL, data);
}

static pbStatus write_state(const cliWorlds *w, pbArrays *set, const double *x0) {
  const cliRun *run = w->run;
  const struct {
    const char *name;
    int size;
  } parts[] = {{"qpos", run->nv}, {"qvel", run->nv}, {"act", run->na}};
  size_t at = 0;

  // in the order of the tangent space
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    size_t size = (size_t)parts[i].size;
    double *to = NULL;
    PB_TRY(add_array(w, set, parts[i].name, 1, &size, &to));
    for (size_t k = 0; k < (size_t)w->count; k++) {
      bool failed = pbBatch_Status(w->batch)[k] != pb_ok;
      if (size && !failed) memcpy(to + k * size, x0 + k * (size_t)run->nt + at, size * sizeof *to);
    }
    at += size;
  }

  return pb_ok;
}

// param/NAME: sums over the worlds in the shape of the field; of own parameters those of each world.
static pbStatus write_parameters(const cliWorlds *w, pbArrays *set, const double *theta, const double *own) {
  const cliRun *run = w->run;
  char name[320];
  // own ones first: the field they are of may hold others
  for (int i = 0; i < w->own_count; i++) {
    size_t column, size = w->own_from[i]->count / (size_t)w->count;
    double *to = NULL;
    pbBatch_OwnAt(w->batch, i, &column);
    snprintf(name, sizeof name, "param/%s", w->own[i]);
    PB_TRY(pbArrays_AddReals(set, name, w->own_from[i]->ndim, w->own_from[i]->shape, NULL, &to));
    for (size_t k = 0; k < (size_t)w->count; k++)
      memcpy(to + k * size, own + k * pbBatch_OwnSize(w->batch) + column, size * sizeof *to);
  }

  for (int i = 0; i < pbModel_ParamCount(run->model); i++) {
    pbParam p = pbModel_ParamAt(run->model, i);
    size_t shape[2];
    int ndim = pbParam_Shape(&p, shape);
    snprintf(name, sizeof name, "param/%s", p.name);
    if (pbArrays_Find(set, name) || (run->recompute && p.derived)) continue;
    PB_TRY(pbArrays_AddReals(set, name, ndim, shape, theta + p.offset, NULL));
  }

  return pb_ok;
}

// What the certificate of each world says in numbers; of a world that failed NaN and -1.
static pbStatus write_certificates(const cliWorlds *w, pbArrays *set, const pbCertificate *certificate) {
  double *growth = NULL, *residual = NULL;
  int *unconverged = NULL;
  PB_TRY(add_array(w, set, "growth", 0, NULL, &growth));
  PB_TRY(add_array(w, set, "worst_residual", 0, NULL, &residual));
  PB_TRY(pbArrays_AddInts(set, "unconverged", 1, (size_t[]){(size_t)w->count}, NULL, &unconverged));

  for (int k = 0; k < w->count; k++) {
    bool failed = pbBatch_Status(w->batch)[k] != pb_ok;
    unconverged[k] = failed ? -1 : (int)certificate[k].unconverged;
    if (failed) continue;
    growth[k] = certificate[k].growth;
    residual[k] = certificate[k].worst_residual;
  }

  return pb_ok;
}

typedef struct Room {
  pbCertificate *certificate;
  double *x0, *theta, *own;
} Room;

static pbStatus gradient(cliWorlds *w, pbArrays *set, const pbArrays *cotangents, const Room *room) {
  cliRun *run = w->run;
  pbRolloutBar bar;
  pbBatchGradient g = {.x0 = room->x0, .theta = room->theta, .own = room->own};
  pbStatus failed = pb_ok;
  pbGradientKind kind;

  // what is asked for, before anything runs
  PB_TRY(read_bar(w, cotangents, &bar));
  PB_TRY(cliArgs_Mode(run->app, &kind));
  PB_TRY(pbBatch_SetGradient(w->batch, kind));
  PB_TRY(add_input(w, set, "control", (size_t)run->nu, pb_sharedCtrl, &g.ctrl));
  if (w->input.qfrc) PB_TRY(add_input(w, set, "qfrc", (size_t)run->nv, pb_sharedQfrc, &g.qfrc));
  if (w->input.xfrc) PB_TRY(add_input(w, set, "xfrc", 6 * (size_t)run->nbody, pb_sharedXfrc, &g.xfrc));
  if (run->nmocap) PB_TRY(add_input(w, set, "mocap_pos", 3 * (size_t)run->nmocap, pb_sharedMocap, &g.mocap_pos));
  if (run->nmocap) PB_TRY(add_input(w, set, "mocap_rot", 3 * (size_t)run->nmocap, pb_sharedMocap, &g.mocap_rot));
  if (w->input.mocap_vel) PB_TRY(add_input(w, set, "mocap_vel", 6 * (size_t)run->nmocap, pb_sharedMocap, &g.mocap_vel));
  if (!run->nu) g.ctrl = NULL;

  cliProgress progress;
  cliProgress_Begin(&progress, run->app, "gradient");
  cliSignals_Defer();
  pbBatch_OnProgress(w->batch, cliProgress_On, &progress);
  pbStatus status = pbBatch_Rollout(w->batch, run->theta, NULL, 0, (int)run->steps, &w->input, NULL);
  pbStatus noted = cliWorlds_Note(w, status, &failed);

  // worlds that failed are left out of the sums
  if (noted == pb_ok) {
    status = pbBatch_Vjp(w->batch, &bar, NULL, &g, room->certificate);
    noted = cliWorlds_Note(w, status, &failed);
  }
  cliProgress_End(&progress);
  if (noted == pb_interrupted) return cli_nothingKept(run->app, "");
  cliSignals_Undefer();
  PB_TRY(noted);

  PB_TRY(write_state(w, set, g.x0));
  PB_TRY(write_certificates(w, set, room->certificate));
  if (run->recompute && !w->own_count) PB_TRY(pbModel_SetConstantsVjp(run->ctx, run->model, run->theta_before, g.theta));
  PB_TRY(write_parameters(w, set, g.theta, g.own));

  return save(w, set, failed);
}

pbStatus cliWorlds_Gradient(cliRun *run) {
  cliWorlds w;
  pbArrays *set = NULL, *cotangents = NULL;
  double *memory = NULL;
  pbCertificate *certificate = NULL;
  pbStatus status = cliWorlds_Begin(run, true, &w);
  if (status == pb_ok && !run->app->args.text[opt_cotangent])
    status = pbContext_Fail(run->ctx, pb_bad_argument, "--worlds needs --cotangent: what is to be pulled back");
  if (status == pb_ok) status = pbArrays_Load(run->ctx, run->app->args.text[opt_cotangent], &cotangents);
  if (status == pb_ok) status = pbArrays_Create(run->ctx, &set);

  if (status == pb_ok) {
    size_t states = (size_t)w.count * (size_t)run->nt;
    size_t own = (size_t)w.count * pbBatch_OwnSize(w.batch);
    memory = pbContext_Alloc(run->ctx, (states + run->ntheta + own) * sizeof *memory);
    certificate = pbContext_Alloc(run->ctx, (size_t)w.count * sizeof *certificate);
    Room room = {certificate, memory, memory + states, memory + states + run->ntheta};
    status = memory && certificate ? gradient(&w, set, cotangents, &room) : cli_noMemory(run->ctx);
  }

  pbContext_Free(run->ctx, memory);
  pbContext_Free(run->ctx, certificate);
  pbArrays_Destroy(set);
  pbArrays_Destroy(cotangents);
  cliWorlds_End(&w);

  return status;
}
