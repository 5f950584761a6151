// Gradients of sensors: the cotangent of each goes to the file that computed it. Primal: sensors.c; tests:
// tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle.
#include <pullback/sensors.h>

#include "bodies/sensor_row_adjoint.h"
#include "model/sensor.h"

#define X(name, value, word, size, of, stage, data, known, file, ...) extern const LANE(pbSensorPull) LANE(pbSensorPull_##file);
PB_SENSOR_TABLE(X)
#undef X

// By type.
static const LANE(pbSensorPull) *const files[PB_SENSOR_TYPES] = {
#define X(name, number, word, size, of, stage, data, known, file, ...) [number] = &LANE(pbSensorPull_##file),
    PB_SENSOR_TABLE(X)
#undef X
};

// Of values at the cutoff what reaches them goes to sensor_cutoff, and no further.
static void pull_cutoff(LANE(pbAdjoint) *a, int i, lane *bar) {
  const NUM(pbConstraints) *w = a->constraints;
  const pbModel *m = w->m;
  double cutoff = re(w->p.sensor_cutoff[i]);
  int data = m->sensor_datatype[i];
  if (!(cutoff > 0) || !pbSensor_IsBounded(m->sensor_type[i])) return;

  for (int k = 0; k < m->sensor_dim[i]; k++) {
    double y = re(w->sensordata[m->sensor_adr[i] + k]);
    int side = (data == pb_dataReal || data == pb_dataPositive) && y >= cutoff;
    if (y <= -cutoff && data == pb_dataReal) side = -1;
    if (!side) continue;
    PB_THETA(a, sensor_cutoff, i, bar[k] * (num)side);
    bar[k] = PB_LANE_ZERO;
  }
}

// The force of a servo is that of its row.
static void pull_servo_forces(LANE(pbAdjoint) *a) {
  const NUM(pbConstraints) *w = a->constraints;
  for (int k = 0; k < w->nrow; k++) {
    if (w->row[k].kind != pb_rowServo) continue;
    int u = w->row[k].actuator;
    lane bar = a->act_force[u];
    for (int i = w->mom_start[u]; i < w->mom_start[u + 1]; i++) bar += w->mom[i] * a->qfrc_actuator[w->mom_dofs[i]];
    pull_force(a, w->row + k, bar);
  }
}

// Files that begin or end something, once each.
typedef struct opened {
  const LANE(pbSensorPull) *file[PB_SENSOR_TYPES];
  int count;
} opened;

static void open_file(LANE(pbAdjoint) *a, const LANE(pbSensorPull) *file, opened *open) {
  if (!file->begin && !file->end) return;
  for (int k = 0; k < open->count; k++) {
    if (open->file[k] == file) return;
  }

  PB_ASSERT(open->count < PB_SENSOR_TYPES);
  open->file[open->count++] = file;
  if (file->begin) file->begin(a);
}

void LANE(pbSensor_Adjoint)(LANE(pbAdjoint) *a, lane *sensordata) {
  const pbModel *m = a->w->m;
  opened open;
  if (m->disableflags & pb_disSensor) return;

  open.count = 0;
  for (int i = 0; i < m->nsensor; i++) {
    const LANE(pbSensorPull) *file = files[m->sensor_type[i]];
    lane *bar = sensordata + m->sensor_adr[i];
    if (is_zero(bar, m->sensor_dim[i])) continue;

    open_file(a, file, &open);
    pull_cutoff(a, i, bar);
    file->pull(a, i, bar);
  }

  for (int k = 0; k < open.count; k++) {
    if (open.file[k]->end) open.file[k]->end(a);
  }
  pull_servo_forces(a);
}
