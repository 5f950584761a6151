// Values of sensors: which file computes which, and what a cutoff clamps. Derivative: sensors_adjoint.c.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/oracle/test_sensors.py.
#include <pullback/sensors.h>

#include "bodies/sensors.h"

#include "bodies/sensor.h"
#include "eval/constraints.h"
#include "eval/stages.h"
#include "model/sensor.h"

#define X(name, value, word, size, of, stage, data, known, file, ...) extern const LANE(pbSensorValue) LANE(pbSensorValue_##file);
PB_SENSOR_TABLE(X)
#undef X

// By type.
static const LANE(pbSensorValue) *const files[PB_SENSOR_TYPES] = {
#define X(name, number, word, size, of, stage, data, known, file, ...) [number] = &LANE(pbSensorValue_##file),
    PB_SENSOR_TABLE(X)
#undef X
};

void NUM(pbSensor_Share)(const NUM(pbConstraints) *w, bool early) {
  const pbModel *m = w->m;
  for (int i = 0; i < m->nsensor; i++) {
    const LANE(pbSensorValue) *file = files[m->sensor_type[i]];
    if ((!file->share && !file->share_constrained) || (early && !pbSensor_IsEarly(m, i))) continue;

    // Once for all of them.
    bool done = false;
    for (int k = 0; k < i && !done; k++) done = files[m->sensor_type[k]] == file;
    if (done) continue;
    if (file->share) file->share(&w->mechanism);
    else file->share_constrained(w);
  }
}

static num clamp(int data, num cutoff, num y) {
  if (data == pb_dataReal) return num_clip(y, -cutoff, cutoff);
  return data == pb_dataPositive && re(y) > re(cutoff) ? cutoff : y;
}

void NUM(pbSensor_Read)(const NUM(pbConstraints) *w, int i) {
  const pbModel *m = w->m;
  num *y = w->sensordata + m->sensor_adr[i], cutoff = w->p.sensor_cutoff[i];
  memset(y, 0, (size_t)m->sensor_dim[i] * sizeof *y);
  if (m->disableflags & pb_disSensor) return;

  const LANE(pbSensorValue) *file = files[m->sensor_type[i]];
  if (file->value) file->value(&w->mechanism, i, y);
  else file->value_constrained(w, i, y);

  if (!(re(cutoff) > 0) || !pbSensor_IsBounded(m->sensor_type[i])) return;
  for (int k = 0; k < m->sensor_dim[i]; k++) y[k] = clamp(m->sensor_datatype[i], cutoff, y[k]);
}

void NUM(pbStage_Sensors)(NUM(pbConstraints) *w) {
  if (!(w->m->disableflags & pb_disSensor)) NUM(pbSensor_Share)(w, false);
  for (int i = 0; i < w->m->nsensor; i++) NUM(pbSensor_Read)(w, i);
}
