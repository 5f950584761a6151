// Spring to a place.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m", PB_POSITIVE), PB_VECTOR("target", "m")};
static const double start[] = {1, 0, 0, 0};

static const pbMaterial materials[] = {{
    .name = "pin",
    .family = "pin",
    .cell = pb_cellPoint,
    .traits = 0,
    .def = PB_DEF("pin", "d = x0 - target; 0.5*stiffness*dot(d, d)", 1, parameters),
    .start = start,
    .sheet =
        "E = k/2 |x - target|^2. Soft pins, handles that follow controls. Points that must not move at all are fixed instead.",
}};
PB_MATERIAL_FILE(pin, materials);
