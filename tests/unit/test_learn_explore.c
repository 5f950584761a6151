// Exploration before a squash: gradients of windows with it against Richardson's differences at fixed draws, by weights and by
// deviations; entropy and temperature against their closed forms; ppo's surrogate; the same bits on any number of threads and
// after a kill; what a policy's file has of it; mistakes.
#include <pullback/random.h>

#include "elementary/elementary.h"
#include "learn_cases.h"

// ---- tasks --------------------------------------------------------------------------------------------------------------
#define SEEN                                                                                               \
  "\"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"qvel\": true, \"scale\": 0.2}, " \
  "{\"time\": true}, {\"last\": true}%s]"
#define NORMED "{\"normalize\": true}, "
#define SQUASH "{\"explore\": 0.4}, {\"activation\": \"tanh\"}"

typedef struct Case {
  const char *layers, *act, *more, *train, *episode, *sample;
  bool critic, ends;
} Case;

static const char *text_of(char *text, size_t size, const Case *c) {
  char seen[400];
  snprintf(seen, sizeof seen, SEEN, c->more ? c->more : "");
  snprintf(text, size,
           "{\"model\": \"%s\", \"policy\": {\"every\": 2, %s, \"layers\": [%s]%s}, \"loss\": " LOSS_TERMS
           ", {\"name\": \"action\", \"decision\": true, \"weight\": 0.1, \"at\": \"all\"}], \"train\": {%s}, "
           "\"episode\": {%s}%s}",
           PENDULUM, seen, c->layers, c->act ? c->act : "", c->train, c->episode ? c->episode : EPISODE,
           c->sample ? c->sample : "");
  return text;
}

static pbTrain *load_case(pbContext *ctx, const Case *c) {
  char text[6000];
  pbTrain *t;
  good(ctx, pbTrain_Load(ctx, write_file("explore.json", text_of(text, sizeof text, c)), NULL, NULL, &t));
  return t;
}

static const pbTrainOptions none;

static pbTrain *begun(pbContext *ctx, const Case *c) {
  pbTrain *t = load_case(ctx, c);
  t->options = &none;
  good(ctx, pbTrain_Begin(t, 1));
  return t;
}

// ---- gradients ----------------------------------------------------------------------------------------------------------
// By the definition: log of the density of what was decided.
static double entropy_of(const pbTrain *t, int w, int k) {
  const double *y = t->row_states + (size_t)(w * (t->settings.window + 1) + k + 2) * (size_t)t->nx - 1 - t->explored;
  double sum = 0;
  for (int i = 0; i < t->explored; i++) {
    sum += t->theta[t->explore_at + i] + 0.5 * log(2 * 3.14159265358979323846 * exp(1));
    if (t->squashed) sum += log(1 - y[i] * y[i] + 1e-6);
  }
  return sum;
}

static double value_of(pbTrain *t, bool critic) {
  double sum = objective(t, critic), decisions = 0;
  double temperature = t->settings.entropy ? exp(t->now->log_temperature) : 0, worth = 0;
  for (int w = 0; w < t->settings.worlds; w++) {
    double factor = 1;
    decisions += t->length[w];
    for (int k = 0; k < t->length[w]; k++) {
      worth += factor * entropy_of(t, w, k);
      factor = pbTrain_Ended(t, w, k) ? 1 : factor * t->settings.discount;
    }
  }
  return sum - temperature * worth / decisions;
}

static double difference(pbTrain *t, bool critic, const double *direction, double h) {
  double side[2];
  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] += (k ? -2 : 1) * h * direction[i];
    side[k] = value_of(t, critic);
  }
  for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] += h * direction[i];
  return (side[0] - side[1]) / (2 * h);
}

static void check_direction(pbTrain *t, bool critic, const double *bar, const double *direction, double scale, const char *what) {
  double slope = 0, h = 1e-4;
  for (size_t i = 0; i < t->unknowns; i++) slope += bar[i] * direction[i];
  double wide = difference(t, critic, direction, h), narrow = difference(t, critic, direction, h / 2);
  double limit = (4 * narrow - wide) / 3;
  if (!(fabs(limit - slope) < 2e-8 * scale + fabs(wide - narrow) * 1e-4))
    fail_msg("%s: gradient %.12g, differences %.12g (%.3g, %.3g)", what, slope, limit, wide, narrow);
}

