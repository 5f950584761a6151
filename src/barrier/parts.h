// What the sources of this folder have in common.
#ifndef PB_BARRIER_PARTS_H
#define PB_BARRIER_PARTS_H

#include "barrier/barrier.h"
#include "barrier/tree.h"
#include "base/arena.h"

struct pbCollision {
  pbContext *ctx;
  void *memory;
  int vertices, groups, points, edges, triangles, planes;
  bool planar;
  pbBarrierFriction friction;
  int *group, *point, *edge, *triangle, *plane;
  bool *collide;
  int *star, *star_triangle;  // triangles of vertex v, in order: star_triangle[star[v]..star[v + 1])
  int bare_points, bare_edges, lone_points;
  int *bare_point, *bare_edge;  // in no triangle: numbers into point, edge
  int *lone_point;              // in no edge either
  pbEnergy *contact_energy[pb_stencilTypes], *friction_energy[pb_stencilTypes];
};

// Energies of all types, those of friction as the collision asks for.
pbStatus pbCollision_MakeEnergies(pbCollision *c);

// Number of pair (group a, group b): the entry of kappa and mu that counts
static inline int pbCollision_Pair(const pbCollision *c, int a, int b) { return a < b ? a * c->groups + b : b * c->groups + a; }

// A list of stencils of one type
typedef struct pbStencilRow {
  int vertex[4];
  double weight;
} pbStencilRow;
typedef struct pbStencilList {
  pbStencils view;
  void *memory;       // behind the arrays of the view
  pbStencilRow *row;  // as found, before they are sorted and joined; twice as many, to sort
  int rows, capacity;
  int found;  // by the last search: more than `capacity` where it was too small
  int most;   // found by any search: where room was too small, others may follow before it grows
} pbStencilList;

struct pbBarrier {
  pbContext *ctx;
  char limit[256];  // see pbBarrier_Limit
  const pbCollision *collision;
  char error[512];
  void *memory;
  pbBoxTree triangles, edges, bare_edges, lone_points;
  int *overlaps, *first;  // room: for a query of a tree, one per vertex
  bool begun;
  double dhat, eps_v;  // as of the last Update or Begin, for the views
  pbStencilList contact[pb_stencilTypes], friction[pb_stencilTypes];
};

// Kinds of pairs, by the vertices of both
typedef enum pbPairKind { pb_pairPP, pb_pairPE, pb_pairPT, pb_pairEE, pb_pairPN, pb_pairET } pbPairKind;
typedef struct pbPair {
  pbPairKind kind;
  int na, nb;
  int number_a, number_b;  // of the primitives in their lists
  const int *a, *b;        // vertices
  double xi;               // sum of radii
} pbPair;
typedef struct pbPairs {  // what to look for
  const double *x, *dx;   // positions; moving to x + dx, or NULL: at rest
  const double *radius;
  double reach;                                       // gaps below this
  bool crossings;                                     // edges with triangles instead of pairs that have potentials
  pbStatus (*visit)(void *user, const pbPair *pair);  // NULL: only the trees are made
  void *user;
} pbPairs;
// All pairs that collide, have no vertex in common and whose boxes come closer than `reach`; some others too. Any order.
pbStatus pbBarrier_Pairs(pbBarrier *b, const pbPairs *pairs, bool build);
// What a pair is called in messages: "point 3 (vertex 7) and triangle 1 (vertices 2 4 5)"
typedef struct pbPairText {
  char text[200];
} pbPairText;
pbPairText pbPair_Text(const pbBarrier *b, const pbPair *pair);
// Height of a point over the plane through three
double pbPair_OverPlane(const double *point, const double *plane);
// Positions of the vertices of a primitive side by side
void pbPair_Gather(const double *x, const int *vertex, int count, double *out);

// Records the text of a failure (pbBarrier_Error) and returns its status.
pbStatus pbBarrier_Fail(pbBarrier *b, pbStatus status, const char *format, ...) PB_PRINTF(3, 4);
pbStatus pbBarrier_CheckValues(pbBarrier *b, const pbBarrierValues *v, bool friction);
pbStatus pbBarrier_CheckPositions(pbBarrier *b, const char *name, const double *x);

#endif
