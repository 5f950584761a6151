// Controls that are a recording: held and linear, at other rates than the steps, delayed by fractions of a step.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimize/recorded.h"
#include "support/meter.h"
#include "support/one_context.h"
#include "support/support.h"

static double times[] = {0, 0.013, 0.02, 0.041, 0.09}, values[] = {1, -2, 5, 0.5, 3};
static const pbSeries series = {.count = 5, .time = times, .value = values};

// By the definition: the sum over many parts of the interval.
static double many_parts(bool linear, double from, double to) {
  enum { parts = 400000 };
  double sum = 0;
  for (int i = 0; i < parts; i++) {
    double t = from + (to - from) * (i + 0.5) / parts;
    int k = 4;
    while (k > 0 && times[k] > t) k--;
    bool inside = linear && k < 4 && t >= times[0];
    double share = inside ? (t - times[k]) / (times[k + 1] - times[k]) : 0;
    sum += values[k] + share * (inside ? values[k + 1] - values[k] : 0);
  }
  return sum / parts;
}

static void test_means(void **state) {
  (void)state;
  static const double ends[][2] = {{0, 0.013},     {0, 0.02},   {0.001, 0.002}, {0.012, 0.05}, {-1, -0.5},
                                   {-0.01, 0.005}, {0.08, 0.2}, {1, 2},         {-0.01, 0.1}};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    for (int linear = 0; linear < 2; linear++)
      assert_near(pbSeries_Mean(&series, linear, ends[i][0], ends[i][1]), many_parts(linear, ends[i][0], ends[i][1]), 3e-5);
  }

  // within one piece to the last bit
  assert_true(pbSeries_Mean(&series, false, 0.013, 0.02) == -2);
  assert_true(pbSeries_Mean(&series, false, 0.021, 0.04) == 5);
}

// Rows at the steps come back, whatever the rounding of their times; with a delay of whole steps they come later.
static void test_rows_at_steps_are_kept(void **state) {
  (void)state;
  enum { n = 1000 };
  double rows[n], out[n], h = 0.003;
  uint64_t seed = 3;
  pbRecorded *r = NULL;
  fill_noise(&seed, rows, n, 1);
  good(ctx, pbRecorded_OfRows(ctx, rows, n, 1, h, &r));
  pbRecorded_Controls(r, 0, n, out);
  assert_memory_equal(rows, out, sizeof rows);

  pbRecorded_Controls(r, 7 * h, n, out);
  for (int k = 0; k < n; k++) assert_near(out[k], rows[k < 7 ? 0 : k - 7], 1e-11);

  // as decimals say them
  for (int k = 0; k < n; k++) r->series[0].time[k] += k % 2 ? 2e-9 : -2e-9;
  pbSeries_Snap(&r->series[0], h);
  pbRecorded_Controls(r, 0, n, out);
  assert_memory_equal(rows, out, sizeof rows);
  pbRecorded_Destroy(ctx, r);
}

// A third of a step: the mean of both rows by their time.
static void test_a_fraction_of_a_step(void **state) {
  (void)state;
  double rows[] = {3, 6, -3, 0}, out[4];
  pbRecorded *r = NULL;
  good(ctx, pbRecorded_OfRows(ctx, rows, 4, 1, 0.01, &r));
  pbRecorded_Controls(r, 0.01 / 3, 4, out);
  assert_near(out[0], 3, 1e-12);
  assert_near(out[1], 5, 1e-12);
  assert_near(out[2], 0, 1e-12);
  assert_near(out[3], -1, 1e-12);

  // no row is lost by it: what acts in all is the same, later
  assert_near(out[0] + out[1] + out[2] + out[3], 3 + 6 - 3 + 0 + (3.0 - 0) / 3, 1e-12);
  pbRecorded_Destroy(ctx, r);
}

static void test_several_controls_of_other_rates(void **state) {
  (void)state;
  pbRecorded *r = NULL;
  double out[12];
  good(ctx, pbRecorded_Create(ctx, 2, 0.01, &r));
  good(ctx, pbSeries_Allocate(ctx, &r->series[0], 2));
  good(ctx, pbSeries_Allocate(ctx, &r->series[1], 1));
  memcpy(r->series[0].time, (double[]){0, 0.025}, 16);
  memcpy(r->series[0].value, (double[]){1, 2}, 16);
  r->series[1].value[0] = -4;
  pbRecorded_Controls(r, 0, 6, out);
  static const double expected[] = {1, 1, 1.5, 2, 2, 2};
  for (int k = 0; k < 6; k++) {
    assert_near(out[2 * k], expected[k], 1e-12);
    assert_true(out[2 * k + 1] == -4);
  }
  pbRecorded_Destroy(ctx, r);
}

static void test_slopes_by_the_delay(void **state) {
  (void)state;
  static const double delays[] = {0, 0.001, 0.0037, 0.013, 0.02, -0.004};
  for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
    for (int linear = 0; linear < 2; linear++) {
      for (int k = 0; k < 12; k++) {
        double from = 0.01 * k - delays[i], to = from + 0.01, d = 1e-7;
        double slope = pbSeries_DelaySlope(&series, linear, from, to);

        // towards longer delays where rows meet ends of steps; of lines from both sides
        double here = pbSeries_Mean(&series, linear, from, to), later = pbSeries_Mean(&series, linear, from - d, to - d);
        double sooner = pbSeries_Mean(&series, linear, from + d, to + d);
        double quotient = linear ? (later - sooner) / (2 * d) : (later - here) / d;
        assert_near(slope, quotient, 2e-3 * (1 + fabs(slope)));
      }
    }
  }
}

static void test_memory_that_is_not_there(void **state) {
  (void)state;
  for (long n = 1;; n++) {
    Meter meter = {.fail_at = n};
    pbAllocator hooks = meter_hooks(&meter);
    pbContext *own = pbContext_Create(&hooks);
    pbRecorded *r = NULL;
    double rows[6] = {0};
    pbStatus status = own ? pbRecorded_OfRows(own, rows, 3, 2, 0.1, &r) : pb_no_memory;
    assert_true(status == pb_ok || status == pb_no_memory);
    pbRecorded_Destroy(own, r);
    pbContext_Destroy(own);
    assert_int_equal(meter.live, 0);
    if (!meter.failed) return;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_means),
      cmocka_unit_test(test_rows_at_steps_are_kept),
      cmocka_unit_test(test_a_fraction_of_a_step),
      cmocka_unit_test(test_several_controls_of_other_rates),
      cmocka_unit_test(test_slopes_by_the_delay),
      cmocka_unit_test(test_memory_that_is_not_there),
  };
  return cmocka_run_group_tests(tests, open_context, close_context);
}
