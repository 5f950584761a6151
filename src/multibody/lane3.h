// Vectors of three for the sweeps of the adjoint: plain ones (p3) and ones of lanes (l3). With one lane both are a vector of
// four numbers, the last unused, so that a cross product is three shuffles; with several lanes three of them. Element by
// element the operations are the same on every instruction set. Vectors of math/vec.h lie in memory; these are values, which the
// loops over bodies keep in registers from one operation to the next.
#ifndef PB_LANE3_H
#define PB_LANE3_H

#include "eval/adjoint.h"

#define PB_INLINE static inline __attribute__((always_inline))

#if PB_LANES == 1
#pragma GCC diagnostic ignored "-Wpsabi"  // passed within one file only

typedef double p3 __attribute__((vector_size(32)));
typedef p3 l3;
typedef double p2 __attribute__((vector_size(16), aligned(8), may_alias));
PB_INLINE p3 p3_load(const double x[3]) {
  const p2 low = *(const p2 *)x, high = {x[2], x[2]};
  return __builtin_shufflevector(low, high, 0, 1, 2, 3);
}
PB_INLINE p3 p3_plain(const double x[3]) { return p3_load(x); }  // of doubles, whatever the number type
PB_INLINE p3 p3_make(double x, double y, double z) { return (p3){x, y, z, z}; }
PB_INLINE l3 l3_load(const double x[3]) { return p3_load(x); }
PB_INLINE void l3_store(double x[3], l3 a) {
  *(p2 *)x = __builtin_shufflevector(a, a, 0, 1);
  x[2] = a[2];
}
PB_INLINE p3 p3_add(p3 a, p3 b) { return a + b; }
PB_INLINE p3 p3_sub(p3 a, p3 b) { return a - b; }
PB_INLINE p3 p3_scale(p3 a, double s) { return a * s; }
PB_INLINE p3 p3_abs(p3 a) {
  typedef long long bits __attribute__((vector_size(32)));
  return (p3)((bits)a & INT64_MAX);  // all but the signs
}
PB_INLINE l3 l3_add(l3 a, l3 b) { return a + b; }
PB_INLINE l3 l3_sub(l3 a, l3 b) { return a - b; }
PB_INLINE l3 l3_scale(l3 a, double s) { return a * s; }
// a x b = (a b' - a' b)', ' turning (x, y, z) to (y, z, x)
#define PB_TURN3(a) __builtin_shufflevector(a, a, 1, 2, 0, 3)
PB_INLINE l3 l3_cross(p3 a, l3 b) { return PB_TURN3((a * PB_TURN3(b) - PB_TURN3(a) * b)); }
PB_INLINE p3 p3_cross(p3 a, p3 b) { return l3_cross(a, b); }
// sum of a x b and c x d
PB_INLINE l3 l3_cross2(p3 a, l3 b, p3 c, l3 d) {
  return PB_TURN3(((a * PB_TURN3(b) - PB_TURN3(a) * b) + (c * PB_TURN3(d) - PB_TURN3(c) * d)));
}
PB_INLINE l3 l3_times(p3 a, lane s) { return a * s; }
PB_INLINE lane l3_dot(p3 a, l3 b) {
  p3 c = a * b;
  return (c[0] + c[1]) + c[2];
}
PB_INLINE double p3_dot(p3 a, p3 b) { return l3_dot(a, b); }
// c[0] x + c[1] y + c[2] z for a vector (x, y, z)
PB_INLINE l3 l3_columns(const p3 c[3], l3 a) { return c[0] * a[0] + c[1] * a[1] + c[2] * a[2]; }
PB_INLINE p3 p3_columns(const p3 c[3], p3 a) { return l3_columns(c, a); }
PB_INLINE void p3_store(double x[3], p3 a) { l3_store(x, a); }

#else

