// Stretching of rods.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("axial", "N", PB_POSITIVE)};
static const double start[] = {1e3};

static const pbMaterial materials[] = {{
    .name = "rod_stretch",
    .family = "rod_stretch",
    .cell = pb_cellEdge,
    .traits = pb_elastic,
    .def = PB_DEF("rod_stretch", "l = norm(X1 - X0); 0.5*axial*l*(norm(x1 - x0)/l - 1)^2", 2, parameters),
    .start = start,
    .mass = "mass_edge",
    .sheet =
        "E = EA/2 l0 (l/l0 - 1)^2, EA = young times area of the cross-section. As a spring with k = EA/l0, whatever the mesh.",
}};
PB_MATERIAL_FILE(rod_stretch, materials);
