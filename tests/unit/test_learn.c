// Training: gradients of a window against differences, targets against their definition, the same bits for any number of threads
// and after any interruption, and mistakes in files.
#include "learn_cases.h"

// ---- gradients --------------------------------------------------------------------------------------------------------
// What a policy did last: with the noise, divided by how much of an output goes out; and what it would be without.
static void test_noise_is_heard(void **state) {
  pbTrain *t = load(*state, "\"method\": \"ppo\", \"noise\": 0.2, " SMALL, EPISODE);
  pbTrainOptions options = {.threads = 1};
  t->options = &options;
  good(*state, pbTrain_Begin(t, 1));
  pbPolicyModel *policy = t->task->model->policy;
  assert_true(policy->hears && policy->held == 1 && policy->every == 2);

  size_t held = (size_t)t->nx - 2, last = (size_t)t->nobs - 1;  // in a state, before the count; in an observation
  double heard[5], out[5];
  collect_again(t);
  for (size_t w = 0; w < 5; w++) {
    for (size_t k = 1; k <= 4; k++) {
      size_t row = w * 5 + k;
      assert_true(t->observed[row * (size_t)t->nobs + last] == t->row_states[row * (size_t)t->nx + held]);
    }
    heard[w] = t->row_states[(w * 5 + 1) * (size_t)t->nx + held];
  }

  policy->hears = false;
  collect_again(t);
  for (size_t w = 0; w < 5; w++) {
    out[w] = t->row_states[(w * 5 + 1) * (size_t)t->nx + held];
    double noise = t->ctrl[w * (size_t)t->steps] / policy->target[0].scale;
    assert_true(fabs(noise) > 1e-4 && fabs(heard[w] - out[w] - noise) < 1e-15);
  }
  pbTrain_Destroy(t);
}

static void test_gradients(void **state) {
  pbContext *ctx = *state;
  check_gradient(ctx, load(ctx, "\"method\": \"bptt\", \"discount\": 0.9, " SMALL, EPISODE), false, false);
  check_gradient(ctx, load(ctx, "\"method\": \"shac\", \"discount\": 0.9, " SMALL, EPISODE), true, false);
  check_gradient(ctx, load(ctx, "\"method\": \"shac\", \"critic\": {\"count\": 2}, " SMALL, EPISODE), true, false);

  // episodes that end before their time: nothing of what follows is theirs
  check_gradient(ctx,
                 load(ctx, "\"method\": \"shac\", \"discount\": 0.9, \"worlds\": 24, \"window\": 4, \"updates\": 12", ENDING),
                 true, true);
}

// Points in the loss, in what policy and critic see, and in starts; muscles change by what is put out, from what was last.
#define STRIP_BODY                                                                                                      \
  "\"name\": \"strip\", \"mesh\": {\"chain\": {\"from\": [0, 0, 0], \"to\": [0.4, 0, 0], \"edges\": 3}}, \"mass\": 1, " \
  "\"sets\": {\"head\": 3}, \"energies\": [{\"name\": \"muscle\", \"on\": \"edges\", \"controls\": [\"a\"], "           \
  "\"formula\": \"0.5*k*(norm(x0 - x1) - norm(X0 - X1)*(1 + a))^2\", "                                                  \
  "\"parameters\": {\"k\": 500, \"a\": {\"each\": [0, 0, 0]}}}, "                                                       \
  "{\"name\": \"ground\", \"formula\": \"0.5*c*(1 + x0.x)*norm(x0 - y0)^2/h\", \"parameters\": {\"c\": 2}}]"
#define STRIP_POLICY                                                                                                        \
  "\"observe\": [{\"points\": true, \"as\": \"offset\"}, {\"point_velocity\": true}, {\"last\": true}, {\"time\": true}], " \
  "\"layers\": [{\"sum\": [[{\"formula\": [\"x24\", \"x25\", \"x26\"]}], "                                                  \
  "[{\"dense\": 5, \"activation\": \"tanh\"}, {\"dense\": 3, \"activation\": \"tanh\"}, {\"scale\": 0.1}]]}]"
