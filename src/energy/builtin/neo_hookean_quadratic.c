// Planar neo-Hookean law with a parabola in place of the logarithm, every triangle of weight 1 whatever its area.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("mu", "J", PB_POSITIVE), PB_SCALAR("lambda", "J", PB_POSITIVE)};
static const double start[] = {500, 50};

static const pbMaterial materials[] = {{
    .name = "neo_hookean_quadratic",
    .family = "neo_hookean_quadratic",
    .cell = pb_cellTriangle,
    .traits = pb_elastic | pb_materialPlanar,
    .def = PB_DEF("neo_hookean_quadratic",
                  PB_ELASTIC(1, PB_FLAT_3(X), PB_FLAT_3(x), "") "J = det(F1); q = -1.5 + 2*J - 0.5*J^2;"
                                                                "0.5*mu*(dot(F1, F1) - 3) - mu*q + 0.5*lambda*q^2",
                  3, parameters),
    .start = start,
    .mass = "mass_triangle",
    .sheet = "E = mu/2 (I - 2) - mu q + lambda/2 q^2, I = tr F'F in the plane, q = -3/2 + 2 J - J^2/2, J = det F: the expansion "
             "of log J to second order, as planar creatures of muscles and triangles have it. mu and lambda are energies per "
             "element. Finite everywhere; beyond J = 2 the parabola turns and it is no model of anything.",
}};
PB_MATERIAL_FILE(neo_hookean_quadratic, materials);
