// Damping by the rate of strain.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("shear_viscosity", "Pa s", PB_POSITIVE),
                                               PB_SCALAR("bulk_viscosity", "Pa s", PB_POSITIVE),
                                               PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1, 0, 1};

#define SHEET                                                                                                                 \
  "D = h (shear R : R + bulk/2 tr(R)^2), R the rate of Green's strain over the step. A Kelvin-Voigt solid together with any " \
  "elastic law. Leaves turning alone; finite everywhere."
// clang-format off
#define LAW(q) PB_TEXT(                                                        \
  S##q = 0.5*(transpose(F##q)*F##q - transpose(G##q)*G##q);                                                               \
  W##q = (shear_viscosity*dot(S##q, S##q) + bulk_viscosity/2*trace(S##q)^2)/h;)
// clang-format on

static const pbMaterial materials[] = {
    PB_SOLIDS("viscous", pb_materialInternal | pb_materialDissipative, "", PB_RATE, LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(viscous, materials);
