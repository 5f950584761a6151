// Masses and frames by the parameters of meshes (design.h): values; derivatives are in design_derivative.c.
// Tests: tests/oracle/test_design.py.
#include "compile/design_work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <pullback/solid.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "math/vec.h"
#include "model/exposed.h"
#include "multibody/spatial.h"

typedef pbDesignWork work;

// ---- memory -----------------------------------------------------------------------------------------------------------
static void lay_out(pbArena *a, work *w) {
  size_t parts = 0, points = 0, meshes = (size_t)w->m->nmesh;

  // Room for the largest body and the largest mesh.
  for (int b = 0; b < w->m->nbody; b++) {
    size_t count = (size_t)(w->d->first[b + 1] - w->d->first[b]);
    parts = count > parts ? count : parts;
  }
  for (size_t i = 0; i < meshes; i++) {
    size_t count = (size_t)w->d->mesh[i].points;
    points = count > points ? count : points;
  }

  // Meshes all at once, bodies one by one.
  w->changed = pbArena_Take(a, meshes, sizeof *w->changed);
  w->mesh = pbArena_Take(a, PROPERTIES * meshes, sizeof(double));
  w->mesh_bar = pbArena_Take(a, PROPERTIES * meshes, sizeof(double));
  w->mesh_rotation = pbArena_Take(a, 3 * meshes, sizeof(double));
  w->vertex = pbArena_Take(a, 3 * points, sizeof(double));
  w->vertex_bar = pbArena_Take(a, 3 * points, sizeof(double));
  w->density = pbArena_Take(a, parts, sizeof(double));
  w->part_mesh = pbArena_Take(a, PROPERTIES * parts, sizeof(double));
  w->density_c = pbArena_Take(a, parts, sizeof *w->density_c);
  w->mesh_c = pbArena_Take(a, PROPERTIES * parts, sizeof *w->mesh_c);
}

pbStatus pbDesign_OpenWork(work *w, void **memory) {
  pbArena arena = pbArena_Measure();
  lay_out(&arena, w);
  size_t needed = pbArena_Needed(&arena);
  *memory = pbContext_Alloc(w->ctx, needed);
  if (!*memory) return pbContext_Fail(w->ctx, pb_no_memory, "out of memory for the design of the model");

  // Zeroed by the allocator.
  arena = pbArena_Over(*memory, needed);
  lay_out(&arena, w);
  return pb_ok;
}

// ---- meshes -----------------------------------------------------------------------------------------------------------
static bool same_row(const work *w, const double *field, int row, int cols) {
  size_t from = at(w, field) + (size_t)row * (size_t)cols;
  return memcmp(w->theta + from, w->d->theta0 + from, (size_t)cols * sizeof(double)) == 0;
}

static const double *compiled_vertices(const pbModel *m, int mesh) { return m->mesh_vert + 3 * (size_t)m->mesh_vertadr[mesh]; }

static bool is_changed(const work *w, int mesh) {
  const pbModel *m = w->m;
  int exposed = pb_exposedMesh(m, mesh);
  size_t bytes = exposed < 0 ? 0 : 3 * (size_t)m->exposed[exposed].rows * sizeof(double);
  if (bytes && memcmp(w->theta + m->exposed[exposed].offset, compiled_vertices(m, mesh), bytes) != 0) return true;

  return !same_row(w, m->mesh_scale, mesh, 3) || !same_row(w, m->mesh_refpos, mesh, 3) || !same_row(w, m->mesh_refquat, mesh, 4);
}

void pbDesign_VertexFrame(const work *w, int mesh, double F[9]) {
  const pbDesignMesh *d = &w->d->mesh[mesh];
  double q[4], R[9], Q[9];
  memcpy(q, d->refquat, sizeof q);
  pbPose_Normalize(q, 4);
  quat_to_mat(R, q);
  quat_to_mat(Q, d->quat);

  // A hull has no scale of 0.
  for (int i = 0; i < 9; i++) Q[i] /= d->scale[i / 3];
  m3_mul(F, R, Q);
}

pbMeshSolid pbDesign_Solid(const work *w, int mesh) {
  const pbModel *m = w->m;
  int exposed = pb_exposedMesh(m, mesh);
  const pbDesignMesh *d = &w->d->mesh[mesh];
  pbMeshSolid s = {.points = d->points,
                   .triangles = d->triangles,
                   .point = d->point,
                   .triangle = d->triangle,
                   .inertia = (pbMeshInertia)d->inertia,
                   .most = d->most};

  // Triangles stay; where points are is a parameter.
  memcpy(s.scale, w->theta + at(w, m->mesh_scale) + 3 * mesh, sizeof s.scale);
  memcpy(s.refpos, w->theta + at(w, m->mesh_refpos) + 3 * mesh, sizeof s.refpos);
  memcpy(s.refquat, w->theta + at(w, m->mesh_refquat) + 4 * mesh, sizeof s.refquat);
  if (exposed < 0) return s;

  // The file's points, moved as the vertices are.
  double F[9], change[3], move[3];
  const double *now = w->theta + m->exposed[exposed].offset, *compiled = compiled_vertices(m, mesh);
  pbDesign_VertexFrame(w, mesh, F);
  for (int i = 0; i < 3 * s.points; i += 3) {
    v3_sub(change, now + i, compiled + i);
    m3_mulv(move, F, change);
    v3_add(w->vertex + i, s.point + i, move);
  }
  s.point = w->vertex;
  return s;
}

