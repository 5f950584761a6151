// pullback gradient: the pullback of cotangents, or of a task's loss, through a rollout.
// Tests: tests/oracle/test_cli.py, tests/oracle/test_going_on.py.
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gradient.h"
#include "worlds.h"

enum { BAR_COUNT = 8, DEFAULT_MEMORY_MIB = 1024 };
// What can be asked for beside parameters; the order of `wanted`.
static const char *const state_names[CLI_GRADIENT_STATES] = {
    "qpos", "qvel", "act", "points", "point_velocity", "control", "qfrc", "xfrc", "mocap_pos", "mocap_rot", "mocap_vel"};
enum {
  want_qpos,
  want_qvel,
  want_act,
  want_points,
  want_point_velocity,
  want_control,
  want_qfrc,
  want_xfrc,
  want_mocap_pos,
  want_mocap_rot,
  want_mocap_vel
};

// ---- what is wanted ------------------------------------------------------------------------------------------------

static pbStatus unknown_wanted(const cliGradient *g, const char *name) {
  enum { MOST = 512 };
  const char *names[MOST];
  int n = 0;

  // parameters are names, too
  for (int i = 0; i < CLI_GRADIENT_STATES; i++) names[n++] = state_names[i];
  for (int i = 0; i < pbModel_ParamCount(g->run->model) && n < MOST; i++) names[n++] = pbModel_ParamAt(g->run->model, i).name;

  const char *near = pbName_Nearest(name, names, n);
  return pbContext_Fail(
      g->run->ctx, pb_bad_argument, "--wrt: unknown name '%s'%s%s%s", name, near ? "; did you mean '" : "", near ? near : "",
      near ? "'?"
           : " (qpos, qvel, act, points, point_velocity, control, qfrc, xfrc, mocap_pos, mocap_rot, mocap_vel, param, or "
             "a parameter)");
}

static pbStatus add_slice(cliGradient *g, const char *name, const pbParam *param) {
  // one named twice is written once
  for (int i = 0; i < g->slice_count; i++) {
    if (strcmp(g->slices[i].name, name) == 0) return pb_ok;
  }

  cliSlice *grown = pbContext_Resize(g->run->ctx, g->slices, ((size_t)g->slice_count + 1) * sizeof *grown);
  if (!grown) return cli_noMemory(g->run->ctx);
  g->slices = grown;

  cliSlice *s = &g->slices[g->slice_count++];
  *s = (cliSlice){.part = strchr(name, ':') != NULL, .param = *param};
  snprintf(s->name, sizeof s->name, "%s", name);
  return pb_ok;
}

// Do the constants that are recomputed write all of it?
static bool follows(const cliRun *run, const pbParam *param) {
  size_t count = (size_t)param->rows * (size_t)param->cols, written = 0;
  for (size_t i = 0; i < count; i++) written += pbModel_Follows(run->model, param->offset + i);
  return run->recompute && (param->derived || (count && written == count));
}

static pbStatus want_parameter(cliGradient *g, const char *name) {
  pbParam param;
  bool part = strchr(name, ':') != NULL;
  pbStatus status = pbModel_Param(g->run->ctx, g->run->model, name, &param);
  if (status != pb_ok) return part ? status : unknown_wanted(g, name);

  if (follows(g->run, &param)) {
    return pbContext_Fail(g->run->ctx, pb_bad_argument, "--wrt: '%s' follows from other parameters with --constants recompute",
                          name);
  }

  return add_slice(g, name, &param);
}

static pbStatus want_all_parameters(cliGradient *g) {
  for (int i = 0; i < pbModel_ParamCount(g->run->model); i++) {
    pbParam param = pbModel_ParamAt(g->run->model, i);

    // a recomputed constant passes its gradient on to what it follows from
    if (!(g->run->recompute && param.derived)) PB_TRY(add_slice(g, param.name, &param));
  }
  return pb_ok;
}

