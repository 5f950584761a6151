// Sensors in a site's own frame: accelerometers, velocimeters, gyros, magnetometers.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include <pullback/sensors.h>

#include "bodies/sensor.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/spatial.h"

// In world axes.
static void vector(const NUM(pbMechanism) *w, int type, const NUM(pbFrame) *f, num v[3]) {
  switch (type) {
    case pb_sensAccelerometer: NUM(pbFrame_Acceleration)(w, f, v); break;
    case pb_sensVelocimeter: NUM(pbFrame_Velocity)(w, f, v); break;
    case pb_sensGyro: v3_copy(v, w->V + 6 * f->body); break;
    default: v3_copy(v, w->p.magnetic);
  }
}

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  NUM(pbFrame) f;
  num v[3];
  NUM(pbFrame_At)(w, pb_refSite, w->m->sensor_objid[i], &f);
  vector(w, w->m->sensor_type[i], &f, v);
  m3_tmulv(y, f.mat, v);
}
PB_SENSOR_VALUE(site, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "multibody/frame_adjoint.h"

// y = mat' v: the frame's axes take G x v, the vector G.
static void pull(LANE(pbAdjoint) *a, int i, const lane *y) {
  int type = a->w->m->sensor_type[i];
  frame_bar s;
  num v[3];
  lane G[3];
  frame_bar_at(a, pb_refSite, a->w->m->sensor_objid[i], &s);
  vector(a->w, type, &s.f, v);

  to_world(G, s.f.mat, y);
  switch (type) {
    case pb_sensAccelerometer: pull_acceleration(a, &s, G); break;
    case pb_sensVelocimeter: pull_velocity(a, &s, G); break;
    case pb_sensGyro:
      for (int k = 0; k < 3; k++) a->FV[6 * s.f.body + k] += G[k];
      break;
    default:
      for (int k = 0; k < 3; k++) PB_THETA(a, magnetic, k, G[k]);
  }

  PB_ADDCROSS(s.torque, 1, G, v);
  frame_bar_done(a, &s);
}
PB_SENSOR_PULL(site, pull);
#endif
