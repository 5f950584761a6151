// Spring with a length that is longer by an offset, as DiffTaichi's mass-spring systems have it.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("stiffness", "N/m", PB_POSITIVE), PB_SCALAR("length", "m", PB_POSITIVE),
                                               PB_SCALAR("offset", "m", PB_POSITIVE)};
static const double start[] = {10, 0.1, 1e-4};

static const pbMaterial materials[] = {{
    .name = "spring_softened",
    .family = "spring_softened",
    .cell = pb_cellEdge,
    .traits = pb_materialInternal,
    .def = PB_DEF("spring_softened", "r = norm(x1 - x0); stiffness*(0.5*r^2 - length*(r - offset*log(1 + r/offset)))", 2,
                  parameters),
    .start = start,
    .mass = "mass_edge",
    .sheet = "The potential of the force k (r + offset - length) r / (r + offset), r = |x1 - x0| (Hu et al. 2020). At rest its "
             "value is not 0.",
}};
PB_MATERIAL_FILE(spring_softened, materials);
