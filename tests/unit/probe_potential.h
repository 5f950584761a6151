// A row made by hand, and what its potential and the pullback of its force give: probe_potential.c, compiled for each number type.
#ifndef PROBE_POTENTIAL_H
#define PROBE_POTENTIAL_H

#include <stdbool.h>

// Inputs of a potential; the force of bounded rows is from -loss to most. D is that of the first row, or comes from imp and diag for a pyramid's edges.
typedef struct PotentialInputs {
  double x[6], friction[5], impratio, loss, D, most;
} PotentialInputs;

typedef struct PotentialRow {
  const char *what;
  int kind, dim;
  bool pyramidal;
  double kappa;
  PotentialInputs at;
  int zone;  // expected
} PotentialRow;

typedef struct PotentialResult {
  double value, f[6], K[36];
  int zone;
  double f_dot[6];  // along the direction (complex program)
} PotentialResult;

void probe_potential_r(const PotentialRow *row, const PotentialInputs *direction, PotentialResult *out);
void probe_potential_c(const PotentialRow *row, const PotentialInputs *direction, PotentialResult *out);
// Gradient of y . f by friction, impratio, loss, most and D.
void probe_potential_pull(const PotentialRow *row, const double y[6], PotentialInputs *gradient);

#endif