#define STRIP_LOSS                                                                                     \
  "{\"point_velocity\": \"strip_head\", \"components\": [0], \"type\": \"linear\", \"at\": \"all\"}, " \
  "{\"points\": \"strip\", \"target\": 0.1, \"at\": \"all\"}"
static void test_gradients_of_points(void **state) {
  char text[6000];
  for (int critic = 0; critic < 2; critic++) {
    pbTrain *t;
    snprintf(text, sizeof text,
             "{\"deformables\": {\"bodies\": [{" STRIP_BODY
             "}]}, \"options\": {\"timestep\": 0.01, \"gravity\": [0, 0, 0]}, "
             "\"sample\": {\"init\": [{\"state\": \"point_velocity\", \"uniform\": [-0.1, 0.1]}]}, \"policy\": {" STRIP_POLICY
             "}, \"loss\": [" STRIP_LOSS "], \"train\": {\"method\": \"%s\", \"discount\": 0.9, " SMALL
             "}, \"episode\": {\"seconds\": 0.1}}",
             critic ? "shac" : "bptt");
    good(*state, pbTrain_Load(*state, write_file("strip.json", text), NULL, NULL, &t));
    check_gradient(*state, t, critic, false);
  }
}

// ---- targets ----------------------------------------------------------------------------------------------------------
// By the definition: returns over n decisions, weighed.
static void test_targets(void **state) {
  (void)state;
  enum { n = 7 };
  pbTrainSettings s = {.discount = 0.9, .lambda = 0.7};
  double cost[n], next[n], target[n];
  bool ended[n] = {[3] = true};
  for (int k = 0; k < n; k++) {
    cost[k] = sin(k + 1.0);
    next[k] = cos(2.0 * k);
  }
  pbTrain_Targets(&s, n, cost, next, ended, target);

  for (int k = 0; k < n; k++) {
    double expected = 0, left = 1, sum = 0, factor = 1;
    for (int j = k; j < n; j++) {
      bool last = j == n - 1 || ended[j];
      sum += factor * cost[j];
      factor *= s.discount;
      double whole = sum + (ended[j] ? 0 : factor * next[j]), weight = last ? left : (1 - s.lambda) * left;
      expected += weight * whole;
      left *= s.lambda;
      if (ended[j]) break;
    }
    assert_true(fabs(target[k] - expected) < 1e-14);
  }
}

// ---- the same bits ----------------------------------------------------------------------------------------------------
#define RAMP(from) "\"ramps\": [{\"parameters\": [\"dof_damping:swing\"], \"from\": " from ", \"begin\": 0.25, \"end\": 0.75}]"
static const char *const methods[] = {"\"method\": \"bptt\", \"noise\": 0.2",
                                      "\"method\": \"shac\", \"critic\": {\"rounds\": 2}, " RAMP("0.5"),
                                      "\"method\": \"ppo\", \"critic\": {\"rounds\": 2}", "\"method\": \"es\", \"population\": 4",
                                      "\"method\": \"sep-cma\", \"population\": 4"};
enum { METHODS = sizeof methods / sizeof *methods };

static const char *settings_of(char *text, size_t size, int method) {
  snprintf(text, size, "%s, %s", methods[method], SMALL);
  return text;
}

// Numbers that a training ends with: the best and last policies, and all rows of its table.
typedef struct Ending {
  double *theta;
  size_t count;
  pbTrainRow rows[12];
} Ending;

static void keep_ending(const pbTrain *t, const pbTrainResult *result, Ending *e) {
  e->count = 2 * pbModel_ParamSize(pbTrain_Model(t));
  e->theta = malloc(e->count * sizeof(double));
  memcpy(e->theta, result->theta, e->count / 2 * sizeof(double));
  memcpy(e->theta + e->count / 2, result->last, e->count / 2 * sizeof(double));
  assert_int_equal(pbTrain_RowCount(t), 12);
  memcpy(e->rows, pbTrain_Rows(t), sizeof e->rows);
}

