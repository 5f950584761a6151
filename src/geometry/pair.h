// Contacts between two shapes and their Jacobians. Geometry only: no parameters of contact, no physics.
#ifndef PB_PAIR_H
#define PB_PAIR_H

#include "number/number.h"

enum { PB_MAX_CONTACT_POINTS = 16 };  // most contacts a pair can make

// A convex shape in the world. Sizes as in MuJoCo (plane: unused for contact; sphere: radius; capsule, cylinder: radius,
// half length along z; ellipsoid: radii; box: half sizes). Types are those of model.h (pb_geom*).
typedef struct NUM(pbShape) {
  int type;
  num pos[3];
  num mat[9];  // rotation, row-major; columns are the shape's axes in the world
  num size[3];
} NUM(pbShape);

// One contact: as MuJoCo's mjContact. normal points from shape 1 to shape 2; pos is midway between the two surfaces;
// dist < 0 is penetration; hint is a wished first tangent (capsule axis on a plane), zero where there is none.
typedef struct NUM(pbContactPoint) {
  num dist, pos[3], normal[3], hint[3];
} NUM(pbContactPoint);

// Contacts with dist < margin; type of shape 1 <= type of shape 2. Returns their number (at most PB_MAX_CONTACT_POINTS).
// All decisions (features, counts, order) look at real parts only, so the complex and the double program agree.
int NUM(pbPair_Collide)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, NUM(pbContactPoint) *contacts);

#if !PB_IS_COMPLEX
// Of touching shapes, which features meet where a small motion can exchange them: a number that is the same on both sides of
// a move that stays on one branch; -1 where two tie to rounding, and the slopes are a mean of theirs. Knows parallel capsules
// (whose ends bound the contact) and cylinders that stand on planes; of other pairs 0.
int NUM(pbPair_Feature)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2);

// Jacobian of one contact: rows dist, pos (3), normal (3), hint (3); columns: rotation (3, about shape 2's pos, world axes)
// and translation (3, world axes) of shape 2 with shape 1 held still, size of shape 1 (3), size of shape 2 (3).
// Decisions (features, clipping sequence, axis) are frozen. The derivative by the pose of shape 1 follows by rigid motion of
// both.
typedef struct pbContactJacobian {
  double d[10][12];
} pbContactJacobian;
// contacts, count: what pbPair_Collide returned for the same arguments.
void NUM(pbPair_Jacobian)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, int count,
                          const NUM(pbContactPoint) *contacts, pbContactJacobian *jacobians);
#endif

#endif
