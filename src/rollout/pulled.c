// A pullback that was interrupted: what it had come to (pbPulled, include/pullback/rollout.h), and another that goes on there.
// Tests: tests/unit/test_pulled.c, tests/oracle/test_going_on.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "rollout/rollout.h"

enum { growth_numbers = 7 };
_Static_assert(PB_PULLED_NUMBERS == growth_numbers + (int)pb_stepCheckNumbers + (int)pb_spotNumbers, "growth, steps, rollout");

void pbRollout_KeepPulled(pbRollout *r, pbPulled *pulled) { r->pulled = pulled; }

bool pbRollout_GoesOn(const pbRollout *r) { return r->pulled && r->pulled->step >= 0; }

pbStatus pbPulled_Check(const pbRollout *r) {
  const pbPulled *from = r->pulled;
  if (!pbRollout_GoesOn(r)) return pb_ok;

  if (from->step > r->plan.steps)
    return pbContext_Fail(r->ctx, pb_bad_argument, "a pullback cannot go on at step %d of %d", from->step, r->plan.steps);
  for (int i = 0; i < r->n; i++) {
    if (!isfinite(from->costate[i]))
      return pbContext_Fail(r->ctx, pb_bad_argument, "a pullback cannot go on with a costate that is not finite");
  }
  return pb_ok;
}

void pbPulled_TakeUp(pbRollout *r, pbPulling *p) {
  const pbPulled *from = r->pulled;
  const double *n = from->numbers;

  memcpy(r->costate, from->costate, (size_t)r->n * sizeof *r->costate);
  *p->certificate = from->certificate;
  p->growth = (pbGrowth){.first = n[0], .now = n[1], .count = n[2], .t = n[3], .tt = n[4], .y = n[5], .ty = n[6]};
  p->at = from->step;
  r->meter.done = r->plan.steps - from->step;

  // The steps to check were drawn again, from the same seed.
  if (r->step_check) pbStepCheck_Load(r->step_check, n + growth_numbers);
  if (p->spot) pbSpot_Load(p->spot, n + growth_numbers + pb_stepCheckNumbers);
}

void pbPulled_Leave(const pbRollout *r, const pbPulling *p, pbStatus status) {
  pbPulled *to = r->pulled;
  const pbGrowth *g = &p->growth;
  if (status != pb_interrupted || !to || p->at < 0) return;

  const double growth[growth_numbers] = {g->first, g->now, g->count, g->t, g->tt, g->y, g->ty};
  memset(to->numbers, 0, sizeof to->numbers);
  memcpy(to->numbers, growth, sizeof growth);
  memcpy(to->costate, r->costate, (size_t)r->n * sizeof *to->costate);
  to->certificate = *p->certificate;
  to->step = p->at;

  if (r->step_check) pbStepCheck_Save(r->step_check, to->numbers + growth_numbers);
  if (p->spot) pbSpot_Save(p->spot, to->numbers + growth_numbers + pb_stepCheckNumbers);
}

pbStatus pbPulled_Leaf(pbRollout *r, int k, pbScheduleAction *action) {
  PB_ASSERT(k >= 0 && k <= r->plan.steps);
  bool whole = r->plan.leaf >= r->plan.steps;

  // What is left of the records that are there
  if (whole || (r->tape_fresh && k > r->leaf_from)) {
    *action = (pbScheduleAction){k > 0 ? pb_scheduleReverse : pb_scheduleDone, whole ? 0 : r->leaf_from, k, -1};
    if (whole) r->schedule.next = pb_scheduleDone;
    r->tape_fresh = r->tape_fresh && whole;
    return pb_ok;
  }

  // Or those before it, from the snapshots of Forward, where no other pullback has used these up.
  if (!r->tape_fresh) pbRollout_Restart(r);
  r->tape_fresh = false;
  pbSchedule_Skip(&r->schedule, k);
  return pbRollout_Play(r, NULL, false, action);
}
