// Pullback: sensors, one row each: from this list come their enumerators, the elements of MJCF, what they may measure, widths,
// docs/sensors.md, a scene of the tests with each of them, and which file of src/bodies/sensors computes and differentiates it.
#ifndef PULLBACK_SENSORS_H
#define PULLBACK_SENSORS_H

// X(enumerator, value, MJCF element, numbers, of, stage, data, known, file, meaning)
//   value     MuJoCo's, or from PB_SENSOR_OURS one that MuJoCo does not have
//   numbers   that it writes; 0: what its data say
//   of        what it measures and in what frame, and so which attributes its element has (src/model/sensor.h, pb_of*)
//   stage     after which MuJoCo evaluates it: Position, Velocity, Acceleration
//   data      Real, Positive, Axis, Quaternion: what a cutoff clamps; Unbounded: real, and none clamps it
//   known     Early: of positions and velocities alone, so that a policy may observe it; Late: of rows, forces, accelerations,
//             contacts, the time
//   file      of src/bodies/sensors
enum { PB_SENSOR_OURS = 200, PB_SENSOR_TYPES = 256 };
// clang-format off
#define PB_SENSOR_TABLE(X) \
  X(pb_sensTouch, 0, "touch", 1, Site, Acceleration, Positive, Late, touch, \
    "sum of the normal forces of contacts that press on the site's zone, N") \
  X(pb_sensAccelerometer, 1, "accelerometer", 3, Site, Acceleration, Real, Late, site, \
    "linear acceleration, gravity included, in the site's frame, m/s^2") \
  X(pb_sensVelocimeter, 2, "velocimeter", 3, Site, Velocity, Real, Early, site, \
    "linear velocity in the site's frame, m/s") \
  X(pb_sensGyro, 3, "gyro", 3, Site, Velocity, Real, Early, site, \
    "angular velocity in the site's frame, rad/s") \
  X(pb_sensForce, 4, "force", 3, Site, Acceleration, Real, Late, hold, \
    "force between the site's body and its parent, in the site's frame, N") \
  X(pb_sensTorque, 5, "torque", 3, Site, Acceleration, Real, Late, hold, \
    "torque between the site's body and its parent about the site, in its frame, N m") \
  X(pb_sensMagnetometer, 6, "magnetometer", 3, Site, Position, Real, Early, site, \
    "option magnetic in the site's frame") \
  X(pb_sensRangefinder, 7, "rangefinder", 0, Ray, Position, Real, Early, rangefinder, \
    "what rays meet first: distances, directions, points, normals as data says, m") \
  X(pb_sensCamprojection, 8, "camprojection", 2, SiteInCamera, Position, Real, Early, camera, \
    "where the site is in the camera's image, pixels from its upper left corner") \
  X(pb_sensJointpos, 9, "jointpos", 1, ScalarJoint, Position, Real, Early, joint, \
    "position of a hinge or slide, rad or m") \
  X(pb_sensJointvel, 10, "jointvel", 1, ScalarJoint, Velocity, Real, Early, joint, \
    "velocity of a hinge or slide, rad/s or m/s") \
  X(pb_sensTendonpos, 11, "tendonpos", 1, Tendon, Position, Real, Early, tendon, \
    "length of a tendon, m") \
  X(pb_sensTendonvel, 12, "tendonvel", 1, Tendon, Velocity, Real, Early, tendon, \
    "rate of a tendon's length, m/s") \
  X(pb_sensActuatorpos, 13, "actuatorpos", 1, Actuator, Position, Real, Early, actuator, \
    "length of an actuator's transmission") \
  X(pb_sensActuatorvel, 14, "actuatorvel", 1, Actuator, Velocity, Real, Early, actuator, \
    "rate of an actuator's length") \
  X(pb_sensActuatorfrc, 15, "actuatorfrc", 1, Actuator, Acceleration, Real, Late, actuator, \
    "force of an actuator, N or N m") \
  X(pb_sensJointactuatorfrc, 16, "jointactuatorfrc", 1, ScalarJoint, Acceleration, Real, Late, actuator, \
    "force of all actuators on a hinge or slide, N m or N") \
  X(pb_sensTendonactuatorfrc, 17, "tendonactuatorfrc", 1, Tendon, Acceleration, Real, Late, actuator, \
    "force of all actuators on a tendon, N") \
  X(pb_sensBallquat, 18, "ballquat", 4, BallJoint, Position, Quaternion, Early, joint, \
    "orientation of a ball joint, quaternion") \
  X(pb_sensBallangvel, 19, "ballangvel", 3, BallJoint, Velocity, Real, Early, joint, \
    "angular velocity of a ball joint, rad/s") \
  X(pb_sensJointlimitpos, 20, "jointlimitpos", 1, LimitedJoint, Position, Real, Late, limit, \
    "distance of a joint from its limit less the margin, where the limit acts, else 0") \
  X(pb_sensJointlimitvel, 21, "jointlimitvel", 1, LimitedJoint, Velocity, Real, Late, limit, \
    "rate of that distance, where the limit acts") \
  X(pb_sensJointlimitfrc, 22, "jointlimitfrc", 1, LimitedJoint, Acceleration, Real, Late, limit, \
    "force of the limit, N m or N") \
  X(pb_sensTendonlimitpos, 23, "tendonlimitpos", 1, LimitedTendon, Position, Real, Late, limit, \
    "distance of a tendon's length from its limit less the margin, where the limit acts, m") \
  X(pb_sensTendonlimitvel, 24, "tendonlimitvel", 1, LimitedTendon, Velocity, Real, Late, limit, \
    "rate of that distance, where the limit acts, m/s") \
  X(pb_sensTendonlimitfrc, 25, "tendonlimitfrc", 1, LimitedTendon, Acceleration, Real, Late, limit, \
    "force of the limit, N") \
  X(pb_sensFramepos, 26, "framepos", 3, FrameInFrame, Position, Real, Early, frame, \
    "position of a frame, m") \
  X(pb_sensFramequat, 27, "framequat", 4, FrameInFrame, Position, Quaternion, Early, frame, \
    "orientation of a frame, quaternion") \
  X(pb_sensFramexaxis, 28, "framexaxis", 3, FrameInFrame, Position, Axis, Early, frame, \
    "x axis of a frame, unit vector") \
  X(pb_sensFrameyaxis, 29, "frameyaxis", 3, FrameInFrame, Position, Axis, Early, frame, \
    "y axis of a frame, unit vector") \
  X(pb_sensFramezaxis, 30, "framezaxis", 3, FrameInFrame, Position, Axis, Early, frame, \
    "z axis of a frame, unit vector") \
  X(pb_sensFramelinvel, 31, "framelinvel", 3, FrameInFrame, Velocity, Real, Early, frame, \
    "linear velocity of a frame, m/s") \
  X(pb_sensFrameangvel, 32, "frameangvel", 3, FrameInFrame, Velocity, Real, Early, frame, \
    "angular velocity of a frame, rad/s") \
  X(pb_sensFramelinacc, 33, "framelinacc", 3, Frame, Acceleration, Real, Late, frame, \
    "linear acceleration of a frame, gravity included, world axes, m/s^2") \
  X(pb_sensFrameangacc, 34, "frameangacc", 3, Frame, Acceleration, Real, Late, frame, \
    "angular acceleration of a frame, world axes, rad/s^2") \
  X(pb_sensSubtreecom, 35, "subtreecom", 3, Body, Position, Real, Early, subtree, \
    "center of mass of a body and all below it, m") \
  X(pb_sensSubtreelinvel, 36, "subtreelinvel", 3, Body, Velocity, Real, Early, subtree, \
    "velocity of that center of mass, m/s") \
  X(pb_sensSubtreeangmom, 37, "subtreeangmom", 3, Body, Velocity, Real, Early, subtree, \
    "angular momentum about that center of mass, kg m^2/s") \
  X(pb_sensInsidesite, 38, "insidesite", 1, FrameInSite, Position, Positive, Early, subtree, \
    "1 where the frame's origin is inside the site's shape, else 0") \
  X(pb_sensDistance, 39, "distance", 1, Shapes, Position, Real, Early, distance, \
    "least distance between two geoms or bodies, m") \
  X(pb_sensNormal, 40, "normal", 3, Shapes, Position, Axis, Early, distance, \
    "direction from the first's nearest point to the second's, unit vector") \
  X(pb_sensFromto, 41, "fromto", 6, Shapes, Position, Unbounded, Early, distance, \
    "both nearest points, m") \
  X(pb_sensContact, 42, "contact", 0, Contact, Acceleration, Unbounded, Late, contact, \
    "contacts of a geom, body, subtree or site: forces, points, normals, velocities as data says") \
  X(pb_sensPotential, 43, "e_potential", 1, Nothing, Position, Real, Late, energy, \
    "potential energy of weights and springs, J") \
  X(pb_sensKinetic, 44, "e_kinetic", 1, Nothing, Position, Real, Late, energy, \
    "kinetic energy, J") \
  X(pb_sensClock, 45, "clock", 1, Nothing, Position, Real, Late, clock, \
    "time, s")
// clang-format on
enum {
#define X(name, value, ...) name = value,
  PB_SENSOR_TABLE(X)
#undef X
};

#endif
