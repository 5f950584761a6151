// Hooke's law in the stretch: corotated elasticity with the rotation that is nearest.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e5, 0.3, 1};

#define SHEET                                                                                                                    \
  "W = mu |F - R|^2 + lambda/2 (J - 1)^2, R the rotation nearest to F, det R = 1: fixed corotated, Stomakhin et al. 2012. |F - " \
  "R|^2 = tr F'F - 2 tr S + 3, and the trace of the stretch S is a function of the language, so there is no factorization. "     \
  "Large turns at the moduli of small strains. Inverted elements are finite and recover; where the two smaller stretches "       \
  "cancel (collapse to a line, s2 = -s3) R is not unique and derivatives are a fault."
// clang-format off
#define SOLID(q) PB_TEXT(W##q = mu*(dot(F##q, F##q) - 2*stretches(F##q) + 3) + lambda/2*(det(F##q) - 1)^2;)
// In the plane the sum of the two stretches is sqrt(tr F'F + 2 J).
#define PLANE(q) PB_TEXT(                                                      \
  f##q = norm([F##q[0,0] + F##q[1,1], F##q[0,1] - F##q[1,0]]);                 \
  W##q = mu*(dot(F##q, F##q) - 2*f##q + 1) + lambda/2*(det(F##q) - 1)^2;)
// clang-format on

static const pbMaterial materials[] = {
    PB_SOLIDS("corotated", pb_elastic, PB_LAME, PB_ELASTIC, SOLID, PLANE, parameters, start, SHEET)};
PB_MATERIAL_FILE(corotated, materials);
