// Own values that are given (pbBatchOptions.own_given): new starts of a rollout in parts have others; derived constants follow.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/batch.h>

#include "support/support.h"

static const char scene[] =
    "<mujoco><option timestep='0.004'/><worldbody><geom name='floor' type='plane' size='5 5 .1'/>"
    "<body name='ball' pos='0 0 .098'><freejoint/><geom name='ball' size='.1' mass='1'/></body>"
    "<body name='arm' pos='1 0 1'><joint name='swing' axis='0 1 0' damping='.1' range='-1 .02' limited='true'/>"
    "<geom type='capsule' size='.03' fromto='0 0 0 .4 0 .1'/>"
    "<body name='hand' pos='.4 0 .1'><joint name='wrist' axis='0 1 0'/><geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/>"
    "<site name='end' pos='.3 0 0'/></body></body></worldbody><sensor><framepos objtype='site' objname='end'/><accelerometer "
    "site='end'/></sensor></mujoco>";

enum { W = 6, T = 12, PARTS = 3 };
static const int bounds[PARTS + 1] = {0, 5, 6, T};
static const char *const own[] = {"body_mass:hand", "geom_friction:ball:0", "body_pos:hand:2"};

typedef struct World {
  pbContext *ctx;
  pbModel *model;
  size_t nx, nv, ns, ntheta;
  double *x0, *bar_v, *bar_s;
} World;

static int setup(void **state) {
  World *s = calloc(1, sizeof *s);
  unsigned seed = 5;
  s->ctx = pbContext_Create(NULL);
  s->model = model_of_text(s->ctx, scene);
  s->ntheta = pbModel_ParamSize(s->model);
  s->nx = (size_t)pbModel_StateSize(s->model);
  s->nv = (size_t)pbModel_Size(s->model, "nv");
  s->ns = (size_t)pbModel_Size(s->model, "nsensordata");
  s->x0 = calloc(W * s->nx, sizeof(double));
  s->bar_v = random_numbers(W * s->nv, 1, &seed);
  s->bar_s = random_numbers(W * (T + 1) * s->ns, 1, &seed);

  double *move = random_numbers(W * 2 * s->nv, 1, &seed);
  for (size_t w = 0; w < W; w++) {
    if (pbState_Init(s->ctx, s->model, pbModel_DefaultParams(s->model), -1, s->x0 + w * s->nx) != pb_ok) return 1;
    pbState_Move(s->model, s->x0 + w * s->nx, move + w * 2 * s->nv, .02);
  }
  free(move);
  *state = s;
  return 0;
}

static int teardown(void **state) {
  World *s = *state;
  free(s->x0);
  free(s->bar_v);
  free(s->bar_s);
  pbModel_Destroy(s->model);
  pbContext_Destroy(s->ctx);
  free(s);
  return 0;
}

// World w begins anew with part 1 or 2, or not at all.
static bool anew(size_t w, int part) { return part > 0 && (w % 3 == (size_t)part % 3 || w % 3 == 0); }

// What a world has of its own in a part: as it had before, unless it begins anew there.
static void values(size_t w, int part, double *out) {
  while (part > 0 && !anew(w, part)) part--;
  out[0] = 0.2 + 0.1 * (double)w + 0.3 * part;
  out[1] = 0.3 + 0.2 * part + 0.05 * (double)w;
  out[2] = 0.1 + 0.02 * part;
}

static pbBatch *open(const World *s, pbPool *pool, int worlds, int steps, bool given) {
  pbBatchOptions options = {.worlds = worlds, .pool = pool, .steps = steps, .own = own, .own_count = 3};
  options.own_given = given;
  options.restarts = given ? PARTS - 1 : 0;
  pbBatch *batch;
  good(s->ctx, pbBatch_Create(s->ctx, s->model, &options, &batch));
  return batch;
}

typedef struct Result {
  double *end, *sensors, *theta;
} Result;

static Result begin_result(const World *s) {
  return (Result){.end = calloc(W * s->nx, sizeof(double)),
                  .sensors = calloc(W * (T + 1) * s->ns, sizeof(double)),
                  .theta = calloc(s->ntheta, sizeof(double))};
}

static void end_result(Result *r) {
  free(r->end);
  free(r->sensors);
  free(r->theta);
}

