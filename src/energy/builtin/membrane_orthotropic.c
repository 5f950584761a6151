// Woven cloth: stiffnesses along warp and weft, and shear.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_SCALAR("young_warp", "Pa", PB_MORE),
                                               PB_SCALAR("young_weft", "Pa", PB_MORE),
                                               PB_SCALAR("poisson", "1", -1, 1),
                                               PB_SCALAR("shear", "Pa", PB_POSITIVE),
                                               PB_VECTOR("warp", "1"),
                                               PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e6, 5e5, 0.2, 1e5, 1, 0, 0, 1e-3};

#define SHEET                                                                                                                    \
  "W = (E1 e1^2 + E2 e2^2 + 2 nu E2 e1 e2)/(2 (1 - nu^2 E2/E1)) + 2 G e12^2, e the strain of Green and Lagrange along warp and " \
  "weft. warp: its direction at rest, any length, projected onto the triangle. Finite everywhere, soft under compression; a "    \
  "warp that is normal to the triangle is a fault."
// clang-format off
// Warp and weft by their parts along the rest edges: a = A^-1 [warp . U, warp . V], and a turned by a right angle in the metric
// A.
#define LAW(q) PB_TEXT(                                                        \
  a##q = inverse(A##q)*[dot(warp, U##q), dot(warp, V##q)]; b##q = A##q*a##q;                                              \
  w##q = [-b##q.y, b##q.x]/sqrt(det(A##q)); B##q = A##q*(M##q - identity(2))/(2*dot(a##q, b##q));                         \
  e##q = dot(a##q, B##q*a##q); g##q = dot(w##q, B##q*w##q); c##q = dot(a##q, B##q*w##q);                                  \
  W##q = 0.5*stretch*(e##q^2 + weft_share*g##q^2 + 2*poisson*weft_share*e##q*g##q) + 2*shear*c##q^2;)
// clang-format on

static const pbMaterial materials[] = {PB_SHEETS(
    "membrane_orthotropic", pb_elastic, "weft_share = young_weft/young_warp; stretch = young_warp/(1 - poisson^2*weft_share);",
    PB_SHEET, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(membrane_orthotropic, materials);
