// Drag on points.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("damping", "N s/m", PB_POSITIVE)};
static const double start[] = {1};

static const pbMaterial materials[] = {{
    .name = "drag",
    .family = "drag",
    .cell = pb_cellPoint,
    .traits = pb_materialDissipative,
    .def = PB_DEF("drag", "d = x0 - y0; 0.5*damping/h*dot(d, d)", 1, parameters),
    .start = start,
    .sheet = "D = c/(2h) |x - y|^2: force -c times the velocity of the step. Proportional to mass: damping = rate * mass.",
}};
PB_MATERIAL_FILE(drag, materials);
