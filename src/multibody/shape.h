// Geoms as shapes in the world, for the pairs of geometry/pair.h.
#ifndef PB_SHAPE_H
#define PB_SHAPE_H

#include "multibody/mesh_map.h"

static inline void geom_shape(const NUM(pbWork) *w, int g, NUM(pbShape) *s) {
  s->type = w->m->geom_type[g];
  s->hull = s->type == pb_geomMesh ? w->t->hull + w->m->geom_dataid[g] : NULL;
  memcpy(s->pos, w->geom_xpos + 3 * g, sizeof s->pos);
  memcpy(s->mat, w->geom_xmat + 9 * g, sizeof s->mat);
  memcpy(s->size, w->p.geom_size + 3 * g, sizeof s->size);
  s->motion = s->hull ? NUM(pbMesh_Map)(w, w->m->geom_dataid[g], s->stretch, s->shift) : pb_hullStays;
}

#endif
