// How a history is read and written: weights and rates against the formulas of both interpolations in complex numbers, written
// here once more; that what is written and pulled back are each other's transpose; ends, kinks, one sample alone.
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/history.h"
#include "support/support.h"

enum { most = 7, size = 2 + 2 * most };
static const double h = 0.01, tiny = 1e-100;
static uint64_t seed = 5;

// A ring of n samples at steps of h, or at random, up to `newest`.
static pbBuffer fill(int n, int interp, bool even, double newest, double history[size]) {
  pbBuffer b = {.n = n, .dim = 1, .interp = interp};
  int cursor = (int)(3.5 + 3 * noise64(&seed)) % n;
  double t = newest;

  history[0] = 0;
  history[1] = cursor;
  for (int age = 0; age < n; age++) {
    int slot = (cursor - age + n) % n;
    history[2 + slot] = t;
    history[2 + n + slot] = noise64(&seed);
    t -= even ? h : h * (1 + 0.5 * noise64(&seed));
  }
  return b;
}

// The value at complex times, of complex samples, oldest first; real parts decide.
static double complex read_at(int interp, int n, const double complex *time, const double complex *value, double complex t) {
  if (creal(t) <= creal(time[0])) return value[0];
  if (creal(t) >= creal(time[n - 1])) return value[n - 1];
  int i = 0;
  while (creal(time[i + 1]) < creal(t)) i++;

  double complex d = time[i + 1] - time[i], a = (t - time[i]) / d;
  if (interp == pb_interpZoh) return value[i];
  if (interp == pb_interpLinear) return value[i] + a * (value[i + 1] - value[i]);
  double complex m1 = i > 0 ? (value[i + 1] - value[i - 1]) / (time[i + 1] - time[i - 1]) : 0;
  double complex m2 = i + 2 < n ? (value[i + 2] - value[i]) / (time[i + 2] - time[i]) : 0;
  return (2 * a * a * a - 3 * a * a + 1) * value[i] + (a * a * a - 2 * a * a + a) * d * m1 +
         (3 * a * a - 2 * a * a * a) * value[i + 1] + (a * a * a - a * a) * d * m2;
}

static double sum(const pbLateReading *r, const double *w, const double *samples) {
  double total = 0;
  for (int i = 0; i < r->count; i++) total += w[i] * samples[r->slot[i]];
  return total;
}

// Along random moves of samples, delay and time step: `ticks` steps were made since the start.
static void check_reading(int interp, int n, bool even, int ticks, double later, double delay) {
  double history[size], moved[most];
  pbHistoryClock clock = {.now = ticks * h, .h = h, .later = later, .ticks = ticks};
  pbBuffer b = fill(n, interp, even, clock.now - h, history);
  pbLateReading r = pbHistory_Read(&b, history, &clock, delay);
  const double *samples = history + 2 + n;
  double by_delay = noise64(&seed), by_step = noise64(&seed);
  fill_noise(&seed, moved, n, 1);

  double complex time[most], value[most];
  for (int i = 0; i < n; i++) {
    int slot = ((int)history[1] + 1 + i) % n;
    time[i] = history[2 + slot] + I * tiny * by_step * pbHistory_Tick(&clock, history[2 + slot]);
    value[i] = samples[slot] + I * tiny * moved[slot];
  }
  double complex t = clock.now + later * h - delay + I * tiny * (by_step * (ticks + later) - by_delay);
  double complex expected = read_at(interp, n, time, value, t);

  assert_near(sum(&r, r.weight, samples), creal(expected), 1e-13);
  double found = sum(&r, r.weight, moved) - by_delay * sum(&r, r.rate, samples) + by_step * sum(&r, r.by_step, samples);
  assert_near(found, cimag(expected) / tiny, 1e-10 / h);
}

static void test_readings(void **state) {
  (void)state;
  for (int k = 0; k < 4000; k++) {
    int n = 1 + k % most, ticks = k % 11;
    double later = 0.5 * (k % 3), delay = h * (1 + n * (0.5 + 0.7 * noise64(&seed)));
    check_reading(k / 7 % 3, n, k % 2, ticks, later, delay);
  }
}

// A sample's time follows from the clock: taken on the way it moves, before the start it does not.
static void test_ticks(void **state) {
  (void)state;
  const pbHistoryClock clock = {.now = 1.05, .h = h, .ticks = 5};
  assert_near(pbHistory_Tick(&clock, 1.04), 4, 0);
  assert_near(pbHistory_Tick(&clock, 1), 0, 0);
  assert_near(pbHistory_Tick(&clock, 1.02), 2, 0);
  assert_near(pbHistory_Tick(&clock, 0.98), 0, 0);
  assert_near(pbHistory_Tick(&clock, 1.06), 0, 0);
}

// At a sample the rate is that of the interval behind it, which shorter delays look into; on a spline it is that of both.
static void test_kinks(void **state) {
  (void)state;
  for (int interp = pb_interpZoh; interp <= pb_interpCubic; interp++) {
    for (int age = 1; age <= 5; age++) {
      for (int beside = -1; beside <= 1; beside++) {
        double history[size];
        pbHistoryClock clock = {.now = 0, .h = h};
        pbBuffer b = fill(5, interp, true, -h, history);
        const double *samples = history + 2 + 5;
        int cursor = (int)history[1], slot = (cursor - age + 1 + 5) % 5, behind = (slot + 1) % 5, before = (slot + 4) % 5;
        pbLateReading r = pbHistory_Read(&b, history, &clock, -history[2 + slot] + 1e-14 * beside);

        double expected = 0;
        if (interp == pb_interpLinear && age > 1) expected = (samples[behind] - samples[slot]) / h;
        if (interp == pb_interpCubic && age > 1 && age < 5) expected = (samples[behind] - samples[before]) / (2 * h);
        assert_near(sum(&r, r.rate, samples), expected, 1e-9 / h);
        if (interp) assert_near(sum(&r, r.weight, samples), samples[slot], 1e-10);
      }
    }
  }
}

// What is written: times stay in order, and the pullback is the transpose.
static void test_insertions(void **state) {
  (void)state;
  for (int k = 0; k < 500; k++) {
    int n = 1 + k % most;
    double history[size], to[most], w[most], bar[most], new_bar = 0, sample = noise64(&seed), time = n * h * 1.5 * noise64(&seed);
    pbBuffer b = fill(n, pb_interpLinear, k % 2, 0, history);
    if (k % 5 == 0) time = history[2 + k % n];
    pbInsertion plan = pbHistory_Plan(&b, history, time);
    fill_noise(&seed, w, n, 1);

    double tangent[most];
    fill_noise(&seed, tangent, n, 1);
    memcpy(to, tangent, sizeof to);
    pbInsertion_Move(&b, &plan, to);
    to[plan.slot] = sample;
    memcpy(bar, w, sizeof bar);
    pbInsertion_Pull(&b, &plan, bar, &new_bar);
    double forward = 0, back = new_bar * sample;
    for (int i = 0; i < n; i++) {
      forward += w[i] * to[i];
      back += bar[i] * tangent[i];
    }
    assert_near(forward, back, 1e-13);

    pbInsertion_Stamp(&b, &plan, time, history);
    int cursor = (int)history[1];
    assert_true(cursor >= 0 && cursor < n);
    assert_near(history[2 + plan.slot], time, 0);
    for (int i = 1; i < n; i++) assert_true(history[2 + (cursor + i) % n] < history[2 + (cursor + 1 + i) % n]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_readings),
      cmocka_unit_test(test_ticks),
      cmocka_unit_test(test_kinks),
      cmocka_unit_test(test_insertions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