static void check_case(pbContext *ctx, const Case *c, const char *what) {
  pbTrain *t = begun(ctx, c);
  value_of(t, c->critic);
  good(ctx, pbTrain_Normalize(t));
  pbTrain_Advance(t);
  t->now->log_temperature = log(0.3);
  pbTrain_SetDeviation(t);
  assert_true(isfinite(value_of(t, c->critic)));
  int ended = 0;
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k < t->settings.window - 1; k++) ended += pbTrain_Ended(t, w, k);
  }
  assert_true((ended > 0) == c->ends);
  good(ctx, pbTrain_Gradient(t, c->critic));

  size_t n = t->unknowns;
  double *bar = malloc(n * sizeof *bar), *direction = calloc(n, sizeof *direction), size = 0;
  for (size_t i = 0; i < n; i++) size += fabs(bar[i] = t->theta_bar[t->unknown[i]]);
  assert_true(size > 1e-4);
  for (size_t i = 0; i < n; i++) direction[i] = cos((double)i) / sqrt((double)n);
  check_direction(t, c->critic, bar, direction, size, what);

  // each deviation by itself
  assert_true(n - pbTrain_Weights(t) == (size_t)(t->settings.learned ? t->explored : 0));
  for (size_t i = pbTrain_Weights(t); i < n; i++) {
    memset(direction, 0, n * sizeof *direction);
    direction[i] = 1;
    assert_true(fabs(bar[i]) > 1e-5 * size);
    check_direction(t, c->critic, bar, direction, size, what);
  }
  free(bar);
  free(direction);
  pbTrain_Destroy(t);
}

#define HIDDEN NORMED "{\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1}, "
#define SAPO   "\"method\": \"shac\", \"discount\": 0.9, \"noise\": \"learned\", \"entropy\": {}, "
#define TWO                                                                                                                 \
  "\"critic\": {\"count\": 2, \"layers\": [{\"dense\": 7}, {\"layernorm\": true}, {\"activation\": \"silu\"}, {\"dense\": " \
  "1}]}, "
#define MANY    "\"worlds\": 24, \"window\": 4, \"updates\": 12"
#define COMMAND ", {\"command\": 1}"
#define DRAWN   ", \"sample\": {\"command\": [{\"uniform\": [-1, 1]}]}"

static const Case cases[] = {
    {.layers = HIDDEN SQUASH, .train = "\"method\": \"bptt\", \"discount\": 0.9, " SMALL},
    {.layers = HIDDEN SQUASH, .train = "\"method\": \"bptt\", \"noise\": 0.7, \"last_noise\": 0.1, " SMALL},
    {.layers = HIDDEN SQUASH, .train = "\"method\": \"bptt\", \"discount\": 0.9, \"noise\": \"learned\", " SMALL},
    {.layers = HIDDEN SQUASH, .train = SAPO SMALL, .critic = true},
    {.layers = HIDDEN SQUASH, .train = SAPO TWO SMALL, .critic = true},
    {.layers = HIDDEN "{\"explore\": 0.4}", .train = SAPO SMALL, .critic = true},
    {.layers = HIDDEN SQUASH, .train = SAPO MANY, .episode = ENDING, .critic = true, .ends = true},
    {.layers = HIDDEN SQUASH, .more = COMMAND, .sample = DRAWN, .train = SAPO SMALL, .critic = true},
    {.layers = NORMED "{\"gru\": 5}, {\"dense\": 1}, " SQUASH,
     .train = SAPO MANY,
     .episode = ENDING,
     .critic = true,
     .ends = true},
    {.layers = HIDDEN SQUASH,
     .act = ", \"act\": {\"observe\": [{\"qvel\": true}], \"layers\": [{\"dense\": 1}]}",
     .train = SAPO SMALL,
     .critic = true},
};

static void test_gradients(void **state) {
  char what[40];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(what, sizeof what, "case %zu", i);
    check_case(*state, &cases[i], what);
  }
}

