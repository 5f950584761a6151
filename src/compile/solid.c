// Volume, center, inertia and principal axes of what triangles bound, by the formulas of a tetrahedron (Tonon, Explicit exact
// formulas for the 3-D tetrahedron inertia tensor, 2004); below, their derivatives.
// Tests: tests/oracle/test_solids.py, tests/oracle/test_mesh_contact.py.
#include <pullback/solid.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "math/vec.h"
#include "multibody/spatial.h"

#define LEAST_MEASURE 1e-15  // m^2, m^3: less is an error, as in MuJoCo

// Entries of symmetric matrices: xx yy zz xy xz yz.
static const int row_of[6] = {0, 1, 2, 0, 0, 1}, column_of[6] = {0, 1, 2, 1, 2, 2};

pbMeshSolid pbMeshSolid_Default(void) {
  return (pbMeshSolid){.scale = {1, 1, 1}, .refquat = {1, 0, 0, 0}, .inertia = pb_meshInertiaLegacy};
}

// The surface that is weighed, moved points, and what the derivative needs again.
typedef struct surface {
  const pbMeshSolid *solid;
  pbHull *hull;
  int count;
  const int *triangle;
  bool shell, absolute;
  double *x;                       // moved points
  double quat[4], R[9];            // refquat, of unit length
  double area, centroid[3];        // of the triangles
  double first_volume, center[3];  // by pyramids about the centroid
} surface;

// ---- input ------------------------------------------------------------------------------------------------------------
static pbStatus check_solid(pbContext *ctx, const pbMeshSolid *s) {
  for (int i = 0; i < 3 * s->points; i++) {
    if (!isfinite(s->point[i])) return pbContext_Fail(ctx, pb_bad_argument, "point %d of the mesh is not finite", i / 3);
  }

  for (int i = 0; i < 3 * s->triangles; i++) {
    if (s->triangle[i] >= 0 && s->triangle[i] < s->points) continue;
    return pbContext_Fail(ctx, pb_bad_argument, "triangle %d of the mesh has point %d, but there are %d points", i / 3,
                          s->triangle[i], s->points);
  }

  for (int k = 0; k < 3; k++) {
    if (!isfinite(s->scale[k]) || !isfinite(s->refpos[k]))
      return pbContext_Fail(ctx, pb_bad_argument, "scale or refpos of the mesh is not finite");
  }
  return pb_ok;
}

static void move_points(surface *f) {
  const pbMeshSolid *s = f->solid;
  double y[3];

  for (int i = 0; i < s->points; i++) {
    v3_sub(y, s->point + 3 * i, s->refpos);
    m3_tmulv(y, f->R, y);
    for (int k = 0; k < 3; k++) f->x[3 * i + k] = s->scale[k] * y[k];
  }
}

static void close_surface(pbContext *ctx, surface *f) {
  pbHull_Destroy(f->hull);
  pbContext_Free(ctx, f->x);
}

// Where this fails the caller closes what there is.
static pbStatus open_surface(pbContext *ctx, const pbMeshSolid *s, surface *f) {
  *f = (surface){.solid = s, .shell = s->inertia == pb_meshInertiaShell, .absolute = s->inertia == pb_meshInertiaLegacy};
  PB_TRY(check_solid(ctx, s));

  memcpy(f->quat, s->refquat, sizeof f->quat);
  if (!(pbPose_Normalize(f->quat, 4) > 0)) return pbContext_Fail(ctx, pb_bad_argument, "refquat of the mesh has no length");
  quat_to_mat(f->R, f->quat);

  // Without triangles they are those of the hull, too.
  f->count = s->triangles;
  f->triangle = s->triangle;
  if (s->inertia == pb_meshInertiaConvex || !s->triangles) {
    PB_TRY(pbHull_Create(ctx, s->point, s->points, s->most, &f->hull));
    f->count = f->hull->triangles;
    f->triangle = f->hull->triangle;
  }

  f->x = pbContext_AllocArray(ctx, 3 * (size_t)s->points, sizeof *f->x);
  if (!f->x) return pbContext_Fail(ctx, pb_no_memory, "no memory for the points of a mesh");
  move_points(f);
  return pb_ok;
}

