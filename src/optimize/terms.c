// Terms of a loss on what is seen of a trajectory: value, pullback, push-forward, side by side.
#include <math.h>
#include <string.h>

#include <pullback/deform.h>

#include "base/context.h"
#include "optimize/task.h"
#include "model/model.h"

void pbTermSet_Begin(pbTermSet *set, pbContext *ctx, const pbModel *m, int steps) {
  *set = (pbTermSet){.ctx = ctx,
                     .model = m,
                     .steps = steps,
                     .nx = pbModel_StateSize(m),
                     .n = pbModel_TangentSize(m),
                     .nv = m->nv,
                     .na = m->na,
                     .nu = pb_controls(m),
                     .ns = m->nsensordata,
                     .nbody = m->nbody,
                     .nsite = m->nsite,
                     .np = 3 * pbModel_PointCount(m)};

  for (int i = 0; i < pbModel_StateFieldCount(m); i++) {
    pbStateField f = pbModel_StateFieldAt(m, i);
    if (strcmp(f.name, "qpos") == 0) set->qpos_at = f.offset;
    if (strcmp(f.name, "qvel") == 0) set->qvel_at = f.offset;
    if (strcmp(f.name, "act") == 0) set->act_at = f.offset;
    if (strcmp(f.name, "points") == 0) set->points_at = f.offset;
  }
}

void pbTermSet_Free(pbTermSet *set) {
  for (int i = 0; set->terms && i < set->count; i++) {
    pbTerm *t = &set->terms[i];
    pbContext_Free(set->ctx, t->name);
    pbContext_Free(set->ctx, t->parts);
    pbContext_Free(set->ctx, t->steps);
    pbContext_Free(set->ctx, t->target);
  }

  void *all[] = {
      set->terms, set->rows,  set->states,     set->sensordata, set->xpos,     set->site_xpos,  set->bar_q,
      set->bar_v, set->bar_a, set->bar_sensor, set->bar_xpos,   set->bar_site, set->bar_points, set->bar_point_velocity};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) pbContext_Free(set->ctx, all[i]);
  *set = (pbTermSet){0};
}

static pbStatus room(const pbTermSet *set, bool wanted, int width, double **data) {
  if (!wanted) return pb_ok;
  *data = pbContext_AllocArray(set->ctx, (size_t)set->row_count * (size_t)width + 1, sizeof(double));
  return *data ? pb_ok
               : pbContext_Fail(set->ctx, pb_no_memory, "no memory for what the loss looks at (%d states)", set->row_count);
}

static pbStatus collect_rows(pbTermSet *set) {
  char *mark = pbContext_Alloc(set->ctx, (size_t)set->steps + 1);
  if (!mark) return pbContext_Fail(set->ctx, pb_no_memory, "no memory for the loss");
  for (int i = 0; i < set->count; i++) {
    set->uses[set->terms[i].quantity] = true;
    for (int k = 0; k < set->terms[i].step_count; k++) mark[set->terms[i].steps[k]] = 1;
  }

  for (int k = 0; k <= set->steps; k++) set->row_count += mark[k];
  set->rows = pbContext_AllocArray(set->ctx, (size_t)set->row_count + 1, sizeof(int));
  for (int k = 0, at = 0; set->rows && k <= set->steps; k++)
    if (mark[k]) set->rows[at++] = k;
  pbContext_Free(set->ctx, mark);

  return set->rows ? pb_ok : pbContext_Fail(set->ctx, pb_no_memory, "no memory for the loss");
}

pbStatus pbTermSet_Finish(pbTermSet *set) {
  PB_TRY(collect_rows(set));
  const bool *u = set->uses;
  PB_TRY(room(set, u[pb_seenQpos] || u[pb_seenQvel] || u[pb_seenAct] || u[pb_seenPoints] || u[pb_seenPointVelocity], set->nx,
              &set->states));
  PB_TRY(room(set, u[pb_seenSensor], set->ns, &set->sensordata));
  PB_TRY(room(set, u[pb_seenBody], 3 * set->nbody, &set->xpos));
  PB_TRY(room(set, u[pb_seenSite], 3 * set->nsite, &set->site_xpos));
  PB_TRY(room(set, u[pb_seenQpos], set->nv, &set->bar_q));
  PB_TRY(room(set, u[pb_seenQvel], set->nv, &set->bar_v));
  PB_TRY(room(set, u[pb_seenAct], set->na, &set->bar_a));
  PB_TRY(room(set, u[pb_seenSensor], set->ns, &set->bar_sensor));
  PB_TRY(room(set, u[pb_seenBody], 3 * set->nbody, &set->bar_xpos));
  PB_TRY(room(set, u[pb_seenPoints], set->np, &set->bar_points));
  PB_TRY(room(set, u[pb_seenPointVelocity], set->np, &set->bar_point_velocity));

  return room(set, u[pb_seenSite], 3 * set->nsite, &set->bar_site);
}

