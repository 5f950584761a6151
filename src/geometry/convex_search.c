// The normal of deepest contact of two convex shapes: the global minimum of sigma (convex.h) over the unit sphere.
// sigma is piecewise smooth. Its minima lie at isolated directions (faces, cross products of lines: evaluated all), on
// circles (at right angles to a line: looked at in places, then Newton in a bracket), or in the smooth rest (Newton from several
// starts). The lowest of all candidates is taken. Where the shapes without their radii are apart, sigma's minimum is unique,
// and the first one found ends the search. Everything is bounded in iterations.
// Tests: tests/oracle/test_convex.py.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "elementary/elementary.h"
#include "geometry/convex_probe.h"

#define GRADIENT 1e-11  // relative slope of a stationary point
enum {
  CIRCLE_PLACES = 12,
  CIRCLE_STEPS = 48,
  SPHERE_PLACES = 64,
  SPHERE_STARTS = 4,
  NEWTON_STEPS = 30,
  HALVINGS = 10,
  CREASES = 3,
  ROUNDS = 3
};

// ---- isolated directions ------------------------------------------------------------------------------------------
static void offer_both_signs(search *s, const double direction[3], pbNormalKind kind, int shape, int axis1, int axis2) {
  for (int sign = 1; sign >= -1; sign -= 2) {
    double n[3];
    v3_scale(n, direction, sign);
    if (!offer(s, n, sigma(s, n), 1e-14, kind)) continue;

    s->out->shape = shape;
    s->out->axis1 = axis1;
    s->out->axis2 = axis2;
    s->out->sign = sign;
  }
}

// Directions of straight lines: first axis and number.
static void line_axes(int type, int *first, int *count) {
  *first = type == pb_geomBox ? 0 : 2;
  *count = type == pb_geomCylinder || type == pb_geomCapsule;
  if (type == pb_geomBox) *count = 3;
}

static void try_isolated(search *s) {
  // Normals of faces.
  for (int k = 0; k < 2; k++) {
    int first, count;
    face_axes(s->core[k]->type, &first, &count);
    for (int a = first; a < first + count; a++) {
      double axis[3];
      m3_col(axis, s->core[k]->mat, a);
      offer_both_signs(s, axis, pb_normalFace, k, a, 0);
    }
  }

  // Cross products of two straight lines.
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

static double line_half(const pbCore *core, int axis) { return core->type == pb_geomBox ? core->size[axis] : core->size[1]; }

// The differences of the supports seen in the frame of the shape with the face: within its face?
static bool is_over_face(const pbCore *core, int axis, const double over[3]) {
  if (core->type == pb_geomCylinder) return over[0] * over[0] + over[1] * over[1] <= core->size[0] * core->size[0];
  for (int i = 0; i < 3; i++) {
    if (i != axis && !(fabs(over[i]) <= core->size[i])) return false;
  }
  return true;
}

// x = t1 e1 + t2 e2 across n: do both lines reach that far?
static bool lines_cross(const search *s, const double x[3]) {
  const pbConvexNormal *best = s->out;
  double e1[3], e2[3];
  m3_col(e1, s->core[0]->mat, best->axis1);
  m3_col(e2, s->core[1]->mat, best->axis2);
  double c = v3_dot(e1, e2), x1 = v3_dot(x, e1), x2 = v3_dot(x, e2), inv = 1 / (1 - c * c);
  return fabs((x1 - c * x2) * inv) <= line_half(s->core[0], best->axis1) &&
         fabs((x2 - c * x1) * inv) <= line_half(s->core[1], best->axis2);
}

// Whether the best candidate so far is a minimum for certain: 0 is among the differences of the two supports' points,
// seen along n. (May say no of one that is, never yes of one that is not.)
static bool is_minimum(const search *s) {
  const pbConvexNormal *best = s->out;
  const pbCore *core = s->core[best->shape];
  probe p;
  double over[3];
  probe_at(s, best->n, FLAT, &p);
  m3_tmulv(over, core->mat, p.x);

  switch (best->kind) {
    case pb_normalSphere: return true;
    case pb_normalCircle: return fabs(over[best->axis1]) <= line_half(core, best->axis1);
    case pb_normalFace: return is_over_face(core, best->axis1, over);
    case pb_normalCross: return lines_cross(s, p.x);
    default: return false;
  }
}

// ---- circles ------------------------------------------------------------------------------------------------------
typedef struct circle {
  double e[3], u[3], v[3];  // axis, and two directions at right angles
  int shape, axis;
} circle;

static void make_circle(const search *s, int shape, int axis, circle *c) {
  m3_col(c->e, s->core[shape]->mat, axis);
  m3_col(c->u, s->core[shape]->mat, (axis + 1) % 3);
  m3_col(c->v, s->core[shape]->mat, (axis + 2) % 3);
  c->shape = shape;
  c->axis = axis;
}

static void on_circle(const circle *c, double x, double y, double n[3]) {
  for (int i = 0; i < 3; i++) n[i] = x * c->u[i] + y * c->v[i];
}

// n at an angle, slope of sigma and second derivative along the circle: sigma' = x . t, sigma'' = t' (dx/dn) t - sigma.
static void circle_slope(const search *s, const circle *c, double angle, double n[3], double *slope, double *hessian) {
  probe p;
  double t[3];

  on_circle(c, pbCos(angle), pbSin(angle), n);
  probe_at(s, n, FLAT, &p);

  v3_cross(t, c->e, n);
  *slope = v3_dot(p.x, t);
  *hessian = curvature(s, &p, t, t) - p.value;
}

// Newton at the minimum itself, where the slope is small and bisection no longer helps: a step must lower the slope.
static bool polish_circle(const search *s, const circle *c, double angle, double slope, double n[3], double *hessian) {
  for (int step = 0; step < 3; step++) {
    if (!(*hessian > 1e-9 * s->scale) || fabs(slope) > 1e-3 * s->scale) return false;

    // Far away or no better: what there is counts as it is.
    double move = -slope / *hessian, trial[3], trial_slope, trial_hessian;
    if (fabs(move) > 1e-6) break;
    circle_slope(s, c, angle + move, trial, &trial_slope, &trial_hessian);
    if (!(fabs(trial_slope) < fabs(slope))) break;

    angle += move;
    slope = trial_slope;
    *hessian = trial_hessian;
    v3_copy(n, trial);
  }

  return fabs(slope) < GRADIENT * s->scale && (*hessian) > 1e-9 * s->scale;
}

// Minimum within lo..hi, where the slope goes from negative to positive: Newton kept inside the bracket by bisection
// (Press et al., Numerical Recipes, rtsafe). False where the minimum is a crease (those are among the isolated directions).
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

  return polish_circle(s, c, angle, slope, n, hessian);
}