static Ending run(pbContext *ctx, int method, int threads) {
  char text[400];
  pbTrain *t = load(ctx, settings_of(text, sizeof text, method), ENDING);
  pbTrainOptions options = {.threads = threads};
  pbTrainResult result;
  Ending e;
  good(ctx, pbTrain_Run(t, &options, &result));
  assert_int_equal(result.updates, 12);
  keep_ending(t, &result, &e);
  pbTrain_Destroy(t);
  return e;
}

typedef struct Stopper {
  int calls, after;
} Stopper;
static int stop_after(void *user, const pbTrainNews *news) {
  (void)news;
  Stopper *s = user;
  return ++s->calls >= s->after;
}

// Stopped again and again, each time in a new training, as if the process had been another.
static Ending run_in_pieces(pbContext *ctx, int method, int threads) {
  char text[400];
  char file[160];
  snprintf(file, sizeof file, "%s", path_of("run.state"));
  unlink(file);
  Ending e = {0};
  for (int piece = 1; piece < 100; piece++) {
    pbTrain *t = load(ctx, settings_of(text, sizeof text, method), ENDING);
    Stopper stopper = {0, 1 << 20};
    pbTrainOptions options = {
        .threads = threads, .state_file = file, .resume = true, .progress = stop_after, .user = &stopper, .updates = 2 * piece};
    pbTrainResult result;
    good(ctx, pbTrain_Run(t, &options, &result));
    bool whole = result.updates == 12;
    if (whole) keep_ending(t, &result, &e);
    pbTrain_Destroy(t);
    if (whole) return e;
  }
  fail();
  return e;
}

static void assert_same(const Ending *a, const Ending *b) {
  assert_memory_equal(a->theta, b->theta, a->count * sizeof(double));
  assert_memory_equal(a->rows, b->rows, sizeof a->rows);
}

static void test_same_bits(void **state) {
  for (int method = 0; method < METHODS; method++) {
    Ending one = run(*state, method, 1), two = run(*state, method, 2), pieces = run_in_pieces(*state, method, 2);
    assert_same(&one, &two);
    assert_same(&one, &pieces);
    assert_true(one.rows[11].steps > one.rows[10].steps && isfinite(one.rows[11].score));

    // something was learned, or tried: the last policy is not the first
    pbTrain *t = load(*state, methods[0], EPISODE);
    assert_int_equal(pbTrain_Worlds(t), t->settings.worlds);
    assert_true(memcmp(one.theta + one.count / 2, pbModel_DefaultParams(pbTrain_Model(t)), one.count / 2 * sizeof(double)) != 0);
    pbTrain_Destroy(t);
    free(one.theta);
    free(two.theta);
    free(pieces.theta);
  }
}

// What a ramp makes easier is the task's own in the end, and in all that is given out.
static double damping(const pbTrain *t, const double *theta) {
  pbParam p;
  good(t->ctx, pbModel_Param(t->ctx, pbTrain_Model(t), "dof_damping:swing", &p));
  return theta[p.offset];
}

