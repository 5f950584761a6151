// Critics that see what their policy does not: gradients of windows with such a critic behind them against Richardson's
// differences, what stands in its columns, its own normalizer, the same bits, what a policy's file has of it, mistakes.
#include "learn_cases.h"

// The policy sees less than the state; DRAWN: a mass in each world and episode.
#define LITTLE \
  "\"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"time\": true}, {\"time\": true}, {\"last\": true}]"
#define BLIND "\"observe\": [{\"time\": true}, {\"time\": true}, {\"time\": true}, {\"time\": true}, {\"last\": true}]"
#define LAYERS \
  "\"layers\": [{\"normalize\": true}, {\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1, \"activation\": \"tanh\"}]"
#define DRAWING                                                                                                       \
  "\"layers\": [{\"normalize\": true}, {\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1}, {\"explore\": 0.4}, " \
  "{\"activation\": \"tanh\"}]"
#define ACTING ", \"act\": {\"observe\": [{\"qvel\": true}, {\"time\": true}], \"layers\": [{\"dense\": 1}]}"
#define SEEN   "\"observe\": [{\"qvel\": true, \"scale\": 0.2}, {\"site_position\": \"tip\", \"components\": [2, 0]}]"
#define MASS   ", \"sample\": {\"parameters\": [{\"parameter\": \"body_mass:arm\", \"uniform\": [0.5, 1.5]}]}"
#define SHAC   "\"method\": \"shac\", \"discount\": 0.9, "
#define MANY   "\"worlds\": 24, \"window\": 4, \"updates\": 12"

typedef struct Case {
  const char *policy, *train, *episode, *sample;
  int inputs;
  bool ends;
} Case;

static const char *text_of(char *text, size_t size, const Case *c) {
  snprintf(text, size,
           "{\"model\": \"%s\", \"policy\": {\"every\": 2, %s}, \"loss\": " LOSS ", \"train\": {%s}, \"episode\": {%s}%s}",
           PENDULUM, c->policy, c->train, c->episode ? c->episode : EPISODE, c->sample ? c->sample : "");
  return text;
}

static pbTrain *load_case(pbContext *ctx, const Case *c, const char *policy) {
  char text[6000];
  pbTrain *t;
  good(ctx, pbTrain_Load(ctx, write_file("seen.json", text_of(text, sizeof text, c)), NULL, policy, &t));
  return t;
}

static const pbTrainOptions none;

// ---- gradients ----------------------------------------------------------------------------------------------------------
static double difference(pbTrain *t, double h) {
  double side[2];
  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] += (k ? -2 : 1) * h * cos((double)i);
    side[k] = objective(t, true);
  }
  for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] += h * cos((double)i);
  return (side[0] - side[1]) / (2 * h);
}

static void check_case(pbContext *ctx, const Case *c, int number) {
  pbTrain *t = load_case(ctx, c, NULL);
  t->options = &none;
  good(ctx, pbTrain_Begin(t, 2));
  assert_int_equal(t->critic_inputs, c->inputs);
  objective(t, true);
  good(ctx, pbTrain_Normalize(t));
  pbTrain_Advance(t);

  // a critic that is far from flat
  for (size_t i = 0; i < t->head_critic.unknowns; i++) t->critic_slow[t->head_critic.index[i]] += 0.3 * sin((double)i);
  assert_true(isfinite(objective(t, true)));
  int ended = 0;
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k < t->settings.window - 1; k++) ended += pbTrain_Ended(t, w, k);
  }
  assert_true((ended > 0) == c->ends);
  good(ctx, pbTrain_Gradient(t, true));

  double slope = 0, size = 0;
  for (size_t i = 0; i < t->unknowns; i++) {
    slope += t->theta_bar[t->unknown[i]] * cos((double)i);
    size += fabs(t->theta_bar[t->unknown[i]]);
  }
  double wide = difference(t, 1e-4), narrow = difference(t, 5e-5), limit = (4 * narrow - wide) / 3;
  if (!(fabs(limit - slope) < 1e-7 * size)) fail_msg("case %d: gradient %.12g, differences %.12g", number, slope, limit);

  // without what follows the window it would be another
  good(ctx, pbTrain_Gradient(t, false));
  double without = 0;
  for (size_t i = 0; i < t->unknowns; i++) without += t->theta_bar[t->unknown[i]] * cos((double)i);
  assert_true(fabs(without - slope) > 1e-3 * size);
  pbTrain_Destroy(t);
}

