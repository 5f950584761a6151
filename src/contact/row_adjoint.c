// Gradient of the rows' virtual power: y . f with y = J lam (+ what sensors ask), at a frozen acceleration. With z = K y
//   d(y . f) = f . (dJ lam) - z . (dJ a) + z . d(aref) + y . (df/dD dD + df/dmu dmu)
// the first, second and the velocity in aref being velocity functionals of the same geometry with coefficients f, -z, -b z.
#include "contact/contact.h"
#include "contact/law.h"
#include "contact/penalty.h"
#include "contact/potential.h"
#include "contact/row.h"
#include "math/vec.h"
#include "eval/adjoint.h"
#include "multibody/kink.h"
#include "multibody/spatial.h"

// Cotangents of a row's numbers.
typedef struct bars {
  lane y[6], z[6];
  lane pos[6];    // of the position residual
  lane vel[6];    // of J v
  lane k, b, bf;  // of stiffness, damping, damping of friction rows
  lane d;         // of the impedance
  lane margin;
  lane diag[6];  // of diagApprox
  lane rate;     // of the logarithm of the time step in force mixing
  lane friction[5], ratio, loss, restitution, stiffness, damping;
  const lane *u;  // of a hard row's law
} bars;

void LANE(pbRow_Times)(const NUM(pbWork) *w, const NUM(pbRow) *r, const lane *v, lane *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const double *J = w->row_J + r->J;
  for (int k = 0; k < r->dim; k++, J += r->n) {
    lane s = PB_LZERO;
    for (int i = 0; i < r->n; i++) s += J[i] * v[dofs[i]];
    out[k] = s;
  }
}

void LANE(pbRow_AddForce)(const NUM(pbWork) *w, const NUM(pbRow) *r, const lane *f, lane *out) {
  const int *dofs = w->row_dofs + r->dofs;
  const double *J = w->row_J + r->J;
  for (int k = 0; k < r->dim; k++, J += r->n) {
    for (int i = 0; i < r->n; i++) out[dofs[i]] += J[i] * f[k];
  }
}

static void hessian_times(const NUM(pbRow) *r, const lane *y, lane *z) {
  for (int i = 0; i < r->dim; i++) {
    z[i] = PB_LZERO;
    for (int j = 0; j < r->dim; j++) z[i] += r->K[i * r->dim + j] * y[j];
  }
}

// ---- the functional under Vs (before lam) ----------------------------------------------------------------------------
// vec(q2 (0, r) conj(q1)): torque on relative rotation whose weld row has cotangent r.
static void weld_torque(const double q2[4], const lane r[3], const double q1[4], lane full[4]) {
  const double *p = q2, c[4] = {q1[0], -q1[1], -q1[2], -q1[3]};
  lane t[4];
  t[0] = -(p[1] * r[0] + p[2] * r[1] + p[3] * r[2]);
  t[1] = p[0] * r[0] + p[2] * r[2] - p[3] * r[1];
  t[2] = p[0] * r[1] + p[3] * r[0] - p[1] * r[2];
  t[3] = p[0] * r[2] + p[1] * r[1] - p[2] * r[0];
  full[0] = t[0] * c[0] - t[1] * c[1] - t[2] * c[2] - t[3] * c[3];
  full[1] = t[0] * c[1] + t[1] * c[0] + t[2] * c[3] - t[3] * c[2];
  full[2] = t[0] * c[2] - t[1] * c[3] + t[2] * c[0] + t[3] * c[1];
  full[3] = t[0] * c[3] + t[1] * c[2] - t[2] * c[1] + t[3] * c[0];
}

// Rows of two bodies' relative motion under a field X: contacts, connect, weld. False for rows that see joints.
static bool relative_rows(const NUM(pbWork) *w, const NUM(pbRow) *r, const lane *X, lane out[6]) {
  int body[2];
  double p1[3], p2[3], q1[4], q2[4], d1[3], d2[3];
  lane u1[3], u2[3], omega[3];
  if (r->kind == pb_rowContact) {
    const NUM(pbContact) *c = w->contact + r->id;
    body[0] = w->m->geom_bodyid[c->geom1], body[1] = w->m->geom_bodyid[c->geom2];
    body_offset(w, body[0], c->pos, d1), body_offset(w, body[1], c->pos, d2);
    PB_POINTVEL(u1, X + 6 * body[0], d1);
    PB_POINTVEL(u2, X + 6 * body[1], d2);
    for (int k = 0; k < 3; k++) u2[k] -= u1[k], omega[k] = X[6 * body[1] + k] - X[6 * body[0] + k];
    for (int k = 0; k < r->dim; k++) out[k] = k < 3 ? PB_DOT3(c->frame + 3 * k, u2) : PB_DOT3(c->frame + 3 * (k - 3), omega);
    return true;
  }
  if (r->kind != pb_rowEquality || r->dim == 1) return false;
  NUM(pbEquality_Ends)(w, r->id, body, p1, p2, q1, q2);
  body_offset(w, body[0], p1, d1), body_offset(w, body[1], p2, d2);
  PB_POINTVEL(u1, X + 6 * body[0], d1);
  PB_POINTVEL(u2, X + 6 * body[1], d2);
  for (int k = 0; k < 3; k++) out[k] = u1[k] - u2[k], omega[k] = X[6 * body[0] + k] - X[6 * body[1] + k];
  double scale = 0.5 * w->p.eq_data[12 * r->id + 10], c2[4] = {q2[0], -q2[1], -q2[2], -q2[3]},
         c1[4] = {q1[0], -q1[1], -q1[2], -q1[3]};
  lane full[4];
  if (r->dim == 6) {  // vec(conj(q2) omega q1)
    weld_torque(c2, omega, c1, full);
    for (int k = 0; k < 3; k++) out[3 + k] = scale * full[1 + k];
  }
  return true;
}

void LANE(pbRows_Direct)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  for (int k = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    lane *y0 = a->y0 + 6 * k, seen[6], z[6];
    memcpy(y0, a->force + 6 * k, 6 * sizeof(lane));
    if (a->has_Vs && relative_rows(w, r, a->Vx, seen)) {
      for (int i = 0; i < r->dim; i++) y0[i] += seen[i];
    }
    if (!r->zone || pb_hard(w->m)) continue;  // hard rows: see pbDual_Adjoint
    hessian_times(r, y0, z);
    for (int i = 0; i < r->dim; i++) z[i] = -z[i];
    LANE(pbRow_AddForce)(w, r, z, a->qacc);
  }
}

// ---- numbers of a row -------------------------------------------------------------------------------------------------
// D_i moves, with the cotangents g of its logarithm: ln D = ln d - ln(1 - d) - ln diag, with force mixing ln D = ln d + ln h; for
// pyramids also + ln impratio - 2 ln mu_0 - ln(1 + mu_0^2). What is kept from zero does not move with d, diag and h.
static void regularisation(const NUM(pbWork) *w, const NUM(pbRow) *r, int n, const lane *g, bars *s) {
  bool mixing = pb_mixing(w->m, r->kind), some = false;
  lane moved = PB_LZERO;
  for (int i = 0; i < n; i++) {
    if (NUM(pbRow_Regularisation)(w, r, i) <= PB_LEAST_R) continue;
    some = true;
    moved += g[i];
    if (!mixing) s->diag[i] -= g[i] / r->diag[i];
  }
  if (some) s->d += moved * (mixing ? 1 / r->imp : 1 / (r->imp * (1 - r->imp)));
  if (mixing) s->rate += moved;
  if (mixing || !pb_pyramidal(w->m, r)) return;
  double mu = w->contact[r->id].friction[0];
  s->ratio += g[0] / w->p.impratio[0];
  s->friction[0] -= g[0] * (2 / mu + (some ? 2 * mu / (1 + mu * mu) : 0));
}

