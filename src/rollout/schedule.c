// Checkpoint schedule of a reverse sweep: the binomial schedule of Griewank and Walther (revolve, ACM TOMS 26 (2000) 19), with
// tape records of several steps at its leaves. Tested alone: tests/unit/test_schedule.c.
#include "rollout/schedule.h"

#include "base/assert.h"

enum { saturated_bits = 31 };
static const int64_t saturated = (int64_t)1 << saturated_bits;

// leaf C(slots + r, r), factor by factor; every partial product is itself a binomial coefficient, so division is exact
int64_t pbSchedule_Reach(int64_t slots, int64_t r, int64_t leaf) {
  PB_ASSERT(slots >= 0 && leaf >= 1);
  if (r < 0) return 0;

  uint64_t c = 1;
  int64_t few = r < slots ? r : slots, many = r < slots ? slots : r;

  for (int64_t i = 1; i <= few; i++) {
    c = c * (uint64_t)(many + i) / (uint64_t)i;
    if (c >= (uint64_t)saturated) return saturated;
  }

  return (int64_t)c > saturated / leaf ? saturated : (int64_t)c * leaf;
}

// The least r with reach(slots, r) >= steps: how often a step is computed, beside its recording.
static int64_t count_repeats(int64_t steps, int64_t slots, int64_t leaf) {
  PB_ASSERT(slots >= 1 && leaf >= 1 && steps > leaf);
  // One slot: reach grows by one leaf with each r.
  if (slots == 1) return (steps - 1) / leaf;

  int64_t r = 0;
  while (pbSchedule_Reach(slots, r, leaf) < steps) r++;

  return r;
}

int64_t pbSchedule_Cost(int64_t steps, int64_t slots, int64_t leaf) {
  if (steps <= leaf) return steps;

  // One slot keeps the initial state only: the stretches before each leaf are run again, an arithmetic series.
  int64_t r = count_repeats(steps, slots, leaf);
  if (slots == 1) return (r + 1) * steps - leaf * (r * (r + 1) / 2);

  int64_t cost = (r + 1) * steps;
  for (int64_t i = 0; i < r; i++) cost -= pbSchedule_Reach(slots, i, leaf);

  return cost;
}

int64_t pbSchedule_Split(int64_t steps, int64_t slots, int64_t leaf) {
  int64_t r = count_repeats(steps, slots, leaf);

  // Any split between these two ends costs the same; the left end makes the right part as long as r - 1 repeats reach.
  int64_t left = pbSchedule_Reach(slots, r - 1, leaf);
  int64_t right = steps - pbSchedule_Reach(slots - 1, r - 1, leaf);
  int64_t split = left < right ? left : right;

  PB_ASSERT(split > 0 && split < steps);
  return split;
}

// Records that fit: at least one, never more than there are steps.
static int records_within(uint64_t room, int steps) {
  int most = steps > 0 ? steps : 1;
  return room > (uint64_t)steps ? most : (int)room;
}

int64_t pbSchedule_Choose(int steps, uint64_t budget, uint64_t snapshot_bytes, uint64_t record_bytes, int *snapshots, int *leaf) {
  PB_ASSERT(steps >= 0 && record_bytes > 0);
  int64_t best = -1;
  // Every number of snapshots leaves room for some records: the cheapest of all, the fewest snapshots where several are.
  for (int s = 0; s <= steps && s * snapshot_bytes + record_bytes <= budget; s++) {
    uint64_t room = (budget - s * snapshot_bytes) / record_bytes;
    int records = records_within(room, steps);

    int64_t cost = pbSchedule_Cost(steps, (int64_t)s + 1, records);
    if (best >= 0 && cost >= best) continue;

    best = cost;
    *snapshots = s;
    *leaf = records;
    if (cost == steps) break;
  }

  return best;
}

pbSchedule pbSchedule_Begin(int steps, int snapshots, int leaf, int *held) {
  PB_ASSERT(steps >= 0 && leaf >= 1);
  PB_ASSERT(snapshots == 0 || (snapshots > 0 && held));
  return (pbSchedule){.steps = steps,
                      .snapshots = snapshots,
                      .leaf = leaf,
                      .held = held,
                      .end = steps,
                      .next = steps > 0 ? pb_scheduleAdvance : pb_scheduleDone};
}

// The state at `at` is present and steps at .. end - 1 are to be reversed: record them, or split.
static pbScheduleAction descend(pbSchedule *s) {
  int length = s->end - s->at;
  PB_ASSERT(s->at >= 0 && s->at < s->end && s->end <= s->steps);

  // Short enough for the tape.
  if (length <= s->leaf) {
    s->next = pb_scheduleReverse;
    return (pbScheduleAction){pb_scheduleRecord, s->at, s->end, -1};
  }

  // The right part is reversed first, from the state at its start; its slots are those not in use.
  int from = s->at, slots = s->snapshots - s->depth + 1;
  s->at += (int)pbSchedule_Split(length, slots, s->leaf);

  // A part that is recorded at once needs no snapshot at its start.
  s->next = s->end - s->at <= s->leaf ? pb_scheduleAdvance : pb_scheduleStore;

  return (pbScheduleAction){pb_scheduleAdvance, from, s->at, -1};
}

static pbScheduleAction store(pbSchedule *s) {
  PB_ASSERT(s->depth < s->snapshots);
  PB_ASSERT(s->depth == 0 || s->held[s->depth - 1] < s->at);
  s->held[s->depth] = s->at;
  s->next = pb_scheduleAdvance;
  return (pbScheduleAction){pb_scheduleStore, s->at, s->at, s->depth++};
}

void pbSchedule_Skip(pbSchedule *s, int end) {
  PB_ASSERT(end >= 0 && end <= s->end);
  s->end = end;

  // Snapshots of what is reversed are free again.
  while (s->depth > 0 && s->held[s->depth - 1] >= s->end) s->depth--;
  s->next = s->end == 0 ? pb_scheduleDone : pb_scheduleRestore;
}

static pbScheduleAction reverse(pbSchedule *s) {
  pbScheduleAction action = {pb_scheduleReverse, s->at, s->end, -1};
  pbSchedule_Skip(s, s->at);
  return action;
}

static pbScheduleAction restore(pbSchedule *s) {
  s->at = s->depth > 0 ? s->held[s->depth - 1] : 0;
  PB_ASSERT(s->at < s->end);
  s->next = pb_scheduleAdvance;
  return (pbScheduleAction){pb_scheduleRestore, s->at, s->at, s->depth - 1};
}

pbScheduleAction pbSchedule_Next(pbSchedule *s) {
  switch (s->next) {
    case pb_scheduleStore: return store(s);
    case pb_scheduleReverse: return reverse(s);
    case pb_scheduleRestore: return restore(s);
    case pb_scheduleDone: return (pbScheduleAction){pb_scheduleDone, 0, 0, -1};
    default: return descend(s);
  }
}