static pbMeshProperties compiled_properties(const pbDesignMesh *d) {
  pbMeshProperties p = {.volume = d->volume};
  memcpy(p.center, d->center, sizeof p.center);
  memcpy(p.tensor, d->tensor, sizeof p.tensor);
  memcpy(p.quat, d->quat, sizeof p.quat);
  memcpy(p.moments, d->moments, sizeof p.moments);
  return p;
}

pbStatus pbDesign_Measure(work *w, int mesh, pbMeshProperties *p) {
  char text[512];
  *p = compiled_properties(&w->d->mesh[mesh]);
  w->changed[mesh] = is_changed(w, mesh);

  // What is as it was compiled keeps its bits.
  if (w->changed[mesh]) {
    pbMeshSolid solid = pbDesign_Solid(w, mesh);
    pbStatus status = pbMesh_Properties(w->ctx, &solid, p);
    snprintf(text, sizeof text, "%s", pbContext_Error(w->ctx));
    if (status != pb_ok)
      return pbContext_Fail(w->ctx, status == pb_bad_argument ? pb_bad_input : status, "mesh '%.200s': %s",
                            pbModel_Name(w->m, pb_objMesh, mesh), text);
  }

  // As the compiler takes it: without what the search for axes left beside the diagonal.
  double *to = w->mesh + PROPERTIES * mesh;
  const double none[3] = {0};
  to[0] = p->volume;
  memcpy(to + 1, p->center, sizeof p->center);
  memset(to + 4, 0, sizeof p->tensor);
  pbPose_AddInertia(to + 4, 0, p->moments, p->quat, none);
  return pb_ok;
}

// ---- bodies -----------------------------------------------------------------------------------------------------------
static double density_of(const work *w, const pbDesignPart *part) {
  return part->geom >= 0 && part->by_density ? w->theta[at(w, w->m->geom_density) + (size_t)part->geom] : part->density;
}

bool pbDesign_Gather(work *w, int body) {
  int count = w->d->first[body + 1] - w->d->first[body];
  const pbDesignPart *part = w->d->part + w->d->first[body];
  bool changed = false;

  // Primitives have no mesh to read.
  for (int i = 0; i < count; i++) {
    int mesh = part[i].mesh;
    w->density[i] = density_of(w, &part[i]);
    changed = changed || w->density[i] != part[i].density || (mesh >= 0 && w->changed[mesh]);

    for (int k = 0; k < PROPERTIES; k++) w->part_mesh[PROPERTIES * i + k] = mesh < 0 ? 0 : w->mesh[PROPERTIES * mesh + k];
  }
  return changed;
}

static pbStatus blame_body(const work *w, int body, const char *wrong) {
  return pbContext_Fail(w->ctx, pb_bad_input, "body '%.200s': %s", pbModel_Name(w->m, pb_objBody, body), wrong);
}

static void restore(const work *w, double *theta, const double *field, int row, int cols) {
  size_t from = at(w, field) + (size_t)row * (size_t)cols;
  memcpy(theta + from, w->d->theta0 + from, (size_t)cols * sizeof *theta);
}

// One geom has its principal axes already, as in the compiler.
static const char *principal_axes(const work *w, int body, const pbMeshProperties *mesh, const double out[10], double quat[4],
                                  double moments[3]) {
  const pbDesignPart *part = w->d->part + w->d->first[body];
  if (w->d->first[body + 1] - w->d->first[body] > 1) return pbPose_Principal(out + 4, quat, moments);

  // A primitive keeps its own.
  memcpy(quat, part->quat, sizeof part->quat);
  if (part->mesh < 0) {
    v3_scale(moments, part->moments, out[0] / part->mass);
    return NULL;
  }

  // Those of the mesh, seen from the body.
  pbPose_MulQuat(quat, part->quat, mesh[part->mesh].quat);
  v3_scale(moments, mesh[part->mesh].moments, out[0] / mesh[part->mesh].volume);
  return NULL;
}

static pbStatus apply_body(work *w, int body, const pbMeshProperties *mesh, double *theta) {
  const pbModel *m = w->m;
  int count = w->d->first[body + 1] - w->d->first[body];
  double out[10];
  if (!count) return pb_ok;

  if (!pbDesign_Gather(w, body)) {
    restore(w, theta, m->body_mass, body, 1);
    restore(w, theta, m->body_ipos, body, 3);
    restore(w, theta, m->body_iquat, body, 4);
    restore(w, theta, m->body_inertia, body, 3);
    return pb_ok;
  }

  // Some of its geoms may weigh nothing any more, not all.
  pbDesign_Body_r(w->d->part + w->d->first[body], count, w->density, w->part_mesh, out);

  if (!(out[0] > 0) || !isfinite(out[0])) return blame_body(w, body, "nothing of it weighs anything");
  theta[at(w, m->body_mass) + (size_t)body] = out[0];
  memcpy(theta + at(w, m->body_ipos) + 3 * body, out + 1, 3 * sizeof *out);
  const char *wrong =
      principal_axes(w, body, mesh, out, theta + at(w, m->body_iquat) + 4 * body, theta + at(w, m->body_inertia) + 3 * body);
  return wrong ? blame_body(w, body, wrong) : pb_ok;
}

