// The check of a model's derivatives, how far it is: told to the caller on the way, so that the same check goes on there after an
// interruption, to the same report (pbCheckPoint). Rollout and functionals are made again from what was drawn then.
// Tests: tests/unit/test_check.c, tests/oracle/test_going_on.py.
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "check/check.h"

// Where in the numbers of a point what is.
enum {
  at_part,
  now = at_part + PB_RNG_DOUBLES,
  rounding = now + PB_RNG_DOUBLES,
  bends = rounding + 3,
  noise,
  numbers = noise + 7
};
_Static_assert((int)numbers == (int)PB_CHECK_NUMBERS, "two generators, rounding, bends, noise");

void pbCheck_Mark(const pbCheck *d, pbCheckPart part, int done) {
  pbCheckPoint *p = d->point;
  const pbNoise *n = &d->noise;

  // of what was interrupted within, the report has what says nothing
  if (!p || d->ended != pb_ok) return;

  p->part = (int)part;
  p->done = done;
  p->report = *d->report;

  // what is drawn, and what a stretch and the whole have found
  const double found[] = {d->has_rounding, d->rounding[0], d->rounding[1], d->bends,  n->time,   n->step,
                          n->move,         n->growth,      n->unforeseen,  n->window, n->contact};
  memcpy(p->numbers + at_part, d->drawn, sizeof d->drawn);
  pbRng_Save(&d->rng, p->numbers + now);
  memcpy(p->numbers + rounding, found, sizeof found);
}

// Steps of tests index what is known of the rollout; all else may be any number.
static bool fits(const pbCheck *d, const pbCheckPoint *p) {
  const pbCheckReport *r = &p->report;
  if (p->part <= pb_noPart || p->part >= pb_partCount || p->done < 0) return false;
  if (r->test_count < 0 || r->test_count > PB_CHECK_TESTS) return false;
  if (r->finding_count < 0 || r->finding_count > PB_CHECK_FINDINGS) return false;

  if (!pbRng_Fits(p->numbers + at_part) || !pbRng_Fits(p->numbers + now)) return false;
  for (int i = 0; i < r->test_count; i++) {
    if (r->test[i].step < -1 || r->test[i].step >= d->steps) return false;
  }
  return true;
}

pbStatus pbCheck_TakeUp(pbCheck *d) {
  const pbCheckPoint *p = d->point;
  pbRng_Save(&d->rng, d->drawn);
  if (!p || p->part == pb_noPart) return pb_ok;
  if (!fits(d, p)) return pbContext_Fail(d->r->ctx, pb_bad_argument, "check: what is to be gone on with is of another one");

  pbCertificate own = d->report->certificate;
  *d->report = p->report;
  d->report->certificate = own;
  d->part = (pbCheckPart)p->part;
  d->done = p->done;
  return pb_ok;
}

bool pbCheck_Skips(pbCheck *d, pbCheckPart part) {
  if (d->part > part) return true;

  if (d->part == part) d->rng = pbRng_Load(d->point->numbers + at_part);
  pbRng_Save(&d->rng, d->drawn);
  return false;
}

int pbCheck_Resume(pbCheck *d, pbCheckPart part) {
  if (d->part != part) return -1;

  const double *n = d->point->numbers, *of_noise = n + noise;
  bool step = of_noise[1] >= 0 && of_noise[1] <= d->steps;
  d->rng = pbRng_Load(n + now);
  d->has_rounding = n[rounding] != 0;
  d->rounding[0] = n[rounding + 1];
  d->rounding[1] = n[rounding + 2];
  d->bends = n[bends] >= 0 && n[bends] <= PB_CHECK_FINDINGS ? (int)n[bends] : PB_CHECK_FINDINGS;
  d->noise = (pbNoise){.time = of_noise[0],
                       .step = step ? (int)of_noise[1] : -1,
                       .move = of_noise[2],
                       .growth = of_noise[3],
                       .unforeseen = of_noise[4],
                       .window = of_noise[5],
                       .contact = of_noise[6] != 0};

  // parts that come after it begin anew
  d->part = pb_noPart;
  return d->done;
}
