// Small strains: Hooke's law.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e5, 0.3, 1};

#define SHEET                                                                                                                  \
  "W = mu e : e + lambda/2 tr(e)^2, e the symmetric part of F - 1. Small displacements alone: turning strains it. Quadratic, " \
  "finite everywhere, inverted elements included."
// clang-format off
#define LAW(q) PB_TEXT(S##q = 0.5*(F##q + transpose(F##q)) - identity(3); W##q = mu*dot(S##q, S##q) + lambda/2*trace(S##q)^2;)
// clang-format on

static const pbMaterial materials[] = {
    PB_SOLIDS("linear", pb_materialStressFree, PB_LAME, PB_ELASTIC, LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(linear, materials);
