// Rangefinders: which geom a site's ray meets first. The ray begins at the site, along the z axis of its frame.
#ifndef PB_RAY_SENSOR_H
#define PB_RAY_SENSOR_H

#include "eval/work.h"
#include "geometry/ray.h"
#include "multibody/mesh_map.h"

typedef struct pbRayHit {
  int geom;  // -1: the ray meets nothing
  pbRayFeature feature;
} pbRayHit;

void NUM(pbRay_Cast)(const NUM(pbWork) *w, int site, pbRayHit *hit);
// A ray p + x v in the frame of a geom. Of a mesh whose points moved (mesh_map.h) where they were compiled: there it meets the
// same triangle at the same x, and `back` takes its vectors to where they moved from.
typedef struct NUM(pbLocalRay) {
  num p[3], v[3];
  pbHullMotion motion;
  num back[9];
} NUM(pbLocalRay);
void NUM(pbRay_ToGeom)(const NUM(pbWork) *w, int site, int geom, NUM(pbLocalRay) *ray);
// What it meets, in the frame of the geom: x and the unit normal.
void NUM(pbRay_Meet)(const NUM(pbWork) *w, const NUM(pbLocalRay) *ray, const pbRayHit *hit, num *x, num normal[3]);
// What a rangefinder writes (spec.h, PB_RAY_DATA), before any cutoff: -1 and zeros where nothing is met.
void NUM(pbRay_Read)(const NUM(pbWork) *w, int sensor, num *y);

#endif
