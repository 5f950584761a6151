// Sheet in space, Saint Venant-Kirchhoff in plane stress.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON_SHEET, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e6, 0.3, 1e-3};

#define SHEET                                                                                                              \
  "W = mu tr(E^2) + lambda/2 tr(E)^2 with the moduli of plane stress, E the strain of Green and Lagrange in the surface. " \
  "Cloth, foils. Finite everywhere, soft under compression; bending is an energy of its own."
// clang-format off
#define LAW(q) PB_TEXT(S##q = 0.5*(M##q - identity(2)); W##q = mu*trace(S##q*S##q) + lambda/2*trace(S##q)^2;)
// clang-format on

static const pbMaterial materials[] = {PB_SHEETS("membrane_stvk", pb_elastic,
                                                 "mu = young/(2*(1 + poisson)); lambda = young*poisson/(1 - poisson^2);",
                                                 PB_SHEET, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(membrane_stvk, materials);
