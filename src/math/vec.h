// Vectors of three, 3x3 matrices (row-major), quaternions (w x y z) on the number type. Outputs may alias inputs unless said.
#ifndef PB_VEC_H
#define PB_VEC_H

#include "number/number.h"

// Quotient whose real part is the same in the double and the complex program (C's complex division rounds differently, and
// overflows where the divisor is tiny).
static inline num num_div(num a, num b) {
  if (!PB_IS_COMPLEX) return a / b;

  // q' = (a' - q b') / b
  double q = re(a) / re(b);
  return num_make(q, (im(a) - q * im(b)) / re(b));
}

// Exactly this value, without a derivative; the same in all n entries.
static inline bool num_is(num a, double value) { return re(a) == value && im(a) == 0; }
static inline bool num_same(const num *a, const num *b, int n) {
  for (int k = 0; k < n; k++) {
    if (re(a[k]) != re(b[k]) || im(a[k]) != im(b[k])) return false;
  }
  return true;
}

// ---- vectors of three ---------------------------------------------------------------------------------------------
static inline bool v3_is_zero(const num a[3]) { return num_is(a[0], 0) && num_is(a[1], 0) && num_is(a[2], 0); }
static inline void v3_zero(num r[3]) { r[0] = r[1] = r[2] = 0; }
static inline void v3_set(num r[3], num x, num y, num z) {
  r[0] = x;
  r[1] = y;
  r[2] = z;
}
static inline void v3_copy(num r[3], const num a[3]) {
  num x = a[0], y = a[1], z = a[2];
  r[0] = x;
  r[1] = y;
  r[2] = z;
}
static inline void v3_add(num r[3], const num a[3], const num b[3]) { v3_set(r, a[0] + b[0], a[1] + b[1], a[2] + b[2]); }
static inline void v3_sub(num r[3], const num a[3], const num b[3]) { v3_set(r, a[0] - b[0], a[1] - b[1], a[2] - b[2]); }
static inline void v3_scale(num r[3], const num a[3], num s) { v3_set(r, a[0] * s, a[1] * s, a[2] * s); }
static inline void v3_neg(num r[3], const num a[3]) { v3_set(r, -a[0], -a[1], -a[2]); }
// r += a, r -= a, r += s a
static inline void v3_addto(num r[3], const num a[3]) {
  r[0] += a[0];
  r[1] += a[1];
  r[2] += a[2];
}
static inline void v3_subfrom(num r[3], const num a[3]) {
  r[0] -= a[0];
  r[1] -= a[1];
  r[2] -= a[2];
}
static inline void v3_addscl(num r[3], const num a[3], num s) {
  r[0] += a[0] * s;
  r[1] += a[1] * s;
  r[2] += a[2] * s;
}
// r = a + s b
static inline void v3_along(num r[3], const num a[3], const num b[3], num s) {
  v3_set(r, a[0] + b[0] * s, a[1] + b[1] * s, a[2] + b[2] * s);
}
static inline num v3_dot(const num a[3], const num b[3]) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
static inline num v3_norm2(const num a[3]) { return v3_dot(a, a); }
static inline num v3_norm(const num a[3]) { return num_sqrt(v3_dot(a, a)); }
static inline void v3_cross(num r[3], const num a[3], const num b[3]) {
  v3_set(r, a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]);
}
// r += a x b
static inline void v3_addcross(num r[3], const num a[3], const num b[3]) {
  num c[3];
  v3_cross(c, a, b);
  v3_addto(r, c);
}
// To unit length; returns the length before. Shorter than MuJoCo's mjMINVAL (1e-15): becomes the x axis, as there.
static inline num v3_normalize(num r[3]) {
  num n = v3_norm(r);

  if (re(n) < 1e-15) {
    v3_set(r, 1, 0, 0);
  } else {
    v3_scale(r, r, num_div(1, n));
  }
  return n;
}

// ---- vectors of six ------------------------------------------------------------------------------------------------
static inline void v6_copy(num r[6], const num a[6]) {
  v3_copy(r, a);
  v3_copy(r + 3, a + 3);
}

