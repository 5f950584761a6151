// The check of a model's derivatives: stretches of its rollout, of which two functionals are pulled back, pushed forward and
// moved. Random cotangents of the states and of the sensors are kept apart, since errors of one may be larger than the other.
// Tests: tests/oracle/test_check.py, tests/unit/test_check.c.
#include <float.h>
#include <math.h>
#include <string.h>

#include "check/check.h"
#include "model/model.h"
#include "model/state_layout.h"

static size_t row_count(const pbCheck *d) { return (size_t)d->r->plan.steps + 1; }
static size_t width(const pbCheck *d, pbSeen seen) { return (size_t)(seen == in_states ? d->r->n : d->r->ns); }

// ---- where it is -----------------------------------------------------------------------------------------------------
static const double *row_at(const double *rows, int k, int row_width) {
  return rows ? rows + (size_t)k * (size_t)row_width : NULL;
}

// The inputs from row k on. Mocap bodies come from where the row before has them.
static pbRolloutInput input_from(const pbCheck *d, int k) {
  const pbRolloutInput *in = &d->input;
  const pbRollout *r = d->r;
  if (k == 0) return *in;

  return (pbRolloutInput){.ctrl = row_at(in->ctrl, k, r->nu),
                          .qfrc = row_at(in->qfrc, k, r->nv),
                          .xfrc = row_at(in->xfrc, k, 6 * r->nbody),
                          .command = row_at(in->command, k, r->ncommand),
                          .mocap_pos = row_at(in->mocap_pos, k, 3 * r->nmocap),
                          .mocap_quat = row_at(in->mocap_quat, k, 4 * r->nmocap),
                          .mocap_vel = row_at(in->mocap_vel, k, 6 * r->nmocap),
                          .mocap_pos_before = in->mocap_vel ? NULL : row_at(in->mocap_pos, k - 1, 3 * r->nmocap),
                          .mocap_quat_before = in->mocap_vel ? NULL : row_at(in->mocap_quat, k - 1, 4 * r->nmocap)};
}

static pbStatus forward(pbCheck *d) {
  pbRolloutInput input = input_from(d, d->from);
  return pbRollout_Forward(d->r, d->theta, d->x, &input,
                           &(pbRolloutOutput){.states = d->rows[in_states], .sensordata = d->r->ns ? d->rows[in_sensors] : NULL});
}

pbStatus pbCheck_Stretch(pbCheck *d, int from, int steps) {
  pbRollout *r = d->r;
  pbVectors *vectors[] = {&d->direction, &d->bar[in_states], &d->bar[in_sensors]};
  PB_TRY(pbRollout_Shorten(r, steps));
  d->from = r->told_from = from;
  r->told_steps = d->steps;
  d->has_rounding = d->tied = false;

  // as many rows of inputs as there are steps
  for (int i = 0; i < 3; i++) {
    pbVectors_Widths(r, vectors[i]->size);
    for (pbBy part = by_ctrl; part < by_theta; part++) vectors[i]->size[part] *= vectors[i]->of[part] ? (size_t)steps : 0;
  }

  // through the same rounding as every moved state
  pbVectors_Clear(&d->direction);
  memcpy(d->x, row_at(d->states, from, r->nx), (size_t)r->nx * sizeof(double));
  pbState_Move(r->model, d->x, d->direction.of[by_state], 0);
  return forward(d);
}

// ---- derivatives -----------------------------------------------------------------------------------------------------
static pbStatus pull(pbCheck *d, pbSeen seen, const pbVjpOptions *options) {
  const pbVectors *v = &d->bar[seen];
  pbCotangent w = {.data = d->w[seen], .count = (int)row_count(d)};
  pbRolloutBar bar = {0};
  if (seen == in_states) bar.x = w;
  else bar.sensordata = w;

  // the pullback adds to what is there
  pbVectors_Clear(v);
  pbRolloutGradient out = pbVectors_RolloutGradient(v);
  return pbRollout_Vjp(d->r, &bar, options, &out, &d->certificate);
}

