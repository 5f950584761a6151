// The step of bodies and deformables: Newton's method on F(a, x) = h^4 Phi(a) + V(x, P(a)) with the free points eliminated, a
// line search by the value of F (Nocedal and Wright 2006, algorithm 3.1), and steps that no contact stops. Equations:
// docs/coupling.md.
// Tests: tests/unit/test_deform.c, tests/oracle/test_deform_cli.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "couple/couple_parts.h"
#include "elementary/elementary.h"
#include "model/state_layout.h"
#include "step/scratch.h"

static const double rounding = 1e-13;  // of F: smaller differences say nothing

typedef struct iteration {
  double value;   // F at the iterate
  double slope;   // what the direction promises: minus the derivative of F along it
  double length;  // m: largest move of a point, or of an acceleration times h^2, to Newton's next iterate
} iteration;

// ---- Newton's direction -------------------------------------------------------------------------------------------------
// trial_acc = the minimum of Phi(a) + g . (a - at) + 1/2 (a - at)' S (a - at), by the bodies' solver                 (5)
static pbStatus minimize_accelerations(pbScratch *s) {
  pbCouple *c = s->couple;
  int nv = c->attached.n;

  memcpy(c->trial_acc, c->acc, (size_t)nv * sizeof(double));
  pbCouple_UseModel(s, true);
  pbStatus status = s->variant->again(&s->w, c->trial_acc);

  // Negative curvature of S beyond what the masses hold: its negative eigenvalues change their sign.
  if (status == pb_singular) {
    pbProject_Definite(c->S, nv, 1, c->eigen);
    status = s->variant->again(&s->w, c->trial_acc);
  }

  pbCouple_UseModel(s, false);

  return status == pb_ok ? pb_ok : pbScratch_Explain(s, status);
}

// dx = -Hxx^-1 (V_x + B' da); w->step = -dx, and holds Hxx^-1 V_x before                                             (4)
static void back_substitute_free(pbScratch *s) {
  const pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int all = 3 * w->d->npoint;

  for (int k = 0; k < c->attached.n; k++) {
    const double *column = c->columns + (size_t)k * (size_t)all;
    for (int i = 0; i < all; i++) w->step[i] += column[i] * c->direction[k];
  }
}

// dP = J da; w->step = -dP there
static void back_substitute_attached(pbScratch *s) {
  const pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int nv = c->attached.n;
  for (int i = 0; i < 3 * w->d->nattached; i++)
    w->step[pb_attachedAt(w->d, i)] = -pb_dot(c->attached.J + i * nv, c->direction, nv);
}

// Phi(a), with the work of dampers over the step; its gradient without them is left in c->phi_gradient.
static double damped_cost(pbScratch *s, const double *acc) {
  pbCouple *c = s->couple;
  return s->variant->cost(&s->w, acc, c->phi_gradient) + 0.5 * pbCouple_DampedProduct(c, acc, acc);
}

// Phi' . da at acc, after damped_cost there.
static double damped_slope(const pbCouple *c, const double *acc) {
  return pb_dot(c->phi_gradient, c->direction, c->attached.n) + pbCouple_DampedProduct(c, acc, c->direction);
}

// Newton's direction from (c->acc, w->x): c->direction, -w->step.
static pbStatus newton_direction(pbScratch *s, iteration *it) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int nv = c->attached.n;
  int all = 3 * w->d->npoint;
  double h2 = w->in.h * w->in.h;
  double h4 = h2 * h2;
  double potential;

  // Eliminate the free points, solve for the accelerations, substitute back.
  PB_TRY(pbCouple_Linearize(s, true, &potential));
  PB_TRY(pbCouple_Eliminate(s));
  PB_TRY(minimize_accelerations(s));
  for (int k = 0; k < nv; k++) c->direction[k] = c->trial_acc[k] - c->acc[k];
  back_substitute_free(s);

  // F, and -F' . (da, dx) = V_x . step - tau . da - h^4 Phi' . da
  it->value = potential + h4 * damped_cost(s, c->acc);
  it->slope = pb_dot(w->gradient, w->step, all) - pb_dot(c->tau, c->direction, nv) - h4 * damped_slope(c, c->acc);

  back_substitute_attached(s);
  it->length = fmax(pb_largest(w->step, all), h2 * pb_largest(c->direction, nv));
  if (it->length < INFINITY) return pb_ok;

  return pbScratch_Fail(s, pb_not_finite, "Newton's step of bodies and deformables is not finite");
}

