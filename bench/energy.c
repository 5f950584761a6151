// The neo-Hookean tetrahedron as a formula: what its creation costs, and its Hessian by the interpreter, by the emitted C and
// by second-order dual numbers, on one core.
//
//   energy [COMPILER]        COMPILER: for the emitted C [cc]
//
// Lines "formula,quantity,figure" go to stdout: ms for creation, operations, ns per element for the rest (best of many runs).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pullback/pullback.h>

#include "energy/energy_inside.h"
#include "tests/unit/energy_cases.h"

enum { COUNT = 1024, SIDE = 12, RUNS = 60 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Scene {
  pbElements in;
  int vertex[4 * COUNT];
  double x[12 * COUNT], rest[12 * COUNT], shape[9 * COUNT], volume[COUNT], mu, lambda;
  const double *address[4];
  int stride[4];
} Scene;
typedef struct Results {
  double value[COUNT], gradient[COUNT * SIDE], hessian[COUNT * SIDE * SIDE];
} Results;

// inverse(m), row-major; returns the determinant
static double inverse(const double *m, double *out) {
  double c[9];
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      int i1 = (i + 1) % 3, i2 = (i + 2) % 3, j1 = (j + 1) % 3, j2 = (j + 2) % 3;
      c[3 * i + j] = m[3 * i1 + j1] * m[3 * i2 + j2] - m[3 * i1 + j2] * m[3 * i2 + j1];
    }
  double det = m[0] * c[0] + m[1] * c[1] + m[2] * c[2];
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) out[3 * i + j] = c[3 * j + i] / det;
  return det;
}

