// Potentials of constraint rows: value, force and Hessian (potential.h). Their derivatives by parameters: potential_adjoint.c.
// Tests: tests/unit/test_potential.c, tests/unit/test_contact.c, tests/oracle/test_stages.py.
#include "contact/potential.h"

#include "base/assert.h"
#include "contact/row.h"
#include "elementary/elementary.h"
#include "eval/contact.h"

typedef NUM(pbPotential) point;

// ---- smooth on each side ----------------------------------------------------------------------------------------------
// 1/2 sum D_i x_i^2.
static num quadratic(const NUM(pbRow) *r, point *p) {
  num cost = 0;
  if (p->K && r->dim > 1) memset(p->K, 0, sizeof(num) * (size_t)(r->dim * r->dim));

  // K is diagonal; a single row needs no clearing.
  for (int k = 0; k < r->dim; k++) {
    p->f[k] = -r->D[k] * p->x[k];
    cost += 0.5 * r->D[k] * p->x[k] * p->x[k];
    if (p->K) p->K[k * r->dim + k] = r->D[k];
  }

  p->zone = pb_zoneActive;
  return cost;
}

// Huber's function: 1/2 D x^2 where the force -D x is within its bounds, beyond them the line -f (x + 1/2 R f) of the bound f.
static num bounded(const NUM(pbRow) *r, point *p) {
  num x = p->x[0];
  num low = -r->R[0] * r->bound[1];
  num high = -r->R[0] * r->bound[0];

  if (re(x) > re(low) && re(x) < re(high)) {
    num cost = quadratic(r, p);
    p->zone = pb_lossQuadratic;
    return cost;
  }

  // Saturated: the bound against the motion, and no curvature.
  bool above = re(x) > 0.5 * (re(low) + re(high));
  p->zone = above ? pb_lossAbove : pb_lossBelow;
  p->f[0] = r->bound[above ? 0 : 1];
  if (p->K) p->K[0] = 0;
  return -p->f[0] * (x + 0.5 * r->R[0] * p->f[0]);
}

// ---- one-sided --------------------------------------------------------------------------------------------------------
static num no_force(const NUM(pbRow) *r, point *p) {
  p->zone = pb_zoneOpen;
  for (int k = 0; k < r->dim; k++) p->f[k] = 0;
  return 0;
}

static double arsinh(double x) {
  double size = fabs(x);
  return copysign(pbLog1p(size + size * (size / (1 + pbHypot(1, size)))), x);
}

// Value of one side, pb_side; used only to compare two points.
static double side_cost(double x, double D, double kappa) {
  if (kappa > 0) {
    double root = sqrt(x * x + 4 * kappa);
    return D * (0.25 * x * x - 0.25 * x * root - kappa * arsinh(x / (2 * sqrt(kappa))));
  }
  return x < 0 ? 0.5 * D * x * x : 0;
}

// 1/2 D min(0, x)^2.
static num one_sided(const NUM(pbRow) *r, double kappa, point *p) {
  num phi, slope;
  if (!pb_side(p->x[0], kappa, &phi, &slope)) return no_force(r, p);

  p->f[0] = r->D[0] * phi;
  if (p->K) p->K[0] = r->D[0] * slope;
  p->zone = pb_zoneActive;
  return side_cost(re(p->x[0]), re(r->D[0]), kappa);
}

// K += curve e e' of the edge e = (1, ..., m at k, ...).
static void add_edge_curvature(int n, int k, num m, num curve, num *K) {
  K[0] += curve;
  K[k] += curve * m;
  K[k * n] += curve * m;
  K[k * n + k] += curve * m * m;
}

// Edges normal +- mu_k tangent_k, each one-sided with the same D.
static num pyramid(const num *mu, const NUM(pbRow) *r, double kappa, point *p) {
  int n = r->dim;
  int zone = pb_zoneOpen;
  num D = r->edge_D;
  num cost = 0;

  for (int k = 0; k < n; k++) p->f[k] = 0;
  if (p->K) {
    for (int k = 0; k < n * n; k++) p->K[k] = 0;
  }

  for (int k = 1; k < n; k++) {
    for (int side = 0; side < 2; side++) {
      num m = side ? -mu[k - 1] : mu[k - 1];
      num x = p->x[0] + m * p->x[k];
      num phi, slope;
      if (!pb_side(x, kappa, &phi, &slope)) continue;

      // The edge pushes with D phi: on the normal, and by its share m on the tangent.
      zone |= pb_edge_bit(k, side);
      cost += side_cost(re(x), re(D), kappa);
      p->f[0] += D * phi;
      p->f[k] += D * m * phi;
      if (p->K) add_edge_curvature(n, k, m, D * slope, p->K);
    }
  }

  p->zone = zone;
  return cost;
}

