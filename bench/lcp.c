// Random contact problems solved as complementarity problems: how many, how fast, how well.
//
//   lcp DIMENSION CONTACTS COUNT MU_LOW MU_HIGH [SEED [cones]]
//   lcp MODEL.xml STEPS
//
// DIMENSION 0: 2 or 3 at random. CONTACTS negative: up to that many, fewer more often. A line of figures goes to stdout.
// With a model: its contacts after that many steps, hard and with friction, beside the step with soft contacts and its pullback
// (Newton's method from no acceleration, and from the last step's). Lines "quantity,solve_us,adjoint_us,iterations".
#include <stdio.h>
#include <time.h>

#include <pullback/pullback.h>

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
  free(work);
  free(bar);
  free(at.x);
  free(at.y);
  free(at.z);
  free(at.s);
  free((double *)k.G);
  free((double *)k.h);
}

// ---- beside the soft step ---------------------------------------------------------------------------------------------
enum { REPEATS = 100 };
static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}
static void need(pbStatus status, const char *text) {
  if (status) {
    fprintf(stderr, "lcp: %s: %s\n", pbStatus_Text(status), text);
    exit(1);
  }
}

typedef struct Scene {
  pbContext *ctx;
  pbModel *m;
  pbScratch *s;
  const double *theta;
  double *x, *v, step;
  int nv, contacts;
  double *M, *p, *J, *depth, *mu;  // rows of J: normal and two tangents a contact
} Scene;

static const double *field(Scene *c, const char *name, int *rows) {
  const double *data;
  int own, cols;
  if (!pbScratch_Field(c->s, name, &data, rows ? rows : &own, &cols)) need(pb_bad_argument, name);
  return data;
}
static int state_at(const pbModel *m, const char *name) {
  for (int i = 0; i < pbModel_StateFieldCount(m); i++)
    if (!strcmp(pbModel_StateFieldAt(m, i).name, name)) return pbModel_StateFieldAt(m, i).offset;
  return -1;
}

// M v+ - h f - M v = J'z at the state after `steps` soft steps
static Scene scene_load(const char *file, int steps) {
  Scene c = {.ctx = pbContext_Create(NULL)};
  need(pbModel_Load(c.ctx, file, NULL, &c.m), pbContext_Error(c.ctx));
  need(pbModel_SetOption(c.m, "cone", "elliptic"), pbContext_Error(c.ctx));
  need(pbScratch_Create(c.ctx, c.m, NULL, &c.s), "scratch");
  c.theta = pbModel_DefaultParams(c.m);
  c.x = room(pbModel_StateSize(c.m));
  c.step = .002;
  need(pbState_Init(c.ctx, c.m, c.theta, -1, c.x), "state");
  for (int i = 0; i < steps; i++) need(pbStep_Forward(c.m, c.theta, c.x, NULL, c.s, NULL), pbScratch_Error(c.s));
  need(pbStep_Observe(c.m, c.theta, c.x, NULL, c.s, NULL), pbScratch_Error(c.s));
  need(pbScratch_Gather(c.s), "contacts");
  int rows;
  const double *smooth = field(&c, "qfrc_smooth", &c.nv), *M = field(&c, "M", NULL), *J = field(&c, "efc_J", &rows);
  c.nv = pbModel_TangentSize(c.m) / 2;
  c.contacts = rows / 3;
  size_t n = (size_t)c.nv, m = (size_t)rows;
  c.v = c.x + state_at(c.m, "qvel");
  c.M = room(c.nv * c.nv);
  c.p = room(c.nv);
  c.J = room(rows * c.nv);
  c.depth = room(c.contacts);
  c.mu = room(c.contacts);
  memcpy(c.M, M, n * n * sizeof *M);
  memcpy(c.J, J, m * n * sizeof *J);
  const double *depth = field(&c, "contact_dist", NULL);
  for (int i = 0; i < c.contacts; i++) {
    c.depth[i] = depth[i];
    c.mu[i] = .4;
  }
  for (size_t i = 0; i < n; i++) {
    c.p[i] = -c.step * smooth[i];
    for (size_t j = 0; j < n; j++) c.p[i] -= M[i * n + j] * c.v[j];
  }
  return c;
}

static double least(double *best, double took) { return *best = *best == 0 || took < *best ? took : *best; }

static void soft(Scene *c, bool cold) {
  int nx = pbModel_StateSize(c->m), nt = 2 * c->nv, start = state_at(c->m, "qacc_warmstart");
  double *before = room(nx), *x = room(nx), *g = room(nt), *bar = room(nt), *record = room(pbTape_Size(c->m)), step = 0, back = 0;
  memcpy(before, c->x, sizeof *x * (size_t)nx);
  for (int i = 0; cold && i < c->nv; i++) before[start + i] = 0;
  for (int i = 0; i < nt; i++) g[i] = 1;
  for (int k = 0; k < REPEATS; k++) {
    memcpy(x, before, sizeof *x * (size_t)nx);
    double began = now_us();
    need(pbStep_Forward(c->m, c->theta, x, NULL, c->s, NULL), pbScratch_Error(c->s));
    least(&step, now_us() - began);
    int iterations = pbScratch_Report(c->s).iterations;
    pbTape_Record(c->m, before, c->s, record);
    began = now_us();
    need(pbStep_Vjp(c->m, c->theta, record, NULL, g, NULL, c->s, bar, NULL, NULL), pbScratch_Error(c->s));
    least(&back, now_us() - began);
    if (k + 1 == REPEATS) printf("soft step %s,%.2f,%.2f,%d\n", cold ? "cold" : "warm", step, back, iterations);
  }
  free(before);
  free(x);
  free(g);
  free(bar);
  free(record);
}

