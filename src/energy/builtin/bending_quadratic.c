// Bending of sheets that are flat at rest and hardly stretch.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("bending", "N m", PB_POSITIVE)};
static const double start[] = {1e-3};

static const pbMaterial materials[] = {{
    .name = "bending_quadratic",
    .family = "bending_quadratic",
    .cell = pb_cellHinge,
    .traits = pb_elastic,
    .def = PB_DEF("bending_quadratic",
                  "e = X1 - X0; a = X2 - X0; b = X3 - X0; c = X2 - X1; d = X3 - X1\n"
                  "n = norm(cross(e, a)); m = norm(cross(e, b))\n"
                  "ca = dot(e, a)/n; cb = dot(e, b)/m; cc = -dot(e, c)/n; cd = -dot(e, d)/m\n"
                  "s = (cc + cd)*x0 + (ca + cb)*x1 - (ca + cc)*x2 - (cb + cd)*x3\n"
                  "bending/(n + m)*dot(s, s)",
                  4, parameters),
    .start = start,
    .sheet = "E = B/2 |sum of cotangent weights times x|^2/(A + A') of the hinge, A and A' the areas of its triangles at rest "
             "(Bergou et al. 2006, whose coefficient is three times this). B: bending stiffness of a plate, young thickness^3 / "
             "(12 (1 - poisson^2)): exact in the limit for a uniform grid rolled along an axis, or any way on "
             "equilateral triangles, which behave as a plate of Poisson's ratio -1/3. Alternating grids behave as a "
             "plate of 5/6 of it and Poisson's ratio -1/5 along their axes (they bend 1.2 times as far; 4/3 of it along "
             "diagonals), uniform ones are 3 times as stiff across their diagonals; narrow strips of either, free to "
             "bend across, have 4/5. Quadratic, constant Hessian: the choice for cloth. The rest shape is flat.",
}};
PB_MATERIAL_FILE(bending_quadratic, materials);
