// Polytope against cylinder or ellipsoid: from a normal that is nearly the deepest one to the minimum of sigma next to it
// (polytope.h). Its neighborhood is made of pieces: faces of the polytope, circles at right angles to its edges, directions that
// one corner supports; and where the cylinder is straight, its axis, directions across it. The minima of all pieces at a corner
// are candidates, Newton's method gives those that are curved; the lowest is taken, and again from there. In doubles.
#include "number/number.h"

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
#include "base/assert.h"
#include "geometry/convex_probe.h"
#include "geometry/polytope.h"

enum { NEWTON_STEPS = 15, HALVINGS = 6, ROUNDS = 20 };
#define NEAR  0.9    // cosine: candidates further away are none
#define BELOW 1e-14  // of the scale: what counts as lower
#define LOWER 1e-10  // of the scale: what is worth another round at the same corner
#define FLATS 1e-9   // of the scale: curvature below it is none

typedef struct polishing {
  pbPolytopePair *pair;
  const pbSupport *body, *other;
  double center[3], axis[3];  // of the round shape, from the body's
  double best, start[3];
  pbRound *out;
} polishing;

static void corner_at(const polishing *p, int id, double out[3]) {
  const pbSupport *s = p->body;
  m3_mulv(out, s->mat, (s->hull ? s->hull->corner : s->own) + 3 * id);
}

// The round shape's point furthest against u, and the direction -u in its frame.
static void round_point(const polishing *p, const double u[3], double m[3], double out[3]) {
  double local[3];
  signed char sign[3];

  m3_tmulv(m, p->other->mat, u);
  v3_neg(m, m);
  pick_signs(p->other->type, m, 0, sign);
  core_support(p->other->type, p->other->size, m, sign, local);
  m3_mulv(out, p->other->mat, local);
  v3_addto(out, p->center);
}

static double sigma_at(const polishing *p, const double u[3]) {
  double n[3];
  v3_scale(n, u, p->out->body ? -1 : 1);
  return pbPolytope_Sigma(p->pair, n);
}

static bool offer_round(polishing *p, const double u[3], pbRoundKind kind, int a, int b, int c) {
  if (!(v3_dot(u, p->start) > NEAR)) return false;

  // The full sigma: a piece's own value counts only where its corner is the support.
  double value = sigma_at(p, u);
  if (!(value < p->best - BELOW * p->pair->scale)) return false;
  p->best = value;
  p->out->kind = kind;
  p->out->id[0] = a;
  p->out->id[1] = b;
  p->out->id[2] = c;
  v3_copy(p->out->u, u);

  return true;
}

// ---- curved pieces -----------------------------------------------------------------------------------------------------
// sigma's part of a corner: f(u) = u . (corner - point(u)), with its gradient x = corner - point and second derivatives.
typedef struct piece {
  double value, x[3], m[3];
} piece;

static void piece_at(const polishing *p, const double corner[3], const double u[3], piece *f) {
  double point[3];
  round_point(p, u, f->m, point);
  v3_sub(f->x, corner, point);
  f->value = v3_dot(u, f->x);
}

static double bend(const polishing *p, const piece *f, const double a[3], const double b[3]) {
  double la[3], lb[3];
  m3_tmulv(la, p->other->mat, a);
  m3_tmulv(lb, p->other->mat, b);
  if (p->other->type == pb_geomEllipsoid) return ellipsoid_curvature(p->other->size, f->m, la, lb);
  return circle_curvature(p->other->size[0], f->m, la, lb);
}

// Gradient and Hessian along up to two tangents at u.
static void slopes(const polishing *p, const piece *f, int tangents, double t[2][3], double g[2], double h[3]) {
  g[1] = h[1] = 0;
  h[2] = 1;
  g[0] = v3_dot(f->x, t[0]);
  h[0] = bend(p, f, t[0], t[0]) - f->value;
  if (tangents == 1) return;
  g[1] = v3_dot(f->x, t[1]);
  h[1] = bend(p, f, t[0], t[1]);
  h[2] = bend(p, f, t[1], t[1]) - f->value;
}

// Tangents: both across u, or the one that is at right angles to an edge, too.
static int make_tangents(const double u[3], const double *edge, double t[2][3]) {
  if (edge) {
    v3_cross(t[0], edge, u);
    v3_normalize(t[0]);
    return 1;
  }

  double e[3] = {0, 0, 0};
  int least = 0;
  for (int i = 1; i < 3; i++) least = fabs(u[i]) < fabs(u[least]) ? i : least;
  e[least] = 1;
  v3_cross(t[0], u, e);
  v3_normalize(t[0]);
  v3_cross(t[1], u, t[0]);

  return 2;
}

