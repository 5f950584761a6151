// What a training draws for each world and episode: parameters, commands, pushes, noise of what is observed: gradients of windows
// against differences, the same bits for any number of threads and after interruptions, numbers where they belong, mistakes.
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

#include "learn/train.h"
#include "model/policy_data.h"
#include "support/support.h"

// An arm over a rough ground that it may touch, with a hand on it, and a ball that rolls.
#define SCENE                                                                                                                   \
  "<mujoco><option timestep='0.01'/><worldbody><geom name='floor' type='plane' size='5 5 1' pos='0 0 -.448' friction='.05'/>"   \
  "<body name='arm'><joint name='swing' axis='0 1 0' damping='.02'/><geom name='arm' type='capsule' size='.05' "                \
  "fromto='0 0 0 0 0 -.4' friction='.05' mass='1'/><site name='tip' pos='0 0 -.4'/>"                                            \
  "<body name='hand' pos='0 0 -.2'><joint name='wrist' axis='1 0 0' stiffness='5' damping='.1' range='-.3 .3' limited='true'/>" \
  "<geom type='sphere' size='.03' pos='.1 0 0' mass='.2' contype='0' conaffinity='0'/></body></body>"                           \
  "<body name='ball' pos='2 0 -.348'><freejoint name='root'/><geom type='sphere' size='.1' mass='.5'/></body>"                  \
  "</worldbody><actuator><motor name='motor' joint='swing' gear='2'/></actuator></mujoco>"
#define POLICY                                                                                                                 \
  "{\"every\": 2, \"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"qvel\": \"swing\", \"scale\": 0.2}, " \
  "{\"qvel\": \"wrist\"}, {\"command\": 2}, {\"last\": true}], \"layers\": [{\"normalize\": true}, {\"dense\": 6, "            \
  "\"activation\": \"elu\"}, {\"dense\": 1}, {\"scale\": 0.5}]}"
#define MEMORY                                                                                                                 \
  "{\"every\": 2, \"observe\": [{\"site_rotation\": \"tip\", \"components\": [0, 2]}, {\"qvel\": \"swing\", \"scale\": 0.2}, " \
  "{\"qvel\": \"wrist\"}, {\"command\": 2}, {\"last\": true}], \"layers\": [{\"delay\": 0.5, \"most\": 3, \"name\": "          \
  "\"late\"}, {\"gru\": 4}, {\"dense\": 1, \"activation\": \"tanh\"}]}"
#define LOSS                                                                                    \
  "[{\"site\": \"tip\", \"components\": [2], \"target\": 0.4, \"at\": \"all\"}, "               \
  "{\"qvel\": [\"swing\", \"wrist\"], \"target\": [0, 0], \"weight\": 0.01, \"at\": \"all\"}, " \
  "{\"qvel\": \"root\", \"components\": [0, 1], \"type\": \"squared\", \"weight\": 0.02, \"at\": \"all\"}]"
#define EPISODE "\"seconds\": 0.4, \"spread\": {\"joints\": {\"swing\": {\"qpos\": 0.5, \"qvel\": 1}}}"
#define ENDING  EPISODE ", \"done\": [{\"qvel\": \"swing\", \"type\": \"above\", \"target\": -0.4}]"
#define SMALL   "\"worlds\": 5, \"window\": 4, \"updates\": 12, \"evaluate\": {\"every\": 3, \"starts\": 3}"

#define COMMANDS "\"command\": [{\"uniform\": [-1, 1], \"every\": [0.03, 0.09]}]"
#define MASSES                                                                                                                   \
  "{\"parameter\": [\"body_mass:arm\", \"body_inertia:arm\"], \"uniform\": [0.5, 2], \"as\": \"factor\", \"together\": true}, "  \
  "{\"parameter\": \"body_pos:hand:2\", \"uniform\": [-0.3, -0.1]}, {\"parameter\": \"geom_friction\", \"components\": [0, 3], " \
  "\"list\": [[0.05, 0.2], [0.6, 0.9]]}, {\"parameter\": \"actuator_gear:motor:0\", \"normal\": [2, 0.2]}, "                     \
  "{\"parameter\": \"dof_damping:swing\", \"uniform\": [0.01, 0.1]}"
