// Laws of hard contact (law.h): projections on the forces that a row may have, sharp or smoothed by kappa, and their slopes.
// Tests: tests/unit/test_hard.c.
#include "contact/law.h"

#include "base/assert.h"
#include "contact/row.h"
#include "eval/work.h"

// ---- projections --------------------------------------------------------------------------------------------------------
// Smoothed max(0, y) and its slope (Chen-Harker-Kanzow-Smale); sharp at kappa = 0.
static double positive(double y, double kappa, double *slope) {
  if (!(kappa > 0)) {
    *slope = y > 0;
    return fmax(0, y);
  }

  // Without cancellation for y < 0.
  double root = sqrt(y * y + 4 * kappa);
  double value = y < 0 ? 2 * kappa / (root - y) : 0.5 * (y + root);
  *slope = value / root;
  return value;
}

// Projects y (n entries) on the disk of a radius: y radius / max(radius, |y|), with max(a, b) = a + positive(b - a). Of the
// derivative: Q by y (n x n), g by the radius, unless they are NULL.
static void on_disk(int n, double radius, double kappa, double *y, double *Q, double *g) {
  double square = kappa;
  for (int j = 0; j < n; j++) square += y[j] * y[j];

  // scale: radius / max(radius, |y|), 1 inside.
  double slope;
  double size = sqrt(square);
  double most = radius + positive(size - radius, kappa, &slope);
  double scale = most > 0 ? radius / most : 0;

  // scale = radius / most, d(most) = (1 - slope) d(radius) + slope d|y|.
  if (Q) {
    for (int i = 0; i < n; i++) {
      g[i] = most > 0 ? y[i] / most * (1 - radius / most * (1 - slope)) : 0;
      for (int j = 0; j < n; j++) {
        double along = most > 0 && size > 0 ? scale / most * slope * y[i] * y[j] / size : 0;
        Q[i * n + j] = scale * (i == j) - along;
      }
    }
  }
  for (int j = 0; j < n; j++) y[j] *= scale;
}

// Sum of |y_j| - cut over what is beyond the cut, its slope by the cut (<= 0); smoothed.
static double beyond(int n, const double *y, double cut, double kappa, double *by_cut) {
  double sum = 0;
  *by_cut = 0;
  for (int j = 0; j < n; j++) {
    double up, down;
    sum += positive(y[j] - cut, kappa, &up) + positive(-y[j] - cut, kappa, &down);
    *by_cut -= up + down;
  }
  return sum;
}

// The cut at which that sum is the radius; 0 where it is less at once. Sharp: entries that the cut takes whole drop out one after
// the other (Duchi et al. 2008). sign: of the entries beyond, 0 of the others.
static double sharp_cut(int n, const double *y, double radius, double *sign) {
  double sum = 0;
  for (int j = 0; j < n; j++) {
    sign[j] = y[j] < 0 ? -1 : 1;
    sum += fabs(y[j]);
  }
  if (sum <= radius) return 0;

  // What is left of the sum is cut by equal amounts; who would change sign drops out.
  double cut = 0;
  int count = n;
  bool dropped = true;
  while (dropped) {
    cut = (sum - radius) / count;
    dropped = false;
    for (int j = 0; j < n && count > 1; j++) {
      if (sign[j] == 0 || fabs(y[j]) > cut) continue;
      sum -= fabs(y[j]);
      sign[j] = 0;
      count--;
      dropped = true;
    }
  }

  return cut;
}

// The same smoothed: cut (radius - sum) = kappa. sum - radius + kappa / cut is convex and falls: Newton's method from the left.
static double find_cut(int n, const double *y, double radius, double kappa) {
  double sign[5], slope;
  double cut = sharp_cut(n, y, radius, sign);

  cut = fmax(cut, kappa / fmax(radius, sqrt(kappa)));

  PB_ASSERT(kappa > 0 && !(cut <= 0));

  // The first guess is a lower bound of the root.
  for (int it = 0; it < 100; it++) {
    double sum = beyond(n, y, cut, kappa, &slope);
    double move = (sum - radius + kappa / cut) / (kappa / (cut * cut) - slope);
    cut += move;
    if (!(move > 1e-14 * cut)) break;
  }

  return cut;
}

