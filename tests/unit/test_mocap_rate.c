// Velocities of mocap bodies by two poses: a turn at a constant rate, both derivatives against differences and each other.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/io.h>
#include <pullback/random.h>
#include <pullback/world.h>
#include <pullback/spec.h>

#include "model/mocap.h"
#include "model/model.h"
#include "support/support.h"

static const char scene[] =
    "<mujoco><option timestep='0.01'/><worldbody><body name='a' mocap='true' pos='1 2 3'/>"
    "<body name='b' mocap='true' quat='.9 .1 -.3 .2'/></worldbody></mujoco>";
enum { bodies = 2 };

typedef struct World {
  pbContext *ctx;
  pbModel *m;
} World;

static World load(void) {
  World w = {0};
  w.ctx = pbContext_Create(NULL);
  w.m = model_of_text(w.ctx, scene);
  return w;
}

static void unload(World *w) {
  pbModel_Destroy(w->m);
  pbContext_Destroy(w->ctx);
}

// By a constant rate from the model's poses: told again to rounding, and exactly zero where nothing moves.
static void test_constant_rate(void **state) {
  (void)state;
  World w = load();
  const double *theta = pbModel_DefaultParams(w.m);
  double pos[3 * bodies], quat[4 * bodies], velocity[6 * bodies];
  const double turn[3] = {0.3, -0.5, 0.7}, h = 0.01;

  assert_int_equal(pbModel_MocapVelocity(w.ctx, w.m, theta, NULL, NULL, NULL, NULL, velocity), pb_ok);
  for (int i = 0; i < 6 * bodies; i++) assert_true(velocity[i] == 0);

  // Body 0 stands along the world's axes: its frame and the world's are one.
  const double rotation[3 * bodies] = {turn[0], turn[1], turn[2]};
  const double way[3 * bodies] = {0.1, 0.2, -0.3, 1, 2, 3};
  pbModel_MocapPose(w.m, theta, -1, pos, quat);
  pbModel_MocapMove(w.m, way, rotation, h, pos, quat);
  assert_int_equal(pbModel_MocapVelocity(w.ctx, w.m, theta, NULL, NULL, pos, quat, velocity), pb_ok);
  for (int i = 0; i < 3; i++) {
    assert_true(fabs(velocity[i] - way[i]) < 1e-12);
    assert_true(fabs(velocity[3 + i] - turn[i]) < 1e-12);
    assert_true(fabs(velocity[6 + i] - way[3 + i]) < 1e-12);
    assert_true(velocity[9 + i] == 0);
  }

  // -q is the same orientation.
  for (int i = 0; i < 4; i++) quat[i] = -quat[i];
  assert_int_equal(pbModel_MocapVelocity(w.ctx, w.m, theta, NULL, NULL, pos, quat, velocity), pb_ok);
  for (int i = 0; i < 3; i++) assert_true(fabs(velocity[3 + i] - turn[i]) < 1e-12);
  unload(&w);
}

static void draw(pbRng *rng, double scale, double *x, int n) {
  for (int i = 0; i < n; i++) x[i] = scale * pbRng_Normal(rng);
}

