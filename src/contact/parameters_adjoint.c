// A row's regularization, reference acceleration and impedance by what they are made of (row.c, contact.c): solref, solimp,
// diagApprox, impratio, mixing of geoms, error reduction and force mixing, margins.
// Tests: tests/unit/test_contact.c, tests/unit/test_kinks.c, tests/unit/test_servo.c.
#include "contact/row_adjoint.h"
#include "contact/weight.h"

#include "base/assert.h"
#include "elementary/elementary.h"
#include "math/vec.h"

typedef LANE(pbRowBar) row_bar;

// Slopes of pb_rising, speed = root - g h / 2.
typedef struct rise {
  num speed, by_depth, by_weight, by_timestep;
} rise;

static rise rising(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  num g = pb_weight(w);
  num h = w->p.timestep[0];
  num depth = r->margin - r->pos[0];
  num speed = pb_rising(g, h, depth);
  num root = speed + 0.5 * g * h;

  // root = sqrt((g h / 2)^2 + 2 g depth)
  return (rise){.speed = speed,
                .by_depth = g / root,
                .by_weight = (depth + 0.25 * g * h * h) / root - 0.5 * h,
                .by_timestep = -0.5 * g * speed / root};
}

// ---- numbers ----------------------------------------------------------------------------------------------------------
// ln D = ln d - ln(1 - d) - ln diag, with force mixing ln D = ln d + ln h; for pyramids also
// + ln impratio - 2 ln mu_0 - ln(1 + mu_0^2). What is kept from zero does not move with d, diag and h.
void LANE(pbRow_PullRegularization)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, int n, const lane *g, row_bar *bar) {
  bool mixing = pb_mixing(w->m, r->kind);
  bool some = false;
  lane moved = PB_LANE_ZERO;
  PB_ASSERT(mixing || (re(r->imp) > 0 && re(r->imp) < 1));

  for (int i = 0; i < n; i++) {
    if (re(NUM(pbRow_Regularization)(w, r, i)) <= PB_LEAST_R) continue;
    some = true;
    moved += g[i];
    if (!mixing) bar->diag[i] -= g[i] / r->diag[i];
  }

  // By the impedance: 1 / d + 1 / (1 - d); by the logarithm of the time step.
  if (some) bar->imp += moved * (mixing ? 1 / r->imp : 1 / (r->imp * (1 - r->imp)));
  if (mixing) bar->log_timestep += moved;
  if (mixing || !pb_pyramidal(w->m, r)) return;

  // An edge's D, see set_cone_regularization.
  num mu = w->contact[r->contact].friction[0];
  bar->impratio += g[0] / w->p.impratio[0];
  bar->friction[0] -= g[0] * (2 / mu + (some ? 2 * mu / (1 + mu * mu) : 0));
}

#if PB_IS_COMPLEX
// At a residual of zero the impedance has no slope, but that of a quadratic sigmoid, the default, grows from there:
// d = d0 + (d1 - d0) (x / width)^2 / mid. The slope by each entry of the residual is this times the entry.
static num slope_by_residual(const NUM(pbConstraints) *w, const NUM(pbRow) *r) {
  const num *solimp, *unused;
  NUM(pbRow_Parameters)(w, r, &solimp, &unused);
  num d0 = num_clip(solimp[0], 1e-4, 0.9999), d1 = num_clip(solimp[1], 1e-4, 0.9999), width = solimp[2];
  if (pb_mixing(w->m, r->kind) || pb_before_touch(r) || re(width) <= 1e-15 || re(solimp[4]) != 2) return num_make(0, 0);
  return 2 * (d1 - d0) / (num_clip(solimp[3], 1e-4, 0.9999) * width * width);
}

static bool at_zero(const NUM(pbRow) *r) {
  for (int i = 0; i < (pb_vector_residual(r) ? r->dim : 1); i++) {
    if (re(r->pos[i]) != (pb_vector_residual(r) ? 0 : re(r->margin))) return false;
  }
  return true;
}
#endif

// The impedance depends on the residual (connect, weld: on its norm).
static void pull_impedance_distance(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
#if PB_IS_COMPLEX
  if (at_zero(r)) {
    num g = bar->imp * slope_by_residual(w, r);
    for (int i = 0; i < (pb_vector_residual(r) ? r->dim : 1); i++) bar->pos[i] += g * num_make(0, im(r->pos[i]));
    return;
  }
#endif
  (void)w;
  if (r->dimp == 0) return;
  lane g = bar->imp * r->dimp;
  bar->margin -= g;
  if (!pb_vector_residual(r)) {
    bar->pos[0] += g;
    return;
  }

  // The norm has no slope at zero.
  num norm = 0;
  for (int i = 0; i < r->dim; i++) norm += r->pos[i] * r->pos[i];
  norm = num_sqrt(norm);
  if (!(re(norm) > 0)) return;
  for (int i = 0; i < r->dim; i++) bar->pos[i] += g * (r->pos[i] / norm);
}

