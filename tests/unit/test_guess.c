// A step of deformables that begins at the solution of a step close by: few iterations, and the state that it finds from where the
// step itself begins. Checks of gradients take their steps so (rollout/sample_quotient.c).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "couple/deform_step.h"

// A cloth that falls onto a ball, with friction.
static const char scene[] =
    "{\"model\": \"<mujoco><option timestep='.01'/><worldbody><geom name='ball' type='sphere' "
    "size='.2'/>%s</worldbody></mujoco>\","
    " \"deformables\": {\"tolerance\": 1e-12, \"bodies\": [{\"name\": \"cloth\", \"mesh\": {\"grid\": {\"u\": [0.6, 0, 0], "
    "\"v\": [0, "
    "0.6, 0], \"cells\": [8, 8]}}, \"pos\": [-0.3, -0.3, 0.204], %s \"energies\": [{\"energy\": \"membrane_stvk\", "
    "\"parameters\": "
    "{\"young\": 2e5, \"poisson\": 0.3, \"thickness\": 1e-3, \"density\": 150}}]}], \"contact\": {\"distance\": 0.02, "
    "\"stiffness\": "
    "100, \"friction\": 0.3, \"geoms\": [\"ball\"]}}, \"steps\": 1, \"variables\": [{\"state\": \"points\"}], \"loss\": "
    "[{\"points\": "
    "\"cloth\", \"target\": 0}]}";

#define EDGE(x) "\"points\": {\"box\": [[" x ", null, null], [null, null, null]]}"
static const char arm[] =
    "<body name='arm' pos='.4 0 .204'><joint axis='0 1 0' damping='.01'/>"
    "<geom type='capsule' fromto='0 -.3 0 0 .3 0' size='.01' mass='.3' contype='0' conaffinity='0'/></body>";
static const char hand[] = "<body name='hand' mocap='true' pos='-.4 0 .204'/>";
static const char glue[] = "\"attach\": [{" EDGE("0.599") ", \"body\": \"arm\"}],";
static const char led[] =
    "\"attach\": [{" EDGE("0.599") ", \"body\": \"arm\"}, {\"points\": 0, \"body\": \"hand\"}],"
    " \"pins\": [{\"points\": 8, \"velocity\": [0, 0.05, 0.3]}],";
static const char pinned[] = "\"pins\": [{\"points\": 8, \"velocity\": [0, 0.05, 0.3]}],";

// One step from x, in place; the iterations that it took.
static int step(const pbModel *m, pbScratch *s, const double *mocap, double *x) {
  pbStatus status;
  do status = pbStep_Forward(m, pbModel_DefaultParams(m), x, &(pbInput){.mocap_pos = mocap}, s, NULL);
  while (pbScratch_Grow(s, &status));
  if (status != pb_ok) fail_msg("%s", pbScratch_Error(s));
  return pbScratch_Report(s).iterations;
}

// The step after some others, displaced by a tenth of a micrometer: from its own start and from the recorded solution.
static void compare(const char *bodies, const char *holds, bool mocap) {
  enum { before = 4 };
  pbContext *ctx = pbContext_Create(NULL);
  pbTask *task;
  pbScratch *s;
  char text[4000];
  int length = snprintf(text, sizeof text, scene, bodies, holds);
  assert_true(length > 0 && (size_t)length < sizeof text);
  if (pbTask_Parse(ctx, text, (size_t)length, NULL, "scene", &task) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  const pbModel *m = pbTask_Model(task);
  assert_int_equal(pbScratch_Create(ctx, m, NULL, &s), pb_ok);

  // The hand goes on by 3 mm a step.
  size_t n = (size_t)pbModel_StateSize(m);
  double *x = calloc(n, sizeof *x), *start = calloc(n, sizeof *x), *near = calloc(n, sizeof *x);
  double *record = calloc((size_t)pbTape_Size(m), sizeof *x);
  double pos[3] = {-0.4, 0, 0.204};
  assert_int_equal(pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, x), pb_ok);
  for (int k = 0; k <= before; k++) {
    pos[2] += 0.003;
    memcpy(start, x, n * sizeof *x);
    step(m, s, mocap ? pos : NULL, x);
  }
  pbTape_Record(m, start, s, record);

  // Points and bodies displaced
  for (size_t i = 1; i < n; i++) start[i] += 1e-7 * sin((double)i);
  memcpy(x, start, n * sizeof *x);
  int alone = step(m, s, mocap ? pos : NULL, x);
  memcpy(near, start, n * sizeof *x);
  pbScratch_GuessDeform(s, record);
  int guessed = step(m, s, mocap ? pos : NULL, near);
  pbScratch_GuessDeform(s, NULL);
  if (guessed > 3 || alone <= guessed)
    fail_msg("%s%s: %d iterations from the solution, %d without", bodies, holds, guessed, alone);

  // Both are one minimum.
  for (size_t i = 0; i < n; i++) {
    if (!(fabs(x[i] - near[i]) < 1e-7))
      fail_msg("%s%s: entry %zu: %.17g from the solution, %.17g without", bodies, holds, i, near[i], x[i]);
  }

  free(x);
  free(start);
  free(near);
  free(record);
  pbScratch_Destroy(s);
  pbTask_Destroy(task);
  pbContext_Destroy(ctx);
}

static void test_alone(void **state) {
  (void)state;
  compare("", "", false);
  compare("", pinned, false);
}

static void test_coupled(void **state) {
  (void)state;
  char both[1000];
  compare(arm, glue, false);
  snprintf(both, sizeof both, "%s%s", arm, hand);
  compare(both, led, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone), cmocka_unit_test(test_coupled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
