// Pullback: equalities, one row each: from this list come their enumerators, the elements of MJCF, what they may hold,
// docs/equalities.md, a scene of the tests with each, and which file of src/bodies/rows makes their rows and their pullback.
#ifndef PULLBACK_EQUALITIES_H
#define PULLBACK_EQUALITIES_H

// X(enumerator, value, MJCF element, of, file, meaning)
//   value     MuJoCo's, or from PB_EQUALITY_OURS one that MuJoCo does not have
//   of        what it holds, and so which attributes its element has and what eq_data is (src/model/equality.h, pb_of*): Points
//             of two bodies or two sites (anchor), Poses (anchor, relpose, torquescale), Joints or Tendons, one or two (polycoef)
//   file      of src/bodies/rows
enum { PB_EQUALITY_OURS = 100, PB_EQUALITY_TYPES = 128 };
// clang-format off
#define PB_EQUALITY_TABLE(X) \
  X(pb_eqConnect, 0, "connect", Points, ends, \
    "two points stay together") \
  X(pb_eqWeld, 1, "weld", Poses, ends, \
    "two poses stay together") \
  X(pb_eqJoint, 2, "joint", Joints, coupling, \
    "the first joint's position is a polynomial of the second's, or a number; both less those at rest") \
  X(pb_eqTendon, 3, "tendon", Tendons, coupling, \
    "the first tendon's length is a polynomial of the second's, or a number; both less those at rest")
// clang-format on
enum {
#define X(name, value, ...) name = value,
  PB_EQUALITY_TABLE(X)
#undef X
};

#endif
