// Contact without intersections: barrier potentials between points, edges, triangles and planes that move with vertices, and
// friction on top of them (Li et al. 2020, Incremental Potential Contact; thickness: Li, Kaufman, Jiang 2021).
//
// Everything is a formula over a few vertices (pullback/energy.h), so forces, Hessians and all derivatives, by x, rest positions
// X, start of the step y and every parameter, come from the one formula. Here is the geometry: which few vertices, at which
// positions.
//
// The potential is a sum over pairs of primitives, each a function of the distance d between the two:
//
//   kappa dhat^2 B(s),   B(s) = -(1 - s)^2 ln s for s < 1, else 0,   s = (d^2 - xi^2) / ((dhat + xi)^2 - xi^2)
//
// xi is the sum of both groups' radii: the gap g = d - xi never closes, dhat is the gap at which the force begins. kappa is in
// N/m: the force of a pair is 4.33 kappa dhat at half the gap dhat (xi = 0), so kappa = (force a pair carries) / (4 dhat) lets it
// settle there; any kappa keeps bodies apart. Twice differentiable in d everywhere.
//
// Pairs are point-triangle and edge-edge, and between what belongs to no triangle also point-edge and point-point, and each point
// with each plane. A pair is evaluated on its closest features. Edge-edge pairs fade out where edges become parallel and their
// distance has no derivative (weight m below; threshold 1e-3 |e1|^2 |e2|^2 at rest). Triangles of one surface count as the
// surface: what lies over an edge or a vertex of it is not counted once per triangle there (Li et al. 2023, inclusion and
// exclusion), so a point over a flat surface feels the same force wherever the triangles meet. The sum has a continuous gradient
// in x.
#ifndef PB_BARRIER_H
#define PB_BARRIER_H

#include <pullback/energy.h>

typedef enum pbBarrierFriction {
  pb_barrierNone,
  pb_barrierLagged,   // normal force and tangents of the start of the step: a potential
  pb_barrierImplicit  // those of its end: a force without potential, Hessians are unsymmetric
} pbBarrierFriction;

// What can collide. Vertices belong to groups (a cloth, a solid, the shape of a rigid body); those of one primitive to the same.
typedef struct pbCollisionDef {
  int vertices;         // numbered 0..vertices-1; positions are vertices x 3
  const int *group;     // of each vertex; -1: in no primitive
  int groups;           //
  const bool *collide;  // groups x groups, symmetric, the diagonal is contact with itself; NULL: all with all
  int points;           //
  const int *point;     // also spheres (radius of the group)
  int edges;            //
  const int *edge;      // x 2; also capsules
  int triangles;        //
  const int *triangle;  // x 3
  int planes;           // half spaces
  const int *plane;     // x 3: o a b in it, (a - o) x (b - o) points to the free side
  bool planar;          // all z are the same: edges have no direction to cross in, so points against edges (no triangles)
  pbBarrierFriction friction;
} pbCollisionDef;

typedef struct pbCollision pbCollision;  // const after creation, shared by threads
// pb_bad_input names the primitive: vertex out of range, twice in it, or of two groups.
PB_NODISCARD pbStatus pbCollision_Create(pbContext *ctx, const pbCollisionDef *def, pbCollision **collision);
void pbCollision_Destroy(pbCollision *collision);

// Edges of triangles, each once, smaller vertex first, sorted; `edge` has room for 3 per triangle. Returns how many.
int pbCollision_Edges(const int *triangle, int triangles, int *edge);
// Vertices of primitives of `size` vertices, each once, sorted; `point` has room for count * size. Returns how many.
int pbCollision_Points(const int *primitive, int count, int size, int *point);

// Values the potentials depend on: arguments, all differentiable.
typedef struct pbBarrierValues {
  const double *kappa;   // groups x groups, N/m; read at (smaller, larger group)
  const double *mu;      // groups x groups, friction coefficient; may be NULL without friction
  const double *radius;  // groups, m; 0: the surface itself
  double dhat;           // m: gap at which forces begin
  double eps_v;          // m/s: below this sliding speed friction is the smooth rise from zero
} pbBarrierValues;
typedef struct pbBarrierBar {  // added to; NULL: not wanted
  double *kappa, *mu, *radius, *dhat, *eps_v;
} pbBarrierBar;