// Turns from tiny ones, where series act, to more than a right angle.
static void check_derivatives(const World *w, pbRng *rng, double angle) {
  double pos[2][3 * bodies], quat[2][4 * bodies], turn[3 * bodies], d[2][2][3 * bodies], to[2][2][3 * bodies] = {{{0}}};
  double bar[6 * bodies], push[6 * bodies], side[2][6 * bodies], h = 0.01, by_h = 0.3, h_bar = 0;

  draw(rng, 1, pos[0], 3 * bodies);
  draw(rng, 1, pos[1], 3 * bodies);
  draw(rng, 1, quat[0], 4 * bodies);
  draw(rng, 1, turn, 3 * bodies);
  memcpy(quat[1], quat[0], sizeof quat[0]);
  for (int k = 0; k < bodies; k++) {
    double length = sqrt(turn[3 * k] * turn[3 * k] + turn[3 * k + 1] * turn[3 * k + 1] + turn[3 * k + 2] * turn[3 * k + 2]);
    for (int i = 0; i < 3; i++) turn[3 * k + i] /= length;
  }
  pbModel_MocapMove(w->m, NULL, turn, angle, pos[1], quat[1]);
  for (int i = 0; i < 4; i++) {
    draw(rng, 1, d[i / 2][i % 2], 3 * bodies);
  }
  draw(rng, 1, bar, 6 * bodies);

  const pbMocapPath path = {{pos[0], pos[1]}, {quat[0], quat[1]}, h};
  const pbMocapTangent along = {{d[0][0], d[0][1]}, {d[1][0], d[1][1]}, by_h};
  const pbMocapBar out = {{to[0][0], to[0][1]}, {to[1][0], to[1][1]}, &h_bar};
  pbMocap_PushRate(w->m, &path, &along, push);
  pbMocap_PullRate(w->m, &path, bar, &out);

  double forward = 0, reverse = h_bar * by_h, size = fabs(reverse);
  for (int i = 0; i < 6 * bodies; i++) forward += bar[i] * push[i];
  for (int k = 0; k < 4; k++) {
    for (int i = 0; i < 3 * bodies; i++) {
      reverse += d[k / 2][k % 2][i] * to[k / 2][k % 2][i];
      size += fabs(d[k / 2][k % 2][i] * to[k / 2][k % 2][i]);
    }
  }
  assert_true(fabs(forward - reverse) < 1e-11 * size);

  // Central differences
  const double e = 1e-6;
  for (int s = 0; s < 2; s++) {
    double x[2][3 * bodies], q[2][4 * bodies], eps = s ? e : -e;
    memcpy(x, pos, sizeof x);
    memcpy(q, quat, sizeof q);
    for (int k = 0; k < 2; k++) {
      for (int b = 0; b < bodies; b++) {
        double *one = q[k] + 4 * b, length = sqrt(one[0] * one[0] + one[1] * one[1] + one[2] * one[2] + one[3] * one[3]);
        for (int i = 0; i < 4; i++) one[i] /= length;
      }
      pbModel_MocapMove(w->m, d[0][k], d[1][k], eps, x[k], q[k]);
    }
    const pbMocapPath moved = {{x[0], x[1]}, {q[0], q[1]}, h + eps * by_h};
    pbMocap_Rate(w->m, &moved, side[s]);
  }
  for (int i = 0; i < 6 * bodies; i++) {
    double quotient = (side[1][i] - side[0][i]) / (2 * e);
    assert_true(fabs(quotient - push[i]) < 1e-5 * (1e3 + fabs(push[i])));
  }
}

static void test_derivatives(void **state) {
  (void)state;
  static const double angles[] = {0, 1e-9, 1e-4, 0.9e-3, 1.1e-3, 0.1, 1, 2, 3};
  World w = load();
  pbRng rng = pbRng_Seed(5);

  for (size_t i = 0; i < sizeof angles / sizeof *angles; i++) {
    for (int k = 0; k < 5; k++) check_derivatives(&w, &rng, angles[i]);
  }
  unload(&w);
}

// A velocity that is no number is refused, with the body; so is a path that jumps where something meets the body.
static void test_refused(void **state) {
  (void)state;
  World w = load();
  const double *theta = pbModel_DefaultParams(w.m);
  double velocity[6 * bodies] = {0}, x[64], far[3 * bodies] = {1e3};
  pbScratch *scratch = NULL;

  assert_true(pbModel_StateSize(w.m) <= 64);
  assert_int_equal(pbScratch_Create(w.ctx, w.m, NULL, &scratch), pb_ok);
  assert_int_equal(pbState_Init(w.ctx, w.m, theta, -1, x), pb_ok);
  velocity[6 + 4] = NAN;
  assert_int_equal(pbStep_Forward(w.m, theta, x, &(pbInput){.mocap_vel = velocity}, scratch, NULL), pb_bad_input);
  assert_non_null(strstr(pbScratch_Error(scratch), "mocap_vel of mocap body 'b' is not finite"));

  // Nothing meets these: they rest.
  assert_int_equal(pbModel_MocapVelocity(w.ctx, w.m, theta, NULL, NULL, far, NULL, velocity), pb_ok);
  for (int i = 0; i < 6; i++) assert_true(velocity[i] == 0);
  pbScratch_Destroy(scratch);
  unload(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_constant_rate), cmocka_unit_test(test_derivatives),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
