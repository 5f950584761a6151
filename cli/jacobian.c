// pullback jacobian: A, B, C, D of every step along a rollout.
// Tests: tests/oracle/test_cli.py, tests/oracle/test_going_on.py.
#include <math.h>
#include <string.h>

#include "kept.h"

typedef struct Matrices {
  double *a, *b, *c, *d;
  unsigned by;
  size_t columns;  // of b and d
} Matrices;

// --wrt: inputs that columns of B and D are by, in their own order; controls where nothing is said.
static const char *const input_names[] = {"control", "mocap_pos", "mocap_rot"};
enum { input_count = sizeof input_names / sizeof *input_names };

static pbStatus read_columns(const cliRun *run, Matrices *m) {
  const char *text = run->app->args.text[opt_wrt];
  const char *at = text ? text : "";
  m->by = text ? 0 : pb_byControl;

  // name by name, up to the end of the text
  while (*at) {
    size_t n = strcspn(at, ",");
    int i = 0;
    while (i < input_count && (strlen(input_names[i]) != n || strncmp(at, input_names[i], n) != 0)) i++;

    // none of the names
    if (i == input_count)
      return pbContext_Fail(run->ctx, pb_bad_argument, "--wrt: unknown name '%.*s' (control, mocap_pos, mocap_rot)",
                            n < 60 ? (int)n : 60, at);
    m->by |= 1u << i;
    at += n + (at[n] == ',');
  }

  m->columns = (size_t)pbModel_Columns(run->model, m->by);
  return pb_ok;
}

static pbStatus make_matrices(const cliRun *run, pbArrays *set, Matrices *m) {
  size_t steps = (size_t)run->steps, n = (size_t)run->nt, ns = (size_t)run->nsensordata;
  PB_TRY(read_columns(run, m));
  PB_TRY(pbArrays_AddReals(set, "A", 3, (size_t[]){steps, n, n}, NULL, &m->a));
  PB_TRY(pbArrays_AddReals(set, "B", 3, (size_t[]){steps, n, m->columns}, NULL, &m->b));
  PB_TRY(pbArrays_AddReals(set, "C", 3, (size_t[]){steps, ns, n}, NULL, &m->c));
  return pbArrays_AddReals(set, "D", 3, (size_t[]){steps, ns, m->columns}, NULL, &m->d);
}

static pbStatus jacobian_step(cliRun *run, const Matrices *m, double *x, double *before, double *record, long k) {
  size_t n = (size_t)run->nt, ns = (size_t)run->nsensordata, row = (size_t)k;
  pbInput input = cliRun_Input(run, k);

  memcpy(before, x, (size_t)run->nx * sizeof *x);

  // scratch grows with the number of contacts: the step is made again then
  pbStatus status;
  do {
    status = pbStep_Forward(run->model, run->theta, x, &input, run->scratch, NULL);
  } while (pbScratch_Grow(run->scratch, &status));
  PB_TRY(status);

  cliRun_NoteSolve(run, k);

  const pbJacobian out = {m->by, m->a + row * n * n, m->b + row * n * m->columns, m->c + row * ns * n,
                          m->d + row * ns * m->columns};

  // the Jacobians are those of the recorded step
  pbTape_Record(run->model, before, run->scratch, record);

  do {
    status = pbStep_JacobianBy(run->model, run->theta, record, &input, run->scratch, &out);
  } while (pbScratch_Grow(run->scratch, &status));
  return status;
}

// the last sensor that starts at or before the entry
static const char *sensor_name(const cliRun *run, size_t entry) {
  pbField address;
  int i = 0;
  if (!pbModel_Field(run->model, "sensor_adr", &address)) return "";

  while (i + 1 < address.rows && (size_t)address.integers[i + 1] <= entry) i++;
  return pbModel_Name(run->model, pb_objSensor, i);
}

static void name_column(const cliRun *run, const Matrices *m, int column, char *text, size_t size) {
  int before = 0;

  // the first input whose columns reach so far
  for (int i = 0; i < input_count; i++) {
    int here = pbModel_Columns(run->model, m->by & 1u << i);
    if (column < before + here) {
      const char *name = i ? "" : pbModel_Name(run->model, pb_objActuator, column);
      snprintf(text, size, *name ? "%s[%d] (actuator '%.100s')" : "%s[%d]", input_names[i], column - before, name);
      return;
    }
    before += here;
  }
}