// Which rows have a cotangent.
static void choose_rows(const pbCheck *d, pbRows rows, pbSeen seen, size_t *first, size_t *end) {
  size_t count = row_count(d);

  // states at the end or everywhere, sensors at the start, everywhere or nowhere
  *first = rows == pb_allRows || seen == in_sensors ? 0 : count - 1;
  *end = rows == pb_rowsOfStep && seen == in_sensors ? 1 : count;
  if (rows == pb_lastState && seen == in_sensors) *end = 0;
}

// Magnitude of the terms of a row, for the rounding of differences: positions and velocities, or sensors as they are weighed.
static double size_of_row(const pbCheck *d, pbSeen seen, size_t k) {
  const pbRollout *r = d->r;
  size_t ns = (size_t)r->ns, moving = (size_t)(r->model->nq + r->nv);
  if (seen == in_sensors) return pbProbe_Terms(d->w[seen] + k * ns, d->rows[seen] + k * ns, ns);

  const double *x = d->rows[seen] + k * (size_t)r->nx + state_layout(r->model).qpos;
  double size = 0;
  for (size_t i = 0; i < moving; i++) size += fabs(x[i]);
  return size;
}

static void draw_functional(pbCheck *d, pbRows rows, pbSeen seen) {
  size_t first, end, n = width(d, seen);
  size_t used = seen == in_states && rows != pb_rowsOfStep ? (size_t)pbCheck_MovingCount(d) : n;
  double *w = d->w[seen];
  choose_rows(d, rows, seen, &first, &end);

  memset(w, 0, row_count(d) * n * sizeof *w);
  for (size_t k = first; k < end; k++) {
    for (size_t i = 0; i < used; i++) w[k * n + i] = pbRng_Normal(&d->rng);
  }
  d->norm[seen] = pbProbe_Norm(w, row_count(d) * n);
  d->least[seen] = (rows == pb_rowsOfStep ? 1e-3 : 1e-4) * d->norm[seen];

  d->size[seen] = 0;
  for (size_t k = first; k < end; k++) d->size[seen] += size_of_row(d, seen, k);
}

pbStatus pbCheck_DrawFunctionals(pbCheck *d, pbRows rows, const pbVjpOptions *options) {
  for (pbSeen seen = 0; seen < seen_count; seen++) draw_functional(d, rows, seen);

  // the states last: their certificate stays
  if (d->norm[in_sensors] > 0) PB_TRY(pull(d, in_sensors, NULL));
  else pbVectors_Clear(&d->bar[in_sensors]);

  PB_TRY(pull(d, in_states, options));
  d->touching = d->certificate.most_contacts > 0;
  return pb_ok;
}

void pbCheck_DrawPart(pbCheck *d, pbBy part) {
  double *direction = d->direction.of[part];

  if (part == by_theta) {
    for (int i = 0; i < pbModel_ParamCount(d->r->model); i++)
      pbTheta_Draw(d->r->model, d->theta, i, pb_drawEach, &d->rng, direction);
    return;
  }

  size_t n = direction ? d->direction.size[part] : 0;
  for (size_t i = 0; i < n; i++) direction[i] = pbRng_Normal(&d->rng);
}

pbStatus pbCheck_Push(pbCheck *d, double ahead[seen_count]) {
  pbRolloutTangent out = {.x = d->tangent[in_states], .sensordata = d->r->ns ? d->tangent[in_sensors] : NULL};
  pbRolloutDirection direction = pbVectors_RolloutDirection(&d->direction);
  PB_TRY(pbRollout_Jvp(d->r, 1, &direction, &out));

  for (pbSeen seen = 0; seen < seen_count; seen++)
    ahead[seen] = pbProbe_Dot(d->w[seen], d->tangent[seen], row_count(d) * width(d, seen));
  return pb_ok;
}

double pbCheck_GradientAlong(const pbCheck *d, pbSeen seen, double *terms) {
  return pbVectors_Dot(&d->bar[seen], &d->direction, terms);
}

