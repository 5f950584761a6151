// Gradient diagnostics: what a certificate gathers from the steps, growth of the costate, and the spot check of a whole rollout
// against a difference quotient. Single steps are checked by sample.c.
// Tests: tests/unit/test_rollout.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "model/mocap.h"
#include <pullback/random.h>
#include "rollout/rollout.h"
#include "step/scratch.h"

void pbCertificate_Step(pbCertificate *c, const pbReport *report, const char *worst_row, int step) {
  PB_ASSERT(step >= 0 && report->contacts >= 0 && report->rows >= 0);
  if (report->contacts > c->most_contacts) {
    c->most_contacts = report->contacts;
    c->most_contacts_step = step;
  }

  if (report->rows > c->most_rows) c->most_rows = report->rows;

  // Without rows and deformables nothing was solved: there is no residual.
  if ((report->rows > 0 || report->deforms) && (c->worst_residual_step < 0 || report->residual > c->worst_residual)) {
    c->worst_residual = report->residual;
    c->worst_residual_step = step;
    c->worst_condition = report->condition;
    snprintf(c->worst_row, sizeof c->worst_row, "%s", worst_row);
  }

  // Counts and extremes over all steps; of an extreme the step that it was met at.
  c->unconverged += !report->converged;
  if (report->simultaneous > 0 && c->simultaneous == 0) c->simultaneous_step = step;
  c->simultaneous += report->simultaneous;
  c->approach = fmin(c->approach, report->approach);

  if (report->penetration > c->penetration) {
    c->penetration = report->penetration;
    memcpy(c->penetrating, report->penetrating, sizeof c->penetrating);
    c->penetration_step = step;
  }

  c->gains += report->gains;
  if (report->gain > c->gain) {
    c->gain = report->gain;
    c->gain_step = step;
    memcpy(c->gaining, report->gaining, sizeof c->gaining);
  }

  // What the scratch did before step 0 is another rollout, so contacts cannot have come and gone; impacts are of the step itself.
  if (step == 0 && !isfinite(report->approach)) return;
  c->onsets += report->onsets;
  c->releases += report->releases;
}

void pbGrowth_Add(pbGrowth *g, pbCertificate *c, double t, double norm, int step) {
  PB_ASSERT(norm >= 0 && isfinite(norm));

  // Costates come from the last step to the first.
  if (norm > c->costate_worst) {
    c->costate_worst = norm;
    c->costate_worst_step = step;
  }

  if (t == 0) c->costate_final = norm;
  c->costate_initial = norm;  // the last one told is step 0
  if (!(norm > 0)) return;

  // Sums for the line through (t, ln norm).
  double y = log(norm);
  if (isnan(g->first)) g->first = y;
  g->now = y;
  g->count++;
  g->t += t;
  g->tt += t * t;
  g->y += y;
  g->ty += t * y;
}

// Slope by least squares: (n sum ty - sum t sum y) / (n sum tt - (sum t)^2).
void pbGrowth_Finish(const pbGrowth *g, pbCertificate *c) {
  double spread = g->count * g->tt - g->t * g->t;
  c->growth = g->count > 0 ? g->now - g->first : 0;
  c->growth_rate = g->count > 1 && spread > 0 ? (g->count * g->ty - g->t * g->y) / spread : 0;
}

// ---- spot check -----------------------------------------------------------------------------------------------------
// With z(s) all that is observed of the rollout from x0 (+) s d, u + s d_u, theta + s d_theta, and w the cotangents:
// <w, z(+s) - z(-s)> / 2s against <gradient, d>. Both rollouts go side by side, so no trajectory is kept. Where they disagree,
// shorter moves, one-sided quotients and the branches that the rollouts take tell whether it is the quotient that is off:
// something begins or ends within the move.
static size_t input_rows(const pbRollout *r) { return r->input.constant ? 1 : (size_t)r->plan.steps; }

