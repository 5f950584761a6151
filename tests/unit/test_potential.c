// Every row potential in every zone: its force is minus the slope of its value, its Hessian minus that of the force, and the pullback of
// its force by D, friction, impratio and bounds agrees with the complex step of the force.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eval/row.h"
#include "probe_potential.h"

#define FRICTION \
  { 0.8, 0.6, 0.05, 0.01, 0.02 }

static const PotentialRow ROWS[] = {
    {"equality", pb_rowEquality, 3, false, 0, {{0.3, -0.2, 0.7}, FRICTION, 1, 0, 50, 0}, pb_zoneActive},
    {"friction loss, within", pb_rowFriction, 1, false, 0, {{0.01}, FRICTION, 1, 2, 50, 2}, pb_lossQuadratic},
    {"friction loss, above", pb_rowFriction, 1, false, 0, {{0.5}, FRICTION, 1, 2, 50, 2}, pb_lossAbove},
    {"friction loss, below", pb_rowFriction, 1, false, 0, {{-0.5}, FRICTION, 1, 2, 50, 2}, pb_lossBelow},
    {"servo, within", pb_rowServo, 1, false, 0, {{0.03}, FRICTION, 1, 2, 50, 0.4}, pb_lossQuadratic},
    {"servo, above", pb_rowServo, 1, false, 0, {{0.5}, FRICTION, 1, 2, 50, 0.4}, pb_lossAbove},
    {"servo, below", pb_rowServo, 1, false, 0, {{-0.03}, FRICTION, 1, 2, 50, 0.4}, pb_lossBelow},
    {"servo, of one sign", pb_rowServo, 1, false, 0, {{-0.03}, FRICTION, 1, -1, 50, 4}, pb_lossQuadratic},
    {"limit, pushing", pb_rowLimit, 1, false, 0, {{-0.4}, FRICTION, 1, 0, 50, 0}, pb_zoneActive},
    {"limit, open", pb_rowLimit, 1, false, 0, {{0.4}, FRICTION, 1, 0, 50, 0}, pb_zoneOpen},
    {"limit, smoothed", pb_rowLimit, 1, false, 0.3, {{0.4}, FRICTION, 1, 0, 50, 0}, pb_zoneActive},
    {"contact, frictionless", pb_rowContact, 1, false, 0, {{-0.4}, FRICTION, 1, 0, 50, 0}, pb_zoneActive},
    {"pyramid, one edge", pb_rowContact, 3, true, 0, {{-0.1, 0.5, 0.05}, FRICTION, 2, 0, 1, 0}, 2 | 4 | 8},
    {"pyramid, all edges", pb_rowContact, 4, true, 0, {{-0.9, 0.1, 0.2, -0.3}, FRICTION, 1, 0, 1, 0}, 63},
    {"pyramid, smoothed", pb_rowContact, 3, true, 0.2, {{0.1, 0.5, -0.2}, FRICTION, 2, 0, 1, 0}, 15},
    {"cone, top", pb_rowContact, 3, false, 0, {{0.9, 0.2, 0.1}, FRICTION, 2, 0, 50, 0}, pb_coneTop},
    {"cone, middle", pb_rowContact, 3, false, 0, {{0.1, 0.5, -0.4}, FRICTION, 2, 0, 50, 0}, pb_coneMiddle},
    {"cone, middle, rolling", pb_rowContact, 6, false, 0, {{0.1, 0.5, -0.4, 0.3, 2, -3}, FRICTION, 2, 0, 50, 0}, pb_coneMiddle},
    {"cone, bottom", pb_rowContact, 4, false, 0, {{-2, 0.2, 0.1, 0.3}, FRICTION, 2, 0, 50, 0}, pb_coneBottom},
    {"cone, smoothed", pb_rowContact, 4, false, 0.2, {{0.1, 0.5, -0.4, 0.3}, FRICTION, 2, 0, 50, 0}, pb_zoneActive},
};
enum { rows = sizeof ROWS / sizeof *ROWS };

static void near(const char *what, const char *of, double found, double expected, double tolerance) {
  if (!(fabs(found - expected) <= tolerance)) fail_msg("%s: %s: expected %.15g, found %.15g", what, of, expected, found);
}

static void test_forces_are_slopes_of_values(void **state) {
  (void)state;
  for (const PotentialRow *c = ROWS; c < ROWS + rows; c++) {
    PotentialResult here, up, down;
    probe_potential_r(c, NULL, &here);
    assert_int_equal(here.zone, c->zone);

    for (int k = 0; k < c->dim; k++) {
      static const double step = 1e-5;
      PotentialRow moved = *c;
      moved.at.x[k] += step;
      probe_potential_r(&moved, NULL, &up);
      moved.at.x[k] -= 2 * step;
      probe_potential_r(&moved, NULL, &down);
      near(c->what, "slope of the value", (up.value - down.value) / (2 * step), -here.f[k], 1e-7 * (1 + fabs(here.f[k])));
    }
  }
}

static void test_hessians_are_slopes_of_forces(void **state) {
  (void)state;
  for (const PotentialRow *c = ROWS; c < ROWS + rows; c++) {
    PotentialResult here, along;
    probe_potential_r(c, NULL, &here);

    for (int k = 0; k < c->dim; k++) {
      PotentialInputs direction = {0};
      direction.x[k] = 1;
      probe_potential_c(c, &direction, &along);
      for (int i = 0; i < c->dim; i++) {
        double expected = -here.K[i * c->dim + k];
        near(c->what, "slope of the force", along.f_dot[i], expected, 1e-12 * (1 + fabs(expected)));
      }
    }
  }
}

// y . f along a direction of the parameters, by complex step and by the pullback.
static void compare(const PotentialRow *c, const char *of, const PotentialInputs *direction, double by_pullback) {
  static const double y[6] = {0.7, -0.4, 1.1, 0.3, -0.9, 0.2};
  PotentialResult along;
  double forward = 0;
  probe_potential_c(c, direction, &along);
  for (int i = 0; i < c->dim; i++) forward += y[i] * along.f_dot[i];
  near(c->what, of, by_pullback, forward, 1e-12 * (1 + fabs(forward)));
}

static void test_pullbacks_by_parameters(void **state) {
  (void)state;
  static const double y[6] = {0.7, -0.4, 1.1, 0.3, -0.9, 0.2};
  for (const PotentialRow *c = ROWS; c < ROWS + rows; c++) {
    PotentialInputs g;
    if (c->zone == pb_zoneOpen) continue;  // rows without force are not pulled back
    probe_potential_pull(c, y, &g);

    for (int k = 0; k < c->dim - 1; k++) {
      PotentialInputs direction = {0};
      direction.friction[k] = 1;
      compare(c, "by friction", &direction, g.friction[k]);
    }
    compare(c, "by impratio", &(PotentialInputs){.impratio = 1}, g.impratio);
    compare(c, "by the least force", &(PotentialInputs){.loss = 1}, g.loss);
    compare(c, "by the largest force", &(PotentialInputs){.most = 1}, g.most);
    if (!c->pyramidal) compare(c, "by D", &(PotentialInputs){.D = 1}, g.D);  // an edge's D follows from diagApprox
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forces_are_slopes_of_values),
      cmocka_unit_test(test_hessians_are_slopes_of_forces),
      cmocka_unit_test(test_pullbacks_by_parameters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
