// Checks of single steps on the way back, with the very numbers that the pullback has there: costates w' after the step and w before
// it, and what the step adds to the gradients of inputs and parameters. Along a direction d of the state, the inputs and theta,
//
//   <w', D f d> = <w, d> + <added, d>
//
// where D f d is a forward derivative (the complex program: another text than the adjoint), at the first kind of sampled step;
// or a quotient of differences of the program itself, at both kinds. What both derivatives get wrong alike only the quotient sees.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/joint.h"
#include "base/context.h"
#include <pullback/random.h>
#include "impact/impact.h"
#include "model/model.h"
#include "model/state_layout.h"
#include "rollout/rollout.h"
#include "step/scratch.h"

enum { per_sample = 400, few = 200 };  // one sample of each kind for so many steps; below so many all are cheap
// A quotient is taken over moves of this length, and where it does not agree over shorter ones: what lies within a move of a contact
// that begins, or of another kink, is no derivative.
static const double longest = 1e-7, shorter = 1. / 32;
enum { sizes = 4 };

// A direction, or cotangents, of one step. Parts that are not wanted are NULL.
typedef struct vectors {
  double *x, *ctrl, *qfrc, *xfrc, *theta;
} vectors;

struct pbSample {
  const pbRolloutGradient *gradient;
  pbRng rng;
  int *steps, *quotients;  // ascending; those at the end are the next
  int step_count, quotient_count;
  int event_seen;  // a step with events was sampled
  vectors way, added, moved;
  double *input_before;  // nu + nv + 6 nbody: inputs' gradients before the step
  double *next, *state[2], *after[3];
  double *sensor[3], *xpos[3], *site[3], *apart;
  double *memory;
};

// The step in hand.
typedef struct at {
  pbRollout *r;
  pbSample *s;
  const pbModel *m;
  pbScratch *scratch;
  const double *record;
  void *cached;
  const pbObservationBar *observed;  // NULL: nothing
  const double *w_next, *w;
  pbInput input;
  int k;
  bool events;
} at;

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; a && b && i < n; i++) sum += a[i] * b[i];
  return sum;
}
static double dot_sizes(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; a && b && i < n; i++) sum += fabs(a[i] * b[i]);
  return sum;
}

// ---- memory, and which steps -----------------------------------------------------------------------------------------
static double *take(double **next, size_t n) {
  double *piece = *next;
  *next += n;
  return piece;
}

static vectors carve(const pbRollout *r, const pbRolloutGradient *g, double **next) {
  vectors v = {.x = take(next, (size_t)r->n)};
  if (g->ctrl) v.ctrl = take(next, (size_t)r->nu);
  if (g->qfrc) v.qfrc = take(next, (size_t)r->nv);
  if (g->xfrc) v.xfrc = take(next, 6 * (size_t)r->nbody);
  if (g->theta) v.theta = take(next, r->ntheta);

  return v;
}

// One step of each of `count` stretches of equal length, at random, and the one given (-1: none).
static int draw_steps(pbRng *rng, int steps, int count, int one, int *out) {
  int n = 0;
  for (int i = 0; i < count; i++) {
    int k = (int)((i + pbRng_Uniform(rng)) * steps / count);
    if (k >= steps) k = steps - 1;
    if (one >= 0 && one <= k) {
      if (one < k) out[n++] = one;
      one = -1;
    }

    if (n == 0 || out[n - 1] < k) out[n++] = k;
  }

  if (one >= 0) out[n++] = one;
  return n;
}

