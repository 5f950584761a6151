// The point that a ray meets on a part of a surface (ray.h), and how it moves with the ray and with sizes.
// Tests: tests/oracle/test_rays.py.
#include "geometry/ray.h"

#include "base/assert.h"
#include "math/vec.h"

// ---- value --------------------------------------------------------------------------------------------------------------
// Rays and surfaces in coordinates that make a round part the unit ball, or the unit circle about z: q = (x - center) . weight.
static void to_unit(const pbRayFeature *f, const num size[3], const num p[3], const num v[3], num q[3], num u[3]) {
  for (int k = 0; k < 3; k++) {
    num radius = f->part == pb_rayEllipsoid ? size[k] : size[0];
    bool free = f->part == pb_rayTube && k == 2;
    num center = f->part == pb_rayBall && k == 2 ? f->end * size[1] : 0;
    q[k] = free ? 0 : num_div(p[k] - center, radius);
    u[k] = free ? 0 : num_div(v[k], radius);
  }
}

static num meet_round(const pbRayFeature *f, const num size[3], const num p[3], const num v[3], num normal[3]) {
  num q[3], u[3];
  to_unit(f, size, p, v, q, u);

  // |q + x u| = 1
  num a = v3_dot(u, u), b = v3_dot(u, q), c = v3_dot(q, q) - 1, det = b * b - a * c;
  num root = re(det) > 0 ? num_sqrt(det) : 0;
  num x = num_div(f->leaves ? root - b : -root - b, a);

  // The gradient of |q|^2 by the point.
  v3_along(normal, q, u, x);
  if (f->part == pb_rayEllipsoid) {
    for (int k = 0; k < 3; k++) normal[k] = num_div(normal[k], size[k]);
  }
  v3_normalize(normal);
  return x;
}

void NUM(pbRay_At)(const pbRayFeature *f, const num size[3], const num p[3], const num v[3], num *x, num normal[3]) {
  PB_ASSERT(f->moved >= -1 && f->moved < 3);
  if (f->part != pb_rayFlat) {
    *x = meet_round(f, size, p, v, normal);
    return;
  }

  num offset = f->offset;
  if (f->moved >= 0) offset += size[f->moved];
  v3_set(normal, f->normal[0], f->normal[1], f->normal[2]);
  *x = num_div(offset - v3_dot(normal, p), v3_dot(normal, v));
}

// ---- derivative -----------------------------------------------------------------------------------------------------------
// At the point y of the surface: how far a unit of each size moves it outward, and the normal by y and by each size.
typedef struct surface_rate {
  num outward[3], normal_y[3][3], normal_size[3][3];
} surface_rate;

// n = g / |g| with g_i = (y - center)_i weight_i: dn = (1 - n n') dg / |g|
static void project(const num n[3], num length, num rate[3][3]) {
  for (int c = 0; c < 3; c++) {
    num along = n[0] * rate[0][c] + n[1] * rate[1][c] + n[2] * rate[2][c];
    for (int k = 0; k < 3; k++) rate[k][c] = (rate[k][c] - n[k] * along) / length;
  }
}

static void round_rate(const pbRayFeature *f, const num size[3], const num y[3], const num n[3], surface_rate *s) {
  num length = size[0];

  if (f->part == pb_rayEllipsoid) {
    // g = y / size^2; |g| times the outward motion of y is y^2 / size^3
    num g[3];
    for (int k = 0; k < 3; k++) g[k] = y[k] / (size[k] * size[k]);
    length = v3_norm(g);
    for (int k = 0; k < 3; k++) {
      s->normal_y[k][k] = 1 / (size[k] * size[k]);
      s->normal_size[k][k] = -2 * g[k] / size[k];
      s->outward[k] = g[k] * y[k] / (size[k] * length);
    }
  } else {
    // g = y - end (0, 0, size_1), or the part of y across the axis
    s->normal_y[0][0] = s->normal_y[1][1] = 1;
    s->normal_y[2][2] = f->part == pb_rayBall;
    s->normal_size[2][1] = f->part == pb_rayBall ? -f->end : 0;
    s->outward[0] = 1;
    s->outward[1] = f->part == pb_rayBall ? f->end * n[2] : 0;
  }

  project(n, length, s->normal_y);
  project(n, length, s->normal_size);
}

// n . d(p + x v - what the sizes move) = 0 gives dx; then y = p + x v, and the normal with it.
void NUM(pbRay_Jacobian)(const pbRayFeature *f, const num size[3], const num p[3], const num v[3], pbRayJacobian *j) {
  num x, n[3], y[3];
  surface_rate s = {0};
  memset(j, 0, sizeof *j);
  NUM(pbRay_At)(f, size, p, v, &x, n);
  v3_along(y, p, v, x);
  if (f->part != pb_rayFlat) round_rate(f, size, y, n, &s);
  if (f->moved >= 0) s.outward[f->moved] = 1;

  num slope = v3_dot(n, v);
  if (re(slope) == 0) return;
  for (int c = 0; c < 9; c++) {
    int k = c % 3;
    num moved = c < 3 ? 1 : x;  // of y, by a unit of p or v
    num dx = (c < 6 ? -moved * n[k] : s.outward[k]) / slope;
    j->d[0][c] = dx;

    for (int i = 0; i < 3; i++) {
      num by_point = v3_dot(s.normal_y[i], v) * dx;
      j->d[1 + i][c] = by_point + (c < 6 ? s.normal_y[i][k] * moved : s.normal_size[i][k]);
    }
  }
}
