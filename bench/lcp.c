// Random contact problems solved as complementarity problems: how many, how fast, how well.
//
//   lcp DIMENSION CONTACTS COUNT MU_LOW MU_HIGH [SEED [cones]]
//
// DIMENSION 0: 2 or 3 at random. CONTACTS negative: up to that many, fewer more often. A line of figures goes to stdout.
#include <stdio.h>
#include <time.h>

#include "tests/unit/lcp_instances.h"

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Tally {
  int count, solved, by_path, most;
  double iterations, seconds, longest, complementarity, equality, stationarity, adjoint;
} Tally;

static double *room(int n) { return calloc((size_t)n + 1, sizeof(double)); }

static void one(pbContext *ctx, const Instance *c, bool cones, Tally *t) {
  pbLcp l = instance_problem(c);
  pbCones k = cones ? instance_cones(c) : (pbCones){0};
  int m = cones ? 3 * c->contacts : l.m;
  size_t size = cones ? pbCones_WorkSize(k.n, k.contacts, k.e) : pbLcp_WorkSize(l.n, l.m, l.e);
  void *work = malloc(size);
  pbLcpSolution at = {room(l.n), room(l.e), room(m), room(m)};
  pbLcpReport r;
  double start = seconds();
  pbStatus status = cones ? pbCones_Solve(ctx, &k, NULL, work, size, &at, &r) : pbLcp_Solve(ctx, &l, NULL, work, size, &at, &r);
  double took = seconds() - start, *bar = room(l.n);
  t->count++;
  t->seconds += took;
  t->iterations += r.iterations;
  if (took > t->longest) t->longest = took;
  if (r.iterations > t->most) t->most = r.iterations;
  if (status) {
    fprintf(stderr, "instance %d, %d bodies, %d contacts: %s\n", t->count - 1, c->bodies, c->contacts, pbContext_Error(ctx));
  } else {
    t->solved++;
    t->by_path += r.method == pb_lcpPath;
    t->complementarity = fmax(t->complementarity, r.complementarity / r.scale);
    t->equality = fmax(t->equality, r.equality);
    t->stationarity = fmax(t->stationarity, r.stationarity / r.scale);
    start = seconds();
    pbLcpCotangent g = {.x = at.x};
    status = cones ? pbCones_Vjp(ctx, &k, &at, &g, work, size, &(pbConesBar){.p = bar}, NULL)
                   : pbLcp_Vjp(ctx, &l, &at, &g, work, size, &(pbLcpBar){.p = bar}, NULL);
    t->adjoint += seconds() - start;
    if (status) fprintf(stderr, "instance %d, adjoint: %s\n", t->count - 1, pbContext_Error(ctx));
  }
  free(work), free(bar), free(at.x), free(at.y), free(at.z), free(at.s), free((double *)k.G), free((double *)k.h);
}

int main(int argc, char **argv) {
  if (argc < 6) return fprintf(stderr, "lcp DIMENSION CONTACTS COUNT MU_LOW MU_HIGH [SEED [cones]]\n"), 2;
  int dim = atoi(argv[1]), contacts = atoi(argv[2]), count = atoi(argv[3]);
  bool cones = argc > 7;
  pbRng rng = pbRng_Seed(argc > 6 ? (uint64_t)atoll(argv[6]) : 1);
  pbContext *ctx = pbContext_Create(NULL);
  Tally t = {0};
  for (int i = 0; i < count; i++) {
    Kind kind = (Kind)below(&rng, kind_count);
    double u = pbRng_Uniform(&rng);
    int c = contacts < 0 ? (int)(u * u * u * (1 - contacts)) : contacts, d = cones ? 3 : dim ? dim : 2 + below(&rng, 2);
    int corners = d == 2 ? 2 : 4, bodies = 1 + below(&rng, c < 5 ? 5 : c < 50 ? c : 50);
    if (kind == kind_stack) bodies = (c + corners) / corners / (1 + below(&rng, 2)) + 1;
    Instance w = instance_make(&rng, d, bodies < 50 ? bodies : 50, c, atof(argv[4]), atof(argv[5]), kind, below(&rng, 2), 100);
    one(ctx, &w, cones, &t);
    instance_free(&w);
  }
  printf(
      "solved %d of %d (%d by the path), factorisations %.1f (at most %d), %.2f ms (at most %.0f), adjoint %.2f ms; relative "
      "complementarity %.1e, stationarity %.1e, joints %.1e\n",
      t.solved, t.count, t.by_path, t.iterations / t.count, t.most, 1e3 * t.seconds / t.count, 1e3 * t.longest,
      1e3 * t.adjoint / (t.solved ? t.solved : 1), t.complementarity, t.stationarity, t.equality);
  pbContext_Destroy(ctx);
  return t.solved == t.count ? 0 : 1;
}
