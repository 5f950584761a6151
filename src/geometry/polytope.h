// Contacts of convex polytopes (hulls of meshes, boxes, prisms) with each other and with round shapes.
// The differences of their points, M = {a - b}, are a polytope, too: shapes are apart where 0 lies outside of it, and their depth
// is the distance of 0 from its nearest facet. As in convex.h, with n the unit normal from shape 1 to shape 2,
//   sigma(n) = max over M of n . m,   distance = max over n of -sigma(n).
// A search in doubles finds the corners of M that carry the normal: the nearest point of M from outside (polytope_gjk.c; Gilbert,
// Johnson, Keerthi 1988), the nearest facet from inside (polytope_epa.c; van den Bergen 2001), carried on until no corner of M is
// beyond it, so that it is the nearest for certain. polytope.c makes contacts of them in the number type.
// Spheres and capsules are a point and a segment with a radius.
#ifndef PB_POLYTOPE_H
#define PB_POLYTOPE_H

#include "geometry/hull.h"
#include "geometry/primitive.h"
#include "model/mesh.h"
#include "model/model.h"

enum { PB_OWN_CORNERS = 8 };
#define PB_ALIGNED 0.996   // cosine (MuJoCo 4.0's): faces whose normals are nearer to that of contact lie flat
#define PB_LEVEL   0.0888  // sine (the same): edges that are nearer to right angles with it

// A shape as the search sees it, without its radius. Corners are numbered: those of hulls by the hull, of boxes by the bits of
// their signs, the ends of capsules 0 (below) and 1.
typedef struct pbSupport {
  int type;     // pb_geom*
  int corners;  // 0: round (cylinder, ellipsoid)
  const pbMeshHull *hull;
  double own[3 * PB_OWN_CORNERS];  // corners of what is no hull, in its frame
  double pos[3], mat[9], size[3];  // pos: from the center of shape 1; mat: of a hull whose points moved with their stretch
  bool moved;
  double radius;  // of spheres and capsules: around the core
} pbSupport;

// A corner of M. Of a round shape id is -1.
typedef struct pbDifference {
  int id[2];
  double m[3];
} pbDifference;

typedef struct pbPolytopePair {
  pbSupport shape[2];
  double scale;           // size of M
  double away;            // of the shapes from the origin
  bool round;             // one shape is a cylinder or an ellipsoid
  double gap;             // how far M may reach beyond the plane through what counts as its point next to 0
  struct pbGrown *grown;  // where a polytope is kept for searches close by; NULL: nowhere
} pbPolytopePair;

// A polytope of corners of M that grew where it is nearest to 0 (polytope_epa.c).
enum { PB_GROWN_CORNERS = 500, PB_GROWN_FACES = 1100 };
typedef struct pbGrownFace {
  short corner[3], next[3];  // counterclockwise from outside; next[k]: across corner k to k + 1
  bool dead;
  double n[3], low;  // all points of the face are at least this far along n
} pbGrownFace;
typedef struct pbGrown {
  pbPolytopePair *pair;
  int corners, faces;
  pbDifference corner[PB_GROWN_CORNERS];
  pbGrownFace face[PB_GROWN_FACES];
  short start[PB_GROWN_CORNERS];  // new face whose first side starts at a corner, -1: none
  short open[PB_GROWN_FACES], opens, spare[PB_GROWN_FACES], spares;
  bool whole;  // it ended at a facet of M, and may be used again
  bool moved;  // its corners, since it grew from nothing
} pbGrown;

// The largest feature of a shape that lies flat across the normal, or nearly so.
typedef struct pbFlat {
  int sides;    // 1: a corner, 2: an edge, else a face
  int edge[2];  // its corners
  int face;     // of a hull: its polygon; of a box: twice the axis, and one more for its upper face
} pbFlat;

