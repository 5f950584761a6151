// Contacts at ties of features: on one side of a move others meet than on the other.
#ifndef PB_GEOMETRY_TIE_H
#define PB_GEOMETRY_TIE_H

#include <float.h>
#include <math.h>

#include "geometry/pair.h"

// What is rounding: of lengths of a pair of this size whose shapes stand this far from the origin.
static inline double pb_rounding(double size, double away) { return 64 * DBL_EPSILON * (size + away); }

// What is called beside a pose, of the pair's size and in rad.
#define PB_BESIDE       1e-9
#define PB_BESIDE_MESH  6e-8  // of hulls: half a unit of single precision
#define PB_BESIDE_BOX   1e-7  // of two boxes that are aligned
#define PB_BESIDE_ROUND 5e-7  // of cylinders, and ellipsoids on hulls

#if !PB_IS_COMPLEX
// Whether touching shapes have no linear map at their pose: contacts beside it, moved and turned either way, respond by another
// one. Where several features meet and all respond alike there is no tie. contacts, count: what pbPair_Collide returned.
bool NUM(pbPair_Tied)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, int count,
                      const NUM(pbContactPoint) *contacts);
#endif

#endif
