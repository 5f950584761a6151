// Virtual mass and inertia of a geom in a fluid, by the ellipsoid that stands for its shape (MuJoCo manual, computation/fluid).
// Tests: tests/oracle/test_constants.py.
#include "compile/setconst.h"

#include "math/vec.h"
#include "number/number.h"

#define FLUID_TINY 1e-14  // mjEPS of MuJoCo's compiler

// Green's integral of an ellipsoid's virtual mass,
//   kappa_x = dx dy dz * integral over l > 0 of ((dx^2 + l)^3 (dy^2 + l) (dz^2 + l))^-1/2,
// by Gauss-Kronrod's 15 points on x in (0, 1) with l = scale x^3 / (1 - x)^2 (MuJoCo manual, computation/fluid). Points and
// weights are rounded as in MuJoCo, whose compiled numbers are the standard here.
static num green_kappa(num dx, num dy, num dz) {
  static const double weight[15] = {0.01146766, 0.03154605, 0.05239501, 0.07032663, 0.08450236,
                                    0.09517529, 0.10221647, 0.10474107, 0.10221647, 0.09517529,
                                    0.08450236, 0.07032663, 0.05239501, 0.03154605, 0.01146766};
  static const double lambda[15] = {7.865151709349917e-08, 1.7347976913907274e-05, 0.0003548008144506193, 0.002846636252924549,
                                    0.014094260903596077,  0.053063261727396636,   0.17041978741317773,   0.5,
                                    1.4036301548686991,    3.9353484827022642,     11.644841677041734,    39.53187807410903,
                                    177.5711362220801,     1429.4772912937397,     54087.416549217705};
  static const double slope[15] = {5.538677720489877e-05, 0.002080868285293228, 0.016514126520723166, 0.07261900344370877,
                                   0.23985243401862602,   0.6868318249020725,   1.8551129519182894,   5.0,
                                   14.060031152313941,    43.28941239611009,    156.58546376397112,   747.9826085305024,
                                   5827.4042950027115,    116754.0197944512,    25482945.327264845};

  // With a = 1 + l / d^2 for each axis, the integrand is 1 / (a_x sqrt(a_x a_y a_z)), up to a power of the axes.
  num scale = num_pow(dx * dx * dx * dy * dz, 0.4);
  num kappa = 0;
  for (int i = 0; i < 15; i++) {
    num l = scale * lambda[i];
    num ax = 1 + l / (dx * dx);
    num ay = 1 + l / (dy * dy);
    num az = 1 + l / (dz * dz);
    kappa += scale * slope[i] / (ax * num_sqrt(ax * ay * az)) * weight[i];
  }
  return kappa / (dx * dx);
}

// Virtual inertia over volume / 5 of a rotation in the plane of semi-axes a, b.
static num inertia_factor(num a, num b, num ka, num kb) {
  num below = num_abs(2 * (a * a - b * b) + (a * a + b * b) * (ka - kb));
  return (a * a - b * b) * (a * a - b * b) * num_abs(kb - ka) / num_max(FLUID_TINY, below);
}

// Of the ellipsoid that stands for a shape.
static void find_semiaxes(int type, const num s[3], num d[3]) {
  v3_copy(d, s);
  if (type == pb_geomSphere) d[1] = d[2] = s[0];
  if (type == pb_geomCapsule) {
    d[1] = s[0];
    d[2] = s[0] + s[1];
  }
  if (type == pb_geomCylinder) {
    d[1] = s[0];
    d[2] = s[1];
  }
}

void NUM(pbDerive_VirtualInertia)(int type, const num size[3], num out[6]) {
  num d[3], k[3];
  find_semiaxes(type, size, d);
  num volume = 4.0 / 3.0 * PB_PI * d[0] * d[1] * d[2];

  // The integral is symmetric in the last two of its axes.
  for (int i = 0; i < 3; i++) k[i] = green_kappa(d[i], d[(i + 1) % 3], d[(i + 2) % 3]);

  for (int i = 0; i < 3; i++) {
    int a = (i + 1) % 3, b = (i + 2) % 3;
    out[i] = volume * k[i] / num_max(FLUID_TINY, 2 - k[i]);
    out[3 + i] = volume * inertia_factor(d[a], d[b], k[a], k[b]) / 5;
  }
}
