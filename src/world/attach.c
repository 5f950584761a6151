// Points of deformables on bodies, and geoms as surfaces that they meet.
// Tests: tests/unit/test_deform.c.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "deform/deformable.h"
#include "elementary/elementary.h"
#include "eval/stages.h"
#include "math/vec.h"
#include "model/exposed.h"
#include "model/topology.h"
#include "step/scratch.h"

// ---- surfaces of geoms ----------------------------------------------------------------------------------------------------
// Points in units of the geom's sizes (size: which of them for each axis), and triangles or edges between them.
typedef struct shape {
  int points, triangles, edges;
  double local[64 * 3];
  int triangle[128 * 3], edge[12 * 2], size[3];
} shape;

static int add_local(shape *s, double x, double y, double z) {
  // Behind those there
  PB_ASSERT(3 * s->points < (int)(sizeof s->local / sizeof *s->local));
  double *p = s->local + 3 * s->points;
  p[0] = x;
  p[1] = y;
  p[2] = z;
  return s->points++;
}

static void add_triangle(shape *s, int a, int b, int c) {
  PB_ASSERT(3 * s->triangles < (int)(sizeof s->triangle / sizeof *s->triangle));
  PB_ASSERT(a >= 0 && b >= 0 && c >= 0 && a != b && b != c && c != a);
  int *t = s->triangle + 3 * s->triangles++;
  t[0] = a;
  t[1] = b;
  t[2] = c;
}

static void make_box(shape *s) {
  // Corner i has the signs of the bits of i; faces counterclockwise from outside.
  static const int face[6][4] = {{0, 2, 3, 1}, {4, 5, 7, 6}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 4, 6, 2}, {1, 3, 7, 5}};
  for (int i = 0; i < 8; i++) add_local(s, i & 1 ? 1 : -1, i & 2 ? 1 : -1, i & 4 ? 1 : -1);
  for (int f = 0; f < 6; f++) {
    add_triangle(s, face[f][0], face[f][1], face[f][2]);
    add_triangle(s, face[f][0], face[f][2], face[f][3]);
  }
}

enum { around = 12 };  // points of a ring

// Every other ring is turned by half the angle between its points.
static void add_ring(shape *s, int ring, double radius, double height) {
  for (int i = 0; i < around; i++) {
    double angle = 2 * PB_PI * (i + 0.5 * (ring % 2)) / around;
    add_local(s, radius * pbCos(angle), radius * pbSin(angle), height);
  }
}

// Two triangles between points i and next of a ring and of the one above it; diagonals alternate with the rings.
static void add_side(shape *s, int start, int ring, int i, int next) {
  int a = start + ring * around + i;
  int b = start + ring * around + next;
  int above_a = a + around;
  int above_b = b + around;

  if (ring % 2) {
    add_triangle(s, a, b, above_b);
    add_triangle(s, a, above_b, above_a);
  } else {
    add_triangle(s, a, b, above_a);
    add_triangle(s, b, above_b, above_a);
  }
}

// A solid of revolution about z: rings at these radii and heights, closed by a pole at each end.
static void revolve(shape *s, int rings, const double *radius, const double *height, double top) {
  int bottom_pole = add_local(s, 0, 0, -top);
  int start = s->points;

  for (int r = 0; r < rings; r++) add_ring(s, r, radius[r], height[r]);
  int top_pole = add_local(s, 0, 0, top);
  // The ring at the top
  int last = start + (rings - 1) * around;

  for (int i = 0; i < around; i++) {
    // Fans at the poles, a band between each two rings
    int next = (i + 1) % around;
    add_triangle(s, bottom_pole, start + next, start + i);
    add_triangle(s, top_pole, last + i, last + next);
    for (int r = 0; r + 1 < rings; r++) add_side(s, start, r, i, next);
  }
}

