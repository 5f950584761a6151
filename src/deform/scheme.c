// The schemes as one table: what they keep of the past, where they evaluate energies.
//   Euler      x+ = x + h v + h^2 a(x+),                          h v+ = x+ - x
//   BDF2       x+ = (4 x - x1)/3 + (2/9) h (4 v - v1) + (4/9) h^2 a(x+),   h v+ = (3 x+ - 4 x + x1)/2
//   trapezoid  x+ = x + h v + h^2/4 (a(x) + a(x+)),               h v+ = 2 (x+ - x) - h v
//   AVF4       x+ = x + h v + h^2 (a(x)/12 + a((x + x+)/2)/3 + a(x+)/12),  h v+ = 2 (x+ - x) - h v
//   symplectic x+ = x + h v + h^2 a(x),                           h v+ = x+ - x
//   static     0 = a(x+),                                         v+ = 0
// Velocities are those of the scheme at the same time: v where a(x) stands, (x+ - x)/h in the middle, v+ where a(x+) stands.
// Energies write them as (z - y)/h, so y and h become what gives that (ago and span of the table): of BDF2 v+ = (x+ - (4 x -
// x1)/3) / (2/3 h), of the trapezoid v+ = (x+ - (x + h v/2)) / (h/2).
// (Quispel and McLaren 2008 for the average vector field; Simpson's rule makes it exact for quartic energies.)
// Tests: tests/unit/test_deform.c.
#include <string.h>

#include "deform/deform.h"

// Velocities at x+ by the difference of positions, and with half of the velocity at the start.
#define NOW \
  { 1, 0, 0 }
#define HALF \
  { 1, 0.5, 0 }
static const pbSchemeTable table[pb_schemeCount] = {
    [pb_schemeImplicitEuler] = {.name = "implicit_euler",
                                .start = {1, 1},
                                .next = {-1},
                                .new = 1,
                                .factor = 1,
                                .terms = 1,
                                .weight = {1},
                                .at = {1},
                                .ago = {NOW},
                                .span = 1,
                                .inertia = true,
                                .implicit = true},
    [pb_schemeBdf2] = {.name = "bdf2",
                       .start = {4. / 3, 8. / 9, -1. / 3, -2. / 9},
                       .next = {-2, 0, 0.5},
                       .new = 1.5,
                       .factor = 4. / 9,
                       .terms = 1,
                       .weight = {1},
                       .at = {1},
                       .ago = {{4. / 3, 0, -1. / 3}},
                       .span = 2. / 3,
                       .inertia = true,
                       .implicit = true,
                       .history = true},
    [pb_schemeTrapezoid] = {.name = "trapezoid",
                            .start = {1, 1, 0, 0, 0.25},
                            .next = {-2, -1},
                            .new = 2,
                            .factor = 0.25,
                            .terms = 1,
                            .weight = {1},
                            .at = {1},
                            .ago = {HALF},
                            .span = 0.5,
                            .inertia = true,
                            .implicit = true},
    [pb_schemeAvf4] = {.name = "avf4",
                       .start = {1, 1, 0, 0, 1. / 12},
                       .next = {-2, -1},
                       .new = 2,
                       .factor = 1,
                       .terms = 2,
                       .weight = {1. / 12, 2. / 3},
                       .at = {1, 0.5},
                       .ago = {HALF, NOW},
                       .span = 0.5,
                       .inertia = true,
                       .implicit = true},
    [pb_schemeSymplecticEuler] =
        {.name = "symplectic_euler", .start = {1, 1, 0, 0, 1}, .next = {-1}, .new = 1, .ago = {NOW}, .span = 1, .inertia = true},
    [pb_schemeStatic] =
        {.name = "static", .factor = 1, .terms = 1, .weight = {1}, .at = {1}, .ago = {NOW}, .span = 1, .implicit = true},
};

const pbSchemeTable *pbScheme_Table(pbScheme scheme, bool first) {
  PB_ASSERT((int)scheme >= 0 && scheme < pb_schemeCount);

  // A scheme that needs two states of the past begins with one that needs one.
  bool begins = first && table[scheme].history;
  return &table[begins ? pb_schemeImplicitEuler : scheme];
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

  // Positions and velocities, of some schemes those of the state before too, and whether there was one.
  pbDeformState s = {.x = 0, .v = n, .x1 = 2 * n, .v1 = 3 * n, .begun = 4 * n, .size = 2 * n, .tangent = 2 * n};

  if (history) {
    s.size = 4 * n + 1;
    s.tangent = 4 * n;
  }

  return s;
}

bool pbScheme_NeedsAcceleration(const pbSchemeTable *s) { return s->start[pb_pastA] != 0; }