// ---- elliptic cone ----------------------------------------------------------------------------------------------------
// Middle zone, 1/2 Dm (N - mu T)^2 with N = mu x_0, U_j = friction_j x_j, T = |U|, Dm = D_0 / (mu^2 (1 + mu^2)).
static num cone_middle(const num *friction, const NUM(pbRow) *r, const num *U, num T2, num T, point *p) {
  int n = r->dim;
  num mu = r->mu;
  num Dm = r->D[0] / (mu * mu * (1 + mu * mu));
  num e = mu * p->x[0] - mu * T;
  num slope[6];

  // Force -Dm e de/dx.
  slope[0] = mu;
  for (int k = 1; k < n; k++) slope[k] = -mu * friction[k - 1] * U[k] / T;
  for (int k = 0; k < n; k++) p->f[k] = -Dm * e * slope[k];
  p->zone = pb_coneMiddle;
  if (!p->K) return 0.5 * Dm * e * e;

  // Curvature Dm (de/dx de/dx' + e d2e/dx2), d2T/dU2 = (1 - U U' / T^2) / T.
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      num h = Dm * slope[i] * slope[j];
      if (i && j) {
        num curve = ((i == j ? 1 : 0) - U[i] * U[j] / T2) / T;
        h -= Dm * e * mu * friction[i - 1] * friction[j - 1] * curve;
      }
      p->K[i * n + j] = h;
    }
  }
  return 0.5 * Dm * e * e;
}

// MuJoCo's elliptic cone (manual, computation/constraint solver): which of three zones holds N = mu x_0 and T = |friction_j x_j|.
static num cone(const num *friction, const NUM(pbRow) *r, point *p) {
  num mu = r->mu;
  num N = mu * p->x[0];
  num U[6], T2 = 0, T = 0;

  for (int k = 1; k < r->dim; k++) {
    U[k] = friction[k - 1] * p->x[k];
    T2 += U[k] * U[k];
  }
  if (re(T2) > 0) T = num_sqrt(T2);
  bool sliding = re(T) > 0;

  // Top zone, x_0 >= T, the dual of the friction cone: the contact separates and carries no force.
  if (re(N) >= re(mu) * re(T) || (!sliding && re(N) >= 0)) return no_force(r, p);

  // Bottom zone, mu^2 x_0 <= -T, the polar of the top zone in the metric of D: -D x is inside the friction cone, so the contact
  // sticks with that force.
  if (re(mu) * re(N) + re(T) <= 0 || (!sliding && re(N) < 0)) {
    num cost = quadratic(r, p);
    p->zone = pb_coneBottom;
    return cost;
  }

  // Middle zone: the contact slides, its force lies on the friction cone.
  return cone_middle(friction, r, U, T2, T, p);
}

// f_0 = D / c (phi(a) + mu^2 phi(b)), and for tangents f_j = -D / mu^2 friction_j^2 x_j q, q = (phi(a) + phi(b)) / (root(a) +
// root(b)): no division by T.
void NUM(pbCone_Smooth)(int n, const num *x, num D, num mu, const num *friction, double kappa, num *f, num *K) {
  num U[6], T2 = 0, T = 0;
  for (int k = 1; k < n; k++) {
    U[k] = friction[k - 1] * x[k];
    T2 += U[k] * U[k];
  }
  if (re(T2) > 0) T = num_sqrt(T2);

  // The two sides.
  num c = num_sqrt(1 + mu * mu);
  num a = (x[0] - T) / c;
  num b = (x[0] + T / (mu * mu)) / c;
  num root_a, root_b;
  num phi_a = pb_smooth_side(a, kappa, &root_a);
  num phi_b = pb_smooth_side(b, kappa, &root_b);
  num q = (phi_a + phi_b) / (root_a + root_b);
  num E = D / (mu * mu);

  f[0] = D / c * (phi_a + mu * mu * phi_b);
  for (int k = 1; k < n; k++) f[k] = -E * q * friction[k - 1] * U[k];
  if (!K) return;

  // Slopes: da/dT, db/dT; -phi'(a), -phi'(b); dq/dT.
  num a_T = -1 / c;
  num b_T = 1 / (mu * mu * c);
  num slope_a = phi_a / root_a;
  num slope_b = phi_b / root_b;
  num q_T = -(slope_a * a_T + slope_b * b_T + q * (a / root_a * a_T + b / root_b * b_T)) / (root_a + root_b);
  num cross = re(T) > 0 ? D / (c * c) * (slope_b - slope_a) / T : 0;

  K[0] = D / (c * c) * (slope_a + mu * mu * slope_b);
  for (int i = 1; i < n; i++) {
    K[i] = K[i * n] = cross * friction[i - 1] * U[i];
    for (int j = 1; j < n; j++) {
      num bend = re(T) > 0 ? q_T * U[i] * U[j] / T : 0;
      K[i * n + j] = E * friction[i - 1] * friction[j - 1] * ((i == j ? q : 0) + bend);
    }
  }
}

