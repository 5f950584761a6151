// Saint Venant-Kirchhoff: Hooke's law in the strain of Green and Lagrange.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e5, 0.3, 1};

#define SHEET                                                                                                                   \
  "W = mu E : E + lambda/2 tr(E)^2, E = (F'F - 1)/2. Large turns, small strains. Quartic, finite everywhere; it softens under " \
  "compression and does not resist inversion."
// clang-format off
#define LAW(q) PB_TEXT(S##q = 0.5*(transpose(F##q)*F##q - identity(3)); W##q = mu*dot(S##q, S##q) + lambda/2*trace(S##q)^2;)
// clang-format on

static const pbMaterial materials[] = {PB_SOLIDS("stvk", pb_elastic, PB_LAME, PB_ELASTIC, LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(stvk, materials);
