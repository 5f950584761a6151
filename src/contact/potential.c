#include "contact/potential.h"

// f_0 = D / c (phi(a) + mu^2 phi(b)), and for tangents f_j = -D / mu^2 friction_j^2 x_j (phi(a) + phi(b)) / (root(a) + root(b)):
// no division by T.
void NUM(pbCone_Smooth)(int n, const num *x, num D, num mu, const num *friction, double kappa, num *f, num *K) {
  num U[6], T2 = 0, T = 0, c = num_sqrt(1 + mu * mu), ra, rb;
  for (int k = 1; k < n; k++) U[k] = friction[k - 1] * x[k], T2 += U[k] * U[k];
  if (re(T2) > 0) T = num_sqrt(T2);
  num a = (x[0] - T) / c, b = (x[0] + T / (mu * mu)) / c;
  num pa = pb_smooth_side(a, kappa, &ra), pb = pb_smooth_side(b, kappa, &rb), q = (pa + pb) / (ra + rb), E = D / (mu * mu);
  f[0] = D / c * (pa + mu * mu * pb);
  for (int k = 1; k < n; k++) f[k] = -E * q * friction[k - 1] * U[k];
  if (!K) return;
  num ta = -1 / c, tb = 1 / (mu * mu * c), sa = pa / ra, sb = pb / rb;  // da/dT, db/dT, -phi'
  num cross = re(T) > 0 ? D / (c * c) * (sb - sa) / T : 0;
  num slope = -(sa * ta + sb * tb + q * (a / ra * ta + b / rb * tb)) / (ra + rb);  // dq/dT
  K[0] = D / (c * c) * (sa + mu * mu * sb);
  for (int i = 1; i < n; i++) {
    K[i] = K[i * n] = cross * friction[i - 1] * U[i];
    for (int j = 1; j < n; j++) {
      num bend = re(T) > 0 ? slope * U[i] * U[j] / T : 0;
      K[i * n + j] = E * friction[i - 1] * friction[j - 1] * ((i == j ? q : 0) + bend);
    }
  }
}
