// What a term reads at a time of its own: between two states the straight line, of rotations that in the tangent space, so
// that the simulation is compared where the recording is, and no recording is changed; late by a delay, with a gain and a bias.
// Tests: tests/unit/test_readings.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "elementary/elementary.h"
#include "optimize/rotation.h"
#include "optimize/terms.h"

// ---- rotations ------------------------------------------------------------------------------------------------------
// w with q = from exp(w): the rotation from one orientation to another, in the frame of the first (and, along w, of the second).
static void rotation_between(const double *from, const double *q, double *w) {
  // conj(from) q = (cosine, sine axis) of half the angle.
  double cosine = from[0] * q[0] + from[1] * q[1] + from[2] * q[2] + from[3] * q[3];
  double axis[3] = {from[0] * q[1] - from[1] * q[0] - from[2] * q[3] + from[3] * q[2],
                    from[0] * q[2] + from[1] * q[3] - from[2] * q[0] - from[3] * q[1],
                    from[0] * q[3] - from[1] * q[2] + from[2] * q[1] - from[3] * q[0]};
  double sine = sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2]);

  // Near zero angle / sine is 2. q and -q are the same rotation, of which the shorter way is taken.
  double sign = cosine < 0 ? -1 : 1, scale = sign * (sine > 1e-300 ? 2 * pbAtan2(sine, fabs(cosine)) / sine : 2);
  for (int i = 0; i < 3; i++) w[i] = scale * axis[i];
}

// dw for q moved by d in its own frame: dw = (1 + [w]/2 + k [w]^2) d, k = 1/a^2 - cot(a/2) / 2a, a = |w| (inverse right
// Jacobian of the exponential). Row `axis` of that matrix.
static void rotation_row(const double *w, int axis, double *row) {
  double aa = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], a = sqrt(aa);
  // Near zero by the series of k, whose closed form cancels.
  double k = a < 1e-3 ? 1.0 / 12 + aa / 720 : 1 / aa - 0.5 * pbCos(0.5 * a) / (a * pbSin(0.5 * a));

  // [w] as a matrix.
  const double W[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};

  for (int j = 0; j < 3; j++) {
    double square = w[axis] * w[j] - (axis == j ? aa : 0);
    row[j] = (axis == j) + 0.5 * W[3 * axis + j] + k * square;
  }
}

// ---- rotations between two states: q = q0 exp(f v), v the rotation from q0 to q1 ------------------------------------
typedef struct Arc {
  double v[3], q[4];
} Arc;

static Arc arc_at(const double *from, const double *to, double fraction) {
  Arc arc;
  rotation_between(from, to, arc.v);

  const double part[3] = {fraction * arc.v[0], fraction * arc.v[1], fraction * arc.v[2]};
  memcpy(arc.q, from, sizeof arc.q);
  pbRotation_Apply(arc.q, part);

  return arc;
}

// Motion of q, in its own frame, where q1 moves by e_axis: f Jr(f v) Jr(v)^-1, by columns of Jr and rows of its inverse.
static void arc_by_end(const Arc *arc, double fraction, double M[9]) {
  const double part[3] = {fraction * arc->v[0], fraction * arc->v[1], fraction * arc->v[2]};
  double J[9], column[3], row[3];
  for (int i = 0; i < 3; i++) {
    pbRotation_Column(part, i, column);
    for (int j = 0; j < 3; j++) J[3 * j + i] = fraction * column[j];
  }

  memset(M, 0, 9 * sizeof *M);
  for (int k = 0; k < 3; k++) {
    rotation_row(arc->v, k, row);
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < 3; j++) M[3 * i + j] += J[3 * i + k] * row[j];
    }
  }
}

// The same where q0 moves: it is the end of the arc run backwards, q = q1 exp((1 - f) (-v)).
static void arc_by_start(const Arc *arc, double fraction, double M[9]) {
  Arc back = {.v = {-arc->v[0], -arc->v[1], -arc->v[2]}};
  arc_by_end(&back, 1 - fraction, M);
}

