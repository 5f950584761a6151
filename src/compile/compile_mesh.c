// Meshes that geoms name: their properties, once for each, and their bounds in the frame of their principal axes.
#include "compile/compile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "math/vec.h"

// Bounds of the points in the principal frame.
static void find_bounds(const pbMeshDef *d, pbMeshWork *work) {
  const pbMeshProperties *p = &work->properties;
  PB_ASSERT(d->vertex.count > 0);
  double turn[4], R[9], x[3], low[3], high[3];
  memcpy(turn, d->refquat, sizeof turn);
  pbPose_Normalize(turn, 4);
  quat_to_mat(R, turn);

  // As the properties' points are moved.
  for (int i = 0; i < d->vertex.count / 3; i++) {
    v3_sub(x, d->vertex.data + 3 * i, d->refpos);
    m3_tmulv(x, R, x);
    for (int k = 0; k < 3; k++) x[k] = d->scale[k] * x[k] - p->center[k];

    // Into the principal axes.
    double back[4];
    quat_conj(back, p->quat);
    quat_rotate(x, back, x);
    for (int k = 0; k < 3; k++) {
      low[k] = i ? fmin(low[k], x[k]) : x[k];
      high[k] = i ? fmax(high[k], x[k]) : x[k];
    }
  }

  // Middle and half sides; the least box about the center.
  for (int k = 0; k < 3; k++) {
    work->aabb[k] = (low[k] + high[k]) / 2;
    work->aabb[3 + k] = (high[k] - low[k]) / 2;
    work->size[k] = fmax(fabs(low[k]), fabs(high[k]));
  }
}

static pbStatus check_mesh(const pbCompiler *c, const pbMeshDef *d) {
  if (!d->vertex.count) return PB_AT(c, d, "mesh", "has no points");
  if (d->vertex.count % 3) return PB_AT(c, d, "mesh", "its points have %d numbers, expected three each", d->vertex.count);
  if (d->face.count % 3) return PB_AT(c, d, "mesh", "its faces have %d numbers, expected three each", d->face.count);
  if (d->vertex.count < 12) return PB_AT(c, d, "mesh", "has %d points, expected at least 4", d->vertex.count / 3);
  if (d->maxhullvert != -1 && d->maxhullvert < 4)
    return PB_AT(c, d, "mesh", "maxhullvert is %d, expected at least 4", d->maxhullvert);
  return pb_ok;
}

static pbStatus measure(pbCompiler *c, const pbMeshDef *d, pbMeshWork *work) {
  // What the spec states, without copies.
  PB_TRY(check_mesh(c, d));
  pbMeshSolid solid = {.points = d->vertex.count / 3,
                       .triangles = d->face.count / 3,
                       .point = d->vertex.data,
                       .triangle = d->face.data,
                       .inertia = (pbMeshInertia)d->inertia,
                       .most = d->maxhullvert < 0 ? 0 : d->maxhullvert};
  memcpy(solid.scale, d->scale, sizeof solid.scale);
  memcpy(solid.refpos, d->refpos, sizeof solid.refpos);
  memcpy(solid.refquat, d->refquat, sizeof solid.refquat);

  // With the place of the mesh.
  pbStatus status = pbMesh_Properties(c->ctx, &solid, &work->properties);
  if (status != pb_ok) {
    char text[512];
    snprintf(text, sizeof text, "%s", pbContext_Error(c->ctx));
    status = status == pb_bad_argument ? pb_bad_input : status;
    return pbSpec_Fail(c->spec, status, &d->place, "mesh", d->name, "%s", text);
  }

  find_bounds(d, work);
  work->done = true;
  return pb_ok;
}

pbStatus pbCompile_Mesh(pbCompiler *c, const pbGeomDef *geom, const pbMeshWork **mesh) {
  int index;
  PB_ASSERT(geom->type == pb_geomMesh);
  PB_TRY(pbCompile_Resolve(c, pb_refMesh, geom->mesh, &geom->place, "geom", geom->name, &index));

  // Several geoms may share it.
  pbMeshWork *work = &c->meshes[index];
  if (!work->done) PB_TRY(measure(c, &c->spec->meshes[index], work));
  *mesh = work;
  return pb_ok;
}
