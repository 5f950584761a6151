// What the coupled step (couple_step.c) and its derivatives (couple_vjp.c, couple_jvp.c, couple_rest.c) have in common; in
// couple.c.
#ifndef PB_COUPLE_PARTS_H
#define PB_COUPLE_PARTS_H

#include "couple/couple.h"

// Offset of coordinate i of the free points, or of the attached points, in vectors over all points.
static inline int pb_freeAt(const pbDeform *d, int i) { return 3 * d->point[i / 3] + i % 3; }
static inline int pb_attachedAt(const pbDeform *d, int i) { return 3 * d->attached[i / 3] + i % 3; }

// Positions of the attached points between a vector of theirs (3 per point) and one over all points.
void pbCouple_Scatter(const pbDeform *d, const double *attached, double *points);
void pbCouple_Gather(const pbDeform *d, const double *points, double *attached);
// Velocities of attached points in a state or cotangent of the deformables' part: they are those of the bodies, and stand there
// as zero.
void pbCouple_ClearVelocities(const pbDeform *d, double *state);
// sum + sign row . x over the free points; row: 3 nfree numbers, x: over all points.
double pbCouple_AddFree(const pbDeform *d, double sum, double sign, const double *row, const double *x);

// State x, input (may be NULL), theta and a direction of theta (NULL: none) for what is asked of attached points next, at c->acc.
void pbCouple_LoadAttachments(pbScratch *s, const double *theta, const double *x, const pbInput *input,
                              const double *theta_tangent);
// Positions at the start of a step from x, or after a step with accelerations `acc`, into `points` (npoint x 3).
void pbCouple_PlaceAtStart(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *points);
void pbCouple_PlaceAt(pbScratch *s, const double *acc, double *points);

// The start of a step for the deformables: `state` becomes their part of x with the attached points where bodies have them.
PB_NODISCARD pbStatus pbCouple_Begin(pbScratch *s, const double *theta, const double *x, const pbInput *input, double *state);
// The same for a recorded step, at its solution: c->state, c->acc and the free points. *next: its state after the step.
PB_NODISCARD pbStatus pbCouple_LoadSolution(pbScratch *s, const pbStepRecord *step, const double **next);
// a' D b, D = h B the joints' dampers (c->damping): Phi gains 1/2 a' D a.
static inline double pbCouple_DampedProduct(const pbCouple *c, const double *a, const double *b) {
  double sum = 0;
  for (int k = 0; k < c->attached.n; k++) sum += c->damping[k] * a[k] * b[k];
  return sum;
}
// V, its derivatives and those of P at (c->acc, w->x), with a factor of Hxx; definite: of Hxx made positive definite.
PB_NODISCARD pbStatus pbCouple_Linearize(pbScratch *s, bool definite, double *value);
// After it: columns, S and g; w->step = Hxx^-1 V_x.
PB_NODISCARD pbStatus pbCouple_Eliminate(pbScratch *s);
// The bodies' solver takes the quadratic along, or no more.
void pbCouple_UseModel(pbScratch *s, bool on);

// Adds the derivative of end_bar . P - lam . tau + start_bar . (positions at the start) by all parameters of theta; by poses of
// mocap bodies (bar may be NULL).
void pbCouple_PullParameters(pbScratch *s, const double *theta, double *theta_bar);
void pbCouple_PullMocap(pbScratch *s, const pbInputBar *bar);
// The same by a direction: of theta that was loaded, and `tangent`.
double pbCouple_Pull(pbScratch *s, const pbAttachmentTangent *tangent);
// Tangents of positions at the start (start_tangent) and the end (x_tangent), and of tau with c->force held (tau_tangent).
void pbCouple_PushAttachments(pbScratch *s, const pbStepRecord *step, const pbDirection *direction);
// to += from (n numbers) where there is a `to`.
void pbCouple_AddTo(double *to, const double *from, int n);

// The status of a call, with a text where it failed and none was written since `failures`; pb_capacity where room for contacts
// was too small, whatever came of that.
PB_NODISCARD pbStatus pbCouple_Settle(pbScratch *s, pbStatus status, unsigned failures);

#endif
