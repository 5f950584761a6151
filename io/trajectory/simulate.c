// A run with all of its states, or every so many, as named arrays.
// Tests: tests/unit/test_describe.c, tests/oracle/test_cli.py, tests/oracle/test_task_run.py, tests/oracle/test_going_on.py.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/policy.h>
#include <pullback/io.h>
#include <pullback/trajectory.h>

#include "io/progress.h"

enum { MOST_FIELDS = 32, META_ROOM = 1 << 20 };  // bytes left for meta, which is written last

typedef struct Recorder {
  pbContext *ctx;
  const pbSimulation *s;
  long every;
  size_t nu, nv, nbody, ncommand, nmocap, nsensordata;
  int count;
  pbStateField fields[MOST_FIELDS];
  double *rows[MOST_FIELDS];  // (kept, size) each
  double *sensordata;
  size_t kept;   // states
  double *rate;  // (steps, nmocap, 6): velocities of mocap bodies that their poses say; NULL: given, or the model's
  pbScratch *scratch;
  double *x;
} Recorder;

static size_t size_of(const pbModel *model, const char *name) { return (size_t)pbModel_Size(model, name); }

static Recorder recorder_of(pbContext *ctx, const pbSimulation *s) {
  pbPolicyInfo policy;
  bool led = pbModel_PolicyInfo(s->model, &policy);
  return (Recorder){.ctx = ctx,
                    .s = s,
                    .every = s->every > 1 ? s->every : 1,
                    .nu = size_of(s->model, "nu"),
                    .nv = size_of(s->model, "nv"),
                    .nbody = size_of(s->model, "nbody"),
                    .nmocap = size_of(s->model, "nmocap"),
                    .nsensordata = size_of(s->model, "nsensordata"),
                    .ncommand = led ? (size_t)policy.commands : 0};
}

// States of a run of so many steps that are kept: the first, every n-th, and the last.
static size_t kept_states(long steps, long every) { return (size_t)((steps + every - 1) / every) + 1; }

// Row of the state after k steps, or -1 where it is not kept.
static long row_of(const Recorder *r, long k) {
  if (k == r->s->steps) return (long)r->kept - 1;
  return k % r->every == 0 ? k / r->every : -1;
}

static double *sensors_of(const Recorder *r, long k) {
  long row = row_of(r, k);
  return r->nsensordata && row >= 0 ? r->sensordata + (size_t)row * r->nsensordata : NULL;
}

// The smallest `every` whose arrays fit; 0: none can.
static long smallest_every(const Recorder *r, double input, double state) {
  double states = floor(((double)PB_ARRAY_LIMIT - META_ROOM) / (input + state));
  if (states < 3) return 0;

  // all but the first and the last are `every` steps apart
  return (long)((double)r->s->steps / (states - 2)) + 1;
}

static pbStatus check_size(const Recorder *r) {
  const pbRolloutInput *in = &r->s->input;
  double numbers = (double)r->nsensordata, input = (double)r->nu;
  for (int i = 0; i < r->count; i++) numbers += r->fields[i].size;
  if (in->qfrc) input += (double)r->nv;
  if (in->xfrc) input += 6. * (double)r->nbody;
  if (in->command) input += (double)r->ncommand;
  if (in->mocap_pos) input += 3. * (double)r->nmocap;
  if (in->mocap_quat) input += 4. * (double)r->nmocap;
  if (in->mocap_vel) input += 6. * (double)r->nmocap;

  double rows = (double)(r->every > 1 ? (long)r->kept : r->s->steps), state = sizeof(double) * numbers;
  double bytes = META_ROOM + sizeof(double) * input * rows + state * (double)r->kept;
  if (bytes <= (double)PB_ARRAY_LIMIT) return pb_ok;

  char advice[80] = "";
  long every = smallest_every(r, sizeof(double) * input, state);
  if (every && every <= r->s->steps) snprintf(advice, sizeof advice, "; --every %ld would fit", every);
  return pbContext_Fail(
      r->ctx, pb_capacity,
      "%zu states of %.0f bytes, the inputs of %.0f steps and meta need %.0f MiB, at most %zu MiB are allowed%s", r->kept, state,
      rows, bytes / 1048576, PB_ARRAY_LIMIT >> 20, advice);
}

