// What is known of how sure a fit is, as it is found (uncertainty.c).
#ifndef PB_SURENESS_H
#define PB_SURENESS_H

#include "optimize/optimizer.h"
#include "optimize/terms.h"

enum { pb_seenByNone = -1, pb_seenBySeveral = -2 };  // instead of a cluster's number

typedef struct pbSureness {  // memory of it all
  pbUncertainty told;
  double *numbers;
  unsigned char *determined;
  double *J, *d;                  // m x n, m
  double *sum;                    // of each cluster, as many as trajectories: slopes of the loss (n)
  int *cluster;                   // n: whose samples see it; pb_seenByNone, pb_seenBySeveral
  double *A, *B, *V, *L, *P, *C;  // n x n: curvature, slopes' squares; eigenvectors, roots of eigenvalues (n); products
  double *length;                 // n: of the columns
  double *deviation, *lower, *upper, *z, *correlation;
  char why[200], weakest[600], warning[600];
} pbSureness;

// What is summed over all deviations.
typedef struct pbSums {
  size_t m, known, at;        // deviations, those with sigma; the next one
  double squares, estimated;  // weighted, of those with sigma and of those without
  double products, own;       // of neighbors in time, of each with itself
  double bare;                // squares without weights
  size_t robust;              // of terms whose slopes are as large as they are, so that intervals are right all the same
  int pairs;
} pbSums;

// Sums over all deviations s->d with their Jacobian s->J: A, B, of terms whose variance is to be estimated P; sum, cluster.
void pbSureness_Add(pbTask *task, pbSureness *s, pbSums *sums);
int pbSureness_Clusters(const pbTask *task);  // that are fitted; 0: none are named

#endif
