// Newton's method on the incremental potential: exact Hessians; where they are not definite, element by element made so, no more
// than that takes; a line search by value (Nocedal and Wright 2006, algorithm 3.1), steps short of what leaves an energy's
// domain.
//
// Memory. None of its own: vectors and room for a chunk of elements in pbDeformWork (deform.h), the matrix with its factor in
// pbDeformMatrix. Where contacts come or go the matrix has another pattern, which is analyzed in the room that a capacity gives;
// too little is pb_capacity, whatever a search would have made of the failure. The factor of the last iteration stays: it
// preconditions the adjoint, and the tape keeps it where it has room.
//
// Matrices that are not definite. To project every element wholly made the matrix much too stiff along the few directions in
// which things buckle, and cloth and rods did not converge within the default iterations. So it is tried as it is, then with the
// smallest share of projection that makes it definite, from a quarter of what the iteration before needed. The examples project
// nothing; a strip of cloth that buckles does in 53 of 267 iterations (docs/deformables.md, "What it costs").
//
// Forces without a potential (implicit friction) have no value to search by: their size is the merit, which Newton's step
// decreases whatever the signs of the matrix. Making it definite, which was tried first, dropped its antisymmetric part and
// stalled in plain sliding.
//
// Where rounding hides what a step gains the slope at its end decides. A search that finds nothing better ends the step with what
// is left to go, instead of the same iteration until the limit. Of statics an end with negative pivots may be a saddle, and is
// left.
// Tests: tests/unit/test_deform.c.
#include <float.h>
#include <math.h>
#include <string.h>

#include "deform/deform.h"

static const double rounding = 1e-14;  // of the potential: smaller differences say nothing
static const double least_projection = 1. / 1024;
enum { force_halvings = 25 };

// c h^2; 1 where there is no inertia to weigh against.
double pbDeform_Scale(const pbDeformWork *w) { return w->scheme->inertia ? w->scheme->factor * w->in.h * w->in.h : 1; }

// Weight of forces that do not vary, gravity: sum_t a_t b_t.
double pbScheme_ConstantWeight(const pbSchemeTable *s) {
  double sum = 0;
  for (int t = 0; t < s->terms; t++) sum += s->weight[t] * s->at[t];
  return sum;
}

const double *pbDeform_At(pbDeformWork *w, const double *x, int term) {
  double b = w->scheme->at[term];

  if (b == 1) return x;
  for (int i = 0; i < 3 * w->d->npoint; i++) w->point[i] = b * x[i] + (1 - b) * w->y[i];
  return w->point;
}

static bool from_start(const double *ago) { return ago[pb_pastX] == 1 && ago[pb_pastV] == 0 && ago[pb_pastX1] == 0; }

const double *pbDeform_Ago(const pbDeformWork *w, int term) { return from_start(w->scheme->ago[term]) ? w->y : w->ago; }

// 1/2 |x - xhat|^2_M - c h^2 (sum_t a_t b_t) gravity . M x, and its gradient (NULL: not wanted).
static double inertia_and_gravity(const pbDeformWork *w, const double *x, double *gradient) {
  double value = 0, g = pbDeform_Scale(w) * pbScheme_ConstantWeight(w->scheme);

  for (int i = 0; i < 3 * w->d->npoint; i++) {
    // Of one coordinate; statics have gravity alone.
    double m = w->mass[i / 3], dx = w->scheme->inertia ? x[i] - w->xhat[i] : 0, f = g * w->in.gravity[i % 3];
    value += m * (0.5 * dx * dx - f * x[i]);
    if (gradient) gradient[i] = m * (dx - f);
  }

  return value;
}

static void clear_fixed(const pbDeform *d, double *x) {
  for (int i = 0; i < 3 * d->npoint; i++) {
    if (d->fixed[i / 3] >> (i % 3) & 1) x[i] = 0;
  }
}

static void add_inertia(pbDeformWork *w) {
  const pbDeform *d = w->d;
  if (!w->scheme->inertia) return;

  for (int i = 0; i < d->nfree; i++) {
    double *block = pbDeformMatrix_Diagonal(w, i);
    for (int k = 0; k < 3; k++) block[4 * k] += w->mass[d->point[i]];
  }
}

