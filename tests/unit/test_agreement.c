// How far the gradients of a training can be trusted: similarities against pairs one by one, gradients of shorter windows against
// windows that begin there, the agreement against that of independent batches, and windows that follow it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pullback/io.h>
#include <pullback/learn.h>
#include <pullback/random.h>

#include "learn/train.h"
#include "support/support.h"

#define ARM                                                                                                                  \
  "<mujoco><option timestep='0.01'/><worldbody><body name='arm'><joint name='swing' axis='0 1 0' damping='.02'/><geom "      \
  "type='capsule' size='.05' fromto='0 0 0 0 0 -.4' mass='1'/><site name='tip' pos='0 0 -.4'/></body></worldbody><actuator>" \
  "<motor name='motor' joint='swing' gear='2'/></actuator></mujoco>"
// Three links without dampers fall over one another: small moves grow on their way.
#define LINKS                                                                                                                 \
  "<mujoco><option timestep='0.01'/><default><geom type='capsule' size='.03' fromto='0 0 0 0 0 -.3' contype='0' "             \
  "conaffinity='0'/></default><worldbody>"                                                                                    \
  "<body name='arm'><joint name='swing' axis='0 1 0'/><geom/><body pos='0 0 -.3'><joint axis='0 1 0'/><geom/><body pos='0 0 " \
  "-.3'><joint axis='0 1 0'/><geom/>"                                                                                         \
  "<site name='tip' pos='0 0 -.3'/></body></body></body></worldbody><actuator><motor name='motor' joint='swing' "             \
  "gear='2'/></actuator></mujoco>"
static const char *model = ARM;
#define POLICY                                                                                                            \
  "{\"every\": 2, \"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"qvel\": true, \"scale\": 0.2}, " \
  "{\"last\": true}], \"layers\": [{\"normalize\": true}, {\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1, "       \
  "\"activation\": \"tanh\"}]}"
// Its noise is behind what scales its outputs.
#define SCALED                                                                                                         \
  "{\"every\": 2, \"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"last\": true}], \"layers\": " \
  "[{\"normalize\": true}, {\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1}], \"output\": {\"control\": true, " \
  "\"scale\": 0.4}}"
// Its noise stands before the squash.
#define EXPLORES                                                                                                           \
  "{\"every\": 2, \"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"qvel\": true, \"scale\": 0.2}], " \
  "\"layers\": [{\"normalize\": true}, {\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1}, {\"explore\": 0.7}, "      \
  "{\"activation\": \"tanh\"}]}"
static const char *policy = POLICY;
#define LOSS "[{\"site\": \"tip\", \"components\": [2], \"target\": 0.4, \"at\": \"all\"}]"

static const char *loss = LOSS;

static pbTrain *load(pbContext *ctx, const char *train, const char *episode, const char *words) {
  char text[4000], path[] = "/tmp/pullback-agree-XXXXXX";
  pbTrain *t;
  int file = mkstemp(path);
  snprintf(text, sizeof text, "{\"model\": \"%s\", \"policy\": %s, \"loss\": %s, \"train\": {%s}, \"episode\": {%s}}", model,
           policy, loss, train, episode);
  assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);

  pbStatus status = pbTrain_Load(ctx, path, NULL, NULL, &t);
  unlink(path);
  if (!words) good(ctx, status);
  else if (status != pb_bad_input || !strstr(pbContext_Error(ctx), words)) fail_msg("%s", pbContext_Error(ctx));
  return t;
}

#define SPREAD "\"seconds\": 0.8, \"spread\": {\"qpos\": 2, \"qvel\": 4}"
#define ENDING SPREAD ", \"done\": [{\"qvel\": true, \"type\": \"above\", \"target\": 3}]"
static const pbTrainOptions none;

