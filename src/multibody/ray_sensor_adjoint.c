// Gradients of rangefinders: the part of the surface that is met stays the same; the ray moves with its site, the surface
// with its geom and its sizes. Primal: ray_sensor.c; tests: tests/oracle/test_rays.py.
#include "base/assert.h"
#include "multibody/ray_sensor.h"
#include "multibody/sensor_adjoint.h"

// Cotangents of what a rangefinder may write.
typedef struct ray_bar {
  lane x, direction[3], origin[3], normal[3];
} ray_bar;

static void take3(lane to[3], const lane **bar, bool there) {
  if (!there) return;
  for (int k = 0; k < 3; k++) to[k] += *(*bar)++;
}

// The point is origin + x direction; the depth is x.
static void gather(int data, const double direction[3], double x, const lane *bar, ray_bar *out) {
  lane point[3] = {0};
  memset(out, 0, sizeof *out);
  if (data & pb_rayDist) out->x += *bar++;
  take3(out->direction, &bar, data & pb_rayDir);
  take3(out->origin, &bar, data & pb_rayOrigin);
  take3(point, &bar, data & pb_rayPoint);
  take3(out->normal, &bar, data & pb_rayNormal);
  if (data & pb_rayDepth) out->x += *bar++;

  out->x += PB_DOT3(direction, point);
  for (int k = 0; k < 3; k++) {
    out->direction[k] += x * point[k];
    out->origin[k] += point[k];
  }
}

// Of the value in the geom's frame to p, v (in world axes) and sizes.
static void pull_local(const pbRayJacobian *J, const double *R, const ray_bar *bar, lane p[3], lane v[3], lane size[3]) {
  lane in[9], n[3];
  for (int k = 0; k < 3; k++) n[k] = R[k] * bar->normal[0] + R[3 + k] * bar->normal[1] + R[6 + k] * bar->normal[2];
  for (int c = 0; c < 9; c++) in[c] = J->d[0][c] * bar->x + J->d[1][c] * n[0] + J->d[2][c] * n[1] + J->d[3][c] * n[2];

  for (int k = 0; k < 3; k++) {
    p[k] = R[3 * k] * in[0] + R[3 * k + 1] * in[1] + R[3 * k + 2] * in[2];
    v[k] = R[3 * k] * in[3] + R[3 * k + 1] * in[4] + R[3 * k + 2] * in[5];
    size[k] = in[6 + k];
  }
}

void LANE(pbRay_Adjoint)(LANE(pbAdjoint) *a, int sensor, const lane *bar) {
  const NUM(pbWork) *w = a->w;
  int site = w->m->sensor_objid[sensor], data = w->m->sensor_intprm[3 * sensor];
  frame_bar s, g;
  ray_bar own;
  pbRayHit hit;
  NUM(pbRay_Cast)(w, site, &hit);
  frame_bar_at(a, pb_refSite, site, &s);

  // Of nothing that is met the origin alone.
  if (hit.geom < 0) {
    const double none[3] = {0};
    bool distance = data & pb_rayDist;
    const lane *origin = bar + distance + (data & pb_rayDir ? 3 : 0);
    gather(data & pb_rayOrigin, none, 0, origin, &own);
    memcpy(s.force, own.origin, sizeof s.force);
    frame_bar_done(a, &s);
    return;
  }

  double p[3], v[3], x, n[3], direction[3], arm[3];
  const double *size = w->p.geom_size + 3 * hit.geom;
  pbRayJacobian J;
  frame_bar_at(a, pb_refGeom, hit.geom, &g);
  NUM(pbRay_ToGeom)(w, site, hit.geom, p, v);
  NUM(pbRay_At)(&hit.feature, size, p, v, &x, n);
  NUM(pbRay_Jacobian)(&hit.feature, size, p, v, &J);

  // p = R' (origin - center), v = R' direction, normal = R n
  lane p_bar[3], v_bar[3], size_bar[3];
  for (int k = 0; k < 3; k++) direction[k] = s.f.mat[3 * k + 2];
  gather(data, direction, x, bar, &own);
  pull_local(&J, g.f.mat, &own, p_bar, v_bar, size_bar);
  double normal[3];
  for (int k = 0; k < 3; k++) {
    normal[k] = g.f.mat[3 * k] * n[0] + g.f.mat[3 * k + 1] * n[1] + g.f.mat[3 * k + 2] * n[2];
    arm[k] = s.f.pos[k] - g.f.pos[k];
    g.force[k] = -p_bar[k];
    s.force[k] = own.origin[k] + p_bar[k];
    own.direction[k] += v_bar[k];
  }
  PB_ADDCROSS(g.torque, -1, arm, p_bar);
  PB_ADDCROSS(g.torque, -1, direction, v_bar);
  PB_ADDCROSS(g.torque, 1, normal, own.normal);
  PB_ADDCROSS(s.torque, 1, direction, own.direction);

  for (int k = 0; k < 3; k++) PB_THETA(a, geom_size, 3 * hit.geom + k, size_bar[k]);
  frame_bar_done(a, &s);
  frame_bar_done(a, &g);
}
