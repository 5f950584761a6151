// Products of dense matrices beside OpenBLAS on the same core, which may fuse and reorder sums where ours may not.
//
//   products [LIBRARY [ROUNDS]]      OpenBLAS as scipy's wheel brings it; without it our own figures alone. 9 rounds
//
// Rounds alternate between both; a figure is the median of its rounds. weights_gb_s: how fast entries of A are read. Exit
// status 1 where a ratio is less than is required.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pullback/random.h>
#include "linalg/product_kernels.h"

enum { MOST_ROUNDS = 99, ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
static const double ROUND_SECONDS = .02;

typedef void Gemm64(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
typedef void Gemm32(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void Gemv64(int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
typedef void Gemv32(int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef struct Peer {
  Gemm64 *gemm64;
  Gemm32 *gemm32;
  Gemv64 *gemv64;
  Gemv32 *gemv32;
  const char *core;
} Peer;

typedef struct Row {
  const char *what;
  double required;  // of the ratio; 0: nothing
  pbProductShape shape;
  bool single;
} Row;

typedef struct Data {
  void *A, *B, *C, *work;
} Data;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- OpenBLAS -------------------------------------------------------------------------------------------------------
static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    fprintf(stderr, "products: %s is missing: %s\n", name, dlerror());
    exit(1);
  }
  return found;
}

static Peer load(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "products: %s\n", dlerror());
    exit(1);
  }

  ((void (*)(int))symbol(library, "scipy_openblas_set_num_threads"))(1);
  return (Peer){.gemm64 = symbol(library, "scipy_cblas_dgemm"),
                .gemm32 = symbol(library, "scipy_cblas_sgemm"),
                .gemv64 = symbol(library, "scipy_cblas_dgemv"),
                .gemv32 = symbol(library, "scipy_cblas_sgemv"),
                .core = ((char *(*)(void))symbol(library, "scipy_openblas_get_corename"))()};
}

static void theirs(const Peer *peer, const Row *row, const Data *d) {
  const pbProductShape *s = &row->shape;
  int a = s->a_transposed ? TRANSPOSED : PLAIN, b = s->b_transposed ? TRANSPOSED : PLAIN;
  int rows = s->a_transposed ? s->k : s->m, columns = s->a_transposed ? s->m : s->k;
  if (s->n == 1 && row->single) {
    peer->gemv32(ROW_MAJOR, a, rows, columns, 1, d->A, s->lda, d->B, 1, 1, d->C, 1);
  } else if (s->n == 1) {
    peer->gemv64(ROW_MAJOR, a, rows, columns, 1, d->A, s->lda, d->B, 1, 1, d->C, 1);
  } else if (row->single) {
    peer->gemm32(ROW_MAJOR, a, b, s->m, s->n, s->k, 1, d->A, s->lda, d->B, s->ldb, 1, d->C, s->ldc);
  } else {
    peer->gemm64(ROW_MAJOR, a, b, s->m, s->n, s->k, 1, d->A, s->lda, d->B, s->ldb, 1, d->C, s->ldc);
  }
}

static void ours(const Row *row, const Data *d) {
  if (row->single) {
    pbProduct_AddSingle(&row->shape, d->A, d->B, d->C, d->work);
  } else {
    pbProduct_Add(&row->shape, d->A, d->B, d->C, d->work);
  }
}

// ---- figures --------------------------------------------------------------------------------------------------------
static void *numbers(pbRng *r, size_t count, bool single) {
  double *x = aligned_alloc(64, (count * sizeof *x + 63) / 64 * 64);
  for (size_t i = 0; i < count; i++) {
    double value = pbRng_Normal(r);
    if (single) {
      ((float *)x)[i] = (float)value;
    } else {
      x[i] = value;
    }
  }
  return x;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int count) {
  qsort(x, (size_t)count, sizeof *x, ascending);
  return count % 2 ? x[count / 2] : .5 * (x[count / 2 - 1] + x[count / 2]);
}

// Seconds a product: as many repetitions as fill a round.
static double timed(const Peer *peer, const Row *row, const Data *d) {
  double start = seconds(), spent = 0;
  int count = 0;
  for (; spent < ROUND_SECONDS; count++) {
    if (peer) {
      theirs(peer, row, d);
    } else {
      ours(row, d);
    }
    spent = seconds() - start;
  }
  return spent / count;
}

// Whether the ratio is what is required.
static bool measure(const Peer *peer, const Row *row, int rounds) {
  const pbProductShape *s = &row->shape;
  pbRng r = pbRng_Seed(1);
  const Data d = {.A = numbers(&r, (size_t)s->m * (size_t)s->k, row->single),
                  .B = numbers(&r, (size_t)s->n * (size_t)s->k, row->single),
                  .C = numbers(&r, (size_t)s->m * (size_t)s->n, row->single),
                  .work = aligned_alloc(64, pbProduct_WorkBytes(s))};

  double mine[MOST_ROUNDS], others[MOST_ROUNDS];
  for (int k = 0; k < rounds; k++) {
    mine[k] = timed(NULL, row, &d);
    others[k] = peer ? timed(peer, row, &d) : 0;
  }

  double a = median(mine, rounds), b = median(others, rounds);
  double work = 2e-9 * s->m * (double)s->n * s->k, bytes = 1e-9 * s->m * (double)s->k * (row->single ? 4 : 8);
  printf("%s,%s,%d,%d,%d,%.1f,%.2f,%.2f,", row->what, row->single ? "f32" : "f64", s->m, s->n, s->k, 1e6 * a, work / a,
         bytes / a);
  if (peer) {
    printf("%.1f,%.2f,%.3f,", 1e6 * b, work / b, b / a);
  } else {
    printf(",,,");
  }
  if (row->required > 0) printf(">= %.1f", row->required);
  printf("\n");
  fflush(stdout);

  free(d.A);
  free(d.B);
  free(d.C);
  free(d.work);
  return !peer || b / a >= row->required;
}

// Until the processor runs at the speed that it keeps.
static void warm_up(void) {
  pbRng r = pbRng_Seed(2);
  pbProductShape s = {.m = 64, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64};
  const Data d = {.A = numbers(&r, 4096, false),
                  .B = numbers(&r, 4096, false),
                  .C = numbers(&r, 4096, false),
                  .work = aligned_alloc(64, pbProduct_WorkBytes(&s))};
  for (double start = seconds(); seconds() - start < .5;) ours(&(Row){.shape = s}, &d);

  free(d.A);
  free(d.B);
  free(d.C);
  free(d.work);
}

// All shapes in one type of number.
static bool measure_all(const Peer *peer, bool single, int rounds) {
  const int widths[] = {64, 1, 2, 4, 8, 16, 128};
  bool enough = true;
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
    int n = widths[w];
    pbProductShape s = {.m = 1024, .n = n, .k = 1024, .lda = 1024, .ldb = n, .ldc = n};
    double required = n == 64 ? .5 : 0;
    enough &= measure(peer, &(Row){"forward W X", required, s, single}, rounds);
    s.a_transposed = true;
    enough &= measure(peer, &(Row){"pullback W' X", required, s, single}, rounds);
  }

