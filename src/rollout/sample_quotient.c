// Checks of single steps (sample.c): quotients of differences of the program, over moves along a direction of state, inputs and
// theta.
// Tests: tests/unit/test_rollout.c.
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "couple/deform_step.h"
#include "model/mocap.h"
#include "model/model.h"
#include "model/state_layout.h"
#include "rollout/sample.h"
#include "step/scratch.h"

// A quotient is taken over moves of this length, and where it does not agree over shorter ones: what lies within a move of a
// contact that begins, or of another kink, is no derivative.
static const double longest = 1e-7, shorter = 1. / 32;
enum { sizes = 4 };

static double dot(const double *a, const double *b, size_t n) {
  if (!a || !b) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// ---- quotients -------------------------------------------------------------------------------------------------------
static const double *displaced(const double *base, const double *direction, double size, size_t n, double *out) {
  if (!direction) return base;

  for (size_t i = 0; i < n; i++) out[i] = (base ? base[i] : 0) + size * direction[i];
  return out;
}

// Poses of mocap bodies along the direction, from those of the input or of the model.
static void displace_poses(const StepCheck *a, const StepVectors *d, double size, const double *theta, pbInput *in) {
  double *pos = a->s->poses, *quat = pos + 3 * a->r->nmocap;
  if (!d->input[in_mocap_pos] && !d->input[in_mocap_rot]) return;

  // What the input does not say is the model's.
  pbModel_MocapPose(a->m, theta, -1, pos, quat);
  if (in->mocap_pos) memcpy(pos, in->mocap_pos, 3 * (size_t)a->r->nmocap * sizeof *pos);
  if (in->mocap_quat) memcpy(quat, in->mocap_quat, 4 * (size_t)a->r->nmocap * sizeof *quat);

  pbModel_MocapMove(a->m, d->input[in_mocap_pos], d->input[in_mocap_rot], size, pos, quat);
  in->mocap_pos = pos;
  in->mocap_quat = quat;
}

static bool step_forward(const StepCheck *a, const double *theta, double *x, const pbInput *input, double *sensordata) {
  pbStatus status;
  do {
    status = pbStep_Forward(a->m, theta, x, input, a->scratch, sensordata);
  } while (pbScratch_Grow(a->scratch, &status));
  return status == pb_ok;
}

static void copy_field(const StepCheck *a, const char *name, size_t n, double *out) {
  const double *data = pbRollout_ObservedField(a->scratch, name);
  if (data) memcpy(out, data, n * sizeof *data);
}

static void copy_positions(const StepCheck *a, int side) {
  copy_field(a, "xpos", 3 * (size_t)a->r->nbody, a->s->xpos[side]);
  copy_field(a, "site_xpos", 3 * (size_t)a->r->nsite, a->s->site[side]);
}

// The program at a distance along the direction: side 0, 1 behind and before, 2 in the middle. False: it fails there.
static bool evaluate(const StepCheck *a, const StepVectors *d, double size, bool theta, int side, uint64_t *branch) {
  pbRollout *r = a->r;
  pbStepCheck *s = a->s;
  double *x = s->after[side];
  const pbObservationBar *o = a->observed;
  PB_ASSERT(side >= 0 && side < 3);
  s->evaluations++;

  // Each input moves from what acts at this step.
  const double *given[] = {a->input.ctrl, a->input.qfrc, a->input.xfrc, a->input.command};
  for (int i = 0; i <= in_command; i++) given[i] = displaced(given[i], d->input[i], size, s->width[i], s->moved.input[i]);
  pbInput in = {.ctrl = given[in_ctrl],
                .qfrc = given[in_qfrc],
                .xfrc = given[in_xfrc],
                .command = given[in_command],
                .mocap_pos = a->input.mocap_pos,
                .mocap_quat = a->input.mocap_quat,
                .mocap_vel = displaced(a->input.mocap_vel, d->input[in_mocap_vel], size, s->width[in_mocap_vel],
                                       s->moved.input[in_mocap_vel])};
  const double *parameters = theta ? displaced(r->theta, d->theta, size, r->ntheta, s->moved.theta) : r->theta;
  displace_poses(a, d, size, parameters, &in);

  // The time of state k is that of the start and k time steps.
  memcpy(x, a->record, (size_t)r->nx * sizeof(double));
  if (size != 0) pbState_Move(a->m, x, d->x, size);
  if (theta && d->theta) x[state_layout(a->m).time] += a->k * size * d->theta[a->m->timestep - a->m->theta0];

  // Positions at the state itself: where the step's last evaluation is at another one, of an evaluation before it.
  bool positions = o && (o->xpos || o->site_xpos);
  bool early = positions && r->xpos_by_observing;
  if (early) {
    if (pbStep_Observe(a->m, parameters, x, &in, a->scratch, NULL) != pb_ok) return false;
    copy_positions(a, side);
  }

  // Deformables are close to where the step that was recorded took them.
  if (a->m == r->model) pbScratch_GuessDeform(a->scratch, a->record);
  bool made = step_forward(a, parameters, x, &in, o && o->sensordata ? s->sensor[side] : NULL);
  pbScratch_GuessDeform(a->scratch, NULL);

  if (!made) return false;
  if (positions && !early) copy_positions(a, side);

  // Zero where features tie: no branch of its own.
  *branch = pbScratch_Branch(a->scratch);
  return true;
}

// <w, to - from>
static double across(const double *w, const double *from, const double *to, size_t n) {
  if (!w) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += w[i] * (to[i] - from[i]);
  return sum;
}

static double product_between(const StepCheck *a, int from, int to) {
  pbRollout *r = a->r;
  pbStepCheck *s = a->s;
  const pbObservationBar none = {0}, *o = a->observed ? a->observed : &none;

  // The difference of states is taken in the tangent space, as the costate is.
  pbState_Difference(a->m, s->after[from], s->after[to], s->apart);
  return dot(a->w_next, s->apart, (size_t)r->n) + across(o->sensordata, s->sensor[from], s->sensor[to], (size_t)r->ns) +
         across(o->xpos, s->xpos[from], s->xpos[to], 3 * (size_t)r->nbody) +
         across(o->site_xpos, s->site[from], s->site[to], 3 * (size_t)r->nsite);
}

// Rounding of a product between two states: a few units in the last place of every number that counts.
static double rounding(const StepCheck *a) {
  const pbRollout *r = a->r;
  const double *x = a->s->after[1];
  double state = 0, w = 0;

  // Positions may be large against their differences.
  for (int i = 0; i < r->nx; i++) state = fmax(state, fabs(x[i]));
  for (int i = 0; i < r->n; i++) w += fabs(a->w_next[i]);
  return 4 * DBL_EPSILON * w * fmax(1, state);
}

// Central quotients over shorter and shorter moves, until one agrees. What they say counts only where both sides of a move take
// the same branches; and against the gradient only where two of them agree with each other, and forward and backward quotients
// too.
Verdict pbStepCheck_Compare(const StepCheck *a, const StepVectors *d, bool theta, Quotient *q) {
  double size = 0, before = NAN, h = longest;
  PB_ASSERT(a->s->evaluations >= 0 && a->w_next);
  Verdict why = at_kink;  // until a move stays on one branch
  q->gradient = pbStepCheck_Reverse(a, d, theta, &size);
  if (!(size > 0)) return agrees;

  for (int i = 0; i < sizes; i++, h *= shorter) {
    uint64_t branch[2] = {0, 0};
    if (!evaluate(a, d, -h, theta, 0, branch) || !evaluate(a, d, h, theta, 1, branch + 1)) continue;
    if (branch[0] != branch[1]) continue;

    double noise = rounding(a) / h, allowed = size * h + noise;
    q->value = product_between(a, 0, 1) / (2 * h);
    double gap = fabs(q->value - q->gradient);
    q->error = gap / size;
    q->limit = allowed / size;
    if (gap <= allowed) return agrees;

    // A single quotient proves nothing: the one before must say the same, well above its noise.
    why = branch[0] ? in_noise : at_tie;
    double change = fabs(q->value - before);
    before = q->value;

    if (!(change < gap / 8) || !(noise < gap / 8)) continue;

    // Between the middle and both ends: a bend, or features that tie there (branch 0), is a kink.
    uint64_t middle;
    if (!evaluate(a, d, 0, theta, 2, &middle) || !middle) return at_tie;
    if (middle != branch[0]) return at_kink;

    double bend = fabs(product_between(a, 2, 1) - product_between(a, 0, 2)) / h;
    return bend < gap / 8 ? differs : at_kink;
  }

  return why;
}

// ---- coverage --------------------------------------------------------------------------------------------------------

double pbStepCheck_MovedShare(const StepCheck *a, const StepVectors *d) {
  const pbRollout *r = a->r;
  size_t all = (size_t)r->n, moved = pbRollout_CountMoved(d->x, (size_t)r->n);

  for (int i = 0; i < inputs; i++) {
    if (a->s->added.input[i]) all += a->s->width[i];
    moved += pbRollout_CountMoved(d->input[i], a->s->width[i]);
  }

  // Parameters that are wanted count whether they move or not.
  if (a->s->gradient->theta) all += pbRollout_WantedEntries(r);
  moved += pbRollout_CountMoved(d->theta, r->ntheta);

  return all > 0 ? (double)moved / (double)all : 0;
}
