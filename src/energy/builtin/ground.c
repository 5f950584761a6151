// Penalty against a half-space.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m", PB_POSITIVE), PB_SCALAR("level", "m", PB_ANY),
                                               PB_VECTOR("normal", "1")};
static const double start[] = {14000, 0, 0, 0, 1};

static const pbMaterial materials[] = {{
    .name = "ground",
    .family = "ground",
    .cell = pb_cellPoint,
    .traits = 0,
    .def = PB_DEF("ground", "stiffness*min(dot(normal, x0) - level, 0)^2", 1, parameters),
    .start = start,
    .sheet =
        "E = k d^2 where d = normal . x - level is below 0 (force 2 k d). A cheap ground that can be sunk into; barriers cannot.",
}};
PB_MATERIAL_FILE(ground, materials);