// Row of the deviation w from the target to q by motions of q in its own frame.
static void deviation_row(const double *target, const double *q, int axis, double *row) {
  double w[3];
  rotation_between(target, q, w);
  rotation_row(w, axis, row);
}

// ---- one part -------------------------------------------------------------------------------------------------------
static int place_of(const pbPart *part, const pbTerm *of) { return of->quantity == pb_observedQpos ? part->coord : part->index; }

double pbPart_Value(const pbPart *part, const pbMoment *m, const pbTerm *of, pbSeen seen, const double *target) {
  if (!seen.at) return 0;  // controls that are not given

  if (part->axis < 0) {
    double at = seen.at[place_of(part, of)];
    return seen.next ? at + m->fraction * (seen.next[place_of(part, of)] - at) : at;
  }

  // A rotation is compared by its rotation vector.
  double w[3];
  const double *q = seen.at + part->coord;
  Arc arc;
  if (seen.next) {
    arc = arc_at(q, seen.next + part->coord, m->fraction);
    q = arc.q;
  }
  rotation_between(target + part->target, q, w);

  return w[part->axis];
}

// Rows of a rotation's part by motions of the two states, each in its own frame, and by the fraction.
static double rotation_rows(const pbPart *part, const pbMoment *m, pbSeen seen, const double *target, double at[3],
                            double next[3]) {
  double row[3], M[9];
  if (!seen.next) {
    deviation_row(target + part->target, seen.at + part->coord, part->axis, at);
    return 0;
  }

  Arc arc = arc_at(seen.at + part->coord, seen.next + part->coord, m->fraction);
  deviation_row(target + part->target, arc.q, part->axis, row);
  arc_by_start(&arc, m->fraction, M);
  for (int j = 0; j < 3; j++) at[j] = row[0] * M[j] + row[1] * M[3 + j] + row[2] * M[6 + j];
  arc_by_end(&arc, m->fraction, M);
  for (int j = 0; j < 3; j++) next[j] = row[0] * M[j] + row[1] * M[3 + j] + row[2] * M[6 + j];

  return row[0] * arc.v[0] + row[1] * arc.v[1] + row[2] * arc.v[2];
}

double pbPart_Pull(const pbPart *part, const pbMoment *m, const pbTerm *of, pbSeen seen, const double *target, double bar,
                   pbSeenBar to) {
  if (bar == 0) return 0;

  if (part->axis < 0) {
    double f = seen.next ? m->fraction : 0;
    if (to.at) to.at[part->index] += (1 - f) * bar;
    if (to.at && seen.next) to.next[part->index] += f * bar;
    return seen.next ? bar * (seen.next[place_of(part, of)] - seen.at[place_of(part, of)]) : 0;
  }

  // The cotangents of rotations are in the body's frame, as the states' tangents are.
  double at[3], next[3];
  double rate = rotation_rows(part, m, seen, target, at, next);
  int first = part->index - part->axis;
  for (int j = 0; j < 3; j++) {
    to.at[first + j] += bar * at[j];
    if (seen.next) to.next[first + j] += bar * next[j];
  }

  return bar * rate;
}

double pbPart_Push(const pbPart *part, const pbMoment *m, const pbTerm *of, pbSeen seen, const double *target, pbSeen by,
                   double fraction) {
  if (part->axis < 0) {
    double f = seen.next ? m->fraction : 0, moved = 0;
    if (by.at) moved = (1 - f) * by.at[part->index];
    if (by.at && seen.next) moved += f * by.next[part->index];
    return seen.next ? moved + fraction * (seen.next[place_of(part, of)] - seen.at[place_of(part, of)]) : moved;
  }

  // As pbPart_Pull.
  double at[3], next[3], moved = 0;
  double rate = rotation_rows(part, m, seen, target, at, next);
  int first = part->index - part->axis;
  for (int j = 0; j < 3; j++) {
    if (by.at) moved += at[j] * by.at[first + j];
    if (by.at && seen.next) moved += next[j] * by.next[first + j];
  }

  return moved + fraction * rate;
}