// ---- the line search ------------------------------------------------------------------------------------------------------
// F at accelerations acc and points x, of which the attached ones are placed there; infinite outside of an energy's domain.
static double objective(pbScratch *s, const double *acc, double *x) {
  pbDeformWork *w = s->deform;
  double potential;

  pbCouple_PlaceAt(s, acc, x);
  if (pbDeform_Look(w, x, &potential, NULL, false, 0) != pb_ok) return INFINITY;
  return pbPow(w->in.h, 4) * damped_cost(s, acc) + potential;
}

// Pieces of a path to a trial, in each of which no body rotates by more than this.
static int count_pieces(const pbScratch *s, double size) {
  static const double rotation = 0.25;  // rad
  const pbCouple *c = s->couple;
  double h = s->deform->in.h;
  return 1 + (int)fmin(size * h * h * pb_largest(c->direction, c->attached.n) / rotation, 100);
}

// Attached points move on arcs, continuous collision detection sees straight lines: the path from the iterate to the trial at
// w->next_x in pieces of small rotation.
static bool path_is_free(pbScratch *s, double size) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int all = 3 * w->d->npoint;

  if (!w->barrier) return true;

  // Accelerations and free points go straight, attached points where accelerations take them.
  int pieces = count_pieces(s, size);
  PB_ASSERT(pieces >= 1);
  double *from = c->path_from;
  double *to = c->path_to;
  memcpy(from, w->x, (size_t)all * sizeof(double));
  for (int p = 1; p <= pieces; p++) {
    double share = (double)p / pieces;
    // The end of piece p
    for (int i = 0; i < c->attached.n; i++) c->path_acc[i] = c->acc[i] + share * size * c->direction[i];
    for (int i = 0; i < all; i++) to[i] = w->x[i] + share * (w->next_x[i] - w->x[i]);
    pbCouple_PlaceAt(s, c->path_acc, to);

    for (int i = 0; i < all; i++) c->path_step[i] = from[i] - to[i];
    if (pbDeform_MaxStep(w, from, c->path_step) < 1) return false;

    // This piece's end is the next one's start.
    double *end = to;
    to = from;
    from = end;
  }

  return true;
}

static void move_to_trial(pbScratch *s, double size) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  for (int i = 0; i < c->attached.n; i++) c->trial_acc[i] = c->acc[i] + size * c->direction[i];
  for (int i = 0; i < 3 * w->d->npoint; i++) w->next_x[i] = w->x[i] - size * w->step[i];
}

static void accept_trial(pbScratch *s) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  memcpy(c->acc, c->trial_acc, (size_t)c->attached.n * sizeof(double));
  memcpy(w->x, w->next_x, 3 * (size_t)w->d->npoint * sizeof(double));
}

// Minus the derivative of F along the direction at the trial: V_x . step - f . (J da) - h^4 Phi' . da, where objective() left
// Phi'. false: outside of an energy's domain.
static bool slope_at_trial(pbScratch *s, double *slope) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  double h4 = pbPow(w->in.h, 4);
  double ignored;

  // V_x at the trial, then J da there.
  if (pbDeform_Look(w, w->next_x, &ignored, w->y_bar, false, 0) != pb_ok) return false;
  pbAttachmentQuery query = c->query;
  query.acc = c->trial_acc;
  query.force = NULL;
  pbJvp_Attachments(s->complex_work, &query, &(pbAttachmentTangent){.acc = c->direction},
                    &(pbAttachmentOut){.x_tangent = c->x_tangent});

  *slope = pb_dot(w->step, w->y_bar, 3 * w->d->npoint) - pb_dot(c->attached.gradient, c->x_tangent, 3 * w->d->nattached) -
           h4 * damped_slope(c, c->trial_acc);

  return true;
}

