// Mooney-Rivlin rubber.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("c1", "Pa", PB_POSITIVE), PB_SCALAR("c2", "Pa", PB_POSITIVE),
                                               PB_SCALAR("bulk", "Pa", PB_POSITIVE), PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {2e4, 1e4, 1e6, 1};

#define SHEET                                                                                                                    \
  "W = c1 (J^(-2/3) I1 - 3) + c2 (J^(-4/3) I2 - 3) + bulk/2 (J - 1)^2, I1, I2 the invariants of F'F. Mooney 1940, Rivlin 1948, " \
  "with the isochoric split. Shear modulus 2 (c1 + c2). Rubber up to stretches of 2 or 3. Value infinite where J <= 0; an "      \
  "inverted state is a fault."
// clang-format off
#define LAW(q) PB_TEXT(                                                        \
  C##q = transpose(F##q)*F##q; I##q = trace(C##q); J##q = det(F##q); s##q = J##q^(-2/3);                                  \
  W##q = c1*(s##q*I##q - 3) + c2*(s##q^2*0.5*(I##q^2 - dot(C##q, C##q)) - 3) + bulk/2*(J##q - 1)^2;)
// clang-format on

static const pbMaterial materials[] = {
    PB_SOLIDS("mooney_rivlin", pb_elastic, "", PB_ELASTIC, LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(mooney_rivlin, materials);