// Edges e = (1, +-mu_k): y . f = sum of f_e (e . y).
static void pyramid_friction(const NUM(pbWork) *w, const NUM(pbRow) *r, bars *s) {
  const double *mu = w->contact[r->id].friction;
  for (int k = 1; k < r->dim; k++) {
    for (int e = 0; e < 2; e++) {
      double sign = e ? -1 : 1, m = sign * mu[k - 1], phi, slope;
      if (!pb_side(r->x[0] + m * r->x[k], w->m->contact.kappa, &phi, &slope)) continue;
      s->friction[k - 1] += sign * r->D[0] * (phi * s->y[k] - slope * r->x[k] * (s->y[0] + m * s->y[k]));
    }
  }
}

// y . (df/dD dD + df/dmu dmu): cotangents of impedance, diag, friction, impratio, loss; those of friction in a smoothed cone are
// smooth_cone_friction's.
static void potential(const NUM(pbWork) *w, const NUM(pbRow) *r, bars *s) {
  bool cone = r->kind == pb_rowContact && r->dim > 1;
  if (r->kind == pb_rowFriction && r->zone > 1) {
    s->loss += r->zone == 2 ? -s->y[0] : s->y[0];
    return;
  }
  lane yf = PB_LZERO, each[6];  // f of a cone is proportional to D_0, otherwise each f_i to D_i
  for (int i = 0; i < r->dim; i++) each[i] = s->y[i] * r->f[i], yf += each[i];
  regularisation(w, r, cone ? 1 : r->dim, cone ? &yf : each, s);
  if (!cone) return;
  if (w->m->cone == pb_conePyramidal) {
    pyramid_friction(w, r, s);
    return;
  }
  if (w->m->contact.kappa > 0) return;
  const double *mu = w->contact[r->id].friction, ratio = w->p.impratio[0];
  if (r->zone == 2) {  // ln D_j = ln D_0 + ln impratio - 2 ln mu_0 + 2 ln mu_j
    for (int k = 1; k < r->dim; k++) {
      lane g = s->y[k] * r->f[k];
      s->ratio += g / ratio;
      s->friction[0] -= 2 * g / mu[0];
      s->friction[k - 1] += 2 * g / mu[k - 1];
    }
    return;
  }
  // y . f = -D_0 / (1 + mu^2) (x_0 - T) (y_0 - W), T = |mu_k x_k|, W = sum mu_k^2 x_k y_k / T
  double T = 0, m = r->mu, c = -r->D[0] / (1 + m * m);
  lane W = PB_LZERO;
  for (int k = 1; k < r->dim; k++) T += mu[k - 1] * mu[k - 1] * r->x[k] * r->x[k];
  T = sqrt(T);
  for (int k = 1; k < r->dim; k++) W += mu[k - 1] * mu[k - 1] * r->x[k] / T * s->y[k];
  double e = r->x[0] - T;
  lane g = s->y[0] - W;
  lane m_bar = -yf * 2 * m / (1 + m * m);
  s->friction[0] += m_bar * m / mu[0];
  s->ratio -= m_bar * m / (2 * ratio);
  for (int k = 1; k < r->dim; k++) {
    double dT = mu[k - 1] * r->x[k] * r->x[k] / T;
    lane dW = 2 * mu[k - 1] * r->x[k] / T * s->y[k] - W / T * dT;
    s->friction[k - 1] += c * (-dT * g - e * dW);
  }
}

// Hard rows: -z . f dR, and -u . dN by friction and loss.
static void law_parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, bars *s) {
  const NUM(pbWork) *w = a->w;
  double little = pb_little(w->m);
  for (int i = 0; i < r->dim; i++) {
    int of = r->kind == pb_rowContact ? 0 : i;
    s->diag[of] -= s->z[i] * r->f[i] * little;
  }
  if (r->kind == pb_rowFriction) {
    lane g = s->z[0] * r->f[0] * (r->R[0] - little * r->diag[0]);
    regularisation(w, r, 1, &g, s);
  }
  for (int i = 0; i < r->dim && r->kind != pb_rowFriction; i++) s->rate += s->z[i] * r->f[i] * (pb_cfm(w->m) / w->p.timestep[0]);
  pbLaw law;
  NUM(pbLaw_Here)(w, r, &law);
  for (int i = 0; i < r->dim; i++) {
    s->loss -= law.Nloss * s->u[i];
    for (int j = 1; r->kind == pb_rowContact && j < r->dim; j++)
      s->friction[j - 1] -= law.Nmu[i * (r->dim - 1) + j - 1] * s->u[i];
  }
}

// Slopes of pb_rising, s = root - g h / 2.
typedef struct rise {
  double speed, by_depth, by_weight, by_timestep;
} rise;

static rise rising(const NUM(pbWork) *w, const NUM(pbRow) *r) {
  double g = pb_weight(w), h = w->p.timestep[0], depth = r->margin - r->pos[0];
  double speed = pb_rising(g, h, depth), root = speed + 0.5 * g * h;
  return (rise){.speed = speed,
                .by_depth = g / root,
                .by_weight = (depth + 0.25 * g * h * h) / root - 0.5 * h,
                .by_timestep = -0.5 * g * speed / root};
}

// z . d(aref), aref = -b (J v) - k d (pos - margin) [position rows]
static void reference(const NUM(pbWork) *w, const NUM(pbRow) *r, bars *s) {
  bool contact = r->kind == pb_rowContact, own_damping = pb_elliptic(w->m, r) || pb_hard(w->m);
  double k = r->kbi[0], imp = r->imp, by_depth = k;
  if (pb_normal_law(w, r) == pb_normalRise) by_depth = rising(w, r).by_depth / w->p.timestep[0];
  for (int i = 0; i < r->dim; i++) {
    bool tangent = contact && i > 0;
    s->vel[i] = -(own_damping && tangent ? r->kbi[2] : r->kbi[1]) * s->z[i];
    if (own_damping && tangent) s->bf -= s->z[i] * r->vel[i];
    else s->b -= s->z[i] * r->vel[i];
    if (tangent) continue;
    double depth = r->pos[i] - r->margin;
    s->k -= s->z[i] * imp * depth;
    s->d -= s->z[i] * k * depth;
    s->pos[i] -= s->z[i] * by_depth * imp;
    s->margin += s->z[i] * by_depth * imp;
  }
}

// The impedance depends on the residual (connect, weld: on its norm).
static void impedance_distance(const NUM(pbRow) *r, bars *s) {
  double norm = 0;
  lane g = s->d * r->dimp;
  if (r->dimp == 0) return;
  s->margin -= g;
  if (r->kind != pb_rowEquality || r->dim == 1) {
    s->pos[0] += g;
    return;
  }
  for (int i = 0; i < r->dim; i++) norm += r->pos[i] * r->pos[i];
  norm = sqrt(norm);
  for (int i = 0; i < r->dim && norm > 0; i++) s->pos[i] += g * (r->pos[i] / norm);
}

