// Derivatives of a design (design.h): pullback, and along a direction.
// Tests: tests/oracle/test_design.py.
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "compile/design_work.h"
#include "math/vec.h"
#include "model/exposed.h"

#define AXES_NOISE 1e-9  // of cotangents that take each other back

typedef pbDesignWork work;

// ---- principal axes ---------------------------------------------------------------------------------------------------
// Of a tensor T with the axes R: a change D, seen along them, changes moments by its diagonal and turns the axes about i by
// D_jk / (I_j - I_k); where these are the same, its entry goes to the products, as it is.
typedef struct axes {
  double R[9], moments[3];
  bool same[3];  // about each axis: the other two moments agree
} axes;

static void fill_matrix(const double tensor[6], double T[9]) {
  for (int e = 0; e < 6; e++) {
    int i = pb_tensorRow[e], j = pb_tensorColumn[e];
    T[3 * i + j] = T[3 * j + i] = tensor[e];
  }
}

static axes axes_of(const double quat[4], const double tensor[6]) {
  axes a;
  double T[9], TR[9], most = 0;
  fill_matrix(tensor, T);
  PB_VALIDATE(pb_isUnit(quat, 4));

  // R' T R
  quat_to_mat(a.R, quat);
  m3_mul(TR, T, a.R);

  // Its diagonal.
  for (int k = 0; k < 3; k++) {
    a.moments[k] = a.R[k] * TR[k] + a.R[3 + k] * TR[3 + k] + a.R[6 + k] * TR[6 + k];
    most = fmax(most, a.moments[k]);
  }
  for (int k = 0; k < 3; k++) a.same[k] = fabs(a.moments[(k + 1) % 3] - a.moments[(k + 2) % 3]) <= PB_SAME_MOMENTS * most;
  return a;
}

// Cotangents of moments, rotation (in the axes' frame) and products to that of the tensor, added.
static void pull_axes(const axes *a, const double moments[3], const double rotation[3], const double products[3],
                      double tensor[6]) {
  double G[9], GR[9];
  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    G[4 * i] = moments[i];
    G[3 * j + k] = G[3 * k + j] = a->same[i] ? products[i] / 2 : rotation[i] / (2 * (a->moments[j] - a->moments[k]));
  }

  // R G R', whose entries beside the diagonal stand twice in the tensor.
  m3_mult(GR, G, a->R);
  m3_mul(G, a->R, GR);
  for (int e = 0; e < 6; e++) tensor[e] += (e < 3 ? 1 : 2) * G[3 * pb_tensorRow[e] + pb_tensorColumn[e]];
}

static void push_axes(const axes *a, const double tensor[6], double moments[3], double rotation[3], double products[3]) {
  double T[9], TR[9], D[9];

  // D = R' T R
  fill_matrix(tensor, T);
  m3_mul(TR, T, a->R);
  m3_tmul(D, a->R, TR);

  for (int i = 0; i < 3; i++) {
    int j = (i + 1) % 3, k = (i + 2) % 3;
    moments[i] = D[4 * i];
    rotation[i] = a->same[i] ? 0 : D[3 * j + k] / (a->moments[j] - a->moments[k]);
    products[i] = a->same[i] ? D[3 * j + k] : 0;
  }
}

// Once, however often gradients are asked for.
static void warn_of_axes(const work *w, const char *kind, const char *name, const char *what) {
  char line[400];
  PB_ASSERT(name != NULL);

  snprintf(line, sizeof line, "%s '%.200s': two principal moments agree, so its axes have no derivative: %s", kind, name, what);
  if (!strstr(pbContext_Warnings(w->ctx), line)) pbContext_Warn(w->ctx, "%s", line);
}

static void warn_of_body(const work *w, int body) {
  warn_of_axes(w, "body", pbModel_Name(w->m, pb_objBody, body), "gradients are those of its inertia as a whole");
}

// Rotation in the axes of a unit quaternion, from its cotangent.
static void quat_to_rotation(const double q[4], const double bar[4], double rotation[3]) {
  double back[4], r[4];

  // Half the vector part of q' bar.
  quat_conj(back, q);
  quat_mul(r, back, bar);
  for (int k = 0; k < 3; k++) rotation[k] += 0.5 * r[1 + k];
}

