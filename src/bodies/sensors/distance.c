// Distance, normal and nearest points, between geoms or the geoms of bodies. Derivative: by the Jacobian of the nearest pair.
// Tests: tests/oracle/test_distance.py, tests/conformance/test_lists.c, tests/conformance/test_step.c.
#include <pullback/sensors.h>

#include "multibody/distance_sensor.h"

#include "bodies/sensor.h"
#include "geometry/distance.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/shape.h"
#include "multibody/spatial.h"

// The distance, at most the cutoff; the unit vector from the first's nearest point to the second's (of shapes that overlap from
// the deepest, so that it points back), or both points. Zeros where nothing is nearer than the cutoff.
static void value(const NUM(pbMechanism) *w, int sensor, num *y) {
  int type = w->m->sensor_type[sensor];
  NUM(pbNearest) found;
  NUM(pbDistance_Find)(w, sensor, &found);
  if (found.geom[0] < 0) {
    if (type == pb_sensDistance) y[0] = w->p.sensor_cutoff[sensor];
    return;
  }

  const NUM(pbContactPoint) *c = &found.contact;
  double side = found.flip ? -1 : 1;
  num half = 0.5 * side * c->dist;
  switch (type) {
    case pb_sensDistance: y[0] = c->dist; return;
    case pb_sensNormal: v3_scale(y, c->normal, side * num_sign(re(c->dist))); return;
    default: v3_along(y, c->pos, c->normal, -half); v3_along(y + 3, c->pos, c->normal, half);
  }
}
PB_SENSOR_VALUE(distance, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "multibody/frame_adjoint.h"

// Cotangents of dist, pos (3), normal (3) and hint (3) of the contact by those of the sensor.
static void gather(int type, const NUM(pbNearest) *found, const lane *bar, lane out[10]) {
  const NUM(pbContactPoint) *c = &found->contact;
  num side = found->flip ? -1 : 1, sign = re(c->dist) > 0 ? side : -side;
  memset(out, 0, 10 * sizeof *out);
  if (type == pb_sensDistance) {
    out[0] = bar[0];
    return;
  }
  if (type == pb_sensNormal) {
    for (int k = 0; k < 3; k++) out[4 + k] = (re(c->dist) == 0 ? 0 : sign) * bar[k];
    return;
  }

  // pos -+ side dist / 2 normal
  for (int k = 0; k < 3; k++) {
    lane apart = 0.5 * side * (bar[3 + k] - bar[k]);
    out[0] += apart * c->normal[k];
    out[1 + k] = bar[k] + bar[3 + k];
    out[4 + k] = apart * c->dist;
  }
}

#if PB_LANES == 1
static void pull_meshes(LANE(pbAdjoint) *a, const NUM(pbNearest) *found, const NUM(pbShape) shape[2], const num bar[10],
                        const frame_bar g[2]) {
  pbContactBar rows[PB_MAX_CONTACT_POINTS] = {0};
  bool is_mesh[2] = {shape[0].type == pb_geomMesh, shape[1].type == pb_geomMesh};
  num strain[2][6];
  if (!PB_WANTS(a, pb_wantMeshes) || !(is_mesh[0] || is_mesh[1])) return;

  // Of all points of the pair this one counts.
  memcpy(rows[found->point].row, bar, sizeof rows->row);
  NUM(pbPair_PullStrain)(shape, found->bound, NULL, found->point + 1, rows, is_mesh, strain);
  for (int k = 0; k < 2; k++) {
    num wrench[6];
    if (!is_mesh[k]) continue;
    memcpy(wrench, g[k].torque, 3 * sizeof *wrench);
    memcpy(wrench + 3, g[k].force, 3 * sizeof *wrench);
    int mesh = a->w->m->geom_dataid[found->geom[k]];
    LANE(pbMesh_PullMotion)(a, mesh, &shape[k], strain[k], wrench);
    LANE(pbMesh_PullVertices)(a, mesh, shape, found->bound, NULL, found->point + 1, rows, k);
  }
}
#endif

static void pull(LANE(pbAdjoint) *a, int sensor, const lane *sensor_bar) {
  const NUM(pbMechanism) *w = a->w;
  NUM(pbNearest) found;
  NUM(pbDistance_Find)(w, sensor, &found);
  if (found.geom[0] < 0) return;

  NUM(pbShape) shape[2];
  pbContactJacobian J;
  lane bar[10], in[12];
  for (int k = 0; k < 2; k++) geom_shape(w, found.geom[k], &shape[k]);
  if (!NUM(pbPair_NearestJacobian)(&shape[0], &shape[1], found.bound, found.point, &J)) {
    a->refused = "distances between these shapes";
    return;
  }
  gather(w->m->sensor_type[sensor], &found, sensor_bar, bar);
  for (int c = 0; c < 12; c++) {
    in[c] = bar[0] * J.d[0][c];
    for (int r = 1; r < 10; r++) in[c] += bar[r] * J.d[r][c];
  }

  // Wrench on the second geom about its center; what moves both as one takes the point and the normal along, so that the rest of
  // it is on the first.
  frame_bar g[2];
  num arm[3], apart[3];
  for (int k = 0; k < 2; k++) frame_bar_at(a, pb_refGeom, found.geom[k], &g[k]);
  for (int k = 0; k < 3; k++) {
    arm[k] = found.contact.pos[k] - shape[0].pos[k];
    apart[k] = shape[1].pos[k] - shape[0].pos[k];
    g[1].torque[k] = in[k];
    g[1].force[k] = in[3 + k];
    g[0].torque[k] = -in[k];
    g[0].force[k] = bar[1 + k] - in[3 + k];
  }
  PB_ADDCROSS(g[0].torque, 1, arm, bar + 1);
  PB_ADDCROSS(g[0].torque, 1, found.contact.normal, bar + 4);
  PB_ADDCROSS(g[0].torque, -1, apart, g[1].force);

  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++) PB_THETA(a, geom_size, 3 * found.geom[k] + i, in[6 + 3 * k + i]);
    frame_bar_done(a, &g[k]);
  }
#if PB_LANES == 1
  pull_meshes(a, &found, shape, bar, g);
#endif
}
PB_SENSOR_PULL(distance, pull);
#endif
