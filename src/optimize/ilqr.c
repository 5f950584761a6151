// Iterative LQR: the trajectory is linearized, a plan made with limits on controls, and the system run again with the plan's
// feedback (Tassa, Mansard & Todorov 2014, "Control-limited differential dynamic programming"). A start
// whose states are no run has gaps, which plans close (optimize/gaps.h). How
// the loss curves is told by whoever linearizes it (shoot.c). Tests: tests/unit/test_ilqr.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "optimize/optimizer.h"

// In the own state: damping, the factor by which it changed last (Tassa, Erez & Todorov 2012, section F), whether gaps are open
// and what one costs, whether the search ended for want of anything to gain, the last plan's moves, and gaps.
enum { il_lambda, il_change, il_open, il_price, il_nothing, il_count };
static const double least_damping = 1e-6, most_damping = 1e12, factor = 2;
static const double most_telling = 1e-3;  // damping up to which a plan that promises nothing says that there is nothing
enum { step_sizes = 8 };

static size_t state_size(const pbOptimizer *o) { return il_count + (size_t)o->n + o->shooting.gap_numbers; }

static size_t work_size(const pbOptimizer *o) { return 2 * (size_t)o->n; }  // gradient, trial

static void begin_ilqr(pbOptimizer *o) {
  o->own[il_lambda] = o->options.damping;
  o->own[il_change] = 1;
}

static void damp_more(pbOptimizer *o) {
  double *lambda = &o->own[il_lambda], *change = &o->own[il_change];
  *change = fmax(*change, 1) * factor;
  *lambda = fmax(*lambda * *change, least_damping);
}

// off: by which part the loss fell otherwise than a whole plan promised; the less, the less damping it takes.
static void damp_less(pbOptimizer *o, double off) {
  double *lambda = &o->own[il_lambda], *change = &o->own[il_change];
  *change = fmin(*change, 1) / factor;
  PB_ASSERT(off >= 0);

  // too little to be told from none is none
  *lambda *= *change * fmin(fmax(4 * off, 0.125), 1);
  if (*lambda < least_damping) *lambda = 0;
}

// ---- gaps ---------------------------------------------------------------------------------------------------------------
static double *gaps_of(const pbOptimizer *o) { return o->own + il_count + o->n; }

// Sum of the sizes of all entries: what remains of it after a part of a plan is known beforehand.
static double size_of_gaps(const pbOptimizer *o) {
  size_t count = o->open ? o->shooting.gap_numbers : 0;
  double sum = 0;

  for (size_t i = 0; i < count; i++) sum += fabs(gaps_of(o)[i]);

  return sum;
}

bool pbOptimizer_HasGaps(const pbOptimizer *o, double *largest) {
  bool open = o->method == &pbMinimizer_Ilqr && o->own[il_open] != 0;
  size_t count = open ? o->shooting.gap_numbers : 0;
  *largest = 0;

  for (size_t i = 0; i < count; i++) *largest = fmax(*largest, fabs(gaps_of(o)[i]));

  return open;
}

bool pbOptimizer_HasNothingToGain(const pbOptimizer *o) { return o->method == &pbMinimizer_Ilqr && o->own[il_nothing] != 0; }

// The start: as it runs, which is an answer if there is no better one, and the gaps of its states.
static pbStatus open_gaps(pbOptimizer *o) {
  double value;
  o->open = false;
  PB_TRY(pbOptimizer_Value(o, o->x, &value));
  PB_TRY(o->shooting.measure(o->shooting.user, o->x, gaps_of(o)));
  o->h->values++;

  // states that are a run have none
  o->open = true;
  o->own[il_open] = o->open = size_of_gaps(o) > 0;

  return pb_ok;
}

// After a part of a plan was made.
static void close_gaps(pbOptimizer *o, double alpha) {
  for (size_t i = 0; i < o->shooting.gap_numbers; i++) gaps_of(o)[i] *= 1 - alpha;

  if (alpha < 1) return;

  // what has just been evaluated is a run
  o->own[il_open] = o->open = false;
  pbOptimizer_Remember(o, o->x, o->h->value);
}

// What an open gap costs beside the loss, so that closing them pays whatever the loss has to rise for it: half of what a plan
// gains by them is more than that (Nocedal & Wright 2006, 18.3).
static void price_gaps(pbOptimizer *o, double linear, double quadratic) {
  double size = size_of_gaps(o), rise = linear + fmax(quadratic, 0);
  if (size > 0 && rise > 0) o->own[il_price] = fmax(o->own[il_price], 2 * rise / size);
}

// ---- one plan -----------------------------------------------------------------------------------------------------------
typedef struct Taken {  // which part of a plan; by which part of its promise the loss fell otherwise
  double alpha, off;
} Taken;

