// Points of deformables on bodies, and geoms as surfaces that they meet.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "deform/deformable.h"
#include "math/vec.h"
#include "step/scratch.h"

typedef struct shape {
  int points, triangles, edges;
  double local[64 * 3];
  int triangle[128 * 3], edge[12 * 2], size[3];
} shape;

static int add_local(shape *s, double x, double y, double z) {
  double *p = s->local + 3 * s->points;
  p[0] = x, p[1] = y, p[2] = z;
  return s->points++;
}

static void add_triangle(shape *s, int a, int b, int c) {
  int *t = s->triangle + 3 * s->triangles++;
  t[0] = a, t[1] = b, t[2] = c;
}

static void box_shape(shape *s) {
  static const int face[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
  for (int i = 0; i < 8; i++) add_local(s, i & 1 ? 1 : -1, i & 2 ? 1 : -1, i & 4 ? 1 : -1);
  for (int f = 0; f < 6; f++) {
    add_triangle(s, face[f][0], face[f][1], face[f][2]);
    add_triangle(s, face[f][0], face[f][2], face[f][3]);
  }
  for (int k = 0; k < 3; k++) s->size[k] = k;
}

// Rings of 12 points about z: at these radii and heights, closed by a pole at each end.
static void lathe(shape *s, int rings, const double *radius, const double *height, double top) {
  enum { around = 12 };
  int first = add_local(s, 0, 0, -top), start = s->points;
  for (int r = 0; r < rings; r++) {
    for (int i = 0; i < around; i++) {
      double angle = 2 * PB_PI * (i + 0.5 * (r % 2)) / around;
      add_local(s, radius[r] * cos(angle), radius[r] * sin(angle), height[r]);
    }
  }
  int last = add_local(s, 0, 0, top);
  for (int i = 0; i < around; i++) {
    int next = (i + 1) % around, end = start + (rings - 1) * around;
    add_triangle(s, first, start + next, start + i);
    add_triangle(s, last, end + i, end + next);
    for (int r = 0; r + 1 < rings; r++) {
      int a = start + r * around + i, b = start + r * around + next, c = a + around, e = b + around;
      if (r % 2) add_triangle(s, a, b, e), add_triangle(s, a, e, c);
      else add_triangle(s, a, b, c), add_triangle(s, b, e, c);
    }
  }
}

static bool shape_of(int type, shape *s) {
  *s = (shape){.size = {0, 1, 2}};
  switch (type) {
    case pb_geomSphere: add_local(s, 0, 0, 0); return true;
    case pb_geomCapsule:
      s->size[2] = 1;
      s->edge[0] = add_local(s, 0, 0, -1), s->edge[1] = add_local(s, 0, 0, 1);
      s->edges = 1;
      return true;
    case pb_geomBox: box_shape(s); return true;
    case pb_geomCylinder:
      s->size[1] = 0, s->size[2] = 1;
      lathe(s, 2, (double[]){1, 1}, (double[]){-1, 1}, 1);
      return true;
    case pb_geomEllipsoid:
      lathe(s, 3, (double[]){0.8660254037844386, 1, 0.8660254037844386}, (double[]){-0.5, 0, 0.5}, 1);
      return true;
    default: return false;
  }
}

pbStatus pbDeformable_AttachPoints(pbDeformable *d, const pbModel *m, const char *body, int count, const int *points) {
  int b = strcmp(body, "world") ? pbModel_Id(m, pb_objBody, body) : 0, point;
  pbScratch *s;
  if (b < 0) return pbContext_Fail(d->ctx, pb_bad_input, "the model has no body '%.100s'", body);
  PB_TRY(pbScratch_Create(d->ctx, m, NULL, &s));
  pbStatus status = pbState_Init(d->ctx, m, m->theta0, -1, s->state);
  if (status == pb_ok) {
    pbScratch_Load(s, m->theta0, s->state, NULL);
    pbStage_Kinematics_r(&s->w);
  }
  for (int i = 0; status == pb_ok && i < count; i++) {
    pbAttachmentDef r = {.point = points[i], .geom = -1, .body = (char *)(uintptr_t)body};
    double offset[3];
    if (points[i] < 0 || points[i] >= d->npoint) {
      status = pbContext_Fail(d->ctx, pb_bad_argument, "point %d cannot be attached to a body: expected 0 to %d", points[i],
                              d->npoint);
      break;
    }
    v3_sub(offset, d->start + 3 * points[i], s->w.xpos + 3 * b);
    m3_tmulv(r.local, s->w.xmat + 9 * b, offset);
    status = pbDeformable_AddAttachment(d, &r, &point);
  }
  pbScratch_Destroy(s);
  return status;
}

pbStatus pbDeformable_AttachGeom(pbDeformable *d, const pbModel *m, const char *geom, int *number) {
  int g = pbModel_Id(m, pb_objGeom, geom), point;
  shape s;
  if (g < 0) return pbContext_Fail(d->ctx, pb_bad_input, "the model has no geom '%.100s'", geom);
  bool plane = m->geom_type[g] == pb_geomPlane;
  if (!plane && !shape_of(m->geom_type[g], &s))
    return pbContext_Fail(d->ctx, pb_unsupported, "geom '%.100s': a mesh or height field as a surface is not supported", geom);
  if (plane) {
    s = (shape){.size = {-1, -1, -1}};  // a plane's own sizes may be zero
    add_local(&s, 0, 0, 0), add_local(&s, 1, 0, 0), add_local(&s, 0, 1, 0);
  }
  const char *body = pbModel_Name(m, pb_objBody, m->geom_bodyid[g]);
  int first = d->npoint, corners[64];
  for (int i = 0; i < s.points; i++) {
    pbAttachmentDef r = {.point = -1, .geom = g, .body = (char *)(uintptr_t)body, .size = {s.size[0], s.size[1], s.size[2]}};
    memcpy(r.local, s.local + 3 * i, sizeof r.local);
    PB_TRY(pbDeformable_AddAttachment(d, &r, &point));
    corners[i] = point;
  }
  for (int i = 0; i < 3 * s.triangles; i++) s.triangle[i] += first;
  for (int i = 0; i < 2 * s.edges; i++) s.edge[i] += first;
  bool round = m->geom_type[g] == pb_geomSphere || m->geom_type[g] == pb_geomCapsule;
  pbSurface surface = {.name = geom,
                       .triangles = s.triangles,
                       .triangle = s.triangle,
                       .edges = s.edges,
                       .edge = s.edge,
                       .points = s.triangles || s.edges ? 0 : s.points,
                       .point = corners,
                       .radius = round ? m->geom_size[3 * g] : 0};
  return pbDeformable_AddAnySurface(d, &surface, plane, number);
}
