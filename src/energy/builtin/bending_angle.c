// Bending of shells by the angles between their triangles.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("bending", "N m", PB_POSITIVE)};
static const double start[] = {1e-3};

static const pbMaterial materials[] = {{
    .name = "bending_angle",
    .family = "bending_angle",
    .cell = pb_cellHinge,
    .traits = pb_elastic,
    .def = PB_DEF(
        "bending_angle",
        "n = cross(x1 - x0, x2 - x0); m = cross(x3 - x0, x1 - x0); N = cross(X1 - X0, X2 - X0); M = cross(X3 - X0, X1 - X0)\n"
        "turn = atan2(dot(cross(n, m), normalize(x1 - x0)), dot(n, m)); rest = atan2(dot(cross(N, M), normalize(X1 - X0)), "
        "dot(N, M))\n"
        "bending*dot(X1 - X0, X1 - X0)/(norm(N) + norm(M))*(turn - rest)^2",
        4, parameters),
    .start = start,
    .sheet =
        "E = B/2 |e|^2/(A + A') (angle - angle at rest)^2, |e|, A, A' of the rest shape (Grinspun et al. 2003, whose coefficient "
        "is six times this). B as in bending_quadratic, with which it agrees at small angles. Rest shapes may be curved. Angles "
        "lie within (-pi, pi]: a hinge folded onto itself jumps. A triangle without area is a fault in the gradient.",
}};
PB_MATERIAL_FILE(bending_angle, materials);