static void test_ramps(void **state) {
  pbTrain *t = load(*state, "\"method\": \"bptt\", " RAMP("0.5") ", " SMALL, EPISODE);
  static const struct {
    double fraction, expected;
  } cases[] = {{0, 0.5}, {0.25, 0.5}, {0.5, 0.1}, {0.625, 0.044721359549995794}, {0.75, 0.02}, {1, 0.02}};
  pbTrainOptions options = {.threads = 1};
  pbTrainResult result;
  t->options = &options;
  good(*state, pbTrain_Begin(t, 1));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    good(*state, pbTrain_Ramp(t, cases[i].fraction));
    assert_true(fabs(damping(t, t->theta) - cases[i].expected) < 1e-15);
  }

  // another first update, judged by the same physics
  double score, alive, cost;
  good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score, &alive));
  options.updates = 1;
  good(*state, pbTrain_Run(t, &options, &result));
  assert_true(result.first_score == score);
  assert_true(damping(t, result.theta) == 0.02 && damping(t, result.last) == 0.02);
  cost = pbTrain_Rows(t)[0].cost;
  pbTrain_Destroy(t);
  t = load(*state, "\"method\": \"bptt\", " SMALL, EPISODE);
  good(*state, pbTrain_Run(t, &options, &result));
  assert_true(result.first_score == score && pbTrain_Rows(t)[0].cost != cost);
  pbTrain_Destroy(t);
}

// An interruption in the middle of an update loses that update alone.
static void test_interrupted(void **state) {
  char text[400];
  char file[160];
  snprintf(file, sizeof file, "%s", path_of("stop.state"));
  Ending whole = run(*state, 1, 2), e = {0};
  for (int piece = 0; piece < 400 && !e.theta; piece++) {
    pbTrain *t = load(*state, settings_of(text, sizeof text, 1), ENDING);
    Stopper stopper = {0, 2 + piece % 7};
    pbTrainOptions options = {.threads = 2, .state_file = file, .resume = true, .progress = stop_after, .user = &stopper};
    pbTrainResult result;
    t->often = true;  // told at every occasion, so that it may stop anywhere
    pbStatus status = pbTrain_Run(t, &options, &result);
    if (status == pb_ok) keep_ending(t, &result, &e);
    else assert_int_equal(status, pb_interrupted);
    pbTrain_Destroy(t);
  }
  assert_non_null(e.theta);
  assert_same(&whole, &e);
  free(whole.theta);
  free(e.theta);
}

// ---- mistakes ---------------------------------------------------------------------------------------------------------
static void test_mistakes(void **state) {
  static const struct {
    const char *train, *episode, *words;
  } cases[] = {
      {"\"updates\": 3", "", "train: \"method\" is missing"},
      {"\"method\": \"shak\"", "", "train.method: expected bptt, shac, ppo, es or sep-cma, found 'shak', did you mean 'shac'?"},
      {"\"method\": \"shac\", \"world\": 3", "", "train: unknown key 'world', did you mean 'worlds'?"},
      {"\"method\": \"bptt\", \"critic\": {}", "", "train.critic: method \"bptt\" has none"},
      {"\"method\": \"shac\", \"critic\": {\"layers\": [{\"dense\": 2}]}", "", "train.critic.layers: a critic has one output"},
      {"\"method\": \"shac\", \"sigma\": 1", "", "train.sigma: method \"shac\" has none"},
      {"\"method\": \"es\", \"rounds\": 2", "", "train.rounds: method \"es\" has none"},
      {"\"method\": \"es\", \"population\": 5", "", "train.population: method \"es\" takes pairs"},
      {"\"method\": \"sep-cma\", \"population\": 2", "", "train.population: expected a whole number from 4"},
      {"\"method\": \"shac\", \"worlds\": 0", "", "train.worlds: expected a whole number from 1"},
      {"\"method\": \"ppo\", \"noise\": 0", "", "train.noise: ppo learns from the noise alone"},
      {"\"method\": \"shac\", \"ramps\": [{\"from\": 1}]", "", "train.ramps.parameters: expected a list of names"},
      {"\"method\": \"shac\", \"ramps\": [{\"parameters\": [\"dof_dampin:swing\"], \"from\": 1}]", "",
       "did you mean 'dof_damping'"},
      {"\"method\": \"shac\", \"ramps\": [{\"parameters\": [\"timestep\"], \"from\": 1}]", "",
       "or the time step, found 'timestep'"},
      {"\"method\": \"shac\", " RAMP("-1"), "",
       "train.ramps.from: expected a number of the sign of the task's dof_damping:swing"},
      {"\"method\": \"shac\", \"ramps\": [{\"begin\": 0.5, \"end\": 0.4}]", "", "expected 0 <= begin <= end <= 1"},
      {"\"method\": \"shac\"", "\"seconds\": 0", "episode.seconds: expected a positive number"},
      {"\"method\": \"shac\"", "\"spread\": {\"qpos\": -1}", "episode.spread: expected numbers from 0 on"},
      {"\"method\": \"shac\"", "\"success\": 3", "episode.success: expected a list of terms"},
      {"\"method\": \"shac\"", "\"success\": [{\"qvell\": true}]", "episode.success[0]: unknown key 'qvell'"},
      {"\"method\": \"shac\"", "\"done\": [{\"qvel\": true, \"schedule\": {\"from\": 1}}]",
       "episode.done[0].schedule: only terms of the loss"},
      {"\"method\": \"shac\"", "\"done\": [{\"control\": true, \"target\": 0}]", "episode.done: \"control\" is what is given"},
  };
  char text[6000];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    refused(*state, task_text(text, sizeof text, cases[i].train, cases[i].episode), cases[i].words);

  refused(*state, "{\"model\": \"" PENDULUM "\", \"loss\": " LOSS ", \"train\": {\"method\": \"shac\"}}",
          "\"policy\" is missing");
  refused(*state, "{\"model\": \"" PENDULUM "\", \"policy\": " POLICY ", \"loss\": " LOSS "}", "\"train\" is missing");
  refused(*state, "{\"model\": \"" PENDULUM "\", \"policy\": " POLICY ", \"train\": {\"method\": \"shac\"}}",
          "\"loss\" is missing");
}

