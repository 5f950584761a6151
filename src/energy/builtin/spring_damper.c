// Damper along an edge.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("damping", "N s/m", PB_POSITIVE)};
static const double start[] = {1};

static const pbMaterial materials[] = {{
    .name = "spring_damper",
    .family = "spring_damper",
    .cell = pb_cellEdge,
    .traits = pb_materialInternal | pb_materialDissipative,
    .def = PB_DEF("spring_damper", "d = norm(x1 - x0) - norm(y1 - y0); 0.5*damping/h*d^2", 2, parameters),
    .start = start,
    .sheet = "D = c/(2h) (|x1 - x0| - |y1 - y0|)^2: force c times the rate of the length over a step. Leaves turning alone.",
}};
PB_MATERIAL_FILE(spring_damper, materials);