pbStatus pbDeform_Look(pbDeformWork *w, const double *x, double *value, double *gradient, bool matrix, double project) {
  const pbSchemeTable *s = w->scheme;

  double c = pbDeform_Scale(w);
  *value = inertia_and_gravity(w, x, gradient);
  bool begun = matrix && w->d->nfree > 0;  // with contacts of the first term at hand
  if (matrix) {
    if (w->attached) pbAttached_Clear(w);
    PB_TRY(pbDeformMatrix_Begin(w, x));
    add_inertia(w);
  }

  // The terms a_t E(b_t x + (1 - b_t) y): each derivative by x brings a factor b_t.
  for (int t = 0; t < s->terms; t++) {
    double at = s->at[t], weight = c * s->weight[t];
    pbEvaluation e = {.z = pbDeform_At(w, x, t),
                      .y = w->y,
                      .ago = pbDeform_Ago(w, t),
                      .span = s->span * w->in.h,
                      .time = w->in.time + at * w->in.h,
                      .value = value,
                      .value_scale = weight,
                      .gradient = gradient,
                      .gradient_scale = weight * at,
                      .hessian = matrix,
                      .hessian_scale = weight * at * at,
                      .project = project};

    if (w->barrier && (t > 0 || !begun)) PB_TRY(pbDeformContact_Update(w, e.z));
    PB_TRY(pbDeform_Evaluate(w, &e));
  }

  // Forces on attached points go to the bodies, before they are cleared with those of all fixed coordinates.
  if (gradient && w->attached) {
    for (int i = 0; i < 3 * w->d->nattached; i++) w->attached->gradient[i] = gradient[3 * w->d->attached[i / 3] + i % 3];
  }

  if (gradient) clear_fixed(w->d, gradient);

  return pb_ok;
}

pbStatus pbDeform_Solve(pbDeformWork *w, bool transposed, double *x) {
  const pbDeform *d = w->d;
  clear_fixed(d, x);

  // Packed by blocks of unknowns, and back; fixed axes of a block come out as they went in, zero but for rounding.
  for (int i = 0; i < d->nfree; i++) memcpy(w->rhs + 3 * i, x + 3 * d->point[i], 3 * sizeof(double));
  PB_TRY(pbDeformMatrix_Solve(w, transposed, w->rhs));
  for (int i = 0; i < d->nfree; i++) memcpy(x + 3 * d->point[i], w->rhs + 3 * i, 3 * sizeof(double));
  clear_fixed(d, x);

  return pb_ok;
}

void pbDeform_ShiftDiagonal(pbDeformWork *w, double share) {
  const pbDeform *d = w->d;

  double most = 0;

  // Two passes: the largest entry first.
  for (int i = 0; i < d->nfree; i++) {
    const double *block = pbDeformMatrix_Diagonal(w, i);
    for (int k = 0; k < 3; k++) most = fmax(most, fabs(block[4 * k]));
  }

  for (int i = 0; i < d->nfree; i++) {
    double *block = pbDeformMatrix_Diagonal(w, i);
    for (int k = 0; k < 3; k++) block[4 * k] += share * most;
  }
}

// The matrix at x with a share of projection, factored; *definite: without negative pivots.
static pbStatus factor_projected(pbDeformWork *w, const double *x, double project, double shift, bool *definite) {
  int negative;

  double ignored;
  PB_TRY(pbDeform_Look(w, x, &ignored, NULL, true, project));
  if (shift > 0) pbDeform_ShiftDiagonal(w, shift);

  pbStatus status = pbDeformMatrix_Factor(w, &negative);
  *definite = status == pb_ok && negative == 0;

  return status == pb_singular ? pb_ok : status;
}

