// Neo-Hookean solid with a logarithmic barrier against inversion.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e5, 0.3, 1};

#define SHEET                                                                                                                \
  "W = mu/2 (tr F'F - 3) - mu log J + lambda/2 (log J)^2, J = det F (Simo and Pister 1984; Bonet and Wood). Value infinite " \
  "where J <= 0, so no step inverts an element; a state that is inverted already is a fault."
// clang-format off
#define LAW(q) PB_TEXT(l##q = log(det(F##q)); W##q = 0.5*mu*(dot(F##q, F##q) - 3) - mu*l##q + lambda/2*l##q^2;)
// clang-format on

static const pbMaterial materials[] = {
    PB_SOLIDS("neo_hookean_log", pb_elastic, PB_LAME, PB_ELASTIC, LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(neo_hookean_log, materials);