static void make_scene(Scene *s, bool data) {
  static const double corner[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  pbRng rng = pbRng_Seed(5);
  for (int i = 0; i < 4 * COUNT; i++) s->vertex[i] = i;
  for (int i = 0; i < 12 * COUNT; i++) {
    s->rest[i] = corner[i / 3 % 4][i % 3] + 0.2 * pbRng_Uniform(&rng);
    s->x[i] = s->rest[i] + 0.2 * pbRng_Uniform(&rng);
  }
  for (int e = 0; e < COUNT; e++) {
    const double *X = s->rest + 12 * e;
    double D[9];
    for (int i = 0; i < 9; i++) D[i] = X[3 * (i % 3 + 1) + i / 3] - X[i / 3];
    s->volume[e] = inverse(D, s->shape + 9 * e) / 6;
  }
  s->mu = 3e4, s->lambda = 9e4;
  const double *address[] = {&s->mu, &s->lambda, s->shape, s->volume};
  memcpy(s->address, address, sizeof address);
  if (data) s->stride[2] = 9, s->stride[3] = 1;
  s->in = (pbElements){COUNT, s->vertex, s->x, s->rest, NULL, s->address, s->stride, 0, 0};
}

// ---- second-order dual numbers --------------------------------------------------------------------------------------------
// Value, gradient and the lower triangle of the Hessian by 12 variables, carried through every operation.
#pragma GCC push_options
#pragma GCC target("avx2,fma")
enum { TRIANGLE = SIDE * (SIDE + 1) / 2 };
typedef struct Dual {
  double v, g[SIDE], h[TRIANGLE];
} Dual;

static inline Dual dual_sum(const Dual *a, double f, const Dual *b) {
  Dual r = {.v = a->v + f * b->v};
  for (int i = 0; i < SIDE; i++) r.g[i] = a->g[i] + f * b->g[i];
  for (int k = 0; k < TRIANGLE; k++) r.h[k] = a->h[k] + f * b->h[k];
  return r;
}
static inline Dual dual_times(const Dual *a, const Dual *b) {
  Dual r = {.v = a->v * b->v};
  for (int i = 0; i < SIDE; i++) r.g[i] = a->v * b->g[i] + b->v * a->g[i];
  for (int i = 0, k = 0; i < SIDE; k += ++i)
    for (int j = 0; j <= i; j++) r.h[k + j] = a->v * b->h[k + j] + b->v * a->h[k + j] + a->g[i] * b->g[j] + a->g[j] * b->g[i];
  return r;
}
static inline Dual dual_scale(double f, const Dual *a) {
  Dual r = {.v = f * a->v};
  for (int i = 0; i < SIDE; i++) r.g[i] = f * a->g[i];
  for (int k = 0; k < TRIANGLE; k++) r.h[k] = f * a->h[k];
  return r;
}
static inline Dual dual_log(const Dual *a) {
  double s = 1 / a->v;
  Dual r = {.v = log(a->v)};
  for (int i = 0; i < SIDE; i++) r.g[i] = s * a->g[i];
  for (int i = 0, k = 0; i < SIDE; k += ++i)
    for (int j = 0; j <= i; j++) r.h[k + j] = s * a->h[k + j] - r.g[i] * r.g[j];
  return r;
}
static inline Dual dual_minor(const Dual *a, const Dual *b, const Dual *c, const Dual *d) {
  Dual p = dual_times(a, b), q = dual_times(c, d);
  return dual_sum(&p, -1, &q);
}

// V (mu/2 (F:F - 3 - 2 log J) + lambda/2 log(J)^2), F = [x1-x0, x2-x0, x3-x0] B
static Dual dual_energy(const double *x, const double *B, double V, double mu, double lambda) {
  Dual X[12] = {{0}}, F[9], sum, term;
  for (int i = 0; i < 12; i++) X[i].v = x[i], X[i].g[i] = 1;
  Dual D[9];
  for (int i = 0; i < 9; i++) D[i] = dual_sum(&X[3 * (i % 3 + 1) + i / 3], -1, &X[i / 3]);
  for (int i = 0; i < 9; i++) {
    F[i] = dual_scale(B[i % 3], &D[i / 3 * 3]);
    F[i] = dual_sum(&F[i], B[3 + i % 3], &D[i / 3 * 3 + 1]);
    F[i] = dual_sum(&F[i], B[6 + i % 3], &D[i / 3 * 3 + 2]);
  }
  Dual m0 = dual_minor(&F[4], &F[8], &F[5], &F[7]), m1 = dual_minor(&F[5], &F[6], &F[3], &F[8]), m2 = dual_minor(&F[3], &F[7], &F[4], &F[6]);
  Dual J = dual_times(&F[0], &m0);
  term = dual_times(&F[1], &m1), J = dual_sum(&J, 1, &term);
  term = dual_times(&F[2], &m2), J = dual_sum(&J, 1, &term);
  sum = dual_times(&F[0], &F[0]);
  for (int i = 1; i < 9; i++) term = dual_times(&F[i], &F[i]), sum = dual_sum(&sum, 1, &term);
  Dual l = dual_log(&J), l2 = dual_times(&l, &l);
  sum.v -= 3;
  sum = dual_sum(&sum, -2, &l);
  sum = dual_scale(mu / 2, &sum);
  sum = dual_sum(&sum, lambda / 2, &l2);
  return dual_scale(V, &sum);
}

static void by_duals(const Scene *s, Results *r) {
  for (int e = 0; e < COUNT; e++) {
    Dual d = dual_energy(s->x + 12 * e, s->shape + 9 * e, s->volume[e], s->mu, s->lambda);
    r->value[e] = d.v;
    memcpy(r->gradient + e * SIDE, d.g, sizeof d.g);
    double *H = r->hessian + e * SIDE * SIDE;
    for (int i = 0, k = 0; i < SIDE; i++)
      for (int j = 0; j <= i; j++, k++) H[i * SIDE + j] = H[j * SIDE + i] = d.h[k];
  }
}
#pragma GCC pop_options

// ---- measuring ----------------------------------------------------------------------------------------------------------
typedef void (*Emitted)(int, const int *, const double *, const double *, const double *, const double *const *, const int *, double,
                        double, double *, double *, double *);

// Text compiled to a shared object and loaded; NULL with a complaint where that fails.
static Emitted compile(const char *text, const char *compiler, const char *flags) {
  char source[] = "/tmp/pullback-energy-XXXXXX", command[512], object[64];
  int file = mkstemp(source);
  FILE *stream = file < 0 ? NULL : fdopen(file, "w");
  if (!stream || fputs(text, stream) < 0 || fclose(stream)) return NULL;
  snprintf(object, sizeof object, "%s.so", source);
  snprintf(command, sizeof command, "%s -O3 -march=x86-64-v3 -fno-math-errno -fno-trapping-math %s -w -shared -fPIC -x c %s -o %s -lm",
           compiler, flags, source, object);
  void *library = system(command) == 0 ? dlopen(object, RTLD_NOW) : NULL;
  unlink(source);
  unlink(object);
  if (!library) fprintf(stderr, "energy: %s does not compile the emitted C\n", compiler);
  return library ? (Emitted)(intptr_t)dlsym(library, "tet_hessian") : NULL;
}

static double difference(const Results *a, const Results *b) {
  double worst = 0, size = 0;
  for (int i = 0; i < COUNT * SIDE * SIDE; i++) {
    double d = a->hessian[i] - b->hessian[i];
    worst = d > worst ? d : -d > worst ? -d : worst;
    size = a->hessian[i] > size ? a->hessian[i] : size;
  }
  return worst / size;
}

#define BEST(statement)                       \
  ({                                          \
    double best = 1e9;                        \
    for (int run = 0; run < RUNS; run++) {    \
      double began = now();                   \
      statement;                              \
      double took = now() - began;            \
      best = took < best ? took : best;       \
    }                                         \
    best / COUNT * 1e9;                       \
  })

static Scene scene;
static Results results, other;

static void measure(pbContext *ctx, const EnergyCase *c, const char *label, bool data, const char *compiler) {
  pbEnergyDef def = energy_def(c);
  pbEnergy *e = NULL;
  double began = now(), creation = 1e9;
  for (int i = 0; i < 5; i++) {
    pbEnergy_Destroy(e);
    began = now();
    if (pbEnergy_Create(ctx, &def, &e)) fprintf(stderr, "%s\n", pbContext_Error(ctx)), exit(1);
    creation = now() - began < creation ? now() - began : creation;
  }
  make_scene(&scene, data);
  void *work = malloc(pbEnergy_WorkSize(e));
  printf("%s,creation ms,%.2f\n", label, 1e3 * creation);
  printf("%s,operations,%d\n%s,slots,%d\n", label, e->hessian.count, label, e->hessian.slots);
  pbElementsOut value = {.value = results.value}, gradient = {.value = results.value, .gradient = results.gradient};
  pbElementsOut all = {results.value, results.gradient, results.hessian};
  printf("%s,value ns,%.1f\n", label, BEST(pbEnergy_Evaluate(e, &scene.in, &value, work, NULL)));
  printf("%s,gradient ns,%.1f\n", label, BEST(pbEnergy_Evaluate(e, &scene.in, &gradient, work, NULL)));
  double interpreted = BEST(pbEnergy_Evaluate(e, &scene.in, &all, work, NULL));
  printf("%s,hessian ns,%.1f\n", label, interpreted);
  char *text = pbEnergy_EmitC(e, "tet");
  static const char *const flags[] = {"-ffp-contract=off -DPB_LANES=4", "-ffp-contract=fast -DPB_LANES=4", "-ffp-contract=off -DPB_LANES=8", "-ffp-contract=fast -DPB_LANES=8"};
  double emitted = 1e9;
  for (int k = 0; k < 4; k++) {
    Emitted f = compile(text, compiler, flags[k]);
    if (!f) continue;
    double took = BEST(f(COUNT, scene.vertex, scene.x, scene.rest, NULL, scene.address, scene.stride, 0, 0, other.value, other.gradient, other.hessian));
    printf("%s,emitted C (%s) ns,%.1f\n", label, flags[k], took);
    if (difference(&results, &other) > 1e-13) fprintf(stderr, "energy: the emitted C differs by %.1e\n", difference(&results, &other)), exit(1);
    emitted = took < emitted ? took : emitted;
  }
  double dual = BEST(by_duals(&scene, &other));
  if (difference(&results, &other) > 1e-12) fprintf(stderr, "energy: dual numbers differ by %.1e\n", difference(&results, &other)), exit(1);
  printf("%s,emitted C ns,%.1f\n%s,dual numbers ns,%.1f\n", label, emitted, label, dual);
  printf("%s,interpreted / emitted,%.2f\n%s,dual numbers / interpreted,%.1f\n", label, interpreted / emitted, label, dual / interpreted);
  pbContext_Free(ctx, text);
  free(work);
  pbEnergy_Destroy(e);
}

int main(int argc, char **argv) {
  const char *compiler = argc > 1 ? argv[1] : "cc";
  pbContext *ctx = pbContext_Create(NULL);
  measure(ctx, &energy_cases[1], "rest positions", false, compiler);
  measure(ctx, &energy_cases[2], "data", true, compiler);
  pbContext_Destroy(ctx);
  return 0;
}