// ---- draws --------------------------------------------------------------------------------------------------------------
// What is decided is tanh(mean + deviation e), e standard normal and another in every decision, also of a new
// episode; evaluations have none.
static void test_draws(void **state) {
  pbTrain *t =
      begun(*state, &(Case){.layers = HIDDEN SQUASH, .train = "\"method\": \"ppo\", \"noise\": 0.7, " MANY, .episode = ENDING});
  const pbPolicyFunction *f = t->model->policy->decide, *body = pbNetwork_Function(t->body);
  assert_int_equal(f->draws, 1);
  assert_int_equal(f->observations, body->observations + 1);
  pbTrain_SetDeviation(t);
  collect_again(t);
  void *room = malloc(body->work_bytes(body->self, 1) + 64);
  double mean, m, sum = 0, square = 0, count = 0;
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k < t->length[w]; k++) {
      const double *o = pbTrain_Observation(t, w * t->settings.window + k), *e = pbTrain_Draws(t, w, k);
      double y = t->row_states[(size_t)(w * (t->settings.window + 1) + k + 2) * (size_t)t->nx - 2];
      good(*state, body->forward(body->self, 1, t->theta + t->model->policy->theta, o, NULL, &mean, &m,
                                 (void *)(((uintptr_t)room + 63) & ~(uintptr_t)63)));
      assert_true(o[f->observations - 1] == *e && fabs(y - tanh(mean + 0.7 * *e)) < 1e-14);
      assert_true(t->ctrl[(w * t->steps + k * t->every) * t->nu] == 0);
      sum += *e;
      square += *e * *e;
      count++;
    }
  }
  free(room);
  assert_true(count == 96 && fabs(sum / count) < 0.4 && fabs(square / count - 1) < 0.5);

  // an evaluation at deviation e^2 is that at e^-5
  double score[2], alive;
  for (int i = 0; i < 2; i++) {
    t->theta[t->explore_at] = i ? 2 : -5;
    good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score[i], &alive));
  }
  assert_true(score[0] == score[1]);
  pbTrain_Destroy(t);
}

static void test_schedule(void **state) {
  pbTrain *t = load_case(
      *state, &(Case){.layers = HIDDEN SQUASH, .train = "\"method\": \"bptt\", \"noise\": 0.8, \"last_noise\": 0.2, " SMALL});
  good(*state, pbTrain_Run(t, NULL, &(pbTrainResult){0}));
  for (int i = 0; i < 12; i++) {
    const pbTrainRow *row = &pbTrain_Rows(t)[i];
    assert_true(fabs(row->deviation - (0.8 - 0.6 * i / 12)) < 1e-14 && isfinite(row->entropy) && isnan(row->temperature));
  }
  pbTrain_Destroy(t);
}

// ---- temperature ----------------------------------------------------------------------------------------------------------
// Adam on the logarithm, written out.
static void test_temperature(void **state) {
  pbTrain *t =
      load_case(*state, &(Case){.layers = HIDDEN SQUASH,
                                .train = "\"method\": \"shac\", \"noise\": \"learned\", \"entropy\": {\"temperature\": 0.5, "
                                         "\"rate\": 0.1, \"target\": -0.2}, " SMALL});
  good(*state, pbTrain_Run(t, NULL, &(pbTrainResult){0}));
  double l = log(0.5), m = 0, v = 0;
  for (int i = 0; i < 12; i++) {
    const pbTrainRow *row = &pbTrain_Rows(t)[i];
    assert_true(fabs(row->temperature - exp(l)) < 1e-13);
    double g = exp(l) * (row->entropy + 0.2);
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    l -= 0.1 * m / (1 - pow(0.9, i + 1)) / (sqrt(v / (1 - pow(0.999, i + 1))) + 1e-8);
  }
  assert_true(fabs(l - log(0.5)) > 0.05 && fabs(t->now->log_temperature - l) < 1e-12);
  assert_true(t->settings.target_entropy == -0.2);
  pbTrain_Destroy(t);

  // by itself: minus half of the outputs; fixed: as it is
  t = load_case(*state, &cases[3]);
  assert_true(t->settings.target_entropy == -0.5 && t->settings.tunes && t->settings.temperature == 1);
  pbTrain_Destroy(t);
  t = load_case(*state, &(Case){.layers = HIDDEN SQUASH,
                                .train = "\"method\": \"shac\", \"entropy\": {\"temperature\": 0.5, \"fixed\": true}, " SMALL});
  good(*state, pbTrain_Run(t, NULL, &(pbTrainResult){0}));
  for (int i = 0; i < 12; i++) assert_true(fabs(pbTrain_Rows(t)[i].temperature - 0.5) < 1e-15);
  pbTrain_Destroy(t);
}

