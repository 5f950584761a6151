// Where a site is seen in a camera's image, in pixels from its upper left corner.
// Tests: tests/conformance/test_lists.c, tests/conformance/test_step.c, tests/oracle/test_derivatives.py.
#include "bodies/sensor.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/spatial.h"

static void value(const NUM(pbMechanism) *w, int i, num *y) {
  const pbModel *m = w->m;
  int camera = m->sensor_refid[i];
  NUM(pbFrame) f;
  num p[3];
  NUM(pbFrame_Pose)(w, pb_refCamera, camera, &f);
  v3_sub(p, w->site_xpos + 3 * m->sensor_objid[i], f.pos);
  m3_tmulv(p, f.mat, p);

  // The view is along -z. Beside the camera there is no image: far away.
  num depth = p[2];
  if (fabs(re(depth)) < TINY) depth = re(depth) < 0 ? -TINY : TINY;

  for (int k = 0; k < 2; k++) {
    double sign = k ? 1 : -1;
    y[k] = 0.5 * m->cam_resolution[2 * camera + k] + sign * m->cam_lens[4 * camera + k] * num_div(p[k], depth);
  }
}
PB_SENSOR_VALUE(camera, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "multibody/frame_adjoint.h"

// y = resolution / 2 -+ lens p / depth, p the site and depth its third number in the camera's frame.
static void pull(LANE(pbAdjoint) *a, int i, const lane *bar) {
  const NUM(pbMechanism) *w = a->w;
  int camera = w->m->sensor_refid[i];
  const double *lens = w->m->cam_lens + 4 * camera;
  frame_bar s, c;
  num from[3], p[3];
  lane p_bar[3], G[3];
  frame_bar_at(a, pb_refSite, w->m->sensor_objid[i], &s);
  frame_bar_at(a, pb_refCamera, camera, &c);
  v3_sub(from, s.f.pos, c.f.pos);
  for (int k = 0; k < 3; k++) p[k] = c.f.mat[k] * from[0] + c.f.mat[3 + k] * from[1] + c.f.mat[6 + k] * from[2];

  // Beside the camera the depth stands still.
  bool beside = fabs(re(p[2])) < TINY;
  num depth = p[2];
  if (beside) depth = re(p[2]) < 0 ? -TINY : TINY;

  p_bar[0] = -bar[0] * (lens[0] / depth);
  p_bar[1] = bar[1] * (lens[1] / depth);
  p_bar[2] = -(p_bar[0] * p[0] + p_bar[1] * p[1]) / depth;
  if (beside) p_bar[2] = PB_LANE_ZERO;
  to_world(G, c.f.mat, p_bar);

  for (int k = 0; k < 3; k++) {
    s.force[k] = G[k];
    c.force[k] = -G[k];
  }
  PB_CROSS(c.torque, G, from);
  frame_bar_done(a, &s);
  frame_bar_done(a, &c);
}
PB_SENSOR_PULL(camera, pull);
#endif
