// How far a derivative reaches: moves of the start as the program makes them beside those that the derivative foresees. Test:
// tests/oracle/test_noise.py, against bundles of forward runs.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include <pullback/random.h>
#include "elementary/elementary.h"
#include "model/state_layout.h"
#include "rollout/rollout.h"

enum { usual_directions = 8, most_directions = 256, first_directions = 2, most_rows = 512 };
static const double usual_move = 1e-3;
static const double far_from_noise = 10;  // growth of two directions below which those of others are not worth a look

typedef struct Noise {
  pbRollout *r;
  int directions, first, moved;  // first: those looked at first; moved: numbers of the state's tangent that directions move
  double move;
  int rows, *row;     // states that are compared: 0, ..., the last
  double *direction;  // directions x n
  double *tangent;    // directions x rows x n: what the derivative foresees
  double *x;          // (directions + 1) x nx: the moved states, then the one between them
  double *apart;      // n
  bool *beyond;       // rows: which states are not foreseen
  int last;           // row that was reached
  double *memory;
} Noise;

// All states of a short rollout, of a long one some: memory does not grow with it.
static void choose_rows(Noise *s) {
  int steps = s->r->plan.steps;
  s->rows = steps + 1 < most_rows ? steps + 1 : most_rows;
  PB_ASSERT(s->rows > 1);
  for (int i = 0; i < s->rows; i++) s->row[i] = (int)((int64_t)steps * i / (s->rows - 1));
}