// Penalty contact: y . f = N (y_0 - W), W = sum mu_j^2 y_j v_j / slide (penalty.h).
static void explicit_force(const NUM(pbWork) *w, const NUM(pbRow) *r, bars *s) {
  const double *mu = w->contact[r->id].friction, slip = w->m->contact.slip, *v = r->vel;
  NUM(pbNormalForce) N =
      NUM(pbPenalty_Normal)(w->p.contact_stiffness[0], w->p.contact_damping[0], w->m->contact.width, r->margin - r->pos[0], v[0]);
  double slide = NUM(pbPenalty_Slide)(r->dim, mu, slip, v);
  lane W = PB_LZERO;
  for (int j = 1; j < r->dim; j++) W += mu[j - 1] * mu[j - 1] * v[j] / slide * s->y[j];
  lane y = s->y[0] - W;
  s->pos[0] -= y * N.by_depth;
  s->margin += y * N.by_depth;
  s->vel[0] += y * N.by_speed;
  s->stiffness += y * N.by_stiffness;
  s->damping += y * N.by_damping;
  for (int j = 1; j < r->dim; j++) {
    double m = mu[j - 1], each = N.force / slide, rest = j == 1 ? slip : 0;
    s->vel[j] -= each * m * m * (s->y[j] - W * (v[j] / slide));
    s->friction[j - 1] -= each * m * (2 * v[j] * s->y[j] - W * ((v[j] * v[j] + rest * rest) / slide));
  }
}

#if PB_LANES == 1
// ---- parameters: impedance and reference ------------------------------------------------------------------------------
static bool inside(double x, double lo, double hi) { return x >= lo && x <= hi; }

// The smoothed cone's force by mu and the frictions, by complex step.
static void smooth_cone_friction(const NUM(pbWork) *w, const NUM(pbRow) *r, bars *s) {
  if (!pb_elliptic(w->m, r) || !(w->m->contact.kappa > 0)) return;
  const double *given = w->contact[r->id].friction;
  _Complex double x[6], at[6], f[6];  // at: mu, friction
  at[0] = r->mu;
  for (int k = 0; k < r->dim; k++) x[k] = r->x[k];
  for (int k = 1; k < r->dim; k++) at[k] = given[k - 1];
  for (int k = 0; k < r->dim; k++) {
    double g = 0;
    __imag__ at[k] = PB_IMAG_STEP;
    pbCone_Smooth_c(r->dim, x, r->D[0], at[0], at + 1, w->m->contact.kappa, f, NULL);
    __imag__ at[k] = 0;
    for (int i = 0; i < r->dim; i++) g += s->y[i] * (__imag__ f[i] / PB_IMAG_STEP);
    if (k) {
      s->friction[k - 1] += g;
    } else {  // mu = friction_0 / sqrt(impratio)
      s->friction[0] += g * r->mu / given[0];
      s->ratio -= g * r->mu / (2 * w->p.impratio[0]);
    }
  }
}

// d(pos; d0, d1, width, mid, power), see pbRow_Impedance.
static void impedance_parameters(const double *solimp, double pos, double margin, double bar, double *out) {
  double d0 = fmin(fmax(solimp[0], 1e-4), 0.9999), d1 = fmin(fmax(solimp[1], 1e-4), 0.9999), width = fmax(0, solimp[2]);
  double mid = fmin(fmax(solimp[3], 1e-4), 0.9999), power = fmax(1, solimp[4]), g[5] = {0};
  double x = width > 1e-15 ? fabs(pos - margin) / width : 0, y, dy;
  if (width <= 1e-15) {
    g[0] = g[1] = 0.5;
  } else if (x >= 1 || x <= 0) {
    g[x >= 1 ? 1 : 0] = 1;
  } else {
    bool low = x <= mid;
    double base = low ? x : 1 - x, knee = low ? mid : 1 - mid, Y = pow(base, power) * pow(knee, 1 - power);
    y = low ? Y : 1 - Y;
    dy = power * pow(base, power - 1) * pow(knee, 1 - power);
    double span = d1 - d0, sign = low ? 1 : -1;
    g[0] = 1 - y, g[1] = y;
    g[2] = -x * dy * span / width;
    g[3] = span * (1 - power) * Y / knee;  // both branches: the knee moves against the base
    g[4] = sign * span * Y * (log(base) - log(knee));
  }
  if (inside(solimp[0], 1e-4, 0.9999)) out[0] += bar * g[0];
  if (inside(solimp[1], 1e-4, 0.9999)) out[1] += bar * g[1];
  if (solimp[2] >= 0) out[2] += bar * g[2];
  if (inside(solimp[3], 1e-4, 0.9999)) out[3] += bar * g[3];
  if (solimp[4] >= 1) out[4] += bar * g[4];
}

// k = 1 / (d1 tc dr)^2, b = 2 / (d1 tc); direct: k = -r0 / d1^2, b = -r1 / d1. Returns the cotangent of d1.
static double reference_parameters(LANE(pbAdjoint) *a, const double *solref, bool friction, double d1, double k, double b,
                                   double k_bar, double b_bar, double *out) {
  const NUM(pbWork) *w = a->w;
  double ref[2];
  NUM(pbRow_Reference)(w, solref, ref, friction);
  bool replaced = (solref[0] > 0) != (solref[1] > 0);
  double g[2] = {0}, d1_bar = -k_bar * 2 * k / d1 - b_bar * b / d1;
  if (ref[0] > 0) g[0] -= k_bar * 2 * k / ref[0], g[1] -= k_bar * 2 * k / ref[1];
  else g[0] -= k_bar / (d1 * d1);
  if (ref[1] > 0) g[0] -= b_bar * b / ref[0];
  else g[1] -= b_bar / d1;
  if (!(w->m->disableflags & pb_dsblRefsafe) && ref[0] > 0) {  // the larger of the time constant and two steps
    double given = replaced ? 0.02 : solref[0], least = 2 * w->p.timestep[0],
           share = given > least    ? 1
                   : given == least ? 0.5
                                    : 0;
    a->h_bar += (1 - share) * 2 * g[0];
    g[0] *= share;
  }
  if (!replaced) out[0] += g[0], out[1] += g[1];
  return d1_bar;
}

// Cotangents of a row's own solref, solreffriction, solimp.
typedef struct own {
  double solref[2], solreffriction[2], solimp[5];
} own;

static double distance_of(const NUM(pbRow) *r) {
  double s = 0;
  if (r->kind != pb_rowEquality || r->dim == 1) return r->pos[0];
  for (int i = 0; i < r->dim; i++) s += r->pos[i] * r->pos[i];
  return sqrt(s);
}

// Error reduction and force mixing: k = erp / h^2, b = 1 / h, D = d h / cfm. What rises has k depth = speed / h.
static void mixing_parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s) {
  const NUM(pbWork) *w = a->w;
  double h = w->p.timestep[0], others = s->rate - s->b * r->kbi[1] - s->bf * r->kbi[2];
  if (pb_normal_law(w, r) != pb_normalRise) {
    a->h_bar += (others - 2 * s->k * r->kbi[0]) / h;
    return;
  }
  rise up = rising(w, r);
  double g = pb_weight(w), speed_bar = s->z[0] / h;
  a->h_bar += (others - speed_bar * up.speed) / h + speed_bar * up.by_timestep;
  for (int i = 0; i < 3; i++) PB_THETA(a, gravity, i, speed_bar * up.by_weight * w->p.gravity[i] / g);
}

static void own_parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s, own *o) {
  const NUM(pbWork) *w = a->w;
  const double *solimp, *solreffriction, *solref = NUM(pbRow_Parameters)(w, r, &solimp, &solreffriction);
  double d1 = fmin(fmax(solimp[1], 1e-4), 0.9999), fref[2] = {0}, d1_bar = 0, b_bar = s->b;
  memset(o, 0, sizeof *o);
  if (pb_explicit(w->m, r)) return;
  if (pb_mixing(w->m, r->kind)) {
    mixing_parameters(a, r, s);
    return;
  }
  if (pb_elliptic(w->m, r)) NUM(pbRow_Reference)(w, solreffriction, fref, true);
  if (fref[0] != 0 || fref[1] != 0) {
    d1_bar += reference_parameters(a, solreffriction, true, d1, 0, r->kbi[2], 0, s->bf, o->solreffriction);
  } else {
    b_bar += s->bf;
  }
  double k = r->kbi[0], k_bar = r->kind == pb_rowFriction ? 0 : s->k;
  d1_bar += reference_parameters(a, solref, false, d1, k, r->kbi[1], k_bar, b_bar, o->solref);
  if (!PB_WANTS(a, pb_wantImpedance)) return;
  if (inside(solimp[1], 1e-4, 0.9999)) o->solimp[1] += d1_bar;
  if (!pb_before_touch(r)) impedance_parameters(solimp, distance_of(r), r->margin, s->d, o->solimp);
  else if (inside(solimp[0], 1e-4, 0.9999)) o->solimp[0] += s->d * r->imp / solimp[0];
}