  const pbProductShape gather = {.m = 1024, .n = 1024, .k = 64, .b_transposed = true, .lda = 64, .ldb = 64, .ldc = 1024};
  enough &= measure(peer, &(Row){"gather Y X'", .5, gather, single}, rounds);
  const pbProductShape small = {.m = 16, .n = 64, .k = 81, .lda = 81, .ldb = 64, .ldc = 64};
  enough &= measure(peer, &(Row){"small net", 0, small, single}, rounds);
  return enough;
}

int main(int argc, char **argv) {
  Peer peer = {0};
  if (argc > 1 && *argv[1]) peer = load(argv[1]);
  int rounds = argc > 2 ? atoi(argv[2]) : 9;
  if (rounds < 1 || rounds > MOST_ROUNDS) {
    fprintf(stderr, "products: 1 to %d rounds\n", MOST_ROUNDS);
    return 1;
  }

  printf("# OpenBLAS kernels: %s, one thread\n", peer.core ? peer.core : "none");
  printf("what,type,m,n,k,us,gflops,weights_gb_s,openblas_us,openblas_gflops,ratio,required\n");
  warm_up();
  const Peer *beside = peer.core ? &peer : NULL;
  bool enough = measure_all(beside, false, rounds);
  enough &= measure_all(beside, true, rounds);
  return enough ? 0 : 1;
}
