// The potentials as formulas. '@' stands for the position that distances are taken at: x, or y for lagged friction.
// Tests: tests/unit/test_barrier.c.
#include <string.h>

#include "barrier/parts.h"
#include "base/assert.h"

const int pbStencil_Points[pb_stencilTypes] = {2, 3, 4, 4, 4, 4, 4};

static const char *const names[pb_stencilTypes] = {"point-point",
                                                   "point-edge",
                                                   "point-triangle",
                                                   "edge-edge",
                                                   "edge-edge, parallel, point-edge",
                                                   "edge-edge, parallel, point-point",
                                                   "point-plane"};

// Squared distance: d2, and for planes the side (a point behind is outside of the logarithm's domain).
static const char *const distance[pb_stencilTypes] = {
    "r = @0 - @1; d2 = dot(r, r)",
    "e = @2 - @1; q = cross(@0 - @1, e); d2 = dot(q, q)/dot(e, e)",
    "N = cross(@2 - @1, @3 - @1); d2 = dot(@0 - @1, N)^2/dot(N, N)",
    "N = cross(@1 - @0, @3 - @2); d2 = dot(@0 - @2, N)^2/dot(N, N)",
    "e = @3 - @2; q = cross(@0 - @2, e); d2 = dot(q, q)/dot(e, e)",
    "r = @0 - @2; d2 = dot(r, r)",
    "N = cross(@2 - @1, @3 - @1); z = dot(@0 - @1, N); d2 = z*abs(z)/dot(N, N)",
};

// m: 1, and for edges smoothly to 0 where their cross product squared falls below 1e-3 |E1|^2 |E2|^2 of the rest positions
static const char mollifier[] =
    "K = cross(@1 - @0, @3 - @2); c = dot(K, K)/(1e-3*dot(X1 - X0, X1 - X0)*dot(X3 - X2, X3 - X2));"
    "m = select(c < 1, c*(2 - c), 1)";
static const char no_mollifier[] = "m = 1";

static const char scaled[] = "S = dhat*(dhat + 2*xi); s = (d2 - xi^2)/S";
static const char barrier[] = "-weight*kappa*m*dhat^2*select(s < 1, (1 - s)^2*log(s), 0)";

// Force between the closest points, -dE/dd
static const char normal_force[] =
    "lam = freeze(2*weight*kappa*m*dhat^2*sqrt(d2)/S*select(s < 1, (1 - s)^2/s - 2*(1 - s)*log(s), 0))";

// Unit normal n and how far the closest points, as material points, have moved against each other since the start of the step: u.
static const char *const slide[pb_stencilTypes] = {
    "n = freeze(r/norm(r)); u = (x0 - y0) - (x1 - y1)",
    "w = freeze(dot(@0 - @1, e)/dot(e, e)); r = @0 - @1 - w*e; n = freeze(r/norm(r));"
    "u = (x0 - y0) - (1 - w)*(x1 - y1) - w*(x2 - y2)",
    "n = freeze(N/norm(N)); r = @0 - @1;"
    "v = freeze(dot(cross(r, @3 - @1), N)/dot(N, N)); w = freeze(dot(cross(@2 - @1, r), N)/dot(N, N));"
    "u = (x0 - y0) - (1 - v - w)*(x1 - y1) - v*(x2 - y2) - w*(x3 - y3)",
    "n = freeze(N/norm(N)); r = @0 - @2;"
    "v = freeze(-dot(r, cross(@3 - @2, N))/dot(N, N)); w = freeze(-dot(r, cross(@1 - @0, N))/dot(N, N));"
    "u = (1 - v)*(x0 - y0) + v*(x1 - y1) - (1 - w)*(x2 - y2) - w*(x3 - y3)",
    "w = freeze(dot(@0 - @2, e)/dot(e, e)); r = @0 - @2 - w*e; n = freeze(r/norm(r));"
    "u = (x0 - y0) - (1 - w)*(x2 - y2) - w*(x3 - y3)",
    "n = freeze(r/norm(r)); u = (x0 - y0) - (x2 - y2)",
    "n = freeze(N/norm(N)); r = @0 - @1;"
    "v = freeze(dot(cross(r, @3 - @1), N)/dot(N, N)); w = freeze(dot(cross(@2 - @1, r), N)/dot(N, N));"
    "u = (x0 - y0) - (1 - v - w)*(x1 - y1) - v*(x2 - y2) - w*(x3 - y3)",
};

