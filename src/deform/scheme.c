// The schemes as one table: what they keep of the past, where they look at energies.
//   Euler      x+ = x + h v + h^2 a(x+),                          h v+ = x+ - x
//   BDF2       x+ = (4 x - x1)/3 + (2/9) h (4 v - v1) + (4/9) h^2 a(x+),   h v+ = (3 x+ - 4 x + x1)/2
//   trapezoid  x+ = x + h v + h^2/4 (a(x) + a(x+)),               h v+ = 2 (x+ - x) - h v
//   AVF4       x+ = x + h v + h^2 (a(x)/12 + a((x + x+)/2)/3 + a(x+)/12),  h v+ = 2 (x+ - x) - h v
//   symplectic x+ = x + h v + h^2 a(x),                           h v+ = x+ - x
//   static     0 = a(x+),                                         v+ = 0
// (Quispel and McLaren 2008 for the average vector field; Simpson's rule makes it exact for quartic energies.)
#include <string.h>

#include "deform/deform.h"

static const pbSchemeTable table[pb_schemeCount] = {
    [pb_schemeImplicitEuler] = {"implicit_euler", {1, 1, 0, 0, 0}, {-1, 0, 0, 0}, 1, 1, 1, {1}, {1}, true, true, false},
    [pb_schemeBdf2] =
        {"bdf2", {4. / 3, 8. / 9, -1. / 3, -2. / 9, 0}, {-2, 0, 0.5, 0}, 1.5, 4. / 9, 1, {1}, {1}, true, true, true},
    [pb_schemeTrapezoid] = {"trapezoid", {1, 1, 0, 0, 0.25}, {-2, -1, 0, 0}, 2, 0.25, 1, {1}, {1}, true, true, false},
    [pb_schemeAvf4] = {"avf4", {1, 1, 0, 0, 1. / 12}, {-2, -1, 0, 0}, 2, 1, 2, {1. / 12, 2. / 3}, {1, 0.5}, true, true, false},
    [pb_schemeSymplecticEuler] = {"symplectic_euler", {1, 1, 0, 0, 1}, {-1, 0, 0, 0}, 1, 0, 0, {0}, {0}, true, false, false},
    [pb_schemeStatic] = {"static", {0}, {0}, 0, 1, 1, {1}, {1}, false, true, false},
};

const pbSchemeTable *pbScheme_Table(pbScheme scheme, bool first) {
  return &table[first && table[scheme].history ? pb_schemeImplicitEuler : scheme];
}

const char *pbScheme_Name(pbScheme scheme) { return scheme >= 0 && scheme < pb_schemeCount ? table[scheme].name : NULL; }

bool pbScheme_Named(const char *name, pbScheme *scheme) {
  for (int i = 0; i < pb_schemeCount; i++) {
    if (strcmp(table[i].name, name)) continue;
    *scheme = (pbScheme)i;
    return true;
  }
  return false;
}

pbDeformState pbDeform_State(const pbDeform *d) {
  int n = 3 * d->npoint;
  bool history = table[d->options.scheme].history;
  pbDeformState s = {.x = 0, .v = n, .x1 = 2 * n, .v1 = 3 * n, .begun = 4 * n, .size = 2 * n, .tangent = 2 * n};
  if (history) s.size = 4 * n + 1, s.tangent = 4 * n;
  return s;
}