// ---- pullback ---------------------------------------------------------------------------------------------------------
// Moves cotangents out of theta_bar; are any not zero?
static bool take(const work *w, double *theta_bar, const double *field, int row, int cols, double *out) {
  bool any = false;
  PB_ASSERT(row >= 0 && cols > 0);

  double *from = theta_bar + at(w, field) + (size_t)row * (size_t)cols;
  for (int k = 0; k < cols; k++) {
    out[k] = from[k];
    any = any || from[k] != 0;
    from[k] = 0;
  }
  return any;
}

// bar . d out / d input, of a body, by an input that was perturbed.
static double body_slope(const work *w, int body, const double bar[10]) {
  _Complex double out[10];
  double sum = 0;
  int first = w->d->first[body];

  pbDesign_Body_c(w->d->part + first, w->d->first[body + 1] - first, w->density_c, w->mesh_c, out);
  for (int k = 0; k < 10; k++) sum += bar[k] * cimag(out[k]) / PB_IMAG_STEP;
  return sum;
}

static void pull_parts(work *w, int body, const double bar[10], double *theta_bar) {
  int first = w->d->first[body], count = w->d->first[body + 1] - first;

  // Real numbers all, until one is perturbed.
  for (int i = 0; i < count; i++) w->density_c[i] = w->density[i];
  for (int i = 0; i < PROPERTIES * count; i++) w->mesh_c[i] = w->part_mesh[i];

  for (int i = 0; i < count; i++) {
    const pbDesignPart *part = &w->d->part[first + i];

    // A density, where it is a parameter.
    if (part->by_density && part->geom >= 0) {
      w->density_c[i] += PB_IMAG_STEP * I;
      theta_bar[at(w, w->m->geom_density) + (size_t)part->geom] += body_slope(w, body, bar);
      w->density_c[i] = w->density[i];
    }

    // Each number of its mesh.
    if (part->mesh < 0) continue;
    for (int k = PROPERTIES * i; k < PROPERTIES * (i + 1); k++) {
      w->mesh_c[k] += PB_IMAG_STEP * I;
      w->mesh_bar[PROPERTIES * part->mesh + k - PROPERTIES * i] += body_slope(w, body, bar);
      w->mesh_c[k] = w->part_mesh[k];
    }
  }
}

static void pull_body(work *w, int body, double *theta_bar) {
  const pbModel *m = w->m;
  int count = w->d->first[body + 1] - w->d->first[body];
  double bar[10] = {0}, quat[4], moments[3], products[3], rotation[3] = {0}, out[10];
  const double *iquat = w->after + at(w, m->body_iquat) + 4 * body;
  if (!count) return;

  // What follows has no gradient of its own.
  bool any = take(w, theta_bar, m->body_mass, body, 1, bar);
  any = take(w, theta_bar, m->body_ipos, body, 3, bar + 1) || any;
  any = take(w, theta_bar, m->body_inertia, body, 3, moments) || any;
  any = take(w, theta_bar, m->body_iquat, body, 4, quat) || any;
  any = take(w, theta_bar, m->body_products, body, 3, products) || any;
  if (!any) return;

  // The tensor about the center, then what it is made of.
  pbDesign_Gather(w, body);
  pbDesign_Body_r(w->d->part + w->d->first[body], count, w->density, w->part_mesh, out);
  axes a = axes_of(iquat, out + 4);
  quat_to_rotation(iquat, quat, rotation);
  pull_axes(&a, moments, rotation, products, bar + 4);

  // A primitive alone keeps its axes whatever its density.
  for (int k = 0; k < 3; k++) {
    bool turns = count > 1 || w->d->part[w->d->first[body]].mesh >= 0;
    if (turns && a.same[k] && (products[k] != 0 || rotation[k] != 0)) warn_of_body(w, body);
  }
  pull_parts(w, body, bar, theta_bar);
}

