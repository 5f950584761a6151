// Elementary functions by sums, products, quotients, roots and tables alone: the same bits with every C library, compiler and
// processor, where those of the C libraries depend on whether products can be fused. Special values are C's (ISO C17, annex F).
// Errors stay below one unit in the last place: measured .5 to .75, of sine and cosine up to .92.
#ifndef PB_ELEMENTARY_H
#define PB_ELEMENTARY_H

double pbExp(double x);
double pbLog(double x);
double pbLog1p(double x);  // log(1 + x)
double pbPow(double x, double y);
double pbHypot(double x, double y);

double pbSin(double x);
double pbCos(double x);
void pbSinCos(double x, double *sine, double *cosine);  // the bits of both
double pbAsin(double x);
double pbAcos(double x);
double pbAtan2(double y, double x);

#endif
