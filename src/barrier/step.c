// How far vertices may go, and whether they are where they may be.
// Tests: tests/unit/test_barrier.c.
#include <math.h>
#include <stdio.h>

#include "barrier/advance.h"
#include "barrier/distance.h"
#include "barrier/exact.h"
#include "barrier/parts.h"
#include "base/assert.h"
#include "base/context.h"
#include "math/vec.h"

typedef struct Mover {
  pbBarrier *b;
  const double *x, *dx;
  double dhat, keep, step;
  pbPair limit;  // of the smallest step, where that is below 1
} Mover;

static pbStatus fail_closed(pbBarrier *b, const pbPair *p, const double *x, const char *what, int more) {
  const double *at = x + 3 * (size_t)p->a[0];

  // The first pair is named, the others are counted.
  char rest[40] = "";

  if (more > 1) snprintf(rest, sizeof rest, "; %d such pairs in all", more);
  return pbBarrier_Fail(b, pb_bad_input, "barrier: %s %s, the first vertex at (%.9g %.9g %.9g)%s", pbPair_Text(b, p).text, what,
                        at[0], at[1], at[2], rest);
}

// The step that a pair allows. user: a Mover.
static pbStatus shorten_step(void *user, const pbPair *p) {
  // Both primitives and their motions, vertex by vertex.
  Mover *m = user;
  double A[9], B[9], dA[9], dB[9];

  pbPair_Gather(m->x, p->a, p->na, A);
  pbPair_Gather(m->dx, p->a, p->na, dA);
  pbPair_Gather(m->x, p->b, p->nb, B);
  pbPair_Gather(m->dx, p->b, p->nb, dB);

  double t;
  if (p->kind == pb_pairPN) {
    t = pbAdvance_Plane(A, dA, B, dB, p->xi, m->dhat, m->keep);
  } else {
    const pbMoving a = {p->na, A, dA}, b = {p->nb, B, dB};
    t = pbAdvance_Pair(&a, &b, p->xi, m->dhat, m->keep);
  }

  if (t < 0) return fail_closed(m->b, p, m->x, "have no gap between them", 1);
  PB_ASSERT(t <= 1);
  if (!(t < m->step)) return pb_ok;

  m->step = t;
  m->limit = *p;
  return pb_ok;
}

pbStatus pbBarrier_MaxStep(pbBarrier *b, const pbBarrierValues *values, const double *x, const double *dx, double keep,
                           double *step) {
  PB_TRY(pbBarrier_CheckValues(b, values, false));
  PB_TRY(pbBarrier_CheckPositions(b, "x", x));
  PB_TRY(pbBarrier_CheckPositions(b, "the motion", dx));
  if (!(keep > 0 && keep < 1)) return pbBarrier_Fail(b, pb_bad_argument, "barrier: keep is %g, not between 0 and 1", keep);

  // All pairs whose boxes, around the whole motion, come close.
  Mover m = {.b = b, .x = x, .dx = dx, .dhat = values->dhat, .keep = keep, .step = 1};
  pbPairs pairs = {.x = x, .dx = dx, .radius = values->radius, .reach = values->dhat, .visit = shorten_step, .user = &m};
  PB_TRY(pbBarrier_Pairs(b, &pairs, !b->begun));
  b->begun = true;
  *step = m.step;
  b->limit[0] = 0;
  if (m.step < 1) snprintf(b->limit, sizeof b->limit, "%s", pbPair_Text(b, &m.limit).text);

  return pb_ok;
}

const char *pbBarrier_Limit(const pbBarrier *b) { return b->limit; }

// ---- acceptance -----------------------------------------------------------------------------------------------------
typedef struct Checker {
  const double *x;
  int count;
  pbPair first;  // of all in order, so that the message does not depend on the tree
} Checker;

static bool pair_less(const pbPair *a, const pbPair *b) {
  if (a->kind != b->kind) return a->kind < b->kind;
  return a->number_a != b->number_a ? a->number_a < b->number_a : a->number_b < b->number_b;
}

static void note_pair(Checker *k, const pbPair *p) {
  if (!k->count || pair_less(p, &k->first)) k->first = *p;
  k->count++;
}

static pbStatus check_gap(void *user, const pbPair *p) {
  Checker *k = user;
  double A[9], B[9];

  pbPair_Gather(k->x, p->a, p->na, A);
  pbPair_Gather(k->x, p->b, p->nb, B);

  // The gap of a plane has a sign: behind it, it is negative.
  double d = p->kind == pb_pairPN ? pbPair_OverPlane(A, B) : sqrt(pbClosest_Find(p->na, A, p->nb, B).d2);
  if (!(d > p->xi)) note_pair(k, p);

  return pb_ok;
}

static pbStatus check_crossing(void *user, const pbPair *p) {
  Checker *k = user;
  double A[6], B[9];

  pbPair_Gather(k->x, p->a, 2, A);
  pbPair_Gather(k->x, p->b, 3, B);
  if (pbExact_EdgeMeetsTriangle(A, B)) note_pair(k, p);

  return pb_ok;
}

pbStatus pbBarrier_Check(pbBarrier *b, const pbBarrierValues *values, const double *x) {
  PB_TRY(pbBarrier_CheckValues(b, values, false));
  PB_TRY(pbBarrier_CheckPositions(b, "x", x));

  // Crossings first: where there are some, gaps say nothing.
  Checker k = {.x = x};
  pbPairs pairs = {.x = x, .radius = values->radius, .crossings = true, .visit = check_crossing, .user = &k};
  PB_TRY(pbBarrier_Pairs(b, &pairs, !b->begun));
  b->begun = true;
  if (k.count) return fail_closed(b, &k.first, x, "meet", k.count);

  // No crossing: now gaps.
  pairs.crossings = false;
  pairs.visit = check_gap;
  PB_TRY(pbBarrier_Pairs(b, &pairs, false));

  return k.count ? fail_closed(b, &k.first, x, "have no gap between them", k.count) : pb_ok;
}
