// The check of a model's derivatives, one comparison: gradients of both functionals along the direction that is set, against
// one-sided slopes and against forward mode; what counts, what is left out and why, and what disagrees, in words.
// Tests: tests/oracle/test_check.py, tests/oracle/test_cli.py, tests/unit/test_check.c.
#include <math.h>

#include "check/check.h"

static const double dot_limit = 1e-9;

// Moves belong to the model: where parameters that are set would move a state by more than themselves (a torque on a body of
// 1e-13 kg m^2), they are set that much smaller. States and controls have a size of their own, and would drown in rounding.
static void shorten_parameters(pbCheck *d, double ahead[seen_count]) {
  const pbRollout *r = d->r;
  double most = 0;
  if (pbProbe_Norm(d->direction.of[by_theta], r->ntheta) == 0) return;
  size_t count = (size_t)(r->plan.steps + 1) * (size_t)r->n;
  for (size_t i = 0; i < count; i++) most = fmax(most, fabs(d->tangent[in_states][i]));
  if (most <= 1 || isinf(most)) return;

  pbVectors_Divide(&d->direction, most);
  for (size_t i = 0; i < r->ntheta; i++) d->direction.of[by_theta][i] /= most;
  for (int k = 0; k < seen_count; k++) ahead[k] /= most;
}

// Both modes differentiate the same program: only rounding may tell them apart.
static pbStatus compare_modes(pbCheck *d, pbSeen seen, double ahead, bool *same) {
  double back = pbCheck_GradientAlong(d, seen, NULL);
  *same = fabs(ahead - back) <= dot_limit * (fabs(ahead) + fabs(back) + 1e-4);
  return *same ? pb_ok : pbCheck_IsRounding(d, seen, ahead, same);
}

// Why slopes that do not agree tell nothing against the gradient; NULL: they do, or they agree.
static const char *find_excuse(pbCheck *d, const pbComparison *c, pbSeen seen, const pbStanding *f, double limit) {
  if (f->known && f->error <= limit) return NULL;

  // a kink within the move, or one that no event shows
  const char *kink = c->step >= 0 ? pbCheck_FindKink(d) : NULL;
  if (kink) return kink;
  if (!f->known && f->drowned) return c->step >= 0 ? "too small to see beside rounding" : "is too small to see beside rounding";
  if (c->step >= 0 && (!f->known || f->bent)) return pb_namelessKink;

  if (!f->known && seen == in_states) return "does not settle: a jump or an onset";
  if (!f->known) return "does not settle: a jump, an onset, or a sensor that looks elsewhere";
  if (seen == in_sensors && f->bent && pbCheck_LooksDiffer(d)) return "at a tie of what a sensor looks at";
  if (c->excused) return c->excused;
  return d->tied ? "at a tie of contacts, named below" : NULL;
}

// Of an entry that moves alone with its gradient and slopes.
static void say_disagreement(const pbComparison *c, const char *subject, const pbStanding *f, pbCheckTest *t) {
  const char *place = c->side ? " at its bound" : "";
  pbWords numbers = {{0}};
  if (f->bent) place = " at a tie or kink";
  if (c->alone)
    numbers =
        pbWords_Of(": gradient %.4g, slopes %.4g and %.4g", f->gradient / *c->alone, f->right / *c->alone, f->left / *c->alone);
  pbCheck_AddWords(t, "", "%s disagrees%s%s", subject, place, numbers.text);
}

pbStatus pbCheck_Compare(pbCheck *d, const pbComparison *c, pbStanding found[seen_count], bool *wrong) {
  double ahead[seen_count], limit = c->test[c->test[in_states] ? in_states : in_sensors]->limit;
  pbWords subject = c->step >= 0 ? pbWords_Of("step %d", c->step) : pbWords_Of("the gradient");
  const char *name = c->name ? c->name : subject.text;
  *wrong = false;
  if (c->modes) {
    PB_TRY(pbCheck_Push(d, ahead));
    shorten_parameters(d, ahead);
  }
  pbCheck_Measure(d, c->side, c->strict, limit, found);

  for (pbSeen seen = 0; seen < seen_count; seen++) {
    pbCheckTest *t = c->test[seen];
    const pbStanding *f = &found[seen];
    bool same = true;
    if (!t) continue;

    if (c->modes) PB_TRY(compare_modes(d, seen, ahead[seen], &same));
    if (!same) {
      pbCheck_Fail(t);
      pbCheck_AddWords(t, "", "%s differs between forward and reverse mode", name);
    }

    const char *excuse = find_excuse(d, c, seen, f, limit);
    bool agrees = excuse || f->error <= limit;
    if (excuse) pbCheck_LeaveOut(t, c->name, excuse, c->step);
    else pbCheck_CountCase(t, agrees ? fmin(f->off, limit) : f->error, c->step);
    if (!agrees) say_disagreement(c, name, f, t);
    *wrong = *wrong || !agrees || !same;
  }
  return pb_ok;
}
