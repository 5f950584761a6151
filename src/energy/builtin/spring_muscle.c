// Spring whose rest length an activation shortens.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "J", PB_POSITIVE), PB_SCALAR("length", "m", PB_POSITIVE),
                                               PB_SCALAR("activation", "1", PB_POSITIVE),
                                               PB_SCALAR("softening", "m^2", PB_POSITIVE)};
static const double start[] = {90, 1, 1, 0};

static const pbMaterial materials[] = {{
    .name = "spring_muscle",
    .family = "spring_muscle",
    .cell = pb_cellEdge,
    .traits = pb_materialInternal,
    .def = PB_DEF("spring_muscle", "d = x1 - x0; 0.5*stiffness*(sqrt(dot(d, d) + softening)/(activation*length) - 1)^2", 2,
                  parameters),
    .start = start,
    .mass = "mass_edge",
    .sheet = "E = k/2 (l/(activation length) - 1)^2, l = sqrt(|x1 - x0|^2 + softening). Muscles of mass-spring and planar "
             "creatures; the activation may follow controls. Activation 0 is a fault.",
}};
PB_MATERIAL_FILE(spring_muscle, materials);
