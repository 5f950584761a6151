#include "rollout/schedule.h"

enum { saturated_bits = 31 };
static const int64_t saturated = (int64_t)1 << saturated_bits;

// leaf C(slots + r, r), factor by factor; every partial product is itself a binomial coefficient, so division is exact
int64_t pbSchedule_Reach(int64_t slots, int64_t r, int64_t leaf) {
  uint64_t c = 1;
  if (r < 0) return 0;
  int64_t few = r < slots ? r : slots, many = r < slots ? slots : r;

  for (int64_t i = 1; i <= few; i++) {
    c = c * (uint64_t)(many + i) / (uint64_t)i;
    if (c >= (uint64_t)saturated) return saturated;
  }

  return (int64_t)c > saturated / leaf ? saturated : (int64_t)c * leaf;
}

static int64_t repeats(int64_t steps, int64_t slots, int64_t leaf) {
  if (slots == 1) return (steps - 1) / leaf;
  int64_t r = 0;
  while (pbSchedule_Reach(slots, r, leaf) < steps) r++;

  return r;
}

int64_t pbSchedule_Cost(int64_t steps, int64_t slots, int64_t leaf) {
  if (steps <= leaf) return steps;
  int64_t r = repeats(steps, slots, leaf);
  if (slots == 1) return (r + 1) * steps - leaf * (r * (r + 1) / 2);
  int64_t cost = (r + 1) * steps;
  for (int64_t i = 0; i < r; i++) cost -= pbSchedule_Reach(slots, i, leaf);

  return cost;
}

int64_t pbSchedule_Split(int64_t steps, int64_t slots, int64_t leaf) {
  int64_t r = repeats(steps, slots, leaf);
  int64_t left = pbSchedule_Reach(slots, r - 1, leaf), right = steps - pbSchedule_Reach(slots - 1, r - 1, leaf);
  return left < right ? left : right;
}

int64_t pbSchedule_Choose(int steps, uint64_t budget, uint64_t snapshot_bytes, uint64_t record_bytes, int *snapshots, int *leaf) {
  int64_t best = -1;
  for (int s = 0; s <= steps && s * snapshot_bytes + record_bytes <= budget; s++) {
    uint64_t room = (budget - s * snapshot_bytes) / record_bytes;
    int records = room > (uint64_t)steps ? (steps > 0 ? steps : 1) : (int)room;

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
  if (length <= s->leaf) {
    s->next = pb_scheduleReverse;
    return (pbScheduleAction){pb_scheduleRecord, s->at, s->end, -1};
  }

  int from = s->at, slots = s->snapshots - s->depth + 1;
  s->at += (int)pbSchedule_Split(length, slots, s->leaf);
  // a part that is recorded at once needs no state kept at its start
  s->next = s->end - s->at <= s->leaf ? pb_scheduleAdvance : pb_scheduleStore;

  return (pbScheduleAction){pb_scheduleAdvance, from, s->at, -1};
}

static pbScheduleAction store(pbSchedule *s) {
  s->held[s->depth] = s->at;
  s->next = pb_scheduleAdvance;
  return (pbScheduleAction){pb_scheduleStore, s->at, s->at, s->depth++};
}

static pbScheduleAction reverse(pbSchedule *s) {
  pbScheduleAction action = {pb_scheduleReverse, s->at, s->end, -1};
  s->end = s->at;
  while (s->depth > 0 && s->held[s->depth - 1] >= s->end) s->depth--;
  s->next = s->end == 0 ? pb_scheduleDone : pb_scheduleRestore;

  return action;
}

static pbScheduleAction restore(pbSchedule *s) {
  s->at = s->depth > 0 ? s->held[s->depth - 1] : 0;
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
