// Pressure on a surface, following it.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("pressure", "Pa", PB_ANY)};
static const double start[] = {1};

static const pbMaterial materials[] = {{
    .name = "pressure",
    .family = "pressure",
    .cell = pb_cellTriangle,
    .traits = 0,
    .def = PB_DEF("pressure", "-pressure/6*dot(x0, cross(x1, x2))", 3, parameters),
    .start = start,
    .sheet =
        "E = -p V, V the volume between the triangle and the origin. On closed surfaces turned outward it is the work of a "
        "constant inner pressure: area times normal, shared by the corners, wherever the origin is. Surfaces with a rim: no.",
}};
PB_MATERIAL_FILE(pressure, materials);
