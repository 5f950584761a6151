// Bending of rods that are straight at rest.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("bending", "N m^2", PB_POSITIVE)};
static const double start[] = {1e-3};

static const pbMaterial materials[] = {{
    .name = "rod_bend",
    .family = "rod_bend",
    .cell = pb_cellBend,
    .traits = pb_elastic,
    .def = PB_DEF("rod_bend",
                  "d = normalize(x1 - x0); e = normalize(x2 - x1); k = 2*cross(d, e)/(1 + dot(d, e))\n"
                  "bending/(norm(X1 - X0) + norm(X2 - X1))*dot(k, k)",
                  3, parameters),
    .start = start,
    .sheet = "E = EI/2 |k|^2/l, k the curvature binormal 2 tan(angle/2) of three points in a row, l the mean of the edges at "
             "rest (discrete elastic rods without twist, Bergou et al. 2008). Grows without bound as the rod folds; folded flat "
             "is a fault.",
}};
PB_MATERIAL_FILE(rod_bend, materials);
