// Kinds of observations: names, what they are of, widths. Tests: tests/unit/test_policy_file.c, tests/conformance/test_policy.c.
#include "model/observe.h"

#include <string.h>

#include "base/assert.h"
#include "model/joint.h"
#include "model/policy_data.h"
#include "model/sensor.h"

typedef struct Kind {
  const char *name;
  pbObject object;
  bool all, frame;
} Kind;

static const Kind kinds[] = {
    [pb_observeQpos] = {"qpos", pb_objJoint, .all = true},
    [pb_observeRotation] = {"rotation", pb_objJoint, .all = false},
    [pb_observeQvel] = {"qvel", pb_objJoint, .all = true},
    [pb_observeAct] = {"act", pb_objActuator, .all = true},
    [pb_observeSensor] = {"sensor", pb_objSensor, .all = true},
    [pb_observeBodyPosition] = {"body_position", pb_objBody, .frame = true},
    [pb_observeBodyRotation] = {"body_rotation", pb_objBody, .frame = true},
    [pb_observeSitePosition] = {"site_position", pb_objSite, .frame = true},
    [pb_observeSiteRotation] = {"site_rotation", pb_objSite, .frame = true},
    [pb_observeCommand] = {"command", pb_objCount, .all = false},
    [pb_observeLast] = {"last", pb_objCount, .all = false},
    [pb_observeTime] = {"time", pb_objCount, .all = false},
    [pb_observePoints] = {"points", pb_objPoint, .all = true},
    [pb_observePointVelocity] = {"point_velocity", pb_objPoint, .all = true},
};
_Static_assert(sizeof kinds / sizeof *kinds == pb_observeKindCount, "a row for each kind of observation");

const char *pbObserveKind_Name(pbObserveKind kind) { return (unsigned)kind < pb_observeKindCount ? kinds[kind].name : NULL; }

bool pbObserveKind_Named(const char *name, pbObserveKind *kind) {
  for (int i = 0; i < pb_observeKindCount; i++) {
    if (strcmp(kinds[i].name, name) != 0) continue;
    *kind = (pbObserveKind)i;
    return true;
  }
  return false;
}

pbObject pbObserve_Object(pbObserveKind kind) { return kinds[kind].object; }
bool pbObserve_TakesAll(pbObserveKind kind) { return kinds[kind].all; }
bool pbObserve_TakesFrame(pbObserveKind kind) { return kinds[kind].frame; }

// ---- widths ---------------------------------------------------------------------------------------------------------
// A rotation counts with its matrix.
static int width_of_positions(const pbModel *m, int joint) {
  int type = m->jnt_type[joint];
  return pbJoint_PlainCount(type) + (pbJoint_HasRotation(type) ? 9 : 0);
}

static int width_of_joints(const pbModel *m) {
  int width = 0;
  for (int j = 0; j < m->njnt; j++) width += width_of_positions(m, j);
  return width;
}

// Those that are there before the controls.
static int width_of_sensors(const pbModel *m) {
  int width = 0;
  for (int i = 0; i < m->nsensor; i++) width += pbSensor_IsEarly(m, i) ? m->sensor_dim[i] : 0;
  return width;
}

int pbObserve_Width(const pbModel *m, pbObserveKind kind, int object, int own) {
  PB_ASSERT(object >= 0 || kinds[kind].object == pb_objCount || kinds[kind].all);
  bool all = object < 0;

  switch (kind) {
    case pb_observeQpos: return all ? width_of_joints(m) : width_of_positions(m, object);
    case pb_observeQvel: return all ? m->nv : pbJoint_DofCount(m->jnt_type[object]);
    case pb_observeAct: return all ? m->na : m->actuator_actnum[object];
    case pb_observeSensor: return all ? width_of_sensors(m) : m->sensor_dim[object];
    case pb_observeRotation:
    case pb_observeBodyPosition:
    case pb_observeSitePosition: return 3;
    case pb_observeBodyRotation:
    case pb_observeSiteRotation: return 9;
    case pb_observeCommand:
    case pb_observeLast: return own;
    case pb_observeTime: return 1;
    case pb_observePoints:
    case pb_observePointVelocity: return 3 * own;
    case pb_observeKindCount: break;  // none: what has no case is a warning
  }
  return 0;
}
