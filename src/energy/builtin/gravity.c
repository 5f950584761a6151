// Weight as an energy of its own, beside the world's gravity.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("mass", "kg", PB_POSITIVE), PB_VECTOR("acceleration", "m/s^2")};
static const double start[] = {1, 0, 0, -9.81};

static const pbMaterial materials[] = {{
    .name = "gravity",
    .family = "gravity",
    .cell = pb_cellPoint,
    .traits = 0,
    .def = PB_DEF("gravity", "-mass*dot(acceleration, x0)", 1, parameters),
    .start = start,
    .sheet = "E = -m g . x. Where masses differ from those of inertia, or gravity differs from point to point; the world's own "
             "acts anyway.",
}};
PB_MATERIAL_FILE(gravity, materials);
