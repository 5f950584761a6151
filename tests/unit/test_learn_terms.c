// What terms of a training see beside the state, and what is told of each: gradients against differences, columns, mistakes.
#include "learn_cases.h"

// ---- what was asked for, and what was decided ---------------------------------------------------------------------------
// Terms of commands, decisions, the ones before them and the time, beside those of the state, in every type of term.
#define ASKED                                                                                                                    \
  "{\"formula\": \"(v - c)^2 * tanh(1 + t)\", \"inputs\": {\"v\": {\"qvel\": \"swing\"}, \"c\": {\"command\": true, "            \
  "\"components\": [1]}}, \"at\": \"all\", \"weight\": 0.1}, "                                                                   \
  "{\"formula\": \"dot(a - b, a - b)\", \"inputs\": {\"a\": {\"decision\": true}, \"b\": {\"last_decision\": true}}, \"name\": " \
  "\"rate\"}, {\"decision\": true, \"weight\": 0.3}, {\"last_decision\": true, \"type\": \"huber\", \"delta\": 0.05}, "          \
  "{\"decision\": true, \"type\": \"norm\", \"epsilon\": 0.1}, {\"command\": true}, {\"sensor\": true, \"weight\": 0.5}"
#define WIDE  "\"discount\": 0.9, \"worlds\": 24, \"window\": 4, \"updates\": 12"
#define HEARD "{\"command\": 2}, {\"qpos\": \"swing\"}, {\"time\": true}, {\"last\": true}"
static pbTrain *load_asked(pbContext *ctx, const char *loss, const char *policy, const char *method, const char *episode) {
  static const char last[] = "</actuator></mujoco>";
  char text[8000], model[2000];
  pbTrain *t;
  snprintf(model, sizeof model, "%.*s</actuator><sensor><actuatorfrc actuator='motor'/></sensor></mujoco>",
           (int)(strlen(PENDULUM) - strlen(last)), PENDULUM);
  snprintf(
      text, sizeof text,
      "{\"model\": \"%s\", \"policy\": {\"every\": 2, %s}, \"loss\": [%s], \"sample\": {\"command\": [{\"uniform\": [-1, 1]}]}, "
      "\"train\": {%s}, \"episode\": {%s}}",
      model, policy, loss, method, episode);
  good(ctx, pbTrain_Load(ctx, write_file("asked.json", text), NULL, NULL, &t));
  return t;
}

static void test_gradients_of_what_is_asked(void **state) {
  static const char *const policies[] = {
      "\"observe\": [" HEARD "], \"layers\": [{\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1, \"gain\": 0.5}]",
      // with a memory, and of more numbers than one that goes out
      "\"observe\": [" HEARD "], \"layers\": [{\"gru\": 4}, {\"dense\": 1}]",
      // what is decided goes through another function
      "\"observe\": [" HEARD
      "], \"layers\": [{\"dense\": 4, \"activation\": \"tanh\"}, {\"dense\": 2}], \"act\": {\"observe\": "
      "[{\"qpos\": \"swing\"}, {\"qvel\": \"swing\"}], \"layers\": [{\"formula\": [\"x0 - x2 - 0.1*x1*x3\"]}]}"};
  for (int p = 0; p < 3; p++) {
    check_gradient(*state, load_asked(*state, ASKED, policies[p], "\"method\": \"bptt\", " WIDE, EPISODE), false, false);
    check_gradient(*state, load_asked(*state, ASKED, policies[p], "\"method\": \"shac\", " WIDE, ENDING), true, true);
  }
}