// A matrix that is projected as a whole is much too stiff along the few directions in which things buckle, and Newton's method
// slow. So the share starts low, from a quarter of what the iteration before needed, and doubles.
static pbStatus project_progressively(pbDeformWork *w, const double *x) {
  bool definite;
  for (double share = fmax(w->project / 4, least_projection); share < 1; share *= 2) {
    PB_TRY(factor_projected(w, x, share, 0, &definite));
    w->project = share;
    if (definite) return pb_ok;
  }

  // Projected matrices are semidefinite but for rounding: a growing shift of the diagonal helps where pivots are still not
  // positive.
  w->project = 1;
  for (double shift = 0; shift<1; shift = shift> 0 ? 10 * shift : 1e-12) {
    PB_TRY(factor_projected(w, x, 1, shift, &definite));
    if (definite) return pb_ok;
  }

  return pbDeform_Fail(w, pb_singular, "the matrix of the step cannot be made definite%s", pbDeform_Loose(w->d));
}

pbStatus pbDeform_LookDefinite(pbDeformWork *w, const double *x, double *value, double *gradient) {
  int negative;
  PB_TRY(pbDeform_Look(w, x, value, gradient, true, 0));

  pbStatus status = pbDeformMatrix_Factor(w, &negative);
  if (status == pb_ok && negative == 0) return pb_ok;
  if (status != pb_ok && status != pb_singular) return status;

  w->report.projections++;

  return project_progressively(w, x);
}

double pbDeform_MaxStepTo(pbDeformWork *w, const double *x, const double *step, double keep) {
  PB_ASSERT(keep >= 0 && keep < 1);
  double s = 1;

  if (!w->barrier) return 1;

  // A step is subtracted from positions; the barrier takes a displacement.
  for (int i = 0; i < 3 * w->d->npoint; i++) w->point[i] = -step[i];
  pbBarrierValues values = pbDeformContact_ValuesOf(w->d, w->in.theta);
  bool found = pbBarrier_MaxStep(w->barrier, &values, x, w->point, keep, &s) == pb_ok;
  PB_ASSERT(!found || (s > 0 && s <= 1));

  return found ? s : 0;
}

double pbDeform_MaxStep(pbDeformWork *w, const double *x, const double *step) {
  static const double keep = 0.1;  // of every gap: the rest is left to the next iterations
  return pbDeform_MaxStepTo(w, x, step, keep);
}

// Forces without a potential: their size in the metric of the inverse masses, which a step must decrease instead.
static double force_merit(const pbDeformWork *w, const double *gradient) {
  double sum = 0;
  for (int i = 0; i < 3 * w->d->npoint; i++) {
    double m = w->mass[i / 3];
    sum += gradient[i] * gradient[i] / (w->scheme->inertia && m > 0 ? m : 1);
  }

  return sqrt(sum);
}

static bool decreases_forces(pbDeformWork *w, double s) {
  double there, before = force_merit(w, w->gradient);
  if (pbDeform_Look(w, w->next_x, &there, w->y_bar, false, 0) != pb_ok || !(there < INFINITY)) return false;
  return force_merit(w, w->y_bar) <= (1 - PB_SUFFICIENT_DECREASE * s) * before + 1e-12 * w->force_size;
}

bool pbDeform_Decreases(pbDeformWork *w, double value, double s, double slope) {
  static const double small = 1e-6;  // of the scene
  int n = 3 * w->d->npoint;
  double there;

  PB_ASSERT(s >= 0 && s <= 1);

  for (int i = 0; i < n; i++) w->next_x[i] = w->x[i] - s * w->step[i];
  if (w->d->unsymmetric) return decreases_forces(w, s);

  // Armijo's condition, where the gain stands out from rounding.
  if (pbDeform_Look(w, w->next_x, &there, NULL, false, 0) != pb_ok) return false;
  double gain = value - PB_SUFFICIENT_DECREASE * s * slope - there, noise = rounding * fabs(value);
  if (gain > noise) return true;
  if (!(there < INFINITY) || (gain < -noise && s * pb_largest(w->step, n) > small * w->d->size)) return false;

  // Rounding hides the gain, or the move is very short: the slope there decides.
  if (pbDeform_Look(w, w->next_x, &there, w->y_bar, false, 0) != pb_ok) return false;

  return pb_dot(w->step, w->y_bar, n) >= (2 * PB_SUFFICIENT_DECREASE - 1) * slope || fabs(slope) <= 1e-10 * noise;
}

