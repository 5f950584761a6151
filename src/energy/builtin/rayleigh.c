// Damping proportional to stiffness.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON, PB_SCALAR("time", "s", PB_POSITIVE),
                                               PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e5, 0.3, 1e-3, 1};

#define SHEET                                                                                                                   \
  "D = time h (mu R : R + lambda/2 tr(R)^2), R the rate of Green's strain over the step: at small strains Rayleigh's damping, " \
  "time times the stiffness of any of the laws with these moduli. Leaves turning alone. The part proportional to mass: "        \
  "mass_drag."
// clang-format off
#define LAW(q) PB_TEXT(                                                        \
  S##q = 0.5*(transpose(F##q)*F##q - transpose(G##q)*G##q); W##q = time/h*(mu*dot(S##q, S##q) + lambda/2*trace(S##q)^2);)
// clang-format on

static const pbMaterial materials[] = {
    PB_SOLIDS("rayleigh", pb_materialInternal | pb_materialDissipative, PB_LAME, PB_RATE, LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(rayleigh, materials);