// Cotangent of a mixture of two geoms' values a and b, to these.
static void mixing_pull(pbContactMixing mixing, double a, double b, double bar, double out[2]) {
  double root = sqrt(a * b), first = a == b ? 0.5 : (a > b) == (mixing != pb_mixingMinimum) ? 1 : 0;
  switch (mixing) {
    case pb_mixingMean: out[0] = out[1] = 0.5 * bar; return;
    case pb_mixingProduct: out[0] = b * bar, out[1] = a * bar; return;
    case pb_mixingGeometric: out[0] = root > 0 ? 0.5 * b / root * bar : 0, out[1] = root > 0 ? 0.5 * a / root * bar : 0; return;
    default: out[0] = first * bar, out[1] = (1 - first) * bar;
  }
}

// To entries i1 and i2 of a parameter of geoms (its values and cotangents).
static void add_mixed(const pbModel *m, const double *values, double *to, int i1, int i2, double bar) {
  double out[2];
  mixing_pull(m->contact.mixing, values[i1], values[i2], bar, out);
  to[i1] += out[0], to[i2] += out[1];
}

#define ADD(field, index, values, count)                                            \
  do {                                                                              \
    for (int e = 0; e < (count); e++) PB_THETA(a, field, (index) + e, (values)[e]); \
  } while (0)

static void contact_margin(LANE(pbAdjoint) *a, const NUM(pbContact) *c, double bar) {
  if (a->w->m->enableflags & pb_enblOverride) {
    PB_THETA(a, o_margin, 0, bar);
  } else if (c->pair >= 0) {
    PB_THETA(a, pair_margin, c->pair, bar);
  } else {
    PB_THETA(a, geom_margin, c->geom1, bar);
    PB_THETA(a, geom_margin, c->geom2, bar);
  }
}

// Contacts: through the mixing of two geoms, or the pair, or the override.
static void contact_parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s, const own *o) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  const NUM(pbContact) *c = w->contact + r->id;
  double friction[5];
  PB_THETA(a, contact_stiffness, 0, s->stiffness);
  PB_THETA(a, contact_damping, 0, s->damping);
  if (s->restitution != 0) add_mixed(m, w->p.geom_restitution, a->bar.geom_restitution, c->geom1, c->geom2, s->restitution);
  for (int k = 0; k < 5; k++) friction[k] = NUM(pbContact_FrictionGiven)(w, c, k) >= PB_LEAST_FRICTION ? s->friction[k] : 0;
  contact_margin(a, c, s->margin);
  if (m->enableflags & pb_enblOverride) {
    ADD(o_solref, 0, o->solref, 2);
    ADD(o_solref, 0, o->solreffriction, 2);
    ADD(o_solimp, 0, o->solimp, 5);
    ADD(o_friction, 0, friction, 5);
    return;
  }
  if (c->pair >= 0) {
    ADD(pair_solref, 2 * c->pair, o->solref, 2);
    ADD(pair_solreffriction, 2 * c->pair, o->solreffriction, 2);
    ADD(pair_solimp, 5 * c->pair, o->solimp, 5);
    ADD(pair_friction, 5 * c->pair, friction, 5);
    return;
  }
  int g1 = c->geom1, g2 = c->geom2;
  double fri[3] = {friction[0] + friction[1], friction[2], friction[3] + friction[4]};
  NUM(pbMix) mix;
  NUM(pbContact_Mix)(w, g1, g2, &mix);
  if (mix.winner >= 0) {
    ADD(geom_solref, 2 * mix.winner, o->solref, 2);
    ADD(geom_solimp, 5 * mix.winner, o->solimp, 5);
    ADD(geom_friction, 3 * mix.winner, fri, 3);
    return;
  }
  double mix_bar = 0, x = mix.mix;
  for (int k = 0; k < 3; k++) add_mixed(m, w->p.geom_friction, a->bar.geom_friction, 3 * g1 + k, 3 * g2 + k, fri[k]);
  for (int k = 0; k < 5; k++) {
    PB_THETA(a, geom_solimp, 5 * g1 + k, x * o->solimp[k]);
    PB_THETA(a, geom_solimp, 5 * g2 + k, (1 - x) * o->solimp[k]);
    mix_bar += o->solimp[k] * (w->p.geom_solimp[5 * g1 + k] - w->p.geom_solimp[5 * g2 + k]);
  }
  for (int k = 0; k < 2; k++) {
    const double *r1 = w->p.geom_solref + 2 * g1 + k, *r2 = w->p.geom_solref + 2 * g2 + k;
    if (mix.direct) {
      double first = *r1 < *r2 ? 1 : *r1 == *r2 ? 0.5 : 0;
      PB_THETA(a, geom_solref, 2 * g1 + k, first * o->solref[k]);
      PB_THETA(a, geom_solref, 2 * g2 + k, (1 - first) * o->solref[k]);
    } else {
      PB_THETA(a, geom_solref, 2 * g1 + k, x * o->solref[k]);
      PB_THETA(a, geom_solref, 2 * g2 + k, (1 - x) * o->solref[k]);
      mix_bar += o->solref[k] * (*r1 - *r2);
    }
  }
  double s1 = w->p.geom_solmix[g1], s2 = w->p.geom_solmix[g2], sum = s1 + s2;
  if (s1 >= 1e-15 || s2 >= 1e-15) {
    PB_THETA(a, geom_solmix, g1, mix_bar * s2 / (sum * sum));
    PB_THETA(a, geom_solmix, g2, -mix_bar * s1 / (sum * sum));
  }
}

// Where diagApprox comes from; bar is the cotangent of its logarithm.
static void diag_parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  double bar = s->diag[0];
  int body[2];
  double p1[3], p2[3], q1[4], q2[4];
  if (r->kind == pb_rowContact) {
    const NUM(pbContact) *c = w->contact + r->id;
    PB_THETA(a, body_invweight0, 2 * m->geom_bodyid[c->geom1], bar);
    PB_THETA(a, body_invweight0, 2 * m->geom_bodyid[c->geom2], bar);
  } else if (r->kind == pb_rowEquality && r->dim > 1) {
    NUM(pbEquality_Ends)(w, r->id, body, p1, p2, q1, q2);
    for (int k = 0; k < r->dim; k++) {  // every row has its own
      PB_THETA(a, body_invweight0, 2 * body[0] + (k > 2), s->diag[k]);
      PB_THETA(a, body_invweight0, 2 * body[1] + (k > 2), s->diag[k]);
    }
  } else if (r->kind == pb_rowEquality) {
    const int ends[2] = {m->eq_obj1id[r->id], m->eq_obj2id[r->id]};
    for (int e = 0; e < 2 && ends[e] >= 0; e++) {
      if (m->eq_type[r->id] == pb_eqJoint) PB_THETA(a, dof_invweight0, m->jnt_dofadr[ends[e]], bar);
      else PB_THETA(a, tendon_invweight0, ends[e], bar);
    }
  } else {
    int count = r->kind == pb_rowFriction ? m->nv : m->njnt;
    if (r->id >= count) PB_THETA(a, tendon_invweight0, r->id - count, bar);
    else PB_THETA(a, dof_invweight0, r->kind == pb_rowFriction ? r->id : m->jnt_dofadr[r->id], bar);
  }
}