// A loss that is never finite is told, with the update and the reason; another task's state is refused.
static void test_runs_that_cannot_be(void **state) {
  char text[6000];
  pbTrain *t;
  pbTrainResult result;
  snprintf(text, sizeof text,
           "{\"model\": \"%s\", \"policy\": %s, \"loss\": [{\"formula\": \"log(v - 1e9)\", \"inputs\": {\"v\": {\"qvel\": "
           "\"swing\"}}, \"target\": 0, \"at\": \"all\"}], \"train\": {\"method\": \"shac\", %s}}",
           PENDULUM, POLICY, SMALL);
  good(*state, pbTrain_Load(*state, write_file("never.json", text), NULL, NULL, &t));
  assert_int_equal(pbTrain_Run(t, NULL, &result), pb_not_finite);
  if (!strstr(pbContext_Error(*state), "no world has a finite loss at update 1")) fail_msg("%s", pbContext_Error(*state));
  pbTrain_Destroy(t);

  char file[160];
  snprintf(file, sizeof file, "%s", path_of("other.state"));
  pbTrainOptions options = {.threads = 1, .state_file = file, .resume = true, .updates = 2};
  t = load(*state, "\"method\": \"bptt\", " SMALL, EPISODE);
  good(*state, pbTrain_Run(t, &options, &result));
  pbTrain_Destroy(t);
  t = load(*state, "\"method\": \"bptt\", \"rate\": 0.1, " SMALL, EPISODE);
  assert_int_equal(pbTrain_Run(t, &options, &result), pb_bad_input);
  if (!strstr(pbContext_Error(*state), "was changed")) fail_msg("%s", pbContext_Error(*state));
  pbTrain_Destroy(t);
}

// ---- commands ---------------------------------------------------------------------------------------------------------
// Commands are drawn for each episode, kept through it, and seen by the policy; a policy that misses them is refused.
#define LISTENS                                                                                                                 \
  "{\"observe\": [{\"command\": 2}, {\"qpos\": \"swing\"}], \"layers\": [{\"dense\": 4, \"activation\": \"elu\"}, {\"dense\": " \
  "1}]}"
