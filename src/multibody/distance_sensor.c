// Which geoms are nearest for a sensor of distance, by the rules of MuJoCo's. Values and derivative: bodies/sensors/distance.c.
// Tests: tests/oracle/test_distance.py.
#include "multibody/distance_sensor.h"

#include "base/assert.h"
#include "eval/mechanism.h"
#include "geometry/distance.h"
#include "math/vec.h"
#include "multibody/shape.h"

typedef struct geom_range {
  int first, end;
} geom_range;

static geom_range geoms_of(const pbModel *m, int type, int id) {
  if (type == pb_refGeom) return (geom_range){id, id + 1};
  return (geom_range){m->body_geomadr[id], m->body_geomadr[id] + m->body_geomnum[id]};
}

// Keeps the pair where it is nearer than what was found before.
static void offer(const NUM(pbMechanism) *w, int first, int second, double *least, NUM(pbNearest) *out) {
  bool flip = w->m->geom_type[first] > w->m->geom_type[second];
  int geom[2] = {flip ? second : first, flip ? first : second}, point;
  NUM(pbShape) shape[2];
  NUM(pbContactPoint) contact;
  geom_shape(w, geom[0], &shape[0]);
  geom_shape(w, geom[1], &shape[1]);
  if (!NUM(pbPair_Nearest)(&shape[0], &shape[1], *least, &contact, &point)) return;

  *out = (NUM(pbNearest)){.geom = {geom[0], geom[1]}, .flip = flip, .bound = *least, .point = point, .contact = contact};
  *least = re(contact.dist);
}

void NUM(pbDistance_Find)(const NUM(pbMechanism) *w, int sensor, NUM(pbNearest) *out) {
  const pbModel *m = w->m;
  geom_range a = geoms_of(m, m->sensor_objtype[sensor], m->sensor_objid[sensor]);
  geom_range b = geoms_of(m, m->sensor_reftype[sensor], m->sensor_refid[sensor]);
  double least = re(w->p.sensor_cutoff[sensor]);

  out->geom[0] = out->geom[1] = -1;
  for (int i = a.first; i < a.end; i++) {
    for (int j = b.first; j < b.end; j++) offer(w, i, j, &least, out);
  }
}