// The mean of what is told as entropy is that of the distribution: by quadrature of -p log p.
static void test_entropy_is_that_of_the_density(void **state) {
  (void)state;
  double deviation = 0.6, mean = 0.3, told = 0, exact = 0, step = 1e-3, root = sqrt(2 * 3.14159265358979323846);
  for (double e = -9; e < 9; e += step) {
    double p = exp(-e * e / 2) / root, y = tanh(mean + deviation * e);
    told += p * step * (log(deviation) + 0.5 * log(2 * 3.14159265358979323846 * exp(1)) + pbTrain_LogSlope(y));
  }
  for (double y = -1 + step / 20; y < 1; y += step / 10) {
    double e = (atanh(y) - mean) / deviation, p = exp(-e * e / 2) / root / deviation / (1 - y * y);
    if (p > 0) exact -= p * log(p) * step / 10;
  }
  if (!(fabs(told - exact) < 1e-4)) fail_msg("%.9g, by quadrature %.9g", told, exact);

  for (double z = -3; z < 3; z += 0.37) {
    double h = 1e-3, wide = pbTrain_LogSlope(tanh(z + h)) - pbTrain_LogSlope(tanh(z - h)),
           narrow = pbTrain_LogSlope(tanh(z + h / 2)) - pbTrain_LogSlope(tanh(z - h / 2));
    double limit = (4 * narrow / h - wide / (2 * h)) / 3;
    assert_true(fabs(limit - pbTrain_LogSlopeBar(tanh(z))) < 1e-9);
  }
}

// ---- samples --------------------------------------------------------------------------------------------------------------
static double surrogate(const pbTrain *t, int decision, const double *out) {
  int w = decision / t->settings.window, k = decision % t->settings.window;
  const double *e = pbTrain_Draws(t, w, k), *old = t->mean + (size_t)decision * (size_t)t->explored;
  double now = 0, before = 0, entropy = 0;
  for (int i = 0; i < t->explored; i++) {
    double l = t->theta[t->explore_at + i], deviation = exp(l), past = exp(t->old_log[i]);
    double z = old[i] + past * e[i];
    now += -0.5 * pow((z - out[i]) / deviation, 2) - l;
    before += -0.5 * pow((z - old[i]) / past, 2) - t->old_log[i];
    entropy += l + 0.5 * log(2 * 3.14159265358979323846 * exp(1)) + log(1 - pow(tanh(out[i] + deviation * e[i]), 2) + 1e-6);
  }
  double ratio = exp(now - before), a = t->advantage[decision], c = t->settings.ratio;
  double clipped = fmin(fmax(ratio, 1 - c), 1 + c);
  return fmax(ratio * a, clipped * a) - exp(t->now->log_temperature) * entropy;
}

static void test_samples(void **state) {
  Case c = {.layers = HIDDEN SQUASH,
            .act = ", \"act\": {\"observe\": [{\"qvel\": true}], \"layers\": [{\"dense\": 1}]}",
            .train = "\"method\": \"ppo\", \"noise\": \"learned\", \"entropy\": {\"temperature\": 0.2}, " SMALL};
  pbTrain *t = begun(*state, &c);
  collect_again(t);
  pbRng rng = pbRng_Seed(4);
  int held = 0;
  for (int decision = 0; decision < 20; decision++) {
    t->advantage[decision] = pbRng_Normal(&rng);
    t->mean[decision] = pbRng_Normal(&rng);
    t->old_log[0] = -0.5 + 0.2 * pbRng_Normal(&rng);
    t->theta[t->explore_at] = t->old_log[0] + 0.05 * pbRng_Normal(&rng);
    double out = t->mean[decision] + 0.1 * pbRng_Normal(&rng), bar = 0, log_bar = 0;
    pbTrain_PullSample(t, decision, &out, 1, 1, &bar, &log_bar);

    double by[2][2];
    for (int what = 0; what < 2; what++) {
      for (int wide = 0; wide < 2; wide++) {
        double h = wide ? 2e-4 : 1e-4, side[2], *moved = what ? &t->theta[t->explore_at] : &out, kept = *moved;
        for (int s = 0; s < 2; s++) {
          *moved = kept + (s ? -h : h);
          side[s] = surrogate(t, decision, &out);
        }
        *moved = kept;
        by[what][wide] = (side[0] - side[1]) / (2 * h);
      }
    }
    double mean_limit = (4 * by[0][0] - by[0][1]) / 3, log_limit = (4 * by[1][0] - by[1][1]) / 3;
    if (!(fabs(mean_limit - bar) < 1e-7 * (1 + fabs(bar)) && fabs(log_limit - log_bar) < 1e-7 * (1 + fabs(log_bar))))
      fail_msg("%d: %.9g %.9g, differences %.9g %.9g", decision, bar, log_bar, mean_limit, log_limit);
    held += fabs(log_bar + 0.2) < 0.15;
  }
  assert_true(held < 20);
  pbTrain_Destroy(t);
}