// The side of a crease at an angle in the bracket on which sigma falls; false: the crease is the minimum.
static bool leave_crease(const search *s, const circle *c, double crease, double *lo, double *hi) {
  double n[3], before, after, hessian;
  if (!(crease > *lo && crease < *hi)) return true;

  circle_slope(s, c, crease - 4 * FLAT, n, &before, &hessian);
  circle_slope(s, c, crease + 4 * FLAT, n, &after, &hessian);

  // Downhill toward the crease from both sides: it is the minimum.
  if (before <= 0 && after >= 0) return false;

  if (before > 0) {
    *hi = crease - 4 * FLAT;
  } else {
    *lo = crease + 4 * FLAT;
  }

  return true;
}

// Known creases of the circle: the box's own faces, and the best isolated direction.
static bool leave_creases(const search *s, const circle *c, double *lo, double *hi) {
  const double quarter = 0.5 * PB_PI;
  if (s->core[c->shape]->type == pb_geomBox && !leave_crease(s, c, ceil(*lo / quarter) * quarter, lo, hi)) return false;

  pbNormalKind kind = s->out->kind;
  if ((kind != pb_normalFace && kind != pb_normalCross) || fabs(v3_dot(s->out->n, c->e)) > FLAT) return true;

  double angle = pbAtan2(v3_dot(s->out->n, c->v), v3_dot(s->out->n, c->u));
  if (angle < *lo) angle += 2 * PB_PI;

  return leave_crease(s, c, angle, lo, hi);
}

