// Numbers of a row once its Jacobian, residual and margin are set: impedance, stiffness and damping, regularization, reference
// acceleration. Their derivatives: parameters_adjoint.c.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py.
#include "contact/prescribed.h"
#include "contact/row.h"

#include "base/assert.h"
#include "multibody/reference.h"

// ---- impedance ------------------------------------------------------------------------------------------------------
void NUM(pbRow_Reference)(const NUM(pbConstraints) *w, const num *solref, num out[2], bool friction) {
  safe_reference(&w->mechanism, solref, out, friction);
}

// x^p; x itself for the exponent that quadratic sigmoids, the default, lead to.
static num power_of(num x, num p) { return re(p) == 1 && im(p) == 0 ? x : num_pow(x, p); }

// MuJoCo's sigmoid d(x), x = |pos - margin| / width, from d0 to d1: two power functions that meet at mid.
void NUM(pbRow_Impedance)(const num *solimp, num pos, num margin, num *imp, num *slope) {
  num d0 = num_clip(solimp[0], 1e-4, 0.9999);
  num d1 = num_clip(solimp[1], 1e-4, 0.9999);
  num width = num_at_least(solimp[2], 0);
  num mid = num_clip(solimp[3], 1e-4, 0.9999);
  num power = num_at_least(solimp[4], 1);

  *slope = 0;
  if (re(width) <= 1e-15) {
    *imp = 0.5 * (d0 + d1);
    return;
  }

  num x = (pos - margin) / width;
  double sign = re(x) < 0 ? -1 : 1;
  x = sign * x;
  if (re(x) >= 1 || re(x) <= 0) {
    *imp = re(x) >= 1 ? d1 : d0;
    return;
  }

  // y(x) from 0 to 1: x^p / mid^(p-1) below mid, 1 - (1-x)^p / (1-mid)^(p-1) above.
  num y, dy;
  if (re(power) == 1 && im(power) == 0) {
    y = x;
    dy = 1;
  } else if (re(x) <= re(mid)) {
    num a = 1 / power_of(mid, power - 1);
    num below = power_of(x, power - 1);
    y = a * below * x;
    dy = power * a * below;
  } else {
    num b = 1 / power_of(1 - mid, power - 1);
    num above = power_of(1 - x, power - 1);
    y = 1 - b * above * (1 - x);
    dy = power * b * above;
  }
  *imp = d0 + y * (d1 - d0);
  *slope = dy * sign * (d1 - d0) / width;
}

// Distance the impedance depends on: the residual, its norm for connect and weld.
static num impedance_distance(const NUM(pbRow) *r) {
  if (!pb_vector_residual(r)) return r->pos[0];

  num s = 0;
  for (int k = 0; k < r->dim; k++) s += r->pos[k] * r->pos[k];
  return num_sqrt(s);
}

// Share of a contact's impedance while its geoms are still `gap` apart, 0 < gap < onset: from 1 to 0, twice differentiable at
// both ends; and its slope.
static num fade(num gap, double onset, num *slope) {
  // t^3 (10 - 15 t + 6 t^2)
  num t = 1 - gap / onset;
  *slope = -30 * t * t * (1 - t) * (1 - t) / onset;
  return t * t * t * (10 + t * (6 * t - 15));
}

// Impedance of a row: d(pos), or 1 where error reduction and force mixing are set; before touch the one at touch, faded.
static void set_impedance(const NUM(pbConstraints) *w, NUM(pbRow) *r, const num *solimp) {
  bool mixing = pb_mixing(w->m, r->kind);
  num pos = impedance_distance(r);
  num touch = mixing ? 1 : num_clip(solimp[0], 1e-4, 0.9999);

  r->imp = touch;
  r->dimp = 0;

  if (pb_before_touch(r)) {
    // A share that has all but faded stays positive, so that D and R are finite.
    num slope;
    num share = fade(pos - r->margin, w->m->contact.onset, &slope);
    bool some = re(share) > 1e-30;
    r->imp = touch * (some ? share : 1e-30);
    r->dimp = some ? touch * slope : 0;
  } else if (!mixing) {
    NUM(pbRow_Impedance)(solimp, pos, r->margin, &r->imp, &r->dimp);
  }
  PB_ASSERT(!(re(r->imp) <= 0 || re(r->imp) > 1 + 1e-9));  // a state that grows beyond bounds makes it NaN
}

const num *NUM(pbRow_Parameters)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, const num **solimp,
                                 const num **solreffriction) {
  if (r->kind == pb_rowContact) {
    *solimp = w->contact[r->contact].solimp;
    *solreffriction = w->contact[r->contact].solreffriction;
    return w->contact[r->contact].solref;
  }

  *solimp = w->p.theta + r->solimp;
  *solreffriction = NULL;
  return w->p.theta + r->solref;
}

// ---- reference, regularization --------------------------------------------------------------------------------------
// Error reduction and force mixing: k = erp / h^2, b = 1 / h, and what the normal law of a hard contact asks for.
static void set_mixing_reference(const NUM(pbConstraints) *w, NUM(pbRow) *r) {
  num h = w->p.timestep[0];
  PB_ASSERT(re(h) > 0);
  r->k = pb_bounded(r) ? 0 : pb_erp(w->m) / (h * h);
  r->b = r->b_tangent = 1 / h;

  // What lands or is thrown back follows its velocity alone; what rises stops at the surface.
  pbNormalLaw law = pb_normal_law(w, r);
  num depth = r->margin - r->pos[0];
  if (law == pb_normalBounce) {
    r->k = 0;
    r->b *= 1 + w->contact[r->contact].restitution;
  }
  if (law == pb_normalRise) r->k = pb_rising(pb_weight(w), h, depth) / (h * depth);
}

