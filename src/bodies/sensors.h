// All sensors of a model, by the files of src/bodies/sensors.
#ifndef PB_BODIES_SENSORS_H
#define PB_BODIES_SENSORS_H

#include "eval/names.h"

// One sensor's numbers into sensordata, after what sensors share: of all, or of early ones (model/sensor.h).
void NUM(pbSensor_Share)(const NUM(pbConstraints) *w, bool early);
void NUM(pbSensor_Read)(const NUM(pbConstraints) *w, int sensor);

#endif