pbRolloutOutput pbTermSet_Output(const pbTermSet *set) {
  return (pbRolloutOutput){.states = set->states,
                           .sensordata = set->sensordata,
                           .xpos = set->xpos,
                           .site_xpos = set->site_xpos,
                           .rows = set->rows,
                           .row_count = set->row_count};
}

pbRolloutBar pbTermSet_Bar(const pbTermSet *s) {
  int count = s->row_count;
  const int *rows = s->rows;

  return (pbRolloutBar){
      {s->bar_q, count, rows},    {s->bar_v, count, rows},    {s->bar_a, count, rows},      {s->bar_sensor, count, rows},
      {s->bar_xpos, count, rows}, {s->bar_site, count, rows}, {s->bar_points, count, rows}, {s->bar_point_velocity, count, rows}};
}

// ---- rotations ------------------------------------------------------------------------------------------------------
// w with q = t exp(w): the rotation from t to q, in the frame of t (and, along w, of q).
static void rotation_between(const double *t, const double *q, double *w) {
  double c = t[0] * q[0] + t[1] * q[1] + t[2] * q[2] + t[3] * q[3];
  double v[3] = {t[0] * q[1] - t[1] * q[0] - t[2] * q[3] + t[3] * q[2], t[0] * q[2] + t[1] * q[3] - t[2] * q[0] - t[3] * q[1],
                 t[0] * q[3] - t[1] * q[2] + t[2] * q[1] - t[3] * q[0]};
  double s = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]), sign = c < 0 ? -1 : 1;
  double f = sign * (s > 1e-300 ? 2 * atan2(s, fabs(c)) / s : 2);

  for (int i = 0; i < 3; i++) w[i] = f * v[i];
}

// dw for q moved by d in its own frame: dw = (1 + [w]/2 + k [w]^2) d, k = 1/a^2 - cot(a/2) / 2a, a = |w| (inverse right
// Jacobian of the exponential). Row `axis` of that matrix.
static void rotation_row(const double *w, int axis, double *row) {
  double aa = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], a = sqrt(aa);
  double k = a < 1e-3 ? 1.0 / 12 + aa / 720 : 1 / aa - 0.5 / (a * tan(0.5 * a));
  const double W[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};

  for (int j = 0; j < 3; j++) {
    double square = w[axis] * w[j] - (axis == j ? aa : 0);
    row[j] = (axis == j) + 0.5 * W[3 * axis + j] + k * square;
  }
}

// ---- one component --------------------------------------------------------------------------------------------------
typedef struct Place {  // where a term looks in one evaluation
  const pbTerm *term;
  int row, step;  // row in set->rows, number of the state
  const double *target;
} Place;

static const double *seen_row(const pbTermSet *s, const Place *p, const double *ctrl) {
  size_t row = (size_t)p->row;
  int last = s->steps > 0 ? s->steps - 1 : 0;
  switch (p->term->quantity) {
    case pb_seenQpos: return s->states + row * (size_t)s->nx + s->qpos_at;
    case pb_seenQvel: return s->states + row * (size_t)s->nx + s->qvel_at;
    case pb_seenAct: return s->states + row * (size_t)s->nx + s->act_at;
    case pb_seenSensor: return s->sensordata + row * (size_t)s->ns;
    case pb_seenBody: return s->xpos + row * 3 * (size_t)s->nbody;
    case pb_seenSite: return s->site_xpos + row * 3 * (size_t)s->nsite;
    case pb_seenPoints: return s->states + row * (size_t)s->nx + s->points_at;
    case pb_seenPointVelocity: return s->states + row * (size_t)s->nx + s->points_at + s->np;
    default: return ctrl ? ctrl + (size_t)(p->step < last ? p->step : last) * (size_t)s->nu : NULL;
  }
}

static double *bar_row(const pbTermSet *s, const Place *p, double *ctrl_bar) {
  size_t row = (size_t)p->row;
  int last = s->steps > 0 ? s->steps - 1 : 0;

  switch (p->term->quantity) {
    case pb_seenQpos: return s->bar_q + row * (size_t)s->nv;
    case pb_seenQvel: return s->bar_v + row * (size_t)s->nv;
    case pb_seenAct: return s->bar_a + row * (size_t)s->na;
    case pb_seenSensor: return s->bar_sensor + row * (size_t)s->ns;
    case pb_seenBody: return s->bar_xpos + row * 3 * (size_t)s->nbody;
    case pb_seenSite: return s->bar_site + row * 3 * (size_t)s->nsite;
    case pb_seenPoints: return s->bar_points + row * (size_t)s->np;
    case pb_seenPointVelocity: return s->bar_point_velocity + row * (size_t)s->np;
    default: return ctrl_bar ? ctrl_bar + (size_t)(p->step < last ? p->step : last) * (size_t)s->nu : NULL;
  }
}