// The plane's own sizes may be zero, so its points are in meters.
static void make_plane(shape *s) {
  for (int k = 0; k < 3; k++) s->size[k] = -1;
  add_local(s, 0, 0, 0);
  add_local(s, 1, 0, 0);
  add_local(s, 0, 1, 0);
}

// A segment, thick by its radius. Sizes: radius, half length.
static void make_capsule(shape *s) {
  s->size[2] = 1;
  s->edge[0] = add_local(s, 0, 0, -1);
  s->edge[1] = add_local(s, 0, 0, 1);
  s->edges = 1;
}

// Sizes: radius, half height.
static void make_cylinder(shape *s) {
  s->size[1] = 0;
  s->size[2] = 1;
  revolve(s, 2, (double[]){1, 1}, (double[]){-1, 1}, 1);
}

// Rings at 30 degrees of latitude and the equator.
static void make_ellipsoid(shape *s) {
  static const double radius[3] = {0.8660254037844386, 1, 0.8660254037844386};
  static const double height[3] = {-0.5, 0, 0.5};
  revolve(s, 3, radius, height, 1);
}

static bool make_shape(int type, shape *s) {
  *s = (shape){.size = {0, 1, 2}};
  switch (type) {
    case pb_geomPlane: make_plane(s); return true;
    case pb_geomSphere: add_local(s, 0, 0, 0); return true;
    case pb_geomCapsule: make_capsule(s); return true;
    case pb_geomBox: make_box(s); return true;
    case pb_geomCylinder: make_cylinder(s); return true;
    case pb_geomEllipsoid: make_ellipsoid(s); return true;
    default: return false;
  }
}

// ---- attaching --------------------------------------------------------------------------------------------------------------
// One of the points there, where it is in the reference configuration, which w holds.
static pbStatus attach_point(pbDeformable *d, const pbWork_r *w, const char *name, int body, int point) {
  if (point < 0 || point >= d->npoint)
    return pbContext_Fail(d->ctx, pb_bad_argument, "point %d cannot be attached to a body: expected one of %d points", point,
                          d->npoint);

  // Local coordinates R' (x - t)
  pbAttachmentDef a = {.point = point, .geom = -1, .body = (char *)(uintptr_t)name};
  double offset[3];
  int number;
  v3_sub(offset, d->start + 3 * point, w->xpos + 3 * body);
  m3_tmulv(a.local, w->xmat + 9 * body, offset);
  return pbDeformable_AddAttachment(d, &a, &number);
}

pbStatus pbDeformable_AttachPoints(pbDeformable *d, const pbModel *m, const char *body, int count, const int *points) {
  int b = strcmp(body, "world") ? pbModel_Id(m, pb_objBody, body) : 0;
  pbScratch *s;

  if (b < 0) return pbContext_Fail(d->ctx, pb_bad_input, "the model has no body '%.100s'", body);
  // Kinematics needs an evaluation, for this call alone.
  PB_TRY(pbScratch_Create(d->ctx, m, NULL, &s));

  // Where the bodies are in the reference configuration
  pbStatus status = pbState_Init(d->ctx, m, m->theta0, -1, s->state);
  if (status == pb_ok) {
    pbScratch_Load(s, m->theta0, s->state, NULL);
    pbStage_Kinematics_r(&s->w.mechanism);
    pbStage_AllGeoms_r(&s->w.mechanism);
  }

  for (int i = 0; i < count && status == pb_ok; i++) status = attach_point(d, &s->w, body, b, points[i]);
  pbScratch_Destroy(s);
  return status;
}

// The shape's points become new ones, attached to the geom; corners: their numbers.
static pbStatus add_points(pbDeformable *d, const pbModel *m, int geom, const shape *s, int *corners) {
  const char *body = pbModel_Name(m, pb_objBody, m->geom_bodyid[geom]);

  for (int i = 0; i < s->points; i++) {
    pbAttachmentDef a = {.point = -1, .geom = geom, .body = (char *)(uintptr_t)body};
    // Coordinates count in the geom's sizes, so the surface follows them.
    memcpy(a.size, s->size, sizeof a.size);
    memcpy(a.local, s->local + 3 * i, sizeof a.local);
    PB_TRY(pbDeformable_AddAttachment(d, &a, corners + i));
  }

  return pb_ok;
}

