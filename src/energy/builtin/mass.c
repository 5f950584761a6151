// Masses of elements: density times size at rest.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter line[] = {PB_SCALAR("density", "kg/m", PB_POSITIVE)};
static const pbEnergyParameter body[] = {PB_SCALAR("density", "kg/m^3", PB_POSITIVE), PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1000, 1}, line_start[] = {1};

// clang-format off
#define VOLUME(q, X, x, y) PB_TEXT(D##q =) X PB_TEXT(; W##q = density;)
#define AREA(q, Xu, Xv, xu, xv, yu, yv) \
  PB_TEXT(U##q =) Xu PB_TEXT(; V##q =) Xv PB_TEXT(; A##q =) PB_METRIC(U##q, V##q) PB_TEXT(; W##q = density;)
// clang-format on
#define NONE(q)
#define MASS(kind, the_cell, text, points, parameters, less, numbers)                                           \
  {                                                                                                             \
    .name = "mass_" kind, .family = "mass", .cell = the_cell, .traits = pb_materialMass,                        \
    .def = {"mass_" kind, text, points, (int)(sizeof(parameters) / sizeof *(parameters)) - (less), parameters}, \
    .start = numbers, .sheet = "Mass of the rest shape, shared equally by the element's points."                \
  }

static const pbMaterial materials[] = {
    MASS("edge", pb_cellEdge, "density*norm(X1 - X0)", 2, line, 0, line_start),
    MASS("triangle", pb_cellTriangle, PB_SHEET_3(AREA, NONE), 3, body, 0, start),
    MASS("triangle6", pb_cellTriangle6, PB_SHEET_6(AREA, NONE), 6, body, 0, start),
    MASS("tetrahedron", pb_cellTetrahedron, PB_TETRAHEDRON(VOLUME, NONE), 4, body, 1, start),
    MASS("tetrahedron10", pb_cellTetrahedron10, PB_TETRAHEDRON_10(VOLUME, NONE), 10, body, 1, start),
};
PB_MATERIAL_FILE(mass, materials);