// The elliptic cone smoothed: everywhere active.
static num smooth_cone(const num *friction, const NUM(pbRow) *r, double kappa, point *p) {
  double mu = re(r->mu);
  double D = re(r->D[0]);

  NUM(pbCone_Smooth)(r->dim, p->x, r->D[0], r->mu, friction, kappa, p->f, p->K);
  p->zone = pb_zoneActive;

  // Values of the two sides; that of b with D and kappa in its scale, mu b.
  double T = 0;
  for (int k = 1; k < r->dim; k++) T += re(friction[k - 1] * p->x[k]) * re(friction[k - 1] * p->x[k]);
  T = sqrt(T);
  double c = sqrt(1 + mu * mu);
  return side_cost((re(p->x[0]) - T) / c, D, kappa) + side_cost((mu * re(p->x[0]) + T / mu) / c, D, mu * mu * kappa);
}

// ---- given forces -----------------------------------------------------------------------------------------------------
// -f . x: the row's force was given (penalty.h) and has no curvature.
static num linear(const NUM(pbRow) *r, point *p) {
  num cost = 0;
  if (p->K) memset(p->K, 0, sizeof(num) * (size_t)(r->dim * r->dim));

  for (int k = 0; k < r->dim; k++) {
    p->f[k] = r->f[k];
    cost -= r->f[k] * p->x[k];
  }

  p->zone = re(r->f[0]) > 0 ? pb_zoneActive : pb_zoneOpen;
  return cost;
}

// ---- all --------------------------------------------------------------------------------------------------------------
static num contact_potential(const NUM(pbConstraints) *w, const NUM(pbRow) *r, point *p) {
  const num *friction = w->contact[r->contact].friction;
  double kappa = w->m->contact.kappa;
  if (r->dim == 1) return one_sided(r, kappa, p);
  PB_ASSERT(!(re(r->mu) <= 0));
  if (w->m->cone != pb_coneElliptic) return pyramid(friction, r, kappa, p);
  return kappa > 0 ? smooth_cone(friction, r, kappa, p) : cone(friction, r, p);
}

num NUM(pbPotential_At)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, point *p) {
  if (pb_explicit(w->m, r)) return linear(r, p);
  switch (pb_row_law(r->kind)) {
    case pb_lawEquality: return quadratic(r, p);
    case pb_lawBounded: return bounded(r, p);
    case pb_lawOneSided: return one_sided(r, w->m->contact.kappa, p);
    default: return contact_potential(w, r, p);
  }
}

// Is the Hessian of a row that pushes symmetric but for rounding?
static bool is_symmetric(const NUM(pbRow) *r) {
  int n = r->zone == pb_zoneOpen ? 0 : r->dim;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < i; j++) {
      double a = re(r->K[i * n + j]), b = re(r->K[j * n + i]);
      if (fabs(a - b) > 1e-9 * (fabs(re(r->K[i * n + i])) + fabs(re(r->K[j * n + j])))) return false;
    }
  }
  return true;
}

num NUM(pbRow_Evaluate)(const NUM(pbConstraints) *w, NUM(pbRow) *r) {
  point p = {.x = r->x, .f = r->f, .K = r->K};
  num cost = NUM(pbPotential_At)(w, r, &p);
  r->zone = p.zone;
  PB_VALIDATE(is_symmetric(r));
  return cost;
}
