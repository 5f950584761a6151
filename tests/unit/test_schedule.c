// Checkpoint schedules: valid, as cheap as theory allows, and the figures a plan promises.
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rollout/schedule.h"

typedef struct Walk {
  int64_t computed;
  int most_slots, most_records;
} Walk;

// Plays a schedule with integers as states: what is not there cannot be used. Once the motion is run, steps from `done` on need
// not be reversed.
static Walk play_rest(int steps, int snapshots, int leaf, int done) {
  Walk walk = {0};
  int *held = calloc((size_t)snapshots + 1, sizeof *held), *slot = calloc((size_t)snapshots + 1, sizeof *slot);
  int state = 0, reversed = steps, recorded_from = -1, recorded_to = -1;
  pbSchedule schedule = pbSchedule_Begin(steps, snapshots, leaf, held);
  for (pbScheduleAction a = pbSchedule_Next(&schedule); a.kind != pb_scheduleDone; a = pbSchedule_Next(&schedule)) {
    switch (a.kind) {
      case pb_scheduleStore:
        assert_in_range(a.slot, 0, snapshots - 1);
        assert_int_equal(state, a.from);
        slot[a.slot] = state;
        if (a.slot + 1 > walk.most_slots) walk.most_slots = a.slot + 1;
        break;
      case pb_scheduleRestore:
        state = a.slot < 0 ? 0 : slot[a.slot];
        assert_int_equal(state, a.from);
        break;
      case pb_scheduleRecord:
        assert_true(a.to - a.from <= leaf && a.to == reversed);
        recorded_from = a.from;
        recorded_to = a.to;
        if (a.to - a.from > walk.most_records) walk.most_records = a.to - a.from;
        // fall through
      case pb_scheduleAdvance:
        assert_int_equal(state, a.from);
        assert_true(a.to > a.from);
        walk.computed += a.to - a.from;
        state = a.to;
        break;
      default:
        assert_true(a.from == recorded_from && a.to == recorded_to && a.to == reversed);
        reversed = a.from;
        if (done <= reversed) {
          pbSchedule_Skip(&schedule, done);
          reversed = done;
        }
        done = steps + 1;  // once
    }
  }
  assert_int_equal(reversed, 0);
  free(held);
  free(slot);
  return walk;
}

static Walk play(int steps, int snapshots, int leaf) { return play_rest(steps, snapshots, leaf, steps); }

// Steps that a schedule computes until step `done` has been reversed.
static int64_t computed_until(int steps, int snapshots, int leaf, int done) {
  int *held = calloc((size_t)snapshots + 1, sizeof *held), reversed = steps;
  int64_t computed = 0;
  pbSchedule schedule = pbSchedule_Begin(steps, snapshots, leaf, held);
  while (reversed > done) {
    pbScheduleAction a = pbSchedule_Next(&schedule);
    if (a.kind == pb_scheduleRecord || a.kind == pb_scheduleAdvance) computed += a.to - a.from;
    if (a.kind == pb_scheduleReverse) reversed = a.from;
  }
  free(held);
  return computed;
}

// With a tape of all steps going on costs the motion; without one what is recorded again on top, together fewer than two runs.
static void test_going_on_costs_fewer_than_two_runs(void **unused) {
  (void)unused;
  for (int steps = 1; steps <= 60; steps++)
    for (int snapshots = 0; snapshots <= 6; snapshots++)
      for (int leaf = 1; leaf <= 7; leaf++)
        for (int done = 0; done < steps; done++) {
          Walk rest = play_rest(steps, snapshots, leaf, done);
          int64_t left = pbSchedule_Cost(steps, snapshots + 1, leaf) - computed_until(steps, snapshots, leaf, done);
          assert_true(rest.computed - left < 2 * steps && (leaf < steps || rest.computed == steps));
          assert_true(rest.most_slots <= snapshots && rest.most_records <= leaf);
        }
}

static void test_every_small_schedule_is_valid_and_costs_what_the_formula_says(void **unused) {
  (void)unused;
  for (int steps = 0; steps <= 60; steps++)
    for (int snapshots = 0; snapshots <= 8; snapshots++)
      for (int leaf = 1; leaf <= 7; leaf++) {
        Walk walk = play(steps, snapshots, leaf);
        assert_int_equal(walk.computed, pbSchedule_Cost(steps, snapshots + 1, leaf));
        assert_true(walk.most_slots <= snapshots && walk.most_records <= leaf);
      }
}