// f0 of the sliding speed, which is kept from zero by what is below rounding beside eps_v: the root has a derivative at rest.
static const char sliding[] =
    "T = (u - n*dot(n, u))/h; V = sqrt(dot(T, T) + (1e-10*eps_v)^2);"
    "h*mu*lam*select(V < eps_v, V^2/eps_v*(1 - V/(3*eps_v)) + eps_v/3, V)";

typedef struct Text {
  char text[2048];
  size_t used;
} Text;

// Adds a statement; '@' becomes `at`, freeze() is left out where what is inside does not depend on x anyway.
static void add_statement(Text *t, const char *piece, char at) {
  for (; *piece; piece++) {
    // Positions of the start of the step are no variables: they need no freeze.
    if (at == 'y' && strncmp(piece, "freeze(", 7) == 0) piece += 6;
    PB_ASSERT(t->used + 2 < sizeof t->text);
    t->text[t->used] = *piece == '@' ? at : *piece;
    t->used++;
  }

  t->text[t->used++] = ';';
  t->text[t->used] = 0;
}

static bool has_mollifier(pbStencilType type) { return type == pb_stencilEE || type == pb_stencilEPE || type == pb_stencilEPP; }

static void add_distance(Text *t, pbStencilType type, char at) {
  // Squared distance, fading where edges are parallel, and both by the gap at which forces begin.
  add_statement(t, distance[type], at);
  add_statement(t, has_mollifier(type) ? mollifier : no_mollifier, at);
  add_statement(t, scaled, at);
}

static const pbEnergyParameter parameters[pb_stencilParameters] = {
    {.name = "weight", .unit = "", .rows = 1, .cols = 1, .constant = true},
    {.name = "kappa", .unit = "N/m", .rows = 1, .cols = 1},
    {.name = "xi", .unit = "m", .rows = 1, .cols = 1},
    {.name = "dhat", .unit = "m", .rows = 1, .cols = 1},
    {.name = "mu", .unit = "", .rows = 1, .cols = 1},
    {.name = "eps_v", .unit = "m/s", .rows = 1, .cols = 1}};

static pbStatus create_energy(pbContext *ctx, const Text *t, pbStencilType type, int count, pbEnergy **energy) {
  pbEnergyDef def = {.name = names[type],
                     .formula = t->text,
                     .points = pbStencil_Points[type],
                     .parameter_count = count,
                     .parameters = parameters};

  return pbEnergy_Create(ctx, &def, energy);
}

pbStatus pbCollision_MakeEnergies(pbCollision *c) {
  for (pbStencilType type = 0; type < pb_stencilTypes; type++) {
    // The barrier, of the first parameters alone.
    Text t = {.used = 0};
    add_distance(&t, type, 'x');
    add_statement(&t, barrier, 'x');
    PB_TRY(create_energy(c->ctx, &t, type, pb_parameterMu, &c->contact_energy[type]));

    if (c->friction == pb_barrierNone) continue;

    // The same distance, of the start of the step or of its end, gives the normal force; the sliding is that of the step.
    char at = c->friction == pb_barrierLagged ? 'y' : 'x';
    t = (Text){.used = 0};
    add_distance(&t, type, at);
    add_statement(&t, normal_force, at);
    add_statement(&t, slide[type], at);
    add_statement(&t, sliding, at);
    PB_TRY(create_energy(c->ctx, &t, type, pb_stencilParameters, &c->friction_energy[type]));
  }

  return pb_ok;
}
