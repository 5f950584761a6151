// String: pulls, never pushes.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m", PB_POSITIVE), PB_SCALAR("slack", "1", PB_POSITIVE)};
static const double start[] = {1, 1};

static const pbMaterial materials[] = {{
    .name = "spring_string",
    .family = "spring_string",
    .cell = pb_cellEdge,
    .traits = pb_elastic,
    .def = PB_DEF("spring_string", "0.5*stiffness*max(norm(x1 - x0) - slack*norm(X1 - X0), 0)^2", 2, parameters),
    .start = start,
    .mass = "mass_edge",
    .sheet = "E = k/2 max(|x1 - x0| - slack |X1 - X0|, 0)^2. Ropes, tendons; the force has a kink where it becomes taut. Slack: "
             "rest length over distance at rest.",
}};
PB_MATERIAL_FILE(spring_string, materials);