// Projects on the section of the linearized cone: the sum of |y_j| is at most the radius.
static void on_sharp_linear(int n, double radius, double *y, double *Q, double *g) {
  double sign[5];
  double cut = sharp_cut(n, y, radius, sign);
  double count = 0;  // entries that stay, where there is a cut

  if (cut > 0) {
    for (int j = 0; j < n; j++) count += fabs(sign[j]);
  }

  // d(cut) = (sum of sign_j dy_j - d(radius)) / count, over the entries that stay.
  if (Q) {
    for (int i = 0; i < n; i++) {
      g[i] = count > 0 ? sign[i] / count : 0;
      for (int j = 0; j < n; j++) Q[i * n + j] = (i == j) * fabs(sign[i]) - (count > 0 ? sign[i] * sign[j] / count : 0);
    }
  }
  for (int j = 0; j < n; j++) y[j] = sign[j] * fmax(0, fabs(y[j]) - cut);
}

// The same smoothed.
static void on_smooth_linear(int n, double radius, double kappa, double *y, double *Q, double *g) {
  // cut (radius - sum) = kappa: how the cut moves with the radius (pull); with y_j by -odd_j of that.
  double by_cut;
  double cut = find_cut(n, y, radius, kappa);
  double sum = beyond(n, y, cut, kappa, &by_cut);
  double pull = 1 / (by_cut + (sum - radius) / cut);

  double both[5], odd[5];
  for (int j = 0; j < n; j++) {
    double up, down;
    y[j] = positive(y[j] - cut, kappa, &up) - positive(-y[j] - cut, kappa, &down);
    both[j] = up + down;
    odd[j] = up - down;
  }

  if (!Q) return;
  for (int i = 0; i < n; i++) {
    g[i] = -odd[i] * pull;
    for (int j = 0; j < n; j++) Q[i * n + j] = (i == j) * both[i] + odd[i] * odd[j] * pull;
  }
}

// The same in a box: each |y_j| is at most the radius.
static void in_box(int n, double radius, double *y, double *Q, double *g) {
  // Entries are independent: the derivative is 1 inside and 0 outside, where they follow the radius.
  for (int i = 0; i < n; i++) {
    bool inside = fabs(y[i]) <= radius;
    double sign = y[i] > 0 ? 1 : -1;
    if (Q) {
      for (int j = 0; j < n; j++) Q[i * n + j] = inside && i == j;
      g[i] = inside ? 0 : sign;
    }
    if (!inside) y[i] = sign * radius;
  }
}

static void project_friction(const NUM(pbWork) *w, int n, double radius, double *y, double *Q, double *g) {
  double kappa = w->dual.kappa;
  PB_ASSERT(n >= 1 && n <= 5 && !(radius < 0) && kappa >= 0);
  switch (w->m->contact.method) {
    case pb_contactSweeps: in_box(n, radius, y, Q, g); return;
    case pb_contactLcp:
      if (kappa > 0) on_smooth_linear(n, radius, kappa, y, Q, g);
      else on_sharp_linear(n, radius, y, Q, g);
      return;
    default: on_disk(n, radius, kappa, y, Q, g);
  }
}

// ---- rows ---------------------------------------------------------------------------------------------------------------
// Scaled friction f / mu - rho mu w, before it is projected.
static void friction_trial(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x, double *y) {
  for (int j = 1; j < r->dim; j++) y[j - 1] = f[j] / row_mu(w, r, j) - w->dual.rho[r->at + j] * row_mu(w, r, j) * x[j];
}

