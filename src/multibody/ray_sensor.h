// Rangefinders: which geoms their rays meet first. A site sends one along the z axis of its frame; a camera one through the
// center of each pixel, row by row from the upper left, from its point or, where it is orthographic, side by side.
#ifndef PB_RAY_SENSOR_H
#define PB_RAY_SENSOR_H

#include "eval/names.h"
#include "geometry/ray.h"
#include "multibody/mesh_map.h"

typedef struct pbRayHit {
  int geom;  // -1: the ray meets nothing
  pbRayFeature feature;
} pbRayHit;

// One ray. In the frame of its site or camera `origin` and `direction` are the constants local[0..2] and local[3..5].
typedef struct NUM(pbBeam) {
  int body;  // that it does not see
  num origin[3], direction[3];
  double local[6], depth;  // depth: share of its length along the camera's axis
} NUM(pbBeam);
int NUM(pbRay_Count)(const pbModel *m, int sensor);
void NUM(pbRay_Beam)(const NUM(pbMechanism) *w, int sensor, int ray, NUM(pbBeam) *beam);
void NUM(pbRay_Cast)(const NUM(pbMechanism) *w, const NUM(pbBeam) *beam, pbRayHit *hit);
// A ray p + x v in the frame of a geom. Of a mesh whose points moved (mesh_map.h) where they were compiled: there it meets the
// same triangle at the same x, and `back` takes its vectors to where they moved from.
typedef struct NUM(pbLocalRay) {
  num p[3], v[3];
  pbHullMotion motion;
  num back[9];
} NUM(pbLocalRay);
void NUM(pbRay_ToGeom)(const NUM(pbMechanism) *w, const NUM(pbBeam) *beam, int geom, NUM(pbLocalRay) *ray);
// Corners of the triangle that is met of a height field whose heights are parameters (shape.h), and which heights they have;
// false: something else is met.
bool NUM(pbRay_OnHills)(const NUM(pbMechanism) *w, const pbRayHit *hit, num corner[9], size_t height[3], int *exposed);
// What it meets, in the frame of the geom: x and the unit normal.
void NUM(pbRay_Meet)(const NUM(pbMechanism) *w, const NUM(pbLocalRay) *ray, const pbRayHit *hit, num *x, num normal[3]);

#endif
