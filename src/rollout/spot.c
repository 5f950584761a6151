// The spot check of a whole rollout. With z(s) all that is observed of the rollout from x0 (+) s d, u + s d_u, theta + s d_theta,
// and w the cotangents: <w, z(+s) - z(-s)> / 2s against <gradient, d>. Both rollouts go side by side, so no trajectory is kept.
// Tests: tests/unit/test_rollout.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "probe/probe.h"
#include "rollout/vectors.h"
#include "step/scratch.h"

struct pbSpot {
  double size;                  // of the move
  pbVectors direction;          // random, of all that a gradient is wanted by
  double before, theta_before;  // products with what the gradient arrays held before: all of it, and its part by theta
  pbMoved moved;
  void *memory;

  // While it is checked.
  const pbRolloutBar *bar;
  pbCertificate *certificate;
  int parted;  // the first step at which the ends of a move take different branches, or features tie; -1: none
};

static void lay_out(pbArena *a, void *spot) {
  pbSpot *s = spot;
  size_t size[by_count];
  memcpy(size, s->direction.size, sizeof size);
  pbVectors_LayOut(a, size, &s->direction);
  pbMoved_LayOut(a, &s->moved);
}

pbStatus pbSpot_Begin(pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *g, pbSpot **spot) {
  pbVectors gradient = pbVectors_OfGradient(r, g, NULL);
  pbSpot *s = *spot = pbContext_Alloc(r->ctx, sizeof *s);
  if (!s) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");

  *s = (pbSpot){.size = options->spot_size > 0 ? options->spot_size : 1e-6, .direction = gradient};
  s->moved = (pbMoved){.r = r, .model = r->model, .scratch = r->scratch};
  s->memory = pbArena_Make(r->ctx, lay_out, s);
  if (!s->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");

  // The direction of state and inputs together is of length 1, evenly distributed.
  pbRng rng = pbRng_Seed(options->seed);
  pbRollout_DrawUnit(r, &rng, &s->direction);

  // A pullback adds to what the gradient arrays hold.
  s->before = pbVectors_Dot(&gradient, &s->direction, NULL);
  s->theta_before = pbProbe_Dot(g->theta, s->direction.of[by_theta], s->direction.size[by_theta]);
  return pb_ok;
}

void pbSpot_End(const pbRollout *r, pbSpot *s) {
  if (!s) return;
  pbContext_Free(r->ctx, s->memory);
  pbContext_Free(r->ctx, s);
}

void pbSpot_Save(const pbSpot *s, double *out) {
  out[0] = s->before;
  out[1] = s->theta_before;
}

void pbSpot_Load(pbSpot *s, const double *in) {
  s->before = in[0];
  s->theta_before = in[1];
}

// <w, x(+) (-) x(-)> of the state itself, in its tangent space.
static double state_part(pbSpot *s, int k) {
  const pbRollout *r = s->moved.r;
  const pbRolloutBar *bar = s->bar;
  const struct {
    const pbCotangent *bar;
    int from, width;
  } parts[] = {{&bar->qpos, 0, r->nv},
               {&bar->qvel, r->nv, r->nv},
               {&bar->act, 2 * r->nv, r->na},
               {&bar->points, 2 * r->nv + r->na, r->np},
               {&bar->point_velocity, 2 * r->nv + r->na + r->np, r->np},
               {&bar->x, 0, r->n}};
  const double *apart = NULL;
  double sum = 0;

  // The difference is taken once, where anything has a cotangent.
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    const double *w = pbCotangent_At(parts[i].bar, parts[i].width, k, r->plan.steps);
    if (w && !apart) apart = pbMoved_Apart(&s->moved);
    if (w) sum += pbProbe_Dot(w, apart + parts[i].from, (size_t)parts[i].width);
  }
  return sum;
}