// aref = -b (J v) - k d (pos - margin), without the second term for tangents of contacts. What rises has k depth = speed / h.
void LANE(pbRow_PullReference)(const NUM(pbConstraints) *w, const NUM(pbRow) *r, row_bar *bar) {
  bool own_damping = pb_tangent_damping(w->m, r);
  pbNormalLaw law = pb_normal_law(w, r);
  num k = r->k;
  num by_depth = law == pb_normalRise ? rising(w, r).by_depth / w->p.timestep[0] : k;

  // J v, and where there is one the spring k d (pos - margin).
  for (int i = 0; i < r->dim; i++) {
    bool tangent = r->kind == pb_rowContact && i > 0;
    bar->vel[i] = -(own_damping && tangent ? r->b_tangent : r->b) * bar->z[i];
    if (own_damping && tangent) bar->b_tangent -= bar->z[i] * r->vel[i];
    else bar->b -= bar->z[i] * (r->kind == pb_rowServo ? r->vel[i] - r->target : r->vel[i]);
    if (tangent) continue;

    num depth = r->pos[i] - r->margin;
    bar->k -= bar->z[i] * r->imp * depth;
    bar->imp -= bar->z[i] * k * depth;
    bar->pos[i] -= bar->z[i] * by_depth * r->imp;
    bar->margin += bar->z[i] * by_depth * r->imp;
  }

  // A bounce has b = (1 + restitution) / h.
  if (law == pb_normalBounce) bar->restitution = bar->b / w->p.timestep[0];
  pull_impedance_distance(w, r, bar);
}

#if PB_LANES == 1
// ---- impedance and reference ------------------------------------------------------------------------------------------
static bool inside(num x, num lo, num hi) { return x >= lo && x <= hi; }
static num clipped(num d) { return num_min(num_max(d, 1e-4), 0.9999); }

// Slopes of d(pos; d0, d1, width, mid, power), see pbRow_Impedance.
static void impedance_slopes(const num *solimp, num pos, double margin, num slope[5]) {
  num d0 = clipped(solimp[0]);
  num d1 = clipped(solimp[1]);
  num mid = clipped(solimp[3]);
  num width = num_max(0, solimp[2]);
  num power = num_max(1, solimp[4]);
  num x = width > 1e-15 ? num_abs(pos - margin) / width : 0;

  memset(slope, 0, 5 * sizeof *slope);
  if (width <= 1e-15) {
    slope[0] = slope[1] = 0.5;
    return;
  }
  if (x >= 1 || x <= 0) {
    slope[x >= 1 ? 1 : 0] = 1;
    return;
  }

  // d = d0 + y (d1 - d0), y = Y or 1 - Y, Y = base^p knee^(1-p)
  bool low = x <= mid;
  num base = low ? x : 1 - x;
  num knee = low ? mid : 1 - mid;
  num Y = num_pow(base, power) * num_pow(knee, 1 - power);
  num y = low ? Y : 1 - Y;
  num dy = power * num_pow(base, power - 1) * num_pow(knee, 1 - power);
  num span = d1 - d0;
  num sign = low ? 1 : -1;
  slope[0] = 1 - y;
  slope[1] = y;
  slope[2] = -x * dy * span / width;
  slope[3] = span * (1 - power) * Y / knee;  // both branches: the knee moves against the base
  slope[4] = sign * span * Y * (num_log(base) - num_log(knee));
}

// Entries that are clipped have no slope.
static void pull_impedance(const num *solimp, num pos, double margin, num bar, num *out) {
  num slope[5];
  impedance_slopes(solimp, pos, margin, slope);
  if (inside(solimp[0], 1e-4, 0.9999)) out[0] += bar * slope[0];
  if (inside(solimp[1], 1e-4, 0.9999)) out[1] += bar * slope[1];
  if (solimp[2] >= 0) out[2] += bar * slope[2];
  if (inside(solimp[3], 1e-4, 0.9999)) out[3] += bar * slope[3];
  if (solimp[4] >= 1) out[4] += bar * slope[4];
}

