// Rangefinders: which geom a site's ray meets first. The ray begins at the site, along the z axis of its frame.
#ifndef PB_RAY_SENSOR_H
#define PB_RAY_SENSOR_H

#include "eval/work.h"
#include "geometry/ray.h"

typedef struct pbRayHit {
  int geom;  // -1: the ray meets nothing
  pbRayFeature feature;
} pbRayHit;

void NUM(pbRay_Cast)(const NUM(pbWork) *w, int site, pbRayHit *hit);
// The ray in the frame of a geom, p + x v.
void NUM(pbRay_ToGeom)(const NUM(pbWork) *w, int site, int geom, num p[3], num v[3]);
// What a rangefinder writes (spec.h, PB_RAY_DATA), before any cutoff: -1 and zeros where nothing is met.
void NUM(pbRay_Read)(const NUM(pbWork) *w, int sensor, num *y);

#endif