#define PUSHES                                                                                                               \
  "\"pushes\": [{\"body\": \"hand\", \"force\": {\"uniform\": [2, 9]}, \"direction\": \"any\", \"duration\": [0.01, 0.05], " \
  "\"every\": [0.02, 0.1]}, {\"body\": \"arm\", \"torque\": {\"normal\": [0, 1]}, \"at\": [0, 0.2], \"duration\": 0.03}, "   \
  "{\"joint\": \"root\", \"velocity\": {\"uniform\": [0.1, 0.5]}, \"direction\": \"horizontal\", \"every\": 0.05}, "         \
  "{\"joint\": \"swing\", \"velocity\": {\"uniform\": [-2, 2]}, \"every\": [0.02, 0.08]}]"
#define NOISE                                                                                                               \
  "\"noise\": [{\"observe\": \"site_rotation\", \"uniform\": [-0.05, 0.05]}, {\"observe\": \"qvel\", \"components\": [0], " \
  "\"normal\": [0, 0.5]}]"
#define DRAWS COMMANDS ", \"parameters\": [" MASSES "], " PUSHES ", " NOISE
#define LATE \
  COMMANDS ", \"parameters\": [" MASSES ", {\"parameter\": \"policy.late.delay\", \"uniform\": [0, 3]}], " PUSHES ", " NOISE

static char folder[64];

static const char *path_of(const char *name) {
  static char path[4][160];
  static int next;
  next = (next + 1) % 4;
  snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
  return path[next];
}

static const char *write_file(const char *name, const char *text) {
  const char *path = path_of(name);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
  return path;
}

static const char *task_text(const char *policy, const char *sample, const char *train, const char *episode) {
  static char text[9000];
  int size =
      snprintf(text, sizeof text,
               "{\"model\": \"%s\", \"constants\": \"recompute\", \"policy\": %s, \"sample\": {%s}, \"loss\": %s, \"train\": "
               "{%s}, \"episode\": {%s}}",
               SCENE, policy, sample, LOSS, train, episode);
  assert_true(size < (int)sizeof text);
  return text;
}

static pbTrain *load(pbContext *ctx, const char *policy, const char *sample, const char *train, const char *episode) {
  pbTrain *t;
  good(ctx, pbTrain_Load(ctx, write_file("task.json", task_text(policy, sample, train, episode)), NULL, NULL, &t));
  return t;
}

static const pbTrainOptions none;
static pbTrain *begin(pbContext *ctx, const char *policy, const char *sample, const char *train, const char *episode) {
  pbTrain *t = load(ctx, policy, sample, train, episode);
  t->options = &none;
  good(ctx, pbTrain_Begin(t, 1));
  return t;
}

// ---- gradients --------------------------------------------------------------------------------------------------------
// A window as if there had been none before it.
static void collect_again(pbTrain *t) {
  size_t worlds = (size_t)t->settings.worlds, own = worlds * t->own_size, commands = worlds * (size_t)t->ncommand;
  double steps = t->now->steps, *kept = malloc((2 * worlds + own + commands) * sizeof *kept);
  double *const from[] = {t->age, t->episode, t->own, t->command};
  const size_t count[] = {worlds, worlds, own, commands};
  for (size_t i = 0, at = 0; i < 4; at += count[i++]) memcpy(kept + at, from[i], count[i] * sizeof *kept);
  good(t->ctx, pbTrain_Collect(t));
  good(t->ctx, pbTrain_Observe(t));
  t->now->steps = steps;
  for (size_t i = 0, at = 0; i < 4; at += count[i++]) memcpy(from[i], kept + at, count[i] * sizeof *kept);
  free(kept);
}

// Mean discounted cost of a window, each of its episodes by itself, with the critic behind it, at present weights.
static double objective(pbTrain *t, bool critic) {
  double sum = 0, decisions = 0;
  collect_again(t);

  for (int w = 0; w < t->settings.worlds; w++) {
    double factor = 1;
    decisions += t->length[w];
    for (int k = 0; k < t->length[w]; k++) {
      sum += factor * t->costs[w * t->settings.window + k];
      factor = pbTrain_Ended(t, w, k) ? 1 : factor * t->settings.discount;
    }

    if (!critic || pbTrain_Ended(t, w, t->length[w] - 1)) continue;
    const double *last = t->observed + (size_t)(w * (t->settings.window + 1) + t->length[w]) * (size_t)t->nobs;
    good(t->ctx, pbHead_Forward(t, &t->head_critic, t->critic_slow, &last, 1));
    sum += factor * t->head_critic.out[0];
  }
  return sum / decisions;
}