// ---- similarities -----------------------------------------------------------------------------------------------------
static void test_similarity(void **state) {
  (void)state;
  enum { worlds = 7, size = 5, rounds = 400 };
  double g[worlds][size], pairs = 0, squares = 0, mean = 0, spread = 0;
  const double *row[worlds];
  pbRng rng = pbRng_Seed(3);
  for (int w = 0; w < worlds; w++) row[w] = g[w];

  for (int round = 0; round < rounds; round++) {
    for (int w = 0; w < worlds; w++) {
      for (int i = 0; i < size; i++) g[w][i] = pbRng_Normal(&rng);
    }
    double q = pbTrain_Similarity(row, worlds, size);
    mean += q / rounds;
    spread += q * q / rounds;
  }
  assert_true(fabs(mean) < 4 * sqrt(spread / rounds) && spread > 1e-4);  // noise has nothing in common

  // each pair by itself
  for (int a = 0; a < worlds; a++) {
    for (int b = 0; b < worlds; b++) {
      for (int i = 0; i < size; i++) *(a == b ? &squares : &pairs) += g[a][i] * g[b][i];
    }
  }
  assert_true(fabs(pbTrain_Similarity(row, worlds, size) - pairs / ((worlds - 1) * squares)) < 1e-14);

  // all the same; two that cancel; one alone; nothing
  for (int w = 0; w < worlds; w++) row[w] = g[0];
  assert_true(fabs(pbTrain_Similarity(row, worlds, size) - 1) < 1e-14);
  for (int i = 0; i < size; i++) g[1][i] = -g[0][i];
  row[1] = g[1];
  assert_true(fabs(pbTrain_Similarity(row, 2, size) + 1) < 1e-14);
  assert_true(isnan(pbTrain_Similarity(row, 1, size)));
  memset(g, 0, sizeof g);
  assert_true(isnan(pbTrain_Similarity(row, worlds, size)));
}

// ---- shorter windows --------------------------------------------------------------------------------------------------
static void begin(pbTrain *t, int threads) {
  t->options = &none;
  good(t->ctx, pbTrain_Begin(t, threads));
}

static void collect(pbTrain *t, bool critic) {
  good(t->ctx, pbTrain_Collect(t));
  good(t->ctx, pbTrain_Observe(t));
  good(t->ctx, pbTrain_Gradient(t, critic));
}

// What a window has measured of a shorter one is the gradient of a window which begins where that does.
static void check_levels(pbContext *ctx, const char *method, int worlds, int threads, bool critic) {
  char text[400];
  snprintf(text, sizeof text,
           "\"method\": \"%s\", \"worlds\": %d, \"noise\": 0, \"discount\": 1, \"window\": {\"most\": 8, \"least\": 1}", method,
           worlds);
  pbTrain *t = load(ctx, text, SPREAD, NULL);
  begin(t, threads);
  assert_int_equal(t->agreement.levels, 4);
  assert_int_equal(t->agreement.places, t->unknowns);
  collect(t, critic);

  for (int level = 0; level < 4; level++) {
    int window = 8 >> level;
    snprintf(text, sizeof text, "\"method\": \"%s\", \"worlds\": %d, \"noise\": 0, \"discount\": 1, \"window\": %d", method,
             worlds, window);
    pbTrain *alone = load(ctx, text, SPREAD, NULL);
    begin(alone, 1);
    for (int w = 0; w < worlds; w++)
      memcpy(alone->states + w * t->nx, t->row_states + (w * 9 + 8 - window) * t->nx, (size_t)t->nx * sizeof(double));
    collect(alone, critic);

    double error = 0, size = 0;
    for (size_t i = 0; i < t->unknowns; i++) {
      double sum = 0, own = alone->theta_bar[alone->unknown[i]];
      for (int w = 0; w < worlds; w++) sum += t->agreement.numbers[((size_t)w * 4 + (size_t)level) * t->unknowns + i];
      error = fmax(error, fabs(sum * 8 / window - own));
      size = fmax(size, fabs(own));
    }
    if (!(error < 1e-12 * size)) fail_msg("window %d: %g of %g", window, error, size);
    pbTrain_Destroy(alone);
  }
  pbTrain_Destroy(t);
}

static void test_shorter_windows(void **state) {
  check_levels(*state, "bptt", 9, 1, false);
  check_levels(*state, "shac", 9, 2, true);
  check_levels(*state, "shac", 2, 1, true);
}

