// Hyperbolic functions and the error function, as elementary.h. Errors stay below five units in the last place.
#ifndef PB_HYPERBOLIC_H
#define PB_HYPERBOLIC_H

double pbExpm1(double x);  // exp(x) - 1
double pbSinh(double x);
double pbCosh(double x);
double pbTanh(double x);
double pbAsinh(double x);
double pbAcosh(double x);
double pbAtanh(double x);
double pbErf(double x);
double pbErfc(double x);  // 1 - erf(x)

#endif