// ---- 3x3 matrices, row-major --------------------------------------------------------------------------------------
static inline void m3_copy(num r[9], const num a[9]) { memcpy(r, a, 9 * sizeof(num)); }
static inline void m3_zero(num r[9]) { memset(r, 0, 9 * sizeof(num)); }
static inline void m3_identity(num r[9]) {
  m3_zero(r);
  r[0] = r[4] = r[8] = 1;
}
// r = m a, r = m' a
static inline void m3_mulv(num r[3], const num m[9], const num a[3]) {
  v3_set(r, m[0] * a[0] + m[1] * a[1] + m[2] * a[2], m[3] * a[0] + m[4] * a[1] + m[5] * a[2],
         m[6] * a[0] + m[7] * a[1] + m[8] * a[2]);
}
static inline void m3_tmulv(num r[3], const num m[9], const num a[3]) {
  v3_set(r, m[0] * a[0] + m[3] * a[1] + m[6] * a[2], m[1] * a[0] + m[4] * a[1] + m[7] * a[2],
         m[2] * a[0] + m[5] * a[1] + m[8] * a[2]);
}
static inline void m3_col(num r[3], const num m[9], int c) { v3_set(r, m[c], m[3 + c], m[6 + c]); }
// r = a b, r = a' b, r = a b'; r must not alias
static inline void m3_mul(num r[9], const num a[9], const num b[9]) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) r[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
  }
}
static inline void m3_tmul(num r[9], const num a[9], const num b[9]) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) r[3 * i + j] = a[i] * b[j] + a[3 + i] * b[3 + j] + a[6 + i] * b[6 + j];
  }
}
static inline void m3_mult(num r[9], const num a[9], const num b[9]) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) r[3 * i + j] = a[3 * i] * b[3 * j] + a[3 * i + 1] * b[3 * j + 1] + a[3 * i + 2] * b[3 * j + 2];
  }
}
// r must not alias
// x := I x, I by its diagonal and, beside it, the products yz zx xy
static inline void m3_inertia(num x[3], const num diagonal[3], const num products[3]) {
  num y[3];
  v3_copy(y, x);

  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    x[i] = diagonal[i] * y[i] + (products[k] * y[j] + products[j] * y[k]);
  }
}
static inline void m3_transpose(num r[9], const num a[9]) {
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) r[3 * i + j] = a[3 * j + i];
  }
}
static inline num m3_det(const num a[9]) {
  return a[0] * (a[4] * a[8] - a[5] * a[7]) - a[1] * (a[3] * a[8] - a[5] * a[6]) + a[2] * (a[3] * a[7] - a[4] * a[6]);
}
// r = a^-1 x by Cramer's rule; false (r untouched) where the determinant is zero
static inline bool m3_solve(num r[3], const num a[9], const num x[3]) {
  num d = m3_det(a), c0[3], c1[3], c2[3], t[3];
  if (!(re(d) != 0)) return false;

  m3_col(c0, a, 0);
  m3_col(c1, a, 1);
  m3_col(c2, a, 2);

  // Each component is a determinant with x in place of a column.
  num s[3];
  v3_cross(t, c1, c2);
  s[0] = num_div(v3_dot(t, x), d);
  v3_cross(t, c2, c0);
  s[1] = num_div(v3_dot(t, x), d);
  v3_cross(t, c0, c1);
  s[2] = num_div(v3_dot(t, x), d);

  v3_copy(r, s);
  return true;
}