// ---- agreement --------------------------------------------------------------------------------------------------------
static void test_no_noise(void **state) {
  pbTrain *t =
      load(*state, "\"method\": \"shac\", \"worlds\": 6, \"noise\": 0, \"window\": 4, \"updates\": 3", "\"seconds\": 9", NULL);
  pbTrainResult result;
  good(*state, pbTrain_Run(t, &none, &result));
  for (int i = 0; i < 3; i++) assert_true(fabs(pbTrain_Rows(t)[i].agreement - 1) < 1e-9 && pbTrain_Rows(t)[i].window == 4);
  pbTrain_Destroy(t);

  // one world has none to compare with; samples have no gradients of worlds
  t = load(*state, "\"method\": \"bptt\", \"worlds\": 1, \"window\": 4, \"updates\": 2", SPREAD, NULL);
  good(*state, pbTrain_Run(t, &none, &result));
  assert_true(isnan(pbTrain_Rows(t)[1].agreement));
  pbTrain_Destroy(t);
  t = load(*state, "\"method\": \"ppo\", \"worlds\": 4, \"window\": 4, \"updates\": 2", SPREAD, NULL);
  good(*state, pbTrain_Run(t, &none, &result));
  assert_true(isnan(pbTrain_Rows(t)[1].agreement) && pbTrain_Rows(t)[1].window == 4);
  pbTrain_Destroy(t);
}

// Gradients of batches with other starts and noise, at the same weights: what is told of one batch is how they agree.
static void check_batches(pbContext *ctx, const char *train, double low, double high) {
  enum { batches = 40 };
  double *g[batches], together = 0, all = 0, told = 0;
  size_t n = 0;
  for (int b = 0; b < batches; b++) {
    pbTrain *t = load(ctx, train, SPREAD, NULL);
    t->settings.seed = 100 + (uint64_t)b;
    begin(t, 1);
    collect(t, false);
    n = t->unknowns;
    g[b] = malloc(n * sizeof(double));
    for (size_t i = 0; i < n; i++) g[b][i] = t->theta_bar[t->unknown[i]];

    pbTrain_Agree(t);
    told += t->agreement.estimate[0] / t->agreement.estimate[1] / batches;
    pbTrain_Destroy(t);
  }

  // the cosine of E g . E g to E |g|^2, over pairs of batches
  for (int a = 0; a < batches; a++) {
    for (int b = 0; b < batches; b++) {
      for (size_t i = 0; i < n; i++) *(a == b ? &all : &together) += g[a][i] * g[b][i];
    }
  }
  for (int b = 0; b < batches; b++) free(g[b]);
  double cosine = together / (batches - 1) / all, worlds = 12, found = worlds * told / (1 + (worlds - 1) * told);
  if (!(fabs(found - cosine) < 0.08 && cosine > low && cosine < high))
    fail_msg("told %.3f, batches agree at %.3f", found, cosine);
}

static void test_batches(void **state) {
  check_batches(*state, "\"method\": \"bptt\", \"worlds\": 12, \"window\": 4", 0.05, 0.95);
  check_batches(*state, "\"method\": \"bptt\", \"worlds\": 12, \"window\": 30, \"noise\": 1", 0.05, 0.95);
}

// ---- windows that follow -----------------------------------------------------------------------------------------------
typedef struct Ending {
  int rows;
  pbTrainRow *row;
  double *theta;
  size_t count;
} Ending;

// In pieces of so many updates, 0: at once.
static Ending run(pbContext *ctx, const char *train, int threads, int piece) {
  char file[] = "/tmp/pullback-agree-state-XXXXXX";
  close(mkstemp(file));
  unlink(file);
  for (int k = 1;; k++) {
    pbTrain *t = load(ctx, train, ENDING, NULL);
    pbTrainOptions options = {.threads = threads, .state_file = file, .resume = true, .updates = k * piece};
    pbTrainResult result;
    good(ctx, pbTrain_Run(t, &options, &result));
    bool whole = t->now->decisions >= pbTrain_Decisions(t, t->settings.updates);
    Ending e = {pbTrain_RowCount(t), NULL, NULL, pbModel_ParamSize(pbTrain_Model(t))};
    if (whole) {
      e.row = malloc((size_t)e.rows * sizeof *e.row);
      e.theta = malloc(e.count * sizeof *e.theta);
      memcpy(e.row, pbTrain_Rows(t), (size_t)e.rows * sizeof *e.row);
      memcpy(e.theta, result.last, e.count * sizeof *e.theta);
    }
    pbTrain_Destroy(t);
    if (!whole) continue;
    unlink(file);
    return e;
  }
}