static const Case cases[] = {
    {.policy = LITTLE ", " LAYERS, .train = SHAC "\"critic\": {" SEEN "}, " SMALL, .inputs = 5 + 3},
    {.policy = LITTLE ", " LAYERS, .train = SHAC "\"critic\": {" SEEN ", \"alone\": true}, " SMALL, .inputs = 3},
    {.policy = BLIND ", " LAYERS, .train = SHAC "\"critic\": {" SEEN ", \"count\": 2}, " SMALL, .inputs = 5 + 3},
    {.policy = LITTLE ", " LAYERS ACTING, .train = SHAC "\"critic\": {" SEEN ", \"alone\": true}, " SMALL, .inputs = 3},
    {.policy = LITTLE ", " DRAWING ACTING, .train = SHAC "\"critic\": {" SEEN "}, " SMALL, .inputs = 5 + 3},
    {.policy = LITTLE ", " LAYERS ACTING,
     .train = SHAC "\"critic\": {" SEEN ", \"drawn\": true}, " MANY,
     .sample = MASS,
     .episode = ENDING,
     .inputs = 5 + 3 + 1,
     .ends = true},
    {.policy = LITTLE ", " DRAWING,
     .train = SHAC "\"noise\": \"learned\", \"critic\": {\"drawn\": true}, " SMALL,
     .sample = MASS,
     .inputs = 6},
};
enum { CASES = sizeof cases / sizeof *cases };

static void test_gradients(void **state) {
  for (int i = 0; i < CASES; i++) check_case(*state, &cases[i], i);
}

// ---- columns --------------------------------------------------------------------------------------------------------------
static void test_columns(void **state) {
  pbTrain *t = load_case(*state, &cases[5], NULL);
  t->options = &none;
  good(*state, pbTrain_Begin(t, 1));
  good(*state, pbTrain_Collect(t));
  good(*state, pbTrain_Observe(t));
  double mean[9] = {0}, count = 0, square[9] = {0};
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 0; k <= t->length[w]; k++) {
      const double *row = t->observed + (size_t)(w * (t->settings.window + 1) + k) * (size_t)t->nobs, *x = pbTrain_Began(t, w, k),
                   *theta;
      double seen[9];
      for (int i = 0; i < 9; i++) seen[i] = row[t->critic_column[i]];

      // time, angle, velocity: of the state; the mass: of the world
      assert_true(fabs(seen[0] - cos(x[1])) < 1e-14 || fabs(seen[0] + cos(x[1])) < 1e-14);
      assert_true(seen[2] == x[0] && seen[4] == x[t->nx - 2] && seen[5] == 0.2 * x[2]);
      assert_true(fabs(seen[6] + 0.4 * cos(x[1])) < 1e-14 && fabs(fabs(seen[7]) - fabs(0.4 * sin(x[1]))) < 1e-14);
      good(*state, pbTrain_ThetaAt(t, w, k, &theta));
      assert_true(seen[8] == theta[t->own_at[0]] && seen[8] >= 0.5 && seen[8] <= 1.5);
      if (k == t->length[w]) continue;
      count++;
      for (int i = 0; i < 9; i++) mean[i] += seen[i];
      for (int i = 0; i < 9; i++) square[i] += seen[i] * seen[i];
    }
  }

  // its normalizer, and not the policy's
  good(*state, pbTrain_Normalize(t));
  for (int i = 0; i < 9; i++) {
    double m = mean[i] / count, variance = square[i] / count - m * m;
    assert_true(fabs(t->critic_param[t->critic_mean_at + i] - m) < 1e-12);
    assert_true(fabs(pow(t->critic_slow[t->critic_deviation_at + i], 2) - variance - 1e-5) < 1e-11);
  }
  assert_true(t->now->seen == count && t->theta[t->mean_at] == t->stat_mean[0]);
  pbTrain_Destroy(t);
}

// ---- the same bits, files -----------------------------------------------------------------------------------------------------
typedef struct Ending {
  double theta[200];
  pbTrainRow rows[12];
} Ending;

static Ending ending(const pbTrain *t, const pbTrainResult *result) {
  Ending e = {0};
  assert_true(t->policy_count < 100);
  memcpy(e.theta, result->theta + t->policy_at, t->policy_count * sizeof(double));
  memcpy(e.theta + 100, result->last + t->policy_at, t->policy_count * sizeof(double));
  memcpy(e.rows, pbTrain_Rows(t), sizeof e.rows);
  return e;
}