// rotation_row where w moves by dw, k' = 1/360 + a^2 / 7560 + a^4 / 201600 + ... by w'dw.
static void rotation_row_tangent(const double *w, const double *dw, int axis, double *row) {
  double aa = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], a = sqrt(aa), along = w[0] * dw[0] + w[1] * dw[1] + w[2] * dw[2];
  double half = 0.5 * a, sine = pbSin(half), k = 1.0 / 12 + aa / 720 + aa * aa / 30240 + aa * aa * aa / 1209600;
  double dk = 1.0 / 360 + aa * (1.0 / 7560 + aa * (1.0 / 201600 + aa / 5987520));

  // the closed forms cancel near zero
  if (a > 0.1) {
    k = 1 / aa - 0.5 * pbCos(half) / (a * sine);
    dk = (-2 / (aa * a) + 0.5 * pbCos(half) / (aa * sine) + 0.25 / (a * sine * sine)) / a;
  }

  const double dW[9] = {0, -dw[2], dw[1], dw[2], 0, -dw[0], -dw[1], dw[0], 0};
  for (int j = 0; j < 3; j++) {
    double square = w[axis] * w[j] - (axis == j ? aa : 0);
    double moved = dw[axis] * w[j] + w[axis] * dw[j] - (axis == j ? 2 * along : 0);
    row[j] = 0.5 * dW[3 * axis + j] + dk * along * square + k * moved;
  }
}

void pbPart_PullTangent(const pbPart *part, const pbMoment *m, pbSeen seen, const double *target, double bar, pbSeen by,
                        pbSeenBar to) {
  PB_ASSERT(part->axis >= 0 && !m->between);
  double w[3], dw[3] = {0}, row[3];
  int first = part->index - part->axis;
  rotation_between(target + part->target, seen.at + part->coord, w);

  // how the rotation vector moves with the body, and with it its row
  for (int i = 0; i < 3; i++) {
    rotation_row(w, i, row);
    for (int j = 0; j < 3; j++) dw[i] += row[j] * by.at[first + j];
  }

  rotation_row_tangent(w, dw, part->axis, row);
  for (int j = 0; j < 3; j++) to.at[first + j] += bar * row[j];
}

double pbTerm_Time(const pbTerm *t, int k, double timestep) {
  PB_ASSERT(k >= 0 && k < t->step_count);
  return t->reading && t->reading->time ? t->reading->time[k] : t->steps[k] * timestep;
}

// ---- where the times lie --------------------------------------------------------------------------------------------
// Times are those of states up to the rounding of numbers written in decimals. A delay that is found moves them: then up to the
// rounding of this quotient, which would else decide on which side of a state its derivative is taken.
static double place(const pbTermSet *s, const pbReading *r, double time, double delay) {
  double at = (time - delay) / s->timestep, near = floor(at + 0.5);
  double within = r->varied ? 1e-14 * (1 + fabs(time / s->timestep)) : 1e-5 * (1 + fabs(near) * 1e-6);
  return fabs(at - near) <= within ? near : at;
}

// The state at or before a place; what lies beyond the trajectory is seen at its ends. A delay that is found needs the next state
// as well.
static int state_before(const pbTermSet *s, const pbReading *r, double at) {
  double last = s->steps - (r->varied && s->steps > 0 ? 1 : 0);
  return (int)fmin(fmax(floor(at), 0), last);
}

void pbTermSet_Read(pbTermSet *s) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    if (t->reading) memcpy(t->reading->now, t->reading->values, (1 + 2 * (size_t)t->part_count) * sizeof(double));
  }
  pbTermSet_Place(s);
}

void pbTermSet_Place(pbTermSet *s) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    const pbReading *r = t->reading;
    if (!r || !r->time) continue;

    for (int k = 0; k < t->step_count; k++) {
      double at = place(s, r, r->time[k], r->now[0]);
      t->steps[k] = state_before(s, r, at);
      r->fraction[k] = t->steps[k] < s->steps ? fmin(fmax(at - t->steps[k], 0), 1) : 0;
    }
  }
}

