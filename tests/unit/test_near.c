// Dofs that meet in joint space and their colors: joints of several dofs, fixed tendons that share one, coupled joints; no two
// dofs of a color are near the same one. What goes along bodies makes none near.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pullback/pullback.h>

#include "model/topology.h"
#include "support/support.h"

// Dofs: a ball 0 1 2, hinges 3 to 8. Tendons join 3 with 4 and 4 with 5; an equality 6 with 7; a spatial tendon is there, too.
static const char chain[] =
    "<mujoco><worldbody><site name='s'/><body><joint name='ball' type='ball'/><geom size='.1'/><body pos='.2 0 0'><joint "
    "name='a'/>"
    "<geom size='.1'/><body pos='.2 0 0'><joint name='b'/><geom size='.1'/><body pos='.2 0 0'><joint name='c'/><geom size='.1'/>"
    "<site name='t'/></body></body></body></body><body pos='0 1 0'><joint name='d'/><geom size='.1'/></body><body pos='0 2 0'>"
    "<joint name='e'/><geom size='.1'/></body><body pos='0 3 0'><joint name='f'/><geom size='.1'/></body></worldbody><tendon>"
    "<fixed name='ab'><joint joint='a' coef='1'/><joint joint='b' coef='1'/></fixed><fixed name='bc'><joint joint='b' coef='1'/>"
    "<joint joint='c' coef='1'/></fixed><spatial><site site='s'/><site site='t'/></spatial></tendon><equality>"
    "<joint joint1='d' joint2='e'/></equality></mujoco>";

static int count_near(const pbTopology *t, int dof) { return t->near_start[dof + 1] - t->near_start[dof]; }

static void test_what_is_near(void **state) {
  (void)state;
  static const int expected[] = {3, 3, 3, 2, 3, 2, 2, 2, 1};
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m = model_of_text(ctx, chain);
  const pbTopology *t = m->topology;
  assert_int_equal(m->nv, 9);
  for (int i = 0; i < m->nv; i++) assert_int_equal(count_near(t, i), expected[i]);

  // Of the middle one: all three.
  for (int k = 0; k < 3; k++) assert_int_equal(t->near_dof[t->near_start[4] + k], 3 + k);
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

static void test_colors(void **state) {
  (void)state;
  pbContext *ctx = pbContext_Create(NULL);
  pbModel *m = model_of_text(ctx, chain);
  const pbTopology *t = m->topology;
  assert_int_equal(t->ncolor, 3);
  for (int i = 0; i < m->nv; i++) {
    for (int a = t->near_start[i]; a < t->near_start[i + 1]; a++) {
      for (int b = t->near_start[i]; b < a; b++) assert_int_not_equal(t->dof_color[t->near_dof[a]], t->dof_color[t->near_dof[b]]);
    }
  }

  // Dofs that one carries follow it.
  static const int end[] = {6, 6, 6, 6, 6, 6, 7, 8, 9};
  for (int i = 0; i < m->nv; i++) assert_int_equal(t->dof_end[i], end[i]);
  pbModel_Destroy(m);
  pbContext_Destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_near), cmocka_unit_test(test_colors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
