// y . df of the row potentials by their parameters, function by function in the order of potential.c. All forces are
// proportional to D and pass the cotangent of its logarithm on, g_i = y_i f_i.
// Tests: tests/unit/test_potential.c, tests/unit/test_contact.c, tests/oracle/test_stages.py.
#include "contact/potential.h"

#include "contact/row_adjoint.h"

typedef LANE(pbRowBar) row_bar;

// ---- smooth on each side ----------------------------------------------------------------------------------------------
// f_i = -D_i x_i, at fixed x: d f_i = f_i d ln D_i; the same for one side, f = D phi(x).
static void pull_quadratic(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  lane g[6];
  for (int i = 0; i < r->dim; i++) g[i] = bar->y[i] * bar->f[i];
  LANE(pbRow_PullRegularization)(w, r, r->dim, g, bar);
}

// f is a bound where it is saturated, d f = d bound, else -D x.
static void pull_bounded(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  if (r->zone == pb_lossQuadratic) pull_quadratic(w, r, bar);
  else bar->bound[r->zone == pb_lossAbove ? 0 : 1] += bar->y[0];
}

// ---- contacts ---------------------------------------------------------------------------------------------------------
// The force of a cone is proportional to D_0, d f = f d ln D_0 (a pyramid's to that of its edges). Returns y . f.
static lane pull_first_D(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  lane g = PB_LANE_ZERO;
  for (int i = 0; i < r->dim; i++) g += bar->y[i] * bar->f[i];
  LANE(pbRow_PullRegularization)(w, r, 1, &g, bar);
  return g;
}

// Edges e = (1, m) in the plane of normal and tangent k, m = +-mu_k, x_e = x_0 + m x_k, f = sum of D phi(x_e) e. With
// slope = -phi': d f_0 = -D slope x_k d m, d f_k = D (phi - slope m x_k) d m.
static void pull_pyramid(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  const num *mu = w->contact[r->contact].friction;
  pull_first_D(w, r, bar);

  // By m = +-mu_k: the share of the edge's force on the tangent, and the force through its residual.
  for (int k = 1; k < r->dim; k++) {
    for (int side = 0; side < 2; side++) {
      num sign = side ? -1 : 1;
      num m = sign * mu[k - 1];
      num phi, slope;
      if (!pb_side(r->x[0] + m * r->x[k], w->m->contact.kappa, &phi, &slope)) continue;
      bar->friction[k - 1] += sign * r->edge_D * (phi * bar->y[k] - slope * r->x[k] * (bar->y[0] + m * bar->y[k]));
    }
  }
}

// Bottom zone: f_j = -D_j x_j with ln D_j = ln D_0 + ln impratio - 2 ln friction_0 + 2 ln friction_j, so for j > 0
//   d f_j = f_j (d ln D_0 + d impratio / impratio - 2 d friction_0 / friction_0 + 2 d friction_j / friction_j)
// of which pull_first_D has the first.
static void pull_cone_bottom(const NUM(pbRow) *r, const num *friction, num impratio, row_bar *bar) {
  for (int k = 1; k < r->dim; k++) {
    lane g = bar->y[k] * bar->f[k];
    bar->impratio += g / impratio;
    bar->friction[0] -= 2 * g / friction[0];
    bar->friction[k - 1] += 2 * g / friction[k - 1];
  }
}

// Middle zone: y . f = c (x_0 - T) (y_0 - W), c = -D_0 / (1 + mu^2), T^2 = sum of (friction_k x_k)^2, W = sum of friction_k^2 x_k
// y_k / T:
//   d (y . f) = (y . f) (d ln D_0 - 2 mu d mu / (1 + mu^2)) - c ((y_0 - W) d T + (x_0 - T) d W)
//   d mu = mu (d friction_0 / friction_0 - d impratio / (2 impratio)),  d T = sum of friction_k x_k^2 / T d friction_k
//   d W = sum of (2 friction_k x_k y_k d friction_k) / T - W / T d T
static void pull_cone_middle(const NUM(pbRow) *r, const num *friction, num impratio, lane yf, row_bar *bar) {
  num m = r->mu;
  num c = -r->D[0] / (1 + m * m);
  num T = 0;
  lane W = PB_LANE_ZERO;

  for (int k = 1; k < r->dim; k++) T += friction[k - 1] * friction[k - 1] * r->x[k] * r->x[k];
  T = num_sqrt(T);
  for (int k = 1; k < r->dim; k++) W += friction[k - 1] * friction[k - 1] * r->x[k] / T * bar->y[k];

  // By mu = friction_0 / sqrt(impratio), in c.
  lane m_bar = -yf * 2 * m / (1 + m * m);
  bar->friction[0] += m_bar * m / friction[0];
  bar->impratio -= m_bar * m / (2 * impratio);

  // By friction_k, in T and W.
  num e = r->x[0] - T;
  lane g = bar->y[0] - W;
  for (int k = 1; k < r->dim; k++) {
    num dT = friction[k - 1] * r->x[k] * r->x[k] / T;
    lane dW = 2 * friction[k - 1] * r->x[k] / T * bar->y[k] - W / T * dT;
    bar->friction[k - 1] += c * (-dT * g - e * dW);
  }
}

static void pull_cone(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  const num *friction = w->contact[r->contact].friction;
  num impratio = w->p.impratio[0];
  lane yf = pull_first_D(w, r, bar);
  if (r->zone == pb_coneBottom) pull_cone_bottom(r, friction, impratio, bar);
  else pull_cone_middle(r, friction, impratio, yf, bar);
}

#if PB_LANES == 1
// d f of pbCone_Smooth by complex step, an input at a time: mu, d mu as above, and the frictions. By D: pull_first_D.
void LANE(pbPotential_PullSmoothCone)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  if (!pb_elliptic(w->m, r) || !(w->m->contact.kappa > 0)) return;

  const num *friction = w->contact[r->contact].friction;
  _Complex double x[6], input[6], f[6];  // input: mu, then the frictions
  input[0] = r->mu;
  for (int k = 0; k < r->dim; k++) x[k] = r->x[k];
  for (int k = 1; k < r->dim; k++) input[k] = friction[k - 1];

  // Input 0 is mu, input k the friction of tangent k.
  for (int k = 0; k < r->dim; k++) {
    num g = 0;
    __imag__ input[k] = PB_IMAG_STEP;
    pbCone_Smooth_c(r->dim, x, r->D[0], input[0], input + 1, w->m->contact.kappa, f, NULL);
    __imag__ input[k] = 0;
    for (int i = 0; i < r->dim; i++) g += bar->y[i] * (__imag__ f[i] / PB_IMAG_STEP);

    if (k) {
      bar->friction[k - 1] += g;
    } else {  // mu = friction_0 / sqrt(impratio)
      bar->friction[0] += g * r->mu / friction[0];
      bar->impratio -= g * r->mu / (2 * w->p.impratio[0]);
    }
  }
}
#endif

// ---- all --------------------------------------------------------------------------------------------------------------
static void pull_contact(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  if (r->dim == 1) pull_quadratic(w, r, bar);
  else if (w->m->cone != pb_coneElliptic) pull_pyramid(w, r, bar);
  else if (w->m->contact.kappa > 0) pull_first_D(w, r, bar);
  else pull_cone(w, r, bar);
}

void LANE(pbPotential_Pull)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  switch (pb_row_law(r->kind)) {
    case pb_lawBounded: pull_bounded(w, r, bar); return;
    case pb_lawContact: pull_contact(w, r, bar); return;
    default: pull_quadratic(w, r, bar);
  }
}