static void run_parts(const World *s, pbPool *pool, bool derive, bool tape, Result *r) {
  pbBatch *batch = open(s, pool, W, tape ? T : 0, true);
  pbBatchOutput output = {.sensordata = r->sensors};
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, s->x0));
  for (size_t w = 0; w < W; w++) values(w, 0, pbBatch_Own(batch) + w * 3);
  if (derive) good(s->ctx, pbBatch_Derive(batch, NULL, NULL, 0));

  for (int part = 0; part < PARTS; part++) {
    for (size_t w = 0; w < W; w++) {
      if (!anew(w, part)) continue;
      memcpy(pbBatch_States(batch) + w * s->nx, s->x0 + (w + 1) % W * s->nx, s->nx * sizeof(double));
      values(w, part, pbBatch_Own(batch) + w * 3);
    }
    good(s->ctx, pbBatch_RolloutPart(batch, NULL, T, bounds[part], bounds[part + 1], NULL, &output));
  }

  memcpy(r->end, pbBatch_States(batch), W * s->nx * sizeof *r->end);
  pbRolloutBar bar = {.qvel = {.data = s->bar_v, .count = 1}, .sensordata = {.data = s->bar_s, .count = T + 1}};
  double spare[W * 3];
  if (tape) {
    assert_int_equal(pbBatch_Vjp(batch, &bar, NULL, &(pbBatchGradient){.own = spare}, NULL), pb_bad_argument);
    good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, &(pbBatchGradient){.theta = r->theta}, NULL));
  }
  pbBatch_Destroy(batch);
}

// A world between two new starts by itself: adds its gradient; x goes on.
static void run_piece(const World *s, size_t w, int first, int last, bool derive, double *x, Result *r) {
  int from = bounds[first], steps = bounds[last] - from;
  pbBatch *batch = open(s, NULL, 1, steps, false);
  size_t rows = w * (T + 1) + (size_t)from, skip = first > 0 ? 1 : 0, count = (size_t)steps + 1 - skip;
  double *sensors = calloc((T + 1) * s->ns, sizeof *sensors), *bar_s = calloc((T + 1) * s->ns, sizeof *bar_s);
  good(s->ctx, pbBatch_Reset(batch, NULL, NULL, 0, -1, x));
  values(w, first, pbBatch_Own(batch));
  if (derive) good(s->ctx, pbBatch_Derive(batch, NULL, NULL, 0));
  good(s->ctx, pbBatch_Rollout(batch, NULL, NULL, 0, steps, NULL, &(pbBatchOutput){.sensordata = sensors}));
  memcpy(x, pbBatch_States(batch), s->nx * sizeof *x);

  // the row at the start is of what was before
  memcpy(bar_s + skip * s->ns, s->bar_s + (rows + skip) * s->ns, count * s->ns * sizeof *bar_s);
  memcpy(r->sensors + (rows + skip) * s->ns, sensors + skip * s->ns, count * s->ns * sizeof *sensors);
  pbRolloutBar bar = {.sensordata = {.data = bar_s, .count = steps + 1}};
  if (last == PARTS) bar.qvel = (pbCotangent){.data = s->bar_v + w * s->nv, .count = 1};
  good(s->ctx, pbBatch_Vjp(batch, &bar, NULL, &(pbBatchGradient){.theta = r->theta}, NULL));
  free(sensors);
  free(bar_s);
  pbBatch_Destroy(batch);
}

static void run_pieces(const World *s, bool derive, Result *r) {
  for (size_t w = 0; w < W; w++) {
    double *x = r->end + w * s->nx;
    memcpy(x, s->x0 + w * s->nx, s->nx * sizeof *x);
    for (int first = 0, last = 1; last <= PARTS; last++) {
      if (last < PARTS && !anew(w, last)) continue;
      run_piece(s, w, first, last, derive, x, r);
      if (last < PARTS) memcpy(x, s->x0 + (w + 1) % W * s->nx, s->nx * sizeof *x);
      first = last;
    }
  }
}

static void test_new_starts_have_others(void **state) {
  World *s = *state;
  for (int derive = 0; derive < 2; derive++) {
    Result pieces = begin_result(s);
    run_pieces(s, derive, &pieces);
    for (int threads = 0; threads < 3; threads++) {
      pbPool *pool = NULL;
      Result parts = begin_result(s);
      if (threads) good(s->ctx, pbPool_Create(s->ctx, threads, &pool));
      run_parts(s, pool, derive, threads > 0, &parts);
      assert_memory_equal(parts.end, pieces.end, W * s->nx * sizeof(double));
      assert_memory_equal(parts.sensors, pieces.sensors, W * (T + 1) * s->ns * sizeof(double));

      double size = 0;
      for (size_t i = 0; i < s->ntheta; i++) size = fmax(size, fabs(pieces.theta[i]));
      assert_true(size > 0);
      size_t compared = threads ? s->ntheta : 0;
      for (size_t i = 0; i < compared; i++) {
        if (!(fabs(parts.theta[i] - pieces.theta[i]) <= 1e-12 * size))
          fail_msg("entry %zu: %.17g, expected %.17g", i, parts.theta[i], pieces.theta[i]);
      }
      end_result(&parts);
      pbPool_Destroy(pool);
    }
    end_result(&pieces);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_new_starts_have_others, setup, teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
