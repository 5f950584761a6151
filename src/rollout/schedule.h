// Checkpoint schedule of a reverse sweep: pure integers, no storage, no physics.
//
// To reverse `steps` steps with `slots` states kept at a time (the initial one among them) and leaves of `leaf` tape
// records. With C the binomial coefficient,
//   reach(slots, r) = leaf C(slots + r, slots)       steps, if none is computed more than r times beside its recording
//   cost(l)         = (r + 1) l - sum_{i < r} reach(slots, i),   r least with reach(slots, r) >= l
// is the least number of step evaluations (Griewank & Walther, ACM TOMS 26 (2000) 19; leaf = 1 is their theorem, and a leaf
// of L steps scales it by L).
#ifndef PB_SCHEDULE_H
#define PB_SCHEDULE_H

#include <stdint.h>

typedef enum pbScheduleKind {
  pb_scheduleAdvance,  // compute steps from .. to - 1, keep nothing
  pb_scheduleStore,    // put the present state (of step `from`) into `slot`
  pb_scheduleRestore,  // take the state of step `from` from `slot`; -1: the initial state
  pb_scheduleRecord,   // compute steps from .. to - 1, a tape record of each
  pb_scheduleReverse,  // pull back through steps to - 1 .. from
  pb_scheduleDone
} pbScheduleKind;
typedef struct pbScheduleAction {
  pbScheduleKind kind;
  int from, to, slot;
} pbScheduleAction;

typedef struct pbSchedule {
  int steps, snapshots, leaf;  // snapshots: slots - 1
  int *held;                   // [snapshots], the caller's: step of the state in each slot, ascending
  int depth;                   // slots in use
  int at, end;                 // present step; steps from `end` on are reversed
  pbScheduleKind next;
} pbSchedule;

pbSchedule pbSchedule_Begin(int steps, int snapshots, int leaf, int *held);
pbScheduleAction pbSchedule_Next(pbSchedule *schedule);
// Steps from `end` on need not be reversed any more: at the beginning, or after a Reverse.
void pbSchedule_Skip(pbSchedule *schedule, int end);

int64_t pbSchedule_Reach(int64_t slots, int64_t r, int64_t leaf);  // saturates at 2^31
int64_t pbSchedule_Cost(int64_t steps, int64_t slots, int64_t leaf);
// First step of the right part when `steps` steps are split, slots >= 1, steps > leaf.
int64_t pbSchedule_Split(int64_t steps, int64_t slots, int64_t leaf);
// The cheapest (snapshots, leaf) with snapshots * snapshot_bytes + leaf * record_bytes <= budget. Returns the cost, or -1
// where not even one record fits.
int64_t pbSchedule_Choose(int steps, uint64_t budget, uint64_t snapshot_bytes, uint64_t record_bytes, int *snapshots, int *leaf);

#endif