static void test_same_bits(void **state) {
  const Case ppo = {.policy = LITTLE ", " LAYERS,
                    .train = "\"method\": \"ppo\", \"critic\": {" SEEN ", \"drawn\": true}, " SMALL,
                    .sample = MASS,
                    .episode = ENDING};
  const Case *runs[] = {&cases[5], &ppo};
  for (int i = 0; i < 2; i++) {
    Ending all[3];
    pbTrainResult result;
    for (int k = 0; k < 2; k++) {
      pbTrain *t = load_case(*state, runs[i], NULL);
      good(*state, pbTrain_Run(t, &(pbTrainOptions){.threads = k + 1}, &result));
      all[k] = ending(t, &result);
      pbTrain_Destroy(t);
    }
    char file[160];
    snprintf(file, sizeof file, "%s", path_of("seen.state"));
    unlink(file);
    for (int piece = 1; piece <= 6; piece++) {
      pbTrain *t = load_case(*state, runs[i], NULL);
      good(*state,
           pbTrain_Run(t, &(pbTrainOptions){.threads = 2, .state_file = file, .resume = true, .updates = 2 * piece}, &result));
      if (piece == 6) all[2] = ending(t, &result);
      pbTrain_Destroy(t);
    }
    assert_memory_equal(&all[0], &all[1], sizeof all[0]);
    assert_memory_equal(&all[0], &all[2], sizeof all[0]);
  }
}

static void test_files(void **state) {
  char path[160], text[6000];
  pbTrainResult result;
  pbTrain *t = load_case(*state, &cases[0], NULL), *next;
  snprintf(path, sizeof path, "%s", path_of("policy.npz"));
  good(*state, pbTrain_Run(t, NULL, &result));
  good(*state, pbPolicy_Save(*state, pbTrain_Model(t), result.theta, path));

  // goes on with critic and statistics
  next = load_case(*state, &cases[0], path);
  next->options = &none;
  good(*state, pbTrain_Begin(next, 1));
  assert_true(next->now->seen == t->now->best_seen && next->given.critic);
  for (int i = 0; i < 8; i++) {
    double deviation = next->critic_param[next->critic_deviation_at + i];
    assert_true(next->seen_mean[i] == next->critic_param[next->critic_mean_at + i]);
    assert_true(fabs(next->seen_square[i] + 1e-5 - deviation * deviation) < 1e-14);
  }
  pbTrain_Destroy(next);

  // one that sees other things is another
  assert_int_equal(pbTrain_Load(*state, write_file("other.json", text_of(text, sizeof text, &cases[1])), NULL, path, &next),
                   pb_bad_input);
  if (!strstr(pbContext_Error(*state), "train.critic: a critic of other layers")) fail_msg("%s", pbContext_Error(*state));

  // and a model outside of trainings sees what it saw
  pbModel *run = model_of_text(*state, PENDULUM);
  pbPolicyInfo info;
  good(*state, pbPolicy_Load(run, path, NULL));
  assert_true(pbModel_PolicyInfo(run, &info));
  assert_int_equal(info.observations, 5);
  pbModel_Destroy(run);
  pbTrain_Destroy(t);
}

// ---- mistakes -----------------------------------------------------------------------------------------------------------------
static void test_mistakes(void **state) {
  static const struct {
    const char *critic, *words;
  } bad[] = {
      {"\"observe\": true", "train.critic.observe: expected a list of rows"},
      {"\"observe\": []", "train.critic.observe: expected a list of rows"},
      {"\"observe\": [{\"qpso\": true}]", "train.critic.observe[0]"},
      {"\"observe\": [{\"qvel\": true}, {\"qvel\": \"hip\"}]", "train.critic.observe[1].qvel"},
      {"\"observe\": [{\"qvel\": true, \"components\": [1]}]", "train.critic.observe[0].qvel.components"},
      {"\"observe\": [{\"command\": 2}]", "train.critic.observe: a critic hears the commands of its policy, which are 0"},
      {"\"observe\": [{\"qvel\": true}], \"alone\": 1", "train.critic.alone"},
      {"\"alone\": true", "train.critic.alone: expected \"observe\" beside it"},
      {"\"drawn\": true", "train.critic.drawn: \"sample\" draws no parameters"},
      {"\"drawn\": \"mass\"", "train.critic.drawn"},
      {"\"obsreve\": []", "train.critic: unknown key 'obsreve', did you mean 'observe'?"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[6000], train[300];
    snprintf(train, sizeof train, "\"method\": \"shac\", \"critic\": {%s}", bad[i].critic);
    refused(*state, text_of(text, sizeof text, &(Case){.policy = LITTLE ", " LAYERS, .train = train}), bad[i].words);
  }
}

int main(void) {
  snprintf(folder, sizeof folder, "/tmp/pullback-seen-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_gradients, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_columns, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_same_bits, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_files, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
