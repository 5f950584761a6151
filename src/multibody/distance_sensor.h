// Which geoms are nearest, for sensors of distance, normal and nearest points.
#ifndef PB_DISTANCE_SENSOR_H
#define PB_DISTANCE_SENSOR_H

#include "eval/names.h"
#include "geometry/pair.h"

// The nearest pair of geoms.
typedef struct NUM(pbNearest) {
  int geom[2];   // -1: none is nearer than the cutoff; in the order of their types
  bool flip;     // the second one is of the sensor's first object
  double bound;  // within which they were looked for
  int point;     // which of the pair's contacts
  NUM(pbContactPoint) contact;
} NUM(pbNearest);
void NUM(pbDistance_Find)(const NUM(pbMechanism) *w, int sensor, NUM(pbNearest) *nearest);

#endif
