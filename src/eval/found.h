// Forces of hard contact as an evaluation has found them, in plain numbers. Forward derivatives are taken at them: what is
// searched for again, with other rounding, may end at another of several solutions.
#ifndef PB_FOUND_H
#define PB_FOUND_H

typedef struct pbFound {
  int rows, n;
  double kappa;
  const double *f, *x, *rho;  // n each
  const int *active;          // count: numbers of rows that are not held at zero, ascending
  int count;
} pbFound;

#endif