int pbTerm_OnStates(const pbTermSet *s, const pbTerm *t) {
  const pbReading *r = t->reading;
  int count = 0, looks = r && r->varied && t->quantity != pb_observedControl ? t->step_count : 0;
  for (int k = 0; k < looks; k++) {
    double at = place(s, r, r->time[k], r->now[0]), off = fabs(at - floor(at + 0.5));
    count += at >= 0 && at <= s->steps && off <= 1e-6;
  }

  return count;
}

void pbReading_Mark(const pbTermSet *s, const pbTerm *t, char *mark) {
  const pbReading *r = t->reading;

  // Wherever a delay within its bounds may put them.
  if (r && r->varied) {
    int first = state_before(s, r, place(s, r, r->time[0], r->most));
    int last = state_before(s, r, place(s, r, r->time[t->step_count - 1], r->least));
    memset(mark + first, 1, (size_t)(last - first) + (s->steps > 0 ? 2 : 1));
    return;
  }

  for (int k = 0; k < t->step_count; k++) {
    mark[t->steps[k]] = 1;
    if (r && r->time && r->fraction[k] > 0) mark[t->steps[k] + 1] = 1;
  }
}

int pbTermSet_Row(const pbTermSet *s, int row, int step) {
  while (s->rows[row] < step) row++;
  PB_ASSERT(row < s->row_count && s->rows[row] == step);
  return row;
}

pbMoment pbTerm_Moment(const pbTermSet *s, const pbTerm *t, int k, int row) {
  PB_ASSERT(k >= 0 && k < t->step_count);
  const pbReading *r = t->reading;
  pbMoment m = {.term = t,
                .k = k,
                .row = pbTermSet_Row(s, row, t->steps[k]),
                .step = t->steps[k],
                .weight = t->factor ? t->weight * t->factor[k] : t->weight,
                .target = t->target + (size_t)(t->target_rows > 1 ? k : 0) * (size_t)t->target_width};
  if (t->constraint) m.weight *= t->constraint->stiffness;
  if (!r || !r->time) return m;

  m.fraction = r->fraction[k];
  m.between = m.fraction > 0 || (r->varied && s->steps > 0);
  if (!r->varied) return m;

  // What is late by more than the trajectory is old shows its start, whatever the delay.
  double at = place(s, r, r->time[k], r->now[0]);
  m.rate = at < 0 || at > s->steps ? 0 : -1 / s->timestep;

  return m;
}

// ---- memory ---------------------------------------------------------------------------------------------------------
pbStatus pbReading_Create(pbContext *ctx, const pbTerm *t, pbReading **reading) {
  size_t count = 1 + 2 * (size_t)t->part_count;
  pbReading *r = *reading = pbContext_Alloc(ctx, sizeof *r);
  if (r) r->values = pbContext_AllocArray(ctx, 3 * count, sizeof *r->values);
  if (!r || !r->values) return pbContext_Fail(ctx, pb_no_memory, "no memory for a term");

  r->now = r->values + count;
  r->bar = r->now + count;
  for (int i = 0; i < t->part_count; i++) r->values[1 + i] = 1;

  return pb_ok;
}

pbStatus pbReading_AtTimes(pbContext *ctx, const pbTerm *t, double timestep) {
  pbReading *r = t->reading;
  size_t count = (size_t)t->step_count;
  if (r->time) return pb_ok;

  r->time = pbContext_AllocArray(ctx, 2 * count + 1, sizeof *r->time);
  if (!r->time) return pbContext_Fail(ctx, pb_no_memory, "no memory for a term");
  r->fraction = r->time + count;
  for (int k = 0; k < t->step_count; k++) r->time[k] = t->steps[k] * timestep;

  return pb_ok;
}

void pbReading_Free(pbContext *ctx, pbReading *r) {
  if (!r) return;
  pbContext_Free(ctx, r->values);
  pbContext_Free(ctx, r->time);
  pbContext_Free(ctx, r);
}
