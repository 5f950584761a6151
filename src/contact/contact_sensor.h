// Which contacts a sensor takes, by the rules of MuJoCo's. Which contacts count: those that a step has found, also in the gap
// beyond the margin, where they have no force.
#ifndef PB_CONTACT_SENSOR_H
#define PB_CONTACT_SENSOR_H

#include "eval/names.h"

// A contact that a sensor takes.
typedef struct pbTaken {
  int contact;  // -1: none is left
  bool flip;    // what the sensor is of stands second: then it is written as seen from there
  double key;   // the least come first, those of equal keys in their order
} pbTaken;

// The next one after `last` in the sensor's order (contact -1: from the beginning).
pbTaken NUM(pbContactSensor_Next)(const NUM(pbConstraints) *w, int sensor, pbTaken last);
int NUM(pbContactSensor_Count)(const NUM(pbConstraints) *w, int sensor);
// The row of a contact; NULL: it has no force.
const NUM(pbRow) *NUM(pbContactSensor_Row)(const NUM(pbConstraints) *w, int contact);
// Of a contact forces, then torques, along the axes of its frame; zeros where it has none.
void NUM(pbContactSensor_Force)(const NUM(pbConstraints) *w, int contact, num f[6]);

#endif