// Whether the trial is better by (6); where rounding hides what it gains, or the move is very short, by the slope there, as
// pbDeform_Decreases does: F is a sum of large terms, gravity's among them, whose rounding its own value does not tell.
static bool decreases(pbScratch *s, const iteration *it, double size) {
  static const double small = 1e-6;  // of the scene
  pbDeformWork *w = s->deform;
  double there = objective(s, s->couple->trial_acc, w->next_x);
  double gain = it->value - PB_SUFFICIENT_DECREASE * size * it->slope - there;
  double noise = rounding * fabs(it->value);
  double slope;
  PB_ASSERT(size > 0 && size <= 1);

  // Clear cases first: values that differ by more than their rounding decide.
  if (gain > noise) return true;
  if (!(there < INFINITY) || (gain < -noise && size * it->length > small * w->d->size)) return false;

  // Between them the slope: of a quadratic it has changed its sign where the step went too far.
  if (!slope_at_trial(s, &slope)) return false;

  return slope >= (2 * PB_SUFFICIENT_DECREASE - 1) * it->slope || fabs(it->slope) <= 1e-10 * noise;
}

// Halves steps from the largest that contacts admit until one decreases F enough (6) along a path without contact. Returns
// whether the iterate moved: not where none was found, nor by less than the tolerance, where values differ by rounding alone.
static bool line_search(pbScratch *s, const iteration *it, double tolerance) {
  pbDeformWork *w = s->deform;
  double size = pbDeform_MaxStep(w, w->x, w->step);
  PB_ASSERT(size >= 0 && size <= 1);

  for (int k = 0; k < pb_newtonHalvings; k++, size *= 0.5) {
    move_to_trial(s, size);
    if (!decreases(s, it, size)) continue;
    if (!path_is_free(s, size)) continue;

    accept_trial(s);
    return k == 0 || size * it->length > tolerance;
  }

  return false;
}

// ---- Newton's method ------------------------------------------------------------------------------------------------------
static pbStatus minimize(pbScratch *s) {
  pbDeformWork *w = s->deform;
  const pbDeformOptions *o = &w->d->options;
  int most = o->iterations ? o->iterations : pb_newtonIterations;
  double tolerance = pbDeform_ToleranceAt(w);
  iteration it = {.length = INFINITY};
  bool moved = true;

  w->report = (pbDeformReport){0};
  w->project = 0;

  while (it.length > tolerance && moved && w->report.iterations < most) {
    w->report.iterations++;
    PB_TRY(newton_direction(s, &it));
    moved = line_search(s, &it, tolerance);
  }

  // The error is what Newton's method would still change.
  w->report.converged = it.length <= tolerance;
  w->report.change = it.length;
  w->report.residual = it.length / w->d->size;
  if (w->report.converged || o->approximate) return pb_ok;
  return pbScratch_Fail(
      s, pb_no_convergence,
      "the step of bodies and deformables did not converge: after %d iterations Newton's method would still move "
      "points by %.3g m (tolerance %.3g)%s",
      w->report.iterations, it.length, tolerance, moved ? "" : ", and the line search found no decrease in that direction");
}

// ---- prescribed points ----------------------------------------------------------------------------------------------------
// What is left of the way of prescribed points, and of what mocap bodies lead, to w->step; false: nothing is.
static bool remaining_way(pbScratch *s) {
  const pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  bool some = pbDeform_PrescribedStep(w);

  // Steps are subtracted from positions.
  for (int i = 0; i < 3 * w->d->nattached; i++) w->step[pb_attachedAt(w->d, i)] = -(1 - c->led_share) * c->led[i];

  return some || c->led_share < 1;
}

