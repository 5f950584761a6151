// Formulas that use every function of the language, and elements with random numbers for them.
#ifndef ENERGY_CASES_H
#define ENERGY_CASES_H

#include <stdlib.h>

#include <pullback/pullback.h>

#include <pullback/random.h>

typedef struct EnergyCase {
  const char *name, *formula;
  int points, parameter_count;
  pbEnergyParameter parameter[4];
} EnergyCase;

#define SCALAR(n) \
  { .name = n, .rows = 1, .cols = 1 }
#define VEC3(n) \
  { .name = n, .rows = 3, .cols = 1 }
#define MAT3(n) \
  { .name = n, .rows = 3, .cols = 3 }
#define DATA3(n) \
  { .name = n, .rows = 3, .cols = 3, .constant = true }

#define NEO_HOOKEAN "J = det(F); V = det(D)/6; V*(mu/2*(dot(F,F) - 3 - 2*log(J)) + lambda/2*log(J)^2)"
static const EnergyCase energy_cases[] = {
    {"spring", "d = norm(x0 - x1); 0.5*k*(d - norm(X0 - X1))^2", 2, 1, {SCALAR("k")}},
    {"neo-Hookean",
     "D = [X1-X0, X2-X0, X3-X0]\nF = [x1-x0, x2-x0, x3-x0]*inverse(D)\n" NEO_HOOKEAN,
     4,
     2,
     {SCALAR("mu"), SCALAR("lambda")}},
    {"neo-Hookean, data",
     "F = [x1-x0, x2-x0, x3-x0]*B; J = det(F); V*(mu/2*(dot(F,F) - 3 - 2*log(J)) + lambda/2*log(J)^2)",
     4,
     4,
     {SCALAR("mu"), SCALAR("lambda"), {.name = "B", .rows = 3, .cols = 3, .constant = true}, SCALAR("V")}},
    {"gravity", "-m*dot(g, x0)*h^2", 1, 2, {SCALAR("m"), VEC3("g")}},
    {"drag", "0.5*c/h*dot(x0 - y0, x0 - y0)*exp(-t)", 1, 1, {SCALAR("c")}},
    {"quotients", "a = x0.x/x0.y; b = (x0.z + 2)/(x0.x^2 + 1); a*b + 3/x0.y - (x0.x - y0.z)/2", 1, 0, {{0}}},
    {"powers",
     "x0.x^3 + x0.y^-2 + (x0.z + 2)^1.5 + (x0.z + 2)^-0.5 + x0.y^2.3 + pow(x0.y, x0.x) + 2^x0.z + k^(1/3)",
     1,
     1,
     {SCALAR("k")}},
    {"functions",
     "sin(x0.x) * cos(x0.y) + tan(0.3*x0.z) + exp(0.2*x0.x*x0.z) + log(x0.x^2 + 1) + sqrt(x0.y + x0.x^2)",
     1,
     0,
     {{0}}},
    {"inverse functions",
     "s = 0.3*x0.x; asin(s)*acos(0.4*x0.z) + atan(x0.x*x0.z)*atan2(x0.z, x0.y) + atan2(x0.x, -x0.y)",
     1,
     0,
     {{0}}},
    {"hyperbolic functions",
     "s = 0.3*x0.x; sinh(x0.x)*cosh(x0.y*x0.z) + tanh(2*x0.x*x0.z)*asinh(3*x0.y) + atanh(s)*acosh(1.5 + x0.z^2) + expm1(x0.z)",
     1,
     0,
     {{0}}},
    {"curves",
     "erf(x0.x*x0.y) + erfc(2*x0.z + x0.x) + log1p(x0.x^2) + exp2(x0.z*x0.y) + log2(2 + x0.x) - log10(3 + x0.y*x0.z) + "
     "cbrt(x0.x - 5) * cbrt(x0.z + 5) + hypot(x0.x, x0.z + 2)",
     1,
     0,
     {{0}}},
    {"kinks",
     "abs(x0.x) * max(x0.y, x0.z, x0.x) + min(x0.x*x0.y, x0.z) * sign(x0.z) + x0.x*(x0.x < x0.z) - x0.y*(x0.z >= k)",
     1,
     1,
     {SCALAR("k")}},
    {"select",
     "d = x0.x - 0.1; select(d > 0, d^2*log(d), select(d <= -0.3, x0.y^2, x0.z*d^3)) + select(x0.z < 0, x0, 2*y0).y",
     1,
     0,
     {{0}}},
    {"matrices",
     "A = [x0, x1, y0]; B = A*transpose(A) + outer(x0, X1) + identity(3); M = [[k, x0.x], [x1.y, 2 + X0.z]]; "
     "trace(inverse(B)*A) + det(B)/9 + det(M) + trace(inverse(M)) + dot(A*x0, cross(x1, X0)) + norm(B) + B[1,2]*x0[1]",
     2,
     1,
     {SCALAR("k")}},
    {"tall matrices",
     "F = [x1 - x0, x2 - x0]*inverse([[X1.x - X0.x, X1.y - X0.y], [X2.x - X0.x, X2.y - X0.y]]); C = transpose(F)*F; "
     "E = 0.5*(C - identity(2)); mu*dot(E, E) + 0.5*lambda*trace(E)^2",
     3,
     2,
     {SCALAR("mu"), SCALAR("lambda")}},
    {"normalize",
     "n = normalize(cross(x1 - x0, x2 - x0)); m = normalize(cross(x2 - x0, x3 - x0)); k*atan2(dot(cross(n, m), normalize(x2 - "
     "x0)), dot(n, m))^2",
     4,
     1,
     {SCALAR("k")}},
    {"matrix parameter", "dot(A*(x0 - x1), x0 - x1) + trace(A*C)*dot(x0, X0)", 2, 2, {MAT3("A"), DATA3("C")}},
    {"corotated",
     "F = [x1-x0, x2-x0, x3-x0]*B; S = stretches(F); mu*(dot(F, F) - 2*S + 3) + 0.5*lambda*(S - 3)^2 + stretches([[F[0,0], "
     "F[1,0]], "
     "[F[0,1], F[1,1]]])",
     4,
     3,
     {SCALAR("mu"), SCALAR("lambda"), MAT3("B")}},
    {"linear", "3*(x0.x - x1.y) + 2", 2, 0, {{0}}},
    {"freeze",
     "u = x0 - y0; lam = freeze(k*(1 - x0.z + norm(x1))^2); lam*(sqrt(dot(u, u) + 1e-2*h) + x1.x*freeze(x0.y*x1.z))",
     2,
     1,
     {SCALAR("k")}},
};
enum { ENERGY_CASES = sizeof energy_cases / sizeof *energy_cases };