static void test_commands(void **state) {
  char text[6000];
  pbTrain *t;
  static const pbTrainOptions none;
  const char *const draws =
      "\"sample\": {\"command\": [{\"uniform\": [1, 2]}], \"init\": [{\"state\": \"qvel\", \"uniform\": [3, 4]}]},";
  for (int with = 1; with >= 0; with--) {
    snprintf(text, sizeof text,
             "{\"model\": \"%s\", \"policy\": %s, \"loss\": %s, %s \"train\": {\"method\": \"shac\", %s}, \"episode\": {%s}}",
             PENDULUM, LISTENS, LOSS, with ? draws : "", SMALL,
             "\"done\": [{\"qvel\": true, \"type\": \"above\", \"target\": 3.2}]");
    if (with) good(*state, pbTrain_Load(*state, write_file("commands.json", text), NULL, NULL, &t));
    else refused(*state, text, "the policy observes 2 commands, and \"command\" of \"sample\" is missing");
    if (!with) break;

    t->options = &none;
    good(*state, pbTrain_Begin(t, 2));
    good(*state, pbTrain_Collect(t));
    good(*state, pbTrain_Observe(t));
    int began = 0;
    for (int w = 0; w < t->settings.worlds; w++) {
      assert_true(t->states[w * t->nx + 2] >= 3 && t->states[w * t->nx + 2] <= 4);
      assert_true(t->command[2 * w] >= 1 && t->command[2 * w] <= 2 && t->command[2 * w] != t->command[2 * w + 1]);
      for (int k = 0; k <= t->length[w]; k++) {
        const double *seen = t->observed + (size_t)(w * (t->settings.window + 1) + k) * (size_t)t->nobs,
                     *given = pbTrain_Input(t, w, k).command;
        assert_memory_equal(seen, given, 2 * sizeof(double));

        // a new episode within the window has another one
        bool anew = k > 0 && k < t->settings.window && pbTrain_Ended(t, w, k - 1);
        began += anew;
        assert_true(k == 0 || anew == (given[0] != pbTrain_Input(t, w, k - 1).command[0]));
      }
    }
    assert_true(began > 0);
    pbTrain_Destroy(t);
  }
}

// What a loss sees of an episode's end hangs on its own command, not on the next one's.
static void test_gradients_with_commands(void **state) {
  char text[6000], model[2000];
  pbTrain *t;
  static const char last[] = "</actuator></mujoco>";
  snprintf(model, sizeof model, "%.*s</actuator><sensor><actuatorfrc actuator='motor'/></sensor></mujoco>",
           (int)(strlen(PENDULUM) - strlen(last)), PENDULUM);
  snprintf(
      text, sizeof text,
      "{\"model\": \"%s\", \"policy\": {\"every\": 2, \"observe\": [{\"command\": 2}, {\"qpos\": \"swing\"}, {\"time\": true}], "
      "\"layers\": [{\"dense\": 6, \"activation\": \"elu\"}, {\"dense\": 1}]}, \"loss\": [{\"sensor\": true, \"at\": \"all\"}], "
      "\"sample\": {\"command\": [{\"uniform\": [-1, 1]}]}, \"train\": {\"method\": \"shac\", \"discount\": 0.9, \"worlds\": 24, "
      "\"window\": 4, \"updates\": 12}, \"episode\": {" ENDING "}}",
      model);
  good(*state, pbTrain_Load(*state, write_file("heard.json", text), NULL, NULL, &t));
  check_gradient(*state, t, true, true);
}

