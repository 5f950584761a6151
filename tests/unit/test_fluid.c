// Fluid forces on one part: closed forms where physics gives them, and the damping matrix against complex step of the wrench.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/mechanism.h"
#include "multibody/fluid.h"
#include "support/support.h"

static void rotation(uint64_t *seed, double R[9]) {
  double q[4], n = 0;
  for (int k = 0; k < 4; k++) {
    q[k] = random_unit(seed);
    n += q[k] * q[k];
  }
  for (int k = 0; k < 4; k++) q[k] /= sqrt(n);
  double w = q[0], x = q[1], y = q[2], z = q[3];
  double m[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                 2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                 2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
  memcpy(R, m, sizeof m);
}

static pbFluidPart_r random_part(uint64_t *seed, int type, double scale) {
  pbFluidPart_r part = {.type = type};
  rotation(seed, part.R);
  for (int k = 0; k < 3; k++) {
    part.d[k] = random_unit(seed);
    part.medium[2 + k] = random_unit(seed);
  }
  for (int k = 0; k < 6; k++) part.V[k] = 3 * random_unit(seed);
  part.medium[0] = 1000;
  part.medium[1] = 0.5;
  if (type == pb_fluidBox) {
    part.shape[0] = 2;
    for (int k = 0; k < 3; k++) part.shape[1 + k] = scale * scale * (1 + 0.3 * random_unit(seed));
  } else {
    for (int k = 0; k < 3; k++) part.shape[k] = scale * (1 + 0.5 * random_unit(seed));
    part.shape[3] = 1;
    for (int k = 1; k < 6; k++) part.shape[3 + k] = 1 + 0.5 * random_unit(seed);
    for (int k = 6; k < 12; k++)
      part.shape[3 + k] = scale * scale * scale * (k < 9 ? 1 : scale * scale) * (1 + random_unit(seed));
  }
  return part;
}

static void to_complex(const pbFluidPart_r *part, pbFluidPart_c *z) {
  z->type = part->type;
  z->symmetric = part->symmetric;
  for (int k = 0; k < 3; k++) z->d[k] = part->d[k];
  for (int k = 0; k < 9; k++) z->R[k] = part->R[k];
  for (int k = 0; k < 6; k++) z->V[k] = part->V[k];
  for (int k = 0; k < pb_fluidMedium; k++) z->medium[k] = part->medium[k];
  for (int k = 0; k < pb_fluidShape; k++) z->shape[k] = part->shape[k];
}

// The hand-written damping is the derivative of the wrench by the body's velocity, for all shapes, at all scales.
static void test_damping_is_the_derivative(void **unused) {
  (void)unused;
  static const int types[] = {pb_fluidBox, pb_geomSphere, pb_geomCapsule, pb_geomEllipsoid, pb_geomCylinder, pb_geomBox};
  uint64_t seed = 7;
  for (int trial = 0; trial < 60; trial++) {
    pbFluidPart_r part = random_part(&seed, types[trial % 6], trial < 30 ? 0.5 : 1e-3);
    double B[36] = {0}, size = 0;
    pbFluid_PartDamping_r(&part, B);
    for (int k = 0; k < 36; k++) size = fmax(size, fabs(B[k]));
    assert_true(size > 0);
    for (int c = 0; c < 6; c++) {
      pbFluidPart_c z;
      _Complex double wrench[6] = {0};
      to_complex(&part, &z);
      __imag__ z.V[c] = PB_IMAG_STEP;
      pbFluid_Wrench_c(&z, wrench);
      for (int r = 0; r < 6; r++) assert_true(fabs(__imag__ wrench[r] / PB_IMAG_STEP - B[6 * r + c]) < 1e-12 * size);
    }
  }
}

// A sphere in a thick fluid: force -6 pi viscosity r v, torque -8 pi viscosity r^3 w about its centre.
static void test_stokes(void **unused) {
  (void)unused;
  uint64_t seed = 3;
  pbFluidPart_r part = random_part(&seed, pb_geomSphere, 0.3);
  double wrench[6] = {0}, r = part.shape[0];
  part.medium[0] = 0;
  memset(part.d, 0, sizeof part.d);
  pbFluid_Wrench_r(&part, wrench);
  for (int k = 0; k < 3; k++) {
    double v = part.V[3 + k] - part.medium[2 + k], force = -6 * PB_PI * part.medium[1] * r * v;
    double torque = -8 * PB_PI * part.medium[1] * r * r * r * part.V[k];
    assert_true(fabs(wrench[3 + k] - force) < 1e-14 * fabs(force));
    assert_true(fabs(wrench[k] - torque) < 1e-14 * fabs(torque));
  }
}

// Drag takes energy away; lift and added mass do no work in still fluid.
static void test_power(void **unused) {
  (void)unused;
  uint64_t seed = 11;
  for (int trial = 0; trial < 20; trial++) {
    pbFluidPart_r part = random_part(&seed, pb_geomEllipsoid, 0.5);
    double drag[6] = {0}, lift[6] = {0}, power = 0, idle = 0, size = 0;
    for (int k = 2; k < pb_fluidMedium; k++) part.medium[k] = 0;
    pbFluidPart_r lifted = part;
    for (int k = 1; k < 4; k++) lifted.shape[3 + k] = 0;
    for (int k = 4; k < 12; k++) part.shape[3 + k] = 0;
    lifted.medium[1] = 0;
    pbFluid_Wrench_r(&part, drag);
    pbFluid_Wrench_r(&lifted, lift);
    for (int k = 0; k < 6; k++) {
      power += drag[k] * part.V[k];
      idle += lift[k] * part.V[k];
      size += fabs(lift[k] * part.V[k]);
    }
    assert_true(power < 0);
    assert_true(fabs(idle) < 1e-13 * size && size > 0);
  }
}

// At rest nothing acts, and the derivative is finite.
static void test_rest(void **unused) {
  (void)unused;
  uint64_t seed = 5;
  for (int type = pb_fluidBox; type <= pb_geomBox; type++) {
    pbFluidPart_r part = random_part(&seed, type, 0.1);
    double wrench[6] = {0}, B[36] = {0};
    memset(part.V, 0, sizeof part.V);
    memset(part.medium + 2, 0, 3 * sizeof(double));
    pbFluid_Wrench_r(&part, wrench);
    pbFluid_PartDamping_r(&part, B);
    for (int k = 0; k < 6; k++) assert_true(wrench[k] == 0);
    for (int k = 0; k < 36; k++) assert_true(isfinite(B[k]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_damping_is_the_derivative), cmocka_unit_test(test_stokes),
                                     cmocka_unit_test(test_power), cmocka_unit_test(test_rest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