static pbStatus want_name(cliGradient *g, const char *name) {
  if (strcmp(name, "param") == 0) return want_all_parameters(g);

  for (int i = 0; i < CLI_GRADIENT_STATES; i++) {
    if (strcmp(name, state_names[i]) != 0) continue;
    g->wanted[i] = true;
    return pb_ok;
  }

  // also by the name that its array has in the file of a gradient
  return want_parameter(g, strncmp(name, "param/", 6) == 0 ? name + 6 : name);
}

static pbStatus read_wanted(cliGradient *g) {
  const cliRun *run = g->run;
  const char *text = run->app->args.text[opt_wrt];

  // everything that the run has
  if (!text) {
    for (int i = 0; i < CLI_GRADIENT_STATES; i++) g->wanted[i] = true;
    g->wanted[want_points] = g->wanted[want_point_velocity] = pbModel_PointCount(run->model) > 0;
    g->wanted[want_qfrc] = run->qfrc != NULL;
    g->wanted[want_xfrc] = run->xfrc != NULL;
    g->wanted[want_mocap_pos] = g->wanted[want_mocap_rot] = run->nmocap > 0;
    g->wanted[want_mocap_vel] = run->mocap_vel != NULL;
    return want_all_parameters(g);
  }

  for (const char *at = text;; at++) {
    char name[240];
    at += strspn(at, " ");
    size_t n = strcspn(at, ",");
    if (!n || n >= sizeof name) return pbContext_Fail(run->ctx, pb_bad_argument, "--wrt: '%.80s' is not a list of names", text);

    memcpy(name, at, n);
    name[n] = 0;
    PB_TRY(want_name(g, name));
    at += n;
    if (!*at) return pb_ok;
  }
}

// ---- cotangents ----------------------------------------------------------------------------------------------------

typedef struct Bar {
  const char *name;
  pbCotangent *cotangent;
  int ndim;  // for one state
  size_t shape[2];
} Bar;

// Those of points may be (n, 3) as well as (3 n,).
static bool triples(const Bar *b) { return strncmp(b->name, "point", 5) == 0; }

static pbStatus wrong_shape(const cliGradient *g, const char *file, const Bar *b, const pbArray *a) {
  char given[200], inner[48], more[96] = "";
  snprintf(inner, sizeof inner, b->ndim == 1 ? "%zu" : "%zu, %zu", b->shape[0], b->shape[1]);
  if (triples(b))
    snprintf(more, sizeof more, " (or (%zu, 3), with %ld in front for every state)", b->shape[0] / 3, g->run->steps + 1);

  // the common mistake: a cotangent as long as qpos
  bool ambient =
      strcmp(b->name, "qpos") == 0 && a->ndim && g->run->nq != g->run->nv && a->shape[a->ndim - 1] == (size_t)g->run->nq;
  const char *advice = ambient ? " (cotangents of positions are in the tangent space: nv, not nq)" : "";
  return pbContext_Fail(
      g->run->ctx, pb_bad_input, "%s: '%s' %s; expected (%s%s) for the last state or (%ld, %s) for every state%s%s", file,
      b->name, pbArray_What(a, given, sizeof given), inner, b->ndim == 1 ? "," : "", g->run->steps + 1, inner, more, advice);
}

// Whether an array has this shape, or this one for every state.
static bool fits(const cliGradient *g, const pbArray *a, int ndim, const size_t *shape) {
  if (a->type != pb_arrayReal || (a->ndim != ndim && a->ndim != ndim + 1)) return false;

  for (int i = 0; i < ndim; i++) {
    if (a->shape[a->ndim - ndim + i] != shape[i]) return false;
  }

  return a->ndim == ndim || a->shape[0] == (size_t)g->run->steps + 1;
}

