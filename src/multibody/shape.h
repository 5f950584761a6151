// Geoms as shapes in the world, for the pairs of geometry/pair.h.
#ifndef PB_SHAPE_H
#define PB_SHAPE_H

#include "eval/mechanism.h"
#include "model/exposed.h"
#include "multibody/mesh_map.h"

// The values in theta of something that is exposed.
static inline const num *exposed_values(const NUM(pbMechanism) *w, int exposed) {
  return w->p.timestep - (w->m->timestep - w->m->theta0) + w->m->exposed[exposed].offset;
}

// The hull of a mesh, NULL where there is none, with its vertices where they are parameters.
static inline void mesh_hull(const NUM(pbMechanism) *w, int mesh, NUM(pbShape) *s) {
  int exposed = mesh < 0 ? -1 : pb_exposedMesh(w->m, mesh);
  s->hull = mesh < 0 ? NULL : w->t->hull + mesh;
  s->vertex = NULL;
  s->nudged = -1;
  if (exposed < 0) return;

  s->hull = w->own_hull + exposed;
  s->vertex = exposed_values(w, exposed);
}

// A height field as it is now; exposed: its number, or -1.
static inline pbTerrain field_terrain(const NUM(pbMechanism) *w, int field, int *exposed) {
  *exposed = pb_exposedOf(w->m, pb_objHfield, field);
  return *exposed < 0 ? pbTerrain_Compiled(w->m, field) : w->own_terrain[*exposed];
}

static inline void geom_shape(const NUM(pbMechanism) *w, int g, NUM(pbShape) *s) {
  s->type = w->m->geom_type[g];
  int mesh = s->type == pb_geomMesh ? w->m->geom_dataid[g] : -1;
  mesh_hull(w, mesh, s);
  memcpy(s->pos, w->geom_xpos + 3 * g, sizeof s->pos);
  memcpy(s->mat, w->geom_xmat + 9 * g, sizeof s->mat);
  memcpy(s->size, w->p.geom_size + 3 * g, sizeof s->size);
  s->motion = mesh >= 0 ? NUM(pbMesh_Map)(w, mesh, s->stretch, s->shift) : pb_hullStays;
}

#endif