// ---- triangles --------------------------------------------------------------------------------------------------------
// Corners relative to an apex.
static void corners(const surface *f, int t, const double apex[3], double c[3][3]) {
  for (int k = 0; k < 3; k++) v3_sub(c[k], f->x + 3 * f->triangle[3 * t + k], apex);
}

// Twice its area along its normal.
static void normal_of(double c[3][3], double n[3]) {
  double u[3], v[3];
  v3_sub(u, c[1], c[0]);
  v3_sub(v, c[2], c[0]);
  v3_cross(n, u, v);
}

static double area_of(double c[3][3]) {
  double n[3];
  normal_of(c, n);
  return v3_norm(n) / 2;
}

// Mirrored: seen from outside, the corners go round the other way.
static double turn_of(const surface *f) {
  const double *s = f->solid->scale;
  return s[0] * s[1] * s[2] > 0 ? 1 : -1;
}

// Volume of the pyramid over a triangle whose corners are given from its apex; of shells its area.
static double measure_of(const surface *f, double c[3][3]) {
  if (f->shell) return area_of(c);

  double n[3];
  v3_cross(n, c[1], c[2]);
  double volume = turn_of(f) * v3_dot(c[0], n) / 6;
  return f->absolute ? fabs(volume) : volume;
}

static void middle_of(double c[3][3], double m[3]) {
  for (int k = 0; k < 3; k++) m[k] = (c[0][k] + c[1][k] + c[2][k]) / 3;
}

// ---- sums -------------------------------------------------------------------------------------------------------------
static const double origin[3];

static void sum_areas(surface *f) {
  double c[3][3], m[3];

  // First moments, then their mean.
  for (int t = 0; t < f->count; t++) {
    corners(f, t, origin, c);
    middle_of(c, m);
    double area = area_of(c);
    f->area += area;
    v3_addscl(f->centroid, m, area);
  }
  if (f->area > 0) v3_scale(f->centroid, f->centroid, 1 / f->area);
}

// The center of a pyramid is three quarters of the way from its apex to the middle of its base; MuJoCo takes the same for shells,
// whose centroid is the apex.
static void sum_volumes(surface *f) {
  double c[3][3], m[3], sum[3] = {0};
  PB_ASSERT(f->area >= 0);

  for (int t = 0; t < f->count; t++) {
    corners(f, t, f->centroid, c);
    middle_of(c, m);
    double measure = measure_of(f, c);
    f->first_volume += measure;
    v3_addscl(sum, m, 0.75 * measure);
  }

  memcpy(f->center, f->centroid, sizeof f->center);
  if (f->first_volume > 0) v3_addscl(f->center, sum, 1 / f->first_volume);
}

// Integrals of x_i x_j over tetrahedra with a corner at the center, or over triangles.
static void sum_products(const surface *f, double *volume, double products[6]) {
  double c[3][3], s[3];

  // Each is a sum over the corners and their sum (Tonon, section 3).
  for (int t = 0; t < f->count; t++) {
    corners(f, t, f->center, c);
    double measure = measure_of(f, c), share = measure / (f->shell ? 12 : 20);
    for (int k = 0; k < 3; k++) s[k] = c[0][k] + c[1][k] + c[2][k];

    *volume += measure;
    for (int e = 0; e < 6; e++) {
      int i = row_of[e], j = column_of[e];
      products[e] += share * (s[i] * s[j] + c[0][i] * c[0][j] + c[1][i] * c[1][j] + c[2][i] * c[2][j]);
    }
  }
}

// ---- orientation ------------------------------------------------------------------------------------------------------
typedef struct walk {
  int from, to, triangle;
} walk;

static int compare_walks(const void *a, const void *b) {
  const walk *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->to < y->to ? -1 : x->to > y->to;
}