// Projection between the bounds of a row's force; slopes by y and by both bounds.
static double between(double y, const NUM(pbRow) *r, double kappa, double *by_y, double by_bound[2]) {
  double up, down;
  double least = re(r->bound[0]);
  double most = re(r->bound[1]);
  double value = least + positive(y - least, kappa, &up) - positive(y - most, kappa, &down);

  // sharp: no digits of a small force are lost against large bounds
  if (!(kappa > 0)) value = fmin(fmax(y, least), most);
  *by_y = up - down;
  by_bound[0] = 1 - up;
  by_bound[1] = down;
  return value;
}

void NUM(pbLaw_Misfit)(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x, double *out) {
  const double *rho = w->dual.rho + r->at;
  double trial = f[0] - rho[0] * x[0];
  double y[5], slope, by_bound[2];
  PB_ASSERT(!(rho[0] <= 0));

  // Equalities take any force; friction loss and servos are bounded on both sides.
  if (r->kind == pb_rowEquality) {
    for (int j = 0; j < r->dim; j++) out[j] = -rho[j] * x[j];
    return;
  }
  if (pb_bounded(r)) {
    out[0] = between(trial, r, w->dual.kappa, &slope, by_bound) - f[0];
    return;
  }

  // Limits and normals push only; friction is bounded by the normal force.
  out[0] = positive(trial, w->dual.kappa, &slope) - f[0];
  if (r->dim == 1) return;
  friction_trial(w, r, f, x, y);
  project_friction(w, r->dim - 1, fmax(0, f[0]), y, NULL, NULL);
  for (int j = 1; j < r->dim; j++) out[j] = y[j - 1] * row_mu(w, r, j) - f[j];
}

bool NUM(pbLaw_Held)(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x) {
  if (w->dual.kappa > 0 || !is_one_sided(r)) return false;
  return !(f[0] - w->dual.rho[r->at] * x[0] > 0);
}

// Rows of friction, N_i = u_i - P_i(y), y_j = f_j / mu_j - rho_j mu_j w_j, radius f_n.
static void friction_law(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x, pbLaw *law) {
  int n = r->dim;
  int t = n - 1;
  const double *rho = w->dual.rho + r->at;
  double y[5], Q[25], g[5];

  friction_trial(w, r, f, x, y);
  project_friction(w, t, fmax(0, f[0]), y, Q, g);

  // d(u - P(y)): 1 - Q of the scaled force, Q rho mu of the residual; the radius is f_n where it pushes.
  for (int i = 1; i < n; i++) {
    law->Nf[i * n] = f[0] > 0 ? -g[i - 1] : 0;
    for (int j = 1; j < n; j++) {
      double q = Q[(i - 1) * t + j - 1];
      double mu = row_mu(w, r, j);
      double open = (i == j) - q;
      law->Nf[i * n + j] = open / mu;
      law->Nw[i * n + j] = rho[j] * q * mu;
      law->Nmu[i * t + j - 1] = -open * f[j] / (mu * mu) + rho[j] * q * x[j];
    }
  }
}

void NUM(pbLaw_At)(const NUM(pbWork) *w, const NUM(pbRow) *r, const double *f, const double *x, pbLaw *law) {
  int n = r->dim;
  const double *rho = w->dual.rho + r->at;

  memset(law, 0, sizeof *law);
  if (r->kind == pb_rowEquality) {
    for (int j = 0; j < n; j++) law->Nw[j * (n + 1)] = rho[j];
    return;
  }

  // N = f - P(f - rho w) of the first row.
  double trial = f[0] - rho[0] * x[0];
  double slope, by_bound[2];
  if (pb_bounded(r)) {
    between(trial, r, w->dual.kappa, &slope, by_bound);
    for (int i = 0; i < 2; i++) law->Nbound[i] = -by_bound[i];
  } else {
    positive(trial, w->dual.kappa, &slope);
  }
  law->Nw[0] = rho[0] * slope;
  law->Nf[0] = 1 - slope;
  if (is_contact(r) && n > 1) friction_law(w, r, f, x, law);
}

void NUM(pbLaw_Here)(const NUM(pbWork) *w, const NUM(pbRow) *r, pbLaw *law) {
  NUM(pbLaw_At)(w, r, w->dual.f + r->at, w->dual.x + r->at, law);
}
