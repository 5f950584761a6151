// Inertia as one more energy: what makes an equilibrium a step of implicit Euler.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("mass", "kg", PB_POSITIVE), PB_VECTOR("velocity", "m/s")};
static const double start[] = {1, 0, 0, 0};

static const pbMaterial materials[] = {{
    .name = "inertia",
    .family = "inertia",
    .cell = pb_cellPoint,
    .traits = 0,
    .def = PB_DEF("inertia", "d = x0 - y0 - h*velocity; 0.5*mass/h^2*dot(d, d)", 1, parameters),
    .start = start,
    .sheet = "E = m/(2h^2) |x - y - h v|^2, v the velocity at the start. With the static scheme, and without masses, the minimum "
             "is implicit Euler's step.",
}};
PB_MATERIAL_FILE(inertia, materials);
