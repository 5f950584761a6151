// Contacts between two shapes and their Jacobians. Geometry only: no parameters of contact, no physics.
#ifndef PB_PAIR_H
#define PB_PAIR_H

#include <stddef.h>

#include "number/number.h"

enum { PB_MAX_CONTACT_POINTS = 16 };  // most contacts a pair can make

// Where the points x of a hull are: as compiled; there, but with derivatives; at stretch x + shift.
typedef enum pbHullMotion { pb_hullStays, pb_hullVaries, pb_hullMoves } pbHullMotion;

#include "geometry/pair_number.h"

#if !PB_IS_COMPLEX
#include "number/complex_begin.h"
#include "geometry/pair_number.h"
#include "number/complex_end.h"

// A complex number has the room and the alignment of two doubles and of one.
_Static_assert(sizeof(pbContactPoint_c) == 2 * sizeof(NUM(pbContactPoint)), "a contact is numbers");
_Static_assert(sizeof(pbShape_c) - offsetof(pbShape_c, pos) == 2 * (sizeof(NUM(pbShape)) - offsetof(NUM(pbShape), pos)),
               "a shape is its type, its hull and numbers");

// Of touching shapes, which features meet where a small motion can exchange them: a number that is the same on both sides of
// a move that stays on one branch; -1 where two tie to rounding, and the slopes are a mean of theirs, or of one of them. Knows
// boxes on boxes, meshes on planes and balls, parallel capsules (whose ends bound the contact), cylinders that stand on faces and
// planes, and capsules on planes (whose tilt says where contacts are, or their tangents); else 0. Whether contacts beside a pose
// have another linear map, for all pairs: geometry/tie.h.
int NUM(pbPair_Feature)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2);

#endif

// Jacobian of one contact: rows dist, pos (3), normal (3), hint (3); columns: rotation (3, about shape 2's pos, world axes)
// and translation (3, world axes) of shape 2 with shape 1 held still, size of shape 1 (3), size of shape 2 (3).
// Decisions (features, clipping sequence, axis) are frozen. The derivative by the pose of shape 1 follows by rigid motion of
// both.
typedef struct pbContactJacobian {
  num d[10][12];
} pbContactJacobian;
// contacts, count: what pbPair_Collide returned for the same arguments; kept, here and below: by pbPair_CollideKeeping, or NULL:
// searched again. False: there is no closed form, and in complex numbers nothing else.
bool NUM(pbPair_Jacobian)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, const struct pbSearched *kept,
                          int count, const NUM(pbContactPoint) *contacts, pbContactJacobian *jacobians);
// Cotangents of a contact's rows, and what they are on shapes 1 and 2 as wrenches: torque about pos, force (world axes).
typedef struct pbContactBar {
  double row[10], wrench[2][6];
} pbContactBar;
#if !PB_IS_COMPLEX
// From those of all contacts to those of strains e of the hulls that are wanted, whose points go from x to x + e x in their
// frame: symmetric, xx yy zz yz zx xy.
void NUM(pbPair_PullStrain)(const NUM(pbShape) shape[2], double margin, const struct pbSearched *kept, int count,
                            const pbContactBar *bar, const bool wanted[2], double strain_bar[2][6]);
// To the corners of shape `which`, each at its vertex; added.
void NUM(pbPair_PullCorners)(const NUM(pbShape) shape[2], double margin, const struct pbSearched *kept, int count,
                             const pbContactBar *bar, int which, double *vertex_bar);
#endif

#endif
