// Closest features of small convex primitives (points, edges, triangles), exact arithmetic not needed: where two features are
// equally far, either is right.
#ifndef PB_BARRIER_DISTANCE_H
#define PB_BARRIER_DISTANCE_H

typedef struct pbClosest {
  int na, nb;       // vertices of the closest feature of A and of B
  int a[3], b[3];   // which, numbered within the primitive
  double d2;        // squared distance
  double apart[3];  // from the closest point of B to that of A
} pbClosest;

// A has na vertices at A (na x 3), B likewise: (1,1), (1,2), (1,3), (2,2).
pbClosest pbClosest_Find(int na, const double *A, int nb, const double *B);

#endif
