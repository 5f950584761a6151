// Distance of two shapes, by the rules of MuJoCo's mj_geomDistance: of the contact at which they are deepest or nearest; of two
// boxes, too, by the nearest points of both (pairs of boxes have their contacts by axes, which are not where they are nearest).
#ifndef PB_DISTANCE_H
#define PB_DISTANCE_H

#include "geometry/pair.h"

// False: not nearer than `most`, or no pair of shapes that has a distance (two planes; height fields). Type of shape 1 <= type of
// shape 2. point: which of the pair's contacts this is.
bool NUM(pbPair_Nearest)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double most, NUM(pbContactPoint) *nearest,
                         int *point);

// Of what was found within `most`. False: none in closed form, which the complex program needs.
bool NUM(pbPair_NearestJacobian)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double most, int point,
                                 pbContactJacobian *jacobian);
#if !PB_IS_COMPLEX
// A number that tells where features change, -1 at a tie (pbPair_Feature).
int NUM(pbPair_NearestFeature)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, int point);
#endif

#endif