// Stiffness and damping that a solref has given, and their cotangents.
typedef struct spring {
  num k, b, k_bar, b_bar;
} spring;

// The time constant is at least two steps: its share of the slope, the rest is that of the time step.
static num timestep_share(const LANE(pbAdjoint) *a, num given) {
  num least = 2 * a->w->p.timestep[0];
  if (given == least) return 0.5;
  return given > least ? 1 : 0;
}

// k = 1 / (d1 tc dr)^2, b = 2 / (d1 tc); direct: k = -r0 / d1^2, b = -r1 / d1. Returns the cotangent of d1.
static num pull_solref(LANE(pbAdjoint) *a, const num *solref, bool friction, num d1, const spring *s, num *out) {
  const NUM(pbConstraints) *w = a->constraints;
  num ref[2];

  NUM(pbRow_Reference)(w, solref, ref, friction);
  num d1_bar = -s->k_bar * 2 * s->k / d1 - s->b_bar * s->b / d1;

  num g[2] = {0};
  if (ref[0] > 0) {
    g[0] -= s->k_bar * 2 * s->k / ref[0];
    g[1] -= s->k_bar * 2 * s->k / ref[1];
  } else {
    g[0] -= s->k_bar / (d1 * d1);
  }
  if (ref[1] > 0) g[0] -= s->b_bar * s->b / ref[0];
  else g[1] -= s->b_bar / d1;

  // The safety rules: mixed formats are replaced, the time constant may be two steps.
  bool replaced = (solref[0] > 0) != (solref[1] > 0);
  if (!(w->m->disableflags & pb_disRefsafe) && ref[0] > 0) {
    num share = timestep_share(a, replaced ? 0.02 : solref[0]);
    a->h_bar += (1 - share) * 2 * g[0];
    g[0] *= share;
  }
  if (!replaced) {
    out[0] += g[0];
    out[1] += g[1];
  }

  return d1_bar;
}

static num impedance_distance(const NUM(pbRow) *r) {
  if (!pb_vector_residual(r)) return r->pos[0];
  num s = 0;
  for (int i = 0; i < r->dim; i++) s += r->pos[i] * r->pos[i];
  return num_sqrt(s);
}

// Error reduction and force mixing: k = erp / h^2, b = 1 / h, D = d h / cfm. What rises has k depth = speed / h.
static void pull_mixing(LANE(pbAdjoint) *a, const NUM(pbRow) *r, const row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  num h = w->p.timestep[0];
  num others = bar->log_timestep - bar->b * r->b - bar->b_tangent * r->b_tangent;

  if (pb_normal_law(w, r) != pb_normalRise) {
    a->h_bar += (others - 2 * bar->k * r->k) / h;
    return;
  }

  // The speed of rising depends on gravity and the time step itself.
  rise up = rising(w, r);
  num g = pb_weight(w);
  num speed_bar = bar->z[0] / h;
  a->h_bar += (others - speed_bar * up.speed) / h + speed_bar * up.by_timestep;
  for (int i = 0; i < 3; i++) PB_THETA(a, gravity, i, speed_bar * up.by_weight * w->p.gravity[i] / g);
}

// k, b, b_tangent and d of a row with solref and solimp, to these.
static void pull_reference_parameters(LANE(pbAdjoint) *a, const NUM(pbRow) *r, row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const num *solimp, *solreffriction;
  const num *solref = NUM(pbRow_Parameters)(w, r, &solimp, &solreffriction);
  num d1 = clipped(solimp[1]);
  num d1_bar = 0;
  num tangent_ref[2] = {0};
  spring s = {.k = r->k, .b = r->b, .k_bar = pb_bounded(r) ? 0 : bar->k, .b_bar = bar->b};

  // Tangents of an elliptic cone have their own solref, or the normal's damping.
  if (pb_elliptic(w->m, r)) NUM(pbRow_Reference)(w, solreffriction, tangent_ref, true);
  if (tangent_ref[0] != 0 || tangent_ref[1] != 0) {
    spring tangent = {.b = r->b_tangent, .b_bar = bar->b_tangent};
    d1_bar += pull_solref(a, solreffriction, true, d1, &tangent, bar->solreffriction);
  } else {
    s.b_bar += bar->b_tangent;
  }
  d1_bar += pull_solref(a, solref, false, d1, &s, bar->solref);

  // Impedance: through the upper value in k and b, and through d itself; before touch it is that at touch, faded.
  if (!PB_WANTS(a, pb_wantImpedance)) return;
  if (inside(solimp[1], 1e-4, 0.9999)) bar->solimp[1] += d1_bar;
  if (!pb_before_touch(r)) pull_impedance(solimp, impedance_distance(r), r->margin, bar->imp, bar->solimp);
  else if (inside(solimp[0], 1e-4, 0.9999)) bar->solimp[0] += bar->imp * r->imp / solimp[0];
}

