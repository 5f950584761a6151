// Contact sensors, by the rules of MuJoCo's. Which contacts count: those that a step has found, also in the gap beyond the
// margin, where they have no force.
#ifndef PB_CONTACT_SENSOR_H
#define PB_CONTACT_SENSOR_H

#include "eval/work.h"

// Numbers of each of pb_contact*, by its bit.
static const int pb_contactSize[] = {
#define X(name, bit, word, size) [bit] = (size),
    PB_CONTACT_DATA(X)
#undef X
};
enum { PB_CONTACT_FIELDS = sizeof pb_contactSize / sizeof *pb_contactSize };

// A contact that a sensor takes.
typedef struct pbTaken {
  int contact;  // -1: none is left
  bool flip;    // what the sensor is of stands second: then it is written as seen from there
  double key;   // the least come first, those of equal keys in their order
} pbTaken;

// The next one after `last` in the sensor's order (contact -1: from the beginning).
pbTaken NUM(pbContactSensor_Next)(const NUM(pbWork) *w, int sensor, pbTaken last);
int NUM(pbContactSensor_Count)(const NUM(pbWork) *w, int sensor);
// The row of a contact; NULL: it has no force.
const NUM(pbRow) *NUM(pbContactSensor_Row)(const NUM(pbWork) *w, int contact);
// Motion of the second geom's body less the first's at the contact's point: velocity, angular velocity (world axes).
void NUM(pbContactSensor_Motion)(const NUM(pbWork) *w, int contact, num u[3], num omega[3]);

// The sum of all contacts that a sensor takes: forces, torques about the point and that point, the mean of theirs weighed by
// forces. total: sum of the weights.
typedef struct NUM(pbNetForce) {
  num force[3], torque[3], point[3], total;
} NUM(pbNetForce);
void NUM(pbContactSensor_Net)(const NUM(pbWork) *w, int sensor, NUM(pbNetForce) *net);

#endif
