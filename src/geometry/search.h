// What the search of a pair found (convex.h, polytope.h), kept with its contacts: derivatives start from there. Plain doubles.
#ifndef PB_SEARCH_H
#define PB_SEARCH_H

#include "geometry/convex.h"
#include "geometry/polytope.h"

typedef enum pbSearchKind { pb_searchedNothing, pb_searchedConvex, pb_searchedPolytope } pbSearchKind;

typedef struct pbSearched {
  pbSearchKind kind;
  union {
    pbConvexNormal normal;
    pbPolytopeNormal facet;
  };
} pbSearched;

// The pairs whose contacts go by a search, and which; type1 <= type2.
static inline pbSearchKind pbSearch_KindOf(int type1, int type2) {
  bool hulls = type1 == pb_geomHfield || type2 == pb_geomMesh;
  if (type1 == pb_geomPlane || type2 == pb_geomHfield) return pb_searchedNothing;
  if (hulls) return type1 == pb_geomSphere ? pb_searchedNothing : pb_searchedPolytope;

  bool convex = type1 == pb_geomEllipsoid || type1 == pb_geomCylinder;
  if (type1 == pb_geomSphere) convex = type2 == pb_geomEllipsoid;
  if (type1 == pb_geomCapsule) convex = type2 == pb_geomEllipsoid || type2 == pb_geomCylinder;
  return convex ? pb_searchedConvex : pb_searchedNothing;
}

#endif