// ---- contacts ---------------------------------------------------------------------------------------------------------
static void add_entries(num *to, const num *values, int count) {
  for (int i = 0; i < count; i++) to[i] += values[i];
}

// Slopes of a mixture of two geoms' values a and b by these, times bar.
static void mixing_pull(pbContactMixing mixing, num a, num b, num bar, num out[2]) {
  // Maximum and minimum: to the one that counts, half each at a tie.
  num first = (a > b) == (mixing != pb_mixingMinimum) ? 1 : 0;
  if (a == b) first = 0.5;

  num root = num_sqrt(a * b);
  switch (mixing) {
    case pb_mixingMean: out[0] = out[1] = 0.5 * bar; return;
    case pb_mixingProduct:
      out[0] = b * bar;
      out[1] = a * bar;
      return;
    case pb_mixingGeometric:
      out[0] = root > 0 ? 0.5 * b / root * bar : 0;
      out[1] = root > 0 ? 0.5 * a / root * bar : 0;
      return;
    default: out[0] = first * bar; out[1] = (1 - first) * bar;
  }
}

// To entries i1 and i2 of a parameter of geoms (its values and cotangents).
static void add_mixed(const pbModel *m, const num *values, num *to, int i1, int i2, num bar) {
  num out[2];
  mixing_pull(m->contact.mixing, values[i1], values[i2], bar, out);
  to[i1] += out[0];
  to[i2] += out[1];
}

static void pull_contact_margin(LANE(pbAdjoint) *a, const NUM(pbContact) *c, num bar) {
  if (a->w->m->enableflags & pb_enOverride) {
    PB_THETA(a, o_margin, 0, bar);
  } else if (c->pair >= 0) {
    PB_THETA(a, pair_margin, c->pair, bar);
  } else {
    PB_THETA(a, geom_margin, c->geom1, bar);
    PB_THETA(a, geom_margin, c->geom2, bar);
  }
}

// Two geoms of one priority: friction by the rule of mixing, solref and solimp by their weights solmix.
static void pull_mixed_geoms(LANE(pbAdjoint) *a, const NUM(pbContact) *c, const NUM(pbMix) *mix, const num friction[3],
                             const row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  int g1 = c->geom1;
  int g2 = c->geom2;
  num x = mix->mix;
  num x_bar = 0;

  for (int k = 0; k < 3; k++) add_mixed(w->m, w->p.geom_friction, a->bar.geom_friction, 3 * g1 + k, 3 * g2 + k, friction[k]);

  // solimp = x solimp_1 + (1 - x) solimp_2
  for (int k = 0; k < 5; k++) {
    PB_THETA(a, geom_solimp, 5 * g1 + k, x * bar->solimp[k]);
    PB_THETA(a, geom_solimp, 5 * g2 + k, (1 - x) * bar->solimp[k]);
    x_bar += bar->solimp[k] * (w->p.geom_solimp[5 * g1 + k] - w->p.geom_solimp[5 * g2 + k]);
  }

  // solref: the same, or in the direct format the lesser one.
  for (int k = 0; k < 2; k++) {
    num r1 = w->p.geom_solref[2 * g1 + k];
    num r2 = w->p.geom_solref[2 * g2 + k];
    num share = x;
    if (mix->direct) share = r1 < r2 ? 1 : 0;
    if (mix->direct && r1 == r2) share = 0.5;
    PB_THETA(a, geom_solref, 2 * g1 + k, share * bar->solref[k]);
    PB_THETA(a, geom_solref, 2 * g2 + k, (1 - share) * bar->solref[k]);
    if (!mix->direct) x_bar += bar->solref[k] * (r1 - r2);
  }

  // x = s1 / (s1 + s2)
  num s1 = w->p.geom_solmix[g1];
  num s2 = w->p.geom_solmix[g2];
  num sum = s1 + s2;
  if (s1 >= 1e-15 || s2 >= 1e-15) {
    PB_THETA(a, geom_solmix, g1, x_bar * s2 / (sum * sum));
    PB_THETA(a, geom_solmix, g2, -x_bar * s1 / (sum * sum));
  }
}