static void test_windows_follow(void **state) {
#define FOLLOW(agree, least)                                                                                          \
  "\"method\": \"shac\", \"worlds\": 8, \"updates\": 30, \"critic\": {\"rounds\": 2}, \"evaluate\": {\"every\": 10, " \
  "\"starts\": 2}, "                                                                                                  \
  "\"window\": {\"most\": 8, \"agree\": " agree ", \"least\": " least "}"
  static const char *const trains[] = {FOLLOW("0.01", "1"), FOLLOW("0.8", "1"), FOLLOW("0.99", "2")};
  int most = 0, changes = 0;
  for (int i = 0; i < 3; i++) {
    Ending a = run(*state, trains[i], 1, 0), b = run(*state, trains[i], 2, 4);
    int evaluated = 0;
    assert_int_equal(a.rows, b.rows);
    assert_memory_equal(a.row, b.row, (size_t)a.rows * sizeof *a.row);
    assert_memory_equal(a.theta, b.theta, a.count * sizeof *a.theta);

    // the same decisions, however many updates; evaluations at the same times
    for (int k = 0; k < a.rows; k++) {
      const pbTrainRow *r = &a.row[k];
      assert_true(r->window == 8 || r->window == 4 || r->window == 2 || (r->window == 1 && i < 2));
      assert_true(r->agreement >= -1 && r->agreement <= 1 + 1e-12);
      evaluated += isfinite(r->score);
      changes += k > 0 && r->window != a.row[k - 1].window;
    }
    assert_true(evaluated == 3 && a.rows >= 30);
    most = a.rows > most ? a.rows : most;
    if (i == 2) assert_true(a.row[a.rows - 1].window == 2);
    free(a.row);
    free(b.row);
    free(a.theta);
    free(b.theta);
  }
  assert_true(most > 60 && changes >= 2);
}

// The rule by itself, for estimates that are given.
static void test_rule(void **state) {
  pbTrain *t = load(*state, "\"method\": \"bptt\", \"worlds\": 4, \"updates\": 100, \"window\": {\"most\": 32, \"agree\": 0.5}",
                    SPREAD, NULL);
  begin(t, 1);
  assert_true(t->agreement.levels == 4 && t->agreement.level[3] == 4);
  pbTrain_ChooseWindow(t);
  assert_true(t->settings.window == 32 && t->agreement.trial);

  // r of 4 worlds from q: .08, .08, .73, .97
  for (int i = 0; i < 4; i++) t->agreement.estimate[2 * i + 1] = 1;
  t->now->decisions = 32;
  for (int level = 0; level < 4; level++) t->agreement.estimate[2 * level] = (double[]){0.02, 0.02, 0.4, 0.9}[level];
  pbTrain_ChooseWindow(t);
  assert_true(t->now->level == 2 && t->settings.window == 8 && !t->agreement.trial && t->steps == 16);

  // a longer one is tried now and then, and taken where it agrees better than asked
  int trials = 0;
  for (int k = 0; k < 32; k++) {
    pbTrain_ChooseWindow(t);
    trials += t->agreement.trial;
    assert_true(t->settings.window == (t->agreement.trial ? 16 : 8) && t->now->level == 2);
  }
  assert_int_equal(trials, 2);
  t->agreement.estimate[2] = 0.205;  // r .51: not enough to grow
  pbTrain_ChooseWindow(t);
  assert_true(t->now->level == 2);
  t->agreement.estimate[2] = 0.26;  // .58
  pbTrain_ChooseWindow(t);
  assert_true(t->now->level == 1);
  t->agreement.estimate[2] = 0.205;  // enough to stay
  pbTrain_ChooseWindow(t);
  assert_true(t->now->level == 1 && t->settings.window == 16);

  // where none agrees, the shortest; and never more decisions than there are
  for (int level = 0; level < 4; level++) t->agreement.estimate[2 * level] = -0.1;
  pbTrain_ChooseWindow(t);
  assert_true(t->now->level == 3 && t->settings.window == 4);
  t->agreement.estimate[0] = t->agreement.estimate[2] = t->agreement.estimate[4] = t->agreement.estimate[6] = 0.9;
  t->now->level = 0;
  t->now->decisions = 3200 - 9;
  pbTrain_ChooseWindow(t);
  assert_true(t->now->level == 0 && t->settings.window == 8);
  pbTrain_Destroy(t);
}

