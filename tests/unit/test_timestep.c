// The time step as an unknown: gradients and residuals by it against differences, in both modes, the least time of a cart, what
// is refused beside it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/optimize.h>

#include "support/support.h"

#define WORLD                                                                                                                   \
  "\"model\": \"<mujoco><option timestep='0.01' integrator='%s'/><worldbody><geom type='plane' size='5 5 1'/><body "            \
  "pos='0 0 .3'><joint name='z' type='slide' axis='0 0 1'/><joint name='swing' axis='0 1 0' damping='.1' stiffness='3'/><geom " \
  "type='capsule' size='.05' contype='0' conaffinity='0' fromto='0 0 0 .3 0 0' mass='1'/><site name='tip' pos='.3 0 "           \
  "0'/></body></worldbody><actuator>"                                                                                           \
  "<motor name='turn' joint='swing'/></actuator><sensor><clock name='clock'/><framepos objtype='site' objname='tip'/></sensor>" \
  "</mujoco>\", \"steps\": 60"
#define STEP "{\"parameter\": \"timestep\", \"lower\": 0.002, \"upper\": 0.03%s}"
#define SQUARES                                                                                                              \
  "{\"qpos\": true, \"at\": \"all\"}, {\"sensor\": true, \"at\": \"all\", \"target\": [0.2, 0.1, 0.1, 0.1]}, {\"formula\": " \
  "\"t^2*(x - 0.2)\", \"inputs\": {\"x\": {\"qpos\": \"swing\"}}, \"at\": \"all\", \"type\": \"squared\"}, {\"name\": "      \
  "\"time\", "                                                                                                               \
  "\"formula\": \"t\", \"inputs\": {\"v\": {\"qvel\": \"z\"}}, \"type\": \"squared\", \"weight\": 3}"

static pbTask *parse(pbContext *ctx, const char *integrator, const char *variables, const char *loss) {
  char text[8192], world[2048];
  pbTask *task;
  snprintf(world, sizeof world, WORLD, integrator);
  snprintf(text, sizeof text, "{%s, \"variables\": [%s], \"loss\": [%s]}", world, variables, loss);
  good(ctx, pbTask_Parse(ctx, text, strlen(text), NULL, "test.json", &task));
  return task;
}

// The first unknown is the time step.
static void test_slopes(void **state) {
  static const char *const integrators[] = {"Euler", "RK4", "implicitfast"};
  static const char *const variables[] = {"", ", \"transform\": \"log\", \"scale\": 0.5"},
                           *const others[] = {"", ", {\"control\": true, \"start\": 0.4}"};
  for (int i = 0; i < 3; i++) {
    for (int v = 0; v < 2; v++) {
      for (int o = 0; o < 2; o++) {
        char text[1024];
        snprintf(text, sizeof text, STEP "%s", variables[v], others[o]);
        pbTask *task = parse(*state, integrators[i], text, SQUARES);
        size_t n = (size_t)pbTask_Size(task), m = pbTask_ResidualCount(task);
        double *z = zeros(n), *g = zeros(n), *r = zeros(m), *up = zeros(m), *J = zeros(m * n), value, high, low;
        memcpy(z, pbTask_Start(task), n * sizeof *z);
        good(*state, pbTask_Loss(task, z, &value, g));
        good(*state, pbTask_Residuals(task, z, r, J));

        // central differences: their error is by the square of the move, and rounding
        double at = z[0], move = 1e-5 * fabs(at), column = 0, worst = 0, along = 0;
        z[0] = at - move;
        good(*state, pbTask_Residuals(task, z, r, NULL));
        good(*state, pbTask_Loss(task, z, &low, NULL));
        z[0] = at + move;
        good(*state, pbTask_Residuals(task, z, up, NULL));
        good(*state, pbTask_Loss(task, z, &high, NULL));
        double slope = (high - low) / (2 * move);
        for (size_t k = 0; k < m; k++) {
          double quotient = (up[k] - r[k]) / (2 * move);
          column = fmax(column, fabs(quotient));
          worst = fmax(worst, fabs(J[k * n] - quotient));
          along += J[k * n] * (up[k] + r[k]);
        }
        if (!(fabs(g[0] - slope) <= 1e-6 * fabs(slope)) || !(worst <= 1e-6 * column) ||
            !(fabs(along - g[0]) <= 1e-6 * fabs(slope)))
          fail_msg("%s %s %d: %g, quotient %g; residuals off by %g of %g, together %g", integrators[i], variables[v], o, g[0],
                   slope, worst, column, along);
        pbTask_Destroy(task);
        free(z);
        free(g);
        free(r);
        free(up);
        free(J);
      }
    }
  }
}