static void pull_geom(work *w, const pbDesignGeom *g, double *theta_bar) {
  double pos[3], quat[4], local[3], R[9];
  take(w, theta_bar, w->m->geom_pos, g->geom, 3, pos);
  take(w, theta_bar, w->m->geom_quat, g->geom, 4, quat);

  // Its center moves with that of the mesh, its axes turn as those of the mesh do.
  quat_to_mat(R, g->quat);
  m3_tmulv(local, R, pos);
  v3_addto(w->mesh_bar + PROPERTIES * g->mesh + 1, local);
  quat_to_rotation(w->after + at(w, w->m->geom_quat) + 4 * g->geom, quat, w->mesh_rotation + 3 * g->mesh);
}

// By the axes of a mesh: contacts do not depend on them but through its points.
static void pull_mesh_axes(work *w, int mesh, double *theta_bar) {
  const double none[3] = {0}, *quat = w->after + at(w, w->m->mesh_axes) + 4 * mesh;
  double *bar = w->mesh_bar + PROPERTIES * mesh, *rotation = w->mesh_rotation + 3 * mesh, center[3], axes_bar[4], of_geoms = 0;
  take(w, theta_bar, w->m->mesh_center, mesh, 3, center);
  take(w, theta_bar, w->m->mesh_axes, mesh, 4, axes_bar);
  v3_addto(bar + 1, center);

  // The points' turning takes back the geoms', up to rounding.
  for (int k = 0; k < 3; k++) of_geoms += fabs(rotation[k]);
  quat_to_rotation(quat, axes_bar, rotation);

  axes a = axes_of(quat, w->mesh + PROPERTIES * mesh + 4);
  for (int k = 0; k < 3; k++) {
    if (a.same[k] && fabs(rotation[k]) > AXES_NOISE * of_geoms)
      warn_of_axes(w, "mesh", pbModel_Name(w->m, pb_objMesh, mesh), "geoms of it count as turned with its points");
  }
  pull_axes(&a, none, rotation, none, bar + 4);
}

static pbStatus pull_mesh(work *w, int mesh, double *theta_bar) {
  const pbModel *m = w->m;
  const double *from = w->mesh_bar + PROPERTIES * mesh;
  pbMeshPropertiesBar bar = {.volume = from[0]};
  pbMeshSolidBar g = {.point = NULL};
  int exposed = pb_exposedMesh(m, mesh);
  bool any = false;
  for (int k = 0; k < PROPERTIES; k++) any = any || from[k] != 0;
  if (!any) return pb_ok;

  // By its points, and by what moves them.
  memcpy(bar.center, from + 1, sizeof bar.center);
  memcpy(bar.tensor, from + 4, sizeof bar.tensor);
  pbMeshSolid solid = pbDesign_Solid(w, mesh);
  if (exposed >= 0) {
    g.point = w->vertex_bar;
    memset(g.point, 0, 3 * (size_t)solid.points * sizeof *g.point);
  }
  PB_TRY(pbMesh_PropertiesVjp(w->ctx, &solid, &bar, &g));

  // Into theta's gradient.
  for (int k = 0; k < 3; k++) theta_bar[at(w, m->mesh_scale) + (size_t)(3 * mesh + k)] += g.scale[k];
  for (int k = 0; k < 3; k++) theta_bar[at(w, m->mesh_refpos) + (size_t)(3 * mesh + k)] += g.refpos[k];
  for (int k = 0; k < 4; k++) theta_bar[at(w, m->mesh_refquat) + (size_t)(4 * mesh + k)] += g.refquat[k];
  if (exposed < 0) return pb_ok;

  // Vertices, in the frame that was compiled.
  double F[9], local[3];
  pbDesign_VertexFrame(w, mesh, F);
  for (int i = 0; i < 3 * solid.points; i += 3) {
    m3_tmulv(local, F, g.point + i);
    v3_addto(theta_bar + m->exposed[exposed].offset + i, local);
  }
  return pb_ok;
}

static pbStatus measure_all(work *w) {
  pbMeshProperties p;
  for (int i = 0; i < w->m->nmesh; i++) PB_TRY(pbDesign_Measure(w, i, &p));
  return pb_ok;
}