// ---- the same bits ----------------------------------------------------------------------------------------------------------
static const Case runs[] = {
    {.layers = HIDDEN SQUASH, .train = SAPO TWO SMALL, .episode = ENDING},
    {.layers = NORMED "{\"gru\": 5}, {\"dense\": 1}, " SQUASH, .train = "\"method\": \"bptt\", \"noise\": \"learned\", " SMALL},
    {.layers = HIDDEN SQUASH,
     .act = ", \"act\": {\"observe\": [{\"qvel\": true}], \"layers\": [{\"dense\": 1}]}",
     .train = "\"method\": \"ppo\", \"noise\": \"learned\", \"entropy\": {\"temperature\": 0.01}, " SMALL,
     .episode = ENDING},
};

typedef struct Ending {
  double theta[600];
  pbTrainRow rows[12];
} Ending;

static Ending ending(pbTrain *t, const pbTrainResult *result) {
  Ending e = {0};
  assert_true(t->policy_count < 300 && pbTrain_RowCount(t) == 12);
  memcpy(e.theta, result->theta + t->policy_at, t->policy_count * sizeof(double));
  memcpy(e.theta + 300, result->last + t->policy_at, t->policy_count * sizeof(double));
  memcpy(e.rows, pbTrain_Rows(t), sizeof e.rows);
  return e;
}

static void test_same_bits(void **state) {
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    Ending all[3];
    pbTrainResult result;
    for (int k = 0; k < 2; k++) {
      pbTrain *t = load_case(*state, &runs[i]);
      double start = t->task->theta[t->explore_at];
      good(*state, pbTrain_Run(t, &(pbTrainOptions){.threads = k + 1}, &result));
      assert_true(result.last[t->explore_at] != start);
      all[k] = ending(t, &result);
      pbTrain_Destroy(t);
    }

    // in pieces of two updates, each of a process of its own
    char file[160];
    snprintf(file, sizeof file, "%s", path_of("explore.state"));
    unlink(file);
    for (int piece = 1; piece <= 6; piece++) {
      pbTrain *t = load_case(*state, &runs[i]);
      good(*state,
           pbTrain_Run(t, &(pbTrainOptions){.threads = 2, .state_file = file, .resume = true, .updates = 2 * piece}, &result));
      if (piece == 6) all[2] = ending(t, &result);
      pbTrain_Destroy(t);
    }
    assert_memory_equal(all[0].theta, all[1].theta, sizeof all[0].theta);
    assert_memory_equal(all[0].theta, all[2].theta, sizeof all[0].theta);
    assert_memory_equal(all[0].rows, all[1].rows, sizeof all[0].rows);
    assert_memory_equal(all[0].rows, all[2].rows, sizeof all[0].rows);
  }
}

// ---- files ------------------------------------------------------------------------------------------------------------------
// A policy brings its deviation to the next training, whether that learns it or not; outside of a training it acts as without.
static void test_files(void **state) {
  char text[6000], path[160], task[160];
  pbTrainResult result;
  pbTrain *t = load_case(*state, &runs[0]), *next;
  snprintf(path, sizeof path, "%s", path_of("policy.npz"));
  snprintf(task, sizeof task, "%s", path_of("explore.json"));
  good(*state, pbTrain_Run(t, NULL, &result));
  double learned = result.last[t->explore_at];
  good(*state, pbPolicy_Save(*state, pbTrain_Model(t), result.last, path));
  good(*state, pbTrain_Load(*state, task, NULL, path, &next));
  assert_true(next->task->theta[next->explore_at] == learned && learned != log(0.4));
  pbTrain_Destroy(next);

  // the same policy with a deviation that is not learned
  Case fixed = runs[0];
  fixed.train = "\"method\": \"shac\", " TWO SMALL;
  good(*state, pbTrain_Load(*state, write_file("explore.json", text_of(text, sizeof text, &fixed)), NULL, path, &next));
  assert_true(next->task->theta[next->explore_at] == learned);
  good(*state, pbTrain_Run(next, NULL, &result));
  assert_true(result.last[next->explore_at] == learned);
  pbTrain_Destroy(next);

  // as the model of a run has it: no draws, and no column of what it observes is one
  pbModel *run = model_of_text(*state, PENDULUM);
  pbPolicyInfo plain, drawing;
  good(*state, pbPolicy_Load(run, path, NULL));
  assert_true(pbModel_PolicyInfo(run, &plain) && pbModel_PolicyInfo(pbTrain_Model(t), &drawing));
  assert_int_equal(plain.observations + 1, drawing.observations);
  assert_int_equal(plain.params, drawing.params);
  pbModel_Destroy(run);
  pbTrain_Destroy(t);
}