static pbStatus allocate(Noise *s) {
  const pbRollout *r = s->r;
  size_t n = (size_t)r->n, d = (size_t)s->directions, nx = (size_t)r->nx;
  PB_ASSERT(s->directions > 0 && s->directions <= most_directions);
  s->row = pbContext_AllocArray(r->ctx, most_rows, sizeof *s->row);
  if (!s->row) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for %d states", most_rows);
  choose_rows(s);

  // One block of numbers, and the marks.
  size_t rows = (size_t)s->rows;
  s->memory = pbContext_AllocArray(r->ctx, d * n * (rows + 1) + (d + 1) * nx + n, sizeof(double));
  if (!s->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for %d directions over %zu states", s->directions, rows);

  s->direction = s->memory;
  s->tangent = s->direction + d * n;
  s->x = s->tangent + d * n * rows;
  s->apart = s->x + (d + 1) * nx;
  s->beyond = pbContext_AllocArray(r->ctx, rows, sizeof *s->beyond);
  return s->beyond ? pb_ok : pbContext_Fail(r->ctx, pb_no_memory, "no memory for %zu states", rows);
}

static void release(Noise *s) {
  pbContext_Free(s->r->ctx, s->beyond);
  pbContext_Free(s->r->ctx, s->memory);
  pbContext_Free(s->r->ctx, s->row);
}

// Of length one over positions, velocities, activations and points.
static void draw(Noise *s, uint64_t seed) {
  size_t n = (size_t)s->r->n;
  pbRng rng = pbRng_Seed(seed);

  for (int i = 0; i < s->directions; i++) {
    double *d = s->direction + (size_t)i * n, sum = 0;
    for (int k = 0; k < s->moved; k++) d[k] = pbRng_Normal(&rng);
    for (int k = 0; k < s->moved; k++) sum += d[k] * d[k];
    for (int k = 0; k < s->moved; k++) d[k] /= sqrt(sum);
  }
}

static double *tangent_at(const Noise *s, int direction, int row) {
  return s->tangent + ((size_t)direction * (size_t)s->rows + (size_t)row) * (size_t)s->r->n;
}

// The derivative along directions `from` .. `to` - 1.
static pbStatus push(Noise *s, int from, int to) {
  if (from == to) return pb_ok;
  pbRolloutDirection directions[most_directions];
  pbRolloutTangent tangents[most_directions];
  PB_ASSERT(from >= 0 && to <= s->directions);

  for (int i = from; i < to; i++) {
    directions[i - from] = (pbRolloutDirection){.x0 = s->direction + (size_t)i * (size_t)s->r->n};
    tangents[i - from] = (pbRolloutTangent){.x = tangent_at(s, i, 0), .rows = s->row, .row_count = s->rows};
  }

  return pbRollout_Jvp(s->r, to - from, directions, tangents);
}

// By how much the first directions have grown at a row.
static double grown(const Noise *s, int row) {
  double sum = 0;
  for (int i = 0; i < s->first; i++) {
    const double *tangent = tangent_at(s, i, row);
    for (int k = 0; k < s->moved; k++) sum += tangent[k] * tangent[k];
  }

  return sqrt(sum / s->first);
}

// Do they ever grow so much that there may be noise? NaN: beyond any number.
static bool may_be_noise(const Noise *s) {
  bool much = false;
  for (int i = 1; i < s->rows; i++) much |= !(grown(s, i) < far_from_noise);

  return much;
}

// One step of all moved states and of the one between them. *failed: one of the moved ones cannot go on.
static pbStatus step_all(Noise *s, int k, bool *failed) {
  pbRollout *r = s->r;
  pbInput input = pbRollout_InputAt(r, k);

  for (int i = 0; i <= s->directions; i++) {
    pbStatus status = pbRollout_StepChecked(r, r->theta, s->x + (size_t)i * (size_t)r->nx, &input, k, NULL);
    if (status == pb_ok) continue;

    // Where a moved state fails the comparison ends; where the rollout itself or memory does, all of it.
    *failed = i < s->directions && status != pb_no_memory;
    return *failed ? pb_ok : status;
  }

  return pb_ok;
}

// Sums over all directions at a row: of the moves made, of those foreseen, and of their products.
typedef struct Sums {
  double made, foreseen, product;
} Sums;

static Sums compare_at(const Noise *s, int row) {
  const pbRollout *r = s->r;
  const double *between = s->x + (size_t)s->directions * (size_t)r->nx;
  Sums sums = {0};

  for (int i = 0; i < s->directions; i++) {
    const double *tangent = tangent_at(s, i, row);
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

// Notes what the state of a row says.
static void note(Noise *s, int row, pbNoise *noise) {
  PB_ASSERT(row > 0 && row < s->rows);
  Sums sums = compare_at(s, row);

  // |made - foreseen|^2 from its parts; rounding may take it below zero.
  double rest = fmax(0, sums.made - 2 * sums.product + sums.foreseen), root = sqrt(s->directions);
  noise->unforeseen = sums.made > 0 ? sqrt(rest / sums.made) : 0;
  noise->growth = pbLog(fmax(sqrt(sums.foreseen) / (s->move * root), 1e-300));

  // Far apart, as it was foreseen or as it came. NaN: tangents beyond any number.
  double far = pb_noiseGrowth * s->move * root;
  bool near = sqrt(sums.foreseen) < far && sqrt(sums.made) < far;
  s->beyond[row] = !(noise->unforeseen < pb_noiseShare) && !near;
  s->last = row;
}

// Three quarters at least of the states from row i on to row `to`.
static bool most_beyond(const Noise *s, int i, int to) {
  int beyond = 0;
  PB_ASSERT(i > 0 && to <= s->last);
  for (int k = i; k <= to; k++) beyond += s->beyond[k];

  return 4 * beyond >= 3 * (to - i + 1);
}

// The first state that is not foreseen, as are most of those that follow, within a quarter of the time and to the end: by
// chance some are, where moves pass through zero or the motion turns.
static void find_time(const Noise *s, pbNoise *noise) {
  PB_ASSERT(s->last >= 0 && s->last < s->rows);

  for (int i = 1; i <= s->last && noise->step < 0; i++) {
    int soon = i + (i + 3) / 4 < s->last ? i + (i + 3) / 4 : s->last;
    if (s->beyond[i] && most_beyond(s, i, soon) && most_beyond(s, i, s->last)) noise->step = s->row[i];
  }

  if (noise->step < 0) return;
  noise->time = noise->step * s->r->timestep;
  noise->window = noise->time / 2;
}

static pbStatus follow(Noise *s, pbNoise *noise) {
  pbRollout *r = s->r;
  size_t nx = (size_t)r->nx;
  bool failed = false;
  int row = 1;

  // Moved along the directions, the last one not at all.
  for (int i = 0; i <= s->directions; i++) {
    memcpy(s->x + (size_t)i * nx, r->x0, nx * sizeof(double));
    if (i < s->directions) pbState_Move(r->model, s->x + (size_t)i * nx, s->direction + (size_t)i * (size_t)r->n, s->move);
  }

  if (pbProgressMeter_Begin(&r->meter, "noise", r->plan.steps)) return pbRollout_Stopped(r, 0);

  for (int k = 0; k < r->plan.steps; k++) {
    PB_TRY(step_all(s, k, &failed));
    if (failed) return pb_ok;

    if (k + 1 == s->row[row]) note(s, row++, noise);
    if (pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k);
  }

  return pb_ok;
}

static pbStatus measure(Noise *s, uint64_t seed, pbNoise *noise) {
  PB_TRY(allocate(s));
  draw(s, seed);
  PB_TRY(push(s, 0, s->first));
  noise->growth = pbLog(fmax(grown(s, s->rows - 1), 1e-300));
  if (!may_be_noise(s)) return pb_ok;

  PB_TRY(push(s, s->first, s->directions));
  PB_TRY(follow(s, noise));
  find_time(s, noise);
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
  s.first = s.directions < first_directions ? s.directions : first_directions;
  s.moved = 2 * r->nv + r->na + 2 * r->np;
  *noise = (pbNoise){.time = INFINITY, .step = -1, .move = s.move, .window = INFINITY, .contact = r->forward.most_contacts > 0};
  if (s.moved == 0 || r->plan.steps == 0) return pb_ok;

  PB_TRY(pbRollout_Ready(r));
  pbStatus status = measure(&s, o.seed, noise);
  release(&s);
  return status;
}

// ---- in words -------------------------------------------------------------------------------------------------------------
char *pbNoise_Say(const pbNoise *noise, char *text, size_t size) {
  if (size) text[0] = 0;
  if (noise->step < 0) return text;

  snprintf(text, size,
           "the gradient is noise beyond t = %.3g s: from there on moves of %.0e at the start do not go where it says",
           noise->time, noise->move);
  return text;
}

// What helps depends on what is searched for: controls and policies act within a window, a start acts on all that follows.
char *pbNoise_Propose(const pbNoise *noise, char *text, size_t size) {
  const char *smoother = noise->contact ? "the smooth mode of contacts, " : "";
  if (size) text[0] = 0;
  if (noise->step < 0) return text;

  snprintf(
      text, size,
      "a window of half that time (%.2g s) keeps the gradient of controls and policies within reach, %sdamping and the mean "
      "over several starts make the loss smoother, and what the whole of the motion decides is found by searches from several "
      "starts without gradients (cmaes, es)",
      noise->window, smoother);
  return text;
}