// ---- quaternions, w x y z -----------------------------------------------------------------------------------------
static inline void quat_set(num r[4], num w, num x, num y, num z) {
  r[0] = w;
  r[1] = x;
  r[2] = y;
  r[3] = z;
}
static inline void quat_copy(num r[4], const num a[4]) { quat_set(r, a[0], a[1], a[2], a[3]); }
static inline void quat_identity(num r[4]) { quat_set(r, 1, 0, 0, 0); }
// Exactly the identity, its derivative included.
static inline bool quat_is_identity(const num q[4]) {
  return num_is(q[0], 1) && num_is(q[1], 0) && num_is(q[2], 0) && num_is(q[3], 0);
}
static inline void quat_conj(num r[4], const num a[4]) { quat_set(r, a[0], -a[1], -a[2], -a[3]); }
static inline void quat_mul(num r[4], const num a[4], const num b[4]) {
  quat_set(r, a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3], a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
           a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1], a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0]);
}
// q times the pure quaternion (0, v); r must not alias q
static inline void quat_mulaxis(num r[4], const num q[4], const num v[3]) {
  num p[4] = {0, v[0], v[1], v[2]};
  quat_mul(r, q, p);
}
static inline num quat_norm(const num q[4]) { return num_sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]); }
// To unit length; returns the length before. Shorter than 1e-15: becomes the identity (as MuJoCo).
static inline num quat_normalize(num q[4]) {
  num n = quat_norm(q);

  if (re(n) < 1e-15) {
    quat_identity(q);
  } else {
    num s = num_div(1, n);
    quat_set(q, q[0] * s, q[1] * s, q[2] * s, q[3] * s);
  }
  return n;
}
// r = q v q*, for a unit quaternion
static inline void quat_rotate(num r[3], const num q[4], const num v[3]) {
  num t[3];
  v3_set(t, q[0] * v[0] + q[2] * v[2] - q[3] * v[1], q[0] * v[1] + q[3] * v[0] - q[1] * v[2],
         q[0] * v[2] + q[1] * v[1] - q[2] * v[0]);

  // v + 2 u x (w v + u x v), q = (w, u)
  v3_set(r, v[0] + 2 * (q[2] * t[2] - q[3] * t[1]), v[1] + 2 * (q[3] * t[0] - q[1] * t[2]),
         v[2] + 2 * (q[1] * t[1] - q[2] * t[0]));
}
// Rotation matrix of a unit quaternion
static inline void quat_to_mat(num m[9], const num q[4]) {
  // Products once: m = (w^2 - u.u) 1 + 2 u u' + 2 w [u]
  num q00 = q[0] * q[0], q11 = q[1] * q[1], q22 = q[2] * q[2], q33 = q[3] * q[3];
  num q01 = q[0] * q[1], q02 = q[0] * q[2], q03 = q[0] * q[3], q12 = q[1] * q[2], q13 = q[1] * q[3], q23 = q[2] * q[3];

  m[0] = q00 + q11 - q22 - q33;
  m[1] = 2 * (q12 - q03);
  m[2] = 2 * (q13 + q02);
  m[3] = 2 * (q12 + q03);
  m[4] = q00 - q11 + q22 - q33;
  m[5] = 2 * (q23 - q01);
  m[6] = 2 * (q13 - q02);
  m[7] = 2 * (q23 + q01);
  m[8] = q00 - q11 - q22 + q33;
}
// Quaternion of a rotation by angle about a unit axis
static inline void quat_axisangle(num q[4], const num axis[3], num angle) {
  // (cos(angle / 2), axis sin(angle / 2))
  num s, c;
  num_sincos(0.5 * angle, &s, &c);
  quat_set(q, c, axis[0] * s, axis[1] * s, axis[2] * s);
}
// Quaternion of the rotation vector v (exponential map). At zero the value is the identity and the slope v / 2.
static inline void quat_exp(num q[4], const num v[3]) {
  num n2 = v3_dot(v, v), half, c;

  // half = sin(n/2) / n and c = cos(n/2), near zero by their series, exact to 1e-26.
  if (re(n2) < 1e-12) {
    half = 0.5 - n2 / 48 + n2 * n2 / 3840;
    c = 1 - n2 / 8 + n2 * n2 / 384;
  } else {
    num n = num_sqrt(n2), s;
    num_sincos(0.5 * n, &s, &c);
    half = num_div(s, n);
  }
  quat_set(q, c, half * v[0], half * v[1], half * v[2]);
}
// q <- q * exp(scale * v): v in the local frame, unit q stays unit to rounding
static inline void quat_integrate(num q[4], const num v[3], num scale) {
  num w[3], d[4];
  v3_scale(w, v, scale);
  quat_exp(d, w);

  quat_mul(q, q, d);
}
// Rotation vector of a unit quaternion, its angle in (-pi, pi] (inverse of quat_exp; MuJoCo's quat2Vel for dt = 1)
static inline void quat_log(num v[3], const num q[4]) {
  num axis[3] = {q[1], q[2], q[3]};
  num s2 = v3_dot(axis, axis);

  // angle / sin(angle / 2) by its series
  if (re(s2) < 1e-16) {
    num k = num_div(2, q[0]);
    v3_scale(v, axis, k - num_div(k * s2, 3 * q[0] * q[0]));
    return;
  }

  // q and -q are one rotation: the shorter way.
  num s = num_sqrt(s2), angle = 2 * num_atan2(s, q[0]);
  if (re(angle) > PB_PI) angle -= 2 * PB_PI;
  v3_scale(v, axis, num_div(angle, s));
}

#endif