static double dot(const double *a, const double *b, size_t n) {
  if (!a || !b) return 0;

  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// <gradient, d>, but for the initial state.
static double products(const pbSpot *s, const pbRolloutGradient *g) {
  return dot(s->ctrl, g->ctrl, s->nctrl) + dot(s->qfrc, g->qfrc, s->nqfrc) + dot(s->xfrc, g->xfrc, s->nxfrc) +
         dot(s->command, g->command, s->ncommand) + dot(s->mocap_pos, g->mocap_pos, s->nmocap_pos) +
         dot(s->mocap_rot, g->mocap_rot, s->nmocap_rot) + dot(s->mocap_vel, g->mocap_vel, s->nmocap_vel) +
         dot(s->pos_before, g->mocap_pos_before, s->npos_before) + dot(s->rot_before, g->mocap_rot_before, s->nrot_before) +
         dot(s->theta, g->theta, s->ntheta);
}

static double *take(double **next, size_t n) {
  double *piece = *next;
  *next += n;
  return piece;
}

static double *take_some(double **next, size_t n) { return n ? take(next, n) : NULL; }

pbStatus pbSpot_Begin(const pbRollout *r, const pbVjpOptions *options, const pbRolloutGradient *g, pbSpot *s) {
  s->size = options->spot_size > 0 ? options->spot_size : 1e-6;
  s->nctrl = g->ctrl && r->input.ctrl ? input_rows(r) * (size_t)r->nu : 0;
  s->nqfrc = g->qfrc && r->input.qfrc ? input_rows(r) * (size_t)r->nv : 0;
  s->nxfrc = g->xfrc && r->input.xfrc ? input_rows(r) * 6 * (size_t)r->nbody : 0;
  s->ncommand = g->command && r->input.command ? input_rows(r) * (size_t)r->ncommand : 0;
  s->nmocap_pos = g->mocap_pos && r->input.mocap_pos ? input_rows(r) * 3 * (size_t)r->nmocap : 0;
  s->nmocap_rot = g->mocap_rot && r->input.mocap_quat ? input_rows(r) * 3 * (size_t)r->nmocap : 0;
  s->nmocap_vel = g->mocap_vel && r->input.mocap_vel ? input_rows(r) * 6 * (size_t)r->nmocap : 0;
  s->npos_before = g->mocap_pos_before && r->input.mocap_pos_before ? 3 * (size_t)r->nmocap : 0;
  s->nrot_before = g->mocap_rot_before && r->input.mocap_quat_before ? 3 * (size_t)r->nmocap : 0;
  s->ntheta = g->theta ? r->ntheta : 0;
  size_t total = (size_t)r->n + s->nctrl + s->nqfrc + s->nxfrc + s->ncommand + s->nmocap_pos + s->nmocap_rot + s->nmocap_vel +
                 s->npos_before + s->nrot_before;
  s->memory = pbContext_AllocArray(r->ctx, total + s->ntheta + 1, sizeof(double));
  if (!s->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");

  // The direction of state and inputs together is of length 1, evenly distributed.
  pbRng rng = pbRng_Seed(options->seed);
  double norm = 0;
  for (size_t i = 0; i < total; i++) {
    s->memory[i] = pbRng_Normal(&rng);
    norm += s->memory[i] * s->memory[i];
  }
  for (size_t i = 0; i < total; i++) s->memory[i] /= sqrt(norm);

  // Inputs that the caller gives none of do not move.
  double *next = s->memory;
  s->x0 = take(&next, (size_t)r->n);
  s->ctrl = take_some(&next, s->nctrl);
  s->qfrc = take_some(&next, s->nqfrc);
  s->xfrc = take_some(&next, s->nxfrc);
  s->command = take_some(&next, s->ncommand);
  s->mocap_pos = take_some(&next, s->nmocap_pos);
  s->mocap_rot = take_some(&next, s->nmocap_rot);
  s->mocap_vel = take_some(&next, s->nmocap_vel);
  s->pos_before = take_some(&next, s->npos_before);
  s->rot_before = take_some(&next, s->nrot_before);
  s->theta = take_some(&next, s->ntheta);
  pbRollout_DrawTheta(r, &rng, true, s->theta);

  // A pullback adds to what the gradient arrays hold.
  s->before = products(s, g);
  s->theta_before = dot(s->theta, g->theta, s->ntheta);

  return pb_ok;
}

void pbSpot_End(const pbRollout *r, pbSpot *s) { pbContext_Free(r->ctx, s->memory); }

typedef struct Twin {  // working memory of the two rollouts
  double *x[2], *ctrl, *qfrc, *xfrc, *command, *mocap_pos, *mocap_quat, *mocap_rate, *sensor[2], *xpos[2], *site[2], *difference,
      *theta[2];
  double at[2];  // where they are along the direction
  int parted;    // the first step at which they take different branches, or features tie; -1: none
  bool tied;     // there features tie
  int64_t evaluations;
  bool bends;  // quotients that agree with each other differ to both sides
  double *memory;
} Twin;

static pbStatus twin_begin(const pbRollout *r, Twin *t) {
  size_t nx = (size_t)r->nx, ns = (size_t)r->ns, nb = 3 * (size_t)r->nbody, nsite = 3 * (size_t)r->nsite;
  size_t outputs = ns + nb + nsite, nmocap = (size_t)r->nmocap;
  size_t inputs = (size_t)r->nu + (size_t)r->nv + 2 * nb + (size_t)r->ncommand + 27 * nmocap;
  size_t total = 2 * (nx + outputs + r->ntheta) + (size_t)r->n + inputs;
  t->memory = pbContext_AllocArray(r->ctx, total, sizeof(double));
  if (!t->memory) return pbContext_Fail(r->ctx, pb_no_memory, "no memory for the spot check");

  // What one side has of its own, then what both use in turn.
  double *next = t->memory;

  for (int side = 0; side < 2; side++) {
    t->x[side] = take(&next, nx);
    t->sensor[side] = take(&next, ns);
    t->xpos[side] = take(&next, nb);
    t->site[side] = take(&next, nsite);
    t->theta[side] = take(&next, r->ntheta);
  }

  t->difference = take(&next, (size_t)r->n);
  t->ctrl = take(&next, (size_t)r->nu);
  t->qfrc = take(&next, (size_t)r->nv);
  t->xfrc = take(&next, 2 * nb);
  t->command = take(&next, (size_t)r->ncommand);
  t->mocap_pos = take(&next, 3 * nmocap);
  t->mocap_quat = take(&next, 4 * nmocap);
  t->mocap_rate = take(&next, 20 * nmocap);

  PB_ASSERT(next == t->memory + total);
  return pb_ok;
}

// A row of inputs, displaced along the same row of the direction.
static const double *displaced(const double *base, const double *all, const double *direction, int width, double size,
                               double *out) {
  if (!base || !direction) return base;

  const double *along = direction + (base - all);
  for (int i = 0; i < width; i++) out[i] = base[i] + size * along[i];
  return out;
}

// Poses of mocap bodies likewise; those that the caller does not give do not move.
static void displace_poses(const pbRollout *r, const pbSpot *s, int k, double size, const Twin *t, pbInput *in) {
  size_t n = (size_t)r->nmocap, row = 3 * n * (size_t)pbRollout_InputRow(r, k);

  if (s->mocap_pos) in->mocap_pos = memcpy(t->mocap_pos, in->mocap_pos, 3 * n * sizeof(double));
  if (s->mocap_rot) in->mocap_quat = memcpy(t->mocap_quat, in->mocap_quat, 4 * n * sizeof(double));

  // Rows of the direction are those of the inputs.
  pbModel_MocapMove(r->model, s->mocap_pos ? s->mocap_pos + row : NULL, s->mocap_rot ? s->mocap_rot + row : NULL, size,
                    t->mocap_pos, t->mocap_quat);
}

// Evaluate one side at state k, and advance it unless this is the last state.
static pbStatus twin_step(pbRollout *r, const pbSpot *s, Twin *t, int side, int k, bool sees_positions) {
  double size = t->at[side];
  const double *theta = s->theta ? t->theta[side] : r->theta;
  pbInput in = pbRollout_InputAt(r, k);

  in.ctrl = displaced(in.ctrl, r->input.ctrl, s->ctrl, r->nu, size, t->ctrl);
  in.qfrc = displaced(in.qfrc, r->input.qfrc, s->qfrc, r->nv, size, t->qfrc);
  in.xfrc = displaced(in.xfrc, r->input.xfrc, s->xfrc, 6 * r->nbody, size, t->xfrc);
  in.command = displaced(in.command, r->input.command, s->command, r->ncommand, size, t->command);
  displace_poses(r, s, k, size, t, &in);
  const pbRolloutDirection paths = {.mocap_pos = s->mocap_pos,
                                    .mocap_rot = s->mocap_rot,
                                    .mocap_vel = s->mocap_vel,
                                    .mocap_pos_before = s->pos_before,
                                    .mocap_rot_before = s->rot_before};
  if (r->nmocap) in.mocap_vel = pbPrescribed_Moved(r, &paths, size, theta, k, t->mocap_rate);

  // Where a step's last evaluation is not at its first state, positions and sensors take one of their own.
  bool last = k == r->plan.steps;

  if (last || (sees_positions && r->xpos_by_observing)) {
    pbStatus status = pbStep_Observe(r->model, theta, t->x[side], &in, r->scratch, t->sensor[side]);
    if (status != pb_ok) return pbRollout_StepFailed(r, status, k, pbScratch_Error(r->scratch));
  } else {
    PB_TRY(pbRollout_StepChecked(r, theta, t->x[side], &in, k, t->sensor[side]));
  }

  // Copied at once: the other side evaluates with the same scratch.
  if (sees_positions) {
    const double *xpos = pbRollout_ObservedField(r->scratch, "xpos"), *site = pbRollout_ObservedField(r->scratch, "site_xpos");
    if (xpos) memcpy(t->xpos[side], xpos, 3 * (size_t)r->nbody * sizeof *xpos);
    if (site) memcpy(t->site[side], site, 3 * (size_t)r->nsite * sizeof *site);
    if (!last && r->xpos_by_observing) return pbRollout_StepChecked(r, theta, t->x[side], &in, k, NULL);
  }

  return pb_ok;
}

// <w, plus - minus>
static double across(const double *w, const double *minus, const double *plus, int n) {
  if (!w) return 0;

  double sum = 0;
  for (int i = 0; i < n; i++) sum += w[i] * (plus[i] - minus[i]);
  return sum;
}

// <w, x(+) (-) x(-)> of the state itself, in its tangent space.
static double state_part(const pbRollout *r, const pbRolloutBar *bar, Twin *t, int k) {
  int steps = r->plan.steps;
  const double *q = pbCotangent_At(&bar->qpos, r->nv, k, steps), *v = pbCotangent_At(&bar->qvel, r->nv, k, steps);
  const double *a = pbCotangent_At(&bar->act, r->na, k, steps);
  const double *p = pbCotangent_At(&bar->points, r->np, k, steps), *pv = pbCotangent_At(&bar->point_velocity, r->np, k, steps);

  const double *x = pbCotangent_At(&bar->x, r->n, k, steps);

  if (!q && !v && !a && !p && !pv && !x) return 0;

  pbState_Difference(r->model, t->x[0], t->x[1], t->difference);
  const double *act = t->difference + 2 * r->nv;
  const double *points = act + r->na;
  return dot(q, t->difference, (size_t)r->nv) + dot(v, t->difference + r->nv, (size_t)r->nv) + dot(a, act, (size_t)r->na) +
         dot(p, points, (size_t)r->np) + dot(pv, points + r->np, (size_t)r->np) + dot(x, t->difference, (size_t)r->n);
}

// Both rollouts side by side: *sum += <w, z(to) - z(from)>.
static pbStatus twin_run(pbRollout *r, const pbSpot *s, const pbRolloutBar *bar, Twin *t, double *sum) {
  int steps = r->plan.steps;

  // Both start displaced along the direction, by theta too.
  for (int side = 0; side < 2; side++) {
    memcpy(t->x[side], r->x0, (size_t)r->nx * sizeof(double));
    if (t->at[side] != 0) pbState_Move(r->model, t->x[side], s->x0, t->at[side]);
    for (size_t i = 0; i < s->ntheta; i++) t->theta[side][i] = r->theta[i] + t->at[side] * s->theta[i];
  }

  t->parted = -1;
  t->tied = false;
  for (int k = 0; k <= steps; k++) {
    const double *xpos = pbCotangent_At(&bar->xpos, 3 * r->nbody, k, steps);
    const double *site = pbCotangent_At(&bar->site_xpos, 3 * r->nsite, k, steps);
    const double *sensor = pbCotangent_At(&bar->sensordata, r->ns, k, steps);
    *sum += state_part(r, bar, t, k);
    if (k == steps && !xpos && !site && !sensor) break;

    // One step of each: the outputs at state k, and the branches that were taken.
    uint64_t branch[2];

    for (int side = 0; side < 2; side++) {
      PB_TRY(twin_step(r, s, t, side, k, xpos || site));
      branch[side] = pbScratch_Branch(r->scratch);
    }

    if (t->parted < 0 && (branch[0] != branch[1] || !branch[0])) {
      t->parted = k;
      t->tied = !branch[0] || !branch[1];
    }

    // What is observed enters with the caller's cotangents of this state.
    *sum += across(sensor, t->sensor[0], t->sensor[1], r->ns) + across(xpos, t->xpos[0], t->xpos[1], 3 * r->nbody) +
            across(site, t->site[0], t->site[1], 3 * r->nsite);
    if (pbProgressMeter_Step(&r->meter)) return pbRollout_Stopped(r, k);
  }

  return pb_ok;
}

// The difference quotient between two positions along the direction.
static pbStatus twin(pbRollout *r, const pbSpot *s, const pbRolloutBar *bar, double from, double to, Twin *t, double *quotient) {
  PB_ASSERT(to > from);
  double sum = 0;
  t->at[0] = from;
  t->at[1] = to;
  if (pbProgressMeter_Begin(&r->meter, "check", r->plan.steps)) return pbRollout_Stopped(r, 0);

  PB_TRY(twin_run(r, s, bar, t, &sum));
  *quotient = sum / (to - from);
  t->evaluations += 2 * r->plan.steps;

  return pb_ok;
}

// Is a central quotient `value`, `gap` from the gradient, the derivative? Not where quotients to both sides differ, nor where the
// rollouts take other branches than that in the middle, or features tie: there no derivative is that of every direction.
static pbStatus is_smooth(pbRollout *r, const pbSpot *s, const pbRolloutBar *bar, Twin *t, double value, double gap,
                          bool *smooth) {
  double ahead = value;
  *smooth = false;
  if (t->parted >= 0) return pb_ok;

  PB_TRY(twin(r, s, bar, 0, s->size, t, &ahead));
  *smooth = t->parted < 0 && 2 * fabs(ahead - value) < gap / 8;

  return pb_ok;
}

// Over a move of size s the derivative may change by s times the growth of the costate, relative to itself. Off is a gradient
// that two quotients contradict which agree with each other.
static pbStatus compare(pbRollout *r, pbSpot *s, const pbRolloutBar *bar, Twin *t, pbCertificate *c, bool *decided) {
  enum { sizes = 4, shorter = 32 };
  double before = NAN, first = s->size;
  *decided = false;
  PB_ASSERT(first > 0);

  for (int i = 0; i < sizes; i++) {
    double value = 0;
    s->size = first / pow(shorter, i);
    PB_TRY(twin(r, s, bar, -s->size, s->size, t, &value));

    // The change that curvature may make over the move is the limit, not rounding alone.
    double scale = fmax(fabs(c->spot_gradient), fabs(value));
    double gap = fabs(c->spot_gradient - value);
    c->spot_difference = value;
    c->spot_error = scale > 0 ? gap / scale : 0;
    c->spot_limit = s->size * (1 + exp(c->growth));

    // Two quotients that agree with each other against the gradient, where the motion is smooth, decide.
    bool agrees = c->spot_error <= c->spot_limit;
    bool contradicts = !agrees && fabs(value - before) < gap / 8;
    if (contradicts) PB_TRY(is_smooth(r, s, bar, t, value, gap, &c->spot_off));
    t->bends = contradicts && !c->spot_off;
    *decided = c->spot_off || agrees;
    c->spot_kink = *decided ? -1 : t->parted;
    if (*decided) break;
    before = value;
  }

  s->size = first;
  return pb_ok;
}

// One comparison of the whole rollout: made, or left out and why.
static void count_comparison(const pbRollout *r, const pbSpot *s, const pbRolloutGradient *g, const Twin *t, bool decided,
                             pbCertificate *c) {
  size_t same = (size_t)r->n + s->nctrl + s->nqfrc + s->nxfrc + s->ncommand + s->nmocap_pos + s->nmocap_rot + s->nmocap_vel +
                s->npos_before + s->nrot_before;
  PB_ASSERT(!(decided && c->spot_kink >= 0));
  size_t all = same + (g->theta ? pbRollout_WantedEntries(r) : 0), moved = same + pbRollout_CountMoved(s->theta, s->ntheta);

  c->spot_part |= pb_partRollout;
  c->spot_evaluations += t->evaluations;
  c->spot_checked = decided;

  c->spot_quotients += decided;
  c->spot_steps_share = decided;
  c->spot_entries_share = decided && all > 0 ? (double)moved / (double)all : 0;
  if (decided) return;

  // Why it was not.
  bool kink = t->parted >= 0 || t->bends;
  c->spot_left_out++;
  c->spot_left_tie += kink && t->tied;
  c->spot_left_kink += kink && !t->tied;
  c->spot_left_noise += !kink;
}

pbStatus pbSpot_Check(pbRollout *r, pbSpot *s, const pbRolloutBar *bar, const double *x0_bar, const pbRolloutGradient *g,
                      pbCertificate *c) {
  Twin t = {0};
  pbStatus status = twin_begin(r, &t);
  double by_theta = dot(s->theta, g->theta, s->ntheta) - s->theta_before;
  bool decided = false;

  // First along all of the direction, then, where theta meets a kink, without it.
  c->spot_gradient = dot(s->x0, x0_bar, (size_t)r->n) + products(s, g) - s->before;
  if (status == pb_ok) status = compare(r, s, bar, &t, c, &decided);
  if (status == pb_ok && !decided && s->theta) {
    c->spot_gradient -= by_theta;
    s->theta = NULL;
    s->ntheta = 0;
    status = compare(r, s, bar, &t, c, &decided);
  }

  // Undecided is no verdict: it is counted apart.
  if (status == pb_ok) count_comparison(r, s, g, &t, decided, c);
  pbContext_Free(r->ctx, t.memory);

  return status;
}

void pbCertificate_NoteTie(pbCertificate *c, pbRollout *r, const double *x, const pbInput *input, int k) {
  if (c->spot_tie_step >= 0 && c->spot_tie_step <= k) return;
  if (pbStep_Observe(r->model, r->theta, x, input, r->scratch, NULL) != pb_ok) return;

  // Steps are sampled on the way back.
  char text[sizeof c->spot_tie];
  if (!*pbScratch_Tie(r->scratch, text, sizeof text)) return;
  memcpy(c->spot_tie, text, sizeof text);
  c->spot_tie_step = k;
}

const char *pbCertificate_Checked(const pbCertificate *c) {
  static const char *const names[] = {"nothing", "steps", "impacts", "steps and impacts"};
  if (!c->spot_checked) return names[0];
  return c->spot_part & pb_partRollout ? "rollout" : names[c->spot_part & (pb_partSteps | pb_partImpacts)];
}
