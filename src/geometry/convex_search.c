// The normal of deepest contact of two convex shapes: the global minimum of sigma (convex.h) over the unit sphere.
// sigma is piecewise smooth. Its minima lie at isolated directions (faces, cross products of lines: evaluated all), on
// circles (at right angles to a line: sampled, then Newton), or in the smooth rest (sampled, then Newton). The lowest of
// all candidates is taken. Everything is bounded in iterations.
#include "geometry/convex.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)

#define FLAT 1e-10  // components of a local direction below it are zero
#define GRADIENT 1e-11
enum { CIRCLE_SAMPLES = 12, CIRCLE_STEPS = 60, SPHERE_STARTS = 3, NEWTON_STEPS = 40, HALVINGS = 24 };

typedef struct search {
  const pbCore *core[2];
  double offset[3];  // centre 2 - centre 1
  double limit;      // sigma below this: no contact
  double scale;
  bool apart;
  double best;       // lowest sigma
  pbConvexNormal *out;
} search;

static void pick_signs(int type, const double m[3], double zero, signed char sign[3]) {
  sign[0] = sign[1] = sign[2] = 0;
  if (type == pb_geomSphere || type == pb_geomEllipsoid) return;
  for (int i = 0; i < 3; i++) sign[i] = m[i] > zero ? 1 : m[i] < -zero ? -1 : 0;
  if (type == pb_geomCylinder) sign[0] = m[0] * m[0] + m[1] * m[1] > zero * zero;
  if (type != pb_geomBox) sign[1] = 0;
}

// H += R (d support / d m) R' with the symmetric curvature of the support in the shape's frame
static void add_curvature(const pbCore *core, const double m[3], double H[9]) {
  double local[9] = {0}, tmp[9], world[9];
  if (core->type == pb_geomEllipsoid) {
    double a[3], l2 = 0;
    for (int i = 0; i < 3; i++) l2 += core->size[i] * core->size[i] * m[i] * m[i];
    double inv = l2 > 0 ? 1 / sqrt(l2) : 0;
    for (int i = 0; i < 3; i++) a[i] = core->size[i] * core->size[i] * m[i] * inv;
    for (int i = 0; i < 3; i++) {
      for (int j = 0; j < 3; j++) local[3 * i + j] = ((i == j) * core->size[i] * core->size[i] - a[i] * a[j]) * inv;
    }
  } else if (core->type == pb_geomCylinder) {
    double rho2 = m[0] * m[0] + m[1] * m[1];
    double k = rho2 > 0 ? core->size[0] / (rho2 * sqrt(rho2)) : 0;
    local[0] = k * m[1] * m[1], local[1] = local[3] = -k * m[0] * m[1], local[4] = k * m[0] * m[0];
  } else {
    return;
  }
  m3_mul(tmp, core->mat, local);
  m3_mult(world, tmp, core->mat);
  for (int i = 0; i < 9; i++) H[i] += world[i];
}

// x = a - b at n, supports with components below zero taken as flat; returns sigma. H (may be NULL): d x / d n.
static double evaluate(const search *s, const double n[3], double zero, double x[3], double *H) {
  v3_neg(x, s->offset);
  if (H) m3_zero(H);
  for (int k = 0; k < 2; k++) {
    const pbCore *core = s->core[k];
    double m[3], p[3], world[3], dir = k ? -1 : 1;
    signed char sign[3];
    m3_tmulv(m, core->mat, n);
    v3_scale(m, m, dir);
    pick_signs(core->type, m, zero, sign);
    core_support(core->type, core->size, m, sign, p);
    m3_mulv(world, core->mat, p);
    v3_addscl(x, world, dir);
    if (H) add_curvature(core, m, H);
  }
  return v3_dot(n, x);
}

static double sigma(const search *s, const double n[3]) {
  double x[3];
  return evaluate(s, n, 0, x, NULL);
}

// Take a candidate if it is lower by slack. Earlier kinds win ties, also of directions that are equal within FLAT.
static bool offer(search *s, const double n[3], double value, double slack, pbNormalKind kind) {
  if (value < s->limit) s->apart = true;
  if (!(value < s->best - slack * s->scale)) return false;
  double turn[3];
  v3_sub(turn, n, s->out->n);
  if (s->out->kind != pb_normalFixed && v3_dot(turn, turn) < 4 * FLAT * FLAT) return false;
  s->best = value;
  s->out->kind = kind;
  v3_copy(s->out->n, n);
  return true;
}