pbStatus pbSample_Begin(pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *g, pbSample **sample) {
  int steps = r->plan.steps, count = 1 + steps / per_sample, quotients = steps < few ? 2 : steps / per_sample;
  size_t n = (size_t)r->n, nx = (size_t)r->nx, ns = (size_t)r->ns, nb = 3 * (size_t)r->nbody, nsite = 3 * (size_t)r->nsite;
  size_t inputs = (size_t)r->nu + (size_t)r->nv + 2 * nb, one = n + inputs + (g->theta ? r->ntheta : 0);
  size_t total = 3 * one + inputs + 2 * n + 5 * nx + 3 * (ns + nb + nsite);
  size_t numbers = (size_t)(count + quotients + 4);
  pbSample *s = *sample = pbContext_Alloc(r->ctx, sizeof *s);

  if (s) s->memory = pbContext_AllocArray(r->ctx, total + numbers, sizeof(double));
  if (!s || !s->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");
  double *next = s->memory;
  s->gradient = g;
  s->way = carve(r, g, &next);
  s->added = carve(r, g, &next);
  s->moved = carve(r, g, &next);
  s->input_before = take(&next, inputs);
  s->next = take(&next, n);
  s->apart = take(&next, n);
  for (int i = 0; i < 2; i++) s->state[i] = take(&next, nx);

  for (int i = 0; i < 3; i++) {
    s->after[i] = take(&next, nx);
    s->sensor[i] = take(&next, ns);
    s->xpos[i] = take(&next, nb);
    s->site[i] = take(&next, nsite);
  }

  s->steps = (int *)take(&next, numbers);
  s->quotients = s->steps + count + 2;
  s->rng = pbRng_Seed(options->seed);
  if (steps == 0) return pb_ok;
  int crowded = r->seen.most_contacts_step;
  s->step_count = draw_steps(&s->rng, steps, count, steps < few || steps > 2 * per_sample ? crowded : -1, s->steps);
  s->quotient_count = draw_steps(&s->rng, steps, quotients, steps < few || steps > 2 * per_sample ? crowded : -1, s->quotients);

  return pb_ok;
}

void pbSample_End(const pbRollout *r, pbSample *s) {
  if (!s) return;
  pbContext_Free(r->ctx, s->memory);
  pbContext_Free(r->ctx, s);
}

// ---- directions ------------------------------------------------------------------------------------------------------
static void draw(pbRng *rng, double *way, size_t n) {
  for (size_t i = 0; way && i < n; i++) way[i] = pbRng_Normal(rng);
}

static double any(pbRng *rng) { return 2 * pbRng_Uniform(rng) - 1; }

// A direction in space moves on its sphere, whatever its components are.
static void turn(pbRng *rng, const double *value, double *way, int n) {
  double along = 0, size = dot(value, value, (size_t)n);
  memset(way, 0, (size_t)n * sizeof *way);
  if (!(size > 0)) return;

  for (int i = 0; i < n; i++) {
    way[i] = any(rng) * sqrt(size);
    along += value[i] * way[i];
  }

  for (int i = 0; i < n; i++) way[i] -= value[i] * along / size;
}

static bool ends_with(const char *text, const char *suffix) {
  size_t n = strlen(text), m = strlen(suffix);
  return n >= m && strcmp(text + n - m, suffix) == 0;
}

static void turn_joints(pbRng *rng, const pbModel *m, size_t from, const double *theta, double *way) {
  for (int j = 0; j < m->njnt; j++) {
    size_t q = from + (size_t)m->jnt_qposadr[j] + pbJoint_PlainCount(m->jnt_type[j]);
    if (pbJoint_HasRotation(m->jnt_type[j])) turn(rng, theta + q, way + q, 4);
  }
}

// A field of theta: its rows from `from` on. together: all of it by one factor.
typedef struct field {
  int number;
  const char *name;
  size_t from;
  int rows, cols;
} field;

// Directions in space turn; exponents with a kink at their defaults do not move.
static void restrict_field(pbRng *rng, const pbModel *m, const field *f, const double *theta, double *way) {
  bool quaternion = f->cols == 4 && ends_with(f->name, "quat"), axis = f->cols == 3 && strcmp(f->name, "jnt_axis") == 0;
  bool weld = f->cols == 12 && strcmp(f->name, "eq_data") == 0, impedance = f->cols == 5 && strstr(f->name, "solimp") != NULL;

  for (int row = 0; row < f->rows; row++) {
    size_t i = f->from + (size_t)row * (size_t)f->cols;
    if (quaternion) turn(rng, theta + i, way + i, 4);
    if (axis) turn(rng, theta + i, way + i, 3);
    if (weld && m->eq_type[row] == pb_eqWeld) turn(rng, theta + i + 6, way + i + 6, 4);
    if (impedance) way[i + 3] = way[i + 4] = 0;
  }

  if (strcmp(f->name, "qpos0") == 0 || strcmp(f->name, "qpos_spring") == 0) turn_joints(rng, m, f->from, theta, way);
}

static double largest(const double *x, size_t n) {
  double most = 0;
  for (size_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
  return most;
}

static void draw_field(const pbRollout *r, pbRng *rng, const field *f, bool together, double *way) {
  size_t n = (size_t)f->rows * (size_t)f->cols;
  double factor = any(rng), most = largest(r->theta + f->from, n), usual = most > 0 ? most : 1;
  bool unwanted = r->unwanted && r->unwanted[f->number];

  for (size_t i = f->from; i < f->from + n; i++) {
    double size = fabs(r->theta[i]), own = size > 0 ? size : usual;
    way[i] = unwanted ? 0 : together ? factor * size : any(rng) * own;
  }

  if (together && !unwanted) restrict_field(rng, r->model, f, r->theta, way);
}

void pbSample_DrawTheta(const pbRollout *r, pbRng *rng, bool together, double *way) {
  const pbModel *m = r->model;
  int number = 0;

  if (!way) return;
#define X(name, rows, cols, unit) \
  draw_field(r, rng, &(field){number++, #name, (size_t)(m->name - m->theta0), m->rows, cols}, together, way);
  PB_MODEL_PARAMS(X)
#undef X
  for (; number < pbModel_ParamCount(m); number++) {  // of deformables
    pbParam p = pbModel_ParamAt(m, number);
    draw_field(r, rng, &(field){number, p.name, p.offset, p.rows, p.cols}, together, way);
  }
}

// Parts of a direction that can be told apart by name: positions, velocities, activations, points; inputs; fields of theta.
enum { part_qpos, part_qvel, part_act, part_points, part_ctrl, part_qfrc, part_xfrc, part_theta, part_all = -1 };

static void keep_range(double *way, size_t n, size_t from, size_t to) {
  for (size_t i = 0; way && i < n; i++) {
    if (i < from || i >= to) way[i] = 0;
  }
}

static void keep_part(const pbRollout *r, const vectors *d, int part) {
  size_t nv = (size_t)r->nv, na = (size_t)r->na, n = (size_t)r->n;
  const size_t ends[] = {0, nv, 2 * nv, 2 * nv + na, n};

  if (part == part_all) return;
  bool state = part <= part_points;
  keep_range(d->x, n, state ? ends[part] : 0, state ? ends[part + 1] : 0);
  if (part != part_ctrl) keep_range(d->ctrl, (size_t)r->nu, 0, 0);
  if (part != part_qfrc) keep_range(d->qfrc, nv, 0, 0);
  if (part != part_xfrc) keep_range(d->xfrc, 6 * (size_t)r->nbody, 0, 0);
  pbParam p = part >= part_theta ? pbModel_ParamAt(r->model, part - part_theta) : (pbParam){0};
  keep_range(d->theta, r->ntheta, p.offset, p.offset + (size_t)p.rows * (size_t)p.cols);
}

static const char *part_name(const pbRollout *r, int part) {
  static const char *const names[] = {"qpos", "qvel", "act", "points", "control", "qfrc", "xfrc"};
  return part < 0 ? "" : part < part_theta ? names[part] : pbModel_ParamAt(r->model, part - part_theta).name;
}

// ---- both sides ------------------------------------------------------------------------------------------------------
// <w, d> + <added, d>, and the size of its terms.
static double reverse(const at *a, const vectors *d, bool theta, double *size) {
  const pbRollout *r = a->r;
  const vectors *g = &a->s->added;
  size_t nv = (size_t)r->nv, nu = (size_t)r->nu, nb = 6 * (size_t)r->nbody, nt = theta ? r->ntheta : 0;

  *size += dot_sizes(d->x, a->w, (size_t)r->n) + dot_sizes(d->ctrl, g->ctrl, nu) + dot_sizes(d->qfrc, g->qfrc, nv) +
           dot_sizes(d->xfrc, g->xfrc, nb) + dot_sizes(d->theta, g->theta, nt);
  return dot(d->x, a->w, (size_t)r->n) + dot(d->ctrl, g->ctrl, nu) + dot(d->qfrc, g->qfrc, nv) + dot(d->xfrc, g->xfrc, nb) +
         dot(d->theta, g->theta, nt);
}

static pbStatus failed(const at *a, pbStatus status) {
  return status == pb_ok ? status : pbRollout_StepFailed(a->r, status, a->k, pbScratch_Error(a->scratch));
}

// What the step adds to gradients of inputs and parameters, once more and by itself: sums over all steps would drown it.
static pbStatus pull_again(const at *a) {
  const pbRollout *r = a->r;
  vectors *g = &a->s->added;
  pbInputBar bar = {g->ctrl, g->qfrc, g->xfrc};
  pbEventCount count = {0};
  double *all[] = {g->x, g->ctrl, g->qfrc, g->xfrc, g->theta};
  const size_t n[] = {(size_t)r->n, (size_t)r->nu, (size_t)r->nv, 6 * (size_t)r->nbody, r->ntheta};

  for (int i = 0; i < 5; i++) {
    if (all[i]) memset(all[i], 0, n[i] * sizeof(double));
  }

  const pbStepRecord step = {a->m, r->theta, a->record, a->cached, &a->input};
  const pbStepBar out = {g->x, &bar, g->theta};
  pbStatus status;

  a->scratch->ticks = a->k;
  do {
    status = pbStep_VjpCached(&step, &(pbStepCotangent){.next = a->w_next, .observed = a->observed}, a->scratch, &out);
  } while (pbScratch_Grow(a->scratch, &status));
  a->scratch->ticks = 0;
  if (status == pb_ok) pbClock_Pull(r, a->observed ? a->observed->sensordata : NULL, a->record, a->k, g->theta);
  if (status == pb_ok && r->gradient == pb_gradientEvent)
    status = pbStep_EventsVjp(&step, a->w_next, a->k == 0, a->scratch, &out, &count);
  pbChoice_Clear(r, g->theta);

  return failed(a, status);
}

// <w', D f d> by the forward derivative, with what is seen at the state.
static pbStatus forward(const at *a, const vectors *d, double *value, double *size) {
  pbRollout *r = a->r;
  pbSample *s = a->s;
  const pbObservationBar none = {0}, *o = a->observed ? a->observed : &none;
  pbDirection direction = {.x = d->x, .ctrl = d->ctrl, .qfrc = d->qfrc, .xfrc = d->xfrc, .theta = d->theta};
  size_t n = (size_t)r->n, ns = (size_t)r->ns, nb = 3 * (size_t)r->nbody, nsite = 3 * (size_t)r->nsite;

  memset(s->next, 0, n * sizeof(double));
  pbStatus status;
  a->scratch->ticks = a->k;

  do {
    status = pbStep_Jvp(a->m, r->theta, a->record, &a->input, &direction, a->scratch, s->next,
                        o->sensordata ? s->sensor[0] : NULL, o->xpos ? s->xpos[0] : NULL, o->site_xpos ? s->site[0] : NULL);
  } while (pbScratch_Grow(a->scratch, &status));
  a->scratch->ticks = 0;
  if (status == pb_ok) pbClock_Push(r, d->theta, a->record, a->k, o->sensordata ? s->sensor[0] : NULL);

  if (status == pb_ok && r->gradient == pb_gradientEvent) {
    memcpy(s->after[2], a->record, (size_t)r->nx * sizeof(double));
    status = pbStep_Forward(a->m, r->theta, s->after[2], &a->input, a->scratch, NULL);
    const pbStepRecord step = {a->m, r->theta, a->record, NULL, &a->input};
    if (status == pb_ok) status = pbStep_EventsJvp(&step, s->after[2], &direction, a->k == 0, a->scratch, s->next);
  }

  *value = dot(a->w_next, s->next, n) + dot(o->sensordata, s->sensor[0], ns) + dot(o->xpos, s->xpos[0], nb) +
           dot(o->site_xpos, s->site[0], nsite);
  *size += dot_sizes(a->w_next, s->next, n) + dot_sizes(o->sensordata, s->sensor[0], ns) + dot_sizes(o->xpos, s->xpos[0], nb) +
           dot_sizes(o->site_xpos, s->site[0], nsite);

  return failed(a, status);
}

// ---- quotients -------------------------------------------------------------------------------------------------------
static const double *moved(const double *base, const double *way, double size, size_t n, double *out) {
  if (!way) return base;
  for (size_t i = 0; i < n; i++) out[i] = (base ? base[i] : 0) + size * way[i];
  return out;
}

static bool advance(const at *a, const double *theta, double *x, const pbInput *input, double *sensordata) {
  pbStatus status;
  do {
    status = pbStep_Forward(a->m, theta, x, input, a->scratch, sensordata);
  } while (pbScratch_Grow(a->scratch, &status));
  return status == pb_ok;
}

// The program at a distance along the direction: side 0, 1 behind and before, 2 in the middle. False: it fails there.
static bool evaluate(const at *a, const vectors *d, double size, bool theta, int side, uint64_t *branch) {
  pbRollout *r = a->r;
  pbSample *s = a->s;
  double *x = s->after[side];
  const pbObservationBar *o = a->observed;
  pbInput in = {moved(a->input.ctrl, d->ctrl, size, (size_t)r->nu, s->moved.ctrl),
                moved(a->input.qfrc, d->qfrc, size, (size_t)r->nv, s->moved.qfrc),
                moved(a->input.xfrc, d->xfrc, size, 6 * (size_t)r->nbody, s->moved.xfrc)};
  const double *parameters = theta ? moved(r->theta, d->theta, size, r->ntheta, s->moved.theta) : r->theta;
  bool places = o && (o->xpos || o->site_xpos), early = places && r->xpos_by_observing;

  memcpy(x, a->record, (size_t)r->nx * sizeof(double));
  if (size != 0) pbState_Move(a->m, x, d->x, size);
  if (theta && d->theta) x[state_layout(a->m).time] += a->k * size * d->theta[a->m->timestep - a->m->theta0];
  if (early && pbStep_Observe(a->m, parameters, x, &in, a->scratch, NULL) != pb_ok) return false;

  for (int pass = early ? 0 : 1; pass < 2; pass++) {
    if (pass == 1 && !advance(a, parameters, x, &in, o && o->sensordata ? s->sensor[side] : NULL)) return false;
    if (!places || (early && pass == 1)) continue;
    const double *xpos, *site;
    int rows, cols;
    if (pbScratch_Field(a->scratch, "xpos", &xpos, &rows, &cols))
      memcpy(s->xpos[side], xpos, 3 * (size_t)r->nbody * sizeof *xpos);
    if (pbScratch_Field(a->scratch, "site_xpos", &site, &rows, &cols))
      memcpy(s->site[side], site, 3 * (size_t)r->nsite * sizeof *site);
  }

  *branch = pbScratch_Branch(a->scratch);
  return true;
}

static double across(const double *w, const double *from, const double *to, size_t n) {
  double sum = 0;
  for (size_t i = 0; w && i < n; i++) sum += w[i] * (to[i] - from[i]);
  return sum;
}

static double product_between(const at *a, int from, int to) {
  pbRollout *r = a->r;
  pbSample *s = a->s;
  const pbObservationBar none = {0}, *o = a->observed ? a->observed : &none;

  pbState_Difference(a->m, s->after[from], s->after[to], s->apart);
  return dot(a->w_next, s->apart, (size_t)r->n) + across(o->sensordata, s->sensor[from], s->sensor[to], (size_t)r->ns) +
         across(o->xpos, s->xpos[from], s->xpos[to], 3 * (size_t)r->nbody) +
         across(o->site_xpos, s->site[from], s->site[to], 3 * (size_t)r->nsite);
}

// Rounding of a product between two states: a few units in the last place of every number that counts.
static double rounding(const at *a) {
  const pbRollout *r = a->r;
  const double *x = a->s->after[1];
  double state = 0, w = 0;

  for (int i = 0; i < r->nx; i++) state = fmax(state, fabs(x[i]));
  for (int i = 0; i < r->n; i++) w += fabs(a->w_next[i]);
  return 4 * DBL_EPSILON * w * fmax(1, state);
}

typedef enum verdict { agrees, differs, undecided } verdict;
typedef struct quotient {
  double value, gradient, error, limit;  // error and limit relative to the terms' size
} quotient;

// Central quotients over shorter and shorter moves, until one agrees. What they say counts only where both sides of a move take the
// same branches; and against the gradient only where two of them agree with each other, and forward and backward quotients too.
static verdict compare(const at *a, const vectors *d, bool theta, quotient *q) {
  double size = 0, before = NAN, h = longest;
  q->gradient = reverse(a, d, theta, &size);
  if (!(size > 0)) return agrees;

  for (int i = 0; i < sizes; i++, h *= shorter) {
    uint64_t branch[2] = {0, 0};
    if (!evaluate(a, d, -h, theta, 0, branch) || !evaluate(a, d, h, theta, 1, branch + 1) || branch[0] != branch[1]) continue;
    double noise = rounding(a) / h, allowed = size * h + noise;
    q->value = product_between(a, 0, 1) / (2 * h);
    q->error = fabs(q->value - q->gradient) / size;
    q->limit = allowed / size;
    if (fabs(q->value - q->gradient) <= allowed) return agrees;
    double gap = fabs(q->value - q->gradient), change = fabs(q->value - before);
    before = q->value;
    if (!(change < gap / 8) || !(noise < gap / 8)) continue;
    uint64_t middle;
    if (!evaluate(a, d, 0, theta, 2, &middle) || middle != branch[0] || !middle) return undecided;
    double bend = fabs(product_between(a, 2, 1) - product_between(a, 0, 2)) / h;

    return bend < gap / 8 ? differs : undecided;
  }

  return undecided;
}

// ---- findings --------------------------------------------------------------------------------------------------------
// Notes the worst so far, by how far it is beyond what is allowed. Whether this is it, and off.
static bool worst_is_off(const at *a, pbCertificate *c, double gradient, double other, double error, double limit) {
  bool off = !(error <= limit);
  if (c->spot_step >= 0 && (c->spot_off || !off) && !(error * c->spot_limit > c->spot_error * limit)) return false;
  c->spot_gradient = gradient;
  c->spot_difference = other;
  c->spot_error = error;
  c->spot_limit = limit;
  c->spot_step = a->k;
  c->spot_off = off;
  c->spot_where[0] = c->spot_row[0] = 0;

  return off;
}

// Which part of the direction is off most: each alone. by_quotient: against differences.
static void blame(const at *a, const vectors *d, bool by_quotient, pbCertificate *c) {
  pbRollout *r = a->r;
  int parts = part_theta + (d->theta ? pbModel_ParamCount(r->model) : 0), worst = part_all;
  double most = 0;
  size_t n = (size_t)(a->s->added.x - a->s->way.x);  // numbers of a direction
  double *whole = a->s->way.x, *copy = pbContext_AllocArray(r->ctx, n, sizeof *copy);

  if (!copy) return;
  memcpy(copy, whole, n * sizeof *copy);
  for (int part = 0; part < parts; part++) {
    double size = 0, value = 0, gap;
    quotient q = {0};

    memcpy(whole, copy, n * sizeof *copy);
    keep_part(r, d, part);
    double back = reverse(a, d, true, &size);

    if (by_quotient) {
      gap = compare(a, d, true, &q) == differs ? fabs(q.value - q.gradient) : 0;
    } else {
      if (forward(a, d, &value, &size) != pb_ok) break;
      gap = fabs(value - back);
    }

    if (gap > most) {
      most = gap;
      worst = part;
    }
  }

  memcpy(whole, copy, n * sizeof *copy);
  pbContext_Free(r->ctx, copy);
  snprintf(c->spot_where, sizeof c->spot_where, "%s", part_name(r, worst));
  double *x = a->s->after[2];  // the row that pushes most at this step
  memcpy(x, a->record, (size_t)r->nx * sizeof(double));
  if (pbStep_Forward(a->m, r->theta, x, &a->input, a->scratch, NULL) == pb_ok)
    pbScratch_StrongestRow(a->scratch, c->spot_row, sizeof c->spot_row);
}

// What rounding may do: a solve with a matrix of condition number k loses as many digits. Hard contact and deformables tell none:
// half of the digits.
static double allowed_by_rounding(const at *a) {
  const pbRollout *r = a->r;
  double half = sqrt(DBL_EPSILON), terms = 16 * (double)(r->n + r->nu + a->scratch->w.nrow);

  if (r->model->deform || pb_hard(a->m) || a->scratch->impacts) return half;
  return fmin(half, DBL_EPSILON * terms * pbScratch_Condition(a->scratch));
}

static pbStatus check_forward(const at *a, pbCertificate *c) {
  pbSample *s = a->s;
  double value, size = 0, limit = allowed_by_rounding(a), back, other = 0;

  draw(&s->rng, s->way.x, (size_t)a->r->n);
  draw(&s->rng, s->way.ctrl, (size_t)a->r->nu);
  draw(&s->rng, s->way.qfrc, (size_t)a->r->nv);
  draw(&s->rng, s->way.xfrc, 6 * (size_t)a->r->nbody);
  pbSample_DrawTheta(a->r, &s->rng, false, s->way.theta);
  PB_TRY(forward(a, &s->way, &value, &size));
  back = reverse(a, &s->way, true, &other);
  double error = size + other > 0 ? fabs(value - back) / (size + other) : 0;
  c->spot_steps++;
  if (worst_is_off(a, c, back, value, error, limit)) blame(a, &s->way, false, c);

  return pb_ok;
}

static void unit(const pbRollout *r, const vectors *d) {
  const double *v[] = {d->x, d->ctrl, d->qfrc, d->xfrc};
  double *all[] = {d->x, d->ctrl, d->qfrc, d->xfrc};
  const size_t n[] = {(size_t)r->n, (size_t)r->nu, (size_t)r->nv, 6 * (size_t)r->nbody};
  double sum = 0;

  for (int i = 0; i < 4; i++) sum += v[i] ? dot(v[i], v[i], n[i]) : 0;
  for (int i = 0; i < 4; i++) {
    for (size_t k = 0; all[i] && sum > 0 && k < n[i]; k++) all[i][k] /= sqrt(sum);
  }
}

// theta too where it is there and stays on its branch.
static void check_quotient(const at *a, bool theta, pbCertificate *c) {
  pbSample *s = a->s;
  quotient q = {0};

  draw(&s->rng, s->way.x, (size_t)a->r->n);
  draw(&s->rng, s->way.ctrl, (size_t)a->r->nu);
  draw(&s->rng, s->way.qfrc, (size_t)a->r->nv);
  draw(&s->rng, s->way.xfrc, 6 * (size_t)a->r->nbody);
  unit(a->r, &s->way);
  vectors way = s->way;
  if (theta) pbSample_DrawTheta(a->r, &s->rng, true, s->way.theta);
  else way.theta = NULL;
  verdict v = compare(a, &way, theta, &q);

  if (v == undecided && theta) {
    way.theta = NULL;
    v = compare(a, &way, false, &q);
  }

  if (v == undecided) {
    c->spot_left_out++;
    return;
  }

  c->spot_quotients++;
  if (worst_is_off(a, c, q.gradient, q.value, q.error, q.limit)) blame(a, &way, true, c);
}

// ---- on the way back -------------------------------------------------------------------------------------------------
static bool next_is(const int *steps, int count, int k) { return count > 0 && steps[count - 1] == k; }

static size_t input_row(const pbRollout *r, const pbRolloutGradient *g, int k, const double *rows[3], size_t width[3]) {
  size_t row = r->input.constant || k == 0 ? 0 : (size_t)k;
  width[0] = g->ctrl ? (size_t)r->nu : 0;
  width[1] = g->qfrc ? (size_t)r->nv : 0;
  width[2] = g->xfrc ? 6 * (size_t)r->nbody : 0;
  const double *all[] = {g->ctrl, g->qfrc, g->xfrc};
  for (int i = 0; i < 3; i++) rows[i] = all[i] ? all[i] + row * width[i] : NULL;

  return width[0] + width[1] + width[2];
}

void pbSample_Before(pbRollout *r, pbSample *s, int k) {
  const double *rows[3];
  size_t width[3], from = 0;

  if (!next_is(s->steps, s->step_count, k) && !next_is(s->quotients, s->quotient_count, k)) return;
  input_row(r, s->gradient, k, rows, width);
  for (int i = 0; i < 3; from += width[i], i++) {
    if (width[i]) memcpy(s->input_before + from, rows[i], width[i] * sizeof(double));
  }
}

// What the step added to the rows of its inputs, by difference.
static void added_inputs(const at *a) {
  const double *rows[3];
  size_t width[3], from = 0;
  double *out[] = {a->s->added.ctrl, a->s->added.qfrc, a->s->added.xfrc};

  input_row(a->r, a->s->gradient, a->k, rows, width);
  for (int i = 0; i < 3; from += width[i], i++) {
    for (size_t j = 0; j < width[i]; j++) out[i][j] = rows[i][j] - a->s->input_before[from + j];
  }
}

pbStatus pbSample_Step(pbRollout *r, pbSample *s, int k, const double *record, void *cached, const pbObservationBar *observed,
                       bool events, pbCertificate *c) {
  bool smooth = r->gradient == pb_gradientSmooth;
  bool both = next_is(s->steps, s->step_count, k) || (events && !s->event_seen);
  bool differences = next_is(s->quotients, s->quotient_count, k);

  if (next_is(s->steps, s->step_count, k)) s->step_count--;
  if (differences) s->quotient_count--;
  if (!both && !differences) return pb_ok;
  at a = {.r = r,
          .s = s,
          .m = smooth ? r->smooth : r->model,
          .scratch = smooth ? r->smooth_scratch : r->scratch,
          .record = smooth ? r->smooth_record : record,
          .cached = smooth ? NULL : cached,
          .observed = observed,
          .w_next = r->costate,
          .w = r->costate_before,
          .input = pbRollout_InputAt(r, k),
          .k = k,
          .events = events};
  if (both) PB_TRY(pull_again(&a));
  else added_inputs(&a);
  if (both) PB_TRY(check_forward(&a, c));
  if (!events) check_quotient(&a, both && s->added.theta, c);  // of a corrected step a quotient of one step is no truth
  s->event_seen |= events;
  bool impact = events || pbImpacts_Recorded(r->scratch, record);
  c->spot_checked = true;
  c->spot_part |= impact ? pb_partImpacts : pb_partSteps;

  return pb_ok;
}
