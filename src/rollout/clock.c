// Sensors that read the clock. Time is no direction of the state, so a step's derivatives hold it; through a rollout the clock of
// state k is that of the start and k time steps.
// Tests: tests/oracle/test_stages.py, tests/oracle/test_derivatives.py, tests/oracle/test_sensors.py.
#include "base/assert.h"
#include "model/history.h"
#include "model/state_layout.h"
#include "rollout/rollout.h"

// Does sensor i show the time of a state, not its cutoff and not what it measured before?
static bool shows_time(const pbRollout *r, int i, const double *state) {
  const pbModel *m = r->model;
  double time = state[state_layout(m).time];
  pbBuffer buffer;
  if (!pbHistory_IsClock(m, r->theta, i, time)) return false;
  if (!pbBuffer_OfSensor(m, i, &buffer)) return true;
  return !pbHistory_TellsLate(m, r->theta, &buffer, state + state_layout(m).history, time);
}

void pbClock_Pull(const pbRollout *r, const double *sensor_bar, const double *state, int k, double *theta_bar) {
  const pbModel *m = r->model;
  if (!sensor_bar || !theta_bar) return;

  for (int i = 0; i < m->nsensor; i++) {
    if (shows_time(r, i, state)) theta_bar[m->timestep - m->theta0] += k * sensor_bar[m->sensor_adr[i]];
  }
}

void pbClock_Push(const pbRollout *r, const double *theta, const double *state, int k, double *sensordata) {
  const pbModel *m = r->model;
  if (!sensordata || !theta) return;

  for (int i = 0; i < m->nsensor; i++) {
    if (shows_time(r, i, state)) sensordata[m->sensor_adr[i]] += k * theta[m->timestep - m->theta0];
  }
}
