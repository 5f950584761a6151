// Rangefinders: what rays meet first (multibody/ray_sensor.h), as pbSensorDef.data says. Derivative: the part of the surface
// that is met stays the same; the ray moves with its site or camera, the surface with its geom and its sizes.
// Tests: tests/oracle/test_rays.py, tests/conformance/test_lists.c, tests/conformance/test_step.c.
#include "bodies/sensor.h"
#include "math/vec.h"
#include "multibody/frame.h"
#include "multibody/ray_sensor.h"
#include "multibody/spatial.h"

// What one ray writes, into y.
static void read_ray(const NUM(pbMechanism) *w, int sensor, int index, num *y) {
  int data = w->m->sensor_intprm[3 * sensor];
  NUM(pbBeam) beam;
  pbRayHit hit;
  num x = -1, depth = -1, direction[3] = {0}, point[3] = {0}, normal[3] = {0};

  NUM(pbRay_Beam)(w, sensor, index, &beam);
  NUM(pbRay_Cast)(w, &beam, &hit);
  if (hit.geom >= 0) {
    NUM(pbLocalRay) ray;
    NUM(pbRay_ToGeom)(w, &beam, hit.geom, &ray);
    NUM(pbRay_Meet)(w, &ray, &hit, &x, normal);

    m3_mulv(normal, w->geom_xmat + 9 * hit.geom, normal);
    v3_copy(direction, beam.direction);
    v3_along(point, beam.origin, direction, x);
    depth = x * beam.depth;
  }

  // In the order of their bits.
  const num *parts[] = {&x, direction, beam.origin, point, normal, &depth};
  static const int sizes[] = {1, 3, 3, 3, 3, 1};
  for (int bit = 0; bit < 6; bit++) {
    if (!(data & 1 << bit)) continue;
    memcpy(y, parts[bit], (size_t)sizes[bit] * sizeof *y);
    y += sizes[bit];
  }
  PB_ASSERT(data > 0 && data < 1 << 6);
}

// Ray by ray, before any cutoff: -1 and zeros where nothing is met.
static void value(const NUM(pbMechanism) *w, int sensor, num *y) {
  int count = NUM(pbRay_Count)(w->m, sensor), size = w->m->sensor_dim[sensor] / count;
  for (int i = 0; i < count; i++) read_ray(w, sensor, i, y + (size_t)i * (size_t)size);
}
PB_SENSOR_VALUE(rangefinder, value);

#if PB_HAS_PULLBACK  // ---- derivative ----------------------------------------------------------------------------------
#include "bodies/sensor_adjoint.h"
#include "model/exposed.h"
#include "multibody/frame_adjoint.h"

// Cotangents of what a rangefinder may write.
typedef struct ray_bar {
  lane x, direction[3], origin[3], normal[3];
} ray_bar;

static void take3(lane to[3], const lane **bar, bool there) {
  if (!there) return;
  for (int k = 0; k < 3; k++) to[k] += *(*bar)++;
}

// The point is origin + x direction; the depth a share of x.
static void gather(int data, const NUM(pbBeam) *beam, num x, const lane *bar, ray_bar *out) {
  lane point[3] = {0};
  memset(out, 0, sizeof *out);
  if (data & pb_rayDist) out->x += *bar++;
  take3(out->direction, &bar, data & pb_rayDir);
  take3(out->origin, &bar, data & pb_rayOrigin);
  take3(point, &bar, data & pb_rayPoint);
  take3(out->normal, &bar, data & pb_rayNormal);
  if (data & pb_rayDepth) out->x += beam->depth * *bar++;

  out->x += PB_DOT3(beam->direction, point);
  for (int k = 0; k < 3; k++) {
    out->direction[k] += x * point[k];
    out->origin[k] += point[k];
  }
}