// What was decided last is zero where an episode begins, in the middle of a window too; the clock is that of the episode.
static void test_what_is_asked(void **state) {
  static const pbTrainOptions none;
  const char *const policy = "\"observe\": [" HEARD "], \"layers\": [{\"dense\": 1}]";
  pbTrain *t =
      load_asked(*state,
                 "{\"formula\": \"t + 10*c + 100*a + 1000*b\", \"inputs\": {\"c\": {\"command\": true, \"components\": [0]}, "
                 "\"a\": {\"decision\": true}, \"b\": {\"last_decision\": true}}}",
                 policy, "\"method\": \"ppo\", \"noise\": 0.3, " WIDE, ENDING);
  int began = 0, window = t->settings.window;
  t->options = &none;
  good(*state, pbTrain_Begin(t, 1));
  size_t held = (size_t)t->nx - 2;
  for (int round = 0; round < 3; round++) {
    good(*state, pbTrain_Collect(t));
    good(*state, pbTrain_Observe(t));
    for (int w = 0; w < t->settings.worlds; w++) {
      for (int k = 0; k < t->length[w]; k++) {
        const double *seen = t->observed + (size_t)(w * (window + 1) + k) * (size_t)t->nobs;
        double decided = t->row_states[(size_t)(w * (window + 1) + k + 1) * (size_t)t->nx + held],
               cost = t->costs[w * window + k];
        double expected = seen[3] + 0.02 + 10 * seen[0] + 100 * decided + 1000 * seen[4];
        if (!(fabs(cost - expected) < 1e-9)) fail_msg("world %d, decision %d: %.12g, expected %.12g", w, k, cost, expected);
        bool anew = k > 0 && pbTrain_Ended(t, w, k - 1);
        began += anew;
        if (anew) assert_true(seen[3] == 0 && seen[4] == 0);
      }
    }
    pbTrain_Advance(t);
  }
  assert_true(began > 0);

  // an evaluation sees its own: commands of its starts, no noise
  double score, alive, x0[20], command[2];
  good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score, &alive));
  pbTrain_EvaluationStart(t, 2, x0, command);
  assert_true(isfinite(score) && fabs(command[0]) <= 1);
  pbTrain_Destroy(t);
}

// ---- terms by themselves ----------------------------------------------------------------------------------------------
#define TOLD                                                                                                         \
  "{\"name\": \"up\", \"site\": \"tip\", \"components\": [2], \"target\": 0.4}, "                                    \
  "{\"name\": \"slow, please\", \"qvel\": true, \"weight\": 0.01, \"schedule\": {\"from\": -0.03, \"begin\": 0.25, " \
  "\"end\": 0.75}}, {\"decision\": true, \"name\": \"up\", \"weight\": 0.1}"
static double weight_after(pbTrain *t, double fraction) {
  good(t->ctx, pbTrain_Ramp(t, fraction));
  return t->cost.terms[1].weight;
}

