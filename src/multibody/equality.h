// Where the ends of an equality between bodies or sites are.
#ifndef PB_MULTIBODY_EQUALITY_H
#define PB_MULTIBODY_EQUALITY_H

#include "eval/names.h"

enum { pb_eqObjBody = 1, pb_eqObjSite = 6 };  // mjtObj of an equality's ends
// Ends of a connect or weld: bodies, points, orientations (q1 includes the relative pose).
void NUM(pbEquality_Ends)(const NUM(pbMechanism) *w, int equality, int body[2], num p1[3], num p2[3], num q1[4], num q2[4]);

#endif