// Stiffness, damping and damping of tangential rows.
static void set_reference(const NUM(pbConstraints) *w, NUM(pbRow) *r, const num *solref, const num *solreffriction,
                          const num *solimp) {
  if (pb_mixing(w->m, r->kind)) {
    set_mixing_reference(w, r);
    return;
  }

  num ref[2];
  num d1 = num_clip(solimp[1], 1e-4, 0.9999);
  NUM(pbRow_Reference)(w, solref, ref, false);
  stiffness_damping(ref, d1, &r->k, &r->b);
  r->b_tangent = r->b;
  if (pb_bounded(r)) r->k = 0;
  if (!pb_elliptic(w->m, r)) return;

  // Elliptic cones may have a reference of their own along tangents.
  num unused;
  NUM(pbRow_Reference)(w, solreffriction, ref, true);
  if (re(ref[0]) != 0 || re(ref[1]) != 0) stiffness_damping(ref, d1, &unused, &r->b_tangent);
}

// R = (1 - d) / d diagApprox; force mixing: cfm / (h d). The edge of a pyramid has diagApprox (1 + mu^2).
num NUM(pbRow_Regularization)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, int i) {
  if (pb_mixing(w->m, r->kind)) return pb_cfm(w->m) / (w->p.timestep[0] * r->imp);

  num soft = (1 - r->imp) / r->imp;
  num diag = r->diag[i];
  if (!pb_pyramidal(w->m, r)) return soft * diag;

  num mu = w->contact[r->contact].friction[0];
  return soft * (diag + mu * mu * diag);
}

// Soft contacts with friction: from R of the normal to that of the tangents, R_0 / impratio friction_0^2 / friction_i^2, or of
// a pyramid's edges, 2 mu^2 R_0, mu = friction_0 / sqrt(impratio).
static void set_cone_regularization(const NUM(pbConstraints) *w, NUM(pbRow) *r) {
  const num *friction = w->contact[r->contact].friction;
  num ratio = num_max(1e-15, w->p.impratio[0]);
  num R1 = r->R[0] / ratio;

  r->mu = friction[0] / num_sqrt(ratio);

  if (pb_pyramidal(w->m, r)) {
    if (!pb_mixing(w->m, r->kind)) r->edge_R = 2 * r->mu * r->mu * r->R[0];
    r->edge_D = 1 / r->edge_R;
    return;
  }

  // Elliptic: friction in proportion to its coefficient squared.
  for (int i = 1; i < r->dim; i++) r->R[i] = R1 * friction[0] * friction[0] / (friction[i - 1] * friction[i - 1]);
  for (int i = 0; i < r->dim; i++) r->D[i] = 1 / r->R[i];
}

// Has no number of a row's regularization the wrong sign? States that grow beyond bounds make them NaN.
static bool is_positive(const num *x, int n) {
  for (int i = 0; i < n; i++) {
    if (re(x[i]) <= 0) return false;
  }
  return true;
}

static void set_regularization(const NUM(pbConstraints) *w, NUM(pbRow) *r) {
  bool cone = pb_soft_cone(w->m, r);
  for (int i = 0; i < (cone ? 1 : r->dim); i++) {
    int entry = pb_diag_entry(r, i);
    num R = NUM(pbRow_Regularization)(w, r, entry);
    if (pb_hard(w->m)) r->R[i] = R + pb_little(w->m) * r->diag[entry];
    else r->R[i] = num_max(PB_LEAST_R, R);
  }

  // The other rows of a cone follow from the normal's.
  if (cone) {
    set_cone_regularization(w, r);
    PB_ASSERT(!(re(r->mu) <= 0) && is_positive(pb_pyramidal(w->m, r) ? &r->edge_D : r->D, 1));
    return;
  }
  for (int i = 0; i < r->dim; i++) r->D[i] = 1 / r->R[i];
  PB_ASSERT(pb_hard(w->m) || (is_positive(r->R, r->dim) && is_positive(r->D, r->dim)));
}

// aref = -b (J v) - k d (pos - margin); tangents of contacts have no stiffness; servos: -b (J v - target).
void NUM(pbRow_SetNumbers)(const NUM(pbConstraints) *w, NUM(pbRow) *r, const num *v) {
  const num *solimp, *solreffriction;
  const num *solref = NUM(pbRow_Parameters)(w, r, &solimp, &solreffriction);

  set_impedance(w, r, solimp);
  pb_row_times(w, r, v, r->vel);
  NUM(pb_add_prescribed)(w, r);
  set_reference(w, r, solref, solreffriction, solimp);
  set_regularization(w, r);

  // Tangents have damping alone.
  bool own_damping = pb_tangent_damping(w->m, r);
  for (int i = 0; i < r->dim; i++) {
    bool tangent = r->kind == pb_rowContact && i > 0;
    num damping = own_damping && tangent ? r->b_tangent : r->b;
    r->aref[i] = -damping * r->vel[i] - (tangent ? 0 : r->k * r->imp * (r->pos[i] - r->margin));
  }
  if (r->kind == pb_rowServo) r->aref[0] += r->b * r->target;
}

void NUM(pbRow_AtGuard)(const NUM(pbConstraints) *w, NUM(pbRow) *r, const num *v) {
  r->pos[0] = r->margin;
  NUM(pbRow_SetNumbers)(w, r, v);
}