static const double *tangent_row(const pbTermSet *s, const Place *p, const pbSeenTangent *t) {
  size_t row = (size_t)p->row;
  int last = s->steps > 0 ? s->steps - 1 : 0;
  switch (p->term->quantity) {
    case pb_seenQpos: return t->x + row * (size_t)s->n;
    case pb_seenQvel: return t->x + row * (size_t)s->n + s->nv;
    case pb_seenAct: return t->x + row * (size_t)s->n + 2 * s->nv;
    case pb_seenSensor: return t->sensordata + row * (size_t)s->ns;
    case pb_seenBody: return t->xpos + row * 3 * (size_t)s->nbody;
    case pb_seenSite: return t->site_xpos + row * 3 * (size_t)s->nsite;
    case pb_seenPoints: return t->x + row * (size_t)s->n + 2 * s->nv + s->na;
    case pb_seenPointVelocity: return t->x + row * (size_t)s->n + 2 * s->nv + s->na + s->np;
    default: return t->ctrl ? t->ctrl + (size_t)(p->step < last ? p->step : last) * (size_t)s->nu : NULL;
  }
}

static double deviation(const pbPart *part, const pbTerm *term, const double *seen, const double *target) {
  if (!seen) return -target[part->target];
  if (part->axis < 0) return seen[term->quantity == pb_seenQpos ? part->coord : part->index] - target[part->target];
  double w[3];
  rotation_between(target + part->target, seen + part->coord, w);

  return w[part->axis];
}

static void deviation_pull(const pbPart *part, const double *seen, const double *target, double bar, double *out) {
  if (!out || bar == 0) return;
  if (part->axis < 0) {
    out[part->index] += bar;
    return;
  }

  double w[3], row[3];
  rotation_between(target + part->target, seen + part->coord, w);
  rotation_row(w, part->axis, row);
  for (int j = 0; j < 3; j++) out[part->index - part->axis + j] += bar * row[j];
}

static double deviation_push(const pbPart *part, const double *seen, const double *target, const double *tangent) {
  if (!tangent) return 0;
  if (part->axis < 0) return tangent[part->index];
  double w[3], row[3];
  rotation_between(target + part->target, seen + part->coord, w);
  rotation_row(w, part->axis, row);
  const double *d = tangent + part->index - part->axis;

  return row[0] * d[0] + row[1] * d[1] + row[2] * d[2];
}

// The k-th state a term looks at. Steps and rows ascend, so the search starts where the last one ended.
static Place place(const pbTermSet *s, const pbTerm *t, int k, int row) {
  while (s->rows[row] < t->steps[k]) row++;
  return (Place){t, row, t->steps[k], t->target + (size_t)(t->target_rows > 1 ? k : 0) * (size_t)t->target_width};
}

// ---- value ----------------------------------------------------------------------------------------------------------
// Loss of one deviation, and its slope.
static double entry(const pbTerm *t, double d, double norm, double *slope) {
  switch (t->type) {
    case pb_termNorm: *slope = d / norm; return 0;  // the value is added once per state
    case pb_termHuber:
      *slope = fabs(d) <= t->delta ? 2 * d : 2 * copysign(t->delta, d);

      return fabs(d) <= t->delta ? d * d : t->delta * (2 * fabs(d) - t->delta);
    default: *slope = 2 * d; return d * d;
  }
}

static double term_at(const pbTermSet *s, pbTerm *t, const Place *p, const double *ctrl, bool pull, double *ctrl_bar) {
  const double *seen = seen_row(s, p, ctrl);
  double *bar = pull ? bar_row(s, p, ctrl_bar) : NULL, squares = 0, value = 0;

  for (int i = 0; i < t->part_count; i++) {
    double d = deviation(&t->parts[i], t, seen, p->target);
    squares += d * d;
  }

  double norm = sqrt(squares + t->epsilon * t->epsilon);
  t->deviation = squares <= t->deviation * t->deviation ? t->deviation : sqrt(squares);
  for (int i = 0; i < t->part_count; i++) {
    double slope;
    value += entry(t, deviation(&t->parts[i], t, seen, p->target), norm, &slope);
    if (pull) deviation_pull(&t->parts[i], seen, p->target, t->weight * slope, bar);
  }

  return t->weight * (t->type == pb_termNorm ? norm : value);
}