// Friction, solref and solimp: to the override, the pair, the geom of higher priority, or both geoms.
static void pull_contact_source(LANE(pbAdjoint) *a, const NUM(pbContact) *c, const num friction[5], const row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  pbBars *to = &a->bar;

  if (w->m->enableflags & pb_enOverride) {
    add_entries(to->o_solref, bar->solref, 2);
    add_entries(to->o_solref, bar->solreffriction, 2);
    add_entries(to->o_solimp, bar->solimp, 5);
    add_entries(to->o_friction, friction, 5);
    return;
  }
  if (c->pair >= 0) {
    add_entries(to->pair_solref + 2 * c->pair, bar->solref, 2);
    add_entries(to->pair_solreffriction + 2 * c->pair, bar->solreffriction, 2);
    add_entries(to->pair_solimp + 5 * c->pair, bar->solimp, 5);
    add_entries(to->pair_friction + 5 * c->pair, friction, 5);
    return;
  }

  // Geoms have one coefficient for both sliding and one for both rolling directions.
  num by_geom[3] = {friction[0] + friction[1], friction[2], friction[3] + friction[4]};
  NUM(pbMix) mix;
  NUM(pbContact_Mix)(w, c->geom1, c->geom2, &mix);
  if (mix.winner < 0) {
    pull_mixed_geoms(a, c, &mix, by_geom, bar);
    return;
  }
  add_entries(to->geom_solref + 2 * mix.winner, bar->solref, 2);
  add_entries(to->geom_solimp + 5 * mix.winner, bar->solimp, 5);
  add_entries(to->geom_friction + 3 * mix.winner, by_geom, 3);
}

void LANE(pbContact_PullParameters)(LANE(pbAdjoint) *a, int contact, const row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + contact;
  PB_THETA(a, contact_stiffness, 0, bar->stiffness);
  PB_THETA(a, contact_damping, 0, bar->damping);

  // Restitution always mixes that of both geoms.
  if (bar->restitution != 0)
    add_mixed(w->m, w->p.geom_restitution, a->bar.geom_restitution, c->geom1, c->geom2, bar->restitution);
  pull_contact_margin(a, c, bar->margin);

  // Friction below the least that counts has no slope.
  num friction[5];
  for (int k = 0; k < 5; k++) friction[k] = NUM(pbContact_FrictionGiven)(w, c, k) >= PB_LEAST_FRICTION ? bar->friction[k] : 0;
  pull_contact_source(a, c, friction, bar);
}

// ---- diagApprox -------------------------------------------------------------------------------------------------------
// Of a contact (weight.h).
void LANE(pbContact_PullWeight)(LANE(pbAdjoint) *a, int contact, num bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const NUM(pbContact) *c = w->contact + contact;
  bool still = false;
  NUM(pbTurning) of[2];

  // Soft contact asks for no turning.
  if (pb_hard(w->m)) {
    of[0] = NUM(pb_turning)(w, c->geom1);
    of[1] = NUM(pb_turning)(w, c->geom2);
    still = NUM(pb_translation_weight)(w, c) < pb_still * (of[0].weight + of[1].weight);
  }
  if (!still) {
    PB_THETA(a, body_invweight0, 2 * w->m->geom_bodyid[c->geom1], bar);
    PB_THETA(a, body_invweight0, 2 * w->m->geom_bodyid[c->geom2], bar);
    return;
  }

  for (int g = 0; g < 2; g++) {
    if (of[g].alone) PB_THETA(a, body_mass, of[g].body, -bar * of[g].weight * of[g].weight);
    else PB_THETA(a, body_invweight0, 2 * of[g].body + 1, bar * of[g].square);
  }
}

// ---- all --------------------------------------------------------------------------------------------------------------
void LANE(pbRow_PullParameters)(LANE(pbAdjoint) *a, const NUM(pbRow) *r, row_bar *bar) {
  const NUM(pbConstraints) *w = a->constraints;

  // A penalty force has neither reference nor impedance.
  if (!pb_explicit(w->m, r)) {
    if (pb_mixing(w->m, r->kind)) pull_mixing(a, r, bar);
    else pull_reference_parameters(a, r, bar);
  }
  PB_THETA(a, impratio, 0, bar->impratio);
  if (r->solref < 0) return;

  add_entries(a->theta + r->solref, bar->solref, 2);
  add_entries(a->theta + r->solimp, bar->solimp, 5);
}
#endif