static void limit_margin(LANE(pbAdjoint) *a, const NUM(pbRow) *r, double bar) {
  int njnt = a->w->m->njnt;
  if (r->id >= njnt) PB_THETA(a, tendon_margin, r->id - njnt, bar);
  else PB_THETA(a, jnt_margin, r->id, bar);
}

static void row_parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s) {
  const pbModel *m = a->w->m;
  own o;
  own_parameters(a, r, s, &o);
  diag_parameters(a, r, s);
  PB_THETA(a, impratio, 0, s->ratio);
  switch (r->kind) {
    case pb_rowEquality:
      ADD(eq_solref, 2 * r->id, o.solref, 2);
      ADD(eq_solimp, 5 * r->id, o.solimp, 5);
      return;
    case pb_rowFriction:
      if (r->id >= m->nv) {
        ADD(tendon_solref_fri, 2 * (r->id - m->nv), o.solref, 2);
        ADD(tendon_solimp_fri, 5 * (r->id - m->nv), o.solimp, 5);
        PB_THETA(a, tendon_frictionloss, r->id - m->nv, s->loss);
      } else {
        ADD(dof_solref, 2 * r->id, o.solref, 2);
        ADD(dof_solimp, 5 * r->id, o.solimp, 5);
        PB_THETA(a, dof_frictionloss, r->id, s->loss);
      }
      return;
    case pb_rowLimit:
      if (r->id >= m->njnt) {
        ADD(tendon_solref_lim, 2 * (r->id - m->njnt), o.solref, 2);
        ADD(tendon_solimp_lim, 5 * (r->id - m->njnt), o.solimp, 5);
      } else {
        ADD(jnt_solref, 2 * r->id, o.solref, 2);
        ADD(jnt_solimp, 5 * r->id, o.solimp, 5);
      }
      limit_margin(a, r, s->margin);
      return;
    default: contact_parameters(a, r, s, &o);
  }
}
#endif

// ---- geometry of contacts ---------------------------------------------------------------------------------------------
// frame -> (normal, hint), see make_frame
static void frame_pull(const NUM(pbContact) *c, lane n_bar[3], lane t1[3], lane t2[3], lane hint_bar[3]) {
  const double *n = c->frame, *y = c->frame + 3;
  double y0[3] = {c->hint[0], c->hint[1], c->hint[2]};
  bool hinted = v3_dot(y0, y0) >= 0.25;
  if (!hinted) {
    bool upright = fabs(n[1]) < 0.5;
    v3_set(y0, 0, upright ? 1 : 0, upright ? 0 : 1);
  }
  PB_ADDCROSS(n_bar, 1, y, t2);  // z = n x y
  PB_ADDCROSS(t1, 1, t2, n);
  double along = v3_dot(n, y0), length, raw[3];
  for (int k = 0; k < 3; k++) raw[k] = y0[k] - along * n[k];
  length = sqrt(v3_dot(raw, raw));
  if (length < 1e-15) {  // a hint along the normal (capsule upright on a plane): y turns with the normal
    lane turn = PB_DOT3(n, t1);
    for (int k = 0; k < 3; k++) n_bar[k] -= turn * y[k], hint_bar[k] = PB_LZERO;
    return;
  }
  lane radial = PB_DOT3(y, t1), g[3];
  for (int k = 0; k < 3; k++) g[k] = (t1[k] - radial * y[k]) / length;
  lane gn = PB_DOT3(g, n);
  for (int k = 0; k < 3; k++) {
    n_bar[k] -= gn * y0[k] + along * g[k];
    hint_bar[k] = hinted ? g[k] - gn * n[k] : PB_LZERO;
  }
}

#if PB_LANES == 1
static void geom_parameters(LANE(pbAdjoint) *a, int g, const double wrench[6], const double size[3]) {
  const NUM(pbWork) *w = a->w;
  double local[3];
  m3_tmulv(local, w->xmat + 9 * w->m->geom_bodyid[g], wrench + 3);
  for (int k = 0; k < 3; k++) PB_THETA(a, geom_pos, 3 * g + k, local[k]);
  for (int k = 0; k < 3; k++) PB_THETA(a, geom_size, 3 * g + k, size[k]);
  m3_tmulv(local, w->geom_xmat + 9 * g, wrench);
  LANE(pbSweep_Quat)(a, a->bar.geom_quat + 4 * g, w->p.geom_quat + 4 * g, local);
}
#endif

// Cotangents of (dist, pos, normal, hint) to the two geoms' poses and sizes, by the pair's Jacobian.
static void pair_pull(LANE(pbAdjoint) *a, const NUM(pbContact) *c, const pbContactJacobian *J, const lane bar[10]) {
  const NUM(pbWork) *w = a->w;
  lane in[12], w1[6], w2[6], both[6];  // wrenches (torque about the geom's centre, force)
  for (int i = 0; i < 12; i++) {
    in[i] = bar[0] * J->d[0][i];
    for (int r = 1; r < 10; r++) in[i] += bar[r] * J->d[r][i];
  }
  const double *x1 = w->geom_xpos + 3 * c->geom1, *x2 = w->geom_xpos + 3 * c->geom2;
  double d1[3], d2[3], p1[3], x21[3];
  memcpy(w2, in, sizeof w2);
  // rigid motion of both: the point, normal and hint move along; about the centre of geom 1
  v3_sub(p1, c->pos, x1), v3_sub(x21, x2, x1);
  PB_CROSS(both, p1, bar + 1);
  PB_ADDCROSS(both, 1, c->frame, bar + 4);
  PB_ADDCROSS(both, 1, c->hint, bar + 7);
  for (int k = 0; k < 3; k++) both[3 + k] = bar[1 + k];
  for (int k = 0; k < 6; k++) w1[k] = both[k] - w2[k];
  PB_ADDCROSS(w1, -1, x21, w2 + 3);
  int b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  body_offset(w, b1, x1, d1), body_offset(w, b2, x2, d2);
  PB_ADDWRENCH(a->P + 6 * b1, 1, d1, w1 + 3);
  PB_ADDWRENCH(a->P + 6 * b2, 1, d2, w2 + 3);
  for (int k = 0; k < 3; k++) a->P[6 * b1 + k] += w1[k], a->P[6 * b2 + k] += w2[k];
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantGeoms)) {
    geom_parameters(a, c->geom1, w1, in + 6);
    geom_parameters(a, c->geom2, w2, in + 9);
  }
#endif
}