static pbStatus pull_all(work *w, double *theta_bar) {
  PB_TRY(measure_all(w));

  // From what follows last to first.
  for (int b = 0; b < w->m->nbody; b++) pull_body(w, b, theta_bar);
  for (int i = 0; i < w->d->geoms; i++) pull_geom(w, &w->d->geom[i], theta_bar);
  for (int i = 0; i < w->m->nmesh; i++) {
    pull_mesh_axes(w, i, theta_bar);
    PB_TRY(pull_mesh(w, i, theta_bar));
  }
  return pb_ok;
}

pbStatus pbDesign_Vjp(pbContext *ctx, const pbModel *m, const double *theta, const double *after, double *theta_bar) {
  work w = {.ctx = ctx, .m = m, .d = m->design, .theta = theta, .after = after};
  void *memory;
  PB_ASSERT(m->design && after != theta);

  PB_TRY(pbDesign_OpenWork(&w, &memory));
  pbStatus status = pull_all(&w, theta_bar);
  pbContext_Free(ctx, memory);
  return status;
}

// ---- directional derivative -------------------------------------------------------------------------------------------
static double along(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

// A number of a mesh changes by its gradient along the direction.
static pbStatus push_property(work *w, int mesh, const pbMeshSolid *solid, int k, const double *direction) {
  const pbModel *m = w->m;
  int exposed = pb_exposedMesh(m, mesh);
  pbMeshPropertiesBar bar = {.volume = k == 0};
  pbMeshSolidBar g = {.point = exposed < 0 ? NULL : w->vertex_bar};
  PB_ASSERT(k >= 0 && k < PROPERTIES);

  if (k >= 1 && k < 4) bar.center[k - 1] = 1;
  if (k >= 4) bar.tensor[k - 4] = 1;
  if (g.point) memset(g.point, 0, 3 * (size_t)solid->points * sizeof *g.point);
  PB_TRY(pbMesh_PropertiesVjp(w->ctx, solid, &bar, &g));

  // Along the direction.
  double *to = w->mesh_bar + PROPERTIES * mesh + k, F[9], move[3];
  *to = along(g.scale, direction + at(w, m->mesh_scale) + 3 * mesh, 3);
  *to += along(g.refpos, direction + at(w, m->mesh_refpos) + 3 * mesh, 3);
  *to += along(g.refquat, direction + at(w, m->mesh_refquat) + 4 * mesh, 4);
  if (exposed < 0) return pb_ok;

  pbDesign_VertexFrame(w, mesh, F);
  for (int i = 0; i < 3 * solid->points; i += 3) {
    m3_mulv(move, F, direction + m->exposed[exposed].offset + i);
    *to += v3_dot(move, g.point + i);
  }
  return pb_ok;
}

static bool moves(const work *w, int mesh, const double *direction) {
  const pbModel *m = w->m;
  int exposed = pb_exposedMesh(m, mesh);
  bool any = false;

  // Where its points are.
  for (int k = 0; k < 3; k++) any = any || direction[at(w, m->mesh_scale) + (size_t)(3 * mesh + k)] != 0;
  for (int k = 0; k < 3; k++) any = any || direction[at(w, m->mesh_refpos) + (size_t)(3 * mesh + k)] != 0;
  for (int k = 0; k < 4; k++) any = any || direction[at(w, m->mesh_refquat) + (size_t)(4 * mesh + k)] != 0;
  if (exposed < 0) return any;

  // Exposed vertices.
  for (int k = 0; k < 3 * m->exposed[exposed].rows; k++) any = any || direction[m->exposed[exposed].offset + (size_t)k] != 0;
  return any;
}

static pbStatus push_mesh(work *w, int mesh, double *direction) {
  const double *quat = w->after + at(w, w->m->mesh_axes) + 4 * mesh;
  double *bar = w->mesh_bar + PROPERTIES * mesh, *rotation = w->mesh_rotation + 3 * mesh, moments[3], products[3], half[3];
  if (moves(w, mesh, direction)) {
    pbMeshSolid solid = pbDesign_Solid(w, mesh);
    for (int k = 0; k < PROPERTIES; k++) PB_TRY(push_property(w, mesh, &solid, k, direction));
  }

  // Its frame follows.
  axes a = axes_of(quat, w->mesh + PROPERTIES * mesh + 4);
  push_axes(&a, bar + 4, moments, rotation, products);
  v3_scale(half, rotation, 0.5);
  memcpy(direction + at(w, w->m->mesh_center) + 3 * mesh, bar + 1, 3 * sizeof *bar);
  quat_mulaxis(direction + at(w, w->m->mesh_axes) + 4 * mesh, quat, half);
  return pb_ok;
}

static void push_geom(const work *w, const pbDesignGeom *g, double *direction) {
  double R[9], half[3];
  PB_VALIDATE(pb_isUnit(g->quat, 4));

  quat_to_mat(R, g->quat);
  v3_scale(half, w->mesh_rotation + 3 * g->mesh, 0.5);
  m3_mulv(direction + at(w, w->m->geom_pos) + 3 * g->geom, R, w->mesh_bar + PROPERTIES * g->mesh + 1);
  quat_mulaxis(direction + at(w, w->m->geom_quat) + 4 * g->geom, w->after + at(w, w->m->geom_quat) + 4 * g->geom, half);
}

static void push_body(work *w, int body, double *direction) {
  const pbModel *m = w->m;
  int first = w->d->first[body], count = w->d->first[body + 1] - first;
  const double *iquat = w->after + at(w, m->body_iquat) + 4 * body;
  double out[10], rate[10], rotation[3], half[3], *products = direction + at(w, m->body_products) + 3 * body;
  _Complex double value[10];
  if (!count) return;

  // One complex run: the rates of what it is made of are those of meshes and densities.
  pbDesign_Gather(w, body);
  for (int i = 0; i < count; i++) {
    const pbDesignPart *part = &w->d->part[first + i];
    double turn = part->geom >= 0 && part->by_density ? direction[at(w, m->geom_density) + (size_t)part->geom] : 0;
    w->density_c[i] = w->density[i] + turn * PB_IMAG_STEP * I;
    for (int k = PROPERTIES * i; k < PROPERTIES * (i + 1); k++) {
      double move = part->mesh < 0 ? 0 : w->mesh_bar[PROPERTIES * part->mesh + k - PROPERTIES * i];
      w->mesh_c[k] = w->part_mesh[k] + move * PB_IMAG_STEP * I;
    }
  }

  pbDesign_Body_c(w->d->part + first, count, w->density_c, w->mesh_c, value);
  for (int k = 0; k < 10; k++) {
    out[k] = creal(value[k]);
    rate[k] = cimag(value[k]) / PB_IMAG_STEP;
  }

  // Values that follow have no direction of their own.
  axes a = axes_of(iquat, out + 4);
  direction[at(w, m->body_mass) + (size_t)body] = rate[0];
  memcpy(direction + at(w, m->body_ipos) + 3 * body, rate + 1, 3 * sizeof *rate);
  push_axes(&a, rate + 4, direction + at(w, m->body_inertia) + 3 * body, rotation, products);
  v3_scale(half, rotation, 0.5);
  quat_mulaxis(direction + at(w, m->body_iquat) + 4 * body, iquat, half);
  if (products[0] != 0 || products[1] != 0 || products[2] != 0) warn_of_body(w, body);
}

static pbStatus push_all(work *w, double *direction) {
  PB_TRY(measure_all(w));
  size_t products = 3 * (size_t)w->m->ndesignbody;
  PB_ASSERT(w->m->ndesignbody == w->m->nbody);

  // Meshes first, then what they shape.
  memset(direction + at(w, w->m->body_products), 0, products * sizeof *direction);
  for (int i = 0; i < w->m->nmesh; i++) PB_TRY(push_mesh(w, i, direction));
  for (int i = 0; i < w->d->geoms; i++) push_geom(w, &w->d->geom[i], direction);
  for (int b = 0; b < w->m->nbody; b++) push_body(w, b, direction);
  return pb_ok;
}

pbStatus pbDesign_Jvp(pbContext *ctx, const pbModel *m, const double *theta, const double *after, double *direction) {
  work w = {.ctx = ctx, .m = m, .d = m->design, .theta = theta, .after = after};
  void *memory;
  PB_ASSERT(m->design && after != theta);

  PB_TRY(pbDesign_OpenWork(&w, &memory));
  pbStatus status = push_all(&w, direction);
  pbContext_Free(ctx, memory);
  return status;
}