// Signed volumes need neighbours that walk their common edge in opposite directions; slivers do not count.
static pbStatus check_orientation(pbContext *ctx, const surface *f) {
  walk *all = pbContext_AllocArray(ctx, 3 * (size_t)f->count + 1, sizeof *all);
  if (!all) return pbContext_Fail(ctx, pb_no_memory, "no memory for the edges of a mesh");

  // Every triangle walks its three edges.
  double c[3][3];
  int n = 0;
  for (int t = 0; t < f->count; t++) {
    corners(f, t, origin, c);
    if (!(area_of(c) > sqrt(LEAST_MEASURE))) continue;
    const int *v = f->triangle + 3 * t;
    for (int k = 0; k < 3; k++) all[n++] = (walk){v[k], v[(k + 1) % 3], t};
  }

  // An edge that is walked twice in one direction stands beside itself.
  PB_ASSERT(n <= 3 * f->count);
  qsort(all, (size_t)n, sizeof *all, compare_walks);
  pbStatus status = pb_ok;
  for (int i = 1; i < n && status == pb_ok; i++) {
    if (compare_walks(&all[i - 1], &all[i]) != 0) continue;
    status =
        pbContext_Fail(ctx, pb_bad_input, "triangles %d and %d of the mesh are oriented against each other at their edge %d-%d",
                       all[i - 1].triangle, all[i].triangle, all[i].from, all[i].to);
  }

  pbContext_Free(ctx, all);
  return status;
}

// ---- properties -------------------------------------------------------------------------------------------------------
static pbStatus check_measure(pbContext *ctx, const surface *f) {
  if (f->area < LEAST_MEASURE) return pbContext_Fail(ctx, pb_bad_input, "the surface of the mesh is too small (%g m^2)", f->area);
  if (f->first_volume >= LEAST_MEASURE) return pb_ok;

  if (f->first_volume < 0)
    return pbContext_Fail(ctx, pb_bad_input, "the volume of the mesh is negative (%g m^3): its triangles face inwards",
                          f->first_volume);
  return pbContext_Fail(ctx, pb_bad_input, "the volume of the mesh is too small (%g m^3); inertia \"shell\" weighs its surface",
                        f->first_volume);
}

static pbStatus check_moments(pbContext *ctx, const double I[3]) {
  const double relative = 1e-6, absolute = 1e-9;
  if (!(I[2] > 0)) return pbContext_Fail(ctx, pb_bad_input, "the mesh has a moment of inertia that is not positive (%g)", I[2]);
  if (I[1] + I[2] >= I[0] * (1 - relative) - absolute) return pb_ok;

  return pbContext_Fail(ctx, pb_bad_input, "the mesh has moments of inertia that no body has: %g + %g < %g", I[1], I[2], I[0]);
}

static pbStatus measure(pbContext *ctx, surface *f, pbMeshProperties *p) {
  double products[6] = {0};
  *p = (pbMeshProperties){0};
  if (f->solid->inertia == pb_meshInertiaExact) PB_TRY(check_orientation(ctx, f));

  // Each needs the sum before it.
  sum_areas(f);
  sum_volumes(f);
  PB_TRY(check_measure(ctx, f));
  sum_products(f, &p->volume, products);

  // Moments from products.
  memcpy(p->center, f->center, sizeof p->center);
  double trace = products[0] + products[1] + products[2];
  for (int e = 0; e < 6; e++) p->tensor[e] = (e < 3 ? trace : 0) - products[e];
  pbPose_PrincipalOfMesh(p->tensor, p->quat, p->moments);

  return check_moments(ctx, p->moments);
}

pbStatus pbMesh_Properties(pbContext *ctx, const pbMeshSolid *solid, pbMeshProperties *properties) {
  surface f;
  pbMeshProperties found;
  pbStatus status = open_surface(ctx, solid, &f);
  if (status == pb_ok) status = measure(ctx, &f, &found);
  close_surface(ctx, &f);

  if (status == pb_ok) *properties = found;
  return status;
}

// ---- derivative -------------------------------------------------------------------------------------------------------
// Principal axes and moments are functions of the tensor: R' dI R = d moments + [r] moments - moments [r].
static pbStatus principal_adjoint(pbContext *ctx, const pbMeshProperties *p, const pbMeshPropertiesBar *bar, double tensor[6]) {
  double R[9], G[9] = {0}, GR[9];
  PB_VALIDATE(pb_isUnit(p->quat, 4));
  quat_to_mat(R, p->quat);

  // In the principal frame.

  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    G[4 * i] = bar->moments[i];
    if (bar->rotation[i] == 0) continue;

    double gap = p->moments[j] - p->moments[k];
    if (fabs(gap) <= PB_SAME_MOMENTS * p->moments[0])
      return pbContext_Fail(ctx, pb_singular,
                            "principal moments %d and %d of the mesh are the same: their axes have no derivative", j, k);
    G[3 * j + k] = G[3 * k + j] = bar->rotation[i] / (2 * gap);
  }

  // R G R', whose entries beside the diagonal stand twice in the tensor.
  m3_mult(GR, G, R);
  m3_mul(G, R, GR);
  for (int e = 0; e < 6; e++) tensor[e] = bar->tensor[e] + (e < 3 ? 1 : 2) * G[3 * row_of[e] + column_of[e]];
  return pb_ok;
}