// A share of that way is gone: w->next_x is where the points are then, c->led_share counts it.
static void go_share(pbScratch *s, double share) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;

  // The whole of it exactly, whatever the shares before were rounded to.
  PB_ASSERT(share >= 0 && share <= 1);
  c->led_share = share < 1 ? c->led_share + share * (1 - c->led_share) : 1;
  for (int i = 0; i < 3 * w->d->npoint; i++) w->next_x[i] = w->x[i] - share * w->step[i];
}

// The largest of share, share/2, ... of the way that leaves F finite; led and prescribed points have gone it.
static double move_admissibly(pbScratch *s, double share) {
  enum { halvings = 40 };
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  double before = c->led_share;

  for (int k = 0; k < halvings; k++, share *= 0.5) {
    go_share(s, share);
    // An energy's domain ends before: half of it.
    if (!(objective(s, c->acc, w->next_x) < INFINITY)) {
      c->led_share = before;
      continue;
    }

    // Pins go, and with them what mocap bodies lead.
    pbDeform_MovePrescribed(w, share);
    pbCouple_PlaceAt(s, c->acc, w->x);
    return share;
  }

  return 0;
}

// F where prescribed and led points alone have gone, w->next_x being where the former go.
static double left_behind(pbScratch *s) {
  pbCouple *c = s->couple;
  const pbDeformWork *w = s->deform;
  const pbDeform *d = w->d;

  // All others stay where the step begins.
  for (int i = 0; i < 3 * d->npoint; i++) {
    bool pinned = pbDeform_IsFixed(d, i) && d->attached_of[i / 3] < 0;
    c->path_to[i] = pinned ? w->next_x[i] : w->y[i];
  }

  return objective(s, c->acc, c->path_to);
}

// All points and bodies go on as they came (a = 0), prescribed and led ones where they must; false, and nothing changed, where
// that is not finite, passes through something, or is worse than leaving the others behind.
static bool predict(pbScratch *s) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int nv = c->attached.n;
  double before = c->led_share;

  // From a = -v/h, where all stands still, in one straight step
  for (int i = 0; i < nv; i++) c->direction[i] = -c->acc[i];
  memset(c->trial_acc, 0, (size_t)nv * sizeof(double));
  for (int i = 0; i < 3 * w->d->npoint; i++) w->next_x[i] = w->y[i] + w->in.h * w->v[i];

  // It counts only where no contact is passed and no energy is worse for it.
  c->led_share = 1;
  double there = objective(s, c->trial_acc, w->next_x);
  bool better = there < INFINITY && path_is_free(s, 1) && there <= left_behind(s);
  c->led_share = better ? 1 : before;
  if (better) accept_trial(s);

  return better;
}

// Prescribed and led points to where they go, as far as gaps and energies allow; bodies and free points make room in between.
static pbStatus move_prescribed_points(pbScratch *s) {
  enum { most = 200 };
  pbDeformWork *w = s->deform;

  if (!remaining_way(s) || predict(s)) return pb_ok;
  for (int k = 0; k < most && remaining_way(s); k++) {
    double share = move_admissibly(s, pbDeform_MaxStep(w, w->x, w->step));
    PB_ASSERT(share >= 0 && share <= 1);
    if (share == 1) return pb_ok;

    // Something stops them: the rest gives way.
    pbStatus status = minimize(s);
    if (status != pb_ok && status != pb_no_convergence) return status;
  }

  if (!remaining_way(s)) return pb_ok;

  return pbScratch_Fail(s, pb_no_convergence, "prescribed points are blocked: no step towards their positions is admissible");
}

// ---- the step -------------------------------------------------------------------------------------------------------------
// c->led: what mocap bodies move over the step where no joint moves; its share gone is 0 where there is any.
static void find_led_way(pbScratch *s) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  c->led_share = 1;
  if (!s->w.mocap_moves) return;

  // Bodies stand still here: what has moved is led.
  pbCouple_PlaceAt(s, c->acc, c->path_to);
  for (int i = 0; i < 3 * w->d->nattached; i++) {
    int at = pb_attachedAt(w->d, i);
    c->led[i] = c->path_to[at] - w->y[at];
  }
  c->led_share = 0;
}