// A cart that begins and ends at rest, a distance d away, with forces of at most f: T = 2 sqrt(d m / f), half of the steps to
// either side, exactly so for steps of any length (velocities first, then positions).
static void test_least_time(void **state) {
  static const char text[] =
      "{\"model\": \"<mujoco><option timestep='0.05' gravity='0 0 0'/><worldbody><body><joint name='x' type='slide' axis='1 0 "
      "0'/>"
      "<geom type='sphere' size='.1' mass='2'/></body></worldbody><actuator><motor joint='x'/></actuator></mujoco>\", "
      "\"steps\": 20, \"variables\": [{\"parameter\": \"timestep\", \"upper\": 0.5, \"scale\": 0.1}, {\"control\": true, "
      "\"lower\": -3, "
      "\"upper\": 3}], \"loss\": [{\"formula\": \"t\", \"inputs\": {\"x\": {\"qpos\": \"x\"}}, \"type\": \"squared\"}, "
      "{\"qpos\": \"x\", "
      "\"target\": 1.5, \"constraint\": true}, {\"qvel\": \"x\", \"constraint\": true}], \"optimizer\": {\"method\": "
      "\"gauss-newton\", \"iterations\": 200}}";
  pbTask *task;
  pbRunResult result;
  good(*state, pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task));
  good(*state, pbTask_Run(task, NULL, &result));
  double T = 20 * 0.1 * result.z[0], least = 2 * sqrt(1.5 * 2 / 3);
  print_message("%.7f s, least %.7f, %d iterations\n", T, least, result.iterations);
  assert_near_of("least time", T, least, 1e-5 * least);
  for (int k = 0; k < 20; k++) assert_near_of("force", result.z[1 + k], k < 10 ? 3 : -3, 1e-3);
  pbTask_Destroy(task);
}

static void test_refusals(void **state) {
  static const struct {
    const char *step, *more, *loss, *why;
  } cases[] = {{"{\"parameter\": \"timestep\"}", "", "{\"qpos\": true}", "expected \"upper\""},
               {NULL, "", "{\"qpos\": \"z\", \"at\": [0.1, 0.2]}", "times in seconds"},
               {NULL, "", "{\"qpos\": \"z\", \"at\": {\"from\": 0.1}}", "times in seconds"},
               {NULL, "", "{\"qpos\": \"z\", \"at\": \"all\", \"discount\": 2}", "a discount"},
               {NULL, "", "{\"qpos\": \"z\", \"at\": \"all\", \"delay\": 0.02}", "delay"},
               {NULL, "\"sample\": {\"worlds\": 2, \"parameters\": [{\"parameter\": \"timestep\", \"uniform\": [0.01, 0.02]}]}, ",
                "{\"qpos\": true}", "cannot be varied so"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[8192], world[2048];
    pbTask *task = NULL;
    const char *step = cases[i].step ? cases[i].step : "{\"parameter\": \"timestep\", \"upper\": 0.03}";
    snprintf(world, sizeof world, WORLD, "Euler");
    snprintf(text, sizeof text, "{%s, %s\"variables\": [%s], \"loss\": [%s]}", world, cases[i].more, step, cases[i].loss);
    pbStatus status = pbTask_Parse(*state, text, strlen(text), NULL, "test.json", &task);
    if (status == pb_ok || !strstr(pbContext_Error(*state), cases[i].why))
      fail_msg("case %zu: %d '%s' does not say '%s'", i, status, pbContext_Error(*state), cases[i].why);
    pbTask_Destroy(task);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_slopes), cmocka_unit_test(test_least_time),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, make_context, drop_context);
}