static void area_adjoint(double c[3][3], double bar, double c_bar[3][3]) {
  double n[3], edge[3];
  normal_of(c, n);
  double twice = v3_norm(n);
  if (!(twice > 0)) return;

  // A corner moves the area by its height over the edge across.
  v3_scale(n, n, bar / (2 * twice));
  for (int k = 0; k < 3; k++) {
    v3_sub(edge, c[(k + 1) % 3], c[(k + 2) % 3]);
    v3_addcross(c_bar[k], edge, n);
  }
}

// Of measure_of, by the corners.
static void measure_adjoint(const surface *f, double c[3][3], double bar, double c_bar[3][3]) {
  // Of shells it is the area.
  if (f->shell) {
    area_adjoint(c, bar, c_bar);
    return;
  }

  // A determinant: linear in each corner.
  double n[3], sign = turn_of(f);
  v3_cross(n, c[1], c[2]);
  if (f->absolute && sign * v3_dot(c[0], n) < 0) sign = -sign;
  for (int k = 0; k < 3; k++) {
    v3_cross(n, c[(k + 1) % 3], c[(k + 2) % 3]);
    v3_addscl(c_bar[k], n, sign * bar / 6);
  }
}

// Cotangents of corners relative to an apex go to the points and, with the opposite sign, to the apex.
static void corners_adjoint(const surface *f, int t, double c_bar[3][3], double *x_bar, double apex_bar[3]) {
  // apex_bar NULL: the apex does not count.
  for (int k = 0; k < 3; k++) {
    v3_addto(x_bar + 3 * f->triangle[3 * t + k], c_bar[k]);
    if (apex_bar) v3_subfrom(apex_bar, c_bar[k]);
  }
}

// Of sum_products: A has the cotangents of the products as a symmetric matrix.
static void products_adjoint(const surface *f, double volume_bar, const double A[9], double *x_bar, double center_bar[3]) {
  double c[3][3], s[3], As[3], Ac[3];

  for (int t = 0; t < f->count; t++) {
    corners(f, t, f->center, c);
    double fraction = f->shell ? 1. / 12 : 1. / 20, share = measure_of(f, c) * fraction, c_bar[3][3] = {{0}};
    for (int k = 0; k < 3; k++) s[k] = c[0][k] + c[1][k] + c[2][k];

    // The sum's slope goes to every corner.
    m3_mulv(As, A, s);
    double quadratic = v3_dot(s, As);
    for (int k = 0; k < 3; k++) {
      m3_mulv(Ac, A, c[k]);
      quadratic += v3_dot(c[k], Ac);
      v3_addto(Ac, As);
      v3_addscl(c_bar[k], Ac, 2 * share);
    }

    measure_adjoint(f, c, volume_bar + fraction * quadratic, c_bar);
    corners_adjoint(f, t, c_bar, x_bar, center_bar);
  }
}

// Of sum_volumes: center = centroid + sum / volume.
static void volumes_adjoint(const surface *f, const double center_bar[3], double *x_bar, double centroid_bar[3]) {
  double c[3][3], m[3], sum_bar[3], offset[3];
  v3_sub(offset, f->center, f->centroid);
  v3_scale(sum_bar, center_bar, 1 / f->first_volume);
  v3_addto(centroid_bar, center_bar);

  for (int t = 0; t < f->count; t++) {
    double c_bar[3][3] = {{0}};
    corners(f, t, f->centroid, c);
    middle_of(c, m);

    double weight = 0.75 * measure_of(f, c);
    for (int k = 0; k < 3; k++) v3_addscl(c_bar[k], sum_bar, weight / 3);
    measure_adjoint(f, c, 0.75 * v3_dot(sum_bar, m) - v3_dot(sum_bar, offset), c_bar);
    corners_adjoint(f, t, c_bar, x_bar, centroid_bar);
  }
}

