// Drag proportional to mass: the other half of Rayleigh's damping.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("rate", "1/s", PB_POSITIVE), PB_SCALAR("density", "kg/m^3", PB_POSITIVE),
                                               PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1, 1000, 1};

#define SHEET                                                                                                                  \
  "D = rate m/(2 n h) sum |x - y|^2 over the n points of an element of mass m = density times volume: force -rate times mass " \
  "times velocity. Slows falling too."
#define MOVED(i) PB_TEXT(a##i = x##i - y##i; s##i = dot(a##i, a##i);)
#define HALF(n)  PB_TEXT(half = 0.5 * rate * density / (n * h);)

static const pbMaterial materials[] = {
    PB_MEMBER("mass_drag", "tetrahedron", pb_cellTetrahedron, pb_materialDissipative,
              HALF(4) MOVED(0) MOVED(1) MOVED(2) MOVED(3) "abs(det(" PB_EDGES_4(X) "))/6*half*(s0 + s1 + s2 + s3)", 4, parameters,
              1, start, SHEET),
    PB_MEMBER("mass_drag", "triangle", pb_cellTriangle, pb_materialDissipative,
              HALF(3) MOVED(0) MOVED(1) MOVED(2) "norm(cross(X1 - X0, X2 - X0))/2*thickness*half*(s0 + s1 + s2)", 3, parameters,
              0, start, SHEET),
};
PB_MATERIAL_FILE(mass_drag, materials);