static void contact_geometry(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s, const pbContactJacobian *J) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbContact) *c = w->contact + r->id;
  int b1 = w->m->geom_bodyid[c->geom1], b2 = w->m->geom_bodyid[c->geom2];
  double d1[3], d2[3], F[3] = {0}, T[3] = {0}, ua[3], u1[3], oa[3], uv[3], ov[3];
  lane Fa[3] = {0}, Ta[3] = {0}, Fv[3] = {0}, Tv[3] = {0}, ux[3], v1[3], ox[3], bar[10], t[2][3], rot[3][3];
  const double *V1 = w->V + 6 * b1, *V2 = w->V + 6 * b2, *Va1 = a->Va + 6 * b1, *Va2 = a->Va + 6 * b2;
  const lane *X1 = a->Vx + 6 * b1, *X2 = a->Vx + 6 * b2;
  body_offset(w, b1, c->pos, d1), body_offset(w, b2, c->pos, d2);
  lane fa[6] = {0}, fv[6] = {0};
  for (int k = 0; k < r->dim; k++) {
    const double *axis = c->frame + 3 * (k % 3);
    fa[k] = -s->z[k];
    fv[k] = s->vel[k];
    for (int e = 0; e < 3; e++) {
      if (k < 3) F[e] += axis[e] * r->f[k], Fa[e] += axis[e] * fa[k], Fv[e] += axis[e] * fv[k];
      else T[e] += axis[e] * r->f[k], Ta[e] += axis[e] * fa[k], Tv[e] += axis[e] * fv[k];
    }
  }
  // relative velocities at the point under the three fields
  PB_POINTVEL(ux, X2, d2);
  PB_POINTVEL(v1, X1, d1);
  for (int k = 0; k < 3; k++) ux[k] -= v1[k], ox[k] = X2[k] - X1[k];
  PB_POINTVEL(ua, Va2, d2);
  PB_POINTVEL(u1, Va1, d1);
  for (int k = 0; k < 3; k++) ua[k] -= u1[k], oa[k] = Va2[k] - Va1[k];
  PB_POINTVEL(uv, V2, d2);
  PB_POINTVEL(u1, V1, d1);
  for (int k = 0; k < 3; k++) uv[k] -= u1[k], ov[k] = V2[k] - V1[k];
  for (int side = 0; side < 2; side++) {
    int b = side ? b2 : b1;
    double sign = side ? 1 : -1, wrench[6] = {0};
    const double *d = side ? d2 : d1;
    lane wa[6] = {0}, wv[6] = {0};
    PB_ADDWRENCH(wrench, sign, d, F);
    PB_ADDWRENCH(wa, sign, d, Fa);
    PB_ADDWRENCH(wv, sign, d, Fv);
    for (int k = 0; k < 3; k++) wrench[k] += sign * T[k], wa[k] += sign * Ta[k], wv[k] += sign * Tv[k];
    PB_AXPY6(a->FX + 6 * b, 1, wrench);
    PB_AXPY6(a->FVa + 6 * b, 1, wa);
    PB_AXPY6(a->FV + 6 * b, 1, wv);
  }
  // the point, the normal and the tangents
  bar[0] = s->pos[0];
  PB_CROSS(bar + 1, F, ox);
  PB_ADDCROSS(bar + 1, 1, Fa, oa);
  PB_ADDCROSS(bar + 1, 1, Fv, ov);
  for (int k = 0; k < 3; k++) {
    for (int e = 0; e < 3; e++) {
      rot[k][e] = r->f[k] * ux[e] * (k < r->dim) + fa[k] * ua[e] + fv[k] * uv[e];
      if (k + 3 < r->dim) rot[k][e] += r->f[k + 3] * ox[e] + fa[k + 3] * oa[e] + fv[k + 3] * ov[e];
    }
  }
  memcpy(bar + 4, rot[0], sizeof rot[0]);
  memcpy(t[0], rot[1], sizeof t[0]), memcpy(t[1], rot[2], sizeof t[1]);
  frame_pull(c, bar + 4, t[0], t[1], bar + 7);
  pair_pull(a, c, J, bar);
}

// ---- geometry of connect and weld ---------------------------------------------------------------------------------------
static void quat_times(lane r[4], const lane x[4], const lane y[4]) {
  r[0] = x[0] * y[0] - x[1] * y[1] - x[2] * y[2] - x[3] * y[3];
  r[1] = x[0] * y[1] + x[1] * y[0] + x[2] * y[3] - x[3] * y[2];
  r[2] = x[0] * y[2] - x[1] * y[3] + x[2] * y[0] + x[3] * y[1];
  r[3] = x[0] * y[3] + x[1] * y[2] - x[2] * y[1] + x[3] * y[0];
}

// Orientation rows of a weld: torques on both bodies' fields and poses, orientations, relative pose, scale.
static void weld_rotation(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s, const int body[2], const double q1[4],
                          const double q2[4], lane turn1[3], lane turn2[3]) {
  const NUM(pbWork) *w = a->w;
  double scale = w->p.eq_data[12 * r->id + 10];
  const double *w1 = w->V + 6 * body[0], *w2 = w->V + 6 * body[1], *A1 = w->A + 6 * body[0], *A2 = w->A + 6 * body[1];
  lane rho[4][3], G[4][4], unit[4][4] = {0};  // unit: what the torque scale multiplies
  double rel[3], cross[3];
  v3_sub(rel, w1, w2);
  PB_CROSS(cross, w1, w2);
  for (int k = 0; k < 3; k++) {
    rho[0][k] = PB_LZERO + r->f[3 + k];    // under Vx
    rho[1][k] = -s->z[3 + k];              // acceleration
    rho[2][k] = -r->kbi[1] * s->z[3 + k];  // velocity
    rho[3][k] = s->pos[3 + k];             // residual itself
    unit[0][1 + k] = 0.5 * (a->Vx[6 * body[0] + k] - a->Vx[6 * body[1] + k]);
    unit[1][1 + k] = PB_LZERO + 0.5 * (A1[k] - A2[k] + cross[k]);
    unit[2][1 + k] = PB_LZERO + 0.5 * rel[k];
  }
  unit[1][0] = PB_LZERO - 0.25 * PB_DOT3(rel, rel);
  unit[3][0] = PB_LZERO + 1;
  for (int i = 0; i < 4; i++) weld_torque(q2, rho[i], q1, G[i]);
  // cotangents of the fields: couples +-1/2 scale G
  double T[3];
  for (int k = 0; k < 3; k++) T[k] = 0.5 * scale * PB_LANE0(G[0][1 + k]);  // the same in all lanes
  for (int side = 0; side < 2; side++) {
    int b = body[side];
    double sign = side ? -1 : 1;
    const double *other = side ? w1 : w2;
    lane ta[3], tv[3];
    double ts[3];
    for (int k = 0; k < 3; k++)
      ts[k] = sign * T[k], ta[k] = sign * 0.5 * scale * G[1][1 + k], tv[k] = sign * 0.5 * scale * G[2][1 + k];
    // drift: 1/4 scale (-g0 |rel|^2 + 2 g . (w1 x w2))
    for (int k = 0; k < 3; k++) tv[k] -= sign * 0.5 * scale * G[1][0] * rel[k];
    PB_ADDCROSS(tv, sign * 0.5 * scale, other, G[1] + 1);
    for (int k = 0; k < 3; k++) a->FX[6 * b + k] += ts[k], a->FA[6 * b + k] += ta[k], a->FV[6 * b + k] += tv[k];
  }
  for (int k = 0; k < 3; k++) turn1[k] = turn2[k] = PB_LZERO;
  for (int i = 0; i < 4; i++) {  // <G, Y (0, t) / 2> and -<G, (0, t) / 2 Y>
    const lane *Y = unit[i];
    lane conj[4] = {scale * Y[0], -scale * Y[1], -scale * Y[2], -scale * Y[3]}, left[4], right[4];
    quat_times(left, conj, G[i]);
    quat_times(right, G[i], conj);
    for (int k = 0; k < 3; k++) turn1[k] += 0.5 * left[1 + k], turn2[k] -= 0.5 * right[1 + k];
#if PB_LANES == 1
    if (!a->theta) continue;
    double value = 0;
    for (int k = 0; k < 4; k++) value += G[i][k] * Y[k];
    PB_THETA(a, eq_data, 12 * r->id + 10, value);
    if (w->m->eq_objtype[r->id] == pb_eqObjSite) continue;
    // <(0, rho), conj(q2) Y x1 rel>: by rel conj(x1) conj(Y) q2 (0, rho), and q2 (0, rho) = G q1
    double x1[4], t[4], u[4];
    quat_mul(t, G[i], q1), quat_mul(u, conj, t), quat_conj(x1, w->xquat + 4 * body[0]), quat_mul(t, x1, u);
    const double *pose = w->p.eq_data + 12 * r->id + 6;
    double along = pose[0] * t[0] + pose[1] * t[1] + pose[2] * t[2] + pose[3] * t[3];
    for (int k = 0; k < 4; k++) PB_THETA(a, eq_data, 12 * r->id + 6 + k, t[k] - along * pose[k]);
#endif
  }
}

