// What sensors and their gradients share.
#ifndef PB_SENSOR_H
#define PB_SENSOR_H

#include "eval/work.h"

enum { PB_SENSOR_MOST = 14 };                   // numbers of a sensor, or of one ray with all its data
enum { pb_dataReal = 0, pb_dataPositive = 1 };  // mjtDataType of sensors that a cutoff can clamp

// A frame a sensor looks at. pos, mat point into the work (of a camera: to own); d: offset of pos from ref of the body's tree.
typedef struct NUM(pbSensorFrame) {
  int body;
  const num *pos, *mat;
  num d[3], own[12];
} NUM(pbSensorFrame);

void NUM(pbSensor_Frame)(const NUM(pbWork) *w, int objtype, int objid, NUM(pbSensorFrame) *f);
void NUM(pbSensor_Quat)(const NUM(pbWork) *w, int objtype, int objid, num q[4]);
// One sensor's numbers into sensordata, after what sensors share: motions of subtrees where one asks for them (not the wrenches
// that hold bodies).
void NUM(pbSensor_Share)(const NUM(pbWork) *w);
void NUM(pbSensor_Read)(const NUM(pbWork) *w, int sensor);
// Velocity of the frame's origin and true acceleration, gravity counted as upward acceleration; world axes.
void NUM(pbSensor_Velocity)(const NUM(pbWork) *w, const NUM(pbSensorFrame) *f, num v[3]);
void NUM(pbSensor_Acceleration)(const NUM(pbWork) *w, const NUM(pbSensorFrame) *f, num a[3]);
// First limit row of a joint (or njnt + tendon) that is there; NULL.
const NUM(pbRow) *NUM(pbSensor_Limit)(const NUM(pbWork) *w, int id);
// Does this row's contact press on a touch sensor's zone?
bool NUM(pbSensor_Touches)(const NUM(pbWork) *w, const NUM(pbRow) *row, int site);
// Is the point, in the frame of a site, within its shape?
bool NUM(pbSensor_InSite)(const NUM(pbWork) *w, int site, const num local[3]);
// Body j is b or below it.
bool NUM(pbSensor_Below)(const pbModel *m, int j, int b);
// Sum of all forces along a tendon: spring, damper, actuators, rows, armature; positive lengthens.
num NUM(pbSensor_Tension)(const NUM(pbWork) *w, int tendon);
// Coefficient of an equality row's force along a tendon (0: not coupled by it).
num NUM(pbSensor_Coupling)(const NUM(pbWork) *w, int equality, int tendon);

#endif