static int count_new_starts(const pbTrain *t) {
  int ended = 0;
  for (int w = 0; w < t->settings.worlds; w++) {
    for (int k = 1; k < t->settings.window - 1; k++) ended += pbTrain_Ended(t, w, k) && !pbTrain_SameOwn(t, w, k + 1);
  }
  return ended;
}

static void check_gradient(pbTrain *t, bool critic, bool ends) {
  double slope = 0, size = 0, side[2];
  objective(t, critic);
  good(t->ctx, pbTrain_Normalize(t));
  pbTrain_Advance(t);
  assert_true(isfinite(objective(t, critic)));
  assert_true((count_new_starts(t) > 0) == ends);  // with parameters of their own
  good(t->ctx, pbTrain_Gradient(t, critic));

  double *theta = malloc(t->ntheta * sizeof *theta);
  memcpy(theta, t->theta, t->ntheta * sizeof *theta);
  for (size_t i = 0; i < t->unknowns; i++) slope += t->theta_bar[t->unknown[i]] * cos((double)i);
  for (size_t i = 0; i < t->unknowns; i++) size += fabs(t->theta_bar[t->unknown[i]]);
  if (!(size > 1e-4)) fail_msg("size %g of %zu unknowns, critic %d, ends %d", size, t->unknowns, critic, ends);

  for (int k = 0; k < 2; k++) {
    for (size_t i = 0; i < t->unknowns; i++) t->theta[t->unknown[i]] = theta[t->unknown[i]] + (k ? -1e-5 : 1e-5) * cos((double)i);
    side[k] = objective(t, critic);
  }
  double quotient = (side[0] - side[1]) / 2e-5;
  if (!(fabs(quotient - slope) < 1e-6 * size)) fail_msg("gradient %.12g, differences %.12g, size %g", slope, quotient, size);
  free(theta);
  pbTrain_Destroy(t);
}

static void test_gradients(void **state) {
  static const char few[] = ", \"discount\": 0.9, " SMALL;
  static const char many[] = ", \"discount\": 0.9, \"worlds\": 24, \"window\": 4, \"updates\": 12";
  for (int critic = 0; critic < 2; critic++) {
    for (int memory = 0; memory < 2; memory++) {
      for (int ends = 0; ends < 2; ends++) {
        char train[300];
        snprintf(train, sizeof train, "\"method\": \"%s\"%s", critic ? "shac" : "bptt", ends ? many : few);
        pbTrain *t = begin(*state, memory ? MEMORY : POLICY, memory ? LATE : DRAWS, train, ends ? ENDING : EPISODE);
        check_gradient(t, critic, ends);
      }
    }
  }
}

// ---- parameters ---------------------------------------------------------------------------------------------------------
static size_t entry_of(const pbTrain *t, const char *name) {
  pbParam p;
  good(t->ctx, pbModel_Param(t->ctx, t->model, name, &p));
  return p.offset;
}