// Refuses a matrix with an entry that is not finite: which one, of what by what.
static pbStatus check_matrix(const cliRun *run, const Matrices *m, char letter, const double *values, size_t rows, size_t cols,
                             long k) {
  char of[160], by[160];
  for (size_t i = 0; i < rows * cols; i++) {
    if (isfinite(values[i])) continue;

    // rows of A and B are the state's, of C and D the sensors'
    size_t row = i / cols, col = i % cols;
    if (letter < 'C') pbState_TangentName(run->model, (int)row, of, sizeof of);
    else snprintf(of, sizeof of, "sensordata[%zu] (sensor '%.100s')", row, sensor_name(run, row));

    if (letter == 'A' || letter == 'C') pbState_TangentName(run->model, (int)col, by, sizeof by);
    else name_column(run, m, (int)col, by, sizeof by);

    return pbContext_Fail(
        run->ctx, pb_not_finite,
        "step %ld of %ld: %c[%zu, %zu], the derivative of %s by %s, is %s: this step has no finite derivative there "
        "(a length of zero under a root, or a parameter or an input of extreme size)",
        k, run->steps, letter, row, col, of, by, isnan(values[i]) ? "NaN" : "infinite");
  }
  return pb_ok;
}

static pbStatus check_step(const cliRun *run, const Matrices *m, const double *x, long k) {
  size_t n = (size_t)run->nt, nu = m->columns, ns = (size_t)run->nsensordata, row = (size_t)k;
  PB_TRY(cliRun_CheckState(run, x, k));
  PB_TRY(check_matrix(run, m, 'A', m->a + row * n * n, n, n, k));
  PB_TRY(check_matrix(run, m, 'B', m->b + row * n * nu, n, nu, k));
  PB_TRY(check_matrix(run, m, 'C', m->c + row * ns * n, ns, n, k));
  return check_matrix(run, m, 'D', m->d + row * ns * nu, ns, nu, k);
}

static pbStatus add_meta(const cliRun *run, const Matrices *m, pbArrays *set) {
  pbDraft draft;
  PB_TRY(pbDraft_Begin(run->ctx, &draft));
  pbJson j = {.out = draft.stream, .compact = true};

  pbJson_Open(&j, NULL, '{');
  cliRun_Meta(run, &j);
  pbJson_Text(&j, "order", "dq (nv, tangent space), dv (nv), dact (na)");
  pbJson_OpenLine(&j, "columns", '[');
  for (int i = 0; i < input_count; i++) {
    if (m->by >> i & 1) pbJson_Text(&j, NULL, input_names[i]);
  }
  pbJson_Close(&j, ']');
  pbJson_Close(&j, '}');
  return cliRun_AddMeta(set, &draft);
}

// ---- going on ------------------------------------------------------------------------------------------------------
typedef struct Kept {  // the matrices by name
  const char *name;
  double *data;
  size_t rows, cols;
} Kept;

static void name_matrices(const cliRun *run, const Matrices *m, Kept kept[4]) {
  size_t n = (size_t)run->nt, ns = (size_t)run->nsensordata;
  const Kept all[4] = {{"A", m->a, n, n}, {"B", m->b, n, m->columns}, {"C", m->c, ns, n}, {"D", m->d, ns, m->columns}};
  memcpy(kept, all, sizeof all);
}

// Matrices of the steps before k, and the state that they led to.
static pbStatus leave(const cliRun *run, cliKept *going, const Matrices *m, const double *x, long k) {
  Kept kept[4];
  double at = (double)k;
  size_t one = 1, nx = (size_t)run->nx;
  name_matrices(run, m, kept);

  PB_TRY(pbArrays_Create(run->ctx, &going->left));

  PB_TRY(pbArrays_AddReals(going->left, "step", 1, &one, &at, NULL));
  PB_TRY(pbArrays_AddReals(going->left, "state", 1, &nx, x, NULL));
  PB_TRY(pbStepNotes_Keep(&run->notes, going->left));

  // rows of steps to come are left out
  for (int i = 0; i < 4; i++) {
    size_t shape[3] = {(size_t)k, kept[i].rows, kept[i].cols};
    PB_TRY(pbArrays_AddReals(going->left, kept[i].name, 3, shape, kept[i].data, NULL));
  }
  char said[80];
  snprintf(said, sizeof said, "interrupted at step %ld of %ld", k, run->steps);
  return cliKept_Save(going, said);
}

