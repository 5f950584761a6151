// The neo-Hookean tetrahedron as a formula: what its creation costs, and its Hessian by the interpreter, by the emitted C and
// by second-order dual numbers, on one core.
//
//   energy [COMPILER]        COMPILER: for the emitted C [cc]
//
// Lines "formula,quantity,figure" go to stdout: ms for creation, operations, ns per element for the rest (best of many runs, taken
// in turn). The emitted C is compiled with -O3 -march=x86-64-v3 and some more options; its best counts.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pullback/pullback.h>

#include "energy/energy_inside.h"
#include "tests/unit/energy_cases.h"

// Few enough elements for all results to stay in the second-level cache, whoever wrote last.
enum { COUNT = 256, SIDE = 12, RUNS = 2000 };

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
  s->mu = 3e4;
  s->lambda = 9e4;
  const double *address[] = {&s->mu, &s->lambda, s->shape, s->volume};
  memcpy(s->address, address, sizeof address);
  if (data) {
    s->stride[2] = 9;
    s->stride[3] = 1;
  }
  s->in =
      (pbElements){.count = COUNT, .vertex = s->vertex, .x = s->x, .rest = s->rest, .parameter = s->address, .stride = s->stride};
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
  for (int i = 0; i < 12; i++) {
    X[i].v = x[i];
    X[i].g[i] = 1;
  }
  Dual D[9];
  for (int i = 0; i < 9; i++) D[i] = dual_sum(&X[3 * (i % 3 + 1) + i / 3], -1, &X[i / 3]);
  for (int i = 0; i < 9; i++) {
    F[i] = dual_scale(B[i % 3], &D[i / 3 * 3]);
    F[i] = dual_sum(&F[i], B[3 + i % 3], &D[i / 3 * 3 + 1]);
    F[i] = dual_sum(&F[i], B[6 + i % 3], &D[i / 3 * 3 + 2]);
  }
  Dual m0 = dual_minor(&F[4], &F[8], &F[5], &F[7]), m1 = dual_minor(&F[5], &F[6], &F[3], &F[8]),
       m2 = dual_minor(&F[3], &F[7], &F[4], &F[6]);
  Dual J = dual_times(&F[0], &m0);
  term = dual_times(&F[1], &m1);
  J = dual_sum(&J, 1, &term);
  term = dual_times(&F[2], &m2);
  J = dual_sum(&J, 1, &term);
  sum = dual_times(&F[0], &F[0]);
  for (int i = 1; i < 9; i++) {
    term = dual_times(&F[i], &F[i]);
    sum = dual_sum(&sum, 1, &term);
  }
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
typedef void (*Emitted)(int, const int *, const double *, const double *, const double *, const double *const *, const int *,
                        double, double, double *, double *, double *);

// Text compiled to a shared object and loaded; NULL with a complaint where that fails.
static Emitted compile(const char *text, const char *compiler, const char *flags) {
  char source[] = "/tmp/pullback-energy-XXXXXX", command[512], object[64];
  int file = mkstemp(source);
  FILE *stream = file < 0 ? NULL : fdopen(file, "w");
  if (!stream || fputs(text, stream) < 0 || fclose(stream)) return NULL;
  snprintf(object, sizeof object, "%s.so", source);
  snprintf(command, sizeof command,
           "%s -O3 -march=x86-64-v3 -fno-math-errno -fno-trapping-math %s -w -shared -fPIC -x c %s -o %s -lm", compiler, flags,
           source, object);
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

static Scene scene;
static Results results, other;

typedef struct
    Contest {  // seconds of the fastest run of each; turns are taken, so that what else the machine does meets all alike
  double value, gradient, hessian, emitted[4], dual;
} Contest;
static const char *const emit_flags[] = {"-ffp-contract=off -DPB_LANES=4", "-ffp-contract=fast -DPB_LANES=4",
                                         "-ffp-contract=off -DPB_LANES=8", "-ffp-contract=fast -DPB_LANES=8"};

#define TIMED(best, statement)                       \
  do {                                               \
    double start = now();                            \
    statement;                                       \
    double took = now() - start;                     \
    if ((best) == 0 || took < (best)) (best) = took; \
  } while (0)

static void one_turn(const pbEnergy *e, const Emitted *emitted, void *work, bool with_duals, Contest *c) {
  const pbElements *in = &scene.in;
  TIMED(c->value, pbEnergy_Evaluate(e, in, &(pbElementsOut){.value = results.value}, work, NULL));
  TIMED(c->gradient, pbEnergy_Evaluate(e, in, &(pbElementsOut){results.value, results.gradient, NULL}, work, NULL));
  TIMED(c->hessian, pbEnergy_Evaluate(e, in, &(pbElementsOut){results.value, results.gradient, results.hessian}, work, NULL));
  for (int k = 0; k < 4; k++)
    TIMED(c->emitted[k], emitted[k](COUNT, in->vertex, in->x, in->rest, NULL, in->parameter, in->stride, 0, 0, other.value,
                                    other.gradient, other.hessian));
  if (with_duals) TIMED(c->dual, by_duals(&scene, &other));
}

static void agree(const char *what, double tolerance) {
  double off = difference(&results, &other);
  if (off <= tolerance) return;
  fprintf(stderr, "energy: %s: the Hessian is off by %.1e\n", what, off);
  exit(1);
}

static double creation_time(pbContext *ctx, const pbEnergyDef *def, pbEnergy **e) {
  double best = 0;
  for (int i = 0; i < 20; i++) {
    pbEnergy_Destroy(*e);
    TIMED(best, if (pbEnergy_Create(ctx, def, e)) exit(1));
  }
  return best;
}

static void measure(pbContext *ctx, const EnergyCase *form, const char *label, bool data, const char *compiler) {
  pbEnergyDef def = energy_def(form);
  pbEnergy *e = NULL;
  Contest c = {0};
  Emitted emitted[4];
  double created = creation_time(ctx, &def, &e), least = 1;
  char *text = pbEnergy_EmitC(e, "tet");
  void *work = malloc(pbEnergy_WorkSize(e));
  make_scene(&scene, data);
  for (int k = 0; k < 4; k++)
    if (!(emitted[k] = compile(text, compiler, emit_flags[k]))) exit(1);
  for (int run = 0; run < RUNS; run++) one_turn(e, emitted, work, run % 10 == 0, &c);
  by_duals(&scene, &other);
  agree("dual numbers", 1e-12);
  emitted[1](COUNT, scene.vertex, scene.x, scene.rest, NULL, scene.address, scene.stride, 0, 0, other.value, other.gradient,
             other.hessian);
  agree("emitted C", 1e-13);
  printf("%s,creation ms,%.2f\n%s,operations,%d\n%s,slots,%d\n", label, 1e3 * created, label, e->hessian.count, label,
         e->hessian.slots);
  double ns = 1e9 / COUNT;
  printf("%s,value ns,%.1f\n%s,gradient ns,%.1f\n%s,hessian ns,%.1f\n", label, ns * c.value, label, ns * c.gradient, label,
         ns * c.hessian);
  for (int k = 0; k < 4; k++) {
    printf("%s,emitted C (%s) ns,%.1f\n", label, emit_flags[k], ns * c.emitted[k]);
    least = c.emitted[k] < least ? c.emitted[k] : least;
  }
  printf("%s,dual numbers ns,%.1f\n", label, ns * c.dual);
  printf("%s,interpreted / emitted,%.2f\n%s,dual numbers / interpreted,%.1f\n", label, c.hessian / least, label,
         c.dual / c.hessian);
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