// Within their laws, others for each world and episode, what is drawn together in one ratio; constants follow.
static void test_parameters(void **state) {
  pbTrain *t = begin(*state, POLICY, DRAWS, "\"method\": \"bptt\", " SMALL, EPISODE);
  const double *task = t->task->theta, *theta;
  size_t mass = entry_of(t, "body_mass:arm"), inertia = entry_of(t, "body_inertia:arm"), z = entry_of(t, "body_pos:hand:2");
  size_t weight = entry_of(t, "dof_invweight0"), friction = entry_of(t, "geom_friction");
  double before[5], expected[400];
  assert_true(t->own_size == 1 + 3 + 1 + 2 + 1 + 1 && t->ntheta < 4000);
  double *whole = malloc(t->ntheta * sizeof *whole);
  collect_again(t);

  for (int w = 0; w < 5; w++) {
    good(*state, pbTrain_ThetaAt(t, w, 1, &theta));
    double ratio = theta[mass] / task[mass];
    assert_true(0.5 <= ratio && ratio <= 2 && -0.3 <= theta[z] && theta[z] <= -0.1);
    for (size_t k = 0; k < 3; k++) assert_true(fabs(theta[inertia + k] / task[inertia + k] - ratio) < 1e-12);
    assert_true((theta[friction] == 0.05 && theta[friction + 3] == 0.2) ||
                (theta[friction] == 0.6 && theta[friction + 3] == 0.9));
    for (int other = 0; other < w; other++) assert_true(before[other] != theta[mass]);
    before[w] = theta[mass];

    // the batch's own, constants among them, are those of the task's with what is drawn
    pbBatch_Theta(t->batch, t->theta, w, whole);
    assert_memory_equal(whole, theta, t->ntheta * sizeof *whole);
    memcpy(whole, t->theta, t->ntheta * sizeof *whole);
    for (size_t i = 0; i < t->own_size; i++) whole[t->own_at[i]] = t->own[(size_t)w * t->own_size + i];
    good(*state, pbModel_SetConstants(*state, t->model, whole));
    assert_true(whole[weight] == theta[weight] && whole[weight] != task[weight]);
  }

  // a new episode has others; evaluations have none of a training's
  memcpy(expected, t->own, 5 * t->own_size * sizeof *expected);
  for (int w = 0; w < 5; w++) t->lost[w] = true;
  pbTrain_Advance(t);
  for (size_t w = 0; w < 5; w++) {
    assert_true(t->own[w * t->own_size] != expected[w * t->own_size]);
    memcpy(whole, t->theta, t->ntheta * sizeof *whole);
    good(*state, pbTrain_EvaluationTheta(t, (int)w, whole));
    for (size_t other = 0; other < 5; other++) assert_true(whole[mass] != expected[other * t->own_size]);
  }
  free(whole);
  pbTrain_Destroy(t);
}

// What a critic sees is what a policy sees: the world that was drawn, in every decision of a window.
static void test_what_critics_see(void **state) {
  const char *const policy =
      "{\"every\": 2, \"observe\": [{\"body_position\": \"hand\", \"components\": [2]}, {\"command\": 2}], \"layers\": "
      "[{\"dense\": 1}]}";
  pbTrain *t = begin(*state, policy, COMMANDS ", \"parameters\": [" MASSES "]", "\"method\": \"bptt\", " SMALL, EPISODE);
  const double *theta;
  double seen[3], undrawn[3];
  collect_again(t);
  assert_int_equal(t->nobs, 3);

  for (int w = 0; w < 5; w++) {
    for (int k = 0; k <= t->length[w]; k++) {
      const double *x = pbTrain_Began(t, w, k), *observed = t->observed + (w * (t->settings.window + 1) + k) * t->nobs;
      pbInput input = pbTrain_Input(t, w, k);
      good(*state, pbPolicy_Observe(t->model, t->theta, x, &input, t->scratch[0], undrawn));
      good(*state, pbTrain_ThetaAt(t, w, k, &theta));
      good(*state, pbPolicy_Observe(t->model, theta, x, &input, t->scratch[0], seen));
      assert_memory_equal(observed, seen, sizeof seen);
      assert_true(fabs(seen[0] - undrawn[0]) > 1e-6);
    }
  }
  pbTrain_Destroy(t);
}

// A drawn number of the policy is not learned; a wide normal law never makes what cannot be.
static void test_what_is_drawn(void **state) {
  pbTrain *t = begin(*state, MEMORY, LATE, "\"method\": \"bptt\", " SMALL, EPISODE);
  size_t late = entry_of(t, "policy.late.delay");
  for (size_t i = 0; i < t->unknowns; i++) assert_true(t->unknown[i] != late);
  pbTrain_Destroy(t);

  t = begin(*state, POLICY, COMMANDS ", \"parameters\": [{\"parameter\": \"body_mass:arm\", \"normal\": [1, 0.33]}]",
            "\"method\": \"bptt\", " SMALL, EPISODE);
  double least = 1, value;
  for (uint64_t a = 0; a < 20000; a++) {
    pbTrain_DrawOwn(t, 1, a, 0, &value);
    least = value < least ? value : least;
  }
  assert_true(least > 0 && least < 0.05);
  pbTrain_Destroy(t);
}

