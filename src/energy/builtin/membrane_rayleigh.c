// Damping of sheets in space, proportional to their stiffness.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON_SHEET, PB_SCALAR("time", "s", PB_POSITIVE),
                                               PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e6, 0.3, 1e-3, 1e-3};

#define SHEET                                                                                                                  \
  "D = time h (mu R : R + lambda/2 tr(R)^2), R the rate of Green's strain in the surface, moduli of plane stress. Damping of " \
  "membrane_stvk."
// clang-format off
#define LAW(q) PB_TEXT(S##q = 0.5*(M##q - N##q); W##q = time/h*(mu*trace(S##q*S##q) + lambda/2*trace(S##q)^2);)
// clang-format on

static const pbMaterial materials[] = {PB_SHEETS("membrane_rayleigh", pb_materialInternal | pb_materialDissipative,
                                                 "mu = young/(2*(1 + poisson)); lambda = young*poisson/(1 - poisson^2);",
                                                 PB_SHEET_RATE, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(membrane_rayleigh, materials);