static void offer_both_signs(search *s, const double direction[3], pbNormalKind kind, int shape, int axis1, int axis2) {
  for (int sign = 1; sign >= -1; sign -= 2) {
    double n[3];
    v3_scale(n, direction, sign);
    if (!offer(s, n, sigma(s, n), 1e-14, kind)) continue;
    s->out->shape = shape, s->out->axis1 = axis1, s->out->axis2 = axis2, s->out->sign = sign;
  }
}

// Axes that are normals of faces, and directions of straight lines: first axis and number.
static void face_axes(int type, int *first, int *count) {
  *first = type == pb_geomBox ? 0 : 2;
  *count = type == pb_geomBox ? 3 : type == pb_geomCylinder ? 1 : 0;
}
static void line_axes(int type, int *first, int *count) {
  *first = type == pb_geomBox ? 0 : 2;
  *count = type == pb_geomBox ? 3 : type == pb_geomCylinder || type == pb_geomCapsule ? 1 : 0;
}

static void try_isolated(search *s) {
  for (int k = 0; k < 2; k++) {
    int first, count;
    face_axes(s->core[k]->type, &first, &count);
    for (int a = first; a < first + count; a++) {
      double axis[3];
      m3_col(axis, s->core[k]->mat, a);
      offer_both_signs(s, axis, pb_normalFace, k, a, 0);
    }
  }
  int first1, count1, first2, count2;
  line_axes(s->core[0]->type, &first1, &count1);
  line_axes(s->core[1]->type, &first2, &count2);
  for (int a = first1; a < first1 + count1; a++) {
    for (int b = first2; b < first2 + count2; b++) {
      double e1[3], e2[3], n[3];
      m3_col(e1, s->core[0]->mat, a);
      m3_col(e2, s->core[1]->mat, b);
      v3_cross(n, e1, e2);
      if (v3_normalize(n) > 1e-7) offer_both_signs(s, n, pb_normalCross, 0, a, b);
    }
  }
}

// ---- circles ------------------------------------------------------------------------------------------------------
static void on_circle(const double u[3], const double v[3], double angle, double n[3]) {
  double c = cos(angle), d = sin(angle);
  for (int i = 0; i < 3; i++) n[i] = c * u[i] + d * v[i];
}

typedef struct circle {
  double e[3], u[3], v[3];  // axis, and two directions at right angles
} circle;

// n at an angle, sigma there, its slope and second derivative along the circle
static double circle_slope(const search *s, const circle *c, double angle, double n[3], double *slope, double *hessian) {
  double x[3], H[9], t[3], Ht[3];
  on_circle(c->u, c->v, angle, n);
  double value = evaluate(s, n, FLAT, x, H);
  v3_cross(t, c->e, n);
  m3_mulv(Ht, H, t);
  *slope = v3_dot(x, t);
  *hessian = v3_dot(t, Ht) - value;
  return value;
}

// Minimum within lo..hi, where the slope goes from negative to positive: Newton kept inside the bracket by bisection.
// False where the minimum is a crease (those are among the isolated directions).
static bool circle_minimum(const search *s, const circle *c, double lo, double hi, double n[3], double *hessian) {
  double angle = 0.5 * (lo + hi), slope = 0, width = hi - lo;
  for (int step = 0; step < CIRCLE_STEPS; step++) {
    circle_slope(s, c, angle, n, &slope, hessian);
    if (fabs(slope) < 1e-15 * s->scale) break;
    if (slope > 0) {
      hi = angle;
    } else {
      lo = angle;
    }
    if (hi - lo < 1e-10) break;
    double next = *hessian > 0 ? angle - slope / *hessian : lo;
    bool shrinks = hi - lo < 0.6 * width || step % 3;  // bisect now and then, so that the bracket closes
    width = hi - lo;
    angle = next > lo && next < hi && shrinks ? next : 0.5 * (lo + hi);
  }
  for (int step = 0; step < 3; step++) {  // polish
    if (!(*hessian > 1e-9 * s->scale) || fabs(slope) > 1e-3 * s->scale) return false;
    double move = -slope / *hessian, trial[3], trial_slope, trial_hessian;
    if (fabs(move) > 1e-6) break;
    circle_slope(s, c, angle + move, trial, &trial_slope, &trial_hessian);
    if (!(fabs(trial_slope) < fabs(slope))) break;
    angle += move, slope = trial_slope, *hessian = trial_hessian;
    v3_copy(n, trial);
  }
  return fabs(slope) < GRADIENT * s->scale && *hessian > 1e-9 * s->scale;
}