// ---- commands, pushes, noise --------------------------------------------------------------------------------------------
// Windows of other lengths cut the same episodes.
static void test_windows_cut_the_same(void **state) {
  enum { every = 2 };
  pbTrain *whole = begin(*state, POLICY, DRAWS, "\"method\": \"bptt\", \"worlds\": 3, \"window\": 20", EPISODE);
  pbTrain *parts = begin(*state, POLICY, DRAWS, "\"method\": \"bptt\", \"worlds\": 3, \"window\": 4", EPISODE);
  size_t nbody = (size_t)whole->model->nbody, nv = (size_t)whole->model->nv;
  pbTrain_Prepare(whole);
  double forces = 0, kicks = 0;
  int changes = 0;
  for (int window = 0; window < 5; window++) {
    for (int w = 0; w < 3; w++) parts->age[w] = pbTrain_FirstAge(parts, w) + window * 4 * every;
    pbTrain_Prepare(parts);
    for (size_t w = 0; w < 3; w++) {
      size_t from = (w * 20 + (size_t)window * 4) * every, to = w * 4 * every, count = (size_t)4 * every;
      assert_memory_equal(whole->command_steps + from * 2, parts->command_steps + to * 2, count * 2 * sizeof(double));
      assert_memory_equal(whole->xfrc + from * 6 * nbody, parts->xfrc + to * 6 * nbody, count * 6 * nbody * sizeof(double));
      assert_memory_equal(whole->kick + from * nv, parts->kick + to * nv, count * nv * sizeof(double));
    }
  }

  // in every world some; commands change between 3 and 9 steps on, pushes of the ball are every 5 steps, level, of .1 to .5 m/s
  const size_t root = (size_t)whole->model->jnt_dofadr[2];
  for (size_t w = 0; w < 3; w++) {
    int last = 0;
    for (size_t k = 0; k < 40; k++) {
      const double *c = whole->command_steps + (w * 40 + k) * 2, *kick = whole->kick + (w * 40 + k) * nv + root;
      const double *force = whole->xfrc + (w * 40 + k) * 6 * nbody + 6 * 2;
      double size = sqrt(kick[0] * kick[0] + kick[1] * kick[1]), push = sqrt(dot(force, force, 3));
      assert_true(kick[2] == 0 && (k % 5 == 4 ? 0.1 <= size && size <= 0.5 : size == 0));
      forces += push;
      kicks += size;
      if (k == 0 || memcmp(c, c - 2, 2 * sizeof *c) == 0) continue;
      assert_true((int)k - last >= 3 && (int)k - last <= 10);
      last = (int)k;
      changes++;
    }
  }
  assert_true(forces > 0 && kicks > 0 && changes >= 3 * 3);
  pbTrain_Destroy(whole);
  pbTrain_Destroy(parts);
}

// A velocity is there in the state that the step before leads to, to the bit; a force acts as an input does.
static void test_pushes_act(void **state) {
#define FREE "\"command\": [{\"uniform\": [-1, 1]}]"
  static const char train[] = "\"method\": \"bptt\", \"worlds\": 1, \"window\": 6, \"noise\": 0";
  pbTrain *free_one = begin(*state, POLICY, FREE, train, EPISODE);
  pbTrain *kicked = begin(*state, POLICY,
                          FREE ", \"pushes\": [{\"joint\": \"root\", \"velocity\": {\"list\": [[0.5, 0.25, 1]]}, \"at\": 0.04}]",
                          train, EPISODE);
  pbTrain *pushed =
      begin(*state, POLICY,
            FREE
            ", \"pushes\": [{\"body\": \"ball\", \"force\": {\"list\": [3]}, \"direction\": [0, 0, 2], \"at\": 0.04, "
            "\"duration\": 0.04}]",
            train, EPISODE);
  collect_again(free_one);
  collect_again(kicked);
  collect_again(pushed);
  size_t nx = (size_t)free_one->nx, z = nx;
  for (int i = 0; i < pbModel_StateFieldCount(free_one->model); i++) {
    pbStateField f = pbModel_StateFieldAt(free_one->model, i);
    if (strcmp(f.name, "qvel") == 0) z = (size_t)f.offset + 2;
  }
  const double *plain = free_one->row_states + 2 * nx + z, *jumped = kicked->row_states + 2 * nx + z;
  assert_memory_equal(free_one->row_states, kicked->row_states, 2 * nx * sizeof(double));
  for (size_t k = 0; k < 3; k++) {
    static const double expected[] = {0.5, 0.25, 1};
    assert_true(jumped[k] == plain[k] + expected[k]);
  }

  // from its time on, as long as it lasts
  assert_memory_equal(free_one->row_states, pushed->row_states, 3 * nx * sizeof(double));
  assert_true(pushed->xfrc[4 * 6 * (size_t)pushed->model->nbody + 6 * 3 + 2] == 3);
  assert_true(pushed->xfrc[8 * 6 * (size_t)pushed->model->nbody + 6 * 3 + 2] == 0);
  assert_true(memcmp(free_one->row_states + 4 * nx, pushed->row_states + 4 * nx, nx * sizeof(double)) != 0);
  pbTrain_Destroy(free_one);
  pbTrain_Destroy(kicked);
  pbTrain_Destroy(pushed);
}