// The minimum downhill from an angle, offered as a candidate.
static void circle_from(search *s, const circle *c, double angle) {
  double n[3], slope, hessian, other, lo = angle, hi = angle, step = 2 * PB_PI / CIRCLE_PLACES;

  circle_slope(s, c, angle, n, &slope, &hessian);
  // Walk down until the slope changes sign: a bracket.
  bool down = slope > 0;
  for (int k = 0; k < CIRCLE_PLACES; k++) {
    double next = down ? lo - step : hi + step;
    circle_slope(s, c, next, n, &other, &hessian);
    if (down) {
      hi = lo;
      lo = next;
    } else {
      lo = hi;
      hi = next;
    }
    if ((other > 0) != down) break;
  }

  if (!leave_creases(s, c, &lo, &hi)) return;
  if (!circle_minimum(s, c, lo, hi, n, &hessian)) return;

  v3_normalize(n);
  if (!offer(s, n, sigma(s, n), 1e-14, pb_normalCircle)) return;
  s->out->shape = c->shape;
  s->out->axis1 = c->axis;
  s->out->inverse[0] = 1 / hessian;
}

// From the valleys among places: the lowest, and others that are not far above the best so far.
static void try_circle(search *s, int shape, int axis) {
  const double step = 2 * PB_PI / CIRCLE_PLACES, first = 0.31 * step, dx = pbCos(step), dy = pbSin(step);
  PB_ASSERT(axis >= 0 && axis < 3);
  circle c;
  double n[3], values[CIRCLE_PLACES], x = pbCos(first), y = pbSin(first);
  int lowest = 0;
  make_circle(s, shape, axis, &c);

  // Values all around, the directions by the addition theorem.
  for (int k = 0; k < CIRCLE_PLACES; k++) {
    on_circle(&c, x, y, n);
    double rotated = x * dx - y * dy;
    y = x * dy + y * dx;
    x = rotated;

    values[k] = sigma(s, n);
    if (values[k] < values[lowest]) lowest = k;
  }

  if (values[lowest] < s->limit) s->apart = true;
  if (!(values[lowest] < INFINITY) || s->apart) return;

  circle_from(s, &c, first + lowest * step);
  if (s->best < 0) return;  // only one valley counts

  // Other local minima of the places.
  for (int k = 0; k < CIRCLE_PLACES; k++) {
    double before = values[(k + CIRCLE_PLACES - 1) % CIRCLE_PLACES], after = values[(k + 1) % CIRCLE_PLACES];
    bool valley = k != lowest && values[k] <= before && values[k] <= after;
    double rise = fmin(before, after) - values[k];  // how deep it may be between the places
    if (valley && values[k] - s->best < rise + 0.1 * s->scale) circle_from(s, &c, first + k * step);
  }
}

// ---- the whole sphere ---------------------------------------------------------------------------------------------
static int least_component(const double n[3]) {
  int least = fabs(n[0]) < fabs(n[1]) ? 0 : 1;
  return fabs(n[least]) < fabs(n[2]) ? least : 2;
}

static void tangents(const double n[3], double t[2][3]) {
  int i = least_component(n);
  double axis[3] = {i == 0, i == 1, i == 2};
  v3_cross(t[0], n, axis);
  v3_normalize(t[0]);
  v3_cross(t[1], n, t[0]);
}

// Gradient of sigma along the sphere, and its second derivative T' (d x / d n) T - sigma.
static void sphere_derivatives(const search *s, const probe *p, double t[2][3], double g[2], double h[3]) {
  tangents(p->n, t);
  g[0] = v3_dot(p->x, t[0]);
  g[1] = v3_dot(p->x, t[1]);
  h[0] = curvature(s, p, t[0], t[0]) - p->value;
  h[1] = curvature(s, p, t[0], t[1]);
  h[2] = curvature(s, p, t[1], t[1]) - p->value;
}

// Descent direction: Newton with the eigenvalues of the 2x2 Hessian made positive, at most half a radian.
static void newton_move(const double h[3], const double g[2], double floor, double move[2]) {
  PB_ASSERT(floor > 0);
  double mean = 0.5 * (h[0] + h[2]), diff = 0.5 * (h[0] - h[2]), root = sqrt(diff * diff + h[1] * h[1]);

  // The first eigenvector (c, d) is at half the angle of (diff, h1).
  double c = 1, d = 0;
  if (root > 0) {
    c = sqrt(fmax(0, 0.5 * (1 + diff / root)));
    d = sqrt(fmax(0, 0.5 * (1 - diff / root)));
    if (h[1] < 0) d = -d;
  }

  double l1 = fmax(fabs(mean + root), floor), l2 = fmax(fabs(mean - root), floor);
  double p = -(c * g[0] + d * g[1]) / l1, q = -(-d * g[0] + c * g[1]) / l2;
  move[0] = c * p - d * q;
  move[1] = d * p + c * q;

  double len = sqrt(move[0] * move[0] + move[1] * move[1]);
  if (len > 0.5) {
    move[0] *= 0.5 / len;
    move[1] *= 0.5 / len;
  }
}

