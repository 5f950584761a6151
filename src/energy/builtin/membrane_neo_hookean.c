// Sheet in space, incompressible neo-Hookean: rubber.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e6, 1e-3};

#define SHEET                                                                                                               \
  "W = young/6 (tr C + 1/det C - 3), C = F'F in the surface; the thickness follows from incompressibility (Treloar 1975). " \
  "Balloons, gloves. A triangle that collapses has an infinite value, and is a fault."
// clang-format off
// 1/det C through the normal: exactly 0 below where the triangle has no area, never negative
#define LAW(q) PB_TEXT(n##q = cross(u##q, v##q); W##q = young/6*(trace(M##q) + det(A##q)/dot(n##q, n##q) - 3);)
// clang-format on

static const pbMaterial materials[] = {
    PB_SHEETS("membrane_neo_hookean", pb_elastic, "", PB_SHEET, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(membrane_neo_hookean, materials);