// What is observed has noise, of the quantity's own unit, in a training, and in evaluations where that is asked for.
static void test_noise(void **state) {
  static const char train[] = "\"method\": \"ppo\", \"worlds\": 40, \"window\": 4, \"evaluate\": {\"starts\": 3%s}";
  char quiet[200], noisy[200];
  snprintf(quiet, sizeof quiet, train, "");
  snprintf(noisy, sizeof noisy, train, ", \"noise\": true");
  pbTrain *clean = begin(*state, POLICY, COMMANDS, quiet, EPISODE),
          *t = begin(*state, POLICY, COMMANDS ", " NOISE, quiet, EPISODE);
  pbTrain *asked = begin(*state, POLICY, COMMANDS ", " NOISE, noisy, EPISODE);
  collect_again(clean);
  collect_again(t);
  size_t nobs = (size_t)t->nobs;
  double square = 0;
  for (size_t w = 0; w < 40; w++) {
    const double *with = t->observed + w * 5 * nobs, *without = clean->observed + w * 5 * nobs;
    assert_true(fabs(with[0] - without[0]) <= 0.05 && with[0] != without[0] && with[3] == without[3] && with[4] == without[4]);
    square += pow((with[2] - without[2]) / 0.2, 2) / 40;
  }
  assert_true(0.3 < sqrt(square) && sqrt(square) < 0.8);  // of 40 with deviation .5

  double score[3], alive;
  good(*state, pbTrain_Evaluate(clean, clean->theta, pb_drawEvaluation, 3, &score[0], &alive));
  good(*state, pbTrain_Evaluate(t, t->theta, pb_drawEvaluation, 3, &score[1], &alive));
  good(*state, pbTrain_Evaluate(asked, asked->theta, pb_drawEvaluation, 3, &score[2], &alive));
  assert_true(score[0] == score[1] && score[0] != score[2]);
  good(*state, pbTrain_Evaluate(t, t->theta, pb_drawSearch, 3, &score[1], &alive));
  good(*state, pbTrain_Evaluate(clean, clean->theta, pb_drawSearch, 3, &score[0], &alive));
  assert_true(score[0] != score[1]);
  pbTrain_Destroy(clean);
  pbTrain_Destroy(t);
  pbTrain_Destroy(asked);
}

// ---- the same bits ------------------------------------------------------------------------------------------------------
typedef struct Ending {
  double *theta;
  size_t count;
  pbTrainRow rows[12];
} Ending;

static void run(pbTrain *t, int threads, int updates, bool resume, Ending *e) {
  pbTrainOptions options = {.threads = threads, .updates = updates, .resume = resume};
  pbTrainResult result;
  options.state_file = resume ? path_of("run.state") : NULL;
  good(t->ctx, pbTrain_Run(t, &options, &result));
  if (result.updates == 12) {
    e->count = pbModel_ParamSize(pbTrain_Model(t));
    e->theta = malloc(2 * e->count * sizeof(double));
    memcpy(e->theta, result.theta, e->count * sizeof(double));
    memcpy(e->theta + e->count, result.last, e->count * sizeof(double));
    memcpy(e->rows, pbTrain_Rows(t), sizeof e->rows);
  }
  pbTrain_Destroy(t);
}

