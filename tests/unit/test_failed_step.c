// A step that fails leaves no trace in its scratch: what comes after it is, to the bit, what a new scratch gives.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pullback/contact.h>
#include <pullback/io.h>
#include <pullback/rollout.h>
#include <pullback/spec.h>

#include "support/support.h"

// A body on the floor with an arm, a motor and a tendon.
static const char scene[] =
    "<mujoco><option timestep='0.004' %s/>"
    "<worldbody><geom type='plane' size='5 5 .1'/>"
    "<body pos='0 0 .101'><freejoint name='root'/><geom size='.1' mass='1'/><site name='a' pos='.1 0 0'/>"
    "<body pos='.1 0 0'><joint name='hinge' axis='0 1 0' range='-60 60' limited='true' damping='.05'/>"
    "<geom type='capsule' size='.02' fromto='0 0 0 .3 0 0'/><site name='b' pos='.3 0 0'/></body></body></worldbody>"
    "<tendon><spatial stiffness='3' springlength='.1'><site site='a'/><site site='b'/></spatial></tendon>"
    "<actuator><general joint='hinge' dyntype='filter' dynprm='.05' gainprm='2'/></actuator>"
    "<sensor><accelerometer site='b'/><framelinvel objtype='site' objname='b'/></sensor></mujoco>";

enum { MOST = 64, STEPS = 5 };
typedef struct Seen {
  double x[MOST], observed[6], sensed[STEPS][6], qacc[MOST];
} Seen;

static pbModel *compile(pbContext *ctx, const char *option, const char *method) {
  char text[2000];
  snprintf(text, sizeof text, scene, option);
  pbModel *model = model_of_text(ctx, text);
  if (method && pbModel_SetContact(model, "method", method) != pb_ok) fail_msg("%s", pbContext_Error(ctx));
  if (method && strcmp(method, "impact") == 0) assert_int_equal(pbModel_SetContact(model, "restitution", "0.5"), pb_ok);
  assert_true(pbModel_StateSize(model) <= MOST);
  return model;
}

// An evaluation, some steps, another evaluation.
static void look(const pbModel *m, pbScratch *s, const double *x0, Seen *seen) {
  memset(seen, 0, sizeof *seen);
  memcpy(seen->x, x0, (size_t)pbModel_StateSize(m) * sizeof(double));
  const pbInput input = {.ctrl = &(double){.3}};
  const double *qacc;
  int rows, columns;

  pbStatus status = pbStep_Observe(m, pbModel_DefaultParams(m), seen->x, &input, s, seen->observed);
  if (status != pb_ok) fail_msg("%s", pbScratch_Error(s));
  assert_true(pbScratch_Field(s, "qacc", &qacc, &rows, &columns));
  memcpy(seen->qacc, qacc, (size_t)rows * sizeof *qacc);
  for (int k = 0; k < STEPS; k++)
    if (pbStep_Forward(m, pbModel_DefaultParams(m), seen->x, &input, s, seen->sensed[k]) != pb_ok)
      fail_msg("step %d: %s", k, pbScratch_Error(s));
}

// Steps from states that are too fast to go on from, in ways that different stages notice.
static int provoke(const pbModel *m, pbScratch *s, const double *x0) {
  static const double speed[] = {1e9, 1e12, 1e40, 1e80, 1e120, 1e155, 1e200, 1e300};
  int failures = 0, nq = pbModel_Size(m, "nq"), nv = pbModel_Size(m, "nv");
  double x[MOST];
  for (size_t i = 0; i < sizeof speed / sizeof *speed; i++)
    for (int dof = 0; dof < nv; dof++) {
      memcpy(x, x0, (size_t)pbModel_StateSize(m) * sizeof *x);
      x[1 + nq + dof] = speed[i];
      pbStatus status = pb_ok;
      for (int k = 0; k < 3 && status == pb_ok; k++) status = pbStep_Forward(m, pbModel_DefaultParams(m), x, NULL, s, NULL);
      failures += status != pb_ok;

      // and at once an evaluation of a good state
      double sensed[6];
      if (status != pb_ok && pbStep_Observe(m, pbModel_DefaultParams(m), x0, NULL, s, sensed) != pb_ok)
        fail_msg("after a failure at dof %d with %g: %s", dof, speed[i], pbScratch_Error(s));
    }
  return failures;
}

static void test_nothing_stays_behind(void **state) {
  (void)state;
  static const char *const option[] = {"",
                                       "integrator='RK4'",
                                       "integrator='implicitfast'",
                                       "integrator='RK4' noslip_iterations='3'",
                                       "noslip_iterations='3' cone='elliptic'",
                                       "cone='elliptic' integrator='implicitfast'"};
  static const char *const method[] = {NULL, "impact", "penalty"};
  pbContext *ctx = pbContext_Create(NULL);

  for (size_t i = 0; i < sizeof option / sizeof *option; i++)
    for (size_t j = 0; j < sizeof method / sizeof *method; j++) {
      if (method[j] && *option[i]) continue;
      pbModel *m = compile(ctx, option[i], method[j]);
      pbScratch *used, *fresh;
      double x0[MOST];
      Seen before, after, alone;
      assert_int_equal(pbScratch_Create(ctx, m, NULL, &used), pb_ok);
      assert_int_equal(pbScratch_Create(ctx, m, NULL, &fresh), pb_ok);
      assert_int_equal(pbState_Init(ctx, m, pbModel_DefaultParams(m), -1, x0), pb_ok);

      look(m, used, x0, &before);
      assert_true(provoke(m, used, x0) > 5);
      look(m, used, x0, &after);
      look(m, fresh, x0, &alone);
      assert_memory_equal(&before, &after, sizeof before);
      assert_memory_equal(&alone, &after, sizeof after);
      pbScratch_Destroy(used);
      pbScratch_Destroy(fresh);
      pbModel_Destroy(m);
    }
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_stays_behind)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
