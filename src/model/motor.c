// What a DC motor does not go with. Tests: tests/python/test_dcmotor.py.
#include "model/motor.h"

#include "base/context.h"

pbStatus pbMotor_Check(pbContext *ctx, const pbModel *m) {
  if (m->integrator != pb_intRK4) return pb_ok;

  for (int u = 0; u < m->nu; u++) {
    if (!m->actuator_motor[u]) continue;
    const char *name = pbModel_Name(m, pb_objActuator, u);
    return pbContext_Fail(
        ctx, pb_unsupported,
        "actuator %d '%.80s': a dcmotor with activations (current, temperature, bristles) does not go with integrator RK4;"
        " expected Euler or implicitfast",
        u, name ? name : "");
  }
  return pb_ok;
}