// ---- paths of mocap bodies --------------------------------------------------------------------------------------------
// A body that is led upwards by a time step in each step pulls the pendulum; it begins at y = 0 and y = 0.1 in turn.
#define LED                                                                                                                  \
  "<mujoco><option timestep='0.01'/><worldbody><body name='lead' mocap='true' pos='.1 0 0'><site name='lead'/></body>"       \
  "<body><joint name='swing' axis='0 1 0' damping='.02'/><geom type='capsule' size='.05' fromto='0 0 0 0 0 -.4' mass='1'/>"  \
  "<site name='tip' pos='0 0 -.4'/></body></worldbody><tendon><spatial name='rope' springlength='.2' stiffness='20'><site "  \
  "site='lead'/>"                                                                                                            \
  "<site site='tip'/></spatial></tendon><actuator><motor name='motor' joint='swing' gear='2'/></actuator><sensor>"           \
  "<framepos name='led' objtype='site' objname='lead'/><actuatorfrc name='drive' actuator='motor'/><tendonpos name='reach' " \
  "tendon='rope'/></sensor></mujoco>"
#define LED_LOSS LOSS_TERMS ", {\"sensor\": \"drive\", \"at\": \"all\"}, {\"sensor\": \"reach\", \"at\": \"all\"}]"
#define LED_POLICY                                                                                                        \
  "{\"every\": 2, \"observe\": [{\"sensor\": \"led\"}, {\"time\": true}, {\"qvel\": true}], \"layers\": [{\"dense\": 6, " \
  "\"activation\": \"elu\"}, {\"dense\": 1, \"activation\": \"tanh\"}]}"

// Rows of a path, as JSON.
static const char *led_path(char *text, double y, int rows) {
  char *at = text + sprintf(text, "{\"mocap_pos\": [");
  for (int k = 0; k < rows; k++) at += sprintf(at, "%s[%.17g, %.17g, %.17g]", k ? ", " : "", .1 * sin(.2 * k), y, .01 * k);
  sprintf(at, "]}");
  return text;
}

static pbTrain *load_led(pbContext *ctx, const char *train, const char *done) {
  static char text[16000], path[2][6000];
  pbTrain *t;
  snprintf(text, sizeof text,
           "{\"model\": \"%s\", \"policy\": %s, \"loss\": %s, \"train\": {%s}, \"episode\": {\"seconds\": 0.2, \"spread\": "
           "{\"qvel\": 1}%s}, \"trajectories\": [{\"mocap\": %s}, {\"mocap\": %s, \"init\": {\"qpos\": [0.3]}}]}",
           LED, LED_POLICY, LED_LOSS, train, done, led_path(path[0], 0, 40), led_path(path[1], .1, 7));
  good(ctx, pbTrain_Load(ctx, write_file("led.json", text), NULL, NULL, &t));
  return t;
}

// What the policy sees of the leading body at decision k: as much of the path as its own time has passed.
static void check_led(const pbTrain *t, int w, int k, int *late) {
  const double *seen = t->observed + (size_t)(w * (t->settings.window + 1) + k) * (size_t)t->nobs;
  bool second = seen[1] == .1;
  int row = (int)lround(100 * seen[3]), last = second ? 6 : 39;
  assert_true(second || seen[1] == 0);
  if (k > 0) assert_true(pbTrain_Ended(t, w, k - 1) == (seen[1] != seen[1 - t->nobs]));  // another path with each episode
  if (k == t->settings.window) row--;                                                    // the last pose is that of the last step
  *late += row > last;
  row = row < last ? row : last;
  if (!(fabs(seen[2] - .01 * row) < 1e-12)) fail_msg("world %d, decision %d: %g at time %g", w, k, seen[2], seen[3]);
}

