// Potentials of which derivatives are taken by complex step: included once for each number type (number/complex_begin.h).

// Force f and curvature K (n x n, may be NULL) of the smoothed elliptic cone: with T = |friction_j x_j|, the two sides
// a = (x_0 - T) / c and b = (x_0 + T / mu^2) / c, c = sqrt(1 + mu^2), of curvatures D and mu^2 D; D is D_0 of the row.
void NUM(pbCone_Smooth)(int n, const num *x, num D, num mu, const num *friction, double kappa, num *f, num *K);