// ---- moves -----------------------------------------------------------------------------------------------------------
// Notes the first step that takes another branch than that of the rollout.
static void note_kink(pbCheck *d, int k, double e) {
  pbTrace t;
  pbStatus status = pbTrace_Of(d->r->model, d->scratch, &t);
  if (status != pb_ok) {
    pbCheck_NoteFailure(d, status);
    return;
  }

  d->looks = d->looks * 1099511628211u ^ t.looks;
  if (d->kink || k == d->r->plan.steps) return;

  // Where shapes share a center or an axis point, the normal of their contact is arbitrary: the smallest move makes it jump.
  const pbTrace *own = &d->traces[d->from + k];
  bool jumps = fabs(e) < 2e-6 && t.contacts == own->contacts && fabs(t.normals - own->normals) > 0.02;
  if (!jumps && pbTrace_Same(own, &t)) return;
  d->kink_step = d->from + k;
  d->kink = jumps ? "a contact whose normal jumps" : pbTrace_Kink(own, &t);
}

void pbCheck_Move(pbCheck *d, double e, bool traced, double value[seen_count]) {
  const pbRollout *r = d->r;
  pbMoved *m = &d->moved;
  pbSide *side = &m->side[1];
  size_t nx = (size_t)r->nx;
  double sum[seen_count] = {0};
  bool sensors = d->norm[in_sensors] > 0;
  value[in_states] = value[in_sensors] = NAN;
  d->kink = NULL;
  d->kink_step = -1;
  d->looks = 0;

  // from where the start of the stretch came from: a quaternion that is normalized twice has other bits
  pbMoved_Place(m, side, e, e != 0 ? row_at(d->states, d->from, r->nx) : d->x, d->theta, &d->direction);

  // the distance of this state from that of the rollout
  for (int k = 0; k <= r->plan.steps; k++) {
    if (pbCheck_Stops(d)) return;
    memcpy(d->moved_states + (size_t)k * nx, side->x, nx * sizeof(double));
    m->side[0].x = d->rows[in_states] + (size_t)k * nx;
    m->side[0].sensor = sensors ? d->rows[in_sensors] + (size_t)k * (size_t)r->ns : NULL;
    sum[in_states] += pbProbe_Dot(row_at(d->w[in_states], k, r->n), pbMoved_Apart(m), (size_t)r->n);
    if (k == r->plan.steps && !sensors) break;

    // the sensors at this state, and the next one
    const pbObservationBar seen = {.sensordata = sensors ? row_at(d->w[in_sensors], k, r->ns) : NULL};
    pbStatus status = pbMoved_StepAt(m, side, &d->direction, k, &seen);
    pbCheck_NoteFailure(d, status);
    if (status != pb_ok) return;
    sum[in_sensors] += pbMoved_Observed(m, &seen);
    if (traced) note_kink(d, k, e);
  }

  memcpy(value, sum, sizeof sum);
}

const char *pbCheck_FindKink(pbCheck *d) {
  static const double moves[] = {1e-6, -1e-6, 1e-4, -1e-4};
  double value[seen_count];

  for (int i = 0; i < 4; i++) {
    pbCheck_Move(d, moves[i], true, value);
    if (d->kink) return d->kink;
  }
  return NULL;
}

bool pbCheck_LooksDiffer(pbCheck *d) {
  double value[seen_count];
  pbCheck_Move(d, 1e-6, true, value);
  uint64_t right = d->looks;
  pbCheck_Move(d, -1e-6, true, value);
  return right != d->looks;
}

// ---- rounding --------------------------------------------------------------------------------------------------------
// Parameters off by some units in their last place. Of bodies that are small for where they are (a millimeter at a meter from the
// origin) that moves more than of others.
static void draw_near(pbCheck *d, const double *theta) {
  for (size_t i = 0; i < d->r->ntheta; i++) d->theta_near[i] = theta[i] * (1 + 8 * DBL_EPSILON * (pbRng_Uniform(&d->rng) - 0.5));
  d->theta = d->theta_near;
}