// The first iterate: positions as they are, accelerations that keep bodies there (v + h a = 0). The solution without
// deformables may have gone through them.
static pbStatus start(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *state) {
  pbDeformWork *w = s->deform;

  // Phi: the bodies' unconstrained acceleration and their constraint rows
  pbScratch_Load(s, theta, x, input);
  pbCouple_UseModel(s, false);
  PB_TRY(pbScratch_Run(s, false, false));

  // V, from the deformables' part of the state
  PB_TRY(pbCouple_Begin(s, theta, x, input, state));
  memcpy(w->x, w->y, 3 * (size_t)w->d->npoint * sizeof(double));
  for (int i = 0; i < s->model->nv; i++) s->couple->acc[i] = -s->w.qvel[i] / w->in.h;
  find_led_way(s);

  return pb_ok;
}

// The bodies' own step, with the exact quadratic of the deformables at the solution.
static pbStatus finish(pbScratch *s, bool sense, double *state, double *next) {
  pbDeformWork *w = s->deform;
  double potential;

  PB_TRY(pbCouple_Linearize(s, false, &potential));
  PB_TRY(pbCouple_Eliminate(s));

  memcpy(s->stages, s->couple->acc, (size_t)s->model->nv * sizeof(double));
  pbCouple_UseModel(s, true);
  pbStatus status = s->variant->run(&s->w, s->stages, true, sense, true);
  pbCouple_UseModel(s, false);
  if (status != pb_ok) return pbScratch_Explain(s, status);

  pbDeform_Finish(w, state, state);
  pbScratch_State(s, *s->w.time + w->in.h, next);

  return pb_ok;
}

// The search begins at positions and accelerations that the caller has, the solution of a step close by, prescribed and led
// points where they must be now: not where they meet something on their way there, nor outside of an energy's domain.
static bool begin_at_guess(pbScratch *s) {
  pbCouple *c = s->couple;
  pbDeformWork *w = s->deform;
  int all = 3 * w->d->npoint;
  double before = c->led_share;
  if (!w->guess || !c->guess) return false;

  // Pins go all of their way from there.
  memcpy(w->x, w->guess, (size_t)all * sizeof(double));
  pbDeform_PrescribedStep(w);
  pbDeform_MovePrescribed(w, 1);
  memcpy(w->next_x, w->x, (size_t)all * sizeof(double));
  memcpy(c->trial_acc, c->guess, (size_t)c->attached.n * sizeof(double));

  // Attached points are placed by what it costs there; then the way from the guess is known.
  c->led_share = 1;
  bool finite = objective(s, c->trial_acc, w->next_x) < INFINITY;
  for (int i = 0; i < all; i++) w->step[i] = w->guess[i] - w->next_x[i];
  if (finite && pbDeform_MaxStep(w, w->guess, w->step) == 1) {
    accept_trial(s);
    return true;
  }

  // As if there were none.
  c->led_share = before;
  memcpy(w->x, w->y, (size_t)all * sizeof(double));
  return false;
}

static pbStatus step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense, double *next) {
  double *state = next + state_layout(s->model).deform;
  PB_TRY(start(s, theta, x, input, state));
  // Whatever comes of it, the next step begins with all of its way before it.
  pbStatus status = begin_at_guess(s) ? pb_ok : move_prescribed_points(s);
  s->couple->led_share = 1;
  PB_TRY(status);
  PB_TRY(minimize(s));

  return finish(s, sense, state, next);
}

pbStatus pbCouple_Step(pbScratch *s, const double *theta, const double *x, const pbInput *input, bool sense, double *next) {
  unsigned failures = s->failures;
  return pbCouple_Settle(s, step(s, theta, x, input, sense, next), failures);
}
