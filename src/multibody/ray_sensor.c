// Which geoms the rays of rangefinders meet first, by the rules of MuJoCo's mj_ray. Values and derivative:
// bodies/sensors/rangefinder.c.
// Tests: tests/oracle/test_rays.py.
#include "multibody/ray_sensor.h"

#include "base/assert.h"
#include "eval/mechanism.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/shape.h"

int NUM(pbRay_Count)(const pbModel *m, int sensor) {
  int camera = m->sensor_objid[sensor];
  if (m->sensor_objtype[sensor] != pb_refCamera) return 1;
  return m->cam_resolution[2 * camera] * m->cam_resolution[2 * camera + 1];
}

// Through a pixel's center, in the camera's frame: x to the right, y up, the view along -z.
static void aim(const pbModel *m, int camera, int pixel, NUM(pbBeam) *beam) {
  const double *lens = m->cam_lens + 4 * camera;
  int width = m->cam_resolution[2 * camera], row = pixel / width, column = pixel % width;
  double x = (column + 0.5 - lens[2]) / lens[0], y = (lens[3] - (row + 0.5)) / lens[1];
  double *from = beam->local, *along = beam->local + 3;
  PB_ASSERT(lens[0] != 0 && lens[1] != 0);

  // An orthographic one sees as far up and down as its field of view, a length, says.
  beam->depth = 1;
  along[2] = -1;
  if (m->cam_projection[camera]) {
    from[0] = x * m->cam_fovy[camera] / 2;
    from[1] = y * m->cam_fovy[camera] / 2;
    return;
  }

  beam->depth = 1 / sqrt(x * x + y * y + 1);
  along[0] = x * beam->depth;
  along[1] = y * beam->depth;
  along[2] = -beam->depth;
}

void NUM(pbRay_Beam)(const NUM(pbMechanism) *w, int sensor, int index, NUM(pbBeam) *beam) {
  const pbModel *m = w->m;
  int object = m->sensor_objid[sensor];
  memset(beam->local, 0, sizeof beam->local);

  // A site's is along its third axis.
  if (m->sensor_objtype[sensor] != pb_refCamera) {
    beam->body = m->site_bodyid[object];
    beam->local[5] = beam->depth = 1;
    v3_copy(beam->origin, w->site_xpos + 3 * object);
    m3_col(beam->direction, w->site_xmat + 9 * object, 2);
    return;
  }

  // A camera's is turned with it.
  NUM(pbFrame) f;
  num from[3], along[3];
  NUM(pbFrame_At)(w, pb_refCamera, object, &f);
  aim(m, object, index, beam);
  for (int k = 0; k < 3; k++) {
    from[k] = beam->local[k];
    along[k] = beam->local[3 + k];
  }

  beam->body = f.body;
  m3_mulv(beam->origin, f.mat, from);
  v3_addto(beam->origin, f.pos);
  m3_mulv(beam->direction, f.mat, along);
}

// All geoms but those of the site's body and those that are invisible, by their material where they have one.
static bool can_meet(const pbModel *m, int geom, int body) {
  if (m->geom_bodyid[geom] == body) return false;
  int material = m->geom_matid[geom];
  return (material < 0 ? m->geom_rgba[4 * geom + 3] : m->mat_rgba[4 * material + 3]) != 0;
}

static void target_of(const NUM(pbMechanism) *w, int geom, pbRayTarget *target) {
  int data = w->m->geom_dataid[geom], exposed = -1;
  *target = (pbRayTarget){.type = w->m->geom_type[geom]};
  if (target->type == pb_geomHfield) target->terrain = field_terrain(w, data, &exposed);
  target->varies = exposed >= 0;
  for (int k = 0; k < 3; k++) target->size[k] = re(w->p.geom_size[3 * geom + k]);
  if (target->type == pb_geomMesh) target->tree = w->t->triangles + data;
}

// y = stretch x + shift: the ray goes back to x.
static void unmove(const NUM(pbMechanism) *w, int mesh, NUM(pbLocalRay) *ray) {
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

void NUM(pbRay_ToGeom)(const NUM(pbMechanism) *w, const NUM(pbBeam) *beam, int geom, NUM(pbLocalRay) *ray) {
  num from[3];
  v3_sub(from, beam->origin, w->geom_xpos + 3 * geom);
  m3_tmulv(ray->p, w->geom_xmat + 9 * geom, from);
  m3_tmulv(ray->v, w->geom_xmat + 9 * geom, beam->direction);

  ray->motion = pb_hullStays;
  if (w->m->geom_type[geom] == pb_geomMesh) unmove(w, w->m->geom_dataid[geom], ray);
}

bool NUM(pbRay_OnHills)(const NUM(pbMechanism) *w, const pbRayHit *hit, num corner[9], size_t height[3], int *exposed) {
  int field = w->m->geom_dataid[hit->geom], prism = pb_rayPrism(&hit->feature);
  pbPrism found;
  if (w->m->geom_type[hit->geom] != pb_geomHfield || prism < 0) return false;

  pbTerrain terrain = field_terrain(w, field, exposed);
  if (*exposed < 0) return false;

  // The tops of a prism.
  const num *values = exposed_values(w, *exposed);
  pbTerrain_Prism(&terrain, prism, &found);
  pbTerrain_Heights(&terrain, prism, height);
  for (int i = 0; i < 9; i++) corner[i] = found.corner[3 * PB_PRISM_TOP + i];
  for (int k = 0; k < 3; k++) corner[3 * k + 2] = values[height[k]] * terrain.size[2];
  return true;
}

// On the plane of three corners.
static void meet_facet(const num corner[9], const NUM(pbLocalRay) *ray, num *x, num normal[3]) {
  num ab[3], ac[3], from[3];
  v3_sub(ab, corner + 3, corner);
  v3_sub(ac, corner + 6, corner);
  v3_sub(from, corner, ray->p);
  v3_cross(normal, ab, ac);
  *x = num_div(v3_dot(normal, from), v3_dot(normal, ray->v));
  v3_normalize(normal);
}

void NUM(pbRay_Meet)(const NUM(pbMechanism) *w, const NUM(pbLocalRay) *ray, const pbRayHit *hit, num *x, num normal[3]) {
  num corner[9];
  size_t height[3];
  int exposed;
  if (NUM(pbRay_OnHills)(w, hit, corner, height, &exposed)) {
    meet_facet(corner, ray, x, normal);
    return;
  }

  NUM(pbRay_At)(&hit->feature, w->p.geom_size + 3 * hit->geom, ray->p, ray->v, x, normal);
  if (ray->motion == pb_hullStays) return;

  // Normals go by the inverse, transposed.
  m3_tmulv(normal, ray->back, normal);
  v3_normalize(normal);
}

void NUM(pbRay_Cast)(const NUM(pbMechanism) *w, const NUM(pbBeam) *beam, pbRayHit *hit) {
  const pbModel *m = w->m;
  double nearest = INFINITY;
  hit->geom = -1;

  // The first one where several are as near.
  for (int g = 0; g < m->ngeom; g++) {
    if (!can_meet(m, g, beam->body)) continue;
    pbRayTarget target;
    NUM(pbLocalRay) ray;
    double from[3], along[3];
    target_of(w, g, &target);
    NUM(pbRay_ToGeom)(w, beam, g, &ray);
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