// Of all steps, or, where states are kept every so many, a row for each that is kept: what acts from there on. The last state has
// that of the last step, with which it is observed.
static pbStatus add_input(const Recorder *r, pbArrays *set, const char *name, int ndim, size_t *shape, const double *values) {
  size_t steps = (size_t)r->s->steps, width = 1;
  double *to;
  bool all = r->every == 1;
  shape[0] = all ? steps : r->kept;
  for (int i = 1; i < ndim; i++) width *= shape[i];

  PB_TRY(pbArrays_AddReals(set, name, ndim, shape, all ? values : NULL, &to));
  if (all || !values || !width) return pb_ok;
  for (size_t row = 0; row < r->kept; row++) {
    size_t step = row * (size_t)r->every;
    memcpy(to + row * width, values + (step < steps ? step : steps - 1) * width, width * sizeof *to);
  }
  return pb_ok;
}

static pbStatus make_recorder(pbArrays *set, Recorder *r) {
  const pbRolloutInput *in = &r->s->input;
  size_t nmocap = r->nmocap;
  r->count = pbModel_StateFieldCount(r->s->model);
  if (r->count > MOST_FIELDS) return pbContext_Fail(r->ctx, pb_capacity, "too many state fields");
  for (int i = 0; i < r->count; i++) r->fields[i] = pbModel_StateFieldAt(r->s->model, i);

  r->kept = kept_states(r->s->steps, r->every);

  // refused before the first step, not after the last
  PB_TRY(check_size(r));

  for (int i = 0; i < r->count; i++) {
    bool is_time = strcmp(r->fields[i].name, "time") == 0;
    size_t shape[2] = {r->kept, (size_t)r->fields[i].size};
    PB_TRY(pbArrays_AddReals(set, r->fields[i].name, is_time ? 1 : 2, shape, NULL, &r->rows[i]));
  }

  PB_TRY(add_input(r, set, "control", 2, (size_t[]){0, r->nu}, in->ctrl));
  if (in->qfrc) PB_TRY(add_input(r, set, "qfrc", 2, (size_t[]){0, r->nv}, in->qfrc));
  if (in->xfrc) PB_TRY(add_input(r, set, "xfrc", 3, (size_t[]){0, r->nbody, 6}, in->xfrc));
  if (in->command) PB_TRY(add_input(r, set, "command", 2, (size_t[]){0, r->ncommand}, in->command));
  if (in->mocap_pos) PB_TRY(add_input(r, set, "mocap_pos", 3, (size_t[]){0, nmocap, 3}, in->mocap_pos));
  if (in->mocap_quat) PB_TRY(add_input(r, set, "mocap_quat", 3, (size_t[]){0, nmocap, 4}, in->mocap_quat));
  if (in->mocap_vel) PB_TRY(add_input(r, set, "mocap_vel", 3, (size_t[]){0, nmocap, 6}, in->mocap_vel));
  if (in->mocap_pos_before)
    PB_TRY(pbArrays_AddReals(set, "mocap_pos_before", 2, (size_t[]){nmocap, 3}, in->mocap_pos_before, NULL));
  if (in->mocap_quat_before)
    PB_TRY(pbArrays_AddReals(set, "mocap_quat_before", 2, (size_t[]){nmocap, 4}, in->mocap_quat_before, NULL));
  return pbArrays_AddReals(set, "sensordata", 2, (size_t[]){r->kept, r->nsensordata}, NULL, &r->sensordata);
}

static void record(const Recorder *r, const double *x, long k) {
  long row = row_of(r, k);
  if (row < 0) return;

  for (int i = 0; i < r->count; i++) {
    size_t size = (size_t)r->fields[i].size;
    if (size) memcpy(r->rows[i] + (size_t)row * size, x + r->fields[i].offset, size * sizeof *x);
  }
}

static const double *input_row(const double *rows, size_t row, size_t width) { return rows ? rows + row * width : NULL; }

static pbInput input_of(const Recorder *r, long k) {
  // the last state is observed with the input of the last step
  const pbRolloutInput *in = &r->s->input;
  size_t row = (size_t)(k < r->s->steps ? k : r->s->steps - 1);
  return (pbInput){.ctrl = input_row(in->ctrl, row, r->nu),
                   .qfrc = input_row(in->qfrc, row, r->nv),
                   .xfrc = input_row(in->xfrc, row, 6 * r->nbody),
                   .command = input_row(in->command, row, r->ncommand),
                   .mocap_pos = input_row(in->mocap_pos, row, 3 * r->nmocap),
                   .mocap_quat = input_row(in->mocap_quat, row, 4 * r->nmocap),
                   .mocap_vel = input_row(in->mocap_vel ? in->mocap_vel : r->rate, row, 6 * r->nmocap)};
}

static pbStatus step_failed(const Recorder *r, pbStatus status, long k) {
  const char *text = pbScratch_Error(r->scratch);
  return pbContext_Fail(r->ctx, status, "step %ld of %ld: %s", k, r->s->steps, *text ? text : pbStatus_Text(status));
}