// The plan's moves, whole and then in smaller and smaller parts, until the loss falls by a fair share of what was promised;
// *taken: 0 where none does.
static pbStatus try_parts(pbOptimizer *o, double linear, double quadratic, double *trial, Taken *taken) {
  double alpha = 1, closed = o->own[il_price] * size_of_gaps(o);
  *taken = (Taken){0};
  for (int k = 0; k < step_sizes; k++, alpha /= 2) {
    double promised = -alpha * (linear + alpha * quadratic) + alpha * closed, value;
    if (!(promised > 0)) continue;

    // by how much the loss falls, and what gaps cost
    PB_TRY(pbOptimizer_Try(o, alpha, trial, &value));
    double fall = o->h->value - value + alpha * closed;
    if (!(fall > 0 && fall > 1e-4 * promised)) continue;

    *taken = (Taken){alpha, fabs(1 - fall / promised)};

    // how far the unknowns went, feedback and all
    double length = 0;
    for (int i = 0; i < o->n; i++) length += (trial[i] - o->x[i]) * (trial[i] - o->x[i]);
    memcpy(o->x, trial, (size_t)o->n * sizeof *trial);
    o->h->value = value;
    bool was_open = o->open;
    if (was_open) close_gaps(o, alpha);
    pbOptimizer_Moved(o, sqrt(length));

    // states have moved, too
    if (was_open) o->h->outcome = pb_running;
    return pb_ok;
  }

  return pb_ok;
}

// Does the plan promise less than rounding of the loss?
static bool is_nothing(const pbOptimizer *o, double linear, double quadratic) {
  double most = linear + quadratic;

  // the best part of it, where the whole goes too far
  if (quadratic > 0 && linear < 0) most = fmin(most, -linear * linear / (4 * quadratic));
  return -most <= 1e-15 * fabs(o->h->value);
}

static pbStatus find_move(pbOptimizer *o, double *trial) {
  double linear, quadratic, before = o->own[il_lambda];
  bool nothing = false;
  Taken taken;

  // Until some plan helps; what was linearized is the same for all of them.
  PB_ASSERT(o->own[il_lambda] >= 0 && o->own[il_change] > 0);

  while (o->own[il_lambda] <= most_damping) {
    if (!o->shooting.plan(o->shooting.user, o->x, o->own[il_lambda], o->own + il_count, &linear, &quadratic)) {
      damp_more(o);
      continue;
    }

    // More damping would promise less still.
    if (!o->open && is_nothing(o, linear, quadratic)) {
      nothing = o->own[il_lambda] <= most_telling;
      break;
    }
    if (o->open) price_gaps(o, linear, quadratic);

    PB_TRY(try_parts(o, linear, quadratic, trial, &taken));
    if (taken.alpha == 0) {
      damp_more(o);
      continue;
    }

    // Short steps say that the plan reaches too far. What has just been found to be needed is kept for the next one.
    if (taken.alpha >= 0.5 && o->own[il_lambda] <= before) damp_less(o, taken.alpha == 1 ? taken.off : 1);
    else if (taken.alpha < 0.1) damp_more(o);
    return pb_ok;
  }

  // whoever goes on elsewhere begins with the damping that served here
  o->own[il_lambda] = before;
  o->own[il_change] = 1;
  o->own[il_nothing] = nothing;
  o->h->outcome = pb_noDescent;

  return pb_ok;
}

static pbStatus iterate_ilqr(pbOptimizer *o) {
  double *gradient = o->work, *trial = o->work + o->n;
  PB_ASSERT(o->shooting.linearize);
  if (o->shooting.gap_numbers && o->h->iteration == 0) PB_TRY(open_gaps(o));
  o->open = o->own[il_open] != 0;
  if (o->shooting.gap_numbers) o->shooting.use(o->shooting.user, o->open ? gaps_of(o) : NULL);
  PB_TRY(pbOptimizer_LinearizeLoss(o, o->x, &o->h->value, gradient));

  // The point stands since the last iteration; only the start can fail.
  if (!isfinite(o->h->value)) {
    o->h->outcome = pb_noDescent;
    return pb_ok;
  }

  o->h->gradient_norm = pbOptimizer_ProjectedNorm(o, o->x, gradient);
  if (!o->open && o->h->gradient_norm <= o->options.gradient_tolerance) {
    o->h->outcome = pb_smallGradient;
    return pb_ok;
  }

  return find_move(o, trial);
}

const pbMinimizer pbMinimizer_Ilqr = {.name = "ilqr",
                                      .needs_shooting = true,
                                      .state_size = state_size,
                                      .work_size = work_size,
                                      .begin = begin_ilqr,
                                      .iterate = iterate_ilqr};
