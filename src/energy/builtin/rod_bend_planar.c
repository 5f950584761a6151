// Bending of rods in the plane of x and y, curved at rest or not.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("bending", "N m^2", PB_POSITIVE)};
static const double start[] = {1e-3};

static const pbMaterial materials[] = {{
    .name = "rod_bend_planar",
    .family = "rod_bend_planar",
    .cell = pb_cellBend,
    .traits = pb_elastic | pb_materialPlanar,
    .def = PB_DEF("rod_bend_planar",
                  "d = normalize([x1.x - x0.x, x1.y - x0.y]); e = normalize([x2.x - x1.x, x2.y - x1.y])\n"
                  "D = normalize([X1.x - X0.x, X1.y - X0.y]); E = normalize([X2.x - X1.x, X2.y - X1.y])\n"
                  "k = 2*(d.x*e.y - d.y*e.x)/(1 + dot(d, e)) - 2*(D.x*E.y - D.y*E.x)/(1 + dot(D, E))\n"
                  "bending/(norm(X1 - X0) + norm(X2 - X1))*k^2",
                  3, parameters),
    .start = start,
    .sheet = "E = EI/2 (k - k at rest)^2/l, k = 2 tan(angle/2) with the sign of the turn. As rod_bend, with any rest shape in "
             "the plane.",
}};
PB_MATERIAL_FILE(rod_bend_planar, materials);
