// Sensors of distance, normal and nearest points, between geoms or the geoms of bodies.
#ifndef PB_DISTANCE_SENSOR_H
#define PB_DISTANCE_SENSOR_H

#include "eval/work.h"

static inline bool pb_measuresDistance(int type) { return type >= pb_sensDistance && type <= pb_sensFromto; }

// The nearest pair of geoms.
typedef struct NUM(pbNearest) {
  int geom[2];   // -1: none is nearer than the cutoff; in the order of their types
  bool flip;     // the second one is of the sensor's first object
  double bound;  // within which they were looked for
  int point;     // which of the pair's contacts
  NUM(pbContactPoint) contact;
} NUM(pbNearest);
void NUM(pbDistance_Find)(const NUM(pbWork) *w, int sensor, NUM(pbNearest) *nearest);

// The sensor's numbers: the distance, at most the cutoff; the unit vector from the first's nearest point to the second's (of
// shapes that overlap from the deepest, so that it points back), or both points. Zeros where nothing is nearer than the cutoff.
void NUM(pbDistance_Read)(const NUM(pbWork) *w, int sensor, num *y);

#endif
