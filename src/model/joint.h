// What the types of joints have in common, so that code asks for a property and not for a list of types.
//
//            positions                 degrees of freedom
//   free     3 plain, a quaternion     3 linear, 3 of the rotation
//   ball     a quaternion              3 of the rotation
//   slide    1 plain                   1
//   hinge    1 plain                   1
#ifndef PB_JOINT_H
#define PB_JOINT_H

#include <stdbool.h>

#include <pullback/enums.h>

// Positions that move by adding; the quaternion and its degrees of freedom come after so many.
static inline int pbJoint_PlainCount(int type) {
  switch (type) {
    case pb_jntFree: return 3;
    case pb_jntBall: return 0;
    default: return 1;
  }
}

// Is a quaternion among its positions?
static inline bool pbJoint_HasRotation(int type) { return type == pb_jntFree || type == pb_jntBall; }

// One position and one degree of freedom, which are the same number?
static inline bool pbJoint_IsScalar(int type) { return type == pb_jntSlide || type == pb_jntHinge; }

// Is its one position an angle, in degrees where a file says so?
static inline bool pbJoint_IsAngle(int type) { return type == pb_jntHinge; }

static inline bool pbJoint_Exists(int type) { return type >= pb_jntFree && type <= pb_jntHinge; }

static inline int pbJoint_PositionCount(int type) { return pbJoint_PlainCount(type) + (pbJoint_HasRotation(type) ? 4 : 0); }

static inline int pbJoint_DofCount(int type) { return pbJoint_PlainCount(type) + (pbJoint_HasRotation(type) ? 3 : 0); }

// Degrees of freedom that share one inverse weight: the three linear ones, the three of a rotation, or one alone.
static inline int pbJoint_GroupSize(int type) { return pbJoint_HasRotation(type) ? 3 : 1; }

#endif