// x := x - s step for the largest s = 1, 1/2, ... of the longest step allowed that decreases the merit enough; false if none
// does.
static bool search_line(pbDeformWork *w, double value) {
  int n = 3 * w->d->npoint, most = w->d->unsymmetric ? force_halvings : pb_newtonHalvings;

  // The step goes against the gradient: slope is what the potential loses per unit of s.
  double slope = pb_dot(w->step, w->gradient, n), s = pbDeform_MaxStep(w, w->x, w->step);
  for (int k = 0; k < most; k++, s *= 0.5) {
    if (!pbDeform_Decreases(w, value, s, slope)) continue;
    memcpy(w->x, w->next_x, (size_t)n * sizeof(double));
    w->report.change = s * pb_largest(w->step, n);

    return true;
  }

  return false;
}

// step := H^-1 gradient.
static pbStatus newton_step(pbDeformWork *w) {
  memcpy(w->step, w->gradient, 3 * (size_t)w->d->npoint * sizeof(double));
  return pbDeform_Solve(w, false, w->step);
}

// Forces without a potential need no definite matrix: Newton's step decreases their size whatever the matrix is. *found: there is
// one.
static pbStatus step_by_forces(pbDeformWork *w, double *value, bool *found) {
  int negative;

  PB_TRY(pbDeform_Look(w, w->x, value, w->gradient, true, 0));
  pbStatus status = pbDeformMatrix_Factor(w, &negative);
  if (status == pb_ok) status = newton_step(w);
  *found = status == pb_ok;

  return status == pb_singular || status == pb_no_convergence ? pb_ok : status;
}

// One iteration: *length, the largest change of a coordinate by Newton's full step, and whether the search went along it.
static pbStatus iterate(pbDeformWork *w, double *length, bool *moved) {
  int n = 3 * w->d->npoint, projections = w->report.projections;
  double value;
  bool found = false;

  memcpy(w->preconditioner_x, w->x, (size_t)n * sizeof(double));
  w->preconditioner_valid = false;

  // Forces that are no gradient: with the matrix as it is, as long as that decreases them.
  if (w->d->unsymmetric) PB_TRY(step_by_forces(w, &value, &found));
  if (w->report.iterations == 1 && found) w->force_size = force_merit(w, w->gradient);
  *length = found ? pb_largest(w->step, n) : INFINITY;
  *moved = *length < INFINITY && search_line(w, value);
  if (*moved) return pb_ok;

  // Else a descent direction, by a definite matrix. If that needed no projection, its factor serves the adjoint.
  PB_TRY(pbDeform_LookDefinite(w, w->x, &value, w->gradient));
  PB_TRY(newton_step(w));
  w->preconditioner_valid = w->report.projections == projections;
  if (w->report.iterations == 1) w->force_size = force_merit(w, w->gradient);

  *length = found ? fmax(*length, pb_largest(w->step, n)) : pb_largest(w->step, n);
  if (!(*length < INFINITY)) return pbDeform_Fail(w, pb_not_finite, "Newton's step is not finite");
  *moved = search_line(w, value);

  return pb_ok;
}

// Positions are known to so many units in their last place; no step is smaller.
static double least_step(const pbDeformWork *w) { return 4 * DBL_EPSILON * pb_largest(w->x, 3 * w->d->npoint); }

double pbDeform_Tolerance(const pbDeform *d) { return d->options.tolerance > 0 ? d->options.tolerance : 1e-10 * d->size; }

double pbDeform_ToleranceAt(const pbDeformWork *w) { return fmax(pbDeform_Tolerance(w->d), least_step(w)); }

// Iterations until Newton's full step is below the tolerance, at most `most` of them.
static pbStatus descend(pbDeformWork *w, int most) {
  bool moved = true;
  double length = INFINITY, tolerance = pbDeform_ToleranceAt(w);

  w->report.converged = false;
  while (!w->report.converged && moved && w->report.iterations < most) {
    w->report.iterations++;
    PB_TRY(iterate(w, &length, &moved));
    w->report.converged = length <= tolerance;
  }

  if (!moved || !w->report.converged) w->report.change = length;
  if (w->report.converged || w->d->options.approximate) return pb_ok;

  return pbDeform_Fail(
      w, pb_no_convergence,
      "the step did not converge: after %d iterations Newton's method would still move points by %.3g m (tolerance "
      "%.3g)%s%s",
      w->report.iterations, length, tolerance, moved ? "" : ", and nothing along that direction is better: the search ended",
      pbDeform_Loose(w->d));
}

