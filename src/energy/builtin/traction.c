// Forces on edges and faces, spread over their size at rest.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_VECTOR("traction", "Pa"), PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {0, 0, 0, 1};
#define SHEET "E = -traction . (integral of x over the element at rest): a dead load per area of the rest shape."
static const pbMaterial materials[] = {
    {.name = "traction_edge",
     .family = "traction",
     .cell = pb_cellEdge,
     .def = {"traction_edge", "-thickness*norm(X1 - X0)/2*dot(traction, x0 + x1)", 2, 2, parameters},
     .start = start,
     .sheet = SHEET},
    {.name = "traction_triangle",
     .family = "traction",
     .cell = pb_cellTriangle,
     .def = {"traction_triangle", "-norm(cross(X1 - X0, X2 - X0))/6*dot(traction, x0 + x1 + x2)", 3, 1, parameters},
     .start = start,
     .sheet = SHEET},
};
PB_MATERIAL_FILE(traction, materials);