// Of a polytope with a cylinder or an ellipsoid: what makes the normal stationary. `u` is the normal outward from the polytope.
typedef enum pbRoundKind {
  pb_roundFixed,   // nothing that was found (degenerate): it stands still
  pb_roundFace,    // three corners
  pb_roundCap,     // the cylinder's axis
  pb_roundSide,    // a corner, radially across the cylinder's axis
  pb_roundCross,   // an edge and the cylinder's axis
  pb_roundCircle,  // at right angles to an edge
  pb_roundSphere   // a corner: stationary among all directions
} pbRoundKind;
typedef struct pbRound {
  pbRoundKind kind;
  int body;                    // the polytope's number; the other one is round
  int id[3];                   // corners of the polytope
  signed char sign[3];         // features of the round shape that are furthest against u, see core_support
  double u[3], tangent[2][3];  // Sphere: tangents at u
  double inverse[3];           // Sphere: inverse of the 2x2 Hessian of sigma (xx, xy, yy); Circle: its one number
} pbRound;

// What carries the normal. 1: the corner of M next to 0; 2: the edge; 3: a facet. Of a facet that is a face of one shape id of
// the other is the same three times; of one of two edges they are of corners (a0 b0), (a1 b0), (a0 b1).
typedef struct pbPolytopeNormal {
  int count;  // corners of M; 0: the normal stands still (degenerate), and id[0] is the support
  int id[3][2];
  double n[3], dist, scale;
  pbFlat flat[2];  // of polytopes, also capsules and spheres
  bool lies;       // a face or a line of shape 2 lies on the top of a height field's prism: contacts are over that alone
  bool is_round;
  pbRound round;
} pbPolytopeNormal;

#if !PB_IS_COMPLEX && !defined(PB_NUMBER_SUFFIX)
// m of M furthest along d.
void pbPolytope_Support(const pbPolytopePair *pair, const double d[3], pbDifference *out);
double pbPolytope_Sigma(const pbPolytopePair *pair, const double n[3]);

typedef enum pbGjkResult { pb_gjkApart, pb_gjkNear, pb_gjkOverlap } pbGjkResult;
// Apart: further than reach. Near: simplex (1 to 3 corners) holds the point v of M next to 0. Overlap, or less than 1e-10 of the
// scale apart: simplex has 1 to 4 corners.
pbGjkResult pbPolytope_Gjk(pbPolytopePair *pair, double reach, pbDifference simplex[4], int *count, double v[3]);
// With a round shape: the minimum of sigma next to out->n, to rounding.
void pbPolytope_Polish(pbPolytopePair *pair, pbPolytopeNormal *out);
// The facet of M whose plane is nearest to 0, or (negative depth) which 0 is furthest beyond; to `accuracy`. False: flat M.
bool pbPolytope_Epa(pbPolytopePair *pair, double accuracy, const pbDifference *simplex, int count, pbDifference facet[3],
                    double n[3], double *depth);
// The same from the polytope that pair->grown holds, of the same shapes close by; false: it is of no use here.
bool pbPolytope_EpaAgain(pbPolytopePair *pair, double accuracy, pbDifference facet[3], double n[3], double *depth);
// The corner of M of these corners of polytopes.
void pbPolytope_Difference(const pbPolytopePair *pair, const int id[2], double m[3]);
// Invariants, slowly (polytope_check.c).
bool pbPolytope_IsLeast(const pbPolytopePair *pair, const pbPolytopeNormal *found, double dist);
double pbPolytope_Unevenness(const pbSupport *shape);
double pbPolytope_Outside(const pbSupport *shape, const double point[3]);
#endif

// Real parts of a shape; the search puts in the rest.
static inline void to_support(const NUM(pbShape) *shape, pbSupport *s) {
  s->type = shape->type;
  s->hull = shape->hull;
  for (int i = 0; i < 3; i++) {
    s->pos[i] = re(shape->pos[i]);
    s->size[i] = re(shape->size[i]);
  }
  for (int i = 0; i < 9; i++) s->mat[i] = re(shape->mat[i]);

  s->moved = shape->motion == pb_hullMoves;
  if (s->moved) hull_move(shape, s->pos, s->mat);
}

// shape: from to_support, in the world. False: no contact within margin.
bool pbPolytope_Search(pbPolytopePair *pair, double margin, pbPolytopeNormal *out);
// The same of one of many poses of two shapes close to each other: what one search grew the next ones go on from. grown->whole:
// false before the first.
bool pbPolytope_SearchNear(pbPolytopePair *pair, double margin, pbGrown *grown, pbPolytopeNormal *out);

#endif
