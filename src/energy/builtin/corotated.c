// Hooke's law in the stretch: corotated elasticity with the rotation that is nearest.
#include "energy/builtin/builtin.h"

static const pbEnergyParameter parameters[] = {PB_YOUNG, PB_POISSON, PB_SCALAR("thickness", "m", PB_POSITIVE)};
static const double start[] = {1e5, 0.3, 1};

#define SHEET                                                                                                                    \
  "W = mu |F - R|^2 + lambda/2 (J - 1)^2, R the rotation nearest to F, det R = 1: fixed corotated, Stomakhin et al. 2012. |F - " \
  "R|^2 = tr F'F - 2 tr S + 3, and the trace of the stretch S is a root of a quartic in the invariants of F (as in Lin et al. "  \
  "2022), so there is no factorisation and all derivatives are exact. Large turns at the moduli of small strains. Inverted "     \
  "elements are finite and recover; where the two smaller stretches cancel (collapse to a line, s2 = -s3) R is not unique and "  \
  "derivatives are a fault."
// clang-format off
// The trace f of the stretch is the largest root of (f^2 - I)^2 - 8 J f - 4 K, I = tr F'F, K = tr cof(F'F), J = det F. All its roots
// are real, so Laguerre's method comes down to it from sqrt(3 I) without fail, cubically: four times leave 1e-13 for stretches whose
// ratio is below 10.
#define ROOT(q, from, to) PB_TEXT(                                            \
  r##to##q = f##from##q^2 - I##q;                                              \
  p##to##q = r##to##q^2 - 8*J##q*f##from##q - 4*K##q;                          \
  d##to##q = 4*f##from##q*r##to##q - 8*J##q;                                   \
  f##to##q = f##from##q - 4*p##to##q/(d##to##q + sqrt(9*d##to##q^2 - 12*p##to##q*(4*r##to##q + 8*f##from##q^2)));)
#define SOLID(q)                                                               \
  PB_TEXT(C##q = transpose(F##q)*F##q; I##q = trace(C##q); K##q = 0.5*(I##q^2 - dot(C##q, C##q)); J##q = det(F##q);) \
  PB_TEXT(fa##q = sqrt(3*I##q);) ROOT(q, a, b) ROOT(q, b, c) ROOT(q, c, d) ROOT(q, d, e)                           \
  PB_TEXT(W##q = mu*(I##q - 2*fe##q + 3) + lambda/2*(J##q - 1)^2;)
// In the plane f = sqrt(tr F'F + 2 J).
#define PLANE(q) PB_TEXT(                                                      \
  f##q = norm([F##q[0,0] + F##q[1,1], F##q[0,1] - F##q[1,0]]);                 \
  W##q = mu*(dot(F##q, F##q) - 2*f##q + 1) + lambda/2*(det(F##q) - 1)^2;)
// clang-format on

static const pbMaterial materials[] = {
    PB_SOLIDS("corotated", pb_elastic, PB_LAME, PB_ELASTIC, SOLID, PLANE, parameters, start, SHEET)};
PB_MATERIAL_FILE(corotated, materials);
