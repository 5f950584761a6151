// Pairs again in complex numbers, with what a search has found in doubles: derivatives of contacts by complex step.
#ifndef PB_SEARCHED_H
#define PB_SEARCHED_H

#include "geometry/convex.h"
#include "geometry/pair.h"
#include "geometry/polytope.h"
#include "geometry/primitive.h"

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

// The pairs that go by the search of convex.h, which is done once for all columns.
static inline bool is_convex(int type1, int type2) {
  if (type1 == pb_geomPlane) return false;
  if (type1 == pb_geomSphere) return type2 == pb_geomEllipsoid;
  if (type1 == pb_geomCapsule) return type2 == pb_geomEllipsoid || type2 == pb_geomCylinder;
  return type1 == pb_geomEllipsoid || type1 == pb_geomCylinder;
}

// What a search found, if the pair goes by one. It looks at real parts only: one normal serves all columns.
typedef struct searched {
  bool convex, polytope;
  pbConvexNormal normal;
  pbPolytopeNormal facet;
} searched;

static inline bool search(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, searched *s) {
  s->polytope = s->polytope || shape1->hull || shape2->hull;
  s->convex = !s->polytope && is_convex(shape1->type, shape2->type);
  if (s->convex) {
    pbCore core1, core2;
    to_core(shape1, &core1);
    to_core(shape2, &core2);
    return pbConvex_Search(&core1, &core2, margin, &s->normal);
  }
  if (!s->polytope) return true;

  pbPolytopePair pair;
  to_support(shape1, &pair.shape[0]);
  to_support(shape2, &pair.shape[1]);
  return pbPolytope_Search(&pair, margin, &s->facet);
}

static inline int collide_again(const searched *s, const pbShape_c *c1, const pbShape_c *c2, double margin,
                                pbContactPoint_c *contacts) {
  if (s->convex) return pbConvex_Contacts_c(c1, c2, margin, &s->normal, contacts);
  if (s->polytope) return pbPolytope_Contacts_c(c1, c2, margin, &s->facet, contacts);
  return pbPair_Collide_c(c1, c2, margin, contacts);
}

#endif