// Weights go on a line; what terms cost adds up to the loss; evaluations have the task's own weights, and count who arrives.
static void test_terms_by_themselves(void **state) {
  static const char *const told[] = {"\"method\": \"shac\", " SMALL, "\"method\": \"ppo\", " SMALL,
                                     "\"method\": \"es\", \"population\": 4, " SMALL};
  const char *const policy = "\"observe\": [" HEARD "], \"layers\": [{\"dense\": 1}]";
  for (int m = 0; m < 3; m++) {
    pbTrain *t = load_asked(
        *state, TOLD, policy, told[m],
        "\"seconds\": 0.4, \"spread\": {\"qvel\": 1}, \"success\": [{\"qvel\": true, \"type\": \"above\", \"target\": -1}]");
    pbTrainOptions options = {.threads = 1};
    pbTrainResult result;
    char name[160];
    good(*state, pbTrain_Run(t, &options, &result));
    assert_true(fabs(weight_after(t, 0.2) + 0.03) < 1e-15 && fabs(weight_after(t, 0.5) + 0.01) < 1e-15);
    assert_true(weight_after(t, 0.75) == 0.01 && weight_after(t, 1) == 0.01);

    assert_int_equal(pbTrain_ColumnCount(t), PB_TRAIN_COLUMNS + 6);
    assert_string_equal(pbTrain_ColumnName(t, PB_TRAIN_COLUMNS + 2, name, sizeof name), "loss:slow, please");
    assert_string_equal(pbTrain_ColumnName(t, PB_TRAIN_COLUMNS + 5, name, sizeof name), "evaluated:up 2");
    assert_string_equal(pbTrain_ColumnName(t, PB_TRAIN_COLUMNS + 6, name, sizeof name), "");
    assert_true(isnan(pbTrain_Number(t, 12, 0)) && isnan(pbTrain_Number(t, 0, PB_TRAIN_COLUMNS + 6)));

    for (int i = 0; i < 12; i++) {
      double sum[2] = {0, 0};
      for (int k = 0; k < 6; k++) sum[k % 2] += pbTrain_Number(t, i, PB_TRAIN_COLUMNS + k);
      const pbTrainRow *row = &pbTrain_Rows(t)[i];
      if (m < 2) assert_true(fabs(sum[0] - row->cost) < 1e-12);
      else assert_true(isnan(sum[0]) && isfinite(row->cost));

      // every third is judged
      assert_true(isfinite(row->score) == (i % 3 == 2) && isnan(sum[1]) == isnan(row->score) &&
                  isnan(row->success) == isnan(row->score));
      if (isfinite(row->score))
        assert_true(fabs(sum[1] - row->score) < 1e-12 && fabs(row->length - 0.4) < 1e-12 && row->success >= 0 &&
                    row->success <= 1);
    }
    assert_true(result.length > 0.39 && result.success >= 0);

    // at rest below all of them arrive, thrown down none
    double score, alive;
    for (int fast = 0; fast < 2; fast++) {
      for (int i = 0; i < t->nt; i++) t->spread[i] = 0;
      t->end.count = 0;
      t->success.terms[0].target[0] = fast ? 1e3 : -1e3;
      good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score, &alive));
      assert_true(t->success_rate == (fast ? 0 : 1));
    }
    pbTrain_Destroy(t);
  }
}

// ---- mistakes ---------------------------------------------------------------------------------------------------------
static void test_mistakes(void **state) {
  char text[6000];
  static const char *const terms[][2] = {
      {"{\"command\": true}", "loss[0].command: the policy observes no commands"},
      {"{\"decision\": [0]}", "loss[0].decision: expected true; \"components\" chooses"},
      {"{\"decision\": true, \"components\": [1]}", "loss[0].components"},
      {"{\"last\": true}", "loss[0]: unknown key 'last'"},
      {"{\"formula\": \"a\", \"inputs\": {\"a\": {\"decisoin\": true}}}",
       "loss[0].inputs.a: unknown key 'decisoin', did you mean 'decision'"},
      {"{\"decision\": true, \"target\": [1, 2]}", "loss[0].target"},
      {"{\"qvel\": true, \"schedule\": 1}", "loss[0].schedule"},
      {"{\"qvel\": true, \"schedule\": {\"begin\": 0}}", "loss[0].schedule: \"from\" is missing"},
      {"{\"qvel\": true, \"schedule\": {\"from\": 1, \"ends\": 1}}", "loss[0].schedule: unknown key 'ends', did you mean 'end'?"},
      {"{\"qvel\": true, \"schedule\": {\"from\": 1, \"end\": 2}}", "loss[0].schedule: expected 0 <= begin <= end <= 1"},
      {"{\"qvel\": true, \"schedule\": {\"from\": \"a\"}}", "loss[0].schedule.from"},
  };
  for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
    snprintf(text, sizeof text, "{\"model\": \"%s\", \"policy\": %s, \"loss\": [%s], \"train\": {\"method\": \"shac\"}}",
             PENDULUM, POLICY, terms[i][0]);
    refused(*state, text, terms[i][1]);
  }
}

int main(void) {
  snprintf(folder, sizeof folder, "/tmp/pullback-learn-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_gradients_of_what_is_asked, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_what_is_asked, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_terms_by_themselves, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
