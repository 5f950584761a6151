// A force on a point.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_VECTOR("force", "N")};
static const double start[] = {0, 0, 0};

static const pbMaterial materials[] = {{
    .name = "load",
    .family = "load",
    .cell = pb_cellPoint,
    .traits = 0,
    .def = PB_DEF("load", "-dot(force, x0)", 1, parameters),
    .start = start,
    .sheet = "E = -force . x: a dead load, the same whichever way the body turns.",
}};
PB_MATERIAL_FILE(load, materials);