// Newton's step, or downhill where sigma is not convex; at most a fifth of a radian.
static void newton_step(const double g[2], const double h[3], double floor, double step[2]) {
  double det = h[0] * h[2] - h[1] * h[1];

  if (h[0] > floor && det > floor * fabs(h[2])) {
    step[0] = -(h[2] * g[0] - h[1] * g[1]) / det;
    step[1] = -(h[0] * g[1] - h[1] * g[0]) / det;
  } else {
    double size = fabs(h[0]) + fabs(h[1]) + fabs(h[2]) + floor;
    step[0] = -g[0] / size;
    step[1] = -g[1] / size;
  }
  double length = sqrt(step[0] * step[0] + step[1] * step[1]);
  if (!(length > 0.2)) return;
  for (int k = 0; k < 2; k++) step[k] *= 0.2 / length;
}

static bool is_stationary(const double g[2], double scale) { return fabs(g[0]) < 1e-12 * scale && fabs(g[1]) < 1e-12 * scale; }

// The minimum of a corner's f near u, of all directions or of those across an edge. False: it is none, or its curvature none.
static bool minimize_piece(const polishing *p, const double corner[3], const double *edge, double u[3], double t[2][3],
                           double h[3]) {
  double g[2], step[2], scale = p->pair->scale;
  piece f;
  int tangents = 0;

  if (edge) {
    v3_addscl(u, edge, -v3_dot(u, edge));
    if (!(v3_normalize(u) > 0.1)) return false;
  }
  piece_at(p, corner, u, &f);

  // Newton's method, kept downhill.
  for (int k = 0; k < NEWTON_STEPS; k++) {
    tangents = make_tangents(u, edge, t);
    slopes(p, &f, tangents, t, g, h);
    if (fabs(g[0]) + fabs(g[1]) < 1e-16 * scale) break;
    newton_step(g, h, FLATS * scale, step);

    // Shortened until it lowers sigma.
    bool lower = false;
    for (int half = 0; half < HALVINGS && !lower; half++, step[0] *= 0.5, step[1] *= 0.5) {
      double trial[3];
      piece next;
      for (int i = 0; i < 3; i++) trial[i] = u[i] + step[0] * t[0][i] + (tangents == 2 ? step[1] * t[1][i] : 0);
      v3_normalize(trial);
      piece_at(p, corner, trial, &next);

      // Level to rounding: the slope decides.
      double t2[2][3], g2[2], h2[3];
      slopes(p, &next, make_tangents(trial, edge, t2), t2, g2, h2);
      lower = next.value < f.value - 1e-15 * scale ||
              (next.value < f.value + 1e-15 * scale && g2[0] * g2[0] + g2[1] * g2[1] < g[0] * g[0] + g[1] * g[1]);
      if (!lower) continue;
      v3_copy(u, trial);
      f = next;
    }
    if (!lower) break;
    if (v3_dot(u, p->start) < NEAR) return false;
  }

  // A minimum, and how curved.
  slopes(p, &f, make_tangents(u, edge, t), t, g, h);
  double det = h[0] * h[2] - h[1] * h[1];

  return is_stationary(g, scale) && h[0] > FLATS * scale && det > FLATS * scale * fabs(h[2]);
}

static void try_corner(polishing *p, int id) {
  double corner[3], u[3], t[2][3], h[3];

  corner_at(p, id, corner);
  v3_copy(u, p->start);
  if (!minimize_piece(p, corner, NULL, u, t, h) || !offer_round(p, u, pb_roundSphere, id, id, id)) return;

  // The inverse Hessian carries the derivative of the normal (polytope.c).
  double det = h[0] * h[2] - h[1] * h[1];
  memcpy(p->out->tangent, t, sizeof p->out->tangent);
  p->out->inverse[0] = h[2] / det;
  p->out->inverse[1] = -h[1] / det;
  p->out->inverse[2] = h[0] / det;
}

static void try_edge_circle(polishing *p, int id, int other, const double corner[3], const double edge[3]) {
  double u[3], t[2][3], h[3];
  v3_copy(u, p->start);
  if (!minimize_piece(p, corner, edge, u, t, h) || !offer_round(p, u, pb_roundCircle, id, other, other)) return;
  p->out->inverse[0] = 1 / h[0];
}