pbStatus pbSimulation_Check(pbContext *ctx, const pbSimulation *s, const double *x, long k) {
  // MuJoCo's mjMAXVAL: beyond it a state counts as lost
  static const double bound = 1e10;
  char name[160];
  for (int i = 0; i < pbModel_StateSize(s->model); i++) {
    if (fabs(x[i]) <= bound) continue;
    return pbContext_Fail(
        ctx, pb_not_finite,
        "step %ld of %ld: %s became %g: the state grows beyond bounds (unstable motion; try a smaller time step or more damping)",
        k, s->steps, pbState_EntryName(s->model, i, name, sizeof name), x[i]);
  }
  return pb_ok;
}

// ---- going on ---------------------------------------------------------------------------------------------------------
// Rows of states that are recorded before step k is made.
static size_t rows_before(const Recorder *r, long k) { return k ? (size_t)((k - 1) / r->every) + 1 : 0; }

static size_t width_of(const Recorder *r, int i) { return i < r->count ? (size_t)r->fields[i].size : r->nsensordata; }

static double *rows_of(const Recorder *r, int i) { return i < r->count ? r->rows[i] : r->sensordata; }

static const char *name_of(const Recorder *r, int i, char *text, size_t size) {
  snprintf(text, size, "rows/%s", i < r->count ? r->fields[i].name : "sensordata");
  return text;
}

// The state before step k, and all rows so far.
static pbStatus leave(const Recorder *r, const pbStepNotes *notes, long k) {
  pbArrays *set = r->s->left;
  size_t one = 1, nx = (size_t)pbModel_StateSize(r->s->model), rows = rows_before(r, k);
  double at = (double)k;
  char name[160];
  if (!set) return pb_ok;

  // what the next step follows from
  PB_TRY(pbArrays_AddReals(set, "step", 1, &one, &at, NULL));
  PB_TRY(pbArrays_AddReals(set, "state", 1, &nx, r->x, NULL));
  PB_TRY(pbStepNotes_Keep(notes, set));

  // what the steps so far have given
  for (int i = 0; i <= r->count; i++) {
    size_t shape[2] = {rows, width_of(r, i)};
    PB_TRY(pbArrays_AddReals(set, name_of(r, i, name, sizeof name), 2, shape, rows_of(r, i), NULL));
  }
  return pb_ok;
}

// The step to go on with; nothing is taken of what does not fit.
static pbStatus take_up(const Recorder *r, pbStepNotes *notes, long *k) {
  const pbArrays *set = r->s->from;
  size_t nx = (size_t)pbModel_StateSize(r->s->model);
  char name[160];
  *k = 0;
  if (!set) return pb_ok;

  // all of it is there, and as long as this run has it
  const double *step = pbArrays_Reals(set, "step", 1), *x = pbArrays_Reals(set, "state", nx);
  bool fits = step && x && *step >= 0 && *step < (double)r->s->steps && pbStepNotes_Restore(notes, set) &&
              pbStepNotes_Fit(notes, r->s->model);

  size_t rows = fits ? rows_before(r, (long)*step) : 0;
  for (int i = 0; fits && i <= r->count; i++)
    fits = pbArrays_Reals(set, name_of(r, i, name, sizeof name), rows * width_of(r, i)) != NULL;
  if (!fits) return pbContext_Fail(r->ctx, pb_bad_input, "simulation: what is to be gone on with is of another one");

  *k = (long)*step;
  memcpy(r->x, x, nx * sizeof *x);
  for (int i = 0; i <= r->count; i++) {
    size_t numbers = rows * width_of(r, i);
    if (numbers) memcpy(rows_of(r, i), pbArrays_Reals(set, name_of(r, i, name, sizeof name), numbers), numbers * sizeof *x);
  }
  return pb_ok;
}

// ---- steps ------------------------------------------------------------------------------------------------------------
static pbStatus run_steps(const Recorder *r, pbStepNotes *notes) {
  const pbSimulation *s = r->s;
  pbTicker ticker = pbTicker_Begin("simulate", s->progress, s->user);
  long k = 0;
  PB_TRY(take_up(r, notes, &k));

  for (; k < s->steps; k++) {
    if (pbTicker_Stops(&ticker, k, s->steps)) {
      PB_TRY(leave(r, notes, k));
      return pbContext_Fail(r->ctx, pb_interrupted, "interrupted at step %ld of %ld", k, s->steps);
    }
    record(r, r->x, k);
    pbInput input = input_of(r, k);

    // scratch grows with the number of contacts: the step is made again then
    pbStatus status;
    do {
      status = pbStep_Forward(s->model, s->theta, r->x, &input, r->scratch, sensors_of(r, k));
    } while (pbScratch_Grow(r->scratch, &status));
    if (status != pb_ok) return step_failed(r, status, k);

    pbStepNotes_Add(notes, r->scratch, k);
    PB_TRY(pbSimulation_Check(r->ctx, s, r->x, k));
  }

  // the last state is observed with the last input, for its sensors
  record(r, r->x, s->steps);
  pbInput input = input_of(r, s->steps);
  pbStatus status = pbStep_Observe(s->model, s->theta, r->x, &input, r->scratch, sensors_of(r, s->steps));
  if (status != pb_ok) return step_failed(r, status, s->steps);

  pbStepNotes_Add(notes, r->scratch, s->steps);
  return pb_ok;
}

