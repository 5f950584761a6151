// Checks of single steps (sample.c): quotients of differences of the program, over moves along a direction of state, inputs and
// theta.
// Tests: tests/unit/test_rollout.c.
#include <float.h>
#include <math.h>

#include "base/assert.h"
#include "couple/deform_step.h"
#include "model/state_layout.h"
#include "rollout/sample.h"
#include "step/scratch.h"
#include "world/history_step.h"

typedef struct Along {
  const StepCheck *check;
  const pbVectors *direction;
  double terms;  // size of the gradient's
} Along;

// The program at one end of a move. *missing: it fails there, for another reason than memory that is short.
static pbStatus evaluate(const Along *l, double at, pbSide *side, bool *missing) {
  const StepCheck *a = l->check;
  const pbRollout *r = a->r;
  const pbVectors *d = l->direction;
  pbMoved *m = &a->s->moved;

  // The time of state k is that of the start and k time steps, as are times of samples that were taken on the way.
  pbMoved_Place(m, side, at, a->record, r->theta, d);
  if (d->of[by_theta]) {
    double longer = side->at * d->of[by_theta][a->m->timestep - a->m->theta0];
    pbHistory_MoveTimes(a->m, r->theta, a->k, longer, side->x);
    side->x[state_layout(a->m).time] += a->k * longer;
  }

  // Deformables are close to where the step that was recorded took them.
  if (a->m == r->model) pbScratch_GuessDeform(a->scratch, a->record);
  pbInput in = pbMoved_Input(m, side, &a->input, d);
  pbStatus status = pbMoved_Step(m, side, &in, a->observed, false);
  pbScratch_GuessDeform(a->scratch, NULL);
  *missing = *missing || status != pb_ok;
  return status == pb_no_memory ? pbRollout_StepFailed(a->r, status, a->k, pbScratch_Error(a->scratch)) : pb_ok;
}

// Rounding of a product between two states: a few units in the last place of every number that counts.
static double rounding(const StepCheck *a, const double *x) {
  const pbRollout *r = a->r;
  double state = 0, w = 0;

  // Positions may be large against their differences.
  for (int i = 0; i < r->nx; i++) state = fmax(state, fabs(x[i]));
  for (int i = 0; i < r->n; i++) w += fabs(a->w_next[i]);
  return 4 * DBL_EPSILON * w * fmax(1, state);
}

// Where the ends are on different branches they say nothing of each other; zero is no branch: features tie there.
static pbStatus between(void *self, double from, double to, pbQuotient *q) {
  const Along *l = self;
  const StepCheck *a = l->check;
  pbMoved *m = &a->s->moved;
  PB_TRY(evaluate(l, from, &m->side[0], &q->missing));
  PB_TRY(evaluate(l, to, &m->side[1], &q->missing));
  if (q->missing) return pb_ok;

  q->tied = !m->side[0].branch;
  q->missing = m->side[0].branch != m->side[1].branch;
  if (q->missing) return pb_ok;

  // The difference of states is taken in the tangent space, as the costate is.
  double sum = pbProbe_Dot(a->w_next, pbMoved_Apart(m), (size_t)a->r->n) + pbMoved_Observed(m, a->observed), h = (to - from) / 2;
  q->value = sum / (to - from);
  q->scale = l->terms;
  q->noise = rounding(a, m->side[1].x) / h;
  q->allowed = l->terms * h + q->noise;
  return pb_ok;
}

pbStatus pbStepCheck_Compare(const StepCheck *a, const pbVectors *d, pbJudgement *found) {
  Along l = {.check = a, .direction = d};
  double gradient = pbVectors_Dot(&a->s->added, d, &l.terms);
  PB_ASSERT(a->w_next);
  *found = (pbJudgement){.verdict = pb_agrees};
  if (!(l.terms > 0)) return pb_ok;

  const pbLadder ladder = {.self = &l, .between = between, .longest = 1e-7};
  return pbLadder_Judge(&ladder, gradient, found);
}
