// What masses and frames are compiled from, kept in the model where the spec asks for it (model/design.h).
// Tests: tests/oracle/test_design.py.
#include "base/assert.h"
#include "base/context.h"
#include "compile/compile.h"
#include "math/vec.h"
#include "model/design.h"

#include <math.h>
#include <string.h>

// The frame of a mesh's moved points: that of the geom before it went to center and axes of the mesh.
static void stated_frame(const pbGeomWork *g, double pos[3], double quat[4]) {
  double back[4], r[3];
  PB_ASSERT(g->mesh != NULL);

  quat_conj(back, g->mesh->properties.quat);
  pbPose_MulQuat(quat, g->quat, back);
  pbPose_Rotate(r, g->mesh->properties.center, quat);
  v3_sub(pos, g->pos, r);
}

// ---- which bodies ----------------------------------------------------------------------------------------------------
static bool has_weight(const pbCompiler *c, const pbBodyWork *b) {
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    if (pbCompile_GivesMass(c, &c->geoms[i])) return true;
  }
  return false;
}

// Is the inertia that of the geoms, as pbCompile_Tree found it?
static bool is_of_geoms(const pbCompiler *c, const pbBodyWork *b) {
  int rule = c->spec->compiler.inertiafromgeom;
  bool stated = b->absorbed ? b->stated : !isnan(b->def->inertial.pos[0]);
  return b->id > 0 && has_weight(c, b) && (rule == pb_true || (rule == pb_auto && !stated));
}

// A primitive whose size is that of a mesh.
static bool has_fitted(const pbCompiler *c, const pbBodyWork *b) {
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    const pbGeomDef *d = c->geoms[i].def;
    if (d->type != pb_geomMesh && *d->mesh) return true;
  }
  return false;
}

static bool has_mesh(const pbCompiler *c, const pbBodyWork *b) {
  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    if (c->geoms[i].mesh) return true;
  }
  return false;
}

// Bodies of which a part only would follow, or more than the design knows of.
static pbStatus check_body(const pbCompiler *c, const pbBodyWork *b) {
  const char *wrong = NULL;
  bool follows = is_of_geoms(c, b);
  if (!follows && b->absorbed && has_weight(c, b)) wrong = "its inertia is stated in part, and in part that of geoms";
  if (follows && b->adjusted) wrong = "the compiler bounded or balanced its inertia";
  if (has_mesh(c, b) && b->aligned) wrong = "its frame was moved to its inertia's (joint align, compiler alignfree)";
  if (has_fitted(c, b)) wrong = "a shape of it is fitted to a mesh";

  // Better no design than a wrong one.
  if (!wrong) return pb_ok;
  return pbSpec_Fail(c->spec, pb_unsupported, &b->def->place, "body", b->def->name, "%s, which a design cannot follow", wrong);
}

// ---- copies -----------------------------------------------------------------------------------------------------------
static void take_part(const pbGeomWork *g, int body, pbDesignPart *part) {
  *part = (pbDesignPart){.body = body,
                         .geom = g->id,
                         .mesh = g->mesh ? g->mesh->id : -1,
                         .by_density = isnan(g->def->mass),
                         .mass = g->mass,
                         .density = g->def->density};

  // As it lies in the body, or a mesh before it was centered.
  memcpy(part->pos, g->pos, sizeof part->pos);
  memcpy(part->quat, g->quat, sizeof part->quat);
  memcpy(part->moments, g->inertia, sizeof part->moments);
  PB_ASSERT(g->mass > 0);
  if (g->mesh) stated_frame(g, part->pos, part->quat);
}

static void take_body(pbCompiler *c, const pbBodyWork *b, pbDesign *d, int *parts) {
  bool follows = is_of_geoms(c, b);
  PB_ASSERT(b->id >= 0 && b->id < c->m->nbody);
  d->first[b->id] = *parts;

  for (int i = b->geoms.head; i >= 0; i = c->geoms[i].next) {
    const pbGeomWork *g = &c->geoms[i];
    if (follows && pbCompile_GivesMass(c, g)) {
      take_part(g, b->id, &d->part[(*parts)++]);
      if (g->id >= 0 && isnan(g->def->mass)) c->m->geom_density[g->id] = g->def->density;
    }
    if (g->id < 0 || !g->mesh) continue;

    // One that is seen or touches.
    pbDesignGeom *to = &d->geom[d->geoms++];
    *to = (pbDesignGeom){.geom = g->id, .mesh = g->mesh->id};
    stated_frame(g, to->pos, to->quat);
  }
  d->first[b->id + 1] = *parts;
}