static pbStatus read_bar(const cliGradient *g, const char *file, const Bar *b, const pbArray *a) {
  const size_t by_point[2] = {b->shape[0] / 3, 3};
  bool flat = fits(g, a, b->ndim, b->shape);
  int ndim = flat ? b->ndim : 2;
  if (!flat && !(triples(b) && fits(g, a, ndim, by_point))) return wrong_shape(g, file, b, a);

  PB_TRY(pbArray_CheckFinite(g->run->ctx, a, file));
  if (!a->count) return pb_ok;

  *b->cotangent = (pbCotangent){.data = a->reals, .count = a->ndim == ndim ? 1 : (int)a->shape[0]};
  return pb_ok;
}

// An array that is no cotangent: only meta may be there.
static pbStatus pass_over(const cliGradient *g, const char *file, const char *const *names, const pbArray *a) {
  if (strcmp(a->name, "meta") == 0) return pb_ok;
  if (!*a->name)
    return pbContext_Fail(g->run->ctx, pb_bad_input,
                          "%s: expected an NPZ file with qpos, qvel, ..., found one array without a name", file);

  const char *near = pbName_Nearest(a->name, names, BAR_COUNT);
  return pbContext_Fail(g->run->ctx, pb_bad_input,
                        "%s: unknown array '%.80s'%s%s%s (qpos, qvel, act, points, point_velocity, sensordata, xpos, site_xpos)",
                        file, a->name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static pbStatus read_cotangents(cliGradient *g) {
  const cliRun *run = g->run;
  const char *file = run->app->args.text[opt_cotangent];
  size_t nv = (size_t)run->nv, na = (size_t)run->na, ns = (size_t)run->nsensordata;
  size_t np = 3 * (size_t)pbModel_PointCount(run->model);
  const Bar bars[BAR_COUNT] = {{"qpos", &g->bar.qpos, 1, {nv}},
                               {"qvel", &g->bar.qvel, 1, {nv}},
                               {"act", &g->bar.act, 1, {na}},
                               {"points", &g->bar.points, 1, {np}},
                               {"point_velocity", &g->bar.point_velocity, 1, {np}},
                               {"sensordata", &g->bar.sensordata, 1, {ns}},
                               {"xpos", &g->bar.xpos, 2, {(size_t)run->nbody, 3}},
                               {"site_xpos", &g->bar.site_xpos, 2, {(size_t)run->nsite, 3}}};
  const char *names[BAR_COUNT];
  for (int i = 0; i < BAR_COUNT; i++) names[i] = bars[i].name;

  // every array is one of these, or meta
  PB_TRY(pbArrays_Load(run->ctx, file, &g->cotangents));
  int used = 0;
  for (size_t k = 0; k < pbArrays_Count(g->cotangents); k++) {
    const pbArray *a = pbArrays_At(g->cotangents, k);
    int i = 0;
    while (i < BAR_COUNT && strcmp(a->name, names[i]) != 0) i++;
    if (i == BAR_COUNT) {
      PB_TRY(pass_over(g, file, names, a));
      continue;
    }
    PB_TRY(read_bar(g, file, &bars[i], a));
    used++;
  }

  if (used) return pb_ok;
  return pbContext_Fail(
      run->ctx, pb_bad_input,
      "%s: holds no cotangent; expected at least one of qpos, qvel, act, points, point_velocity, sensordata, xpos, site_xpos",
      file);
}

// ---- memory --------------------------------------------------------------------------------------------------------

static pbStatus read_memory(cliApp *app, size_t *bytes) {
  static const struct {
    const char *suffix;
    double factor;
  } units[] = {{"", 1},     {"B", 1},      {"kB", 1e3},      {"KB", 1e3},        {"MB", 1e6},
               {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
  const char *text = app->args.text[opt_memory], *end = NULL;
  *bytes = (size_t)DEFAULT_MEMORY_MIB << 20;
  if (!text) return pb_ok;

  // a number with a unit right behind it
  double value = 0;
  size_t count = cli_number(text, &end, &value) ? sizeof units / sizeof *units : 0;
  for (size_t i = 0; i < count; i++) {
    double size = value * units[i].factor;
    if (strcmp(end, units[i].suffix) != 0 || size < 1 || size > 1e18) continue;
    *bytes = (size_t)size;
    return pb_ok;
  }
  return pbContext_Fail(app->ctx, pb_bad_argument, "--memory: expected a size such as 200MiB, found '%.40s'", text);
}

static void print_plan(const cliApp *app, const pbRolloutPlan *plan) {
  cliProgress probe;
  cliProgress_Begin(&probe, app, "");

  // said where progress is shown, or where a budget was asked for
  if (!probe.on && (!app->args.text[opt_memory] || app->args.text[opt_quiet])) return;

  fprintf(cli_err, "tape: %.3g MiB for %d steps, %.3g MiB held with cached evaluations, %.2f times the forward steps\n",
          (double)plan->full_bytes / 1048576, plan->steps, (double)plan->planned_bytes / 1048576,
          (double)plan->forward_steps / (plan->steps ? plan->steps : 1));
}

static int show_progress(void *user, const pbProgress *p) {
  cliProgress *progress = user;
  progress->what = p->phase;
  cliProgress_Show(progress, (double)p->done, (double)p->total, NULL);
  return cliSignals_Caught();
}

// ---- the gradient --------------------------------------------------------------------------------------------------

// Where the gradient of an input goes: straight into the set, `rows` things of `width` numbers a step (0: numbers alone). Several
// trajectories get an axis of their own, with zeros beyond the last step of shorter ones.
static pbStatus add_input(const cliGradient *g, pbArrays *set, int which, int rows, int width, double **memory) {
  size_t shape[4] = {(size_t)g->count, (size_t)g->most_steps, (size_t)(rows ? rows : width), (size_t)width};
  int one = g->count == 1;
  *memory = NULL;

  if (!g->wanted[which]) return pb_ok;
  return pbArrays_AddReals(set, state_names[which], (rows ? 4 : 3) - one, shape + one, NULL, memory);
}

static pbStatus pull_back(cliGradient *g, const pbRolloutGradient *out) {
  const cliRun *run = g->run;
  pbRolloutInput input = cliRun_Inputs(run);
  long seed = 0;

  PB_TRY(cliArgs_Integer(run->app, opt_seed, 0, LONG_MAX, 0, &seed));
  pbVjpOptions options = g->truncation;
  options.spot_check = g->check;
  options.seed = (uint64_t)seed;
  pbRollout_KeepPulled(g->rollout, &g->pulled);

  // pulled back in an earlier run: what comes after it needs its motion
  if (g->whole) return pbRollout_Forward(g->rollout, run->theta, run->x0, &input, NULL);

  if (g->loss) {
    return pbLoss_Gradient(g->loss, g->rollout, run->theta, run->x0, &input, &options, &g->loss_value, out, &g->certificate);
  }

  PB_TRY(pbRollout_Forward(g->rollout, run->theta, run->x0, &input, NULL));
  return pbRollout_Vjp(g->rollout, &g->bar, &options, out, &g->certificate);
}

// Restricts the pullback to the fields of --wrt.
static pbStatus choose_parameters(const cliGradient *g) {
  const cliRun *run = g->run;
  const char **names = pbContext_Alloc(run->ctx, (size_t)(g->slice_count + 1) * sizeof *names);
  if (!names) return cli_noMemory(run->ctx);

  for (int i = 0; i < g->slice_count; i++) names[i] = g->slices[i].param.name;
  pbStatus status = pbRollout_WantParameters(g->rollout, names, g->slice_count, run->recompute);
  pbContext_Free(run->ctx, names);
  return status;
}

// The gradient of trajectory t (the run's present one), added to the sums; `all` has the inputs of the first.
static pbStatus one_trajectory(cliGradient *g, int t, const pbRolloutGradient *all, cliProgress *progress) {
  cliRun *run = g->run;
  const char *const *text = run->app->args.text;
  size_t budget = 0;
  PB_TRY(read_memory(run->app, &budget));

  // a loss of its own for each: targets and terms may differ
  if (text[opt_loss]) {
    PB_TRY(pbLoss_Load(run->ctx, text[opt_loss], text[opt_allow_root], run->model, run->trajectory, (int)run->steps, run->theta,
                       &g->loss));
  }

  PB_TRY(pbRollout_Plan(run->ctx, run->model, (int)run->steps, budget, &g->plan));
  if (t == 0) print_plan(run->app, &g->plan);
  PB_TRY(pbRollout_Create(run->ctx, run->model, &g->plan, NULL, &g->rollout));
  PB_TRY(pbRollout_SetGradient(g->rollout, g->mode));
  PB_TRY(choose_parameters(g));
  pbRollout_OnProgress(g->rollout, show_progress, progress);

  // rows of this trajectory in the arrays of all; theta's gradient is their sum
  size_t row = (size_t)t * (size_t)g->most_steps;
  pbRolloutGradient out = {.x0 = g->x0 + (size_t)t * (size_t)run->nt, .theta = g->theta};
  if (all->ctrl) out.ctrl = all->ctrl + row * (size_t)run->nu;
  if (all->qfrc) out.qfrc = all->qfrc + row * (size_t)run->nv;
  if (all->xfrc) out.xfrc = all->xfrc + row * 6 * (size_t)run->nbody;
  if (all->mocap_pos) out.mocap_pos = all->mocap_pos + row * 3 * (size_t)run->nmocap;
  if (all->mocap_rot) out.mocap_rot = all->mocap_rot + row * 3 * (size_t)run->nmocap;

  if (all->mocap_vel) out.mocap_vel = all->mocap_vel + row * 6 * (size_t)run->nmocap;

  PB_TRY(pull_back(g, &out));
  if (!g->whole) {
    g->certificates[t] = g->certificate;
    g->losses[t] = g->loss_value;
    g->whole = true;
    g->pulled.step = -1;
  }

  PB_TRY(cliNoise_Measure(g->rollout, &g->certificates[t], &g->noises[t]));
  g->whole = false;
  g->done = t + 1;

  pbLoss_Destroy(g->loss);
  pbRollout_Destroy(g->rollout);
  g->loss = NULL;
  g->rollout = NULL;
  return pb_ok;
}

// A trajectory that takes no part in the fit adds nothing to the gradient of the loss.
static void leave_out(cliGradient *g, int t) {
  g->noises[t] = (pbNoise){.time = INFINITY, .step = -1, .window = INFINITY};
  g->done = t + 1;
}

static pbStatus all_trajectories(cliGradient *g, const pbRolloutGradient *all, cliProgress *progress) {
  for (int t = g->done; t < g->count; t++) {
    if (g->count > 1) PB_TRY(cliRun_Trajectory(g->run, t));
    if (g->count > 1 && pbTask_IsTest(g->run->task, t)) leave_out(g, t);
    else PB_TRY(one_trajectory(g, t, all, progress));
  }

  g->loss_value = 0;
  for (int t = 0; t < g->count; t++) g->loss_value += g->losses[t];
  return pb_ok;
}

// What is kept says which files it was made from: those of losses, too, which are read again when their turn comes.
static pbStatus read_losses(cliGradient *g) {
  cliRun *run = g->run;
  const char *const *text = run->app->args.text;
  int count = text[opt_loss] ? g->count : 0;
  for (int t = 0; t < count; t++) {
    if (g->count > 1) PB_TRY(cliRun_Trajectory(run, t));
    PB_TRY(pbLoss_Load(run->ctx, text[opt_loss], text[opt_allow_root], run->model, run->trajectory, (int)run->steps, run->theta,
                       &g->loss));
    pbLoss_Destroy(g->loss);
    g->loss = NULL;
  }
  return pb_ok;
}

static pbStatus compute_gradient(cliGradient *g, pbArrays *set) {
  cliRun *run = g->run;
  size_t count = (size_t)g->count;

  // zeroed by the allocator: pullbacks add to what is there
  g->x0 = pbContext_Alloc(run->ctx, count * (size_t)run->nt * sizeof *g->x0);
  g->losses = pbContext_Alloc(run->ctx, count * sizeof *g->losses);
  g->certificates = pbContext_Alloc(run->ctx, count * sizeof *g->certificates);
  if (g->slice_count) g->theta = pbContext_Alloc(run->ctx, run->ntheta * sizeof *g->theta);
  g->noises = pbContext_Alloc(run->ctx, count * sizeof *g->noises);
  g->pulled = (pbPulled){.step = -1, .costate = pbContext_Alloc(run->ctx, ((size_t)run->nt + 1) * sizeof(double))};
  bool there = g->x0 && g->losses && g->certificates && g->noises && g->pulled.costate;
  if (!there || (g->slice_count && !g->theta)) return cli_noMemory(run->ctx);

  // inputs go straight into the arrays of the file
  pbRolloutGradient out = {0};
  PB_TRY(add_input(g, set, want_control, 0, run->nu, &out.ctrl));
  PB_TRY(add_input(g, set, want_qfrc, 0, run->nv, &out.qfrc));
  PB_TRY(add_input(g, set, want_xfrc, run->nbody, 6, &out.xfrc));
  PB_TRY(add_input(g, set, want_mocap_pos, run->nmocap, 3, &out.mocap_pos));
  PB_TRY(add_input(g, set, want_mocap_rot, run->nmocap, 3, &out.mocap_rot));
  PB_TRY(add_input(g, set, want_mocap_vel, run->nmocap, 6, &out.mocap_vel));

  PB_TRY(read_losses(g));
  PB_TRY(cliGradient_TakeUp(g, &out));

  cliProgress progress;
  cliProgress_Begin(&progress, run->app, "gradient");
  cliSignals_Defer();
  pbStatus status = all_trajectories(g, &out, &progress);
  cliProgress_End(&progress);
  if (status == pb_interrupted) {
    char said[600];
    snprintf(said, sizeof said, "%.500s (%s)", pbContext_Error(run->ctx), progress.what);
    return cliGradient_Leave(g, &out, said);
  }
  cliSignals_Undefer();
  PB_TRY(status);

  // from the parameters as they are used to those that were given: derived constants follow from others
  size_t said = strlen(pbContext_Warnings(run->ctx));
  if (run->recompute && g->theta) PB_TRY(pbModel_SetConstantsVjp(run->ctx, run->model, run->theta_before, g->theta));
  cliRun_Warn(pbContext_Warnings(run->ctx) + said);
  return pb_ok;
}

// ---- output --------------------------------------------------------------------------------------------------------

static pbStatus not_finite(const cliRun *run, const pbArray *a, size_t at) {
  char place[120] = "";
  size_t used = 0;

  // the index of the entry, row-major
  for (size_t d = 0, stride = a->count; d < (size_t)a->ndim && used < sizeof place - 24; d++) {
    stride /= a->shape[d];
    used += (size_t)snprintf(place + used, sizeof place - used, "%s%zu", d ? ", " : "[", at / stride % a->shape[d]);
  }

  return pbContext_Fail(
      run->ctx, pb_not_finite,
      "the gradient by %s%s%s is %s: some step has no finite derivative there (a length of zero under a root, or a "
      "parameter or an input of extreme size); --wrt leaves it out",
      a->name, place, used ? "]" : "", isnan(a->reals[at]) ? "NaN" : "infinite");
}

static pbStatus check_result(const cliRun *run, const pbArrays *set) {
  for (size_t i = 0; i < pbArrays_Count(set); i++) {
    const pbArray *a = pbArrays_At(set, i);
    for (size_t k = 0; a->type == pb_arrayReal && k < a->count; k++) {
      if (!isfinite(a->reals[k])) return not_finite(run, a, k);
    }
  }
  return pb_ok;
}

// Shape of some rows of a field: a single row or column is no dimension.
static int part_shape(const pbParam *param, size_t shape[2]) {
  int n = 0;
  if (param->rows > 1) shape[n++] = (size_t)param->rows;
  if (param->cols > 1) shape[n++] = (size_t)param->cols;
  return n;
}

// Part of the initial state's gradient; of several trajectories a row each.
static pbStatus add_state(const cliGradient *g, pbArrays *set, int which, size_t from, size_t width) {
  double *out = NULL;
  if (!g->wanted[which]) return pb_ok;

  size_t shape[2] = {(size_t)g->count, width}, rows = (size_t)g->count, nt = (size_t)g->run->nt;
  int one = g->count == 1;

  // a field of no size is written, too, as an empty array
  PB_TRY(pbArrays_AddReals(set, state_names[which], 2 - one, shape + one, NULL, &out));
  if (!width) return pb_ok;
  for (size_t t = 0; t < rows; t++) memcpy(out + t * width, g->x0 + t * nt + from, width * sizeof *out);
  return pb_ok;
}

static pbStatus add_results(const cliGradient *g, pbArrays *set) {
  const cliRun *run = g->run;
  size_t nv = (size_t)run->nv, na = (size_t)run->na, count = (size_t)g->count;
  size_t np = 3 * (size_t)pbModel_PointCount(run->model);
  bool loss = run->app->args.text[opt_loss] != NULL;

  PB_TRY(add_state(g, set, want_qpos, 0, nv));
  PB_TRY(add_state(g, set, want_qvel, nv, nv));
  PB_TRY(add_state(g, set, want_act, 2 * nv, na));
  PB_TRY(add_state(g, set, want_points, 2 * nv + na, np));
  PB_TRY(add_state(g, set, want_point_velocity, 2 * nv + na + np, np));

  if (loss && count > 1) PB_TRY(pbArrays_AddReals(set, "losses", 1, &count, g->losses, NULL));
  if (loss) PB_TRY(pbArrays_AddReals(set, "loss", 0, NULL, &g->loss_value, NULL));

  // parameters in the shape that MuJoCo's Python gives them
  for (int i = 0; i < g->slice_count; i++) {
    const cliSlice *s = &g->slices[i];
    char name[sizeof s->name + 8];
    size_t shape[2];
    int ndim = s->part ? part_shape(&s->param, shape) : pbParam_Shape(&s->param, shape);
    snprintf(name, sizeof name, "param/%s", s->name);
    PB_TRY(pbArrays_AddReals(set, name, ndim, shape, g->theta + s->param.offset, NULL));
  }
  return check_result(run, set);
}

static pbStatus read_check(cliGradient *g) {
  static const char *const names[] = {"none", "steps", "full"};
  const char *text = g->run->app->args.text[opt_spot_check];
  g->check = pb_checkSteps;
  if (!text) return pb_ok;
  if (strcmp(text, names[0]) == 0 && g->run->app->args.text[opt_seed])
    return pbContext_Fail(g->run->ctx, pb_bad_argument, "--seed draws the steps of the spot check, but --spot-check is none");

  for (int i = 0; i < 3; i++) {
    if (strcmp(text, names[i]) != 0) continue;
    g->check = (pbSpotCheck)i;
    return pb_ok;
  }

  const char *near = pbName_Nearest(text, names, 3);
  return pbContext_Fail(g->run->ctx, pb_bad_argument, "--spot-check: unknown kind '%.60s'%s%s%s (steps, full, none)", text,
                        near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

// What a task says of the costate's truncation, and the options over it.
static pbStatus read_truncation(cliGradient *g) {
  static const cliOptionId ids[] = {opt_decay, opt_window, opt_clip};
  const cliRun *run = g->run;
  if (run->task) g->truncation = pbTask_Truncation(run->task);
  double *const out[] = {&g->truncation.decay, &g->truncation.window, &g->truncation.clip};

  for (int i = 0; i < 3; i++) {
    const char *text = run->app->args.text[ids[i]], *end = NULL;
    if (!text || (cli_number(text, &end, out[i]) && !*end && *out[i] >= 0)) continue;
    return pbContext_Fail(run->ctx, pb_bad_argument, "--%s: expected a number >= 0 (0: none), found '%.40s'",
                          cliArgs_Name(ids[i]), text);
  }
  return pb_ok;
}

// For --strict: no gradient was found to be wrong, and every solve converged.
static bool is_sound(const cliGradient *g) {
  for (int t = 0; t < g->count; t++) {
    if (g->certificates[t].spot_off || g->certificates[t].unconverged) return false;
  }
  return true;
}

// Several trajectories are summed only as the task defines them.
static pbStatus count_trajectories(cliGradient *g) {
  static const cliOptionId single[] = {opt_cotangent, opt_init, opt_init_row, opt_keyframe, opt_control,
                                       opt_qfrc,      opt_xfrc, opt_command,  opt_mocap,    opt_steps};
  cliRun *run = g->run;
  g->count = run->trajectories > 1 ? run->trajectories : 1;
  g->most_steps = run->steps;
  if (g->count == 1) return pb_ok;

  for (int t = 0; t < g->count; t++) {
    if (pbTask_Steps(run->task, t) > g->most_steps) g->most_steps = pbTask_Steps(run->task, t);
  }

  // the options of a single run would mean something else for each trajectory
  for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
    if (!run->app->args.text[single[i]]) continue;
    return pbContext_Fail(run->ctx, pb_bad_argument, "--%s applies to one trajectory; %s has %d: choose one with --trajectory K",
                          cliArgs_Name(single[i]), run->model_path, g->count);
  }
  return pb_ok;
}

static pbStatus write_gradient(cliGradient *g, pbArrays *set) {
  cliRun *run = g->run;
  const char *const *text = run->app->args.text;
  PB_TRY(cliArgs_Mode(run->app, &g->mode));
  if (run->task && !text[opt_mode]) g->mode = pbTask_GradientKind(run->task);

  PB_TRY(count_trajectories(g));
  PB_TRY(read_truncation(g));
  PB_TRY(read_check(g));
  PB_TRY(read_wanted(g));
  if (text[opt_cotangent]) PB_TRY(read_cotangents(g));

  PB_TRY(compute_gradient(g, set));
  for (int t = 0; t < g->count; t++) cliGradient_Warn(g, t);

  PB_TRY(add_results(g, set));
  PB_TRY(cliGradient_AddMeta(g, set));
  PB_TRY(cli_save(run->app, set));
  return text[opt_strict] && !is_sound(g) ? pb_check_failed : pb_ok;
}

pbStatus cliGradient_Run(cliApp *app) {
  const char *const *text = app->args.text;
  if (!text[opt_cotangent] == !text[opt_loss]) {
    return pbContext_Fail(app->ctx, pb_bad_argument, "expected one of --cotangent COT.npz and --loss TASK.json");
  }

  cliRun run = {0};
  cliGradient g = {.run = &run};
  pbArrays *set = NULL;

  pbStatus status = cliKept_Begin(app, &g.kept);
  if (status == pb_ok) status = cliRun_Begin(app, 1, &run);
  if (status == pb_ok && text[opt_worlds]) {
    // what a run of one world has left is not passed over
    status = cliKept_Load(&g.kept);
    if (status == pb_ok) status = cliWorlds_Gradient(&run);
  } else if (status == pb_ok) {
    status = pbArrays_Create(app->ctx, &set);
    if (status == pb_ok) status = write_gradient(&g, set);
  }
  status = cliKept_End(&g.kept, status);

  // all of these may be NULL
  pbLoss_Destroy(g.loss);
  pbRollout_Destroy(g.rollout);
  pbArrays_Destroy(g.cotangents);
  pbArrays_Destroy(set);
  pbContext_Free(app->ctx, g.slices);
  pbContext_Free(app->ctx, g.x0);
  pbContext_Free(app->ctx, g.losses);
  pbContext_Free(app->ctx, g.certificates);
  pbContext_Free(app->ctx, g.noises);
  pbContext_Free(app->ctx, g.pulled.costate);
  pbContext_Free(app->ctx, g.theta);
  cliRun_End(&run);
  return status;
}