// ---- the likelihood ratio -----------------------------------------------------------------------------------------------
// The share that is least on a grid, and what happens to estimates that are alike, constant or none.
static void test_share(void **state) {
  (void)state;
  enum { worlds = 9, size = 6 };
  double g[2][worlds][size];
  const double *row[2][worlds];
  pbRng rng = pbRng_Seed(8);

  for (int round = 0; round < 20; round++) {
    for (int w = 0; w < worlds; w++) {
      for (int i = 0; i < size; i++) {
        double common = pbRng_Normal(&rng);
        g[0][w][i] = (round % 4 * 0.6 + 0.1) * pbRng_Normal(&rng) + common;
        g[1][w][i] = pbRng_Normal(&rng) + round % 3 * 0.4 * common;
      }
      row[0][w] = g[0][w];
      row[1][w] = g[1][w];
    }

    double least = INFINITY, best = 0;
    for (int step = 0; step <= 2000; step++) {
      double p = step / 2000., variance = 0;
      for (int i = 0; i < size; i++) {
        double sum = 0, square = 0;
        for (int w = 0; w < worlds; w++) {
          double x = (1 - p) * g[0][w][i] + p * g[1][w][i];
          sum += x;
          square += x * x;
        }
        variance += square - sum * sum / worlds;
      }
      if (variance < least) best = p;
      least = fmin(least, variance);
    }
    assert_true(fabs(pbTrain_MixShare(row[0], row[1], worlds, size) - best) <= 5e-4 + 1e-9);
  }

  g[0][2][1] = INFINITY;
  assert_true(pbTrain_MixShare(row[0], row[1], worlds, size) == 1 && pbTrain_MixShare(row[1], row[0], worlds, size) == 0);
  for (int w = 0; w < worlds; w++) row[0][w] = g[1][0];
  assert_true(pbTrain_MixShare(row[0], row[1], worlds, size) < 1e-12 &&
              pbTrain_MixShare(row[1], row[0], worlds, size) > 1 - 1e-12);
}

#define MIX(window, discount)                                                                                            \
  "\"method\": \"shac\", \"worlds\": 64, \"mix\": true, \"window\": " window ", \"noise\": 0.7, \"discount\": " discount \
  ", \"critic\": {\"rounds\": 2}"

#define LEARNED "\"method\": \"shac\", \"worlds\": 64, \"mix\": true, \"window\": 3, \"noise\": \"learned\", \"discount\": 0.9"

// Both are estimates of one gradient: their means over many draws of the noise, from the same states at the same weights.
static void check_means(pbContext *ctx, const char *train, const char *episode) {
  enum { rounds = 2500 };
  pbTrain *t = load(ctx, train, episode, NULL);
  begin(t, 2);
  size_t n = t->unknowns;
  double *sums = calloc(4 * n, sizeof *sums), *share = sums + 3 * n, apart = 0, size = 0, error = 0;

  for (int round = 0; round < rounds; round++) {
    t->now->update = round;
    collect(t, true);
    for (size_t i = 0; i < n; i++) share[i] = t->theta_bar[t->unknown[i]];
    good(ctx, pbTrain_Mix(t));
    for (size_t i = 0; i < n; i++) {
      double off = t->mix.bar[i] - share[i];
      sums[i] += share[i] / rounds;
      sums[n + i] += off / rounds;
      sums[2 * n + i] += off * off / rounds;
      double mixed = (1 - t->mix.share) * share[i] + t->mix.share * t->mix.bar[i];
      assert_true(fabs(t->theta_bar[t->unknown[i]] - mixed) < 1e-12 * (1 + fabs(mixed)));
    }
  }

  // deviations by themselves, last of all
  for (size_t i = t->settings.learned ? n - 1 : n; i < n; i++) {
    double chance = sqrt((sums[2 * n + i] - sums[n + i] * sums[n + i]) / rounds);
    if (!(fabs(sums[n + i]) < 4 * chance && chance < 0.1 * fabs(sums[i])))
      fail_msg("deviation: %g, %g apart, %g by chance", sums[i], sums[n + i], chance);
  }
  for (size_t i = 0; i < n; i++) {
    size += sums[i] * sums[i];
    apart += sums[n + i] * sums[n + i];
    error += (sums[2 * n + i] - sums[n + i] * sums[n + i]) / rounds;
  }
  // what is expected of chance alone is `error`; it is less than a fifth of the gradient
  if (!(apart < 2.5 * error && error < 0.2 * size))
    fail_msg("apart %g, by chance %g, of %g", sqrt(apart), sqrt(error), sqrt(size));
  free(sums);
  pbTrain_Destroy(t);
}

