// What meshes look like, kept in the model where the spec asks for it: scaled, in their own frame, each once.
// Tests: tests/unit/test_surface.c, tests/oracle/test_train.py, tests/oracle/test_view.py.
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "math/vec.h"
#include "model/surface.h"

// As the properties' points are moved: by -refpos, turned back by refquat, scaled.
static void move_points(const pbMeshDef *d, double *point) {
  double turn[4], R[9];
  memcpy(turn, d->refquat, sizeof turn);
  if (!(pbPose_Normalize(turn, 4) > 0)) memcpy(turn, (double[4]){1, 0, 0, 0}, sizeof turn);
  quat_to_mat(R, turn);

  for (int i = 0; i < d->vertex.count / 3; i++) {
    double *x = point + 3 * i;
    v3_sub(x, d->vertex.data + 3 * i, d->refpos);
    m3_tmulv(x, R, x);
    for (int k = 0; k < 3; k++) x[k] *= d->scale[k];
  }
}

static bool is_whole(const pbMeshDef *d) {
  // Those that act were checked when they were measured.
  if (!d->vertex.count || d->vertex.count % 3 || d->face.count % 3) return false;

  // Faces name points that are there.
  for (int i = 0; i < d->face.count; i++) {
    if (d->face.data[i] < 0 || d->face.data[i] >= d->vertex.count / 3) return false;
  }
  for (int i = 0; i < d->vertex.count; i++) {
    if (!isfinite(d->vertex.data[i])) return false;
  }
  return true;
}

static void turn_round(int *triangle, int count) {
  for (int i = 0; i < count; i++, triangle += 3) {
    int second = triangle[1];
    triangle[1] = triangle[2];
    triangle[2] = second;
  }
}

// Its own triangles; else those of its hull.
static pbStatus take_triangles(pbCompiler *c, const pbMeshDef *d, pbMeshSurface *s) {
  pbHull *hull = NULL;
  int count = d->face.count / 3;
  const int *from = d->face.data;

  // Without qhull, or of flat ones, nothing is seen.
  if (!count && pbHull_Create(c->ctx, s->point, s->points, 0, &hull) == pb_ok) {
    count = hull->triangles;
    from = hull->triangle;
  }
  if (!count) pbContext_Warn(c->ctx, "mesh '%.200s' has neither faces nor a hull; it is not seen", d->name);
  int *to = pbContext_AllocArray(c->ctx, (size_t)count + 1, 3 * sizeof *to);
  if (to && count) memcpy(to, from, (size_t)count * 3 * sizeof *to);

  // What the scale mirrors is turned round; a hull is found behind it.
  bool mirrored = d->scale[0] * d->scale[1] * d->scale[2] < 0;
  if (to && mirrored && !hull) turn_round(to, count);

  pbHull_Destroy(hull);
  s->triangles = count;
  s->triangle = to;
  return to ? pb_ok : pb_no_memory;
}

static pbStatus take_surface(pbCompiler *c, const pbMeshDef *d, pbMeshSurface *s) {
  // The model outlives the spec.
  size_t length = strlen(d->name) + 1;
  char *name = pbContext_Alloc(c->ctx, length);
  s->points = d->vertex.count / 3;
  double *point = pbContext_AllocArray(c->ctx, (size_t)s->points, 3 * sizeof *point);
  s->name = name;
  s->point = point;
  if (!name || !point) return pb_no_memory;

  memcpy(name, d->name, length);
  move_points(d, point);
  return take_triangles(c, d, s);
}

// The geom's frame has the principal axes where its mesh acts, else it is the mesh's own.
static void place_surface(const pbGeomWork *g, pbGeomSurface *to) {
  // Where it does not, nothing moved it.
  memcpy(to->quat, (double[4]){1, 0, 0, 0}, sizeof to->quat);
  if (!g->mesh) return;

  quat_conj(to->quat, g->mesh->properties.quat);
  quat_rotate(to->pos, to->quat, g->mesh->properties.center);
  v3_neg(to->pos, to->pos);
}

// of: surface of each mesh, -1 where none was made yet.
static pbStatus take_geom(pbCompiler *c, const pbGeomWork *g, int *of) {
  int mesh = g->def->type == pb_geomMesh && *g->def->mesh ? pbCompile_Find(c, pb_refMesh, g->def->mesh) : -1;
  pbSurfaces *all = c->m->surfaces;
  PB_ASSERT(g->id >= 0 && g->id < c->m->ngeom);
  pbGeomSurface *to = &all->geom[g->id];

  // A mesh that is not there is no error where it is only seen.
  to->surface = -1;
  if (mesh < 0 || !c->spec->meshes[mesh].vertex.count) return pb_ok;
  if (of[mesh] == -1 && !is_whole(&c->spec->meshes[mesh])) {
    pbContext_Warn(c->ctx, "mesh '%.200s' has points or faces that are none; it is not seen", c->spec->meshes[mesh].name);
    of[mesh] = -2;
  }
  if (of[mesh] == -2) return pb_ok;

  // Several geoms may share it.
  if (of[mesh] < 0) {
    of[mesh] = all->count++;
    PB_TRY(take_surface(c, &c->spec->meshes[mesh], &all->surface[of[mesh]]));
  }
  to->surface = of[mesh];
  place_surface(g, to);
  return pb_ok;
}

pbStatus pbCompile_Surfaces(pbCompiler *c) {
  size_t meshes = (size_t)c->spec->nmesh;
  if (!c->spec->surfaces) return pb_ok;

  // Room for as many as there could be.
  int *of = pbCompile_Take(c, meshes, sizeof *of);
  pbSurfaces *all = c->m->surfaces = pbContext_Alloc(c->ctx, sizeof *all);
  if (all) all->surface = pbContext_AllocArray(c->ctx, meshes + 1, sizeof *all->surface);
  if (all) all->geom = pbContext_AllocArray(c->ctx, (size_t)c->m->ngeom + 1, sizeof *all->geom);

  pbStatus status = of && all && all->surface && all->geom ? pb_ok : pb_no_memory;
  if (status == pb_ok) memset(of, -1, meshes * sizeof *of);

  // Discarded geoms have no id.
  for (int i = 0; status == pb_ok && i < c->spec->ngeom; i++) {
    if (c->geoms[i].id >= 0) status = take_geom(c, &c->geoms[i], of);
  }
  return status == pb_ok ? pb_ok : pbContext_Fail(c->ctx, pb_no_memory, "out of memory for the surfaces of meshes");
}