// Of sum_areas.
static void areas_adjoint(const surface *f, const double centroid_bar[3], double *x_bar) {
  double c[3][3], m[3], sum_bar[3];
  v3_scale(sum_bar, centroid_bar, 1 / f->area);

  for (int t = 0; t < f->count; t++) {
    double c_bar[3][3] = {{0}};
    corners(f, t, f->centroid, c);
    middle_of(c, m);

    double area = area_of(c);
    for (int k = 0; k < 3; k++) v3_addscl(c_bar[k], sum_bar, area / 3);
    area_adjoint(c, v3_dot(sum_bar, m), c_bar);
    corners_adjoint(f, t, c_bar, x_bar, NULL);
  }
}

// Of move_points: x = scale R' (point - refpos).
static void points_adjoint(const surface *f, const double *x_bar, pbMeshSolidBar *g) {
  const pbMeshSolid *s = f->solid;
  double y[3], y_bar[3], z_bar[3], torque[3] = {0}, quat_bar[4] = {0}, radial = 0;

  for (int i = 0; i < s->points; i++) {
    v3_sub(y, s->point + 3 * i, s->refpos);
    m3_tmulv(y, f->R, y);
    for (int k = 0; k < 3; k++) {
      g->scale[k] += x_bar[3 * i + k] * y[k];
      y_bar[k] = x_bar[3 * i + k] * s->scale[k];
    }

    // A rotation t in refquat's own axes moves y by y x t.
    v3_addcross(torque, y_bar, y);
    m3_mulv(z_bar, f->R, y_bar);
    if (g->point) v3_addto(g->point + 3 * i, z_bar);
    v3_subfrom(g->refpos, z_bar);
  }

  // By refquat as it was stated, of any length.
  pb_quat_pull(quat_bar, f->quat, torque);
  double length = quat_norm(s->refquat);
  for (int k = 0; k < 4; k++) radial += quat_bar[k] * f->quat[k];
  for (int k = 0; k < 4; k++) g->refquat[k] += (quat_bar[k] - radial * f->quat[k]) / length;
}

static pbStatus pull(pbContext *ctx, surface *f, const pbMeshPropertiesBar *bar, double *x_bar, pbMeshSolidBar *gradient) {
  pbMeshProperties p;
  double tensor[6], A[9], center_bar[3], centroid_bar[3] = {0};
  PB_TRY(measure(ctx, f, &p));
  PB_TRY(principal_adjoint(ctx, &p, bar, tensor));

  // tensor = trace(products) 1 - products
  double trace = tensor[0] + tensor[1] + tensor[2];
  for (int e = 0; e < 6; e++) {
    double entry = e < 3 ? trace - tensor[e] : -tensor[e] / 2;
    A[3 * row_of[e] + column_of[e]] = A[3 * column_of[e] + row_of[e]] = entry;
  }

  // Back through the sums, last first.
  memcpy(center_bar, bar->center, sizeof center_bar);
  products_adjoint(f, bar->volume, A, x_bar, center_bar);
  volumes_adjoint(f, center_bar, x_bar, centroid_bar);
  areas_adjoint(f, centroid_bar, x_bar);
  points_adjoint(f, x_bar, gradient);
  return pb_ok;
}

pbStatus pbMesh_PropertiesVjp(pbContext *ctx, const pbMeshSolid *solid, const pbMeshPropertiesBar *bar,
                              pbMeshSolidBar *gradient) {
  // By the moved points, then by what moves them.
  surface f;
  double *x_bar = pbContext_AllocArray(ctx, 3 * (size_t)solid->points + 1, sizeof *x_bar);
  if (!x_bar) return pbContext_Fail(ctx, pb_no_memory, "no memory for the points of a mesh");
  memset(x_bar, 0, 3 * (size_t)solid->points * sizeof *x_bar);

  pbStatus status = open_surface(ctx, solid, &f);
  if (status == pb_ok) status = pull(ctx, &f, bar, x_bar, gradient);
  close_surface(ctx, &f);
  pbContext_Free(ctx, x_bar);
  return status;
}
