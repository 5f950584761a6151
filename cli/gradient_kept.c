// pullback gradient: what is done when it is interrupted, kept beside its output. The motion is run again, its tape is not kept.
// Tests: tests/oracle/test_going_on.py.
#include <math.h>
#include <string.h>

#include "gradient.h"

enum { INPUTS = 6, NOISE = 7, FIRST = 64 };

// Gradients of a run that trajectories and steps add to.
typedef struct Sum {
  const char *name;
  double *data;
  size_t count;
} Sum;

// Those by inputs with rows for trajectories at their end, and for one that a pullback has begun on.
static void name_sums(const cliGradient *g, const pbRolloutGradient *all, Sum sums[INPUTS + 1]) {
  const cliRun *run = g->run;
  int begun = g->whole || g->pulled.step >= 0;
  size_t rows = (size_t)(g->done + begun) * (size_t)g->most_steps, mocap = (size_t)run->nmocap;
  const Sum named[INPUTS + 1] = {{"gradient/control", all->ctrl, rows * (size_t)run->nu},
                                 {"gradient/qfrc", all->qfrc, rows * (size_t)run->nv},
                                 {"gradient/xfrc", all->xfrc, rows * 6 * (size_t)run->nbody},
                                 {"gradient/mocap_pos", all->mocap_pos, rows * 3 * mocap},
                                 {"gradient/mocap_rot", all->mocap_rot, rows * 3 * mocap},
                                 {"gradient/mocap_vel", all->mocap_vel, rows * 6 * mocap},
                                 {"gradient/theta", g->theta, run->ntheta}};
  memcpy(sums, named, sizeof named);
}

static const char *name_at(const char *what, int t, char name[FIRST]) {
  snprintf(name, FIRST, "%s/%d", what, t);
  return name;
}

// ---- noise ----------------------------------------------------------------------------------------------------------
static pbStatus keep_noises(const cliGradient *g, pbArrays *set) {
  double *to;
  PB_TRY(pbArrays_AddReals(set, "noises", 2, (size_t[]){(size_t)g->done, NOISE}, NULL, &to));
  for (int t = 0; t < g->done; t++) {
    const pbNoise *n = &g->noises[t];
    const double numbers[NOISE] = {n->time, n->step, n->move, n->growth, n->unforeseen, n->window, n->contact};
    memcpy(to + t * NOISE, numbers, sizeof numbers);
  }
  return pb_ok;
}

static bool restore_noises(const cliGradient *g, const pbArrays *set) {
  const double *n = pbArrays_Reals(set, "noises", (size_t)g->done * NOISE);
  for (int t = 0; n && t < g->done; t++, n += NOISE) {
    if (!(n[1] >= -1 && n[1] <= (double)g->most_steps)) return false;
    g->noises[t] = (pbNoise){
        .time = n[0], .step = (int)n[1], .move = n[2], .growth = n[3], .unforeseen = n[4], .window = n[5], .contact = n[6] != 0};
  }
  return n != NULL;
}

// ---- all of it ------------------------------------------------------------------------------------------------------
static pbStatus keep(const cliGradient *g, const pbRolloutGradient *all, pbArrays *set) {
  const cliRun *run = g->run;
  const double at[2] = {g->done, g->whole};
  size_t pulled = (size_t)(g->done + g->whole), x0[2] = {pulled, (size_t)run->nt};
  char name[FIRST];
  Sum sums[INPUTS + 1];
  name_sums(g, all, sums);

  PB_TRY(pbArrays_AddReals(set, "trajectories", 1, (size_t[]){2}, at, NULL));
  PB_TRY(pbArrays_AddReals(set, "gradient/x0", 2, x0, g->x0, NULL));
  PB_TRY(pbArrays_AddReals(set, "losses", 1, &pulled, g->losses, NULL));
  for (int i = 0; i <= INPUTS; i++) {
    if (sums[i].data) PB_TRY(pbArrays_AddReals(set, sums[i].name, 1, &sums[i].count, sums[i].data, NULL));
  }

  // what is said of them, and of the one at hand
  PB_TRY(keep_noises(g, set));
  for (int t = 0; t < (int)pulled; t++) PB_TRY(pbCertificate_Keep(&g->certificates[t], name_at("certificates", t, name), set));
  return g->pulled.step >= 0 ? pbPulled_Keep(&g->pulled, run->nt, "pulled", set) : pb_ok;
}

static bool copy(const pbArrays *set, const char *name, size_t count, double *to) {
  const double *from = pbArrays_Reals(set, name, count);
  if (from && count) memcpy(to, from, count * sizeof *to);
  return from != NULL;
}

static long steps_of(const cliGradient *g, int t) { return g->count > 1 ? pbTask_Steps(g->run->task, t) : g->run->steps; }

// False where it is not all there, or not of such a run.
static bool restore(cliGradient *g, const pbRolloutGradient *all, const pbArrays *set) {
  const cliRun *run = g->run;
  const double *at = pbArrays_Reals(set, "trajectories", 2);
  char name[FIRST];
  Sum sums[INPUTS + 1];
  if (!at || !(at[0] >= 0 && at[0] < g->count)) return false;

  g->done = (int)at[0];
  g->whole = at[1] != 0;
  if (pbArrays_Find(set, "pulled/step")) {
    if (g->whole || !pbPulled_Restore(&g->pulled, run->nt, "pulled", set)) return false;
    if (g->pulled.step < 0 || g->pulled.step > steps_of(g, g->done)) return false;
  }

  // how much there is follows from that
  size_t pulled = (size_t)(g->done + g->whole);
  name_sums(g, all, sums);
  bool fits = copy(set, "gradient/x0", pulled * (size_t)run->nt, g->x0) && copy(set, "losses", pulled, g->losses);
  for (int i = 0; fits && i <= INPUTS; i++) fits = !sums[i].data || copy(set, sums[i].name, sums[i].count, sums[i].data);
  for (int t = 0; fits && t < (int)pulled; t++)
    fits = pbCertificate_Restore(&g->certificates[t], name_at("certificates", t, name), set);
  return fits && restore_noises(g, set);
}

static void say(const cliGradient *g) {
  if (g->run->app->args.text[opt_quiet]) return;
  fprintf(cli_err, "pullback gradient: goes on");
  if (g->count > 1) fprintf(cli_err, " after %d of %d trajectories", g->done, g->count);
  if (g->pulled.step >= 0)
    fprintf(cli_err, "%s at step %d on the way back, once the motion is run again", g->count > 1 ? "," : "", g->pulled.step);
  fprintf(cli_err, ", with %s\n", g->kept.path);
}

pbStatus cliGradient_TakeUp(cliGradient *g, const pbRolloutGradient *all) {
  PB_TRY(cliKept_Load(&g->kept));
  if (!g->kept.from) return pb_ok;

  // nobody but a forger gets there
  if (!restore(g, all, g->kept.from))
    return pbContext_Fail(g->run->ctx, pb_bad_input, "%s: does not fit the run; --fresh begins anew", g->kept.path);
  say(g);
  return pb_ok;
}

pbStatus cliGradient_Leave(cliGradient *g, const pbRolloutGradient *all, const char *text) {
  pbContext *ctx = g->run->ctx;
  if (g->done == 0 && !g->whole && g->pulled.step < 0) {
    PB_TRY(pbContext_Fail(ctx, pb_ok, "%s", text));
    return cli_nothingKept(g->run->app, " yet");
  }

  PB_TRY(pbArrays_Create(ctx, &g->kept.left));
  PB_TRY(keep(g, all, g->kept.left));
  return cliKept_Save(&g->kept, text);
}