static double value_of(pbTrain *t, size_t row) {
  const double *seen = t->observed + row * (size_t)t->nobs;
  good(t->ctx, pbHead_Forward(t, &t->head_fit, t->critic_slow, &seen, 1));
  return t->head_fit.out[0];
}

// What decisions weigh, each by a sum of its own over what followed in its episode.
static void check_weights(pbContext *ctx) {
  pbTrain *t = load(ctx, MIX("7", "0.9"), ENDING, NULL);
  int ends = 0, decisions = 0;
  begin(t, 1);
  collect(t, true);
  good(ctx, pbTrain_Mix(t));
  for (int w = 0; w < 64; w++) decisions += t->length[w];

  for (int w = 0; w < 64; w++) {
    double factor = 1. / decisions;
    for (int k = 0; k < t->length[w]; k++) {
      double sum = -value_of(t, (size_t)w * 8 + (size_t)k), discount = 1;
      int j = k;
      do {
        sum += discount * t->costs[w * 7 + j];
        discount *= 0.9;
      } while (!pbTrain_Ended(t, w, j) && ++j < t->length[w]);
      if (j == t->length[w]) sum += discount * value_of(t, (size_t)w * 8 + (size_t)j);
      if (!(fabs(t->advantage[w * 7 + k] - factor * sum) < 1e-6 / decisions)) fail_msg("world %d, decision %d", w, k);
      ends += pbTrain_Ended(t, w, k);
      factor = pbTrain_Ended(t, w, k) ? 1. / decisions : factor * 0.9;
    }
  }
  assert_true(ends > 20);
  pbTrain_Destroy(t);
}

// An end that decisions have a part in is what the physics' gradient does not see: means are compared without.
static void test_means(void **state) {
  policy = SCALED;
  check_means(*state, MIX("3", "0.9"), SPREAD);
  policy = EXPLORES;
  loss = "[{\"decision\": true, \"weight\": 0.3, \"at\": \"all\"}]";
  check_means(*state, LEARNED, SPREAD);
  check_means(*state, LEARNED ", \"entropy\": {\"temperature\": 0.03}", SPREAD);
  policy = POLICY;
  loss = LOSS;
  check_weights(*state);
}

// Smooth physics has nothing to gain by it; where the gradient is noise, it is nearly all.
static void test_mixed(void **state) {
  Ending a = run(*state, MIX("4", "0.9") ", \"updates\": 8", 1, 0), b = run(*state, MIX("4", "0.9") ", \"updates\": 8", 2, 3);
  assert_memory_equal(a.row, b.row, (size_t)a.rows * sizeof *a.row);
  assert_memory_equal(a.theta, b.theta, a.count * sizeof *a.theta);
  for (int k = 0; k < a.rows; k++) assert_true(a.row[k].mixed >= 0 && a.row[k].mixed < 0.2);
  free(a.row);
  free(b.row);
  free(a.theta);
  free(b.theta);

  model = LINKS;
  pbTrainResult result;
  pbTrain *wild = load(*state, MIX("300", "1") ", \"updates\": 4", SPREAD, NULL);
  good(*state, pbTrain_Run(wild, &none, &result));
  for (int k = 0; k < 4; k++) assert_true(pbTrain_Rows(wild)[k].mixed > 0.9 && pbTrain_Rows(wild)[k].mixed <= 1);
  pbTrain_Destroy(wild);
  model = ARM;
}

