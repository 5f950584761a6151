// Pairs again in complex numbers, with what a search has found in doubles: derivatives of contacts by complex step.
#ifndef PB_SEARCHED_H
#define PB_SEARCHED_H

#include "geometry/pair.h"
#include "geometry/primitive.h"
#include "geometry/search.h"

static inline void lift_shape(const NUM(pbShape) *in, pbShape_c *out) {
  out->type = in->type;
  out->hull = in->hull;
  out->vertex = NULL;  // the hull has their real parts
  out->nudged = -1;
  out->motion = in->motion;
  if (in->motion) {
    for (int i = 0; i < 9; i++) out->stretch[i] = in->stretch[i];
    for (int i = 0; i < 3; i++) out->shift[i] = in->shift[i];
  }
  for (int i = 0; i < 3; i++) {
    out->pos[i] = in->pos[i];
    out->size[i] = in->size[i];
  }
  for (int i = 0; i < 9; i++) out->mat[i] = in->mat[i];
}

// What the search finds, or what was found before (NULL: nothing was kept). It looks at real parts only: one normal serves all
// columns. NULL: apart.
static inline const pbSearched *search(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin,
                                       const pbSearched *kept, pbSearched *room) {
  if (kept) return kept;
  *room = (pbSearched){.kind = pbSearch_KindOf(shape1->type, shape2->type)};
  if (room->kind == pb_searchedNothing) return room;
  return NUM(pbPair_Search)(shape1, shape2, margin, room) ? room : NULL;
}

// At least the first `most` contacts, where there are as many.
static inline int collide_again(const pbSearched *s, const pbShape_c *c1, const pbShape_c *c2, double margin, int most,
                                pbContactPoint_c *contacts) {
  if (s->kind == pb_searchedConvex) return pbConvex_Contacts_c(c1, c2, margin, &s->normal, most, contacts);
  if (s->kind == pb_searchedPolytope) return pbPolytope_Contacts_c(c1, c2, margin, &s->facet, contacts);
  return pbPair_Collide_c(c1, c2, margin, contacts);
}

#endif