// ---- values -----------------------------------------------------------------------------------------------------------
static pbStatus check_densities(const work *w) {
  const pbModel *m = w->m;
  for (int g = 0; g < m->ngeom; g++) {
    bool counts = false;
    int b = m->geom_bodyid[g];
    for (int i = w->d->first[b]; i < w->d->first[b + 1]; i++) {
      counts = counts || (w->d->part[i].geom == g && w->d->part[i].by_density);
    }
    if (counts || same_row(w, m->geom_density, g, 1)) continue;

    // What is given must do something.
    char name[256];
    return pbContext_Fail(w->ctx, pb_bad_input, "%s has no effect: the geom has a stated mass, or its body a stated inertia",
                          pbModel_ParamName(m, at(w, m->geom_density) + (size_t)g, name, sizeof name));
  }
  return pb_ok;
}

static void apply_frames(const work *w, const pbMeshProperties *mesh, double *theta) {
  const pbModel *m = w->m;
  PB_ASSERT(m->ndesignmesh == m->nmesh);

  // Of meshes.
  for (int i = 0; i < m->nmesh; i++) {
    memcpy(theta + at(w, m->mesh_center) + 3 * i, mesh[i].center, sizeof mesh[i].center);
    memcpy(theta + at(w, m->mesh_axes) + 4 * i, mesh[i].quat, sizeof mesh[i].quat);
  }

  // Of their geoms: as compiled, or put together.
  for (int i = 0; i < w->d->geoms; i++) {
    const pbDesignGeom *g = &w->d->geom[i];
    double *pos = theta + at(w, m->geom_pos) + 3 * g->geom, *quat = theta + at(w, m->geom_quat) + 4 * g->geom;
    restore(w, theta, m->geom_pos, g->geom, 3);
    restore(w, theta, m->geom_quat, g->geom, 4);
    if (!w->changed[g->mesh]) continue;

    memcpy(pos, mesh[g->mesh].center, sizeof mesh->center);
    memcpy(quat, mesh[g->mesh].quat, sizeof mesh->quat);
    pbPose_Compose(g->pos, g->quat, pos, quat);
  }
}

static pbStatus apply(work *w, pbMeshProperties *mesh, double *theta) {
  // Each needs what comes before it.
  PB_TRY(check_densities(w));
  for (int i = 0; i < w->m->nmesh; i++) PB_TRY(pbDesign_Measure(w, i, &mesh[i]));
  for (int b = 0; b < w->m->nbody; b++) PB_TRY(apply_body(w, b, mesh, theta));
  apply_frames(w, mesh, theta);

  memset(theta + at(w, w->m->body_products), 0, 3 * (size_t)w->m->ndesignbody * sizeof *theta);
  return pbModel_CheckParams(w->ctx, w->m, theta);
}

pbStatus pbDesign_Apply(pbContext *ctx, const pbModel *m, double *theta) {
  work w = {.ctx = ctx, .m = m, .d = m->design, .theta = theta};
  void *memory;
  if (!m->design) return pb_ok;

  // On failure theta stays as it was.
  PB_TRY(pbDesign_OpenWork(&w, &memory));
  pbMeshProperties *mesh = pbContext_AllocArray(ctx, (size_t)m->nmesh + 1, sizeof *mesh);
  double *result = pbContext_AllocArray(ctx, m->ntheta, sizeof *result);
  pbStatus status = mesh && result ? pb_ok : pbContext_Fail(ctx, pb_no_memory, "out of memory for the design of the model");
  if (status == pb_ok) {
    memcpy(result, theta, m->ntheta * sizeof *theta);
    status = apply(&w, mesh, result);
  }

  // All of it, or nothing.
  if (status == pb_ok) memcpy(theta, result, m->ntheta * sizeof *theta);

  pbContext_Free(ctx, result);
  pbContext_Free(ctx, mesh);
  pbContext_Free(ctx, memory);
  return status;
}

pbStatus pbDesign_Open(pbContext *ctx, const pbModel *m, const double *theta, double **after) {
  *after = pbContext_AllocArray(ctx, m->ntheta, sizeof **after);
  if (!*after) return pbContext_Fail(ctx, pb_no_memory, "out of memory for the design of the model");
  memcpy(*after, theta, m->ntheta * sizeof **after);

  pbStatus status = pbDesign_Apply(ctx, m, *after);
  if (status != pb_ok) pbContext_Free(ctx, *after);
  return status;
}