// Of the value in the geom's frame to p, v (in that frame) and sizes; n: of the normal, in that frame.
static void pull_local(const pbRayJacobian *J, const NUM(pbLocalRay) *ray, const ray_bar *bar, const lane n[3], lane in[9]) {
  lane at[9];
  for (int c = 0; c < 9; c++) at[c] = J->d[0][c] * bar->x + J->d[1][c] * n[0] + J->d[2][c] * n[1] + J->d[3][c] * n[2];
  memcpy(in, at, sizeof at);
  if (ray->motion == pb_hullStays) return;

  // The ray came to where the mesh was compiled by `back`.
  for (int k = 0; k < 3; k++) {
    in[k] = ray->back[k] * at[0] + ray->back[3 + k] * at[1] + ray->back[6 + k] * at[2];
    in[3 + k] = ray->back[k] * at[3] + ray->back[3 + k] * at[4] + ray->back[6 + k] * at[5];
  }
}

#if PB_LANES == 1
// Points y = A x + s of a mesh: the ray is p0 = A^-1 (p - s), v0 = A^-1 v, the normal A^-T n0 made a unit. in: cotangents of p
// and v.
static void pull_mesh(LANE(pbAdjoint) *a, const pbRayHit *hit, const NUM(pbLocalRay) *ray, const num in[9], const num n_bar[3]) {
  num A_bar[9], s_bar[3], g[3], h[3], back[9];
  if (a->w->m->geom_type[hit->geom] != pb_geomMesh || !PB_WANTS(a, pb_wantMeshes)) return;
  if (ray->motion == pb_hullStays) m3_identity(back);
  else m3_copy(back, ray->back);

  // h: of the normal before it is made a unit, then through the inverse.
  m3_tmulv(g, back, hit->feature.normal);
  num length = v3_norm(g), along = v3_dot(g, n_bar) / (length * length);
  for (int k = 0; k < 3; k++) s_bar[k] = (n_bar[k] - along * g[k]) / length;
  m3_mulv(h, back, s_bar);
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < 3; j++) A_bar[3 * i + j] = -in[i] * ray->p[j] - in[3 + i] * ray->v[j] - g[i] * h[j];
    s_bar[i] = -in[i];
  }
  LANE(pbMesh_PullMap)(a, a->w->m->geom_dataid[hit->geom], A_bar, s_bar);
}

// x = N . (a - p) / N . v, N = a x b + b x c + c x a of the corners, the normal N / |N|: each corner goes up by its height.
static void pull_hills(LANE(pbAdjoint) *a, const pbRayHit *hit, const NUM(pbLocalRay) *ray, num x, num x_bar,
                       const num n_bar[3]) {
  num corner[9], ab[3], ac[3], N[3], edge[3], from[3];
  size_t height[3];
  int exposed;
  if (!PB_WANTS(a, pb_wantMeshes) || !NUM(pbRay_OnHills)(a->w, hit, corner, height, &exposed)) return;

  num *height_bar = a->theta + a->w->m->exposed[exposed].offset;
  num rise = a->w->m->hfield_size[4 * a->w->m->geom_dataid[hit->geom] + 2];
  v3_sub(ab, corner + 3, corner);
  v3_sub(ac, corner + 6, corner);
  v3_cross(N, ab, ac);
  v3_sub(from, corner, ray->p);
  v3_addscl(from, ray->v, -x);
  num length = v3_norm(N), slope = v3_dot(N, ray->v), along = v3_dot(N, n_bar) / (length * length);

  // Of a corner, with the two that follow: z x (next - after).
  for (int k = 0; k < 3; k++) {
    v3_sub(edge, corner + 3 * ((k + 1) % 3), corner + 3 * ((k + 2) % 3));
    num rate[3] = {-edge[1], edge[0], 0};
    num dx = (v3_dot(rate, from) + (k ? 0 : N[2])) / slope;
    num dn = (v3_dot(rate, n_bar) - along * v3_dot(rate, N)) / length;
    height_bar[height[k]] += rise * (x_bar * dx + dn);
  }
}
#endif

static void turn(lane out[3], const num *R, const lane in[3]) {
  for (int k = 0; k < 3; k++) out[k] = R[3 * k] * in[0] + R[3 * k + 1] * in[1] + R[3 * k + 2] * in[2];
}