static void test_same_bits(void **state) {
  static const char *const methods[] = {"bptt", "shac", "ppo", "es", "sep-cma"};
  for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
    Ending one = {0}, two = {0}, pieces = {0};
    char train[300];
    bool search = m > 2, memory = m < 2;
    snprintf(train, sizeof train, "\"method\": \"%s\"%s, %s", methods[m], search ? ", \"population\": 4" : "", SMALL);
    const char *policy = memory ? MEMORY : POLICY, *sample = memory ? LATE : DRAWS;
    run(load(*state, policy, sample, train, ENDING), 1, 0, false, &one);
    run(load(*state, policy, sample, train, ENDING), 3, 0, false, &two);
    unlink(path_of("run.state"));
    for (int k = 1; k <= 4; k++) run(load(*state, policy, sample, train, ENDING), 2, 3 * k, true, &pieces);
    const Ending *others[] = {&two, &pieces};
    for (int i = 0; i < 2; i++) {
      assert_memory_equal(one.theta, others[i]->theta, 2 * one.count * sizeof(double));
      assert_memory_equal(one.rows, others[i]->rows, sizeof one.rows);
    }
    assert_true(isfinite(one.rows[11].cost) && isfinite(one.rows[11].score));
    free(one.theta);
    free(two.theta);
    free(pieces.theta);
  }
}

// ---- mistakes -----------------------------------------------------------------------------------------------------------
#define BPTT              "\"method\": \"bptt\""
#define LAW               "\"uniform\": [0, 1]"
#define PARAMETERS(entry) COMMANDS ", \"parameters\": [{" entry "}]"
#define PUSH(entry)       COMMANDS ", \"pushes\": [{" entry "}]"
#define SEEN(entry)       COMMANDS ", \"noise\": [{" entry "}]"
static const struct {
  const char *sample, *train, *words;
} mistakes[] = {
    {PARAMETERS("\"parameter\": \"body_mas:arm\", " LAW), BPTT, "did you mean 'body_mass'"},
    {PARAMETERS("\"parameter\": \"timestep\", " LAW), BPTT, "sample.parameters[0].parameter: the time step cannot"},
    {PARAMETERS("\"parameter\": \"body_mass:arm\", \"uniform\": [-1, 1]"), BPTT, "sample.parameters[0]: "},
    {PARAMETERS("\"parameter\": \"body_mass:arm\", \"normal\": [1, 0.5]"), BPTT, "sample.parameters[0]: "},
    {PARAMETERS("\"parameter\": \"body_mass:arm\", \"list\": [1, -2]"), BPTT, "sample.parameters[0]: "},
    {PARAMETERS("\"parameter\": [], " LAW), BPTT, "sample.parameters[0].parameter: expected a name, or a list"},
    {PARAMETERS("\"parameter\": [\"body_mass\", \"body_mass:arm\"], " LAW), BPTT, "names a number twice"},
    {PARAMETERS("\"parameter\": [\"body_mass\"], \"components\": [0], " LAW), BPTT, "components: are of one parameter"},
    {PARAMETERS("\"parameter\": \"body_mass\", \"together\": 1, " LAW), BPTT, "sample.parameters[0].together: "},
    {PARAMETERS("\"parameter\": \"body_inertia:arm\", \"together\": true, \"uniform\": [[1, 1, 1], 2]"), BPTT,
     "sample.parameters[0].uniform[0]: expected a number, or 1 of them"},
    {PARAMETERS("\"parameter\": \"dof_damping:swing\", " LAW),
     BPTT ", \"ramps\": [{\"parameters\": [\"dof_damping:swing\"], \"from\": 1}]", "component 0 is moved by \"ramps\""},
    {PARAMETERS("\"parameter\": \"policy.1.weight\", " LAW), "\"method\": \"ppo\"", "ppo knows one policy"},
    {"\"command\": [{" LAW ", \"every\": 0}]", BPTT, "sample.command[0].every: expected seconds from 0.01"},
    {"\"command\": [{" LAW ", \"every\": [2, 1]}]", BPTT, "sample.command[0].every: expected seconds from 0.01"},
    {"\"command\": [{" LAW ", \"every\": \"often\"}]", BPTT, "every: expected seconds, or [least, most]"},
    {"\"command\": [{" LAW ", \"ever\": 1}]", BPTT, "did you mean 'every'"},
    {PUSH("\"force\": {" LAW "}, \"at\": 1"), BPTT, "sample.pushes[0]: expected one of \"body\""},
    {PUSH("\"body\": \"arn\", \"force\": {" LAW "}, \"at\": 1"), BPTT, "did you mean 'arm'"},
    {PUSH("\"body\": \"world\", \"force\": {" LAW "}, \"at\": 1"), BPTT, "the world cannot be pushed"},
    {PUSH("\"body\": \"arm\", \"velocity\": {" LAW "}, \"at\": 1"), BPTT, "expected \"force\" or \"torque\" of a body"},
    {PUSH("\"joint\": \"swing\", \"velocity\": {" LAW "}, \"at\": 1, \"duration\": 1"), BPTT, "duration: a joint's velocity"},
    {PUSH("\"joint\": \"swing\", \"velocity\": {" LAW "}, \"at\": 1, \"direction\": \"any\""), BPTT, "direction: a joint of one"},
    {PUSH("\"body\": \"arm\", \"force\": {" LAW "}, \"at\": 1, \"direction\": \"up\""), BPTT, "expected \"horizontal\", \"any\""},
    {PUSH("\"body\": \"arm\", \"force\": {" LAW "}, \"at\": 1, \"direction\": [0, 0, 0]"), BPTT,
     "expected \"horizontal\", \"any\""},
    {PUSH("\"body\": \"arm\", \"force\": {\"uniform\": [[0, 0], 1]}, \"at\": 1"), BPTT, "expected a number, or 3 of them"},
    {PUSH("\"body\": \"arm\", \"force\": 3, \"at\": 1"), BPTT, "sample.pushes[0].force: expected an object"},
    {PUSH("\"body\": \"arm\", \"force\": {" LAW "}"), BPTT, "expected one of \"at\" and \"every\""},
    {PUSH("\"body\": \"arm\", \"force\": {" LAW "}, \"at\": 1, \"every\": 1"), BPTT, "expected one of \"at\" and \"every\""},
    {PUSH("\"body\": \"arm\", \"force\": {" LAW "}, \"at\": -1"), BPTT, "at: expected seconds from 0"},
    {SEEN("\"observe\": \"qve\", " LAW), BPTT, "sample.noise[0].observe: expected what the policy observes"},
    {SEEN("\"observe\": \"time\", " LAW), BPTT, "sample.noise[0].observe: the policy observes no time"},
    {SEEN("\"observe\": \"qvel\", \"components\": [2], " LAW), BPTT, "sample.noise[0].components"},
    {COMMANDS ", \"noise\": [{" LAW "}, {\"observe\": \"qvel\", " LAW "}]", BPTT, "drawn by entry 0 of this list, too"},
    {COMMANDS, BPTT ", \"evaluate\": {\"noise\": 1}", "train.evaluate.noise"},
};