// Every free coordinate by up to a millionth of the scene, by the same numbers every time, from w->x to w->next_x; as far as
// contact and the energies let it.
static bool nudge(pbDeformWork *w) {
  static const double share = 1e-6;
  const pbDeform *d = w->d;
  int n = 3 * d->npoint;
  unsigned seed = 1;

  // A linear congruential generator (Press et al., ranqd1): no shared random state.
  for (int i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    w->step[i] = pbDeform_IsFixed(d, i) ? 0 : share * d->size * ((double)(seed >> 8) / (1 << 23) - 1);
  }

  double s = pbDeform_MaxStep(w, w->x, w->step), value;
  for (int k = 0; k < pb_newtonHalvings; k++, s *= 0.5) {
    for (int i = 0; i < n; i++) w->next_x[i] = w->x[i] - s * w->step[i];
    if (pbDeform_Look(w, w->next_x, &value, NULL, false, 0) == pb_ok && value < INFINITY) return true;
  }

  return false;
}

// An equilibrium that Newton's method reached by a matrix with negative pivots may be a saddle, as of a straight column under
// more than it bears: from nearby the method finds the direction down, if there is one.
static pbStatus leave_saddle(pbDeformWork *w, int most) {
  size_t bytes = 3 * (size_t)w->d->npoint * sizeof(double);
  double before, after;
  pbDeformReport there = w->report;

  PB_TRY(pbDeform_Look(w, w->x, &before, NULL, false, 0));

  // From beside the saddle the potential goes down, where it is one.
  memcpy(w->saddle, w->x, bytes);
  if (!nudge(w)) return pb_ok;

  memcpy(w->x, w->next_x, bytes);
  PB_TRY(descend(w, w->report.iterations + most));
  PB_TRY(pbDeform_Look(w, w->x, &after, NULL, false, 0));

  // No lower than before, up to rounding: it was a minimum, and its report stands.
  if (after < before - rounding * fabs(before)) return pb_ok;
  memcpy(w->x, w->saddle, bytes);
  there.iterations = w->report.iterations;
  w->report = there;
  w->preconditioner_valid = false;

  return pb_ok;
}

pbStatus pbDeform_Newton(pbDeformWork *w) {
  const pbDeform *d = w->d;
  int n = 3 * d->npoint, most = d->options.iterations ? d->options.iterations : pb_newtonIterations;
  double value;

  w->report = (pbDeformReport){0};
  w->project = 0;
  PB_TRY(pbDeform_Look(w, w->x, &value, NULL, false, 0));
  if (!(value < INFINITY)) PB_TRY(pbDeform_Look(w, w->x, &value, w->gradient, false, 0));  // names the element

  PB_TRY(descend(w, most));

  // A static equilibrium found with projected matrices may be no minimum.
  bool at_rest = !w->scheme->inertia && !d->unsymmetric;

  if (at_rest && w->report.converged && !w->preconditioner_valid) PB_TRY(leave_saddle(w, most));

  w->report.residual = w->report.change / d->size;
  w->report.force = pb_largest(w->gradient, n) / pbDeform_Scale(w);

  return pb_ok;
}

pbStatus pbDeform_Factor(pbDeformWork *w) {
  double value;
  PB_TRY(pbDeform_Look(w, w->x, &value, NULL, true, 0));

  // The true Hessian, unprojected: of a step with inertia it may be indefinite, of an equilibrium it may not.
  PB_TRY(pbDeformMatrix_Factor(w, &w->report.negative));

  // Nothing but energies holds an equilibrium, and of a pivot that is rounding the sign is, too.
  if (w->scheme->inertia || w->d->unsymmetric) return pb_ok;
  PB_TRY(pbDeformMatrix_RefuseRounding(w));
  if (w->report.negative == 0) return pb_ok;

  return pbDeform_Fail(
      w, pb_singular,
      "the equilibrium is no minimum: its matrix has %d negative pivots, so it is a saddle (what stands straight under more "
      "than it bears), and a small push changes it by more than any derivative says",
      w->report.negative);
}