static pbStatus take_up(cliRun *run, const cliKept *going, const Matrices *m, double *x, long *k) {
  Kept kept[4];
  *k = 0;
  if (!going->from) return pb_ok;
  name_matrices(run, m, kept);

  const double *step = pbArrays_Reals(going->from, "step", 1), *state = pbArrays_Reals(going->from, "state", (size_t)run->nx);
  bool fits = step && state && *step >= 0 && *step < (double)run->steps && pbStepNotes_Restore(&run->notes, going->from) &&
              pbStepNotes_Fit(&run->notes, run->model);
  size_t done = fits ? (size_t)*step : 0;
  for (int i = 0; fits && i < 4; i++) {
    size_t numbers = done * kept[i].rows * kept[i].cols;
    const double *from = pbArrays_Reals(going->from, kept[i].name, numbers);
    if (from && numbers) memcpy(kept[i].data, from, numbers * sizeof *from);
    fits = from != NULL;
  }

  // nobody but a forger gets here
  if (!fits) return cliKept_Refuse(going);

  memcpy(x, state, (size_t)run->nx * sizeof *x);
  *k = (long)done;
  cliKept_SayStep(going, run->steps);
  return pb_ok;
}

// ---- the whole -----------------------------------------------------------------------------------------------------
static pbStatus write_jacobians(cliRun *run, cliKept *going, pbArrays *set, double *work) {
  Matrices m = {0};
  PB_TRY(make_matrices(run, set, &m));
  PB_TRY(pbScratch_Create(run->ctx, run->model, NULL, &run->scratch));

  double *x = work, *before = x + run->nx, *record = before + run->nx;
  memcpy(x, run->x0, (size_t)run->nx * sizeof *x);

  long k = 0;
  PB_TRY(take_up(run, going, &m, x, &k));

  cliProgress progress;
  cliProgress_Begin(&progress, run->app, "jacobian");
  cliSignals_Defer();
  pbStatus status = pb_ok;

  // every step from the state that the one before left in x
  for (; k < run->steps && status == pb_ok && !cliSignals_Caught(); k++) {
    status = jacobian_step(run, &m, x, before, record, k);
    status = status == pb_ok ? check_step(run, &m, x, k) : cliRun_StepFailed(run, status, k);
    cliProgress_Show(&progress, (double)k + 1, (double)run->steps, NULL);
  }
  cliProgress_End(&progress);

  PB_TRY(status);
  if (k < run->steps) return leave(run, going, &m, x, k);
  cliSignals_Undefer();
  cliRun_WarnSolver(run);
  PB_TRY(add_meta(run, &m, set));
  return cli_save(run->app, set);
}

pbStatus cliJacobian_Run(cliApp *app) {
  cliRun run = {0};
  pbArrays *set = NULL;
  double *work = NULL;
  cliKept kept;
  pbStatus status = cliKept_Begin(app, &kept);
  if (status == pb_ok) status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok) cliRun_FirstTrajectory(&run);
  if (status == pb_ok) status = cliKept_Load(&kept);
  if (status == pb_ok) status = pbArrays_Create(app->ctx, &set);

  if (status == pb_ok) {
    work = pbContext_Alloc(app->ctx, (2 * (size_t)run.nx + (size_t)pbTape_Size(run.model)) * sizeof *work);
    status = work ? write_jacobians(&run, &kept, set, work) : cli_noMemory(app->ctx);
  }

  pbContext_Free(app->ctx, work);
  pbArrays_Destroy(set);
  status = cliKept_End(&kept, status);
  cliRun_End(&run);
  return status;
}