// With a critic: the most worth by decisions.
static void test_rule_of_worth(void **state) {
  static const struct {
    double q[4];  // of windows 32, 16, 8, 4 and 4 worlds: r = 4 q / (1 + 3 q)
    int from, to;
  } cases[] = {
      {{0.9, 0.9, 0.9, 0.9}, 0, 3},                                        // all agree: the most updates
      {{0.9, 0.9, 0.9, 0.2}, 1, 3},                                        // r .5, as asked
      {{0.9, 0.9, 0.9, 0.08}, 1, 3},                                       // r .26: more than half of what is asked
      {{0.9, 0.9, 0.9, 0.076}, 1, 2},                                      // r .25: less
      {{0.9, 0.9, 0.9, 0.076}, 3, 3},                                      // but it stays within the margin
      {{0.9, 0.9, 0.9, 0.05}, 3, 2},                                       // r .17
      {{0.9, 0.9, 0.01, 0.001}, 3, 2},                                     // r .04 and .004
      {{0.9, 0.9, 0.01, 0.001}, 2, 1},  {{-0.1, -0.1, -0.1, -0.1}, 1, 3},  // nothing agrees
      {{-0.1, -0.1, -0.1, -0.1}, 3, 3},
  };
  pbTrain *t = load(*state, "\"method\": \"shac\", \"worlds\": 4, \"updates\": 100, \"window\": {\"most\": 32, \"agree\": 0.5}",
                    SPREAD, NULL);
  begin(t, 1);
  pbTrain_ChooseWindow(t);
  assert_true(t->settings.window == 32 && t->agreement.trial);

  t->now->decisions = 32;
  for (int i = 0; i < 4; i++) t->agreement.estimate[2 * i + 1] = 1;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    for (int i = 0; i < 4; i++) t->agreement.estimate[2 * i] = cases[k].q[i];
    t->now->level = cases[k].from;
    t->now->since = 0;
    pbTrain_ChooseWindow(t);
    if ((int)t->now->level != cases[k].to) fail_msg("case %zu: %d, expected %d", k, (int)t->now->level, cases[k].to);
  }

  // longer ones are tried where they can be worth more, and nowhere else
  for (int noisy = 0; noisy < 2; noisy++) {
    int trials = 0;
    t->now->level = 3;
    for (int i = 0; i < 4; i++) t->agreement.estimate[2 * i] = noisy ? 0.02 : 0.9;
    for (int k = 0; k < 48; k++) {
      pbTrain_ChooseWindow(t);
      trials += t->agreement.trial;
      assert_true(t->now->level == 3);
    }
    assert_int_equal(trials, noisy ? 3 : 0);
  }
  pbTrain_Destroy(t);
}

// ---- mistakes ---------------------------------------------------------------------------------------------------------
static void test_mistakes(void **state) {
  static const struct {
    const char *train, *words;
  } cases[] = {
      {"\"method\": \"shac\", \"window\": 0", "train.window: expected a whole number from 1"},
      {"\"method\": \"shac\", \"window\": \"8\"", "train.window: expected a whole number from 1"},
      {"\"method\": \"shac\", \"window\": {\"mst\": 8}", "train.window: unknown key 'mst', did you mean 'most'?"},
      {"\"method\": \"shac\", \"window\": {\"most\": 8.5}", "train.window.most: expected a whole number"},
      {"\"method\": \"shac\", \"window\": {\"agree\": 1}", "train.window.agree: expected"},
      {"\"method\": \"shac\", \"window\": {\"most\": 8, \"least\": 9}",
       "train.window.least: expected no more than \"most\", which is 8"},
      {"\"method\": \"ppo\", \"window\": {}", "train.window: method \"ppo\" has no gradients that could agree"},
      {"\"method\": \"es\", \"window\": {}", "train.window: method \"es\" has no gradients that could agree"},
      {"\"method\": \"bptt\", \"worlds\": 1, \"window\": {}", "train.window: one world agrees with none"},
      {"\"method\": \"shac\", \"mix\": 1", "train.mix: expected true or false"},
      {"\"method\": \"shac\", \"mix\": true, \"noise\": 0", "train.noise: mix learns from the noise alone"},
      {"\"method\": \"shac\", \"mix\": true, \"last_noise\": 0", "train.noise: mix learns from the noise alone"},
      {"\"method\": \"bptt\", \"mix\": true", "train.mix: method \"bptt\" has none"},
      {"\"method\": \"ppo\", \"mix\": true", "train.mix: method \"ppo\" has none"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) load(*state, cases[i].train, SPREAD, cases[i].words);

  // what is not said
  pbTrain *t = load(*state, "\"method\": \"bptt\", \"window\": {}", SPREAD, NULL);
  assert_true(t->settings.most == 32 && t->settings.least == 4 && t->settings.agree == 0.5);
  pbTrain_Destroy(t);
  t = load(*state, "\"method\": \"bptt\", \"window\": {\"most\": 3}", SPREAD, NULL);
  assert_true(t->settings.most == 3 && t->settings.least == 3);
  pbTrain_Destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_similarity, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_shorter_windows, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_no_noise, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_batches, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_windows_follow, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_rule, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_rule_of_worth, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_share, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_means, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mixed, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