// Both move with the frame of the site or camera.
static void pull_beam(LANE(pbAdjoint) *a, const NUM(pbBeam) *beam, const ray_bar *bar, frame_bar *s) {
  num arm[3];
  for (int k = 0; k < 3; k++) {
    arm[k] = beam->origin[k] - s->f.pos[k];
    s->force[k] = bar->origin[k];
  }

  PB_ADDCROSS(s->torque, 1, arm, bar->origin);
  PB_ADDCROSS(s->torque, 1, beam->direction, bar->direction);
  frame_bar_done(a, s);
}

// Of nothing that is met the origin alone has a cotangent.
static void pull_miss(LANE(pbAdjoint) *a, int data, const NUM(pbBeam) *beam, const lane *bar, frame_bar *s) {
  ray_bar own;
  memset(&own, 0, sizeof own);
  if (!(data & pb_rayOrigin)) return;

  // Behind what comes first.
  bar += (data & pb_rayDist ? 1 : 0) + (data & pb_rayDir ? 3 : 0);
  memcpy(own.origin, bar, sizeof own.origin);
  pull_beam(a, beam, &own, s);
}

static void pull_ray(LANE(pbAdjoint) *a, int sensor, int index, const lane *bar) {
  const NUM(pbMechanism) *w = a->w;
  int data = w->m->sensor_intprm[3 * sensor];
  frame_bar s, g;
  NUM(pbBeam) beam;
  pbRayHit hit;
  NUM(pbRay_Beam)(w, sensor, index, &beam);
  NUM(pbRay_Cast)(w, &beam, &hit);
  frame_bar_at(a, w->m->sensor_objtype[sensor], w->m->sensor_objid[sensor], &s);
  if (hit.geom < 0) {
    pull_miss(a, data, &beam, bar, &s);
    return;
  }

  const num *R = w->geom_xmat + 9 * hit.geom;
  num x, local[3], normal[3], arm[3];
  NUM(pbLocalRay) ray;
  pbRayJacobian J;
  frame_bar_at(a, pb_refGeom, hit.geom, &g);
  NUM(pbRay_ToGeom)(w, &beam, hit.geom, &ray);
  NUM(pbRay_Meet)(w, &ray, &hit, &x, local);
  NUM(pbRay_Jacobian)(&hit.feature, w->p.geom_size + 3 * hit.geom, ray.p, ray.v, &J);
  m3_mulv(normal, R, local);
  v3_sub(arm, beam.origin, g.f.pos);

  // p = R' (origin - center), v = R' direction, normal = R n
  ray_bar own;
  lane n_bar[3], in[9], p_bar[3], v_bar[3];
  gather(data, &beam, x, bar, &own);
  for (int k = 0; k < 3; k++) n_bar[k] = R[k] * own.normal[0] + R[3 + k] * own.normal[1] + R[6 + k] * own.normal[2];
  pull_local(&J, &ray, &own, n_bar, in);
  turn(p_bar, R, in);
  turn(v_bar, R, in + 3);
  for (int k = 0; k < 3; k++) {
    g.force[k] = -p_bar[k];
    own.origin[k] += p_bar[k];
    own.direction[k] += v_bar[k];
  }
  PB_ADDCROSS(g.torque, -1, arm, p_bar);
  PB_ADDCROSS(g.torque, -1, beam.direction, v_bar);
  PB_ADDCROSS(g.torque, 1, normal, own.normal);

  for (int k = 0; k < 3; k++) PB_THETA(a, geom_size, 3 * hit.geom + k, in[6 + k]);
  pull_beam(a, &beam, &own, &s);
  frame_bar_done(a, &g);
#if PB_LANES == 1
  pull_mesh(a, &hit, &ray, in, n_bar);
  pull_hills(a, &hit, &ray, x, own.x, n_bar);
#endif
}

static void pull(LANE(pbAdjoint) *a, int sensor, const lane *bar) {
  int count = NUM(pbRay_Count)(a->w->m, sensor), size = a->w->m->sensor_dim[sensor] / count;
  for (int i = 0; i < count; i++, bar += size) {
    if (!is_zero(bar, size)) pull_ray(a, sensor, i, bar);
  }
}
PB_SENSOR_PULL(rangefinder, pull);
#endif
