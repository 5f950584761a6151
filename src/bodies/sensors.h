// All sensors of a model, by the files of src/bodies/sensors.
#ifndef PB_BODIES_SENSORS_H
#define PB_BODIES_SENSORS_H

#include "eval/work.h"

// One sensor's numbers into sensordata, after what sensors share: of all, or of early ones (model/sensor.h).
void NUM(pbSensor_Share)(const NUM(pbWork) *w, bool early);
void NUM(pbSensor_Read)(const NUM(pbWork) *w, int sensor);

#endif