// Descent got stuck at n on a crease: go on along it. n itself is a last resort.
static void from_crease(search *s, const double n[3], double value) {
  // Circles about straight lines that n is nearly at right angles to.
  for (int k = 0; k < 2; k++) {
    int first, count;
    line_axes(s->core[k]->type, &first, &count);
    for (int a = first; a < first + count; a++) {
      circle c;
      make_circle(s, k, a, &c);
      if (fabs(v3_dot(n, c.e)) < 0.1) circle_from(s, &c, pbAtan2(v3_dot(n, c.v), v3_dot(n, c.u)));
    }
  }
  offer(s, n, value, 1e-8, pb_normalFixed);
}

// The piece of sigma a direction lies in.
static int piece(const search *s, const probe *p) {
  int code = 0;
  for (int k = 0; k < 2; k++) {
    if (s->core[k]->type == pb_geomEllipsoid) continue;
    for (int i = s->core[k]->type == pb_geomBox ? 0 : 2; i < 3; i++) code |= (p->m[k][i] > 0) << (3 * k + i);
  }
  return code;
}

// A step along the move that lowers sigma, shortened as needed; false: none does.
static bool descend(search *s, probe *p, double t[2][3], double move[2], double g2) {
  for (int half = 0; half < HALVINGS; half++, move[0] *= 0.5, move[1] *= 0.5) {
    // A shorter step each time.
    double n[3], tt[2][3];
    for (int i = 0; i < 3; i++) n[i] = p->n[i] + move[0] * t[0][i] + move[1] * t[1][i];
    v3_normalize(n);

    double value = sigma(s, n);
    if (value < s->limit) s->apart = true;
    if (!(value <= p->value + 1e-15 * s->scale)) continue;

    probe trial;
    probe_at(s, n, 0, &trial);

    // Level to rounding: the gradient decides.
    if (value >= p->value) {
      tangents(n, tt);
      double u = v3_dot(trial.x, tt[0]), v = v3_dot(trial.x, tt[1]);
      if (!(u * u + v * v < g2)) continue;
    }

    *p = trial;
    return true;
  }

  return false;
}

// Newton's method from p on, until the gradient is down, no step lowers sigma, or it has changed pieces too often: then it
// zigzags across a crease. Leaves tangents and derivatives at the last direction; returns the squared gradient.
static double iterate_newton(search *s, probe *p, double t[2][3], double h[3]) {
  double g[2], move[2], scale2 = s->scale * s->scale;
  int current = piece(s, p), changes = 0;
  for (int step = 0;; step++) {
    sphere_derivatives(s, p, t, g, h);
    double g2 = g[0] * g[0] + g[1] * g[1];
    if (step == NEWTON_STEPS || !(g2 > 1e-32 * scale2) || changes > CREASES) return g2;

    // sigma's pieces are smooth: count the changes from one to another.
    newton_move(h, g, 1e-9 * s->scale, move);
    if (!descend(s, p, t, move, g2) || s->apart) return g2;

    int next = piece(s, p);
    changes += next != current;
    current = next;
  }
}

// The local minimum that Newton's method reaches from a direction, offered as a candidate.
static void sphere_newton(search *s, const double start[3]) {
  probe p;
  double t[2][3], h[3], scale2 = s->scale * s->scale;
  probe_at(s, start, 0, &p);
  double g2 = iterate_newton(s, &p, t, h);
  if (s->apart) return;
  if (!(g2 < GRADIENT * GRADIENT * scale2)) {
    from_crease(s, p.n, p.value);
    return;
  }

  double det = h[0] * h[2] - h[1] * h[1];
  bool regular = det > 1e-18 * scale2 && h[0] > 0;
  if (!offer(s, p.n, p.value, 1e-13, regular ? pb_normalSphere : pb_normalFixed)) return;

  memcpy(s->out->tangent, t, sizeof t);
  // The inverse Hessian carries the derivative of the normal (convex.c).
  if (regular) {
    s->out->inverse[0] = h[2] / det;
    s->out->inverse[1] = -h[1] / det;
    s->out->inverse[2] = h[0] / det;
  }
}