// One end: force coefficients on velocity (F), acceleration (Fa) and velocity in aref (Fv) of the point, cotangent of it.
static void connect_end(LANE(pbAdjoint) *a, int b, const double p[3], double sign, const NUM(pbRow) *r, const bars *s,
                        lane point[3]) {
  const NUM(pbWork) *w = a->w;
  const double *V = w->V + 6 * b, *A = w->A + 6 * b;
  double d[3], F[3], u[3], wrench[6] = {0};
  lane Fa[3], Fv[3], wa[6] = {0}, wv[6] = {0};
  body_offset(w, b, p, d);
  PB_POINTVEL(u, V, d);
  for (int k = 0; k < 3; k++) F[k] = sign * r->f[k], Fa[k] = -sign * s->z[k], Fv[k] = -sign * r->kbi[1] * s->z[k];
  PB_ADDWRENCH(wrench, 1, d, F);
  PB_ADDWRENCH(wa, 1, d, Fa);  // A_lin + A_ang x d + w x u: gradient by A; by w and u below
  PB_ADDCROSS(wv, 1, u, Fa);
  PB_ADDCROSS(Fv, 1, Fa, V);
  PB_ADDWRENCH(wv, 1, d, Fv);
  PB_CROSS(point, F, a->Vx + 6 * b);
  PB_ADDCROSS(point, 1, Fa, A);
  PB_ADDCROSS(point, 1, Fv, V);
  for (int k = 0; k < 3; k++) point[k] += sign * s->pos[k];
  PB_AXPY6(a->FX + 6 * b, 1, wrench);
  PB_AXPY6(a->FA + 6 * b, 1, wa);
  PB_AXPY6(a->FV + 6 * b, 1, wv);
  PB_ADDWRENCH(a->P + 6 * b, 1, d, point);
}

static void connect_geometry(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int body[2];
  double p1[3], p2[3], q1[4], q2[4];
  lane at[2][3], turn[2][3] = {0};
  NUM(pbEquality_Ends)(w, r->id, body, p1, p2, q1, q2);
  connect_end(a, body[0], p1, 1, r, s, at[0]);
  connect_end(a, body[1], p2, -1, r, s, at[1]);
  if (r->dim == 6) {
    weld_rotation(a, r, s, body, q1, q2, turn[0], turn[1]);
    for (int e = 0; e < 2; e++) {
      for (int k = 0; k < 3; k++) a->P[6 * body[e] + k] += turn[e][k];
    }
  }
#if PB_LANES == 1
  if (!a->theta) return;
  for (int e = 0; e < 2; e++) {
    double local[3];
    if (m->eq_objtype[r->id] == pb_eqObjSite) {
      LANE(pbSweep_Site)(a, e ? m->eq_obj2id[r->id] : m->eq_obj1id[r->id], at[e], r->dim == 6 ? turn[e] : NULL);
      continue;
    }
    m3_tmulv(local, w->xmat + 9 * body[e], at[e]);
    for (int k = 0; k < 3; k++) PB_THETA(a, eq_data, 12 * r->id + (r->dim == 6 ? 3 - 3 * e : 3 * e) + k, local[k]);
  }
#else
  (void)m;
#endif
}

// ---- rows on joints and tendons -----------------------------------------------------------------------------------------
// Cotangent of the Jacobian entry of a dof: f lam - z a - b z v.
static lane entry(const LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s, int dof) {
  const NUM(pbWork) *w = a->w;
  return r->f[0] * a->lam[dof] - s->z[0] * w->qacc[dof] - r->kbi[1] * s->z[0] * w->qvel[dof];
}

static void tendon_entries(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s, int k, double scale) {
  const NUM(pbWork) *w = a->w;
  for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++)
    a->ten_c[k * w->m->nv + w->ten_dofs[i]] += scale * entry(a, r, s, w->ten_dofs[i]);
}

// pos = (x1 - ref1) - c0 - poly(x2 - ref2); J = J1 - poly' J2
static void coupling(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int e = r->id, ends[2] = {m->eq_obj1id[e], m->eq_obj2id[e]};
  bool joints = m->eq_type[e] == pb_eqJoint;
  const double *c = w->p.eq_data + 12 * e;
  lane x_bar[2] = {s->pos[0], PB_LZERO};
  PB_THETA(a, eq_data, 12 * e, -s->pos[0]);
  double scale[2] = {1, 0};
  if (ends[1] >= 0) {
    int q = joints ? m->jnt_qposadr[ends[1]] : 0;
    double x = joints ? w->qpos[q] - w->p.qpos0[q] : w->ten_length[ends[1]] - w->p.tendon_length0[ends[1]];
    double slope = c[1] + x * (2 * c[2] + x * (3 * c[3] + x * 4 * c[4])), curve = 2 * c[2] + x * (6 * c[3] + x * 12 * c[4]);
    lane J2 = PB_LZERO;  // sum of entries times the second Jacobian
    scale[1] = -slope;
    if (joints) {
      J2 = entry(a, r, s, m->jnt_dofadr[ends[1]]);
    } else {
      for (int i = w->ten_start[ends[1]]; i < w->ten_start[ends[1] + 1]; i++) J2 += w->ten_J[i] * entry(a, r, s, w->ten_dofs[i]);
    }
    x_bar[1] = -slope * s->pos[0] - curve * J2;
    for (int k = 1; k <= 4; k++) PB_THETA(a, eq_data, 12 * e + k, -s->pos[0] * pow(x, k) - J2 * k * pow(x, k - 1));
  }
  for (int i = 0; i < 2 && ends[i] >= 0; i++) {
    if (joints) {
      a->q[m->jnt_dofadr[ends[i]]] += x_bar[i];
      PB_THETA(a, qpos0, m->jnt_qposadr[ends[i]], -x_bar[i]);
    } else {
      a->ten_len[ends[i]] += x_bar[i];
      PB_THETA(a, tendon_length0, ends[i], -x_bar[i]);
      tendon_entries(a, r, s, ends[i], scale[i]);
    }
  }
}

// Ball: angle and axis of the rotation vector; pos = range - angle, J = -axis; cotangents of pos and of the entries of J.
static void ball_limit(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos, const lane J[3]) {
  const NUM(pbWork) *w = a->w;
  const pbModel *m = w->m;
  int dof = m->jnt_dofadr[r->id];
  double q[4], axis[3], d[3];
  lane g[3], t[3];
  quat_copy(q, w->qpos + m->jnt_qposadr[r->id]), quat_normalize(q);
  quat_log(d, q);
  v3_copy(axis, d);
  double angle = v3_normalize(axis);
  for (int k = 0; k < 3; k++) g[k] = -J[k] / angle;
  lane radial = PB_DOT3(axis, g);
  for (int k = 0; k < 3; k++) g[k] += -radial * axis[k] - pos * axis[k];
  pb_log_pull(d, g, t);
  for (int k = 0; k < 3; k++) a->q[dof + k] += t[k];
  const double *range = w->p.jnt_range + 2 * r->id;  // the larger end
  double upper = range[0] < range[1] ? 1 : range[0] == range[1] ? 0.5 : 0;
  PB_THETA(a, jnt_range, 2 * r->id, pos * (1 - upper));
  PB_THETA(a, jnt_range, 2 * r->id + 1, pos * upper);
}