// The side of a crease (a face of the box in the bracket) on which sigma falls; false: the crease is the minimum.
static bool leave_creases(const search *s, const circle *c, int type, double *lo, double *hi) {
  if (type != pb_geomBox) return true;
  double crease = ceil(*lo / (0.5 * PB_PI)) * (0.5 * PB_PI), n[3], before, after, hessian;
  if (!(crease < *hi)) return true;
  circle_slope(s, c, crease - 4 * FLAT, n, &before, &hessian);
  circle_slope(s, c, crease + 4 * FLAT, n, &after, &hessian);
  if (before <= 0 && after >= 0) return false;
  if (before > 0) {
    *hi = crease - 4 * FLAT;
  } else {
    *lo = crease + 4 * FLAT;
  }
  return true;
}

static void make_circle(const search *s, int shape, int axis, circle *c) {
  m3_col(c->e, s->core[shape]->mat, axis);
  m3_col(c->u, s->core[shape]->mat, (axis + 1) % 3);
  m3_col(c->v, s->core[shape]->mat, (axis + 2) % 3);
}

static void circle_from(search *s, const circle *c, int shape, int axis, double angle) {
  double n[3], slope, hessian, other, lo = angle, hi = angle, step = 2 * PB_PI / CIRCLE_SAMPLES;
  circle_slope(s, c, angle, n, &slope, &hessian);
  for (int k = 0; k < CIRCLE_SAMPLES; k++) {  // walk down until the slope turns
    double next = slope > 0 ? lo - step : hi + step;
    circle_slope(s, c, next, n, &other, &hessian);
    bool turned = (other > 0) != (slope > 0);
    if (slope > 0) {
      hi = lo, lo = next;
    } else {
      lo = hi, hi = next;
    }
    if (turned) break;
  }
  if (!leave_creases(s, c, s->core[shape]->type, &lo, &hi)) return;
  if (!circle_minimum(s, c, lo, hi, n, &hessian)) return;
  v3_normalize(n);
  if (!offer(s, n, sigma(s, n), 1e-14, pb_normalCircle)) return;
  s->out->shape = shape, s->out->axis1 = axis, s->out->inverse[0] = 1 / hessian;
}

static void try_circle(search *s, int shape, int axis) {
  circle c;
  double n[3], best = 0, lowest = INFINITY;
  make_circle(s, shape, axis, &c);
  for (int k = 0; k < CIRCLE_SAMPLES; k++) {
    double angle = (k + 0.31) * (2 * PB_PI / CIRCLE_SAMPLES);
    on_circle(c.u, c.v, angle, n);
    double value = sigma(s, n);
    if (value < s->limit) s->apart = true;
    if (value < lowest) lowest = value, best = angle;
  }
  if (!(lowest < INFINITY) || s->apart) return;
  circle_from(s, &c, shape, axis, best);
  double x = v3_dot(s->out->n, c.u), y = v3_dot(s->out->n, c.v);
  if (s->out->kind != pb_normalCircle && x * x + y * y > 0.01) circle_from(s, &c, shape, axis, atan2(y, x) + 1e-7);
}

// ---- the whole sphere ---------------------------------------------------------------------------------------------
static void tangents(const double n[3], double t[2][3]) {
  int i = fabs(n[0]) < fabs(n[1]) ? (fabs(n[0]) < fabs(n[2]) ? 0 : 2) : (fabs(n[1]) < fabs(n[2]) ? 1 : 2);
  double axis[3] = {i == 0, i == 1, i == 2};
  v3_cross(t[0], n, axis);
  v3_normalize(t[0]);
  v3_cross(t[1], n, t[0]);
}

// Second derivative of sigma along the sphere: T' H T - sigma
static void tangent_hessian(const double H[9], double t[2][3], double value, double out[3]) {
  double a[3], b[3];
  m3_mulv(a, H, t[0]);
  m3_mulv(b, H, t[1]);
  out[0] = v3_dot(t[0], a) - value, out[1] = v3_dot(t[1], a), out[2] = v3_dot(t[1], b) - value;
}