static void measure_rounding(pbCheck *d) {
  const double *theta = d->theta;
  double value[seen_count];
  d->has_rounding = true;
  d->rounding[in_states] = d->rounding[in_sensors] = 0;

  for (int i = 0; i < 3; i++) {
    draw_near(d, theta);
    pbCheck_Move(d, 0, false, value);
    d->theta = theta;

    // what changes by more than rounding can make of it jumps there
    for (int k = 0; k < seen_count; k++)
      if (fabs(value[k]) <= 1e-6 * d->size[k]) d->rounding[k] = fmax(d->rounding[k], fabs(value[k]));
  }
}

pbStatus pbCheck_IsRounding(pbCheck *d, pbSeen seen, double ahead, bool *rounding) {
  const double *theta = d->theta;
  double moved[seen_count], noise = 0, back = pbCheck_GradientAlong(d, seen, NULL);
  pbStatus status = pb_ok;

  for (int i = 0; i < 3 && status == pb_ok; i++) {
    draw_near(d, theta);
    status = forward(d);
    if (status == pb_ok) status = pbCheck_Push(d, moved);
    if (status == pb_ok) status = pull(d, seen, NULL);
    if (status == pb_ok) noise = fmax(noise, fabs(moved[seen] - ahead) + fabs(pbCheck_GradientAlong(d, seen, NULL) - back));
  }
  d->theta = theta;
  PB_TRY(status);
  *rounding = fabs(ahead - back) < 10 * noise;

  // the derivatives as they were
  PB_TRY(forward(d));
  PB_TRY(pbCheck_Push(d, moved));
  return pull(d, seen, NULL);
}

// ---- slopes ----------------------------------------------------------------------------------------------------------
static const double longest = 1e-4;

static void find_slopes(pbCheck *d, double e, pbSlope slope[seen_count]) {
  double change[3][seen_count];
  for (int i = 0; i < 3; i++) pbCheck_Move(d, ldexp(e, -i), false, change[i]);

  // rounding of the terms counts as much more as the move is short
  for (int k = 0; k < seen_count; k++) {
    const double own[3] = {change[0][k], change[1][k], change[2][k]};
    bool nothing = fabs(e) >= longest && own[0] == own[1] && own[1] == own[2];  // does not depend on what moves
    slope[k] = pbSlope_Of(own, e, nothing ? 0 : fmax(4e-15 * d->size[k], 4 * d->rounding[k]));
  }
}

void pbCheck_Measure(pbCheck *d, int side, bool strict, double limit, pbStanding found[seen_count]) {
  const double moves[] = {longest, 1e-6, 1e-8};
  pbSlope right[seen_count] = {{0}}, left[seen_count] = {{0}};
  int lengths = limit < 1e-5 ? 2 : 3;  // the shortest is lost in rounding
  bool settled = false;

  // once in a stretch, where nothing moves but theta in its last places
  if (!d->has_rounding) {
    pbVectors aside = d->direction;
    d->direction = (pbVectors){0};
    measure_rounding(d);
    d->direction = aside;
  }

  for (int i = 0; i < lengths && !settled; i++) {
    settled = true;
    if (side >= 0) find_slopes(d, moves[i], right);
    if (side <= 0) find_slopes(d, -moves[i], left);

    for (int k = 0; k < seen_count; k++) {
      double gradient = pbCheck_GradientAlong(d, k, NULL);
      pbStanding now = pbStanding_Of(gradient, &right[k], &left[k], side, strict, d->least[k], limit);
      now.known = now.known && !(d->dry && pbCheck_Drowns(d, moves[i]));

      // certain ones before doubtful ones, then the smaller error
      if (i == 0 || (now.known && (!found[k].known || now.error < found[k].error))) found[k] = now;
      settled = settled && found[k].known && found[k].error <= limit;
    }
  }
}
