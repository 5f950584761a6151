// Viscous friction of points near a half-space.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("coefficient", "J s^2/m^3", PB_POSITIVE),
                                               PB_SCALAR("level", "m", PB_ANY), PB_SCALAR("reach", "m", PB_POSITIVE),
                                               PB_VECTOR("normal", "1")};
static const double start[] = {300, 0, 0.01, 0, 0, 1};

static const pbMaterial materials[] = {{
    .name = "ground_friction",
    .family = "ground_friction",
    .cell = pb_cellPoint,
    .traits = pb_materialDissipative,
    .def = PB_DEF("ground_friction",
                  "v = (x0 - y0)/h; s = v - dot(normal, v)*normal\n"
                  "coefficient*dot(s, s)*max(reach - (dot(normal, y0) - level), 0)",
                  1, parameters),
    .start = start,
    .sheet = "E = c |s|^2 max(0, reach - height at the start of the step), s the velocity along the ground: a force of "
             "2 c s/h times the depth, which depends on the time step. Goes with the penalty ground; Coulomb's law it is not.",
}};
PB_MATERIAL_FILE(ground_friction, materials);