// Directions in which sigma falls from n, for each shape with a flat feature there: the other shape's point is beyond it.
// creased: there is a flat feature at all. Returns whether sigma falls.
static bool crease_push(const search *s, const double n[3], double push[3], bool *creased) {
  probe p;
  bool falls = false;
  probe_at(s, n, FLAT, &p);
  v3_zero(push);
  *creased = false;
  for (int k = 0; k < 2; k++) {
    const pbCore *core = s->core[k];
    double over[3], local[3] = {0, 0, 0}, world[3];
    signed char sign[3];

    m3_tmulv(over, core->mat, p.x);
    pick_signs(core->type, p.m[k], FLAT, sign);
    if (!support_is_flat(core->type, sign)) continue;
    *creased = true;

    // Beyond an edge of a box, an end of a line, the rim of a disc.
    for (int i = core->type == pb_geomBox ? 0 : 2; i < 3; i++) {
      if (!sign[i] && fabs(over[i]) > line_half(core, i)) local[i] = over[i] > 0 ? -1 : 1;
    }

    double rho = sqrt(over[0] * over[0] + over[1] * over[1]);
    if (core->type == pb_geomCylinder && !sign[0] && rho > core->size[0]) {
      local[0] = -over[0] / rho;
      local[1] = -over[1] / rho;
    }

    falls = falls || local[0] != 0 || local[1] != 0 || local[2] != 0;
    m3_mulv(world, core->mat, local);
    v3_addto(push, world);
  }

  return falls;
}

// If n sits on a crease of sigma from which it can fall, step off it. False: n is a minimum as far as its creases go.
static bool step_off(const search *s, double n[3]) {
  double push[3], lowest = INFINITY, base[3];
  bool creased;
  if (!crease_push(s, n, push, &creased)) return !creased;

  v3_copy(base, n);

  // The lowest of ten lengths of step.
  for (double step = 1e-1; step > 1e-10; step *= 0.1) {
    double trial[3];
    v3_along(trial, base, push, step);
    v3_normalize(trial);

    double value = sigma(s, trial);
    if (value < lowest) {
      lowest = value;
      v3_copy(n, trial);
    }
  }

  return true;
}

// Directions spread evenly (a spiral by the golden angle) in the frame of shape 2. Long directions of an ellipsoid are
// rarely normals: there they are scaled by the inverse of its radii.
static void spread(const search *s, double out[SPHERE_PLACES][3]) {
  const double dx = -0.7373688780783197, dy = 0.6754902942615238;  // cosine and sine of the golden angle
  const pbCore *core = s->core[1];
  double x = 1, y = 0;
  for (int k = 0; k < SPHERE_PLACES; k++) {
    double z = 1 - (2 * k + 1.0) / SPHERE_PLACES, rho = sqrt(1 - z * z), rotated = x * dx - y * dy;
    double local[3] = {rho * x, rho * y, z};
    y = x * dy + y * dx;
    x = rotated;

    if (core->type == pb_geomEllipsoid) {
      for (int i = 0; i < 3; i++) local[i] /= fmax(core->size[i], 1e-9 * s->scale);
    }

    m3_mulv(out[k], core->mat, local);
    v3_normalize(out[k]);
  }
}

static int lowest_place(const double values[SPHERE_PLACES]) {
  int lowest = -1;
  for (int k = 0; k < SPHERE_PLACES; k++) {
    if (values[k] < INFINITY && (lowest < 0 || values[k] < values[lowest])) lowest = k;
  }
  return lowest;
}

// From the lowest places that are not close to each other.
static void try_places(search *s) {
  double directions[SPHERE_PLACES][3], values[SPHERE_PLACES];
  int starts[SPHERE_STARTS], count = 0;
  spread(s, directions);
  for (int k = 0; k < SPHERE_PLACES; k++) {
    values[k] = sigma(s, directions[k]);
    if (values[k] < s->limit) s->apart = true;
  }

  while (count < SPHERE_STARTS && !s->apart) {
    int lowest = lowest_place(values);
    if (lowest < 0) break;
    values[lowest] = INFINITY;  // taken

    bool fresh = true;
    for (int k = 0; k < count; k++) fresh = fresh && v3_dot(directions[starts[k]], directions[lowest]) < 0.88;
    if (!fresh) continue;

    PB_ASSERT(lowest >= 0 && lowest < SPHERE_PLACES);
    starts[count++] = lowest;
    sphere_newton(s, directions[lowest]);
  }
}