// Both rollouts side by side: *sum += <w, z(to) - z(from)>. *tied: where they part, features tie.
static pbStatus run_sides(pbSpot *s, double *sum, bool *tied) {
  pbMoved *m = &s->moved;
  pbRollout *r = m->r;
  const pbRolloutBar *bar = s->bar;
  int steps = r->plan.steps;

  for (int k = 0; k <= steps; k++) {
    const pbObservationBar seen = {.sensordata = pbCotangent_At(&bar->sensordata, r->ns, k, steps),
                                   .xpos = pbCotangent_At(&bar->xpos, 3 * r->nbody, k, steps),
                                   .site_xpos = pbCotangent_At(&bar->site_xpos, 3 * r->nsite, k, steps)};
    *sum += state_part(s, k);
    if (k == steps && !seen.xpos && !seen.site_xpos && !seen.sensordata) break;

    // One step of each: the outputs at state k, and the branches that were taken.
    for (int side = 0; side < 2; side++) {
      pbStatus status = pbMoved_StepAt(m, &m->side[side], &s->direction, k, &seen);
      if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
    }
    uint64_t branch[2] = {m->side[0].branch, m->side[1].branch};
    if (s->parted < 0 && (branch[0] != branch[1] || !branch[0])) {
      s->parted = k;
      *tied = !branch[0] || !branch[1];
    }

    // What is observed enters with the caller's cotangents of this state.
    *sum += pbMoved_Observed(m, &seen);
    if (pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k);
  }

  return pb_ok;
}

// The quotient between two positions along the direction. Over a move the derivative may change by its length times the growth of
// the costate, relative to itself.
static pbStatus between(void *self, double from, double to, pbQuotient *q) {
  pbSpot *s = self;
  pbRollout *r = s->moved.r;
  const pbCertificate *c = s->certificate;
  double sum = 0;
  PB_ASSERT(to > from);
  s->parted = -1;
  if (pbProgressMeter_Begin(&r->meter, "check", r->plan.steps)) return pbRollout_Stopped(r, 0);

  // Both sides from the start, displaced.
  pbMoved_Place(&s->moved, &s->moved.side[0], from, r->x0, r->theta, &s->direction);
  pbMoved_Place(&s->moved, &s->moved.side[1], to, r->x0, r->theta, &s->direction);
  PB_TRY(run_sides(s, &sum, &q->tied));
  q->value = sum / (to - from);
  q->parted = s->parted >= 0;
  q->scale = fmax(fabs(c->spot_gradient), fabs(q->value));
  q->allowed = (to - from) / 2 * (1 + pbExp(c->growth)) * q->scale;
  return pb_ok;
}

// One comparison of the whole rollout: made, or left out and why.
static void note_comparison(const pbSpot *s, const pbRolloutGradient *g, const pbJudgement *found, pbCertificate *c) {
  bool decided = found->verdict <= pb_differs;
  c->spot_difference = found->value;
  c->spot_error = found->error;
  c->spot_limit = found->limit;
  c->spot_off = found->verdict == pb_differs;
  c->spot_kink = decided ? -1 : s->parted;

  // How much was compared; undecided is no verdict.
  c->spot_part |= pb_partRollout;
  c->spot_evaluations += s->moved.evaluations;
  c->spot_checked = decided;
  c->spot_quotients += decided;
  c->spot_steps_share = decided;
  c->spot_entries_share = decided ? pbRollout_MovedShare(s->moved.r, &s->direction, g->theta) : 0;
  if (!decided) pbCertificate_LeaveOut(c, found->verdict);
}

pbStatus pbSpot_Check(pbRollout *r, pbSpot *s, const pbRolloutBar *bar, double *x0_bar, const pbRolloutGradient *g,
                      pbCertificate *c) {
  pbVectors gradient = pbVectors_OfGradient(r, g, x0_bar);
  pbVectors *d = &s->direction;

  // What a pullback has added.
  double by_parameters = pbProbe_Dot(g->theta, d->of[by_theta], d->size[by_theta]) - s->theta_before;
  const pbLadder ladder = {.self = s, .between = between, .longest = s->size};
  pbJudgement found;
  s->bar = bar;
  s->certificate = c;

  // First along all of the direction, then, where theta meets a kink, without it.
  c->spot_gradient = pbVectors_Dot(&gradient, d, NULL) - s->before;
  PB_TRY(pbLadder_Judge(&ladder, c->spot_gradient, &found));
  if (found.verdict > pb_differs && d->of[by_theta]) {
    c->spot_gradient -= by_parameters;
    d->of[by_theta] = NULL;
    d->size[by_theta] = 0;
    PB_TRY(pbLadder_Judge(&ladder, c->spot_gradient, &found));
  }

  note_comparison(s, g, &found, c);
  return pb_ok;
}