// pos = side (range - x)
static void limit_distance(LANE(pbAdjoint) *a, const NUM(pbRow) *r, lane pos) {
  const pbModel *m = a->w->m;
  if (r->id >= m->njnt) {
    int k = r->id - m->njnt;
    a->ten_len[k] -= r->side * pos;
    PB_THETA(a, tendon_range, 2 * k + (r->side > 0), r->side * pos);
  } else {
    a->q[m->jnt_dofadr[r->id]] -= r->side * pos;
    PB_THETA(a, jnt_range, 2 * r->id + (r->side > 0), r->side * pos);
  }
}

// The same with J = -side.
static void limit(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const bars *s) {
  const pbModel *m = a->w->m;
  if (!r->side) {
    lane J[3];
    for (int k = 0; k < 3; k++) J[k] = entry(a, r, s, m->jnt_dofadr[r->id] + k);
    ball_limit(a, r, s->pos[0], J);
    return;
  }
  limit_distance(a, r, s->pos[0]);
  if (r->id >= m->njnt) tendon_entries(a, r, s, r->id - m->njnt, -r->side);
}

// at: the row's first number among those that are not held, of hard contact.
// y . f of a row that is solved for.
static void solved_force(LANE(pbAdjoint) *a, int index, int at, bars *s) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *r = w->row + index;
  if (pb_hard(w->m)) {
    memcpy(s->z, a->z + 6 * index, sizeof s->z);
    s->u = a->u + at;
    law_parameters(a, r, s);
  } else {
    hessian_times(r, s->y, s->z);
    potential(w, r, s);
  }
  reference(w, r, s);
  if (pb_normal_law(w, r) == pb_normalBounce) s->restitution = s->b / w->p.timestep[0];
  impedance_distance(r, s);
}

static void one_row(LANE(pbAdjoint) *a, int index, int at, const pbContactJacobian *J) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *r = w->row + index;
  bars s;
  memset(&s, 0, sizeof s);
  LANE(pbRow_Times)(w, r, a->lam, s.y);
  for (int i = 0; i < r->dim; i++) s.y[i] += a->y0[6 * index + i];
  if (pb_explicit(w->m, r)) explicit_force(w, r, &s);
  else solved_force(a, index, at, &s);
#if PB_LANES == 1
  if (PB_WANTS(a, pb_wantFriction)) smooth_cone_friction(w, r, &s);
  if (PB_WANTS(a, pb_wantRows)) row_parameters(a, r, &s);
#endif
  if (r->kind == pb_rowContact) {
    contact_geometry(a, r, &s, J);
    return;
  }
  if (r->kind == pb_rowEquality && r->dim > 1) {
    connect_geometry(a, r, &s);
    return;
  }
  lane bz = -r->kbi[1] * s.z[0];
  LANE(pbRow_AddForce)(w, r, &bz, a->v);
  if (r->kind == pb_rowEquality) coupling(a, r, &s);
  else if (r->kind == pb_rowLimit) limit(a, r, &s);
  else if (r->id >= w->m->nv) tendon_entries(a, r, &s, r->id - w->m->nv, 1);
}

// Jacobians of all contacts of a pair come together: those from `first` on, found within `reach` of their margin.
static void pair_jacobians(LANE(pbAdjoint) *a, int first, double reach) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbContact) *c = w->contact + first;
  NUM(pbShape) s1, s2;
  NUM(pbContactPoint) contacts[PB_MAX_CONTACT_POINTS];
  int n = 0;
  geom_shape(w, c->geom1, &s1), geom_shape(w, c->geom2, &s2);
  for (; first + n < w->ncon && c[n].geom1 == c->geom1 && c[n].geom2 == c->geom2 && c[n].point == n; n++) {
    contacts[n].dist = c[n].dist;
    v3_copy(contacts[n].pos, c[n].pos), v3_copy(contacts[n].normal, c[n].frame), v3_copy(contacts[n].hint, c[n].hint);
  }
  NUM(pbPair_Jacobian)(&s1, &s2, c->margin + reach, n, contacts, a->contact_jacobian + first);
}

// Only pairs that push are asked.
void LANE(pbRows_Evaluation)(LANE(pbAdjoint) *a, const NUM(pbWork) *w) {
  a->w = w;
  for (int k = 0, done = -1; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (r->kind != pb_rowContact || !r->zone) continue;
    int first = r->id - w->contact[r->id].point;
    if (first == done) continue;
    pair_jacobians(a, first, w->m->contact.onset);
    done = first;
  }
}

void LANE(pbRows_Distance)(LANE(pbAdjoint) *a, int index, lane bar) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbRow) *r = w->row + index;
  lane none[3] = {0}, contact_bar[10] = {bar};
  if (r->kind == pb_rowContact) {
    const NUM(pbContact) *c = w->contact + r->id;
    pair_jacobians(a, r->id - c->point, w->m->contact.onset);
    pair_pull(a, c, a->contact_jacobian + r->id, contact_bar);
  } else if (r->side) {
    limit_distance(a, r, bar);
  } else {
    ball_limit(a, r, bar, none);
  }
#if PB_LANES == 1
  if (!a->theta) return;
  if (r->kind == pb_rowContact) contact_margin(a, w->contact + r->id, -bar);
  else limit_margin(a, r, -bar);
#endif
}

// W = -loss sign (J lam), at a loss of zero
static void loss_slopes(LANE(pbAdjoint) *a) {
#if PB_LANES == 1
  const NUM(pbWork) *w = a->w;
  if (!PB_WANTS(a, pb_wantLoss) || !loss_acts(w->m)) return;
  for (int i = 0; i < w->m->nv; i++) {
    if (w->p.dof_frictionloss[i] == 0) PB_THETA(a, dof_frictionloss, i, -loss_sign(w, i, w->qacc) * a->lam[i]);
  }
  for (int k = 0; k < w->m->ntendon; k++) {
    double power = 0;
    if (w->p.tendon_frictionloss[k] > 0) continue;
    for (int i = w->ten_start[k]; i < w->ten_start[k + 1]; i++) power += w->ten_J[i] * a->lam[w->ten_dofs[i]];
    PB_THETA(a, tendon_frictionloss, k, -loss_sign(w, w->m->nv + k, w->qacc) * power);
  }
#else
  (void)a;
#endif
}

void LANE(pbRows_Adjoint)(LANE(pbAdjoint) *a) {
  const NUM(pbWork) *w = a->w;
  loss_slopes(a);
  for (int k = 0, at = 0; k < w->nrow; k++) {
    const NUM(pbRow) *r = w->row + k;
    if (!r->zone) continue;
    one_row(a, k, at, r->kind == pb_rowContact ? a->contact_jacobian + r->id : NULL);
    at += r->dim;
  }
}

#if PB_LANES == 1
void LANE(pbRows_Touch)(LANE(pbAdjoint) *a, int contact, double reach, double dist, const double place[3], double axes[3][3],
                        const double friction[2], double restitution) {
  const NUM(pbWork) *w = a->w;
  const NUM(pbContact) *c = w->contact + contact;
  double bar[10] = {dist, place[0], place[1], place[2]};
  pair_jacobians(a, contact - c->point, reach);
  memcpy(bar + 4, axes[0], sizeof axes[0]);
  frame_pull(c, bar + 4, axes[1], axes[2], bar + 7);
  pair_pull(a, c, a->contact_jacobian + contact, bar);
  if (!a->theta) return;
  const NUM(pbRow) row = {.id = contact};
  const bars s = {.margin = -dist, .friction = {friction[0], friction[1]}, .restitution = restitution};
  const own none = {0};
  contact_parameters(a, &row, &s, &none);
}
#endif