typedef struct p3 {
  num x, y, z;
} p3;
typedef struct l3 {
  lane x, y, z;
} l3;
PB_INLINE p3 p3_load(const num x[3]) { return (p3){x[0], x[1], x[2]}; }
PB_INLINE p3 p3_plain(const double x[3]) { return (p3){x[0], x[1], x[2]}; }
PB_INLINE p3 p3_make(num x, num y, num z) { return (p3){x, y, z}; }
PB_INLINE l3 l3_load(const lane x[3]) { return (l3){x[0], x[1], x[2]}; }
PB_INLINE void l3_store(lane x[3], l3 a) {
  x[0] = a.x;
  x[1] = a.y;
  x[2] = a.z;
}
PB_INLINE p3 p3_add(p3 a, p3 b) { return (p3){a.x + b.x, a.y + b.y, a.z + b.z}; }
PB_INLINE p3 p3_sub(p3 a, p3 b) { return (p3){a.x - b.x, a.y - b.y, a.z - b.z}; }
PB_INLINE p3 p3_scale(p3 a, num s) { return (p3){a.x * s, a.y * s, a.z * s}; }
PB_INLINE p3 p3_cross(p3 a, p3 b) { return (p3){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
PB_INLINE num p3_dot(p3 a, p3 b) { return (a.x * b.x + a.y * b.y) + a.z * b.z; }
PB_INLINE l3 l3_add(l3 a, l3 b) { return (l3){a.x + b.x, a.y + b.y, a.z + b.z}; }
PB_INLINE l3 l3_sub(l3 a, l3 b) { return (l3){a.x - b.x, a.y - b.y, a.z - b.z}; }
PB_INLINE l3 l3_scale(l3 a, num s) { return (l3){a.x * s, a.y * s, a.z * s}; }
PB_INLINE l3 l3_cross(p3 a, l3 b) { return (l3){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
PB_INLINE l3 l3_cross2(p3 a, l3 b, p3 c, l3 d) { return l3_add(l3_cross(a, b), l3_cross(c, d)); }
PB_INLINE l3 l3_times(p3 a, lane s) { return (l3){a.x * s, a.y * s, a.z * s}; }
PB_INLINE lane l3_dot(p3 a, l3 b) { return (a.x * b.x + a.y * b.y) + a.z * b.z; }
PB_INLINE l3 l3_columns(const p3 c[3], l3 a) {
  return (l3){c[0].x * a.x + c[1].x * a.y + c[2].x * a.z, c[0].y * a.x + c[1].y * a.y + c[2].y * a.z,
              c[0].z * a.x + c[1].z * a.y + c[2].z * a.z};
}
PB_INLINE p3 p3_columns(const p3 c[3], p3 a) {
  return (p3){c[0].x * a.x + c[1].x * a.y + c[2].x * a.z, c[0].y * a.x + c[1].y * a.y + c[2].y * a.z,
              c[0].z * a.x + c[1].z * a.y + c[2].z * a.z};
}
PB_INLINE void p3_store(num x[3], p3 a) {
  x[0] = a.x;
  x[1] = a.y;
  x[2] = a.z;
}

#endif

// body_offset. A vector is not loaded from numbers that were stored one by one just before: the load would wait for the stores.
PB_INLINE p3 offset_of(const NUM(pbMechanism) *w, int body, const num *point) {
  int tree = w->t->body_tree[body];
  PB_ASSERT(body >= 0 && body < w->m->nbody);
  return tree < 0 ? p3_load(point) : p3_sub(p3_load(point), p3_plain(w->ref + 3 * tree));
}

PB_INLINE void rows_load(p3 R[3], const num x[9]) {
  R[0] = p3_load(x);
  R[1] = p3_load(x + 3);
  R[2] = p3_load(x + 6);
}

// Spatial vectors: motions (angular, linear) and wrenches (torque, force).
typedef struct p6 {
  p3 a, l;
} p6;
#if PB_LANES == 1
typedef p6 l6;
#else
typedef struct l6 {
  l3 a, l;
} l6;
#endif
PB_INLINE p6 p6_load(const num *x) { return (p6){p3_load(x), p3_load(x + 3)}; }
PB_INLINE l6 l6_load(const lane *x) { return (l6){l3_load(x), l3_load(x + 3)}; }
PB_INLINE void l6_store(lane *x, l6 f) {
  l3_store(x, f.a);
  l3_store(x + 3, f.l);
}
PB_INLINE void p6_store(num *x, p6 f) {
  p3_store(x, f.a);
  p3_store(x + 3, f.l);
}
PB_INLINE p6 p6_add(p6 x, p6 y) { return (p6){p3_add(x.a, y.a), p3_add(x.l, y.l)}; }
PB_INLINE p6 p6_sub(p6 x, p6 y) { return (p6){p3_sub(x.a, y.a), p3_sub(x.l, y.l)}; }
PB_INLINE p6 p6_scale(p6 x, num s) { return (p6){p3_scale(x.a, s), p3_scale(x.l, s)}; }
PB_INLINE l6 l6_add(l6 x, l6 y) { return (l6){l3_add(x.a, y.a), l3_add(x.l, y.l)}; }
PB_INLINE l6 l6_sub(l6 x, l6 y) { return (l6){l3_sub(x.a, y.a), l3_sub(x.l, y.l)}; }
PB_INLINE l6 l6_scale(l6 x, num s) { return (l6){l3_scale(x.a, s), l3_scale(x.l, s)}; }
PB_INLINE l6 l6_times(p6 x, lane s) { return (l6){l3_times(x.a, s), l3_times(x.l, s)}; }
// wrench of a force F at the point with offset d; velocity of that point under the motion X
PB_INLINE l6 l6_force(p3 d, l3 F) { return (l6){l3_cross(d, F), F}; }
PB_INLINE l3 l6_velocity(l6 X, p3 d) { return l3_sub(X.l, l3_cross(d, X.a)); }
PB_INLINE p6 p6_force(p3 d, p3 F) { return (p6){p3_cross(d, F), F}; }
PB_INLINE p3 p6_velocity(p6 X, p3 d) { return p3_sub(X.l, p3_cross(d, X.a)); }
PB_INLINE lane l6_dot(p6 x, l6 y) { return l3_dot(x.a, y.a) + l3_dot(x.l, y.l); }
// motion X x motion Y, motion X x* wrench F
PB_INLINE l6 l6_motion(p6 X, l6 Y) { return (l6){l3_cross(X.a, Y.a), l3_cross2(X.a, Y.l, X.l, Y.a)}; }
PB_INLINE l6 l6_wrench(p6 X, l6 F) { return (l6){l3_cross2(X.a, F.a, X.l, F.l), l3_cross(X.a, F.l)}; }
PB_INLINE p6 p6_wrench(p6 X, p6 F) { return (p6){p3_add(p3_cross(X.a, F.a), p3_cross(X.l, F.l)), p3_cross(X.a, F.l)}; }
// -(X x* F) for a plain wrench
PB_INLINE l6 l6_onto(p6 F, l6 X) { return (l6){l3_cross2(F.a, X.a, F.l, X.l), l3_cross(F.l, X.a)}; }

// Inertia about the reference point, ready to multiply.
typedef struct p3inertia {
  num m;
  p3 h, column[3];
} p3inertia;
PB_INLINE p3inertia inertia_load(const num I[10]) {
  return (p3inertia){I[0], p3_load(I + 1), {p3_make(I[4], I[7], I[8]), p3_make(I[7], I[5], I[9]), p3_make(I[8], I[9], I[6])}};
}
PB_INLINE l6 inertia_times(const p3inertia *I, l6 X) {
  return (l6){l3_add(l3_columns(I->column, X.a), l3_cross(I->h, X.l)), l3_sub(l3_scale(X.l, I->m), l3_cross(I->h, X.a))};
}
PB_INLINE p6 p6_momentum(const p3inertia *I, p6 X) {
  return (p6){p3_add(p3_columns(I->column, X.a), p3_cross(I->h, X.l)), p3_sub(p3_scale(X.l, I->m), p3_cross(I->h, X.a))};
}

#endif