// Descent direction: Newton with eigenvalues made positive
static void newton_move(const double h[3], const double g[2], double floor, double move[2]) {
  double mean = 0.5 * (h[0] + h[2]), diff = 0.5 * (h[0] - h[2]), root = sqrt(diff * diff + h[1] * h[1]);
  double c = 1, d = 0;  // first eigenvector
  if (root > 0) {
    double half = 0.5 * atan2(h[1], diff);
    c = cos(half), d = sin(half);
  }
  double l1 = fmax(fabs(mean + root), floor), l2 = fmax(fabs(mean - root), floor);
  double p = -(c * g[0] + d * g[1]) / l1, q = -(-d * g[0] + c * g[1]) / l2;
  move[0] = c * p - d * q, move[1] = d * p + c * q;
  double len = sqrt(move[0] * move[0] + move[1] * move[1]);
  if (len > 0.5) move[0] *= 0.5 / len, move[1] *= 0.5 / len;
}

// Descent got stuck at n on a crease: go on along it. n itself is a last resort.
static void from_crease(search *s, const double n[3], double value) {
  for (int k = 0; k < 2; k++) {
    int first, count;
    line_axes(s->core[k]->type, &first, &count);
    for (int a = first; a < first + count; a++) {
      circle c;
      make_circle(s, k, a, &c);
      if (fabs(v3_dot(n, c.e)) < 0.1) circle_from(s, &c, k, a, atan2(v3_dot(n, c.v), v3_dot(n, c.u)));
    }
  }
  offer(s, n, value, 1e-8, pb_normalFixed);
}

static void sphere_newton(search *s, double n[3]) {
  double x[3], H[9], t[2][3], h[3], g[2], g2 = 0, value = evaluate(s, n, 0, x, H);
  for (int step = 0;; step++) {
    tangents(n, t);
    tangent_hessian(H, t, value, h);
    g[0] = v3_dot(x, t[0]), g[1] = v3_dot(x, t[1]);
    g2 = g[0] * g[0] + g[1] * g[1];
    if (step == NEWTON_STEPS || !(g2 > 1e-32 * s->scale * s->scale)) break;
    double move[2];
    newton_move(h, g, 1e-9 * s->scale, move);
    bool moved = false;
    for (int half = 0; half < HALVINGS && !moved; half++, move[0] *= 0.5, move[1] *= 0.5) {
      double trial[3], tx[3], tH[9], tt[2][3];
      for (int i = 0; i < 3; i++) trial[i] = n[i] + move[0] * t[0][i] + move[1] * t[1][i];
      v3_normalize(trial);
      double tv = evaluate(s, trial, 0, tx, tH);
      if (tv < s->limit) s->apart = true;
      tangents(trial, tt);
      double u = v3_dot(tx, tt[0]), v = v3_dot(tx, tt[1]);
      if (!(tv < value || (tv <= value + 1e-15 * s->scale && u * u + v * v < g2))) continue;
      v3_copy(n, trial), v3_copy(x, tx), m3_copy(H, tH);
      value = tv, moved = true;
    }
    if (!moved || s->apart) break;
  }
  if (!(g2 < GRADIENT * GRADIENT * s->scale * s->scale)) {
    from_crease(s, n, value);
    return;
  }
  double det = h[0] * h[2] - h[1] * h[1];
  bool regular = det > 1e-18 * s->scale * s->scale;
  if (!offer(s, n, value, 1e-13, regular ? pb_normalSphere : pb_normalFixed)) return;
  memcpy(s->out->tangent, t, sizeof t);
  if (regular) s->out->inverse[0] = h[2] / det, s->out->inverse[1] = -h[1] / det, s->out->inverse[2] = h[0] / det;
}

// If n sits on a crease of sigma from which it can fall (the other shape's point is beyond the flat feature), step off it.
// False: n is a minimum as far as its creases go.
static bool step_off(const search *s, double n[3]) {
  double x[3], push[3] = {0, 0, 0};
  bool creased = false, falls = false;
  evaluate(s, n, FLAT, x, NULL);
  for (int k = 0; k < 2; k++) {
    const pbCore *core = s->core[k];
    double m[3], over[3], p[3] = {0, 0, 0}, world[3];
    signed char sign[3];
    m3_tmulv(m, core->mat, n);
    m3_tmulv(over, core->mat, x);
    pick_signs(core->type, m, FLAT, sign);
    if (!support_is_flat(core->type, sign)) continue;
    creased = true;
    bool segment = core->type == pb_geomCapsule;
    for (int i = segment || core->type == pb_geomCylinder ? 2 : 0; i < 3; i++) {
      double half = core->type == pb_geomBox ? core->size[i] : core->size[1];
      if (!sign[i] && fabs(over[i]) > half) p[i] = over[i] > 0 ? -1 : 1;
    }
    double rho = sqrt(over[0] * over[0] + over[1] * over[1]);
    if (core->type == pb_geomCylinder && !sign[0] && rho > core->size[0]) p[0] = -over[0] / rho, p[1] = -over[1] / rho;
    falls = falls || p[0] != 0 || p[1] != 0 || p[2] != 0;
    m3_mulv(world, core->mat, p);
    v3_addto(push, world);
  }
  if (!falls) return !creased;
  double lowest = INFINITY, base[3];
  v3_copy(base, n);
  for (double step = 1e-1; step > 1e-10; step *= 0.1) {
    double trial[3];
    v3_along(trial, base, push, step);
    v3_normalize(trial);
    double value = sigma(s, trial);
    if (value < lowest) lowest = value, v3_copy(n, trial);
  }
  return true;
}