static void take_numbers(const pbMeshWork *work, pbDesignMesh *to) {
  pbMeshSolid solid = pbCompile_Solid(work->def);
  const pbMeshProperties *p = &work->properties;
  to->inertia = (int)solid.inertia;
  to->most = solid.most;

  // How its points are moved.
  memcpy(to->scale, solid.scale, sizeof to->scale);
  memcpy(to->refpos, solid.refpos, sizeof to->refpos);
  memcpy(to->refquat, solid.refquat, sizeof to->refquat);

  // What came of it.
  to->volume = p->volume;
  memcpy(to->center, p->center, sizeof to->center);
  memcpy(to->tensor, p->tensor, sizeof to->tensor);
  memcpy(to->quat, p->quat, sizeof to->quat);
  memcpy(to->moments, p->moments, sizeof to->moments);
}

// The model outlives the spec.
static pbStatus take_mesh(pbCompiler *c, const pbMeshWork *work, pbDesignMesh *to) {
  pbModel *m = c->m;
  const pbMeshDef *def = work->def;
  size_t points = (size_t)def->vertex.count, corners = (size_t)def->face.count;

  // Room even for none.
  double *point = pbContext_AllocArray(c->ctx, points + 1, sizeof *point);
  int *triangle = pbContext_AllocArray(c->ctx, corners + 1, sizeof *triangle);
  *to = (pbDesignMesh){.points = def->vertex.count / 3, .triangles = def->face.count / 3, .point = point, .triangle = triangle};
  if (!point || !triangle) return pbContext_Fail(c->ctx, pb_no_memory, "out of memory for the points of meshes");

  memcpy(point, def->vertex.data, points * sizeof *point);
  if (corners) memcpy(triangle, def->face.data, corners * sizeof *triangle);
  take_numbers(work, to);

  // Where it has its frame to begin with.
  memcpy(m->mesh_center + 3 * work->id, work->properties.center, sizeof work->properties.center);
  memcpy(m->mesh_axes + 4 * work->id, work->properties.quat, sizeof work->properties.quat);
  return pb_ok;
}

static pbDesign *make_design(pbCompiler *c) {
  size_t geoms = (size_t)c->spec->ngeom + 1;
  pbDesign *d = c->m->design = pbContext_Alloc(c->ctx, sizeof *d);
  if (!d) return NULL;

  // Room for as many as there could be.
  d->first = pbContext_AllocArray(c->ctx, (size_t)c->m->nbody + 1, sizeof *d->first);
  d->part = pbContext_AllocArray(c->ctx, geoms, sizeof *d->part);
  d->geom = pbContext_AllocArray(c->ctx, geoms, sizeof *d->geom);
  d->mesh = pbContext_AllocArray(c->ctx, (size_t)c->m->nmesh + 1, sizeof *d->mesh);
  d->theta0 = pbContext_AllocArray(c->ctx, c->m->ntheta, sizeof *d->theta0);
  return d->first && d->part && d->geom && d->mesh && d->theta0 ? d : NULL;
}

pbStatus pbCompile_Design(pbCompiler *c) {
  int parts = 0;
  if (!c->spec->design) return pb_ok;
  pbDesign *d = make_design(c);
  if (!d) return pbContext_Fail(c->ctx, pb_no_memory, "out of memory for the design of the model");

  // Bodies that are left after fusing, by their ids.
  for (int k = 0; k < c->norder; k++) {
    const pbBodyWork *b = &c->bodies[c->order[k]];
    if (b->id < 0) continue;
    PB_TRY(check_body(c, b));
    take_body(c, b, d, &parts);
  }

  for (int i = 0; i < c->spec->nmesh; i++) {
    if (c->meshes[i].id >= 0) PB_TRY(take_mesh(c, &c->meshes[i], &d->mesh[c->meshes[i].id]));
  }

  // Fields that follow are stored by now.
  memcpy(d->theta0, c->m->theta0, c->m->ntheta * sizeof *d->theta0);
  PB_ASSERT(parts <= c->spec->ngeom && d->geoms <= c->spec->ngeom);
  return pb_ok;
}