// ---- mistakes -----------------------------------------------------------------------------------------------------------------
static void test_mistakes(void **state) {
  static const struct {
    const char *layers, *train, *words;
  } bad[] = {
      {HIDDEN SQUASH, "\"method\": \"bptt\", \"noise\": \"learnt\"",
       "train.noise: expected a number, or \"learned\", found 'learnt'"},
      {HIDDEN SQUASH, "\"method\": \"bptt\", \"noise\": [1]", "train.noise"},
      {HIDDEN SQUASH, "\"method\": \"bptt\", \"noise\": 0", "train.noise: before a squash: expected a positive number"},
      {HIDDEN SQUASH, "\"method\": \"bptt\", \"last_noise\": 1", "train.last_noise: expected \"noise\""},
      {HIDDEN SQUASH, "\"method\": \"bptt\", \"noise\": \"learned\", \"last_noise\": 1", "train.last_noise: what is learned"},
      {HIDDEN SQUASH, "\"method\": \"es\", \"noise\": \"learned\"", "train.noise: method \"es\" learns from no noise"},
      {HIDDEN "{\"activation\": \"tanh\"}", "\"method\": \"bptt\", \"noise\": \"learned\"",
       "train.noise: the policy has no layer"},
      {HIDDEN "{\"activation\": \"tanh\"}", "\"method\": \"bptt\", \"entropy\": {}", "train.entropy: the policy has no layer"},
      {HIDDEN SQUASH, "\"method\": \"es\", \"entropy\": {}", "train.entropy: method \"es\" has none"},
      {HIDDEN SQUASH, "\"method\": \"shac\", \"entropy\": {\"temprature\": 1}",
       "train.entropy: unknown key 'temprature', did you mean"},
      {HIDDEN SQUASH, "\"method\": \"shac\", \"entropy\": {\"temperature\": 0}", "train.entropy.temperature"},
      {HIDDEN SQUASH, "\"method\": \"shac\", \"entropy\": {\"target\": \"low\"}", "train.entropy.target"},
      {HIDDEN SQUASH, "\"method\": \"shac\", \"entropy\": 0.2", "train.entropy"},
      {HIDDEN SQUASH, "\"method\": \"shac\", \"entropy\": {\"fixed\": true, \"target\": 1}",
       "train.entropy: a fixed temperature has"},
      {HIDDEN "{\"explore\": -1}", "\"method\": \"bptt\"", "layers[3].explore: expected the deviation"},
      {HIDDEN "{\"explore\": true}", "\"method\": \"bptt\"", "layers[3].explore"},
      {HIDDEN "{\"explore\": 1, \"deviation\": 2}", "\"method\": \"bptt\"", "layers[3]: unknown key 'deviation'"},
      {HIDDEN "{\"explore\": 1}, {\"scale\": 2}", "\"method\": \"bptt\"", "behind \"explore\" comes tanh, or nothing"},
      {HIDDEN "{\"sum\": [[{\"dense\": 1}, {\"explore\": 1}], [{\"scale\": 2}]]}", "\"method\": \"bptt\"", "it stands in a sum"},
      {"{\"gru\": 1}, " SQUASH, "\"method\": \"ppo\"", "train.method: ppo needs a policy without memory"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[6000];
    Case c = {.layers = bad[i].layers, .train = bad[i].train};
    refused(*state, text_of(text, sizeof text, &c), bad[i].words);
  }
}

int main(void) {
  snprintf(folder, sizeof folder, "/tmp/pullback-explore-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_gradients, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_draws, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_schedule, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_temperature, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_entropy_is_that_of_the_density, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_samples, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_same_bits, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_files, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