// Rows of the hard problem: z pushes along J, s = J x + depth / h - what penetration is left alone (erp .2)
static double target(const Scene *c, int i) { return c->depth[i] > 0 ? c->depth[i] / c->step : .2 * c->depth[i] / c->step; }

static void hard_cones(Scene *c) {
  int n = c->nv, m = 3 * c->contacts;
  double *G = room(m * n), *h = room(m), *bar = room(n), solve = 0, back = 0;
  for (int i = 0; i < m * n; i++) G[i] = -c->J[i];
  for (int i = 0; i < c->contacts; i++) h[3 * i] = target(c, i);
  pbCones k = {.n = n, .contacts = c->contacts, .Q = c->M, .p = c->p, .G = G, .h = h, .mu = c->mu};
  size_t size = pbCones_WorkSize(n, c->contacts, 0);
  void *work = malloc(size);
  pbLcpSolution at = {room(n), NULL, room(m), room(m)};
  pbLcpReport r;
  for (int i = 0; i < REPEATS; i++) {
    double began = now_us();
    need(pbCones_Solve(c->ctx, &k, NULL, work, size, &at, &r), pbContext_Error(c->ctx));
    least(&solve, now_us() - began);
    began = now_us();
    need(pbCones_Vjp(c->ctx, &k, &at, &(pbLcpCotangent){.x = at.x}, work, size, &(pbConesBar){.p = bar}, NULL),
         pbContext_Error(c->ctx));
    least(&back, now_us() - began);
  }
  printf("cones,%.2f,%.2f,%d\n", solve, back, r.iterations);
  free(G);
  free(h);
  free(bar);
  free(work);
  free(at.x);
  free(at.z);
  free(at.s);
}

// Rows in the order normals, four directions a contact, slip speeds
static void hard_lcp(Scene *c) {
  size_t n = (size_t)c->nv, contacts = (size_t)c->contacts, m = 6 * contacts;
  double *G = room((int)(m * n)), *h = room((int)m), *F = room((int)(m * m)), *bar = room(c->nv), solve = 0, back = 0;
  for (size_t i = 0; i < contacts; i++) {
    size_t slip = 5 * contacts + i;
    h[i] = target(c, (int)i);
    F[slip * m + i] = c->mu[i];
    for (size_t j = 0; j < n; j++) G[i * n + j] = -c->J[3 * i * n + j];
    for (size_t d = 0; d < 4; d++) {
      size_t f = contacts + 4 * i + d;
      F[f * m + slip] = 1;
      F[slip * m + f] = -1;
      for (size_t j = 0; j < n; j++) G[f * n + j] = (d % 2 ? 1 : -1) * c->J[(3 * i + 1 + d / 2) * n + j];
    }
  }
  pbLcp l = {.n = c->nv, .m = (int)m, .Q = c->M, .p = c->p, .G = G, .h = h, .F = F};
  size_t size = pbLcp_WorkSize(l.n, l.m, 0);
  void *work = malloc(size);
  pbLcpSolution at = {room(l.n), NULL, room(l.m), room(l.m)};
  pbLcpReport r;
  for (int i = 0; i < REPEATS; i++) {
    double began = now_us();
    need(pbLcp_Solve(c->ctx, &l, NULL, work, size, &at, &r), pbContext_Error(c->ctx));
    least(&solve, now_us() - began);
    began = now_us();
    need(pbLcp_Vjp(c->ctx, &l, &at, &(pbLcpCotangent){.x = at.x}, work, size, &(pbLcpBar){.p = bar}, NULL),
         pbContext_Error(c->ctx));
    least(&back, now_us() - began);
  }
  printf("lcp,%.2f,%.2f,%d\n", solve, back, r.iterations);
  free(G);
  free(h);
  free(F);
  free(bar);
  free(work);
  free(at.x);
  free(at.z);
  free(at.s);
}

static int beside_soft(const char *file, int steps) {
  Scene c = scene_load(file, steps);
  printf("# dof %d\n# contacts %d\n", c.nv, c.contacts);
  soft(&c, true);
  soft(&c, false);
  hard_lcp(&c);
  hard_cones(&c);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3) return beside_soft(argv[1], atoi(argv[2]));
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
      "solved %d of %d (%d by the path), factorizations %.1f (at most %d), %.2f ms (at most %.0f), adjoint %.2f ms; relative "
      "complementarity %.1e, stationarity %.1e, joints %.1e\n",
      t.solved, t.count, t.by_path, t.iterations / t.count, t.most, 1e3 * t.seconds / t.count, 1e3 * t.longest,
      1e3 * t.adjoint / (t.solved ? t.solved : 1), t.complementarity, t.stationarity, t.equality);
  pbContext_Destroy(ctx);
  return t.solved == t.count ? 0 : 1;
}
