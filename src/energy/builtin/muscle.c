// Muscle: a soft solid with fibres that stiffen when stretched and pull when active.
// Tests: tests/unit/test_builtin.c.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG,
                                               PB_POISSON,
                                               PB_SCALAR("fibre_stiffness", "Pa", PB_POSITIVE),
                                               PB_SCALAR("strength", "Pa", PB_POSITIVE),
                                               PB_SCALAR("activation", "1", 0, 1),
                                               PB_VECTOR("fibre", "1"),
                                               PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {3e4, 0.4, 6e4, 1e5, 0, 1, 0, 0, 1};

// The rest state is where fibres begin to bear: without a toe the Hessian would jump there, and gradients at rest would take one
// side. Its width, a strain of 0.01, stands in LAW; k/(6 e) (max(f, 0)^3 - max(f - e, 0)^3) has the second derivative k f/e up to
// e and k beyond.
#define SHEET                                                                                                                    \
  "W = neo_hookean + fibre_stiffness T(f) + activation strength f, f = |F fibre| - 1 the strain along the fibre (any length of " \
  "the parameter will do); T(f) = 0 below 0, f^3/0.06 up to a strain of 0.01 (a toe: stiffness comes in smoothly), beyond it "   \
  "(f - 0.005)^2/2 + 1e-4/24. strength: nominal stress along the fibre at full activation, which may follow controls. "          \
  "Finite when inverted; a fibre collapsed to nothing is a fault."
// clang-format off
#define LAW(q) PB_TEXT(                                                        \
  I##q = dot(F##q, F##q) - 3; J##q = det(F##q) - 1; f##q = norm(F##q*along) - 1;                                          \
  t##q = (max(f##q, 0)^3 - max(f##q - 0.01, 0)^3)/0.06;                                                                    \
  W##q = 0.5*s*(I##q - log(1 + I##q/4)) + 0.5*l*J##q^2 - 0.75*s*J##q                                                      \
       + fibre_stiffness*t##q + activation*strength*f##q;)
// clang-format on

static const pbMaterial materials[] = {PB_SOLIDS("muscle", pb_elastic,
                                                 PB_LAME "s = 4/3*mu; l = lambda + 5/6*mu; along = normalize(fibre);", PB_ELASTIC,
                                                 LAW, LAW, parameters, start, SHEET)};
PB_MATERIAL_FILE(muscle, materials);
