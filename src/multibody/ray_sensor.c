// Rangefinders, by the rules of MuJoCo's mj_ray. Derivative: ray_sensor_adjoint.c.
#include "multibody/ray_sensor.h"

#include "base/assert.h"
#include "math/vec.h"

// All geoms but those of the site's body and those that are invisible, by their material where they have one.
static bool can_meet(const pbModel *m, int geom, int body) {
  if (m->geom_bodyid[geom] == body) return false;
  int material = m->geom_matid[geom];
  return (material < 0 ? m->geom_rgba[4 * geom + 3] : m->mat_rgba[4 * material + 3]) != 0;
}

static void target_of(const NUM(pbWork) *w, int geom, pbRayTarget *target) {
  int data = w->m->geom_dataid[geom];
  *target = (pbRayTarget){.type = w->m->geom_type[geom], .m = w->m, .hfield = data};
  for (int k = 0; k < 3; k++) target->size[k] = re(w->p.geom_size[3 * geom + k]);
  if (target->type == pb_geomMesh) target->tree = w->t->triangles + data;
}

// y = stretch x + shift: the ray goes back to x.
static void unmove(const NUM(pbWork) *w, int mesh, NUM(pbLocalRay) *ray) {
  num stretch[9], shift[3], p[3];
  ray->motion = NUM(pbMesh_Map)(w, mesh, stretch, shift);
  if (ray->motion == pb_hullStays) return;

  // Column by column; a stretch that flattens the mesh takes the ray nowhere.
  for (int k = 0; k < 3; k++) {
    num e[3] = {k == 0, k == 1, k == 2}, column[3] = {0};
    if (!m3_solve(column, stretch, e)) v3_zero(column);
    for (int i = 0; i < 3; i++) ray->back[3 * i + k] = column[i];
  }
  v3_sub(p, ray->p, shift);
  m3_mulv(ray->p, ray->back, p);
  m3_mulv(ray->v, ray->back, ray->v);
}

void NUM(pbRay_ToGeom)(const NUM(pbWork) *w, int site, int geom, NUM(pbLocalRay) *ray) {
  num from[3], axis[3];
  v3_sub(from, w->site_xpos + 3 * site, w->geom_xpos + 3 * geom);
  m3_col(axis, w->site_xmat + 9 * site, 2);
  m3_tmulv(ray->p, w->geom_xmat + 9 * geom, from);
  m3_tmulv(ray->v, w->geom_xmat + 9 * geom, axis);

  ray->motion = pb_hullStays;
  if (w->m->geom_type[geom] == pb_geomMesh) unmove(w, w->m->geom_dataid[geom], ray);
}

void NUM(pbRay_Meet)(const NUM(pbWork) *w, const NUM(pbLocalRay) *ray, const pbRayHit *hit, num *x, num normal[3]) {
  NUM(pbRay_At)(&hit->feature, w->p.geom_size + 3 * hit->geom, ray->p, ray->v, x, normal);
  if (ray->motion == pb_hullStays) return;

  // Normals go by the inverse, transposed.
  m3_tmulv(normal, ray->back, normal);
  v3_normalize(normal);
}

void NUM(pbRay_Cast)(const NUM(pbWork) *w, int site, pbRayHit *hit) {
  const pbModel *m = w->m;
  double nearest = INFINITY;
  PB_ASSERT(site >= 0 && site < m->nsite);
  hit->geom = -1;

  // The first one where several are as near.
  for (int g = 0; g < m->ngeom; g++) {
    if (!can_meet(m, g, m->site_bodyid[site])) continue;
    pbRayTarget target;
    NUM(pbLocalRay) ray;
    double from[3], along[3];
    target_of(w, g, &target);
    NUM(pbRay_ToGeom)(w, site, g, &ray);
    for (int k = 0; k < 3; k++) {
      from[k] = re(ray.p[k]);
      along[k] = re(ray.v[k]);
    }

    double x = pbRay_Search(&target, from, along, nearest, &hit->feature);
    if (x < 0) continue;
    nearest = x;
    hit->geom = g;
  }
}

void NUM(pbRay_Read)(const NUM(pbWork) *w, int sensor, num *y) {
  int site = w->m->sensor_objid[sensor], data = w->m->sensor_intprm[3 * sensor];
  pbRayHit hit;
  num x = -1, direction[3] = {0}, point[3] = {0}, normal[3] = {0};
  const num *origin = w->site_xpos + 3 * site;

  NUM(pbRay_Cast)(w, site, &hit);
  if (hit.geom >= 0) {
    NUM(pbLocalRay) ray;
    NUM(pbRay_ToGeom)(w, site, hit.geom, &ray);
    NUM(pbRay_Meet)(w, &ray, &hit, &x, normal);

    m3_mulv(normal, w->geom_xmat + 9 * hit.geom, normal);
    m3_col(direction, w->site_xmat + 9 * site, 2);
    v3_along(point, origin, direction, x);
  }

  // In the order of their bits.
  const num *parts[] = {&x, direction, origin, point, normal, &x};
  static const int sizes[] = {1, 3, 3, 3, 3, 1};
  for (int bit = 0; bit < 6; bit++) {
    if (!(data & 1 << bit)) continue;
    memcpy(y, parts[bit], (size_t)sizes[bit] * sizeof *y);
    y += sizes[bit];
  }
  PB_ASSERT(data > 0 && data < 1 << 6);
}
