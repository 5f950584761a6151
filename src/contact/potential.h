// Potentials s of constraint rows: value, force f = -ds/dx and Hessian K = d2s/dx2 at the residual x = J a - aref, and the zone
// (active set; eval/row.h) that x lies in. Derivatives of the forces by what a potential is made of (D, mu, friction, impratio,
// loss) stand in potential_adjoint.c, function by function in the same order.
//
//   equality                quadratic     1/2 sum D_i x_i^2
//   friction loss           Huber         quadratic within |x| < R loss, linear with slope +-loss beyond
//   limit, contact of one row             one-sided: 1/2 D min(0, x)^2
//   contact, pyramidal                    one-sided along each edge, normal +- mu_k tangent_k
//   contact, elliptic       three zones   by x and the friction cone: none, 1/2 D_m (N - mu T)^2, quadratic
//
// Sharp (MuJoCo's: zero on one side) for kappa = 0; smoothed for kappa > 0 (include/pullback/contact.h).
#ifndef PB_POTENTIAL_H
#define PB_POTENTIAL_H

#include "eval/constraints.h"
#include "eval/row.h"
#include "number/number.h"

// Where a potential is evaluated, and what it gives besides its value.
typedef struct NUM(pbPotential) {
  const num *x;  // dim
  num *f;        // dim
  num *K;        // dim x dim, row-major; not set where the zone is open; NULL: not wanted
  int zone;
} NUM(pbPotential);

// Value of a row's potential at p->x; sets f, K and the zone.
num NUM(pbPotential_At)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, NUM(pbPotential) *p);
// The same at the row's own x, into its f, K and zone.
num NUM(pbRow_Evaluate)(const NUM(pbConstraints) *w, NUM(pbRow) *r);

// ---- one side ---------------------------------------------------------------------------------------------------------
// phi(x) = (sqrt(x^2 + 4 kappa) - x) / 2, free of cancellation, with its root: the smoothed max(0, -x); phi' = -phi / root
// (Chen-Harker-Kanzow-Smale).
static inline num pb_smooth_side(num x, double kappa, num *root) {
  num s = num_sqrt(x * x + 4 * kappa);
  *root = s;
  return re(x) > 0 ? 2 * kappa / (s + x) : 0.5 * (s - x);
}

// Force D phi and curvature D slope of one side. False: none here (only for kappa = 0).
static inline bool pb_side(num x, double kappa, num *phi, num *slope) {
  if (kappa > 0) {
    num root;
    *phi = pb_smooth_side(x, kappa, &root);
    *slope = *phi / root;
    return true;
  }

  *phi = -x;
  *slope = 1;
  return re(x) < 0;
}

#include "contact/potential_number.h"
#if !PB_IS_COMPLEX
#include "number/complex_begin.h"
#include "contact/potential_number.h"
#include "number/complex_end.h"
#endif

#endif
