// How far a derivative reaches: moves of the start as the program makes them beside those that the derivative foresees. Test:
// tests/oracle/test_noise.py, against bundles of forward runs.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include <pullback/random.h>
#include "model/state_layout.h"
#include "rollout/rollout.h"

enum { usual_directions = 8, most_directions = 256 };
static const double usual_move = 1e-3;

typedef struct Noise {
  pbRollout *r;
  int directions, moved;  // moved: numbers of the state's tangent that directions move
  double move;
  double *direction;  // directions x n
  double *tangent;    // directions x (steps + 1) x n: what the derivative foresees
  double *x;          // (directions + 1) x nx: the moved states, then the one between them
  double *apart;      // n
  bool *beyond;       // steps + 1: which states are not foreseen
  int last;           // state that was reached
  double *memory;
} Noise;

static pbStatus allocate(Noise *s) {
  const pbRollout *r = s->r;
  size_t n = (size_t)r->n, d = (size_t)s->directions, rows = (size_t)r->plan.steps + 1, nx = (size_t)r->nx;
  PB_ASSERT(s->directions > 0 && s->directions <= most_directions);

  // One block of numbers, and the marks.
  s->memory = pbContext_AllocArray(r->ctx, d * n * (rows + 1) + (d + 1) * nx + n, sizeof(double));
  if (!s->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for %d directions over %zu states", s->directions, rows);

  s->direction = s->memory;
  s->tangent = s->direction + d * n;
  s->x = s->tangent + d * n * rows;
  s->apart = s->x + (d + 1) * nx;
  s->beyond = pbContext_AllocArray(r->ctx, rows, sizeof *s->beyond);
  return s->beyond ? pb_ok : pbContext_Fail(r->ctx, pb_no_memory, "no memory for %zu states", rows);
}

// Of length one over positions, velocities and activations; and the derivative along them.
static pbStatus draw_and_push(Noise *s, uint64_t seed) {
  pbRollout *r = s->r;
  size_t n = (size_t)r->n;
  pbRng rng = pbRng_Seed(seed);
  pbRolloutDirection directions[most_directions];
  pbRolloutTangent tangents[most_directions];
  PB_ASSERT(s->directions <= most_directions);

  for (int i = 0; i < s->directions; i++) {
    double *d = s->direction + (size_t)i * n, sum = 0;
    for (int k = 0; k < s->moved; k++) d[k] = pbRng_Normal(&rng);
    for (int k = 0; k < s->moved; k++) sum += d[k] * d[k];
    for (int k = 0; k < s->moved; k++) d[k] /= sqrt(sum);

    directions[i] = (pbRolloutDirection){.x0 = d};
    tangents[i] = (pbRolloutTangent){.x = s->tangent + (size_t)i * n * ((size_t)r->plan.steps + 1)};
  }

  return pbRollout_Jvp(r, s->directions, directions, tangents);
}

// One step of all moved states and of the one between them. *failed: one of the moved ones cannot go on.
static pbStatus step_all(Noise *s, int k, bool *failed) {
  pbRollout *r = s->r;
  pbInput input = pbRollout_InputAt(r, k);

  for (int i = 0; i <= s->directions; i++) {
    pbStatus status = pbRollout_StepChecked(r, r->theta, s->x + (size_t)i * (size_t)r->nx, &input, k, NULL);
    if (status == pb_ok) continue;

    // Where a moved state fails the comparison ends; where the rollout itself does, all of it.
    *failed = i < s->directions;
    return *failed ? pb_ok : status;
  }

  return pb_ok;
}

// Sums over all directions at state k: of the moves made, of those foreseen, and of their products.
typedef struct Sums {
  double made, foreseen, product;
} Sums;

static Sums compare_at(const Noise *s, int k) {
  const pbRollout *r = s->r;
  size_t n = (size_t)r->n, rows = (size_t)r->plan.steps + 1;
  const double *between = s->x + (size_t)s->directions * (size_t)r->nx;
  Sums sums = {0};

  for (int i = 0; i < s->directions; i++) {
    const double *tangent = s->tangent + ((size_t)i * rows + (size_t)k) * n;
    pbState_Difference(r->model, between, s->x + (size_t)i * (size_t)r->nx, s->apart);

    for (int j = 0; j < s->moved; j++) {
      double foreseen = s->move * tangent[j];
      sums.made += s->apart[j] * s->apart[j];
      sums.foreseen += foreseen * foreseen;
      sums.product += foreseen * s->apart[j];
    }
  }

  return sums;
}

// Notes what state k says.
static void note(Noise *s, int k, pbNoise *noise) {
  PB_ASSERT(k > 0 && k <= s->r->plan.steps);
  Sums sums = compare_at(s, k);

  // |made - foreseen|^2 from its parts; rounding may take it below zero.
  double rest = fmax(0, sums.made - 2 * sums.product + sums.foreseen), root = sqrt(s->directions);
  noise->unforeseen = sums.made > 0 ? sqrt(rest / sums.made) : 0;
  noise->growth = log(fmax(sqrt(sums.foreseen) / (s->move * root), 1e-300));

  // NaN: tangents beyond any number.
  s->beyond[k] = !(noise->unforeseen < pb_noiseShare) && !(noise->growth < log(pb_noiseGrowth));
  s->last = k;
}

// The first state that is not foreseen, as are three quarters at least of those from it on: by chance some are.
static void find_time(const Noise *s, pbNoise *noise) {
  int beyond = 0;
  PB_ASSERT(s->last >= 0 && s->last <= s->r->plan.steps);

  for (int k = s->last; k > 0; k--) {
    beyond += s->beyond[k];
    if (s->beyond[k] && 4 * beyond >= 3 * (s->last - k + 1)) noise->step = k;
  }

  if (noise->step > 0) noise->time = noise->step * s->r->timestep;
}

static pbStatus follow(Noise *s, pbNoise *noise) {
  pbRollout *r = s->r;
  size_t nx = (size_t)r->nx;
  bool failed = false;

  // Moved along the directions, the last one not at all.
  for (int i = 0; i <= s->directions; i++) {
    memcpy(s->x + (size_t)i * nx, r->x0, nx * sizeof(double));
    if (i < s->directions) pbState_Move(r->model, s->x + (size_t)i * nx, s->direction + (size_t)i * (size_t)r->n, s->move);
  }

  if (pbProgressMeter_Begin(&r->meter, "noise", r->plan.steps)) return pbRollout_Stopped(r, 0);

  for (int k = 0; k < r->plan.steps; k++) {
    PB_TRY(step_all(s, k, &failed));
    if (failed) return pb_ok;

    note(s, k + 1, noise);
    if (pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k);
  }

  return pb_ok;
}

pbStatus pbRollout_Noise(pbRollout *r, const pbNoiseOptions *options, pbNoise *noise) {
  pbNoiseOptions o = options ? *options : (pbNoiseOptions){0};

  if (!r->ran)
    return pbContext_Fail(r->ctx, pb_bad_argument, "how far a derivative reaches needs a rollout that ran to its end first");
  if (!(o.move >= 0 && o.move < INFINITY))
    return pbContext_Fail(r->ctx, pb_bad_argument, "noise: a move of %g: it must be 0 or more, and finite", o.move);
  if (o.directions < 0 || o.directions > most_directions)
    return pbContext_Fail(r->ctx, pb_bad_argument, "noise: %d directions: there must be 0 to %d", o.directions, most_directions);

  // What it says where nothing can move.
  Noise s = {.r = r, .directions = o.directions ? o.directions : usual_directions, .move = o.move > 0 ? o.move : usual_move};
  s.moved = 2 * r->nv + r->na;
  *noise = (pbNoise){.time = INFINITY, .step = -1, .move = s.move};
  if (s.moved == 0) return pb_ok;

  PB_TRY(pbRollout_Ready(r));
  pbStatus status = allocate(&s);
  if (status == pb_ok) status = draw_and_push(&s, o.seed);
  if (status == pb_ok) status = follow(&s, noise);
  if (status == pb_ok) find_time(&s, noise);

  pbContext_Free(r->ctx, s.beyond);
  pbContext_Free(r->ctx, s.memory);
  return status;
}