// Whether penetrating shapes can touch where sigma is smooth: the sum of their surfaces is curved both ways there.
static bool curved(const search *s) {
  int type1 = s->core[0]->type, type2 = s->core[1]->type;
  return type1 == pb_geomEllipsoid || type2 == pb_geomEllipsoid || (type1 == pb_geomCylinder && type2 == pb_geomCylinder);
}

static int radius_count(int type) {
  if (type == pb_geomBox || type == pb_geomEllipsoid) return 3;
  return type == pb_geomCylinder ? 2 : 0;
}

// Whether the best candidate is so shallow that lower valleys can only be near it. Not so where two rims meet.
static bool shallow(const search *s) {
  double smallest = INFINITY;
  bool smooth = false;
  for (int k = 0; k < 2; k++) {
    const pbCore *core = s->core[k];
    int radii = radius_count(core->type);
    for (int i = 0; i < radii; i++) smallest = fmin(smallest, core->size[i]);
    smooth = smooth || core->type == pb_geomEllipsoid;
  }

  return smooth && s->best < 0.1 * smallest;
}

// Look around the best direction on all scales; go on from where it is lower. Guards against starts that missed the lowest
// valley, or stopped where valleys meet.
static void try_around(search *s) {
  static const double c[8] = {1, 0.7, 0, -0.7, -1, -0.7, 0, 0.7};  // cosines, roughly
  for (int round = 0; round < ROUNDS && !s->apart; round++) {
    double t[2][3], n[3], lower[3], lowest = s->best - 1e-12 * s->scale;
    bool found = false;

    tangents(s->out->n, t);
    // Rings of eight directions, each 0.4 times as wide as the one before.
    for (double width = 0.6; width > 1e-4; width *= 0.4) {
      for (int k = 0; k < 8; k++) {
        for (int i = 0; i < 3; i++) n[i] = s->out->n[i] + width * (c[k] * t[0][i] + c[(k + 6) % 8] * t[1][i]);
        v3_normalize(n);

        double value = sigma(s, n);
        if (value < lowest) {
          lowest = value;
          found = true;
          v3_copy(lower, n);
        }
      }
    }

    if (!found) return;
    sphere_newton(s, lower);
  }
}

// Cheapest candidates first; where the shapes overlap not even without their radii, a certain minimum ends the search.
static void find_minimum(search *s) {
  double n[3];

  // The direction between the centers: apart along it, or a value to begin with.
  v3_copy(n, s->offset);
  v3_normalize(n);
  double first = sigma(s, n);
  offer(s, n, first, 0, pb_normalFixed);
  s->best = first + 1e-9 * s->scale;  // any real candidate wins against it
  if (s->apart) return;

  // Isolated directions.
  try_isolated(s);
  if (s->apart || (s->best < 0 && is_minimum(s))) return;

  // Circles about straight lines.
  for (int k = 0; k < 2; k++) {
    int first_axis, count;
    line_axes(s->core[k]->type, &first_axis, &count);
    for (int a = first_axis; a < first_axis + count; a++) {
      try_circle(s, k, a);
      if (s->apart) return;
    }
  }
  if (s->best < 0 && is_minimum(s)) return;

  // The smooth rest: from the best so far, then from places, then all around the best.
  v3_copy(n, s->out->n);
  if (step_off(s, n)) sphere_newton(s, n);
  if (!s->apart && s->best >= 0 && curved(s) && !(shallow(s) && is_minimum(s))) try_places(s);
  if (!s->apart && !(s->best < 0 && is_minimum(s))) try_around(s);
}

bool pbConvex_Search(const pbCore *core1, const pbCore *core2, double margin, pbConvexNormal *out) {
  search s = {.core = {core1, core2}, .best = INFINITY, .out = out};
  memset(out, 0, sizeof *out);
  out->kind = pb_normalFixed;
  v3_sub(s.offset, core2->pos, core1->pos);

  double radii = core1->radius + core2->radius, distance = v3_norm(s.offset);
  for (int i = 0; i < 3; i++) s.scale = fmax(s.scale, fmax(core1->size[i], core2->size[i]));
  s.limit = -radii - margin;
  s.scale += radii;

  if (!(s.scale > 0 && s.scale < 1e150 && distance < 1e150)) return false;  // also where a position is NaN

  out->scale = s.scale;
  find_minimum(&s);

  if (s.apart || !(s.best < INFINITY)) return false;
  pbConvex_PreferWider(&s);
  // The features that support the normal, which the derivative freezes.
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
