// Spring in the difference of squared lengths: a polynomial.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m^3", PB_POSITIVE),
                                               PB_SCALAR("length", "m", PB_POSITIVE), PB_SCALAR("softening", "m^2", PB_POSITIVE)};
static const double start[] = {1, 1, 0};

static const pbMaterial materials[] = {{
    .name = "spring_stvk",
    .family = "spring_stvk",
    .cell = pb_cellEdge,
    .traits = pb_materialInternal,
    .def = PB_DEF("spring_stvk", "d = x1 - x0; 0.5*stiffness*(dot(d, d) + softening - length^2)^2", 2, parameters),
    .start = start,
    .mass = "mass_edge",
    .sheet = "E = k/2 (l^2 - length^2)^2, l^2 = |x1 - x0|^2 + softening. The one-dimensional Saint Venant-Kirchhoff law. "
             "Quartic, so AVF4 keeps it exactly; finite and smooth at any length, soft under compression.",
}};
PB_MATERIAL_FILE(spring_stvk, materials);