static inline pbEnergyDef energy_def(const EnergyCase *c) {
  return (pbEnergyDef){c->name, c->formula, c->points, c->parameter_count, c->parameter};
}

static inline pbStatus create_case(pbContext *ctx, const EnergyCase *c, pbEnergy **energy) {
  pbEnergyDef def = energy_def(c);
  return pbEnergy_Create(ctx, &def, energy);
}

enum { MESH = 40 };  // vertices
typedef struct EnergyMesh {
  int count, vertex[4 * 200], stride[4];
  double x[3 * MESH], rest[3 * MESH], previous[3 * MESH], w[3 * MESH], parameter[4][9 * 200];
  const double *address[4];
} EnergyMesh;

// Vertices about the corners of a tetrahedron, so that volumes are positive. Parameter i is per element where i is odd.
static inline pbElements energy_mesh(const EnergyCase *c, int count, uint64_t seed, EnergyMesh *m) {
  static const double corner[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  pbRng rng = pbRng_Seed(seed);
  m->count = count;
  for (int v = 0; v < MESH; v++) {
    for (int k = 0; k < 3; k++) {
      double base = corner[v % 4][k] + (k == 1 && c->points < 2 ? 0.9 : 0.2);
      m->x[3 * v + k] = base + 0.4 * pbRng_Uniform(&rng) - 0.2;
      m->rest[3 * v + k] = base + 0.2 * pbRng_Uniform(&rng) - 0.1;
      m->previous[3 * v + k] = base + 0.4 * pbRng_Uniform(&rng) - 0.2;
      m->w[3 * v + k] = pbRng_Normal(&rng);
    }
    if (c->points == 1) {
      m->x[3 * v] -= 0.2;
      m->x[3 * v + 2] += pbRng_Uniform(&rng) - 0.6;
    }
  }
  for (int e = 0; e < count; e++)
    for (int a = 0; a < c->points; a++) m->vertex[e * c->points + a] = 4 * (int)(pbRng_Next(&rng) % (MESH / 4)) + a;
  for (int i = 0; i < c->parameter_count; i++) {
    int size = c->parameter[i].rows * c->parameter[i].cols;
    m->stride[i] = i % 2 ? size : 0;
    m->address[i] = m->parameter[i];
    for (int k = 0; k < 9 * 200; k++)
      m->parameter[i][k] = (size == 9 && k % 9 % 4 == 0 ? 1 : 0) + (size == 9 ? 0.2 : 1) * (0.3 + pbRng_Uniform(&rng));
  }
  return (pbElements){.count = count,
                      .vertex = m->vertex,
                      .x = m->x,
                      .rest = m->rest,
                      .previous = m->previous,
                      .parameter = m->address,
                      .stride = m->stride,
                      .timestep = 0.7,
                      .time = 0.3};
}

#endif
