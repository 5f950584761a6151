// The table of sensors.
// Tests: tests/unit/test_compile.c, tests/oracle/test_compile.py, tests/conformance/test_lists.c.
#include "model/sensor.h"

#include <string.h>

#include <pullback/actuators.h>
#include <pullback/sensors.h>

#include "base/assert.h"
#include "model/model.h"

#define pb_dataUnbounded   pb_dataReal  // no cutoff clamps them; MuJoCo calls them real
#define BOUNDED_Real       true
#define BOUNDED_Positive   true
#define BOUNDED_Axis       false
#define BOUNDED_Quaternion false
#define BOUNDED_Unbounded  false
#define EARLY_Early        true
#define EARLY_Late         false

static const pbSensorRow rows[PB_SENSOR_TYPES] = {
#define X(name, value, word, size, of, stage, data, known, file, meaning) \
  [value] = {value, word, meaning, size, pb_of##of, pb_stage##stage, pb_data##data, BOUNDED_##data, EARLY_##known},
    PB_SENSOR_TABLE(X)
#undef X
};

const pbSensorRow *pbSensor_Row(int type) {
  bool there = type >= 0 && type < PB_SENSOR_TYPES && rows[type].word;
  return there ? &rows[type] : NULL;
}

const pbSensorRow *pbSensor_Named(const char *word) {
  for (int i = 0; i < PB_SENSOR_TYPES; i++) {
    if (rows[i].word && !strcmp(rows[i].word, word)) return &rows[i];
  }
  return NULL;
}

bool pbSensor_IsEarly(const pbModel *m, int sensor) {
  const pbSensorRow *row = pbSensor_Row(m->sensor_type[sensor]);
  PB_ASSERT(row);
  bool adhesion = row->of == pb_ofActuator && m->actuator_trntype[m->sensor_objid[sensor]] == pb_trnBody;

  return row->early && !(adhesion && row->stage == pb_stageVelocity);
}

bool pbSensor_IsBounded(int type) {
  PB_ASSERT(pbSensor_Row(type));
  return rows[type].bounded;
}