static void clear_bars(pbTermSet *s) {
  double *bars[] = {s->bar_q, s->bar_v, s->bar_a, s->bar_sensor, s->bar_xpos, s->bar_site, s->bar_points, s->bar_point_velocity};
  int widths[] = {s->nv, s->nv, s->na, s->ns, 3 * s->nbody, 3 * s->nsite, s->np, s->np};

  for (int i = 0; i < 8; i++)
    if (bars[i]) memset(bars[i], 0, (size_t)s->row_count * (size_t)widths[i] * sizeof(double));
}

double pbTermSet_Value(pbTermSet *s, const double *ctrl, bool pull, double *ctrl_bar) {
  double sum = 0;
  if (pull) clear_bars(s);
  for (int i = 0; i < s->count; i++) {
    pbTerm *t = &s->terms[i];
    t->value = t->deviation = 0;
    Place p = {.row = 0};

    for (int k = 0; k < t->step_count; k++) {
      p = place(s, t, k, p.row);
      t->value += term_at(s, t, &p, ctrl, pull, ctrl_bar);
    }

    sum += t->value;
  }

  return sum;
}

// ---- residuals: sqrt(weight) times each deviation of squared terms --------------------------------------------------
size_t pbTermSet_Residuals(const pbTermSet *s) {
  size_t m = 0;
  for (int i = 0; i < s->count; i++) {
    if (s->terms[i].type != pb_termSquared || s->terms[i].weight < 0) return 0;
    m += (size_t)s->terms[i].part_count * (size_t)s->terms[i].step_count;
  }

  return m;
}

void pbTermSet_Write(const pbTermSet *s, const double *ctrl, double *r) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    Place p = {.row = 0};

    for (int k = 0; k < t->step_count; k++) {
      p = place(s, t, k, p.row);
      const double *seen = seen_row(s, &p, ctrl);
      for (int j = 0; j < t->part_count; j++) *r++ = sqrt(t->weight) * deviation(&t->parts[j], t, seen, p.target);
    }
  }
}

void pbTermSet_Push(const pbTermSet *s, const pbSeenTangent *tangent, double *J, size_t stride, size_t column) {
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    Place p = {.row = 0};

    for (int k = 0; k < t->step_count; k++) {
      p = place(s, t, k, p.row);
      const double *seen = seen_row(s, &p, NULL), *moved = tangent_row(s, &p, tangent);
      for (int j = 0; j < t->part_count; j++, J += stride)
        J[column] = sqrt(t->weight) * deviation_push(&t->parts[j], seen, p.target, moved);
    }
  }
}

void pbTermSet_PullResidual(pbTermSet *s, size_t which, double *ctrl_bar) {
  clear_bars(s);
  for (int i = 0; i < s->count; i++) {
    const pbTerm *t = &s->terms[i];
    size_t mine = (size_t)t->part_count * (size_t)t->step_count;

    if (which >= mine) {
      which -= mine;
      continue;
    }

    Place p = place(s, t, (int)(which / (size_t)t->part_count), 0);
    deviation_pull(&t->parts[which % (size_t)t->part_count], seen_row(s, &p, NULL), p.target, sqrt(t->weight),
                   bar_row(s, &p, ctrl_bar));

    return;
  }
}

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; a && b && i < n; i++) sum += a[i] * b[i];
  return sum;
}

double pbTermSet_Along(const pbTermSet *s, const pbSeenTangent *t, const double *ctrl_bar) {
  double sum = dot(ctrl_bar, t->ctrl, (size_t)s->steps * (size_t)s->nu);
  size_t nv = (size_t)s->nv;

  for (size_t k = 0; k < (size_t)s->row_count; k++) {
    const double *x = t->x ? t->x + k * (size_t)s->n : NULL;
    if (x && s->bar_q) sum += dot(s->bar_q + k * nv, x, nv);
    if (x && s->bar_v) sum += dot(s->bar_v + k * nv, x + nv, nv);
    if (x && s->bar_a) sum += dot(s->bar_a + k * (size_t)s->na, x + 2 * nv, (size_t)s->na);
    const double *points = x ? x + 2 * nv + (size_t)s->na : NULL;
    size_t np = (size_t)s->np;
    if (x && s->bar_points) sum += dot(s->bar_points + k * np, points, np);
    if (x && s->bar_point_velocity) sum += dot(s->bar_point_velocity + k * np, points + np, np);
  }

  size_t rows = (size_t)s->row_count;
  return sum + dot(s->bar_sensor, t->sensordata, rows * (size_t)s->ns) + dot(s->bar_xpos, t->xpos, rows * 3 * (size_t)s->nbody) +
         dot(s->bar_site, t->site_xpos, rows * 3 * (size_t)s->nsite);
}