// The corners of a mesh's hull with its triangles, which may be many. Corners count in meters.
static pbStatus attach_corners(pbDeformable *d, const pbModel *m, const char *geom, int g, int *triangle, int *number) {
  const pbMeshHull *h = &m->topology->hull[m->geom_dataid[g]];
  const char *body = pbModel_Name(m, pb_objBody, m->geom_bodyid[g]);
  int first = d->npoint, point;
  for (int k = 0; k < 3 * h->triangles; k++) triangle[k] = first + h->triangle[k];

  for (int i = 0; i < h->corners; i++) {
    pbAttachmentDef a = {.point = -1, .geom = g, .body = (char *)(uintptr_t)body, .size = {-1, -1, -1}};
    memcpy(a.local, h->corner + 3 * i, sizeof a.local);
    PB_TRY(pbDeformable_AddAttachment(d, &a, &point));
  }

  pbSurface surface = {.name = geom, .triangles = h->triangles, .triangle = triangle};
  return pbDeformable_AddAnySurface(d, &surface, false, number);
}

static pbStatus attach_hull(pbDeformable *d, const pbModel *m, const char *geom, int g, int *number) {
  int mesh = m->geom_dataid[g];
  if (mesh >= 0 && pb_exposedMesh(m, mesh) >= 0)
    return pbContext_Fail(d->ctx, pb_unsupported, "geom '%.100s': the vertices of its mesh are exposed", geom);
  if (mesh < 0 || !m->topology->hull[mesh].corners)
    return pbContext_Fail(d->ctx, pb_unsupported,
                          "geom '%.100s': its mesh has no convex hull, for nothing of it may touch (contype, conaffinity)", geom);

  int *triangle = pbContext_AllocArray(d->ctx, 3 * (size_t)m->topology->hull[mesh].triangles, sizeof *triangle);
  if (!triangle) return pbContext_Fail(d->ctx, pb_no_memory, "no memory for the surface of geom '%.100s'", geom);
  pbStatus status = attach_corners(d, m, geom, g, triangle, number);
  pbContext_Free(d->ctx, triangle);
  return status;
}

pbStatus pbDeformable_AttachGeom(pbDeformable *d, const pbModel *m, const char *geom, int *number) {
  int g = pbModel_Id(m, pb_objGeom, geom);
  int first = d->npoint;
  int corners[64];
  shape s;

  if (g < 0) return pbContext_Fail(d->ctx, pb_bad_input, "the model has no geom '%.100s'", geom);
  int type = m->geom_type[g];
  if (type == pb_geomMesh) return attach_hull(d, m, geom, g, number);
  if (!make_shape(type, &s))
    return pbContext_Fail(d->ctx, pb_unsupported, "geom '%.100s': a height field as a surface is not supported", geom);

  // From numbers of the shape to those of the points
  PB_TRY(add_points(d, m, g, &s, corners));
  for (int i = 0; i < 3 * s.triangles; i++) s.triangle[i] += first;
  for (int i = 0; i < 2 * s.edges; i++) s.edge[i] += first;

  // Round geoms are their center or axis, with a radius.
  bool round = type == pb_geomSphere || type == pb_geomCapsule;
  bool has_faces = s.triangles || s.edges;
  pbSurface surface = {.name = geom,
                       .triangles = s.triangles,
                       .triangle = s.triangle,
                       .edges = s.edges,
                       .edge = s.edge,
                       .points = has_faces ? 0 : s.points,
                       .point = corners,
                       .radius = round ? m->geom_size[3 * g] : 0};
  return pbDeformable_AddAnySurface(d, &surface, type == pb_geomPlane, number);
}