static void test_mistakes(void **state) {
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    pbTrain *t;
    const char *path = write_file("bad.json", task_text(POLICY, mistakes[i].sample, mistakes[i].train, EPISODE));
    pbStatus status = pbTrain_Load(*state, path, NULL, NULL, &t);
    if (status != pb_bad_input && status != pb_unsupported) fail_msg("%s: %s", mistakes[i].sample, pbContext_Error(*state));
    if (!strstr(pbContext_Error(*state), mistakes[i].words)) fail_msg("%s: %s", mistakes[i].words, pbContext_Error(*state));
  }

  // of a search that is no training
  pbTask *task;
  const char *path = write_file("search.json", "{\"model\": \"" SCENE
                                               "\", \"steps\": 3, \"variables\": [{\"state\": \"qvel\"}], "
                                               "\"loss\": [{\"qvel\": true}], \"sample\": {\"pushes\": [{\"body\": \"arm\"}]}}");
  assert_int_equal(pbTask_Load(*state, path, NULL, &task), pb_bad_input);
  assert_non_null(strstr(pbContext_Error(*state), "sample.pushes: are drawn in a training"));
}

int main(void) {
  snprintf(folder, sizeof folder, "/tmp/pullback-drawn-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_gradients, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_parameters, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_what_critics_see, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_what_is_drawn, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_windows_cut_the_same, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_pushes_act, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_noise, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_same_bits, make_context, drop_context),
      cmocka_unit_test_setup_teardown(test_mistakes, make_context, drop_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
