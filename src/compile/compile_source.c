// What a model was made from, kept in it where the spec asks for it: the spec in the order of the model, so that an element has
// the number of what it became. Frames, fused bodies, dropped geoms and settings of attached models are gone; poses are those of
// the model's fields, which pbModel_Spec puts in.
// Tests: tests/oracle/test_export.py, tests/unit/test_export.c.
#include <string.h>

#include "base/assert.h"
#include "compile/compile.h"
#include "compile/spec_pool.h"

// Those that stand in bodies, at the numbers that they have in the model.
#define PLACE(Kind, member, counted, total)                                 \
  do {                                                                      \
    pb##Kind##Def *list = pbCompile_Take(c, (size_t)(total), sizeof *list); \
    if (!list) return pb_no_memory;                                         \
    for (int i = 0; i < s->counted; i++) {                                  \
      if (c->member[i].id < 0) continue;                                    \
      PB_ASSERT(c->member[i].id < (total));                                 \
      pb##Kind##Def *def = &list[c->member[i].id];                          \
      *def = s->member[i];                                                  \
      def->body = c->bodies[c->member[i].body].id;                          \
      def->frame = -1;                                                      \
    }                                                                       \
    flat->member = list;                                                    \
    flat->counted = total;                                                  \
  } while (0)

static pbStatus place_items(pbCompiler *c, pbSpec *flat) {
  const pbSpec *s = c->spec;
  const pbModel *m = c->m;
  PLACE(Joint, joints, njoint, m->njnt);
  PLACE(Geom, geoms, ngeom, m->ngeom);
  PLACE(Site, sites, nsite, m->nsite);
  PLACE(Camera, cameras, ncamera, m->ncam);
  PLACE(Light, lights, nlight, m->nlight);
  return pb_ok;
}

static pbStatus place_bodies(pbCompiler *c, pbSpec *flat) {
  const pbModel *m = c->m;
  pbBodyDef *list = pbCompile_Take(c, (size_t)m->nbody, sizeof *list);
  if (!list) return pb_no_memory;

  for (int i = 0; i < c->spec->nbody; i++) {
    int id = c->bodies[i].id;
    if (id < 0) continue;

    // What stands in it is at its place already.
    list[id] = c->spec->bodies[i];
    if (id) list[id].parent = m->body_parentid[id];
    list[id].frame = list[id].inertial_frame = -1;
  }

  flat->bodies = list;
  flat->nbody = m->nbody;
  flat->frames = NULL;
  flat->nframe = 0;
  return pb_ok;
}

// Both lists are sorted by the bodies.
static pbStatus place_pairs(pbCompiler *c, pbSpec *flat) {
  pbPairDef *pairs = pbCompile_Take(c, (size_t)c->m->npair, sizeof *pairs);
  pbExcludeDef *excludes = pbCompile_Take(c, (size_t)c->m->nexclude, sizeof *excludes);
  if (!pairs || !excludes) return pb_no_memory;

  // As they were sorted when they were resolved.
  for (int i = 0; i < c->m->npair; i++) pairs[i] = *c->pairs[i].def;
  for (int i = 0; i < c->m->nexclude; i++) excludes[i] = *c->excludes[i].def;
  flat->pairs = pairs;
  flat->excludes = excludes;
  return pb_ok;
}

// With discardvisual the model has no materials, and of meshes those that act.
static pbStatus drop_looks(pbCompiler *c, pbSpec *flat) {
  const pbSpec *s = c->spec;
  pbMeshDef *meshes = pbCompile_Take(c, (size_t)s->nmesh, sizeof *meshes);
  pbTendonDef *tendons = pbCompile_Take(c, (size_t)s->ntendon, sizeof *tendons);
  if (!meshes || !tendons) return pb_no_memory;

  // In their order.
  flat->nmesh = 0;
  for (int i = 0; i < s->nmesh; i++) {
    if (c->meshes[i].done) meshes[flat->nmesh++] = s->meshes[i];
  }
  for (int i = 0; i < s->ntendon; i++) {
    tendons[i] = s->tendons[i];
    tendons[i].material = "";
  }

  // These lists are copies by now.
  for (int i = 0; i < flat->ngeom; i++) flat->geoms[i].material = "";
  for (int i = 0; i < flat->nsite; i++) flat->sites[i].material = "";

  flat->meshes = meshes;
  flat->tendons = tendons;
  flat->nvisual = 0;
  return pb_ok;
}

// All elements go by the settings of the whole.
static void forget_models(pbSpec *spec) {
  for (int kind = 0; kind < pb_specElements; kind++) {
    for (int i = 0; i < pbSpec_Count(spec, (pbSpecKind)kind); i++) {
      pbFrameDef *any = pbSpec_At(spec, (pbSpecKind)kind, i);  // all begin alike
      any->place.model = 0;
    }
  }
}

void pbSpec_KeepSource(pbSpec *spec) { spec->pool->source = true; }

pbStatus pbCompile_Source(pbCompiler *c) {
  pbSpec flat = *c->spec;
  if (!flat.pool->source) return pb_ok;

  PB_TRY(place_bodies(c, &flat));
  PB_TRY(place_items(c, &flat));
  PB_TRY(place_pairs(c, &flat));
  if (flat.compiler.discardvisual) PB_TRY(drop_looks(c, &flat));

  flat.attached = NULL;
  flat.nattached = 0;

  // With texts and lists of its own: the spec may go.
  PB_TRY(pbSpec_Copy(c->ctx, &flat, &c->m->source));
  c->m->release_source = pbSpec_Destroy;
  forget_models(c->m->source);
  return pb_ok;
}
