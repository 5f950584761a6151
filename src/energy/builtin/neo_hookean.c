// Neo-Hookean solid that stays finite when inverted.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e5, 0.3, 1};

#define SHEET                                                                                                                  \
  "W = s/2 (I - 3) - s/2 log((I + 1)/4) + l/2 (J - 1)^2 - 3/4 s (J - 1), I = tr F'F, J = det F, s = 4/3 mu, l = lambda + 5/6 " \
  "mu: Smith, de Goes and Kim 2018, whose constants make young and poisson those of small strains; less the constant that "    \
  "makes W(1) = 0. The default solid: rubber, flesh. Finite and smooth everywhere, inverted and collapsed elements included, " \
  "and they recover."
// clang-format off
#define LAW(q) PB_TEXT(                                                        \
  I##q = dot(F##q, F##q) - 3; J##q = det(F##q) - 1;                            \
  W##q = 0.5*s*(I##q - log(1 + I##q/4)) + 0.5*l*J##q^2 - 0.75*s*J##q;)
// clang-format on

static const pbMaterial materials[] = {PB_SOLIDS("neo_hookean", pb_elastic, PB_LAME "s = 4/3*mu; l = lambda + 5/6*mu;",
                                                 PB_ELASTIC, LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(neo_hookean, materials);
