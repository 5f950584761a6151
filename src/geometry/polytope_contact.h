// Contacts of two polytopes while they are made (polytope.c), and what their way back reads (polytope_rates.c): where each point
// came from.
#ifndef PB_POLYTOPE_CONTACT_H
#define PB_POLYTOPE_CONTACT_H

#include "geometry/polygon.h"
#include "geometry/polytope.h"

typedef struct NUM(pbTouch) {
  const NUM(pbShape) *shape[2];
  const pbPolytopeNormal *found;
  num n[3], dist, radius[2];
  num deepest[3];                     // the deepest point, on the core of shape
  int deepest_shape, deepest_corner;  // of two polytopes: its corner there; -1: two edges cross
  double margin;
} NUM(pbTouch);

// A corner of what is left of a polygon: one that was given (q = -1: number p), or where the line from p to q crosses a side
// of the face.
typedef struct NUM(pbCut) {
  int p, q, side;
  num x[3];
} NUM(pbCut);

enum { PB_CUTS = 320 };
typedef struct NUM(pbManifold) {
  int count, ref;  // ref: the shape whose face the points were clipped to; they are of the other one's core
  int taken;       // which points are left of too many, as one number
  bool edges;      // ends of two edges' overlap: `from` is the end
  bool level;      // corners of what two faces have in common, equally deep but for a small tilt
  int cuts;        // beyond PB_CUTS they are not stored
  num point[PB_POLYGON_MOST][3], dist[PB_POLYGON_MOST];
  int from[PB_POLYGON_MOST];      // number of its cut
  bool deepest[PB_POLYGON_MOST];  // its distance is the deepest point's
  int low;                        // of those that were left out the lowest, stored behind the others; -1: none was
  double uneven, tie;             // how far the faces are from plane; distances closer than this are one
  NUM(pbCut) cut[PB_CUTS];
} NUM(pbManifold);

// Corners of a flat feature: of a face counterclockwise from outside, or of an edge. Of a face with more than PB_POLYGON_SIDES
// some, spread evenly. Returns their number; 0 or 1: nothing is flat.
static inline int flat_ids(const NUM(pbShape) *s, const pbFlat *flat, int id[PB_POLYGON_SIDES]) {
  if (flat->sides <= 2) {
    for (int k = 0; k < flat->sides; k++) id[k] = flat->edge[k];
    return flat->sides;
  }

  // A face of a hull, of a box.
  if (s->hull) {
    const int *around = s->hull->around + s->hull->first[flat->face];
    int count = flat->sides < PB_POLYGON_SIDES ? flat->sides : PB_POLYGON_SIDES;
    for (int k = 0; k < count; k++) id[k] = around[k * flat->sides / count];
    return count;
  }

  int axis = flat->face / 2, upper = flat->face % 2, u = 1 << (axis + 1) % 3, v = 1 << (axis + 2) % 3, base = upper << axis;
  id[0] = base;
  id[1] = base | (upper ? u : v);
  id[2] = base | u | v;
  id[3] = base | (upper ? v : u);

  return 4;
}

// Is the normal that of a face of this shape?
static inline bool carries_normal(const pbPolytopeNormal *f, int shape) {
  if (f->is_round) return f->round.kind == (shape == f->round.body ? pb_roundFace : pb_roundCap);
  return f->count == 3 && f->id[0][!shape] == f->id[1][!shape] && f->id[0][!shape] == f->id[2][!shape];
}

// The lines a[0] a[1] and b[0] b[1] cross seen along n: where on the first. Parallel: its middle.
static inline void lines_crossing(const num n[3], const num a[2][3], const num b[2][3], num out[3]) {
  num e1[3], e2[3], dif[3], side[3];

  v3_sub(e1, a[1], a[0]);
  v3_sub(e2, b[1], b[0]);
  v3_sub(dif, b[0], a[0]);
  v3_cross(side, n, e2);
  num across = v3_dot(e1, side);
  v3_along(out, a[0], e1, re(across) != 0 ? num_div(v3_dot(dif, side), across) : 0.5);
}

// Of a polytope and a round shape: normal, distance and deepest point.
void NUM(pbPolytope_SetRound)(NUM(pbTouch) *p);
// The cap of a cylinder that looks along u as a hexagon fixed in it, or the line of its side. Returns their number, 0: neither.
int NUM(pbPolytope_RoundCorners)(const NUM(pbShape) *s, const num u[3], num (*out)[3]);

// Makes the contacts, as pbPolytope_Contacts; source: number of each in the manifold, -1: the deepest point.
int NUM(pbPolytope_Touch)(NUM(pbTouch) *p, NUM(pbManifold) *m, NUM(pbContactPoint) *contacts, int *source);
void NUM(pbPolytope_Corner)(const NUM(pbShape) *s, int id, num out[3]);
// Moves the deepest point of a polytope and a cylinder to where both are, if flat features lie on each other there; corner: those
// of the polytope's flat feature, or none.
void NUM(pbPolytope_MeetCylinder)(NUM(pbTouch) *p, const NUM(pbManifold) *m, int sides, const num (*corner)[3]);
// The same of two faces whose sides touch, seen along the normal, so that they have no corner in common.
void NUM(pbPolytope_MeetFaces)(NUM(pbTouch) *p, const int sides[2], const num (*corner)[PB_POLYGON_SIDES][3]);
// Of the round shape the point furthest against u, its features frozen.
void NUM(pbPolytope_RoundPoint)(const NUM(pbTouch) *p, const num u[3], num out[3]);

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
// An invariant of theirs (polytope_check.c).
bool pbPolytope_AreWithin(const pbTouch_r *p, const pbManifold_r *m, int count, const pbContactPoint_r *contacts);
#endif

#if !PB_IS_COMPLEX
// Jacobians of the first `count` contacts. False: not by this way (round shapes, very many cuts).
bool NUM(pbPolytope_Rates)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, const pbPolytopeNormal *found,
                           int count, pbContactJacobian *jacobians);
// As pbPair_PullStrain, added to strain_bar.
bool NUM(pbPolytope_PullStrain)(const NUM(pbShape) shape[2], double margin, const pbPolytopeNormal *found, int count,
                                const pbContactBar *bar, double strain_bar[2][6]);
#endif

#endif