// ---- straight pieces ---------------------------------------------------------------------------------------------------
static void offer_toward(polishing *p, double u[3], pbRoundKind kind, int a, int b, int c) {
  if (!(v3_normalize(u) > 1e-9)) return;
  if (v3_dot(u, p->start) < 0) v3_neg(u, u);
  offer_round(p, u, kind, a, b, c);
}

// The planes of a corner and two of its neighbors: its faces are among them.
static void try_faces(polishing *p, int id, const double corner[3], const int *next, int count) {
  for (int i = 0; i < count; i++) {
    double first[3], second[3], u[3];
    corner_at(p, next[i], first);
    v3_subfrom(first, corner);
    v3_normalize(first);
    if (fabs(v3_dot(first, p->start)) > 0.5) continue;

    // With each neighbor after it.
    for (int j = i + 1; j < count; j++) {
      corner_at(p, next[j], second);
      v3_subfrom(second, corner);
      v3_normalize(second);
      v3_cross(u, first, second);
      offer_toward(p, u, pb_roundFace, id, next[i], next[j]);
    }
  }
}

static void try_at_corner(polishing *p, int id) {
  int box_next[3] = {id ^ 1, id ^ 2, id ^ 4}, count = 3;
  const int *next = box_next;
  bool cylinder = p->other->type == pb_geomCylinder;
  double corner[3], u[3], edge[3];

  corner_at(p, id, corner);
  if (p->body->hull) {
    next = p->body->hull->next + p->body->hull->first_next[id];
    count = p->body->hull->first_next[id + 1] - p->body->hull->first_next[id];
  }

  // Faces; a cylinder's cap and side.
  try_faces(p, id, corner, next, count);
  if (cylinder) {
    v3_copy(u, p->axis);
    offer_toward(p, u, pb_roundCap, id, id, id);
    v3_sub(u, corner, p->center);
    v3_addscl(u, p->axis, -v3_dot(u, p->axis));
    offer_toward(p, u, pb_roundSide, id, id, id);
  }

  // Edges.
  for (int k = 0; k < count; k++) {
    corner_at(p, next[k], edge);
    v3_subfrom(edge, corner);
    if (!(v3_normalize(edge) > 0)) continue;
    v3_cross(u, edge, p->axis);
    if (cylinder) offer_toward(p, u, pb_roundCross, id, next[k], next[k]);
    try_edge_circle(p, id, next[k], corner, edge);
  }

  // A corner inside of a cylinder is nearest to a cap or the side.
  if (!cylinder || p->best < 0) try_corner(p, id);
}

void pbPolytope_Polish(pbPolytopePair *pair, pbPolytopeNormal *out) {
  int body = pair->shape[0].corners ? 0 : 1;
  polishing p = {.pair = pair, .body = &pair->shape[body], .other = &pair->shape[!body], .out = &out->round};

  PB_ASSERT(pair->shape[body].corners && !pair->shape[!body].corners);
  out->is_round = true;
  out->round.kind = pb_roundFixed;
  out->round.body = body;
  v3_sub(p.center, p.other->pos, p.body->pos);
  m3_col(p.axis, p.other->mat, 2);
  v3_scale(out->round.u, out->n, body ? -1 : 1);
  pbDifference w;
  p.best = sigma_at(&p, out->round.u) + 1e-9 * pair->scale;  // a piece's own minimum wins against it

  bool lower = true;
  for (int round = 0, last = -1; round < ROUNDS; round++) {
    double n[3], before = p.best;

    // The pieces at the corner that supports this direction.
    v3_copy(p.start, out->round.u);
    v3_scale(n, p.start, body ? -1 : 1);
    pbPolytope_Support(pair, n, &w);
    out->id[0][body] = w.id[body];
    if (round == 0) out->round.id[0] = w.id[body];

    if (w.id[body] == last && !lower) break;
    last = w.id[body];
    try_at_corner(&p, last);
    lower = p.best < before - LOWER * pair->scale;
  }

  v3_scale(out->n, out->round.u, body ? -1 : 1);
  pbPolytope_Support(pair, out->n, &w);
  out->dist = -v3_dot(out->n, w.m);

  // The features of the round shape there, which the derivative freezes.
  double m[3];
  m3_tmulv(m, p.other->mat, out->round.u);
  v3_neg(m, m);
  pick_signs(p.other->type, m, FLAT, out->round.sign);
  out->count = 0;
  out->id[0][body] = out->round.id[0];
}

#else
typedef int polytope_polish_is_for_doubles;
#endif