static pbStatus add_meta(const Recorder *r, const pbStepNotes *notes, pbArrays *set) {
  pbDraft draft;
  char *text;
  PB_TRY(pbDraft_Begin(r->ctx, &draft));

  pbJson j = {.out = draft.stream, .compact = true};
  pbJson_Open(&j, NULL, '{');
  pbSimulation_Describe(r->ctx, r->s, notes, &j);
  if (r->every > 1) pbJson_Integer(&j, "every", r->every);
  pbJson_Close(&j, '}');

  PB_TRY(pbDraft_End(&draft, &text, NULL));
  pbStatus status = pbArrays_AddText(set, "meta", text);
  pbContext_Free(r->ctx, text);
  return status;
}

pbStatus pbSimulation_Rates(pbContext *ctx, const pbSimulation *s, double *rate) {
  const pbRolloutInput *in = &s->input;
  size_t n = size_of(s->model, "nmocap");
  const double *pos = in->mocap_pos_before ? in->mocap_pos_before : in->mocap_pos;
  const double *quat = in->mocap_quat_before ? in->mocap_quat_before : in->mocap_quat;
  char text[500];

  for (size_t k = 0; k < (size_t)s->steps; k++) {
    const double *to[2] = {input_row(in->mocap_pos, k, 3 * n), input_row(in->mocap_quat, k, 4 * n)};
    pbStatus status = pbModel_MocapVelocity(ctx, s->model, s->theta, pos, quat, to[0], to[1], rate + k * 6 * n);
    if (status != pb_ok) {
      snprintf(text, sizeof text, "%s", pbContext_Error(ctx));
      return pbContext_Fail(ctx, status, "step %zu of %ld: %s", k, s->steps, text);
    }
    pos = to[0];  // NULL: the model's
    quat = to[1];
  }
  return pb_ok;
}

static pbStatus make_rates(Recorder *r) {
  const pbRolloutInput *in = &r->s->input;
  bool led = in->mocap_pos || in->mocap_quat || in->mocap_pos_before || in->mocap_quat_before;
  if (in->mocap_vel || !led) return pb_ok;
  r->rate = pbContext_Alloc(r->ctx, (size_t)r->s->steps * 6 * r->nmocap * sizeof *r->rate);
  return r->rate ? pbSimulation_Rates(r->ctx, r->s, r->rate) : pbContext_Fail(r->ctx, pb_no_memory, "out of memory");
}

static pbStatus simulate(Recorder *r, pbArrays *set, pbStepNotes *notes) {
  PB_TRY(make_rates(r));
  PB_TRY(make_recorder(set, r));
  PB_TRY(pbScratch_Create(r->ctx, r->s->model, NULL, &r->scratch));
  PB_TRY(run_steps(r, notes));
  return add_meta(r, notes, set);
}

pbStatus pbSimulation_Run(pbContext *ctx, const pbSimulation *s, pbArrays *set, pbStepNotes *notes) {
  Recorder r = recorder_of(ctx, s);
  *notes = pbStepNotes_None();
  if (s->steps < 1) return pbContext_Fail(ctx, pb_bad_argument, "simulation: %ld steps; expected 1 or more", s->steps);
  if (s->input.constant)
    return pbContext_Fail(ctx, pb_bad_argument, "simulation: constant inputs; expected a row for each of the %ld steps",
                          s->steps);

  // the caller keeps the initial state: steps are made in a copy
  size_t bytes = (size_t)pbModel_StateSize(s->model) * sizeof *r.x;
  r.x = pbContext_Alloc(ctx, bytes);
  if (!r.x) return pbContext_Fail(ctx, pb_no_memory, "out of memory");
  memcpy(r.x, s->x0, bytes);

  pbStatus status = simulate(&r, set, notes);
  pbScratch_Destroy(r.scratch);
  pbContext_Free(ctx, r.rate);
  pbContext_Free(ctx, r.x);
  return status;
}
