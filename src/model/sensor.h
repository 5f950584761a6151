// What the rows of PB_SENSOR_TABLE (pullback/sensors.h) say of a sensor, by its type.
#ifndef PB_SENSOR_H
#define PB_SENSOR_H

#include <stdbool.h>

#include <pullback/model.h>

// What a sensor may measure, and in what frame.
typedef enum pbSensorOf {
  pb_ofSite,
  pb_ofSiteInCamera,
  pb_ofScalarJoint,  // hinge or slide
  pb_ofBallJoint,
  pb_ofLimitedJoint,
  pb_ofTendon,
  pb_ofLimitedTendon,
  pb_ofActuator,
  pb_ofFrame,         // body, geom, site or camera
  pb_ofFrameInFrame,  // in another one, or in the world
  pb_ofFrameInSite,
  pb_ofBody,     // and all below it
  pb_ofShapes,   // two bodies or geoms
  pb_ofRay,      // rays of a site or a camera
  pb_ofContact,  // contacts between geoms, bodies, subtrees, what is in a site; or all
  pb_ofNothing
} pbSensorOf;

// MuJoCo's mjtStage and mjtDataType, by their values.
typedef enum pbSensorStage { pb_stagePosition = 1, pb_stageVelocity = 2, pb_stageAcceleration = 3 } pbSensorStage;
typedef enum pbSensorData { pb_dataReal = 0, pb_dataPositive = 1, pb_dataAxis = 2, pb_dataQuaternion = 3 } pbSensorData;

typedef struct pbSensorRow {
  int type;
  const char *word, *meaning;
  int size;  // numbers; 0: what its data say
  pbSensorOf of;
  pbSensorStage stage;
  pbSensorData data;
  bool bounded;  // a cutoff clamps its numbers
  bool early;    // of positions and velocities alone
} pbSensorRow;

// NULL: no sensor has this type, or this word; what models hold has one.
const pbSensorRow *pbSensor_Row(int type);
const pbSensorRow *pbSensor_Named(const char *word);
// May a policy observe it? Early ones, but for adhesion, which moves with contacts, and those come after the controls.
bool pbSensor_IsEarly(const pbModel *model, int sensor);
// Does a cutoff clamp its numbers?
bool pbSensor_IsBounded(int type);

#endif