// A direction of the samples in the frame of shape 2. Long directions of an ellipsoid are rarely normals: there they are
// scaled by the inverse of its radii.
static void sample(const search *s, int code, double n[3]) {
  const pbCore *core = s->core[1];
  double local[3] = {code % 3 - 1 + 0.03, code / 3 % 3 - 1 - 0.05, code / 9 - 1 + 0.02};
  if (core->type == pb_geomEllipsoid) {
    for (int i = 0; i < 3; i++) local[i] /= fmax(core->size[i], 1e-9 * s->scale);
  }
  m3_mulv(n, core->mat, local);
  v3_normalize(n);
}

static void try_sphere(search *s) {
  double n[3], starts[SPHERE_STARTS][3], values[27];
  int count = 0;
  v3_copy(n, s->out->n);
  if (step_off(s, n)) sphere_newton(s, n);
  for (int code = 0; code < 27 && !s->apart; code++) {
    sample(s, code, n);
    values[code] = code == 13 ? INFINITY : sigma(s, n);  // 13: no direction
    s->apart = values[code] < s->limit;
  }
  while (count < SPHERE_STARTS && !s->apart) {  // from the lowest samples that are not close to each other
    int lowest = -1;
    for (int code = 0; code < 27; code++) {
      if (values[code] < INFINITY && (lowest < 0 || values[code] < values[lowest])) lowest = code;
    }
    if (lowest < 0) break;
    sample(s, lowest, n);
    values[lowest] = INFINITY;
    bool fresh = true;
    for (int k = 0; k < count; k++) fresh = fresh && v3_dot(starts[k], n) < 0.8;
    if (!fresh) continue;
    v3_copy(starts[count++], n);
    sphere_newton(s, n);
  }
}

bool pbConvex_Search(const pbCore *core1, const pbCore *core2, double margin, pbConvexNormal *out) {
  search s = {.core = {core1, core2}, .best = INFINITY, .out = out};
  memset(out, 0, sizeof *out);
  v3_sub(s.offset, core2->pos, core1->pos);
  double radii = core1->radius + core2->radius, distance = v3_norm(s.offset), n[3];
  for (int i = 0; i < 3; i++) s.scale = fmax(s.scale, fmax(core1->size[i], core2->size[i]));
  s.limit = -radii - margin;
  s.scale += radii;
  if (!(s.scale > 0 && s.scale < 1e150 && distance < 1e150)) return false;  // also where a pose is NaN
  out->scale = s.scale;

  v3_copy(n, s.offset);
  v3_normalize(n);
  double first = sigma(&s, n);
  offer(&s, n, first, 0, pb_normalFixed);
  s.best = first + 1e-9 * s.scale;  // any real candidate wins against it
  if (s.apart) return false;
  try_isolated(&s);
  for (int k = 0; k < 2 && !s.apart; k++) {
    int first, count;
    line_axes(s.core[k]->type, &first, &count);
    for (int a = first; a < first + count && !s.apart; a++) try_circle(&s, k, a);
  }
  if (!s.apart) try_sphere(&s);
  if (s.apart || !(s.best < INFINITY)) return false;
  for (int k = 0; k < 2; k++) {
    double m[3];
    m3_tmulv(m, s.core[k]->mat, out->n);
    v3_scale(m, m, k ? -1 : 1);
    pick_signs(s.core[k]->type, m, FLAT, k ? out->sign2 : out->sign1);
  }
  return true;
}

#else
typedef int convex_search_is_for_doubles;
#endif