static void test_paths(void **state) {
  static const pbTrainOptions none;
#define ENDS ", \"done\": [{\"qvel\": true, \"type\": \"above\", \"target\": -1.5}]"
  pbTrain *t = load_led(*state, "\"method\": \"shac\", \"worlds\": 9, \"window\": 4, \"updates\": 12", ENDS);
  int late = 0, within = 0, of[2] = {0};
  t->options = &none;
  good(*state, pbTrain_Begin(t, 2));

  for (int window = 0; window < 8; window++) {
    good(*state, pbTrain_Collect(t));
    good(*state, pbTrain_Observe(t));
    for (int w = 0; w < t->settings.worlds; w++) {
      // behind a window whose last decision ended an episode nobody looks
      int seen = t->length[w] + !(t->length[w] && pbTrain_Ended(t, w, t->length[w] - 1));
      for (int k = 0; k < seen; k++) check_led(t, w, k, &late);
      for (int k = 0; k < t->length[w] - 1; k++) within += pbTrain_Ended(t, w, k);
      of[((int)t->episode[w] + w) % 2]++;
    }
    pbTrain_Advance(t);
  }
  if (!(late > 0 && within > 0 && of[0] > 5 && of[1] > 5))
    fail_msg("%d late, %d within, %d and %d of the paths", late, within, of[0], of[1]);

  // an evaluation goes along them likewise
  double pos[60], quat[80], vel[120], score, alive;
  assert_true(pbTrain_EvaluationPath(t, 1, 20, pos, quat, vel));
  assert_true(pos[1] == .1 && pos[3 * 6 + 2] == .06 && pos[3 * 19 + 2] == .06 && quat[76] == 1);
  good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score, &alive));
  assert_true(isfinite(score));
  pbTrain_Destroy(t);

  // the gradient goes through what they do
  check_gradient(*state, load_led(*state, "\"method\": \"bptt\", \"discount\": 0.9, " SMALL, ""), false, false);
  check_gradient(*state,
                 load_led(*state, "\"method\": \"shac\", \"discount\": 0.9, \"worlds\": 9, \"window\": 4, \"updates\": 12", ENDS),
                 true, true);
}

// ---- worlds that diverge ----------------------------------------------------------------------------------------------
// A world that blows up is left out, counted and begun anew; the others learn on.
static void test_dropped(void **state) {
  pbTrain *t = load(*state, "\"method\": \"shac\", " SMALL, EPISODE);
  static const pbTrainOptions none;
  t->options = &none;
  good(*state, pbTrain_Begin(t, 1));
  t->states[2 * t->nx + 2] = 1e200;  // its velocity

  good(*state, pbTrain_Collect(t));
  assert_true(t->lost[2] && t->length[2] == 0 && t->dropped == 1 && t->length[1] == 4);
  good(*state, pbTrain_Observe(t));
  good(*state, pbTrain_Gradient(t, true));
  for (size_t i = 0; i < t->unknowns; i++) assert_true(isfinite(t->theta_bar[t->unknown[i]]));
  pbTrain_Advance(t);
  assert_true(fabs(t->states[2 * t->nx + 2]) <= 1 && t->age[2] == 0);
  pbTrain_Destroy(t);
}

// A policy whose worlds blow up before they cost anything is no good one: it scored zero once, less than any that holds.
static void test_divergence_is_not_cheap(void **state) {
  pbTrain *t = load(*state, "\"method\": \"es\", " SMALL, EPISODE);
  static const pbTrainOptions none;
  double score, alive;
  t->options = &none;
  good(*state, pbTrain_Begin(t, 1));
  good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score, &alive));
  assert_true(isfinite(score) && alive > 0);

  // gravity that throws every world out of bounds in its first step
  pbParam gravity;
  good(*state, pbModel_Param(*state, t->model, "gravity", &gravity));
  t->theta[gravity.offset + 2] = -1e200;
  good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score, &alive));
  assert_true(score == INFINITY && alive == 0);

  // a search that finds nothing finite says so
  double cost;
  assert_int_equal(pbTrain_Search(t, &cost), pb_not_finite);
  assert_non_null(strstr(pbContext_Error(*state), "no world has a finite loss at update 1"));
  pbTrain_Destroy(t);
}

int main(void) {
  snprintf(folder, sizeof folder, "/tmp/pullback-learn-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_noise_is_heard, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_gradients, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_gradients_of_points, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_targets, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_same_bits, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_ramps, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_interrupted, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_runs_that_cannot_be, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_dropped, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_divergence_is_not_cheap, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_commands, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_gradients_with_commands, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_paths, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