typedef enum pbStencilType {
  pb_stencilPP,   // 2 vertices: point, point
  pb_stencilPE,   // 3: point, edge
  pb_stencilPT,   // 4: point, triangle
  pb_stencilEE,   // 4: edge, edge, closest inside of both
  pb_stencilEPE,  // 4: edge, edge, near parallel; the first vertex is closest to the inside of the second edge
  pb_stencilEPP,  // 4: edge, edge, near parallel; first and third vertex are closest
  pb_stencilPN,   // 4: point, plane
  pb_stencilTypes
} pbStencilType;
extern const int pbStencil_Points[pb_stencilTypes];

// Parameters of the formulas, in this order; contact has the first four.
enum {
  pb_parameterWeight,
  pb_parameterKappa,
  pb_parameterXi,
  pb_parameterDhat,
  pb_parameterMu,
  pb_parameterEps,
  pb_stencilParameters
};

// Active stencils of one type, sorted by vertices: ready for pbElements.
typedef struct pbStencils {
  const pbEnergy *energy;
  int points, count;
  const int *vertex;                              // count x points
  const int *pair;                                // count: smaller group * groups + larger: whose kappa, mu and radii
  const double *parameter[pb_stencilParameters];  // of each: weight, kappa, xi, mu one per stencil, others shared
  int stride[pb_stencilParameters];
  double *bar[pb_stencilParameters];  // room for cotangents of what has one per stencil (pbStencils_Pullback)
} pbStencils;

typedef struct pbBarrier pbBarrier;  // lists and working memory of one thread
// `stencils`: room for as many of each type, of contact and of friction; 0: in keeping with the primitives. Memory from ctx.
PB_NODISCARD pbStatus pbBarrier_Create(pbContext *ctx, const pbCollision *collision, int stencils, pbBarrier **barrier);
void pbBarrier_Destroy(pbBarrier *barrier);
// Text of the last failure of the calls below; the context's is left alone.
const char *pbBarrier_Error(const pbBarrier *barrier);

// Call at the start of a step, before the others: positions y fix the search tree and the stencils of lagged friction. X: rest
// positions.
// pb_bad_input: values out of range; pb_not_finite: a position, with its vertex; pb_capacity: more stencils than there is room
// for, until pbBarrier_Grow. No call but that one allocates.
PB_NODISCARD pbStatus pbBarrier_Begin(pbBarrier *barrier, const pbBarrierValues *values, const double *y, const double *X);
// Stencils active at x, and those of implicit friction. Lists stay until the next call, and are the same for the same positions.
PB_NODISCARD pbStatus pbBarrier_Update(pbBarrier *barrier, const pbBarrierValues *values, const double *x, const double *X);

// Room for the most that any Begin or Update found, and half as many again, where there is less; pb_no_memory: all is as before.
PB_NODISCARD pbStatus pbBarrier_Grow(pbBarrier *barrier);
// Stencils of a type that there is room for, contact and friction together.
size_t pbBarrier_Room(const pbBarrier *barrier, int type);

const pbStencils *pbBarrier_Contacts(const pbBarrier *barrier, pbStencilType type);  // as of Update
const pbStencils *pbBarrier_Friction(const pbBarrier *barrier, pbStencilType type);  // as of Begin (lagged) or Update (implicit)
int pbBarrier_ContactCount(const pbBarrier *barrier);                                // stencils of all types

// For pbEnergy_Evaluate. X is needed by EE, EPE and EPP alone; y and h by friction.
pbElements pbStencils_Elements(const pbStencils *stencils, const double *x, const double *X, const double *y, double h);
// pbEnergy_Pullback of phi = sum w . gradient, with the cotangents of parameters brought to the groups' values.
bool pbStencils_Pullback(const pbBarrier *barrier, const pbStencils *stencils, const pbElements *elements, const double *w,
                         const pbElementsBar *points, const pbBarrierBar *values, void *work, pbEnergyFault *fault);

// The largest step s in (0, 1] so that from x to x + s dx no gap falls below `keep` (in (0, 1), say 0.1) of what it is
// at x, found by conservative advancement: within a tenth or so, never above. pb_bad_input: a gap is closed at x; names the pair.
PB_NODISCARD pbStatus pbBarrier_MaxStep(pbBarrier *barrier, const pbBarrierValues *values, const double *x, const double *dx,
                                        double keep, double *step);

// In words the pair that made the last step of pbBarrier_MaxStep less than 1; "" where none did.
const char *pbBarrier_Limit(const pbBarrier *barrier);

// Acceptance test of positions: no edge meets a triangle (decided exactly), no gap is closed (distances, to rounding), no point
// is behind a plane. pb_bad_input: names the first pair, where it is, and how many there are.
PB_NODISCARD pbStatus pbBarrier_Check(pbBarrier *barrier, const pbBarrierValues *values, const double *x);

#endif
