// Hooke's spring whose rest length is that of the rest positions.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m", PB_POSITIVE)};
static const double start[] = {1};

static const pbMaterial materials[] = {{
    .name = "spring",
    .family = "spring",
    .cell = pb_cellEdge,
    .traits = pb_elastic,
    .def = PB_DEF("spring", "d = norm(x1 - x0) - norm(X1 - X0); 0.5*stiffness*d^2", 2, parameters),
    .start = start,
    .mass = "mass_edge",
    .sheet = "E = k/2 (|x1 - x0| - |X1 - X0|)^2. Hooke. Edges of nets and trusses. Without length there is no direction: a fault "
             "in the gradient.",
}};
PB_MATERIAL_FILE(spring, materials);
