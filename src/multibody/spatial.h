// Spatial algebra in world axes about a fixed reference point of each tree: motions (angular, linear velocity of the point),
// wrenches (torque about the point, force). Macros, so that they take doubles, numbers and lanes in any mixture: products of
// three are for where a lane is among them, which no function of one type can take. Of numbers alone: v3_dot, v3_cross,
// v3_addcross (math/vec.h).
#ifndef PB_SPATIAL_H
#define PB_SPATIAL_H

#include "number/number.h"

#define PB_DOT3(a, b) ((a)[0] * (b)[0] + (a)[1] * (b)[1] + (a)[2] * (b)[2])
#define PB_DOT6(a, b) (PB_DOT3(a, b) + PB_DOT3((a) + 3, (b) + 3))

// r = a x b, r += s (a x b); r must not alias
#define PB_CROSS(r, a, b)                       \
  do {                                          \
    (r)[0] = (a)[1] * (b)[2] - (a)[2] * (b)[1]; \
    (r)[1] = (a)[2] * (b)[0] - (a)[0] * (b)[2]; \
    (r)[2] = (a)[0] * (b)[1] - (a)[1] * (b)[0]; \
  } while (0)
#define PB_ADDCROSS(r, s, a, b)                          \
  do {                                                   \
    (r)[0] += (s) * ((a)[1] * (b)[2] - (a)[2] * (b)[1]); \
    (r)[1] += (s) * ((a)[2] * (b)[0] - (a)[0] * (b)[2]); \
    (r)[2] += (s) * ((a)[0] * (b)[1] - (a)[1] * (b)[0]); \
  } while (0)

// r += s (X x Y): motion cross motion, (w x w2, w x v2 + v x w2)
#define PB_ADDMXM(r, s, X, Y)            \
  do {                                   \
    PB_ADDCROSS(r, s, X, Y);             \
    PB_ADDCROSS((r) + 3, s, X, (Y) + 3); \
    PB_ADDCROSS((r) + 3, s, (X) + 3, Y); \
  } while (0)
// r += s (X x* F): motion cross wrench, (w x t + v x f, w x f); transposed: Y . (X x* F) = -(X x Y) . F
#define PB_ADDMXF(r, s, X, F)            \
  do {                                   \
    PB_ADDCROSS(r, s, X, F);             \
    PB_ADDCROSS(r, s, (X) + 3, (F) + 3); \
    PB_ADDCROSS((r) + 3, s, X, (F) + 3); \
  } while (0)
// r += s (I X), I = {m, m d (3), Ixx, Iyy, Izz, Ixy, Ixz, Iyz} about the reference point
#define PB_ADDINERT(r, s, I, X)                                                         \
  do {                                                                                  \
    (r)[0] += (s) * ((I)[4] * (X)[0] + (I)[7] * (X)[1] + (I)[8] * (X)[2]);              \
    (r)[1] += (s) * ((I)[7] * (X)[0] + (I)[5] * (X)[1] + (I)[9] * (X)[2]);              \
    (r)[2] += (s) * ((I)[8] * (X)[0] + (I)[9] * (X)[1] + (I)[6] * (X)[2]);              \
    PB_ADDCROSS(r, s, (I) + 1, (X) + 3);                                                \
    PB_ADDCROSS((r) + 3, s, X, (I) + 1);                                                \
    for (int pb_i = 0; pb_i < 3; pb_i++) (r)[3 + pb_i] += (s) * (I)[0] * (X)[3 + pb_i]; \
  } while (0)
// r += s S for 6 entries
#define PB_AXPY6(r, s, S)                                              \
  do {                                                                 \
    for (int pb_i = 0; pb_i < 6; pb_i++) (r)[pb_i] += (s) * (S)[pb_i]; \
  } while (0)
// velocity of the point with offset d from the reference point under motion X: v + w x d
#define PB_POINTVEL(u, X, d)                                         \
  do {                                                               \
    PB_CROSS(u, X, d);                                               \
    for (int pb_i = 0; pb_i < 3; pb_i++) (u)[pb_i] += (X)[3 + pb_i]; \
  } while (0)
// wrench of a force F at the point with offset d: r += s (d x F, F)
#define PB_ADDWRENCH(r, s, d, F)                                           \
  do {                                                                     \
    PB_ADDCROSS(r, s, d, F);                                               \
    for (int pb_i = 0; pb_i < 3; pb_i++) (r)[3 + pb_i] += (s) * (F)[pb_i]; \
  } while (0)

// ---- quaternions, w x y z; r must not alias -----------------------------------------------------------------------------
// r = x y
#define PB_QUATMUL(r, x, y)                                                         \
  do {                                                                              \
    (r)[0] = (x)[0] * (y)[0] - (x)[1] * (y)[1] - (x)[2] * (y)[2] - (x)[3] * (y)[3]; \
    (r)[1] = (x)[0] * (y)[1] + (x)[1] * (y)[0] + (x)[2] * (y)[3] - (x)[3] * (y)[2]; \
    (r)[2] = (x)[0] * (y)[2] - (x)[1] * (y)[3] + (x)[2] * (y)[0] + (x)[3] * (y)[1]; \
    (r)[3] = (x)[0] * (y)[3] + (x)[1] * (y)[2] - (x)[2] * (y)[1] + (x)[3] * (y)[0]; \
  } while (0)
// r = q (0, v)
#define PB_QUATPURE(r, q, v)                                       \
  do {                                                             \
    (r)[0] = -(q)[1] * (v)[0] - (q)[2] * (v)[1] - (q)[3] * (v)[2]; \
    (r)[1] = (q)[0] * (v)[0] + (q)[2] * (v)[2] - (q)[3] * (v)[1];  \
    (r)[2] = (q)[0] * (v)[1] + (q)[3] * (v)[0] - (q)[1] * (v)[2];  \
    (r)[3] = (q)[0] * (v)[2] + (q)[1] * (v)[1] - (q)[2] * (v)[0];  \
  } while (0)

// A change d q of a unit quaternion is the rotation d r = 2 vec(conj(q) d q), in the axes that q maps from. So a torque, the
// gradient by d r, is the gradient 2 q (0, torque) by q; added.
static inline void pb_quat_pull(num bar[4], const num q[4], const num torque[3]) {
  num t[4];
  PB_QUATPURE(t, q, torque);
  for (int k = 0; k < 4; k++) bar[k] += 2 * t[k];
}

#endif