enum { dp_steps = 90, dp_slots = 7 };
// The least cost by dynamic programming over every possible split.
static void test_formula_is_the_optimum_of_all_splits(void **unused) {
  (void)unused;
  static int64_t best[dp_slots + 1][dp_steps + 1];
  for (int leaf = 1; leaf <= 5; leaf++) {
    for (int s = 0; s <= dp_slots; s++)
      for (int l = 0; l <= dp_steps; l++) {
        best[s][l] = l <= leaf ? l : INT32_MAX;
        for (int j = 1; s > 0 && l > leaf && j < l; j++) {
          int64_t cost = j + best[s - 1][l - j] + best[s][j];
          if (cost < best[s][l]) best[s][l] = cost;
        }
        if (s > 0) assert_int_equal(best[s][l], pbSchedule_Cost(l, s, leaf));
      }
  }
}

// Binomial optimum with leaves of one step, as published: 20 snapshots, 10 000 steps, four repetitions.
static void test_known_values(void **unused) {
  (void)unused;
  assert_int_equal(pbSchedule_Reach(20, 3, 1), 1771);
  assert_int_equal(pbSchedule_Reach(32, 2, 1), 561);
  assert_int_equal(pbSchedule_Cost(10000, 20, 1), 5 * 10000 - 2024);
  assert_int_equal(play(10000, 19, 1).computed, 47976);
  assert_int_equal(pbSchedule_Reach(1 << 30, 1 << 30, 1), (int64_t)1 << 31);
}

static void test_ten_thousand_steps_in_a_twentieth_of_the_memory(void **unused) {
  (void)unused;
  const int steps = 10000;
  const uint64_t record = 95 * 8, snapshot = 72 * 8, budget = record * steps / 20;
  int snapshots = 0, leaf = 0;
  int64_t cost = pbSchedule_Choose(steps, budget, snapshot, record, &snapshots, &leaf);
  Walk walk = play(steps, snapshots, leaf);
  assert_int_equal(walk.computed, cost);
  assert_true((uint64_t)walk.most_slots * snapshot + (uint64_t)walk.most_records * record <= budget);
  // the classical optimum of the same memory, all of it as states and one step a leaf: r = 2
  int64_t slots = (int64_t)(budget / snapshot);
  double classical = (double)pbSchedule_Cost(steps, slots, 1) / steps, ours = (double)cost / steps;
  print_message("10000 steps, 5 %% of the tape: %d snapshots, leaf %d, factor %.4f (binomial, leaf 1: %.4f)\n", snapshots, leaf,
                ours, classical);
  assert_true(ours <= 1.05 * classical && ours < 2);
}

static void test_choice_is_best_of_all_and_keeps_the_budget(void **unused) {
  (void)unused;
  for (int steps = 1; steps < 200; steps += 13)
    for (uint64_t budget = 3; budget < 400; budget += 7) {
      int snapshots = -1, leaf = -1;
      int64_t cost = pbSchedule_Choose(steps, budget, 2, 3, &snapshots, &leaf);
      assert_true((uint64_t)snapshots * 2 + (uint64_t)leaf * 3 <= budget);
      for (uint64_t s = 0; s * 2 + 3 <= budget; s++)
        assert_true(cost <= pbSchedule_Cost(steps, (int64_t)s + 1, (int64_t)((budget - 2 * s) / 3)));
    }
  int a, b;
  assert_int_equal(pbSchedule_Choose(5, 2, 2, 3, &a, &b), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_small_schedule_is_valid_and_costs_what_the_formula_says),
      cmocka_unit_test(test_going_on_costs_fewer_than_two_runs),
      cmocka_unit_test(test_formula_is_the_optimum_of_all_splits),
      cmocka_unit_test(test_known_values),
      cmocka_unit_test(test_ten_thousand_steps_in_a_twentieth_of_the_memory),
      cmocka_unit_test(test_choice_is_best_of_all_and_keeps_the_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
