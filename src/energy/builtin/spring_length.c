// Hooke's spring with a rest length of its own, smooth where it has no length.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m", PB_POSITIVE), PB_SCALAR("length", "m", PB_POSITIVE),
                                               PB_SCALAR("softening", "m^2", PB_POSITIVE)};
static const double start[] = {1, 1, 1e-6};

static const pbMaterial materials[] = {{
    .name = "spring_length",
    .family = "spring_length",
    .cell = pb_cellEdge,
    .traits = pb_materialInternal,
    .def = PB_DEF("spring_length", "d = x1 - x0; 0.5*stiffness*(sqrt(dot(d, d) + softening) - length)^2", 2, parameters),
    .start = start,
    .mass = "mass_edge",
    .sheet = "E = k/2 (l - length)^2, l = sqrt(|x1 - x0|^2 + softening). Softening 0: Hooke. Rest lengths as parameters, "
             "actuators; smooth everywhere with a softening above 0.",
}};
PB_MATERIAL_FILE(spring_length, materials);
