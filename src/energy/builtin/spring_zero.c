// Spring without rest length.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m", PB_POSITIVE)};
static const double start[] = {1};

static const pbMaterial materials[] = {{
    .name = "spring_zero",
    .family = "spring_zero",
    .cell = pb_cellEdge,
    .traits = pb_materialInternal,
    .def = PB_DEF("spring_zero", "d = x1 - x0; 0.5*stiffness*dot(d, d)", 2, parameters),
    .start = start,
    .sheet = "E = k/2 |x1 - x0|^2. Ties two points together, a joint or a seam; quadratic.",
}};
PB_MATERIAL_FILE(spring_zero, materials);
